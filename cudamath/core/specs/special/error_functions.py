"""The error function, the normal distribution, and their inverses.

Coefficients of the inverse: Cephes, ndtri (S. L. Moshier, 1989). Inverses are a rational
approximation and a step of Halley's method, which doubles their digits.
"""

from __future__ import annotations

import math

from .polynomials import horner

SQRT_2 = 1.4142135623730951
SQRT_HALF = 0.7071067811865476
TWO_OVER_SQRT_PI = 1.1283791670955126
INV_SQRT_PI = 0.5641895835477563
SQRT_2PI = 2.5066282746310007

MIDDLE_P = (
    -59.96335010141079,
    98.00107541859997,
    -56.67628574690703,
    13.931260938727968,
    -1.2391658386738125,
)
MIDDLE_Q = (
    1.0,
    1.9544885833814176,
    4.676279128988815,
    86.36024213908905,
    -225.46268785411937,
    200.26021238006066,
    -82.03722561683334,
    15.90562251262117,
    -1.1833162112133,
)
TAIL_P = (
    4.0554489230596245,
    31.525109459989388,
    57.16281922464213,
    44.08050738932008,
    14.684956192885803,
    2.1866330685079025,
    -0.1402560791713545,
    -0.03504246268278482,
    -0.0008574567851546854,
)
TAIL_Q = (
    1.0,
    15.779988325646675,
    45.39076351288792,
    41.3172038254672,
    15.04253856929075,
    2.504649462083094,
    -0.14218292285478779,
    -0.03808064076915783,
    -0.0009332594808954574,
)
FAR_P = (
    3.2377489177694603,
    6.915228890689842,
    3.9388102529247444,
    1.3330346081580755,
    0.20148538954917908,
    0.012371663481782003,
    0.00030158155350823543,
    2.6580697468673755e-06,
    6.239745391849833e-09,
)
FAR_Q = (
    1.0,
    6.02427039364742,
    3.6798356385616087,
    1.3770209948908132,
    0.21623699359449663,
    0.013420400608854318,
    0.00032801446468212774,
    2.8924786474538068e-06,
    6.790194080099813e-09,
)


def erf(x):
    return math.erf(x)


def erfc(x):
    return math.erfc(x)


def square_rest(x, square):
    """x^2 - square, where square is x^2 rounded: what the rounding lost."""
    t = 134217729.0 * x
    high = t - (t - x)
    low = x - high
    return ((high * high - square) + 2.0 * high * low) + low * low


def erfcx(x):
    """exp(x^2) erfc(x); beyond 25 the asymptotic series, whose terms fall by 800 each."""
    if x < -26.628735713751488:
        return math.inf
    if x < 25.0:
        square = x * x
        y = math.exp(square) * math.erfc(x)
        return y + y * square_rest(x, square)
    if x > 1e8:
        return INV_SQRT_PI / x
    u = 0.5 / (x * x)
    s = 1.0 - 9.0 * u * (1.0 - 11.0 * u * (1.0 - 13.0 * u))
    s = 1.0 - u * (1.0 - 3.0 * u * (1.0 - 5.0 * u * (1.0 - 7.0 * u * s)))
    return INV_SQRT_PI / x * s


def ndtri(y):
    """The number below which a standard normal one lies with probability y."""
    if y == 0.0:
        return -math.inf
    if y == 1.0:
        return math.inf
    if not (y > 0.0 and y < 1.0):
        return math.nan
    upper = y > 1.0 - 0.1353352832366127  # exp(-2)
    if upper:
        y = 1.0 - y
    if y > 0.1353352832366127:
        y -= 0.5
        square = y * y
        x = y + y * (square * horner(square, MIDDLE_P) / horner(square, MIDDLE_Q))
        return x * SQRT_2PI
    x = normal_tail(y)
    return x if upper else -x


def normal_tail(p):
    """The number that a standard normal one exceeds with probability p <= exp(-2)."""
    x = math.sqrt(-2.0 * math.log(p))
    z = 1.0 / x
    if x < 8.0:
        r = z * horner(z, TAIL_P) / horner(z, TAIL_Q)
    else:
        r = z * horner(z, FAR_P) / horner(z, FAR_Q)
    return x - math.log(x) / x - r


def erfinv(y):
    if y == 1.0 or y == -1.0:
        return y * math.inf
    if not (y > -1.0 and y < 1.0):
        return math.nan
    a = abs(y)
    if a > 0.5:
        return math.copysign(erfcinv_small(1.0 - a), y)
    if a < 1e-8:
        return y * 0.886226925452758
    half = 0.5 * y
    square = half * half
    x = (
        SQRT_2PI
        * SQRT_HALF
        * (half + half * (square * horner(square, MIDDLE_P) / horner(square, MIDDLE_Q)))
    )
    e = (math.erf(x) - y) / (TWO_OVER_SQRT_PI * math.exp(-x * x))
    return x - e / (1.0 + x * e)


def erfcinv(y):
    if y == 0.0:
        return math.inf
    if y == 2.0:
        return -math.inf
    if not (y > 0.0 and y < 2.0):
        return math.nan
    if y < 0.5:
        return erfcinv_small(y)
    if y > 1.5:
        return -erfcinv_small(2.0 - y)
    return erfinv(1.0 - y)


def erfcinv_small(p):
    """erfcinv of p <= 1/2."""
    half = 0.5 * p
    if half > 0.1353352832366127:
        t = half - 0.5
        square = t * t
        x = (
            -SQRT_2PI
            * SQRT_HALF
            * (t + t * (square * horner(square, MIDDLE_P) / horner(square, MIDDLE_Q)))
        )
    else:
        x = normal_tail(half) * SQRT_HALF
    if p < 1e-300:
        return x
    # (erfc(x) - p) by its derivative, which is -2 exp(-x^2) / sqrt(pi)
    square = x * x
    e = (p - math.erfc(x)) / (TWO_OVER_SQRT_PI * math.exp(-square))
    return x - e / (1.0 + x * e)


def ndtr(x):
    """The probability that a standard normal number is below x."""
    t = x * SQRT_HALF
    if abs(t) < 1.0:
        return 0.5 + 0.5 * math.erf(t)
    y = upper_tail(abs(x))
    return 1.0 - y if t > 0.0 else y


def upper_tail(x):
    """The probability that a standard normal number is above x >= 0. In erfc(x / sqrt(2)) the
    rounding of the quotient would cost digits."""
    if x > 40.0:
        return 0.0
    square = x * x
    bell = math.exp(-0.5 * square)
    return 0.5 * erfcx(x * SQRT_HALF) * (bell - bell * (0.5 * square_rest(x, square)))


def log_ndtr(x):
    t = x * SQRT_HALF
    if x < -1.0:
        return math.log(0.5 * erfcx(-t)) - 0.5 * (x * x)
    if x > 1.0:
        return math.log1p(-upper_tail(x))
    return math.log1p(-0.5 * math.erfc(t))


def ndtr_mills(x):
    """The density of a standard normal number divided by the probability that it is below x: the
    derivative of log_ndtr."""
    t = x * SQRT_HALF
    if x < 0.0:
        return 0.7978845608028654 / erfcx(-t)
    return math.exp(-t * t) / SQRT_2PI / (1.0 - 0.5 * math.erfc(t))
