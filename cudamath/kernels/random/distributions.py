"""Random arrays: one distribution is one device function, and two kernels run them all.

The idea. A *distribution* turns one Philox block (128 random bits, see lib/philox.py) into 4
numbers of up to 32 bits, or 2 of 64. Element i of the result is number i % 4 of block first + i //
4, whatever the grid: see cpu/random.py, which states the same numbers in the same way.

Versions, from simple to fast. Planners take "vectors" unless they are asked for "each":

    each      One thread per element: it computes the whole block and keeps one number of the four.
              Plain Numba: any GPU and the simulator.
    vectors   One thread per run of elements that fills 16 bytes (8 for one-byte types; 32 for
              int64, whose block of four words is two stores), RUNS such runs per thread. All four
              words are used, and a warp writes whole sectors.

The floor is the bytes written: 4 per element for float32, 0.96 ms for 2^30 of them at 4.4 TB/s.
Uniforms reach for it; normals add a logarithm, a square root, a sine and a cosine for two numbers.

Distributions

    uniform    low + width u. u is the upper bits of a word, as many as the dtype holds exactly
               (float16: 11, bfloat16: 8, float32: 24, float64: 53), so u < 1 and every u is equally
               likely.
    normal     Box-Muller: r = sqrt(-2 ln u), (r cos t, r sin t). The logarithm, sine and cosine are
               written out in fused multiply-adds: libm's differ between CPU and GPU in the last
               bits, these do not.
    tail       location + scale t. t is one of eight functions of one word: exponential, Laplace,
               logistic, Gumbel, Rayleigh, Weibull, Pareto, Cauchy (reproducible_math.py).
    lognormal  exp of a normal number, by the libraries' exp, which may differ in its last bits from
               the CPU's.
    bounded    Integers below a bound, without bias: the upper half of word * bound (Lemire). The
               few words that would favour some results are rejected and drawn again from the next
               attempt's block.
    below      word < threshold: Bernoulli (of chances by element: bernoulli_array.py).
    geometric  The next whole number above an exponential one over a rate, in float64.

Permutations

    ranks      Up to 1024: element i becomes the rank of its random 64-bit key among all. Every
               order is equally likely (but for the 2^-45 chance of equal keys).
    bijection  Beyond: 24 rounds of a small keyed cipher permute [0, 2^bits), and a number outside
               [0, n) is permuted again. No sort, no memory but the result, any part of it
               computable alone. Orders are pseudo-random: not all n! can occur (no generator with
               128 bits of key does better), and n = 4^k has even permutations only.

Sources: Lemire, "Fast random integer generation in an interval", TOMACS 2019; Mitchell et al.,
"Bandwidth-optimal random shuffling for GPUs", TOPC 2022 (the cipher); Cephes and fdlibm (the
polynomials).

Measured (row versions_random):
2^28 normal numbers, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                  GB/s     of a copy
    each           423          0.10
    vectors      2,375          0.56

(end of what was measured)
"""

import functools
import math

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Scalar, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype, sum_tolerance
from ...core.layout import Layout
from ...runtime import kernel_errors
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.philox import INLINE, RETRY, beginning, counter, join, philox
from .reproducible_math import TAILS32, TAILS64, pair32, pair64

THREADS = 256
# 16-byte runs a thread: enough work to hide the start of a block, and the round keys are computed
# once
RUNS = 8
TOGETHER = 2  # of them computed side by side: two chains of Philox rounds hide each other's latency
ALL = 0xFFFFFFFF  # lanes of a warp
RANKED = 1024  # `ranks` holds its keys in the shared memory of one block
# probabilities that one thread adds up, of an array on the GPU; as in ops/random/permutations.py
WEIGHED = 1024
CIPHER_ROUNDS = 24
UNIFORM_BITS = {"float32": 24, "float16": 11, "bfloat16": 8}  # as in cpu/random.py
LARGEST = 2.0**63 - 1024  # the largest float64 below 2^63

kernel_errors.failures["random.choice"], kernel_errors.exceptions["random.choice"] = (
    "wants p >= 0 adding up to 1",
    ValueError,
)

if not SIMULATOR:
    from ..lib.vector_io import writer

# -------------------- distributions
#
# Device functions (block, stream, key, a, b, c, v, e): the numbers of one Philox block into v[e],
# v[e + 1], ...; a, b, c are the parameters of the distribution. `each` and `vectors` below call
# them.


def uniform_of(dtype, T):
    """a = low, b = width, c unused."""
    if dtype == np.float64:

        @cuda.jit(device=True, **INLINE)
        def uniform64(block, stream, key, a, b, c, v, e):
            w0, w1, w2, w3 = philox(block, stream, key)
            step = b * types.float64(2.0**-53)
            v[e] = cuda.fma(types.float64(join(w0, w1) >> types.uint64(11)), step, a)
            v[e + 1] = cuda.fma(types.float64(join(w2, w3) >> types.uint64(11)), step, a)

        return uniform64

    drop, scale = 32 - UNIFORM_BITS[dtype.name], np.float32(2.0 ** -UNIFORM_BITS[dtype.name])

    @cuda.jit(device=True, **INLINE)
    def uniform32(block, stream, key, a, b, c, v, e):
        w0, w1, w2, w3 = philox(block, stream, key)
        step = b * scale
        v[e] = cuda.fma(types.float32(w0 >> types.uint32(drop)), step, a)
        v[e + 1] = cuda.fma(types.float32(w1 >> types.uint32(drop)), step, a)
        v[e + 2] = cuda.fma(types.float32(w2 >> types.uint32(drop)), step, a)
        v[e + 3] = cuda.fma(types.float32(w3 >> types.uint32(drop)), step, a)

    return uniform32


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


def lognormal_of(dtype, T):
    """exp of the normal number of mean a and standard deviation b; c unused."""
    numbers, count = normal_of(dtype, T), lanes(dtype)

    @cuda.jit(device=True, **INLINE)
    def lognormal(block, stream, key, a, b, c, v, e):
        numbers(block, stream, key, a, b, c, v, e)
        for i in range(count):
            v[e + i] = math.exp(v[e + i])

    return lognormal


@functools.cache
def tail_of(kind):
    """a = location, b = scale, c = the parameter of the shape (1 / a for weibull and pareto)."""

    def tail_of_kind(dtype, T):
        number = (TAILS64 if dtype == np.float64 else TAILS32)[kind]
        if dtype == np.float64:

            @cuda.jit(device=True, **INLINE)
            def tail64(block, stream, key, a, b, c, v, e):
                w0, w1, w2, w3 = philox(block, stream, key)
                v[e] = cuda.fma(number(join(w0, w1), c), b, a)
                v[e + 1] = cuda.fma(number(join(w2, w3), c), b, a)

            return tail64

        @cuda.jit(device=True, **INLINE)
        def tail32(block, stream, key, a, b, c, v, e):
            w0, w1, w2, w3 = philox(block, stream, key)
            v[e] = cuda.fma(number(w0, c), b, a)
            v[e + 1] = cuda.fma(number(w1, c), b, a)
            v[e + 2] = cuda.fma(number(w2, c), b, a)
            v[e + 3] = cuda.fma(number(w3, c), b, a)

        return tail32

    return tail_of_kind


def geometric_of(dtype, T):
    """a = rate: the next whole number above an exponential number over the rate, from 1 to LARGEST;
    b, c unused."""
    number, largest = TAILS64["exponential"], types.float64(LARGEST)

    @cuda.jit(device=True, **INLINE)
    def above(word, a, c):
        trials = min(number(word, c) / a, largest)
        k = types.int64(trials)
        return max(k + types.int64(1) if trials > types.float64(k) else k, types.int64(1))

    @cuda.jit(device=True, **INLINE)
    def geometric(block, stream, key, a, b, c, v, e):
        w0, w1, w2, w3 = philox(block, stream, key)
        v[e] = T(above(join(w0, w1), a, c))
        v[e + 1] = T(above(join(w2, w3), a, c))

    return geometric


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
    """a = low, b = count (1 .. 2^32), c = 2^32 mod count; all uint64. The sum with low wraps as
    two's complement."""

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


# -------------------- the two kernels of draws


@functools.cache
def each(distribution, dtype, E, from_cell):
    """out: (n,) dtype; key, stream, first, and a, b, c: scalars (from_cell: key is a cell). One
    thread per element."""
    _, store, T = codec(dtype)
    numbers, begin = distribution(dtype, T), beginning(from_cell)

    @cuda.jit
    def each(out, key, stream, first, a, b, c):
        i = cuda.grid(1)
        if i < out.size:
            v = cuda.local.array(E, T)
            k, s, start = begin(key, stream, first)
            numbers(start + types.uint64(i // E), s, k, a, b, c, v, 0)
            out[i] = store(v[i % E])

    return each


@functools.cache
def vectors(distribution, dtype, E, from_cell):
    """out: (n,) dtype, 16-byte aligned; the other arguments as in `each`. RUNS runs a thread, whole
    sectors a warp.

    Blocks that lie inside the array ask nothing on the way, so that the rounds of several runs
    overlap.
    """
    _, store, T = codec(dtype)
    numbers, begin = distribution(dtype, T), beginning(from_cell)
    width = run_width(dtype)
    G = max(E, width)  # elements per run
    philoxes = G // E  # blocks of random bits per run
    per_block, held_at_once = RUNS * THREADS * G, TOGETHER * G
    two = G == 2 * width  # a run is two stores: of 64-bit integers
    write = writer(dtype, width)

    @cuda.jit
    def vectors(out, key, stream, first, a, b, c):
        k, s, start = begin(key, stream, first)
        t = cuda.threadIdx.x
        base = (
            types.int64(cuda.blockIdx.x) * (RUNS * THREADS) + t
        )  # in runs, of which each is `philoxes` blocks of numbers
        if (types.int64(cuda.blockIdx.x) + 1) * per_block <= out.size:
            for run in range(0, RUNS, TOGETHER):
                v = cuda.local.array(held_at_once, T)
                for r in range(TOGETHER):
                    at = base + (run + r) * THREADS
                    for j in range(philoxes):
                        numbers(
                            start + types.uint64(at * philoxes + j), s, k, a, b, c, v, r * G + j * E
                        )
                for r in range(TOGETHER):
                    i = (base + (run + r) * THREADS) * G
                    at = r * G
                    # neighbours swap halves: each store of theirs then fills a sector of 32 bytes
                    # together
                    if two:
                        odd = t & 1
                        for e in range(at, at + width):
                            other = T(
                                cuda.shfl_xor_sync(
                                    ALL, types.int64(v[e] if odd else v[width + e]), 1
                                )
                            )
                            if odd:
                                v[e] = other
                            else:
                                v[width + e] = other
                        i -= odd * width
                        write(out, i, v, at)
                        write(out, i + G, v, at + width)
                    else:
                        write(out, i, v, at)
        else:
            for run in range(RUNS):
                v = cuda.local.array(G, T)
                at = base + run * THREADS
                for j in range(philoxes):
                    numbers(start + types.uint64(at * philoxes + j), s, k, a, b, c, v, j * E)
                for e in range(G):
                    if at * G + e < out.size:
                        out[at * G + e] = store(v[e])

    return vectors


def run_width(dtype):
    """Elements of one store: 16 bytes, 8 for one-byte types."""
    return min(16 // dtype.itemsize, 8)


def draw(distribution, out, E, kind, from_cell, version="vectors"):
    """Plan: fill `out` from a distribution of E numbers per block. Scalars: key, stream, first, a,
    b, c (dtype kind).

    from_cell: in a captured graph. The input is the generator's cell; the key's scalar is not used.
    """
    G = max(E, run_width(out.dtype))
    per_block = THREADS if version == "each" else THREADS * RUNS * G
    kernel = (each if version == "each" else vectors)(distribution, out.dtype, E, from_cell)
    parameters = [Scalar(3 + i, kind) for i in range(3)]
    return Plan(
        [out],
        [
            Launch(
                kernel,
                blocks(out.size, per_block),
                THREADS,
                [Output(0).flat, *counter(from_cell), *parameters],
            )
        ],
    )


def lanes(dtype):
    """Floating-point numbers from one Philox block."""
    return 2 if dtype == np.float64 else 4


def uniform(*cell, shape, dtype, device, version="vectors"):
    """Planner. Scalars: key, stream, first block, low, high - low, 0."""
    return draw(
        uniform_of,
        Layout.new(shape, dtype, device),
        lanes(dtype),
        compute_dtype(dtype),
        bool(cell),
        version,
    )


def normal(*cell, shape, dtype, device, version="vectors"):
    """Planner. Scalars: key, stream, first block, mean, standard deviation, 0."""
    return draw(
        normal_of,
        Layout.new(shape, dtype, device),
        lanes(dtype),
        compute_dtype(dtype),
        bool(cell),
        version,
    )


def tail(*cell, shape, dtype, device, kind, version="vectors"):
    """Planner. Scalars: key, stream, first block, location, scale, parameter of the shape. kind: a
    name in TAILS32, or "lognormal": there the scalars are those of `normal`."""
    distribution = lognormal_of if kind == "lognormal" else tail_of(kind)
    return draw(
        distribution,
        Layout.new(shape, dtype, device),
        lanes(dtype),
        compute_dtype(dtype),
        bool(cell),
        version,
    )


def geometric(*cell, shape, dtype, device, version="vectors"):
    """Planner. Scalars: key, stream, first block, rate, 0, 0."""
    return draw(geometric_of, Layout.new(shape, dtype, device), 2, np.float64, bool(cell), version)


def integers(*cell, shape, dtype, device, wide, version="vectors"):
    """Planner. Scalars: key, stream, first block, and a, b, c of bounded64 (wide: over 2^32 values)
    or bounded32."""
    out = Layout.new(shape, dtype, device)
    return draw(
        bounded64_of if wide else bounded32_of,
        out,
        2 if wide else 4,
        np.uint64,
        bool(cell),
        version,
    )


def bernoulli(*cell, shape, device, version="vectors"):
    """Planner. Scalars: key, stream, first block, threshold = probability times 2^32, 0, 0."""
    return draw(
        below_of, Layout.new(shape, np.dtype(np.bool_), device), 4, np.uint64, bool(cell), version
    )


# -------------------- permutations


@functools.cache
def ranks(from_cell):
    """One block of RANKED threads."""
    begin = beginning(from_cell)

    @cuda.jit
    def ranks(out, key, stream, first, n):
        """out: (m,) int64, m <= n <= RANKED: out[i] = rank of key i among n keys."""
        keys = cuda.shared.array(RANKED, types.uint64)
        i = cuda.threadIdx.x
        count = types.int64(n)  # a comparison of int64 with uint64 would be one of float64
        mine = types.uint64(0)
        if i < count:
            k, s, start = begin(key, stream, first)
            w0, w1, w2, w3 = philox(start + types.uint64(i // 2), s, k)
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

    return ranks


@functools.cache
def bijection(from_cell):
    """One thread per number, and more in long arrays."""
    begin = beginning(from_cell)

    @cuda.jit
    def bijection(out, key, stream, first, n, left_bits, right_bits):
        """out: (m,) int64, m <= n < 2^(left_bits + right_bits): out[i] = image of i under a
        permutation of [0, n).

        A number is cut into a left and a right part. Each round multiplies the left part by an odd
        constant; the low half of the product becomes the new right part, the high half, mixed with
        a round key and the old right part, the new left part. Every round can be undone, so the
        whole is one-to-one; values >= n go through it again.
        """
        round_keys = cuda.shared.array(CIPHER_ROUNDS, types.uint32)
        t = cuda.threadIdx.x
        if t < CIPHER_ROUNDS // 4:
            k, s, start = begin(key, stream, first)
            w0, w1, w2, w3 = philox(start + types.uint64(t), s, k)
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
                    high = types.uint32(
                        types.uint64(left) * types.uint64(0xD2B74407) + (low >> types.uint64(32))
                    )
                    joined = (types.uint64(types.uint32(low)) << shift) | (
                        types.uint64(right) >> left_bits
                    )
                    left = types.uint32((high ^ round_keys[r] ^ right) & left_mask)
                    right = types.uint32(types.uint32(joined) & right_mask)
                value = (types.uint64(left) << right_bits) | types.uint64(right)
                outside = value >= n
            out[i] = types.int64(value)

    return bijection


def permutation(*cell, count, ranked, bits, device):
    """Planner: the first `count` elements of a permutation of 0 .. n - 1. Scalars: key, stream,
    first block, n.

    ranked: n <= RANKED. Otherwise bits = (n - 1).bit_length().
    """
    out = Layout.new((count,), np.dtype(np.int64), device)
    from_cell = bool(cell)
    arguments = [Output(0), *counter(from_cell), Scalar(3, np.uint64)]
    if ranked:
        return Plan([out], [Launch(ranks(from_cell), min(count, 1), RANKED, arguments)])
    parts = [np.uint64(bits // 2), np.uint64(bits - bits // 2)]
    grid = min(blocks(count, THREADS), 4096)
    return Plan([out], [Launch(bijection(from_cell), grid, THREADS, [*arguments, *parts])])


# -------------------- choice by weight


@functools.cache
def choice_each(from_cell):
    """One thread per element."""
    begin = beginning(from_cell)

    @cuda.jit
    def choice_each(thresholds, out, key, stream, first):
        """thresholds: (k,) uint64, cumulative probabilities times 2^53; out: (n,) int64 indices in
        [0, k).

        The index of the first threshold above a number of 53 random bits, by bisection.
        """
        i = cuda.grid(1)
        if i < out.size:
            k, s, start = begin(key, stream, first)
            w0, w1, w2, w3 = philox(start + types.uint64(i // 2), s, k)
            u = (join(w0, w1) if i % 2 == 0 else join(w2, w3)) >> types.uint64(11)
            low, high = 0, thresholds.size - 1
            while low < high:
                middle = (low + high) // 2
                if thresholds[middle] > u:
                    high = middle
                else:
                    low = middle + 1
            out[i] = low

    return choice_each


@functools.cache
def thresholds_of(dtype):
    """One block: the thresholds of probabilities, added up by one thread in the order in which the
    CPU adds them, so that both draw the same."""
    load, most = codec(dtype)[0], sum_tolerance(dtype)

    @cuda.jit
    def thresholds_of(p, thresholds, flag, ticket):
        """p: (k,), k <= WEIGHED; thresholds: (k,) uint64. Raises the error flag (1,) where p is
        negative, NaN or does not add up to 1."""
        sums = cuda.shared.array(WEIGHED, types.float64)
        t = cuda.threadIdx.x
        for i in range(t, p.size, THREADS):
            sums[i] = types.float64(load(p[i]))
            if not sums[i] >= 0.0:
                flag[0] = -ticket
        cuda.syncthreads()
        if t == 0:
            total = 0.0
            for i in range(p.size):
                total += sums[i]
                sums[i] = total
            if not abs(total - 1.0) <= most:
                flag[0] = -ticket
        cuda.syncthreads()
        for i in range(t, p.size, THREADS):
            scaled = sums[i] / sums[p.size - 1] * 2.0**53
            thresholds[i] = types.uint64(
                scaled + 2.0**52 - 2.0**52 if scaled < 2.0**52 else scaled
            )  # to the nearest integer

    return thresholds_of


def thresholds(p):
    """Planner: probabilities (k,), float32 or float64 -> thresholds (k,) uint64."""
    out = Layout.new(p.shape, np.dtype(np.uint64), p.device)
    return Plan(
        [out], [Launch(thresholds_of(p.dtype), 1, THREADS, [Input(0), Output(0), Flag(), Ticket()])]
    )


def choice(thresholds, *cell, shape):
    """Planner: thresholds (k,) uint64 -> shape, int64. Scalars: key, stream, first block."""
    out = Layout.new(shape, np.dtype(np.int64), thresholds.device)
    arguments = [Input(0), Output(0).flat, *counter(bool(cell), 1)]
    return Plan(
        [out], [Launch(choice_each(bool(cell)), blocks(out.size, THREADS), THREADS, arguments)]
    )
