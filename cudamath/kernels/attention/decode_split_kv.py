"""Attention of a few queries to many keys: decoding with a cache of keys and values, on
compute capability 8.0 and later.

The idea. When a model generates text, each step has one query per head and as many keys as tokens
so far. Every key and value is read for a handful of multiply-adds: memory bandwidth is the limit,
so the whole device must be reading all the time.

    split keys        the keys of a head are split over several blocks, and over the four warps of
                      each, so that every multiprocessor has work even for one sequence; parts are
                      merged by their (maximum, sum) as in softmax
    grouped queries   all queries that share keys are columns of one product: up to 16 for the price
                      of 8 or 16
    mma.sync          transposed, s^T = k q^T and o^T = v^T p^T: keys fill the 16 rows of an
                      instruction, and the few queries its 8 columns. Ordinary arithmetic would need
                      16 instructions for each 16 bytes that arrive, and be slower than memory from
                      four queries on
    queues            a warp issues the loads of its keys and values several steps ahead, into a
                      queue of its own in shared memory: some 100 KiB are in flight to each
                      multiprocessor, and warps do not wait for each other. On compute capability
                      9.0 one lane loads whole boxes by TMA; on others all lanes use cp.async
    swizzled rows     boxes of 64 columns are stored as lib/tma_pipeline.py says, so that ldmatrix
                      reads eight rows of one 16-byte chunk from all banks; of keys as they are, of
                      values transposed on the way
    lazy maximum      sums are rescaled only when a score exceeds the maximum so far by more than
                      2^8: in most steps lanes exchange nothing

    attention_decode         y and lse, or with several splits their parts (unnormalised sums,
                             maximum and total)
    attention_decode_merge   y and lse from the parts, in a fixed order

The floor: keys and values read once, 4 Sk D bytes per head of keys.

Source: Dao et al., "Flash-Decoding for long-context inference", 2023.

Measured (row attention_decode_8):
decoding, bf16, 8x32x1x128 with 8x8x4096x128; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath      3,272          0.77
    torch         3,034          0.72

(end of what was measured)
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib import tma_pipeline
from ..lib.integers import blocks
from ..ptx import sm90 as ptx
from ..ptx.sm80 import (
    any_lane,
    copy_16_or_zero,
    copy_commit,
    copy_wait,
    divide_unsigned,
    exp2,
    global_address,
    load_global,
    load_global_float_4,
    load_matrix_4,
    load_matrix_4_transposed,
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
    store_shared_4,
    store_shared_float,
    transpose_tile,
)
from .forward_sm90 import GROWTH, HIDDEN, LN2, base_of, bounds
from .problem import Operands, Problem

i32, i64, f32 = types.int32, types.int64, types.float32

ROWS = 16  # queries that share keys, at most
WARPS = 4
THREADS = 32 * WARPS
STEP = 16  # keys a warp takes at a time: a multiple of 16
LEAST = 64 * WARPS  # keys worth a block of their own
MOST = 512  # parts of a head
MERGE_THREADS, MERGE_CHUNKS = 256, 64  # of a merging block; groups of four columns
TMA_BELOW = 1 << 28  # bytes of keys and values; see `queues`


class Kind(NamedTuple):
    """Compile-time choices. kind: "bf16" or "f16"; depth: 64, 128, 192 or 256, of which D may use
    less; tiles: of 8 queries that share keys, 1 or 2; causal; lengths: they are given; split: parts
    are stored instead of results; stages: of a warp's queue; tma: it is filled by TMA."""

    kind: str
    depth: int
    tiles: int
    causal: bool
    lengths: bool
    split: bool
    stages: int
    tma: bool

    @property
    def shared(self) -> int:
        """Bytes of shared memory: the queues of all warps."""
        return WARPS * self.stages * 4 * STEP * self.depth + tma_pipeline.ALIGNMENT


def queues(sm90: bool, size: int) -> tuple[bool, int, int]:
    """How `size` bytes of keys and values are loaded: whether by TMA, blocks on a multiprocessor,
    bytes of shared memory that these share.

    Measured on an H200 (4,096 keys of 8 heads of 128): TMA is fastest for few bytes (12.5 us for
    one sequence), cp.async for very many (64 sequences: 238 us, by TMA 262), and in between one
    block that has all the shared memory (16: 64 us; two blocks 70, by TMA 76).
    """
    if not sm90:
        return False, 2, 128 << 10
    return size < TMA_BELOW, 1 if TMA_BELOW <= size < 2 * TMA_BELOW else 2, 192 << 10


def stages_of(depth: int, room: int) -> int:
    """Steps that a warp asks ahead, plus the one it multiplies: what `room` bytes per block have
    place for, at least two."""
    return max(2, room // (WARPS * 4 * STEP * depth))


def splits_of(heads: int, keys: int, room: int) -> int:
    """Into how many parts the keys of each head go: `room` blocks run at a time, so few rounds for
    the number of parts; a part costs about what ROWS keys do, for it is written and read again."""
    most = max(1, min(-(-keys // LEAST), room, MOST))
    return min(range(1, most + 1), key=lambda n: -(-heads * n // room) / n * (keys + ROWS * n))


@functools.cache
def finish(kind: str) -> Any:
    """A device function that stores four columns of a row of y, and the row's lse: (y, lse, row,
    columns, column, four sums, base, total)."""
    pack = pack_bf16 if kind == "bf16" else pack_f16

    @device_function
    def finish(y, lse, row, columns, column, v0, v1, v2, v3, base, total):
        share = f32(1) / total if total != f32(0) else f32(0)
        if column < columns:
            store_global_2(
                global_address(y) + 2 * (row * columns + column),
                pack(v0 * share, v1 * share),
                pack(v2 * share, v3 * share),
            )
        if column == 0:
            store_global_float(
                global_address(lse) + 4 * row,
                (base + log2(total)) * f32(LN2) if total != f32(0) else f32(math.inf),
            )

    return finish


@functools.cache
def queue(kind: Kind) -> tuple[Any, Any]:
    """Device functions: bring(slot, barrier, k, v, batch, head, key, end, columns, lane), by which
    a warp asks for the keys and values from `key` on, of those below `end`; and take(barrier,
    phase, slot, key, end, lane), which waits for them. Rows from `end` on are zeros (of keys
    perhaps not, but their scores are hidden)."""
    panels, depth = kind.depth // 64, kind.depth
    panel, chunks = STEP * tma_pipeline.ROW, 8 * STEP
    lengths = kind.lengths
    arrived = copy_wait(kind.stages - 2)

    @device_function
    def bring_boxes(slot, barrier, k, v, batch, head, key, end, columns, lane):
        """k, v: tensor maps, for boxes of STEP rows and 64 columns. What lies beyond the arrays is
        zeros."""
        if lane == 0 and key < end:
            ptx.barrier_expect(barrier, i32(4 * STEP * depth))
            for n in range(panels):
                ptx.tma_load_4d(i32(slot + n * panel), k, i32(64 * n), key, head, batch, barrier)
            for n in range(panels):
                ptx.tma_load_4d(
                    i32(slot + (panels + n) * panel), v, i32(64 * n), key, head, batch, barrier
                )

    @device_function
    def take_boxes(barrier, phase, slot, key, end, lane):
        ptx.barrier_wait(barrier, phase)
        if (
            lengths and key + STEP > end
        ):  # what lies beyond the length may be no number, and 0 times that is none either
            for n in range(lane, panels * chunks, 32):
                if key + ((n >> 3) & (STEP - 1)) >= end:
                    store_shared_4(
                        i32(slot + panels * panel + 16 * n), i32(0), i32(0), i32(0), i32(0)
                    )
        cuda.syncwarp()

    @device_function
    def bring_chunks(slot, barrier, k, v, batch, head, key, end, columns, lane):
        """k, v: arrays. Lane by lane 16 bytes: eight lanes read 128 bytes of a row."""
        of_k = global_address(k) + i64(batch) * k.strides[0] + i64(head) * k.strides[1]
        of_v = global_address(v) + i64(batch) * v.strides[0] + i64(head) * v.strides[1]
        for n in range(STEP // 4):
            row = i32(4 * n + (lane >> 3))
            there = i64(min(key + row, end - 1))
            to = i32(slot + row * tma_pipeline.ROW + (((lane & 7) ^ (row & 7)) << 4))
            for m in range(panels):
                column = i32(64 * m + 8 * (lane & 7))
                nbytes = i32(16) if key + row < end and column < columns else i32(0)
                copy_16_or_zero(
                    i32(to + m * panel), of_k + there * k.strides[2] + 2 * column, nbytes
                )
                copy_16_or_zero(
                    i32(to + (panels + m) * panel), of_v + there * v.strides[2] + 2 * column, nbytes
                )
        copy_commit()

    @device_function
    def take_chunks(barrier, phase, slot, key, end, lane):
        arrived()
        cuda.syncwarp()

    return (bring_boxes, take_boxes) if kind.tma else (bring_chunks, take_chunks)


@functools.cache
def attention_decode(kind: Kind) -> Any:
    """See Kind."""
    depth, tiles, causal, split, stages, tma = (
        kind.depth,
        kind.tiles,
        kind.causal,
        kind.split,
        kind.stages,
        kind.tma,
    )
    panels, chunks, columns_of, rows_of = depth // 64, depth // 4, 2 * tiles, STEP // 16
    panel, stage_bytes, ahead = STEP * tma_pipeline.ROW, 4 * STEP * depth, stages - 1
    warp_bytes, line_bytes = (
        stages * stage_bytes,
        4 * (depth + 4),
    )  # four numbers apart: all banks are hit
    of_q, of_s, of_o = 2 * (depth // 16) * tiles, 4 * rows_of * tiles, 4 * (depth // 16) * tiles
    of_p, first_value = 2 * rows_of * tiles, panels * panel
    multiply, transpose = mma(kind.kind), transpose_tile
    pack = pack_bf16 if kind.kind == "bf16" else pack_f16
    bounds_of, store = bounds(kind.lengths), finish(kind.kind)
    bring, take = queue(kind)
    all_arrived = copy_wait(0)
    marks_shape, barriers = (WARPS, 8 * tiles), WARPS * stages

    @cuda.jit(launch_bounds=(THREADS, 2), fastmath={"contract"})
    def attention_decode(
        q,
        k,
        v,
        query_lengths,
        key_lengths,
        y,
        lse,
        shares,
        repeats,
        rows,
        columns,
        most,
        splits,
        factor,
    ):
        """q (B, H, Sq, D), k, v (B, Hkv, Sk, D), rows of 16-byte units at any strides; with `tma`
        maps of k and v. lengths (B,) int32, or anything. y (B, H, Sq, D), lse (B, H, Sq), flat;
        with `split` instead y (splits, B H Sq, D) and lse (splits, B H Sq, 2), float32. shares:
        Hkv; repeats: H / Hkv, repeats Sq at most 8 tiles; rows: Sq; columns: D; most: Sk; factor:
        scale log2 e. Block n: split n % splits of head n // splits of k.
        """
        shared = cuda.shared.array(0, types.uint8)
        tops = cuda.shared.array(marks_shape, f32)
        totals = cuda.shared.array(marks_shape, f32)
        full = cuda.shared.array(barriers, i64)
        thread = i32(cuda.threadIdx.x)
        warp, lane = i32(thread >> 5), i32(thread & 31)
        line, quad = i32(lane >> 2), i32(lane & 3)
        start = tma_pipeline.first_tile(shared)
        own = i32(start + warp * warp_bytes)
        bars = i32(shared_address(full) + 8 * stages * warp)
        if split and tma:
            ptx.let_next_begin()
        if tma:
            if lane == 0:
                for n in range(stages):
                    ptx.barrier_init(i32(bars + 8 * n), 1)
                ptx.fence_barrier_init()
                ptx.fence_async_shared()
            cuda.syncwarp()
        share = divide_unsigned(i32(cuda.blockIdx.x), splits)
        piece = i32(cuda.blockIdx.x - share * splits)
        batch = divide_unsigned(share, shares)
        within = i32(share - batch * shares)
        present, filled = bounds_of(query_lengths, key_lengths, batch, rows, most)
        used = i32(repeats * rows)
        steps = divide_unsigned(i32(filled + STEP - 1), i32(STEP))
        each = divide_unsigned(i32(steps + splits - 1), splits)
        end = i32(min(i32((piece + 1) * each) * STEP, filled))  # of the block's keys
        key = i32((piece * each + warp) * STEP)
        for n in range(ahead):
            bring(
                i32(own + n * stage_bytes),
                i32(bars + 8 * n),
                k,
                v,
                batch,
                within,
                i32(key + n * (WARPS * STEP)),
                end,
                columns,
                lane,
            )
        fragment_q = cuda.local.array(of_q, i32)
        a = cuda.local.array(4, i32)
        o = cuda.local.array(of_o, f32)
        s = cuda.local.array(of_s, f32)
        p = cuda.local.array(of_p, i32)
        top = cuda.local.array(columns_of, f32)
        base = cuda.local.array(columns_of, f32)
        total = cuda.local.array(columns_of, f32)
        high = cuda.local.array(columns_of, f32)
        last = cuda.local.array(
            columns_of, i32
        )  # key that each of the thread's queries sees, seen from its first one
        for n in range(of_o):
            o[n] = f32(0)
        for n in range(columns_of):
            top[n], base[n], total[n] = f32(HIDDEN), f32(0), f32(0)
            row = i32(8 * (n >> 1) + 2 * quad + (n & 1))
            i = i32(row - divide_unsigned(row, rows) * rows)
            last[n] = i32(filled - 1 - line)
            if i >= present:
                last[n] = i32(-1 - line)
            elif causal:
                last[n] = i32(min(filled - 1, i + filled - present) - line)
        whole = filled  # keys below are seen by all
        if causal:
            whole = i32(min(filled, filled - present + 1))
        if present < rows:
            whole = i32(0)
        for t in range(tiles):  # of queries
            row = i32(8 * t + line)
            repeat = divide_unsigned(row, rows)
            at = (
                global_address(q)
                + i64(batch) * q.strides[0]
                + i64(within * repeats + repeat) * q.strides[1]
                + i64(row - repeat * rows) * q.strides[2]
                + 4 * quad
            )
            for n in range(depth // 8):
                fragment_q[depth // 8 * t + n] = i32(0)
                if row < used and 8 * n < columns:
                    fragment_q[depth // 8 * t + n] = load_global(at + 16 * n)
        # ldmatrix: lane l names row l % 8 of 8 x 8 tile l / 8. Of keys tiles 0 and 1 are below each
        # other; so are, once they are transposed, 0 and 1 of values, whose rows are then columns
        row_k = i32(lane & 15)
        row_v = i32((lane & 7) + ((lane >> 4) << 3))
        lane_k = i32(row_k * tma_pipeline.ROW + (((lane >> 4) ^ (row_k & 7)) << 4))
        lane_v = i32(
            first_value + row_v * tma_pipeline.ROW + ((((lane >> 3) & 1) ^ (row_v & 7)) << 4)
        )
        stage, phase = i32(0), i32(0)
        while key < end:
            here = i32(own + stage * stage_bytes)
            take(
                i32(bars + 8 * stage), phase, here, key, end, lane
            )  # and all threads have multiplied
            before = i32(stage - 1) if stage > 0 else i32(ahead)  # what was multiplied last is free
            bring(
                i32(own + before * stage_bytes),
                i32(bars + 8 * before),
                k,
                v,
                batch,
                within,
                i32(key + ahead * (WARPS * STEP)),
                end,
                columns,
                lane,
            )
            for n in range(of_s):
                s[n] = f32(0)
            for n in range(depth // 16):
                for r in range(rows_of):
                    at = i32(
                        ((here + lane_k) ^ (32 * (n % 4)))
                        + (n // 4 * panel + r * (16 * tma_pipeline.ROW))
                    )
                    a[0], a[1], a[2], a[3] = load_matrix_4(at)
                    for t in range(tiles):
                        multiply(s, 4 * (tiles * r + t), a, 0, fragment_q, depth // 8 * t + 2 * n)
            if key + STEP > whole:
                for r in range(rows_of):
                    for n in range(columns_of):
                        m = 4 * (tiles * r + (n >> 1)) + (n & 1)
                        s[m] = s[m] if key + 16 * r <= last[n] else f32(HIDDEN)
                        s[m + 2] = s[m + 2] if key + 16 * r + 8 <= last[n] else f32(HIDDEN)
            growth = f32(0)
            for n in range(columns_of):
                high[n] = f32(HIDDEN)
                for r in range(rows_of):
                    m = 4 * (tiles * r + (n >> 1)) + (n & 1)
                    high[n] = maximum(high[n], maximum(s[m], s[m + 2]))
                growth = maximum(growth, high[n] - top[n])
            if any_lane(i32(growth * factor > f32(GROWTH))) != 0:
                for n in range(columns_of):
                    for m in range(3):
                        high[n] = maximum(high[n], shuffle_xor_float(high[n], i32(4 << m)))
                    high[n] = maximum(high[n], top[n])
                    base[n] = base_of(high[n], factor)
                    high[n], top[n] = exp2(top[n] * factor - base[n]), high[n]
                    total[n] *= high[n]
                for n in range(of_o // 4):
                    t = n // (depth // 16)
                    o[4 * n] *= high[2 * t]
                    o[4 * n + 1] *= high[2 * t + 1]
                    o[4 * n + 2] *= high[2 * t]
                    o[4 * n + 3] *= high[2 * t + 1]
            for r in range(rows_of):
                for t in range(tiles):
                    m = 4 * (tiles * r + t)
                    for e in range(4):
                        s[m + e] = exp2(s[m + e] * factor - base[2 * t + (e & 1)])
                    total[2 * t] += s[m] + s[m + 2]
                    total[2 * t + 1] += s[m + 1] + s[m + 3]
                    p[2 * (tiles * r + t)] = transpose(pack(s[m], s[m + 1]))
                    p[2 * (tiles * r + t) + 1] = transpose(pack(s[m + 2], s[m + 3]))
            for n in range(depth // 16):
                for r in range(rows_of):
                    at = i32(
                        ((here + lane_v) ^ (32 * (n % 4)))
                        + (n // 4 * panel + r * (16 * tma_pipeline.ROW))
                    )
                    a[0], a[1], a[2], a[3] = load_matrix_4_transposed(at)
                    for t in range(tiles):
                        multiply(o, 4 * (depth // 16 * t + n), a, 0, p, 2 * (tiles * r + t))
            stage, phase = tma_pipeline.advance(stage, phase, stages)
            key = i32(key + WARPS * STEP)
        if not tma:
            all_arrived()
        cuda.syncwarp()
        for n in range(columns_of):
            for m in range(3):
                total[n] += shuffle_xor_float(total[n], i32(4 << m))
            row = i32(8 * (n >> 1) + 2 * quad + (n & 1))
            if line == 0:
                tops[warp, row], totals[warp, row] = top[n], total[n]
            # The warp's sums, transposed, to where its queue was.
            at = i32(own + row * line_bytes + 4 * line)
            for m in range(depth // 16):
                c = 4 * (depth // 16 * (n >> 1) + m) + (n & 1)
                store_shared_float(i32(at + 64 * m), o[c])
                store_shared_float(i32(at + 64 * m + 32), o[c + 2])
        cuda.syncthreads()
        for n in range(thread, used * chunks, THREADS):
            row = i32(n // chunks)
            chunk = i32(n - row * chunks)
            peak = f32(HIDDEN)
            for each_warp in range(WARPS):
                peak = maximum(peak, tops[each_warp, row])
            common, everything = base_of(peak, factor), f32(0)
            v0, v1, v2, v3 = f32(0), f32(0), f32(0), f32(0)
            for each_warp in range(WARPS):
                shrink = exp2(tops[each_warp, row] * factor - common)
                everything += totals[each_warp, row] * shrink
                x0, x1, x2, x3 = load_shared_float_4(
                    i32(start + each_warp * warp_bytes + row * line_bytes + 16 * chunk)
                )
                v0 += x0 * shrink
                v1 += x1 * shrink
                v2 += x2 * shrink
                v3 += x3 * shrink
            to = i64(share) * used + row  # rows of heads that share keys follow each other
            common = common if everything != f32(0) else f32(HIDDEN)
            if split:
                to += i64(piece) * (cuda.gridDim.x // splits) * used
                if 4 * chunk < columns:
                    store_global_float_4(
                        global_address(y) + 4 * (to * columns + 4 * chunk), v0, v1, v2, v3
                    )
                if chunk == 0:
                    store_global_float_2(global_address(lse) + 8 * to, common, everything)
            else:
                store(y, lse, to, columns, 4 * chunk, v0, v1, v2, v3, common, everything)

    return attention_decode


@functools.cache
def attention_decode_merge(kind: str, early: bool) -> Any:
    """y and lse from the parts of several splits. early: launched before the parts are there."""
    store = finish(kind)
    lines = MERGE_THREADS // MERGE_CHUNKS
    shape = (lines, MERGE_CHUNKS, 4)

    @cuda.jit
    def attention_decode_merge(parts, marks, y, lse, splits, columns):
        """parts (splits, rows, D), marks (splits, rows, 2): exponent of 2 that was subtracted, sum;
        y (rows, D), lse (rows,); all flat. A block of MERGE_THREADS threads a row: a thread sums
        four columns of every `lines`-th part."""
        if early:
            ptx.wait_for_previous()
        weights = cuda.shared.array(MOST, f32)
        sums = cuda.shared.array(shape, f32)
        row, rows = i64(cuda.blockIdx.x), i64(cuda.gridDim.x)
        thread = i32(cuda.threadIdx.x)
        lane, line, chunk = (
            i32(thread & 31),
            i32(thread // MERGE_CHUNKS),
            i32(thread % MERGE_CHUNKS),
        )
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
                x0, x1, x2, x3 = load_global_float_4(
                    at + 4 * rows * columns * min(part, splits - 1)
                )
                v0 += x0 * weight
                v1 += x1 * weight
                v2 += x2 * weight
                v3 += x3 * weight
        sums[line, chunk, 0], sums[line, chunk, 1], sums[line, chunk, 2], sums[line, chunk, 3] = (
            v0,
            v1,
            v2,
            v3,
        )
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


# -------------------- planner


def plan(p: Problem) -> Plan:
    """Plan of y and lse: parts of the keys, and where there are several, their merger."""
    q = p.q
    tma, resident, room = queues(p.capability[0] == 9, p.k.nbytes + p.v.nbytes)
    splits = splits_of(p.batch * p.shares, p.keys, resident * p.multiprocessors)
    kind = Kind(
        p.number,
        p.columns,
        blocks(p.repeats * p.rows, 8),
        p.causal and p.rows > 1,
        p.limited,
        splits > 1,
        stages_of(p.columns, room // resident),
        tma,
    )
    lines, single = p.batch * p.heads * p.rows, np.dtype(np.float32)
    operands = Operands()  # copies nothing: see dispatch.py
    both = [
        operands.map(Input(i), x, STEP) if tma else operands.array(Input(i), x)
        for i, x in ((1, p.k), (2, p.v))
    ]
    results = (Temp(0), Temp(1)) if splits > 1 else (Output(0).flat, Output(1).flat)
    numbers = (p.shares, p.repeats, p.rows, p.depth, p.keys, splits)
    arguments = [
        operands.array(Input(0), q),
        *both,
        *p.both_lengths(),
        *results,
        *map(np.int32, numbers),
        p.factors[0],
    ]
    grid = p.batch * p.shares * splits
    steps = [Launch(attention_decode(kind), grid, THREADS, arguments, kind.shared)]
    temps: list[Layout] = []
    if splits > 1:
        sizes = (splits * lines * p.depth, splits * lines * 2)
        temps = [q.like((size,), single) for size in sizes]
        parts = [Temp(0), Temp(1), Output(0).flat, Output(1).flat]
        merge = attention_decode_merge(kind.kind, tma)
        numbers_of_parts = [np.int32(splits), np.int32(p.depth)]
        steps.append(Launch(merge, lines, MERGE_THREADS, [*parts, *numbers_of_parts], early=tma))
    return Plan([q.like(), q.like(q.shape[:3], single)], steps, temps)
