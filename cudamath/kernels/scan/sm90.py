"""Running totals along long lines on SM 9.0: ``scan_ring`` prefetches tiles and publishes their
totals ahead.

What limits ``scan_tiles`` (tiles.py). A tile reads, adds, publishes its total, waits for all totals
before it, and writes. No tile can write before the slowest tile before it has read, so the tiles of
a multiprocessor go through these steps together. While they add and wait, the memory has little to
do.

``scan_ring`` moves the reads and the totals ahead. A block is persistent and takes tile after tile;
each of its warps has a ring in shared memory, of its parts of the next ``stages`` tiles:

    warp 0    | tile 300, scanned now | tile 561, published | tile 822, published now |
    warp 1    | tile 300, scanned now | tile 561, published | tile 822, published now |
    ...                 |
                        +-- once it is in registers, one lane starts the bulk copy of the same part
                            of tile 1,090

A thread scans neighbouring elements, so lanes exchange one total each and not one per access. The
total of the elements before it in the tile is in a register since the tile's total was published.
Results go through shared memory too, those of a warp as one piece (bulk store).

Reads are in flight during every wait, writes need no wait, and totals are published ``lead`` tiles
ahead: where the memory is busy, a word takes some 4 us from one multiprocessor to another. For the
same reason a block loads the totals that it needs before it scans the tile. By hand, 2^26, H200,
us: float32 266 with totals published when their tile is scanned, 143 to 161 one tile ahead, 139 to
142 two ahead, 137 for a kernel without waits. With each access scanned by the warp and written from
registers, float64 took 302 to 320, int32 232, bool 237, float16 93; as it is 264, 206, 188, 81,
float32 136 (two blocks of small tiles: float64 291, float32 139; totals published one tile ahead:
388 and 169).

Totals of the tiles before. A warp reads the totals of 32 tiles and adds them as a tree. Half of the
warps take the group of tiles that the block has not added yet, half the tile's own group. So a
block reads a total once or twice, and no sums of totals are published. The order of additions
depends on positions alone.

Tickets. Blocks take the number of the next tile from a counter, ``stages`` tiles ahead of time.
Each tile that a block waits for belongs to a block that runs and that finishes its tiles in the
order of its tickets, so no wait lasts forever, whatever else runs on the GPU. A block takes a
ticket only when it has the one before, since neighbouring tiles must not all go to the same block.

The floor is a read and a write of each element.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.decorators import WARP, bounded, device_function
from ..compiler.lazy_numba import cuda, dtype_of, types
from ..compiler.storage_types import numba_type
from ..copy.axis_last import neighbours
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.integers import blocks
from ..lib.lanes import lane_shuffle
from ..lib.vector_io import writer
from ..ptx import sm90 as ptx
from ..ptx.lookback import load_relaxed, number
from ..ptx.sm80 import divide_unsigned, global_address, shared_address
from ..ptx.vector_access import load_vector
from .decoupled_lookback import (
    _READY,
    THREADS,
    WARPS,
    lane_scan,
    scan_functions,
    total_exchange,
)
from .problem import Problem, RingShape, ring_widths
from .tail import tail_scan

i32, i64, u32, u64 = types.int32, types.int64, types.uint32, types.uint64
ALIGNMENT = 128  # bytes to whose multiple the ring begins
QUEUE = 8  # tickets that a block remembers: stages + 2 at least


@functools.cache
def total_decoder(A: Any, at: int) -> Any:
    """Device function (words): the total of type A that was published as words[at], words[at + 1],
    ..."""
    if dtype_of(A).kind == "c":
        real, imag = (
            total_decoder(A.underlying_float, at),
            total_decoder(A.underlying_float, at + A.bitwidth // 64),
        )

        @device_function
        def decode_complex(words):
            return A(complex(real(words), imag(words)))

        return decode_complex
    floating, low = dtype_of(A).kind == "f", u64(0xFFFFFFFF)

    @device_function
    def decode_narrow(words):
        w = u32(words[at] & low)
        return number(w) if floating else A(w)

    @device_function
    def decode_wide(words):
        w = u64((words[at] & low) | (words[at + 1] << u64(32)))
        return number(w) if floating else A(w)

    return decode_wide if A.bitwidth == 64 else decode_narrow


@functools.cache
def total_reader(A: Any) -> tuple[Any, Any]:
    """Device functions (totals, at, words) for a total of type A. ask loads its words as they are
    now; answer waits until they are published and returns the total. A thread works between the
    two."""
    parts, decode = total_exchange(A)[4], total_decoder(A, 0)

    @device_function
    def ask(totals, at, words):
        for p in range(parts):
            words[p] = load_relaxed(totals, at + p)

    @device_function
    def answer(totals, at, words):
        for p in range(parts):
            while words[p] < u64(_READY):
                words[p] = load_relaxed(totals, at + p)
        return decode(words)

    return ask, answer


@functools.cache
def scan_ring(kind: str, source: np.dtype, target: np.dtype, width: int, shape: RingShape) -> Any:
    """Rows of neighbours in tiles of 512 threads x ``vectors`` accesses of ``width`` elements."""
    lift, combine, identity, A = scan_functions(kind, source, target)
    shift, last, publish, _, parts = total_exchange(A)
    ask, answer = total_reader(A)
    _, vectors, stages, lead = shape
    held = vectors * width
    stride = WARP * width
    warp_size = stride * vectors
    tile_size = warp_size * WARPS
    itemsize = source.itemsize
    warp_bytes = warp_size * itemsize
    places = WARPS * stages  # of the rings of all warps
    raw = numba_type(source)
    half = WARPS // 2  # runs of 32 tiles in a group
    group_size = half * WARP
    of_lanes, of_warp, of_half = (lane_scan(A, combine, lanes) for lanes in (WARP, WARPS, half))
    pick, leads, sums = lane_shuffle(A, cuda.shfl_sync), lead + 1, numba_type(target)
    result_bytes, ring_bytes = target.itemsize, places * warp_bytes
    per = max(
        1, min(width, 16 // result_bytes)
    )  # results that are written to shared memory at once
    write, read_out = writer(target, per), ptx.bulk_wait(0, read=True)
    crosswise = held // per % 2 == 0
    scan_tail = tail_scan(kind, source, target)

    @device_function
    def fetch(x, tile, n, per_row, warp, to, barrier):
        """Start the bulk copy of this warp's part of a tile."""
        row = divide_unsigned(tile, per_row)
        first = i64(i32(tile - row * per_row)) * tile_size + warp * warp_size
        count = i32(max(min(n - first, i64(warp_size)), i64(0)) * itemsize)
        ptx.barrier_expect(barrier, count)
        if count > 0:
            ptx.bulk_load(to, i64(global_address(x) + (row * n + first) * itemsize), count, barrier)

    @bounded((THREADS, shape.blocks))
    def scan_ring(x, y, totals, tickets, n, per_row, tiles):
        # x, y: (rows * n,), or one row and what follows its n elements; totals: (tiles * parts,),
        # published words; tickets: (1,); both 0 at
        # first n: elements per row, per_row: tiles per row
        room = cuda.shared.array(0, raw)
        barriers = cuda.shared.array(places, types.uint64)
        queue = cuda.shared.array(QUEUE, types.int32)
        of_next = cuda.shared.array(WARPS, A)
        of_runs = cuda.shared.array(WARPS, A)
        v = cuda.local.array(held, A)
        ahead_of = cuda.local.array(
            leads, A
        )  # within this tile and the next ones: all before this thread's elements
        words = cuda.local.array(parts, u64)
        t = i32(cuda.threadIdx.x)
        lane = i32(t & 31)
        warp = i32(t >> 5)
        part = i32(warp * stages)
        skip = i32(-shared_address(room) & (ALIGNMENT - 1))
        ring = i32(shared_address(room) + skip + part * warp_bytes)
        full = i32(shared_address(barriers) + part * 8)
        mine = i32(divide_unsigned(skip, i32(itemsize)) + part * warp_size + lane * held)
        results = cuda.shared.array(0, sums)  # behind the rings
        leaves = i32(shared_address(room) + skip + ring_bytes + warp * (warp_size * result_bytes))
        place = i32(
            divide_unsigned(i32(skip + ring_bytes), i32(result_bytes))
            + warp * warp_size
            + lane * held
        )
        many = i32(tiles)
        rows_of = i32(per_row)
        if lane == 0:
            for s in range(stages):
                ptx.barrier_init(i32(full + 8 * s), i32(1))
            ptx.fence_barrier_init()
            ptx.fence_async_shared()
        ptx.wait_for_previous()  # tickets and totals are 0 from here on
        if t == 0:
            ticket = i32(0)
            for i in range(stages):
                ticket = i32(
                    cuda.atomic.add(tickets, ticket >> 31, u32(1))
                )  # 0, but not before the last one is known
                queue[i] = ticket
        cuda.syncthreads()
        for s in range(stages):
            ahead = queue[s]
            if lane == 0 and ahead < many:
                fetch(x, ahead, n, rows_of, warp, i32(ring + s * warp_bytes), i32(full + 8 * s))

        for s in range(leads):
            ahead_of[s] = identity
        turn = i32(-lead)
        stage = i32(0)
        last_stage = i32(0)
        phase = i32(0)
        row_before = i32(-1)
        done = i32(0)  # groups of this row that are in `base`
        base = identity
        tile = i32(-1)
        while tile < many:
            following = queue[(turn + lead) & (QUEUE - 1)]
            row = divide_unsigned(i32(max(tile, 0)), rows_of)
            k = i32(max(tile, 0) - row * rows_of)
            of_this = i64(k) * tile_size + warp * warp_size  # warp: where its part begins
            first = of_this + lane * held
            if row != row_before:
                row_before = row
                done = i32(0)
                base = identity
            group = divide_unsigned(k, i32(group_size))
            run = i32(done * half + warp) if warp < half else i32((group - 1) * half + warp)
            stop = i32(group * group_size) if warp < half else k
            at = i32(run * WARP + lane)
            if at < stop:
                ask(totals, i64(i32(tile - k + at)) * parts, words)

            # 1. This tile within the thread.
            if tile >= 0:
                for r in range(vectors):
                    if first + r * width < n:
                        packed = load_vector(
                            room, i64(i32(mine + last_stage * warp_size + r * width)), width
                        )
                        for j in range(width):
                            v[r * width + j] = lift(packed[j])
                    else:
                        for j in range(width):
                            v[r * width + j] = identity
                cuda.syncwarp()  # all have read: the same part of a later tile may come
                ahead = queue[(turn + stages) & (QUEUE - 1)]
                if lane == 0 and ahead < many:
                    fetch(
                        x,
                        ahead,
                        n,
                        rows_of,
                        warp,
                        i32(ring + last_stage * warp_bytes),
                        i32(full + 8 * last_stage),
                    )
                for j in range(1, held):
                    v[j] = combine(v[j - 1], v[j])

            # 2. A later tile's total, which others wait for, and what is before this thread in it.
            total, before = identity, identity
            if following < many:
                next_row = divide_unsigned(following, rows_of)
                next_first = (
                    i64(i32(following - next_row * rows_of)) * tile_size
                    + warp * warp_size
                    + lane * held
                )
                ptx.barrier_wait(i32(full + 8 * stage), phase)
                for r in range(vectors):
                    if next_first + r * width < n:
                        packed = load_vector(
                            room, i64(i32(mine + stage * warp_size + r * width)), width
                        )
                        access = lift(packed[0])
                        for j in range(1, width):
                            access = combine(access, lift(packed[j]))
                        total = combine(total, access)
                total = of_lanes(total, lane)
                before = shift(total, 1)
                if lane == 0:
                    before = identity
                if lane == WARP - 1:
                    of_next[warp] = total
            cuda.syncthreads()
            if following < many:
                total = of_warp(of_next[lane & (WARPS - 1)], lane)
                of_warps = pick(total, max(warp - 1, 0))
                if warp > 0:
                    before = combine(of_warps, before)
                if warp == 0 and lane == WARP - 1:
                    publish(totals, i64(following) * parts, total)
            for s in range(lead):
                ahead_of[s] = ahead_of[s + 1]
            ahead_of[lead] = before
            ticket = i32(0)
            if turn >= -1 and t == THREADS - 1:
                ticket = i32(cuda.atomic.add(tickets, 0, u32(1)))

            # 3. What is before this tile: the groups that this block has not seen, and this group.
            if tile >= 0:
                while True:  # once, or twice where a group was left out
                    earlier = identity
                    if at < stop:
                        earlier = answer(totals, i64(i32(tile - k + at)) * parts, words)
                    earlier = of_lanes(earlier, lane)
                    if lane == WARP - 1:
                        of_runs[warp] = earlier
                    if t == THREADS - 1:
                        queue[(turn + stages + 1) & (QUEUE - 1)] = ticket
                    cuda.syncthreads()
                    earlier = of_half(of_runs[lane & (WARPS - 1)], lane)
                    if done < group:
                        base = combine(base, last(shift(earlier, half)))
                        done = i32(done + 1)
                    if done == group:
                        break
                    cuda.syncthreads()
                    run = i32(done * half + warp) if warp < half else i32((group - 1) * half + warp)
                    at = i32(run * WARP + lane)
                    if at < stop:
                        ask(totals, i64(i32(tile - k + at)) * parts, words)
                before = combine(combine(base, last(earlier)), ahead_of[0])
                for j in range(held):
                    v[j] = combine(before, v[j])
                if first < n <= first + held and n < y.size and tiles == per_row:
                    scan_tail(x, y, n, v[held - 1])  # one row, and more

                # 4. Results go out as one piece a warp. Its last one has been read by now.
                if lane == 0:
                    read_out()
                cuda.syncwarp()
                # lanes 4 apart would meet in the same banks: every other four go by pairs, the
                # second one first
                if crosswise:
                    turned = i32((lane >> 2) & 1)
                    for e in range(0, held, 2 * per):
                        for i in range(e, e + per):
                            one, other = v[i], v[i + per]
                            v[i] = other if turned else one
                            v[i + per] = one if turned else other
                        write(results, i64(i32(place + e + turned * per)), v, e)
                        write(results, i64(i32(place + e + (1 - turned) * per)), v, e + per)
                else:
                    for e in range(0, held, per):
                        write(results, i64(i32(place + e)), v, e)
                ptx.fence_async_shared()
                cuda.syncwarp()
                count = i32(max(min(n - of_this, i64(warp_size)), i64(0)) * result_bytes)
                if lane == 0 and count > 0:
                    ptx.bulk_store(
                        i64(global_address(y) + (row * n + of_this) * result_bytes), leaves, count
                    )
                    ptx.bulk_commit()
            else:
                if turn == -1 and t == THREADS - 1:
                    queue[stages] = ticket
                cuda.syncthreads()
            if tile >= 0:
                last_stage = i32(last_stage + 1)
                if last_stage == stages:
                    last_stage = i32(0)
            turn = i32(turn + 1)
            if turn >= 0:
                tile = queue[turn & (QUEUE - 1)]
            stage = i32(stage + 1)
            if stage == stages:
                stage = i32(0)
                phase = i32(phase ^ 1)
        if lane == 0:
            read_out()

    return scan_ring


def plan(problem: Problem) -> Plan:
    """Planner of ``scan_ring``."""
    temps: list[Layout] = []
    body = problem.body
    x, kinds, rows, n = body.x, body.kinds, body.lines, body.n
    before, source, after, target = neighbours(x, body.out, body.axis, temps)
    width, shape = ring_widths(kinds, n, x)
    access = THREADS * width * shape.vectors
    per_row = blocks(n, access)
    tiles = rows * per_row
    words = tiles * total_exchange(scan_functions(*kinds).A)[4]
    temps.append(Layout.new((words + 1,), np.dtype(np.uint64), x.device))
    state, zero = Temp(len(temps) - 1), np.uint64(0)
    reset = fill_part(whole(state, temps[-1]), zero, zero, None)
    launch = Launch(
        scan_ring(*kinds, width, shape),
        min(tiles, shape.blocks * multiprocessors(x.device)),
        THREADS,
        [
            source.view((problem.x.size,), dtype=x.dtype),
            target.view((problem.x.size,), dtype=kinds[2]),
            state.view((words,)),
            state.view((1,), offset=8 * words, dtype=np.dtype(np.uint32)),
            n,
            per_row,
            tiles,
        ],
        shared=ALIGNMENT + access * (shape.stages * x.dtype.itemsize + kinds[2].itemsize),
        early=True,
    )
    return Plan([problem.out], [*before, *reset, launch, *after], temps)
