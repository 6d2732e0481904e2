"""The power transforms of Box and Cox with their inverses, and powers of ten.

The transforms take powers as such: in exp(lam log(x)) the rounded exponent would cost as many
digits as it has before its point. The inverses have the digits of SciPy's formulas, which do that.
"""

from __future__ import annotations

import math

from .pairs import two_sum


def log1p(x):
    """log(1 + x), by a logarithm: a GPU's own log1p is off by 1.4 units in the last place, which
    powers multiply."""
    if abs(x) < 1e-4:
        return x - x * x * (0.5 - x * (0.3333333333333333 - 0.25 * x))
    u = 1.0 + x
    return math.log(u) + (x - (u - 1.0)) / u if u > 0.0 and u < math.inf else math.log(u)


def boxcox(x, lam):
    """(x^lam - 1) / lam, and log(x) for lam = 0."""
    return of_power(x, 0.0, math.log(x), lam)


def boxcox1p(x, lam):
    """((1 + x)^lam - 1) / lam, and log(1 + x) for lam = 0."""
    log = log1p(x)
    if abs(log) < 1e-289 and abs(lam) < 1e273:
        return log
    u, rest = two_sum(1.0, x)
    return of_power(u, rest, log, lam)


def of_power(u, rest, log, lam):
    """((u + rest)^lam - 1) / lam, where log = log(u + rest), also where the power alone overflows.
    rest is what rounding lost of u; its part in the power must be small enough to be linear."""
    if abs(lam) < 1e-19:
        return log
    y = lam * log
    change = lam * (rest / u)
    linear = abs(change) < 1e-9
    if abs(y) < 0.5 or not abs(y) < math.inf or (y < 709.0 and not linear):
        return math.expm1(y) / lam
    if y < 709.0:
        power = u**lam
        return (power - 1.0 + power * change) / lam
    half = math.exp(0.5 * y)
    if linear and half < math.inf:
        half = u ** (0.5 * lam)
        half += half * (0.5 * change)
    return half * (half / lam) - 1.0 / lam


def log_of_power(x, lam):
    """log(1 + lam x) / lam, also where the product overflows."""
    y = lam * x
    if y < 1.79e308:
        return log1p(y) / lam
    return (math.log(math.copysign(1.0, lam) * (x + 1.0 / lam)) + math.log(abs(lam))) / lam


def inv_boxcox(x, lam):
    """The y with boxcox(y, lam) = x."""
    return math.exp(x) if lam == 0.0 else math.exp(log_of_power(x, lam))


def inv_boxcox1p(x, lam):
    """The y with boxcox1p(y, lam) = x."""
    if lam == 0.0:
        return math.expm1(x)
    return x if abs(lam * x) < 1e-154 else math.expm1(log_of_power(x, lam))


def exp10(x):
    """10^x."""
    return 10.0**x
