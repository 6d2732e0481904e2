"""The fully connected layer as one kernel: y = f(x w^T + bias) + residual.

The product costs 2 rows x in x out operations; bias, activation and residual read and write each
number of y once or more when they are kernels of their own. On compute capability 9.0 they are part
of the product's epilogue (sm90.py), where the numbers still are in registers, in float32: y
is rounded once. With tiles that two warpgroups take in turn, one finishes its tile while the other
multiplies. Elsewhere the product is made first, and one elementwise kernel does the rest in place.
"""

from __future__ import annotations

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..elementwise.generator import launch, scalar_function
from ..lib.plan_edit import renumber
from . import dispatch, gemv_plan, measured

#: The activations, of the number v; as in ml/activation.py.
FORMULAS = {
    "": "{v}",
    "relu": "maximum({v}, 0)",
    "silu": "{v} * sigmoid({v})",
    "gelu": "gelu({v})",
    "gelu_tanh": "{v} * sigmoid({v} * ({v} * {v} * 0.07135481627260025 + 1.5957691216057308))",
}


def linear(
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    residual: Layout | None = None,
    *,
    activation: str,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """Planner of y = activation(x weight^T + bias) + residual: x (.., in), weight (out, in), bias
    (out,), residual as y.

    version: "gemv" (up to 16 rows), "wgmma" (what may follow: tensor_core_dispatch.Choice) or
    "steps".
    """
    turned = measured.turned(weight)
    present = [layout for layout in (bias, residual) if layout is not None]
    places = iter(range(2, 4))
    at_bias = None if bias is None else Input(next(places))
    at_residual = None if residual is None else Input(next(places))
    if version is None:
        few = gemv_plan.few_rows(x, weight) and all(o.contiguous for o in present)
        version = "gemv" if few else "wgmma" if fits(x, weight, present) else "steps"
    if version.startswith("gemv"):
        from .gemv_plan import gemv_same

        return gemv_same(x, weight, bias, residual, activation=activation, version=version)
    if version.startswith("wgmma"):
        from . import tensor_core_dispatch

        extra = tensor_core_dispatch.Epilogue(
            activation, at_bias and at_bias.flat, at_residual and at_residual.flat
        )
        return tensor_core_dispatch.wgmma(
            x, turned, version.removeprefix("wgmma").strip(), epilogue=extra
        )
    plan = dispatch.matmul(x, turned, tf32=tf32)
    y = plan.outputs[0]
    if present or activation:
        value = "(x + y)" if bias is not None else "x"
        expression = FORMULAS[activation].format(v=value)
        if residual is not None:
            expression += f" + {'z' if bias is not None else 'y'}"
        function = scalar_function(
            expression, (y.dtype, *[p.dtype for p in present]), y.dtype, y.dtype
        )
        step = launch(function, [y, *present], y, Output(0))
        arrays = {Input(0): Output(0)} | {Input(1 + i): Input(2 + i) for i in range(len(present))}
        plan.steps += renumber([step], arrays)
    return plan


def fits(x: Layout, weight: Layout, others: list[Layout]) -> bool:
    """Whether the product's own epilogue can do it all."""
    from .problem import Product

    if (
        SIMULATOR
        or devices.capability(x.device) != (9, 0)
        or x.dtype.itemsize != 2
        or not x.size
        or not weight.size
    ):
        return False
    p = Product(x, measured.turned(weight))
    return (
        p.n % 8 == 0
        and p.parts == [(0, 0, 0)]
        and p.batch == 1
        and all(o.contiguous and o.aligned for o in others)
    )
