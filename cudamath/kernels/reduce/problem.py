"""A reduction as the planners see it: axes sorted and merged, widths of loads, and how the work is
cut into blocks. No kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Input, Output
from ...core.layout import Layout
from ...core.specs.reduction import Accumulator, Reduction
from ...runtime.device import capability, multiprocessors
from ..compiler.lazy_numba import types
from ..lib.integers import blocks, power_of_two

THREADS = 256  # a block, where the shape of the problem does not say otherwise
FILL = 8  # blocks of THREADS that a multiprocessor holds
# times as many parts of a very long result: blocks that end early leave room for others
WAVES = 4
# Columns of so many elements in all are cut by blocks of NARROW vectors, if there are FEW times as
# many: a line of memory for each of so many blocks
LONG, LONGER = 1 << 17, 1 << 19
NARROW, FEW = 8, 16
MOST_THREADS = 1024  # a row; a multiprocessor has 64 registers for each ..
WIDE = 16  # .. too few for accumulators of this many bytes, which get half as many threads
# threads per row at the most where there are many rows: two blocks of 1,024 would leave gaps
WHOLE = 512
BUSY = 768  # threads that keep a multiprocessor's loads in flight
# small elements of a column that a thread takes before others do: columns of 64 by 8, 4, 2, 1
# threads 83 to 69 us
SHARE = 64
ACCESS = 16  # bytes of a load at most
# small elements of a row from which on loads stay wide though rows begin between their borders; a
# shorter row would be little more than its two ends
BETWEEN = 128
SHORT = 128  # bytes: rows that end after fewer are no runs of memory
# elements of a thread where they are few, and the threads that share a result at most
EACH, MOST = 2, 512
LONGEST = 2048  # elements of a result
RANK = 2  # kept dimensions and reduced ones, where they are arguments of a kernel
VECTORS = 4  # that a thread of a row has at the least (see also Reduction.vectors_16bit) ..
# .. and in packed form: argmax of rows of 1,024 82, 72, 68 us with 4, 8, 16 (H200)
VECTORS_PACKED = 16


class View(NamedTuple):
    """An array as the kernels see it: kept and reduced dimensions, byte strides, and where it
    starts."""

    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    kept_strides: tuple[int, ...]
    reduced_strides: tuple[int, ...]
    out_strides: tuple[int, ...]  # of the kept dimensions, in the output
    offset: int


def view_of(x: Layout, axes: tuple[int, ...], out_itemsize: int, ordered: bool) -> View:
    """Split the axes, sort them by stride and merge what can be merged. ordered: element numbers
    matter (argmax)."""
    kept = [i for i in range(x.ndim) if i not in axes]
    out = dict(
        zip(
            kept,
            shapes.contiguous_strides(tuple(x.shape[i] for i in kept), out_itemsize),
            strict=True,
        )
    )
    kept.sort(key=lambda i: -abs(x.strides[i]))
    reduced, offset, strides = sorted(axes), 0, list(x.strides)
    if not ordered:
        reduced.sort(key=lambda i: -abs(x.strides[i]))
        for i in reduced:
            if strides[i] < 0:  # walk it from its other end
                offset += strides[i] * (x.shape[i] - 1)
                strides[i] = -strides[i]
    k_shape, k_strides, o_strides = shapes.collapse(
        tuple(x.shape[i] for i in kept),
        tuple(strides[i] for i in kept),
        tuple(out[i] for i in kept),
    )
    r_shape, r_strides = shapes.collapse(
        tuple(x.shape[i] for i in reduced), tuple(strides[i] for i in reduced)
    )
    return View(
        k_shape or (1,),
        r_shape or (1,),
        k_strides or (0,),
        r_strides or (0,),
        o_strides or (0,),
        offset,
    )


class Walk(NamedTuple):
    """What a compiled kernel knows of an array: dimensions kept and reduced, bytes of an element,
    elements a load, whether rows begin between the borders of loads."""

    kept: int
    reduced: int
    narrow: bool
    itemsize: int
    width: int
    between: bool = False


class Cut(NamedTuple):
    """How the work is cut: blocks over the results, threads of a block, parts of each result,
    length of a part."""

    groups: int
    block: tuple[int, int]
    parts: int
    segment: int


@dataclass(frozen=True, eq=False)
class Problem:
    """A reduction of one array.

    Parameters
    ----------
    x : Layout
        The array.
    single : Accumulator
        The device functions, which lift the elements of a load one by one.
    axis, keepdims, dtype
        The reduced axes; whether they stay, of length 1; the dtype of the results.
    correction : float
        Of a variance.
    ordered : bool
        The numbers of elements matter (argmax).
    counts : bool
        The accumulator counts the elements: the divisor is the correction.
    packed : Accumulator or None
        The same of loads of eight 16-bit floats.
    vectors : int
        Loads that a thread of a row takes at the least.
    reduction : Reduction or None
        What makes these device functions for other dtypes; None for a user's.
    """

    x: Layout
    single: Accumulator
    axis: tuple[int, ...]
    keepdims: bool
    dtype: np.dtype
    correction: float = 0
    ordered: bool = False
    counts: bool = False
    packed: Accumulator | None = None
    vectors: int = VECTORS
    reduction: Reduction | None = None

    def __str__(self) -> str:
        return f"axes {self.axis} of {self.x.dtype} of shape {self.x.shape}"

    @property
    def device(self) -> int:
        return self.x.device

    @cached_property
    def out(self) -> Layout:
        """The results."""
        shape = tuple(
            1 if i in self.axis else n
            for i, n in enumerate(self.x.shape)
            if self.keepdims or i not in self.axis
        )
        return self.x.like(shape, self.dtype)

    @cached_property
    def view(self) -> View:
        """The array with its axes sorted and merged."""
        return view_of(self.x, self.axis, self.out.itemsize, self.ordered)

    @cached_property
    def count(self) -> int:
        """Elements of each result."""
        return math.prod(self.view.reduced)

    @property
    def narrow(self) -> bool:
        """Whether 32 bits number all elements."""
        return self.x.size < 1 << 31

    @property
    def divisor(self) -> Any:
        """The argument `divisor` of `finish`."""
        return self.divisor_for(self.single)

    def divisor_for(self, reduce: Accumulator) -> Any:
        """The same for these device functions."""
        T = np.float32 if reduce.kinds[0] in (types.float32, types.complex64) else np.float64
        return T(self.correction if self.counts else max(self.count - self.correction, 0))

    @property
    def source(self) -> Any:
        """The array as a kernel's argument: kept, then reduced dimensions."""
        view = self.view
        return Input(0).view(
            view.kept + view.reduced, view.kept_strides + view.reduced_strides, offset=view.offset
        )

    @property
    def results(self) -> Any:
        """The results as a kernel's argument."""
        return Output(0).view(self.view.kept, self.view.out_strides)

    @cached_property
    def reduced_are_nearest(self) -> bool:
        """Whether reduced elements are closer together in memory than kept ones."""
        view = self.view
        nearest = [
            min([abs(s) for n, s in zip(*side, strict=True) if n > 1] or [math.inf])
            for side in ((view.reduced, view.reduced_strides), (view.kept, view.kept_strides))
        ]
        return nearest[0] <= nearest[1]

    @cached_property
    def inner_axes(self) -> tuple[int, ...]:
        """The reduced axes that are closer together in memory than all kept ones, if there are
        others as well."""
        x, axes = self.x, {*self.axis}
        kept = [abs(x.strides[i]) for i in range(x.ndim) if x.shape[i] > 1 and i not in axes]
        reduced = [i for i in sorted(axes) if x.shape[i] > 1]
        inner = tuple(i for i in reduced if kept and abs(x.strides[i]) < min(kept))
        return inner if len(inner) < len(reduced) else ()

    @cached_property
    def outer(self) -> Problem:
        """The reduction along the other axes alone."""
        axis = tuple(i for i in self.axis if i not in self.inner_axes)
        return replace(self, axis=axis, keepdims=False)

    @property
    def nests(self) -> bool:
        """Whether rows end after a few bytes, and go on elsewhere, so that the outer axes may be
        reduced first. Not where the numbers of elements matter."""
        short = math.prod(self.x.shape[i] for i in self.inner_axes) * self.x.itemsize < SHORT
        return bool(self.inner_axes) and short and not self.ordered

    def walk(self, along_rows: bool) -> Walk:
        """How a kernel walks over the array, along rows or down columns."""
        view, itemsize = self.view, self.x.itemsize
        width, most = _width(self.x, view, along_rows), min(ACCESS // itemsize, 8)
        between = (
            along_rows
            and width < most
            and itemsize <= 2
            and self.x.aligned
            and view.offset % ACCESS == 0
            and len(view.reduced) == 1
            and view.reduced_strides[0] == itemsize
            and self.count >= BETWEEN
        )
        width = most if between else width
        return Walk(len(view.kept), len(view.reduced), self.narrow, itemsize, width, between)

    @cached_property
    def accumulator_of_rows(self) -> Accumulator:
        """The packed form, where rows have loads of eight."""
        eights = self.walk(True).width == 8 and capability(self.x.device) >= (8, 0)
        return self.packed if self.packed is not None and eights else self.single

    @cached_property
    def fill(self) -> int:
        """Blocks of THREADS that fill the device."""
        return FILL * multiprocessors(self.x.device)

    @cached_property
    def row_parts(self) -> int:
        """Segments of each row by which few long rows fill the device."""
        rows, vectors = self.out.size, max(self.count // self.walk(True).width, 1)
        in_flight = 4 * THREADS  # vectors of a block
        return max(
            min(self.fill // rows, vectors // in_flight),
            min(WAVES * self.fill // rows, vectors // (4 * in_flight)),
        )

    def cut_rows(self, *, split: bool) -> Cut:
        """How rows are cut; into two segments at least if `split`."""
        rows, vectors = self.out.size, max(self.count // self.walk(True).width, 1)
        if split:
            segment, in_flight = blocks(vectors, max(self.row_parts, 2)), 4 * THREADS
            if segment > in_flight:  # as a multiple: the rest of a segment goes one load at a time
                segment = blocks(segment, in_flight) * in_flight
            return Cut(rows, (THREADS, 1), blocks(vectors, segment), segment)
        reduce, least = self.accumulator_of_rows, 32
        if reduce is self.packed:
            least = min(max(power_of_two(blocks(self.count, 8 * VECTORS_PACKED)), 8), 32)
        size = sum(kind.bitwidth // 8 for kind in reduce.kinds)
        most = MOST_THREADS // 2 if size >= WIDE else MOST_THREADS
        enough = min(power_of_two(blocks(vectors, 4)), most)  # threads with one to four loads each
        if rows >= self.fill:
            each = self.vectors if len(reduce.kinds) == 1 else 0
            busy = BUSY * multiprocessors(self.x.device)
            threads = _threads_of_a_row(rows, vectors, enough, least, each, busy)
        else:  # few rows: each spread wide
            threads = max(enough, min(power_of_two(vectors), 64))
        height = max(THREADS // threads, 1) if threads <= 32 else 1
        return Cut(blocks(rows, height), (threads, height), 1, vectors)

    @cached_property
    def column_block(self) -> tuple[int, int, int]:
        """(vectors of columns in a block, threads that share a column, segments of each column by
        which few long columns fill the device)."""
        x, count, fill = self.x, self.count, self.fill
        vectors = self.out.size // self.walk(False).width
        down = min(power_of_two(blocks(count, 4)), THREADS // min(power_of_two(vectors), 32))
        if x.itemsize <= 2:
            # a thread finds a column once: as few share one as keep the device nearly full
            fill = fill * 7 // 8
            enough = power_of_two(blocks(fill * THREADS, vectors))
            down = min(down, max(power_of_two(blocks(count, SHARE)), enough))
        across = min(power_of_two(vectors), THREADS // down)
        groups = blocks(vectors, across)
        parts = max(
            min(blocks(fill, groups), count // (16 * down)),
            min(blocks(WAVES * fill, groups), count // (64 * down)),
        )
        return across, down, parts

    @property
    def narrows_columns(self) -> bool:
        """Whether blocks of NARROW vectors fill the device without segments."""
        vectors = self.out.size // self.walk(False).width
        return LONG <= self.x.size < LONGER and vectors >= FEW * NARROW and self.column_block[2] > 1

    def cut_columns(self, *, split: bool) -> Cut:
        """How columns are cut; into two segments at least if `split`."""
        count, (across, down, parts) = self.count, self.column_block
        if split:
            parts = max(parts, min(2, count))
        else:
            parts = 1
            if self.narrows_columns:
                across, down = NARROW, min(power_of_two(blocks(count, 4)), THREADS // NARROW)
        groups = blocks(self.out.size // self.walk(False).width, across)
        segment = blocks(count, parts)
        if parts > 1 and segment > 4 * down:
            segment = blocks(segment, 4 * down) * 4 * down
        return Cut(groups, (across, down), blocks(count, segment), segment)


def _threads_of_a_row(rows: int, vectors: int, most: int, least: int, each: int, busy: int) -> int:
    """Threads for each of many rows of so many vectors, `least` or more, each with `each` of them
    or more (0: an accumulator is several numbers); busy: threads that keep all multiprocessors'
    loads in flight.

    Measured on an H200, GB/s of rows of float32 by 32, 64, 128, 256 and 512 threads:

                 sum                                  var
         256     4,220  4,267  3,461  2,320    881    3,954  2,144  1,391    729    385
         768     4,073  4,269  4,209  3,646  1,868    4,004  3,756  2,690  1,596    962
       1,024     4,011  4,223  4,267  4,299  2,320    4,062  3,817  3,608  2,592  1,224
       4,096     4,053  3,993  4,057  4,211  4,261    4,045  3,842  3,828  3,739  3,346

    One number is quickly brought together, so each thread reads four vectors at once and is done.
    Several numbers take long (a var divides at each step): one warp per row, more only where rows
    are too few. max is as sum, argmax between the two, and max of bfloat16 (512 vectors: 3,672
    3,462 3,292 2,506 1,897), where a vector is eight choices, wants more vectors a thread.
    """
    threads = min(most, least)
    if each:
        while threads < min(most, WHOLE) and vectors >= 2 * each * threads:
            threads *= 2
        while threads > 64 and vectors % (4 * threads):  # what is left over goes one load at a time
            threads //= 2
        return threads
    while threads < most and rows * threads < busy:
        threads *= 2
    return threads


def _width(x: Layout, view: View, along_rows: bool) -> int:
    """Elements of a load: as many as 16 bytes hold (at most 8), if they are neighbours and all
    loads are aligned."""
    sizes, strides = (
        (view.reduced, view.reduced_strides) if along_rows else (view.kept, view.kept_strides)
    )
    if strides[-1] != x.itemsize or not x.aligned:
        return 1
    others = [*view.kept_strides, *view.reduced_strides, view.offset]
    others.remove(x.itemsize)
    width = min(ACCESS // x.itemsize, 8)
    # the end of a row need not be a multiple, if rows are not walked by division; columns are taken
    # as a whole
    whole = 0 if along_rows and len(sizes) == 1 else sizes[-1]
    while width > 1 and (whole % width or any(s % (width * x.itemsize) for s in others)):
        width //= 2
    return width
