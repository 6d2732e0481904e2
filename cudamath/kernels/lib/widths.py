"""How many elements one memory access may take."""

from __future__ import annotations

import numpy as np

from ..compiler.lazy_numba import SIMULATOR


def wide(dtype: np.dtype) -> np.dtype:
    """The NumPy dtype of what is computed from this one: float32 for float16 and bfloat16,
    otherwise itself."""
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def vector_width(columns: int, *layouts) -> int:
    """Elements a 16-byte access moves, or 1 where rows of `columns` elements are not all 16-byte
    aligned.

    The widest element decides; narrower ones move fewer than 16 bytes at once. The simulator has no
    vectors.
    """
    if SIMULATOR:
        return 1
    width = 16 // max(layout.itemsize for layout in layouts)
    return width if columns % width == 0 and all(layout.aligned for layout in layouts) else 1
