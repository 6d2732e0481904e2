"""Histograms: counts and sums in bins; the choice among their versions.

    operation              computes                                    versions   files
    bincount, histogram    counts in bins                              COUNT      histogram
    between                the same between two scalars, and edges     COUNT      histogram, edges
    in_range               between the smallest and largest number     IN_RANGE   histogram_range
    bin_sums               sums of weights in bins                     SUM        weighted_bincount

Counts are integers, and sums are made in a fixed order: the same bits on every run.
"""

from __future__ import annotations

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR
from ..lib.versions import Version, choose
from .problem import MOST_SHARED, CountProblem, RangeProblem, SumProblem

ONE_BLOCK = 1 << 13  # numbers up to which one block is fastest


def fits_shared_memory(p: CountProblem) -> bool:
    return p.bins <= MOST_SHARED


COUNT = (
    Version(
        "shared_memory",
        "histogram.histogram.in_shared_memory",
        fits_shared_memory,
        reason="each block counts in shared memory",
    ),
    Version(
        "global_memory",
        "histogram.histogram.in_global_memory",
        reason="more bins than shared memory holds: atomics in the second-level cache",
    ),
)


def is_little(p: RangeProblem) -> bool:
    return p.x.size <= ONE_BLOCK


IN_RANGE = (
    Version(
        "one_block",
        "histogram.histogram_range.in_one_block",
        prefers=is_little,
        reason="few numbers: one launch of one block",
    ),
    Version(
        "many_blocks",
        "histogram.histogram_range.in_many_blocks",
        reason="many numbers: blocks find the ends of parts, then count",
    ),
)


def on_gpu(_problem: SumProblem) -> bool:
    """Votes of a warp, which the simulator has not."""
    return not SIMULATOR


SUM = (
    Version(
        "tables",
        "histogram.weighted_bincount.in_tables",
        on_gpu,
        reason="each warp adds into a table of its own",
    ),
    Version(
        "sorted",
        "histogram.weighted_bincount.by_sort",
        reason="more bins than a table holds: sorted and summed",
    ),
)


def bincount(x: Layout, *, bins: int, version: str | None = None) -> Plan:
    """How often each of 0 ... bins - 1 occurs. version: a name in COUNT; by default the preferred
    one."""
    return choose("bincount", COUNT, CountProblem(x, "numbered", bins), version)


def histogram(x: Layout, edges: Layout, *, even: bool, version: str | None = None) -> Plan:
    """How many numbers lie in each bin [edge, next edge); the last one includes its upper edge.
    version: as for `bincount`."""
    problem = CountProblem(x, "even" if even else "uneven", edges.size - 1, edges)
    return choose("histogram", COUNT, problem, version)


def between(x: Layout, *, bins: int, edge: np.dtype, version: str | None = None) -> Plan:
    """-> counts (bins,) int64 and edges (bins + 1,) of this dtype, between two scalars, first and
    last edge. version: as for `bincount`."""
    return choose("between", COUNT, CountProblem(x, "even", bins, between=edge), version)


def in_range(x: Layout, *, bins: int, version: str | None = None) -> Plan:
    """x: at least one number; -> counts (bins,) int64, edges (bins + 1,), and () int64: 1 if the
    range is not finite or has not so many numbers, else 0. version: a name in IN_RANGE; by default
    the preferred one."""
    return choose("in_range", IN_RANGE, RangeProblem(x, bins), version)


def bin_sums(weights: Layout, x: Layout, *, bins: int, version: str | None = None) -> Plan:
    """The sums of the weights where x is 0 ... bins - 1; all of x is in this range. version: a name
    in SUM; by default the preferred one that can do it."""
    return choose("bin_sums", SUM, SumProblem(weights, x, bins), version)
