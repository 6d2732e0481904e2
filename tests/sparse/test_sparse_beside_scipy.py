"""What the formats share with SciPy's beside arithmetic: attributes, copies, dtypes, the shapes of
parts of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sparse_arrays import FORMATS, agree, dense

import cudamath as cm

D = np.array(
    [[1.0, 0, 2, 0, 0, 3], [0, 0, 0, 4.26, 0, 0], [5, 0, -6.04, 0, 0, 0], [0, 7, 0, 0, 8, 9]]
)

ALIKE: dict[str, Callable[[Any], Any]] = {
    "T": lambda a: a.T,
    "real": lambda a: (a * (2 + 1j)).real,
    "imag": lambda a: (a * (2 + 1j)).imag,
    "conj": lambda a: (a * (2 + 1j)).conj(),
    "round": lambda a: round(a, 1),
    "0 + a": lambda a: 0 + a,
    "0 - a": lambda a: 0 - a,
    "dense - a": lambda a: np.ones(a.shape) - a,
    "a - dense": lambda a: a - np.ones(a.shape),
    "dense + a": lambda a: np.ones(a.shape) + a,
    "todense": lambda a: a.todense(),
    "as doubles": lambda a: a.astype(np.float32).astype(np.float64),
    "sum of float32": lambda a: a.sum(axis=0, dtype=np.float32),
    "mean of integers": lambda a: a.astype(int).mean(axis=1),
    "sum of bytes": lambda a: a.astype(np.uint8).sum(axis=1),
    "diagonal": lambda a: a.diagonal(1),
    "blocks": lambda a: a.tobsr((2, 3)),
    "other blocks": lambda a: a.tobsr((2, 3)).tobsr((4, 2)),
}


def at(format: str, kind: str = "array") -> tuple[Any, Any]:
    return (getattr(cm.sparse, f"{format}_{kind}")(D), getattr(sp, f"{format}_{kind}")(D))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ALIKE)
def test_alike(name, format):
    ours, theirs = map(ALIKE[name], at(format))
    agree(ours, theirs)


@pytest.mark.parametrize("format", FORMATS)
def test_truth_and_size(format):
    kind = getattr(cm.sparse, f"{format}_array")
    assert bool(kind(np.array([[2.0]]))) and not bool(kind((1, 1)))
    ours, theirs = at(format)
    assert ours.size == theirs.size and ours.nnz == theirs.nnz
    np.testing.assert_array_equal(dense(ours.mT), D.T)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", [None, np.float32, np.complex128, np.int8])
def test_an_empty_array_has_the_dtype_that_is_asked_for(format, dtype):
    made = getattr(cm.sparse, f"{format}_array")((4, 6), dtype=dtype)
    assert made.dtype == (cm.zeros(1).dtype if dtype is None else dtype) and made.nnz == 0
    assert made.shape == (4, 6) and not dense(made).any()
    random = cm.sparse.random_array((4, 6), density=0.5, format=format, dtype=dtype, rng=1)
    assert random.dtype == made.dtype and random.format == format


COPIES: dict[str, Callable[[Any, bool], Any]] = {
    **{f"to{f}": lambda a, copy, f=f: getattr(a, f"to{f}")(copy=copy) for f in FORMATS},
    "transposed": lambda a, copy: a.transpose(copy=copy),
    "axes in their order": lambda a, copy: a.transpose((0, 1), copy=copy),
    "made of it": lambda a, copy: type(a)(a, copy=copy),
    "asformat": lambda a, copy: a.asformat(a.format, copy=copy),
    "astype": lambda a, copy: a.astype(a.dtype, copy=copy),
}
#: What is the same elements in the same order need not copy, and does not.
FREE = "axes in their order", "made of it", "asformat", "astype"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", COPIES)
def test_copies_share_no_memory(name, format):
    """A copy shares nothing; without copy=True what need not move is shared."""
    given, _ = at(format)
    made = COPIES[name](given, True)
    made.data[...] = 99.0
    np.testing.assert_array_equal(dense(given), D)
    shared = COPIES[name](given, False)
    np.testing.assert_array_equal(dense(shared), D.T if name == "transposed" else D)
    if name in FREE or name == f"to{format}":
        shared.data[...] = 99.0
        assert (dense(given)[D != 0] == 99).all()


@pytest.mark.parametrize("format", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("theirs", [False, True])
def test_of_parts_and_of_scipys(format, copy, theirs):
    """NumPy's memory is the array's unless a copy is asked for."""
    _, given = at(format)
    parts = given.data, given.indices, given.indptr
    made = getattr(cm.sparse, f"{format}_array")(given if theirs else parts, given.shape, copy=copy)
    given.data[...] = 99.0
    expected = D if copy or cm.zeros(1).device != "cpu" else np.where(D != 0, 99, 0)
    if format != "bsr":
        np.testing.assert_array_equal(dense(made), expected)
    else:
        assert (dense(made)[D != 0] == expected[D != 0]).all()


KEYS: dict[str, Any] = {
    "row": 1,
    "row from the end": -1,
    "row and all": (2, slice(None)),
    "column": (slice(None), 2),
    "column after an ellipsis": (..., 2),
    "part of a row": (1, slice(1, 4)),
    "part of a column": (slice(1, 3), 3),
    "some of a row": (2, [0, 2, 5]),
    "some of a column": ([0, 3], 0),
    "rows": slice(1, 3),
    "some rows": [2, 0],
    "elements": ([0, 3], [2, 5]),
    "of a mask": D > 2,
    "a block": (slice(0, 2), slice(2, 6)),
    "an element": (2, 2),
}


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("key", KEYS)
def test_parts_of_matrices_keep_two_axes(key, format):
    """A row of a matrix is a matrix of one row, a column one of one column; of an array both have
    one axis."""
    for kind in ("matrix", "array"):
        ours, theirs = at(format, kind)
        ours, theirs = ours[KEYS[key]], theirs[KEYS[key]]
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(dense(ours), dense(theirs))
        if sp.issparse(theirs):
            assert isinstance(ours, cm.sparse.spmatrix) == (kind == "matrix")
            assert kind == "array" or ours.format == format


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_are_int64(format, name):
    """As of a dense array."""
    ours, _ = at(format)
    for axis in (0, 1):
        expected = getattr(D, name)(axis=axis)
        np.testing.assert_array_equal(dense(getattr(ours, name)(axis)), expected, strict=True)
        with_zeros = getattr(ours, name)(axis, explicit=True)
        filled = np.where(D != 0, D, -np.inf if name == "argmax" else np.inf)
        np.testing.assert_array_equal(
            dense(with_zeros), getattr(filled, name)(axis=axis), strict=True
        )


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("lines", [0, 1])
def test_diagonals_without_elements(shape, lines):
    made = cm.sparse.diags_array([[]] * lines, offsets=[0] * lines, shape=shape)
    assert made.shape == shape and made.nnz == 0 and made.data.shape == (lines, 0)


def test_zeros_and_duplicates_of_blocks():
    """In place, as SciPy's."""
    data = np.arange(16.0).reshape(4, 2, 2)
    data[1] = 0
    parts = data, np.array([1, 0, 1, 1]), np.array([0, 2, 4])
    ours, theirs = cm.sparse.bsr_array(parts, shape=(4, 4)), sp.bsr_array(parts, shape=(4, 4))
    for change in ("eliminate_zeros", "sum_duplicates"):
        getattr(ours, change)()
        getattr(theirs, change)()
        np.testing.assert_array_equal(dense(ours), theirs.toarray())
        np.testing.assert_array_equal(dense(ours.indptr), theirs.indptr)
        np.testing.assert_array_equal(dense(ours.data), theirs.data)
