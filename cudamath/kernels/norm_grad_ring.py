"""Gradients of layer norm and RMS norm for rows of 16-bit numbers that a block shares: the rows to come wait in shared memory.

norm_grad.py's `rows` fetches the next row into registers while it works on this one. Beside the sums for weight and bias there
is room for that one row: 32 KB on the way to a multiprocessor, and for a part of each turn less. At 4.3 TB/s a multiprocessor
takes 33 bytes a nanosecond and waits a microsecond for them: it needs 33 KB on the way all the time, and more to be safe.

Here cp.async brings rows into a ring of `depth` stages in shared memory, 96 KB or more ahead. A thread copies what it alone
will read, so a stage needs no barrier, only the thread's own wait; the one barrier of a row is that of its two sums. A stage is
asked for again when those sums are there, for which every thread has read it.
"""

import functools

from ..core.layout import Layout
from ..core.plan import ArrayArg, Launch
from ..runtime.device import capability
from .build import codec, numba_type
from .lazy import cuda, types
from .norm import Parts
from .norm_grad import RESIDENT
from .ptx_mma import copy_16, copy_commit, copy_wait, global_address, shared_address
from .rows import WARP, Rows, bounded, fetcher, group_sums, reader, writer

DEVICES = ((8, 0), (9, 0), (10, 0))  # 160 KB and more of shared memory on a multiprocessor
STAGES = {2: 4, 3: 3}  # of a ring, by arrays: 128 or 144 KB a multiprocessor
i32 = types.int32


def fits(shape: Rows | None, x: Layout) -> bool:
    """Whether rows of this shape can go through the ring."""
    return bool(shape and shape.threads > WARP and shape.width == 8 and capability(x.device) in DEVICES)


@functools.cache
def rows(dtype, param, shape, parts, depth):
    """A block takes rows in turn; g, x, extra: accesses (see rows.fetcher); dx: (rows * columns,).

    weight: (columns,); mean, rstd: (rows,); sums: (2, blocks, columns), each block's dweight and dbias. Shared memory: `depth`
    stages of a row of each array.
    """
    _, _, T = codec(dtype)
    threads, _, width, vectors = shape
    fetch, widen, words, kind = fetcher(dtype, width)
    raw = numba_type(kind)
    read_param, write = reader(param, width), writer(dtype, width)
    sums_of = group_sums(threads, T)
    held, packed = vectors * width, vectors * words
    center, weighted, biased, residual, _ = parts
    row_accesses = vectors * threads  # of an array in a stage
    stage_accesses = row_accesses * (3 if residual else 2)
    come = copy_wait(depth - 1)

    @bounded((threads, RESIDENT // threads))
    def norm_ring_grad(g, x, weight, mean, rstd, extra, dx, sums, rows, columns):
        ring = cuda.shared.array(0, raw)
        tx = cuda.threadIdx.x
        step = cuda.gridDim.x
        accesses = columns // width
        at = i32(shared_address(ring) + 16 * tx)
        from_g, from_x, from_extra = global_address(g), global_address(x), global_address(extra)
        r = cuda.local.array(packed, raw)
        a = cuda.local.array(held, T)
        v = cuda.local.array(held, T)
        w = cuda.local.array(width, T)
        dweight = cuda.local.array(held, T)
        dbias = cuda.local.array(held, T)
        for e in range(held):
            dweight[e] = T(0)
            dbias[e] = T(0)
        part = T(1) / T(columns)
        row = cuda.blockIdx.x
        for stage in range(depth):
            coming = row + stage * step
            for k in range(vectors):
                if coming < rows and k * threads + tx < accesses:
                    place = i32(at + 16 * (stage * stage_accesses + k * threads))
                    source = 16 * (coming * accesses + k * threads + tx)
                    copy_16(place, from_g + source)
                    copy_16(i32(place + 16 * row_accesses), from_x + source)
                    if residual:
                        copy_16(i32(place + 32 * row_accesses), from_extra + source)
            copy_commit()
        next_scale = rstd[row] if row < rows else T(0)
        next_middle = mean[row] if center and row < rows else T(0)
        stage = i32(0)
        turn = i32(0)
        while row < rows:
            scale = next_scale
            middle = next_middle
            if row + step < rows:
                next_scale = rstd[row + step]
                if center:
                    next_middle = mean[row + step]
            mine = i32(stage * stage_accesses + tx)
            come()
            sum_g = T(0)
            sum_gx = T(0)
            for k in range(vectors):
                if k * threads + tx < accesses:
                    fetch(ring, mine + k * threads, r, 0)
                    widen(r, 0, a, k * width)
                    fetch(ring, mine + row_accesses + k * threads, r, 0)
                    widen(r, 0, v, k * width)
                    if weighted:
                        read_param(weight, (k * threads + tx) * width, w, 0)
                    for j in range(width):
                        e = k * width + j
                        v[e] = (v[e] - middle) * scale
                        if weighted:
                            dweight[e] += a[e] * v[e]
                        if biased:
                            dbias[e] += a[e]
                        if weighted:
                            a[e] *= w[j]
                        if center:
                            sum_g += a[e]
                        sum_gx += a[e] * v[e]
            sum_g, sum_gx = sums_of(sum_g, sum_gx, turn)
            mean_g = sum_g * part
            mean_gx = sum_gx * part
            if residual:
                for k in range(vectors):
                    if k * threads + tx < accesses:
                        fetch(ring, mine + 2 * row_accesses + k * threads, r, k * words)
            coming = row + depth * step
            for k in range(vectors):
                if k * threads + tx < accesses:
                    if residual:
                        widen(r, k * words, w, 0)
                    for j in range(width):
                        e = k * width + j
                        a[e] = scale * (a[e] - mean_g - v[e] * mean_gx)
                        if residual:
                            a[e] += w[j]
                    write(dx, (row * accesses + k * threads + tx) * width, a, k * width)
                    if coming < rows:
                        place = i32(at + 16 * (stage * stage_accesses + k * threads))
                        source = 16 * (coming * accesses + k * threads + tx)
                        copy_16(place, from_g + source)
                        copy_16(i32(place + 16 * row_accesses), from_x + source)
                        if residual:
                            copy_16(i32(place + 32 * row_accesses), from_extra + source)
            copy_commit()
            row += step
            turn = i32(turn ^ 1)
            stage = i32(stage + 1 if stage + 1 < depth else 0)
        for k in range(vectors):
            column = (k * threads + tx) * width
            if column < columns:
                for j in range(width):
                    if weighted:
                        sums[0, cuda.blockIdx.x, column + j] = dweight[k * width + j]
                    if biased:
                        sums[1, cuda.blockIdx.x, column + j] = dbias[k * width + j]

    return norm_ring_grad


def launch(x: Layout, param, shape: Rows, parts: Parts, groups: int, arrays: list[ArrayArg], rest: list) -> Launch:
    """arrays: g, x and what is added, as accesses; rest: weight, mean, rstd; dx, sums, rows, columns."""
    count = 3 if parts.residual else 2
    depth = STAGES[count]
    return Launch(rows(x.dtype, param, shape, parts, depth), groups, shape.threads,
                  [*arrays[:2], *rest[:3], arrays[2], *rest[3:]], shared=16 * depth * count * shape.vectors * shape.threads)
