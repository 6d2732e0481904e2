"""Assignment by index arrays: x[..., indices, ...] = values, where of repeated positions the last one wins, as in NumPy.

The idea. Threads write in no order. So every j first claims its row, by writing its number there (``claim``): of several
claims any one is left. Then whoever finds his claim there writes his values; who finds a smaller number than his own takes the
row over by an integer atomic max, and leaves a doubt (``settle``). Only if there is one, the rows that were taken over are
written once more, by whom they belong to in the end (``amend``). Positions that do not repeat cost no atomics, and nothing that
grows with the array; the result is the same on every run. A claim is 2 j; 2 j + 1 marks a row that was taken over.

``assign_few``  all three in one launch of one block, for what is small.

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
from .build import blocks, device_function
from .copy import copy_part, index_type, whole
from .index import THREADS, box, dense, flat_positions, widest
from .lazy import cuda, types

STRETCH = 1 << 24  # bytes of claims, or of them and the array, that one group of blocks works on
MOST_STRETCHES = 8
MANY = 1 << 19  # positions for which stretches pay
FEW = 4096  # words, and positions, that one block assigns
FEW_THREADS = 1024
MOST_BLOCKS = 1024  # of `amend`


@device_function
def merged(positions, j, rows, flag, ticket):
    """Row positions[j], where positions are those of `flat_positions`: checked, -1 for none."""
    return positions[j]


@device_function
def own(positions, j, rows, flag, ticket):
    """Row positions[j], counted from the front; -1 and the flag if there is no such row."""
    i = np.int64(positions[j])
    if i < 0:
        i += rows
    if i < 0 or i >= rows:
        flag[0] = ticket
        i = np.int64(-1)
    return i


@functools.cache
def moves(row_of: Any, number: Any, index: Any) -> tuple[Any, Any, Any]:
    """Device functions: what `claim` does for position j, and `settle` and `amend` for word i of the values, for rows from
    `first` to before `last`."""

    @device_function
    def claim_one(j, positions, winner, first, last, flag, ticket):
        row = row_of(positions, j, winner.size, flag, ticket)
        if first <= row < last:
            winner[row] = number(2 * j)

    @device_function
    def settle_one(i, x, positions, winner, values, doubt, first, last, flag, ticket):
        after = index(values.shape[2])
        m = index(values.shape[1])
        q = i // after
        b = q // m
        j = q - b * m
        a = i - q * after
        row = row_of(positions, j, winner.size, flag, ticket)
        if first <= row < last:
            seen = winner[row]
            if seen == number(2 * types.int64(j)):
                x[b, row, a] = values[b, j, a]
            elif seen < number(2 * types.int64(j)):  # others' words may be here too: larger ones stay
                cuda.atomic.max(winner, row, number(2 * types.int64(j) + 1))
                doubt[0] = 1

    @device_function
    def amend_one(i, x, positions, winner, values, flag, ticket):
        after = index(values.shape[2])
        m = index(values.shape[1])
        q = i // after
        b = q // m
        j = q - b * m
        row = row_of(positions, j, winner.size, flag, ticket)
        if row >= 0 and winner[row] == number(2 * types.int64(j) + 1):
            x[b, row, i - q * after] = values[b, j, i - q * after]

    return claim_one, settle_one, amend_one


@functools.cache
def claim(row_of: Any, number: Any) -> Any:
    """winner[row] = 2 j for one of the j that lead to this row."""
    claim_one = moves(row_of, number, np.uint32)[0]

    @cuda.jit
    def claim(positions, winner, doubt, stretch, flag, ticket):
        # positions: (m,), winner: (rows,) of `number`, doubt: (1,) int32; stretch: rows of a group, a row of the grid
        j = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        first = types.int64(cuda.blockIdx.y) * stretch
        if j < positions.size:
            claim_one(j, positions, winner, first, first + stretch, flag, ticket)
        if j == 0:
            doubt[0] = 0

    return claim


@functools.cache
def settle(row_of: Any, number: Any, index: Any) -> Any:
    """x[b, positions[j], a] = values[b, j, a] where the claim is j's; greater j take over; thread i has the i-th word."""
    settle_one = moves(row_of, number, index)[1]

    @cuda.jit
    def settle(x, positions, winner, values, doubt, words, stretch, flag, ticket):
        # x: (before, rows, after), values: (before, m, after), words: of them; the others: as in claim
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        first = types.int64(cuda.blockIdx.y) * stretch
        if i < index(words):
            settle_one(i, x, positions, winner, values, doubt, first, first + stretch, flag, ticket)

    return settle


@functools.cache
def amend(row_of: Any, number: Any, index: Any) -> Any:
    """Where there is a doubt: the rows that were taken over."""
    amend_one = moves(row_of, number, index)[2]

    @cuda.jit
    def amend(x, positions, winner, values, doubt, words, flag, ticket):  # as in settle
        if doubt[0] != 0:
            for i in range(cuda.grid(1), words, cuda.gridsize(1)):
                amend_one(index(i), x, positions, winner, values, flag, ticket)

    return amend


@functools.cache
def assign_few(row_of: Any, number: Any) -> Any:
    """All of it by one block."""
    claim_one, settle_one, amend_one = moves(row_of, number, np.uint32)

    @cuda.jit
    def assign_few(x, positions, winner, values, doubt, words, flag, ticket):  # as in settle
        t = cuda.threadIdx.x
        if t == 0:
            doubt[0] = 0
        for j in range(t, positions.size, cuda.blockDim.x):
            claim_one(j, positions, winner, 0, winner.size, flag, ticket)
        cuda.syncthreads()
        for i in range(t, words, cuda.blockDim.x):
            settle_one(np.uint32(i), x, positions, winner, values, doubt, 0, winner.size, flag, ticket)
        cuda.syncthreads()
        if doubt[0] != 0:
            for i in range(t, words, cuda.blockDim.x):
                amend_one(np.uint32(i), x, positions, winner, values, flag, ticket)

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
    arguments = [target, positions, winner, source, doubt, words]
    if max(m, words) <= FEW:
        steps.append(Launch(assign_few(row_of, number), 1, min(FEW_THREADS, blocks(words, 32) * 32),
                            [*arguments, Flag(), Ticket()]))
    else:
        index = index_type(words)
        groups, stretch = _stretches(m, rows, bids.itemsize)
        steps.append(Launch(claim(row_of, number), (blocks(m, THREADS), groups), THREADS,
                            [positions, winner, doubt, stretch, Flag(), Ticket()]))
        groups, stretch = _stretches(m, rows, bids.itemsize + layout.shape[0] * layout.shape[2] * x.itemsize)
        steps.append(Launch(settle(row_of, number, index), (blocks(words, THREADS), groups), THREADS,
                            [*arguments, stretch, Flag(), Ticket()]))
        steps.append(Launch(amend(row_of, number, index), min(blocks(words, THREADS), MOST_BLOCKS), THREADS,
                            [*arguments, Flag(), Ticket()]))
    if copied is not None:
        steps += copy_part(copied, whole(Input(0), x))
    return Plan([], steps, temps)
