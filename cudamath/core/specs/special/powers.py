"""The power transforms of Box and Cox with their inverses, and powers of ten."""

from __future__ import annotations

import math

from .pairs import exp_sum, log_ratio, plus, quotient, times, two_product, two_sum


def power_of_log(log, rest, lam):
    """(exp(lam (log + rest)) - 1) / lam, also where the exponential alone overflows."""
    high = lam * log
    low = 0.0
    if abs(lam) < 1e30 and abs(log) < 1e30:
        high, low = times(log, rest, lam, 0.0)
    if high < 709.78:
        y = math.expm1(high)
        return (y + low * (1.0 + y)) / lam
    high -= math.log(abs(lam))
    return math.copysign(1.0, lam) * exp_sum(high, low) - 1.0 / lam


def boxcox(x, lam):
    """(x^lam - 1) / lam, and log(x) for lam = 0."""
    if abs(lam) < 1e-19 or not (x > 0.0 and x < math.inf):
        return math.log(x) if abs(lam) < 1e-19 else power_of_log(math.log(x), 0.0, lam)
    log, rest = log_ratio(x, 0.0, 1.0, 0.0)
    return power_of_log(log, rest, lam)


def boxcox1p(x, lam):
    """((1 + x)^lam - 1) / lam, and log(1 + x) for lam = 0."""
    log = math.log1p(x)
    if abs(lam) < 1e-19 or (abs(log) < 1e-289 and abs(lam) < 1e273):
        return log
    rest = 0.0
    if abs(x) > 1e-30 and x > -1.0 and x < math.inf:
        y, yl = two_sum(1.0, x)
        log, rest = log_ratio(y, yl, 1.0, 0.0)
    return power_of_log(log, rest, lam)


def log_of_power(x, lam):
    """log(1 + lam x) / lam as a sum, also where the product overflows."""
    if abs(x) < 1e30 and abs(lam) < 1e30 and lam * x > -1.0 and abs(lam * x) > 1e-30:
        y, yl = two_product(lam, x)
        y, yl = plus(1.0, 0.0, y, yl)
        y, yl = log_ratio(y, yl, 1.0, 0.0)
        return quotient(y, yl, lam, 0.0)
    if lam * x < 1.79e308:
        return math.log1p(lam * x) / lam, 0.0
    y = math.log(math.copysign(1.0, lam) * (x + 1.0 / lam)) + math.log(abs(lam))
    return y / lam, 0.0


def inv_boxcox(x, lam):
    """The y with boxcox(y, lam) = x."""
    if lam == 0.0:
        return math.exp(x)
    high, low = log_of_power(x, lam)
    return exp_sum(high, low)


def inv_boxcox1p(x, lam):
    """The y with boxcox1p(y, lam) = x."""
    if lam == 0.0:
        return math.expm1(x)
    if abs(lam * x) < 1e-154:
        return x
    high, low = log_of_power(x, lam)
    y = math.expm1(high)
    return y + low * (1.0 + y) if y < math.inf else y


def exp10(x):
    """10^x."""
    return 10.0**x
