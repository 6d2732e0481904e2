"""Where the largest or the smallest stored element of each row of a compressed matrix stands.

A group of threads shares a row, as many as its mean length asks for (`lanes_of_rows`); neighbours
read neighbouring elements. What each has found meets in shared memory, where the first thread of
the group chooses.

Of equal elements the last of the largest and the first of the smallest counts. NaN is the extreme
or, if NaN is skipped, the last resort.

Floor: the stored elements and the starts of the rows once, and a place a row.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from .problem import lanes_of_rows

THREADS = 256


@functools.cache
def extremes_of_rows(dtype: np.dtype, lanes: int, largest: bool, skips: bool) -> Any:
    """A group of `lanes` threads per row."""
    load, _, T = codec(dtype)
    i64 = types.int64

    @device_function
    def wins(new, at, best, place):
        """Whether element `at` takes the place of the best one; -1: there is none."""
        if at < 0:
            return False
        if place < 0:
            return True
        if new != new or best != best:
            if new != new and best != best:
                return at > place
            return (new != new) != skips
        if new == best:
            return (at > place) == largest
        return (new > best) == largest

    @cuda.jit
    def extremes_of_rows(data, indptr, out):
        """data: (nnz,); indptr: (rows + 1,); out: (rows,) int64, -1 for rows without elements."""
        bests = cuda.shared.array(THREADS, T)
        places = cuda.shared.array(THREADS, i64)
        thread = cuda.threadIdx.x
        row = (cuda.blockIdx.x * THREADS + thread) // lanes
        lane = thread % lanes
        best, place = T(0), i64(-1)
        if row < out.size:
            for e in range(indptr[row] + lane, indptr[row + 1], lanes):
                value = T(load(data[e]))
                if wins(value, i64(e), best, place):
                    best, place = value, i64(e)
        bests[thread] = best
        places[thread] = place
        cuda.syncthreads()
        if lane == 0 and row < out.size:
            for other in range(thread + 1, thread + lanes):
                if wins(bests[other], places[other], best, place):
                    best, place = bests[other], places[other]
            out[row] = place

    return extremes_of_rows


def row_extremes(data: Layout, indptr: Layout, *, largest: bool, skips: bool) -> Plan:
    """data: (nnz,), real, indptr: (rows + 1,), contiguous -> (rows,) int64."""
    rows = indptr.size - 1
    out = data.like((rows,), np.dtype(np.int64))
    if not rows:
        return Plan([out], [])
    lanes = lanes_of_rows(rows, data.size)
    kernel = extremes_of_rows(data.dtype, lanes, largest, skips)
    arguments = [Input(0), Input(1), Output(0)]
    return Plan([out], [Launch(kernel, blocks(rows * lanes, THREADS), THREADS, arguments)])
