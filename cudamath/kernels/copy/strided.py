"""Copies between layouts of which not both are contiguous. The choice: dispatch.py."""

import functools
from math import prod
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..elementwise.generator import THREADS, broadcast_kernel
from ..elementwise.launches import plain
from ..elementwise.problem import ACCESS
from ..lib.integers import blocks, with_tail
from ..lib.strided_index import index_walker
from ..lib.transpose_tiles import Operand, Squares
from .casts import converter
from .parts import IN_FLIGHT, MANY, part_view
from .problem import CopyProblem


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


@functools.cache
def rows(rank: int, source: np.dtype, target: np.dtype, narrow: bool, each: int) -> Any:
    """Any strides; a block moves pieces of `across` * `each` elements of as many rows (the last
    axis) as it has lines of threads. One division finds a thread's piece, and one for each further
    axis its row: all its elements lie there. narrow: fewer than 2**31 rows."""
    convert, place = converter(source, target), index_walker(0, rank - 1, narrow)
    kind = numba_type(source)

    @cuda.jit
    def strided_rows(x, y, count, pieces):
        # x, y: same shape, `rank` dimensions; count: rows; pieces: of a row
        held = cuda.local.array(each, kind)
        across, n = cuda.blockDim.x, y.shape[rank - 1]
        group = types.uint32(cuda.blockIdx.x) // types.uint32(pieces)
        piece = types.uint32(cuda.blockIdx.x) - group * types.uint32(pieces)
        row = types.int64(group) * cuda.blockDim.y + cuda.threadIdx.y
        first = types.int64(piece) * (across * each) + cuda.threadIdx.x
        if row < count:
            at = place(y, row)
            for k in range(each):
                i = first + k * across
                if i < n:
                    held[k] = x[at + (i,)]
            for k in range(each):
                i = first + k * across
                if i < n:
                    y[at + (i,)] = convert(held[k])

    return strided_rows


@functools.cache
def repeated(rank: int, source: np.dtype, target: np.dtype, narrow: bool, each: int) -> Any:
    """As ``rows``, for a source of which every element goes to several places: it is read once."""
    convert, place = converter(source, target), index_walker(0, rank - 1, narrow)
    kind = numba_type(source)

    @cuda.jit
    def repeated_rows(x, y, count, pieces):
        # x: `rank` dimensions; y: the same behind the one of an element's places; count: rows;
        # pieces: of a row
        held = cuda.local.array(each, kind)
        across, n = cuda.blockDim.x, x.shape[rank - 1]
        group = types.uint32(cuda.blockIdx.x) // types.uint32(pieces)
        piece = types.uint32(cuda.blockIdx.x) - group * types.uint32(pieces)
        row = types.int64(group) * cuda.blockDim.y + cuda.threadIdx.y
        first = types.int64(piece) * (across * each) + cuda.threadIdx.x
        if row < count:
            at = place(x, row)
            for k in range(each):
                i = first + k * across
                if i < n:
                    held[k] = x[at + (i,)]
            for c in range(y.shape[0]):
                for k in range(each):
                    i = first + k * across
                    if i < n:
                        y[(c,) + at + (i,)] = convert(held[k])

    return repeated_rows


# -------------------- launches


def by_rows(p: CopyProblem) -> Launch:
    """Version "rows". As few lines of threads as are full: a row's elements are shared out among
    threads by eights."""
    return _in_rows(rows, p, p.shape, p.views)


def by_repeats(p: CopyProblem) -> Launch:
    """Version "repeated". The places of an element become the target's first axis."""
    axis = p.strides[0].index(0)
    shape, source, target = (
        tuple([n for i, n in enumerate(t) if i != axis]) for t in (p.shape, *p.strides)
    )
    if len(shape) == 1:
        shape, source, target = (1, *shape), (0, *source), (0, *target)
    views = [
        part_view(p.source, shape, source, p.words[0], p.offsets[0]),
        part_view(
            p.target,
            (p.shape[axis], *shape),
            (p.strides[1][axis], *target),
            p.words[1],
            p.offsets[1],
        ),
    ]
    return _in_rows(repeated, p, shape, views)


def by_parts(p: CopyProblem) -> Launch:
    """Version "broadcast": the kernel of elementwise operations with a broadcast operand."""
    width, count, rank = ACCESS // p.words[1].itemsize, p.size, len(p.shape)
    step = p.words[0].itemsize
    return Launch(
        broadcast_kernel(converter(*p.words), ("part",), rank, width, count + width >= 1 << 31),
        blocks(with_tail(count, width), THREADS),
        THREADS,
        [*_lines(p), *[s // step for s in p.strides[0]], *p.shape[1:]],
    )


def _lines(p: CopyProblem) -> list[Any]:
    """The memory of source and target, in one dimension each, as arguments of a kernel."""
    return [
        part_view(argument, (extent(p.shape, strides, word),), None, word, offset)
        for argument, strides, word, offset in zip(
            (p.source, p.target), p.strides, p.words, p.offsets, strict=True
        )
    ]


def extent(shape: tuple[int, ...], strides: tuple[int, ...], word: np.dtype) -> int:
    """Elements from the first to the last of a view."""
    return max(shapes.byte_bounds(shape, strides, word.itemsize)[1] // word.itemsize, 1)


def _in_rows(kernel: Any, p: CopyProblem, shape: tuple[int, ...], views: list[Any]) -> Launch:
    """The launch of ``rows`` or ``repeated`` for sources of that shape."""
    n, count = shape[-1], prod(shape[:-1])
    each = in_flight(p)
    pieces = blocks(n, THREADS * each)
    across = blocks(blocks(n, pieces * each), 8) * 8
    together = max(THREADS // across, 1)
    return Launch(
        kernel(len(shape), *p.words, count < 1 << 31, each),
        pieces * blocks(count, together),
        (across, together),
        [*views, count, pieces],
    )


def in_flight(p: CopyProblem) -> int:
    """Elements that a thread reads before it writes the first."""
    words = max(word.itemsize for word in p.words)
    return IN_FLIGHT if words < 8 and p.size >= MANY else 1


def by_tiles(p: CopyProblem) -> Launch | None:
    """Version "tiled". None where both sides run along the same axis."""
    source, target = (
        Operand(argument, word, strides, p.aligned)
        for argument, word, strides in zip(_lines(p), p.words, p.strides, strict=True)
    )
    squares = Squares.of([source], target, p.shape)
    return squares and squares.launch(converter(*p.words), ("x",), squares.version)


def by_strides(p: CopyProblem) -> Launch:
    """Version "strided"."""
    each = in_flight(p)
    kernel = strided(len(p.shape), *p.words, p.size < 1 << 31, each)
    return Launch(kernel, blocks(p.size, THREADS * each), THREADS, p.views)


def by_elements(p: CopyProblem) -> Launch:
    """Version "elementwise"."""
    return plain(converter(*p.words), (True,), p.views[:1], p.views[1], p.shape)
