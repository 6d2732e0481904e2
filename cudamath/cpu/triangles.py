"""Matrices with a band of diagonals; see kernels/shape/triangles.py."""

import numpy as np

from ..core.layout import Layout


def _inside(rows: int, columns: int, low: int, high: int) -> np.ndarray:
    """Where low <= column - row <= high."""
    apart = np.arange(columns, dtype=np.int32) - np.arange(rows, dtype=np.int32)[:, None]
    if low <= -rows:
        return apart <= high
    return apart >= low if high >= columns else (apart >= low) & (apart <= high)


def band(x: np.ndarray, *, low: int, high: int) -> np.ndarray:
    """The band of matrices."""
    return np.where(_inside(x.shape[-2], x.shape[-1], low, high), x, np.zeros((), x.dtype))


def ones(*, layout: Layout, device: int, low: int, high: int) -> np.ndarray:
    """A new matrix of ones on a band."""
    if low == high:
        return np.eye(layout.shape[0], layout.shape[1], low, layout.dtype)
    return _inside(layout.shape[0], layout.shape[1], low, high).astype(layout.dtype)
