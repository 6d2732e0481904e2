"""Gradients of attention for heads of more than 128 numbers, on the tensor cores of compute capability 9.0.

The idea is that of attention_wgmma_grad.py; read that first. With 256 columns the sums dk and dv of 128 keys would fill all
registers of a multiprocessor, so here a block owns 64 keys, and its two warpgroups share the work otherwise:

    s, dp        each warpgroup has all 64 keys and 32 of a tile's 64 queries
    dv, dk, dq   each warpgroup has all rows and 128 of the 256 columns; so p and ds, of which each knows half the queries,
                 go through shared memory, where the products read them
    dq           leaves the registers directly, 64 columns at a time: shared memory has no room for it to wait in, and is as
                 busy as the tensor cores. `red.v4` adds 16 bytes a thread in the L2 cache
    turns        the two spare warps of the producer's warpgroup wait for the turn of a tile ahead of time, and pass it on when
                 the consumers have asked for all their additions

The loop, once rotated: dk(j), half of dq(j) and s(j + 1) are under way together; then the other half of dq(j) and dp(j + 1),
during which the exponentials run; then dv(j + 1), during which ds does. The warpgroups meet twice: when p is in shared memory,
and when ds is.

The order of all sums is fixed in the same way. mean and lse are prepared, and dq is rounded, by that file's kernels.

The floor: as there; but shared memory is read for 1.3 times as long as the tensor cores need: 64 x 32 products of two tiles
in shared memory read 192 bytes a clock, of 128 that there are.

Source: Dao, "FlashAttention-2", 2023; Shah et al., "FlashAttention-3", 2024.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from . import hopper
from . import ptx_hopper as ptx
from .attention_wgmma import HIDDEN, store_rows, uniform
from .lazy import cuda, types
from .ptx import instruction
from .ptx_mma import (
    divide_unsigned,
    exp2,
    fence_gpu,
    global_address,
    load_acquire,
    load_shared_float_2,
    pack_bf16,
    pack_f16,
    shared_address,
    store_global_float_4,
    store_matrix_4,
    store_release,
)
from .rows import device

i32, i64, f32 = types.int32, types.int64, types.float32

KEYS = QUERIES = 64  # of a tile; a block owns the keys
DEPTH = 256  # columns, of which D may use less
PANELS = DEPTH // 64  # boxes of 64 columns
OWN = DEPTH // 2  # columns of dv, dk and dq that a warpgroup has
SEEN = QUERIES // 2  # queries whose s and dp it has
PART = QUERIES * OWN  # float32 numbers of dq that it has of a tile
WARPGROUPS = 2
THREADS = 128 * (WARPGROUPS + 1)
PANEL = 64 * hopper.ROW  # bytes of a box: of keys and queries
TILE = PANELS * PANEL

OFFSET_V = TILE
OFFSET_Q = OFFSET_V + TILE
OFFSET_G = OFFSET_Q + 2 * TILE
OFFSET_P = OFFSET_G + 2 * TILE
OFFSET_SLOPE = OFFSET_P + PANEL
OFFSET_LSE = OFFSET_SLOPE + PANEL
OFFSET_MEAN = OFFSET_LSE + 8 * QUERIES
OFFSET_BARRIERS = OFFSET_MEAN + 8 * QUERIES
SHARED = OFFSET_BARRIERS + 128  # bytes: keys, values, two stages of queries and gradients, p, ds, lse and mean; barriers

add_global_float_4 = instruction("add_global_float_4", "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};", None,
                                 (i64, f32, f32, f32, f32), "Add four float32 to those at a global address (9.0 on).",
                                 pure=False)


class Tile(NamedTuple):
    """Compile-time choices. kind: "bf16" or "f16"; ragged: some of the 256 columns are beyond D; causal; tail: keys may end
    within a tile."""

    kind: str
    ragged: bool
    causal: bool
    tail: bool


@functools.cache
def attention_grad_wgmma_deep(tile: Tile) -> Any:
    """dk, dv and the parts of dq. See Tile."""
    causal, tail = tile.causal, tile.tail
    scores, pieces, packed, outputs = SEEN // 2, SEEN // 8, SEEN // 4, OWN // 2
    along = tuple(2 * (i % 4) + i // 4 * (PANEL >> 4) for i in range(DEPTH // 16))
    down = tuple(128 * i for i in range(4))  # 64 rows, 16 at a time
    multiply_scores = ptx.wgmma(tile.kind, SEEN, along, along, zero=True)
    multiply_queries = ptx.wgmma(tile.kind, OWN, (0, 2, 4, 6), down, trans_b=True)
    multiply_slopes = ptx.wgmma(tile.kind, 64, down, down, zero=True, trans_a=True, trans_b=True)
    by_rows, by_columns = hopper.descriptor_base(), hopper.descriptor_base(PANEL)
    all_but_one, outputs_done = ptx.wgmma_wait(1, scores), ptx.wgmma_wait(0, outputs)
    part_but_one, part_done = ptx.wgmma_wait(1, 32), ptx.wgmma_wait(0, 32)
    more, fewer = ptx.registers_up(240), ptx.registers_down(24)
    store = store_rows(tile.kind, OWN, tile.ragged)
    pack = pack_bf16 if tile.kind == "bf16" else pack_f16

    @device
    def to_shared(at, own, p):
        """A warpgroup's half of p or ds, 64 keys x 32 queries in registers, to a tile of 64 x 64."""
        for i in range(SEEN // 16):
            store_matrix_4(i32(at ^ (64 * own + 32 * i)), p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3])
        ptx.fence_async_shared()

    @device
    def settle(s, d, p, to_v, stage, row, block, own, key, keys, shift, factor, lane, base, tile_at):
        """While dp is being multiplied: p from s; then dv += p g, ds from dp; p and ds rounded, in shared memory."""
        all_but_one(s, 0)
        if causal:
            if (block + 1) * KEYS - 1 > row * QUERIES + own * SEEN + shift:
                late = i32(key - row * QUERIES - own * SEEN - shift - 2 * (lane & 3))  # queries from here on see the key
                for i in range(pieces):
                    s[4 * i] = s[4 * i] if late <= 8 * i else f32(HIDDEN)
                    s[4 * i + 1] = s[4 * i + 1] if late <= 8 * i + 1 else f32(HIDDEN)
                    s[4 * i + 2] = s[4 * i + 2] if late <= 8 * i - 8 else f32(HIDDEN)
                    s[4 * i + 3] = s[4 * i + 3] if late <= 8 * i - 7 else f32(HIDDEN)
        at = i32(base + OFFSET_LSE + stage * (4 * QUERIES) + own * (4 * SEEN) + 8 * (lane & 3))
        for i in range(pieces):
            x, y = load_shared_float_2(i32(at + 32 * i))
            s[4 * i] = exp2(s[4 * i] * factor - x)
            s[4 * i + 1] = exp2(s[4 * i + 1] * factor - y)
            s[4 * i + 2] = exp2(s[4 * i + 2] * factor - x)
            s[4 * i + 3] = exp2(s[4 * i + 3] * factor - y)
            p[2 * i] = pack(s[4 * i], s[4 * i + 1])
            p[2 * i + 1] = pack(s[4 * i + 2], s[4 * i + 3])
        to_shared(i32(tile_at + OFFSET_P), own, p)
        ptx.named_sync(2, 256)  # both halves of p are there, and nobody reads the ds before any more
        multiply_queries(to_v, 0, hopper.descriptor(i32(base + OFFSET_P), by_rows),
                         hopper.descriptor(i32(base + OFFSET_G + stage * TILE + own * (2 * PANEL)), by_columns))
        all_but_one(d, 0)
        at = i32(base + OFFSET_MEAN + stage * (4 * QUERIES) + own * (4 * SEEN) + 8 * (lane & 3))
        for i in range(pieces):
            x, y = load_shared_float_2(i32(at + 32 * i))
            p[2 * i] = pack(s[4 * i] * (d[4 * i] - x), s[4 * i + 1] * (d[4 * i + 1] - y))
            p[2 * i + 1] = pack(s[4 * i + 2] * (d[4 * i + 2] - x), s[4 * i + 3] * (d[4 * i + 3] - y))
        if tail:  # keys beyond the end: their dk and dv are not stored, but they must not get into dq
            if (block + 1) * KEYS > keys:
                for i in range(pieces):
                    p[2 * i] = p[2 * i] if key < keys else i32(0)
                    p[2 * i + 1] = p[2 * i + 1] if key + 8 < keys else i32(0)
        to_shared(i32(tile_at + OFFSET_SLOPE), own, p)
        outputs_done(to_v, 0)

    @device
    def leave(part, to, block):
        """A warpgroup's 64 queries x 64 columns of dq, as they lie in registers: the first block's are stored."""
        for i in range(8):
            if block == 0:
                store_global_float_4(to + 2048 * i, part[4 * i], part[4 * i + 1], part[4 * i + 2], part[4 * i + 3])
            else:
                add_global_float_4(to + 2048 * i, part[4 * i], part[4 * i + 1], part[4 * i + 2], part[4 * i + 3])

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath={"contract"})
    def attention_grad_wgmma_deep(map_g, map_q, map_k, map_v, lse2, mean, turns, sums, dk, dv, shares, repeats, keys, padded,
                                  tiles_k, tiles_q, together, all_shares, shift, factor, scale):
        """Arguments of attention_grad_wgmma; sums: of columns 0 .. 127 of all tiles, PART numbers each, then of the others."""
        shared = cuda.shared.array(0, types.uint8)
        base = shared_address(shared)  # the system keeps the first 1,024 bytes of the window: this is a multiple of 1,024
        k_full = i32(base + OFFSET_BARRIERS)
        v_full, q_full = i32(k_full + 8), i32(k_full + 16)
        g_full, empty = i32(q_full + 16), i32(q_full + 32)
        thread = i32(cuda.threadIdx.x)
        group = uniform(thread >> 7)
        if thread == 0:
            ptx.barrier_init(k_full, 1)
            ptx.barrier_init(v_full, 1)
            for stage in range(2):
                ptx.barrier_init(q_full + 8 * stage, 1)
                ptx.barrier_init(g_full + 8 * stage, 1)
                ptx.barrier_init(empty + 8 * stage, WARPGROUPS)
            ptx.fence_barrier_init()
            ptx.fence_async_shared()
        cuda.syncthreads()
        number = i32(cuda.blockIdx.x)
        bunch = divide_unsigned(number, i32(together * tiles_k))
        rest = i32(number - bunch * i32(together * tiles_k))
        width = i32(min(together, all_shares - bunch * together))
        block = divide_unsigned(rest, width)  # of keys
        share = i32(bunch * together + rest - block * width)
        batch = divide_unsigned(share, shares)
        within = i32(share - batch * shares)
        first = i32(0)
        if causal:
            first = i32(min(divide_unsigned(i32(max(block * KEYS - shift, 0)), i32(QUERIES)), tiles_q - 1))
        each = i32(tiles_q - first)
        left = i32(each * repeats)
        tile_of_head = i32(share * repeats * tiles_q)  # number of the first head's first tile of queries

        if group == 0:  # ------------------------------------------------------- the producer, and who waits for turns
            fewer()
            if thread == 0:
                ptx.barrier_expect(k_full, TILE)
                for panel in range(PANELS):
                    ptx.tma_load_4d(i32(base + panel * PANEL), map_k, i32(64 * panel), i32(block * KEYS), within, batch, k_full)
                head = i32(within * repeats)
                row = i32(tiles_q - 1)
                line = i64(share) * repeats * padded
                stage, phase = i32(0), i32(1)
                begun = i32(0)
                while left > 0:
                    left = i32(left - 1)
                    ptx.barrier_wait(i32(empty + 8 * stage), phase)
                    full = i32(q_full + 8 * stage)
                    ptx.barrier_expect(full, TILE + 4 * QUERIES)
                    for panel in range(PANELS):
                        ptx.tma_load_4d(i32(base + OFFSET_Q + stage * TILE + panel * PANEL), map_q, i32(64 * panel),
                                        i32(row * QUERIES), head, batch, full)
                    ptx.bulk_load(i32(base + OFFSET_LSE + stage * (4 * QUERIES)),
                                  global_address(lse2) + 4 * (line + row * QUERIES), 4 * QUERIES, full)
                    if begun == 0:
                        begun = i32(1)
                        ptx.barrier_expect(v_full, TILE)
                        for panel in range(PANELS):
                            ptx.tma_load_4d(i32(base + OFFSET_V + panel * PANEL), map_v, i32(64 * panel), i32(block * KEYS),
                                            within, batch, v_full)
                    full = i32(g_full + 8 * stage)
                    ptx.barrier_expect(full, TILE + 4 * QUERIES)
                    for panel in range(PANELS):
                        ptx.tma_load_4d(i32(base + OFFSET_G + stage * TILE + panel * PANEL), map_g, i32(64 * panel),
                                        i32(row * QUERIES), head, batch, full)
                    ptx.bulk_load(i32(base + OFFSET_MEAN + stage * (4 * QUERIES)),
                                  global_address(mean) + 4 * (line + row * QUERIES), 4 * QUERIES, full)
                    stage, phase = hopper.advance(stage, phase, 2)
                    row = i32(row - 1)
                    if row < first:
                        row = i32(tiles_q - 1)
                        head = i32(head + 1)
                        line += padded
            writer = i32((thread >> 5) - 1)
            if writer == 0 or writer == 1:
                lane = i32(thread & 31)
                row = i32(tile_of_head + tiles_q - 1)
                last = i32(tile_of_head + first)
                while left > 0:
                    left = i32(left - 1)
                    turn = global_address(turns) + 8 * i64(row) + 4 * writer
                    if lane == 0 and block > 0:
                        while load_acquire(turn) != block:
                            pass
                    cuda.syncwarp()
                    ptx.named_arrive(i32(6 + writer), 160)
                    ptx.named_sync(i32(4 + writer), 160)
                    if lane == 0:
                        fence_gpu()  # what the consumers added, before this warp met them
                        store_release(turn, i32(block + 1))
                    cuda.syncwarp()
                    row = i32(row - 1)
                    if row < last:
                        last = i32(last + tiles_q)
                        row = i32(last + each - 1)
        else:  # -------------------------------------------------------------------------------- the consumers
            more()
            own = i32(group - 1)
            mine = i32(thread & 127)
            lane = i32(thread & 31)
            line = i32((mine >> 5) * 16 + (lane >> 2))  # the thread's first key of the block's
            key = i32(block * KEYS + line)
            s = cuda.local.array(scores, f32)
            d = cuda.local.array(scores, f32)
            to_k = cuda.local.array(outputs, f32)
            to_v = cuda.local.array(outputs, f32)
            part = cuda.local.array(32, f32)
            p = cuda.local.array(packed, i32)
            for i in range(outputs):
                to_k[i] = f32(0)
                to_v[i] = f32(0)
            k_rows = hopper.descriptor(base, by_rows)
            v_rows = hopper.descriptor(i32(base + OFFSET_V), by_rows)
            q_rows = hopper.descriptor(i32(base + OFFSET_Q + own * (SEEN * hopper.ROW)), by_rows)
            g_rows = hopper.descriptor(i32(base + OFFSET_G + own * (SEEN * hopper.ROW)), by_rows)
            q_columns = hopper.descriptor(i32(base + OFFSET_Q + own * (2 * PANEL)), by_columns)
            k_columns = hopper.descriptor(i32(base + own * (2 * PANEL)), by_columns)
            slopes = hopper.descriptor(i32(base + OFFSET_SLOPE), by_columns)
            slope_rows = hopper.descriptor(i32(base + OFFSET_SLOPE), by_rows)
            # stmatrix: lane l names row l % 8 of 8 x 8 tile l / 8; tiles 0 and 1 are below each other, 2 and 3 beside them
            tile_at = i32(base + ((mine >> 5) * 16 + (lane & 15)) * hopper.ROW + (((lane >> 4) ^ (lane & 7)) << 4))
            to = (global_address(sums) + (i64(own) * all_shares * repeats * tiles_q + tile_of_head + tiles_q - 1) * (4 * PART)
                  + 16 * mine)  # of the tile of queries that is worked on
            row = i32(tiles_q - 1)
            stage, phase = i32(0), i32(0)
            ptx.barrier_wait(k_full, 0)
            ptx.barrier_wait(q_full, 0)
            multiply_scores(s, 0, k_rows, q_rows)
            ptx.barrier_wait(v_full, 0)
            ptx.barrier_wait(g_full, 0)
            multiply_scores(d, 0, v_rows, g_rows)
            settle(s, d, p, to_v, stage, row, block, own, key, keys, shift, factor, lane, base, tile_at)
            while left > 1:
                left = i32(left - 1)
                before = stage
                stage, phase = hopper.advance(stage, phase, 2)
                ptx.named_sync(1, 256)  # both halves of ds are in shared memory, and nobody reads the p before any more
                multiply_queries(to_k, 0, slope_rows, q_columns + i64(before * (TILE >> 4)))
                multiply_slopes(part, 0, slopes, k_columns)
                ptx.barrier_wait(i32(q_full + 8 * stage), phase)
                multiply_scores(s, 0, k_rows, q_rows + i64(stage * (TILE >> 4)))
                part_but_one(part, 0)
                ptx.named_sync(i32(6 + own), 160)  # it is the block's turn
                if mine == 0:
                    ptx.barrier_arrive(i32(empty + 8 * before))
                leave(part, to, block)
                multiply_slopes(part, 0, slopes, k_columns + i64(PANEL >> 4))
                ptx.barrier_wait(i32(g_full + 8 * stage), phase)
                multiply_scores(d, 0, v_rows, g_rows + i64(stage * (TILE >> 4)))
                part_but_one(part, 0)
                leave(part, to + 2 * PART, block)
                ptx.named_arrive(i32(4 + own), 160)
                row = i32(row - 1)
                to -= 4 * PART
                if row < first:
                    row = i32(tiles_q - 1)
                    to += i64(tiles_q + each) * (4 * PART)
                settle(s, d, p, to_v, stage, row, block, own, key, keys, shift, factor, lane, base, tile_at)
            ptx.named_sync(1, 256)
            multiply_queries(to_k, 0, slope_rows, q_columns + i64(stage * (TILE >> 4)))
            multiply_slopes(part, 0, slopes, k_columns)
            part_done(part, 0)
            ptx.named_sync(i32(6 + own), 160)
            leave(part, to, block)
            multiply_slopes(part, 0, slopes, k_columns + i64(PANEL >> 4))
            part_done(part, 0)
            leave(part, to + 2 * PART, block)
            ptx.named_arrive(i32(4 + own), 160)
            outputs_done(to_k, 0)
            columns = i32(dk.shape[3] - own * OWN)
            batch = divide_unsigned(share, shares)  # found again: kept, they would cost two registers all along
            within = i64(share - batch * shares)
            at = (global_address(dv) + i64(batch) * dv.strides[0] + within * dv.strides[1] + i64(key) * dv.strides[2]
                  + 2 * OWN * own)
            store(to_v, at, 8 * dv.strides[2], f32(1), f32(1), key < keys, key + 8 < keys, lane, columns)
            at = (global_address(dk) + i64(batch) * dk.strides[0] + within * dk.strides[1] + i64(key) * dk.strides[2]
                  + 2 * OWN * own)
            store(to_k, at, 8 * dk.strides[2], scale, scale, key < keys, key + 8 < keys, lane, columns)

    return attention_grad_wgmma_deep
