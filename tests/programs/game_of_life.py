"""Conway's game of life: by slices, by `roll`, and cell by cell.

Origin: Rougier, *From Python to Numpy*, section 3.1; Gardner, Scientific American, October 1970.
"""


def main(np):
    """Let a glider and an r-pentomino grow, in three ways."""

    def by_slices(Z):
        N = (
            Z[0:-2, 0:-2] + Z[0:-2, 1:-1] + Z[0:-2, 2:]
            + Z[1:-1, 0:-2] + Z[1:-1, 2:]
            + Z[2:, 0:-2] + Z[2:, 1:-1] + Z[2:, 2:]
        )  # fmt: skip
        birth = (N == 3) & (Z[1:-1, 1:-1] == 0)
        survive = ((N == 2) | (N == 3)) & (Z[1:-1, 1:-1] == 1)
        Z[...] = 0
        Z[1:-1, 1:-1][birth | survive] = 1
        return Z

    def by_roll(Z):
        N = sum(
            np.roll(np.roll(Z, i, 0), j, 1)
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
            if (i != 0 or j != 0)
        )
        return np.where((N == 3) | ((Z == 1) & (N == 2)), 1, 0)

    def by_cells(Z):
        rows, columns = Z.shape
        new = np.zeros_like(Z)
        for i in range(rows):
            for j in range(columns):
                n = 0
                for di in (-1, 0, 1):
                    for dj in (-1, 0, 1):
                        if (di, dj) != (0, 0):
                            n += Z[(i + di) % rows, (j + dj) % columns]
                if n == 3 or (n == 2 and Z[i, j] == 1):
                    new[i, j] = 1
        return new

    pentomino = np.array([[0, 1, 1], [1, 1, 0], [0, 1, 0]])
    Z = np.zeros((64, 64), dtype=int)
    Z[30:33, 30:33] = pentomino
    populations = []
    for _ in range(150):
        Z = by_slices(Z)
        populations.append(Z.sum())

    torus = np.zeros((24, 24), dtype=int)
    torus[1:4, 1:4] = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]])
    for _ in range(60):
        torus = by_roll(torus)

    small = np.zeros((10, 10), dtype=int)
    small[1:4, 1:4] = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]])
    for _ in range(6):
        small = by_cells(small)
    return {"populations": np.array(populations), "last": Z, "torus": torus, "small": small}
