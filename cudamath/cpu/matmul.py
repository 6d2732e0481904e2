"""Matrix products on the CPU: NumPy's, that is its BLAS; 16-bit floats go through float32."""

import numpy as np

from ..core.dtypes import compute_dtype


def matmul(a: np.ndarray, b: np.ndarray, *, tf32: bool = False) -> np.ndarray:
    """a @ b for two arrays of one dtype. `tf32` concerns GPUs only."""
    wide = compute_dtype(a.dtype)
    if wide == a.dtype:
        return np.matmul(a, b)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, without a word, as on a GPU
        return np.matmul(a.astype(wide), b.astype(wide)).astype(a.dtype)
