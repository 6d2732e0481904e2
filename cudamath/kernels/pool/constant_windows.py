"""Pooling by windows that are constants of the kernel, for images in C order or channels last.

Loops unroll, and divisions by the stride become shifts (dispatch.py has the idea).

Channels last, a thread owns neighbouring channels: every access is 16 bytes. Where windows tile the
image (`across`), it owns neighbouring windows of a row.
"""

import functools
from math import gcd
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import reader, writer
from ..lib.windows import (
    THREADS,
    Window,
    channels_width,
    decode,
    is_large,
    memory_of,
    window_size,
)
from .argmax_encoding import MAXIMA, NOTED, note_reader, note_writer, taking
from .problem import Backward, Forward


@functools.cache
def pool_windows(
    kind: str, dtype: np.dtype, window: Window, width: int, across: bool, flat: bool, large: bool
) -> Any:
    """kind: "max"; "notes": the maximum and where it is, "bytes": where it is in its window;
    "mean", "padded mean" (the padding counts) or "sum / 7" (divided by that). flat: one channel."""
    _, _, C = codec(dtype)
    locate, read, write = decode(width, across, large), reader(dtype, width), writer(dtype, width)
    rows, columns, down, right, top, left, row_step, column_step = window
    averaging, within = kind not in MAXIMA, kind == "bytes"
    write_notes, with_notes = note_writer(kind, width, window), kind in NOTED
    size = window_size(kind)
    elements = width * columns if across else width
    start = C(0) if averaging else C(-np.inf)
    take = taking(kind)

    @cuda.jit
    def pool_windows(x, y, index, count, H, W, P, Q, channels):
        """x: the memory of (n, H, W, channels), y and index (x again if no notes are taken) of (n,
        P, Q, channels): images in C order are (n c, H, W, 1). count: groups of `width` results."""
        i = cuda.grid(1)
        if i >= count:
            return
        n, p, q, c = locate(i, P, Q, channels)
        step = 1 if flat else channels
        best = cuda.local.array(width, C)
        where = cuda.local.array(width, types.int32)
        line = cuda.local.array(elements, C)
        for k in range(width):
            best[k] = start
            where[k] = -1
        h, w = p * down - top, q * right - left
        base = ((n * H + h) * W + w) * step + c
        here = types.int32(h * W + w)
        if across:
            for r in range(rows):
                if h + r < H:
                    for s in range(columns):
                        read(x, base + r * W + s * width, line, s * width)
                    for k in range(width):
                        for s in range(columns):
                            position = r * columns + s if within else here + r * W + k * columns + s
                            take(best, where, k, line[k * columns + s], position)
        elif (
            h >= 0
            and w >= 0
            and h + (rows - 1) * row_step < H
            and w + (columns - 1) * column_step < W
        ):
            for r in range(rows):
                at = base + r * row_step * W * step
                for s in range(columns):
                    read(x, at + s * column_step * step, line, 0)
                    position = (
                        r * columns + s if within else here + r * row_step * W + s * column_step
                    )
                    for k in range(width):
                        take(best, where, k, line[k], position)
        else:
            for r in range(rows):
                if h + r * row_step >= 0 and h + r * row_step < H:
                    at = base + r * row_step * W * step
                    for s in range(columns):
                        if w + s * column_step >= 0 and w + s * column_step < W:
                            read(x, at + s * column_step * step, line, 0)
                            position = (
                                r * columns + s
                                if within
                                else here + r * row_step * W + s * column_step
                            )
                            for k in range(width):
                                take(best, where, k, line[k], position)
        if averaging:
            places = C(size(h, rows, H, top, w, columns, W, left))
            for k in range(width):
                best[k] = C(best[k] / places)
        at = ((n * P + p) * Q + q) * step + c
        write(y, at, best, 0)
        if with_notes:
            write_notes(index, at, where, h, w, columns if across else 0, H, W)

    return pool_windows


@functools.cache
def pool_gather(
    kind: str, dtype: np.dtype, window: Window, width: int, flat: bool, large: bool
) -> Any:
    """The gradient of pool_windows, kind as there. A thread owns a patch of (down, right) input
    places, which all see the same few windows, in `width` neighbouring channels."""
    _, _, C = codec(dtype)
    locate, read, write = decode(width, False, large), reader(dtype, width), writer(dtype, width)
    rows, columns, down, right, top, left, row_step, column_step = window
    averaging, within, read_notes = kind not in MAXIMA, kind == "bytes", note_reader(kind, width)
    size = window_size(kind)
    above, before = (
        (rows - 1) * row_step // down + 1,
        (columns - 1) * column_step // right + 1,
    )  # windows over a patch
    elements = down * right * width

    @cuda.jit
    def pool_gather(grad, index, dx, count, H, W, P, Q, channels, patches_down, patches_right):
        """grad, index (grad again for means): the memory of (n, P, Q, channels); dx of (n, H, W,
        channels)."""
        t = cuda.grid(1)
        if t >= count:
            return
        n, i, j, c = locate(t, patches_down, patches_right, channels)
        step = 1 if flat else channels
        total = cuda.local.array(elements, C)
        line = cuda.local.array(width, C)
        notes = cuda.local.array(width, types.int32)
        for e in range(elements):
            total[e] = C(0)
        h, w = i * down - top, j * right - left
        here = h * W + w
        for a in range(above):
            p = i - a
            if p >= 0 and p < P:
                for b in range(before):
                    q = j - b
                    if q >= 0 and q < Q:
                        at = ((n * P + p) * Q + q) * step + c
                        read(grad, at, line, 0)
                        if averaging:
                            places = C(
                                size(
                                    p * down - top, rows, H, top, q * right - left, columns, W, left
                                )
                            )
                            for k in range(width):
                                line[k] = C(line[k] / places)
                        if not averaging:
                            read_notes(index, at, notes, 0)
                        for k in range(width):
                            note = (
                                types.int64(0)
                                if averaging
                                else types.int64(notes[k]) - (0 if within else here)
                            )
                            for r in range(down):
                                for s in range(right):
                                    u, v = (
                                        r + a * down,
                                        s + b * right,
                                    )  # of the window: constants, as what is asked of them
                                    if averaging:
                                        if u < rows and v < columns:
                                            total[(r * right + s) * width + k] += line[k]
                                    elif within:
                                        mine = (
                                            u % row_step == 0
                                            and v % column_step == 0
                                            and v // column_step < columns
                                        )
                                        if (
                                            mine
                                            and note == u // row_step * columns + v // column_step
                                        ):
                                            total[(r * right + s) * width + k] += line[k]
                                    elif note == r * W + s:
                                        total[(r * right + s) * width + k] += line[k]
        for r in range(down):
            if h + r >= 0 and h + r < H:
                for s in range(right):
                    if w + s >= 0 and w + s < W:
                        write(
                            dx,
                            ((n * H + h + r) * W + w + s) * step + c,
                            total,
                            (r * right + s) * width,
                        )

    return pool_gather


# Planners.


def arguments_forward(p: Forward) -> list:
    """x, y, positions (x where there are none), groups of results, H, W, P, Q, channels."""
    x, y, count = memory_of(Input(0), p.x), memory_of(Output(0), p.y), p.y.size // p.width
    notes = memory_of(Output(1), p.y) if p.kind in NOTED else x
    numbers = (count, *p.x.shape[2:], *p.size, p.images[1])
    return [x, y, notes, *map(int, numbers)]


def plan_forward(p: Forward) -> Plan:
    """The plan of a thread per group of neighbouring results."""
    c = p.images[1]
    width = channels_width(gcd(p.size[1], p.x.shape[3]) if p.across else c, [p.x, p.y])
    kernel = pool_windows(p.kind, p.x.dtype, p.window, width, p.across, c == 1, is_large(p.y))
    arguments = arguments_forward(p)
    arguments[3] = count = p.y.size // width
    return Plan(p.outputs, [Launch(kernel, blocks(count, THREADS), THREADS, arguments)])


def plan_backward(p: Backward) -> Plan:
    """The plan of a thread per patch of positions that the same windows cover."""
    (n, c), (h, w), window = p.images, p.size, p.window
    patches = blocks(h + window.top, window.down), blocks(w + window.left, window.right)
    width = channels_width(c, [p.grad, p.dx])
    while width * window.down * window.right > 32 and width > 1:  # registers
        width //= 2
    count = n * patches[0] * patches[1] * (c // width)
    kernel = pool_gather(p.kind, p.dx.dtype, window, width, c == 1, is_large(p.dx))
    return gradient(p, kernel, count, *patches)


def gradient(p: Backward, kernel: Any, count: int, *patches: int) -> Plan:
    """The plan of so many threads; arguments: grad, positions (grad for means), dx, and numbers."""
    arrays = [
        memory_of(Input(0), p.grad),
        memory_of(Input(len(p.inputs) - 1), p.inputs[-1]),
        memory_of(Output(0), p.dx),
    ]
    numbers = (count, *p.size, *p.grad.shape[2:], p.images[1], *patches)
    arguments = [*arrays, *map(int, numbers)]
    return Plan([p.dx], [Launch(kernel, blocks(count, THREADS), THREADS, arguments)])
