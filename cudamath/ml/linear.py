"""The fully connected layer."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.op import FLOATING, coerce

__all__ = ["linear"]


def linear(x: Any, weight: Any, bias: Any = None) -> ndarray:
    """Affine map of the last axis: y = x @ weight.mT + bias.

    Parameters
    ----------
    x : array (..., in); floating-point
    weight : array (out, in)
    bias : array (out,), optional

    Returns
    -------
    ndarray
        (..., out); dtype of the operands. 16-bit numbers are accumulated in float32.

    Raises
    ------
    TypeError
        An operand is not floating-point.
    ValueError
        Shapes that do not fit.

    Gradient: those of `matmul` and `add`, of any order.

    >>> import cudamath as cm
    >>> x, weight, bias = cm.array([[1.0, 2.0]]), cm.array([[3.0, 4.0], [5.0, 6.0]]), cm.array([0.5, -0.5])
    >>> cm.ml.linear(x, weight, bias).tolist()
    [[11.5, 16.5]]
    """
    x, weight, *rest = coerce("linear", (x, weight) if bias is None else (x, weight, bias), FLOATING)
    if not x.ndim or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise ValueError(f"linear: wants x (..., in) and weight (out, in), got {x.shape} and {weight.shape}")
    if rest and rest[0].shape != weight.shape[:1]:
        raise ValueError(f"linear: weight {weight.shape} wants a bias of shape {weight.shape[:1]}, got {rest[0].shape}")
    y = x @ weight.mT
    return y + rest[0] if rest else y
