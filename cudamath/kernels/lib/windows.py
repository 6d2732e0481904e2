"""Windows over images: positions, sizes, and what a block of threads takes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.layout import Layout, is_channels_last
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types

THREADS = 256
MOST = 64  # positions of a window that a fast kernel unrolls


@functools.cache
def place(large: bool) -> Any:
    """Device function i -> (n, c, row, column) in an array (N, C, rows, columns), 32-bit divisions
    unless large."""
    T = types.uint64 if large else types.uint32

    @cuda.jit(device=True)
    def place(i, channels, rows, columns):
        rest = T(i) // T(columns)
        column = types.int64(i) - types.int64(rest) * columns
        plane = T(rest) // T(rows)
        row = types.int64(rest) - types.int64(plane) * rows
        n = types.int64(T(plane) // T(channels))
        return n, types.int64(plane) - n * channels, row, column

    return place


@cuda.jit(device=True)
def covering(position, extent, step, count):
    """The windows p, first and last + 1, with p * step <= position <= p * step + extent; 0 <=
    position < 2**32."""
    first = types.uint32(max(position - extent + step - 1, 0)) // types.uint32(step)
    last = types.uint32(position) // types.uint32(step)
    return types.int64(first), min(types.int64(last) + 1, count)


@functools.cache
def window_size(kind: str) -> Any:
    """Device function: by what the sum of a window is divided that starts at row h and column w of
    images (H, W): its positions inside the image, with those in the padding for "padded mean", or
    the number that "sum / number" names."""
    padded, number = kind == "padded mean", int(kind[6:]) if kind.startswith("sum / ") else 0

    @cuda.jit(device=True)
    def window_size(h, rows, H, top, w, columns, W, left):
        if number:
            return number
        if padded:
            return (min(h + rows, H + top) - h) * (min(w + columns, W + left) - w)
        return (min(h + rows, H) - max(h, 0)) * (min(w + columns, W) - max(w, 0))

    return window_size


class Window(NamedTuple):
    """A window's numbers, which the fast kernels know when they are compiled."""

    rows: int
    columns: int
    down: int
    right: int
    top: int
    left: int
    row_step: int = 1
    column_step: int = 1

    @property
    def tiles(self) -> bool:
        """Windows follow each other without gap, overlap or padding."""
        return (self.down, self.right) == (self.rows, self.columns) and self[4:] == (0, 0, 1, 1)


@functools.cache
def decode(width: int, across: bool, large: bool) -> Any:
    """Device function i -> (n, row, column, c): group number i of an array (n, rows, columns,
    channels), whose groups are `width` neighbours along the columns (`across`) or the channels."""
    T = types.uint64 if large else types.uint32

    @device_function
    def decode(i, rows, columns, channels):
        if across:  # one channel
            c = types.int64(0)
            rest = T(i)
            groups = T(columns // width)
        else:
            groups_c = T(channels // width)
            rest = T(i) // groups_c
            c = (types.int64(i) - types.int64(rest) * types.int64(groups_c)) * width
            groups = T(columns)
        line = T(rest) // groups
        column = types.int64(rest) - types.int64(line) * types.int64(groups)
        if across:
            column *= width
        n = T(line) // T(rows)
        return types.int64(n), types.int64(line) - types.int64(n) * rows, column, c

    return decode


def is_large(layout: Layout) -> bool:
    """Whether places in an array need more than 31 bits."""
    return layout.size >= 1 << 31


def ordered_as(like: Layout, shape: Sequence[int], dtype: Any = None) -> Layout:
    """A new (N, C, rows, columns) in the order of `like`: channels last, or else C order."""
    if like.contiguous or not is_channels_last(like):
        return like.like(tuple(shape), dtype)
    n, c, rows, columns = shape
    new = like.like((n, rows, columns, c), dtype)
    return Layout.of(
        tuple(shape), tuple([new.strides[i] for i in (0, 3, 1, 2)]), new.dtype, new.device
    )


def memory_of(argument: Any, layout: Layout) -> Any:
    """The memory of a dense array in one dimension."""
    return argument.view((max(layout.size, 1),))


def channels_width(channels: int, layouts: Sequence[Layout]) -> int:
    """Channels (or columns) of an access."""
    most = 16 // max(layout.itemsize for layout in layouts)
    fits = [
        w
        for w in (8, 4, 2)
        if w <= most and channels % w == 0 and all(layout.aligned for layout in layouts)
    ]
    return 1 if SIMULATOR or not fits else fits[0]
