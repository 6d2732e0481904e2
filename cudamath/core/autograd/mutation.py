"""Changes in place: where and when memory was written while gradients may still be taken."""

from __future__ import annotations

import threading

from ..array import ndarray
from ..devices import TRACED
from .tape import _order

#: Who may still take gradients, by id, and the order of their oldest node: functions that are being
#: recorded, and what `vjp` recorded. As long as there are any, in whatever thread, changes in place
#: are noted: threads share memory.
holders: dict[int, int] = {}


class Kept:
    """As long as this object lives, changes in place are noted: somebody holds the nodes of a
    holder and may still take gradients from them."""

    def __init__(self, holder: object):
        holders[id(self)] = holders[id(holder)]

    def __del__(self) -> None:
        holders.pop(id(self), None)


class _Changes:
    """Where memory was changed in place, and when, the last change last; of all threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.writes: dict[
            tuple, int
        ] = {}  # replaced, not cut: who took it out has all that it held
        self.newest = -1
        self.most = _FEW

    def hold(self, holder: object) -> None:
        """`holder` will hold nodes, from now on."""
        with self.lock:
            if not holders:
                self.writes = {}
            holders[id(holder)] = next(_order)

    def note(self, place: tuple) -> None:
        """A change of this place, now. What is older than all nodes that somebody holds is
        forgotten from time to time."""
        with self.lock:
            self.newest = next(_order)
            self.writes.pop(place, None)
            self.writes[place] = self.newest
            if len(self.writes) > self.most:
                oldest = min(holders.values(), default=self.newest)
                self.writes = {place: when for place, when in self.writes.items() if when >= oldest}
                self.most = 2 * len(self.writes) + _FEW


_FEW = 1024  # changes, which cost nothing to remember
changes = _Changes()


def wrote(x: ndarray) -> None:
    """Note that `x` is changed in place, where gradients may still be taken: nothing that a
    gradient rule will read may lie there (`_Since`). Nothing is noted where arrays are kept, which
    is what happens often."""
    if holders and x._layout.size and x._layout.device != TRACED:
        changes.note(_place(x))


def _place(x: ndarray) -> tuple:
    layout = x._layout
    return x.ptr, layout.shape, layout.strides, layout.itemsize
