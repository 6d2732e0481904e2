"""Logarithm, exponential, sine and cosine, and the transforms of random numbers: the functions of
kernels/random/reproducible_math.py.

They are fixed sequences of operations that IEEE 754 defines (+, *, /, sqrt and fma). libm's
functions differ from machine to machine, and this package draws the same numbers on all. The
float32 functions follow Cephes, the float64 functions fdlibm, in fused form. Only Weibull and
Pareto numbers end in a function of libm.
"""

import numpy as np
from llvmlite import ir

from .lib.llvm_compiler import emitted
from .lib.llvm_numbers import FLOAT32, FLOAT64, INT64, Number, cast, common, number

_INT32 = np.dtype(np.int32)


@emitted
def fma(b, x, y, z):
    """x * y + z with one rounding: one instruction where the CPU has it (every one since 2013)."""
    dtype = FLOAT32
    for each in (x, y, z):
        dtype = common(dtype, number(each).dtype)
    return Number(dtype, b.fma(*[cast(b, each, dtype).value for each in (x, y, z)]))


@emitted
def float_bits(b, x):
    """The bits of a float32 or float64 as a signed integer of the same width."""
    bits = _INT32 if x.dtype == FLOAT32 else INT64
    return Number(bits, b.bitcast(x.value, ir.IntType(8 * bits.itemsize)))


@emitted
def bits_float(b, n):
    """The float32 or float64 that has the bits of this int32 or int64."""
    if n.dtype == _INT32:
        return Number(FLOAT32, b.bitcast(n.value, ir.FloatType()))
    return Number(FLOAT64, b.bitcast(n.value, ir.DoubleType()))


def log_near32(e, f):
    """ln(2^e (1 + f)), 1 + f in sqrt(1/2) .. sqrt(2)."""
    z = f * f
    p = np.float32(7.0376836292e-2)
    p = fma(p, f, np.float32(-1.1514610310e-1))
    p = fma(p, f, np.float32(1.1676998740e-1))
    p = fma(p, f, np.float32(-1.2420140846e-1))
    p = fma(p, f, np.float32(1.4249322787e-1))
    p = fma(p, f, np.float32(-1.6668057665e-1))
    p = fma(p, f, np.float32(2.0000714765e-1))
    p = fma(p, f, np.float32(-2.4999993993e-1))
    p = fma(p, f, np.float32(3.3333331174e-1))
    y = (p * f) * z
    y = fma(e, np.float32(-2.12194440e-4), y)  # ln 2 in two parts
    y = fma(np.float32(-0.5), z, y)
    return fma(e, np.float32(0.693359375), f + y)


def log32(x):
    """ln(x), x: normal float32."""
    bits = np.int32(
        float_bits(x) + np.int32(0x3F800000 - 0x3F3504F3)
    )  # mantissa in sqrt(1/2) .. sqrt(2)
    e = np.float32(np.int32(bits >> np.int32(23)) - np.int32(127))
    f = bits_float(np.int32((bits & np.int32(0x7FFFFF)) + np.int32(0x3F3504F3))) - np.float32(1)
    return log_near32(e, f)


def log_rest32(m):
    """ln(1 - m), m in 0 .. 1/2: with all its digits where m is small."""
    if m < np.float32(0.29):
        return log_near32(np.float32(0), -m)
    return log_near32(np.float32(-1), fma(np.float32(-2), m, np.float32(1)))


def sincos32(turn):
    """sin and cos of 2 pi turn / 2^32, turn uint32: the angle is reduced exactly, in integers."""
    quarter = (turn >> np.uint32(29)) + np.uint32(1) >> np.uint32(1)  # the nearest; 4 stands for 0
    rest = np.int32(
        np.int32(np.uint32(turn << np.uint32(2))) >> np.int32(2)
    )  # within 1/8 turn of it
    x = np.float32(rest) * np.float32(1.4629180792671596e-09)  # 2 pi / 2^32
    z = x * x
    p = fma(np.float32(-1.9515295891e-4), z, np.float32(8.3321608736e-3))
    p = fma(p, z, np.float32(-1.6666654611e-1))
    s = fma(p * z, x, x)
    p = fma(np.float32(2.443315711809948e-5), z, np.float32(-1.388731625493765e-3))
    p = fma(p, z, np.float32(4.166664568298827e-2))
    c = fma(p * z, z, fma(np.float32(-0.5), z, np.float32(1)))
    if quarter & np.uint64(1):
        s, c = c, -s
    if quarter & np.uint64(2):
        s, c = -s, -c
    return s, c


def normal32(w0, w1):
    """Two independent standard normals (float32) from two words: Box-Muller."""
    u = fma(
        np.float32(w0), np.float32(2.0**-32), np.float32(2.0**-33)
    )  # in [2^-33, 1]: |result| <= 6.77
    r = np.sqrt(np.float32(-2) * log32(u))
    s, c = sincos32(w1)
    return r * c, r * s


def log_near64(e, f):
    """ln(2^e (1 + f)), 1 + f in sqrt(1/2) .. sqrt(2)."""
    h = 0.5 * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = fma(1.531383769920937332e-1, w, 2.222219843214978396e-1)
    even = fma(even, w, 3.999999999940941908e-1) * w
    odd = fma(1.479819860511658591e-1, w, 1.818357216161805012e-1)
    odd = fma(odd, w, 2.857142874366239149e-1)
    odd = fma(odd, w, 6.666666666666735130e-1)
    y = s * fma(h, f, fma(odd, z, even))
    y = fma(e, 1.90821492927058770002e-10, y)
    return fma(e, 6.93147180369123816490e-1, f + fma(-h, f, y))


def log64(x):
    """ln(x), x: normal float64."""
    bits = float_bits(x) + np.int64(0x3FF0000000000000 - 0x3FE6A09E00000000)
    e = np.float64((bits >> np.int64(52)) - np.int64(1023))
    f = bits_float((bits & np.int64(0xFFFFFFFFFFFFF)) + np.int64(0x3FE6A09E00000000)) - 1.0
    return log_near64(e, f)


def log_rest64(m):
    """ln(1 - m), m in 0 .. 1/2: with all its digits where m is small."""
    if m < 0.29:
        return log_near64(0.0, -m)
    return log_near64(-1.0, fma(-2.0, m, 1.0))


def exp64(x):
    """exp(x), |x| < 700: 2^n times the Taylor series of what is left, within 1/2 ln 2."""
    big = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to an integer
    n = fma(x, 1.4426950408889634, big) - big
    r = fma(n, -1.90821492927058770002e-10, fma(n, -6.93147180369123816490e-1, x))
    p = 1.6059043836821613e-10  # 1 / 13!
    p = fma(p, r, 2.08767569878681e-09)
    p = fma(p, r, 2.505210838544172e-08)
    p = fma(p, r, 2.755731922398589e-07)
    p = fma(p, r, 2.7557319223985893e-06)
    p = fma(p, r, 2.48015873015873e-05)
    p = fma(p, r, 0.0001984126984126984)
    p = fma(p, r, 0.001388888888888889)
    p = fma(p, r, 0.008333333333333333)
    p = fma(p, r, 0.041666666666666664)
    p = fma(p, r, 0.16666666666666666)
    p = fma(p, r, 0.5)
    p = fma(p, r, 1.0)
    p = fma(p, r, 1.0)
    return p * bits_float((np.int64(n) + np.int64(1023)) << np.int64(52))


def sincos64(turn):
    """sin and cos of 2 pi turn / 2^64, turn uint64 (fdlibm's polynomials)."""
    quarter = (turn >> np.uint64(61)) + np.uint64(1) >> np.uint64(1)
    rest = np.int64(turn << np.uint64(2)) >> np.int64(2)
    x = np.float64(rest) * 3.4061215800865545e-19  # 2 pi / 2^64
    z = x * x
    p = fma(1.58969099521155010221e-10, z, -2.50507602534068634195e-8)
    p = fma(p, z, 2.75573137070700676789e-6)
    p = fma(p, z, -1.98412698298579493134e-4)
    p = fma(p, z, 8.33333333332248946124e-3)
    p = fma(p, z, -1.66666666666666324348e-1)
    s = fma(p * z, x, x)
    p = fma(-1.13596475577881948265e-11, z, 2.08757232129817482790e-9)
    p = fma(p, z, -2.75573143513906633035e-7)
    p = fma(p, z, 2.48015872894767294178e-5)
    p = fma(p, z, -1.38888888888741095749e-3)
    p = fma(p, z, 4.16666666666666019037e-2)
    c = fma(p * z, z, fma(-0.5, z, 1.0))
    if quarter & np.uint64(1):
        s, c = c, -s
    if quarter & np.uint64(2):
        s, c = -s, -c
    return s, c


def normal64(w0, w1):
    """Two independent standard normals (float64) from two 64-bit words."""
    u = (
        np.float64((w0 >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    )  # in [2^-53, 1]: |result| <= 8.57
    r = np.sqrt(-2.0 * log64(u))
    s, c = sincos64(w1)
    return r * c, r * s


# -------------------- one number from one word
#
# A word stands for u, uniform between 0 and 1. Near 1 a float has few digits, so what a
# distribution has far out there is computed from m = 1 - u instead: both tails have all their
# digits, to 2^-33 (float64: 2^-54) of probability. c is the parameter of the shape, where there is
# one. TAILS numbers the distributions.


def nearer32(w):
    """(m, upper): u = m if not upper, else 1 - m; m in 2^-33 .. 1/2."""
    upper = w >= np.uint32(0x80000000)
    rest = np.uint32(w ^ np.uint32(0xFFFFFFFF)) if upper else w
    return fma(np.float32(rest), np.float32(2.0**-32), np.float32(2.0**-33)), upper


def nearer64(w):
    """(m, upper) as above, of the word's upper 53 bits; m in 2^-54 .. 1/2."""
    upper = w >= np.uint64(1 << 63)
    rest = np.uint64(w ^ np.uint64(0xFFFFFFFFFFFFFFFF)) if upper else w
    return fma(np.float64(rest >> np.uint64(11)), 2.0**-53, 2.0**-54), upper


TAILS = {
    "exponential": 0,
    "laplace": 1,
    "logistic": 2,
    "gumbel": 3,
    "rayleigh": 4,
    "weibull": 5,
    "pareto": 6,
    "cauchy": 7,
}


def tail32(kind, w, c):
    """The number that word w (uint32) stands for in a distribution of TAILS, float32. c:
    float32."""
    m, upper = nearer32(w)
    if kind == 1:
        far = log32(m + m)
        return -far if upper else far
    if kind == 2:
        far = log32(m) - log_rest32(m)
        return -far if upper else far
    if kind == 7:
        s, co = sincos32(
            w | np.uint32(1)
        )  # an odd multiple of the smallest angle: the cosine is never 0
        return s / co
    e = -log_rest32(m) if upper else -log32(m)  # exponential
    if kind == 3:
        return -log32(e)
    if kind == 4:
        return np.sqrt(e + e)
    if kind == 5:
        return np.exp(log32(e) * c)  # c = 1 / a
    if kind == 6:
        return np.expm1(e * c)  # c = 1 / a
    return e


def tail64(kind, w, c):
    """The same in float64, for a word of 64 bits."""
    m, upper = nearer64(w)
    if kind == 1:
        far = log64(m + m)
        return -far if upper else far
    if kind == 2:
        far = log64(m) - log_rest64(m)
        return -far if upper else far
    if kind == 7:
        s, co = sincos64(w | np.uint64(1))
        return s / co
    e = -log_rest64(m) if upper else -log64(m)
    if kind == 3:
        return -log64(e)
    if kind == 4:
        return np.sqrt(e + e)
    if kind == 5:
        return np.exp(log64(e) * c)
    if kind == 6:
        return np.expm1(e * c)
    return e
