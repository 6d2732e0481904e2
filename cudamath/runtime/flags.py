"""Errors that only a kernel can see (an index out of range), raised at the next synchronising call.

A kernel that meets a bad value writes the call's *ticket* into the device's flag, one int64 in mapped host memory.
The ticket stands for the Python line of the call, kept in a ring of the latest ones.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import sys

from .memory import HostBuffer

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_RING = 4096
_tickets = itertools.count(1)
_calls: list[tuple[int, str, str]] = [(0, "", "")] * _RING


@functools.cache
def _flag(index: int) -> tuple[HostBuffer, ctypes.c_int64]:
    buffer = HostBuffer(8)
    value = ctypes.c_int64.from_address(buffer.address)
    value.value = 0
    return buffer, value


def address(index: int) -> int:
    """Address of the device's flag, valid on host and device."""
    return _flag(index)[0].address


def ticket(op: str) -> int:
    """A number for the call of `op` now under way; remembers the user's line."""
    number = next(_tickets)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    _calls[number % _RING] = (number, op, f"{frame.f_code.co_filename}:{frame.f_lineno}")
    return number


def raise_pending(index: int) -> None:
    """Raise the IndexError that a kernel on this device has flagged, if any. Called after each synchronisation."""
    if not _flag.cache_info().currsize:
        return
    _, value = _flag(index)
    number = value.value
    if number:
        value.value = 0
        known, op, line = _calls[number % _RING]
        where = f", called at {line}" if known == number else ""
        raise IndexError(f"{op if known == number else 'index'}: an index is out of range{where} (found on cuda:{index})")
