"""Cosine and sine transforms (DCT, DST) of the types 1 to 4, with SciPy's meaning, by Fourier
transforms: `cudamath.fft`.

The card is in ops/fft.py, how it computes in kernels/numeric/cosine_transforms.py: a kernel, a
Fourier transform, a kernel, for up to three axes at once. A complex array is transformed in its
real and imaginary part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .core import shapes
from .core.array import ndarray
from .core.dispatch.checks import require
from .core.dispatch.fast_path import fast_path
from .core.typing import ArrayLike
from .ops.fft import (
    ANY_NUMBERS,
    MOST_AT_ONCE,
    Axes,
    as_narrow,
    cosines,
    fitted,
    input_of,
    last_axes,
    length_of,
    lengths_and_axes,
)
from .ops.linalg.keywords import scipy_keywords
from .ops.transfer import complex_of_parts, imag, real

__all__ = ["dct", "dctn", "dst", "dstn", "idct", "idctn", "idst", "idstn"]


def _groups(kind: int, axes: Sequence[int]) -> Iterator[list[int]]:
    """The axes that are transformed at once, by their places in `axes`: three different ones of the
    types 2 and 3."""
    most = MOST_AT_ONCE if kind in (2, 3) else 1
    group: list[int] = []
    for place, axis in enumerate(axes):
        if len(group) == most or axis in [axes[i] for i in group]:
            yield group
            group = []
        group.append(place)
    if group:
        yield group


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
    # Numbers at frequency 0, or at the ends, have a factor of their own in an orthogonal matrix
    edges = orthogonal and (kind in (2, 3) or kind == 1 and not sines)
    before = math.sqrt(2) if edges and kind != 2 else 1.0
    after = math.sqrt(0.5) if edges and kind != 3 else 1.0
    for group in _groups(kind, chosen):
        scale = 1.0
        for n, axis in [(sizes[i], chosen[i]) for i in group]:
            x = fitted(x, axis, n)
            if kind == 1 and not sines and n < 2:
                raise ValueError(f"{name}: type 1 needs at least 2 numbers along an axis, got {n}")
            count = 2 * (n if kind != 1 else n + 1 if sines else n - 1)
            if norm == "ortho":
                scale /= math.sqrt(count)
            elif inverse == (norm != "forward"):
                scale /= count
        axes = tuple([chosen[i] for i in group])
        x = cosines(x, axes=axes, kind=kind, sines=sines, scale=scale, before=before, after=after)
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
