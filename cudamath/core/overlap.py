"""Which arrays share memory: the bytes that their elements take, and the pattern of overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import shapes
from .array import ndarray
from .devices import CPU


def span(x: ndarray) -> tuple[int, int]:
    """The bytes between which the elements of an array lie."""
    low, high = shapes.byte_bounds(x._layout.shape, x._layout.strides, x._layout.itemsize)
    address = x._address
    return address + low, address + high


def overlaps(arrays: Sequence[ndarray]) -> tuple[tuple[int, int], ...] | None:
    """Which arrays overlap, and how: for each the number of the first one that it overlaps, and how
    many bytes after that one it begins. None if all are apart, which is quickly told."""
    owners = {
        id(x._owner if x._layout.device != CPU else x._data if x._data.base is None else _root(x))
        for x in arrays
    }
    if len(owners) == len(arrays):
        return None
    spans = [span(x) for x in arrays]
    pattern = []
    for i, (low, high) in enumerate(spans):
        first = next(
            (j for j in range(i) if spans[j][0] < high and low < spans[j][1] and low < high), i
        )
        pattern.append((first, low - spans[first][0]))
    return None if all([j == i for i, (j, _) in enumerate(pattern)]) else tuple(pattern)


def together(arrays: Sequence[ndarray]) -> list[list[int]]:
    """The numbers of the arrays in groups, in the order of their addresses: two that overlap are
    of one group."""
    spans = [span(x) for x in arrays]
    groups: list[list[int]] = []
    end = -1
    for i in sorted(range(len(arrays)), key=spans.__getitem__):
        low, high = spans[i]
        if groups and low < end:
            groups[-1].append(i)
        else:
            groups.append([i])
        end = max(end, high)
    return groups


def _root(x: ndarray) -> Any:
    """The object that owns the memory of an array on the CPU."""
    data = x._data
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data if data.base is None else data.base
