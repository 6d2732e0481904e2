"""Rows that a block holds sorted by radix: all digits in one launch, a block for each row.

The idea. A thread holds ITEMS keys in registers, a warp 32 ITEMS neighbours. For each digit of 8
bits, from the lowest:

1. A warp goes through its keys in their order. Lanes with the same digit find each other by votes
   (onesweep.same_digit); how many of it the warp had before, and how many lanes below, is the key's
   rank in the warp.
2. Thread d adds the warps' counts of digit d, and those of smaller digits: where each begins.
3. Keys, and their positions in 16 bits, go to their places in shared memory and are read back.

So a digit costs about as many instructions an element as three rounds of a network, of which 4,096
elements take 78; and nothing goes to memory in between, which onesweep.py reads and writes for each
digit. Bits in which all keys of the row agree are skipped: whole numbers below 1,000 of 8 bytes
have two digits.

Stable: keys keep their order within a lane, a warp and the block. What is beyond the end of a row
counts as the last digit, behind all others.

Floor: one read and one write of the elements; in between votes and shared memory.
"""

from __future__ import annotations

import functools
from typing import Any

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import FULL, WARP, bounded
from ..compiler.lazy_numba import cuda, types
from .bitonic import row_words
from .onesweep import DIGIT_BITS, DIGITS, key_function, same_digit
from .problem import SortProblem, block_shape, sorted_rows
from .radix_keys import Coding

u16, u32 = types.uint16, types.uint32
REST = 16  # bits of a word beside a digit, in which a rank has room


@functools.cache
def sort_block(coding: Coding, positions: bool, threads: int, items: int, held: int) -> Any:
    """A row of up to threads x items elements; held: blocks that a multiprocessor has at once."""
    word, _, K, bits = coding
    key_of, kind = key_function(coding), getattr(types, word.name)
    warps, size, step = threads // WARP, threads * items, WARP * items
    all_counters = warps * DIGITS
    mask, last, none = K(DIGITS - 1), DIGITS - 1, K(0)
    behind = size * word.itemsize // 2  # the keys, in places of positions
    halves = u32((1 << REST) - 1)

    @bounded((threads, held))
    def sort_block(x, out, flip):  # x, out: (rows, n), out int64 if positions
        exchange = cuda.shared.array(0, kind)
        carried = cuda.shared.array(0, u16)  # the same memory
        counters = cuda.shared.array(all_counters, u32)  # (warps, digits)
        sums = cuda.shared.array(warps, u32)
        differing = cuda.shared.array(warps, K)
        key = cuda.local.array(items, kind)
        place = cuda.local.array(items, u32)  # digit and rank of a key
        come_from = cuda.local.array(items, u32)
        t = u32(cuda.threadIdx.x)
        lane, warp = u32(t % u32(WARP)), u32(t // u32(WARP))
        column = u32(warp * u32(DIGITS))  # where the warp's counters begin
        start = u32(warp * u32(step) + lane)
        below = u32((u32(1) << lane) - u32(1))
        row, n = cuda.blockIdx.x, u32(x.shape[1])
        first = key_of(x[row, 0], flip)
        differs = none
        for i in range(items):
            at = u32(start + u32(i * WARP))
            come_from[i] = at
            key[i] = kind(0)
            if at < n:
                key[i] = x[row, at]
        for i in range(items):
            if u32(start + u32(i * WARP)) < n:
                differs |= K(key_of(key[i], flip) ^ first)
        for s in range(5):
            if bits > 32:
                differs |= K(cuda.shfl_xor_sync(FULL, types.int64(differs), 1 << s))
            else:
                differs |= K(cuda.shfl_xor_sync(FULL, types.int32(differs), 1 << s))
        if lane == 0:
            differing[warp] = differs
        cuda.syncthreads()
        differs = none
        for w in range(warps):
            differs |= differing[w]
        shift = K(0)
        while differs != none:
            while (differs & K(1)) == none:  # all keys agree in this bit
                differs = K(differs >> K(1))
                shift = K(shift + K(1))

            # 1. Ranks within the warp.
            for j in range(DIGITS // WARP):
                counters[u32(column + lane + u32(j * WARP))] = u32(0)
            cuda.syncwarp()
            for i in range(items):
                digit = u32((key_of(key[i], flip) >> shift) & mask)
                if u32(start + u32(i * WARP)) >= n:
                    digit = u32(last)
                peers = same_digit(digit)
                earlier = u32(cuda.popc(u32(peers & below)))
                at = u32(column + digit)
                so_far = counters[at]
                cuda.syncwarp()
                if earlier == 0:
                    counters[at] = u32(so_far + u32(cuda.popc(peers)))
                cuda.syncwarp()
                place[i] = u32(u32(digit << u32(REST)) | u32(so_far + earlier))
            cuda.syncthreads()

            # 2. Where each digit of each warp begins.
            mine, inclusive = u32(0), types.int32(0)
            if t < DIGITS:
                for w in range(warps):
                    at = u32(u32(w * DIGITS) + t)
                    found = counters[at]
                    counters[at] = mine
                    mine = u32(mine + found)
                inclusive = types.int32(mine)
                for s in range(5):
                    up = cuda.shfl_up_sync(FULL, inclusive, 1 << s)
                    if lane >= 1 << s:
                        inclusive += up
                if lane == WARP - 1:
                    sums[warp] = u32(inclusive)
            cuda.syncthreads()
            if t < DIGITS:
                offset = u32(u32(inclusive) - mine)
                for w in range(DIGITS // WARP):
                    if w < warp:
                        offset = u32(offset + sums[w])
                for w in range(warps):
                    at = u32(u32(w * DIGITS) + t)
                    counters[at] = u32(counters[at] + offset)
            cuda.syncthreads()

            # 3. To their places.
            for i in range(items):
                digit = u32(place[i] >> u32(REST))
                to = u32(counters[u32(column + digit)] + u32(place[i] & halves))
                exchange[to] = key[i]
                if positions:
                    carried[u32(u32(behind) + to)] = u16(come_from[i])
            cuda.syncthreads()
            for i in range(items):
                at = u32(start + u32(i * WARP))
                key[i] = exchange[at]
                if positions:
                    come_from[i] = u32(carried[u32(u32(behind) + at)])
            shift = K(shift + K(DIGIT_BITS))
            differs = K(differs >> K(DIGIT_BITS))
        for i in range(items):
            at = u32(start + u32(i * WARP))
            if at < n:
                out[row, at] = types.int64(come_from[i]) if positions else key[i]

    return sort_block


def plan(p: SortProblem) -> Plan | None:
    """Planner; None where a block cannot hold a row."""
    shape = block_shape(p)
    if shape is None:
        return None
    threads, items, held, shared = shape

    def steps(source: Any, target: Any, _temps: list) -> list[Launch]:
        return [
            Launch(
                sort_block(p.coding, p.positions, threads, items, held),
                p.rows,
                threads,
                [*row_words(p, source, target), p.flip],
                shared=shared,
            )
        ]

    return sorted_rows(p, steps)
