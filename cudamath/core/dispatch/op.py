"""The op card: name, CPU function, GPU planner, gradient rule; and its call."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from ...runtime import background_init
from ...runtime.memory import Buffer
from ...runtime.state import register_tables
from .. import recording
from ..array import ReadOnly, ndarray
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
from ..layout import Layout
from .call_record import obstruct, open_records, report, unrecorded
from .cpu_run import _without_none, cpu_runner
from .lazy_import import lazy

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

#: Every op card by name (tests/meta/test_completeness.py compares it with records, docs and
#: benchmark rows).
registry: dict[str, Op | ViewOp] = {}


def _tables() -> Iterator[dict]:
    """What the cards remember of calls: it depends on the devices."""
    for card in registry.values():
        for name in ("plans", "known"):
            if hasattr(card, name):
                yield getattr(card, name)


register_tables(_tables)


# What nearly every program on a GPU needs next, and what the first steps of a network do.
background_init.items.extend(
    [
        background_init.cublas,
        *[
            functools.partial(importlib.import_module, f"cudamath.kernels.{family}.dispatch")
            for family in ("matmul", "reduce", "softmax", "conv")
        ],
        background_init.cudnn,
    ]
)


class Op:
    """An operation on arrays.

    Parameters
    ----------
    name : str
        The public name; errors start with it.
    cpu : str
        "file.function" below `cudamath.cpu`: takes NumPy arrays and the parameters, returns NumPy
        array(s).
    cuda : str
        "file.planner" below `cudamath.kernels`: takes layouts and the parameters, returns a Plan.
    vjp : callable, optional
        `rule(g, y, *inputs, **params)` -> one gradient (or None) per input. Arguments whose names
        begin with "_" are not kept and arrive as None. None: results are constants.
    outputs : int
        1: the op returns an array; more: a tuple, and `g` and `y` of the rule are tuples.
    broadcasts : bool
        Gradients are summed over axes along which an input was broadcast.
    adds : bool
        The rule of an op with several outputs takes a gradient that two users gave as the two (see
        `backward.terms`).
    writes : bool
        The op writes into its first input.
    """

    def __init__(
        self,
        name: str,
        *,
        cpu: str,
        cuda: str,
        vjp: Callable | tuple[Callable, ...] | None = None,
        outputs: int = 1,
        broadcasts: bool = False,
        adds: bool = False,
        writes: bool = False,
    ):
        self.name, self.cpu, self.cuda, self.vjp, self.adds = name, cpu, cuda, vjp, adds
        self.several = outputs > 1
        self.broadcasts = broadcasts
        self._saves_output, self._saves_inputs = tape.uses(vjp)
        self._saves: dict[int, tuple[bool, tuple[bool, ...]]] = {}
        self.plans: dict[Any, Callable] = {}
        registry[name] = self

    def saves(self, count: int) -> tuple[bool, tuple[bool, ...]]:
        """What the gradient rule uses: (output?, (input 0?, ...))."""
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
        """The op on arrays that its public function has checked."""
        if len(arrays) == 1:  # the common case, without the loops below
            (x,) = arrays
            try:
                run = self.plans[x._layout, *params.values()]  # type: ignore[union-attr]
            except KeyError:
                run = self.plan(arrays, len(scalars), params)
            out = run(x, *scalars) if scalars else run(x)
            leads = x._node is not None  # type: ignore[union-attr]
        else:
            try:
                key = [None if x is None else x._layout for x in arrays]
                run = self.plans[*key, *params.values()]
            except KeyError:
                run = self.plan(arrays, len(scalars), params)
            out = run(*arrays, *scalars) if scalars else run(*arrays)
            leads = False
            for x in arrays:
                if x is not None and x._node is not None:
                    leads = True
                    break
        if leads:  # rules of ops with run-time scalars get them, like the CPU function
            tape.record(self, arrays, out, {**params, "scalars": scalars} if scalars else params)
        if open_records:
            report(self, arrays, scalars, params, run, out)
        return out

    def plan(self, arrays: tuple, scalars: int, params: dict) -> Callable:
        """Make, remember and return the function that runs this call: the slow part, once per
        layouts."""
        device = same_device(self.name, arrays) if arrays else params["device"]
        layouts = tuple([None if x is None else x._layout for x in arrays])
        if device == CPU:
            run = cpu_runner(lazy("cpu", self.cpu), params, scalars, layouts)
        elif device == TRACED:
            from .. import tracing

            run = tracing.op(self.name, layouts, params)
        else:
            run = self.bound(layouts, params, scalars, device)
        store(self.plans, (*layouts, *params.values()), run)
        return run

    def bound(
        self,
        layouts: tuple,
        params: dict,
        scalars: int,
        device: int,
        outputs: tuple[int, ...] | None = None,
    ) -> Callable:
        """The plan for a GPU, ready to run. wanted: the outputs that the caller uses, if not all of
        them. For that case a planner may have an attribute `alone`, a planner whose plans compute
        nothing else; without it the other outputs are computed too, into scratch."""
        planner = lazy("kernels", self.cuda)
        alone = None if outputs is None else getattr(planner, "alone", None)
        plan = (alone or planner)(*layouts, **params)
        plan.works = lazy("kernels", "lib.flop_counts.of")(self.name, plan, layouts, params)
        if outputs is not None and alone is None:
            plan = plan.only(outputs)
        run = plan.bind(self.name, [x for x in layouts if x is not None], scalars, device)
        return (
            _without_none(run, [x is not None for x in layouts], scalars)
            if None in layouts
            else run
        )

    def into(self, arrays: tuple, target: ndarray, **params: Any) -> bool:
        """Whether the op, on arrays that its public function has checked, could write its result
        into `target` itself: on a GPU, if that has the layout the result has, is memory apart from
        the inputs', and no gradient is recorded. Nothing is done otherwise."""
        key = ("into", target._layout, *[x._layout for x in arrays], *params.values())
        run: Any = self.plans.get(key, self)
        if run is self:
            if target._layout.device < 0 or any(
                [x._layout.device != target._layout.device for x in arrays]
            ):
                return False
            plan, layouts = (
                lazy("kernels", self.cuda)(*key[2 : 2 + len(arrays)], **params),
                list(key[2 : 2 + len(arrays)]),
            )
            run = None
            if plan.outputs == [target._layout]:
                plan.works = lazy("kernels", "lib.flop_counts.of")(self.name, plan, layouts, params)
                run = plan.into(len(arrays)).bind(
                    self.name, [*layouts, target._layout], 0, target._layout.device
                )
            store(self.plans, key, run)
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
        run(*arrays, target)
        return True

    def __repr__(self) -> str:
        return f"<Op {self.name}>"


class Composed:
    """A card that needs no plan: its value is made of other functions, unrecorded; its gradient is
    a rule of its own."""

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
        """What the gradient rule uses: (output?, (input 0?, ...))."""
        return self._saves

    def __call__(self, *arrays: ndarray, **params: Any) -> ndarray:
        if not any(x._node is not None for x in arrays):
            return self.function(*arrays, **params)
        with unrecorded():
            out = self.value(*arrays, **params)
        tape.record(self, arrays, out, params)
        if open_records:
            report(self, arrays, (), params, functools.partial(self.value, **params), out)
        return out

    def value(self, *arrays: ndarray, **params: Any) -> ndarray:
        """The function, of which no gradient is recorded."""
        with recording.paused():
            return self.function(*[x._alias() for x in arrays], **params)


def apart(target: ndarray, x: ndarray) -> bool:
    """Whether two arrays on a GPU are seen at once to share no memory: both contiguous, one behind
    the other."""
    one, other = target._layout, x._layout
    return (
        one.contiguous
        and other.contiguous
        and (x._data + other.nbytes <= target._data or target._data + one.nbytes <= x._data)
    )


def two_blocks(x: ndarray, y: ndarray) -> bool:
    """Whether two arrays on a GPU lie in two blocks of our own memory. Of what was imported, twice
    perhaps, nobody knows."""
    return type(x._owner) is type(y._owner) is Buffer and x._owner is not y._owner


class ViewOp:
    """An op whose result shares its input's memory: `fn(layout, **params) -> (layout, byte
    offset)`.

    add_into, if there is one: `add_into(total, g, **params)` adds to `total`, in place, what the
    gradient rule would make of g, or returns False. For views of a part, where the rule's result is
    zero elsewhere.
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
