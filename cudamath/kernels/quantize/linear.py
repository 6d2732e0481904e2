"""The fully connected layer with quantized weights: y = f(x dequantize(w)^T + bias) + residual.

Up to 16 rows of 16-bit numbers go through matmul/gemv.py, which reads the weights as they are
packed. More rows use each weight often enough that the product, not memory, takes the time: the
weights become 16-bit numbers in scratch memory first (quantize.py), and matmul/linear.py does the
rest. So do float32 and float64, and weights whose rows are no multiple of 16 bytes.

Measured (row linear_int8_4096):
linear 1x4096 -> 4096, weights int8; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath      1,806          0.43
    torch         1,168          0.28

(end of what was measured)
"""

from __future__ import annotations

from typing import Any

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..lib.plan_edit import embed
from ..matmul import gemv_plan
from ..matmul import linear as plain
from ..matmul.gemv_plan import KINDS, PER_BYTE, _gemv, gemv_words
from .quantize import dequantize_steps


def _shape(values: Layout, form: str) -> tuple[int, int]:
    """(out, in) of the weight."""
    return values.shape[0], values.shape[1] * PER_BYTE.get(form, 1)


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

    version: "gemv", which takes what suits, or "gemv WARPSxTILESxAHEAD", then "early" if wanted
    (9.0), see gemv.Gemv; or "steps".
    """
    places = iter(range(3, 6))
    at_zero, at_bias, at_residual = (
        None if layout is None else Input(next(places)) for layout in (zero, bias, residual)
    )
    out, depth = _shape(values, form)
    y = x.like((*x.shape[:-1], out))
    if version is None:
        version = "gemv" if _fits(x, values, form, group, (bias, residual)) else "steps"
    if version.startswith("gemv"):
        return Plan(
            [y],
            [
                _gemv(
                    x,
                    out,
                    depth,
                    form,
                    group,
                    activation,
                    (Input(1), Input(2), at_zero),
                    at_bias,
                    at_residual,
                    scale.size,
                    version,
                )
            ],
            why=f"{version}: few rows, weights read as packed",
        )
    weight = Layout.new((out, depth), x.dtype, x.device)
    steps: list[Any] = list(
        dequantize_steps(
            Input(1),
            values,
            Input(2),
            at_zero,
            Temp(0),
            x.dtype,
            form,
            group or (weight.size if scale.size == 1 else depth),
            scale.size,
        )
    )
    rest = plain.linear(x, weight, bias, residual, activation=activation)
    moves = {0: Input(0), 1: Temp(0)} | dict(
        enumerate([p for p in (at_bias, at_residual) if p is not None], 2)
    )
    steps += embed(rest.steps, moves, Output(0), 1)
    return Plan(
        [y],
        steps,
        [weight, *rest.temps],
        why="dequantized first: many rows, or numbers that gemv does not take",
    )


def _fits(
    x: Layout, values: Layout, form: str, group: int, others: tuple[Layout | None, ...]
) -> bool:
    """Whether `gemv` can do it."""
    rows = x.size // max(x.shape[-1], 1)
    least = (
        (8, 9) if form == "float8_e4m3fn" and x.dtype.name == "float16" else (8, 0)
    )  # by an instruction
    return bool(
        not SIMULATOR
        and x.dtype.name in KINDS
        and 0 < rows <= gemv_plan.GEMV_ROWS
        and values.size
        and devices.capability(x.device) >= least
        and gemv_words(_shape(values, form)[1], form, group)
        and all(o.contiguous and o.aligned for o in (x, values))
        and all(o is None or o.contiguous for o in others)
    )
