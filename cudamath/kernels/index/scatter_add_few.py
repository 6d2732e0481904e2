"""A few rows added into rows chosen by index, in a fixed order and one launch.

``add_few``   Into a copy: each element of the result goes through all destinations, in their order,
              and adds the values for it.
``fold_few``  In place: each element of the sources looks whether it is the first one of its
              destination. If so, it folds its value and those behind it into the destination.

The list of destinations lies in shared memory. The cost is one comparison of a destination for each
element and source: 2^24 comparisons take about 20 us on an H200, sorting takes 40.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda
from ..copy.contiguous import box, dense
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from .folding import folding, no_sum
from .positions import own, positions_of
from .problem import FEW_SOURCES, ScatterAddProblem

THREADS = 256


# -------------------- kernels


@functools.cache
def listing(row_of: Any) -> Any:
    """Device function (index, places, rows, flag, ticket): the rows that few indices choose, for a
    block, in shared memory. row_of: (index, rows) -> row or -1."""

    @device_function
    def list_places(index, places, rows, flag, ticket):
        for j in range(cuda.threadIdx.x, index.size, THREADS):
            place = row_of(np.int64(index[j]), rows)
            if place < 0:
                flag[0] = ticket
            places[j] = place
        cuda.syncthreads()

    return list_places


@functools.cache
def add_few(dtype: np.dtype) -> Any:
    """out[b, k, a] = x[b, k, a] + the sum of values[b, j, a] over the j with index[j] == k; one
    thread per element."""
    load, store, _ = codec(dtype)
    nothing, list_places = no_sum(dtype), listing(own)

    @cuda.jit
    def add_few(x, values, index, out, flag, ticket):
        # x, out: (before, rows, after), values: (before, m, after), index: (m,), m <= FEW_SOURCES
        places = cuda.shared.array(FEW_SOURCES, np.int64)
        m, rows, after = index.size, out.shape[1], out.shape[2]
        list_places(index, places, rows, flag, ticket)
        i = cuda.grid(1)
        line = i // after
        a = i - line * after
        b = line // rows
        k = line - b * rows
        if b < out.shape[0]:
            total = nothing
            for j in range(m):
                if places[j] == k:
                    total += load(values[b, j, a])
            out[b, k, a] = store(load(x[b, k, a]) + total)

    return add_few


@functools.cache
def fold_few(dtype: np.dtype, kind: str, row_of: Any) -> Any:
    """x[b, k, a] folded with values[b, j, a] of all j that lead to row k, in their order; kind: see
    ``folding``; row_of: (index, rows) -> row or -1. One thread per element of the values: that of a
    row's first j does what there is to do."""
    load, store, _ = codec(dtype)
    (fold, nothing), list_places = folding(kind, dtype), listing(row_of)

    @cuda.jit
    def fold_few(
        x, values, index, flag, ticket
    ):  # x: (before, rows, after), values: (before, m, after), index: (m,), m <= FEW_SOURCES
        places = cuda.shared.array(FEW_SOURCES, np.int64)
        m, rows, after = index.size, x.shape[1], x.shape[2]
        list_places(index, places, rows, flag, ticket)
        i = cuda.grid(1)
        line = i // after
        a = i - line * after
        b = line // m
        first = line - b * m
        if b < x.shape[0]:
            place = places[first]
            mine = place >= 0
            for j in range(first):
                if places[j] == place:
                    mine = False
            if mine:
                total = nothing
                for j in range(first, m):
                    if places[j] == place:
                        total = fold(total, load(values[b, j, a]))
                x[b, place, a] = store(fold(load(x[b, place, a]), total))

    return fold_few


# -------------------- planners


def in_copy(p: ScatterAddProblem) -> Plan:
    """``add_few``."""
    temps: list[Layout] = []
    again, source = dense(Input(2), p.values, p.values.shape, p.x.dtype, temps)
    more, x, _, _ = box(Input(0), p.x, p.axis, 1, temps)
    before, _, after = p.box.shape
    launch = Launch(
        add_few(p.x.dtype),
        blocks(p.x.size, THREADS),
        THREADS,
        [
            x,
            source.view((before, p.m, after)),
            Input(1),
            Output(0).view(p.box.shape),
            Flag(),
            Ticket(),
        ],
    )
    return Plan([p.x.like()], [*more, *again, launch], temps)


def in_place(p: ScatterAddProblem) -> Plan:
    """``fold_few``."""
    temps: list[Layout] = []
    steps, target, layout, copied = box(Input(0), p.x, p.axis, p.count, temps)
    again, source = dense(Input(1), p.values, p.shape, p.x.dtype, temps)
    positions_made, positions, row_of = positions_of(p.indices, p.sizes, 2, temps)
    before, _, after = layout.shape
    launch = Launch(
        fold_few(p.x.dtype, p.kind, row_of),
        blocks(before * p.m * after, THREADS),
        THREADS,
        [target, source.view((before, p.m, after)), positions, Flag(), Ticket()],
    )
    back = [] if copied is None else copy_part(copied, whole(Input(0), p.x))
    return Plan([], [*steps, *again, *positions_made, launch, *back], temps)
