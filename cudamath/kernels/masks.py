"""The positions of what is not zero: nonzero, and indexing by masks.

The idea. A block looks at 4,096 elements and counts those that are not zero (``true_count``); running sums of the counts
(scan.py) tell where each block's positions begin; then every block looks again and writes (``true_write``). The length
of the result is then known on the host, which costs the one synchronisation that no mask can avoid: it lies between the
two looks, because nobody can give memory to a result of unknown length. The floor is two reads of the elements and
a write of 8 bytes for each that is not zero.

``true_count``, ``true_write``     any GPU and the simulator: a thread looks at 16 neighbours.
``count_votes``, ``write_votes``   the lanes of a warp look at 32 neighbours at a time and vote: a ballot tells each lane how
                                   many are true before it, and what they write lies side by side.
"""

import functools
from math import prod
from typing import Any

import numpy as np

from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan, Temp
from .build import SIMULATOR, blocks, codec, device_function
from .copy import fill_part, whole
from .index import dense
from .lazy import cuda, types
from .scan import vector_steps

THREADS = 256
ITEMS = 16  # neighbouring elements a thread looks at
TILE = THREADS * ITEMS
WARP = 32
WARPS = THREADS // 32
EVERY = 0xFFFFFFFF  # lanes of a warp


@functools.cache
def true_count(dtype: np.dtype) -> Any:
    """counts[k + 1] = how many of the elements 4096 k ... 4096 k + 4095 are not zero."""
    load = codec(dtype)[0]

    @cuda.jit
    def true_count(x, counts):  # x: (n,), counts: (blocks + 1,) int64
        shared = cuda.shared.array(THREADS, np.int32)
        t = cuda.threadIdx.x
        first = cuda.blockIdx.x * TILE + t * ITEMS
        mine = np.int32(0)
        for i in range(first, min(first + ITEMS, x.size)):
            if load(x[i]) != 0:
                mine += np.int32(1)
        shared[t] = mine
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:  # a tree of additions
            if t < half:
                shared[t] += shared[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            counts[cuda.blockIdx.x + 1] = shared[0]
            if cuda.blockIdx.x == 0:
                counts[0] = 0

    return true_count


@functools.cache
def true_write(dtype: np.dtype) -> Any:
    """The positions of the elements that are not zero, in order; block k starts writing at offsets[k]."""
    load = codec(dtype)[0]

    @cuda.jit
    def true_write(x, offsets, positions):  # x: (n,), offsets: (blocks + 1,), positions: (count,) int64
        shared = cuda.shared.array(THREADS, np.int32)
        t = cuda.threadIdx.x
        first = cuda.blockIdx.x * TILE + t * ITEMS
        last = min(first + ITEMS, x.size)
        mine = np.int32(0)
        for i in range(first, last):
            if load(x[i]) != 0:
                mine += np.int32(1)
        shared[t] = mine
        cuda.syncthreads()
        step = 1
        while step < THREADS:
            before = shared[t - step] if t >= step else np.int32(0)
            cuda.syncthreads()
            shared[t] += before
            cuda.syncthreads()
            step *= 2
        at = offsets[cuda.blockIdx.x] + shared[t] - mine
        for i in range(first, last):
            if load(x[i]) != 0:
                positions[at] = i
                at += 1

    return true_write


@functools.cache
def votes(dtype: np.dtype) -> Any:
    """Device function: which of the 16 times 32 elements from `first` on are not zero, a word of 32 bits for each time."""
    load = codec(dtype)[0]

    @device_function
    def votes(x, first, found):
        for k in range(ITEMS):
            i = first + k * WARP
            true = False
            if i < x.size:
                true = load(x[i]) != 0
            found[k] = cuda.ballot_sync(EVERY, true)

    return votes


@functools.cache
def count_votes(dtype: np.dtype) -> Any:
    """`true_count` by votes."""
    look = votes(dtype)

    @cuda.jit
    def count_votes(x, counts):  # x: (n,), counts: (blocks + 1,) int64
        totals = cuda.shared.array(WARPS, types.int32)
        found = cuda.local.array(ITEMS, types.uint32)
        t = cuda.threadIdx.x
        warp = t // WARP
        look(x, types.int64(cuda.blockIdx.x) * TILE + warp * (WARP * ITEMS) + t % WARP, found)
        if t % WARP == 0:
            mine = types.int32(0)
            for k in range(ITEMS):
                mine += types.int32(cuda.popc(found[k]))
            totals[warp] = mine
        cuda.syncthreads()
        if t == 0:
            total = types.int64(0)
            for w in range(WARPS):
                total += totals[w]
            counts[cuda.blockIdx.x + 1] = total
            if cuda.blockIdx.x == 0:
                counts[0] = 0

    return count_votes


@functools.cache
def write_votes(dtype: np.dtype) -> Any:
    """`true_write` by votes."""
    look = votes(dtype)

    @cuda.jit
    def write_votes(x, offsets, positions):  # x: (n,), offsets: (blocks + 1,), positions: (count,) int64
        totals = cuda.shared.array(WARPS, types.int32)
        found = cuda.local.array(ITEMS, types.uint32)
        t = cuda.threadIdx.x
        warp, lane = t // WARP, t % WARP
        first = types.int64(cuda.blockIdx.x) * TILE + warp * (WARP * ITEMS) + lane
        look(x, first, found)
        if lane == 0:
            mine = types.int32(0)
            for k in range(ITEMS):
                mine += types.int32(cuda.popc(found[k]))
            totals[warp] = mine
        cuda.syncthreads()
        at = offsets[cuda.blockIdx.x]
        for w in range(warp):
            at += totals[w]
        before = types.uint32((types.uint32(1) << types.uint32(lane)) - types.uint32(1))
        for k in range(ITEMS):
            if (found[k] >> types.uint32(lane)) & types.uint32(1):
                positions[at + cuda.popc(types.uint32(found[k] & before))] = first + k * WARP
            at += cuda.popc(found[k])

    return write_votes


@cuda.jit
def unravel_axis(positions, index, inner, size):  # positions, index: (m,) int64
    """index[j] = (positions[j] // inner) % size: the coordinate of a flat position along one axis."""
    j = cuda.grid(1)
    if j < positions.size:
        index[j] = positions[j] // inner % size


# ------------------------------------------------------------------------------------------------- planners


def _plain(version: str | None) -> bool:
    """Whether the version is the plain one: "plain", "votes", or None: votes but in the simulator."""
    return SIMULATOR if version is None else version == "plain"


def true_offsets(x: Layout, *, version: str | None = None) -> Plan:
    """How many non-zero elements come before each stretch of 4096, and in the last entry how many there are."""
    stretches = blocks(x.size, TILE)
    out = x.like((stretches + 1,), np.dtype(np.int64))
    temps: list[Layout] = []
    steps, given = dense(Input(0), x, x.shape, x.dtype, temps)
    if not stretches:
        zero = np.uint64(0)
        return Plan([out], fill_part(whole(Output(0), out), zero, zero, None))
    count = true_count if _plain(version) else count_votes
    return Plan([out], [*steps, Launch(count(x.dtype), stretches, THREADS, [given.flat, Output(0)]),
                        *vector_steps(Output(0), out, temps)], temps)


def true_positions(x: Layout, offsets: Layout, *, count: int, version: str | None = None) -> Plan:
    """Coordinates of the non-zero elements in row-major order, one array an axis; offsets from ``true_offsets``."""
    out = x.like((count,), np.dtype(np.int64))
    outputs = [out] * max(x.ndim, 1)
    if not count:
        return Plan(outputs, [])
    temps: list[Layout] = []
    steps, given = dense(Input(0), x, x.shape, x.dtype, temps)
    flat = Output(0)
    if x.ndim > 1:
        temps.append(out)
        flat = Temp(len(temps) - 1)
    write = true_write if _plain(version) else write_votes
    steps = [*steps, Launch(write(x.dtype), blocks(x.size, TILE), THREADS, [given.flat, Input(1), flat])]
    if x.ndim > 1:
        for axis in range(x.ndim):
            steps.append(Launch(unravel_axis, blocks(count, THREADS), THREADS,
                                [flat, Output(axis), prod(x.shape[axis + 1 :]), x.shape[axis]]))
    return Plan(outputs, steps, temps)
