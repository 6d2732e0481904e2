"""Norms of any order, (Σ |x|^p)^(1/p), of vectors that are not long: a block for each, in one
launch.

By its parts such a norm is four launches (absolute values, powers, their sum, its root), and launch
overhead dominates for short vectors. The order is a run-time number: one kernel serves all of them.
(Orders 0, 1, 2 and infinity are reductions: core/specs/reductions.py.) A thread adds every
THREADS-th power, and the block adds their sums as a tree: the same numbers give the same bits. For
any GPU and the simulator.
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...core.specs.reductions import NORM_1
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, dtype_of
from ..lib.accumulators import accumulator
from ..lib.codec import codec
from ..lib.strided_index import index_walker
from .problem import view_of

THREADS = 256


@functools.cache
def power_norm_kernel(source: np.dtype, target: np.dtype, kept: int, reduced: int) -> Any:
    """One block per result."""
    _, store, T = codec(target)
    size_of = accumulator(NORM_1, source, target).lift
    index_kept, index_reduced = index_walker(0, kept, False), index_walker(kept, reduced, False)
    one = T(1)

    @bounded(THREADS)
    def power_norm(x, out, count, order):
        """x: kept + reduced dimensions, any strides; out: the kept dimensions; count: elements of
        each result."""
        sums = cuda.shared.array(THREADS, T)
        t = cuda.threadIdx.x
        where = index_kept(x, cuda.blockIdx.x)
        total = T(0)
        for j in range(t, count, THREADS):
            total += size_of(x[where + index_reduced(x, j)], j)[0] ** order
        sums[t] = total
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if t < half:
                sums[t] = sums[t] + sums[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            out[where] = store(sums[0] ** (one / order))

    return power_norm


def power_norm(x: Layout, *, axis: tuple[int, ...], keepdims: bool, dtype: np.dtype) -> Plan:
    """Planner: x of any strides; scalar: the order -> real norms over the axes."""
    out = x.like(
        tuple(1 if i in axis else n for i, n in enumerate(x.shape) if keepdims or i not in axis),
        dtype,
    )
    if not out.size:
        return Plan([out], [])
    view = view_of(x, axis, out.itemsize, False)
    kernel = power_norm_kernel(x.dtype, dtype, len(view.kept), len(view.reduced))
    return Plan(
        [out],
        [
            Launch(
                kernel,
                out.size,
                THREADS,
                [
                    Input(0).view(
                        view.kept + view.reduced,
                        view.kept_strides + view.reduced_strides,
                        offset=view.offset,
                    ),
                    Output(0).view(view.kept, view.out_strides),
                    math.prod(view.reduced),
                    Scalar(0, dtype_of(codec(dtype)[2])),
                ],
            )
        ],
    )
