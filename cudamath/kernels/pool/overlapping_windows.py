"""Pooling by windows that overlap along the rows of images in C order: neighbouring results read
their columns together.

A thread owns `width` neighbouring results of a row, as many as 16 bytes hold. Of each image row
under them it needs

    | left columns | width x stride columns, whole accesses | what the last window still reaches |

and has them in registers: for 3 x 3 windows at stride 2, two accesses and one number per row
instead of twelve numbers. Columns beyond the image belong to no window; only the first and the last
windows of a row can reach there, so only these ask.

Backward (`pool_rows_grad`) a thread owns the same columns of as many image rows as windows move by,
and has the gradients and notes of all windows that reach there: for 3 x 3 at stride 2 ten windows
for sixteen numbers instead of four for each four.

Measured (row versions_pool):
max_pool2d of 32 x 64 x 256 x 256, 3 x 3, stride 2, float32; NVIDIA H200, commit 52457ee46004,
2026-11-23

                           GB/s     of a copy
    plain                   716          0.17
    overlapping_rows      4,352          1.03

(end of what was measured)
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import reader, writer
from ..lib.windows import THREADS, Window, channels_width, decode, is_large, window_size
from .argmax_encoding import MAXIMA, NOTED, note_reader, note_writer, taking
from .constant_windows import arguments_forward, gradient
from .problem import Backward, Forward


@functools.cache
def pool_rows(kind: str, dtype: np.dtype, window: Window, width: int, large: bool) -> Any:
    """kind: as of problem.Forward."""
    load, _, C = codec(dtype)
    locate, read, write = decode(width, True, large), reader(dtype, width), writer(dtype, width)
    rows, columns, down, right, top, left, row_step, _ = window
    body = width * right
    after = max(columns - left - right, 0)
    span = left + body + after
    averaging, within, with_notes = kind not in MAXIMA, kind == "bytes", kind in NOTED
    write_notes = note_writer(kind, width, window)
    size = window_size(kind)
    start = C(0) if averaging else C(-np.inf)
    take = taking(kind)

    @cuda.jit
    def pool_rows(x, y, index, count, H, W, P, Q, channels):
        """x: the memory of (n, H, W), y and index (x again if no notes are taken) of (n, P, Q);
        count: groups of `width` results; channels: 1."""
        i = cuda.grid(1)
        if i >= count:
            return
        n, p, q, _ = locate(i, P, Q, channels)
        best = cuda.local.array(width, C)
        where = cuda.local.array(width, types.int32)
        line = cuda.local.array(span, C)
        for k in range(width):
            best[k] = start
            where[k] = -1
        h, w = p * down - top, q * right
        for r in range(rows):
            row = h + r * row_step
            if row >= 0 and row < H:
                base = (n * H + row) * W + w
                for s in range(right):
                    read(x, base + s * width, line, left + s * width)
                for s in range(left):
                    if w + s >= left:
                        line[s] = load(x[base - left + s])
                for s in range(after):
                    if w + body + s < W:
                        line[left + body + s] = load(x[base + body + s])
                here = types.int32(row * W + w - left)
                for k in range(width):
                    for s in range(columns):
                        e = k * right + s
                        if (e >= left or w + e >= left) and (e < left + body or w + e - left < W):
                            take(best, where, k, line[e], r * columns + s if within else here + e)
        if averaging:
            for k in range(width):
                best[k] = C(
                    best[k] / C(size(h, rows, H, top, w + k * right - left, columns, W, left))
                )
        at = (n * P + p) * Q + q
        write(y, at, best, 0)
        if with_notes:
            write_notes(index, at, where, h, w - left, right, H, W)

    return pool_rows


@functools.cache
def pool_rows_grad(kind: str, dtype: np.dtype, window: Window, width: int, large: bool) -> Any:
    """The gradient of pool_rows, kind as there."""
    load, _, C = codec(dtype)
    locate, read, write = decode(width, True, large), reader(dtype, width), writer(dtype, width)
    read_notes = note_reader(kind, width)
    rows, columns, down, right, top, left, _, _ = window
    averaging, within = kind not in MAXIMA, kind == "bytes"
    size = window_size(kind)
    span, above = (
        width * right,
        (rows - 1) // down + 1,
    )  # columns of a thread, rows of windows over a band of `down` rows
    before, after = (
        (columns - 1 - left) // right,
        (right - 1 + left) // right,
    )  # windows beside its own that reach its columns
    before = max(before, 0)
    windows, elements = before + width + after, down * span

    @cuda.jit
    def pool_rows_grad(grad, index, dx, count, H, W, P, Q, channels, bands):
        """grad, index (grad again for means): the memory of (n, P, Q), dx of (n, H, W); count:
        groups of `width` windows in `bands` bands of rows an image; channels: 1."""
        i = cuda.grid(1)
        if i >= count:
            return
        n, band, q, _ = locate(i, bands, Q, channels)
        total = cuda.local.array(elements, C)
        g = cuda.local.array(windows, C)
        note = cuda.local.array(windows, types.int32)
        for e in range(elements):
            total[e] = C(0)
        h = band * down - top
        here = h * W + q * right
        for a in range(above):
            p = band - a
            if p >= 0 and p < P:
                at = (n * P + p) * Q + q
                read(grad, at, g, before)
                if not averaging:
                    read_notes(index, at, note, before)
                for e in range(windows):
                    if e < before or e >= before + width:
                        g[e] = C(0)
                        note[e] = -1
                        if q + e >= before and q + e - before < Q:
                            g[e] = load(grad[at + e - before])
                            if not averaging:
                                note[e] = index[at + e - before]
                for e in range(windows):
                    first = (e - before) * right - left  # of its columns, from the thread's first
                    if averaging:
                        places = size(
                            p * down - top, rows, H, top, q * right + first, columns, W, left
                        )
                        g[e] = C(g[e] / C(places)) if places > 0 else C(0)
                    place = types.int32(
                        note[e] - (a * down * columns if within else here)
                    )  # from the window's row of the band
                    for r in range(down):
                        for s in range(span):
                            if (
                                s >= first and s < first + columns
                            ):  # constants: does this window reach so far?
                                if averaging:
                                    mine = r + a * down < rows
                                elif within:
                                    mine = place == types.int32(r * columns + s - first)
                                else:
                                    mine = note[e] >= 0 and place == types.int32(r * W + s)
                                if mine:
                                    total[r * span + s] += g[e]
        for r in range(down):
            if h + r >= 0 and h + r < H:
                for s in range(right):
                    write(
                        dx, (n * H + h + r) * W + q * right + s * width, total, r * span + s * width
                    )

    return pool_rows_grad


@functools.cache
def pool_spread(
    kind: str, dtype: np.dtype, window: Window, width: int, together: int, large: bool
) -> Any:
    """The gradient where windows tile the image (H = P rows, W = Q columns): a thread owns `width`
    windows of a row, and writes `together` neighbours at a time. Where these are all of its row, a
    warp's accesses are one piece of memory."""
    _, _, C = codec(dtype)
    locate, read, write = decode(width, True, large), reader(dtype, width), writer(dtype, together)
    rows, columns, averaging, within = (
        window.rows,
        window.columns,
        kind not in MAXIMA,
        kind == "bytes",
    )
    read_notes = note_reader(kind, width)
    part, elements = (
        C(1.0 / (int(kind[6:]) if kind.startswith("sum / ") else rows * columns)),
        width * columns,
    )

    @cuda.jit
    def pool_spread(grad, index, dx, count, H, W, P, Q, channels):
        """grad, index (grad again for means): the memory of (n, P, Q); dx of (n, H, W); channels:
        1."""
        i = cuda.grid(1)
        if i >= count:
            return
        n, p, q, _ = locate(i, P, Q, channels)
        at = (n * P + p) * Q + q
        g = cuda.local.array(width, C)
        line = cuda.local.array(elements, C)
        note = cuda.local.array(width, types.int32)
        read(grad, at, g, 0)
        if averaging:
            for k in range(width):
                g[k] *= part
        else:
            read_notes(index, at, note, 0)
        for r in range(rows):
            first = (p * rows + r) * W + q * columns
            for k in range(width):
                for s in range(columns):
                    e = k * columns + s
                    line[e] = (
                        g[k]
                        if averaging or note[k] == (r * columns + s if within else first + e)
                        else C(0)
                    )
            for e in range(0, elements, together):
                write(dx, n * H * W + first + e, line, e)

    return pool_spread


# Planners.


def plan_forward(p: Forward) -> Plan:
    """The plan of a thread per group of neighbouring results of a row."""
    kernel = pool_rows(p.kind, p.x.dtype, p.window, p.width, is_large(p.y))
    count = p.y.size // p.width
    return Plan(p.outputs, [Launch(kernel, blocks(count, THREADS), THREADS, arguments_forward(p))])


def plan_backward(p: Backward) -> Plan:
    """The plan of a thread per group of windows of a line and band of rows."""
    bands = blocks(p.size[0] + p.window.top, p.window.down)
    count = p.images[0] * bands * (p.grad.shape[3] // p.overlapping)
    kernel = pool_rows_grad(p.kind, p.dx.dtype, p.window, p.overlapping, is_large(p.dx))
    return gradient(p, kernel, count, bands)


def plan_backward_tiling(p: Backward) -> Plan:
    """The plan of a thread per group of windows of a row, where windows tile the image."""
    columns = p.window.columns
    row = channels_width(p.size[1], [p.grad, p.dx])
    width = channels_width(p.grad.shape[3], [p.grad, p.dx])
    width, row = (row // columns, row) if row % columns == 0 else (width, width)
    kernel = pool_spread(p.kind, p.dx.dtype, p.window, width, row, is_large(p.dx))
    return gradient(p, kernel, p.grad.size // width)
