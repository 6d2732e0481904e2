"""Softmax and log-softmax along one axis, and their gradients: the versions, and the choice among
them.

    y_i = exp(x_i - m) / s,   m = max x,   s = sum exp(x_j - m)
    dx  = y (g - sum(g y))

    log-softmax:   y_i = (x_i - m) - log s,   dx = g - exp(y) sum(g)

Memory sets the floor: read x once, write y once (2 x size bytes). The gradient reads g and y and
writes dx (3 x). An exponential is cheaper than a memory access, so nothing is stored that can be
computed again.

Versions, from simple to fast. An array is seen as (outer, n, inner), with the axis in the middle.
The first three are in simt.py.

1. `plain`          One thread per line of n elements, which reads it three times. Any axis, any
                    GPU, and the simulator.
2. `rows`           inner = 1: a line in the registers of a group of threads (see
                    lib/vector_io.py), read once.
3. `long_rows`      inner = 1, lines too long for registers: the *online* softmax. One pass finds
                    maximum and sum: when the maximum grows from m to m', the sum so far is
                    multiplied by exp(m - m'). A second pass, mostly out of the L2 cache, writes.
4. `shared_memory`  inner = 1, the same lines, on devices whose multiprocessors have shared memory
                    for two lines of 100 KB: what fits is read once.
5. `cluster`        inner = 1, on SM 9.0 and later: such a line in the registers of several blocks,
                    read once.
6. `columns`        inner > 1: a block takes 32 neighbouring lines, so that a warp reads 32
                    neighbouring elements. 8 threads share a line. Each finds an online (m, s) of
                    its part, and the parts are merged.
7. `columns_split`  inner > 1, lines so few that those blocks do not fill the device: in segments,
                    by two launches.

A line with +inf or NaN, or with -inf throughout, is NaN throughout, as on the CPU.

Measured (row versions_softmax):
softmax of 16,384 x 4,096, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                    GB/s     of a copy
    plain            285          0.07
    long_rows      1,307          0.31
    rows           4,061          0.96

(end of what was measured)
"""

from __future__ import annotations

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime.device import capability
from ..lib.versions import Version, choose, never
from . import work
from .online import CACHE
from .problem import LEAST, PARTS, Problem, cut_columns, fits_cluster


def is_inner(p: Problem) -> bool:
    """Lines are runs of memory."""
    return p.inner == 1


def is_outer(p: Problem) -> bool:
    return p.inner > 1


def has_segments(p: Problem) -> bool:
    return p.inner > 1 and p.n > LEAST * PARTS and cut_columns(p)[0] > 1


def held_by_block(p: Problem) -> bool:
    return p.inner == 1 and p.shape is not None


def has_shared_memory(p: Problem) -> bool:
    return p.inner == 1 and p.widest in (4, 8) and capability(p.x.device) in CACHE


VERSIONS = (
    Version(
        "cluster",
        "softmax.cluster.plan",
        fits_cluster,
        reason="the registers of a cluster's blocks hold the line",
        work=work.cluster,
    ),
    Version(
        "rows",
        "softmax.simt.plan_rows",
        held_by_block,
        reason="a block holds the line",
        work=work.rows,
    ),
    Version(
        "shared_memory",
        "softmax.shared_memory.plan",
        has_shared_memory,
        reason="shared memory holds the line, or a part of it",
        work=work.shared_memory,
    ),
    Version(
        "long_rows",
        "softmax.simt.plan_long_rows",
        is_inner,
        reason="no block holds the line",
        work=work.long_rows,
    ),
    Version(
        "columns_split",
        "softmax.columns.plan_split",
        has_segments,
        reason="lines are no runs of memory, and few do not fill the device",
        work=work.columns_split,
    ),
    Version(
        "columns",
        "softmax.columns.plan",
        is_outer,
        reason="lines are no runs of memory",
        work=work.columns,
    ),
    Version("plain", "softmax.simt.plan_plain", prefers=never, work=work.plain),
)


def plan(inputs: tuple[Layout, ...], axis: int, log: bool, *, version: str | None = None) -> Plan:
    """The plan of (log-)softmax of (x,), or of the gradient of (g, y)."""
    problem = Problem(inputs, axis, log)
    if problem.x.size == 0:
        return Plan([problem.x.like()], [])
    return choose("softmax", VERSIONS, problem, version)


def softmax(x: Layout, *, axis: int) -> Plan:
    """x: any shape, C order -> like x."""
    return plan((x,), axis, False)


def log_softmax(x: Layout, *, axis: int) -> Plan:
    """x: any shape, C order -> like x."""
    return plan((x,), axis, True)


def softmax_grad(g: Layout, y: Layout, *, axis: int) -> Plan:
    """g, y: same shape, C order -> like y."""
    return plan((g, y), axis, False)


def log_softmax_grad(g: Layout, y: Layout, *, axis: int) -> Plan:
    """g, y: same shape, C order -> like y."""
    return plan((g, y), axis, True)
