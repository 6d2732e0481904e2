"""Incomplete elliptic integrals, and the integrals of sines and cosines, circular and hyperbolic.

Formulas: DLMF 19.25, 19.36 (B. C. Carlson's symmetric integrals, by duplication), 6.6 and 6.9.
"""

from __future__ import annotations

import math

from .integrals import EULER, ellipe, ellipk, exp1, expi
from .rounding import floor
from .waves import cos_and_sin

PI_MIDDLE = 1.2246467991473532e-16  # with math.pi and this one pi has 159 bits
PI_LOW = -2.9947698097183397e-33
SMALL_TERM = 1e-17
SHARE = 1.0  # of the terms of a fraction


def carlson_rf(x, y, z):
    """Carlson's symmetric integral of the first kind: DLMF 19.36.1."""
    for _ in range(14):
        a = math.sqrt(x)
        b = math.sqrt(y)
        c = math.sqrt(z)
        root = a * b + b * c + c * a
        x = 0.25 * (x + root)
        y = 0.25 * (y + root)
        z = 0.25 * (z + root)
        mean = (x + y + z) / 3.0
        if max(abs(x - mean), abs(y - mean), abs(z - mean)) < 0.002 * mean:
            break
    mean = (x + y + z) / 3.0
    a = (mean - x) / mean
    b = (mean - y) / mean
    c = -a - b
    e2 = a * b - c * c
    e3 = a * b * c
    rest = -e2 / 10.0 + e3 / 14.0 + e2 * e2 / 24.0 - 3.0 * e2 * e3 / 44.0
    rest += -5.0 * e2 * e2 * e2 / 208.0 + 3.0 * e3 * e3 / 104.0
    return (1.0 + rest) / math.sqrt(mean)


def carlson_rd(x, y, z):
    """Carlson's integral of the second kind, symmetric in x and y: DLMF 19.36.2."""
    total = 0.0
    power = 1.0
    for _ in range(14):
        a = math.sqrt(x)
        b = math.sqrt(y)
        c = math.sqrt(z)
        root = a * b + b * c + c * a
        total += power / (c * (z + root))
        power *= 0.25
        x = 0.25 * (x + root)
        y = 0.25 * (y + root)
        z = 0.25 * (z + root)
        mean = 0.2 * (x + y + 3.0 * z)
        if max(abs(x - mean), abs(y - mean), abs(z - mean)) < 0.0015 * mean:
            break
    mean = 0.2 * (x + y + 3.0 * z)
    a = (mean - x) / mean
    b = (mean - y) / mean
    c = -(a + b) / 3.0
    e2 = a * b - 6.0 * c * c
    e3 = (3.0 * a * b - 8.0 * c * c) * c
    e4 = 3.0 * (a * b - c * c) * c * c
    e5 = a * b * c * c * c
    rest = -3.0 * e2 / 14.0 + e3 / 6.0 + 9.0 * e2 * e2 / 88.0 - 3.0 * e4 / 22.0
    rest += -9.0 * e2 * e3 / 52.0 + 3.0 * e5 / 26.0 - e2 * e2 * e2 / 16.0
    rest += 3.0 * e3 * e3 / 40.0 + 3.0 * e2 * e4 / 20.0
    return 3.0 * total + power * (1.0 + rest) / (mean * math.sqrt(mean))


def without_turns(phi, turns):
    """phi less so many times pi, of which pi is three numbers."""
    return ((phi - turns * math.pi) - turns * PI_MIDDLE) - turns * PI_LOW


def ellipkinc(phi, m):
    """The elliptic integral of the first kind of amplitude phi and parameter m."""
    if phi != phi or m != m or m > 1.0:
        return math.nan
    if math.isinf(phi) or math.isinf(m):
        if math.isinf(phi) and math.isinf(m):
            return math.nan
        return phi if math.isinf(phi) else 0.0
    if m == 0.0:
        return phi
    if m == 1.0 and abs(phi) >= 1.5707963267948966:
        return math.inf
    turns = floor(phi / math.pi + 0.5)
    rest = without_turns(phi, turns)
    s = math.sin(rest)
    c = math.cos(rest)
    d = c * c + (1.0 - m) * s * s if m > 0.5 else 1.0 - m * s * s
    y = s * carlson_rf(c * c, d, 1.0)
    return y + 2.0 * turns * ellipk(m) if turns != 0.0 else y


def ellipeinc(phi, m):
    """The elliptic integral of the second kind: sums of positive numbers, DLMF 19.25.9 and 10."""
    if phi != phi or m != m or m > 1.0:
        return math.nan
    if math.isinf(phi):
        return phi
    if math.isinf(m):
        return -m
    if m == 0.0:
        return phi
    turns = floor(phi / math.pi + 0.5)
    rest = without_turns(phi, turns)
    s = math.sin(rest)
    c = math.cos(rest)
    square = s * s
    d = c * c + (1.0 - m) * square if m > 0.5 else 1.0 - m * square
    if m == 1.0:
        y = s
    elif m < 0.0:
        y = s * (carlson_rf(c * c, d, 1.0) - m * square / 3.0 * carlson_rd(c * c, d, 1.0))
    else:
        y = carlson_rf(c * c, d, 1.0) + m * square / 3.0 * carlson_rd(c * c, 1.0, d)
        y = s * ((1.0 - m) * y + m * c / math.sqrt(d))
    return y + 2.0 * turns * ellipe(m) if turns != 0.0 else y


def even_series(square):
    """The sum of square^k / (2 k (2 k)!) over k = 1, 2, ..."""
    y = 0.0
    r = 1.0
    k = 1.0
    while k < 40.0:
        r *= square / ((2.0 * k - 1.0) * (2.0 * k))
        y += r / (2.0 * k)
        if abs(r) <= SMALL_TERM * abs(y):
            break
        k += 1.0
    return y


def odd_series(square):
    """The sum of square^k / ((2 k + 1) (2 k + 1)!) over k = 0, 1, ..."""
    y = 1.0
    r = 1.0
    k = 1.0
    while k < 40.0:
        r *= square / (2.0 * k * (2.0 * k + 1.0))
        y += r / (2.0 * k + 1.0)
        if abs(r) <= SMALL_TERM * abs(y):
            break
        k += 1.0
    return y


def tail_of_wave(x, imaginary):
    """A part of E1(i x), x > 2: the continued fraction DLMF 6.9.1, from its end."""
    k = floor(SHARE * (24.0 + 240.0 / x))
    re = 0.0
    im = 0.0
    while k > 0.0:
        a = 2.0 * k + 1.0 - re
        b = x - im
        size = k * k / (a * a + b * b)
        re = size * a
        im = -size * b
        k -= 1.0
    a = 1.0 - re
    b = x - im
    size = 1.0 / (a * a + b * b)
    re = size * a
    im = -size * b
    c, s = cos_and_sin(x)
    return im * c - re * s if imaginary else re * c + im * s


def sine_integral(x):
    """The integral of sin(t) / t from 0 to x."""
    if x != x:
        return x
    z = abs(x)
    if z <= 2.0:
        return x * odd_series(-z * z)
    y = 1.5707963267948966
    if z < 1e17:
        y += tail_of_wave(z, True)
    return math.copysign(y, x)


def cosine_integral(x):
    """The integral of cos(t) / t from infinity to |x|."""
    if x != x or x == -math.inf:
        return math.nan
    z = abs(x)
    if z == 0.0:
        return -math.inf
    if z <= 2.0:
        return EULER + math.log(z) + even_series(-z * z)
    if math.isinf(z):
        return 0.0
    return -tail_of_wave(z, False) if z < 1e17 else math.sin(z) / z


def hyperbolic_sine_integral(x):
    """The integral of sinh(t) / t from 0 to x."""
    if x != x:
        return x
    z = abs(x)
    if z <= 2.0:
        return x * odd_series(z * z)
    return math.copysign(0.5 * (expi(z) + exp1(z)), x)


def hyperbolic_cosine_integral(x):
    """The integral of (cosh(t) - 1) / t from 0 to |x|, and Euler's constant and log |x|."""
    if x != x:
        return x
    z = abs(x)
    if z == 0.0:
        return -math.inf
    if z <= 2.0:
        return EULER + math.log(z) + even_series(z * z)
    return 0.5 * (expi(z) - exp1(z))
