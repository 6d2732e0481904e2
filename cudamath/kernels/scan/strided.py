"""Running totals down columns, in one pass: a scan along any axis but the last.

The idea. Neighbours in memory belong to other lines, so a warp reads a piece of one row and each of
its lanes goes down columns of its own. A block takes a strip of WARP accesses and goes down tile by
tile of WARPS x ``held`` rows:

                 <- strip ->
    warp 0       | held rows |   each lane scans its rows in registers,
    warp 1       | held rows |   warps exchange totals in shared memory, once per tile,
    ...          |           |   and the tile's total goes on to the next tile, which is
    warp 15      | held rows |   loaded meanwhile

The floor is a read and a write of each element. Cutting columns into segments (``scan_lines``)
reads them twice; transposing the array and the result (``scan_tiles``) reads and writes it three
times. But one block per strip fills the device only if there are many columns.

The order of additions depends on positions alone: the same bits every time.

Measured (row versions_scan_columns):
running sums along the second axis of 64 x 2,048 x 1,024, float32; NVIDIA H200, commit 52457ee46004,
2026-11-23

                       GB/s     of a copy
    scan_lines        2,146          0.51
    scan_tiles        1,207          0.29
    scan_columns      3,901          0.92

(end of what was measured)
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import WARP, bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import RUN, writer
from .decoupled_lookback import THREADS, WARPS, scan_functions
from .problem import Problem, column_shape

if not SIMULATOR:
    from ..ptx.vector_access import load_vector

STRIPS = 2  # blocks on a multiprocessor


@functools.cache
def scan_columns(kind: str, source: np.dtype, target: np.dtype, width: int, held: int) -> Any:
    """y[b, j, a] = x[b, 0, a] combine ... combine x[b, j, a]; a block for WARP accesses of
    ``width`` neighbours a, a thread for ``held`` rows of an access at a time."""
    lift, combine, identity, A = scan_functions(kind, source, target)
    tile = WARPS * held
    across = WARP * width
    both, room = 2 * WARPS, held * width

    if width == 1:
        store = codec(target)[1]

        @device_function
        def read(x, b, j, a, n, after, v, e):
            v[e] = lift(x[b, j, a])

        @device_function
        def put(y, b, j, a, n, after, v, e):
            y[b, j, a] = store(v[e])

    else:
        write = writer(target, width)

        @device_function
        def read(x, b, j, a, n, after, v, e):
            packed = load_vector(x, (b * n + j) * after + a, width)
            for w in range(width):
                v[e + w] = lift(packed[w])

        @device_function
        def put(y, b, j, a, n, after, v, e):
            write(y, (b * n + j) * after + a, v, e)

    @device_function
    def fetch(x, b, j, a, n, after, v):
        for k in range(held):
            if j + k < n and a < after:
                read(x, b, j + k, a, n, after, v, k * width)
            else:
                for w in range(width):
                    v[k * width + w] = identity

    @bounded((THREADS, STRIPS))
    def scan_columns(x, y, n, after, strips):
        # x, y: (before, n, after), or their memory if width > 1; strips: of WARP accesses, the last
        # of which may reach beyond the columns
        ends = cuda.shared.array(
            (both, across), A
        )  # of two tiles in turn, so that one barrier per tile is enough
        ahead = cuda.local.array(room, A)
        v = cuda.local.array(room, A)
        total = cuda.local.array(width, A)  # of the tiles above: of whole runs of them ..
        part = cuda.local.array(
            width, A
        )  # .. and since then, so that rounding errors grow with the runs
        lane = cuda.threadIdx.x % WARP
        warp = cuda.threadIdx.x // WARP
        b = types.int64(cuda.blockIdx.x // strips)
        a = (cuda.blockIdx.x - b * strips) * across + lane * width
        j = types.int64(warp * held)
        for w in range(width):
            total[w] = identity
            part[w] = identity
        fetch(x, b, j, a, n, after, ahead)
        first = 0  # row of `ends` of this tile
        for number in range((n + tile - 1) // tile):
            for i in range(width):
                v[i] = ahead[i]
            for i in range(width, held * width):
                v[i] = combine(v[i - width], ahead[i])
            fetch(x, b, j + tile, a, n, after, ahead)  # arrives while this tile is finished
            for w in range(width):
                ends[first + warp, lane + w * WARP] = v[(held - 1) * width + w]
            cuda.syncthreads()
            for w in range(width):
                above = identity  # of this tile, the warps above
                inside = identity
                for u in range(WARPS):
                    if u == warp:
                        above = inside
                    inside = combine(inside, ends[first + u, lane + w * WARP])
                above = combine(combine(total[w], part[w]), above)
                for k in range(held):
                    v[k * width + w] = combine(above, v[k * width + w])
                part[w] = combine(part[w], inside)
                if number % RUN == RUN - 1:
                    total[w] = combine(total[w], part[w])
                    part[w] = identity
            for k in range(held):
                if j + k < n and a < after:
                    put(y, b, j + k, a, n, after, v, k * width)
            j += tile
            first = WARPS - first

    return scan_columns


def plan(problem: Problem) -> Plan:
    """Planner of ``scan_columns``."""
    steps, source, layout, copies = problem.boxed
    kinds, (before, n, after) = problem.kinds, layout.shape
    target = Output(0).view(layout.shape)
    width, held = column_shape(kinds, layout)
    if width > 1:
        source, target = source.view((layout.size,)), target.view((layout.size,))
    strips = blocks(after, WARP * width)
    rows = max(held // (max(problem.size_of_total, 4) * width), 2)
    kernel = scan_columns(*kinds, width, rows)
    launch = Launch(kernel, before * strips, THREADS, [source, target, n, after, strips])
    return Plan([problem.out], [*steps, launch], list(copies))
