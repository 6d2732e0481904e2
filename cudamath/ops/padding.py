"""Padding by NumPy's names; the card by which it is one launch, and which also resizes images
(ml/resize.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import as_numbers, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import FLOATING
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike
from . import elementwise, reduce
from .creation import full
from .join import _joined
from .ranges import linspace
from .shape import (
    _broadcast,
    _cast,
    flip,
    in_order,
    moveaxis,
    pattern,
    span,
    squeeze,
    transpose,
    view_of,
)
from .statistics import median

__all__ = ["pad"]

# an axis that stays as it is: mode and number, see core/specs/resample.py
KEPT = ("replicate", 0.0)
_TAKEN = {
    "edge": "replicate",
    "reflect": "reflect",
    "wrap": "circular",
}  # NumPy's modes in the words of core/specs/resample.py

# -------------------- cards


_pad = Op(
    "pad",
    cpu="shape.pad",
    cuda="image.dispatch.pad",
    vjp=lambda g, _y, _x, widths, **_scalars: (
        view_of(g, tuple([slice(b, n - a) for n, (b, a) in zip(g.shape, widths, strict=True)])),
    ),
)


def in_an_order(x: ndarray) -> ndarray:
    """x in C order or with its channels last in memory: itself, or a copy."""
    return x if x.is_contiguous or moveaxis(x, 1, -1).is_contiguous else x.copy()


# size: what the last two axes become; old: what they are; axes: mode and number of each
# (core/specs/resample.py).
def _rule(g: ndarray, _y: None, _x: None, *, size: Any, old: Any, axes: Any) -> tuple:
    return (_resize_grad(in_an_order(g), size=old, old=size, axes=axes),)


def _grad_rule(h: ndarray, _dx: None, _g: None, *, size: Any, old: Any, axes: Any) -> tuple:
    return (_resize(in_an_order(h), size=old, old=size, axes=axes),)


_resize = Op("resize", cpu="resize.resize", cuda="image.dispatch.resize", vjp=_rule)
_resize_grad = Op(
    "_resize_grad", cpu="resize.resize_grad", cuda="image.dispatch.resize_grad", vjp=_grad_rule
)


# -------------------- elements of the array


def padded(x: ndarray, widths: list[tuple[int, int]], mode: str) -> ndarray:
    """Two axes at a time, the last two first."""
    for axis in range(x.ndim - 1, -1, -2):
        pair = [(0, 0), *widths][axis : axis + 2]
        if pair == [(0, 0), (0, 0)]:
            continue
        front, rest = x.shape[: max(axis - 1, 0)], x.shape[axis + 1 :]
        rows = x.shape[axis - 1] if axis else 1
        sizes = [n + sum(width) for n, width in zip((rows, x.shape[axis]), pair, strict=True)]
        axes = [(mode, float(before)) if before or after else KEPT for before, after in pair]
        if rest:  # elements of the axes behind move together: an axis of their own
            x = x.reshape((*front, rows, x.shape[axis], math.prod(rest)))
            x = moveaxis(x, -1, -3)
        shape = x.shape
        four = x if x.ndim == 4 else x.reshape((1, math.prod(shape[:-2]), rows, shape[-1]))
        x = _resize(in_an_order(four), size=tuple(sizes), old=four.shape[2:], axes=tuple(axes))
        x = x if len(shape) == 4 else x.reshape((*shape[:-2], *sizes))
        if rest:
            x = moveaxis(x, -3, -1)
        x = x.reshape((*front, *sizes[axis == 0 :], *rest))
    return x


# -------------------- NumPy's padding


@fast_path("x")
def pad(
    x: ArrayLike,
    /,
    pad_width: ArrayLike | dict[int, Any],
    mode: str | Callable = "constant",
    *,
    constant_values: Any = None,
    end_values: ArrayLike | None = None,
    stat_length: ArrayLike | dict[int, Any] | None = None,
    reflect_type: str | None = None,
    **kwargs: Any,
) -> ndarray:
    """Put elements before and after ``x`` along each axis.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    pad_width : array_like or dict
        Number of elements before and after: one number, a pair (before, after), a pair for each
        axis, or a dict of either by axis.
    mode : str or callable, default "constant"
        "constant": `constant_values`. "edge": the nearest element. "reflect": mirrored without the
        edge. "symmetric": mirrored with the edge. "wrap": from the other end. "maximum", "minimum",
        "mean", "median": that of the line, or of its `stat_length` elements at that end.
        "linear_ramp": evenly down to `end_values`. "empty": undefined elements. A function
        f(line, widths, axis, kwargs) is called for each line along each axis, padded with zeros,
        and changes it in place.
    constant_values : array_like, optional
        Values of the mode "constant": a scalar, a pair, or a pair for each axis. The default is 0.
    end_values : array_like, optional
        Last values of the mode "linear_ramp", in the form of `constant_values`. The default is 0.
    stat_length : array_like or dict, optional
        Number of elements of which the statistical modes take the maximum, minimum, mean or median,
        in the form of `pad_width`.
    reflect_type : str, optional
        "even" (the default) or "odd". "odd" also mirrors the values in the modes "reflect" and
        "symmetric": twice the edge minus the mirrored element.
    **kwargs : object
        Options of a function as `mode`, which takes them as a dict.

    Returns
    -------
    ndarray
        New array of the same dtype.

    Raises
    ------
    ValueError
        A width is negative, the mode is unknown or does not take an option, or there is no element
        to take values from.

    Notes
    -----
    The gradient is that of the elements of ``x``, plus (except for "constant") that of their
    copies.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.pad(cm.asarray([1, 2, 3]), (2, 1), mode="reflect")
    array([3, 2, 1, 2, 3, 2], device='cpu')
    """
    x = require("pad", x)
    try:
        if isinstance(pad_width, dict):
            given = {
                normalize_axis("pad", axis, x.ndim): width for axis, width in pad_width.items()
            }
            pad_width = [
                np.broadcast_to(np.asarray(given.get(axis, 0)), 2).tolist()
                for axis in range(x.ndim)
            ]
        widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    except ValueError as error:
        raise ValueError(
            f"pad: pad_width {pad_width!r} does not fit an array of shape {x.shape}: {error}"
        ) from None
    if any(type(n) is not int for pair in widths for n in pair):
        raise TypeError(f"pad: `pad_width` must be of integral type, got {pad_width!r}")
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError(f"pad: index can't contain negative values, got pad_width {pad_width!r}")
    options = {
        "constant_values": constant_values,
        "end_values": end_values,
        "stat_length": stat_length,
        "reflect_type": reflect_type,
    }
    options = {name: value for name, value in options.items() if value is not None} | kwargs
    if callable(mode):
        return _padded_by(mode, x, widths, options)
    strange = options.keys() - {_MODES.get(mode)}
    if strange and mode in _MODES:
        raise ValueError(f"pad: unsupported keyword arguments for mode {mode!r}: {sorted(strange)}")
    constant_values, end_values = (0 if v is None else v for v in (constant_values, end_values))
    reflect_type = "even" if reflect_type is None else reflect_type
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}")
    if (
        mode in ("constant", "empty")
        and not isinstance(constant_values, (list, tuple))
        and not (np.ndim(constant_values))
    ):
        (value,) = as_numbers("pad", "numbers", constant_values)
        pairs, scalars = tuple(map(tuple, widths)), pattern("pad", value, x.dtype)
        if x.ndim > 1 and not x._layout.contiguous and x.flags.f_contiguous:  # as the result is
            return transpose(_pad(transpose(x), scalars=scalars, widths=pairs[::-1]))
        return _pad(x, scalars=scalars, widths=pairs)
    if mode not in _MODES:
        raise ValueError(
            f"pad: mode '{mode}' is not supported; wants constant, edge, reflect, symmetric, wrap, "
            "linear_ramp, maximum, minimum, mean, median or empty"
        )
    odd = reflect_type == "odd" and mode in ("reflect", "symmetric")
    if x._layout.device >= 0 and x.dtype in FLOATING and not odd and _once(x.shape, widths, mode):
        out = padded(x, [(before, after) for before, after in widths], _TAKEN[mode])
        return in_order("pad", out, "F") if x.flags.fnc else out
    values = _pairs(
        "end_values" if mode == "linear_ramp" else "constant_values",
        end_values if mode == "linear_ramp" else constant_values,
        x,
    )
    if mode in ("constant", "linear_ramp"):
        as_numbers("pad", "numbers", *[value for pair in values for value in pair])
    lengths = _pairs("stat_length", stat_length, x)
    counts = [length for pair in lengths for length in pair if length is not None]
    if any(length < 0 for length in counts):
        raise ValueError(f"pad: index can't contain negative values, got stat_length {stat_length}")
    if mode in ("maximum", "minimum") and 0 in counts:
        raise ValueError(f"pad: stat_length of 0 yields no value for padding by the {mode}")
    out = x
    for axis, (before, after) in enumerate(widths):
        if before or after:
            if not out.shape[axis] and mode != "constant":
                raise ValueError(
                    f"pad: can't extend empty axis {axis} using modes other than 'constant' or "
                    f"'empty', got mode {mode!r} and an array of shape {x.shape}"
                )
            if odd and x.shape[axis] > 1:
                out = _odd(out, axis, before, after, mode)
            elif mode in ("edge", "reflect", "symmetric", "wrap"):
                parts = [_stretch(out, axis, *s) for s in _ends(x.shape[axis], before, after, mode)]
                out = _joined("pad", parts, axis)
            else:
                ends = [
                    _end(out, axis, first, mode, n, value, length)
                    for first, n, value, length in zip(
                        (True, False), widths[axis], values[axis], lengths[axis], strict=True
                    )
                ]
                out = _joined("pad", [ends[0], out, ends[1]], axis)
    return in_order("pad", out, "F" if x.flags.fnc else "C", copy=out is x)


def _pairs(what: str, given: Any, x: ndarray) -> list[list[Any]]:
    """An argument given once, as a pair, or as a pair for each axis: such a pair for each axis."""
    try:
        return np.broadcast_to(np.asarray(given), (x.ndim, 2)).tolist()
    except ValueError:
        raise ValueError(
            f"pad: {what} {given!r:.60} does not fit an array of shape {x.shape}"
        ) from None


def _once(shape: tuple[int, ...], widths: list[list[int]], mode: str) -> bool:
    """Whether padding takes elements of the array, some of them, and comes to no end a second time
    (there and back again)."""
    most = {"edge": math.inf, "reflect": -1, "wrap": 0}.get(mode)
    return (
        most is not None
        and 0 not in shape
        and any(map(any, widths))
        and all([max(width) <= n + most for n, width in zip(shape, widths, strict=True)])
    )


_STATISTICS = {"maximum": reduce.max, "minimum": reduce.min, "mean": reduce.mean, "median": median}
#: The option of each mode.
_MODES = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    **dict.fromkeys(_STATISTICS, "stat_length"),
    **dict.fromkeys(("edge", "wrap", "empty"), None),
}


def _padded_by(
    function: Callable, x: ndarray, widths: list[list[int]], options: dict[str, Any]
) -> ndarray:
    """x between zeros that a function of the user's changes in place, line by line."""
    out = pad(x, widths)
    for axis in range(x.ndim):
        lines = moveaxis(out, axis, -1)
        for place in np.ndindex(lines.shape[:-1]):
            function(lines[(*place, slice(None))], tuple(widths[axis]), axis, options)
    return out


def _end(
    x: ndarray, axis: int, first: bool, mode: str, count: int, value: Any, length: int | None
) -> ndarray:
    """What `pad` puts before (first) or after x along an axis, in x's dtype."""
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    size = x.shape[axis]
    if mode == "constant":
        return full(shape, value, x.dtype, device=x.device)
    if mode == "linear_ramp":
        edge = span(x, axis, 0, 1) if first else span(x, axis, size - 1, size)
        ramp = linspace(value, squeeze(edge, axis=axis), count, endpoint=False, axis=axis)
        ramp = ramp if first else flip(ramp, axis=axis)
        return _cast_to(elementwise.floor(ramp) if x.dtype.kind in "iu" else ramp, x.dtype)
    near = size if length is None else min(length, size)
    part = span(x, axis, 0, near) if first else span(x, axis, size - near, size)
    found = _STATISTICS[mode](part, axis=axis, keepdims=True)
    found = _cast_to(elementwise.round(found) if x.dtype.kind in "iu" else found, x.dtype)
    return _broadcast(found, shape=shape, old=found.shape)


def _odd(x: ndarray, axis: int, before: int, after: int, mode: str) -> ndarray:
    """x, mirrored in place and value at both ends of an axis: as far as x reaches, then what that
    gave, in whole copies."""
    edge = mode == "reflect"  # is not repeated
    period = x.shape[axis] - edge
    while before or after:
        n = x.shape[axis]
        reach = (n - edge) // period * period
        left, right = min(before, reach), min(after, reach)
        ends = [(0, left - 1 + edge, left), (n - 1, n - 1 - edge, right)]
        low, high = [
            [_cast_to(2 * span(x, axis, at, at + 1) - _stretch(x, axis, first, -1, count), x.dtype)]
            if count
            else []
            for at, first, count in ends
        ]
        x = _joined("pad", [*low, x, *high], axis)
        before, after = before - left, after - right
    return x


def _cast_to(x: ndarray, dtype: np.dtype) -> ndarray:
    return x if x.dtype == dtype else _cast(x, dtype=dtype)


def _ends(n: int, before: int, after: int, mode: str) -> list[tuple[int, int, int]]:
    """The padded axis as runs (first, step, count) of the n positions there are: every run is a
    slice of the array."""
    most = n - 1 if mode == "reflect" else n
    if (
        mode != "edge" and max(before, after) > most
    ):  # there and back again: NumPy pads the numbers 0 ... n - 1
        return _stretches(np.pad(np.arange(n), (before, after), mode=mode).tolist())  # type: ignore[call-overload]
    front, back = {
        "edge": ((0, 0), (n - 1, 0)),
        "reflect": ((before, -1), (n - 2, -1)),
        "symmetric": ((before - 1, -1), (n - 1, -1)),
        "wrap": ((n - before, 1), (0, 1)),
    }[mode]
    return [run for run in ((*front, before), (0, 1, n), (*back, after)) if run[2]]


def _stretches(order: list[int]) -> list[tuple[int, int, int]]:
    """Cut positions into runs (first, step, count) of step 1, 0 or -1."""
    runs: list[tuple[int, int, int]] = []
    i = 0
    while i < len(order):
        step = order[i + 1] - order[i] if i + 1 < len(order) else 1
        end = i + 1
        if abs(step) <= 1:
            while end < len(order) and order[end] - order[end - 1] == step:
                end += 1
        else:
            step = 1
        runs.append((order[i], step, end - i))
        i = end
    return runs


def _stretch(x: ndarray, axis: int, first: int, step: int, count: int) -> ndarray:
    if step == 0:
        one = span(x, axis, first, first + 1)
        return _broadcast(
            one, shape=(*one.shape[:axis], count, *one.shape[axis + 1 :]), old=one.shape
        )
    stop = first + step * count
    key = (*[slice(None)] * axis, slice(first, None if stop < 0 else stop, step))
    return view_of(x, key)  # type: ignore[return-value]
