"""Changes in place: where and when memory was written while gradients can still be taken."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ...runtime import fork
from ...runtime.interrupts import uninterrupted
from ..array import ndarray
from ..devices import TRACED
from .tape import _order

#: Holders of recorded nodes, by id: functions that are being recorded, and the results of `vjp`.
#: Changes in place are noted while there are any, in whatever thread, because threads share memory.
#: Of each: the order of its oldest node; a reference, without which the entry has no meaning, since
#: an interrupt may prevent its removal; the thread of a function that is being recorded. Loops go
#: through a copy: tokens end in any thread, and wherever garbage is collected.
holders: dict[int, tuple[int, weakref.ref[Any], int | None]] = {}


class Kept:
    """A token: while it lives, changes in place are noted, because gradients of its holder's nodes
    can still be taken."""

    def __init__(self, holder: object):
        holders[id(self)] = holders[id(holder)][0], weakref.ref(self), None

    @uninterrupted
    def __del__(self) -> None:
        holders.pop(id(self), None)


def _forget_dead_holders() -> None:
    for key, (_, holder, _) in holders.copy().items():
        if holder() is None:
            holders.pop(key, None)


@fork.in_child
def _forget_other_threads() -> None:
    """A forked process records no function that another thread was running."""
    here = threading.get_ident()
    for key, (_, _, thread) in holders.copy().items():
        if thread not in (None, here):
            holders.pop(key, None)


class _Changes:
    """Changes in place of all threads: place and time, the latest last."""

    def __init__(self) -> None:
        self.lock = fork.new_reentrant_lock()
        self.writes: dict[tuple, int] = {}  # replaced, not cleared: a reader keeps the old dict
        self.newest = -1
        self.most = _FEW

    def hold(self, holder: object) -> None:
        """Register a holder of nodes."""
        with self.lock:
            if holders:
                _forget_dead_holders()
            if not holders:
                self.writes = {}
            holders[id(holder)] = next(_order), weakref.ref(holder), threading.get_ident()

    def note(self, place: tuple) -> None:
        """Note a change of this place, now. Changes older than all nodes of the holders are dropped
        from time to time."""
        with self.lock:
            self.newest = next(_order)
            self.writes.pop(place, None)
            self.writes[place] = self.newest
            if len(self.writes) > self.most:
                _forget_dead_holders()
                oldest = min([order for order, *_ in holders.copy().values()], default=self.newest)
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
