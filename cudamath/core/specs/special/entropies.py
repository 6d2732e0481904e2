"""Products with logarithms, entropies, and the logistic functions."""

from __future__ import annotations

import math

from .gamma_functions import atanh_rest


def xlogy(x, y):
    """x log(y), and 0 where x is 0 and y a number."""
    if x == 0.0 and y == y:
        return 0.0
    return x * math.log(y)


def xlog1py(x, y):
    """x log(1 + y), and 0 where x is 0 and y a number."""
    if x == 0.0 and y == y:
        return 0.0
    return x * math.log1p(y)


def entr(x):
    """-x log(x); 0 at 0, and -inf of negative numbers."""
    if x != x:
        return x
    if x > 0.0:
        return -x * math.log(x)
    return 0.0 if x == 0.0 else -math.inf


def rel_entr(x, y):
    """x log(x / y); 0 where x is 0, and infinite outside of the domain."""
    if x != x or y != y:
        return math.nan
    if x <= 0.0 or y <= 0.0:
        return 0.0 if x == 0.0 and y >= 0.0 else math.inf
    # the sign of the logarithm is that of x - y; of 1 + u with positive u it loses nothing
    less = x < y
    u = (y - x) / x if less else (x - y) / y
    if u < math.inf:
        log = math.log1p(u)
        return x * (-log if less else log)
    return x * (math.log(x) - math.log(y))


def kl_div(x, y):
    """x log(x / y) - x + y; y where x is 0, and infinite outside of the domain."""
    if x > 0.0 and y > 0.0:
        d = y - x
        h = 0.5 * d
        near = abs(d) < 0.5 * x
        q = (h if near else x) / (x + h if near else y)  # one division for both: it is long
        if near:  # log(y / x) is 2 atanh(q), and 2 q less d / x is -q d / x
            return q * (d - 2.0 * x * atanh_rest(q * q))
        return d + x * math.log(q)
    if x != x or y != y:
        return math.nan
    return y if x == 0.0 and y >= 0.0 else math.inf


def huber(delta, r):
    """Half the square of r up to delta, beyond it linear."""
    if delta < 0.0:
        return math.inf
    if abs(r) <= delta:
        return 0.5 * r * r
    return delta * (abs(r) - 0.5 * delta)


def pseudo_huber(delta, r):
    """delta^2 (sqrt(1 + (r / delta)^2) - 1)."""
    if delta < 0.0:
        return math.inf
    if delta == 0.0 or r == 0.0:
        return 0.0
    v = r / delta
    if math.isinf(delta) or math.isinf(r):
        return delta * delta * (v * v)
    if abs(v) > 1e100:
        return delta * abs(r)
    return r * (r / (1.0 + math.sqrt(1.0 + v * v)))


def expit(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + math.exp(-x))


def log_expit(x):
    """log(expit(x))."""
    if x < 0.0:
        return x - math.log1p(math.exp(x))
    return -math.log1p(math.exp(-x))


def logit(x):
    """log(x / (1 - x))."""
    if x < 1e-300:
        return math.log(x)
    # of 1 + u with positive u a logarithm loses nothing
    s = 2.0 * x - 1.0
    return -math.log1p(-s / x) if x < 0.5 else math.log1p(s / (1.0 - x))


def exprel(x):
    """(exp(x) - 1) / x."""
    if abs(x) < 2.220446049250313e-16:
        return 1.0
    if x > 717.0:
        return math.inf
    return math.expm1(x) / x


def exp_moment(k, x):
    """The integral of t^k exp(x t) over t from 0 to 1, k = 0, 1, ...: the k-th derivative of
    exprel. By parts k times where that loses nothing, else a series of positive numbers."""
    if x != x:
        return x
    if x == -math.inf:
        return 0.0
    if x < -30.0 or (x > 20.0 and x > k):
        y = exprel(x)
        i = 1.0
        while i <= k:
            y = (math.exp(x) - i * y) / x
            i += 1.0
        return y
    term = 1.0
    j = 0.0
    if x < 0.0:
        term /= k + 1.0
        y = term
        while term > 1e-17 * y:
            j += 1.0
            term *= -x / (k + 1.0 + j)
            y += term
        return y * math.exp(x)
    y = 1.0 / (k + 1.0)
    while term > 1e-18 * y:
        j += 1.0
        term *= x / j
        y += term / (j + k + 1.0)
    return y
