"""Errors that only a kernel can see (an index out of range, a singular matrix), raised at the next
synchronising call.

A kernel that meets a bad value writes the call's *ticket* into the device's flag, one int64 in
mapped host memory. The ticket stands for the Python line of the call, kept in a ring of the latest
ones.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from . import device as devices
from .errors import line_of, user_place
from .memory import HostBuffer

RING = 4096
next_ticket = itertools.count(1).__next__
calls: list[tuple[int, str, Any]] = [(0, "", None)] * RING
_kept: dict[int, tuple[int, str, Any]] = {}  # of calls that CUDA graphs repeat
_MOST_KEPT = 1 << 16

_flags: dict[int, tuple[int, memoryview]] = {}  # address, valid on host and device; the int64 there


def _flag(index: int) -> tuple[int, memoryview]:
    with devices.lock:
        if index not in _flags:
            buffer = HostBuffer(8)
            view = memoryview(buffer.bytes()).cast("B").cast("q")
            view[0] = 0
            _flags[index] = buffer.address, view
    return _flags[index]


def address(index: int) -> int:
    """Address of the device's flag, valid on host and device."""
    return _flag(index)[0]


def view(index: int) -> memoryview:
    """The device's flag, as the host sees it: one int64, not zero where there is something to
    `raise_pending`."""
    return _flag(index)[1]


def ticket(op: str) -> int:
    """A number for the call of `op` now under way; remembers the user's line. (core/plan.py writes
    this out.)"""
    number = next_ticket()
    calls[number % RING] = (number, op, user_place())
    return number


def mark() -> int:
    """Tickets given out from now on are greater."""
    return next_ticket()


def keep(first: int) -> None:
    """Never forget the calls since `mark` gave `first`: a graph was captured of them, and each
    replay has their tickets."""
    if len(_kept) > _MOST_KEPT:
        _kept.clear()
    _kept.update({known[0]: known for known in calls if known[0] > first})


#: What it means when a call of this op fails as a whole: message of the LinAlgError. Put here by
#: the planners.
failures: dict[str, str] = {}
#: Where that is another exception.
exceptions: dict[str, type[Exception]] = {}


def raise_pending(index: int) -> None:
    """Raise what a kernel on this device has flagged, if anything: IndexError for a ticket,
    LinAlgError for a negative one (a matrix that cannot be decomposed). Called after each
    synchronisation."""
    if index not in _flags:
        return
    flag = _flags[index][1]
    number = flag[0]
    if number:
        flag[0] = 0
        known, op, place = _kept.get(abs(number)) or calls[abs(number) % RING]
        where = f", called at {line_of(place)}" if known == abs(number) else ""
        if number < 0:
            what = f"{op}: {failures[op]}" if known == -number else "linalg: a decomposition failed"
            kind = exceptions.get(op if known == -number else "", np.linalg.LinAlgError)
            raise kind(f"{what}{where} (found on cuda:{index})")
        raise IndexError(
            f"{op if known == number else 'index'}: an index is out of range{where} (found on "
            f"cuda:{index})"
        )
