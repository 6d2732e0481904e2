"""Products of groups of rows, each with its own matrix, in one launch: C[rows of g] = A[rows of g]
B[g].

The ends of the groups are in device memory. So the grid is made for the worst case, in which every
group begins a tile of its own, and each block walks along `ends` to find its tile. The gradient for
B is the other grouped product, which sums over the rows: C[g] = A[rows of g]^T B[rows of g].

``grouped_tiled``   16 x 16 tiles of C, any dtype, strides and device
``outer_tiled``     the same where the rows are summed over
``grouped_wgmma``   tensor cores of compute capability 9.0, both kinds (grouped_sm90.py)

The floor: 2 rows x in x out operations; where groups are small, the time in which all of B is read.

Measured (row grouped_small):
64 groups of 64 to 512 rows, 512 -> 512, bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                TFLOP/s      of torch
    cudamath        244          1.17
    torch           209          1.00

(end of what was measured)

Measured (row grouped_8_experts):
8 groups of 200 to 1848 rows, 2048 -> 5632, bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                TFLOP/s      of torch
    cudamath        566          1.20
    torch           472          1.00

(end of what was measured)

Measured (row grouped_64_experts):
64 groups of 100 to 924 rows, 2048 -> 768, bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                TFLOP/s      of torch
    cudamath        494          1.15
    torch           431          1.00

(end of what was measured)
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, TensorMap, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR, cuda
from ..lib.integers import blocks
from ..lib.versions import Version, choose
from .grouped_tiles import i64, in_order, inside
from .measured import TILE, TILES
from .register_tiles import arithmetic
from .sm90_tiles import COSTS


@functools.cache
def grouped_tiled(dtype: np.dtype) -> Any:
    """One block per 16 x 16 tile of C; A and B pass through shared memory."""
    read, write, C = arithmetic(dtype)

    @cuda.jit
    def grouped_tiled(x, weight, ends, out, flag, ticket):
        """x: (rows, in), weight: (groups, in, out), ends: (groups,), out: (rows, out); any strides.
        Blocks of 16 x 16 threads, one for each tile there could be, columns first."""
        rows, columns, depth, groups = out.shape[0], out.shape[1], x.shape[1], ends.size
        tile_a = cuda.shared.array(TILES, C)
        tile_b = cuda.shared.array(TILES, C)
        across, down = cuda.threadIdx.x, cuda.threadIdx.y
        tiles_across = (columns + TILE - 1) // TILE
        tile = cuda.blockIdx.x // tiles_across
        column = (cuda.blockIdx.x - tile * tiles_across) * TILE + across
        if cuda.blockIdx.x == 0:
            for each in range(down * TILE + across, groups, TILE * TILE):
                if not in_order(ends, each, rows):
                    flag[0] = ticket
        group, start, end = 0, i64(0), i64(0)
        while group <= groups:  # behind the last group: rows of no group
            end = inside(ends[group], start, rows) if group < groups else i64(rows)
            tiles_down = (end - start + TILE - 1) // TILE
            if tile < tiles_down:
                break
            tile -= tiles_down
            start = end
            group += 1
        if group > groups:
            return
        row = start + tile * TILE + down
        total = C(0)
        if group < groups:
            for k in range(0, depth, TILE):
                if row < end and k + across < depth:
                    tile_a[down, across] = read(x[row, k + across])
                else:
                    tile_a[down, across] = C(0)
                if column < columns and k + down < depth:
                    tile_b[down, across] = read(weight[group, k + down, column])
                else:
                    tile_b[down, across] = C(0)
                cuda.syncthreads()
                for i in range(TILE):
                    total = C(total + tile_a[down, i] * tile_b[i, across])
                cuda.syncthreads()
        if row < end and column < columns:
            out[row, column] = write(total)

    return grouped_tiled


@functools.cache
def outer_tiled(dtype: np.dtype) -> Any:
    """One block per 16 x 16 tile of one group's C."""
    read, write, C = arithmetic(dtype)

    @cuda.jit
    def outer_tiled(x, y, ends, out, flag, ticket):
        """x: (rows, in), y: (rows, out), ends: (groups,), out: (groups, in, out); any strides.
        Blocks of 16 x 16 threads; grid (tiles of a matrix, groups)."""
        rows, height, width = x.shape[0], out.shape[1], out.shape[2]
        tile_a = cuda.shared.array(TILES, C)
        tile_b = cuda.shared.array(TILES, C)
        across, down = cuda.threadIdx.x, cuda.threadIdx.y
        tiles_across = (width + TILE - 1) // TILE
        tile_row = cuda.blockIdx.x // tiles_across
        row0 = tile_row * TILE
        column = (cuda.blockIdx.x - tile_row * tiles_across) * TILE + across
        group = cuda.blockIdx.y
        start = inside(ends[group - 1], 0, rows) if group > 0 else i64(0)
        end = inside(ends[group], start, rows)
        if cuda.blockIdx.x == 0 and across + down == 0 and not in_order(ends, group, rows):
            flag[0] = ticket
        total = C(0)
        for k in range(start, end, TILE):
            if k + down < end and row0 + across < height:
                tile_a[down, across] = read(x[k + down, row0 + across])
            else:
                tile_a[down, across] = C(0)
            if k + down < end and column < width:
                tile_b[down, across] = read(y[k + down, column])
            else:
                tile_b[down, across] = C(0)
            cuda.syncthreads()
            for i in range(TILE):
                total = C(total + tile_a[i, down] * tile_b[i, across])
            cuda.syncthreads()
        if row0 + down < height and column < width:
            out[group, row0 + down, column] = write(total)

    return outer_tiled


# -------------------- planners


@dataclasses.dataclass(frozen=True)
class Problem:
    """A grouped product of x (rows, ..) and `other`: matrices of the groups, or rows for the outer
    product. sizes: what TMA reads and stores rows of; tile: of the sm90 version."""

    x: Layout
    other: Layout
    groups: int
    sizes: tuple[int, int]
    tile: str = ""

    @property
    def rows(self) -> int:
        return self.x.shape[0]

    @property
    def multiprocessors(self) -> int:
        return devices.multiprocessors(self.x.device)


def _sm90(p: Problem) -> bool:
    """Whether TMA can read these rows, and wgmma multiply them. There must be something to
    multiply."""
    return bool(
        not SIMULATOR
        and p.x.itemsize == 2
        and p.groups
        and p.rows
        and devices.capability(p.x.device) == (9, 0)
        and p.x.aligned
        and p.other.aligned
        and all(size and size % 8 == 0 for size in p.sizes)
    )


def tile_sizes(groups: int, rows: int, k: int, n: int, multiprocessors: int) -> tuple[int, int]:
    """The tile that suits groups of so many rows each (rows, n: of C): see
    sm90_tiles.COSTS."""

    def time(tile: tuple[int, int]) -> float:
        slab, rest = COSTS[(*tile, False)]
        return blocks(groups * blocks(rows, tile[0]) * blocks(n, tile[1]), multiprocessors) * (
            slab * blocks(k, 64) + rest
        )

    return min(
        ((m, n) for m, n, pingpong in COSTS if m <= 128 and n != 192 and not pingpong), key=time
    )


def plan_sm90(p: Problem) -> Plan:
    """C[rows of g] = A[rows of g] B[g] on tensor cores."""
    rows, (depth, columns), groups = p.rows, p.sizes, p.groups
    height, width = _tile(p.tile) or tile_sizes(
        groups, blocks(rows, groups), depth, columns, p.multiprocessors
    )
    major = "M" if p.other.contiguous else "K"
    shape = (groups, depth, columns) if major == "M" else (groups, columns, depth)
    across = blocks(columns, width)
    return _wgmma(
        p.x.like((rows, columns)),
        (1, rows, depth),
        "K",
        shape,
        major,
        (1, rows, columns),
        False,
        [rows, columns, depth, groups, 0, across],
        (blocks(rows, height) + groups) * across,
        height,
        width,
    )


def plan_tiled(p: Problem) -> Plan:
    """The same by 16 x 16 tiles."""
    rows, columns = p.rows, p.sizes[1]
    grid = (blocks(rows, TILE) + p.groups + 1) * blocks(columns, TILE)
    arrays = [Input(0), Input(1), Input(2), Output(0), Flag(), Ticket()]
    launch = Launch(grouped_tiled(p.x.dtype), grid, TILES, arrays)
    return Plan([p.x.like((rows, columns))], [launch])


def outer_plan_sm90(p: Problem) -> Plan:
    """C[g] = A[rows of g]^T B[rows of g] on tensor cores."""
    rows, (height, width), groups = p.rows, p.sizes, p.groups
    tile_m, tile_n = _tile(p.tile) or tile_sizes(
        groups, height, blocks(rows, groups), width, p.multiprocessors
    )
    down, across = blocks(height, tile_m), blocks(width, tile_n)
    out = p.x.like((groups, height, width))
    return _wgmma(
        out,
        (1, rows, height),
        "M",
        (1, rows, width),
        "M",
        out.shape,
        True,
        [height, width, rows, groups, down, across],
        groups * down * across,
        tile_m,
        tile_n,
    )


def outer_plan_tiled(p: Problem) -> Plan:
    """The same by 16 x 16 tiles."""
    height, width = p.sizes
    grid = (blocks(height, TILE) * blocks(width, TILE), p.groups)
    arrays = [Input(0), Input(1), Input(2), Output(0), Flag(), Ticket()]
    launch = Launch(outer_tiled(p.x.dtype), grid, TILES, arrays)
    return Plan([p.x.like((p.groups, height, width))], [launch])


VERSIONS = (
    Version("sm90", "matmul.grouped.plan_sm90", supports=_sm90, reason="tensor cores"),
    Version("tiled", "matmul.grouped.plan_tiled", reason="any dtype and device"),
)
OUTER_VERSIONS = (
    Version("sm90", "matmul.grouped.outer_plan_sm90", supports=_sm90, reason="tensor cores"),
    Version("tiled", "matmul.grouped.outer_plan_tiled", reason="any dtype and device"),
)


def grouped_matmul(x: Layout, weight: Layout, ends: Layout, *, version: str | None = None) -> Plan:
    """Planner. x (rows, in), ends: contiguous; weight (groups, in, out): it or its transpose
    contiguous.

    version: a name of `VERSIONS`; for "sm90" a tile may follow ("sm90 128x128").
    """
    name, _, tile = (version or "").partition(" ")
    groups, depth, columns = weight.shape
    problem = Problem(x, weight, groups, (depth, columns), tile)
    out = x.like((problem.rows, columns))
    if not out.size:
        return Plan([out], [])
    return choose("grouped_matmul", VERSIONS, problem, name or None)


def grouped_outer(x: Layout, y: Layout, ends: Layout, *, version: str | None = None) -> Plan:
    """Planner. x (rows, in), y (rows, out), ends (groups,): contiguous. version: as of
    grouped_matmul."""
    name, _, tile = (version or "").partition(" ")
    problem = Problem(x, y, ends.size, (x.shape[1], y.shape[1]), tile)
    out = x.like((ends.size, *problem.sizes))
    if not out.size:
        return Plan([out], [])
    return choose("grouped_outer", OUTER_VERSIONS, problem, name or None)


def _tile(text: str) -> tuple[int, int] | None:
    """Rows and columns of a tile: "128x256"."""
    if not text:
        return None
    m, n = map(int, text.split("x"))
    return m, n


def _wgmma(
    out: Layout,
    shape_a: tuple[int, ...],
    major_a: str,
    shape_b: tuple[int, ...],
    major_b: str,
    shape_c: tuple[int, ...],
    outer: bool,
    numbers: list[int],
    tiles: int,
    tile_m: int,
    tile_n: int,
) -> Plan:
    """The plan of either by wgmma. numbers: see the kernel; tiles: as many as there can be."""
    from .grouped_sm90 import grouped_wgmma
    from .sm90 import Tile, box_of
    from .tensor_core_dispatch import KINDS

    tile = Tile(KINDS[out.dtype.name], major_a, major_b, tile_m, tile_n, False, "box")
    maps = [
        TensorMap(Input(0), shape_a, None, box_of(tile, major_a, tile_m)),
        TensorMap(Input(1), shape_b, None, box_of(tile, major_b, tile_n)),
        TensorMap(Output(0), shape_c, None, (1, 64, 64)),
    ]
    return Plan(
        [out],
        [
            Launch(
                grouped_wgmma(tile, outer),
                min(devices.multiprocessors(out.device), tiles),
                tile.threads,
                [*maps, Output(0).flat, Input(2), Flag(), Ticket(), *map(np.int32, numbers)],
                tile.shared,
                early=True,
            )
        ],
        why=f"sm90 {tile_m}x{tile_n}",
    )
