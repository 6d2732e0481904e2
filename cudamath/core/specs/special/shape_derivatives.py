"""The derivatives of the incomplete gamma and beta functions by the parameters of their shape.

Gamma: the series of the lower function, term by term; the continued fraction of the upper one, its
derivative beside it (Moore, AS 187, 1982); Temme's expansion where a is large and x near it. Beta:
the derivative beside the continued fraction (Boik & Robison-Cox, 1998). The part that is computed
is the smaller one, in which terms of one sign are added.
"""

from __future__ import annotations

import math

from .gamma_functions import TWO_PI, digamma
from .incomplete_functions import (
    EPSILON,
    SHARE,
    beta_depth,
    beta_power,
    beta_term,
    gamma_power,
    temme_parts,
)
from .pairs import plus, times, two_sum
from .rounding import floor
from .temme_coefficients import TEMME


def gammainc_by_a(a, x):
    """The derivative of gammainc by a."""
    if a != a or x != x or a < 0.0 or x < 0.0 or (math.isinf(a) and math.isinf(x)):
        return math.nan
    if x == 0.0 or math.isinf(x) or math.isinf(a):
        return 0.0 if a > 0.0 or math.isinf(x) else math.nan
    if a == 0.0:
        a = 1e-300  # the limit from above
    if a > 200.0 and abs(x - a) < 0.3 * a and (abs(x - a) < 4.5 * math.sqrt(a) or a > 1e4):
        return gamma_temme_by_a(a, x)
    power = gamma_power(a, x)
    if power == 0.0:
        return 0.0
    if x <= max(a, 0.7):
        return power * gamma_series_by_a(a, x)
    return -power * gamma_fraction_by_a(a, x)


def gamma_series_by_a(a, x):
    """Of the lower function, by gamma_power."""
    log = math.log(x)
    psi = digamma(a + 1.0)
    r = a
    c = 1.0
    y = log - psi
    for _ in range(5000):
        r += 1.0
        psi += 1.0 / r
        c *= x / r
        term = c * (log - psi)
        y += term
        if abs(term) <= EPSILON * abs(y):
            break
    return y / a


def gamma_fraction_by_a(a, x):
    """Of the upper function, by gamma_power."""
    k = floor(SHARE * (40.0 + 250.0 / x + 12.0 * math.sqrt(a)))
    t = 0.0
    dt = 0.0
    while k > 0.0:
        d = x + 2.0 * k + 1.0 - a - t
        t = k * (k - a) / d
        dt = (-k + t * (1.0 + dt)) / d
        k -= 1.0
    y = 1.0 / (x + 1.0 - a - t)
    return y * (math.log(x) - digamma(a)) + y * y * (1.0 + dt)


def gamma_temme_by_a(a, x):
    """The derivative of gamma_temme's lower function."""
    _, power, eta = temme_parts(a, x)
    if abs(eta) < 3e-3:  # (x / a - 1) / eta
        ratio = eta * (1.0 / 36.0 + eta * (-1.0 / 270.0 + eta / 4320.0))
        ratio = 1.0 + eta * (1.0 / 3.0 + ratio)
    else:
        ratio = (x - a) / a / eta
    total = 0.0  # Temme's sum, and its derivative by a
    slope = 0.0
    factor = 1.0
    k = 0
    while k < 25:
        c = 0.0
        dc = 0.0
        for n in range(24, -1, -1):
            dc = dc * eta + c
            c = c * eta + TEMME[k, n]
        total += c * factor
        change = factor / a * (k * c + dc * ratio)
        slope -= change
        if abs(change) < 0.1 * EPSILON and abs(c * factor) < 0.1 * EPSILON:
            break
        factor /= a
        k += 1
    log = eta * (ratio - 0.5 * eta)  # of x / a
    y = ratio - 0.5 * eta + total * (log - 0.5 / a) + slope
    return -power * y / math.sqrt(TWO_PI * a)


def beta_fraction_by(a, b, x, xl, y, yl, da, db):
    """beta_fraction, and its derivative by a (da = 1, db = 0) or by b."""
    u, ul = times(a, 0.0, y, yl)
    v, vl = times(b, 0.0, x, xl)
    middle, rest = plus(u, ul, -v, -vl)
    middle += 1.0 + rest
    d_middle = da * y - db * x
    depth, _ = beta_depth(a, b, x, middle)
    m = floor(1.1 * depth + 10.0)
    f = 0.0
    df = 0.0
    while m > 0.0:
        num, den = beta_term(m, a, b, x, middle)
        u = a + 2.0 * m - 1.0
        part = (a + m - 1.0) / u * (a + b + m - 1.0) / u * m * x * x
        d_num = num * (da / (a + m - 1.0) + (da + db) / (a + b + m - 1.0) - 2.0 * da / u)
        d_num += part * db
        w = middle + m * (2.0 - x)
        d_den = m * x * (db - (b - m) * da / u) / u
        d_den += (da * w * (1.0 - (a + m) / (u + 2.0)) + (a + m) * d_middle) / (u + 2.0)
        d = den + f
        f = num / d
        df = (d_num - f * (d_den + df)) / d
        m -= 1.0
    c = a * middle / (a + 1.0) + f
    dc = (da * middle / (a + 1.0) + a * d_middle) / (a + 1.0) + df
    return 1.0 / c, -dc / (c * c)


def log_of(x, xl, y, yl):
    """The logarithm of x, y = 1 - x."""
    return math.log(x) + xl / x if x < 0.5 else math.log1p(-y) - yl / x


def betainc_by(a, b, x, y, da, db):
    """The derivative of betainc by one of its parameters; y = 1 - x."""
    xl = 0.0
    yl = 0.0
    if x < y:
        y, yl = two_sum(1.0, -x)
    else:
        x, xl = two_sum(1.0, -y)
    sign = 1.0
    if x > a / (a + b):
        a, b = b, a
        da, db = db, da
        x, y = y, x
        xl, yl = yl, xl
        sign = -1.0
    power = beta_power(a, b, x, xl, y, yl)
    if power == 0.0:
        return 0.0
    part, slope = beta_fraction_by(a, b, x, xl, y, yl, da, db)
    # the derivative of the logarithm of the power
    log = digamma(a + b)
    log += log_of(x, xl, y, yl) - digamma(a) if da == 1.0 else log_of(y, yl, x, xl) - digamma(b)
    return sign * power * (part * log + slope)


def betainc_shape_slope(a, b, x, y, da):
    """By a (da = 1) or b, in the whole domain."""
    if not (a >= 0.0 and b >= 0.0 and x >= 0.0 and x <= 1.0) or (a == 0.0 and b == 0.0):
        return math.nan
    if math.isinf(a) or math.isinf(b):
        return math.nan if math.isinf(a) and math.isinf(b) else 0.0
    if x == 0.0 or y == 0.0:
        return 0.0
    return betainc_by(max(a, 1e-300), max(b, 1e-300), x, y, da, 1.0 - da)


def betainc_by_a(a, b, x):
    """The derivative of betainc by a."""
    return betainc_shape_slope(a, b, x, 1.0 - x, 1.0)


def betainc_by_b(a, b, x):
    """The derivative of betainc by b."""
    return betainc_shape_slope(a, b, x, 1.0 - x, 0.0)
