"""The power transforms of Box and Cox with their inverses, and powers of ten."""

from __future__ import annotations

import math


def power_of_log(log, lam):
    """(exp(lam log) - 1) / lam, also where the exponential alone overflows."""
    if lam * log < 709.78:
        return math.expm1(lam * log) / lam
    return math.copysign(1.0, lam) * math.exp(lam * log - math.log(abs(lam))) - 1.0 / lam


def boxcox(x, lam):
    """(x^lam - 1) / lam, and log(x) for lam = 0."""
    if abs(lam) < 1e-19:
        return math.log(x)
    return power_of_log(math.log(x), lam)


def boxcox1p(x, lam):
    """((1 + x)^lam - 1) / lam, and log(1 + x) for lam = 0."""
    log = math.log1p(x)
    if abs(lam) < 1e-19 or (abs(log) < 1e-289 and abs(lam) < 1e273):
        return log
    return power_of_log(log, lam)


def log_of_power(x, lam):
    """log(1 + lam x) / lam, also where the product overflows."""
    if lam * x < 1.79e308:
        return math.log1p(lam * x) / lam
    return (math.log(math.copysign(1.0, lam) * (x + 1.0 / lam)) + math.log(abs(lam))) / lam


def inv_boxcox(x, lam):
    """The y with boxcox(y, lam) = x."""
    if lam == 0.0:
        return math.exp(x)
    return math.exp(log_of_power(x, lam))


def inv_boxcox1p(x, lam):
    """The y with boxcox1p(y, lam) = x."""
    if lam == 0.0:
        return math.expm1(x)
    if abs(lam * x) < 1e-154:
        return x
    return math.expm1(log_of_power(x, lam))


def exp10(x):
    """10^x."""
    return 10.0**x
