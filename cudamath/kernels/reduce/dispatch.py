"""Reductions: sum, mean, var, max, argmax, any, norm ... over any axes of an array with any
strides.

The idea. A reduction is four small functions on an *accumulator*, a tuple of one to three numbers:

    lift(value, j)     element number j of the reduced axes -> accumulator
    combine(a, b)      two accumulators -> one (associative)
    identity()         the accumulator of no elements
    finish(a, d)       accumulator -> result; d is the number to divide by (mean, var)

      sum     (s)               a + b
      max     (m)               the larger one; NaN if either is
      argmax  (value, index)    the larger value; of equal ones the lower index
      var     (mean, M2, n)     Chan, Golub & LeVeque: with f = nb / (na + nb) and d = mean_b -
              mean_a
                                mean_a + d f,  M2_a + M2_b + d^2 na f,  na + nb: one pass, nothing
                                cancels

and everything below is written once, for all of them. Elements that a thread has read together are
combined as a balanced tree, so a float32 sum is pairwise where it matters; in the tree of a
variance all counts are constants, and the divisions disappear.

The floor is memory: each element is read once, size x itemsize bytes / bandwidth. Versions, from
simple to fast:

``reduce_plain``     a thread per result walks its elements. Any strides, any GPU, and Numba's
                     simulator.
``reduce_rows``      the reduced elements are neighbours (last axis): 1 .. 1024 threads share a row,
                     each with four
                     16-byte loads in flight; then shuffles inside warps and one exchange between
                     warps.
``reduce_columns``   the kept elements are neighbours (first axis): each thread owns one vector of
                     columns and walks
                     down, four loads in flight; the threads of a block that share columns meet in
                     shared memory.
``..._split``        few results, many elements: every row or column is cut into segments, whose
                     accumulators go to
                     scratch memory; a second launch (``reduce_partials``) combines them. Nothing is
                     added in the order of arrival: the same numbers in the same shape give the same
                     bits.

Rows of 16-bit floats have eight numbers to a load, and argmax and var have a shorter way for eight
than for one by one: accumulators_16bit.py.

A planner sees an array as (kept axes ..., reduced axes ...). Axes are sorted by stride and merged
where they can be, so most reductions have one axis of each kind, and the rest are walked by
dividing an element number.

Measured (row versions_reduce):
sum over the last axis of 32,768 x 4,096, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                            GB/s     of a copy
    reduce_plain             986          0.23
    reduce_rows            4,503          1.06
    reduce_rows_split      3,223          0.76

(end of what was measured)
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.lazy_import import lazy
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import FLOATING
from ...core.layout import Layout
from ...core.specs.reduction import Accumulator, Reduction
from ...core.specs.reductions import REDUCTIONS
from ...runtime.device import capability, multiprocessors
from ..compiler.decorators import bounded, device
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.accumulators import accumulator
from ..lib.integers import blocks, power_of_two
from ..lib.strided_index import index_walker, offset_walker
from ..lib.vector_io import RUN
from ..ptx import vector_access
from .block_reduce import (
    across_threads,
    columns_exchange,
    components,
    for_each,
    lift_all,
    pairwise,
    taking,
)

if not SIMULATOR:
    from ..ptx import sm90 as ptx_sm90

THREADS = 256  # a block, where the shape of the problem does not say otherwise
FILL = 8  # blocks of THREADS that a multiprocessor holds
# times as many parts of a very long result: blocks that end early leave room for others, and none
# waits long
WAVES = 4
LONG = 1 << 17  # elements from which on a row is worth a second launch ..
LONGER = (
    1 << 19
    # .. and columns, if there are FEW times NARROW vectors of them: a line of memory for each of so
    # many blocks
)
NARROW, FEW = 8, 16
MOST_THREADS = 1024  # a row; a multiprocessor has 64 registers for each ..
WIDE = 16  # .. too few for accumulators of this many bytes, which get half as many threads
# threads per row at the most where there are many rows: two blocks of 1,024 would leave gaps
WHOLE = 512
BUSY = 768  # threads that keep a multiprocessor's loads in flight
# threads of a multiprocessor where eight numbers vary at once: told so, the compiler keeps four
# loads ahead
RESIDENT = 1536
# small elements of a column that a thread takes before others do: columns of 64 by 8, 4, 2, 1
# threads 83 to 69 us
SHARE = 64
EACH = 4  # vectors a thread of a row has at the least (see also Reduction.vectors_16bit) ..
# .. and of their argmax, argmin, var and std: argmax of rows of 1,024 82, 72, 68 us with 4, 8, 16
# (H200)
EACH_EIGHTS = 16


# -------------------- kernels


@functools.cache
def reduce_plain(reduce: Accumulator, kept: int, reduced: int, narrow: bool) -> Any:
    """One thread per result: runs of RUN elements, one after the other, so that errors do not grow
    with every element."""
    lift, combine, identity, finish = reduce.lift, reduce.combine, reduce.identity, reduce.finish
    index_kept, index_reduced = index_walker(0, kept, narrow), index_walker(kept, reduced, narrow)

    @bounded(THREADS)
    def reduce_plain(x, out, count, divisor):
        """x: kept + reduced dimensions, any strides; out: the kept dimensions; count: elements of
        each result."""
        o = cuda.grid(1)
        if o < out.size:
            where = index_kept(x, o)
            total = identity()
            for start in range(0, count, RUN):
                run = identity()
                for j in range(start, min(start + RUN, count)):
                    run = combine(run, lift(x[where + index_reduced(x, j)], j))
                total = combine(total, run)
            out[where] = finish(total, divisor)

    return reduce_plain


class Walk(NamedTuple):
    """What a compiled kernel knows of an array: dimensions kept and reduced, bytes of an element,
    elements a load."""

    kept: int
    reduced: int
    narrow: bool
    itemsize: int
    width: int


@functools.cache
def _row(reduce: Accumulator, walk: Walk, threads: int) -> Any:
    """Device function: what the threads of a row have of its vectors first .. last - 1 and its
    elements up to `end`."""
    load, combine, follow, identity = (
        vector_access.load_vector,
        reduce.combine,
        reduce.in_order.combine,
        reduce.identity,
    )
    width, fours = walk.width, reduce.together is not None
    take, take_1 = taking(reduce, width), taking(reduce, 1)
    kept, reduced = (
        offset_walker(0, walk.kept, walk.narrow, walk.itemsize),
        offset_walker(walk.kept, walk.reduced, walk.narrow, walk.itemsize),
    )

    @device
    def row(x, o, lane, first, last, end):
        base = kept(x, o)
        a, b, c, d = identity(), identity(), identity(), identity()
        v = first + lane
        while v + 3 * threads < last:  # four loads set out before the first is used
            p = load(x, base + reduced(x, v * width), width)
            q = load(x, base + reduced(x, (v + threads) * width), width)
            r = load(x, base + reduced(x, (v + 2 * threads) * width), width)
            s = load(x, base + reduced(x, (v + 3 * threads) * width), width)
            if fours:  # of as many numbers each: a variance divides once
                e, f = take(p, v * width), take(q, (v + threads) * width)
                g, h = take(r, (v + 2 * threads) * width), take(s, (v + 3 * threads) * width)
                a = follow(a, follow(follow(e, f), follow(g, h)))
            else:
                a = follow(a, take(p, v * width))
                b = follow(b, take(q, (v + threads) * width))
                c = follow(c, take(r, (v + 2 * threads) * width))
                d = follow(d, take(s, (v + 3 * threads) * width))
            v += 4 * threads
        while v < last:
            a = follow(a, take(load(x, base + reduced(x, v * width), width), v * width))
            v += threads
        j = last * width + lane  # a row that is not a multiple of the vector
        while j < end:
            if fours:
                a = follow(a, take_1(load(x, base + reduced(x, j), 1), j))
            else:
                b = follow(b, take_1(load(x, base + reduced(x, j), 1), j))
            j += threads
        return a if fours else combine(combine(a, b), combine(c, d))

    return row


@functools.cache
def reduce_rows(reduce: Accumulator, walk: Walk, threads: int) -> Any:
    """`threads` threads per row; as many rows a block as fit in it."""
    row, together, finish = (
        _row(reduce, walk, threads),
        across_threads(reduce, threads),
        reduce.finish,
    )
    index = index_walker(0, walk.kept, walk.narrow)
    width = walk.width
    block = max(threads, THREADS)

    @bounded((block, RESIDENT // block) if reduce.meet is not None else block)
    def reduce_rows(x, out, count, divisor):
        """x: kept + reduced dimensions, vectors contiguous along the last; out: the kept ones.
        Block (threads, rows)."""
        o = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        inside = o < out.size  # threads past the end take part in the shuffles
        last = count // width if inside else 0
        a = together(row(x, o if inside else 0, cuda.threadIdx.x, 0, last, count if inside else 0))
        if inside and cuda.threadIdx.x == 0:
            out[index(out, o)] = finish(a, divisor)

    return reduce_rows


@functools.cache
def reduce_rows_split(reduce: Accumulator, walk: Walk) -> Any:
    """A block of THREADS threads per segment of a row."""
    row, together = _row(reduce, walk, THREADS), across_threads(reduce, THREADS)
    put, _ = components(reduce)
    width = walk.width

    @bounded(THREADS)
    def reduce_rows_split(x, p, q, r, count, segment):
        """x as for reduce_rows; p, q, r: (results, segments), the numbers of the accumulators;
        segment: in vectors."""
        o, part = cuda.blockIdx.x, cuda.blockIdx.y
        vectors = count // width
        first = part * segment
        last = min(first + segment, vectors)
        end = count if last == vectors else 0  # the last segment takes the rest
        a = together(row(x, o, cuda.threadIdx.x, first, last, end))
        if cuda.threadIdx.x == 0:
            put((p, q, r), o * cuda.gridDim.y + part, a)

    return reduce_rows_split


@functools.cache
def _columns(reduce: Accumulator, fetch: Any, width: int, across: int, down: int) -> Any:
    """Device function: a block of (across, down) threads reduces elements first .. last - 1 of
    `across` vectors of columns. fetch(arrays, c, j) -> `width` accumulators. The answer, `width`
    accumulators, is valid where y = 0."""
    pairs, after = pairwise(reduce, width), pairwise(reduce.in_order, width)
    room = max(across * down // 2, 1)
    put, get, none = columns_exchange(reduce, width, room)
    one, two, three = (reduce.kinds * 3)[:3]
    size = width * room

    @device
    def columns(arrays, c, first, last):
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        a, b = none(), none()
        j = first + y
        while j + 3 * down < last:  # four loads set out before the first is used
            p = fetch(arrays, c, j)
            q = fetch(arrays, c, j + down)
            r = fetch(arrays, c, j + 2 * down)
            s = fetch(arrays, c, j + 3 * down)
            a = after(a, after(after(p, q), after(r, s)))
            j += 4 * down
        while j < last:
            b = after(b, fetch(arrays, c, j))
            j += down
        a = after(a, b)
        if down > 1:
            shared = (
                cuda.shared.array(size, one),
                cuda.shared.array(size, two),
                cuda.shared.array(size, three),
            )
            height = down // 2
            while height:  # the lower half of the threads takes over what the upper half has
                if height <= y < 2 * height:
                    put(shared, (y - height) * across + x, a)
                cuda.syncthreads()
                if y < height:
                    a = pairs(a, get(shared, y * across + x))
                cuda.syncthreads()
                height //= 2
        return a

    return columns


@functools.cache
def _fetch_columns(reduce: Accumulator, walk: Walk) -> Any:
    """Device function ((x,), c, j) -> accumulators of vector c of columns, element j of the reduced
    axes."""
    load, width = vector_access.load_vector, walk.width
    read = lift_all(reduce, width, False)
    kept, reduced = (
        offset_walker(0, walk.kept, walk.narrow, walk.itemsize),
        offset_walker(walk.kept, walk.reduced, walk.narrow, walk.itemsize),
    )

    @device
    def fetch(arrays, c, j):
        x = arrays[0]
        return read(load(x, kept(x, c * width) + reduced(x, j), width), j)

    return fetch


@functools.cache
def _write(reduce: Accumulator, kept: int, narrow: bool) -> Any:
    """Device function ((out, divisor), o, accumulator): the o-th result."""
    index, finish = index_walker(0, kept, narrow), reduce.finish

    @device
    def write(arguments, o, a):
        arguments[0][index(arguments[0], o)] = finish(a, arguments[1])

    return write


@functools.cache
def reduce_columns(reduce: Accumulator, walk: Walk, across: int, down: int) -> Any:
    """A block of (across, down) threads for `across` vectors of columns."""
    columns = _columns(reduce, _fetch_columns(reduce, walk), walk.width, across, down)
    write = for_each(_write(reduce, walk.kept, walk.narrow), walk.width)
    width = walk.width

    @bounded(across * down)
    def reduce_columns(x, out, count, divisor):
        """x: kept + reduced dimensions, vectors contiguous along the last kept one; out: the kept
        ones."""
        c = cuda.blockIdx.x * across + cuda.threadIdx.x
        inside = c * width < out.size
        a = columns((x,), c if inside else 0, 0, count if inside else 0)
        if inside and cuda.threadIdx.y == 0:
            write((out, divisor), c * width, a)

    return reduce_columns


@functools.cache
def reduce_columns_split(reduce: Accumulator, walk: Walk, across: int, down: int) -> Any:
    """The same for one segment of the columns (the second grid dimension)."""
    columns = _columns(reduce, _fetch_columns(reduce, walk), walk.width, across, down)
    put = for_each(components(reduce)[0], walk.width)
    width = walk.width

    @bounded(across * down)
    def reduce_columns_split(x, p, q, r, results, count, segment):
        """p, q, r: (segments, results), the numbers of the accumulators; segment: elements of each
        column."""
        c, part = cuda.blockIdx.x * across + cuda.threadIdx.x, cuda.blockIdx.y
        inside = c * width < results
        first = part * segment
        last = min(first + segment, count) if inside else first
        a = columns((x,), c if inside else 0, first, last)
        if inside and cuda.threadIdx.y == 0:
            put((p, q, r), part * results + c * width, a)

    return reduce_columns_split


@functools.cache
def reduce_partials(
    reduce: Accumulator, kept: int, narrow: bool, across: int, down: int, early: bool
) -> Any:
    """The second launch: combines the accumulators of the segments of each result, in their order.
    early: launched before they are there (compute capability 9.0)."""
    _, get = components(reduce)

    @device
    def fetch(arrays, o, part):
        return (get(arrays[0], o * arrays[1] + part * arrays[2]),)

    columns = _columns(reduce, fetch, 1, across, down)
    write = _write(reduce, kept, narrow)

    @device
    def combine_parts(p, q, r, out, parts, between_results, between_parts, divisor):
        o = cuda.blockIdx.x * across + cuda.threadIdx.x
        inside = o < out.size
        a = columns(
            ((p, q, r), between_results, between_parts),
            o if inside else 0,
            0,
            parts if inside else 0,
        )
        if inside and cuda.threadIdx.y == 0:
            write((out, divisor), o, a[0])

    @bounded(across * down)
    def reduce_partials(p, q, r, out, parts, between_results, between_parts, divisor):
        """p, q, r: accumulators, one dimension; out: the kept dimensions; distances in p, q, r in
        elements."""
        combine_parts(p, q, r, out, parts, between_results, between_parts, divisor)

    if not early:
        return reduce_partials
    wait_for_previous = ptx_sm90.wait_for_previous

    @bounded(across * down)
    def reduce_partials_early(p, q, r, out, parts, between_results, between_parts, divisor):
        """The same."""
        wait_for_previous()
        combine_parts(p, q, r, out, parts, between_results, between_parts, divisor)

    return reduce_partials_early


# -------------------- planner


class _View(NamedTuple):
    """An array as the kernels see it: kept and reduced dimensions, byte strides, and where it
    starts."""

    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    kept_strides: tuple[int, ...]
    reduced_strides: tuple[int, ...]
    out_strides: tuple[int, ...]  # of the kept dimensions, in the output
    offset: int


def view_of(x: Layout, axes: tuple[int, ...], out_itemsize: int, ordered: bool) -> _View:
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
    return _View(
        k_shape or (1,),
        r_shape or (1,),
        k_strides or (0,),
        r_strides or (0,),
        o_strides or (0,),
        offset,
    )


def plan(
    x: Layout,
    *,
    kind: str,
    axis: tuple[int, ...],
    keepdims: bool,
    dtype: np.dtype,
    correction: float = 0,
    shape: tuple[int, ...] = (),
    version: str | None = None,
) -> Plan:
    """Planner of the package's reductions.

    kind: the name of a definition in core/specs/reductions.py; axis: the reduced axes; dtype: of
    the results; correction: of var and std; `shape` is for the gradient rule. version: see
    `planned`.
    """
    reduction = REDUCTIONS[kind]
    of_16_bits = x.dtype in FLOATING and x.itemsize == 2
    return planned(
        x,
        accumulator(reduction, x.dtype, dtype),
        axis,
        keepdims,
        dtype,
        correction=correction,
        ordered=reduction.places,
        version=version,
        counted=reduction.counts,
        eights=_packed(reduction, x.dtype, dtype) if of_16_bits else None,
        each=of_16_bits and reduction.vectors_16bit or EACH,
    )


def _packed(reduction: Reduction, source: np.dtype, target: np.dtype) -> Accumulator | None:
    """The form of a reduction that takes a load of eight numbers at once; None where there is none,
    as in the simulator."""
    if SIMULATOR or reduction.packed is None:
        return None
    return lazy("kernels", reduction.packed)(reduction, source, target)


def planned(
    x: Layout,
    reduce: Accumulator,
    axis: tuple[int, ...],
    keepdims: bool,
    dtype: np.dtype,
    *,
    correction: float = 0,
    ordered: bool = False,
    version: str | None = None,
    counted: bool = False,
    each: int = EACH,
    eights: Accumulator | None = None,
) -> Plan:
    """The plan of any reduction. ordered: element numbers matter; counted: by the reduction itself,
    whose divisor is the correction; each: vectors a thread of a row has at the least, before it
    shares them with another; eights: the same reduction of loads of eight numbers.

    version: "plain", "rows", "columns", "rows_split" or "columns_split"; by default what the
    strides suggest.
    """
    results_shape = tuple(
        1 if i in axis else n for i, n in enumerate(x.shape) if keepdims or i not in axis
    )
    out = x.like(results_shape, dtype)
    if out.size == 0:
        return Plan([out], [])
    view = view_of(x, axis, out.itemsize, ordered)
    count = math.prod(view.reduced)
    divisor = (np.float32 if reduce.kinds[0] in (types.float32, types.complex64) else np.float64)(
        correction if counted else max(count - correction, 0)
    )
    results = Output(0).view(view.kept, view.out_strides)
    source = Input(0).view(
        view.kept + view.reduced, view.kept_strides + view.reduced_strides, offset=view.offset
    )
    narrow = x.size < 1 << 31
    if version is None:
        version = _choose(view)
    if version == "plain" or count == 0:
        kernel = reduce_plain(reduce, len(view.kept), len(view.reduced), narrow)
        return Plan(
            [out],
            [Launch(kernel, blocks(out.size, THREADS), THREADS, [source, results, count, divisor])],
        )
    along_rows = version.startswith("rows")
    walk = Walk(len(view.kept), len(view.reduced), narrow, x.itemsize, _width(x, view, along_rows))
    split = version.endswith("split")
    if along_rows and eights is not None and walk.width == 8 and capability(x.device) >= (8, 0):
        reduce = eights
    if along_rows:
        most = MOST_THREADS // (
            2 if sum(kind.bitwidth // 8 for kind in reduce.kinds) >= WIDE else 1
        )
        least = (
            min(max(power_of_two(blocks(count, 8 * EACH_EIGHTS)), 8), 32)
            if reduce is eights
            else 32
        )
        cut = _cut_rows(
            x,
            walk,
            out.size,
            count,
            most,
            least,
            each=each if len(reduce.kinds) == 1 else 0,
            forced=split,
        )
    else:
        cut = _cut_columns(x, walk, out.size, count, forced=split)
    if cut.parts == 1 and not split:
        if along_rows:
            kernel = reduce_rows(reduce, walk, cut.block[0])
        else:
            kernel = reduce_columns(reduce, walk, *cut.block)
        return Plan(
            [out], [Launch(kernel, cut.groups, cut.block, [source, results, count, divisor])]
        )
    temps = [x.like((out.size * cut.parts,), np.dtype(str(kind))) for kind in reduce.kinds]
    numbers = [Temp(i if i < len(temps) else 0) for i in range(3)]
    grid = (cut.groups, cut.parts)
    if along_rows:
        first = Launch(
            reduce_rows_split(reduce, walk), grid, cut.block, [source, *numbers, count, cut.segment]
        )
        between = (cut.parts, 1)
    else:
        first = Launch(
            reduce_columns_split(reduce, walk, *cut.block),
            grid,
            cut.block,
            [source, *numbers, out.size, count, cut.segment],
        )
        between = (1, out.size)
    across = min(power_of_two(out.size), 32)
    down = min(power_of_two(cut.parts), THREADS // across)
    early = not SIMULATOR and capability(x.device) >= (9, 0)
    kernel = reduce_partials(reduce, len(view.kept), narrow, across, down, early)
    second = Launch(
        kernel,
        blocks(out.size, across),
        (across, down),
        [*numbers, results, cut.parts, *between, divisor],
        early=early,
    )
    return Plan([out], [first, second], temps)


def _choose(view: _View) -> str:
    """Rows if the reduced elements are closer together in memory than the kept ones."""
    nearest = [
        min([abs(s) for n, s in zip(*side, strict=True) if n > 1] or [math.inf])
        for side in ((view.reduced, view.reduced_strides), (view.kept, view.kept_strides))
    ]
    return "rows" if nearest[0] <= nearest[1] else "columns"


def _width(x: Layout, view: _View, along_rows: bool) -> int:
    """Elements of a load: as many as 16 bytes hold (at most 8), if they are neighbours and all
    loads are aligned."""
    sizes, strides = (
        (view.reduced, view.reduced_strides) if along_rows else (view.kept, view.kept_strides)
    )
    if strides[-1] != x.itemsize or not x.aligned:
        return 1
    others = [*view.kept_strides, *view.reduced_strides, view.offset]
    others.remove(x.itemsize)
    width = min(16 // x.itemsize, 8)
    # the end of a row need not be a multiple, if rows are not walked by division; columns are taken
    # as a whole
    whole = 0 if along_rows and len(sizes) == 1 else sizes[-1]
    while width > 1 and (whole % width or any(s % (width * x.itemsize) for s in others)):
        width //= 2
    return width


class _Cut(NamedTuple):
    """How the work is cut: blocks over the results, threads of a block, parts of each result,
    length of a part."""

    groups: int
    block: tuple[int, int]
    parts: int
    segment: int


def _cut_rows(
    x: Layout, walk: Walk, rows: int, count: int, most: int, least: int, *, each: int, forced: bool
) -> _Cut:
    """most: threads of a row; least, each: see _threads; forced: parts even where one would do."""
    vectors = max(count // walk.width, 1)
    fill = FILL * multiprocessors(x.device)
    if forced or (count >= LONG and rows * 2 <= fill):
        round_ = 4 * THREADS  # vectors that a block has in flight
        parts = max(
            min(fill // rows, vectors // round_),
            min(WAVES * fill // rows, vectors // (4 * round_)),
            2 if forced else 1,
        )
        if parts > 1:
            segment = blocks(vectors, parts)
            if segment > round_:  # whole rounds: what is left over goes one load at a time
                segment = blocks(segment, round_) * round_
            return _Cut(rows, (THREADS, 1), blocks(vectors, segment), segment)
    enough = power_of_two(blocks(vectors, 4))  # so many threads have one to four loads each
    enough = min(enough, most)
    threads = (
        _threads(rows, vectors, enough, least, each, BUSY * multiprocessors(x.device))
        if rows >= fill
        else max(enough, min(power_of_two(vectors), 64))
    )  # few rows: each spread wide
    height = max(THREADS // threads, 1) if threads <= 32 else 1
    return _Cut(blocks(rows, height), (threads, height), 1, vectors)


def _threads(rows: int, vectors: int, most: int, least: int, each: int, busy: int) -> int:
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


def _cut_columns(x: Layout, walk: Walk, results: int, count: int, *, forced: bool) -> _Cut:
    vectors = results // walk.width
    across = min(power_of_two(vectors), 32)
    down = min(power_of_two(blocks(count, 4)), THREADS // across)
    fill = FILL * multiprocessors(x.device)
    if (
        x.itemsize <= 2
    ):  # a thread finds a column once: as few share one as keep the device nearly full
        fill = fill * 7 // 8
        down = min(
            down,
            max(power_of_two(blocks(count, SHARE)), power_of_two(blocks(fill * THREADS, vectors))),
        )
    across = min(power_of_two(vectors), THREADS // down)
    groups = blocks(vectors, across)
    parts = max(
        min(blocks(fill, groups), count // (16 * down)),
        min(blocks(WAVES * fill, groups), count // (64 * down)),
    )
    if not forced and x.size < LONG:
        parts = 1
    parts = max(parts, min(2, count) if forced else 1)
    if not forced and parts > 1 and x.size < LONGER and vectors >= FEW * NARROW:
        across, down, parts = NARROW, min(power_of_two(blocks(count, 4)), THREADS // NARROW), 1
        groups = blocks(vectors, across)
    segment = blocks(count, parts)
    if parts > 1 and segment > 4 * down:
        segment = blocks(segment, 4 * down) * 4 * down
    return _Cut(groups, (across, down), blocks(count, segment), segment)
