"""Distribution functions by the incomplete gamma and beta functions, with Cephes' names: P(X <= k),
with a c P(X > k), with an i the parameter or number that gives a probability."""

from __future__ import annotations

import math

from .error_functions import ndtr
from .incomplete_functions import (
    betainc,
    betainc_of,
    betaincinv,
    gammainc,
    gammaincc,
    gammainccinv,
)
from .rounding import floor


def bdtr(k, n, p):
    """Binomial: at most k of n."""
    k = floor(k)
    if not (p >= 0.0 and p <= 1.0 and k >= 0.0 and n >= k) or n != floor(n):
        return math.nan
    if k == n:
        return 1.0
    if k == 0.0:
        return (1.0 - p) ** n
    return betainc_of(n - k, k + 1.0, 1.0 - p, p)


def bdtrc(k, n, p):
    """Binomial: more than k of n."""
    k = floor(k)
    if not (p >= 0.0 and p <= 1.0 and n >= k) or n != floor(n):
        return math.nan
    if k < 0.0:
        return 1.0
    if k == n:
        return 0.0
    if k == 0.0:
        return -math.expm1(n * math.log1p(-p)) if p < 0.01 else 1.0 - (1.0 - p) ** n
    return betainc(k + 1.0, n - k, p)


def bdtri(k, n, y):
    """Binomial: the p with bdtr(k, n, p) = y."""
    k = floor(k)
    if not (y >= 0.0 and y <= 1.0 and k >= 0.0 and n > k) or n != floor(n):
        return math.nan
    if k == 0.0:
        return -math.expm1(math.log1p(y - 1.0) / n) if y > 0.8 else 1.0 - y ** (1.0 / n)
    if betainc(n - k, k + 1.0, 0.5) > 0.5:
        return betaincinv(k + 1.0, n - k, 1.0 - y)
    return 1.0 - betaincinv(n - k, k + 1.0, y)


def chdtr(v, x):
    """Chi-squared of v degrees of freedom: at most x."""
    return math.nan if not x >= 0.0 else gammainc(0.5 * v, 0.5 * x)


def chdtrc(v, x):
    """Chi-squared: more than x."""
    return math.nan if not x >= 0.0 else gammaincc(0.5 * v, 0.5 * x)


def chdtri(v, p):
    """Chi-squared: the x with chdtrc(v, x) = p."""
    return 2.0 * gammainccinv(0.5 * v, p)


def fdtr(a, b, x):
    """F of a and b degrees of freedom: at most x."""
    if not (a > 0.0 and b > 0.0 and x >= 0.0) or math.isinf(a) or math.isinf(b):
        return math.nan
    if math.isinf(x):
        return 1.0
    w = a * x
    return betainc_of(0.5 * a, 0.5 * b, w / (b + w), b / (b + w))


def fdtrc(a, b, x):
    """F: more than x."""
    if not (a > 0.0 and b > 0.0 and x >= 0.0) or math.isinf(a) or math.isinf(b):
        return math.nan
    if math.isinf(x):
        return 0.0
    w = a * x
    return betainc_of(0.5 * b, 0.5 * a, b / (b + w), w / (b + w))


def fdtri(a, b, p):
    """F: the x with fdtr(a, b, x) = p."""
    if not (a > 0.0 and b > 0.0 and p > 0.0 and p <= 1.0):
        return math.nan
    y = 1.0 - p
    if betainc(0.5 * b, 0.5 * a, 0.5) > y or y < 0.001:
        w = betaincinv(0.5 * b, 0.5 * a, y)
        return (b - b * w) / (a * w)
    w = betaincinv(0.5 * a, 0.5 * b, p)
    return b * w / (a * (1.0 - w))


def gdtr(a, b, x):
    """Gamma of rate a and shape b: at most x."""
    return math.nan if not x >= 0.0 else gammainc(b, a * x)


def gdtrc(a, b, x):
    """Gamma: more than x."""
    return math.nan if not x >= 0.0 else gammaincc(b, a * x)


def nbdtr(k, n, p):
    """Negative binomial: at most k failures before the n-th success."""
    k = floor(k)
    n = floor(n)
    if not (p >= 0.0 and p <= 1.0 and k >= 0.0):
        return math.nan
    return betainc(n, k + 1.0, p)


def nbdtrc(k, n, p):
    """Negative binomial: more than k failures."""
    k = floor(k)
    n = floor(n)
    if not (p >= 0.0 and p <= 1.0 and k >= 0.0):
        return math.nan
    return betainc_of(k + 1.0, n, 1.0 - p, p)


def nbdtri(k, n, y):
    """Negative binomial: the p with nbdtr(k, n, p) = y."""
    k = floor(k)
    n = floor(n)
    if not (y >= 0.0 and y <= 1.0 and k >= 0.0):
        return math.nan
    return betaincinv(n, k + 1.0, y)


def pdtr(k, m):
    """Poisson of mean m: at most k."""
    if k < 0.0 or m < 0.0:
        return math.nan
    return 1.0 if m == 0.0 else gammaincc(floor(k) + 1.0, m)


def pdtrc(k, m):
    """Poisson: more than k."""
    if k < 0.0 or m < 0.0:
        return math.nan
    return 0.0 if m == 0.0 else gammainc(floor(k) + 1.0, m)


def pdtri(k, y):
    """Poisson: the m with pdtr(k, m) = y."""
    k = floor(k)
    if not (k >= 0.0 and y >= 0.0 and y < 1.0):
        return math.nan
    return gammainccinv(k + 1.0, y)


def stdtr(v, t):
    """Student's t of v degrees of freedom: at most t."""
    if not v > 0.0 or t != t:
        return math.nan
    if math.isinf(t):
        return 0.0 if t < 0.0 else 1.0
    if v > 1e17:
        return ndtr(t)
    square = t * t
    if square < 1.0:
        half = 0.5 * betainc_of(0.5, 0.5 * v, square / (v + square), v / (v + square))
        return 0.5 - half if t < 0.0 else 0.5 + half
    tail = 0.5 * betainc_of(0.5 * v, 0.5, v / (v + square), square / (v + square))
    return tail if t < 0.0 else 1.0 - tail
