"""Cross entropy with probabilities as targets, and its gradient, in NumPy. Logits and targets are
(N, C, D)."""

import numpy as np

from ..lib.float32_sums import widen


def _smoothed(q, classes, label_smoothing):
    wide = widen(q)
    T = wide.dtype.type
    return (
        wide * T(1 - label_smoothing) + T(label_smoothing / max(classes, 1))
        if label_smoothing
        else wide
    )


def soft_cross_entropy(x, q, *, reduction, label_smoothing):
    """x, q (N, C, D) -> loss () or (N, D), stats (3, N, D): top, log_sum, sum of q; divisor ().
    All in compute precision."""
    wide, target = widen(x), _smoothed(q, x.shape[1], label_smoothing)
    n, classes, depth = x.shape
    with np.errstate(all="ignore"):
        top = wide.max(1, initial=-np.inf)
        below = wide - top[:, None]
        log_sum = np.log(np.exp(below).sum(1))
        weight = target.sum(1)
        each = weight * log_sum - (target * below).sum(1)
        divisor = np.asarray(n * depth if reduction == "mean" else 1, wide.dtype)
        loss = each if reduction == "none" else each.sum(dtype=np.float64) / np.float64(divisor)
    return (
        np.asarray(loss, wide.dtype),
        np.stack([top, log_sum, weight]).astype(wide.dtype, copy=False),
        divisor,
    )


def soft_cross_entropy_grad(g, x, q, stats, divisor, *, label_smoothing):
    """g () or (N, D), x, q (N, C, D), stats (3, N, D), divisor () -> gradient of x."""
    top, log_sum, weight = stats[:, :, None]
    with np.errstate(all="ignore"):
        d = np.exp(widen(x) - top - log_sum) * weight - _smoothed(q, x.shape[1], label_smoothing)
        factor = g / divisor
        return (d * (factor[:, None] if g.ndim else factor)).astype(x.dtype, copy=False)
