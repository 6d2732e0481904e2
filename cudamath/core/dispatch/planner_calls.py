"""Calls of planners: what can be planned again elsewhere, for another device.

Ops call their planners by `call_planner`. Whoever records a program's kernels (`warm_up.py`,
`packs/record.py`) observes these calls: a planner's name and arguments survive a change of its
kernels, while the kernels' keys do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .lazy_import import lazy
from .plan import Plan

#: Each is called with the calls of planners, and with the plans that these made.
observers: list[Callable[[PlannerCall, Plan], None]] = []


class PlannerCall(NamedTuple):
    """A call of a planner for an op.

    Parameters
    ----------
    op : str
        Name of the op.
    planner : str
        "family.file.planner" below `cudamath.kernels`. "family.file.planner:alone" is the planner's
        attribute `alone`.
    inputs : tuple
        Layouts, dtypes of run-time scalars, and None.
    params : dict
        The planner's parameters.
    """

    op: str
    planner: str
    inputs: tuple
    params: dict[str, Any]

    def plan(self) -> Plan:
        """The plan, made now."""
        path, _, attribute = self.planner.partition(":")
        planner = lazy("kernels", path)
        return (getattr(planner, attribute) if attribute else planner)(*self.inputs, **self.params)


def call_planner(op: str, planner: str, inputs: tuple, params: dict[str, Any]) -> Plan:
    """The plan that a planner ("family.file.planner") makes for an op."""
    call = PlannerCall(op, planner, inputs, params)
    plan = call.plan()
    if isinstance(plan, Plan):  # not that of a traced operation (core/tracing.py)
        for observe in observers:
            observe(call, plan)
    return plan
