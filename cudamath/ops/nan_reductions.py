"""Reductions that leave NaN out, and what else treats NaN and infinities apart. Kernels:
kernels/reduce/dispatch.py."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import coerce, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import COMPLEX, FLOATING, INEXACT, REAL_OR_BOOL
from ..core.dtypes import compute_dtype, default_float, real_dtype
from ..core.scalar import scalar_results
from ..core.shapes import normalize_axes
from ..core.specs import reductions as specs
from ..core.typing import ArrayLike, DTypeLike
from . import reduce, reduction_op, ufunc
from .elementwise import abs, add, equal, isfinite, isnan, logical_not, maximum, multiply, sqrt  # noqa: F401  (gradients)
from .elementwise_numpy import fmax, fmin
from .out_argument import deliver
from .reduction_op import Axis, ReductionOp
from .shape import _broadcast_as, astype, reshape
from .transfer import complex_of_parts, imag, real
from .where import where as choose

__all__ = [
    "isneginf",
    "isposinf",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


# -------------------- gradients


def _there(x: ndarray, value: Any) -> ndarray:
    """A value where x is a number, else 0."""
    return choose(isnan(x), 0, value)


def _count(x: ndarray, axis: tuple) -> ndarray:
    """How many numbers there are along axes, which stay with length 1; for 16-bit floats in
    float32."""
    return astype(
        reduce.sum(logical_not(isnan(x)), axis=axis, keepdims=True),
        compute_dtype(real_dtype(x.dtype)),
    )


def _prod_grad(g: ndarray, _y: Any, x: ndarray, *, axis: tuple, dtype: np.dtype, **_: Any) -> tuple:
    return (_there(x, reduce._prod_grad(g, choose(isnan(x), 1, x), axis, dtype)),)


def _mean_grad(g: ndarray, _y: Any, x: ndarray, *, axis: tuple, **_: Any) -> tuple:
    return (_there(x, reduce._kept(g, x.shape, axis) / _count(x, axis)),)


def _extreme_grad(g: ndarray, y: ndarray, x: ndarray, *, axis: tuple, **_: Any) -> tuple:
    hit = astype(equal(x, reduce._kept(y, x.shape, axis)), x.dtype)
    return (
        hit
        * (reduce._kept(g, x.shape, axis) / maximum(reduce.sum(hit, axis=axis, keepdims=True), 1)),
    )


def _apart(x: ndarray, axis: tuple) -> ndarray:
    """x less its mean along axes, not rounded to 16 bits; 0 where there is nothing, whose NaN would
    come back by derivatives of a gradient."""
    x = astype(x, compute_dtype(x.dtype), copy=False)
    mean = nanmean(x, axis=axis, keepdims=True)
    return choose(isnan(x), mean, x) - mean


def _var_grad(
    g: ndarray, _y: Any, x: ndarray, *, axis: tuple, correction: float, **_: Any
) -> tuple:
    apart = _apart(x, axis)
    return (
        _there(
            x,
            apart
            * (reduce._kept(g, x.shape, axis) * (2 / maximum(_count(x, axis) - correction, 0))),
        ),
    )


def _std_grad(
    g: ndarray, y: ndarray, x: ndarray, *, axis: tuple, correction: float, **_: Any
) -> tuple:
    apart = _apart(x, axis)
    deviation = reduce._kept(y, x.shape, axis)
    below = choose(deviation == 0, 1, deviation * maximum(_count(x, axis) - correction, 0))
    return (_there(x, apart * choose(deviation == 0, 0, reduce._kept(g, x.shape, axis) / below)),)


# -------------------- cards


def _masked(x: ndarray, where: Any) -> ndarray:
    """NaN where elements are left out."""
    x = x if x.dtype in INEXACT else astype(x, default_float())
    return choose(where, x, np.nan)


def _masked_nanmean(x: ndarray, where: Any, axis: Axis, keepdims: bool, **more: Any) -> ndarray:
    return nanmean(_masked(x, where), axis, keepdims=keepdims, **more)


def _masked_nanvar(x: ndarray, where: Any, axis: Axis, keepdims: bool, **more: Any) -> ndarray:
    return nanvar(_masked(x, where), axis, keepdims=keepdims, **more)


def _masked_nanstd(x: ndarray, where: Any, axis: Axis, keepdims: bool, **more: Any) -> ndarray:
    return nanstd(_masked(x, where), axis, keepdims=keepdims, **more)


_nansum = ReductionOp(
    specs.NANSUM,
    lambda g, _y, x, *, axis, **_: (_there(x, reduce._kept(g, x.shape, axis)),),
    combine=add,
)
_nanprod = ReductionOp(specs.NANPROD, _prod_grad, combine=multiply)
_nanmean = ReductionOp(specs.NANMEAN, _mean_grad, masked=_masked_nanmean)
_nanmax = ReductionOp(specs.NANMAX, _extreme_grad, combine=fmax)
_nanmin = ReductionOp(specs.NANMIN, _extreme_grad, combine=fmin)
_nanvar = ReductionOp(specs.NANVAR, _var_grad, masked=_masked_nanvar)
_nanstd = ReductionOp(specs.NANSTD, _std_grad, masked=_masked_nanstd)

# -------------------- reductions


@fast_path("x")
@_nansum.with_numpy_options
@speaks_for("nansum")
def nansum(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    keepdims: bool = False,
) -> ndarray:
    """Sum over axes of the elements that are not NaN; 0 if there are none.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype of the result, in which the sum is computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    initial : scalar, optional
        Number that is added to the result.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of `dtype`, of x's shape without the reduced axes. The sum of no elements is 0.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    Gradient: g where there is no NaN.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nansum([1.0, cm.nan, 2.0]))
    3.0
    """
    x = require("nansum", x)
    if x.dtype not in INEXACT:
        return reduce.sum(x, axis, dtype=dtype, keepdims=keepdims)
    if reduction_op.loses_nan("nansum", x, dtype):
        return reduce.sum(choose(isnan(x), 0, x), axis, dtype=dtype, keepdims=keepdims)
    x, kind = reduction_op.total_in("nansum", x, dtype)
    return _nansum.reduce(x, axis, keepdims, kind, out)


@fast_path("x")
@_nanprod.with_numpy_options
@speaks_for("nanprod")
def nanprod(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    keepdims: bool = False,
) -> ndarray:
    """Product over axes of the elements that are not NaN; 1 if there are none.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype of the result, in which the sum is computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    initial : scalar, optional
        Number that multiplies the result.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of `dtype`. The product of no elements is 1.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    The gradient is that of `prod` where there is no NaN.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanprod([2.0, cm.nan, 3.0]))
    6.0
    """
    x = require("nanprod", x)
    if x.dtype not in INEXACT:
        return reduce.prod(x, axis, dtype=dtype, keepdims=keepdims)
    if reduction_op.loses_nan("nanprod", x, dtype):
        return reduce.prod(choose(isnan(x), 1, x), axis, dtype=dtype, keepdims=keepdims)
    x, kind = reduction_op.total_in("nanprod", x, dtype)
    return _nanprod.reduce(x, axis, keepdims, kind, out)


@fast_path("x")
@_nanmean.with_numpy_options
@speaks_for("nanmean")
def nanmean(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    keepdims: bool = False,
) -> ndarray:
    """Mean over axes of the elements that are not NaN; NaN if there are none.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype to which the elements are converted first.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of x's dtype, or of the default floating-point dtype (float64) for integers and bool.
        The mean of no elements is NaN.

    Raises
    ------
    TypeError
        The dtype is not supported, or complex numbers would lose their imaginary parts.
    ValueError
        An axis is out of range or occurs twice.

    Notes
    -----
    Gradient: g / count where there is no NaN.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanmean([1.0, cm.nan, 3.0]))
    2.0
    """
    x = require("nanmean", x)
    if x.dtype not in INEXACT:
        return reduce.mean(x, axis, dtype=dtype, keepdims=keepdims)
    x = reduce._spread_in("nanmean", x, dtype)  # whole numbers have no NaN
    return _nanmean.reduce(x, axis, keepdims, x.dtype, out)


def _about(
    function: Any, x: ndarray, axis: Axis, keepdims: bool, *, correction: Any, ddof: Any, mean: Any
) -> ndarray:
    """Variance or standard deviation of what is not NaN about a given mean, which does not widen
    it, as NumPy has it here; NaN if that is too little for the correction."""
    there = logical_not(isnan(x))
    y = function(
        x,
        axis,
        dtype=x.dtype,
        keepdims=keepdims,
        correction=correction,
        ddof=ddof,
        where=there,
        mean=mean,
    )
    enough = reduce.sum(there, axis, keepdims=keepdims) > reduce._freedom(
        "nanvar", correction, ddof
    )
    return choose(enough, y, np.nan)


@fast_path("x")
@_nanvar.with_numpy_options
@speaks_for("nanvar")
def nanvar(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    ddof: float | None = None,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    mean: ArrayLike | None = None,
) -> ndarray:
    """Variance over axes of the elements that are not NaN.

    It is NaN if there are none, or too few for the correction. A ``mean`` of a wider dtype does not
    widen the result of floating-point numbers.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape. Complex numbers contribute |x - mean|^2.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype to which the elements are converted first.
    out : ndarray, optional
        Array that receives the result.
    ddof : float, optional
        NumPy's name of `correction`.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    correction : float, optional
        Degrees of freedom to subtract: 0 gives the variance of a population, 1 the unbiased
        estimate from a sample. The default is 0.
    mean : array_like, optional
        The mean with the reduced axes kept, if it is known. It saves no work: one pass computes
        both.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of `dtype`, or of x's dtype, or of the default floating-point dtype (float64) for
        integers and bool. A `mean` that is an array of a wider dtype widens the result where no
        `dtype` is given. The result is NaN or infinite if n <= correction.

    Raises
    ------
    TypeError
        The dtype is not floating-point, or complex numbers would lose their imaginary parts.
    ValueError
        An axis is out of range or occurs twice, or both `correction` and `ddof` are given.

    Notes
    -----
    Gradient: g 2 (x - mean) / (count - correction) where there is no NaN.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanvar([1.0, cm.nan, 3.0]))
    1.0
    """
    x = require("nanvar", x)
    if x.dtype not in INEXACT:
        return reduce.var(
            x, axis, dtype=dtype, correction=correction, ddof=ddof, keepdims=keepdims, mean=mean
        )
    x = reduce._spread_in("nanvar", x, dtype)
    if mean is not None:
        return _about(reduce.var, x, axis, keepdims, correction=correction, ddof=ddof, mean=mean)
    if x.dtype in COMPLEX:  # |x - mean|^2, whose mean is one of real numbers
        apart = x - nanmean(x, axis, keepdims=True)
        count = _count(
            x, tuple(range(x.ndim)) if axis is None else normalize_axes("nanvar", axis, x.ndim)
        )
        squared = real(apart) * real(apart) + imag(apart) * imag(apart)
        y = reduce.sum(choose(isnan(x), 0, squared), axis, keepdims=True)
        freedom = count - reduce._freedom("nanvar", correction, ddof)
        y = choose(freedom > 0, y / choose(freedom > 0, freedom, 1), np.nan)
        return y if keepdims else reshape(y, reduce.sum(apart, axis).shape)
    return _nanvar.reduce(
        x,
        axis,
        keepdims,
        x.dtype,
        out,
        correction=reduce._freedom("nanvar", correction, ddof),
    )


@fast_path("x")
@_nanstd.with_numpy_options
@speaks_for("nanstd")
def nanstd(
    x: ArrayLike,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    ddof: float | None = None,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    mean: ArrayLike | None = None,
) -> ndarray:
    """Standard deviation over axes of the elements that are not NaN: the root of ``nanvar``.

    Parameters
    ----------
    x : array_like
        Numeric or bool array of any shape. Complex numbers contribute |x - mean|^2.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    dtype : dtype_like, optional
        Dtype to which the elements are converted first.
    out : ndarray, optional
        Array that receives the result.
    ddof : float, optional
        NumPy's name of `correction`.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    correction : float, optional
        Degrees of freedom to subtract: 0 gives the variance of a population, 1 the unbiased
        estimate from a sample. The default is 0.
    mean : array_like, optional
        The mean with the reduced axes kept, if it is known. It saves no work: one pass computes
        both.
    where : array_like, default True
        Bool array that broadcasts to x's shape. Elements at which it is False are left out.

    Returns
    -------
    ndarray
        Array of `dtype`, or of x's dtype, or of the default floating-point dtype (float64) for
        integers and bool. A `mean` that is an array of a wider dtype widens the result where no
        `dtype` is given. The result is NaN or infinite if n <= correction.

    Raises
    ------
    TypeError
        The dtype is not floating-point, or complex numbers would lose their imaginary parts.
    ValueError
        An axis is out of range or occurs twice, or both `correction` and `ddof` are given.

    Notes
    -----
    The gradient is that of `std` where there is no NaN.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanstd([1.0, cm.nan, 3.0]))
    1.0
    """
    x = require("nanstd", x)
    if x.dtype not in INEXACT:
        return reduce.std(
            x, axis, dtype=dtype, correction=correction, ddof=ddof, keepdims=keepdims, mean=mean
        )
    x = reduce._spread_in("nanstd", x, dtype)
    if mean is not None:
        return _about(reduce.std, x, axis, keepdims, correction=correction, ddof=ddof, mean=mean)
    if x.dtype in COMPLEX:
        return sqrt(nanvar(x, axis, correction=correction, ddof=ddof, keepdims=keepdims))
    return _nanstd.reduce(
        x,
        axis,
        keepdims,
        x.dtype,
        out,
        correction=reduce._freedom("nanstd", correction, ddof),
    )


@fast_path("x")
@_nanmax.with_numpy_options
@speaks_for("nanmax")
def nanmax(
    x: ArrayLike, /, axis: Axis = None, out: ndarray | None = None, keepdims: bool = False
) -> ndarray:
    """Largest element over axes but NaN; NaN if there is nothing else.

    Parameters
    ----------
    x : array_like
        Array of any dtype with at least one element along the axes. Complex numbers are
        ordered by real part, then by imaginary part.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    initial : scalar, optional
        Number that takes part in the comparison as one more element.
    where : array_like, default True
        Bool array that broadcasts to x's shape and selects the elements that take part. It needs an
        `initial` value.

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
    The gradient is that of `max`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanmax([1.0, cm.nan, 3.0]))
    3.0
    """
    x = require("nanmax", x)
    return (
        _nanmax.reduce(x, axis, keepdims, x.dtype, out)
        if x.dtype in INEXACT
        else reduce.max(x, axis, keepdims=keepdims)
    )


@fast_path("x")
@_nanmin.with_numpy_options
@speaks_for("nanmin")
def nanmin(
    x: ArrayLike, /, axis: Axis = None, out: ndarray | None = None, keepdims: bool = False
) -> ndarray:
    """Smallest element over axes but NaN; NaN if there is nothing else.

    Parameters
    ----------
    x : array_like
        Array of any dtype with at least one element along the axes. Complex numbers are
        ordered by real part, then by imaginary part.
    axis : int or sequence of int, optional
        Axis or axes that are reduced. None reduces all of them.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.
    initial : scalar, optional
        Number that takes part in the comparison as one more element.
    where : array_like, default True
        Bool array that broadcasts to x's shape and selects the elements that take part. It needs an
        `initial` value.

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
    The gradient is that of `min`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.nanmin([1.0, cm.nan, 3.0]))
    1.0
    """
    x = require("nanmin", x)
    return (
        _nanmin.reduce(x, axis, keepdims, x.dtype, out)
        if x.dtype in INEXACT
        else reduce.min(x, axis, keepdims=keepdims)
    )


def _nan_position(name: str, x: Any, axis: int | None, keepdims: bool, sign: float) -> ndarray:
    x = require(name, x)
    best_of = reduce.argmax if sign > 0 else reduce.argmin
    if x.dtype not in INEXACT:
        return best_of(x, axis, keepdims=keepdims)
    lost = isnan(x)
    worst: Any = -sign * np.inf
    if x.dtype in COMPLEX:
        worst = complex(worst, worst)
    numbers = choose(lost, worst, x)
    position = best_of(numbers, axis, keepdims=keepdims)
    if bool(reduce.any(reduce.all(lost, axis))):
        raise ValueError(
            f"{name}: All-NaN slice encountered along axis {axis} of an array of shape {x.shape}"
        )
    # among infinities of the wrong sign the first that is no NaN counts: choose again where the
    # choice fell on a NaN
    first = reduce.argmin(lost, axis, keepdims=keepdims)
    best = (reduce.max if sign > 0 else reduce.min)(numbers, axis, keepdims=keepdims)
    return choose(best == worst, first, position)


@scalar_results
@speaks_for("nanargmax")
def nanargmax(
    x: ArrayLike, /, axis: int | None = None, out: ndarray | None = None, *, keepdims: bool = False
) -> ndarray:
    """Return the index of the first largest element that is not NaN.

    The index is along an axis or in the flattened array.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int, optional
        Axis of the operation. None takes the flattened array.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray
        In int64 array.

    Raises
    ------
    ValueError
        A line consists of NaN only. The check waits for the device.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.nanargmax([1.0, cm.nan, 3.0]))
    2
    """
    y = _nan_position("nanargmax", x, axis, keepdims, 1)
    return y if out is None else deliver("nanargmax", y, out, "held")


@scalar_results
@speaks_for("nanargmin")
def nanargmin(
    x: ArrayLike, /, axis: int | None = None, out: ndarray | None = None, *, keepdims: bool = False
) -> ndarray:
    """Return the index of the first smallest element that is not NaN.

    The index is along an axis or in the flattened array.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int, optional
        Axis of the operation. None takes the flattened array.
    out : ndarray, optional
        Array that receives the result.
    keepdims : bool, default False
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    ndarray
        In int64 array.

    Raises
    ------
    ValueError
        A line consists of NaN only. The check waits for the device.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.nanargmin([cm.nan, 4.0, 3.0]))
    2
    """
    y = _nan_position("nanargmin", x, axis, keepdims, -1)
    return y if out is None else deliver("nanargmin", y, out, "held")


@fast_path("x")
def nan_to_num(
    x: ArrayLike,
    /,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> ndarray:
    """Replace NaN and infinities by numbers.

    Both parts of complex numbers are treated so.

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    copy : bool, default True
        Whether the result is a new array. False writes it into ``x`` and returns ``x``.
    nan : float, default 0.0
        Replacement for NaN.
    posinf, neginf : float, optional
        Replacements for the infinities. The defaults are the largest and the smallest number of the
        dtype.

    Returns
    -------
    ndarray
        Array without NaN and infinities.

    Notes
    -----
    The gradient is g where nothing was replaced.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.nan_to_num([cm.nan, -cm.inf, 1.0], neginf=-9.0).tolist()
    [0.0, -9.0, 1.0]
    """
    x = require("nan_to_num", x)
    replacements: tuple[Any, ...] = nan, posinf, neginf
    for value in replacements:
        if np.ndim(value):
            _broadcast_as("nan_to_num", coerce("nan_to_num", (x, value))[1], x.shape)
    if x.dtype in COMPLEX:
        parts = [nan_to_num(part(x), True, nan, posinf, neginf) for part in (real, imag)]
        y = complex_of_parts(*parts)
    elif x.dtype in INEXACT:
        y = _without_nan(x, nan, _largest(x.dtype))
        y = (
            y if posinf is None else choose(isposinf(x), posinf, y)
        )  # last: they may be NaN or infinite themselves
        y = y if neginf is None else choose(isneginf(x), neginf, y)
        y = y if y.dtype == x.dtype else y.astype(x.dtype)  # a float64 for NaN
    else:
        y = x.copy()
    return y if copy else deliver("nan_to_num", y, x)


@functools.cache
def _largest(dtype: np.dtype) -> float:
    from .dtype_info import finfo

    return float(finfo(dtype).max)


_without_nan = ufunc.Elementwise(
    "nan_to_num",
    np.maximum,
    "y if x != x else (z if x > z else (-z if x < -z else x))",
    ("choose(isfinite(x), g, 0)", "choose(isnan(x), g, 0)", "g * 0"),
    FLOATING,
    "elementwise.without_nan",
    globals(),
)
isposinf = ufunc.unary(
    "isposinf",
    np.isinf,
    {"": "False", "f": "isinf(x) and x > 0"},
    category=REAL_OR_BOOL,
    cpu="elementwise.isposinf",
    doc="Return whether elements are positive infinity.",
    namespace=globals(),
)
isneginf = ufunc.unary(
    "isneginf",
    np.isinf,
    {"": "False", "f": "isinf(x) and x < 0"},
    category=REAL_OR_BOOL,
    cpu="elementwise.isneginf",
    doc="Return whether elements are negative infinity.",
    namespace=globals(),
)
