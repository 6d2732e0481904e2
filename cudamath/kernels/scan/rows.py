"""Many rows of neighbours, too short for the threads of a tile: a warp or a part of one takes a
row."""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import WARP, bounded
from ..compiler.lazy_numba import cuda, types
from ..copy.axis_last import neighbours
from ..lib.integers import blocks
from ..lib.vector_io import reading
from .decoupled_lookback import row_scan, row_writer, scan_functions
from .problem import Problem, row_shape

ROW_THREADS = 256


@functools.cache
def scan_rows(
    kind: str, source: np.dtype, target: np.dtype, width: int, vectors: int, lanes: int
) -> Any:
    """Rows of neighbours, each for `lanes` of a warp, which go along it by ``vectors`` accesses of
    ``width`` elements."""
    kinds = kind, source, target
    lift, _, identity, A = scan_functions(*kinds)
    read, scan_lanes, put = (
        reading(lift, width),
        row_scan(kinds, lanes, width, vectors),
        row_writer(A, target, width),
    )
    held = vectors * width
    stride = lanes * width  # elements that the lanes of a row read at once
    step = stride * vectors

    @bounded(ROW_THREADS)
    def scan_rows(x, y, rows, n):  # x, y: (rows * n,)
        v = cuda.local.array(held, A)
        t = types.int64(cuda.grid(1))
        lane = cuda.threadIdx.x % WARP
        place = lane % lanes
        end = lane - place + lanes - 1
        row = t // lanes
        base = row * n
        stop = n if row < rows else 0  # lanes past the last row take part in the shuffles
        carry = identity
        for start in range(0, n, step):
            first = start + place * width
            if start + step <= stop:  # all loads go out before the first is waited for
                for r in range(vectors):
                    read(x, base + first + r * stride, v, r * width)
            else:
                for r in range(vectors):
                    if first + r * stride < stop:
                        read(x, base + first + r * stride, v, r * width)
                    else:
                        for j in range(width):
                            v[r * width + j] = identity
            carry = scan_lanes(v, place, end, carry)
            for r in range(vectors):
                put(y, base, first + r * stride, stop, lane, v, r * width)

    return scan_rows


def plan(problem: Problem) -> Plan:
    """Planner."""
    temps: list[Layout] = []
    x, kinds, rows, n = problem.x, problem.kinds, problem.lines, problem.n
    before, source, after, target = neighbours(x, problem.out, problem.axis, temps)
    width, vectors, lanes = row_shape(kinds, n, x)
    launch = Launch(
        scan_rows(*kinds, width, vectors, lanes),
        blocks(rows * lanes, ROW_THREADS),
        ROW_THREADS,
        [
            source.view((x.size,), dtype=x.dtype),
            target.view((x.size,), dtype=problem.dtype),
            rows,
            n,
        ],
    )
    return Plan([problem.out], [*before, launch, *after], temps)
