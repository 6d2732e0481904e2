"""Grouped products on the tensor cores of compute capability 9.0: the main loop of sm90.py,
with the ends of the groups in device memory.

Two kinds, one kernel:

    rows of C in groups      C[rows of g] = A[rows of g] B[g]. Every block walks along the groups'
                             ends and counts tiles until it reaches its own. A tile begins where its
                             group does, at any row. TMA brings rows of the next group as well; they
                             are multiplied but not stored. 64 rows that all belong to the group are
                             stored by TMA, others pair by pair
    k in groups (`outer`)    C[g] = A[rows of g]^T B[rows of g]. Sums differ in length, tiles have
                             one size. Rows of the next group in the last slab are overwritten with
                             zeros in shared memory, in A and in B: zeros times infinity would be
                             NaN

The floor is that of a product of as many operations; small groups waste the rest of their last
tile.
"""

from __future__ import annotations

import functools
from typing import Any

from ..compiler.decorators import FULL, device_function
from ..compiler.lazy_numba import cuda, types
from ..lib import tma_pipeline
from ..ptx import sm90 as ptx
from ..ptx.sm80 import (
    divide_unsigned,
    global_address,
    pack_bf16,
    pack_f16,
    store_global,
    store_shared_float_4,
)
from . import epilogue_sm90
from .grouped_tiles import in_order, inside
from .sm90 import Tile, _load

i32, i64, f32 = types.int32, types.int64, types.float32

BOX = tma_pipeline.BOX
SOME = 8  # named barrier of a warpgroup that writes zeros: this and the next


@device_function
def uniform(x):
    """An int32 that all lanes have, in a way that the compiler knows."""
    return i32(cuda.shfl_sync(FULL, i32(x), 0))


@functools.cache
def _find(tile_m: int, outer: bool) -> Any:
    """A device function: the tile with this index, (group, its first row, its end, the number of
    its first tile, tile row, tile column); group `groups` if there is none. group, start and first:
    those of the tile before, 0 at first."""

    @device_function
    def of_rows(ends, groups, rows, tiles_m, tiles_n, index, group, start, first):
        end, height = i32(start), i32(0)
        while group < groups:
            end = i32(inside(ends[group], start, rows))
            height = divide_unsigned(i32(end - start + (tile_m - 1)), i32(tile_m))
            if index < first + height * tiles_n:
                break
            first = i32(first + height * tiles_n)
            start = i32(end)
            group = i32(group + 1)
        _, tile_row, tile_column = tma_pipeline.tile_at(
            i32(index - first), i32(max(height, 1)), tiles_n
        )
        return i32(group), i32(start), i32(end), i32(first), tile_row, tile_column

    @device_function
    def of_depth(ends, groups, rows, tiles_m, tiles_n, index, group, start, first):
        group, tile_row, tile_column = tma_pipeline.tile_at(index, tiles_m, tiles_n)
        start, end = i32(0), i32(0)
        if group < groups:
            if group > 0:
                start = i32(inside(ends[group - 1], 0, rows))
            end = i32(inside(ends[group], start, rows))
        return i32(min(group, groups)), start, end, i32(0), tile_row, tile_column

    return of_depth if outer else of_rows


@functools.cache
def grouped_wgmma(tile: Tile, outer: bool) -> Any:
    """Either product. tile: A is "K" and B either, or with `outer` both "M"; C is stored by
    "box"."""
    stages, stage_bytes, consumers = tile.stages, tile.stage_bytes, tile.consumers
    bytes_a = tile.m * tma_pipeline.ROW
    tile_m, tile_n, depth = tile.m, tile.n, tile.depth
    ring_bytes, staging_bytes = stages * stage_bytes, tile.staging
    held = tile_n // 2  # sums of 64 rows
    load_a, load_b = _load(tile.a, tile_m), _load(tile.b, tile_n)
    base_a = tma_pipeline.descriptor_base(tma_pipeline.BOX_BYTES if tile.a == "M" else 16)
    base_b = tma_pipeline.descriptor_base(tma_pipeline.BOX_BYTES if tile.b == "M" else 16)
    steps_a, steps_b = (
        tma_pipeline.descriptor_steps(tile.a == "M"),
        tma_pipeline.descriptor_steps(tile.b == "M"),
    )

    def group_of(zero: bool) -> Any:
        return ptx.wgmma(
            tile.kind,
            tile_n,
            steps_a,
            steps_b,
            zero=zero,
            trans_a=tile.a == "M",
            trans_b=tile.b == "M",
        )

    begin, add = group_of(True), group_of(False)
    one_under_way, done = ptx.wgmma_wait(1), ptx.wgmma_wait(0, held, f32)
    shared_out = tile.registers is not None
    few, many = (
        (ptx.registers_down(tile.registers[0]), ptx.registers_up(tile.registers[1]))
        if tile.registers
        else (None, None)
    )
    store, drain = epilogue_sm90.store(tile)
    pack = pack_bf16 if tile.kind == "bf16" else pack_f16
    find = _find(tile_m, outer)

    @device_function
    def release(barrier, thread):
        """This warpgroup is done with a stage."""
        if thread == 0:
            ptx.barrier_arrive(barrier)

    @device_function
    def wipe(at, boxes, tail, thread):
        """Zeros into the rows from `tail` on of boxes of 64 rows of k: 16 bytes a thread, eight
        threads a row."""
        for box in range(boxes):
            row = i32(tail + (thread >> 3))
            while row < BOX:
                here = i32(
                    at + box * tma_pipeline.BOX_BYTES + row * tma_pipeline.ROW + (thread & 7) * 16
                )
                store_shared_float_4(here, f32(0), f32(0), f32(0), f32(0))
                row = i32(row + 16)

    @device_function
    def store_some(c, out, row0, column0, end, columns, thread):
        """Rows of a warpgroup's sums up to the group's end, pair by pair."""
        lane = i32(thread & 31)
        row = i32(row0 + (thread >> 5) * 16 + (lane >> 2))
        first = i32(column0 + 2 * (lane & 3))
        at = global_address(out) + 2 * (i64(row) * columns + first)
        for j in range(tile_n // 8):
            if first + 8 * j < columns:  # they are even in number
                if row < end:
                    store_global(at + 16 * j, pack(c[4 * j], c[4 * j + 1]))
                if row + 8 < end:
                    store_global(at + 16 * j + 16 * i64(columns), pack(c[4 * j + 2], c[4 * j + 3]))

    def grouped_wgmma(
        map_a, map_b, map_c, out, ends, flag, ticket, m, n, k, groups, tiles_m, tiles_n
    ):
        """map_a: of A (1, m, k), map_b: of B as (groups, n, k) or, "M", (groups, k, n), map_c: of C
        (1, m, n); m: rows in all. `outer`: of A (1, k, m), B (1, k, n) and C (groups, m, n); k:
        rows in all. out: C, flat; ends: (groups,). tiles_m (`outer` only), tiles_n: of one matrix.
        """
        shared = cuda.shared.array(0, types.uint8)
        base = tma_pipeline.first_tile(shared)
        staging = i32(base + ring_bytes)
        full = i32(staging + staging_bytes)
        empty = i32(full + 8 * stages)
        thread = i32(cuda.threadIdx.x)
        warpgroup = uniform(thread >> 7)
        if thread == 0:
            ptx.prefetch_map(map_a)
            ptx.prefetch_map(map_b)
            tma_pipeline.make_ring(full, stages, 1, consumers)
        rows = k if outer else m
        index, stride = i32(cuda.blockIdx.x), i32(cuda.gridDim.x)
        group, start, first = i32(0), i32(0), i32(0)
        ptx.let_next_begin()
        ptx.wait_for_previous()
        cuda.syncthreads()

        if (
            warpgroup == 0
        ):  # ------------------------------------------------------------ the producer
            if shared_out:
                few()
            if thread == 0:
                stage, phase = i32(0), i32(1)
                while group < groups:
                    group, start, end, first, tile_row, tile_column = find(
                        ends, groups, rows, tiles_m, tiles_n, index, group, start, first
                    )
                    if group < groups:
                        row, column, at_k, z = (
                            i32(start + tile_row * tile_m),
                            i32(tile_column * tile_n),
                            i32(0),
                            group,
                        )
                        length = k
                        if outer:
                            row, at_k, z, length = (
                                i32(tile_row * tile_m),
                                start,
                                i32(0),
                                i32(max(end - start, 1)),
                            )
                        slabs = divide_unsigned(i32(length + (depth - 1)), i32(depth))
                        for _ in range(slabs):
                            ptx.barrier_wait(empty + 8 * stage, phase)
                            barrier = i32(full + 8 * stage)
                            at = i32(base + stage * stage_bytes)
                            ptx.barrier_expect(barrier, stage_bytes)
                            load_a(at, map_a, row, at_k, i32(0), barrier)
                            load_b(i32(at + bytes_a), map_b, column, at_k, z, barrier)
                            at_k = i32(at_k + depth)
                            stage, phase = tma_pipeline.advance(stage, phase, stages)
                        index = i32(index + stride)
            elif thread >= 32 and cuda.blockIdx.x == 0:  # the other warps have nothing else to do
                for each in range(thread - 32, groups, 96):
                    if not in_order(ends, each, rows):
                        flag[0] = ticket
        # -------------------------------------------------------------------------- the consumers
        else:
            if shared_out:
                many()
            one = i32(warpgroup - 1)
            mine = i32(thread & 127)
            c = cuda.local.array(held, f32)
            stage, phase = i32(0), i32(0)
            from_row = i32(one * BOX)
            while group < groups:
                group, start, end, first, tile_row, tile_column = find(
                    ends, groups, rows, tiles_m, tiles_n, index, group, start, first
                )
                group, start, end, first = (
                    uniform(group),
                    uniform(start),
                    uniform(end),
                    uniform(first),
                )
                if group < groups:
                    length = i32(max(end - start, 1)) if outer else k
                    slabs = uniform(divide_unsigned(i32(length + (depth - 1)), i32(depth)))
                    before = stage
                    for slab in range(slabs):
                        ptx.barrier_wait(full + 8 * stage, phase)
                        at = i32(base + stage * stage_bytes)
                        at_a = i32(at + from_row * tma_pipeline.ROW)
                        at_b = i32(at + bytes_a)
                        if outer:
                            tail = i32(end - start - slab * depth)
                            if (
                                tail < depth
                            ):  # in the last slab; both warpgroups write the same zeros to B
                                wipe(at_a, 1, tail, mine)
                                wipe(at_b, tile_n // BOX, tail, mine)
                                ptx.fence_async_shared()
                                ptx.named_sync(SOME + one, 128)
                        if slab == 0:
                            begin(
                                c,
                                0,
                                tma_pipeline.descriptor(at_a, base_a),
                                tma_pipeline.descriptor(at_b, base_b),
                            )
                        else:
                            add(
                                c,
                                0,
                                tma_pipeline.descriptor(at_a, base_a),
                                tma_pipeline.descriptor(at_b, base_b),
                            )
                            one_under_way()
                            release(i32(empty + 8 * before), mine)
                        before = stage
                        stage, phase = tma_pipeline.advance(stage, phase, stages)
                    done(c, 0)
                    release(i32(empty + 8 * before), mine)
                    row, last, z = i32(start + tile_row * tile_m + from_row), end, i32(0)
                    if outer:
                        row, last, z = i32(tile_row * tile_m + from_row), m, group
                    column = i32(tile_column * tile_n)
                    if outer or row + BOX <= end:
                        store(
                            c,
                            mine,
                            one,
                            i32(staging + one * (2 * tma_pipeline.BOX_BYTES)),
                            (map_c, map_c),
                            out,
                            z,
                            row,
                            column,
                            last,
                            n,
                            (i64(0), i64(0), i64(0)),
                            i64(0),
                        )
                    else:
                        store_some(c, out, row, column, end, n, mine)
                    index = i32(index + stride)
            if not outer:  # rows that belong to nobody
                words = i64(rows - start) * (n >> 1)
                at = global_address(out) + 2 * i64(start) * n
                word = i64(i32(cuda.blockIdx.x) * (128 * consumers) + thread - 128)
                while word < words:
                    store_global(at + 4 * word, i32(0))
                    word += i64(stride) * (128 * consumers)
            drain(mine)

    if outer:
        grouped_wgmma.__name__ = "outer_wgmma"
    return cuda.jit(launch_bounds=(tile.threads, 1))(grouped_wgmma)
