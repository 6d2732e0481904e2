"""Slopes along an axis with one spacing (``gradient``): central differences inside, one-sided ones
at the ends.

    y[i] = (x[i + 1] - x[i - 1]) / 2h;   at the ends (x[1] - x[0]) / h, or of second order (-3 x[0]
                                         + 4 x[1] - x[2]) / 2h

A thread has an element. The floor is a read of x, whose neighbours come from the caches, and a
write of y, in one launch; as differences, quotients and a join of three parts it would be seven.
"""

import functools
from math import prod
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype, real_dtype
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..copy.contiguous import dense
from ..lib.codec import codec
from ..lib.integers import blocks

THREADS = 256


@functools.cache
def slopes_of_lines(dtype: np.dtype, second: bool) -> Any:
    """x, y: (before, n, after); h: real. second: of second order at the ends, too, for which n is
    at least 3."""
    load, store, T = codec(dtype)
    R = numba_type(real_dtype(compute_dtype(dtype)))

    @cuda.jit
    def slopes_of_lines(x, y, h):
        i = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        n, after = x.shape[1], x.shape[2]
        line = i // after
        a = i - line * after
        b = line // n
        k = line - b * n
        if b >= x.shape[0]:
            return
        if 0 < k < n - 1:
            slope = (load(x[b, k + 1, a]) - load(x[b, k - 1, a])) / (R(2) * h)
        elif second:
            end, step = (0, 1) if k == 0 else (n - 1, -1)
            slope = (
                load(x[b, end, a]) * R(-1.5)
                + load(x[b, end + step, a]) * R(2)
                + load(x[b, end + 2 * step, a]) * R(-0.5)
            ) / (h * R(step))
        else:
            first = 0 if k == 0 else n - 2
            slope = (load(x[b, first + 1, a]) - load(x[b, first, a])) / h
        y[b, k, a] = store(T(slope))

    return slopes_of_lines


def gradient(x: Layout, *, axis: int, second: bool) -> Plan:
    """Slopes along an axis of at least two elements. Scalar: the spacing."""
    y = x.like()
    if not y.size:
        return Plan([y], [])
    temps: list[Layout] = []
    steps, operand = dense(Input(0), x, x.shape, x.dtype, temps)
    lines = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    launch = Launch(
        slopes_of_lines(x.dtype, second),
        blocks(x.size, THREADS),
        THREADS,
        [operand.view(lines), Output(0).view(lines), Scalar(0, real_dtype(compute_dtype(x.dtype)))],
    )
    return Plan([y], [*steps, launch], temps)
