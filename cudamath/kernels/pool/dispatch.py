"""Pooling: one thread per result, in both directions.

The idea. Forward, a thread owns one output and walks its window. Backward, a thread owns one
*input* place and walks the windows that cover it: p from ceil((h + padding - extent) / stride) to
floor((h + padding) / stride), where extent = dilation * (R - 1). Every sum then belongs to one
thread and is taken in a fixed order: no atomics, the same bits every time. For the maximum, the
forward kernel notes where it found it; backward a window contributes if its note names the thread's
own position.

The floor is bytes(x) + bytes(y), and a byte more an output for notes (argmax_encoding.py), which
are taken only for a gradient. From simple to fast:

1. `max_pool2d`, `avg_pool2d` and their gradients: one thread per result, any strides. The overlap
   of windows is served by the L1 cache; what it costs are divisions and loops of unknown length.
2. `pool_windows`, `pool_gather`: for images in C order or with their channels last; the window is a
   constant, so loops unroll and divisions by the stride become shifts. Channels last, a thread owns
   neighbouring channels: every access is 16 bytes.
3. `pool_windows` with `across`, `pool_spread`: windows that tile the image (stride = size, nothing
   left over). A thread owns neighbouring windows of a row, whose rows it reads, or backward writes,
   by wide accesses. `pool_rows` and `pool_rows_grad`: the same for windows that overlap along the
   rows of images in C order. (Those of 3 but `pool_windows`: overlapping_windows.py.) `pool_pairs`
   (max_forward_16bit.py): such windows of 16-bit floats, forward, two results at a time (9.0 on).
   `pool_bytes_grad` (max_backward_16bit.py): their gradients from notes that are bytes.
"""

import functools
from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.fast_division import reciprocal
from ..lib.integers import blocks
from ..lib.vector_io import reader, writer
from ..lib.windows import (
    MOST,
    THREADS,
    Window,
    _large,
    _memory,
    _ordered,
    _width,
    channels_last,
    covering,
    decode,
    place,
    window_size,
)
from .argmax_encoding import BYTE, MAXIMA, NOTE, NOTED, note_reader, note_writer, spot, taking


@functools.cache
def max_pool2d_kernel(dtype: np.dtype, large: bool) -> Any:
    """One thread per output."""
    load, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d(x, y, index, rows, columns, down, right, top, left, row_step, column_step):
        """x (N, C, H, W), any strides; y and index (int32) (N, C, P, Q). rows, columns: of the
        window; down, right: stride; top, left: padding; row_step, column_step: dilation."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, p, q = locate(i, y.shape[1], y.shape[2], y.shape[3])
        best, where = C(-np.inf), -1
        for r in range(rows):
            h = p * down - top + r * row_step
            if h >= 0 and h < x.shape[2]:
                for s in range(columns):
                    w = q * right - left + s * column_step
                    if w >= 0 and w < x.shape[3]:
                        value = C(load(x[n, c, h, w]))
                        if (
                            where < 0 or value > best or value != value
                        ):  # NaN wins, as in NumPy and torch
                            best, where = value, h * x.shape[3] + w
        y[n, c, p, q] = store(best)
        index[n, c, p, q] = where

    return max_pool2d


@functools.cache
def max_pool2d_grad_kernel(dtype: np.dtype, within: bool, large: bool) -> Any:
    """One thread per input position. within: notes are bytes."""
    load, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d_grad(
        grad, index, dx, rows, columns, down, right, top, left, row_step, column_step
    ):
        """grad, index (N, C, P, Q), any strides; dx (N, C, H, W); numbers as in max_pool2d."""
        i = cuda.grid(1)
        if i >= dx.size:
            return
        n, c, h, w = locate(i, dx.shape[1], dx.shape[2], dx.shape[3])
        here = h * dx.shape[3] + w
        p0, p1 = covering(h + top, (rows - 1) * row_step, down, grad.shape[2])
        q0, q1 = covering(w + left, (columns - 1) * column_step, right, grad.shape[3])
        total = C(0)
        for p in range(p0, p1):
            for q in range(q0, q1):
                note = types.int64(index[n, c, p, q])
                if within:
                    note = spot(
                        note,
                        p,
                        q,
                        dx.shape[3],
                        columns,
                        down,
                        right,
                        top,
                        left,
                        row_step,
                        column_step,
                    )
                if note == here:
                    total += load(grad[n, c, p, q])
        dx[n, c, h, w] = store(total)

    return max_pool2d_grad


@functools.cache
def max_pool2d_take_kernel(dtype: np.dtype, within: bool, large: bool) -> Any:
    """One thread per output. within: notes are bytes."""
    _, store, C = codec(dtype)
    locate = place(large)

    @cuda.jit
    def max_pool2d_take(x, index, y, rows, columns, down, right, top, left, row_step, column_step):
        """x (N, C, H, W), index (N, C, P, Q), any strides; y (N, C, P, Q): x at these positions;
        numbers as in max_pool2d."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, p, q = locate(i, y.shape[1], y.shape[2], y.shape[3])
        where = types.int64(index[n, c, p, q])
        if within:
            where = spot(
                where, p, q, x.shape[3], columns, down, right, top, left, row_step, column_step
            )
        if where < 0:
            y[n, c, p, q] = store(C(0))
        else:
            h = where // x.shape[3]
            y[n, c, p, q] = x[n, c, h, where - h * x.shape[3]]

    return max_pool2d_take


@functools.cache
def avg_pool2d_kernel(dtype: np.dtype, large: bool, kind: str) -> Any:
    """One thread per output. kind: as in pool_windows."""
    load, store, C = codec(dtype)
    locate = place(large)
    size = window_size(kind)

    @cuda.jit
    def avg_pool2d(x, y, rows, columns, down, right, top, left):
        """x (N, C, H, W), any strides; y (N, C, P, Q); numbers as in max_pool2d."""
        i = cuda.grid(1)
        if i >= y.size:
            return
        n, c, p, q = locate(i, y.shape[1], y.shape[2], y.shape[3])
        h0, w0 = p * down - top, q * right - left
        total = C(0)
        for h in range(max(h0, 0), min(h0 + rows, x.shape[2])):
            for w in range(max(w0, 0), min(w0 + columns, x.shape[3])):
                total += load(x[n, c, h, w])
        y[n, c, p, q] = store(
            C(total / C(size(h0, rows, x.shape[2], top, w0, columns, x.shape[3], left)))
        )

    return avg_pool2d


@functools.cache
def avg_pool2d_grad_kernel(dtype: np.dtype, large: bool, kind: str) -> Any:
    """One thread per input position."""
    load, store, C = codec(dtype)
    locate = place(large)
    size = window_size(kind)

    @cuda.jit
    def avg_pool2d_grad(grad, dx, rows, columns, down, right, top, left):
        """grad (N, C, P, Q), any strides; dx (N, C, H, W); numbers as in max_pool2d."""
        i = cuda.grid(1)
        if i >= dx.size:
            return
        n, c, h, w = locate(i, dx.shape[1], dx.shape[2], dx.shape[3])
        p0, p1 = covering(h + top, rows - 1, down, grad.shape[2])
        q0, q1 = covering(w + left, columns - 1, right, grad.shape[3])
        total = C(0)
        for p in range(p0, p1):
            for q in range(q0, q1):
                places = size(
                    p * down - top,
                    rows,
                    dx.shape[2],
                    top,
                    q * right - left,
                    columns,
                    dx.shape[3],
                    left,
                )
                total += C(load(grad[n, c, p, q]) / C(places))
        dx[n, c, h, w] = store(total)

    return avg_pool2d_grad


# -------------------- constant windows, known orders


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
    write_notes, noted = note_writer(kind, width, window), kind in NOTED
    size = window_size(kind)
    held = width * columns if across else width
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
        line = cuda.local.array(held, C)
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
        if noted:
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
    held = down * right * width

    @cuda.jit
    def pool_gather(grad, index, dx, count, H, W, P, Q, channels, patches_down, patches_right):
        """grad, index (grad again for means): the memory of (n, P, Q, channels); dx of (n, H, W,
        channels)."""
        t = cuda.grid(1)
        if t >= count:
            return
        n, i, j, c = locate(t, patches_down, patches_right, channels)
        step = 1 if flat else channels
        total = cuda.local.array(held, C)
        line = cuda.local.array(width, C)
        notes = cuda.local.array(width, types.int32)
        for e in range(held):
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


# -------------------- planners


def _plan(kernel: Any, outputs: list[Layout], inputs: int, *pairs: tuple[int, int]) -> Plan:
    """A thread an element of the first output; arguments: inputs, outputs, numbers."""
    arguments = [
        *map(Input, range(inputs)),
        *map(Output, range(len(outputs))),
        *[np.int64(n) for both in pairs for n in both],
    ]
    return Plan(outputs, [Launch(kernel, blocks(outputs[0].size, THREADS), THREADS, arguments)])


def _fast(
    x: Layout,
    others: Sequence[Layout],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    version: str | None,
) -> bool:
    """Whether the kernels of constant windows apply: small windows, all images in one of the two
    orders."""
    if version is not None:
        return version != "plain"
    if kernel[0] * kernel[1] > MOST or stride[0] * stride[1] > MOST // 4:
        return False
    straight = all(layout.contiguous for layout in (x, *others))
    return not SIMULATOR and (straight or all(channels_last(layout) for layout in (x, *others)))


def _forward(x: Layout, outputs: list[Layout], kind: str, window: Window) -> Plan:
    """pool_windows, pool_rows or pool_pairs, on images in a known order."""
    from . import max_forward_16bit, overlapping_windows  # which import from here

    y = outputs[0]
    (n, c, h, w), (_, _, p, q) = x.shape, y.shape
    if x.contiguous:
        n, c = n * c, 1
    across = c == 1 and window.tiles and q * window.columns <= w and window.columns <= 4
    together = 0 if c > 1 or across else overlapping_windows.fits(x, y, window)
    width = together or _width(gcd(q, w) if across else c, [x, y])
    kernel = (
        overlapping_windows.pool_rows(kind, x.dtype, window, width, _large(y))
        if together
        else pool_windows(kind, x.dtype, window, width, across, c == 1, _large(y))
    )
    count, notes = y.size // width, _memory(Output(1), y) if kind in NOTED else _memory(Input(0), x)
    arguments = [
        _memory(Input(0), x),
        _memory(Output(0), y),
        notes,
        *(int(v) for v in (count, h, w, p, q, c)),
    ]
    per = (reciprocal(q // width, count), reciprocal(p, n * p)) if together else (0, 0)
    if (
        together
        and all(per)
        and x.size < 1 << 31
        and max_forward_16bit.fits(x, window, kind, width)
    ):
        kernel = max_forward_16bit.pool_pairs(kind, x.dtype, window)
        pairs = [
            array.view((layout.size // 2,), dtype=np.uint32)
            for array, layout in ((Input(0), x), (Output(0), y))
        ]
        arguments = [pairs[0], arguments[0], pairs[1], *arguments[2:-2], q // width, *per]
    return Plan(outputs, [Launch(kernel, blocks(count, THREADS), THREADS, arguments)])


def _backward(dx: Layout, inputs: Sequence[Layout], kind: str, window: Window) -> Plan:
    """pool_spread where windows tile the image, else pool_bytes_grad or pool_rows_grad where they
    apply, else pool_gather."""
    from . import max_backward_16bit, overlapping_windows  # which import from here

    grad = inputs[0]
    (n, c, h, w), (_, _, p, q) = dx.shape, grad.shape
    n, c = (
        (n * c, 1) if grad.contiguous else (n, c)
    )  # dx is, too, where it is one row and column, channels last
    spread = (
        c == 1
        and window.tiles
        and (h, w) == (p * window.rows, q * window.columns)
        and window.columns <= 4
    )
    together = 0 if spread or c > 1 else overlapping_windows.fits_grad(grad, dx, window, kind)
    if together and kind == "bytes" and (launch := max_backward_16bit.launch(grad, dx, window)):
        return Plan([dx], [launch])
    width = _width(q if spread else c, [grad, dx])
    arguments = [
        _memory(Input(0), grad),
        _memory(Input(len(inputs) - 1), inputs[-1]),
        _memory(Output(0), dx),
    ]
    if spread:
        row = _width(w, [grad, dx])
        width, row = (row // window.columns, row) if row % window.columns == 0 else (width, width)
        count, patches = grad.size // width, ()
        kernel = overlapping_windows.pool_spread(kind, dx.dtype, window, width, row, _large(dx))
    elif together:
        patches = (blocks(h + window.top, window.down),)
        count, kernel = (
            n * patches[0] * (q // together),
            overlapping_windows.pool_rows_grad(kind, dx.dtype, window, together, _large(dx)),
        )
    else:
        patches = (blocks(h + window.top, window.down), blocks(w + window.left, window.right))
        while width * window.down * window.right > 32 and width > 1:  # registers
            width //= 2
        count = n * patches[0] * patches[1] * (c // width)
        kernel = pool_gather(kind, dx.dtype, window, width, c == 1, _large(dx))
    return Plan(
        [dx],
        [
            Launch(
                kernel,
                blocks(count, THREADS),
                THREADS,
                [*arguments, *(int(v) for v in (count, h, w, p, q, c, *patches))],
            )
        ],
    )


def max_pool2d(
    x: Layout,
    *,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    within: bool = False,
    version: str | None = None,
    **_: Any,
) -> Plan:
    """x (N, C, H, W) -> maxima (N, C, P, Q) and their positions h * W + w, int32 (-1: none).
    within: nobody but the gradient sees these, so that they may be bytes: their places in the
    windows."""
    fast = _fast(x, (), kernel, stride, version)
    y = _ordered((*x.shape[:2], *size), x) if fast else x.like((*x.shape[:2], *size))
    index = _ordered(y.shape, y, BYTE if within and fast else NOTE)
    if fast:
        return _forward(
            x,
            [y, index],
            "bytes" if within else "notes",
            Window(*kernel, *stride, *padding, *dilation),
        )
    return _plan(
        max_pool2d_kernel(x.dtype, _large(y)), [y, index], 1, kernel, stride, padding, dilation
    )


def max_pool2d_values(
    x: Layout,
    *,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    version: str | None = None,
    **_: Any,
) -> Plan:
    """x (N, C, H, W) -> maxima (N, C, P, Q) alone."""
    if not _fast(x, (), kernel, stride, version):
        made = max_pool2d(
            x,
            size=size,
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            version="plain",
        )
        return Plan(
            made.outputs[:1],
            [
                Launch(
                    step.kernel,
                    step.grid,
                    step.block,
                    [Temp(0) if arg == Output(1) else arg for arg in step.args],
                )
                for step in made.steps
            ],
            made.outputs[1:],
        )
    y = _ordered((*x.shape[:2], *size), x)
    return _forward(x, [y], "max", Window(*kernel, *stride, *padding, *dilation))


def max_pool2d_grad(
    grad: Layout,
    index: Layout,
    *,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    version: str | None = None,
    **_: Any,
) -> Plan:
    """grad, index (N, C, P, Q) -> (N, C, H, W); size (H, W)."""
    shape, within = (*grad.shape[:2], *size), index.dtype == BYTE
    if index.aligned and _fast(grad, (index,), kernel, stride, version):
        return _backward(
            _ordered(shape, grad),
            [grad, index],
            "bytes" if within else "notes",
            Window(*kernel, *stride, *padding, *dilation),
        )
    dx = grad.like(shape)
    return _plan(
        max_pool2d_grad_kernel(grad.dtype, within, _large(dx)),
        [dx],
        2,
        kernel,
        stride,
        padding,
        dilation,
    )


def max_pool2d_take(
    x: Layout,
    index: Layout,
    *,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    **_: Any,
) -> Plan:
    """x (N, C, H, W), index (N, C, P, Q) -> x at these positions (N, C, P, Q), 0 where there is
    none."""
    y = x.like(index.shape)
    return _plan(
        max_pool2d_take_kernel(x.dtype, index.dtype == BYTE, _large(y)),
        [y],
        2,
        kernel,
        stride,
        padding,
        dilation,
    )


def avg_pool2d(
    x: Layout,
    *,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    count_include_pad: bool,
    divisor: int = 0,
    version: str | None = None,
    **_: Any,
) -> Plan:
    """x (N, C, H, W) -> means (N, C, P, Q); divisor: what is divided by, 0 for the number of
    positions."""
    shape, kind = (*x.shape[:2], *size), _mean(count_include_pad, divisor)
    if _fast(x, (), kernel, stride, version):
        return _forward(x, [_ordered(shape, x)], kind, Window(*kernel, *stride, *padding))
    y = x.like(shape)
    return _plan(avg_pool2d_kernel(x.dtype, _large(y), kind), [y], 1, kernel, stride, padding)


def _mean(count_include_pad: bool, divisor: int) -> str:
    return f"sum / {divisor}" if divisor else "padded mean" if count_include_pad else "mean"


def avg_pool2d_grad(
    grad: Layout,
    *,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    count_include_pad: bool,
    divisor: int = 0,
    version: str | None = None,
    **_: Any,
) -> Plan:
    """grad (N, C, P, Q) -> (N, C, H, W); size (H, W)."""
    shape, kind = (*grad.shape[:2], *size), _mean(count_include_pad, divisor)
    if _fast(grad, (), kernel, stride, version):
        return _backward(_ordered(shape, grad), [grad], kind, Window(*kernel, *stride, *padding))
    dx = grad.like(shape)
    return _plan(
        avg_pool2d_grad_kernel(grad.dtype, _large(dx), kind), [dx], 1, kernel, stride, padding
    )
