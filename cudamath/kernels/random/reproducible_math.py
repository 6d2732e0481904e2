"""Logarithm, exponential, sine, cosine and what random numbers make of them, written out in IEEE
operations.

libm's functions differ between CPU and GPU, and from one GPU library to the next, in their last
bits. These are fixed sequences of +, *, /, sqrt and fused multiply-adds, each of which IEEE 754
defines, so cpu/reproducible_math.py states the same functions and gets the same bits. Every
multiply-add is written as one `fma`: a GPU compiler would fuse them anyway.

Sources: Cephes (float32) and fdlibm (float64): the polynomials.
"""

import math

import numpy as np

from ..compiler.lazy_numba import SIMULATOR, cuda, libdevice, types
from ..lib.philox import INLINE

if SIMULATOR:

    def float_bits(x):
        return x.view(np.int32 if x.dtype == np.float32 else np.int64)

    def bits_float(n):
        return n.view(np.float32 if n.dtype == np.int32 else np.float64)

    float_bits64, bits_float64 = float_bits, bits_float
    root32 = math.sqrt
else:
    from ..ptx.sm80 import rsqrt

    float_bits, bits_float = libdevice.float_as_int, libdevice.int_as_float
    float_bits64, bits_float64 = libdevice.double_as_longlong, libdevice.longlong_as_double

    @cuda.jit(device=True, forceinline=True)
    def root32(x):
        """sqrt(x) rounded correctly, x: 0 or a normal float32 of moderate size.

        What math.sqrt does, less its branch for all other numbers, which would keep neighbouring
        runs apart.
        """
        r = rsqrt(max(x, types.float32(1e-30)))  # finite for 0 as well
        y = x * r
        return cuda.fma(cuda.fma(-y, y, x), types.float32(0.5) * r, y)


# -------------------- float32


def near32(factor):
    """Device function (power, f) -> factor ln(2^(power / 2^23) (1 + f)), 1 + f in sqrt(1/2) ..
    sqrt(2). Of a factor that is a power of two, perhaps negative, all constants are multiples: no
    rounding changes, and no multiplication is left."""
    series = tuple(
        np.float32(factor * c)
        for c in (
            7.0376836292e-2,
            -1.1514610310e-1,
            1.1676998740e-1,
            -1.2420140846e-1,
            1.4249322787e-1,
            -1.6668057665e-1,
            2.0000714765e-1,
            -2.4999993993e-1,
            3.3333331174e-1,
        )
    )
    first, degree, one, half = (
        series[0],
        len(series) - 1,
        np.float32(factor),
        np.float32(-0.5 * factor),
    )
    low, high = (
        np.float32(factor * c * 2.0**-23) for c in (-2.12194440e-4, 0.693359375)
    )  # ln 2 in two parts

    @cuda.jit(device=True, **INLINE)
    def near(power, f):
        z = f * f
        p = first
        for k in range(degree):
            p = cuda.fma(p, f, series[k + 1])
        y = cuda.fma(power, low, (p * f) * z)
        y = cuda.fma(half, z, y)
        return cuda.fma(power, high, cuda.fma(one, f, y))

    return near


def logarithm32(near):
    """Device function x -> near of x, a normal float32."""

    @cuda.jit(device=True, **INLINE)
    def logarithm(x):
        bits = types.int32(
            float_bits(x) - types.int32(0x3F3504F3)
        )  # of sqrt(1/2): the mantissa is to be above it
        power = types.int32(bits & types.int32(-0x800000))  # the exponent, where it stands
        f = bits_float(types.int32(float_bits(x) - power)) - types.float32(1)
        return near(types.float32(power), f)

    return logarithm


log_near32 = near32(1)
log32, minus_two_log32 = logarithm32(log_near32), logarithm32(near32(-2))


@cuda.jit(device=True, **INLINE)
def log_rest32(m):
    """ln(1 - m), m in 0 .. 1/2: with all its digits where m is small."""
    if m < types.float32(0.29):
        return log_near32(types.float32(0), -m)
    return log_near32(types.float32(-(2.0**23)), cuda.fma(types.float32(-2), m, types.float32(1)))


@cuda.jit(device=True, **INLINE)
def sincos32(turn):
    """sin and cos of 2 pi turn / 2^32, turn: uint32. The angle is reduced in integers: exactly.

    Signs are set in the bits: fewer instructions than a choice between two values.
    """
    nearest = types.uint32(
        turn + types.uint32(0x20000000)
    )  # bits 31 and 30: the nearest quarter of the circle
    rest = types.int32(types.uint32(turn << types.uint32(2)))  # from there, times 4
    x = types.float32(rest) * types.float32(1.4629180792671596e-09 / 4)  # 2 pi / 2^34
    z = x * x
    p = cuda.fma(types.float32(-1.9515295891e-4), z, types.float32(8.3321608736e-3))
    p = cuda.fma(p, z, types.float32(-1.6666654611e-1))
    s = cuda.fma(p * z, x, x)
    p = cuda.fma(types.float32(2.443315711809948e-5), z, types.float32(-1.388731625493765e-3))
    p = cuda.fma(p, z, types.float32(4.166664568298827e-2))
    c = cuda.fma(p * z, z, cuda.fma(types.float32(-0.5), z, types.float32(1)))
    if nearest & types.uint32(0x40000000):
        s, c = c, s
    below = types.int32(nearest & types.uint32(0x80000000))
    left = types.int32(
        types.uint32(turn + types.uint32(0x60000000)) & types.uint32(0x80000000)
    )  # bits 31 and 30 differ
    s, c = (
        bits_float(types.int32(float_bits(s) ^ below)),
        bits_float(types.int32(float_bits(c) ^ left)),
    )
    return s, c


# -------------------- float64


@cuda.jit(device=True, **INLINE)
def log_near64(e, f):
    """ln(2^e (1 + f)), 1 + f in sqrt(1/2) .. sqrt(2)."""
    h = types.float64(0.5) * f
    s = f / (types.float64(2) + f)
    z = s * s
    w = z * z
    even = cuda.fma(
        types.float64(1.531383769920937332e-1), w, types.float64(2.222219843214978396e-1)
    )
    even = cuda.fma(even, w, types.float64(3.999999999940941908e-1)) * w
    odd = cuda.fma(
        types.float64(1.479819860511658591e-1), w, types.float64(1.818357216161805012e-1)
    )
    odd = cuda.fma(odd, w, types.float64(2.857142874366239149e-1))
    odd = cuda.fma(odd, w, types.float64(6.666666666666735130e-1))
    y = s * cuda.fma(h, f, cuda.fma(odd, z, even))
    y = cuda.fma(e, types.float64(1.90821492927058770002e-10), y)
    return cuda.fma(e, types.float64(6.93147180369123816490e-1), f + cuda.fma(-h, f, y))


@cuda.jit(device=True, **INLINE)
def log64(x):
    """ln(x), x: normal float64."""
    bits = float_bits64(x) + types.int64(0x3FF0000000000000 - 0x3FE6A09E00000000)
    e = types.float64((bits >> types.int64(52)) - types.int64(1023))
    f = bits_float64(
        (bits & types.int64(0xFFFFFFFFFFFFF)) + types.int64(0x3FE6A09E00000000)
    ) - types.float64(1)
    return log_near64(e, f)


@cuda.jit(device=True, **INLINE)
def log_rest64(m):
    """ln(1 - m), m in 0 .. 1/2: with all its digits where m is small."""
    if m < types.float64(0.29):
        return log_near64(types.float64(0), -m)
    return log_near64(types.float64(-1), cuda.fma(types.float64(-2), m, types.float64(1)))


@cuda.jit(device=True, **INLINE)
def exp64(x):
    """exp(x), |x| < 700: 2^n times the Taylor series of what is left, within 1/2 ln 2."""
    big = types.float64(
        6755399441055744.0
    )  # 1.5 * 2^52: adding and subtracting it rounds to an integer
    n = cuda.fma(x, types.float64(1.4426950408889634), big) - big
    r = cuda.fma(
        n,
        types.float64(-1.90821492927058770002e-10),
        cuda.fma(n, types.float64(-6.93147180369123816490e-1), x),
    )
    p = types.float64(1.6059043836821613e-10)  # 1 / 13!
    p = cuda.fma(p, r, types.float64(2.08767569878681e-09))
    p = cuda.fma(p, r, types.float64(2.505210838544172e-08))
    p = cuda.fma(p, r, types.float64(2.755731922398589e-07))
    p = cuda.fma(p, r, types.float64(2.7557319223985893e-06))
    p = cuda.fma(p, r, types.float64(2.48015873015873e-05))
    p = cuda.fma(p, r, types.float64(0.0001984126984126984))
    p = cuda.fma(p, r, types.float64(0.001388888888888889))
    p = cuda.fma(p, r, types.float64(0.008333333333333333))
    p = cuda.fma(p, r, types.float64(0.041666666666666664))
    p = cuda.fma(p, r, types.float64(0.16666666666666666))
    p = cuda.fma(p, r, types.float64(0.5))
    p = cuda.fma(p, r, types.float64(1))
    p = cuda.fma(p, r, types.float64(1))
    return p * bits_float64((types.int64(n) + types.int64(1023)) << types.int64(52))


@cuda.jit(device=True, **INLINE)
def sincos64(turn):
    """sin and cos of 2 pi turn / 2^64, turn: uint64."""
    quarter = (turn >> types.uint64(61)) + types.uint64(1) >> types.uint64(
        1
    )  # the nearest; 4 stands for 0
    rest = types.int64(turn << types.uint64(2)) >> types.int64(2)  # within 1/8 turn of it
    x = types.float64(rest) * types.float64(3.4061215800865545e-19)  # 2 pi / 2^64
    z = x * x
    p = cuda.fma(
        types.float64(1.58969099521155010221e-10), z, types.float64(-2.50507602534068634195e-8)
    )
    p = cuda.fma(p, z, types.float64(2.75573137070700676789e-6))
    p = cuda.fma(p, z, types.float64(-1.98412698298579493134e-4))
    p = cuda.fma(p, z, types.float64(8.33333333332248946124e-3))
    p = cuda.fma(p, z, types.float64(-1.66666666666666324348e-1))
    s = cuda.fma(p * z, x, x)
    p = cuda.fma(
        types.float64(-1.13596475577881948265e-11), z, types.float64(2.08757232129817482790e-9)
    )
    p = cuda.fma(p, z, types.float64(-2.75573143513906633035e-7))
    p = cuda.fma(p, z, types.float64(2.48015872894767294178e-5))
    p = cuda.fma(p, z, types.float64(-1.38888888888741095749e-3))
    p = cuda.fma(p, z, types.float64(4.16666666666666019037e-2))
    c = cuda.fma(p * z, z, cuda.fma(types.float64(-0.5), z, types.float64(1)))
    if quarter & types.uint64(1):
        s, c = c, -s
    if quarter & types.uint64(2):
        s, c = -s, -c
    return s, c


@cuda.jit(device=True, **INLINE)
def pair32(w0, w1):
    """Two standard normals (float32) from two words."""
    u = cuda.fma(types.float32(w0), types.float32(2.0**-32), types.float32(2.0**-33))  # 2^-33 .. 1
    r = root32(minus_two_log32(u))
    s, c = sincos32(w1)
    return r * c, r * s


@cuda.jit(device=True, **INLINE)
def pair64(w0, w1):
    """Two standard normals (float64) from two 64-bit words."""
    u = types.float64((w0 >> types.uint64(11)) + types.uint64(1)) * types.float64(
        2.0**-53
    )  # 2^-53 .. 1
    r = math.sqrt(types.float64(-2) * log64(u))
    s, c = sincos64(w1)
    return r * c, r * s


# -------------------- one number from one word
#
# A word stands for u, uniform between 0 and 1. Near 1 a float has few digits, so what a
# distribution has far out there is computed from m = 1 - u instead: both tails have all their
# digits, to 2^-33 (float64: 2^-54) of probability. Device functions (word, c) -> number; c is the
# parameter of the shape, where there is one.


@cuda.jit(device=True, **INLINE)
def nearer32(w):
    """(m, upper): u = m if not upper, else 1 - m; m in 2^-33 .. 1/2."""
    upper = w >= types.uint32(0x80000000)
    rest = types.uint32(w ^ types.uint32(0xFFFFFFFF)) if upper else w
    return cuda.fma(types.float32(rest), types.float32(2.0**-32), types.float32(2.0**-33)), upper


@cuda.jit(device=True, **INLINE)
def nearer64(w):
    """(m, upper) as above, of the word's upper 53 bits; m in 2^-54 .. 1/2."""
    upper = w >= types.uint64(1 << 63)
    rest = types.uint64(w ^ types.uint64(0xFFFFFFFFFFFFFFFF)) if upper else w
    return cuda.fma(
        types.float64(rest >> types.uint64(11)), types.float64(2.0**-53), types.float64(2.0**-54)
    ), upper


def tails(nearer, log, log_rest, sincos, odd):
    """The functions for float32 or float64. odd: 1 in the type of a word."""

    @cuda.jit(device=True, **INLINE)
    def exponential(w, c):
        m, upper = nearer(w)
        return -log_rest(m) if upper else -log(m)

    @cuda.jit(device=True, **INLINE)
    def laplace(w, c):
        m, upper = nearer(w)
        far = log(m + m)
        return -far if upper else far

    @cuda.jit(device=True, **INLINE)
    def logistic(w, c):
        m, upper = nearer(w)
        far = log(m) - log_rest(m)
        return -far if upper else far

    @cuda.jit(device=True, **INLINE)
    def gumbel(w, c):
        return -log(exponential(w, c))

    @cuda.jit(device=True, **INLINE)
    def rayleigh(w, c):
        e = exponential(w, c)
        return math.sqrt(e + e)

    @cuda.jit(device=True, **INLINE)
    def weibull(w, c):
        return math.exp(log(exponential(w, c)) * c)  # c = 1 / a

    @cuda.jit(device=True, **INLINE)
    def pareto(w, c):
        return math.expm1(exponential(w, c) * c)  # c = 1 / a

    @cuda.jit(device=True, **INLINE)
    def cauchy(w, c):
        s, co = sincos(w | odd)  # an odd multiple of the smallest angle: the cosine is never 0
        return s / co

    return {
        "exponential": exponential,
        "laplace": laplace,
        "logistic": logistic,
        "gumbel": gumbel,
        "rayleigh": rayleigh,
        "weibull": weibull,
        "pareto": pareto,
        "cauchy": cauchy,
    }


TAILS32 = tails(nearer32, log32, log_rest32, sincos32, np.uint32(1))
TAILS64 = tails(nearer64, log64, log_rest64, sincos64, np.uint64(1))
