"""Loads and stores of a row of numbers that is spread over the registers of a group of threads:
softmax, norm and loss kernels share them.

The idea. A *group* of `threads` threads owns one row. Thread t holds the vectors t, t + threads,
t + 2 threads, ... of the row; a vector is `width` neighbouring elements that one 16-byte access
moves. So the group reads whole 128-byte lines, has several reads in flight per thread, and reads
every element once. With threads = 4, width = 2, vectors = 2, the owners of the elements are

    | 0 0 | 1 1 | 2 2 | 3 3 | 0 0 | 1 1 | 2 2 | 3 3 |

Short rows get a group of 1 to 32 threads inside one warp, several rows to a block; their reductions
are butterfly shuffles and need no barrier. Longer rows get a whole block of up to 1,024 threads;
its warps exchange partial results in shared memory. Every reduction is a fixed tree: the same
numbers in the same order give the same bits, whatever the grid.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes import bfloat16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from .codec import codec

if not SIMULATOR:
    from ..ptx.intrinsics import instruction
    from ..ptx.vector_access import load_vector, load_words, store_vector

    bfloats = instruction(
        "bfloats",
        "{ .reg .b16 z, a, b; mov.b16 z, 0; mov.b32 {a, b}, $2; mov.b32 $0, {z, a}; mov.b32 $1, "
        "{z, b}; }",
        (types.float32,) * 2,
        (types.uint32,),
        "Two bfloat16 in a word, widened: one instruction each.",
    )

FAR = 1 << 30  # more columns than a thread reads at once
RUN = 128  # numbers that a plain kernel adds one after the other before it starts a new partial sum


@functools.cache
def reader(dtype, width: int):
    """Device function (a, i, v, e): v[e], v[e + 1], ... = the `width` elements of `a` from i on, in
    compute type."""
    return reading(codec(dtype)[0], width)


@functools.cache
def reading(load, width: int):
    """As `reader`, of elements that `load` converts."""

    @device_function
    def read_one(a, i, v, e):
        v[e] = load(a[i])

    @device_function
    def read_vector(a, i, v, e):
        packed = load_vector(a, i, width)
        for j in range(width):
            v[e + j] = load(packed[j])

    return read_one if width == 1 else read_vector


@functools.cache
def writer(dtype, width: int):
    """Device function (a, i, v, e): the `width` elements of `a` from i on = v[e], v[e + 1], ...,
    rounded."""
    _, store, _ = codec(dtype)

    @device_function
    def write_1(a, i, v, e):
        a[i] = store(v[e])

    @device_function
    def write_2(a, i, v, e):
        store_vector(a, i, (store(v[e]), store(v[e + 1])))

    @device_function
    def write_4(a, i, v, e):
        store_vector(a, i, (store(v[e]), store(v[e + 1]), store(v[e + 2]), store(v[e + 3])))

    @device_function
    def write_8(a, i, v, e):
        store_vector(
            a,
            i,
            (
                store(v[e]),
                store(v[e + 1]),
                store(v[e + 2]),
                store(v[e + 3]),
                store(v[e + 4]),
                store(v[e + 5]),
                store(v[e + 6]),
                store(v[e + 7]),
            ),
        )

    return {1: write_1, 2: write_2, 4: write_4, 8: write_8}[width]


@functools.cache
def fetcher(dtype, width: int):
    """(fetch, widen, words, kind): an access in two steps, so that it can be in flight while others
    are worked on.

    fetch(a, i, r, k): r[k], ..., r[k + words - 1] = access number i of `a`, an array of `kind` (by
    a plan's `.view(dtype=kind)`), as it lies in memory; widen(r, k, v, e): v[e], v[e + 1], ... =
    its `width` elements in compute type. 16-bit numbers stay packed until then: a register holds
    two.
    """
    load, _, T = codec(dtype)
    packed = dtype.itemsize == 2 and width > 1
    words = width // 2 if packed else width
    kind = np.dtype(np.uint32) if packed else dtype

    @device_function
    def fetch_one(a, i, r, k):
        r[k] = a[i]

    @device_function
    def fetch_vector(a, i, r, k):
        taken = load_vector(a, i * words, words)
        for j in range(words):
            r[k + j] = taken[j]

    @device_function
    def widen_each(r, k, v, e):
        for j in range(words):
            v[e + j] = load(r[k + j])

    @device_function
    def widen_packed(r, k, v, e):
        for j in range(words):
            v[e + 2 * j] = load(types.uint16(r[k + j] & types.uint32(0xFFFF)))
            v[e + 2 * j + 1] = load(types.uint16(r[k + j] >> types.uint32(16)))

    @device_function
    def widen_bfloats(r, k, v, e):
        for j in range(words):
            v[e + 2 * j], v[e + 2 * j + 1] = bfloats(r[k + j])

    if packed:
        widen = widen_bfloats if dtype == bfloat16 else widen_packed
    else:
        widen = widen_each
    return fetch_one if width == 1 else fetch_vector, widen, words, kind


@device_function
def remaining(columns, first):
    """How many columns a row has from `first` on, in 32 bits: of more than a thread reads at once
    it does not matter how many there are."""
    return types.int32(min(columns - first, FAR))


@functools.cache
def inside_bits(width: int):
    """Device function (first, rest): bit j says whether number j of an access belongs to the row,
    where the access begins at column `first`, `rest` columns before the row's end. A word: what
    else tells it takes two registers and four instructions for each number."""
    every = (1 << width) - 1

    @device_function
    def inside(first, rest):
        bits = types.uint32(every)
        if first < 0:
            bits &= types.uint32(bits << types.uint32(min(-first, width)))
        if rest < width:
            bits &= types.uint32(types.uint32(every) >> types.uint32(min(width - rest, width)))
        return bits

    return inside


@functools.cache
def row_writer(dtype, width: int, edges: bool):
    """Device function (a, i, v, e, first, rest): as `writer`, of an access that begins at column
    `first` of a row, `rest` columns before its end: what does not belong to the row is not written.
    edges: whether there are such accesses."""
    _, store, _ = codec(dtype)
    write, inside = writer(dtype, width), inside_bits(width)

    @device_function
    def write_row(a, i, v, e, first, rest):
        if edges and (first < 0 or rest < width):
            bits = inside(first, rest)
            for j in range(width):
                if bits & types.uint32(1 << j):
                    store_vector(a, i + j, (store(v[e + j]),))  # without the test for i + j < 0
        else:
            write(a, i, v, e)

    return write_row


@functools.cache
def ending_fetcher(dtype, width: int, edges: bool = True):
    """Device function (a, i, r, k): as `fetch` of `fetcher`, but of the elements from a[i] on, a
    multiple of `width`; what lies beyond the array's end is 0.

    Rows that begin between the borders of accesses are read by it, neighbours' elements and all.
    No thread branches, but at the array's end, and converts nothing yet: so all its accesses are
    under way at once. edges: whether there may be such an end."""
    _, _, words, kind = fetcher(dtype, width)
    raw, packed, inside = numba_type(kind), words < width, inside_bits(width)

    @device_function
    def whole_words(a, i, r, k):
        taken = load_words(a, i, words)
        for j in range(words):
            r[k + j] = taken[j]

    @device_function
    def whole_elements(a, i, r, k):
        taken = load_vector(a, i, width)
        for j in range(width):
            r[k + j] = taken[j]

    @device_function
    def last_words(a, i, r, k):
        bits = inside(0, a.size - i)
        for j in range(words):
            word = types.uint32(0)
            if bits & types.uint32(1 << 2 * j):
                word = types.uint32(load_vector(a, i + 2 * j, 1)[0])
            if bits & types.uint32(2 << 2 * j):
                upper = types.uint32(load_vector(a, i + 2 * j + 1, 1)[0])
                word |= types.uint32(upper << types.uint32(16))
            r[k + j] = word

    @device_function
    def last_elements(a, i, r, k):
        bits = inside(0, a.size - i)
        for j in range(width):
            r[k + j] = load_vector(a, i + j, 1)[0] if bits & types.uint32(1 << j) else raw(0)

    fetch_whole = whole_words if packed else whole_elements
    fetch_last = last_words if packed else last_elements

    @device_function
    def fetch_ending(a, i, r, k):
        if not edges or i + width <= a.size:
            fetch_whole(a, i, r, k)
        else:
            fetch_last(a, i, r, k)

    return fetch_ending


@functools.cache
def clearing(width: int):
    """Device function (v, e, first, rest, value): of the numbers v[e], ... of an access that begins
    at column `first` of a row, `rest` columns before its end, those outside become `value`."""
    inside = inside_bits(width)

    @device_function
    def clear(v, e, first, rest, value):
        if first < 0 or rest < width:
            bits = inside(first, rest)
            for j in range(width):
                if not bits & types.uint32(1 << j):
                    v[e + j] = value

    return clear


class RowReader(NamedTuple):
    """How a thread reads its accesses of a row: two device functions, between which it may ask for
    another row, or another array, and what it holds in the meantime.

    fetch(a, at, rest, step, r, outside) asks for the accesses a[at], a[at + step], ... that begin
    within the `rest` elements which the row has from `at` on (see `remaining`).
    take(r, first, rest, step, v, outside): v = their numbers in compute type; `outside` is in the
    place of those that do not belong to the row. first: the column of the first access; it may be
    negative, where rows begin between the borders of accesses.
    r: cuda.local.array(size, kind).
    """

    fetch: Callable
    take: Callable
    size: int
    kind: Any


@functools.cache
def row_reader(dtype, width: int, vectors: int, edges: bool, tested: bool = False) -> RowReader:
    """The reader of `vectors` accesses a thread. edges: whether rows begin between the borders of
    accesses; then what their neighbours have in an access does not count. tested: it is asked for
    accesses of the row alone."""
    read, (_, _, T) = reader(dtype, width), codec(dtype)
    ask, clear = ending_fetcher(dtype, width), clearing(width)
    _, widen, words, kind = fetcher(dtype, width)
    elements = vectors * width

    @device_function
    def fetch_aligned(a, at, rest, step, r, outside):
        if not tested:
            for e in range(elements):
                r[e] = outside
        for k in range(vectors):
            if tested or k * step < rest:
                read(a, at + k * step, r, k * width)

    @device_function
    def take_aligned(r, first, rest, step, v, outside):
        for e in range(elements):
            v[e] = r[e]

    @device_function
    def fetch_between(a, at, rest, step, r, outside):
        for k in range(vectors):
            if tested or k * step < rest:
                ask(a, at + k * step, r, k * words)

    @device_function
    def take_between(r, first, rest, step, v, outside):
        for k in range(vectors):
            widen(r, k * words, v, k * width)
            clear(v, k * width, first if k == 0 else 0, rest - k * step, outside)

    if edges:
        return RowReader(fetch_between, take_between, vectors * words, numba_type(kind))
    return RowReader(fetch_aligned, take_aligned, elements, T)


@functools.cache
def _moved(width: int, step: int):
    """Device function (v, by): v[j] = v[j + by % (2 step)] for j < width, of 2 width numbers; by
    choices among neighbours, as registers have no index."""

    @device_function
    def once(v, by):
        if by & step:
            for j in range(2 * width - step):
                v[j] = v[j + step]

    if step == 1:
        return once
    then = _moved(width, step // 2)

    @device_function
    def move(v, by):
        once(v, by)
        then(v, by)

    return move


@functools.cache
def shifted_reader(dtype, width: int):
    """Device function (a, i, rest, v): v[0], ..., v[width - 1] = the elements of `a` from i on, in
    compute type, where i lies between the borders of accesses: by the two accesses that have them,
    where both lie inside of a[:i + rest]; else one by one, and beyond an end 0. v has room for two
    accesses. 16-bit numbers are moved as words, half as many, and widened after."""
    read, (load, _, T) = reader(dtype, width), codec(dtype)
    _, widen, words, _ = fetcher(dtype, width)
    inside, zero = inside_bits(width), T(0)
    move = _moved(words, max(words // 2, 1))
    packed, both = words < width, 2 * words

    @device_function
    def read_elements(a, low, by, v):
        read(a, low, v, 0)
        read(a, low + width, v, width)
        move(v, by)

    @device_function
    def read_words(a, low, by, v):
        r = cuda.local.array(both, types.uint32)
        for half in range(2):
            taken = load_words(a, low + half * width, words)
            for j in range(words):
                r[half * words + j] = taken[j]
        move(r, by >> 1)
        if by & 1:
            for j in range(words):
                upper = types.uint32(r[j + 1] << types.uint32(16))
                r[j] = types.uint32(r[j] >> types.uint32(16)) | upper
        widen(r, 0, v, 0)

    read_both = read_words if packed else read_elements

    @device_function
    def read_shifted(a, i, rest, v):
        by = i & (width - 1)
        if i >= 0 and by + rest >= 2 * width:
            read_both(a, i - by, by, v)
        else:
            bits = inside(i, rest)
            for j in range(width):
                v[j] = zero
                if bits & types.uint32(1 << j):
                    v[j] = load(load_vector(a, i + j, 1)[0])

    return read_shifted
