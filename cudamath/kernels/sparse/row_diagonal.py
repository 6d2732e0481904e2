"""A diagonal of a compressed matrix: of each row the sum of what it stores in one column.

A group of threads shares a row, as many as its mean length asks for (`lanes_of_rows`); the sums of
what they have found meet in shared memory, where the first thread of the group adds them.

Floor: the columns of the stored elements and the starts of the rows once, and a number a row.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks
from .problem import lanes_of_rows

THREADS = 256


@functools.cache
def diagonal_of_rows(dtype: np.dtype, lanes: int) -> Any:
    """A group of `lanes` threads per row."""
    load, store, T = codec(dtype)

    @cuda.jit
    def diagonal_of_rows(data, indices, indptr, out, first, k):
        """data, indices: (nnz,); indptr: (rows + 1,); out[i]: (first + i, first + i + k)."""
        sums = cuda.shared.array(THREADS, T)
        thread = cuda.threadIdx.x
        place = (cuda.blockIdx.x * THREADS + thread) // lanes
        lane = thread % lanes
        total = T(0)
        if place < out.size:
            row = first + place
            for e in range(indptr[row] + lane, indptr[row + 1], lanes):
                if indices[e] == row + k:
                    total = T(total + T(load(data[e])))
        sums[thread] = total
        cuda.syncthreads()
        if lane == 0 and place < out.size:
            for other in range(thread + 1, thread + lanes):
                total = T(total + sums[other])
            out[place] = store(total)

    return diagonal_of_rows


def row_diagonal(data: Layout, indices: Layout, indptr: Layout, *, k: int, count: int) -> Plan:
    """data, indices: (nnz,), indptr: (rows + 1,), contiguous -> (count,), from row max(-k, 0)
    on."""
    out = data.like((count,))
    if not count:
        return Plan([out], [])
    lanes = lanes_of_rows(indptr.size - 1, data.size)
    kernel = diagonal_of_rows(data.dtype, lanes)
    first = np.int64(max(-k, 0))
    arguments = [Input(0), Input(1), Input(2), Output(0), first, np.int64(k)]
    return Plan([out], [Launch(kernel, blocks(count * lanes, THREADS), THREADS, arguments)])
