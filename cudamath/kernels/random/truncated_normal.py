"""Truncated normal numbers out of uniform ones: each goes through the inverse of the distribution
function, in one launch.

The idea. For p uniform between erf(low) and erf(high), sqrt(2) times the x with erf(x) = p has the
normal distribution between low and high. That x is p times a polynomial: in w = -ln(1 - p^2) up to
w = 5 (|x| < 2.2), in sqrt(w) further out; to about 3e-7 up to 5.5 standard deviations, 4e-4 at 6.4,
beyond which two numbers in 10^10 lie. It is then scaled, shifted, and kept between the bounds,
which rounding may have left. The logarithm and the multiply-adds are those of reproducible_math.py,
so cpu/truncated_normal.py gets the same bits.

One version: the elementwise kernels (elementwise/dispatch.py) with this function. The floor is one
read of p, in float64, and one write.

Source: Giles, "Approximating the erfinv function", GPU Computing Gems, 2011: the polynomials.
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...core.specs.erfinv import FAR, NEAR
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..elementwise.dispatch import launch
from ..lib.codec import codec
from .reproducible_math import log64

F64 = np.dtype(np.float64)


@functools.cache
def inverse(dtype: np.dtype) -> Any:
    """The device function (p, scale, mean, low, high) -> scale times the x with erf(x) = p, plus
    mean, between low and high; as `dtype` is stored."""
    store, R = codec(dtype)[1:]
    F = types.float64

    @device_function
    def inverse(p, scale, mean, low, high):
        w = -log64(max((F(1) - p) * (F(1) + p), F(1e-16)))
        near = w < F(5)
        z = w - F(2.5) if near else math.sqrt(w) - F(3)
        y = F(NEAR[0]) if near else F(FAR[0])
        for k in range(1, len(NEAR)):
            y = cuda.fma(y, z, F(NEAR[k]) if near else F(FAR[k]))
        return store(R(min(max(cuda.fma(y * p, scale, mean), low), high)))

    return inverse


def truncated(p: Layout, *, dtype: np.dtype) -> Plan:
    """Planner. Scalars: scale, mean, low, high. p: float64, contiguous, between -1 and 1 ->
    dtype."""
    out = p.like(dtype=dtype)
    return Plan([out], [launch(inverse(dtype), (p, *[F64] * 4), out, Output(0))])
