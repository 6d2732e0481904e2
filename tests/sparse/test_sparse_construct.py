"""Constructors of sparse arrays beside SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sparse_arrays import agree, coordinates, dense, ours

import cudamath as cm

S = cm.sparse
quickly = settings(max_examples=40, deadline=None)


@quickly
@given(st.integers(0, 5), st.integers(0, 5), st.integers(-5, 5))
def test_identities(m, n, k):
    assume(-m <= k <= min(m, n))
    np.testing.assert_array_equal(dense(S.eye_array(m, n, k=k)), np.eye(m, n, k))
    for format in ("csr", "csc", "coo"):
        got = S.eye_array(m, k=k, dtype=int, format=format)
        assert got.format == format and got.dtype == int
        np.testing.assert_array_equal(dense(got), np.eye(m, k=k))
    np.testing.assert_array_equal(dense(S.eye(m, n, k)), np.eye(m, n, k))
    agree(S.identity(m, "float32", "csr"), sp.identity(m, "float32"))
    assert S.isspmatrix(S.identity(m)) and not S.isspmatrix(S.eye_array(m))


def test_diagonals():
    lines = [np.array([1.0, 2, 3]), np.array([4.0, 5]), np.array([6.0])]
    agree(S.diags_array(lines, offsets=[0, 1, -2]), sp.diags_array(lines, offsets=[0, 1, -2]))
    agree(S.diags_array(lines[0], offsets=2), sp.diags_array(lines[0], offsets=2))
    agree(
        S.diags_array([-1.0, 2, -1], offsets=[-1, 0, 1], shape=(4, 5)),
        sp.diags_array([-1.0, 2, -1], offsets=[-1, 0, 1], shape=(4, 5)),
    )
    agree(S.diags(lines, [0, 1, -2]), sp.diags(lines, [0, 1, -2]))
    agree(S.diags([lines[0]], [1]), sp.diags([lines[0]], [1]))
    agree(S.diags(lines[:1], [1], (3, 3)), sp.diags(lines[:1], [1], (3, 3)))  # one too many
    data = np.arange(1, 9).reshape(2, 4)
    agree(S.spdiags(data, [0, -1], 4, 4), sp.spdiags(data, [0, -1], 4, 4))
    with pytest.raises(ValueError, match=r"^diags_array: diagonal 1 of shape \(4, 4\) has 3"):
        S.diags_array([[1.0, 2]], offsets=[1], shape=(4, 4))
    with pytest.raises(ValueError, match="^diags_array: wants each offset once"):
        S.diags_array([1.0, 2.0], offsets=[0, 0], shape=(3, 3))


@quickly
@given(st.data())
def test_of_other_arrays(data):
    x, y = data.draw(coordinates(dtype=np.float64)), data.draw(coordinates(dtype=np.float64))
    same_rows = data.draw(coordinates(shape=(x.shape[0], 3), dtype=np.float64))
    same_columns = data.draw(coordinates(shape=(2, x.shape[1]), dtype=np.float64))
    a, b = ours(x, "csr"), ours(y, "coo")
    agree(S.kron(a, b), sp.kron(x, y))
    agree(S.hstack([a, ours(same_rows)]), sp.hstack([x, same_rows]))
    agree(S.vstack([a, same_columns.toarray()], format="csr"), sp.vstack([x, same_columns]))
    agree(S.block_diag([a, b, a]), sp.block_diag([x, y, x]))
    agree(
        S.block_array([[a, ours(same_rows)], [ours(same_columns), None]]),
        sp.block_array([[x, same_rows], [same_columns, None]]),
    )
    agree(S.bmat([[a, None], [None, b]]), sp.bmat([[x, None], [None, y]]))
    for k in (-2, 0, 1):
        agree(S.tril(a, k), sp.tril(x, k))
        agree(S.triu(a, k, format="csc"), sp.triu(x, k))
    for got, expected in zip(S.find(a), sp.find(x.tocsr()), strict=True):
        np.testing.assert_array_equal(dense(got), expected)
    agree(S.permute_dims(a, (1, 0)), x.T)
    agree(S.swapaxes(a, 0, -1), x.T)


def test_kronecker_sum():
    a, b = np.array([[1.0, 2], [0, 3]]), np.array([[0.0, 1, 0], [2, 0, 0], [0, 0, 5]])
    agree(S.kronsum(S.csr_array(a), S.csr_array(b)), sp.kronsum(sp.csr_array(a), sp.csr_array(b)))
    with pytest.raises(ValueError, match="^kronsum: wants square"):
        S.kronsum(S.csr_array(a), S.csr_array((2, 3)))


def test_vectors():
    v = S.coo_array([1.0, 0, 2])
    agree(S.expand_dims(v, axis=0), sp.coo_array([[1.0, 0, 2]]))
    agree(S.expand_dims(v, axis=1), sp.coo_array([[1.0], [0], [2]]))
    agree(S.hstack([v, v]), sp.coo_array([[1.0, 0, 2, 1, 0, 2]]))
    assert v.sum() == 3 and v.max() == 2 and v.argmax() == 2 and v.shape == (3,)
    agree(v + v, sp.coo_array([2.0, 0, 4]))
    agree(v * v, sp.coo_array([1.0, 0, 4]))
    agree(S.eye_array(3, format="csr") @ v, sp.coo_array([1.0, 0, 2]))


@pytest.mark.parametrize("density", [0.0, 0.01, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int16])
def test_random(density, dtype):
    a = S.random_array((30, 40), density=density, dtype=dtype, rng=4)
    assert a.nnz == round(1200 * density) and a.dtype == dtype
    positions = set(zip(a.row.tolist(), a.col.tolist(), strict=True))
    assert len(positions) == a.nnz
    again = S.random_array((30, 40), density=density, dtype=dtype, rng=4)
    assert (a.toarray() == again.toarray()).all()
    ones = S.random_array((30, 40), density=density, rng=1, data_sampler=lambda size: np.ones(size))
    assert ones.sum() == ones.nnz


def test_random_matrices_and_large_shapes():
    assert S.random(30, 40, density=0.1, rng=1, data_rvs=np.ones).sum() == 120
    a = S.rand(100_000, 100_000, density=1e-7, format="csr", rng=2)
    assert a.nnz == 1000 and S.isspmatrix_csr(a) and 0 <= float(a.min()) and float(a.max()) < 1
    assert len({*a.tocoo().row.tolist()}) > 900
    rows = a.tocoo().row.to_numpy()
    assert abs(rows.mean() / 100_000 - 0.5) < 0.05


def test_kinds_follow_the_operands():
    a, m = S.eye_array(2), S.eye(2)
    assert not S.isspmatrix(S.kron(a, m)) and S.isspmatrix(S.kron(m, m))
    assert not S.isspmatrix(S.hstack([m, a])) and S.isspmatrix(S.vstack([m, m]))
    assert S.isspmatrix(S.tril(m)) and not S.isspmatrix(S.tril(a))
    assert S.issparse(a) and S.issparse(m) and not S.issparse(cm.eye(2))
    tests = {
        "bsr": S.isspmatrix_bsr,
        "coo": S.isspmatrix_coo,
        "csc": S.isspmatrix_csc,
        "csr": S.isspmatrix_csr,
        "dia": S.isspmatrix_dia,
    }
    for format, test in tests.items():
        assert test(m.asformat(format)) and not test(a.asformat(format))
        assert [test(m.asformat(other)) for other in tests] == [o == format for o in tests]


def test_columns_are_assigned():
    """Of the positions of a column also values with a second axis, sparse or not, as in SciPy."""
    for kind in ("csr", "csc"):
        for values in (np.ones((3, 1)), sp.csr_array(np.ones((3, 1))), np.arange(3.0)):
            ours, theirs = (getattr(m, f"{kind}_array")(np.eye(4)) for m in (S, sp))
            given = S.csr_array(values) if sp.issparse(values) else values
            ours[1:, 0], theirs[1:, 0] = given, values
            agree(ours, theirs)


def test_integers_stay_for_none():
    for made in (S.diags, S.diags_array):
        assert made([[1, 2]], offsets=[0], dtype=None).dtype == np.int64
        assert made([[1, 2]], offsets=[0]).dtype == np.float64


def test_columns_of_matrices_keep_their_format():
    for kind in ("csr", "csc"):
        matrix = getattr(S, f"{kind}_matrix")(np.eye(3))
        assert matrix.getcol(1).format == kind and matrix.getcol(1).shape == (3, 1)


@pytest.mark.parametrize("name", ["random_array", "random", "rand"])
def test_the_source_of_randomness_has_two_names(name):
    function = getattr(cm.sparse, name)
    shape = ((6, 7),) if name == "random_array" else (6, 7)
    one, other = function(*shape, density=0.5, rng=3), function(*shape, density=0.5, random_state=3)
    np.testing.assert_array_equal(one.toarray().to_numpy(), other.toarray().to_numpy())
    with pytest.raises(TypeError, match=f"^{name}: wants one of rng and random_state, got both"):
        function(*shape, rng=3, random_state=3)
