"""Losses: cross entropy, negative log likelihood, mean squared error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.op import FLOATING, INTEGER, Op, coerce, require
from ..ops.creation import ones
from ..ops.elementwise import not_equal
from ..ops.index import where
from .softmax import in_order, log_softmax, softmax

__all__ = ["cross_entropy", "mse_loss", "nll_loss"]


def _reduced(loss: ndarray, reduction: str) -> ndarray:
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction is 'mean', 'sum' or 'none', got {reduction!r}")


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
        raise TypeError(f"{name}: wants integer class indices, got targets of dtype {targets.dtype}, shape {targets.shape}")
    wanted = logits.shape[:1] * (logits.ndim > 1) + logits.shape[2:]
    if targets.shape != wanted:
        raise ValueError(f"{name}: logits of shape {logits.shape} want class indices of shape {wanted}, got {targets.shape}")
    if targets.dtype not in (np.int32, np.int64):
        targets = targets.astype(np.int64)
    return in_order(targets).reshape((1 if logits.ndim == 1 else logits.shape[0], math.prod(logits.shape[2:])))


def cross_entropy(logits: Any, targets: Any, *, reduction: str = "mean", ignore_index: int = -100,
                  label_smoothing: float = 0.0) -> ndarray:
    """Cross entropy between class scores and targets, the softmax included.

    loss_n = -sum_c q_nc log softmax(logits_n)_c, where q_n is one-hot at the target class, or the target itself;
    with label smoothing a, q becomes (1 - a) q + a / C. "mean" divides the sum by the number of targets that are not
    ignored (NaN if there is none).

    Parameters
    ----------
    logits : array (N, C), (N, C, d1, ...) or (C,) of float16, bfloat16, float32 or float64
        Scores of C classes, unnormalised. 16-bit numbers are computed in float32.
    targets : array of integers (N,), (N, d1, ...) or ()
        Class indices, 0 <= target < C; or
    targets : array of floats in the shape of `logits`
        Probabilities of the classes ("soft labels").
    reduction : "mean", "sum" or "none"
    ignore_index : int
        Targets of this value count neither in the loss nor in the gradient. Class indices only.
    label_smoothing : float in [0, 1]

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of the class indices; dtype of `logits`.

    Raises
    ------
    TypeError
        Logits are not floating-point, or targets neither integers nor floats.
    ValueError
        Shapes that do not fit; an unknown reduction; label_smoothing outside [0, 1].
    IndexError
        A class index outside 0 .. C - 1. On the GPU it is raised at the next synchronisation.

    Gradient: with respect to logits (softmax(logits) - q) g / count, of any order, and to soft labels. On the GPU, class
    indices take one read of the logits forward, one read and one write backward. Deterministic.

    >>> import cudamath as cm
    >>> logits = cm.array([[2.0, 0.0], [0.0, 0.0]])
    >>> round(cm.ml.cross_entropy(logits, cm.array([0, 1])).item(), 4)
    0.41
    >>> round(cm.ml.cross_entropy(logits, cm.array([0, -100])).item(), 4)
    0.1269
    """
    name = "cross_entropy"
    _check_reduction(name, reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing lies between 0 and 1, got {label_smoothing}")
    logits, targets = _operands(name, logits, targets)
    if targets.dtype in FLOATING:
        return _soft_cross_entropy(logits, targets, reduction, label_smoothing)
    picks = _class_targets(name, logits, targets)
    loss = _cross_entropy(_flattened(logits), picks, reduction=reduction, ignore_index=int(ignore_index),
                          label_smoothing=float(label_smoothing))[0]
    return loss.reshape(targets.shape) if reduction == "none" else loss


def _soft_cross_entropy(logits: ndarray, targets: ndarray, reduction: str, label_smoothing: float) -> ndarray:
    if targets.shape != logits.shape:
        raise ValueError(f"cross_entropy: probabilities have the shape of the logits, {logits.shape}, got {targets.shape}")
    axis = min(1, logits.ndim - 1)
    if label_smoothing:
        targets = targets * (1 - label_smoothing) + label_smoothing / logits.shape[axis]
    loss = -(targets.astype(logits.dtype) * log_softmax(logits, axis)).sum(axis)
    return _reduced(loss, reduction)


def nll_loss(log_probabilities: Any, targets: Any, *, reduction: str = "mean", ignore_index: int = -100) -> ndarray:
    """Negative log likelihood of class indices under given log probabilities.

    loss_n = -log_probabilities[n, targets_n]; "mean" divides by the number of targets that are not ignored.
    `cross_entropy` is this after `log_softmax`, in one step.

    Parameters
    ----------
    log_probabilities : array (N, C), (N, C, d1, ...) or (C,) of float16, bfloat16, float32 or float64
    targets : array of integers (N,), (N, d1, ...) or ()
        Class indices, 0 <= target < C.
    reduction : "mean", "sum" or "none"
    ignore_index : int
        Targets of this value do not count.

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `targets`; dtype of `log_probabilities`.

    Raises
    ------
    TypeError
        Log probabilities are not floating-point, or targets no integers.
    ValueError
        Shapes that do not fit; an unknown reduction.
    IndexError
        A class index outside 0 .. C - 1. On the GPU it is raised at the next synchronisation.

    Gradient: -g / count at the targets, 0 elsewhere, of any order. Deterministic.

    >>> import cudamath as cm
    >>> cm.ml.nll_loss(cm.array([[-1.0, -2.0], [-3.0, -4.0]]), cm.array([0, 1])).item()
    2.5
    """
    name = "nll_loss"
    _check_reduction(name, reduction)
    x, targets = _operands(name, log_probabilities, targets)
    picks = _class_targets(name, x, targets)
    loss = _nll_loss(_flattened(x), picks, reduction=reduction, ignore_index=int(ignore_index))[0]
    return loss.reshape(targets.shape) if reduction == "none" else loss


def mse_loss(x: Any, target: Any, *, reduction: str = "mean") -> ndarray:
    """Mean squared error: the mean (or sum, or each) of (x - target)^2.

    Parameters
    ----------
    x, target : arrays of one shape; floating-point
    reduction : "mean", "sum" or "none"

    Returns
    -------
    ndarray
        0-d, or for "none" in the shape of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        Shapes differ (they are not broadcast: (N,) against (N, 1) is a mistake); an unknown reduction.

    Gradient: 2 (x - target) g / count and its opposite, of any order. Deterministic.

    >>> import cudamath as cm
    >>> cm.ml.mse_loss(cm.array([1.0, 2.0]), cm.array([0.0, 4.0])).item()
    2.5
    """
    _check_reduction("mse_loss", reduction)
    x, target = coerce("mse_loss", (x, target), FLOATING)
    if x.shape != target.shape:
        raise ValueError(f"mse_loss: wants two arrays of one shape, got {x.shape} and {target.shape}")
    distance = x - target
    return _reduced(distance * distance, reduction)


# The cards. x: (N, C, D), targets: (N, D).


def _cross_entropy_rule(g: tuple, y: tuple, x: ndarray, targets: ndarray, *, reduction: str, ignore_index: int,
                        label_smoothing: float) -> tuple:
    if g[0] is None:
        return None, None
    return _cross_entropy_grad(in_order(g[0]), x, targets, y[1], y[2], ignore_index=ignore_index,
                               label_smoothing=label_smoothing), None


def _cross_entropy_grad_rule(h: ndarray, _dx: None, g: ndarray, x: ndarray, targets: ndarray, stats: ndarray,
                             divisor: ndarray, *, ignore_index: int, label_smoothing: float) -> tuple:
    """dx is linear in g, and depends on x by the softmax alone; stats, functions of x, need no gradient of their own."""
    unit = _cross_entropy_grad(ones((), dtype=g.dtype, device=g.device), x, targets, stats, divisor,
                               ignore_index=ignore_index, label_smoothing=label_smoothing)
    along_g = h * unit
    p = softmax(x, 1)
    factor = where(not_equal(targets, ignore_index), g / divisor.astype(g.dtype), 0)
    along_x = factor.reshape((x.shape[0], 1, x.shape[2])) * p * (h - (h * p).sum(1, keepdims=True))
    return along_g.sum(1) if g.ndim else along_g.sum(), along_x, None, None, None


_cross_entropy = Op("cross_entropy", cpu="loss.cross_entropy", cuda="loss.cross_entropy", outputs=3,
                    vjp=_cross_entropy_rule)
_cross_entropy_grad = Op("cross_entropy_grad", cpu="loss.cross_entropy_grad", cuda="loss.cross_entropy_grad",
                         vjp=_cross_entropy_grad_rule)


def _nll_rule(g: tuple, y: tuple, x: ndarray, targets: ndarray, *, reduction: str, ignore_index: int) -> tuple:
    if g[0] is None:
        return None, None
    return _nll_loss_grad(in_order(g[0]), targets, y[1], classes=x.shape[1], ignore_index=ignore_index), None


def _nll_grad_rule(h: ndarray, _dx: None, g: ndarray, targets: ndarray, divisor: ndarray, *, classes: int,
                   ignore_index: int) -> tuple:
    unit = _nll_loss_grad(ones((), dtype=g.dtype, device=g.device), targets, divisor, classes=classes,
                          ignore_index=ignore_index)
    return (h * unit).sum(1) if g.ndim else (h * unit).sum(), None, None


_nll_loss = Op("nll_loss", cpu="loss.nll_loss", cuda="loss.nll_loss", outputs=2, vjp=_nll_rule)
_nll_loss_grad = Op("nll_loss_grad", cpu="loss.nll_loss_grad", cuda="loss.nll_loss_grad", vjp=_nll_grad_rule)
