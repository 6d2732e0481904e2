"""Differences, slopes, integrals along an axis: compositions of slices and arithmetic; convolution
and correlation, by kernels of their own (kernels/numeric/convolve.py).

Each of the others works on views of its input (``x[1:] - x[:-1]``), so a difference is one
elementwise kernel that reads every element twice from cache and once from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.checks import MISTAKES, as_numbers, as_of, coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import ANY, BOOLEAN, INEXACT, NUMERIC, Op
from ..core.shapes import as_integer, normalize_axes, normalize_axis
from ..core.typing import ArrayLike
from . import reduce
from .elementwise import add, conj, not_equal, subtract
from .join import _joined
from .linalg.products import matmul
from .padding import pad
from .ranges import recorded
from .shape import Axes, _broadcast_as, _copy, astype, atleast_1d, flip, ravel, reshape, span
from .stride_tricks import sliding_window_view

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "trapezoid"]


@fast_path("x", "prepend", "append")
def diff(
    x: ArrayLike,
    /,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> ndarray:
    """Return differences of neighbours along an axis, taken n times: y[i] = x[i + 1] - x[i].

    Parameters
    ----------
    x : array_like
        Numeric or bool array of at least 1 dimension. Of bools the result says whether neighbours
        differ.
    n : int, default 1
        Number of times that differences are taken, >= 0.
    axis : int, default -1
        Axis of the operation.
    prepend, append : array_like, optional
        Values put before and after `x` along the axis first: a scalar, or an array with the shape
        of ``x`` except along that axis.

    Returns
    -------
    ndarray
        Array of x's dtype, shorter by n along the axis (at least 0).

    Raises
    ------
    ValueError
        The array has no dimensions, n is negative, or the shapes do not fit each other.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.diff([1, 2, 4, 7]).tolist(), cm.diff([1, 2, 4, 7], n=2, prepend=0).tolist()
    ([1, 2, 3], [0, 1, 1])
    """
    x, n = require("diff", x), as_integer("diff", "n", n, 0)
    if not x.ndim:
        raise ValueError(f"diff: wants at least 1 dimension, got shape {x.shape}")
    axis = normalize_axis("diff", axis, x.ndim)
    if n == 0:
        return x
    if prepend is not None or append is not None:
        ends = [None if e is None else coerce("diff", (x, e))[1] for e in (prepend, append)]
        one = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        before, after = (e if e is None or e.ndim else _broadcast_as("diff", e, one) for e in ends)
        x = _joined("diff", [part for part in (before, x, after) if part is not None], axis)
    step = not_equal if x.dtype in BOOLEAN else subtract
    for _ in range(min(n, x.shape[axis])):  # nothing is left after so many
        x = step(*_neighbours(x, axis))
    return x


def _neighbours(x: ndarray, axis: int) -> tuple[ndarray, ndarray]:
    """Two views of x, without the first and without the last element along an axis: what is taken
    from what in differences."""
    size = x.shape[axis]
    return span(x, axis, 1, size), span(x, axis, 0, max(size - 1, 0))


@fast_path("x", "to_end", "to_begin")
def ediff1d(
    x: ArrayLike, /, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> ndarray:
    """Return differences of neighbours of the flattened array, with values put before and after.

    Parameters
    ----------
    x : array_like
        Numeric array.
    to_end, to_begin : array_like, optional
        Values that are appended and prepended, cast to x's dtype.

    Returns
    -------
    ndarray
        Vector.

    Raises
    ------
    TypeError
        The values are of another kind of number.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ediff1d([[1, 2], [4, 7]], to_begin=0).tolist()
    [0, 1, 2, 3]
    """
    x = ravel(require("ediff1d", x, NUMERIC))
    parts = [subtract(*_neighbours(x, 0))]
    for given, place in ((to_begin, 0), (to_end, 2)):
        if given is None:
            continue
        more = ravel(coerce("ediff1d", (x, given))[1])
        if not np.can_cast(more.dtype, x.dtype, "same_kind"):
            raise TypeError(
                f"ediff1d: values of dtype {more.dtype} do not go with an array of dtype {x.dtype}"
            )
        parts.insert(place, astype(more, x.dtype, copy=False))
    return _joined("ediff1d", parts, 0) if len(parts) > 1 else parts[0]


@fast_path("x")
def gradient(x: ArrayLike, /, *spacing: ArrayLike, axis: Axes = None, edge_order: int = 1) -> Any:
    """Compute slopes along axes by central differences.

    Central differences inside the array have the second order of accuracy. The differences at the
    ends are one-sided.

    y[i] = (x[i + 1] - x[i - 1]) / 2h; for spacings hs before and hd behind, y[i] = (hs^2 x[i + 1] +
    (hd^2 - hs^2) x[i] - hd^2 x[i - 1]) / (hs hd (hd + hs))

    Parameters
    ----------
    x : array_like
        Numeric array.
    *spacing : array_like
        Nothing (distance 1), one number for all axes, or one number or vector of coordinates for
        each axis.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.
    edge_order : int, default 1
        Order of accuracy at the ends, 1 or 2.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of x's shape. Several axes give a tuple of arrays. Integers give floating-point
        numbers.

    Raises
    ------
    ValueError
        An axis has fewer than edge_order + 1 elements, or the spacing does not fit.
    TypeError
        There are too many spacings.

    Notes
    -----
    The gradient follows from those of the operations inside, also with respect to the spacing.

    References
    ----------
    .. [1] NumPy's `gradient`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.gradient([1.0, 2.0, 4.0, 7.0, 11.0]).tolist()
    [1.0, 1.5, 2.5, 3.5, 4.0]
    """
    x = require("gradient", x, NUMERIC)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axes("gradient", axis, x.ndim)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    if len(spacing) not in (0, 1, len(axes)):
        raise TypeError(f"gradient: {len(spacing)} spacings do not fit {len(axes)} axes")
    steps = (
        [1.0] * len(axes)
        if not spacing
        else list(spacing) * len(axes)
        if len(spacing) == 1
        else list(spacing)
    )
    if x.dtype not in INEXACT:
        x = astype(x, dtypes.default_float())
    out = [_slope(x, a, h, edge_order) for a, h in zip(axes, steps, strict=True)]
    out = [
        y if y.dtype == x.dtype else astype(y, x.dtype) for y in out
    ]  # float64 coordinates of a float32
    return out[0] if len(out) == 1 else tuple(out)


_slopes = Op(
    "gradient", cpu="finite_differences.gradient", cuda="numeric.finite_differences.gradient"
)


def _slope(x: ndarray, axis: int, spacing: Any, edge_order: int) -> ndarray:
    n = x.shape[axis]
    if n < edge_order + 1:
        raise ValueError(
            f"gradient: wants at least {edge_order + 1} elements along axis {axis}, got shape "
            f"{x.shape}"
        )

    def at(start: int, stop: int) -> ndarray:
        return span(x, axis, start, stop)

    if x._node is None and type(spacing) in (int, float):
        return _slopes(x, scalars=(float(spacing),), axis=axis, second=bool(edge_order == 2))
    if not isinstance(spacing, (list, tuple)) and np.ndim(spacing) == 0:
        h = (
            astype(spacing, x.dtype)
            if recorded(spacing)
            else as_numbers("gradient", "numbers", spacing)[0]
        )
        inner = (at(2, n) - at(0, n - 2)) / (2 * h)
        if edge_order == 1:
            first, last = (at(1, 2) - at(0, 1)) / h, (at(n - 1, n) - at(n - 2, n - 1)) / h
        else:
            first = (at(0, 1) * -1.5 + at(1, 2) * 2 + at(2, 3) * -0.5) / h
            last = (at(n - 3, n - 2) * 0.5 + at(n - 2, n - 1) * -2 + at(n - 1, n) * 1.5) / h
        return _joined("gradient", [first, inner, last], axis)
    places = coerce("gradient", (x, spacing))[1]
    if places.shape != (n,):
        raise ValueError(
            f"gradient: coordinates of shape {places.shape} do not fit axis {axis} of shape "
            f"{x.shape}"
        )
    if places.dtype not in INEXACT:
        places = astype(places, dtypes.default_float())
    h = reshape(diff(places), (*[1] * axis, n - 1, *[1] * (x.ndim - axis - 1)))
    before, behind = span(h, axis, 0, n - 2), span(h, axis, 1, n - 1)
    both = before + behind
    inner = (
        at(0, n - 2) * (-behind / (before * both))
        + at(1, n - 1) * ((behind - before) / (before * behind))
        + at(2, n) * (before / (behind * both))
    )
    if edge_order == 1:
        first = (at(1, 2) - at(0, 1)) / span(h, axis, 0, 1)
        last = (at(n - 1, n) - at(n - 2, n - 1)) / span(h, axis, n - 2, n - 1)
    else:
        a, b = span(h, axis, 0, 1), span(h, axis, 1, 2)
        first = (
            at(0, 1) * (-(2 * a + b) / (a * (a + b)))
            + at(1, 2) * ((a + b) / (a * b))
            + at(2, 3) * (-a / (b * (a + b)))
        )
        a, b = span(h, axis, n - 3, n - 2), span(h, axis, n - 2, n - 1)
        last = (
            at(n - 3, n - 2) * (b / (a * (a + b)))
            + at(n - 2, n - 1) * (-(b + a) / (a * b))
            + at(n - 1, n) * ((2 * b + a) / (b * (a + b)))
        )
    return _joined("gradient", [first, inner, last], axis)


@fast_path("y", "x")
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: float = 1.0, axis: int = -1) -> ndarray:
    """Integral along an axis by the trapezoidal rule: Σ (x[i + 1] - x[i]) (y[i + 1] + y[i]) / 2.

    Parameters
    ----------
    y : array_like
        Numeric or bool array. The sum of two bools is a bool, as in NumPy.
    x : array_like, optional
        Coordinates, a vector or an array that broadcasts with ``y``.
    dx : float, default 1.0
        Distance between two coordinates if `x` is not given.
    axis : int, default -1
        Axis of the operation.

    Returns
    -------
    ndarray
        Array without that axis.

    Raises
    ------
    ValueError
        The axis is out of range, or the shapes do not fit each other.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.trapezoid([1.0, 2.0, 3.0])), float(cm.trapezoid([1.0, 2.0, 3.0], x=[4, 6, 8]))
    (4.0, 8.0)
    """
    y = require("trapezoid", y)
    if not y.ndim:
        raise ValueError(f"trapezoid: wants at least 1 dimension, got shape {y.shape}")
    given, axis = axis, normalize_axis("trapezoid", axis, y.ndim)
    width: Any = dx
    if x is None:
        width = (
            dx
            if isinstance(dx, (int, float, complex, np.generic))
            else coerce("trapezoid", (y, dx))[1]
        )
    else:
        places = coerce("trapezoid", (y, x))[1]
        if not places.ndim:
            raise ValueError("trapezoid: wants coordinates of at least 1 dimension, got shape ()")
        if places.ndim == 1:
            if places.size != y.shape[axis]:
                raise ValueError(
                    f"trapezoid: coordinates of shape {places.shape} do not fit axis {axis} of "
                    f"shape {y.shape}"
                )
            width = reshape(
                diff(places), (*[1] * axis, places.size - 1, *[1] * (y.ndim - axis - 1))
            )
        else:
            width = diff(places, axis=given)  # coordinates may have more axes than y
    pairs = add(*_neighbours(y, axis)) / 2.0
    try:
        return reduce.sum(pairs * width, axis=given)
    except MISTAKES as error:
        raise as_of("trapezoid", error) from None


#: From so many weights on, fewer results than that are dot products, each of which the whole device
#: computes.
_LONG = 4096


def _conjugate(x: ndarray) -> ndarray:
    return conj(x) if x.dtype.kind == "c" else x


def _weights_grad(
    g: ndarray, _y: ndarray, a: ndarray, w: ndarray, *, before: int, after: int, turned: bool
) -> ndarray:
    """Of weight i: the sum of g[k] conj(a[k - before + i])."""
    found = _slide(_conjugate(a), g, before, after, False)
    return flip(found) if turned else found


def _vector_grad(
    g: ndarray, _y: ndarray, a: ndarray, w: ndarray, *, before: int, after: int, turned: bool
) -> ndarray:
    """The weights slide along g the other way."""
    m = w.size
    return _slide(g, _conjugate(w), m - 1 - before, m - 1 - after, not turned)


_convolve = Op(
    "convolve",
    cpu="convolve.convolve",
    cuda="numeric.convolve.convolve",
    vjp=(_vector_grad, _weights_grad),
)


def _slide(a: ndarray, w: ndarray, before: int, after: int, turned: bool) -> ndarray:
    """y[k] = sum of a[k - before + i] w[i] (turned: w[m - 1 - i]), going `before` and `after`
    places over the ends of a."""
    if w.size >= _LONG > a.size + before + after - w.size + 1:
        if before or after:
            a = pad(a, ((before, after),))
        return matmul(sliding_window_view(a, w.size), flip(w) if turned else w)
    return _convolve(a, w, before=before, after=after, turned=turned)


def _slid(name: str, a: ndarray, v: ndarray, mode: str) -> ndarray:
    """The convolution of two vectors, or the correlation where v is conjugate already: the shorter
    one slides."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode must be 'full', 'same' or 'valid', got {mode!r}")
    turned = name == "convolve"
    swapped = v.size > a.size
    if swapped:
        a, v = v, a
    m = v.size
    before, after = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[
        mode
    ]
    y = _slide(a, v, before, after, turned)
    return (
        _copy(flip(y)) if swapped and not turned else y
    )  # NumPy correlates the other way round there, and reverses the answer


def _vectors(name: str, a: Any, v: Any) -> tuple[ndarray, ndarray]:
    a, v = coerce(name, (a, v), ANY)
    if a.ndim > 1 or v.ndim > 1 or not a.size or not v.size:
        raise ValueError(
            f"{name}: wants two vectors that are not empty, got shapes {a.shape} and {v.shape}"
        )
    common = dtypes.result_type(a, v)
    return atleast_1d(astype(a, common, copy=False), astype(v, common, copy=False))


@fast_path("a", "v")
def convolve(a: ArrayLike, v: ArrayLike, /, mode: str = "full") -> ndarray:
    """Convolution of two vectors: y[k] = Σ_i a[i] v[k - i].

    Parameters
    ----------
    a, v : array_like
        Numeric or bool vectors.
    mode : str, default "full"
        "full" gives every overlap, n + m - 1 elements. "same" gives the middle max(n, m), and
        "valid" the max(n, m) - min(n, m) + 1 complete overlaps.

    Returns
    -------
    ndarray
        Vector of the common dtype.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or the mode is unknown.

    Notes
    -----
    The gradient is a correlation. The convolution takes n m operations (no Fourier transform).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.convolve([1, 2, 3], [0, 1, 2]).tolist()
    [0, 1, 4, 7, 6]
    """
    return _slid("convolve", *_vectors("convolve", a, v), mode)


@fast_path("a", "v")
def correlate(a: ArrayLike, v: ArrayLike, /, mode: str = "valid") -> ndarray:
    """Correlation of two vectors: y[k] = Σ_i a[i + k] conj(v[i]).

    Parameters
    ----------
    a, v : array_like
        Numeric or bool vectors.
    mode : str, default "valid"
        "full" gives every overlap, n + m - 1 elements. "same" gives the middle max(n, m), and
        "valid" the max(n, m) - min(n, m) + 1 complete overlaps.

    Returns
    -------
    ndarray
        Vector of the common dtype.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or the mode is unknown.

    Notes
    -----
    The gradient is a convolution.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.correlate([1, 2, 3], [0, 1, 2], mode="full").tolist()
    [2, 5, 8, 3, 0]
    """
    a, v = coerce("correlate", (a, v))
    if not (a.ndim and v.ndim):
        raise ValueError(f"correlate: wants vectors, got shapes {a.shape} and {v.shape}")
    a, v = _vectors("correlate", a, v)
    return _slid("correlate", a, _conjugate(v), mode)
