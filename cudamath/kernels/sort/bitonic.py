"""Short rows sorted by a bitonic network: one thread block sorts a row, or several short rows.

The idea. A network compares and exchanges pairs of keys in log2(n) (log2(n) + 1) / 2 rounds. Which
pairs a round compares does not depend on the data, so a block makes all comparisons of a round at
once. A network is not stable. It becomes stable by comparing positions where keys are equal. The
sorted positions then fetch the elements, or are the result themselves.

``sort_rows``  Keys and positions lie in shared memory. Rows of up to 4,096 elements; any GPU and
               the simulator.
``sort_held``  Keys lie in registers: a thread holds HELD neighbours. Pairs at a distance below HELD
               belong to one thread, pairs at a distance below 32 HELD to one warp, whose lanes
               exchange them by shuffles. Only the other pairs meet in shared memory: 15 of the 78
               rounds of 4,096 elements. Barriers cost more than the comparisons.

Floor: one read and one write of the elements; in between the network works in a multiprocessor.

Source: Batcher (1968), Sorting networks and their applications.
"""

import functools
from typing import Any

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import FULL, WARP, bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.integers import blocks, power_of_two
from .problem import PAIRS, SortProblem, sorted_rows
from .radix_keys import Coding

HELD = 4  # neighbours that a thread of ``sort_held`` holds
BLOCK = 512  # elements of a block that sorts several rows


# -------------------- kernels


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
        # no literals, for each of which `order` would be compiled
        first, second = types.int64(0), types.int64(1)
        third, fourth = types.int64(2), types.int64(3)
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
                order(keys, places, first, third, up)
                order(keys, places, second, fourth, up)
                order(keys, places, first, second, up)
                order(keys, places, third, fourth, up)
            else:
                order(keys, places, first, second, True)
                order(keys, places, third, fourth, False)
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


# -------------------- planners


def in_shared_memory(p: SortProblem) -> Plan:
    """Version "bitonic": ``sort_rows``."""
    size = max(2, power_of_two(p.n))
    block = max(size, 2 * WARP, min(BLOCK, power_of_two(p.x.size)))
    turns = blocks(block, 2 * PAIRS)

    def steps(source: Any, target: Any, _temps: list) -> list[Launch]:
        return [
            Launch(
                sort_rows(p.coding, p.positions, turns),
                blocks(p.rows, block // size),
                block // 2 // turns,
                [*row_words(p, source, target), p.flip, size],
            )
        ]

    return sorted_rows(p, steps)


def in_registers(p: SortProblem) -> Plan:
    """Version "bitonic_registers": ``sort_held``."""
    size = max(HELD, power_of_two(p.n))
    threads = max(size, WARP * HELD, min(BLOCK, power_of_two(p.x.size))) // HELD

    def steps(source: Any, target: Any, _temps: list) -> list[Launch]:
        return [
            Launch(
                sort_held(p.coding, p.positions, threads),
                blocks(p.rows, threads * HELD // size),
                threads,
                [*row_words(p, source, target), p.flip, size],
            )
        ]

    return sorted_rows(p, steps)


def row_words(p: SortProblem, source: Any, target: Any) -> tuple[Any, Any]:
    """Rows of the words of keys, and rows of the result: such words, or positions."""
    shape, word = (p.rows, p.n), p.coding.word
    result = p.out.dtype if p.positions else word
    return source.view(shape, dtype=word), target.view(shape, dtype=result)
