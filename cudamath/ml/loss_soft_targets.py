"""Cross entropy with probabilities as targets: the card that loss.py's `cross_entropy` uses. x, q:
(N, C, D)."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.dispatch.op import Op
from ..ops.creation import ones
from .softmax import in_order, log_softmax, softmax

__all__: list[str] = []


def soft_cross_entropy(x: ndarray, q: ndarray, reduction: str, label_smoothing: float) -> ndarray:
    """Losses (), or (N, D) for "none"."""
    return _soft_cross_entropy(x, q, reduction=reduction, label_smoothing=float(label_smoothing))[0]


def _factor(g: ndarray, divisor: ndarray) -> ndarray:
    """g / divisor, to broadcast over (N, C, D)."""
    factor = g / divisor
    return factor[:, None] if g.ndim else factor


def _rule(
    g: tuple, y: tuple, x: ndarray, q: ndarray, *, reduction: str, label_smoothing: float
) -> tuple:
    if g[0] is None:
        return None, None
    dx = _soft_cross_entropy_grad(in_order(g[0]), x, q, y[1], y[2], label_smoothing=label_smoothing)
    if q._node is None:
        return dx, None
    return dx, log_softmax(x, 1) * _factor(g[0], y[2]) * (label_smoothing - 1)


def _grad_rule(
    h: ndarray,
    _dx: None,
    g: ndarray,
    x: ndarray,
    q: ndarray,
    stats: ndarray,
    divisor: ndarray,
    *,
    label_smoothing: float,
) -> tuple:
    """dx = (W p - q') factor, W the sum of q', as a function of q. stats need no gradient of their
    own."""
    unit = h * _soft_cross_entropy_grad(
        ones((), dtype=g.dtype, device=g.device),
        x,
        q,
        stats,
        divisor,
        label_smoothing=label_smoothing,
    )
    p, factor = softmax(x, 1), _factor(g, divisor)
    mean = (h * p).sum(1, keepdims=True)
    weight = (
        stats[2][:, None]
        if q._node is None
        else q.sum(1, keepdims=True) * (1 - label_smoothing) + label_smoothing
    )
    return (
        unit.sum(1) if g.ndim else unit.sum(),
        weight * p * (h - mean) * factor,
        (mean - h) * factor * (1 - label_smoothing),
        None,
        None,
    )


_soft_cross_entropy: Any = Op(
    "cross_entropy (probabilities)",
    cpu="losses.soft_targets.soft_cross_entropy",
    cuda="loss.dispatch.soft_cross_entropy",
    outputs=3,
    vjp=_rule,
)
_soft_cross_entropy_grad: Any = Op(
    "cross_entropy_grad (probabilities)",
    cpu="losses.soft_targets.soft_cross_entropy_grad",
    cuda="loss.dispatch.soft_cross_entropy_grad",
    vjp=_grad_rule,
)
