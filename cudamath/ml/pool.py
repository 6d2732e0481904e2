"""Pooling of images: max_pool2d, avg_pool2d and their gradients; adaptive and global pools."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import CPU
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import compute_dtype
from ..core.typing import ArrayLike
from ..ops.index import take, take_along_axis
from ..ops.reduce import argmax
from ..ops.where import where
from .conv import _ALONG as ALONG
from .conv import images, pair, several

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "avg_pool2d",
    "global_avg_pool2d",
    "global_max_pool2d",
    "max_pool2d",
]


def _windows(
    name: str,
    x: ndarray,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> dict[str, tuple[int, ...]]:
    """size (of the result), kernel, stride, padding, dilation along the spatial axes of x,
    checked."""
    rank = x.ndim - 2
    kernel = several(name, "kernel_size", kernel_size, 1, rank)
    step = kernel if stride is None else several(name, "stride", stride, 1, rank)
    margin, dilation = (
        several(name, "padding", padding, 0, rank),
        several(name, "dilation", dilation, 1, rank),
    )
    size = []
    for i, length in enumerate(x.shape[2:]):
        window = dilation[i] * (kernel[i] - 1) + 1
        if margin[i] > kernel[i] // 2:
            raise ValueError(
                f"{name}: padding may be at most half of kernel_size {kernel}, got padding {margin}"
            )
        room = length + 2 * margin[i] - window
        count = (room + (step[i] - 1 if ceil_mode else 0)) // step[i] + 1
        if ceil_mode and (count - 1) * step[i] >= length + margin[i]:
            count -= 1  # the last window would begin behind the image
        if count < 1:
            raise ValueError(
                f"{name}: a window of {window} {ALONG[rank][i]} (kernel_size {kernel}, dilation "
                f"{dilation}) is larger than the {length + 2 * margin[i]} of the padded images "
                f"(x {x.shape}, padding {margin})"
            )
        size.append(count)
    return {
        "size": tuple(size),
        "kernel": kernel,
        "stride": step,
        "padding": margin,
        "dilation": dilation,
    }


def _max(x: ndarray, where: dict[str, Any], positions: bool) -> Any:
    """Maxima of images; with `positions` a tuple of these and where they are."""
    where = {**where, "old": x.shape[2:]}
    if positions:
        return _max_pool2d_noted(x, **where, within=False)
    return (
        _max_pool2d(x, **where)
        if x._node is None
        else _max_pool2d_noted(x, **where, within=True)[0]
    )


def _mean(x: ndarray, where: dict[str, Any], count_include_pad: bool, divisor: int) -> ndarray:
    """Means of images; divisor: what is divided by, 0 for the number of positions."""
    where = {name: value for name, value in where.items() if name != "dilation"}
    return _avg_pool2d(
        x,
        **where,
        old=x.shape[2:],
        count_include_pad=bool(count_include_pad),
        divisor=divisor,
    )


def _divisor(name: str, override: Any) -> int:
    """divisor_override, checked; 0 if there is none."""
    if override is None:
        return 0
    try:
        divisor = operator.index(override)
    except TypeError:
        divisor = 0
    if divisor < 1:
        raise ValueError(f"{name}: wants divisor_override as an integer >= 1, got {override!r}")
    return divisor


@fast_path("x")
def max_pool2d(
    x: ArrayLike,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum of every window of images.

    y[n, c, p, q] = max over r, s of x[n, c, p * stride + r * dilation - padding, q * stride + s *
    dilation - padding]; positions outside the image do not count. NaN in a window gives NaN.

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. Any strides.
    kernel_size : int or (rows, columns), at least 1
        Size of the window.
    stride : int or (rows, columns), at least 1, optional
        Distance between windows; by default `kernel_size`.
    padding : int or (rows, columns), default 0
        Places added around the image, at most half of `kernel_size`.
    dilation : int or (rows, columns), at least 1, default 1
        Distance between the positions of a window.
    ceil_mode : bool, default False
        Also take windows that reach beyond the lower or right edge, if they begin inside.
    return_indices : bool, default False
        Also say where the maxima are.

    Returns
    -------
    ndarray, or with return_indices a tuple of two
        (N, C, P, Q), dtype of `x`; P = floor((H + 2 padding - dilation (R - 1) - 1) / stride) + 1,
        or with ceil. In C order; on a GPU with the channels last in memory if `x` has them so. A
        window that holds no place of the image (possible only with dilation) is -inf. Indices:
        int32 in the same shape, h W + w for the maximum at row h and column w; -1 if there is none.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; sizes out of range; a window larger than the padded images.

    Notes
    -----
    Gradient: goes to the first maximum of each window (as in PyTorch), of any order.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.asarray([[[[1.0, 5.0, 2.0, 0.0], [3.0, 4.0, 8.0, 6.0]]]])
    >>> cm.ml.max_pool2d(x, 2).tolist()
    [[[[5.0, 8.0]]]]
    """
    x = images("max_pool2d", x)
    where = _windows("max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode)
    return _max(x, where, return_indices)


@fast_path("x")
def avg_pool2d(
    x: ArrayLike,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: int | tuple[int, int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> ndarray:
    """Mean of every window of images.

    y[n, c, p, q] = 1 / count * sum over r, s of x[n, c, p * stride + r - padding, q * stride + s -
    padding]; x is 0 outside. count is the number of positions of the window, padding included (but
    nothing beyond it).

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. 16-bit numbers are summed in float32. Any strides.
    kernel_size : int or (rows, columns), at least 1
        Size of the window.
    stride : int or (rows, columns), at least 1, optional
        Distance between windows; by default `kernel_size`.
    padding : int or (rows, columns), default 0
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
        (N, C, P, Q), dtype of `x`; sizes as in `max_pool2d`.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; sizes out of range; a window larger than the padded images.

    Notes
    -----
    Gradient: each gradient is shared out evenly over its window, of any order.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.asarray([[[[1.0, 5.0, 2.0, 0.0], [3.0, 3.0, 8.0, 6.0]]]])
    >>> cm.ml.avg_pool2d(x, 2).tolist()
    [[[[3.0, 4.0]]]]
    """
    x = images("avg_pool2d", x)
    where = _windows("avg_pool2d", x, kernel_size, stride, padding, 1, ceil_mode)
    return _mean(x, where, count_include_pad, _divisor("avg_pool2d", divisor_override))


# -------------------- adaptive and global


def _bins(name: str, what: str, length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bins of an axis: the positions of each, (count, longest), the last one repeated; and how many
    it has, (count,)."""
    first = np.arange(count) * length // count
    last = -(-(np.arange(count) + 1) * length // count)
    if count and not length:
        raise ValueError(f"{name}: cannot divide {length} {what} among {count} bins")
    longest = int((last - first).max(initial=1))
    return np.minimum(
        first[:, None] + np.arange(longest), np.maximum(last[:, None] - 1, 0)
    ), last - first


def _adaptive(
    name: str, x: Any, output_size: Any
) -> tuple[ndarray, tuple[int, int], tuple[int, int] | None]:
    """Images, the size of the result, and the window of an ordinary pool that does the same, if
    there is one."""
    x = images(name, x)
    if not isinstance(output_size, Sequence):
        output_size = (output_size, output_size)
    size = pair(
        name,
        "output_size",
        tuple(n if n is not None else x.shape[2 + i] for i, n in enumerate(output_size)),
        1,
    )
    h, w = x.shape[2:]
    whole = h >= size[0] and w >= size[1] and h % size[0] == 0 and w % size[1] == 0
    return x, size, (h // size[0], w // size[1]) if whole else None


def by_bins(x: ndarray, size: tuple[int, ...]) -> bool:
    """Whether one card takes the bins: none of them empty, or so large that the results are too few
    threads; and not where a gradient is recorded, which goes through other operations."""
    longest = math.prod(-(-length // n) + 1 for n, length in zip(size, x.shape[2:], strict=True))
    return (
        x._node is None
        and x._layout.device >= CPU
        and 0 not in x.shape[2:]
        and (x._layout.device == CPU or longest <= _LARGEST_BIN)
    )


adaptive_pool = Op("adaptive_pool", cpu="pool.adaptive_pool", cuda="pool.pool3d.adaptive_pool")
_LARGEST_BIN = 1024  # positions


@fast_path("x")
def adaptive_avg_pool2d(x: ArrayLike, output_size: int | None | Sequence[int | None]) -> ndarray:
    """Mean of each bin of images that are divided into a given number of bins.

    Bin p of an axis of length H that is divided into P holds the positions floor(p H / P) ...
    ceil((p + 1) H / P) - 1.

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. Any strides.
    output_size : int or (rows, columns), at least 1
        Number of bins; None keeps the size of that axis.

    Returns
    -------
    ndarray
        (N, C, *output_size), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; no rows or columns to divide; a size below 1.

    Notes
    -----
    Gradient: each gradient is shared out evenly over its bin, of any order. The function is
    deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.adaptive_avg_pool2d(cm.asarray([[[[1.0, 2.0, 3.0, 6.0, 8.0]]]]), (1, 2)).tolist()
    [[[[2.0, 5.666666666666667]]]]
    """
    name = "adaptive_avg_pool2d"
    x, size, window = _adaptive(name, x, output_size)
    if window is not None:
        return _mean(x, _windows(name, x, window, None, 0, 1, False), True, 0)
    if by_bins(x, size):
        return adaptive_pool(x, size=size, kind="mean")
    dtype = x.dtype
    y = x.astype(compute_dtype(dtype), copy=False)
    for axis, what in ((2, "rows"), (3, "columns")):
        places, counts = _bins(name, what, y.shape[axis], size[axis - 2])
        inside = (np.arange(places.shape[1]) < counts[:, None]).reshape(
            *places.shape, *(1,) * (3 - axis)
        )
        taken = take(y, asarray(places.ravel(), device=y.device), axis=axis)
        taken = taken.reshape((*y.shape[:axis], *places.shape, *y.shape[axis + 1 :]))
        sizes = asarray(counts.reshape(-1, *(1,) * (3 - axis)), dtype=y.dtype, device=y.device)
        y = where(asarray(inside, device=y.device), taken, 0).sum(axis + 1) / sizes
    return y.astype(dtype, copy=False)


@fast_path("x")
def adaptive_max_pool2d(
    x: ArrayLike, output_size: int | None | Sequence[int | None], return_indices: bool = False
) -> Any:
    """Maximum of each bin of images that are divided into a given number of bins.

    The bins are those of `adaptive_avg_pool2d`. NaN in a bin gives NaN.

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. Any strides.
    output_size : int or (rows, columns), at least 1
        Number of bins; None keeps the size of that axis.
    return_indices : bool, default False
        Whether the positions of the maxima are returned as well, as in `max_pool2d`.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of shape (N, C, *output_size), dtype of `x`. With `return_indices` a tuple of it and
        the positions.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; no rows or columns to divide; a size below 1.

    Notes
    -----
    The gradient goes to the first maximum of each bin (as in PyTorch). The function is
    deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.adaptive_max_pool2d(cm.asarray([[[[1.0, 2.0, 3.0, 6.0, 8.0]]]]), (1, 2)).tolist()
    [[[[3.0, 8.0]]]]
    """
    name = "adaptive_max_pool2d"
    x, size, window = _adaptive(name, x, output_size)
    if window is not None:
        return _max(x, _windows(name, x, window, None, 0, 1, False), return_indices)
    if not return_indices and by_bins(x, size):
        return adaptive_pool(x, size=size, kind="max")
    h, w = x.shape[2:]
    rows, columns = _bins(name, "rows", h, size[0])[0], _bins(name, "columns", w, size[1])[0]
    x, column = _first_maximum(
        x, columns, 3
    )  # of each row; then of the rows: the first position in the order of memory
    x, row = _first_maximum(x, rows, 2)
    return (x, (row * w + take_along_axis(column, row, 2)).astype("int32")) if return_indices else x


def _first_maximum(x: ndarray, places: np.ndarray, axis: int) -> tuple[ndarray, ndarray]:
    """The maximum of each bin along an axis, and the first place along the axis that attains it;
    places (count, longest)."""
    taken = take(x, asarray(places.ravel(), device=x.device), axis=axis)
    taken = taken.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))
    which = argmax(taken, axis=axis + 1, keepdims=True)
    starts = asarray(places[:, 0].reshape(-1, *(1,) * (3 - axis)), device=x.device)
    return take_along_axis(taken, which, axis + 1).squeeze(axis + 1), which.squeeze(
        axis + 1
    ) + starts


@fast_path("x")
def global_avg_pool2d(x: ArrayLike) -> ndarray:
    """Mean of each image and channel: (N, C, H, W) -> (N, C, 1, 1).

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. 16-bit numbers are summed in float32. Any strides.

    Returns
    -------
    ndarray
        Array of shape (N, C, 1, 1), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional; sizes out of range; a window larger than the padded images.

    Notes
    -----
    The gradient is shared evenly. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.global_avg_pool2d(cm.asarray([[[[1.0, 2.0], [3.0, 6.0]]]])).tolist()
    [[[[3.0]]]]
    """
    return images("global_avg_pool2d", x).mean((2, 3), keepdims=True)


@fast_path("x")
def global_max_pool2d(x: ArrayLike) -> ndarray:
    """Maximum of each image and channel: (N, C, H, W) -> (N, C, 1, 1).

    `x` as for `max_pool2d`.

    Parameters
    ----------
    x : array (N, C, H, W) of float16, bfloat16, float32 or float64
        Images. Any strides.

    Returns
    -------
    ndarray
        Array of shape (N, C, 1, 1), dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        `x` is not four-dimensional, or the images are empty.

    Notes
    -----
    The gradient goes in equal parts to all positions that attain the maximum. The function is
    deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.global_max_pool2d(cm.asarray([[[[1.0, 2.0], [3.0, 6.0]]]])).tolist()
    [[[[6.0]]]]
    """
    x = images("global_max_pool2d", x)
    if not x.shape[2] * x.shape[3]:
        raise ValueError(
            f"global_max_pool2d: wants images with at least one place, got shape {x.shape}"
        )
    return x.max((2, 3), keepdims=True)


# Where a gradient is recorded: values and their positions in the image (h * W + w) or, if nobody
# sees these and a kernel so likes, in their windows (`within`); the gradient goes to these
# positions, and the gradient of that takes from them. size: of the result's images; old: of the
# input's.
def _max_pool2d_rule(g: tuple, y: tuple, _x: None, *, size: Any, old: Any, **where: Any) -> tuple:
    return (None if g[0] is None else _max_pool2d_grad(g[0], y[1], size=old, old=size, **where),)


def _max_pool2d_grad_rule(
    g: ndarray, _y: None, _grad: None, index: ndarray, *, size: Any, old: Any, **where: Any
) -> tuple:
    return _max_pool2d_take(g, index, size=old, old=size, **where), None


def _max_pool2d_take_rule(
    g: ndarray, _y: None, _x: None, index: ndarray, *, size: Any, old: Any, **where: Any
) -> tuple:
    return _max_pool2d_grad(g, index, size=old, old=size, **where), None


_max_pool2d = Op("max_pool2d", cpu="pool.max_pool2d_values", cuda="pool.dispatch.max_pool2d_values")
_max_pool2d_noted = Op(
    "max_pool2d (with positions)",
    cpu="pool.max_pool2d",
    cuda="pool.dispatch.max_pool2d",
    outputs=2,
    vjp=_max_pool2d_rule,
)
_max_pool2d_grad = Op(
    "_max_pool2d_grad",
    cpu="pool.max_pool2d_grad",
    cuda="pool.dispatch.max_pool2d_grad",
    vjp=_max_pool2d_grad_rule,
)
_max_pool2d_take = Op(
    "_max_pool2d_take",
    cpu="pool.max_pool2d_take",
    cuda="pool.dispatch.max_pool2d_take",
    vjp=_max_pool2d_take_rule,
)


def _avg_pool2d_rule(g: ndarray, _y: None, _x: None, *, size: Any, old: Any, **where: Any) -> tuple:
    return (_avg_pool2d_grad(g, size=old, old=size, **where),)


def _avg_pool2d_grad_rule(
    g: ndarray, _y: None, _grad: None, *, size: Any, old: Any, **where: Any
) -> tuple:
    return (_avg_pool2d(g, size=old, old=size, **where),)


_avg_pool2d = Op(
    "avg_pool2d", cpu="pool.avg_pool2d", cuda="pool.dispatch.avg_pool2d", vjp=_avg_pool2d_rule
)
_avg_pool2d_grad = Op(
    "_avg_pool2d_grad",
    cpu="pool.avg_pool2d_grad",
    cuda="pool.dispatch.avg_pool2d_grad",
    vjp=_avg_pool2d_grad_rule,
)
