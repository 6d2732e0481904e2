"""Order statistics, weighted means, covariances: compositions of selections, sorts, reductions and
matrix products."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.checks import MISTAKES, as_of, coerce, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import (
    ANY,
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER_OR_BOOL,
    NUMERIC,
    REAL_OR_BOOL,
    Category,
    Op,
)
from ..core.shapes import normalize_axes
from ..core.typing import ArrayLike, DTypeLike
from ..cpu.quantiles import rounded
from . import elementwise, reduce, ufunc
from .creation import full
from .elementwise import clip, conj_or_same, divide, equal, floor, isnan, logical_not, maximum, sqrt
from .index import take_along_axis
from .join import concat, stack
from .linalg.products import matmul
from .out_argument import deliver
from .ranges import arange
from .reduction_op import Axis
from .scan import cumulative_sum
from .shape import (
    astype,
    atleast_2d,
    broadcast_to,
    diagonal,
    expand_dims,
    matrix_transpose,
    moveaxis,
    reshape,
    span,
)
from .sort import argsort, sort
from .transfer import complex_of_parts, imag, real
from .where import where  # noqa: F401  where in a gradient expression

__all__ = [
    "average",
    "corrcoef",
    "cov",
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "ptp",
    "quantile",
]

#: (alpha, beta) of the continuous definitions of a quantile: of n sorted elements, counted from 0,
#: the one at position n q + alpha + q (1 - alpha - beta) - 1. Source: Hyndman and Fan (1996),
#: Sample quantiles in statistical packages.
_CONTINUOUS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
#: The discontinuous ones, as the position from which the next one up is taken.
_STEPS = {
    "inverted_cdf": (0.0, 1.0),
    "averaged_inverted_cdf": (0.0, 1.0),
    "closest_observation": (-0.5, 1.5),
}
#: Methods whose results are elements: those of integers are integers.
_ELEMENTS = {"inverted_cdf", "closest_observation", "lower", "higher", "nearest"}
_METHODS = (*_CONTINUOUS, *_STEPS, "lower", "higher", "midpoint", "nearest")


def _lines(
    name: str,
    x: Any,
    axis: Axis,
    method: str = "",
    category: Category = REAL_OR_BOOL,
    as_they_are: bool = False,
) -> tuple[ndarray, tuple[int, ...], tuple[int, ...]]:
    """The array with the axes as one, the last; the axes; the shape. Integers become floats, except
    where the results of a method are elements, or `as_they_are`."""
    x = require(name, x, category)
    if x.dtype not in INEXACT and method not in _ELEMENTS and not as_they_are:
        x = astype(x, dtypes.default_float())
    axes = tuple(range(x.ndim)) if axis is None else normalize_axes(name, axis, x.ndim)
    kept = tuple([i for i in range(x.ndim) if i not in axes])
    shape = x.shape
    moved = moveaxis(x, axes, tuple(range(len(kept), x.ndim)))
    return (
        reshape(moved, (*[shape[i] for i in kept], math.prod([shape[i] for i in axes]))),
        axes,
        shape,
    )


def _restored(
    y: ndarray, axes: tuple[int, ...], shape: tuple[int, ...], keepdims: bool, extra: int
) -> ndarray:
    """A result of lines with the reduced axes, if they are to be kept; `extra` axes stand in
    front."""
    if not keepdims:
        return y
    return reshape(y, (*y.shape[:extra], *[1 if i in axes else n for i, n in enumerate(shape)]))


def _fractions(name: str, q: Any, scale: float) -> np.ndarray:
    """q as numbers from 0 to 1 on the host."""
    try:
        given = np.asarray(q)
        if given.dtype.kind == "c":
            raise TypeError("complex numbers are no fractions")
        host = given.astype(np.float64) / scale
    except (TypeError, ValueError) as error:
        if str(error).startswith(f"{name}: "):  # a gradient would be lost
            raise
        raise TypeError(f"{name}: wants numbers from 0 to {scale:g}, got {q!r:.80}") from None
    if host.ndim > 2:  # NumPy's limit
        raise ValueError(f"{name}: wants a number, a vector or a matrix, got shape {host.shape}")
    if host.size and not (host.min() >= 0 and host.max() <= 1):
        raise ValueError(f"{name}: wants numbers from 0 to {scale:g}, got {q}")
    return host


def _wide_enough(lines: ndarray, q: Any, method: str, percent: bool) -> ndarray:
    """The lines in the dtype of their quantiles, which one of Python's numbers as q does not widen,
    but an array or a list does where elements are interpolated."""
    if type(q) in (int, float) or method in _ELEMENTS or not lines.size:
        return lines
    kind = q.dtype if isinstance(q, ndarray) else np.asarray(q).dtype
    if kind in INTEGER_OR_BOOL:
        if method == "linear" and not percent:  # quantiles 0 and 1 are elements
            return lines
        kind = dtypes.default_float()
    return astype(lines, dtypes.promote(lines.dtype, kind), copy=False)


def _line(q: float, method: str) -> tuple[float, float]:
    """(less, shift): the position of a quantile among n sorted elements is (n - less) q + shift +
    less - 1. Where it is (n - 1) q nothing else is added: it would round a whole number down to its
    neighbour."""
    alpha, beta = (_CONTINUOUS | _STEPS).get(method, (1.0, 1.0))
    return (1.0, 0.0) if alpha == beta == 1 else (0.0, alpha + q * (1 - alpha - beta))


def _place(q: float, n: Any, method: str) -> Any:
    """Where the quantile lies among n sorted elements (n: a number, or an array of them), a
    fraction between two."""
    less, shift = _line(q, method)
    return (n - less) * q + shift + (less - 1)


# low + t (high - low), from the nearer end; exact at both
_between = ufunc.Elementwise(
    "quantile",
    np.maximum,
    "x if z == 0 else (x + (y - x) * z if z < 0.5 else y - (y - x) * (1 - z))",
    ("g * (1 - z)", "g * z", "g * (y - x)"),
    FLOATING,
    "elementwise.between",
    globals(),
)
# a result, but NaN where the last of the sorted elements is
_unless_nan = ufunc.Elementwise(
    "median",
    np.maximum,
    "y if y != y else x",
    ("where(isnan(y), 0, g)", "g * 0"),
    INEXACT,
    "elementwise.unless_nan",
    globals(),
)


_order_statistics = Op(
    "order_statistics", cpu="sort.order_statistics", cuda="sort.radix_select.order_statistics"
)
_nan_quantiles = Op(
    "nan_quantile", cpu="quantiles.nan_quantile", cuda="sort.quantiles.nan_quantile"
)
_average = Op(
    "average",
    cpu="elementwise.average",
    cuda="elementwise.average.average",
    vjp=divide.card.vjp,  # type: ignore[attr-defined]
)
_medians = Op("median_lines", cpu="sort.medians", cuda="sort.rank_sort.medians")
_SHORT = 1 << 14  # elements of lines whose median is found in the registers of a warp or a block
_MOST_RANKS = 5  # that are selected; for more a sort
_LONG, _FEW_LINES = 1 << 14, 1 << 10  # on a GPU short lines, or many, are sorted sooner
_LONGEST = 1 << 31  # there numbers of elements are counted in 32 bits


def _in_order(lines: ndarray, ranks: list[int]) -> Callable[[int, int], ndarray]:
    """Function (rank, count) -> the elements at `count` neighbouring ones of these ranks in the
    order of each line."""
    n, last = lines.shape[-1], lines.ndim - 1
    if (
        lines._node is None
        and lines.dtype not in COMPLEX
        and len(ranks) <= _MOST_RANKS
        and (
            lines._layout.device == CPU or (_LONG <= n < _LONGEST and lines.size <= n * _FEW_LINES)
        )
    ):
        found = _order_statistics(lines, ranks=tuple(ranks))
        place = {rank: i for i, rank in enumerate(ranks)}
        return lambda rank, count: span(found, last, place[rank], place[rank] + count)
    ordered = sort(lines)
    return lambda rank, count: span(ordered, last, rank, rank + count)


def _weighted(
    name: str,
    x: Any,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    out: Any,
    scale: float,
    weights: Any,
    skip: bool = False,
) -> ndarray:
    """The first elements, in order, up to which a fraction q of the weight lies; skip: NaN weighs
    nothing."""
    if method != "inverted_cdf":
        raise ValueError(f"{name}: Only method 'inverted_cdf' supports weights, got {method!r}")
    x, weights = coerce(name, (x, weights), REAL_OR_BOOL)
    if weights.shape != x.shape:
        if (
            not isinstance(axis, int)
            or weights.ndim != 1
            or weights.size != x.shape[normalize_axes(name, axis, x.ndim)[0]]
        ):
            raise ValueError(
                f"{name}: weights of shape {weights.shape} fit neither shape {x.shape} nor axis "
                f"{axis}"
            )
        weights = broadcast_to(
            moveaxis(expand_dims(weights, axis=tuple(range(1, x.ndim))), 0, axis), x.shape
        )
    fractions = _fractions(name, q, scale)
    lines, axes, shape = _lines(name, x, axis, method)
    heavy, _, _ = _lines(name, weights, axis)
    exact = lines.dtype not in INEXACT  # has no NaN
    skip = skip and not exact
    n = lines.shape[-1]
    if not n:
        raise IndexError(f"{name}: no elements along axes {axes} of an array of shape {shape}")
    if bool(reduce.any(heavy < 0)):
        raise ValueError(f"{name}: Weights must be non-negative")
    heavy = astype(heavy, np.float64)
    if skip:
        heavy = where(isnan(lines), 0.0, heavy)
    order = argsort(lines)  # NaN comes last
    ordered, parts = (
        take_along_axis(lines, order, axis=-1),
        cumulative_sum(take_along_axis(heavy, order, axis=-1), axis=-1),
    )
    total = span(parts, parts.ndim - 1, n - 1, n)
    if not skip and not bool(reduce.all((total > 0) & (total < np.inf))):
        raise ValueError(f"{name}: Weights included NaN, inf or were all zero")
    parts = where(
        parts == 0, -1.0, parts / total
    )  # what weighs nothing in front is nobody's quantile
    end = ordered[..., n - 1]

    def one(q: float) -> ndarray:
        place = clip(reduce.sum(parts < q, axis=-1, keepdims=True), 0, n - 1)
        found = take_along_axis(ordered, place, axis=-1)[..., 0]
        if exact:
            return found
        return where(total[..., 0] > 0, found, np.nan) if skip else _unless_nan.call((found, end))

    found = stack([one(float(f)) for f in fractions.ravel()]) if fractions.size else lines[:0]
    y = _restored(
        reshape(found, (*fractions.shape, *lines.shape[:-1])), axes, shape, keepdims, fractions.ndim
    )
    return y if out is None else deliver(name, y, out)


def _quantile(
    name: str,
    x: Any,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    out: Any,
    scale: float,
    weights: Any = None,
) -> ndarray:
    if method not in _METHODS:
        raise ValueError(f"{name}: method must be one of {', '.join(_METHODS)}, got {method!r}")
    if weights is not None:
        return _weighted(name, x, q, axis, method, keepdims, out, scale, weights)
    x = require(name, x, REAL_OR_BOOL)
    fractions = _fractions(name, q, scale)
    whole = (q.dtype if hasattr(q, "dtype") else np.asarray(q).dtype).kind in "biu"
    if method == "linear" and scale == 1 and whole:
        method = "lower"  # an end, which needs no floats
    lines, axes, shape = _lines(name, x, axis, method)
    lines = _wide_enough(lines, q, method, scale != 1)
    n = lines.shape[-1]
    if not n:
        raise IndexError(f"{name}: no elements along axes {axes} of an array of shape {shape}")
    places = [
        min(max(rounded(_place(float(q), n, method), method, np), 0), n - 1)
        for q in fractions.ravel()
    ]
    at = _in_order(
        lines,
        sorted(
            {n - 1, *map(int, places), *(min(int(p) + 1, n - 1) for p in places if p != int(p))}
        ),
    )
    end = at(n - 1, 1)[..., 0]  # NaN if there is one

    def one(place: float) -> ndarray:
        i = int(place)
        low = at(i, 1)[..., 0]
        if method in _ELEMENTS and lines.dtype not in INEXACT:
            return low
        found = (
            low
            if place == i
            else _between.call((low, at(min(i + 1, n - 1), 1)[..., 0], float(place - i)))
        )
        return _unless_nan.call((found, end))

    if fractions.ndim == 0:
        found = one(places[0])
    else:
        found = stack([one(place) for place in places]) if places else lines[:0]
        found = reshape(found, (*fractions.shape, *end.shape))
    y = _restored(found, axes, shape, keepdims, fractions.ndim)
    return y if out is None else deliver(name, y, out)


@fast_path("x", "weights")
def quantile(
    x: ArrayLike,
    /,
    q: ArrayLike,
    axis: Axis = None,
    out: ndarray | None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> ndarray:
    """The numbers below which a fraction q of the elements lies, over axes.

    Parameters
    ----------
    x : array_like
        Real or bool array.
    q : array_like
        Fractions from 0 to 1, of at most two dimensions. The host reads them.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.
    out : ndarray, optional
        Array that receives the result.
    overwrite_input : bool, default False
        Accepted for compatibility with NumPy. The input is never overwritten.
    method : str, default "linear"
        How positions between two elements are interpolated: "linear" (or another definition of
        Hyndman and Fan, by NumPy's name), "lower", "higher", "midpoint" or "nearest".
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    weights : array_like, optional
        Weights of the elements, of x's shape or along the one axis. They need the method
        "inverted_cdf".

    Returns
    -------
    ndarray
        Array of x's dtype (of the default floating-point dtype for integers). Its shape is q's,
        then x's without the axes. It is NaN where a line has a NaN.

    Raises
    ------
    ValueError
        `q` or the axis is out of range, the method is unknown, the weights do not fit, or there are
        no elements.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient goes to the elements that the result was computed from. `q` is a constant
    (TypeError if its gradient is recorded). Long lines take one selection, others one sort.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.quantile([4.0, 1.0, 3.0, 2.0], [0.0, 0.5, 0.9]).tolist()
    [1.0, 2.5, 3.7]
    """
    return _quantile("quantile", x, q, axis, method, keepdims, out, 1.0, weights)


@fast_path("x", "weights")
def percentile(
    x: ArrayLike,
    /,
    q: ArrayLike,
    axis: Axis = None,
    out: ndarray | None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> ndarray:
    """Return percentiles: ``quantile`` for q from 0 to 100.

    Parameters
    ----------
    x : array_like
        Real or bool array.
    q : array_like
        Numbers from 0 to 100, of at most two dimensions. The host reads them.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.
    out : ndarray, optional
        Array that receives the result.
    overwrite_input : bool, default False
        Accepted for compatibility with NumPy. The input is never overwritten.
    method : str, default "linear"
        How positions between two elements are interpolated: "linear" (or another definition of
        Hyndman and Fan, by NumPy's name), "lower", "higher", "midpoint" or "nearest".
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    weights : array_like, optional
        Weights of the elements, of x's shape or along the one axis. They need the method
        "inverted_cdf".

    Returns
    -------
    ndarray
        Array of x's dtype (of the default floating-point dtype for integers). Its shape is q's,
        then x's without the axes. It is NaN where a line has a NaN.

    Raises
    ------
    ValueError
        `q` or the axis is out of range, the method is unknown, the weights do not fit, or there are
        no elements.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient is that of `quantile`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.percentile([4.0, 1.0, 3.0, 2.0], 50))
    2.5
    """
    return _quantile("percentile", x, q, axis, method, keepdims, out, 100.0, weights)


@fast_path("x")
def median(
    x: ArrayLike,
    /,
    axis: Axis = None,
    out: ndarray | None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> ndarray:
    """The middle element in sorted order, or the mean of the two in the middle, over axes.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.
    out : ndarray, optional
        Array that receives the result.
    overwrite_input : bool, default False
        Accepted for compatibility with NumPy. The input is never overwritten.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray
        Array of x's dtype (of the default floating-point dtype for integers). It is NaN where a
        line has a NaN, or no element.

    Raises
    ------
    ValueError
        The axis is out of range.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient goes to the elements in the middle. Long lines take one selection, others one sort.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.median([[4, 1, 3], [2, 9, 7]], axis=1).tolist()
    [3.0, 7.0]
    """
    lines, axes, shape = _lines("median", x, axis, category=ANY, as_they_are=True)
    n = lines.shape[-1]
    whole = lines.dtype not in INEXACT
    if whole and n <= _SHORT:
        lines = astype(lines, dtypes.default_float())
    if 0 < n <= _SHORT and lines._node is None and lines.dtype not in COMPLEX:
        y = _medians(lines, skip=False)
    elif not n:
        y = reduce.mean(lines, axis=-1)
    else:
        low, high = (n - 1) // 2, n // 2
        middle = range(low, high + 1)
        at = _in_order(lines, [*middle] if whole else [*middle, n - 1])
        found = at(low, len(middle))
        if whole:  # integers have fewer digits than the floats that their mean is
            y = reduce.mean(astype(found, dtypes.default_float()), axis=-1)
        else:
            y = _unless_nan(reduce.mean(found, axis=-1), at(n - 1, 1)[..., 0])
    y = _restored(y, axes, shape, keepdims, 0)
    return y if out is None else deliver("median", y, out, "unsafe")


def _nan_quantile(
    name: str,
    x: Any,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    out: Any,
    scale: float,
    weights: Any = None,
) -> ndarray:
    if method not in _METHODS:
        raise ValueError(f"{name}: method must be one of {', '.join(_METHODS)}, got {method!r}")
    if weights is not None:
        return _weighted(name, x, q, axis, method, keepdims, out, scale, weights, skip=True)
    x = require(name, x, REAL_OR_BOOL)
    if x.dtype not in INEXACT and x.size:
        return _quantile(name, x, q, axis, method, keepdims, out, scale)
    lines, axes, shape = _lines(name, x, axis)
    fractions = _fractions(name, q, scale)
    lines = _wide_enough(lines, q, method, scale != 1)
    if not lines.shape[-1]:
        found = full(
            (*fractions.shape, *lines.shape[:-1]), np.nan, lines.dtype, device=lines.device
        )
        y = _restored(found, axes, shape, keepdims, fractions.ndim)
        return y if out is None else deliver(name, y, out)
    ordered = sort(lines)  # NaN comes last
    wide = (
        np.float64
        if lines.dtype == np.float64 or lines.shape[-1] >= 1 << 24 or method not in _CONTINUOUS
        else np.float32
    )
    one = (
        functools.partial(_among_numbers, ordered, np.dtype(wide), method)
        if lines._node is None
        else (_between_neighbours(lines, ordered, wide, method))
    )
    if not fractions.ndim:
        found = one(fractions.item())
    else:
        found = stack([one(float(f)) for f in fractions.ravel()]) if fractions.size else lines[:0]
        found = reshape(found, (*fractions.shape, *lines.shape[:-1]))
    y = _restored(found, axes, shape, keepdims, fractions.ndim)
    return y if out is None else deliver(name, y, out)


def _among_numbers(ordered: ndarray, wide: np.dtype, method: str, q: float) -> ndarray:
    return _nan_quantiles(ordered, scalars=(q, *_line(q, method)), method=method, wide=wide)


def _between_neighbours(
    lines: ndarray, ordered: ndarray, wide: Any, method: str
) -> Callable[[float], ndarray]:
    """Function of q: the quantiles of lines by operations whose gradients are known. ordered: the
    lines, sorted."""
    count = astype(reduce.sum(logical_not(isnan(lines)), axis=-1, keepdims=True), wide)

    def one(q: float) -> ndarray:
        place = rounded(_place(q, count, method), method, elementwise)
        place = clip(place, 0, clip(count - 1, 0, None))
        below = floor(place)
        i = astype(below, np.int64)
        above = astype(clip(below + 1, None, clip(count - 1, 0, None)), np.int64)
        t = astype(place - below, lines.dtype)
        return _between.call((take_along_axis(ordered, i), take_along_axis(ordered, above), t))[
            ..., 0
        ]

    return one


@fast_path("x", "weights")
def nanquantile(
    x: ArrayLike,
    /,
    q: ArrayLike,
    axis: Axis = None,
    out: ndarray | None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> ndarray:
    """Return quantiles of the elements that are not NaN.

    They are NaN where there are none.

    Parameters
    ----------
    x : array_like
        Real or bool array.
    q : array_like
        Fractions from 0 to 1, of at most two dimensions. The host reads them.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.
    out : ndarray, optional
        Array that receives the result.
    overwrite_input : bool, default False
        Accepted for compatibility with NumPy. The input is never overwritten.
    method : str, default "linear"
        How positions between two elements are interpolated: "linear" (or another definition of
        Hyndman and Fan, by NumPy's name), "lower", "higher", "midpoint" or "nearest".
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    weights : array_like, optional
        Weights of the elements, of x's shape or along the one axis. They need the method
        "inverted_cdf".

    Returns
    -------
    ndarray
        Array of x's dtype (of the default floating-point dtype for integers). Its shape is q's,
        then x's without the axes. It is NaN where a line has a NaN.

    Raises
    ------
    ValueError
        `q` or the axis is out of range, the method is unknown, the weights do not fit, or there are
        no elements.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient is that of `quantile`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanquantile([4.0, cm.nan, 3.0, 2.0], 0.5))
    3.0
    """
    return _nan_quantile("nanquantile", x, q, axis, method, keepdims, out, 1.0, weights)


@fast_path("x", "weights")
def nanpercentile(
    x: ArrayLike,
    /,
    q: ArrayLike,
    axis: Axis = None,
    out: ndarray | None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> ndarray:
    """Return percentiles of the elements that are not NaN: ``nanquantile`` for q from 0 to 100.

    Parameters
    ----------
    x : array_like
        Real or bool array.
    q : array_like
        Numbers from 0 to 100, of at most two dimensions. The host reads them.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.
    out : ndarray, optional
        Array that receives the result.
    overwrite_input : bool, default False
        Accepted for compatibility with NumPy. The input is never overwritten.
    method : str, default "linear"
        How positions between two elements are interpolated: "linear" (or another definition of
        Hyndman and Fan, by NumPy's name), "lower", "higher", "midpoint" or "nearest".
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    weights : array_like, optional
        Weights of the elements, of x's shape or along the one axis. They need the method
        "inverted_cdf".

    Returns
    -------
    ndarray
        Array of x's dtype (of the default floating-point dtype for integers). Its shape is q's,
        then x's without the axes. It is NaN where a line has a NaN.

    Raises
    ------
    ValueError
        `q` or the axis is out of range, the method is unknown, the weights do not fit, or there are
        no elements.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient is that of `nanquantile`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanpercentile([4.0, cm.nan, 3.0, 2.0], 50))
    3.0
    """
    return _nan_quantile("nanpercentile", x, q, axis, method, keepdims, out, 100.0, weights)


@fast_path("x")
def nanmedian(
    x: ArrayLike,
    /,
    axis: Axis = None,
    out: ndarray | None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> ndarray:
    """Return the median over axes of the elements that are not NaN.

    It is NaN where there are none.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.
    out : ndarray, optional
        Array that receives the result.
    overwrite_input : bool, default False
        Accepted for compatibility with NumPy. The input is never overwritten.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray
        Array of x's dtype (of the default floating-point dtype for integers). It is NaN where a
        line has a NaN, or no element.

    Raises
    ------
    ValueError
        The axis is out of range.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient is that of `median`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanmedian([4.0, cm.nan, 3.0, 2.0]))
    3.0
    """
    x = require("nanmedian", x)
    if x.dtype not in INEXACT or not x.size:
        try:
            return median(x, axis, out, keepdims=keepdims)
        except MISTAKES as error:
            raise as_of("nanmedian", error) from None
    lines, axes, shape = _lines("nanmedian", x, axis, category=ANY)
    by_kernels = lines._node is None and lines.dtype not in COMPLEX
    if by_kernels and lines.shape[-1] <= _SHORT:
        y = _restored(_medians(lines, skip=True), axes, shape, keepdims, 0)
        return y if out is None else deliver("nanmedian", y, out, "unsafe")
    ordered = sort(lines)  # NaN comes last
    if by_kernels:
        how = {"method": "median", "wide": np.dtype(np.float32)}
        y = _restored(
            _nan_quantiles(ordered, scalars=(0.0, 0.0, 0.0), **how), axes, shape, keepdims, 0
        )
        return y if out is None else deliver("nanmedian", y, out, "unsafe")
    count = reduce.sum(equal(lines, lines), axis=-1, keepdims=True)
    middle = take_along_axis(
        ordered, (count - arange(1, -1, -1, device=x.device)) // 2
    )  # two, or one twice
    y = _restored(reduce.sum(middle * 0.5, axis=-1), axes, shape, keepdims, 0)
    return y if out is None else deliver("nanmedian", y, out, "unsafe")


@fast_path("x")
def ptp(
    x: ArrayLike, /, axis: Axis = None, out: ndarray | None = None, keepdims: bool = False
) -> ndarray:
    """Largest minus smallest element, over axes.

    Parameters
    ----------
    x : array_like
        Numeric array with at least one element along the axes.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range, or there are no elements.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ptp([[4, 1, 3], [2, 9, 7]], axis=1).tolist()
    [3, 7]
    """
    x = require("ptp", x, NUMERIC)
    try:
        y = reduce.max(x, axis, keepdims=keepdims) - reduce.min(x, axis, keepdims=keepdims)
    except MISTAKES as error:
        raise as_of("ptp", error) from None
    return y if out is None else deliver("ptp", y, out)


@fast_path("x", "weights")
def average(
    x: Any,
    /,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Weighted mean: Σ w x / Σ w.

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.
    weights : array_like, optional
        Weights, an array of x's shape or of the shape of its axes. None gives each element the
        weight 1.
    returned : bool, default False
        Whether the sums of the weights are returned as well.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray or tuple of ndarray
        The mean, or with `returned` the pair (mean, sums of the weights), of equal shapes.

    Raises
    ------
    ValueError
        The axis is out of range, or the shapes do not fit each other.
    TypeError
        The dtype is not supported, or the weights have another shape and there is no axis.
    ZeroDivisionError
        The weights add up to 0. On a GPU the next synchronising call raises the error.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.average([1.0, 2.0, 4.0], weights=[2, 1, 1]))
    2.0
    """
    x = require("average", x)
    if weights is None:
        try:
            y = reduce.mean(x, axis, keepdims=keepdims)
        except MISTAKES as error:
            raise as_of("average", error) from None
        count = x.size / max(y.size, 1)
        return (y, full(y.shape, count, y.dtype, device=y.device)) if returned else y
    alike = (
        isinstance(weights, ndarray) and weights._layout is x._layout and x._layout.dtype in INEXACT
    )
    x, w = (x, weights) if alike else coerce("average", (x, weights), ANY)
    if w.shape != x.shape:
        if axis is None:
            raise TypeError(
                f"average: weights of shape {w.shape} for an array of shape {x.shape} want an axis"
            )
        axes = normalize_axes("average", axis, x.ndim)
        if w.shape != tuple([x.shape[a] for a in axes]):
            raise ValueError(
                f"average: weights of shape {w.shape} do not fit axes {axes} of an array of shape "
                f"{x.shape}"
            )
        order = sorted(range(len(axes)), key=axes.__getitem__)
        w = reshape(
            w.transpose(order), tuple([n if i in axes else 1 for i, n in enumerate(x.shape)])
        )
    if not alike:
        kind = dtypes.result_type(x, w)
        if x.dtype in INTEGER_OR_BOOL:
            kind = dtypes.promote(kind, dtypes.default_float())
        x, w = astype(x, kind, copy=False), broadcast_to(astype(w, kind, copy=False), x.shape)
    half = x._layout.dtype == dtypes.float16  # sums may lie beyond it
    if half:
        x, w = reduce.wide(x), reduce.wide(w)
    try:
        total = reduce.sum(w, axis, keepdims=keepdims)
        y = _average(reduce.sum(x * w, axis, keepdims=keepdims), total)
    except MISTAKES as error:
        raise as_of("average", error) from None
    if half:
        y, total = astype(y, dtypes.float16), astype(total, dtypes.float16)
    return (y, total if total.is_contiguous else total.copy()) if returned else y


def ndarray_of(value: float, like: ndarray) -> ndarray:
    """A number as a 0-d array beside another."""
    return full((), value, device=like.device)


@fast_path("x", "y", "fweights", "aweights", scalars=False)
@speaks_for("cov")
def cov(
    x: ArrayLike,
    /,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> ndarray:
    """Covariance matrix: C[i, j] = Σ_k w_k (x[i, k] - m_i) conj(x[j, k] - m_j) / f.

    Parameters
    ----------
    x : array_like
        Vector or matrix. A row is a variable, and a column is an observation (``rowvar=False``
        exchanges the two).
    y : array_like, optional
        Further variables, in the layout of `x`.
    rowvar : bool, default True
        Whether rows are variables. False exchanges rows and columns.
    bias : bool, default False
        Whether the sums are divided by the number of observations instead of that number less one.
    ddof : int, optional
        Degrees of freedom to subtract. It takes precedence over `bias`.
    fweights : array_like, optional
        Integer frequencies of the observations.
    aweights : array_like, optional
        Weights of the observations.
    dtype : dtype_like, optional
        Dtype of the result, floating-point or complex. The default is at least float64.

    Returns
    -------
    ndarray
        Matrix, or 0-d for one variable.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or the weights do not fit.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    x = require("cov", x)
    if x.ndim > 2:
        raise ValueError(f"cov: wants at most 2 dimensions, got shape {x.shape}")
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"cov: ddof must be an integer, got {ddof}")
    result = _spread_dtype("cov", x, y, dtype)
    kind = dtypes.compute_dtype(result)

    def rows(given: Any) -> ndarray:
        given = coerce("cov", (x, given))[1]
        matrix = astype(atleast_2d(given), kind, copy=False)
        return matrix if rowvar or given.ndim < 2 else matrix_transpose(matrix)

    data = rows(x) if y is None else concat([rows(x), rows(y)])
    weights = _observed(x, fweights, aweights, data.shape[1], dtypes.real_dtype(kind))
    correction: Any = (0 if bias else 1) if ddof is None else int(ddof)
    if weights is None:
        total: Any = data.shape[1]
        freedom: Any = max(total - correction, 0)
        mean = reduce.mean(data, axis=1, keepdims=True)
        away = data - mean
        product = matmul(away, conj_or_same(matrix_transpose(away)))
    else:
        total = reduce.sum(weights)
        if aweights is not None:
            reliable = astype(coerce("cov", (x, aweights))[1], weights.dtype)
            correction = correction * (reduce.sum(weights * reliable) / total)
        freedom = maximum(total - correction, 0)
        mean = reduce.sum(data * weights, axis=1, keepdims=True) / total
        away = data - mean
        product = matmul(away * weights, conj_or_same(matrix_transpose(away)))
    out = astype(product / freedom, result, copy=False)
    return reshape(out, ()) if out.shape == (1, 1) else out


def _spread_dtype(name: str, x: ndarray, y: Any, dtype: Any) -> np.dtype:
    """The dtype of a matrix of covariances or correlations."""
    if dtype is not None:
        found = dtypes.as_dtype(dtype, name)
        if found not in INEXACT:
            raise TypeError(f"{name}: wants a floating-point or complex dtype, got {found}")
        return found
    found = dtypes.result_type(x, *(() if y is None else (require(name, y),)))
    wide = dtypes.default_float()
    return dtypes.promote(found, wide) if found in INEXACT else wide


def _observed(
    x: ndarray, fweights: Any, aweights: Any, count: int, kind: np.dtype
) -> ndarray | None:
    """The weight of each of so many observations: the product of what is given; None for
    neither."""
    weights = None
    for given, name in ((fweights, "fweights"), (aweights, "aweights")):
        if given is None:
            continue
        w = coerce("cov", (x, given))[1]
        if w.shape != (count,):
            raise RuntimeError(f"cov: {name} of shape {w.shape} do not fit {count} observations")
        if name == "fweights" and w.dtype.kind not in "iu":
            raise TypeError(f"cov: fweights must be integers, got {w.dtype}")
        if bool(reduce.any(w < 0)):
            raise ValueError(f"cov: {name} cannot be negative")
        w = astype(w, kind)
        weights = w if weights is None else weights * w
    return weights


@fast_path("x", "y")
@speaks_for("corrcoef")
def corrcoef(
    x: ArrayLike,
    /,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    *,
    dtype: DTypeLike | None = None,
) -> ndarray:
    """Correlation matrix: R[i, j] = C[i, j] / sqrt(C[i, i] C[j, j]), clipped to [-1, 1].

    Parameters
    ----------
    x : array_like
        Vector or matrix. A row is a variable, and a column is an observation (``rowvar=False``
        exchanges the two).
    y : array_like, optional
        Further variables, in the layout of `x`.
    rowvar : bool, default True
        Whether rows are variables. False exchanges rows and columns.
    dtype : dtype_like, optional
        Dtype of the result, at least floating-point.

    Returns
    -------
    ndarray
        Matrix, or 0-d for one variable.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or the weights do not fit.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.corrcoef([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    x = require("corrcoef", x)
    result = _spread_dtype("corrcoef", x, y, dtype)
    c = cov(x, y, rowvar, dtype=dtypes.compute_dtype(result))
    if not c.ndim:
        return astype(c / c, result, copy=False)
    spread = sqrt(real(diagonal(c)))
    c = c / expand_dims(spread, axis=1) / spread
    if c.dtype.kind == "c":
        return complex_of_parts(clip(real(c), -1, 1), clip(imag(c), -1, 1))
    return astype(clip(c, -1, 1), result, copy=False)
