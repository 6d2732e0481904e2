"""Places in a sorted array, and membership, in NumPy."""

import numpy as np

from ..core.dtypes import bfloat16
from .sort import comparable


def searchsorted(ordered, numbers, *, right):
    """How many elements are less than (right: not greater than) each number."""
    return np.asarray(np.searchsorted(comparable(ordered), comparable(numbers), side="right" if right else "left"))


def isin(numbers, table, *, invert):
    """Whether numbers occur in a vector; NaN occurs nowhere."""
    if numbers.dtype == bfloat16:
        numbers, table = numbers.astype(np.float32), table.astype(np.float32)
    return np.isin(numbers, table, invert=invert)


def interp(x, places, values, *, sides, scalars):
    """NumPy's interpolation, which is in float64."""
    own = x.dtype
    x, places, values = (a.astype(np.float64) for a in (x, places, values))
    left, right = (scalar if sides & bit else None for scalar, bit in zip(scalars, (1, 2), strict=True))
    return np.interp(x, places, values, left=left, right=right).astype(own)
