"""Products of 8-bit numbers that are brought back to scale: C = (A B) scale_a scale_b + bias.

The tensor cores multiply int8 and float8 twice as fast as 16-bit numbers, and half as many bytes
carry them there. On compute capability 9.0 all is one kernel: scales and bias follow in the
epilogue, where the sums still are int32 or float32. It is ours (matmul/sm90.py) or, for
float8_e4m3 where that was measured to be faster, cuBLASLt's (runtime/cublas.py). Elsewhere the sums
are made first (int8 by mma.sync, float8 as float32) and ``rescale`` does the rest.

What multiplies float8 on 9.0 keeps about 14 bits of a sum: enough for numbers that have 2 or 3, and
the price of the rate.

The floor: 2 M N K operations at twice the rate of 16-bit products.
"""

from __future__ import annotations

import functools
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
from ..copy.strided import copy_part, whole
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.plan_edit import embed, renumber
from ..matmul import dispatch as matmul_dispatch
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

    version: "wgmma" (what may follow: tensor_core_dispatch.Choice), "cublaslt", "sums" (float8: by
    wgmma, then scales) or "steps". By default, of those that can, the fastest measured
    (core/dispatch/autotune.py).
    """
    (m, k), n = a.shape, b.shape[1]
    out = Layout.new((m, n), dtype, a.device)
    why = ""
    if version is None:
        version, why = _choose(a, b, scale_a, scale_b, bias, out)
    if version == "cublaslt":
        product = cublas.gemm_float8(
            m, n, k, *_lines(a, b), dtype, outer=scale_a.size > 1, bias=bias is not None
        )
        return Plan(
            [out],
            [
                Call(
                    product,
                    [
                        Input(0),
                        Input(1),
                        Output(0),
                        *map(Input, range(2, 4 if bias is None else 5)),
                    ],
                )
            ],
            why=why,
        )
    if version.startswith("wgmma"):
        from ..matmul import tensor_core_dispatch

        scaled = ("m" if scale_a.size > 1 else "1") + ("n" if scale_b.size > 1 else "1")
        at_bias = None if bias is None else Input(4).flat
        epilogue = tensor_core_dispatch.Epilogue(
            "", at_bias, None, scaled, Input(2).flat, Input(3).flat
        )
        choice = version.removeprefix("wgmma").strip() or tile_choice(
            m, k, n, devices.multiprocessors(a.device)
        )
        plan = tensor_core_dispatch.wgmma(a, b, choice, out=dtype, epilogue=epilogue)
        plan.why = why
        return plan
    steps: list[Any] = []
    if a.dtype == np.int8 or version == "sums":
        if version == "sums":
            from ..matmul import tensor_core_dispatch

            sums = tensor_core_dispatch.wgmma(a, b, out=np.dtype(np.float32))
        else:
            sums = matmul_dispatch.matmul_int32(a, b)
        temps, places = [sums.outputs[0]], {0: Input(0), 1: Input(1)}
    else:
        copies = [x.like(dtype=np.dtype(np.float32)) for x in (a, b)]
        for i, (x, y) in enumerate(zip((a, b), copies, strict=True)):
            steps += copy_part(whole(Input(i), x), whole(Temp(1 + i), y))
        sums = matmul_dispatch.matmul(*copies)
        temps, places = [sums.outputs[0], *copies], {0: Temp(1), 1: Temp(2)}
    steps += embed(sums.steps, places, Temp(0), len(temps))
    across = blocks(n, THREADS)
    steps.append(
        Launch(
            rescale(sums.outputs[0].dtype, dtype, bias is not None),
            m * across,
            THREADS,
            [
                Temp(0),
                Input(2).flat,
                Input(3).flat,
                (Output(0) if bias is None else Input(4)).flat,
                Output(0).view((m, n), out.strides),
                across,
            ],
        )
    )
    return Plan([out], steps, [*temps, *sums.temps], why=why)


def contenders(
    a: Layout, b: Layout, scale_a: Layout, scale_b: Layout, bias: Layout | None, out: Layout
) -> list[str]:
    """The versions of `scaled_matmul` worth timing for these layouts, tiles told apart."""
    able = _able(a, b, scale_a, scale_b, bias, out)
    found = [v for v in able if v == "cublaslt"]
    if "wgmma" in able:
        from ..matmul import tensor_core_dispatch

        tiles = tensor_core_dispatch.choices(
            out.shape[0], a.shape[1], out.shape[1], 1, devices.multiprocessors(a.device), True, 1
        )
        found += [f"wgmma {choice}" for choice in tiles[:7]]
    return found or able


def _able(
    a: Layout, b: Layout, scale_a: Layout, scale_b: Layout, bias: Layout | None, out: Layout
) -> list[str]:
    """The versions that can multiply these layouts, tiles not told apart."""
    (m, k), n = a.shape, b.shape[1]
    found = ["steps"]
    hopper = (
        not SIMULATOR
        and devices.capability(a.device) == (9, 0)
        and out.itemsize == 2
        and 0 not in (m, n, k)
    )
    if hopper and a.dtype != np.int8:  # whose sums are made by wgmma anyway
        found.insert(0, "sums")
    beside = [o for o in (scale_a, scale_b, bias) if o is not None]
    if hopper and (n % 8 == 0 or bias is None) and all(o.contiguous and o.aligned for o in beside):
        found.insert(0, "wgmma")
        lines = _lines(a, b)
        even = all(
            x.aligned and line is not None and line.ld % 16 == 0
            for x, line in zip((a, b), lines, strict=True)
        )
        outer = scale_a.size > 1
        if (
            a.dtype == float8_e4m3
            and even
            and k % 16 == n % 16 == 0
            and outer == (scale_b.size > 1)
            and (lines[0].transposed, lines[1].transposed) == (0, 1)
            and cublas.multiplies_float8(outer)
        ):
            found.insert(0, "cublaslt")
    return found


def _lines(a: Layout, b: Layout) -> list[Any]:
    """A and B as cuBLAS reads them; None for one that it cannot read as it lies."""
    return [cublas.matrix(*x.shape, *[s // x.itemsize for s in x.strides]) for x in (a, b)]


def _choose(
    a: Layout, b: Layout, scale_a: Layout, scale_b: Layout, bias: Layout | None, out: Layout
) -> tuple[str, str]:
    """(version, the reason for it)."""
    able = _able(a, b, scale_a, scale_b, bias, out)
    if "cublaslt" in able:
        found = autotune.lookup(
            "scaled_matmul", a.device, a.dtype.name, (*a.shape, b.shape[1]), able
        )
        if found is not None:
            return found
        if 2 * blocks(out.shape[0], 128) * blocks(out.shape[1], 128) > 3 * devices.multiprocessors(
            a.device
        ):
            return "cublaslt", "many tiles: cuBLASLt was ahead wherever those were measured"
    if able[0] in ("sums", "steps"):
        return able[0], "no kernel for all at once: the sums first, their scales afterwards"
    return "wgmma", "tensor cores: scales and bias on the way out"


def tile_choice(m: int, k: int, n: int, multiprocessors: int) -> str:
    """The tile for 8-bit numbers: as for 16-bit ones, but in place of 128 x 256, where tiles go
    around several times, 64 x 256 in turns, which is 6 % faster (slabs pass twice as quickly, and
    what follows a tile weighs twice as much), and where they do not 256 x 128, which is 4 % faster.

    From 2,048 squared on these reach 0.94 to 0.95 of cuBLASLt on an H200: a tile of 128 x 256 reads
    48 KB from the L2 cache every 1,024 clocks, while cuBLASLt's blocks load B for each other by
    multicast. Pairs of ours that did so were right, but no faster (0.78 to 0.93)."""
    from ..matmul import tensor_core_dispatch

    found = tensor_core_dispatch.choices(m, k, n, 1, multiprocessors, True, 1)[0]
    if (found.m, found.n) == (128, 256):
        return (
            "64x256 pingpong"
            if blocks(m, 128) * blocks(n, 256) > 2 * multiprocessors
            else "256x128"
        )
    return str(found)


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
    turned = values.view(values.shape[::-1], values.strides[::-1])
    rest = scaled_matmul(stored, turned, by, scale, bias, dtype=x.dtype)
    steps += embed(
        rest.steps,
        {0: Temp(0), 1: Input(1), 2: at_by, 3: Input(2), 4: at_bias},
        Output(0),
        len(temps),
    )
    return Plan([x.like((*x.shape[:-1], out))], steps, [*temps, *rest.temps])
