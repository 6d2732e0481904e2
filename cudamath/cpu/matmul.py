"""Matrix products on the CPU: NumPy's, that is its BLAS; 16-bit floats are computed in float32.

A result that overflows is infinite, without a warning, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core import cpu_pool
from ..core.dtypes import compute_dtype
from ..core.fp_errors import quiet
from ..core.layout import Layout
from ..core.shapes import broadcast_shapes


def matmul(a: np.ndarray, b: np.ndarray, *, tf32: bool = False) -> np.ndarray:
    """a @ b for two arrays of one dtype. `tf32` concerns GPUs only."""
    wide = compute_dtype(a.dtype)
    if wide == a.dtype:
        return quiet().run(np.matmul, a, b)
    return quiet().run(lambda: np.matmul(a.astype(wide), b.astype(wide)).astype(a.dtype))


def _prepare(a: Layout, b: Layout, *, tf32: bool = False) -> Callable | None:
    """The product of matrices of these layouts, without the questions."""
    if not a.ndim or not b.ndim or compute_dtype(a.dtype) != a.dtype:
        return None
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    shape = (*broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2]), *rows, *columns)
    product, take = np.matmul, cpu_pool.taker(shape, a.dtype)
    if not shape and a.dtype.kind != "c":  # cheaper than `matmul`, and of one meaning
        if a.dtype.kind != "f":
            return lambda x, y: np.asarray(np.dot(x, y))
        return lambda x, y: np.asarray(quiet().run(np.dot, x, y))
    return lambda x, y: quiet().run(product, x, y, take())


matmul.prepare = _prepare  # type: ignore[attr-defined]


def matmul_int32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b for int8, summed modulo 2^32: in float64, which is exact for sums of up to 2^39
    products, and has a BLAS."""
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return np.asarray(exact).astype(np.int64).astype(np.int32)
