"""Norms of rows that begin between the borders of accesses (forward.py has the formulas).

Rows of 14,511 bfloat16 begin at any even address. Read a number at a time they take one and a half
to two and a half times as long as memory does: a warp's instruction moves 64 bytes instead of 512.
So a thread holds whole accesses here too. The first of a row may begin before the row, the last end
behind it; what belongs to the neighbours is read, set to 0, and not written.

Weights and biases begin at a border, so those of an access lie in two of theirs, equally far from
the borders in the whole row. A thread reads both, from the cache, and moves them by choices among
its registers: one by one, eight columns of 16 bits would take 32 cycles of the cache instead of 8.
"""

import functools

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, types
from ..lib.block_reduce import group_total, inverse_root
from ..lib.codec import codec
from ..lib.vector_io import clearing, fetcher, row_reader, row_writer, shifted_reader
from ..lib.widths import wide
from .problem import Forward

i32 = types.int32


@functools.cache
def rows(dtype, param, shape, parts):
    """A row in the registers of a group of threads (see Rows); x, y: (rows * columns,);
    block (threads, rows per block). (A residual is added before.)

    16-bit numbers stay packed and are widened anew in each pass, so that two blocks of 512 threads
    are on a multiprocessor: one reads while the other writes. Groups for which no row is left do
    the last one once more and write the same. weight, bias: (columns,); mean, rstd: (rows,) or
    (0,); part: 1 / columns.
    """
    _, _, T = codec(dtype)
    threads, together, width, vectors = shape
    _, widen, words, _ = fetcher(dtype, width)
    fetch, _, packed, raw = row_reader(dtype, width, vectors, True)
    clear, room, step = clearing(width), 2 * width, threads * width
    read_param, write = shifted_reader(param, width), row_writer(dtype, width, True)
    total_of, root = group_total(threads, T), inverse_root(T)
    center, weighted, biased, _, _ = parts

    @bounded((max(threads, 128), min(max(1024 // threads, 1), 8)))  # 64 registers
    def norm_shifted_rows(x, weight, bias, y, mean, rstd, rows, columns, eps, part):
        tx = i32(cuda.threadIdx.x)
        row = min(cuda.blockIdx.x * together + cuda.threadIdx.y, rows - 1)
        start = row * columns
        first = i32(i32(tx * width) - i32(start % width))
        at, rest = start + first, i32(columns - first)
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(width, T)
        w = cuda.local.array(room, T)
        fetch(x, at, rest, step, r, T(0))
        middle = T(0)
        if center:
            for k in range(vectors):
                widen(r, k * words, v, 0)
                clear(v, 0, first + k * step, rest - k * step, T(0))
                for j in range(width):
                    middle += v[j]
            middle = total_of(middle, 0) * part
        total = T(0)
        for k in range(vectors):
            widen(r, k * words, v, 0)
            for j in range(width):
                v[j] -= middle
            clear(v, 0, first + k * step, rest - k * step, T(0))
            for j in range(width):
                total += v[j] * v[j]
        scale = root(total_of(total, 1) * part + eps)
        if tx == 0 and rstd.size:
            if center:
                mean[row] = middle
            rstd[row] = scale
        for k in range(vectors):
            if k * step < rest:
                widen(r, k * words, v, 0)
                for j in range(width):
                    v[j] = (v[j] - middle) * scale
                if weighted:
                    read_param(weight, first + k * step, rest - k * step, w)
                    for j in range(width):
                        v[j] *= w[j]
                if biased:
                    read_param(bias, first + k * step, rest - k * step, w)
                    for j in range(width):
                        v[j] += w[j]
                write(y, at + k * step, v, 0, first + k * step, rest - k * step)

    return norm_shifted_rows


def plan(p: Forward) -> Plan:
    """The plan of rows in the registers of a group of threads, by whole accesses. A residual is
    added before."""
    x, shape = p.x, p.shifted
    assert shape
    _, w, b, _ = p.inputs
    arrays = [p.sum.flat, w, b, Output(0).flat, *p.mean_rstd]
    numbers = [p.rows, p.columns, p.numbers[-1], wide(x.dtype).type(1 / p.columns)]
    kernel = rows(x.dtype, p.param, shape, p.parts._replace(residual=False))
    step = Launch(kernel, shape.grid(p.rows), shape.block, [*arrays, *numbers])
    return Plan(p.outputs, [*p.addition, step])
