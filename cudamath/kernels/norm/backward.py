"""Gradients of layer norm and RMS norm (forward.py explains the picture and the versions).

Measured (row versions_norm_grad):
gradient of layer norm, 87,040 x 768, bfloat16; NVIDIA H200, commit 52457ee46004, 2026-11-23

                    GB/s     of a copy
    plain           17.0          0.00
    long_rows        466          0.11
    rows           3,632          0.86
    tma            3,761          0.89

(end of what was measured)
"""

import functools

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...runtime.device import multiprocessors
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_sum, group_sums
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import (
    ending_fetcher,
    fetcher,
    reader,
    remaining,
    row_reader,
    row_writer,
    shifted_reader,
    writer,
)
from ..lib.widths import wide
from .backward_parts import KEPT, gathered, groups_added, resident
from .problem import Backward, sum_into
from .row_parts import LONG

SPLITS = 64  # parts the rows are cut into where a kernel of its own sums over them
LANES, PARTS = 32, 16  # sums over rows: accesses per block, threads per column
ROWS, BUSY = (
    8,
    4,
)  # .. rows a thread adds up, unless there are fewer than so many blocks for each multiprocessor
LAST = 32  # .. of the last sums
IN_FLIGHT = 4  # rows of which a thread has asked for its accesses before it adds the first up
FEW, AHEAD = (
    256,
    8,
)  # threads of a block, where one thread adds up a column's, so many of them in flight
i32 = types.int32


@functools.cache
def plain(dtype, param, parts):
    """One thread per row; g, x, extra, dx: (rows, columns); weight: (columns,); mean, rstd:
    (rows,)."""
    load, store, T = codec(dtype)
    load_param, _, _ = codec(param)
    center, weighted, _, residual, _ = parts

    @cuda.jit
    def norm_plain_grad(g, x, weight, mean, rstd, extra, dx):
        row = cuda.grid(1)
        if row < x.shape[0]:
            columns = x.shape[1]
            middle = mean[row] if center else T(0)
            scale = rstd[row]
            sum_g = T(0)
            sum_gx = T(0)
            for c in range(columns):
                gw = load(g[row, c]) * load_param(weight[c]) if weighted else load(g[row, c])
                sum_g += gw
                sum_gx += gw * ((load(x[row, c]) - middle) * scale)
            mean_g = sum_g / T(columns) if center else T(0)
            mean_gx = sum_gx / T(columns)
            for c in range(columns):
                gw = load(g[row, c]) * load_param(weight[c]) if weighted else load(g[row, c])
                slope = scale * (gw - mean_g - (load(x[row, c]) - middle) * scale * mean_gx)
                dx[row, c] = store(slope + load(extra[row, c]) if residual else slope)

    return norm_plain_grad


@functools.cache
def plain_sums(dtype, param, parts):
    """One thread per column; g, x: (rows, columns); mean, rstd: (rows,); dweight, dbias:
    (columns,)."""
    load, _, T = codec(dtype)
    _, store_param, _ = codec(param)
    center, weighted, biased, _, _ = parts

    @cuda.jit
    def norm_plain_sums(g, x, mean, rstd, dweight, dbias):
        c = cuda.grid(1)
        if c < x.shape[1]:
            sum_gx = T(0)
            sum_g = T(0)
            for row in range(x.shape[0]):
                d = load(x[row, c]) - mean[row] if center else load(x[row, c])
                sum_gx += load(g[row, c]) * (d * rstd[row])
                sum_g += load(g[row, c])
            if weighted:
                dweight[c] = store_param(sum_gx)
            if biased:
                dbias[c] = store_param(sum_g)

    return norm_plain_sums


@functools.cache
def rows(dtype, param, shape, parts):
    """Groups of threads take rows in turn; g, x, extra: accesses (see rows.fetcher); dx: (rows *
    columns,).

    weight: (columns,); mean, rstd: (rows,); sums: (2, blocks, columns), each block's dweight and
    dbias.
    """
    _, _, T = codec(dtype)
    threads, together, width, vectors = shape
    fetch, widen, words, kind = fetcher(dtype, width)
    raw = numba_type(kind)
    read_param, write = reader(param, width), writer(dtype, width)
    sums_of, gather = group_sums(threads, T), gathered(parts)
    elements, packed = vectors * width, vectors * words
    in_registers = elements <= KEPT
    center, weighted, biased, residual, _ = parts
    add_groups = groups_added(T, shape, parts)

    @bounded((threads * together, resident(shape, dtype, residual)))
    def norm_rows_grad(g, x, weight, mean, rstd, extra, dx, sums, rows, columns):
        tx = i32(cuda.threadIdx.x)
        groups = cuda.gridDim.x * together
        group = cuda.blockIdx.x * together + cuda.threadIdx.y
        accesses = i32(columns // width)
        part = T(1) / T(columns)
        next_g = cuda.local.array(packed, raw)
        next_x = cuda.local.array(packed, raw)
        beside = cuda.local.array(packed, raw)
        a = cuda.local.array(elements, T)
        v = cuda.local.array(elements, T)
        w = cuda.local.array(width, T)
        own = cuda.local.array(elements if in_registers else width, T)
        dweight = cuda.local.array(elements, T)
        dbias = cuda.local.array(elements, T)
        for e in range(elements):
            dweight[e] = T(0)
            dbias[e] = T(0)
        if weighted and in_registers:
            for k in range(vectors):
                if i32(k * threads + tx) < accesses:
                    read_param(weight, (k * threads + tx) * width, own, k * width)
        next_scale = T(0)
        next_middle = T(0)
        if group < rows:
            next_scale = rstd[group]
            if center:
                next_middle = mean[group]
            for k in range(vectors):
                if i32(k * threads + tx) < accesses:
                    fetch(g, group * accesses + (k * threads + tx), next_g, k * words)
                    fetch(x, group * accesses + (k * threads + tx), next_x, k * words)
        # All groups of a block go round equally often (the reductions are joint work), the last
        # time perhaps idly.
        for turn in range((rows + groups - 1) // groups):
            row = turn * groups + group
            scale = next_scale
            middle = next_middle
            for k in range(vectors):
                if row < rows and i32(k * threads + tx) < accesses:
                    widen(next_g, k * words, a, k * width)
                    widen(next_x, k * words, v, k * width)
                    if residual:
                        fetch(extra, row * accesses + (k * threads + tx), beside, k * words)
                else:
                    for e in range(k * width, (k + 1) * width):
                        a[e] = T(0)
                        v[e] = middle
            following = row + groups
            if following < rows:
                next_scale = rstd[following]
                if center:
                    next_middle = mean[following]
                for k in range(vectors):
                    if i32(k * threads + tx) < accesses:
                        fetch(g, following * accesses + (k * threads + tx), next_g, k * words)
                        fetch(x, following * accesses + (k * threads + tx), next_x, k * words)
            sum_g = T(0)
            sum_gx = T(0)
            for k in range(vectors):
                if i32(k * threads + tx) < accesses:
                    at = k * width if in_registers else 0
                    if weighted and not in_registers:
                        read_param(weight, (k * threads + tx) * width, own, at)
                    for j in range(width):
                        e = k * width + j
                        sum_g, sum_gx = gather(
                            a, v, e, own[at + j], middle, scale, dweight, dbias, sum_g, sum_gx
                        )
            sum_g, sum_gx = sums_of(sum_g, sum_gx, turn)
            mean_g = sum_g * part
            mean_gx = sum_gx * part
            for k in range(vectors):
                if row < rows and i32(k * threads + tx) < accesses:
                    if residual:
                        widen(beside, k * words, w, 0)
                    for j in range(width):
                        e = k * width + j
                        a[e] = scale * (a[e] - mean_g - v[e] * mean_gx)
                        if residual:
                            a[e] += w[j]
                    write(dx, (row * accesses + (k * threads + tx)) * width, a, k * width)
        add_groups(dweight, dbias)
        if cuda.threadIdx.y == together - 1:
            for k in range(vectors):
                column = (k * threads + tx) * width
                if column < columns:
                    for j in range(width):
                        if weighted:
                            sums[0, cuda.blockIdx.x, column + j] = dweight[k * width + j]
                        if biased:
                            sums[1, cuda.blockIdx.x, column + j] = dbias[k * width + j]

    return norm_rows_grad


@functools.cache
def long_reader(dtype, param, width, weighted, edges):
    """Device function (g, x, weight, start, column, rest, middle, a, v): a = g times the weight,
    and v = x, of the access at `column` of a row that begins at `start`, `rest` columns before its
    end; what does not belong to the row is 0 and `middle`."""
    T = codec(dtype)[2]
    fetch, take, size, kind = row_reader(dtype, width, 1, edges, True)
    read_param, room = reader(param, width), 2 * width
    read_between = shifted_reader(param, width)

    @device_function
    def read(g, x, weight, start, column, rest, middle, a, v):
        from_g = cuda.local.array(size, kind)
        from_x = cuda.local.array(size, kind)
        w = cuda.local.array(room, T)
        fetch(g, start + column, rest, 0, from_g, T(0))
        fetch(x, start + column, rest, 0, from_x, middle)
        take(from_g, column, rest, 0, a, T(0))
        take(from_x, column, rest, 0, v, middle)
        if weighted:
            if edges:
                read_between(weight, column, rest, w)
            else:
                read_param(weight, column, w, 0)
            for j in range(width):
                a[j] *= w[j]

    return read


@functools.cache
def long_rows(dtype, param, width, parts, edges):
    """One block of LONG threads per row of any length; g, x, dx: (rows * columns,); grid: rows.

    weight: (columns,); mean, rstd: (rows,). edges: rows begin between the borders of accesses.
    """
    _, _, T = codec(dtype)
    center, weighted, _, _, _ = parts
    read = long_reader(dtype, param, width, weighted, edges)
    write, step = row_writer(dtype, width, edges), LONG * width
    total_of = group_sum(LONG, T)

    @bounded((LONG, 1) if edges else LONG)  # the ends take more than 32 registers
    def norm_long_rows_grad(g, x, weight, mean, rstd, dx, columns):
        row = cuda.blockIdx.x
        start = row * columns
        first = cuda.threadIdx.x * width
        if edges:
            first -= start % width
        a = cuda.local.array(width, T)
        v = cuda.local.array(width, T)
        scale = rstd[row]
        middle = mean[row] if center else T(0)
        sum_g = T(0)
        sum_gx = T(0)
        for column in range(first, columns, step):
            rest = remaining(columns, column)
            read(g, x, weight, start, column, rest, middle, a, v)
            for j in range(width):
                sum_g += a[j]
                sum_gx += a[j] * ((v[j] - middle) * scale)
        mean_g = total_of(sum_g) / T(columns) if center else T(0)
        mean_gx = total_of(sum_gx) / T(columns)
        for column in range(first, columns, step):
            rest = remaining(columns, column)
            read(g, x, weight, start, column, rest, middle, a, v)
            for j in range(width):
                a[j] = scale * (a[j] - mean_g - (v[j] - middle) * scale * mean_gx)
            write(dx, start + column, a, 0, column, rest)

    return norm_long_rows_grad


def columns_of_sums(width: int, edges: bool) -> int:
    """Columns that a block of `column_sums` sums."""
    return (LANES - edges) * width


@functools.cache
def column_sums(dtype, width, center, edges=False):
    """Sums over a part of the rows; g, x: (rows * columns,); block (LANES accesses, PARTS),
    grid (columns, splits).

    edges: rows begin between the borders of accesses. PARTS is a multiple of each `width`, so all
    rows of a thread begin equally far from a border, and it has the same columns in each. Threads
    of other rows have others: so a block sums an access less than it reads.

    mean, rstd: (rows,); sums: (2, splits, columns), each split's dweight and dbias. A thread reads
    IN_FLIGHT rows before it works on any; for those that are not there it reads its first one
    again.
    """
    _, widen, words, kind = fetcher(dtype, width)
    fetch, (_, _, T) = ending_fetcher(dtype, width, edges), codec(dtype)
    raw, packed = numba_type(kind), IN_FLIGHT * words
    covered = columns_of_sums(width, edges)

    @bounded(LANES * PARTS)
    def norm_column_sums(g, x, mean, rstd, sums, rows, columns):
        room = cuda.shared.array((2, PARTS, covered), T)
        lane, part = cuda.threadIdx.x, cuda.threadIdx.y
        begin = cuda.blockIdx.x * covered
        row0 = cuda.blockIdx.y * PARTS + part
        before = row0 * columns % width if edges else 0  # of all rows of the thread
        column = begin + lane * width - before
        step = cuda.gridDim.y * PARTS
        next_g = cuda.local.array(packed, raw)
        next_x = cuda.local.array(packed, raw)
        middles = cuda.local.array(IN_FLIGHT, T)
        scales = cuda.local.array(IN_FLIGHT, T)
        dweight = cuda.local.array(width, T)
        dbias = cuda.local.array(width, T)
        a = cuda.local.array(width, T)
        v = cuda.local.array(width, T)
        for j in range(width):
            dweight[j] = T(0)
            dbias[j] = T(0)
        if column < columns:
            for row in range(row0, rows, IN_FLIGHT * step):
                for k in range(IN_FLIGHT):
                    there = row + k * step if row + k * step < rows else row
                    fetch(g, there * columns + column, next_g, k * words)
                    fetch(x, there * columns + column, next_x, k * words)
                    middles[k] = mean[there] if center else T(0)
                    scales[k] = rstd[there]
                for k in range(IN_FLIGHT):
                    if row + k * step < rows:
                        widen(next_g, k * words, a, 0)
                        widen(next_x, k * words, v, 0)
                        for j in range(width):
                            dweight[j] += a[j] * ((v[j] - middles[k]) * scales[k])
                            dbias[j] += a[j]
        for j in range(width):
            place = lane * width + j - before
            if not edges or 0 <= place < covered:
                room[0, part, place] = dweight[j]
                room[1, part, place] = dbias[j]
        cuda.syncthreads()
        for e in range(part * LANES + lane, 2 * covered, LANES * PARTS):
            which, place = e // covered, e % covered
            if begin + place < columns:
                total = T(0)
                for p in range(PARTS):
                    total += room[which, p, place]
                sums[which, cuda.blockIdx.y, begin + place] = total

    return norm_column_sums


@functools.cache
def finish(param, parts):
    """The last sums; sums: (2, groups, columns); dweight, dbias: (columns,); block (LANES columns,
    LAST), grid (columns, 2)."""
    _, store_param, T = codec(param)
    _, weighted, biased, _, _ = parts

    @bounded(LANES * LAST)
    def norm_finish(sums, dweight, dbias):
        room = cuda.shared.array((LAST, LANES), T)
        lane, part, which = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.y
        if not (weighted if which == 0 else biased):
            return
        column = cuda.blockIdx.x * LANES + lane
        groups, columns = sums.shape[1], sums.shape[2]
        total = T(0)
        if column < columns:
            for group in range(part, groups, LAST):
                total += sums[which, group, column]
        room[part, lane] = total
        cuda.syncthreads()
        if part == 0 and column < columns:
            total = T(0)
            for p in range(LAST):
                total += room[p, lane]
            if which == 0:
                if weighted:
                    dweight[column] = store_param(total)
            elif biased:
                dbias[column] = store_param(total)

    return norm_finish


@functools.cache
def finish_few(param, parts):
    """As finish, for few groups and many columns: one thread per column; grid (columns, 2)."""
    _, store_param, T = codec(param)
    _, weighted, biased, _, _ = parts

    @bounded(FEW)
    def norm_finish_few(sums, dweight, dbias):
        column, which = cuda.grid(1), cuda.blockIdx.y
        groups = sums.shape[1]
        part = cuda.local.array(AHEAD, T)
        if column < sums.shape[2]:
            total = T(0)
            for group in range(0, groups, AHEAD):
                for j in range(AHEAD):
                    part[j] = sums[which, min(group + j, groups - 1), column]
                for j in range(AHEAD):
                    if group + j < groups:
                        total += part[j]
            if which == 0:
                if weighted:
                    dweight[column] = store_param(total)
            elif biased:
                dbias[column] = store_param(total)

    return norm_finish_few


# Planners.


def plan_plain(p: Backward) -> Plan:
    """The plan of a thread per row, and one per column for the sums: without rows these are
    zeros."""
    weight, mean, rstd, _ = p.inputs
    dtype, param = p.x.dtype, p.param.dtype
    g, x, extra, dx = (
        a.view((p.rows, p.columns)) for a in (Input(0), Input(1), p.addend, Output(0))
    )
    steps = []
    if p.rows:
        arguments = [g, x, weight, mean, rstd, extra, dx]
        steps.append(Launch(plain(dtype, param, p.parts), blocks(p.rows, 128), 128, arguments))
    if p.summed:
        kernel = plain_sums(dtype, param, p.parts)
        arguments = [g, x, mean, rstd, *p.sums]
        steps.append(Launch(kernel, blocks(p.columns, 128), 128, arguments))
    return Plan(p.outputs, steps, several=True)


def plan_rows(p: Backward) -> Plan:
    """The plan of groups of threads that take rows in turn."""
    x, shape, groups = p.x, p.shape, row_groups(p)
    assert shape
    weight, mean, rstd, _ = p.inputs
    _, _, words, kind = fetcher(x.dtype, p.width)
    g, data, extra = (
        a.view((x.size * words // p.width,), dtype=kind) for a in (Input(0), Input(1), p.addend)
    )
    step = Launch(
        rows(x.dtype, p.param.dtype, shape, p.parts),
        groups,
        shape.block,
        [g, data, weight, mean, rstd, extra, Output(0).flat, Temp(0), p.rows, p.columns],
    )
    return Plan(
        p.outputs,
        [step, *finish_sums(p, groups)],
        [x.like((2, groups if p.summed else 1, p.columns), wide(x.dtype))],
        several=True,
    )


def plan_long_rows(p: Backward) -> Plan:
    """The plan of a block per row, and a kernel of its own for the sums over rows."""
    x, (weight, mean, rstd, _) = p.x, p.inputs
    g, data, dx = Input(0).flat, Input(1).flat, Output(0).flat
    width, edges = p.long_access
    kernel = long_rows(x.dtype, p.param.dtype, width, p.parts, edges)
    step = Launch(kernel, p.rows, LONG, [g, data, weight, mean, rstd, dx, p.columns])
    return with_sums(p, step)


def with_sums(p: Backward, step: Launch) -> Plan:
    """The plan of a step that writes dx alone: what is added to it, and the sums over rows."""
    x, (_, mean, rstd, _) = p.x, p.inputs
    width, edges = p.long_access
    across = blocks(p.columns, columns_of_sums(width, edges))
    enough = max(blocks(p.rows, PARTS * ROWS), blocks(BUSY * multiprocessors(x.device), across))
    groups = min(SPLITS, blocks(p.rows, PARTS), enough)
    steps = [step]
    if p.extra is not None:
        steps.append(sum_into(Output(0), x, (Output(0), x), (p.addend, p.extra)))
    if p.summed:
        kernel = column_sums(x.dtype, width, p.parts.center, edges)
        arguments = [Input(0).flat, Input(1).flat, mean, rstd, Temp(0), p.rows, p.columns]
        steps.append(Launch(kernel, (across, groups), (LANES, PARTS), arguments))
    return Plan(
        p.outputs,
        [*steps, *finish_sums(p, groups)],
        [x.like((2, groups if p.summed else 1, p.columns), wide(x.dtype))],
        several=True,
    )


def row_groups(p: Backward) -> int:
    """Blocks that take rows in turn: no more than can run at once."""
    assert p.shape
    most = multiprocessors(p.x.device) * resident(p.shape, p.x.dtype, p.parts.residual)
    return min(p.shape.grid(p.rows), most)


def finish_sums(p: Backward, groups: int) -> list[Launch]:
    """The launch that adds up dweight and dbias of so many groups, in Temp(0)."""
    if not p.summed:
        return []
    param, arguments = p.param.dtype, [Temp(0), *p.sums]
    threads_suffice = p.columns >= LANES * BUSY * multiprocessors(p.x.device)
    if groups <= LAST and threads_suffice:
        return [Launch(finish_few(param, p.parts), (blocks(p.columns, FEW), 2), FEW, arguments)]
    grid = blocks(p.columns, LANES), 2
    return [Launch(finish(param, p.parts), grid, (LANES, LAST), arguments)]
