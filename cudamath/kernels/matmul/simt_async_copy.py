"""float32 products without tensor cores, on compute capability 8.0 and later: ``matmul_async``.

What limits ``matmul_block`` (simt.py). A multiprocessor starts one instruction per clock in each of
its quarters, and a multiply-add is one instruction. Every other instruction in the loop takes the
place of a multiply-add. Of 1,175 instructions there 1,024 are multiply-adds and 48 read shared
memory. The other 103 load the next slab: addresses, bounds, zeros where an operand ends, loads into
registers, stores into shared memory, and that for slabs of 8 steps. Operands that cannot be read
four numbers at once are copied first.

``matmul_async`` keeps the tiles (128 x 128, each thread 16 x 8) and has 2,048 multiply-adds among
2,224 instructions:

    cp.async             copies from memory to shared memory past the registers, also 4 bytes at a
                         time: an operand whose neighbours lie along k is transposed on its way, and
                         one of odd strides needs no copy. Beyond the edge of an operand the
                         instruction itself writes zeros
    slabs of 16 steps    triple-buffered, two of them in flight: one barrier for 2,048 multiply-adds
    the remainder first  the first slab has the remainder of k, and zeros beyond; in the loop all
                         slabs are whole
    one step ahead       the numbers of the next step are read from shared memory while those of
                         this one are multiplied
    banks of registers   a multiply-add reads three registers, two of which must not share a bank:
                         see the end of the kernel

Rows of a slab in shared memory are padded from 128 to 132 numbers. A warp loads 4 rows and 8 steps
of an operand whose neighbours lie along k. With this padding the 32 numbers go to 32 different
banks.

``matmul_async_small`` is the same with tiles of 64 x 64 by two warps, a thread 8 x 8, eight blocks
per multiprocessor: for many products of small matrices.

The floor: see dispatch.py.

Measured (row versions_matmul_float32):
4,096 x 4,096 x 4,096, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                       TFLOP/s     of cuBLAS
    matmul_naive           1.3          0.03
    matmul_tiled           7.0          0.14
    matmul_register       41.7          0.82
    matmul_block          46.0          0.90
    matmul_async          50.4          0.99
    cuBLAS                51.1          1.00

(end of what was measured)
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.integers import blocks
from ..lib.plan_edit import embed
from ..lib.tma_pipeline import tile_at
from ..ptx import sm80 as ptx
from ..ptx.intrinsics import instruction
from .aligned_copy import dense
from .problem import Problem, Product
from .register_tiles import Offsets, _finish, plan_naive, register_tiles
from .split_k import in_parts

DEPTH = 16  # steps of k in a slab
STAGES = 3  # slabs in shared memory
PARTS = DEPTH // 2  # in which the copies of a slab stand between the arithmetic of another
# multiply-adds in the time of a number on its way to or from memory: 25e12 and 0.9e12 a second
# (H200)
MEMORY = 28


class Tile(NamedTuple):
    """The tile of C that a block computes: side x side by `threads`, a thread `rows` x 8; blocks
    per multiprocessor."""

    side: int
    threads: int
    rows: int
    blocks: int

    @property
    def row(self) -> int:
        """Bytes of a row of a slab: one step of k."""
        return (self.side + 4) * 4

    @property
    def stage(self) -> int:
        """Bytes of a slab of A and of B."""
        return 2 * DEPTH * self.row


LARGE, SMALL = Tile(128, 128, 16, 2), Tile(64, 64, 8, 8)

i32, i64, f32 = types.int32, types.int64, types.float32

load_4 = instruction(
    "load_shared_float_4",
    "ld.shared.v4.f32 {$0, $1, $2, $3}, [$4];",
    (f32,) * 4,
    (i32,),
    "16 bytes at a shared address, as four float32.",
    pure=False,
)


def _copy_below(size: int, cache: str) -> Any:
    return instruction(
        f"copy_{size}_below",
        "{ .reg .pred p; setp.ge.s32 p, $2, $3; "
        f"cp.async.{cache}.shared.global [$0], [$1], {size}, p; }}",
        None,
        (i32, i64, i32, i32),
        f"{size} bytes from a global to a shared address, or zeros unless $2 < $3.",
        pure=False,
    )


copy_4_below, copy_16_below = _copy_below(4, "ca"), _copy_below(16, "cg")


class Slabs(NamedTuple):
    """How the threads of a block bring slabs of an operand x[batch, i, k] into shared memory s[k,
    i]: device functions.

    A thread copies the same places of each slab. Beyond the last i, zeros come.
    """

    place: Any  # (thread) -> (i, k): the first of its places, from the corner of a slab on
    step: Any  # (x) -> bytes from one slab to the next along k
    # (to, at, x, i, size, left, k): copies the first slab, of which `left` steps are there; zeros
    # beyond
    first: Any
    # (to, at, x, i, limit, part, parts): copies one of `parts` parts of a slab: where i < limit,
    # else zeros
    bring: Any


@functools.cache
def _along_k(tile: Tile) -> Slabs:
    """Neighbours lie along k: a warp loads 4 rows of 8 steps, 4 bytes per thread."""
    rows, row = (
        tile.threads // 8,
        tile.row,
    )  # that the block loads at a time; bytes in shared memory
    count = tile.side // rows

    @device_function
    def place(thread):
        return i32(thread >> 3), i32(thread & 7)

    @device_function
    def step(x):
        return i64(4 * DEPTH)

    @device_function
    def first(to, at, x, i, size, left, k):
        for j in range(count):
            for half in range(DEPTH // 8):
                inside = i32(4) if k + 8 * half < left and i + rows * j < size else i32(0)
                ptx.copy_4_or_zero(
                    i32(to + half * 8 * row + j * rows * 4),
                    at + j * rows * x.strides[1] + 32 * half,
                    inside,
                )

    @device_function
    def bring(to, at, x, i, limit, part, parts):
        for j in range(part * count // parts, (part + 1) * count // parts):
            for half in range(DEPTH // 8):
                copy_4_below(
                    i32(to + half * 8 * row + j * rows * 4),
                    at + j * rows * x.strides[1] + 32 * half,
                    i32(i + rows * j),
                    limit,
                )

    return Slabs(place, step, first, bring)


@functools.cache
def _across(tile: Tile, wide: bool) -> Slabs:
    """Neighbours lie along i. wide: 16 bytes per thread, rows of a slab at once; else 4 bytes, 32
    numbers at a time."""
    numbers, row = (4 if wide else 1), tile.row
    lanes = tile.side // 4 if wide else 32
    turns = tile.side // (lanes * numbers)
    steps = tile.threads // lanes  # that the block loads at a time
    count = DEPTH // steps

    @device_function
    def place(thread):
        return i32((thread % lanes) * numbers), i32(thread // lanes)

    @device_function
    def step(x):
        return DEPTH * x.strides[2]

    @device_function
    def first(to, at, x, i, size, left, k):
        for j in range(count):
            for turn in range(turns):
                inside = (
                    i32(4 * numbers) if k + steps * j < left and i + lanes * turn < size else i32(0)
                )
                if wide:
                    ptx.copy_16_or_zero(
                        i32(to + j * steps * row), at + j * steps * x.strides[2], inside
                    )
                else:
                    ptx.copy_4_or_zero(
                        i32(to + j * steps * row + 128 * turn),
                        at + j * steps * x.strides[2] + 128 * turn,
                        inside,
                    )

    @device_function
    def bring(to, at, x, i, limit, part, parts):
        for j in range(part * count // parts, (part + 1) * count // parts):
            for turn in range(turns):
                if wide:
                    copy_16_below(
                        i32(to + j * steps * row), at + j * steps * x.strides[2], i, limit
                    )
                else:
                    copy_4_below(
                        i32(to + j * steps * row + 128 * turn),
                        at + j * steps * x.strides[2] + 128 * turn,
                        i32(i + 32 * turn),
                        limit,
                    )

    return Slabs(place, step, first, bring)


def _slabs(tile: Tile, order: str) -> Slabs:
    """order: see register_tiles._slab."""
    return _along_k(tile) if order == "K" else _across(tile, order == "I")


@functools.cache
def _own(tile: Tile) -> tuple[Any, Any, int, int]:
    """What a thread owns of a tile: (where, read, next_row, next_column).

    where(thread) -> (row, column), of the first 4 x 4 sums; read(x, y, at_a, at_b): the numbers of
    a step that they need. Groups of 4 rows are next_row apart, the two groups of 4 columns
    next_column.
    """
    if tile.rows == 16:  # four warps, each 64 x 64

        @device_function
        def where(thread):
            lane, warp = i32(thread & 31), i32(thread >> 5)
            return i32((warp >> 1) * 64 + (lane >> 3) * 4), i32((warp & 1) * 64 + (lane & 7) * 4)

        @device_function
        def read(x, y, at_a, at_b):
            x[0], x[1], x[2], x[3] = load_4(at_a)
            y[0], y[1], y[2], y[3] = load_4(at_b)
            x[4], x[5], x[6], x[7] = load_4(i32(at_a + 64))
            y[4], y[5], y[6], y[7] = load_4(i32(at_b + 128))
            x[8], x[9], x[10], x[11] = load_4(i32(at_a + 128))
            x[12], x[13], x[14], x[15] = load_4(i32(at_a + 192))

        return where, read, 16, 32

    @device_function
    def where(thread):  # two warps, each 64 x 32
        lane, warp = i32(thread & 31), i32(thread >> 5)
        return i32(((lane >> 1) & 7) * 4), i32(warp * 32 + ((lane >> 4) * 2 + (lane & 1)) * 4)

    @device_function
    def read(x, y, at_a, at_b):
        x[0], x[1], x[2], x[3] = load_4(at_a)
        y[0], y[1], y[2], y[3] = load_4(at_b)
        x[4], x[5], x[6], x[7] = load_4(i32(at_a + 128))
        y[4], y[5], y[6], y[7] = load_4(i32(at_b + 64))

    return where, read, 32, 16


@functools.cache
def matmul_async(order_a: str, order_b: str, wide: bool, tile: Tile = LARGE) -> Any:
    """One block per tile of C, float32. Arguments as of register_tiles.matmul_register, but no "k":
    what lies along k is loaded number by number in any case. Numbers are neighbours along one of an
    operand's axes."""
    (place_a, step_a, first_a, bring_a), (place_b, step_b, first_b, bring_b) = (
        _slabs(tile, order_a),
        _slabs(tile, order_b),
    )
    where, read, next_row, next_column = _own(tile)
    finish = _finish(np.dtype(np.float32), wide)
    arrived = ptx.copy_wait(STAGES - 2)
    side, rows, sums, row_bytes, stage_bytes = (
        tile.side,
        tile.rows,
        8 * tile.rows,
        tile.row,
        tile.stage,
    )
    slab_bytes, shared_bytes = stage_bytes // 2, STAGES * stage_bytes

    @device_function
    def bring(copies, part, parts):
        """One of `parts` parts of the next slab of A and of B."""
        a, b, i_a, i_b, to_a, to_b, next_a, next_b, limit_a, limit_b = copies
        bring_a(to_a, next_a, a, i_a, limit_a, part, parts)
        bring_b(to_b, next_b, b, i_b, limit_b, part, parts)

    @device_function
    def multiply(x, y, total):
        """Multiply-adds on the numbers of a step."""
        for i in range(rows):
            for j in range(8):
                total[8 * i + j] = f32(total[8 * i + j] + x[i] * y[j])

    @device_function
    def two_steps(part, at_a, at_b, x, y, u, v, total, copies):
        """Steps 2 part and 2 part + 1 of the slab at at_a, at_b. x, y: the numbers of the first,
        then of the step behind."""
        read(u, v, i32(at_a + (2 * part + 1) * row_bytes), i32(at_b + (2 * part + 1) * row_bytes))
        bring(copies, part, PARTS)
        multiply(x, y, total)
        read(x, y, i32(at_a + (2 * part + 2) * row_bytes), i32(at_b + (2 * part + 2) * row_bytes))
        multiply(u, v, total)

    @cuda.jit(launch_bounds=(tile.threads, tile.blocks))
    def matmul_async(a, b, out, one):
        """a: (batch, m, k), b: (batch, n, k); out: (batch, m, n), rows contiguous; one: 1."""
        base = ptx.shared_address(cuda.shared.array(0, types.uint8))
        total = cuda.local.array(sums, f32)
        x, y = cuda.local.array(rows, f32), cuda.local.array(8, f32)
        u, v = cuda.local.array(rows, f32), cuda.local.array(8, f32)
        m, n, k = i32(out.shape[1]), i32(out.shape[2]), i32(a.shape[2])

        _, tile_row, tile_column = tile_at(
            i32(cuda.blockIdx.x), i32((m + side - 1) // side), i32((n + side - 1) // side)
        )
        row0, column0 = i32(tile_row * side), i32(tile_column * side)
        thread = i32(cuda.threadIdx.x)
        batch = i64(cuda.blockIdx.y)
        for i in range(sums):
            total[i] = f32(0)

        # the first slabs set out
        (i_a, k_a), (i_b, k_b) = place_a(thread), place_b(thread)
        to_a, to_b = (
            i32(base + k_a * row_bytes + i_a * 4),
            i32(base + slab_bytes + k_b * row_bytes + i_b * 4),
        )
        i_a, i_b = i32(row0 + i_a), i32(column0 + i_b)
        next_a = (
            ptx.global_address(a) + batch * a.strides[0] + i_a * a.strides[1] + k_a * a.strides[2]
        )
        next_b = (
            ptx.global_address(b) + batch * b.strides[0] + i_b * b.strides[1] + k_b * b.strides[2]
        )
        slabs = i32((k + DEPTH - 1) // DEPTH)
        left = i32(k - (slabs - 1) * DEPTH)
        first_a(to_a, next_a, a, i_a, m, left, k_a)
        first_b(to_b, next_b, b, i_b, n, left, k_b)
        ptx.copy_commit()
        next_a, next_b = next_a + left * a.strides[2], next_b + left * b.strides[2]
        for stage in range(1, STAGES - 1):
            limit_a, limit_b = (m, n) if stage < slabs else (i32(0), i32(0))
            fill_a, fill_b = i32(to_a + stage * stage_bytes), i32(to_b + stage * stage_bytes)
            bring((a, b, i_a, i_b, fill_a, fill_b, next_a, next_b, limit_a, limit_b), 0, 1)
            ptx.copy_commit()
            next_a, next_b = next_a + step_a(a), next_b + step_b(b)

        own_row, own_column = where(thread)
        from_a, from_b = i32(base + own_row * 4), i32(base + slab_bytes + own_column * 4)
        stage, fill = (
            i32(0),
            i32((STAGES - 1) * stage_bytes),
        )  # where the slab of now lies, and where one is on its way to
        arrived()
        cuda.syncthreads()
        read(x, y, from_a, from_b)
        asked = i32(STAGES - 1)
        for _ in range(slabs):
            at_a, at_b, fill_a, fill_b = (
                i32(from_a + stage),
                i32(from_b + stage),
                i32(to_a + fill),
                i32(to_b + fill),
            )
            limit_a, limit_b = (
                (m, n) if asked < slabs else (i32(0), i32(0))
            )  # zeros from nowhere past the end
            asked += i32(1)
            copies = a, b, i_a, i_b, fill_a, fill_b, next_a, next_b, limit_a, limit_b
            # written out, not a loop: LLVM would leave one of this size as it is, and the sums
            # could not stay in registers. No literals: `two_steps` is compiled once
            two_steps(i64(0), at_a, at_b, x, y, u, v, total, copies)
            two_steps(i64(1), at_a, at_b, x, y, u, v, total, copies)
            two_steps(i64(2), at_a, at_b, x, y, u, v, total, copies)
            two_steps(i64(3), at_a, at_b, x, y, u, v, total, copies)
            two_steps(i64(4), at_a, at_b, x, y, u, v, total, copies)
            two_steps(i64(5), at_a, at_b, x, y, u, v, total, copies)
            two_steps(i64(6), at_a, at_b, x, y, u, v, total, copies)
            read(u, v, i32(at_a + (DEPTH - 1) * row_bytes), i32(at_b + (DEPTH - 1) * row_bytes))
            bring(copies, i64(PARTS - 1), PARTS)
            ptx.copy_commit()
            next_a, next_b = next_a + step_a(a), next_b + step_b(b)
            multiply(x, y, total)
            stage, fill = i32(stage + stage_bytes), i32(fill + stage_bytes)
            if stage == shared_bytes:
                stage = i32(0)
            if fill == shared_bytes:
                fill = i32(0)
            arrived()
            cuda.syncthreads()  # the next slab is there, for all; and all are done with this one
            read(x, y, i32(from_a + stage), i32(from_b + stage))
            multiply(u, v, total)

        # Four numbers are stored at once from neighbouring registers. Were those the sums' own,
        # y[j] and the sums of column j would always share a bank of the register file; times one,
        # which the compiler does not know, they are others.
        if wide:
            for i in range(sums):
                total[i] = f32(total[i] * one)
        for i in range(rows):
            row = i32(row0 + own_row + (i & 3) + (i >> 2) * next_row)
            if row < m:
                finish(out, batch, row, i32(column0 + own_column), total, 8 * i)
                finish(out, batch, row, i32(column0 + own_column + next_column), total, 8 * i + 4)

    if tile is SMALL:
        matmul_async.__name__ = "matmul_async_small"
    return matmul_async


# -------------------- planner


def plan(problem: Problem, tile: Tile = LARGE) -> Plan:
    """Plan of a product of float32. Where large tiles are too few to fill the device, k is split;
    an operand whose numbers are apart along both axes is copied first."""
    p, a, b = problem.product, problem.a, problem.b
    if p.k == 0:
        return plan_naive(problem)
    launch = functools.partial(_launch, tile)
    ready = [a.itemsize in strides[1:] for strides in (p.strides_a, p.strides_b)]
    if (
        tile is LARGE
        and all(ready)
        and a.ndim == b.ndim == 2
        and (parts := _parts(p, a.device)) > 1
    ):
        return in_parts(a, b, parts, launch)
    temps, copies, arguments, operands = dense(a, b, ready)
    p = Product(*operands)
    steps = [launch(p, *operands, offsets, count) for offsets, count in p.launches()]
    return Plan([p.out], [*copies, *embed(steps, dict(enumerate(arguments)), Output(0), 0)], temps)


def plan_small(problem: Problem) -> Plan:
    """Plan of a product of float32 in small tiles."""
    return plan(problem, SMALL)


def _parts(p: Product, device: int) -> int:
    """Into how many parts k is split. The device computes tiles in turns, `room` at a time, and the
    last turn is seldom full: 384 tiles where there is room for 264 take two. Twice as many of half
    the k take three half ones. But each part's sums go to memory and are read again."""
    tiles, room = (
        blocks(p.m, LARGE.side) * blocks(p.n, LARGE.side),
        LARGE.blocks * devices.multiprocessors(device),
    )

    def cost(parts: int) -> float:  # in multiply-adds
        turns = blocks(parts * tiles, room) / parts
        return turns * room * LARGE.side**2 * p.k + (
            2 * parts * p.m * p.n * MEMORY if parts > 1 else 0
        )

    return min((parts for parts in range(1, 9) if parts == 1 or p.k >= 64 * parts), key=cost)


def _launch(tile: Tile, p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    def kernel(_: np.dtype, order_a: str, order_b: str, wide: bool) -> Any:
        return matmul_async(order_a.replace("k", "K"), order_b.replace("k", "K"), wide, tile)

    step = register_tiles(kernel, tile.side, tile.threads, p, a, b, offsets, count)
    return Launch(
        step.kernel, step.grid, step.block, [*step.args, np.float32(1)], STAGES * tile.stage
    )
