"""Riemann's zeta function of complex numbers x + i y; a function returns both parts.

Right of 0 the first terms of the sum and Euler and Maclaurin's formula for the others, left of it
the functional equation. The terms are about |y| / 2 in number.
"""

from __future__ import annotations

import math

from .complex_gamma import (
    complex_exp,
    complex_loggamma,
    complex_product,
    complex_reciprocal,
    cospi,
)
from .factorials import riemann_zeta
from .gamma_functions import ZETA, sinpi
from .rounding import floor

#: B_2k / (2 k)!
MACLAURIN = (
    *ZETA,
    3.534707039629467e-21,
    -8.953517427037546e-23,
    2.267952452337683e-24,
    -5.744790668872202e-26,
    1.455172475614865e-27,
    -3.6859949406653103e-29,
    9.336734257095045e-31,
    -2.36502241570063e-32,
    5.990671762482134e-34,
    -1.5174548844682903e-35,
    3.843758125454189e-37,
    -9.736353072646691e-39,
)
LOG_2PI = 1.8378770664093453
LOG_PI = 1.1447298858494002
NEGLIGIBLE = 1e-19


def power_of_whole(n, x, y):
    """n^-(x + i y)."""
    log = math.log(n)
    return complex_exp(-x * log, -y * log)


def zeta_to_the_right(x, y):
    """zeta where x is not negative."""
    n = 20.0 + floor(0.5 * math.hypot(x, y))
    p = 1.0
    q = 0.0
    k = 2.0
    while k < n:
        a, b = power_of_whole(k, x, y)
        p += a
        q += b
        if abs(a) + abs(b) < NEGLIGIBLE and x > 3.0:
            return p, q
        k += 1.0
    a, b = power_of_whole(n, x, y)
    u, v = complex_reciprocal(x - 1.0, y)
    u, v = complex_product(a, b, u, v)
    p += n * u + 0.5 * a
    q += n * v + 0.5 * b
    a, b = complex_product(a, b, x / n, y / n)  # s (s + 1) ... (s + 2 k) n^-(s + 2 k + 1)
    k = 1.0
    for c in MACLAURIN:
        p += c * a
        q += c * b
        a, b = complex_product(a, b, (x + k) / n, y / n)
        a, b = complex_product(a, b, (x + k + 1.0) / n, y / n)
        k += 2.0
    return p, q


def complex_zeta(x, y):
    if x != x or y != y or math.isinf(x) or math.isinf(y):
        return (
            (1.0, 0.0) if x == math.inf and y == y and not math.isinf(y) else (math.nan, math.nan)
        )
    if y == 0.0:
        return riemann_zeta(x), 0.0
    if x >= 0.5 or x >= 0.0 and abs(y) > 30.0:  # beside 0 the sum and the rest would cancel
        return zeta_to_the_right(x, y)
    # 2 (2 pi)^(s - 1) sin(pi s / 2) gamma(1 - s) zeta(1 - s); the sine in units of exp(pi |y| / 2)
    a, b = complex_loggamma(1.0 - x, -y)
    large = 0.5 * math.pi * abs(y)
    p, q = zeta_to_the_right(1.0 - x, -y)
    small = math.exp(-2.0 * large)
    c = sinpi(0.5 * x) * (1.0 + small)
    d = math.copysign(-cospi(0.5 * x) * math.expm1(-2.0 * large), y * cospi(0.5 * x))
    p, q = complex_product(p, q, c, d)
    a += x * LOG_2PI - LOG_PI + large - math.log(2.0)
    b += y * LOG_2PI
    half = math.exp(0.5 * a)  # the whole may overflow where the product does not
    c, d = complex_product(p, q, math.cos(b), math.sin(b))
    return half * (half * c), half * (half * d)


def complex_zeta_real(x, y):
    a, b = complex_zeta(x, y)
    return a


def complex_zeta_imaginary(x, y):
    a, b = complex_zeta(x, y)
    return b
