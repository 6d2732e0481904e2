"""Losses that compare two arrays element by element: squared and absolute errors, binary cross
entropy, divergence.

A reduced loss is one op that reads both arrays once and keeps nothing but them; its gradient is
another.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core import recording
from ..core.array import ndarray
from ..core.autograd import tape
from ..core.devices import TRACED
from ..core.dispatch.checks import coerce
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, Op
from ..core.dtypes import result_type
from ..core.shapes import axes_by_stride, broadcast_shapes
from ..core.typing import ArrayLike
from ..cpu.losses.elementwise import LOSSES
from ..fuse import fuse
from ..ops.creation import ones
from ..ops.elementwise import abs, exp, log, log1p, maximum, minimum, sign
from ..ops.random.bit_stream import number
from ..ops.shape import permute_dims
from ..ops.where import where
from .activation import softplus
from .loss import _check_reduction, _reduced
from .softmax import in_order

__all__ = [
    "bce_with_logits",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "smooth_l1_loss",
]

_XP = SimpleNamespace(
    abs=abs,
    exp=exp,
    log=log,
    log1p=log1p,
    maximum=maximum,
    minimum=minimum,
    sign=sign,
    softplus=softplus,
    where=where,
)


def _operands(name: str, x: Any, target: Any) -> tuple[ndarray, ndarray]:
    """Both floating-point, on one device, of one shape and dtype."""
    x, target = coerce(name, (x, target), FLOATING)
    if x.shape != target.shape:
        raise ValueError(f"{name}: wants two arrays of one shape, got {x.shape} and {target.shape}")
    dtype = result_type(x, target)
    return x.astype(dtype, copy=False), target.astype(dtype, copy=False)


def _in_one_order(x: ndarray, t: ndarray) -> tuple[ndarray, ndarray]:
    """Both contiguous: as they lie, if their axes can be exchanged so that they are; else
    copies."""
    if not (x.is_contiguous and t.is_contiguous) and x.strides == t.strides:
        order = axes_by_stride(x.strides)
        seen = permute_dims(x, order)
        if seen.is_contiguous:
            return seen, permute_dims(t, order)
    return in_order(x), in_order(t)


def _wide(x: ndarray) -> ndarray:
    """In the dtype that losses are computed in."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _loss(kind: str, x: ndarray, t: ndarray, reduction: str, parameter: float = 0.0) -> ndarray:
    if x._layout.device == TRACED:  # `fuse` makes one kernel of the formula and its neighbours
        x, t = _wide(x), _wide(t)
        return _reduced(_Formula(kind, parameter)(x, t), reduction)
    if reduction != "none":
        x, t = _in_one_order(x, t)
    return _card(x, t)(x, t, scalars=(parameter,), kind=kind, reduction=reduction)


class _Formula:
    """A loss of traced arrays, or its slope `by` x (0) or t (1), and its card: the gradients are
    the formulas of the slopes. Those of a formula's parts are NaN at the limits, as log's at 0."""

    name, several, broadcasts = "pointwise_loss", False, False

    def __init__(self, kind: str, parameter: float, by: int | None = None):
        self.kind, self.parameter, self.by = kind, parameter, by

    def saves(self, count: int) -> tuple[bool, tuple[bool, ...]]:
        """Gradients are computed from the inputs."""
        return False, (True,) * count

    def __call__(self, x: ndarray, t: ndarray) -> ndarray:
        loss = LOSSES[self.kind]
        with recording.paused():
            y = (loss.value if self.by is None else loss.slopes[self.by])(_XP, x, t, self.parameter)
        if x._node is not None or t._node is not None:
            tape.record(self, (x, t), y, {})
        return y

    def vjp(self, g: ndarray, _y: None, x: ndarray, t: ndarray) -> tuple[ndarray, ndarray]:
        """g times the derivatives by x and t."""
        if self.by is None:
            by_x, by_t = [_Formula(self.kind, self.parameter, by)(x, t) for by in (0, 1)]
        else:
            by_x, by_t = [
                second(_XP, x, t, self.parameter)
                for second in LOSSES[self.kind].second[self.by : self.by + 2]
            ]
        return g * by_x, g * by_t


def _card(x: Any, t: Any) -> Op:
    """The card for arrays of which both or not both carry a node."""
    if (
        isinstance(x, ndarray)
        and isinstance(t, ndarray)
        and x._node is not None
        and t._node is not None
    ):
        return _pointwise_loss_of_two
    return _pointwise_loss


@functools.cache
def _fused_loss(kind: str, reduction: str) -> Callable[..., ndarray]:
    """The loss of two arrays and one of parameters: one kernel, and a sum."""
    return fuse(
        lambda x, t, parameter: _reduced(
            LOSSES[kind].value(_XP, _wide(x), _wide(t), _wide(parameter)), reduction
        )
    )


def _simple(
    kind: str, x: Any, target: Any, reduction: str, parameter: float = 0.0, name: str = ""
) -> ndarray:
    """A loss by its kernel. name: for errors, if it is not the kind."""
    _check_reduction(name or kind, reduction)
    return _loss(kind, *_operands(name or kind, x, target), reduction, parameter)


def _weighted(name: str, each: ndarray, weight: Any, reduction: str) -> ndarray:
    """Losses times a weight that broadcasts to them, reduced."""
    each, weight = coerce(name, (each, weight), FLOATING)
    _fits(name, "weight", weight, each.shape)
    return _reduced(each * weight.astype(each.dtype, copy=False), reduction)


def _fits(name: str, what: str, x: ndarray, shape: tuple[int, ...]) -> None:
    try:
        fits = broadcast_shapes(name, x.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name}: wants {what} of a shape that broadcasts to {shape}, got {x.shape}"
        )


@fast_path("x", "target")
def mse_loss(x: ArrayLike, target: ArrayLike, *, reduction: str = "mean") -> ndarray:
    """Mean squared error: the mean (or sum, or each) of (x - target)^2.

    Parameters
    ----------
    x, target : arrays of one shape; floating-point
        Of two dtypes the wider is computed in and returned; of 16-bit numbers that is float32.
    reduction : "mean", "sum" or "none", default "mean"
        Reduction of the losses.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        Shapes differ (they are not broadcast: (N,) against (N, 1) is a mistake); an unknown
        reduction.

    Notes
    -----
    Gradient: 2 (x - target) g / count and its opposite, of any order. On the GPU both directions
    read `x` and `target` once. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.mse_loss(cm.array([1.0, 2.0]), cm.array([0.0, 4.0])).item()
    2.5
    """
    return _simple("mse_loss", x, target, reduction)


@fast_path("x", "target")
def l1_loss(x: ArrayLike, target: ArrayLike, *, reduction: str = "mean") -> ndarray:
    """Mean absolute error: the mean (or sum, or each) of |x - target|.

    Parameters
    ----------
    x, target : arrays of one shape; floating-point
        Of two dtypes the wider is computed in and returned; of 16-bit numbers that is float32.
    reduction : "mean", "sum" or "none", default "mean"
        Reduction of the losses.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        Shapes differ (they are not broadcast: (N,) against (N, 1) is a mistake); an unknown
        reduction.

    Notes
    -----
    Gradient: sign(x - target) g / count (0 where they are equal) and its opposite. The function is
    differentiable to any order and deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.l1_loss(cm.array([1.0, 2.0]), cm.array([0.0, 4.0])).item()
    1.5
    """
    return _simple("l1_loss", x, target, reduction)


@fast_path("x", "target")
def huber_loss(
    x: ArrayLike, target: ArrayLike, *, delta: float = 1.0, reduction: str = "mean"
) -> ndarray:
    """Huber loss: quadratic for small differences d = x - target, linear for large ones.

    d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2)

    Parameters
    ----------
    x, target : arrays of one shape; floating-point
        Of two dtypes the wider is computed in and returned; of 16-bit numbers that is float32.
    delta : float, default 1.0
        Largest difference with a quadratic loss, > 0.
    reduction : "mean", "sum" or "none", default "mean"
        Reduction of the losses.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        Shapes differ (they are not broadcast: (N,) against (N, 1) is a mistake); an unknown
        reduction.

    Notes
    -----
    Gradient: d limited to the interval from -delta to delta, times g / count, and its opposite. The
    function is differentiable to any order and deterministic.

    References
    ----------
    .. [1] Huber (1964).

    Examples
    --------
    >>> import cudamath as cm
    >>> x, target = cm.array([1.0, 5.0]), cm.array([0.0, 0.0])
    >>> cm.ml.huber_loss(x, target, delta=2.0, reduction="none").tolist()
    [0.5, 8.0]
    """
    if type(delta) not in (int, float):
        delta = number("huber_loss", "delta", delta)
    if not 0 < delta < math.inf:
        raise ValueError(f"huber_loss: delta is a positive number, got {delta}")
    return _simple("huber_loss", x, target, reduction, float(delta))


@fast_path("x", "target")
def smooth_l1_loss(
    x: ArrayLike, target: ArrayLike, *, beta: float = 1.0, reduction: str = "mean"
) -> ndarray:
    """Absolute error that is smooth at 0.

    D^2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = x - target. It is `huber_loss`
    with delta = beta, divided by beta; beta = 0 is `l1_loss`.

    Parameters
    ----------
    x, target : arrays of one shape; floating-point
        Of two dtypes the wider is computed in and returned; of 16-bit numbers that is float32.
    beta : float, default 1.0
        Largest difference with a quadratic loss, >= 0.
    reduction : "mean", "sum" or "none", default "mean"
        Reduction of the losses.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        Shapes differ (they are not broadcast: (N,) against (N, 1) is a mistake); an unknown
        reduction.

    Notes
    -----
    Gradient: d / beta limited to the interval from -1 to 1, times g / count, and its opposite. The
    function is differentiable to any order and deterministic.

    References
    ----------
    .. [1] Girshick, "Fast R-CNN" (2015).

    Examples
    --------
    >>> import cudamath as cm
    >>> x, target = cm.array([1.0, 5.0]), cm.array([0.0, 0.0])
    >>> cm.ml.smooth_l1_loss(x, target, beta=2.0, reduction="none").tolist()
    [0.25, 4.0]
    """
    if type(beta) not in (int, float):
        beta = number("smooth_l1_loss", "beta", beta)
    if not 0 <= beta < math.inf:
        raise ValueError(f"smooth_l1_loss: beta is a number >= 0, got {beta}")
    return _simple(
        "smooth_l1_loss" if beta else "l1_loss", x, target, reduction, float(beta), "smooth_l1_loss"
    )


@fast_path("x", "target", "weight")
def bce_with_logits(
    x: ArrayLike,
    target: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
    reduction: str = "mean",
) -> ndarray:
    """Binary cross entropy between logits and probabilities, the sigmoid included.

    loss = -(p t log s + (1 - t) log(1 - s)), s = 1 / (1 + exp(-x)), p = pos_weight; computed so
    that no finite x overflows or loses digits. Also known as `binary_cross_entropy_with_logits`.

    Parameters
    ----------
    x : array of any shape; floating-point
        Logits.
    target : array in the shape of `x`; floating-point
        Probabilities of "yes", 0 ... 1.
    weight : array that broadcasts to `x`, optional
        Factor of each loss. "mean" still divides by the number of elements.
    pos_weight : float or array that broadcasts to `x`, optional
        Factor of the losses of "yes".
    reduction : "mean", "sum" or "none", default "mean"
        Reduction of the losses.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        Shapes that do not fit; an unknown reduction.

    Notes
    -----
    Gradient: with respect to x, ((1 - t) s - p t (1 - s)) g / count, to target, weight and
    pos_weight (if an array), of any order. On the GPU both directions read `x` and `target` once
    (with arrays of weights, several passes). The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, target = cm.array([0.0, 1000.0]), cm.array([1.0, 1.0])
    >>> cm.ml.bce_with_logits(x, target, reduction="none").round(4).tolist()
    [0.6931, 0.0]
    """
    name = "bce_with_logits"
    if weight is None and (
        pos_weight is None or isinstance(pos_weight, (int, float, np.integer, np.floating))
    ):
        return _simple(name, x, target, reduction, 1.0 if pos_weight is None else float(pos_weight))
    _check_reduction(name, reduction)
    x, target = _operands(name, x, target)
    inner = reduction if weight is None else "none"
    if pos_weight is None or isinstance(pos_weight, (int, float, np.integer, np.floating)):
        loss = _loss(name, x, target, inner, 1.0 if pos_weight is None else float(pos_weight))
    else:
        x, target, pos_weight = coerce(name, (x, target, pos_weight), FLOATING)
        _fits(name, "pos_weight", pos_weight, x.shape)
        loss = _fused_loss(name, inner)(x, target, pos_weight.astype(x.dtype, copy=False))
    return loss if weight is None else _weighted(name, loss, weight, reduction)


binary_cross_entropy_with_logits = bce_with_logits


@fast_path("x", "target", "weight")
def binary_cross_entropy(
    x: ArrayLike, target: ArrayLike, *, weight: ArrayLike | None = None, reduction: str = "mean"
) -> ndarray:
    """Binary cross entropy between probabilities: -(t log x + (1 - t) log(1 - x)).

    Logarithms are held above -100, as in PyTorch, so that a wrong certainty costs 100.
    `bce_with_logits` keeps more digits.

    Parameters
    ----------
    x : array of any shape; floating-point, 0 ... 1
        Outside of it the loss is NaN.
    target : array, shape of `x`
        Floating-point probabilities of "yes", 0 ... 1.
    weight : array that broadcasts to `x`, optional
        Factor of each loss. "mean" still divides by the number of elements.
    reduction : "mean", "sum" or "none", default "mean"
        Reduction of the losses.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        Shapes that do not fit; an unknown reduction.

    Notes
    -----
    Gradient: with respect to x, (x - t) / max(x (1 - x), 1e-12) g / count, to target and weight, of
    any order. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, target = cm.array([0.5, 0.0]), cm.array([1.0, 1.0])
    >>> cm.ml.binary_cross_entropy(x, target, reduction="none").round(4).tolist()
    [0.6931, 100.0]
    """
    name = "binary_cross_entropy"
    if weight is None:
        return _simple(name, x, target, reduction)
    _check_reduction(name, reduction)
    return _weighted(name, _simple(name, x, target, "none"), weight, reduction)


@fast_path("x", "target")
def kl_div(
    x: ArrayLike, target: ArrayLike, *, reduction: str = "mean", log_target: bool = False
) -> ndarray:
    """Kullback-Leibler divergence of log probabilities `x` from probabilities `target`.

    T (log t - x), element by element.

    Parameters
    ----------
    x : array of any shape; floating-point
        Logarithms of probabilities, as `log_softmax` returns them.
    target : array in the shape of `x`; floating-point
        Probabilities (0 counts 0), or with `log_target` their logarithms (-inf counts 0).
    reduction : "mean", "sum", "none" or "batchmean", default "mean"
        "batchmean": the sum over the length of the first axis, the divergence as it is defined.
        "mean" divides by the number of elements.
    log_target : bool, default False
        Whether `target` holds logarithms.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        Shapes that differ; an unknown reduction; "batchmean" of 0-d arrays.

    Notes
    -----
    Gradient: with respect to x, -t g / count, and to target, (log t + 1 - x) g / count (infinite at
    0), of any order. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.log(cm.array([[0.5, 0.5]]))
    >>> round(cm.ml.kl_div(x, cm.array([[0.25, 0.75]]), reduction="batchmean").item(), 4)
    0.1308
    """
    _check_reduction("kl_div", reduction, "batchmean")
    kind = "kl_div (log)" if log_target else "kl_div"
    if reduction != "batchmean":
        return _simple(kind, x, target, reduction, name="kl_div")
    x, target = _operands("kl_div", x, target)
    if not x.ndim:
        raise ValueError("kl_div: reduction 'batchmean' wants at least one axis, got shape ()")
    return _loss(kind, x, target, "sum") / x.shape[0]


# The cards. x, t: one shape, contiguous if they are reduced.


def _scaled(x: ndarray, reduction: str, scalars: tuple) -> tuple[float, float]:
    """The parameter, and what a slope is multiplied by besides the incoming gradient."""
    return scalars[0], 1 / x.size if reduction == "mean" and x.size else 1.0


def _slope(by: int) -> Any:
    def rule(
        g: ndarray, _y: None, x: ndarray, t: ndarray, *, kind: str, reduction: str, scalars: tuple
    ) -> ndarray:
        return _pointwise_loss_grad(
            g, x, t, scalars=_scaled(x, reduction, scalars), kind=kind, by=by
        )

    return rule


def _slopes(
    g: ndarray, _y: None, x: ndarray, t: ndarray, *, kind: str, reduction: str, scalars: tuple
) -> tuple:
    return _pointwise_loss_grads(g, x, t, scalars=_scaled(x, reduction, scalars), kind=kind)


def _grad_rule(
    h: ndarray, _dx: None, g: ndarray, x: ndarray, t: ndarray, *, kind: str, by: int, scalars: tuple
) -> tuple:
    p, scale = scalars
    unit = h * _pointwise_loss_grad(
        ones((), dtype=g.dtype, device=g.device), x, t, scalars=scalars, kind=kind, by=by
    )
    by_x, by_t = LOSSES[kind].second[by : by + 2]
    h = h * (g * scale)
    return unit if g.ndim else unit.sum(), h * by_x(_XP, x, t, p), h * by_t(_XP, x, t, p)


def _grads_rule(
    h: tuple, _y: None, g: ndarray, x: ndarray, t: ndarray, *, kind: str, scalars: tuple
) -> tuple:
    found = [
        _grad_rule(one, None, g, x, t, kind=kind, by=by, scalars=scalars)
        for by, one in enumerate(h)
        if one is not None
    ]
    return found[0] if len(found) == 1 else tuple([a + b for a, b in zip(*found, strict=True)])


_pointwise_loss = Op(
    "pointwise_loss",
    cpu="losses.elementwise.loss",
    cuda="loss.dispatch.loss",
    vjp=(_slope(0), _slope(1)),
)
_pointwise_loss_grad = Op(
    "pointwise_loss_grad",
    cpu="losses.elementwise.loss_grad",
    cuda="loss.dispatch.loss_grad",
    vjp=_grad_rule,
)
# Where x and t both carry a node, their gradients are one op.
_pointwise_loss_of_two = Op(
    "pointwise_loss (of two)",
    cpu="losses.elementwise.loss",
    cuda="loss.dispatch.loss",
    vjp=_slopes,
)
_pointwise_loss_grads = Op(
    "pointwise_loss_grads",
    cpu="losses.elementwise.loss_grads",
    cuda="loss.dispatch.loss_grads",
    outputs=2,
    vjp=_grads_rule,
)
