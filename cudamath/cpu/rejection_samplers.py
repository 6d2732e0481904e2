"""Rejection samplers on the CPU: gamma, beta, Poisson, binomial and integers of bounds by element,
as in kernels/random/rejection_samplers.py.

Element i has a subsequence of Philox blocks of its own, an attempt each, so what it draws depends
on (key, stream, offset, i) alone. What decides is computed in IEEE operations with every
multiply-add written as fma, as on the GPU.
"""

import numpy as np

from .lib.llvm_compiled import loop
from .random import RETRY, join, keyed, philox, split
from .reproducible_math import exp64, fma, log32, log64, log_rest64, normal32, normal64

ATTEMPTS = 255
HALF_LOG_2PI = 0.9189385332046727


# -------------------- gamma


def unit32(word):
    """A word -> a float32 in 2^-33 .. 1."""
    return fma(np.float32(word), np.float32(2.0**-32), np.float32(2.0**-33))


def unit64(low, high):
    """Two words -> a float64 in 2^-54 .. 1."""
    bits = np.float64(join(low, high) >> np.uint64(11))
    return fma(bits, 2.0**-53, 2.0**-54)


def tried32(x, u, c, d):
    """x normal, u in 0 .. 1 -> (1 + c x)^3 if that is accepted as a gamma number divided by d, else
    0.

    What is compared is x^4 / 108 d at most, but d times a rounding error wrong: beyond some d all
    are better accepted."""
    root = fma(c, x, np.float32(1))
    if not root > np.float32(0):
        return np.float32(0)
    square, xx = root * root, x * x
    v = square * root
    if d > np.float32(65536) or u < fma(np.float32(-0.0331) * xx, xx, np.float32(1)):
        return v
    rest = fma(-square, root, np.float32(1)) + log32(v)
    return v if log32(u) < fma(np.float32(0.5), xx, d * rest) else np.float32(0)


def tried64(x, u, c, d):
    """The same in float64."""
    root = fma(c, x, 1.0)
    if not root > 0.0:
        return 0.0
    square, xx = root * root, x * x
    v = square * root
    if d > 2.0**32 or u < fma(-0.0331 * xx, xx, 1.0):
        return v
    rest = fma(-square, root, 1.0) + log64(v)
    return v if log64(u) < fma(0.5, xx, d * rest) else 0.0


def gamma32(block, stream, key, shape, log):
    """shape: float32 >= 0 -> gamma of scale 1, or its logarithm."""
    small = shape < np.float32(1)
    d = (shape + np.float32(1) if small else shape) - np.float32(0.33333334)
    c = np.float32(1) / np.sqrt(np.float32(9) * d)
    v = last = np.float32(1)
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(block, stream, key)
        block += RETRY
        x, _unused = normal32(w0, w1)
        last = unit32(w3)
        v = tried32(x, unit32(w2), c, d)
        if v > np.float32(0):
            break
    if log:
        return log32(d * v) + (log32(last) / shape if small else np.float32(0))
    return d * v * (np.exp(log32(last) / shape) if small else np.float32(1))


def gamma64(block, stream, key, shape, log):
    """shape: float64 >= 0 -> gamma of scale 1, or its logarithm. Two blocks an attempt."""
    small = shape < 1.0
    d = (shape + 1.0 if small else shape) - 1 / 3
    c = 1.0 / np.sqrt(9.0 * d)
    v = last = 1.0
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(block, stream, key)
        x, _unused = normal64(join(w0, w1), join(w2, w3))
        w0, w1, w2, w3 = philox(block + np.uint64(1), stream, key)
        block += RETRY
        last = unit64(w2, w3)
        v = tried64(x, unit64(w0, w1), c, d)
        if v > 0.0:
            break
    if log:
        return log64(d * v) + (log64(last) / shape if small else 0.0)
    return d * v * (np.exp(log64(last) / shape) if small else 1.0)


# -------------------- beta


def beta32(block, stream, key, a, b):
    """a, b: float32 > 0 -> a beta number. Two blocks: the first is drawn anew in each attempt, for
    the gamma number that is not accepted yet; the second is for shapes below 1."""
    one, third = np.float32(1), np.float32(0.33333334)
    d, e = (a + one if a < one else a) - third, (b + one if b < one else b) - third
    c, f = one / np.sqrt(np.float32(9) * d), one / np.sqrt(np.float32(9) * e)
    v = w = np.float32(0)
    place = block
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(place, stream, key)
        place += RETRY
        x, y = normal32(w0, w1)
        if v == np.float32(0):
            v = tried32(x, unit32(w2), c, d)
        if w == np.float32(0):
            w = tried32(y, unit32(w3), f, e)
        if v > np.float32(0) and w > np.float32(0):
            break
    x, y = d * v, e * w
    if a >= one and b >= one:
        return x / (x + y)
    w0, w1, w2, w3 = philox(block + np.uint64(1), stream, key)
    x = log32(x) + (log32(unit32(w0)) / a if a < one else np.float32(0))
    y = log32(y) + (log32(unit32(w1)) / b if b < one else np.float32(0))
    return one / (one + np.exp(y - x))


def beta64(block, stream, key, a, b):
    """The same in float64. Three blocks: two are drawn anew in each attempt."""
    one, third = 1.0, 1 / 3
    d, e = (a + one if a < one else a) - third, (b + one if b < one else b) - third
    c, f = one / np.sqrt(9.0 * d), one / np.sqrt(9.0 * e)
    v = w = 0.0
    place = block
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(place, stream, key)
        x, y = normal64(join(w0, w1), join(w2, w3))
        w0, w1, w2, w3 = philox(place + np.uint64(1), stream, key)
        place += RETRY
        if v == 0.0:
            v = tried64(x, unit64(w0, w1), c, d)
        if w == 0.0:
            w = tried64(y, unit64(w2, w3), f, e)
        if v > 0.0 and w > 0.0:
            break
    x, y = d * v, e * w
    if a >= one and b >= one:
        return x / (x + y)
    w0, w1, w2, w3 = philox(block + np.uint64(2), stream, key)
    x = log64(x) + (log64(unit64(w0, w1)) / a if a < one else 0.0)
    y = log64(y) + (log64(unit64(w2, w3)) / b if b < one else 0.0)
    return one / (one + np.exp(y - x))


# -------------------- Poisson, binomial


def centred64(low, high):
    """Two words -> a float64 strictly between -1/2 and 1/2."""
    bits = np.float64(join(low, high) >> np.uint64(11))
    return fma(bits, 2.0**-53, 2.0**-54 - 0.5)


def log_factorial(k):
    """ln(k!), k: a whole float64 >= 0: by the product to 16, then by Stirling's series."""
    if k <= 16.0:
        product = 1.0
        factor = 2.0
        while factor <= k:
            product *= factor
            factor += 1.0
        return log64(product)
    inverse = 1.0 / k
    z = inverse * inverse
    series = fma(z, -1 / 1680, 1 / 1260)
    series = fma(fma(z, series, -1 / 360), z, 1 / 12)
    main = fma(k + 0.5, log64(k), -k)
    return fma(series, inverse, main + HALF_LOG_2PI)


def stirling_rest(k):
    """ln(k!) less its approximation (k + 1/2) ln(k + 1) - (k + 1) + ln(2 pi) / 2."""
    after = k + 1.0
    if k <= 9.0:
        about = fma(k + 0.5, log64(after), HALF_LOG_2PI - after)
        return log_factorial(k) - about
    z = 1.0 / (after * after)
    series = fma(z, 1 / 1260, -1 / 360)
    return fma(series, z, 1 / 12) / after


def poisson64(block, stream, key, mean):
    """mean: float64 >= 0 -> a whole float64."""
    w0, w1, w2, w3 = philox(block, stream, key)
    k = 0.0
    if mean < 10.0:
        u, p = unit64(w0, w1), exp64(-mean)
        while u > p and p > 1e-18:
            u -= p
            k += 1.0
            p = p * mean / k
        return k
    b = fma(2.53, np.sqrt(mean), 0.931)
    a = fma(0.02483, b, -0.059)
    accepted = 0.9277 - 3.6224 / (b - 2.0)
    height = log64(1.1239 + 1.1328 / (b - 3.4))
    log_mean = log64(mean)
    for _ in range(ATTEMPTS):
        u, v = centred64(w0, w1), unit64(w2, w3)
        us = 0.5 - abs(u)
        k = np.floor(fma((a + a) / us + b, u, mean + 0.43))
        if us >= 0.07 and v <= accepted:
            break
        if k >= 0.0 and (us >= 0.013 or v <= us):
            left = (log64(v) + height) - log64(a / (us * us) + b)
            if left <= fma(k, log_mean, -mean) - log_factorial(k):
                break
        block += RETRY
        w0, w1, w2, w3 = philox(block, stream, key)
    return k


def binomial64(block, stream, key, n, chance):
    """n: a whole float64 >= 0, chance: float64 in 0 .. 1 -> a whole float64."""
    swapped = chance > 0.5
    p = 1.0 - chance if swapped else chance
    q = 1.0 - p
    odds = p / q
    w0, w1, w2, w3 = philox(block, stream, key)
    k = 0.0
    if n * p < 10.0:
        u, chance_k = unit64(w0, w1), exp64(n * log_rest64(p))
        while u > chance_k and k < n and chance_k > 1e-18:
            u -= chance_k
            k += 1.0
            chance_k = chance_k * (odds * (n - k + 1.0)) / k
    else:
        spread = np.sqrt(n * p * q)
        b = fma(2.53, spread, 1.15)
        a = fma(0.0248, b, fma(0.01, p, -0.0873))
        centre = fma(n, p, 0.5)
        accepted = 0.92 - 4.2 / b
        alpha = (2.83 + 5.1 / b) * spread
        m = np.floor((n + 1.0) * p)
        beside = n - m + 1.0
        height = fma(
            m + 0.5, log64((m + 1.0) / (odds * beside)), stirling_rest(m) + stirling_rest(n - m)
        )
        for _ in range(ATTEMPTS):
            u, v = centred64(w0, w1), unit64(w2, w3)
            us = 0.5 - abs(u)
            k = np.floor(fma((a + a) / us + b, u, centre))
            if us >= 0.07 and v <= accepted:
                break
            if k >= 0.0 and k <= n:
                left = log64(v * alpha / (a / (us * us) + b))
                rest = n - k + 1.0
                right = fma(n + 1.0, log64(beside / rest), height)
                right = fma(k + 0.5, log64(odds * rest / (k + 1.0)), right)
                if left <= right - (stirling_rest(k) + stirling_rest(n - k)):
                    break
            block += RETRY
            w0, w1, w2, w3 = philox(block, stream, key)
        k = min(max(k, 0.0), n)
    return n - k if swapped else k


def bounded64(block, stream, key, low, last):
    """low, last: uint64 -> low + one of 0 .. last (modulo 2^64: two's complement takes care of the
    signs)."""
    mask = last
    mask |= mask >> np.uint64(1)
    mask |= mask >> np.uint64(2)
    mask |= mask >> np.uint64(4)
    mask |= mask >> np.uint64(8)
    mask |= mask >> np.uint64(16)
    mask |= mask >> np.uint64(32)
    value = np.uint64(0)
    for _ in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(block, stream, key)
        value = join(w0, w1) & mask
        if value <= last:
            return np.uint64(low + value)
        block += RETRY
    return low


# -------------------- the loops
#
# out: (m,), elements start .. start + m - 1 of the draw. a, b: (n,) or (1,) parameters, walked
# through by step 1 or 0.


@loop
def fill_gamma32(out, start, first, stream, key, a, step_a, log):
    for j in range(out.size):
        i = np.int64(start) + j
        out[j] = gamma32(first + np.uint64(i), stream, key, a[i * step_a], log)


@loop
def fill_gamma64(out, start, first, stream, key, a, step_a, log):
    for j in range(out.size):
        i = np.int64(start) + j
        out[j] = gamma64(first + np.uint64(2 * i), stream, key, a[i * step_a], log)


@loop
def fill_beta32(out, start, first, stream, key, a, step_a, b, step_b):
    for j in range(out.size):
        i = np.int64(start) + j
        out[j] = beta32(first + np.uint64(2 * i), stream, key, a[i * step_a], b[i * step_b])


@loop
def fill_beta64(out, start, first, stream, key, a, step_a, b, step_b):
    for j in range(out.size):
        i = np.int64(start) + j
        out[j] = beta64(first + np.uint64(3 * i), stream, key, a[i * step_a], b[i * step_b])


@loop
def fill_poisson(out, start, first, stream, key, a, step_a):
    for j in range(out.size):
        i = np.int64(start) + j
        out[j] = poisson64(first + np.uint64(i), stream, key, a[i * step_a])


@loop
def fill_binomial(out, start, first, stream, key, a, step_a, b, step_b):
    for j in range(out.size):
        i = np.int64(start) + j
        out[j] = binomial64(first + np.uint64(i), stream, key, a[i * step_a], b[i * step_b])


@loop
def fill_bounded(out, start, first, stream, key, a, step_a, b, step_b):
    for j in range(out.size):
        i = np.int64(start) + j
        out[j] = bounded64(first + np.uint64(i), stream, key, a[i * step_a], b[i * step_b])


# -------------------- the CPU functions; scalars = (key, stream, offset, a, b)


def sampled(fill, out, arrays, scalars, given, used, *rest):
    """Fill `out`; `used` parameters, those `given` from arrays (contiguous, of out's size), the
    others from scalars."""
    counter, values = keyed(scalars)
    place, parameters = iter(arrays), []
    for there, value, kind in zip(given, values, used, strict=False):
        parameters += [next(place).reshape(-1), 1] if there else [np.array([value], kind), 0]
    split(fill, out.reshape(-1), 1, np.uint64(0), *counter, *parameters, *rest)
    return out


def gamma(*arrays, scalars, shape, dtype, device, given, log):
    """arrays or the first scalar: the shape, in the compute type -> gamma of scale 1 (log: its
    logarithm)."""
    compute = np.float64 if dtype == np.float64 else np.float32
    fill = fill_gamma64 if compute == np.float64 else fill_gamma32
    return sampled(fill, np.empty(shape, compute), arrays, scalars, given, (compute,), log).astype(
        dtype, copy=False
    )


def beta(*arrays, scalars, shape, dtype, device, given):
    """arrays or scalars: a and b, in the compute type."""
    compute = np.float64 if dtype == np.float64 else np.float32
    fill = fill_beta64 if compute == np.float64 else fill_beta32
    return sampled(fill, np.empty(shape, compute), arrays, scalars, given, (compute,) * 2).astype(
        dtype, copy=False
    )


def poisson(*arrays, scalars, shape, dtype, device, given):
    """arrays or the first scalar: the mean, float64."""
    return sampled(
        fill_poisson, np.empty(shape, np.int64), arrays, scalars, given, (np.float64,)
    ).astype(dtype, copy=False)


def binomial(*arrays, scalars, shape, dtype, device, given):
    """arrays or scalars: n (whole) and p, float64."""
    out = np.empty(shape, np.int64)
    return sampled(fill_binomial, out, arrays, scalars, given, (np.float64,) * 2).astype(
        dtype, copy=False
    )


def bounded(*arrays, scalars, shape, dtype, device, given):
    """arrays or scalars: low and the width high - 1 - low, uint64."""
    out = np.empty(shape, np.uint64)
    return sampled(fill_bounded, out, arrays, scalars, given, (np.uint64,) * 2).astype(
        dtype, copy=False
    )
