"""The gradient of take_along_axis: g[..., j, ...] added at index[..., j, ...], in the order of j.

``add_along``  Lines that are short: a thread owns a column (b, a) and makes all its additions one
               after another, in the compute dtype.
By a sort      Otherwise every element of g has a position in the result (``along_positions``), and
               all elements are sorted and summed as rows of one element are
               (scatter_add_sorted.py).
"""

import functools
from math import prod
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda
from ..copy.contiguous import dense
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from .positions import along_positions, own
from .problem import TakeAlongGradientProblem
from .scatter_add_sorted import add_steps

THREADS = 256


@functools.cache
def add_along(dtype: np.dtype) -> Any:
    """out[b, index[b, j, a], a] += g[b, j, a] for j = 0, 1, ... in this order: one thread owns a
    column (b, a). ``out`` starts as zeros, in the compute dtype. Parallel over columns only: m
    steps one after another."""
    load, _, T = codec(dtype)

    @cuda.jit
    def add_along(
        g, index, out, flag, ticket
    ):  # g, index: (before, m, after); out: (before, n, after) of T
        i = cuda.grid(1)
        b = i // out.shape[2]
        if b < out.shape[0]:
            a = i - b * out.shape[2]
            n = out.shape[1]
            for j in range(g.shape[1]):
                k = own(np.int64(index[b, j, a]), n)
                if k < 0:
                    flag[0] = ticket
                else:
                    out[b, k, a] += load(g[b, j, a])

    return add_along


def _inputs(
    p: TakeAlongGradientProblem, temps: list[Layout]
) -> tuple[list[Launch], Any, Any, tuple[int, int, int]]:
    """(steps, dense g, dense index array, the shape (before, m, after))."""
    steps, g = dense(Input(0), p.g, p.g.shape, p.g.dtype, temps)
    more, index = dense(Input(1), p.index, p.g.shape, p.index.dtype, temps)
    return (
        [*steps, *more],
        g,
        index,
        (prod(p.g.shape[: p.axis]), p.m, prod(p.g.shape[p.axis + 1 :])),
    )


def by_columns(p: TakeAlongGradientProblem) -> Plan:
    """Version "columns": ``add_along``."""
    T, temps = compute_dtype(p.g.dtype), []
    total: Any = Output(0)
    if T != p.g.dtype:
        temps.append(p.out.like(dtype=T))
        total = Temp(0)
    sums = whole(total, p.out.like(dtype=T))
    steps: list[Launch] = fill_part(sums, np.uint64(0), np.uint64(0), None)
    if p.g.size:
        more, g, index, shape = _inputs(p, temps)
        before, _, after = shape
        launch = Launch(
            add_along(p.g.dtype),
            blocks(before * after, THREADS),
            THREADS,
            [
                g.view(shape),
                index.view(shape),
                total.view((before, p.size, after)),
                Flag(),
                Ticket(),
            ],
        )
        steps += [*more, launch]
    if T != p.g.dtype:
        steps += copy_part(sums, whole(Output(0), p.out))
    return Plan([p.out], steps, temps)


def by_sort(p: TakeAlongGradientProblem) -> Plan:
    """Version "sort"."""
    out, temps = p.out, []
    steps: list[Launch] = fill_part(whole(Output(0), out), np.uint64(0), np.uint64(0), None)
    if p.g.size:
        more, g, index, (_, m, after) = _inputs(p, temps)
        temps.append(Layout.new((p.g.size,), np.dtype(np.int64), p.g.device))
        positions, rows = Temp(len(temps) - 1), (1, out.size, 1)
        launch = Launch(
            along_positions,
            blocks(p.g.size, THREADS),
            THREADS,
            [index.view((p.g.size,)), positions, m, p.size, after, Flag(), Ticket()],
        )
        added = add_steps(Output(0).view(rows), out.like(rows), g, positions, p.g.size, temps)
        steps += [*more, launch, *added]
    return Plan([out], steps, temps)
