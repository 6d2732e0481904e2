"""Plans inside of other plans: steps with other arguments."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...core.dispatch.arguments import ArrayArg, TensorMap
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch


def moved(plan: Plan, table: dict[ArrayArg, ArrayArg]) -> list[Launch | Call]:
    """A plan's steps with their arrays renamed: Input, Output or Temp -> the same of another
    plan."""

    def arg(old: Any) -> Any:
        if isinstance(old, TensorMap):
            return dataclasses.replace(old, array=arg(old.array))
        if not isinstance(old, ArrayArg):
            return old
        new = table.get(ArrayArg(old.kind, old.index))
        return old if new is None else dataclasses.replace(old, kind=new.kind, index=new.index)

    return [
        step.with_args([arg(a) for a in step.args])
        if isinstance(step, Launch)
        else Call(step.fn, [arg(a) for a in step.args])
        for step in plan.steps
    ]


def within(
    steps: list[Launch | Call], places: dict[int, ArrayArg], output: ArrayArg, temps: int
) -> list[Launch | Call]:
    """The steps of a plan as a part of another: its inputs are at `places` there, its output is
    `output`, and its scratch comes behind the first `temps`."""

    def moved(arg: Any) -> Any:
        if isinstance(arg, TensorMap):
            return dataclasses.replace(arg, array=moved(arg.array))
        if not isinstance(arg, ArrayArg):
            return arg
        place = (
            output
            if arg.kind == "y"
            else ArrayArg("t", arg.index + temps)
            if arg.kind == "t"
            else places[arg.index]
        )
        return dataclasses.replace(arg, kind=place.kind, index=place.index)

    return [
        Call(s.fn, [moved(a) for a in s.args])
        if isinstance(s, Call)
        else Launch(s.kernel, s.grid, s.block, [moved(a) for a in s.args], s.shared, s.cluster)
        for s in steps
    ]
