"""A few rows added into rows chosen by index, in a fixed order and one launch.

``add_few``   Into a copy: each element of the result goes through all destinations, in their order,
              and adds the values for it.
``fold_few``  In place: the threads of each source look whether it is the first one of its
              destination. If so, they fold its values and those of later ones into the destination.

The list of destinations lies in shared memory. ``add_few`` compares each element of the result with
each source: 2^24 comparisons take about 20 us on an H200, sorting takes 40. ``fold_few`` compares
each source with each other, once for every 32 columns.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..copy.contiguous import box, dense
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from .folding import folding, no_sum
from .positions import own, positions_of
from .problem import FEW_SOURCES, ScatterAddProblem
from .work import AHEAD, BITS, LANES

THREADS = 256
SOURCES = THREADS // LANES  # of a block


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
    ``folding``; row_of: (index, rows) -> row or -1. LANES threads per source and as many columns of
    it; grid: (columns, sources).

    The threads of a source share out the destinations: each compares 32 of them with the source's
    own and keeps a bit for each that is equal. The first source of a row then does what there is to
    do, by these bits, of AHEAD sources at a time: their values are all on their way before the
    first is waited for."""
    load, store, T = codec(dtype)
    (fold, nothing), list_places = folding(kind, dtype), listing(row_of)
    words_at_most, none = FEW_SOURCES // BITS, types.uint32(0)

    @cuda.jit
    def fold_few(
        x, values, index, flag, ticket
    ):  # x: (before, rows, after), values: (before, m, after), index: (m,), m <= FEW_SOURCES
        places = cuda.shared.array(FEW_SOURCES, np.int64)
        equal = cuda.shared.array((SOURCES, words_at_most), types.uint32)
        ahead = cuda.local.array(AHEAD, T)
        m, rows, after = index.size, x.shape[1], x.shape[2]
        list_places(index, places, rows, flag, ticket)
        lane = cuda.threadIdx.x % LANES
        group = cuda.threadIdx.x // LANES
        source = cuda.blockIdx.y * SOURCES + group
        place = places[source] if source < m else np.int64(-1)
        words = (m + BITS - 1) // BITS
        for word in range(lane, words, LANES):
            bits = none
            if place >= 0:
                for k in range(BITS):
                    i = (k + lane) % BITS  # neighbours read from different banks
                    j = word * BITS + i
                    if j < m and places[j] == place:
                        bits |= types.uint32(1 << i)
            equal[group, word] = bits
        cuda.syncthreads()
        column = types.int64(cuda.blockIdx.x) * LANES + lane
        if place >= 0 and column < x.shape[0] * after:
            word = 0
            bits = equal[group, 0]
            while bits == none:
                word += 1
                bits = equal[group, word]
            if word * BITS + (cuda.ffs(bits) - 1) == source:  # the first of its row
                b = column // after
                a = column - b * after
                total = nothing
                while word < words:
                    found = 0
                    for k in range(AHEAD):
                        while bits == none and word < words:
                            word += 1
                            if word < words:
                                bits = equal[group, word]
                        if bits != none:
                            ahead[k] = load(values[b, word * BITS + (cuda.ffs(bits) - 1), a])
                            bits &= types.uint32(bits - types.uint32(1))
                            found = k + 1
                    for k in range(AHEAD):
                        if k < found:
                            total = fold(total, ahead[k])
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
    added = _fold_steps(p, target, layout, source, 2, temps)
    back = [] if copied is None else copy_part(copied, whole(Input(0), p.x))
    return Plan([], [*steps, *again, *added, *back], temps)


def into_copy(p: ScatterAddProblem) -> Plan:
    """``fold_few`` of a copy of x: for many rows."""
    out, temps = p.x.like(), []
    again, source = dense(Input(2), p.values, p.values.shape, p.x.dtype, temps)
    copied = copy_part(whole(Input(0), p.x), whole(Output(0), out))
    added = _fold_steps(p, Output(0).view(p.box.shape), p.box, source, 1, temps)
    return Plan([out], [*copied, *again, *added], temps)


def into_zeros(p: ScatterAddProblem) -> Plan:
    """``fold_few`` of zeros."""
    out, temps = p.x.like(), []
    again, source = dense(Input(0), p.values, p.values.shape, p.x.dtype, temps)
    zeros = fill_part(whole(Output(0), out), np.uint64(0), np.uint64(0), None)
    added = _fold_steps(p, Output(0).view(p.box.shape), p.box, source, 1, temps)
    return Plan([out], [*zeros, *again, *added], temps)


def _fold_steps(
    p: ScatterAddProblem, target: Any, layout: Layout, source: Any, first: int, temps: list[Layout]
) -> list[Launch]:
    """``fold_few`` of (before, rows, after) with its argument ``target``; source: the argument of
    the values; first: the number of the first index array among the inputs."""
    steps, positions, row_of = positions_of(p.indices, p.sizes, first, temps)
    before, _, after = layout.shape
    launch = Launch(
        fold_few(p.x.dtype, p.kind, row_of),
        (blocks(before * after, LANES), blocks(p.m, SOURCES)),
        THREADS,
        [target, source.view((before, p.m, after)), positions, Flag(), Ticket()],
    )
    return [*steps, launch]
