"""Maxima of windows that overlap along the rows of images, for 16-bit floats: two results at a
time, in one register.

A result of 3 x 3 windows at stride 2 has 4 new numbers of two bytes each, and is three itself with
its note; memory moves that while an H200's multiprocessor makes 75 instructions at most. One number
at a time (`pool_rows`) takes 85: to widen 9 numbers, and to compare and keep value and place of
each. Here neighbouring results share registers, and most instructions: 35, of which 5 find the
places (lib/fast_division.py; by divisions, in 64 bits, they were 20, and the kernel took 96.7 us
where now 87.6).

1. All rows under a thread's results are read before any is looked at; what lies beyond the image
   counts as -inf.
2. Two results have their numbers at the same place of their windows `right` columns apart: one byte
   permutation makes a register of them, wherever they lie. `max.NaN` of pairs gives the maxima: 3
   instructions for each place of two windows.
3. The note: places are compared with the maxima from the last to the first, so that the first one
   stays.

Only a maximum of -inf or NaN says nothing of its place (what is beyond the image counted as -inf,
and a NaN equals nothing): the thread that finds one among its results looks those windows up again,
one number at a time, after all is written.

Of zeros of both signs in a window the maximum is 0, not the first of them; they are equal, and the
note is the first one's.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.fast_division import split
from ..lib.integers import blocks
from ..lib.vector_io import fetcher, writer
from ..lib.windows import THREADS, Window
from .argmax_encoding import BYTE, first_note
from .constant_windows import arguments_forward
from .problem import HALVES_WIDTH, Forward

WIDTH = HALVES_WIDTH
WIDTH_BITS = 3
LOWEST = {np.dtype(np.float16): 0xFC00, np.dtype(bfloat16): 0xFF80}  # -inf

if not SIMULATOR:
    from ..ptx.intrinsics import instruction
    from ..ptx.vector_access import store_vector

    two = types.uint32, types.uint32
    permute = instruction(
        "permute",
        "prmt.b32 $0, $1, $2, $3;",
        types.uint32,
        (*two, types.uint32),
        "Four of the eight bytes of two words, by the hexadecimal digits of a third.",
    )
    larger = {
        dtype: instruction(
            f"larger_{name}",
            f"max.NaN.{name}x2 $0, $1, $2;",
            types.uint32,
            two,
            "The larger of the numbers of each pair; NaN wins.",
        )
        for dtype, name in ((np.dtype(np.float16), "f16"), (np.dtype(bfloat16), "bf16"))
    }
    equal = {
        dtype: instruction(
            f"equal_{name}",
            f"set.eq.u32.{name}x2 $0, $1, $2;",
            types.uint32,
            two,
            "0xFFFF for the numbers of each pair that are equal, else 0.",
        )
        for dtype, name in ((np.dtype(np.float16), "f16"), (np.dtype(bfloat16), "bf16"))
    }


@functools.cache
def picking() -> Any:
    """Device function: numbers i and j (constants) of a line of pairs that begins at `first`, as a
    pair."""

    @device_function
    def pick(line, first, i, j):
        low, high = types.uint32(0x32 if i & 1 else 0x10), types.uint32(0x7600 if j & 1 else 0x5400)
        return permute(line[first + (i >> 1)], line[first + (j >> 1)], types.uint32(low | high))

    return pick


@functools.cache
def pool_pairs(kind: str, dtype: np.dtype, window: Window) -> Any:
    """kind: "max", or "bytes" for notes as well."""
    load, _, _ = codec(dtype)
    fetch, _, words, _ = fetcher(dtype, WIDTH)
    rows, columns, down, right, top, left, _, _ = window
    body = (
        WIDTH * right
    )  # columns of an image under the results; the windows also reach `left` and `after` beyond
    after = max(columns - left - right, 0)
    ahead = left + left % 2
    row_pairs = (ahead + body + after + 1) // 2  # pairs of a row
    all_pairs = rows * row_pairs
    lowest = LOWEST[dtype] << 16 | LOWEST[dtype]
    pick, larger_of, is_equal = picking(), larger[dtype], equal[dtype]
    with_notes, write_notes, first = (
        kind == "bytes",
        writer(BYTE, WIDTH),
        first_note("bytes", window),
    )
    uint32, uint64, i32, pairs = types.uint32, types.uint64, types.int32, WIDTH // 2

    @cuda.jit
    def pool_pairs(x, x1, y, index, count, H, W, P, groups, per_group, per_line):
        """x: the memory of (n, H, W) as pairs, x1 as numbers; y and index (x1 again if no notes are
        taken) that of (n, P, Q); count: groups of WIDTH results, `groups` a line; per_group,
        per_line: see fast_division.split."""
        i = uint32(uint32(cuda.blockIdx.x) * uint32(cuda.blockDim.x) + uint32(cuda.threadIdx.x))
        if i >= uint32(count):
            return
        n, p, q = split(i, groups, P, per_group, per_line)
        h, w = i32(i32(p) * down - top), i32(q * uint32(body))
        across = uint64(uint32(W) >> uint32(WIDTH_BITS))  # accesses of a row
        to_the_right = i32(i32(W) - i32(1) - w)
        line = cuda.local.array(all_pairs, types.uint32)
        for r in range(rows):
            row = min(
                max(i32(h + r), i32(0)), i32(i32(H) - i32(1))
            )  # of the image; its numbers are not taken if it is another
            access = uint64(uint32(n * uint32(H) + uint32(row))) * across + uint64(q) * uint64(
                right
            )
            base = access << uint64(WIDTH_BITS)
            for s in range(right):
                fetch(x, access + uint64(s), line, r * row_pairs + ahead // 2 + s * words)
            for s in range(left):
                number = uint32(x1[base - uint64(min(i32(left - s), w))])
                number = number if w >= i32(left - s) else uint32(lowest & 0xFFFF)
                k = ahead - left + s
                old = line[r * row_pairs + k // 2] if k % 2 else uint32(lowest)
                line[r * row_pairs + k // 2] = (
                    (old & uint32(0xFFFF)) | number << uint32(16)
                    if k % 2
                    else ((old & uint32(0xFFFF0000)) | number)
                )
            for s in range(after):
                number = uint32(x1[base + uint64(min(i32(body + s), to_the_right))])
                number = number if i32(body + s) <= to_the_right else uint32(lowest & 0xFFFF)
                k = ahead + body + s
                if k % 2:
                    line[r * row_pairs + k // 2] = (
                        line[r * row_pairs + k // 2] & uint32(0xFFFF)
                    ) | number << uint32(16)
                else:
                    line[r * row_pairs + k // 2] = number
        for r in range(rows):
            if i32(h + r) < i32(0) or i32(h + r) >= i32(H):
                for e in range(row_pairs):
                    line[r * row_pairs + e] = uint32(lowest)
        best = cuda.local.array(pairs, types.uint32)
        where = cuda.local.array(WIDTH, types.int32)
        strange = uint32(0)
        for j in range(pairs):
            e = ahead - left + 2 * j * right
            best[j] = pick(line, 0, e, e + right)
            for k in range(1, rows * columns):
                s = e + k % columns
                best[j] = larger_of(best[j], pick(line, k // columns * row_pairs, s, s + right))
            if with_notes:
                places = uint32(0)
                for back in range(rows * columns):
                    k = rows * columns - 1 - back
                    s = e + k % columns
                    same = is_equal(best[j], pick(line, k // columns * row_pairs, s, s + right))
                    places = (same & uint32(k << 16 | k)) | (~same & places)
                where[2 * j] = types.int32(places & uint32(0xFFFF))
                where[2 * j + 1] = types.int32(places >> uint32(16))
                strange |= ~is_equal(best[j], best[j]) | is_equal(best[j], uint32(lowest))
        store_vector(y, uint64(i) * uint64(pairs), (best[0], best[1], best[2], best[3]))
        if with_notes:
            at = uint64(i) * uint64(WIDTH)
            write_notes(index, at, where, 0)
            if strange != uint32(0):
                for k in range(WIDTH):
                    part = uint32(best[0])
                    for j in range(1, pairs):
                        part = best[j] if k // 2 == j else part
                    value = load(
                        types.uint16(part >> uint32(16) if k % 2 else part & uint32(0xFFFF))
                    )
                    column = w + k * right - left
                    if value != value or value == load(types.uint16(lowest & 0xFFFF)):
                        note = first(h, column, H, W)
                        for r in range(rows):
                            for s in range(columns):
                                if 0 <= h + r < H and 0 <= column + s < W:
                                    element = load(x1[(n * H + h + r) * W + column + s])
                                    if element != element:
                                        note = types.int32(r * columns + s)
                        index[at + types.uint64(k)] = types.uint8(note)

    return pool_pairs


def plan(p: Forward) -> Plan:
    """The plan of a thread per 16 bytes of results."""
    words = np.dtype(np.uint32)
    x = Input(0).view((p.x.size // 2,), dtype=words)
    y = Output(0).view((p.y.size // 2,), dtype=words)
    single, _, notes, *numbers = arguments_forward(p)
    count = p.y.size // WIDTH
    arguments = [x, single, y, notes, *numbers[:4], p.size[1] // WIDTH, *p.reciprocals]
    kernel = pool_pairs(p.kind, p.x.dtype, p.window)
    return Plan(p.outputs, [Launch(kernel, blocks(count, THREADS), THREADS, arguments)])
