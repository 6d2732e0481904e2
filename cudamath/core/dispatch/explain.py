"""`explain`: the implementations that a call reaches, their files, and the reasons for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...runtime.interrupts import context_manager
from ..array import ndarray
from . import checks
from .call_record import CallRecord
from .lazy_import import lazy
from .plan import Plan
from .replanning import on_cpu, replanned
from .steps import Call, Launch

__all__ = ["explain"]


def explain(fn: Callable, /, *args: Any, **kwargs: Any) -> str:
    """Call a function and return a description of the kernels that ran.

    For each operation it lists the shapes, the kernels and library calls of its plan in order, each
    with its file in the package, and, where there were several implementations, the reason for this
    one.

    Parameters
    ----------
    fn : callable
        Function of arrays. For one that `jit` returned the text tells its programs: operations,
        what was simplified and fused and why not more, bytes and memory. Without arguments it is
        not called.
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
    matmul(float64 (2, 2), float64 (2, 2)) on the CPU: matmul in cpu/matmul.py
    """
    checks.require_function("explain", fn)
    if (describe := getattr(fn, "describe", None)) is not None:
        if args or kwargs:
            fn(*args, **kwargs)
        text = describe()
        print(text)
        return text
    lines: list[str] = []
    record = CallRecord(keep=False)  # in which no call is replayed
    record.of_user = True
    with _listening(lines), record:
        fn(*args, **kwargs)
    text = "\n".join(dict.fromkeys(lines)) or "nothing ran but views"
    print(text)
    return text


@context_manager
def _listening(lines: list[str]) -> Iterator[None]:
    """A context in which all ops plan anew, and each plan appends its description to `lines`."""
    bind = Plan.bind

    def describe_on_gpu(self: Plan, name: str, inputs: Any, *rest: Any, **more: Any) -> Callable:
        operands = ", ".join([_array(x) for x in inputs])
        reason = f"\n    because: {self.why}" if self.why else ""
        lines.append(f"{name}({operands}) on the GPU: {_steps(self)}{reason}")
        return bind(self, name, inputs, *rest, **more)

    def describing(plan: Callable) -> Callable:
        def describe_on_cpu(self: Any, operands: tuple, *rest: Any) -> Callable:
            arrays = [x for x in operands if isinstance(x, ndarray)]
            if on_cpu(self, operands, rest):
                shown = [
                    _array(x) if isinstance(x, ndarray) else type(x).__name__
                    for x in operands
                    if x is not None
                ]
                if not operands and "layout" in rest[-1]:  # the op creates an array of this layout
                    shown = [_array(rest[-1]["layout"])]
                lines.append(f"{self.name}({', '.join(shown)}) on the CPU: {_on_cpu(self, arrays)}")
            return plan(self, operands, *rest)

        return describe_on_cpu

    Plan.bind = describe_on_gpu  # type: ignore[method-assign]
    try:
        with replanned(describing):
            yield
    finally:
        Plan.bind = bind  # type: ignore[method-assign]


def _array(x: Any) -> str:
    return f"{x.dtype} {x.shape}"


def _on_cpu(op: Any, arrays: list[ndarray]) -> str:
    """The function of an op on the CPU and its file, or NumPy's ufunc."""
    path = op.cpu
    if isinstance(path, dict):  # by kinds of numbers; bfloat16's is "V" for NumPy
        kind = arrays[0].dtype.kind
        path = path.get("f" if kind == "V" else kind)
    if path is None:
        return f"numpy.{op.ufunc.__name__}"
    module, _, function = path.rpartition(".")
    return f"{function}{_file(f'{_PACKAGE}.cpu.{module}')}"


def _steps(plan: Plan) -> str:
    """The steps of a plan: a kernel's name, file, grid and block; a library call's name and
    file."""
    steps = []
    for step in plan.steps:
        if isinstance(step, Launch):
            function = getattr(step.kernel, "py_func", step.kernel)
            name = getattr(step.kernel, "__name__", "kernel")
            grid, block = "x".join(map(str, step.grid)), "x".join(map(str, step.block))
            launch = f"{grid} blocks of {block} threads"
            module = lazy("kernels", "compiler.generated.module_of")(function)
            steps.append(f"{name}{_file(module)}, {launch}")
        elif isinstance(step, Call):
            name = getattr(step.fn, "__qualname__", repr(step.fn)).replace(".<locals>", "")
            steps.append(f"{name}{_file(getattr(step.fn, '__module__', None))}")
    return "; ".join(steps) or "nothing to do"


_PACKAGE = __name__.partition(".")[0]


def _file(module: str | None) -> str:
    """The file of a module of this package, as " in kernels/matmul/sm90.py"; else an empty
    string."""
    if module is None or not module.startswith(f"{_PACKAGE}."):
        return ""
    return f" in {module.removeprefix(f'{_PACKAGE}.').replace('.', '/')}.py"
