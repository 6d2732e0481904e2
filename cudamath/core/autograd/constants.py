"""Constants on a GPU: scalars that are written once, shared, and never freed.

The backward pass begins with a 1, the gradient of a loss with respect to itself. Filling a new
array with it would cost the host as much as any other launch.
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
_MOST = 512  # constants: their memory is never freed


class Lasting:
    """The owner of a constant. Its memory is valid on all streams without synchronisation."""

    __slots__ = ("value", "whole")

    stream = None

    def __init__(self, value: float):
        self.value = value
        self.whole: Any = None  # the first array of this constant

    def used_on(self, stream: Any) -> None:
        """Do nothing: this memory is never reused."""


#: `full(shape, value, dtype, device=...)` and `full_like(x, value)`, set by ops/creation.py.
full: Callable[..., ndarray]
full_like: Callable[..., ndarray]

#: (value, layout) -> the array
made: dict[tuple[float, Layout], ndarray] = device_table()


def number(value: float, layout: Layout) -> ndarray | None:
    """A number as a constant of this layout (one element, on a GPU), which must not be written;
    None if there are _MOST constants already."""
    whole = made.get((value, layout))
    if whole is None:
        if len(made) >= _MOST:
            return None
        whole = object.__new__(ndarray)
        whole._data = memory.constant(np.asarray(value, layout.dtype).tobytes(), layout.device)
        whole._layout, whole._owner, whole._node = layout, Lasting(value), None
        whole._base = None
        whole._owner.whole = made[value, layout] = whole
    return whole._alias()


def divided(x: ndarray, divisor: int) -> ndarray | None:
    """x / divisor for a view of a constant, as a view of another constant; None for any other
    array."""
    owner = x._owner
    if type(owner) is not Lasting or not divisor or x._layout.dtype not in _PRECISE:
        return None
    other = number(owner.value / divisor, owner.whole._layout)
    if other is not None:
        other._layout = x._layout
    return other
