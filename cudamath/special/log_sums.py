"""Logarithms of sums of exponentials, and the softmax, along any axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core import dtypes, shapes
from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.op import ANY, REAL, Composed
from ..core.scalar import scalar_results
from ..core.specs.reductions import LOGSUMEXP
from ..core.typing import ArrayLike
from ..ml.softmax import log_softmax as _log_softmax_along
from ..ml.softmax import softmax as _softmax_along
from ..ops import reduce
from ..ops.creation import full_like
from ..ops.elementwise import (
    abs,
    arctan2,
    ceil,
    conj,
    exp,
    hypot,
    isfinite,
    log,
    log1p,
    sign,
)
from ..ops.index import take_along_axis
from ..ops.ranges import arange
from ..ops.reduction_op import ReductionOp
from ..ops.shape import astype, broadcast_to, expand_dims, permute_dims, reshape, squeeze
from ..ops.transfer import complex_of_parts, real
from ..ops.where import where

__all__ = ["log_softmax", "logsumexp", "softmax"]


@scalar_results
def logsumexp(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> ndarray | tuple[ndarray, ndarray]:
    """Compute the logarithm of a sum of exponentials: log(sum of b exp(a)).

    The largest element is taken out of the sum, so that no finite number overflows.

    Parameters
    ----------
    a : array_like
        Array.
    axis : int or sequence of int, optional
        Axes of the sum; by default all.
    b : array_like, optional
        Factors of the exponentials; its shape and that of `a` broadcast.
    keepdims : bool, default False
        Whether the axes stay, with length 1.
    return_sign : bool, default False
        Whether the sign of the sum is returned as well.

    Returns
    -------
    ndarray or tuple of ndarray
        The logarithm; NaN where the sum is negative. Of complex arrays it is complex, its imaginary
        part above -pi and not above pi. With `return_sign` a pair: the logarithm of the absolute
        value, which is real, and the sign or phase.

    Raises
    ------
    TypeError
        `a` or `b` is no array of numbers.
    ValueError
        An axis is out of bounds or repeated; the shapes do not broadcast.

    Notes
    -----
    Gradient: exp(a - out) g, times b, of any order; for `b` exp(a - out) g; of complex arrays the
    conjugates of these factors. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.logsumexp(cm.array([1000.0, 1000.0])).round(3).tolist()
    1000.693...
    """
    arrays = [_floating(x) for x in coerce("logsumexp", (a,) if b is None else (a, b), ANY)]
    dtype = functools.reduce(dtypes.promote, [x.dtype for x in arrays])
    arrays = [astype(x, dtype, copy=False) for x in arrays]
    shape = shapes.broadcast_shapes("logsumexp", *[x.shape for x in arrays])
    arrays = [broadcast_to(x, shape) for x in arrays]
    axes = tuple(sorted(shapes.normalize_axes("logsumexp", axis, len(shape))))
    if dtype.kind == "c":
        return _complex(arrays, axes, keepdims, return_sign)
    if 0 in [shape[i] for i in axes]:
        sums = reduce.sum(arrays[0], axis=axes, keepdims=True) - math.inf
        signs = full_like(sums, 0)
    else:
        if b is None and arrays[0]._layout.device != CPU:
            sums = _log_sum.reduce(arrays[0], axes, True)
        else:
            sums = _logsumexp(*arrays, axes=axes)
        if b is None and not return_sign:
            return sums if keepdims else squeeze(sums, axis=axes)
        signs = full_like(sums, 1) if b is None else _sign(arrays[0], arrays[1], axes)
    if b is not None and not return_sign:
        sums = where(signs < 0, math.nan, sums)
    if not keepdims:
        sums, signs = squeeze(sums, axis=axes), squeeze(signs, axis=axes)
    return (sums, signs) if return_sign else sums


def _floating(x: ndarray) -> ndarray:
    return x if x.dtype in dtypes.INEXACT else astype(x, dtypes.default_float())


def _complex(
    arrays: list[ndarray], axes: tuple[int, ...], keepdims: bool, return_sign: bool
) -> ndarray | tuple[ndarray, ndarray]:
    """logsumexp of complex arrays of one shape."""
    a = arrays[0]
    rest = [i for i in range(a.ndim) if i not in axes]
    kept = tuple([a.shape[i] for i in rest])
    count = math.prod([a.shape[i] for i in axes])
    lines = [reshape(permute_dims(x, (*rest, *axes)), (*kept, count)) for x in arrays]
    if count:
        sums = _complex_sums(*lines)
    else:
        sums = reduce.sum(lines[0], axis=-1) - math.inf
    if keepdims:
        sums = reshape(sums, tuple([1 if i in axes else n for i, n in enumerate(a.shape)]))
    if not return_sign:
        return sums
    size = real(sums)
    return size, where(size == -math.inf, 0, exp(complex_of_parts(0.0 * sums.imag, sums.imag)))


def _complex_sums_value(a: ndarray, b: ndarray | None = None) -> ndarray:
    """log of the sum of b exp(a) along the last axis. The largest element is taken out, and the
    others added by log1p: a logarithm near 0 has all its digits."""
    sizes = a.real if b is None else where(b == 0, -math.inf, a.real)
    place = reduce.argmax(sizes, axis=-1, keepdims=True)
    first = take_along_axis(a, place, axis=-1)
    others = exp(a - first) if b is None else where(b == 0, 0, b * exp(a - first))
    chosen = arange(a.shape[-1], device=a.device) == place
    others = reduce.sum(where(chosen, 0, others), axis=-1)
    first = squeeze(first, axis=-1)
    if b is not None:
        factor = squeeze(take_along_axis(b, place, axis=-1), axis=-1)
        others, first = others / factor, first + log(factor)
    x, y = others.real, others.imag
    size = where(x < -0.5, log(hypot(1 + x, y)), 0.5 * log1p(x * (2 + x) + y * y))
    angle = arctan2(y, 1 + x) + first.imag
    turned = angle - 2 * math.pi * ceil(angle / (2 * math.pi) - 0.5)
    sums = complex_of_parts(size + first.real, where(abs(angle) < math.pi, angle, turned))
    plain = exp(a) if b is None else where(b == 0, 0, b * exp(a))
    return where(isfinite(sums), sums, log(reduce.sum(plain, axis=-1)))


def _complex_shares(y: ndarray, a: ndarray, b: ndarray | None) -> tuple[ndarray, ...]:
    """The conjugate derivatives of the sums."""
    y = expand_dims(y, axis=-1)
    share = conj(where(isfinite(y), exp(a - where(isfinite(y), y, 0)), 0))
    return (share,) if b is None else (share * conj(b), share)


_complex_sums = Composed(
    "logsumexp",
    _complex_sums_value,
    lambda g, y, a, b=None: tuple(
        [expand_dims(g, axis=-1) * share for share in _complex_shares(y, a, b)]
    ),
)


def _scaled(a: ndarray, b: ndarray | None, axes: tuple[int, ...]) -> tuple[ndarray, ndarray]:
    """The largest exponent, and the exponents in units of it. What has the factor 0 counts as
    -inf."""
    if b is not None:
        a = where(b == 0, -math.inf, a)
    largest = reduce.max(a, axis=axes, keepdims=True)
    largest = where(isfinite(largest), largest, 0)
    return largest, a - largest


def _sign(a: ndarray, b: ndarray, axes: tuple[int, ...]) -> ndarray:
    """The sign of the sum."""
    _, scaled = _scaled(a, b, axes)
    return sign(reduce.sum(b * exp(scaled), axis=axes, keepdims=True))


def _logsumexp_value(a: ndarray, b: ndarray | None = None, *, axes: tuple[int, ...]) -> ndarray:
    """log |sum of b exp(a)|. Of exponentials alone, those that are largest are counted and the
    others added by log1p: a logarithm near 0 has all its digits."""
    own = a.dtype
    wide = dtypes.compute_dtype(own)
    a = astype(a, wide, copy=False)
    if b is not None:
        b = astype(b, wide, copy=False)
    largest, scaled = _scaled(a, b, axes)
    if b is not None:
        total = reduce.sum(b * exp(scaled), axis=axes, keepdims=True)
        return astype(log(abs(total)) + largest, own, copy=False)
    first = scaled == 0
    count = reduce.sum(astype(first, wide), axis=axes, keepdims=True)
    rest = reduce.sum(where(first, 0, exp(scaled)), axis=axes, keepdims=True)
    alone = count == 0  # all are -inf, or one is infinite or NaN
    logs = where(alone, log(rest), log1p(rest / where(alone, 1, count)) + log(count))
    return astype(logs + largest, own, copy=False)


def _share(a: ndarray, y: ndarray) -> ndarray:
    """exp(a - y), and 0 where y is infinite."""
    return exp(a - where(isfinite(y), y, math.inf))


_logsumexp = Composed(
    "logsumexp",
    _logsumexp_value,
    lambda g, y, a, b=None, *, axes: (
        (g * _share(a, y),)
        if b is None
        else (
            g * _sign(a, b, axes) * b * _share(a, y),
            g * _sign(a, b, axes) * _share(a, y),
        )
    ),
)
#: Without factors: on a GPU one kernel that reads each row once, where the operations read it six
#: times. On the CPU they are faster, as their exponentials are compiled.
_log_sum = ReductionOp(LOGSUMEXP, lambda g, y, a, **_: (g * _share(a, y),))


def _along_axes(function: Callable[..., ndarray], name: str, x: Any, axis: Any) -> ndarray:
    """A function along one axis, along several at once."""
    x = _floating(require(name, x, REAL))
    if axis is not None and not isinstance(axis, tuple | list):
        return function(x, axis=axis)
    axes = shapes.normalize_axes(name, axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    order = (*rest, *axes)
    moved = permute_dims(x, order)
    kept = moved.shape[: len(rest)]
    lines = function(reshape(moved, (*kept, math.prod(moved.shape[len(rest) :]))), axis=-1)
    back = sorted(range(x.ndim), key=order.__getitem__)
    return permute_dims(reshape(lines, moved.shape), back)


@scalar_results
def softmax(x: ArrayLike, axis: int | Sequence[int] | None = None) -> ndarray:
    """Compute the softmax along axes, exp(x) / sum of exp(x).

    Parameters
    ----------
    x : array_like
        Real array of any shape.
    axis : int or sequence of int, optional
        Axes along which the results sum to 1; by default all.

    Returns
    -------
    ndarray
        Array of the shape of `x`, of its dtype or the default one for whole numbers.

    Raises
    ------
    TypeError
        `x` is complex or no array of numbers.
    ValueError
        An axis is out of bounds or repeated.

    Notes
    -----
    Gradient: out (g - sum of g out), of any order. The function is deterministic, and that of
    `cm.ml` with another default axis.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.softmax(cm.array([[0.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    return _along_axes(_softmax_along, "softmax", x, axis)


@scalar_results
def log_softmax(x: ArrayLike, axis: int | Sequence[int] | None = None) -> ndarray:
    """Compute the logarithm of the softmax along axes.

    Parameters
    ----------
    x : array_like
        Real array of any shape.
    axis : int or sequence of int, optional
        Axes along which the exponentials of the results sum to 1; by default all.

    Returns
    -------
    ndarray
        Array of the shape of `x`, of its dtype or the default one for whole numbers.

    Raises
    ------
    TypeError
        `x` is complex or no array of numbers.
    ValueError
        An axis is out of bounds or repeated.

    Notes
    -----
    Gradient: g - exp(out) sum of g, of any order. The function is deterministic, and that of
    `cm.ml` with another default axis.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.log_softmax(cm.array([1000.0, -1000.0])).tolist()
    [0.0, -2000.0]
    """
    return _along_axes(_log_softmax_along, "log_softmax", x, axis)
