"""The fully connected layer in NumPy: in float32 for 16-bit numbers, rounded once at the end."""

import numpy as np

from ..core.dtypes import compute_dtype
from . import activation as activations


def linear(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    residual: np.ndarray | None = None,
    *,
    activation: str,
    tf32: bool = False,
) -> np.ndarray:
    """activation(x weight^T + bias) + residual. `tf32` concerns GPUs only."""
    wide = compute_dtype(x.dtype)
    with np.errstate(over="ignore"):
        y = np.matmul(x.astype(wide, copy=False), weight.T.astype(wide, copy=False))
        if bias is not None:
            y = y + bias.astype(wide, copy=False)
        if activation:
            y = getattr(activations, activation)(y)
        if residual is not None:
            y = y + residual.astype(wide, copy=False)
        return y.astype(x.dtype, copy=False)


def linears(x: np.ndarray, *operands: np.ndarray, activation: str, count: int) -> np.ndarray:
    """Several such layers of one x, one after another: weights, and as many biases or none."""
    biases = operands[count:] or (None,) * count
    pairs = zip(operands[:count], biases, strict=True)
    return np.stack([linear(x, w, bias, activation=activation) for w, bias in pairs])
