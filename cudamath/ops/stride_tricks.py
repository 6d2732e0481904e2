"""Views that show elements more than once: sliding windows, and any strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import ViewOp
from ..core.layout import Layout
from ..core.shapes import byte_bounds, normalize_axes, normalize_shape
from ..core.typing import ArrayLike
from .padding import pad
from .shape import moveaxis, reshape, span, unrecorded_view

__all__ = ["sliding_window_view"]


def _windows(
    layout: Layout, *, window: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[Layout, int]:
    shape = list(layout.shape)
    for a, n in zip(axes, window, strict=True):
        shape[a] -= n - 1
    return layout.view((*shape, *window), (*layout.strides, *[layout.strides[a] for a in axes])), 0


def _fold(g: ndarray, window: tuple[int, ...], axes: tuple[int, ...]) -> ndarray:
    """The adjoint of the windows: every element's gradients, one a window that shows it, are added
    up.

    Per axis: (window, places) -> window + places - 1. With `window` zeros behind each row and rows
    read one shorter, row j begins j places later: what belongs together is in one column.
    """
    for n, axis in zip(reversed(window), reversed(axes), strict=True):
        g = moveaxis(g, axis, -1)  # (..., window, places)
        *rest, _, places = g.shape
        rows = reshape(pad(g, ((0, 0),) * (g.ndim - 1) + ((0, n),)), (*rest, n * (places + n)))
        rows = span(rows, rows.ndim - 1, 0, n * (places + n - 1))
        g = moveaxis(reshape(rows, (*rest, n, places + n - 1)).sum(axis=-2), -1, axis)
    return g


_slide = ViewOp(
    "sliding_window_view", _windows, vjp=lambda g, _y, _x, window, axes: (_fold(g, window, axes),)
)


@fast_path("x", scalars=False)
def sliding_window_view(
    x: ArrayLike, /, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> ndarray:
    """A view of all windows of a shape into ``x``; no element is copied.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    window_shape : int or sequence of int
        Lengths of the window along the axes.
    axis : int or sequence of int, optional
        Axes of the windows. None takes all of them, in order. An axis may occur twice.

    Returns
    -------
    ndarray
        View whose axes are x's (each shortened by the length of its window less one), and then the
        window's.

    Raises
    ------
    ValueError
        A length is negative or longer than its axis, or the numbers of lengths and axes differ.

    Notes
    -----
    The gradient is summed over the windows. Assignments through the view are refused where windows
    overlap.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sliding_window_view(cm.arange(5), 3).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    x = require("sliding_window_view", x)
    window = normalize_shape("sliding_window_view", window_shape)
    given = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple([normalize_axes("sliding_window_view", a, x.ndim)[0] for a in given])
    if len(window) != len(axes):
        raise ValueError(
            f"sliding_window_view: a window of shape {window} does not fit {len(axes)} axes of an "
            "array of shape "
            f"{x.shape}"
        )
    left = list(x.shape)
    for a, n in zip(axes, window, strict=True):
        left[a] -= n - 1
        if left[a] < 1:
            raise ValueError(
                f"sliding_window_view: a window of shape {window} is larger than an array of "
                f"shape {x.shape}"
            )
    return _slide(x, window=window, axes=axes)


@fast_path("x", scalars=False)
def as_strided(
    x: Any,
    /,
    shape: int | Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    subok: bool = False,
    *,
    writeable: bool = True,
) -> ndarray:
    """Show an array's memory in another shape with other strides.

    There is no gradient (RuntimeError if one is recorded); `sliding_window_view` and `diagonal`
    have one. Assignments through the view are refused where its elements overlap.

    Parameters
    ----------
    x : array
        Any array.
    shape : int or sequence of int, optional
        Of the view; by default that of x.
    strides : sequence of int, optional
        Bytes of x from an element to the next along each axis; by default those of x.
    subok : bool, optional
        NumPy's; it changes nothing.
    writeable : bool, optional
        NumPy's; it changes nothing.

    Returns
    -------
    ndarray
        A view from the first element of x on.

    Raises
    ------
    ValueError
        Lengths differ, strides are not multiples of an element's size, or the view would reach
        beyond the memory of x (where NumPy reads whatever is there).

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.arange(6)
    >>> cm.lib.stride_tricks.as_strided(x, (2, 3), (8, 16)).tolist()
    [[0, 2, 4], [1, 3, 5]]
    """
    x = require("as_strided", x)
    if x._node is not None:
        raise RuntimeError(
            f"as_strided: has no gradient, and one is recorded for the array of shape {x.shape}"
        )
    lengths = x.shape if shape is None else normalize_shape("as_strided", shape)
    steps = x.strides if strides is None else tuple(strides)
    if len(lengths) != len(steps):
        raise ValueError(f"as_strided: {len(steps)} strides do not fit shape {lengths}")
    low, high = byte_bounds(lengths, steps, x.itemsize)
    least, most = byte_bounds(x.shape, x.strides, x.itemsize)
    if low < least or high > most or any(step % x.itemsize for step in steps):
        raise ValueError(
            f"as_strided: shape {lengths} with strides {steps} does not lie in the {most - least} "
            "bytes of an "
            f"array of shape {x.shape} and dtype {x.dtype}"
        )
    return unrecorded_view(x, x._layout.view(lengths, steps))
