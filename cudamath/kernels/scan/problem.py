"""A scan as the planners see it: how the kernels take the array, and which of them pay. No
kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import Input
from ...core.layout import Layout
from ...runtime.device import capability
from ..compiler.decorators import WARP
from ..compiler.lazy_numba import SIMULATOR, dtype_of
from ..copy.contiguous import box
from ..lib.integers import blocks, power_of_two
from ..lib.widths import vector_width
from .decoupled_lookback import THREADS, scan_functions

Kinds = tuple[str, np.dtype, np.dtype]  # the scan's name, dtypes of elements and results

MANY_LINES = 1 << 14  # so many threads are enough for ``scan_lines`` with a few segments each
TILE_BYTES = 64  # of totals that a thread of ``scan_tiles`` holds, where tiles wait for others
# .. and where one block has a row by itself, or a cluster of RANKS blocks: longer, but a launch
# less, and no words in memory to wait for; of so few rows that all run at once
ALONE_BYTES, SHARED_BYTES, RANKS, FEW_ROWS = 128, 192, 8, 12

# ``scan_lines``: loads of a thread in flight, and segments of a line: a thread combines the totals
# of all before its own, so of a long line there are about as many as half of them have elements
LINE_STEP = 8
MOST_SEGMENTS = 64, 1024
# Lines whose totals a thread holds all at once: their bytes, threads of a block, registers of a
# thread besides
SHORT_BYTES, LINE_THREADS, BESIDES, REGISTERS = 112, 256, 20, 1 << 16

# ``scan_rows``: bytes of totals that a thread holds at most, and accesses
ROW_BYTES, ROW_VECTORS = 128, 8
ROW_LANES = 8  # that share a row at least, if it has an access for each: 128 bytes in one piece
LONGEST = 1 << 16  # numbers of a row: it adds step after step, and as many roundings

# ``scan_columns``: bytes of registers for the numbers that a thread holds, and for those on their
# way; half of wide numbers ..
COLUMN_BYTES = 64
SPILLS = (10, 0)  # .. and where the compiler would need more registers than there are: from here on

LONG_ROW = 1 << 11  # elements of a row of which one thread may scan the last ones by itself

# ``scan_ring``: bytes of totals that a thread holds, where a block has the multiprocessor to itself
RING_BYTES = 192
ROOM = 224 << 10  # bytes of its rings and results


class RingShape(NamedTuple):
    """How ``scan_ring`` is cut: blocks per multiprocessor, accesses that a thread holds (an odd
    number, so that those of neighbours begin in different banks), stages of the ring, and how many
    tiles ahead totals are told, at most the stages."""

    blocks: int
    vectors: int
    stages: int
    lead: int


def shape_of(kinds: Kinds, width: int) -> RingShape:
    """One block per multiprocessor, whose threads have twice the registers, of tiles as large as
    fit; two for short elements, which take more registers than shared memory."""
    _, source, target = kinds
    size = max(dtype_of(scan_functions(*kinds).A).itemsize, 4)  # of its registers
    vectors = max(v for v in (1, 3, 5, 7) if v == 1 or v * size * width <= RING_BYTES)
    if vectors < 7 and target.itemsize <= source.itemsize and target.kind != "c":
        return RingShape(2, 3, 3, 2)
    access = THREADS * vectors * width
    return RingShape(
        1, vectors, min(4, (ROOM - access * target.itemsize) // (access * source.itemsize)), 2
    )


def ring_widths(kinds: Kinds, n: int, x: Layout) -> tuple[int, RingShape]:
    """(elements of an access, shape) for rows of n elements of layout x."""
    width = min(vector_width(n, x), 8)
    return width, shape_of(kinds, width)


def row_shape(kinds: Kinds, n: int, x: Layout) -> tuple[int, int, int]:
    """(elements of an access, accesses of a thread, lanes of a row) of ``scan_rows``."""
    held = ROW_BYTES // dtype_of(scan_functions(*kinds).A).itemsize
    width = min(vector_width(n, x), 8, held)
    wanted = max(blocks(n, min(held, width * ROW_VECTORS)), min(ROW_LANES, blocks(n, width)), 2)
    lanes = min(power_of_two(wanted), WARP)
    return width, min(power_of_two(blocks(n, lanes * width)), held // width, ROW_VECTORS), lanes


def column_shape(kinds: Kinds, layout: Layout) -> tuple[int, int]:
    """(elements of an access, bytes of registers that a thread holds) for an argument of
    ``layout``: (before, n, after)."""
    wide = dtype_of(scan_functions(*kinds).A).itemsize > 4
    pairs = (
        not wide
        and not SIMULATOR
        and layout.contiguous
        and layout.aligned
        and layout.shape[2] % 2 == 0
    )
    fewer = wide or layout.itemsize == 1 or pairs and capability(layout.device) >= SPILLS
    return 2 if pairs else 1, COLUMN_BYTES // 2 if fewer else COLUMN_BYTES


def tile_shape(p: Problem) -> tuple[int, int, int]:
    """(elements of an access, accesses of a thread, blocks of a cluster that share a row, else 1)
    of ``scan_tiles``."""
    most = TILE_BYTES // p.held
    width = min(vector_width(p.n, p.x), 8, most)
    wanted = blocks(p.n, THREADS * width)
    if width > 1 and p.lines <= FEW_ROWS:
        clusters = capability(p.device) >= (9, 0)
        alone = ALONE_BYTES if clusters else SHARED_BYTES
        if wanted * width * p.held <= alone:
            return width, max(1, wanted), 1
        each = blocks(wanted, RANKS)
        if clusters and each * width * p.held <= SHARED_BYTES:
            return width, each, RANKS
    return width, max(1, min(wanted, most // width)), 1


def lines_shape(p: Problem) -> tuple[int, int]:
    """(segments of a line, length of one) of ``scan_lines``."""
    few, many = MOST_SEGMENTS
    most = max(few, min(many, math.isqrt(p.n // 2)))
    segments = max(1, min(blocks(16 * MANY_LINES, p.lines), p.n // (8 * LINE_STEP), most))
    return segments, blocks(p.n, segments)


def short_blocks(p: Problem) -> int:
    """Blocks of LINE_THREADS that a multiprocessor holds at once, where a thread holds a whole
    line; 0 where that is too long."""
    if p.n * p.held > SHORT_BYTES:
        return 0
    besides = BESIDES * (2 if p.size_of_total < 4 else 1)  # bytes are cut out of words
    each = 8 * blocks(p.n * p.held // 4 + besides, 8)  # registers are handed out eight at a time
    return min(REGISTERS // (LINE_THREADS * each), 8)


@dataclass(frozen=True, eq=False)
class Problem:
    """A scan of an array along an axis."""

    x: Layout
    kind: str
    axis: int
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{self.kind} along axis {self.axis} of {self.x.dtype} of shape {self.x.shape}"

    @property
    def device(self) -> int:
        return self.x.device

    @cached_property
    def out(self) -> Layout:
        """The results."""
        return self.x.like(dtype=self.dtype)

    @property
    def kinds(self) -> Kinds:
        """What kernels are compiled for."""
        return self.kind, self.x.dtype, self.dtype

    @cached_property
    def size_of_total(self) -> int:
        """Bytes of a total."""
        return dtype_of(scan_functions(*self.kinds).A).itemsize

    @property
    def held(self) -> int:
        """Bytes of registers of a total: one has four, however narrow the total is."""
        return max(self.size_of_total, 4)

    @property
    def n(self) -> int:
        """Elements of a line."""
        return self.x.shape[self.axis]

    @property
    def lines(self) -> int:
        """Lines that are scanned."""
        return self.x.size // self.n

    @property
    def after(self) -> int:
        """Lines that are neighbours in C order."""
        return math.prod(self.x.shape[self.axis + 1 :])

    @cached_property
    def body(self) -> Problem:
        """The problem of the elements before the last access that is not whole, where the array is
        one long row; tail.py scans the others. 16-bit results are rounded, so totals do not go on
        from them."""
        x, unit = self.x, 16 // min(self.x.itemsize, self.dtype.itemsize)
        rest = self.n % unit
        alone = self.lines == 1 and x.contiguous and x.aligned and self.n >= LONG_ROW
        if not alone or not rest or self.size_of_total != self.dtype.itemsize:
            return self
        return Problem(x.view((self.n - rest,), (x.itemsize,)), self.kind, 0, self.dtype)

    @cached_property
    def boxed(self) -> tuple[list, Any, Layout, list[Layout]]:
        """The array as (before, n, after): steps that copy it if need be, the argument, its layout,
        and the copies."""
        temps: list[Layout] = []
        steps, source, layout, _ = box(Input(0), self.x, self.axis, 1, temps)
        return steps, source, layout, temps

    @property
    def has_ring(self) -> bool:
        """Whether ``scan_ring`` can scan the rows: they begin at the borders of accesses."""
        n = self.body.n
        return (
            not SIMULATOR
            and capability(self.x.device) == (9, 0)
            and vector_width(n, self.x) > 1
            and n * self.dtype.itemsize % 16 == 0
        )
