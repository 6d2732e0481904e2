"""Sums in NumPy that are pairwise along every axis. NumPy's own sum is pairwise only along the
innermost axis; along others it adds row by row, and rounding errors grow with every row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

ROWS = 64  # rows that are added one after the other
_add: Any = np.add.reduce  # (its types do not know that keepdims may be a variable)


def count_along(x: np.ndarray, axis: tuple[int, ...]) -> int:
    """The number of elements that go into one result."""
    count = 1
    for i in axis:
        count *= x.shape[i]
    return count


def total(x: np.ndarray, axis: tuple[int, ...], keepdims: bool, dtype: np.dtype) -> Any:
    """The sum over the axes, added in `dtype`."""
    if dtype.kind not in "fc":
        return _add(x, axis=axis, dtype=dtype, keepdims=keepdims)
    order = sorted((i for i in range(x.ndim) if x.shape[i] > 1), key=lambda i: abs(x.strides[i]))
    inner = tuple(itertools.takewhile(axis.__contains__, order))
    outer = [i for i in order if i in axis and i not in inner and x.shape[i] > ROWS]
    if not outer:
        return _add(x, axis=axis, dtype=dtype, keepdims=keepdims)
    rest = tuple(i for i in axis if i not in outer)
    sums = np.add.reduce(x, axis=rest, dtype=dtype, keepdims=True) if rest else x
    for i in outer:
        sums = np.expand_dims(_sum_of_sums(np.moveaxis(sums, i, 0), dtype), i)
    if keepdims:
        return sums
    return sums.reshape([n for i, n in enumerate(sums.shape) if i not in axis])


def _sum_of_sums(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sum over the first axis: first of ROWS rows each, then of these sums."""
    while len(x) > ROWS:
        whole = len(x) // ROWS * ROWS
        blocks = x[:whole].reshape(whole // ROWS, ROWS, *x.shape[1:])
        sums = np.add.reduce(blocks, axis=1, dtype=dtype)
        if whole < len(x):
            rest = np.add.reduce(x[whole:], axis=0, dtype=dtype, keepdims=True)
            sums = np.concatenate([sums, rest])
        x = sums
    return np.add.reduce(x, axis=0, dtype=dtype)
