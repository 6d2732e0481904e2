"""Self-attention on queries, keys and values that lie side by side, as one matrix product leaves
them.

    qkv (B, S, 3, H, D) -> y (B, S, H, D)          g (B, S, H, D) -> dqkv (B, S, 3, H, D)

The kernels are those of dispatch.py, which take rows of any strides: they read a third of qkv each
and write where the next matrix product wants to read. With separate arrays, taking qkv apart,
moving the heads and putting the gradients together again moves 14 arrays of y's size, as much as
everything else that a block of a language model does with attention's operands.
"""

import dataclasses
from typing import Any

from ...core.dispatch.arguments import ArrayArg, Input, Output, TensorMap
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from . import dispatch

Place = tuple[ArrayArg, Layout]  # an argument of the plan, and how dispatch.py is to see it


def _parts(argument: ArrayArg, packed: Layout, heads: int) -> list[Place]:
    """Queries, keys and values (B, H, S, D) as they lie in (B, S, 3 H D)."""
    batch, length, width = packed.shape
    depth, size = width // 3 // heads, packed.itemsize
    shape, strides = (
        (batch, heads, length, depth),
        (length * width * size, depth * size, width * size, size),
    )
    out = []
    for offset in (0, width // 3 * size, 2 * (width // 3) * size):
        out.append(
            (argument.view(shape, strides, offset=offset), packed.view(shape, strides, offset))
        )
    return out


def _heads(argument: ArrayArg, x: Layout, heads: int) -> Place:
    """(B, S, H D) seen as (B, H, S, D)."""
    (batch, length, width), size = x.shape, x.itemsize
    shape, strides = (
        (batch, heads, length, width // heads),
        (length * width * size, width // heads * size, width * size, size),
    )
    return argument.view(shape, strides), x.view(shape, strides)


def _moved(arg: Any, inputs: list[Place], outputs: list[Place]) -> Any:
    """An argument of attention's plan, whose inputs and outputs now lie elsewhere."""
    if isinstance(arg, TensorMap):
        return dataclasses.replace(arg, array=_moved(arg.array, inputs, outputs))
    if not isinstance(arg, ArrayArg) or arg.kind == "t":
        return arg
    place, layout = (inputs if arg.kind == "x" else outputs)[arg.index]
    if arg.flattened:
        if not layout.contiguous:
            raise AssertionError(
                f"self_attention: attention's kernels want {arg} without gaps, it lies as {layout}"
            )
        return place.view((layout.size,))
    if arg.shape is None:
        return place
    if arg.kind == "y":
        raise AssertionError(
            f"self_attention: attention's kernels want {arg} to lie in a way of its own, it lies "
            f"as {layout}"
        )
    return place.view(arg.shape, arg.strides, arg.dtype, arg.offset)


def _plan(plan: Plan, made: list[Layout], inputs: list[Place], outputs: list[Place]) -> Plan:
    steps = []
    for step in plan.steps:
        if not isinstance(step, Launch):
            raise AssertionError(f"self_attention: wants launches alone, got {step}")
        args = [_moved(arg, inputs, outputs) for arg in step.args]
        steps.append(step.with_args(args))
    return Plan(made, steps, plan.temps)


def _version(q: Layout, k: Layout, scale: float) -> str:
    if not dispatch.suits_mma(q, k):
        return "plain"
    return dispatch.suits_wgmma(q) if dispatch.suits_exponents(q, k, scale) else "mma"


def self_attention(
    qkv: Layout, *, heads: int, causal: bool, scale: float, version: str | None = None
) -> Plan:
    """Planner: qkv (B, S, 3 H D) -> y (B, S, H D), lse (B, H, S). version: "plain", "mma" or
    "wgmma"."""
    places = _parts(Input(0), qkv, heads)
    q, k, v = (layout for _, layout in places)
    plan = dispatch.attention(
        q,
        k,
        v,
        causal=causal,
        scale=scale,
        dropping=False,
        version=version or _version(q, k, scale),
    )
    y, lse = qkv.like((*qkv.shape[:2], qkv.shape[2] // 3)), plan.outputs[1]
    return _plan(plan, [y, lse], places, [_heads(Output(0), y, heads), (Output(1), lse)])


def self_attention_grad(
    g: Layout,
    qkv: Layout,
    y: Layout,
    lse: Layout,
    *,
    heads: int,
    causal: bool,
    scale: float,
    version: str | None = None,
) -> Plan:
    """Planner: g, y (B, S, H D), qkv (B, S, 3 H D), lse (B, H, S) -> dqkv (B, S, 3 H D)."""
    parts = _parts(Input(1), qkv, heads)
    q, k, v = (layout for _, layout in parts)
    places = [_heads(Input(0), g, heads), *parts, _heads(Input(2), y, heads), (Input(3), lse)]
    plan = dispatch.attention_grad(
        *[layout for _, layout in places],
        causal=causal,
        scale=scale,
        dropping=False,
        version=version or _version(q, k, scale),
    )
    return _plan(plan, [qkv.like()], places, _parts(Output(0), qkv.like(), heads))
