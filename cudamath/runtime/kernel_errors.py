"""Errors that kernels detect (an index out of range, a singular matrix), raised at the next
synchronising call.

A kernel that meets a bad value writes the call's *ticket* into the device's flag, one int64 in
mapped host memory. The ticket stands for the Python line of the call, kept in a ring of the latest
ones.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from . import device as devices
from . import stream as streams
from .errors import line_of, public_name, user_place
from .memory import HostBuffer
from .state import device_table, runtime

RING = 4096
OVERWRITTEN = "linalg: a decomposition failed"
TRANSFORMATIONS = [os.sep + folder + os.sep for folder in ("autodiff", "programs", "batching")]
next_ticket = itertools.count(1).__next__
calls: list[tuple[int, str, Any]] = [(0, "", None)] * RING
_MOST_GRAPH_CALLS = 1 << 16


def _flag(index: int) -> tuple[int, memoryview]:
    with devices.lock:
        flag = runtime.error_flags.get(index)
        if flag is None:
            buffer = HostBuffer(8)
            view = memoryview(buffer.bytes()).cast("B").cast("q")
            view[0] = 0
            flag = runtime.error_flags[index] = buffer.address, view
    return flag


def address(index: int) -> int:
    """Address of the device's flag, valid on host and device."""
    return _flag(index)[0]


def view(index: int) -> memoryview:
    """The device's flag on the host: one int64, non-zero if there is an error for
    `raise_pending`."""
    return _flag(index)[1]


def ticket(op: str) -> int:
    """A ticket for the current call of `op`; stores the user's line.
    (core/dispatch/plan_codegen.py generates the same code inline.)"""
    number = next_ticket()
    calls[number % RING] = (number, op, user_place(2))
    return number


def mark() -> int:
    """A ticket that is smaller than all later ones."""
    return next_ticket()


def keep(first: int) -> None:
    """Keep the calls since `mark` returned `first`: they were captured into a graph, and each
    replay uses their tickets."""
    if len(runtime.graph_calls) > _MOST_GRAPH_CALLS:
        runtime.graph_calls.clear()
    runtime.graph_calls.update({call[0]: call for call in calls if call[0] > first})


#: Op -> message of the LinAlgError when a call fails as a whole. Set by the planners.
failures: dict[str, str] = {}
#: Op -> exception, where it is not LinAlgError.
exceptions: dict[str, type[Exception]] = {}


#: Of a device: what makes the error to be raised because work there ended without its results.
_broken_off: dict[int, Callable[[], Exception]] = device_table()


def break_off(index: int, error: Callable[[], Exception]) -> None:
    """Work on a device is about to end without its results: the next wait raises `error()`."""
    _broken_off[index] = error
    view(index)[0] = 1


def raise_pending(index: int) -> None:
    """Raise what a kernel on this device has flagged, if anything: IndexError for a ticket,
    LinAlgError for a negative one (a matrix that cannot be decomposed). Called after each
    synchronisation."""
    if index not in runtime.error_flags:
        return
    _, flag = runtime.error_flags[index]
    value = flag[0]
    if not value:
        return
    flag[0] = 0
    broken = _broken_off.pop(index, None)
    if broken is not None:
        raise broken()
    number = abs(value)
    called, op, place = runtime.graph_calls.get(number) or calls[number % RING]
    in_ring = called == number  # else a later call has overwritten the entry
    where = f", called at {line_of(place)}" if in_ring else ""
    if value < 0:
        what = f"{_called(op, place)}: {failures[op]}" if in_ring else OVERWRITTEN
        kind = exceptions.get(op if in_ring else "", np.linalg.LinAlgError)
        raise kind(f"{what}{where} (found on cuda:{index})")
    raise IndexError(
        f"{op if in_ring else 'index'}: an index is out of range{where} (found on cuda:{index})"
    )


def _called(op: str, place: tuple[Any, ...]) -> str:
    """The function that the user called, whose op failed: pinv, say, of svd. A transformation does
    not speak for what it differentiates or traces."""
    code = place[2] if len(place) > 2 else None
    if code is None or any(part in code.co_filename for part in TRANSFORMATIONS):
        return op
    name = public_name(code)
    return op if not name or op.endswith(f".{name}") else name


streams.after_synchronize = raise_pending
