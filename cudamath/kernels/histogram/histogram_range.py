"""Histograms between the smallest and the largest number, without a host that waits for them in
between.

The idea. NumPy's edges are first + i step, rounded after the product and after the sum: so every
thread can make the edge it wants from the two ends, and the counts need no table of edges. Of few
numbers one block does all of it, ``count_alone``: it finds the ends, counts in shared memory and
writes counts and edges. Of many, the blocks of ``find_ends`` find the ends of a part each, and
every block of ``count_between`` reads those parts before it counts its share as in histogram.py.
The host waits once, at the end, for a number that says whether there are such edges; between
infinities or neighbouring numbers are none.

Between numbers that the host gives, ``write_edges`` writes edges, which NumPy then makes in
float64, and histogram.py counts.

The bin of a number comes from a product, then a step aside where rounding put it on the wrong side
of an edge, so that the edges alone decide, as in NumPy. The floor is two reads of the numbers; of
those that the second-level cache holds, one.

On an H200, us, until the host has its answer: 64 float32 23 (edges made by the host 64;
torch.histc, without edges, 54), of given ends 11.5 (13.9); 2^24 float32 109 (198).

Measured (row histogram):
histogram(a, 100), 2^24; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath      1,343          0.32
    cupy            246          0.06
    torch           687          0.16

(end of what was measured)
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..copy.contiguous import dense
from ..lib.codec import codec
from ..lib.integers import blocks
from .edges import edges_between
from .histogram import AHEAD, ITEMS, MOST_BLOCKS, THREADS
from .problem import MOST_SHARED, RangeProblem

PARTS = 512  # blocks of `find_ends`


@functools.cache
def ends_of(source: np.dtype) -> tuple[Any, Any, Any]:
    """Device functions. The smaller and the larger of two numbers, where NaN wins, and (low, high,
    shared) -> the block's."""
    T = numba_type(source)

    @device_function
    def smaller(a, b):
        return a if a <= b or a != a else b

    @device_function
    def larger(a, b):
        return a if a >= b or a != a else b

    @device_function
    def of_block(low, high, shared):  # shared: (2, THREADS) of T
        t = cuda.threadIdx.x
        shared[0, t], shared[1, t] = low, high
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if t < half:
                shared[0, t] = T(smaller(shared[0, t], shared[0, t + half]))
                shared[1, t] = T(larger(shared[1, t], shared[1, t + half]))
            cuda.syncthreads()
            half //= 2
        return shared[0, 0], shared[1, 0]

    return smaller, larger, of_block


@functools.cache
def find_ends(source: np.dtype) -> Any:
    """parts[0, b], parts[1, b] = the smallest and the largest number that block b meets; counts =
    0."""
    T = numba_type(source)
    smaller, larger, of_block = ends_of(source)

    @cuda.jit
    def find_ends(
        x, parts, counts
    ):  # x: (n,) with n at least the number of blocks; parts: (2, blocks); counts: (bins,) int64
        shared = cuda.shared.array((2, THREADS), T)
        held = cuda.local.array(AHEAD, T)
        for i in range(cuda.grid(1), counts.size, cuda.gridsize(1)):
            counts[i] = 0
        n = x.size
        step = cuda.gridsize(1)
        low = high = x[0]
        for start in range(cuda.grid(1), n, AHEAD * step):
            for j in range(AHEAD):  # all loads go out before the first is waited for
                held[j] = x[types.uint64(min(start + j * step, n - 1))]
            for j in range(AHEAD):
                low, high = T(smaller(low, held[j])), T(larger(high, held[j]))
        low, high = of_block(low, high, shared)
        if cuda.threadIdx.x == 0:
            parts[0, cuda.blockIdx.x], parts[1, cuda.blockIdx.x] = low, high

    return find_ends


@functools.cache
def count_between(source: np.dtype, edge: np.dtype, alone: bool) -> Any:
    """counts[bin] += how many numbers lie there; block 0 writes the edges, and 1 if they do not
    ascend between finite numbers.

    alone: the only block, which finds the ends itself and sets the counts. Named `count_alone`
    then."""
    T, E = numba_type(source), numba_type(edge)
    load = codec(source)[0]
    smaller, larger, of_block = ends_of(source)
    apart, steps, edge_at = edges_between(edge)

    def count_between(x, parts, counts, edges, wrong):
        # x: (n,); parts: as written by find_ends (alone: x); counts: (bins,) int64; edges: (bins +
        # 1,); wrong: (1,) int64
        shared = cuda.shared.array((2, THREADS), T)
        seen = cuda.shared.array(MOST_SHARED, types.int32)
        held = cuda.local.array(AHEAD, T)
        t = cuda.threadIdx.x
        bins = counts.size
        for i in range(t, bins, THREADS):
            seen[i] = 0
        n = x.size
        step = cuda.gridsize(1)
        if alone:
            low = high = x[0]
            for start in range(t, n, AHEAD * THREADS):
                for j in range(AHEAD):
                    held[j] = x[min(start + j * THREADS, n - 1)]
                for j in range(AHEAD):
                    low, high = T(smaller(low, held[j])), T(larger(high, held[j]))
        else:
            low, high = parts[0, 0], parts[1, 0]
            for b in range(t, parts.shape[1], THREADS):
                low, high = T(smaller(low, parts[0, b])), T(larger(high, parts[1, b]))
        low, high = of_block(low, high, shared)
        lowest, highest = E(load(low)), E(load(high))
        first, last = apart(lowest, highest)
        width, scale = steps(first, last, bins)
        for start in range(cuda.grid(1), n, AHEAD * step):
            for j in range(AHEAD):
                held[j] = x[types.uint64(min(start + j * step, n - 1))]
            for j in range(AHEAD):
                v = E(load(held[j]))
                if first <= v <= last and start + j * step < n:  # not for NaN
                    i = min(max(types.int64(E(v - first) * scale), types.int64(0)), bins - 1)
                    while i > 0 and v < edge_at(i, first, last, width, bins):
                        i -= 1
                    while i < bins - 1 and v >= edge_at(i + 1, first, last, width, bins):
                        i += 1
                    cuda.atomic.add(seen, types.uint32(i), 1)
        cuda.syncthreads()
        for i in range(t, bins, THREADS):
            if alone:
                counts[i] = types.int64(seen[i])
            elif seen[i]:
                cuda.atomic.add(counts, i, types.int64(seen[i]))
        if cuda.blockIdx.x == 0:
            if t == 0:
                nothing = E(lowest - lowest) + E(
                    highest - highest
                )  # NaN if one of them is not finite
                wrong[0] = types.int64(0 if nothing == E(0) else 1)
            cuda.syncthreads()
            for i in range(t, bins + 1, THREADS):
                here = edge_at(i, first, last, width, bins)
                edges[i] = here
                if i < bins and here >= edge_at(i + 1, first, last, width, bins):
                    wrong[0] = 1

    if alone:
        count_between.__name__ = count_between.__qualname__ = "count_alone"
    return cuda.jit(count_between)


# -------------------- planners


def in_one_block(p: RangeProblem) -> Plan:
    """Version "one_block"."""
    temps: list[Layout] = []
    steps, x = dense(Input(0), p.x, p.x.shape, p.x.dtype, temps)
    kernel = count_between(p.x.dtype, p.edge, True)
    results = [Output(0), Output(1), Output(2)]
    return Plan(p.outputs, [*steps, Launch(kernel, 1, THREADS, [x.flat, x.flat, *results])], temps)


def in_many_blocks(p: RangeProblem) -> Plan:
    """Version "many_blocks": two launches."""
    temps: list[Layout] = []
    steps, x = dense(Input(0), p.x, p.x.shape, p.x.dtype, temps)
    many = blocks(p.x.size, THREADS * ITEMS)
    parts = min(many, PARTS)
    # 32-bit counters of a block hold the numbers of its share
    grid = max(min(many, MOST_BLOCKS), blocks(p.x.size, 1 << 30))
    temps.append(p.x.like((2, parts)))
    ends = Temp(len(temps) - 1)
    found = Launch(find_ends(p.x.dtype), parts, THREADS, [x.flat, ends, Output(0)])
    kernel = count_between(p.x.dtype, p.edge, False)
    results = [Output(0), Output(1), Output(2)]
    counted = Launch(kernel, grid, THREADS, [x.flat, ends, *results])
    return Plan(p.outputs, [*steps, found, counted], temps)
