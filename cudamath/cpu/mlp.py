"""Two fully connected layers in NumPy, and the first product of their gradient."""

import numpy as np

from ..core.dtypes import compute_dtype
from . import activation as activations
from .linear import linear


def mlp(
    x: np.ndarray,
    w1: np.ndarray,
    b1: np.ndarray | None,
    w2: np.ndarray,
    b2: np.ndarray | None,
    residual: np.ndarray | None,
    *,
    activation: str,
    tf32: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = f(z) w2^T + b2 + residual, h = f(z) and z = x w1^T + b1."""
    wide = compute_dtype(x.dtype)
    bias = None if b1 is None else b1.astype(wide, copy=False)
    z = linear(x.astype(wide, copy=False), w1.astype(wide, copy=False), bias, activation="")
    with np.errstate(over="ignore"):
        h = getattr(activations, activation)(z).astype(x.dtype, copy=False)
        z = z.astype(x.dtype, copy=False)
    return linear(h, w2, b2, residual, activation=""), h, z


def product_slope(
    g: np.ndarray, weight: np.ndarray, z: np.ndarray, *, activation: str, tf32: bool = False
) -> np.ndarray:
    """(g weight) f'(z)."""
    wide = compute_dtype(g.dtype)
    slope = getattr(activations, activation + "_grad")
    with np.errstate(over="ignore"):
        product = np.matmul(g.astype(wide, copy=False), weight.astype(wide, copy=False))
        return slope(product, z.astype(wide, copy=False)).astype(g.dtype, copy=False)
