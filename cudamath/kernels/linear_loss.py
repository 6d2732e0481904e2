"""Cross entropy of scores that nobody else wants: each row's loss, and the scores' gradient where the scores were.

    loss_i = log sum_j exp(x_ij) - x_it       x_ij <- (exp(x_ij) / sum_j exp(x_ij) - [j = t]) / count,  j < classes
                                              x_ij <- 0 beyond the classes, and in rows that do not count

The floor is one read and one write of the scores. loss.py reads them twice, because between loss and gradient the rest of
the program runs; and it needs memory for both.

Versions:

1. `plain`  one thread a row, which walks over it three times. Any GPU, and the simulator.
2. `rows`   a block a row. It reads the row twice, but the second time soon after the first, out of the L2 cache: with
            THREADS = 512 two blocks share a multiprocessor, and the rows that 264 blocks work on are 27 MB at 50,304
            bfloat16 numbers a row.

A target outside the classes raises the device's error flag.
"""

import functools
import math

from numba import cuda

from ..core.layout import Layout
from ..core.plan import Flag, Input, Launch, Output, Plan, Ticket
from .build import SIMULATOR, blocks, codec
from .rows import access, bounded, fitting, group_max, group_sum, row_reader, row_writer, wide
from .softmax import online, rescale

THREADS = 512
HELD = 16  # numbers that a thread reads at a time


@functools.cache
def plain(dtype):
    """x: (rows, columns), changed; targets, losses: (rows,); count: (1,)."""
    load, store, T = codec(dtype)
    lowest = T(-math.inf)

    @cuda.jit
    def linear_loss_plain(x, targets, count, losses, classes, ignore, flag, ticket):
        row = cuda.grid(1)
        if row < x.shape[0]:
            target = targets[row]
            top = lowest
            total = T(0)
            for c in range(classes):
                v = load(x[row, c])
                if v > top:
                    total = total * math.exp(top - v) + T(1)
                    top = v
                elif v != lowest:
                    total += math.exp(v - top)
            if top == lowest or top == -lowest:
                total = top - top  # NaN: -inf throughout, or +inf
            loss = T(0)
            counts = target != ignore
            if counts:
                if target < 0 or target >= classes:
                    flag[0] = ticket
                else:
                    loss = math.log(total) - (load(x[row, target]) - top)
            losses[row] = loss
            factor = T(1) / count[0] if counts else T(0)
            for c in range(x.shape[1]):
                v = T(0)
                if counts and c < classes:
                    v = math.exp(load(x[row, c]) - top) / total
                    if c == target:
                        v -= T(1)
                x[row, c] = store(v * factor)

    return linear_loss_plain


@functools.cache
def rows(dtype, width, edges):
    """A block of THREADS threads a row; x: (rows * columns,), changed; targets, losses: (rows,); count: (1,)."""
    load, _, T = codec(dtype)
    read, write = row_reader(dtype, width, edges), row_writer(dtype, width, edges)
    take, rescaled = online(T), rescale(T)
    group_top, total_of = group_max(THREADS, T), group_sum(THREADS, T)
    held = fitting(HELD, dtype)
    vectors = held // width
    stride = THREADS * width
    lowest = T(-math.inf)

    @bounded(THREADS)
    def linear_loss_rows(x, targets, count, losses, columns, classes, ignore, flag, ticket):
        row = cuda.blockIdx.x
        start = row * columns
        before = start % width if edges else 0  # accesses lie on their borders, the first may begin before the row
        begin = cuda.threadIdx.x * width - before
        v = cuda.local.array(held, T)
        m = lowest
        total = T(0)
        for first in range(begin, classes, vectors * stride):
            for e in range(held):
                v[e] = lowest
            for k in range(vectors):
                column = first + k * stride
                if column < classes:
                    read(x, start + column, v, k * width, start, start + columns)
                    for j in range(width):
                        if column + j >= classes:
                            v[k * width + j] = lowest
            m, total = take(m, total, v, held)
        top = group_top(m)
        total = total_of(rescaled(m, total, top))
        target = targets[row]
        counts = target != ignore
        if cuda.threadIdx.x == 0:
            loss = T(0)
            if counts:
                if target < 0 or target >= classes:
                    flag[0] = ticket
                else:
                    log_sum = math.log(total) if total > T(0) else top - top  # NaN: -inf throughout
                    loss = log_sum - (load(x[start + target]) - top)
            losses[row] = loss
        cuda.syncthreads()  # the target's score has been read
        one = T(1) / count[0] if counts else T(0)
        factor = one / total if counts else T(0)
        for first in range(begin, columns, vectors * stride):
            for k in range(vectors):
                column = first + k * stride
                if column < columns:
                    read(x, start + column, v, k * width, start, start + columns)
                    for j in range(width):
                        e = k * width + j
                        c = column + j
                        v[e] = math.exp(v[e] - top) * factor if counts and c < classes else T(0)
                        if c == target:
                            v[e] -= one
                    write(x, start + column, v, k * width, start, start + columns)

    return linear_loss_rows


def linear_loss(x: Layout, targets: Layout, count: Layout, *, classes: int, ignore_index: int,
                version: str | None = None) -> Plan:
    """Planner: scores x (rows, columns), C order, changed; targets (rows,) integers; count () -> losses (rows,).

    count: how many targets are not ignored, in the dtype that x computes in. version: "plain" or "rows".
    """
    lines, columns = x.shape
    losses = targets.like(dtype=wide(x.dtype))
    rest = [classes, ignore_index, Flag(), Ticket()]
    if version == "plain" or (version is None and SIMULATOR):
        return Plan([losses], [Launch(plain(x.dtype), blocks(lines, 64), 64,
                                      [Input(0), Input(1), Input(2), Output(0), *rest])])
    width, edges = access(columns, x)
    return Plan([losses], [Launch(rows(x.dtype, width, edges), lines, THREADS,
                                  [Input(0).flat, Input(1), Input(2), Output(0), columns, *rest])])
