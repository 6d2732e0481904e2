"""Cross entropy of scores that are not used again: each row's loss, and the scores' gradient in
place of the scores.

    loss_i = log sum_j exp(x_ij) - x_it
    x_ij  <- (exp(x_ij) / sum_j exp(x_ij) - [j = t]) / count,    j < classes
    x_ij  <- 0    beyond the classes, and in rows that do not count

The floor is one read and one write of the scores. cross_entropy.py reads them twice, because
between loss and gradient the rest of the program runs; and it needs memory for both.

Versions:

1. `plain`   One thread per row, which reads it four times. Any GPU, and the simulator.
2. `rows`    One block per row. It reads the row twice, the second time soon after the first, out of
             the L2 cache. With THREADS = 512 two blocks share a multiprocessor, and the rows of 264
             blocks are 27 MB at 50,304 bfloat16 numbers per row.
3. `packed`  The same for 16-bit numbers in rows of 16-byte units (SM 8.0 and later). Two
             exponentials per number are more work than the memory leaves time for, unless each is
             two instructions. With the scores as powers of 2, the gradient is 2^(s log2 e - b),
             where b holds the maximum, the sum and the count. The target's own 1 is subtracted at
             the end. Single threads take what lies behind the last whole unit of classes. On one
             H200, 16,384 rows of 50,304 bfloat16 numbers: `rows` took 1.50 ms, this 0.95, the
             memory alone 0.78.

A target outside the classes raises the device's error flag.

Measured (row versions_linear_loss):
loss and gradient in place of 8,192 x 50,304, bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                 GB/s     of a copy
    plain        87.1          0.02
    rows        2,333          0.55
    packed      3,388          0.80

(end of what was measured)
"""

import functools
import math
from typing import Any

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.block_reduce import group_max, group_sum
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.row_layout import access, fitting
from ..lib.vector_io import remaining, row_reader, row_writer
from ..softmax.online import online, rescale
from .problem import LinearLoss

if not SIMULATOR:
    from ..ptx.sm80 import (
        exp2,
        global_address,
        load_global_4,
        log2,
        maximum,
        pack_bf16,
        pack_f16,
        store_global_4,
        unpack_bf16,
        unpack_f16,
    )

THREADS = 512
HELD = 16  # numbers that a thread reads at a time
# 16-byte units that a thread of `packed` reads at a time: with 4, two blocks would not fit into the
# registers
UNITS = 3


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
            for c in range(classes):
                top = max(top, load(x[row, c]))
            total = T(0)
            lost = T(
                0
            )  # by rounding the sum so far: Kahan's summation, as exact for 50,000 classes as for 5
            for c in range(classes):
                v = (
                    math.exp(load(x[row, c]) - top) - lost
                )  # NaN where top is infinite: -inf throughout, or +inf
                grown = total + v
                lost = (grown - total) - v
                total = grown
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
    """A block of THREADS threads per row; x: (rows * columns,), changed; targets, losses: (rows,);
    count: (1,)."""
    load, _, T = codec(dtype)
    write = row_writer(dtype, width, edges)
    add, rescaled = online(dtype), rescale(dtype)
    group_top, total_of = group_max(THREADS, T), group_sum(THREADS, T)
    held = fitting(HELD, dtype)
    vectors = held // width
    fetch, take, size, kind = row_reader(dtype, width, vectors, edges)
    stride = THREADS * width
    lowest = T(-math.inf)

    @bounded(THREADS)
    def linear_loss_rows(x, targets, count, losses, columns, classes, ignore, flag, ticket):
        row = cuda.blockIdx.x
        start = row * columns
        before = (
            start % width if edges else 0
        )  # accesses lie on their borders, the first may begin before the row
        begin = cuda.threadIdx.x * width - before
        r = cuda.local.array(size, kind)
        v = cuda.local.array(held, T)
        m = lowest
        total = T(0)
        for first in range(begin, classes, vectors * stride):
            rest = remaining(columns, first)
            fetch(x, start + first, rest, stride, r, lowest)
            take(r, first, rest, stride, v, lowest)
            for k in range(vectors):
                column = first + k * stride
                if column + width > classes:
                    for j in range(width):
                        if column + j >= classes:
                            v[k * width + j] = lowest
            m, total = add(m, total, v, held)
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
                    log_sum = (
                        math.log(total) if total != T(0) else top - top
                    )  # NaN: -inf throughout
                    loss = log_sum - (load(x[start + target]) - top)
            losses[row] = loss
        cuda.syncthreads()  # the target's score has been read
        one = T(1) / count[0] if counts else T(0)
        factor = one / total if counts else T(0)
        for first in range(begin, columns, vectors * stride):
            rest = remaining(columns, first)
            fetch(x, start + first, rest, stride, r, T(0))
            take(r, first, rest, stride, v, T(0))
            for k in range(vectors):
                column = first + k * stride
                if k * stride < rest:
                    for j in range(width):
                        e = k * width + j
                        c = column + j
                        v[e] = math.exp(v[e] - top) * factor if counts and c < classes else T(0)
                        if c == target:
                            v[e] -= one
                    write(x, start + column, v, k * width, column, rest - k * stride)

    return linear_loss_rows


@functools.cache
def packed(dtype):
    """A block of THREADS threads per row, 16-bit numbers; x: (rows * columns,), changed; targets,
    losses: (rows,); count: (1,).

    columns: a multiple of 8.
    """
    load, store, T = codec(dtype)
    unpack, pack = (unpack_bf16, pack_bf16) if dtype == bfloat16 else (unpack_f16, pack_f16)
    group_top, total_of = group_max(THREADS, T), group_sum(THREADS, T)
    i32, i64, held = types.int32, types.int64, 4 * UNITS
    lowest = T(-math.inf)
    log2_e = T(math.log2(math.e))

    @cuda.jit(launch_bounds=(THREADS, 2))
    def linear_loss_packed(x, targets, count, losses, columns, classes, ignore, flag, ticket):
        row = cuda.blockIdx.x
        thread = cuda.threadIdx.x
        start = row * columns
        whole = classes // 8  # units that hold classes alone
        at = global_address(x) + 2 * start
        v = cuda.local.array(
            held, i32
        )  # two numbers each: unpacked, they would leave room for one block alone
        nothing = pack(lowest, lowest)
        top = lowest
        total = T(0)
        if 8 * whole + thread < classes:  # behind them
            top = load(x[start + 8 * whole + thread])
            total = T(1) if top != lowest else T(0)
        for first in range(thread, whole, UNITS * THREADS):
            for k in range(UNITS):
                unit = first + k * THREADS
                v[4 * k] = v[4 * k + 1] = v[4 * k + 2] = v[4 * k + 3] = nothing
                if unit < whole:
                    v[4 * k], v[4 * k + 1], v[4 * k + 2], v[4 * k + 3] = load_global_4(
                        at + 16 * i64(unit)
                    )
            higher = top
            for e in range(held):
                a, b = unpack(v[e])
                higher = maximum(higher, maximum(a, b))
            base = higher * log2_e if higher != lowest else T(0)
            total *= exp2(top * log2_e - base)
            for e in range(held):
                a, b = unpack(v[e])
                total += exp2(a * log2_e - base) + exp2(b * log2_e - base)
            top = higher
        highest = group_top(top)
        base = highest * log2_e if highest != lowest else T(0)
        total = total_of(total * exp2(top * log2_e - base))
        target = targets[row]
        counts = target != ignore
        inside = target >= 0 and target < classes
        score = T(0)
        if thread == 0:
            loss = T(0)
            if counts:
                if inside:
                    score = load(x[start + target])
                    loss = (math.log(total) if total != T(0) else highest - highest) - (
                        score - highest
                    )  # NaN: -inf throughout
                else:
                    flag[0] = ticket
            losses[row] = loss
        cuda.syncthreads()  # the target's score has been read
        one = T(1) / count[0]
        base += log2(total) - log2(one)
        for first in range(thread, whole, UNITS * THREADS):
            for k in range(UNITS):
                unit = first + k * THREADS
                if unit < whole:
                    v[4 * k], v[4 * k + 1], v[4 * k + 2], v[4 * k + 3] = load_global_4(
                        at + 16 * i64(unit)
                    )
            for e in range(held):
                a, b = unpack(v[e])
                v[e] = pack(exp2(a * log2_e - base), exp2(b * log2_e - base)) if counts else i32(0)
            for k in range(UNITS):
                unit = first + k * THREADS
                if unit < whole:
                    store_global_4(
                        at + 16 * i64(unit), v[4 * k], v[4 * k + 1], v[4 * k + 2], v[4 * k + 3]
                    )
        for column in range(8 * whole + thread, columns, THREADS):
            slope = T(0)
            if counts and column < classes:
                slope = exp2(load(x[start + column]) * log2_e - base)
            x[start + column] = store(slope)
        cuda.syncthreads()  # the row is written
        if thread == 0 and counts and inside:
            x[start + target] = store(exp2(score * log2_e - base) - one)

    return linear_loss_packed


# Planners.


def plan_plain(p: LinearLoss) -> Plan:
    """The plan of a thread per row."""
    arguments = [Input(0), Input(1), Input(2), Output(0), *p.rest]
    return Plan([p.losses], [Launch(plain(p.x.dtype), blocks(p.x.shape[0], 64), 64, arguments)])


def plan_rows(p: LinearLoss) -> Plan:
    """The plan of a block per row."""
    return block_per_row(p, rows(p.x.dtype, *access(p.columns, p.x)))


def plan_packed(p: LinearLoss) -> Plan:
    """The plan of a block per row of 16-bit numbers in units of 16 bytes."""
    return block_per_row(p, packed(p.x.dtype))


def block_per_row(p: LinearLoss, kernel: Any) -> Plan:
    arguments = [Input(0).flat, Input(1), Input(2), Output(0), p.columns, *p.rest]
    return Plan([p.losses], [Launch(kernel, p.x.shape[0], THREADS, arguments)])
