"""Fills: one value in every element; arithmetic progressions."""

import functools
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from .dispatch import copy_part
from .parts import IN_FLIGHT, THREADS, WORDS, Part, part_view, whole

LONG_LINE = 64  # elements of lines that are filled one by one
MOST_LINES = 65_535  # of a grid's second dimension


@functools.cache
def fill_line(word: Any) -> Any:
    """Every word of a contiguous target = the low bits of ``even`` or ``odd`` by turns (complex128
    is two words)."""

    @cuda.jit
    def fill_line(y, even, odd):  # y: (n,) words; even, odd: uint64
        first = cuda.blockIdx.x * (THREADS * IN_FLIGHT) + cuda.threadIdx.x
        for i in range(first, min(first + IN_FLIGHT * THREADS, y.size), THREADS):
            y[i] = word(odd) if i & 1 else word(even)

    return fill_line


@functools.cache
def fill_lines(word: Any) -> Any:
    """The same for a target of lines of any strides, of elements of at most a word."""

    @cuda.jit
    def fill_lines(y, even):  # y: (lines, n) words; even: uint64
        first = cuda.blockIdx.x * (THREADS * IN_FLIGHT) + cuda.threadIdx.x
        for line in range(cuda.blockIdx.y, y.shape[0], cuda.gridDim.y):
            for i in range(first, min(first + IN_FLIGHT * THREADS, y.shape[1]), THREADS):
                y[line, i] = word(even)

    return fill_lines


@functools.cache
def ramp_line(dtype: np.dtype) -> Any:
    """y[i] = start + i * step for i < count, stop from there on (linspace: its last element is
    exactly the end)."""
    _, store, T = codec(dtype)

    @cuda.jit
    def ramp_line(y, start, step, stop, count):  # y: (n,); start, step, stop: T; count: int64
        i = cuda.grid(1)
        if i < y.size:
            y[i] = store(start + T(i) * step) if i < count else store(stop)

    return ramp_line


def fill_part(target: Part, even: Any, odd: Any, temp: Any) -> list[Launch]:
    """Launches that fill a part with one value, given as the two 8-byte halves of 16 bytes of it
    (``ops.shape.bits``).
    ``temp`` is scratch for one element, used only if there is more than one launch."""
    layout = target.layout
    if not layout.size:
        return []
    if not layout.contiguous:
        order = shapes.axes_by_stride(layout.strides)
        shape, steps = shapes.collapse(
            *[tuple([x[i] for i in order]) for x in (layout.shape, layout.strides)]
        )
        if (
            layout.itemsize <= 8
            and shape
            and (len(shape) == 1 or (len(shape) == 2 and shape[1] >= LONG_LINE))
        ):
            count, n = (1, *shape)[-2:]
            word = np.dtype(WORDS[layout.itemsize])
            lines = part_view(target.argument, (count, n), (0, *steps)[-2:], word, target.offset)
            grid = -(-n // (THREADS * IN_FLIGHT)), min(count, MOST_LINES)
            return [Launch(fill_lines(word.type), grid, THREADS, [lines, even])]
        one = Layout.new((), layout.dtype, layout.device)
        return [
            *fill_part(whole(temp, one), even, odd, None),
            *copy_part(whole(temp, one).broadcast(layout.shape), target),
        ]
    size = 8 if layout.nbytes % 8 == 0 and layout.aligned else layout.itemsize
    words = layout.nbytes // size
    return [
        Launch(
            fill_line(WORDS[size]),
            -(-words // (THREADS * IN_FLIGHT)),
            THREADS,
            [
                part_view(target.argument, (words,), (size,), np.dtype(WORDS[size]), target.offset),
                even,
                odd,
            ],
        )
    ]
