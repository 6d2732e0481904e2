"""Resizing and padding images: nearest neighbour, bilinear, reflected, repeated; and the gradients
of these.

The idea. Along each axis a new element is a mixture of one or two old ones. Which, and in what
shares, is worked out once for each axis on the host (core/specs/resample.py) and read from two
short tables, which stay in the caches: the kernels know nothing of scales, alignment of corners or
half pixels, and no rounding differs between devices.

    y[p, q] = (1 - f[p]) ((1 - e[q]) x[a[p], c[q]] + e[q] x[a[p], d[q]]) + f[p] ((1 - e[q]) x[b[p],
    c[q]] + e[q] x[b[p], d[q]])

Where nothing is mixed (nearest) f = e = 0, and one read is enough; of a neighbour whose share is 0
nothing is taken, for 0 times infinity would be NaN. Backward a thread owns one *old* place and
walks over the new ones that need it, which more tables list for each axis: every sum belongs to one
thread and is taken in a fixed order. No atomics, the same bits every time.

Images in C order that grow by whole factors have kernels of their own (upsample_integer.py), with
shares as constants, and so has padding (pad.py), where almost everything only moves; these here
know every other size, order and mode.

The floor is bytes(x) + bytes(y). A thread owns neighbours, which it writes by one access of up to
16 bytes: channels, where these lie last in memory (reads are as wide then), else columns. Any GPU,
and the simulator (one element per thread).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Constant, Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...core.specs.resample import MIXED, Axis, taps
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import reader, writer
from ..lib.widths import wide
from ..lib.windows import channels_width, decode, is_large, memory_of
from .problem import Resize

THREADS = 256


@functools.cache
def resize_kernel(dtype: np.dtype, mixed: bool, width: int, across: bool, large: bool) -> Any:
    """x: the memory of (n, H, W, channels); y of (n, P, Q, channels); rows a, b: (P,) int32 with
    shares f: (P,), columns c, d: (Q,) int32 with shares e: (Q,). A thread owns `width` neighbours
    of y: columns (`across`; one channel), or channels. count: threads with something to do."""
    load, _, T = codec(dtype)
    locate, read, write = decode(width, across, large), reader(dtype, width), writer(dtype, width)
    held = 4 * width

    @device_function
    def between(s, first, second):
        return first if s == T(0) else (T(1) - s) * first + s * second

    @cuda.jit
    def resize(x, y, a, b, f, c, d, e, count, H, W, P, Q, channels):
        i = cuda.grid(1)
        if i >= count:
            return
        n, p, q, channel = locate(i, P, Q, channels)
        upper = (n * H + a[p]) * W
        lower = (n * H + b[p]) * W
        out = cuda.local.array(width, T)
        if across:
            for k in range(width):
                if mixed:
                    s = e[q + k]
                    first = between(s, load(x[upper + c[q + k]]), load(x[upper + d[q + k]]))
                    last = between(s, load(x[lower + c[q + k]]), load(x[lower + d[q + k]]))
                    out[k] = between(f[p], first, last)
                else:
                    out[k] = load(x[upper + c[q + k]])
        elif not mixed:
            read(x, (upper + c[q]) * channels + channel, out, 0)
        else:
            four = cuda.local.array(held, T)
            read(x, (upper + c[q]) * channels + channel, four, 0)
            read(x, (upper + d[q]) * channels + channel, four, width)
            read(x, (lower + c[q]) * channels + channel, four, 2 * width)
            read(x, (lower + d[q]) * channels + channel, four, 3 * width)
            s = e[q]
            for k in range(width):
                out[k] = between(
                    f[p],
                    between(s, four[k], four[width + k]),
                    between(s, four[2 * width + k], four[3 * width + k]),
                )
        write(y, ((n * P + p) * Q + q) * channels + channel, out, 0)

    return resize


@functools.cache
def resize_grad_kernel(dtype: np.dtype, mixed: bool, width: int, across: bool, large: bool) -> Any:
    """g: the memory of (n, P, Q, channels); dx of (n, H, W, channels); tables as in resize_kernel;
    the new rows that need old row h: rows[p0[h]] ... rows[p1[h] - 1]; p0, p1: (H,), rows: (P,),
    int32; columns alike. A thread owns `width` neighbours of dx."""
    load, _, T = codec(dtype)
    locate, read, write = decode(width, across, large), reader(dtype, width), writer(dtype, width)

    @cuda.jit
    def resize_grad(
        g, dx, a, b, f, c, d, e, p0, p1, rows, q0, q1, columns, count, H, W, P, Q, channels
    ):
        place = cuda.grid(1)
        if place >= count:
            return
        n, h, w, channel = locate(place, H, W, channels)
        total = cuda.local.array(width, T)
        line = cuda.local.array(width, T)
        for k in range(width):
            total[k] = T(0)
        for j in range(p0[h], p1[h]):
            p = rows[j]
            down = T(1)
            if mixed:
                down = (T(1) - f[p] if a[p] == h else T(0)) + (f[p] if b[p] == h else T(0))
            at = (n * P + p) * Q
            if across:
                for k in range(width):
                    for i in range(q0[w + k], q1[w + k]):
                        q = columns[i]
                        share = down
                        if mixed:
                            share *= (T(1) - e[q] if c[q] == w + k else T(0)) + (
                                e[q] if d[q] == w + k else T(0)
                            )
                        total[k] += share * load(g[at + q])
            else:
                for i in range(q0[w], q1[w]):
                    q = columns[i]
                    share = down
                    if mixed:
                        share *= (T(1) - e[q] if c[q] == w else T(0)) + (
                            e[q] if d[q] == w else T(0)
                        )
                    read(g, (at + q) * channels + channel, line, 0)
                    for k in range(width):
                        total[k] += share * line[k]
        write(dx, ((n * H + h) * W + w) * channels + channel, total, 0)

    return resize_grad


# -------------------- planners


def _tables(
    source: tuple[int, ...],
    target: tuple[int, ...],
    axes: tuple[Axis, Axis],
    dtype: np.dtype,
    users: bool,
) -> list[Constant]:
    """The kernels' tables: first, second, share for rows, then columns; with `users`, who needs
    each old row and column."""
    found = [
        taps(length, count, *axis) for length, count, axis in zip(source, target, axes, strict=True)
    ]
    arrays = [
        table.astype(dtype) if table.dtype == np.float64 else table
        for axis in found
        for table in axis
    ]
    if users:
        arrays += [
            table
            for axis, length in zip(found, source, strict=True)
            for table in axis.users(length)
        ]
    return [Constant(table) for table in arrays]


def _launch(
    kernel: Any,
    x: Layout,
    y: Layout,
    axes: tuple[Axis, Axis],
    tables: list[Constant],
    sizes: tuple[int, ...],
) -> Launch:
    """The launch that makes y, with images in C order or channels last, both in the same."""
    (n, c), columns = y.shape[:2], y.shape[3]
    straight = (
        x.contiguous
    )  # y is, too, where it is one row and column of images with channels last
    if straight:
        n, c = n * c, 1
    width = channels_width(columns if straight else c, [x, y])
    count = y.size // width
    made = kernel(y.dtype, any(mode in MIXED for mode, _ in axes), width, straight, is_large(y))
    return Launch(
        made,
        blocks(count, THREADS),
        THREADS,
        [
            memory_of(Input(0), x),
            memory_of(Output(0), y),
            *tables,
            *(int(v) for v in (count, *sizes, c)),
        ],
    )


def plan(p: Resize) -> Plan:
    """The plan of tables for rows and columns."""
    kernel = resize_grad_kernel if p.gradient else resize_kernel
    tables = _tables(p.old, p.new, p.axes, wide(p.x.dtype), p.gradient)
    step = _launch(kernel, p.x, p.y, p.axes, tables, (*p.old, *p.new))
    return Plan([p.y], [step])
