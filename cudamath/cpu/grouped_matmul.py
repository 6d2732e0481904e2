"""Products of groups of rows on the CPU: one product per group."""

import numpy as np

from .matmul import matmul


def bounds(ends: np.ndarray, rows: int) -> list[tuple[int, int]]:
    """(first row, row behind the last) of each group; IndexError."""
    after = [int(end) for end in ends]
    before = [0, *after][: len(after)]
    for group, (start, end) in enumerate(zip(before, after, strict=True)):
        if not start <= end <= rows:
            raise IndexError(
                f"grouped_matmul: group {group} ends at row {end}, which is outside {start} .. "
                f"{rows}"
            )
    return list(zip(before, after, strict=True))


def grouped_matmul(x: np.ndarray, weight: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """x (rows, in), weight (groups, in, out), ends (groups,) -> (rows, out)."""
    out = np.zeros((x.shape[0], weight.shape[2]), x.dtype)
    for group, (start, end) in enumerate(bounds(ends, x.shape[0])):
        out[start:end] = matmul(x[start:end], weight[group])
    return out


def grouped_outer(x: np.ndarray, y: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """x (rows, in), y (rows, out), ends (groups,) -> (groups, in, out): x^T y of each group."""
    out = np.zeros((len(ends), x.shape[1], y.shape[1]), x.dtype)
    for group, (start, end) in enumerate(bounds(ends, x.shape[0])):
        out[group] = matmul(x[start:end].T, y[start:end])
    return out
