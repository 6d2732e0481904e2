"""How little arrays of the host come to a GPU.

The driver has copied pageable memory by the time that its call returns; page-locked memory it still
reads then. Whose memory is which has to be asked of it, which takes longer than the copy. So what
is small is first copied into a *room*, pageable memory that a thread takes for the duration and
whose address is known. Measured on two hosts with an H200: 15.1 us for a few numbers straight from
a user's array, 2.3 of them the copy, where PyTorch took 11.9; by way of a room 8.0, PyTorch 16.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime import device as devices
from ...runtime import memory, stream
from ...runtime.errors import check
from ...runtime.state import device_table, runtime
from ..dispatch.call_record import obstruct, open_records
from ..layout import Layout
from .staging import Room, remember

MOST = 1 << 16  # bytes of an array that is copied by way of a room

#: (shape, dtype, device) of arrays that came before -> `write(host)`: the array on that device, or
#: None where it has to be uploaded as the first one was.
writers: dict[tuple, Callable[[np.ndarray], Any]] = device_table()
_spare: list[Room] = []  # those that no thread has taken


def written(host: np.ndarray, device: int) -> Any | None:
    """A copy on a device of an array like one that came before; None for others, which have to be
    uploaded."""
    write = writers.get((host.shape, host.dtype, device))
    return None if write is None else write(host)


def learn(layout: Layout, over: Callable[[Layout, int, Any], Any]) -> None:
    """Find arrays of this layout (of a new array, on a GPU) in `writers` from now on. over: makes
    an array of memory."""
    key = layout.shape, layout.dtype, layout.device
    if 0 < layout.nbytes <= MOST and key not in writers:
        remember(writers, key, _writer(layout, over))


def _writer(layout: Layout, over: Callable[[Layout, int, Any], Any]) -> Callable[[np.ndarray], Any]:
    device, nbytes, Buffer = layout.device, layout.nbytes, memory.Buffer

    def write(host: np.ndarray) -> Any | None:
        current = runtime.local.stream
        if (
            current is None
            or current.device != device
            or current.capturing
            or runtime.observe_copy is not None
        ):
            return None
        buffer = Buffer(nbytes, current)
        _send(layout, buffer.address, host, current)
        return over(layout, buffer.address, buffer)

    return write


def into(x: Any, host: np.ndarray) -> bool:
    """`x[...] = host`, straight into the memory of an array on a GPU; False, and nothing has
    happened, where that cannot be: x lies elsewhere or not in one piece, or the two differ in shape
    or dtype."""
    layout = x._layout
    if (
        layout.device < 0
        or not layout.contiguous
        or host.shape != layout.shape
        or host.dtype != layout.dtype
    ):
        return False
    if open_records:
        obstruct("wrote an array of the host")
    current = stream.stream_of(layout.device)
    if x._owner.stream is not current:
        x._owner.used_on(current)
    if (
        0 < layout.nbytes <= MOST
        and current is runtime.local.stream
        and not current.capturing
        and runtime.observe_copy is None
    ):
        _send(layout, x._data, host, current)
    else:
        host = np.ascontiguousarray(host)
        memory.upload(x._data, host.ctypes.data, layout.nbytes, current)
    return True


def _send(layout: Layout, address: int, host: np.ndarray, current: stream.Stream) -> None:
    """Copy an array by way of a room to an address on the device of `current`, the thread's current
    stream."""
    try:  # not asked beforehand: other threads take rooms meanwhile
        room = _spare.pop()
    except IndexError:
        host_memory = np.empty(MOST, np.uint8)
        room = Room(host_memory.ctypes.data, host_memory)
    view = room.views.get(layout)
    if view is None:
        view = room.view(layout)
    view[...] = host
    status = devices.driver().cuMemcpyHtoDAsync(
        address, room.address, layout.nbytes, current.handle
    )
    if status[0]:
        check(status)
    _spare.append(room)
