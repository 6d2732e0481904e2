"""Plans as parts of other plans: their steps with the arrays renumbered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...core.dispatch.arguments import ArrayArg, Temp
from ...core.dispatch.steps import Call, Launch, with_arrays


def renumber(
    steps: Sequence[Launch | Call], arrays: Mapping[ArrayArg, ArrayArg]
) -> list[Launch | Call]:
    """The steps with their arrays renumbered: Input, Output or Temp -> the same of another plan, or
    a view of it, where the steps are to see its memory in another shape. Those that the mapping
    lacks keep their numbers."""

    def place(arg: ArrayArg) -> ArrayArg:
        array = arrays.get(ArrayArg(arg.kind, arg.index))
        if array is None:
            return arg
        if array.shape is None or arg.shape is not None:
            return arg.of(array)
        return array.view((math.prod(array.shape),)) if arg.flattened else array

    return with_arrays(steps, place)


def embed(
    steps: Sequence[Launch | Call], inputs: Mapping[int, ArrayArg], output: ArrayArg, temps: int
) -> list[Launch | Call]:
    """The steps of a plan as a part of another one, where its inputs are `inputs` and its output is
    `output`. Its scratch arrays follow the first `temps` ones. Its launches wait until the step
    ahead has ended."""

    def place(arg: ArrayArg) -> ArrayArg:
        if arg.kind == "t":
            return arg.of(Temp(arg.index + temps))
        return arg.of(output if arg.kind == "y" else inputs[arg.index])

    parts = with_arrays(steps, place)
    for step in parts:
        if isinstance(step, Launch):
            step.early = False
    return parts
