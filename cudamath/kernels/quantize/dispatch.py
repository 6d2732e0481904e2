"""Quantized numbers: the versions of quantizing, dequantizing and of products, and the choice among
them.

    quantize.py        floats to int8, packed int4 or float8 with given scales, and back
    quantize_rows.py   rows with scales of their own, which are computed first
    linear.py          the fully connected layer with quantized weights
    scaled_matmul.py   products of 8-bit numbers

Their headers give the formulas, the lower bounds and what was measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dispatch import autotune
from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..lib.integers import blocks
from ..lib.plan_edit import embed, renumber
from ..lib.versions import Version, choose
from ..matmul import sm90_tiles
from ..matmul.gemv_plan import GEMV_ROWS, KINDS, gemv_words
from ..matmul.measured import is_version
from ..matmul.problem import transpose
from .problem import (
    FORMS,
    WIDTH,
    LinearProblem,
    QuantizeProblem,
    RowsProblem,
    ScaledMatmulProblem,
)

# -------------------- numbers


def has_neighbours(p: QuantizeProblem) -> bool:
    """Whether 8 neighbours share a scale, and can be read at once."""
    return not SIMULATOR and p.inner % WIDTH == 0 and p.source.aligned


QUANTIZE = (
    Version("wide", "quantize.quantize.plan_quantize_wide", supports=has_neighbours),
    Version("plain", "quantize.quantize.plan_quantize_plain"),
)
DEQUANTIZE = (
    Version("wide", "quantize.quantize.plan_dequantize_wide", supports=has_neighbours),
    Version("plain", "quantize.quantize.plan_dequantize_plain"),
)


def quantize(
    x: Layout,
    scale: Layout,
    zero: Layout | None = None,
    *,
    form: str,
    inner: int,
    version: str | None = None,
) -> Plan:
    """Planner of the stored numbers of a contiguous x; scale, zero: (channels,). version: a name of
    `QUANTIZE`."""
    shape = (*x.shape[:-1], x.shape[-1] // 2) if form == "int4" else x.shape
    at_zero = None if zero is None else Input(2)
    problem = QuantizeProblem(
        x.size, x, Input(0), Input(1), at_zero, Output(0), x.dtype, form, inner, scale.size
    )
    plan = choose("quantize", QUANTIZE, problem, version)
    return Plan([Layout.new(shape, FORMS[form][0], x.device)], plan.steps, why=plan.why)


def dequantize_steps(
    x: ArrayArg,
    values: Layout,
    scale: ArrayArg,
    zero: ArrayArg | None,
    y: ArrayArg,
    dtype: np.dtype,
    form: str,
    inner: int,
    channels: int,
    version: str | None = None,
) -> list[Launch | Call]:
    """The launch that brings the values of stored numbers to y. channels: scales."""
    size = values.size * (2 if form == "int4" else 1)
    problem = QuantizeProblem(size, values, x, scale, zero, y, dtype, form, inner, channels)
    return choose("dequantize", DEQUANTIZE, problem, version).steps


def dequantize(
    values: Layout,
    scale: Layout,
    zero: Layout | None = None,
    *,
    form: str,
    inner: int,
    dtype: np.dtype,
    version: str | None = None,
) -> Plan:
    """Planner of the values of contiguous stored numbers, in a floating-point dtype. version: a
    name of `DEQUANTIZE`."""
    shape = (*values.shape[:-1], values.shape[-1] * 2) if form == "int4" else values.shape
    out = Layout.new(shape, dtype, values.device)
    steps = dequantize_steps(
        Input(0),
        values,
        Input(1),
        None if zero is None else Input(2),
        Output(0),
        dtype,
        form,
        inner,
        scale.size,
        version,
    )
    return Plan([out], steps)


# -------------------- rows with scales of their own


def fits_registers(p: RowsProblem) -> bool:
    """Registers hold a row."""
    return not SIMULATOR and not (p.form == "int4" and p.width == 1) and p.rows is not None


QUANTIZE_ROWS = (
    Version(
        "rows",
        "quantize.quantize_rows.plan_rows",
        supports=fits_registers,
        reason="rows that registers hold are read once",
    ),
    Version("plain", "quantize.quantize_rows.plan_plain"),
)


def quantize_row(x: Layout, *, form: str, version: str | None = None) -> Plan:
    """Planner of (stored numbers, scale of each row) of a contiguous (m, n), n > 0 and for int4
    even.

    version: a name of `QUANTIZE_ROWS`.
    """
    return choose("quantize (rows)", QUANTIZE_ROWS, RowsProblem(x, form), version)


# -------------------- layers with quantized weights


def fits_gemv(p: LinearProblem) -> bool:
    """Few rows of 16-bit numbers, and weights in whole 16 bytes."""
    rows = p.x.size // max(p.x.shape[-1], 1)
    # float8_e4m3 becomes float16 by an instruction of compute capability 8.9
    direct = p.form == "float8_e4m3fn" and p.x.dtype.name == "float16"
    return bool(
        not SIMULATOR
        and p.x.dtype.name in KINDS
        and 0 < rows <= GEMV_ROWS
        and p.values.size
        and devices.capability(p.x.device) >= ((8, 9) if direct else (8, 0))
        and gemv_words(p.shape[1], p.form, p.group)
        and all(x.contiguous and x.aligned for x in (p.x, p.values))
        and all(x is None or x.contiguous for x in (p.bias, p.residual))
    )


LINEAR = (
    Version(
        "gemv",
        "quantize.linear.plan_gemv",
        supports=fits_gemv,
        reason="few rows, weights read as packed",
    ),
    Version(
        "dequantize_first",
        "quantize.linear.plan_dequantize_first",
        reason="dequantized first: many rows, or numbers that gemv does not take",
    ),
)


def linear_quantized(
    x: Layout,
    values: Layout,
    scale: Layout,
    zero: Layout | None,
    bias: Layout | None,
    residual: Layout | None,
    *,
    form: str,
    group: int,
    activation: str,
    version: str | None = None,
) -> Plan:
    """Planner. x (.., in), values (out, in) or, int4, (out, in / 2), contiguous; scale, zero: (1,),
    (out,) or, with `group` numbers along in to a scale, (out, in / group), flat; bias (out,),
    residual as y.

    version: a name of `LINEAR`. "gemv" may be followed by WARPSxTILESxAHEAD and "early" (compute
    capability 9.0), see gemv.Gemv.
    """
    name, _, tile = (version or "").partition(" ")
    problem = LinearProblem(x, values, scale, zero, bias, residual, form, group, activation, tile)
    return choose("linear_quantized", LINEAR, problem, name or None)


# -------------------- products of 8-bit numbers


def has_many_tiles(p: ScaledMatmulProblem) -> bool:
    """More than one and a half for each multiprocessor: cuBLASLt was ahead wherever those were
    measured."""
    m, _, n = p.sizes
    return 2 * blocks(m, 128) * blocks(n, 128) > 3 * p.multiprocessors


SCALED_MATMUL = (
    Version(
        "cublaslt",
        "quantize.scaled_matmul.plan_cublaslt",
        supports=lambda p: p.cublaslt,
        prefers=has_many_tiles,
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

    version: a name of `SCALED_MATMUL`; a tile may follow "sm90" (sm90_tiles.Choice). By
    default the fastest one measured (core/dispatch/autotune.py) of those that support the problem;
    where nothing was measured, the one that the table prefers.
    """
    problem = ScaledMatmulProblem(a, b, scale_a, scale_b, bias, dtype)
    decision = None
    if version is None and problem.cublaslt:
        able = _names(problem)
        decision = autotune.lookup(
            "scaled_matmul",
            a.device,
            a.dtype.name,
            problem.sizes,
            lambda text: is_version(text, able, whole=True),
        )
    name, _, problem.tile = (decision.choice if decision else version or "").partition(" ")
    plan = choose("scaled_matmul", SCALED_MATMUL, problem, name or None)
    if decision:
        plan.why = decision.why
    return plan


def _names(problem: ScaledMatmulProblem) -> list[str]:
    return [v.name for v in SCALED_MATMUL if v.supports(problem)]


def contenders(
    a: Layout, b: Layout, scale_a: Layout, scale_b: Layout, bias: Layout | None, out: Layout
) -> list[str]:
    """The versions of `scaled_matmul` to be timed for these layouts, each tile by itself."""
    problem = ScaledMatmulProblem(a, b, scale_a, scale_b, bias, out.dtype)
    able = _names(problem)
    names = [name for name in able if name == "cublaslt"]
    if "sm90" in able:
        (m, k, n), many = problem.sizes, problem.multiprocessors
        tiles = sm90_tiles.choices(m, k, n, 1, many, True, 1)
        names += [f"sm90 {tile}" for tile in tiles[:7]]
    return names or able


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
    stored = flat.like(dtype=FORMS[form][0])
    temps = [stored]
    if own is None:
        first = quantize_row(flat, form=form)
        temps.append(first.outputs[1])
        steps = renumber(first.steps, {Output(0): Temp(0), Output(1): Temp(1)})
        by, at_by = first.outputs[1], Temp(1)
    else:
        steps = embed(
            quantize(flat, own, form=form, inner=flat.size).steps,
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
