"""Gradient of maxima of overlapping windows of 16-bit floats, from notes that are bytes: read at
once, compared in words.

For 3 x 3 windows at stride 2, memory leaves an H200's multiprocessor 14 instructions a number, and
no time to wait for it twice. `pool_rows_grad` (overlapping_windows.py) takes 17 and waits for each
row of windows. Here

1. a thread owns the columns of `width` windows in as many rows as windows move by, as there, but no
   more than 16 bytes of a row where it can: so what neighbours write is one piece of memory;
2. all rows of windows are read before any is looked at, and those beyond the image too, as the next
   row inside: their notes then become 255, no place of a window;
3. gradients and notes stay in words, as they lie in memory: a note is compared where it stands,
   with a place shifted there;
4. places in memory are 32-bit numbers of accesses, from three products (lib/fast_division.py).

That is 12 instructions a number, 5 of them a comparison and an addition for each place of each
window. Gradients of 32 x 64 x 256 x 256, 3 x 3 at stride 2, bfloat16, on an H200: 93.1 us where
pool_rows_grad takes 105.6; by eight windows 93.7, by two bands of four 92.9. In float32 it is
slower, 240 us where 175.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.fast_division import reciprocal, split
from ..lib.integers import blocks
from ..lib.vector_io import fetcher, writer
from ..lib.windows import THREADS, Window
from .problem import Backward

WORD = 4  # notes of a word
MOST, DEEP = 9, 3  # places of a window, rows of them that reach a band: the compiler unrolls that
HELD = 32  # numbers of a thread
u32, i32, u64 = types.uint32, types.int32, types.uint64


@functools.cache
def pool_bytes_grad(dtype: np.dtype, window: Window, width: int) -> Any:
    """A thread per `width` windows of a line and band of rows."""
    load, _, C = codec(dtype)
    fetch, widen, words, _ = fetcher(dtype, width)
    fetch_notes, _, note_words, _ = fetcher(np.dtype(np.uint32), width // WORD)
    rows, columns, down, right, top, left, _, _ = window
    span = width * right  # columns of what a thread owns of the image
    together = 16 // dtype.itemsize if span * dtype.itemsize % 16 == 0 else width
    write = writer(dtype, together)
    above = (rows - 1) // down  # rows of windows above a band's own that reach it
    before, after = (
        max((columns - 1 - left) // right, 0),
        (right - 1 + left) // right,
    )  # windows beside its own that do
    windows, sides, deep = before + width + after, before + after, above + 1
    elements, all_words, all_notes, all_sides = (
        down * span,
        deep * words,
        deep * note_words,
        max(deep * sides, 1),
    )

    @cuda.jit
    def pool_bytes_grad(
        grad, grad1, index, index1, dx, count, H, W, P, groups, bands, per_group, per_band
    ):
        """grad, index: the memory of (n, P, Q) as words, grad1, index1 as numbers; dx: that of (n,
        H, W); count: groups of `width` windows, `groups` a line, in `bands` bands an image;
        per_group, per_band: see fast_division.split."""
        i = u32(u32(cuda.blockIdx.x) * u32(cuda.blockDim.x) + u32(cuda.threadIdx.x))
        if i >= u32(count):
            return
        n, line, q = split(i, groups, bands, per_group, per_band)
        band, first = i32(line), i32(i32(q) * width)
        raw = cuda.local.array(all_words, grad.dtype)
        notes = cuda.local.array(all_notes, u32)
        beside = cuda.local.array(all_sides, grad1.dtype)
        noted_beside = cuda.local.array(all_sides, types.uint8)
        for d in range(deep):
            row = min(max(i32(band - above + d), i32(0)), i32(i32(P) - i32(1)))
            at = u32(u32(n * u32(P) + u32(row)) * u32(groups) + q)
            fetch(grad, at, raw, d * words)
            fetch_notes(index, at, notes, d * note_words)
            for k in range(sides):
                e = k - before if k < before else k - before + width
                inside = i32(first + e) >= 0 and i32(first + e) < i32(groups * width)
                place = u64(i32(i32(i32(at) * width) + (i32(e) if inside else i32(0))))
                beside[d * sides + k] = grad1[place]
                noted_beside[d * sides + k] = index1[place]
        total = cuda.local.array(elements, C)
        g = cuda.local.array(windows, C)
        for e in range(elements):
            total[e] = C(0)
        for back in range(deep):
            d = deep - 1 - back
            p = i32(band - above + d)
            nowhere = u32(
                i32(p | i32(i32(P) - i32(1) - p)) >> i32(31)
            )  # all bits where this row of windows is none
            widen(raw, d * words, g, before)
            for k in range(note_words):
                notes[d * note_words + k] = u32(notes[d * note_words + k] | nowhere)
            for k in range(sides):
                e = k - before if k < before else k - before + width
                inside = i32(first + e) >= 0 and i32(first + e) < i32(groups * width)
                g[before + e] = load(beside[d * sides + k]) if inside else C(0)
            for e in range(windows):
                if e < before or e >= before + width:
                    shift = 0
                    note = u32(
                        u32(noted_beside[d * sides + (e if e < before else e - width)]) | nowhere
                    )
                else:
                    shift = (e - before) % WORD * 8
                    note = u32(notes[d * note_words + (e - before) // WORD] & u32(0xFF << shift))
                for r in range(rows):
                    u = (
                        d - above
                    ) * down + r  # from the thread's first row, as v from its first column
                    for s in range(columns):
                        v = (e - before) * right - left + s
                        if (
                            u >= 0
                            and u < down
                            and v >= 0
                            and v < span
                            and note == u32((r * columns + s) << shift)
                        ):
                            total[u * span + v] += g[e]
        h = i32(band * down - top)
        base = i32(i32(i32(i32(n) * i32(H)) + h) * i32(W) + i32(first * right))
        for r in range(down):
            if h + r >= 0 and h + r < H:
                for s in range(0, span, together):
                    write(dx, i32(base + i32(r * i32(W))) + s, total, r * span + s)

    return pool_bytes_grad


def width_of(grad: Layout, window: Window) -> int:
    """Windows of a line that a thread owns, or 0 where this kernel does not apply to what
    `overlapping_windows` does."""
    width = 8 if window.right == 1 else 4
    good = (
        grad.itemsize == 2
        and grad.shape[3] % width == 0
        and window.rows * window.columns <= MOST
        and (window.rows - 1) // window.down < DEEP
        and width * window.down * window.right <= HELD
    )
    return width if good else 0


def plan(p: Backward) -> Plan | None:
    """The plan of a thread per group of windows of a line and band of rows, if the kernel
    applies."""
    grad, dx, window = p.grad, p.dx, p.window
    width = width_of(grad, window)
    if not width:
        return None
    (n, c, h, w), (_, _, rows, q) = dx.shape, grad.shape
    groups, bands = q // width, blocks(h + window.top, window.down)
    count = n * c * bands * groups
    per_group, per_band = reciprocal(groups, count), reciprocal(bands, n * c * bands)
    if not per_group or not per_band or dx.size >= 1 << 31:
        return None
    _, _, words, word = fetcher(grad.dtype, width)
    pairs = Input(0).view((grad.size // width * words,), dtype=word)
    notes = Input(1).view((grad.size // WORD,), dtype=np.dtype(np.uint32))
    arrays = [pairs, Input(0).flat, notes, Input(1).flat, Output(0).flat]
    numbers = [count, h, w, rows, groups, bands, per_group, per_band]
    kernel = pool_bytes_grad(dx.dtype, window, width)
    step = Launch(kernel, blocks(count, THREADS), THREADS, [*arrays, *numbers])
    return Plan([dx], [step])
