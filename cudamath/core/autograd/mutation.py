"""Changes in place: where and when memory was written while gradients can still be taken."""

from __future__ import annotations

import threading

from ..array import ndarray
from ..devices import TRACED
from .tape import _order

#: Holders of recorded nodes (by id) and the order of their oldest node: functions that are being
#: recorded, and the results of `vjp`. Changes in place are noted while there are any, in whatever
#: thread, because threads share memory.
holders: dict[int, int] = {}


class Kept:
    """A token: while it lives, changes in place are noted, because gradients of its holder's nodes
    can still be taken."""

    def __init__(self, holder: object):
        holders[id(self)] = holders[id(holder)]

    def __del__(self) -> None:
        holders.pop(id(self), None)


class _Changes:
    """Changes in place of all threads: place and time, the latest last."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.writes: dict[tuple, int] = {}  # replaced, not cleared: a reader keeps the old dict
        self.newest = -1
        self.most = _FEW

    def hold(self, holder: object) -> None:
        """Register a holder of nodes."""
        with self.lock:
            if not holders:
                self.writes = {}
            holders[id(holder)] = next(_order)

    def note(self, place: tuple) -> None:
        """Note a change of this place, now. Changes older than all nodes of the holders are dropped
        from time to time."""
        with self.lock:
            self.newest = next(_order)
            self.writes.pop(place, None)
            self.writes[place] = self.newest
            if len(self.writes) > self.most:
                oldest = min(holders.values(), default=self.newest)
                self.writes = {place: when for place, when in self.writes.items() if when >= oldest}
                self.most = 2 * len(self.writes) + _FEW


_FEW = 1024  # changes that are kept without a clean-up
changes = _Changes()


def wrote(x: ndarray) -> None:
    """Note that `x` is changed in place, if gradients can still be taken: a gradient rule that
    reads this memory later raises an error (`_Since`). Without holders nothing is noted, which is
    the common case."""
    if holders and x._layout.size and x._layout.device != TRACED:
        changes.note(_place(x))


def _place(x: ndarray) -> tuple:
    layout = x._layout
    return x._address, layout.shape, layout.strides, layout.itemsize
