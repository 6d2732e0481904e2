"""Arguments of the linear algebra calls: matrices of 64 rows, and four of 16."""

from __future__ import annotations

import numpy as np


def matrices(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """few, few_definite, sides, few_vectors: four matrices of 16 rows (positive definite ones; four
    of 8 columns; of 16 rows of vectors); hermitian: complex, positive definite; wider: float64;
    wide, tall; tensor: invertible, seen as a matrix; exchanges: of rows, counted from 0 and, as
    PyTorch does, from 1."""
    few, a = rng.random((4, 16, 16), np.float32), rng.random((64, 64), np.float32)
    waves = a + rng.random((64, 64), np.float32) * np.complex64(1j)
    own = np.arange(64, dtype=np.int32)
    return {
        "few": few,
        "few_definite": np.float32(0.1) * few @ few.mT + np.eye(16, dtype=np.float32),
        "sides": rng.random((4, 16, 8), np.float32),
        "few_vectors": rng.random((4, 16), np.float32),
        "general": a - np.float32(0.5),
        "hermitian": np.complex64(0.1) * waves @ waves.conj().T + np.eye(64, dtype=np.complex64),
        "wider": 0.1 * a.astype(np.float64) @ a.T + np.eye(64),
        "tall": rng.random((64, 16), np.float32),
        "wide": rng.random((16, 64), np.float32),
        "exchanges": own,
        "exchanges_from_1": own + 1,
        "tensor": (np.float32(0.1) * a @ a.T + np.eye(64, dtype=np.float32)).reshape(8, 8, 64),
        "grid": rng.random((8, 8), np.float32),
    }
