"""Short rows sorted by ranks: every key is compared with all others of its row; the number of keys
before it is its position.

The idea. For n keys that takes n^2 comparisons where a sorting network takes n log^2 n, but they
are independent of each other: 4,096 keys are 128 blocks of 32 keys, and each warp of a block
compares these with a part of the row, its lanes reading the same key of shared memory at the same
time. A network of 78 rounds, in which one multiprocessor sorts a row, takes four times as long. The
keys before a key are the smaller ones and the equal ones ahead of it, so the order is stable. If
only the first few are wanted (`topk`), the others are not stored. For any GPU and the simulator.

Floor: n^2 comparisons of two instructions. Keys lie in fours, so that one access of shared memory
serves four comparisons (one each: 12.9 us for 4,096 float32). On an H200, device time by CUDA
events, us, beside the networks of bitonic.py:

    float32         600   2,048   4,096   8 x 1,024   2 x 4,096
    ranks           5.1     6.7     9.4         8.3        14.2
    networks              13.8    27.8         8.5        27.8

For a median the rank is known and the element is wanted (``median_rows``): the key of rank r is the
greatest number that at most r keys are less than, and is found bit by bit from the top, while a
warp has its row in registers and counts by votes. 32 numbers of a row cost 32 comparisons, a vote
and a count each: the floor is one read of the row for rows of 64. 16,384 rows of 64 float32 on an
H200: 16 us (PyTorch 36), 4,096 rows of 1,000: 46 (168). Where NaN do not count, they are counted by
votes first, and the row ends before them: 46 (236). A longer row, which no warp can hold, is one
block's (``median_lines``): it counts the digits of its keys, a byte at a time (block_digits.py).
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import FULL, WARP, bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.axis_last import rows_as_they_lie
from ..copy.contiguous import dense
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from .block_digits import COUNTERS, DIGITS, clear_digits, count_digit, count_next, pick_digit
from .problem import MOST_APART, LeadingProblem, SortProblem, leading_rows, sorted_rows
from .radix_keys import Coding, coding, flipped

if not SIMULATOR:
    from ..ptx.lookback import number
else:

    def number(word):
        return word.view(f"f{word.itemsize}")


WARPS = 16
THREADS = WARPS * WARP
EACH = 8  # keys that a thread reads at once
CHUNK = THREADS * EACH  # keys in shared memory at a time
STEP = 4  # of them that are in flight to a thread at once
QUADS = CHUNK // STEP
MEDIAN_WARPS = 4  # rows of a block
MOST_OF_WARP = 1024  # elements of a row whose median a warp finds
# elements of a row whose median a block finds, in its registers; its threads, and what each has
MOST_OF_BLOCK, MOST_THREADS, LEAST_EACH = 1 << 14, 1024, 8


@functools.cache
def rank_rows(coding: Coding, values: bool, positions: bool) -> Any:
    """The elements of rank 0 ... limit - 1, in order, or their positions, or both."""
    word, key_of, K, bits = coding
    kind, last = getattr(types, word.name), K((1 << bits) - 1)

    @bounded(THREADS)
    def rank_rows(
        x, out, places, flip, limit
    ):  # x: (rows, n) words; out: (rows, limit) words; places: the same, int64
        keys = cuda.shared.array((QUADS, STEP), K)
        ranks = cuda.shared.array(WARP, types.int32)
        held = cuda.local.array(EACH, kind)
        t = types.int32(cuda.threadIdx.x)
        lane, warp = t % types.int32(WARP), t // types.int32(WARP)
        n = types.int32(x.shape[1])
        parts = (n + types.int32(WARP - 1)) // types.int32(WARP)  # blocks of a row
        block = types.int32(cuda.blockIdx.x)
        row = block // parts
        first = (block - row * parts) * types.int32(WARP)
        own = min(first + lane, n - types.int32(1))
        element = x[row, own]
        mine = key_of(element, flip)
        if t < WARP:
            ranks[t] = 0
        rank = types.int32(0)
        for start in range(types.int32(0), n, types.int32(CHUNK)):
            here = min(n - start, types.int32(CHUNK))
            steps = (here + types.int32(STEP - 1)) // types.int32(STEP)
            for k in range(EACH):
                held[k] = x[row, start + min(t + types.int32(k * THREADS), here - types.int32(1))]
            cuda.syncthreads()
            for k in range(EACH):
                i = types.uint32(t + types.int32(k * THREADS))
                if i < steps * STEP:
                    keys[i // types.uint32(STEP), i % types.uint32(STEP)] = (
                        key_of(held[k], flip) if i < here else last
                    )
            cuda.syncthreads()
            share = types.int32((steps + types.int32(WARPS - 1)) // types.int32(WARPS))
            begin = types.int32(min(warp * share, steps))
            end = types.int32(min(begin + share, steps))
            ahead = types.int32((first - start) // types.int32(STEP))  # of this block's keys
            low = min(max(ahead, begin), end)
            high = types.int32(min(max(ahead + types.int32(WARP // STEP), low), end))
            for i in range(begin, low):
                for k in range(STEP):
                    if keys[types.uint32(i), k] <= mine:
                        rank += types.int32(1)
            for i in range(low, high):
                for k in range(STEP):
                    other = keys[types.uint32(i), k]
                    if other < mine or (
                        other == mine and start + i * types.int32(STEP) + types.int32(k) < own
                    ):
                        rank += types.int32(1)
            for i in range(high, end):
                for k in range(STEP):
                    if keys[types.uint32(i), k] < mine:
                        rank += types.int32(1)
        cuda.atomic.add(ranks, lane, rank)  # integers: any order gives the same sum
        cuda.syncthreads()
        if t < WARP and first + t < n:
            rank = ranks[t]
            if rank < limit:
                if values:
                    out[row, rank] = element
                if positions:
                    places[row, rank] = own

    return rank_rows


@functools.cache
def decoder(coding: Coding, dtype: np.dtype) -> Any:
    """Device function: the floating-point number whose key this is."""
    _, _, K, bits = coding
    load, _, T = codec(dtype)
    sign, every = K(1 << (bits - 1)), K((1 << bits) - 1)
    narrow = bits < 32

    @device_function
    def decoded(key):
        word = K(key ^ sign if key & sign else key ^ every)
        return T(load(types.uint16(word))) if narrow else T(number(word))

    return decoded


@functools.cache
def median_rows(coding: Coding, dtype: np.dtype, held: int, skip: bool) -> Any:
    """y[row] = the middle element of a row in order, or the mean of the two in the middle; NaN if
    there is one. skip: of the elements that are not NaN; NaN if there are none. A warp a row, of
    which each lane has `held` elements."""
    _, key_of, K, bits = coding
    _, store, T = codec(dtype)
    every, top = K((1 << bits) - 1), K(1 << (bits - 1))
    moved = types.int32 if bits <= 32 else types.int64
    decoded = decoder(coding, dtype)

    @bounded(MEDIAN_WARPS * WARP)
    def median_rows(
        x, y, plain
    ):  # x: (rows, n) words, y: (rows,), plain: the flip of ascending order
        keys = cuda.local.array(held, K)
        lane = types.int32(cuda.threadIdx.x) % types.int32(WARP)
        row = types.int64(cuda.blockIdx.x) * MEDIAN_WARPS + cuda.threadIdx.x // WARP
        n = types.int32(x.shape[1])
        if row < x.shape[0]:
            missing = types.int32(0)  # NaN of the row
            for i in range(held):
                at = types.int32(lane + types.int32(i * WARP))
                keys[i] = (
                    key_of(x[row, at], plain) if at < n else every
                )  # beyond the end: less than nothing
                missing += types.int32(
                    cuda.popc(types.uint32(cuda.ballot_sync(FULL, at < n and keys[i] == every)))
                )
            if skip:  # they come last, so the row ends before them
                n = types.int32(n - missing)
            low = max(n - types.int32(1), types.int32(0)) // types.int32(2)
            found = K(0)
            bit = top
            while bit != K(0):
                tried = K(found | bit)
                less = types.int32(0)
                for i in range(held):
                    less += types.int32(
                        cuda.popc(types.uint32(cuda.ballot_sync(FULL, keys[i] < tried)))
                    )
                if less <= low:
                    found = tried
                bit = K(bit >> K(1))
            middle = decoded(found)
            if n % types.int32(2) == types.int32(0):
                others = types.int32(0)  # that are not greater
                above = every
                for i in range(held):
                    others += types.int32(
                        cuda.popc(types.uint32(cuda.ballot_sync(FULL, keys[i] <= found)))
                    )
                    if found < keys[i] < above:
                        above = keys[i]
                for s in range(5):
                    above = min(above, K(cuda.shfl_xor_sync(FULL, moved(above), 1 << s)))
                other = middle if others > low + types.int32(1) else decoded(above)
                middle = T(T(middle + other) / T(2))
            if n == types.int32(0) if skip else missing > types.int32(0):
                middle = T(np.nan)
            if lane == 0:
                y[row] = store(middle)

    return median_rows


@functools.cache
def median_lines(coding: Coding, dtype: np.dtype, threads: int, items: int, skip: bool) -> Any:
    """The same; a block a row, which counts the digits of its keys."""
    word, key_of, K, bits = coding
    kind = getattr(types, word.name)
    _, store, T = codec(dtype)
    every, decoded, i32 = K((1 << bits) - 1), decoder(coding, dtype), types.int32

    @bounded(threads)
    def median_lines(
        x, y, plain
    ):  # x: (rows, n) words, y: (rows,), plain: the flip of ascending order
        counts = cuda.shared.array(COUNTERS, types.int32)
        sums = cuda.shared.array(WARP, types.int32)
        found = cuda.shared.array(3, types.int32)
        missing = cuda.shared.array(1, types.int32)  # NaN of the row
        above = cuda.shared.array(1, K)  # the key that follows the middle one
        words = cuda.local.array(items, kind)
        keys = cuda.local.array(items, K)
        t = i32(cuda.threadIdx.x)
        row = types.int64(cuda.blockIdx.x)
        n = i32(x.shape[1])
        if t == 0:
            missing[0] = 0
            above[0] = every
        for i in range(items):  # all are on their way before the first is looked at
            words[i] = x[row, min(i32(t + i32(i * threads)), i32(n - i32(1)))]
        for i in range(items):  # beyond the end: less than nothing
            keys[i] = key_of(words[i], plain) if t + i32(i * threads) < n else every
        cuda.syncthreads()
        own = i32(0)
        for i in range(items):
            if t + i32(i * threads) < n and keys[i] == every:
                own += i32(1)
        if own > i32(0):
            cuda.atomic.add(missing, 0, own)
        cuda.syncthreads()
        length = n
        if skip:  # they come last, so the row ends before them
            length = i32(n - missing[0])
        low = i32(max(length - i32(1), i32(0)) // i32(2))
        middle, left = K(0), low
        for p in range(bits // 8):
            shift = K(bits - 8 - 8 * p)
            clear_digits(counts, t, i32(threads))
            last, run = i32(0), i32(0)
            for i in range(items):
                rest = K(keys[i] >> shift)
                if t + i32(i * threads) < n and K(rest >> K(8)) == middle:
                    last, run = count_next(counts, i32(rest & K(DIGITS - 1)), last, run)
            if run > i32(0):
                count_digit(counts, last, run)
            pick_digit(counts, sums, found, t, left)
            middle, left = K(K(middle << K(8)) | K(found[0])), found[1]
        two = length % i32(2) == i32(0) and left + i32(1) == found[2]
        if two:  # the other one in the middle is the next key
            following = every
            for i in range(items):
                if middle < keys[i] < following:
                    following = keys[i]
            if following < every:
                cuda.atomic.min(above, 0, following)
        cuda.syncthreads()
        if t == 0:
            value = decoded(middle)
            if length % i32(2) == i32(0):
                value = T(T(value + (decoded(above[0]) if two else value)) / T(2))
            if length == i32(0) if skip else missing[0] > i32(0):
                value = T(np.nan)
            y[row] = store(value)

    return median_lines


def medians(x: Layout, *, skip: bool) -> Plan:
    """The medians of lines along the last axis, of up to MOST_OF_BLOCK floating-point numbers;
    skip: of those that are not NaN."""
    n = x.shape[-1]
    out = x.like(x.shape[:-1])
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    code, rows = coding(x.dtype), x.size // n
    steps: list[Launch] = []
    given = rows_as_they_lie(Input(0), x, x.ndim - 1)
    if given is None or abs(x.strides[-1]) > x.itemsize and x.nbytes > MOST_APART:
        steps, source = dense(Input(0), x, x.shape, x.dtype, temps)
        given = source.view((rows, n))
    if n <= MOST_OF_WARP and not SIMULATOR:
        held = power_of_two(max(2, blocks(n, WARP)))
        kernel, grid = median_rows(code, x.dtype, held, skip), blocks(rows, MEDIAN_WARPS)
        threads = MEDIAN_WARPS * WARP
    else:
        threads = min(MOST_THREADS, max(WARP, power_of_two(blocks(n, LEAST_EACH))))
        kernel, grid = median_lines(code, x.dtype, threads, blocks(n, threads), skip), rows
    launch = Launch(
        kernel,
        grid,
        threads,
        [given.view((rows, n), given.strides, code.word), Output(0).view((rows,)), code.no_flip],
    )
    return Plan([out], [*steps, launch], temps)


def topk(p: LeadingProblem) -> Plan:
    """Version "rank_sort" of topk: the first ranks."""

    def steps(p: LeadingProblem, source: Any, values: Any, places: Any, _temps: Any) -> list:
        return rank_steps(source, values, places, p.x, p.n, p.count, p.descending)

    return leading_rows(p, steps)


def rank_steps(
    source: Any, target: Any, places: Any, x: Layout, n: int, count: int, descending: bool
) -> list[Launch]:
    """Steps that write the first ``count`` of the sorted rows of ``source``, an argument of x's
    dtype and rows of n, to ``target``, and their positions to ``places``, in the strides that these
    have; either may be None."""
    code, rows = coding(x.dtype), x.size // n
    given = source.view((rows, n), source.strides, code.word)  # also stands for what is not wanted
    words = given if target is None else target.view((rows, count), target.strides, code.word)
    order = (
        given if places is None else places.view((rows, count), places.strides, np.dtype(np.int64))
    )
    return [
        Launch(
            rank_rows(code, target is not None, places is not None),
            rows * blocks(n, WARP),
            THREADS,
            [given, words, order, flipped(x.dtype, descending), count],
        )
    ]


def sort(p: SortProblem) -> Plan:
    """Version "rank_sort" of a sort: all ranks."""

    def steps(source: Any, target: Any, _temps: list[Layout]) -> list[Launch]:
        values, places = (None, target) if p.positions else (target, None)
        return rank_steps(source, values, places, p.x, p.n, p.n, p.descending)

    return sorted_rows(p, steps)
