"""The rows of products with sparse arrays: the structure is fixed, values and dense operands are
the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from record_types import A, Row

#: A 4 x 6 array with an empty row, an empty column and rows of one and of four elements.
INDICES = np.array([0, 2, 3, 5, 1, 0, 5], np.int32)
INDPTR = np.array([0, 4, 4, 5, 7], np.int32)
ROWS = np.repeat(np.arange(4), np.diff(INDPTR))
STORED = A((7,))
#: Blocks of 2 x 3 in a 4 x 6 array.
BLOCK_INDICES, BLOCK_INDPTR = np.array([1, 0, 1], np.int32), np.array([0, 1, 3], np.int32)


#: A lower triangle with three elements on its diagonal.
LOWER_INDICES, LOWER_INDPTR = np.array([0, 1, 0, 1, 2], np.int32), np.array([0, 1, 2, 5], np.int32)


def _lower(data: np.ndarray) -> np.ndarray:
    out = np.zeros((3, 3), data.dtype)
    out[[0, 1, 2, 2, 2], LOWER_INDICES] = data
    return out


def _csr(xp: Any, data: Any) -> Any:
    return xp.sparse.csr_array((data, INDICES, INDPTR), shape=(4, 6))


def _dense(data: np.ndarray) -> np.ndarray:
    out = np.zeros((4, 6), data.dtype)
    out[ROWS, INDICES] = data
    return out


def _dense_blocks(data: np.ndarray) -> np.ndarray:
    out = np.zeros((2, 2, 2, 3), data.dtype)  # band, its row, block's column, its column
    for e, band in enumerate((0, 1, 1)):
        out[band, :, BLOCK_INDICES[e]] = data[e]
    return out.reshape(4, 6)


SPARSE_ROWS = [
    Row(
        "sparse.csr_array",
        lambda xp, data, b: _csr(xp, data) @ b,
        (STORED, A((6, 5))),
        lambda data, b: _dense(data) @ b,
        cards=("csr_product",),
    ),
    Row(
        "sparse.csr_array",
        lambda xp, data, b: _csr(xp, data) @ b,
        (STORED, A((6,))),
        lambda data, b: _dense(data) @ b,
        cards=("csr_product", "sampled_product"),
    ),
    Row(
        "sparse.csc_array",
        lambda xp, data, b: b @ _csr(xp, data).tocsc(),
        (STORED, A((4,))),
        lambda data, b: b @ _dense(data),
    ),
    Row(
        "sparse.sampled_product",
        lambda xp, a, b: xp.sparse.sampled_product(_csr(xp, np.ones(7)), a, b).data,
        (A((4, 3)), A((3, 6))),
        lambda a, b: (a @ b)[ROWS, INDICES],
        cards=("sampled_product", "csr_product"),
    ),
    Row(
        "sparse.bsr_array",
        lambda xp, data, b: (
            xp.sparse.bsr_array((data, BLOCK_INDICES, BLOCK_INDPTR), shape=(4, 6)) @ b
        ),
        (A((3, 2, 3)), A((6, 2))),
        lambda data, b: _dense_blocks(data) @ b,
        cards=("bsr_product",),
    ),
    Row(
        "sparse.linalg.spsolve_triangular",
        lambda xp, data, b: xp.sparse.linalg.spsolve_triangular(
            xp.sparse.csr_array((data, LOWER_INDICES, LOWER_INDPTR), shape=(3, 3)), b
        ),
        (A((5,), 1, 2), A((3, 2))),
        lambda data, b: np.linalg.solve(_lower(data), b),
        error=16,
        cards=("spsolve_triangular",),
    ),
    Row(
        "sparse.coo_array",
        lambda xp, data, b: (
            xp.sparse.coo_array((data, (ROWS[::-1].copy(), INDICES[::-1].copy())), shape=(4, 6)) @ b
        ),
        (STORED, A((6,))),
        lambda data, b: _dense(data[::-1]) @ b,
    ),
]
