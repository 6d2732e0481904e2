"""Functions for results in float32, by their names: in float64, without what the last digits of
float64 take. Errors are far below half a unit of float32.

Kernels take them where they are (library.narrow). What is not here has one form for all dtypes.
"""

from __future__ import annotations

import math

from .error_functions import INV_SQRT_PI, SQRT_HALF
from .polynomials import horner
from .rounding import floor

#: (log(1 + u) - u) / u^2 for |u| < 0.1, the highest power first.
LOG1P_REST = (
    -1 / 12,
    1 / 11,
    -1 / 10,
    1 / 9,
    -1 / 8,
    1 / 7,
    -1 / 6,
    1 / 5,
    -1 / 4,
    1 / 3,
    -1 / 2,
)


def kl_div(x, y):
    if x != x or y != y:
        return math.nan
    if x > 0.0 and y > 0.0:
        u = (y - x) / x
        if abs(u) < 0.1:
            return -x * (u * u * horner(u, LOG1P_REST))
        return x * math.log(x / y) - x + y
    return y if x == 0.0 and y >= 0.0 else math.inf


def gammaln(x):
    if x <= 0.0 and x == floor(x):
        return x if x == -math.inf else math.inf
    return math.lgamma(x)


def log_ndtr(x):
    t = x * SQRT_HALF
    if t < -25.0:
        u = 0.5 / (t * t)
        return math.log(0.5 * INV_SQRT_PI / -t * (1.0 - u * (1.0 - 3.0 * u))) - t * t
    tail = 0.5 * math.erfc(abs(t))
    return math.log(tail) if t < 0.0 else math.log1p(-tail)
