"""Rows of a table by index, and the gradient that adds rows of equal index, in NumPy."""

import numpy as np

from .rows import widen


def embedding(indices, weight):
    """indices (n,) int, weight (rows, columns) -> (n, columns); IndexError."""
    wrong = (indices < 0) | (indices >= weight.shape[0])
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        raise IndexError(f"embedding: index {int(indices[where])} at flat position {where} is outside "
                         f"0 .. {weight.shape[0] - 1} ({weight.shape[0]} rows)")
    return weight[indices]


def embedding_grad(g, indices, *, rows):
    """g (n, columns), indices (n,) int -> (rows, columns): each row the sum of g's rows of that index, in order."""
    out = np.zeros((rows, g.shape[1]), g.dtype)
    if indices.size == 0:
        return out
    order = np.argsort(indices, kind="stable")
    in_order = indices[order]
    first = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    out[in_order[first]] = np.add.reduceat(widen(g)[order], first, axis=0).astype(g.dtype, copy=False)
    return out
