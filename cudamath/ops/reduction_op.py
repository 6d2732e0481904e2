"""The op of a reduction, with NumPy's options of such functions. What a reduction computes is
defined in core/specs/reductions.py."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.checks import MISTAKES, as_of, coerce, require
from ..core.dispatch.op import BOOLEAN, INEXACT, Op
from ..core.shapes import broadcast_shapes, normalize_axes
from ..core.specs import reductions as specs
from ..core.specs.reduction import Reduction, total_dtype
from ..core.user_warnings import warn
from .index import _value
from .out_argument import deliver, target_of
from .shape import astype, broadcast_to
from .where import where as choose

Axis = int | Sequence[int] | None
_ANNOTATIONS = {"out": "ndarray | None", "initial": "Scalar | None", "where": "ArrayLike"}

_ALL_AXES = tuple([tuple(range(n)) for n in range(65)])  # NumPy's arrays have at most 64 dimensions


def of_a_vector(axis: Any) -> bool:
    """Whether an axis of an array without dimensions is that of a vector of one element, which
    NumPy lets a number be."""
    return type(axis) is not bool and hasattr(axis, "__index__") and operator.index(axis) in (0, -1)


def kept_axes(name: str, keepdims: Any, x: ndarray) -> bool:
    """Whether reduced axes are kept: True, False or an integer, as in NumPy."""
    if not hasattr(keepdims, "__index__"):
        raise TypeError(
            f"{name}: wants keepdims True or False, got {keepdims!r} for an array of shape "
            f"{x.shape}"
        )
    return bool(keepdims)


def axes_of(name: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    """The reduced axes from the front, in ascending order."""
    if axis is None or ndim == 0 and of_a_vector(axis):
        return _ALL_AXES[ndim]
    return tuple(sorted(normalize_axes(name, axis, ndim)))


def _first(name: str, initial: Any, result: ndarray) -> ndarray:
    """What a reduction begins with, in the dtype of its result, as NumPy assigns it: 2.5 is 2 among
    integers, 300 no int8."""
    if isinstance(initial, ndarray):
        return astype(coerce(name, (result, initial))[1], result.dtype, copy=False)
    if isinstance(initial, np.generic | np.ndarray):  # wraps, as its conversion does
        return astype(asarray(initial, device=result.device, name=name), result.dtype, copy=False)
    return _value(name, result, initial)


class ReductionOp(Op):
    """The op of a reduction, with NumPy's options of its public function.

    Parameters
    ----------
    reduction : Reduction
        Its definition (core/specs/reductions.py).
    vjp : callable or None
        Its gradient rule.
    combine : callable or None
        Combines a result and an initial value: the function has NumPy's `initial`.
    masked : callable or None
        (x, where, axis, keepdims, **more): the reduction of the elements that are not left out,
        where no neutral number can stand for the others.
    widens : bool
        It is computed in the dtype of `out`, if that is wider.
    """

    def __init__(
        self,
        reduction: Reduction,
        vjp: Callable | None = None,
        *,
        combine: Callable | None = None,
        masked: Callable | None = None,
        widens: bool = False,
    ):
        super().__init__(reduction.op, cpu="reduce.reduce", cuda="reduce.dispatch.plan", vjp=vjp)
        self.reduction = reduction
        self.chooses, self.neutral = reduction.chooses, reduction.neutral
        self.combine, self.masked, self.widens = combine, masked, widens

    def with_numpy_options(self, function: Callable[..., ndarray]) -> Callable[..., ndarray]:
        """A public function of this card with NumPy's `initial` and `where` as well, where the
        reduction has such, and with any `out`.

        `function` itself takes `out` as an array of ours, into which it may or may not write."""
        signature = inspect.signature(function)
        positions = [
            name
            for name, p in signature.parameters.items()
            if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        further: dict[str, Any] = {"initial": None} if self.combine else {}
        if self.neutral is not None or self.combine or self.masked:
            further["where"] = True
        # NumPy takes them by position where a reduction has both
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if self.combine:
            positions += [*further]
        else:
            kind = inspect.Parameter.KEYWORD_ONLY

        @functools.wraps(function)
        def call(
            x: Any,
            axis: Axis = None,
            *rest: Any,
            initial: Any = None,
            where: Any = True,
            **more: Any,
        ) -> ndarray:
            more.update(zip(positions[1:], rest, strict=False))
            out = more.pop("out", None)
            initial, where = more.pop("initial", initial), more.pop("where", where)
            if out is None and initial is None and where is True:
                return function(x, axis, **more)
            return self.with_options(function, x, axis, out, initial, where, **more)

        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[
                *signature.parameters.values(),
                *[
                    inspect.Parameter(
                        name,
                        kind,
                        default=default,
                        annotation=_ANNOTATIONS.get(name, inspect.Parameter.empty),
                    )
                    for name, default in further.items()
                ],
            ]
        )
        return call

    def with_options(
        self,
        function: Callable[..., ndarray],
        x: Any,
        axis: Axis,
        out: Any,
        initial: Any,
        where: Any,
        *,
        keepdims: bool = False,
        **more: Any,
    ) -> ndarray:
        """The reduction with NumPy's `out`, `initial` and `where`."""
        x = require(self.name, x)
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
                return (
                    result
                    if out is None
                    else deliver(self.name, result, out, self._casting(x, out))
                )
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
        if out is not None and self.widens:
            wide = target_of(self.name, out).dtype
            if wide != x.dtype and wide in INEXACT and dtypes.promote(x.dtype, wide) == wide:
                more["dtype"] = more.get("dtype") or wide
        target = out if isinstance(out, ndarray) and initial is None else None
        result = function(x, axis, out=target, keepdims=keepdims, **more)
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
        if out is None or result is out:
            return result
        return deliver(self.name, result, out, self._casting(x, out))

    def _casting(self, x: ndarray, out: Any) -> str:
        """The rule by which NumPy writes a result of x into `out`: places go into a copy of it,
        roots are those of a ufunc, and what skips NaN wants floats for floats."""
        if self.reduction.places:
            return "held"
        if self.reduction in (specs.STD, specs.NANSTD):
            return "same_kind"
        skips = self.reduction in (specs.NANMEAN, specs.NANVAR) and x.dtype in INEXACT
        return "same_kind" if skips and target_of(self.name, out).dtype not in INEXACT else "unsafe"

    def reduce(
        self,
        x: ndarray,
        axis: Axis,
        keepdims: bool,
        dtype: np.dtype | None = None,
        out: ndarray | None = None,
        **more: Any,
    ) -> ndarray:
        """The op itself; written into `out`, if that can be done at once. dtype: of the result, by
        default what the definition says."""
        axes = (
            axes_of(self.name, axis, x.ndim)
            if x.ndim or self.reduction not in (specs.MEAN, specs.VAR, specs.STD)
            else normalize_axes(self.name, axis, 0)  # NumPy counts along an axis, which must be
        )
        if type(keepdims) is not bool:  # NumPy's argmax takes anything
            keepdims = (
                bool(keepdims) if self.reduction.places else kept_axes(self.name, keepdims, x)
            )
        if dtype is None:
            dtype = self.reduction.result(x.dtype)
        if self.chooses and 0 in [x.shape[i] for i in axes]:
            raise ValueError(
                f"{self.name}: no elements to choose from along axes {axes} of an array of shape "
                f"{x.shape}"
            )
        if self.reduction.divides:
            count, correction = math.prod([x.shape[i] for i in axes]), more.get("correction", 0)
            if not count or count <= correction:
                what = (
                    "Degrees of freedom <= 0 for slice"
                    if "correction" in more
                    else ("Mean of empty slice")
                )
                warn(f"{self.name}: {what}, got shape {x.shape} along axes {axes}", RuntimeWarning)
        params = {
            "kind": self.reduction.name,
            "axis": axes,
            "keepdims": keepdims,
            "dtype": dtype,
            **more,
        }
        if out is not None and self.into((x,), out, **params):
            return out
        return self(x, **params)


def normal(x: ndarray) -> bool:
    """Whether all numbers have all of their digits and none is 0, for arrays on the CPU, which
    nobody needs to wait for."""
    size = np.abs(x._data)
    return bool(np.finfo(x.dtype).tiny <= size.min() and size.max() < np.inf)


def total_in(name: str, x: ndarray, dtype: Any) -> tuple[ndarray, np.dtype]:
    """x and the dtype of its sum or product: 64 bits for integers and bool, unless another is
    requested. Complex numbers lose their imaginary parts before they are added, with a warning."""
    own = x._layout.dtype
    if dtype is None:
        return x, total_dtype(own)
    kind = dtypes.as_dtype(dtype, name)
    if own.kind == "c" and kind.kind != "c":
        x = astype(x, kind)
    return x, kind


def loses_nan(name: str, x: ndarray, dtype: Any) -> bool:
    """Whether a NaN of x is none in the dtype that is requested for a total."""
    if dtype is None or x._layout.dtype not in INEXACT:
        return False
    kind = dtypes.as_dtype(dtype, name)
    return kind == np.bool_ or x._layout.dtype.kind == "c" and kind.kind != "c"


def total_in_bool(total: Callable[[ndarray], ndarray], x: ndarray) -> ndarray:
    """A sum or product in bool, in which + is "or" and * is "and": of zeros and ones, not zero."""
    return astype(total(astype(x, np.bool_)), np.bool_)
