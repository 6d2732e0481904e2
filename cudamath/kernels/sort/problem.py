"""The problems that planners of sorting solve, and the frame that their plans share: lines along an
axis become rows, and the sorted rows become lines again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..copy.axis_last import neighbours
from .radix_keys import Coding, coding, flipped

# Comparisons of a round that a block of the bitonic network makes at once: it sorts rows of twice
# as many elements in one turn.
PAIRS = 1024
# The longest row of the bitonic network, and the most elements of a block: with positions 48 KB of
# shared memory.
NETWORK = 4096

RowSteps = Callable[[Any, Any, list[Layout]], list[Launch]]  # (source, target, temps) -> steps


@dataclass(frozen=True)
class SortProblem:
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

    @property
    def n(self) -> int:
        """The elements of a row."""
        return self.x.shape[self.axis]

    @property
    def rows(self) -> int:
        return self.x.size // self.n

    @functools.cached_property
    def coding(self) -> Coding:
        return coding(self.x.dtype)

    @property
    def flip(self) -> Any:
        """The argument ``flip`` of kernels: all bits of a key in descending order."""
        return flipped(self.x.dtype, self.descending)


@dataclass(frozen=True)
class PartitionProblem:
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

    @property
    def n(self) -> int:
        """The elements of a line."""
        return self.x.shape[self.axis]

    @property
    def lines(self) -> int:
        return self.x.size // self.n


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
