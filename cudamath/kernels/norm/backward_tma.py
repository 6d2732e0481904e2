"""Gradients of layer norm and RMS norm for rows of 16-bit numbers that a warp or a block shares:
the rows to come wait in shared memory (SM 9.0 and 10.0).

backward.py's `rows` fetches the next row into registers while it works on this one: beside the
sums for weight and bias there is room for no more. Here one thread issues TMA loads of whole rows
ahead of time, into a ring of `depth` stages in shared memory, each with a barrier (mbarrier) that
counts the bytes. So no thread spends instructions or registers on what is in flight; the weights
stay in registers instead. A row of up to 768 numbers belongs to a warp, which has a ring of its own
and waits for no other. Where several warps share a row, its two sums are those of the warps, which
every thread adds up by itself, after the one barrier of a row; behind it every thread has read the
stage, which is requested again. In the end the ring's memory takes the groups' sums for weight and
bias, so that a block writes theirs once, 16 bytes at a time.
"""

import functools

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import WARP, bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_sum
from ..lib.codec import codec
from ..lib.vector_io import fetcher, writer
from ..lib.widths import wide
from ..ptx.sm80 import global_address, shared_address
from ..ptx.sm90 import (
    barrier_expect,
    barrier_init,
    barrier_wait,
    bulk_load,
    fence_async_shared,
    fence_barrier_init,
)
from ..ptx.vector_access import load_vector
from .backward import finish_sums, row_groups
from .backward_parts import gathered, resident
from .problem import Backward, numbered

STAGES = 3
i32, f32 = types.int32, types.float32


@functools.cache
def rows(dtype, param, shape, parts, depth):
    """Groups of threads, a block or its warps, take rows in turn; g, x, extra, dx: (rows *
    columns,).

    weight: accesses (see rows.fetcher); mean, rstd: (rows,); sums: (2 * blocks * columns,), each
    block's dweight and dbias. Shared memory: of each group `depth` stages of a row of each array,
    each row in `row_words` words, and where the group has several warps two sums of each, twice. In
    the end each group's dweight and dbias.
    """
    _, _, T = codec(dtype)
    threads, together, width, vectors = shape
    fetch, widen, words, kind = fetcher(dtype, width)
    fetch_param, widen_param, param_words, param_kind = fetcher(param, width)
    raw, raw_param = numba_type(kind), numba_type(param_kind)
    write, write_sums, warp_sum = (
        writer(dtype, width),
        writer(np.dtype(np.float32), 4),
        group_sum(WARP, T),
    )
    elements, packed, warps = vectors * width, vectors * words, threads // WARP
    size, gather = threads * elements, gathered(parts)
    center, weighted, biased, residual, _ = parts
    row_words = words * vectors * threads
    arrays = 3 if residual else 2
    totals = (
        depth * arrays * row_words
    )  # where the warps' sums begin: one group a block has several warps
    weight_words, stages = vectors * param_words, together * depth

    @device_function
    def ask(ring, full, stage, row, columns, g, x, extra):
        """The rows of this number, into that stage (one thread)."""
        count = i32(2 * columns)
        place = i32(ring + 4 * arrays * row_words * stage)
        barrier = i32(full + 8 * stage)
        barrier_expect(barrier, i32(arrays * count))
        bulk_load(place, g + row * 2 * columns, count, barrier)
        bulk_load(i32(place + 4 * row_words), x + row * 2 * columns, count, barrier)
        if residual:
            bulk_load(i32(place + 8 * row_words), extra + row * 2 * columns, count, barrier)

    @bounded((threads * together, resident(shape, dtype, parts.residual)))
    def norm_ring_grad(g, x, weight, mean, rstd, extra, dx, sums, rows, columns):
        ring = cuda.shared.array(0, raw)
        partials = cuda.shared.array(0, f32)  # the same memory
        barriers = cuda.shared.array(stages, types.int64)
        tx, group = i32(cuda.threadIdx.x), i32(cuda.threadIdx.y)
        step = cuda.gridDim.x * together
        accesses = i32(columns // width)
        at = i32(shared_address(ring) + 4 * depth * arrays * row_words * group)
        full = i32(shared_address(barriers) + 8 * depth * group)
        from_g, from_x, from_extra = global_address(g), global_address(x), global_address(extra)
        row = cuda.blockIdx.x * together + group
        if tx == 0:
            for stage in range(depth):
                barrier_init(i32(full + 8 * stage), i32(1))
            fence_barrier_init()
            fence_async_shared()
            for stage in range(depth):
                if row + stage * step < rows:
                    ask(
                        at,
                        full,
                        i32(stage),
                        row + stage * step,
                        columns,
                        from_g,
                        from_x,
                        from_extra,
                    )
        r = cuda.local.array(packed, raw)
        a = cuda.local.array(elements, T)
        v = cuda.local.array(elements, T)
        w = cuda.local.array(width, T)
        weights = cuda.local.array(weight_words, raw_param)
        dweight = cuda.local.array(elements, T)
        dbias = cuda.local.array(elements, T)
        for e in range(elements):
            dweight[e] = T(0)
            dbias[e] = T(0)
        if weighted:
            for k in range(vectors):
                if i32(k * threads + tx) < accesses:
                    fetch_param(weight, i32(k * threads + tx), weights, k * param_words)
        part = T(1) / T(columns)
        next_scale = rstd[row] if row < rows else T(0)
        next_middle = mean[row] if center and row < rows else T(0)
        stage = i32(0)
        phase = i32(0)
        half = i32(0)
        cuda.syncthreads()
        while row < rows:
            scale = next_scale
            middle = next_middle
            if row + step < rows:
                next_scale = rstd[row + step]
                if center:
                    next_middle = mean[row + step]
            mine = i32(arrays * vectors * threads * (depth * group + stage) + tx)
            barrier_wait(i32(full + 8 * stage), phase)
            sum_g = T(0)
            sum_gx = T(0)
            for k in range(vectors):
                if i32(k * threads + tx) < accesses:
                    fetch(ring, i32(mine + k * threads), r, 0)
                    widen(r, 0, a, k * width)
                    fetch(ring, i32(mine + (vectors + k) * threads), r, 0)
                    widen(r, 0, v, k * width)
                    if weighted:
                        widen_param(weights, k * param_words, w, 0)
                    for j in range(width):
                        sum_g, sum_gx = gather(
                            a, v, k * width + j, w[j], middle, scale, dweight, dbias, sum_g, sum_gx
                        )
            if residual:
                for k in range(vectors):
                    if i32(k * threads + tx) < accesses:
                        fetch(ring, i32(mine + (2 * vectors + k) * threads), r, k * words)
            sum_gx = warp_sum(sum_gx)
            if center:
                sum_g = warp_sum(sum_g)
            if warps > 1:
                if tx % WARP == 0:
                    partials[totals + 2 * warps * half + 2 * (tx // WARP)] = sum_g
                    partials[totals + 2 * warps * half + 2 * (tx // WARP) + 1] = sum_gx
                cuda.syncthreads()
            else:
                cuda.syncwarp()
            if tx == 0 and row + depth * step < rows:
                ask(at, full, stage, row + depth * step, columns, from_g, from_x, from_extra)
            if warps > 1:
                sum_g = T(0)
                sum_gx = T(0)
                for i in range(warps // 2):
                    pairs = load_vector(partials, totals + 2 * warps * half + 4 * i, 4)
                    sum_g += pairs[0] + pairs[2]
                    sum_gx += pairs[1] + pairs[3]
            mean_g = sum_g * part
            mean_gx = sum_gx * part
            for k in range(vectors):
                if i32(k * threads + tx) < accesses:
                    if residual:
                        widen(r, k * words, w, 0)
                    for j in range(width):
                        e = k * width + j
                        a[e] = scale * (a[e] - mean_g - v[e] * mean_gx)
                        if residual:
                            a[e] += w[j]
                    write(dx, row * columns + i32(k * threads + tx) * width, a, k * width)
            row += step
            half = i32(half ^ 1)
            stage = i32(stage + 1)
            if stage == depth:
                stage = i32(0)
                phase = i32(phase ^ 1)
        if weighted or biased:
            cuda.syncthreads()  # the ring is free
            for k in range(vectors):
                for j in range(0, width, 4):
                    e = k * width + j
                    place = 2 * size * group + i32(k * threads + tx) * width + j
                    write_sums(partials, place, dweight, e)
                    write_sums(partials, place + size, dbias, e)
            cuda.syncthreads()
            for which in range(2):
                if weighted if which == 0 else biased:
                    for column in range(
                        4 * (threads * group + tx), columns, 4 * threads * together
                    ):
                        for e in range(4):
                            a[e] = T(0)
                        for other in range(together):
                            theirs = load_vector(partials, (2 * other + which) * size + column, 4)
                            for e in range(4):
                                a[e] += theirs[e]
                        write_sums(
                            sums,
                            (which * cuda.gridDim.x + cuda.blockIdx.x) * columns + column,
                            a,
                            0,
                        )

    return norm_ring_grad


def plan(p: Backward) -> Plan:
    """The plan of rows that TMA loads ahead of time into a ring of stages in shared memory."""
    x, shape, param = p.x, p.shape, (p.weight or p.x).dtype
    assert shape
    groups = row_groups(p)
    _, _, words, kind = fetcher(param, shape.width)
    weight = numbered(p.g, x, p.weight)[2] or Input(1)
    packed = weight.view(((p.weight or x).size * words // shape.width,), dtype=kind)
    _, mean, rstd, _ = p.inputs
    row = 2 * shape.width * shape.vectors * shape.threads
    stages = STAGES * (3 if p.parts.residual else 2) * row * shape.rows
    step = Launch(
        rows(x.dtype, param, shape, p.parts, STAGES),
        groups,
        shape.block,
        [
            *(Input(0).flat, Input(1).flat, packed, mean, rstd, p.addend.flat),
            *(Output(0).flat, Temp(0).flat, p.rows, p.columns),
        ],
        shared=stages + 16 * shape.threads // WARP,
    )
    return Plan(
        p.outputs,
        [step, *finish_sums(p, groups)],
        [x.like((2, groups if p.summed else 1, p.columns), wide(x.dtype))],
        several=True,
    )
