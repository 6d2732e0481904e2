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

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.dtypes import bfloat16, float16
from ...core.layout import Layout
from ...runtime import cublas
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..copy.strided import copy_part, whole
from ..lib.plan_edit import renumber
from .aligned_copy import dense
from .gemv_plan import few_rows
from .measured import TILE, kind, measured, turned
from .problem import Product
from .register_tiles import SIDE, _naive, _register, _tiled
from .simt import _block, _small

LITTLE = 64**3  # multiply-adds that take the device less time than a cuBLAS call takes the host


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
        from .gemv_plan import gemv_same

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
    steps += renumber(plan.steps, {Input(0): Temp(0), Input(1): Temp(1)})
    return Plan([out], steps, copies)


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
