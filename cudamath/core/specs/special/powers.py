"""The power transforms of Box and Cox with their inverses, powers of ten, and inverse roots.

They have the digits of SciPy's formulas or more: in exp(lam log(x)) the rounded logarithm costs as
many as the exponent has before its point.
"""

from __future__ import annotations

import math

from .pairs import two_product


def inverse_root(x):
    """1 / sqrt(x)."""
    return 1.0 / math.sqrt(x)


def log1p(x):
    """log(1 + x)."""
    log, rest = log1p_and_rest(x)
    return log + rest


def log1p_and_rest(x):
    """log(1 + x) as a sum, by a logarithm: a GPU's own log1p is off by 1.4 units in the last place,
    which powers multiply."""
    if abs(x) < 1e-4:
        return x - x * x * (0.5 - x * (0.3333333333333333 - 0.25 * x)), 0.0
    u = 1.0 + x
    return math.log(u), (x - (u - 1.0)) / u if u > 0.0 and u < math.inf else 0.0


def boxcox(x, lam):
    """(x^lam - 1) / lam, and log(x) for lam = 0."""
    return power_of_log(math.log(x), 0.0, lam)


def boxcox1p(x, lam):
    """((1 + x)^lam - 1) / lam, and log(1 + x) for lam = 0."""
    log, rest = log1p_and_rest(x)
    if abs(log) < 1e-289 and abs(lam) < 1e273:  # their product has no digits
        return log
    return power_of_log(log, rest, lam)


def power_of_log(log, rest, lam):
    """(exp(lam (log + rest)) - 1) / lam, also where the exponential alone overflows."""
    if abs(lam) < 1e-19:
        return log + rest
    y = lam * log
    if y > 709.0:
        half = math.exp(0.5 * y)
        return half * (half / lam)
    power = math.expm1(y)
    if y > -50.0 and y != 0.0 and abs(lam) < 1e30:  # a zero keeps its sign
        _, lost = two_product(lam, log)
        power += (power + 1.0) * (lost + lam * rest)
    return power / lam


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


def exp2(x):
    """2^x."""
    return 2.0**x


def exp10(x):
    """10^x."""
    return 10.0**x
