"""Helpers of softmax, norms and losses on the CPU: widening of 16-bit floats, and accurate float32
sums.

NumPy's `sum` is pairwise only along a contiguous last axis. Along other axes, and in `einsum`, it
adds one element after the other. The sums here add short runs in the array's own precision and the
runs in float64. That has no measurable cost and keeps float32 results as accurate as pairwise sums.
"""

import numpy as np

RUN = 2048  # elements added in the array's own precision before float64 takes over


def widen(x: np.ndarray) -> np.ndarray:
    """x in the precision it is computed in: float16 and bfloat16 become float32, float32 and
    float64 stay."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def sum_outer(a: np.ndarray) -> np.ndarray:
    """(N, C, S) -> (C,) float64: sum over the first and the last axis."""
    return a.sum(axis=2).sum(axis=0, dtype=np.float64)


def dot_outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(N, C, S), (N, C, S) -> (C,) float64: sum of a * b over the first and the last axis, without
    a product array."""
    total = np.zeros(a.shape[:2], np.float64)
    for start in range(0, a.shape[2], RUN):
        run = slice(start, start + RUN)
        total += np.einsum("ncs,ncs->nc", a[:, :, run], b[:, :, run])
    return total.sum(axis=0)


def sum_rows(a: np.ndarray) -> np.ndarray:
    """(rows, columns) -> (columns,) float64: sum over the rows, runs of 64 rows at a time."""
    if a.shape[0] == 0:
        return np.zeros(a.shape[1], np.float64)
    return np.add.reduceat(a, np.arange(0, a.shape[0], 64), axis=0).sum(axis=0, dtype=np.float64)
