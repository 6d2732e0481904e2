"""Triangular systems with sparse matrices on the CPU: substitution, row after row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ..lib.llvm_compiled import loop


@loop
def _substituted(data, indices, indptr, x, lower, unit, zeros):
    """x: (n, k), the right-hand side, which becomes the solution. zeros (1,): 0, which becomes the
    number of pivots that are 0."""
    n = x.shape[0]
    for step in range(n):
        row = step if lower else n - 1 - step
        pivot = data.dtype.type(1 if unit else 0)
        for e in range(indptr[row], indptr[row + 1]):
            other = indices[e]
            if other == row:
                if not unit:
                    pivot += data[e]
            elif (other < row) == lower:
                for column in range(x.shape[1]):
                    x[row, column] -= data[e] * x[other, column]
        if pivot == 0:
            zeros[0] += 1
            pivot = data.dtype.type(1)
        if not unit:
            for column in range(x.shape[1]):
                x[row, column] /= pivot


def _by_rows(data, indices, indptr, x, lower, unit, zeros):
    """The same for complex numbers, which the compiled loops do not know: a product a row."""
    n = len(x)
    for row in range(n) if lower else range(n - 1, -1, -1):
        here = slice(indptr[row], indptr[row + 1])
        others, values = indices[here], data[here]
        before = others < row if lower else others > row
        x[row] -= values[before] @ x[others[before]]
        if not unit:
            pivot = values[others == row].sum()
            zeros[0] += pivot == 0
            x[row] /= pivot or 1


def solve(data, indices, indptr, b, *, lower, unit):
    """data, indices (nnz,), indptr (n + 1,), b (n, k) -> (n, k); LinAlgError."""
    x, zeros = np.array(b, order="C"), np.zeros(1, np.int64)
    run: Any = _by_rows if x.dtype.kind == "c" else _substituted
    lines = [np.ascontiguousarray(each) for each in (data, indices, indptr)]
    run(*lines, x, lower, unit, zeros)
    if zeros[0]:
        raise LinAlgError(
            f"spsolve_triangular: A of shape {(len(indptr) - 1,) * 2} has a zero on its diagonal"
        )
    return x
