"""Parts of a plan's arguments, and the words that copies move."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...core import shapes
from ...core.layout import Layout

THREADS = 256
IN_FLIGHT = 4  # independent loads a thread has in flight, to cover the latency of DRAM
# Elements from which on a thread has several narrow words in flight: with one each, 2,048 threads
# of a multiprocessor do not cover the latency of memory
MANY = 1 << 16
#: The type in which elements of that many bytes are moved.
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


class Part(NamedTuple):
    """A view inside an argument of a plan: ``layout`` starting ``offset`` bytes after the
    argument's first element."""

    argument: Any
    layout: Layout
    offset: int = 0

    def slice(self, axis: int, start: int, size: int) -> "Part":
        """Elements start ... start + size - 1 along one axis."""
        layout = self.layout
        step = start * layout.strides[axis] if layout.size else 0
        shape = (*layout.shape[:axis], size, *layout.shape[axis + 1 :])
        return Part(self.argument, layout.view(shape, layout.strides, step), self.offset + step)

    def every(self, axis: int, start: int, step: int, size: int) -> "Part":
        """Elements start, start + step, ... along one axis: `size` of them."""
        part = self.slice(axis, start, size)
        strides = list(part.layout.strides)
        strides[axis] *= step
        return part._replace(layout=part.layout.view(part.layout.shape, tuple(strides)))

    def broadcast(self, shape: shapes.Shape) -> "Part":
        """The same elements repeated to a shape."""
        layout = self.layout
        return self._replace(
            layout=layout.view(shape, shapes.broadcast_strides(layout.shape, layout.strides, shape))
        )


def widest_word(size: int, steps: Iterable[int]) -> int:
    """Bytes of the widest word, up to 8, that divides all steps; `size` if elements are as wide, or
    nothing wider does."""
    steps = tuple(steps)
    wider = (wide for wide in (8, 4, 2) if wide > size and not any(s % wide for s in steps))
    return next(wider, size)


def whole(argument: Any, layout: Layout) -> Part:
    """All of an argument."""
    return Part(argument, layout)


def part_view(argument, shape, strides, dtype, offset):
    """An argument of a kernel, in bytes from the argument of the plan."""
    return argument.view(shape, strides, dtype=dtype, offset=offset)


def index_type(size: int) -> Any:
    """The index type for that many threads: the last block may count past the end."""
    return np.uint32 if size + THREADS < 2**32 else np.uint64
