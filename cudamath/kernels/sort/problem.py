"""The problems that planners of sorting solve, and the frame that their plans share: lines along an
axis become rows, and the sorted rows become lines again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import properties
from ..compiler.decorators import WARP
from ..copy.axis_last import neighbours, rows_as_they_lie, with_axis_last
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.integers import blocks
from .radix_keys import Coding, coding, flipped

# Comparisons of a round that a block of the bitonic network makes at once: it sorts rows of twice
# as many elements in one turn.
PAIRS = 1024
# The longest row of the bitonic network, and the most elements of a block: with positions 48 KB of
# shared memory.
NETWORK = 4096

# ``sort_block``: threads of a block and keys of a thread; registers of a thread besides
BLOCK_SHAPES = [
    *[(256, items) for items in (2, 3, 4, 5, 6, 8, 10, 12, 14, 16)],
    *[(512, items) for items in (10, 12, 14, 16, 20, 24)],
]
BESIDES, REGISTERS, MOST_THREADS = 40, 1 << 16, 2048
COUNTERS, RESERVED = 1040, 1024  # bytes of a warp's counters; of a block, that CUDA keeps

MOST_LEADING = 256  # elements of a line that `topk` selects; more are sorted
# Bytes of lines whose elements are read where they lie apart: they stay in the L2 cache, and a copy
# takes as long as a launch.
MOST_APART = 1 << 20

RowSteps = Callable[[Any, Any, list[Layout]], list[Launch]]  # (source, target, temps) -> steps


class Lines:
    """Lines of x along an axis, for kernels rows of keys."""

    x: Layout
    axis: int

    @property
    def n(self) -> int:
        """The elements of a line."""
        return self.x.shape[self.axis]

    @property
    def rows(self) -> int:
        return self.x.size // self.n

    @functools.cached_property
    def coding(self) -> Coding:
        return coding(self.x.dtype)


class OrderedLines(Lines):
    """The same, in ascending or descending order."""

    descending: bool

    @property
    def flip(self) -> Any:
        """The argument ``flip`` of kernels: all bits of a key in descending order."""
        return flipped(self.x.dtype, self.descending)


@dataclass(frozen=True)
class SortProblem(OrderedLines):
    """Sort an array along an axis.

    Parameters
    ----------
    x : Layout
        Not empty.
    axis : int
    descending : bool
    positions : bool
        Whether the result is the positions (int64) that sort x, or the sorted elements.
    """

    x: Layout
    axis: int
    descending: bool
    positions: bool

    @property
    def out(self) -> Layout:
        return self.x.like(dtype=np.dtype(np.int64)) if self.positions else self.x.like()


def block_shape(p: SortProblem) -> tuple[int, int, int, int] | None:
    """(threads, keys of a thread, blocks that a multiprocessor holds, bytes of dynamic shared
    memory) of ``sort_block``; None where a block cannot hold a row."""
    threads, items = next(((t, i) for t, i in BLOCK_SHAPES if t * i >= p.n), (0, 0))
    if not threads:
        return None
    size = p.coding.word.itemsize
    registers = 8 * blocks(BESIDES + items * (max(size // 4, 1) + 1 + p.positions), 8)
    shared = threads * items * (size + 2 * p.positions)
    room = properties(p.x.device).max_shared_memory
    counters = threads // WARP * COUNTERS + RESERVED
    if shared + counters > room:
        return None
    held = min(
        MOST_THREADS // threads, REGISTERS // (registers * threads), room // (shared + counters)
    )
    return threads, items, max(held, 1), shared


@dataclass(frozen=True)
class PartitionProblem(Lines):
    """Move the elements of some ranks along an axis to their places, smaller ones before them.

    Parameters
    ----------
    x : Layout
        Not empty.
    axis : int
    ranks : tuple of int
    positions : bool
        Whether the result is the positions (int64) that partition x.
    """

    x: Layout
    axis: int
    ranks: tuple[int, ...]
    positions: bool


@dataclass(frozen=True)
class LeadingProblem(OrderedLines):
    """Find the first elements along an axis that a sort would give, in order, and their positions.

    Parameters
    ----------
    x : Layout
        Not empty.
    axis : int
    count : int
        From 1 to the elements of a line.
    descending : bool
    """

    x: Layout
    axis: int
    count: int
    descending: bool

    @property
    def outputs(self) -> list[Layout]:
        """The elements, and their positions."""
        shape = (*self.x.shape[: self.axis], self.count, *self.x.shape[self.axis + 1 :])
        return [self.x.like(shape), self.x.like(shape, np.dtype(np.int64))]


def leading_rows(p: LeadingProblem, steps: Callable[..., list[Launch]]) -> Plan:
    """The plan whose `steps` (p, source, values, places, temps) find the first elements of the
    rows of an argument. Rows are taken where they lie if they have one stride, and their elements
    are neighbours or few; otherwise they are copied."""
    temps: list[Layout] = []
    first: list[Launch] = []
    source = rows_as_they_lie(Input(0), p.x, p.axis)
    apart = abs(p.x.strides[p.axis]) > p.x.itemsize
    if source is None or apart and p.x.nbytes > MOST_APART:
        first, source, _, _ = neighbours(p.x, p.x.like(), p.axis, temps)
    last: list[Launch] = []
    targets: list[Any] = []
    for i, out in enumerate(p.outputs):  # where there is no such stride, side by side, then copied
        targets.append(rows_as_they_lie(Output(i), out, p.axis))
        if targets[i] is None:
            made = with_axis_last(whole(Output(i), out), p.axis)
            temps.append(out.like(made.layout.shape))
            targets[i] = Temp(len(temps) - 1)
            last += copy_part(whole(targets[i], temps[-1]), made)
    return Plan(p.outputs, [*first, *steps(p, source, *targets, temps), *last], temps)


def sorted_rows(p: SortProblem, steps: RowSteps) -> Plan:
    """The plan whose `steps` sort contiguous rows; copies before and after them where lines lie
    otherwise."""
    temps: list[Layout] = []
    first, source, last, target = neighbours(p.x, p.out, p.axis, temps)
    return Plan([p.out], [*first, *steps(source, target, temps), *last], temps)


def sorted_by_keys(p: SortProblem, key_steps: Callable[..., list[Launch]]) -> Plan:
    """The plan of a sort of keys: key_steps takes the arguments of ``onesweep.sweep_steps``."""

    def steps(source: Any, target: Any, temps: list[Layout]) -> list[Launch]:
        values, order = (None, target) if p.positions else (target, None)
        shape = (p.rows, p.n)
        return key_steps(source, values, order, p.coding, shape, p.flip, p.x.device, temps)

    return sorted_rows(p, steps)
