"""Random numbers that take an unknown number of tries: gamma, beta, Poisson, binomial, and integers
of bounds by element.

The idea. A rejection sampler proposes a number from an easy distribution and accepts it with the
probability that makes the result exact. How many words that takes depends on luck; on a running
stream it would shift all later numbers. Here element i has a subsequence of its own, of 255
attempts, counted in the upper byte of the Philox block number:

    words of attempt t of element i  =  block first + BLOCKS i,  + t 2^56          (BLOCKS = 1 to 3)

so it depends on nothing but (key, stream, first, i): any grid, any device. An attempt succeeds with
probability 0.7 to 0.98, so that 255 failures in a row are as likely as one in 10^130.

What decides (accept? which integer?) is computed in IEEE operations alone, every multiply-add
written as one fma, so that CPU and GPU decide alike; only powers for shapes below 1 come from the
libraries and may differ in their last bits. Poisson, binomial and integers compute in float64 or
int64; gamma and beta in the dtype of the result.

    gamma      Marsaglia and Tsang: d v, v = (1 + c x)^3, x normal. A shape below 1 draws at shape +
               1 and multiplies by
               u^(1 / shape). `log`: its logarithm, which neither underflows for small shapes nor
               loses digits.
    beta       x / (x + y) of two gamma numbers, drawn together: a block of words gives two normals.
               Where a shape is below 1,
               1 / (1 + exp(log y - log x)), because x and y may be too small for a float.
    poisson    mean below 10: the cumulative probabilities are searched with one uniform number, as
               far as they are
               above 1e-18; else PTRS.
    binomial   of min(p, 1 - p): n p below 10: the same search; else BTRS.
    bounded    low + a word masked to the bits of the span, again while it exceeds it.

One version, `each`: a thread an element. It is bound by arithmetic and by the divergence of lanes
that try again. On one H200 2^24 float64 gamma numbers take 402 us, beta numbers, two of them in
one, 625 (from logarithms of two draws 1,236; CuPy 846).

Sources: Marsaglia and Tsang, "A simple method for generating gamma variables", TOMS 2000; Hörmann,
"The transformed rejection method for generating Poisson random variables", 1993 (PTRS), and "The
generation of binomial random variates", 1993 (BTRS).
"""

import functools
import math

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.philox import INLINE, RETRY, beginning, counter, join, philox
from .reproducible_math import exp64, log32, log64, log_rest64, pair32, pair64

THREADS = 128
ATTEMPTS = 255
HALF_LOG_2PI = 0.9189385332046727


# -------------------- gamma


@cuda.jit(device=True, **INLINE)
def unit32(word):
    """A word -> a float32 in 2^-33 .. 1."""
    return cuda.fma(types.float32(word), types.float32(2.0**-32), types.float32(2.0**-33))


@cuda.jit(device=True, **INLINE)
def unit64(low, high):
    """Two words -> a float64 in 2^-54 .. 1."""
    bits = types.float64(join(low, high) >> types.uint64(11))
    return cuda.fma(bits, types.float64(2.0**-53), types.float64(2.0**-54))


@cuda.jit(device=True, **INLINE)
def tried32(x, u, c, d):
    """x normal, u in 0 .. 1 -> (1 + c x)^3 if that is accepted as a gamma number divided by d, else
    0.

    What is compared is x^4 / 108 d at most, but d times a rounding error wrong: beyond some d all
    are better accepted."""
    root = cuda.fma(c, x, types.float32(1))
    if not root > types.float32(0):
        return types.float32(0)
    square, xx = root * root, x * x
    v = square * root
    if d > types.float32(65536) or u < cuda.fma(types.float32(-0.0331) * xx, xx, types.float32(1)):
        return v
    rest = cuda.fma(-square, root, types.float32(1)) + log32(v)
    return v if log32(u) < cuda.fma(types.float32(0.5), xx, d * rest) else types.float32(0)


@cuda.jit(device=True, **INLINE)
def tried64(x, u, c, d):
    """The same in float64."""
    root = cuda.fma(c, x, types.float64(1))
    if not root > types.float64(0):
        return types.float64(0)
    square, xx = root * root, x * x
    v = square * root
    if d > types.float64(2.0**32) or u < cuda.fma(
        types.float64(-0.0331) * xx, xx, types.float64(1)
    ):
        return v
    rest = cuda.fma(-square, root, types.float64(1)) + log64(v)
    return v if log64(u) < cuda.fma(types.float64(0.5), xx, d * rest) else types.float64(0)


@cuda.jit(device=True, **INLINE)
def gamma32(block, stream, key, shape, unused, log):
    """shape: float32 >= 0 -> gamma of scale 1, or its logarithm."""
    small = shape < types.float32(1)
    d = (shape + types.float32(1) if small else shape) - types.float32(0.33333334)
    c = types.float32(1) / math.sqrt(types.float32(9) * d)
    v = last = types.float32(1)
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(block, stream, key)
        block += types.uint64(RETRY)
        x, _unused = pair32(w0, w1)
        last = unit32(w3)
        v = tried32(x, unit32(w2), c, d)
        if v > types.float32(0):
            break
    if log:
        return log32(d * v) + (log32(last) / shape if small else types.float32(0))
    return d * v * (math.exp(log32(last) / shape) if small else types.float32(1))


@cuda.jit(device=True, **INLINE)
def gamma64(block, stream, key, shape, unused, log):
    """shape: float64 >= 0 -> gamma of scale 1, or its logarithm. Two blocks an attempt."""
    small = shape < types.float64(1)
    d = (shape + types.float64(1) if small else shape) - types.float64(1 / 3)
    c = types.float64(1) / math.sqrt(types.float64(9) * d)
    v = last = types.float64(1)
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(block, stream, key)
        x, _unused = pair64(join(w0, w1), join(w2, w3))
        w0, w1, w2, w3 = philox(block + types.uint64(1), stream, key)
        block += types.uint64(RETRY)
        last = unit64(w2, w3)
        v = tried64(x, unit64(w0, w1), c, d)
        if v > types.float64(0):
            break
    if log:
        return log64(d * v) + (log64(last) / shape if small else types.float64(0))
    return d * v * (math.exp(log64(last) / shape) if small else types.float64(1))


# -------------------- beta


@cuda.jit(device=True, **INLINE)
def beta32(block, stream, key, a, b, log):
    """a, b: float32 > 0 -> a beta number. Two blocks: the first is drawn anew in each attempt, for
    the gamma number that is not accepted yet; the second is for shapes below 1."""
    one, third = types.float32(1), types.float32(0.33333334)
    d, e = (a + one if a < one else a) - third, (b + one if b < one else b) - third
    c, f = one / math.sqrt(types.float32(9) * d), one / math.sqrt(types.float32(9) * e)
    v = w = types.float32(0)
    place = block
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(place, stream, key)
        place += types.uint64(RETRY)
        x, y = pair32(w0, w1)
        if v == types.float32(0):
            v = tried32(x, unit32(w2), c, d)
        if w == types.float32(0):
            w = tried32(y, unit32(w3), f, e)
        if v > types.float32(0) and w > types.float32(0):
            break
    x, y = d * v, e * w
    if a >= one and b >= one:
        return x / (x + y)
    w0, w1, w2, w3 = philox(block + types.uint64(1), stream, key)
    x = log32(x) + (log32(unit32(w0)) / a if a < one else types.float32(0))
    y = log32(y) + (log32(unit32(w1)) / b if b < one else types.float32(0))
    return one / (one + math.exp(y - x))


@cuda.jit(device=True, **INLINE)
def beta64(block, stream, key, a, b, log):
    """The same in float64. Three blocks: two are drawn anew in each attempt."""
    one, third = types.float64(1), types.float64(1 / 3)
    d, e = (a + one if a < one else a) - third, (b + one if b < one else b) - third
    c, f = one / math.sqrt(types.float64(9) * d), one / math.sqrt(types.float64(9) * e)
    v = w = types.float64(0)
    place = block
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(place, stream, key)
        x, y = pair64(join(w0, w1), join(w2, w3))
        w0, w1, w2, w3 = philox(place + types.uint64(1), stream, key)
        place += types.uint64(RETRY)
        if v == types.float64(0):
            v = tried64(x, unit64(w0, w1), c, d)
        if w == types.float64(0):
            w = tried64(y, unit64(w2, w3), f, e)
        if v > types.float64(0) and w > types.float64(0):
            break
    x, y = d * v, e * w
    if a >= one and b >= one:
        return x / (x + y)
    w0, w1, w2, w3 = philox(block + types.uint64(2), stream, key)
    x = log64(x) + (log64(unit64(w0, w1)) / a if a < one else types.float64(0))
    y = log64(y) + (log64(unit64(w2, w3)) / b if b < one else types.float64(0))
    return one / (one + math.exp(y - x))


# -------------------- Poisson, binomial


@cuda.jit(device=True, **INLINE)
def centred64(low, high):
    """Two words -> a float64 strictly between -1/2 and 1/2."""
    bits = types.float64(join(low, high) >> types.uint64(11))
    return cuda.fma(bits, types.float64(2.0**-53), types.float64(2.0**-54 - 0.5))


@cuda.jit(device=True, **INLINE)
def log_factorial(k):
    """ln(k!), k: a whole float64 >= 0: by the product to 16, then by Stirling's series."""
    if k <= types.float64(16):
        product = types.float64(1)
        factor = types.float64(2)
        while factor <= k:
            product *= factor
            factor += types.float64(1)
        return log64(product)
    inverse = types.float64(1) / k
    z = inverse * inverse
    series = cuda.fma(z, types.float64(-1 / 1680), types.float64(1 / 1260))
    series = cuda.fma(cuda.fma(z, series, types.float64(-1 / 360)), z, types.float64(1 / 12))
    main = cuda.fma(k + types.float64(0.5), log64(k), -k)
    return cuda.fma(series, inverse, main + types.float64(HALF_LOG_2PI))


@cuda.jit(device=True, **INLINE)
def stirling_rest(k):
    """ln(k!) less its approximation (k + 1/2) ln(k + 1) - (k + 1) + ln(2 pi) / 2."""
    after = k + types.float64(1)
    if k <= types.float64(9):
        about = cuda.fma(k + types.float64(0.5), log64(after), types.float64(HALF_LOG_2PI) - after)
        return log_factorial(k) - about
    z = types.float64(1) / (after * after)
    series = cuda.fma(z, types.float64(1 / 1260), types.float64(-1 / 360))
    return cuda.fma(series, z, types.float64(1 / 12)) / after


@cuda.jit(device=True, **INLINE)
def poisson64(block, stream, key, mean, unused, log):
    """mean: float64 >= 0 -> a whole float64."""
    w0, w1, w2, w3 = philox(block, stream, key)
    k = types.float64(0)
    if mean < types.float64(10):
        u, p = unit64(w0, w1), exp64(-mean)
        while u > p and p > types.float64(1e-18):
            u -= p
            k += types.float64(1)
            p = p * mean / k
        return k
    b = cuda.fma(types.float64(2.53), math.sqrt(mean), types.float64(0.931))
    a = cuda.fma(types.float64(0.02483), b, types.float64(-0.059))
    accepted = types.float64(0.9277) - types.float64(3.6224) / (b - types.float64(2))
    height = log64(types.float64(1.1239) + types.float64(1.1328) / (b - types.float64(3.4)))
    log_mean = log64(mean)
    for _ in range(ATTEMPTS):
        u, v = centred64(w0, w1), unit64(w2, w3)
        us = types.float64(0.5) - abs(u)
        k = types.float64(math.floor(cuda.fma((a + a) / us + b, u, mean + types.float64(0.43))))
        if us >= types.float64(0.07) and v <= accepted:
            break
        if k >= types.float64(0) and (us >= types.float64(0.013) or v <= us):
            left = (log64(v) + height) - log64(a / (us * us) + b)
            if left <= cuda.fma(k, log_mean, -mean) - log_factorial(k):
                break
        block += types.uint64(RETRY)
        w0, w1, w2, w3 = philox(block, stream, key)
    return k


@cuda.jit(device=True, **INLINE)
def binomial64(block, stream, key, n, chance, log):
    """n: a whole float64 >= 0, chance: float64 in 0 .. 1 -> a whole float64."""
    swapped = chance > types.float64(0.5)
    p = types.float64(1) - chance if swapped else chance
    q = types.float64(1) - p
    odds = p / q
    w0, w1, w2, w3 = philox(block, stream, key)
    k = types.float64(0)
    if n * p < types.float64(10):
        u, chance_k = unit64(w0, w1), exp64(n * log_rest64(p))
        while u > chance_k and k < n and chance_k > types.float64(1e-18):
            u -= chance_k
            k += types.float64(1)
            chance_k = chance_k * (odds * (n - k + types.float64(1))) / k
    else:
        deviation = math.sqrt(n * p * q)
        b = cuda.fma(types.float64(2.53), deviation, types.float64(1.15))
        a = cuda.fma(
            types.float64(0.0248), b, cuda.fma(types.float64(0.01), p, types.float64(-0.0873))
        )
        centre = cuda.fma(n, p, types.float64(0.5))
        accepted = types.float64(0.92) - types.float64(4.2) / b
        alpha = (types.float64(2.83) + types.float64(5.1) / b) * deviation
        m = types.float64(math.floor((n + types.float64(1)) * p))
        beside = n - m + types.float64(1)
        height = cuda.fma(
            m + types.float64(0.5),
            log64((m + types.float64(1)) / (odds * beside)),
            stirling_rest(m) + stirling_rest(n - m),
        )
        for _ in range(ATTEMPTS):
            u, v = centred64(w0, w1), unit64(w2, w3)
            us = types.float64(0.5) - abs(u)
            k = types.float64(math.floor(cuda.fma((a + a) / us + b, u, centre)))
            if us >= types.float64(0.07) and v <= accepted:
                break
            if k >= types.float64(0) and k <= n:
                left = log64(v * alpha / (a / (us * us) + b))
                rest = n - k + types.float64(1)
                right = cuda.fma(n + types.float64(1), log64(beside / rest), height)
                right = cuda.fma(
                    k + types.float64(0.5), log64(odds * rest / (k + types.float64(1))), right
                )
                if left <= right - (stirling_rest(k) + stirling_rest(n - k)):
                    break
            block += types.uint64(RETRY)
            w0, w1, w2, w3 = philox(block, stream, key)
        k = min(max(k, types.float64(0)), n)
    return n - k if swapped else k


@cuda.jit(device=True, **INLINE)
def bounded64(block, stream, key, low, last, log):
    """low, last: uint64 -> low + one of 0 .. last (modulo 2^64: two's complement takes care of the
    signs)."""
    mask = last
    mask |= mask >> types.uint64(1)
    mask |= mask >> types.uint64(2)
    mask |= mask >> types.uint64(4)
    mask |= mask >> types.uint64(8)
    mask |= mask >> types.uint64(16)
    mask |= mask >> types.uint64(32)
    value = types.uint64(0)
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(block, stream, key)
        value = join(w0, w1) & mask
        if value <= last:
            return types.uint64(low + value)
        block += types.uint64(RETRY)
    return low


# -------------------- the kernel


def element(given):
    """The device function (x, i) -> the parameter of element i: of an array, or of a scalar. given:
    whether there is an array, or its dtype where the sampler wants a float64 of it."""
    if isinstance(given, np.dtype):
        load = codec(given)[0]

        @cuda.jit(device=True, **INLINE)
        def widened_element(x, i):
            return types.float64(load(x[i]))

        return widened_element
    if given:

        @cuda.jit(device=True, **INLINE)
        def element_of_array(x, i):
            return x[i]

        return element_of_array

    @cuda.jit(device=True, **INLINE)
    def element_of_scalar(x, i):
        return x

    return element_of_scalar


@functools.cache
def each(sampler, dtype, per, given, log, from_cell):
    """out: (n,) dtype; key, stream, first: as in `beginning`; a, b: (n,) arrays where `given`, else
    scalars.

    per: blocks per element.
    """
    _, store, T = codec(dtype)
    begin, first_of, second_of = beginning(from_cell), element(given[0]), element(given[1])

    @cuda.jit
    def each(out, key, stream, first, a, b):
        i = cuda.grid(1)
        if i < out.size:
            k, s, start = begin(key, stream, first)
            block = types.uint64(start + types.uint64(i) * types.uint64(per))
            out[i] = store(T(sampler(block, s, k, first_of(a, i), second_of(b, i), log)))

    return each


def sampled(sampler, out, kind, arrays, given, *, per=1, log=False):
    """Plan: `out` from a sampler with parameters of dtype `kind`, those given as arrays
    (contiguous, of out's size).

    Scalars: key, stream, first, then both parameters (not used where arrays are given). An array
    more than `given` says is the generator's cell.
    """
    count = sum(map(bool, given))
    from_cell = len(arrays) > count
    where = [index for index, there in enumerate(given) if there]
    parameters = [Input(where.index(i)).flat if given[i] else Scalar(3 + i, kind) for i in range(2)]
    kernel = each(sampler, out.dtype, per, given, log, from_cell)
    return Plan(
        [out],
        [
            Launch(
                kernel,
                blocks(out.size, THREADS),
                THREADS,
                [Output(0).flat, *counter(from_cell, count), *parameters],
            )
        ],
    )


def gamma(*arrays, shape, dtype, device, given, log):
    """Planner: gamma of scale 1 (log: its logarithm). The first parameter is the shape, in the
    compute type."""
    sampler, per = (gamma64, 2) if dtype == np.float64 else (gamma32, 1)
    return sampled(
        sampler,
        Layout.new(shape, dtype, device),
        compute_dtype(dtype),
        arrays,
        given,
        per=per,
        log=log,
    )


def beta(*arrays, shape, dtype, device, given):
    """Planner: the parameters a and b, in the compute type."""
    sampler, per = (beta64, 3) if dtype == np.float64 else (beta32, 2)
    return sampled(
        sampler, Layout.new(shape, dtype, device), compute_dtype(dtype), arrays, given, per=per
    )


def poisson(*arrays, shape, dtype, device, given):
    """Planner: the first parameter is the mean, float64, or an array of any real dtype."""
    if given[0] and arrays[0].dtype != np.float64:
        given = arrays[0].dtype, False
    return sampled(poisson64, Layout.new(shape, dtype, device), np.float64, arrays, given)


def binomial(*arrays, shape, dtype, device, given):
    """Planner: the parameters are n (whole) and p, float64."""
    return sampled(binomial64, Layout.new(shape, dtype, device), np.float64, arrays, given)


def bounded(*arrays, shape, dtype, device, given):
    """Planner: integers of bounds by element; the parameters are low and the width high - 1 - low,
    uint64."""
    return sampled(bounded64, Layout.new(shape, dtype, device), np.uint64, arrays, given)
