"""Assignment by index arrays: x[..., indices, ...] = values, where of repeated positions the last one wins, as in NumPy.

The idea. Threads write in no order, so an auction comes first: every j bids for its row by an integer atomic max
(``bid``); then only the highest bidder writes (``scatter_rows``). The result is the same on every run.

Before the auction nobody has bid for any row. Where most rows are written, all bids are reset (``reset_winner``); where
few are, each j resets the row that it will bid for (``reset_bids``), so that assigning ten rows of a long array does not
cost the array's length.

Bids for single elements of a long array go anywhere in it, a sector of 32 bytes each, and what the second-level cache
does not hold costs its way to memory twice. So the blocks come in groups: each group looks at all positions and takes
the rows of one stretch that the cache holds; the groups run one after another, as blocks start in their order. Reading
the positions again for every stretch is the cheaper part.

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

STRETCH = 1 << 24  # bytes of bids, or of the array, that one group of blocks works on
MOST_STRETCHES = 8
MANY = 1 << 19  # positions for which stretches pay
SPARSE = 8  # rows a position, from which on only the rows that occur are reset


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


@cuda.jit
def reset_winner(winner):  # (rows,)
    """winner[...] = -1: nobody has bid."""
    i = cuda.grid(1)
    if i < winner.size:
        winner[i] = -1


@functools.cache
def reset_bids(row_of: Any) -> Any:
    """winner[row] = -1 for the rows that will be bid for."""

    @cuda.jit
    def reset_bids(positions, winner, flag, ticket):  # positions: (m,), winner: (rows,)
        j = cuda.grid(1)
        if j < positions.size:
            row = row_of(positions, j, winner.size, flag, ticket)
            if row >= 0:
                winner[row] = -1

    return reset_bids


@functools.cache
def bid(row_of: Any, number: Any) -> Any:
    """winner[row] = the largest j that leads to this row."""

    @cuda.jit
    def bid(positions, winner, stretch, flag, ticket):
        # positions: (m,), winner: (rows,) of `number`; stretch: rows of a group, one row of the grid
        j = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        if j < positions.size:
            row = row_of(positions, j, winner.size, flag, ticket)
            first = types.int64(cuda.blockIdx.y) * stretch
            if row >= first and row < first + stretch:
                cuda.atomic.max(winner, row, number(j))

    return bid


@functools.cache
def scatter_rows(row_of: Any, index: Any) -> Any:
    """x[b, positions[j], a] = values[b, j, a] for the highest bidders j; thread i of a group takes the i-th word."""

    @cuda.jit
    def scatter_rows(x, positions, winner, values, stretch, flag, ticket):
        # x: (before, rows, after), values: (before, m, after); positions, winner, stretch: as in bid
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        after = index(values.shape[2])
        m = index(values.shape[1])
        q = i // after
        b = q // m
        if b < index(values.shape[0]):
            j = q - b * m
            a = i - q * after
            row = row_of(positions, j, winner.size, flag, ticket)
            first = types.int64(cuda.blockIdx.y) * stretch
            if row >= first and row < first + stretch and winner[row] == np.int64(j):
                x[b, row, a] = values[b, j, a]

    return scatter_rows


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
    number = np.dtype(np.int32 if m < 2**31 else np.int64)
    temps.append(x.like((rows,), number))
    winner = Temp(len(temps) - 1)
    if rows < SPARSE * m:
        steps.append(Launch(reset_winner, blocks(rows, THREADS), THREADS, [winner]))
    else:
        steps.append(Launch(reset_bids(row_of), blocks(m, THREADS), THREADS, [positions, winner, Flag(), Ticket()]))
    words = prod(source.shape)
    width = number.itemsize + layout.shape[0] * layout.shape[2] * x.itemsize
    for kernel, threads, nbytes, arguments in (
        (bid(row_of, types.int32 if m < 2**31 else types.int64), m, number.itemsize, [positions, winner]),
        (scatter_rows(row_of, index_type(words)), words, width, [target, positions, winner, source])):
        groups, stretch = _stretches(m, rows, nbytes)
        steps.append(Launch(kernel, (blocks(threads, THREADS), groups), THREADS, [*arguments, stretch, Flag(), Ticket()]))
    if copied is not None:
        steps += copy_part(copied, whole(Input(0), x))
    return Plan([], steps, temps)
