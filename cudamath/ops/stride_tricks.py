"""Views that show elements more than once: sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.array import ndarray
from ..core.layout import Layout
from ..core.op import ViewOp, require
from ..core.shapes import normalize_axes, normalize_shape
from .join import pad
from .shape import moveaxis, reshape, span

__all__ = ["sliding_window_view"]


def _windows(layout: Layout, *, window: tuple[int, ...], axes: tuple[int, ...]) -> tuple[Layout, int]:
    shape = list(layout.shape)
    for a, n in zip(axes, window, strict=True):
        shape[a] -= n - 1
    return layout.view((*shape, *window), (*layout.strides, *[layout.strides[a] for a in axes])), 0


def _fold(g: ndarray, window: tuple[int, ...], axes: tuple[int, ...]) -> ndarray:
    """The adjoint of the windows: every element's gradients, one a window that shows it, are added up.

    Per axis: (window, places) -> window + places - 1. With `window` zeros behind each row and rows read one shorter,
    row j begins j places later: what belongs together is in one column.
    """
    for n, axis in zip(reversed(window), reversed(axes), strict=True):
        g = moveaxis(g, axis, -1)  # (..., window, places)
        *rest, _, places = g.shape
        rows = reshape(pad(g, ((0, 0),) * (g.ndim - 1) + ((0, n),)), (*rest, n * (places + n)))
        rows = span(rows, rows.ndim - 1, 0, n * (places + n - 1))
        g = moveaxis(reshape(rows, (*rest, n, places + n - 1)).sum(axis=-2), -1, axis)
    return g


_slide = ViewOp("sliding_window_view", _windows, vjp=lambda g, _y, _x, window, axes: (_fold(g, window, axes),))


def sliding_window_view(x: Any, /, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None) -> ndarray:
    """A view of all windows of a shape into ``x``; no element is copied.

    Args: x: any array; window_shape: lengths of the window along the axes; axis: the axes, None: all of them, in order.
    An axis may be named twice. Returns: a view whose axes are x's (each shortened by its window's length - 1), then the
    window's. Raises: ValueError if a length is negative or longer than its axis, or numbers differ. Gradient: added up
    over the windows. Assignments through the view are refused where windows overlap.

    >>> import cudamath as cm
    >>> cm.sliding_window_view(cm.arange(5), 3).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    x = require("sliding_window_view", x)
    window = normalize_shape("sliding_window_view", window_shape)
    given = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple([normalize_axes("sliding_window_view", a, x.ndim)[0] for a in given])
    if len(window) != len(axes):
        raise ValueError(f"sliding_window_view: a window of shape {window} does not fit {len(axes)} axes of an array of shape "
                         f"{x.shape}")
    left = list(x.shape)
    for a, n in zip(axes, window, strict=True):
        left[a] -= n - 1
        if left[a] < 1:
            raise ValueError(f"sliding_window_view: a window of shape {window} is larger than an array of shape {x.shape}")
    return _slide(x, window=window, axes=axes)
