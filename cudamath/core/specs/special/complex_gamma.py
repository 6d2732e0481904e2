"""The gamma function of complex numbers x + i y and its relatives; a function returns the real and
the imaginary part.

log gamma: Stirling's series far from 0, Taylor's about 1 and 2, where it is 0, recurrence between,
and reflection left of 0 (D. E. G. Hare, Computing the principal branch of log-gamma, 1997).
"""

from __future__ import annotations

import math

from .gamma_functions import sinpi
from .rounding import floor, modulo

#: Of log gamma(1 + w), by w, without the constant; of Stirling's series and of digamma's, by z^-2;
#: of trigamma's; of digamma's series about its positive root.
TAYLOR = (
    0.023809523809529224,
    -0.024390243902450117,
    0.025000000000022737,
    -0.025641025641072283,
    0.02631578947377995,
    -0.027027027027223673,
    0.027777777778181998,
    -0.02857142857226011,
    0.029411764707594344,
    -0.030303030306558044,
    0.03125000000727597,
    -0.03225806453115042,
    0.03333333336437758,
    -0.034482758684919304,
    0.035714285847333355,
    -0.037037037312989324,
    0.03846153903467518,
    -0.04000000119214014,
    0.04166666915034121,
    -0.04347826605304026,
    0.04545455629320467,
    -0.047619070330142226,
    0.05000004769810169,
    -0.05263167937961666,
    0.055555767627403614,
    -0.058823978658684585,
    0.06250095514121304,
    -0.06666870588242046,
    0.07143294629536133,
    -0.0769325164113522,
    0.083353840546109,
    -0.09095401714582904,
    0.1000994575127818,
    -0.11133426586956469,
    0.12550966952474304,
    -0.1440498967688461,
    0.1695571769974082,
    -0.20738555102867398,
    0.27058080842778454,
    -0.40068563438653143,
    0.8224670334241132,
    -0.5772156649015329,
)
STIRLING = (
    -0.029550653594771242,
    0.00641025641025641,
    -0.0019175269175269176,
    0.0008417508417508417,
    -0.0005952380952380953,
    0.0007936507936507937,
    -0.002777777777777778,
    0.08333333333333333,
)
DIGAMMA = (
    0.4432598039215686,
    -0.08333333333333333,
    0.021092796092796094,
    -0.007575757575757576,
    0.004166666666666667,
    -0.003968253968253968,
    0.008333333333333333,
    -0.08333333333333333,
)
TRIGAMMA = (
    -7.092156862745098,
    1.1666666666666667,
    -0.2531135531135531,
    0.07575757575757576,
    -0.03333333333333333,
    0.023809523809523808,
    -0.03333333333333333,
    0.16666666666666666,
)
DIGAMMA_AT_ROOT = (
    -7.762817668462094e-06,
    1.134638458466385e-05,
    -1.6584242271854135e-05,
    2.424006611860132e-05,
    -3.5430070947659604e-05,
    5.178575795222081e-05,
    -7.569179582195066e-05,
    0.0001106337276874741,
    -0.00016170622091974803,
    0.00023635601564027053,
    -0.0003454680251063077,
    0.000504953265834602,
    -0.0007380709389960052,
    0.0010788252019162967,
    -0.0015769367714301972,
    0.002305126326734928,
    -0.003369801655439328,
    0.004926781395729853,
    -0.007204534386356869,
    0.010538791616612175,
    -0.01542476590494896,
    0.022597648232218104,
    -0.03316112647484736,
    0.04880428816414311,
    -0.07219956125645471,
    0.10782405069126237,
    -0.16394270544240652,
    0.258499760955651,
    -0.4427631689835921,
    0.9676722454476212,
)
ROOT = 1.4616321449683622  # of digamma, with the rest
ROOT_REST = 9.549995429965697e-17
LOG_PI = 1.1447298858494002
HALF_LOG_2PI = 0.9189385332046728
FAR = 7.0  # from 0, in either direction
NEAR = 0.4  # to 1 or 2, or to the root


def complex_product(a, b, c, d):
    return a * c - b * d, a * d + b * c


def complex_polynomial(x, y, coefficients):
    """Horner's rule at x + i y."""
    a = 0.0
    b = 0.0
    for c in coefficients:
        a, b = complex_product(a, b, x, y)
        a += c
    return a, b


def complex_log(x, y):
    """The logarithm's real and imaginary part."""
    large = max(abs(x), abs(y))
    small = min(abs(x), abs(y))
    if large == 0.0:
        return -math.inf, math.atan2(y, x)
    if large < 2.0 and large > 0.5:  # the size may be near 1
        return 0.5 * math.log1p((large - 1.0) * (large + 1.0) + small * small), math.atan2(y, x)
    if large > 1e300:  # the size may overflow
        ratio = small / large
        return math.log(large) + 0.5 * math.log1p(ratio * ratio), math.atan2(y, x)
    return math.log(math.hypot(x, y)), math.atan2(y, x)


def complex_reciprocal(x, y):
    if abs(x) >= abs(y):
        r = y / x
        d = x + y * r
        return 1.0 / d, -r / d
    r = x / y
    d = x * r + y
    return r / d, -1.0 / d


def complex_exp(x, y):
    """Of a finite y; a real number stays real."""
    size = math.exp(x)
    if y == 0.0:
        return size, y
    if size == math.inf:  # a part may be finite all the same
        half = math.exp(0.5 * x)
        return half * (half * math.cos(y)), half * (half * math.sin(y))
    return size * math.cos(y), size * math.sin(y)


def cospi(x):
    """cos(pi x), exact at whole numbers and halves."""
    r = modulo(abs(x), 2.0)
    if r == 0.5 or r == 1.5:
        return 0.0
    if r < 1.0:
        return sinpi(0.5 - r)
    return sinpi(r - 1.5)


def complex_sinpi(x, y):
    """sin(pi z) for |y| below 200."""
    return sinpi(x) * math.cosh(math.pi * y), cospi(x) * math.sinh(math.pi * y)


def is_pole(x, y):
    return y == 0.0 and x <= 0.0 and x == floor(x)


def loggamma_by_stirling(x, y):
    a, b = complex_log(x, y)
    p, q = complex_product(x - 0.5, y, a, b)
    u, v = complex_reciprocal(x, y)
    s, t = complex_product(u, v, u, v)
    s, t = complex_polynomial(s, t, STIRLING)
    s, t = complex_product(s, t, u, v)
    return p - x + HALF_LOG_2PI + s, q - y + t


def loggamma_beside_1(x, y):
    """log gamma(1 + x + i y)."""
    a, b = complex_polynomial(x, y, TAYLOR)
    return complex_product(a, b, x, y)


def loggamma_to_the_right(x, y):
    """log gamma where x is at least 0.1, or |y| above 7."""
    if x > FAR or abs(y) > FAR:
        return loggamma_by_stirling(x, y)
    if math.hypot(x - 1.0, y) <= NEAR:
        return loggamma_beside_1(x - 1.0, y)
    if math.hypot(x - 2.0, y) <= NEAR:
        a, b = complex_log(x - 1.0, y)
        c, d = loggamma_beside_1(x - 2.0, y)
        return a + c, b + d
    s = math.copysign(1.0, y)  # by recurrence, in the upper half
    y = abs(y)
    a = x
    b = y
    turns = 0.0
    below = False
    x += 1.0
    while x <= FAR:
        a, b = complex_product(a, b, x, y)
        if b < 0.0 and not below:
            turns += 1.0
        below = b < 0.0
        x += 1.0
    c, d = loggamma_by_stirling(x, y)
    a, b = complex_log(a, b)
    return c - a, s * (d - b - turns * (2.0 * math.pi))


def complex_loggamma(x, y):
    """The principal branch, which is cut along the negative real axis."""
    if x != x or y != y:
        return math.nan, math.nan
    if is_pole(x, y):
        return math.nan, math.nan
    if x == math.inf and y == 0.0:
        return x, y
    if math.isinf(x) or math.isinf(y):
        return math.nan, math.nan
    if x >= 0.1 or abs(y) > FAR:
        return loggamma_to_the_right(x, y)
    a, b = complex_sinpi(x, y)
    a, b = complex_log(a, b)
    c, d = loggamma_to_the_right(1.0 - x, -y)
    turns = math.copysign(2.0 * math.pi, y) * floor(0.5 * x + 0.25)
    return LOG_PI - a - c, turns - b - d


def complex_digamma(x, y):
    if x != x or y != y or is_pole(x, y):
        return math.nan, math.nan
    if math.hypot(x - ROOT, y) <= NEAR:
        x = (x - ROOT) - ROOT_REST
        a, b = complex_polynomial(x, y, DIGAMMA_AT_ROOT)
        return complex_product(a, b, x, y)
    p = 0.0
    q = 0.0
    if x < 0.0 and abs(y) < 16.0:  # by reflection: -pi cot(pi z)
        if abs(y) < 6.0:
            a, b = complex_sinpi(x, y)
            a, b = complex_reciprocal(a, b)
            c = cospi(x) * math.cosh(math.pi * y)
            d = -sinpi(x) * math.sinh(math.pi * y)
            c, d = complex_product(a, b, c, d)
            p = -math.pi * c
            q = -math.pi * d
        else:  # cot(pi z) is -i or i, but for exp(-2 pi |y|)
            small = 2.0 * math.exp(-2.0 * math.pi * abs(y))
            p = -math.pi * small * sinpi(2.0 * x)
            q = math.copysign(math.pi * (1.0 + small * cospi(2.0 * x)), y)
        x = 1.0 - x
        y = -y
    while math.hypot(x, y) < 16.0:
        u, v = complex_reciprocal(x, y)
        p -= u
        q -= v
        x += 1.0
    a, b = complex_log(x, y)
    u, v = complex_reciprocal(x, y)
    s, t = complex_product(u, v, u, v)
    c, d = complex_polynomial(s, t, DIGAMMA)
    c, d = complex_product(c, d, s, t)
    return p + (a - 0.5 * u + c), q + (b - 0.5 * v + d)


def complex_trigamma(x, y):
    """The derivative of digamma."""
    if x != x or y != y or is_pole(x, y):
        return math.nan, math.nan
    p = 0.0
    q = 0.0
    s = 1.0
    if x < 0.0 and abs(y) < 16.0:  # by reflection: (pi / sin(pi z))^2 less that of 1 - z
        a, b = complex_sinpi(x, y)
        a, b = complex_reciprocal(a, b)
        a, b = complex_product(a, b, a, b)
        p = math.pi * math.pi * a
        q = math.pi * math.pi * b
        x = 1.0 - x
        y = -y
        s = -1.0
    while math.hypot(x, y) < 16.0:
        u, v = complex_reciprocal(x, y)
        u, v = complex_product(u, v, u, v)
        p += s * u
        q += s * v
        x += 1.0
    u, v = complex_reciprocal(x, y)
    a, b = complex_product(u, v, u, v)
    c, d = complex_polynomial(a, b, TRIGAMMA)
    c, d = complex_product(c, d, a, b)
    c, d = complex_product(1.0 + c, d, u, v)
    return p + s * (c + 0.5 * a), q + s * (d + 0.5 * b)


def trigamma_real(x, y):
    a, b = complex_trigamma(x, y)
    return a


def trigamma_imaginary(x, y):
    a, b = complex_trigamma(x, y)
    return b


def loggamma_real(x, y):
    a, b = complex_loggamma(x, y)
    return a


def loggamma_imaginary(x, y):
    a, b = complex_loggamma(x, y)
    return b


def gamma_real(x, y):
    a, b = complex_loggamma(x, y)
    a, b = complex_exp(a, b)
    return a


def gamma_imaginary(x, y):
    a, b = complex_loggamma(x, y)
    a, b = complex_exp(a, b)
    return b


def rgamma_real(x, y):
    if is_pole(x, y):
        return 0.0
    a, b = complex_loggamma(x, y)
    a, b = complex_exp(-a, -b)
    return a


def rgamma_imaginary(x, y):
    if is_pole(x, y):
        return 0.0
    a, b = complex_loggamma(x, y)
    a, b = complex_exp(-a, -b)
    return b


def digamma_real(x, y):
    a, b = complex_digamma(x, y)
    return a


def digamma_imaginary(x, y):
    a, b = complex_digamma(x, y)
    return b
