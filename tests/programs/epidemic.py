"""An agent model of an epidemic, and Schelling's model of segregation.

Origin: Downey, *Think Complexity*, 2nd edition, chapter 9 (Schelling); Kermack and McKendrick,
1927, as an agent model in many tutorials.
"""

#: Tolerances of results that depend on the generator: five standard deviations over seeds.
STATISTICS = {"peak": 0.58, "removed": 0.02, "segregation": 0.12}


def main(np):
    """Let people walk, infect each other and move house."""
    rng = np.random.default_rng(11)
    n, size = 200, 30
    x = rng.integers(0, size, n)
    y = rng.integers(0, size, n)
    state = np.zeros(n, dtype=int)  # 0 susceptible, 1 infected, 2 removed
    state[:5] = 1
    since = np.zeros(n, dtype=int)
    infected = []
    for _ in range(120):
        x = (x + rng.integers(-1, 2, n)) % size
        y = (y + rng.integers(-1, 2, n)) % size
        for i in np.flatnonzero(state == 1):
            near = (np.abs(x - x[i]) <= 1) & (np.abs(y - y[i]) <= 1) & (state == 0)
            caught = near & (rng.random(n) < 0.5)
            state[caught] = 1
            since[i] += 1
            if since[i] > 15:
                state[i] = 2
        infected.append(np.mean(state == 1))

    side = 20
    city = np.zeros((side, side), dtype=int)
    order = rng.permutation(side * side)
    for k in range(side * side):
        place = order[k]
        city[place // side, place % side] = 0 if k < 40 else 1 + k % 2

    def likeness(city, i, j):
        same = other = 0
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                if di == 0 and dj == 0:
                    continue
                neighbour = city[(i + di) % side, (j + dj) % side]
                if neighbour == city[i, j]:
                    same += 1
                elif neighbour != 0:
                    other += 1
        return same / (same + other) if same + other else 1.0

    for _ in range(1200):
        i, j = rng.integers(side), rng.integers(side)
        if city[i, j] and likeness(city, i, j) < 0.5:
            empty = np.argwhere(city == 0)
            to = empty[rng.integers(len(empty))]
            city[to[0], to[1]] = city[i, j]
            city[i, j] = 0
    shares = [likeness(city, i, j) for i in range(side) for j in range(side) if city[i, j]]
    return {
        "peak": max(infected),
        "removed": np.mean(state == 2),
        "segregation": np.mean(shares),
        "citizens": np.bincount(city.ravel()),
    }
