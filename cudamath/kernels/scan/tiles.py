"""Long rows of neighbours in tiles, by all GPUs: see dispatch.py for how tiles exchange totals."""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import capability
from ..compiler.decorators import WARP, bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, dtype_of, types
from ..copy.axis_last import neighbours
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.integers import blocks
from ..lib.vector_io import reading
from .decoupled_lookback import THREADS, WARPS, row_scan, row_writer, scan_functions, total_exchange
from .problem import TILE_BYTES, Problem, tile_shape
from .tail import tail_scan

if not SIMULATOR:
    from ..lib.cluster_exchange import cluster_arrive, cluster_wait
    from ..ptx.sm80 import shared_address
    from ..ptx.sm90 import cluster_sync, copy_cluster_word, wait_for_previous

GROUP = THREADS  # tiles whose totals a block reads at once
BLOCKS = 3  # on a multiprocessor: while one waits for the tiles before it, others read and write


@functools.cache
def scan_tiles(
    kind: str,
    source: np.dtype,
    target: np.dtype,
    width: int,
    vectors: int,
    ranks: int = 1,
    early: bool = False,
) -> Any:
    """Rows of neighbours in tiles of 512 threads x ``vectors`` accesses of ``width`` elements.
    ranks: the tiles of a row, if they are those of a cluster, which exchange their totals in shared
    memory; early: it may begin before the launch ahead has ended, which resets the words."""
    lift, combine, identity, A = scan_functions(kind, source, target)
    shift, _, publish, await_, parts = total_exchange(A)
    read = reading(lift, width)
    scan_warp = row_scan((kind, source, target), WARP, width, vectors)
    held = vectors * width
    stride = WARP * width  # elements that a warp reads at once
    warp_size = stride * vectors
    tile_size = warp_size * WARPS
    put = row_writer(A, target, width)
    scan_tail = tail_scan(kind, source, target)
    large = held * max(dtype_of(A).itemsize, 4) > TILE_BYTES  # tiles of few blocks, which have room
    # blocks of a cluster exchange words of 32 bits: a narrower total has one to itself
    W = A if A.bitwidth >= 32 else types.int32
    words_of_total = dtype_of(W).itemsize // 4

    @device_function
    def warp_scan(a, lane):
        for s in range(5):
            lower = shift(a, 1 << s)
            if lane >= 1 << s:
                a = combine(lower, a)
        return a

    def scan_tiles(x, y, totals, sums, n, per_row, groups):
        # x, y: (rows * n,), or one row and what follows its n elements; totals: (tiles * parts,),
        # sums: (rows * groups * parts,): published words, 0 at first; n: elements per row, per_row:
        # tiles per row, groups: groups per row
        shared = cuda.shared.array(WARP, A)
        v = cuda.local.array(held, A)
        t = cuda.threadIdx.x
        lane = t % WARP
        warp = t // WARP
        if early:
            wait_for_previous()
        tile = types.int64(cuda.blockIdx.x)  # blocks start in this order: those before run already
        row = tile // per_row
        k = tile - row * per_row
        base = row * n
        first = k * tile_size + warp * warp_size + lane * width
        for r in range(vectors):
            if first + r * stride < n:
                read(x, base + first + r * stride, v, r * width)
            else:
                for j in range(width):
                    v[r * width + j] = identity

        # 1. Within the warp.
        carry = scan_warp(v, lane, WARP - 1, identity)
        if lane == WARP - 1:
            shared[warp] = carry
        cuda.syncthreads()

        # 2. Of the warps before this one, and of the whole tile.
        before = identity
        whole_tile = identity
        for w in range(WARPS):
            if w == warp:
                before = whole_tile
            whole_tile = combine(whole_tile, shared[w])

        # 3. Of the tiles before this one: those of the cluster, or those of its group as a tree,
        # then all groups before.
        if ranks > 1:
            own = cuda.shared.array(1, W)
            of_cluster = cuda.shared.array(ranks, W)
            if t == 0:
                own[0] = W(whole_tile)
            cluster_sync()
            if t < ranks * words_of_total:
                rank = types.int32(t // words_of_total)
                copy_cluster_word(
                    types.int32(shared_address(of_cluster) + 4 * t),
                    types.int32(shared_address(own) + 4 * (t - rank * words_of_total)),
                    rank,
                )
            cuda.syncthreads()
            cluster_arrive()  # no other block's memory is read from here on
            prefix = identity
            for r in range(ranks):
                if r < k:
                    prefix = combine(prefix, A(of_cluster[r]))
            before = combine(prefix, before)
        elif per_row > 1:
            group = k // GROUP
            member = k - group * GROUP
            if t == 0:
                publish(totals, tile * parts, whole_tile)
            earlier = identity
            if t < member:
                earlier = await_(totals, (tile - member + t) * parts)
            earlier = warp_scan(earlier, lane)
            cuda.syncthreads()  # all threads have read the totals of the warps
            if lane == WARP - 1:
                shared[warp] = earlier
            cuda.syncthreads()
            if t == 0:
                inside = shared[0]
                for w in range(1, WARPS):
                    inside = combine(inside, shared[w])
                prefix = inside
                if group > 0:
                    prefix = combine(await_(sums, (row * groups + group) * parts), inside)
                if member == GROUP - 1 and k < per_row - 1:
                    publish(sums, (row * groups + group + 1) * parts, combine(prefix, whole_tile))
                shared[WARPS] = prefix
            cuda.syncthreads()
            before = combine(shared[WARPS], before)
        for i in range(held):
            v[i] = combine(before, v[i])
        total, ends = identity, False
        for r in range(vectors):
            put(y, base, first + r * stride, n, lane, v, r * width)
            if first + r * stride + width == n:
                total, ends = v[r * width + width - 1], True
        if ends and base + n < y.size and per_row == cuda.gridDim.x:  # one row, and more
            scan_tail(x, y, n, total)
        if ranks > 1:
            cluster_wait()  # until nobody reads this block's memory

    if ranks > 1 or early:  # 9.0 on
        scan_tiles.__name__ = "scan_tiles_cluster" if ranks > 1 else "scan_tiles_early"
    # narrow numbers take instructions, and registers, to be made of words and words of them
    narrow = A.bitwidth < 32 or width == 1 and min(source.itemsize, target.itemsize) < 4
    few = narrow or A.bitwidth > 64
    return bounded((THREADS, 1 if large else 2 if few else BLOCKS))(scan_tiles)


def plan(problem: Problem) -> Plan:
    """Planner."""
    temps: list[Layout] = []
    body = problem.body
    x, kinds, rows, n = body.x, body.kinds, body.lines, body.n
    before, source, after, target = neighbours(x, body.out, body.axis, temps)
    width, vectors, ranks = tile_shape(body)
    per_row = max(blocks(n, THREADS * width * vectors), ranks)
    exchanged = per_row > 1 and ranks == 1  # by published words
    groups = blocks(per_row, GROUP)
    parts = total_exchange(scan_functions(*kinds).A)[4]
    words = (
        (rows * per_row * parts, rows * groups * parts) if exchanged else (1, 1)
    )  # of one tile nothing is published
    temps.append(Layout.new((sum(words),), np.dtype(np.uint64), x.device))
    state = Temp(len(temps) - 1)
    totals, sums = state.view((words[0],)), state.view((words[1],), offset=8 * words[0])
    zero = np.uint64(0)
    reset = fill_part(whole(state, temps[-1]), zero, zero, None) if exchanged else []
    early = bool(reset) and capability(x.device) >= (9, 0)
    launch = Launch(
        scan_tiles(*kinds, width, vectors, ranks, early),
        rows * per_row,
        THREADS,
        [
            source.view((problem.x.size,), dtype=x.dtype),
            target.view((problem.x.size,), dtype=problem.dtype),
            totals,
            sums,
            n,
            per_row,
            groups,
        ],
        cluster=ranks,
        early=early,
    )
    return Plan([problem.out], [*before, *reset, launch, *after], temps)
