"""Resizing sequences, images and volumes (nearest neighbour, linear between neighbours), and
padding them.

One op makes the last two axes of images anew from tables. A sequence is an image one row high; a
volume is done plane by plane, and then along its depth.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING
from ..core.dtypes import compute_dtype
from ..core.specs.resample import Axis
from ..core.typing import ArrayLike
from ..ops.padding import KEPT, _resize, in_an_order, padded
from ..ops.padding import pad as numpy_pad
from .conv import several

__all__ = ["interpolate", "pad", "upsample"]

_NEAREST = ("nearest", "nearest-exact")
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@fast_path("x")
def upsample(
    x: ArrayLike,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    *,
    align_corners: bool = False,
) -> ndarray:
    """Resize images, sequences or volumes.

    `upsample` and `interpolate` are the same function.

    "nearest": y[i] = x[floor(i step)], where step = old size / new size (or 1 / scale_factor, if
    that is given); "nearest-exact": y[i] = x[floor((i + 1/2) step)], by the nearest centre;
    "linear" (three axes), "bilinear" (four), "trilinear" (five): between the neighbours of (i +
    1/2) step - 1/2; with align_corners, of i (old size - 1) / (new size - 1), so that corners map
    to corners. Beyond the edge the edge is repeated.

    Parameters
    ----------
    x : array (N, C, L), (N, C, H, W) or (N, C, D, H, W) of float16, bfloat16, float32 or float64
        16-bit numbers are mixed in float32.
    size : int, or one for each spatial axis, optional
        The new size. Either it or `scale_factor` is given.
    scale_factor : float > 0, or one for each spatial axis, optional
        New size = floor(old size * scale_factor).
    mode : str, default "nearest"
        Interpolation, see above.
    align_corners : bool, default False
        Linear modes only.

    Returns
    -------
    ndarray
        (N, C, *size), dtype of `x`. On a GPU images have their channels last in memory if `x` has.

    Raises
    ------
    TypeError
        `x` is not floating-point.
    ValueError
        Not 3 to 5 axes; an unknown mode, or one for another number of axes; neither or both of size
        and scale_factor; a size below 1; align_corners with a nearest mode; nothing to take from.

    Notes
    -----
    Gradient: each gradient goes to the elements that it came from, in the shares they had, of any
    order. Deterministic, in contrast to PyTorch's on a GPU.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.asarray([[[1.0, 2.0]]])
    >>> cm.ml.upsample(x, 4).tolist(), cm.ml.upsample(x, scale_factor=2, mode="linear").tolist()
    ([[[1.0, 1.0, 2.0, 2.0]]], [[[1.0, 1.25, 1.75, 2.0]]])
    >>> cm.ml.upsample(cm.ones((1, 3, 8, 8)), (16, 12), mode="bilinear", align_corners=True).shape
    (1, 3, 16, 12)
    """
    name = "upsample"
    x = require(name, x, FLOATING)
    rank = x.ndim - 2
    if rank not in _LINEAR:
        raise ValueError(
            f"{name}: wants x (N, C, L), (N, C, H, W) or (N, C, D, H, W), got shape {x.shape}"
        )
    if mode not in (*_NEAREST, _LINEAR[rank]):
        raise ValueError(
            f"{name}: x of shape {x.shape} wants mode 'nearest', 'nearest-exact' or "
            f"{_LINEAR[rank]!r}, "
            f"got {mode!r}"
        )
    if align_corners and mode in _NEAREST:
        raise ValueError(f"{name}: align_corners is for linear modes, got mode {mode!r}")
    new, steps = _sizes(name, x, size, scale_factor, rank)
    if 0 in x.shape[2:]:
        raise ValueError(f"{name}: wants at least one element to take from, got shape {x.shape}")
    kind = mode if mode in _NEAREST else "corners" if align_corners else "linear"
    axes = tuple([(kind, step) for step in steps])
    if rank < 3:  # a sequence is an image one row high
        x = in_an_order(x if rank == 2 else x[:, :, None])
        y = _resize(x, size=(1, *new)[-2:], old=x.shape[2:], axes=(KEPT, *axes)[-2:])
        return y if rank == 2 else y[:, :, 0]
    n, c, d, h, w = x.shape
    wide = (
        x if kind in _NEAREST else x.astype(compute_dtype(x.dtype), copy=False)
    )  # not rounded between the two
    planes = _images(wide.reshape((n, c * d, h, w)), new[1:], axes[1:])
    lines = planes.reshape((n, c, d, new[1] * new[2]))
    return (
        _images(lines, (new[0], lines.shape[3]), (axes[0], KEPT))
        .reshape((n, c, *new))
        .astype(x.dtype, copy=False)
    )


interpolate = upsample


def _sizes(
    name: str, x: ndarray, size: Any, scale_factor: Any, rank: int
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The new size, and the distance of neighbours along each axis in old elements."""
    old = x.shape[2:]
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"{name}: wants either size or scale_factor, got "
            f"{'neither' if size is None else 'both'}"
        )
    if size is not None:
        new = several(name, "size", tuple(size) if isinstance(size, Sequence) else size, 1, rank)
        return new, tuple([n / m for n, m in zip(old, new, strict=True)])
    if isinstance(scale_factor, (ndarray, np.ndarray)):
        scale_factor = np.asarray(
            scale_factor
        ).tolist()  # not of one whose gradient is being recorded
    factors = tuple(scale_factor) if isinstance(scale_factor, Sequence) else (scale_factor,) * rank
    numbers = (int, float, np.integer, np.floating)
    if len(factors) != rank or not all(
        isinstance(f, numbers) and 0 < f < math.inf for f in factors
    ):
        raise ValueError(
            f"{name}: wants scale_factor as one or {rank} numbers > 0, got {scale_factor!r}"
        )
    factors = tuple(map(float, factors))
    new = tuple([math.floor(n * f) for n, f in zip(old, factors, strict=True)])
    if min(new) < 1:
        raise ValueError(f"{name}: scale_factor {scale_factor!r} makes {new} of shape {x.shape}")
    return new, tuple([1 / f for f in factors])


@fast_path("x")
def pad(
    x: ArrayLike, padding: int | Sequence[int], mode: str = "constant", value: float = 0.0
) -> ndarray:
    """``x`` with elements put around it, or cut off; the last axis is named first, as in PyTorch.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    padding : int or sequence of int
        Pairs (before, after) for the last axis, then for the one before it, and so on. Negative
        ones cut off. One int is that many on both sides of every axis except the first two.
    mode : "constant", "reflect", "replicate" or "circular", default "constant"
        Elements of `value`; mirrored, the edge not repeated; the edge; from the other end.
    value : number, default 0.0
        For "constant".

    Returns
    -------
    ndarray
        In the dtype of `x`.

    Raises
    ------
    TypeError
        `padding` holds something else than integers.
    ValueError
        An odd number of integers, or too many; an unknown mode; more reflected than there is (less
        than the length of the axis) or more taken from the other end (at most the length); more cut
        off than there is.

    Notes
    -----
    Gradient: that of the elements of `x`, plus that of their copies, added in a fixed order; of any
    order. The function is deterministic. `cm.pad` takes NumPy's arguments and modes.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.asarray([[1.0, 2.0, 3.0]])
    >>> cm.ml.pad(x, (1, 2), "reflect").tolist(), cm.ml.pad(x, (0, 1, 0, 1), value=9.0).tolist()
    ([[2.0, 1.0, 2.0, 3.0, 2.0, 1.0]], [[1.0, 2.0, 3.0, 9.0], [9.0, 9.0, 9.0, 9.0]])
    """
    x = require("pad", x)
    if not isinstance(mode, str) or mode not in _PADDED:
        raise ValueError(f"pad: mode is {', '.join(map(repr, _PADDED))}, got {mode!r:.60}")
    widths = _widths(x, padding)
    kept = tuple(
        [
            slice(max(-before, 0), n - max(-after, 0))
            for n, (before, after) in zip(x.shape, widths, strict=True)
        ]
    )
    if any([part.stop < part.start for part in kept]):
        raise ValueError(f"pad: padding {padding!r} cuts off more than there is of shape {x.shape}")
    if kept != tuple([slice(0, n) for n in x.shape]):
        x = x[kept]
    widths = [(max(before, 0), max(after, 0)) for before, after in widths]
    for n, width in zip(x.shape, widths, strict=True):
        most = {"reflect": max(n - 1, 0), "circular": n, "replicate": math.inf if n else 0}.get(
            mode, math.inf
        )
        if max(width) > most:
            raise ValueError(
                f"pad: mode {mode!r} takes at most {most} elements on a side of an axis of {n}, "
                f"got {width} "
                f"(x {x.shape}, padding {padding!r})"
            )
    if mode == "constant" or x.dtype not in FLOATING:
        return numpy_pad(
            x, widths, _PADDED[mode], constant_values=value if mode == "constant" else None
        )
    return padded(x, widths, mode)


_PADDED = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}  # NumPy's words


def _widths(x: ndarray, padding: Any) -> list[tuple[int, int]]:
    """(before, after) for each axis of x, the first axis first."""
    try:
        if isinstance(padding, (Sequence, np.ndarray)):
            given = [operator.index(n) for n in padding]
        else:
            given = [operator.index(padding)] * 2 * max(x.ndim - 2, 0)
    except TypeError:
        raise TypeError(f"pad: padding holds integers, got {padding!r}") from None
    if not given and not isinstance(padding, (Sequence, np.ndarray)) and operator.index(padding):
        raise ValueError(
            f"pad: one integer is for the axes after the first two, which x {x.shape} has not, "
            f"got {padding!r}"
        )
    if len(given) % 2 or len(given) > 2 * x.ndim:
        raise ValueError(
            f"pad: wants padding as (before, after) for up to {x.ndim} axes of x {x.shape}, got "
            f"{padding!r}"
        )
    pairs = list(zip(given[::2], given[1::2], strict=True))[::-1]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs


def _images(x: ndarray, size: tuple[int, ...], axes: tuple[Axis, ...]) -> ndarray:
    return _resize(in_an_order(x), size=size, old=x.shape[2:], axes=axes)
