"""Linear interpolation in a table: a search for the interval, then a line through its ends. Kernel:
kernels/sort/binary_search.py; where a gradient is recorded, a composition."""

from __future__ import annotations

import math
from typing import Any

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.checks import as_numbers, coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import COMPLEX, INEXACT, REAL_OR_BOOL, Op
from ..core.typing import ArrayLike
from .elementwise import clip, remainder
from .index import take
from .join import concat
from .search import searchsorted
from .shape import astype, broadcast_to, span
from .sort import argsort
from .transfer import complex_of_parts
from .transfer import imag as imag_part
from .transfer import real as real_part
from .where import where

__all__ = ["interp"]

_interp = Op("interp", cpu="search.interp", cuda="sort.binary_search.interp")


def _sides(left: float | None, right: float | None) -> int:
    """Which ends have a value of their own, as bits."""
    return (left is not None) + 2 * (right is not None)


@fast_path("x", "xp", "fp")
def interp(
    x: Any,
    xp: ArrayLike,
    fp: ArrayLike,
    left: Any = None,
    right: Any = None,
    period: float | None = None,
) -> ndarray:
    """Return values at x of the line through the points (xp, fp).

    y = fp[i] + (fp[i + 1] - fp[i]) (x - xp[i]) / (xp[i + 1] - xp[i]), where xp[i] <= x < xp[i + 1]

    Parameters
    ----------
    x : array_like
        Real array.
    xp : array_like
        Vector of coordinates, ascending (not checked) unless there is a period.
    fp : array_like
        Numeric vector with the values at `xp`.
    left, right : array_like, optional
        Values below and above `xp`. The defaults are the first and the last element of `fp`.
    period : float, optional
        Period of `x`. `xp` is brought into one period and sorted.

    Returns
    -------
    ndarray
        Array of x's shape, of the default floating-point dtype or a wider one; complex where fp
        is.

    Raises
    ------
    ValueError
        The shapes do not fit each other, there are no points, or the period is 0.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.interp([0.0, 1.5, 9.0], [1.0, 2.0, 3.0], [10.0, 20.0, 0.0]).tolist()
    [10.0, 15.0, 0.0]
    """
    x, places, values = coerce("interp", (x, xp, fp))
    x, places = require("interp", x, REAL_OR_BOOL), require("interp", places, REAL_OR_BOOL)
    if places.ndim != 1 or values.shape != places.shape or not places.size:
        raise ValueError(
            "interp: wants two vectors of points, equally long and not empty, got shapes "
            f"{places.shape} and "
            f"{values.shape}"
        )
    kind, wide = dtypes.result_type(x, places, values), dtypes.default_float()
    kind = dtypes.promote(kind, wide) if kind in INEXACT else wide
    real = dtypes.real_dtype(kind)
    x, places, values = (
        astype(x, real, copy=False),
        astype(places, real, copy=False),
        astype(values, kind, copy=False),
    )
    if period is not None:
        (period,) = as_numbers("interp", "the period as a real number", period)
        if not period or not math.isfinite(period):
            raise ValueError(f"interp: the period must be a number that is not 0, got {period}")
        period, left, right = abs(period), None, None
        x, places = remainder(x, period), remainder(places, period)
        order = argsort(places)
        places, values = take(places, order), take(values, order)
        n = places.size
        places = concat(
            [span(places, 0, n - 1, n) - period, places, span(places, 0, 0, 1) + period]
        )
        values = concat([span(values, 0, n - 1, n), values, span(values, 0, 0, 1)])
    recorded = any([a._node is not None for a in (x, places, values)])
    if not recorded and all([end is None or type(end) in (int, float) for end in (left, right)]):
        if kind not in COMPLEX:
            return _interp(
                x, places, values, scalars=(left or 0.0, right or 0.0), sides=_sides(left, right)
            )
        parts = [
            _interp(
                x,
                places,
                astype(part(values), real),
                scalars=(at_left, at_right),
                sides=_sides(left, right),
            )
            for part, at_left, at_right in (
                (real_part, left or 0.0, right or 0.0),
                (imag_part, 0.0, 0.0),
            )
        ]
        return complex_of_parts(*parts)
    n = places.size
    if n == 1:
        y = broadcast_to(values[0], x.shape)
    else:
        i = clip(searchsorted(places, x, side="right") - 1, 0, n - 2)
        low, high = take(places, i), take(places, i + 1)
        below, above = take(values, i), take(values, i + 1)
        inside = where(
            (x < places[0]) | (x > places[n - 1]), low, x
        )  # infinite x are far outside, where t is not looked at
        t = where(
            high == low, 1, (inside - low) / where(high == low, 1, high - low)
        )  # equal only at the end: its last one
        y = where(t == 1, above, below + (above - below) * t)
    y = where(x < places[0], values[0] if left is None else left, y)
    return astype(
        where(x > places[n - 1], values[n - 1] if right is None else right, y), kind, copy=False
    )
