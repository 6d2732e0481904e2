"""Convolution and correlation of vectors in NumPy."""

import numpy as np


def convolve(a, w, *, before, after, turned):
    """y[k] = sum over i of a[k - before + i] w[i], a being 0 outside; turned: of w backwards."""
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        wide = (x.astype(np.float32) for x in (a, w))
        return convolve(*wide, before=before, after=after, turned=turned).astype(a.dtype)
    full = np.convolve(
        a, w if turned else w[::-1]
    )  # k - before = its place less the weights but one
    first = w.size - 1 - before
    return np.ascontiguousarray(full[first : first + a.size + before + after - w.size + 1])
