"""Random walks: on a line, on a lattice until they come back, and the drunkard between two cliffs.

Origin: Feller, *An Introduction to Probability Theory and Its Applications*, volume 1, chapters III
and XIV; McKinney, *Python for Data Analysis*, section 4.7.
"""

#: Tolerances of results that depend on the generator: five standard deviations over seeds.
STATISTICS = {
    "deviation": 4.8,
    "crossing": 29.0,
    "ruined": 0.26,
    "length": 13.0,
    "returned": 0.38,
    "pi": 0.27,
}


def main(np):
    """Walk in four ways."""
    rng = np.random.default_rng(12345)
    walks, steps = 400, 500
    draws = rng.integers(0, 2, size=(walks, steps))
    paths = np.where(draws > 0, 1, -1).cumsum(axis=1)
    hits = (np.abs(paths) >= 15).any(axis=1)
    crossing = (np.abs(paths[hits]) >= 15).argmax(axis=1)

    ruined, lengths = 0, []
    for _ in range(150):
        position, n = 5, 0
        while 0 < position < 12:
            position += 1 if rng.random() < 0.5 else -1
            n += 1
        ruined += position == 0
        lengths.append(n)

    moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    returned = 0
    for _ in range(80):
        place = np.array([0, 0])
        for _ in range(40):
            place = place + moves[rng.integers(4)]
            if place[0] == 0 and place[1] == 0:
                returned += 1
                break

    inside = 0
    for _ in range(2000):
        x, y = rng.uniform(-1, 1), rng.uniform(-1, 1)
        if x * x + y * y < 1:
            inside += 1
    return {
        "deviation": paths[:, -1].std(),
        "crossing": crossing.mean() - 180,
        "ruined": ruined / 150,
        "length": np.mean(np.array(lengths)),
        "returned": returned / 80,
        "pi": 4 * inside / 2000,
    }
