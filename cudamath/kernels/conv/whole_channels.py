"""Channels made whole for tensor cores: groups of few channels are merged, odd channels filled up.

Tensor cores read pieces of 8 channels of a group, and their tiles want 64 outputs. So `merged`
neighbouring groups become one, whose filters are zero but for the diagonal:

    w'[(q, i, m), (j, c)] = w[(q, i, m), c] if i = j else 0        groups q, merged i and j

and an odd number of channels or outputs becomes the next multiple of 8, with zeros behind. The
product has up to `merged` times as many multiply-adds, most of them by zero, at thirty times the
rate; memory is read once, as before. Filters are filled and copied in two passes over little
memory, and so are images and results whose channels are filled up. A gradient of filters is
computed whole, and its diagonal copied.

Zeros are multiplied, too: beside an infinity or NaN, results of the groups merged with its own are
NaN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.layout import Layout
from ..copy.channels_last import as_channels_last
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import Part, whole
from ..lib.integers import blocks
from ..lib.plan_edit import embed
from .problem import ROLES, Problem, add_bias

PIECE = 8  # channels that are read at once
ENOUGH = 64  # channels and outputs of a group that fill tiles
STEP = 16  # channels of the shortest step, which must not reach into another group


def groups_to_merge(problem: Problem) -> int:
    """How many groups become one: as few as fill tiles, or as many as there are; 1 where no number
    gives whole pieces."""
    channels, outputs, groups = problem.group_channels, problem.group_outputs, problem.groups
    able = [
        n
        for n in range(2, groups + 1)
        if groups % n == 0
        and not any(c * n % (STEP if n < groups else PIECE) for c in (channels, outputs))
    ]
    return next((n for n in able if min(channels, outputs) * n >= ENOUGH), able[-1] if able else 1)


def widened(problem: Problem) -> Problem | None:
    """The problem that tensor cores compute in this one's place; None where its channels are whole,
    or cannot be made so."""
    merged = groups_to_merge(problem) if problem.groups > 1 else 1
    if problem.groups > 1 and merged == 1:
        return None
    fill = PIECE if problem.groups == 1 else 1
    channels, outputs = (blocks(c, fill) * fill for c in (problem.x.shape[1], problem.y.shape[1]))
    if merged == 1 and (channels, outputs) == (problem.x.shape[1], problem.y.shape[1]):
        return None
    groups = problem.groups // merged

    def wide(layout: Layout, *lead: int) -> Layout:
        shape = (*lead, *layout.shape[2:])
        return layout if shape == layout.shape else as_channels_last(layout, shape)

    y = wide(problem.y, problem.y.shape[0], outputs)
    alone = problem.kind != "forward" or y is not problem.y
    return dataclasses.replace(
        problem,
        x=wide(problem.x, problem.x.shape[0], channels),
        weight=wide(problem.weight, outputs, channels // groups),
        y=y,
        bias=None if alone else problem.bias,
        groups=groups,
    )


def _diagonal(filters: Part, groups: int, merged: int, outputs: int, channels: int) -> Part:
    """Filters (groups, merged, outputs, channels, taps) among those of merged groups; with
    merged = 1 those of whole channels among filled ones."""
    row, column, *taps = filters.layout.strides
    shape = (groups, merged, outputs, channels, *filters.layout.shape[2:])
    strides = (merged * outputs * row, outputs * row + channels * column, row, column, *taps)
    return filters._replace(layout=filters.layout.view(shape, strides))


def _in_groups(filters: Part, groups: int, merged: int, outputs: int) -> Part:
    """All filters, seen as `_diagonal` sees them."""
    row, *rest = filters.layout.strides
    shape = (groups, merged, outputs, *filters.layout.shape[1:])
    strides = (merged * outputs * row, outputs * row, row, *rest)
    return filters._replace(layout=filters.layout.view(shape, strides))


def _pair(problem: Problem, inner: Problem, role: str, own: Part, wide: Part) -> tuple[Part, Part]:
    """An array, and its place in the wider one."""
    if role != "weight":
        return own, wide.slice(1, 0, own.layout.shape[1])
    groups, merged = inner.groups, problem.groups // inner.groups
    outputs, channels = problem.group_outputs, problem.group_channels
    return (
        _in_groups(own, groups, merged, outputs),
        _diagonal(wide, groups, merged, outputs, channels),
    )


def plan(problem: Problem, convolve: Callable[[Problem], Plan | None]) -> Plan | None:
    """The plan by `convolve`, a planner of the wider problem; None where that has none."""
    inner = widened(problem)
    inside = convolve(inner) if inner is not None else None
    if inner is None or inside is None:
        return None
    temps: list[Layout] = []
    steps: list[Launch | Call] = []
    operands: dict[int, ArrayArg] = {2: Input(2)}
    *roles, role = ROLES[problem.kind]
    for i, name in enumerate(roles):
        own, wide = getattr(problem, name), getattr(inner, name)
        operands[i] = Input(i)
        if wide is not own:
            operands[i] = Temp(len(temps))
            temps.append(wide)
            target = whole(operands[i], wide)
            steps += fill_part(target, np.uint64(0), np.uint64(0), None)
            steps += copy_part(*_pair(problem, inner, name, whole(Input(i), own), target))
    output: ArrayArg = Output(0)
    (made_inside,) = inside.outputs  # in the order that `convolve` chose
    if inner.out is not problem.out:
        output = Temp(len(temps))
        temps.append(made_inside)
    steps += embed(inside.steps, operands, output, len(temps))
    if inner.out is not problem.out:
        own, wide = whole(Output(0), problem.out), whole(output, made_inside)
        steps += copy_part(*reversed(_pair(problem, inner, role, own, wide)))
    made = Plan([problem.out], steps, [*temps, *inside.temps])
    return made if inner.bias is not None else add_bias(made, problem)
