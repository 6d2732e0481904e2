"""Matrix products: five kernels from simple to fast, and cuBLAS as the other candidate.

The idea. C[m, n] = sum over k of A[m, k] B[k, n] costs 2 M N K operations on M K + K N + M N
numbers. A GPU does some 30 multiply-adds in the time it takes to read one number from memory, so
everything is about using each number often:

``matmul_naive``     one thread per element of C. Each multiply-add reads two numbers: the reads set
                     the speed
                     (about 1/40 of the arithmetic the device could do).
``matmul_tiled``     a block computes a 16 x 16 tile of C and loads 16 x 16 tiles of A and B into
                     shared memory.
                     Every number is read from memory once per tile, not once per element: 16 times
                     fewer reads. But each multiply-add still reads two numbers, now from shared
                     memory, which is the new limit.
``matmul_register``  a block computes 128 x 128, each thread 8 x 8 of it in 64 registers. Per step
of k a thread reads
                     8 + 8 numbers from shared memory, as four 16-byte loads, and does 64
                     multiply-adds: arithmetic and these reads take about as long. While one k-slab
                     is multiplied, the next one is already in flight from memory to registers
                     (double buffering: one barrier per slab).
``matmul_block``     (simt.py) 16 x 8 sums per thread: fewer reads of shared memory for as
                     much arithmetic. Where
                     tiles are too few to fill the device, k is split, and a second kernel adds the
                     partial sums.
``matmul_async``     (simt_async_copy.py) float32, from compute capability 8.0 on: cp.async loads
                     the slabs, so that more of the
                     instructions are multiply-adds, and operands of odd strides need no copies.
cuBLAS               tensor cores for 16-bit numbers; float32 means float32 unless TF32 is
                     requested.

The floor is 2 M N K / (multiprocessors x 128 lanes x 2 x clock): about 60 TFLOP/s in float32 on an
H200.

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

How 256 threads share a 128 x 128 tile. Eight warps tile it 2 x 4, each 64 x 32. In a warp, lane l
owns the rows 4 a .. 4 a + 3 and 32 + 4 a .. and the columns 4 b .. 4 b + 3 and 16 + 4 b .., where a
= (l / 2) % 8 and b = 2 (l / 16) + l % 2. So 32 lanes read 8 different 16-byte words of A and 4 of
B: no word comes from a shared-memory bank that serves another one, and neighbouring lanes read the
same words, which the hardware broadcasts.

A is kept k-major in shared memory (``a[k, m]``), so that a thread's 4 rows are one 16-byte load.
Slab rows are padded from 128 to 132 numbers: the 32 lanes of a warp, writing the transposed slab,
then hit 32 different banks.

Integers run in the same kernels (int32 arithmetic for up to 32 bits, int64 above: C integer
arithmetic wraps, as NumPy's does), 16-bit floats are widened to float32 on load, bool means "any
of".
"""

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.dispatch import autotune
from ...core.dispatch.plan import ArrayArg, Call, Input, Launch, Output, Plan, Temp
from ...core.dtypes import bfloat16, float16
from ...core.layout import Layout
from ...runtime import cublas
from ...runtime import device as devices
from ..compiler.compile import SIMULATOR, blocks, codec
from ..compiler.lazy_numba import cuda, types
from ..copy.strided import copy_part, whole
from ..lib.vector_io import device
from ..ptx import intrinsics
from .problem import Product

TILE = 16  # of matmul_tiled
TILES = (TILE, TILE)
LITTLE = 64**3  # multiply-adds that take the device less time than a cuBLAS call takes the host
SIDE = 128  # of the tile of C that a block of matmul_register computes
DEPTH = (
    8  # of its slabs along k: 32 loads and 512 multiply-adds a barrier; 16 would fill all registers
)
SLABS = (2, DEPTH, SIDE + 4)  # double-buffered, padded
GEMV_ROWS = 16  # up to this many rows of A, gemv.py is faster
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

        @device
        def any_of(value):
            return types.uint8(value != 0)

        return computed, any_of if dtype.kind == "b" else store, computed
    return load, store, computed


# -------------------- kernels


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
    load_vector, store_vector = intrinsics.load_vector, intrinsics.store_vector

    @device
    def start(x, batch, i):
        return batch * (x.strides[0] // item) + i * (x.strides[1] // item)

    if order in "Kk":  # 2 neighbouring threads load 8 numbers of one i

        @device
        def place(thread):
            return thread >> 1, (thread & 1) << 2

        @device
        def put(s, stage, i, k, v):
            at = (stage * DEPTH + k) * (SIDE + 4) + i
            store_vector(s, at, (v[0],))
            store_vector(s, at + (SIDE + 4), (v[1],))
            store_vector(s, at + 2 * (SIDE + 4), (v[2],))
            store_vector(s, at + 3 * (SIDE + 4), (v[3],))

    else:  # a warp loads 128 numbers of one k

        @device
        def place(thread):
            return (thread & 31) << 2, thread >> 5

        @device
        def put(s, stage, i, k, v):
            store_vector(s, (stage * DEPTH + k) * (SIDE + 4) + i, v)

    if order in "KI":  # sizes are multiples of 4: all 4 are inside, or none

        @device
        def fetch(x, begin, i, k):
            if i < x.shape[1] and k < x.shape[2]:
                v = load_vector(x, begin + (k if order == "K" else k * (x.strides[2] // item)), 4)
                return read(v[0]), read(v[1]), read(v[2]), read(v[3])
            return C(0), C(0), C(0), C(0)

    else:
        di, dk = (0, 1) if order == "k" else (1, 0)

        @device
        def one(x, begin, i, k, j):
            if i + j * di < x.shape[1] and k + j * dk < x.shape[2]:
                along = j * di * (x.strides[1] // item) + (k + j * dk) * (x.strides[2] // item)
                return read(load_vector(x, begin + along, 1)[0])
            return C(0)

        @device
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
    load_vector = intrinsics.load_vector

    @device
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
    store_vector = intrinsics.store_vector
    item = dtype.itemsize

    @device
    def write_4(out, batch, row, column, total, i):
        for j in range(4):
            if column + j < out.shape[2]:
                out[batch, row, column + j] = write(total[i + j])

    @device
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


# -------------------- planner


def matmul(a: Layout, b: Layout, *, tf32: bool = False, version: str | None = None) -> Plan:
    """Planner of a @ b for two layouts of one dtype.

    version: "cublas", "block" or "small" (simt.py), "register", "tiled" or "naive"; for
    float32 "async" and "async small" (simt_async_copy.py); for 16-bit floats, int8 and, with
    `tf32`, float32 "wgmma" (what may follow: tensor_core_dispatch.Choice); for these and float64
    "mma". By default what was measured to be fastest (core/dispatch/autotune.py), else cuBLAS for
    floats and complex numbers where it can be loaded, else the kernel that suits the sizes. `tf32`
    lets float32 inputs be rounded to 10 bits.
    """
    p = Product(a, b)
    if p.out.size == 0:
        return Plan([p.out], [])
    why = ""
    if version is None:
        version, why = _choose(p, a, b, tf32)
    plan = _version(p, a, b, tf32, version)
    plan.why = why or f"requested: {version}"
    return plan


def _version(p: Product, a: Layout, b: Layout, tf32: bool, version: str) -> Plan:
    if version == "cublas":
        return _cublas(p, a, b, tf32)
    if version.startswith("gemv"):
        from ..quantize.linear import gemv_same

        return gemv_same(a, turned(b), version=version)
    if version == "mma" or version.startswith("wgmma"):
        from . import tensor_core_dispatch  # what it imports has no meaning in the simulator

        tf32 = tf32 and a.dtype == np.float32
        if version == "mma":
            return tensor_core_dispatch.mma(a, b, tf32=tf32)
        return tensor_core_dispatch.wgmma(a, b, version.removeprefix("wgmma").strip(), tf32=tf32)
    if version in ("async", "async small"):
        from . import simt_async_copy

        return simt_async_copy.planned(
            p, a, b, simt_async_copy.SMALL if version == "async small" else simt_async_copy.LARGE
        )
    if version == "block":
        from .simt import arranged

        if (plan := arranged(p, a, b)) is not None:
            return plan
    launch = {
        "block": _block,
        "small": _small,
        "register": _register,
        "tiled": _tiled,
        "naive": _naive,
    }[version]
    return Plan([p.out], [launch(p, a, b, offsets, count) for offsets, count in p.launches()])


def matmul_int32(a: Layout, b: Layout, *, version: str | None = None) -> Plan:
    """Planner of a @ b for int8, summed and kept in int32. version: "wgmma", "mma" (as of `matmul`)
    or "cast", which multiplies int32 copies."""
    out = Product(a, b).out.like(dtype=np.dtype(np.int32))
    if out.size == 0:
        return Plan([out], [])
    able = [v for v in candidates(a, b) if v in ("wgmma", "mma")]
    if version is None:
        version = able[0] if able and 0 not in a.shape else "cast"
    if version != "cast":
        from . import tensor_core_dispatch

        if version == "mma":
            return tensor_core_dispatch.mma(a, b, wide=True)
        return tensor_core_dispatch.wgmma(
            a, b, version.removeprefix("wgmma").strip(), out=out.dtype
        )
    copies = [x.like(dtype=out.dtype) for x in (a, b)]
    steps = [
        step
        for i, (x, y) in enumerate(zip((a, b), copies, strict=True))
        for step in copy_part(whole(Input(i), x), whole(Temp(i), y))
    ]
    plan = _version(
        Product(*copies), copies[0], copies[1], False, _own_version(Product(*copies), out.dtype)
    )
    for step in plan.steps:
        if isinstance(step, Launch):  # its operands are the copies
            args = [
                replace(arg, kind="t") if isinstance(arg, ArrayArg) and arg.kind == "x" else arg
                for arg in step.args
            ]
            steps.append(Launch(step.kernel, step.grid, step.block, args, step.shared))
    return Plan([out], steps, copies)


def turned(x: Layout) -> Layout:
    """The transpose of a matrix: a view."""
    return x.view(x.shape[::-1], x.strides[::-1])


def candidates(a: Layout, b: Layout, tf32: bool = False) -> list[str]:
    """The versions that can multiply these layouts on their device, whatever their tiles."""
    capability, dtype = devices.capability(a.device), a.dtype
    found = ["cublas"] if dtype in cublas.DTYPES and cublas.available() else []
    if not SIMULATOR and (
        dtype in (float16, bfloat16, np.int8, np.float64) or (tf32 and dtype == np.float32)
    ):
        found += ["wgmma"] if capability == (9, 0) and dtype != np.float64 else []
        found += ["mma"] if capability >= (8, 0) else []
    found += (
        ["async", "async small"]
        if not SIMULATOR and dtype == np.float32 and capability >= (8, 0)
        else []
    )
    return [*found, "block", "small", "register", "tiled", "naive"]


def contenders(a: Layout, b: Layout, tf32: bool = False) -> list[str]:
    """The versions worth timing for these layouts, each size of tile by itself."""
    p = Product(a, b)
    found = []
    for version in candidates(a, b, tf32):
        if version == "wgmma":
            from . import tensor_core_dispatch

            found += [
                f"wgmma {choice}"
                for choice in tensor_core_dispatch.contenders(
                    p.m, p.k, p.n, p.batch, devices.multiprocessors(a.device), a.itemsize
                )
            ]
        elif version not in ("register", "naive", "tiled") or p.m * p.n * p.k < 1 << 27:
            found.append(version)
    return found


def kind(a: Layout, b: Layout, tf32: bool = False) -> str:
    """The key of tables of measurements besides the sizes: dtype, which operand is transposed, and
    "odd" where rows of an operand or of C do not all begin at multiples of 16 bytes."""
    turned, odd = "", not b.ndim > 1 or b.shape[-1] * b.itemsize % 16 != 0
    for x in (a, b):
        flipped = x.ndim > 1 and x.strides[-1] != x.itemsize and x.strides[-2] == x.itemsize
        turned += "t" if flipped else "n"
        outer = x.strides[:-2] + x.strides[-1:] if flipped else x.strides[:-1]
        odd |= not x.aligned or any(s % 16 for s in outer)
    return f"{'tf32' if tf32 and a.dtype == np.float32 else a.dtype} {turned}{' odd' * odd}"


def measured(
    p: Product, a: Layout, b: Layout, able: list[str], tf32: bool = False, without: str = "-"
) -> autotune.Decision | None:
    """The fastest version measured of this product; see tune.lookup."""
    what = kind(a, b, tf32)
    for kind_of in (
        what,
        *["b" + what] * what.startswith("float16"),
    ):  # bfloat16 takes the same time
        found = autotune.lookup(
            "matmul", a.device, kind_of, (p.batch * len(p.parts), p.m, p.k, p.n), able, without
        )
        if found is not None:
            return found
    return None


def few_rows(x: Layout, weight: Layout) -> bool:
    """Whether gemv.py can multiply x (.., in) by weight (out, in): 1 to 16 rows of 16-bit numbers,
    all in C order."""
    whole = weight.ndim == 2 and all(o.contiguous and o.aligned for o in (x, weight))
    return bool(
        not SIMULATOR
        and x.dtype in (float16, bfloat16)
        and whole
        and x.size
        and weight.size
        and x.shape[-1] % 8 == 0
        and x.size <= GEMV_ROWS * x.shape[-1]
        and devices.capability(x.device) >= (8, 0)
    )


def _choose(p: Product, a: Layout, b: Layout, tf32: bool) -> tuple[str, str]:
    """(version, the reason for it)."""
    if p.k == 0:
        return "naive", "nothing to sum"
    if few_rows(a, turned(b)):
        return (
            "gemv",
            "few rows: a kernel that reads each weight once, ahead of cuBLAS wherever it was "
            "measured",
        )
    able = candidates(a, b, tf32)
    few = (
        p.m * p.n * p.k <= LITTLE
        and p.k <= 8 * TILE
        and len(p.parts) == 1
        and (
            p.batch == 1  # no tile waits for another
            or -(-p.m // TILE) * -(-p.n // TILE) * p.batch <= devices.multiprocessors(a.device)
        )
    )
    if able[0] == "cublas" and few and a.dtype in (np.float32, np.float64):
        return (
            "tiled",
            "small: it ends before the host has finished a cuBLAS call, which takes twice as long "
            "as a launch",
        )
    found = measured(p, a, b, able, tf32)
    if found is not None:
        return found
    if (
        "wgmma" in able
        and a.itemsize == 2
        and kind(a, b, tf32).endswith("odd")
        and min(p.m, p.n, p.k) >= 512
    ):
        return (
            "wgmma",
            "unaligned rows: cuBLAS reads them element by element; a copy and TMA are faster",
        )
    if able[0] == "cublas":
        return "cublas", "cuBLAS, where nothing was measured"
    if able[0] in ("wgmma", "mma") and min(p.m, p.n) > 16:
        return able[0], "tensor cores, without cuBLAS"
    own = _own_version(p, a.dtype)
    if own in ("block", "small") and "async" in able:
        own = "async" if own == "block" else "async small"
    return own, "the version for such sizes, without cuBLAS"


def _matrices(p: Product, itemsize: int) -> list[cublas.Matrix | None]:
    """A, B and C as cuBLAS reads them; None for an operand that has to be copied first."""
    sizes = ((p.m, p.k), (p.k, p.n), (p.m, p.n))
    found = []
    for (rows, columns), (batch, row, column) in zip(
        sizes, (p.strides_a, p.strides_b, p.strides_c), strict=True
    ):
        found.append(
            cublas.matrix(rows, columns, row // itemsize, column // itemsize, batch // itemsize)
        )
    return found


def dense(
    a: Layout, b: Layout, ready: list[bool]
) -> tuple[list[Layout], list[Launch], list[ArrayArg], list[Layout]]:
    """(scratch, steps, arguments, operands): operands that are not `ready` are made contiguous in
    scratch memory."""
    temps: list[Layout] = []
    steps: list[Launch] = []
    arguments, operands = [Input(0), Input(1)], [a, b]
    for i, layout in enumerate((a, b)):
        if not ready[i]:
            arguments[i], operands[i] = Temp(len(temps)), layout.like()
            temps.append(operands[i])
            steps += copy_part(whole(Input(i), layout), whole(arguments[i], operands[i]))
    return temps, steps, arguments, operands


def _cublas(p: Product, a: Layout, b: Layout, tf32: bool) -> Plan:
    """Operands that are neither row- nor column-major are made contiguous in scratch memory
    first."""
    temps, copies, arguments, operands = dense(
        a, b, [found is not None for found in _matrices(p, a.itemsize)]
    )
    steps: list[Launch | Call] = [*copies]
    if temps:
        p = Product(*operands)
    product = cublas.gemm(a.dtype, p.m, p.n, p.k, *_matrices(p, a.itemsize), p.batch, tf32=tf32)
    for part in p.parts:
        views = []
        for argument, layout, offset in zip(
            (*arguments, Output(0)), (*operands, p.out), part, strict=True
        ):
            views.append(
                argument.view(layout.shape, layout.strides, offset=offset) if offset else argument
            )
        steps.append(Call(product, views))
    return Plan([p.out], steps, temps)


def _own_version(p: Product, dtype: np.dtype) -> str:
    """Register tiles pay when there are enough of them to fill the device; they are for 4-byte
    arithmetic."""
    if p.k == 0:
        return "naive"
    wide = dtype.kind == "c" or dtype.itemsize == 8
    if wide or min(p.m, p.n) <= 32 or p.m * p.n * p.batch < 64 * SIDE * SIDE:
        return "tiled"
    return "small" if min(p.m, p.n) <= SIDE // 2 else "block"


Offsets = tuple[int, int, int]


def _views(p: Product, offsets: Offsets, count: int) -> list[Any]:
    """The three arrays as (count, m, k), (count, k, n) and (count, m, n)."""
    return [
        Input(0).view((count, p.m, p.k), p.strides_a, offset=offsets[0]),
        Input(1).view((count, p.k, p.n), p.strides_b, offset=offsets[1]),
        Output(0).view((count, p.m, p.n), p.strides_c, offset=offsets[2]),
    ]


def _naive(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    grid = (-(-p.m * p.n // 256), count)
    return Launch(matmul_naive(a.dtype), grid, 256, _views(p, offsets, count))


def _tiled(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    grid = (-(-p.m // TILE) * -(-p.n // TILE), count)
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


def _register(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    return register_tiles(matmul_register, SIDE, 256, p, a, b, offsets, count)


def _block(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    from .simt import THREADS, matmul_block

    return register_tiles(matmul_block, SIDE, THREADS, p, a, b, offsets, count)


def _small(p: Product, a: Layout, b: Layout, offsets: Offsets, count: int) -> Launch:
    from .simt import SMALL, matmul_small

    return register_tiles(matmul_small, SMALL, SMALL, p, a, b, offsets, count)


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
