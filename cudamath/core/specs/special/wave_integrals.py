"""Incomplete elliptic integrals, and the integrals of sines and cosines, circular and hyperbolic.

Formulas: DLMF 19.25, 19.36 (B. C. Carlson's symmetric integrals, by duplication), 6.6 and 6.2.
"""

from __future__ import annotations

import math

from .integrals import EULER, ellipe, ellipk, exp1, expi
from .polynomials import horner
from .rounding import floor
from .waves import cos_and_sin

PI_MIDDLE = 1.2246467991473532e-16  # with math.pi and this one pi has 159 bits
PI_LOW = -2.9947698097183397e-33
SMALL_TERM = 1e-17
#: x f(x) and x^2 g(x) from 2 to 5, and from there on: what interpolates them, by mpmath.
WAVE_F_NEAR_P = (
    206703.10018364695,
    5072754.37101974,
    17254562.46785086,
    18590568.0401441,
    8226280.661279868,
    1672094.9338652042,
    162699.33828451944,
    7484.475128561466,
    149.74527949292266,
    0.9999990677211926,
)
WAVE_F_NEAR_Q = (
    1225042.0520709401,
    12533049.857949195,
    29939848.149251193,
    26346689.376698617,
    10240453.848038623,
    1908930.5194335552,
    175285.56144036184,
    7764.066960864257,
    151.74486899221517,
    1.0,
)
WAVE_G_NEAR_P = (
    739008.6668927936,
    43445262.68802193,
    202377455.35271177,
    283972420.86014956,
    163599425.3943084,
    44171931.603542134,
    5930586.731828538,
    401561.03650213557,
    13330.783327060934,
    197.71879068012538,
    0.9999969108565772,
)
WAVE_G_NEAR_Q = (
    36305300.06211743,
    318403735.76826316,
    745301330.6838397,
    692621184.1751088,
    301306474.7487041,
    66481819.69595736,
    7701804.861055966,
    468634.1244296727,
    14433.591419162998,
    203.7171367651422,
    1.0,
)
WAVE_F_FAR_P = (
    674741367999582.0,
    2441542720496229.5,
    1273987089436138.8,
    217990041268118.62,
    15987618674083.646,
    569261068979.4458,
    10451358906.329681,
    100815212.22016314,
    500141.5081693647,
    1172.384030566824,
    1.0,
)
WAVE_F_FAR_Q = (
    1938010928573281.2,
    3662068539199876.5,
    1556948447824428.5,
    242706667468002.88,
    16965830983639.004,
    588423478635.8727,
    10643690311.316782,
    101792679.5558902,
    502466.2762304984,
    1174.384030566824,
    1.0,
)
WAVE_G_FAR_P = (
    1019044075354980.2,
    5146432328833277.0,
    2617661976451374.0,
    415982887462931.9,
    27887999728886.402,
    902500868594.1063,
    15042284092.806965,
    131892441.58439691,
    596278.8396381787,
    1277.8676997436075,
    1.0,
)
WAVE_G_FAR_Q = (
    9494722647604668.0,
    1.2451413208960838e16,
    4166241453737626.5,
    540236390049557.7,
    32403182688812.734,
    983603137225.7458,
    15788127998.9724,
    135366589.7354424,
    603862.0458366405,
    1283.8676997436075,
    1.0,
)


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
    """A part of E1(i x), x > 2, by the auxiliary functions of DLMF 6.2: x f and x^2 g are quotients
    in 1 / x^2."""
    u = 1.0 / (x * x)
    if x < 5.0:
        f = horner(u, WAVE_F_NEAR_P) / horner(u, WAVE_F_NEAR_Q)
        g = horner(u, WAVE_G_NEAR_P) / horner(u, WAVE_G_NEAR_Q)
    else:
        f = horner(u, WAVE_F_FAR_P) / horner(u, WAVE_F_FAR_Q)
        g = horner(u, WAVE_G_FAR_P) / horner(u, WAVE_G_FAR_Q)
    f /= x
    g *= u
    c, s = cos_and_sin(x)
    return -(f * c + g * s) if imaginary else g * c - f * s


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
