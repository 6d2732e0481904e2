"""Functions for results in float32, by their names: in float64, without what the last digits of
float64 take. Errors are far below half a unit of float32.

Kernels take them where they are (library.narrow), also in what other functions call. What is not
here has one form for all dtypes.
"""

from __future__ import annotations

import math

from .bessel_functions import SQRT_INV_PI, TWO_OVER_PI
from .error_functions import SQRT_HALF
from .gamma_functions import HALF_LOG_2PI, PSI, PSI_P, PSI_Q, beta
from .pairs import two_product
from .polynomials import horner
from .powers import inverse_root
from .rounding import floor, is_even, modulo, near, nearest, sign_of_order
from .wave_integrals import CI_ROOT, CI_ROOT_REST

#: As in integrals.py, to ten digits.
E1_SHORT_P = (
    0.9999999997695969,
    16.825571937771116,
    87.58189013392746,
    164.44985039481128,
    100.94582255247708,
    13.859856647584479,
)
E1_SHORT_Q = (
    1.0,
    18.825571671378157,
    119.23308534704456,
    313.9589480670901,
    345.41470287056535,
    140.08311289302077,
    14.440055630962933,
)
EIN_SHORT = (
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
EI_SHORT = (
    8.333541091370752e-13,
    -2.1675331419779478e-11,
    3.3466062097509165e-10,
    -2.6668473367377786e-09,
    1.9265008719134046e-08,
    -4.1983185890830105e-08,
    5.251033470695931e-07,
    2.7799677620265733e-06,
    3.0190220114793828e-05,
    0.0002418357738732522,
    0.0017574203807257428,
    0.011070993213706738,
    0.05967967899707218,
    0.27223110719768184,
    1.1014081059405307,
)


#: pi / 2 in parts of 33 bits: products with whole numbers up to a million are exact.
PI_HALF_1, PI_HALF_2 = 1.5707963267341256, 6.077100506303966e-11
#: sin(x) / x and cos(x) up to pi / 4, by x^2: Chebyshev interpolation, to ten digits.
SIN_SHORT = (
    2.7173456841089953e-06,
    -0.000198392022122311,
    0.00833332878245888,
    -0.16666666631591165,
    0.9999999999956731,
)
COS_SHORT = (
    2.4379831251175367e-05,
    -0.0013886617999647076,
    0.041666616692532826,
    -0.4999999961485761,
    0.9999999999524894,
)
#: sin(pi x) / x by x^2 up to 1/4, and x times the logarithm of what Stirling's formula leaves out,
#: by 1 / x^2 up to 1/16, in the same way.
SIN_PI_SHORT = (
    -0.007028303855203096,
    0.08205035020147247,
    -0.599252186531583,
    2.550163317938427,
    -5.167712764593,
    3.141592653536132,
)
STIRLING_SHORT = (
    -0.0005066983344753814,
    0.0007903748842643675,
    -0.0027777376965392093,
    0.08333333325536134,
)
#: As in gamma_functions.py, to nine digits.
ATANH_SHORT = (
    0.10393808427873376,
    0.08732351232720387,
    0.11132355604500663,
    0.1428515286094183,
    0.2000000538497483,
    0.33333333325011805,
    0.0,
)
#: As in error_functions.py, to eight digits.
ERFCX_SHORT = (
    2.4389704097139996e-06,
    1.1032293453799018e-05,
    -1.4586629343460064e-05,
    -0.00010325700471427272,
    5.5230419632373424e-05,
    0.0006965247904702331,
    -0.0004381849980968521,
    -0.004816667674021472,
    0.008392878680486406,
    0.028361201146273232,
    -0.17125113504651623,
    0.4539141383334163,
    -0.8046518495429241,
    1.054031820084691,
)
#: Of hankel0 and hankel1 by 1 / x^2, to nine digits: Chebyshev interpolation.
HANKEL0_P_SHORT = (
    -17.41655193848045,
    3.71559682666303,
    -0.5348407480907652,
    0.11184203578350906,
    -0.07031150003074114,
    0.9999999994511132,
)
HANKEL0_Q_SHORT = (
    66.16973397269395,
    -12.986123769936775,
    1.55297578218945,
    -0.22569771359078067,
    0.07323768158229141,
    -0.12499999753133731,
)
HANKEL1_P_SHORT = (
    19.783919282411475,
    -4.272718171394362,
    0.6347479562062556,
    -0.14385042918727434,
    0.11718638600616256,
    1.0000000006115795,
)
HANKEL1_Q_SHORT = (
    -74.38400114896717,
    14.729762504827262,
    -1.8008490198888523,
    0.2760186471358662,
    -0.10253408102924698,
    0.37499999727032407,
)
#: As in wave_integrals.py, to nine digits.
WAVE_F_SHORT_P = (
    23220.006385132772,
    27380.741513445635,
    3799.9576638798844,
    126.36314467686712,
    0.9999999939378994,
)
WAVE_F_SHORT_Q = (
    47459.35333288086,
    33075.71310867899,
    4032.706823851484,
    128.36311858612214,
    1.0,
)
WAVE_G_SHORT_P = (
    728529.8330194477,
    1491428.132600464,
    286161.07647471636,
    14324.5287828703,
    227.28152564759029,
    0.9999999962872751,
)
WAVE_G_SHORT_Q = (
    4073824.8322832873,
    2581817.319228675,
    356811.7736852368,
    15604.249959631037,
    233.28150166043187,
    1.0,
)
SI_SHORT = (
    -1.0741360228979486e-05,
    1.7133077870972446e-06,
    0.00044899776490621023,
    -0.0002986002722354631,
    -0.011016211659498109,
    0.013632754318409754,
    0.1331727576215462,
    -0.2687891553989282,
    -0.15033566865058748,
    1.8331253987942144,
)
CI_SHORT = (
    1.5169286663913534e-06,
    -3.824489175211966e-06,
    4.6931831802597916e-06,
    -1.1116187088000862e-05,
    3.784866911194021e-05,
    -0.0001490514873860633,
    0.00028400798590659087,
    0.0008820331876181612,
    0.00036173545503210305,
    -0.03420382980562329,
    0.06511793154449629,
    0.12747396505566308,
    -0.27740170720861346,
)
#: J0, J1 / x, and Y0, Y1 / x without logarithms and poles, by x^2 up to 25, which is from -1 to 1:
#: Chebyshev interpolation, errors below 1e-13.
J0_SHORT = (
    2.96922125999184e-12,
    -1.3408115506746645e-10,
    5.059294864145802e-09,
    -1.571840586784593e-07,
    3.928508887005959e-06,
    -7.683433615676015e-05,
    0.001134363509586705,
    -0.012035214154289672,
    0.08539182354259664,
    -0.3601807659503913,
    0.7094160035335418,
    -0.21650541389819158,
    -0.3847445098140454,
)
J1_SHORT = (
    -5.7013388792800855e-12,
    2.360118871337204e-10,
    -8.094870824087834e-09,
    2.263449791254749e-07,
    -5.0284913760910555e-06,
    8.60544565464154e-05,
    -0.0010889889692030231,
    0.00962817132341585,
    -0.05465076706726187,
    0.17288676765618952,
    -0.22701312113073338,
    0.034640866223710626,
)
Y0_SHORT = (
    -6.0494543140061334e-12,
    2.657788970384047e-10,
    -9.720956655939652e-09,
    2.914215949682796e-07,
    -6.985504372448188e-06,
    0.00012994629120517665,
    -0.0018028096665512298,
    0.017635345389255822,
    -0.11151682184328636,
    0.38851639956571976,
    -0.4705763655297288,
    -0.4326558222855129,
    0.4837248578102995,
)
Y1_SHORT = (
    1.1461777560853725e-11,
    -4.6084943803985146e-10,
    1.5288887387785162e-08,
    -4.113769987118775e-07,
    8.733098312335145e-06,
    -0.00014141835836444503,
    0.0016688031328618395,
    -0.013433433740719822,
    0.06634695354779122,
    -0.16312020358119558,
    0.09108650838448444,
    0.13974939033568817,
)


def atanh_rest(square):
    return horner(square, ATANH_SHORT)


def logit(x):
    if x == 1.0:
        return math.inf
    return math.log(x / (1.0 - x)) if x != -math.inf else math.nan


def boxcox(x, lam):
    return short_power_of_log(math.log(x), lam)


def boxcox1p(x, lam):
    return short_power_of_log(math.log1p(x), lam)


def short_power_of_log(log, lam):
    """(exp(lam log) - 1) / lam: beyond float32 where the exponential alone overflows."""
    return log if abs(lam) < 1e-19 else math.expm1(lam * log) / lam


def to_5(x):
    """x^2 from -1 to 1."""
    return 0.08 * (x * x) - 1.0


def j0_to_5(x):
    return horner(to_5(x), J0_SHORT)


def j1_to_5(x):
    return horner(to_5(x), J1_SHORT)


def y0_to_5(x):
    t = to_5(x)
    return horner(t, Y0_SHORT) + TWO_OVER_PI * math.log(x) * horner(t, J0_SHORT)


def y1_to_5(x):
    t = to_5(x)
    log = TWO_OVER_PI * math.log(x)
    return x * (horner(t, Y1_SHORT) + log * horner(t, J1_SHORT)) - TWO_OVER_PI / x


def cos_and_sin(x):
    if not abs(x) < 1e6:
        return math.cos(x), math.sin(x)
    quarters = near(x * TWO_OVER_PI)
    r = (x - quarters * PI_HALF_1) - quarters * PI_HALF_2
    z = r * r
    s = r * horner(z, SIN_SHORT)
    c = horner(z, COS_SHORT)
    turns = int(quarters)
    if turns & 1:
        c, s = -s, c
    return (-c, -s) if turns & 2 else (c, s)


def hankel0(x):
    r = inverse_root(x)
    w = r * r
    z = w * w
    r *= SQRT_INV_PI
    return r * horner(z, HANKEL0_P_SHORT), r * w * horner(z, HANKEL0_Q_SHORT)


def hankel1(x):
    r = inverse_root(x)
    w = r * r
    z = w * w
    r *= SQRT_INV_PI
    return r * horner(z, HANKEL1_P_SHORT), r * w * horner(z, HANKEL1_Q_SHORT)


def sinpi(x):
    n = nearest(x)
    r = x - n
    return sign_of_order(n) * (r * horner(r * r, SIN_PI_SHORT))


def stirling_quotient(x):
    """Two numbers whose quotient is gamma(x), x > 0, by Stirling's formula from 4 on."""
    d = 1.0
    if x < 4.0:
        s = x * (x + 3.0)
        d = s * (s + 2.0)  # x (x + 1) (x + 2) (x + 3)
        x += 4.0
    x = x if x < 200.0 else 200.0  # of which it is infinite
    w = 1.0 / x
    rest = HALF_LOG_2PI + w * horner(w * w, STIRLING_SHORT)
    return math.exp((x - 0.5) * math.log(x) - x + rest), d


def gamma(x):
    if x == 0.0:
        return math.copysign(math.inf, x)
    q = abs(x)
    y, d = stirling_quotient(q)
    if x > 0.0:
        return y / d
    wave = sinpi(q)
    return -math.pi * d / (wave * q * y) if abs(wave) > 0.0 else math.nan


def rgamma(x):
    if x != x or x == 0.0:
        return x
    q = abs(x)
    y, d = stirling_quotient(q)
    if x > 0.0:
        return d / y
    wave = sinpi(q)
    return -(wave * q * y) / (math.pi * d) if abs(wave) > 0.0 else 0.0


def binom_by_beta(n, k):
    """Of moderate numbers by gamma functions, which are in float64's range."""
    if abs(n) < 80.0 and abs(k) < 80.0:
        return gamma(n + 1.0) * (rgamma(k + 1.0) * rgamma(n - k + 1.0))
    return 1.0 / (n + 1.0) / beta(1.0 + n - k, 1.0 + k)


def gammaln(x):
    if x <= 0.0 and x == floor(x):
        return x if x == -math.inf else math.inf
    return math.lgamma(x)


def reciprocal_gamma(x):
    if not x > 0.0:
        return 0.0
    y, d = stirling_quotient(x)
    return d / y


def inverse_power_at(a, x, r):
    return x * math.exp(-a * math.log(r)), 0.0


def exp1_series(x):
    return horner(x, EIN_SHORT)


def exp1_quotient(x):
    return (1.0 - horner(x, E1_SHORT_P) / horner(x, E1_SHORT_Q)) / x


def expi_rest(x):
    return horner(x, EI_SHORT)


def wave_parts(x):
    w = 1.0 / x
    u = w * w
    p = horner(u, WAVE_F_SHORT_Q)
    q = horner(u, WAVE_G_SHORT_Q)
    n = 1.0 / (p * q)
    return w * (horner(u, WAVE_F_SHORT_P) * (q * n)), u * (horner(u, WAVE_G_SHORT_P) * (p * n))


def sine_from_2(x):
    return horner((x - 3.5) * 0.6666666666666666, SI_SHORT)


def cosine_from_2(x):
    rest = (x - CI_ROOT) - CI_ROOT_REST
    return rest * horner((x - 3.5) * 0.6666666666666666, CI_SHORT)


def digamma(x):
    if x != x:
        return x
    if math.isinf(x):
        return x if x > 0.0 else math.nan
    if x == 0.0:
        return math.copysign(math.inf, -x)
    y = 0.0
    if x < 0.0:
        r = modulo(-x, 1.0)
        if r == 0.0:
            return math.nan
        y = math.pi / math.tan(math.pi * r)
        x = 1.0 - x
    if x < 1.0:
        y -= 1.0 / x
        x += 1.0
    if x <= 2.0:  # times the distance from the root, which is two numbers
        g = (x - 1.4616321446374059) - 3.309564688275257e-10
        return y + g * (0.99558162689208984 + horner(x - 1.0, PSI_P) / horner(x - 1.0, PSI_Q))
    n = 0.0
    d = 1.0  # n / d is the sum of 1 / x
    while x < 6.0:
        n = n * x + d
        d *= x
        x += 1.0
    z = 1.0 / x
    y -= n / d
    return y - z * (z * horner(z * z, PSI)) + (math.log(x) - 0.5 * z)


def upper_tail(x):
    return 0.5 * math.erfc(x * SQRT_HALF)


def erfcx_of_positive(x):
    r = 1.0 / (x + 2.5)
    return r * horner(1.0 - 5.0 * r, ERFCX_SHORT)


# -------------------- pairs.py: what sums of two numbers lose when they are not made one again
# does not count. What stays is that the logarithm of a ratio near 1 has all digits


def plus(a, al, b, bl):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t) + (al + bl)


def times(a, al, b, bl):
    p, e = two_product(a, b)
    return p, e + (a * bl + al * b)


def quotient(a, al, b, bl):
    return a / b, 0.0


def log_ratio(p, pl, q, ql):
    less = p < q
    d = (p - q) + (pl - ql)
    # of 1 + u with positive u a logarithm loses nothing
    log = math.log1p(-d / p if less else d / q)
    return -log if less else log, 0.0


def exp_sum(high, low):
    return math.exp(high + low)


def raised(a, al):
    if a >= 10.0:
        return a, al, 0.0, 1.0
    n = 10.0 - floor(a)
    h = a + n
    step = 1.0 / h
    product = a * step
    i = 1.0
    while i < n:
        product *= (a + i) * step
        i += 1.0
    return h, al + (a - (h - n)), n, product


def inverse_power(a, x):
    y = math.exp(-x * math.log(abs(a)))
    return -y if a < 0.0 and not is_even(x) else y


def short_power(a, b):
    """a^b: in float32's range the rounded product of logarithm and exponent costs nothing."""
    if b == 0.0 or a == 1.0:
        return 1.0
    y = math.exp(b * math.log(abs(a)))
    if a < 0.0:
        y = math.nan if b != floor(b) else y if is_even(b) else -y
    return y
