"""Softmax and log-softmax along one axis, and their gradients.

    y_i = exp(x_i - m) / s,   m = max x,   s = sum exp(x_j - m)          log-softmax: (x_i - m) -
                              log s
    dx  = y (g - sum(g y))                                               log-softmax: g - exp(y)
        sum(g)

The floor is memory: read x once, write y once (2 x size bytes); the gradient reads g and y and
writes dx (3 x). An exponential is cheaper than a trip to memory, so nothing is stored that can be
computed again.

Versions, from simple to fast. An array is seen as (outer, n, inner), the axis in the middle.

1. `plain`      one thread per line of n elements; three trips over it. Any axis, any GPU, and the
                simulator.
2. `rows`       inner = 1: a line spread over the registers of a group of threads (see
                lib/vector_io.py). One trip.
3. `long_rows`  inner = 1, lines too long for registers: the *online* softmax. Maximum and sum are
   found in one trip:
                when the maximum grows from m to m', the sum so far is multiplied by exp(m - m'). A
                second trip, mostly served by the L2 cache, writes.
4. `cached_rows` (shared_memory.py)  inner = 1, the same lines on devices whose multiprocessors
   have room for two lines of
                100 KB in shared memory: one trip for what fits.
5. `cluster`    (cluster.py)  inner = 1, on 9.0 and later: such a line in the registers of
                several blocks. One trip.
6. `columns`    inner > 1: 32 neighbouring lines to a block, so that a warp reads 32 neighbouring
                elements;
                8 threads share a line, each finds an online (m, s) of its part, and the parts are
                merged.

A line with +inf or NaN, or with -inf throughout, is NaN throughout, as on the CPU.

Measured (row versions_softmax):
softmax of 16,384 x 4,096, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                    GB/s     of a copy
    plain            285          0.07
    long_rows      1,307          0.31
    rows           4,061          0.96

(end of what was measured)
"""

import functools
import math

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import capability
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda
from ..lib.block_reduce import group_max, group_sum
from ..lib.codec import codec
from ..lib.fast_math import exponential
from ..lib.integers import blocks
from ..lib.row_layout import access, fitting, spread
from ..lib.vector_io import RUN, row_reader, row_writer
from .online import CACHE, VECTORS, formula, online, rescale

# elements of a line a thread holds: half of the 64 registers that a block of 1024 threads leaves it
HELD = 32
HELD_GRAD = 16  # the gradient holds g and y
TOGETHER = 32  # elements that neighbouring threads read in one piece, in lines that have so many
# threads for a line of any length; half as many for float64, whose numbers take twice the registers
LONG = 1024
LANES, PARTS = 32, 8  # columns: lines per block, threads per line


@functools.cache
def plain(dtype, log):
    """One thread per line; x, y: (outer, n, inner)."""
    load, store, T = codec(dtype)

    @cuda.jit
    def softmax_plain(x, y):
        line = cuda.grid(1)
        outer, n, inner = x.shape
        if line < outer * inner:
            o = line // inner
            i = line % inner
            top = load(x[o, 0, i])
            for k in range(1, n):
                top = max(top, load(x[o, k, i]))
            total = T(0)
            for start in range(0, n, RUN):
                part = T(0)
                for k in range(start, min(start + RUN, n)):
                    part += math.exp(load(x[o, k, i]) - top)
                total += part
            shift = math.log(total)
            scale = T(1) / total
            for k in range(n):
                v = load(x[o, k, i]) - top
                y[o, k, i] = store(v - shift if log else math.exp(v) * scale)

    return softmax_plain


@functools.cache
def rows(dtype, threads, vectors, width, edges, log):
    """A line in the registers of `threads` threads; x, y: (lines * columns,); block (threads, lines
    per block)."""
    _, _, T = codec(dtype)
    read, write = row_reader(dtype, width, edges), row_writer(dtype, width, edges)
    group_top, group_total = group_max(threads, T), group_sum(threads, T)
    held = vectors * width
    lowest, exp = T(-math.inf), exponential(dtype)

    @bounded(max(threads, 128))
    def softmax_rows(x, y, lines, columns):
        line = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        start = line * columns
        before = (
            start % width if edges else 0
        )  # accesses lie on their borders, the first may begin before the line
        v = cuda.local.array(held, T)
        for e in range(held):
            v[e] = lowest  # beyond the end: never the maximum, and exp(-inf) adds nothing
        for k in range(vectors):
            column = (k * threads + cuda.threadIdx.x) * width - before
            if line < lines and column < columns:
                read(x, start + column, v, k * width, start, start + columns)
        top = lowest
        for e in range(held):
            top = max(top, v[e])
        top = group_top(top)
        total = T(0)
        for e in range(held):
            v[e] = v[e] - top if log else exp(v[e] - top)
            total += exp(v[e]) if log else v[e]
        total = group_total(total)
        shift = math.log(total)
        scale = T(1) / total
        for e in range(held):
            v[e] = v[e] - shift if log else v[e] * scale
        for k in range(vectors):
            column = (k * threads + cuda.threadIdx.x) * width - before
            if line < lines and column < columns:
                write(y, start + column, v, k * width, start, start + columns)

    return softmax_rows


@functools.cache
def long_rows(dtype, width, edges, log):
    """One block of fitting(LONG, dtype) threads per line of any length; x, y: (lines * columns,);
    grid: lines."""
    _, _, T = codec(dtype)
    threads = fitting(LONG, dtype)
    read, write = row_reader(dtype, width, edges), row_writer(dtype, width, edges)
    take, rescaled = online(dtype), rescale(dtype)
    group_top, group_total = group_max(threads, T), group_sum(threads, T)
    held = VECTORS * width
    stride = threads * width
    lowest, exp = T(-math.inf), exponential(dtype)

    @bounded(threads)
    def softmax_long_rows(x, y, columns):
        start = cuda.blockIdx.x * columns
        before = start % width if edges else 0
        v = cuda.local.array(held, T)
        m = lowest
        s = T(0)
        for first in range(cuda.threadIdx.x * width - before, columns, VECTORS * stride):
            for e in range(held):
                v[e] = lowest
            for k in range(VECTORS):
                if first + k * stride < columns:
                    read(x, start + first + k * stride, v, k * width, start, start + columns)
            m, s = take(m, s, v, held)
        top = group_top(m)
        s = group_total(rescaled(m, s, top))
        shift = math.log(s)
        scale = T(1) / s
        for first in range(cuda.threadIdx.x * width - before, columns, stride):
            read(x, start + first, v, 0, start, start + columns)
            for e in range(width):
                v[e] = v[e] - top - shift if log else exp(v[e] - top) * scale
            write(y, start + first, v, 0, start, start + columns)

    return softmax_long_rows


@functools.cache
def columns(dtype, log):
    """PARTS threads per line, LANES neighbouring lines per block; x, y: (outer * n * inner,); block
    (LANES, PARTS)."""
    load, store, T = codec(dtype)
    rescaled = rescale(dtype)
    lowest, exp = T(-math.inf), exponential(dtype)

    @bounded(LANES * PARTS)
    def softmax_columns(x, y, lines, n, inner):
        tops = cuda.shared.array((PARTS, LANES), T)
        sums = cuda.shared.array((PARTS, LANES), T)
        lane, part = cuda.threadIdx.x, cuda.threadIdx.y
        line = cuda.blockIdx.x * LANES + lane
        start = line // inner * n * inner + line % inner
        m = lowest
        s = T(0)
        if line < lines:
            for k in range(part, n, PARTS):
                v = load(x[start + k * inner])
                if v > m:
                    s = s * exp(m - v) + T(1)
                    m = v
                elif v != lowest:
                    s += exp(v - m)  # also when v is NaN, which makes s NaN
        tops[part, lane] = m
        sums[part, lane] = s
        cuda.syncthreads()
        for p in range(PARTS):
            m = max(m, tops[p, lane])
        s = T(0)
        for p in range(PARTS):
            s += rescaled(tops[p, lane], sums[p, lane], m)
        log_sum = math.log(s)
        scale = T(1) / s
        if line < lines:
            for k in range(part, n, PARTS):
                v = load(x[start + k * inner]) - m
                y[start + k * inner] = store(v - log_sum if log else exp(v) * scale)

    return softmax_columns


# Gradients. The same four versions; a line's sum of `term` is found first, then `slope` is dx.


@functools.cache
def plain_grad(dtype, log):
    """One thread per line; g, y, dx: (outer, n, inner)."""
    load, store, T = codec(dtype)

    @cuda.jit
    def softmax_plain_grad(g, y, dx):
        line = cuda.grid(1)
        outer, n, inner = g.shape
        if line < outer * inner:
            o = line // inner
            i = line % inner
            total = T(0)
            for start in range(0, n, RUN):
                part = T(0)
                for k in range(start, min(start + RUN, n)):
                    part += load(g[o, k, i]) if log else load(g[o, k, i]) * load(y[o, k, i])
                total += part
            for k in range(n):
                a = load(g[o, k, i])
                b = load(y[o, k, i])
                dx[o, k, i] = store(a - math.exp(b) * total if log else b * (a - total))

    return softmax_plain_grad


@functools.cache
def rows_grad(dtype, threads, vectors, width, edges, log):
    """A line in the registers of `threads` threads; g, y, dx: (lines * columns,); block (threads,
    lines per block)."""
    _, _, T = codec(dtype)
    read, write = row_reader(dtype, width, edges), row_writer(dtype, width, edges)
    group_total = group_sum(threads, T)
    term, slope = formula(dtype, log)
    held = vectors * width

    @bounded(max(threads, 128))
    def softmax_rows_grad(g, y, dx, lines, columns):
        line = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        start = line * columns
        before = start % width if edges else 0
        a = cuda.local.array(held, T)
        b = cuda.local.array(held, T)
        for e in range(held):
            a[e] = T(0)
            b[e] = T(0)
        for k in range(vectors):
            column = (k * threads + cuda.threadIdx.x) * width - before
            if line < lines and column < columns:
                read(g, start + column, a, k * width, start, start + columns)
                read(y, start + column, b, k * width, start, start + columns)
        total = T(0)
        for e in range(held):
            total += term(a[e], b[e])
        total = group_total(total)
        for e in range(held):
            a[e] = slope(a[e], b[e], total)
        for k in range(vectors):
            column = (k * threads + cuda.threadIdx.x) * width - before
            if line < lines and column < columns:
                write(dx, start + column, a, k * width, start, start + columns)

    return softmax_rows_grad


@functools.cache
def long_rows_grad(dtype, width, edges, log):
    """One block of fitting(LONG, dtype) threads per line of any length; g, y, dx: (lines *
    columns,); grid: lines."""
    _, _, T = codec(dtype)
    threads = fitting(LONG, dtype)
    read, write = row_reader(dtype, width, edges), row_writer(dtype, width, edges)
    group_total = group_sum(threads, T)
    term, slope = formula(dtype, log)

    @bounded(threads)
    def softmax_long_rows_grad(g, y, dx, columns):
        start = cuda.blockIdx.x * columns
        before = start % width if edges else 0
        a = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        total = T(0)
        for first in range(cuda.threadIdx.x * width - before, columns, threads * width):
            for e in range(width):
                a[e] = T(0)  # what lies beyond the line adds nothing
                b[e] = T(0)
            read(g, start + first, a, 0, start, start + columns)
            read(y, start + first, b, 0, start, start + columns)
            for e in range(width):
                total += term(a[e], b[e])
        total = group_total(total)
        for first in range(cuda.threadIdx.x * width - before, columns, threads * width):
            read(g, start + first, a, 0, start, start + columns)
            read(y, start + first, b, 0, start, start + columns)
            for e in range(width):
                a[e] = slope(a[e], b[e], total)
            write(dx, start + first, a, 0, start, start + columns)

    return softmax_long_rows_grad


@functools.cache
def columns_grad(dtype, log):
    """PARTS threads per line, LANES neighbouring lines per block; g, y, dx: (outer * n * inner,);
    block (LANES, PARTS)."""
    load, store, T = codec(dtype)
    term, slope = formula(dtype, log)

    @bounded(LANES * PARTS)
    def softmax_columns_grad(g, y, dx, lines, n, inner):
        sums = cuda.shared.array((PARTS, LANES), T)
        lane, part = cuda.threadIdx.x, cuda.threadIdx.y
        line = cuda.blockIdx.x * LANES + lane
        start = line // inner * n * inner + line % inner
        total = T(0)
        if line < lines:
            for k in range(part, n, PARTS):
                total += term(load(g[start + k * inner]), load(y[start + k * inner]))
        sums[part, lane] = total
        cuda.syncthreads()
        total = T(0)
        for p in range(PARTS):
            total += sums[p, lane]
        if line < lines:
            for k in range(part, n, PARTS):
                at = start + k * inner
                dx[at] = store(slope(load(g[at]), load(y[at]), total))

    return softmax_columns_grad


# Planners.


def plan(version: str, inputs: tuple[Layout, ...], axis: int, log: bool, grad: bool) -> Plan:
    """The plan of one version by name, which the tests ask for too."""
    x = inputs[-1]
    out = x.like()
    if x.size == 0:
        return Plan([out], [])
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    lines = x.size // n
    arrays = [*(Input(i) for i in range(len(inputs))), Output(0)]
    if version == "plain":
        kernel = (plain_grad if grad else plain)(x.dtype, log)
        views = [a.view((lines // inner, n, inner)) for a in arrays]
        return Plan([out], [Launch(kernel, blocks(lines, 128), 128, views)])
    flat = [a.flat for a in arrays]
    if version == "columns":
        kernel = (columns_grad if grad else columns)(x.dtype, log)
        return Plan(
            [out], [Launch(kernel, blocks(lines, LANES), (LANES, PARTS), [*flat, lines, n, inner])]
        )
    width, edges = access(n, out, *inputs)
    if version == "cached_rows":
        from . import shared_memory

        return Plan([out], [shared_memory.launch(x, arrays, n, log)])
    if version == "cluster":
        from . import cluster

        return Plan([out], [cluster.launch(x, arrays, n, log)])
    if version == "long_rows":
        kernel = (long_rows_grad if grad else long_rows)(x.dtype, width, edges, log)
        return Plan([out], [Launch(kernel, lines, fitting(LONG, x.dtype), [*flat, n])])
    shape = spread(
        n + (width - 1 if edges else 0),
        width,
        fitting(HELD_GRAD if grad else HELD, x.dtype),
        together=TOGETHER // width,
    )
    if shape is None:
        raise ValueError(
            f"softmax: version 'rows' cannot hold a line of {n} elements of {x.dtype} in registers"
        )
    kernel = (rows_grad if grad else rows)(x.dtype, shape.threads, shape.vectors, width, edges, log)
    return Plan([out], [Launch(kernel, shape.grid(lines), shape.block, [*flat, lines, n])])


def best(inputs: tuple[Layout, ...], axis: int, held: int) -> str:
    """The fastest version for this layout."""
    shape = inputs[0].shape
    if math.prod(shape[axis + 1 :]) != 1:
        return "columns"
    width, edges = access(shape[axis], *inputs)
    columns = shape[axis] + (width - 1 if edges else 0)
    alone = spread(columns, width, fitting(held, inputs[0].dtype))
    if width in (4, 8) and (alone is None or alone.threads == LONG):
        from . import cluster

        if cluster.fits(inputs[0], shape[axis], len(inputs)):
            return "cluster"
    if alone:
        return "rows"
    held_back = CACHE.get(capability(inputs[0].device), 0) >= shape[axis] * inputs[0].itemsize // 2
    return "cached_rows" if width in (4, 8) and held_back else "long_rows"


def softmax(x: Layout, *, axis: int) -> Plan:
    """x: any shape, C order -> like x."""
    return plan(best((x,), axis, HELD), (x,), axis, False, False)


def log_softmax(x: Layout, *, axis: int) -> Plan:
    """x: any shape, C order -> like x."""
    return plan(best((x,), axis, HELD), (x,), axis, True, False)


def softmax_grad(g: Layout, y: Layout, *, axis: int) -> Plan:
    """g, y: same shape, C order -> like y."""
    return plan(best((g, y), axis, HELD_GRAD), (g, y), axis, False, True)


def log_softmax_grad(g: Layout, y: Layout, *, axis: int) -> Plan:
    """g, y: same shape, C order -> like y."""
    return plan(best((g, y), axis, HELD_GRAD), (g, y), axis, True, True)
