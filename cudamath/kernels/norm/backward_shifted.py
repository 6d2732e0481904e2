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
from ..lib.block_reduce import group_sums
from ..lib.codec import codec
from ..lib.vector_io import clearing, fetcher, row_reader, row_writer, shifted_reader
from ..lib.widths import wide
from .backward import finish_sums
from .backward_parts import gathered, groups_added, resident
from .problem import Backward

i32 = types.int32


@functools.cache
def rows(dtype, param, shape, parts):
    """Groups of threads take rows in turn; g, x, extra, dx: (rows * columns,).

    weight: (columns,); mean, rstd: (rows,); sums: (2, blocks, columns), each block's dweight and
    dbias.
    """
    _, _, T = codec(dtype)
    threads, together, width, vectors = shape
    _, widen, words, _ = fetcher(dtype, width)
    fetch, take, packed, raw = row_reader(dtype, width, vectors, True)
    fetch_one, _, _, _ = row_reader(dtype, width, 1, True, True)
    clear, step = clearing(width), threads * width
    read_param, write = shifted_reader(param, width), row_writer(dtype, width, True)
    sums_of, gather = group_sums(threads, T), gathered(parts)
    elements, room = vectors * width, 2 * width
    center, weighted, biased, residual, _ = parts
    add_groups = groups_added(T, shape, parts)

    @bounded((threads * together, resident(shape, dtype, residual, True)))
    def norm_shifted_rows_grad(g, x, weight, mean, rstd, extra, dx, sums, rows, columns):
        tx = i32(cuda.threadIdx.x)
        groups = cuda.gridDim.x * together
        group = cuda.threadIdx.y * cuda.gridDim.x + cuda.blockIdx.x
        # the first access, of all rows of the block
        first = i32(i32(tx * width) - i32(group * columns % width))
        rest = i32(columns - first)
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
            at = group * columns + first
            fetch(g, at, rest, step, next_g, T(0))
            fetch(x, at, rest, step, next_x, T(0))
        # All groups of a block go round equally often (the reductions are joint work), the last
        # time perhaps idly.
        for turn in range((rows + groups - 1) // groups):
            row = turn * groups + group
            here = row * columns + first
            scale = next_scale
            middle = next_middle
            for k in range(vectors):
                if row < rows and k * step < rest:
                    widen(next_g, k * words, a, k * width)
                    widen(next_x, k * words, v, k * width)
                    clear(a, k * width, first + k * step, rest - k * step, T(0))
                    clear(v, k * width, first + k * step, rest - k * step, middle)
                else:
                    for e in range(k * width, (k + 1) * width):
                        a[e] = T(0)
                        v[e] = middle
            following = row + groups
            if following < rows:
                next_scale = rstd[following]
                if center:
                    next_middle = mean[following]
                at = following * columns + first
                fetch(g, at, rest, step, next_g, T(0))
                fetch(x, at, rest, step, next_x, T(0))
            sum_g = T(0)
            sum_gx = T(0)
            for k in range(vectors):
                if k * step < rest:
                    if weighted:
                        read_param(weight, first + k * step, rest - k * step, w)
                    for j in range(width):
                        sum_g, sum_gx = gather(
                            a, v, k * width + j, w[j], middle, scale, dweight, dbias, sum_g, sum_gx
                        )
            sum_g, sum_gx = sums_of(sum_g, sum_gx, turn)
            mean_g = sum_g * part
            mean_gx = sum_gx * part
            for k in range(vectors):
                if row < rows and k * step < rest:
                    for j in range(width):
                        e = k * width + j
                        a[e] = scale * (a[e] - mean_g - v[e] * mean_gx)
                    if residual:
                        fetch_one(extra, here + k * step, rest, step, beside, T(0))
                        widen(beside, 0, w, 0)
                        for j in range(width):
                            a[k * width + j] += w[j]
                    write(dx, here + k * step, a, k * width, first + k * step, rest - k * step)
        add_groups(dweight, dbias)
        if cuda.threadIdx.y == together - 1:
            for k in range(vectors):
                for j in range(width):
                    column = first + k * step + j
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
    arrays = [Input(0).flat, Input(1).flat, weight, mean, rstd, p.addend.flat]
    step = Launch(
        rows(x.dtype, p.param.dtype, shape, p.parts),
        groups,
        shape.block,
        [*arrays, Output(0).flat, Temp(0), p.rows, p.columns],
    )
    return Plan(
        p.outputs,
        [step, *finish_sums(p, groups)],
        [x.like((2, groups if p.summed else 1, p.columns), wide(x.dtype))],
        several=True,
    )
