"""Arguments of sparse arrays at which SciPy's own tests look, beside SciPy's results."""

from __future__ import annotations

import operator
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import norm as norm_of_scipy

import cudamath as cm

B = np.arange(12.0).reshape(3, 4) * (np.arange(12).reshape(3, 4) % 3 > 0)
S = cm.sparse


@pytest.mark.parametrize("order", [None, "fro", 1, -1, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [None, (0, 1), (1, 0), (-2, -1), (-1, -2), (1, -2)])
def test_norms_of_axes_in_either_order(order, axis):
    ours = S.linalg.norm(S.csr_array(B), order, axis)
    assert np.isclose(float(ours), norm_of_scipy(sp.csr_array(B), order, axis), rtol=1e-14)


@pytest.mark.parametrize("name", ["csr_matrix", "csc_matrix", "coo_matrix"])
def test_matrices_of_vectors_are_rows(name):
    for x in (3.0, [1.0, 0.0, 2.0]):
        ours, theirs = getattr(S, name)(x), getattr(sp, name)(x)
        assert ours.shape == theirs.shape and (ours.toarray().to_numpy() == theirs.toarray()).all()


@pytest.mark.parametrize(
    "key",
    [
        (slice(None, 2), np.array(-1)),
        (slice(None), np.int8(1)),
        (slice(2, 3), 0),
        (2, slice(None)),
        (1, Ellipsis),
        ([1, 2], [3, 1]),
        ([1, 2], 3),
    ],
    ids=str,
)
def test_parts_of_matrices_keep_two_axes(key):
    ours, theirs = S.csr_matrix(B)[key], sp.csr_matrix(B)[key]
    theirs = theirs.toarray() if sp.issparse(theirs) else np.asarray(theirs)
    ours = ours.toarray() if S.issparse(ours) else ours
    assert ours.shape == theirs.shape and (np.asarray(ours.to_numpy()) == theirs).all()


def test_large_integers_keep_their_digits():
    values = [2**63 + 1, 1]
    for name in ("csr_array", "csc_array", "coo_array"):
        made = getattr(S, name)((values, ([0, 1], [0, 1])), dtype=np.uint64)
        assert made.toarray().tolist() == [[2**63 + 1, 0], [0, 1]]


def test_rows_are_assigned_as_numpys():
    A, dense = S.csr_array(B), B.copy()
    A[0, :] = S.csr_array(B[2:3])
    dense[0, :] = B[2:3]
    A[:, 1] = S.csr_array(B[:, 3:])
    dense[:, 1] = B[:, 3]
    A[1, 2] = np.array([[7.0]])
    dense[1, 2] = 7
    assert (A.toarray().to_numpy() == dense).all()


@pytest.mark.parametrize("name", ["csr_array", "csc_array", "coo_array", "bsr_array", "dia_array"])
def test_nothing_is_made_anew_without_need(name):
    A = getattr(S, name)(B)
    assert A.astype(A.dtype, copy=False) is A and A.astype(A.dtype) is not A
    assert A.reshape(A.shape) is A and A.reshape(A.shape, copy=True) is not A


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_every_protocol(protocol):
    A = S.csr_array(B)
    assert (pickle.loads(pickle.dumps(A, protocol)).toarray() == A.toarray()).all()


def test_complex_powers_are_scipys():
    ours, theirs = S.csr_array(B) ** (2 + 1j), sp.csr_array(B) ** (2 + 1j)
    assert np.allclose(ours.toarray().to_numpy(), theirs.toarray(), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.float32])
def test_asfptype_takes_the_smallest_dtype(dtype):
    B1 = B.astype(dtype)
    assert S.csr_matrix(B1).asfptype().dtype == sp.csr_matrix(B1).asfptype().dtype


def test_blocks_of_none_are_empty():
    for blocks in ([[None, None]], [[None, sp.coo_array((0, 0))], [sp.coo_array([[7]]), None]]):
        mine = [[None if x is None else S.coo_array(x) for x in row] for row in blocks]
        ours, theirs = S.block_array(mine), sp.block_array(blocks)
        assert ours.shape == theirs.shape and ours.toarray().tolist() == theirs.toarray().tolist()


def test_solvers_begin_at_the_preconditioned_right_side():
    A, M = np.diag([1.0, 2.0, 4.0]), np.diag([1.0, 0.5, 0.25])
    x, info = S.linalg.cg(S.csr_array(A), cm.ones(3), x0="Mb", M=S.csr_array(M), maxiter=0)
    assert x.tolist() == [1.0, 0.5, 0.25]


@pytest.mark.parametrize("solver", ["lsqr", "lsmr"])
def test_least_squares_of_one_equation(solver):
    x = getattr(S.linalg, solver)(cm.asarray([[1.0, 2.0]]), 3.0)[0]
    assert np.isclose(float(x[0] + 2 * x[1]), 3, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float32, np.float64, np.complex64])
def test_operators_have_the_dtype_of_their_values(dtype):
    scale = np.array([2], dtype)
    assert S.linalg.LinearOperator((2, 2), lambda v: v * cm.asarray(scale)).dtype == dtype
    assert S.linalg.LinearOperator((2, 2), lambda v: 300 * v).dtype == np.int64


class Other:
    """An operand of the user's, which knows what to do with a sparse array."""

    def __radd__(self, x):
        return "radd", x.shape

    def __rsub__(self, x):
        return "rsub", x.shape

    def __rmul__(self, x):
        return "rmul", x.shape

    def __rtruediv__(self, x):
        return "rtruediv", x.shape

    def __rmatmul__(self, x):
        return "rmatmul", x.shape


def test_operands_of_the_users():
    """Python asks the other operand where its class has the reflected operator, as with NumPy's
    and SciPy's arrays; for others it is an error that names the function."""
    A, other = cm.sparse.csr_array(np.eye(3)), Other()
    assert A + other == ("radd", (3, 3))
    assert A - other == ("rsub", (3, 3))
    assert A * other == ("rmul", (3, 3))
    assert A / other == ("rtruediv", (3, 3))
    assert A @ other == ("rmatmul", (3, 3))
    assert cm.sparse.csr_matrix(np.eye(3)) * other == ("rmul", (3, 3))
    for operation in (operator.add, operator.mul, operator.matmul, operator.truediv):
        with pytest.raises(TypeError, match="^(add|multiply|matmul|divide): .*got object"):
            operation(A, object())
