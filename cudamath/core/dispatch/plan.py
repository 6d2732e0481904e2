"""Plans: the work of one op on arrays of given layouts.

A planner (in `kernels/`) turns layouts and parameters into a Plan: the layouts of the outputs,
scratch arrays, and steps. `Plan.bind` compiles and loads the kernels and generates a Python
function, `run`, in which layouts, grids and scalars are constants. A call of `run` takes memory
blocks for the outputs, writes a few addresses into a prepared argument block, and calls the driver.

The function is generated because straight-line code costs about 1 us beside the driver's 2.7 us. A
loop over a description of the same work costs twice that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...runtime.dry import DryStream
from ...runtime.roofline import Work
from ...runtime.state import runtime
from ..layout import Layout
from .arguments import (
    Addresses,
    ArrayArg,
    Constant,
    Flag,
    Input,
    Output,
    Scalar,
    Temp,
    TensorMap,
    Ticket,
)
from .plan_codegen import Deferred, _Writer
from .steps import Call, Launch, with_arrays


class Plan:
    """Outputs, scratch arrays and steps of an op on given layouts. A description until `bind`.

    Parameters
    ----------
    outputs : sequence of Layout
        Layouts of the results.
    steps : sequence of Launch or Call
        Kernel launches and library calls, in order. A launch with an empty grid is dropped.
    temps : sequence of Layout
        Layouts of scratch arrays, which live for the duration of the call.
    why : str
        Where there are several implementations, the reason for this one. `explain` prints it.
    several : bool
        The result is a tuple even if there is only one output.
    together : bool
        The outputs lie in one block of memory, because they are used together.

    Attributes
    ----------
    works : list of Work
        Bytes and operations of each step, for the profiler. Empty where they are not counted
        (kernels/lib/flop_counts.py).
    """

    def __init__(
        self,
        outputs: Sequence[Layout],
        steps: Sequence[Launch | Call],
        temps: Sequence[Layout] = (),
        why: str = "",
        several: bool = False,
        together: bool = False,
    ):
        self.several, self.together = several or len(outputs) != 1, together
        self.outputs = list(outputs)
        self.temps = list(temps)
        self.why = why
        self.steps = [s for s in steps if not (isinstance(s, Launch) and 0 in s.grid)]
        self.works: list[Work] = []

    def only(self, outputs: tuple[int, ...]) -> Plan:
        """The same steps with these outputs alone. The others become scratch, and no arrays are
        made of them."""
        others = [i for i in range(len(self.outputs)) if i not in outputs]

        def place(arg: ArrayArg) -> ArrayArg:
            if arg.kind != "y":
                return arg
            if arg.index in outputs:
                return arg.of(Output(outputs.index(arg.index)))
            return arg.of(Temp(len(self.temps) + others.index(arg.index)))

        return self._edited(
            [self.outputs[i] for i in outputs],
            place,
            [*self.temps, *(self.outputs[i] for i in others)],
        )

    def into(self, index: int) -> Plan:
        """The same steps with the output in an array of the caller: input number `index`, after all
        others."""
        return self._edited(
            [], lambda arg: arg.of(Input(index)) if arg.kind == "y" else arg, self.temps
        )

    def _edited(
        self,
        outputs: Sequence[Layout],
        place: Callable[[ArrayArg], ArrayArg],
        temps: Sequence[Layout],
    ) -> Plan:
        plan = Plan(outputs, with_arrays(self.steps, place), temps, self.why)
        plan.works = self.works
        return plan

    def layout(self, arg: ArrayArg, inputs: Sequence[Layout]) -> Layout:
        """The layout of an array argument as a step receives it."""
        table = {"x": inputs, "y": self.outputs, "t": self.temps}[arg.kind]
        return arg.resolve(table[arg.index])

    def signature(self, launch: Launch, inputs: Sequence[Layout]) -> list[Any]:
        """The types of a launch's arguments: a Layout for an array, a NumPy dtype for a scalar."""
        kinds: list[Any] = []
        device = inputs[0].device if inputs else self.outputs[0].device
        for arg in launch.args:
            if isinstance(arg, ArrayArg):
                kinds.append(self.layout(arg, inputs))
            elif isinstance(arg, Scalar):
                kinds.append(np.dtype(arg.dtype))
            elif isinstance(arg, Constant):
                kinds.append(Layout.new(arg.array.shape, arg.array.dtype, device))
            elif isinstance(arg, Addresses):
                kinds.append(Layout.new((len(arg),), np.dtype(np.int64), device))
            elif isinstance(arg, Flag):
                kinds.append(Layout.new((1,), np.dtype(np.int64), device))
            else:
                kinds.append(
                    np.dtype(np.int64) if isinstance(arg, (int, Ticket, TensorMap)) else arg.dtype
                )
        return kinds

    def bind(
        self, name: str, inputs: Sequence[Layout], scalars: int = 0, device: int | None = None
    ) -> Callable:
        """Compile and load the kernels; return `run(*input arrays, *scalars) -> output
        array(s)`. On a dry stream the kernels wait until `run` is called elsewhere."""
        if device is None:
            device = inputs[0].device if inputs else self.outputs[0].device
        if runtime.local.stream.__class__ is DryStream:
            return Deferred(self, name, list(inputs), scalars, device).run
        local, before = runtime.local, runtime.local.upcoming
        launches = [step for step in self.steps if isinstance(step, Launch)]
        if len(launches) > 1:  # the compiler may begin with the others while it is at the first
            local.upcoming = tuple([(s.kernel, self.signature(s, inputs)) for s in launches[1:]])
        try:
            return _Writer(self, name, list(inputs), scalars, device).function()
        finally:
            local.upcoming = before
