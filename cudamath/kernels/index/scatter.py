"""Assignment by index arrays: x[..., indices, ...] = values, where of repeated positions the last
one wins, as in NumPy.

The choice among these versions: dispatch.py.

The idea. Threads write in no particular order. So each thread writes its value and, beside it,
claims the row by writing its number j; of several claims an arbitrary one remains (``place``). A
thread that then finds its own claim is done. One that finds another knows that the row was written
more than once, and makes sure that the row holds the value of the greatest number (``correct``).
Positions that do not repeat cost no atomics, and no cost grows with the array; the result is the
same on every run. A claim is 2 j; 2 j + 1 says that the row is already being corrected.

Single elements of at most 4 bytes fit, with their number in front, into 8. If there are many of
them, for not many more rows, each j bids for its row by one atomic max on such a word (``bid``),
and a pass over the rows writes what won (``award``).

Small sizes take one launch of one block: an auction by atomic max, then the highest bidders write
(``assign_few``).

Single elements of a long array are scattered over it, one 32-byte sector each, and what the
second-level cache does not hold travels from memory and back. Claims of 4 bytes would double that
traffic. So each row gets one bit, set by an atomic "or" in a table that does fit into the cache: a
thread that finds the bit already set claims the row, and records that there was a doubt (``once``).
Only then is a pass over the claimed rows needed (``last``). Blocks come in groups: each group reads
all positions and handles the rows of one stretch that fits into the cache; the groups run one after
another, as blocks start in their order. Reading the positions again for every stretch is the
cheaper part.

The floor is the positions, the values and the rows that are written: m (8 + 2 row bytes) /
bandwidth.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Scalar, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..copy.contiguous import box, dense, widest
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import index_type, whole
from ..lib.integers import blocks, power_of_two
from .positions import THREADS, index_lists, own, positions_of, word_place
from .problem import ScatterProblem

STRETCH = 1 << 24  # bytes of the array that one group of blocks works on
MOST_STRETCHES = 8
ITEMS = 4  # words that a thread has under way
FEW_THREADS = 1024


# -------------------- the last one wins


@functools.cache
def contest(number: Any, single: bool) -> Any:
    """Word (b, row, a) of x gets the value of the greatest j that leads to this row, whatever other
    threads write meanwhile.

    Raise the claim; fence; write what the greatest claim gives; fence; look whether it still is the
    greatest. Of two writers, the one whose last fence comes later sees the other's claim, so
    whoever writes last writes the greatest's value. single: a row is one word, and only who has
    raised the claim sees to it."""

    @device_function
    def contest(
        x, winner, values, b, row, a, j, seen
    ):  # seen: the claim that was found, of another number than j
        target = max(number(seen | number(1)), number(2 * j + 1))
        if single and seen == target:
            return
        found = cuda.atomic.max(winner, row, target)
        if single and found >= target:
            return
        cuda.threadfence()
        written, best = number(-1), max(found, target)
        while best != written:
            x[b, row, a] = values[b, best >> number(1), a]
            cuda.threadfence()
            written = best
            best = cuda.atomic.max(
                winner, row, number(0)
            )  # an atomic reads what the second-level cache holds

    return contest


@functools.cache
def place(row_of: Any, number: Any, index: Any, word: Any) -> Any:
    """x[b, positions[j], a] = values[b, j, a] in any order; winner[row] = 2 j for one of the j that
    lead to this row."""

    @cuda.jit
    def place(x, positions, winner, values, words, flag, ticket):
        # x: (before, rows, after), values: (before, m, after) of `word`, words: of them; positions:
        # (m,), winner: (rows,)
        rows = cuda.local.array(ITEMS, types.int64)
        held = cuda.local.array(ITEMS, word)
        last = index(index(words) - index(1))
        start = index(index(cuda.blockIdx.x) * index(THREADS * ITEMS) + index(cuda.threadIdx.x))
        after, m = index(values.shape[2]), index(values.shape[1])
        for k in range(ITEMS):  # all that a thread reads is under way before the first is looked at
            i = min(index(start + index(k * THREADS)), last)
            q = i // after
            b = q // m
            rows[k] = np.int64(positions[q - b * m])
            held[k] = values[b, q - b * m, i - q * after]
        for k in range(ITEMS):
            i = index(start + index(k * THREADS))
            row = row_of(rows[k], winner.size)
            if i <= last:
                if row < 0:
                    flag[0] = ticket
                else:
                    q = i // after
                    b = q // m
                    x[b, row, i - q * after] = held[k]
                    if i == (q - b * m) * after:  # the first word of the j-th row speaks for it
                        winner[row] = number(2 * types.int64(q))

    return place


@functools.cache
def correct(row_of: Any, number: Any, index: Any, single: bool) -> Any:
    """Rows that several j lead to: see contest. Great numbers first, so that most of the others
    find nothing to raise."""
    settle = contest(number, single)

    @cuda.jit
    def correct(x, positions, winner, values, words):  # as in place
        rows = cuda.local.array(ITEMS, types.int64)
        seen = cuda.local.array(ITEMS, number)
        last = index(index(words) - index(1))
        block = index(index(cuda.gridDim.x) - index(1) - index(cuda.blockIdx.x))
        start = index(block * index(THREADS * ITEMS) + index(cuda.threadIdx.x))
        after, m = index(values.shape[2]), index(values.shape[1])
        for k in range(ITEMS):
            q = min(index(start + index(k * THREADS)), last) // after
            rows[k] = row_of(np.int64(positions[q - q // m * m]), winner.size)
        for k in range(ITEMS):
            seen[k] = winner[max(rows[k], 0)]
        for k in range(ITEMS):
            i = index(start + index(k * THREADS))
            q = i // after
            b = q // m
            j = types.int64(q - b * m)
            if i <= last and rows[k] >= 0 and seen[k] != number(2 * j):
                settle(x, winner, values, b, rows[k], i - q * after, j, seen[k])

    return correct


# -------------------- single small elements


@functools.cache
def bid(row_of: Any) -> Any:
    """bids[row] = the greatest of 2^32 (j + 1) + value of the j that lead to this row."""

    @cuda.jit
    def bid(positions, values, bids, flag, ticket):
        # positions: (m,), values: (1, m, 1) of unsigned words, bids: (rows,) uint64, 0 at first
        rows = cuda.local.array(ITEMS, types.int64)
        held = cuda.local.array(ITEMS, types.uint64)
        first = types.int64(cuda.blockIdx.x) * (THREADS * ITEMS) + cuda.threadIdx.x
        for k in range(ITEMS):
            j = min(first + k * THREADS, positions.size - 1)
            rows[k] = np.int64(positions[j])
            held[k] = types.uint64(values[0, j, 0]) | (types.uint64(j + 1) << types.uint64(32))
        for k in range(ITEMS):
            row = row_of(rows[k], bids.size)
            if first + k * THREADS < positions.size:
                if row < 0:
                    flag[0] = ticket
                else:
                    cuda.atomic.max(bids, row, held[k])

    return bid


@functools.cache
def award(word: Any) -> Any:
    """x[row] = the value that won, where there were bids."""

    @cuda.jit
    def award(x, bids):  # x: (1, rows, 1) of `word`, bids: as in bid
        first = types.int64(cuda.blockIdx.x) * (THREADS * ITEMS) + cuda.threadIdx.x
        for k in range(ITEMS):
            row = first + k * THREADS
            if row < bids.size:
                won = bids[row]
                if won != types.uint64(0):
                    x[0, row, 0] = word(won & types.uint64(0xFFFFFFFF))

    return award


# -------------------- single elements of a long array


@functools.cache
def once(row_of: Any, number: Any, word: Any) -> Any:
    """x[positions[j]] = values[j] by the first to come to a row; the others claim it.

    The bit of a row is number row >> shift of word row & (2 ** shift - 1): neighbours do not meet
    in a word."""

    @cuda.jit
    def once(x, positions, winner, values, seen, again, doubt, shift, stretch, flag, ticket):
        # x: (1, rows, 1), values: (1, m, 1) of `word`; seen, again: (2 ** shift,) uint32, doubt:
        # (2,) uint32, all of them 0 at first; stretch: rows of a group, a row of the grid; the
        # others: as in place
        rows = cuda.local.array(ITEMS, types.int64)
        held = cuda.local.array(ITEMS, word)
        bits = cuda.local.array(ITEMS, types.uint32)
        first = types.int64(cuda.blockIdx.x) * (THREADS * ITEMS) + cuda.threadIdx.x
        low = types.int64(cuda.blockIdx.y) * stretch
        for k in range(ITEMS):
            rows[k] = np.int64(positions[min(first + k * THREADS, positions.size - 1)])
        for k in range(ITEMS):
            row = row_of(rows[k], winner.size)
            here = first + k * THREADS < positions.size
            if here and row < 0:
                flag[0] = ticket
            rows[k] = row if here and low <= row < low + stretch else np.int64(-1)
        for k in range(ITEMS):
            if rows[k] >= 0:
                held[k] = values[0, first + k * THREADS, 0]
                bit = types.uint32(1) << types.uint32(rows[k] >> shift)
                bits[k] = cuda.atomic.or_(seen, rows[k] & (seen.size - 1), types.uint32(bit)) & bit
        for k in range(ITEMS):
            if rows[k] >= 0:
                if bits[k] == 0:
                    x[0, rows[k], 0] = held[k]
                else:
                    cuda.atomic.or_(again, rows[k] & (again.size - 1), bits[k])
                    winner[rows[k]] = number(2 * (first + k * THREADS))
                    doubt[0] = 1

    return once


@functools.cache
def last(row_of: Any, number: Any) -> Any:
    """Where there is a doubt: the rows that are claimed, as in correct."""
    settle = contest(number, True)

    @cuda.jit
    def last(x, positions, winner, values, again, doubt, shift):  # as in once
        if doubt[0] != 0:
            block = types.int64(cuda.gridDim.x - 1 - cuda.blockIdx.x)
            for k in range(ITEMS):
                j = block * (THREADS * ITEMS) + k * THREADS + cuda.threadIdx.x
                if j < positions.size:
                    row = row_of(np.int64(positions[j]), winner.size)
                    if row >= 0 and (
                        again[row & (again.size - 1)] >> types.uint32(row >> shift)
                    ) & types.uint32(1):
                        seen = winner[row]
                        if seen != number(2 * j):
                            settle(x, winner, values, 0, row, 0, j, seen)

    return last


# -------------------- few


@functools.cache
def assign_few(row_of: Any, number: Any) -> Any:
    """All of it by one block, of one thread per word or more: the higher claim wins at once."""

    @cuda.jit
    def assign_few(x, positions, winner, values, words, flag, ticket):  # as in place
        t = cuda.threadIdx.x
        after, m = np.uint32(values.shape[2]), np.uint32(values.shape[1])
        for j in range(t, positions.size, cuda.blockDim.x):
            row = row_of(np.int64(positions[j]), winner.size)
            if row >= 0:
                winner[row] = number(-1)
            else:
                flag[0] = ticket
        cuda.syncthreads()
        for j in range(t, positions.size, cuda.blockDim.x):
            row = row_of(np.int64(positions[j]), winner.size)
            if row >= 0:
                cuda.atomic.max(winner, row, number(j))
        cuda.syncthreads()
        for i in range(t, words, cuda.blockDim.x):
            q = np.uint32(i) // after
            b = q // m
            j = q - b * m
            row = row_of(np.int64(positions[j]), winner.size)
            if row >= 0 and winner[row] == number(j):
                x[b, row, np.uint32(i) - q * after] = values[b, j, np.uint32(i) - q * after]

    return assign_few


# -------------------- one number


@functools.cache
def place_number(index: Any) -> Any:
    """x[b, positions[j], a] = number: whoever comes last writes what all others wrote."""
    locate = word_place(index)

    @cuda.jit
    def place_number(
        x, positions, number, flag, ticket
    ):  # x: (before, rows, after), positions: (m,)
        b, j, a = locate(positions.size, x.shape[2])
        if b < index(x.shape[0]):
            row = own(np.int64(positions[j]), x.shape[1])
            if row < 0:
                flag[0] = ticket
            else:
                x[b, row, a] = number

    return place_number


@functools.cache
def place_number_by_pairs(index: Any) -> Any:
    """x[b, one[j], other[j], a] = number."""
    locate = word_place(index)

    @cuda.jit
    def place_number_by_pairs(x, one, other, number, lines, columns, flag, ticket):
        # x: (before, lines * columns, after), one, other: (m,)
        b, j, a = locate(one.size, x.shape[2])
        if b < index(x.shape[0]):
            line, column = own(np.int64(one[j]), lines), own(np.int64(other[j]), columns)
            if line < 0 or column < 0:
                flag[0] = ticket
            else:
                x[b, line * columns + column, a] = number

    return place_number_by_pairs


# -------------------- planners


def scatter_number(x: Layout, *positions: Layout, axis: int) -> Plan:
    """``x[..., positions, ...] = number`` in place, by one index array or two. Scalar: the number,
    in x's dtype; x is not empty."""
    m, count = positions[0].size, len(positions)
    if not m:
        return Plan([], [])
    temps: list[Layout] = []
    steps, given = index_lists(positions, 1, temps)
    more, target, layout, copied = box(Input(0), x, axis, count, temps)
    words = layout.shape[0] * m * layout.shape[2]
    kernel, sizes = (
        (place_number, ()) if count == 1 else (place_number_by_pairs, x.shape[axis : axis + 2])
    )
    placed = Launch(
        kernel(index_type(words)),
        blocks(words, THREADS),
        THREADS,
        [target, *given, Scalar(0, x.dtype), *sizes, Flag(), Ticket()],
    )
    back = [] if copied is None else copy_part(copied, whole(Input(0), x))
    return Plan([], [*steps, *more, placed, *back], temps)


class _Frame:
    """What the versions share: positions as one list, x as a box of words, dense values, and the
    copy back where x has no such form."""

    def __init__(self, p: ScatterProblem, scratch: np.dtype):
        self.p, self.temps = p, []
        steps, positions, self.row_of = positions_of(p.indices, p.sizes, 2, self.temps)
        more, x, layout, self.copied = box(Input(0), p.x, p.axis, p.count, self.temps)
        again, values = dense(Input(1), p.values, p.shape, p.x.dtype, self.temps)
        flat = p.x.like((layout.shape[0], p.m, layout.shape[2]))
        target, source = widest((x, layout), (values.view(flat.shape, flat.strides), flat))
        self.steps = [*steps, *more, *again]
        self.temps.append(p.x.like((p.rows,), scratch))  # a word for each row
        self.scratch = Temp(len(self.temps) - 1)
        self.arguments = [target, positions, self.scratch, source]
        self.number, self.word = numba_type(p.claim), numba_type(source.dtype)

    def plan(self, *steps: Launch) -> Plan:
        x = self.p.x
        back = [] if self.copied is None else copy_part(self.copied, whole(Input(0), x))
        return Plan([], [*self.steps, *steps, *back], self.temps)


def by_one_block(p: ScatterProblem) -> Plan:
    """Version "one_block": ``assign_few``."""
    frame = _Frame(p, p.claim)
    return frame.plan(
        Launch(
            assign_few(frame.row_of, frame.number),
            1,
            min(FEW_THREADS, blocks(p.size, 32) * 32),
            [*frame.arguments, p.size, Flag(), Ticket()],
        )
    )


def by_bids(p: ScatterProblem) -> Plan:
    """Version "bids": ``bid`` and ``award``."""
    frame, zero = _Frame(p, np.dtype(np.uint64)), np.uint64(0)
    target, positions, bids, source = frame.arguments
    return frame.plan(
        *fill_part(whole(bids, frame.temps[-1]), zero, zero, None),
        Launch(
            bid(frame.row_of),
            blocks(p.m, THREADS * ITEMS),
            THREADS,
            [positions, source, bids, Flag(), Ticket()],
        ),
        Launch(award(frame.word), blocks(p.rows, THREADS * ITEMS), THREADS, [target, bids]),
    )


def by_bit_table(p: ScatterProblem) -> Plan:
    """Version "bit_table": ``once`` and ``last``."""
    frame, item = _Frame(p, p.claim), p.words.dtype.itemsize
    shift = blocks(power_of_two(p.rows), 32).bit_length() - 1
    marks = p.x.like(((2 << shift) + 2,), np.dtype(np.uint32))
    frame.temps.append(marks)
    table = Temp(len(frame.temps) - 1)
    seen, again, doubt = (
        table.view((n,), offset=4 * at)
        for n, at in ((1 << shift, 0), (1 << shift, 1 << shift), (2, 2 << shift))
    )
    groups = blocks(p.rows * item, STRETCH)
    if groups > MOST_STRETCHES:
        groups = 1
    grid, zero = blocks(p.m, THREADS * ITEMS), np.uint64(0)
    stretch = blocks(p.rows, groups)
    return frame.plan(
        *fill_part(whole(table, marks), zero, zero, None),
        Launch(
            once(frame.row_of, frame.number, frame.word),
            (grid, groups),
            THREADS,
            [*frame.arguments, seen, again, doubt, shift, stretch, Flag(), Ticket()],
        ),
        Launch(
            last(frame.row_of, frame.number),
            grid,
            THREADS,
            [*frame.arguments, again, doubt, shift],
        ),
    )


def by_claims(p: ScatterProblem) -> Plan:
    """Version "claims": ``place`` and ``correct``."""
    frame, single = _Frame(p, p.claim), p.size == p.m
    index, grid = index_type(p.size + THREADS * ITEMS), blocks(p.size, THREADS * ITEMS)
    return frame.plan(
        Launch(
            place(frame.row_of, frame.number, index, frame.word),
            grid,
            THREADS,
            [*frame.arguments, p.size, Flag(), Ticket()],
        ),
        Launch(
            correct(frame.row_of, frame.number, index, single),
            grid,
            THREADS,
            [*frame.arguments, p.size],
        ),
    )
