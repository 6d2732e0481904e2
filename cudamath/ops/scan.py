"""Running totals along an axis: sums, products, maxima, minima. Definitions: core/specs/scans.py;
kernels: kernels/scan/dispatch.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autodiff.transforms import vjp
from ..core import dtypes, recording
from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import INEXACT
from ..core.shapes import normalize_axis
from ..core.specs.scans import SCANS, Product
from ..core.typing import ArrayLike, DTypeLike
from .creation import full
from .elementwise import conj_or_same, equal, isnan
from .index import _along_grad
from .join import concat
from .out_argument import deliver, target_of
from .ranges import arange
from .reduction_op import loses_nan, normal, of_a_vector, total_in, total_in_bool
from .shape import astype, flip, ravel, reshape, span
from .where import where

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "nancummax",
    "nancummin",
    "nancumprod",
    "nancumsum",
]

# -------------------- gradients


def _from_behind(g: ndarray, axis: int) -> ndarray:
    """Running sums from the last element on."""
    return flip(_scan(flip(g, axis), kind="sum", axis=axis, dtype=g.dtype), axis)


#: Where products of two numbers of a dtype are none of its own.
_WIDER = {
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float64,
    dtypes.float32: dtypes.float64,
    np.dtype(np.complex64): np.dtype(np.complex128),
}


def _prod_grad(g: ndarray, y: ndarray, x: ndarray, axis: int, dtype: np.dtype) -> ndarray:
    """For j >= i, dy[j] / dx[i] = y[j] / x[i] while no factor was 0. The first zero's own
    derivative leaves it out: products with a 1 in its place, up to the next zero. Whatever follows
    has none. Products are taken in a wider dtype, if there is one, as y[j] may be beyond its own
    where y[j] / x[i] is not.

    A gradient that is differentiated itself is that of multiplications, as in `reduce.prod`."""
    x, held = astype(x, dtype, copy=False), dtypes.compute_dtype(dtype)
    if not recording.state.paused and x._node is not None:
        _, pull = vjp(lambda x: _doubled(astype(x, held, copy=False), axis), x)
        return pull(astype(g, held, copy=False))[0]
    if x._layout.device == CPU and x.size:
        y = y if held == dtype else _scan(x, kind="prod", axis=axis, dtype=held)
        if normal(y):  # no zero: no place of it needs to be known
            return _from_behind(g * conj_or_same(y), axis) / conj_or_same(x)
    wide = _WIDER.get(dtype, dtype)
    zero, count = equal(x, 0), np.dtype(np.int32 if x.shape[axis] < 1 << 31 else np.int64)
    seen = _scan(zero, kind="sum", axis=axis, dtype=count)
    none, one = seen == 0, seen == 1
    first = zero & one
    y = conj_or_same(_scan(where(first, 1, x), kind="prod", axis=axis, dtype=wide))
    signal, y = (
        g != 0,
        g * y,
    )  # a product that is infinite is no part of the gradient of those before it
    behind = _from_behind(where(signal & none, y, 0), axis)
    at_first = where(signal & one, y, 0).sum(axis=axis, keepdims=True)
    return where(none, behind / conj_or_same(where(zero, 1, x)), where(first, at_first, 0))


def _doubled(x: ndarray, axis: int) -> ndarray:
    """Running products as ceil(log2 n) products of the array and itself, moved by 1, 2, 4, ...
    elements."""
    n, step = x.shape[axis], 1
    while step < n:
        x = concat(
            [span(x, axis, 0, step), span(x, axis, step, n) * span(x, axis, 0, n - step)], axis=axis
        )
        step *= 2
    return x


def _extreme_grad(g: ndarray, y: ndarray, x: ndarray, axis: int) -> ndarray:
    """To the last element, of those up to here, that equals the running extreme."""
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    hit = equal(x, y) | (isnan(x) & isnan(y))
    places = where(hit, reshape(arange(x.shape[axis], device=x.device), tuple(shape)), 0)
    last = _scan(places, kind="max", axis=axis, dtype=places.dtype)
    return _along_grad(g, last, size=x.shape[axis], axis=axis)


def _scan_grad(
    g: ndarray, y: ndarray, x: ndarray, *, kind: str, axis: int, dtype: np.dtype
) -> tuple:
    scan = SCANS[kind]
    if scan.chooses:
        return (_extreme_grad(g, y, x, axis),)
    lost = isnan(x) if scan.skips_nan else None
    if isinstance(scan, Product):
        factors = x if lost is None else where(lost, 1, x)
        out = _prod_grad(g, y, factors, axis, dtype)
    else:
        out = _from_behind(g, axis)
    if lost is not None:
        out = where(lost, 0, out)
    return (out if out.dtype == x.dtype else astype(out, x.dtype),)


_scan: Op = Op("cumulative", cpu="scan.scan", cuda="scan.dispatch.scan", vjp=_scan_grad)

# -------------------- sums, products


def _total(name: str, kind: str, x: Any, axis: int | None, dtype: Any, out: Any = None) -> ndarray:
    if out is not None:
        wide = target_of(name, out).dtype  # computed in out's dtype, if that is wider
        if (
            dtype is None
            and wide in INEXACT
            and dtypes.promote((x := require(name, x)).dtype, wide) == wide
        ):
            dtype = wide
        return deliver(name, _total(name, kind, x, axis, dtype), out, "unsafe")
    x = require(name, x)
    if SCANS[kind].skips_nan and loses_nan(name, x, dtype):
        x, kind = where(isnan(x), SCANS[kind].neutral, x), kind.removeprefix("nan")
    x, chosen = total_in(name, x, dtype)
    if chosen == np.bool_:
        return total_in_bool(lambda x: _total(name, kind, x, axis, None), x)
    if axis is None or x.ndim == 0 and of_a_vector(axis):
        x, axis = ravel(x), 0
    axis = normalize_axis(name, axis, x.ndim)
    return _scan(x, kind=kind, axis=axis, dtype=chosen)


@fast_path("x")
def cumsum(
    x: ArrayLike,
    /,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
) -> ndarray:
    """Running sums along an axis: y[i] = x[0] + ... + x[i].

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    axis : int, optional
        Axis of the operation. None flattens `x` first.
    dtype : dtype_like, optional
        Dtype of the result, in which the sums are computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of x's shape (of one dimension if axis is None).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is the running sums of g from the end.

    Accuracy: on a GPU sums are taken of parts of fixed length, and then of these: repeated calls
    agree bit for bit, and errors are smaller than those of one addition after another.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cumsum([1, 2, 3]).tolist()
    [1, 3, 6]
    """
    return _total("cumsum", "sum", x, axis, dtype, out)


@fast_path("x")
def cumprod(
    x: ArrayLike,
    /,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
) -> ndarray:
    """Running products along an axis: y[i] = x[0] ... x[i].

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    axis : int, optional
        Axis of the operation. None flattens `x` first.
    dtype : dtype_like, optional
        Dtype of the result, in which the sums are computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of x's shape (of one dimension if axis is None).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is exact also where factors are 0, and, for float32 and narrower numbers, where
    products exceed the dtype.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cumprod([[1, 2], [3, 4]], axis=0).tolist()
    [[1, 2], [3, 8]]
    """
    return _total("cumprod", "prod", x, axis, dtype, out)


@fast_path("x")
def nancumsum(
    x: ArrayLike,
    /,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
) -> ndarray:
    """Running sums along an axis in which NaN counts as 0.

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    axis : int, optional
        Axis of the operation. None flattens `x` first.
    dtype : dtype_like, optional
        Dtype of the result, in which the sums are computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of x's shape (of one dimension if axis is None).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is that of `cumsum`, and 0 for a NaN.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.nancumsum([1.0, float("nan"), 2.0]).tolist()
    [1.0, 1.0, 3.0]
    """
    return _total("nancumsum", "nansum", x, axis, dtype, out)


@fast_path("x")
def nancumprod(
    x: ArrayLike,
    /,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
) -> ndarray:
    """Running products along an axis in which NaN counts as 1.

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    axis : int, optional
        Axis of the operation. None flattens `x` first.
    dtype : dtype_like, optional
        Dtype of the result, in which the sums are computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of x's shape (of one dimension if axis is None).

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is that of `cumprod`, and 0 for a NaN.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.nancumprod([2.0, float("nan"), 3.0]).tolist()
    [2.0, 2.0, 6.0]
    """
    return _total("nancumprod", "nanprod", x, axis, dtype, out)


def _standard(
    name: str, kind: str, x: Any, axis: int | None, dtype: Any, include_initial: bool, target: Any
) -> ndarray:
    if target is not None:
        y = _standard(name, kind, x, axis, dtype, include_initial, None)
        return deliver(name, y, target, "unsafe")
    x = require(name, x)
    x = x if x.ndim else ravel(x)
    if axis is None:
        if x.ndim > 1:
            raise ValueError(
                f"{name}: axis must be given for an array of more than one dimension, got shape "
                f"{x.shape}"
            )
        axis = 0
    out = _total(name, kind, x, axis, dtype)
    if not include_initial:
        return out
    axis = normalize_axis(name, axis, x.ndim)
    shape = tuple([1 if i == axis else n for i, n in enumerate(x.shape)])
    return concat([full(shape, SCANS[kind].neutral, out.dtype, device=x.device), out], axis=axis)


@fast_path("x")
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    include_initial: bool = False,
) -> ndarray:
    """Running sums along an axis, as the array API has them.

    Parameters
    ----------
    x : array_like
        Numeric array of at least 1 dimension.
    axis : int, optional
        Axis of the operation. It may be omitted for an array of one dimension.
    dtype : dtype_like, optional
        Dtype of the result, in which the sums are computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.
    include_initial : bool, default False
        Whether the result begins with 0, the sum of no elements, which makes the axis longer by
        one.

    Returns
    -------
    ndarray
        Array of x's shape except for that length.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is that of `cumsum`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cumulative_sum([1, 2, 3], include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _standard("cumulative_sum", "sum", x, axis, dtype, include_initial, out)


@fast_path("x")
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
    include_initial: bool = False,
) -> ndarray:
    """Running products along an axis, as the array API has them.

    Parameters
    ----------
    x : array_like
        (begin with 1) as for `cumulative_sum`.
    axis : int, optional
        (begin with 1) as for `cumulative_sum`.
    dtype : dtype_like, optional
        (begin with 1) as for `cumulative_sum`.
    out : ndarray, optional
        (begin with 1) as for `cumulative_sum`.
    include_initial : bool, default False
        (begin with 1) as for `cumulative_sum`.

    Returns
    -------
    ndarray
        Array of x's shape except for that length.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is that of `cumprod`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cumulative_prod([2, 3], include_initial=True).tolist()
    [1, 2, 6]
    """
    return _standard("cumulative_prod", "prod", x, axis, dtype, include_initial, out)


# -------------------- extremes


def _extreme(name: str, kind: str, x: Any, axis: int | None) -> ndarray:
    x = require(name, x)
    if axis is None:
        x, axis = ravel(x), 0
    return _scan(x, kind=kind, axis=normalize_axis(name, axis, x.ndim), dtype=x.dtype)


@fast_path("x")
def cummax(x: ArrayLike, /, axis: int | None = None) -> ndarray:
    """Running maxima along an axis (np.maximum.accumulate): from a NaN on everything is NaN.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int, optional
        Axis of the operation. None flattens `x` first.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient goes to the element that is the maximum, and of equal ones to the last so far.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cummax([1, 3, 2, 5]).tolist()
    [1, 3, 3, 5]
    """
    return _extreme("cummax", "max", x, axis)


@fast_path("x")
def cummin(x: ArrayLike, /, axis: int | None = None) -> ndarray:
    """Running minima along an axis (np.minimum.accumulate): from a NaN on everything is NaN.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int, optional
        Axis of the operation. None flattens `x` first.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is that of `cummax`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cummin([3, 1, 2]).tolist()
    [3, 1, 1]
    """
    return _extreme("cummin", "min", x, axis)


@fast_path("x")
def nancummax(x: ArrayLike, /, axis: int | None = None) -> ndarray:
    """Return running maxima along an axis without NaN (np.fmax.accumulate).

    The result is NaN until there is a number.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int, optional
        Axis of the operation. None flattens `x` first.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is that of `cummax`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.nancummax([1.0, float("nan"), 2.0]).tolist()
    [1.0, 1.0, 2.0]
    """
    return _extreme("nancummax", "nanmax", x, axis)


@fast_path("x")
def nancummin(x: ArrayLike, /, axis: int | None = None) -> ndarray:
    """Return running minima along an axis without NaN (np.fmin.accumulate).

    The result is NaN until there is a number.

    Parameters
    ----------
    x : array_like
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    axis : int, optional
        Axis of the operation. None flattens `x` first.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is that of `cummax`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.nancummin([2.0, float("nan"), 1.0]).tolist()
    [2.0, 2.0, 1.0]
    """
    return _extreme("nancummin", "nanmin", x, axis)
