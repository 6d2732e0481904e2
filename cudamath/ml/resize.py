"""Resizing sequences, images and volumes: nearest neighbour and linear between neighbours.

One op resizes the last two axes of images. A sequence is an image one row high; a volume is resized plane by plane,
and then along its depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.array import ndarray
from ..core.dtypes import compute_dtype
from ..core.op import FLOATING, Op, require
from ..core.taps import NEAREST
from ..ops.shape import moveaxis
from .conv import several

__all__ = ["interpolate", "upsample"]

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def upsample(x: Any, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
             mode: str = "nearest", *, align_corners: bool = False) -> ndarray:
    """Images, sequences or volumes resized, larger or smaller. Also known as `interpolate`.

    "nearest": y[i] = x[floor(i step)], where step = old size / new size (or 1 / scale_factor, if that is given);
    "nearest-exact": y[i] = x[floor((i + 1/2) step)], the nearest in truth;
    "linear" (three axes), "bilinear" (four), "trilinear" (five): between the neighbours of (i + 1/2) step - 1/2; with
    align_corners, of i (old size - 1) / (new size - 1), so that corners stay corners. Beyond the edge, the edge.

    Parameters
    ----------
    x : array (N, C, L), (N, C, H, W) or (N, C, D, H, W) of float16, bfloat16, float32 or float64
        16-bit numbers are mixed in float32.
    size : int, or one for each spatial axis
        The new size; or
    scale_factor : float > 0, or one for each spatial axis
        New size = floor(old size * scale_factor).
    mode : str
    align_corners : bool
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
        Not 3 to 5 axes; an unknown mode, or one for another number of axes; neither or both of size and scale_factor; a
        size below 1; align_corners with a nearest mode; nothing to take from.

    Gradient: each gradient goes to the elements that it came from, in the shares they had, of any order. Deterministic, in
    contrast to PyTorch's on a GPU.

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
        raise ValueError(f"{name}: wants x (N, C, L), (N, C, H, W) or (N, C, D, H, W), got shape {x.shape}")
    if mode not in (*NEAREST, _LINEAR[rank]):
        raise ValueError(f"{name}: x of shape {x.shape} wants mode 'nearest', 'nearest-exact' or {_LINEAR[rank]!r}, "
                         f"got {mode!r}")
    if align_corners and mode in NEAREST:
        raise ValueError(f"{name}: align_corners is for linear modes, got mode {mode!r}")
    new, steps = _sizes(name, x, size, scale_factor, rank)
    if 0 in x.shape[2:]:
        raise ValueError(f"{name}: wants at least one element to take from, got shape {x.shape}")
    kind = mode if mode in NEAREST else "linear"
    how = {"mode": kind, "corners": bool(align_corners)}
    if rank == 1:
        return _images(x[:, :, None], size=(1, *new), step=(1.0, *steps), **how)[:, :, 0]
    if rank == 2:
        return _images(x, size=new, step=steps, **how)
    n, c, d, h, w = x.shape
    wide = x if kind in NEAREST else x.astype(compute_dtype(x.dtype), copy=False)  # not rounded between the two
    planes = _images(wide.reshape((n, c * d, h, w)), size=new[1:], step=steps[1:], **how)
    lines = planes.reshape((n, c, d, new[1] * new[2]))
    y = _images(lines, size=(new[0], lines.shape[3]), step=(steps[0], 1.0), **how)
    return y.reshape((n, c, *new)).astype(x.dtype, copy=False)


interpolate = upsample


def _sizes(name: str, x: ndarray, size: Any, scale_factor: Any, rank: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The new size, and the distance of neighbours along each axis in old elements."""
    old = x.shape[2:]
    if (size is None) == (scale_factor is None):
        raise ValueError(f"{name}: wants either size or scale_factor, got {'neither' if size is None else 'both'}")
    if size is not None:
        new = several(name, "size", tuple(size) if isinstance(size, Sequence) else size, 1, rank)
        return new, tuple([n / m for n, m in zip(old, new, strict=True)])
    factors = tuple(scale_factor) if isinstance(scale_factor, Sequence) else (scale_factor,) * rank
    if len(factors) != rank or not all(isinstance(f, (int, float)) and 0 < f < math.inf for f in factors):
        raise ValueError(f"{name}: wants scale_factor as one or {rank} numbers > 0, got {scale_factor!r}")
    new = tuple([math.floor(n * f) for n, f in zip(old, factors, strict=True)])
    if min(new) < 1:
        raise ValueError(f"{name}: scale_factor {scale_factor!r} makes {new} of shape {x.shape}")
    return new, tuple([1 / f for f in factors])


def _images(x: ndarray, *, size: tuple[int, ...], **how: Any) -> ndarray:
    return _resize(_in_an_order(x), size=size, old=x.shape[2:], **how)


def _in_an_order(x: ndarray) -> ndarray:
    """x in C order or with its channels last in memory: itself, or a copy."""
    return x if x.is_contiguous or moveaxis(x, 1, -1).is_contiguous else x.copy()


# size: what the last two axes become; old: what they are.
def _rule(g: ndarray, _y: None, _x: None, *, size: Any, old: Any, **how: Any) -> tuple:
    return (_resize_grad(_in_an_order(g), size=old, old=size, **how),)


def _grad_rule(h: ndarray, _dx: None, _g: None, *, size: Any, old: Any, **how: Any) -> tuple:
    return (_resize(_in_an_order(h), size=old, old=size, **how),)


_resize = Op("upsample", cpu="resize.resize", cuda="resize.resize", vjp=_rule)
_resize_grad = Op("_upsample_grad", cpu="resize.resize_grad", cuda="resize.resize_grad", vjp=_grad_rule)
