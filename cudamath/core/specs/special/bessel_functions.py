"""Bessel functions of whole orders: J, Y, I, K, and the spherical ones.

Near 0 rational functions or Chebyshev series, beyond 5 (I: 8, K: 2) asymptotic forms with rational
or Chebyshev corrections. Coefficients: Cephes (S. L. Moshier, 1989). Higher orders by recurrence:
DLMF 10.6 and 10.51. Wright's function: DLMF 10.46, or the integral of Hankel's for 1 / gamma.
"""

from __future__ import annotations

import math

from .factorials import LARGEST_ORDER, poch
from .gamma_functions import rgamma
from .pairs import exp_sum, log_ratio, plus, quotient, times, two_sum
from .polynomials import chebyshev, horner
from .powers import inverse_root
from .rounding import floor, is_even
from .waves import cos_and_sin

#: From here on 1 / gamma is 0: SciPy's limit of wright_bessel's parameters.
LARGEST_WRIGHT = 178.47241115886637
TWO_TO_800 = 2.0**800
SMALL_TERM = 1e-18  # of a sum
SMALL_LOG = 41.0  # the exponential of minus that is such a term

TWO_OVER_PI = 0.6366197723675814
SQRT_TWO_OVER_PI = 0.7978845608028654
SQRT_INV_PI = 0.5641895835477563
SQRT_HALF = 0.7071067811865476

J0_PP = (
    0.0007969367292973471,
    0.08283523921074408,
    1.239533716464143,
    5.447250030587687,
    8.74716500199817,
    5.303240382353949,
    1.0,
)
J0_PQ = (
    0.0009244088105588637,
    0.08562884743544745,
    1.2535274390105895,
    5.470977403304171,
    8.761908832370695,
    5.306052882353947,
    1.0,
)
J0_QP = (
    -0.011366383889846916,
    -1.2825271867050931,
    -19.553954425773597,
    -93.20601521237683,
    -177.68116798048806,
    -147.07750515495118,
    -51.41053267665993,
    -6.050143506007285,
)
J0_QQ = (
    1.0,
    64.3178256118178,
    856.4300259769806,
    3882.4018360540163,
    7240.467741956525,
    5930.727011873169,
    2062.0933166032783,
    242.0057402402914,
)
Y0_P = (
    15592.436785523574,
    -14663929.59039716,
    5435264770.518765,
    -982136065717.9115,
    87590639439536.7,
    -3466283033847297.0,
    4.4273326857256984e16,
    -1.8495080043698668e16,
)
Y0_Q = (
    1.0,
    1041.2835366425984,
    626107.330137135,
    268919633.39381415,
    86400248710.3935,
    20297961275010.555,
    3171577528429750.5,
    2.5059625617265306e17,
)
J0_P = (-4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0)
J0_Q = (
    1.0,
    499.563147152651,
    173785.4016763747,
    48440965.83399621,
    11185553704.535683,
    2112775201154.892,
    310518229857422.56,
    3.1812195594320496e16,
    1.7108629408104315e18,
)
J1_P = (-899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0)
J1_Q = (
    1.0,
    620.8364781180543,
    256987.25675774884,
    83514679.14319493,
    22151159547.97925,
    4749141220799.914,
    784369607876235.9,
    8.952223361846274e16,
    5.322786203326801e18,
)
J1_PP = (
    0.0007621256162081731,
    0.07313970569409176,
    1.1271960812968493,
    5.112079511468076,
    8.424045901417724,
    5.214515986823615,
    1.0,
)
J1_PQ = (
    0.0005713231280725487,
    0.06884559087544954,
    1.105142326340617,
    5.073863861286015,
    8.399855543276042,
    5.209828486823619,
    1.0,
)
J1_QP = (
    0.05108625947501766,
    4.982138729512334,
    75.82382841325453,
    366.7796093601508,
    710.8563049989261,
    597.4896124006136,
    211.68875710057213,
    25.207020585802372,
)
J1_QQ = (
    1.0,
    74.23732770356752,
    1056.4488603826283,
    4986.410583376536,
    9562.318924047562,
    7997.041604473507,
    2826.1927851763908,
    336.0936078106983,
)
Y1_P = (
    1263204747.9017804,
    -647355876379.1603,
    114509511541823.73,
    -8127702555013251.0,
    2.024394757135949e17,
    -7.788771962659501e17,
)
Y1_Q = (
    1.0,
    594.3015923461282,
    235564.09294306856,
    73481194.44597217,
    18760131610.870617,
    3882312774962.3857,
    620557727146953.8,
    6.871410873553005e16,
    3.9727060811656064e18,
)
I0_NEAR = (
    -4.4153416464793395e-18,
    3.3307945188222384e-17,
    -2.431279846547955e-16,
    1.715391285555133e-15,
    -1.1685332877993451e-14,
    7.676185498604936e-14,
    -4.856446783111929e-13,
    2.95505266312964e-12,
    -1.726826291441556e-11,
    9.675809035373237e-11,
    -5.189795601635263e-10,
    2.6598237246823866e-09,
    -1.300025009986248e-08,
    6.046995022541919e-08,
    -2.670793853940612e-07,
    1.1173875391201037e-06,
    -4.4167383584587505e-06,
    1.6448448070728896e-05,
    -5.754195010082104e-05,
    0.00018850288509584165,
    -0.0005763755745385824,
    0.0016394756169413357,
    -0.004324309995050576,
    0.010546460394594998,
    -0.02373741480589947,
    0.04930528423967071,
    -0.09490109704804764,
    0.17162090152220877,
    -0.3046826723431984,
    0.6767952744094761,
)
I0_FAR = (
    -7.233180487874754e-18,
    -4.830504485944182e-18,
    4.46562142029676e-17,
    3.461222867697461e-17,
    -2.8276239805165836e-16,
    -3.425485619677219e-16,
    1.7725601330565263e-15,
    3.8116806693526224e-15,
    -9.554846698828307e-15,
    -4.150569347287222e-14,
    1.54008621752141e-14,
    3.8527783827421426e-13,
    7.180124451383666e-13,
    -1.7941785315068062e-12,
    -1.3215811840447713e-11,
    -3.1499165279632416e-11,
    1.1889147107846439e-11,
    4.94060238822497e-10,
    3.3962320257083865e-09,
    2.266668990498178e-08,
    2.0489185894690638e-07,
    2.8913705208347567e-06,
    6.889758346916825e-05,
    0.0033691164782556943,
    0.8044904110141088,
)
I1_NEAR = (
    2.7779141127610464e-18,
    -2.111421214358166e-17,
    1.5536319577362005e-16,
    -1.1055969477353862e-15,
    7.600684294735408e-15,
    -5.042185504727912e-14,
    3.223793365945575e-13,
    -1.9839743977649436e-12,
    1.1736186298890901e-11,
    -6.663489723502027e-11,
    3.625590281552117e-10,
    -1.8872497517228294e-09,
    9.381537386495773e-09,
    -4.445059128796328e-08,
    2.0032947535521353e-07,
    -8.568720264695455e-07,
    3.4702513081376785e-06,
    -1.3273163656039436e-05,
    4.781565107550054e-05,
    -0.00016176081582589674,
    0.0005122859561685758,
    -0.0015135724506312532,
    0.004156422944312888,
    -0.010564084894626197,
    0.024726449030626516,
    -0.05294598120809499,
    0.1026436586898471,
    -0.17641651835783406,
    0.25258718644363365,
)
I1_FAR = (
    7.517296310842105e-18,
    4.414348323071708e-18,
    -4.6503053684893586e-17,
    -3.209525921993424e-17,
    2.96262899764595e-16,
    3.3082023109209285e-16,
    -1.8803547755107825e-15,
    -3.8144030724370075e-15,
    1.0420276984128802e-14,
    4.272440016711951e-14,
    -2.1015418427726643e-14,
    -4.0835511110921974e-13,
    -7.198551776245908e-13,
    2.0356285441470896e-12,
    1.4125807436613782e-11,
    3.2526035830154884e-11,
    -1.8974958123505413e-11,
    -5.589743462196584e-10,
    -3.835380385964237e-09,
    -2.6314688468895196e-08,
    -2.512236237870209e-07,
    -3.882564808877691e-06,
    -0.00011058893876262371,
    -0.009761097491361469,
    0.7785762350182801,
)
K0_NEAR = (
    1.374465435613523e-16,
    4.25981614279661e-14,
    1.0349695257633842e-11,
    1.904516377220209e-09,
    2.5347910790261494e-07,
    2.286212103119452e-05,
    0.001264615411446926,
    0.0359799365153615,
    0.3442898999246285,
    -0.5353273932339028,
)
K0_FAR = (
    5.300433772686263e-18,
    -1.6475804301524212e-17,
    5.2103915050390274e-17,
    -1.678231096805412e-16,
    5.512055978524319e-16,
    -1.848593377343779e-15,
    6.3400764774050706e-15,
    -2.2275133269916698e-14,
    8.032890775363575e-14,
    -2.9800969231727303e-13,
    1.140340588208475e-12,
    -4.514597883373944e-12,
    1.8559491149547177e-11,
    -7.957489244477107e-11,
    3.577397281400301e-10,
    -1.69753450938906e-09,
    8.574034017414225e-09,
    -4.660489897687948e-08,
    2.766813639445015e-07,
    -1.8317555227191195e-06,
    1.39498137188765e-05,
    -0.00012849549581627802,
    0.0015698838857300533,
    -0.0314481013119645,
    2.4403030820659555,
)
K1_NEAR = (
    -7.023863479386288e-18,
    -2.427449850519366e-15,
    -6.666901694199329e-13,
    -1.4114883926335278e-10,
    -2.213387630734726e-08,
    -2.4334061415659684e-06,
    -0.0001730288957513052,
    -0.006975723859639864,
    -0.12261118082265715,
    -0.3531559607765449,
    1.5253002273389478,
)
K1_FAR = (
    -5.756744483665017e-18,
    1.7940508731475592e-17,
    -5.689462558442859e-17,
    1.838093544366639e-16,
    -6.057047248373319e-16,
    2.038703165624334e-15,
    -7.019837090418314e-15,
    2.4771544244813043e-14,
    -8.976705182324994e-14,
    3.3484196660784293e-13,
    -1.2891739609510289e-12,
    5.13963967348173e-12,
    -2.1299678384275683e-11,
    9.218315187605006e-11,
    -4.1903547593418965e-10,
    2.015049755197033e-09,
    -1.0345762465678097e-08,
    5.7410841254500495e-08,
    -3.5019606030878126e-07,
    2.406484947837217e-06,
    -1.936197974166083e-05,
    0.00019521551847135162,
    -0.002857816859622779,
    0.10392373657681724,
    2.7206261904844427,
)


def j0(x):
    x = abs(x)
    return j0_to_5(x) if x <= 5.0 else j0_from_5(x)


def j0_to_5(x):
    z = x * x
    if x < 1e-5:
        return 1.0 - z / 4.0
    p = (z - 5.78318596294678452118) * (z - 30.4712623436620863991)
    return p * horner(z, J0_P) / horner(z, J0_Q)


def hankel0(x):
    """Of the waves of order 0 beyond 5 the factors p and q (DLMF 10.17), times sqrt(1 / (pi x))."""
    r = inverse_root(x)
    w = 5.0 * r * r
    z = w * w
    p = horner(z, J0_PQ)
    q = horner(z, J0_QQ)
    n = SQRT_INV_PI * r / (p * q)
    return horner(z, J0_PP) * (q * n), w * (horner(z, J0_QP) * (p * n))


def hankel1(x):
    """The same of order 1."""
    r = inverse_root(x)
    w = 5.0 * r * r
    z = w * w
    p = horner(z, J1_PQ)
    q = horner(z, J1_QQ)
    n = SQRT_INV_PI * r / (p * q)
    return horner(z, J1_PP) * (q * n), w * (horner(z, J1_QP) * (p * n))


def j0_from_5(x):
    """p cos(x - pi / 4) - q sin(x - pi / 4), times the root of 2."""
    p, q = hankel0(x)
    c, s = cos_and_sin(x)
    return (p + q) * c + (p - q) * s


def y0(x):
    if not x > 0.0:
        return -math.inf if x == 0.0 else math.nan
    return y0_to_5(x) if x <= 5.0 else y0_from_5(x)


def y0_to_5(x):
    z = x * x
    return horner(z, Y0_P) / horner(z, Y0_Q) + TWO_OVER_PI * math.log(x) * j0_to_5(x)


def y0_from_5(x):
    p, q = hankel0(x)
    c, s = cos_and_sin(x)
    return (q - p) * c + (p + q) * s


def j1(x):
    z = abs(x)
    return x * j1_to_5(z) if z <= 5.0 else math.copysign(1.0, x) * j1_from_5(z)


def j1_to_5(x):
    """J1 / x."""
    if x < 1.490116119384765625e-8:
        return 0.5
    z = x * x
    w = horner(z, J1_P) / horner(z, J1_Q)
    return w * (z - 14.6819706421238932572) * (z - 49.2184563216946036702)


def j1_from_5(x):
    p, q = hankel1(x)
    c, s = cos_and_sin(x)
    return (q - p) * c + (p + q) * s


def y1(x):
    if not x > 0.0:
        return -math.inf if x == 0.0 else math.nan
    return y1_to_5(x) if x <= 5.0 else y1_from_5(x)


def y1_to_5(x):
    z = x * x
    w = x * (horner(z, Y1_P) / horner(z, Y1_Q))
    return w + TWO_OVER_PI * (x * j1_to_5(x) * math.log(x) - 1.0 / x)


def y1_from_5(x):
    p, q = hankel1(x)
    c, s = cos_and_sin(x)
    return (q - p) * s - (p + q) * c


def y0_and_y1(x):
    """Both, for x > 0: beyond 5 what they have in common is computed once."""
    if x <= 5.0:
        return y0_to_5(x), y1_to_5(x)
    p, q = hankel0(x)
    p1, q1 = hankel1(x)
    c, s = cos_and_sin(x)
    return (q - p) * c + (p + q) * s, (q1 - p1) * s - (p1 + q1) * c


def j0_and_j1(x):
    """Both, for x > 0."""
    if x <= 5.0:
        return j0_to_5(x), x * j1_to_5(x)
    p, q = hankel0(x)
    p1, q1 = hankel1(x)
    c, s = cos_and_sin(x)
    return (p + q) * c + (p - q) * s, (q1 - p1) * c + (p1 + q1) * s


def yn(n, x):
    """Y of a whole order, upwards from 0 and 1."""
    if n != n or floor(n) != n:
        return math.nan
    s = 1.0
    if n < 0.0:
        n = -n
        s = 1.0 if is_even(n) else -1.0
    if x == 0.0:
        return -s * math.inf
    if not x > 0.0:
        return math.nan
    if n > LARGEST_ORDER:
        return -s * math.inf if x < 0.98 * n else math.nan
    last, now = y0_and_y1(x)
    if n == 0.0:
        return last
    step, rest = two_over(x)
    k = 1.0
    while k < n and abs(now) < math.inf:
        before = last
        last = now
        now = k * last * step + (k * (rest * last) - before)
        k += 1.0
    return s * now


def two_over(x):
    """2 / x, and what rounding lost of it, which recurrences multiply by the order."""
    if x > 1e-30 and x < 1e30:
        return quotient(2.0, 0.0, x, 0.0)
    return 2.0 / x, 0.0


def jn(n, x):
    """J of a whole order: upwards where that is stable, else down from the ratio of neighbours, a
    continued fraction."""
    if n != n or x != x or floor(n) != n:
        return math.nan
    s = 1.0
    if n < 0.0:
        n = -n
        s = 1.0 if is_even(n) else -1.0
    if x < 0.0:
        x = -x
        s = s if is_even(n) else -s
    if n == 0.0:
        return s * j0(x)
    if x == 0.0:
        return 0.0
    if n > LARGEST_ORDER:
        return 0.0 if x < 0.98 * n else math.nan
    if x > n:
        last, now = j0_and_j1(x)
        step = 2.0 / x
        k = 1.0
        while k < n:
            before = last
            last = now
            now = k * step * last - before
            k += 1.0
        return s * now
    if x < 1e-8 * (n + 1.0):  # the first term of the series
        y = 1.0
        k = 1.0
        while k <= n and y > 0.0:
            y *= 0.5 * x / k
            k += 1.0
        return s * y
    # J(n) / J(n - 1), from the end; Lentz would need guards
    k = n + 30.0 + floor(2.0 * x)
    ratio = 0.0
    while k > n:
        ratio = 1.0 / (2.0 * k / x - ratio)
        k -= 1.0
    ratio = 1.0 / (2.0 * n / x - ratio)
    now = 1.0
    last = 1.0 / ratio
    k = n - 1.0
    scale = 0.0
    while k > 0.0:
        before = now
        now = last
        last = 2.0 * k * now / x - before
        k -= 1.0
        if abs(last) > 1e150:
            last *= 1e-150
            now *= 1e-150
            scale += 1.0
    # now is J1, last J0 in units of J(n); the larger one gives the unit
    unit = j0(x) / last if abs(last) > abs(now) else j1(x) / now
    while scale > 0.0:
        unit *= 1e-150
        scale -= 1.0
    return s * unit


def i0e(x):
    """exp(-|x|) I0(x)."""
    z = abs(x)
    if z <= 8.0:
        return chebyshev(z / 2.0 - 2.0, I0_NEAR)
    return chebyshev(32.0 / z - 2.0, I0_FAR) / math.sqrt(z)


def i0(x):
    return grown(x, i0e(x))


def grown(x, y):
    """exp(|x|) y, in two steps where the first factor overflows."""
    z = abs(x)
    if z > 709.0:
        e = math.exp(0.5 * z)
        return e * y * e
    return math.exp(z) * y


def i1e(x):
    """exp(-|x|) I1(x)."""
    z = abs(x)
    if z <= 8.0:
        y = chebyshev(z / 2.0 - 2.0, I1_NEAR) * z
    else:
        y = chebyshev(32.0 / z - 2.0, I1_FAR) / math.sqrt(z)
    return -y if x < 0.0 else y


def i1(x):
    return grown(x, i1e(x))


def k0(x):
    if x == 0.0:
        return math.inf
    if not x > 0.0:
        return math.nan
    if x <= 2.0:
        return chebyshev(x * x - 2.0, K0_NEAR) - math.log(0.5 * x) * i0(x)
    return math.exp(-x) * chebyshev(8.0 / x - 2.0, K0_FAR) / math.sqrt(x)


def k0e(x):
    """exp(x) K0(x)."""
    if x > 2.0:
        return chebyshev(8.0 / x - 2.0, K0_FAR) / math.sqrt(x)
    return k0(x) * math.exp(x)


def k1(x):
    if x == 0.0:
        return math.inf
    if not x > 0.0:
        return math.nan
    if x <= 2.0:
        return math.log(0.5 * x) * i1(x) + chebyshev(x * x - 2.0, K1_NEAR) / x
    return math.exp(-x) * chebyshev(8.0 / x - 2.0, K1_FAR) / math.sqrt(x)


def k1e(x):
    """exp(x) K1(x)."""
    if x > 2.0:
        return chebyshev(8.0 / x - 2.0, K1_FAR) / math.sqrt(x)
    return k1(x) * math.exp(x)


def spherical_yn(n, x):
    """The spherical Bessel function of the second kind, upwards from -cos(x) / x."""
    if n != n or x != x or n < 0.0 or floor(n) != n:
        return math.nan
    if x < 0.0:
        y = spherical_yn_of_positive(n, -x)
        return y if not is_even(n) else -y
    return spherical_yn_of_positive(n, x)


def spherical_yn_of_positive(n, x):
    if math.isinf(x):
        return 0.0
    if x == 0.0:
        return -math.inf
    if n > LARGEST_ORDER:
        return -math.inf if x < 0.98 * n else math.nan
    cos, sin = cos_and_sin(x)
    last = -cos / x
    if n == 0.0:
        return last
    now = (last - sin) / x
    k = 1.0
    while k < n and abs(now) < math.inf:
        before = last
        last = now
        now = (2.0 * k + 1.0) * last / x - before
        k += 1.0
    return now


def wright_bessel(a, b, x):
    """The sum of x^k / (k! gamma(a k + b)): its terms, or for large numbers an integral."""
    if not (a >= 0.0 and b >= 0.0 and x >= 0.0):
        return math.nan
    if a >= LARGEST_WRIGHT or b >= LARGEST_WRIGHT:
        return math.nan
    if x == math.inf:
        return math.inf
    if x == 0.0:
        return rgamma(b)
    if a == 0.0:
        return math.exp(x) * rgamma(b)
    r = saddle(a, b, x)
    if r > 1e6:
        return math.inf
    if r > 10.0 and fall(a, x, r) > 1.2 * SMALL_LOG:
        return wright_integral(a, b, x, r)
    return wright_series(a, b, x)


def fall(a, x, r):
    """By how much exp(s + x s^-a) falls along a circle for good: the least change of its logarithm
    from half a turn on, or from where the powers of s have turned into their conjugates."""
    half = min(0.5, 1.0 / (1.0 + a)) * math.pi
    s = math.sin(half)
    t = math.sin(a * half)
    return 2.0 * (r * s * s + x * math.exp(-a * math.log(r)) * t * t)


def saddle(a, b, x):
    """Where s + x s^-a - (b - 1) log(s) is least, nearly: Newton's method from below, where the
    derivative is a concave function. Of b < 1 as of 1."""
    log = math.log(x)
    r = math.exp((math.log(a) + log) / (1.0 + a))
    if b > 1.0:
        r = max(r, b - 1.0)
        for _ in range(2):
            y = math.exp(log - a * math.log(r))
            r += r * (a * y + (b - 1.0) - r) / (r + a * a * y)
    return r


def wright_integral(a, b, x, r):
    """1 / (2 pi i) times the integral of exp(s + x s^-a) s^-b along a circle of any radius r, by
    the trapezoidal rule. Where r is the saddle, the integrand is nearly a Gaussian bell, of which
    the rule's error falls with exp(-1 / step^2)."""
    y, rest = inverse_power_at(a, x, r)
    step = 0.8 * math.pi * math.sqrt(2.0 / (SMALL_LOG * (r + a * a * y)))  # 0.8: it is no bell
    total = 0.5
    phi = 0.0
    exponent = 0.0
    while exponent > -SMALL_LOG and phi < 1.5707963267948966:
        phi += 0.5 * step
        c, s = cos_and_sin(phi)
        d, t = cos_and_sin(a * phi)
        exponent = -2.0 * (r * s * s + y * t * t)
        turn = 2.0 * (r * s * c - y * t * d) - 2.0 * (b - 1.0) * phi
        total += math.exp(exponent) * math.cos(turn)
    high, low = two_sum(r, y)
    log, log_rest = log_ratio(r, 0.0, 1.0, 0.0)
    log, log_rest = times(log, log_rest, 1.0 - b, 0.0)
    high, low = plus(high, low + rest, log, log_rest)
    root = exp_sum(0.5 * high, 0.5 * low)  # twice, as it may overflow alone
    return root * (total * step / math.pi) * root


def inverse_power_at(a, x, r):
    """x r^-a, and what rounding lost of it."""
    y = x * math.exp(-a * math.log(r))
    u, ul = log_ratio(x, 0.0, y, 0.0)
    v, vl = log_ratio(r, 0.0, 1.0, 0.0)
    v, vl = times(v, vl, -a, 0.0)
    u, ul = plus(u, ul, v, vl)
    return y, y * (u + ul)


def wright_series(a, b, x):
    """All terms are positive, and their quotients fall. In units of 2^(800 shift), so that no
    number overflows."""
    k = 0.0
    y = b
    power = 1.0  # x^k / k!
    small = b >= 160.0
    t = 1.0 if small else reciprocal_gamma(b)  # small: in units of 1 / gamma(b)
    s = t
    last = 0.0
    shift = 0
    while k < 1.0 or t > SMALL_TERM * s or t > 0.9 * last:
        last = t
        k += 1.0
        below = y
        y = a * k + b
        if not small and (y < 160.0 or below < 1e-280):
            power *= x / k
            t = power * reciprocal_gamma(y)
        else:  # where that has no digits
            t *= x / (k * poch(below, a))
        s += t
        if s > TWO_TO_800 or power > TWO_TO_800:
            s /= TWO_TO_800
            t /= TWO_TO_800
            power /= TWO_TO_800
            shift += 1
            if shift > 3:  # gamma(b) < 2^1076
                return math.inf
    if small:
        s = s * rgamma(b - 20.0) / poch(b - 20.0, 20.0)
    while shift > 0:
        s *= TWO_TO_800
        shift -= 1
    return s


def reciprocal_gamma(x):
    """1 / gamma(x), x >= 0."""
    return rgamma(x)
