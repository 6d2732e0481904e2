"""Cosine and sine transforms (DCT, DST) of the types 1 to 4, with SciPy's meaning, by Fourier
transforms: `cudamath.fft`.

Types 2 and 3 take one real transform of the same length (Makhoul, A fast cosine transform in one
and two dimensions, 1980), type 1 one of the mirrored numbers, type 4 a complex one of twice the
length. A complex array is transformed in its real and imaginary part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .core import shapes
from .core.array import ndarray
from .core.dispatch.checks import require
from .core.dispatch.fast_path import fast_path
from .core.typing import ArrayLike
from .ops.elementwise import cos, sin
from .ops.fft import (
    ANY_NUMBERS,
    Axes,
    as_narrow,
    c2c,
    c2r,
    fitted,
    input_of,
    last_axes,
    length_of,
    lengths_and_axes,
    r2c,
)
from .ops.join import concat, stack
from .ops.linalg.keywords import scipy_keywords
from .ops.ranges import arange
from .ops.shape import astype, flip, moveaxis, reshape, span
from .ops.transfer import complex_of_parts, imag, real

__all__ = ["dct", "dctn", "dst", "dstn", "idct", "idctn", "idst", "idstn"]

# -------------------- along the last axis, without a factor


def _cut(x: ndarray, start: int, stop: int) -> ndarray:
    return span(x, x.ndim - 1, start, stop)


def _turns(x: ndarray, step: float, first: int, stop: int, stride: int = 1) -> ndarray:
    """exp(i step j) of whole numbers j, in x's precision: computed in float64 on x's device."""
    angles = arange(first, stop, stride, dtype=np.float64, device=x.device) * step
    narrow = x.dtype.itemsize == (4 if x.dtype.kind == "f" else 8)
    kind = np.dtype(np.float32 if narrow else np.float64)
    return complex_of_parts(*[astype(part(angles), kind, copy=False) for part in (cos, sin)])


def _cosines_1(x: ndarray) -> ndarray:
    n = x.shape[-1]
    mirrored = concat([x, flip(_cut(x, 1, n - 1), axis=-1)], axis=-1)
    return real(r2c(mirrored, axes=(x.ndim - 1,), scale=1.0))


def _sines_1(x: ndarray) -> ndarray:
    n = x.shape[-1]
    zero = _cut(x, 0, 1) * 0
    mirrored = concat([zero, x, zero, -flip(x, axis=-1)], axis=-1)
    return -imag(_cut(r2c(mirrored, axes=(x.ndim - 1,), scale=1.0), 1, n + 1))


def _cosines_2(x: ndarray, alternating: bool = False) -> ndarray:
    """alternating: of every second number, the negative."""
    n = x.shape[-1]
    half = (n + 1) // 2
    odd = -x[..., 1::2] if alternating else x[..., 1::2]
    order = concat([x[..., ::2], flip(odd, axis=-1)], axis=-1)
    z = r2c(order, axes=(x.ndim - 1,), scale=2.0)
    z = z * _turns(x, -math.pi / (2 * n), 0, n // 2 + 1)
    return concat([real(z), -flip(imag(_cut(z, 1, half)), axis=-1)], axis=-1)


def _cosines_3(x: ndarray, alternating: bool = False) -> ndarray:
    """alternating: the negative of every second result."""
    n = x.shape[-1]
    count = n // 2 + 1
    first = _cut(x, 0, count)
    zero = _cut(x, 0, 1) * 0
    last = concat([zero, flip(_cut(x, n - count + 1, n), axis=-1)], axis=-1)
    z = complex_of_parts(first, -last) * _turns(x, math.pi / (2 * n), 0, count)
    v = c2r(z, axes=(x.ndim - 1,), n=n, scale=1.0)
    half = (n + 1) // 2
    even, odd = _cut(v, 0, half), flip(_cut(v, half, n), axis=-1)
    if n % 2:
        odd = concat([odd, _cut(even, 0, 1)], axis=-1)
    if alternating:
        odd = -odd
    both = reshape(stack([even, odd], axis=-1), (*x.shape[:-1], 2 * half))
    return _cut(both, 0, n)


def _turned_4(x: ndarray) -> ndarray:
    """The sum of x[j] exp(-i pi (2 j + 1) (2 k + 1) / (4 n)) over j, twice."""
    n = x.shape[-1]
    z = complex_of_parts(x, x * 0) * _turns(x, -math.pi / (2 * n), 0, n)
    z = c2c(fitted(z, x.ndim - 1, 2 * n), axes=(x.ndim - 1,), inverse=False, scale=2.0)
    return _cut(z, 0, n) * _turns(x, -math.pi / (4 * n), 1, 2 * n, 2)


_TRANSFORMS: dict[tuple[bool, int], Callable[[ndarray], ndarray]] = {
    (False, 1): _cosines_1,
    (False, 2): _cosines_2,
    (False, 3): _cosines_3,
    (False, 4): lambda x: real(_turned_4(x)),
    (True, 1): _sines_1,
    (True, 2): lambda x: flip(_cosines_2(x, alternating=True), axis=-1),
    (True, 3): lambda x: _cosines_3(flip(x, axis=-1), alternating=True),
    (True, 4): lambda x: -imag(_turned_4(x)),
}

# -------------------- factors


def _edge(x: ndarray, places: Sequence[int], factor: float) -> ndarray:
    """x, with the numbers at these places, ends of the last axis, times a factor."""
    n = x.shape[-1]
    if n == 1:
        return x * factor
    first, last = 0 in places, n - 1 in places
    parts = [_cut(x, 0, 1) * factor] if first else []
    parts += [_cut(x, int(first), n - last)]
    parts += [_cut(x, n - 1, n) * factor] if last else []
    return concat(parts, axis=-1)


def _places(sines: bool, kind: int, n: int, before: bool) -> Sequence[int]:
    """Which numbers have a factor of their own in an orthogonal matrix, before the transform or
    after it."""
    if kind == 1:
        return () if sines else (0, n - 1)
    if kind == (3 if before else 2):
        return (n - 1,) if sines else (0,)
    return ()


def _along(
    x: ndarray, axis: int, sines: bool, kind: int, factor: float, orthogonal: bool
) -> ndarray:
    """One transform along an axis."""
    last = x.ndim - 1
    x = x if axis == last else moveaxis(x, axis, last)
    n = x.shape[-1]
    if orthogonal and _places(sines, kind, n, True):
        x = _edge(x, _places(sines, kind, n, True), math.sqrt(2))
    x = _TRANSFORMS[sines, kind](x)
    if factor != 1:
        x = x * factor
    if orthogonal and _places(sines, kind, n, False):
        x = _edge(x, _places(sines, kind, n, False), math.sqrt(0.5))
    return x if axis == last else moveaxis(x, last, axis)


def _transformed(
    name: str,
    x: Any,
    kind: Any,
    s: Any,
    axes: Axes,
    norm: str | None,
    orthogonalize: bool | None,
    alone: bool = False,
) -> ndarray:
    sines, inverse = "dst" in name, name[0] == "i"
    given = require(name, x, ANY_NUMBERS)
    kind = shapes.as_integer(name, "type", kind, 1)
    if kind > 4:
        raise ValueError(f"{name}: type must be 1, 2, 3 or 4, got {kind}")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'{name}: norm must be "backward", "ortho" or "forward", got {norm!r}')
    x = input_of(name, given)
    if x.dtype.kind == "c":
        parts = [
            _transformed(name, part(x), kind, s, axes, norm, orthogonalize, alone)
            for part in (real, imag)
        ]
        return complex_of_parts(*parts)
    if alone:
        chosen = [shapes.normalize_axis(name, axes, x.ndim)]  # type: ignore[arg-type]
        sizes = [length_of(name, x.shape[chosen[0]] if s is None else s)]
    else:
        sizes, chosen = lengths_and_axes(name, x, s, last_axes(s, axes))
    orthogonal = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
    if inverse:
        kind = {2: 3, 3: 2}.get(kind, kind)
    for n, axis in zip(sizes, chosen, strict=True):
        x = fitted(x, axis, n)
        if kind == 1 and not sines and n < 2:
            raise ValueError(f"{name}: type 1 needs at least 2 numbers along an axis, got {n}")
        count = 2 * (n if kind != 1 else n + 1 if sines else n - 1)
        factor = 1.0
        if norm == "ortho":
            factor = 1 / math.sqrt(count)
        elif inverse == (norm != "forward"):
            factor = 1 / count
        x = _along(x, axis, sines, kind, factor, orthogonal)
    return as_narrow(x, given)


# -------------------- public functions


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def dct(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> ndarray:
    """Discrete cosine transform.

    Type 2: y[k] = 2 sum_j x[j] cos(pi k (2 j + 1) / (2 n)). Type 1: of the mirrored numbers,
    cos(pi j k / (n - 1)); type 3: the transpose of type 2; type 4: cos(pi (2 j + 1) (2 k + 1) /
    (4 n)).

    Parameters
    ----------
    x : array_like
        Numeric array. Of complex numbers, each part is transformed.
    type : int, default 2
        1, 2, 3 or 4.
    n : int, optional
        Length to which `x` is cut or zero-padded. The default is x's.
    axis : int, default -1
        Axis of the transform.
    norm : str or None, optional
        "backward" (default), "ortho" or "forward": whether the inverse, both with its root, or the
        transform has the factor that makes them inverses.
    orthogonalize : bool, optional
        Whether the first and last numbers have the factors of an orthogonal matrix. The default is
        True for "ortho".

    Returns
    -------
    ndarray
        Array of x's dtype; float64 for whole numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The type or the normalisation is unknown, an axis is out of range, or a length does not fit.

    Notes
    -----
    Gradient: the transposed transform of g; it follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.dct([1.0, 2.0, 3.0]).round(4).tolist()
    [12.0, -3.4641, 0.0]
    """
    return _transformed("dct", x, type, n, axis, norm, orthogonalize, alone=True)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def idct(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> ndarray:
    """Inverse discrete cosine transform.

    The inverse of `dct` of the same type and normalisation.

    Parameters
    ----------
    x : array_like
        Numeric array. Of complex numbers, each part is transformed.
    type : int, default 2
        1, 2, 3 or 4.
    n : int, optional
        Length to which `x` is cut or zero-padded. The default is x's.
    axis : int, default -1
        Axis of the transform.
    norm : str or None, optional
        "backward" (default), "ortho" or "forward": whether the inverse, both with its root, or the
        transform has the factor that makes them inverses.
    orthogonalize : bool, optional
        Whether the first and last numbers have the factors of an orthogonal matrix. The default is
        True for "ortho".

    Returns
    -------
    ndarray
        Array of x's dtype; float64 for whole numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The type or the normalisation is unknown, an axis is out of range, or a length does not fit.

    Notes
    -----
    Gradient: the transposed transform of g; it follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.idct(cm.fft.dct([1.0, 2.0, 4.0])).round(12).tolist()
    [1.0, 2.0, 4.0]
    """
    return _transformed("idct", x, type, n, axis, norm, orthogonalize, alone=True)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> ndarray:
    """Discrete cosine transform along several axes.

    `dct` along one axis after another.

    Parameters
    ----------
    x : array_like
        Numeric array. Of complex numbers, each part is transformed.
    type : int, default 2
        1, 2, 3 or 4.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. The default is x's lengths.
    axes : int or sequence of int, optional
        Axes of the transform. The default is all axes, or the last len(s).
    norm : str or None, optional
        "backward" (default), "ortho" or "forward": whether the inverse, both with its root, or the
        transform has the factor that makes them inverses.
    orthogonalize : bool, optional
        Whether the first and last numbers have the factors of an orthogonal matrix. The default is
        True for "ortho".

    Returns
    -------
    ndarray
        Array of x's dtype; float64 for whole numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The type or the normalisation is unknown, an axis is out of range, or a length does not fit.

    Notes
    -----
    Gradient: the transposed transform of g; it follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.dctn(cm.ones((2, 2))).round(4).tolist()
    [[16.0, 0.0], [0.0, 0.0]]
    """
    return _transformed("dctn", x, type, s, axes, norm, orthogonalize)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> ndarray:
    """Inverse discrete cosine transform along several axes.

    The inverse of `dctn` of the same type and normalisation.

    Parameters
    ----------
    x : array_like
        Numeric array. Of complex numbers, each part is transformed.
    type : int, default 2
        1, 2, 3 or 4.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. The default is x's lengths.
    axes : int or sequence of int, optional
        Axes of the transform. The default is all axes, or the last len(s).
    norm : str or None, optional
        "backward" (default), "ortho" or "forward": whether the inverse, both with its root, or the
        transform has the factor that makes them inverses.
    orthogonalize : bool, optional
        Whether the first and last numbers have the factors of an orthogonal matrix. The default is
        True for "ortho".

    Returns
    -------
    ndarray
        Array of x's dtype; float64 for whole numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The type or the normalisation is unknown, an axis is out of range, or a length does not fit.

    Notes
    -----
    Gradient: the transposed transform of g; it follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.idctn(cm.fft.dctn(cm.ones((2, 2)))).round(12).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _transformed("idctn", x, type, s, axes, norm, orthogonalize)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def dst(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> ndarray:
    """Discrete sine transform.

    Type 2: y[k] = 2 sum_j x[j] sin(pi (k + 1) (2 j + 1) / (2 n)). Type 1: sin(pi (j + 1) (k + 1) /
    (n + 1)); type 3: the transpose of type 2; type 4: sin(pi (2 j + 1) (2 k + 1) / (4 n)).

    Parameters
    ----------
    x : array_like
        Numeric array. Of complex numbers, each part is transformed.
    type : int, default 2
        1, 2, 3 or 4.
    n : int, optional
        Length to which `x` is cut or zero-padded. The default is x's.
    axis : int, default -1
        Axis of the transform.
    norm : str or None, optional
        "backward" (default), "ortho" or "forward": whether the inverse, both with its root, or the
        transform has the factor that makes them inverses.
    orthogonalize : bool, optional
        Whether the first and last numbers have the factors of an orthogonal matrix. The default is
        True for "ortho".

    Returns
    -------
    ndarray
        Array of x's dtype; float64 for whole numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The type or the normalisation is unknown, an axis is out of range, or a length does not fit.

    Notes
    -----
    Gradient: the transposed transform of g; it follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.dst([1.0, 2.0, 3.0]).round(4).tolist()
    [8.0, -3.4641, 4.0]
    """
    return _transformed("dst", x, type, n, axis, norm, orthogonalize, alone=True)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def idst(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> ndarray:
    """Inverse discrete sine transform.

    The inverse of `dst` of the same type and normalisation.

    Parameters
    ----------
    x : array_like
        Numeric array. Of complex numbers, each part is transformed.
    type : int, default 2
        1, 2, 3 or 4.
    n : int, optional
        Length to which `x` is cut or zero-padded. The default is x's.
    axis : int, default -1
        Axis of the transform.
    norm : str or None, optional
        "backward" (default), "ortho" or "forward": whether the inverse, both with its root, or the
        transform has the factor that makes them inverses.
    orthogonalize : bool, optional
        Whether the first and last numbers have the factors of an orthogonal matrix. The default is
        True for "ortho".

    Returns
    -------
    ndarray
        Array of x's dtype; float64 for whole numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The type or the normalisation is unknown, an axis is out of range, or a length does not fit.

    Notes
    -----
    Gradient: the transposed transform of g; it follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.idst(cm.fft.dst([1.0, 2.0, 4.0])).round(12).tolist()
    [1.0, 2.0, 4.0]
    """
    return _transformed("idst", x, type, n, axis, norm, orthogonalize, alone=True)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def dstn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> ndarray:
    """Discrete sine transform along several axes.

    `dst` along one axis after another.

    Parameters
    ----------
    x : array_like
        Numeric array. Of complex numbers, each part is transformed.
    type : int, default 2
        1, 2, 3 or 4.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. The default is x's lengths.
    axes : int or sequence of int, optional
        Axes of the transform. The default is all axes, or the last len(s).
    norm : str or None, optional
        "backward" (default), "ortho" or "forward": whether the inverse, both with its root, or the
        transform has the factor that makes them inverses.
    orthogonalize : bool, optional
        Whether the first and last numbers have the factors of an orthogonal matrix. The default is
        True for "ortho".

    Returns
    -------
    ndarray
        Array of x's dtype; float64 for whole numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The type or the normalisation is unknown, an axis is out of range, or a length does not fit.

    Notes
    -----
    Gradient: the transposed transform of g; it follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.dstn(cm.ones((2, 2))).round(4).tolist()
    [[8.0, 0.0], [0.0, 0.0]]
    """
    return _transformed("dstn", x, type, s, axes, norm, orthogonalize)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def idstn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> ndarray:
    """Inverse discrete sine transform along several axes.

    The inverse of `dstn` of the same type and normalisation.

    Parameters
    ----------
    x : array_like
        Numeric array. Of complex numbers, each part is transformed.
    type : int, default 2
        1, 2, 3 or 4.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. The default is x's lengths.
    axes : int or sequence of int, optional
        Axes of the transform. The default is all axes, or the last len(s).
    norm : str or None, optional
        "backward" (default), "ortho" or "forward": whether the inverse, both with its root, or the
        transform has the factor that makes them inverses.
    orthogonalize : bool, optional
        Whether the first and last numbers have the factors of an orthogonal matrix. The default is
        True for "ortho".

    Returns
    -------
    ndarray
        Array of x's dtype; float64 for whole numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The type or the normalisation is unknown, an axis is out of range, or a length does not fit.

    Notes
    -----
    Gradient: the transposed transform of g; it follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.idstn(cm.fft.dstn(cm.ones((2, 2)))).round(12).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _transformed("idstn", x, type, s, axes, norm, orthogonalize)
