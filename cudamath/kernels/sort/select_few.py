"""The first few elements of lines that a sort would give, and their positions, in order (`topk`).

The idea. A block holds a line, or a part of one, in registers. It finds with which digits the keys
of the wanted elements begin, byte by byte from the top, by counting in shared memory, and stops as
soon as no more than `room` elements can be among them: two or three bytes of most lines, however
wide the elements are. Those it collects in any order, and ranks by comparing each with all others,
by key and then by position. So the first of equal elements comes first, whatever order the block
collects them in. If more than `room` elements are equal, the bytes of their positions are counted
like those of keys.

Lines longer than a block holds are cut into parts. The first few of each part stand side by side
in memory and are a shorter line, of which the same kernel finds the first few:

    parts of a line      3 9 4 | 1 7 9 | 9 5 2          the greatest two
    of each              9 4     9 7     9 5
    of those             9 9                            at positions 1, 5: parts are in order

The floor is a read of the elements. On top of it a part costs about as long as a few hundred
operations of a warp, and a line that is cut one more launch. For any GPU and the simulator.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import WARP, bounded
from ..compiler.lazy_numba import cuda, types
from ..lib.integers import blocks, power_of_two
from .block_digits import COUNTERS, DIGITS, clear_digits, count_digit, count_next, pick_digit
from .problem import MOST_LEADING, LeadingProblem, leading_rows
from .radix_keys import Coding

PART = 8192  # elements that a block holds
MOST_THREADS, LEAST_THREADS = 1024, 64
EACH = 4  # elements that a thread holds as long as there are enough threads
# elements that are ranked at most: the first of these of which the wanted ones leave a fifth free
ROOMS = (128, 5 * MOST_LEADING // 4)
PIECES = 8  # threads that compare one element with a part of the others


@functools.cache
def select_few(coding: Coding, room: int, threads: int, items: int, later: bool) -> Any:
    """The first ``count`` elements of each part of each row. later: rows are what this kernel left
    of longer ones, and `order` has the positions there."""
    word, key_of, K, bits = coding
    kind = getattr(types, word.name)
    i32 = types.int32

    @bounded(threads)
    def select_few(x, order, out, places, flip, count, parts):
        # x: (rows, n) words; order: the same, int64, if `later`; out: (rows, parts * count) words;
        # places: the same, int64
        counts = cuda.shared.array(COUNTERS, types.int32)
        sums = cuda.shared.array(WARP, types.int32)
        found = cuda.shared.array(4, types.int32)
        keys = cuda.shared.array(room, K)
        ats = cuda.shared.array(room, types.int32)
        ranks = cuda.shared.array(room, types.int32)
        words = cuda.local.array(items, kind)
        held = cuda.local.array(items, K)
        t = i32(cuda.threadIdx.x)
        block = types.int64(cuda.blockIdx.x)
        row = block // parts
        part = block - row * parts
        n = x.shape[1]
        begin = part * n // parts
        length = i32((part + 1) * n // parts - begin)
        for i in range(items):  # all are on their way before the first is looked at
            words[i] = x[row, begin + min(i32(t + i32(i * threads)), i32(length - i32(1)))]
        for i in range(items):
            held[i] = key_of(words[i], flip)

        # 1. With which digits the last wanted key begins: as many as leave `room` elements.
        shift, at_shift = i32(bits), i32(16)  # bits not looked at: of the key, of the position
        border, at_border = K(0), i32(0)
        left, inside = i32(count - 1), length  # rank among those that begin so; how many do
        while i32(count) - i32(1) - left + inside > i32(room):
            of_key = shift > i32(0)
            if of_key:
                shift -= i32(8)
            else:
                at_shift -= i32(8)
            clear_digits(counts, t, i32(threads))
            last, run = i32(0), i32(0)
            for i in range(items):
                at = i32(t + i32(i * threads))
                if at < length:
                    rest = K(held[i] >> K(shift))
                    if of_key:
                        begins_so = K(rest >> K(8)) == border
                        digit = i32(rest & K(DIGITS - 1))
                    else:
                        begins_so = rest == border and at >> at_shift >> i32(8) == at_border
                        digit = i32((at >> at_shift) & i32(DIGITS - 1))
                    if begins_so:
                        last, run = count_next(counts, digit, last, run)
            if run > i32(0):
                count_digit(counts, last, run)
            pick_digit(counts, sums, found, t, left)
            if of_key:
                border = K(K(border << K(8)) | K(found[0]))
            else:
                at_border = i32((at_border << i32(8)) | found[0])
            left, inside = found[1], found[2]

        # 2. They are collected,
        if t == 0:
            found[3] = 0
        for i in range(t, room, threads):
            ranks[i] = 0
        cuda.syncthreads()
        for i in range(items):
            at = i32(t + i32(i * threads))
            if at < length:
                wanted = shift == i32(bits)
                if not wanted:
                    rest = K(held[i] >> K(shift))
                    wanted = rest < border or (rest == border and at >> at_shift <= at_border)
                if wanted:
                    slot = cuda.atomic.add(found, 3, 1)
                    keys[slot] = held[i]
                    ats[slot] = at
        cuda.syncthreads()

        # 3. and ranked: PIECES threads compare one with all others. Integers: any order of the
        # additions gives the same sum.
        many = found[3]
        share = (many + i32(PIECES - 1)) // i32(PIECES)
        for i in range(t, many * i32(PIECES), threads):
            piece = i32(i) // many
            candidate = i32(i) - piece * many
            key, at = keys[candidate], ats[candidate]
            rank = i32(0)
            for j in range(piece * share, min(many, (piece + i32(1)) * share)):
                other = keys[j]
                if other < key or (other == key and ats[j] < at):
                    rank += i32(1)
            cuda.atomic.add(ranks, candidate, rank)
        cuda.syncthreads()
        for i in range(t, many, threads):
            if ranks[i] < count:
                source, to = begin + ats[i], part * count + ranks[i]
                out[row, to] = x[row, source]
                if later:
                    places[row, to] = order[row, source]
                else:
                    places[row, to] = source

    return select_few


def select_steps(
    p: LeadingProblem, source: Any, values: Any, places: Any, temps: list[Layout]
) -> list[Launch]:
    """Steps that write the first elements of the rows of `source`, and their positions."""
    code, flip = p.coding, p.flip
    room = next(r for r in ROOMS if 5 * p.count <= 4 * r)
    position = np.dtype(np.int64)
    x = source.view((p.rows, p.n), source.strides, code.word)
    order, n, steps = x, p.n, []  # of the first kernel no positions are read
    while True:
        parts = blocks(n, PART)
        length = blocks(n, parts)
        threads = min(MOST_THREADS, max(LEAST_THREADS, power_of_two(blocks(length, EACH))))
        width = parts * p.count
        if parts == 1:
            out = values.view((p.rows, width), values.strides, code.word)
            to = places.view((p.rows, width), places.strides, position)
        else:
            temps += [p.x.like((p.rows, width)), p.x.like((p.rows, width), position)]
            out = Temp(len(temps) - 2).view((p.rows, width), dtype=code.word)
            to = Temp(len(temps) - 1).view((p.rows, width), dtype=position)
        steps.append(
            Launch(
                select_few(code, room, threads, blocks(length, threads), n != p.n),
                p.rows * parts,
                threads,
                [x, order, out, to, flip, p.count, parts],
            )
        )
        if parts == 1:
            return steps
        x, order, n = out, to, width


def topk(p: LeadingProblem) -> Plan:
    """Version "select_few"."""
    return leading_rows(p, select_steps)
