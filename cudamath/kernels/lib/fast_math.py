"""Fast smooth steps: x P(Z < x) for a standard normal Z, the gelu; its derivative; the sigmoid.

The floor of a gelu is memory, and on an H200 that leaves 54 instructions to a float32 element and
27 to a 16-bit one; libdevice's erfc alone takes as many. So, with z = |x|, t = 1 / (1 + p z) and a
polynomial R that is fitted to 0.5 erfcx(z / sqrt(2)) / t with the smallest relative error over 0 <=
z <= 14.5 (beyond, the tail is 0 in float32),

    P(Z > z) = exp(-z^2 / 2) t R(t)
    gelu(x)  = max(x, 0) - z P(Z > z)
    slope(x) = P(Z < x) + x exp(-x^2 / 2) / sqrt(2 pi)

Negative x lose no digits. exp(-z^2 / 2) is 2^(c z^2), corrected by the rounding errors of z^2 and
of its product with c: for z = 10 they would cost 5 of the 24 bits. 16-bit results take a shorter
polynomial and no correction. The sigmoid 1 / (1 + exp(-x)) is one exponential and the instruction
for 1 / x, where a division takes a dozen.

Accuracy (relative, of the gelu): 4e-7 in float32, 4e-5 before a 16-bit result is rounded.
"""

import functools
import math
from typing import Any

import numpy as np

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, libdevice, types

if not SIMULATOR:
    from ..ptx.sm80 import exp2, reciprocal

#: p and the coefficients of R, lowest first: relative error 3.2e-8; for 16-bit results 3.4e-5
LONG = (
    0.35,
    (
        0.1396213061077328,
        0.13986352896617635,
        0.11982118464906086,
        0.10555292708161186,
        -0.02321339425553494,
        0.15932125366755326,
        -0.25584040264926694,
        0.14403161067024553,
        -0.02915803022419473,
    ),
)
SHORT = (
    0.375,
    (
        0.1490796301705949,
        0.15755854169481104,
        0.08412278822069527,
        0.19955919723932453,
        -0.09031812206012346,
    ),
)
END = 14.5
HALF_LOG2E = -0.5 / math.log(2)
INV_SQRT2PI = 1 / math.sqrt(2 * math.pi)


@functools.cache
def normal_functions(T: Any, short: bool) -> dict[str, Any]:
    """{"gelu": x -> x P(Z < x), "gelu_slope": its derivative, "sigmoid"} for compute type T; short:
    for 16-bit results."""
    bell_and_tail = _plain(T) if SIMULATOR or T != types.float32 else _fast(short)
    zero, one, density = T(0), T(1), T(INV_SQRT2PI)

    @device_function
    def gelu(x):
        z, _, tail = bell_and_tail(x)
        return (zero if x < zero else x) - z * tail  # NaN stays

    @device_function
    def gelu_slope(x):
        z, bell, tail = bell_and_tail(x)
        below = tail if x < zero else one - tail
        return below + (zero - z if x < zero else z) * bell * density if x == x else x

    return {"gelu": gelu, "gelu_slope": gelu_slope, "sigmoid": _sigmoid(T, short)}


def _sigmoid(T: Any, short: bool) -> Any:
    one, minus_log2e = T(1), T(-1 / math.log(2))
    if SIMULATOR or T != types.float32:

        @device_function
        def sigmoid(x):
            return one / (one + math.exp(-x))

    elif short:

        @device_function
        def sigmoid(x):
            return reciprocal(one + exp2(x * minus_log2e))

    else:

        @device_function
        def sigmoid(x):
            return reciprocal(one + math.exp(-x))

    return sigmoid


@functools.cache
def exponential(dtype: np.dtype) -> Any:
    """Device function x -> exp(x) in the compute type of `dtype`; for 16-bit numbers one
    multiplication and one instruction, within |x| / 10^7 of the whole."""
    if SIMULATOR or dtype.itemsize != 2:

        @device_function
        def exact(x):
            return math.exp(x)

        return exact
    log2e = np.float32(1 / math.log(2))

    @device_function
    def short(x):
        return exp2(x * log2e)

    return short


def _plain(T: Any) -> Any:
    """Device function x -> (min(|x|, far), exp(-z^2 / 2), P(Z > z)) by the library's functions."""
    half, scale, far = T(0.5), T(math.sqrt(0.5)), T(60)

    @device_function
    def bell_and_tail(x):
        z = min(abs(x), far)
        return z, math.exp(-half * z * z), half * math.erfc(z * scale)

    return bell_and_tail


@functools.cache
def _fast(short: bool) -> Any:
    p, coefficients = (
        np.float32(n) if isinstance(n, float) else tuple(map(np.float32, n))
        for n in (SHORT if short else LONG)
    )
    end, one, c, log2 = (
        np.float32(END),
        np.float32(1),
        np.float32(HALF_LOG2E),
        np.float32(math.log(2)),
    )
    c_rest = np.float32(HALF_LOG2E - float(c))
    degree = len(coefficients) - 1

    @device_function
    def bell_and_tail(x):
        z = min(abs(x), end)
        t = reciprocal(libdevice.fmaf(p, z, one))
        r = coefficients[degree]
        for k in range(degree):
            r = libdevice.fmaf(r, t, coefficients[degree - 1 - k])
        square = z * z
        power = square * c
        bell = exp2(power)
        if not short:
            lost = libdevice.fmaf(
                libdevice.fmaf(z, z, -square), c, libdevice.fmaf(square, c, -power)
            )
            bell = libdevice.fmaf(bell, libdevice.fmaf(square, c_rest, lost) * log2, bell)
        return z, bell, bell * (t * r)

    return bell_and_tail
