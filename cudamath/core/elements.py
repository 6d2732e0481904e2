"""Elements of arrays on a GPU, read without a launch.

`x[i]` is a value, but most elements are read by the next operation, before anything writes to x.
So the element lies in x's memory at first, and is *lent*. Whatever writes into an array calls
`settle` before, which copies the elements that its memory has lent.

Nothing is lent where a write could not be seen: memory of other libraries, memory whose address
they got (`expose`), and during the capture of a graph. `settle_all` is called before what may write
anywhere: a replay, a kernel of the user, a collective.
"""

from __future__ import annotations

import weakref

from ..runtime import memory
from ..runtime.memory import Buffer
from ..runtime.state import runtime
from .array import ndarray
from .layout import Layout
from .scalar import Scalar, scalar

#: Elements that lie in the memory of an array: id of the memory's owner -> id of a reference -> it.
#: Hot paths test whether it is empty.
lent: dict[int, dict[int, _Element]] = {}
#: Addresses of blocks that other libraries may write to. A block that is reused stays in the set,
#: where it costs a launch and no more.
_exposed: set[int] = set()


class _Element(weakref.ref):
    """A reference to a lent element, with the id of its memory's owner and the stream on which it
    was read."""

    __slots__ = ("owner", "stream")


def _forget(reference: _Element) -> None:
    """An element has died."""
    elements = lent.get(reference.owner)
    if elements is not None:
        elements.pop(id(reference), None)
        if not elements:
            lent.pop(reference.owner, None)


def lend(x: ndarray, layout: Layout, offset: int) -> Scalar | None:
    """The element of an unrecorded array on a GPU at an offset in bytes, in the array's memory;
    None where it must be copied at once."""
    owner = x._owner
    stream = runtime.local.stream
    if (
        type(owner) is not Buffer
        or owner.address in _exposed
        or stream is None
        or stream.capturing
        or stream.device != layout.device
    ):
        return None
    element = object.__new__(ndarray)
    element._layout, element._data, element._owner = layout, x._data + offset, owner
    element._node = None
    scalar(element)
    reference = _Element(element, _forget)
    reference.owner, reference.stream = id(owner), stream
    lent.setdefault(id(owner), {})[id(reference)] = reference
    return element


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
        _exposed.add(x._owner.address)


def _copy(elements: dict[int, _Element]) -> None:
    current = runtime.local.stream
    for reference in list(elements.values()):
        element = reference()
        if element is None:
            continue
        stream = reference.stream
        nbytes = element._layout.itemsize
        buffer = Buffer(nbytes, stream)
        memory.copy(buffer.address, element._data, nbytes, stream)
        if current is not None and current is not stream:
            current.wait(stream)
        element._data, element._owner = buffer.address, buffer
