"""Where the elements of an axis come from when it is resized: pure numbers, the same for every device.

Element i of the new axis is (1 - fraction[i]) old[first[i]] + fraction[i] old[second[i]]; `first` and `second` rise.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

NEAREST = ("nearest", "nearest-exact")


class Taps(NamedTuple):
    """One axis: int32 (new,), int32 (new,), float64 (new,)."""

    first: np.ndarray
    second: np.ndarray
    fraction: np.ndarray

    def users(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """For each of the `length` old elements the first new one that needs it, and the last + 1; int32."""
        old = np.arange(length)
        return (np.searchsorted(self.second, old, "left").astype(np.int32),
                np.searchsorted(self.first, old, "right").astype(np.int32))


@functools.lru_cache(512)
def taps(length: int, count: int, mode: str, corners: bool, step: float) -> Taps:
    """An axis of `length` resized to `count` elements; step: the distance of neighbours, in old elements.

    mode "nearest": floor(i step); "nearest-exact": floor((i + 1/2) step); both in float32, so that ties fall as in PyTorch.
    "linear": between the neighbours of (i + 1/2) step - 1/2, or, with `corners`, of i (length - 1) / (count - 1).
    """
    i = np.arange(count)
    if mode in NEAREST:
        shift = np.float32(0.5 if mode == "nearest-exact" else 0)
        place = np.floor((i.astype(np.float32) + shift) * np.float32(step))
        first = np.minimum(place.astype(np.int32), np.int32(length - 1))
        return Taps(first, first, np.zeros(count))
    if corners:
        source = i * ((length - 1) / (count - 1) if count > 1 else 0.0)
    else:
        source = np.maximum((i + 0.5) * step - 0.5, 0)
    first = np.minimum(source.astype(np.int32), np.int32(length - 1))
    second = np.minimum(first + np.int32(1), np.int32(length - 1))
    return Taps(first, second, np.minimum(source - first, 1.0))
