"""Assignment to positions that differ from line to line, in place: x[b, index[b, j, a], a] =
values[b, j, a] (put_along_axis).

The idea. No two lines (b, a) write the same element. So one thread writes the positions of a line
in their order: of repeated ones the last wins, as in NumPy, and nothing has to be compared.
Neighbouring threads have neighbouring a; along the last axis each has a row of its own, whose few
positions are scattered anyway. Lines of many positions (more than STEPS) would mean few threads
with much work each: those are assigned as x[...] = values is (scatter.py).

``put_lines``         Values are an array.
``put_number_lines``  One number, an argument of the launch: no array is made of it. There is one
                      thread per position, since all write the same.

The floor is the indices, the values, and a sector of 32 bytes of x for each.
"""

from math import prod

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Scalar, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda
from ..copy.contiguous import dense
from ..lib.integers import blocks
from .positions import own

THREADS = 256
STEPS = 64  # places of a line that a thread goes through


@cuda.jit
def put_lines(
    x, index, values, flag, ticket
):  # x: (before, size, after), index and values: (before, m, after)
    """x[b, index[b, j, a], a] = values[b, j, a]; thread b * after + a takes its j in their
    order."""
    i = cuda.grid(1)
    after, size = x.shape[2], x.shape[1]
    b = i // after
    a = i - b * after
    if b < x.shape[0]:
        for j in range(index.shape[1]):
            k = own(np.int64(index[b, j, a]), size)
            if k < 0:
                flag[0] = ticket
            else:
                x[b, k, a] = values[b, j, a]


@cuda.jit
def put_number_lines(
    x, index, number, flag, ticket
):  # x: (before, size, after), index: (before, m, after)
    """x[b, index[b, j, a], a] = number."""
    i = cuda.grid(1)
    after, size = x.shape[2], x.shape[1]
    m = index.shape[1]
    q = i // after
    b = q // m
    if b < x.shape[0]:
        k = own(np.int64(index[b, q - b * m, i - q * after]), size)
        if k < 0:
            flag[0] = ticket
        else:
            x[b, k, i - q * after] = number


def put_along(x: Layout, index: Layout, *values: Layout, axis: int) -> Plan:
    """x in C order; index: as x, but for the axis, along which there are at most STEPS; values: of
    index' shape and x's dtype, in any strides. Without values Scalar 0, in x's dtype, is what is
    put everywhere."""
    before, size, after, m = (
        prod(x.shape[:axis]),
        x.shape[axis],
        prod(x.shape[axis + 1 :]),
        index.shape[axis],
    )
    temps: list[Layout] = []
    steps, places = dense(Input(1), index, index.shape, index.dtype, temps)
    target, places = Input(0).view((before, size, after)), places.view((before, m, after))
    if not index.size:
        return Plan([], [])
    if values:
        more, given = dense(Input(2), values[0], index.shape, x.dtype, temps)
        launch = Launch(
            put_lines,
            blocks(before * after, THREADS),
            THREADS,
            [target, places, given.view((before, m, after)), Flag(), Ticket()],
        )
        return Plan([], [*steps, *more, launch], temps)
    launch = Launch(
        put_number_lines,
        blocks(index.size, THREADS),
        THREADS,
        [target, places, Scalar(0, x.dtype), Flag(), Ticket()],
    )
    return Plan([], [*steps, launch], temps)
