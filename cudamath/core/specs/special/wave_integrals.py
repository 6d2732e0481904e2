"""Incomplete elliptic integrals, and the integrals of sines and cosines, circular and hyperbolic.

Formulas: DLMF 19.25, 19.36 (B. C. Carlson's symmetric integrals, by duplication), 6.6 and 6.2.
"""

from __future__ import annotations

import math

from .integrals import EULER, ellipe, ellipk, exp1, expi, half_of_expi
from .polynomials import horner
from .rounding import floor
from .waves import cos_and_sin

PI_MIDDLE = 1.2246467991473532e-16  # with math.pi and this one pi has 159 bits
PI_LOW = -2.9947698097183397e-33
#: By the square, the highest power first.
EVEN_SERIES = tuple([1 / (2 * k * math.factorial(2 * k)) for k in range(12, 0, -1)])
ODD_SERIES = tuple([1 / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(11, -1, -1)])
#: The sine integral from 2 to 5, by numbers from -1 to 1; the cosine integral by its distance from
#: the root, which is two numbers: what interpolates them, by mpmath.
CI_ROOT, CI_ROOT_REST = 3.3841804225511862, 1.972125462363411e-16
SI_2_5 = (
    -2.872068358826739e-13,
    2.0981695201979567e-11,
    2.977841402529999e-11,
    -2.3251038122126883e-09,
    -2.0377295572444867e-09,
    1.8966330646615306e-07,
    7.06222483674697e-08,
    -1.120618750455339e-05,
    1.5448694990360699e-06,
    0.0004494019019925296,
    -0.00029845513113882196,
    -0.011016355581309612,
    0.013632702839536662,
    0.13317277558846397,
    -0.26878914898421946,
    -0.15033566900983703,
    1.833125398665997,
)
CI_2_5 = (
    -1.2620265556804264e-10,
    3.061631787089101e-10,
    1.3284603919127944e-11,
    -2.6186533022535257e-11,
    -1.9401073816817125e-09,
    4.749115213809743e-09,
    -8.656986957094711e-09,
    2.140803403547554e-08,
    -5.599501073028502e-08,
    1.3932292468776915e-07,
    -3.462445366251397e-07,
    8.704716203312146e-07,
    -2.2148766535285453e-06,
    5.591666185003468e-06,
    -1.3352446497823403e-05,
    3.7281833020826083e-05,
    -0.00014764108514810575,
    0.0002841778837561884,
    0.0008816105229824379,
    0.0003617139042949103,
    -0.03420377619796619,
    0.06511793231868185,
    0.12747396312994677,
    -0.2774017072086135,
)
#: x f(x) and x^2 g(x) from 5 on, by 1 / x^2, in the same way.
WAVE_F_P = (
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
WAVE_F_Q = (
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
WAVE_G_P = (
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
WAVE_G_Q = (
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
    if m == 0.0 or (phi == 0.0 and (m < 0.0 or m == 1.0)):  # a zero with its sign, as SciPy's
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
    """The sum of square^k / (2 k (2 k)!) over k = 1, 2, ..., |square| <= 4."""
    return square * horner(square, EVEN_SERIES)


def odd_series(square):
    """The sum of square^k / ((2 k + 1) (2 k + 1)!) over k = 0, 1, ..."""
    return horner(square, ODD_SERIES)


def wave_parts(x):
    """The auxiliary functions f and g of DLMF 6.2, x >= 5."""
    w = 1.0 / x
    u = w * w
    p = horner(u, WAVE_F_Q)
    q = horner(u, WAVE_G_Q)
    n = 1.0 / (p * q)
    return w * (horner(u, WAVE_F_P) * (q * n)), u * (horner(u, WAVE_G_P) * (p * n))


def sine_from_2(x):
    """The sine integral from 2 to 5."""
    return horner((x - 3.5) * 0.6666666666666666, SI_2_5)


def cosine_from_2(x):
    """The cosine integral from 2 to 5."""
    rest = (x - CI_ROOT) - CI_ROOT_REST
    return rest * horner((x - 3.5) * 0.6666666666666666, CI_2_5)


def sine_integral(x):
    """The integral of sin(t) / t from 0 to x."""
    if x != x:
        return x
    z = abs(x)
    if z <= 2.0:
        return x * odd_series(-z * z)
    if z <= 5.0:
        return math.copysign(sine_from_2(z), x)
    y = 1.5707963267948966
    if z < 1e17:
        f, g = wave_parts(z)
        c, s = cos_and_sin(z)
        y -= f * c + g * s
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
    if z <= 5.0:
        return cosine_from_2(z)
    if math.isinf(z):
        return 0.0
    c, s = cos_and_sin(z)
    if z >= 1e17:
        return s / z
    f, g = wave_parts(z)
    return f * s - g * c


def hyperbolic_sine_integral(x):
    """The integral of sinh(t) / t from 0 to x."""
    if x != x:
        return x
    z = abs(x)
    if z <= 2.0:
        return x * odd_series(z * z)
    if z > 700.0 and z < math.inf:  # exp1 is nothing beside it
        return math.copysign(half_of_expi(z), x)
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
    if z > 700.0 and z < math.inf:
        return half_of_expi(z)
    return 0.5 * (expi(z) - exp1(z))
