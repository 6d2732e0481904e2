"""Numbers as the sum of two of float64, high and low: a power x^a with a large exponent loses none
of its digits where a log(x) is such a sum.

No function here needs a multiplication and an addition to be rounded separately or together:
compilers for GPUs join them. T. J. Dekker, Numerische Mathematik 18 (1971).
"""

from __future__ import annotations

import math

import numpy as np

from .polynomials import horner

LN2_HIGH = 0.6931471803691238  # 32 bits: products with exponents are exact
LN2_LOW = 1.9082149292705877e-10
SQRT_2 = 1.4142135623730951
#: Of atanh(s) / s - 1, by s^2, the highest power first.
ATANH = (
    1 / 25,
    1 / 23,
    1 / 21,
    1 / 19,
    1 / 17,
    1 / 15,
    1 / 13,
    1 / 11,
    1 / 9,
    1 / 7,
    1 / 5,
    1 / 3,
    0.0,
)


def two_sum(a, b):
    """a + b, and what rounding lost of it."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a, b):
    """a b, and what rounding lost of it: each is cut into 24 bits and the rest, whose products are
    exact. |a|, |b| < 1e38."""
    p = a * b
    ah = np.float64(np.float32(a))
    bh = np.float64(np.float32(b))
    al = a - ah
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def plus(a, al, b, bl):
    s, e = two_sum(a, b)
    return two_sum(s, e + (al + bl))


def times(a, al, b, bl):
    p, e = two_product(a, b)
    return two_sum(p, e + (a * bl + al * b))


def quotient(a, al, b, bl):
    y = a / b
    u, ul = two_product(y, b)
    return two_sum(y, (((a - u) - ul) + (al - y * bl)) / b)


def log_ratio(p, pl, q, ql):
    """log(p / q) of two positive sums: 2 atanh((p - q) / (p + q)) of what is left without powers of
    two. Its error is 1e-18 or 1e-20 of the result."""
    m, i = math.frexp(p)
    n, j = math.frexp(q)
    pl = math.ldexp(pl, -i)
    ql = math.ldexp(ql, -j)
    k = float(i - j)
    if m > SQRT_2 * n:
        m *= 0.5
        pl *= 0.5
        k += 1.0
    elif n > SQRT_2 * m:
        n *= 0.5
        ql *= 0.5
        k -= 1.0
    d, dl = plus(m, pl, -n, -ql)
    t, tl = plus(m, pl, n, ql)
    s, sl = quotient(d, dl, t, tl)
    z = s * s
    y = horner(z, ATANH)
    high, low = two_sum(k * LN2_HIGH, 2.0 * s)
    return two_sum(high, low + (k * LN2_LOW + 2.0 * (sl + s * y)))


def log_sum(x):
    """log(x) of a positive number, with an error of 1e-19."""
    m, k = math.frexp(x)
    n = float(k)
    if SQRT_2 * m < 1.0:
        m *= 2.0
        n -= 1.0
    d = m - 1.0
    t = m + 1.0
    r = 1.0 / t
    s = d * r
    p, pl = two_product(s, t)
    sl = (((d - p) - pl) - s * (m - (t - 1.0))) * r
    high = n * LN2_HIGH
    y = high + 2.0 * s
    low = ((high - y) + 2.0 * s) if n != 0.0 else 0.0
    low += n * LN2_LOW + 2.0 * (sl + s * horner(s * s, ATANH))
    log = y + low
    return log, (y - log) + low


def exp_sum(high, low):
    """exp(high + low)."""
    y = math.exp(high)
    return y + y * low if y < math.inf else y
