"""Selection by masks on the CPU. kernels/index/stream_compaction.py describes the functions; the
count of selected elements, which the kernels take, is not needed here.
"""

import numpy as np


def count_true(x):
    return np.array([np.count_nonzero(x)])


def count_new(x, *, equal_nan):
    return np.array([np.count_nonzero(_new(x, equal_nan))])


def nonzero(x, *, capacity, rows):
    """A tuple of coordinates; an array of them if rows."""
    x = x if x.ndim else x.reshape(1)
    return np.argwhere(x) if rows else np.nonzero(x)


def chosen(mask, x, *, capacity):
    return x[mask]


def distinct(x, *, capacity, equal_nan):
    return x[_new(x, equal_nan)]


def runs(x, *, capacity, equal_nan):
    """The distinct elements of a sorted vector, how often each occurs, and how many they are."""
    begins = np.flatnonzero(_new(x, equal_nan)) if x.size else np.zeros(0, np.int64)
    return x[begins], np.diff(begins, append=x.size), np.array([begins.size])


def _new(x, equal_nan):
    """Which elements of a sorted vector are unlike the one before."""
    new = np.ones(x.size, np.bool_)
    new[1:] = x[1:] != x[:-1]
    if equal_nan and x.size and x[-1] != x[-1]:
        new[np.flatnonzero(x != x)[1:]] = False
    return new
