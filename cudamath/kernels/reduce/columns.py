"""The kept elements are neighbours (the first axis is reduced): each thread owns one vector of
columns and walks down.

``reduce_columns`` takes columns as a whole, ``reduce_columns_split`` segments of them. Where some
of the reduced axes are nearest of all and short, and others lie outside of kept ones, the inner
ones are taken for kept at first (`plan_nested`).
"""

import functools
from typing import Any

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.specs.reduction import Accumulator
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda
from ..lib.strided_index import offset_walker
from ..ptx import vector_access
from .block_reduce import column_reducer, components, for_each, lift_all, result_writer
from .partials import combination
from .problem import Problem, Walk


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

    @device_function
    def fetch(arrays, c, j):
        x = arrays[0]
        return read(load(x, kept(x, c * width) + reduced(x, j), width), j)

    return fetch


@functools.cache
def reduce_columns(reduce: Accumulator, walk: Walk, across: int, down: int) -> Any:
    """A block of (across, down) threads for `across` vectors of columns."""
    columns = column_reducer(reduce, _fetch_columns(reduce, walk), walk.width, across, down)
    write = for_each(result_writer(reduce, walk.kept, walk.narrow), walk.width)
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
    columns = column_reducer(reduce, _fetch_columns(reduce, walk), walk.width, across, down)
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


def plan(problem: Problem) -> Plan:
    """Planner: each column as a whole."""
    cut = problem.cut_columns(split=False)
    kernel = reduce_columns(problem.single, problem.walk(False), *cut.block)
    arguments = [problem.source, problem.results, problem.count, problem.divisor]
    return Plan([problem.out], [Launch(kernel, cut.groups, cut.block, arguments)])


def plan_nested(problem: Problem) -> Plan:
    """Planner: down the outer axes first, as if the inner ones were kept; then the accumulators of
    these."""
    stage, reduce = problem.outer, problem.single
    cut, results = stage.cut_columns(split=True), stage.out.size
    inner = results // problem.out.size
    temps, numbers, second = combination(problem, reduce, cut.parts, (inner, results), inner)
    first = Launch(
        reduce_columns_split(reduce, stage.walk(False), *cut.block),
        (cut.groups, cut.parts),
        cut.block,
        [stage.source, *numbers, results, stage.count, cut.segment],
    )
    return Plan([problem.out], [first, second], temps)


def plan_split(problem: Problem) -> Plan:
    """Planner: columns in segments, then these together."""
    reduce, cut, results = problem.single, problem.cut_columns(split=True), problem.out.size
    temps, numbers, second = combination(problem, reduce, cut.parts, (1, results))
    first = Launch(
        reduce_columns_split(reduce, problem.walk(False), *cut.block),
        (cut.groups, cut.parts),
        cut.block,
        [problem.source, *numbers, results, problem.count, cut.segment],
    )
    return Plan([problem.out], [first, second], temps)
