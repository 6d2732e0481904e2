"""Memory of large arrays on the CPU, kept for the next array of the same shape and dtype.

The C library returns large blocks to the operating system as they are freed, and the next array of
that size then pays for fresh pages: zeroed by the kernel, with one page fault per 4 KiB, which
costs far more than the arithmetic (measured for ``(a + b) + b`` of 10^5 float32 on a virtual
machine: 350 us, of which 23 are the two sums). So result arrays are remembered here, and one that
has no other references becomes the next result.

Whether there are other references is read from the reference count: views of an array, exported
buffers and the tape all hold one. Without a global interpreter lock the count can change at any
time; then nothing is reused.

These arrays begin on a page boundary; the C library's large blocks begin 16 bytes behind one. So no
stored vector straddles two cache lines. Nor do stores alias later loads in the lower bits of the
address, by which processors decide that a load has to wait for a store (``a + b`` of 40,000 float32
takes 35 % longer if the result begins 112 bytes further into its page than the operands).
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from math import prod

import numpy as np

SMALLEST = 1 << 16  # bytes; the C library keeps smaller blocks itself
LIMIT = 1 << 28  # bytes remembered at most, those in use included
PAGE = 4096  # bytes
EACH = 4  # arrays remembered of one shape and dtype
SHAPES = 1024  # shapes and dtypes remembered

_kept: OrderedDict[tuple[tuple[int, ...], np.dtype], list[np.ndarray]] = (
    OrderedDict()
)  # least recently grown first
_lock = (
    threading.RLock()
)  # a collection of garbage may run a finaliser that computes while this thread has it
_remembering = False  # whether that has happened in the midst of `_remember`
references = sys.getrefcount


def _counted(arrays: list[np.ndarray]) -> int:
    """What `references` says in a loop over `arrays` of one that only the list refers to (it
    differs between Pythons)."""
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
    """Large arrays of this shape and dtype: those remembered, and a function that gives a new one
    and the list from then on.

    One of which `references` says FREE, in a loop over the list, is free. The loop is the caller's:
    after large arrays have gone through the caches, every function called more is felt.
    """
    key = shape, dtype

    def more() -> tuple[np.ndarray, Arrays]:
        array = _new(shape, dtype)
        return array, _add(key, array)

    return _kept.get(key, []), more


def taker(shape: tuple[int, ...], dtype: np.dtype) -> Callable[[], np.ndarray]:
    """A function that gives arrays of this shape and dtype with arbitrary content: one that is
    free, or a new one."""
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
    """The bytes behind an array that begins with a page.

    NumPy lets a view of a view refer to the first owner of the memory, past the arrays in between,
    as long as all are of one class. This one is another, so views refer to the array in between,
    whose references are counted.
    """


def _new(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array with arbitrary content that begins with a page."""
    memory = Memory((prod(shape) * dtype.itemsize + PAGE,), np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % PAGE)


def owns(array: np.ndarray) -> bool:
    """Whether the memory was made for this array: it is not a view of another one."""
    return array.flags.owndata or type(array.base) is Memory


def release() -> None:
    """Forget all arrays: what nobody uses goes back to the operating system."""
    with _lock:
        for arrays in list(_kept.values()):
            arrays.clear()


def remembered() -> int:
    """Bytes of the arrays that are remembered, those in use included."""
    with _lock:
        return sum([array.nbytes for arrays in list(_kept.values()) for array in arrays])


def _add(key: tuple[tuple[int, ...], np.dtype], array: np.ndarray) -> list[np.ndarray]:
    """The arrays remembered of this shape and dtype, the new one among them unless it is too large;
    those of other shapes make way for it."""
    global _remembering
    if array.nbytes > LIMIT // EACH:
        return []
    with _lock:
        if _remembering:  # a finaliser's array, in the midst of what is below
            return []
        _remembering = True
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
            _remembering = False
        return arrays
