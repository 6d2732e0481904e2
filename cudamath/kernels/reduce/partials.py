"""The second launch of a reduction whose rows or columns are cut into segments: it combines their
accumulators, in their order."""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Temp
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...core.specs.reduction import Accumulator
from ...runtime.device import capability
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda
from ..lib.integers import blocks, power_of_two
from .block_reduce import column_reducer, components, result_writer
from .problem import THREADS, Problem

if not SIMULATOR:
    from ..ptx import sm90 as ptx_sm90

EACH = 4  # accumulators that a thread reads before it combines the first
RUN = 4  # results next to each other that a block has at the least: a sector of eight-byte numbers


@functools.cache
def reduce_partials(
    reduce: Accumulator,
    kept: int,
    narrow: bool,
    across: int,
    down: int,
    early: bool,
    nested: bool,
) -> Any:
    """The second launch: combines the accumulators of the segments of each result, in their order.
    early: launched before they are there (compute capability 9.0); nested: segments have several
    accumulators of a result."""
    _, get = components(reduce)

    @device_function
    def fetch(arrays, o, part):
        if not nested:
            return (get(arrays[0], o * arrays[1] + part * arrays[2]),)
        segment = part // arrays[3]
        return (get(arrays[0], o * arrays[1] + segment * arrays[2] + part - segment * arrays[3]),)

    columns = column_reducer(reduce, fetch, 1, across, down)
    write = result_writer(reduce, kept, narrow)

    @device_function
    def combine_parts(p, q, r, out, parts, between_results, between_parts, inner, divisor):
        o = cuda.blockIdx.x * across + cuda.threadIdx.x
        inside = o < out.size
        a = columns(
            ((p, q, r), between_results, between_parts, inner),
            o if inside else 0,
            0,
            parts if inside else 0,
        )
        if inside and cuda.threadIdx.y == 0:
            write((out, divisor), o, a[0])

    @bounded(across * down)
    def reduce_partials(p, q, r, out, parts, between_results, between_parts, inner, divisor):
        """p, q, r: accumulators, one dimension; out: the kept dimensions; distances in p, q, r in
        elements; inner: neighbouring accumulators of each segment."""
        combine_parts(p, q, r, out, parts, between_results, between_parts, inner, divisor)

    if not early:
        return reduce_partials
    wait_for_previous = ptx_sm90.wait_for_previous

    @bounded(across * down)
    def reduce_partials_early(p, q, r, out, parts, between_results, between_parts, inner, divisor):
        """The same."""
        wait_for_previous()
        combine_parts(p, q, r, out, parts, between_results, between_parts, inner, divisor)

    return reduce_partials_early


def combination(
    problem: Problem,
    reduce: Accumulator,
    segments: int,
    between: tuple[int, int],
    inner: int = 1,
) -> tuple[list[Layout], list[Temp], Launch]:
    """The scratch arrays for the accumulators of so many segments of each result, the arguments p,
    q, r that stand for them, and the launch that combines them. between: the distances in these
    arrays from result to result and from segment to segment; inner: neighbouring accumulators of
    each segment."""
    x, results, parts = problem.x, problem.out.size, segments * inner
    temps = [x.like((results * parts,), np.dtype(str(kind))) for kind in reduce.kinds]
    numbers = [Temp(i if i < len(temps) else 0) for i in range(3)]
    across = min(power_of_two(results), 32)
    while across > RUN and parts > EACH * (THREADS // across):
        across //= 2  # few results of many parts: a thread would walk down dozens of them
    down = min(power_of_two(parts), THREADS // across)
    early = not SIMULATOR and capability(x.device) >= (9, 0)
    kept, narrow = len(problem.view.kept), problem.narrow
    kernel = reduce_partials(reduce, kept, narrow, across, down, early, inner > 1)
    launch = Launch(
        kernel,
        blocks(results, across),
        (across, down),
        [*numbers, problem.results, parts, *between, inner, problem.divisor],
        early=early,
    )
    return temps, numbers, launch
