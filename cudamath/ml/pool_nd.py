"""Pooling of sequences and volumes, made of that of images.

A sequence is an image one row high. The window of a volume is one of an image, taken of every
plane, and then one along the depth: a maximum of maxima, a mean of means. Small volumes are pooled
in one launch (kernels/pool/pool3d.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import compute_dtype
from ..core.typing import ArrayLike
from ..ops.elementwise import floor_divide
from ..ops.index import take_along_axis
from ..ops.where import where
from .conv import images, several
from .pool import (
    _divisor,
    _max,
    _mean,
    _windows,
    adaptive_avg_pool2d,
    adaptive_max_pool2d,
    adaptive_pool,
    by_bins,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool3d",
]

_NEUTRAL = {"size": 1, "kernel": 1, "stride": 1, "padding": 0, "dilation": 1}


def _one_row(window: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The window of a sequence as that of an image one row high."""
    return {name: (_NEUTRAL[name], *value) for name, value in window.items()}


def _apart(window: dict[str, tuple[int, ...]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The window of a volume: of its planes; and of its depth, seen as images (depth, positions of
    a plane)."""
    places = window["size"][1] * window["size"][2]
    depth = {name: (value[0], _NEUTRAL[name]) for name, value in window.items()}
    return {name: value[1:] for name, value in window.items()}, {
        **depth,
        "size": (window["size"][0], places),
    }


def _planes(x: ndarray) -> ndarray:
    """(N, C, D, H, W) -> (N, C D, H, W)."""
    n, c, d, h, w = x.shape
    return x.reshape((n, c * d, h, w))


def _lines(planes: ndarray, channels: int) -> ndarray:
    """(N, C D, P, Q) -> (N, C, D, P Q)."""
    n, both, p, q = planes.shape
    return planes.reshape((n, channels, both // max(channels, 1), p * q))


_max_pool3d = Op("max_pool3d", cpu="pool.max_pool3d", cuda="pool.pool3d.max_pool3d")
_avg_pool3d = Op("avg_pool3d", cpu="pool.avg_pool3d", cuda="pool.pool3d.avg_pool3d")
_MOST = 64  # positions of a window of which a GPU makes a constant
_SMALL = 1 << 20  # of all windows, up to which one launch is worth more than fewer reads


def _at_once(x: ndarray, window: dict[str, Any]) -> bool:
    """Whether volumes are pooled by one card, and not by one of planes and one along the depth: not
    where a gradient is recorded, which goes through these two."""
    places = math.prod(window["kernel"])
    few = places <= _MOST and places * math.prod(x.shape[:2]) * math.prod(window["size"]) <= _SMALL
    return x._node is None and (x._layout.device == CPU or x._layout.device >= 0 and few)


@fast_path("x")
def max_pool1d(
    x: ArrayLike,
    kernel_size: int,
    stride: int | None = None,
    padding: int = 0,
    dilation: int = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum of every window of sequences: `max_pool2d` along one axis.

    Parameters
    ----------
    x : array_like of shape (N, C, L)
        Floating-point sequences.
    kernel_size : int
        Size of the window.
    stride : int, optional
        Distance between windows; by default `kernel_size`.
    padding : int, default 0
        Places added around the image, at most half of `kernel_size`.
    dilation : int, default 1
        Distance between the positions of a window.
    ceil_mode : bool, default False
        Also take windows that reach beyond the lower or right edge, if they begin inside.
    return_indices : bool, default False
        Also say where the maxima are.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of shape (N, C, P). With `return_indices` also the positions, int32.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; sizes out of range; a window larger than the padded images.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.max_pool1d([[[1.0, 5.0, 2.0, 0.0]]], 2).tolist()
    [[[5.0, 2.0]]]
    """
    x = images("max_pool1d", x, 1)
    where = _one_row(_windows("max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode))
    maxima = _max(x[:, :, None], where, return_indices)
    return (maxima[0][:, :, 0], maxima[1][:, :, 0]) if return_indices else maxima[:, :, 0]


@fast_path("x")
def avg_pool1d(
    x: ArrayLike,
    kernel_size: int,
    stride: int | None = None,
    padding: int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> ndarray:
    """Mean of every window of sequences: `avg_pool2d` along one axis.

    Parameters
    ----------
    x : array_like of shape (N, C, L)
        Floating-point sequences.
    kernel_size : int
        Size of the window.
    stride : int, optional
        Distance between windows; by default `kernel_size`.
    padding : int, default 0
        Zeros around the image, at most half of `kernel_size`.
    ceil_mode : bool, default False
        Also take windows that reach beyond the lower or right edge, if they begin inside.
    count_include_pad : bool, default True
        False: count only the positions inside the image.

    Returns
    -------
    ndarray
        Array of shape (N, C, P), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; sizes out of range; a window larger than the padded images.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.avg_pool1d([[[1.0, 5.0, 2.0, 0.0]]], 2).tolist()
    [[[3.0, 1.0]]]
    """
    x = images("avg_pool1d", x, 1)
    where = _one_row(_windows("avg_pool1d", x, kernel_size, stride, padding, 1, ceil_mode))
    return _mean(x[:, :, None], where, count_include_pad, 0)[:, :, 0]


def _positions(x: ndarray, line: ndarray, places: ndarray) -> ndarray:
    """(d H + h) W + w of the maxima of volumes x: `line` is where they lie among the maxima of the
    planes, (N, C, O, P Q), and `places` where those lie in their planes; -1 where there is none."""
    depth = where(line < 0, 0, floor_divide(line, line.shape[3]))  # which plane won
    place = take_along_axis(_lines(places, x.shape[1]), depth, 2)
    return where((line < 0) | (place < 0), -1, depth * (x.shape[3] * x.shape[4]) + place).astype(
        "int32", copy=False
    )


@fast_path("x")
def max_pool3d(
    x: ArrayLike,
    kernel_size: int | tuple[int, int, int],
    stride: int | tuple[int, int, int] | None = None,
    padding: int | tuple[int, int, int] = 0,
    dilation: int | tuple[int, int, int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum of every window of volumes: `max_pool2d` along three axes.

    Parameters
    ----------
    x : array_like of shape (N, C, D, H, W)
        Floating-point volumes.
    kernel_size : int or tuple of int
        Size of the window.
    stride : int or tuple of int, optional
        Distance between windows; by default `kernel_size`.
    padding : int or tuple of int, default 0
        Places added around the image, at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        Distance between the positions of a window.
    ceil_mode : bool, default False
        Also take windows that reach beyond the lower or right edge, if they begin inside.
    return_indices : bool, default False
        Also say where the maxima are.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of shape (N, C, O, P, Q). With `return_indices` also the positions (d H + h) W + w,
        int32.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; sizes out of range; a window larger than the padded images.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.max_pool3d(cm.arange(8.0).reshape(1, 1, 2, 2, 2), 2).tolist()
    [[[[[7.0]]]]]
    """
    x = images("max_pool3d", x, 3)
    window = _windows("max_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode)
    if not return_indices and _at_once(x, window):
        return _max_pool3d(x, **window)
    flat, deep = _apart(window)
    shape = (*x.shape[:2], *window["size"])
    if not return_indices:
        return _max(_lines(_max(_planes(x), flat, False), x.shape[1]), deep, False).reshape(shape)
    maxima, places = _max(_planes(x), flat, True)
    y, line = _max(_lines(maxima, x.shape[1]), deep, True)
    return y.reshape(shape), _positions(x, line, places).reshape(shape)


@fast_path("x")
def avg_pool3d(
    x: ArrayLike,
    kernel_size: int | tuple[int, int, int],
    stride: int | tuple[int, int, int] | None = None,
    padding: int | tuple[int, int, int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> ndarray:
    """Mean of every window of volumes: `avg_pool2d` along three axes.

    Parameters
    ----------
    x : array_like of shape (N, C, D, H, W)
        Floating-point volumes. 16-bit numbers are summed in float32.
    kernel_size : int or tuple of int
        Size of the window.
    stride : int or tuple of int, optional
        Distance between windows; by default `kernel_size`.
    padding : int or tuple of int, default 0
        Zeros around the image, at most half of `kernel_size`.
    ceil_mode : bool, default False
        Also take windows that reach beyond the lower or right edge, if they begin inside.
    count_include_pad : bool, default True
        False: count only the positions inside the image.
    divisor_override : int, at least 1, optional
        What the sum of a window is divided by instead of the number of its positions.

    Returns
    -------
    ndarray
        Array of shape (N, C, O, P, Q), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; sizes out of range; a window larger than the padded images.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.avg_pool3d(cm.arange(8.0).reshape(1, 1, 2, 2, 2), 2).tolist()
    [[[[[3.5]]]]]
    """
    name = "avg_pool3d"
    x = images(name, x, 3)
    window, divisor = (
        _windows(name, x, kernel_size, stride, padding, 1, ceil_mode),
        _divisor(name, divisor_override),
    )
    if _at_once(x, window):
        del window["dilation"]
        return _avg_pool3d(x, **window, count_include_pad=bool(count_include_pad), divisor=divisor)
    flat, deep = _apart(window)
    means = _mean(
        _planes(x.astype(compute_dtype(x.dtype), copy=False)),
        flat,
        count_include_pad,
        1 if divisor else 0,
    )
    y = _mean(_lines(means, x.shape[1]), deep, count_include_pad, divisor)
    return y.reshape((*x.shape[:2], *window["size"])).astype(x.dtype, copy=False)


@fast_path("x")
def adaptive_avg_pool1d(x: ArrayLike, output_size: int) -> ndarray:
    """Mean of each bin of sequences that are divided into a given number of bins.

    The bins are those of `adaptive_avg_pool2d`.

    Parameters
    ----------
    x : array_like of shape (N, C, L)
        Floating-point sequences.
    output_size : int
        Number of bins.

    Returns
    -------
    ndarray
        Array of shape (N, C, output_size), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; no rows or columns to divide; a size below 1.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.adaptive_avg_pool1d([[[1.0, 2.0, 3.0, 6.0]]], 2).tolist()
    [[[1.5, 4.5]]]
    """
    name = "adaptive_avg_pool1d"
    x = images(name, x, 1)
    size = (1, *several(name, "output_size", output_size, 1, 1))
    return adaptive_avg_pool2d(x[:, :, None], size)[:, :, 0]


@fast_path("x")
def adaptive_max_pool1d(x: ArrayLike, output_size: int, return_indices: bool = False) -> Any:
    """Maximum of each bin of sequences that are divided into a given number of bins.

    The bins are those of `adaptive_max_pool2d`.

    Parameters
    ----------
    x : array_like of shape (N, C, L)
        Floating-point sequences.
    output_size : int
        Number of bins.
    return_indices : bool, default False
        Whether the positions of the maxima are returned as well.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of shape (N, C, output_size). With `return_indices` also the positions, int32.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; no rows or columns to divide; a size below 1.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.adaptive_max_pool1d([[[1.0, 2.0, 3.0, 6.0]]], 2).tolist()
    [[[2.0, 6.0]]]
    """
    name = "adaptive_max_pool1d"
    x = images(name, x, 1)
    size = (1, *several(name, "output_size", output_size, 1, 1))
    maxima = adaptive_max_pool2d(x[:, :, None], size, return_indices)
    return (maxima[0][:, :, 0], maxima[1][:, :, 0]) if return_indices else maxima[:, :, 0]


def _volume_size(name: str, x: ndarray, output_size: Any) -> tuple[int, ...]:
    """Bins along the three axes; None keeps an axis."""
    sizes = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * 3
    sizes = tuple([x.shape[2 + i] if n is None and i < 3 else n for i, n in enumerate(sizes)])
    return several(name, "output_size", sizes, 1, 3)


@fast_path("x")
def adaptive_avg_pool3d(
    x: ArrayLike, output_size: int | None | tuple[int | None, int | None, int | None]
) -> ndarray:
    """Mean of each bin of volumes that are divided into a given number of bins.

    The bins are those of `adaptive_avg_pool2d`.

    Parameters
    ----------
    x : array_like of shape (N, C, D, H, W)
        Floating-point volumes.
    output_size : int or tuple of int or None or None
        Number of bins, one for all axes or (planes, rows, columns). None keeps the size of an axis.

    Returns
    -------
    ndarray
        Array of shape (N, C, *output_size), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; no rows or columns to divide; a size below 1.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.adaptive_avg_pool3d(cm.arange(8.0).reshape(1, 1, 2, 2, 2), (None, 1, 1)).tolist()
    [[[[[1.5]], [[5.5]]]]]
    """
    name = "adaptive_avg_pool3d"
    x = images(name, x, 3)
    size = _volume_size(name, x, output_size)
    if by_bins(x, size) and x.size <= _SMALL:
        return adaptive_pool(x, size=size, kind="mean")
    wide = x.astype(compute_dtype(x.dtype), copy=False)
    means = _lines(adaptive_avg_pool2d(_planes(wide), size[1:]), x.shape[1])
    y = adaptive_avg_pool2d(means, (size[0], means.shape[3]))
    return y.reshape((*x.shape[:2], *size)).astype(x.dtype, copy=False)


@fast_path("x")
def adaptive_max_pool3d(
    x: ArrayLike,
    output_size: int | None | tuple[int | None, int | None, int | None],
    return_indices: bool = False,
) -> Any:
    """Maximum of each bin of volumes that are divided into a given number of bins.

    The bins are those of `adaptive_max_pool2d`.

    Parameters
    ----------
    x : array_like of shape (N, C, D, H, W)
        Floating-point volumes.
    output_size : int or tuple of int or None or None
        Number of bins, one for all axes or (planes, rows, columns). None keeps the size of an axis.
    return_indices : bool, default False
        Whether the positions of the maxima are returned as well.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of shape (N, C, *output_size). With `return_indices` also the positions (d H + h) W +
        w, int32.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; no rows or columns to divide; a size below 1.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.adaptive_max_pool3d(cm.arange(8.0).reshape(1, 1, 2, 2, 2), (None, 1, 1)).tolist()
    [[[[[3.0]], [[7.0]]]]]
    """
    name = "adaptive_max_pool3d"
    x = images(name, x, 3)
    size = _volume_size(name, x, output_size)
    if not return_indices and by_bins(x, size) and x.size <= _SMALL:
        return adaptive_pool(x, size=size, kind="max")
    shape = (*x.shape[:2], *size)
    if not return_indices:
        maxima = _lines(adaptive_max_pool2d(_planes(x), size[1:]), x.shape[1])
        return adaptive_max_pool2d(maxima, (size[0], maxima.shape[3])).reshape(shape)
    best, places = adaptive_max_pool2d(_planes(x), size[1:], True)
    maxima = _lines(best, x.shape[1])
    y, line = adaptive_max_pool2d(maxima, (size[0], maxima.shape[3]), True)
    return y.reshape(shape), _positions(x, line, places).reshape(shape)
