"""LU factors of sparse matrices, with partial pivoting: Gilbert and Peierls' method (1988), a
column
at a time, and orders that give bands. On the host, in float64 or complex128.

A column of L and U is the solution of a triangular system with the columns of L before it. Which
elements it has is found first, by walking the graph of L from the column's elements (depth first);
so the work is proportional to the multiplications.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..lib.llvm_compiled import loop

COLUMN, LOWS, UPS, SINGULAR = range(4)  # of `state`


def _reach(indices, begin, end, low_at, low_starts, pivots, marks, mark, stack, places, order):
    """Rows that the solution for a column with elements in rows indices[begin:end] may have, each
    before those that depend on it: order[top:]. Returns top."""
    top = pivots.size
    for e in range(begin, end):
        first = indices[e]
        if marks[first] == mark:
            continue
        depth = 0
        stack[0] = first
        marks[first] = mark
        places[0] = low_starts[pivots[first]] if pivots[first] >= 0 else 0
        while depth >= 0:
            row = stack[depth]
            column = pivots[row]
            place = places[depth]
            last = low_starts[column + 1] if column >= 0 else place
            while place < last and marks[low_at[place]] == mark:
                place += 1
            if place < last:
                other = low_at[place]
                marks[other] = mark
                places[depth] = place + 1
                depth += 1
                stack[depth] = other
                places[depth] = low_starts[pivots[other]] if pivots[other] >= 0 else 0
            else:
                top -= 1
                order[top] = row
                depth -= 1
    return top


def _columns(
    values, indices, indptr, columns, threshold, low, low_at, low_starts, up, up_at, up_starts,
    pivots, marks, stack, places, order, x, state,
):  # fmt: skip
    """Factors from column state[COLUMN] on, as far as there is room for them.

    values, indices (nnz,), indptr (n + 1,): A in CSC; columns (n,): their order. low, low_at, up,
    up_at: values of L, without its ones, and of U, and their rows: of A for L, of U for U.
    low_starts, up_starts (n + 1,). pivots (n,): the row of the factors that each row of A is, or
    -1. marks, stack, places, order (n,): scratch; x (n,): zeros. state (4,): the next column, the
    elements of L and U, whether A is singular.
    """
    n = columns.size
    k, lows, ups = state[0], state[1], state[2]
    while k < n and lows + n <= low.size and ups + n <= up.size:
        column = columns[k]
        begin, end = indptr[column], indptr[column + 1]
        top = _reach(
            indices, begin, end, low_at, low_starts, pivots, marks, k, stack, places, order
        )
        for e in range(begin, end):
            x[indices[e]] += values[e]
        for p in range(top, n):
            row = order[p]
            j = pivots[row]
            if j >= 0:
                value = x[row]
                up[ups] = value
                up_at[ups] = j
                ups += 1
                for e in range(low_starts[j], low_starts[j + 1]):
                    x[low_at[e]] -= low[e] * value
        largest = 0.0
        chosen = n
        for p in range(top, n):
            row = order[p]
            if pivots[row] < 0 and abs(x[row]) > largest:
                largest = abs(x[row])
                chosen = row
        if chosen == n:
            state[3] = 1
            return
        if pivots[column] < 0 and marks[column] == k and abs(x[column]) >= threshold * largest:
            chosen = column
        pivot = x[chosen]
        pivots[chosen] = k
        up[ups] = pivot
        up_at[ups] = k
        ups += 1
        for p in range(top, n):
            row = order[p]
            if pivots[row] < 0 and x[row] != 0:
                low[lows] = x[row] / pivot
                low_at[lows] = row
                lows += 1
            x[row] = 0
        k += 1
        low_starts[k] = lows
        up_starts[k] = ups
        state[0] = k
        state[1] = lows
        state[2] = ups


_compiled = loop(_columns)


def lu(values, indices, indptr, columns, threshold):
    """Factors of a matrix in CSC, its columns in this order -> (data, rows, starts) of L with its
    ones and of U, both in CSC, and the row of the factors that each row is; None: singular.

    Complex numbers are computed by Python itself: the compiled loops know real ones.
    """
    n = len(columns)
    run: Any = _columns if values.dtype.kind == "c" else _compiled
    starts = [np.zeros(n + 1, np.int64) for _ in range(2)]
    pivots, marks = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    scratch = [np.empty(n, np.int64) for _ in range(3)]
    x, state = np.zeros(n, values.dtype), np.zeros(4, np.int64)
    room = 4 * len(values) + 4 * n
    low, low_at = np.empty(room, values.dtype), np.empty(room, np.int64)
    up, up_at = np.empty(room, values.dtype), np.empty(room, np.int64)
    while True:
        run(
            values, indices, indptr, np.asarray(columns, np.int64), float(threshold),
            low, low_at, starts[0], up, up_at, starts[1], pivots, marks, *scratch, x, state,
        )  # fmt: skip
        if state[SINGULAR]:
            return None
        if state[COLUMN] == n:
            break
        low, low_at, up, up_at = (
            np.resize(each, 2 * len(each)) for each in (low, low_at, up, up_at)
        )
    each = np.arange(n)
    low, low_at, up, up_at = (
        low[: state[LOWS]],
        low_at[: state[LOWS]],
        up[: state[UPS]],
        up_at[: state[UPS]],
    )
    inside = np.concatenate([np.repeat(each, np.diff(starts[0])), each])
    where = np.concatenate([pivots[low_at], each])
    order = np.lexsort((where, inside))
    data = np.concatenate([low, np.ones(n, low.dtype)])[order]
    above = np.lexsort((up_at, np.repeat(each, np.diff(starts[1]))))
    return (
        (data, where[order], starts[0] + np.arange(n + 1)),
        (up[above], up_at[above], starts[1]),
        pivots,
    )


@loop
def _cuthill_mckee(indices, indptr, degrees, by_degree, order, seen):
    """order (n,): the rows of a symmetric pattern in the order of breadth-first walks that begin at
    rows of few elements and take those of few elements first. seen (n,): zeros."""
    count = 0
    for start in range(by_degree.size):
        first = by_degree[start]
        if seen[first] != 0:
            continue
        seen[first] = 1
        order[count] = first
        place = count
        count += 1
        while place < count:
            row = order[place]
            place += 1
            begin = count
            for e in range(indptr[row], indptr[row + 1]):
                other = indices[e]
                if seen[other] == 0:
                    seen[other] = 1
                    i = count
                    while i > begin and degrees[order[i - 1]] > degrees[other]:
                        order[i] = order[i - 1]
                        i -= 1
                    order[i] = other
                    count += 1


def band_order(indices, indptr, n):
    """Reverse Cuthill and McKee's order of the pattern of A + A^T, without its diagonal."""
    columns = np.repeat(np.arange(n), np.diff(indptr))
    off = indices != columns
    keys = np.unique(
        np.concatenate([columns[off] * n + indices[off], indices[off] * n + columns[off]])
    )
    starts = np.searchsorted(keys // max(n, 1), np.arange(n + 1))
    degrees = np.diff(starts)
    order = np.empty(n, np.int64)
    by_degree = np.argsort(degrees, kind="stable")
    _cuthill_mckee(keys % max(n, 1), starts, degrees, by_degree, order, np.zeros(n, np.int64))
    return order[::-1].copy()
