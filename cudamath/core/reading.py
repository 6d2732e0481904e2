"""How the host reads a number or a little array of a GPU: by the driver's copy, and where a layout was read often by a kernel
that writes into host memory (posted.py), which takes less time but has to be loaded first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import flags, memory, stream
from .layout import Layout

if TYPE_CHECKING:
    from .array import ndarray

#: How arrays of a layout that was read often are read now; None: by the driver, as before.
number_readers: dict[Layout, Callable | None] = {}
array_readers: dict[Layout, Callable | None] = {}
OFTEN = 100  # reads of a layout by the driver, before a kernel is looked for
_counts: dict[Layout, int] = {}
_MOST_READ = 4096
_spare: dict[np.dtype, list[tuple[np.ndarray, int]]] = {}  # host memory of one element each, taken while a number is read


def consider(readers: dict[Layout, Callable | None], layout: Layout) -> None:
    """Count a read by the driver, for which `readers` had no entry; look for a kernel when there were many."""
    if len(_counts) >= _MOST_READ:
        for table in (_counts, number_readers, array_readers):
            table.clear()
    _counts[layout] = count = _counts.get(layout, 0) + 1
    if count >= OFTEN:
        from . import posted  # which imports arrays

        readers[layout] = posted.number_reader(layout) if readers is number_readers else posted.array_reader(layout)


def number_of(x: ndarray) -> Any:
    """The only element of an array on a GPU as a Python scalar; waits for it."""
    layout = x._layout
    read = number_readers.get(layout)
    if read is not None:
        found = read(x)
        if found is not None:
            return found
    elif layout not in number_readers:
        consider(number_readers, layout)
    spare = _spare.setdefault(layout.dtype, [])
    try:  # not asked beforehand: other threads take some meanwhile
        host, address = spare.pop()
    except IndexError:
        host, address = (one := np.empty((), layout.dtype), one.ctypes.data)
    memory.download(address, x._data, layout.itemsize, stream.stream_of(layout.device), wait=False)
    flags.raise_pending(layout.device)
    value = host.item()
    spare.append((host, address))
    return value
