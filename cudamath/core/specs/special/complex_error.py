"""The error functions of complex numbers x + i y; a function returns the real and the imaginary
part.

All are made of w(z) = exp(-z^2) erfc(-i z) in the first quadrant: the trapezoidal rule with points
on multiples of STEP, or between them where the number is close to such a multiple, with what it
leaves out beside its poles (M. Al Azah, S. N. Chandler-Wilde, Computation of the complex error
function using modified trapezoidal rules, 2021).
"""

from __future__ import annotations

import math

from .complex_gamma import complex_polynomial, complex_product
from .error_functions import square_rest
from .pairs import two_product, two_sum
from .polynomials import horner
from .rounding import floor
from .waves import cos_and_sin

STEP = 0.5116633539732443  # sqrt(pi / 12)
INV_STEP = 1.9544100476116797
TWO_PI = 6.283185307179586
INV_SQRT_PI = 0.5641895835477563
HALF_SQRT_PI = 0.886226925452758
# exp(-t^2) where the points begin, STEP / 2 or STEP, what it is multiplied by then, and that itself
BETWEEN, BETWEEN_NEXT = 0.9366460212365959, 0.592384847188389
AT, AT_NEXT = 0.7696654124932398, 0.45593812776599624
FALL = 0.592384847188389  # exp(-2 STEP^2)
#: Of erf(z) / z by z^2, the highest power first.
ERF_SERIES = tuple(
    [
        2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1))
        for n in range(18, -1, -1)
    ]
)
#: x times Dawson's integral between these numbers, which are t = -1 and 1; from 6 on by 1 / x^2, of
#: which 1/36 is 1: Chebyshev interpolation by mpmath, errors below 2e-17.
DAWSN_1_2 = (
    -8.8585735504315e-11,
    -8.301921364789726e-11,
    2.2309613150446707e-09,
    -2.1473959553406972e-09,
    -3.2030816505847856e-08,
    1.0006788681473267e-07,
    2.371930318994703e-07,
    -1.8495807740114256e-06,
    1.075118115704872e-06,
    1.90409682745112e-05,
    -5.247866729946854e-05,
    -7.393116536840379e-05,
    0.0006233005382249955,
    -0.0007174821318692582,
    -0.0029442482564250557,
    0.010475506842655389,
    -0.005248356322154339,
    -0.036352670901343836,
    0.08651914149486917,
    -0.0544680418789176,
    -0.06908374195701183,
    0.6290137361755501,
)
DAWSN_2_4 = (
    -3.444049889771503e-11,
    1.943117616351518e-10,
    -8.681042264120035e-11,
    -2.8161625812451776e-09,
    1.240689757921567e-08,
    -1.2412886076379133e-08,
    -1.0385645318947921e-07,
    5.608860286929622e-07,
    -1.1359592527023807e-06,
    -9.71665174540305e-07,
    1.3925273049692443e-05,
    -4.653534123578794e-05,
    8.022305624653229e-05,
    -1.462583352313469e-05,
    -0.000373531772810169,
    0.001413868437451117,
    -0.003573297613341537,
    0.007842901410262393,
    -0.01630474165036941,
    0.5283554723222328,
)
DAWSN_4_6 = (
    -1.1201121942393516e-11,
    9.804988336026848e-11,
    -3.2291301958667893e-10,
    5.449712448993305e-10,
    -2.059373562106671e-10,
    -2.520371201766512e-09,
    1.3102438030327076e-08,
    -4.56636457344461e-08,
    1.3719948411528223e-07,
    -3.95145874488397e-07,
    1.1607656112823875e-06,
    -3.5784282959092125e-06,
    1.1592943573052107e-05,
    -3.894874970932206e-05,
    0.00013330409814504891,
    -0.0004553188939378823,
    0.0015074897050575793,
    -0.004569646789565246,
    0.5106703721213842,
)
DAWSN_6 = (
    2.101404875356702e-14,
    5.888923475152961e-14,
    1.2244463717478527e-13,
    5.721811026565469e-13,
    3.1393707046060177e-12,
    1.8999348371179054e-11,
    1.3665768304357756e-10,
    1.1855722905404628e-09,
    1.2651897232928527e-08,
    1.713284763297423e-07,
    3.0903139065238023e-06,
    8.069209879325313e-05,
    0.0036249638178872876,
    0.5035472022911592,
)


def exp_of_square(x, y):
    """exp(-z^2): what rounding loses of z^2 is given back."""
    s, sl = two_sum(y, x)
    d, dl = two_sum(y, -x)
    size, rest = two_product(s, d)
    if size < -745.2:
        return 0.0, 0.0
    turn, turned = two_product(2.0 * x, y)
    e = math.exp(size)
    if abs(size) < 1e3:
        e += e * (rest + (s * dl + sl * d))
    c, s = cos_and_sin(turn)
    return e * (c - turned * s), -e * (s + turned * c)


def complex_quotient(a, b, c, d):
    """(a + i b) / (c + i d)."""
    n = 1.0 / (c * c + d * d)
    return (a * c + b * d) * n, (b * c - a * d) * n


def trapezoids(x, y, on):
    """The rule's sum without its factor; on: with points at the multiples, half of that at 0."""
    u = (x - y) * (x + y)
    v = 2.0 * x * y
    t = STEP if on else 0.5 * STEP
    weight = AT if on else BETWEEN
    ratio = AT_NEXT if on else BETWEEN_NEXT
    a = 0.0
    b = 0.0
    if on:
        a, b = complex_quotient(0.5, 0.0, u, v)
    for _ in range(12):
        d = u - t * t
        share = weight / (d * d + v * v)
        a += share * d
        b -= share * v
        t += STEP
        weight *= ratio
        ratio *= FALL
    return a, b


def faddeeva(x, y):
    """w in the first quadrant."""
    if x + y > 1e7:
        if x == math.inf or y == math.inf:
            return 0.0, 0.0
        n = INV_SQRT_PI / (x * (x / y) + y) if y > x else INV_SQRT_PI / (x + y * (y / x))
        return (n, n * (x / y)) if y > x else (n * (y / x), n)
    at = x * INV_STEP - floor(x * INV_STEP)
    on = y < x and at >= 0.25 and at <= 0.75
    a, b = trapezoids(x, y, on)
    factor = 4.0 * STEP / TWO_PI
    real = -factor * (y * a + x * b)
    imaginary = factor * (x * a - y * b)
    if y < 30.0 and (y < x or y < 0.5 * TWO_PI * INV_STEP):  # beside poles; else it is nothing
        c, s = cos_and_sin(TWO_PI * at)
        e = math.exp(TWO_PI * INV_STEP * y)
        if on:
            e = -e
        p, q = exp_of_square(x, y)
        p, q = complex_quotient(2.0 * p, 2.0 * q, 1.0 + e * c, -e * s)
        real += p
        imaginary += q
    return real, imaginary


def wofz(x, y):
    """exp(-z^2) erfc(-i z)."""
    a, b = faddeeva(abs(x), abs(y))
    if y < 0.0:
        p, q = exp_of_square(x, y)
        return 2.0 * p - a, 2.0 * q + math.copysign(b, x)
    return a, math.copysign(b, x)


def wofz_real(x, y):
    real, _ = wofz(x, y)
    return real


def wofz_imaginary(x, y):
    _, imaginary = wofz(x, y)
    return imaginary


def erfcx_real(x, y):
    real, _ = wofz(-y, x)
    return real


def erfcx_imaginary(x, y):
    _, imaginary = wofz(-y, x)
    return imaginary


def complex_erfc(x, y):
    """erfc of x >= 0."""
    a, b = faddeeva(abs(y), x)
    b = -math.copysign(b, y)
    p, q = exp_of_square(x, y)
    return complex_product(p, q, a, b)


def erfc_real(x, y):
    real, _ = complex_erfc(abs(x), y if x >= 0.0 else -y)
    return real if x >= 0.0 else 2.0 - real


def erfc_imaginary(x, y):
    _, imaginary = complex_erfc(abs(x), y if x >= 0.0 else -y)
    return imaginary if x >= 0.0 else -imaginary


def complex_erf(x, y):
    """By its series near 0; elsewhere of x >= 0 by erfc."""
    if x * x + y * y < 1.0:
        u = (x - y) * (x + y)
        v = 2.0 * x * y
        a, b = complex_polynomial(u, v, ERF_SERIES)
        return complex_product(x, y, a, b)
    a, b = complex_erfc(abs(x), y if x >= 0.0 else -y)
    if x >= 0.0:
        return 1.0 - a if x > 0.0 else x, -b
    return a - 1.0, b


def erf_real(x, y):
    real, _ = complex_erf(x, y)
    return real


def erf_imaginary(x, y):
    _, imaginary = complex_erf(x, y)
    return imaginary


def erfi_real(x, y):
    _, imaginary = complex_erf(-y, x)
    return imaginary


def erfi_imaginary(x, y):
    real, _ = complex_erf(-y, x)
    return -real


def complex_dawsn(x, y):
    """sqrt(pi) / 2 times exp(-z^2) erfi(z), or of y >= 0 i (exp(-z^2) - w(z))."""
    p, q = exp_of_square(x, y)
    if x * x + y * y < 1.0:
        c, d = complex_erf(-y, x)
        a, b = complex_product(p, q, d, -c)
        return HALF_SQRT_PI * a, HALF_SQRT_PI * b
    a, b = faddeeva(abs(x), abs(y))
    s = HALF_SQRT_PI if y >= 0.0 else -HALF_SQRT_PI
    return s * (math.copysign(b, x if y >= 0.0 else -x) - q), s * (p - a)


def dawsn_real(x, y):
    real, _ = complex_dawsn(x, y)
    return real


def dawsn_imaginary(x, y):
    _, imaginary = complex_dawsn(x, y)
    return imaginary


def erfi(x):
    """erf(i x) / i."""
    if x == 0.0:
        return x  # with its sign
    return erfi_real(x, 0.0) if abs(x) < 1.0 else math.copysign(exp_square_w(abs(x)), x)


def exp_square_w(x):
    """exp(x^2) times the imaginary part of w, which is Dawson's integral by 2 / sqrt(pi)."""
    if x > 27.0:
        return math.inf
    square = x * x
    y = math.exp(square) * (dawsn_from_1(x) / HALF_SQRT_PI)
    return y + y * square_rest(x, square) if y < math.inf else y


def dawsn_from_1(x):
    """Dawson's integral of x >= 1: its rule would cost digits on the axis."""
    if x < 2.5:
        y = horner((x - 1.75) / 0.75, DAWSN_1_2)
    elif x < 4.0:
        y = horner((x - 3.25) / 0.75, DAWSN_2_4)
    elif x < 6.0:
        y = horner(x - 5.0, DAWSN_4_6)
    else:
        r = 6.0 / x
        y = horner(2.0 * r * r - 1.0, DAWSN_6)
    return y / x


def dawsn(x):
    """Dawson's integral."""
    if x != x or x == 0.0:
        return x  # a zero with its sign
    if abs(x) < 1.0:
        return dawsn_real(x, 0.0)
    return math.copysign(dawsn_from_1(abs(x)), x)
