"""Plans with library calls, run without a GPU: kernels in Numba's simulator, calls by stand-ins on
host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Call, Launch
from cudamath.runtime import stream
from cudamath.testing import simulate


def host_run(plan: Plan, *inputs: np.ndarray, table: Any = None) -> list[np.ndarray]:
    """A plan's outputs from its steps on host memory: library calls by their stand-ins, kernels in
    the simulator.

    table: the kernel that writes addresses, which the simulator cannot: it is done here.
    """
    aligned = [np.empty(a.nbytes // 8 + 4, np.uint64) for a in (*plan.outputs, *plan.temps)]
    arrays: dict[str, list[np.ndarray]] = {"x": list(inputs), "y": [], "t": []}
    for layout, space in zip((*plan.outputs, *plan.temps), aligned, strict=True):
        start = -space.ctypes.data % 16
        memory = np.ndarray(
            layout.shape,
            layout.dtype,
            space.view(np.uint8)[start : start + layout.nbytes],
            0,
            layout.strides,
        )
        arrays["y" if len(arrays["y"]) < len(plan.outputs) else "t"].append(memory)
    for step in plan.steps:
        at = {kind: [a.ctypes.data for a in those] for kind, those in arrays.items()}
        if isinstance(step, Call):
            step.fn(stream.current_stream(0), *[at[a.kind][a.index] + a.offset for a in step.args])
        elif step.kernel is table:
            source, between, target = step.args
            arrays["t"][target.index][:] = (
                at[source.kind][source.index]
                + source.offset
                + between * np.arange(arrays["t"][target.index].size)
            )
        else:
            # the same launch, with every array of the plan as an input
            order = [(kind, i) for kind, those in arrays.items() for i in range(len(those))]
            renamed = [
                type(a)(
                    "x",
                    order.index((a.kind, a.index)),
                    a.shape,
                    a.strides,
                    a.dtype,
                    a.offset,
                    a.flattened,
                )
                if hasattr(a, "kind")
                else a
                for a in step.args
            ]
            one = Plan([], [Launch(step.kernel, step.grid, step.block, renamed, step.shared)])
            simulate(one, *[a for those in arrays.values() for a in those])
    return arrays["y"]
