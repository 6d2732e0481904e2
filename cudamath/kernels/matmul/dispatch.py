"""Matrix products: kernels from simple to fast, and cuBLAS.

The idea. C[m, n] = sum over k of A[m, k] B[k, n] takes 2 M N K operations on M K + K N + M N
numbers. A GPU does some 30 multiply-adds in the time it takes to read one number from memory. So a
kernel must use each number often:

``matmul_naive``     one thread per element of C. Each multiply-add reads two numbers, and the reads
                     set the speed: about 1/40 of the arithmetic the device could do.
``matmul_tiled``     a block computes a 16 x 16 tile of C and loads 16 x 16 tiles of A and B into
                     shared memory. Every number is read from memory once per tile, not once per
                     element: 16 times fewer reads. But each multiply-add still reads two numbers,
                     now from shared memory, which is the new limit.
``matmul_register``  a block computes 128 x 128, each thread 8 x 8 of it in 64 registers. Per step
                     of k a thread reads 8 + 8 numbers from shared memory, as four 16-byte loads,
                     and does 64 multiply-adds: arithmetic and these reads take about as long. While
                     one k-slab is multiplied, the next one is in flight from memory to registers
                     (double buffering: one barrier per slab).
``matmul_block``     (simt.py) 16 x 8 accumulators per thread: fewer reads of shared memory for the
                     same arithmetic. Where tiles are too few to fill the device, k is split, and a
                     second kernel adds the partial sums.
``matmul_async``     (simt_async_copy.py) float32, on compute capability 8.0 and later: cp.async
                     loads the slabs. More of the instructions are multiply-adds, and operands of
                     odd strides need no copies.
``matmul_mma``       (sm80.py) tensor cores by mma.sync.
``matmul_wgmma``     (sm90.py) tensor cores by wgmma, operands by TMA, on compute capability 9.0.
``gemv``             (gemv.py) 1 to 16 rows of 16-bit numbers: each weight is read once.
cuBLAS               tensor cores for 16-bit numbers; float32 means float32 unless TF32 is
                     requested.

`VERSIONS` lists them; work.py states what each does, from which its time is predicted
(lib/prediction.py). A measurement of about this size goes before (core/dispatch/autotune.py).

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
Slab rows are padded from 128 to 132 numbers. The 32 lanes of a warp, which write the transposed
slab, then hit 32 different banks.

Integers run in the same kernels (int32 arithmetic for up to 32 bits, int64 above: C integer
arithmetic wraps, as NumPy's does), 16-bit floats are widened to float32 on load, bool means "any
of".
"""

import numpy as np

from ...core.dispatch import autotune
from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dtypes import bfloat16, float16
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.integers import blocks
from ..lib.plan_edit import embed
from ..lib.versions import Version, choose
from . import sm90_tiles, work
from .gemv_plan import few_rows
from .measured import TILE, fastest
from .problem import Problem, transpose

LITTLE = 64**3  # multiply-adds that take the device less time than a cuBLAS call takes the host


# -------------------- what a version supports


def _gemv(p: Problem) -> bool:
    """1 to 16 rows of 16-bit numbers: see gemv_plan.few_rows."""
    return few_rows(p.a, transpose(p.b))


def _tensor_cores(p: Problem) -> bool:
    """Whether tensor cores have the dtype. In the simulator they do not exist."""
    dtype = p.a.dtype
    return not SIMULATOR and (
        dtype in (float16, bfloat16, np.int8, np.float64) or (p.tf32 and dtype == np.float32)
    )


def _sm90(p: Problem) -> bool:
    """wgmma has no float64. It needs a slab of k at least."""
    return (
        _tensor_cores(p)
        and p.a.dtype != np.float64
        and p.product.k > 0
        and devices.capability(p.a.device) == (9, 0)
    )


def _sm80(p: Problem) -> bool:
    return _tensor_cores(p) and devices.capability(p.a.device) >= (8, 0)


def _async_copy(p: Problem) -> bool:
    """cp.async is of compute capability 8.0; its kernels are for float32."""
    return not SIMULATOR and p.a.dtype == np.float32 and devices.capability(p.a.device) >= (8, 0)


def _cublas(p: Problem) -> bool:
    return p.cublas and p.product.k > 0


def _short(p: Problem) -> bool:
    """Whether matmul_tiled ends before the host has finished a cuBLAS call, which takes it twice as
    long as a launch."""
    x = p.product
    tiles = blocks(x.m, TILE) * blocks(x.n, TILE) * x.batch
    return (
        p.cublas
        and p.a.dtype in (np.float32, np.float64)
        and 0 < p.multiply_adds <= LITTLE
        and x.k <= 8 * TILE
        and len(x.parts) == 1
        and (x.batch == 1 or tiles <= devices.multiprocessors(p.a.device))
    )


# -------------------- the versions


#: With it 18 of 324 measured problems are slower than by cuBLAS, without 33; the mean regret is
#: 1.035 and 1.030.
FAVOUR = 1.15

VERSIONS = (
    Version(
        "gemv",
        "matmul.gemv_plan.plan",
        _gemv,
        reason="few rows: each weight is read once",
        work=work.gemv,
    ),
    Version(
        "sm90",
        "matmul.tensor_core_dispatch.plan_sm90",
        _sm90,
        reason="tensor cores by wgmma, operands by TMA",
        work=work.sm90,
    ),
    Version(
        "cublas",
        "matmul.cublas_gemm.plan",
        _cublas,
        reason="cuBLAS",
        work=work.cublas,
        favour=FAVOUR,
    ),
    Version(
        "sm80",
        "matmul.tensor_core_dispatch.plan_sm80",
        _sm80,
        reason="tensor cores by mma.sync",
        work=work.sm80,
    ),
    Version(
        "simt_async_copy",
        "matmul.simt_async_copy.plan",
        _async_copy,
        reason="register tiles of float32",
        work=work.simt_async_copy,
    ),
    Version(
        "simt_async_copy_small",
        "matmul.simt_async_copy.plan_small",
        _async_copy,
        reason="small register tiles of float32",
        work=work.simt_async_copy_small,
    ),
    Version("simt", "matmul.simt.plan", reason="register tiles", work=work.simt),
    Version(
        "simt_small",
        "matmul.simt.plan_small",
        reason="small register tiles",
        work=work.simt_small,
    ),
    Version(
        "register_tiles",
        "matmul.register_tiles.plan_register",
        reason="register tiles, the plain ones",
        work=work.register_tiles,
    ),
    Version(
        "tiled",
        "matmul.register_tiles.plan_tiled",
        reason="small: one launch",
        work=work.tiled_16,
    ),
    Version(
        "naive", "matmul.register_tiles.plan_naive", reason="nothing to share", work=work.naive
    ),
)

#: Of int8, summed and kept in int32.
INT32_VERSIONS = (
    Version(
        "sm90",
        "matmul.tensor_core_dispatch.plan_sm90_int32",
        supports=_sm90,
        reason="tensor cores multiply int8",
    ),
    Version(
        "sm80",
        "matmul.tensor_core_dispatch.plan_sm80_int32",
        supports=_sm80,
        prefers=lambda p: p.product.k > 0,
        reason="tensor cores multiply int8",
    ),
    Version("cast", "matmul.dispatch.by_cast", reason="int32 copies are multiplied"),
)


def matmul(a: Layout, b: Layout, *, tf32: bool = False, version: str | None = None) -> Plan:
    """Planner of a @ b for two layouts of one dtype. `tf32` lets float32 inputs be rounded to 10
    bits.

    version: a name of `VERSIONS`; for "sm90" and "gemv" a tile may follow ("sm90 128x256 split 2",
    see sm90_tiles.Choice). By default the version that was measured to be fastest
    (core/dispatch/autotune.py); where nothing was measured, the one with the least expected time.
    """
    problem = Problem(a, b, tf32)
    if problem.product.out.size == 0:
        return Plan([problem.product.out], [])
    timed = autotune.measuring or autotune.versions("matmul", a.device, problem.key)
    decision = None if version or timed else _measured(problem) or _ruled(problem)
    name, _, problem.tile = (decision.choice if decision else version or "").partition(" ")
    plan = choose("matmul", VERSIONS, problem, name or None)
    if decision:
        plan.why = decision.why
    elif version:
        plan.why = f"requested: {version}"
    return plan


def _ruled(problem: Problem) -> autotune.Decision | None:
    """What the device's time alone does not decide."""
    if _gemv(problem):
        return autotune.Decision("gemv", "gemv: few rows: each weight is read once")
    if _short(problem):
        return autotune.Decision("tiled", "tiled: small: it ends before the host has called cuBLAS")
    return None


def matmul_int32(a: Layout, b: Layout, *, version: str | None = None) -> Plan:
    """Planner of a @ b for int8, summed and kept in int32. version: a name of `INT32_VERSIONS`; for
    "sm90" a tile may follow."""
    name, _, tile = (version or "").partition(" ")
    problem = Problem(a, b, tile=tile)
    out = problem.product.out
    if out.size == 0:
        return Plan([out.like(dtype=np.dtype(np.int32))], [])
    return choose("matmul (int8 to int32)", INT32_VERSIONS, problem, name or None)


def by_cast(problem: Problem) -> Plan:
    """int8 operands are copied as int32, and the copies multiplied."""
    operands = (problem.a, problem.b)
    copies = [x.like(dtype=np.dtype(np.int32)) for x in operands]
    steps = [
        step
        for i, (x, y) in enumerate(zip(operands, copies, strict=True))
        for step in copy_part(whole(Input(i), x), whole(Temp(i), y))
    ]
    plan = matmul(*copies)
    steps += embed(plan.steps, {0: Temp(0), 1: Temp(1)}, Output(0), len(copies))
    return Plan(plan.outputs, steps, [*copies, *plan.temps])


def candidates(problem: Problem) -> list[str]:
    """The names of the versions among which measurements decide, tiles not told apart."""
    return [v.name for v in VERSIONS if v.name != "gemv" and v.supports(problem)]


def contenders(a: Layout, b: Layout, tf32: bool = False) -> list[str]:
    """The versions to be timed for these layouts, each tile by itself."""
    problem = Problem(a, b, tf32)
    names: list[str] = []
    for name in candidates(problem):
        if name == "sm90":
            p, many = problem.product, devices.multiprocessors(a.device)
            tiles = sm90_tiles.contenders(p.m, p.k, p.n, p.batch, many, a.itemsize)
            names += [f"sm90 {tile}" for tile in tiles]
        elif name not in ("register_tiles", "naive", "tiled") or problem.multiply_adds < 1 << 27:
            names.append(name)
    return names


def _measured(problem: Problem) -> autotune.Decision | None:
    """The fastest version measured. None where none was, and where the choice does not depend on
    it."""
    if problem.product.k == 0 or _gemv(problem) or _short(problem):
        return None
    return fastest(problem, candidates(problem))
