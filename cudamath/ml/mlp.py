"""Two fully connected layers with an activation between them: a transformer's feed-forward part."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..autodiff.transforms import vjp
from ..core.array import ndarray
from ..core.dispatch.checks import coerce
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, Op
from ..ops.linalg import products as linalg_products
from ..ops.shape import reshape
from .activation import _KINDS, _gelu_grad, _gelu_tanh_grad, _relu_grad, _silu_grad
from .linear import linear
from .quantize import Quantized

__all__ = ["mlp"]

_SLOPES: dict[str, Callable[..., ndarray]] = {
    "relu": _relu_grad,
    "silu": _silu_grad,
    "gelu": _gelu_grad,
    "gelu_tanh": _gelu_tanh_grad,
}


def _flat(x: ndarray) -> ndarray:
    """(.., n) as (rows, n)."""
    return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _rule(
    g: tuple,
    y: tuple,
    x: ndarray,
    w1: ndarray,
    _b1: Any,
    w2: ndarray,
    _b2: Any,
    _residual: Any,
    *,
    activation: str,
    tf32: bool,
) -> tuple:
    """Gradients of x, w1, b1, w2, b2, residual. Those of h and z come where the gradient itself is
    differentiated. Products for which nothing waits (frozen weights) are not computed."""
    from_y, from_h, from_z = g
    _, h, z = y
    if h is None:  # given up after the forward pass
        h = _KINDS[activation](z) if from_y is not None and w2._node else None
    lead = tuple(range(x.ndim - 1))
    dz = dw2 = db2 = None
    if from_y is not None:
        dw2 = linalg_products.matmul(_flat(from_y).mT, _flat(h)) if w2._node else None
        db2 = from_y.sum(lead)
        if from_h is None:
            dz = _product_slope(from_y, w2, z, activation=activation, tf32=tf32)
        else:
            from_h = from_h + linalg_products.matmul(from_y, w2)
    if from_h is not None:
        dz = _SLOPES[activation](from_h, z)
    if from_z is not None:
        dz = from_z if dz is None else dz + from_z
    if dz is None:
        return None, None, None, dw2, db2, from_y
    dx = linalg_products.matmul(dz, w1) if x._node else None
    dw1 = linalg_products.matmul(_flat(dz).mT, _flat(x)) if w1._node else None
    return dx, dw1, dz.sum(lead), dw2, db2, from_y


def _slope_rule(
    u: ndarray, _y: Any, g: ndarray, weight: ndarray, z: ndarray, *, activation: str, tf32: bool
) -> tuple:
    _, pull = vjp(
        lambda g, weight, z: _SLOPES[activation](linalg_products.matmul(g, weight), z), g, weight, z
    )
    return pull(u)


_mlp = Op(
    "mlp",
    cpu="mlp.mlp",
    cuda="matmul.mlp.mlp",
    outputs=3,
    keeps=(False, True, True),
    vjp=_rule,
)
_lean_mlp = Op(
    "mlp (recomputed)",
    cpu="mlp.mlp",
    cuda="matmul.mlp.mlp",
    outputs=3,
    keeps=(False, False, True),
    vjp=_rule,
)
_product_slope = Op(
    "product_slope", cpu="mlp.product_slope", cuda="matmul.mlp.product_slope", vjp=_slope_rule
)


@fast_path("x", "w1", "b1", "w2", "b2", "residual")
def mlp(
    x: Any,
    w1: Any,
    b1: Any,
    w2: Any,
    b2: Any,
    *,
    activation: str = "gelu_tanh",
    residual: Any = None,
    recompute: bool = False,
) -> ndarray:
    """Two fully connected layers with an activation between them.

    Y = f(x @ w1.mT + b1) @ w2.mT + b2 + residual.

    The same as two calls of `linear`, and its gradient takes fewer passes over the hidden layer.

    Parameters
    ----------
    x : array (..., in)
        Floating-point array.
    w1 : array (hidden, in)
        Weight of the first layer.
    b1 : array (hidden,) or None
        Bias of the first layer.
    w2 : array (out, hidden)
        Weight of the second layer.
    b2 : array (out,) or None
        Biases of another dtype take part in promotion: float32 beside 16-bit x and weights makes
        the result float32.
    activation : "relu", "gelu", "gelu_tanh" or "silu", default "gelu_tanh"
        F, see `linear`.
    residual : array (..., out), optional
        Added to the result.
    recompute : bool, default False
        For the gradient, the activation is computed again from what it is applied to: half the
        memory of the hidden layer, one more pass over it.

    Returns
    -------
    ndarray
        (..., out); dtype of the operands, promoted. 16-bit numbers are accumulated in float32 and
        rounded once per layer. On GPUs of compute capability 9.0 each layer is one kernel, also
        where a gradient is recorded, if all are of one dtype.

    Raises
    ------
    TypeError
        An operand is not floating-point.
    ValueError
        Shapes that do not fit; an unknown activation.

    Notes
    -----
    Gradient: of every order, with respect to all arrays. What the activation is applied to, and
    unless `recompute` its result, are kept. A result that is computed again is one of numbers
    rounded to the dtype of the operands: of 16 bits, the gradient of w2 may differ in its last.

    Accuracy: as `linear`. Results are the same bits every time.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, w1, w2 = cm.array([[1.0, -2.0]]), cm.eye(2), cm.array([[1.0, 1.0]])
    >>> cm.ml.mlp(x, w1, None, w2, cm.array([0.5]), activation="relu").tolist()
    [[1.5]]
    """
    if not isinstance(activation, str) or activation not in _SLOPES:
        raise ValueError(
            f"mlp: activation is one of {', '.join(map(repr, _SLOPES))}, got {activation!r:.60}"
        )
    if isinstance(w1, Quantized) or isinstance(w2, Quantized):
        return linear(linear(x, w1, b1, activation=activation), w2, b2, residual=residual)
    names = ("x", "w1", "b1", "w2", "b2", "residual")
    operands = (x, w1, b1, w2, b2, residual)
    if x is None or w1 is None or w2 is None:
        raise TypeError("mlp: wants x, w1 and w2 as arrays, got None")
    coerced = iter(coerce("mlp", tuple(a for a in operands if a is not None), FLOATING))
    x, w1, b1, w2, b2, residual = arrays = [None if a is None else next(coerced) for a in operands]
    sizes = {name: a.shape for name, a in zip(names, arrays, strict=True) if a is not None}
    if (
        not x.ndim
        or w1.ndim != 2
        or w2.ndim != 2
        or x.shape[-1] != w1.shape[1]
        or w2.shape[1] != w1.shape[0]
    ):
        raise ValueError(
            f"mlp: wants x (..., in), w1 (hidden, in) and w2 (out, hidden), got {x.shape}, "
            f"{w1.shape} and "
            f"{w2.shape}"
        )
    wanted = {"b1": w1.shape[:1], "b2": w2.shape[:1], "residual": (*x.shape[:-1], w2.shape[0])}
    for name, shape in wanted.items():
        if sizes.get(name, shape) != shape:
            raise ValueError(
                f"mlp: x {x.shape}, w1 {w1.shape} and w2 {w2.shape} want {name} of shape {shape}, "
                "got "
                f"{sizes[name]}"
            )
    present = [a for a in arrays if a is not None]
    if all(a._node is None for a in present) or any(a.dtype != x.dtype for a in present):
        return linear(linear(x, w1, b1, activation=activation), w2, b2, residual=residual)
    card = _lean_mlp if recompute else _mlp
    return card(*arrays, activation=activation, tf32=linalg_products.tf32_allowed())[0]
