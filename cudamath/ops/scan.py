"""Running totals along an axis: sums, products, maxima, minima. Definitions: core/specs/scans.py;
kernels: kernels/scan/dispatch.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes, recording
from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import INEXACT, NUMERIC, REAL_OR_BOOL
from ..core.shapes import normalize_axis
from ..core.specs.scans import SCANS, Product
from .creation import full
from .elementwise import conj, equal, isnan
from .index import _along_grad
from .join import concat
from .out_argument import deliver, target_of
from .ranges import arange
from .reduce import sum as total
from .reduction_op import _total_dtype, normal
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
        import cudamath as cm

        _, pull = cm.vjp(lambda x: _doubled(astype(x, held, copy=False), axis), x)
        return pull(astype(g, held, copy=False))[0]
    if x._layout.device == CPU and x.size:
        y = y if held == dtype else _scan(x, kind="prod", axis=axis, dtype=held)
        if normal(y):  # no zero: no place of it needs to be known
            return _from_behind(g * conj(y), axis) / conj(x)
    wide = _WIDER.get(dtype, dtype)
    zero, count = equal(x, 0), np.dtype(np.int32 if x.shape[axis] < 1 << 31 else np.int64)
    seen = _scan(zero, kind="sum", axis=axis, dtype=count)
    none, one = seen == 0, seen == 1
    first = zero & one
    y = conj(_scan(where(first, 1, x), kind="prod", axis=axis, dtype=wide))
    signal, y = (
        g != 0,
        g * y,
    )  # a product that is infinite is no part of the gradient of those before it
    behind = _from_behind(where(signal & none, y, 0), axis)
    at_first = total(where(signal & one, y, 0), axis=axis, keepdims=True)
    return where(none, behind / conj(where(zero, 1, x)), where(first, at_first, 0))


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
    last = _scan(places, kind="max", axis=axis, dtype=np.dtype(np.int64))
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
        return deliver(name, _total(name, kind, x, axis, dtype), out)
    x = require(name, x)
    chosen = _total_dtype(name, x.dtype, dtype)
    if (
        axis is None or x.ndim == 0 and axis.__class__ is int and axis in (0, -1)
    ):  # NumPy lets a number be a vector here
        x, axis = ravel(x), 0
    axis = normalize_axis(name, axis, x.ndim)
    return _scan(x, kind=kind, axis=axis, dtype=chosen)


@fast_path("x")
def cumsum(x: Any, /, axis: int | None = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running sums along an axis: y[i] = x[0] + ... + x[i].

    Args:
        x: array, numeric or bool.
        axis: the axis; None ravels x first.
        dtype: dtype of the result, in which sums are taken (16-bit floats: in float32). By default
        x's own; int64 for
            bool and signed, uint64 for unsigned integers.
        out: array that the result is written into.

    Returns: array of x's shape (of one dimension if axis is None).
    Raises: TypeError (dtype), ValueError (axis out of range).
    Gradient: running sums of g from the end.
    Accuracy: on a GPU sums are taken of parts of fixed length, and then of these: repeated calls
    agree bit for bit, and
        errors are smaller than those of one addition after another.

    >>> import cudamath as cm
    >>> cm.cumsum([1, 2, 3]).tolist()
    [1, 3, 6]
    """
    return _total("cumsum", "sum", x, axis, dtype, out)


@fast_path("x")
def cumprod(x: Any, /, axis: int | None = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running products along an axis: y[i] = x[0] ... x[i].

    Args: x, axis, dtype, out: as for `cumsum`.
    Returns: as `cumsum`. Raises: as `cumsum`.
    Gradient: exact where factors are 0 as well, and, of float32 and narrower numbers, where
    products are beyond the dtype.

    >>> import cudamath as cm
    >>> cm.cumprod([[1, 2], [3, 4]], axis=0).tolist()
    [[1, 2], [3, 8]]
    """
    return _total("cumprod", "prod", x, axis, dtype, out)


@fast_path("x")
def nancumsum(x: Any, /, axis: int | None = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running sums along an axis in which NaN counts as 0.

    Args: x, axis, dtype, out: as for `cumsum`.
    Returns: as `cumsum`. Raises: as `cumsum`. Gradient: as `cumsum`; 0 for a NaN.

    >>> import cudamath as cm
    >>> cm.nancumsum([1.0, float("nan"), 2.0]).tolist()
    [1.0, 1.0, 3.0]
    """
    return _total("nancumsum", "nansum", x, axis, dtype, out)


@fast_path("x")
def nancumprod(x: Any, /, axis: int | None = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running products along an axis in which NaN counts as 1.

    Args: x, axis, dtype, out: as for `cumsum`.
    Returns: as `cumsum`. Raises: as `cumsum`. Gradient: as `cumprod`; 0 for a NaN.

    >>> import cudamath as cm
    >>> cm.nancumprod([2.0, float("nan"), 3.0]).tolist()
    [2.0, 2.0, 6.0]
    """
    return _total("nancumprod", "nanprod", x, axis, dtype, out)


def _standard(
    name: str, kind: str, x: Any, axis: int | None, dtype: Any, include_initial: bool, target: Any
) -> ndarray:
    if target is not None:
        return deliver(name, _standard(name, kind, x, axis, dtype, include_initial, None), target)
    x = require(name, x, NUMERIC)
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
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> ndarray:
    """Running sums along an axis, as the array API has them.

    Args:
        x: numeric array of at least 1 dimension.
        axis: the axis; may be left out if there is only one.
        dtype: as for `cumsum`.
        out: array that the result is written into.
        include_initial: begin with 0, the sum of no elements: the axis becomes longer by one.

    Returns: array of x's shape but for that. Raises: TypeError (dtype), ValueError (axis).
    Gradient: as `cumsum`.

    >>> import cudamath as cm
    >>> cm.cumulative_sum([1, 2, 3], include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _standard("cumulative_sum", "sum", x, axis, dtype, include_initial, out)


@fast_path("x")
def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> ndarray:
    """Running products along an axis, as the array API has them.

    Args: x, axis, dtype, out, include_initial (begin with 1): as for `cumulative_sum`.
    Returns: as `cumulative_sum`. Raises: as `cumulative_sum`. Gradient: as `cumprod`.

    >>> import cudamath as cm
    >>> cm.cumulative_prod([2, 3], include_initial=True).tolist()
    [1, 2, 6]
    """
    return _standard("cumulative_prod", "prod", x, axis, dtype, include_initial, out)


# -------------------- extremes


def _extreme(name: str, kind: str, x: Any, axis: int | None) -> ndarray:
    x = require(name, x, REAL_OR_BOOL)
    if axis is None:
        x, axis = ravel(x), 0
    return _scan(x, kind=kind, axis=normalize_axis(name, axis, x.ndim), dtype=x.dtype)


@fast_path("x")
def cummax(x: Any, /, axis: int | None = None) -> ndarray:
    """Running maxima along an axis (np.maximum.accumulate): from a NaN on everything is NaN.

    Args: x: array, real or bool; axis: the axis, None ravels x first.
    Returns: array of x's dtype. Raises: TypeError (complex), ValueError (axis out of range).
    Gradient: to the element that is the maximum; of equal ones to the last so far.

    >>> import cudamath as cm
    >>> cm.cummax([1, 3, 2, 5]).tolist()
    [1, 3, 3, 5]
    """
    return _extreme("cummax", "max", x, axis)


@fast_path("x")
def cummin(x: Any, /, axis: int | None = None) -> ndarray:
    """Running minima along an axis (np.minimum.accumulate): from a NaN on everything is NaN.

    Args: x, axis: as for `cummax`.
    Returns: as `cummax`. Raises: as `cummax`. Gradient: as `cummax`.

    >>> import cudamath as cm
    >>> cm.cummin([3, 1, 2]).tolist()
    [3, 1, 1]
    """
    return _extreme("cummin", "min", x, axis)


@fast_path("x")
def nancummax(x: Any, /, axis: int | None = None) -> ndarray:
    """Running maxima along an axis of what is not NaN (np.fmax.accumulate); NaN until there is a
    number.

    Args: x, axis: as for `cummax`.
    Returns: as `cummax`. Raises: as `cummax`. Gradient: as `cummax`.

    >>> import cudamath as cm
    >>> cm.nancummax([1.0, float("nan"), 2.0]).tolist()
    [1.0, 1.0, 2.0]
    """
    return _extreme("nancummax", "nanmax", x, axis)


@fast_path("x")
def nancummin(x: Any, /, axis: int | None = None) -> ndarray:
    """Running minima along an axis of what is not NaN (np.fmin.accumulate); NaN until there is a
    number.

    Args: x, axis: as for `cummax`.
    Returns: as `cummax`. Raises: as `cummax`. Gradient: as `cummax`.

    >>> import cudamath as cm
    >>> cm.nancummin([2.0, float("nan"), 1.0]).tolist()
    [2.0, 2.0, 1.0]
    """
    return _extreme("nancummin", "nanmin", x, axis)
