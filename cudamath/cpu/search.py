"""Places in a sorted array in NumPy."""

import numpy as np

from .sort import comparable


def searchsorted(ordered, numbers, *, right):
    """How many elements are less than (right: not greater than) each number."""
    return np.asarray(np.searchsorted(comparable(ordered), comparable(numbers), side="right" if right else "left"))
