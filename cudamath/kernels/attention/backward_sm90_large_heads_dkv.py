"""Gradients of attention for heads of more than 128 numbers, on the tensor cores of compute
capability 9.0: dk and dv.

The idea. backward_sm90.py computes all gradients in one walk, with five products per tile and dq
added up in memory. With 256 columns those additions take longer than the products. So there are two
kernels here, each of which computes p and ds anew: seven products, but every number is written
once, rounded:

    attention_grad_wide_keys       a block owns 64 keys and walks over the queries: s, dp, dv += p
                                   g, dk += ds q
    attention_grad_wide_queries    a block owns 128 queries and walks over the keys: s, dp, dq += ds
                                   k (backward_sm90_large_heads_dq.py)

Both leave p and ds in registers, where a product reads them as its operand A: rounded to 16 bits, a
result's registers are an operand's. dk and dv of 64 keys are half of all registers of a
multiprocessor, so the first kernel's two warpgroups share the work by *kind*: one has s, p and dv,
the other dp, ds and dk. Only p goes from one to the other, in float32 through shared memory: the
second follows the first like the next stage of a pipeline, and while one computes exponentials the
other one multiplies. In the second kernel each warpgroup has 64 queries and all that belongs to
them.

    stages    of the first kernel: s needs a tile of queries first and dk last, almost two tiles
              later. Two stages would leave no time to fill one again. There is room for a third
              because a quarter of the keys and values, which each tile reads again, is kept in
              registers
    order     of the second kernel: dq of a tile, then s and dp of the next one. So the keys of a
              stage are free early, and there is time to fill their two stages, and the only one of
              values, while the other products run

Determinism: each sum is one thread's, in the order of the tiles. Blocks with most to do begin
first.

The floor: 14 Sq Sk D operations (half of it if causal) at the speed of the tensor cores, some 700
TFLOP/s at the power limit of an H200. Shared memory is read for as long: a product of 64 x 64 x 16
reads 4 KB in the 32 clocks it takes.

lse and mean come from attention_grad_prepare in backward_sm90.py, which also explains masks and
lengths. Both warpgroups clear the rows of a tile beyond the lengths, each before it multiplies:
clearing them twice does no harm.

Source: Dao, "FlashAttention-2", 2023; Shah et al., "FlashAttention-3", 2024.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib import tma_pipeline
from ..ptx import sm90 as ptx
from ..ptx.sm80 import (
    any_lane,
    divide_unsigned,
    exp2,
    global_address,
    load_matrix_4,
    load_shared_float_2,
    load_shared_float_4,
    pack_bf16,
    pack_f16,
    shared_address,
    store_global_4,
    store_shared_float_4,
)
from .forward_sm90 import HIDDEN, bounds, clear_rows, find_tile, leave, store_rows, uniform

i32, i64, f32 = types.int32, types.int64, types.float32

ROWS = 64  # of a tile of queries, keys, values or gradients
OWNED = 2 * ROWS  # queries of a block of attention_grad_wide_queries
WARPGROUPS = 2
THREADS = 128 * (WARPGROUPS + 1)
PANEL = ROWS * tma_pipeline.ROW  # bytes of a box: 64 columns of a tile
SCORES, PIECES, PACKED = (
    ROWS // 2,
    ROWS // 8,
    ROWS // 4,
)  # a thread's registers for 64 x 64 numbers; in pairs, rounded
WEIGHTS = 4 * ROWS * ROWS  # bytes of p on its way from one warpgroup to the other
LINE = 4 * ROWS  # bytes of a tile's lse, or mean
EMPTY = (
    4 + 128
)  # arrivals: of warps that multiply the tile, and of threads that read its lse or mean as well
STAGES = 3  # of queries in attention_grad_wide_keys; of gradients there are two


class Tile(NamedTuple):
    """Compile-time choices. kind: "bf16" or "f16"; depth: 192 or 256 columns, of which `ragged`
    says that some are beyond D; causal; lengths: they are given; tail: keys may end within a tile
    (attention_grad_wide_queries alone looks at that)."""

    kind: str
    depth: int
    ragged: bool
    causal: bool
    lengths: bool
    tail: bool = False

    @property
    def panels(self) -> int:
        """Boxes of a tile, of 64 columns."""
        return self.depth // 64

    @property
    def nbytes(self) -> int:
        """Of 64 rows."""
        return self.panels * PANEL

    @property
    def along(self) -> tuple[int, ...]:
        """What to add to the descriptor of 64 rows for each instruction, along the columns."""
        return tuple(2 * (i % 4) + i // 4 * (PANEL >> 4) for i in range(self.depth // 16))

    @property
    def shared_keys(self) -> int:
        """Bytes that attention_grad_wide_keys wants: boxes of keys and values; queries, gradients,
        p, lse, mean; barriers."""
        return (
            2 * (self.nbytes - PANEL)
            + (STAGES + 2) * self.nbytes
            + WEIGHTS
            + (STAGES + 2) * LINE
            + tma_pipeline.BARRIERS
        )

    @property
    def shared_queries(self) -> int:
        """Bytes that attention_grad_wide_queries wants: 128 queries, gradients; two stages of keys,
        one of values; barriers."""
        return 7 * self.nbytes + tma_pipeline.BARRIERS


DOWN = tuple(128 * i for i in range(ROWS // 16))  # the same along 64 rows


@functools.cache
def load_tile(panels: int, first: int = 0) -> Any:
    """A device function that asks TMA for 64 rows: (shared address, map, first row, head, batch
    element, barrier). Of boxes of 64 columns `panels`, from number `first` on."""

    @device_function
    def load_tile(to, source, row, head, batch, full):
        for panel in range(panels):
            ptx.tma_load_4d(
                i32(to + panel * PANEL), source, i32(64 * (first + panel)), row, head, batch, full
            )

    return load_tile


@device_function
def keep_here(s, half):
    """The compiler moves arithmetic behind waits. A branch on the sum, which is never taken, keeps
    it where it is written."""
    total = f32(0)
    for i in range(SCORES // 2):
        total += s[half * (SCORES // 2) + i]
    if any_lane(i32(total > f32(1e30))) != 0:
        ptx.fence_async_shared()


@device_function
def nothing(to, rows, first, count, columns, thread):
    """Zeros for `count` rows from `first` on, as far as there are so many; to: (address of row 0,
    bytes of a row)."""
    units = columns // 8
    for n in range(thread, count * units, THREADS):
        line = n // units
        if first + line < rows:
            store_global_4(
                to[0] + i64(first + line) * to[1] + 16 * i64(n - line * units),
                i32(0),
                i32(0),
                i32(0),
                i32(0),
            )


@functools.cache
def keep_rows(count: int) -> Any:
    """A device function (sums, whether the thread's first row counts, and the one 8 below): 0 in
    place of those that do not."""

    @device_function
    def keep_rows(c, first, second):
        for i in range(count // 4):
            c[4 * i] = c[4 * i] if first else f32(0)
            c[4 * i + 1] = c[4 * i + 1] if first else f32(0)
            c[4 * i + 2] = c[4 * i + 2] if second else f32(0)
            c[4 * i + 3] = c[4 * i + 3] if second else f32(0)

    return keep_rows


@functools.cache
def attention_grad_wide_keys(tile: Tile) -> Any:
    """dk and dv. See Tile."""
    causal, depth, nbytes, lengths = tile.causal, tile.depth, tile.nbytes, tile.lengths
    bounds_of, clear, keep = bounds(lengths), clear_rows(ROWS, tile.panels), keep_rows(depth // 2)
    outputs, kept = (
        depth // 2,
        4 * (tile.panels - 1),
    )  # instructions along the boxes of keys and values in shared memory
    multiply_held = ptx.wgmma_registers(tile.kind, ROWS, tile.along[kept:], zero=True, commit=False)
    multiply_kept = ptx.wgmma(tile.kind, ROWS, tile.along[:kept], tile.along[:kept])
    multiply_rows = ptx.wgmma_registers(tile.kind, depth, DOWN, trans_b=True)
    by_rows, by_columns = tma_pipeline.descriptor_base(), tma_pipeline.descriptor_base(PANEL)
    scores_done, outputs_done = ptx.wgmma_wait(0, SCORES), ptx.wgmma_wait(0, outputs)
    all_but_outputs = ptx.wgmma_wait(1, SCORES)
    hold_packed = ptx.hold(PACKED, i32)
    more, fewer = ptx.registers_up(240), ptx.registers_down(24)
    load, load_kept, load_held = (
        load_tile(tile.panels),
        load_tile(tile.panels - 1),
        load_tile(1, tile.panels - 1),
    )
    store = store_rows(tile.kind, depth, tile.ragged)
    pack = pack_bf16 if tile.kind == "bf16" else pack_f16
    offset_v, offset_q = nbytes - PANEL, 2 * (nbytes - PANEL)
    offset_g = offset_q + STAGES * nbytes
    offset_p = offset_g + 2 * nbytes
    offset_lse = offset_p + WEIGHTS
    offset_mean = offset_lse + STAGES * LINE
    offset_barriers = offset_mean + 2 * LINE
    offset_held = (
        offset_q + (STAGES - 1) * nbytes
    )  # where the boxes for the registers arrive: the last stage of queries

    @device_function
    def weigh(s, row, block, key, shift, factor, lane, lse_at, to):
        """p from s, in registers and in shared memory."""
        if causal:
            if (block + 1) * ROWS - 1 > row * ROWS + shift:
                late = i32(
                    key - row * ROWS - shift - 2 * (lane & 3)
                )  # queries from here on see the key
                for i in range(PIECES):
                    s[4 * i] = s[4 * i] if late <= 8 * i else f32(HIDDEN)
                    s[4 * i + 1] = s[4 * i + 1] if late <= 8 * i + 1 else f32(HIDDEN)
                    s[4 * i + 2] = s[4 * i + 2] if late <= 8 * i - 8 else f32(HIDDEN)
                    s[4 * i + 3] = s[4 * i + 3] if late <= 8 * i - 7 else f32(HIDDEN)
        for i in range(PIECES):
            x, y = load_shared_float_2(i32(lse_at + 32 * i))
            s[4 * i] = exp2(s[4 * i] * factor - x)
            s[4 * i + 1] = exp2(s[4 * i + 1] * factor - y)
            s[4 * i + 2] = exp2(s[4 * i + 2] * factor - x)
            s[4 * i + 3] = exp2(s[4 * i + 3] * factor - y)
            store_shared_float_4(
                i32(to + 2048 * i), s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]
            )

    @device_function
    def slope(d, mean_at, weights):
        """ds from dp and p, in two halves: all of p at once would not find registers."""
        for half in range(2):
            for i in range(half * (PIECES // 2), (half + 1) * (PIECES // 2)):
                x, y = load_shared_float_2(i32(mean_at + 32 * i))
                p0, p1, p2, p3 = load_shared_float_4(i32(weights + 2048 * i))
                d[4 * i] = p0 * (d[4 * i] - x)
                d[4 * i + 1] = p1 * (d[4 * i + 1] - y)
                d[4 * i + 2] = p2 * (d[4 * i + 2] - x)
                d[4 * i + 3] = p3 * (d[4 * i + 3] - y)
            keep_here(d, half)

    @device_function
    def rounded(p, s):
        for i in range(PACKED):
            p[i] = pack(s[2 * i], s[2 * i + 1])

    @device_function
    def take(a, at):
        """The operand A of the box at a shared address, where the thread's row begins. Whoever has
        taken it says so (`taken`) when a product has used it, not before: ldmatrix may still be
        reading when its thread arrives at a barrier."""
        for i in range(4):
            a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3] = load_matrix_4(i32(at ^ (32 * i)))

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath={"contract"})
    def attention_grad_wide_keys(
        map_g,
        map_q,
        map_k,
        map_v,
        query_lengths,
        key_lengths,
        lse2,
        mean,
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
        factor,
        scale,
    ):
        """map_g, map_q: of g and q (B, H, Sq, D), map_k, map_v: of k and v (B, Hkv, Sk, D). lengths
        (B,). lse2, mean (B H, padded), flat. dk, dv (B, Hkv, Sk, D), any strides of rows. shares:
        Hkv; repeats: H / Hkv; rows: Sq; keys: Sk; tiles_k, tiles_q: of a head; together: heads
        whose blocks begin by turns; all_shares: B Hkv; factor: scale log2 e.
        """
        shared = cuda.shared.array(0, types.uint8)
        base = shared_address(
            shared
        )  # the system keeps the first 1,024 bytes of the window: this is a multiple of 1,024
        k_full = i32(base + offset_barriers)
        v_full, p_full, p_empty, taken = (
            i32(k_full + 8),
            i32(k_full + 16),
            i32(k_full + 24),
            i32(k_full + 32),
        )
        g_full, g_empty = i32(k_full + 40), i32(k_full + 56)
        q_full, q_empty = i32(k_full + 72), i32(k_full + 72 + 8 * STAGES)
        thread = i32(cuda.threadIdx.x)
        group = uniform(thread >> 7)
        if thread == 0:
            ptx.barrier_init(k_full, 1)
            ptx.barrier_init(v_full, 1)
            ptx.barrier_init(
                p_full, 128
            )  # every thread: compute-sanitizer follows nobody who arrives for others
            ptx.barrier_init(p_empty, 128)
            ptx.barrier_init(taken, 4 * WARPGROUPS)  # every warp
            for stage in range(2):
                ptx.barrier_init(g_full + 8 * stage, 1)
                ptx.barrier_init(g_empty + 8 * stage, EMPTY)
            for stage in range(STAGES):
                ptx.barrier_init(q_full + 8 * stage, 1)
                ptx.barrier_init(q_empty + 8 * stage, EMPTY)
            ptx.fence_barrier_init()
            ptx.fence_async_shared()
        cuda.syncthreads()
        from_end, share = find_tile(i32(cuda.blockIdx.x), tiles_k, all_shares, together)
        block = i32(tiles_k - 1 - from_end)  # of keys: the first are seen by most
        batch = divide_unsigned(share, shares)
        within = i32(share - batch * shares)
        present, filled = bounds_of(query_lengths, key_lengths, batch, rows, keys)
        visited = tiles_q  # tiles of queries in which there are some
        if lengths:
            visited = divide_unsigned(i32(present + ROWS - 1), i32(ROWS))
            if block * ROWS >= filled or present == 0:  # nobody sees these keys
                at = global_address(dk) + i64(batch) * dk.strides[0] + i64(within) * dk.strides[1]
                nothing(
                    (at, i64(dk.strides[2])),
                    keys,
                    i32(block * ROWS),
                    ROWS,
                    i32(dk.shape[3]),
                    thread,
                )
                at = global_address(dv) + i64(batch) * dv.strides[0] + i64(within) * dv.strides[1]
                nothing(
                    (at, i64(dv.strides[2])),
                    keys,
                    i32(block * ROWS),
                    ROWS,
                    i32(dv.shape[3]),
                    thread,
                )
                return
        shift = i32(filled - present)  # query i sees keys up to i + shift
        first = i32(0)
        if causal:
            first = i32(
                min(divide_unsigned(i32(max(block * ROWS - shift, 0)), i32(ROWS)), visited - 1)
            )
        left = i32((visited - first) * repeats)
        row = i32(visited - 1)

        if (
            group == 0
        ):  # ---------------------------------------------------------------------- the producer
            fewer()
            if thread == 0:
                ptx.barrier_expect(k_full, nbytes)
                load_kept(base, map_k, i32(block * ROWS), within, batch, k_full)
                load_held(i32(base + offset_held), map_k, i32(block * ROWS), within, batch, k_full)
                head = i32(within * repeats)
                line = i64(share) * repeats * padded
                stage, phase, g_stage, g_phase = i32(0), i32(1), i32(0), i32(1)
                begun = i32(0)
                while left > 0:
                    left = i32(left - 1)
                    ptx.barrier_wait(i32(q_empty + 8 * stage), phase)
                    if stage == STAGES - 1:
                        ptx.barrier_wait(taken, 0)  # a matter of the first time alone
                    full = i32(q_full + 8 * stage)
                    ptx.barrier_expect(full, nbytes + LINE)
                    load(
                        i32(base + offset_q + stage * nbytes),
                        map_q,
                        i32(row * ROWS),
                        head,
                        batch,
                        full,
                    )
                    ptx.bulk_load(
                        i32(base + offset_lse + stage * LINE),
                        global_address(lse2) + 4 * (line + row * ROWS),
                        LINE,
                        full,
                    )
                    if begun == 0:
                        begun = i32(1)
                        ptx.barrier_expect(v_full, nbytes)
                        load_kept(
                            i32(base + offset_v), map_v, i32(block * ROWS), within, batch, v_full
                        )
                        load_held(
                            i32(base + offset_held + PANEL),
                            map_v,
                            i32(block * ROWS),
                            within,
                            batch,
                            v_full,
                        )
                    ptx.barrier_wait(i32(g_empty + 8 * g_stage), g_phase)
                    full = i32(g_full + 8 * g_stage)
                    ptx.barrier_expect(full, nbytes + LINE)
                    load(
                        i32(base + offset_g + g_stage * nbytes),
                        map_g,
                        i32(row * ROWS),
                        head,
                        batch,
                        full,
                    )
                    ptx.bulk_load(
                        i32(base + offset_mean + g_stage * LINE),
                        global_address(mean) + 4 * (line + row * ROWS),
                        LINE,
                        full,
                    )
                    stage, phase = tma_pipeline.advance(stage, phase, STAGES)
                    g_stage, g_phase = tma_pipeline.advance(g_stage, g_phase, 2)
                    row = i32(row - 1)
                    if row < first:
                        row = i32(visited - 1)
                        head = i32(head + 1)
                        line += padded
        # -------------------------------------------------------------------------------- the
        # consumers
        else:
            more()
            mine = i32(thread & 127)
            lane = i32(thread & 31)
            key = i32(block * ROWS + (mine >> 5) * 16 + (lane >> 2))  # the thread's first key
            s = cuda.local.array(SCORES, f32)
            p = cuda.local.array(PACKED, i32)
            to = cuda.local.array(outputs, f32)
            for i in range(outputs):
                to[i] = f32(0)
            a = cuda.local.array(PACKED, i32)
            q_tile, g_tile = i32(base + offset_q), i32(base + offset_g)
            q_rows, g_rows = (
                tma_pipeline.descriptor(q_tile, by_rows),
                tma_pipeline.descriptor(g_tile, by_rows),
            )
            q_columns, g_columns = (
                tma_pipeline.descriptor(q_tile, by_columns),
                tma_pipeline.descriptor(g_tile, by_columns),
            )
            lse_at, mean_at = (
                i32(base + offset_lse + 8 * (lane & 3)),
                i32(base + offset_mean + 8 * (lane & 3)),
            )
            weights = i32(base + offset_p + 16 * mine)
            # ldmatrix: lane l names row l % 8 of 8 x 8 tile l / 8; tiles 0 and 1 are below each
            # other, 2 and 3 beside them
            held_at = i32(
                base
                + offset_held
                + ((mine >> 5) * 16 + (lane & 15)) * tma_pipeline.ROW
                + (((lane >> 4) ^ (lane & 7)) << 4)
            )
            stage, phase, g_stage, g_phase, p_phase = i32(0), i32(0), i32(0), i32(0), i32(0)
            of = i64(key)
            if group == 1:  # s, p and dv
                k_rows = tma_pipeline.descriptor(base, by_rows)
                ptx.barrier_wait(k_full, 0)
                take(a, held_at)
                ptx.barrier_wait(q_full, 0)
                if lengths:
                    if (row + 1) * ROWS > present:
                        clear(q_tile, i32(present - row * ROWS), mine, 1)
                multiply_held(s, 0, a, 0, q_rows)
                multiply_kept(s, 0, k_rows, q_rows)
                scores_done(s, 0)
                leave(taken, lane)
                weigh(s, row, block, key, shift, factor, lane, lse_at, weights)
                ptx.barrier_arrive(p_full)
                ptx.barrier_arrive(q_empty)
                rounded(p, s)
                while left > 1:
                    left = i32(left - 1)
                    before = row
                    row = i32(row - 1)
                    if row < first:
                        row = i32(visited - 1)
                    stage, phase = tma_pipeline.advance(stage, phase, STAGES)
                    ptx.barrier_wait(i32(q_full + 8 * stage), phase)
                    if lengths:
                        if (row + 1) * ROWS > present:
                            clear(i32(q_tile + stage * nbytes), i32(present - row * ROWS), mine, 1)
                    multiply_held(s, 0, a, 0, q_rows + i64(stage * (nbytes >> 4)))
                    multiply_kept(s, 0, k_rows, q_rows + i64(stage * (nbytes >> 4)))
                    ptx.barrier_wait(i32(g_full + 8 * g_stage), g_phase)
                    if lengths:
                        if (before + 1) * ROWS > present:
                            clear(
                                i32(g_tile + g_stage * nbytes),
                                i32(present - before * ROWS),
                                mine,
                                1,
                            )
                    multiply_rows(to, 0, p, 0, g_columns + i64(g_stage * (nbytes >> 4)))
                    all_but_outputs(s, 0)
                    ptx.barrier_wait(p_empty, p_phase)
                    p_phase = i32(p_phase ^ 1)
                    weigh(
                        s, row, block, key, shift, factor, lane, i32(lse_at + stage * LINE), weights
                    )
                    ptx.barrier_arrive(p_full)
                    ptx.barrier_arrive(i32(q_empty + 8 * stage))
                    outputs_done(to, 0)
                    hold_packed(p, 0)
                    leave(i32(g_empty + 8 * g_stage), lane)
                    g_stage, g_phase = tma_pipeline.advance(g_stage, g_phase, 2)
                    rounded(p, s)
                ptx.barrier_wait(i32(g_full + 8 * g_stage), g_phase)
                if lengths:
                    if (row + 1) * ROWS > present:
                        clear(i32(g_tile + g_stage * nbytes), i32(present - row * ROWS), mine, 1)
                multiply_rows(to, 0, p, 0, g_columns + i64(g_stage * (nbytes >> 4)))
                outputs_done(to, 0)
                if lengths:
                    keep(to, key < filled, key + 8 < filled)
                at = (
                    global_address(dv)
                    + i64(batch) * dv.strides[0]
                    + i64(within) * dv.strides[1]
                    + of * dv.strides[2]
                )
                store(
                    to,
                    at,
                    8 * dv.strides[2],
                    f32(1),
                    f32(1),
                    key < keys,
                    key + 8 < keys,
                    lane,
                    i32(dv.shape[3]),
                )
            else:  # dp, ds and dk
                v_rows = tma_pipeline.descriptor(i32(base + offset_v), by_rows)
                ptx.barrier_wait(v_full, 0)
                take(a, i32(held_at + PANEL))
                ptx.barrier_wait(g_full, 0)
                if lengths:
                    if (row + 1) * ROWS > present:
                        clear(g_tile, i32(present - row * ROWS), mine, 2)
                multiply_held(s, 0, a, 0, g_rows)
                multiply_kept(s, 0, v_rows, g_rows)
                scores_done(s, 0)
                leave(taken, lane)
                ptx.barrier_wait(p_full, 0)
                slope(s, mean_at, weights)
                ptx.barrier_arrive(p_empty)
                ptx.barrier_arrive(g_empty)
                rounded(p, s)
                while left > 1:
                    left = i32(left - 1)
                    before = row
                    row = i32(row - 1)
                    if row < first:
                        row = i32(visited - 1)
                    g_stage, g_phase = tma_pipeline.advance(g_stage, g_phase, 2)
                    p_phase = i32(p_phase ^ 1)
                    ptx.barrier_wait(i32(g_full + 8 * g_stage), g_phase)
                    if lengths:
                        if (row + 1) * ROWS > present:
                            clear(
                                i32(g_tile + g_stage * nbytes), i32(present - row * ROWS), mine, 2
                            )
                    multiply_held(s, 0, a, 0, g_rows + i64(g_stage * (nbytes >> 4)))
                    multiply_kept(s, 0, v_rows, g_rows + i64(g_stage * (nbytes >> 4)))
                    ptx.barrier_wait(i32(q_full + 8 * stage), phase)
                    if lengths:
                        if (before + 1) * ROWS > present:
                            clear(
                                i32(q_tile + stage * nbytes), i32(present - before * ROWS), mine, 2
                            )
                    multiply_rows(to, 0, p, 0, q_columns + i64(stage * (nbytes >> 4)))
                    all_but_outputs(s, 0)
                    ptx.barrier_wait(p_full, p_phase)
                    slope(s, i32(mean_at + g_stage * LINE), weights)
                    ptx.barrier_arrive(p_empty)
                    ptx.barrier_arrive(i32(g_empty + 8 * g_stage))
                    outputs_done(to, 0)
                    hold_packed(p, 0)
                    leave(i32(q_empty + 8 * stage), lane)
                    stage, phase = tma_pipeline.advance(stage, phase, STAGES)
                    rounded(p, s)
                ptx.barrier_wait(i32(q_full + 8 * stage), phase)
                if lengths:
                    if (row + 1) * ROWS > present:
                        clear(i32(q_tile + stage * nbytes), i32(present - row * ROWS), mine, 2)
                multiply_rows(to, 0, p, 0, q_columns + i64(stage * (nbytes >> 4)))
                outputs_done(to, 0)
                if lengths:
                    keep(to, key < filled, key + 8 < filled)
                at = (
                    global_address(dk)
                    + i64(batch) * dk.strides[0]
                    + i64(within) * dk.strides[1]
                    + of * dk.strides[2]
                )
                store(
                    to,
                    at,
                    8 * dk.strides[2],
                    scale,
                    scale,
                    key < keys,
                    key + 8 < keys,
                    lane,
                    i32(dk.shape[3]),
                )

    return attention_grad_wide_keys
