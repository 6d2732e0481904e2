"""Pochhammer's symbol, binomial coefficients, the zeta function of Riemann, and Legendre's
functions."""

from __future__ import annotations

import math

from .gamma_functions import beta, betaln, gamma, gammaln, gammasgn, sinpi, zeta
from .rounding import floor


def is_nonpositive_whole(x):
    return x <= 0.0 and x == floor(x) and abs(x) < 1e13


def poch(a, m):
    """gamma(a + m) / gamma(a)."""
    r = 1.0
    while m >= 1.0 and a + m != 1.0:
        m -= 1.0
        r *= a + m
        if r == 0.0 or not abs(r) < math.inf:
            break
    while m <= -1.0 and a + m != 0.0:
        r /= a + m
        m += 1.0
        if r == 0.0 or not abs(r) < math.inf:
            break
    if m == 0.0:
        return r
    if a > 1e4 and abs(m) <= 1.0:
        y = 1.0 + m * (m - 1.0) / (2.0 * a)
        y += m * (m - 1.0) * (m - 2.0) * (3.0 * m - 1.0) / (24.0 * a * a)
        y += m * m * (m - 1.0) * (m - 1.0) * (m - 2.0) * (m - 3.0) / (48.0 * a * a * a)
        return r * a**m * y
    if is_nonpositive_whole(a + m) and not is_nonpositive_whole(a) and a + m != m:
        return math.inf
    if not is_nonpositive_whole(a + m) and is_nonpositive_whole(a):
        return 0.0
    return r * math.exp(gammaln(a + m) - gammaln(a)) * gammasgn(a + m) * gammasgn(a)


def binom(n, k):
    """gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1))."""
    if n != n or not k < math.inf or (n < 0.0 and n == floor(n)):
        return math.nan
    if k == -math.inf:
        return 0.0
    whole = floor(k)
    if k == whole and (abs(n) > 1e-8 or n == 0.0):
        least = n - whole if n == floor(n) and whole > 0.5 * n and n > 0.0 else whole
        if least >= 0.0 and least < 20.0:
            num = 1.0
            den = 1.0
            i = 1.0
            while i <= least:
                num *= i + n - least
                den *= i
                if abs(num) > 1e50:
                    num /= den
                    den = 1.0
                i += 1.0
            return num / den
    if n >= 1e10 * k and k > 0.0:
        return math.exp(-betaln(1.0 + n - k, 1.0 + k) - math.log(n + 1.0))
    if k > 1e8 * abs(n):
        g = gamma(1.0 + n)
        num = (g / abs(k) + g * n / (2.0 * k * k)) / (math.pi * abs(k) ** n)
        if k == whole:
            s = 1.0 if whole % 2.0 == 0.0 else -1.0
            return num * sinpi(-n) * s
        return num * sinpi(k - n)
    return 1.0 / (n + 1.0) / beta(1.0 + n - k, 1.0 + k)


def riemann_zeta(x):
    """The sum of k^-x over k = 1, 2, ..., and what continues it below 1."""
    if x != x:
        return x
    if x == 1.0:
        return math.inf
    if x > 1.0:
        return zeta(x, 1.0)
    if x == -math.inf:
        return math.nan
    if x < -1.0:
        if x % 2.0 == 0.0:
            return 0.0
        if x < -50.0:  # the factors alone overflow
            log = gammaln(1.0 - x) + (x - 1.0) * math.log(2.0 * math.pi)
            if log > 709.78:
                return sinpi(0.5 * x) * math.inf
            return 2.0 * math.exp(log) * sinpi(0.5 * x) * zeta(1.0 - x, 1.0)
        power = (2.0 * math.pi) ** (x - 1.0)
        return 2.0 * power * sinpi(0.5 * x) * gamma(1.0 - x) * zeta(1.0 - x, 1.0)
    # Euler and Maclaurin hold here too
    n = 12.0
    y = 0.0
    k = 1.0
    while k < n:
        y += k**-x
        k += 1.0
    power = n**-x
    y += power * n / (x - 1.0) + 0.5 * power
    t = power * x / n
    y += t / 12.0
    t *= (x + 1.0) * (x + 2.0) / (n * n)
    y -= t / 720.0
    t *= (x + 3.0) * (x + 4.0) / (n * n)
    y += t / 30240.0
    t *= (x + 5.0) * (x + 6.0) / (n * n)
    y -= t / 1209600.0
    t *= (x + 7.0) * (x + 8.0) / (n * n)
    y += t / 47900160.0
    t *= (x + 9.0) * (x + 10.0) / (n * n)
    y -= t * 691.0 / 1307674368000.0
    t *= (x + 11.0) * (x + 12.0) / (n * n)
    return y + t / 74724249600.0


def lpmv(m, v, x):
    """Legendre's function of whole order m, of degree v, with the phase of Condon and Shortley:
    upwards in the degree where that is whole, else the hypergeometric series."""
    if m != m or v != v or x != x or abs(x) > 1.0 or m != floor(m):
        return math.nan
    if v < 0.0:
        v = -v - 1.0
    s = 1.0
    if m < 0.0:
        m = -m
        if m > v and v == floor(v):
            return math.nan
        s = (1.0 if m % 2.0 == 0.0 else -1.0) * gamma(v - m + 1.0) / gamma(v + m + 1.0)
    if v == floor(v):
        if m > v:
            return 0.0
        root = math.sqrt((1.0 - x) * (1.0 + x))
        now = 1.0
        k = 1.0
        while k <= m:
            now *= -(2.0 * k - 1.0) * root
            k += 1.0
        last = 0.0
        k = m + 1.0
        while k <= v:
            before = last
            last = now
            now = ((2.0 * k - 1.0) * x * last - (k + m - 1.0) * before) / (k - m)
            k += 1.0
        return s * now
    if x == -1.0:
        return -math.inf if m == 0.0 else math.inf
    c = 1.0
    root = math.sqrt((1.0 - x) * (1.0 + x))
    j = 1.0
    while j <= m:
        c *= -0.5 * root * (v + j) * (v - j + 1.0) / j
        j += 1.0
    y = 1.0
    r = 1.0
    k = 1.0
    while k <= 2000.0:
        r *= 0.5 * (k - 1.0 - v + m) * (v + m + k) / (k * (m + k)) * (1.0 - x)
        y += r
        if k > 12.0 and abs(r) < 1e-17 * abs(y):
            break
        k += 1.0
    return s * c * y


def legendre_normalized(m, n, theta):
    """The factor of spherical harmonics that depends on the polar angle, for m >= 0: normalized
    upwards in the degree, so that nothing overflows."""
    x = math.cos(theta)
    root = math.sin(theta)
    now = 0.28209479177387814  # 1 / sqrt(4 pi)
    k = 1.0
    while k <= m:
        now *= -math.sqrt((2.0 * k + 1.0) / (2.0 * k)) * root
        k += 1.0
    last = 0.0
    k = m + 1.0
    while k <= n:
        a = math.sqrt((4.0 * k * k - 1.0) / (k * k - m * m))
        b = math.sqrt(((k - 1.0) * (k - 1.0) - m * m) / (4.0 * (k - 1.0) * (k - 1.0) - 1.0))
        before = last
        last = now
        now = a * (x * last - b * before)
        k += 1.0
    return now if n >= m else 0.0


def sph_harm_radius(n, m, theta):
    """The real factor of the spherical harmonic of degree n and order m."""
    if n != n or m != m or theta != theta or n != floor(n) or m != floor(m) or n < 0.0:
        return math.nan
    if abs(m) > n:
        return 0.0
    y = legendre_normalized(abs(m), n, theta)
    return -y if m < 0.0 and m % 2.0 == 1.0 else y
