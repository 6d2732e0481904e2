"""Products of sparse and dense arrays: cards with gradients with respect to stored values and dense
operands.

The structure of a matrix are arrays of integers; they have no gradient. Each card's gradients are
products of these same kinds, so there are gradients of any order:

    y = A b       dA[e] = sum over k of g[row(e), k] conj(b[column(e), k])      sampled_product
                  db = A^H g                                                    csr_product
    x = A^-1 b    db = A^-H g, dA[e] = -sum over k of db[row(e), k] conj(x[column(e), k])
    s[e] = sum over k of a[rows[e], k] b[columns[e], k]
                  da, db: the matrix of the g[e] times b, and its transpose times a
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import result_type
from ..kernels.compiler.decorators import WARP
from ..kernels.sparse.problem import are_alike, items_of_shares, lanes_of_rows
from ..ops.creation import zeros
from ..ops.elementwise import (
    conj_or_same,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    minimum,
    not_equal,
)
from ..ops.join import concatenate, stack
from ..ops.linalg.products import matmul
from ..ops.ranges import arange
from ..ops.search import searchsorted
from ..ops.shape import in_order, matrix_transpose, reshape
from ..ops.sort import argsort
from ..ops.where import where

Structure = tuple[ndarray, ndarray, ndarray]


def row_numbers(indptr: ndarray, stored: int) -> ndarray:
    """The row of each stored element, in the integers of `indptr`."""
    each = arange(stored, dtype=indptr.dtype, device=indptr.device)
    return (searchsorted(indptr, each, side="right") - 1).astype(indptr.dtype)


def row_starts(rows: ndarray, count: int) -> ndarray:
    """`indptr` of `count` rows from the ascending row numbers of the stored elements."""
    each = arange(count + 1, dtype=rows.dtype, device=rows.device)
    return searchsorted(rows, each).astype(rows.dtype)


def transposed(indices: ndarray, indptr: ndarray, count: int) -> Structure:
    """The structure of the transpose of a matrix with `count` columns: for each of its stored
    elements the place it had before, its index and the starts of the rows. Elements of a row keep
    their order."""
    order = argsort(indices, stable=True).astype(indptr.dtype)
    rows = row_numbers(indptr, indices.size)
    return order, rows[order], row_starts(indices[order], count)


def diagonal_of_rows(
    data: ndarray, indices: ndarray, indptr: ndarray, k: int, count: int
) -> ndarray:
    """The `count` elements (i, i + k) of a matrix in CSR; elements of one position are added."""
    if not (count and data.size):
        return zeros(count, dtype=data.dtype, device=data.device)
    if data.dtype.kind == "b":
        return not_equal(diagonal_of_rows(data.astype(np.int32), indices, indptr, k, count), 0)
    parts = [in_order("diagonal", x, "C") for x in (data, indices, indptr)]
    return _row_diagonal(*parts, k=k, count=count)


def _diagonal_grad(
    g: ndarray, _y: Any, _data: Any, indices: ndarray, indptr: ndarray, *, k: int, count: int
) -> tuple:
    rows = row_numbers(indptr, indices.size)
    place = (rows - max(-k, 0)).clip(0, count - 1)
    return (
        where(equal(indices - rows, k), g[place], zeros((), dtype=g.dtype, device=g.device)),
        None,
        None,
    )


_row_diagonal = Op(
    "row_diagonal",
    cpu="sparse.products.row_diagonal",
    cuda="sparse.row_diagonal.row_diagonal",
    vjp=_diagonal_grad,
)


def share_starts(indptr: ndarray, stored: int) -> ndarray:
    """How many rows end before each of the shares that a GPU's blocks take of a product: all stored
    elements and ends of rows in a line, cut into equal parts."""
    rows = indptr.size - 1
    wide = indptr.dtype if rows + stored <= np.iinfo(indptr.dtype).max else np.dtype(np.int64)
    ends = indptr[1:].astype(wide) + arange(rows, dtype=wide, device=indptr.device)
    items = items_of_shares(rows + stored)
    cuts = arange(-(-(rows + stored) // items) + 1, dtype=np.int64, device=indptr.device) * items
    return searchsorted(ends, minimum(cuts, rows + stored).astype(wide)).astype(indptr.dtype)


def rows_alike(indptr: ndarray, stored: int) -> bool:
    """Whether a product with a vector may give each row as many threads as every other (waits for
    the device)."""
    rows = indptr.size - 1
    if not stored:
        return False
    lanes = lanes_of_rows(rows, stored)
    together = WARP // lanes
    lengths = concatenate(
        [
            indptr[1:] - indptr[:-1],
            zeros(-rows % together, dtype=indptr.dtype, device=indptr.device),
        ]
    )
    longest = reshape(lengths, (-1, together)).max(axis=1)
    turns = -(-longest.astype(np.int64) // lanes)
    return are_alike(rows, stored, *stack([longest.max().astype(np.int64), turns.sum()]).tolist())


def _no_gradient(
    _g: Any,
    _y: Any,
    _a: Any,
    _b: Any,
    _c: Any,
    _d: Any,
    _e: Any,
    _f: Any,
    _h: Any,
    _i: Any,
    _j: Any,
    **_: Any,
) -> None:
    """Of integers."""


def _values_gradient(
    g: ndarray,
    _y: Any,
    _data: Any,
    indices: ndarray,
    indptr: ndarray,
    b: ndarray,
    _shares: Any,
    _order: Any,
    _rows: Any,
    _starts: Any,
    _places: Any,
    **_: Any,
) -> ndarray:
    return sampled_product(row_numbers(indptr, indices.size), indices, indptr, g, conj_or_same(b))


def _dense_gradient(
    g: ndarray,
    _y: Any,
    data: ndarray,
    indices: ndarray,
    indptr: ndarray,
    b: ndarray,
    _shares: Any,
    order: ndarray | None,
    rows: ndarray | None,
    starts: ndarray | None,
    _places: Any,
    **_: Any,
) -> ndarray:
    if order is None or rows is None or starts is None:
        order, rows, starts = transposed(indices, indptr, b.shape[0])
    return csr_product(conj_or_same(data)[order], rows, starts, g)


_csr_product = Op(
    "csr_product",
    cpu="sparse.products.csr_product",
    cuda="sparse.dispatch.csr_product",
    vjp=(
        _values_gradient,
        _no_gradient,
        _no_gradient,
        _dense_gradient,
        *[_no_gradient] * 5,
    ),
)


def csr_product(
    data: ndarray,
    indices: ndarray,
    indptr: ndarray,
    b: ndarray,
    shares: ndarray | None = None,
    transpose: Structure | None = None,
    alike: bool = False,
    places: ndarray | None = None,
) -> ndarray:
    """The matrix times b (n, k) -> (rows, k).

    shares: `share_starts`, where they are known; on a GPU each call finds them otherwise.
    transpose: the structure of the matrix's transpose, where it is known; the gradient with respect
    to b sorts for it otherwise.
    alike: `rows_alike`, where it is known.
    places: where each value lies in `data`, if not in the order of the elements.
    """
    data, b = in_order("matmul", data, "C"), in_order("matmul", b, "C")
    elsewhere = [x._node is not None or x._layout.device < CPU for x in (data, b)]
    if places is not None and any(elsewhere):
        data, places = data[places], None  # whose gradient is that of an index, and its batches
    turned = transpose or (None, None, None)
    return _csr_product(data, indices, indptr, b, shares, *turned, places, alike=alike)


@fast_path("data", "indices", "indptr", "b", "shares", "order", "rows", "starts", "places")
def dense_product(
    data: ndarray,
    indices: ndarray,
    indptr: ndarray,
    b: ndarray,
    shares: ndarray | None = None,
    order: ndarray | None = None,
    rows: ndarray | None = None,
    starts: ndarray | None = None,
    places: ndarray | None = None,
    *,
    alike: bool = False,
) -> ndarray:
    """The matrix times b (n,) or (n, k), in NumPy's dtype of both; of booleans whether any product
    is true. The rest as in `csr_product`, whose `transpose` is order, rows and starts."""
    dtype = result_type(data, b)
    wide = np.dtype(np.int64) if dtype.kind == "b" else dtype
    dense = b.astype(wide, copy=False)
    columns = reshape(dense, (-1, 1)) if b.ndim == 1 else dense
    transpose = None if order is None or rows is None or starts is None else (order, rows, starts)
    values = data.astype(wide, copy=False)
    out = csr_product(values, indices, indptr, columns, shares, transpose, alike, places)
    out = not_equal(out, 0) if dtype.kind == "b" else out
    return reshape(out, (indptr.size - 1,)) if b.ndim == 1 else out


def _no_sampled_gradient(_g: Any, _y: Any, _a: Any, _b: Any, _c: Any, _d: Any, _e: Any) -> None:
    """Of integers."""


def _left_gradient(
    g: ndarray, _y: Any, _rows: Any, columns: ndarray, indptr: ndarray, _a: Any, b: ndarray
) -> ndarray:
    return csr_product(g, columns, indptr, conj_or_same(b))


def _right_gradient(
    g: ndarray, _y: Any, _rows: Any, columns: ndarray, indptr: ndarray, a: ndarray, b: ndarray
) -> ndarray:
    order, rows, starts = transposed(columns, indptr, b.shape[0])
    return csr_product(g[order], rows, starts, conj_or_same(a))


_sampled_product = Op(
    "sampled_product",
    cpu="sparse.products.sampled_product",
    cuda="sparse.dispatch.sampled_product",
    vjp=(
        _no_sampled_gradient,
        _no_sampled_gradient,
        _no_sampled_gradient,
        _left_gradient,
        _right_gradient,
    ),
)


def sampled_product(
    rows: ndarray, columns: ndarray, indptr: ndarray, a: ndarray, b: ndarray
) -> ndarray:
    """The elements (rows[e], columns[e]) of a b^T, of a (m, k) and b (n, k); rows ascend, and
    `indptr` says where each begins."""
    return _sampled_product(
        rows,
        columns,
        indptr,
        in_order("sampled_product", a, "C"),
        in_order("sampled_product", b, "C"),
    )


def _no_block_gradient(_g: Any, _y: Any, _a: Any, _b: Any, _c: Any, _d: Any) -> None:
    """Of integers."""


def _blocks_gradient(
    g: ndarray, _y: Any, data: ndarray, indices: ndarray, indptr: ndarray, b: ndarray
) -> ndarray:
    height, width = data.shape[1:]
    bands = reshape(g, (-1, height, g.shape[1]))[row_numbers(indptr, indices.size)]
    others = reshape(conj_or_same(b), (-1, width, b.shape[1]))[indices]
    return matmul(bands, matrix_transpose(others))


def _dense_block_gradient(
    g: ndarray, _y: Any, data: ndarray, indices: ndarray, indptr: ndarray, b: ndarray
) -> ndarray:
    order, rows, starts = transposed(indices, indptr, b.shape[0] // data.shape[2])
    return bsr_product(matrix_transpose(conj_or_same(data)[order]), rows, starts, g)


_bsr_product = Op(
    "bsr_product",
    cpu="sparse.products.bsr_product",
    cuda="sparse.block_product.bsr_product",
    vjp=(_blocks_gradient, _no_block_gradient, _no_block_gradient, _dense_block_gradient),
)


def bsr_product(data: ndarray, indices: ndarray, indptr: ndarray, b: ndarray) -> ndarray:
    """The matrix of blocks (blocks, height, width) times b (n, k) -> (bands height, k)."""
    return _bsr_product(in_order("matmul", data, "C"), indices, indptr, in_order("matmul", b, "C"))


# -------------------- triangular systems


def _no_substitution_gradient(
    _g: Any, _y: Any, _a: Any, _b: Any, _c: Any, _d: Any, **_: Any
) -> None:
    """Of integers."""


def _substitution_values_gradient(
    g: ndarray,
    x: ndarray,
    data: ndarray,
    indices: ndarray,
    indptr: ndarray,
    _b: Any,
    *,
    lower: bool,
    unit: bool,
) -> ndarray:
    back = _back(g, data, indices, indptr, lower, unit)
    rows = row_numbers(indptr, indices.size)
    slope = -sampled_product(rows, indices, indptr, back, conj_or_same(x))
    compare = (less if unit else less_equal) if lower else (greater if unit else greater_equal)
    return where(compare(indices, rows), slope, zeros((), dtype=slope.dtype, device=slope.device))


def _substitution_gradient(
    g: ndarray,
    _x: Any,
    data: ndarray,
    indices: ndarray,
    indptr: ndarray,
    _b: Any,
    *,
    lower: bool,
    unit: bool,
) -> ndarray:
    return _back(g, data, indices, indptr, lower, unit)


def _back(
    g: ndarray, data: ndarray, indices: ndarray, indptr: ndarray, lower: bool, unit: bool
) -> ndarray:
    """The solution with the adjoint."""
    order, rows, starts = transposed(indices, indptr, g.shape[0])
    return triangular_solve(conj_or_same(data)[order], rows, starts, g, lower=not lower, unit=unit)


_triangular_solve = Op(
    "spsolve_triangular",
    cpu="sparse.triangular.solve",
    cuda="sparse.triangular.solve",
    vjp=(
        _substitution_values_gradient,
        _no_substitution_gradient,
        _no_substitution_gradient,
        _substitution_gradient,
    ),
)


def triangular_solve(
    data: ndarray, indices: ndarray, indptr: ndarray, b: ndarray, *, lower: bool, unit: bool
) -> ndarray:
    """x of A x = b (n, k), for one triangle of a matrix. unit: its diagonal is ones."""
    data, b = in_order("solve", data, "C"), in_order("solve", b, "C")
    return _triangular_solve(data, indices, indptr, b, lower=lower, unit=unit)
