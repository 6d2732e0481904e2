"""A thread per result. Any strides, any GPU, and Numba's simulator."""

import functools
from typing import Any

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.specs.reduction import Accumulator
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda
from ..lib.integers import blocks
from ..lib.strided_index import index_walker
from ..lib.vector_io import RUN
from .problem import THREADS, Problem


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


def plan(problem: Problem) -> Plan:
    """Planner."""
    view, out = problem.view, problem.out
    kernel = reduce_plain(problem.single, len(view.kept), len(view.reduced), problem.narrow)
    arguments = [problem.source, problem.results, problem.count, problem.divisor]
    return Plan([out], [Launch(kernel, blocks(out.size, THREADS), THREADS, arguments)])
