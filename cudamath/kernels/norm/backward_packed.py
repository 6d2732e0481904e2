"""Gradients of norms of long rows of 16-bit numbers that begin between the borders of accesses
(forward.py has the formulas, backward_shifted.py how such rows are shared out).

A block's registers have no room for g, x, the next of both and the sums of a row of more than 8,192
numbers, if each takes one. Here what was read stays as it lies in memory, two numbers a register,
and is widened where it is needed: for the row's two sums, and again for dx. The weights of a
thread, which are the same in every row, wait in shared memory, as does its part of dbias.

So each number is read once. A block per row that reads it a second time, and a third for the sums
over rows, took 642 us for 12,000 rows of 8,257 (H100; 594 MB, which memory brings in 177).
"""

import functools
import math

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...runtime.device import multiprocessors
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.block_reduce import group_sums
from ..lib.codec import codec
from ..lib.vector_io import clearing, fetcher, row_reader, row_writer, shifted_reader
from ..lib.widths import wide
from .backward import finish_sums
from .backward_parts import THREADS, packed_bytes, packed_vectors
from .problem import Backward

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

WIDTH = 8  # numbers of an access
FOUR = 4  # .. of float32
i32 = types.int32


@functools.cache
def rows(dtype, param, vectors, parts):
    """Blocks take rows in turn; g, x, extra, dx: (rows * columns,).

    weight: (columns,); mean, rstd: (rows,); sums: (2, blocks, columns), each block's dweight and
    dbias. Shared memory: THREADS * vectors * WIDTH weights, and as many parts of dbias.
    """
    _, _, T = codec(dtype)
    _, widen, words, _ = fetcher(dtype, WIDTH)
    fetch, _, packed, raw = row_reader(dtype, WIDTH, vectors, True)
    fetch_one, _, _, _ = row_reader(dtype, WIDTH, 1, True, True)
    clear, step = clearing(WIDTH), THREADS * WIDTH
    read_param, write = shifted_reader(param, WIDTH), row_writer(dtype, WIDTH, True)
    sums_of, elements, both = group_sums(THREADS, T), vectors * WIDTH, 2 * WIDTH
    center, weighted, biased, residual, _ = parts
    held = THREADS * elements if weighted else 0  # numbers of shared memory before those of dbias

    @device_function
    def load_own(room, start, tx, k, w):
        """w[:WIDTH] = this thread's numbers of access k: neighbours' lie side by side."""
        for half in range(WIDTH // FOUR):
            taken = load_vector(
                room, start + ((k * (WIDTH // FOUR) + half) * THREADS + tx) * FOUR, FOUR
            )
            for j in range(FOUR):
                w[half * FOUR + j] = taken[j]

    @device_function
    def store_own(room, start, tx, k, w):
        for half in range(WIDTH // FOUR):
            j = half * FOUR
            store_vector(
                room,
                start + ((k * (WIDTH // FOUR) + half) * THREADS + tx) * FOUR,
                (w[j], w[j + 1], w[j + 2], w[j + 3]),
            )

    @device_function
    def standardise(now_g, now_x, k, first, rest, middle, scale, a, v):
        """a, v = g and the standardised x of access k; 0 of what does not belong to the row."""
        widen(now_g, k * words, a, 0)
        widen(now_x, k * words, v, 0)
        clear(a, 0, first, rest, T(0))
        clear(v, 0, first, rest, middle)
        for j in range(WIDTH):
            v[j] = (v[j] - middle) * scale

    @bounded((THREADS, 1))
    def norm_packed_rows_grad(g, x, weight, mean, rstd, extra, dx, sums, rows, columns):
        room = cuda.shared.array(0, T)
        tx = i32(cuda.threadIdx.x)
        groups, group = cuda.gridDim.x, cuda.blockIdx.x
        # the first access, of all rows of the block
        first = i32(i32(tx * WIDTH) - i32(group * columns % WIDTH))
        rest = i32(columns - first)
        part = T(1) / T(columns)
        next_g = cuda.local.array(packed, raw)
        next_x = cuda.local.array(packed, raw)
        now_g = cuda.local.array(packed, raw)
        now_x = cuda.local.array(packed, raw)
        beside = cuda.local.array(words, raw)
        a = cuda.local.array(WIDTH, T)
        v = cuda.local.array(WIDTH, T)
        w = cuda.local.array(both, T)
        dweight = cuda.local.array(elements, T)
        for e in range(elements):
            dweight[e] = T(0)
        for k in range(vectors):
            if weighted:
                read_param(weight, first + k * step, rest - k * step, w)
                store_own(room, 0, tx, k, w)
            if biased:
                for j in range(WIDTH):
                    w[j] = T(0)
                store_own(room, held, tx, k, w)
        next_scale = T(0)
        next_middle = T(0)
        if group < rows:
            next_scale = rstd[group]
            if center:
                next_middle = mean[group]
            at = group * columns + first
            fetch(g, at, rest, step, next_g, T(0))
            fetch(x, at, rest, step, next_x, T(0))
        for turn in range((rows - group + groups - 1) // groups):
            row = turn * groups + group
            here = row * columns + first
            scale = next_scale
            middle = next_middle
            for e in range(packed):
                now_g[e] = next_g[e]
                now_x[e] = next_x[e]
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
                    standardise(
                        now_g, now_x, k, first + k * step, rest - k * step, middle, scale, a, v
                    )
                    if biased:
                        load_own(room, held, tx, k, w)
                        for j in range(WIDTH):
                            w[j] += a[j]
                        store_own(room, held, tx, k, w)
                    if weighted:
                        load_own(room, 0, tx, k, w)
                        for j in range(WIDTH):
                            dweight[k * WIDTH + j] += a[j] * v[j]
                            a[j] *= w[j]
                    for j in range(WIDTH):
                        if center:
                            sum_g += a[j]
                        sum_gx += a[j] * v[j]
            sum_g, sum_gx = sums_of(sum_g, sum_gx, turn)
            mean_g = sum_g * part
            mean_gx = sum_gx * part
            for k in range(vectors):
                if k * step < rest:
                    standardise(
                        now_g, now_x, k, first + k * step, rest - k * step, middle, scale, a, v
                    )
                    if weighted:
                        load_own(room, 0, tx, k, w)
                        for j in range(WIDTH):
                            a[j] *= w[j]
                    for j in range(WIDTH):
                        a[j] = scale * (a[j] - mean_g - v[j] * mean_gx)
                    if residual:
                        fetch_one(extra, here + k * step, rest, step, beside, T(0))
                        widen(beside, 0, w, 0)
                        for j in range(WIDTH):
                            a[j] += w[j]
                    write(dx, here + k * step, a, 0, first + k * step, rest - k * step)
        for k in range(vectors):
            if biased:
                load_own(room, held, tx, k, w)
            for j in range(WIDTH):
                column = first + k * step + j
                if 0 <= column < columns:
                    if weighted:
                        sums[0, group, column] = dweight[k * WIDTH + j]
                    if biased:
                        sums[1, group, column] = w[j]

    return norm_packed_rows_grad


def row_blocks(p: Backward) -> int:
    """Blocks that take rows in turn, one a multiprocessor: a multiple of the rows after which one
    begins equally far from a border."""
    period = WIDTH // math.gcd(p.columns, WIDTH)
    return max(min(p.rows, multiprocessors(p.x.device)) // period, 1) * period


def plan(p: Backward) -> Plan:
    """Planner."""
    x, groups = p.x, row_blocks(p)
    weight, mean, rstd, _ = p.inputs
    arrays = [Input(0).flat, Input(1).flat, weight, mean, rstd, p.addend.flat]
    step = Launch(
        rows(x.dtype, p.param.dtype, packed_vectors(p.columns), p.parts),
        groups,
        THREADS,
        [*arrays, Output(0).flat, Temp(0), p.rows, p.columns],
        shared=packed_bytes(p.columns, p.parts),
    )
    return Plan(
        p.outputs,
        [step, *finish_sums(p, groups)],
        [x.like((2, groups if p.summed else 1, p.columns), wide(x.dtype))],
        several=True,
    )
