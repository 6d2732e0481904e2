"""The fully connected layer with quantized weights: y = f(x dequantize(w)^T + bias) + residual.

Up to 16 rows of 16-bit numbers go through matmul/gemv.py, which reads the weights as they are
packed. More rows use each weight often enough that the product, not memory, takes the time: the
weights become 16-bit numbers in scratch memory first (quantize.py), and matmul/linear.py does the
rest. The same holds for float32 and float64, and for weights whose rows are no multiple of 16
bytes.

Measured (row linear_int8_4096):
linear 1x4096 -> 4096, weights int8; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath      1,806          0.43
    torch         1,168          0.28

(end of what was measured)
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..lib.plan_edit import embed
from ..lib.versions import Version, choose
from ..matmul.gemv_plan import GEMV_ROWS, KINDS, PER_BYTE, gemv_launch, gemv_words
from ..matmul.linear import linear
from .quantize import dequantize_steps


@dataclasses.dataclass(frozen=True)
class Problem:
    """y = activation(x dequantize(weight)^T + bias) + residual; see `linear_quantized`."""

    x: Layout
    values: Layout
    scale: Layout
    zero: Layout | None
    bias: Layout | None
    residual: Layout | None
    form: str
    group: int
    activation: str
    tile: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        """(out, in) of the weight."""
        return self.values.shape[0], self.values.shape[1] * PER_BYTE.get(self.form, 1)

    @property
    def out(self) -> Layout:
        return self.x.like((*self.x.shape[:-1], self.shape[0]))

    @functools.cached_property
    def places(self) -> tuple[ArrayArg | None, ArrayArg | None, ArrayArg | None]:
        """Zero points, bias and residual as inputs of the plan."""
        numbers = iter(range(3, 6))
        zero, bias, residual = (
            None if layout is None else Input(next(numbers))
            for layout in (self.zero, self.bias, self.residual)
        )
        return zero, bias, residual


def _gemv_supports(p: Problem) -> bool:
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


def plan_gemv(p: Problem) -> Plan:
    """One kernel, which reads the weights as they are packed."""
    zero, bias, residual = p.places
    launch = gemv_launch(
        p.x,
        *p.shape,
        p.form,
        p.group,
        p.activation,
        (Input(1), Input(2), zero),
        bias,
        residual,
        p.scale.size,
        f"gemv {p.tile}".strip(),
    )
    return Plan([p.out], [launch])


def plan_dequantize_first(p: Problem) -> Plan:
    """The weights as numbers of x's dtype in scratch memory, and a layer of these."""
    zero, bias, residual = p.places
    weight = Layout.new(p.shape, p.x.dtype, p.x.device)
    inner = p.group or (weight.size if p.scale.size == 1 else p.shape[1])
    steps: list[Any] = list(
        dequantize_steps(
            Input(1),
            p.values,
            Input(2),
            zero,
            Temp(0),
            p.x.dtype,
            p.form,
            inner,
            p.scale.size,
        )
    )
    layer = linear(p.x, weight, p.bias, p.residual, activation=p.activation)
    operands = [place for place in (bias, residual) if place is not None]
    inputs = {0: Input(0), 1: Temp(0), **dict(enumerate(operands, 2))}
    steps += embed(layer.steps, inputs, Output(0), 1)
    return Plan([p.out], steps, [weight, *layer.temps])


VERSIONS = (
    Version(
        "gemv",
        "quantize.linear.plan_gemv",
        supports=_gemv_supports,
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

    version: a name of `VERSIONS`. "gemv" may be followed by WARPSxTILESxAHEAD and "early" (compute
    capability 9.0), see gemv.Gemv.
    """
    name, _, tile = (version or "").partition(" ")
    problem = Problem(x, values, scale, zero, bias, residual, form, group, activation, tile)
    return choose("linear_quantized", VERSIONS, problem, name or None)
