"""Random numbers on the CPU: Philox4x32-10, compiled by LLVM, the same numbers as
kernels/random/distributions.py.

A counter-based generator has no state to advance: block `c` of four 32-bit words is a keyed mixing
of the number `c` itself. So element i of a draw depends only on (key, stream, offset, i), any
thread may compute any part, and the GPU computes the same numbers in another order.

    counter = (offset + i // 4, attempt, stream)
              128 bits: 56 bits of block number, 8 of attempt, 64 of stream
    words   = philox(counter, key)
              four uint32: elements 4 (i // 4) ... + 3 of the draw (64-bit results take two words)

`attempt` counts the rejections of a bounded integer; 255 is reserved for `spawn`
(ops/random/module.py).

Results that must equal the GPU's bit for bit use only operations that IEEE 754 defines
(reproducible_math.py).

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import compute_dtype, sum_tolerance
from ..core.fp_errors import quiet
from .lib.llvm_compiled import kind_of, loop
from .reproducible_math import TAILS, fma, normal32, normal64, tail32, tail64

# Philox4x32: two multipliers and two Weyl constants (golden ratio, sqrt(3) - 1).
M0, M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
W0, W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
LOW32 = np.uint64(0xFFFFFFFF)
SHIFT32 = np.uint64(32)
RETRY = np.uint64(1 << 56)  # one attempt further, in the upper byte of the block number

CORES = os.cpu_count() or 1
SPLIT = 1 << 18  # elements a thread must have to be worth starting (~0.1 ms of work each)
# Bits of a uniform number, so that every value is exact and below one.
UNIFORM_BITS = {"float32": 24, "float16": 11, "bfloat16": 8}


# -------------------- Philox


def philox(block, stream, key):
    """Four uint32 words of block number `block` (uint64) in `stream` (uint64) under `key`
    (uint64)."""
    c0, c1 = np.uint32(block), np.uint32(block >> SHIFT32)
    c2, c3 = np.uint32(stream), np.uint32(stream >> SHIFT32)
    k0, k1 = np.uint32(key), np.uint32(key >> SHIFT32)
    for _ in range(10):
        p0 = np.uint64(c0) * M0
        p1 = np.uint64(c2) * M1
        c0, c1, c2, c3 = (
            np.uint32(np.uint32(p1 >> SHIFT32) ^ c1 ^ k0),
            np.uint32(p1),
            np.uint32(np.uint32(p0 >> SHIFT32) ^ c3 ^ k1),
            np.uint32(p0),
        )
        k0 = np.uint32(np.uint64(k0) + W0)
        k1 = np.uint32(np.uint64(k1) + W1)
    return c0, c1, c2, c3


def word(block, stream, key, lane):
    """Word `lane` (0..3) of a block."""
    w = philox(block, stream, key)
    if lane < 2:
        return w[0] if lane == 0 else w[1]
    return w[2] if lane == 2 else w[3]


def join(low, high):
    """Two uint32 words as one uint64."""
    return np.uint64(low) | (np.uint64(high) << SHIFT32)


@loop
def fill_words(out, first, stream, key):
    """out: (n,) uint32; element i is word i % 4 of block first + i // 4."""
    n = out.size
    for b in range(n // 4):
        out[4 * b], out[4 * b + 1], out[4 * b + 2], out[4 * b + 3] = philox(
            first + np.uint64(b), stream, key
        )
    for i in range(n - n % 4, n):
        out[i] = word(first + np.uint64(i // 4), stream, key, i % 4)


@loop
def fill_words64(out, first, stream, key):
    """out: (n,) uint64; element i is the word pair i % 2 of block first + i // 2."""
    n = out.size
    for b in range((n + 1) // 2):
        w0, w1, w2, w3 = philox(first + np.uint64(b), stream, key)
        out[2 * b] = join(w0, w1)
        if 2 * b + 1 < n:
            out[2 * b + 1] = join(w2, w3)


# -------------------- one loop a distribution


@loop
def fill_uniform32(out, first, stream, key, low, width, drop):
    """out: (n,) float32 = low + width * u, u of 32 - drop bits in [0, 1)."""
    n = out.size
    step = width * (np.float32(1) / np.float32(np.uint64(1) << np.uint64(np.uint32(32) - drop)))
    for b in range(n // 4):
        w0, w1, w2, w3 = philox(first + np.uint64(b), stream, key)
        out[4 * b] = fma(np.float32(w0 >> drop), step, low)
        out[4 * b + 1] = fma(np.float32(w1 >> drop), step, low)
        out[4 * b + 2] = fma(np.float32(w2 >> drop), step, low)
        out[4 * b + 3] = fma(np.float32(w3 >> drop), step, low)
    for i in range(n - n % 4, n):
        w = word(first + np.uint64(i // 4), stream, key, i % 4)
        out[i] = fma(np.float32(w >> drop), step, low)


@loop
def fill_uniform64(out, first, stream, key, low, width):
    """out: (n,) float64 = low + width * u, u of 53 bits in [0, 1)."""
    n = out.size
    step = width * 2.0**-53
    for b in range((n + 1) // 2):
        w0, w1, w2, w3 = philox(first + np.uint64(b), stream, key)
        out[2 * b] = fma(np.float64(join(w0, w1) >> np.uint64(11)), step, low)
        if 2 * b + 1 < n:
            out[2 * b + 1] = fma(np.float64(join(w2, w3) >> np.uint64(11)), step, low)


@loop
def fill_normal32(out, first, stream, key, loc, scale):
    """out: (n,) float32 = loc + scale * z; two pairs a block."""
    n = out.size
    for b in range(n // 4):
        w0, w1, w2, w3 = philox(first + np.uint64(b), stream, key)
        z0, z1 = normal32(w0, w1)
        z2, z3 = normal32(w2, w3)
        out[4 * b] = fma(z0, scale, loc)
        out[4 * b + 1] = fma(z1, scale, loc)
        out[4 * b + 2] = fma(z2, scale, loc)
        out[4 * b + 3] = fma(z3, scale, loc)
    if n % 4:
        w0, w1, w2, w3 = philox(first + np.uint64(n // 4), stream, key)
        z0, z1 = normal32(w0, w1)
        z2, z3 = normal32(w2, w3)
        z = (z0, z1, z2, z3)
        for i in range(n % 4):
            out[n - n % 4 + i] = fma(z[i], scale, loc)


@loop
def fill_normal64(out, first, stream, key, loc, scale):
    """out: (n,) float64 = loc + scale * z; one pair a block."""
    n = out.size
    for b in range((n + 1) // 2):
        w0, w1, w2, w3 = philox(first + np.uint64(b), stream, key)
        z0, z1 = normal64(join(w0, w1), join(w2, w3))
        out[2 * b] = fma(z0, scale, loc)
        if 2 * b + 1 < n:
            out[2 * b + 1] = fma(z1, scale, loc)


@loop
def fill_tail32(out, first, stream, key, loc, scale, c, kind):
    """out: (n,) float32 = loc + scale * t; kind, c: which t, see reproducible_math.py."""
    for b in range((out.size + 3) // 4):
        w = philox(first + np.uint64(b), stream, key)
        for lane in range(min(4, out.size - 4 * b)):
            out[4 * b + lane] = fma(tail32(kind, w[lane], c), scale, loc)


@loop
def fill_tail64(out, first, stream, key, loc, scale, c, kind):
    """out: (n,) float64 = loc + scale * t."""
    for b in range((out.size + 1) // 2):
        w = philox(first + np.uint64(b), stream, key)
        for lane in range(min(2, out.size - 2 * b)):
            out[2 * b + lane] = fma(tail64(kind, join(w[2 * lane], w[2 * lane + 1]), c), scale, loc)


@loop
def fill_bounded32(out, first, stream, key, count, reject):
    """out: (n,) uint32 in [0, count), count <= 2^32 (uint64): Lemire's multiplication with
    rejection.

    The upper word of w * count is the result; a lower word below reject = 2^32 mod count marks the
    few w that would make some results likelier, and the element tries again with the next attempt's
    block.
    """
    for b in range((out.size + 3) // 4):
        block = first + np.uint64(b)
        w = philox(block, stream, key)
        for lane in range(min(4, out.size - 4 * b)):
            product = np.uint64(w[lane]) * count
            attempt = block
            for _ in range(254):
                if (product & LOW32) >= reject:
                    break
                attempt += RETRY
                product = np.uint64(word(attempt, stream, key, lane)) * count
            out[4 * b + lane] = np.uint32(product >> SHIFT32)


@loop
def fill_bounded64(out, first, stream, key, last, mask):
    """out: (n,) uint64 in [0, last]: as many low bits as `last` has, and again while they exceed
    it."""
    for b in range((out.size + 1) // 2):
        block = first + np.uint64(b)
        w = philox(block, stream, key)
        for lane in range(min(2, out.size - 2 * b)):
            value = join(w[2 * lane], w[2 * lane + 1]) & mask
            attempt = block
            for _ in range(254):
                if value <= last:
                    break
                attempt += RETRY
                again = philox(attempt, stream, key)
                value = join(again[2 * lane], again[2 * lane + 1]) & mask
            out[2 * b + lane] = value if value <= last else np.uint64(0)


@loop
def fill_below(out, first, stream, key, threshold):
    """out: (n,) uint8 = word < threshold (uint64, 0 .. 2^32): Bernoulli."""
    n = out.size
    for b in range(n // 4):
        w0, w1, w2, w3 = philox(first + np.uint64(b), stream, key)
        out[4 * b] = np.uint64(w0) < threshold
        out[4 * b + 1] = np.uint64(w1) < threshold
        out[4 * b + 2] = np.uint64(w2) < threshold
        out[4 * b + 3] = np.uint64(w3) < threshold
    for i in range(n - n % 4, n):
        out[i] = np.uint64(word(first + np.uint64(i // 4), stream, key, i % 4)) < threshold


def cipher(left, right, round_keys, left_bits, right_bits):
    """left, right: (m,) uint32, the two parts of m numbers below 2^(left_bits + right_bits);
    permuted in place.

    24 rounds of a small Philox, a Feistel-like network: one multiplication by a 64-bit constant, in
    halves, each.
    """
    left_mask = np.uint32((np.uint64(1) << left_bits) - np.uint64(1))
    right_mask = np.uint32((np.uint64(1) << right_bits) - np.uint64(1))
    shift, narrow = np.uint32(right_bits - left_bits), np.uint32(left_bits)
    for r in range(24):
        key = round_keys[r]
        for j in range(left.size):
            low = np.uint64(left[j]) * np.uint64(0xB1CE6E93)
            high = np.uint32(np.uint64(left[j]) * np.uint64(0xD2B74407) + (low >> SHIFT32))
            joined = (np.uint32(low) << shift) | (right[j] >> narrow)
            left[j] = (high ^ key ^ right[j]) & left_mask
            right[j] = joined & right_mask


@loop
def fill_bijection(out, start, count, round_keys, left_bits, right_bits):
    """out: (m,) int64: images of start .. start + m - 1 under a keyed permutation of [0, count).

    The cipher permutes [0, 2^bits), the least power of two >= count; who lands at or beyond count
    goes round again (cycle walking): less than two walks on average. 512 numbers at a time, so that
    the rounds are vectorised.
    """
    left, right, where = np.empty(512, np.uint32), np.empty(512, np.uint32), np.empty(512, np.int64)
    right_mask = np.uint32((np.uint64(1) << right_bits) - np.uint64(1))
    for at in range(0, out.size, 512):
        walking = min(512, out.size - at)
        for j in range(walking):
            value = start + np.uint64(at + j)
            left[j], right[j], where[j] = (
                np.uint32(value >> right_bits),
                np.uint32(value) & right_mask,
                at + j,
            )
        while walking > 0:
            cipher(left[:walking], right[:walking], round_keys, left_bits, right_bits)
            outside = 0
            for j in range(walking):
                value = (np.uint64(left[j]) << right_bits) | np.uint64(right[j])
                if value < count:
                    out[where[j]] = np.int64(value)
                else:
                    left[outside], right[outside], where[outside] = left[j], right[j], where[j]
                    outside += 1
            walking = outside


def split(fill, out, per_block, first, *args):
    """Run fill(out, first, *args) on a few threads: a counter-based draw can be cut between any two
    blocks."""
    if out.size < SPLIT or (parts := min(CORES, out.size // SPLIT)) <= 1:
        fill(out, first, *args)
        return
    size = -(-out.size // (parts * per_block)) * per_block
    threads = [
        threading.Thread(
            target=fill, args=(out[at : at + size], np.uint64(int(first) + at // per_block), *args)
        )
        for at in range(size, out.size, size)
    ]
    for thread in threads:
        thread.start()
    fill(out[:size], first, *args)
    for thread in threads:
        thread.join()


_entries: dict[Any, Callable] = {}  # loops -> their machine code


def filled(fill, out, per_block, scalars, *args):
    """Fill `out`, an array in C order, by a loop of one signature, fill(out, first, stream, key,
    *args). For few numbers its machine code is called directly: to look at the arguments takes
    longer than to draw."""
    key, stream, offset = scalars[:3]
    line = out if out.ndim == 1 else out.reshape(-1)
    entry = _entries.get(fill) if out.size < SPLIT else None
    if entry is not None:
        entry(line, offset, stream, key, *args)
        return
    split(fill, line, per_block, np.uint64(offset), np.uint64(stream), np.uint64(key), *args)
    words = (np.dtype(np.uint64),) * 3
    _entries[fill] = fill.entry(kind_of(line), *words, *map(kind_of, args))


# -------------------- the CPU functions; scalars = (key, stream, offset, ...)


def keyed(scalars):
    """(first block, stream, key) as uint64, and the remaining scalars of a draw."""
    key, stream, offset, *rest = scalars
    return (np.uint64(offset), np.uint64(stream), np.uint64(key)), rest


def uniform(*, scalars, shape, dtype, device):
    """scalars = (key, stream, offset, low, high - low, 0) -> shape, dtype."""
    low, width = scalars[3:5]
    if dtype == np.float64:
        out = np.empty(shape, np.float64)
        filled(fill_uniform64, out, 2, scalars, float(low), float(width))
        return out
    out = np.empty(shape, np.float32)
    drop = np.uint32(32 - UNIFORM_BITS[np.dtype(dtype).name])
    filled(fill_uniform32, out, 4, scalars, np.float32(low), np.float32(width), drop)
    return out.astype(dtype, copy=False)


def normal(*, scalars, shape, dtype, device):
    """scalars = (key, stream, offset, mean, standard deviation, 0) -> shape, dtype."""
    loc, scale = scalars[3:5]
    if dtype == np.float64:
        out = np.empty(shape, np.float64)
        filled(fill_normal64, out, 2, scalars, float(loc), float(scale))
        return out
    out = np.empty(shape, np.float32)
    filled(fill_normal32, out, 4, scalars, np.float32(loc), np.float32(scale))
    return out.astype(dtype, copy=False)


def tail(*, scalars, shape, dtype, device, kind):
    """scalars = (key, stream, offset, location, scale, c) -> shape, dtype. kind: a name in TAILS,
    or "lognormal": exp of what `normal` gives."""
    if kind == "lognormal":
        x = normal(scalars=scalars, shape=shape, dtype=compute_dtype(dtype), device=device)
        return np.asarray(quiet().run(np.exp, x)).astype(dtype, copy=False)
    counter, parameters = keyed(scalars)
    wide = dtype == np.float64
    out = np.empty(shape, np.float64 if wide else np.float32)
    fill, per_block = (fill_tail64, 2) if wide else (fill_tail32, 4)
    split(fill, out.reshape(-1), per_block, *counter, *map(out.dtype.type, parameters), TAILS[kind])
    return out.astype(dtype, copy=False)


def geometric(*, scalars, shape, dtype, device):
    """scalars = (key, stream, offset, rate, 0, 0) -> shape, dtype: the next whole number above an
    exponential one over the rate, from 1 to the largest float64 below 2^63."""
    *counter, rate, _, _ = scalars
    e = tail(
        scalars=(*counter, 0.0, 1.0, 0.0),
        shape=shape,
        dtype=np.dtype(np.float64),
        device=device,
        kind="exponential",
    )
    trials = np.clip(np.ceil(quiet().run(np.divide, e, rate)), 1.0, 2.0**63 - 1024)
    return np.asarray(trials).astype(np.int64).astype(dtype, copy=False)


def integers(*, scalars, shape, dtype, device, wide):
    """scalars = (key, stream, offset, low, then the last two arguments of the fill) -> shape,
    dtype."""
    low, a, b = scalars[3:]
    out = np.empty(shape, np.uint64 if wide else np.uint32)
    fill, per_block = (fill_bounded64, 2) if wide else (fill_bounded32, 4)
    filled(fill, out, per_block, scalars, np.uint64(a), np.uint64(b))
    if low:
        out = out + np.uint64(low)  # modulo 2^64: two's complement takes care of the signs
    return np.asarray(out).astype(dtype, copy=False)


def bernoulli(*, scalars, shape, device):
    """scalars = (key, stream, offset, threshold, 0, 0) -> shape, bool: word < threshold."""
    counter, (threshold, _, _) = keyed(scalars)
    out = np.empty(shape, np.bool_)
    split(fill_below, out.reshape(-1).view(np.uint8), 4, *counter, np.uint64(threshold))
    return out


def chances(p, *, scalars):
    """p: probabilities, any real dtype; scalars = (key, stream, offset) -> bool of p's shape: word
    < rint(p 2^32)."""
    counter, _ = keyed(scalars)
    words = np.empty(p.shape, np.uint32)
    split(fill_words, words.reshape(-1), 4, *counter)
    return words < np.rint(p.astype(np.float64) * 2.0**32)


def permutation(*, scalars, count, ranked, bits, device):
    """scalars = (key, stream, offset, n) -> (count,) int64: the first elements of a permutation of
    0..n-1.

    ranked: element i is the rank of the i-th of n random 64-bit keys, every order equally likely.
    Otherwise a keyed bijection of [0, n), evaluated only where asked; bits = (n - 1).bit_length().
    """
    (first, stream, key), (n,) = keyed(scalars)
    if ranked:
        keys = np.empty(n, np.uint64)
        fill_words64(keys, first, stream, key)
        ranks = np.empty(n, np.int64)
        ranks[np.argsort(keys, kind="stable")] = np.arange(n)
        return ranks[:count]
    round_keys = np.empty(24, np.uint32)
    fill_words(round_keys, first, stream, key)
    out = np.empty(count, np.int64)
    widths = np.uint64(bits // 2), np.uint64(bits - bits // 2)
    split(fill_bijection, out, 1, np.uint64(0), np.uint64(n), round_keys, *widths)
    return out


def choice(thresholds, *, scalars, shape):
    """thresholds: (k,) uint64, cumulative probabilities times 2^53 -> shape, int64 indices in [0,
    k)."""
    counter, _ = keyed(scalars)
    words = np.empty(shape, np.uint64)
    split(fill_words64, words.reshape(-1), 2, *counter)
    return (
        np.searchsorted(thresholds, words >> np.uint64(11), side="right")
        .astype(np.int64, copy=False)
        .reshape(shape)
    )


def checked(p):
    """Probabilities with nothing wrong with them, as float64. Rounded to 16 bits they seldom add up
    to 1 exactly."""
    wide = p.astype(np.float64, copy=False)
    if not np.all(wide >= 0) or not abs(wide.sum() - 1) <= sum_tolerance(p.dtype):
        raise ValueError(
            f"random.choice: wants p >= 0 adding up to 1, got {p.dtype} of shape {p.shape}, sum "
            f"{wide.sum()}, "
            f"least {wide.min(initial=0)}"
        )
    return wide


def thresholds(p):
    """Cumulative probabilities times 2^53, uint64."""
    cumulative = np.cumsum(checked(p))
    return np.rint(cumulative / cumulative[-1] * 2.0**53).astype(np.uint64)
