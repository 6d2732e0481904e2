"""Random arrays: one distribution is one device function, and two kernels run them all.

The idea. A *distribution* turns one Philox block (128 random bits, see philox.py) into 4 numbers of up to 32 bits, or
2 of 64. Element i of the result is number i % 4 of block first + i // 4, whatever the grid: see cpu/random.py, which
states the same numbers in the same way.

Versions, from simple to fast:

    each      one thread an element: computes the whole block and keeps one number of the four. Plain Numba: runs on
              any GPU and in the simulator.
    vectors   one thread a run of elements that fills 16 bytes (8 for one-byte types), RUNS such runs a thread; the
              four words are used, and a warp writes whole lines.

The floor is the bytes written: 4 an element for float32, 0.96 ms for 2^30 of them at 4.4 TB/s. Uniforms reach for
it; normals add a logarithm, a square root, a sine and a cosine for two numbers.

Distributions

    uniform    low + width u, u = the upper bits of a word, as many as the dtype holds exactly (float16: 11,
               bfloat16: 8, float32: 24, float64: 53), so u < 1 and every u is equally likely
    normal     Box-Muller: r = sqrt(-2 ln u), (r cos t, r sin t). The logarithm, sine and cosine are written out in
               fused multiply-adds, because libm's differ between CPU and GPU in the last bits: these do not
    bounded    integers below a bound, without bias: the upper half of word * bound (Lemire); the few words that
               would favour some results are rejected and drawn again from the next attempt's block
    below      word < threshold: Bernoulli

Permutations

    ranks      up to 1024: element i becomes the rank of its random 64-bit key among all; every order is equally
               likely (but for the 2^-45 chance of equal keys)
    bijection  beyond: 24 rounds of a small keyed cipher permute [0, 2^bits), and who lands outside [0, n) walks on.
               No sort, no memory but the result, any part of it computable alone. Orders are pseudo-random: not all
               n! can occur (no generator with 128 bits of key does better), and n = 4^k has even permutations only.

Sources: Lemire, "Fast random integer generation in an interval", TOMACS 2019; Mitchell et al., "Bandwidth-optimal
random shuffling for GPUs", TOPC 2022 (the cipher); Cephes and fdlibm (the polynomials).
"""

import functools
import math

import numpy as np
from numba import cuda, types

from ..core.dtypes import compute_dtype
from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan, Scalar
from .build import SIMULATOR, blocks, codec
from .philox import INLINE, RETRY, join, philox

THREADS = 256
RUNS = 4  # 16-byte runs a thread: enough work to hide the start of a block, and the round keys are computed once
RANKED = 1024  # `ranks` holds its keys in the shared memory of one block
CIPHER_ROUNDS = 24
UNIFORM_BITS = {"float32": 24, "float16": 11, "bfloat16": 8}  # as in cpu/random.py

if SIMULATOR:

    def float_bits(x):
        return x.view(np.int32 if x.dtype == np.float32 else np.int64)

    def bits_float(n):
        return n.view(np.float32 if n.dtype == np.int32 else np.float64)

    float_bits64, bits_float64 = float_bits, bits_float
else:
    from numba.cuda import libdevice

    from .rows import writer

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


# ------------------------------------------------------------------------------------------------ distributions
#
# Device functions (block, stream, key, a, b, c, v, e): the numbers of one Philox block into v[e], v[e + 1], ...;
# a, b, c are the parameters of the distribution. `each` and `vectors` below call them.


def uniform_of(dtype, T):
    """a = low, b = width, c unused."""
    if dtype == np.float64:

        @cuda.jit(device=True, **INLINE)
        def uniform64(block, stream, key, a, b, c, v, e):
            w0, w1, w2, w3 = philox(block, stream, key)
            scale = types.float64(2.0**-53)
            v[e] = cuda.fma(types.float64(join(w0, w1) >> types.uint64(11)) * scale, b, a)
            v[e + 1] = cuda.fma(types.float64(join(w2, w3) >> types.uint64(11)) * scale, b, a)

        return uniform64

    drop, scale = 32 - UNIFORM_BITS[dtype.name], np.float32(2.0 ** -UNIFORM_BITS[dtype.name])

    @cuda.jit(device=True, **INLINE)
    def uniform32(block, stream, key, a, b, c, v, e):
        w0, w1, w2, w3 = philox(block, stream, key)
        v[e] = cuda.fma(types.float32(w0 >> types.uint32(drop)) * scale, b, a)
        v[e + 1] = cuda.fma(types.float32(w1 >> types.uint32(drop)) * scale, b, a)
        v[e + 2] = cuda.fma(types.float32(w2 >> types.uint32(drop)) * scale, b, a)
        v[e + 3] = cuda.fma(types.float32(w3 >> types.uint32(drop)) * scale, b, a)

    return uniform32


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


def normal_of(dtype, T):
    """a = mean, b = standard deviation, c unused."""
    if dtype == np.float64:

        @cuda.jit(device=True, **INLINE)
        def normal64(block, stream, key, a, b, c, v, e):
            w0, w1, w2, w3 = philox(block, stream, key)
            z0, z1 = pair64(join(w0, w1), join(w2, w3))
            v[e] = cuda.fma(z0, b, a)
            v[e + 1] = cuda.fma(z1, b, a)

        return normal64

    @cuda.jit(device=True, **INLINE)
    def normal32(block, stream, key, a, b, c, v, e):
        w0, w1, w2, w3 = philox(block, stream, key)
        z0, z1 = pair32(w0, w1)
        z2, z3 = pair32(w2, w3)
        v[e] = cuda.fma(z0, b, a)
        v[e + 1] = cuda.fma(z1, b, a)
        v[e + 2] = cuda.fma(z2, b, a)
        v[e + 3] = cuda.fma(z3, b, a)

    return normal32


@cuda.jit(device=True, **INLINE)
def retried32(product, block, stream, key, lane, count, reject):
    """word * count, drawn again while its lower half is below `reject` = 2^32 mod count."""
    for _ in range(254):
        if (product & types.uint64(0xFFFFFFFF)) >= reject:
            break
        block += types.uint64(RETRY)
        w0, w1, w2, w3 = philox(block, stream, key)
        w = (w0 if lane == 0 else w1) if lane < 2 else (w2 if lane == 2 else w3)
        product = types.uint64(w) * count
    return product


@cuda.jit(device=True, **INLINE)
def retried64(value, block, stream, key, lane, last, mask):
    """The masked 64-bit word, drawn again while it exceeds `last`."""
    for _ in range(254):
        if value <= last:
            break
        block += types.uint64(RETRY)
        w0, w1, w2, w3 = philox(block, stream, key)
        value = (join(w0, w1) if lane == 0 else join(w2, w3)) & mask
    return value if value <= last else types.uint64(0)


def bounded32_of(dtype, T):
    """a = low, b = count (1 .. 2^32), c = 2^32 mod count; all uint64. The sum with low wraps as two's complement."""

    @cuda.jit(device=True, **INLINE)
    def bounded32(block, stream, key, a, b, c, v, e):
        w0, w1, w2, w3 = philox(block, stream, key)
        p0 = retried32(types.uint64(w0) * b, block, stream, key, 0, b, c)
        p1 = retried32(types.uint64(w1) * b, block, stream, key, 1, b, c)
        p2 = retried32(types.uint64(w2) * b, block, stream, key, 2, b, c)
        p3 = retried32(types.uint64(w3) * b, block, stream, key, 3, b, c)
        v[e] = T((p0 >> types.uint64(32)) + a)
        v[e + 1] = T((p1 >> types.uint64(32)) + a)
        v[e + 2] = T((p2 >> types.uint64(32)) + a)
        v[e + 3] = T((p3 >> types.uint64(32)) + a)

    return bounded32


def bounded64_of(dtype, T):
    """a = low, b = last (count - 1), c = mask of the bits of `last`; all uint64."""

    @cuda.jit(device=True, **INLINE)
    def bounded64(block, stream, key, a, b, c, v, e):
        w0, w1, w2, w3 = philox(block, stream, key)
        v[e] = T(retried64(join(w0, w1) & c, block, stream, key, 0, b, c) + a)
        v[e + 1] = T(retried64(join(w2, w3) & c, block, stream, key, 1, b, c) + a)

    return bounded64


def below_of(dtype, T):
    """a = threshold (uint64, 0 .. 2^32); b, c unused."""

    @cuda.jit(device=True, **INLINE)
    def below(block, stream, key, a, b, c, v, e):
        w0, w1, w2, w3 = philox(block, stream, key)
        v[e] = T(types.uint64(w0) < a)
        v[e + 1] = T(types.uint64(w1) < a)
        v[e + 2] = T(types.uint64(w2) < a)
        v[e + 3] = T(types.uint64(w3) < a)

    return below


# ------------------------------------------------------------------------------------- the two kernels of draws


@functools.cache
def each(distribution, dtype, E):
    """out: (n,) dtype; key, stream, first, and a, b, c: scalars. One thread an element."""
    _, store, T = codec(dtype)
    numbers = distribution(dtype, T)

    @cuda.jit
    def each(out, key, stream, first, a, b, c):
        i = cuda.grid(1)
        if i < out.size:
            v = cuda.local.array(E, T)
            numbers(first + types.uint64(i // E), stream, key, a, b, c, v, 0)
            out[i] = store(v[i % E])

    return each


@functools.cache
def vectors(distribution, dtype, E):
    """out: (n,) dtype, 16-byte aligned; the other arguments as in `each`. RUNS runs a thread, one line a warp."""
    _, store, T = codec(dtype)
    numbers = distribution(dtype, T)
    width = run_width(dtype)
    G = max(E, width)  # elements a run
    write = writer(dtype, width)

    @cuda.jit
    def vectors(out, key, stream, first, a, b, c):
        v = cuda.local.array(G, T)
        for run in range(RUNS):
            i = ((cuda.blockIdx.x * RUNS + run) * THREADS + cuda.threadIdx.x) * G
            if i < out.size:
                for e in range(0, G, E):
                    numbers(first + types.uint64((i + e) // E), stream, key, a, b, c, v, e)
                if i + G <= out.size:
                    for e in range(0, G, width):
                        write(out, i + e, v, e)
                else:
                    for e in range(G):
                        if i + e < out.size:
                            out[i + e] = store(v[e])

    return vectors


def run_width(dtype):
    """Elements of one store: 16 bytes, 8 for one-byte types."""
    return min(16 // dtype.itemsize, 8)


def draw(distribution, out, E, kind, version="vectors"):
    """Plan: fill `out` from a distribution of E numbers a block. Scalars: key, stream, first, a, b, c (dtype kind)."""
    G = max(E, run_width(out.dtype))
    per_block = THREADS if version == "each" else THREADS * RUNS * G
    kernel = (each if version == "each" else vectors)(distribution, out.dtype, E)
    scalars = [Scalar(i, np.uint64) for i in range(3)] + [Scalar(3 + i, kind) for i in range(3)]
    return Plan([out], [Launch(kernel, blocks(out.size, per_block), THREADS, [Output(0).flat, *scalars])])


def lanes(dtype):
    """Floating-point numbers from one Philox block."""
    return 2 if dtype == np.float64 else 4


def uniform(*, shape, dtype, device, version="vectors"):
    """Planner. Scalars: key, stream, first block, low, high - low, 0."""
    return draw(uniform_of, Layout.new(shape, dtype, device), lanes(dtype), compute_dtype(dtype), version)


def normal(*, shape, dtype, device, version="vectors"):
    """Planner. Scalars: key, stream, first block, mean, standard deviation, 0."""
    return draw(normal_of, Layout.new(shape, dtype, device), lanes(dtype), compute_dtype(dtype), version)


def integers(*, shape, dtype, device, wide, version="vectors"):
    """Planner. Scalars: key, stream, first block, and a, b, c of bounded64 (wide: over 2^32 values) or bounded32."""
    out = Layout.new(shape, dtype, device)
    return draw(bounded64_of if wide else bounded32_of, out, 2 if wide else 4, np.uint64, version)


def bernoulli(*, shape, device, version="vectors"):
    """Planner. Scalars: key, stream, first block, threshold = probability times 2^32, 0, 0."""
    return draw(below_of, Layout.new(shape, np.dtype(np.bool_), device), 4, np.uint64, version)


# ------------------------------------------------------------------------------------------------- permutations


@cuda.jit
def ranks(out, key, stream, first, n):
    """out: (m,) int64, m <= n <= RANKED. One block of RANKED threads: out[i] = rank of key i among n keys."""
    keys = cuda.shared.array(RANKED, types.uint64)
    i = cuda.threadIdx.x
    count = types.int64(n)  # a comparison of int64 with uint64 would be one of float64
    mine = types.uint64(0)
    if i < count:
        w0, w1, w2, w3 = philox(first + types.uint64(i // 2), stream, key)
        mine = join(w0, w1) if i % 2 == 0 else join(w2, w3)
        keys[i] = mine
    cuda.syncthreads()
    if i < out.size:
        rank = 0
        for j in range(count):
            other = keys[j]  # the same word for the whole block: a broadcast
            if other < mine or (other == mine and j < i):
                rank += 1
        out[i] = rank


@cuda.jit
def bijection(out, key, stream, first, n, left_bits, right_bits):
    """out: (m,) int64, m <= n < 2^(left_bits + right_bits): out[i] = image of i under a permutation of [0, n).

    A number is cut into a left and a right part. Each round multiplies the left part by an odd constant; the low
    half of the product becomes the new right part, the high half, mixed with a round key and the old right part,
    the new left part. Every round can be undone, so the whole is one-to-one; values >= n go through it again.
    """
    round_keys = cuda.shared.array(CIPHER_ROUNDS, types.uint32)
    t = cuda.threadIdx.x
    if t < CIPHER_ROUNDS // 4:
        w0, w1, w2, w3 = philox(first + types.uint64(t), stream, key)
        round_keys[4 * t] = w0
        round_keys[4 * t + 1] = w1
        round_keys[4 * t + 2] = w2
        round_keys[4 * t + 3] = w3
    cuda.syncthreads()
    left_mask = types.uint32((types.uint64(1) << left_bits) - types.uint64(1))
    right_mask = types.uint32((types.uint64(1) << right_bits) - types.uint64(1))
    shift = right_bits - left_bits
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        value = types.uint64(i)
        outside = True
        while outside:
            left = types.uint32(value >> right_bits)
            right = types.uint32(types.uint32(value) & right_mask)
            for r in range(CIPHER_ROUNDS):
                low = types.uint64(left) * types.uint64(0xB1CE6E93)
                high = types.uint32(types.uint64(left) * types.uint64(0xD2B74407) + (low >> types.uint64(32)))
                joined = (types.uint64(types.uint32(low)) << shift) | (types.uint64(right) >> left_bits)
                left = types.uint32((high ^ round_keys[r] ^ right) & left_mask)
                right = types.uint32(types.uint32(joined) & right_mask)
            value = (types.uint64(left) << right_bits) | types.uint64(right)
            outside = value >= n
        out[i] = types.int64(value)


def permutation(*, count, ranked, bits, device):
    """Planner: the first `count` elements of a permutation of 0 .. n - 1. Scalars: key, stream, first block, n.

    ranked: n <= RANKED. Otherwise bits = (n - 1).bit_length().
    """
    out = Layout.new((count,), np.dtype(np.int64), device)
    scalars = [Scalar(i, np.uint64) for i in range(4)]
    if ranked:
        return Plan([out], [Launch(ranks, min(count, 1), RANKED, [Output(0), *scalars])])
    parts = [np.uint64(bits // 2), np.uint64(bits - bits // 2)]
    grid = min(blocks(count, THREADS), 4096)
    return Plan([out], [Launch(bijection, grid, THREADS, [Output(0), *scalars, *parts])])


# ------------------------------------------------------------------------------------------------- choice by weight


@cuda.jit
def choice_each(thresholds, out, key, stream, first):
    """thresholds: (k,) uint64, cumulative probabilities times 2^53; out: (n,) int64 indices in [0, k).

    The index of the first threshold above a number of 53 random bits, by bisection.
    """
    i = cuda.grid(1)
    if i < out.size:
        w0, w1, w2, w3 = philox(first + types.uint64(i // 2), stream, key)
        u = (join(w0, w1) if i % 2 == 0 else join(w2, w3)) >> types.uint64(11)
        low, high = 0, thresholds.size - 1
        while low < high:
            middle = (low + high) // 2
            if thresholds[middle] > u:
                high = middle
            else:
                low = middle + 1
        out[i] = low


def choice(thresholds, *, shape):
    """Planner: thresholds (k,) uint64 -> shape, int64. Scalars: key, stream, first block."""
    out = Layout.new(shape, np.dtype(np.int64), thresholds.device)
    scalars = [Scalar(i, np.uint64) for i in range(3)]
    return Plan([out], [Launch(choice_each, blocks(out.size, THREADS), THREADS, [Input(0), Output(0).flat, *scalars])])
