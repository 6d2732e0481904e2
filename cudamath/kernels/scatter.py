"""Assignment by index arrays: x[..., indices, ...] = values, where of repeated positions the last one wins, as in NumPy.

The idea. Threads write in no order. So every j first claims its row, by writing its number there (``claim``): of several
claims any one is left. Then whoever finds his claim there writes his values; who finds a smaller number than his own takes the
row over by an integer atomic max, and leaves a doubt (``settle``). Only if there is one, the rows that were taken over are
written once more, by whom they belong to in the end (``amend``). Positions that do not repeat cost no atomics, and nothing that
grows with the array; the result is the same on every run. A claim is 2 j; 2 j + 1 marks a row that was taken over.

``assign_few``  in one launch of one block, for what is small: an auction by atomic max, then the highest bidders write.

Single elements of a long array lie anywhere in it, a sector of 32 bytes each, and what the second-level cache does not hold
costs its way to memory twice. So the blocks come in groups: each group looks at all positions and takes the rows of one
stretch that the cache holds; the groups run one after another, as blocks start in their order. Reading the positions again for
every stretch is the cheaper part.

The floor is the positions, the values and the rows that are written: m (8 + 2 row bytes) / bandwidth.
"""

import functools
from math import prod
from typing import Any

import numpy as np

from ..core.layout import Layout
from ..core.plan import Flag, Input, Launch, Plan, Temp, Ticket
from .build import blocks, device_function, numba_type
from .copy import copy_part, index_type, whole
from .index import THREADS, box, dense, flat_positions, widest
from .lazy import cuda, types

STRETCH = 1 << 24  # bytes of claims, or of them and the array, that one group of blocks works on
MOST_STRETCHES = 8
MANY = 1 << 19  # positions for which stretches pay
ITEMS = 4  # words that a thread has under way
FEW = 4096  # words, and positions, that one block assigns
FEW_THREADS = 1024
MOST_BLOCKS = 1024  # of `amend`


@device_function
def merged(position, rows):
    """A position of `flat_positions`, checked already: -1 for none."""
    return position


@device_function
def own(position, rows):
    """A position counted from the front; -1 if there is no such row."""
    i = position + rows if position < 0 else position
    return i if 0 <= i < rows else np.int64(-1)


@functools.cache
def claim(row_of: Any, number: Any) -> Any:
    """winner[row] = 2 j for one of the j that lead to this row."""

    @cuda.jit
    def claim(positions, winner, doubt, stretch, flag, ticket):
        # positions: (m,), winner: (rows,) of `number`, doubt: (1,) int32; stretch: rows of a group, a row of the grid
        raw = cuda.local.array(ITEMS, types.int64)
        first = types.int64(cuda.blockIdx.x) * (THREADS * ITEMS) + cuda.threadIdx.x
        low = types.int64(cuda.blockIdx.y) * stretch
        for k in range(ITEMS):  # all of a thread's positions are under way before the first is looked at
            raw[k] = np.int64(positions[min(first + k * THREADS, positions.size - 1)])
        for k in range(ITEMS):
            j = first + k * THREADS
            row = row_of(raw[k], winner.size)
            if j < positions.size:
                if row < 0:
                    flag[0] = ticket
                elif low <= row < low + stretch:
                    winner[row] = number(2 * j)
        if first == 0:
            doubt[0] = 0

    return claim


@functools.cache
def settle(row_of: Any, number: Any, index: Any, word: Any) -> Any:
    """x[b, positions[j], a] = values[b, j, a] where the claim is j's; greater j take over. A thread has ITEMS words."""

    @cuda.jit
    def settle(x, positions, winner, values, doubt, words, stretch):
        # x: (before, rows, after), values: (before, m, after) of `word`, words: of them; the others: as in claim
        rows = cuda.local.array(ITEMS, types.int64)
        seen = cuda.local.array(ITEMS, number)
        held = cuda.local.array(ITEMS, word)
        last = index(index(words) - index(1))
        start = index(index(cuda.blockIdx.x) * index(THREADS * ITEMS) + index(cuda.threadIdx.x))
        low = types.int64(cuda.blockIdx.y) * stretch
        after, m = index(values.shape[2]), index(values.shape[1])
        for k in range(ITEMS):
            i = min(index(start + index(k * THREADS)), last)
            q = i // after
            b = q // m
            rows[k] = np.int64(positions[q - b * m])
            held[k] = values[b, q - b * m, i - q * after]
        for k in range(ITEMS):
            row = row_of(rows[k], winner.size)
            inside = low <= row < low + stretch and index(start + index(k * THREADS)) <= last
            rows[k] = row if inside else np.int64(-1)
            seen[k] = winner[max(rows[k], low)]  # of others' rows the first of the group: nothing new to read
        for k in range(ITEMS):
            if rows[k] >= 0:
                i = index(start + index(k * THREADS))
                q = i // after
                b = q // m
                claimed = number(2 * types.int64(q - b * m))
                if seen[k] == claimed:
                    x[b, rows[k], i - q * after] = held[k]
                elif seen[k] < claimed:  # others' words may be here too: larger ones stay
                    cuda.atomic.max(winner, rows[k], number(claimed + number(1)))
                    doubt[0] = 1

    return settle


@functools.cache
def amend(row_of: Any, number: Any, index: Any) -> Any:
    """Where there is a doubt: the rows that were taken over."""

    @cuda.jit
    def amend(x, positions, winner, values, doubt, words):  # as in settle
        if doubt[0] != 0:
            after, m = index(values.shape[2]), index(values.shape[1])
            for i in range(cuda.grid(1), words, cuda.gridsize(1)):
                q = index(i) // after
                b = q // m
                j = q - b * m
                row = row_of(np.int64(positions[j]), winner.size)
                if row >= 0 and winner[row] == number(2 * types.int64(j) + 1):
                    x[b, row, index(i) - q * after] = values[b, j, index(i) - q * after]

    return amend


@functools.cache
def assign_few(row_of: Any, number: Any) -> Any:
    """All of it by one block, of a thread a word or more; nobody is in a hurry, so the higher claim wins at once."""

    @cuda.jit
    def assign_few(x, positions, winner, values, words, flag, ticket):  # as in settle
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


def _stretches(m: int, rows: int, nbytes: int) -> tuple[int, int]:
    """(groups, rows of each) for m positions among rows of so many bytes."""
    groups = blocks(rows * nbytes, STRETCH)
    if m < MANY or groups > MOST_STRETCHES:
        groups = 1
    return groups, blocks(rows, groups)


def scatter(x: Layout, values: Layout, *indices: Layout, axis: int) -> Plan:
    """``x[..., indices, ...] = values`` in place; values broadcast to the shape that gather gives; last one wins."""
    count = len(indices)
    shape = (*x.shape[:axis], *indices[0].shape, *x.shape[axis + count :])
    temps: list[Layout] = []
    steps: list[Any]
    if count == 1 and 0 not in shape and x.size:
        steps, positions = dense(Input(2), indices[0], indices[0].shape, indices[0].dtype, temps)
        positions, row_of = positions.flat, own
    else:
        steps, positions = flat_positions(indices, x.shape[axis : axis + count], 2, temps)
        row_of = merged
    if 0 in shape or not x.size:  # nothing to move, but positions out of range are still an error
        return Plan([], steps, temps)
    more, argument, layout, copied = box(Input(0), x, axis, count, temps)
    steps += more
    more, given = dense(Input(1), values, shape, x.dtype, temps)
    steps += more
    m, rows = indices[0].size, layout.shape[1]
    flat = x.like((layout.shape[0], m, layout.shape[2]))
    target, source = widest((argument, layout), (given.view(flat.shape, flat.strides), flat))
    words = prod(source.shape)
    narrow = m < 2**30
    number, bids = (types.int32, np.dtype(np.int32)) if narrow else (types.int64, np.dtype(np.int64))
    temps += [x.like((rows,), bids), x.like((1,), np.dtype(np.int32))]
    winner, doubt = Temp(len(temps) - 2), Temp(len(temps) - 1)
    if max(m, words) <= FEW:
        steps.append(Launch(assign_few(row_of, number), 1, min(FEW_THREADS, blocks(words, 32) * 32),
                            [target, positions, winner, source, words, Flag(), Ticket()]))
    else:
        index, per_block = index_type(words + THREADS * ITEMS), THREADS * ITEMS
        groups, stretch = _stretches(m, rows, bids.itemsize)
        steps.append(Launch(claim(row_of, number), (blocks(m, per_block), groups), THREADS,
                            [positions, winner, doubt, stretch, Flag(), Ticket()]))
        groups, stretch = _stretches(m, rows, bids.itemsize + layout.shape[0] * layout.shape[2] * x.itemsize)
        arguments = [target, positions, winner, source, doubt, words]
        word = numba_type(source.dtype)
        steps.append(Launch(settle(row_of, number, index, word), (blocks(words, per_block), groups), THREADS,
                            [*arguments, stretch]))
        steps.append(Launch(amend(row_of, number, index), min(blocks(words, THREADS), MOST_BLOCKS), THREADS, arguments))
    if copied is not None:
        steps += copy_part(copied, whole(Input(0), x))
    return Plan([], steps, temps)
