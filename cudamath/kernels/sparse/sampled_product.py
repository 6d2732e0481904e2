"""Elements of a product of two dense matrices, where a sparse one has its elements: out[e] = sum
over k of a[rows[e], k] b[columns[e], k].

The idea. An element is a dot product of two rows. With one thread each (`plain`), neighbouring
threads would read rows that lie far apart. So a group of threads shares an element, and neighbours
read neighbouring numbers (`lanes`); groups are as wide as the rows, at most a warp. Their sums meet
in registers.

Floor: the result and the coordinates once, and two rows of k numbers per element, of which those of
a come from the caches where elements of a row follow one another.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import FULL
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from .problem import SampledProblem

THREADS = 256


@functools.cache
def plain_sampled(dtype: np.dtype) -> Any:
    """One thread per element."""
    load, store, T = codec(dtype)

    @cuda.jit
    def plain_sampled(rows, columns, a, b, out):
        """rows, columns, out: (nnz,); a: (m, k); b: (n, k)."""
        e = cuda.grid(1)
        if e < out.size:
            row, other = rows[e], columns[e]
            total = T(0)
            for k in range(a.shape[1]):
                total = T(total + T(load(a[row, k]) * load(b[other, k])))
            out[e] = store(total)

    return plain_sampled


@functools.cache
def lanes_sampled(dtype: np.dtype, lanes: int) -> Any:
    """A group of `lanes` threads per element."""
    load, store, T = codec(dtype)

    @cuda.jit
    def lanes_sampled(rows, columns, a, b, out):
        """rows, columns, out: (nnz,); a: (m, k); b: (n, k)."""
        e = cuda.grid(1) // lanes
        lane = cuda.threadIdx.x % lanes
        total = T(0)
        if e < out.size:
            row, other = rows[e], columns[e]
            for k in range(lane, a.shape[1], lanes):
                total = T(total + T(load(a[row, k]) * load(b[other, k])))
        step = lanes // 2
        while step > 0:  # whole warps arrive here
            total = T(total + cuda.shfl_down_sync(FULL, total, step))
            step = step // 2
        if e < out.size and lane == 0:
            out[e] = store(total)

    return lanes_sampled


def by_elements(p: SampledProblem) -> Plan:
    """Version "plain"."""
    return Plan([p.out], [_launch(p, plain_sampled(p.a.dtype), 1)])


def by_lanes(p: SampledProblem) -> Plan:
    """Version "lanes"."""
    lanes = min(power_of_two(p.a.shape[1]), 32)
    return Plan([p.out], [_launch(p, lanes_sampled(p.a.dtype, lanes), lanes)])


def _launch(p: SampledProblem, kernel: Any, lanes: int) -> Launch:
    return Launch(
        kernel,
        blocks(p.out.size * lanes, THREADS),
        THREADS,
        [Input(0), Input(1), Input(3), Input(4), Output(0)],  # 2 says where rows begin
    )
