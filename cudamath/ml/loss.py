"""Losses of classes: cross entropy and negative log likelihood. (Those of pairs of numbers are in
loss_elementwise.py.)"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import as_numbers, coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, INTEGER, Op
from ..core.dtypes import compute_dtype
from ..core.shapes import as_integer
from ..core.typing import ArrayLike
from ..ops.creation import ones
from ..ops.elementwise import clip, not_equal
from ..ops.index import take
from ..ops.where import where
from .loss_soft_targets import soft_cross_entropy
from .softmax import in_order, log_softmax, softmax

__all__ = ["cross_entropy", "nll_loss"]


def _reduced(loss: ndarray, reduction: str) -> ndarray:
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def _check_reduction(name: str, reduction: str, *more: str) -> None:
    if reduction not in ("mean", "sum", "none", *more):
        raise ValueError(
            f"{name}: reduction is {', '.join(map(repr, ('mean', 'sum', *more)))} or 'none', got "
            f"{reduction!r}"
        )


def _operands(name: str, logits: Any, targets: Any) -> tuple[ndarray, ndarray]:
    """Both on one device; logits floating-point, of at least one dimension."""
    logits, targets = coerce(name, (logits, targets))
    require(name, logits, FLOATING, "logits")
    if not logits.ndim:
        raise ValueError(f"{name}: wants logits (C,), (N, C) or (N, C, d1, ...), got shape ()")
    return logits, targets


def _flattened(x: ndarray) -> ndarray:
    """(C,), (N, C) or (N, C, d1, ...) -> (N, C, D) in C order."""
    n, classes = (1, x.shape[0]) if x.ndim == 1 else x.shape[:2]
    return in_order(x).reshape((n, classes, math.prod(x.shape[2:])))


def _class_targets(name: str, logits: ndarray, targets: ndarray) -> ndarray:
    """Class indices as (N, D) int32 or int64 in C order; errors."""
    if targets.dtype not in INTEGER:
        raise TypeError(
            f"{name}: wants integer class indices, got targets of dtype {targets.dtype}, shape "
            f"{targets.shape}"
        )
    wanted = logits.shape[:1] * (logits.ndim > 1) + logits.shape[2:]
    if targets.shape != wanted:
        raise ValueError(
            f"{name}: logits of shape {logits.shape} want class indices of shape {wanted}, got "
            f"{targets.shape}"
        )
    return in_order(signed(targets)).reshape(
        (1 if logits.ndim == 1 else logits.shape[0], math.prod(logits.shape[2:]))
    )


def signed(targets: ndarray) -> ndarray:
    """Class indices as int32 or int64. Those that int64 does not hold become its largest number,
    which is no class either; they would wrap to negative ones, of which `ignore_index` is one."""
    if targets.dtype in (np.int32, np.int64):
        return targets
    if targets.dtype == np.uint64:
        targets = clip(targets, None, np.iinfo(np.int64).max)
    return targets.astype(np.int64)


def _class_weights(name: str, logits: ndarray, weight: Any) -> ndarray:
    """The weights of the classes, (C,), in the dtype that logits are computed in."""
    weight = coerce(name, (logits, weight), FLOATING)[1]
    classes = logits.shape[min(1, logits.ndim - 1)]
    if weight.shape != (classes,):
        raise ValueError(
            f"{name}: logits of shape {logits.shape} want weight of shape ({classes},), got "
            f"{weight.shape}"
        )
    return weight.astype(compute_dtype(logits.dtype), copy=False)


def _shaped(loss: ndarray, targets: ndarray, reduction: str) -> ndarray:
    """Losses (N, D) in the shape of the class indices; a sum or mean as it is."""
    return loss.reshape(targets.shape) if reduction == "none" else loss


def _factor(picks: ndarray, weight: ndarray, ignore_index: int) -> ndarray:
    """The weights of the targets' classes, (N, D); 0 of those that are ignored."""
    counted = not_equal(picks, ignore_index)
    return where(counted, take(weight, where(counted, picks, 0)), 0)


def _weighted(
    each: ndarray,
    picks: ndarray,
    weight: ndarray,
    reduction: str,
    ignore_index: int,
    smooth: ndarray | None = None,
) -> ndarray:
    """Losses (N, D), each times the weight of its class, plus `smooth`; the mean is over the
    weights. For gradients with respect to weights, and for smooth labels: `_cross_entropy` takes
    weights otherwise."""
    counted, factor = not_equal(picks, ignore_index), _factor(picks, weight, ignore_index)
    loss = each * factor
    if smooth is not None:
        loss = loss + where(counted, smooth, 0)
    if reduction == "mean":
        loss = loss.sum() / factor.sum()
    elif reduction == "sum":
        loss = loss.sum()
    return loss


@fast_path("logits", "targets", "weight")
def cross_entropy(
    logits: ArrayLike,
    targets: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> ndarray:
    """Cross entropy between class scores and targets, the softmax included.

    loss_n = -sum_c q_nc log softmax(logits_n)_c, where q_n is one-hot at the target class, or the
    target itself; with label smoothing a, q becomes (1 - a) q + a / C. "mean" divides the sum by
    the number of targets that are not ignored (NaN if there is none). Weights multiply the summands
    of their class; with class indices "mean" then divides by the sum of the weights of the targets
    that are not ignored.

    Parameters
    ----------
    logits : array (N, C), (N, C, d1, ...) or (C,) of float16, bfloat16, float32 or float64
        Scores of C classes, unnormalised. 16-bit numbers are computed in float32.
    targets : array of int (N,), (N, d1, ...) or (), or array of float in the shape of `logits`
        Class indices, 0 <= target < C, or the probabilities of the classes ("soft labels").
    weight : array (C,); floating-point, optional
        Weight of each class.
    reduction : "mean", "sum" or "none", default "mean"
        Reduction of the losses.
    ignore_index : int, default -100
        Targets of this value count neither in the loss nor in the gradient. Class indices only.
    label_smoothing : float in [0, 1], default 0.0
        Share of the probability that is spread evenly over all classes.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of the class indices. float32 for 16-bit logits, otherwise
        their dtype.

    Raises
    ------
    TypeError
        Logits are not floating-point, or targets neither integers nor floats.
    ValueError
        Shapes that do not fit; an unknown reduction; label_smoothing outside [0, 1].
    IndexError
        A class index outside 0 .. C - 1. On the GPU it is raised at the next synchronisation.

    Notes
    -----
    Gradient: with respect to logits (softmax(logits) - q) g / count, of any order, to soft labels
    and to weights. On the GPU, class indices take one read of the logits forward, one read and one
    write backward (weights together with label smoothing: more). The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> logits = cm.array([[2.0, 0.0], [0.0, 0.0]])
    >>> round(cm.ml.cross_entropy(logits, cm.array([0, 1])).item(), 4)
    0.41
    >>> round(cm.ml.cross_entropy(logits, cm.array([0, -100])).item(), 4)
    0.1269
    """
    name = "cross_entropy"
    _check_reduction(name, reduction)
    (label_smoothing,) = as_numbers(name, "label_smoothing as a real number", label_smoothing)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing lies between 0 and 1, got {label_smoothing}")
    logits, targets = _operands(name, logits, targets)
    weight = None if weight is None else _class_weights(name, logits, weight)
    if targets.dtype in FLOATING:
        return _soft_cross_entropy(logits, targets, weight, reduction, label_smoothing)
    picks, x = _class_targets(name, logits, targets), _flattened(logits)
    ignored = as_integer(name, "ignore_index", ignore_index)
    if weight is None or not label_smoothing and weight._node is None:
        seen = (x, picks) if weight is None else (x, picks, in_order(weight))
        loss = _cross_entropy(
            *seen,
            reduction=reduction,
            ignore_index=ignored,
            label_smoothing=float(label_smoothing),
        )[0]
        return _shaped(loss, targets, reduction)
    loss, smooth = (
        _cross_entropy(x, picks, reduction="none", ignore_index=ignored, label_smoothing=0.0)[0],
        None,
    )
    if label_smoothing:
        share = weight.reshape((-1, 1)) * (-label_smoothing / x.shape[1])
        counted = where(not_equal(picks, ignored)[:, None], x, 0)  # ignored rows may hold anything
        loss, smooth = loss * (1 - label_smoothing), (log_softmax(counted, 1) * share).sum(1)
    return _shaped(_weighted(loss, picks, weight, reduction, ignored, smooth), targets, reduction)


def _soft_cross_entropy(
    logits: ndarray,
    targets: ndarray,
    weight: ndarray | None,
    reduction: str,
    label_smoothing: float,
) -> ndarray:
    if targets.shape != logits.shape:
        raise ValueError(
            f"cross_entropy: targets of {targets.dtype} are probabilities and have the shape of "
            f"the logits, {logits.shape}, got {targets.shape}; class indices are integers"
        )
    axis = min(1, logits.ndim - 1)
    if weight is not None:
        if label_smoothing:
            targets, label_smoothing = (
                targets * (1 - label_smoothing) + label_smoothing / logits.shape[axis],
                0.0,
            )
        targets = targets * weight.reshape((-1, *(1,) * (logits.ndim - 1 - axis)))
    loss = soft_cross_entropy(
        _flattened(logits),
        _flattened(targets.astype(logits.dtype, copy=False)),
        reduction,
        label_smoothing,
    )
    return (
        loss.reshape(logits.shape[:axis] + logits.shape[axis + 1 :])
        if reduction == "none"
        else loss
    )


@fast_path("log_probabilities", "targets", "weight")
def nll_loss(
    log_probabilities: ArrayLike,
    targets: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> ndarray:
    """Negative log likelihood of class indices under given log probabilities.

    loss_n = -log_probabilities[n, targets_n], times the weight of the class; "mean" divides by the
    number (with weights: by the sum of the weights) of the targets that are not ignored.
    `cross_entropy` is this after `log_softmax`, in one step.

    Parameters
    ----------
    log_probabilities : array (N, C), (N, C, d1, ...) or (C,)
        Floating-point logarithms of the probabilities of C classes.
    targets : array of integers (N,), (N, d1, ...) or ()
        Class indices, 0 <= target < C.
    weight : array (C,); floating-point, optional
        Weight of each class.
    reduction : "mean", "sum" or "none", default "mean"
        Reduction of the losses.
    ignore_index : int, default -100
        Targets of this value do not count.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `targets`. float32 for 16-bit logarithms, otherwise their
        dtype.

    Raises
    ------
    TypeError
        Log probabilities are not floating-point, or targets no integers.
    ValueError
        Shapes that do not fit; an unknown reduction.
    IndexError
        A class index outside 0 .. C - 1. On the GPU it is raised at the next synchronisation.

    Notes
    -----
    Gradient: -g / count at the targets, 0 elsewhere, of any order; also with respect to weights.
    The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.nll_loss(cm.array([[-1.0, -2.0], [-3.0, -4.0]]), cm.array([0, 1])).item()
    2.5
    """
    name = "nll_loss"
    _check_reduction(name, reduction)
    x, targets = _operands(name, log_probabilities, targets)
    picks = _class_targets(name, x, targets)
    ignored = as_integer(name, "ignore_index", ignore_index)
    flat, weight = _flattened(x), None if weight is None else _class_weights(name, x, weight)
    if weight is not None and weight._node is not None:
        each = _nll_loss(flat, picks, reduction="none", ignore_index=ignored)[0]
        return _shaped(_weighted(each, picks, weight, reduction, ignored), targets, reduction)
    operands = (flat, picks) if weight is None else (flat, picks, in_order(weight))
    loss = _nll_loss(*operands, reduction=reduction, ignore_index=ignored)[0]
    return _shaped(loss, targets, reduction)


# The cards. x: (N, C, D), targets: (N, D), weight, if there is one: (C,) in compute precision, of
# which no gradient is taken.


def _of_each(g: ndarray, targets: ndarray, weight: ndarray | None, ignore_index: int) -> ndarray:
    """The gradient of the losses, with weights of each: times the weight of its class."""
    if weight is None:
        return in_order(g)
    return in_order(_factor(targets, weight, ignore_index) * g)


def _cross_entropy_rule(
    g: tuple,
    y: tuple,
    x: ndarray,
    targets: ndarray,
    weight: ndarray | None = None,
    *,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> tuple:
    if g[0] is None:
        return (None,) * (2 if weight is None else 3)
    found = _cross_entropy_grad(
        _of_each(g[0], targets, weight, ignore_index),
        x,
        targets,
        y[1],
        y[2],
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )
    return (found, None) if weight is None else (found, None, None)


def _cross_entropy_grad_rule(
    h: ndarray,
    _dx: None,
    g: ndarray,
    x: ndarray,
    targets: ndarray,
    stats: ndarray,
    divisor: ndarray,
    *,
    ignore_index: int,
    label_smoothing: float,
) -> tuple:
    """dx is linear in g, and depends on x by the softmax alone; stats, functions of x, need no
    gradient of their own."""
    unit = _cross_entropy_grad(
        ones((), dtype=g.dtype, device=g.device),
        x,
        targets,
        stats,
        divisor,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )
    along_g = h * unit
    p = softmax(x, 1)
    factor = where(not_equal(targets, ignore_index), g / divisor, 0)
    along_x = factor.reshape((x.shape[0], 1, x.shape[2])) * p * (h - (h * p).sum(1, keepdims=True))
    return along_g.sum(1) if g.ndim else along_g.sum(), along_x, None, None, None


_cross_entropy = Op(
    "cross_entropy",
    cpu="loss.cross_entropy",
    cuda="loss.dispatch.cross_entropy",
    outputs=3,
    vjp=_cross_entropy_rule,
)
_cross_entropy_grad = Op(
    "cross_entropy_grad",
    cpu="loss.cross_entropy_grad",
    cuda="loss.dispatch.cross_entropy_grad",
    vjp=_cross_entropy_grad_rule,
    over=1,
)


def _nll_rule(
    g: tuple,
    y: tuple,
    x: ndarray,
    targets: ndarray,
    weight: ndarray | None = None,
    *,
    reduction: str,
    ignore_index: int,
) -> tuple:
    if g[0] is None:
        return (None,) * (2 if weight is None else 3)
    found = _nll_loss_grad(
        _of_each(g[0], targets, weight, ignore_index),
        targets,
        y[1],
        classes=x.shape[1],
        ignore_index=ignore_index,
        dtype=x.dtype,
    )
    return (found, None) if weight is None else (found, None, None)


def _nll_grad_rule(
    h: ndarray,
    _dx: None,
    g: ndarray,
    targets: ndarray,
    divisor: ndarray,
    *,
    classes: int,
    ignore_index: int,
    dtype: np.dtype,
) -> tuple:
    unit = _nll_loss_grad(
        ones((), dtype=g.dtype, device=g.device),
        targets,
        divisor,
        classes=classes,
        ignore_index=ignore_index,
        dtype=dtype,
    )
    return (h * unit).sum(1) if g.ndim else (h * unit).sum(), None, None


_nll_loss = Op(
    "nll_loss", cpu="loss.nll_loss", cuda="loss.dispatch.nll_loss", outputs=2, vjp=_nll_rule
)
_nll_loss_grad = Op(
    "nll_loss_grad",
    cpu="loss.nll_loss_grad",
    cuda="loss.dispatch.nll_loss_grad",
    vjp=_nll_grad_rule,
)
