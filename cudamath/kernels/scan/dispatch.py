"""Running totals along an axis (cumsum, cumprod, cummax, cummin), in one pass.

The idea. A scan is an associative ``combine`` and y[i] = x[0] combine ... combine x[i]. One thread
can walk along a line and write as it goes, at the price of one read and one write per element. Few
long lines need more threads than lines, and then each thread has to know the total of what comes
before its part:

``scan_lines``    (lines.py) One thread per line; neighbouring threads, neighbouring lines. Any
                  strides, any GPU, the simulator; the right choice where lines are many (a scan
                  down the columns of a matrix). Few lines are cut into segments: ``line_totals``
                  reads each segment once more to compute its total.
``scan_rows``     (rows.py) Many rows of neighbours, too short for the threads of a tile. A warp or
                  a part of one takes a row and goes along it with the total in registers. No block
                  waits for another, no warp for another.
``scan_ring``     (sm90.py) Long lines on SM 9.0, in tiles that are prefetched and whose totals are
                  published ahead.
``scan_columns``  (strided.py) Lines that are interleaved with other lines. One block takes a strip
                  of them: one pass.
``scan_tiles``    (tiles.py) Lines of neighbours, in tiles of 512 threads x some 16-byte accesses.
                  Within a tile each thread scans its vectors, a warp scans their totals by
                  shuffles, and the warps exchange totals in shared memory. Between tiles, while all
                  of them run:

                    group 0                         group 1
                    tile 0   tile 1  ...  tile 511  tile 512  tile 513 ...
                    A0       A1           A511      A512      A513          A: the tile's total,
                             published at once
                    P1 = all of group 0, by its last tile ->                P2 = P1 + all of group 1

                  A tile needs the P of its group and the A's before it in its group, which 512
                  threads read at once and add as a tree. So the order of additions depends on
                  positions alone: a float scan is the same bit for bit whichever tile is first. The
                  usual look-back adds the totals that it happens to find. Blocks start in the order
                  of their numbers, as every single-pass scan assumes: the tiles that a tile waits
                  for already run.

                  A row that a block can hold is one tile, and the tiles of a somewhat longer one
                  are those of a cluster (SM 9.0), which exchange totals in shared memory: then no
                  words are reset by a launch ahead.

The floor is a read and a write of each element; ``scan_tiles`` adds one read in L2 of up to 512
totals a tile, nothing to memory. A published word of 64 bits holds 32 bits of a total and a flag
beside them (ptx/lookback.py): no fences.

Totals are kept in the type of the result, 16-bit floats in float32. core/specs/scans.py defines the
scans.

Source: Merrill and Garland (2016), Single-pass Parallel Prefix Scan with Decoupled Look-back; the
groups are ours.

Measured (row versions_scan):
running sums of the rows of 64 x 2^20, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                     GB/s     of a copy
    scan_lines       45.2          0.01
    scan_tiles      2,882          0.68
    scan_ring       3,948          0.93

(end of what was measured)
"""

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...core.specs.scans import SCANS
from ..compiler.lazy_numba import SIMULATOR
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.versions import Version, choose
from . import work
from .problem import LONGEST, Problem

VERSIONS = (
    Version("lines", "scan.lines.plan", reason="a thread per line", work=work.lines),
    Version(
        "columns",
        "scan.strided.plan",
        reason="neighbours in memory are other lines: strips of them",
        work=work.columns,
    ),
    Version(
        "rows",
        "scan.rows.plan",
        supports=lambda p: not SIMULATOR and p.n <= LONGEST,
        reason="a warp or a part of one takes a row",
        work=work.rows,
    ),
    Version(
        "ring",
        "scan.sm90.plan",
        supports=lambda p: p.has_ring,
        reason="tiles are prefetched, and their totals published ahead",
        work=work.ring,
    ),
    Version(
        "tiles",
        "scan.tiles.plan",
        supports=lambda _: not SIMULATOR,
        reason="long rows, for any GPU",
        work=work.tiles,
    ),
)


def scan(x: Layout, *, kind: str, axis: int, dtype: np.dtype, version: str | None = None) -> Plan:
    """Running totals along ``axis`` in ``dtype``. kind: the name of a definition in
    core/specs/scans.py; version: a name in VERSIONS."""
    problem = Problem(x, kind, axis, dtype)
    if not problem.out.size:
        return Plan([problem.out], [])
    if problem.n == 1 and version is None and not SCANS[kind].skips_nan:
        copy = copy_part(whole(Input(0), x), whole(Output(0), problem.out))
        return Plan([problem.out], copy, why="lines of one element: a copy")
    if SIMULATOR and version is None:
        version = "lines"  # the simulator has no clock by which versions could be ranked
    return choose("scan", VERSIONS, problem, version)
