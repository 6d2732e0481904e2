"""Rows of any length added into few rows, of which each has many sources: in a fixed order, by one
launch or two.

The gradient of a small table (kinds of tokens, classes, relative positions) adds thousands of rows
into a few. A sort tells nothing that is worth its launches there, and whoever walks along a row's
sources one after the other walks far.

``sum_slices``   The sources are cut into slices, a block for each slice and 32 columns. A group of
                 threads, one for each column, keeps a sum of each row in shared memory: it reads
                 sources, AHEAD at a time, whatever their row is, and adds each to its row's sum.
                 Groups take the sources of the slice by turns. Then the sums of the groups are
                 added in their order.
``join_slices``  The sums of the slices are added in their order, to what the row was before.

    block (columns 0 .. 31, slice 0)     group 0: sources 0, 8, 16, ...    sums of each row
                                         group 1: sources 1, 9, 17, ...    sums of each row  -> one
                                         ...
The order of all additions depends on the shapes alone. The floor is one read of the sources.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, types
from ..copy.contiguous import box, dense
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from .folding import folding
from .positions import positions_of
from .problem import ScatterAddProblem
from .work import RESIDENT, SLICE_AHEAD, slices_of

JOINING = 128  # threads of a block of `join_slices`
i32 = types.int32


@functools.cache
def sum_slices(dtype: np.dtype, kind: str, row_of: Any, threads: int, lanes: int) -> Any:
    """Blocks of ``threads``, ``lanes`` of them for as many columns; grid: (columns, slices).
    row_of: (index, rows) -> row or -1."""
    load, _, T = codec(dtype)
    fold, nothing = folding(kind, dtype)
    groups = threads // lanes

    @bounded((threads, RESIDENT // threads))
    def sum_slices(values, index, sums, rows, after, flag, ticket):
        # values: (before * m * after,), index: (m,), sums: (slices, rows, before * after) of T
        held = cuda.shared.array(0, T)  # (rows, threads)
        v = cuda.local.array(SLICE_AHEAD, T)
        places = cuda.local.array(SLICE_AHEAD, types.int32)
        t = i32(cuda.threadIdx.x)
        group, lane = t // i32(lanes), t % i32(lanes)
        m, columns, step = i32(index.size), sums.shape[2], after * groups
        for row in range(rows):
            held[row * threads + t] = nothing
        column = types.int64(cuda.blockIdx.x) * lanes + lane
        inside = column < columns
        b = column // after
        each = i32((m + i32(cuda.gridDim.y) - i32(1)) // i32(cuda.gridDim.y))
        first = i32(min(i32(cuda.blockIdx.y) * each, m) + group)
        last = min(i32(first - group + each), m)
        at = (b * m + first) * after + column - b * after
        while first < last:
            for k in range(SLICE_AHEAD):  # all loads go out before the first is waited for
                if first + i32(k * groups) < last:
                    places[k] = row_of(np.int64(index[i32(first + i32(k * groups))]), rows)
                    if inside:
                        v[k] = load(values[at + k * step])
            for k in range(SLICE_AHEAD):
                if first + i32(k * groups) < last:
                    if places[k] < 0:
                        flag[0] = ticket
                    elif inside:
                        place = i32(places[k] * i32(threads) + t)
                        held[place] = fold(held[place], v[k])
            first = i32(first + i32(groups * SLICE_AHEAD))
            at += step * SLICE_AHEAD
        cuda.syncthreads()
        for i in range(t, rows * lanes, threads):
            row = i // lanes
            place = i - row * lanes
            column = types.int64(cuda.blockIdx.x) * lanes + place
            if column < columns:
                total = held[row * threads + place]
                for g in range(1, groups):
                    total = fold(total, held[row * threads + g * lanes + place])
                sums[cuda.blockIdx.y, row, column] = total

    return sum_slices


@functools.cache
def join_slices(dtype: np.dtype, kind: str, zeros: bool) -> Any:
    """out[b, k, a] = x[b, k, a], or 0, folded with the sums of the slices in their order; a thread
    for each."""
    load, store, T = codec(dtype)
    fold, _ = folding(kind, dtype)

    @bounded(JOINING)
    def join_slices(x, out, sums):  # x, out: (before, rows, after), sums: as in sum_slices
        ahead = cuda.local.array(SLICE_AHEAD, T)
        columns, slices = sums.shape[2], sums.shape[0]
        i = cuda.grid(1)
        row = i // columns
        column = i - row * columns
        if row < sums.shape[1]:
            b = column // out.shape[2]
            a = column - b * out.shape[2]
            total = sums[0, row, column]
            for start in range(1, slices, SLICE_AHEAD):
                for k in range(SLICE_AHEAD):
                    if start + k < slices:
                        ahead[k] = sums[start + k, row, column]
                for k in range(SLICE_AHEAD):
                    if start + k < slices:
                        total = fold(total, ahead[k])
            before = T(0) if zeros else load(x[b, row, a])
            out[b, row, a] = store(fold(before, total))

    return join_slices


# -------------------- planners


def in_place(p: ScatterAddProblem) -> Plan:
    temps: list[Layout] = []
    steps, target, _, copied = box(Input(0), p.x, p.axis, p.count, temps)
    added = _steps(p, target, target, 1, temps)
    back = [] if copied is None else copy_part(copied, whole(Input(0), p.x))
    return Plan([], [*steps, *added, *back], temps)


def in_copy(p: ScatterAddProblem) -> Plan:
    """Values are added to a copy of x."""
    temps: list[Layout] = []
    steps, x, _, _ = box(Input(0), p.x, p.axis, 1, temps)
    added = _steps(p, x, Output(0).view(p.box.shape), 2, temps)
    return Plan([p.x.like()], [*steps, *added], temps)


def in_zeros(p: ScatterAddProblem) -> Plan:
    """The gradient of a gather."""
    temps: list[Layout] = []
    out = Output(0).view(p.box.shape)
    return Plan([p.x.like()], _steps(p, out, out, 0, temps), temps)


def _steps(
    p: ScatterAddProblem, x: Any, out: Any, values: int, temps: list[Layout]
) -> list[Launch]:
    """Steps for out = x with the values added, boxes (before, rows, after); values: their number
    among the inputs. The indices are the others behind x, if that is one."""
    before, rows, after = p.box.shape
    shape = p.values.shape if p.base != "place" else p.shape
    steps, source = dense(Input(values), p.values, shape, p.x.dtype, temps)
    first = {"place": 2, "copy": 1, "zeros": 1}[p.base]
    merged, index, row_of = positions_of(p.indices, p.sizes, first, temps)
    threads, lanes, slices = slices_of(p)
    T = compute_dtype(p.x.dtype)
    columns = before * after
    temps.append(Layout.new((slices, rows, columns), T, p.x.device))
    sums = Temp(len(temps) - 1)
    values_ = source.view((columns * p.m,))
    return [
        *steps,
        *merged,
        Launch(
            sum_slices(p.x.dtype, p.kind, row_of, threads, lanes),
            (blocks(columns, lanes), slices),
            threads,
            [values_, index, sums, rows, after, Flag(), Ticket()],
            shared=rows * threads * T.itemsize,
        ),
        Launch(
            join_slices(p.x.dtype, p.kind, p.base == "zeros"),
            blocks(rows * columns, JOINING),
            JOINING,
            [x, out, sums],
        ),
    ]
