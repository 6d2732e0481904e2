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

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.layout import Layout
from ...runtime import cublas
from ..compiler.lazy_numba import cuda, types
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.plan_edit import embed
from ..matmul import dispatch as matmul_dispatch
from ..matmul import sm90_tiles
from .problem import ScaledMatmulProblem

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


def plan_cublaslt(p: ScaledMatmulProblem) -> Plan:
    """One call of the library."""
    m, k, n = p.sizes
    product = cublas.gemm_float8(
        m, n, k, *p.matrices, p.dtype, outer=p.scale_a.size > 1, bias=p.bias is not None
    )
    operands = map(Input, range(2, 4 if p.bias is None else 5))
    return Plan([p.out], [Call(product, [Input(0), Input(1), Output(0), *operands])])


def plan_sm90(p: ScaledMatmulProblem) -> Plan:
    """One kernel: scales and bias in the epilogue."""
    from ..matmul.tensor_core_dispatch import Epilogue, wgmma  # the simulator cannot import it

    scaled = ("m" if p.scale_a.size > 1 else "1") + ("n" if p.scale_b.size > 1 else "1")
    bias = None if p.bias is None else Input(4).flat
    epilogue = Epilogue("", bias, None, scaled, Input(2).flat, Input(3).flat)
    tile = p.tile or tile_choice(*p.sizes, p.multiprocessors)
    return wgmma(p.a, p.b, tile, out=p.dtype, epilogue=epilogue)


def plan_sm90_sums(p: ScaledMatmulProblem) -> Plan:
    """Sums of float8 by wgmma in float32, then ``rescale``."""
    from ..matmul.tensor_core_dispatch import wgmma  # the simulator cannot import it

    return _rescaled(p, wgmma(p.a, p.b, out=np.dtype(np.float32)))


def plan_unfused(p: ScaledMatmulProblem) -> Plan:
    """Sums of int8 in int32, or of float32 copies, then ``rescale``."""
    if p.a.dtype == np.int8:
        return _rescaled(p, matmul_dispatch.matmul_int32(p.a, p.b))
    copies = [x.like(dtype=np.dtype(np.float32)) for x in (p.a, p.b)]
    return _rescaled(p, matmul_dispatch.matmul(*copies), copies)


def _rescaled(p: ScaledMatmulProblem, sums: Plan, copies: Sequence[Layout] = ()) -> Plan:
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


def tile_choice(m: int, k: int, n: int, multiprocessors: int) -> str:
    """The tile for 8-bit numbers: as for 16-bit ones, but in place of 128 x 256, where tiles go
    around several times, 64 x 256 in turns, which is 6 % faster (slabs pass twice as quickly, and
    what follows a tile weighs twice as much), and where they do not 256 x 128, which is 4 % faster.

    From 2,048 squared on these reach 0.94 to 0.95 of cuBLASLt on an H200: a tile of 128 x 256 reads
    48 KB from the L2 cache every 1,024 clocks, while cuBLASLt's blocks load B for each other by
    multicast. Pairs of ours that did so were right, but no faster (0.78 to 0.93)."""
    choice = sm90_tiles.choices(m, k, n, 1, multiprocessors, True, 1)[0]
    if (choice.m, choice.n) == (128, 256):
        return (
            "64x256 pingpong"
            if blocks(m, 128) * blocks(n, 256) > 2 * multiprocessors
            else "256x128"
        )
    return str(choice)
