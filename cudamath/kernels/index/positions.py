"""Positions of rows: index arrays as one list, checked and counted from the front.

An array that is indexed along some neighbouring axes is seen as a box (before, rows, after): the
indexed axes merged into ``rows``, the axes in front and behind merged too. Index arrays become one
list of row positions. Negative positions count from the end. A position out of range sets the
device's error flag, an IndexError at the next synchronising call.

One index array needs no list: kernels check its elements as they read them (`own`). Several are
merged, two in one launch and each further one in another (`flat_positions`).
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Temp, Ticket
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda
from ..copy.contiguous import dense
from ..lib.integers import blocks

THREADS = 256


# -------------------- kernels


@device_function
def own(position, rows):
    """A position counted from the front; -1 if there is no such row."""
    i = position + rows if position < 0 else position
    return i if 0 <= i < rows else np.int64(-1)


@device_function
def merged(position, rows):
    """A position of `flat_positions`, checked already: -1 for none."""
    return position


@device_function
def row_of(index, j, rows, flag, ticket):
    """Row index[j], counted from the front; row 0 and the flag if there is no such row."""
    i = own(np.int64(index[j]), rows)
    if i < 0:
        flag[0] = ticket
        i = np.int64(0)
    return i


@functools.cache
def word_place(index: Any) -> Any:
    """Device function (m, after) -> (b, j, a): where this thread's word lies in an array (before,
    m, after). The numbers are unsigned: nothing is spent on places that count from the end."""

    @device_function
    def word_place(m, after):
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        q = i // index(after)
        b = q // index(m)
        return b, q - b * index(m), i - q * index(after)

    return word_place


@cuda.jit
def first_position(
    index, positions, size, flag, ticket
):  # index, positions: (m,); size: of the axis
    """positions[j] = index[j], counted from the front and checked."""
    j = cuda.grid(1)
    if j < positions.size:
        i = own(np.int64(index[j]), size)
        if i < 0:
            flag[0] = ticket
        positions[j] = i


@cuda.jit
def next_position(
    index, positions, size, flag, ticket
):  # index, positions: (m,); size: of the axis
    """positions[j] = positions[j] * size + index[j]: row-major position over one axis more; -1
    stays -1."""
    j = cuda.grid(1)
    if j < positions.size:
        i = own(np.int64(index[j]), size)
        if i < 0:
            flag[0] = ticket
        positions[j] = positions[j] * size + i if i >= 0 and positions[j] >= 0 else -1


@cuda.jit
def first_two_positions(
    one, other, positions, rows, columns, flag, ticket
):  # one, other, positions: (m,)
    """positions[j] = one[j] * columns + other[j]: what the two kernels above make of two index
    arrays, in one launch."""
    j = cuda.grid(1)
    if j < positions.size:
        i, k = own(np.int64(one[j]), rows), own(np.int64(other[j]), columns)
        if i < 0 or k < 0:
            flag[0] = ticket
            positions[j] = -1
        else:
            positions[j] = i * columns + k


@cuda.jit
def along_positions(
    index, positions, m, size, after, flag, ticket
):  # index, positions: (before * m * after,)
    """positions[i] = where index[b, j, a] leads: (b * size + index[b, j, a]) * after + a, or -1 if
    out of range."""
    i = cuda.grid(1)
    if i < positions.size:
        q = i // after
        b = q // m
        k = own(np.int64(index[i]), size)
        if k < 0:
            flag[0] = ticket
            positions[i] = -1
        else:
            positions[i] = (b * size + k) * after + i - q * after


# -------------------- steps of plans


def index_lists(indices: tuple[Layout, ...], first: int, temps: list[Layout]) -> tuple[list, list]:
    """The index arrays (inputs ``first`` ...) as lists: (steps, arguments)."""
    steps, arguments = [], []
    for k, index in enumerate(indices):
        more, source = dense(Input(first + k), index, index.shape, index.dtype, temps)
        steps += more
        arguments.append(source.flat)
    return steps, arguments


def flat_positions(
    indices: tuple[Layout, ...], sizes: tuple[int, ...], first: int, temps: list[Layout]
) -> tuple:
    """Steps that merge the index arrays (inputs ``first`` ..., all of one shape) over axes of these
    sizes into one list of checked row positions; returns (steps, argument of the list). Appends to
    ``temps``."""
    m = indices[0].size
    device = indices[0].device
    temps.append(Layout.new((m,), np.dtype(np.int64), device))
    positions = Temp(len(temps) - 1).flat
    steps, sources = index_lists(indices, first, temps)
    begun = min(len(indices), 2)
    kernel = first_two_positions if begun == 2 else first_position
    steps.append(
        Launch(
            kernel,
            blocks(m, THREADS),
            THREADS,
            [*sources[:begun], positions, *sizes[:begun], Flag(), Ticket()],
        )
    )
    for source, size in zip(sources[begun:], sizes[begun:], strict=True):
        steps.append(
            Launch(
                next_position,
                blocks(m, THREADS),
                THREADS,
                [source, positions, size, Flag(), Ticket()],
            )
        )
    return steps, positions


def positions_of(
    indices: tuple[Layout, ...], sizes: tuple[int, ...], first: int, temps: list[Layout]
) -> tuple:
    """Index arrays (inputs ``first`` ...) over axes of these sizes as one list: (steps, argument,
    what makes rows of it)."""
    if len(indices) > 1:
        return *flat_positions(indices, sizes, first, temps), merged
    steps, (positions,) = index_lists(indices, first, temps)
    return steps, positions, own
