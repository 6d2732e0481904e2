"""Elementwise ops: the card of one, and its call.

A card holds a NumPy ufunc (which is also the dtype rule: what NumPy would return is what we
return), the scalar expression the GPU kernel is generated from, and a gradient expression per
input. Gradient expressions are Python on `g` (gradient of the result), `out` (the result), `x`,
`y`, `z` (the inputs).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import batched, cpu_pool, dtypes, shapes
from ..core.array import ReadOnly, ndarray, wrap
from ..core.asarray import asarray, same_device
from ..core.autograd import mutation, tape
from ..core.bounded_cache import store
from ..core.devices import CPU, TRACED, default_index
from ..core.dispatch.call_record import obstruct, open_records, report, traced
from ..core.dispatch.checks import coerce
from ..core.dispatch.cpu_codegen import either, straight, straight_inplace
from ..core.dispatch.lazy_import import lazy
from ..core.dispatch.op import Category, apart, registry
from ..core.dispatch.planner_calls import call_planner
from ..core.dtypes import bfloat16, float16
from ..core.elements import lent, settle
from ..core.fp_errors import quiet
from ..core.layout import Layout
from ..core.recording import state
from ..core.scalar import NUMPY_SCALARS, inside, is_outermost, result_of, to_user
from ..core.typing import ArrayLike, DTypeLike  # noqa: F401
from ..runtime.errors import of_host, shown_as
from ..runtime.memory import Buffer
from .out_argument import can_write

SCALARS = (bool, int, float, complex)
#: Classes of operands that are passed by value: Python's numbers, which adapt to the dtypes of the
#: arrays beside them, and NumPy's, which have a dtype.
NUMBERS = NUMPY_SCALARS.union(SCALARS)
_SAME_KIND = "same_kind"
_NAMES = ("x", "y", "z", "x3")
#: The operations of cpu/lib/llvm_loops.py and the kinds of dtypes they are for.
_LOOPS = {
    **dict.fromkeys(
        [
            "add",
            "multiply",
            "equal",
            "not_equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
            "maximum",
            "minimum",
        ],
        "fiub",
    ),
    **dict.fromkeys(["subtract", "negative", "positive", "square"], "fiu"),
    **dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"], "iub"),
    "abs": "fi",
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor", "logical_not"], "b"),
    **dict.fromkeys(
        [
            "divide",
            "copysign",
            "reciprocal",
            "sqrt",
            "floor",
            "ceil",
            "trunc",
            "rint",
            "isnan",
            "isinf",
            "isfinite",
        ],
        "f",
    ),
}
#: Makers of plans in machine code, by the number of operands: see methods.py.
_runs: dict[int, Callable] = {}
LOGICAL = (np.logical_and, np.logical_or, np.logical_xor)
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


@functools.cache
def resolve(name: str, ufunc: np.ufunc, common: np.dtype) -> tuple[np.dtype, np.dtype]:
    """(compute dtype, result dtype) of a ufunc on operands of one dtype, as NumPy has it; bfloat16
    goes as float16."""
    seen = float16 if common == bfloat16 else common
    try:
        *inputs, result = ufunc.resolve_dtypes((*(seen,) * ufunc.nin, None))
    except TypeError:
        raise TypeError(f"{name}: not defined for dtype {common}") from None
    compute = inputs[0]
    if (
        result == np.bool_ and common in dtypes.INTEGER_OR_BOOL
    ):  # a question that whole numbers need not become floats for
        compute = common
    if common == bfloat16:
        compute, result = (bfloat16 if d == float16 else d for d in (compute, result))
    if common in dtypes.INTEGER_OR_BOOL and compute in dtypes.FLOATING and compute == np.float64:
        compute = dtypes.default_float()
        result = compute if result == np.float64 else result
    return compute, result


dtypes.forget.append(resolve.cache_clear)


def rule(expression: str, count: int, namespace: Mapping[str, Any]) -> Callable:
    """A gradient expression as a function (g, out, *inputs); names it does not use get a leading
    underscore.

    An expression says g times the derivative. For complex numbers g times its conjugate is wanted:
    the same with g conjugated on the way in and out.
    """
    names = compile(expression, "<gradient>", "eval").co_names
    parameters = ["g", *(n if n in names else f"_{n}" for n in ("out", *_NAMES[:count]))]
    source = f"lambda {', '.join(parameters)}: {expression}"
    code = compile(source, "<cudamath gradient>", "eval")  # a name that is no line of the user's
    real = eval(code, namespace)  # type: ignore[arg-type]

    @functools.wraps(real)
    def gradient(g: ndarray, *rest: Any) -> Any:
        if g._layout.dtype.kind != "c":
            return real(g, *rest)
        conj = registry["conj"]  # made in elementwise.py, of this file's classes
        y = real(conj(g), *rest)
        return y if y is None or y._layout.dtype.kind != "c" else conj(y)

    return gradient


class Elementwise:
    """The card of an elementwise op.

    Parameters
    ----------
    name : public name
    ufunc : NumPy ufunc (or a stand-in with the same dtype rule, when `cpu` is given)
    expression : scalar expression, or a dict from a dtype's name or kind ("b", "i", "u", "f", "c")
    to one; "" is the default
    grad : gradient expressions, one an input; None where the result is constant
    category : dtypes allowed
    cpu : "file.function" below cudamath.cpu, when NumPy has no such function; or a dict from dtype
    kind to one
    nin : number of operands, if gradients and ufunc do not tell
    """

    several = False
    cuda = "elementwise.dispatch.elementwise"  # the planner
    broadcasts = True

    if TYPE_CHECKING:  # installed by ops/ufunc_options.py

        def call_with(
            self,
            operands: tuple,
            out: Any,
            where: Any,
            dtype: Any = None,
            casting: Any = ...,
            **options: Any,
        ) -> ndarray: ...
        def _choose(self, where: Any, x: Any, y: Any) -> ndarray: ...
        def _in_dtype(self, operands: tuple, dtype: Any, casting: Any, signature: Any) -> tuple: ...

    def __init__(
        self,
        name: str,
        ufunc: np.ufunc,
        expression: str | dict[str, str],
        grad: tuple[str, ...] | None,
        category: Category,
        cpu: str | dict[str, str] | None,
        namespace: Mapping[str, Any],
        nin: int | None = None,
    ):
        self.name, self.ufunc, self.grad, self.category, self.cpu = name, ufunc, grad, category, cpu
        self.nin = nin or (3 if grad is not None and len(grad) == 3 else ufunc.nin)
        self.expressions = expression if isinstance(expression, dict) else {"": expression}
        self.namespace = namespace
        self.compares = ufunc in _COMPARISONS
        self.plans: dict[Any, Callable] = {}
        # keys of the plans that are NumPy's ufunc alone: see methods.py
        self.direct: dict[Any, bool] = {}
        dtypes.forget += [self.plans.clear, self.direct.clear]
        registry[name] = self  # type: ignore[assignment]

    @functools.cached_property
    def vjp(self) -> tuple[Callable, ...] | None:
        """Gradient rules, one an input."""
        return (
            None
            if self.grad is None
            else tuple(rule(e, len(self.grad), self.namespace) for e in self.grad)
        )

    @functools.cached_property
    def _saves(self) -> tuple[bool, tuple[bool, ...]]:
        out, inputs = tape.uses(self.vjp)
        return out, inputs or ()

    def saves(self, count: int) -> tuple[bool, tuple[bool, ...]]:
        """What the gradient rules use: (output?, (input 0?, ...))."""
        return self._saves

    def expression(self, dtype: np.dtype) -> str:
        """The scalar expression for a compute dtype."""
        kind = "f" if dtype == bfloat16 else dtype.kind
        return self.expressions.get(
            dtype.name, self.expressions.get(kind, self.expressions.get("", ""))
        )

    def __call__(self, *operands: Any) -> ndarray:
        """The op on arrays and Python scalars, looked up where it ran on such layouts before."""
        try:
            run = self.plans[
                tuple([x._layout if isinstance(x, ndarray) else type(x) for x in operands])
            ]
        except KeyError:
            return self.call(operands)
        if open_records:
            run = getattr(run, "array_plan", run)
        out = run(*operands)
        if self.grad is not None and any(
            [isinstance(x, ndarray) and x._node is not None for x in operands]
        ):
            tape.record(self, operands, out, {})
        if open_records:
            report(self, operands, (), {}, run, out)
            return to_user(out, operands)
        return out

    # -------------------- the slow path: once per combination of layouts

    def call(self, operands: tuple, target: ndarray | None = None) -> ndarray:
        """The op on any operands: ndarrays, array-likes and Python scalars. With `target`, written
        into operand 0."""
        scalars = tuple([type(x) in NUMBERS for x in operands])
        owner = _computes_itself(operands)
        if owner is not None and target is None:
            result = owner.__array_ufunc__(self.ufunc, "__call__", *operands)
            if result is not NotImplemented:
                return result
        if all(scalars):
            if not NUMPY_SCALARS.isdisjoint(map(type, operands)):
                return self._of_numbers(operands)
            if default_index() == CPU and not open_records:
                return self._of_python_numbers(operands)
            operands, scalars = tuple(coerce(self.name, operands)), (False,) * len(operands)
        arrays = coerce(
            self.name, tuple([x for x, s in zip(operands, scalars, strict=True) if not s])
        )
        seen = iter(arrays)
        operands = tuple([x if s else next(seen) for x, s in zip(operands, scalars, strict=True)])
        if target is not None and target._layout.device != CPU:
            operands = (target, *[_apart(target, x) for x in operands[1:]])
        key = (
            *[type(x) if s else x._layout for x, s in zip(operands, scalars, strict=True)],
            target is not None,
        )
        known = self.plans.get(key)
        plan = known
        if plan is None:
            plan = self.plan(operands, scalars, target is not None)
            if target is None and not any([x._layout.ndim for x in arrays]):
                plan = _scalar_plan(plan)
        if target is not None and lent:
            settle(target)
        run = getattr(plan, "array_plan", plan) if open_records else plan
        try:
            out = run(*operands)
        except MemoryError as error:
            raise of_host(error) from error.__cause__
        if known is None:  # a plan that had no memory comes here again, where errors get a name
            self._remember(key, plan)
        if target is not None:
            if open_records:
                report(self, operands, (), {}, run, target, writes=True)
                obstruct("wrote in place")
            return target
        if self.grad is not None and any([x._node is not None for x in arrays]):
            tape.record(self, operands, out, {})
        if open_records:
            report(self, operands, (), {}, run, out)
            return to_user(out, operands)
        return out

    def _remember(self, key: tuple, plan: Any) -> None:
        """Put a plan where calls look it up: under its whole key, whose last member says whether it
        writes in place, and where it does not, under what the fast paths look up: the layouts, of
        two arrays of one layout that alone."""
        *operands, writes = key
        short = key if writes else tuple(operands) if self.nin > 1 else key[0]
        equal = not writes and self.nin == 2 and key[0] is key[1]
        store(self.plans, key, plan)
        self.plans[short] = plan
        if equal:
            self.plans[key[0]] = plan
        if hasattr(plan, "direct"):
            store(self.direct, short, True)
            if not writes:
                self._compile(tuple(operands), short)
            if equal:
                self.direct[key[0]] = True

    def _compile(self, *keys: Any) -> None:
        """Put machine code in the place of a plan that is a ufunc alone."""
        for key in keys:
            run: Any = self.plans.get(key)
            if hasattr(run, "direct") and self.nin in _runs:
                self.plans[key] = _runs[self.nin]((run.direct, run))

    def _of_numbers(self, operands: tuple) -> Any:
        """The op on numbers alone, of which at least one is NumPy's: NumPy's scalar. They are on
        the CPU, whatever the default device is."""
        key = tuple([type(x) for x in operands])
        if len(key) == 1:
            (key,) = key  # type: ignore[assignment]
        run = self.plans.get(key)
        if run is None:
            run = store(self.plans, key, self._plan_numbers(operands))
            self._compile(key)
        out = run(*operands)
        return wrap(np.asarray(out)) if not is_outermost() else out

    def _of_python_numbers(self, operands: tuple) -> Any:
        """The op on Python's numbers alone, where the CPU is the default device: on the numbers of
        NumPy of which it would make arrays."""
        numbers = tuple([asarray(x, name=self.name)._data[()] for x in operands])
        out = self._of_numbers(numbers)
        kind = type(numbers[0])
        plan = self.plans.get(kind)  # None where another thread has emptied the table meanwhile
        if len(numbers) == 1 and operands[0].__class__ is float and plan is not None:

            def run(x: float) -> Any:
                if default_index() == CPU and not state.inside:
                    return plan(kind(x))
                return self.call((x,))

            self.plans[float] = run
        return out

    def _plan_numbers(self, operands: tuple) -> Callable:
        """`run(*operands)` for numbers of these classes."""
        weak = tuple([type(x) in SCALARS for x in operands])
        arrays = [x if w else wrap(np.asarray(x)) for x, w in zip(operands, weak, strict=True)]
        common = self.common(tuple(arrays))
        if common in self.category and self.cpu is None and self.ufunc not in LOGICAL:
            compute, result = self.resolved(tuple(arrays), common)
            if int not in map(type, operands) and self._native(
                tuple(arrays), weak, compute, result
            ):
                return _on_numbers(self.ufunc, len(operands))
        plan = self.plan(tuple(arrays), weak, False)

        def run(*numbers: Any) -> Any:
            out = plan(
                *[x if w else wrap(np.asarray(x)) for x, w in zip(numbers, weak, strict=True)]
            )
            return out._data[()]

        return run

    def into(self, operands: tuple, target: ndarray) -> bool:
        """Whether the kernel could write the result into `target` itself: on a GPU, if that has the
        layout the result would have, and no gradient is recorded. Nothing is done otherwise."""
        if (
            len(operands) == 2
            and isinstance(operands[0], ndarray)
            and isinstance(operands[1], ndarray)
        ):  # seen before
            x, y = operands
            owner, one, other = target._owner, x._owner, y._owner
            if (
                x._node is y._node is target._node is None
                and one is not owner
                and other is not owner
                and (owner.__class__ is one.__class__ is other.__class__ is Buffer)
            ):
                known = self.plans.get(("into", target._layout, x._layout, y._layout))
                if known is not None and not open_records:
                    if mutation.holders:
                        mutation.wrote(target)
                    if lent:
                        settle(target)
                    known(x, y, target)
                    return True
        if open_records and traced():
            return False  # a program writes by ops of its own
        key: list = ["into", target._layout]
        owner, separate = (
            target._owner,
            type(target._owner) is Buffer,
        )  # arrays of two buffers of ours share no memory
        for x in operands:
            if isinstance(x, ndarray):
                if x._node is not None:
                    return False
                key.append(x._layout)
                separate = separate and x._owner is not owner and x._owner.__class__ is Buffer
            else:
                key.append(x.__class__)
        run: Any = self.plans.get(tuple(key), self)
        if run is self:
            run = self._plan_into(operands, target)
            store(self.plans, tuple(key), run)
        if run is None or target._node is not None or owner.__class__ is ReadOnly:
            return False
        if not separate and any([_apart(target, x) is not x for x in operands]):
            return False  # a copy may have another layout than the plan knows
        if open_records:
            obstruct("wrote into out")
        if mutation.holders:
            mutation.wrote(target)
        if lent:
            settle(target)
        run(*operands, target)
        return True

    def _plan_into(self, operands: tuple, target: ndarray) -> Callable | None:
        """`run(*operands, target)`; None where the usual way must do, or finds what is wrong."""
        scalars = tuple([type(x) in NUMBERS for x in operands])
        arrays = [x for x, s in zip(operands, scalars, strict=True) if not s]
        device = target._layout.device
        if (
            device < 0
            or not arrays
            or any([not isinstance(x, ndarray) or x._layout.device != device for x in arrays])
        ):
            return None
        common = self.common(operands)
        if (
            common not in self.category
            or any(scalars)
            and (common in dtypes.INTEGER or self.ufunc in LOGICAL)
        ):  # see `plan`
            return None
        compute, result = self.resolved(operands, common)
        return self._cuda(
            (*operands, target),
            (*scalars, False),
            common,
            compute,
            result,
            False,
            device,
            into=True,
        )

    def common(self, operands: tuple) -> np.dtype:
        """The dtype that the operands are promoted to."""
        return dtypes.result_type(*operands)

    def resolved(self, operands: tuple, common: np.dtype) -> tuple[np.dtype, np.dtype]:
        """(compute dtype, result dtype). What has no loop for whole numbers looks for the float of
        each dtype, as in NumPy: int8 and uint8 meet in float16, which holds either, though they are
        promoted to int16, whose float is float32."""
        compute, result = resolve(self.name, self.ufunc, common)
        strong = [x for x in operands if type(x) not in SCALARS]
        if len(strong) > 1 and common in dtypes.INTEGER and compute in dtypes.FLOATING:
            each = [resolve(self.name, self.ufunc, x.dtype) for x in strong]
            compute, result = (
                functools.reduce(dtypes.promote, kinds) for kinds in zip(*each, strict=True)
            )
        return compute, result

    def plan(self, operands: tuple, scalars: tuple[bool, ...], inplace: bool) -> Callable:
        """`run(*operands)` for these layouts and kinds of scalars."""
        if self.ufunc in LOGICAL and any(
            [s and type(x) is not bool for x, s in zip(operands, scalars, strict=True)]
        ):

            def judged(
                *given: Any,
            ) -> ndarray:  # before it is rounded: 1e-300 is not 0, and 300 need not be a uint8
                truths = tuple([bool(x) if s else x for x, s in zip(given, scalars, strict=True)])
                with inside():  # who calls this makes scalars for the user
                    return self.call(truths, given[0] if inplace else None)

            return judged
        arrays = [x for x, s in zip(operands, scalars, strict=True) if not s]
        common = self.common(operands)
        if common not in self.category:
            raise TypeError(
                f"{self.name}: wants {self.category.name} arrays, got "
                + " and ".join(
                    type(x).__name__ if s else f"{x.dtype} of shape {x.shape}"
                    for x, s in zip(operands, scalars, strict=True)
                )
            )
        shape = shapes.broadcast_shapes(self.name, *[x.shape for x in arrays])
        compute, result = self.resolved(operands, common)
        if inplace:
            first = operands[0]
            if not can_write(result, first.dtype):
                raise TypeError(
                    f"{self.name}: a result of dtype {result} cannot be written into an array of "
                    "dtype "
                    f"{first.dtype}"
                )
            if shape != first.shape:
                raise ValueError(
                    f"{self.name}: the result of shape {shape} cannot be written into an array of "
                    "shape "
                    f"{first.shape}"
                )
            result = first.dtype
        device = same_device(self.name, arrays)
        if inplace and shapes.overlaps_itself(first.shape, first.strides, first.itemsize):
            raise ValueError(
                f"{self.name}: elements of the array of shape {shape} share memory (a broadcast "
                "view); "
                "copy it before changing it in place"
            )
        if device == CPU:
            return self._cpu(operands, scalars, common, compute, result, inplace)
        if device < TRACED:
            return batched.elementwise(self, operands, inplace)
        return self._cuda(operands, scalars, common, compute, result, inplace, device)

    def _cpu(
        self,
        operands: tuple,
        scalars: tuple[bool, ...],
        common: np.dtype,
        compute: np.dtype,
        result: np.dtype,
        inplace: bool,
    ) -> Callable:
        """`run` for NumPy arrays: the ufunc itself wherever its dtype rule is ours."""
        path = (
            self.cpu.get("f" if compute == bfloat16 else compute.kind)
            if isinstance(self.cpu, dict)
            else self.cpu
        )
        function: Callable = self.ufunc if path is None else lazy("cpu", path)
        native = path is None and self._native(operands, scalars, compute, result)
        arrays = [x for x, s in zip(operands, scalars, strict=True) if not s]
        may_raise = common in dtypes.INTEGER and self.ufunc is np.power
        any_number = (
            self.compares and common in dtypes.INTEGER and any(scalars)
        )  # any at all: the answer is known
        if (
            native
            and inplace
            and not (may_raise or any_number)
            and scalars in ((False, False), (False, True))
        ):
            run_inplace = straight_inplace(self.name, function, scalars[1], compute)
            if isinstance(function, np.ufunc) and self.nin == 2:
                run_inplace.direct = function  # type: ignore[attr-defined]
            return run_inplace
        if (
            native
            and not (inplace or may_raise)
            and len(scalars) < 3
            and any([x.ndim for x in arrays])
        ):
            shape = shapes.broadcast_shapes(self.name, *[x.shape for x in arrays])
            ours = (
                cpu_pool.large(shape, result)
                and all([x.is_contiguous for x in arrays])
                and isinstance(function, np.ufunc)
            )
            out = Layout.new(shape, result, CPU)
            loops = (
                compute.kind in _LOOPS.get(self.name, "")
                and compute != float16
                and all([x.shape == shape and x.dtype == compute for x in arrays])
            )
            run_straight = straight(
                self.name,
                function,
                scalars,
                compute,
                out if ours else None,
                functools.partial(self._loop, compute, scalars) if loops else None,
            )
            direct_run: Any = either(run_straight, function) if any_number else run_straight
            if not ours and isinstance(function, np.ufunc):
                direct_run.direct = function
            return direct_run
        wide = compute if path is None else dtypes.compute_dtype(compute)
        # NumPy 2.4's negative reads other elements where its result goes to every fourth or eighth
        # place
        direct = native and (self.ufunc is not np.negative or operands[0]._layout.contiguous)
        if (
            hasattr(function, "into")
            and not inplace
            and all([x.is_contiguous and x.dtype == wide == result for x in arrays])
        ):
            shape = shapes.broadcast_shapes(self.name, *[x.shape for x in arrays])
            if cpu_pool.large(shape, result):
                return straight(
                    self.name, function.into, scalars, compute, Layout.new(shape, result, CPU)
                )

        def run(*operands: Any) -> ndarray:
            if native:
                data = [x if s else x._data for x, s in zip(operands, scalars, strict=True)]
            else:
                data = [
                    np.asarray(x, common) if s else x._data
                    for x, s in zip(operands, scalars, strict=True)
                ]
                data = [d if d.dtype == wide else _converted(d, wide) for d in data]
            if inplace:
                target = operands[0]._data
                if direct:
                    function(*data, out=target, casting="same_kind")
                else:
                    np.copyto(target, function(*data), casting="unsafe")
                return operands[0]
            return wrap(np.asarray(function(*data), result))

        def silent(*operands: Any) -> ndarray:
            try:
                return quiet().run(run, *operands)
            except (
                OverflowError,
                ValueError,
            ) as error:  # a Python integer too large; a read-only target
                raise type(error)(f"{self.name}: {error}") from None

        if direct and not inplace and isinstance(function, np.ufunc) and not may_raise:
            silent.ufunc = function  # type: ignore[attr-defined]
        return silent

    def _loop(self, dtype: np.dtype, scalars: tuple[bool, ...]) -> Callable:
        return lazy("cpu", "lib.llvm_loops.loop")(self.name, dtype, scalars)

    def _native(
        self, operands: tuple, scalars: tuple[bool, ...], compute: np.dtype, result: np.dtype
    ) -> bool:
        """Whether the ufunc, left alone with these operands, computes and returns in our dtypes."""
        kinds = [type(x) if type(x) in SCALARS else x.dtype for x in operands]
        if (
            any([k is bool for k in kinds]) or any(scalars) and bfloat16 in kinds
        ):  # no weak type of NumPy's
            return False
        try:
            *inputs, output = self.ufunc.resolve_dtypes((*kinds, None))
        except TypeError:
            return False
        return output == result and (self.compares or all(d == compute for d in inputs))

    def _cuda(
        self,
        operands: tuple,
        scalars: tuple[bool, ...],
        common: np.dtype,
        compute: np.dtype,
        result: np.dtype,
        inplace: bool,
        device: int,
        into: bool = False,
    ) -> Any:
        """`run` for a GPU. into: the last of the operands is where the result goes; None where its
        layout is another."""
        from ..core.asarray import upload

        by_value = dtypes.compute_dtype(compute)
        boxed = (
            by_value == np.bool_ or by_value in dtypes.COMPLEX and device == TRACED
        )  # such scalars travel as 0-d arrays
        kinds: list[Any] = []
        for x, s in zip(operands, scalars, strict=True):
            kinds.append(
                Layout.new((), by_value, device) if s and boxed else by_value if s else x._layout
            )
        plan = call_planner(
            self.name,
            self.cuda,
            tuple(kinds[:-1] if into else kinds),
            {
                "expression": self.expression(compute),
                "compute": compute,
                "output": result,
                "inplace": inplace,
            },
        )
        if into:
            if plan.outputs[0] is not kinds[-1]:
                return None
            plan = plan.into(sum(isinstance(k, Layout) for k in kinds) - 1)
        bound = plan.bind(
            self.name,
            [k for k in kinds if isinstance(k, Layout)],
            sum(not isinstance(k, Layout) for k in kinds),
            device,
        )
        if not any(scalars):
            return bound
        if boxed:
            return lambda *operands: bound(
                *[
                    upload(np.asarray(x, by_value), device) if s else x
                    for x, s in zip(operands, scalars, strict=True)
                ]
            )
        limits = (
            np.iinfo(common) if common in dtypes.INTEGER and by_value in dtypes.INTEGER else None
        )
        own = common if common in dtypes.FLOATING else compute
        if (
            own != by_value and own in dtypes.FLOATING
        ):  # a scalar is rounded to 16 bits first, like any element
            plain, bound = (
                bound,
                lambda *values: plain(
                    *[x if isinstance(x, ndarray) else float(own.type(x)) for x in values]
                ),
            )
        order = sorted(
            range(len(scalars)), key=scalars.__getitem__
        )  # arrays first, then the values
        if limits is None and order == list(
            range(len(scalars))
        ):  # `x * 2.0`: already in the order of the bound plan
            return bound

        def run(*operands: Any) -> ndarray:
            if limits is not None:
                for value, s in zip(operands, scalars, strict=True):
                    if s and not limits.min <= value <= limits.max:
                        if self.compares:  # the answer is the same for every number of this dtype
                            return self._constant(operands, scalars, common)
                        raise OverflowError(
                            f"{self.name}: Python integer {value} out of bounds for {common}"
                        )
            return bound(*[operands[i] for i in order])

        return run

    def _constant(self, operands: tuple, scalars: tuple[bool, ...], common: np.dtype) -> ndarray:
        """A comparison with a Python integer that the array's dtype cannot hold."""
        from .creation import full

        answer = self.ufunc(
            *[x if s else common.type(0) for x, s in zip(operands, scalars, strict=True)]
        )
        array = operands[scalars.index(False)]
        return full(array.shape, bool(answer), device=array.device)

    def __repr__(self) -> str:
        return f"<Elementwise {self.name}>"


def use_runs(runs: dict[int, Callable]) -> None:
    """Use machine code for plans that are a ufunc alone, those in use included."""
    _runs.update(runs)
    for card in list(registry.values()):
        if isinstance(card, Elementwise):
            card._compile(*[key for key in card.plans if not _in_place(key)])


def _in_place(key: Any) -> bool:
    """Whether a key of plans belongs to an operation in place."""
    return type(key) is tuple and key[-1] is True


def _on_numbers(ufunc: np.ufunc, count: int) -> Callable:
    """A ufunc on NumPy's scalars, without warnings."""
    enter = quiet().run

    def of_one(x: Any) -> Any:
        try:
            return enter(ufunc, x)
        except RuntimeError:  # another thread is in this context
            return quiet().run(ufunc, x)

    def of_several(*numbers: Any) -> Any:
        try:
            return enter(ufunc, *numbers)
        except RuntimeError:
            return quiet().run(ufunc, *numbers)

    run: Any = of_one if count == 1 else of_several
    run.direct = ufunc
    return run


def _scalar_plan(plan: Callable) -> Callable:
    """A plan whose results have no dimensions, with scalars as results for the user."""

    def general(*operands: Any) -> Any:
        out = plan(*operands)
        return out if state.inside else result_of(out, operands)

    def of_two(x: Any, y: Any) -> Any:
        if state.inside:
            return plan(x, y)
        if x.__class__ is ndarray and x._node is None:
            x = x._data
        if y.__class__ is ndarray and y._node is None:
            y = y._data
        if isinstance(x, ndarray) or isinstance(y, ndarray):  # recorded, or of the array API
            return general(*[wrap(z) if z.__class__ is np.ndarray else z for z in (x, y)])
        return numbers(x, y)

    run: Any = general
    if hasattr(plan, "ufunc") and plan.ufunc.nin == 2:  # NumPy's alone: of its numbers, a number
        numbers, run = _on_numbers(plan.ufunc, 2), of_two
    run.array_plan = plan
    return run


def _converted(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The numbers in another dtype, repeated along the axes along which they were: these say
    nothing of the order of the result in memory."""
    if 0 not in data.strides:
        return data.astype(dtype)
    once = data[tuple([slice(None) if step else slice(0, 1) for step in data.strides])]
    return np.broadcast_to(once.astype(dtype), data.shape)


_HOST = np.ndarray, np.generic, list, tuple, *SCALARS


def _computes_itself(operands: tuple) -> Any:
    """The first operand of another library that takes NumPy's ufuncs (pandas, xarray, dask): it
    keeps what belongs to its numbers, such as an index. None if there is none."""
    for x in operands:
        if isinstance(x, ndarray) or isinstance(x, _HOST):
            continue
        hook = getattr(type(x), "__array_ufunc__", None)
        if hook is not None and not hasattr(x, "__dlpack__"):
            return x
    return None


def _apart(target: ndarray, x: Any) -> Any:
    """An operand of an in-place op on a GPU; copied if it reaches into the target's memory other
    than as the target."""
    if not isinstance(x, ndarray) or (x._data == target._data and x._layout is target._layout):
        return x
    if apart(target, x):
        return x
    described = [(a._data, a.shape, a.strides, a.itemsize) for a in (target, x)]
    return x.copy() if shapes.may_overlap(*described) else x


# -------------------- public functions from cards


def unary(
    name: str,
    ufunc: np.ufunc,
    expression: str | dict[str, str],
    grad: str | None = None,
    *,
    category: Category = dtypes.NUMERIC,
    cpu: str | dict[str, str] | None = None,
    doc: str,
    formula: str = "",
    example: str = "[0.25, 0.5]",
    namespace: Mapping[str, Any],
    kind: type[Elementwise] = Elementwise,
) -> Callable[..., ndarray]:
    """The public function of a one-input card."""
    card = kind(
        name, ufunc, expression, None if grad is None else (grad,), category, cpu, namespace
    )
    plans, record = card.plans, tape.record

    def function(x: Any, /, out: Any = None, *, where: Any = True, **options: Any) -> ndarray:
        if out is not None or where is not True or options:
            if where is True and not options and isinstance(out, ndarray) and card.into((x,), out):
                return out
            return card.call_with((x,), out, where, **options)
        if open_records:
            return card.call((x,))
        kind = x.__class__
        if kind is not ndarray and kind in plans:  # a number: its plan lies under its class
            return plans[kind](x)
        try:
            run = plans[x._layout]
        except KeyError:
            return card.call((x,))
        except AttributeError:
            return card.call((x,))
        out = run(x)
        if x._node is not None:
            record(card, (x,), out, {})
        return out

    return _finish(function, card, ("x",), doc, formula, example)


def binary(
    name: str,
    ufunc: np.ufunc,
    expression: str | dict[str, str],
    grad: tuple[str, str] | None = None,
    *,
    category: Category = dtypes.NUMERIC,
    cpu: str | dict[str, str] | None = None,
    doc: str,
    formula: str = "",
    example: str = "[3.0, 5.0], [2.0, 4.0]",
    namespace: Mapping[str, Any],
    kind: type[Elementwise] = Elementwise,
) -> Callable[..., ndarray]:
    """The public function of a two-input card."""
    card = kind(name, ufunc, expression, grad, category, cpu, namespace)
    plans, record = card.plans, tape.record

    def function(
        x: Any, y: Any, /, out: Any = None, *, where: Any = True, **options: Any
    ) -> ndarray:
        if out is not None or where is not True or options:
            if (
                where is True
                and not options
                and isinstance(out, ndarray)
                and card.into((x, y), out)
            ):
                return out
            return card.call_with((x, y), out, where, **options)
        if open_records:
            return card.call((x, y))
        try:
            if isinstance(y, ndarray):
                layout = x._layout
                run = plans[layout] if layout is y._layout else plans[layout, y._layout]
            else:  # a Python scalar
                out = plans[x._layout, type(y)](x, y)
                if x._node is not None:
                    record(card, (x, y), out, {})
                return out
        except (AttributeError, KeyError):
            # a number and an array, or numbers of which one is NumPy's
            known = plans.get((type(x), y._layout if isinstance(y, ndarray) else type(y)))
            if known is None or isinstance(y, ndarray) and y._node is not None:
                return card.call((x, y))
            return known(x, y)
        out = run(x, y)
        if x._node is not None or y._node is not None:
            record(card, (x, y), out, {})
        return out

    return _finish(function, card, ("x", "y"), doc, formula, example)


def _finish(
    function: Callable,
    card: Elementwise,
    inputs: tuple[str, ...],
    doc: str,
    formula: str,
    example: str,
) -> Callable:
    function.__name__ = function.__qualname__ = card.name
    shown_as(card.name, function)
    function.__module__ = card.namespace["__name__"]
    function.card = card  # type: ignore[attr-defined]
    gradient = (
        "The result is a constant and has no gradient."
        if card.grad is None
        else "Gradient: " + ", ".join(f"``{e}``" for e in card.grad) + "."
    )
    peer = None if isinstance(card.cpu, str) else f"np.{card.ufunc.__name__}"
    example = (
        f">>> import numpy as np, cudamath as cm\n>>> np.allclose(cm.{card.name}({example}), "
        f"{peer}({example}))\nTrue"
        if peer
        else f">>> import cudamath as cm\n>>> cm.{card.name}({example}).shape\n(2,)"
    )
    kind = card.category.name
    several = len(inputs) > 1
    operands = "Arrays" if kind == "array" else f"{kind[0].upper()}{kind[1:]} arrays"
    operands += " whose shapes broadcast" if several else " of any shape"
    shapes = "ValueError\n    The shapes do not broadcast.\n" if several else ""
    function.__doc__ = f"""{doc}

{f"{formula}{chr(10) * 2}" if formula else ""}Parameters
----------
{", ".join(inputs)} : array_like
    {operands}. Python scalars never widen an array.
out : ndarray, optional
    Array that receives the result.
where : array_like, default True
    Bool array that broadcasts and selects the elements to compute. The others keep the values of
    `out`, or are 0 without `out`.
dtype : dtype_like, optional
    Dtype of the computation.
casting : str, default "same_kind"
    NumPy's rule for the conversions between the operands, the computation and the result.
order : str, default "K"
    Order of the result in memory: "C", "F", "A" for Fortran's order if all operands have it and
    else C order, "K" for the order of the operands.
subok : bool, default True
    Accepted for compatibility with NumPy. There are no subclasses.
signature : str or tuple of dtype_like, optional
    Dtypes of the operands and the result, such as "dd->d".

Returns
-------
ndarray
    Array of the dtype of NumPy's `{card.ufunc.__name__}`. 16-bit floats are computed in float32.

Raises
------
TypeError
    The dtype is not supported.
{shapes}
Notes
-----
{gradient} The function is deterministic.

Examples
--------
{example}
"""
    annotations: dict[str, Any] = dict.fromkeys(inputs, "ArrayLike")
    annotations |= {"out": "ndarray | None", "where": "ArrayLike", "dtype": "DTypeLike | None"}
    annotations |= {"casting": "str", "order": "str", "subok": "bool", "signature": "Any"}
    function.__annotations__ = {**annotations, "return": "ndarray"}
    function.__signature__ = _signature(inputs, tuple(annotations.items()))  # type: ignore[attr-defined]
    return function


@functools.cache
def _signature(inputs: tuple[str, ...], annotations: tuple[tuple[str, str], ...]) -> Any:
    """The signature of an elementwise function. In its code the options behind `where` are one
    dict, which is looked at as a whole."""
    kinds = inspect.Parameter
    defaults = {
        "out": None,
        "where": True,
        "dtype": None,
        "casting": _SAME_KIND,
        "order": "K",
        "subok": True,
        "signature": None,
    }
    parameters = [
        kinds(
            name,
            kinds.POSITIONAL_ONLY
            if name in inputs
            else kinds.POSITIONAL_OR_KEYWORD
            if name == "out"
            else kinds.KEYWORD_ONLY,
            default=defaults.get(name, kinds.empty),
            annotation=annotation,
        )
        for name, annotation in annotations
    ]
    return inspect.Signature(parameters, return_annotation="ndarray")
