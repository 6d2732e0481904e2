"""Self-attention on queries, keys and values that lie side by side, as one matrix product leaves
them.

    qkv (B, S, 3, H, D) -> y (B, S, H, D)          g (B, S, H, D) -> dqkv (B, S, 3, H, D)

The kernels of dispatch.py take rows of any strides: they read a third of qkv each and write in the
layout that the next matrix product reads. With separate arrays, taking qkv apart,
moving the heads and putting the gradients together again moves 14 arrays of y's size, as much as
everything else that a block of a language model does with attention's operands.
"""

from ...core.dispatch.arguments import ArrayArg, Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import with_arrays
from ...core.layout import Layout
from ..lib.versions import choose
from .dispatch import BACKWARD, FORWARD
from .problem import Problem

Place = tuple[ArrayArg, Layout]  # an argument of the plan, and its layout for dispatch.py


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


def _replace(arg: ArrayArg, inputs: list[Place], outputs: list[Place]) -> ArrayArg:
    """An array of attention's plan, as a part of the packed one."""
    if arg.kind == "t":
        return arg
    place, layout = (inputs if arg.kind == "x" else outputs)[arg.index]
    if arg.flattened:
        if not layout.contiguous:
            raise AssertionError(
                f"self_attention: attention's kernels need {arg} without gaps, it lies as {layout}"
            )
        return place.view((layout.size,))
    if arg.shape is None:
        return place
    if arg.kind == "y":
        raise AssertionError(
            f"self_attention: attention's kernels need {arg} in a layout of its own, it lies as "
            f"{layout}"
        )
    return place.view(arg.shape, arg.strides, arg.dtype, arg.offset)


def _plan(plan: Plan, results: list[Layout], inputs: list[Place], outputs: list[Place]) -> Plan:
    steps = with_arrays(plan.steps, lambda arg: _replace(arg, inputs, outputs))
    return Plan(results, steps, plan.temps, plan.why)


def self_attention(
    qkv: Layout, *, heads: int, causal: bool, scale: float, version: str | None = None
) -> Plan:
    """Planner: qkv (B, S, 3 H D) -> y (B, S, H D), lse (B, H, S). version: a name of
    `dispatch.FORWARD`."""
    places = _parts(Input(0), qkv, heads)
    layouts = [layout for _, layout in places]
    problem = Problem(*layouts, None, None, None, None, causal, scale, False, packed=True)
    plan = choose("self_attention", FORWARD, problem, version)
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
    """Planner: g, y (B, S, H D), qkv (B, S, 3 H D), lse (B, H, S) -> dqkv (B, S, 3 H D). version: a
    name of `dispatch.BACKWARD`."""
    parts = _parts(Input(1), qkv, heads)
    places = [_heads(Input(0), g, heads), *parts, _heads(Input(2), y, heads), (Input(3), lse)]
    gradient, *layouts, _, logarithms = (layout for _, layout in places)
    none = (None, None, None, None)
    problem = Problem(*layouts, *none, causal, scale, False, gradient, logarithms, packed=True)
    plan = choose("self_attention_grad", BACKWARD, problem, version)
    return _plan(plan, [qkv.like()], places, _parts(Output(0), qkv.like(), heads))
