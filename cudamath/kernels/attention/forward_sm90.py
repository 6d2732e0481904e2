"""Attention forward on the tensor cores of compute capability 9.0.

The idea. Per tile of queries attention is two matrix products per step, s = q k^T and o += p v,
with the softmax between them. The tensor cores could do both products in the time the exponentials
take, so everything is about doing the two at once:

    a producer warp               issues TMA loads of tiles of q, k and v; two stages of k and v are
                                  in flight (lib/tma_pipeline.py)
    2 or 3 consumer warpgroups    64 queries each. wgmma leaves s in registers, and reads p as its A
                                  operand *from* registers: rounded to 16 bits, a result's registers
                                  are an operand's
    scores one step ahead         s(j + 1) = q k(j + 1)^T and o += p(j) v(j) are issued together;
                                  the softmax of s(j + 1) runs while the second product is in flight
    lazy rescaling                o is multiplied by exp(m - m') only when a row's maximum has grown
                                  by more than 2^8: below that the weights stay small enough for 16
                                  bits, and the sum is taken with the same base
    persistent blocks             a block's next queries are loaded while the present ones are in
                                  work
    masks                         are read where they lie, two columns at once, and applied to the
                                  scores in registers

With a causal mask, tiles late in the sequence have most work. Rows that do not fill a tile come
first, where there is least; a warpgroup without rows reads one tile of keys only. Tiles are sorted
from long to short, and a block takes the next one by a counter in memory, so that all blocks end at
about the same time (a fixed assignment was a tenth slower). Heads are taken in groups whose keys
and values fit into the L2 cache together.

Rows of 16-bit numbers, D a multiple of 8 up to 256: TMA fills the rest of 64, 128, 192 or 256
columns with zeros, and queries and keys beyond the ends as well. Exponents are those of 2: exp(x) =
2^(x log2 e), one instruction.

The floor: 4 Sq Sk D operations (half of it if causal) at the speed of the tensor cores, some 700
TFLOP/s at the power limit of an H200, and one exponential per score: 16 per clock and
multiprocessor, which at D = 64 take as long as the products.

Measurements are in benchmarks/results (rows attention_*). Two things the compiler does not find out
by itself:

    uniform control          the values that the producer notes are shuffled (`uniform`), so that
                             the compiler knows them to be uniform across a warp. It then computes
                             descriptors and loop counters once per warp, beside the arithmetic: an
                             eighth of the inner loop's instructions (which are the limit at D = 64:
                             13 % more of them cost 10 %)
    exponentials first       the compiler moves arithmetic across waits, and had put the
                             exponentials behind the wait for the other product. A branch on their
                             sum, which is never taken, keeps them where they are written

Sources: Dao, "FlashAttention-2", 2023; Shah et al., "FlashAttention-3", 2024.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import FULL, device_function
from ..compiler.lazy_numba import cuda, types
from ..lib import tma_pipeline
from ..lib.integers import blocks
from ..ptx import sm90 as ptx
from ..ptx.sm80 import (
    any_lane,
    atomic_add,
    divide_unsigned,
    exp2,
    global_address,
    load_global,
    load_global_float_2,
    load_global_half,
    load_shared_4,
    log2,
    maximum,
    pack_bf16,
    pack_f16,
    reciprocal,
    shuffle_xor,
    shuffle_xor_float,
    store_global_4,
    store_global_float,
    store_global_float_2,
    store_shared_4,
    unpack_bf16,
    unpack_f16,
)
from .merge import LN2, merge_launch
from .problem import HIDDEN, Operands, Problem, result_like
from .tiles_sm90 import STAGES, Tile, cycles_of, splits_of, tiles_of

i32, i64, f32 = types.int32, types.int64, types.float32

NOTHING = -1.0e29  # a row whose maximum is below it sees no key
OUT_OF_RANGE = -math.inf, -3.0e38  # the same two where a mask may add large numbers
GROWTH = 8.0  # powers of two by which a row's maximum may grow before its sums are rescaled
SOFTMAX_FIRST = True  # exponentials before the wait for the product of weights and values


@cuda.jit
def attention_begin(counter):
    """counter: (1,) int32; no tile has been taken yet. One thread."""
    counter[0] = 0


@device_function
def find_tile(t, tiles, heads, together):
    """(tile of queries, head) number t: groups of `together` of the heads, in a group from the last
    tile to the first, in a tile head by head. `tiles`: of a head; `heads`: of all batch elements.
    """
    group = divide_unsigned(t, i32(together * tiles))
    rest = i32(t - group * i32(together * tiles))
    width = i32(min(together, heads - group * together))
    row = divide_unsigned(rest, width)
    return i32(tiles - 1 - row), i32(group * together + rest - row * width)


@functools.cache
def store_rows(kind: str, depth: int, ragged: bool) -> Any:
    """A device function that rounds a warpgroup's 64 x depth accumulators to 16 bits and stores the
    two rows of a thread.

    (c, address of the thread's first row, bytes of 8 rows, scale of it and of the row 8 below,
    whether they exist, lane, columns). In wgmma's registers a lane has 2 of 8 neighbouring columns,
    its 3 neighbours the others. Four lanes transpose 4 x 4 pairs among them, in two rounds of
    exchange, and then have 8 columns each: 16 bytes.
    """
    pack = pack_bf16 if kind == "bf16" else pack_f16

    @device_function
    def store_rows(c, at, below, scale0, scale1, first, second, lane, columns):
        odd, high = lane & 1, lane & 2
        at = i64(at + 16 * (lane & 3))
        for i in range(depth // 32):
            for half in range(2):
                scale = scale0 if half == 0 else scale1
                n = 16 * i + 2 * half
                v0 = pack(c[n] * scale, c[n + 1] * scale)
                v1 = pack(c[n + 4] * scale, c[n + 5] * scale)
                v2 = pack(c[n + 8] * scale, c[n + 9] * scale)
                v3 = pack(c[n + 12] * scale, c[n + 13] * scale)
                x = shuffle_xor(v0 if odd else v1, 1)
                y = shuffle_xor(v2 if odd else v3, 1)
                if odd:
                    v0, v2 = x, y
                else:
                    v1, v3 = x, y
                x = shuffle_xor(v0 if high else v2, 2)
                y = shuffle_xor(v1 if high else v3, 2)
                if high:
                    v0, v1 = x, y
                else:
                    v2, v3 = x, y
                if (first if half == 0 else second) and (
                    not ragged or 32 * i + 8 * (lane & 3) < columns
                ):
                    store_global_4(
                        at + 64 * i if half == 0 else at + below + 64 * i, v0, v1, v2, v3
                    )

    return store_rows


@functools.cache
def keep_rows(width: int, ragged: bool) -> Any:
    """A device function that stores the two rows of a thread of a warpgroup's accumulators as they
    are: (c, address of the thread's first pair, bytes of 8 rows, whether the rows exist, lane,
    columns)."""

    @device_function
    def keep_rows(c, at, below, first, second, lane, columns):
        for i in range(width // 8):
            if not ragged or 8 * i + 2 * (lane & 3) < columns:
                if first:
                    store_global_float_2(at + 32 * i, c[4 * i], c[4 * i + 1])
                if second:
                    store_global_float_2(at + below + 32 * i, c[4 * i + 2], c[4 * i + 3])

    return keep_rows


@device_function
def uniform(x):
    """An int32 that all lanes of a warp have, in a way that the compiler knows: what follows from
    it then needs no registers of each thread, and no instructions."""
    return i32(cuda.shfl_sync(FULL, x, 0))


@device_function
def leave(barrier, lane):
    """One arrival for the warp, when all of its lanes are here."""
    cuda.syncwarp()
    if lane == 0:
        ptx.barrier_arrive(barrier)


@device_function
def each_leaves(barrier, lane):
    """One arrival for each lane."""
    ptx.barrier_arrive(barrier)


@device_function
def read_note(at):
    """Four int32 at a shared address, the same for the warp."""
    x, y, z, w = load_shared_4(at)
    return uniform(x), uniform(y), uniform(z), uniform(w)


@functools.cache
def row_steps(keys: int, hidden: float) -> tuple[Any, Any, Any]:
    """Device functions on a thread's scores of two rows, s[4 j], s[4 j + 1] of the first and s[4 j
    + 2], s[4 j + 3] of the second: hide(s, last key of each row seen, counted from the thread's
    first), largest(s), weights(s, factor, bases). hidden: the score of a key that is not seen."""
    pieces = keys // 8

    @device_function
    def hide(s, last0, last1):
        for j in range(pieces):
            s[4 * j] = s[4 * j] if last0 >= 8 * j else f32(hidden)
            s[4 * j + 1] = s[4 * j + 1] if last0 >= 8 * j + 1 else f32(hidden)
            s[4 * j + 2] = s[4 * j + 2] if last1 >= 8 * j else f32(hidden)
            s[4 * j + 3] = s[4 * j + 3] if last1 >= 8 * j + 1 else f32(hidden)

    @device_function
    def largest(s):
        x, y = maximum(s[0], s[1]), maximum(s[2], s[3])
        for j in range(1, pieces):
            x = maximum(x, maximum(s[4 * j], s[4 * j + 1]))
            y = maximum(y, maximum(s[4 * j + 2], s[4 * j + 3]))
        x = maximum(x, shuffle_xor_float(x, 1))
        y = maximum(y, shuffle_xor_float(y, 1))
        return maximum(x, shuffle_xor_float(x, 2)), maximum(y, shuffle_xor_float(y, 2))

    @device_function
    def weights(s, factor, base0, base1):
        """s = 2^(factor s - base), and the sums of it over the thread's share of both rows."""
        total0, total1 = f32(0), f32(0)
        for j in range(pieces):
            s[4 * j] = exp2(s[4 * j] * factor - base0)
            s[4 * j + 1] = exp2(s[4 * j + 1] * factor - base0)
            s[4 * j + 2] = exp2(s[4 * j + 2] * factor - base1)
            s[4 * j + 3] = exp2(s[4 * j + 3] * factor - base1)
            total0 += s[4 * j] + s[4 * j + 1]
            total1 += s[4 * j + 2] + s[4 * j + 3]
        return total0, total1

    return hide, largest, weights


@functools.cache
def bases(nothing: float) -> Any:
    """A device function: what to subtract from the exponents of a row; 0 in one that sees nothing
    yet, whose maximum is below `nothing`."""

    @device_function
    def base_of(top, factor):
        return f32(0) if top < f32(nothing) else top * factor

    return base_of


base_of = bases(NOTHING)


@functools.cache
def masked_scores(mask: str, keys: int) -> Any:
    """A device function that applies a mask to a thread's scores: of bool, or numbers of 16 or 32
    bits to add.

    (s, address of the mask's row for the thread's first row, and for the second; first column; the
    last pair of columns that is there; 1 / scale, for scores are not scaled yet). Pairs of columns
    are read at once.
    """
    boolean, half = mask == "bool", mask in ("bfloat16", "float16")
    unpack = unpack_f16 if mask == "float16" else unpack_bf16

    @device_function
    def masked_scores(s, at0, at1, column, last, unscale):
        for j in range(keys // 8):
            c = i64(min(column + 8 * j, last))
            for row in range(2):
                at = at0 if row == 0 else at1
                n = 4 * j + 2 * row
                if boolean:
                    v = load_global_half(at + c)
                    s[n] = s[n] if v & 0xFF != 0 else f32(-math.inf)
                    s[n + 1] = s[n + 1] if v >> 8 != 0 else f32(-math.inf)
                else:
                    if half:
                        x, y = unpack(load_global(at + 2 * c))
                    else:
                        x, y = load_global_float_2(at + 4 * c)
                    s[n] += x * unscale
                    s[n + 1] += y * unscale

    return masked_scores


@functools.cache
def bounds(limited: bool) -> Any:
    """A device function: (present queries, filled keys) of a batch element."""

    @device_function
    def bounds(query_lengths, key_lengths, batch, rows, keys):
        if not limited:
            return i32(rows), i32(keys)
        return i32(min(max(query_lengths[batch], 0), rows)), i32(
            min(max(key_lengths[batch], 0), keys)
        )

    return bounds


@functools.cache
def clear_rows(keys: int, panels: int, threads: int = 128) -> Any:
    """A device function by which one or more warpgroups, `threads` in all, zero the rows of a tile
    in shared memory from `first` on: what lies there may be no number at all, and 0 times that is
    none either."""

    @device_function
    def clear_rows(at, first, thread, barrier):
        for row in range(first + (thread >> 3), keys, threads // 8):
            for panel in range(panels):
                store_shared_4(
                    i32(at + (panel * keys + row) * tma_pipeline.ROW + 16 * (thread & 7)),
                    i32(0),
                    i32(0),
                    i32(0),
                    i32(0),
                )
        ptx.fence_async_shared()
        ptx.named_sync(barrier, threads)

    return clear_rows


@functools.cache
def attention_wgmma(tile: Tile) -> Any:
    """y and lse. See Tile."""
    queries, keys, depth, consumers, turns = (
        tile.queries,
        tile.keys,
        tile.depth,
        tile.consumers,
        tile.turns,
    )
    # A single note is soon overwritten: each thread says that it has read, or compute-sanitizer
    # would not see the order.
    leave_note, readers = (each_leaves, 128 * consumers) if turns == 1 else (leave, 4 * consumers)
    uneven, split = tile.uneven, tile.split
    causal, lengths, masked = tile.causal, tile.lengths, bool(tile.mask)
    masks_first = causal or tile.tail or lengths or masked
    panels = depth // 64  # boxes of 64 columns
    panel_q, panel_k = queries * tma_pipeline.ROW, keys * tma_pipeline.ROW
    bytes_q, bytes_k = panels * panel_q, panels * panel_k
    scores, packed, outputs = keys // 2, keys // 4, tile.width // 2
    steps_q = tuple(2 * (i % 4) + i // 4 * (panel_q >> 4) for i in range(tile.terms // 16))
    steps_k = tuple(2 * (i % 4) + i // 4 * (panel_k >> 4) for i in range(tile.terms // 16))
    multiply_keys = ptx.wgmma(tile.kind, keys, steps_q, steps_k, zero=True)
    multiply_values = ptx.wgmma_registers(
        tile.kind, tile.width, tuple(128 * i for i in range(keys // 16)), trans_b=True
    )
    by_keys, by_values = tma_pipeline.descriptor_base(), tma_pipeline.descriptor_base(panel_k)
    scores_done, all_but_values_done = ptx.wgmma_wait(0, scores), ptx.wgmma_wait(1, scores)
    outputs_done = ptx.wgmma_wait(0, outputs)
    hold_scores, hold_packed = ptx.hold(scores, f32), ptx.hold(packed, i32)
    more, fewer = ptx.registers_up(tile.registers[0]), ptx.registers_down(tile.registers[1])
    hidden, nothing = OUT_OF_RANGE if masked else (HIDDEN, NOTHING)
    hide, largest, weights = row_steps(keys, hidden)
    base_of, put_on = bases(nothing), masked_scores(tile.mask, keys)
    bounds_of, clear = bounds(tile.lengths), clear_rows(keys, panels)
    store = store_rows(tile.kind, tile.width, tile.ragged)
    keep = keep_rows(tile.width, tile.ragged)
    pack = pack_bf16 if tile.kind == "bf16" else pack_f16

    @cuda.jit(launch_bounds=(tile.threads, 1), fastmath={"contract"})
    def attention_wgmma(
        map_q,
        map_k,
        map_v,
        y,
        lse,
        counter,
        mask,
        query_lengths,
        key_lengths,
        heads,
        repeats,
        rows,
        columns,
        most,
        tiles,
        together,
        factor,
        unscale,
        all_heads,
        splits,
    ):
        """map_q: of q (B, H, Sq, D), map_k, map_v: of k and v (B, Hkv, Sk, D); y (B, H, Sq, D), any
        strides of rows; lse (B, H, Sq), flat. counter: (1,) int32, 0 (if `uneven`). mask: (B, H,
        Sq, Sk), any strides of rows, or anything. lengths: (B,) int32, or anything. heads: H;
        repeats: H / Hkv; rows: Sq; columns: D; most: Sk; tiles: of queries in a head; together:
        heads of a group (find_tile); factor: scale log2 e; unscale: 1 / scale; all_heads: B H;
        splits: of the keys. With `split` y is (splits, B H Sq, D) and lse (splits, B H Sq, 2), of
        which the two numbers are the base of exponents and the sum of weights, both float32, flat.
        """
        shared = cuda.shared.array(0, types.uint8)
        base = tma_pipeline.first_tile(shared)
        at_k = i32(base + turns * bytes_q)
        at_v = i32(at_k + STAGES * bytes_k)
        q_full = i32(at_v + STAGES * bytes_k)
        q_empty = i32(q_full + 16)
        k_full = i32(q_full + 32)
        k_empty, v_full, v_empty = (
            i32(k_full + 8 * STAGES),
            i32(k_full + 16 * STAGES),
            i32(k_full + 24 * STAGES),
        )
        notes = i32(q_full + 128)  # what the producer tells the consumers of a tile: eight int32
        thread = i32(cuda.threadIdx.x)
        group = uniform(thread >> 7)
        everything = i32(all_heads * splits * tiles)
        if thread == 0:
            for turn in range(turns):
                ptx.barrier_init(q_full + 8 * turn, 1)
                ptx.barrier_init(
                    q_empty + 8 * turn, readers
                )  # all lanes of all warps have read what is noted
            for stage in range(STAGES):
                ptx.barrier_init(k_full + 8 * stage, 1)
                ptx.barrier_init(v_full + 8 * stage, 1)
                ptx.barrier_init(k_empty + 8 * stage, consumers)
                ptx.barrier_init(v_empty + 8 * stage, consumers)
            ptx.fence_barrier_init()
            ptx.fence_async_shared()
        cuda.syncthreads()

        if (
            group == 0
        ):  # ---------------------------------------------------------------------- the producer
            fewer()
            if thread == 0:
                stage, phase, turn, q_phase = i32(0), i32(1), i32(0), i32(1)
                t = i32(cuda.blockIdx.x)
                while t < everything:
                    row, head = find_tile(t, tiles, i32(all_heads * splits), together)
                    piece = i32(0)
                    if split:
                        piece = i32(head - divide_unsigned(head, splits) * splits)
                        head = divide_unsigned(head, splits)
                    batch = divide_unsigned(head, heads)
                    within = i32(head - batch * heads)
                    shares = divide_unsigned(within, repeats)
                    row = i32(row * queries)
                    # aligned at the end: rows that do not exist come before the first, where there
                    # is least to do
                    if causal:
                        row = i32(row + rows - tiles * queries)
                    present, filled = bounds_of(query_lengths, key_lengths, batch, rows, most)
                    end = filled
                    if causal:
                        end = i32(min(filled, min(row + queries, present) + filled - present))
                    count = i32(max(divide_unsigned(i32(max(end, 0) + keys - 1), i32(keys)), 1))
                    begin = i32(0)
                    if split:  # a part without tiles gets the one behind them, which nobody sees
                        each = divide_unsigned(i32(count + splits - 1), splits)
                        begin = i32(min(piece * each, count))
                        count = i32(max(min(begin + each, count), begin + 1))
                    full, note = i32(q_full + 8 * turn), i32(notes + 32 * turn)
                    ptx.barrier_wait(i32(q_empty + 8 * turn), q_phase)
                    store_shared_4(note, row, head, count, present)
                    store_shared_4(i32(note + 16), filled, begin, piece, i32(0))
                    ptx.barrier_expect(full, bytes_q)
                    for panel in range(panels):
                        ptx.tma_load_4d(
                            i32(base + turn * bytes_q + panel * panel_q),
                            map_q,
                            i32(64 * panel),
                            row,
                            within,
                            batch,
                            full,
                        )
                    turn, q_phase = tma_pipeline.advance(turn, q_phase, turns)
                    following = i32(t + cuda.gridDim.x)
                    while count > begin:
                        count = i32(count - 1)
                        if uneven and count == begin:
                            following = i32(atomic_add(global_address(counter), 1) + cuda.gridDim.x)
                        ptx.barrier_wait(i32(k_empty + 8 * stage), phase)
                        ptx.barrier_expect(i32(k_full + 8 * stage), bytes_k)
                        for panel in range(panels):
                            ptx.tma_load_4d(
                                i32(at_k + stage * bytes_k + panel * panel_k),
                                map_k,
                                i32(64 * panel),
                                i32(count * keys),
                                shares,
                                batch,
                                i32(k_full + 8 * stage),
                            )
                        ptx.barrier_wait(i32(v_empty + 8 * stage), phase)
                        ptx.barrier_expect(i32(v_full + 8 * stage), bytes_k)
                        for panel in range(panels):
                            ptx.tma_load_4d(
                                i32(at_v + stage * bytes_k + panel * panel_k),
                                map_v,
                                i32(64 * panel),
                                i32(count * keys),
                                shares,
                                batch,
                                i32(v_full + 8 * stage),
                            )
                        stage, phase = tma_pipeline.advance(stage, phase, STAGES)
                    t = following
                ptx.barrier_wait(i32(q_empty + 8 * turn), q_phase)
                store_shared_4(i32(notes + 32 * turn), i32(0), i32(-1), i32(0), i32(0))
                ptx.barrier_arrive(i32(q_full + 8 * turn))
        # -------------------------------------------------------------------------------- the
        # consumers
        else:
            more()
            mine = i32(thread & 127)
            lane = i32(thread & 31)
            own = i32((group - 1) * 64)  # the warpgroup's first row of the tile
            line = i32(own + (mine >> 5) * 16 + (lane >> 2))  # the thread's first row
            s = cuda.local.array(scores, f32)
            p = cuda.local.array(packed, i32)
            o = cuda.local.array(outputs, f32)
            q_first = tma_pipeline.descriptor(i32(base + own * tma_pipeline.ROW), by_keys)
            k_tile = tma_pipeline.descriptor(at_k, by_keys)
            v_tile = tma_pipeline.descriptor(at_v, by_values)
            stage, phase, turn, q_phase = i32(0), i32(0), i32(0), i32(0)
            ptx.barrier_wait(q_full, q_phase)
            row, head, count, present = read_note(notes)
            while head >= 0:
                rest = load_shared_4(i32(notes + 32 * turn + 16))
                filled = uniform(rest[0])
                begin, piece = i32(0), i32(0)
                if split:
                    begin, piece = uniform(rest[1]), uniform(rest[2])
                q_tile = q_first + i64(turn * (bytes_q >> 4))
                shift = i32(filled - present)
                sees = count  # tiles of keys: of the last ones this warpgroup may see nothing
                if causal:
                    sees = i32(
                        max(
                            divide_unsigned(
                                i32(max(row + own + 64 + shift, 0) + keys - 1), i32(keys)
                            ),
                            1,
                        )
                    )
                if row + own >= present or row + own + 64 <= 0:
                    sees = i32(1)  # rows that do not exist: no more than it takes to keep step
                if split:
                    sees = i32(max(sees, begin + 1))
                while count > sees:
                    count = i32(count - 1)
                    ptx.barrier_wait(i32(k_full + 8 * stage), phase)
                    ptx.barrier_wait(i32(v_full + 8 * stage), phase)
                    ptx.named_sync(
                        group, 128
                    )  # no warp falls behind: it would mistake a later phase for this one
                    if mine == 0:
                        ptx.barrier_arrive(i32(k_empty + 8 * stage))
                        ptx.barrier_arrive(i32(v_empty + 8 * stage))
                    stage, phase = tma_pipeline.advance(stage, phase, STAGES)
                ptx.barrier_wait(i32(k_full + 8 * stage), phase)
                multiply_keys(s, 0, q_tile, k_tile + i64(stage * (bytes_k >> 4)))
                scores_done(s, 0)
                left = i32(count - 1)
                if mine == 0:
                    ptx.barrier_arrive(i32(k_empty + 8 * stage))
                if left == begin:
                    leave_note(i32(q_empty + 8 * turn), lane)
                mask0, mask1 = i64(0), i64(0)
                if masked:  # rows that do not exist read the first or the last one
                    batch = divide_unsigned(head, heads)
                    of_head = (
                        global_address(mask)
                        + i64(batch) * mask.strides[0]
                        + i64(head - batch * heads) * mask.strides[1]
                    )
                    mask0 = of_head + i64(min(max(row + line, 0), rows - 1)) * mask.strides[2]
                    mask1 = of_head + i64(min(max(row + line + 8, 0), rows - 1)) * mask.strides[2]
                    put_on(
                        s, mask0, mask1, i32(left * keys + 2 * (lane & 3)), i32(most - 2), unscale
                    )
                if masks_first:
                    first = i32(left * keys + 2 * (lane & 3))
                    last0, last1 = i32(filled - 1 - first), i32(filled - 1 - first)
                    if causal:
                        last0 = i32(min(last0, row + line + shift - first))
                        last1 = i32(min(last1, row + line + 8 + shift - first))
                    hide(s, last0, last1)
                top0, top1 = largest(s)
                base0, base1 = top0 * factor, top1 * factor
                if masks_first:
                    base0, base1 = base_of(top0, factor), base_of(top1, factor)
                total0, total1 = weights(s, factor, base0, base1)
                for i in range(packed):
                    p[i] = pack(s[2 * i], s[2 * i + 1])
                for i in range(outputs):
                    o[i] = f32(0)
                if lengths and filled < count * keys:
                    ptx.barrier_wait(i32(v_full + 8 * stage), phase)
                    clear(
                        i32(at_v + stage * bytes_k), i32(max(filled - left * keys, 0)), mine, group
                    )
                while left > begin:
                    left = i32(left - 1)
                    before, its_phase = stage, phase
                    stage, phase = tma_pipeline.advance(stage, phase, STAGES)
                    ptx.barrier_wait(i32(k_full + 8 * stage), phase)
                    multiply_keys(s, 0, q_tile, k_tile + i64(stage * (bytes_k >> 4)))
                    ptx.barrier_wait(i32(v_full + 8 * before), its_phase)
                    multiply_values(o, 0, p, 0, v_tile + i64(before * (bytes_k >> 4)))
                    all_but_values_done(s, 0)
                    if mine == 0:
                        ptx.barrier_arrive(i32(k_empty + 8 * stage))
                    if left == begin:
                        leave_note(i32(q_empty + 8 * turn), lane)
                    if masked:
                        put_on(
                            s,
                            mask0,
                            mask1,
                            i32(left * keys + 2 * (lane & 3)),
                            i32(most - 2),
                            unscale,
                        )
                    if causal:
                        if (left + 1) * keys > row + own + shift + 1:
                            first = i32(row + line + shift - left * keys - 2 * (lane & 3))
                            hide(s, first, i32(first + 8))
                    high0, high1 = largest(s)
                    shrink0, shrink1 = f32(1), f32(1)
                    any_growth = any_lane(
                        i32(
                            (high0 - top0) * factor > f32(GROWTH)
                            or (high1 - top1) * factor > f32(GROWTH)
                        )
                    )
                    if any_growth != 0:
                        high0, high1 = maximum(high0, top0), maximum(high1, top1)
                        base0, base1 = high0 * factor, high1 * factor
                        if masks_first:
                            base0, base1 = base_of(high0, factor), base_of(high1, factor)
                        shrink0, shrink1 = exp2(top0 * factor - base0), exp2(top1 * factor - base1)
                        top0, top1 = high0, high1
                        total0 *= shrink0
                        total1 *= shrink1
                    more0, more1 = weights(s, factor, base0, base1)
                    total0 += more0
                    total1 += more1
                    hold_scores(s, 0)
                    if SOFTMAX_FIRST and any_lane(i32(more0 + more1 > f32(1e30))) != 0:
                        # never: but so ptxas cannot move the exponentials behind the wait
                        ptx.fence_async_shared()
                    outputs_done(o, 0)
                    hold_packed(p, 0)
                    if mine == 0:
                        ptx.barrier_arrive(i32(v_empty + 8 * before))
                    for i in range(packed):
                        p[i] = pack(s[2 * i], s[2 * i + 1])
                    if any_growth != 0:
                        for i in range(outputs // 4):
                            o[4 * i] *= shrink0
                            o[4 * i + 1] *= shrink0
                            o[4 * i + 2] *= shrink1
                            o[4 * i + 3] *= shrink1
                ptx.barrier_wait(i32(v_full + 8 * stage), phase)
                multiply_values(o, 0, p, 0, v_tile + i64(stage * (bytes_k >> 4)))
                total0 += shuffle_xor_float(total0, 1)
                total1 += shuffle_xor_float(total1, 1)
                total0 += shuffle_xor_float(total0, 2)
                total1 += shuffle_xor_float(total1, 2)
                share0 = reciprocal(total0) if total0 != f32(0) else f32(0)
                share1 = reciprocal(total1) if total1 != f32(0) else f32(0)
                outputs_done(o, 0)
                if lengths:  # a query beyond the length sees nothing, and may itself be no number
                    share0 = share0 if row + line < present else f32(0)
                    share1 = share1 if row + line + 8 < present else f32(0)
                    for i in range(outputs // 4):
                        o[4 * i] = o[4 * i] if row + line < present else f32(0)
                        o[4 * i + 1] = o[4 * i + 1] if row + line < present else f32(0)
                        o[4 * i + 2] = o[4 * i + 2] if row + line + 8 < present else f32(0)
                        o[4 * i + 3] = o[4 * i + 3] if row + line + 8 < present else f32(0)
                if mine == 0:
                    ptx.barrier_arrive(i32(v_empty + 8 * stage))
                stage, phase = tma_pipeline.advance(stage, phase, STAGES)
                here = i64(head) * rows + row + line
                exists0 = row + line >= 0 and row + line < rows
                exists1 = row + line + 8 >= 0 and row + line + 8 < rows
                if split:
                    if share0 == f32(0) or lengths and row + line >= present:
                        base0, total0 = f32(HIDDEN), f32(0)
                    if share1 == f32(0) or lengths and row + line + 8 >= present:
                        base1, total1 = f32(HIDDEN), f32(0)
                    here += i64(piece) * (all_heads * rows)
                    if lane & 3 == 0:
                        at = global_address(lse) + 8 * here
                        if exists0:
                            store_global_float_2(at, base0, total0)
                        if exists1:
                            store_global_float_2(at + 64, base1, total1)
                    at = global_address(y) + 4 * (here * columns + 2 * (lane & 3))
                    keep(o, at, 32 * i64(columns), exists0, exists1, lane, columns)
                else:
                    if lane & 3 == 0:
                        at = global_address(lse) + 4 * here
                        if exists0:
                            store_global_float(
                                at,
                                (base0 + log2(total0)) * f32(LN2)
                                if share0 != f32(0)
                                else f32(math.inf),
                            )
                        if exists1:
                            store_global_float(
                                at + 32,
                                (base1 + log2(total1)) * f32(LN2)
                                if share1 != f32(0)
                                else f32(math.inf),
                            )
                    batch = divide_unsigned(head, heads)
                    to = (
                        global_address(y)
                        + i64(batch) * y.strides[0]
                        + i64(head - batch * heads) * y.strides[1]
                        + i64(row + line) * y.strides[2]
                    )
                    store(o, to, 8 * y.strides[2], share0, share1, exists0, exists1, lane, columns)
                turn, q_phase = tma_pipeline.advance(turn, q_phase, turns)
                ptx.barrier_wait(i32(q_full + 8 * turn), q_phase)
                row, head, count, present = read_note(i32(notes + 32 * turn))

    return attention_wgmma


# -------------------- planner


def shared_bytes(tile: Tile) -> int:
    """Of shared memory: stages of queries, keys and values, barriers, and what alignment may
    take."""
    rows = tile.turns * tile.queries + 2 * STAGES * tile.keys
    return rows * 2 * tile.depth + tma_pipeline.BARRIERS + tma_pipeline.ALIGNMENT


def plan(p: Problem) -> Plan:
    """Plan of y and lse, each tile of queries beside all keys."""
    return _planned(p, min(tiles_of(p), key=lambda tile: cycles_of(p, tile)), 1)


def plan_split(p: Problem) -> Plan:
    """Plan of y and lse by parts of the keys, which are merged."""
    return _planned(p, *splits_of(p))


def _planned(p: Problem, tile: Tile, splits: int) -> Plan:
    q, (arguments, _) = p.q, p.optional
    operands, single = Operands(), np.dtype(np.float32)
    boxes = (q, tile.queries), (p.k, tile.keys), (p.v, tile.keys)
    maps = [operands.map(Input(i), x, rows) for i, (x, rows) in enumerate(boxes)]
    tiles = blocks(p.rows, tile.queries)
    counter = Input(0)  # no kernel reads it
    if tile.uneven:
        counter = Temp(len(operands.temps))
        operands.temps.append(q.like((1,), np.dtype(np.int32)))
        operands.steps.append(Launch(attention_begin, 1, 1, [counter]))
    heads = p.batch * p.heads
    lines, first = heads * p.rows, len(operands.temps)
    results = [Output(0), Output(1).flat]
    if tile.split:
        sizes = (splits * lines * p.depth, splits * lines * 2)
        operands.temps += [q.like((size,), single) for size in sizes]
        results = [Temp(first), Temp(first + 1)]
    together = p.heads_together * splits
    numbers = [p.heads, p.repeats, p.rows, p.depth, p.keys, tiles, together]
    steps = [
        Launch(
            attention_wgmma(tile),
            min(p.multiprocessors, tiles * heads * splits),
            tile.threads,
            [
                *maps,
                *results,
                counter,
                arguments[0],
                *p.both_lengths(),
                *map(np.int32, numbers),
                p.factors[0],
                np.float32(1 / p.scale),
                np.int32(heads),
                np.int32(splits),
            ],
            shared_bytes(tile),
        )
    ]
    if tile.split:
        steps.append(merge_launch(p, results, splits))
    y, lse = q.like() if tile.split else result_like(q), q.like(q.shape[:3], single)
    return Plan([y, lse], [*operands.steps, *steps], operands.temps)
