"""Softmax and log-softmax along one axis, and their gradients, in NumPy.

The largest element is subtracted before the exponential, so no exponential exceeds 1. A row that is
-inf throughout gives NaN (-inf minus -inf), as in PyTorch: no distribution fits it.
"""

import numpy as np

from .lib.float32_sums import widen


def _shifted(x: np.ndarray, axis: int) -> np.ndarray:
    """x minus its maximum along the axis, in compute precision. x is not empty."""
    x = widen(x)
    with np.errstate(invalid="ignore"):
        return x - x.max(axis=axis, keepdims=True)


def softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    """exp(x - max) / sum exp(x - max); any shape, same shape and dtype out."""
    if x.size == 0:
        return np.empty_like(x)
    e = _shifted(x, axis)
    np.exp(e, out=e)
    e /= e.sum(axis=axis, keepdims=True)
    return e.astype(x.dtype, copy=False)


def log_softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    """(x - max) - log sum exp(x - max); any shape, same shape and dtype out."""
    if x.size == 0:
        return np.empty_like(x)
    d = _shifted(x, axis)
    d -= np.log(np.exp(d).sum(axis=axis, keepdims=True))
    return d.astype(x.dtype, copy=False)


def softmax_grad(g: np.ndarray, y: np.ndarray, *, axis: int) -> np.ndarray:
    """y * (g - sum(g * y)); g, y: same shape and dtype."""
    wide_g, wide_y = widen(g), widen(y)
    dot = (wide_g * wide_y).sum(axis=axis, keepdims=True)
    return (wide_y * (wide_g - dot)).astype(y.dtype, copy=False)


def log_softmax_grad(g: np.ndarray, y: np.ndarray, *, axis: int) -> np.ndarray:
    """g - exp(y) * sum(g); g, y: same shape and dtype."""
    wide_g = widen(g)
    total = wide_g.sum(axis=axis, keepdims=True)
    return (wide_g - np.exp(widen(y)) * total).astype(y.dtype, copy=False)
