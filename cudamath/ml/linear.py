"""The fully connected layer."""

from __future__ import annotations

import math
from typing import Any

from ..core.array import ndarray
from ..core.dispatch.checks import coerce
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, Op
from ..core.typing import ArrayLike
from ..ops.linalg import products as linalg_products
from ..ops.shape import reshape
from .activation import activation as activate
from .activation import gelu
from .quantize import Quantized, packed_linear

__all__ = ["linear"]

_ACTIVATIONS = {None: "", "relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_tanh", "silu": "silu"}


def _weight_grad(
    g: ndarray, _y: Any, x: ndarray, weight: ndarray, _bias: Any, _residual: Any, **_: Any
) -> ndarray:
    count = math.prod(g.shape[:-1])
    return linalg_products.matmul(
        reshape(g, (count, weight.shape[0])).mT, reshape(x, (count, weight.shape[1]))
    )


def _bias_grad(
    g: ndarray, _y: Any, _x: Any, _weight: Any, _bias: Any, _residual: Any, **_: Any
) -> ndarray:
    return g.sum(tuple(range(g.ndim - 1)))


# Gradients are taken without an activation: see `linear`.
_linear = Op(
    "linear",
    cpu="linear.linear",
    cuda="matmul.linear.linear",
    vjp=(
        lambda g, _y, _x, weight, _bias, _residual, **_: linalg_products.matmul(g, weight),
        _weight_grad,
        _bias_grad,
        lambda g, _y, _x, _weight, _bias, _residual, **_: g,
    ),
)

#: Several layers of one x, whose weights lie alike: only programs call it (products_at_once.py).
_linears = Op("linears", cpu="linear.linears", cuda="matmul.linear.linears")


def linear(
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    activation: str | None = None,
    residual: ArrayLike | None = None,
) -> ndarray:
    """Affine map of the last axis, and what often follows it.

    Y = f(x @ weight.mT + bias) + residual.

    Parameters
    ----------
    x : array (..., in)
        Floating-point array.
    weight : array (out, in), or one that `quantize` made
        Quantized weights (int8, int4 or float8 with a scale for each row, for each group along a
        row, or one for all) stay packed until they are used: on GPUs up to 16 rows of 16-bit x are
        multiplied by one kernel that widens them in registers; for more rows they are widened
        first. x is not rounded. They are constants.
    bias : array (out,), optional
        One of another dtype takes part in promotion: float32 beside 16-bit x and weight makes the
        result float32.
    activation : "relu", "gelu", "gelu_tanh" or "silu", optional
        F, see the functions of these names ("gelu_tanh": gelu's tanh form).
    residual : array (..., out), optional
        Added to the result.

    Returns
    -------
    ndarray
        (..., out); dtype of the operands, promoted. 16-bit numbers are accumulated in float32; on
        GPUs of compute capability 9.0 operands of one dtype are one kernel, which rounds once.

    Raises
    ------
    TypeError
        An operand is not floating-point.
    ValueError
        Shapes that do not fit; an unknown activation.

    Notes
    -----
    Gradient: those of `matmul`, the activation and `add`, of any order. While one is recorded, what
    the activation is applied to must be kept: it is a kernel of its own then (not in `mlp`).

    Accuracy: in that kernel gelu is within 1e-5 of its own size before it is rounded to 16 bits,
    for x above -6.5; below, where it is smaller than 3e-10, within 1e-10.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, bias = cm.array([[1.0, 2.0]]), cm.array([0.5, -20])
    >>> weight = cm.array([[3.0, 4.0], [5.0, 6.0]])
    >>> cm.ml.linear(x, weight, bias, activation="relu").tolist()
    [[11.5, 0.0]]
    """
    if isinstance(weight, Quantized):
        how = weight.dtype, weight.axis, weight.group, weight.shape, activation
        parts = weight.values, weight.scale, weight.zero_point
        return _of_parts(*how, x, *parts, bias, residual)
    return _of_arrays(activation, x, weight, bias, residual)


@fast_path("x", "weight", "bias", "residual")
def _of_arrays(
    activation: str | None, x: Any, weight: Any, bias: Any = None, residual: Any = None
) -> ndarray:
    return _linear_of(x, weight, bias, residual, activation)


@fast_path("x", "values", "scale", "zero_point", "bias", "residual")
def _of_parts(
    dtype: str,
    axis: int | None,
    group: int | None,
    shape: tuple[int, ...],
    activation: str | None,
    x: Any,
    values: ndarray,
    scale: ndarray,
    zero_point: ndarray | None = None,
    bias: Any = None,
    residual: Any = None,
) -> ndarray:
    """`linear` with the quantized weight of these parts."""
    weight = Quantized(values, scale, zero_point, dtype, axis, group, shape)
    return _linear_of(x, weight, bias, residual, activation)


def _linear_of(x: Any, weight: Any, bias: Any, residual: Any, activation: str | None) -> ndarray:
    packed = isinstance(weight, Quantized)
    if not (activation is None or isinstance(activation, str) and activation in _ACTIVATIONS):
        names = ", ".join(map(repr, filter(None, _ACTIVATIONS)))
        raise ValueError(f"linear: activation is one of {names}, got {activation!r:.60}")
    additions = [a for a in (bias, residual) if a is not None]
    if packed:
        x, *rest = coerce("linear", (x, *additions), FLOATING)
    else:
        x, weight, *rest = coerce("linear", (x, weight, *additions), FLOATING)
    if not x.ndim or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear: wants x (..., in) and weight (out, in), got {x.shape} and {weight.shape}"
        )
    bias = rest.pop(0) if bias is not None else None
    residual = rest.pop(0) if residual is not None else None
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"linear: weight {weight.shape} wants a bias of shape {weight.shape[:1]}, got "
            f"{bias.shape}"
        )
    shape = (*x.shape[:-1], weight.shape[0])
    if residual is not None and residual.shape != shape:
        raise ValueError(
            f"linear: x {x.shape} and weight {weight.shape} want a residual of shape {shape}, "
            f"got {residual.shape}"
        )
    operands = [a for a in (x, None if packed else weight, bias, residual) if a is not None]
    if any(a.dtype != x.dtype for a in operands):
        y = packed_linear(x, weight, None, None, "") if packed else x @ weight.mT
        y = y if bias is None else y + bias
        y = _apply(y, activation)
        return y if residual is None else y + residual
    if not packed and len(operands) == 2 and activation is None:
        return x @ weight.mT
    if activation and any(a._node is not None for a in operands):
        y = _apply(linear(x, weight, bias), activation)
        return y if residual is None else y + residual
    if packed:
        return packed_linear(x, weight, bias, residual, _ACTIVATIONS[activation])
    return _linear(
        x,
        weight,
        bias,
        residual,
        activation=_ACTIVATIONS[activation],
        tf32=linalg_products.tf32_allowed(),
    )


def _apply(y: ndarray, activation: str | None) -> ndarray:
    if activation == "gelu_tanh":
        return gelu(y, "tanh")
    return activate(y, activation) if activation else y
