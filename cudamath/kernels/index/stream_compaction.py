"""Stream compaction: positions of elements that are not zero, elements under a mask, distinct
neighbours of a sorted vector.

The idea. The length of the result is known on the host only after the device has counted, which
costs the one synchronisation that no such function can avoid, and memory cannot be allocated
before. So the elements are read twice: ``count_chosen`` tells how many each stretch of them has
(1,024 stretches at most), the host adds that up, and ``write_chosen`` goes over the stretches
again, each block beginning behind what the blocks before it were found to have. Of few elements a
result that has room for all of them costs little: ``write_chosen`` is alone then, its blocks count
what is ahead of them themselves, and the host waits once, at the end. The floor is two reads of the
elements, the second one from the second-level cache where they fit, and a write of what is chosen.

Within 4,096 elements every thread has 16 neighbours, as 16 bits: of bytes by one access of 16
bytes, of wider elements by 16 votes of the warp. Counts of bits are summed over the lanes by
shuffles; chosen places are gathered in shared memory, so that neighbouring threads write
neighbours.

Half of 2^24 bools, H200, us: counts 6.5, positions 39, both with the host's wait 70 (PyTorch 80,
CuPy 170).

Versions: ``count_chosen``, ``write_chosen``; ``plain_count_chosen``, ``plain_write_chosen``: the
same for any GPU and the simulator, which know no shuffles: sums by trees in shared memory, results
written where they are found.

Measured (row nonzero):
flatnonzero(a > 0), 2^24; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath      1,511          0.36
    cupy            628          0.15
    torch         1,295          0.31

(end of what was measured)
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Constant, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import FULL, WARP, bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.contiguous import dense
from ..copy.parts import WORDS, index_type
from ..lib.codec import codec
from ..lib.integers import blocks

if not SIMULATOR:
    from ..ptx.vector_access import load_vector

THREADS = 256
WARPS = THREADS // WARP
ITEMS = 16  # neighbouring elements a thread looks at
OF_WARP = WARP * ITEMS
TILE = THREADS * ITEMS
# of all elements, at most: blocks that run at once, and counts that a block adds up in no time
STRETCHES = 1024


# -------------------- conditions


@functools.cache
def is_true(dtype: np.dtype) -> Any:
    """Device function: whether element i of x is not zero."""
    load = codec(dtype)[0]

    @device_function
    def is_true(x, i):
        return load(x[i]) != 0

    return is_true


@functools.cache
def is_new(dtype: np.dtype, equal_nan: bool) -> Any:
    """Device function: whether element i of a sorted x is unlike the one before; equal_nan: a NaN
    is like a NaN."""
    load = codec(dtype)[0]

    @device_function
    def is_new(x, i):
        new = True
        if i > 0:
            a, b = load(x[i]), load(x[i - 1])
            new = a != b and not (equal_nan and a != a and b != b)
        return new

    return is_new


@functools.cache
def lane_bits(holds: Any, of_bytes: bool) -> Any:
    """Device function: which of the 16 elements from first + 16 lane on hold. of_bytes: elements
    are bytes, x is aligned, what is not zero holds, and ``words`` are four of them each."""
    low, high, gather = types.uint32(0x7F7F7F7F), types.uint32(0x80808080), types.uint32(0x204081)

    @device_function
    def lane_bits(x, words, first, lane):
        mine = types.uint32(0)
        own = first + types.int64(lane * ITEMS)
        if of_bytes and first + OF_WARP > x.size:  # the last elements
            for k in range(min(types.int64(ITEMS), x.size - own)):
                if holds(x, own + k):
                    mine |= types.uint32(types.uint32(1) << types.uint32(k))
        elif of_bytes:
            packed = load_vector(words, own >> 2, 4)
            for k in range(
                4
            ):  # the top bit of each byte that is not zero; then these four bits side by side
                w = types.uint32(packed[k])
                tops = types.uint32((types.uint32((w & low) + low) | w) & high)
                four = types.uint32(
                    types.uint32(types.uint32(tops >> types.uint32(7)) * gather) >> types.uint32(21)
                )
                mine |= types.uint32((four & types.uint32(15)) << types.uint32(4 * k))
        else:
            for k in range(
                ITEMS
            ):  # neighbouring lanes read neighbours; then lane l has its half of a word
                i = first + k * WARP + lane
                votes = types.uint32(cuda.ballot_sync(FULL, i < x.size and holds(x, i)))
                if k == lane // 2:
                    mine = types.uint32(votes >> types.uint32(lane % 2 * ITEMS)) & types.uint32(
                        0xFFFF
                    )
        return types.uint32(mine)

    return lane_bits


@device_function
def block_sum(value, shared):
    """The sum of an int64 over the block's lanes; shared: (WARPS,) int64. Barriers at both ends."""
    for s in range(5):
        value += cuda.shfl_xor_sync(FULL, value, 1 << s)
    cuda.syncthreads()
    if cuda.threadIdx.x % WARP == 0:
        shared[cuda.threadIdx.x // WARP] = value
    cuda.syncthreads()
    total = types.int64(0)
    for w in range(WARPS):
        total += shared[w]
    return total


# -------------------- kernels


@functools.cache
def count_chosen(holds: Any, of_bytes: bool) -> Any:
    """counts[k] = in how many of the elements k stretch ... (k + 1) stretch - 1 the condition
    holds."""
    look = lane_bits(holds, of_bytes)

    @bounded(THREADS)
    def count_chosen(
        x, words, counts, stretch
    ):  # x: (n,); words: as in lane_bits; counts: (blocks,) int64
        shared = cuda.shared.array(WARPS, types.int64)
        t = cuda.threadIdx.x
        first = types.int64(cuda.blockIdx.x) * stretch + t // WARP * OF_WARP
        mine = types.int64(0)
        for tile in range(first, min(first + stretch, x.size), TILE):
            mine += types.int64(cuda.popc(look(x, words, tile, t % WARP)))
        total = block_sum(mine, shared)
        if t == 0:
            counts[cuda.blockIdx.x] = total

    return count_chosen


@functools.cache
def putting(positions: bool, ndim: int, index: Any) -> Any:
    """Device function: what is written about chosen element i as the j-th: its position, a
    coordinate for each axis, into out[axis * across + j * step]; or an element of ``source``."""

    @device_function
    def put(source, out, i, j, across, step, sizes):
        if not positions:
            out[j] = source[i]
        elif ndim < 2:
            out[j] = i
        else:
            rest = index(i)
            for k in range(ndim):
                axis = ndim - 1 - k
                size = index(sizes[axis])
                q = rest // size
                out[axis * across + j * step] = types.int64(rest - q * size)
                rest = q

    return put


@functools.cache
def write_chosen(
    holds: Any, of_bytes: bool, positions: bool, ndim: int, index: Any, alone: bool
) -> Any:
    """All that is chosen, in order; alone: without ``counts``, and the number of them goes to
    ``total``."""
    look = lane_bits(holds, of_bytes)
    put = putting(positions, ndim, index)

    @bounded(THREADS)
    def write_chosen(x, words, source, counts, out, total, stretch, across, step, sizes):
        # x, words: as in count_chosen; source: (n,) words; counts: (blocks,) int64; out: words, or
        # int64 as in put; total: (1,) int64
        shared = cuda.shared.array(WARPS, types.int64)
        of_warp = cuda.shared.array(WARPS, types.int32)
        places = cuda.shared.array(TILE, types.uint16)
        t = types.int32(cuda.threadIdx.x)
        lane, warp = t % types.int32(WARP), t // types.int32(WARP)
        begin = types.int64(cuda.blockIdx.x) * stretch
        before = types.int64(0)
        if alone:
            for tile in range(0, begin, TILE):
                before += types.int64(
                    cuda.popc(look(x, words, tile + types.int64(warp * OF_WARP), lane))
                )
        else:
            for k in range(types.int64(t), types.int64(cuda.blockIdx.x), THREADS):
                before += counts[k]
        before = block_sum(before, shared)
        for tile in range(begin, min(begin + stretch, x.size), TILE):
            mine = look(x, words, tile + types.int64(warp * OF_WARP), lane)
            own = types.int32(cuda.popc(mine))
            up_to = own
            for s in range(5):
                lower = cuda.shfl_up_sync(FULL, up_to, 1 << s)
                if lane >= 1 << s:
                    up_to += lower
            if lane == WARP - 1:
                of_warp[warp] = up_to
            cuda.syncthreads()
            at = types.int32(up_to - own)
            here = types.int32(0)
            for w in range(WARPS):
                if w < warp:
                    at += of_warp[w]
                here += of_warp[w]
            first = types.int32(t * ITEMS)
            while mine != types.uint32(0):
                places[types.uint32(at)] = types.uint16(
                    first + types.int32(cuda.ffs(mine)) - types.int32(1)
                )
                at += types.int32(1)
                mine &= types.uint32(mine - types.uint32(1))
            cuda.syncthreads()
            for k in range(t, here, THREADS):
                put(
                    source,
                    out,
                    tile + types.int64(places[types.uint32(k)]),
                    before + types.int64(k),
                    across,
                    step,
                    sizes,
                )
            before += types.int64(here)
            cuda.syncthreads()  # before the next tile's places are gathered
        if alone and t == 0 and cuda.blockIdx.x == cuda.gridDim.x - 1:
            total[0] = before

    return write_chosen


@cuda.jit
def run_lengths(x, places, total, values, counts):
    """x: (n,) words; places: (m,) where the total[0] runs of equal elements begin; values: (m,)
    words, counts: (m,) int64: of each run its element and its length."""
    j = cuda.grid(1)
    if j < total[0]:
        begin = places[j]
        values[j] = x[begin]
        counts[j] = (places[j + 1] if j + 1 < total[0] else x.size) - begin


@functools.cache
def plain_count_chosen(holds: Any) -> Any:
    """`count_chosen` without votes."""

    @cuda.jit
    def plain_count_chosen(x, words, counts, stretch):  # as in count_chosen
        shared = cuda.shared.array(THREADS, types.int64)
        t = cuda.threadIdx.x
        first = cuda.blockIdx.x * stretch
        mine = np.int64(0)
        for i in range(first + t, min(first + stretch, x.size), THREADS):
            if holds(x, i):
                mine += 1
        shared[t] = mine
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:  # a tree of additions
            if t < half:
                shared[t] += shared[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            counts[cuda.blockIdx.x] = shared[0]

    return plain_count_chosen


@functools.cache
def plain_write_chosen(holds: Any, positions: bool, ndim: int, index: Any, alone: bool) -> Any:
    """`write_chosen` without votes: a thread has a run of neighbours, and writes what it finds in
    them."""
    put = putting(positions, ndim, index)

    @cuda.jit
    def plain_write_chosen(
        x, words, source, counts, out, total, stretch, across, step, sizes
    ):  # as in write_chosen
        shared = cuda.shared.array(THREADS, types.int64)
        ahead = cuda.shared.array(
            THREADS, types.int64
        )  # of the blocks before, a share for each thread
        t = cuda.threadIdx.x
        begin = cuda.blockIdx.x * stretch
        before = np.int64(0)
        if alone:
            for i in range(t, begin, THREADS):
                if holds(x, i):
                    before += 1
        else:
            for k in range(t, cuda.blockIdx.x, THREADS):
                before += counts[k]
        ahead[t] = before
        run = stretch // THREADS
        first = begin + t * run
        last = min(first + run, x.size)
        mine = np.int64(0)
        for i in range(first, last):
            if holds(x, i):
                mine += 1
        shared[t] = mine
        cuda.syncthreads()
        half = 1
        while half < THREADS:  # Hillis and Steele
            lower = shared[t - half] if t >= half else np.int64(0)
            cuda.syncthreads()
            shared[t] += lower
            cuda.syncthreads()
            half *= 2
        at = shared[t] - mine
        for k in range(THREADS):
            at += ahead[k]
        for i in range(first, last):
            if holds(x, i):
                put(source, out, i, at, across, step, sizes)
                at += 1
        if alone and t == THREADS - 1 and cuda.blockIdx.x == cuda.gridDim.x - 1:
            total[0] = at

    return plain_write_chosen


# -------------------- planners


def _plain(version: str | None) -> bool:
    """Whether the version is the plain one: "plain", "votes", or None: votes but in the
    simulator."""
    return SIMULATOR if version is None else version == "plain"


def _stretch(n: int) -> int:
    """Elements of a block, in whole tiles."""
    return TILE * max(1, blocks(blocks(n, TILE), STRETCHES))


def _bytes(x: Layout) -> bool:
    """Whether elements are bytes that are not zero where a bit of them is not, read 16 at a
    time."""
    return x.itemsize == 1 and x.dtype.kind in "biu" and x.aligned


def count_true(x: Layout, *, version: str | None = None) -> Plan:
    """How many elements of each stretch of x are not zero."""
    return _counted(x, is_true(x.dtype), _bytes(x), version)


def count_new(x: Layout, *, equal_nan: bool, version: str | None = None) -> Plan:
    """How many elements of each stretch of a sorted vector are unlike the one before."""
    return _counted(x, is_new(x.dtype, equal_nan), False, version)


def nonzero(
    x: Layout,
    counts: Layout | None = None,
    *,
    capacity: int,
    rows: bool,
    version: str | None = None,
) -> Plan:
    """Coordinates of the elements that are not zero in row-major order, (ndim, capacity), or
    (capacity, ndim) if ``rows``.

    counts: from `count_true`, then there are at most ``capacity`` of them; else a second output
    says how many."""
    ndim = max(x.ndim, 1)
    shape = (capacity, ndim) if rows else (ndim, capacity)
    return _written(x, None, counts, is_true(x.dtype), _bytes(x), shape, version, rows)


def chosen(
    mask: Layout,
    x: Layout,
    counts: Layout | None = None,
    *,
    capacity: int,
    version: str | None = None,
) -> Plan:
    """The elements of x where a mask of its shape is true, (capacity,); counts and a second output:
    as in `nonzero`."""
    return _written(
        mask, x, counts, is_true(mask.dtype), _bytes(mask), (capacity,), version, place=1
    )


def distinct(
    x: Layout,
    counts: Layout | None = None,
    *,
    capacity: int,
    equal_nan: bool,
    version: str | None = None,
) -> Plan:
    """The elements of a sorted vector that are unlike the one before, (capacity,); counts: from
    `count_new`."""
    return _written(x, x, counts, is_new(x.dtype, equal_nan), False, (capacity,), version)


def runs(x: Layout, *, capacity: int, equal_nan: bool, version: str | None = None) -> Plan:
    """Of a sorted vector the elements that are unlike the one before, how often each occurs, both
    (capacity,), and how many such there are, (1,)."""
    found = _written(x, None, None, is_new(x.dtype, equal_nan), False, (capacity,), version)
    places, total = found.outputs
    values, word = x.like((capacity,)), np.dtype(WORDS[x.itemsize])
    at = len(found.temps)  # of the places, which are not a result
    moved = {Output(0).view(places.shape, dtype=np.int64): Temp(at).flat, Output(1): Output(2)}
    steps = [
        step.with_args(
            [moved.get(arg, arg) if isinstance(arg, ArrayArg) else arg for arg in step.args]
        )
        for step in found.steps
        if isinstance(step, Launch)
    ]
    steps.append(
        Launch(
            run_lengths,
            blocks(capacity, THREADS),
            THREADS,
            [
                Input(0).view((x.size,), (x.strides[0],), dtype=word),
                Temp(at).flat,
                Output(2),
                Output(0).view((capacity,), dtype=word),
                Output(1),
            ],
        )
    )
    return Plan([values, places, total], steps, [*found.temps, places])


def _words(given: Any, x: Layout, of_bytes: bool) -> Any:
    """Four bytes each, as far as there are that many."""
    return given.view((x.size // 4,), dtype=np.dtype(np.uint32)) if of_bytes else given.flat


def _counted(x: Layout, holds: Any, of_bytes: bool, version: str | None) -> Plan:
    stretch = _stretch(x.size)
    grid = max(1, blocks(x.size, stretch))
    temps: list[Layout] = []
    steps, given = dense(Input(0), x, x.shape, x.dtype, temps)
    kernel = plain_count_chosen(holds) if _plain(version) else count_chosen(holds, of_bytes)
    launch = Launch(
        kernel, grid, THREADS, [given.flat, _words(given, x, of_bytes), Output(0), stretch]
    )
    return Plan([x.like((grid,), np.dtype(np.int64))], [*steps, launch], temps)


def _written(
    x: Layout,
    source: Layout | None,
    counts: Layout | None,
    holds: Any,
    of_bytes: bool,
    shape: tuple[int, ...],
    version: str | None,
    rows: bool = False,
    place: int = 0,
) -> Plan:
    """source: what has the elements that are written, x itself or, if place is 1, input 1 (of a
    layout that may be x's); None: positions are."""
    alone = counts is None
    word = np.dtype(np.int64) if source is None else np.dtype(WORDS[source.itemsize])
    out = x.like(shape, word if source is None else source.dtype)
    temps: list[Layout] = []
    steps, given = dense(Input(0), x, x.shape, x.dtype, temps)
    flat, taken = given.flat, given.flat
    if source is not None:
        more, taken = (
            dense(Input(1), source, source.shape, source.dtype, temps) if place else ([], given)
        )
        steps, taken = [*steps, *more], taken.view((x.size,), dtype=word)
    told = Output(1) if alone else Input(1 + place)
    index, ndim = index_type(x.size), max(x.ndim, 1) if source is None else 1
    across, step = (1, ndim) if rows else (shape[-1], 1)
    kernel = (
        plain_write_chosen(holds, source is None, ndim, index, alone)
        if _plain(version)
        else write_chosen(holds, of_bytes, source is None, ndim, index, alone)
    )
    stretch = _stretch(x.size)
    steps.append(
        Launch(
            kernel,
            max(1, blocks(x.size, stretch)),
            THREADS,
            [
                flat,
                _words(given, x, of_bytes),
                taken,
                told,
                Output(0).view((out.size,), dtype=word),
                told,
                stretch,
                across,
                step,
                Constant(np.array(x.shape or (1,), np.int64)),
            ],
        )
    )
    return Plan([out, x.like((1,), np.dtype(np.int64))] if alone else [out], steps, temps)
