"""`cudamath.fft`: discrete Fourier transforms, as `numpy.fft` has them, by NumPy on the CPU and by
cuFFT on a GPU; with them what `scipy.fft` has more: cosine, sine and Hankel transforms.

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
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .core import dtypes, shapes
from .core.array import ndarray
from .core.devices import index_of
from .core.dispatch import numpy_names
from .core.dispatch.checks import as_numbers, require
from .core.dispatch.fast_path import fast_path
from .core.dispatch.op import REAL_OR_BOOL
from .core.layout import Layout
from .core.public_names import public_dir
from .core.typing import ArrayLike, DeviceLike, DTypeLike
from .hankel_transforms import fht, ifht
from .ops.elementwise import conj
from .ops.fft import (
    ANY_NUMBERS,
    Axes,
    as_complex,
    as_narrow,
    c2c,
    c2r,
    fitted,
    frequencies,
    input_of,
    last_axes,
    length_of,
    lengths_and_axes,
    r2c,
    scale_of,
)
from .ops.join import roll
from .ops.linalg.keywords import scipy_keywords
from .ops.out_argument import deliver
from .ops.shape import copied as copy
from .ops.shape import flip, reshape
from .real_transforms import dct, dctn, dst, dstn, idct, idctn, idst, idstn

__all__ = [
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "fht",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ifht",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "next_fast_len",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

__dir__ = public_dir(__name__)


def _all_complex(
    name: str, x: Any, s: Sequence[int] | None, axes: Axes, norm: str | None, inverse: bool
) -> ndarray:
    x = input_of(name, x)
    if x._node is not None:
        x = as_complex(
            x
        )  # by a card that knows the gradient; otherwise the transform's own does it on the way
    sizes, chosen = lengths_and_axes(name, x, s, axes)
    scale = scale_of(name, norm, sizes, inverse)
    if len(set(chosen)) == len(chosen):
        for n, axis in zip(sizes, chosen, strict=True):
            x = fitted(x, axis, n)
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
    x = input_of(name, x, REAL_OR_BOOL)
    sizes, chosen = lengths_and_axes(name, x, s, axes)
    if not chosen:
        raise ValueError(f"{name}: at least 1 axis must be transformed")
    scale = scale_of(name, norm, sizes, inverse)
    if len(set(chosen)) == len(chosen):
        for n, axis in zip(sizes, chosen, strict=True):
            x = fitted(x, axis, n)
        return r2c(x, axes=tuple(chosen), scale=scale, conjugate=conjugate)
    *sizes, last = sizes
    *chosen, axis = chosen
    x = r2c(fitted(x, axis, last), axes=(axis,), scale=scale, conjugate=conjugate)
    return _one_by_one(x, sizes[::-1], chosen[::-1], False)


def _from_half(
    name: str, x: Any, s: Sequence[int] | None, axes: Axes, norm: str | None, inverse: bool = True
) -> ndarray:
    given = require(name, x, ANY_NUMBERS)
    x = as_complex(input_of(name, given))
    sizes, chosen = lengths_and_axes(
        name, x, [] if s is None and axes is None and not x.ndim else s, axes
    )
    if not chosen:
        raise ValueError(f"{name}: at least 1 axis must be transformed")
    alone = len(chosen) == 1
    if s is None or np.iterable(s) and s[-1] is None:
        sizes[-1] = length_of(name, 2 * (x.shape[chosen[-1]] - 1))
    scale = scale_of(name, norm, sizes, inverse)
    if len(set(chosen)) != len(chosen):
        x, chosen = _one_by_one(x, sizes[:-1], chosen[:-1], True), chosen[-1:]
    for n, axis in zip([*sizes[:-1], sizes[-1] // 2 + 1][-len(chosen) :], chosen, strict=True):
        x = fitted(x, axis, n)
    y = c2r(x, axes=tuple(chosen), n=sizes[-1], scale=scale)
    return as_narrow(y, given) if alone else y


def _one_by_one(x: ndarray, sizes: list[int], axes: list[int], inverse: bool) -> ndarray:
    """Complex transforms along one axis after another, of which some are named twice."""
    for n, axis in zip(sizes, axes, strict=True):
        x = c2c(fitted(x, axis, n), axes=(axis,), inverse=inverse, scale=1.0)
    return x


def _one(name: str, n: int | None) -> Sequence[int] | None:
    if n is None or type(n) is int and n > 0:
        return None if n is None else (n,)
    return (length_of(name, n),)  # -1 means an axis' own length only among several


# -------------------- one axis


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
    x = require("hfft", x, ANY_NUMBERS)
    y = _from_half(
        "hfft", conj(as_complex(input_of("hfft", x))), _one("hfft", n), (axis,), norm, inverse=False
    )
    y = as_narrow(y, x)
    return y if out is None else deliver("hfft", y, out)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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
@scipy_keywords("overwrite_x", "workers")
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


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def hfft2(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
) -> ndarray:
    """Fourier transform along two axes of a signal with Hermitian symmetry.

    The spectrum is real; of the signal the non-negative half along the last axis is given.

    Parameters
    ----------
    x : array_like
        Numeric array.
    s : sequence of int, optional
        Lengths of the result along `axes`. The default is x's, along the last axis 2 (m - 1).
    axes : int or sequence of int, default (-2, -1)
        Axes of the transform; the last one has half a signal. None: all of them.
    norm : str or None, default "backward"
        Normalisation, as for `hfft`. The factor is that of all lengths together.

    Returns
    -------
    ndarray
        Real array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        A length is less than 1, an axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.hfft2(cm.ones((2, 2))).tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    x = require("hfft2", x, ANY_NUMBERS)
    y = conj(as_complex(input_of("hfft2", x)))
    return as_narrow(_from_half("hfft2", y, s, last_axes(s, axes), norm, inverse=False), x)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def ihfft2(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
) -> ndarray:
    """Inverse Fourier transform along two axes of a real spectrum.

    The signal has Hermitian symmetry: the non-negative half along the last axis is returned.

    Parameters
    ----------
    x : array_like
        Real array.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. The default is x's lengths.
    axes : int or sequence of int, default (-2, -1)
        Axes of the transform; the last one is halved. None: all of them.
    norm : str or None, default "backward"
        Normalisation, as for `ihfft`. The factor is that of all lengths together.

    Returns
    -------
    ndarray
        Complex array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        A length is less than 1, an axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.ihfft2(cm.ones((2, 2))).real.tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    return conj(_to_half("ihfft2", x, s, last_axes(s, axes), norm, inverse=True))


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def hfftn(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
) -> ndarray:
    """Fourier transform along several axes of a signal with Hermitian symmetry.

    The spectrum is real; of the signal the non-negative half along the last axis is given.

    Parameters
    ----------
    x : array_like
        Numeric array.
    s : sequence of int, optional
        Lengths of the result along `axes`. The default is x's, along the last axis 2 (m - 1).
    axes : int or sequence of int, optional
        Axes of the transform; the last one has half a signal. None: all of them.
    norm : str or None, default "backward"
        Normalisation, as for `hfft`. The factor is that of all lengths together.

    Returns
    -------
    ndarray
        Real array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        A length is less than 1, an axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.hfftn(cm.ones((2, 2))).tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    x = require("hfftn", x, ANY_NUMBERS)
    y = conj(as_complex(input_of("hfftn", x)))
    return as_narrow(_from_half("hfftn", y, s, last_axes(s, axes), norm, inverse=False), x)


@fast_path("x")
@scipy_keywords("overwrite_x", "workers")
def ihfftn(
    x: ArrayLike,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
) -> ndarray:
    """Inverse Fourier transform along several axes of a real spectrum.

    The signal has Hermitian symmetry: the non-negative half along the last axis is returned.

    Parameters
    ----------
    x : array_like
        Real array.
    s : sequence of int, optional
        Lengths along `axes`, to which `x` is cut or zero-padded. The default is x's lengths.
    axes : int or sequence of int, optional
        Axes of the transform; the last one is halved. None: all of them.
    norm : str or None, default "backward"
        Normalisation, as for `ihfft`. The factor is that of all lengths together.

    Returns
    -------
    ndarray
        Complex array.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        A length is less than 1, an axis is out of range, or the normalisation is unknown.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.ihfftn(cm.ones((2, 2))).real.tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    return conj(_to_half("ihfftn", x, s, last_axes(s, axes), norm, inverse=True))


def next_fast_len(target: int, real: bool = False) -> int:
    """Return the next length whose transform is fast.

    Parameters
    ----------
    target : int
        Length to begin at, positive.
    real : bool, default False
        Whether the transform is one of real numbers.

    Returns
    -------
    int
        The least number from `target` on that has no prime factors but 2, 3, 5, 7 and 11, of real
        transforms 2, 3 and 5, as SciPy gives it. cuFFT is fast at powers of 2, 3, 5 and 7.

    Raises
    ------
    TypeError
        `target` is no whole number.
    ValueError
        `target` is not positive.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.next_fast_len(97), cm.fft.next_fast_len(97, real=True)
    (98, 100)
    """
    size = shapes.as_integer("next_fast_len", "target", target, 1)
    products = [1]  # of the odd factors: each then gets as many factors 2 as it needs
    for factor in (3, 5) if real else (3, 5, 7, 11):
        more = products
        while more:
            more = [x * factor for x in more if x < size]
            products += more
    return min([x << max((size - 1) // x, 0).bit_length() for x in products])


@fast_path()
def fftfreq(
    n: int,
    d: float = 1.0,
    device: DeviceLike | None = None,
    *,
    xp: Any = None,
    dtype: DTypeLike | None = None,
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
    xp : object, optional
        Accepted for compatibility with SciPy. The result is an array of cudamath.
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
    n: int,
    d: float = 1.0,
    device: DeviceLike | None = None,
    *,
    xp: Any = None,
    dtype: DTypeLike | None = None,
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
    xp : object, optional
        Accepted for compatibility with SciPy. The result is an array of cudamath.
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
    n = length_of(name, n)
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
