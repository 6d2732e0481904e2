"""Attention of a few queries to many keys: decoding with a cache of keys and values (compute capability 8.0 on).

The idea. When a model writes, each step has one query a head and as many keys as words so far. Every key and value is read
for a handful of multiply-adds: memory sets the speed, and what counts is that all of the device reads all the time.

    split keys        the keys of a head are dealt out to several blocks, and to the four warps of each, so that every
                      multiprocessor has work even for one sequence; parts are merged by their (maximum, sum) as in softmax
    grouped queries   all queries that share keys are the rows of one product: up to 16 for the price of one
    mma.sync          tensor cores multiply 16 x 16 by 16 x 8, though few rows are used: ordinary arithmetic would need 16
                      instructions for each 16 bytes that arrive, and be slower than memory from four rows on
    queues            a thread asks for its keys and values several steps ahead, by cp.async into a queue of its own in
                      shared memory, from which it takes them as they arrive: some 100 KiB are under way to each
                      multiprocessor, and no thread ever waits for another one
    no shuffling      A product does not care in which order it sums: lanes read 16 bytes where they lie and take them for
                      the fragment of a *permuted* depth; the queries are permuted alike. Values are read row by row, and
                      pairs of rows interleaved by byte permutations into fragments whose columns are permuted: the
                      results are, too, and go back to their places when they are stored

    attention_decode         y and lse, or with several splits their parts (unnormalised sums, maximum and total)
    attention_decode_merge   y and lse from the parts, in a fixed order

The floor: keys and values read once, 4 Sk D bytes a head that has some.

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
    copy_16_or_zero,
    copy_commit,
    copy_wait,
    divide_unsigned,
    exp2,
    global_address,
    load_global_4,
    load_global_float_4,
    load_shared_4,
    load_shared_float_4,
    log2,
    maximum,
    mma,
    pack_bf16,
    pack_f16,
    shared_address,
    shuffle_xor_float,
    store_global_2,
    store_global_float,
    store_global_float_2,
    store_global_float_4,
    store_shared_float_4,
)
from .ptx_unpack import high_halves, low_halves
from .rows import device

i32, i64, f32 = types.int32, types.int64, types.float32

ROWS = 16  # queries that share keys
WARPS = 4
THREADS = 32 * WARPS
STEP = 16  # keys a warp takes at a time
LEAST = 4 * WARPS * STEP  # keys worth a block of their own
MOST = 512  # parts of a head
MERGE_THREADS, MERGE_CHUNKS = 256, 64  # of a merging block; groups of four columns
ALIGNMENT = 128


class Kind(NamedTuple):
    """Compile-time choices. kind: "bf16" or "f16"; depth: 64, 128, 192 or 256, of which D may use less; causal; lengths: they
    are given; split: parts are stored instead of results; stages: of a thread's queue."""

    kind: str
    depth: int
    causal: bool
    lengths: bool
    split: bool
    stages: int

    @property
    def shared(self) -> int:
        """Bytes of shared memory: the queues of all threads."""
        return WARPS * self.stages * 4 * STEP * self.depth + ALIGNMENT


def stages_of(depth: int, room: int) -> int:
    """Steps that a thread asks ahead, plus the one it multiplies: what `room` bytes a block have place for, at least two."""
    return max(2, room // (WARPS * 4 * STEP * depth))


def splits_of(heads: int, keys: int, room: int) -> int:
    """Into how many parts the keys of each head go: `room` blocks run at a time, so few rounds for the number of parts; a
    part costs about what ROWS keys do, for it is written and read again."""
    most = max(1, min(-(-keys // LEAST), room, MOST))
    return min(range(1, most + 1), key=lambda n: -(-heads * n // room) / n * (keys + ROWS * n))


@functools.cache
def finish(kind: str) -> Any:
    """A device function that stores four columns of a row of y, and the row's lse: (y, lse, row, columns, column, four sums,
    base, total)."""
    pack = pack_bf16 if kind == "bf16" else pack_f16

    @device
    def finish(y, lse, row, columns, column, v0, v1, v2, v3, base, total):
        share = f32(1) / total if total != f32(0) else f32(0)
        if column < columns:
            store_global_2(global_address(y) + 2 * (row * columns + column), pack(v0 * share, v1 * share),
                           pack(v2 * share, v3 * share))
        if column == 0:
            store_global_float(global_address(lse) + 4 * row,
                               (base + log2(total)) * f32(LN2) if total != f32(0) else f32(math.inf))

    return finish


@functools.cache
def attention_decode(kind: Kind) -> Any:
    """See Kind."""
    depth, causal, split, stages = kind.depth, kind.causal, kind.split, kind.stages
    quarters, halves, chunks = depth // 32, depth // 64, depth // 4
    of_q, of_o = 8 * quarters, 32 * halves
    stage_bytes = 4 * STEP * depth  # of a warp: 16 keys and 16 values, or its part of the results
    warp_bytes, last_stage, ahead = stages * stage_bytes, (stages - 1) * stage_bytes, stages - 1
    unit = 16 * 32  # bytes that a warp reads with one instruction
    first_value = 2 * quarters * unit
    multiply = mma(kind.kind)
    pack = pack_bf16 if kind.kind == "bf16" else pack_f16
    bounds_of, store = bounds(kind.lengths), finish(kind.kind)
    arrived, all_arrived = copy_wait(stages - 2), copy_wait(0)
    marks_shape = (WARPS, ROWS)

    @device
    def bring(slot, at_k, at_v, stride_k, stride_v, key, limit, columns, line, quad):
        """Ask for 16 keys and values from `key` on, of those below `limit`; zeros for the others and beyond the columns."""
        for t in range(2):
            mine = i32(key + 8 * t + line)
            row = at_k + i64(min(mine, limit - 1)) * stride_k
            for n in range(quarters):
                first = i32(32 * n + 8 * quad)
                copy_16_or_zero(i32(slot + (t * quarters + n) * unit), row + 2 * first,
                                i32(16) if mine < limit and first < columns else i32(0))
        for t in range(4):
            mine = i32(key + 2 * quad + (t & 1) + 8 * (t >> 1))
            row = at_v + i64(min(mine, limit - 1)) * stride_v
            for n in range(halves):
                first = i32(64 * n + 8 * line)
                copy_16_or_zero(i32(slot + first_value + (4 * n + t) * unit), row + 2 * first,
                                i32(16) if mine < limit and first < columns else i32(0))
        copy_commit()

    @device
    def two(o, i, p, b, v0, v1, v8, v9):
        """o[i : i + 8] += weights x two columns of values, packed in pairs: of keys 2 quad, 2 quad + 1, + 8 and + 9."""
        b[0], b[1] = low_halves(v0, v1), low_halves(v8, v9)
        multiply(o, i, p, 0, b, 0)
        b[0], b[1] = high_halves(v0, v1), high_halves(v8, v9)
        multiply(o, i + 4, p, 0, b, 0)

    @cuda.jit(launch_bounds=(THREADS, 2), fastmath={"contract"})
    def attention_decode(q, k, v, query_lengths, key_lengths, y, lse, shares, repeats, rows, columns, most, splits, factor):
        """q (B, H, Sq, D), k, v (B, Hkv, Sk, D), rows of 16-byte units at any strides; lengths (B,) int32, or anything.
        y (B, H, Sq, D), lse (B, H, Sq), flat; with `split` instead y (splits, B H Sq, D) and lse (splits, B H Sq, 2), float32.
        shares: Hkv; repeats: H / Hkv, repeats Sq at most ROWS; rows: Sq; columns: D; most: Sk; factor: scale log2 e.
        Block n: split n % splits of head n // splits of k.
        """
        shared = cuda.shared.array(0, types.uint8)
        tops = cuda.shared.array(marks_shape, f32)
        totals = cuda.shared.array(marks_shape, f32)
        thread = i32(cuda.threadIdx.x)
        warp, lane = i32(thread >> 5), i32(thread & 31)
        line, quad = i32(lane >> 2), i32(lane & 3)
        start = i32((shared_address(shared) + (ALIGNMENT - 1)) & -ALIGNMENT)
        own = i32(start + warp * warp_bytes)
        queue = i32(own + 16 * lane)
        share = divide_unsigned(i32(cuda.blockIdx.x), splits)
        piece = i32(cuda.blockIdx.x - share * splits)
        batch = divide_unsigned(share, shares)
        within = i32(share - batch * shares)
        present, filled = bounds_of(query_lengths, key_lengths, batch, rows, most)
        used = i32(repeats * rows)
        steps = divide_unsigned(i32(filled + STEP - 1), i32(STEP))
        each = divide_unsigned(i32(steps + splits - 1), splits)
        end = i32(min((piece + 1) * each, steps))
        limit = i32(min(end * STEP, filled))
        at_k = global_address(k) + i64(batch) * k.strides[0] + i64(within) * k.strides[1]
        at_v = global_address(v) + i64(batch) * v.strides[0] + i64(within) * v.strides[1]
        step = i32(piece * each + warp)
        for n in range(ahead):
            bring(i32(queue + n * stage_bytes), at_k, at_v, k.strides[2], v.strides[2], i32((step + n * WARPS) * STEP), limit,
                  columns, line, quad)
        fragment_q = cuda.local.array(of_q, i32)
        a = cuda.local.array(8, i32)
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
                v0, v1, v2, v3 = i32(0), i32(0), i32(0), i32(0)
                if row < used and first < columns:
                    v0, v1, v2, v3 = load_global_4(at + 2 * first)
                fragment_q[8 * n + half], fragment_q[8 * n + 2 + half] = v0, v1
                fragment_q[8 * n + 4 + half], fragment_q[8 * n + 6 + half] = v2, v3
        top0, top1, total0, total1 = f32(HIDDEN), f32(HIDDEN), f32(0), f32(0)
        base0, base1 = f32(0), f32(0)
        slot = i32(0)
        while step < end:
            key = i32(step * STEP)
            arrived()
            cuda.syncwarp()  # everybody has multiplied
            before = i32(slot - stage_bytes) if slot > 0 else i32(last_stage)  # what was multiplied last is free
            bring(i32(queue + before), at_k, at_v, k.strides[2], v.strides[2], i32(key + ahead * WARPS * STEP), limit, columns,
                  line, quad)
            here = i32(queue + slot)
            for n in range(8):
                s[n] = f32(0)
            for n in range(quarters):  # the two tiles of 8 keys in turn: neither waits for itself
                for t in range(2):
                    a[4 * t], a[4 * t + 1], a[4 * t + 2], a[4 * t + 3] = load_shared_4(i32(here + (t * quarters + n) * unit))
                for part in range(2):
                    for t in range(2):
                        multiply(s, 4 * t, fragment_q, 8 * n + 4 * part, a, 4 * t + 2 * part)
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
                at = i32(here + first_value + 4 * n * unit)
                x0, x1, x2, x3 = load_shared_4(at)  # keys 2 quad, 2 quad + 1, 2 quad + 8, 2 quad + 9
                y0, y1, y2, y3 = load_shared_4(i32(at + unit))
                z0, z1, z2, z3 = load_shared_4(i32(at + 2 * unit))
                w0, w1, w2, w3 = load_shared_4(i32(at + 3 * unit))
                two(o, 32 * n, p, b, x0, y0, z0, w0)
                two(o, 32 * n + 8, p, b, x1, y1, z1, w1)
                two(o, 32 * n + 16, p, b, x2, y2, z2, w2)
                two(o, 32 * n + 24, p, b, x3, y3, z3, w3)
            slot = i32(slot + stage_bytes) if slot < last_stage else i32(0)
            step = i32(step + WARPS)
        all_arrived()
        cuda.syncwarp()
        total0 += shuffle_xor_float(total0, 1)
        total1 += shuffle_xor_float(total1, 1)
        total0 += shuffle_xor_float(total0, 2)
        total1 += shuffle_xor_float(total1, 2)
        if quad == 0:
            tops[warp, line], tops[warp, line + 8] = top0, top1
            totals[warp, line], totals[warp, line + 8] = total0, total1
        # The warp's sums to where its queue was: rows of 16-byte chunks, permuted so that 8 lanes hit all banks.
        turn = i32((quad >> 1) + 2 * (line & 1))
        for half in range(2):
            row = i32(line + 8 * half)
            if row < used:
                for n in range(halves):
                    for e in range(2):
                        for c in range(2):
                            m = 4 * (8 * n + 4 * c) + 2 * half + e
                            chunk = i32((16 * n + 4 * quad + 2 * e + c) ^ turn)
                            store_shared_float_4(i32(own + 16 * (row * chunks + chunk)), o[m], o[m + 4], o[m + 8], o[m + 12])
        cuda.syncthreads()
        for n in range(thread, used * chunks, THREADS):
            row = i32(n // chunks)
            chunk = i32(n - row * chunks)
            top = f32(HIDDEN)
            for each_warp in range(WARPS):
                top = maximum(top, tops[each_warp, row])
            base, total = base_of(top, factor), f32(0)
            v0, v1, v2, v3 = f32(0), f32(0), f32(0), f32(0)
            turn = i32(((chunk >> 3) & 1) + 2 * (row & 1))
            for each_warp in range(WARPS):
                shrink = exp2(tops[each_warp, row] * factor - base)
                total += totals[each_warp, row] * shrink
                x0, x1, x2, x3 = load_shared_float_4(i32(start + each_warp * warp_bytes + 16 * (row * chunks + (chunk ^ turn))))
                v0 += x0 * shrink
                v1 += x1 * shrink
                v2 += x2 * shrink
                v3 += x3 * shrink
            to = i64(share) * used + row  # rows of heads that share keys follow each other
            base = base if total != f32(0) else f32(HIDDEN)
            if split:
                to += i64(piece) * (cuda.gridDim.x // splits) * used
                if 4 * chunk < columns:
                    store_global_float_4(global_address(y) + 4 * (to * columns + 4 * chunk), v0, v1, v2, v3)
                if chunk == 0:
                    store_global_float_2(global_address(lse) + 8 * to, base, total)
            else:
                store(y, lse, to, columns, 4 * chunk, v0, v1, v2, v3, base, total)

    return attention_decode


@functools.cache
def attention_decode_merge(kind: str) -> Any:
    """y and lse from the parts of several splits."""
    store = finish(kind)
    lines = MERGE_THREADS // MERGE_CHUNKS
    shape = (lines, MERGE_CHUNKS, 4)

    @cuda.jit
    def attention_decode_merge(parts, marks, y, lse, splits, columns):
        """parts (splits, rows, D), marks (splits, rows, 2): exponent of 2 that was subtracted, sum; y (rows, D), lse (rows,);
        all flat. A block of MERGE_THREADS threads a row: a thread sums four columns of every `lines`-th part."""
        weights = cuda.shared.array(MOST, f32)
        sums = cuda.shared.array(shape, f32)
        row, rows = i64(cuda.blockIdx.x), i64(cuda.gridDim.x)
        thread = i32(cuda.threadIdx.x)
        lane, line, chunk = i32(thread & 31), i32(thread // MERGE_CHUNKS), i32(thread % MERGE_CHUNKS)
        base, total = f32(HIDDEN), f32(0)
        for n in range(lane, splits, 32):  # every warp for itself
            base = maximum(base, marks[2 * (n * rows + row)])
        for n in range(5):
            base = maximum(base, shuffle_xor_float(base, i32(16 >> n)))
        for n in range(lane, splits, 32):
            weight = exp2(marks[2 * (n * rows + row)] - base)
            total += weight * marks[2 * (n * rows + row) + 1]
            if thread < 32:
                weights[n] = weight
        for n in range(5):
            total += shuffle_xor_float(total, i32(16 >> n))
        cuda.syncthreads()
        there = 4 * chunk < columns
        at = global_address(parts) + 4 * (row * columns + (4 * chunk if there else 0))
        v0, v1, v2, v3 = f32(0), f32(0), f32(0), f32(0)
        for n in range(line, splits, 4 * lines):
            for m in range(4):  # four loads at a time
                part = i32(n + m * lines)
                weight = weights[part] if part < splits else f32(0)
                x0, x1, x2, x3 = load_global_float_4(at + 4 * rows * columns * min(part, splits - 1))
                v0 += x0 * weight
                v1 += x1 * weight
                v2 += x2 * weight
                v3 += x3 * weight
        sums[line, chunk, 0], sums[line, chunk, 1], sums[line, chunk, 2], sums[line, chunk, 3] = v0, v1, v2, v3
        cuda.syncthreads()
        if line == 0:
            for n in range(1, lines):
                v0 += sums[n, chunk, 0]
                v1 += sums[n, chunk, 1]
                v2 += sums[n, chunk, 2]
                v3 += sums[n, chunk, 3]
            if there:
                store(y, lse, row, columns, i32(4 * chunk), v0, v1, v2, v3, base, total)

    return attention_decode_merge
