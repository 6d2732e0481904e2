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

import numpy as np

from ...core.dtypes import bfloat16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, types
from ..compiler.storage_types import numba_type
from .codec import codec

if not SIMULATOR:
    from ..ptx.intrinsics import instruction
    from ..ptx.vector_access import load_vector, store_vector

    bfloats = instruction(
        "bfloats",
        "{ .reg .b16 z, a, b; mov.b16 z, 0; mov.b32 {a, b}, $2; mov.b32 $0, {z, a}; mov.b32 $1, "
        "{z, b}; }",
        (types.float32,) * 2,
        (types.uint32,),
        "Two bfloat16 in a word, widened: one instruction each.",
    )

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


@functools.cache
def row_reader(dtype, width: int, edges: bool):
    """Device function (a, i, v, e, low, high): as `reader`, but of an access that reaches beyond
    the row's elements low ... high - 1 only those inside are read, one by one. edges: whether there
    are such."""
    load, _, _ = codec(dtype)
    read = reader(dtype, width)

    @device_function
    def read_row(a, i, v, e, low, high):
        if edges and (i < low or i + width > high):
            for j in range(width):
                if i + j >= low and i + j < high:
                    v[e + j] = load(a[i + j])
        else:
            read(a, i, v, e)

    return read_row


@functools.cache
def row_writer(dtype, width: int, edges: bool):
    """Device function (a, i, v, e, low, high): as `writer`, but only elements low ... high - 1 are
    written."""
    _, store, _ = codec(dtype)
    write = writer(dtype, width)

    @device_function
    def write_row(a, i, v, e, low, high):
        if edges and (i < low or i + width > high):
            for j in range(width):
                if i + j >= low and i + j < high:
                    a[i + j] = store(v[e + j])
        else:
            write(a, i, v, e)

    return write_row


@functools.cache
def ending_fetcher(dtype, width: int, edges: bool = True):
    """Device function (a, elements, i, r, k): as `fetch` of `fetcher`, of an array whose last
    elements may fill no access: what is missing is 0. elements: the same memory, element by
    element.

    Rows that begin between the borders of accesses are read by it, neighbours' elements and all.
    No thread branches, but at the array's end, and converts nothing yet: so all its accesses are
    under way at once. edges: whether there may be such an end."""
    fetch, _, words, kind = fetcher(dtype, width)
    raw, packed = numba_type(kind), words < width

    @device_function
    def last_words(elements, i, r, k):
        for j in range(words):
            at = i * width + 2 * j
            word = types.uint32(elements[at]) if at < elements.size else types.uint32(0)
            if at + 1 < elements.size:
                word |= types.uint32(types.uint32(elements[at + 1]) << types.uint32(16))
            r[k + j] = word

    @device_function
    def last_elements(elements, i, r, k):
        for j in range(words):
            at = i * width + j
            r[k + j] = elements[at] if at < elements.size else raw(0)

    fetch_last = last_words if packed else last_elements

    @device_function
    def fetch_ending(a, elements, i, r, k):
        if not edges or (i + 1) * width <= elements.size:
            fetch(a, i, r, k)
        else:
            fetch_last(elements, i, r, k)

    return fetch_ending


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
    """Device function (a, i, v, size): v[0], ..., v[width - 1] = the elements of `a` from i on, in
    compute type, where i lies between the borders of accesses: by the two accesses that have them,
    where both lie inside of a[:size]; else one by one, and beyond an end the element there. v has
    room for two accesses."""
    read, load = reader(dtype, width), codec(dtype)[0]
    move = _moved(width, max(width // 2, 1))

    @device_function
    def read_shifted(a, i, v, size):
        by = i & (width - 1)
        low = i - by
        if low >= 0 and low + 2 * width <= size:
            read(a, low, v, 0)
            read(a, low + width, v, width)
            move(v, by)
        else:
            for j in range(width):
                v[j] = load(a[min(max(i + j, 0), size - 1)])

    return read_shifted
