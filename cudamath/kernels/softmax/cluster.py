"""Softmax of long lines in the registers of a cluster's blocks (SM 9.0 and later; dispatch.py has
the formulas, lib/cluster_exchange.py the exchange).

A line of 50,257 numbers, 201 KB in float32, takes a multiprocessor's shared memory for itself:
while it is reduced nothing is read. Eight blocks of 256 threads hold it in registers, 28 numbers a
thread, and a multiprocessor has blocks of four lines at a time, of which one is read while others
are reduced and written. A block finds the maximum m of its part and the sum of exp(. - m); those of
the cluster are merged as the parts of a line elsewhere. 16-bit numbers stay packed, two in a
register.

The ends of a line are handled as in shared_memory.py, by threads of the first block; accesses
begin at the borders of the cache's lines.
"""

import functools
import math

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_max, group_sum
from ..lib.cluster_exchange import table
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import fetcher, writer
from ..ptx.sm80 import exp2
from ..ptx.sm90 import cluster_rank
from .online import ends, formula, rescale
from .problem import Problem, spread_cluster

LINE = 128  # bytes of a line of the cache, where accesses begin
RESIDENT = 1024  # threads of a multiprocessor, of 64 registers
i32 = types.int32


@functools.cache
def power(dtype):
    """Device functions: exponent(x), and power(v, exponent(x)) = exp(v - x). For 16-bit numbers
    these are one multiplication and addition and one instruction, within (|v| + |x|) / 10^7 of the
    whole: v is what a line's largest number leaves, however large that is, and x the logarithm of
    the sum."""
    log2e = np.float32(1 / math.log(2))

    @device_function
    def exponent(x):
        return x

    @device_function
    def power(v, x):
        return math.exp(v - x)

    @device_function
    def exponent_short(x):
        return x * log2e

    @device_function
    def power_short(v, x):
        return exp2(v * log2e - x)

    return (exponent_short, power_short) if dtype.itemsize == 2 else (exponent, power)


@functools.cache
def block_portion(dtype, width, ranks):
    """Device function (columns, most, t) -> where the block's line begins, the block's first
    access, how many it has, and the element that thread t has at one of the line's ends, or -1."""
    place, halvings = ends(width, LINE // dtype.itemsize), ranks.bit_length() - 1

    @device_function
    def portion(columns, most, t):
        rank = cluster_rank()
        start = (cuda.blockIdx.x >> halvings) * columns
        head, inner, lone = place(start, columns, t)
        if rank > 0:
            lone = types.int64(-1)
        return (
            start,
            (start + head) // width + rank * most,
            i32(max(min(most, inner - rank * most), 0)),
            lone,
        )

    return portion


@functools.cache
def rows(dtype, width, log, ranks, threads, vectors):
    """`ranks` blocks per line; x: accesses (rows.fetcher), x1, y: (lines * columns,); most:
    accesses of a block."""
    load, store, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    raw, portion, write = numba_type(kind), block_portion(dtype, width, ranks), writer(dtype, width)
    rescaled, (meet, tell), (exponent, power_of) = rescale(dtype), table(ranks), power(dtype)
    group_top, group_total = group_max(threads, T), group_sum(threads, T)
    top_of, total_of = group_max(ranks, T), group_sum(ranks, T)
    lowest, packed = T(-math.inf), vectors * words
    keep = words == width and not log  # registers have room for the exponentials

    @bounded((threads, max(RESIDENT // threads, 1)))
    def softmax_cluster(x, x1, y, columns, most):
        t = i32(cuda.threadIdx.x)
        pairs = meet()
        start, first, count, lone = portion(columns, most, t)
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(width, T)
        for k in range(vectors):
            if i32(k * threads + t) < count:
                fetch(x, first + i32(k * threads + t), r, k * words)
        end = load(x1[start + lone]) if lone >= 0 else lowest
        m = end
        for k in range(vectors):
            if i32(k * threads + t) < count:
                widen(r, k * words, v, 0)
                for e in range(width):
                    m = max(m, v[e])
        m = group_top(m)
        shift = m if m != lowest else T(0)  # -inf minus -inf would be NaN
        s = power_of(end - shift, T(0))
        for k in range(vectors):
            if i32(k * threads + t) < count:
                widen(r, k * words, v, 0)
                for e in range(width):
                    v[e] = power_of(v[e] - shift, T(0))
                    s += v[e]
                    if keep:
                        r[k * words + e] = v[e]
        theirs, sums = tell(pairs, m, group_total(s))
        top = top_of(theirs)
        s = total_of(rescaled(theirs, sums, top))
        log_sum = math.log(s)
        scale = T(1) / s
        away = exponent(log_sum)
        if lone >= 0:
            y[start + lone] = store(end - top - log_sum if log else math.exp(end - top) * scale)
        factor = math.exp(m - top) * scale
        for k in range(vectors):
            if i32(k * threads + t) < count:
                widen(r, k * words, v, 0)
                for e in range(width):
                    if keep:
                        v[e] *= factor
                    elif log:
                        v[e] = v[e] - top - log_sum
                    else:
                        v[e] = power_of(v[e] - top, away)
                write(y, (first + i32(k * threads + t)) * width, v, 0)

    return softmax_cluster


@functools.cache
def rows_grad(dtype, width, log, ranks, threads, vectors):
    """`ranks` blocks per line; g, y: accesses (rows.fetcher), g1, y1, dx: (lines * columns,); most:
    accesses of a block."""
    load, store, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    raw, portion, write = numba_type(kind), block_portion(dtype, width, ranks), writer(dtype, width)
    (term, slope), (meet, tell) = formula(dtype, log), table(ranks)
    group_total, total_of = group_sum(threads, T), group_sum(ranks, T)
    packed = vectors * words

    @bounded((threads, max(RESIDENT // threads, 1)))
    def softmax_cluster_grad(g, y, g1, y1, dx, columns, most):
        t = i32(cuda.threadIdx.x)
        pairs = meet()
        start, first, count, lone = portion(columns, most, t)
        r = cuda.local.array(packed, raw)
        q = cuda.local.array(packed, raw)
        a = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        for k in range(vectors):
            if i32(k * threads + t) < count:
                fetch(g, first + i32(k * threads + t), r, k * words)
                fetch(y, first + i32(k * threads + t), q, k * words)
        total = term(load(g1[start + lone]), load(y1[start + lone])) if lone >= 0 else T(0)
        for k in range(vectors):
            if i32(k * threads + t) < count:
                widen(r, k * words, a, 0)
                widen(q, k * words, b, 0)
                for e in range(width):
                    total += term(a[e], b[e])
        total, _ = tell(pairs, group_total(total), T(0))
        total = total_of(total)
        if lone >= 0:
            dx[start + lone] = store(slope(load(g1[start + lone]), load(y1[start + lone]), total))
        for k in range(vectors):
            if i32(k * threads + t) < count:
                widen(r, k * words, a, 0)
                widen(q, k * words, b, 0)
                for e in range(width):
                    a[e] = slope(a[e], b[e], total)
                write(dx, (first + i32(k * threads + t)) * width, a, 0)

    return softmax_cluster_grad


def plan(p: Problem) -> Plan:
    """The plan of lines in the registers of a cluster's blocks."""
    x, width, arrays = p.x, p.widest, p.arrays
    _, _, words, kind = fetcher(x.dtype, width)
    packed = [a.view((x.size * words // width,), dtype=kind) for a in arrays[:-1]]
    ranks, threads, vectors = spread_cluster(p.n, width, len(p.inputs))
    most = (
        blocks(p.n * x.itemsize, ranks * LINE) * LINE // 16
    )  # a block's part is whole lines of the cache
    step = Launch(
        (rows_grad if p.gradient else rows)(x.dtype, width, p.log, ranks, threads, vectors),
        p.lines * ranks,
        threads,
        [*packed, *(a.flat for a in arrays), p.n, most],
        cluster=ranks,
    )
    return Plan([x.like()], [step])
