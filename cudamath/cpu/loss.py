"""Cross entropy and negative log likelihood with class indices, and their gradients, in NumPy.

Logits are viewed as (N, C, D): N samples, C classes, D positions per sample (1 without extra axes);
targets are (N, D).
"""

import numpy as np

from .lib.float32_sums import widen


def _checked(
    name: str, targets: np.ndarray, classes: int, ignore_index: int
) -> tuple[np.ndarray, np.ndarray]:
    """(N, D) class indices -> which of them count, and the indices with the ignored ones set to 0;
    IndexError."""
    counted = targets != ignore_index
    wrong = counted & ((targets < 0) | (targets >= classes))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        shown = where[:1] if targets.shape[1:] == (1,) else where
        raise IndexError(
            f"{name}: target {int(targets[where])} at position {shown} is outside 0 .. "
            f"{classes - 1} "
            f"({classes} classes) and is not ignore_index = {ignore_index}"
        )
    return counted, np.where(counted, targets, 0).astype(np.int64)


def _reduce(loss: np.ndarray, counted: np.ndarray, reduction: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, D) losses -> the reduced loss and the divisor: the number of counted targets or 1."""
    dtype = loss.dtype
    divisor = np.asarray(counted.sum() if reduction == "mean" else 1, dtype)
    if reduction != "none":
        with np.errstate(invalid="ignore"):  # no target counted: 0 / 0 = NaN, as in PyTorch
            loss = loss.sum(dtype=np.float64) / divisor.astype(np.float64)
    return np.asarray(loss, dtype), divisor


def _coefficient(g: np.ndarray, counted: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """The gradient of the scalar loss, or of each loss, as a factor for each target: (N, 1, D)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counted, g / divisor, divisor.dtype.type(0))[:, None, :]


def _weights(weight: np.ndarray | None, counted: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """How much each target counts, (N, D): not at all, once, or as much as its class weighs."""
    return (
        counted
        if weight is None
        else np.where(counted, weight[picks] if weight.size else 0, weight.dtype.type(0))
    )


def cross_entropy(x, targets, weight=None, *, reduction, ignore_index, label_smoothing):
    """x (N, C, D), targets (N, D), weight (C,) -> loss () or (N, D), stats (2, N, D), divisor (),
    all in compute precision.

    stats: the maximum of x over the classes, and log sum exp(x - maximum).
    """
    wide = widen(x)
    n, classes, depth = x.shape
    counted, picks = _checked("cross_entropy", targets, classes, ignore_index)
    if x.size == 0:
        loss, stats = np.zeros((n, depth), wide.dtype), np.zeros((2, n, depth), wide.dtype)
    else:
        loss, stats = _losses(wide, picks, label_smoothing)
    factor = _weights(weight, counted, picks)
    loss = np.where(counted, loss if weight is None else loss * factor, wide.dtype.type(0))
    reduced, divisor = _reduce(loss, factor, reduction)
    return reduced, stats, divisor


def _losses(
    x: np.ndarray, picks: np.ndarray, label_smoothing: float
) -> tuple[np.ndarray, np.ndarray]:
    """x (N, C, D) in compute precision, picks (N, D) -> losses (N, D), stats (2, N, D)."""
    top = x.max(axis=1)
    with np.errstate(invalid="ignore"):  # a row with +inf, or -inf throughout, gives NaN
        d = x - top[:, None, :]
        log_sum = np.log(np.exp(d).sum(axis=1))
        loss = log_sum - np.take_along_axis(d, picks[:, None, :], axis=1)[:, 0]
        if label_smoothing:
            uniform = log_sum - d.mean(axis=1)  # the loss with equal probabilities as targets
            loss = loss * x.dtype.type(1 - label_smoothing)
            loss += uniform * x.dtype.type(label_smoothing)
        return loss, np.stack([top, log_sum])


def cross_entropy_grad(g, x, targets, stats, divisor, *, ignore_index, label_smoothing):
    """g () or (N, D), x (N, C, D), targets (N, D), stats (2, N, D), divisor () -> gradient of x."""
    wide = widen(x)
    classes = x.shape[1]
    counted, picks = _checked("cross_entropy", targets, classes, ignore_index)
    with np.errstate(invalid="ignore"):
        d = np.exp(wide - stats[0, :, None] - stats[1, :, None])
    if label_smoothing:
        d -= wide.dtype.type(label_smoothing / classes)
    hit = picks[:, None, :]
    if x.size:
        at_targets = np.take_along_axis(d, hit, axis=1) - wide.dtype.type(1 - label_smoothing)
        np.put_along_axis(d, hit, at_targets, axis=1)
    factor = _coefficient(g, counted, divisor)
    with np.errstate(invalid="ignore"):
        d *= factor
    d = np.where(counted[:, None, :], d, wide.dtype.type(0))
    return d.astype(x.dtype, copy=False)


def nll_loss(x, targets, weight=None, *, reduction, ignore_index):
    """x (N, C, D) log probabilities, targets (N, D), weight (C,) -> loss () or (N, D), and divisor
    ()."""
    counted, picks = _checked("nll_loss", targets, x.shape[1], ignore_index)
    factor = _weights(weight, counted, picks)
    if x.size == 0:
        loss = np.zeros(targets.shape, widen(x).dtype)
    else:
        picked = np.take_along_axis(widen(x), picks[:, None, :], axis=1)[:, 0]
        loss = np.where(
            counted, -picked if weight is None else -picked * factor, picked.dtype.type(0)
        )
    return _reduce(loss, factor, reduction)


def nll_loss_grad(g, targets, divisor, *, classes, ignore_index, dtype):
    """g () or (N, D), targets (N, D), divisor () -> gradient (N, C, D) in dtype: -g / divisor at
    the targets."""
    counted, picks = _checked("nll_loss", targets, classes, ignore_index)
    out = np.zeros((targets.shape[0], classes, targets.shape[1]), dtype)
    if out.size:
        np.put_along_axis(
            out, picks[:, None, :], (-_coefficient(g, counted, divisor)).astype(dtype), axis=1
        )
    return out
