"""Exponential and elliptic integrals, and the inverse of x exp(x).

Formulas: DLMF 6.6, 6.10, 8.19, 8.20 and 19.2; elliptic functions by the arithmetic-geometric mean,
DLMF 22.20. Coefficients: Cephes (S. L. Moshier, 1989).
"""

from __future__ import annotations

import math

from .gamma_functions import rgamma
from .polynomials import chebyshev, horner
from .rounding import floor
from .waves import cos_and_sin

EULER = 0.5772156649015329
EPSILON = 1.1102230246251565e-16
ENOUGH = 1e-8  # a relative step of Halley's method, after which the error is about its cube
SHARE = 1.0  # of the terms of a fraction
ROOT = 0.3725074107813666  # of expi
ROOT_LOW = 1.3140183414386028e-17
LOG_ROOT = -0.9874983466453419

ELLIPTIC_P = (
    0.00013798286460627325,
    0.002280257240058756,
    0.007974040132204152,
    0.00985821379021226,
    0.006874896874499499,
    0.006189010336376876,
    0.008790782739527438,
    0.014938044891680526,
    0.0308851465246712,
    0.09657359028116902,
    1.3862943611198906,
)
ELLIPTIC_Q = (
    2.940789550485985e-05,
    0.0009141847238659173,
    0.005940583037531678,
    0.01548505166497624,
    0.023908960271592488,
    0.030120471522760404,
    0.037377431417382326,
    0.04882803475709983,
    0.07031249969639575,
    0.12499999999987083,
    0.5,
)
A2 = (
    -2.0,
    1.0,
)
A3 = (
    6.0,
    -8.0,
    1.0,
)
A4 = (
    -24.0,
    58.0,
    -22.0,
    1.0,
)
A5 = (
    120.0,
    -444.0,
    328.0,
    -52.0,
    1.0,
)
A6 = (
    -720.0,
    3708.0,
    -4400.0,
    1452.0,
    -114.0,
    1.0,
)
A7 = (
    5040.0,
    -33984.0,
    58140.0,
    -32120.0,
    5610.0,
    -240.0,
    1.0,
)
A8 = (
    -40320.0,
    341136.0,
    -785304.0,
    644020.0,
    -195800.0,
    19950.0,
    -494.0,
    1.0,
)
A9 = (
    362880.0,
    -3733920.0,
    11026296.0,
    -12440064.0,
    5765500.0,
    -1062500.0,
    67260.0,
    -1004.0,
    1.0,
)
A10 = (
    -3628800.0,
    44339040.0,
    -162186912.0,
    238904904.0,
    -155357384.0,
    44765000.0,
    -5326160.0,
    218848.0,
    -2026.0,
    1.0,
)
A11 = (
    39916800.0,
    -568356480.0,
    2507481216.0,
    -4642163952.0,
    4002695088.0,
    -1648384304.0,
    314369720.0,
    -25243904.0,
    695038.0,
    -4072.0,
    1.0,
)
A12 = (
    -479001600.0,
    7827719040.0,
    -40788301824.0,
    92199790224.0,
    -101180433024.0,
    56041398784.0,
    -15548960784.0,
    2051482776.0,
    -114876376.0,
    2170626.0,
    -8166.0,
    1.0,
)

#: Chebyshev series of x exp(-x) Ei(x) by 1 / x, between these numbers, by mpmath.
EI_6_12 = (
    1.263390859524918e-18,
    -3.985678032031781e-18,
    -6.96952388785186e-18,
    2.0895115006185691e-16,
    -1.7064640854405607e-15,
    8.22817443438954e-15,
    -1.3060424323093775e-14,
    -1.824894014255641e-13,
    2.0752769575841014e-12,
    -1.1038674953026538e-11,
    1.5005396668585005e-11,
    2.9077513809389464e-10,
    -2.804867660824966e-09,
    9.457713014017885e-09,
    4.3431190977401596e-08,
    -6.410426692376372e-07,
    1.7610424153850599e-06,
    1.860281858277769e-05,
    -0.0001311802094421383,
    -0.0007360917133533506,
    0.004538849615854891,
    0.08867277799156566,
    2.373039463211886,
)
EI_12_24 = (
    -4.34268592032165e-18,
    3.92278471915959e-17,
    -9.567382338710219e-17,
    -8.552327771250706e-16,
    8.569592517547666e-15,
    -1.4921371160913075e-14,
    -2.4843531143767757e-13,
    1.6949183480316525e-12,
    2.91093271006445e-12,
    -7.580298873512545e-11,
    6.636901195446687e-11,
    2.9939580378560676e-09,
    -3.096554001036047e-09,
    -1.3445734356897559e-07,
    -3.589926611838061e-07,
    4.080867437625506e-06,
    6.535142674684368e-05,
    0.0009877354599019657,
    0.028589376984320986,
    2.1466569874520722,
)
EI_24_40 = (
    9.08558921999994e-18,
    9.283580907344198e-17,
    -3.0211351890894364e-16,
    -8.584456014836718e-15,
    -4.3821782845813e-14,
    2.146294667973034e-13,
    6.464966431292195e-12,
    9.700369482003521e-11,
    1.6881286617472551e-09,
    4.319132851564335e-08,
    1.6668011826379824e-06,
    9.825390857210656e-05,
    0.009653981847251856,
    2.0718237291697585,
)

EI_FROM_40 = (
    1.9031122615836413e-18,
    1.0570669943310718e-17,
    6.776097942327009e-17,
    5.180722800738425e-16,
    4.721533478404251e-15,
    5.0886257016631476e-14,
    6.466039306640236e-13,
    9.723024129155511e-12,
    1.747202457794016e-10,
    3.813480680688831e-09,
    1.0363147927429254e-07,
    3.642352053413062e-06,
    0.00017620552371111085,
    0.013173609544194371,
    2.026001892777882,
)


#: 1 - x exp(x) E1(x) from 1 on, as a quotient: what interpolates it at 23 points, by mpmath.
E1_P = (
    1.0,
    47.775039444698876,
    892.7243886268861,
    8453.874974729011,
    44051.605224157065,
    128835.82086512604,
    207901.2021957937,
    176027.16767434595,
    71159.5814234759,
    11508.272794197608,
    495.62830141488496,
)
E1_Q = (
    1.0,
    49.77503944469887,
    986.2744675162976,
    10151.773673086727,
    59512.10671331862,
    205366.9745769325,
    417650.18359135545,
    488774.18776905537,
    312690.97853568225,
    99715.23184782635,
    13343.996738238386,
    503.73166103234223,
)
#: The integral of (1 - exp(-t)) / t up to x, divided by x: DLMF 6.6.4.
EIN = (
    4.326650129802279e-19,
    -8.677337204770125e-18,
    1.6537983849091297e-16,
    -2.9871733327421158e-15,
    5.0981091545465446e-14,
    -8.193389712664089e-13,
    1.2353110643708935e-11,
    -1.7397297489890083e-10,
    2.27746439867652e-09,
    -2.755731922398589e-08,
    3.0619243582206544e-07,
    -3.1001984126984127e-06,
    2.834467120181406e-05,
    -0.0002314814814814815,
    0.0016666666666666668,
    -0.010416666666666666,
    0.05555555555555555,
    -0.25,
    1.0,
)
#: (Ei(x) - log(x / r)) / (x - r) up to 6, where r is the root: by mpmath, at Chebyshev's points.
EI_REST = (
    1.6101956526277473e-20,
    -6.119829061634625e-19,
    1.4025334322604794e-17,
    -1.7903835242158624e-16,
    2.0057927375484807e-15,
    -1.0284422703737582e-14,
    1.260035959461169e-13,
    5.210925556815547e-13,
    1.373421777224031e-11,
    1.7587055268599587e-10,
    2.349853385138184e-09,
    2.8421140321237333e-08,
    3.1679450794766005e-07,
    3.2181917676115877e-06,
    2.954348269536048e-05,
    0.00024248664156307486,
    0.001756994740061535,
    0.011071160227415668,
    0.05967964478631847,
    0.272231109955694,
    1.1014081059037335,
)


def exp1(x):
    """The integral of exp(-t) / t from x on."""
    if x != x or x < 0.0:
        return math.nan
    if x == 0.0:
        return math.inf
    if x <= 1.0:
        return x * exp1_series(x) - EULER - math.log(x)
    return math.exp(-x) * exp1_quotient(x) if x <= 745.0 else 0.0


def exp1_series(x):
    return horner(x, EIN)


def exp1_quotient(x):
    """exp(x) E1(x) from 1 on."""
    return (1.0 - horner(x, E1_P) / horner(x, E1_Q)) / x


def expi(x):
    """The principal value of the integral of exp(t) / t up to x."""
    if x != x:
        return x
    if x == 0.0:
        return -math.inf
    if x < 0.0:
        return -exp1(-x)
    if x <= 6.0:  # the root r is two numbers
        d = (x - ROOT) - ROOT_LOW
        log = math.log1p(d / ROOT) if x > 0.2 and x < 0.6 else math.log(x) - LOG_ROOT
        return log + d * expi_rest(x)
    if math.isinf(x):
        return x
    if x <= 12.0:
        y = chebyshev(48.0 / x - 6.0, EI_6_12)
    elif x <= 24.0:
        y = chebyshev(96.0 / x - 6.0, EI_12_24)
    elif x <= 40.0:
        y = chebyshev(240.0 / x - 8.0, EI_24_40)
    else:
        y = chebyshev(160.0 / x - 2.0, EI_FROM_40)
    return math.exp(x) / x * y


def half_of_expi(x):
    """expi(x) / 2 from 40 on, also where the exponential alone overflows."""
    half = math.exp(0.5 * x)
    return half * (half * (0.5 * chebyshev(160.0 / x - 2.0, EI_FROM_40) / x))


def expi_rest(x):
    """(Ei(x) - log(x / r)) / (x - r) up to 6."""
    return horner(x, EI_REST)


def expn_of_large_order(n, x):
    u = x / n
    m = 1.0 / n / (u + 1.0) / (u + 1.0)
    f = m
    y = 1.0 + f
    f *= m
    y += f * horner(u, A2)
    f *= m
    y += f * horner(u, A3)
    f *= m
    y += f * horner(u, A4)
    f *= m
    y += f * horner(u, A5)
    f *= m
    y += f * horner(u, A6)
    f *= m
    y += f * horner(u, A7)
    f *= m
    y += f * horner(u, A8)
    f *= m
    y += f * horner(u, A9)
    f *= m
    y += f * horner(u, A10)
    f *= m
    y += f * horner(u, A11)
    f *= m
    y += f * horner(u, A12)
    return math.exp(-x) / (u + 1.0) / n * y


def expn(n, x):
    """The integral of exp(-x t) / t^n from 1 on."""
    if n != n or x != x or n < 0.0 or x < 0.0 or floor(n) != n:
        return math.nan
    if x > 709.782712893384:
        return 0.0
    if x == 0.0:
        return math.inf if n < 2.0 else 1.0 / (n - 1.0)
    if n == 0.0:
        return math.exp(-x) / x
    if n > 50.0:
        return expn_of_large_order(n, x)
    if x > 1.0:  # the continued fraction, from its end
        k = floor(SHARE * (20.0 + 100.0 / x))
        t = 0.0
        while k > 0.0:
            t = (n + k - 1.0) * (x + t) / (x + t + k)
            k -= 1.0
        return math.exp(-x) / (x + t)
    psi = -EULER - math.log(x)
    i = 1.0
    while i < n:
        psi += 1.0 / i
        i += 1.0
    z = -x
    k = 0.0
    power = 1.0
    p = 1.0 - n
    y = 0.0 if n == 1.0 else 1.0 / p
    going = True
    while going:
        k += 1.0
        power *= z / k
        p += 1.0
        if p != 0.0:
            y += power / p
        going = y == 0.0 or abs(power / y) > EPSILON
    return z ** (n - 1.0) * psi * rgamma(n) - y


def ellipkm1(p):
    """The complete elliptic integral of the first kind of parameter 1 - p."""
    if p != p or p < 0.0:
        return math.nan
    s = 1.0
    if p > 1.0:
        if math.isinf(p):
            return 0.0
        s = math.sqrt(p)
        p = 1.0 / p
    if p == 0.0:
        return math.inf
    if p > 1.11e-16:
        return (horner(p, ELLIPTIC_P) - math.log(p) * horner(p, ELLIPTIC_Q)) / s
    return (1.3862943611198906 - 0.5 * math.log(p)) / s


def ellipk(m):
    """The complete elliptic integral of the first kind of parameter m."""
    return ellipkm1(1.0 - m)


def ellipe(m):
    """The complete elliptic integral of the second kind of parameter m, by the mean."""
    if m != m or m > 1.0:
        return math.nan
    if m == 1.0:
        return 1.0
    if math.isinf(m):
        return math.inf
    outer = 1.0
    rest = 1.0 - m
    if m < 0.0:
        outer = math.sqrt(rest)
        rest = 1.0 / rest
    if rest < 0.1:
        return outer * ellipe_by_rest(rest)
    a = 1.0
    b = math.sqrt(rest)
    kept = 0.5 + 0.5 * rest  # 1 - m / 2, of which more digits are right than of m
    power = 0.5
    for _ in range(20):
        c = 0.5 * (a - b)
        t = 0.5 * (a + b)
        b = math.sqrt(a * b)
        a = t
        power *= 2.0
        kept -= power * c * c
        if abs(c) <= 1e-9 * a:  # the next one would be its square
            break
    return outer * (math.pi / (2.0 * a) * kept)


def ellipe_by_rest(p):
    """ellipe of 1 - p, a small p: DLMF 19.12.2."""
    log = -0.5 * math.log(p)
    y = 0.0
    power = 0.5 * p
    d = 1.3862943611198906  # 2 log(2)
    m = 0.0
    while m < 16.0:
        y += power * (log + d - 1.0 / ((2.0 * m + 1.0) * (2.0 * m + 2.0)))
        power *= p * ((m + 0.5) * (m + 1.5)) / ((m + 1.0) * (m + 2.0))
        d += 1.0 / (m + 1.0) - 1.0 / (m + 0.5)
        m += 1.0
    return 1.0 + y


def amplitude(u, m):
    """The amplitude of u, 0 <= m <= 1: by the arithmetic-geometric mean down, and back by the
    quotients of cn and sn, and of dn (R. Bulirsch, Numerische Mathematik 7, 1965)."""
    if m >= 0.9999999999:
        b = math.cosh(u)
        rest = 0.25 * (1.0 - m) * (b * math.sinh(u) - u) / b
        return 2.0 * math.atan(math.exp(u)) - 0.5 * math.pi + rest
    if m < 1e-9:
        return u - 0.25 * m * (u - math.sin(u) * math.cos(u))
    if abs(u) < 1e-100:
        return u
    depth = 0
    a = 1.0
    b = math.sqrt(1.0 - m)
    c = math.sqrt(m)
    while c > ENOUGH * a and depth < 8:
        before = a
        a = 0.5 * (before + b)
        b = math.sqrt(before * b)
        c = c * c / (4.0 * a)  # half of the difference, without cancelling
        depth += 1
    mean = a * u
    cos, sin = cos_and_sin(mean)
    ratio = cos / sin
    quotient = a * ratio
    dn = 1.0
    while depth > 0:
        before = a + c  # the step back
        ratio *= quotient
        quotient *= dn
        dn = ((a - c) + ratio) / (before + ratio)
        ratio = quotient / before
        c = 2.0 * math.sqrt(a * c)
        a = before
        depth -= 1
    s = math.copysign(1.0, sin)
    phi = math.atan2(s, s * quotient)
    return phi + 2.0 * math.pi * floor((mean - phi) / (2.0 * math.pi) + 0.5)


def ellipj_ph(u, m):
    """The amplitude of u."""
    if u != u or not m <= 1.0:
        return math.nan
    if m < 0.0:
        s = math.sqrt(1.0 - m)
        phi = amplitude(s * u, -m / (1.0 - m))
        turns = floor(phi / math.pi + 0.5)
        phi -= turns * math.pi
        return math.atan2(math.sin(phi), s * math.cos(phi)) + turns * math.pi
    return amplitude(u, m)


def near_one(m):
    """Whether Jacobi's functions are hyperbolic ones and a term of 1 - m."""
    return m >= 0.9999999999 and m <= 1.0


def ellipj_sn(u, m, phi):
    """sn of u, whose amplitude is phi."""
    if near_one(m):
        b = math.cosh(u)
        return math.tanh(u) + 0.25 * (1.0 - m) * (b * math.sinh(u) - u) / (b * b)
    return math.sin(phi)


def ellipj_cn(u, m, phi):
    if near_one(m):
        b = math.cosh(u)
        return 1.0 / b - 0.25 * (1.0 - m) * math.tanh(u) / b * (b * math.sinh(u) - u)
    return math.cos(phi)


def ellipj_dn(u, m, phi):
    if near_one(m):
        b = math.cosh(u)
        return 1.0 / b + 0.25 * (1.0 - m) * math.tanh(u) / b * (b * math.sinh(u) + u)
    if m > 0.0:  # a sum of positive numbers
        c = math.cos(phi)
        return math.sqrt((1.0 - m) + m * c * c)
    s = math.sin(phi)
    return math.sqrt(1.0 - m * s * s)


def beside_branch(x):
    """sqrt(2 (e x + 1)): how far lambertw is from -1, to first order. 1 / e is two numbers."""
    return math.sqrt(
        max(5.43656365691809 * ((x + 0.36787944117144233) - 1.2428753672788363e-17), 0.0)
    )


def branch_series(p):
    """lambertw by this distance, negative for the lower branch: DLMF 4.13.6."""
    return -1.0 + p * horner(p, BRANCH)


#: Of the series, the highest power first.
BRANCH = (
    226287557 / 37623398400,
    -1963 / 204120,
    680863 / 43545600,
    -221 / 8505,
    769 / 17280,
    -43 / 540,
    11 / 72,
    -1 / 3,
    1.0,
)


def lambertw0(x):
    """The w >= -1 with w exp(w) = x; Halley's method."""
    if x != x or x < -0.36787944117144233:
        return math.nan
    if math.isinf(x) or x == 0.0:
        return x
    if x < -0.32:
        return lambertw_by(beside_branch(x))
    if x < -0.2:
        w = branch_series(beside_branch(x))
    elif x < 3.0:
        w = math.log1p(x) * 0.8
    else:
        w = math.log(x)
        w -= math.log(w)
    return lambertw_from(w, x)


def lambertw_from(w, x):
    """Halley's method."""
    for _ in range(20):
        f = w - x * math.exp(-w)
        step = f / (w + 1.0 - (w + 2.0) * f / (2.0 * w + 2.0))
        w -= step
        if abs(step) <= ENOUGH * abs(w):
            break
    return w


def lambertw_by(p):
    """Of a small distance p from the branch point: Halley's method for u = 1 + w in
    (u - 1) exp(u) = e x = p^2 / 2 - 1. By x itself, digits would be lost where both branches meet.
    """
    w = branch_series(p)
    if abs(p) < 0.02:
        return w
    u = 1.0 + w
    for _ in range(20):
        slope = u * math.exp(u)
        step = (slope - math.expm1(u) - 0.5 * p * p) / slope
        step /= 1.0 - step * (u + 1.0) / (2.0 * u)
        u -= step
        if abs(step) <= ENOUGH * abs(u):
            break
    return u - 1.0


def lambertw_below(x):
    """The w <= -1 with w exp(w) = x, of -1 / e <= x < 0."""
    if x != x or x < -0.36787944117144233 or x > 0.0:
        return math.nan
    if x == 0.0:
        return -math.inf
    if x < -0.32:
        return lambertw_by(-beside_branch(x))
    if x < -0.25:
        w = branch_series(-beside_branch(x))
    else:
        w = math.log(-x)
        w -= math.log(-w)
    return lambertw_from(w, x)
