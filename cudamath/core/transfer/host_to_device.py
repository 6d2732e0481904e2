"""Copies of small host arrays to a GPU.

The driver has copied pageable memory when its call returns. It may read page-locked memory after
the call has returned. To query which kind an array's memory is takes longer than the copy.
Therefore a small array is first copied into a staging buffer: pageable memory of a known address,
which a thread takes for the duration.

Measured on two hosts with an H200, for a few numbers: 15.1 us straight from the user's array (2.3
us of them the copy; PyTorch 11.9), 8.0 us through a staging buffer (PyTorch 16.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime import device as devices
from ...runtime import memory, stream
from ...runtime.errors import check
from ...runtime.state import device_table, runtime
from ..bounded_cache import store
from ..dispatch.call_record import obstruct, open_records, traced
from ..elements import lent, settle
from ..layout import Layout
from .staging import StagingBuffer

MOST = 1 << 16  # bytes of the largest array that is copied through a staging buffer

#: (shape, dtype, device) of arrays that were copied before -> `write(host)`, which returns an array
#: on that device, or None if the general upload must be used.
writers: dict[tuple, Callable[[np.ndarray], Any]] = device_table()
_idle: list[StagingBuffer] = []  # buffers that no thread has taken


def copy_to(host: np.ndarray, device: int) -> Any | None:
    """A copy of a host array on a device, if an array of this shape and dtype was copied there
    before; otherwise None."""
    write = writers.get((host.shape, host.dtype, device))
    return None if write is None else write(host)


def add_writer(layout: Layout, over: Callable[[Layout, int, Any], Any]) -> None:
    """Add a writer for arrays of this layout (of a new array, on a GPU). `over(layout, address,
    owner)` makes an array over memory."""
    key = layout.shape, layout.dtype, layout.device
    if 0 < layout.nbytes <= MOST and key not in writers:
        store(writers, key, _writer(layout, over))


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
    """`x[...] = host`, straight into the memory of an array on a GPU. False, without any effect, if
    x is not on a GPU or not contiguous, or if the two differ in shape or dtype."""
    layout = x._layout
    if (
        layout.device < 0
        or not layout.contiguous
        or host.shape != layout.shape
        or host.dtype != layout.dtype
        or (open_records and traced())  # a program writes by ops of its own
    ):
        return False
    if open_records:
        obstruct("wrote an array of the host")
    if lent:
        settle(x)
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
    """Copy an array through a staging buffer to an address on the device of `current`, the thread's
    current stream."""
    try:  # no test beforehand: another thread may take the last buffer after it
        buffer = _idle.pop()
    except IndexError:
        host_memory = np.empty(MOST, np.uint8)
        buffer = StagingBuffer(host_memory.ctypes.data, host_memory)
    view = buffer.views.get(layout)
    if view is None:
        view = buffer.view(layout)
    view[...] = host
    status = devices.driver().cuMemcpyHtoDAsync(
        address, buffer.address, layout.nbytes, current.handle
    )
    if status[0]:
        check(status)
    _idle.append(buffer)
