"""What softmax, norm and loss kernels share: a row of numbers spread over the registers of a group
of threads.

The picture. A *group* of `threads` threads owns one row. Thread t holds the vectors t, t + threads,
t + 2 threads, ... of the row; a vector is `width` neighbouring elements that one 16-byte access
moves. So the group reads whole 128-byte lines, has several reads in flight per thread, and meets
every element once:

    threads = 4, width = 2, vectors = 2        | 0 0 | 1 1 | 2 2 | 3 3 | 0 0 | 1 1 | 2 2 | 3 3 |   (owner of each element)

Short rows get a group of 1 .. 32 threads inside one warp, several rows to a block; their reductions
are butterfly shuffles and need no barrier. Longer rows get a whole block of up to 1024 threads; its
warps meet in shared memory. Every reduction is a fixed tree: the same numbers in the same order
give the same bits, whatever the grid.
"""  # noqa: E501

import functools
import math
from typing import NamedTuple

import numpy as np

from ...core.dtypes import bfloat16
from ..compiler.compile import SIMULATOR, blocks, codec, power_of_two
from ..compiler.lazy_numba import cuda, libdevice, types

if not SIMULATOR:
    from ..ptx.intrinsics import instruction, load_vector, store_vector

    bfloats = instruction(
        "bfloats",
        "{ .reg .b16 z, a, b; mov.b16 z, 0; mov.b32 {a, b}, $2; mov.b32 $0, {z, a}; mov.b32 $1, "
        "{z, b}; }",
        (types.float32,) * 2,
        (types.uint32,),
        "Two bfloat16 in a word, widened: one instruction each.",
    )

WARP = 32
LONG_ENOUGH = (
    512  # columns from which on rows that begin between borders are read by whole accesses
)
RUN = 128  # numbers that a plain kernel adds one after the other before it starts a new partial sum
device = (
    cuda.jit(device=True) if SIMULATOR else cuda.jit(device=True, forceinline=True)
)  # decorates device functions
FULL = 0xFFFFFFFF  # all lanes of a warp take part in the shuffle


def bounded(threads: int | tuple[int, int]):
    """Decorates kernels launched with at most `threads` threads per block, among which the compiler
    shares registers; a pair: (threads, blocks that a multiprocessor must hold)."""
    return cuda.jit if SIMULATOR else cuda.jit(launch_bounds=threads)


class Rows(NamedTuple):
    """How rows are spread over threads: the launch and the compile-time constants of a rows
    kernel."""

    threads: int  # threads per row
    rows: int  # rows per block; 1 when a row has more than a warp
    width: int  # elements per access
    vectors: int  # accesses per thread

    @property
    def block(self) -> tuple[int, int]:
        return self.threads, self.rows

    def grid(self, rows: int) -> int:
        """Blocks for that many rows."""
        return blocks(rows, self.rows)


def wide(dtype: np.dtype) -> np.dtype:
    """The NumPy dtype of what is computed from this one: float32 for float16 and bfloat16,
    otherwise itself."""
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def fitting(held: int, dtype: np.dtype) -> int:
    """How many elements take as many registers as `held` of float32: half as many of float64."""
    return held * 4 // wide(dtype).itemsize


def vector_width(columns: int, *layouts) -> int:
    """Elements a 16-byte access moves, or 1 where rows of `columns` elements are not all 16-byte
    aligned.

    The widest element decides; narrower ones move fewer than 16 bytes at once. The simulator has no
    vectors.
    """
    if SIMULATOR:
        return 1
    width = 16 // max(layout.itemsize for layout in layouts)
    return width if columns % width == 0 and all(layout.aligned for layout in layouts) else 1


def access(columns: int, *layouts) -> tuple[int, bool]:
    """(elements an access moves, whether rows begin between the borders of accesses).

    Rows of 50,257 elements are not all 16-byte aligned, but what lies inside them can still be read
    by whole accesses: the first and the last of a row then belong in part to its neighbours (see
    `row_reader`). Short rows are not worth it.
    """
    width = vector_width(columns, *layouts)
    if width > 1 or columns < LONG_ENOUGH:
        return width, False
    width = vector_width(0, *layouts)  # 0 is a multiple of anything
    return width, width > 1


def spread(
    columns: int, width: int, held: int, limit: int = 1024, together: int = 1
) -> Rows | None:
    """Rows of `columns` elements over threads holding `held` elements each; None if `limit` threads
    are too few. `together`: threads that share a row at least, if it has an access for each:
    sixteen read a quarter of a kilobyte in one piece.

    Few distinct answers (beyond short rows `vectors` depends on `width` and `held` alone): each
    costs a compiled kernel.
    """
    vectors = held // width if width > 1 else min(held, 8)
    threads = power_of_two(blocks(columns, width * vectors))
    if threads > limit:
        return None
    if width > 1 and threads < together:
        threads = min(power_of_two(blocks(columns, width)), together)
        vectors = min(power_of_two(blocks(columns, width * threads)), vectors)
    return Rows(threads, max(128 // threads, 1) if threads <= WARP else 1, width, vectors)


@functools.cache
def reader(dtype, width: int):
    """Device function (a, i, v, e): v[e], v[e + 1], ... = the `width` elements of `a` from i on, in
    compute type."""
    return reading(codec(dtype)[0], width)


@functools.cache
def reading(load, width: int):
    """As `reader`, of elements that `load` converts."""

    @device
    def read_one(a, i, v, e):
        v[e] = load(a[i])

    @device
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

    @device
    def write_1(a, i, v, e):
        a[i] = store(v[e])

    @device
    def write_2(a, i, v, e):
        store_vector(a, i, (store(v[e]), store(v[e + 1])))

    @device
    def write_4(a, i, v, e):
        store_vector(a, i, (store(v[e]), store(v[e + 1]), store(v[e + 2]), store(v[e + 3])))

    @device
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

    @device
    def fetch_one(a, i, r, k):
        r[k] = a[i]

    @device
    def fetch_vector(a, i, r, k):
        taken = load_vector(a, i * words, words)
        for j in range(words):
            r[k + j] = taken[j]

    @device
    def widen_each(r, k, v, e):
        for j in range(words):
            v[e + j] = load(r[k + j])

    @device
    def widen_packed(r, k, v, e):
        for j in range(words):
            v[e + 2 * j] = load(types.uint16(r[k + j] & types.uint32(0xFFFF)))
            v[e + 2 * j + 1] = load(types.uint16(r[k + j] >> types.uint32(16)))

    @device
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

    @device
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

    @device
    def write_row(a, i, v, e, low, high):
        if edges and (i < low or i + width > high):
            for j in range(width):
                if i + j >= low and i + j < high:
                    a[i + j] = store(v[e + j])
        else:
            write(a, i, v, e)

    return write_row


@functools.cache
def group_sum(threads: int, T):
    """Device function: v of each thread -> the sum over the thread's group, the same bits in every
    thread."""
    return _reduction(threads, T, add, T(0))


@functools.cache
def group_max(threads: int, T):
    """Device function: v of each thread -> the maximum over the thread's group."""
    return _reduction(threads, T, larger, T(-math.inf))


@functools.cache
def group_min(threads: int, T):
    """Device function: v of each thread -> the minimum over the thread's group."""
    return _reduction(threads, T, smaller, T(math.inf))


@functools.cache
def group_sums(threads: int, T):
    """Device function (a, b, turn): the sums of a and of b over the thread's group, together.
    `turn` must differ by one from call to call: calls take turns with two pieces of shared memory,
    and so need one barrier each instead of two."""
    warps = threads // WARP
    alone = _reduction(min(threads, WARP), T, add, T(0))

    @device
    def within_warp(a, b, turn):
        return alone(a), alone(b)

    @device
    def within_block(a, b, turn):
        parts = cuda.shared.array((2, 2, WARP), T)
        a, b = alone(a), alone(b)
        lane = cuda.threadIdx.x % WARP
        half = turn % 2
        if lane == 0:
            parts[half, 0, cuda.threadIdx.x // WARP] = a
            parts[half, 1, cuda.threadIdx.x // WARP] = b
        cuda.syncthreads()
        return (
            alone(parts[half, 0, lane] if lane < warps else T(0)),
            alone(parts[half, 1, lane] if lane < warps else T(0)),
        )

    return within_block if threads > WARP else within_warp


@functools.cache
def group_total(threads: int, T):
    """Device function (v, turn): the sum of v over the thread's group, in every thread. `turn` must
    alternate, as in group_sums; here the warps' sums meet in as many steps as there are warps to
    meet, not in those of a whole warp."""
    warps = threads // WARP
    alone, last = (
        _reduction(min(threads, WARP), T, add, T(0)),
        _reduction(max(warps, 1), T, add, T(0)),
    )

    @device
    def within_warp(v, turn):
        return alone(v)

    @device
    def within_block(v, turn):
        parts = cuda.shared.array((2, WARP), T)
        v = alone(v)
        half = turn % 2
        if cuda.threadIdx.x % WARP == 0:
            parts[half, cuda.threadIdx.x // WARP] = v
        cuda.syncthreads()
        return last(parts[half, cuda.threadIdx.x % warps])

    return within_block if threads > WARP else within_warp


@functools.cache
def inverse_root(T):
    """Device function: 1 / sqrt(v) within 2 units in the last place, as the hardware finds it. A
    root and a division that are rounded exactly take some sixty instructions of float32, which
    every thread of a row pays for: as many as all the rest where a thread has four numbers."""

    @device
    def plainly(v):
        return T(1) / math.sqrt(v)

    return plainly if SIMULATOR else libdevice.rsqrtf if T == types.float32 else libdevice.rsqrt


@device
def add(a, b):
    return a + b


@device
def larger(a, b):  # NaN wins
    return a if a >= b or a != a else b


@device
def smaller(a, b):
    return a if a <= b or a != a else b


def _reduction(threads: int, T, combine, neutral):
    steps = (min(threads, WARP) - 1).bit_length()

    @device
    def within_warp(v):
        for step in range(steps):
            v = combine(v, cuda.shfl_xor_sync(FULL, v, 1 << step))
        return v

    if threads <= WARP:
        return within_warp
    warps = threads // WARP

    @device
    def within_block(v):
        parts = cuda.shared.array(WARP, T)
        v = within_warp(v)
        lane = cuda.threadIdx.x % WARP
        if lane == 0:
            parts[cuda.threadIdx.x // WARP] = v
        cuda.syncthreads()
        v = within_warp(parts[lane] if lane < warps else neutral)
        cuda.syncthreads()  # all threads have read `parts`: the next reduction may write it
        return v

    return within_block
