"""Overlap-add of planes along the depth; see kernels/conv/overlap_add.py."""

import numpy as np

from .lib.float32_sums import widen


def _met(size: int, depth: int, step: int, start: int) -> tuple[slice, slice] | None:
    """Of planes 0 to depth, where plane d lies at d * step + start of an axis: those within it, and
    where; None if none is."""
    first, last = max(0, -(start // step)), min(depth, -((start - size) // step))
    if first >= last:
        return None
    return slice(first, last), slice(first * step + start, (last - 1) * step + start + 1, step)


def overlap_add(
    planes: np.ndarray,
    *,
    shape: tuple[int, ...],
    depth: int,
    taps: int,
    step: int,
    apart: int,
    before: int,
) -> np.ndarray:
    """planes (N * depth, K * taps, H, W) -> y of `shape` (N, K, Z, H, W)."""
    apiece = planes.reshape(shape[0], depth, shape[1], taps, *planes.shape[2:])
    y = np.zeros(shape, widen(planes[:0]).dtype)
    for t in range(taps):
        met = _met(shape[2], depth, step, t * apart - before)
        if met is not None:
            y[:, :, met[1]] += widen(apiece[:, met[0], :, t].swapaxes(1, 2))
    return y.astype(planes.dtype, copy=False)


def overlap_take(
    y: np.ndarray, *, depth: int, taps: int, step: int, apart: int, before: int
) -> np.ndarray:
    """y (N, K, Z, H, W) -> planes (N * depth, K * taps, H, W)."""
    apiece = np.zeros((y.shape[0], depth, y.shape[1], taps, *y.shape[3:]), y.dtype)
    for t in range(taps):
        met = _met(y.shape[2], depth, step, t * apart - before)
        if met is not None:
            apiece[:, met[0], :, t] = y[:, :, met[1]].swapaxes(1, 2)
    return apiece.reshape(y.shape[0] * depth, y.shape[1] * taps, *y.shape[3:])
