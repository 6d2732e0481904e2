"""Gradients of attention on the tensor cores of compute capability 9.0, with five products and the
same bits every time.

The idea. With p = exp(s - lse) computed again, the gradients are five matrix products per tile:

    s = k q^T    dp = v g^T    dv += p g    dk += ds q    dq += ds^T k        ds = p (dp - mean),
                 mean = sum of g y

A block owns 128 keys and walks over the tiles of queries: dk and dv stay in registers. But every
block has a part of every dq. Parts are added up in float32 in memory (`cp.reduce.async.bulk`: TMA
adds a tile of shared memory to global memory), and a last kernel rounds the sums.

    transposed scores         rows are keys: wgmma leaves p and ds in registers in the layout of its
                              next A operand
    ds through shared memory  once, because dq needs it with rows and columns exchanged: both
                              warpgroups' halves of it
    the loop is rotated       dk(j), dq(j) and s(j + 1) are in flight together; then dp(j + 1); the
                              exponentials run while dp is multiplied, the subtraction while dv is
    writers                   two more warps of the producer's warpgroup hand the parts of dq to TMA

Determinism. Float sums depend on their order, so the order is fixed: dq of a tile of queries is
added in ascending order of the keys. A counter for each tile says whose turn it is; the first block
stores instead of adding. A block waits only for the block before it, which was launched before it,
so it always runs. All blocks walk over the queries from the last tile to the first, so each follows
the one before it at a distance of one tile. Heads are interleaved so that neighbours in this chain
do not run at the same time. Measured against unordered adding this costs between nothing and a
tenth.

Queries of heads that share keys are walked over one head after the other. Queries beyond the end
have lse = 1e30 in the padded copy, so their p is 0; of keys beyond the end ds is set to 0. Where
lengths are given, tiles wholly beyond them are not visited, and the rows of a tile beyond them are
cleared in shared memory, because they may hold NaN.

    attention_grad_prepare    mean, lse log2 e, both padded to whole tiles; counters set to 0
    attention_grad_wgmma      dk, dv and the parts of dq
    attention_grad_finish     dq from its sums

The floor: 10 Sq Sk D operations (half of it if causal) at the speed of the tensor cores, as in
forward_sm90.py. Measurements are in benchmarks/results (rows attention_*_gradients). If causal,
blocks of a head differ in length, and the more heads are interleaved the better: 1 x 32 x
16,384 x 64 ran at 400, 444, 477, 495 TFLOP/s with 2, 4, 8, 32 of them.

Source: Dao, "FlashAttention-2", 2023; Shah et al., "FlashAttention-3", 2024.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib import tma_pipeline
from ..lib.integers import blocks
from ..ptx import sm90 as ptx
from ..ptx.sm80 import (
    divide_unsigned,
    exp2,
    global_address,
    load_acquire,
    load_global_4,
    load_global_float_4,
    load_shared_float_2,
    pack_bf16,
    pack_f16,
    shared_address,
    shuffle_xor_float,
    store_global_4,
    store_matrix_4,
    store_release,
    store_shared_float_4,
    unpack_bf16,
    unpack_f16,
)
from .forward_sm90 import HIDDEN, bounds, clear_rows, keep_rows, store_rows, uniform
from .merge import sum_launches
from .problem import Operands, Problem, result_like
from .tiles_sm90 import head_splits, heads_together, outputs_of, terms_of

i32, i64, f32 = types.int32, types.int64, types.float32

KEYS = 128  # a block owns; 64 for each of its two warpgroups
PART = 8192  # float32 numbers of dq that a tile has: 64 x 128 or 128 x 64
WARPGROUPS = 2
THREADS = 128 * (WARPGROUPS + 1)
LOG2E = math.log2(math.e)
PREPARE_THREADS, ROUNDS = (
    256,
    4,
)  # of attention_grad_prepare: threads per block, rows a thread looks at
FINISH_THREADS = 256
PAD = 128  # rows of mean and lse are padded to a multiple of this
ABSENT = 1.0e30  # lse of a query that sees nothing
BARRIERS = 128  # bytes


class Tile(NamedTuple):
    """Compile-time choices. kind: "bf16" or "f16"; depth: 64 or 128 columns that TMA brings; terms:
    how many of them scores are sums of, a multiple of 16; width: how many the results have, of
    which `ragged` says that some are beyond D; causal; tail: keys may end within a tile; lengths:
    they are given; split: heads that share keys are split, and parts of dk and dv are stored."""

    kind: str
    depth: int
    terms: int
    width: int
    ragged: bool
    causal: bool
    tail: bool
    lengths: bool
    split: bool = False

    @property
    def queries(self) -> int:
        """Of a tile: a part of dq is then 8,192 numbers."""
        return PART // self.depth

    @property
    def shared(self) -> int:
        """Bytes: keys, values; two stages of queries and gradients; two of ds, two of dq's parts,
        lse and mean; barriers."""
        return (
            (2 * KEYS + 4 * self.queries) * 2 * self.depth
            + 2 * (2 * KEYS + 8) * self.queries
            + 8 * PART
            + BARRIERS
        )


@functools.cache
def attention_grad_prepare(kind: str, depth: int, lengths: bool) -> Any:
    """mean and lse in the units of 2^x, padded; counters set to 0."""
    unpack = unpack_bf16 if kind == "bf16" else unpack_f16
    lanes = depth // 8  # a row has, 16 bytes each
    together = 32 // lanes
    bounds_of = bounds(lengths)

    @cuda.jit(launch_bounds=(PREPARE_THREADS, 1))
    def attention_grad_prepare(
        g, y, lse, query_lengths, lse2, mean, turns, heads, rows, padded, columns
    ):
        """g, y (B, H, Sq, D), any strides of rows; lse (B, H, Sq), lse2, mean (B H, padded), turns:
        flat; query_lengths (B,). A row is read by depth / 8 lanes."""
        warp = i32(cuda.blockIdx.x * (PREPARE_THREADS // 32) + (cuda.threadIdx.x >> 5))
        lane = i32(cuda.threadIdx.x & 31)
        own = i32(lane & (lanes - 1))
        first = i64(cuda.blockIdx.x) * PREPARE_THREADS + cuda.threadIdx.x
        for n in range(first, turns.size, cuda.gridDim.x * PREPARE_THREADS):
            turns[n] = i32(0)
        for turn in range(ROUNDS):
            line = i32((warp * ROUNDS + turn) * together + lane // lanes)
            if line < mean.size:
                head = divide_unsigned(line, padded)
                i = i32(line - head * padded)
                batch = divide_unsigned(head, heads)
                present, _ = bounds_of(query_lengths, query_lengths, batch, rows, rows)
                total = f32(0)
                if i < present and 8 * own < columns:
                    a = load_global_4(
                        global_address(g)
                        + i64(batch) * g.strides[0]
                        + i64(head - batch * heads) * g.strides[1]
                        + i64(i) * g.strides[2]
                        + 16 * own
                    )
                    b = load_global_4(
                        global_address(y)
                        + i64(batch) * y.strides[0]
                        + i64(head - batch * heads) * y.strides[1]
                        + i64(i) * y.strides[2]
                        + 16 * own
                    )
                    for n in range(4):
                        a0, a1 = unpack(a[n])
                        b0, b1 = unpack(b[n])
                        total += a0 * b0 + a1 * b1
                total += shuffle_xor_float(total, 1)
                total += shuffle_xor_float(total, 2)
                total += shuffle_xor_float(total, 4)
                if lanes >= 16:
                    total += shuffle_xor_float(total, 8)
                if lanes == 32:
                    total += shuffle_xor_float(total, 16)
                if own == 0:
                    mean[line] = total
                    exponent = f32(ABSENT)
                    if i < present:
                        exponent = min(lse[i64(head) * rows + i] * f32(LOG2E), f32(ABSENT))
                    lse2[line] = exponent

    return attention_grad_prepare


@functools.cache
def attention_grad_finish(kind: str, depth: int, ragged: bool, lengths: bool) -> Any:
    """dq, rounded, from its float32 sums, which lie as wgmma's registers do."""
    queries = PART // depth
    store, bounds_of = store_rows(kind, 64, ragged), bounds(lengths)

    @cuda.jit(launch_bounds=(FINISH_THREADS, 1))
    def attention_grad_finish(
        sums, query_lengths, key_lengths, dq, rows, keys, columns, tiles, beyond, scale
    ):
        """sums: PART numbers a tile; lengths (B,); dq (B, H, Sq, D), any strides of rows; tiles: of
        a head; query i sees keys up to i + beyond + the keys there are - the queries there are."""
        thread = i32(cuda.threadIdx.x)
        half, lane = i32(thread >> 7), i32(thread & 31)
        tile = i32(cuda.blockIdx.x)
        head = divide_unsigned(tile, tiles)
        first = i32((tile - head * tiles) * queries)
        row = i32(first + ((thread & 127) >> 5) * 16 + (lane >> 2))
        column = i32(64 * half)
        if depth == 64:
            row = i32(row + 64 * half)
            column = i32(0)
        c = cuda.local.array(32, f32)
        for i in range(32):
            c[i] = f32(0)
        heads = i32(dq.shape[1])
        batch = divide_unsigned(head, heads)
        present, filled = bounds_of(query_lengths, key_lengths, batch, rows, keys)
        # else no key is seen, and nobody has stored anything
        if first + queries - 1 + beyond + filled - present >= 0 and first < present and filled > 0:
            at = global_address(sums) + 4 * (
                i64(tile) * PART + half * (PART // 2) + (thread & 127) * 4
            )
            for i in range(8):
                c[4 * i], c[4 * i + 1], c[4 * i + 2], c[4 * i + 3] = load_global_float_4(
                    at + 2048 * i
                )
        to = (
            global_address(dq)
            + i64(batch) * dq.strides[0]
            + i64(head - batch * heads) * dq.strides[1]
            + i64(row) * dq.strides[2]
            + 2 * column
        )
        store(
            c,
            to,
            8 * dq.strides[2],
            scale,
            scale,
            row < rows,
            row + 8 < rows,
            lane,
            i32(columns - column),
        )

    return attention_grad_finish


@functools.cache
def attention_grad_wgmma(tile: Tile) -> Any:
    """dk, dv and the parts of dq. See Tile."""
    queries, depth, causal, lengths = tile.queries, tile.depth, tile.causal, tile.lengths
    ends = tile.tail or lengths  # within a tile
    panels = depth // 64  # boxes of 64 columns
    panel_k, panel_q = KEYS * tma_pipeline.ROW, queries * tma_pipeline.ROW
    bytes_k, bytes_q = panels * panel_k, panels * panel_q
    bytes_slope = KEYS * 2 * queries  # of ds: panels of 64 queries, rows are keys
    bytes_part = 4 * PART
    offset_v = bytes_k
    offset_q = offset_v + bytes_k
    offset_g = offset_q + 2 * bytes_q
    offset_slope = offset_g + 2 * bytes_q
    offset_part = offset_slope + 2 * bytes_slope
    offset_lse = offset_part + 2 * bytes_part
    offset_mean = offset_lse + 8 * queries
    offset_barriers = offset_mean + 8 * queries
    scores, pieces, packed, outputs = queries // 2, queries // 8, queries // 4, tile.width // 2
    steps_k = tuple(2 * (i % 4) + i // 4 * (panel_k >> 4) for i in range(tile.terms // 16))
    steps_q = tuple(2 * (i % 4) + i // 4 * (panel_q >> 4) for i in range(tile.terms // 16))
    rows_of_16 = tuple(128 * i for i in range(KEYS // 16))
    multiply_scores = ptx.wgmma(tile.kind, queries, steps_k, steps_q, zero=True)
    multiply_queries = ptx.wgmma_registers(
        tile.kind, tile.width, tuple(128 * i for i in range(queries // 16)), trans_b=True
    )
    multiply_slopes = ptx.wgmma(
        tile.kind, 64, rows_of_16, rows_of_16, zero=True, trans_a=True, trans_b=True
    )
    by_rows = tma_pipeline.descriptor_base()
    by_columns_q, by_columns_k = (
        tma_pipeline.descriptor_base(panel_q),
        tma_pipeline.descriptor_base(panel_k),
    )
    by_columns_slope = tma_pipeline.descriptor_base(panel_k)
    all_but_one, outputs_done = ptx.wgmma_wait(1, scores), ptx.wgmma_wait(0, outputs)
    part_but_one, part_done = ptx.wgmma_wait(1, 32), ptx.wgmma_wait(0, 32)
    hold_packed = ptx.hold(packed, i32)
    more, fewer = ptx.registers_up(240), ptx.registers_down(24)
    read_all, written_all = ptx.bulk_wait(0, read=True), ptx.bulk_wait(0)
    store, bounds_of = store_rows(tile.kind, tile.width, tile.ragged), bounds(lengths)
    keep, split = keep_rows(tile.width, tile.ragged), tile.split
    clear_keys, clear_queries = (
        clear_rows(rows, panels, 128 * WARPGROUPS) for rows in (KEYS, queries)
    )
    pack = pack_bf16 if tile.kind == "bf16" else pack_f16

    @device_function
    def settle(
        s,
        d,
        p,
        e,
        to_v,
        stage,
        phase,
        row,
        block,
        own,
        key,
        filled,
        shift,
        factor,
        lane,
        base,
        v_rows,
        slope_at,
    ):
        """While s is being multiplied: dp, then p from s, dv += p g, ds from dp; ds rounded in
        registers and shared memory."""
        ptx.barrier_wait(i32(base + offset_barriers + 32 + 8 * stage), phase)
        multiply_scores(
            d, 0, v_rows, tma_pipeline.descriptor(i32(base + offset_g + stage * bytes_q), by_rows)
        )
        all_but_one(s, 0)
        if causal:
            if block * KEYS + own * 64 + 63 > row * queries + shift:
                late = i32(
                    key - row * queries - shift - 2 * (lane & 3)
                )  # queries from here on see the key
                for i in range(pieces):
                    s[4 * i] = s[4 * i] if late <= 8 * i else f32(HIDDEN)
                    s[4 * i + 1] = s[4 * i + 1] if late <= 8 * i + 1 else f32(HIDDEN)
                    s[4 * i + 2] = s[4 * i + 2] if late <= 8 * i - 8 else f32(HIDDEN)
                    s[4 * i + 3] = s[4 * i + 3] if late <= 8 * i - 7 else f32(HIDDEN)
        at = i32(base + offset_lse + stage * (4 * queries) + 8 * (lane & 3))
        for i in range(pieces):
            x, y = load_shared_float_2(i32(at + 32 * i))
            s[4 * i] = exp2(s[4 * i] * factor - x)
            s[4 * i + 1] = exp2(s[4 * i + 1] * factor - y)
            s[4 * i + 2] = exp2(s[4 * i + 2] * factor - x)
            s[4 * i + 3] = exp2(s[4 * i + 3] * factor - y)
            p[2 * i] = pack(s[4 * i], s[4 * i + 1])
            p[2 * i + 1] = pack(s[4 * i + 2], s[4 * i + 3])
        if lengths:  # keys that exist, but not in this sequence: their dv is stored, and is 0
            if (block + 1) * KEYS > filled:
                for i in range(packed // 2):
                    p[2 * i] = p[2 * i] if key < filled else i32(0)
                    p[2 * i + 1] = p[2 * i + 1] if key + 8 < filled else i32(0)
        multiply_queries(
            to_v,
            0,
            p,
            0,
            tma_pipeline.descriptor(i32(base + offset_g + stage * bytes_q), by_columns_q),
        )
        all_but_one(d, 0)
        at = i32(base + offset_mean + stage * (4 * queries) + 8 * (lane & 3))
        for i in range(pieces):
            x, y = load_shared_float_2(i32(at + 32 * i))
            d[4 * i] = s[4 * i] * (d[4 * i] - x)
            d[4 * i + 1] = s[4 * i + 1] * (d[4 * i + 1] - y)
            d[4 * i + 2] = s[4 * i + 2] * (d[4 * i + 2] - x)
            d[4 * i + 3] = s[4 * i + 3] * (d[4 * i + 3] - y)
            e[2 * i] = pack(d[4 * i], d[4 * i + 1])
            e[2 * i + 1] = pack(d[4 * i + 2], d[4 * i + 3])
        if ends:  # keys beyond the end must not get into dq
            if (block + 1) * KEYS > filled:
                for i in range(packed // 2):
                    e[2 * i] = e[2 * i] if key < filled else i32(0)
                    e[2 * i + 1] = e[2 * i + 1] if key + 8 < filled else i32(0)
        at = i32(slope_at + stage * bytes_slope)
        for i in range(queries // 16):
            store_matrix_4(
                i32((at ^ (32 * (i % 4))) + i // 4 * panel_k),
                e[4 * i],
                e[4 * i + 1],
                e[4 * i + 2],
                e[4 * i + 3],
            )
        ptx.fence_async_shared()
        outputs_done(to_v, 0)
        hold_packed(p, 0)

    @device_function
    def clear_beyond(row, present, stage, phase, base, mine):
        """What a tile of queries, and of their gradients, has beyond the length."""
        if (row + 1) * queries > present:
            ptx.barrier_wait(i32(base + offset_barriers + 32 + 8 * stage), phase)
            clear_queries(
                i32(base + offset_q + stage * bytes_q), i32(present - row * queries), mine, 1
            )
            clear_queries(
                i32(base + offset_g + stage * bytes_q), i32(present - row * queries), mine, 1
            )

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath={"contract"})
    def attention_grad_wgmma(
        map_g,
        map_q,
        map_k,
        map_v,
        query_lengths,
        key_lengths,
        lse2,
        mean,
        turns,
        sums,
        dk,
        dv,
        shares,
        repeats,
        rows,
        keys,
        padded,
        tiles_k,
        tiles_q,
        together,
        all_shares,
        splits,
        depth_of_heads,
        factor,
        scale,
    ):
        """map_g, map_q: of g and q (B, H, Sq, D), map_k, map_v: of k and v (B, Hkv, Sk, D). lengths
        (B,). lse2, mean (B H, padded); turns: two counters a tile of queries; sums: PART numbers a
        tile; these flat. dk, dv (B, Hkv, Sk, D), any strides of rows. shares: Hkv; repeats: H /
        Hkv; rows: Sq; keys: Sk; tiles_k, tiles_q: of a head; together: heads that are interleaved;
        all_shares: B Hkv; factor: scale log2 e. With `split` each of `splits` parts of the heads
        that share keys counts as a share of its own, and dk, dv (all_shares, Sk, D) are float32,
        flat; depth_of_heads: D.
        """
        shared = cuda.shared.array(0, types.uint8)
        base = shared_address(
            shared
        )  # the system keeps the first 1,024 bytes of the window: this is a multiple of 1,024
        k_full = i32(base + offset_barriers)
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
                ptx.barrier_init(
                    empty + 8 * stage, 128 * WARPGROUPS
                )  # whoever has read lse and mean
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
        of_keys = within  # the head of keys
        if split:
            of_keys = divide_unsigned(within, splits)
        present, filled = bounds_of(query_lengths, key_lengths, batch, rows, keys)
        visited = tiles_q  # tiles of queries in which there are some
        if lengths:
            visited = divide_unsigned(i32(present + queries - 1), i32(queries))
            if block * KEYS >= filled or present == 0:  # nobody sees these keys
                for n in range(thread, KEYS * (depth // 8), THREADS):
                    line, column = i32(n // (depth // 8)), i32(8 * (n % (depth // 8)))
                    if block * KEYS + line < keys and column < dk.shape[3]:
                        store_global_4(
                            global_address(dk)
                            + i64(batch) * dk.strides[0]
                            + i64(within) * dk.strides[1]
                            + i64(block * KEYS + line) * dk.strides[2]
                            + 2 * column,
                            0,
                            0,
                            0,
                            0,
                        )
                        store_global_4(
                            global_address(dv)
                            + i64(batch) * dv.strides[0]
                            + i64(within) * dv.strides[1]
                            + i64(block * KEYS + line) * dv.strides[2]
                            + 2 * column,
                            0,
                            0,
                            0,
                            0,
                        )
                return
        shift = i32(filled - present)  # query i sees keys up to i + shift
        first = i32(0)
        if causal:
            first = i32(
                min(divide_unsigned(i32(max(block * KEYS - shift, 0)), i32(queries)), visited - 1)
            )
        each = i32(visited - first)
        left = i32(each * repeats)
        tile_of_head = i32(
            share * repeats * tiles_q
        )  # number of the first head's first tile of queries

        if (
            group == 0
            # ------------------------------------------------------------ the producer and the writ
        ):
            fewer()
            if thread == 0:
                ptx.barrier_expect(k_full, bytes_k)
                for panel in range(panels):
                    ptx.tma_load_4d(
                        i32(base + panel * panel_k),
                        map_k,
                        i32(64 * panel),
                        i32(block * KEYS),
                        of_keys,
                        batch,
                        k_full,
                    )
                head = i32(within * repeats)
                row = i32(visited - 1)
                line = i64(share) * repeats * padded
                stage, phase = i32(0), i32(1)
                begun = i32(0)
                while left > 0:
                    left = i32(left - 1)
                    ptx.barrier_wait(i32(empty + 8 * stage), phase)
                    full = i32(q_full + 8 * stage)
                    ptx.barrier_expect(full, bytes_q + 4 * queries)
                    for panel in range(panels):
                        ptx.tma_load_4d(
                            i32(base + offset_q + stage * bytes_q + panel * panel_q),
                            map_q,
                            i32(64 * panel),
                            i32(row * queries),
                            head,
                            batch,
                            full,
                        )
                    ptx.bulk_load(
                        i32(base + offset_lse + stage * (4 * queries)),
                        global_address(lse2) + 4 * (line + row * queries),
                        4 * queries,
                        full,
                    )
                    if begun == 0:
                        begun = i32(1)
                        ptx.barrier_expect(v_full, bytes_k)
                        for panel in range(panels):
                            ptx.tma_load_4d(
                                i32(base + offset_v + panel * panel_k),
                                map_v,
                                i32(64 * panel),
                                i32(block * KEYS),
                                of_keys,
                                batch,
                                v_full,
                            )
                    full = i32(g_full + 8 * stage)
                    ptx.barrier_expect(full, bytes_q + 4 * queries)
                    for panel in range(panels):
                        ptx.tma_load_4d(
                            i32(base + offset_g + stage * bytes_q + panel * panel_q),
                            map_g,
                            i32(64 * panel),
                            i32(row * queries),
                            head,
                            batch,
                            full,
                        )
                    ptx.bulk_load(
                        i32(base + offset_mean + stage * (4 * queries)),
                        global_address(mean) + 4 * (line + row * queries),
                        4 * queries,
                        full,
                    )
                    stage, phase = tma_pipeline.advance(stage, phase, 2)
                    row = i32(row - 1)
                    if row < first:
                        row = i32(visited - 1)
                        head = i32(head + 1)
                        line += padded
            writer = i32((thread >> 5) - 1)
            if writer == 0 or writer == 1:
                lane = i32(thread & 31)
                row = i32(tile_of_head + visited - 1)
                last = i32(tile_of_head + first)
                buffer = i32(0)
                ptx.named_arrive(i32(8 + writer), 160)
                if left > 1:
                    ptx.named_arrive(i32(10 + writer), 160)
                while left > 0:
                    left = i32(left - 1)
                    ptx.named_sync(i32(4 + writer + 2 * buffer), 160)
                    if lane == 0:
                        part = i32(
                            base + offset_part + buffer * bytes_part + writer * (bytes_part // 2)
                        )
                        to = (
                            global_address(sums)
                            + i64(row) * bytes_part
                            + writer * (bytes_part // 2)
                        )
                        turn = global_address(turns) + 8 * i64(row) + 4 * writer
                        if block == 0:
                            ptx.bulk_store(to, part, bytes_part // 2)
                        else:
                            while load_acquire(turn) != block:
                                pass
                            ptx.fence_async()
                            ptx.bulk_add_float(to, part, bytes_part // 2)
                        ptx.bulk_commit()
                        read_all()
                    cuda.syncwarp()
                    if left > 1:
                        ptx.named_arrive(i32(8 + writer + 2 * buffer), 160)
                    if lane == 0:
                        # and with that visible to everything that this thread releases
                        written_all()
                        store_release(turn, i32(block + 1))
                    cuda.syncwarp()
                    buffer = i32(buffer ^ 1)
                    row = i32(row - 1)
                    if row < last:
                        last = i32(last + tiles_q)
                        row = i32(last + each - 1)
        # -------------------------------------------------------------------------------- the
        # consumers
        else:
            more()
            own = i32(group - 1)
            mine = i32(thread & 127)
            lane = i32(thread & 31)
            line = i32(
                own * 64 + (mine >> 5) * 16 + (lane >> 2)
            )  # the thread's first key of the block's
            key = i32(block * KEYS + line)
            s = cuda.local.array(scores, f32)
            d = cuda.local.array(scores, f32)
            to_k = cuda.local.array(outputs, f32)
            to_v = cuda.local.array(outputs, f32)
            part = cuda.local.array(32, f32)
            p = cuda.local.array(packed, i32)
            e = cuda.local.array(packed, i32)
            for i in range(outputs):
                to_k[i] = f32(0)
                to_v[i] = f32(0)
            k_rows = tma_pipeline.descriptor(i32(base + own * (64 * tma_pipeline.ROW)), by_rows)
            v_rows = tma_pipeline.descriptor(
                i32(base + offset_v + own * (64 * tma_pipeline.ROW)), by_rows
            )
            if depth == 128:  # a warpgroup has 64 columns of dq, else 64 of its rows
                k_columns = tma_pipeline.descriptor(i32(base + own * panel_k), by_columns_k)
                slopes = tma_pipeline.descriptor(i32(base + offset_slope), by_columns_slope)
            else:
                k_columns = tma_pipeline.descriptor(base, by_columns_k)
                slopes = tma_pipeline.descriptor(
                    i32(base + offset_slope + own * panel_k), by_columns_slope
                )
            # stmatrix: lane l names row l % 8 of 8 x 8 tile l / 8; tiles 0 and 1 are below each
            # other, 2 and 3 beside them
            slope_row = i32(own * 64 + (mine >> 5) * 16 + (lane & 15))
            slope_at = i32(
                base
                + offset_slope
                + slope_row * tma_pipeline.ROW
                + (((lane >> 4) ^ (lane & 7)) << 4)
            )
            part_at = i32(base + offset_part + own * (bytes_part // 2) + mine * 16)
            row = i32(visited - 1)
            stage, phase = i32(0), i32(0)
            ptx.barrier_wait(k_full, 0)
            ptx.barrier_wait(q_full, 0)
            if lengths:
                if (block + 1) * KEYS > filled:
                    clear_keys(base, i32(filled - block * KEYS), i32(thread - 128), 1)
                clear_beyond(row, present, stage, phase, base, i32(thread - 128))
            multiply_scores(s, 0, k_rows, tma_pipeline.descriptor(i32(base + offset_q), by_rows))
            ptx.barrier_wait(v_full, 0)
            settle(
                s,
                d,
                p,
                e,
                to_v,
                stage,
                phase,
                row,
                block,
                own,
                key,
                filled,
                shift,
                factor,
                lane,
                base,
                v_rows,
                slope_at,
            )
            while left > 1:
                left = i32(left - 1)
                before = stage
                stage, phase = tma_pipeline.advance(stage, phase, 2)
                multiply_queries(
                    to_k,
                    0,
                    e,
                    0,
                    tma_pipeline.descriptor(i32(base + offset_q + before * bytes_q), by_columns_q),
                )
                ptx.named_sync(1, 256)  # both halves of ds are in shared memory
                multiply_slopes(part, 0, slopes + i64(before * (bytes_slope >> 4)), k_columns)
                ptx.barrier_wait(i32(q_full + 8 * stage), phase)
                if lengths:
                    if row == first:  # the next head's last tile
                        clear_beyond(
                            i32(visited - 1), present, stage, phase, base, i32(thread - 128)
                        )
                multiply_scores(
                    s,
                    0,
                    k_rows,
                    tma_pipeline.descriptor(i32(base + offset_q + stage * bytes_q), by_rows),
                )
                part_but_one(part, 0)
                hold_packed(e, 0)
                ptx.barrier_arrive(i32(empty + 8 * before))
                ptx.named_sync(i32(8 + own + 2 * before), 160)
                for i in range(8):
                    store_shared_float_4(
                        i32(part_at + before * bytes_part + 2048 * i),
                        part[4 * i],
                        part[4 * i + 1],
                        part[4 * i + 2],
                        part[4 * i + 3],
                    )
                ptx.fence_async_shared()
                ptx.named_arrive(i32(4 + own + 2 * before), 160)
                row = i32(row - 1)
                if row < first:
                    row = i32(visited - 1)
                settle(
                    s,
                    d,
                    p,
                    e,
                    to_v,
                    stage,
                    phase,
                    row,
                    block,
                    own,
                    key,
                    filled,
                    shift,
                    factor,
                    lane,
                    base,
                    v_rows,
                    slope_at,
                )
            multiply_queries(
                to_k,
                0,
                e,
                0,
                tma_pipeline.descriptor(i32(base + offset_q + stage * bytes_q), by_columns_q),
            )
            ptx.named_sync(1, 256)
            multiply_slopes(part, 0, slopes + i64(stage * (bytes_slope >> 4)), k_columns)
            part_done(part, 0)
            ptx.named_sync(i32(8 + own + 2 * stage), 160)
            for i in range(8):
                store_shared_float_4(
                    i32(part_at + stage * bytes_part + 2048 * i),
                    part[4 * i],
                    part[4 * i + 1],
                    part[4 * i + 2],
                    part[4 * i + 3],
                )
            ptx.fence_async_shared()
            ptx.named_arrive(i32(4 + own + 2 * stage), 160)
            outputs_done(to_k, 0)
            if split:
                first_pair = (i64(share) * keys + key) * depth_of_heads + 2 * (lane & 3)
                below, there, too = 32 * i64(depth_of_heads), key < keys, key + 8 < keys
                at = global_address(dv) + 4 * first_pair
                keep(to_v, at, below, there, too, lane, depth_of_heads)
                at = global_address(dk) + 4 * first_pair
                keep(to_k, at, below, there, too, lane, depth_of_heads)
            else:
                columns = i32(dk.shape[3])
                batch = divide_unsigned(
                    share, shares
                )  # found again: kept, they would cost two registers all along
                within = i64(share - batch * shares)
                to = (
                    global_address(dv)
                    + i64(batch) * dv.strides[0]
                    + within * dv.strides[1]
                    + i64(key) * dv.strides[2]
                )
                store(
                    to_v,
                    to,
                    8 * dv.strides[2],
                    f32(1),
                    f32(1),
                    key < keys,
                    key + 8 < keys,
                    lane,
                    columns,
                )
                to = (
                    global_address(dk)
                    + i64(batch) * dk.strides[0]
                    + within * dk.strides[1]
                    + i64(key) * dk.strides[2]
                )
                store(
                    to_k,
                    to,
                    8 * dk.strides[2],
                    scale,
                    scale,
                    key < keys,
                    key + 8 < keys,
                    lane,
                    columns,
                )

    return attention_grad_wgmma


# -------------------- planner


def prepare_launch(p: Problem, g: ArrayArg, padded: int, *results: ArrayArg) -> Launch:
    """The launch of attention_grad_prepare. g: the gradient or its copy; padded: queries of a head;
    results: lse2, mean and turns."""
    columns = 64 * 2 ** (blocks(p.depth, 64) - 1).bit_length()  # a power of two of lanes reads them
    lines = 32 // (columns // 8) * ROUNDS * (PREPARE_THREADS // 32)
    lengths = p.both_lengths()[0] if p.limited else Input(0)
    return Launch(
        attention_grad_prepare(p.number, columns, p.limited),
        blocks(p.batch * p.heads * padded, lines),
        PREPARE_THREADS,
        [
            g,
            Input(4),
            Input(5).flat,
            lengths,
            *results,
            *map(np.int32, (p.heads, p.rows, padded, p.depth)),
        ],
    )


def plan(p: Problem) -> Plan:
    """Plan of dq, dk and dv for heads of up to 128 numbers."""
    return _planned(p, 1)


def plan_split(p: Problem) -> Plan:
    """The same, where few heads of keys are shared by many of queries: by parts of these."""
    return _planned(p, head_splits(p))


def _planned(p: Problem, splits: int) -> Plan:
    if p.g is None:
        raise AssertionError("attention_grad: no gradient")
    q, columns, lengths = p.q, p.columns, p.both_lengths()
    tail = not p.limited and p.keys % KEYS != 0
    terms, width = terms_of(p.depth), outputs_of(p.depth)
    split = splits > 1
    tile = Tile(p.number, columns, terms, width, width != p.depth, p.causal, tail, p.limited, split)
    operands = Operands()
    boxes = (p.g, tile.queries), (q, tile.queries), (p.k, KEYS), (p.v, KEYS)
    maps = [operands.map(Input(i), x, rows) for i, (x, rows) in enumerate(boxes)]
    tiles_q, tiles_k = blocks(p.rows, tile.queries), blocks(p.keys, KEYS)
    padded, heads = PAD * blocks(p.rows, PAD), p.batch * p.heads
    first, single = len(operands.temps), np.dtype(np.float32)
    sizes = [
        (heads * padded, single),
        (heads * padded, single),
        (heads * tiles_q * 2, np.dtype(np.int32)),
        (heads * tiles_q * PART, single),  # parts of 64 x 128 or 128 x 64 numbers
    ]
    lse2, mean, turns, sums = (Temp(first + i) for i in range(4))
    results: list[Any] = [Output(1), Output(2)]
    all_shares = p.batch * p.shares * splits
    if split:
        parts = all_shares * p.keys * p.depth
        sizes += [(parts, single)] * 2
        results = [Temp(first + 4), Temp(first + 5)]
    numbers = [
        p.shares * splits,
        p.repeats // splits,
        p.rows,
        p.keys,
        padded,
        tiles_k,
        tiles_q,
        heads_together(p, all_shares, tiles_k, tiles_q),
        all_shares,
        splits,
        p.depth,
    ]
    main = Launch(
        attention_grad_wgmma(tile),
        tiles_k * all_shares,
        THREADS,
        [
            *maps,
            *lengths,
            lse2,
            mean,
            turns,
            sums,
            *results,
            *map(np.int32, numbers),
            *p.factors,
        ],
        tile.shared,
    )
    numbers = [p.rows, p.keys, p.depth, tiles_q, 0 if p.causal else p.rows]
    finish = Launch(
        attention_grad_finish(p.number, columns, columns != p.depth, p.limited),
        tiles_q * heads,
        FINISH_THREADS,
        [sums, *lengths, Output(0), *map(np.int32, numbers), p.factors[1]],
    )
    prepare = prepare_launch(p, maps[0].array, padded, lse2, mean, turns)
    added, outputs = [], [result_like(x) for x in (q, p.k, p.v)]
    if split:
        added = sum_launches(p, results, splits)
        outputs[1:] = p.k.like(), p.v.like()  # added up in C order
    return Plan(
        outputs,
        [*operands.steps, prepare, main, finish, *added],
        [*operands.temps, *(q.like((size,), dtype) for size, dtype in sizes)],
    )
