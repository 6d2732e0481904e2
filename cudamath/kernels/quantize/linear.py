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

from typing import Any

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..lib.plan_edit import embed
from ..matmul.gemv_plan import gemv_launch
from ..matmul.linear import linear
from .dispatch import dequantize_steps
from .problem import LinearProblem


def plan_gemv(p: LinearProblem) -> Plan:
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


def plan_dequantize_first(p: LinearProblem) -> Plan:
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
