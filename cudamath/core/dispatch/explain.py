"""`explain`: which implementations a call reaches, and why those."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .. import asarray
from ..array import ndarray
from ..devices import CPU
from . import checks
from . import op as ops
from .call_record import CallRecord
from .plan import Plan
from .steps import Call, Launch

__all__ = ["explain"]


def explain(fn: Callable, /, *args: Any, **kwargs: Any) -> str:
    """Call a function and return a description of the kernels that ran.

    For each operation it lists the shapes, the kernels and library calls of its plan in order, and,
    where there were several implementations, the reason for this one.

    Parameters
    ----------
    fn : callable
        Function of arrays.
    *args : object
        Arguments of the function.
    **kwargs : object
        Arguments of the function.

    Returns
    -------
    str
        One paragraph per operation, in the order of the first calls. It is also printed. The
        function is called once, and an operation that repeats with the same layouts is listed once.
        Views move no data and are not listed.

    Raises
    ------
    TypeError
        `fn` is not a function.

    Notes
    -----
    Exceptions of `fn` pass through.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.device("cpu"):
    ...     x = cm.ones((2, 2))
    ...     text = cm.explain(lambda: x @ x)
    matmul(float64 (2, 2), float64 (2, 2)) on the CPU: cpu.matmul.matmul
    """
    checks.require_function("explain", fn)
    lines: list[str] = []
    with _listening(lines), CallRecord():  # while a record is open, no call is replayed
        fn(*args, **kwargs)
    text = "\n".join(dict.fromkeys(lines)) or "nothing ran but views"
    print(text)
    return text


@contextlib.contextmanager
def _listening(lines: list[str]) -> Iterator[None]:
    """While inside, no op knows its plans, and each plan that is made anew is described in
    `lines`."""
    bind = Plan.bind
    plans = {
        kind: vars(kind)["plan"]
        for card in ops.registry.values()
        for kind in type(card).__mro__
        if "plan" in vars(kind)
    }
    tables = [
        (card, name, getattr(card, name))
        for card in ops.registry.values()
        for name in ("plans", "known")
        if isinstance(getattr(card, name, None), dict)
    ]
    before = [dict(table) for _, _, table in tables]

    def note_bind(self: Plan, name: str, inputs: Any, *rest: Any, **more: Any) -> Callable:
        lines.append(
            f"{name}({', '.join(f'{x.dtype} {x.shape}' for x in inputs)}) on the GPU: "
            f"{_steps(self)}" + (f"\n    because: {self.why}" if self.why else "")
        )
        return bind(self, name, inputs, *rest, **more)

    def noting(plan: Callable) -> Callable:
        def note_plan(self: Any, operands: tuple, *rest: Any) -> Callable:
            arrays = [x for x in operands if type(x) is ndarray]
            if (asarray.same_device(self.name, arrays) if arrays else rest[-1]["device"]) == CPU:
                shown = [
                    f"{x.dtype} {x.shape}" if type(x) is ndarray else type(x).__name__
                    for x in operands
                    if x is not None
                ]
                if not operands and "layout" in rest[-1]:  # what makes an array says which
                    shown = [f"{rest[-1]['layout'].dtype} {rest[-1]['layout'].shape}"]
                lines.append(f"{self.name}({', '.join(shown)}) on the CPU: {_on_cpu(self, arrays)}")
            return plan(self, operands, *rest)

        return note_plan

    for _, _, table in tables:
        table.clear()
    Plan.bind = note_bind  # type: ignore[method-assign]
    for kind, plan in plans.items():
        kind.plan = noting(plan)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        Plan.bind = bind  # type: ignore[method-assign]
        for kind, plan in plans.items():
            kind.plan = plan  # type: ignore[attr-defined]
        for (_, _, table), known in zip(tables, before, strict=True):
            table.update(known)


def _on_cpu(card: Any, arrays: list[ndarray]) -> str:
    """The function of a card on the CPU: one of ours, or NumPy's ufunc."""
    path = card.cpu
    if isinstance(path, dict):  # by kinds of numbers; bfloat16's is "V" for NumPy
        kind = arrays[0].dtype.kind
        path = path.get("f" if kind == "V" else kind)
    return f"numpy.{card.ufunc.__name__}" if path is None else f"cpu.{path}"


def _steps(plan: Plan) -> str:
    words = []
    for step in plan.steps:
        if isinstance(step, Launch):
            words.append(
                f"{getattr(step.kernel, '__name__', 'kernel')}, {'x'.join(map(str, step.grid))} "
                "blocks of "
                f"{'x'.join(map(str, step.block))} threads"
            )
        elif isinstance(step, Call):
            words.append(getattr(step.fn, "__qualname__", repr(step.fn)).replace(".<locals>", ""))
    return "; ".join(words) or "nothing to do"
