"""Rows of a table by index, in NumPy. (The gradient is that of a gather: index.py.)"""

import numpy as np


def embedding(indices, weight):
    """indices (n,) int, weight (rows, columns) -> (n, columns); IndexError."""
    wrong = (indices < 0) | (indices >= weight.shape[0])
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        raise IndexError(f"embedding: index {int(indices[where])} at flat position {where} is outside "
                         f"0 .. {weight.shape[0] - 1} ({weight.shape[0]} rows)")
    return weight[indices]
