"""Counting into bins in NumPy."""

import numpy as np

from .sort import comparable


def bincount(x, *, bins):
    """How often each of 0 ... bins - 1 occurs."""
    return np.bincount(x.ravel().astype(np.int64, copy=False), minlength=bins)


def bin_sums(weights, x, *, bins):
    """The sums of the weights where x is 0 ... bins - 1, taken in float64."""
    sums = np.bincount(x.astype(np.int64, copy=False), weights.astype(np.float64, copy=False), bins)
    return sums.astype(weights.dtype, copy=False)


def histogram(x, edges, *, even):
    """How many numbers lie in each bin; the last one includes its upper edge."""
    edges = comparable(edges)
    if even and edges.size > 2 and edges[0] < edges[-1]:
        counts, bins = np.histogram(
            comparable(x).astype(edges.dtype, copy=False), edges.size - 1, (edges[0], edges[-1])
        )
        if np.array_equal(bins, edges):  # those between numbers that were no float32 are others
            return counts
    return np.histogram(x.view(np.uint8) if x.dtype == np.bool_ else comparable(x), edges)[0]


def in_range(x, *, bins):
    """Counts between the smallest and the largest number, the edges, and 1 if the range is not
    finite or has not so many numbers, else 0."""
    x = x.view(np.uint8) if x.dtype == np.bool_ else x
    try:
        return *np.histogram(x, bins, (x.min(), x.max())), np.int64(0)
    except ValueError:
        return (
            np.zeros(bins, np.int64),
            np.zeros(bins + 1, np.result_type(x.dtype, np.float32)),
            np.int64(1),
        )


def between(x, *, bins, edge, scalars):
    """Counts between two numbers, and the edges, of this dtype."""
    first, last = scalars
    return np.histogram(x.astype(edge, copy=False), bins, (float(first), float(last)))
