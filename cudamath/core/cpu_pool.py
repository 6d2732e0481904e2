"""The CPU pool: memory of large arrays is reused for the next array of the same shape and dtype.

The C library returns large blocks to the operating system when they are freed. The next array of
that size then pays for fresh pages, which the kernel zeroes, with one page fault per 4 KiB. That
costs far more than the arithmetic: ``(a + b) + b`` of 10^5 float32 on a virtual machine takes 350
us, of which 23 are the two sums. So the pool keeps result arrays, and an array without other
references becomes the next result.

The reference count shows whether there are other references: views of an array, exported buffers
and the tape each hold one. Without a global interpreter lock the count can change at any time; then
nothing is reused.

Arrays of the pool begin on a page boundary. (Large blocks of the C library begin 16 bytes behind
one.) So no stored vector straddles two cache lines. Nor do stores alias later loads in the lower
bits of the address, by which processors decide that a load has to wait for a store: ``a + b`` of
40,000 float32 takes 35 % longer if the result begins 112 bytes further into its page than the
operands.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from math import prod

import numpy as np

from ..runtime import fork
from ..runtime.errors import named

SMALLEST = 1 << 16  # bytes; the C library keeps smaller blocks itself
LIMIT = 1 << 28  # bytes of all arrays of the pool, those in use included
PAGE = 4096  # bytes
EACH = 4  # arrays of one shape and dtype
SHAPES = 1024  # shapes and dtypes

_kept: OrderedDict[tuple[tuple[int, ...], np.dtype], list[np.ndarray]] = (
    OrderedDict()
)  # least recently grown first
# reentrant: a collection of garbage may run a finaliser that computes while this thread has it
_lock = fork.new_reentrant_lock()
_adding = False  # whether that has happened inside `_add`
references = sys.getrefcount


@fork.in_child
def _not_adding() -> None:
    global _adding
    _adding = False


def _counted(arrays: list[np.ndarray]) -> int:
    """The value of `references` in a loop over `arrays` for an array to which only the list refers
    (it differs between Python versions)."""
    for array in arrays:
        return references(array)
    raise AssertionError


FREE = _counted([np.empty(0)]) if getattr(sys, "_is_gil_enabled", lambda: True)() else -1


def large(shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether memory of arrays of this shape and dtype is kept."""
    return not dtype.hasobject and prod(shape) * dtype.itemsize >= SMALLEST


Arrays = list[np.ndarray]


def supply(
    shape: tuple[int, ...], dtype: np.dtype
) -> tuple[Arrays, Callable[[], tuple[np.ndarray, Arrays]]]:
    """The arrays of the pool of this shape and dtype, and a function that returns a new array and
    the list from then on.

    An array is free if `references` returns FREE for it in a loop over the list. The caller writes
    the loop: after large arrays have passed through the caches, each further function call is slow.
    """
    key = shape, dtype

    def more() -> tuple[np.ndarray, Arrays]:
        array = _new(shape, dtype)
        return array, _add(key, array)

    return _kept.get(key, []), more


def taker(shape: tuple[int, ...], dtype: np.dtype) -> Callable[[], np.ndarray]:
    """A function that returns an array of this shape and dtype with arbitrary content: a free one
    of the pool, or a new one."""
    if not large(shape, dtype):
        return lambda: np.empty(shape, dtype)
    count, free = references, FREE
    arrays, more = supply(shape, dtype)

    def take() -> np.ndarray:
        nonlocal arrays
        for array in arrays:
            if count(array) == free:
                return array
        array, arrays = more()
        return array

    return take


class Memory(np.ndarray):
    """The memory of an array that begins on a page boundary.

    A view of a view refers to the first owner of the memory as long as all arrays are of one class.
    This class differs from ndarray, so views refer to the array of the pool, whose references are
    counted.
    """


def _new(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array with arbitrary content that begins on a page boundary."""
    nbytes = prod(shape) * dtype.itemsize
    try:
        memory = Memory((nbytes + PAGE,), np.uint8)
    except MemoryError:
        raise MemoryError(
            named(
                f"cannot allocate {nbytes:,} bytes for an array of shape {shape} and dtype {dtype}"
            )
        ) from None
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % PAGE)


def owns(array: np.ndarray) -> bool:
    """Whether the memory was made for this array: it is not a view of another one."""
    return array.flags.owndata or type(array.base) is Memory


def shows_all(array: np.ndarray) -> bool:
    """Whether an array shows all of the memory that was made for one: itself, or in another order
    or shape."""
    root = array
    while isinstance(root.base, np.ndarray) and not owns(root):
        root = root.base
    return owns(root) and root.nbytes == array.nbytes


def release() -> None:
    """Drop all arrays: memory without references goes back to the operating system."""
    with _lock:
        for arrays in list(_kept.values()):
            arrays.clear()


def remembered() -> int:
    """Bytes of the arrays of the pool, those in use included."""
    with _lock:
        return sum([array.nbytes for arrays in list(_kept.values()) for array in arrays])


def _add(key: tuple[tuple[int, ...], np.dtype], array: np.ndarray) -> list[np.ndarray]:
    """Add an array to the pool, unless it is too large, and return the arrays of its shape and
    dtype. The least recently extended lists are dropped if the pool is full."""
    global _adding
    if array.nbytes > LIMIT // EACH:
        return []
    with _lock:
        if _adding:  # called by a finaliser during the lines below
            return []
        _adding = True
        try:
            arrays = _kept.setdefault(key, [])
            _kept.move_to_end(key)
            arrays[:] = [
                *arrays[1 - EACH :],
                array,
            ]  # were all in use, the oldest need not be watched any longer
            total = sum(each.nbytes for group in _kept.values() for each in group)
            while _kept and (total > LIMIT or len(_kept) > SHAPES):
                _, oldest = _kept.popitem(last=False)
                total -= sum(each.nbytes for each in oldest)
                oldest.clear()
        finally:
            _adding = False
        return arrays
