"""A bootstrap particle filter with systematic resampling.

Origin: Gordon, Salmond, Smith, "Novel approach to nonlinear/non-Gaussian Bayesian state
estimation", 1993 (its growth model); Labbe, *Kalman and Bayesian Filters in Python*, chapter 12.
"""

#: Tolerances of results that depend on the generator: five standard deviations over seeds.
STATISTICS = {"error": 0.75, "effective": 0.05}


def main(np):
    """Follow a state whose square alone is measured."""
    rng = np.random.default_rng(7)
    steps, n = 60, 400

    def transition(x, k):
        return 0.5 * x + 25 * x / (1 + x**2) + 8 * np.cos(1.2 * k)

    truth = np.zeros(steps)
    measured = np.zeros(steps)
    x = 0.1
    for k in range(steps):
        x = transition(x, k) + 0.5 * np.sin(19.0 * k)
        truth[k] = x
        measured[k] = x**2 / 20 + 0.5 * np.cos(23.0 * k)

    def systematic(weights):
        positions = (rng.random() + np.arange(n)) / n
        cumulative = np.cumsum(weights)
        indexes = np.zeros(n, dtype=int)
        i, j = 0, 0
        while i < n and j < n:
            if positions[i] < cumulative[j]:
                indexes[i] = j
                i += 1
            else:
                j += 1
        return indexes

    particles = rng.normal(0.0, 2.0, n)
    weights = np.ones(n) / n
    estimates, effective = [], []
    for k in range(steps):
        particles = transition(particles, k) + rng.normal(0.0, 1.0, n)
        weights = weights * np.exp(-0.5 * (measured[k] - particles**2 / 20) ** 2) + 1e-300
        weights /= weights.sum()
        estimates.append(np.sum(weights * particles))
        n_effective = 1.0 / np.sum(weights**2)
        effective.append(n_effective / n)
        if n_effective < n / 2:
            particles = particles[systematic(weights)]
            weights = np.ones(n) / n
    error = np.sqrt(np.mean((np.array(estimates) - truth) ** 2))
    return {"error": error, "effective": np.mean(effective)}
