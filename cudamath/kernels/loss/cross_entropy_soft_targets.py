"""Cross entropy with probabilities as targets, and its gradient.

For logits x and targets q with label smoothing a, let q'_c = (1 - a) q_c + a / C, W = sum q'_c,
top = max x, and log_sum = log sum exp(x_c - top):

    loss        W log_sum - sum q'_c (x_c - top)
    gradient    (W exp(x_c - top - log_sum) - q'_c) * g / divisor

One trip over both arrays: as the maximum of what has been read grows by d, the sum of exponentials
shrinks by exp(-d) and sum q' (x - maximum) falls by d sum q'. Nothing as large as the logits is
written; top, log_sum and W are kept for the gradient. So the floor is 2 x size bytes forward and 3
x backward; log_softmax, a product and a sum, and their gradients, move 11 x.

Logits and targets are (N, C, D), as in cross_entropy.py. The kernels of reduction.py add the
losses. Versions: `plain`, one thread per sample and position, also the fast one for D > 1; `rows`,
D = 1, one group of threads per row.
"""

from __future__ import annotations

import functools
import math

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import WARP, bounded
from ..compiler.lazy_numba import cuda, types
from ..lib.block_reduce import group_max, group_sum
from ..lib.codec import codec
from ..lib.fast_math import exponential
from ..lib.integers import blocks, power_of_two
from ..lib.row_layout import access, fitting
from ..lib.vector_io import remaining, row_reader, row_writer
from ..lib.widths import wide
from .cross_entropy import THREADS
from .problem import SoftTargets, SoftTargetsBackward, flat_gradient
from .reduction import reduction_steps

HELD = 8  # elements of a row of each array that a thread has at a time


@functools.cache
def soft_plain(dtype):
    """One thread per sample and position; x, q: (N, C, D); pairs: (2, N, D) loss, 1; stats: (3, N,
    D) top, log_sum, W."""
    load, _, T = codec(dtype)
    exp = exponential(dtype)
    lowest = T(-math.inf)

    @cuda.jit
    def soft_plain(x, q, pairs, stats, keep, share):
        i = cuda.grid(1)
        samples, classes, depth = x.shape
        if i < samples * depth:
            n = i // depth
            d = i - n * depth
            top = lowest
            total = T(0)
            weight = T(0)
            dot = T(0)
            for c in range(classes):
                v = load(x[n, c, d])
                if v > top:
                    if top > lowest:
                        total *= exp(top - v)
                        dot += weight * (top - v)
                    top = v
                p = load(q[n, c, d]) * keep + share
                below = v - top if v != lowest else lowest
                total += exp(below)
                weight += p
                dot += p * below
            log_sum = (
                math.log(total) if total != T(0) else top - top
            )  # NaN: -inf throughout, or +inf
            pairs[0, n, d] = weight * log_sum - dot
            pairs[1, n, d] = T(1)
            stats[0, n, d] = top
            stats[1, n, d] = log_sum
            stats[2, n, d] = weight

    return soft_plain


@functools.cache
def soft_rows(dtype, threads, width, edges):
    """A group of `threads` threads per row; x, q: (N * C,); pairs: (2, N); stats: (3, N); block
    (threads, rows)."""
    _, _, T = codec(dtype)
    exp = exponential(dtype)
    top_of, total_of = group_max(threads, T), group_sum(threads, T)
    held = fitting(HELD, dtype)
    vectors = held // width
    fetch, take, size, kind = row_reader(dtype, width, vectors, edges)
    stride = threads * width
    lowest = T(-math.inf)

    @bounded(max(threads, 128))
    def soft_rows(x, q, pairs, stats, classes, count, keep, share):
        row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        inside = row < count
        start = row * classes
        end = classes if inside else 0
        before = (
            start % width if edges and inside else 0
        )  # accesses lie on borders, the first may begin before the row
        from_x = cuda.local.array(size, kind)
        from_q = cuda.local.array(size, kind)
        v = cuda.local.array(held, T)
        p = cuda.local.array(held, T)
        m = lowest
        total = T(0)
        weight = T(0)
        dot = T(0)
        for first in range(cuda.threadIdx.x * width - before, end, vectors * stride):
            rest = remaining(classes, first)
            fetch(x, start + first, rest, stride, from_x, lowest)
            fetch(q, start + first, rest, stride, from_q, T(0))
            take(from_x, first, rest, stride, v, lowest)
            take(from_q, first, rest, stride, p, T(0))
            largest = m
            for e in range(held):
                if v[e] > largest or v[e] != v[e]:
                    largest = v[e]
            if m > lowest and largest != m:
                total *= exp(m - largest)
                dot += weight * (m - largest)
            m = largest
            for k in range(vectors):
                low = -(
                    first + k * stride
                )  # elements low ... high - 1 of the access belong to the row
                high = low + classes
                for j in range(width):
                    if j >= low and j < high:
                        e = k * width + j
                        target = p[e] * keep + share
                        below = v[e] - m if v[e] != lowest else lowest
                        total += exp(below)
                        weight += target
                        dot += target * below
        top = top_of(m)
        if m > lowest:
            total *= exp(m - top)
            dot += weight * (m - top)
        total = total_of(total)
        weight = total_of(weight)
        dot = total_of(dot)
        if inside and cuda.threadIdx.x == 0:
            log_sum = math.log(total) if total != T(0) else top - top  # NaN: -inf throughout
            pairs[0, row] = weight * log_sum - dot
            pairs[1, row] = T(1)
            stats[0, row] = top
            stats[1, row] = log_sum
            stats[2, row] = weight

    return soft_rows


@functools.cache
def soft_plain_grad(dtype, reduced):
    """One thread per element; x, q, dx: (N, C, D); stats: (3, N, D); divisor: (1,); g: (1,) or (N,
    D)."""
    load, store, T = codec(dtype)
    exp = exponential(dtype)

    @cuda.jit
    def soft_plain_grad(g, x, q, stats, divisor, dx, keep, share):
        i = cuda.grid(1)
        _, classes, depth = x.shape
        if i < dx.size:
            rest = i // depth
            d = i - rest * depth
            n = rest // classes
            c = rest - n * classes
            factor = (g[0] if reduced else g[n, d]) / divisor[0]
            p = exp(load(x[n, c, d]) - stats[0, n, d] - stats[1, n, d])
            dx[n, c, d] = store((p * stats[2, n, d] - (load(q[n, c, d]) * keep + share)) * factor)

    return soft_plain_grad


@functools.cache
def soft_rows_grad(dtype, reduced, threads, rows, width, edges):
    """x, q, dx: (N * C,); stats: (3, N); divisor: (1,); g: (1,) or (N,). Block (threads, rows);
    `chunks` blocks share their rows and follow each other, as in memory (see
    cross_entropy_long_rows.py)."""
    T = codec(dtype)[2]
    write, exp = row_writer(dtype, width, edges), exponential(dtype)
    held = fitting(HELD, dtype)
    vectors, step = held // width, threads * width
    fetch, take, size, kind = row_reader(dtype, width, vectors, edges)

    @bounded(threads * rows)
    def soft_rows_grad(g, x, q, stats, divisor, dx, classes, count, keep, share, chunks):
        block = types.uint32(cuda.blockIdx.x)
        row = types.int64(block // types.uint32(chunks)) * rows + cuda.threadIdx.y
        first = (
            types.int64(block % types.uint32(chunks)) * (threads * held) + cuda.threadIdx.x * width
        )
        from_x = cuda.local.array(size, kind)
        from_q = cuda.local.array(size, kind)
        v = cuda.local.array(held, T)
        p = cuda.local.array(held, T)
        if row < count:
            start = row * classes
            first -= start % width if edges else 0
            at, rest = start + first, remaining(classes, first)
            fetch(x, at, rest, step, from_x, T(0))
            fetch(q, at, rest, step, from_q, T(0))
            take(from_x, first, rest, step, v, T(0))
            take(from_q, first, rest, step, p, T(0))
            factor = (g[0] if reduced else g[row]) / divisor[0]
            top = stats[0, row]
            log_sum = stats[1, row]
            weight = stats[2, row]
            for k in range(vectors):
                if k * step < rest:
                    for j in range(width):
                        e = k * width + j
                        v[e] = (exp(v[e] - top - log_sum) * weight - (p[e] * keep + share)) * factor
                    write(dx, at + k * step, v, k * width, first + k * step, rest - k * step)

    return soft_rows_grad


# -------------------- planners


def _numbers(x: Layout, label_smoothing: float) -> list:
    """keep and share: q' = q keep + share."""
    T = wide(x.dtype)
    return [T.type(1 - label_smoothing), T.type(label_smoothing / max(x.shape[1], 1))]


def plan_plain(p: SoftTargets) -> Plan:
    """The plan of a thread per sample and position."""
    n, _, depth = p.x.shape
    arguments = [Input(0), Input(1), Temp(0), Output(1), *_numbers(p.x, p.label_smoothing)]
    grid = max(blocks(n * depth, 128), 1)
    return reduced(p, Launch(soft_plain(p.x.dtype), grid, 128, arguments), True)


def plan_rows(p: SoftTargets) -> Plan:
    """The plan of a group of threads per row."""
    (n, classes, _), dtype = p.x.shape, p.x.dtype
    width, edges = access(classes, p.x, p.q)
    threads = min(power_of_two(blocks(classes, fitting(HELD, dtype))), THREADS)
    block = threads, max(128 // threads, 1) if threads <= WARP else 1
    arrays = [Input(0).flat, Input(1).flat, Temp(0).view((2, n)), Output(1).view((3, n))]
    kernel, grid = soft_rows(dtype, threads, width, edges), max(blocks(n, block[1]), 1)
    numbers = [classes, n, *_numbers(p.x, p.label_smoothing)]
    return reduced(p, Launch(kernel, grid, block, [*arrays, *numbers]))


def reduced(p: SoftTargets, first: Launch, one_thread: bool = False) -> Plan:
    """The plan of a launch that leaves the losses in Temp(0), and of what adds them up."""
    T = wide(p.x.dtype)
    n, _, depth = p.x.shape
    loss = p.x.like((n, depth) if p.reduction == "none" else (), T)
    rest, temps = reduction_steps(
        p.x.dtype, p.x.like((n, depth), T), p.reduction, Output(2), one_thread=one_thread
    )
    return Plan([loss, p.x.like((3, n, depth), T), p.x.like((), T)], [first, *rest], temps)


def plan_plain_grad(p: SoftTargetsBackward) -> Plan:
    """The plan of a thread per element."""
    kernel, grid = soft_plain_grad(p.x.dtype, p.reduced), max(blocks(p.x.size, 128), 1)
    arguments = [*map(Input, range(5)), Output(0), *_numbers(p.x, p.label_smoothing)]
    return Plan([p.x.like()], [Launch(kernel, grid, 128, arguments)])


def plan_rows_grad(p: SoftTargetsBackward) -> Plan:
    """The plan of a group of threads per row, or per chunk of a row."""
    (n, classes, _), dtype = p.x.shape, p.x.dtype
    width, edges = access(classes, p.x, p.q)
    held = fitting(HELD, dtype)
    threads = min(power_of_two(blocks(classes, held)), THREADS)
    block = threads, max(128 // threads, 1)
    chunks = blocks(classes + (width - 1 if edges else 0), threads * held)
    arrays = [Input(1).flat, Input(2).flat, Input(3).view((3, n)), Input(4), Output(0).flat]
    numbers = [classes, n, *_numbers(p.x, p.label_smoothing), chunks]
    kernel = soft_rows_grad(dtype, p.reduced, *block, width, edges)
    grid = max(blocks(n, block[1]), 1) * chunks
    arguments = [flat_gradient(p.reduced), *arrays, *numbers]
    return Plan([p.x.like()], [Launch(kernel, grid, block, arguments)])
