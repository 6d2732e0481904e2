"""Polynomials by their coefficients, the highest power first, and the classic windows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import (
    poly1d,
)  # its arithmetic, roots and values are those of the functions below, for arrays that are ours

from ..core import dtypes
from ..core.array import ndarray
from ..core.devices import default_index
from ..core.dispatch.checks import as_numbers, coerce, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import COMPLEX, FLOATING, INEXACT, Op
from ..core.layout import Layout
from ..core.shapes import normalize_shape
from ..core.typing import ArrayLike
from ..core.user_warnings import warn
from . import reduce
from .creation import eye, ones, zeros
from .differences import convolve
from .dtype_info import finfo
from .elementwise import abs, not_equal, weighted_sum
from .index_grids import vander
from .join import concat
from .join_numpy import trim_zeros
from .linalg.matrix_functions import lstsq
from .linalg.spectral import eigvals
from .linalg.systems import inv
from .ranges import arange
from .shape import astype, matrix_transpose, reshape, span
from .transfer import imag, real

__all__ = [
    "bartlett",
    "blackman",
    "hamming",
    "hanning",
    "kaiser",
    "poly",
    "poly1d",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]


def _of_poly1d(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function of polynomials, its first one or two arguments: for a poly1d among
    them the results are poly1d, as in NumPy."""
    names = [n for n in inspect.signature(function).parameters if n in ("p", "a1", "a2", "u", "v")]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = [*args[: len(names)], *(kwargs[n] for n in names if n in kwargs)]
        if poly1d not in map(type, given):
            return function(*args, **kwargs)
        result = function(
            *[_array_of(a) for a in args], **{key: _array_of(a) for key, a in kwargs.items()}
        )
        return tuple(map(poly1d, result)) if isinstance(result, tuple) else poly1d(result)

    return call


def _array_of(p: Any) -> Any:
    """The coefficients of a poly1d; anything else as it is."""
    return p.coeffs if isinstance(p, poly1d) else p


def _times(name: str, what: str, number: Any, least: int = 0) -> int:
    """A degree or a number of repetitions: whole, of any class of numbers."""
    (value,) = as_numbers(name, f"{what} as a whole number", number)
    if not value == value // 1:
        raise TypeError(f"{name}: {what} must be an integer, got {value}")
    if value < least:
        raise ValueError(f"{name}: {what} must be at least {least}, got {value}")
    return int(value)


@fast_path("p", "x")
def polyval(p: Any, x: Any) -> ndarray:
    """The polynomial p[0] x^(n-1) + ... + p[n-1], by Horner's rule.

    Parameters
    ----------
    p : array_like
        Vector of coefficients, the highest power first, or a poly1d. Of an array of more
        dimensions the first axis numbers the coefficients, which broadcast against `x`.
    x : array_like or object
        Numeric or bool array, or a poly1d. For a poly1d the result is p of that polynomial.

    Returns
    -------
    ndarray
        Array of x's shape, or a poly1d.

    Raises
    ------
    TypeError
        `p` is a number.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polyval([3, 0, 1], [0, 1, 5]).tolist()
    [1, 4, 76]
    """
    if isinstance(x, poly1d):  # would be taken for its coefficients
        return functools.reduce(lambda y, each: y * x + each, np.asarray(_array_of(p)), poly1d(0))  # type: ignore[return-value]
    p, x = coerce("polyval", (_array_of(p), x))
    if not p.ndim:
        raise TypeError(f"polyval: wants a vector of coefficients, got shape {p.shape}")
    if not p.size:
        return zeros(x.shape, x.dtype, device=x.device)
    y = zeros(x.shape, dtypes.promote(p.dtype, x.dtype), device=x.device)
    in_one = (
        x._layout.device >= 0 and p.ndim == 1 and p.dtype in FLOATING and x.dtype in FLOATING
    )  # a coefficient, one launch
    for i in range(p.shape[0]):
        y = weighted_sum(y, p[i], x, 1.0) if in_one else y * x + p[i]
    return y


@fast_path("p")
@_of_poly1d
def polyder(p: ArrayLike, m: int = 1) -> ndarray:
    """Return coefficients of the m-th derivative.

    Parameters
    ----------
    p : array_like
        Vector of coefficients, the highest power first.
    m : int, default 1
        Number of times that the operation is applied, >= 0.

    Returns
    -------
    ndarray
        Vector of coefficients.

    Raises
    ------
    ValueError
        `p` is not a vector, or `m` is negative.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polyder([1, 1, 1, 1]).tolist()
    [3, 2, 1]
    """
    p = require("polyder", p)
    if p.ndim != 1:
        raise ValueError(f"polyder: wants a vector, got shape {p.shape}")
    for _ in range(min(_times("polyder", "m", m), p.size)):  # then nothing is left
        n = p.size - 1
        p = span(p, 0, 0, max(n, 0)) * arange(max(n, 0), 0, -1, device=p.device)
    return p


@fast_path("p")
@_of_poly1d
@speaks_for("polyint")
def polyint(p: ArrayLike, m: int = 1, k: Any = None) -> ndarray:
    """Return coefficients of the m-th antiderivative.

    Parameters
    ----------
    p : array_like
        Vector of coefficients, the highest power first.
    m : int, default 1
        Number of times that the operation is applied, >= 0.
    k : array_like, optional
        Constants of integration, the first integration first, or one constant for all. None is 0.

    Returns
    -------
    ndarray
        Vector of coefficients.

    Raises
    ------
    ValueError
        A shape does not fit, or `m` is negative.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polyint([6.0, 2.0]).tolist()
    [3.0, 2.0, 0.0]
    """
    p = require("polyint", p)
    if p.ndim != 1:
        raise ValueError(f"polyint: wants a vector, got shape {p.shape}")
    times = _times("polyint", "m", m)
    if np.ndim(k) and (np.ndim(k) > 1 or len(k) != 1 and len(k) < times):
        raise ValueError(
            f"polyint: wants one constant k, or one for each of m = {times} integrations, got "
            f"shape {np.shape(k)}"
        )
    for i in range(times):
        constant = 0 if k is None else k[min(i, len(k) - 1)] if np.ndim(k) else k
        p = p / arange(p.size, 0, -1, device=p.device)
        p = concat([p, ones(1, p.dtype, device=p.device) * constant])
    return p


def _coefficients(name: str, *given: Any) -> list[ndarray]:
    """Vectors of coefficients, on one device; numbers are polynomials of degree 0."""
    arrays = [reshape(a, (1,)) if not a.ndim else a for a in coerce(name, given)]
    for a in arrays:
        if a.ndim != 1:
            raise ValueError(f"{name}: wants vectors of coefficients, got shape {a.shape}")
    return arrays


def _padded(a: ndarray, n: int) -> ndarray:
    """Zeros in front, up to n coefficients."""
    return concat([zeros(n - a.size, a.dtype, device=a.device), a]) if a.size < n else a


def _of_one_length(name: str, *polynomials: Any) -> list[ndarray]:
    """Coefficients with zeros in front of the shorter ones. Those of one length may be arrays with
    more axes, each column of which is a polynomial."""
    arrays = [reshape(a, (1,)) if not a.ndim else a for a in coerce(name, polynomials)]
    if len({a.shape[0] for a in arrays}) == 1:
        return arrays
    arrays = _coefficients(name, *arrays)
    return [_padded(a, max([b.size for b in arrays])) for a in arrays]


@fast_path("a1", "a2")
@_of_poly1d
def polyadd(a1: ArrayLike, a2: ArrayLike) -> ndarray:
    """The sum of two polynomials.

    Parameters
    ----------
    a1, a2 : array_like
        Vectors of coefficients, the highest power first.

    Returns
    -------
    ndarray
        Vector of coefficients.

    Raises
    ------
    ValueError
        The shapes do not fit each other.
    TypeError
        A dtype is not supported.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polyadd([1, 2], [9, 5, 4]).tolist()
    [9, 6, 6]
    """
    a, b = _of_one_length("polyadd", a1, a2)
    return a + b


@fast_path("a1", "a2")
@_of_poly1d
def polysub(a1: ArrayLike, a2: ArrayLike) -> ndarray:
    """Return the difference of two polynomials.

    Parameters
    ----------
    a1, a2 : array_like
        Vectors of coefficients, the highest power first.

    Returns
    -------
    ndarray
        Vector of coefficients.

    Raises
    ------
    ValueError
        The shapes do not fit each other.
    TypeError
        A dtype is not supported.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polysub([2, 10, -2], [3, 10, -4]).tolist()
    [-1, 0, 2]
    """
    a, b = _of_one_length("polysub", a1, a2)
    return a - b


@_of_poly1d
def polymul(a1: ArrayLike, a2: ArrayLike) -> ndarray:
    """Return the product of two polynomials.

    It is the convolution of their coefficients without leading zeros. The call waits for the
    device.

    Parameters
    ----------
    a1, a2 : array_like
        Vectors of coefficients, the highest power first.

    Returns
    -------
    ndarray
        Vector of coefficients.

    Raises
    ------
    ValueError
        The shapes do not fit each other.
    TypeError
        A dtype is not supported.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polymul([1, 2, 3], [9, 5, 1]).tolist()
    [9, 23, 38, 17, 3]
    """
    a, b = _coefficients("polymul", a1, a2)
    a, b = (
        trim_zeros(p, "f") if bool(not_equal(p, 0).any()) else zeros(1, p.dtype, device=p.device)
        for p in (a, b)
    )
    return convolve(a, b)


@_of_poly1d
def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[ndarray, ndarray]:
    """Return the quotient and the remainder of two polynomials.

    Parameters
    ----------
    u, v : array_like
        Vectors of coefficients. v[0] is not 0.

    Returns
    -------
    tuple of ndarray
        The quotient and the remainder, floating-point vectors. The remainder has no leading zeros
        (to a relative 1e-14, as in NumPy).

    Raises
    ------
    ValueError
        An argument is not a vector.
    TypeError
        A dtype is not supported.

    Notes
    -----
    The gradient follows from those of the operations inside.

    The call waits for the device.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.tolist() for a in cm.polydiv([3.0, 5.0, 2.0], [2.0, 1.0])]
    [[1.5, 1.75], [0.25]]
    """
    u, v = _coefficients("polydiv", u, v)
    if not (u.size and v.size):
        raise IndexError(f"polydiv: wants coefficients, got shapes {u.shape} and {v.shape}")
    kind = dtypes.result_type(u, v, 1.0)
    rest, v = astype(u, kind, copy=False), astype(v, kind, copy=False)
    places = u.size - v.size
    steps = [zeros(1, kind, device=u.device)] if places < 0 else []
    for k in range(
        places + 1
    ):  # long division: each step clears the highest coefficient that is left
        factor = rest[k] / v[0]
        steps.append(reshape(factor, (1,)))
        rest = concat(
            [
                span(rest, 0, 0, k),
                span(rest, 0, k, k + v.size) - factor * v,
                span(rest, 0, k + v.size, u.size),
            ]
        )
    small = np.isclose(rest._alias().to_numpy(), 0, rtol=1e-14)  # decides the length alone
    first = int(np.argmin(small)) if not small.all() else rest.size - 1
    return concat(steps), span(rest, 0, min(first, rest.size - 1), rest.size)


@fast_path("roots")
def poly(roots: ArrayLike, /) -> ndarray:
    """Return the coefficients of the polynomial with these roots, the highest one 1.

    For a square matrix it is the characteristic polynomial.

    Parameters
    ----------
    roots : array_like
        Vector (n,) of the roots, or a matrix (n, n) whose eigenvalues are the roots.

    Returns
    -------
    ndarray
        Vector (n + 1,) of floating-point numbers. It is real where complex roots come in conjugate
        pairs, and the call then waits for the device.

    Raises
    ------
    ValueError
        The argument has another shape.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.poly([2.0, -3.0]).tolist()
    [1.0, 1.0, -6.0]
    """
    z = require("poly", roots)
    if z.ndim == 2 and z.shape[0] == z.shape[1] and z.size:
        z = speaks_for("poly")(eigvals)(z)
    if z.ndim > 1:
        raise ValueError(f"poly: wants a vector of roots or a square matrix, got shape {z.shape}")
    z = reshape(z, (-1,))
    if z.dtype not in INEXACT or z.dtype.itemsize == 2:
        z = astype(z, dtypes.default_float())
    if not z.size:
        return ones((), z.dtype, device=z.device)
    c = ones(1, z.dtype, device=z.device)
    for i in range(z.size):
        one = ones(1, z.dtype, device=z.device)
        c = convolve(c, concat([one, -span(z, 0, i, i + 1)]))
    if z.dtype in COMPLEX:
        values = z._alias().to_numpy()  # decides the dtype alone
        if np.array_equal(np.sort(values), np.sort(values.conj())):
            c = real(c)
    return c


def roots(p: Any) -> ndarray:
    """The roots of a polynomial: eigenvalues of its companion matrix.

    Parameters
    ----------
    p : array_like
        Vector of coefficients, the highest power first.

    Returns
    -------
    ndarray
        Vector of the roots, complex where some are complex. Leading zeros give no roots, and
        trailing zeros give roots at 0.

    Raises
    ------
    ValueError
        The argument is not a vector.

    Notes
    -----
    The gradient is that of `linalg.eigvals`.

    The call waits for the device.

    Examples
    --------
    >>> import cudamath as cm
    >>> sorted(cm.round(cm.roots([1.0, -3.0, 2.0]), 9).tolist())
    [1.0, 2.0]
    """
    (p,) = _coefficients("roots", _array_of(p))
    p = p if p.dtype in INEXACT else astype(p, dtypes.default_float())
    there = np.flatnonzero(p._alias().to_numpy())  # decides the length alone
    if not there.size:
        return zeros(0, device=p.device)
    first, last = int(there[0]), int(there[-1])
    n = last - first
    if not n:
        return zeros(p.size - 1 - last, device=p.device)
    behind = zeros(p.size - 1 - last, p.dtype, device=p.device)
    top = reshape(-span(p, 0, first + 1, last + 1) / p[first], (1, n))
    z = speaks_for("roots")(eigvals)(concat([top, eye(n - 1, n, dtype=p.dtype, device=p.device)]))
    if z.dtype in COMPLEX and p.dtype not in COMPLEX and not bool(not_equal(imag(z), 0).any()):
        z = real(z)
    return concat([z, astype(behind, z.dtype)]) if behind.size else z


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """Fit a polynomial of a degree to points by least squares: least Σ w^2 (p(x) - y)^2.

    Least Σ w^2 (p(x) - y)^2.

    Parameters
    ----------
    x : array_like of shape (n,)
        Real coordinates of the points.
    y : array_like of shape (n,) or (n, k)
        Values at the points. Each column gives one polynomial.
    deg : int
        Degree of the polynomial, >= 0. A whole number of any class counts.
    rcond : float, optional
        Singular values up to `rcond` times the largest one count as 0. The default is n eps.
    full : bool, default False
        Whether the quality of the fit is returned as well.
    w : array_like of shape (n,), optional
        Weights of the residuals.
    cov : bool or str, default False
        Whether the covariance of the coefficients is returned as well. True scales it by the
        residuals, "unscaled" does not.

    Returns
    -------
    ndarray or tuple
        Coefficients of shape (deg + 1,) or (deg + 1, k), at least float64. With `full` the tuple
        (coefficients, residuals, rank, singular values, rcond) of the scaled matrix, as
        ``linalg.lstsq`` gives them. With `cov` the pair (coefficients, covariance), the latter of
        shape (deg + 1, deg + 1[, k]).

    Raises
    ------
    TypeError
        The shapes do not fit each other.
    ValueError
        The degree is negative, or there are too few points for a covariance.

    Notes
    -----
    The gradient is that of `linalg.lstsq`.

    The function warns with numpy.exceptions.RankWarning where the points do not determine the
    polynomial.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.round(cm.polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1), 6).tolist()
    [2.0, 1.0]
    """
    x, y = coerce("polyfit", (x, y))
    deg = _times("polyfit", "deg", deg)
    if x.ndim != 1 or y.ndim not in (1, 2) or y.shape[0] != x.size or not x.size:
        raise TypeError(
            "polyfit: wants vectors that are equally long, got shapes "
            f"{x.shape} and {y.shape} and degree {deg}"
        )
    x, y = (a if a.dtype in INEXACT else astype(a, dtypes.default_float()) for a in (x, y))
    left, right = vander(x, deg + 1), y
    if w is not None:
        weights = coerce("polyfit", (x, w))[1]
        if weights.shape != x.shape:
            raise TypeError(f"polyfit: weights of shape {weights.shape} do not fit {x.size} points")
        left = left * reshape(weights, (-1, 1))
        right = right * (reshape(weights, (-1, 1)) if y.ndim == 2 else weights)
    scale = reduce.sum(abs(left) ** 2, axis=0) ** 0.5
    left = left / scale
    (rcond,) = as_numbers(
        "polyfit",
        "rcond as a real number",
        x.size * float(finfo(x.dtype).eps) if rcond is None else rcond,
    )
    c, residuals, rank, s = lstsq(left, right, rcond)
    c = c / (reshape(scale, (-1, 1)) if y.ndim == 2 else scale)
    if full:
        return c, residuals, rank, s, rcond
    if rank != deg + 1:
        warn("polyfit: the points do not determine the polynomial well", np.exceptions.RankWarning)
    if not cov:
        return c
    spread = inv(matrix_transpose(left) @ left) / (reshape(scale, (-1, 1)) * scale)
    if cov != "unscaled" and x.size <= deg + 1:
        raise ValueError(
            f"polyfit: {x.size} points are too few to scale the covariance of {deg + 1} "
            "coefficients"
        )
    spread = spread if y.ndim == 1 else reshape(spread, (*spread.shape, 1))
    return c, spread if cov == "unscaled" else spread * (residuals / (x.size - deg - 1))


@fast_path()
def _window(kind: str, m: int) -> ndarray:
    """A window with m points, in the default dtype: one launch."""
    count = _points(kind, m)
    if count == 1:
        return ones(1, dtypes.default_float())
    return _filled(_windows, count, kind=kind)


def _filled(card: Op, n: int, scalars: tuple = (), **params: Any) -> ndarray:
    """What a card makes of numbers alone: n elements of the default dtype."""
    layout = Layout.new((n,), dtypes.default_float(), default_index())
    return card(scalars=scalars, layout=layout, device=layout.device, **params)


_windows = Op("window", cpu="index_grids.window", cuda="shape.index_grids.window")


def _points(name: str, m: Any) -> int:
    """The number of points of a window: a whole number, of any class, below 0 as 0."""
    (number,) = as_numbers(name, "a whole number of points", m)
    if number != number // 1:
        raise ValueError(f"{name}: wants a whole number of points, got {m}")
    return normalize_shape(name, max(int(number), 0))[0]


def bartlett(m: int, /) -> ndarray:
    """The triangle window with m points.

    Parameters
    ----------
    m : int
        Number of points. A number below 1 gives an empty array.

    Returns
    -------
    ndarray
        Array of shape (m,), of the default floating-point dtype, symmetric about its middle.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("bartlett", m)


def hanning(m: int, /) -> ndarray:
    """The raised cosine window with m points: 0.5 + 0.5 cos(pi t), t from -1 to 1.

    Parameters
    ----------
    m : int
        Number of points. A number below 1 gives an empty array.

    Returns
    -------
    ndarray
        Array of shape (m,), of the default floating-point dtype, symmetric about its middle.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.round(cm.hanning(3), 9).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("hanning", m)


def hamming(m: int, /) -> ndarray:
    """The window 0.54 + 0.46 cos(pi t), t from -1 to 1, with m points.

    Parameters
    ----------
    m : int
        Number of points. A number below 1 gives an empty array.

    Returns
    -------
    ndarray
        Array of shape (m,), of the default floating-point dtype, symmetric about its middle.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.round(cm.hamming(3), 9).tolist()
    [0.08, 1.0, 0.08]
    """
    return _window("hamming", m)


def blackman(m: int, /) -> ndarray:
    """The window 0.42 + 0.5 cos(pi t) + 0.08 cos(2 pi t), t from -1 to 1, with m points.

    Parameters
    ----------
    m : int
        Number of points. A number below 1 gives an empty array.

    Returns
    -------
    ndarray
        Array of shape (m,), of the default floating-point dtype, symmetric about its middle.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.round(cm.blackman(3), 9).tolist()
    [-0.0, 1.0, -0.0]
    """
    return _window("blackman", m)


@fast_path()
def kaiser(m: int, beta: float, /) -> ndarray:
    """Return the Kaiser window with m points.

    I0(beta sqrt(1 - t^2)) / I0(beta), with t from -1 to 1. I0 is the modified Bessel function,
    computed in float64.

    Parameters
    ----------
    m : int
        Number of points. A number below 1 gives an empty array.
    beta : float
        Shape parameter of the window.

    Returns
    -------
    ndarray
        Array of shape (m,), of the default floating-point dtype, symmetric about its middle.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.round(cm.kaiser(3, 2.0), 6).tolist()
    [0.438676, 1.0, 0.438676]
    """
    n = _points("kaiser", m)
    (beta,) = as_numbers("kaiser", "a real number as beta", beta)
    return _filled(_kaiser, n, (float(beta),))


_kaiser = Op("kaiser", cpu="index_grids.kaiser", cuda="shape.index_grids.kaiser")
