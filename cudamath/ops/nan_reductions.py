"""Reductions that leave NaN out, and what else treats NaN and infinities apart. Kernels:
kernels/reduce/dispatch.py."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import COMPLEX, FLOATING, INEXACT, REAL_OR_BOOL
from ..core.dtypes import compute_dtype, default_float, real_dtype
from ..core.shapes import normalize_axes
from ..core.specs import reductions as specs
from . import reduce, reduction_op, ufunc
from .elementwise import abs, add, equal, isfinite, isnan, logical_not, maximum, multiply, sqrt  # noqa: F401  (gradients)
from .elementwise_numpy import fmax, fmin
from .out_argument import deliver
from .reduction_op import Axis, ReductionOp
from .shape import astype, reshape
from .transfer import imag, real
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
    x: Any, /, axis: Axis = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False
) -> ndarray:
    """Sum over axes of the elements that are not NaN; 0 if there are none.

    Args, returns, raises: as for ``sum`` (out, initial and where included). Gradient: g where there
    is no NaN.

    >>> import cudamath as cm
    >>> float(cm.nansum([1.0, cm.nan, 2.0]))
    3.0
    """
    x = require("nansum", x)
    if x.dtype not in INEXACT:
        return reduce.sum(x, axis, dtype=dtype, keepdims=keepdims)
    return _nansum.reduce(
        x, axis, keepdims, reduction_op._total_dtype("nansum", x.dtype, dtype), out
    )


@fast_path("x")
@_nanprod.with_numpy_options
@speaks_for("nanprod")
def nanprod(
    x: Any, /, axis: Axis = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False
) -> ndarray:
    """Product over axes of the elements that are not NaN; 1 if there are none.

    Args, returns, raises: as for ``prod``. Gradient: as of ``prod`` where there is no NaN.

    >>> import cudamath as cm
    >>> float(cm.nanprod([2.0, cm.nan, 3.0]))
    6.0
    """
    x = require("nanprod", x)
    if x.dtype not in INEXACT:
        return reduce.prod(x, axis, dtype=dtype, keepdims=keepdims)
    return _nanprod.reduce(
        x, axis, keepdims, reduction_op._total_dtype("nanprod", x.dtype, dtype), out
    )


@fast_path("x")
@_nanmean.with_numpy_options
@speaks_for("nanmean")
def nanmean(
    x: Any, /, axis: Axis = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False
) -> ndarray:
    """Mean over axes of the elements that are not NaN; NaN if there are none.

    Args, returns, raises: as for ``mean``. Gradient: g / count where there is no NaN.

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
    x: Any,
    /,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float | None = None,
    *,
    correction: float | None = None,
    keepdims: bool = False,
    mean: Any = None,
) -> ndarray:
    """Variance over axes of the elements that are not NaN; NaN if there are none, or too few for
    the correction.

    Args, returns, raises: as for ``var``, but that a ``mean`` of a wider dtype does not widen the
    result of floating-point numbers. Gradient: g 2 (x - mean) / (count - correction) where there is
    no NaN.

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
    x: Any,
    /,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float | None = None,
    *,
    correction: float | None = None,
    keepdims: bool = False,
    mean: Any = None,
) -> ndarray:
    """Standard deviation over axes of the elements that are not NaN: the root of ``nanvar``.

    Args, returns, raises: as for ``std``. Gradient: as of ``std`` where there is no NaN.

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
def nanmax(x: Any, /, axis: Axis = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """Largest element over axes but NaN; NaN if there is nothing else.

    Args, returns, raises: as for ``max`` (initial, where). Gradient: as of ``max``.

    >>> import cudamath as cm
    >>> float(cm.nanmax([1.0, cm.nan, 3.0]))
    3.0
    """
    x = require("nanmax", x, REAL_OR_BOOL)
    return (
        _nanmax.reduce(x, axis, keepdims, x.dtype, out)
        if x.dtype in INEXACT
        else reduce.max(x, axis, keepdims=keepdims)
    )


@fast_path("x")
@_nanmin.with_numpy_options
@speaks_for("nanmin")
def nanmin(x: Any, /, axis: Axis = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """Smallest element over axes but NaN; NaN if there is nothing else.

    Args, returns, raises: as for ``min`` (initial, where). Gradient: as of ``min``.

    >>> import cudamath as cm
    >>> float(cm.nanmin([1.0, cm.nan, 3.0]))
    1.0
    """
    x = require("nanmin", x, REAL_OR_BOOL)
    return (
        _nanmin.reduce(x, axis, keepdims, x.dtype, out)
        if x.dtype in INEXACT
        else reduce.min(x, axis, keepdims=keepdims)
    )


def _nan_position(name: str, x: Any, axis: int | None, keepdims: bool, sign: float) -> ndarray:
    x = require(name, x, REAL_OR_BOOL)
    best_of = reduce.argmax if sign > 0 else reduce.argmin
    if x.dtype not in INEXACT:
        return best_of(x, axis, keepdims=keepdims)
    lost = isnan(x)
    position = best_of(choose(lost, -sign * np.inf, x), axis, keepdims=keepdims)
    if bool(reduce.any(reduce.all(lost, axis))):
        raise ValueError(
            f"{name}: all elements of a line along axis {axis} of an array of shape {x.shape} are "
            "NaN"
        )
    # among infinities of the wrong sign the first that is no NaN counts: choose again where the
    # choice fell on a NaN
    first = reduce.argmin(lost, axis, keepdims=keepdims)
    best = reduce.max(choose(lost, -np.inf, x * sign), axis, keepdims=keepdims)
    return choose(best == -np.inf, first, position)


@speaks_for("nanargmax")
def nanargmax(
    x: Any, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False
) -> ndarray:
    """Index of the first largest element that is not NaN, along an axis or in the flattened array.

    Args, returns: as for ``argmax``. Raises: also ValueError if a line holds nothing but NaN (waits
    for the device). Gradient: none (the result is a constant).

    >>> import cudamath as cm
    >>> int(cm.nanargmax([1.0, cm.nan, 3.0]))
    2
    """
    y = _nan_position("nanargmax", x, axis, keepdims, 1)
    return y if out is None else deliver("nanargmax", y, out)


@speaks_for("nanargmin")
def nanargmin(
    x: Any, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False
) -> ndarray:
    """Index of the first smallest element that is not NaN, along an axis or in the flattened array.

    Args, returns, raises: as for ``nanargmax``. Gradient: none (the result is a constant).

    >>> import cudamath as cm
    >>> int(cm.nanargmin([cm.nan, 4.0, 3.0]))
    2
    """
    y = _nan_position("nanargmin", x, axis, keepdims, -1)
    return y if out is None else deliver("nanargmin", y, out)


@fast_path("x")
def nan_to_num(
    x: Any,
    /,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> ndarray:
    """NaN and infinities replaced by numbers; of complex numbers in each part.

    Args: x: numeric or bool array; copy: False writes the result into ``x`` and returns that; nan:
    instead of NaN; posinf, neginf: instead of infinities, by default the dtype's largest and
    smallest numbers. Gradient: g where nothing was replaced.

    >>> import cudamath as cm
    >>> cm.nan_to_num([cm.nan, -cm.inf, 1.0], neginf=-9.0).tolist()
    [0.0, -9.0, 1.0]
    """
    x = require("nan_to_num", x)
    if x.dtype in COMPLEX:
        parts = [nan_to_num(part(x), True, nan, posinf, neginf) for part in (real, imag)]
        y = parts[0] + parts[1] * 1j
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
    doc="Whether elements are positive infinity.",
    namespace=globals(),
)
isneginf = ufunc.unary(
    "isneginf",
    np.isinf,
    {"": "False", "f": "isinf(x) and x < 0"},
    category=REAL_OR_BOOL,
    cpu="elementwise.isneginf",
    doc="Whether elements are negative infinity.",
    namespace=globals(),
)
