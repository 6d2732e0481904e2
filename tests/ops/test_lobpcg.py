"""cm.linalg.lobpcg, and under its name in cm.sparse.linalg, beside scipy.linalg.eigh."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from matrices import rand

import cudamath as cm

lobpcg = cm.linalg.lobpcg
N = 60


def pencil(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    a, b = rand(rng, (N, N), dtype), rand(rng, (N, N), dtype)
    return a + a.conj().T, b @ b.conj().T + N * np.eye(N)


def start(k: int, dtype: str = "f8") -> np.ndarray:
    return rand(np.random.default_rng(2), (N, k), dtype)


def check(a, b, w, v, expected, tolerance):
    v = v.to_numpy()
    np.testing.assert_allclose(w.to_numpy(), expected, rtol=0, atol=tolerance)
    rest = a @ v - b @ v * w.to_numpy()
    assert np.linalg.norm(rest, axis=0).max() <= tolerance
    np.testing.assert_allclose(v.conj().T @ b @ v, np.eye(v.shape[1]), atol=1e-8)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_of_dense_matrices(device, dtype, largest, weighted):
    a, b = pencil(dtype)
    if not weighted:
        b = np.eye(N)
    known = scipy.linalg.eigh(a, b, eigvals_only=True)
    expected = known[::-1][:3] if largest else known[:3]
    w, v = lobpcg(
        cm.asarray(a),
        cm.asarray(start(3, dtype)),
        cm.asarray(b) if weighted else None,
        tol=1e-8,
        maxiter=500,
        largest=largest,
    )
    assert w.dtype == np.float64 and v.dtype == np.dtype(dtype)
    check(a, b, w, v, expected, 2e-8)


def test_of_sparse_arrays_operators_and_functions(device):
    values = np.arange(1.0, N + 1)
    A = cm.sparse.diags_array(
        [values, np.full(N - 1, 0.3), np.full(N - 1, 0.3)], offsets=[0, 1, -1]
    )
    A = A.tocsr()
    dense = A.toarray().to_numpy()
    expected = np.linalg.eigvalsh(dense)[:2]
    M = cm.sparse.diags_array([1 / values], offsets=[0]).tocsr()
    x = cm.asarray(start(2))
    steps = []
    for form in (A, cm.sparse.linalg.aslinearoperator(A), lambda block: A @ block, dense):
        for preconditioner in (None, M):
            w, v, values_of, norms = cm.sparse.linalg.lobpcg(
                form,
                x,
                M=preconditioner,
                tol=1e-9,
                maxiter=300,
                largest=False,
                retLambdaHistory=True,
                retResidualNormsHistory=True,
            )
            check(dense, np.eye(N), w, v, expected, 2e-9)
            np.testing.assert_array_equal(values_of[-1].to_numpy(), w.to_numpy())
            assert len(values_of) == len(norms)
            assert (norms[-1].to_numpy() <= 1e-9).all() and not (norms[-2] <= 1e-9).all()
            steps.append(len(norms))
    assert len(set(steps[::2])) == len(set(steps[1::2])) == 1  # the same steps for each form
    assert steps[1] < 0.6 * steps[0]  # the preconditioner helps


def test_constraints(device):
    a, b = pencil("f8")
    known, vectors = scipy.linalg.eigh(a, b)
    w, v = lobpcg(a, start(2), B=b, Y=vectors[:, -2:], tol=1e-8, maxiter=500)
    check(a, b, w, v, known[::-1][2:4], 2e-8)
    assert np.abs(vectors[:, -2:].T @ b @ v.to_numpy()).max() < 1e-10
    with pytest.raises(ValueError, match="^lobpcg: Linearly dependent constraints"):
        lobpcg(a, start(2), Y=np.zeros((N, 1)))


def test_more_vectors_than_a_fifth(device):
    a, b = pencil("c16")
    known = scipy.linalg.eigh(a, b, eigvals_only=True)
    for largest, expected in ((True, known[::-1][:20]), (False, known[:20])):
        w, v = lobpcg(a, start(20), B=b, largest=largest)
        check(a, b, w, v, expected, 1e-10)


def test_convergence_is_reported():
    a, _ = pencil("f8")
    with pytest.warns(UserWarning, match="^lobpcg: after 2 steps residuals of"):
        w, v = lobpcg(a, start(2), maxiter=2, tol=1e-12)
    assert w.shape == (2,) and v.shape == (N, 2)


def test_refusals():
    a, _ = pencil("f8")
    with pytest.raises(ValueError, match="^lobpcg: expected rank-2 array for argument X"):
        lobpcg(a, np.ones(N))
    with pytest.raises(ValueError, match="^lobpcg: wants A of shape"):
        lobpcg(a[:5, :5], start(2))
    with pytest.raises(ValueError, match="^lobpcg: Linearly dependent initial approximations"):
        lobpcg(a, np.ones((N, 2)))
    with pytest.raises(ValueError, match="^lobpcg: A made shape"):
        lobpcg(lambda x: x[:3], start(2))
    with pytest.raises(TypeError, match="^lobpcg: X of float64 of shape .* has no gradient"):
        cm.grad(lambda x: lobpcg(a, x)[0].sum())(cm.asarray(start(2)))
