"""Softmax and log-softmax: the cards of both and of their gradients."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, Op
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike
from ..ops.elementwise import exp
from ..ops.shape import copied as copy

__all__ = ["log_softmax", "softmax"]


def in_order(x: ndarray) -> ndarray:
    """`x` in C order: itself, or a copy."""
    return x if x.is_contiguous else copy(x)


def _along(op: Op, x: Any, axis: int) -> ndarray:
    x = require(op.name, x, FLOATING)
    axis = normalize_axis(op.name, axis, max(x.ndim, 1))
    if not x.ndim:
        return op(x.reshape((1,)), axis=0).reshape(())
    return op(in_order(x), axis=axis)


@fast_path("x")
def softmax(x: ArrayLike, axis: int = -1) -> ndarray:
    """Softmax along an axis.

    y_i = exp(x_i) / sum_j exp(x_j), computed with the maximum subtracted: no finite input
    overflows.

    Parameters
    ----------
    x : array of any shape; float16, bfloat16, float32 or float64
        -inf stands for an impossible entry and gives 0. 16-bit numbers are computed in float32.
    axis : int, default -1
        The axis along which the results sum to 1.

    Returns
    -------
    ndarray
        Shape and dtype of `x`. Where the axis holds +inf, NaN, or nothing but -inf, all of it is
        NaN.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        The axis is out of bounds.

    Notes
    -----
    Gradient: dx = y (g - sum_j g_j y_j), of any order. The function is deterministic.

    References
    ----------
    .. [1] Milakov & Gimelshein (2018), "Online normalizer calculation for softmax", for long rows
       on the GPU.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.softmax(cm.array([[0.0, 0.0], [1000.0, -cm.inf]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    return _along(_softmax, x, axis)


@fast_path("x")
def log_softmax(x: ArrayLike, axis: int = -1) -> ndarray:
    """Logarithm of the softmax along an axis.

    y_i = x_i - log sum_j exp(x_j), computed as (x_i - m) - log sum_j exp(x_j - m), m = max x.

    Parameters
    ----------
    x : array of any shape; float16, bfloat16, float32 or float64
        16-bit numbers are computed in float32.
    axis : int, default -1
        The axis along which the exponentials of the results sum to 1.

    Returns
    -------
    ndarray
        Shape and dtype of `x`. Where the axis holds +inf, NaN, or nothing but -inf, all of it is
        NaN.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        The axis is out of bounds.

    Notes
    -----
    Gradient: dx = g - exp(y) sum_j g_j, of any order. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.log_softmax(cm.array([1000.0, -1000.0])).tolist()
    [0.0, -2000.0]
    """
    return _along(_log_softmax, x, axis)


_softmax = Op(
    "softmax",
    cpu="softmax.softmax",
    cuda="softmax.dispatch.softmax",
    vjp=lambda g, y, _x, axis: (_softmax_grad(in_order(g), y, axis=axis),),
)

_log_softmax = Op(
    "log_softmax",
    cpu="softmax.log_softmax",
    cuda="softmax.dispatch.log_softmax",
    vjp=lambda g, y, _x, axis: (_log_softmax_grad(in_order(g), y, axis=axis),),
)

# With h the gradient of dx: the softmax's matrix is symmetric in g, so the first one has the form
# of dx itself.
_softmax_grad: Op = Op(
    "softmax_grad",
    cpu="softmax.softmax_grad",
    cuda="softmax.dispatch.softmax_grad",
    vjp=lambda h, _dx, g, y, axis: (
        _softmax_grad(in_order(h), y, axis=axis),
        h * (g - (g * y).sum(axis, keepdims=True)) - g * (h * y).sum(axis, keepdims=True),
    ),
)

_log_softmax_grad: Op = Op(
    "log_softmax_grad",
    cpu="softmax.log_softmax_grad",
    cuda="softmax.dispatch.log_softmax_grad",
    vjp=lambda h, _dx, g, y, axis: (
        h - (exp(y) * h).sum(axis, keepdims=True),
        -h * exp(y) * g.sum(axis, keepdims=True),
    ),
)
