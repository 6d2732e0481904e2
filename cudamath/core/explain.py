"""`explain`: which implementations a call reaches, and why those."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from . import op as ops
from .devices import CPU
from .plan import Call, Launch, Plan

__all__ = ["explain"]


def explain(fn: Callable, /, *args: Any, **kwargs: Any) -> str:
    """Call `fn(*args, **kwargs)` and say what ran: for each op its shapes, the kernels and library calls of its plan in
    order, and, where there were several implementations, why this one.

    Args:
        fn: function of arrays; args, kwargs: its arguments.

    Returns: str, one paragraph an op, in the order in which they were first called; also printed. The function is called
        once, and an op that repeats with the same layouts is listed once. Views move no data and are not listed.
    Raises: what `fn` raises.

    >>> import cudamath as cm
    >>> with cm.device("cpu"):
    ...     x = cm.ones((2, 2))
    ...     text = cm.explain(lambda: x @ x)
    matmul(float64 (2, 2), float64 (2, 2)) on the CPU: cpu.matmul.matmul
    """
    lines: list[str] = []
    with _listening(lines):
        fn(*args, **kwargs)
    text = "\n".join(lines) or "nothing ran but views"
    print(text)
    return text


@contextlib.contextmanager
def _listening(lines: list[str]) -> Iterator[None]:
    """While inside, no op knows its plans, and each plan that is made anew is described in `lines`."""
    bind, plan = Plan.bind, ops.Op.plan
    tables = [(card, name, getattr(card, name)) for card in ops.registry.values() for name in ("plans", "known")
              if isinstance(getattr(card, name, None), dict)]
    before = [dict(table) for _, _, table in tables]

    def note_bind(self: Plan, name: str, inputs: Any, *rest: Any, **more: Any) -> Callable:
        lines.append(f"{name}({', '.join(f'{x.dtype} {x.shape}' for x in inputs)}) on the GPU: {_steps(self)}"
                     + (f"\n    because: {self.why}" if self.why else ""))
        return bind(self, name, inputs, *rest, **more)

    def note_plan(self: ops.Op, arrays: tuple, scalars: int, params: dict) -> Callable:
        device = ops.same_device(self.name, arrays) if arrays else params["device"]
        if device == CPU:
            shapes = ", ".join(f"{x.dtype} {x.shape}" for x in arrays if x is not None)
            lines.append(f"{self.name}({shapes}) on the CPU: cpu.{self.cpu}")
        return plan(self, arrays, scalars, params)

    for _, _, table in tables:
        table.clear()
    Plan.bind, ops.Op.plan = note_bind, note_plan  # type: ignore[method-assign]
    try:
        yield
    finally:
        Plan.bind, ops.Op.plan = bind, plan  # type: ignore[method-assign]
        for (_, _, table), known in zip(tables, before, strict=True):
            table.update(known)


def _steps(plan: Plan) -> str:
    words = []
    for step in plan.steps:
        if isinstance(step, Launch):
            words.append(f"{getattr(step.kernel, '__name__', 'kernel')}, {'x'.join(map(str, step.grid))} blocks of "
                         f"{'x'.join(map(str, step.block))} threads")
        elif isinstance(step, Call):
            words.append(getattr(step.fn, "__qualname__", repr(step.fn)).replace(".<locals>", ""))
    return "; ".join(words) or "nothing to do"
