"""Softmax by one block per line or less: the versions `plain`, `rows` and `long_rows`, and their
gradients (dispatch.py has the formulas and describes the versions)."""

import functools
import math

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda
from ..lib.block_reduce import group_max, group_sum
from ..lib.codec import codec
from ..lib.fast_math import exponential
from ..lib.integers import blocks
from ..lib.row_layout import fitting
from ..lib.vector_io import RUN, remaining, row_reader, row_writer
from .online import VECTORS, formula, online, rescale
from .problem import Problem

# threads for a line of any length; half as many for float64, whose numbers take twice the registers
LONG = 1024


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
    fetch, take, size, kind = row_reader(dtype, width, vectors, edges)
    write = row_writer(dtype, width, edges)
    group_top, group_total = group_max(threads, T), group_sum(threads, T)
    elements, step = vectors * width, threads * width
    lowest, exp = T(-math.inf), exponential(dtype)

    @bounded(max(threads, 128))
    def softmax_rows(x, y, lines, columns):
        line = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        start = line * columns
        before = (
            start % width if edges else 0
        )  # accesses lie on their borders, the first may begin before the line
        first = cuda.threadIdx.x * width - before
        at, rest = start + first, remaining(columns if line < lines else 0, first)
        r = cuda.local.array(size, kind)
        v = cuda.local.array(elements, T)
        # beyond the ends -inf: never the maximum, and exp(-inf) adds nothing
        fetch(x, at, rest, step, r, lowest)
        take(r, first, rest, step, v, lowest)
        top = lowest
        for e in range(elements):
            top = max(top, v[e])
        top = group_top(top)
        total = T(0)
        for e in range(elements):
            v[e] = v[e] - top if log else exp(v[e] - top)
            total += exp(v[e]) if log else v[e]
        total = group_total(total)
        shift = math.log(total)
        scale = T(1) / total
        for e in range(elements):
            v[e] = v[e] - shift if log else v[e] * scale
        for k in range(vectors):
            if k * step < rest:
                write(y, at + k * step, v, k * width, first + k * step, rest - k * step)

    return softmax_rows


@functools.cache
def long_rows(dtype, width, edges, log):
    """One block of fitting(LONG, dtype) threads per line of any length; x, y: (lines * columns,);
    grid: lines."""
    _, _, T = codec(dtype)
    threads = fitting(LONG, dtype)
    several = VECTORS - (edges and width == 8)  # widened, these take eight registers each
    fetch, take, size, kind = row_reader(dtype, width, several, edges)
    fetch_one, take_one, _, _ = row_reader(dtype, width, 1, edges, True)
    write = row_writer(dtype, width, edges)
    add, rescaled = online(dtype), rescale(dtype)
    group_top, group_total = group_max(threads, T), group_sum(threads, T)
    elements = several * width
    stride = threads * width
    lowest, exp = T(-math.inf), exponential(dtype)

    @bounded((threads, 1) if edges else threads)  # the ends take registers
    def softmax_long_rows(x, y, columns):
        start = cuda.blockIdx.x * columns
        before = start % width if edges else 0
        r = cuda.local.array(size, kind)
        v = cuda.local.array(elements, T)
        m = lowest
        s = T(0)
        for first in range(cuda.threadIdx.x * width - before, columns, several * stride):
            rest = remaining(columns, first)
            fetch(x, start + first, rest, stride, r, lowest)
            take(r, first, rest, stride, v, lowest)
            m, s = add(m, s, v, elements)
        top = group_top(m)
        s = group_total(rescaled(m, s, top))
        shift = math.log(s)
        scale = T(1) / s
        for first in range(cuda.threadIdx.x * width - before, columns, stride):
            rest = remaining(columns, first)
            fetch_one(x, start + first, rest, stride, r, lowest)
            take_one(r, first, rest, stride, v, lowest)
            for e in range(width):
                v[e] = v[e] - top - shift if log else exp(v[e] - top) * scale
            write(y, start + first, v, 0, first, rest)

    return softmax_long_rows


# Gradients. The same three versions; a line's sum of `term` is found first, then `slope` is dx.


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
    fetch, take, size, kind = row_reader(dtype, width, vectors, edges)
    write = row_writer(dtype, width, edges)
    group_total = group_sum(threads, T)
    term, slope = formula(dtype, log)
    elements, step = vectors * width, threads * width

    @bounded(max(threads, 128))
    def softmax_rows_grad(g, y, dx, lines, columns):
        line = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        start = line * columns
        before = start % width if edges else 0
        first = cuda.threadIdx.x * width - before
        at, rest = start + first, remaining(columns if line < lines else 0, first)
        from_g = cuda.local.array(size, kind)
        from_y = cuda.local.array(size, kind)
        a = cuda.local.array(elements, T)
        b = cuda.local.array(elements, T)
        fetch(g, at, rest, step, from_g, T(0))
        fetch(y, at, rest, step, from_y, T(0))
        take(from_g, first, rest, step, a, T(0))  # what lies beyond the line adds nothing
        take(from_y, first, rest, step, b, T(0))
        total = T(0)
        for e in range(elements):
            total += term(a[e], b[e])
        total = group_total(total)
        for e in range(elements):
            a[e] = slope(a[e], b[e], total)
        for k in range(vectors):
            if k * step < rest:
                write(dx, at + k * step, a, k * width, first + k * step, rest - k * step)

    return softmax_rows_grad


@functools.cache
def long_rows_grad(dtype, width, edges, log):
    """One block of fitting(LONG, dtype) threads per line of any length; g, y, dx: (lines *
    columns,); grid: lines."""
    _, _, T = codec(dtype)
    threads = fitting(LONG, dtype)
    fetch, take, size, kind = row_reader(dtype, width, 1, edges, True)
    write = row_writer(dtype, width, edges)
    group_total = group_sum(threads, T)
    term, slope = formula(dtype, log)
    stride = threads * width

    @bounded(threads)
    def softmax_long_rows_grad(g, y, dx, columns):
        start = cuda.blockIdx.x * columns
        before = start % width if edges else 0
        from_g = cuda.local.array(size, kind)
        from_y = cuda.local.array(size, kind)
        a = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        total = T(0)
        for first in range(cuda.threadIdx.x * width - before, columns, stride):
            rest = remaining(columns, first)
            fetch(g, start + first, rest, stride, from_g, T(0))
            fetch(y, start + first, rest, stride, from_y, T(0))
            take(from_g, first, rest, stride, a, T(0))  # what lies beyond the line adds nothing
            take(from_y, first, rest, stride, b, T(0))
            for e in range(width):
                total += term(a[e], b[e])
        total = group_total(total)
        for first in range(cuda.threadIdx.x * width - before, columns, stride):
            rest = remaining(columns, first)
            fetch(g, start + first, rest, stride, from_g, T(0))
            fetch(y, start + first, rest, stride, from_y, T(0))
            take(from_g, first, rest, stride, a, T(0))
            take(from_y, first, rest, stride, b, T(0))
            for e in range(width):
                a[e] = slope(a[e], b[e], total)
            write(dx, start + first, a, 0, first, rest)

    return softmax_long_rows_grad


# Planners.


def plan_plain(p: Problem) -> Plan:
    """The plan of a thread per line."""
    kernel = (plain_grad if p.gradient else plain)(p.x.dtype, p.log)
    views = [a.view((p.lines // p.inner, p.n, p.inner)) for a in p.arrays]
    return Plan([p.x.like()], [Launch(kernel, blocks(p.lines, 128), 128, views)])


def plan_long_rows(p: Problem) -> Plan:
    """The plan of a block per line of any length."""
    kernel = (long_rows_grad if p.gradient else long_rows)(p.x.dtype, *p.access, p.log)
    arguments = [*(a.flat for a in p.arrays), p.n]
    return Plan([p.x.like()], [Launch(kernel, p.lines, fitting(LONG, p.x.dtype), arguments)])


def plan_rows(p: Problem) -> Plan:
    """The plan of lines in the registers of a group of threads."""
    shape, make = p.shape, rows_grad if p.gradient else rows
    assert shape
    kernel = make(p.x.dtype, shape.threads, shape.vectors, *p.access, p.log)
    arguments = [*(a.flat for a in p.arrays), p.lines, p.n]
    return Plan([p.x.like()], [Launch(kernel, shape.grid(p.lines), shape.block, arguments)])
