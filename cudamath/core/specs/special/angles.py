"""Sine, cosine and tangent of degrees, exact at multiples of 45, and cos(x) - 1.

Coefficients: Cephes, sindg (S. L. Moshier, 1989).
"""

from __future__ import annotations

import math

from .polynomials import horner
from .rounding import floor, is_even, modulo

DEGREE = 0.017453292519943295

SINE = (
    1.5896230157221844e-10,
    -2.5050747762850355e-08,
    2.7557313621385676e-06,
    -0.0001984126982958954,
    0.008333333333322118,
    -0.1666666666666663,
)
COSINE = (
    1.1367817138204455e-11,
    -2.0875883375768363e-09,
    2.7557315542981663e-07,
    -2.480158729361863e-05,
    0.0013888888888880667,
    -0.04166666666666664,
    0.5,
)
COSM1 = (
    4.737750796424621e-14,
    -1.147028484342536e-11,
    2.087675428708152e-09,
    -2.755731921499979e-07,
    2.480158730157055e-05,
    -0.0013888888888888872,
    0.041666666666666664,
)


def sine_in_octant(x, shift):
    """sin of x >= 0 degrees, or of x + 90: shift counts octants."""
    y = floor(x / 45.0)
    if not is_even(y):
        y += 1.0
    z = (x - y * 45.0) * DEGREE
    square = z * z
    octant = modulo(y + shift, 8.0)
    s = 1.0
    if octant > 3.0:
        s = -1.0
        octant -= 4.0
    if octant == 2.0:
        return s * (1.0 - square * horner(square, COSINE))
    return s * (z + z * (square * horner(square, SINE)))


def sindg(x):
    """sin of degrees."""
    if x != x:
        return x
    if abs(x) > 1e14:
        return 0.0
    y = sine_in_octant(abs(x), 0.0)
    return -y if math.copysign(1.0, x) < 0.0 else y


def cosdg(x):
    """cos of degrees."""
    if x != x:
        return x
    if abs(x) > 1e14:
        return 0.0
    return sine_in_octant(abs(x), 2.0)


def tangent(x, of_rest):
    """tan of degrees; of_rest: of what is left to 90, the cotangent."""
    if x != x:
        return x
    s = math.copysign(1.0, x)
    x = abs(x)
    if x > 1e14:
        return 0.0
    x -= 180.0 * floor(x / 180.0)
    if of_rest:
        if x <= 90.0:
            x = 90.0 - x
        else:
            x -= 90.0
            s = -s
    elif x > 90.0:
        x = 180.0 - x
        s = -s
    if x == 0.0:
        return 0.0
    if x == 45.0:
        return s
    if x == 90.0:
        return math.inf
    return s * math.tan(x * DEGREE)


def tandg(x):
    """tan of degrees."""
    return tangent(x, False)


def cotdg(x):
    """cot of degrees."""
    return tangent(x, True)


def radian(d, m, s):
    """Degrees, minutes and seconds in radians."""
    return ((d * 60.0 + m) * 60.0 + s) * 4.848136811095359936e-6


def cosm1(x):
    """cos(x) - 1."""
    if abs(x) > 0.7853981633974483:
        return math.cos(x) - 1.0
    square = x * x
    return -0.5 * square + square * square * horner(square, COSM1)
