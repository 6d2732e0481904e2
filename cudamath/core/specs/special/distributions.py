"""Distribution functions by the incomplete gamma and beta functions, with Cephes' names: P(X <= k),
with a c P(X > k), with an i the parameter or number that gives a probability."""

from __future__ import annotations

import math

from .error_functions import ndtr
from .incomplete_functions import (
    beta_inverse,
    betainc,
    betainc_of,
    betainc_of_sums,
    betaincinv,
    gammainc,
    gammaincc,
    gammainccinv,
)
from .pairs import exp_sum, log_ratio, plus, quotient, times, two_product, two_sum
from .rounding import floor


def bdtr(k, n, p):
    """Binomial: at most k of n."""
    k = floor(k)
    if not (p >= 0.0 and p <= 1.0 and k >= 0.0 and n >= k) or n != floor(n) or math.isinf(n):
        return math.nan
    if k == n:
        return 1.0
    if k == 0.0:
        return none_of(n, p)
    return betainc_of(n - k, k + 1.0, 1.0 - p, p)


def none_of(n, p):
    """(1 - p)^n."""
    if p == 1.0 or n > 1e30:
        return 0.0 if p > 0.0 else 1.0
    y, yl = two_sum(1.0, -p)
    y, yl = log_ratio(y, yl, 1.0, 0.0)
    y, yl = times(y, yl, n, 0.0)
    return exp_sum(y, yl)


def bdtrc(k, n, p):
    """Binomial: more than k of n."""
    k = floor(k)
    if not (p >= 0.0 and p <= 1.0 and n >= k) or n != floor(n) or math.isinf(n):
        return math.nan
    if k < 0.0:
        return 1.0
    if k == n:
        return 0.0
    if k == 0.0:
        return -math.expm1(n * math.log1p(-p)) if p < 0.01 else 1.0 - none_of(n, p)
    return betainc(k + 1.0, n - k, p)


def bdtri(k, n, y):
    """Binomial: the p with bdtr(k, n, p) = y."""
    k = floor(k)
    if not (y >= 0.0 and y <= 1.0 and k >= 0.0 and n > k) or n != floor(n) or math.isinf(n):
        return math.nan
    if k == 0.0:
        return -math.expm1((math.log1p(y - 1.0) if y > 0.8 else math.log(y)) / n)
    _, p = beta_inverse(n - k, k + 1.0, y)
    return p


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
    if not (a > 0.0 and b > 0.0 and x >= 0.0):
        return math.nan
    if math.isinf(x):
        return 1.0
    if math.isinf(a) or math.isinf(b):
        return math.nan
    return f_part(a, b, x, False)


def f_part(a, b, x, upper):
    """At most x, or more than x, by betainc of a x / (b + a x)."""
    a *= 0.5
    b *= 0.5
    ul = 0.0
    vl = 0.0
    if a > 1e30 or b > 1e30 or a * x > 1e30:
        w = a * x
        u = w / (b + w)
        v = b / (b + w)
    else:
        w, wl = two_product(a, x)
        d, dl = plus(b, 0.0, w, wl)
        u, ul = quotient(w, wl, d, dl)
        v, vl = quotient(b, 0.0, d, dl)
    if upper:
        a, b = b, a
        u, v = v, u
        ul, vl = vl, ul
    return betainc_of_sums(a, b, u, ul, v, vl)


def fdtrc(a, b, x):
    """F: more than x."""
    if not (a > 0.0 and b > 0.0 and x >= 0.0):
        return math.nan
    if math.isinf(x):
        return 0.0
    if math.isinf(a) or math.isinf(b):
        return math.nan
    return f_part(a, b, x, True)


def fdtri(a, b, p):
    """F: the x with fdtr(a, b, x) = p."""
    if not (a > 0.0 and b > 0.0 and p >= 0.0 and p <= 1.0) or math.isinf(a) or math.isinf(b):
        return math.nan
    x, rest = beta_inverse(0.5 * a, 0.5 * b, p)
    return b * x / (a * rest) if rest > 0.0 else math.inf


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
    if not (p >= 0.0 and p <= 1.0 and k >= 0.0 and n > 0.0) or math.isinf(n):
        return math.nan
    return betainc(n, k + 1.0, p)


def nbdtrc(k, n, p):
    """Negative binomial: more than k failures."""
    k = floor(k)
    n = floor(n)
    if not (p >= 0.0 and p <= 1.0 and k >= 0.0 and n > 0.0) or math.isinf(n):
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
    far = abs(t) > 1e15  # t^2 leaves the range of pairs, and v matters no more
    u = 1.0
    ul = 0.0
    w = v / t / t if far else 0.0
    wl = 0.0
    if not far:
        square, lost = two_product(t, t)
        d, dl = plus(v, 0.0, square, lost)
        u, ul = quotient(square, lost, d, dl)
        w, wl = quotient(v, 0.0, d, dl)
    near = abs(t) < 1.0
    a = 0.5 if near else 0.5 * v
    b = 0.5 * v if near else 0.5
    part = 0.5 * betainc_of_sums(
        a, b, u if near else w, ul if near else wl, w if near else u, wl if near else ul
    )
    if near:
        return 0.5 - part if t < 0.0 else 0.5 + part
    return part if t < 0.0 else 1.0 - part
