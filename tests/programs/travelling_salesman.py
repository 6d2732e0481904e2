"""The travelling salesman by simulated annealing.

Origin: Kirkpatrick, Gelatt, Vecchi, "Optimization by Simulated Annealing", 1983; Press et al.,
*Numerical Recipes*, section 10.12.
"""

#: Tolerances of results that depend on the generator: five standard deviations over seeds.
STATISTICS = {"length": 0.77, "accepted": 0.035}


def main(np):
    """Shorten a tour of cities."""
    n = 30
    k = np.arange(n)
    cities = np.stack([(k * 0.6180339887) % 1.0, (k * 0.7548776662) % 1.0], axis=1) * 4
    distance = np.sqrt(((cities[:, None] - cities[None, :]) ** 2).sum(-1))

    def length(tour):
        total = 0.0
        for i in range(n):
            total += distance[tour[i], tour[(i + 1) % n]]
        return total

    rng = np.random.default_rng(5)
    tour = np.arange(n)
    first = length(tour)
    current = first
    best, best_tour = current, tour.copy()
    temperature = 1.0
    accepted = 0
    steps = 6000
    for _ in range(steps):
        i, j = np.sort(rng.integers(0, n, 2))
        if i == j:
            continue
        a, b = tour[i - 1], tour[i]
        c, d = tour[j], tour[(j + 1) % n]
        if a == c or b == d:
            continue
        change = distance[a, c] + distance[b, d] - distance[a, b] - distance[c, d]
        if change < 0 or rng.random() < np.exp(-change / temperature):
            tour[i : j + 1] = tour[i : j + 1][::-1]
            current += change
            accepted += 1
            if current < best:
                best, best_tour = current, tour.copy()
        temperature *= 0.999
    return {
        "first": first,
        "length": best,
        "accepted": accepted / steps,
        "rounding": abs(length(best_tour) - best) < 1e-9,
        "cities": np.sort(best_tour),
    }
