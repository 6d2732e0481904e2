"""Gradients of layer norm and RMS norm for rows that only a cluster of blocks can hold: each is
read once (SM 9.0 and 10.0).

A row of 131,072 numbers in bfloat16, with its gradient, is 512 KB, and its sums for weight and bias
are another megabyte: they fill eight multiprocessors, the sums in registers, the rows in shared
memory. So a block of each takes an eighth of the columns, and the cluster goes through rows r, r +
clusters, r + 2 clusters, ... as a block of backward_tma.py does, by TMA loads that are issued
ahead of time.

A row needs two passes: one for its two sums, which the blocks exchange (lib/cluster_exchange.py),
and one for dx. Between them lies the way through the cluster, a microsecond. It is filled with the
first pass of the next row:

    first pass    row 0   row 1           row 2           row 3
    sums on the way  ----0----   ----1----       ----2----
    second pass           .       row 0           row 1           row 2

The second pass reads the row from shared memory once more: what the first pass made of it would
take 64 registers. Of three stages two thus hold the rows at work, and the third is loaded. The
weights lie behind them: in registers there is no room.

Rows that begin between the borders of accesses are loaded with what their neighbours have in the
first access and the last, which counts as 0. Of a cluster's rows all begin equally far from a
border (as in backward_shifted.py), so its blocks move the weights there once, and a thread has the
same columns in each row. The array's last access may end behind the array: nothing is loaded of
it, and the thread that has it reads it by itself.

Measured (row versions_norm_grad_long):
gradient of layer norm, 512 x 131,072, bfloat16; NVIDIA H200, commit 52457ee46004, 2026-11-23

                    GB/s     of a copy
    long_rows      1,602          0.38
    cluster        3,284          0.78

(end of what was measured)
"""

import functools
import math

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.decorators import WARP, bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_sum
from ..lib.cluster_exchange import cluster_wait, tables
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import (
    clearing,
    ending_fetcher,
    fetcher,
    row_writer,
    shifted_reader,
    writer,
)
from ..lib.widths import wide
from ..ptx.sm80 import global_address, shared_address
from ..ptx.sm90 import (
    barrier_expect,
    barrier_init,
    barrier_wait,
    bulk_load,
    cluster_rank,
    fence_async_shared,
    fence_barrier_init,
)
from ..ptx.vector_access import store_vector
from .backward import finish_sums
from .backward_parts import STAGES, THREADS, cluster_vectors, gathered, ranks_for
from .problem import Backward, numbered, sum_into

PAIR, PART = (
    2,
    18,
    # multiprocessors that lie together on the chip, and in its parts at most: of one part are a
    # cluster's
)
# .. of those of a part, so that clusters of four and eight run at once even where it has fewer
USED = 16
i32, f32 = types.int32, types.float32


def clusters_for(rows: int, ranks: int, period: int, x: Layout) -> int:
    """Clusters that run at a time, one block on a multiprocessor; each `period`-th row begins
    equally far from a border."""
    many = multiprocessors(x.device)
    most = max(many // PAIR if ranks == PAIR else many // PART * USED // ranks, 1)
    return rows if rows <= most else max(most // period, 1) * period


@functools.cache
def putter(words):
    """Device function (a, i, r): access number i of a = the words r[0], ..., as `vector_io.fetcher`
    gives them."""

    @device_function
    def put_2(a, i, r):
        store_vector(a, i * 2, (r[0], r[1]))

    @device_function
    def put_4(a, i, r):
        store_vector(a, i * 4, (r[0], r[1], r[2], r[3]))

    return {2: put_2, 4: put_4}[words]


@functools.cache
def bringer(param, width, edges):
    """Device function (weight, column, rest, w, q, weights, own, place): the weights from `column`
    on, `rest` before the last, become access number `place` of `weights`, whose memory is also
    `own`, number by number; w, q: room for them."""
    fetch, _, words, _ = fetcher(param, width)
    if edges:
        read, write = shifted_reader(param, width), writer(param, width)

        @device_function
        def bring_between(weight, column, rest, w, q, weights, own, place):
            read(weight, column, rest, w)
            write(own, place * width, w, 0)

        return bring_between
    put = putter(words)

    @device_function
    def bring(weight, column, rest, w, q, weights, own, place):
        fetch(weight, column // width, q, 0)
        put(weights, place, q)

    return bring


@functools.cache
def rows(dtype, param, width, vectors, ranks, parts, edges):
    """Clusters of `ranks` blocks take rows in turn; g, x, dx: (rows * columns,); most: columns of
    all blocks but the last. edges: rows begin between the borders of accesses.

    weight: accesses (see rows.fetcher), with edges (columns,); mean, rstd: (rows,); sums: (2 *
    clusters * columns,), each cluster's dweight and dbias. Shared memory: STAGES times the block's
    part of a row of g and of x, and that of the weights.
    """
    _, _, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    fetch_param, widen_param, param_words, param_kind = fetcher(param, width)
    raw, raw_param, nbytes = numba_type(kind), numba_type(param_kind), dtype.itemsize
    write, write_sums = row_writer(dtype, width, edges), writer(np.dtype(np.float32), 4)
    fetch_lone, clear = ending_fetcher(dtype, width), clearing(width)
    room = 2 * width if edges else width
    warps, elements = THREADS // WARP, vectors * width
    warp_sum, block_sum, cluster_sum = group_sum(WARP, T), group_sum(warps, T), group_sum(ranks, T)
    (meet, tell, hear), gather, halvings = tables(ranks), gathered(parts), ranks.bit_length() - 1
    bring, one_param = bringer(param, width, edges), numba_type(param)
    center, weighted, biased, _, _ = parts
    array_bytes, step = THREADS * elements * nbytes, THREADS * width
    behind = (
        STAGES * 2 * array_bytes // (param.itemsize * width)
    )  # the stages, in accesses of weights

    @device_function
    def ask(ring, full, stage, g, x, place, count):
        """The block's part of a row, `count` bytes `place` bytes from the beginning, into that
        stage (one thread)."""
        barrier = i32(full + 8 * stage)
        target = i32(ring + 2 * array_bytes * stage)
        barrier_expect(barrier, i32(2 * count))
        bulk_load(target, g + place, count, barrier)
        bulk_load(i32(target + array_bytes), x + place, count, barrier)

    @device_function
    def loaded(row, rows, amount, lone):
        """Bytes of the block's part of that row which are loaded."""
        return i32(lone * width * nbytes) if edges and row == rows - 1 else amount

    @device_function
    def take(alone, ring, place, a, i, r):
        """r: an access of the ring, or where it is not there a[i], ..."""
        if alone:
            fetch_lone(a, i, r, 0)
        else:
            fetch(ring, place, r, 0)

    @bounded((THREADS, 1))
    def norm_cluster_grad(g, x, weight, mean, rstd, dx, sums, rows, columns, most):
        ring = cuda.shared.array(0, raw)
        weights = cuda.shared.array(0, raw_param)  # the same memory
        own = cuda.shared.array(0, one_param)  # and once more, number by number
        barriers = cuda.shared.array(STAGES, types.int64)
        partials = cuda.shared.array((2, 2, warps), T)
        tx = i32(cuda.threadIdx.x)
        exchange = meet()
        cluster = cuda.blockIdx.x >> halvings
        clusters = cuda.gridDim.x >> halvings
        begin = cluster_rank() * most
        length = columns
        if edges:  # the block's columns begin `begin` behind a border, a few before the row's
            begin -= cluster * columns % width
            length += (width - (columns - begin) % width) % width  # up to the last access's end
        count = min(most, length - begin)
        first, rest = i32(begin + tx * width), i32(columns - begin - tx * width)
        accesses, amount = i32(count // width), i32(count * nbytes)
        # with edges the access that may end behind the array: the block's last, in the last row
        lone = i32(accesses - 1) if edges and begin + count == length else accesses
        turns = i32((rows - cluster + clusters - 1) // clusters)  # rows of this cluster
        at, full = i32(shared_address(ring)), i32(shared_address(barriers))
        from_g, from_x = global_address(g), global_address(x)
        if tx == 0:
            for stage in range(STAGES):
                barrier_init(i32(full + 8 * stage), i32(1))
            fence_barrier_init()
            fence_async_shared()
            for stage in range(STAGES):
                if stage < turns:
                    ask(
                        at,
                        full,
                        i32(stage),
                        from_g,
                        from_x,
                        ((cluster + stage * clusters) * columns + begin) * nbytes,
                        loaded(cluster + stage * clusters, rows, amount, lone),
                    )
        r = cuda.local.array(words, raw)
        a = cuda.local.array(elements, T)
        v = cuda.local.array(elements, T)
        w = cuda.local.array(room, T)
        q = cuda.local.array(param_words, raw_param)
        dweight = cuda.local.array(elements, T)
        dbias = cuda.local.array(elements, T)
        for e in range(elements):
            dweight[e] = T(0)
            dbias[e] = T(0)
        if weighted:
            for k in range(vectors):
                if i32(k * THREADS + tx) < accesses:
                    place = behind + i32(k * THREADS + tx)
                    column = begin + i32(k * THREADS + tx) * width
                    bring(weight, column, rest - k * step, w, q, weights, own, place)
        next_scale = rstd[cluster]
        next_middle = mean[cluster] if center else T(0)
        scale, middle = T(0), T(0)
        turn, stage, before, phase = i32(0), i32(0), i32(0), i32(0)
        row = cluster
        cuda.syncthreads()
        cluster_wait()
        while turn <= turns:
            old_scale, old_middle = scale, middle
            if turn < turns:  # the first pass of this row
                scale, middle = next_scale, next_middle
                if turn < turns - 1:
                    next_scale = rstd[row + clusters]
                    if center:
                        next_middle = mean[row + clusters]
                mine = i32(2 * vectors * THREADS * stage + tx)
                barrier_wait(i32(full + 8 * stage), phase)
                sum_g = T(0)
                sum_gx = T(0)
                for k in range(vectors):
                    if i32(k * THREADS + tx) < accesses:
                        alone = edges and row == rows - 1 and i32(k * THREADS + tx) == lone
                        at_row = row * columns + first + k * step
                        take(alone, ring, i32(mine + k * THREADS), g, at_row, r)
                        widen(r, 0, a, k * width)
                        take(alone, ring, i32(mine + (vectors + k) * THREADS), x, at_row, r)
                        widen(r, 0, v, k * width)
                        if edges:
                            clear(a, k * width, first + k * step, rest - k * step, T(0))
                            clear(v, k * width, first + k * step, rest - k * step, middle)
                        if weighted:
                            fetch_param(weights, behind + i32(k * THREADS + tx), q, 0)
                            widen_param(q, 0, w, 0)
                        for j in range(width):
                            sum_g, sum_gx = gather(
                                a,
                                v,
                                k * width + j,
                                w[j],
                                middle,
                                scale,
                                dweight,
                                dbias,
                                sum_g,
                                sum_gx,
                            )
                half = i32(turn & 1)
                sum_gx = warp_sum(sum_gx)
                if center:
                    sum_g = warp_sum(sum_g)
                if tx % WARP == 0:
                    partials[half, 0, tx // WARP] = sum_g
                    partials[half, 1, tx // WARP] = sum_gx
                cuda.syncthreads()
                if tx < WARP:
                    sum_g = block_sum(partials[half, 0, tx % warps])
                    sum_gx = block_sum(partials[half, 1, tx % warps])
                    tell(exchange, turn, sum_g / T(columns), sum_gx / T(columns))
            if turn > 0:  # the second pass of the row before
                sum_g, sum_gx = hear(exchange, i32(turn - 1))
                mean_g = old_scale * cluster_sum(sum_g)
                mean_gx = old_scale * old_scale * cluster_sum(sum_gx)
                mine = i32(2 * vectors * THREADS * before + tx)
                start = (row - clusters) * columns + begin
                for k in range(vectors):
                    if i32(k * THREADS + tx) < accesses:
                        column = i32(k * THREADS + tx) * width
                        alone = edges and row - clusters == rows - 1 and column == lone * width
                        take(alone, ring, i32(mine + k * THREADS), g, start + column, r)
                        widen(r, 0, a, k * width)
                        take(alone, ring, i32(mine + (vectors + k) * THREADS), x, start + column, r)
                        widen(r, 0, v, k * width)
                        if weighted:
                            fetch_param(weights, behind + i32(k * THREADS + tx), q, 0)
                            widen_param(q, 0, w, 0)
                        for e in range(k * width, (k + 1) * width):
                            if weighted:
                                a[e] *= w[e - k * width]
                            a[e] = old_scale * a[e] - ((v[e] - old_middle) * mean_gx + mean_g)
                        write(dx, start + column, a, k * width, first + k * step, rest - k * step)
                cuda.syncthreads()  # the stage is free
                if tx == 0 and turn - 1 + STAGES < turns:
                    ask(
                        at,
                        full,
                        before,
                        from_g,
                        from_x,
                        (start + STAGES * clusters * columns) * nbytes,
                        loaded(row + (STAGES - 1) * clusters, rows, amount, lone),
                    )
            row += clusters
            turn = i32(turn + 1)
            before = stage
            stage = i32(stage + 1)
            if stage == STAGES:
                stage = i32(0)
                phase = i32(phase ^ 1)
        for k in range(vectors):
            if i32(k * THREADS + tx) < accesses:
                column = begin + i32(k * THREADS + tx) * width
                if edges:
                    for j in range(width):
                        if 0 <= column + j < columns:
                            if weighted:
                                sums[cluster * columns + column + j] = dweight[k * width + j]
                            if biased:
                                place = (clusters + cluster) * columns + column + j
                                sums[place] = dbias[k * width + j]
                else:
                    for j in range(0, width, 4):
                        if weighted:
                            write_sums(sums, cluster * columns + column + j, dweight, k * width + j)
                        if biased:
                            place = (clusters + cluster) * columns + column + j
                            write_sums(sums, place, dbias, k * width + j)

    return norm_cluster_grad


def plan(p: Backward) -> Plan:
    """The plan of rows in the shared memory of a cluster's blocks. `extra` is added to dx after."""
    x, param = p.x, (p.weight or p.x).dtype
    width, edges = p.long_access
    vectors = cluster_vectors(width, x.dtype, param)
    ranks = ranks_for(p.columns, width, vectors, edges)
    period = width // math.gcd(p.columns, width)
    clusters = clusters_for(p.rows, ranks, period, x)
    weight = numbered(p.g, x, p.weight)[2] or Input(1)
    if edges:
        weight = weight.flat
    else:
        _, _, words, kind = fetcher(param, width)
        weight = weight.view(((p.weight or x).size * words // width,), dtype=kind)
    _, mean, rstd, _ = p.inputs
    most = blocks(p.columns + (width - 1 if edges else 0), ranks * 8) * 8
    step = Launch(
        rows(x.dtype, param, width, vectors, ranks, p.parts._replace(residual=False), edges),
        clusters * ranks,
        THREADS,
        [
            *(Input(0).flat, Input(1).flat, weight, mean, rstd, Output(0).flat, Temp(0).flat),
            *(p.rows, p.columns, most),
        ],
        shared=THREADS * vectors * width * (STAGES * 2 * x.itemsize + param.itemsize),
        cluster=ranks,
    )
    steps = [step]
    if p.extra is not None:
        steps.append(sum_into(Output(0), x, (Output(0), x), (p.addend, p.extra)))
    return Plan(
        p.outputs,
        [*steps, *finish_sums(p, clusters)],
        [x.like((2, clusters if p.summed else 1, p.columns), wide(x.dtype))],
        several=True,
    )
