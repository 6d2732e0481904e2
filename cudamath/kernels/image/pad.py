"""Padding by mirrored, repeated, wrapped or constant elements, and its gradient: a shifted copy,
except near the edges.

The idea. Almost every element of the padded image is an element of the old image at a fixed offset,
and almost every gradient is one number of the padded image's gradient at that offset. Only near the
edges do tables (core/specs/resample.py) say where an element comes from, or which elements a
gradient is the sum of:

    y[h, w] = sum of x[p, q] over the p that row h takes from and the q that column w takes from

Forward each takes from one (or none: a constant), backward those near the edges from several, in
ascending order: the same bits every time.

A block owns a piece of y's memory, wherever rows end in it: written row by row, rows of 258 numbers
begin within the 32 bytes that memory moves at once (forward 483 us instead of 282, of which a copy
would take 257, on an H200). A thread finds the position of its first elements by divisions and of
the next ones by additions, and has all loads in flight before its first store. Elements near an
edge would delay their whole warp, once for each group of them: they are put on a list in shared
memory, which the threads of the block divide among themselves when the others are done. The order
of the list changes from run to run; the result of each element does not.

The floor is bytes(x) + bytes(y). Any GPU, and the simulator.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import Constant, Input, Output, Scalar
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...core.specs.resample import MIXED, Axis, taps
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type, storage
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import reader, writer
from ..lib.windows import channels_width
from .problem import Pad, Resize

THREADS = 128
UNDER_WAY = 64  # bytes that a thread waits for at once
MOST = 16  # groups
#: What share of the elements must come from a fixed distance: edges are dealt with at the price of
#: some 200 instructions each, which others (resize.py; copy/strided.py, which fills everything
#: first) do in fewer forward, and in more backward.
INSIDE = {"forward": 0.95, "gradient": 0.3, "filled": 0.9}

i32, i64 = types.int32, types.int64


Moved = tuple[
    int, int, int
]  # how far on the elements of an axis come from, the first and behind the last that do


class Edges(NamedTuple):
    """Where the elements of a new axis come from: those from `first` to `last` - 1 each from the
    one `shift` further on, all from order[start[i]] ... order[end[i] - 1]."""

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
def padding(
    dtype: np.dtype, width: int, whole: bool, groups: int, filled: bool, large: bool
) -> Any:
    """A thread owns `groups` groups of `width` neighbours. whole: these are channels, and are read
    by one access, too. filled: some take from nowhere."""
    _, _, T = codec(dtype)
    one, read, write = (
        reader(storage(dtype), 1),
        reader(storage(dtype), width),
        writer(storage(dtype), width),
    )
    apart = (
        1 if whole else width
    )  # elements of a group near an edge that are dealt with by themselves
    together = width // apart
    get, put = reader(dtype, together), writer(dtype, together)
    held, piece, stored = groups * width, groups * THREADS, numba_type(dtype)
    short = i64 if large else i32
    number = types.uint64 if large else types.uint32

    @cuda.jit
    def padding(
        x,
        y,
        p0,
        p1,
        rows,
        q0,
        q1,
        columns,
        top,
        upper,
        lower,
        left,
        first,
        last,
        H,
        W,
        P,
        Q,
        channels,
        count,
        rows_on,
        columns_on,
        memory_on,
        value,
    ):
        """x: the memory of (n, P, Q, channels); y of (n, H, W, channels), of `count` groups. Row h
        takes from rows[p0[h]] ... rows[p1[h] - 1] of x; upper <= h < lower from h + top alone.
        Columns alike; left, first, last: in elements. From a thread's group to its next it is
        `rows_on` rows, but for whole images, and `columns_on` elements in y, and in x these
        elements and `memory_on` more. value: what takes from nowhere, the bits of an element again
        and again."""
        edge = cuda.shared.array(piece, i32)  # groups near an edge, counted from the block's first
        length = cuda.shared.array(1, i32)
        if cuda.threadIdx.x == 0:
            length[0] = 0
        cuda.syncthreads()
        begin, line, there = i64(cuda.blockIdx.x) * piece, W * channels, Q * channels
        mine = begin + cuda.threadIdx.x
        row = i64(number(mine * width) // number(line))
        n = i64(number(row) // number(H))
        c, h = short(mine * width - row * line), short(row - n * H)
        at = short(
            (n * P + h + top) * there + left
        )  # where in x the row begins that row h takes from
        low, high, above, below = short(first), short(last), short(upper), short(lower)
        wide, tall, line_on, image_on = short(line), short(H), short(there), short((P - H) * there)
        v = cuda.local.array(held, stored)
        inside = i32(0)
        for k in range(groups):
            source = number(0)
            if c >= low and c < high and h >= above and h < below and mine + k * THREADS < count:
                source = number(short(at + c))
                inside |= i32(1 << k)
            if whole:
                read(x, source, v, k * width)
            else:
                for e in range(width):
                    one(x, number(source + number(e)), v, k * width + e)
            c, h, at = (
                short(c + short(columns_on)),
                short(h + short(rows_on)),
                short(at + short(memory_on)),
            )
            if c >= wide:
                c, h, at = short(c - wide), short(h + 1), short(at + line_on)
            if h >= tall:
                h, at = short(h - tall), short(at + image_on)
        for k in range(groups):  # while the numbers are on their way
            if not inside & i32(1 << k) and mine + k * THREADS < count:
                edge[cuda.atomic.add(length, 0, 1)] = i32(k * THREADS + cuda.threadIdx.x)
        for k in range(groups):
            if inside & i32(1 << k):
                write(y, (mine + k * THREADS) * width, v, k * width)
        cuda.syncthreads()
        total = cuda.local.array(together, T)
        other = cuda.local.array(together, T)
        for j in range(cuda.threadIdx.x, length[0] * apart, THREADS):
            i = (begin + edge[j // apart]) * width + j % apart
            row = i64(number(i) // number(line))
            n = i64(number(row) // number(H))
            far, near = row - n * H, i - row * line
            if filled:
                for e in range(together):
                    total[e] = T(value)
                if far + top >= 0 and far + top < P and near + left >= 0 and near + left < there:
                    get(x, (n * P + far + top) * there + near + left, total, 0)
            else:
                w = i64(number(near) // number(channels))
                for a in range(p0[far], p1[far]):
                    for b in range(q0[w], q1[w]):
                        get(
                            x,
                            (n * P + rows[a]) * there
                            + columns[b] * channels
                            + (near - w * channels),
                            other,
                            0,
                        )
                        for e in range(together):
                            total[e] = (
                                other[e] if a == p0[far] and b == q0[w] else total[e] + other[e]
                            )
            put(y, i, total, 0)

    return padding


def launch(x: Layout, y: Layout, axes: tuple[Axis, Axis], gradient: bool) -> Launch | None:
    """The launch that pads images x (N, C, H, W) to y, or, `gradient`, brings gradients x of padded
    images to y; both in C order or both with channels last. None if the axes are resized instead,
    or too little lies inside."""
    if any(mode in MIXED or mode.startswith("nearest") for mode, _ in axes):
        return None
    (_, c, *here), there = y.shape, x.shape[2:]
    if x.contiguous:  # y is, too, where it is one row and column of images with channels last
        c = 1
    sizes = zip(here, there, strict=True) if gradient else zip(there, here, strict=True)
    down, right = [edges(*size, axis, gradient) for size, axis in zip(sizes, axes, strict=True)]
    if (
        right.shift == 0 and right.last - right.first == here[1] == there[1]
    ):  # columns that stay move together
        c *= here[1]
        here, there, right = [here[0], 1], (there[0], 1), edges(1, 1, axes[1], gradient)
    kind = "gradient" if gradient else "forward"
    return _launch(kind, x, y, here, (*there, c), down[3:], right[3:], (*down[:3], *right[:3]))


def surrounded(x: Layout, y: Layout, widths: tuple[tuple[int, int], ...]) -> Launch | None:
    """The launch that puts x, in C order, into the middle of y, in an array filled with the first
    scalar. None if more than two neighbouring axes grow, or by so much that too little lies inside.
    """
    grown = [axis for axis, width in enumerate(widths) if width != (0, 0)]
    if not x.contiguous or not grown or grown[-1] - grown[0] > 1 or x.itemsize > 8 or not x.size:
        return None
    axis = grown[-1]
    (top, _), (left, _) = widths[axis - 1] if axis else (0, 0), widths[axis]
    (H, P), (W, Q) = (
        [(a.shape[axis - 1] if axis else 1) for a in (y, x)],
        [a.shape[axis] for a in (y, x)],
    )
    down, right = (-top, top, top + P), (-left, left, left + Q)
    return _launch("filled", x, y, (H, W), (P, Q, math.prod(x.shape[axis + 1 :])), down, right)


def _launch(
    kind: str,
    x: Layout,
    y: Layout,
    here: Sequence[int],
    there: tuple[int, int, int],
    down: Moved,
    right: Moved,
    tables: Sequence[np.ndarray] = (),
) -> Launch | None:
    """kind: one of INSIDE; here: rows and columns of y; there: rows, columns and channels of x;
    tables: for rows and columns, from where elements near the edges come, or without them from
    nowhere."""
    (H, W), (P, Q, c) = here, there
    (top, upper, lower), (left, first, last) = down, [v * c for v in right]
    filled = kind == "filled"
    width = channels_width(c, [x, y])
    whole = width > 1
    if not whole and not SIMULATOR and y.aligned:
        width = next((w for w in (4, 2) if w * y.itemsize <= 16 and W * c % w == 0), 1)
    first, last = -(-first // width) * width, last // width * width
    if (lower - upper) * max(last - first, 0) < INSIDE[kind] * H * W * c or x.size < width:
        return None
    groups = min(max(UNDER_WAY // (width * y.itemsize), 1), MOST)
    rows_on, columns_on = divmod(THREADS * width, W * c)
    images_on, rows_on = divmod(rows_on, H)
    large = (
        max(x.size, y.size) + 2 * THREADS * width > 1 << 31
    )  # a step beyond the last element counts, too
    count = y.size // width
    dtype = np.dtype(f"u{y.itemsize}") if filled else y.dtype
    memory = [
        place.view((max(layout.size, 1),), dtype=dtype if filled else None)
        for place, layout in ((Input(0), x), (Output(0), y))
    ]
    numbers = (
        top,
        upper,
        lower,
        left,
        first,
        last,
        H,
        W,
        P,
        Q,
        c,
        count,
        rows_on,
        columns_on,
        (images_on * P + rows_on) * Q * c,
    )
    return Launch(
        padding(dtype, width, whole, groups, filled, large),
        blocks(count, groups * THREADS),
        THREADS,
        [
            *memory,
            *(map(Constant, tables) if tables else memory[:1] * 6),
            *(int(v) for v in numbers),
            Scalar(0, np.uint64) if filled else np.uint64(0),
        ],
    )


def plan_resize(p: Resize) -> Plan | None:
    """The plan of images that are padded, or of the gradient of that."""
    step = launch(p.x, p.y, p.axes, p.gradient)
    return step and Plan([p.y], [step])


def plan_shift(p: Pad) -> Plan | None:
    """The plan of one launch, where almost everything only moves."""
    step = surrounded(p.x, p.y, p.widths)
    return step and Plan([p.y], [step])


def plan_fill_and_copy(p: Pad) -> Plan:
    """The plan of a fill, and of a copy into the middle."""
    inside = whole(Output(0), p.y)
    steps = fill_part(inside, Scalar(0, np.uint64), Scalar(1, np.uint64), None)
    for axis, (before, _) in enumerate(p.widths):
        inside = inside.slice(axis, before, p.x.shape[axis])
    return Plan([p.y], [*steps, *copy_part(whole(Input(0), p.x), inside)])
