"""`cudamath.lib.array_utils`: axes as NumPy numbers them, and the range of an array's bytes."""

from __future__ import annotations

from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ..core import shapes
from ..core.dispatch.checks import require
from ..core.typing import ArrayLike

__all__ = ["byte_bounds", "normalize_axis_index", "normalize_axis_tuple"]


def byte_bounds(a: ArrayLike) -> tuple[int, int]:
    """Return the addresses of the first byte of an array and of the first one behind it.

    On a GPU they are addresses of its memory. Between them may lie bytes that are not the array's.

    Parameters
    ----------
    a : array_like
        Array of any shape and dtype.

    Returns
    -------
    tuple of int
        The addresses.

    Examples
    --------
    >>> import cudamath as cm
    >>> low, high = cm.lib.array_utils.byte_bounds(cm.ones((2, 3))[:, ::-1])
    >>> high - low
    48
    """
    x = require("byte_bounds", a)
    low, high = shapes.byte_bounds(x.shape, x.strides, x.itemsize)
    return x.ptr + low, x.ptr + high
