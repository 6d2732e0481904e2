"""Rows of any length sorted by radix, digit by digit, for any GPU and the simulator.

A pass sorts by one digit of 6 bits, stably, from the lowest digit to the highest:

1. ``count_digits`` counts how often each digit occurs in each stretch of 1,024 keys.
2. ``scan_counts`` turns the counts into offsets.
3. ``move_keys`` moves every key behind the equal ones before it.

That is three launches and three reads per digit. `onesweep.py` takes one launch and one read per
digit of 8 bits.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.integers import blocks
from .problem import SortProblem, sorted_by_keys
from .radix_keys import Coding

RADIX_THREADS = 256
RADIX_ITEMS = 4  # keys a thread of ``move_keys`` holds
RADIX_TILE = RADIX_THREADS * RADIX_ITEMS
RADIX_BITS = 6
RADIX = 1 << RADIX_BITS  # columns of 256 16-bit counters: 32 KB of shared memory
PARTS = RADIX_THREADS // RADIX  # threads that share the scan of one digit's counters


@functools.cache
def count_digits(coding: Coding) -> Any:
    """counts[row, digit, stretch] = how many keys of that stretch of the row have the digit at bit
    ``shift``."""
    _, key_of, K, _ = coding

    @cuda.jit
    def count_digits(
        keys, counts, shift, flip
    ):  # keys: (rows, n) words, counts: (rows * RADIX * stretches + 1,)
        seen = cuda.shared.array(RADIX, types.int32)
        t = cuda.threadIdx.x
        if t < RADIX:
            seen[t] = 0
        cuda.syncthreads()
        rows, n = keys.shape
        stretches = blocks_of(n)
        row = cuda.blockIdx.x // stretches
        stretch = cuda.blockIdx.x - row * stretches
        for i in range(stretch * RADIX_TILE + t, min((stretch + 1) * RADIX_TILE, n), RADIX_THREADS):
            d = types.int64((key_of(keys[row, i], flip) >> K(shift)) & K(RADIX - 1))
            cuda.atomic.add(seen, d, 1)  # integers: any order gives the same sum
        cuda.syncthreads()
        if t < RADIX:
            counts[(row * RADIX + t) * stretches + stretch] = seen[t]

    return count_digits


@functools.cache
def move_keys(coding: Coding) -> Any:
    """Stable: equal digits keep their order. Thread t holds 4 neighbouring keys and counts each
    digit in a column of its own; a key's place is the offset of (row, digit, stretch) + the counts
    of the threads before + its number in t."""
    _, key_of, K, _ = coding

    @cuda.jit
    def move_keys(keys, order, offsets, new_keys, new_order, shift, flip, first_pass):
        # keys: (rows, n) words, new_keys: (rows * n,); order, new_order: (rows * n,) int64,
        # positions within the row; offsets: as counts; first_pass: positions are 0, 1, 2, ...,
        # whatever ``order`` holds
        counters = cuda.shared.array((RADIX, RADIX_THREADS), types.uint16)
        sums = cuda.shared.array(RADIX_THREADS, types.int32)
        rank = cuda.local.array(RADIX_ITEMS, types.int32)
        t = cuda.threadIdx.x
        for d in range(RADIX):
            counters[d, t] = 0
        rows, n = keys.shape
        stretches = blocks_of(n)
        row = cuda.blockIdx.x // stretches
        stretch = cuda.blockIdx.x - row * stretches
        first = stretch * RADIX_TILE + t * RADIX_ITEMS
        for k in range(RADIX_ITEMS):
            if first + k < n:
                d = types.int64((key_of(keys[row, first + k], flip) >> K(shift)) & K(RADIX - 1))
                rank[k] = counters[d, t]
                counters[d, t] += 1
        cuda.syncthreads()
        # Exclusive sums over the threads, digit by digit: PARTS threads share a digit, each a
        # stretch of its counters.
        digit = t // PARTS
        start = t % PARTS * (RADIX_THREADS // PARTS)
        total = 0
        for i in range(start, start + RADIX_THREADS // PARTS):
            total += counters[digit, i]
        sums[t] = total
        cuda.syncthreads()
        running = 0
        for i in range(t - t % PARTS, t):
            running += sums[i]
        for i in range(start, start + RADIX_THREADS // PARTS):
            here = counters[digit, i]
            counters[digit, i] = running
            running += here
        cuda.syncthreads()
        for k in range(RADIX_ITEMS):
            if first + k < n:
                key = keys[row, first + k]
                d = types.int64((key_of(key, flip) >> K(shift)) & K(RADIX - 1))
                at = offsets[(row * RADIX + d) * stretches + stretch] + counters[d, t] + rank[k]
                new_keys[at] = key
                new_order[at] = first + k if first_pass else order[row * n + first + k]

    return move_keys


@cuda.jit
def scan_counts(counts):  # (n + 1,) int64; the last entry is only written
    """Running sums in place, exclusive: counts[k] becomes the sum of those before it; the last
    entry the total. One block: thread t sums a stretch, the stretches are scanned in shared memory,
    and t goes over its own again."""
    shared = cuda.shared.array(RADIX_THREADS, np.int64)
    t = cuda.threadIdx.x
    n = counts.size - 1
    stretch = (n + RADIX_THREADS - 1) // RADIX_THREADS
    first = min(t * stretch, n)
    last = min(first + stretch, n)
    total = np.int64(0)
    for i in range(first, last):
        total += counts[i]
    shared[t] = total
    cuda.syncthreads()
    step = 1
    while (
        step < RADIX_THREADS
    ):  # Hillis and Steele: after step s every entry holds the sum of the 2 s up to it
        before = shared[t - step] if t >= step else np.int64(0)
        cuda.syncthreads()
        shared[t] += before
        cuda.syncthreads()
        step *= 2
    running = shared[t] - total
    for i in range(first, last):
        here = counts[i]
        counts[i] = running
        running += here
    if t == RADIX_THREADS - 1:
        counts[n] = shared[t]


@device_function
def blocks_of(n):
    """Stretches of a row of n keys."""
    return (n + RADIX_TILE - 1) // RADIX_TILE


def radix_steps(
    keys: Any,
    target: Any,
    order: Any,
    coding: Coding,
    shape: tuple[int, int],
    flip: Any,
    device: int,
    temps: list[Layout],
    bits: int | None = None,
) -> list[Launch]:
    """The plain version of ``onesweep.sweep_steps``, with the same arguments."""
    rows, n = shape
    size = rows * n
    stretches = blocks(n, RADIX_TILE)
    here = len(temps)
    row_keys, positions = (
        Layout.new((size,), coding.word, device),
        Layout.new((size,), np.dtype(np.int64), device),
    )
    temps += [row_keys, row_keys, positions, positions]
    temps.append(Layout.new((rows * RADIX * stretches + 1,), np.dtype(np.int64), device))
    *buffers, counts = (Temp(here + i) for i in range(5))
    steps: list[Launch] = []
    grid = rows * stretches
    given, given_order = keys, buffers[2]
    passes = blocks(coding.bits if bits is None else max(bits, 1), RADIX_BITS)
    for p in range(passes):
        new_keys, new_order = buffers[p % 2], buffers[2 + (p + 1) % 2]
        if p == passes - 1:
            new_keys = new_keys if target is None else target
            new_order = new_order if order is None else order
        seen = given.view((rows, n), dtype=coding.word)
        steps += [
            Launch(count_digits(coding), grid, RADIX_THREADS, [seen, counts, p * RADIX_BITS, flip]),
            Launch(scan_counts, 1, RADIX_THREADS, [counts]),
            Launch(
                move_keys(coding),
                grid,
                RADIX_THREADS,
                [
                    seen,
                    given_order.view((size,)),
                    counts,
                    new_keys.view((size,), dtype=coding.word),
                    new_order.view((size,)),
                    p * RADIX_BITS,
                    flip,
                    int(p == 0),
                ],
            ),
        ]
        given, given_order = new_keys, new_order
    return steps


def sort(p: SortProblem) -> Plan:
    """Version "radix"."""
    return sorted_by_keys(p, radix_steps)
