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


def matmul_int32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b for int8, summed modulo 2^32: in float64, which is exact for sums of up to 2^39 products, and has a BLAS."""
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return np.asarray(exact).astype(np.int64).astype(np.int32)
