"""Where the elements of an axis come from when it is resized or padded: pure numbers, the same for
every device.

Element i of the new axis is (1 - fraction[i]) old[first[i]] + fraction[i] old[second[i]].
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

MIXED = ("linear", "corners")  # two old elements for a new one; the other modes take one
Axis = tuple[str, float]  # mode and number


class Taps(NamedTuple):
    """One axis: int32 (new,), int32 (new,), float64 (new,)."""

    first: np.ndarray
    second: np.ndarray
    fraction: np.ndarray

    def users(self, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each of the `length` old elements which new ones need it: order[start[h]:end[h]];
        int32.

        Where first and second differ they rise, and `order` is that of the new axis."""
        old, kind = np.arange(length), np.int32
        if self.second is self.first:
            order = np.argsort(self.first, kind="stable")
            starts = self.first[order]
            start, end = np.searchsorted(starts, old), np.searchsorted(starts, old, "right")
        else:
            order = np.arange(len(self.first))
            start, end = (
                np.searchsorted(self.second, old),
                np.searchsorted(self.first, old, "right"),
            )
        return start.astype(kind), end.astype(kind), order.astype(kind)


@functools.lru_cache(512)
def taps(length: int, count: int, mode: str, number: float) -> Taps:
    """An axis of `length` that becomes one of `count` elements.

    Resized, number = the distance of neighbours in old elements: "nearest": floor(i number);
    "nearest-exact": floor((i + 1/2) number), both in float32, so that ties fall as in PyTorch;
    "linear": between the neighbours of (i + 1/2) number - 1/2; "corners": of i (length - 1) /
    (count - 1). Padded, number = elements in front: "reflect": mirrored, the edge not repeated;
    "replicate": the edge; "circular": from the other end.
    """
    i = np.arange(count)
    if mode in MIXED:
        if mode == "corners":
            source = i * ((length - 1) / (count - 1) if count > 1 else 0.0)
        else:
            source = np.maximum((i + 0.5) * number - 0.5, 0)
        first = np.minimum(source.astype(np.int32), np.int32(length - 1))
        second = np.minimum(first + np.int32(1), np.int32(length - 1))
        return Taps(first, second, np.minimum(source - first, 1.0))
    if mode.startswith("nearest"):
        shift = np.float32(0.5 if mode == "nearest-exact" else 0)
        place = np.minimum(
            np.floor((i.astype(np.float32) + shift) * np.float32(number)), length - 1
        )
    else:
        place = i - int(number)
        if mode == "reflect":
            place = length - 1 - np.abs(length - 1 - np.abs(place))
        else:
            place = place % length if mode == "circular" else np.clip(place, 0, length - 1)
    first = place.astype(np.int32)
    return Taps(first, first, np.zeros(count))
