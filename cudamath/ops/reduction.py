"""The card of a reduction: NumPy's options of such functions, and calls that find their plans
without checks."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtypes, tape
from ..core.array import asarray, ndarray
from ..core.op import BOOLEAN, INEXACT, MISTAKES, Op, as_of, coerce, require
from ..core.shapes import broadcast_shapes, normalize_axes
from .index import _value
from .index import where as choose
from .output import deliver, target_of
from .shape import astype, broadcast_to

Axis = int | Sequence[int] | None

_ALL_AXES = tuple([tuple(range(n)) for n in range(65)])  # NumPy's arrays have at most 64 dimensions


def kept_axes(name: str, keepdims: Any, x: ndarray) -> bool:
    """Whether reduced axes are kept: True, False or an integer, as NumPy has it, whose argmax takes
    anything."""
    if not hasattr(keepdims, "__index__") and name not in ("argmax", "argmin"):
        raise TypeError(
            f"{name}: wants keepdims True or False, got {keepdims!r} for an array of shape "
            f"{x.shape}"
        )
    return bool(keepdims)


def axes_of(name: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    """The reduced axes from the front, in ascending order."""
    if axis is None or (
        ndim == 0 and type(axis) is int and axis in (0, -1)
    ):  # NumPy lets a number be a vector here
        return _ALL_AXES[ndim]
    return tuple(sorted(normalize_axes(name, axis, ndim)))


def _first(name: str, initial: Any, result: ndarray) -> ndarray:
    """What a reduction begins with, in the dtype of its result, as NumPy assigns it: 2.5 is 2 among
    integers, 300 no int8."""
    if isinstance(initial, ndarray):
        return astype(coerce(name, (result, initial))[1], result.dtype, copy=False)
    return _value(
        name, result, initial.item() if isinstance(initial, np.generic | np.ndarray) else initial
    )


def asked(**options: Any) -> tuple | None:
    """What a call was given beside its array, axis and keepdims, as the end of a key of
    `Reduction.known`: nothing, or one argument with the class of its value; None for several, which
    are not looked up."""
    given = [(name, value) for name, value in options.items() if value is not None]
    return None if len(given) > 1 else (given[0], given[0][1].__class__) if given else ()


#: target: (card, x, out) of the call with `out=` under way in this thread, for the card to write
#: there if it can
_wanted = threading.local()


class Reduction(Op):
    """The card of a reduction. `known` holds the plans of calls with integers or no axis and at
    most one argument beside keepdims, of arrays whose gradient is not recorded, and `taped`, with
    the card's parameters, those of arrays whose gradient is: such a call finds its plan without
    checks and defaults."""

    most_known = 4096

    def __init__(
        self,
        name: str,
        vjp: Callable | None = None,
        *,
        chooses: bool = False,
        neutral: int | None = None,
        combine: Callable | None = None,
        masked: Callable | None = None,
    ):
        super().__init__(name, cpu="reduce.reduce", cuda="reduce.plan", vjp=vjp)
        self.chooses = chooses  # an element, of which there must be one
        # the number that changes nothing: what `where=` puts in the place of elements it leaves out
        self.neutral = neutral
        self.combine = combine  # of a result and an initial value
        # (x, where, axis, keepdims, **more): the reduction of the elements that are not left out
        self.masked = masked
        self.known: dict[tuple, Callable] = {}
        self.taped: dict = {}
        self.parameters: dict[
            tuple, dict[str, Any]
        ] = {}  # the card's own of these calls, for `out=`
        dtypes.forget += [self.known.clear, self.parameters.clear, self.taped.clear]

    def quick(self, function: Callable[..., ndarray]) -> Callable[..., ndarray]:
        """The public function of this card: `function`, except where the plan is known."""
        known, taped = self.known, self.taped
        options = (
            {"out"}
            | ({"initial"} if self.combine else set())
            | ({"where"} if self.neutral is not None or self.combine or self.masked else set())
        )

        signature = inspect.signature(function)
        order = [
            name
            for name in ("dtype", "out", "ddof")
            if name == "out" or name in signature.parameters
        ]

        @functools.wraps(function)
        def call(
            x: Any, /, axis: Axis = None, *rest: Any, keepdims: bool = False, **more: Any
        ) -> ndarray:
            if rest:  # by position, as in NumPy
                if len(rest) > len(order):
                    raise TypeError(
                        f"{self.name}: takes {', '.join(['x', 'axis', *order])} by position, got "
                        f"{2 + len(rest)} "
                        "arguments"
                    )
                return call(
                    x, axis, keepdims=keepdims, **dict(zip(order, rest, strict=False)), **more
                )
            if more and not options.isdisjoint(more):
                return self.with_options(call, x, axis, keepdims, **more)
            try:  # the classes as well, because 1.0 equals 1
                table: dict = known if x._node is None else taped
                if more:
                    (one,) = more.items()
                    run: Any = table[
                        x._layout,
                        axis,
                        axis.__class__,
                        keepdims,
                        keepdims.__class__,
                        one,
                        one[1].__class__,
                    ]
                else:
                    run = table[x._layout, axis, axis.__class__, keepdims, keepdims.__class__]
                if axis.__class__ is tuple and not {*map(type, axis)} <= {int}:
                    run = None
            except (
                AttributeError,
                KeyError,
                TypeError,
                ValueError,
            ):  # ValueError: several arguments
                run = None
            if run is None:
                return function(x, axis, keepdims=keepdims, **more)
            if x._node is None:
                return run(x)
            run, params, _ = run
            out = run(x)
            tape.record(self, (x,), out, params)
            return out

        extra = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=True if name == "where" else None
            )
            for name in ("out", "initial", "where")
            if name in options
        ]
        call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *extra])  # type: ignore
        return call

    def again_into(self, x: Any, axis: Axis, keepdims: bool, out: Any) -> bool:
        """Whether a call that was seen before, with `out` or without, could write its result there
        itself."""
        try:
            params = self.parameters[x._layout, axis, axis.__class__, keepdims, keepdims.__class__]
        except (AttributeError, KeyError, TypeError):
            return False
        return not (type(axis) is tuple and {*map(type, axis)} - {int}) and self.into(
            (x,), out, **params
        )

    def with_options(
        self,
        call: Callable[..., ndarray],
        x: Any,
        axis: Axis,
        keepdims: bool,
        *,
        out: Any = None,
        initial: Any = None,
        where: Any = True,
        **more: Any,
    ) -> ndarray:
        """The reduction with NumPy's `out`, `initial` and `where`."""
        alone = type(out) is ndarray and where is True and initial is None and not more
        if alone and self.again_into(x, axis, keepdims, out):
            return out
        x = require(self.name, x)
        if initial is not None and self.combine is None:
            raise TypeError(f"{self.name}: got an unexpected argument, initial={initial!r:.60}")
        if where is not True:
            where = coerce(self.name, (x, where))[1]
            if where._layout.dtype != np.bool_:  # a mean counts them
                where = astype(where, np.bool_)
            if broadcast_shapes(self.name, where.shape, x.shape) != x.shape:
                raise ValueError(
                    f"{self.name}: where of shape {where.shape} does not fit an array of shape "
                    f"{x.shape}"
                )
            if self.masked is not None:
                try:
                    result = self.masked(x, where, axis, keepdims, **more)
                except MISTAKES as error:
                    raise as_of(self.name, error) from None
                return result if out is None else deliver(self.name, result, out)
            if self.chooses and initial is None:
                raise ValueError(
                    f"{self.name}: where= wants an initial value, in case that nothing is chosen "
                    "from"
                )
            number = initial if self.chooses else self.neutral
            if (
                type(number) not in (int, float) or x.dtype not in INEXACT
            ):  # else it takes x's dtype, and no array is made
                number = astype(asarray(number, device=x.device, name=self.name), x.dtype)
            x = choose(where, x, number)
        if (
            self.chooses and initial is not None and not x.size
        ):  # one more to choose from along empty axes
            axes = axes_of(self.name, axis, x.ndim)
            shape = tuple([builtins.max(n, 1) if i in axes else n for i, n in enumerate(x.shape)])
            x = broadcast_to(_first(self.name, initial, x), shape)
        if out is not None and self.name in (
            "sum",
            "prod",
            "mean",
        ):  # computed in out's dtype, if that is wider
            wide = target_of(self.name, out).dtype
            if wide != x.dtype and wide in INEXACT and dtypes.promote(x.dtype, wide) == wide:
                more.setdefault("dtype", wide)
        _wanted.target = (self, x, out) if alone and not more else None
        try:
            result = call(x, axis, keepdims=keepdims, **more)
        finally:
            _wanted.target = None
        if initial is not None:
            number = (
                type(initial) is int
                and result.dtype not in BOOLEAN
                or type(initial) is float
                and result.dtype in INEXACT
            )
            try:
                result = self.combine(
                    result, initial if number else _first(self.name, initial, result)
                )  # type: ignore[misc]
            except MISTAKES as error:
                raise as_of(self.name, error) from None
        return result if out is None or result is out else deliver(self.name, result, out)

    def reduce(
        self,
        x: ndarray,
        axis: Axis,
        keepdims: bool,
        dtype: np.dtype,
        given: tuple | None = (),
        **more: Any,
    ) -> ndarray:
        """The op itself; given: what `asked` says of the other arguments of the call."""
        axes = axes_of(self.name, axis, x.ndim)
        if type(keepdims) is not bool:
            keepdims = kept_axes(self.name, keepdims, x)
        if self.chooses and 0 in [x.shape[i] for i in axes]:
            raise ValueError(
                f"{self.name}: no elements to choose from along axes {axes} of an array of shape "
                f"{x.shape}"
            )
        params = {"kind": self.name, "axis": axes, "keepdims": keepdims, "dtype": dtype, **more}
        card, source, out = getattr(_wanted, "target", None) or (None, None, x)
        if card is not self or source is not x or not self.into((x,), out, **params):
            out = self(x, **params)
        if given is not None and (
            axis is None or type(axis) is int or type(axis) is tuple and {*map(type, axis)} <= {int}
        ):
            key, run = (
                (x._layout, axis, axis.__class__, keepdims, bool),
                self.plans.get((x._layout, *params.values())),
            )
            if (
                len(self.parameters) >= self.most_known
                or len(self.known) + len(self.taped) >= self.most_known
            ):
                self.known.clear()
                self.parameters.clear()
                self.taped.clear()
            if not given and x._node is None:
                self.parameters[key] = params
            if run is not None:
                with contextlib.suppress(TypeError):  # a 0-d array as a number cannot be looked up
                    if x._node is None:
                        self.known[*key, *given] = run
                    else:
                        self.taped[*key, *given] = run, params, None
        return out
