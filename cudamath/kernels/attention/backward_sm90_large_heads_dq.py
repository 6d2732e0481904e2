"""The gradient of queries of attention for heads of more than 128 numbers: see
backward_sm90_large_heads_dkv.py."""

from __future__ import annotations

import functools
from typing import Any

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib import tma_pipeline
from ..ptx import sm90 as ptx
from ..ptx.sm80 import divide_unsigned, exp2, global_address, pack_bf16, pack_f16, shared_address
from .backward_sm90_large_heads_dkv import (
    DOWN,
    OWNED,
    PACKED,
    PANEL,
    PIECES,
    ROWS,
    SCORES,
    THREADS,
    WARPGROUPS,
    Tile,
    keep_here,
    keep_rows,
    load_tile,
    nothing,
)
from .forward_sm90 import (
    HIDDEN,
    bounds,
    clear_rows,
    find_tile,
    leave,
    row_steps,
    store_rows,
    uniform,
)

i32, i64, f32 = types.int32, types.int64, types.float32


@functools.cache
def attention_grad_wide_queries(tile: Tile) -> Any:
    """dq. See Tile."""
    causal, depth, nbytes, lengths = tile.causal, tile.depth, tile.nbytes, tile.lengths
    masked = causal or tile.tail or lengths
    bounds_of, clear, keep = bounds(lengths), clear_rows(ROWS, tile.panels), keep_rows(depth // 2)
    outputs = depth // 2
    multiply_scores = ptx.wgmma(tile.kind, ROWS, tile.along, tile.along, zero=True)
    multiply_keys = ptx.wgmma_registers(tile.kind, depth, DOWN, trans_b=True)
    by_rows, by_columns = tma_pipeline.descriptor_base(), tma_pipeline.descriptor_base(PANEL)
    all_but_two, outputs_done = ptx.wgmma_wait(2, outputs), ptx.wgmma_wait(0, outputs)
    all_but_one, scores_done = ptx.wgmma_wait(1, SCORES), ptx.wgmma_wait(0, SCORES)
    hold_packed = ptx.hold(PACKED, i32)
    more, fewer = ptx.registers_up(240), ptx.registers_down(24)
    hide, _, _ = row_steps(ROWS, HIDDEN)
    load, store = load_tile(tile.panels), store_rows(tile.kind, depth, tile.ragged)
    pack = pack_bf16 if tile.kind == "bf16" else pack_f16
    offset_g, offset_k, offset_v = 2 * nbytes, 4 * nbytes, 6 * nbytes
    offset_barriers = 7 * nbytes

    @device_function
    def weigh(s, block, visible, last0, last1, lse0, lse1, factor, lane):
        """p from s. visible: keys that all queries of the warpgroup see; last0, last1: the last key
        that each of the thread's two queries sees."""
        if masked:
            if (block + 1) * ROWS > visible:
                start = i32(block * ROWS + 2 * (lane & 3))
                hide(s, i32(last0 - start), i32(last1 - start))
        for i in range(PIECES):
            s[4 * i] = exp2(s[4 * i] * factor - lse0)
            s[4 * i + 1] = exp2(s[4 * i + 1] * factor - lse0)
            s[4 * i + 2] = exp2(s[4 * i + 2] * factor - lse1)
            s[4 * i + 3] = exp2(s[4 * i + 3] * factor - lse1)

    @device_function
    def slope(d, s, mean0, mean1):
        """ds from dp and p."""
        for i in range(PIECES):
            d[4 * i] = s[4 * i] * (d[4 * i] - mean0)
            d[4 * i + 1] = s[4 * i + 1] * (d[4 * i + 1] - mean0)
            d[4 * i + 2] = s[4 * i + 2] * (d[4 * i + 2] - mean1)
            d[4 * i + 3] = s[4 * i + 3] * (d[4 * i + 3] - mean1)

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath={"contract"})
    def attention_grad_wide_queries(
        map_g,
        map_q,
        map_k,
        map_v,
        query_lengths,
        key_lengths,
        lse2,
        mean,
        dq,
        heads,
        repeats,
        rows,
        keys,
        padded,
        tiles,
        together,
        all_heads,
        factor,
        scale,
    ):
        """Arguments of attention_grad_wide_keys; dq (B, H, Sq, D), any strides of rows. heads: H;
        rows: Sq; tiles: of 128 queries in a head; all_heads: B H."""
        shared = cuda.shared.array(0, types.uint8)
        base = shared_address(
            shared
        )  # the system keeps the first 1,024 bytes of the window: this is a multiple of 1,024
        q_full = i32(base + offset_barriers)
        g_full, v_full, v_empty = i32(q_full + 8), i32(q_full + 16), i32(q_full + 24)
        k_full, k_empty = i32(q_full + 32), i32(q_full + 48)
        thread = i32(cuda.threadIdx.x)
        group = uniform(thread >> 7)
        if thread == 0:
            ptx.barrier_init(q_full, 1)
            ptx.barrier_init(g_full, 1)
            ptx.barrier_init(v_full, 1)
            ptx.barrier_init(v_empty, 4 * WARPGROUPS)  # every warp
            for stage in range(2):
                ptx.barrier_init(k_full + 8 * stage, 1)
                ptx.barrier_init(k_empty + 8 * stage, 4 * WARPGROUPS)
            ptx.fence_barrier_init()
            ptx.fence_async_shared()
        cuda.syncthreads()
        row, head = find_tile(i32(cuda.blockIdx.x), tiles, all_heads, together)
        row = i32(row * OWNED)
        batch = divide_unsigned(head, heads)
        within = i32(head - batch * heads)
        mine_row = i32(row + max(group - 1, 0) * ROWS)  # the warpgroup's first query
        if group == 0:
            mine_row = i32(row + ROWS)  # the producer loads what the last one wants
        present, filled = bounds_of(query_lengths, key_lengths, batch, rows, keys)
        if lengths:
            if row >= present or filled == 0:  # no key is seen
                at = global_address(dq) + i64(batch) * dq.strides[0] + i64(within) * dq.strides[1]
                nothing((at, i64(dq.strides[2])), rows, row, OWNED, i32(dq.shape[3]), thread)
                return
        shift = i32(filled - present)  # query i sees keys up to i + shift
        end = filled
        if causal:
            end = i32(max(min(filled, mine_row + ROWS + shift), 1))
        left = divide_unsigned(i32(end + ROWS - 1), i32(ROWS))  # tiles of keys

        if (
            group == 0
        ):  # ---------------------------------------------------------------------- the producer
            fewer()
            if thread == 0:
                share = divide_unsigned(within, repeats)
                ptx.barrier_expect(q_full, 2 * nbytes)
                load(base, map_q, row, within, batch, q_full)
                load(i32(base + nbytes), map_q, i32(row + ROWS), within, batch, q_full)
                stage, phase, v_phase, at = i32(0), i32(1), i32(1), i32(0)
                while left > 0:
                    left = i32(left - 1)
                    ptx.barrier_wait(i32(k_empty + 8 * stage), phase)
                    full = i32(k_full + 8 * stage)
                    ptx.barrier_expect(full, nbytes)
                    load(i32(base + offset_k + stage * nbytes), map_k, at, share, batch, full)
                    if at == 0:
                        ptx.barrier_expect(g_full, 2 * nbytes)
                        load(i32(base + offset_g), map_g, row, within, batch, g_full)
                        load(
                            i32(base + offset_g + nbytes),
                            map_g,
                            i32(row + ROWS),
                            within,
                            batch,
                            g_full,
                        )
                    ptx.barrier_wait(v_empty, v_phase)
                    ptx.barrier_expect(v_full, nbytes)
                    load(i32(base + offset_v), map_v, at, share, batch, v_full)
                    stage, phase = tma_pipeline.advance(stage, phase, 2)
                    v_phase = i32(v_phase ^ 1)
                    at = i32(at + ROWS)
        # -------------------------------------------------------------------------------- the
        # consumers
        else:
            more()
            mine = i32(thread & 127)
            lane = i32(thread & 31)
            line = i32(mine_row + (mine >> 5) * 16 + (lane >> 2))  # the thread's first query
            s = cuda.local.array(SCORES, f32)
            d = cuda.local.array(SCORES, f32)
            p = cuda.local.array(PACKED, i32)
            to = cuda.local.array(outputs, f32)
            for i in range(outputs):
                to[i] = f32(0)
            visible, last0, last1 = filled, i32(filled - 1), i32(filled - 1)
            if causal:
                visible = i32(min(visible, mine_row + shift + 1))
                last0, last1 = i32(min(last0, line + shift)), i32(min(last1, line + 8 + shift))
            place = i64(head) * padded + line
            lse0, lse1, mean0, mean1 = lse2[place], lse2[place + 8], mean[place], mean[place + 8]
            q_rows = tma_pipeline.descriptor(i32(base + (group - 1) * nbytes), by_rows)
            g_rows = tma_pipeline.descriptor(i32(base + offset_g + (group - 1) * nbytes), by_rows)
            k_rows, v_rows = (
                tma_pipeline.descriptor(i32(base + offset_k), by_rows),
                tma_pipeline.descriptor(i32(base + offset_v), by_rows),
            )
            k_columns = tma_pipeline.descriptor(i32(base + offset_k), by_columns)
            stage, phase, v_phase, block = i32(0), i32(0), i32(0), i32(0)
            ptx.barrier_wait(q_full, 0)
            ptx.barrier_wait(k_full, 0)
            if lengths:
                if ROWS > filled:
                    clear(i32(base + offset_k), filled, mine, group)
            multiply_scores(s, 0, q_rows, k_rows)
            ptx.barrier_wait(g_full, 0)
            ptx.barrier_wait(v_full, 0)
            if lengths:
                if ROWS > filled:
                    clear(i32(base + offset_v), filled, mine, group)
            multiply_scores(d, 0, g_rows, v_rows)
            all_but_one(s, 0)
            weigh(s, block, visible, last0, last1, lse0, lse1, factor, lane)
            scores_done(d, 0)
            leave(v_empty, lane)
            slope(d, s, mean0, mean1)
            for i in range(PACKED):
                p[i] = pack(d[2 * i], d[2 * i + 1])
            while left > 1:
                left = i32(left - 1)
                block = i32(block + 1)
                before = stage
                stage, phase = tma_pipeline.advance(stage, phase, 2)
                v_phase = i32(v_phase ^ 1)
                multiply_keys(to, 0, p, 0, k_columns + i64(before * (nbytes >> 4)))
                ptx.barrier_wait(i32(k_full + 8 * stage), phase)
                if lengths:
                    if (block + 1) * ROWS > filled:
                        clear(
                            i32(base + offset_k + stage * nbytes),
                            i32(filled - block * ROWS),
                            mine,
                            group,
                        )
                multiply_scores(s, 0, q_rows, k_rows + i64(stage * (nbytes >> 4)))
                ptx.barrier_wait(v_full, v_phase)
                if lengths:
                    if (block + 1) * ROWS > filled:
                        clear(i32(base + offset_v), i32(filled - block * ROWS), mine, group)
                multiply_scores(d, 0, g_rows, v_rows)
                all_but_two(to, 0)
                hold_packed(p, 0)
                leave(i32(k_empty + 8 * before), lane)
                all_but_one(s, 0)
                weigh(s, block, visible, last0, last1, lse0, lse1, factor, lane)
                keep_here(s, 0)
                keep_here(s, 1)
                scores_done(d, 0)
                leave(v_empty, lane)
                slope(d, s, mean0, mean1)
                for i in range(PACKED):
                    p[i] = pack(d[2 * i], d[2 * i + 1])
            multiply_keys(to, 0, p, 0, k_columns + i64(stage * (nbytes >> 4)))
            outputs_done(to, 0)
            if lengths:
                keep(to, line < present, line + 8 < present)
            at = (
                global_address(dq)
                + i64(batch) * dq.strides[0]
                + i64(within) * dq.strides[1]
                + i64(line) * dq.strides[2]
            )
            store(
                to,
                at,
                8 * dq.strides[2],
                scale,
                scale,
                line < rows,
                line + 8 < rows,
                lane,
                i32(dq.shape[3]),
            )

    return attention_grad_wide_queries
