"""Attention of a few queries to many keys: decoding with a cache of keys and values (compute capability 8.0 on).

The idea. When a model writes, each step has one query a head and as many keys as words so far. Every key and value is read
for a handful of multiply-adds: memory sets the speed, and what counts is that all of the device reads at once.

    split keys        the keys of a head are dealt out to several blocks, and to the four warps of each, so that every
                      multiprocessor has work even for one sequence; parts are merged by their (maximum, sum) as in softmax
    grouped queries   all queries that share keys are the rows of one product: up to 16 for the price of one
    mma.sync          tensor cores multiply 16 x 16 by 16 x 8, though few rows are used: ordinary arithmetic would need 16
                      instructions for each 16 bytes that arrive, and be slower than memory from four rows on
    no shared memory  on the way in. A product does not care in which order it sums: lanes read 16 bytes where they lie and
                      take them for the fragment of a *permuted* depth; the queries are permuted alike. Values are read
                      row by row, and pairs of rows interleaved by byte permutations into fragments whose columns are
                      permuted: the results are, too, and go back to their places when they are stored

    attention_decode         y and lse, or with several splits their parts (unnormalised sums, maximum and sum)
    attention_decode_merge   y and lse from the parts, in a fixed order

The floor: keys and values read once, 4 Sk D bytes a head that has some. On one H200, 32 heads of which 4 share 4,096 keys of
128 numbers, 64 sequences: 3.8 TB/s, torch 4.5. What is missing: a warp waits for its keys and values in every step, and then
asks for none while it multiplies.

Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple


from .attention_wgmma import HIDDEN, LN2, base_of, bounds
from .lazy import cuda, types
from .ptx_mma import (
    any_lane,
    divide_unsigned,
    exp2,
    global_address,
    load_global_4,
    log2,
    maximum,
    mma,
    pack_bf16,
    pack_f16,
    shuffle_xor_float,
    store_global_half,
)
from .rows import device

i32, i64, f32 = types.int32, types.int64, types.float32

ROWS = 16  # queries that share keys
WARPS = 4
THREADS = 32 * WARPS
STEP = 16  # keys a warp takes at a time
LEAST = 4 * WARPS * STEP  # keys worth a block of their own
MERGE_THREADS = 128


class Kind(NamedTuple):
    """Compile-time choices. kind: "bf16" or "f16"; depth: 64 or 128, of which D may use less; causal; lengths: they are
    given; split: parts are stored instead of results."""

    kind: str
    depth: int
    causal: bool
    lengths: bool
    split: bool


@device
def low_halves(a, b):
    """The low 16 bits of a and of b, a's below."""
    return i32((a & i32(0xFFFF)) | i32(b << 16))


@device
def high_halves(a, b):
    """The high 16 bits of a and of b, a's below."""
    return i32((i32(a >> 16) & i32(0xFFFF)) | (b & i32(-65536)))


@device
def four(fragment, at, address, there):
    """fragment[at : at + 4] = the 16 bytes at an address, or zeros."""
    x, y, z, w = i32(0), i32(0), i32(0), i32(0)
    if there:
        x, y, z, w = load_global_4(address)
    fragment[at], fragment[at + 1], fragment[at + 2], fragment[at + 3] = x, y, z, w


def splits_of(heads: int, keys: int, room: int) -> int:
    """Into how many parts the keys of each head go: `room` blocks run at a time, so few rounds for the number of parts; a
    part costs about what ROWS keys do, for it is written and read again."""
    most = max(1, min(-(-keys // LEAST), room))
    return min(range(1, most + 1), key=lambda n: -(-heads * n // room) / n * (keys + ROWS * n))


@functools.cache
def attention_decode(kind: Kind) -> Any:
    """See Kind."""
    depth, causal, split = kind.depth, kind.causal, kind.split
    quarters, halves = depth // 32, depth // 64
    of_q, of_k, of_v, of_o = 8 * quarters, 8 * quarters, 16 * halves, 32 * halves
    multiply = mma(kind.kind)
    pack = pack_bf16 if kind.kind == "bf16" else pack_f16
    bounds_of = bounds(kind.lengths)
    sums_shape, pairs_shape = (ROWS, depth), (WARPS, ROWS)

    @cuda.jit(launch_bounds=(THREADS, 2), fastmath={"contract"})
    def attention_decode(q, k, v, query_lengths, key_lengths, y, lse, shares, repeats, rows, columns, most, splits, factor):
        """q (B, H, Sq, D), k, v (B, Hkv, Sk, D), rows of 16-byte units at any strides; lengths (B,) int32, or anything.
        y (B, H, Sq, D), lse (B, H, Sq), flat; with `split` instead y (splits, B H Sq, D) and lse (splits, B H Sq, 2), float32.
        shares: Hkv; repeats: H / Hkv, repeats Sq at most ROWS; rows: Sq; columns: D; most: Sk; factor: scale log2 e.
        Block n: split n % splits of head n // splits of k.
        """
        sums = cuda.shared.array(sums_shape, f32)
        tops = cuda.shared.array(pairs_shape, f32)
        totals = cuda.shared.array(pairs_shape, f32)
        thread = i32(cuda.threadIdx.x)
        warp, lane = i32(thread >> 5), i32(thread & 31)
        line, quad = i32(lane >> 2), i32(lane & 3)
        share = divide_unsigned(i32(cuda.blockIdx.x), splits)
        piece = i32(cuda.blockIdx.x - share * splits)
        batch = divide_unsigned(share, shares)
        within = i32(share - batch * shares)
        present, filled = bounds_of(query_lengths, key_lengths, batch, rows, most)
        used = i32(repeats * rows)
        fragment_q = cuda.local.array(of_q, i32)
        fragment_k = cuda.local.array(of_k, i32)
        fragment_v = cuda.local.array(of_v, i32)
        o = cuda.local.array(of_o, f32)
        s = cuda.local.array(8, f32)
        p = cuda.local.array(4, i32)
        b = cuda.local.array(2, i32)
        for n in range(of_o):
            o[n] = f32(0)
        last0, last1 = i32(filled - 1), i32(filled - 1)  # keys that the thread's two rows see
        for half in range(2):
            row = i32(line + 8 * half)
            repeat = divide_unsigned(row, rows)
            i = i32(row - repeat * rows)
            if i >= present:
                if half == 0:
                    last0 = i32(-1)
                else:
                    last1 = i32(-1)
            elif causal:
                if half == 0:
                    last0 = i32(min(last0, i + filled - present))
                else:
                    last1 = i32(min(last1, i + filled - present))
            at = (global_address(q) + i64(batch) * q.strides[0] + i64(within * repeats + repeat) * q.strides[1]
                  + i64(i) * q.strides[2])
            for n in range(quarters):
                first = i32(32 * n + 8 * quad)
                x, y0, z, w = i32(0), i32(0), i32(0), i32(0)
                if row < used and first < columns:
                    x, y0, z, w = load_global_4(at + 2 * first)
                fragment_q[8 * n + half], fragment_q[8 * n + 2 + half] = x, y0
                fragment_q[8 * n + 4 + half], fragment_q[8 * n + 6 + half] = z, w
        steps = divide_unsigned(i32(filled + STEP - 1), i32(STEP))
        each = divide_unsigned(i32(steps + splits - 1), splits)
        end = i32(min((piece + 1) * each, steps))
        at_k = global_address(k) + i64(batch) * k.strides[0] + i64(within) * k.strides[1]
        at_v = global_address(v) + i64(batch) * v.strides[0] + i64(within) * v.strides[1]
        top0, top1, total0, total1 = f32(HIDDEN), f32(HIDDEN), f32(0), f32(0)
        base0, base1 = f32(0), f32(0)
        step = i32(piece * each + warp)
        while step < end:
            key = i32(step * STEP)
            for t in range(2):
                mine = i32(key + 8 * t + line)
                for n in range(quarters):
                    first = i32(32 * n + 8 * quad)
                    four(fragment_k, 4 * (t * quarters + n), at_k + i64(mine) * k.strides[2] + 2 * first,
                         mine < filled and first < columns)
            for t in range(4):
                mine = i32(key + 2 * quad + (t & 1) + 8 * (t >> 1))
                for n in range(halves):
                    first = i32(64 * n + 8 * line)
                    four(fragment_v, 4 * (n * 4 + t), at_v + i64(mine) * v.strides[2] + 2 * first,
                         mine < filled and first < columns)
            for n in range(8):
                s[n] = f32(0)
            for t in range(2):
                for n in range(2 * quarters):
                    multiply(s, 4 * t, fragment_q, 4 * n, fragment_k, 2 * (2 * quarters * t + n))
            high0, high1 = f32(HIDDEN), f32(HIDDEN)
            for t in range(2):
                first = i32(key + 8 * t + 2 * quad)
                s[4 * t] = s[4 * t] if first <= last0 else f32(HIDDEN)
                s[4 * t + 1] = s[4 * t + 1] if first + 1 <= last0 else f32(HIDDEN)
                s[4 * t + 2] = s[4 * t + 2] if first <= last1 else f32(HIDDEN)
                s[4 * t + 3] = s[4 * t + 3] if first + 1 <= last1 else f32(HIDDEN)
                high0 = maximum(high0, maximum(s[4 * t], s[4 * t + 1]))
                high1 = maximum(high1, maximum(s[4 * t + 2], s[4 * t + 3]))
            high0 = maximum(high0, shuffle_xor_float(high0, 1))
            high1 = maximum(high1, shuffle_xor_float(high1, 1))
            high0 = maximum(high0, shuffle_xor_float(high0, 2))
            high1 = maximum(high1, shuffle_xor_float(high1, 2))
            if any_lane(i32(high0 > top0 or high1 > top1)) != 0:
                high0, high1 = maximum(high0, top0), maximum(high1, top1)
                base0, base1 = base_of(high0, factor), base_of(high1, factor)
                shrink0, shrink1 = exp2(top0 * factor - base0), exp2(top1 * factor - base1)
                top0, top1 = high0, high1
                total0 *= shrink0
                total1 *= shrink1
                for n in range(of_o // 4):
                    o[4 * n] *= shrink0
                    o[4 * n + 1] *= shrink0
                    o[4 * n + 2] *= shrink1
                    o[4 * n + 3] *= shrink1
            for t in range(2):
                s[4 * t] = exp2(s[4 * t] * factor - base0)
                s[4 * t + 1] = exp2(s[4 * t + 1] * factor - base0)
                s[4 * t + 2] = exp2(s[4 * t + 2] * factor - base1)
                s[4 * t + 3] = exp2(s[4 * t + 3] * factor - base1)
                total0 += s[4 * t] + s[4 * t + 1]
                total1 += s[4 * t + 2] + s[4 * t + 3]
                p[2 * t] = pack(s[4 * t], s[4 * t + 1])
                p[2 * t + 1] = pack(s[4 * t + 2], s[4 * t + 3])
            for n in range(halves):
                for w in range(4):
                    v0, v1 = fragment_v[16 * n + w], fragment_v[16 * n + 4 + w]
                    v8, v9 = fragment_v[16 * n + 8 + w], fragment_v[16 * n + 12 + w]
                    b[0], b[1] = low_halves(v0, v1), low_halves(v8, v9)
                    multiply(o, 4 * (8 * n + 2 * w), p, 0, b, 0)
                    b[0], b[1] = high_halves(v0, v1), high_halves(v8, v9)
                    multiply(o, 4 * (8 * n + 2 * w + 1), p, 0, b, 0)
            step = i32(step + WARPS)
        total0 += shuffle_xor_float(total0, 1)
        total1 += shuffle_xor_float(total1, 1)
        total0 += shuffle_xor_float(total0, 2)
        total1 += shuffle_xor_float(total1, 2)
        if quad == 0:
            tops[warp, line], tops[warp, line + 8] = top0, top1
            totals[warp, line], totals[warp, line + 8] = total0, total1
        cuda.syncthreads()
        high0, high1 = f32(HIDDEN), f32(HIDDEN)
        for n in range(WARPS):
            high0, high1 = maximum(high0, tops[n, line]), maximum(high1, tops[n, line + 8])
        shrink0 = exp2(top0 * factor - base_of(high0, factor))
        shrink1 = exp2(top1 * factor - base_of(high1, factor))
        for turn in range(WARPS):
            if warp == turn:
                for n in range(halves):
                    for j in range(8):
                        c = 4 * (8 * n + j)
                        column = i32(64 * n + 16 * quad + j)
                        x, y1 = o[c] * shrink0, o[c + 1] * shrink0
                        z, w = o[c + 2] * shrink1, o[c + 3] * shrink1
                        if turn > 0:
                            x += sums[line, column]
                            y1 += sums[line, column + 8]
                            z += sums[line + 8, column]
                            w += sums[line + 8, column + 8]
                        sums[line, column], sums[line, column + 8] = x, y1
                        sums[line + 8, column], sums[line + 8, column + 8] = z, w
            cuda.syncthreads()
        for n in range(thread, used * depth, THREADS):
            row = i32(n // depth)
            column = i32(n - row * depth)
            top, total = f32(HIDDEN), f32(0)
            for each_warp in range(WARPS):
                top = maximum(top, tops[each_warp, row])
            base = base_of(top, factor)
            for each_warp in range(WARPS):
                total += totals[each_warp, row] * exp2(tops[each_warp, row] * factor - base)
            to = i64(share) * used + row  # rows of heads that share keys follow each other
            if split:
                to += i64(piece) * (cuda.gridDim.x // splits) * used
                if column < columns:
                    y[to * columns + column] = sums[row, column]
                if column == 0:
                    lse[2 * to], lse[2 * to + 1] = base, total
            else:
                if column < columns:
                    value = sums[row, column] / total if total != f32(0) else f32(0)
                    store_global_half(global_address(y) + 2 * (to * columns + column), pack(value, f32(0)))
                if column == 0:
                    lse[to] = (base + log2(total)) * f32(LN2) if total != f32(0) else f32(math.inf)

    return attention_decode


@functools.cache
def attention_decode_merge(kind: str) -> Any:
    """y and lse from the parts of several splits."""
    pack = pack_bf16 if kind == "bf16" else pack_f16

    @cuda.jit
    def attention_decode_merge(parts, marks, y, lse, splits, columns):
        """parts (splits, rows, D), marks (splits, rows, 2): exponent of 2 that was subtracted, sum; y (rows, D), lse (rows,);
        all flat. A block of MERGE_THREADS threads a row."""
        row = i64(cuda.blockIdx.x)
        rows = i64(cuda.gridDim.x)
        base, total = f32(-math.inf), f32(0)
        for n in range(splits):
            if marks[2 * (n * rows + row) + 1] != f32(0):
                base = max(base, marks[2 * (n * rows + row)])
        for n in range(splits):
            if marks[2 * (n * rows + row) + 1] != f32(0):
                total += marks[2 * (n * rows + row) + 1] * exp2(marks[2 * (n * rows + row)] - base)
        column = cuda.threadIdx.x
        if column < columns:
            value = f32(0)
            for n in range(splits):
                if marks[2 * (n * rows + row) + 1] != f32(0):
                    value += parts[(n * rows + row) * columns + column] * exp2(marks[2 * (n * rows + row)] - base)
            if total != f32(0):
                value /= total
            store_global_half(global_address(y) + 2 * (row * columns + column), pack(value, f32(0)))
        if column == 0:
            lse[row] = (base + log2(total)) * f32(LN2) if total != f32(0) else f32(math.inf)

    return attention_decode_merge
