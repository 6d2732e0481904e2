"""Sorting along an axis, stable, for every real dtype: values, or the positions that would sort
them.

The idea. What is sorted are keys (radix_keys.py): unsigned integers in the order of the numbers, so
one kernel serves floats, integers and bool, either direction, NaNs last. Lines along the axis are
rows; all rows are sorted by the same launches.

Versions, from simple to fast:

``sort_rows``  rows of up to 4,096 elements, one block for a row, or for several short ones. A
bitonic network in shared
               memory: log2(n) (log2(n) + 1) / 2 rounds of comparisons whose pattern does not depend
               on the data. A network is not stable; it becomes so by comparing positions where keys
               are equal. Sorted positions then fetch the elements, or are the answer.
``sort_held``  the same network for rows of 128 to 4,096 elements, which lie in registers: HELD
neighbours per thread. Elements
               that are compared over a distance below HELD share a thread, below 32 HELD a warp,
               whose lanes shuffle them. Only the others meet in shared memory: of 4,096 elements'
               78 rounds 15, and barriers cost more than the comparisons.
``ranks``      few rows of 512 to 4,096 elements: see rank_sort.py.
``radix``      rows of any length. A pass over one digit (6 bits) counts how often each digit occurs
               in each stretch of
               1,024 keys (``count_digits``), turns counts into offsets (``scan_counts``), and moves
               every key behind the equal ones before it (``move_keys``). For any GPU and the
               simulator; three launches and three reads per digit.
``onesweep``   the same with 8-bit digits, one launch and one read per digit: onesweep.py.

Floor: the networks work in a multiprocessor, one read and one write of the elements; radix see
onesweep.py.

Source: Batcher (1968), Sorting networks and their applications.

Measured (row versions_sort_rows):
rows of 16,384 x 1,024, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                    GB/s     of a copy
    sort_rows        126          0.03
    sort_held        265          0.06

(end of what was measured)

Measured (row versions_sort):
2^24 float32, counted as one read and four times a read and a write of each; NVIDIA H200, commit
52457ee46004, 2026-11-23

                   GB/s     of a copy
    radix          18.2          0.00
    onesweep      1,504          0.36

(end of what was measured)
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import FULL, WARP, bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.axis_last import neighbours
from ..lib.integers import blocks, power_of_two
from .onesweep import sweep_steps
from .radix_keys import Coding, coding, flipped
from .radix_select import LINE_THREADS, MOST_HELD, divide_steps
from .rank_sort import fits, rank_steps

# the longest row of ``sort_rows``, and the most elements of a block: with positions 48 KB of shared
# memory
NETWORK = 4096
# of more than 2 PAIRS elements: as many as run at once, in fewer microseconds than seven launches
# take
FEW_ROWS = 256
PAIRS = 1024  # comparisons of a round that a block's threads make at once
HELD = 4  # neighbours that a thread of ``sort_held`` holds
NETWORK_BLOCK = 512  # elements of a block that sorts several rows
RADIX_THREADS = 256
RADIX_ITEMS = 4  # keys a thread of ``move_keys`` holds
RADIX_TILE = RADIX_THREADS * RADIX_ITEMS
RADIX_BITS = 6
RADIX = 1 << RADIX_BITS  # columns of 256 16-bit counters: 32 KB of shared memory
PARTS = RADIX_THREADS // RADIX  # threads that share the scan of one digit's counters
SHORT = 1024  # lines of more elements, but few enough for a block, are divided as well
LONG, LONGEST = (
    1 << 16,
    1 << 31,
)  # elements of lines that are divided rather than sorted; counts have 31 bits
MOST_LINES, MANY = (
    1 << 10,
    1 << 20,
)  # of them; elements of all of them, below which launches would cost as much as a sort

# -------------------- short rows


@functools.cache
def sort_rows(coding: Coding, positions: bool, turns: int) -> Any:
    """Rows of up to 2 PAIRS turns elements by a bitonic network; a thread makes `turns` comparisons
    a round.

    The keys of narrow elements share a 64-bit word with their positions, so that a comparison is
    one of integers.
    """
    word, key_of, K, bits = coding
    narrow = bits <= 32
    most = 2 * PAIRS * turns
    held = most if not narrow else 1

    @cuda.jit
    def sort_rows(
        x, out, flip, size
    ):  # x, out: (rows, n), out int64 if positions; size: power of two, at least n
        keys = cuda.shared.array(most, types.uint64)
        places = cuda.shared.array(held, types.uint32)  # of wide elements
        t = cuda.threadIdx.x
        rows, n = x.shape
        total = 2 * turns * cuda.blockDim.x
        first_row = types.int64(cuda.blockIdx.x) * (total // size)
        for i in range(t, total, cuda.blockDim.x):
            row = first_row + i // size
            place = i % size
            key = types.uint64(0xFFFFFFFFFFFFFFFF)  # beyond the end: last
            if row < rows and place < n:
                key = types.uint64(key_of(x[row, place], flip))
                if narrow:
                    key = (key << types.uint64(32)) | types.uint64(place)
            keys[i] = key
            if not narrow:
                places[i] = types.uint32(place)
        cuda.syncthreads()
        run = 2
        while (
            run <= size
        ):  # runs of this length become sorted, up and down by turns; at last all of them up
            distance = run // 2
            while distance > 0:
                for turn in range(turns):
                    pair = t + turn * cuda.blockDim.x
                    low = 2 * pair - (pair & (distance - 1))
                    high = low + distance
                    up = (low & run) == 0 or run == size
                    a, b = keys[low], keys[high]
                    if narrow:
                        if (a > b) == up:
                            keys[low] = b
                            keys[high] = a
                    else:
                        p, q = places[low], places[high]
                        if (a > b or (a == b and p > q)) == up:
                            keys[low] = b
                            keys[high] = a
                            places[low] = q
                            places[high] = p
                # Within 2 x 32 neighbours a warp is by itself, in this round and in the next.
                if SIMULATOR or distance > WARP or (distance == 1 and run > WARP):
                    cuda.syncthreads()
                else:
                    cuda.syncwarp()
                distance //= 2
            run *= 2
        cuda.syncthreads()
        for i in range(t, total, cuda.blockDim.x):
            row = first_row + i // size
            place = i % size
            if row < rows and place < n:
                source = (
                    types.int64(keys[i] & types.uint64(0xFFFFFFFF))
                    if narrow
                    else types.int64(places[i])
                )
                out[row, place] = source if positions else x[row, source]

    return sort_rows


@functools.cache
def sort_held(coding: Coding, positions: bool, threads: int) -> Any:
    """``sort_rows`` by blocks of so many threads, for sizes of 32 HELD and more.

    Element i of the block's HELD threads elements is number i % HELD of thread i // HELD. So the
    partner over a distance of HELD or more has the same number in thread t ^ (distance / HELD).
    """
    word, key_of, K, bits = coding
    narrow = bits <= 32
    most = HELD * threads
    other_places = most if not narrow else 1

    @device_function
    def order(keys, places, i, j, up):
        """Elements i and j of a thread, in order: upwards or downwards."""
        a, b = keys[i], keys[j]
        p, q = places[i], places[j]
        if (a > b or (not narrow and a == b and p > q)) == up:
            keys[i], keys[j] = b, a
            places[i], places[j] = q, p

    @bounded(threads)
    def sort_held(x, out, flip, size):  # as sort_rows
        shared = cuda.shared.array(most, types.uint64)
        shared_places = cuda.shared.array(other_places, types.uint32)  # of wide elements
        keys = cuda.local.array(HELD, types.uint64)
        places = cuda.local.array(HELD, types.uint32)
        t = types.int32(cuda.threadIdx.x)
        rows, n = x.shape
        each = types.int32(size) // types.int32(HELD)  # threads per row
        own = t % each
        row = types.int64(cuda.blockIdx.x) * (types.int32(threads) // each) + t // each
        for k in range(HELD):  # in any order, so neighbouring threads read neighbours
            place = own + k * each
            keys[k] = types.uint64(0xFFFFFFFFFFFFFFFF)  # beyond the end: last
            if row < rows and place < n:
                key = types.uint64(key_of(x[row, place], flip))
                keys[k] = (key << types.uint64(32)) | types.uint64(place) if narrow else key
            places[k] = types.uint32(place)
        run = types.int32(2)
        while (
            run <= size
        ):  # runs of this length become sorted, up and down by turns; at last all of them up
            up = (
                t & (run // HELD)
            ) == 0 or run == size  # of runs as long as a thread's elements or longer
            distance = run // types.int32(2 * HELD)  # in threads
            while distance > 0:
                small = (
                    (t & distance) == 0
                ) == up  # whether this thread keeps the smaller one of each pair
                if distance >= WARP:
                    cuda.syncthreads()
                    for k in range(HELD):
                        shared[k * threads + t] = keys[k]
                        if not narrow:
                            shared_places[k * threads + t] = places[k]
                    cuda.syncthreads()
                for k in range(HELD):
                    place = types.uint32(0)
                    if distance >= WARP:
                        key = shared[k * threads + (t ^ distance)]
                        if not narrow:
                            place = shared_places[k * threads + (t ^ distance)]
                    else:
                        key = types.uint64(cuda.shfl_xor_sync(FULL, types.int64(keys[k]), distance))
                        if not narrow:
                            place = types.uint32(
                                cuda.shfl_xor_sync(FULL, types.int32(places[k]), distance)
                            )
                    if (
                        key < keys[k] or (not narrow and key == keys[k] and place < places[k])
                    ) == small:
                        keys[k] = key
                        places[k] = place
                distance //= types.int32(2)
            if run >= HELD:
                order(keys, places, 0, 2, up)
                order(keys, places, 1, 3, up)
                order(keys, places, 0, 1, up)
                order(keys, places, 2, 3, up)
            else:
                order(keys, places, 0, 1, True)
                order(keys, places, 2, 3, False)
            run *= types.int32(2)
        if row < rows:
            for k in range(HELD):
                place = own * HELD + k
                if place < n:
                    source = (
                        types.int64(keys[k] & types.uint64(0xFFFFFFFF))
                        if narrow
                        else types.int64(places[k])
                    )
                    out[row, place] = source if positions else x[row, source]

    return sort_held


# -------------------- long rows


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


# -------------------- planners


def key_steps(
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
    """Steps that sort long rows of keys, stably: see ``onesweep.sweep_steps``."""
    steps = radix_steps if SIMULATOR else sweep_steps
    return steps(keys, target, order, coding, shape, flip, device, temps, bits)


def sort(x: Layout, *, axis: int, descending: bool, version: str | None = None) -> Plan:
    """x sorted along ``axis``; version: None, "ranks", "network", "held", "radix" or "onesweep"."""
    return _plan(x, axis, descending, False, version)


def argsort(x: Layout, *, axis: int, descending: bool, version: str | None = None) -> Plan:
    """The positions (int64) along ``axis`` that sort x."""
    return _plan(x, axis, descending, True, version)


def _plan(x: Layout, axis: int, descending: bool, positions: bool, version: str | None) -> Plan:
    out = x.like(dtype=np.dtype(np.int64)) if positions else x.like()
    if not x.size:
        return Plan([out], [])
    code, flip = coding(x.dtype), flipped(x.dtype, descending)
    temps: list[Layout] = []
    steps, source, back, target = neighbours(x, out, axis, temps)
    n = x.shape[axis]
    shape = (x.size // n, n)
    if version is None:
        short = n <= 2 * PAIRS or (n <= NETWORK and shape[0] <= FEW_ROWS)
        held = short and n > WARP * HELD // 2 and not SIMULATOR
        version = "held" if held else "network" if short else "radix" if SIMULATOR else "onesweep"
        if not SIMULATOR and fits(shape[0], n):
            version = "ranks"
    size = max(2, power_of_two(n))
    if version == "ranks":
        steps += rank_steps(
            source,
            None if positions else target,
            target if positions else None,
            x,
            n,
            n,
            descending,
        )
    elif version == "held":
        size = max(size, HELD)
        threads = max(size, WARP * HELD, min(NETWORK_BLOCK, power_of_two(x.size))) // HELD
        steps += [
            Launch(
                sort_held(code, positions, threads),
                blocks(shape[0], threads * HELD // size),
                threads,
                [
                    source.view(shape, dtype=code.word),
                    target.view(shape, dtype=out.dtype if positions else code.word),
                    flip,
                    size,
                ],
            )
        ]
    elif version == "network":
        block = max(size, 2 * WARP, min(NETWORK_BLOCK, power_of_two(x.size)))
        seen = source.view(shape, dtype=code.word)
        goal = target.view(shape, dtype=out.dtype if positions else code.word)
        turns = blocks(block, 2 * PAIRS)
        steps += [
            Launch(
                sort_rows(code, positions, turns),
                blocks(shape[0], block // size),
                block // 2 // turns,
                [seen, goal, flip, size],
            )
        ]
    else:
        make = radix_steps if version == "radix" else sweep_steps
        steps += make(
            source,
            None if positions else target,
            target if positions else None,
            code,
            shape,
            flip,
            x.device,
            temps,
        )
    return Plan([out], [*steps, *back], temps)


def partition(x: Layout, *, axis: int, kth: tuple[int, ...]) -> Plan:
    """x with the elements of these ranks along ``axis`` in their places, smaller ones before
    them."""
    return _divided(x, axis, kth, False)


def argpartition(x: Layout, *, axis: int, kth: tuple[int, ...]) -> Plan:
    """The positions (int64) that partition x."""
    return _divided(x, axis, kth, True)


def _divided(x: Layout, axis: int, kth: tuple[int, ...], positions: bool) -> Plan:
    n = x.shape[axis]
    within = SHORT < n <= LINE_THREADS * MOST_HELD or (
        LONG <= n < LONGEST and x.size // n <= MOST_LINES and x.size >= MANY
    )
    if not SIMULATOR and within and len(set(kth)) == 1:
        plan = _selected(x, axis, kth[0], positions, n, False)
        plan.why = "divided at the rank, which is found digit by digit"
    else:
        plan = _plan(x, axis, False, positions, None)
        plan.why = "sorted: lines that are short or many, or several ranks"
    return plan


def leading(x: Layout, *, axis: int, count: int, descending: bool) -> Plan:
    """The positions (int64) along ``axis`` of the first ``count`` elements that a sort would give:
    in any order, but equal ones in theirs. For long lines; not for the simulator."""
    return _selected(x, axis, count - 1, True, count, descending)


def _selected(
    x: Layout, axis: int, rank: int, positions: bool, count: int, descending: bool
) -> Plan:
    out = x.like(
        (*x.shape[:axis], count, *x.shape[axis + 1 :]), np.dtype(np.int64) if positions else x.dtype
    )
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    steps, source, back, target = neighbours(x, out, axis, temps)
    n = x.shape[axis]
    steps += divide_steps(
        source,
        target,
        x,
        (x.size // n, n),
        rank,
        flipped(x.dtype, descending),
        positions,
        count,
        temps,
    )
    return Plan([out], [*steps, *back], temps)
