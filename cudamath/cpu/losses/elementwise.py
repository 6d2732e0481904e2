"""Losses that compare two arrays element by element, in NumPy.

`LOSSES` states each loss, its slopes and its second derivatives once, as formulas on a namespace
`xp` of elementwise functions: here NumPy's; in ml/loss_elementwise.py the package's own, for fused
functions and for second order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..lib.float32_sums import widen

LOWEST_LOG = (
    -100.0
)  # of a probability: the loss of a wrong certainty is 100, not infinite, as in PyTorch
LEAST_SPREAD = (
    1e-12  # of x (1 - x), by which the slope of binary_cross_entropy divides, as in PyTorch
)


class Loss(NamedTuple):
    """Formulas (xp, x, t, p) of x, target and parameter."""

    value: Callable[..., Any]
    slopes: tuple[Callable[..., Any], Callable[..., Any]]  # by x, by t
    second: tuple[
        Callable[..., Any], Callable[..., Any], Callable[..., Any]
    ]  # by x twice, by x and t, by t twice


def _distance(value: Callable, slope: Callable, second: Callable) -> Loss:
    """A loss of d = x - t alone; the formulas are of (xp, d, p)."""
    return Loss(
        lambda xp, x, t, p: value(xp, x - t, p),
        (lambda xp, x, t, p: slope(xp, x - t, p), lambda xp, x, t, p: slope(xp, t - x, p)),
        (
            lambda xp, x, t, p: second(xp, x - t, p),
            lambda xp, x, t, p: -second(xp, x - t, p),
            lambda xp, x, t, p: second(xp, x - t, p),
        ),
    )


def _sigmoid(xp: Any, x: Any) -> Any:
    return 1 / (1 + xp.exp(-x))


def _softplus(xp: Any, x: Any) -> Any:
    if xp is not np:  # there it is a function whose gradients are known; those of |x| at 0 are not
        return xp.softplus(x)
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


LOSSES = {
    "mse_loss": _distance(
        lambda xp, d, p: d * d, lambda xp, d, p: 2 * d, lambda xp, d, p: d * 0 + 2
    ),
    "l1_loss": _distance(
        lambda xp, d, p: xp.abs(d), lambda xp, d, p: xp.sign(d), lambda xp, d, p: d * 0
    ),
    "huber_loss": _distance(
        lambda xp, d, p: xp.where(xp.abs(d) <= p, 0.5 * d * d, p * (xp.abs(d) - 0.5 * p)),
        lambda xp, d, p: xp.maximum(xp.minimum(d, p), -p),
        lambda xp, d, p: xp.where(xp.abs(d) <= p, d * 0 + 1, d * 0),
    ),
    "smooth_l1_loss": _distance(
        lambda xp, d, p: xp.where(xp.abs(d) < p, 0.5 * d * d / p, xp.abs(d) - 0.5 * p),
        lambda xp, d, p: xp.where(xp.abs(d) < p, d / p, xp.sign(d)),
        lambda xp, d, p: xp.where(xp.abs(d) < p, d * 0 + 1 / p, d * 0),
    ),
    "bce_with_logits": Loss(
        lambda xp, x, t, p: (1 - t) * _softplus(xp, x) + p * t * _softplus(xp, -x),
        (
            lambda xp, x, t, p: (1 - t) * _sigmoid(xp, x) - p * t * _sigmoid(xp, -x),
            lambda xp, x, t, p: p * _softplus(xp, -x) - _softplus(xp, x),
        ),
        (
            lambda xp, x, t, p: (1 + (p - 1) * t) * _sigmoid(xp, x) * _sigmoid(xp, -x),
            lambda xp, x, t, p: -_sigmoid(xp, x) - p * _sigmoid(xp, -x),
            lambda xp, x, t, p: x * 0,
        ),
    ),
    "binary_cross_entropy": Loss(
        lambda xp, x, t, p: (
            -t * xp.maximum(xp.log(x), LOWEST_LOG) - (1 - t) * xp.maximum(xp.log1p(-x), LOWEST_LOG)
        ),
        (
            lambda xp, x, t, p: (x - t) / xp.maximum(x * (1 - x), LEAST_SPREAD),
            lambda xp, x, t, p: (
                xp.maximum(xp.log1p(-x), LOWEST_LOG) - xp.maximum(xp.log(x), LOWEST_LOG)
            ),
        ),
        (
            lambda xp, x, t, p: t / (x * x) + (1 - t) / ((1 - x) * (1 - x)),
            lambda xp, x, t, p: -1 / xp.maximum(x * (1 - x), LEAST_SPREAD),
            lambda xp, x, t, p: x * 0,
        ),
    ),
    # of probabilities t (0 log 0 = 0), and of their logarithms
    "kl_div": Loss(
        lambda xp, x, t, p: xp.where(t == 0, t, t * (xp.log(xp.where(t == 0, 1, t)) - x)),
        (lambda xp, x, t, p: -t, lambda xp, x, t, p: xp.log(t) + 1 - x),
        (lambda xp, x, t, p: x * 0, lambda xp, x, t, p: x * 0 - 1, lambda xp, x, t, p: 1 / t),
    ),
    "kl_div (log)": Loss(
        lambda xp, x, t, p: xp.where(xp.exp(t) == 0, 0, xp.exp(t) * (t - x)),
        (
            lambda xp, x, t, p: -xp.exp(t),
            lambda xp, x, t, p: xp.where(xp.exp(t) == 0, 0, xp.exp(t) * (t - x + 1)),
        ),
        (
            lambda xp, x, t, p: x * 0,
            lambda xp, x, t, p: -xp.exp(t),
            lambda xp, x, t, p: xp.where(xp.exp(t) == 0, 0, xp.exp(t) * (t - x + 2)),
        ),
    ),
}


def loss(x, t, *, kind, reduction, scalars):
    """x, t of one shape; scalars: (parameter,) -> the loss () or of each element, in the dtype that
    x is computed in."""
    wide = widen(x)
    with np.errstate(all="ignore"):
        each = LOSSES[kind].value(np, wide, widen(t), wide.dtype.type(scalars[0]))
        if reduction == "none":
            return np.asarray(each, wide.dtype)
        total = each.sum(dtype=np.float64)
        return np.asarray(total if reduction == "sum" else total / np.float64(x.size), wide.dtype)


def loss_grad(g, x, t, *, kind, by, scalars):
    """g: () or like x; scalars: (parameter, scale) -> g * scale * slope, `by` x (0) or t (1)."""
    wide = widen(x)
    T = wide.dtype.type
    with np.errstate(all="ignore"):
        slope = LOSSES[kind].slopes[by](np, wide, widen(t), T(scalars[0]))
        return np.asarray(slope * (widen(g) * T(scalars[1])), x.dtype)


def loss_grads(g, x, t, *, kind, scalars):
    """The same by x and by t."""
    return tuple(loss_grad(g, x, t, kind=kind, by=by, scalars=scalars) for by in (0, 1))
