"""The power transforms of Box and Cox with their inverses, and powers of ten. Digits are those of
SciPy's formulas: a rounded exponent costs as many as it has itself."""

from __future__ import annotations

import math


def log1p(x):
    """log(1 + x), by a logarithm: a GPU's own log1p is off by 1.4 units in the last place, which
    powers multiply."""
    if abs(x) < 1e-4:
        return x - x * x * (0.5 - x * (0.3333333333333333 - 0.25 * x))
    u = 1.0 + x
    return math.log(u) + (x - (u - 1.0)) / u if u > 0.0 and u < math.inf else math.log(u)


def boxcox(x, lam):
    """(x^lam - 1) / lam, and log(x) for lam = 0."""
    return power_of_log(math.log(x), lam)


def boxcox1p(x, lam):
    """((1 + x)^lam - 1) / lam, and log(1 + x) for lam = 0."""
    log = log1p(x)
    return log if abs(log) < 1e-289 and abs(lam) < 1e273 else power_of_log(log, lam)


def power_of_log(log, lam):
    """(exp(lam log) - 1) / lam, also where the exponential alone overflows."""
    if abs(lam) < 1e-19:
        return log
    y = lam * log
    if y < 709.78:
        return math.expm1(y) / lam
    return math.copysign(1.0, lam) * math.exp(y - math.log(abs(lam))) - 1.0 / lam


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
