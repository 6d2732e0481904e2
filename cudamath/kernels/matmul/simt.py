"""float32 (and int32) products without tensor cores, a step beyond ``matmul_register``:
``matmul_block``, and ``matmul_small``.

What limits ``matmul_register``. A thread with 8 x 8 sums does 64 multiply-adds on four 16-byte
reads of shared memory. A multiprocessor starts four warps' multiply-adds per clock but reads 128
bytes of shared memory per clock. A 16-byte read of a warp takes four clocks, also where lanes share
words. So 64 multiply-adds of 4 warps take 64 clocks, and their 16 reads take 64 as well. With two
limits at once the kernel reaches neither.

``matmul_block`` gives a thread 16 x 8 sums: 128 multiply-adds on six reads, 128 clocks against 96.
Registers pay for it: 128 sums, 24 operands and 16 numbers of the next slab leave room for 256
threads per multiprocessor, as two blocks of 128 that wait at barriers of their own. A tile of C is
128 x 128 again; four warps tile it 2 x 2, each 64 x 64; lane l owns the rows 4 a + 16 i and the
columns 4 b + 32 j, four each, where a = l / 8 and b = l % 8. Slabs come as in ``matmul_register``.

``matmul_small`` is for many products of small matrices: two warps a tile of 64 x 64, side by side,
each thread 8 x 8 sums as in ``matmul_register``. A tile of 128 x 128 would compute four times what
a product of 64 x 64 needs.

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
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..copy.dispatch import copy_part
from ..copy.parts import Part
from ..lib.integers import blocks
from ..ptx import vector_access
from .problem import Problem, Product
from .register_tiles import (
    DEPTH,
    GROUP,
    SIDE,
    SLABS,
    Offsets,
    _finish,
    _order,
    _slab,
    arithmetic,
    launches,
    register_tiles,
)
from .register_tiles import _multiply as _multiply_8_by_8
from .split_k import in_parts
from .work import parts_of

THREADS = 128


@functools.cache
def _multiply(C: Any) -> Any:
    """The inner step: 128 multiply-adds on 16 + 8 numbers from shared memory."""
    load_vector = vector_access.load_vector

    @device_function
    def multiply(sa, sb, at, m, n, x, y, total):
        """sa, sb: SLABS, of which the row at `at` is used; x: (16,), y: (8,) and total: (128,), in
        registers."""
        x[0], x[1], x[2], x[3] = load_vector(sa, at + m, 4)
        x[4], x[5], x[6], x[7] = load_vector(sa, at + m + 16, 4)
        x[8], x[9], x[10], x[11] = load_vector(sa, at + m + 32, 4)
        x[12], x[13], x[14], x[15] = load_vector(sa, at + m + 48, 4)
        y[0], y[1], y[2], y[3] = load_vector(sb, at + n, 4)
        y[4], y[5], y[6], y[7] = load_vector(sb, at + n + 32, 4)
        for i in range(16):
            for j in range(8):
                total[8 * i + j] = C(total[8 * i + j] + x[i] * y[j])

    return multiply


@functools.cache
def matmul_block(dtype: np.dtype, order_a: str, order_b: str, wide: bool) -> Any:
    """A block of 128 threads computes a 128 x 128 tile of C, each thread 16 x 8 of it. Factory and
    arguments as of register_tiles.matmul_register."""
    C = arithmetic(dtype)[2]
    place_a, start_a, fetch_a, put_a = _slab(dtype, order_a)
    place_b, start_b, fetch_b, put_b = _slab(dtype, order_b)
    multiply, finish = _multiply(C), _finish(dtype, wide)

    @cuda.jit(launch_bounds=(THREADS, 2))
    def matmul_block(a, b, out):
        """a: (batch, m, k), b: (batch, n, k), any strides; out: (batch, m, n), rows contiguous. 128
        threads."""
        slab_a = cuda.shared.array(SLABS, C, alignment=16)
        slab_b = cuda.shared.array(SLABS, C, alignment=16)
        total = cuda.local.array(128, C)
        x = cuda.local.array(16, C)
        y = cuda.local.array(8, C)
        tiles_down = (out.shape[1] + SIDE - 1) // SIDE
        tiles_across = (out.shape[2] + SIDE - 1) // SIDE
        group = cuda.blockIdx.x // (GROUP * tiles_across)
        within = cuda.blockIdx.x - group * GROUP * tiles_across
        height = min(tiles_down - group * GROUP, GROUP)
        tile_column = within // height
        row0 = types.int32((group * GROUP + within - tile_column * height) * SIDE)
        column0 = types.int32(tile_column * SIDE)
        thread = cuda.threadIdx.x
        batch = cuda.blockIdx.y
        lane, warp = thread & 31, thread >> 5
        m = (warp >> 1) * 64 + (lane >> 3) * 4
        n = (warp & 1) * 64 + (lane & 7) * 4
        # a thread loads two pieces of each slab
        i_a, k_a = place_a(thread)
        j_a, l_a = place_a(thread + THREADS)
        i_b, k_b = place_b(thread)
        j_b, l_b = place_b(thread + THREADS)
        begin_a, other_a = start_a(a, batch, row0 + i_a), start_a(a, batch, row0 + j_a)
        begin_b, other_b = start_b(b, batch, column0 + i_b), start_b(b, batch, column0 + j_b)
        for i in range(128):
            total[i] = C(0)
        put_a(slab_a, 0, i_a, k_a, fetch_a(a, begin_a, row0 + i_a, k_a))
        put_a(slab_a, 0, j_a, l_a, fetch_a(a, other_a, row0 + j_a, l_a))
        put_b(slab_b, 0, i_b, k_b, fetch_b(b, begin_b, column0 + i_b, k_b))
        put_b(slab_b, 0, j_b, l_b, fetch_b(b, other_b, column0 + j_b, l_b))
        cuda.syncthreads()
        stage = 0
        k = 0
        while k < a.shape[2]:
            k += DEPTH
            next_a = fetch_a(a, begin_a, row0 + i_a, k + k_a)
            more_a = fetch_a(a, other_a, row0 + j_a, k + l_a)
            next_b = fetch_b(b, begin_b, column0 + i_b, k + k_b)
            more_b = fetch_b(b, other_b, column0 + j_b, k + l_b)
            at = stage * DEPTH * (SIDE + 4)
            multiply(slab_a, slab_b, at, m, n, x, y, total)
            multiply(slab_a, slab_b, at + 1 * (SIDE + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 2 * (SIDE + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 3 * (SIDE + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 4 * (SIDE + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 5 * (SIDE + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 6 * (SIDE + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 7 * (SIDE + 4), m, n, x, y, total)
            stage ^= 1
            put_a(slab_a, stage, i_a, k_a, next_a)
            put_a(slab_a, stage, j_a, l_a, more_a)
            put_b(slab_b, stage, i_b, k_b, next_b)
            put_b(slab_b, stage, j_b, l_b, more_b)
            cuda.syncthreads()
        for i in range(16):
            row = row0 + m + (i & 3) + (i >> 2) * 16
            if row < out.shape[1]:
                finish(out, batch, row, column0 + n, total, 8 * i)
                finish(out, batch, row, column0 + n + 32, total, 8 * i + 4)

    return matmul_block


SMALL = 64  # side of a tile of matmul_small, and its threads
SMALL_SLABS = (2, DEPTH, SMALL + 4)


@functools.cache
def _small_slab(order: str) -> tuple[Any, Any]:
    """(place, put) of slabs of 64 x DEPTH; see register_tiles._slab, whose `start` and `fetch` go
    with them."""
    store_vector = vector_access.store_vector

    if order in "Kk":

        @device_function
        def place(thread):
            return thread >> 1, (thread & 1) << 2

        @device_function
        def put(s, stage, i, k, v):
            at = (stage * DEPTH + k) * (SMALL + 4) + i
            store_vector(s, at, (v[0],))
            store_vector(s, at + (SMALL + 4), (v[1],))
            store_vector(s, at + 2 * (SMALL + 4), (v[2],))
            store_vector(s, at + 3 * (SMALL + 4), (v[3],))

    else:  # half a warp loads 64 numbers of one k

        @device_function
        def place(thread):
            return (thread & 15) << 2, thread >> 4

        @device_function
        def put(s, stage, i, k, v):
            store_vector(s, (stage * DEPTH + k) * (SMALL + 4) + i, v)

    return place, put


@functools.cache
def matmul_small(dtype: np.dtype, order_a: str, order_b: str, wide: bool) -> Any:
    """A block of 64 threads computes a 64 x 64 tile of C, each thread 8 x 8. Factory and arguments:
    register_tiles.matmul_register."""
    C = arithmetic(dtype)[2]
    (_, start_a, fetch_a, _), (_, start_b, fetch_b, _) = (
        _slab(dtype, order_a),
        _slab(dtype, order_b),
    )
    (place_a, put_a), (place_b, put_b) = _small_slab(order_a), _small_slab(order_b)
    multiply, finish = _multiply_8_by_8(C), _finish(dtype, wide)

    @cuda.jit(launch_bounds=(SMALL, 6))  # at most 168 registers per thread
    def matmul_small(a, b, out):
        """a: (batch, m, k), b: (batch, n, k), any strides; out: (batch, m, n), rows contiguous. 64
        threads."""
        slab_a = cuda.shared.array(SMALL_SLABS, C, alignment=16)
        slab_b = cuda.shared.array(SMALL_SLABS, C, alignment=16)
        total = cuda.local.array(64, C)
        x = cuda.local.array(8, C)
        y = cuda.local.array(8, C)
        tiles_across = (out.shape[2] + SMALL - 1) // SMALL
        tile_row = cuda.blockIdx.x // tiles_across
        row0 = types.int32(tile_row * SMALL)
        column0 = types.int32((cuda.blockIdx.x - tile_row * tiles_across) * SMALL)
        thread = cuda.threadIdx.x
        batch = cuda.blockIdx.y
        lane, warp = thread & 31, thread >> 5
        m = ((lane >> 1) & 7) * 4
        n = warp * 32 + ((lane >> 4) * 2 + (lane & 1)) * 4
        # a thread loads two pieces of each slab
        i_a, k_a = place_a(thread)
        j_a, l_a = place_a(thread + SMALL)
        i_b, k_b = place_b(thread)
        j_b, l_b = place_b(thread + SMALL)
        begin_a, other_a = start_a(a, batch, row0 + i_a), start_a(a, batch, row0 + j_a)
        begin_b, other_b = start_b(b, batch, column0 + i_b), start_b(b, batch, column0 + j_b)
        for i in range(64):
            total[i] = C(0)
        put_a(slab_a, 0, i_a, k_a, fetch_a(a, begin_a, row0 + i_a, k_a))
        put_a(slab_a, 0, j_a, l_a, fetch_a(a, other_a, row0 + j_a, l_a))
        put_b(slab_b, 0, i_b, k_b, fetch_b(b, begin_b, column0 + i_b, k_b))
        put_b(slab_b, 0, j_b, l_b, fetch_b(b, other_b, column0 + j_b, l_b))
        cuda.syncthreads()
        stage = 0
        k = 0
        while k < a.shape[2]:
            k += DEPTH
            next_a = fetch_a(a, begin_a, row0 + i_a, k + k_a)
            more_a = fetch_a(a, other_a, row0 + j_a, k + l_a)
            next_b = fetch_b(b, begin_b, column0 + i_b, k + k_b)
            more_b = fetch_b(b, other_b, column0 + j_b, k + l_b)
            at = stage * DEPTH * (SMALL + 4)
            multiply(slab_a, slab_b, at, m, n, x, y, total)
            multiply(slab_a, slab_b, at + 1 * (SMALL + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 2 * (SMALL + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 3 * (SMALL + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 4 * (SMALL + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 5 * (SMALL + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 6 * (SMALL + 4), m, n, x, y, total)
            multiply(slab_a, slab_b, at + 7 * (SMALL + 4), m, n, x, y, total)
            stage ^= 1
            put_a(slab_a, stage, i_a, k_a, next_a)
            put_a(slab_a, stage, j_a, l_a, more_a)
            put_b(slab_b, stage, i_b, k_b, next_b)
            put_b(slab_b, stage, j_b, l_b, more_b)
            cuda.syncthreads()
        for i in range(8):
            row = row0 + m + (i & 3) + (i >> 2) * 32
            if row < out.shape[1]:
                finish(out, batch, row, column0 + n, total, 8 * i)
                finish(out, batch, row, column0 + n + 16, total, 8 * i + 4)

    return matmul_small


# -------------------- planner


LARGE = 1 << 26  # multiplications that pay for copies of operands


def _arranged(p: Product, a: Layout, b: Layout) -> Plan | None:
    """Plan with k in parts, or with copies of operands, where that is faster than one launch on the
    operands as they lie; else None."""
    if a.dtype != np.float32 or p.batch > 1 or len(p.parts) > 1 or not a.ndim == b.ndim == 2:
        return None
    if (parts := parts_of(p, a.device, 4)) > 1:
        return in_parts(a, b, parts, block)
    orders = _orders(p, a, b)
    return (
        _copied(p, a, b, orders) if p.m * p.n * p.k >= LARGE and orders != orders.upper() else None
    )


def _orders(p: Product, a: Layout, b: Layout) -> str:
    """How the operands are fetched, see register_tiles._slab: lower case where that is number by
    number."""
    flipped = (p.strides_b[0], p.strides_b[2], p.strides_b[1])
    return _order(a, p.m, p.k, p.strides_a, 0) + _order(b, p.n, p.k, flipped, 0)


def _copied(p: Product, a: Layout, b: Layout, orders: str) -> Plan:
    """Operands that would be fetched number by number are copied first: neighbours along m (n), in
    rows of whole 16-byte words. The padding beyond m (n) is multiplied as well, but only into
    rows and columns that are not stored."""
    item = a.itemsize
    temps: list[Layout] = []
    steps: list[Launch] = []
    arguments = [
        Input(0).view((1, p.m, p.k), p.strides_a),
        Input(1).view((1, p.n, p.k), (p.strides_b[0], p.strides_b[2], p.strides_b[1])),
    ]
    for i, (operand, size, order) in enumerate(zip((a, b), (p.m, p.n), orders, strict=True)):
        if order in "KI":
            continue
        row = 4 * blocks(size, 4)
        temps.append(Layout.new((p.k, row), a.dtype, a.device))
        strides = (item, row * item) if i == 0 else (row * item, item)
        steps += copy_part(
            Part(Input(i).view(operand.shape, operand.strides), operand),
            Part(
                Temp(len(temps) - 1).view(operand.shape, strides),
                operand.view(operand.shape, strides),
            ),
        )
        arguments[i] = Temp(len(temps) - 1).view((1, row, p.k), (0, item, row * item))
    kernel = matmul_block(a.dtype, *[o if o in "KI" else "I" for o in orders], p.n % 4 == 0)
    steps.append(
        Launch(
            kernel,
            (blocks(p.m, SIDE) * blocks(p.n, SIDE), 1),
            THREADS,
            [*arguments, Output(0).view((1, p.m, p.n))],
        )
    )
    return Plan([p.out], steps, temps)


def block(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    """The launch of matmul_block; see register_tiles.naive."""
    return register_tiles(matmul_block, SIDE, THREADS, p, a, b, offsets, count)


def small(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    """The launch of matmul_small."""
    return register_tiles(matmul_small, SMALL, SMALL, p, a, b, offsets, count)


def plan(problem: Problem) -> Plan:
    """Plan of a product by matmul_block: of k in parts, on copies, or on the operands as they
    lie."""
    return _arranged(problem.product, problem.a, problem.b) or launches(problem, block)


def plan_small(problem: Problem) -> Plan:
    """Plan of a product by matmul_small."""
    return launches(problem, small)
