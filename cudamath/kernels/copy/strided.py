"""Copies between layouts of which not both are contiguous. The choice: dispatch.py."""

import functools
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..elementwise.launches import plain
from ..lib.integers import blocks
from ..lib.strided_index import index_walker
from ..lib.transpose_tiles import Operand, Squares
from .casts import converter
from .parts import IN_FLIGHT, THREADS, part_view
from .problem import CopyProblem

# Elements from which on a thread has several narrow words in flight: with one each, 2,048 threads
# of a multiprocessor do not cover the latency of memory
MANY = 1 << 16


@functools.cache
def strided(rank: int, source: np.dtype, target: np.dtype, narrow: bool, each: int) -> Any:
    """Any strides; elements in row-major order, of which thread t of a block moves t, t + 256, ..,
    `each` in all, and reads them before it writes the first. narrow: fewer than 2**31 elements."""
    convert, place = converter(source, target), index_walker(0, rank, narrow)
    kind = numba_type(source)

    @cuda.jit
    def strided(x, y):  # x, y: same shape, `rank` dimensions
        held = cuda.local.array(each, kind)
        first = types.int64(cuda.blockIdx.x) * (THREADS * each) + cuda.threadIdx.x
        for k in range(each):
            i = first + k * THREADS
            if i < y.size:
                held[k] = x[place(y, i)]
        for k in range(each):
            i = first + k * THREADS
            if i < y.size:
                y[place(y, i)] = convert(held[k])

    return strided


# -------------------- launches


def by_tiles(p: CopyProblem) -> Launch | None:
    """Version "tiled". None where both sides run along the same axis."""
    extents = [
        max(shapes.byte_bounds(p.shape, strides, word.itemsize)[1] // word.itemsize, 1)
        for strides, word in zip(p.strides, p.words, strict=True)
    ]
    source, target = (
        Operand(part_view(argument, (extent,), None, word, offset), word, strides, p.aligned)
        for argument, extent, word, offset, strides in zip(
            (p.source, p.target), extents, p.words, p.offsets, p.strides, strict=True
        )
    )
    squares = Squares.of([source], target, p.shape)
    return squares and squares.launch(converter(*p.words), ("x",), squares.version)


def by_strides(p: CopyProblem) -> Launch:
    """Version "strided"."""
    words = max(word.itemsize for word in p.words)
    each = IN_FLIGHT if words < 8 and p.size >= MANY else 1
    kernel = strided(len(p.shape), *p.words, p.size < 1 << 31, each)
    return Launch(kernel, blocks(p.size, THREADS * each), THREADS, p.views)


def by_elements(p: CopyProblem) -> Launch:
    """Version "elementwise"."""
    return plain(converter(*p.words), (True,), p.views[:1], p.views[1], p.shape)
