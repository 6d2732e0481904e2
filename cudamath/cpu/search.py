"""Positions in a sorted array, and membership, in NumPy."""

import numpy as np

from ..core.dtypes import bfloat16
from .sort import comparable


def searchsorted(ordered, numbers, *, right):
    """How many elements are less than (right: not greater than) each number."""
    return np.asarray(
        np.searchsorted(comparable(ordered), comparable(numbers), side="right" if right else "left")
    )


def digitize(edges, numbers, *, right):
    """The bin of each number, between edges that ascend or descend; NaN is the largest of all."""
    ordered = comparable(edges)
    falling = ordered.size > 1 and bool(
        ordered[0] > ordered[-1] or np.isnan(ordered[0]) > np.isnan(ordered[-1])
    )
    ordered = ordered[::-1] if falling else ordered
    if not np.all((ordered[1:] >= ordered[:-1]) | np.isnan(ordered[1:])):
        raise ValueError(f"digitize: bins of shape {edges.shape} must ascend or descend")
    places = searchsorted(ordered, numbers, right=not right)
    return np.asarray(edges.size - places if falling else places)


def isin(numbers, table, *, invert):
    """Whether numbers occur in a vector; NaN occurs nowhere."""
    if numbers.dtype == bfloat16:
        numbers, table = numbers.astype(np.float32), table.astype(np.float32)
    return np.isin(numbers, table, invert=invert)


def interp(x, places, values, *, sides, scalars):
    """NumPy's interpolation, which is in float64."""
    own = x.dtype
    x, places, values = (a.astype(np.float64, copy=False) for a in (x, places, values))
    left, right = (
        scalar if sides & bit else None for scalar, bit in zip(scalars, (1, 2), strict=True)
    )
    return np.interp(x, places, values, left=left, right=right).astype(own, copy=False)
