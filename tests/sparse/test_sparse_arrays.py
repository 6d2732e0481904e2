"""Sparse arrays beside SciPy's: construction, conversion, arithmetic, parts, reductions."""

from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_arrays import DTYPES, FORMATS, agree, coordinates, dense, ours

import cudamath as cm

quickly = settings(max_examples=60, deadline=None)


# -------------------- construction and conversion


@quickly
@given(coordinates(), st.sampled_from(FORMATS), st.sampled_from(FORMATS))
def test_conversions(x, first, second):
    a = ours(x, first)
    b = a.asformat(second)
    assert (a.format, b.format) == (first, second) and b.dtype == x.dtype
    agree(b, x.asformat(second))
    if "dia" not in (first, second):
        assert b.nnz == x.asformat(first).asformat(second).nnz
    back = b.get()
    assert back.format == second and type(back).__name__ == f"{second}_array"
    np.testing.assert_array_equal(back.toarray(), x.toarray())
    assert repr(b).splitlines()[0] == repr(back).splitlines()[0]


@quickly
@given(coordinates())
def test_text_is_scipys(x):
    for format in ("coo", "csr", "csc"):
        assert repr(ours(x, format)) == repr(x.asformat(format))
    assert str(ours(x, "csr")) == str(x.tocsr())


def test_shares_memory_with_scipy_on_the_cpu():
    x = sp.random_array((20, 30), density=0.2, rng=1).tocsr()
    with cm.device("cpu"):
        a = cm.sparse.csr_array(x)
    assert np.shares_memory(a.data.to_numpy(), x.data)
    assert np.shares_memory(a.indices.to_numpy(), x.indices)
    x.data[0] = 7
    assert float(a.data[0]) == 7
    assert not np.shares_memory(cm.sparse.csr_array(x, copy=True).data.to_numpy(), x.data)


@pytest.mark.parametrize("format", FORMATS)
def test_of_a_dense_array_and_a_shape(format):
    kind = getattr(cm.sparse, f"{format}_array")
    d = np.array([[0, 2.5, 0], [1, 0, -3]], np.float32)
    agree(kind(d), getattr(sp, f"{format}_array")(d))
    agree(kind(cm.array(d)), getattr(sp, f"{format}_array")(d))
    empty = kind((3, 4))
    assert empty.shape == (3, 4) and empty.nnz == 0 and empty.dtype == np.float64
    assert kind((3, 4), dtype=np.int8).dtype == np.int8
    agree(kind(d, dtype=np.complex64), getattr(sp, f"{format}_array")(d, dtype=np.complex64))


def test_of_parts():
    data, indices, indptr = [1.0, 2, 3], [0, 2, 1], [0, 2, 2, 3]
    for name in ("csr_array", "csc_array"):
        theirs = getattr(sp, name)((data, indices, indptr))
        a = getattr(cm.sparse, name)((data, indices, indptr))
        agree(a, theirs)
        assert a.indices.tolist() == indices and a.indptr.tolist() == indptr
        assert a.indices.dtype == np.int32
    blocks = np.arange(12.0).reshape(2, 2, 3)
    agree(
        cm.sparse.bsr_array((blocks, [1, 0], [0, 1, 2])), sp.bsr_array((blocks, [1, 0], [0, 1, 2]))
    )
    lines = np.arange(8.0).reshape(2, 4)
    agree(
        cm.sparse.dia_array((lines, [0, -1]), shape=(4, 4)),
        sp.dia_array((lines, [0, -1]), shape=(4, 4)),
    )


@quickly
@given(coordinates(shape=(4, 6)), st.sampled_from([(1, 1), (2, 3), (4, 2), (1, 6)]))
def test_blocks_of_any_size(x, size):
    a = ours(x, "csr").tobsr(blocksize=size)
    theirs = x.tocsr().tobsr(blocksize=size)
    assert a.blocksize == size and a.nnz == theirs.nnz
    agree(a, theirs)
    agree(a.T, theirs.T)
    v = np.arange(6.0)
    agree(a @ v, theirs @ v)


@quickly
@given(coordinates())
def test_duplicates_zeros_and_order(x):
    for format in ("coo", "csr", "csc"):
        a, b = ours(x, format), x.asformat(format)
        if format == "coo":
            b = x.copy()
        a, b = a.copy(), b.copy()
        a.sum_duplicates()
        b.sum_duplicates()
        assert a.has_canonical_format and a.nnz == b.nnz
        a.eliminate_zeros()
        b.eliminate_zeros()
        assert a.nnz == b.nnz
        agree(a, b)


def test_sorted_indices():
    parts = np.array([1.0, 2, 3, 4]), np.array([2, 0, 2, 1]), np.array([0, 2, 4])
    a, b = cm.sparse.csr_array(parts), sp.csr_array(parts)
    assert not a.has_sorted_indices
    agree(a.sorted_indices(), b.sorted_indices())
    a.sort_indices()
    assert a.has_sorted_indices and a.indices.tolist() == [0, 2, 1, 2]
    a.check_format()


def test_structure_is_read_only():
    """On the CPU: memory of a device cannot be protected."""
    with cm.device("cpu"):
        a = cm.sparse.csr_array([[1.0, 2.0]])
    with pytest.raises(ValueError, match="read-only"):
        a.indices[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        a.indptr[0] = 1
    a.data[0] = 5
    assert a.toarray().tolist() == [[5.0, 2.0]]


# -------------------- arithmetic


@quickly
@given(st.data())
def test_sparse_operands(data):
    x = data.draw(coordinates())
    y = data.draw(coordinates(shape=x.shape))
    first, second = (data.draw(st.sampled_from(FORMATS)) for _ in range(2))
    a, b = ours(x, first), ours(y, second)
    s, t = x.asformat(first), y.asformat(second)
    for function in (operator.add, operator.mul):
        agree(function(a, b), function(s, t))
    if np.result_type(x.dtype, y.dtype) != np.bool_:
        agree(a - b, s - t)
    if x.dtype.kind != "c" and y.dtype.kind != "c":
        agree(a.maximum(b), s.tocsr().maximum(t.tocsr()))
        agree(a.minimum(b), s.tocsr().minimum(t.tocsr()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for function in (operator.lt, operator.gt, operator.le, operator.ge):
                agree(function(a, b), function(s.tocsr(), t.tocsr()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(a == b, s.tocsr() == t.tocsr())
        agree(a != b, s.tocsr() != t.tocsr())


@quickly
@given(st.data())
def test_products_of_sparse_arrays(data):
    x = data.draw(coordinates())
    y = data.draw(coordinates(shape=(x.shape[1], data.draw(st.integers(0, 5)))))
    first, second = (data.draw(st.sampled_from(FORMATS[:4])) for _ in range(2))
    a, b = ours(x, first), ours(y, second)
    if np.result_type(x.dtype, y.dtype) == np.int8:
        return  # SciPy overflows as we do, but not in all formats
    agree(a @ b, x.asformat(first).tocsr() @ y.asformat(second).tocsr())


@quickly
@given(st.data())
def test_dense_operands(data):
    x = data.draw(coordinates(dtype=np.float64))
    format = data.draw(st.sampled_from(FORMATS))
    a, s = ours(x, format), x.asformat(format)
    rng = np.random.default_rng(1)
    m, n = x.shape
    d = rng.integers(1, 5, (m, n)).astype(np.float64)
    agree(a + d, s.toarray() + d)
    agree(d - a, d - s.toarray())
    agree(a - cm.array(d), s.toarray() - d)
    np.testing.assert_array_equal(dense(a * d), s.toarray() * d)
    np.testing.assert_allclose(dense(a / d), s.toarray() / d)
    v, w, k = (
        rng.integers(-3, 4, n) * 1.0,
        rng.integers(-3, 4, m) * 1.0,
        rng.integers(-3, 4, (n, 3)) * 1.0,
    )
    agree(a @ v, s @ v)
    agree(w @ a, w @ s)
    agree(cm.array(w) @ a, w @ s)
    agree(a @ k, s @ k)
    agree(k.T @ a.T, k.T @ s.T)
    agree(a.dot(v), s.dot(v))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", DTYPES)
def test_dtypes_of_products(dtype, other):
    rng = np.random.default_rng(3)
    x = sp.coo_array((rng.integers(0, 2, (4, 5))).astype(dtype)).tocsr()
    v = rng.integers(0, 2, 5).astype(other)
    agree(ours(x) @ v, x @ v)
    agree(ours(x) @ np.stack([v, v], 1), x @ np.stack([v, v], 1))


@pytest.mark.parametrize("format", FORMATS)
def test_numbers(format):
    d = np.array([[0, 2.5, 0], [-1, 0, 3]])
    a, s = getattr(cm.sparse, f"{format}_array")(d), getattr(sp, f"{format}_array")(d)
    for function in (
        lambda x: x * 3,
        lambda x: 2.5 * x,
        lambda x: x / 4,
        lambda x: -x,
        abs,
        lambda x: x**2,
        lambda x: x + 0,
        lambda x: x - 0,
        lambda x: x * np.float64(2),
        lambda x: x.power(3),
    ):
        agree(function(a), function(s))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (0, 1, -1, 2.5, np.nan):
            for function in (
                operator.eq,
                operator.ne,
                operator.lt,
                operator.gt,
                operator.le,
                operator.ge,
            ):
                agree(function(a, value), function(s.tocsr() if format != "csc" else s, value))
        for value in (-1, 0, 1):
            agree(a.maximum(value), s.maximum(value))
            agree(a.minimum(value), s.minimum(value))


@quickly
@given(st.data())
def test_multiply_broadcasts(data):
    x = data.draw(coordinates(dtype=np.float64))
    m, n = x.shape
    for shape in ((1, n), (m, 1), (1, 1)):
        y = data.draw(coordinates(shape=shape, dtype=np.float64))
        expected = x.toarray() * y.toarray()
        np.testing.assert_array_equal(dense(ours(x).multiply(ours(y))), expected)
        np.testing.assert_array_equal(dense(ours(y, "csr") * ours(x, "csc")), expected)
        np.testing.assert_array_equal(dense(ours(x) * y.toarray()), expected)
    row = np.arange(n) + 1.0
    np.testing.assert_array_equal(dense(ours(x) * row), x.toarray() * row)


UNARY = (
    "sin tan arcsin arctan sinh tanh arcsinh arctanh rint sign expm1 log1p deg2rad rad2deg floor "
    "ceil "
    "trunc sqrt conjugate"
).split()


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("format", ["csr", "coo", "dia"])
def test_unary(name, format):
    x = sp.coo_array(([0.5, 0.25, -0.0, 0.125], ([0, 1, 2, 0], [0, 2, 1, 0])), shape=(3, 4))
    a, s = ours(x, format), x.asformat(format)
    agree(getattr(a, name)(), getattr(s, name)(), exact=False)
    ufunc = getattr(np, name)
    agree(ufunc(a), getattr(s, name)(), exact=False)


def test_numpys_ufuncs():
    d = np.array([[0, 2.5], [-1, 0]])
    a = cm.sparse.csr_array(d)
    agree(np.add(a, a), sp.csr_array(2 * d))
    agree(np.multiply(d, a), sp.csr_array(d * d))
    agree(np.subtract(d, a), d - d)
    agree(np.matmul(d, a), d @ d)
    agree(np.maximum(a, -a), sp.csr_array(abs(d)))
    agree(np.absolute(a), sp.csr_array(abs(d)))
    with pytest.raises(TypeError):
        np.exp(a)


# -------------------- parts


@quickly
@given(st.data())
def test_slices(data):
    x = data.draw(coordinates(dtype=np.float64))
    format = data.draw(st.sampled_from(FORMATS[:3]))
    d, a = x.toarray(), ours(x, format)
    index = st.one_of(st.none(), st.integers(-9, 9))
    key = tuple(
        slice(data.draw(index), data.draw(index), data.draw(st.sampled_from([None, 1, 2, -1, -3])))
        for _ in range(2)
    )
    for part in (key, key[0], (..., key[1])):
        got = a[part]
        assert got.format == format
        np.testing.assert_array_equal(dense(got), d[part])


@quickly
@given(st.data())
def test_positions(data):
    x = data.draw(
        coordinates(shape=(5, 6), dtype=data.draw(st.sampled_from([np.float64, np.bool_])))
    )
    format = data.draw(st.sampled_from(["csr", "csc", "coo"]))
    d, a, s = x.toarray(), ours(x, format), x.tocsr()
    i, j = data.draw(st.integers(-5, 4)), data.draw(st.integers(-6, 5))
    assert a[i, j] == d[i, j]
    rows = data.draw(st.lists(st.integers(-5, 4), max_size=6))
    columns = data.draw(st.lists(st.integers(-6, 5), max_size=6))
    many = np.array(rows, int), np.array(columns, int)
    for part in (
        i,
        (i, slice(None)),
        (slice(1, 4), j),
        many[0],
        (many[0], slice(None, None, 2)),
        (slice(None), many[1]),
        (i, many[1]),
        (many[0], j),
        (many[0][:, None], many[1]),
        (np.ix_(*many)),
        np.arange(5) % 2 == 0,
        (slice(None), np.arange(6) > 2),
    ):
        got = a[part]
        np.testing.assert_array_equal(dense(got), d[part])
        assert cm.sparse.issparse(got)
    n = min(len(rows), len(columns))
    agree(a[many[0][:n], many[1][:n]], (x if format == "coo" else s)[many[0][:n], many[1][:n]])
    np.testing.assert_array_equal(dense(a[d != 0]), d[d != 0])


def test_new_axes_and_iteration():
    d = np.array([[0, 2.0, 0], [1, 0, 3]])
    a = cm.sparse.csr_array(d)
    assert a[0].shape == (3,) and a[0].format == "coo"
    np.testing.assert_array_equal(dense(a[0, None, :]), d[0][None])
    np.testing.assert_array_equal(dense(a[:, 1, None]), d[:, 1, None])
    for row, expected in zip(a, d, strict=True):
        np.testing.assert_array_equal(dense(row), expected)
    v = cm.sparse.coo_array(d[1])
    assert v[2] == 3 and v.shape == (3,) and float(v @ v) == 10
    np.testing.assert_array_equal(dense(v[1:]), d[1][1:])


@quickly
@given(st.data())
def test_assignments(data):
    x = data.draw(coordinates(shape=(5, 6), dtype=np.float64))
    format = data.draw(st.sampled_from(["csr", "csc"]))
    d, a = x.toarray(), ours(x, format)
    rows, columns = np.array([0, 3, 3]), np.array([1, 2, 5])
    for part, value in (
        ((2, 3), 7.0),
        ((slice(1, 3), slice(None)), 1.5),
        ((rows, columns), np.array([1.0, 2.0, 3.0])),
        ((4, slice(None, None, 2)), np.array([1.0, 0.0, -1.0])),
        ((slice(None), 0), 2.0),
        ((rows[:2, None], columns[None, :]), np.arange(6.0).reshape(2, 3)),
    ):
        d[part] = value
        a[part] = value
        np.testing.assert_array_equal(dense(a), d)
    a.setdiag(9)
    np.fill_diagonal(d, 9)
    np.testing.assert_array_equal(dense(a), d)
    a.setdiag([1, 2, 3], k=2)
    expected = sp.csr_array(d)
    expected.setdiag([1, 2, 3], k=2)
    np.testing.assert_array_equal(dense(a), expected.toarray())


@quickly
@given(coordinates(shape=(4, 6)), st.sampled_from(FORMATS))
def test_shapes(x, format):
    a, s = ours(x, format), x.asformat(format)
    agree(a.T, s.T)
    assert a.T.format == s.T.format
    for order in ("C", "F"):
        agree(a.reshape(3, 8, order=order), s.reshape((3, 8), order=order))
        agree(a.reshape((-1, 2), order=order), s.reshape((-1, 2), order=order))
    np.testing.assert_array_equal(dense(a.reshape(24)), x.toarray().reshape(24))
    for k in (-5, -1, 0, 2, 7):
        agree(a.diagonal(k), s.tocsr().diagonal(k))
    assert a.trace() == x.toarray().trace() or x.dtype == np.bool_
    got, expected = (sorted(zip(*(i.tolist() for i in x.nonzero()), strict=True)) for x in (a, s))
    assert got == expected


# -------------------- reductions


@quickly
@given(coordinates(), st.sampled_from(FORMATS), st.sampled_from([None, 0, 1, -1]))
def test_sums(x, format, axis):
    a, s = ours(x, format), x.asformat(format)
    got, expected = a.sum(axis=axis), s.sum(axis=axis)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(dense(got), expected)
    assert (
        dense(a.count_nonzero(axis=axis)).tolist() == np.count_nonzero(x.toarray(), axis).tolist()
    )
    if x.shape[0] and x.shape[1]:
        np.testing.assert_allclose(dense(a.mean(axis=axis)), s.mean(axis=axis), rtol=1e-6)


@quickly
@given(st.data())
def test_extremes(data):
    dtype = data.draw(st.sampled_from([np.float64, np.float32, np.int64, np.bool_]))
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    x = data.draw(coordinates(shape=shape, dtype=dtype))
    if x.dtype.kind == "f" and x.nnz and data.draw(st.booleans()):
        x.data[data.draw(st.integers(0, x.nnz - 1))] = np.nan
    d, a = x.toarray(), ours(x, data.draw(st.sampled_from(FORMATS)))
    for axis in (None, 0, 1):
        for name in ("max", "min", "nanmax", "nanmin"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = getattr(np, name)(d, axis)
            np.testing.assert_array_equal(dense(getattr(a, name)(axis=axis)), expected)
        for name in ("argmax", "argmin"):
            np.testing.assert_array_equal(
                dense(getattr(a, name)(axis=axis)), getattr(d, name)(axis)
            )


def test_explicit_extremes():
    x = sp.csr_array(([-3.0, -1, 4, 2], ([0, 0, 1, 1], [2, 0, 1, 3])), shape=(2, 5))
    for name in ("max", "min", "argmax", "argmin"):
        for axis in (None, 1):
            got = getattr(ours(x), name)(axis=axis, explicit=True)
            np.testing.assert_array_equal(
                dense(got), dense(getattr(x, name)(axis=axis, explicit=True))
            )


# -------------------- matrices, the older classes


def test_matrices():
    d = np.array([[0, 2.0, 0], [1, 0, 3], [0, 0, 1]])
    for format in FORMATS:
        kind, theirs = getattr(cm.sparse, f"{format}_matrix"), getattr(sp, f"{format}_matrix")
        a, s = kind(d), theirs(d)
        assert cm.sparse.isspmatrix(a) and repr(a).splitlines()[0] == repr(s).splitlines()[0]
        np.testing.assert_array_equal(dense(a * a), d @ d)
        np.testing.assert_array_equal(dense(a * d[0]), d @ d[0])
        np.testing.assert_array_equal(dense(d[0] * a), d[0] @ d)
        np.testing.assert_array_equal(dense(a * 2), d * 2)
        np.testing.assert_array_equal(dense(a**3), d @ d @ d)
        assert a.sum(axis=0).shape == (1, 3) and a.sum(axis=1).shape == (3, 1)
        for name in ("max", "min", "nanmax", "nanmin", "argmax", "argmin"):
            for axis in (0, 1, -1, None) if format != "dia" else ():  # where SciPy has them
                ours, exact = (getattr(each, name)(axis=axis) for each in (a, s))
                assert sp.issparse(exact) == cm.sparse.issparse(ours), name
                if sp.issparse(exact):
                    assert type(ours) is cm.sparse.coo_matrix
                    ours, exact = dense(ours), exact.toarray()
                np.testing.assert_array_equal(dense(ours), exact, strict=np.ndim(exact) > 0)
        assert type(a.tocsr()) is cm.sparse.csr_matrix and a.T.kinds is a.kinds
        assert a.getnnz() == s.getnnz() or format == "dia"
        if format not in ("dia", "bsr"):
            assert a.getnnz(0).tolist() == s.getnnz(0).tolist()
    a = cm.sparse.csr_matrix(d)
    assert a[0].shape == (1, 3) and a[:, 0].shape == (3, 1) and a.getrow(1).shape == (1, 3)
    assert a.getcol(1).shape == (3, 1) and a.getformat() == "csr" and a.getH().shape == (3, 3)
    assert cm.sparse.csr_matrix(d.astype(int)).asfptype().dtype == np.float64
    assert not cm.sparse.isspmatrix(cm.sparse.csr_array(d)) and cm.sparse.isspmatrix_csr(a)


@pytest.mark.parametrize("kind", ["f4", "f8", "c16", "i4", "?"])
def test_diagonals_of_canonical_arrays(kind):
    """They are searched for; every diagonal, beside SciPy's, and their gradient."""
    rng = np.random.default_rng(4)
    for m, n in ((5, 5), (4, 7), (7, 4), (1, 3), (3, 1)):
        d = ((rng.random((m, n)) < 0.4) * rng.integers(1, 9, (m, n))).astype(kind)
        for format in ("coo", "csr", "csc"):
            a = getattr(cm.sparse, f"{format}_array")(getattr(sp, f"{format}_array")(d))
            assert a.tocoo().has_canonical_format or format == "csc"
            for k in range(-m - 1, n + 2):
                got = a.tocoo().diagonal(k).to_numpy()
                np.testing.assert_array_equal(got, sp.csr_array(d).diagonal(k), strict=True)
    if kind == "f8":
        a = cm.sparse.csr_array(np.triu(rng.normal(size=(4, 4))))
        weights = np.arange(1.0, 5)
        slope = cm.grad(lambda x: (a._with_data(x).diagonal() * weights).sum())(a.data)
        on = a.tocoo().row == a.tocoo().col
        expected = np.where(on.to_numpy(), weights[a.tocoo().row.to_numpy()], 0)
        np.testing.assert_array_equal(slope.to_numpy(), expected)


def test_values_change_between_products(device):
    """Of a transposed array: what is kept of its structure holds no values."""
    x = sp.random_array((30, 20), density=0.2, rng=np.random.default_rng(1)).tocsr()
    a, v, b = cm.sparse.csr_array(x, copy=True), np.arange(30.0), np.ones((30, 3))
    for factor in (1, 2, 3, 4):
        a.data[...] = factor * x.data
        np.testing.assert_allclose((a.T @ v).to_numpy(), factor * (x.T @ v))
        np.testing.assert_allclose((a.T @ b).to_numpy(), factor * (x.T @ b))
        np.testing.assert_allclose((cm.asarray(v) @ a).to_numpy(), factor * (v @ x))
