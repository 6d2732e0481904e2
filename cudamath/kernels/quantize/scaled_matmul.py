"""Products of 8-bit numbers that are brought back to scale: C = (A B) scale_a scale_b + bias.

The tensor cores multiply int8 and float8 twice as fast as 16-bit numbers, and half as many bytes
carry them there. On compute capability 9.0 all is one kernel: scales and bias follow in the
epilogue, where the sums still are int32 or float32. It is ours (matmul/sm90.py) or, for
float8_e4m3 where that was measured to be faster, cuBLASLt's (runtime/cublas.py). Elsewhere the sums
are computed first (int8 by mma.sync, float8 as float32), and ``rescale`` does the rest.

On compute capability 9.0 the tensor cores keep about 14 bits of a sum of float8: enough for numbers
of 2 or 3 bits.

The floor: 2 M N K operations at twice the rate of 16-bit products.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dispatch import autotune
from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.dtypes import float8_e4m3
from ...core.layout import Layout
from ...runtime import cublas
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.plan_edit import embed, renumber
from ..lib.versions import Version, choose
from ..matmul import dispatch as matmul_dispatch
from ..matmul.problem import transpose
from . import quantize
from .quantize_rows import quantize_row

THREADS = 256


@functools.cache
def rescale(source: np.dtype, dtype: np.dtype, with_bias: bool) -> Any:
    """C from sums of int32 or float32."""
    _, store, T = codec(dtype)
    load = codec(dtype)[0]
    f32 = types.float32

    @cuda.jit
    def rescale(sums, scale_a, scale_b, bias, out, across):
        """sums, out: (m, n); scale_a: (m,) or (1,), scale_b: (n,) or (1,), bias: (n,). A thread an
        element, `across` blocks a row."""
        row = cuda.blockIdx.x // across
        column = (cuda.blockIdx.x - row * across) * THREADS + cuda.threadIdx.x
        if column < out.shape[1]:
            by = f32(
                scale_a[row if scale_a.size > 1 else 0] * scale_b[column if scale_b.size > 1 else 0]
            )
            value = f32(f32(sums[row, column]) * by)
            if with_bias:
                value = f32(value + f32(load(bias[column])))
            out[row, column] = store(T(value))

    return rescale


@dataclasses.dataclass
class Problem:
    """C = (a b) scale_a scale_b + bias of `dtype`. tile: of the sm90 version."""

    a: Layout
    b: Layout
    scale_a: Layout
    scale_b: Layout
    bias: Layout | None
    dtype: np.dtype
    tile: str = ""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, k, n."""
        return self.a.shape[0], self.a.shape[1], self.b.shape[1]

    @functools.cached_property
    def out(self) -> Layout:
        m, _, n = self.sizes
        return Layout.new((m, n), self.dtype, self.a.device)

    @functools.cached_property
    def matrices(self) -> list[Any]:
        """A and B as cuBLAS reads them; None for one that it cannot read as it lies."""
        return [
            cublas.matrix(*x.shape, *[s // x.itemsize for s in x.strides]) for x in (self.a, self.b)
        ]

    @functools.cached_property
    def wgmma(self) -> bool:
        """Whether the sums are of wgmma: 16-bit results on compute capability 9.0."""
        return (
            not SIMULATOR
            and devices.capability(self.a.device) == (9, 0)
            and self.dtype.itemsize == 2
            and 0 not in self.sizes
        )

    @functools.cached_property
    def fused(self) -> bool:
        """Whether the epilogue can read scales and bias; it adds a bias by 16 bytes."""
        operands = [x for x in (self.scale_a, self.scale_b, self.bias) if x is not None]
        return (
            self.wgmma
            and (self.sizes[2] % 8 == 0 or self.bias is None)
            and all(x.contiguous and x.aligned for x in operands)
        )

    @functools.cached_property
    def cublaslt(self) -> bool:
        """Whether cuBLASLt multiplies it: float8_e4m3, both operands contiguous along k, in rows of
        whole 16 bytes, with scales of one kind."""
        (_, k, n), outer = self.sizes, self.scale_a.size > 1
        return (
            self.fused
            and self.a.dtype == float8_e4m3
            and all(
                x.aligned and matrix is not None and matrix.ld % 16 == 0
                for x, matrix in zip((self.a, self.b), self.matrices, strict=True)
            )
            and k % 16 == n % 16 == 0
            and outer == (self.scale_b.size > 1)
            and [matrix.transposed for matrix in self.matrices] == [0, 1]
            and cublas.multiplies_float8(outer)
        )

    @property
    def multiprocessors(self) -> int:
        return devices.multiprocessors(self.a.device)


# -------------------- the versions


def _many_tiles(p: Problem) -> bool:
    """More than one and a half for each multiprocessor: cuBLASLt was ahead wherever those were
    measured."""
    m, _, n = p.sizes
    return 2 * blocks(m, 128) * blocks(n, 128) > 3 * p.multiprocessors


def plan_cublaslt(p: Problem) -> Plan:
    """One call of the library."""
    m, k, n = p.sizes
    product = cublas.gemm_float8(
        m, n, k, *p.matrices, p.dtype, outer=p.scale_a.size > 1, bias=p.bias is not None
    )
    operands = map(Input, range(2, 4 if p.bias is None else 5))
    return Plan([p.out], [Call(product, [Input(0), Input(1), Output(0), *operands])])


def plan_sm90(p: Problem) -> Plan:
    """One kernel: scales and bias in the epilogue."""
    from ..matmul.tensor_core_dispatch import Epilogue, wgmma  # the simulator cannot import it

    scaled = ("m" if p.scale_a.size > 1 else "1") + ("n" if p.scale_b.size > 1 else "1")
    bias = None if p.bias is None else Input(4).flat
    epilogue = Epilogue("", bias, None, scaled, Input(2).flat, Input(3).flat)
    tile = p.tile or tile_choice(*p.sizes, p.multiprocessors)
    return wgmma(p.a, p.b, tile, out=p.dtype, epilogue=epilogue)


def plan_sm90_sums(p: Problem) -> Plan:
    """Sums of float8 by wgmma in float32, then ``rescale``."""
    from ..matmul.tensor_core_dispatch import wgmma  # the simulator cannot import it

    return _rescaled(p, wgmma(p.a, p.b, out=np.dtype(np.float32)))


def plan_unfused(p: Problem) -> Plan:
    """Sums of int8 in int32, or of float32 copies, then ``rescale``."""
    if p.a.dtype == np.int8:
        return _rescaled(p, matmul_dispatch.matmul_int32(p.a, p.b))
    copies = [x.like(dtype=np.dtype(np.float32)) for x in (p.a, p.b)]
    return _rescaled(p, matmul_dispatch.matmul(*copies), copies)


def _rescaled(p: Problem, sums: Plan, copies: Sequence[Layout] = ()) -> Plan:
    """The plan `sums` of the operands, or of copies of them, and ``rescale``."""
    m, _, n = p.sizes
    steps: list[Any] = []
    for i, (x, y) in enumerate(zip((p.a, p.b), copies, strict=False)):
        steps += copy_part(whole(Input(i), x), whole(Temp(1 + i), y))
    operands = {0: Temp(1), 1: Temp(2)} if copies else {0: Input(0), 1: Input(1)}
    temps = [sums.outputs[0], *copies]
    steps += embed(sums.steps, operands, Temp(0), len(temps))
    across = blocks(n, THREADS)
    steps.append(
        Launch(
            rescale(sums.outputs[0].dtype, p.dtype, p.bias is not None),
            m * across,
            THREADS,
            [
                Temp(0),
                Input(2).flat,
                Input(3).flat,
                (Output(0) if p.bias is None else Input(4)).flat,
                Output(0).view((m, n), p.out.strides),
                across,
            ],
        )
    )
    return Plan([p.out], steps, [*temps, *sums.temps])


VERSIONS = (
    Version(
        "cublaslt",
        "quantize.scaled_matmul.plan_cublaslt",
        supports=lambda p: p.cublaslt,
        prefers=_many_tiles,
        reason="many tiles: cuBLASLt was ahead wherever those were measured",
    ),
    Version(
        "sm90",
        "quantize.scaled_matmul.plan_sm90",
        supports=lambda p: p.fused,
        reason="tensor cores: scales and bias in the epilogue",
    ),
    Version(
        "sm90_sums",
        "quantize.scaled_matmul.plan_sm90_sums",
        supports=lambda p: p.wgmma and p.a.dtype != np.int8,  # unfused sums int8 by wgmma too
        reason="no kernel for all at once: the sums first, their scales afterwards",
    ),
    Version(
        "unfused",
        "quantize.scaled_matmul.plan_unfused",
        reason="no kernel for all at once: the sums first, their scales afterwards",
    ),
)


def scaled_matmul(
    a: Layout,
    b: Layout,
    scale_a: Layout,
    scale_b: Layout,
    bias: Layout | None = None,
    *,
    dtype: np.dtype,
    version: str | None = None,
) -> Plan:
    """Planner. a (m, k), b (k, n) of int8 or float8; scales float32, (1,) or (m,) and (1,) or (n,);
    bias (n,) of C's dtype.

    version: a name of `VERSIONS`; for "sm90" a tile may follow (tensor_core_dispatch.Choice). By
    default, of those that support it, the fastest one measured (core/dispatch/autotune.py); where
    nothing was measured, the one that the table prefers.
    """
    problem = Problem(a, b, scale_a, scale_b, bias, dtype)
    decision = None
    if version is None and problem.cublaslt:
        decision = autotune.lookup(
            "scaled_matmul", a.device, a.dtype.name, problem.sizes, _names(problem)
        )
    name, _, problem.tile = (decision.choice if decision else version or "").partition(" ")
    plan = choose("scaled_matmul", VERSIONS, problem, name or None)
    if decision:
        plan.why = decision.why
    return plan


def _names(problem: Problem) -> list[str]:
    return [v.name for v in VERSIONS if v.supports(problem)]


def contenders(
    a: Layout, b: Layout, scale_a: Layout, scale_b: Layout, bias: Layout | None, out: Layout
) -> list[str]:
    """The versions of `scaled_matmul` to be timed for these layouts, each tile by itself."""
    problem = Problem(a, b, scale_a, scale_b, bias, out.dtype)
    able = _names(problem)
    names = [name for name in able if name == "cublaslt"]
    if "sm90" in able:
        from ..matmul import tensor_core_dispatch  # the simulator cannot import it

        (m, k, n), many = problem.sizes, problem.multiprocessors
        tiles = tensor_core_dispatch.choices(m, k, n, 1, many, True, 1)
        names += [f"sm90 {tile}" for tile in tiles[:7]]
    return names or able


def tile_choice(m: int, k: int, n: int, multiprocessors: int) -> str:
    """The tile for 8-bit numbers: as for 16-bit ones, but in place of 128 x 256, where tiles go
    around several times, 64 x 256 in turns, which is 6 % faster (slabs pass twice as quickly, and
    what follows a tile weighs twice as much), and where they do not 256 x 128, which is 4 % faster.

    From 2,048 squared on these reach 0.94 to 0.95 of cuBLASLt on an H200: a tile of 128 x 256 reads
    48 KB from the L2 cache every 1,024 clocks, while cuBLASLt's blocks load B for each other by
    multicast. Pairs of ours that did so were right, but no faster (0.78 to 0.93)."""
    from ..matmul import tensor_core_dispatch

    choice = tensor_core_dispatch.choices(m, k, n, 1, multiprocessors, True, 1)[0]
    if (choice.m, choice.n) == (128, 256):
        return (
            "64x256 pingpong"
            if blocks(m, 128) * blocks(n, 256) > 2 * multiprocessors
            else "256x128"
        )
    return str(choice)


def linear_8_bits(
    x: Layout, values: Layout, scale: Layout, own: Layout | None, bias: Layout | None, *, form: str
) -> Plan:
    """Planner of x, quantized by its own scale (1,) or row by row, times values^T: x (.., in)
    contiguous, values (out, in)."""
    depth, out = x.shape[-1], values.shape[0]
    rows = x.size // max(depth, 1)
    places = iter(range(3, 5))
    at_own, at_bias = (None if layout is None else Input(next(places)) for layout in (own, bias))
    flat = Layout.new((rows, depth), x.dtype, x.device)
    steps: list[Any]
    stored = flat.like(dtype=quantize.FORMS[form][0])
    temps = [stored]
    if own is None:
        first = quantize_row(flat, form=form)
        temps.append(first.outputs[1])
        steps = renumber(first.steps, {Output(0): Temp(0), Output(1): Temp(1)})
        by, at_by = first.outputs[1], Temp(1)
    else:
        steps = embed(
            quantize.quantize(flat, own, form=form, inner=flat.size).steps,
            {0: Input(0), 1: at_own},
            Temp(0),
            0,
        )
        by, at_by = own, at_own
    rest = scaled_matmul(stored, transpose(values), by, scale, bias, dtype=x.dtype)
    steps += embed(
        rest.steps,
        {0: Temp(0), 1: Input(1), 2: at_by, 3: Input(2), 4: at_bias},
        Output(0),
        len(temps),
    )
    return Plan([x.like((*x.shape[:-1], out))], steps, [*temps, *rest.temps])
