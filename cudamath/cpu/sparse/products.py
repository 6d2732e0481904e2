"""Products with sparse matrices, and extremes of their rows, on the CPU: compiled loops over rows,
on all cores.

Integers are computed in 64 bits and cut to their width at the end, which gives the same bits;
16-bit floats in float32; complex numbers by their parts. So few loops are compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtypes import compute_dtype
from ..lib.llvm_compiled import loop, parallel
from ..lib.llvm_compiler import prange


@parallel
def _vector_product(data, indices, indptr, b, out):
    """data, indices (nnz,), indptr (rows + 1,), b (n,), out (rows,)."""
    for row in prange(out.shape[0]):
        total = out.dtype.type(0)
        for e in range(indptr[row], indptr[row + 1]):
            total += data[e] * b[indices[e]]
        out[row] = total


@parallel
def _matrix_product(data, indices, indptr, b, out):
    """data, indices (nnz,), indptr (rows + 1,), b (n, k), out (rows, k), zeros."""
    for row in prange(out.shape[0]):
        for e in range(indptr[row], indptr[row + 1]):
            value, other = data[e], indices[e]
            for column in range(out.shape[1]):
                out[row, column] += value * b[other, column]


@parallel
def _sampled(rows, columns, a, b, out):
    """rows, columns, out (nnz,), a (m, k), b (n, k)."""
    for e in prange(out.shape[0]):
        row, other = rows[e], columns[e]
        total = out.dtype.type(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[other, k]
        out[e] = total


@parallel
def _block_product(data, indices, indptr, b, out):
    """data (blocks, height, width), indices (blocks,), indptr (bands + 1,), b (n, k), out (bands
    height, k), zeros."""
    height, width = data.shape[1], data.shape[2]
    for band in prange(indptr.shape[0] - 1):
        for e in range(indptr[band], indptr[band + 1]):
            first = indices[e] * width
            for i in range(height):
                row = band * height + i
                for j in range(width):
                    value = data[e, i, j]
                    for column in range(out.shape[1]):
                        out[row, column] += value * b[first + j, column]


FEW = 1 << 18  # multiplications that one core has done before others have begun


def _run(loops: Any, work: int, *arguments: np.ndarray) -> None:
    """A loop, on as many cores as so many multiplications are worth."""
    (loops if work >= FEW else loops.alone)(*arguments)


def _wide(x: np.ndarray) -> np.ndarray:
    """In the dtype of the loops, in C order."""
    dtype = np.int64 if x.dtype.kind in "biu" else compute_dtype(x.dtype)
    return np.ascontiguousarray(x, dtype)


def _parts(x: np.ndarray, axis: int) -> np.ndarray:
    """The real parts of complex numbers, then the imaginary ones, along an axis."""
    return np.concatenate([x.real, x.imag], axis=axis)


def _times(loops: Any, data: np.ndarray, structure: tuple, b: np.ndarray, rows: int) -> np.ndarray:
    """The matrix of `data` times b (n, k)."""
    if b.dtype.kind == "c":
        k = b.shape[1]
        both = _parts(b, 1)
        by_real, by_imag = (
            _times(loops, np.ascontiguousarray(x), structure, both, rows)
            for x in (data.real, data.imag)
        )
        out = np.empty((rows, k), b.dtype)
        out.real = by_real[:, :k] - by_imag[:, k:]
        out.imag = by_real[:, k:] + by_imag[:, :k]
        return out
    values, columns = _wide(data), _wide(b)
    out = np.zeros((rows, b.shape[1]), columns.dtype)
    if out.size and data.size:
        if loops is _matrix_product and b.shape[1] == 1:
            line = columns.reshape(-1), out.reshape(-1)
            _run(_vector_product, data.size, values, *structure, *line)
        else:
            _run(loops, data.size * b.shape[1], values, *structure, columns, out)
    return out.astype(b.dtype, copy=False)


def csr_product(
    data,
    indices,
    indptr,
    b,
    _starts=None,
    _order=None,
    _rows=None,
    _row_starts=None,
    places=None,
    *,
    alike=False,
):
    """data, indices (nnz,), indptr (rows + 1,), b (n, k) -> (rows, k); places (nnz,): where the
    values lie in `data`, if not in their order."""
    data = data if places is None else data[places]
    return _times(_matrix_product, data, _lines(indices, indptr), b, len(indptr) - 1)


def bsr_product(data, indices, indptr, b):
    """data (blocks, height, width), indices (blocks,), indptr (bands + 1,), b (n, k) -> (bands
    height, k)."""
    rows = (len(indptr) - 1) * data.shape[1]
    return _times(_block_product, data, _lines(indices, indptr), b, rows)


def sampled_product(rows, columns, _indptr, a, b):
    """rows, columns (nnz,), a (m, k), b (n, k) -> (nnz,)."""
    if a.dtype.kind == "c":
        out = np.empty(rows.shape, a.dtype)
        other = np.concatenate([b.real, -b.imag], axis=1)
        crossed = np.concatenate([b.imag, b.real], axis=1)
        out.real = sampled_product(rows, columns, _indptr, _parts(a, 1), other)
        out.imag = sampled_product(rows, columns, _indptr, _parts(a, 1), crossed)
        return out
    left, right = _wide(a), _wide(b)
    out = np.zeros(rows.shape, left.dtype)
    if out.size:
        _run(_sampled, out.size * a.shape[1], *_lines(rows, columns), left, right, out)
    return out.astype(a.dtype, copy=False)


def _lines(*arrays: np.ndarray) -> tuple[Any, ...]:
    """Without gaps."""
    return tuple([np.ascontiguousarray(x) for x in arrays])


@parallel
def _row_extremes(data, indptr, out, largest, skips):
    """data (nnz,), indptr (rows + 1,), out (rows,); largest, skips: 0 or 1."""
    for row in prange(out.shape[0]):
        best, place = data.dtype.type(0), -1
        for e in range(indptr[row], indptr[row + 1]):
            value = data[e]
            wins = 1 - largest
            if place < 0 or (value != value and best != best):
                wins = 1
            elif value != value:
                wins = 1 - skips
            elif best != best:
                wins = skips
            elif value >= best:
                wins = largest
            if value == best and place >= 0:
                wins = largest
            if wins == 1:
                best, place = value, e
        out[row] = place


def row_extremes(data: np.ndarray, indptr: np.ndarray, *, largest: bool, skips: bool) -> np.ndarray:
    """The place of each row's extreme stored element, -1 where it has none; see
    kernels/sparse/row_extremes.py."""
    kind = data.dtype.kind
    wide = np.uint64 if kind == "u" else np.int64 if kind in "bi" else compute_dtype(data.dtype)
    out = np.empty(indptr.size - 1, np.int64)
    _row_extremes(data.astype(wide, copy=False), indptr, out, int(largest), int(skips))
    return out


@parallel
def _row_diagonal(data, indices, indptr, out, first, k):
    """data, indices (nnz,), indptr (rows + 1,), out (count,)."""
    for i in prange(out.shape[0]):
        total = data.dtype.type(0)
        for e in range(indptr[first + i], indptr[first + i + 1]):
            if indices[e] == first + i + k:
                total += data[e]
        out[i] = total


def row_diagonal(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, *, k: int, count: int
) -> np.ndarray:
    """The elements (i, i + k) of a matrix in CSR; see kernels/sparse/row_diagonal.py."""
    if data.dtype.kind == "c":
        out = np.empty(count, data.dtype)
        out.real = row_diagonal(data.real, indices, indptr, k=k, count=count)
        out.imag = row_diagonal(data.imag, indices, indptr, k=k, count=count)
        return out
    wide = _wide(data)
    out = np.empty(count, wide.dtype)
    _row_diagonal(*_lines(wide, indices, indptr), out, max(-k, 0), k)
    return out.astype(data.dtype, copy=False)


def combined_rows(
    a: np.ndarray,
    a_columns: np.ndarray,
    a_starts: np.ndarray,
    b: np.ndarray,
    b_columns: np.ndarray,
    b_starts: np.ndarray,
    *,
    function: str,
    both: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, values and starts of rows of a function of two matrices, without its zeros; see
    kernels/sparse/combined_rows.py."""
    rows = a_starts.size - 1
    width = 1 + max([int(x.max()) for x in (a_columns, b_columns) if x.size], default=0)
    keys = [
        np.repeat(np.arange(rows), np.diff(starts)) * width + columns
        for starts, columns in ((a_starts, a_columns), (b_starts, b_columns))
    ]
    together = np.concatenate(keys)
    order = np.argsort(together, kind="stable")  # two ascending lists: merged in linear time
    together = together[order]
    new = np.ones(together.size, bool)
    new[1:] = together[1:] != together[:-1]
    places = np.empty(order.size, np.int64)
    places[order] = np.cumsum(new) - 1
    together = together[new]
    numbers = []
    there = np.zeros(together.size, np.int8)
    for values, own in zip((a, b), np.split(places, [a.size]), strict=True):
        whole = np.zeros(together.size, values.dtype)
        whole[own] = values
        there[own] += 1
        numbers.append(whole)
    with np.errstate(all="ignore"):
        out = getattr(np, function)(*numbers)
    kept = np.flatnonzero((out != 0) & (there == 2) if both else out != 0)
    together, out = together[kept], out[kept]
    least = np.int32 if a.size + b.size < 1 << 31 else np.int64
    index = np.result_type(least, a_columns.dtype, b_columns.dtype)
    ends = np.searchsorted(together, np.arange(rows + 1) * width)
    return (together % width).astype(index), out, ends.astype(index)


# -------------------- products of two sparse matrices


def product_counts(indices: np.ndarray, starts: np.ndarray, b_starts: np.ndarray) -> np.ndarray:
    """How many products each row has; see kernels/sparse/sparse_product.py."""
    ends = np.cumsum(np.concatenate([[0], np.diff(b_starts)[indices]]))
    return np.diff(ends[starts])


@loop
def _product_lengths(indices, starts, b_columns, b_starts, seen, out):
    """seen: (columns,), -1; out: (rows + 1,), zeros."""
    for row in range(out.shape[0] - 1):
        count = 0
        for e in range(starts[row], starts[row + 1]):
            met = indices[e]
            for k in range(b_starts[met], b_starts[met + 1]):
                column = b_columns[k]
                if seen[column] != row:
                    seen[column] = row
                    count += 1
        out[row + 1] = count


def product_lengths(
    indices: np.ndarray,
    starts: np.ndarray,
    b_columns: np.ndarray,
    b_starts: np.ndarray,
    *_rows: Any,
    width: int,
    most: int,
) -> np.ndarray:
    """0, and how many columns each row of the product has."""
    out = np.zeros(starts.size, np.int64)
    seen = np.full(width, -1, np.int64)
    _product_lengths(*_lines(indices, starts, b_columns, b_starts), seen, out)
    return out


@loop
def _product_rows(a, indices, starts, b, b_columns, b_starts, seen, columns, out):
    """seen: (columns,), -1: where a column's sum lies; columns, out: (stored,), zeros."""
    first, count = 0, 0
    for row in range(starts.shape[0] - 1):
        first = count
        for e in range(starts[row], starts[row + 1]):
            met, factor = indices[e], a[e]
            for k in range(b_starts[met], b_starts[met + 1]):
                column = b_columns[k]
                place = seen[column]
                if place < first:
                    place = count
                    seen[column] = place
                    columns[place] = column
                    count += 1
                out[place] += factor * b[k]


def product_rows(
    a: np.ndarray,
    indices: np.ndarray,
    starts: np.ndarray,
    b: np.ndarray,
    b_columns: np.ndarray,
    b_starts: np.ndarray,
    out_starts: np.ndarray,
    *_rows: Any,
    width: int,
    stored: int,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of the product of two matrices of one dtype."""
    structure = _lines(indices, starts), _lines(b_columns, b_starts)
    columns = np.zeros(stored, np.int64)

    def sums(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = _wide(x), _wide(y)
        found = np.zeros(stored, x.dtype)
        seen = np.full(width, -1, np.int64)
        _product_rows(x, *structure[0], y, *structure[1], seen, columns, found)
        return found

    if a.dtype.kind == "c":
        values = np.empty(stored, a.dtype)
        values.real = sums(a.real, b.real) - sums(a.imag, b.imag)
        values.imag = sums(a.real, b.imag) + sums(a.imag, b.real)
    else:
        values = sums(a, b).astype(a.dtype)
    rows = np.repeat(np.arange(out_starts.size - 1), np.diff(out_starts))
    order = np.argsort(rows * width + columns)
    return columns[order].astype(np.int32), values[order]
