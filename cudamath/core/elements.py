"""Elements of arrays on a GPU, read without a launch.

`x[i]` is a value, but most elements are read by the next operation, before anything writes to x.
So the element lies in x's memory at first, and is *lent*. Whatever writes into an array calls
`settle` before, which copies the elements that its memory has lent.

Nothing is lent where a write could not be seen: memory of other libraries, memory whose address
they got (`expose`), during the capture of a graph, and while a program is traced, which must know
where its operands lie. `settle_all` is called before what may write
anywhere: a replay, a kernel of the user, a collective.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..runtime import memory
from ..runtime.memory import Buffer
from ..runtime.state import device_table, runtime
from ..runtime.stream import stream_of
from .array import ndarray
from .dispatch.call_record import open_records, traced
from .layout import Layout
from .scalar import Scalar, scalar_class

#: Elements that lie in the memory of an array: id of the memory's owner -> a weak reference to each
#: and to the stream on which it was read. Hot paths test whether it is empty. Dead elements
#: leave the table when their array is written, or when it has grown.
lent: dict[int, list[tuple[weakref.ref, Any]]] = device_table()
_MOST_OWNERS, _MOST_ELEMENTS = 256, 64
#: Addresses of blocks that other libraries may write to. A block that is reused stays here, where
#: it costs a launch and no more.
_exposed: dict[int, bool] = device_table()

_new = object.__new__
_reference = weakref.ref


def lend(x: ndarray, layout: Layout, offset: int) -> Scalar | None:
    """The element of an unrecorded array on a GPU at an offset in bytes, in the array's memory;
    None where it must be copied at once."""
    owner = x._owner
    stream = runtime.local.stream
    if stream is None or stream.device != layout.device:
        if layout.device < 0:  # of a call of `vmap`: its memory is not seen from here
            return None
        stream = stream_of(layout.device)
    if (
        owner.__class__ is not Buffer
        or stream.capturing
        or (_exposed and owner.address in _exposed)
        or (open_records and traced())
    ):
        return None
    element = _new(scalar_class(layout.dtype))
    element._layout, element._data, element._owner = layout, x._data + offset, owner
    element._node = element._base = None
    entry = _reference(element), _reference(stream)
    elements = lent.get(id(owner))
    if elements is None:
        if len(lent) >= _MOST_OWNERS:
            _drop_dead()
        lent[id(owner)] = [entry]
    else:
        elements.append(entry)
        if not len(elements) % _MOST_ELEMENTS:
            elements[:] = [e for e in elements if e[0]() is not None]
    return element


def _drop_dead() -> None:
    """Forget elements that have died."""
    for owner, elements in list(lent.items()):
        elements[:] = [e for e in elements if e[0]() is not None]
        if not elements:
            lent.pop(owner, None)


def settle(x: ndarray) -> None:
    """Copy the elements that the memory of x has lent: x is about to be written."""
    elements = lent.pop(id(x._owner), None)
    if elements is not None:
        _copy(elements)


def settle_all() -> None:
    """Copy all lent elements."""
    while lent:
        _, elements = lent.popitem()
        _copy(elements)


def expose(x: ndarray) -> None:
    """Another library gets the address of x: it may write there at any time."""
    if lent:
        settle(x)
    if type(x._owner) is Buffer:
        _exposed[x._owner.address] = True


def _copy(elements: list[tuple[weakref.ref, Any]]) -> None:
    current = runtime.local.stream
    for reference, read_on in list(elements):
        element = reference()
        if element is None:
            continue
        stream = read_on() or stream_of(element._layout.device)
        nbytes = element._layout.itemsize
        buffer = Buffer(nbytes, stream)
        memory.copy(buffer.address, element._data, nbytes, stream)
        if current is not None and current is not stream:
            current.wait(stream)
        element._data, element._owner = buffer.address, buffer
