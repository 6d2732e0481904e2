"""Rules of losses: those of each sample are computed for all calls at once, and summed up by
call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.batched import Call, rules
from ..ops.creation import ones
from ..ops.elementwise import not_equal
from ..ops.index import take_along_axis
from ..ops.reduce import mean
from ..ops.reduce import sum as total
from ..ops.shape import astype, broadcast_to
from ..ops.where import where
from .rules import line, merged, parted


def _weights(call: Call, targets: ndarray, weight: ndarray | None, dtype: np.dtype) -> ndarray:
    """How much each target (batch, N, D) counts."""
    counted = not_equal(targets, call.params["ignore_index"])
    if weight is None:
        return astype(counted, dtype)
    picks = where(counted, targets, 0)
    flat = picks.reshape(call.size, -1)
    return where(counted, take_along_axis(weight, flat, axis=1).reshape(targets.shape), 0)


def _summed(each: ndarray, divisor: ndarray | None, reduction: str) -> ndarray:
    """Losses (batch, N, D) of each call summed up."""
    if reduction == "none":
        return each
    found = total(astype(each, np.float64), axis=(1, 2))
    if divisor is not None:
        found = found / divisor
    return astype(found, each.dtype)


def by_class(call: Call) -> Any:
    """x (N, C, D), targets (N, D), weight (C,) -> loss, (statistics (2, N, D),) divisor."""
    reduction = call.params["reduction"]
    targets = call.all(1)
    found = call.run(merged(call.all(0)), merged(targets), reduction="none")
    each = parted(found[0], call.size)
    weight = call.all(2) if len(call.arrays) > 2 and call.arrays[2] is not None else None
    counts = _weights(call, targets, weight, each.dtype)
    if weight is not None:
        each = where(not_equal(counts, 0), each * counts, 0)
    divisor = ones(call.size, dtype=each.dtype, device=each.device)
    if reduction == "mean":
        divisor = total(counts, axis=(1, 2))
    rest = [_statistics(s, call.size) for s in found[1:-1]]
    return (_summed(each, divisor, reduction), *rest, divisor)


def _statistics(s: ndarray, size: int) -> ndarray:
    """(2, batch * N, D) as (batch, 2, N, D)."""
    s = s.reshape(s.shape[0], size, -1, s.shape[2])
    return s.swapaxes(0, 1)


def _joined(s: ndarray) -> ndarray:
    """(batch, 2, N, D) as (2, batch * N, D)."""
    s = line(s.swapaxes(0, 1))
    return s.reshape(s.shape[0], s.shape[1] * s.shape[2], s.shape[3])


def _each(g: ndarray, divisor: ndarray, shape: tuple[int, ...]) -> tuple[ndarray, ndarray]:
    """The gradients of all losses of a batch, and the divisor 1. A batch of numbers: each for all
    losses of its call."""
    g = g.reshape(-1, 1, 1) if g.ndim == 1 else g
    g = g / divisor.reshape(-1, 1, 1)
    return merged(broadcast_to(g, shape)), ones((), dtype=g.dtype, device=g.device)


def by_class_grad(call: Call) -> Any:
    """g, x, targets, statistics, divisor -> the gradient of x."""
    targets = call.all(2)
    g, one = _each(call.all(0), call.all(4), targets.shape)
    y = call.run(g, merged(call.all(1)), merged(targets), _joined(call.all(3)), one)
    return parted(y, call.size)


def log_likelihood_grad(call: Call) -> Any:
    """g, targets, divisor -> the gradient of log probabilities."""
    targets = call.all(1)
    g, one = _each(call.all(0), call.all(2), targets.shape)
    return parted(call.run(g, merged(targets), one), call.size)


rules["cross_entropy"] = rules["nll_loss"] = by_class
rules["cross_entropy_grad"] = by_class_grad
rules["nll_loss_grad"] = log_likelihood_grad


def soft(call: Call) -> Any:
    """x, q (N, C, D) -> loss, statistics (3, N, D), divisor."""
    each, stats, _ = call.run(merged(call.all(0)), merged(call.all(1)), reduction="none")
    each = parted(each, call.size)
    reduction = call.params["reduction"]
    divisor = ones(call.size, dtype=each.dtype, device=each.device)
    if reduction == "mean":
        divisor = divisor * (each.shape[1] * each.shape[2])
    return _summed(each, divisor, reduction), _statistics(stats, call.size), divisor


def soft_grad(call: Call) -> Any:
    """g, x, q, statistics, divisor -> the gradient of x."""
    x = call.all(1)
    g, one = _each(call.all(0), call.all(4), (*x.shape[:2], x.shape[3]))
    y = call.run(g, merged(x), merged(call.all(2)), _joined(call.all(3)), one)
    return parted(y, call.size)


rules["cross_entropy (probabilities)"] = soft
rules["cross_entropy_grad (probabilities)"] = soft_grad


def pointwise(call: Call) -> Any:
    """The loss of each pair of elements, and their sum or mean by call."""
    reduction = call.params["reduction"]
    each = call.run(line(call.all(0)), line(call.all(1)), reduction="none")
    if reduction == "none":
        return each
    axes = tuple(range(1, each.ndim))
    return (mean if reduction == "mean" else total)(each, axis=axes)


def pointwise_grad(call: Call) -> Any:
    """g, of each element or one for all, x, t."""
    x = line(call.all(1))
    g = call.all(0)
    if g.ndim == 1 and x.ndim != 1:
        g = broadcast_to(g.reshape(call.size, *[1] * (x.ndim - 1)), x.shape)
    return call.run(line(g), x, line(call.all(2)))


rules["pointwise_loss"] = rules["pointwise_loss (of two)"] = pointwise
rules["pointwise_loss_grad"] = rules["pointwise_loss_grads"] = pointwise_grad
