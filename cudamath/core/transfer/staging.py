"""Rooms: host memory of a known address by way of which little arrays are copied; and tables that
do not grow for ever."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ..layout import Layout

_K = TypeVar("_K")
_V = TypeVar("_V")
_MOST_KEPT = 4096


def remember(table: dict[_K, _V], key: _K, made: _V) -> _V:
    """Keep `made` in a table; a full one is emptied first."""
    if len(table) >= _MOST_KEPT:
        table.clear()
    table[key] = made
    return made


class Room:
    """Host memory that a thread takes for the duration, seen as arrays of the layouts that went by
    way of it."""

    __slots__ = ("address", "memory", "views")

    def __init__(self, address: int, memory: Any):
        self.address, self.memory = address, memory
        self.views: dict[Layout, np.ndarray] = {}

    def view(self, layout: Layout) -> np.ndarray:
        """The first bytes as an array of this layout, for `views`."""
        return remember(self.views, layout, np.ndarray(layout.shape, layout.dtype, self.memory))
