"""Two fully connected layers with an activation between them, and their gradient's first product,
by fewest passes.

    z = x w1^T + b1,   h = f(z),   y = h w2^T + b2 + residual

For the gradient z and h are both wanted. On compute capability 9.0 the first product's epilogue
stores z beside h (kernels/matmul/epilogue_sm90.py): a kernel that would read z to write h is saved.
In the gradient, dz = (dy w2) f'(z): the product's epilogue reads z and multiplies, so that dh is
never written: another kernel saved that would read dh and z and write dz. Both kernels are bound by
memory; in GPT-2 they take 5 % of a training step.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.op import registry
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..elementwise.generator import launch, scalar_function
from ..lib.plan_edit import renumber
from . import dispatch, measured
from . import linear as layer

HIDDEN, BEFORE = 1, 2  # outputs of `mlp` besides y


def _first(
    x: Layout, weight: Layout, bias: Layout | None, activation: str, tf32: bool, version: str | None
) -> Plan:
    """x weight^T + bias: outputs f of it (0) and itself (1)."""
    present = [] if bias is None else [bias]
    if version is None:
        version = "wgmma" if layer.fits(x, weight, present) else "steps"
    if version.startswith("wgmma"):
        from . import tensor_core_dispatch

        extra = tensor_core_dispatch.Epilogue(
            activation, Input(2).flat if present else None, keep=True
        )
        return tensor_core_dispatch.wgmma(
            x, measured.turned(weight), version.removeprefix("wgmma").strip(), epilogue=extra
        )
    plan = layer.linear(x, weight, bias, activation="", tf32=tf32)
    z = plan.outputs[0]
    steps = renumber(plan.steps, {Output(0): Output(1)})
    function = scalar_function(
        layer.FORMULAS[activation].format(v="x"), (z.dtype,), z.dtype, z.dtype
    )
    steps += renumber([launch(function, [z], z, Output(0))], {Input(0): Output(1)})
    return Plan([z.like(), z], steps, plan.temps)


def mlp(
    x: Layout,
    w1: Layout,
    b1: Layout | None,
    w2: Layout,
    b2: Layout | None,
    residual: Layout | None,
    *,
    activation: str,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """Planner: x (.., in), w1 (hidden, in), b1 (hidden,), w2 (out, hidden), b2 (out,), residual
    (.., out) -> y (.., out), h and z (.., hidden). version: of both products, see
    kernels/matmul/linear.py."""
    names = ("x", "w1", "b1", "w2", "b2", "residual")
    given = dict(zip(names, (x, w1, b1, w2, b2, residual), strict=True))
    place = {
        name: Input(i) for i, name in enumerate(name for name in names if given[name] is not None)
    }
    one = _first(x, w1, b1, activation, tf32, version)
    two = layer.linear(one.outputs[0], w2, b2, residual, activation="", tf32=tf32, version=version)
    table = {Output(0): Output(HIDDEN), Output(1): Output(BEFORE)}
    steps = renumber(one.steps, table)
    more: Sequence[str] = [name for name in ("w2", "b2", "residual") if name in place]
    table = {Input(0): Output(HIDDEN), **{Input(1 + i): place[name] for i, name in enumerate(more)}}
    table |= {Temp(i): Temp(len(one.temps) + i) for i in range(len(two.temps))}
    return Plan(
        [two.outputs[0], *one.outputs],
        [*steps, *renumber(two.steps, table)],
        [*one.temps, *two.temps],
    )


def product_slope(
    g: Layout,
    weight: Layout,
    z: Layout,
    *,
    activation: str,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """Planner: g (.., out), weight (out, hidden), z (.., hidden) -> (g weight) f'(z). version: see
    kernels/matmul/linear.py."""
    turned = measured.turned(weight)
    if version is None:
        version = "wgmma" if layer.fits(g, turned, [z]) else "steps"
    if version.startswith("wgmma"):
        from . import tensor_core_dispatch

        extra = tensor_core_dispatch.Epilogue(activation, residual=Input(2).flat, slope=True)
        return tensor_core_dispatch.wgmma(
            g, weight, version.removeprefix("wgmma").strip(), epilogue=extra
        )
    plan = dispatch.matmul(g, weight, tf32=tf32)
    y = plan.outputs[0]
    slope: str = registry[f"{activation}_grad"].expressions[""]  # type: ignore[attr-defined]  # of the elementwise card
    function = scalar_function(slope, (y.dtype, z.dtype), y.dtype, y.dtype)
    plan.steps += renumber(
        [launch(function, [y, z], y, Output(0))],
        {Input(0): Output(0), Input(1): Input(2)},
    )
    return plan
