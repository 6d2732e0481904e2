"""Products from plain loops to register tiles: the versions that explain the idea."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..ptx import vector_access
from .measured import TILE, TILES
from .problem import Problem, Product

SIDE = 128  # of the tile of C that a block of matmul_register computes
DEPTH = (
    8  # of its slabs along k: 32 loads and 512 multiply-adds a barrier; 16 would fill all registers
)
SLABS = (2, DEPTH, SIDE + 4)  # double-buffered, padded
GROUP = (
    8  # tile rows walked together, so that the blocks running at a time share slabs in the L2 cache
)


@functools.cache
def arithmetic(dtype: np.dtype) -> tuple[Any, Any, Any]:
    """(read, write, C): from storage to the type C that sums are kept in, and back (integers keep
    their low bits)."""
    load, store, computed = codec(dtype)
    if dtype.kind in "iub":
        computed = types.int64 if dtype.itemsize > 4 else types.int32

        @device_function
        def any_of(value):
            return types.uint8(value != 0)

        return computed, any_of if dtype.kind == "b" else store, computed
    return load, store, computed


@functools.cache
def matmul_naive(dtype: np.dtype) -> Any:
    """One thread per element of C."""
    read, write, C = arithmetic(dtype)

    @cuda.jit
    def matmul_naive(a, b, out):
        """a: (batch, m, k), b: (batch, k, n), any strides; out: (batch, m, n). A thread per (m,
        n)."""
        rows, columns, depth = out.shape[1], out.shape[2], a.shape[2]
        element = cuda.grid(1)
        if element >= rows * columns:
            return
        row = element // columns
        column = element - row * columns
        batch = cuda.blockIdx.y
        total = C(0)
        for k in range(depth):
            total = C(total + read(a[batch, row, k]) * read(b[batch, k, column]))
        out[batch, row, column] = write(total)

    return matmul_naive


@functools.cache
def matmul_tiled(dtype: np.dtype) -> Any:
    """One block per 16 x 16 tile of C; A and B pass through shared memory."""
    read, write, C = arithmetic(dtype)

    @cuda.jit
    def matmul_tiled(a, b, out):
        """a: (batch, m, k), b: (batch, k, n), any strides; out: (batch, m, n). Blocks of 16 x 16
        threads."""
        rows, columns, depth = out.shape[1], out.shape[2], a.shape[2]
        tile_a = cuda.shared.array(TILES, C)
        tile_b = cuda.shared.array(TILES, C)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        tiles_across = (columns + TILE - 1) // TILE
        tile_row = cuda.blockIdx.x // tiles_across
        row = tile_row * TILE + y
        column = (cuda.blockIdx.x - tile_row * tiles_across) * TILE + x
        batch = cuda.blockIdx.y
        total = C(0)
        for k in range(0, depth, TILE):
            if row < rows and k + x < depth:
                tile_a[y, x] = read(a[batch, row, k + x])
            else:
                tile_a[y, x] = C(0)
            if column < columns and k + y < depth:
                tile_b[y, x] = read(b[batch, k + y, column])
            else:
                tile_b[y, x] = C(0)
            cuda.syncthreads()
            for i in range(TILE):
                total = C(total + tile_a[y, i] * tile_b[i, x])
            cuda.syncthreads()
        if row < rows and column < columns:
            out[batch, row, column] = write(total)

    return matmul_tiled


@functools.cache
def _slab(dtype: np.dtype, order: str) -> tuple[Any, Any, Any, Any]:
    """How a block loads a slab of 128 x DEPTH of an operand x[batch, i, k] into shared memory
    s[stage, k, i].

    A thread moves 4 numbers at a time. order: "K" if they are neighbours in memory along k, "I" if
    along i; lower case if strides or sizes forbid reading all 4 at once. Returns device functions
    place(thread) -> (i, k), start(x, batch, i) -> element number of x[batch, i, 0], fetch(x, from,
    i, k) -> 4 numbers (zeros outside x), put(s, stage, i, k, numbers).
    """
    read, _, C = arithmetic(dtype)
    item = dtype.itemsize
    load_vector, store_vector = vector_access.load_vector, vector_access.store_vector

    @device_function
    def start(x, batch, i):
        return batch * (x.strides[0] // item) + i * (x.strides[1] // item)

    if order in "Kk":  # 2 neighbouring threads load 8 numbers of one i

        @device_function
        def place(thread):
            return thread >> 1, (thread & 1) << 2

        @device_function
        def put(s, stage, i, k, v):
            at = (stage * DEPTH + k) * (SIDE + 4) + i
            store_vector(s, at, (v[0],))
            store_vector(s, at + (SIDE + 4), (v[1],))
            store_vector(s, at + 2 * (SIDE + 4), (v[2],))
            store_vector(s, at + 3 * (SIDE + 4), (v[3],))

    else:  # a warp loads 128 numbers of one k

        @device_function
        def place(thread):
            return (thread & 31) << 2, thread >> 5

        @device_function
        def put(s, stage, i, k, v):
            store_vector(s, (stage * DEPTH + k) * (SIDE + 4) + i, v)

    if order in "KI":  # sizes are multiples of 4: all 4 are inside, or none

        @device_function
        def fetch(x, begin, i, k):
            if i < x.shape[1] and k < x.shape[2]:
                v = load_vector(x, begin + (k if order == "K" else k * (x.strides[2] // item)), 4)
                return read(v[0]), read(v[1]), read(v[2]), read(v[3])
            return C(0), C(0), C(0), C(0)

    else:
        di, dk = (0, 1) if order == "k" else (1, 0)

        @device_function
        def one(x, begin, i, k, j):
            if i + j * di < x.shape[1] and k + j * dk < x.shape[2]:
                along = j * di * (x.strides[1] // item) + (k + j * dk) * (x.strides[2] // item)
                return read(load_vector(x, begin + along, 1)[0])
            return C(0)

        @device_function
        def fetch(x, begin, i, k):
            return (
                one(x, begin, i, k, 0),
                one(x, begin, i, k, 1),
                one(x, begin, i, k, 2),
                one(x, begin, i, k, 3),
            )

    return place, start, fetch, put


@functools.cache
def _multiply(C: Any) -> Any:
    """The inner step: 64 multiply-adds on 8 + 8 numbers from shared memory."""
    load_vector = vector_access.load_vector

    @device_function
    def multiply(sa, sb, at, m, n, x, y, total):
        """sa, sb: SLABS, of which the row at `at` is used; x, y: (8,) and total: (64,), in
        registers."""
        x[0], x[1], x[2], x[3] = load_vector(sa, at + m, 4)
        x[4], x[5], x[6], x[7] = load_vector(sa, at + m + 32, 4)
        y[0], y[1], y[2], y[3] = load_vector(sb, at + n, 4)
        y[4], y[5], y[6], y[7] = load_vector(sb, at + n + 16, 4)
        for i in range(8):
            for j in range(8):
                total[8 * i + j] = C(total[8 * i + j] + x[i] * y[j])

    return multiply


@functools.cache
def _finish(dtype: np.dtype, wide: bool) -> Any:
    """A device function that stores four neighbours of C: (C, batch, row, column, sums, the first).
    `wide`: all at once."""
    _, write, _ = arithmetic(dtype)
    store_vector = vector_access.store_vector
    item = dtype.itemsize

    @device_function
    def write_4(out, batch, row, column, total, i):
        for j in range(4):
            if column + j < out.shape[2]:
                out[batch, row, column + j] = write(total[i + j])

    @device_function
    def write_4_at_once(out, batch, row, column, total, i):
        if column < out.shape[2]:
            v = (write(total[i]), write(total[i + 1]), write(total[i + 2]), write(total[i + 3]))
            store_vector(
                out, batch * (out.strides[0] // item) + row * (out.strides[1] // item) + column, v
            )

    return write_4_at_once if wide else write_4


@functools.cache
def matmul_register(dtype: np.dtype, order_a: str, order_b: str, wide: bool) -> Any:
    """A block of 256 threads computes a 128 x 128 tile of C, each thread 8 x 8 of it. B is treated
    as A is, as its transpose (n, k). `order_a`, `order_b`: see _slab. `wide`: rows of C hold a
    multiple of 4 numbers, stored 4 at once."""
    C = arithmetic(dtype)[2]
    place_a, start_a, fetch_a, put_a = _slab(dtype, order_a)
    place_b, start_b, fetch_b, put_b = _slab(dtype, order_b)
    multiply, finish = _multiply(C), _finish(dtype, wide)

    @cuda.jit(
        launch_bounds=(256, 2)
    )  # two blocks per multiprocessor: at most 128 registers per thread
    def matmul_register(a, b, out):
        """a: (batch, m, k), b: (batch, n, k), any strides; out: (batch, m, n), rows contiguous. 256
        threads."""
        slab_a = cuda.shared.array(SLABS, C, alignment=16)
        slab_b = cuda.shared.array(SLABS, C, alignment=16)
        total = cuda.local.array(64, C)
        x = cuda.local.array(8, C)
        y = cuda.local.array(8, C)

        # which tile: groups of GROUP tile rows, within a group down the columns
        tiles_down = (out.shape[1] + SIDE - 1) // SIDE
        tiles_across = (out.shape[2] + SIDE - 1) // SIDE
        group = cuda.blockIdx.x // (GROUP * tiles_across)
        within = cuda.blockIdx.x - group * GROUP * tiles_across
        height = min(tiles_down - group * GROUP, GROUP)
        tile_column = within // height
        row0 = types.int32((group * GROUP + within - tile_column * height) * SIDE)
        column0 = types.int32(tile_column * SIDE)

        # which part of it
        thread = cuda.threadIdx.x
        batch = cuda.blockIdx.y
        lane, warp = thread & 31, thread >> 5
        m = (warp >> 2) * 64 + ((lane >> 1) & 7) * 4
        n = (warp & 3) * 32 + ((lane >> 4) * 2 + (lane & 1)) * 4
        i_a, k_a = place_a(thread)
        i_b, k_b = place_b(thread)
        begin_a = start_a(a, batch, row0 + i_a)
        begin_b = start_b(b, batch, column0 + i_b)

        for i in range(64):
            total[i] = C(0)
        put_a(slab_a, 0, i_a, k_a, fetch_a(a, begin_a, row0 + i_a, k_a))
        put_b(slab_b, 0, i_b, k_b, fetch_b(b, begin_b, column0 + i_b, k_b))
        cuda.syncthreads()
        stage = 0
        k = 0
        while k < a.shape[2]:
            k += DEPTH
            # the loads of the next slab are issued; beyond the end of k it is zeros, and nothing is
            # loaded
            next_a = fetch_a(a, begin_a, row0 + i_a, k + k_a)
            next_b = fetch_b(b, begin_b, column0 + i_b, k + k_b)
            # written out, not a loop: so the assembler mixes the loads of one step with the
            # arithmetic of another
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
            put_b(slab_b, stage, i_b, k_b, next_b)
            cuda.syncthreads()
        for i in range(8):
            row = row0 + m + (i & 3) + (i >> 2) * 32
            if row < out.shape[1]:
                finish(out, batch, row, column0 + n, total, 8 * i)
                finish(out, batch, row, column0 + n + 16, total, 8 * i + 4)

    return matmul_register


Offsets = tuple[int, int, int]


def _views(p: Product, offsets: Offsets, count: int) -> list[Any]:
    """The three arrays as (count, m, k), (count, k, n) and (count, m, n)."""
    return [
        Input(0).view((count, p.m, p.k), p.strides_a, offset=offsets[0]),
        Input(1).view((count, p.k, p.n), p.strides_b, offset=offsets[1]),
        Output(0).view((count, p.m, p.n), p.strides_c, offset=offsets[2]),
    ]


def launches(problem: Problem, launch: Callable[..., Launch]) -> Plan:
    """Plan of the launches of one kernel; `launch` takes what `naive` does."""
    p, a, b = problem.product, problem.a, problem.b
    return Plan([p.out], [launch(p, a, b, offsets, count) for offsets, count in p.launches()])


def naive(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    """The launch of matmul_naive for `count` matrices at these byte offsets."""
    return Launch(
        matmul_naive(a.dtype), (blocks(p.m * p.n, 256), count), 256, _views(p, offsets, count)
    )


def tiled(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    """As `naive`, of matmul_tiled."""
    grid = (blocks(p.m, TILE) * blocks(p.n, TILE), count)
    return Launch(matmul_tiled(a.dtype), grid, (TILE, TILE), _views(p, offsets, count))


def _order(
    layout: Layout, size: int, depth: int, strides: tuple[int, int, int], offset: int
) -> str:
    """How matmul_register is to fetch an operand x[batch, i, k] of shape (..., size, depth): see
    _slab."""
    step, along_i, along_k = strides
    by_k = along_k == layout.itemsize or (
        along_i != layout.itemsize and abs(along_k) <= abs(along_i)
    )
    inner, row, count = (along_k, along_i, depth) if by_k else (along_i, along_k, size)
    vector = 4 * layout.itemsize
    even = layout.aligned and offset % vector == step % vector == row % vector == 0
    whole = inner == layout.itemsize and even and count % 4 == 0
    return ("K" if by_k else "I") if whole else ("k" if by_k else "i")


def register(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    """As `naive`, of matmul_register."""
    return register_tiles(matmul_register, SIDE, 256, p, a, b, offsets, count)


def register_tiles(
    factory: Any,
    side: int,
    threads: int,
    p: Product,
    a: Layout,
    b: Layout,
    offsets: Offsets,
    count: int,
    shared: int = 0,
) -> Launch:
    """The launch of a kernel that computes tiles of `side` x `side` by so many threads; factory:
    as of matmul_register."""
    x, _, z = _views(p, offsets, count)
    flipped = (p.strides_b[0], p.strides_b[2], p.strides_b[1])
    y = Input(1).view((count, p.n, p.k), flipped, offset=offsets[1])
    kernel = factory(
        a.dtype,
        _order(a, p.m, p.k, p.strides_a, offsets[0]),
        _order(b, p.n, p.k, flipped, offsets[1]),
        p.n % 4 == 0,
    )
    return Launch(
        kernel, (blocks(p.m, side) * blocks(p.n, side), count), threads, [x, y, z], shared=shared
    )


def plan_naive(problem: Problem) -> Plan:
    return launches(problem, naive)


def plan_tiled(problem: Problem) -> Plan:
    return launches(problem, tiled)


def plan_register(problem: Problem) -> Plan:
    return launches(problem, register)
