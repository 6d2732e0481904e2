"""Padding by mirrored, repeated or wrapped elements, and its gradient: images that are moved, with something at the edges.

The idea. Almost every element of the padded image is one of the old image at a fixed distance, and almost every gradient
is one number of the padded image's at that distance; only near the edges tables (core/taps.py) must say from where an
element comes, or which several elements a gradient is the sum of. So a thread owns a column of a few neighbouring rows: it
finds once where those rows lie, and walks over the columns with one addition a column.

    y[h, w] = sum of x[p, q] over the p that row h takes from and the q that column w takes from

Forward each takes from one, backward those near the edges from several, in ascending order: no atomics, the same bits every
time. Rows of 258 numbers begin at no border of 16 bytes: what keeps the memory busy is that the elements of `each` rows are on
their way at once, neighbours read by neighbouring threads. Channels that lie last in memory are read by whole accesses.

The floor is bytes(x) + bytes(y). Any GPU, and the simulator.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ..core.layout import Layout
from ..core.plan import Constant, Input, Launch, Output
from ..core.taps import MIXED, Axis, taps
from .build import SIMULATOR, blocks, codec
from .lazy import cuda, types
from .pool import _memory, _width
from .rows import reader, writer

THREADS = 256
UNDER_WAY = 32  # bytes that a thread waits for at once
MOST_ROWS = 8  # that it owns
STEPS = 16  # columns that a thread walks over

REGISTERS = 128  # of a thread, so that a multiprocessor of 65,536 holds two blocks at least

i32, i64 = types.int32, types.int64


class Edges(NamedTuple):
    """Where the elements of a new axis come from: those from `first` to `last` - 1 each from the one `shift` further on, all
    from order[start[i]] ... order[end[i] - 1]."""

    start: np.ndarray
    end: np.ndarray
    order: np.ndarray
    shift: int
    first: int
    last: int


def edges(length: int, count: int, axis: Axis, gradient: bool) -> Edges:
    """An axis of `length` padded to `count`; or, `gradient`, the way back."""
    table, shift = taps(length, count, *axis), -int(axis[1])
    if gradient:
        (start, end, order), shift = table.users(length), -shift
    else:
        start, order = np.arange(count, dtype=np.int32), table.first
        end = start + np.int32(1)
    moved = (end - start == 1) & (order[start] == np.arange(len(start)) + shift)
    borders = np.flatnonzero(np.diff(np.concatenate(([False], moved, [False])).astype(np.int8)))
    runs = borders.reshape(-1, 2)
    first, last = runs[np.argmax(runs[:, 1] - runs[:, 0])] if len(runs) else (0, 0)
    return Edges(start, end, order, shift, int(first), int(last))


@functools.cache
def padding(dtype: np.dtype, gradient: bool, width: int, each: int, large: bool) -> Any:
    """Blocks of (threads along a row, threads down the rows); a thread owns `width` neighbours in each of `each` rows."""
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    held = each * width
    short = i64 if large else i32
    number = types.uint64 if large else types.uint32
    limited = cuda.jit if SIMULATOR else cuda.jit(max_registers=REGISTERS)

    @limited
    def padding(x, y, p0, p1, rows, q0, q1, columns, top, upper, lower, left, first, last, H, W, P, Q, channels, count, part):
        """x: the memory of (n, P, Q, channels); y of (n, H, W, channels), of `count` = n H rows. Row h takes from rows[p0[h]]
        ... rows[p1[h] - 1] of x; upper <= h < lower from h + top alone. Columns alike; left, first, last: in elements.
        A block goes over `part` elements of its rows."""
        row = (i64(cuda.blockIdx.x) * cuda.blockDim.y + cuda.threadIdx.y) * each
        if row >= count:
            return
        begin, there, here = number(row) // number(H), number(Q * channels), number(W * channels)
        at = cuda.local.array(each, number)  # where the rows begin in x, each the first of those that a row takes from
        n, h, several = i64(begin), row - i64(begin) * H, False
        for k in range(each):
            p = h + top
            if h < upper or h >= lower:
                p = i64(rows[p0[h]])
                several = several or p1[h] - p0[h] > 1
            at[k] = number(n * P + p) * there
            if row + k + 1 < count:  # a row beyond the last takes what that takes, and writes nothing
                h += 1
                if h == H:
                    n, h = n + 1, i64(0)
        total = cuda.local.array(held, T)
        other = cuda.local.array(held, T)
        beginning = short(i64(cuda.blockIdx.y) * part + cuda.threadIdx.x * width)
        stop, step = short(min(i64(cuda.blockIdx.y + 1) * part, W * channels)), short(cuda.blockDim.x * width)
        low, high, on = short(first), short(last), short(left)
        c = beginning
        while c < stop:
            channel, start, end = short(0), i32(0), i32(1)
            if c >= low and c < high:
                q = number(short(c + on))
            else:
                w = short(number(c) // number(channels))
                channel, start, end = short(c - short(w * short(channels))), q0[w], q1[w]
                q = number(columns[start] * channels + channel)
            for k in range(each):
                read(x, number(at[k] + q), total, k * width)
            if gradient:
                for i in range(start + 1, end):
                    q = number(columns[i] * channels + channel)
                    for k in range(each):
                        read(x, number(at[k] + q), other, k * width)
                    for e in range(held):
                        total[e] += other[e]
            for k in range(each):
                if row + k < count:
                    write(y, number(number(number(row + k) * here) + c), total, k * width)
            c = short(c + step)
        if gradient and several:  # once more the rows near the edges, which take from several
            for r in range(row, min(row + each, count)):
                n = i64(number(r) // number(H))
                h = r - n * H
                if p1[h] - p0[h] > 1:
                    for c in range(beginning, stop, step):
                        w = i64(number(c) // number(channels))
                        for e in range(width):
                            total[e] = T(0)
                        for j in range(p0[h], p1[h]):
                            base = number(n * P + rows[j]) * there
                            for i in range(q0[w], q1[w]):
                                read(x, number(base + number(columns[i] * channels + (c - w * channels))), other, 0)
                                for e in range(width):
                                    total[e] += other[e]
                        write(y, number(number(number(r) * here) + c), total, 0)

    return padding


def launch(x: Layout, y: Layout, axes: tuple[Axis, Axis], gradient: bool) -> Launch | None:
    """The launch that pads images x (N, C, H, W) to y, or, `gradient`, brings gradients x of padded images to y; both in
    C order or both with channels last. None if the axes are resized instead."""
    if any(mode in MIXED or mode.startswith("nearest") for mode, _ in axes):
        return None
    (n, c, *here), there = y.shape, x.shape[2:]
    if y.contiguous:
        n, c = n * c, 1
    sizes = zip(here, there, strict=True) if gradient else zip(there, here, strict=True)
    down, right = [edges(*size, axis, gradient) for size, axis in zip(sizes, axes, strict=True)]
    H, W, P, Q = *here, *there
    if right.shift == 0 and right.last - right.first == W == Q:  # columns that stay move together
        c, W, Q = c * W, 1, 1
        right = edges(1, 1, axes[1], gradient)
    width = _width(c, [x, y])
    rows, columns = n * H, W * c // width
    each = min(UNDER_WAY // (width * y.itemsize), MOST_ROWS) if rows >= 32 else 1
    across = min((32, 64, 128, 256), key=lambda t: blocks(columns, t) * t) if columns > 16 else 16 if columns > 8 else 8
    if rows < THREADS // across:
        across = THREADS
    threads = (across, THREADS // across)
    part = across * STEPS
    large = max(x.size, y.size) + THREADS * width > 1 << 31  # a step beyond the last element counts too
    kernel = padding(y.dtype, gradient, width, each, large)
    tables = [Constant(table) for axis in (down, right) for table in axis[:3]]
    numbers = (*down[3:], *(v * c for v in right[3:]), H, W, P, Q, c, rows, part * width)
    return Launch(kernel, (blocks(rows, each * threads[1]), blocks(columns, part)), threads,
                  [_memory(Input(0), x), _memory(Output(0), y), *tables, *(int(v) for v in numbers)])
