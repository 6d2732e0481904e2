"""Bayesian regression by the Metropolis algorithm.

Origin: Gelman et al., *Bayesian Data Analysis*, 3rd edition, section 11.2; in the form of the
common tutorials "MCMC from scratch in Python".
"""

#: Tolerances of results that depend on the generator: five standard deviations over seeds.
STATISTICS = {"slope": 0.035, "intercept": 0.21, "accepted": 0.05}


def main(np):
    """Fit a line through noisy points."""
    x = np.linspace(0, 10, 30)
    y = 2.5 * x + 1.0 + np.sin(7 * x)  # "noise" that is the same everywhere

    def log_posterior(theta):
        slope, intercept, log_sigma = theta
        sigma = np.exp(log_sigma)
        residual = y - (slope * x + intercept)
        log_likelihood = -0.5 * np.sum((residual / sigma) ** 2) - len(x) * log_sigma
        log_prior = -0.5 * (slope**2 + intercept**2) / 100 - 0.5 * log_sigma**2
        return log_likelihood + log_prior

    rng = np.random.default_rng(42)
    step = np.array([0.05, 0.25, 0.1])
    current = np.array([2.0, 0.0, 0.0])
    current_log = log_posterior(current)
    n = 3000
    chain = np.empty((n, 3))
    accepted = 0
    for i in range(n):
        proposal = current + step * rng.normal(size=3)
        proposal_log = log_posterior(proposal)
        if np.log(rng.random()) < proposal_log - current_log:
            current, current_log = proposal, proposal_log
            accepted += 1
        chain[i] = current
    kept = chain[500:]
    mean = kept.mean(axis=0)
    return {"slope": mean[0], "intercept": mean[1], "accepted": accepted / n}
