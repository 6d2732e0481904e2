"""Gradients of norms of rows that begin between the borders of accesses (forward.py has the
formulas, forward_shifted.py the idea).

Groups of threads take rows in turn, as in backward.py. Of a row's `width` numbers an access, each
`period`-th row begins equally far from a border. There are a multiple of so many blocks, and all
rows of a block are a multiple of the blocks apart: so a thread has the same columns in each, and
sums dweight and dbias in registers.
"""

import functools
import math

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...runtime.device import multiprocessors
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_sums
from ..lib.codec import codec
from ..lib.vector_io import ending_fetcher, fetcher, row_writer, shifted_reader
from ..lib.widths import wide
from .backward import accesses_of, finish_sums
from .backward_parts import gathered, groups_added, resident
from .problem import Backward
from .row_parts import clearing

i32 = types.int32


@functools.cache
def rows(dtype, param, shape, parts):
    """Groups of threads take rows in turn; g, x, extra: accesses (see rows.fetcher), and g_end,
    x_end, extra_end: the same memory, (rows * columns,), as dx.

    weight: (columns,); mean, rstd: (rows,); sums: (2, blocks, columns), each block's dweight and
    dbias.
    """
    _, _, T = codec(dtype)
    threads, together, width, vectors = shape
    _, widen, words, kind = fetcher(dtype, width)
    fetch, clear, raw = ending_fetcher(dtype, width), clearing(width), numba_type(kind)
    read_param, write = shifted_reader(param, width), row_writer(dtype, width, True)
    sums_of, gather = group_sums(threads, T), gathered(parts)
    elements, packed, room = vectors * width, vectors * words, 2 * width
    center, weighted, biased, residual, _ = parts
    add_groups = groups_added(T, shape, parts)

    @bounded((threads * together, resident(shape, dtype, residual, True)))
    def norm_shifted_rows_grad(
        g, g_end, x, x_end, weight, mean, rstd, extra, extra_end, dx, sums, rows, columns
    ):
        tx = i32(cuda.threadIdx.x)
        groups = cuda.gridDim.x * together
        group = cuda.threadIdx.y * cuda.gridDim.x + cuda.blockIdx.x
        length = i32(columns)
        before = i32(group * columns % width)  # of all rows of the block
        part = T(1) / T(columns)
        next_g = cuda.local.array(packed, raw)
        next_x = cuda.local.array(packed, raw)
        beside = cuda.local.array(words, raw)
        a = cuda.local.array(elements, T)
        v = cuda.local.array(elements, T)
        w = cuda.local.array(room, T)
        dweight = cuda.local.array(elements, T)
        dbias = cuda.local.array(elements, T)
        for e in range(elements):
            dweight[e] = T(0)
            dbias[e] = T(0)
        next_scale = T(0)
        next_middle = T(0)
        if group < rows:
            next_scale = rstd[group]
            if center:
                next_middle = mean[group]
            first = group * columns // width + tx
            for k in range(vectors):
                if i32((k * threads + tx) * width) - before < length:
                    fetch(g, g_end, first + k * threads, next_g, k * words)
                    fetch(x, x_end, first + k * threads, next_x, k * words)
        # All groups of a block go round equally often (the reductions are joint work), the last
        # time perhaps idly.
        for turn in range((rows + groups - 1) // groups):
            row = turn * groups + group
            start = row * columns
            stop = start + columns
            scale = next_scale
            middle = next_middle
            for k in range(vectors):
                column = i32(i32((k * threads + tx) * width) - before)
                if row < rows and column < length:
                    widen(next_g, k * words, a, k * width)
                    widen(next_x, k * words, v, k * width)
                    clear(a, k * width, column, length, T(0))
                    clear(v, k * width, column, length, middle)
                else:
                    for e in range(k * width, (k + 1) * width):
                        a[e] = T(0)
                        v[e] = middle
            following = row + groups
            if following < rows:
                next_scale = rstd[following]
                if center:
                    next_middle = mean[following]
                first = following * columns // width + tx
                for k in range(vectors):
                    if i32((k * threads + tx) * width) - before < length:
                        fetch(g, g_end, first + k * threads, next_g, k * words)
                        fetch(x, x_end, first + k * threads, next_x, k * words)
            sum_g = T(0)
            sum_gx = T(0)
            for k in range(vectors):
                column = i32(i32((k * threads + tx) * width) - before)
                if column < length:
                    if weighted:
                        read_param(weight, column, w, length)
                    for j in range(width):
                        sum_g, sum_gx = gather(
                            a, v, k * width + j, w[j], middle, scale, dweight, dbias, sum_g, sum_gx
                        )
            sum_g, sum_gx = sums_of(sum_g, sum_gx, turn)
            mean_g = sum_g * part
            mean_gx = sum_gx * part
            for k in range(vectors):
                column = i32(i32((k * threads + tx) * width) - before)
                if row < rows and column < length:
                    for j in range(width):
                        e = k * width + j
                        a[e] = scale * (a[e] - mean_g - v[e] * mean_gx)
                    if residual:
                        fetch(extra, extra_end, start // width + (k * threads + tx), beside, 0)
                        widen(beside, 0, w, 0)
                        for j in range(width):
                            a[k * width + j] += w[j]
                    write(dx, start + column, a, k * width, start, stop)
        add_groups(dweight, dbias)
        if cuda.threadIdx.y == together - 1:
            for k in range(vectors):
                for j in range(width):
                    column = (k * threads + tx) * width - before + j
                    if 0 <= column < columns:
                        if weighted:
                            sums[0, cuda.blockIdx.x, column] = dweight[k * width + j]
                        if biased:
                            sums[1, cuda.blockIdx.x, column] = dbias[k * width + j]

    return norm_shifted_rows_grad


def row_blocks(p: Backward) -> int:
    """Blocks that take rows in turn: no more than can run at once, a multiple of the period."""
    shape = p.shifted
    assert shape
    period = shape.width // math.gcd(p.columns, shape.width)
    most = multiprocessors(p.x.device) * resident(shape, p.x.dtype, p.parts.residual, True)
    return max(min(shape.grid(p.rows), most) // period, 1) * period


def plan(p: Backward) -> Plan:
    """The plan of groups of threads that take rows in turn, by whole accesses."""
    x, shape, groups = p.x, p.shifted, row_blocks(p)
    assert shape
    weight, mean, rstd, _ = p.inputs
    arrays = accesses_of(x, shape.width, Input(0), Input(1), p.addend)
    step = Launch(
        rows(x.dtype, p.param.dtype, shape, p.parts),
        groups,
        shape.block,
        [
            *arrays[:4], weight, mean, rstd, *arrays[4:], Output(0).flat, Temp(0), p.rows, p.columns
        ],
    )  # fmt: skip
    return Plan(
        p.outputs,
        [step, *finish_sums(p, groups)],
        [x.like((2, groups if p.summed else 1, p.columns), wide(x.dtype))],
        several=True,
    )
