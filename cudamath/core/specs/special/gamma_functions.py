"""The gamma function and its relatives: logarithm, reciprocal, digamma, zeta, beta.

Coefficients: Cephes (S. L. Moshier, Methods and Programs for Mathematical Functions, 1989) and, of
digamma between 1 and 2, Boost (J. Maddock). Formulas: DLMF, chapters 5 and 25.
"""

from __future__ import annotations

import math

from .pairs import exp_sum, log_ratio, log_sum, plus, quotient, times, two_product, two_sum
from .polynomials import horner
from .rounding import floor, is_even, near, nearest, sign_of_order

EULER = 0.5772156649015329
HALF_LOG_2PI = 0.9189385332046728
LOG_PI = 1.1447298858494002
SQRT_2PI = 2.5066282746310007
TWO_PI = 6.283185307179586
LARGEST = 171.624376956302725  # gamma of more is infinite
EPSILON = 2.220446049250313e-16
TERMS = 9.0  # of zeta's sum, and from where on Euler and Maclaurin's formula goes on

GAMMA_P = (
    0.00016011952247675185,
    0.0011913514700658638,
    0.010421379756176158,
    0.04763678004571372,
    0.20744822764843598,
    0.4942148268014971,
    1.0,
)
GAMMA_Q = (
    -2.3158187332412014e-05,
    0.0005396055804933034,
    -0.004456419138517973,
    0.011813978522206043,
    0.035823639860549865,
    -0.23459179571824335,
    0.0714304917030273,
    1.0,
)
STIRLING = (
    0.0007873113957930937,
    -0.00022954996161337813,
    -0.0026813261780578124,
    0.0034722222160545866,
    0.08333333333334822,
)
LOG_STIRLING = (
    0.0008116141674705085,
    -0.0005950619042843014,
    0.0007936503404577169,
    -0.002777777777300997,
    0.08333333333333319,
)
LOG_P = (
    -1378.2515256912086,
    -38801.631513463784,
    -331612.9927388712,
    -1162370.974927623,
    -1721737.0082083966,
    -853555.6642457654,
)
LOG_Q = (
    1.0,
    -351.81570143652345,
    -17064.210665188115,
    -220528.59055385445,
    -1139334.4436798252,
    -2532523.0717758294,
    -2018891.4143353277,
)
#: sin(pi x) / x by x^2, x from -1/2 to 1/2: Chebyshev interpolation.
SIN_PI = (
    7.697826768224191e-07,
    -2.1903497074626018e-05,
    0.0004662998161898394,
    -0.007370430505916944,
    0.0821458865731029,
    -0.5992645293189447,
    2.5501640398773007,
    -5.167712780049969,
    3.141592653589793,
)
PSI = (
    0.08333333333333333,
    -0.021092796092796094,
    0.007575757575757576,
    -0.004166666666666667,
    0.003968253968253968,
    -0.008333333333333333,
    0.08333333333333333,
)
PSI_P = (
    -0.002071332116774595,
    -0.04525132144873906,
    -0.28919126444774784,
    -0.6503185377089651,
    -0.3255503118680449,
    0.25479851061131553,
)
PSI_Q = (
    -5.578984132167551e-07,
    0.0021284987017821146,
    0.054151797245674226,
    0.43593529692665967,
    1.4606242909763516,
    2.076711702373047,
    1.0,
)
ROOT = -0.504083008264455409  # of digamma, which is 7e-17 there
#: (digamma(ROOT + 2 + z) - digamma(ROOT + 2)) / z by z, |z| < 0.3: what interpolates it, by mpmath.
PSI_BESIDE_ROOT = (
    0.000845439963641276,
    -0.0012647836301821623,
    0.0015688196368649021,
    -0.00234726824153445,
    0.0035633640825827226,
    -0.005333294915935182,
    0.007980947747955163,
    -0.011956595485860304,
    0.017931313719171206,
    -0.02693878004396243,
    0.040595095795466773,
    -0.061506005401532254,
    0.09410557231181113,
    -0.1466662943240164,
    0.23722825947363854,
    -0.4172895303446853,
    0.9381979690834112,
)
#: log gamma(2 + t) by t: (zeta(n) - 1) / n with changing signs, the highest power first.
LOG_NEAR_2 = (
    7.275974480239079e-12,
    -1.5021384080754142e-11,
    3.1044247747322276e-11,
    -6.4229645638381e-11,
    1.330476437424449e-10,
    -2.7595228851242334e-10,
    5.731367241678862e-10,
    -1.1921401405860912e-09,
    2.4836745438024785e-09,
    -5.183475041970047e-09,
    1.0838659214896955e-08,
    -2.2711094608943164e-08,
    4.7698101693639804e-08,
    -1.0043224823968099e-07,
    2.1207184805554665e-07,
    -4.492469198764566e-07,
    9.55141213040742e-07,
    -2.039215753801366e-06,
    4.374866789907488e-06,
    -9.439488275268397e-06,
    2.050721277567069e-05,
    -4.492623673813314e-05,
    9.945751278180853e-05,
    -0.00022315475845357939,
    0.0005096695247430425,
    -0.001192753911703261,
    0.0028905103307415234,
    -0.007385551028673986,
    0.020580808427784546,
    -0.0673523010531981,
    0.3224670334241132,
    0.42278433509846713,
)
#: Of log gamma beyond Stirling's formula, by 1 / x^2: DLMF 5.11.1.
STIRLING_REST = (
    0.17964437236883057,
    -0.029550653594771242,
    0.00641025641025641,
    -0.0019175269175269176,
    0.0008417508417508417,
    -0.0005952380952380953,
    0.0007936507936507937,
    -0.002777777777777778,
    0.08333333333333333,
)
STIRLING_TAIL = STIRLING_REST[:-1]
#: atanh(s) / s - 1, by s^2 < 1/9: Chebyshev interpolation.
ATANH_REST = (
    0.07615631309714492,
    0.03167055425885123,
    0.04971012448277368,
    0.05240199617182637,
    0.05883998883620518,
    0.06666588474569089,
    0.07692310126902081,
    0.09090909043002827,
    0.11111111111665993,
    0.1428571428571097,
    0.20000000000000007,
    0.3333333333333333,
    0.0,
)
#: Of Euler and Maclaurin: Bernoulli numbers B(2 k) by (2 k)!.
ZETA = (
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
)


def sinpi(x):
    """sin(pi x), exact at whole numbers."""
    n = nearest(x)
    r = x - n
    return sign_of_order(n) * (r * horner(r * r, SIN_PI))


def stirling(x):
    """gamma(x) of large x."""
    if x >= LARGEST:
        return math.inf
    w = 1.0 / x
    log, rest = log_sum(x)
    y, yl = two_product(x - 0.5, log)
    high = y - x
    low = (y - high) - x + (yl + (x - 0.5) * rest)
    e = math.exp(high)
    return SQRT_2PI * (e + e * low) * (1.0 + w * horner(w, STIRLING))


def gamma_quotient(x):
    """Two numbers whose quotient is gamma(x), 1 <= x <= 33; or x gamma(x), 0 <= x < 1. The factors
    down to between 2 and 3 are products of several: of x (x + 7) that of eight."""
    z = 1.0
    while x >= 10.0:
        x -= 8.0
        s, sl = two_product(x, x + 7.0)  # without the rest its rounding would count four times
        z *= (s * (s + (6.0 + sl))) * ((s + (10.0 + sl)) * (s + (12.0 + sl)))
    if x >= 6.0:
        x -= 4.0
        s = x * (x + 3.0)
        z *= s * (s + 2.0)
    if x >= 4.0:
        x -= 2.0
        z *= x * (x + 1.0)
    if x >= 3.0:
        x -= 1.0
        z *= x
    d = 1.0
    if x < 2.0:
        d = x if x >= 1.0 else x + 1.0
        x += 1.0 if x >= 1.0 else 2.0
    return z * horner(x - 2.0, GAMMA_P), d * horner(x - 2.0, GAMMA_Q)


def gamma(x):
    if x != x:
        return x
    if x == 0.0:
        return math.copysign(math.inf, x)
    q = abs(x)
    if q > 33.0:
        if x > 0.0:
            return stirling(x)
        wave = sinpi(q)
        return -math.pi / (q * wave * stirling(q)) if abs(wave) > 0.0 else math.nan
    y, d = gamma_quotient(q)
    if x > 0.0:
        return y / (d if q >= 1.0 else d * q)
    wave = sinpi(q)
    if wave == 0.0:
        return math.nan
    return -math.pi * d / ((wave * q if q >= 1.0 else wave) * y)


def gammaln(x):
    """log |gamma(x)|. Beside its zeros 1 and 2 by the series about 2: DLMF 5.7.3."""
    if x != x:
        return x
    if math.isinf(x):
        return x
    if x > 0.5 and x < 2.5:
        if x > 1.5:
            return (x - 2.0) * horner(x - 2.0, LOG_NEAR_2)
        return (x - 1.0) * horner(x - 1.0, LOG_NEAR_2) - math.log1p(x - 1.0)
    reflected = 0.0
    negative = x < -34.0
    if negative:
        q = -x
        if q == floor(q):
            return math.inf
        z = q * abs(sinpi(q))
        if z == 0.0:
            return math.inf
        reflected = LOG_PI - math.log(z)
        x = q
    if x < 13.0:
        z = 1.0
        d = 1.0
        p = 0.0
        u = x
        while u >= 3.0:
            p -= 1.0
            u = x + p
            z *= u
        while u < 2.0:
            if u == 0.0:
                return math.inf
            d *= u
            p += 1.0
            u = x + p
        z = abs(z / d)
        if u == 2.0:
            return math.log(z)
        p -= 2.0
        x = x + p
        return math.log(z) + x * horner(x, LOG_P) / horner(x, LOG_Q)
    y = math.inf
    if x <= 2.556348e305:
        y = (x - 0.5) * math.log(x) - x + HALF_LOG_2PI
        if x <= 1e8:
            p = 1.0 / (x * x)
            if x >= 1000.0:
                p = (7.936507936507937e-4 * p - 2.7777777777777778e-3) * p + 0.08333333333333333
            else:
                p = horner(p, LOG_STIRLING)
            y += p / x
    return reflected - y if negative else y


def gammaln1p(x):
    """log gamma(1 + x) of x > 0: small numbers keep their digits."""
    if x < 0.5:
        return x * horner(x, LOG_NEAR_2) - math.log1p(x)
    return gammaln(1.0 + x) if x > 1.5 else (x - 1.0) * horner(x - 1.0, LOG_NEAR_2)


def log_gamma_ratio(b, a):
    """log(gamma(a + b) / gamma(b)) of a small a, as r and this with a log(r) + this being it:
    relative to a nothing is lost. r is b, raised to where Stirling's formula holds."""
    more = 0.0  # the product of 1 + a / b is 1 + more
    while b < 10.0:
        u = a / b
        more += u + more * u
        b += 1.0
    u = a / b
    y = (a - 0.5) * math.log1p(u) + b * log1p_rest(u) - math.log1p(more)
    v = 1.0 / b
    w = 1.0 / (a + b)
    return b, y - a * v * w * (1.0 / 12.0 + stirling_tail_slope(v, w))


def stirling_tail_slope(v, w):
    """The difference of what stirling_rest of 1 / w and of 1 / v has beside its first term, v / 12,
    by w - v: exact however small that is."""
    z = v * v
    y = w * w
    tail, slope = 0.0, 0.0
    for c in STIRLING_TAIL:  # of the sum at z: its value, and its difference to that at y by y - z
        slope = slope * y + tail
        tail = tail * z + c
    tail += (y - z) * slope  # at w
    return (y + v * w + z) * tail + v * z * (v + w) * slope


def log1p_rest(x):
    """log(1 + x) - x: 2 atanh(s) - x, where s = x / (2 + x) and 2 s - x = -s x."""
    if abs(x) >= 0.5:
        return math.log1p(x) - x
    s = x / (2.0 + x)
    return s * (2.0 * atanh_rest(s * s) - x)


def atanh_rest(square):
    """atanh(s) / s - 1 by the square of s, up to 1/9."""
    return horner(square, ATANH_REST)


def gammasgn(x):
    """The sign of gamma(x)."""
    if x != x or x > 0.0:
        return x if x != x else 1.0
    if x == 0.0:
        return math.copysign(1.0, x)
    if math.isinf(x):
        return math.nan
    whole = floor(x)
    if whole == x:
        return math.nan
    return 1.0 if is_even(whole) else -1.0


def loggamma(x):
    """The principal branch of log gamma(x), which is real from 0 on."""
    return gammaln(x) if x >= 0.0 else math.nan


def rgamma(x):
    """1 / gamma(x)."""
    if x != x or x == 0.0:
        return x
    q = abs(x)
    if q > 33.0:
        if x > 0.0:
            return 1.0 / stirling(x)
        wave = sinpi(q)
        return -(q * wave * stirling(q)) / math.pi if abs(wave) > 0.0 else 0.0
    y, d = gamma_quotient(q)
    if x > 0.0:
        return (d if q >= 1.0 else d * q) / y
    wave = sinpi(q)
    if wave == 0.0:  # 0 without a sign, as SciPy's
        return 0.0
    return -((wave * q if q >= 1.0 else wave) * y) / (math.pi * d)


def digamma(x):
    """The derivative of log gamma."""
    if abs(x) < 1e-20:  # the reciprocal may be infinite
        return -1.0 / x - EULER if x != 0.0 else math.copysign(math.inf, -x)
    if abs(x - ROOT) < 0.3:
        return digamma_beside_root(x)
    y = 0.0
    rest = 0.0
    if x < 0.0:
        r = x - nearest(x)
        if not abs(r) > 0.0:
            return math.nan
        if x > -32.0:  # by recurrence, whose terms cancel less than the reflection's
            while x < 1.0:
                t = -1.0 / x
                u, ul = two_product(t, x)
                y, rest = plus(y, rest, t, ((1.0 + u) + ul) * t)
                x += 1.0
        else:
            y = -math.pi / math.tan(math.pi * r)
            x = 1.0 - x
    if x < 10.0:
        n = 0.0
        d = 1.0  # n / d is the sum of 1 / x
        if rest == 0.0 and x == near(x):
            i = 1.0
            while i < x:
                n = n * i + d
                d *= i
                i += 1.0
            return y + n / d - EULER
        if x < 1.0:
            n = -1.0
            d = x
            x += 1.0
        while x > 2.0:
            x -= 1.0
            n = n * x + d
            d *= x
        y += n / d
    if x <= 2.0:  # times the distance from the root, which is three numbers added up
        g = x - 1.4616321446374059
        g -= 3.309564688275257e-10
        g -= 9.016312093258695e-20
        r = horner(x - 1.0, PSI_P) / horner(x - 1.0, PSI_Q)
        t, tl = two_product(g, 0.99558162689208984)
        tl += g * r
        if rest == 0.0:
            return y + (t + tl)
        y, rest = plus(y, rest, t, tl)
        return y + rest
    if x < 1e17:
        z = 1.0 / (x * x)
        y -= z * horner(z, PSI)
    return y + (math.log(x) - 0.5 / x)


def digamma_beside_root(x):
    """About the root between -1 and 0 the distance from there times a sum of positive numbers: of
    the poles -1 and 0, and of digamma(x + 2)."""
    z = x - ROOT
    p = x * ROOT
    q = (x + 1.0) * (ROOT + 1.0)
    return 7.2897639026297691e-17 + z * ((p + q) / (p * q) + horner(z, PSI_BESIDE_ROOT))


def zeta(x, q):
    """Hurwitz' zeta function, the sum of (q + k)^-x over k = 0, 1, ...; Euler-Maclaurin."""
    if x == 1.0:
        return math.inf
    if x < 1.0:
        return math.nan
    if q <= 0.0:
        if q == floor(q):
            return math.inf
        if x != floor(x):  # q^-x is not real
            return math.nan
    if q > 1e8:
        return (1.0 / (x - 1.0) + 1.0 / (2.0 * q)) * q ** (1.0 - x)
    s = inverse_power(q, x)
    a = q
    i = 0
    b = 0.0
    while i < TERMS or a <= TERMS:
        i += 1
        a += 1.0
        b = inverse_power(a, x)
        s += b
        if abs(b) < EPSILON * abs(s):
            return s
    s += b * a / (x - 1.0)
    s -= 0.5 * b
    w = 1.0 / a
    b *= x * w
    w *= w
    k = 1.0
    for c in ZETA:
        t = b * c
        s += t
        if abs(t) < EPSILON * abs(s):
            return s
        b *= (x + k) * (x + k + 1.0) * w
        k += 2.0
    return s


def inverse_power(a, x):
    """a^-x; of a whole x by products of sums, rounded once."""
    if x > 8.0 or x != floor(x) or not (abs(a) > 1e-4 and abs(a) < 1e4):
        return a**-x
    y = a
    yl = 0.0
    i = 1.0
    while i < x:
        y, yl = times(y, yl, a, 0.0)
        i += 1.0
    y, yl = quotient(1.0, 0.0, y, yl)
    return y


def polygamma(n, x):
    """The n-th derivative of digamma, n = 0, 1, ..."""
    if n != n or n < 0.0 or n != floor(n):
        return math.nan
    if n == 0.0:
        return digamma(x)
    s = -1.0 if is_even(n) else 1.0
    return s * gamma(n + 1.0) * zeta(n + 1.0, x)


def multigammaln(a, d):
    """d (d - 1) / 4 log(pi) and the sum of gammaln(a - j / 2) over j = 0 .. d - 1."""
    y = 0.25 * d * (d - 1.0) * LOG_PI
    j = 0.0
    while j < d:
        y += gammaln(a - 0.5 * j)
        j += 1.0
    return y


def multipolygamma(n, a, d):
    """The sum of polygamma(n, a - j / 2)."""
    y = 0.0
    j = 0.0
    while j < d:
        y += polygamma(n, a - 0.5 * j)
        j += 1.0
    return y


def beta(a, b):
    """gamma(a) gamma(b) / gamma(a + b)."""
    s = 1.0
    if (b <= 0.0 and b == floor(b)) and not (a <= 0.0 and a == floor(a)):
        a, b = b, a
    if a <= 0.0 and a == floor(a):  # infinite but for whole b that make up for it
        if not makes_up(a, b):
            return math.inf
        s = 1.0 if is_even(b) else -1.0
        if b <= 0.0:
            return s * math.inf
        a = 1.0 - a - b
    if in_range(a, b):
        if a == 1.0 or b == 1.0:
            return s / (a * b)
        factor, high, low = beta_parts(a, b, 1.0, 0.0, 1.0, 0.0)
        return s * exp_sum(-high, -low) / factor
    if abs(a) < abs(b):
        a, b = b, a
    y = a + b
    if are_large(a, b):
        s *= gammasgn(b)
        if y > 0.0 or y != floor(y):  # else the result is 0
            s *= gammasgn(a) * gammasgn(y)
        else:
            s *= gammasgn(a)
        y = betaln_of_large(a, b)
        return s * (math.inf if y > 709.782712893384 else math.exp(y))
    return s * beta_of_small(a, b)


def makes_up(a, b):
    """Whether beta is finite for a = 0, -1, ..., or infinite with a sign."""
    return abs(a) < 2147483648.0 and abs(b) < 2147483648.0 and b == floor(b) and 1.0 - a - b > 0.0


def are_large(a, b):
    """Whether a gamma function, of a, b or a + b, overflows; |a| >= |b|."""
    return abs(a) > LARGEST or abs(a + b) > LARGEST


def beta_of_small(a, b):
    """a, b, a + b below LARGEST."""
    y = rgamma(a + b)
    if math.isinf(y):
        return math.inf
    ga = 1.0
    gb = 1.0
    for i in range(2):
        ga = gb
        gb = gamma(b if i == 1 else a)
    if abs(abs(ga * y) - 1.0) > abs(abs(gb * y) - 1.0):  # first what gives a number nearer to 1
        return gb * y * ga
    return ga * y * gb


def betaln_of_large(a, b):
    """log |beta| by logarithms; |a| >= |b|, one of them negative or out of the pairs' range."""
    if abs(a) > 1e6 * abs(b) and a > 1e6:  # the difference of the large ones by a series
        r = gammaln(b)
        r -= b * math.log(a)
        r += b * (1.0 - b) / (2.0 * a)
        r += b * (1.0 - b) * (1.0 - 2.0 * b) / (12.0 * a * a)
        r += -b * b * (1.0 - b) * (1.0 - b) / (12.0 * a * a * a)
        return r
    r = 0.0
    for i in range(3):  # a loop: so the compiler has one copy of the function
        y = gammaln(b if i == 0 else (a + b if i == 1 else a))
        r += -y if i == 1 else y
    return r


def raised(a, al):
    """a + n >= 10 as a sum, n, and a (a + 1) ... (a + n - 1) / (a + n)^n; a > 0."""
    if a >= 10.0:
        return a, al, 0.0, 1.0
    n = 10.0 - floor(a)
    h, hl = plus(a, al, n, 0.0)
    product, rest = a, al
    power, left = h, hl
    i = 1.0
    while i < n:
        t, tl = plus(a, al, i, 0.0)
        product, rest = times(product, rest, t, tl)
        power, left = times(power, left, h, hl)
        i += 1.0
    product, rest = quotient(product, rest, power, left)
    return h, hl, n, product + rest


def stirling_rest(x):
    """log gamma(x) without (x - 1/2) log(x) - x + log(2 pi) / 2, from 10 on."""
    return horner(1.0 / (x * x), STIRLING_REST) / x


def beta_parts(a, b, x, xl, y, yl):
    """x^a y^b / beta(a, b) as a factor and the logarithm of another, a sum: Stirling's formula of
    a, b and a + b, each raised by whole numbers to where it holds. 0 < a, b < 1e30."""
    c, cl = two_sum(a, b)
    factor = 1.0
    root = 1.0 / TWO_PI
    whole = 0.0
    rest = 0.0
    high = 0.0
    low = 0.0
    rc = 0.0
    rcl = 0.0
    for k in range(3):  # a loop: so the compiler has one copy of the functions
        of = c if k == 0 else (a if k == 1 else b)
        r, rl, n, f = raised(of, cl if k == 0 else 0.0)
        e = stirling_rest(r)
        if k == 0:
            rc = r
            rcl = rl
            factor = 1.0 / f
            root /= r
            whole = -n
            rest = e
        else:
            factor *= f
            root *= r
            whole += n
            rest -= e
            u, ul = times(x if k == 1 else y, xl if k == 1 else yl, rc, rcl)
            u, ul = log_ratio(u, ul, r, rl)
            u, ul = times(of, 0.0, u, ul)
            high, low = plus(high, low, u, ul)
    high, low = plus(high, low, whole, rest)
    return factor * math.sqrt(root), high, low


def in_range(a, b):
    """Whether beta_parts takes them."""
    return a > 1e-290 and b > 1e-290 and a < 1e30 and b < 1e30


def betaln(a, b):
    """log |beta(a, b)|."""
    if (b <= 0.0 and b == floor(b)) and not (a <= 0.0 and a == floor(a)):
        a, b = b, a
    if a <= 0.0 and a == floor(a):
        if not makes_up(a, b) or b <= 0.0:
            return math.inf
        a = 1.0 - a - b
    if in_range(a, b):
        if a == 1.0 or b == 1.0:
            return 0.0 - math.log(a * b)  # 0 of ones, not -0
        factor, high, low = beta_parts(a, b, 1.0, 0.0, 1.0, 0.0)
        log, rest = log_ratio(factor, 0.0, 1.0, 0.0)
        high, low = plus(high, low, log, rest)
        return -high - low
    if abs(a) < abs(b):
        a, b = b, a
    if are_large(a, b):
        return betaln_of_large(a, b)
    return math.log(abs(beta_of_small(a, b)))


def rgamma_slope(x):
    """The derivative of 1 / gamma(x), which at its zeros x = -n is (-1)^n n!."""
    if x <= 0.0 and x == floor(x):
        return (1.0 if is_even(x) else -1.0) * gamma(1.0 - x)
    return -digamma(x) * rgamma(x)
