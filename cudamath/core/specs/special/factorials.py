"""Pochhammer's symbol, binomial coefficients, the zeta function of Riemann, and Legendre's
functions."""

from __future__ import annotations

import math

from .gamma_functions import (
    TWO_PI,
    beta,
    betaln,
    gamma,
    gammaln,
    gammasgn,
    raised,
    rgamma,
    sinpi,
    stirling_rest,
    zeta,
)
from .pairs import exp_sum, log_ratio, plus, times, two_sum
from .polynomials import horner
from .rounding import floor, is_even

TWO_PI_LOW = 2.4492935982947064e-16
#: Of t zeta(1 + t): Stieltjes' constants by factorials, the highest power first.
STIELTJES = (
    1.9168201593991233e-22,
    -4.139956737713306e-21,
    4.800850782488065e-20,
    -7.387676660538637e-20,
    -9.544466076366965e-18,
    2.1677312200726828e-16,
    -2.3997862217709992e-15,
    4.4104247417577536e-15,
    3.4921159366720317e-13,
    -6.768689863513697e-12,
    5.658421927608708e-11,
    9.47827778276236e-11,
    -8.733218100273798e-09,
    1.0462094584479188e-07,
    -3.316240908752772e-07,
    -6.6110318108421895e-06,
    9.689041939447084e-05,
    -0.00034230573671722433,
    -0.00484518159643616,
    0.07281584548367673,
    0.5772156649015329,
)


def is_nonpositive_whole(x):
    return x <= 0.0 and x == floor(x) and abs(x) < 1e13


def poch(a, m):
    """gamma(a + m) / gamma(a)."""
    if a > 1e-290 and a < 1e30 and a + m > 0.0 and (m != floor(m) or abs(m) > 20.0):
        h, hl = two_sum(a, m)
        if abs(m) < 1e30 and h > 1e-290:
            return gamma_ratio(h, hl, a, m)
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
    if abs(m) < 1.0 and a > -1e6:
        if a > 0.0 or a + m > 0.0:
            return r * gamma(a + m) * rgamma(a)
        h, hl = two_sum(1.0, -a)  # both by reflection
        return r * gamma_ratio(h, hl, 1.0 - (a + m), m) * sinpi(a) / sinpi(a + m)
    return r * math.exp(gammaln(a + m) - gammaln(a)) * gammasgn(a + m) * gammasgn(a)


def gamma_ratio(h, hl, a, m):
    """gamma(h) / gamma(a) of positive numbers, h = a + m."""
    ra, ral, na, fa = raised(a, 0.0)
    rh, rhl, nh, fh = raised(h, hl)
    u, ul = log_ratio(rh, rhl, ra, ral)
    v, vl = log_ratio(rh, rhl, 1.0, 0.0)
    u, ul = times(u, ul, a, 0.0)
    v, vl = times(v, vl, m, 0.0)
    u, ul = plus(u, ul, v, vl)
    v, vl = plus(ra, ral, -rh, -rhl)
    u, ul = plus(u, ul, v, vl + (stirling_rest(rh) - stirling_rest(ra)))
    root = exp_sum(0.5 * u, 0.5 * ul)  # twice, as exp(u) may overflow alone
    return root * (fa / fh * math.sqrt(ra / rh)) * root


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
            s = 1.0 if is_even(whole) else -1.0
            return num * sinpi(-n) * s
        return num * sinpi(k - n)
    if abs(n) < 160.0 and abs(k) < 160.0 and abs(n - k) < 160.0:
        y = 1.0
        for j in range(3):  # a loop: so the compiler has one copy of the function
            r = rgamma(1.0 + (n if j == 0 else (n - k if j == 1 else k)))
            y = y / r if j == 0 else y * r
        return y
    return 1.0 / (n + 1.0) / beta(1.0 + n - k, 1.0 + k)


def riemann_zeta(x):
    """The sum of k^-x over k = 1, 2, ..., and what continues it below 1: between 0 and 2 the
    series of Stieltjes (DLMF 25.2.4), below 0 the reflection (25.4.1)."""
    if x != x:
        return x
    if x == 1.0:
        return math.inf
    if x >= 2.0:
        return zeta(x, 1.0)
    if x >= 0.0:
        return zeta_times_distance(x - 1.0) / (x - 1.0)
    if x > -1e-20:  # half of x may be zero, and its reciprocal infinite
        return -0.5
    if x == -math.inf:
        return math.nan
    if is_even(x):
        return 0.0
    # 2 (2 pi)^-s gamma(s) sin(pi x / 2) zeta(s), s = 1 - x
    wave = sinpi(0.5 * x)
    if x >= -1.0:
        return (
            2.0
            * (2.0 * math.pi) ** (x - 1.0)
            * wave
            * gamma(1.0 - x)
            * (zeta_times_distance(-x) / -x)
        )
    s, rest = two_sum(1.0, -x)
    if s > 1e6:
        return wave * math.inf
    r, rl, n, factor = raised(s, rest)
    high, low = log_ratio(r, rl, TWO_PI, TWO_PI_LOW)
    high, low = times(high, low, s, rest)
    high, low = plus(high, low, -r, stirling_rest(r) - rl)
    y = 2.0 * math.sqrt(TWO_PI / r) / factor * wave * zeta(s, 1.0)
    if high > 700.0:
        y *= math.exp(350.0)
        high -= 350.0
    return y * exp_sum(high, low)


def zetac(x):
    """riemann_zeta(x) - 1, also where that is small."""
    if x > 1100.0:
        return 0.0
    return zeta(x, 2.0) if x >= 2.0 else riemann_zeta(x) - 1.0


def zeta_times_distance(t):
    """t zeta(1 + t), -1 <= t <= 1."""
    return 1.0 + t * horner(t, STIELTJES)


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
        s = (1.0 if is_even(m) else -1.0) * gamma(v - m + 1.0) / gamma(v + m + 1.0)
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
    # by Euler's transformation (DLMF 15.8.1): terms fall as k^(-m - 1) where x is -1
    c = 1.0
    root = math.sqrt((1.0 - x) / (1.0 + x))
    j = 1.0
    while j <= m:
        c *= -root * (v + j) * (v - j + 1.0) / j
        j += 1.0
    y = 1.0
    r = 1.0
    k = 1.0
    while k <= 2000.0:
        r *= 0.5 * (k - 1.0 - v) * (v + k) / (k * (m + k)) * (1.0 - x)
        y += r
        if k > v and abs(r) <= 1e-17 * abs(y):
            break
        k += 1.0
    return s * c * y


def legendre_normalized(m, n, theta):
    """The factor of spherical harmonics that depends on the polar angle, for m >= 0: normalized
    upwards in the degree, so that nothing overflows."""
    x = math.cos(theta)
    root = math.sin(theta)
    now = 1.0
    square = 0.07957747154594767  # 1 / (4 pi)
    k = 1.0
    while k <= m:
        now *= -root
        square += square * (0.5 / k)
        k += 1.0
    now *= math.sqrt(square)
    last = 0.0
    b = 0.0
    k = m + 1.0
    while k <= n:
        # P(k) = a (x P(k - 1) - P(k - 2) / (the a before)); a = sqrt(above / below)
        above = 4.0 * k * k - 1.0
        below = (k - m) * (k + m)
        root = 1.0 / math.sqrt(above * below)
        before = last
        last = now
        now = above * root * (x * last - b * before)
        b = below * root
        k += 1.0
    return now if n >= m else 0.0


def sph_harm_radius(n, m, theta):
    """The real factor of the spherical harmonic of degree n and order m."""
    if n != n or m != m or theta != theta or n != floor(n) or m != floor(m) or n < 0.0:
        return math.nan
    if abs(m) > n:
        return 0.0
    y = legendre_normalized(abs(m), n, theta)
    return -y if m < 0.0 and not is_even(m) else y
