"""Rows of a table by index, and those of the identity, in NumPy. (The gradient is that of a gather:
index.py.)"""

import numpy as np


def _check(name, indices, count, what):
    wrong = (indices < 0) | (indices >= count)
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        raise IndexError(
            f"{name}: index {int(indices[where])} at flat position {where} is outside "
            f"0 .. {count - 1} ({count} {what})"
        )


def embedding(indices, weight, *, classes):
    """indices (n,) int below `classes` (None: rows), weight (rows, columns) -> (n, columns);
    IndexError."""
    _check(
        "embedding",
        indices,
        *((weight.shape[0], "rows") if classes is None else (classes, "classes")),
    )
    return weight[indices]


def one_hot(indices, *, classes, dtype):
    """indices (n,) int -> (n, classes); IndexError."""
    _check("one_hot", indices, classes, "classes")
    out = np.zeros((len(indices), classes), dtype)
    out[np.arange(len(indices)), indices] = 1
    return out
