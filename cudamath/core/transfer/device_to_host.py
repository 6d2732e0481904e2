"""How the host reads a number or an array of a GPU.

The driver's copy engine writes into page-locked memory at once, and the call that asks for it
returns before; a copy into any other memory goes by way of the driver's own and takes 3 us more. So
what is small is copied into a *room*, page-locked memory that a thread takes for the duration, and
from there where it is wanted.

A number is not even waited for by the driver. Its room was left *blank*, each word of it (at most
32 bits, which are written whole) filled with a pattern; the thread looks at the words until none is
blank. Should a number consist of that pattern, or the device have other work first, the thread has
looked LOOKS times in vain and waits for the stream, as after any copy: what has failed raises
there. Measured on an H200: 5.3 us a number, PyTorch 8.1; waiting for the stream took 2.5 more.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime import device as devices
from ...runtime import kernel_errors, memory, stream
from ...runtime.errors import check
from ...runtime.state import device_cache, device_table, runtime
from ..dispatch.call_record import obstruct, open_records
from ..layout import Layout
from .staging import Room, remember

BLANK = 0xA5  # each byte of a word that has not been written
#: How often the thread looks at a word before it waits for the stream: some 20 us. Never where the
#: processor may read a flag (runtime/kernel_errors.py) ahead of the number that was written after
#: it, or where the system holds work back.
LOOKS = (
    400
    if platform.machine().lower() in ("x86_64", "amd64") and platform.system() != "Windows"
    else 0
)
MOST = (
    1 << 20
    # bytes of an array that is copied by way of a room: from there on, the second copy costs more
    # than it saves
)

#: How arrays of a layout are read, of those that were read before: `number_of`, `array_reader`.
number_readers: dict[Layout, Callable[[Any], Any]] = device_table()
array_readers: dict[Layout, Callable[[Any], np.ndarray]] = device_table()


def number_of(x: Any) -> Any:
    """The only element of an array on a GPU as a Python scalar; waits for it."""
    layout = x._layout
    read = number_readers.get(layout)
    return (read or remember(number_readers, layout, number_reader(layout.dtype, layout.device)))(x)


@device_cache
def number_reader(dtype: np.dtype, device: int) -> Callable[[Any], Any]:
    """`read(x)`: the only element of an array of this dtype and device as a Python scalar."""
    nbytes, flag, copy = (
        dtype.itemsize,
        kernel_errors.view(device),
        devices.driver().cuMemcpyDtoHAsync,
    )
    size = min(nbytes, 4)
    blank, places, looks = (
        int.from_bytes(bytes([BLANK]) * size, "little"),
        range(nbytes // size),
        range(LOOKS),
    )
    spare: list[tuple] = []

    def room() -> tuple:
        buffer = memory.HostBuffer(nbytes)
        words = np.ndarray(len(places), f"u{size}", buffer.bytes()).data
        for place in places:
            words[place] = blank
        return buffer.address, words, np.ndarray((), dtype, buffer.bytes()).item

    def read(x: Any) -> Any:
        if open_records:
            obstruct("read values")
        current = runtime.local.stream
        if (
            current is None
            or current.device != device
            or current.capturing
            or runtime.observe_copy is not None
        ):
            return copied(x).item()
        try:  # not asked beforehand: other threads take rooms meanwhile
            taken = spare.pop()
        except IndexError:
            taken = room()
        address, words, item = taken
        status = copy(address, x._data, nbytes, current.handle)
        if status[0]:
            check(status)
        for place in places:
            for _ in looks:
                if words[place] != blank:
                    break
            else:
                current.synchronize()
                break
        if flag[0]:
            kernel_errors.raise_pending(device)
        value = item()
        for place in places:
            words[place] = blank
        spare.append(taken)
        return value

    return read


def array_reader(layout: Layout) -> Callable[[Any], np.ndarray]:
    """`read(x)`: a NumPy array of the elements of a contiguous array of this layout, on a GPU;
    waits for them."""
    return remember(
        array_readers, layout, _array_reader(layout) if 0 < layout.nbytes <= MOST else copied
    )


_rooms: dict[int, list[Room]] = device_table()  # of each device, those that no thread has taken


def _array_reader(layout: Layout) -> Callable[[Any], np.ndarray]:
    device, nbytes, flag = layout.device, layout.nbytes, kernel_errors.view(layout.device)
    copy, synchronize = devices.driver().cuMemcpyDtoHAsync, devices.driver().cuStreamSynchronize
    spare = _rooms.setdefault(device, [])

    def read(x: Any) -> np.ndarray:
        if open_records:
            obstruct("read values")
        current = runtime.local.stream
        if (
            current is None
            or current.device != device
            or current.capturing
            or runtime.observe_copy is not None
        ):
            return copied(x)
        try:
            room = spare.pop()
        except IndexError:
            buffer = memory.HostBuffer(MOST)
            room = Room(buffer.address, buffer.bytes())
        view = room.views.get(layout)
        if view is None:
            view = room.view(layout)
        status = copy(room.address, x._data, nbytes, current.handle)
        if not status[0]:
            status = synchronize(current.handle)
        if status[0]:
            check(status)
        if flag[0]:
            kernel_errors.raise_pending(device)
        value = view.copy()
        spare.append(room)
        return value

    return read


def copied(x: Any) -> np.ndarray:
    """A NumPy array of the elements of a contiguous array on a GPU, straight into its memory."""
    if open_records:
        obstruct("read values")
    layout = x._layout
    host = np.empty(layout.shape, layout.dtype)
    # The driver returns from a copy into pageable memory when it is done: there is nothing to wait
    # for.
    memory.download(
        host.__array_interface__["data"][0],
        x._data,
        layout.nbytes,
        stream.stream_of(layout.device),
        wait=not layout.nbytes,
    )
    kernel_errors.raise_pending(layout.device)
    return host
