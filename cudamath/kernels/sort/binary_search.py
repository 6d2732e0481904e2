"""Places in a sorted array: searchsorted, digitize; membership: isin; interpolation in a table:
interp.

The idea. Each thread halves the range in which its number can lie until nothing is left: log2(n) +
1 steps, each a read of the sorted array. Steps near the middle of the array are the same for
everybody and come from the caches; the later ones are one 32-byte sector each. Numbers are compared
by their keys (radix_keys.py), so NaN is the largest of all.

``find`` runs anywhere; the keys of a short array it keeps in shared memory, of a longer one those
that the first ten steps compare, or more if numbers are many, and then a thread searches for
several of them at the same time. The floor is a read of the numbers and a write of 8 bytes each.
Of few numbers the time is a chain of latencies: a number and the kept keys, which are loaded
together, ten steps in shared memory, the others in the L2 cache. Of many it is the sectors that
come from the L2 cache, one a number for each step but the last three, which share one; in arrays
larger than the caches about one from DRAM for each doubling beyond them.

Complex numbers have no keys: ``find_complex`` compares them by their parts.

Whether numbers occur in an array needs no place: ``among_few`` compares each with all of a few,
which a block holds in shared memory, ITEMS numbers per thread for every element read from there;
``among_sorted`` searches as ``find`` does and compares the element it ends at. ``interpolate``
searches the interval of each number and draws the line through its ends.

Measured (row searchsorted):
searchsorted(a, v), 2^20 and 2^24; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath        207          0.05
    torch           199          0.05
    cupy            176          0.04

(end of what was measured)
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Scalar, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import COMPLEX, compute_dtype
from ...core.layout import Layout
from ...core.specs.complex_order import complex_order
from ...runtime import kernel_errors
from ...runtime.device import multiprocessors
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.contiguous import dense
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from .radix_keys import Coding, coding

THREADS = 256
FEW = 256  # elements that every number is compared with, without a sort
ITEMS = 8
HELD = 1024  # sorted elements whose keys a block keeps
# numbers a thread searches for in a short array, half as many in a long one: more would drive each
# other's lines from the caches; one, as long as threads are left
SOUGHT = 4
ROUNDS = 8  # blocks of a multiprocessor, at most
# For so many numbers blocks of so many threads keep more keys: each doubling saves every number a
# sector from the L2 cache, and costs a sector for every key of every block.
MANY, MANY_THREADS, MANY_BYTES = 1 << 20, 1024, 32 << 10
FAR = 1 << 30  # elements from which on places are computed in 64 bits

kernel_errors.failures["digitize"], kernel_errors.exceptions["digitize"] = (
    "bins must ascend or descend",
    ValueError,
)


class Search(NamedTuple):
    """How blocks of ``find`` search.

    Attributes
    ----------
    threads : int
        Of a block.
    sought : int
        Numbers that a thread searches for at the same time.
    kept : int
        Keys in shared memory, at most.
    whole : bool
        Whether these are all.
    far : bool
        Whether places need more than 32 bits.
    """

    threads: int
    sought: int
    kept: int
    whole: bool
    far: bool


def search_of(n: int, numbers: int, word: int, device: int) -> Search:
    """The search for so many numbers among n elements of so many bytes."""
    held = HELD
    at_once = 1 if SIMULATOR else THREADS * ROUNDS * multiprocessors(device)
    if not SIMULATOR and numbers >= MANY and n > HELD:
        held = MANY_BYTES // max(word, 4)
    threads = THREADS if held == HELD else MANY_THREADS
    sought = SOUGHT if n <= held else SOUGHT // 2
    if numbers <= at_once:
        sought = 1
    return Search(threads, sought, held, n <= held, n >= FAR)


@functools.cache
def find(coding: Coding, right: bool, either: bool, search: Search) -> Any:
    """places[i] = how many elements of the sorted array are less than (right: not greater than)
    numbers[i].

    either: the array may also descend, and it is digitize's bins that are meant: ascending, `right`
    is about the bins' edges, which is the other way round; descending order is ascending order of
    keys with all bits flipped. A block keeps some keys in shared memory: those of every
    `spacing`-th element, a power of two, which the first steps compare.
    """
    word, key_of, K, bits = coding
    plain, every = K(0), K((1 << bits) - 1)
    threads, sought, kept, whole, far = search
    each, kind = blocks(kept, threads), getattr(types, word.name)
    P, U = (types.int64, types.uint64) if far else (types.int32, types.uint32)

    @bounded(threads)
    def find(ordered, numbers, places, top, spacing, bits_of_spacing, flag, ticket):
        # ordered: (n,) words, numbers: (m,) words, places: (m,) int64; top: the largest power of
        # two up to n, or 0
        n = P(ordered.size)
        t = P(cuda.threadIdx.x)
        flip = plain
        inclusive = right
        if either and n > 0:
            falling = key_of(ordered[0], plain) > key_of(ordered[n - 1], plain)
            flip = every if falling else plain
            inclusive = falling == right
            for k in range(
                types.int64(cuda.blockIdx.x) * threads + t,
                n - 1,
                types.int64(cuda.gridDim.x) * threads,
            ):
                if key_of(ordered[k], flip) > key_of(ordered[k + 1], flip):
                    flag[0] = -ticket
        table = cuda.shared.array(kept, K)
        words = cuda.local.array(each, kind)
        ahead = cuda.local.array(sought, kind)
        wanted = cuda.local.array(sought, K)
        below = cuda.local.array(sought, P)
        keys = cuda.local.array(sought, K)
        last = types.int64(places.size - 1)
        first = types.int64(cuda.blockIdx.x) * (threads * sought) + t
        stride = types.int64(cuda.gridDim.x) * (threads * sought)
        # all of a thread's loads are on their way before the first is looked at
        for k in range(sought):
            ahead[k] = numbers[types.uint64(min(first + k * threads, last))]
        many = P(n >> P(bits_of_spacing))
        if n > 0:
            for i in range(each):
                k = P(min(P(t + P(i * threads)), P(many - 1)))
                words[i] = ordered[U(P((k + P(1)) << P(bits_of_spacing)) - P(1))]
            for i in range(each):
                if t + P(i * threads) < many:
                    table[t + P(i * threads)] = key_of(words[i], flip)
        cuda.syncthreads()
        while first <= last:
            for k in range(sought):
                wanted[k] = key_of(ahead[k], flip)
                below[k] = P(0)
            following = types.int64(first + stride)
            if following <= last:
                for k in range(sought):
                    ahead[k] = numbers[types.uint64(min(following + k * threads, last))]
            step = P(top)
            while step >= P(spacing) and step > P(0):
                # so many more are tried, for all of the thread's numbers at the same time
                for k in range(sought):
                    keys[k] = table[U(P(min(P(below[k] + step), n) >> P(bits_of_spacing)) - P(1))]
                for k in range(sought):
                    after = P(below[k] + step)
                    less = keys[k] < wanted[k] or (inclusive and keys[k] == wanted[k])
                    if after <= n and less:
                        below[k] = after
                step >>= P(1)
            if not whole:
                while step > P(0):
                    for k in range(sought):
                        keys[k] = key_of(ordered[U(P(min(P(below[k] + step), n) - P(1)))], flip)
                    for k in range(sought):
                        after = P(below[k] + step)
                        less = keys[k] < wanted[k] or (inclusive and keys[k] == wanted[k])
                        if after <= n and less:
                            below[k] = after
                    step >>= P(1)
            for k in range(sought):
                if first + k * threads <= last:
                    places[types.uint64(first + k * threads)] = below[k]
            first = following

    return find


@functools.cache
def among_few(dtype: np.dtype) -> Any:
    """out[i] = whether numbers[i] equals one of table's at most FEW elements, or with `invert`
    whether not."""
    load, _, T = codec(dtype)
    shared, zero = T, T(0)

    @cuda.jit
    def among_few(numbers, table, out, invert):  # numbers: (n,), table: (m,), out: (n,) uint8
        held = cuda.shared.array(FEW, shared)
        t = cuda.threadIdx.x
        if t < table.size:
            held[t] = load(table[t])
        cuda.syncthreads()
        first = types.int64(cuda.blockIdx.x) * (THREADS * ITEMS) + t
        own = cuda.local.array(ITEMS, shared)
        found = cuda.local.array(ITEMS, types.boolean)
        for k in range(ITEMS):
            i = first + k * THREADS
            own[k] = load(numbers[i]) if i < numbers.size else zero
            found[k] = False
        for j in range(table.size):
            other = held[j]
            for k in range(ITEMS):
                found[k] |= own[k] == other
        for k in range(ITEMS):
            i = first + k * THREADS
            if i < numbers.size:
                out[i] = types.uint8(found[k] != (invert != 0))

    return among_few


@functools.cache
def among_sorted(dtype: np.dtype, coding: Coding) -> Any:
    """The same of a sorted table of any length. The last element that is not greater is the only
    one that can be equal."""
    load = codec(dtype)[0]
    _, key_of, K, word = coding
    plain = K(0)

    @cuda.jit
    def among_sorted(
        keys, ordered, words, numbers, out, invert
    ):  # keys, words: the elements of ordered, numbers as words
        i = cuda.grid(1)
        if i < out.size:
            wanted = key_of(words[i], plain)
            low = types.int64(0)
            high = types.int64(keys.size)
            while low < high:
                middle = (low + high) >> 1
                if key_of(keys[middle], plain) <= wanted:
                    low = middle + 1
                else:
                    high = middle
            found = low > 0 and load(ordered[max(low - 1, 0)]) == load(numbers[i])
            out[i] = types.uint8(found != (invert != 0))

    return among_sorted


def isin(numbers: Layout, table: Layout, *, invert: bool) -> Plan:
    """Complex numbers have no keys: ``find_complex`` compares them by their parts.

    Whether numbers occur in a vector of the same dtype, sorted if it is longer than FEW."""
    out = numbers.like(dtype=np.dtype(bool))
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    first, given = dense(Input(0), numbers, numbers.shape, numbers.dtype, temps)
    second, among = dense(Input(1), table, table.shape, table.dtype, temps)
    n, m = numbers.size, table.size
    if m <= FEW:
        step = Launch(
            among_few(numbers.dtype),
            blocks(n, THREADS * ITEMS),
            THREADS,
            [given.view((n,)), among.view((m,)), Output(0).flat, int(invert)],
        )
    else:
        code = coding(numbers.dtype)
        step = Launch(
            among_sorted(numbers.dtype, code),
            blocks(n, THREADS),
            THREADS,
            [
                among.view((m,), dtype=code.word),
                among.view((m,)),
                given.view((n,), dtype=code.word),
                given.view((n,)),
                Output(0).flat,
                int(invert),
            ],
        )
    return Plan([out], [*first, *second, step], temps)


@functools.cache
def interpolate(dtype: np.dtype) -> Any:
    """out[i] = the line through (places, values) at x[i]; outside left and right where sides has
    bits 1 and 2, else the first and the last value."""
    load, store, _ = codec(dtype)

    @cuda.jit
    def interpolate(
        x, places, values, out, left, right, sides
    ):  # x, out: (n,); places, values: (m,), m > 0
        i = cuda.grid(1)
        if i < out.size:
            v = load(x[i])
            last = types.int64(places.size) - 1
            low = types.int64(0)
            high = last + 1
            while low < high:  # how many places are not beyond v
                middle = (low + high) >> 1
                if load(places[middle]) <= v:
                    low = middle + 1
                else:
                    high = middle
            k = max(min(low, last) - 1, 0)
            after = min(k + 1, last)
            begin, end = load(places[k]), load(places[after])
            below, above = load(values[k]), load(values[after])
            if low > last or last == 0:  # in a table of one place even for NaN
                y = above
            elif v == begin:
                y = below
            else:
                slope = (above - below) / (end - begin)
                y = below + slope * (v - begin)
                if y != y:  # infinite places or values: from the other end, as NumPy does
                    y = above + slope * (v - end)
                    if y != y and v == v and below == above:
                        y = below
            if v < load(places[0]):
                y = left if sides & 1 else load(values[0])
            elif v > load(places[last]):
                y = right if sides & 2 else load(values[last])
            out[i] = store(y)

    return interpolate


def interp(x: Layout, places: Layout, values: Layout, *, sides: int) -> Plan:
    """Interpolation at x, of any shape, all of one dtype; scalars: the values left and right of the
    table."""
    out = x.like()
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    steps, seen = [], []
    for i, layout in enumerate((x, places, values)):
        more, given = dense(Input(i), layout, layout.shape, layout.dtype, temps)
        steps += more
        seen.append(given.view((layout.size,)))
    T = compute_dtype(x.dtype)
    return Plan(
        [out],
        [
            *steps,
            Launch(
                interpolate(x.dtype),
                blocks(out.size, THREADS),
                THREADS,
                [*seen, Output(0).flat, Scalar(0, T), Scalar(1, T), sides],
            ),
        ],
        temps,
    )


def searchsorted(ordered: Layout, numbers: Layout, *, right: bool) -> Plan:
    """Places of numbers, of any shape, in a sorted vector of the same dtype."""
    return _places(ordered, numbers, right, False)


def digitize(edges: Layout, numbers: Layout, *, right: bool) -> Plan:
    """Bins of numbers, of any shape, between edges of the same dtype that ascend or descend."""
    return _places(edges, numbers, right, True)


@functools.cache
def find_complex(right: bool) -> Any:
    """places[i] = how many elements of the sorted array come before (right: not after) numbers[i],
    of complex numbers, which have no keys."""
    before = complex_order(device_function).before

    @cuda.jit
    def find_complex(ordered, numbers, places):
        # ordered: (n,), numbers: (m,) complex, places: (m,) int64; one thread per number
        i = cuda.grid(1)
        if i < places.size:
            wanted = numbers[i]
            low = types.int64(0)
            high = types.int64(ordered.size)
            while low < high:
                middle = (low + high) >> 1
                if right:
                    below = not before(wanted, ordered[middle])
                else:
                    below = before(ordered[middle], wanted)
                if below:
                    low = middle + 1
                else:
                    high = middle
            places[i] = low

    return find_complex


def _places(ordered: Layout, numbers: Layout, right: bool, either: bool) -> Plan:
    out = numbers.like(dtype=np.dtype(np.int64))
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    first, table = dense(Input(0), ordered, ordered.shape, ordered.dtype, temps)
    second, given = dense(Input(1), numbers, numbers.shape, numbers.dtype, temps)
    if ordered.dtype in COMPLEX:
        vectors = [a.view((x.size,)) for a, x in ((table, ordered), (given, numbers))]
        step = Launch(
            find_complex(right), blocks(out.size, THREADS), THREADS, [*vectors, Output(0).flat]
        )
        return Plan([out], [*first, *second, step], temps)
    code = coding(ordered.dtype)
    seen = [a.view((x.size,), dtype=code.word) for a, x in ((table, ordered), (given, numbers))]
    n = ordered.size
    search = search_of(n, out.size, code.word.itemsize, out.device)
    spacing = power_of_two(blocks(n + 1, search.kept + 1))  # n // spacing keys
    grid = blocks(out.size, search.threads * search.sought)
    if not SIMULATOR:  # blocks that stay read the keys once
        rounds = ROUNDS * THREADS // search.threads
        grid = min(grid, rounds * multiprocessors(out.device))
    return Plan(
        [out],
        [
            *first,
            *second,
            Launch(
                find(code, right, either, search),
                grid,
                search.threads,
                [
                    *seen,
                    Output(0).flat,
                    1 << n.bit_length() - 1 if n else 0,
                    spacing,
                    spacing.bit_length() - 1,
                    Flag(),
                    Ticket() if either else 0,
                ],
            ),
        ],
        temps,
    )
