"""Functions for results in float32, by their names: in float64, without the sums of two numbers and
the second steps that the last digits of float64 take. Errors are far below half a unit of float32.

Kernels take them where they are (library.narrow). What is not here has one form for all dtypes.
"""

from __future__ import annotations

import math

from .error_functions import (
    INV_SQRT_PI,
    MIDDLE_P,
    MIDDLE_Q,
    SQRT_2PI,
    SQRT_HALF,
    normal_tail,
)
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


def middle(t):
    """The x with erf(x) = 2 t, of |t| < 0.365."""
    square = t * t
    y = t + t * (square * horner(square, MIDDLE_P) / horner(square, MIDDLE_Q))
    return SQRT_2PI * SQRT_HALF * y


def erfinv(y):
    a = abs(y)
    if a < 0.7293:
        return middle(0.5 * y)
    if a < 1.0:
        return math.copysign(normal_tail(0.5 * (1.0 - a)) * SQRT_HALF, y)
    return y * math.inf if a == 1.0 else math.nan


def erfcinv(y):
    if y > 0.2707 and y < 1.7293:
        return middle(0.5 * (1.0 - y))
    if y > 0.0 and y < 2.0:
        x = normal_tail(0.5 * min(y, 2.0 - y)) * SQRT_HALF
        return x if y < 1.0 else -x
    if y == 0.0 or y == 2.0:
        return (1.0 - y) * math.inf
    return math.nan


def log_ndtr(x):
    t = x * SQRT_HALF
    if t < -25.0:
        u = 0.5 / (t * t)
        return math.log(0.5 * INV_SQRT_PI / -t * (1.0 - u * (1.0 - 3.0 * u))) - t * t
    tail = 0.5 * math.erfc(abs(t))
    return math.log(tail) if t < 0.0 else math.log1p(-tail)


def boxcox(x, lam):
    log = math.log(x)
    return log if abs(lam) < 1e-19 else math.expm1(lam * log) / lam


def boxcox1p(x, lam):
    log = math.log1p(x)
    return log if abs(lam) < 1e-19 else math.expm1(lam * log) / lam


def inv_boxcox(x, lam):
    """A product of two numbers of float32 is exact."""
    return math.exp(x) if lam == 0.0 else math.exp(math.log1p(lam * x) / lam)


def inv_boxcox1p(x, lam):
    return math.expm1(x) if lam == 0.0 else math.expm1(math.log1p(lam * x) / lam)
