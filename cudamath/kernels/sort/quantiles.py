"""Quantiles and medians of lines in ascending order whose NaN, if they have any, come last.

The idea. Where the NaN of a line begin is found by bisection, in log2(n) reads. The position of the
quantile is a function of the count of other numbers (cpu/quantiles.py) and lies between two
neighbours: two more reads. One thread per line; the cost is the launch, and the sort before it. For
any GPU and the simulator.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.codec import codec
from ..lib.integers import blocks

THREADS = 128


@functools.cache
def rounded(method: str, W: Any) -> Any:
    """Device function: the place k + fraction as a method reads it."""
    half, none = W(0.5), W(0)

    @device_function
    def rounded(k, fraction):
        if method == "lower":
            return k, none
        if method in ("higher", "inverted_cdf"):
            return k + (1 if fraction > none else 0), none
        if method == "averaged_inverted_cdf":
            return k + (1 if fraction > none else 0), none if fraction > none else half
        if (
            method == "closest_observation"
        ):  # of two that are equally near the one whose number, from 1, is even
            return k + (0 if fraction == none and k & 1 else 1), none
        if method == "nearest":
            return k + (1 if fraction > half or (fraction == half and k & 1) else 0), none
        if method == "midpoint":
            return k, half if fraction > none else none
        return k, fraction

    return rounded


@functools.cache
def nan_quantile_lines(dtype: np.dtype, wide: np.dtype, method: str) -> Any:
    """y[line] = the quantile at place (count - less) q + shift + less - 1 of the line's numbers, or
    their "median"; NaN if there are none. wide: what places are computed in."""
    load, store, T = codec(dtype)
    W = numba_type(wide)
    read = rounded(method, W)

    @cuda.jit
    def nan_quantile_lines(
        x, y, q, less, shift
    ):  # x: (lines, n) ascending; y: (lines,); q, less, shift: W
        line = cuda.grid(1)
        if line >= y.size:
            return
        count, end = types.int64(0), x.shape[1]
        while count < end:  # the first NaN
            middle = (count + end) // 2
            value = load(x[line, middle])
            if value == value:
                count = middle + 1
            else:
                end = middle
        last = max(count - 1, 0)
        if method == "median":
            low, high = load(x[line, last // 2]), load(x[line, min(count // 2, last)])
            total = (
                low + high
            )  # halves of the smallest numbers are none, or others; the largest have no sum
            y[line] = store(
                total * T(0.5) if total - total == T(0) else low * T(0.5) + high * T(0.5)
            )
        else:
            place = (
                cuda.fma(W(count) - less, q, W(0)) + shift + (less - W(1))
            )  # rounded twice, as on the CPU
            k = types.int64(place)
            if W(k) > place:
                k -= types.int64(1)
            k, fraction = read(k, place - W(k))
            if k < 0 or k >= last:
                k, fraction = min(max(k, 0), last), W(0)
            low, high = load(x[line, k]), load(x[line, min(k + 1, last)])
            t = load(store(T(fraction)))
            if t == T(0):
                y[line] = store(low)
            elif t < T(0.5):
                y[line] = store(low + (high - low) * t)
            else:
                y[line] = store(high - (high - low) * (T(1) - t))

    return nan_quantile_lines


def nan_quantile(x: Layout, *, method: str, wide: np.dtype) -> Plan:
    """x (..., n), contiguous -> (...). Scalars: q, less and shift."""
    y = x.like(x.shape[:-1])
    launch = Launch(
        nan_quantile_lines(x.dtype, wide, method),
        blocks(y.size, THREADS),
        THREADS,
        [
            Input(0).view((y.size, x.shape[-1])),
            Output(0).view((y.size,)),
            *[Scalar(i, wide) for i in range(3)],
        ],
    )
    return Plan([y], [launch])
