"""Matrix products on the tensor cores of compute capability 8.0 and later: cp.async loads slabs,
mma.sync multiplies them.

The idea. A warp's `mma` multiplies a 16 x 32-byte by a 32-byte x 8 fragment in its registers. The
kernel has to bring the fragments there in time:

    a tile of 128 x 128, slabs of 128 bytes of k    eight warps, 2 x 4, each 64 x 32: 6 fragment
                                                    loads serve 16 mma
    or of 128 x 256, where shared memory allows     each 64 x 64: 8 fragment loads serve 32 mma
    fragments in two sets                           the fragments of a step are loaded while the
                                                    step before is multiplied
    three slabs in turn                             cp.async copies memory -> shared memory past the
                                                    registers, two slabs ahead of the one that is
                                                    multiplied: one barrier per slab
    swizzled rows                                   chunk c of row r lies at chunk c xor (r % 8):
                                                    ldmatrix reads eight rows from eight different
                                                    groups of banks, without padding
    ldmatrix, transposing                           operands contiguous along m or n instead of k
                                                    cost nothing extra

One kernel serves all kinds, because an instruction's k is 32 bytes of whatever is multiplied: 16
numbers of 16 bits, 8 of TF32 (float32 whose low bits are rounded away in registers), 32 of int8
(summed in int32, exact modulo 2^32). Operands of 32 and 8 bits must be contiguous along k: ldmatrix
transposes 16-bit numbers only; the planner copies others.

float64 has instructions of its own, 16 numbers of k at a time: exactly a slab. Its fragments are
read number by number, 8 bytes per lane; the swizzle keeps those from colliding as well
(``matmul_mma_double``).

The floor: 2 M N K / (multiprocessors x multiply-adds a clock x 2 x clock): 1,024 multiply-adds of
16-bit numbers a clock and multiprocessor on compute capability 8.0. On compute capability 9.0 this
kernel is far from the floor: only wgmma reaches it.

Measured (row versions_matmul_bfloat16):
4,096 x 4,096 x 4,096, bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                                     TFLOP/s     of cuBLAS
    matmul_naive                         1.3          0.00
    matmul_tiled                         7.2          0.01
    matmul_register                     40.8          0.05
    matmul_mma                           352          0.45
    matmul_wgmma 64x64                   346          0.44
    matmul_wgmma 128x128                 743          0.95
    matmul_wgmma 128x128 pingpong        722          0.92
    matmul_wgmma 128x256                 784          1.00
    cuBLAS                               784          1.00

(end of what was measured)
"""

from __future__ import annotations

import functools
from typing import Any

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.tma_pipeline import advance, first_tile, tile_at
from ..ptx import sm80 as ptx

i32, i64, f32 = types.int32, types.int64, types.float32

SIDE = 128  # rows of a tile of C, and columns where not said otherwise
STAGES = 3
THREADS = 256
SIZES = {"bf16": 2, "f16": 2, "f32": 4, "s32": 4, "s8": 1}  # bytes of what is stored


def stage_bytes(columns: int) -> int:
    """Bytes of a slab of A and of B for a tile of 128 x columns."""
    return (SIDE + columns) * 128


def shared_bytes(columns: int) -> int:
    """Bytes of shared memory a block."""
    return STAGES * stage_bytes(columns) + 1024


def columns_for(n: int, capability: tuple[int, int]) -> int:
    """Columns of a tile: 256 where C is wide, shared memory holds three slabs of that (163 KB per
    block) and the sums fit the registers (on 10.0 they do not quite)."""
    return 256 if n >= 256 and capability in ((8, 0), (9, 0)) else SIDE


@functools.cache
def _fetch(major: str, lines: int = SIDE) -> Any:
    """A device function that asks for a slab of an operand, `lines` rows of 128 bytes: (shared
    address, global address, bytes from one row to the next, first row, first byte of a row, rows,
    bytes of a row, thread).

    "K": rows are m (n), bytes along k. "M": rows are k, 64 of them for the first 128 bytes along m
    (n), 64 for the next.
    """

    turns = lines * 8 // THREADS

    @device_function
    def fetch(at, source, pitch, row0, byte0, rows, width, thread):
        for i in range(turns):
            chunk = i32(thread + THREADS * i)
            line = i32(chunk >> 3)
            column = i32(chunk & 7)
            row, byte = i32(row0 + line), i32(byte0 + 16 * column)
            if major == "M":
                row, byte = i32(row0 + (line & 63)), i32(byte0 + 128 * (line >> 6) + 16 * column)
            inside = i32(min(max(width - byte, 0), 16))
            if row >= rows:
                inside = i32(0)
            ptx.copy_16_or_zero(
                i32(at + line * 128 + ((column ^ (line & 7)) << 4)),
                source + i64(row) * pitch + byte,
                inside,
            )

    return fetch


@functools.cache
def _fragments(major: str, second: bool) -> Any:
    """A device function: four registers, fragments of 16 rows (m or n) from `row` on and 32 bytes
    of k, the step-th of the slab. `second`: of B, where the two halves along k come before the two
    along n."""

    @device_function
    def along_k(at, row, step, lane):
        if second:
            line, chunk = (
                i32(row + (lane & 7) + ((lane >> 4) << 3)),
                i32(2 * step + ((lane >> 3) & 1)),
            )
        else:
            line, chunk = i32(row + (lane & 15)), i32(2 * step + (lane >> 4))
        return ptx.load_matrix_4(i32(at + line * 128 + ((chunk ^ (line & 7)) << 4)))

    @device_function
    def across(at, row, step, lane):
        if second:
            line, chunk = i32(16 * step + (lane & 15)), i32(((row & 63) >> 3) + (lane >> 4))
        else:
            line, chunk = (
                i32(16 * step + (lane & 7) + ((lane >> 4) << 3)),
                i32(((row & 63) >> 3) + ((lane >> 3) & 1)),
            )
        return ptx.load_matrix_4_transposed(
            i32(at + (row >> 6) * 8192 + line * 128 + ((chunk ^ (line & 7)) << 4))
        )

    return along_k if major == "K" else across


@functools.cache
def _put(store: str) -> Any:
    """A device function that stores two neighbours of C: (address, of both?, at once?, x, y).
    store: "bf16", "f16" (from float32), "f32", "s32", "s8"."""
    pack = ptx.pack_bf16 if store == "bf16" else ptx.pack_f16

    if store in ("bf16", "f16"):

        @device_function
        def put(at, both, even, x, y):
            bits = pack(x, y)
            if even:
                ptx.store_global(at, bits)
            else:
                ptx.store_global_half(at, bits)
                if both:
                    ptx.store_global_half(at + 2, bits >> 16)

        return put
    one, two = {
        "f32": (ptx.store_global_float, ptx.store_global_float_2),
        "s32": (ptx.store_global, ptx.store_global_2),
        "s8": (ptx.store_global_byte, None),
    }[store]
    size = SIZES[store]
    if two is None:

        @device_function
        def put(at, both, even, x, y):
            one(at, x)
            if both:
                one(at + size, y)

    else:

        @device_function
        def put(at, both, even, x, y):
            if even:
                two(at, x, y)
            else:
                one(at, x)
                if both:
                    one(at + size, y)

    return put


@functools.cache
def matmul_mma(kind: str, major_a: str, major_b: str, store: str, size: int, columns: int) -> Any:
    """C = A B. kind: "bf16", "f16", "tf32", "s8"; majors: "K" or (16 bits) "M"; store: see _put;
    size: bytes of a number; columns: of a tile, 128 or 256."""
    instruction = ptx.mma(kind)
    fetch_a, fetch_b = _fetch(major_a), _fetch(major_b, columns)
    fragments_a, fragments_b = _fragments(major_a, False), _fragments(major_b, True)
    put, size_c = _put(store), SIZES[store]
    T = i32 if kind == "s8" else f32
    depth = 128 // size  # numbers along k in a slab
    arrived = ptx.copy_wait(STAGES - 2)
    stage_size, own_columns = stage_bytes(columns), columns // 4
    pairs = own_columns // 16  # fragments of B that a warp has, 16 columns each
    tiles = 2 * pairs  # of 8 columns
    held_b, held_c = 4 * pairs, 16 * tiles

    @device_function
    def ready(bits):
        return ptx.float_bits(ptx.round_tf32(ptx.bits_float(bits))) if kind == "tf32" else bits

    @device_function
    def ask(at, a, b, pitch_a, pitch_b, row, column, slab, m, n, k, thread):
        if major_a == "K":
            fetch_a(at, a, pitch_a, row, i32(slab * 128), m, i32(k * size), thread)
        else:
            fetch_a(at, a, pitch_a, i32(slab * depth), i32(row * size), k, i32(m * size), thread)
        if major_b == "K":
            fetch_b(
                i32(at + SIDE * 128), b, pitch_b, column, i32(slab * 128), n, i32(k * size), thread
            )
        else:
            fetch_b(
                i32(at + SIDE * 128),
                b,
                pitch_b,
                i32(slab * depth),
                i32(column * size),
                k,
                i32(n * size),
                thread,
            )

    @device_function
    def bring(x, y, here, row, column, step, lane):
        """The fragments of a step: x: (16,) of A, y: (held_b,) of B."""
        for i in range(4):
            p, q, r, s = fragments_a(here, i32(row + 16 * i), step, lane)
            x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3] = (
                ready(p),
                ready(q),
                ready(r),
                ready(s),
            )
        for j in range(pairs):
            p, q, r, s = fragments_b(i32(here + SIDE * 128), i32(column + 16 * j), step, lane)
            y[4 * j], y[4 * j + 1], y[4 * j + 2], y[4 * j + 3] = (
                ready(p),
                ready(q),
                ready(r),
                ready(s),
            )

    @device_function
    def multiply(c, x, y):
        for i in range(4):
            for j in range(tiles):
                instruction(c, 4 * (tiles * i + j), x, 4 * i, y, 2 * j)

    @device_function
    def store_tile(c, e, at_c, r, s, m, n, even):
        """Four sums of a thread: row r, columns s and s + 1; and eight rows below."""
        if s < n:
            at = at_c + (i64(r) * n + s) * size_c
            if r < m:
                put(at, s + 1 < n, even, c[e], c[e + 1])
            if r + 8 < m:
                put(at + 8 * size_c * i64(n), s + 1 < n, even, c[e + 2], c[e + 3])

    @device_function
    def store_rows(c, i, at_c, r, s, m, n, even):
        """The i-th 16 rows of a warp. Written out: where LLVM leaves a loop, the sums cannot stay
        in registers."""
        r, e = i32(r + 16 * i), 4 * tiles * i
        store_tile(c, e, at_c, r, s, m, n, even)
        store_tile(c, e + 4, at_c, r, i32(s + 8), m, n, even)
        store_tile(c, e + 8, at_c, r, i32(s + 16), m, n, even)
        store_tile(c, e + 12, at_c, r, i32(s + 24), m, n, even)
        if tiles == 8:
            store_tile(c, e + 16, at_c, r, i32(s + 32), m, n, even)
            store_tile(c, e + 20, at_c, r, i32(s + 40), m, n, even)
            store_tile(c, e + 24, at_c, r, i32(s + 48), m, n, even)
            store_tile(c, e + 28, at_c, r, i32(s + 56), m, n, even)

    @cuda.jit(launch_bounds=(THREADS, 1))
    def matmul_mma(a, b, out, m, n, k, pitch_a, pitch_b, step_a, step_b, tiles_m, tiles_n):
        """a, b, out: arrays that begin where A (batch, m, k), B and C (batch, m, n), contiguous,
        do. pitches: bytes from one row (of m or n: "K"; of k: "M") to the next, steps: bytes from
        one matrix to the next. A block a tile."""
        base = first_tile(cuda.shared.array(0, types.uint8))
        thread = i32(cuda.threadIdx.x)
        lane, warp = i32(thread & 31), i32(thread >> 5)
        batch = i32(cuda.blockIdx.y)
        _, tile_row, tile_column = tile_at(i32(cuda.blockIdx.x), tiles_m, tiles_n)
        row, column = i32(tile_row * SIDE), i32(tile_column * columns)
        at_a = ptx.global_address(a) + batch * step_a
        at_b = ptx.global_address(b) + batch * step_b
        c = cuda.local.array(held_c, T)
        x, y = cuda.local.array(16, i32), cuda.local.array(held_b, i32)
        u, v = cuda.local.array(16, i32), cuda.local.array(held_b, i32)
        for i in range(held_c):
            c[i] = T(0)
        slabs = i32((k + depth - 1) // depth)
        for stage in range(STAGES - 1):
            if stage < slabs:
                ask(
                    i32(base + stage * stage_size),
                    at_a,
                    at_b,
                    pitch_a,
                    pitch_b,
                    row,
                    column,
                    stage,
                    m,
                    n,
                    k,
                    thread,
                )
            ptx.copy_commit()
        own_row, own_column = i32((warp >> 2) * 64), i32((warp & 3) * own_columns)
        stage, fill, phase = i32(0), i32(STAGES - 1), i32(0)
        for slab in range(slabs):
            arrived()
            cuda.syncthreads()  # the slab is there, for all; and all are done with the one before
            if slab + (STAGES - 1) < slabs:
                ask(
                    i32(base + fill * stage_size),
                    at_a,
                    at_b,
                    pitch_a,
                    pitch_b,
                    row,
                    column,
                    i32(slab + (STAGES - 1)),
                    m,
                    n,
                    k,
                    thread,
                )
            ptx.copy_commit()
            here = i32(base + stage * stage_size)
            bring(x, y, here, own_row, own_column, 0, lane)
            bring(u, v, here, own_row, own_column, 1, lane)
            multiply(c, x, y)
            bring(x, y, here, own_row, own_column, 2, lane)
            multiply(c, u, v)
            bring(u, v, here, own_row, own_column, 3, lane)
            multiply(c, x, y)
            multiply(c, u, v)
            stage, phase = advance(stage, phase, STAGES)
            fill, phase = advance(fill, phase, STAGES)
        at_c = ptx.global_address(out) + i64(batch) * m * n * size_c
        even = n & 1 == 0
        r, s = i32(row + own_row + (lane >> 2)), i32(column + own_column + 2 * (lane & 3))
        store_rows(c, 0, at_c, r, s, m, n, even)
        store_rows(c, 1, at_c, r, s, m, n, even)
        store_rows(c, 2, at_c, r, s, m, n, even)
        store_rows(c, 3, at_c, r, s, m, n, even)

    return matmul_mma


@functools.cache
def matmul_mma_double(whole: bool) -> Any:
    """C = A B in float64, both operands contiguous along k. whole: see sm80.mma_double."""
    multiply = ptx.mma_double(whole)
    fetch = _fetch("K")
    arrived = ptx.copy_wait(STAGES - 2)
    f64 = types.float64
    stage_size = stage_bytes(SIDE)

    @device_function
    def number(at, row, p, lane):
        """Column 4 p + lane % 4 of a row of a slab."""
        chunk = i32(2 * p + ((lane >> 1) & 1))
        return ptx.load_shared_double(
            i32(at + row * 128 + ((chunk ^ (row & 7)) << 4) + ((lane & 1) << 3))
        )

    def matmul_mma_double(a, b, out, m, n, k, pitch_a, pitch_b, step_a, step_b, tiles_m, tiles_n):
        """As matmul_mma."""
        base = first_tile(cuda.shared.array(0, types.uint8))
        thread = i32(cuda.threadIdx.x)
        lane, warp = i32(thread & 31), i32(thread >> 5)
        batch = i32(cuda.blockIdx.y)
        _, tile_row, tile_column = tile_at(i32(cuda.blockIdx.x), tiles_m, tiles_n)
        row, column = i32(tile_row * SIDE), i32(tile_column * SIDE)
        at_a = ptx.global_address(a) + batch * step_a
        at_b = ptx.global_address(b) + batch * step_b
        c = cuda.local.array(64, f64)
        x = cuda.local.array(8, f64)
        y = cuda.local.array(16, f64)
        for i in range(64):
            c[i] = f64(0)
        slabs = i32((k + 15) // 16)
        for stage in range(STAGES - 1):
            if stage < slabs:
                at = i32(base + stage * stage_size)
                fetch(at, at_a, pitch_a, row, i32(stage * 128), m, i32(k * 8), thread)
                fetch(
                    i32(at + SIDE * 128),
                    at_b,
                    pitch_b,
                    column,
                    i32(stage * 128),
                    n,
                    i32(k * 8),
                    thread,
                )
            ptx.copy_commit()
        own_row, own_column = (
            i32((warp >> 2) * 64 + (lane >> 2)),
            i32((warp & 3) * 32 + (lane >> 2)),
        )
        stage, fill, phase = i32(0), i32(STAGES - 1), i32(0)
        for slab in range(slabs):
            arrived()
            cuda.syncthreads()
            if slab + (STAGES - 1) < slabs:
                byte = i32((slab + (STAGES - 1)) * 128)
                fetch(
                    i32(base + fill * stage_size), at_a, pitch_a, row, byte, m, i32(k * 8), thread
                )
                fetch(
                    i32(base + fill * stage_size + SIDE * 128),
                    at_b,
                    pitch_b,
                    column,
                    byte,
                    n,
                    i32(k * 8),
                    thread,
                )
            ptx.copy_commit()
            here = i32(base + stage * stage_size)
            for j in range(4):
                for p in range(4):
                    y[4 * j + p] = number(i32(here + SIDE * 128), i32(own_column + 8 * j), p, lane)
            for i in range(4):
                for p in range(4):
                    x[2 * p] = number(here, i32(own_row + 16 * i), p, lane)
                    x[2 * p + 1] = number(here, i32(own_row + 16 * i + 8), p, lane)
                for j in range(4):
                    multiply(c, 16 * i + 4 * j, x, 0, y, 4 * j)
            stage, phase = advance(stage, phase, STAGES)
            fill, phase = advance(fill, phase, STAGES)
        to = batch * (i64(m) * n)
        for i in range(4):
            r = i32(row + own_row + 16 * i)
            for j in range(4):
                s = i32(column + (warp & 3) * 32 + 8 * j + 2 * (lane & 3))
                for half in range(2):
                    if r + 8 * half < m:
                        at = to + i64(r + 8 * half) * n + s
                        if s < n:
                            out[at] = c[16 * i + 4 * j + 2 * half]
                        if s + 1 < n:
                            out[at + 1] = c[16 * i + 4 * j + 2 * half + 1]

    if whole:  # a name of its own: not every architecture that runs the other runs this
        matmul_mma_double.__name__ = "matmul_mma_double_whole"
    return cuda.jit(launch_bounds=(THREADS, 1))(matmul_mma_double)
