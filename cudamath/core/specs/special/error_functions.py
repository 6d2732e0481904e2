"""The error function, the normal distribution, and their inverses.

Inverses are polynomials of a logarithm: M. Giles, Approximating the erfinv function, GPU Computing
Gems 2 (2010).
"""

from __future__ import annotations

import math

from .pairs import two_product
from .polynomials import horner

SQRT_2 = 1.4142135623730951
TWO_SQRT_2 = 2.8284271247461903
SQRT_HALF = 0.7071067811865476
SQRT_HALF_REST = -4.833646656726457e-17  # sqrt(1/2) less that
TWO_OVER_SQRT_PI = 1.1283791670955126
INV_SQRT_PI = 0.5641895835477563
SQRT_2PI = 2.5066282746310007

#: erfinv(x) / x: by w = -log(1 - x^2), less 3.125, up to 6.25; beyond by the square root of w, less
#: the middle of each interval up to 4, 7, 13 and 27.5. The highest power first. Chebyshev
#: interpolation of values of 50 digits; errors below 4e-17 before coefficients are rounded.
INVERSE_MIDDLE = (
    -3.5932028927020693e-22,
    3.194015548136271e-21,
    1.999259988861535e-20,
    -3.4734793888538036e-19,
    6.075050702072414e-19,
    1.5510787009902526e-17,
    -1.2215637192404172e-16,
    -3.94018812230432e-17,
    6.521333511502239e-15,
    -4.0020031087558496e-14,
    -8.07192593899004e-14,
    2.6305268312595183e-12,
    -1.2978805369932565e-11,
    -5.414303283919504e-11,
    1.051223377050429e-09,
    -4.1126604371632185e-09,
    -2.907039127564132e-08,
    4.23478816822246e-07,
    -1.3654691758785656e-06,
    -1.3882523393957483e-05,
    0.00018673420801981186,
    -0.0007407025341546431,
    -0.006033670871426851,
    0.24015818242558834,
    1.6536545626831027,
)
INVERSE_TAIL = (
    -3.831039946072411e-10,
    9.071950571029922e-08,
    -2.6860975725571463e-07,
    1.832399988132858e-08,
    1.4958263152984917e-06,
    -4.013946398190292e-06,
    2.9273722115986924e-06,
    1.2475343474376931e-05,
    -4.731952918337189e-05,
    6.828484052292924e-05,
    2.4031363245440546e-05,
    -0.00035503751863069763,
    0.0009532893521118177,
    -0.0016882755561681802,
    0.0024914420976198813,
    -0.0037512085075638536,
    0.0053709145535581985,
    1.0052589676941592,
    3.0838856104922208,
)
INVERSE_FAR = (
    -1.9391910636628815e-13,
    4.4575868981304656e-13,
    1.894117554042351e-12,
    -7.77652784849816e-12,
    1.1633929066426131e-11,
    -2.5246797969054126e-11,
    8.023854508526957e-11,
    -1.7117454997368166e-10,
    3.110583133077491e-10,
    -7.963545619411677e-10,
    3.1581781283201137e-09,
    -1.5757069174880837e-08,
    8.364027555159378e-08,
    -4.3734095293040956e-07,
    2.18335919976333e-06,
    -1.0092255713992323e-05,
    4.022234650212993e-05,
    -0.00010276898066595959,
    -0.0003681972268346508,
    1.0100330724446336,
    5.354999273642594,
)
INVERSE_FARTHER = (
    6.095309166498763e-22,
    -6.315837869823729e-21,
    3.6082782685416417e-20,
    -3.623297838647545e-19,
    4.185779668706981e-18,
    -4.147645297658928e-17,
    3.997452701986923e-16,
    -3.861477176139979e-15,
    3.677291370777222e-14,
    -3.4315822077322744e-13,
    3.123416993862052e-12,
    -2.7467536737911122e-11,
    2.292887651977818e-10,
    -1.7499511574672362e-09,
    1.1005823701994097e-08,
    -3.179170468988329e-08,
    -6.423834545244234e-07,
    1.8600690000162182e-05,
    -0.00034980850858186223,
    1.005969615621208,
    9.890609132540968,
)
INVERSE_FARTHEST = (
    7.067307627816824e-31,
    -1.3760439530305128e-29,
    5.265710528314834e-29,
    -9.555881390414903e-28,
    4.49928656759364e-26,
    -8.360944884013705e-25,
    1.3172255178597827e-23,
    -2.318359736152549e-22,
    4.024276282502333e-21,
    -6.443851445626862e-20,
    9.24667126342503e-19,
    -1.0356710386277485e-17,
    2.322605262587392e-17,
    3.715252624578332e-15,
    -1.699280089103063e-13,
    5.607135780955893e-12,
    -1.638265550358579e-10,
    4.50814223857217e-09,
    -1.2027806058480562e-07,
    3.170750961468712e-06,
    -8.409770023300151e-05,
    1.0023087132676716,
    20.178638048598987,
)

#: erfcx(x) (x + 5/2) by (x - 5/2) / (x + 5/2), in the same way.
ERFCX = (
    1.7231252926445815e-10,
    1.4476432380491272e-10,
    -1.567710231220436e-09,
    -2.0804263021620955e-09,
    5.983405871939804e-09,
    1.4067095483647015e-08,
    -6.6225732417281984e-09,
    -5.8218067969150935e-08,
    -5.61394749682442e-08,
    1.4410020041119912e-07,
    4.375640266741469e-07,
    -1.0307686818727824e-08,
    -1.9575450604348687e-06,
    -2.330213645560834e-06,
    6.752753529618847e-06,
    1.8243699411854575e-05,
    -1.9531964557230725e-05,
    -0.0001126046849017831,
    5.830779008986097e-05,
    0.0007026937028141618,
    -0.00043920826744168074,
    -0.004818785521408077,
    0.008393044302528178,
    0.028361550131913025,
    -0.1712511452460479,
    0.45391411664809744,
    -0.8046518494391489,
    1.054031820305718,
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
    """exp(x^2) erfc(x)."""
    if x < -26.628735713751488:
        return math.inf
    y = erfcx_of_positive(abs(x))
    if not x < 0.0:
        return y
    square = x * x
    e = math.exp(square)
    return 2.0 * (e + e * square_rest(x, square)) - y


def erfcx_of_positive(x):
    if x > 1e16:
        return INV_SQRT_PI / x
    s = x + 2.5
    r = 1.0 / s
    r -= r * (r * (x - (s - 2.5)))  # what rounding lost of the sum
    return r * horner(1.0 - 5.0 * r, ERFCX)


def inverse_by_log(w):
    """erfinv(x) / x by w = -log(1 - x^2), whose rounding this forgives: it changes by less than w
    does."""
    if w < 6.25:
        return horner(w - 3.125, INVERSE_MIDDLE)
    s = math.sqrt(w)
    if s < 4.0:
        return horner(s - 3.25, INVERSE_TAIL)
    if s < 7.0:
        return horner(s - 5.5, INVERSE_FAR)
    if s < 13.0:
        return horner(s - 10.0, INVERSE_FARTHER)
    return horner(s - 20.25, INVERSE_FARTHEST)


def ndtri(y):
    """The number below which a standard normal one lies with probability y."""
    if y > 0.0 and y < 1.0:
        return (y - 0.5) * (TWO_SQRT_2 * inverse_by_log(-math.log(4.0 * y * (1.0 - y))))
    if y == 0.0:
        return -math.inf
    return math.inf if y == 1.0 else math.nan


def erfinv(y):
    a = abs(y)
    if a < 1.0:
        return y * inverse_by_log(-math.log((1.0 - a) * (1.0 + a))) + 0.0  # 0 of -0, as SciPy's
    return y * math.inf if a == 1.0 else math.nan


def erfcinv(y):
    if y > 0.0 and y < 2.0:
        return -((y - 1.0) * inverse_by_log(-math.log(y * (2.0 - y))))  # -0 of 1, as SciPy's
    if y == 0.0:
        return math.inf
    return -math.inf if y == 2.0 else math.nan


def ndtr(x):
    """The probability that a standard normal number is below x."""
    return upper_tail(-x)


def upper_tail(x):
    """The probability that a standard normal number is above x: erfc(x / sqrt(2)) / 2. What the
    rounding of the quotient costs is given back by erfc's derivative, which is -erfc(t) times
    2 t + 1 / (t + 0.56) within 6 % from t = 0.5 on, 0.2 % from t = 5 on."""
    t, rest = two_product(x, SQRT_HALF)
    y = 0.5 * math.erfc(t)
    if t > 0.5 and t < 27.3:
        rest += x * SQRT_HALF_REST
        y -= y * (rest * (2.0 * t + 1.0 / (t + 0.56)))
    return y


def log_ndtr(x):
    y = 0.5 * erfcx_of_positive(abs(x) * SQRT_HALF)
    square = x * x
    if x < 0.0:
        return math.log(y) - 0.5 * square
    rest = square_rest(x, square) if x < 40.0 else 0.0
    e = math.exp(-0.5 * square)
    return math.log1p(-y * (e - e * (0.5 * rest)))


def ndtr_mills(x):
    """The density of a standard normal number divided by the probability that it is below x: the
    derivative of log_ndtr."""
    t = x * SQRT_HALF
    if x < 0.0:
        return 0.7978845608028654 / erfcx(-t)
    return math.exp(-t * t) / SQRT_2PI / (1.0 - 0.5 * math.erfc(t))
