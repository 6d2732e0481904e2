"""The reduced elements are neighbours (the last axis): threads share a row.

``reduce_rows`` takes rows as a whole, ``reduce_rows_split`` segments of them.
"""

import functools
from typing import Any

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.specs.reduction import Accumulator
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda
from ..lib.strided_index import index_walker, offset_walker
from ..ptx import vector_access
from .block_reduce import across_threads, components, taking
from .partials import combination
from .problem import THREADS, Problem, Walk

# threads of a multiprocessor where eight numbers vary at once: with this bound the compiler keeps
# four loads ahead; and where rows begin between the borders of loads, which takes registers
RESIDENT, RESIDENT_BETWEEN = 1536, 1280


@functools.cache
def _row(reduce: Accumulator, walk: Walk, threads: int) -> Any:
    """Device function: what the threads of a row have of its vectors first .. last - 1 and its
    elements up to `end`; if `head`, of those before the first border of a load too, behind which
    the vectors lie (`head_of`)."""
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
    between = walk.between

    @device_function
    def row(x, o, lane, first, last, end, head):
        start = kept(x, o)
        a, b, c, d = identity(), identity(), identity(), identity()
        if between and first == 0 and lane < head:
            if fours:
                a = follow(a, take_1(load(x, start + lane, 1), lane))
            else:
                b = follow(b, take_1(load(x, start + lane, 1), lane))
        base = start + head
        v = first + lane
        while v + 3 * threads < last:  # four loads set out before the first is used
            p = load(x, base + reduced(x, v * width), width)
            q = load(x, base + reduced(x, (v + threads) * width), width)
            r = load(x, base + reduced(x, (v + 2 * threads) * width), width)
            s = load(x, base + reduced(x, (v + 3 * threads) * width), width)
            if fours:  # of as many numbers each: a variance divides once
                e, f = take(p, head + v * width), take(q, head + (v + threads) * width)
                g, h = (
                    take(r, head + (v + 2 * threads) * width),
                    take(s, head + (v + 3 * threads) * width),
                )
                a = follow(a, follow(follow(e, f), follow(g, h)))
            else:
                a = follow(a, take(p, head + v * width))
                b = follow(b, take(q, head + (v + threads) * width))
                c = follow(c, take(r, head + (v + 2 * threads) * width))
                d = follow(d, take(s, head + (v + 3 * threads) * width))
            v += 4 * threads
        while v < last:
            a = follow(a, take(load(x, base + reduced(x, v * width), width), head + v * width))
            v += threads
        j = head + last * width + lane  # a row that is not a multiple of the vector
        while j < end:
            if fours:
                a = follow(a, take_1(load(x, start + reduced(x, j), 1), j))
            else:
                b = follow(b, take_1(load(x, start + reduced(x, j), 1), j))
            j += threads
        return a if fours else combine(combine(a, b), combine(c, d))

    return row


@functools.cache
def head_of(walk: Walk) -> Any:
    """Device function: how many elements of a row come before the first border of a load."""
    between, last = walk.between, walk.width - 1
    kept = offset_walker(0, walk.kept, walk.narrow, walk.itemsize)

    @device_function
    def head(x, o):
        return -kept(x, o) & last if between else 0

    return head


@functools.cache
def reduce_rows(reduce: Accumulator, walk: Walk, threads: int) -> Any:
    """`threads` threads per row; as many rows a block as fit in it."""
    row, together, finish = (
        _row(reduce, walk, threads),
        across_threads(reduce, threads),
        reduce.finish,
    )
    index, head_of_row = index_walker(0, walk.kept, walk.narrow), head_of(walk)
    width = walk.width
    block = max(threads, THREADS)
    resident = RESIDENT_BETWEEN if walk.between else RESIDENT

    @bounded((block, resident // block) if reduce.meet is not None else block)
    def reduce_rows(x, out, count, divisor):
        """x: kept + reduced dimensions, vectors contiguous along the last; out: the kept ones.
        Block (threads, rows)."""
        o = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        inside = o < out.size  # threads past the end take part in the shuffles
        own, end = (o, count) if inside else (0, 0)
        head = head_of_row(x, own) if inside else 0
        a = together(row(x, own, cuda.threadIdx.x, 0, (end - head) // width, end, head))
        if inside and cuda.threadIdx.x == 0:
            out[index(out, o)] = finish(a, divisor)

    return reduce_rows


@functools.cache
def reduce_rows_split(reduce: Accumulator, walk: Walk) -> Any:
    """A block of THREADS threads per segment of a row."""
    row, together = _row(reduce, walk, THREADS), across_threads(reduce, THREADS)
    put, _ = components(reduce)
    width, head_of_row = walk.width, head_of(walk)

    @bounded(THREADS)
    def reduce_rows_split(x, p, q, r, count, segment):
        """x as for reduce_rows; p, q, r: (results, segments), the numbers of the accumulators;
        segment: in vectors."""
        o, part = cuda.blockIdx.x, cuda.blockIdx.y
        head = head_of_row(x, o)
        first = part * segment
        last = min(first + segment, (count - head) // width)
        end = count if part == cuda.gridDim.y - 1 else 0  # the last segment takes the rest
        a = together(row(x, o, cuda.threadIdx.x, first, last, end, head))
        if cuda.threadIdx.x == 0:
            put((p, q, r), o * cuda.gridDim.y + part, a)

    return reduce_rows_split


def plan(problem: Problem) -> Plan:
    """Planner: each row as a whole."""
    cut = problem.cut_rows(split=False)
    kernel = reduce_rows(problem.accumulator_of_rows, problem.walk(True), cut.block[0])
    arguments = [problem.source, problem.results, problem.count, problem.divisor]
    return Plan([problem.out], [Launch(kernel, cut.groups, cut.block, arguments)])


def plan_split(problem: Problem) -> Plan:
    """Planner: rows in segments, then these together."""
    reduce, cut = problem.accumulator_of_rows, problem.cut_rows(split=True)
    temps, numbers, second = combination(problem, reduce, cut.parts, (cut.parts, 1))
    first = Launch(
        reduce_rows_split(reduce, problem.walk(True)),
        (cut.groups, cut.parts),
        cut.block,
        [problem.source, *numbers, problem.count, cut.segment],
    )
    return Plan([problem.out], [first, second], temps)
