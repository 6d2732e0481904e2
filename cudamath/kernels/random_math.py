"""Logarithm, exponential, sine, cosine and what random numbers make of them, written out in IEEE operations.

libm's functions differ between CPU and GPU, and from one GPU library to the next, in their last bits. These are fixed
sequences of +, *, /, sqrt and fused multiply-adds, each of which IEEE 754 defines, so cpu/random_math.py states the same
functions and gets the same bits. Every multiply-add is written as one `fma`: a GPU compiler would fuse them anyway.

Sources: Cephes (float32) and fdlibm (float64): the polynomials.
"""

import math

import numpy as np
from numba import cuda, types

from .build import SIMULATOR
from .philox import INLINE

if SIMULATOR:

    def float_bits(x):
        return x.view(np.int32 if x.dtype == np.float32 else np.int64)

    def bits_float(n):
        return n.view(np.float32 if n.dtype == np.int32 else np.float64)

    float_bits64, bits_float64 = float_bits, bits_float
else:
    from numba.cuda import libdevice

    float_bits, bits_float = libdevice.float_as_int, libdevice.int_as_float
    float_bits64, bits_float64 = libdevice.double_as_longlong, libdevice.longlong_as_double


# ------------------------------------------------------------------------------ logarithm, sine and cosine


@cuda.jit(device=True, **INLINE)
def log32(x):
    """ln(x), x: normal float32."""
    bits = types.int32(float_bits(x) + types.int32(0x3F800000 - 0x3F3504F3))  # mantissa in sqrt(1/2) .. sqrt(2)
    e = types.float32(types.int32(bits >> types.int32(23)) - types.int32(127))
    f = bits_float(types.int32((bits & types.int32(0x7FFFFF)) + types.int32(0x3F3504F3))) - types.float32(1)
    z = f * f
    p = types.float32(7.0376836292e-2)
    p = cuda.fma(p, f, types.float32(-1.1514610310e-1))
    p = cuda.fma(p, f, types.float32(1.1676998740e-1))
    p = cuda.fma(p, f, types.float32(-1.2420140846e-1))
    p = cuda.fma(p, f, types.float32(1.4249322787e-1))
    p = cuda.fma(p, f, types.float32(-1.6668057665e-1))
    p = cuda.fma(p, f, types.float32(2.0000714765e-1))
    p = cuda.fma(p, f, types.float32(-2.4999993993e-1))
    p = cuda.fma(p, f, types.float32(3.3333331174e-1))
    y = (p * f) * z
    y = cuda.fma(e, types.float32(-2.12194440e-4), y)  # ln 2 in two parts
    y = cuda.fma(types.float32(-0.5), z, y)
    return cuda.fma(e, types.float32(0.693359375), f + y)


@cuda.jit(device=True, **INLINE)
def sincos32(turn):
    """sin and cos of 2 pi turn / 2^32, turn: uint32. The angle is reduced in integers: exactly."""
    quarter = (turn >> types.uint32(29)) + types.uint32(1) >> types.uint32(1)  # the nearest; 4 stands for 0
    rest = types.int32(types.int32(types.uint32(turn << types.uint32(2))) >> types.int32(2))  # within 1/8 turn of it
    x = types.float32(rest) * types.float32(1.4629180792671596e-09)  # 2 pi / 2^32
    z = x * x
    p = cuda.fma(types.float32(-1.9515295891e-4), z, types.float32(8.3321608736e-3))
    p = cuda.fma(p, z, types.float32(-1.6666654611e-1))
    s = cuda.fma(p * z, x, x)
    p = cuda.fma(types.float32(2.443315711809948e-5), z, types.float32(-1.388731625493765e-3))
    p = cuda.fma(p, z, types.float32(4.166664568298827e-2))
    c = cuda.fma(p * z, z, cuda.fma(types.float32(-0.5), z, types.float32(1)))
    if quarter & types.uint32(1):
        s, c = c, -s
    if quarter & types.uint32(2):
        s, c = -s, -c
    return s, c


@cuda.jit(device=True, **INLINE)
def log64(x):
    """ln(x), x: normal float64."""
    bits = float_bits64(x) + types.int64(0x3FF0000000000000 - 0x3FE6A09E00000000)
    e = types.float64((bits >> types.int64(52)) - types.int64(1023))
    f = bits_float64((bits & types.int64(0xFFFFFFFFFFFFF)) + types.int64(0x3FE6A09E00000000)) - types.float64(1)
    h = types.float64(0.5) * f
    s = f / (types.float64(2) + f)
    z = s * s
    w = z * z
    even = cuda.fma(types.float64(1.531383769920937332e-1), w, types.float64(2.222219843214978396e-1))
    even = cuda.fma(even, w, types.float64(3.999999999940941908e-1)) * w
    odd = cuda.fma(types.float64(1.479819860511658591e-1), w, types.float64(1.818357216161805012e-1))
    odd = cuda.fma(odd, w, types.float64(2.857142874366239149e-1))
    odd = cuda.fma(odd, w, types.float64(6.666666666666735130e-1))
    y = s * cuda.fma(h, f, cuda.fma(odd, z, even))
    y = cuda.fma(e, types.float64(1.90821492927058770002e-10), y)
    return cuda.fma(e, types.float64(6.93147180369123816490e-1), f + cuda.fma(-h, f, y))


@cuda.jit(device=True, **INLINE)
def sincos64(turn):
    """sin and cos of 2 pi turn / 2^64, turn: uint64."""
    quarter = (turn >> types.uint64(61)) + types.uint64(1) >> types.uint64(1)  # the nearest; 4 stands for 0
    rest = types.int64(turn << types.uint64(2)) >> types.int64(2)  # within 1/8 turn of it
    x = types.float64(rest) * types.float64(3.4061215800865545e-19)  # 2 pi / 2^64
    z = x * x
    p = cuda.fma(types.float64(1.58969099521155010221e-10), z, types.float64(-2.50507602534068634195e-8))
    p = cuda.fma(p, z, types.float64(2.75573137070700676789e-6))
    p = cuda.fma(p, z, types.float64(-1.98412698298579493134e-4))
    p = cuda.fma(p, z, types.float64(8.33333333332248946124e-3))
    p = cuda.fma(p, z, types.float64(-1.66666666666666324348e-1))
    s = cuda.fma(p * z, x, x)
    p = cuda.fma(types.float64(-1.13596475577881948265e-11), z, types.float64(2.08757232129817482790e-9))
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
    r = math.sqrt(types.float32(-2) * log32(u))
    s, c = sincos32(w1)
    return r * c, r * s


@cuda.jit(device=True, **INLINE)
def pair64(w0, w1):
    """Two standard normals (float64) from two 64-bit words."""
    u = types.float64((w0 >> types.uint64(11)) + types.uint64(1)) * types.float64(2.0**-53)  # 2^-53 .. 1
    r = math.sqrt(types.float64(-2) * log64(u))
    s, c = sincos64(w1)
    return r * c, r * s
