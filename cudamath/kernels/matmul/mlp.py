"""Two fully connected layers with an activation between them, and the first product of their
gradient, in as few passes over memory as possible.

    z = x w1^T + b1,   h = f(z),   y = h w2^T + b2 + residual

The gradient needs both z and h. On compute capability 9.0 the first product's epilogue stores z
beside h (kernels/matmul/epilogue_sm90.py), which saves a kernel that reads z and writes h. In the
gradient, dz = (dy w2) f'(z): the product's epilogue reads z and multiplies, so that dh is never
written. That saves another kernel, which would read dh and z and write dz. Both kernels are bound
by memory; in GPT-2 they take 5 % of a training step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.op import registry
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..elementwise.dispatch import launch
from ..elementwise.generator import scalar_function
from ..lib.plan_edit import renumber
from ..lib.versions import Version, choose
from . import linear as layer
from .dispatch import matmul
from .problem import transpose

HIDDEN, BEFORE = 1, 2  # outputs of `mlp` besides y


@dataclasses.dataclass(frozen=True)
class First:
    """z = x weight^T + bias and f(z). tile: of the sm90 version."""

    x: Layout
    weight: Layout
    bias: Layout | None
    activation: str
    tf32: bool
    tile: str

    @property
    def operands(self) -> list[Layout]:
        return [] if self.bias is None else [self.bias]


def first_sm90(p: First) -> Plan:
    """Outputs f(z) and z of one kernel, whose epilogue stores both."""
    from .tensor_core_dispatch import Epilogue, wgmma  # the simulator cannot import it

    extra = Epilogue(p.activation, None if p.bias is None else Input(2).flat, keep=True)
    return wgmma(p.x, transpose(p.weight), p.tile, epilogue=extra)


def first_unfused(p: First) -> Plan:
    """The same by a layer, and an elementwise kernel that reads z."""
    plan = layer.linear(p.x, p.weight, p.bias, activation="", tf32=p.tf32)
    z = plan.outputs[0]
    formula = layer.FORMULAS[p.activation].format(v="x")
    function = scalar_function(formula, (z.dtype,), z.dtype, z.dtype)
    steps = renumber(plan.steps, {Output(0): Output(1)})
    steps += renumber([launch(function, [z], z, Output(0))], {Input(0): Output(1)})
    return Plan([z.like(), z], steps, plan.temps)


FIRST_VERSIONS = (
    Version(
        "sm90",
        "matmul.mlp.first_sm90",
        supports=lambda p: layer.fuses(p.x, p.weight, p.operands),
        reason="tensor cores: the epilogue stores h and z",
    ),
    Version("unfused", "matmul.mlp.first_unfused"),
)


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
    operands = zip(names, (x, w1, b1, w2, b2, residual), strict=True)
    present = [name for name, layout in operands if layout is not None]
    place = {name: Input(i) for i, name in enumerate(present)}
    name, _, tile = (version or "").partition(" ")
    problem = First(x, w1, b1, activation, tf32, tile)
    one = choose("mlp", FIRST_VERSIONS, problem, name or None)
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


@dataclasses.dataclass(frozen=True)
class Slope:
    """(g weight) f'(z). tile: of the sm90 version."""

    g: Layout
    weight: Layout
    z: Layout
    activation: str
    tf32: bool
    tile: str


def slope_sm90(p: Slope) -> Plan:
    """One kernel, whose epilogue multiplies by the slope."""
    from .tensor_core_dispatch import Epilogue, wgmma  # the simulator cannot import it

    extra = Epilogue(p.activation, residual=Input(2).flat, slope=True)
    return wgmma(p.g, p.weight, p.tile, epilogue=extra)


def slope_unfused(p: Slope) -> Plan:
    """The product, and an elementwise kernel in place."""
    plan = matmul(p.g, p.weight, tf32=p.tf32)
    y = plan.outputs[0]
    slope: str = registry[f"{p.activation}_grad"].expressions[""]  # type: ignore[attr-defined]  # of the elementwise card
    function = scalar_function(slope, (y.dtype, p.z.dtype), y.dtype, y.dtype)
    plan.steps += renumber(
        [launch(function, [y, p.z], y, Output(0))], {Input(0): Output(0), Input(1): Input(2)}
    )
    return plan


SLOPE_VERSIONS = (
    Version(
        "sm90",
        "matmul.mlp.slope_sm90",
        supports=lambda p: layer.fuses(p.g, transpose(p.weight), [p.z]),
        reason="tensor cores: the epilogue multiplies by the slope",
    ),
    Version("unfused", "matmul.mlp.slope_unfused"),
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
    """Planner: g (.., out), weight (out, hidden), z (.., hidden) -> (g weight) f'(z). version: a
    name of `SLOPE_VERSIONS`; for "sm90" a tile may follow."""
    name, _, tile = (version or "").partition(" ")
    problem = Slope(g, weight, z, activation, tf32, tile)
    return choose("product_slope", SLOPE_VERSIONS, problem, name or None)
