"""Numbers and little arrays of a GPU as the host reads them: a kernel writes them into host memory (kernels/posting.py).

A thread that reads takes a room, page-locked host memory, for the duration, and looks at it until the ticket of its request
is there. If that takes long (the device had other work), it waits for the stream, as after any copy; what has failed raises
there. Only with processors that write and read memory in order: who sees the ticket then sees what was written before it.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime import flags, memory, stream
from .array import ndarray, over
from .layout import Layout
from .op import lazy

IN_ORDER = platform.machine().lower() in ("x86_64", "amd64") and platform.system() != "Windows"  # which holds launches back
LOOKS = 400  # at the ticket, before the thread waits for the stream: some 20 us
MOST = 1 << 14  # bytes of an array that is read like this
CHUNK = 4096  # of them that a block of the kernel writes
HEAD = 256  # bytes ahead of an array in its room: the tickets of the blocks
_MOST_VIEWS = 256
INT64 = np.dtype(np.int64)


class _Waited:
    """The owner of host memory whose every use is waited for."""

    __slots__ = ("buffer", "stream")

    def __init__(self, buffer: memory.HostBuffer):
        self.buffer, self.stream = buffer, None

    def used_on(self, user: stream.Stream) -> None:
        """Nothing to note."""


class _Room:
    """Page-locked memory that a kernel writes into, as an array on its device too; and the ticket last used there."""

    __slots__ = ("array", "bytes", "memory", "ticket", "views")

    def __init__(self, layout: Layout):
        buffer = memory.HostBuffer(layout.nbytes)
        self.memory = buffer.bytes()
        self.bytes = memoryview(self.memory).cast("B")
        self.bytes[:] = bytes(layout.nbytes)
        self.array = over(layout, buffer.address, _Waited(buffer))
        self.ticket = 0
        self.views: dict[Layout, tuple] = {}  # layout -> (tickets, how such an array is copied from here)


def number_reader(layout: Layout) -> Callable[[ndarray], Any] | None:
    """`read(x)`: the element of an array of this layout (of one element) as a Python scalar, or None where the driver has to
    copy it; None where it always has to."""
    return _number_reader(layout.dtype, layout.device) if IN_ORDER and layout.device >= 0 else None


@functools.cache
def _number_reader(dtype: np.dtype, device: int) -> Callable[[ndarray], Any]:
    pieces = max(dtype.itemsize // 4, 1)
    one, words = Layout.new((), dtype, device), Layout.new((pieces,), INT64, device)
    run = lazy("kernels", "posting.number")(one, words).bind("read", [one, words], 1, device)
    spare: list[tuple] = []
    odd = min(dtype.itemsize, 4) - 1

    def fresh() -> tuple:
        room, whole = _Room(words), np.empty((), dtype)
        if pieces == 1:
            return room, room.bytes.cast("I"), None, np.ndarray((), dtype, room.memory).item
        return room, room.bytes.cast("I"), whole.reshape(1).view(np.uint32).data, whole.item

    def read(x: ndarray) -> Any:
        current = stream.local.stream
        if current is None or current.device != device or current.capturing or memory.observe is not None or x._data & odd:
            return None
        try:  # not asked beforehand: other threads take rooms meanwhile
            taken = spare.pop()
        except IndexError:
            taken = fresh()
        room, halves, whole, item = taken
        room.ticket = ticket = room.ticket % 0x7FFFFFFF + 1
        run(x, room.array, ticket)
        for _ in looks:
            if halves[last] == ticket:
                break
        else:
            current.synchronize()
            if halves[last] != ticket:
                return None
        if whole is not None and not _gather(halves, whole, ticket, current):
            return None
        flags.raise_pending(device)
        value = item()
        spare.append(taken)
        return value

    looks, last = range(LOOKS), 2 * pieces - 1
    return read


def _gather(halves: memoryview, whole: memoryview, ticket: int, current: stream.Stream) -> bool:
    """Bring the pieces of a number together, when each has come; whether they did."""
    for i in range(len(whole)):
        if halves[2 * i + 1] != ticket:
            current.synchronize()
            if halves[2 * i + 1] != ticket:
                return False
        whole[i] = halves[2 * i]
    return True


def array_reader(layout: Layout) -> Callable[[ndarray], Any] | None:
    """`read(x)`: a NumPy array of the elements of a contiguous array of this layout, or None where the driver has to copy it;
    None where it always has to."""
    if not IN_ORDER or layout.device < 0 or not 0 < layout.nbytes <= MOST or not layout.contiguous:
        return None
    device, nbytes = layout.device, layout.nbytes
    room_layout = Layout.new((HEAD + MOST,), np.dtype(np.uint8), device)
    run = lazy("kernels", "posting.array")(layout, room_layout).bind("read", [layout, room_layout], 1, device)
    spare = _rooms.setdefault(device, [])
    odd = min(layout.itemsize, 8 if layout.dtype.kind != "c" else layout.itemsize // 2) - 1

    def read(x: ndarray) -> Any:
        current = stream.local.stream
        if current is None or current.device != device or current.capturing or memory.observe is not None or x._data & odd:
            return None
        try:
            room = spare.pop()
        except IndexError:
            room = _Room(room_layout)
        known = room.views.get(layout)
        if known is None:
            if len(room.views) >= _MOST_VIEWS:
                room.views.clear()
            known = room.bytes[:HEAD].cast("q"), np.ndarray(layout.shape, layout.dtype, room.memory, HEAD).copy
            room.views[layout] = known
        tickets, copy = known
        room.ticket = ticket = room.ticket + 1
        run(x, room.array, ticket)
        for _ in looks:
            if tickets[last] == ticket:
                break
        else:
            current.synchronize()
        for i in blocks:
            if tickets[i] != ticket:
                current.synchronize()
                if tickets[i] != ticket:
                    return None
        flags.raise_pending(device)
        value = copy()
        spare.append(room)
        return value

    blocks = range(-(-nbytes // CHUNK))
    looks, last = range(LOOKS), len(blocks) - 1
    return read


_rooms: dict[int, list[_Room]] = {}  # by device: for arrays
