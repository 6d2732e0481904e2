"""Choosing among arrays by conditions or numbers, and functions applied line by line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import asarray, dtypes
from ..core.array import ndarray
from ..core.autograd.mutation import wrote
from ..core.devices import CPU
from ..core.dispatch.checks import MISTAKES, as_of, coerce, members, require, require_function
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import BOOLEAN, FLOATING, INTEGER, INTEGER_OR_BOOL, Op
from ..core.scalar import scalar_results
from ..core.shapes import broadcast_shapes, normalize_axis
from ..core.typing import ArrayLike
from .elementwise import clip, not_equal, remainder
from .index import _apart, _check_writable, _fitted, _value, put, take, take_along_axis
from .join import stack
from .masks import nonzero
from .out_argument import can_write, deliver, in_place
from .ranges import arange
from .reduce import any as any_of
from .shape import _broadcast_as, astype, broadcast_to, expand_dims, moveaxis, ravel, reshape
from .where import _SCALARS, _is_own, where

__all__ = [
    "apply_along_axis",
    "apply_over_axes",
    "choose",
    "compress",
    "extract",
    "piecewise",
    "place",
    "put_along_axis",
    "putmask",
    "select",
]

_put_along = Op(
    "put_along_axis", cpu="index.put_along", cuda="index.put_along_axis.put_along", writes=True
)
_PLAIN = {ndarray, *_SCALARS}
_STEPS = 64  # places of a line up to which it is one thread's (kernels/index/put_along_axis.py)


@fast_path("*condlist", "*choicelist", "default?", scalars=False)
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> ndarray:
    """From several arrays, elements of the first one whose condition holds.

    Parameters
    ----------
    condlist : sequence of array_like
        Bool arrays.
    choicelist : sequence of array_like
        As many arrays or scalars as conditions.
    default : array_like, default 0
        Value where no condition holds. All arrays broadcast.

    Returns
    -------
    ndarray
        Array of the common dtype.

    Raises
    ------
    ValueError
        The numbers of arrays or their shapes do not match.
    TypeError
        A condition is not bool.

    Notes
    -----
    The gradient of each choice is g at the elements taken from it.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.arange(5)
    >>> cm.select([x < 2, x > 3], [x, x * 10], default=-1).tolist()
    [0, 1, -1, -1, 40]
    """
    condlist, choicelist = members("select", condlist), members("select", choicelist)
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            f"select: wants as many choices as conditions, at least one; got {len(condlist)} "
            "conditions and "
            f"{len(choicelist)} choices"
        )
    masks = [c if isinstance(c, ndarray) else require("select", c) for c in condlist]
    for mask in masks:
        if mask._layout.dtype.kind != "b":
            raise TypeError(
                f"select: conditions must be bool arrays, got {mask.dtype} of shape {mask.shape}"
            )
    given: list[Any] = [
        c if c.__class__ in _PLAIN or isinstance(c, _SCALARS) else require("select", c)
        for c in (*choicelist, default)
    ]
    *choices, out = given
    kind = dtypes.result_type(*choices, out)
    for mask, choice in zip(reversed(masks), reversed(choices), strict=True):
        beside = (
            out if choice.__class__ in _SCALARS else choice
        )  # of a number; most are of the common dtype
        numbers = (beside is out or out.__class__ in _SCALARS) and not (
            isinstance(beside, ndarray) and beside._layout.dtype is kind
        )
        if numbers and dtypes.result_type(choice, out) != kind:  # 0.1 beside float64 is no float32
            choice, out = [
                asarray.asarray(c, kind, mask.device, name="select") if type(c) in _SCALARS else c
                for c in (choice, out)
            ]
        try:
            out = where(mask, choice, out)
        except MISTAKES as error:
            raise as_of("select", error) from None
    return out if out._layout.dtype is kind else astype(out, kind, copy=False)


@scalar_results
def choose(
    x: ArrayLike, /, choices: ArrayLike, out: ndarray | None = None, mode: str = "raise"
) -> ndarray:
    """Return elements of the choice that each element of x numbers: y[i] = choices[x[i]][i].

    Parameters
    ----------
    x : array_like
        Integers from 0 to the number of choices less one.
    choices : array_like
        Sequence of arrays and numbers (which never widen an array), or one array of them. All of
        them broadcast.
    out : ndarray, optional
        Array that receives the result.
    mode : str, default "raise"
        How numbers out of range are treated: "raise", "wrap" or "clip".

    Returns
    -------
    ndarray
        The result.

    Raises
    ------
    IndexError
        A number is out of range.
    TypeError
        The dtype is not supported.
    ValueError
        The mode is unknown, or the shapes do not fit each other.
    OverflowError
        The common dtype cannot hold a number.

    Notes
    -----
    The gradient of each choice is g at the elements taken from it.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.choose([0, 1, 0], [[1, 2, 3], [10, 20, 30]]).tolist()
    [1, 20, 3]
    """
    x = require("choose", x, INTEGER_OR_BOOL)
    x = astype(x, np.int64) if x.dtype in BOOLEAN else x
    options = list(members("choose", choices))
    if not options:
        raise ValueError("choose: wants at least one choice")
    held = iter(coerce("choose", (x, *[o for o in options if type(o) not in _SCALARS]))[1:])
    options = [o if type(o) in _SCALARS else next(held) for o in options]
    kind = dtypes.result_type(
        *options
    )  # before numbers become arrays, which would widen the others
    options = [
        asarray.asarray(o, kind, x.device, name="choose")
        if type(o) in _SCALARS
        else astype(o, kind, copy=False)
        for o in options
    ]
    if mode == "wrap":
        x = remainder(x, len(options))
    elif mode == "clip":
        x = clip(x, 0, len(options) - 1)
    elif mode != "raise":
        raise ValueError(f"choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    elif bool(any_of((x < 0) | (x >= len(options)))):
        raise ValueError(f"choose: a number out of range for {len(options)} choices")
    shape = broadcast_shapes("choose", x.shape, *[o.shape for o in options])
    together = stack([broadcast_to(o, shape) for o in options])
    y = take_along_axis(together, expand_dims(broadcast_to(x, shape), axis=0), axis=0)[0]
    return y if out is None else deliver("choose", y, out, "unsafe")


def compress(
    condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: ndarray | None = None
) -> ndarray:
    """The slices along an axis where a condition holds.

    Parameters
    ----------
    condition : array_like
        Vector of bool, at most as long as the axis.
    a : array_like
        Array of any shape and dtype.
    axis : int, optional
        Axis of the operation. None flattens the array first.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of a's dtype.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or the axis is out of range.
    IndexError
        A position is beyond the axis.
    TypeError
        The axis is out of range, or `out` does not fit.

    Notes
    -----
    The gradient is g at the slices taken. The call waits for the device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.compress([False, True], [[1, 2], [3, 4]], axis=0).tolist()
    [[3, 4]]
    """
    x, mask = coerce("compress", (a, condition))
    if mask.ndim != 1:
        raise ValueError(f"compress: the condition must be a vector, got shape {mask.shape}")
    try:
        return take(x, nonzero(mask)[0], axis=axis, out=out)
    except MISTAKES as error:
        raise as_of("compress", error) from None


def extract(condition: ArrayLike, arr: ArrayLike) -> ndarray:
    """The elements of arr where a condition holds, as a vector.

    Parameters
    ----------
    condition : array_like
        Array whose elements, in C order, stand beside those of ``arr``. A shorter one leaves out
        the rest.
    arr : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        Vector of the elements.

    Raises
    ------
    IndexError
        The condition holds beyond the elements of ``arr``.

    Notes
    -----
    The gradient is g at the elements taken. The call waits for the device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.extract([[True, False], [False, True]], [[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    x, mask = coerce("extract", (arr, condition))
    try:
        return take(ravel(x), nonzero(ravel(mask))[0])
    except IndexError as error:
        raise as_of("extract", error) from None


def place(x: ndarray, /, mask: ArrayLike, vals: ArrayLike) -> None:
    """Assign to the elements where a mask holds, in order, in place.

    Values are repeated if there are fewer than elements.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    mask : array_like
        Mask, an array of x's shape.
    vals : array_like
        Vector of values. It is not empty if the mask selects an element.

    Raises
    ------
    ValueError
        The shapes do not fit each other.
    TypeError
        The dtype of the values does not fit into x's.

    Notes
    -----
    The operation works in place and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.arange(5)
    >>> cm.place(x, x > 2, [10])
    >>> x.tolist()
    [0, 1, 2, 10, 10]
    """
    x = in_place("place", x)
    where_to = nonzero(ravel(_mask("place", x, mask)))[0]
    _fits("place", x, vals)
    if where_to.size:
        given = _value("place", x, vals)
        if not given.size:
            raise ValueError(f"place: there are no values for {where_to.size} places")
        _check_writable("place", x)
        put(x, where_to, given)


def _mask(name: str, x: ndarray, mask: Any) -> ndarray:
    found = coerce(name, (x, mask))[1]
    if found.shape != x.shape:
        raise ValueError(
            f"{name}: a mask of shape {found.shape} does not fit an array of shape {x.shape}"
        )
    return found if found.dtype == np.bool_ else not_equal(found, 0)


def _fits(name: str, x: ndarray, values: Any) -> None:
    """Values that are arrays must be such that x's dtype holds them all, as in NumPy."""
    if (
        hasattr(values, "dtype")
        and not isinstance(values, np.generic)
        and not can_write(values.dtype, x.dtype, "safe")
    ):
        raise TypeError(
            f"{name}: values of {values.dtype} cannot go into an array of {x.dtype} of shape "
            f"{x.shape} by the rule "
            "'safe'"
        )


def putmask(x: ndarray, /, mask: ArrayLike, values: ArrayLike) -> None:
    """Assign to the elements where a mask holds, in place: x[mask] = values[mask].

    The values are repeated (in C order) to x's size.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    mask : array_like
        Mask, an array of x's shape.
    values : array_like
        Array or scalar.

    Raises
    ------
    ValueError
        The shapes do not fit each other.
    TypeError
        The dtype of the values does not fit into x's.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.arange(5)
    >>> cm.putmask(x, x > 2, x * 2)
    >>> x.tolist()
    [0, 1, 2, 6, 8]
    """
    x = in_place("putmask", x)
    chosen = _mask("putmask", x, mask)
    _check_writable("putmask", x)
    _fits("putmask", x, values)
    if type(values) in (int, float) and x.dtype in FLOATING:
        x[chosen] = values
        return
    given = ravel(
        _value("putmask", x, values)
        if type(values) in _SCALARS
        else coerce("putmask", (x, values))[1]
    )
    if not given.size or not x.size:
        return
    repeated = (
        given
        if given.size == x.size
        else take(given, remainder(arange(x.size, device=x.device), given.size))
    )
    x[...] = where(chosen, astype(reshape(repeated, x.shape), x.dtype, copy=False), x)


def put_along_axis(x: ndarray, indices: ArrayLike, values: ArrayLike, axis: int | None) -> None:
    """Assign to positions along an axis that differ from line to line, in place.

    It is the inverse of ``take_along_axis``: x[i, indices[i, j, k], k] = values[i, j, k] for axis
    1.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    indices : array_like
        Integer positions, with as many dimensions as ``x``. They broadcast with `x` except along
        the axis.
    values : array_like
        Values that broadcast to the indices.
    axis : int or None
        Axis of the assignment. None takes the flattened array.

    Raises
    ------
    IndexError
        An index is out of range.
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The operation works in place and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros((2, 3))
    >>> cm.put_along_axis(x, [[2], [0]], 1.0, axis=1)
    >>> x.tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    name = "put_along_axis"
    number = (
        isinstance(x, ndarray) and type(values) in (int, float) and _is_own(x._layout.dtype, values)
    )
    x = in_place(name, x)
    if axis is None:
        put(x, indices, values)
        return
    axis = normalize_axis(name, axis, x.ndim)
    at = require(name, coerce(name, (x, indices))[1], INTEGER, "indices")
    if at.ndim != x.ndim:
        raise ValueError(
            f"put_along_axis: indices of shape {at.shape} must have as many dimensions as x of "
            f"shape {x.shape}"
        )
    fits = all([n in (1, x.shape[i]) for i, n in enumerate(at.shape) if i != axis])
    in_lines = x._layout.contiguous and x.size and at.shape[axis] <= _STEPS
    _check_writable(name, x)
    if fits and (in_lines or x._layout.device == CPU):
        at = _broadcast_as(name, at, (*x.shape[:axis], at.shape[axis], *x.shape[axis + 1 :]))
        if at._owner is x._owner:
            at = at.copy()
        if number:
            wrote(x)
            _put_along(x, at, scalars=(values,), axis=axis)
        else:
            fitted = _apart(x, _fitted(name, _value(name, x, values), at.shape))
            wrote(x)
            _put_along(x, at, fitted, axis=axis)
        return
    places = [
        at
        if i == axis
        else reshape(arange(n, device=x.device), (*[1] * i, n, *[1] * (x.ndim - i - 1)))
        for i, n in enumerate(x.shape)
    ]
    x[tuple(places)] = values


def piecewise(
    x: ArrayLike,
    conditions: Sequence[ArrayLike],
    functions: Sequence[Any],
    *args: Any,
    **kwargs: Any,
) -> ndarray:
    """A piecewise-defined function: each given function where its condition holds.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    conditions : sequence of array_like
        Bool arrays of x's shape, or of the shape of its first axes.
    functions : sequence of object
        As many functions of an array, or numbers. One more applies where no condition holds (0
        otherwise).
    *args : object
        Further arguments of the functions.
    **kwargs : object
        Further arguments of the functions.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    ValueError
        The numbers of conditions and functions do not match.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Every function is evaluated on the whole array.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.asarray([-2.0, -1.0, 3.0])
    >>> cm.piecewise(x, [x < 0], [lambda v: -v, 0]).tolist()
    [2.0, 1.0, 0.0]
    """
    x = require("piecewise", x)
    if isinstance(conditions, ndarray | np.ndarray):
        single = conditions.ndim == x.ndim
    else:
        single = np.isscalar(conditions)
    masks: tuple[Any, ...] = (conditions,)
    if not single:
        masks = members("piecewise", conditions, "conditions")
        if x.ndim and {*map(np.isscalar, masks)} == {True}:  # a list of truths is one condition
            masks = (conditions,)
    if len(functions) not in (len(masks), len(masks) + 1):
        raise ValueError(
            f"piecewise: {len(masks)} conditions want {len(masks)} or {len(masks) + 1} functions, "
            "got "
            f"{len(functions)}"
        )
    values = [
        f(x, *args, **kwargs)
        if callable(f)
        else f
        if isinstance(f, ndarray)
        else _value("piecewise", x, f)
        for f in functions
    ]
    out: Any = values[len(masks)] if len(values) > len(masks) else 0
    try:
        for mask, value in zip(
            masks, values, strict=False
        ):  # of several that hold the last one wins
            mask = coerce("piecewise", (x, mask))[1]
            rows = (
                (*mask.shape, *(1,) * (x.ndim - mask.ndim)) if mask.ndim else ()
            )  # of fewer axes: which rows, as in x[mask]
            out = where(reshape(mask, rows), value, out)
        return astype(broadcast_to(out, x.shape), x.dtype)
    except MISTAKES as error:
        raise as_of("piecewise", error) from None


def apply_along_axis(
    function: Callable[..., Any], axis: int, x: ArrayLike, *args: Any, **kwargs: Any
) -> ndarray:
    """A function of vectors applied to every line along an axis.

    Parameters
    ----------
    function : callable
        Function of a vector (and of `args` and `kwargs`). It returns a number or an array, of the
        same shape for every line.
    axis : int
        Axis of the operation.
    x : array_like
        Array of any shape and dtype.
    *args : object
        Positional arguments of the function.
    **kwargs : object
        Keyword arguments of the function.

    Returns
    -------
    ndarray
        Array in which the result's axes take the place of ``axis``.

    Raises
    ------
    ValueError
        The axis is out of range, or there are no lines.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Python calls the function once per line, which is slow. Functions with an ``axis`` of their own
    are faster.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.apply_along_axis(lambda v: v[0] + v[-1], 1, [[1, 2, 3], [4, 5, 6]]).tolist()
    [4, 10]
    """
    require_function("apply_along_axis", function)
    x = require("apply_along_axis", x)
    axis = normalize_axis("apply_along_axis", axis, x.ndim)
    moved = moveaxis(x, axis, -1)
    count = math.prod(moved.shape[:-1])
    if not count:
        raise ValueError(
            f"apply_along_axis: no lines along axis {axis} of an array of shape {x.shape}"
        )
    lines = reshape(moved, (count, x.shape[axis]))
    results = stack(
        [require("apply_along_axis", function(line, *args, **kwargs)) for line in lines]
    )
    results = reshape(results, (*moved.shape[:-1], *results.shape[1:]))
    extra = results.ndim - (x.ndim - 1)
    return moveaxis(
        results, tuple(range(x.ndim - 1, results.ndim)), tuple(range(axis, axis + extra))
    )


def apply_over_axes(
    function: Callable[..., Any], x: ArrayLike, axes: int | Sequence[int]
) -> ndarray:
    """Apply a function of (array, axis) over several axes, one after another.

    The axes stay in the result with length 1.

    Parameters
    ----------
    function : callable
        Reduction with the arguments (array, axis).
    x : array_like
        Array of any shape and dtype.
    axes : int or sequence of int
        Axes of the operation.

    Returns
    -------
    ndarray
        Array with as many dimensions as `x`.

    Raises
    ------
    ValueError
        The function returns more dimensions, or fewer by more than one.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.apply_over_axes(cm.sum, cm.ones((2, 3, 4)), (0, 2)).tolist()
    [[[8.0], [8.0], [8.0]]]
    """
    require_function("apply_over_axes", function)
    x = require("apply_over_axes", x)
    for axis in axes if isinstance(axes, tuple | list) else (axes,):
        axis = normalize_axis("apply_over_axes", axis, x.ndim)
        y = require("apply_over_axes", function(x, axis))
        y = expand_dims(y, axis=axis) if y.ndim == x.ndim - 1 else y
        if y.ndim != x.ndim:
            raise ValueError(
                f"apply_over_axes: the function makes {y.ndim} dimensions of an array of shape "
                f"{x.shape}"
            )
        x = y
    return x
