"""`cudamath.fft`: discrete Fourier transforms, as `numpy.fft` has them, by NumPy on the CPU and by
cuFFT on a GPU.

    X[k] = s sum_j x[j] exp(-2 pi i j k / n),    x[j] = t sum_k X[k] exp(2 pi i j k / n),    s t = 1
                                                 / n

`norm` says which of the two carries the factor: "backward" (default, or None) the inverse,
"forward" the forward transform, "ortho" each its root. Real float32, float16 and bfloat16 give
complex64, float64 and integers complex128.

Gradients: a transform is linear, so its gradient is the transform of the gradient with the other
sign. Results on a GPU are those of cuFFT: the same bits on every run of one machine, within a few
units in the last place times log2 n of the exact sum.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .core import dtypes, shapes
from .core.array import ndarray
from .core.devices import index_of
from .core.dispatch import numpy_names
from .core.dispatch.checks import as_numbers, members, require
from .core.dispatch.fast_path import fast_path
from .core.dispatch.op import NUMERIC, REAL_OR_BOOL, Category
from .core.layout import Layout
from .core.public_names import public_dir
from .core.typing import ArrayLike, DeviceLike, DTypeLike
from .core.user_warnings import warn
from .ops.elementwise import conj
from .ops.fft import c2c, c2r, frequencies, r2c
from .ops.join import roll
from .ops.out_argument import deliver
from .ops.padding import pad
from .ops.shape import astype, flip, reshape, span
from .ops.shape import copied as copy

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

__dir__ = public_dir(__name__)

Axes = int | Sequence[int] | None
_ANY = Category("numeric or bool", NUMERIC | dtypes.BOOLEAN)

# -------------------- what they share


def _input(name: str, x: Any, category: Category = _ANY) -> ndarray:
    """The argument as an array of a dtype that is transformed: float32, float64 or their complex
    counterparts."""
    x = require(name, x, category)
    if x.dtype.kind == "c":
        return x
    narrow = x.dtype in (dtypes.float16, dtypes.bfloat16, dtypes.float32)
    return astype(x, dtypes.float32 if narrow else dtypes.float64, copy=False)


def _as_narrow(y: ndarray, x: ndarray) -> ndarray:
    """A real result in x's dtype, where that has 16 bits."""
    narrow = x.dtype in (dtypes.float16, dtypes.bfloat16)
    return astype(y, x.dtype) if narrow else y


def _complex(x: ndarray) -> ndarray:
    """An array of one of these dtypes as complex numbers."""
    return (
        x
        if x.dtype.kind == "c"
        else astype(x, np.complex64 if x.dtype.itemsize == 4 else np.complex128)
    )


def _scale(name: str, norm: str | None, sizes: Sequence[int], inverse: bool) -> float:
    """The factor of a transform of these lengths."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'{name}: norm must be "backward", "ortho" or "forward", got {norm!r}')
    count = math.prod(sizes)
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if inverse == (norm != "forward") else 1.0


def _length(name: str, n: Any) -> int:
    size = shapes.as_integer(name, "a length", n)
    if size < 1:
        raise ValueError(f"{name}: Invalid number of FFT data points ({size}) specified.")
    return size


def _fit(x: ndarray, axis: int, size: int) -> ndarray:
    """x cut, or filled up with zeros, to `size` along an axis."""
    have = x.shape[axis]
    if have == size:
        return x
    if have > size:
        return span(x, axis, 0, size)
    return pad(x, [(0, size - have if i == axis else 0) for i in range(x.ndim)])


def _plan(
    name: str, x: ndarray, s: Sequence[int] | None, axes: Axes
) -> tuple[list[int], list[int]]:
    """(lengths, axes) of a transform along several axes."""
    if s is not None:
        s = members(
            name, [s] if isinstance(s, int) or getattr(s, "ndim", None) == 0 else s, "lengths"
        )
    if s and axes is None:
        warn(
            f"{name}: `axes` should not be `None` if `s` is not `None` (deprecated in NumPy 2.0); "
            "s holds the lengths of the last axes",
            DeprecationWarning,
        )
    if s and None in s:
        warn(
            f"{name}: passing an array containing `None` values to `s` is deprecated in NumPy 2.0; "
            "-1 keeps a length",
            DeprecationWarning,
        )
    if axes is None:
        chosen = list(range(0 if s is None else x.ndim - len(s), x.ndim))
        if chosen and chosen[0] < 0:
            raise ValueError(f"{name}: {len(s or ())} lengths for an array of shape {x.shape}")
    else:
        chosen = [
            shapes.normalize_axis(name, a, x.ndim) for a in (axes if np.iterable(axes) else [axes])
        ]
    if s is None:
        sizes = [x.shape[a] for a in chosen]
    elif len(s) != len(chosen):
        raise ValueError(
            f"{name}: Shape and axes have different lengths: s={tuple(s)}, axes={tuple(chosen)}"
        )
    else:
        sizes = [x.shape[a] if n in (-1, None) else n for n, a in zip(s, chosen, strict=True)]
    return [_length(name, n) for n in sizes], chosen


def _all_complex(
    name: str, x: Any, s: Sequence[int] | None, axes: Axes, norm: str | None, inverse: bool
) -> ndarray:
    x = _input(name, x)
    if x._node is not None:
        x = _complex(
            x
        )  # by a card that knows the gradient; otherwise the transform's own does it on the way
    sizes, chosen = _plan(name, x, s, axes)
    scale = _scale(name, norm, sizes, inverse)
    if len(set(chosen)) == len(chosen):
        for n, axis in zip(sizes, chosen, strict=True):
            x = _fit(x, axis, n)
        return c2c(x, axes=tuple(chosen), inverse=inverse, scale=scale)
    x = _one_by_one(x, sizes[::-1], chosen[::-1], inverse)
    return x if scale == 1 else x * scale


def _to_half(
    name: str,
    x: Any,
    s: Sequence[int] | None,
    axes: Axes,
    norm: str | None,
    inverse: bool = False,
    conjugate: bool = False,
) -> ndarray:
    """Real to the non-negative half of the frequencies, or their conjugates; `inverse` only
    chooses the factor."""
    x = _input(name, x, REAL_OR_BOOL)
    sizes, chosen = _plan(name, x, s, axes)
    if not chosen:
        raise ValueError(f"{name}: at least 1 axis must be transformed")
    scale = _scale(name, norm, sizes, inverse)
    if len(set(chosen)) == len(chosen):
        for n, axis in zip(sizes, chosen, strict=True):
            x = _fit(x, axis, n)
        return r2c(x, axes=tuple(chosen), scale=scale, conjugate=conjugate)
    *sizes, last = sizes
    *chosen, axis = chosen
    x = r2c(_fit(x, axis, last), axes=(axis,), scale=scale, conjugate=conjugate)
    return _one_by_one(x, sizes[::-1], chosen[::-1], False)


def _from_half(
    name: str, x: Any, s: Sequence[int] | None, axes: Axes, norm: str | None, inverse: bool = True
) -> ndarray:
    given = require(name, x, _ANY)
    x = _complex(_input(name, given))
    sizes, chosen = _plan(name, x, [] if s is None and axes is None and not x.ndim else s, axes)
    if not chosen:
        raise ValueError(f"{name}: at least 1 axis must be transformed")
    alone = len(chosen) == 1
    if s is None or s[-1] is None:
        sizes[-1] = _length(name, 2 * (x.shape[chosen[-1]] - 1))
    scale = _scale(name, norm, sizes, inverse)
    if len(set(chosen)) != len(chosen):
        x, chosen = _one_by_one(x, sizes[:-1], chosen[:-1], True), chosen[-1:]
    for n, axis in zip([*sizes[:-1], sizes[-1] // 2 + 1][-len(chosen) :], chosen, strict=True):
        x = _fit(x, axis, n)
    y = c2r(x, axes=tuple(chosen), n=sizes[-1], scale=scale)
    return _as_narrow(y, given) if alone else y


def _one_by_one(x: ndarray, sizes: list[int], axes: list[int], inverse: bool) -> ndarray:
    """Complex transforms along one axis after another, of which some are named twice."""
    for n, axis in zip(sizes, axes, strict=True):
        x = c2c(_fit(x, axis, n), axes=(axis,), inverse=inverse, scale=1.0)
    return x


def _one(name: str, n: int | None) -> Sequence[int] | None:
    if n is None or type(n) is int and n > 0:
        return None if n is None else (n,)
    return (_length(name, n),)  # -1 means an axis' own length only among several


# -------------------- one axis


@fast_path("x")
def fft(
    x: ArrayLike,
    /,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Fourier transform along an axis: X[k] = s sum_j x[j] exp(-2 pi i j k / n).

    Parameters
    ----------
    x : array_like
        Numeric array of any shape and strides. A real one counts as complex.
    n : int, optional
        Length of the transform. `x` is cut or zero-padded to it. The default is x's length along
        `axis`.
    axis : int, default -1
        Axis of the operation.
    norm : str or None, default "backward"
        Normalisation: "backward" (s = 1), "ortho" (s = 1 / sqrt(n)) or "forward" (s = 1 / n).
    out : ndarray, optional
        Array that receives the result and is returned.

    Returns
    -------
    ndarray
        Complex array with n elements along `axis`: complex64 for float16, bfloat16, float32 and
        complex64, otherwise complex128.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        `n` is less than 1, the axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient is the transform of g with exp(+2 pi i j k / n).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.fft([1.0, 0.0, -1.0, 0.0]).tolist()
    [0j, (2+0j), 0j, (2+0j)]
    """
    y = _all_complex("fft", x, _one("fft", n), (axis,), norm, False)
    return y if out is None else deliver("fft", y, out)


@fast_path("x")
def ifft(
    x: ArrayLike,
    /,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Inverse Fourier transform along an axis: x[j] = t sum_k X[k] exp(2 pi i j k / n).

    Parameters
    ----------
    x : array_like
        Numeric array of any shape and strides. A real one counts as complex.
    n : int, optional
        Length of the transform. `x` is cut or zero-padded to it. The default is x's length along
        `axis`.
    axis : int, default -1
        Axis of the operation.
    norm : str or None, default "backward"
        Normalisation: "backward" (t = 1 / n), "ortho" (t = 1 / sqrt(n)) or "forward" (t = 1).
    out : ndarray, optional
        Array that receives the result and is returned.

    Returns
    -------
    ndarray
        Complex array with n elements along `axis`.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        `n` is less than 1, the axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient is the transform of g with the other sign.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.ifft([4.0, 0.0, 0.0, 0.0]).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    y = _all_complex("ifft", x, _one("ifft", n), (axis,), norm, True)
    return y if out is None else deliver("ifft", y, out)


@fast_path("x")
def rfft(
    x: ArrayLike,
    /,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Fourier transform of real numbers: the non-negative half of the frequencies.

    The other half are their conjugates.

    Parameters
    ----------
    x : array_like
        Real array of any shape and strides.
    n : int, optional
        Length of the transform. `x` is cut or zero-padded to it. The default is x's length along
        `axis`.
    axis : int, default -1
        Axis of the operation.
    norm : str or None, default "backward"
        Normalisation: "backward" (s = 1), "ortho" (s = 1 / sqrt(n)) or "forward" (s = 1 / n).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Complex array with n // 2 + 1 elements along `axis`.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        `n` is less than 1, the axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient is the real part of the inverse sum over the half spectrum.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.rfft([1.0, 0.0, -1.0, 0.0]).tolist()
    [0j, (2+0j), 0j]
    """
    y = _to_half("rfft", x, _one("rfft", n), (axis,), norm)
    return y if out is None else deliver("rfft", y, out)


@fast_path("x")
def irfft(
    x: ArrayLike,
    /,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Inverse of `rfft`: real numbers from the non-negative half of their frequencies.

    Parameters
    ----------
    x : array_like
        Numeric array with n // 2 + 1 frequencies along `axis`. It is cut or zero-padded to that
        length. The imaginary part of frequency 0, and of n / 2 for even n, is ignored.
    n : int, optional
        Length of the result. The default is 2 (m - 1) for m frequencies. An odd length must be
        given.
    axis : int, default -1
        Axis of the operation.
    norm : str or None, default "backward"
        Normalisation: "backward" (t = 1 / n), "ortho" (t = 1 / sqrt(n)) or "forward" (t = 1).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Real array with n elements along `axis`, of 16 bits where `x` has floats of 16 bits.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        `n` is less than 1, the axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient is `rfft` of g, doubled at the frequencies that count twice.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.irfft([0.0, 2.0, 0.0]).tolist()
    [1.0, 0.0, -1.0, 0.0]
    """
    y = _from_half("irfft", x, _one("irfft", n), (axis,), norm)
    return y if out is None else deliver("irfft", y, out)


@fast_path("x")
def hfft(
    x: ArrayLike,
    /,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Fourier transform of a signal with Hermitian symmetry, given by its non-negative half.

    The spectrum is real.

    Parameters
    ----------
    x : array_like
        Numeric array with n // 2 + 1 values along `axis`. It is cut or zero-padded to that length.
    n : int, optional
        Length of the result. The default is 2 (m - 1).
    axis : int, default -1
        Axis of the operation.
    norm : str or None, default "backward"
        Normalisation: "backward" (s = 1), "ortho" (s = 1 / sqrt(n)) or "forward" (s = 1 / n).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Real array with n elements along `axis`, of 16 bits where `x` has floats of 16 bits.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        `n` is less than 1, the axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.hfft([1.0, 2.0, 1.0]).tolist()
    [6.0, 0.0, -2.0, 0.0]
    """
    x = require("hfft", x, _ANY)
    y = _from_half(
        "hfft", conj(_complex(_input("hfft", x))), _one("hfft", n), (axis,), norm, inverse=False
    )
    y = _as_narrow(y, x)
    return y if out is None else deliver("hfft", y, out)


@fast_path("x")
def ihfft(
    x: ArrayLike,
    /,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Inverse of `hfft`: the non-negative half of the signal whose spectrum is real.

    Parameters
    ----------
    x : array_like
        Real array.
    n : int, optional
        Length of the transform. `x` is cut or zero-padded to it. The default is x's length along
        `axis`.
    axis : int, default -1
        Axis of the operation.
    norm : str or None, default "backward"
        Normalisation: "backward" (t = 1 / n), "ortho" (t = 1 / sqrt(n)) or "forward" (t = 1).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Complex array with n // 2 + 1 elements along `axis`.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        `n` is less than 1, the axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.ihfft([6.0, 0.0, -2.0, 0.0]).real.tolist()
    [1.0, 2.0, 1.0]
    """
    axis = shapes.as_integer("ihfft", "axis", axis)
    y = _to_half("ihfft", x, _one("ihfft", n), (axis,), norm, inverse=True, conjugate=True)
    return y if out is None else deliver("ihfft", y, out)


# -------------------- several axes


@fast_path("x")
def fftn(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Fourier transform along several axes.

    Parameters
    ----------
    x : array_like
        Numeric array.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. -1 keeps a length. The default is
        x's lengths.
    axes : int or sequence of int, optional
        Axes of the transform. The default is all axes, or the last len(s). An axis that occurs
        twice is transformed twice.
    norm : str or None, default "backward"
        Normalisation, as for `fft`. The factor is that of all lengths together.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Complex array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The lengths are not valid, the axes are not valid, or the normalisation is unknown.

    Notes
    -----
    The gradient is the transform of g with the other sign.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.fftn(cm.ones((2, 2))).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    y = _all_complex("fftn", x, s, axes, norm, False)
    return y if out is None else deliver("fftn", y, out)


@fast_path("x")
def ifftn(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Inverse Fourier transform along several axes.

    Parameters
    ----------
    x : array_like
        Numeric array.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. -1 keeps a length. The default is
        x's lengths.
    axes : int or sequence of int, optional
        Axes of the transform. The default is all axes, or the last len(s). An axis that occurs
        twice is transformed twice.
    norm : str or None, default "backward"
        Normalisation: "backward" (t = 1 / n), "ortho" (t = 1 / sqrt(n)) or "forward" (t = 1).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Complex array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The lengths are not valid, the axes are not valid, or the normalisation is unknown.

    Notes
    -----
    The gradient is the transform of g with the other sign.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.ifftn([[4.0, 0.0], [0.0, 0.0]]).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    y = _all_complex("ifftn", x, s, axes, norm, True)
    return y if out is None else deliver("ifftn", y, out)


@fast_path("x")
def fft2(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Fourier transform along two axes, by default the last two.

    It is `fftn` with other defaults.

    Parameters
    ----------
    x : array_like
        Numeric array.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. -1 keeps a length. The default is
        x's lengths.
    axes : int or sequence of int, default (-2, -1)
        Axes of the transform. The default is all axes, or the last len(s). An axis that occurs
        twice is transformed twice.
    norm : str or None, default "backward"
        Normalisation, as for `fft`. The factor is that of all lengths together.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Complex array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The lengths are not valid, the axes are not valid, or the normalisation is unknown.

    Notes
    -----
    The gradient is that of `fftn`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.fft2(cm.ones((1, 2, 2))).real.tolist()
    [[[4.0, 0.0], [0.0, 0.0]]]
    """
    y = _all_complex("fft2", x, s, axes, norm, False)
    return y if out is None else deliver("fft2", y, out)


@fast_path("x")
def ifft2(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Inverse Fourier transform along two axes, by default the last two.

    It is `ifftn` with other defaults.

    Parameters
    ----------
    x : array_like
        Numeric array.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. -1 keeps a length. The default is
        x's lengths.
    axes : int or sequence of int, default (-2, -1)
        Axes of the transform. The default is all axes, or the last len(s). An axis that occurs
        twice is transformed twice.
    norm : str or None, default "backward"
        Normalisation: "backward" (t = 1 / n), "ortho" (t = 1 / sqrt(n)) or "forward" (t = 1).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Complex array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The lengths are not valid, the axes are not valid, or the normalisation is unknown.

    Notes
    -----
    The gradient is that of `ifftn`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.ifft2([[4.0, 0.0], [0.0, 0.0]]).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    y = _all_complex("ifft2", x, s, axes, norm, True)
    return y if out is None else deliver("ifft2", y, out)


@fast_path("x")
def rfftn(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Fourier transform of real numbers along several axes.

    The result has half the frequencies along the last axis.

    Parameters
    ----------
    x : array_like
        Real array.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. -1 keeps a length. The default is
        x's lengths.
    axes : int or sequence of int, optional
        Axes of the transform. The default is all axes, or the last len(s). An axis that occurs
        twice is transformed twice.
    norm : str or None, default "backward"
        Normalisation, as for `fft`. The factor is that of all lengths together.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Complex array with s[-1] // 2 + 1 elements along the last of `axes`.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The lengths are not valid, the axes are not valid, the normalisation is unknown, or there
        are no axes.

    Notes
    -----
    The gradient is that of `rfft`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.rfftn(cm.ones((2, 4))).shape
    (2, 3)
    """
    y = _to_half("rfftn", x, s, axes, norm)
    return y if out is None else deliver("rfftn", y, out)


@fast_path("x")
def irfftn(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Inverse of `rfftn`: real numbers from half of their frequencies.

    Parameters
    ----------
    x : array_like
        Numeric array.
    s : sequence of int, optional
        Lengths of the result. The default along the last axis is 2 (m - 1).
    axes : int or sequence of int, optional
        Axes of the transform. The default is all axes, or the last len(s). An axis that occurs
        twice is transformed twice.
    norm : str or None, default "backward"
        Normalisation: "backward" (t = 1 / n), "ortho" (t = 1 / sqrt(n)) or "forward" (t = 1).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Real array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The lengths are not valid, the axes are not valid, the normalisation is unknown, or there
        are no axes.

    Notes
    -----
    The gradient is that of `irfft`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.irfftn(cm.fft.rfftn(cm.ones((2, 4)))).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    y = _from_half("irfftn", x, s, axes, norm)
    return y if out is None else deliver("irfftn", y, out)


@fast_path("x")
def rfft2(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Fourier transform of real numbers along two axes, by default the last two.

    It is `rfftn` with other defaults.

    Parameters
    ----------
    x : array_like
        Real array.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. -1 keeps a length. The default is
        x's lengths.
    axes : int or sequence of int, default (-2, -1)
        Axes of the transform. The default is all axes, or the last len(s). An axis that occurs
        twice is transformed twice.
    norm : str or None, default "backward"
        Normalisation, as for `fft`. The factor is that of all lengths together.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Complex array with s[-1] // 2 + 1 elements along the last of `axes`.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The lengths are not valid, the axes are not valid, the normalisation is unknown, or there
        are no axes.

    Notes
    -----
    The gradient is that of `rfftn`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.rfft2(cm.ones((2, 4))).shape
    (2, 3)
    """
    y = _to_half("rfft2", x, s, axes, norm)
    return y if out is None else deliver("rfft2", y, out)


@fast_path("x")
def irfft2(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    out: ndarray | None = None,
) -> ndarray:
    """Inverse Fourier transform to real numbers along two axes, by default the last two.

    It is `irfftn` with other defaults.

    Parameters
    ----------
    x : array_like
        Numeric array.
    s : sequence of int, optional
        Lengths of the result. The default along the last axis is 2 (m - 1).
    axes : int or sequence of int, default (-2, -1)
        Axes of the transform. The default is all axes, or the last len(s). An axis that occurs
        twice is transformed twice.
    norm : str or None, default "backward"
        Normalisation: "backward" (t = 1 / n), "ortho" (t = 1 / sqrt(n)) or "forward" (t = 1).
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Real array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The lengths are not valid, the axes are not valid, the normalisation is unknown, or there
        are no axes.

    Notes
    -----
    The gradient is that of `irfftn`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.irfft2(cm.ones((2, 3))).shape
    (2, 4)
    """
    y = _from_half("irfft2", x, s, axes, norm)
    return y if out is None else deliver("irfft2", y, out)


# -------------------- frequencies


@fast_path()
def fftfreq(
    n: int, d: float = 1.0, device: DeviceLike | None = None, *, dtype: DTypeLike | None = None
) -> ndarray:
    """Return the frequencies of the elements of `fft`.

    [0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (d n)

    Parameters
    ----------
    n : int
        Length of the transform.
    d : float, default 1.0
        Time between two samples.
    device : device_like, optional
        Device of the result. The default is the default device.
    dtype : dtype_like, optional
        Floating-point dtype of the result. The default is the dtype of Python floats.

    Returns
    -------
    ndarray
        Floating-point array of shape (n,).

    Raises
    ------
    TypeError
        `n` is not an integer, `d` is not a number, or the dtype is not supported.
    ValueError
        `n` is less than 1, or `d` is 0.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.fftfreq(5, 0.2).tolist()
    [0.0, 1.0, 2.0, -2.0, -1.0]
    """
    return _frequencies("fftfreq", n, d, dtype, device)


@fast_path()
def rfftfreq(
    n: int, d: float = 1.0, device: DeviceLike | None = None, *, dtype: DTypeLike | None = None
) -> ndarray:
    """Return the frequencies of the elements of `rfft`: [0, 1, ..., n // 2] / (d n).

    Parameters
    ----------
    n : int
        Length of the real signal.
    d : float, default 1.0
        Time between two samples.
    device : device_like, optional
        Device of the result. The default is the default device.
    dtype : dtype_like, optional
        Floating-point dtype of the result. The default is the dtype of Python floats.

    Returns
    -------
    ndarray
        Floating-point array of shape (n // 2 + 1,).

    Raises
    ------
    TypeError
        `n` is not an integer, `d` is not a number, or the dtype is not supported.
    ValueError
        `n` is less than 1, or `d` is 0.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.rfftfreq(4, 0.25).tolist()
    [0.0, 1.0, 2.0]
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def _frequencies(name: str, n: int, d: float, dtype: Any, device: Any) -> ndarray:
    n = _length(name, n)
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype, name)
    if kind not in dtypes.FLOATING:
        raise TypeError(f"{name}: wants a floating-point dtype, got {kind}")
    if not as_numbers(name, "d as a real number", d)[0]:
        raise ValueError(f"{name}: d, the time between two samples, must not be 0")
    m, half = (n, (n + 1) // 2) if name == "fftfreq" else (n // 2 + 1, n // 2 + 1)
    index = index_of(device)
    layout = Layout.new((m,), kind, index)
    return frequencies(scalars=(float(1.0 / (n * d)),), layout=layout, device=index, half=half, n=n)


@fast_path("x")
def fftshift(x: ArrayLike, /, axes: Axes = None) -> ndarray:
    """Frequency 0 moved to the middle: each axis rolled by half its length.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axes : int or sequence of int, optional
        Axes of the operation. The default is all axes.

    Returns
    -------
    ndarray
        Array of x's shape and dtype.

    Raises
    ------
    ValueError
        The axes are not valid.

    Notes
    -----
    The gradient is `ifftshift` of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.fftshift(cm.fft.fftfreq(5, 0.2)).tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]
    """
    x = require("fftshift", x)
    return _shifted(x, _moved("fftshift", axes, x.ndim), 1)


@fast_path("x")
def ifftshift(x: ArrayLike, /, axes: Axes = None) -> ndarray:
    """Inverse of `fftshift`: the middle moved to the front.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axes : int or sequence of int, optional
        Axes of the operation. The default is all axes.

    Returns
    -------
    ndarray
        Array of x's shape and dtype.

    Raises
    ------
    ValueError
        The axes are not valid.

    Notes
    -----
    The gradient is `fftshift` of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.ifftshift([-2, -1, 0, 1, 2]).tolist()
    [0, 1, 2, -2, -1]
    """
    x = require("ifftshift", x)
    return _shifted(x, _moved("ifftshift", axes, x.ndim), -1)


def _moved(name: str, axes: Axes, ndim: int) -> tuple[int, ...]:
    """The axes that are shifted, each as often as it is named."""
    if axes is None:
        return tuple(range(ndim))
    each = axes if np.iterable(axes) else (axes,)
    return tuple([shapes.normalize_axis(name, axis, ndim) for axis in each])


def _shifted(x: ndarray, axes: tuple[int, ...], sign: int) -> ndarray:
    """Each axis rolled by half its length: several of even length by one copy, in which the halves
    of each change places."""
    if not axes:
        return copy(x)
    halves = _halves(x._layout.shape, axes) if len(set(axes)) == len(axes) > 1 else None
    if halves is not None:
        return reshape(copy(flip(reshape(x, halves[0]), halves[1])), x._layout.shape)
    for axis in axes:  # one after another: each is then found by its layout
        x = roll(x, sign * (x.shape[axis] // 2), axis)
    return x


@functools.lru_cache(1024)
def _halves(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shape in which these axes are cut into two halves, and which axes then number the halves;
    None for odd lengths."""
    split: list[int] = []
    numbers = []
    for i, n in enumerate(shape):
        if i in axes:
            if n % 2 or not n:
                return None
            numbers.append(len(split))
            split.append(2)
        split.append(n // 2 if i in axes else n)
    return tuple(split), tuple(numbers)


numpy_names.install(sys.modules[__name__])
