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
)
from .pairs import exp_sum, log_ratio, plus, times, two_sum
from .polynomials import horner
from .powers import exp2
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

#: Recurrences go no further: of larger orders what is neither 0 nor infinite is NaN.
LARGEST_ORDER = 1e7
#: Of 2^x (zeta(x) - 1) between these numbers, which are t = -1 and 1: Chebyshev interpolation by
#: mpmath.
ZETAC_2_5 = (
    1.8087545367633255e-07,
    -3.014590894605543e-07,
    -1.261103857576652e-06,
    2.1018397626277534e-06,
    4.432844259002836e-06,
    -7.388073765004726e-06,
    -9.54703800915513e-06,
    1.591173001525855e-05,
    1.4703096338990753e-05,
    -2.450516056498459e-05,
    -1.5536096782249436e-05,
    2.5893494637082396e-05,
    1.4645894315046622e-05,
    -2.4409823858411037e-05,
    -4.6035746718623325e-06,
    7.672624453103887e-06,
    1.460339001921708e-05,
    -2.43389833653618e-05,
    2.773173588192264e-05,
    -4.62195598032044e-05,
    8.16791162973054e-05,
    -0.00013613186049550913,
    0.0002255965732128743,
    -0.00037599428868810976,
    0.0006269278593697318,
    -0.0010448797656118548,
    0.0017414242276347204,
    -0.002902373713635951,
    0.004837294220470429,
    -0.008062157061719097,
    0.013436926554754095,
    -0.02239485430729527,
    0.03732468821281274,
    -0.06221004422413182,
    0.10371514620036612,
    -0.17290893280913242,
    0.28484715122831594,
    -0.4289131000002457,
    1.4338300317741908,
)
ZETAC_5_12 = (
    -4.005366888300291e-10,
    8.582929046357779e-10,
    1.164826084862839e-09,
    -2.4960558961347803e-09,
    -4.789893730005729e-09,
    1.0264057992862661e-08,
    -1.6546562550622368e-09,
    3.545691975651531e-09,
    -3.4587199984670115e-08,
    7.411542856743064e-08,
    -1.3388067282128784e-07,
    2.8688715428128566e-07,
    -6.312103907510323e-07,
    1.3525936125589554e-06,
    -2.890597616330042e-06,
    6.194142603660384e-06,
    -1.3275867927303943e-05,
    2.844842847513117e-05,
    -6.095976512193743e-05,
    0.00013061812940492337,
    -0.0002798363288731455,
    0.000599553487669296,
    -0.001286129655526803,
    0.0027689995740711555,
    -0.005980869136939148,
    0.012748277371521267,
    -0.025485458764642175,
    0.0433861342751823,
    -0.053748595643864916,
    1.0351593922916915,
)
ZETAC_12_30 = (
    9.599820969559187e-11,
    -2.1332916586871496e-10,
    -2.2192406157668624e-10,
    4.931723119673378e-10,
    1.1660033194549366e-09,
    -2.5911330300847512e-09,
    1.4084756755204593e-09,
    -3.1317234998339773e-09,
    1.2468271214711073e-08,
    -2.7719839105795025e-08,
    5.677413836500362e-08,
    -1.2593549277808468e-07,
    2.8165909997175766e-07,
    -6.220941434921014e-07,
    1.3741826789337748e-06,
    -3.0605299877223978e-06,
    6.9166134748746525e-06,
    -1.590394019061945e-05,
    3.690503681088941e-05,
    -8.46138140272973e-05,
    0.00018606644642431316,
    -0.0003800327869972735,
    0.0006986389878963506,
    -0.0011201633631067963,
    0.001512324280502595,
    -0.0016434757382322788,
    0.0013443231827759887,
    -0.0007346217960865439,
    1.0002009671080219,
)
ZETAC_30_96 = (
    -1.1397925486904675e-09,
    2.149689306986156e-09,
    4.982897379457417e-09,
    -9.08428555756319e-09,
    -1.6148571034765025e-08,
    3.003406661000609e-08,
    1.5387077032336884e-08,
    -2.8098131296998388e-08,
    -5.0691521134484835e-08,
    9.004787312246653e-08,
    -5.165949257849787e-08,
    7.577051640467149e-08,
    -1.787748609105888e-07,
    2.584628678156505e-07,
    -3.154167052919967e-07,
    3.981297480138222e-07,
    -4.875296114510147e-07,
    5.475080095000664e-07,
    -5.699457159383972e-07,
    5.534929388917667e-07,
    -4.969072381360154e-07,
    4.0854940889095707e-07,
    -3.052738356836825e-07,
    2.053310582166987e-07,
    -1.2277026241738584e-07,
    6.4228192058292e-08,
    -2.8800932735661597e-08,
    1.0762389260871813e-08,
    -3.2173755035877786e-09,
    7.21365957890862e-10,
    -1.0782466465183656e-10,
    1.0000000000080584,
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
    return binom_by_beta(n, k)


def binom_by_beta(n, k):
    return 1.0 / (n + 1.0) / beta(1.0 + n - k, 1.0 + k)


def riemann_zeta(x):
    """The sum of k^-x over k = 1, 2, ..., and what continues it below 1: between 0 and 2 the
    series of Stieltjes (DLMF 25.2.4), below 0 the reflection (25.4.1)."""
    if x != x:
        return x
    if x == 1.0:
        return math.inf
    if x >= 2.0:
        return 1.0 + zetac_from_2(x)
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
    y = 2.0 * math.sqrt(TWO_PI / r) / factor * wave * (1.0 + zetac_from_2(s))
    if high > 700.0:
        y *= math.exp(350.0)
        high -= 350.0
    return y * exp_sum(high, low)


def zetac(x):
    """riemann_zeta(x) - 1, also where that is small."""
    return zetac_from_2(x) if x >= 2.0 else riemann_zeta(x) - 1.0


def zetac_from_2(x):
    """By 2^-x: what it is multiplied by goes to 1."""
    if x < 5.0:
        y = horner((x - 3.5) * 0.6666666666666667, ZETAC_2_5)
    elif x < 12.0:
        y = horner((x - 8.5) * 0.2857142857142857, ZETAC_5_12)
    elif x < 30.0:
        y = horner((x - 21.0) * 0.1111111111111111, ZETAC_12_30)
    else:
        y = horner((min(x, 96.0) - 63.0) * 0.030303030303030304, ZETAC_30_96)
    return exp2(-x) * y


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
    if abs(m) > LARGEST_ORDER or v > LARGEST_ORDER:
        return math.nan
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
