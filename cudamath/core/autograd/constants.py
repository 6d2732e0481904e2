"""Numbers on a GPU that are written once and stay, for whatever only reads them: where gradients
begin.

To fill an array with the 1 that is the gradient of a loss by itself costs the host as much as any
other launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime import memory
from ...runtime.state import device_table
from ..array import ndarray
from ..layout import Layout

_PRECISE = np.dtype(np.float32), np.dtype(np.float64)
_MOST = 512  # different numbers: their memory is never given back


class Lasting:
    """The owner of such a number, whose memory is the same for all streams: none needs to be waited
    for, now or later."""

    __slots__ = ("value", "whole")

    stream = None

    def __init__(self, value: float):
        self.value = value
        self.whole: Any = None  # the array of it that `number` gave first

    def used_on(self, stream: Any) -> None:
        """Nothing to note: this memory is not used again."""


#: `full(shape, value, dtype, device=...)` and `full_like(x, value)`: ops/creation.py, which stands
#: above this file, sets them.
full: Callable[..., ndarray]
full_like: Callable[..., ndarray]

#: (value, layout) -> the array
made: dict[tuple[float, Layout], ndarray] = device_table()


def number(value: float, layout: Layout) -> ndarray | None:
    """A number as an array of this layout, of one element in C order on a GPU, that nobody may
    change; None where there are too many of them already."""
    whole = made.get((value, layout))
    if whole is None:
        if len(made) >= _MOST:
            return None
        whole = object.__new__(ndarray)
        whole._data = memory.constant(np.asarray(value, layout.dtype).tobytes(), layout.device)
        whole._layout, whole._owner, whole._node = layout, Lasting(value), None
        whole._owner.whole = made[value, layout] = whole
    return whole._alias()


def divided(x: ndarray, divisor: int) -> ndarray | None:
    """x / divisor for a view of a number that lasts, which is one of another that lasts; None for
    any other array, for which that is to be computed."""
    owner = x._owner
    if type(owner) is not Lasting or not divisor or x._layout.dtype not in _PRECISE:
        return None
    other = number(owner.value / divisor, owner.whole._layout)
    if other is not None:
        other._layout = x._layout
    return other
