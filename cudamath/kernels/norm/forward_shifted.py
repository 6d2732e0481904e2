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
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_total, inverse_root
from ..lib.codec import codec
from ..lib.vector_io import ending_fetcher, fetcher, row_writer, shifted_reader
from ..lib.widths import wide
from .problem import Forward
from .row_parts import clearing

i32 = types.int32


@functools.cache
def rows(dtype, param, shape, parts):
    """A row in the registers of a group of threads (see Rows); x: accesses (see rows.fetcher), and
    x_end: the same memory, (rows * columns,), as y; block (threads, rows per block). (A residual is
    added before.)

    16-bit numbers stay packed and are widened anew in each pass, so that two blocks of 512 threads
    are on a multiprocessor: one reads while the other writes. Groups for which no row is left do
    the last one once more and write the same. weight, bias: (columns,); mean, rstd: (rows,) or
    (0,); part: 1 / columns.
    """
    _, _, T = codec(dtype)
    threads, together, width, vectors = shape
    _, widen, words, kind = fetcher(dtype, width)
    fetch, clear, raw = ending_fetcher(dtype, width), clearing(width), numba_type(kind)
    read_param, write = shifted_reader(param, width), row_writer(dtype, width, True)
    total_of, root = group_total(threads, T), inverse_root(T)
    packed, room = vectors * words, 2 * width
    center, weighted, biased, _, _ = parts

    @bounded((max(threads, 128), min(max(1024 // threads, 1), 8)))  # 64 registers
    def norm_shifted_rows(x, x_end, weight, bias, y, mean, rstd, rows, columns, eps, part):
        tx = i32(cuda.threadIdx.x)
        row = min(cuda.blockIdx.x * together + cuda.threadIdx.y, rows - 1)
        start = row * columns
        stop = start + columns
        length = i32(columns)
        before = i32(start % width)
        first = start // width + tx
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(width, T)
        w = cuda.local.array(room, T)
        for e in range(packed):
            r[e] = raw(0)
        for k in range(vectors):
            if i32((k * threads + tx) * width) - before < length:
                fetch(x, x_end, first + k * threads, r, k * words)
        middle = T(0)
        if center:
            for k in range(vectors):
                widen(r, k * words, v, 0)
                clear(v, 0, i32(i32((k * threads + tx) * width) - before), length, T(0))
                for j in range(width):
                    middle += v[j]
            middle = total_of(middle, 0) * part
        total = T(0)
        for k in range(vectors):
            widen(r, k * words, v, 0)
            for j in range(width):
                v[j] -= middle
            clear(v, 0, i32(i32((k * threads + tx) * width) - before), length, T(0))
            for j in range(width):
                total += v[j] * v[j]
        scale = root(total_of(total, 1) * part + eps)
        if tx == 0 and rstd.size:
            if center:
                mean[row] = middle
            rstd[row] = scale
        for k in range(vectors):
            column = i32(i32((k * threads + tx) * width) - before)
            if column < length:
                widen(r, k * words, v, 0)
                for j in range(width):
                    v[j] = (v[j] - middle) * scale
                if weighted:
                    read_param(weight, column, w, length)
                    for j in range(width):
                        v[j] *= w[j]
                if biased:
                    read_param(bias, column, w, length)
                    for j in range(width):
                        v[j] += w[j]
                write(y, start + column, v, 0, start, stop)

    return norm_shifted_rows


def plan(p: Forward) -> Plan:
    """The plan of rows in the registers of a group of threads, by whole accesses. A residual is
    added before."""
    x, shape = p.x, p.shifted
    assert shape
    _, w, b, _ = p.inputs
    _, _, words, kind = fetcher(x.dtype, shape.width)
    accesses = p.sum.view((max(x.size * words // shape.width, 1),), dtype=kind)
    arrays = [accesses, p.sum.flat, w, b, Output(0).flat, *p.mean_rstd]
    numbers = [p.rows, p.columns, p.numbers[-1], wide(x.dtype).type(1 / p.columns)]
    kernel = rows(x.dtype, p.param, shape, p.parts._replace(residual=False))
    step = Launch(kernel, shape.grid(p.rows), shape.block, [*arrays, *numbers])
    return Plan(p.outputs, [*p.addition, step])
