"""NumPy's methods of ufuncs on the functions of two arrays: `add.reduce`, `.accumulate`, `.outer`,
`.at`, `.reduceat`.

Where there is a kernel for it (sums, products, extremes, logic; scatters), that does the work.
Other functions that are associative combine halves: ceil(log2 n) elementwise calls on ever shorter
arrays for a reduction, as many on whole ones for an accumulation. What is not associative
(subtract, divide) goes element by element, as it is defined. `at` of functions without a scatter
goes in rounds, each of which meets each position once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray, wrap
from ..core.asarray import asarray
from ..core.devices import CPU
from ..core.dispatch.checks import MISTAKES, as_of, coerce, require
from ..core.dtypes import as_dtype, bfloat16, float16
from ..core.scalar import scalar_results
from ..core.shapes import broadcast_shapes, normalize_axes, normalize_axis
from . import elementwise, elementwise_numpy, integers, reduce, scan
from .creation import full
from .error_state import naming
from .index import _value, put, take
from .join import concat
from .out_argument import deliver, in_place
from .ranges import arange
from .reduction_op import of_a_vector
from .shape import astype, broadcast_to, moveaxis, reshape, span
from .ufunc import LOGICAL, SCALARS
from .ufunc_at import (
    add_at,
    loses_counts,
    loses_fractions,
    maximum_at,
    minimum_at,
    multiply_at,
)
from .where import where

_REDUCTIONS: dict[np.ufunc, Callable] = {
    np.add: reduce.sum,
    np.multiply: reduce.prod,
    np.maximum: reduce.max,
    np.minimum: reduce.min,
    np.logical_and: reduce.all,
    np.logical_or: reduce.any,
}
_SCANS: dict[np.ufunc, Callable] = {
    np.add: scan.cumsum,
    np.multiply: scan.cumprod,
    np.maximum: scan.cummax,
    np.minimum: scan.cummin,
}
_SCATTERS: dict[np.ufunc, Callable] = {
    np.add: add_at,
    np.multiply: multiply_at,
    np.maximum: maximum_at,
    np.minimum: minimum_at,
}
_OF_BOOLS = {np.logical_or: np.maximum, np.logical_and: np.minimum}  # what these are between bools
_ASSOCIATIVE = {
    np.add,
    np.multiply,
    np.maximum,
    np.minimum,
    np.fmax,
    np.fmin,
    np.logical_and,
    np.logical_or,
    np.logical_xor,
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.logaddexp,
    np.logaddexp2,
    np.hypot,
    np.gcd,
    np.lcm,
}


def attach(function: Callable) -> None:
    """Gives a public function of two arrays its methods."""
    card = function.card  # type: ignore[attr-defined]
    name, ufunc = card.name, card.ufunc

    @scalar_results
    def reduce_(
        x: Any,
        /,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **more: Any,
    ) -> ndarray:
        """The function between all elements along axes, from the first to the last (NumPy's
        `ufunc.reduce`); before the first: `initial`, if given; without those where `where` is
        False."""
        x = require(f"{name}.reduce", x)
        if ufunc in (np.add, np.multiply):
            return _REDUCTIONS[ufunc](x, axis, keepdims=keepdims, out=out, dtype=dtype, **more)
        x = _given(f"{name}.reduce", card, function, x, dtype)
        logical = ufunc in (np.logical_and, np.logical_or)
        if ufunc in _REDUCTIONS and not (logical and more.get("initial") is not None):
            return _REDUCTIONS[ufunc](x, axis, keepdims=keepdims, out=out, **more)
        initial, chosen = (
            more.pop("initial", None),
            more.pop("where", True) if not logical else True,
        )
        if logical:
            y = function(_REDUCTIONS[ufunc](x, axis, keepdims=keepdims, **more), initial)
            return y if out is None else deliver(f"{name}.reduce", y, out, "unsafe")
        if more:
            raise TypeError(f"{name}.reduce: takes no {', '.join(more)}")
        x = _closed(function, _comparable(f"{name}.reduce", card, x))
        if chosen is not True:
            x = _left_out(f"{name}.reduce", ufunc, x, chosen, initial)
        whole = axis is None or x.ndim == 0 and of_a_vector(axis)
        axes = tuple(range(x.ndim)) if whole else normalize_axes(f"{name}.reduce", axis, x.ndim)
        if len(axes) > 1 and ufunc not in _ASSOCIATIVE:
            raise ValueError(
                f"{name}.reduce: the function is not associative, one axis at a time; got {axes}"
            )
        y = x
        if initial is not None and 0 in [x.shape[a] for a in axes]:  # nothing comes after it
            y, initial = (
                full(
                    [1 if i in axes else n for i, n in enumerate(x.shape)],
                    initial,
                    x.dtype,
                    device=x.device,
                ),
                None,
            )
        if initial is None and ufunc in (np.hypot, np.gcd) and all([x.shape[a] == 1 for a in axes]):
            initial = 0  # of one element: its absolute value, as of several
        if initial is not None and not axes:
            y = function(full((), initial, y.dtype, device=y.device), y)
        for i, a in enumerate(axes):
            if initial is not None and i == len(axes) - 1:
                first = full(
                    (*y.shape[:a], 1, *y.shape[a + 1 :]), initial, y.dtype, device=y.device
                )
                y = concat([first, y], axis=a)
            with naming("reduce"):
                y = _reduced(name, ufunc, function, y, a)
        if y._base is x._root() or y is x:  # of one element along each axis
            y = y.copy()
        if not keepdims:
            y = reshape(y, tuple([n for i, n in enumerate(x.shape) if i not in axes]))
        return y if out is None else deliver(f"{name}.reduce", y, out, "unsafe")

    def accumulate(x: Any, /, axis: int | None = 0, dtype: Any = None, out: Any = None) -> ndarray:
        """The function between all elements along an axis up to each one (NumPy's
        `ufunc.accumulate`)."""
        x = require(f"{name}.accumulate", x)
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"{name}.accumulate: wants one axis of an array of {x.shape}")
            axis = 0
        axis = normalize_axis(f"{name}.accumulate", axis, x.ndim)
        if ufunc in (np.add, np.multiply):
            y = _SCANS[ufunc](x, axis, dtype=dtype)
        else:
            x = _given(f"{name}.accumulate", card, function, x, dtype)
            y = (
                _SCANS[ufunc](x, axis)
                if ufunc in _SCANS
                else (
                    _accumulated(
                        ufunc,
                        function,
                        _closed(function, _comparable(f"{name}.accumulate", card, x)),
                        axis,
                    )
                )
            )
        if y is x:
            y = x.copy()
        return y if out is None else deliver(f"{name}.accumulate", y, out, "unsafe")

    def at(x: ndarray, key: Any, values: Any, /) -> None:
        """x[key] = f(x[key], values) in place, where positions that occur several times are met
        several times (`ufunc.at`). Where there is no scatter for the function, the positions are
        read on the host."""
        given = values.dtype if isinstance(values, ndarray) else np.asarray(values).dtype
        x = in_place(f"{name}.at", x)
        if loses_fractions(x, given, values) or loses_counts(x, given, values):
            _in_rounds(f"{name}.at", function, x, key, values)  # each result is converted
        elif ufunc is np.subtract:
            try:
                if type(values) is not float:
                    fits = (
                        type(values) is int and x.dtype.kind in "iu"
                    )  # as add.at asks of a number
                    values = (
                        _value(f"{name}.at", x, values)
                        if fits
                        else coerce(f"{name}.at", (x, values))[1]
                    )
                    if (
                        values.dtype.kind in "biu" and x.dtype.kind != "b"
                    ):  # first: -uint8(1) is 255
                        values = astype(values, x.dtype, copy=False)
                add_at(x, key, -values)
            except MISTAKES as error:
                raise as_of(f"{name}.at", error) from None
        elif ufunc in _SCATTERS:
            _SCATTERS[ufunc](x, key, values)
        else:
            _in_rounds(f"{name}.at", function, x, key, values)

    def reduceat(
        x: Any, indices: Any, /, axis: int = 0, dtype: Any = None, out: Any = None
    ) -> ndarray:
        """The function between the elements indices[i] .. indices[i + 1] - 1 along an axis, for the
        last index up to the end; where an index is not below the next one, the element there
        (NumPy's `ufunc.reduceat`). The indices are read on the host."""
        x = require(f"{name}.reduceat", x)
        axis = normalize_axis(f"{name}.reduceat", axis, x.ndim)
        starts = _starts(name, indices, x.shape[axis])
        if ufunc not in _SCATTERS:
            x = _comparable(name, card, x)
        x = _given(f"{name}.reduceat", card, function, x, dtype)
        if ufunc in _SCATTERS or ufunc in _OF_BOOLS:
            y = _sections(_OF_BOOLS.get(ufunc, ufunc), x, starts, axis)
        else:
            y = _each_section(name, ufunc, function, _closed(function, x), starts, axis)
        y = y if dtype is None else astype(y, dtype, copy=False)
        return y if out is None else deliver(f"{name}.reduceat", y, out, "unsafe")

    attach_outer(function)
    for method in (reduce_, accumulate, at, reduceat):
        method.__name__ = method.__name__.rstrip("_")
        method.__qualname__ = f"{name}.{method.__name__}"
        setattr(function, method.__name__, method)


def attach_outer(function: Callable) -> None:
    """Gives a public function of two arrays the method `outer`."""
    name = f"{function.__name__}.outer"

    @scalar_results
    def outer(x: Any, y: Any, /, **more: Any) -> Any:
        """The function of every pair of elements: shape x.shape + y.shape (NumPy's
        `ufunc.outer`)."""
        a, b = coerce(name, (x, y))
        return function(reshape(a, a.shape + (1,) * b.ndim), b, **more)

    outer.__qualname__ = name
    function.outer = outer  # type: ignore[attr-defined]


def _given(name: str, card: Any, function: Callable, x: ndarray, dtype: Any) -> ndarray:
    """x in the dtype that was asked for, in which the function must give its results, too."""
    if dtype is None:
        return x
    wanted = as_dtype(dtype, name)
    if card.compares or card.ufunc in LOGICAL:  # bools of whatever x is
        if wanted.kind != "b":
            raise TypeError(f"{name}: results are bools, got dtype {wanted}")
        return astype(x, wanted, copy=False)
    one = full((), 1, wanted, device="cpu")
    if (given := function(one, one).dtype) != wanted:
        raise TypeError(f"{name}: of {wanted} results are {given}, got dtype {wanted}")
    return astype(x, wanted, copy=False)


def _comparable(name: str, card: Any, x: ndarray) -> ndarray:
    """What a function is applied to between elements and results, of dtypes that it knows: bools
    where its results are."""
    if card.ufunc in LOGICAL:
        return elementwise.not_equal(x, 0) if x.dtype.kind != "b" else x
    if x.dtype.kind != "b" and card.compares:
        raise TypeError(
            f"{name}: wants bool arrays, as its results are, got {x.dtype} of shape {x.shape}"
        )
    return require(name, x, card.category)  # also where there is nothing to apply it to


def _closed(function: Callable, x: ndarray) -> ndarray:
    """x in the dtype of the function's results of it: also of one element, and before the first
    step."""
    if x.dtype.kind not in "biu":
        return x
    one = full((), 1, x.dtype, device="cpu")
    return astype(x, function(one, one).dtype, copy=False)


def _left_out(name: str, ufunc: np.ufunc, x: ndarray, chosen: Any, initial: Any) -> ndarray:
    """x with a number that changes no result where it is not chosen. An initial value serves
    functions without such a number: it is met anyway, and to meet it again changes nothing (fmax,
    lcm)."""
    number = initial if ufunc.identity is None else ufunc.identity
    if ufunc not in _ASSOCIATIVE or number is None:
        raise ValueError(
            f"{name}: where= wants a function that is associative, and an initial value if it has "
            "no identity"
        )
    x, chosen = coerce(name, (x, chosen))
    if broadcast_shapes(name, chosen.shape, x.shape) != x.shape:
        raise ValueError(
            f"{name}: where of shape {chosen.shape} does not fit an array of shape {x.shape}"
        )
    neutral = np.asarray(number).astype(x.dtype)  # all bits: -1, also unsigned
    return where(chosen, x, full((), neutral, x.dtype, device=x.device))


def _reduced(name: str, ufunc: np.ufunc, function: Callable, x: ndarray, axis: int) -> ndarray:
    """The reduction along one axis, which stays with length 1."""
    n = x.shape[axis]
    if not n:
        if ufunc.identity is None:
            raise ValueError(
                f"{name}.reduce: nothing to reduce along axis {axis} of shape {x.shape}, and "
                "there is no identity"
            )
        one = reduce.sum(x, axis, keepdims=True)
        dtype = function(x, x).dtype
        return full(
            one.shape, np.array(ufunc.identity).astype(dtype), dtype, device=x.device
        )  # all bits: -1, also unsigned
    if ufunc not in _ASSOCIATIVE:
        y = span(x, axis, 0, 1)
        for i in range(1, n):
            y = function(y, span(x, axis, i, i + 1))
        return y
    if n == 1 and ufunc is np.logical_xor:
        return elementwise.not_equal(x, 0)
    while n > 1:
        half = n // 2
        y = function(span(x, axis, 0, half), span(x, axis, half, 2 * half))
        x = concat([y, span(x, axis, n - 1, n)], axis=axis) if n % 2 else y
        n = x.shape[axis]
    return x


def _starts(name: str, indices: Any, n: int) -> np.ndarray:
    """Where the sections of reduceat begin along an axis of n elements."""
    starts = np.asarray(indices)
    if not starts.size and starts.ndim == 1:
        return starts.astype(np.int64)
    if (
        starts.ndim != 1
        or starts.dtype.kind not in "iu"
        or not 0 <= starts.min() <= starts.max() < n
    ):
        raise IndexError(
            f"{name}.reduceat: wants a vector of indices from 0 to {n - 1}, got {starts.tolist()}"
        )
    return starts


def _each_section(
    name: str, ufunc: np.ufunc, function: Callable, x: ndarray, starts: np.ndarray, axis: int
) -> ndarray:
    """reduceat along one axis of a function without a scatter: one section after another."""
    ends = [*starts[1:].tolist(), x.shape[axis]]
    parts = [
        _reduced(name, ufunc, function, span(x, axis, first, max(end, first + 1)), axis)
        for first, end in zip(starts.tolist(), ends, strict=False)
    ]
    return concat(parts, axis=axis) if parts else span(x, axis, 0, 0)


def _sections(ufunc: np.ufunc, x: ndarray, starts: np.ndarray, axis: int) -> ndarray:
    """reduceat along one axis: on the CPU NumPy's; else the elements of all sections side by side,
    combined by a scatter."""
    n = x.shape[axis]
    if x.dtype.kind == "b" or (
        ufunc in (np.add, np.multiply) and x.dtype.kind in "iu" and x.dtype.itemsize < 8
    ):
        x = astype(
            x,
            np.bool_
            if x.dtype.kind == "b" and ufunc not in (np.add, np.multiply)
            else np.uint64
            if x.dtype.kind == "u"
            else np.int64,
        )
    if x._layout.device == CPU and x._node is None and x.dtype not in (float16, bfloat16):
        return wrap(ufunc.reduceat(x._data, starts.astype(np.intp), axis))
    lengths = np.maximum(np.append(starts[1:], n) - starts, 1)
    section = np.repeat(np.arange(starts.size), lengths)
    places = np.arange(section.size) - (np.cumsum(lengths) - lengths - starts)[section]
    rows = moveaxis(x, axis, 0)
    parts = take(rows, asarray(places, device=x.device), axis=0)
    first = (
        np.cumsum(lengths) - lengths
    )  # every section begins with its first element, and the others join it
    rest = np.setdiff1d(np.arange(section.size), first, assume_unique=True)
    y = take(parts, asarray(first, device=x.device), axis=0)
    if (
        rest.size and y._node is not None
    ):  # nothing may be written into what a gradient is recorded for
        y = concat(
            [
                _REDUCTIONS[ufunc](span(parts, 0, at, at + length), axis=0, keepdims=True)
                for at, length in zip(first.tolist(), lengths.tolist(), strict=True)
            ],
            axis=0,
        )
    elif rest.size:
        _SCATTERS[ufunc](
            y,
            asarray(section[rest], device=x.device),
            take(parts, asarray(rest, device=x.device), axis=0),
        )
    return moveaxis(y, 0, axis)


def _in_rounds(name: str, function: Callable, x: ndarray, key: Any, *values: Any) -> None:
    """x[key] = function(x[key], *values) in place, once for each time that a position occurs: round
    by round, each position in a round once."""
    x = require(name, x)
    places = reshape(arange(x.size, device=x.device), x.shape)[key]
    at = (places.to_numpy() if isinstance(places, ndarray) else np.asarray(places)).ravel()
    order = np.argsort(at, kind="stable")
    fresh = np.r_[True, np.diff(at[order]) != 0]
    begins = np.flatnonzero(fresh)
    turn = np.empty(at.size, np.int64)  # how often a position occurred before
    turn[order] = np.arange(at.size) - np.repeat(begins, np.diff(np.append(begins, at.size)))
    others = [
        v
        if type(v) in SCALARS
        else reshape(broadcast_to(coerce(name, (x, v))[1], places.shape), -1)
        for v in values
    ]
    for i in range(turn.max(initial=-1) + 1):
        here = asarray(np.flatnonzero(turn == i), device=x.device)
        found = take(reshape(places, -1), here)
        y = function(
            take(reshape(x, -1), found),
            *[v if type(v) in SCALARS else take(v, here) for v in others],
        )
        put(x, found, astype(y, x.dtype, copy=False))


def _accumulated(ufunc: np.ufunc, function: Callable, x: ndarray, axis: int) -> ndarray:
    n = x.shape[axis]
    if (
        ufunc in _ASSOCIATIVE
    ):  # Hillis and Steele: after the step of length d an element knows 2 d elements
        d = 1
        while d < n:
            rest = function(span(x, axis, 0, n - d), span(x, axis, d, n))
            x = concat([span(x, axis, 0, d), rest], axis=axis)
            d *= 2
        return x
    lines = [span(x, axis, 0, 1)] if n else []
    for i in range(1, n):
        lines.append(function(lines[-1], span(x, axis, i, i + 1)))
    return concat(lines, axis=axis) if lines else x


def install() -> None:
    """Gives the public elementwise functions of two arrays NumPy's methods of ufuncs, and those of
    one array, and what has no card, `at`."""
    for space in (elementwise, integers, elementwise_numpy):
        for function in list(vars(space).values()):
            if hasattr(function, "card"):
                ufunc = function.card.ufunc
                if ufunc.nin == 2 and ufunc.nout == 1:
                    attach(function)
                elif ufunc.nin == ufunc.nout == 1:
                    function.at = functools.partial(
                        _in_rounds, f"{function.card.name}.at", function
                    )
    for function in (elementwise_numpy.float_power, elementwise_numpy.ldexp):
        function.at = functools.partial(_in_rounds, f"{function.__name__}.at", function)  # type: ignore[union-attr]
    for function in (
        elementwise_numpy.divmod,
        elementwise_numpy.float_power,
        elementwise_numpy.ldexp,
    ):
        attach_outer(function)
    for alias, of in (("pow", elementwise._power),):
        public = getattr(elementwise, alias)
        for method in ("reduce", "accumulate", "outer", "at", "reduceat"):
            setattr(public, method, getattr(of, method))
