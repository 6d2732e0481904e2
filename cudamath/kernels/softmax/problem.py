"""Softmax as a problem: the layouts and parameters of a call, and what the choice among versions
needs of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from ...core.dispatch.arguments import ArrayArg, Input, Output
from ...core.layout import Layout
from ...runtime.device import capability, multiprocessors
from ..lib.integers import blocks, power_of_two
from ..lib.row_layout import Rows, access, fitting, spread_between
from ..lib.widths import vector_width, wide

# elements of a line a thread holds: half of the 64 registers that a block of 1024 threads leaves it
HELD = 32
HELD_GRAD = 16  # the gradient holds g and y
TOGETHER = 32  # elements that neighbouring threads read in one piece, in lines that have so many

LANES, PARTS = 32, 8  # columns.py: lines per block, threads per line
FILL, LEAST = 8, 16  # blocks of a multiprocessor; elements of a thread in a segment, at least

# A line in the registers of a cluster's blocks (cluster.py):
CLUSTER_THREADS = 256
CLUSTER_RANKS = 2, 8  # blocks of a cluster: at least; at most, on any device
CLUSTER_HELD = 8  # accesses of 16 bytes that a thread holds: 32 registers


@dataclass(frozen=True)
class Problem:
    """(Log-)softmax of (x,), or its gradient of (g, y), along an axis of arrays in C order."""

    inputs: tuple[Layout, ...]
    axis: int
    log: bool

    @property
    def x(self) -> Layout:
        return self.inputs[-1]

    @property
    def device(self) -> int:
        return self.x.device

    @property
    def gradient(self) -> bool:
        return len(self.inputs) == 2

    @property
    def n(self) -> int:
        """Elements of a line."""
        return self.x.shape[self.axis]

    @cached_property
    def inner(self) -> int:
        """Elements from one of a line to the next."""
        return math.prod(self.x.shape[self.axis + 1 :])

    @property
    def lines(self) -> int:
        return self.x.size // self.n

    @cached_property
    def access(self) -> tuple[int, bool]:
        """(elements an access moves, whether lines begin between the borders of accesses)."""
        return access(self.n, *self.inputs)

    @property
    def widest(self) -> int:
        """Elements of an access wherever lines begin, or 1."""
        return vector_width(0, *self.inputs)

    @cached_property
    def shape(self) -> Rows | None:
        """How a line is spread over threads that hold it in registers; None if it is too long."""
        width, edges = self.access
        elements = fitting(HELD_GRAD if self.gradient else HELD, self.x.dtype)
        return spread_between(self.n, width, edges, elements, together=TOGETHER // width)

    @property
    def arrays(self) -> list[ArrayArg]:
        """Arguments: (x, y), or of the gradient (g, y, dx)."""
        return [*map(Input, range(len(self.inputs))), Output(0)]


def spread_cluster(n: int, width: int, arrays: int) -> tuple[int, int, int]:
    """(blocks, threads of a block, accesses of a thread) for lines of n elements of so many
    arrays."""
    inner, each = blocks(n, width), CLUSTER_HELD // arrays
    least, most = CLUSTER_RANKS
    ranks = max(min(power_of_two(blocks(inner, CLUSTER_THREADS * each)), most), least)
    threads = max(power_of_two(blocks(inner, ranks * each)), CLUSTER_THREADS)
    return ranks, threads, blocks(blocks(inner, ranks), threads)


def fits_cluster(p: Problem) -> bool:
    """Whether the registers of a cluster's blocks hold a line."""
    return (
        p.inner == 1
        and p.widest in (4, 8)
        and capability(p.x.device) >= (9, 0)
        and wide(p.x.dtype).itemsize == 4
        and spread_cluster(p.n, p.widest, len(p.inputs))[1] <= 1024
    )


def cut_columns(p: Problem) -> tuple[int, int]:
    """(segments, length of one) by which blocks of columns.py fill the device."""
    wanted = blocks(FILL * multiprocessors(p.x.device), blocks(p.lines, LANES))
    length = PARTS * max(blocks(p.n, wanted * PARTS), LEAST)
    return blocks(p.n, length), length
