"""Sorting along an axis, stable, for every real dtype: values, or the positions that would sort
them; partitions; the choice among the versions.

The idea. Kernels sort keys (radix_keys.py): unsigned integers in the order of the numbers. So one
kernel serves floats, integers and bool, either direction, NaNs last. Lines along the axis are rows,
and the same launches sort all rows.

Versions of a sort, from simple to fast:

    bitonic             rows of up to 4,096 elements, in shared memory: bitonic.py
    bitonic_registers   the same, in registers: rows of more than 64 elements
    rank_sort           few rows of 512 to 8,192 elements: every key is compared with all others of
                        its row: rank_sort.py
    block_radix         a row in a block, all digits in one launch: block_radix.py
    radix               rows of any length, on any GPU and the simulator: radix_sort.py
    onesweep            the same with one launch and one read per digit: onesweep.py

A partition finds the element at the rank digit by digit and divides the line there
(radix_select.py), or sorts the line. `topk` of a few elements selects them (select_few.py), of
most elements of short lines it ranks all (rank_sort.py, which has the medians of short lines too).
Order statistics: radix_select.py. Searches in sorted arrays: binary_search.py.

Floor: one read and one write of the elements for the networks; radix sorts: see onesweep.py.

Measured (row versions_sort_rows):
rows of 16,384 x 1,024, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                    GB/s     of a copy
    sort_rows        126          0.03
    sort_held        265          0.06

(end of what was measured)

Measured (row versions_sort):
2^24 float32, counted as one read and four times a read and a write of each; NVIDIA H200, commit
52457ee46004, 2026-11-23

                   GB/s     of a copy
    radix          18.2          0.00
    onesweep      1,504          0.36

(end of what was measured)
"""

from __future__ import annotations

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR
from ..lib.versions import Version, choose
from .problem import (
    MOST_LEADING,
    NETWORK,
    PAIRS,
    LeadingProblem,
    PartitionProblem,
    SortProblem,
    block_shape,
)
from .work import block_microseconds, network_microseconds, radix_microseconds

REGISTERS = 64  # elements of a row, beyond which the network in registers is faster
RANKED, MOST_RANKED = 512, 8192  # rank_sort: rows of more elements than the first, up to the second
# .. beside a network, if all rows have no more elements than this; longer rows, which take as many
# launches as their keys have digits, up to so many comparisons in all
MOST_RANKED_TOGETHER, MOST_COMPARISONS = 2 * NETWORK, 1 << 26
# partitions: lines of more elements, up to what one block holds, are divided rather than sorted
SHORT, BLOCK_LINE = 1024, 8192
LONG, LONGEST = 1 << 16, 1 << 31  # as are lines of this length; counts have 31 bits
MOST_LINES = 1 << 10  # of them,
MANY = 1 << 20  # with so many elements in all: below, launches would cost as much as a sort


# -------------------- versions


def fits_network(p: SortProblem) -> bool:
    return p.n <= NETWORK


def fits_registers(p: SortProblem) -> bool:
    """The network whose lanes exchange keys by shuffles, which the simulator has not."""
    return fits_network(p) and not SIMULATOR


def on_gpu(_problem: SortProblem) -> bool:
    return not SIMULATOR


def prefers_ranks(p: SortProblem) -> bool:
    """Rows so short, and so few, that n^2 independent comparisons take less time than a network or
    a launch for each digit."""
    if not RANKED < p.n <= MOST_RANKED or SIMULATOR:
        return False
    if fits_network(p):
        return p.rows * p.n <= MOST_RANKED_TOGETHER
    return p.rows * p.n * p.n <= MOST_COMPARISONS


def prefers_network(p: SortProblem) -> bool:
    """Short rows, and those of which a radix sort, digit by digit, is expected to take longer. (The
    simulator has no clock.)"""
    if p.n <= 2 * PAIRS or not fits_network(p) or SIMULATOR:
        return fits_network(p)
    return network_microseconds(p) <= radix_microseconds(p)


def fits_block(p: SortProblem) -> bool:
    return not SIMULATOR and block_shape(p) is not None


def prefers_block(p: SortProblem) -> bool:
    """Rows for which it is expected to take less time than what else there is."""
    others = [radix_microseconds(p)] + fits_network(p) * [network_microseconds(p)]
    return block_microseconds(p) < min(others)


def prefers_registers(p: SortProblem) -> bool:
    return prefers_network(p) and p.n > REGISTERS


SORT = (
    Version(
        "rank_sort",
        "sort.rank_sort.sort",
        prefers=prefers_ranks,
        reason="few rows of up to 8,192 elements: each key is compared with all of its row",
    ),
    Version(
        "block_radix",
        "sort.block_radix.plan",
        fits_block,
        prefers_block,
        "rows that a block holds: digit by digit, in one launch",
    ),
    Version(
        "bitonic_registers",
        "sort.bitonic.in_registers",
        fits_registers,
        prefers_registers,
        "short rows: a network in registers",
    ),
    Version(
        "bitonic",
        "sort.bitonic.in_shared_memory",
        fits_network,
        prefers_network,
        "short rows: a network in shared memory",
    ),
    Version(
        "onesweep",
        "sort.onesweep.sort",
        on_gpu,
        reason="long rows: one read and one write per digit",
    ),
    Version("radix", "sort.radix_sort.sort", reason="any GPU and the simulator"),
)


def divides(p: PartitionProblem) -> bool:
    """One rank, and counts of 31 bits."""
    return not SIMULATOR and len(set(p.ranks)) == 1 and p.n < LONGEST


def prefers_division(p: PartitionProblem) -> bool:
    if p.n <= BLOCK_LINE:
        return p.n > SHORT
    return p.n >= LONG and p.rows <= MOST_LINES and p.x.size >= MANY


PARTITION = (
    Version(
        "radix_select",
        "sort.radix_select.partition",
        divides,
        prefers_division,
        "divided at the rank, which is found digit by digit",
    ),
    Version(
        "sort",
        "sort.dispatch.partition_by_sort",
        reason="sorted: lines that are short or many, or several ranks",
    ),
)


def finds_few(p: LeadingProblem) -> bool:
    """Lines of which few elements are wanted, and not most of them."""
    return p.count <= MOST_LEADING and p.count <= max(p.n // 2, 1)


def prefers_few(p: LeadingProblem) -> bool:
    return p.n > RANKED or p.x.size > MOST_RANKED_TOGETHER


TOPK = (
    Version(
        "select_few",
        "sort.select_few.topk",
        finds_few,
        prefers_few,
        "few elements of a line: found digit by digit, and ranked among themselves",
    ),
    Version(
        "rank_sort",
        "sort.rank_sort.topk",
        reason="short lines: each key is compared with all of its line",
    ),
)


# -------------------- planners


def topk(x: Layout, *, axis: int, count: int, descending: bool, version: str | None = None) -> Plan:
    """The first ``count`` elements along ``axis`` that a sort would give, in order, and their
    positions (int64). version: a name in TOPK; by default the preferred one."""
    problem = LeadingProblem(x, axis, count, descending)
    if not x.size or not count:
        return Plan(problem.outputs, [])
    return choose("topk", TOPK, problem, version)


def sort(x: Layout, *, axis: int, descending: bool, version: str | None = None) -> Plan:
    """x sorted along ``axis``. version: a name in SORT; by default the preferred one."""
    return _sorted(SortProblem(x, axis, descending, False), version)


def argsort(x: Layout, *, axis: int, descending: bool, version: str | None = None) -> Plan:
    """The positions (int64) along ``axis`` that sort x. version: as for `sort`."""
    return _sorted(SortProblem(x, axis, descending, True), version)


def _sorted(problem: SortProblem, version: str | None = None) -> Plan:
    if not problem.x.size:
        return Plan([problem.out], [])
    return choose("sort", SORT, problem, version)


def partition(x: Layout, *, axis: int, kth: tuple[int, ...], version: str | None = None) -> Plan:
    """x with the elements of these ranks along ``axis`` in their places, smaller ones before
    them. version: a name in PARTITION; by default the preferred one."""
    return _partitioned(PartitionProblem(x, axis, kth, False), version)


def argpartition(x: Layout, *, axis: int, kth: tuple[int, ...], version: str | None = None) -> Plan:
    """The positions (int64) that partition x. version: as for `partition`."""
    return _partitioned(PartitionProblem(x, axis, kth, True), version)


def _partitioned(problem: PartitionProblem, version: str | None) -> Plan:
    if not problem.x.size:
        return _sorted(SortProblem(problem.x, problem.axis, False, problem.positions))
    return choose("partition", PARTITION, problem, version)


def partition_by_sort(p: PartitionProblem) -> Plan:
    """A sorted line is partitioned at every rank."""
    plan = _sorted(SortProblem(p.x, p.axis, False, p.positions))
    plan.why = ""  # that of the partition's version takes its place
    return plan
