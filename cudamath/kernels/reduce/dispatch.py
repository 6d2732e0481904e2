"""Reductions: sum, mean, var, max, argmax, any, norm ... over any axes of an array with any
strides.

The idea. A reduction is four small functions on an *accumulator*, a tuple of one to three numbers:

    lift(value, j)     element number j of the reduced axes -> accumulator
    combine(a, b)      two accumulators -> one (associative)
    identity()         the accumulator of no elements
    finish(a, d)       accumulator -> result; d is the number to divide by (mean, var)

core/specs/reductions.py defines them for each reduction. The kernels are written once, for all of
them. Elements that a thread has read together are combined as a balanced tree, so a float32 sum is
pairwise where it matters; in the tree of a variance all counts are constants, and the divisions
disappear.

The floor is memory: each element is read once, size x itemsize bytes / bandwidth. Versions, from
simple to fast:

``reduce_plain``    (plain.py) A thread per result walks over its elements. Any strides, any GPU,
                    and Numba's simulator.
``reduce_rows``     (rows.py) The reduced elements are neighbours (last axis). 1 to 1,024 threads
                    share a row, each with four 16-byte loads in flight; then shuffles inside warps
                    and one exchange between warps.
``reduce_columns``  (columns.py) The kept elements are neighbours (first axis). Each thread owns one
                    vector of columns and walks down, four loads in flight; the threads of a block
                    that share columns combine in shared memory.
``..._nested``      Reduced axes inside and outside of kept ones, as (1, 3) of four: the outer ones
                    first, down columns, then the accumulators of the inner ones.
``..._split``       Few results, many elements. Every row or column is cut into segments, and their
                    accumulators go to scratch memory. A second launch (``reduce_partials``,
                    partials.py) combines them. Nothing is added in the order of arrival: the same
                    numbers in the same shape give the same bits.

``reduce_small``    (small.py) Up to 16,384 elements: dtypes and strides are arguments, so that few
                    kernels serve all small arrays, but for 16- and 32-bit floats.

A row of 16-bit floats has eight numbers to a load, and argmax and var of eight numbers together
take fewer instructions than of one by one: accumulators_16bit.py.

A planner sees an array as (kept axes ..., reduced axes ...), see problem.py. Axes are sorted by
stride and merged where they can be, so most reductions have one axis of each kind, and the rest are
walked by dividing an element number.

Measured (row versions_reduce):
sum over the last axis of 32,768 x 4,096, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                            GB/s     of a copy
    reduce_plain             986          0.23
    reduce_rows            4,503          1.06
    reduce_rows_split      3,223          0.76

(end of what was measured)
"""

import numpy as np

from ...core.dispatch.lazy_import import lazy
from ...core.dispatch.plan import Plan
from ...core.dispatch.small_arrays import is_small
from ...core.dtypes import FLOATING
from ...core.layout import Layout
from ...core.specs.reduction import Accumulator, Reduction
from ...core.specs.reductions import REDUCTIONS
from ..compiler.lazy_numba import SIMULATOR
from ..lib.accumulators import accumulator
from ..lib.versions import Version, choose
from ..ptx.coded_access import CODES
from . import work
from .problem import LONGEST, RANK, VECTORS, Problem


def fits_codes(p: Problem) -> bool:
    """Dtypes and strides may be arguments: one of the package's reductions, few dimensions."""
    ranks = len(p.view.kept), len(p.view.reduced)
    known = p.reduction is not None and {p.x.dtype, p.dtype} <= CODES.keys()
    return known and max(ranks) <= RANK and p.x.size < 1 << 32


def prefers_codes(p: Problem) -> int:
    """Few elements, but for 16- and 32-bit floats, whose kernels most programs have anyway."""
    own = p.x.dtype in FLOATING and p.x.itemsize <= 4 and p.x.contiguous
    few = is_small(p.x.size) and 0 < p.count <= LONGEST
    return 2 * (few and not own and not SIMULATOR)


def has_elements(p: Problem) -> bool:
    return p.count > 0


VERSIONS = (
    Version(
        "small",
        "reduce.small.plan",
        fits_codes,
        prefers_codes,
        reason="few elements: one kernel serves all layouts, and dtypes of a kind",
    ),
    Version("plain", "reduce.plain.plan", reason="a thread per result", work=work.plain),
    Version(
        "columns_nested",
        "reduce.columns.plan_nested",
        lambda p: p.nests,
        reason="some reduced elements are nearest in memory, the others outside of kept ones",
        work=work.columns_nested,
    ),
    Version(
        "rows",
        "reduce.rows.plan",
        has_elements,
        reason="threads share a row of reduced elements",
        work=work.rows,
    ),
    Version(
        "rows_split",
        "reduce.rows.plan_split",
        has_elements,
        reason="few results do not fill the device: rows in segments",
        work=work.rows_split,
    ),
    Version(
        "columns",
        "reduce.columns.plan",
        has_elements,
        reason="a thread goes down columns of neighbours",
        work=work.columns,
    ),
    Version(
        "columns_split",
        "reduce.columns.plan_split",
        has_elements,
        reason="few results do not fill the device: columns in segments",
        work=work.columns_split,
    ),
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
    the results; correction: of var and std; `shape` is for the gradient rule. version: a name in
    VERSIONS; by default what the strides suggest.
    """
    return planned(problem_of(x, kind, axis, keepdims, dtype, correction), version)


def problem_of(
    x: Layout,
    kind: str,
    axis: tuple[int, ...],
    keepdims: bool,
    dtype: np.dtype,
    correction: float = 0,
) -> Problem:
    """The problem of one of the package's reductions."""
    reduction = REDUCTIONS[kind]
    of_16_bits = x.dtype in FLOATING and x.itemsize == 2
    return Problem(
        x,
        accumulator(reduction, x.dtype, dtype),
        axis,
        keepdims,
        dtype,
        correction=correction,
        ordered=reduction.places,
        counts=reduction.counts,
        packed=_packed(reduction, x.dtype, dtype) if of_16_bits else None,
        vectors=of_16_bits and reduction.vectors_16bit or VECTORS,
        reduction=reduction,
    )


def _packed(reduction: Reduction, source: np.dtype, target: np.dtype) -> Accumulator | None:
    """The form of a reduction that takes a load of eight numbers at once; None where there is none,
    as in the simulator."""
    if SIMULATOR or reduction.packed is None:
        return None
    return lazy("kernels", reduction.packed)(reduction, source, target)


def planned(problem: Problem, version: str | None = None) -> Plan:
    """The plan of any reduction, a user's included."""
    if problem.out.size == 0:
        return Plan([problem.out], [])
    return choose("reduce", VERSIONS, problem, version if problem.count else None)
