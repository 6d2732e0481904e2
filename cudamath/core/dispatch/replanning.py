"""A context in which all ops plan anew, so that each plan can be described or timed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...runtime.interrupts import context_manager
from .. import asarray
from ..array import ndarray
from ..devices import CPU
from . import op as ops

#: Contexts in which no operation goes past the plans of its op, as machine code does.
contexts: list[Callable[[], contextlib.AbstractContextManager]] = []


@context_manager
def replanned(observe: Callable[[Callable], Callable], more: Iterable[Any] = ()) -> Iterator[None]:
    """Context: ops have no plans, and `observe(plan)` is in the place of the method `plan` of each
    of their classes. The plans they had before they have again afterwards. more: what has plans and
    is not registered."""
    observed = [op for op in [*list(ops.registry.values()), *more] if hasattr(op, "plans")]
    planners: dict[Any, Callable] = {
        kind: vars(kind)["plan"]
        for op in observed
        for kind in type(op).__mro__
        if "plan" in vars(kind)
    }
    tables = [op.plans for op in observed]
    entries = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    for kind, plan in planners.items():
        kind.plan = observe(plan)
    try:
        with contextlib.ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context())
            yield
    finally:
        for kind, plan in planners.items():
            kind.plan = plan
        for table, plans in zip(tables, entries, strict=True):
            table.clear()
            table.update(plans)
        before = {id(op) for op in observed}
        for op in list(ops.registry.values()):  # those of modules that were loaded meanwhile
            if id(op) not in before and hasattr(op, "plans"):
                op.plans.clear()


def on_cpu(op: Any, operands: tuple, rest: tuple) -> bool:
    """Whether `op.plan(operands, *rest)` plans for the CPU."""
    arrays = [x for x in operands if isinstance(x, ndarray)]
    device = asarray.same_device(op.name, arrays) if arrays else rest[-1]["device"]
    return device == CPU
