"""Adding rows into rows chosen by index, in a fixed order: the gradient of a gather, and ``x.at[i] += v``.

Many sources may go to one destination. Float atomics would add them in an order that changes from run to run; here
the order is that of the sources, so the sum is the same bit for bit every time. Three steps:

1. Sort the destinations, keeping each one's source number: a least-significant-digit radix sort. A pass over one
   digit (6 bits) counts how often each digit occurs in each stretch of 1,024 keys, turns the counts into offsets
   (``index.scan_counts``), and moves every key behind the equal ones before it. Passes: bits of the largest
   destination / 6, three for a vocabulary of 50,257.
2. ``sum_chunks``: the sorted sources are cut into chunks of 32. A block walks its chunk in order with a sum per
   column in registers. A destination that lies within the chunk is written at once; a sum that began in the chunk
   before or goes on in the next is put aside.
3. ``join_chunks``: where a destination goes on over chunks, the block of its first chunk adds what was put aside.

So a destination that occurs 16,000 times (padding) costs 500 additions one after another, not 16,000. The floor is
one read of the sources and a read and a write of the destinations that occur:
(sources + 2 x distinct destinations) x row bytes / bandwidth.
"""

import functools
from math import prod
from typing import Any

import numpy as np
from numba import cuda

from ..core.dtypes import compute_dtype
from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan, Temp
from .build import codec
from .copy import copy_part, fill_part, whole
from .index import box, dense, flat_positions, scan_counts

SORT_THREADS = 256
SORT_ITEMS = 4  # keys a thread holds
SORT_TILE = SORT_THREADS * SORT_ITEMS
DIGIT_BITS = 6
DIGITS = 1 << DIGIT_BITS  # columns of 256 16-bit counters: 32 KB of shared memory
PARTS = SORT_THREADS // DIGITS  # threads that share the scan of one digit's counters
CHUNK = 32
MOST_COLUMNS = 256  # threads of a summing block


# -------------------------------------------------------------------------------------------------- sorting


@cuda.jit
def number_keys(positions, keys, order, rows):  # positions, keys, order: (m,) int64
    """keys = positions with -1 (out of range) replaced by ``rows``, which sorts last; order = 0, 1, 2, ..."""
    j = cuda.grid(1)
    if j < keys.size:
        keys[j] = positions[j] if positions[j] >= 0 else rows
        order[j] = j


@cuda.jit
def count_digits(keys, counts, shift, blocks):  # keys: (m,), counts: (DIGITS * blocks + 1,) int64
    """counts[digit * blocks + block] = how many keys of the block's stretch have that digit at bit ``shift``."""
    shared = cuda.shared.array(DIGITS, np.int32)
    t = cuda.threadIdx.x
    if t < DIGITS:
        shared[t] = 0
    cuda.syncthreads()
    first = cuda.blockIdx.x * SORT_TILE
    for i in range(first + t, min(first + SORT_TILE, keys.size), SORT_THREADS):
        cuda.atomic.add(shared, (keys[i] >> shift) & (DIGITS - 1), 1)  # integers: any order gives the same sum
    cuda.syncthreads()
    if t < DIGITS:
        counts[t * blocks + cuda.blockIdx.x] = shared[t]


@cuda.jit
def move_keys(keys, order, offsets, new_keys, new_order, shift, blocks):  # all (m,) but offsets: as counts
    """Stable: equal digits keep their order. Thread t holds 4 neighbouring keys and counts each digit in a column of
    its own; a key's place is the offset of (digit, block) + the counts of the threads before + its number in t."""
    counters = cuda.shared.array((DIGITS, SORT_THREADS), np.uint16)
    sums = cuda.shared.array(SORT_THREADS, np.int32)
    rank = cuda.local.array(SORT_ITEMS, np.int32)
    t = cuda.threadIdx.x
    for d in range(DIGITS):
        counters[d, t] = 0
    first = cuda.blockIdx.x * SORT_TILE + t * SORT_ITEMS
    for k in range(SORT_ITEMS):
        if first + k < keys.size:
            d = (keys[first + k] >> shift) & (DIGITS - 1)
            rank[k] = counters[d, t]
            counters[d, t] += 1
    cuda.syncthreads()
    # Exclusive sums over the threads, digit by digit: PARTS threads share a digit, each a stretch of its counters.
    digit = t // PARTS
    start = t % PARTS * (SORT_THREADS // PARTS)
    total = 0
    for i in range(start, start + SORT_THREADS // PARTS):
        total += counters[digit, i]
    sums[t] = total
    cuda.syncthreads()
    running = 0
    for i in range(t - t % PARTS, t):
        running += sums[i]
    for i in range(start, start + SORT_THREADS // PARTS):
        here = counters[digit, i]
        counters[digit, i] = running
        running += here
    cuda.syncthreads()
    for k in range(SORT_ITEMS):
        if first + k < keys.size:
            key = keys[first + k]
            d = (key >> shift) & (DIGITS - 1)
            at = offsets[d * blocks + cuda.blockIdx.x] + counters[d, t] + rank[k]
            new_keys[at] = key
            new_order[at] = order[first + k]


def sort_steps(positions: Any, m: int, rows: int, device: int, temps: list[Layout]) -> tuple[list[Launch], Any, Any]:
    """Steps that sort ``m`` positions below ``rows``: (steps, sorted keys, source number of each). Keys out of range
    come last, as ``rows``."""
    vector = Layout.new((m,), np.dtype(np.int64), device)
    blocks = -(-m // SORT_TILE)
    here = len(temps)
    temps += [vector] * 4 + [Layout.new((DIGITS * blocks + 1,), np.dtype(np.int64), device)]
    keys, order, other_keys, other_order, counts = (Temp(here + i) for i in range(5))
    steps = [Launch(number_keys, -(-m // SORT_THREADS), SORT_THREADS, [positions, keys, order, rows])]
    for shift in range(0, rows.bit_length(), DIGIT_BITS):
        steps += [
            Launch(count_digits, blocks, SORT_THREADS, [keys, counts, shift, blocks]),
            Launch(scan_counts, 1, SORT_THREADS, [counts]),
            Launch(move_keys, blocks, SORT_THREADS, [keys, order, counts, other_keys, other_order, shift, blocks]),
        ]
        keys, order, other_keys, other_order = other_keys, other_order, keys, order
    return steps, keys, order


# -------------------------------------------------------------------------------------------------- summing


@functools.cache
def sum_chunks(dtype: np.dtype) -> Any:
    """x[b, key, a] += the sum of the sources of that key, for keys within one chunk; other sums are put aside:
    aside[0] for a key that began in an earlier chunk, aside[1] for one that goes on in the next."""
    load, store, T = codec(dtype)

    @cuda.jit
    def sum_chunks(x, values, keys, order, aside):
        # x: (before, rows, after), values: (before, m, after), keys, order: (m,), aside: (2, chunks, columns) of T
        chunk = cuda.blockIdx.x % aside.shape[1]
        column = cuda.blockIdx.x // aside.shape[1] * cuda.blockDim.x + cuda.threadIdx.x
        after = values.shape[2]
        if column < values.shape[0] * after:
            b = column // after
            a = column - b * after
            first = chunk * CHUNK
            last = min(first + CHUNK, keys.size)
            key = keys[first]
            began_before = first > 0 and keys[first - 1] == key
            total = T(0)
            for i in range(first, last):
                if keys[i] != key:
                    if began_before:
                        aside[0, chunk, column] = total
                    elif key < x.shape[1]:
                        x[b, key, a] = store(load(x[b, key, a]) + total)
                    key = keys[i]
                    began_before = False
                    total = T(0)
                total += load(values[b, order[i], a])
            if began_before:
                aside[0, chunk, column] = total
            elif last < keys.size and keys[last] == key:
                aside[1, chunk, column] = total
            elif key < x.shape[1]:
                x[b, key, a] = store(load(x[b, key, a]) + total)

    return sum_chunks


@functools.cache
def join_chunks(dtype: np.dtype) -> Any:
    """For a key that begins in this block's chunk and goes on: x[b, key, a] += all that was put aside for it."""
    load, store, T = codec(dtype)

    @cuda.jit
    def join_chunks(x, keys, aside, after):  # x: (before, rows, after), keys: (m,), aside: (2, chunks, columns) of T
        chunk = cuda.blockIdx.x % aside.shape[1]
        column = cuda.blockIdx.x // aside.shape[1] * cuda.blockDim.x + cuda.threadIdx.x
        last = (chunk + 1) * CHUNK
        if last < keys.size and column < aside.shape[2]:
            key = keys[last]
            begins_here = keys[last - 1] == key and (chunk == 0 or keys[chunk * CHUNK - 1] != key)
            if begins_here and key < x.shape[1]:
                total = aside[1, chunk, column]
                while last < keys.size and keys[last] == key:
                    total += aside[0, last // CHUNK, column]
                    last += CHUNK
                b = column // after
                a = column - b * after
                x[b, key, a] = store(load(x[b, key, a]) + total)

    return join_chunks


def add_steps(target: Any, x: Layout, source: Any, positions: Any, m: int, temps: list[Layout]) -> list[Launch]:
    """Steps for ``x[:, positions[j], :] += values[:, j, :]``; x: (before, rows, after) with its argument ``target``;
    ``source``: the argument of the values, contiguous (before, m, after)."""
    before, rows, after = x.shape
    steps, keys, order = sort_steps(positions, m, rows, x.device, temps)
    columns = before * after
    chunks = -(-m // CHUNK)
    temps.append(Layout.new((2, chunks, columns), compute_dtype(x.dtype), x.device))
    aside = Temp(len(temps) - 1)
    threads = min(-(-columns // 32) * 32, MOST_COLUMNS)
    grid = chunks * -(-columns // threads)
    values = source.view((before, m, after))
    return [*steps,
            Launch(sum_chunks(x.dtype), grid, threads, [target, values, keys, order, aside]),
            Launch(join_chunks(x.dtype), grid, threads, [target, keys, aside, after])]


# ------------------------------------------------------------------------------------------------- planners


def scatter_add(x: Layout, values: Layout, *indices: Layout, axis: int) -> Plan:
    """``x[..., indices, ...] += values`` in place, equal indices added in their order; values are broadcast."""
    count = len(indices)
    shape = (*x.shape[:axis], *indices[0].shape, *x.shape[axis + count :])
    temps: list[Layout] = []
    steps, positions = flat_positions(indices, x.shape[axis : axis + count], 2, temps)
    if 0 in shape or not x.size:
        return Plan([], steps, temps)
    more, target, layout, copied = box(Input(0), x, axis, count, temps)
    again, source = dense(Input(1), values, shape, x.dtype, temps)
    steps += [*more, *again, *add_steps(target, layout, source, positions, indices[0].size, temps)]
    if copied is not None:
        steps += copy_part(copied, whole(Input(0), x))
    return Plan([], steps, temps)


def gather_grad(g: Layout, *indices: Layout, shape: tuple[int, ...], axis: int) -> Plan:
    """Zeros of ``shape`` with g added at the indices: the gradient of ``gather``."""
    out = g.like(shape)
    if not out.size:
        return Plan([out], [])
    count = len(indices)
    temps: list[Layout] = []
    steps: list[Launch] = fill_part(whole(Output(0), out), np.uint64(0), np.uint64(0), None)
    if g.size:
        more, positions = flat_positions(indices, shape[axis : axis + count], 1, temps)
        again, source = dense(Input(0), g, g.shape, g.dtype, temps)
        box_shape = (prod(shape[:axis]), prod(shape[axis : axis + count]), prod(shape[axis + count :]))
        steps += [*more, *again, *add_steps(Output(0).view(box_shape), out.like(box_shape), source, positions,
                                            indices[0].size, temps)]
    return Plan([out], steps, temps)
