"""Ops: the definition of an operation (name, CPU function, planner, gradient rule), and its call.

Op         on the CPU a function of NumPy arrays, on a GPU a plan of kernel launches
Composed   a composition of other functions, with a gradient rule of its own
ViewOp     a view of its input: no kernel runs
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...runtime import background_init
from ...runtime.dry import DryStream
from ...runtime.state import register_tables, runtime
from .. import recording
from ..array import OWN_MEMORY, ReadOnly, ndarray
from ..asarray import same_device
from ..autograd import mutation, tape
from ..bounded_cache import store
from ..devices import CPU, TRACED
from ..dtypes import (
    ANY,
    BOOLEAN,
    COMPLEX,
    FLOATING,
    HELD,
    INEXACT,
    INTEGER,
    INTEGER_OR_BOOL,
    NUMERIC,
    REAL,
    REAL_OR_BOOL,
    Category,
)
from ..elements import lent, settle
from ..layout import Layout
from ..levels import work
from ..scalar import inside
from .call_record import obstruct, open_records, report, traced, unrecorded
from .cpu_run import _without_none, cpu_runner
from .lazy_import import lazy
from .planner_calls import call_planner

__all__ = [
    "ANY",
    "BOOLEAN",
    "COMPLEX",
    "FLOATING",
    "HELD",
    "INEXACT",
    "INTEGER",
    "INTEGER_OR_BOOL",
    "NUMERIC",
    "REAL",
    "REAL_OR_BOOL",
    "Category",
    "Composed",
    "Op",
    "ViewOp",
    "registry",
]


def refuse_host_writes(name: str, arrays: tuple) -> None:
    """Let a function that writes on the host cease to be recorded dry: the program will write."""
    dry = runtime.local.stream
    if dry.__class__ is DryStream and any(
        [x is not None and x._layout.device == CPU for x in arrays]
    ):
        dry.refuse(f"{name}: it writes into an array on the CPU")


class _Registry(dict[str, "Op | ViewOp"]):
    """Ops by name. Modules that the package loads when they are named have ops too: where a name
    is missing, they are loaded."""

    def __missing__(self, name: str) -> Op | ViewOp:
        package = sys.modules[__name__.partition(".")[0]]
        for module in dir(package):
            getattr(package, module)
        if name not in self:
            raise KeyError(name)
        return self[name]


#: Every op by name. tests/meta/test_completeness.py compares it with records, docs and benchmark
#: rows.
registry = _Registry()


def _tables() -> Iterator[dict]:
    """The plans of all ops, which depend on the devices."""
    for op in list(registry.values()):  # a module that another thread loads adds to them
        if hasattr(op, "plans"):
            yield op.plans


register_tables(_tables)


def _prepare_compiler() -> None:
    importlib.import_module("cudamath.kernels.compiler.compile").prepare()


def _planners(*families: str) -> list[Callable[[], Any]]:
    """Functions that import the planners of families of kernels; "linalg.lapack_plans": of one
    file."""
    files = [name if "." in name else f"{name}.dispatch" for name in families]
    names = [f"cudamath.kernels.{file}" for file in files]
    return [functools.partial(importlib.import_module, name) for name in names]


# Loaded in the background while a program starts: what nearly every program on a GPU needs next.
background_init.items.extend(
    [
        _prepare_compiler,
        *_planners("elementwise"),
        background_init.cublas,
        *_planners("matmul", "reduce", "softmax", "conv"),
        background_init.cudnn,
        *_planners("norm", "optim", "attention", "sort", "scan"),
        *_planners("linalg.lapack_plans", "numeric.fft", "index.stream_compaction"),
    ]
)


class Op:
    """An operation on arrays.

    Parameters
    ----------
    name : str
        The public name. Errors start with it.
    cpu : str
        "file.function" below `cudamath.cpu`. It takes NumPy arrays and the parameters, and returns
        one or several NumPy arrays.
    cuda : str
        "family.file.planner" below `cudamath.kernels`. It takes layouts and the parameters, and
        returns a Plan.
    vjp : callable or tuple of callables, optional
        The gradient rule, `rule(g, y, *inputs, **params)`: one gradient (or None) per input. Or a
        tuple with such a rule for each input. An argument whose name begins with "_" is not kept
        on the tape and arrives as None. Without a rule the results are constants.
    outputs : int
        1: the op returns an array. More: it returns a tuple, and `g` and `y` of the rule are
        tuples.
    keeps : tuple of bool, optional
        For an op with several outputs: which of them the rule uses. The others arrive as None.
    broadcasts : bool
        Gradients are summed over the axes along which an input was broadcast.
    adds : bool
        For an op with several outputs: where two ops use an output, the rule takes both gradients
        instead of their sum (see `backward.terms`).
    writes : bool or callable
        The op writes into its first input. Or `writes(count, params)` -> the numbers of the inputs,
        of so many, that it writes into.
    over : int, optional
        The number of an input in whose memory the result may lie: each of its elements is read by
        the thread that then writes the result's, and by no other.

    Attributes
    ----------
    plans : dict
        (layouts of the inputs, values of the parameters) -> the function that runs the op on such
        arrays.
    several : bool
        Whether the op returns a tuple.
    """

    def __init__(
        self,
        name: str,
        *,
        cpu: str,
        cuda: str,
        vjp: Callable | tuple[Callable, ...] | None = None,
        outputs: int = 1,
        keeps: tuple[bool, ...] | None = None,
        broadcasts: bool = False,
        adds: bool = False,
        writes: bool | Callable[[int, dict], Iterable[int]] = False,
        over: int | None = None,
    ):
        self.name, self.cpu, self.cuda, self.vjp, self.adds = name, cpu, cuda, vjp, adds
        self.writes, self.keeps, self.over = writes, keeps, over
        self.several = outputs > 1
        self.broadcasts = broadcasts
        self._saves_output, self._saves_inputs = tape.uses(vjp)
        self._saves: dict[int, tuple[bool, tuple[bool, ...]]] = {}
        self.plans: dict[Any, Any] = {}
        registry[name] = self

    def saves(self, count: int) -> tuple[bool, tuple[bool, ...]]:
        """Which values the gradient rule of `count` inputs uses: (the output, (input 0, ...))."""
        try:
            return self._saves[count]
        except KeyError:
            inputs = (
                (True,) * count
                if self._saves_inputs is None
                else (self._saves_inputs + (False,) * count)[:count]
            )
            return self._saves.setdefault(count, (self._saves_output, inputs))

    def __call__(self, *arrays: ndarray | None, scalars: tuple = (), **params: Any) -> Any:
        """Run the op on arrays that its public function has checked.

        Parameters
        ----------
        *arrays : ndarray or None
            The inputs; None for an optional one that is missing.
        scalars : tuple
            Numbers that vary from call to call. They are no part of the plan's key.
        **params : hashable
            Parameters of the plan.
        """
        if (lent or open_records) and self.writes:
            if lent:
                settle(arrays[0])  # type: ignore[arg-type]
            if open_records:
                refuse_host_writes(self.name, arrays)
        if len(arrays) == 1:  # the common case, without the loops below
            (x,) = arrays
            try:
                run = self.plans[x._layout, *params.values()]  # type: ignore[union-attr]
            except KeyError:
                run = self.plan(arrays, len(scalars), params)
            out = run(x, *scalars) if scalars else run(x)
            differentiable = x._node is not None  # type: ignore[union-attr]
        else:
            try:
                key = [None if x is None else x._layout for x in arrays]
                run = self.plans[*key, *params.values()]
            except KeyError:
                run = self.plan(arrays, len(scalars), params)
            out = run(*arrays, *scalars) if scalars else run(*arrays)
            differentiable = False
            for x in arrays:
                if x is not None and x._node is not None:
                    differentiable = True
                    break
        if differentiable:  # the rule gets run-time scalars as the CPU function does
            tape.record(self, arrays, out, {**params, "scalars": scalars} if scalars else params)
        if open_records:
            report(self, arrays, scalars, params, run, out)
        return out

    def plan(self, arrays: tuple, scalars: int, params: dict) -> Callable:
        """Make and store the function that runs calls of these layouts and parameters."""
        device = same_device(self.name, arrays) if arrays else params["device"]
        if params.get("device", 0).__class__ is int and params.get("device", 0) < TRACED:
            device = params["device"]  # of a draw in a graph, whose cell is on a GPU
        layouts = tuple([None if x is None else x._layout for x in arrays])
        if device == CPU:
            run = cpu_runner(lazy("cpu", self.cpu), params, scalars, layouts)
        elif device == TRACED:
            from .. import tracing

            run = tracing.op(self.name, layouts, params)
        elif device < TRACED:
            run = work.runner(self, layouts, params)
        else:
            run = self._bound_with_gradient(arrays, layouts, params, scalars, device)
        store(self.plans, (*layouts, *params.values()), run)
        return run

    def _bound_with_gradient(
        self, arrays: tuple, layouts: tuple, params: dict, scalars: int, device: int
    ) -> Callable:
        """`bound`; while kernels are compiled, the compiler may begin with those of the gradient,
        if one is recorded."""
        leading = tuple([x is not None and x._node is not None for x in arrays])
        if self.vjp is None or recording.state.paused or not any(leading):
            return self.bound(layouts, params, scalars, device)
        local, before = runtime.local, runtime.local.recorded
        local.recorded = self.name, layouts, params, (1.0,) * scalars, leading
        try:
            return self.bound(layouts, params, scalars, device)
        finally:
            local.recorded = before

    def bound(
        self,
        layouts: tuple,
        params: dict,
        scalars: int,
        device: int,
        outputs: tuple[int, ...] | None = None,
    ) -> Callable:
        """The plan for a GPU, bound: ready to run.

        Parameters
        ----------
        layouts : tuple of Layout or None
            Of the inputs.
        params : dict
            Parameters of the plan.
        scalars : int
            Number of run-time scalars.
        device : int
            The GPU.
        outputs : tuple of int, optional
            The outputs that the caller uses, if not all of them. A planner may have an attribute
            `alone`, a planner whose plans compute no others. Without it the others are computed
            into scratch memory.
        """
        alone = outputs is not None and hasattr(lazy("kernels", self.cuda), "alone")
        plan = call_planner(self.name, self.cuda + ":alone" * alone, layouts, params)
        plan.works = lazy("kernels", "lib.flop_counts.of")(self.name, plan, layouts, params)
        if outputs is not None and not alone:
            plan = plan.only(outputs)
        run = plan.bind(self.name, [x for x in layouts if x is not None], scalars, device)
        return (
            _without_none(run, [x is not None for x in layouts], scalars)
            if None in layouts
            else run
        )

    def bound_once(self, layouts: tuple, params: dict, scalars: int, device: int) -> Callable:
        """`bound`, which is made once for the same arguments: for the layers of a model."""
        key = ("bound", device, scalars, *layouts, *params.items())
        with contextlib.suppress(KeyError, TypeError):  # a parameter may have no hash
            return self.plans[key]
        return store(self.plans, key, self.bound(layouts, params, scalars, device))

    def into(self, arrays: tuple, target: ndarray, **params: Any) -> bool:
        """Write the result into `target`, if possible, and return whether that was done.

        It is possible on a GPU if `target` has the layout of the result and shares no memory with
        the inputs, and if no gradient is recorded. The public function has checked the arrays.
        """
        if open_records and traced():
            return False  # a program writes by ops of its own
        layouts = [x._layout for x in arrays]
        key = ("into", target._layout, *layouts, *params.values())
        try:
            run = self.plans[key]
        except KeyError:
            run = store(self.plans, key, self.bound_into(target._layout, layouts, params))
        if (
            run is None
            or any([x._node is not None or not apart(target, x) for x in arrays])
            or target._node is not None
            or (target._owner.__class__ is ReadOnly)
        ):
            return False
        if open_records:
            obstruct("wrote into out")
        mutation.wrote(target)
        if lent:
            settle(target)
        run(*arrays, target)
        return True

    def bound_into(self, target: Layout, layouts: list[Layout], params: dict) -> Callable | None:
        """`run(*inputs, target)` for a GPU; None if the result has another layout than the
        target."""
        if target.device < 0 or any([x.device != target.device for x in layouts]):
            return None
        plan = call_planner(self.name, self.cuda, tuple(layouts), params)
        if plan.outputs != [target]:
            return None
        plan.works = lazy("kernels", "lib.flop_counts.of")(self.name, plan, layouts, params)
        return plan.into(len(layouts)).bind(self.name, [*layouts, target], 0, target.device)

    def __repr__(self) -> str:
        return f"<Op {self.name}>"


class Composed:
    """An op without a plan: a composition of other functions whose gradient has a rule of its own.

    Parameters
    ----------
    name : str
        The public name.
    function : callable
        `function(*arrays, **params)` -> array. It runs without recording its own gradient.
    vjp : callable or tuple of callables
        The gradient rule, as that of an `Op`.
    broadcasts : bool
        Gradients are summed over the axes along which an input was broadcast.
    """

    several = False

    def __init__(
        self,
        name: str,
        function: Callable,
        vjp: Callable | tuple[Callable, ...],
        broadcasts: bool = False,
    ):
        self.name, self.function, self.vjp, self.broadcasts = name, function, vjp, broadcasts
        out, inputs = tape.uses(vjp)
        self._saves = out, inputs or ()

    def saves(self, count: int) -> tuple[bool, tuple[bool, ...]]:
        """Which values the gradient rule uses: (the output, (input 0, ...))."""
        return self._saves

    def __call__(self, *arrays: ndarray, **params: Any) -> ndarray:
        if any([x._layout.device < TRACED for x in arrays]):
            out = work.composed(self, arrays, params)
            if any([x._node is not None for x in arrays]):
                tape.record(self, arrays, out, params)
            return out
        if not any(x._node is not None for x in arrays):
            return self.function(*arrays, **params)
        if open_records and traced():  # a program sees the ops that this one is made of
            out = self.value(*arrays, **params)
            tape.record(self, arrays, out, params)
            return out
        with unrecorded():
            out = self.value(*arrays, **params)
        tape.record(self, arrays, out, params)
        if open_records:
            report(self, arrays, (), params, functools.partial(self.value, **params), out)
        return out

    def value(self, *arrays: ndarray, **params: Any) -> ndarray:
        """The function's result, without recording its gradient."""
        with recording.paused(), inside():
            return self.function(*[x._alias() for x in arrays], **params)


def apart(target: ndarray, x: ndarray) -> bool:
    """Whether two arrays on a GPU are both contiguous and one lies behind the other in memory. A
    quick test: False does not mean that they overlap."""
    one, other = target._layout, x._layout
    return (
        one.contiguous
        and other.contiguous
        and (x._data + other.nbytes <= target._data or target._data + one.nbytes <= x._data)
    )


def separate_blocks(x: ndarray, y: ndarray) -> bool:
    """Whether two arrays on a GPU lie in different blocks of this package's pool. False for memory
    of other libraries, which may have been imported twice."""
    one, other = x._owner, y._owner
    return one is not other and type(one) in OWN_MEMORY and type(other) in OWN_MEMORY


class ViewOp:
    """An op whose result is a view: it shares its input's memory.

    Parameters
    ----------
    name : str
        The public name.
    fn : callable
        `fn(layout, **params)` -> (layout of the view, byte offset).
    vjp : callable
        The gradient rule, as that of an `Op`.

    Attributes
    ----------
    add_into : callable or None
        `add_into(total, g, **params)` adds the gradient that the rule would return to `total`, in
        place, or returns False. For views of a part: the rule's result is zero outside that part.
    """

    several = False
    broadcasts = False
    add_into: Callable[..., bool] | None = None

    def __init__(self, name: str, fn: Callable[..., tuple[Layout, int]], vjp: Callable):
        self.name, self.fn, self.vjp = name, fn, vjp
        self._saves_output, self._saves_inputs = tape.uses(vjp)
        self._saves: dict[int, tuple[bool, tuple[bool, ...]]] = {}
        self.views: dict[Any, tuple[Layout, int]] = {}
        registry[name] = self

    saves = Op.saves

    def __call__(self, x: ndarray, **params: Any) -> ndarray:
        key = (x._layout, *params.values())
        try:
            layout, offset = self.views[key]
        except (KeyError, TypeError):  # TypeError: an index with slices has no hash
            layout, offset = self.fn(x._layout, **params)
            store(self.views, key, (layout, offset))
        out = x._view(layout, offset)
        if x._node is not None:
            tape.record(self, (x,), out, params)
        if open_records:
            report(self, (x,), (), params, None, out)
        return out
