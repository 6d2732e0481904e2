"""float32 products without tensor cores, from compute capability 8.0 on: ``matmul_async``.

What limits ``matmul_block`` (matmul_simt.py). A multiprocessor starts one instruction a clock in each of its quarters, and a
multiply-add is one instruction: whatever else stands in the loop takes a multiply-add's place. Of 1,175 instructions there
1,024 are multiply-adds and 48 read shared memory. The other 103 bring the next slab: addresses, bounds, zeros where an operand
ends, loads into registers, stores into shared memory, and that for slabs of 8 steps. Operands that cannot be read four numbers
at once are copied first.

``matmul_async`` keeps the tiles (128 x 128, a thread 16 x 8) and has 2,048 multiply-adds among 2,220 instructions:

    cp.async            copies from memory to shared memory past the registers, also 4 bytes at a time: an operand whose
                        neighbours lie along k is transposed on its way, and one of odd strides needs no copy
    slabs of 16 steps   three in turn, two of them on their way: one barrier for 2,048 multiply-adds
    the remainder first the first slab has what k leaves over and zeros beyond; in the loop all slabs are whole
    rows held back      beyond the last row (column) of an operand the last one is read again: what that gives is not stored
    one step ahead      the numbers of the next step are read from shared memory while those of this one are multiplied

Rows of a slab in shared memory are padded from 128 to 132 numbers. A warp brings 4 rows and 8 steps of an operand whose
neighbours lie along k; so padded, these 32 numbers go to 32 different banks.

The floor: see matmul.py.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ..core.layout import Layout
from ..core.plan import Launch, Output, Plan
from . import ptx_mma as ptx
from .lazy import cuda, types
from .matmul import GROUP, Offsets, _finish, _naive, dense, register_tiles
from .matmul_simt import in_parts, parts_of
from .product import Product
from .ptx import instruction
from .rows import device
from .scaled_matmul import within

SIDE = 128  # of the tile of C that a block computes
THREADS = 128
DEPTH = 16  # steps of k in a slab
STAGES = 3  # slabs in shared memory
ROW = (SIDE + 4) * 4  # bytes of a row of a slab
SLAB = DEPTH * ROW
SHARED = STAGES * 2 * SLAB
PARTS = DEPTH // 2  # in which the copies of a slab stand between the arithmetic of another

i32, i64, f32 = types.int32, types.int64, types.float32

load_4 = instruction("load_shared_float_4", "ld.shared.v4.f32 {$0, $1, $2, $3}, [$4];", (f32,) * 4, (i32,),
                     "16 bytes at a shared address, as four float32.", pure=False)


def _copy_below(size: int, cache: str) -> Any:
    return instruction(f"copy_{size}_below", "{ .reg .pred p; setp.ge.s32 p, $2, $3; "
                       f"cp.async.{cache}.shared.global [$0], [$1], {size}, p; }}", None, (i32, i64, i32, i32),
                       f"{size} bytes from a global to a shared address, or zeros unless $2 < $3.", pure=False)


copy_4_below, copy_16_below = _copy_below(4, "ca"), _copy_below(16, "cg")


class Slabs(NamedTuple):
    """How the threads of a block bring slabs of an operand x[batch, i, k] into shared memory s[k, i]: device functions.

    A thread copies the same places of each slab. `bring` does one of `parts` parts: copies stand between arithmetic.
    """

    count: int  # addresses that a thread keeps
    place: Any  # (shared address of a stage, thread) -> shared address of its first number there
    begin: Any  # (p, x, batch, i0, size, thread): p[:count] become the addresses of its places in a slab at k = 0
    column: Any  # (i0, thread) -> i of its first place, where it has to ask at each copy whether i < size; else 0
    step: Any  # (x) -> bytes from one slab to the next
    first: Any  # (to, p, x, i, size, left, thread) -> bytes to the next slab: the first, of which `left` steps are there
    bring: Any  # (to, p, ahead, x, i, limit, part, parts): that part of a slab `ahead` bytes on; zeros unless i < limit


@functools.cache
def _along_k() -> Slabs:
    """Neighbours lie along k: a warp brings 4 rows of 8 steps, 4 bytes a thread."""
    rows = THREADS // 8  # that the block brings at a time
    count = SIDE // rows

    @device
    def place(at, thread):
        return i32(at + (thread & 7) * ROW + (thread >> 3) * 4)

    @device
    def begin(p, x, batch, i0, size, thread):
        first = ptx.global_address(x) + batch * x.strides[0] + (thread & 7) * 4
        for j in range(count):
            p[j] = first + i64(min(i32(i0 + (thread >> 3) + rows * j), i32(size - 1))) * x.strides[1]

    @device
    def column(i0, thread):
        return i32(0)

    @device
    def step(x):
        return i64(4 * DEPTH)

    @device
    def first(to, p, x, i, size, left, thread):
        for j in range(count):
            for half in range(DEPTH // 8):
                inside = i32(4) if (thread & 7) + 8 * half < left else i32(0)
                ptx.copy_4_or_zero(i32(to + half * 8 * ROW + j * rows * 4), p[j] + 32 * half, inside)
        return i64(left) * 4

    @device
    def bring(to, p, ahead, x, i, limit, part, parts):
        for j in range(part * count // parts, (part + 1) * count // parts):
            for half in range(DEPTH // 8):
                copy_4_below(i32(to + half * 8 * ROW + j * rows * 4), p[j] + ahead + 32 * half, i, limit)

    return Slabs(count, place, begin, column, step, first, bring)


@functools.cache
def _across(wide: bool) -> Slabs:
    """Neighbours lie along i. wide: a warp brings one step of 128 rows, 16 bytes a thread; else 32 rows at a time, 4 bytes."""
    numbers = 4 if wide else 1
    turns = SIDE // (32 * numbers)
    steps = THREADS // 32  # that the block brings at a time
    count = DEPTH // steps

    @device
    def place(at, thread):
        return i32(at + (thread >> 5) * ROW + (thread & 31) * (4 * numbers))

    @device
    def begin(p, x, batch, i0, size, thread):
        i = i32(i0 + (thread & 31) * numbers)
        if wide:
            i = min(i, i32(size - 4))
        p[0] = ptx.global_address(x) + batch * x.strides[0] + i64(i) * 4 + (thread >> 5) * x.strides[2]

    @device
    def column(i0, thread):
        return i32(0) if wide else i32(i0 + (thread & 31))

    @device
    def step(x):
        return DEPTH * x.strides[2]

    @device
    def first(to, p, x, i, size, left, thread):
        for j in range(count):
            there = (thread >> 5) + steps * j < left
            at, to_j = p[0] + j * steps * x.strides[2], i32(to + j * steps * ROW)
            for turn in range(turns):
                inside = i32(4 * numbers) if there and i + 32 * turn < size else i32(0)
                if wide:
                    ptx.copy_16_or_zero(to_j, at, inside)
                else:
                    ptx.copy_4_or_zero(i32(to_j + 128 * turn), at + 128 * turn, inside)
        return left * x.strides[2]

    @device
    def bring(to, p, ahead, x, i, limit, part, parts):
        for j in range(part * count // parts, (part + 1) * count // parts):
            at, to_j = p[0] + (ahead + j * steps * x.strides[2]), i32(to + j * steps * ROW)
            for turn in range(turns):
                if wide:
                    copy_16_below(to_j, at, i, limit)
                else:
                    copy_4_below(i32(to_j + 128 * turn), at + 128 * turn, i32(i + 32 * turn), limit)

    return Slabs(1, place, begin, column, step, first, bring)


def _slabs(order: str) -> Slabs:
    """order: see matmul._slab."""
    return _along_k() if order == "K" else _across(order == "I")


@device
def read(x, y, at_a, at_b):
    """16 + 8 numbers of a step: rows 0 .. 3, 16 .. 19, 32 .. , 48 .. of the thread's, columns 0 .. 3 and 32 .. 35."""
    x[0], x[1], x[2], x[3] = load_4(at_a)
    y[0], y[1], y[2], y[3] = load_4(at_b)
    x[4], x[5], x[6], x[7] = load_4(i32(at_a + 64))
    y[4], y[5], y[6], y[7] = load_4(i32(at_b + 128))
    x[8], x[9], x[10], x[11] = load_4(i32(at_a + 128))
    x[12], x[13], x[14], x[15] = load_4(i32(at_a + 192))


@device
def multiply(x, y, total):
    """128 multiply-adds on 16 + 8 numbers."""
    for i in range(16):
        for j in range(8):
            total[8 * i + j] = f32(total[8 * i + j] + x[i] * y[j])


@functools.cache
def matmul_async(order_a: str, order_b: str, wide: bool) -> Any:
    """A block of 128 threads a 128 x 128 tile of C, a thread 16 x 8 of it, float32. Arguments as of matmul.matmul_register, but
    no "k": what lies along k is brought number by number in any case. Numbers are neighbours along one of an operand's axes."""
    slabs_a, slabs_b = _slabs(order_a), _slabs(order_b)
    finish = _finish(np.dtype(np.float32), wide)
    arrived = ptx.copy_wait(STAGES - 2)
    count_a, count_b = slabs_a.count, slabs_b.count
    place_a, begin_a, column_a, step_a, first_a, bring_a = slabs_a[1:]
    place_b, begin_b, column_b, step_b, first_b, bring_b = slabs_b[1:]

    @device
    def bring(copies, part, parts):
        """One of `parts` parts of the next slab of A and of B."""
        a, b, p, q, i_a, i_b, to_a, to_b, ahead_a, ahead_b, limit_a, limit_b = copies
        bring_a(to_a, p, ahead_a, a, i_a, limit_a, part, parts)
        bring_b(to_b, q, ahead_b, b, i_b, limit_b, part, parts)

    @device
    def two_steps(part, at_a, at_b, x, y, u, v, total, copies):
        """Steps 2 part and 2 part + 1 of the slab at at_a, at_b. x, y: the numbers of the first, then of the step behind."""
        read(u, v, i32(at_a + (2 * part + 1) * ROW), i32(at_b + (2 * part + 1) * ROW))
        bring(copies, part, PARTS)
        multiply(x, y, total)
        read(x, y, i32(at_a + (2 * part + 2) * ROW), i32(at_b + (2 * part + 2) * ROW))
        multiply(u, v, total)

    @cuda.jit(launch_bounds=(THREADS, 2))
    def matmul_async(a, b, out):
        """a: (batch, m, k), b: (batch, n, k); out: (batch, m, n), rows contiguous. 128 threads, SHARED bytes."""
        base = ptx.shared_address(cuda.shared.array(0, types.uint8))
        total = cuda.local.array(128, f32)
        x, y = cuda.local.array(16, f32), cuda.local.array(8, f32)
        u, v = cuda.local.array(16, f32), cuda.local.array(8, f32)
        p, q = cuda.local.array(count_a, i64), cuda.local.array(count_b, i64)
        m, n, k = i32(out.shape[1]), i32(out.shape[2]), i32(a.shape[2])

        # which tile: groups of GROUP tile rows, within a group down the columns
        tiles_down, tiles_across = i32((m + SIDE - 1) // SIDE), i32((n + SIDE - 1) // SIDE)
        group = i32(cuda.blockIdx.x // (GROUP * tiles_across))
        within = i32(cuda.blockIdx.x - group * GROUP * tiles_across)
        height = i32(min(tiles_down - group * GROUP, GROUP))
        tile_column = i32(within // height)
        row0, column0 = i32((group * GROUP + within - tile_column * height) * SIDE), i32(tile_column * SIDE)

        # which part of it
        thread = i32(cuda.threadIdx.x)
        batch = i64(cuda.blockIdx.y)
        lane, warp = i32(thread & 31), i32(thread >> 5)
        own_row, own_column = i32((warp >> 1) * 64 + (lane >> 3) * 4), i32((warp & 1) * 64 + (lane & 7) * 4)
        for i in range(128):
            total[i] = f32(0)

        # the first slabs set out
        begin_a(p, a, batch, row0, m, thread)
        begin_b(q, b, batch, column0, n, thread)
        i_a, i_b = column_a(row0, thread), column_b(column0, thread)
        to_a, to_b = place_a(base, thread), place_b(i32(base + SLAB), thread)
        slabs = i32((k + DEPTH - 1) // DEPTH)
        left = i32(k - (slabs - 1) * DEPTH)
        ahead_a = first_a(to_a, p, a, i_a, m, left, thread)
        ahead_b = first_b(to_b, q, b, i_b, n, left, thread)
        ptx.copy_commit()
        for stage in range(1, STAGES - 1):
            limit_a, limit_b = (m, n) if stage < slabs else (i32(0), i32(0))
            fill_a, fill_b = i32(to_a + stage * 2 * SLAB), i32(to_b + stage * 2 * SLAB)
            bring((a, b, p, q, i_a, i_b, fill_a, fill_b, ahead_a, ahead_b, limit_a, limit_b), 0, 1)
            ahead_a, ahead_b = ahead_a + step_a(a), ahead_b + step_b(b)
            ptx.copy_commit()

        from_a, from_b = i32(base + own_row * 4), i32(base + SLAB + own_column * 4)
        stage, fill = i32(0), i32((STAGES - 1) * 2 * SLAB)  # where the slab of now lies, and where one is on its way to
        arrived()
        cuda.syncthreads()
        read(x, y, from_a, from_b)
        asked = i32(STAGES - 1)
        for _ in range(slabs):
            at_a, at_b, fill_a, fill_b = i32(from_a + stage), i32(from_b + stage), i32(to_a + fill), i32(to_b + fill)
            limit_a, limit_b = (m, n) if asked < slabs else (i32(0), i32(0))  # zeros from nowhere past the end
            asked += i32(1)
            copies = a, b, p, q, i_a, i_b, fill_a, fill_b, ahead_a, ahead_b, limit_a, limit_b
            # written out, not a loop: LLVM would leave one of this size as it is, and the sums could not stay in registers
            two_steps(0, at_a, at_b, x, y, u, v, total, copies)
            two_steps(1, at_a, at_b, x, y, u, v, total, copies)
            two_steps(2, at_a, at_b, x, y, u, v, total, copies)
            two_steps(3, at_a, at_b, x, y, u, v, total, copies)
            two_steps(4, at_a, at_b, x, y, u, v, total, copies)
            two_steps(5, at_a, at_b, x, y, u, v, total, copies)
            two_steps(6, at_a, at_b, x, y, u, v, total, copies)
            read(u, v, i32(at_a + (DEPTH - 1) * ROW), i32(at_b + (DEPTH - 1) * ROW))
            bring(copies, PARTS - 1, PARTS)
            ptx.copy_commit()
            ahead_a, ahead_b = ahead_a + step_a(a), ahead_b + step_b(b)
            multiply(x, y, total)
            stage, fill = i32(stage + 2 * SLAB), i32(fill + 2 * SLAB)
            if stage == SHARED:
                stage = i32(0)
            if fill == SHARED:
                fill = i32(0)
            arrived()
            cuda.syncthreads()  # the next slab is there, for all; and all are done with this one
            read(x, y, i32(from_a + stage), i32(from_b + stage))
            multiply(u, v, total)

        for i in range(16):
            row = i32(row0 + own_row + (i & 3) + (i >> 2) * 16)
            if row < m:
                finish(out, batch, row, i32(column0 + own_column), total, 8 * i)
                finish(out, batch, row, i32(column0 + own_column + 32), total, 8 * i + 4)

    return matmul_async


# ------------------------------------------------------------------------------------------------ planner


def planned(p: Product, a: Layout, b: Layout) -> Plan:
    """A product of float32. Where tiles are too few to fill the device, k in parts; an operand without neighbours is copied."""
    if a.dtype != np.float32:
        raise TypeError(f"matmul: version async is for float32, got {a.dtype}")
    if p.k == 0:
        return Plan([p.out], [_naive(p, a, b, offsets, count) for offsets, count in p.launches()])
    ready = [a.itemsize in strides[1:] for strides in (p.strides_a, p.strides_b)]
    if all(ready) and a.ndim == b.ndim == 2 and (parts := parts_of(p, a.device)) > 1:
        return in_parts(a, b, parts, _tiles)
    temps, copies, arguments, operands = dense(a, b, ready)
    p = Product(*operands)
    launches = [_tiles(p, *operands, offsets, count) for offsets, count in p.launches()]
    return Plan([p.out], [*copies, *within(launches, dict(enumerate(arguments)), Output(0), 0)], temps)


def _tiles(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    def kernel(_: np.dtype, order_a: str, order_b: str, wide: bool) -> Any:
        return matmul_async(order_a.replace("k", "K"), order_b.replace("k", "K"), wide)

    return register_tiles(kernel, SIDE, THREADS, p, a, b, offsets, count, SHARED)
