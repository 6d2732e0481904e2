"""Sparse linear algebra beside SciPy's: iterations and their criteria, eigenvalues, factors,
norms."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as theirs
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_arrays import coordinates, dense, ours

import cudamath as cm

L = cm.sparse.linalg
quickly = settings(max_examples=30, deadline=None)
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


def poisson(n: int) -> sp.csr_array:
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return sp.csr_array(sp.kronsum(line, line))


def matrix(n: int, dtype: Any, definite: bool, seed: int = 0) -> sp.csr_array:
    """Random and well-conditioned; Hermitian if definite."""
    rng = np.random.default_rng(seed)
    x = sp.random_array((n, n), density=0.1, rng=rng)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * sp.random_array((n, n), density=0.1, rng=rng)
    x = x + x.T.conj() if definite else x
    size = float(abs(x).sum(axis=1).max()) + 1
    return sp.csr_array(x + size * sp.eye_array(n)).astype(dtype)


def right_side(n: int, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(9)
    b = rng.standard_normal(n)
    return (b + 1j * rng.standard_normal(n) if np.dtype(dtype).kind == "c" else b).astype(dtype)


# -------------------- square systems


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cg", "bicg", "bicgstab", "cgs", "gmres"])
def test_solvers(name, dtype):
    """The same criterion, about as many steps as SciPy's, from sparse, dense and linear
    operators."""
    a = matrix(60, dtype, name == "cg")
    b = right_side(60, dtype)
    rtol = 1e-4 if np.dtype(dtype).itemsize in (4, 8) and dtype != np.float64 else 1e-10
    steps: dict[str, int] = {"ours": 0, "theirs": 0}

    def counted(whose: str) -> Callable[[Any], None]:
        def count(_: Any) -> None:
            steps[whose] += 1

        return count

    more = {"callback_type": "pr_norm"} if name == "gmres" else {}
    x, info = getattr(L, name)(ours(a), b, rtol=rtol, callback=counted("ours"), **more)
    expected, _ = getattr(theirs, name)(a, b, rtol=rtol, callback=counted("theirs"), **more)
    assert info == 0 and x.dtype == dtype and x.shape == (60,)
    assert np.linalg.norm(a @ x.to_numpy() - b) <= 1.01 * rtol * np.linalg.norm(b)
    np.testing.assert_allclose(x.to_numpy(), expected, atol=20 * rtol)
    assert abs(steps["ours"] - steps["theirs"]) <= 2
    operator = L.aslinearoperator(ours(a))
    for other in (a, a.toarray(), L.LinearOperator((60, 60), operator.matvec, operator.rmatvec)):
        again, info = getattr(L, name)(other, cm.array(b), rtol=rtol)
        assert info == 0
        np.testing.assert_allclose(again.to_numpy(), x.to_numpy(), atol=20 * rtol)


@pytest.mark.parametrize("kind", ["legacy", "pr_norm", "x"])
@pytest.mark.parametrize(("restart", "most"), [(3, 7), (3, 6), (5, 4), (3, 40)])
def test_gmres_counts_steps_as_scipy_does(kind, restart, most):
    """Of the kind "legacy" the limit counts steps, of the others what lies between restarts."""
    a, b = poisson(6), right_side(36, np.float64)
    told: dict[Any, list] = {L: [], theirs: []}
    ends = [
        package.gmres(
            matrix,
            b,
            rtol=1e-9,
            restart=restart,
            maxiter=most,
            callback_type=kind,
            callback=lambda x, package=package: told[package].append(np.asarray(x).copy()),
        )
        for package, matrix in ((L, ours(a)), (theirs, a))
    ]
    assert len(told[L]) == len(told[theirs])
    assert ends[0][1] == ends[1][1]
    np.testing.assert_allclose(ends[0][0].to_numpy(), ends[1][0], rtol=1e-7)
    for one, other in zip(told[L], told[theirs], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)


@pytest.mark.parametrize("name", ["cg", "bicg", "bicgstab", "cgs", "gmres", "minres"])
def test_preconditioners_guesses_and_limits(name):
    a, b = poisson(9), right_side(81, np.float64)
    solve = getattr(L, name)
    m = cm.sparse.diags_array([1 / a.diagonal()], offsets=[0])
    x, info = solve(ours(a), b, rtol=1e-8, M=m, x0=np.ones(81))
    assert info == 0
    np.testing.assert_allclose(a @ x.to_numpy(), b, atol=1e-6)
    again, info = solve(ours(a), b, rtol=1e-6, x0=x)
    assert info == 0
    np.testing.assert_allclose(again.to_numpy(), x.to_numpy(), atol=1e-6)
    _, info = solve(
        ours(a), b, rtol=1e-12, maxiter=1, **({"restart": 3} if name == "gmres" else {})
    )
    assert info == 1
    x, info = solve(ours(a), np.zeros(81))
    assert info == 0 and not x.any()


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_minres(shift):
    rng = np.random.default_rng(1)
    a = sp.csr_array(sp.random_array((50, 50), density=0.1, rng=rng))
    a = sp.csr_array(a + a.T + sp.diags_array(np.linspace(-5, 6, 50)))
    b = right_side(50, np.float64)
    x, info = L.minres(ours(a), b, rtol=1e-10, shift=shift, check=True, maxiter=400)
    expected, _ = theirs.minres(a, b, rtol=1e-10, shift=shift, maxiter=400)
    assert info == 0
    np.testing.assert_allclose(x.to_numpy(), expected, rtol=1e-6, atol=1e-8)
    for rtol, n in itertools.product((0.5, 0.2, 0.1, 0.05, 0.02, 0.01), (50, 12)):
        steps: dict[Any, list] = {L: [], theirs: []}  # few, in which nothing is rounded away
        for package, part in ((L, ours(a[:n, :n])), (theirs, a[:n, :n])):
            package.minres(part, b[:n], rtol=rtol, shift=shift, callback=steps[package].append)
        assert len(steps[L]) == len(steps[theirs]), (rtol, n)
    with pytest.raises(ValueError, match=r"^minres: A of shape \(50, 50\) is not symmetric"):
        L.minres(ours(sp.csr_array(np.triu(np.ones((50, 50))))), b, check=True)


# -------------------- least squares


@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
@pytest.mark.parametrize("damp", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(60, 20), (20, 60), (30, 30)])
def test_least_squares(name, damp, shape):
    rng = np.random.default_rng(3)
    a = sp.csr_array(sp.random_array(shape, density=0.3, rng=rng) + sp.eye_array(*shape))
    most = "iter_lim" if name == "lsqr" else "maxiter"
    b = rng.standard_normal(shape[0])
    options = {"damp": damp, "atol": 1e-10, "btol": 1e-10, most: 300}
    got = getattr(L, name)(ours(a), b, **options)
    expected = getattr(theirs, name)(a, b, **options)
    assert got[1] == expected[1] and abs(got[2] - expected[2]) <= 2
    np.testing.assert_allclose(got[0].to_numpy(), expected[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(got[3], expected[3], rtol=1e-4, atol=1e-8)
    whole = np.vstack([a.toarray(), damp * np.eye(shape[1])])
    exact = np.linalg.lstsq(whole, np.concatenate([b, np.zeros(shape[1])]), rcond=None)[0]
    np.testing.assert_allclose(got[0].to_numpy(), exact, rtol=1e-5, atol=1e-7)


def test_least_squares_of_zeros_and_guesses():
    a, b = sp.csr_array(np.eye(4, 3)), np.array([1.0, 2, 3, 0])
    for solve in (L.lsqr, L.lsmr):
        assert not solve(ours(a), np.zeros(4))[0].any()
        np.testing.assert_allclose(solve(ours(a), b, x0=np.ones(3))[0].to_numpy(), b[:3], atol=1e-6)
    var = L.lsqr(ours(a), b, calc_var=True)[-1]
    np.testing.assert_allclose(var.to_numpy(), theirs.lsqr(a, b, calc_var=True)[-1], atol=1e-8)


# -------------------- eigenvalues and singular values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", ["LM", "SM", "LA", "SA", "BE"])
def test_eigsh(which, dtype):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((70, 70))
    x = x + 1j * rng.standard_normal((70, 70)) if np.dtype(dtype).kind == "c" else x
    a = sp.csr_array(((x + x.conj().T) / 2).astype(dtype))
    exact = np.linalg.eigvalsh(a.toarray().astype(np.complex128))
    w, v = L.eigsh(ours(a), k=5, which=which)
    order = {
        "LM": np.argsort(-abs(exact)),
        "SM": np.argsort(abs(exact)),
        "LA": np.arange(70)[::-1],
        "SA": np.arange(70),
        "BE": np.r_[0, 1, 69, 68, 67],
    }[which][:5]
    tolerance = 2e-4 if np.finfo(dtype).eps > 1e-10 else 1e-9
    np.testing.assert_allclose(w.to_numpy(), np.sort(exact[order]), atol=tolerance * 20)
    assert w.dtype == np.finfo(dtype).dtype and v.dtype == dtype and v.shape == (70, 5)
    np.testing.assert_allclose(a @ v.to_numpy(), v.to_numpy() * w.to_numpy(), atol=tolerance * 100)
    np.testing.assert_allclose(v.to_numpy().conj().T @ v.to_numpy(), np.eye(5), atol=tolerance)


def test_eigsh_of_a_stencil_by_shifts():
    a = poisson(12)
    w = L.eigsh(ours(a), k=4, sigma=0, return_eigenvectors=False)
    np.testing.assert_allclose(w.to_numpy(), np.linalg.eigvalsh(a.toarray())[:4], rtol=1e-9)
    w = L.eigsh(ours(a), k=3, sigma=4.05, return_eigenvectors=False)
    expected = theirs.eigsh(a, k=3, sigma=4.05, return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(w.to_numpy()), np.sort(expected), rtol=1e-9)


def test_eigsh_of_few_different_values():
    """An invariant subspace is found at once; the iteration goes on outside of it."""
    a = sp.diags_array(np.r_[np.ones(15), 2 * np.ones(10), 7.0])
    w, v = L.eigsh(cm.sparse.csr_array(a), k=4)
    np.testing.assert_allclose(w.to_numpy(), [2, 2, 2, 7], atol=1e-10)
    np.testing.assert_allclose(a @ v.to_numpy(), v.to_numpy() * w.to_numpy(), atol=1e-9)


def test_no_convergence():
    with pytest.raises(L.ArpackNoConvergence, match="^eigsh: not all of 4 eigenvalues") as caught:
        L.eigsh(ours(poisson(30)), k=4, which="SA", maxiter=1)
    assert caught.value.eigenvalues.shape == (4,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(50, 30), (30, 50)])
@pytest.mark.parametrize("which", ["LM", "SM"])
def test_svds(shape, which, dtype):
    rng = np.random.default_rng(6)
    x = rng.standard_normal(shape)
    a = sp.csr_array((x + 1j * x[::-1] if np.dtype(dtype).kind == "c" else x).astype(dtype))
    u, s, vh = L.svds(ours(a), k=3, which=which)
    exact = np.linalg.svd(a.toarray(), compute_uv=False)
    expected = np.sort(exact[:3] if which == "LM" else exact[-3:])
    tolerance = 2e-3 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(s.to_numpy(), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(a @ dense(vh).conj().T, dense(u) * dense(s), atol=20 * tolerance)
    np.testing.assert_allclose(dense(u).conj().T @ dense(u), np.eye(3), atol=tolerance)
    assert L.svds(ours(a), k=3, which=which, return_singular_vectors=False).shape == (3,)
    assert L.svds(ours(a), k=3, which=which, return_singular_vectors="u")[2] is None


@pytest.mark.parametrize("solver", ["arpack", "lobpcg", "propack"])
@pytest.mark.parametrize("shape", [(9, 5), (5, 9)])
def test_svds_solvers(solver, shape, device):
    """SciPy's names; all values are there for "propack", whose v0 is a left vector."""
    a = np.random.default_rng(1).normal(size=shape)
    exact = np.linalg.svd(a, compute_uv=False)
    for k in (2, 5) if solver == "propack" else (2,):
        for rng in (None, 7, np.random.default_rng(7), cm.random.default_rng(7)):
            u, s, vh = L.svds(cm.asarray(a), k=k, solver=solver, rng=rng)
            np.testing.assert_allclose(s.to_numpy(), exact[:k][::-1], rtol=1e-12)
            whole = ((u * s) @ vh).to_numpy()
            best = np.linalg.norm(exact[k:])
            np.testing.assert_allclose(np.linalg.norm(a - whole), best, rtol=1e-10, atol=1e-12)
    left = np.ones(shape[0] if solver == "propack" else 5)
    s = L.svds(cm.asarray(a), k=2, solver=solver, v0=left, return_singular_vectors=False)
    np.testing.assert_allclose(s.to_numpy(), exact[:2][::-1], rtol=1e-12)


@pytest.mark.parametrize("n", [3, 4, 30])
def test_operators_with_one_eigenvalue(n, device):
    """Each step of the iteration ends in an invariant subspace."""
    for factor in (0, 2.5):
        x = cm.sparse.csr_array(factor * np.eye(n))
        w, v = L.eigsh(x, k=2)
        np.testing.assert_allclose(w.to_numpy(), [factor] * 2, atol=1e-14)
        np.testing.assert_allclose((v.T @ v).to_numpy(), np.eye(2), atol=1e-14)
        u, s, vh = L.svds(x, k=2)
        np.testing.assert_allclose(s.to_numpy(), [factor] * 2, atol=1e-14)
        np.testing.assert_allclose((vh @ vh.T).to_numpy(), np.eye(2), atol=1e-14)
        np.testing.assert_allclose((u.T @ u).to_numpy(), np.eye(2), atol=1e-14)


def test_svds_of_low_rank():
    rng = np.random.default_rng(6)
    a = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30))
    u, s, _ = L.svds(cm.array(a), k=4)
    np.testing.assert_allclose(s.to_numpy()[:2], 0, atol=1e-6)
    np.testing.assert_allclose(dense(u).T @ dense(u), np.eye(4), atol=1e-8)


# -------------------- direct solutions


@quickly
@given(st.data())
def test_triangular(data):
    n = data.draw(st.integers(1, 8))
    dtype = data.draw(st.sampled_from(DTYPES))
    x = data.draw(coordinates(shape=(n, n), dtype=dtype))
    a = (x + 4 * sp.eye_array(n)).astype(dtype)
    b = np.arange(2 * n).reshape(n, 2).astype(dtype)
    for lower in (True, False):
        for unit in (True, False):
            part = (sp.tril if lower else sp.triu)(a).toarray()
            if unit:
                np.fill_diagonal(part, 1)
            if not np.diag(part).all():
                continue
            exact = np.linalg.solve(part.astype(np.complex128), b)
            for right in (b, b[:, 0]):
                got = L.spsolve_triangular(
                    ours(a.tocsr(), data.draw(st.sampled_from(["csr", "csc", "coo"]))),
                    right,
                    lower=lower,
                    unit_diagonal=unit,
                )
                assert got.dtype == dtype and got.shape == right.shape
                size = np.abs(exact).max() + 1
                wanted = exact if right.ndim == 2 else exact[:, 0]
                error = 1e-2 if np.finfo(dtype).eps > 1e-10 else 1e-9
                assert np.abs(got.to_numpy() - wanted).max() <= error * size


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["RCM", "NATURAL"])
def test_factors(order, dtype):
    """L U = A with its rows and columns permuted, for matrices that need pivots."""
    rng = np.random.default_rng(8)
    for n in (1, 2, 7, 40):
        x = rng.standard_normal((n, n)) * (rng.random((n, n)) < 4 / n)
        x += np.eye(n)[rng.permutation(n)]
        x = x + 1j * x[::-1] if np.dtype(dtype).kind == "c" else x
        if np.linalg.cond(x) > 1e6:
            continue
        a = sp.csc_array(x.astype(dtype))
        lu = L.splu(ours(a), permc_spec=order)
        low, up = dense(lu.L), dense(lu.U)
        assert (np.triu(low, 1) == 0).all() and (np.tril(up, -1) == 0).all()
        assert (np.diag(low) == 1).all() and (abs(low) <= 1 + 1e-6).all()
        permuted = np.zeros((n, n), dtype)
        permuted[np.ix_(dense(lu.perm_r), dense(lu.perm_c))] = a.toarray()
        error = 1e-4 if np.finfo(dtype).eps > 1e-10 else 1e-11
        np.testing.assert_allclose(low @ up, permuted, atol=error)
        for b in (right_side(n, dtype), np.stack([right_side(n, dtype)] * 3, 1)):
            for trans, turned in (("N", x), ("T", x.T), ("H", x.conj().T)):
                got = lu.solve(b, trans).to_numpy()
                assert got.shape == b.shape and got.dtype == dtype
                np.testing.assert_allclose(turned @ got, b, atol=error * 1e3)


@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_factors_solve_for_every_dtype(trans):
    """One after the other, by the same factors: the solution for a wider right-hand side has its
    dtype and digits, and that for a narrow one behind it is narrow again."""
    a = matrix(12, np.float32, False)
    turned = a.toarray().astype(np.complex128)
    turned = {"N": turned, "T": turned.T, "H": turned.conj().T}[trans]
    lu = L.splu(ours(a.tocsc()))
    for dtype in (np.complex128, np.float32, np.float64, np.complex64, np.int64, np.float32):
        b = right_side(12, np.float64 if dtype == np.int64 else dtype).astype(dtype)
        got = lu.solve(b, trans)
        assert got.dtype == np.result_type(np.float32, dtype)
        np.testing.assert_allclose(dense(got), np.linalg.solve(turned, b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int16, np.uint8, np.int64])
def test_eigenvalues_of_integers(dtype):
    """In float32 at least, and in float64 where the integers need it."""
    line = (np.arange(30) % 3 == 0).astype(np.float64)
    x = (np.outer(line, line) + np.diag(np.arange(30) % 2)).astype(dtype)
    kind = np.result_type(dtype, np.float32)
    found = L.eigsh(cm.sparse.csr_array(x), k=2, return_eigenvectors=False)
    assert found.dtype == kind
    exact = np.linalg.eigvalsh(x.astype(np.float64))
    exact = np.sort(exact[np.argsort(abs(exact))[-2:]])
    np.testing.assert_allclose(np.sort(dense(found)), exact, rtol=1e-5)
    sizes = L.svds(cm.sparse.csr_array(x[:, :20]), k=2, return_singular_vectors=False)
    exact = np.linalg.svd(x[:, :20].astype(np.float64), compute_uv=False)[1::-1]
    np.testing.assert_allclose(dense(sizes), exact, rtol=1e-4)


def test_spsolve():
    a, b = poisson(15), right_side(225, np.float64)
    expected = theirs.spsolve(sp.csc_array(a), b)
    for format in ("csr", "csc", "coo", "bsr"):
        np.testing.assert_allclose(L.spsolve(ours(a, format), b).to_numpy(), expected, rtol=1e-9)
    assert L.spsolve(ours(a), b[:, None]).shape == (225,)
    many = L.spsolve(ours(a), cm.sparse.csc_array(np.eye(225)[:, :3]))
    assert cm.sparse.issparse(many)
    np.testing.assert_allclose(a @ dense(many), np.eye(225)[:, :3], atol=1e-10)
    np.testing.assert_allclose(L.factorized(ours(a))(b).to_numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(dense(L.inv(ours(poisson(3)))), np.linalg.inv(poisson(3).toarray()))
    with pytest.raises(L.LinAlgError, match=r"^splu: A of shape \(2, 2\) is singular"):
        L.spsolve(cm.sparse.csr_array([[1.0, 2], [2, 4]]), np.ones(2))
    with pytest.raises(L.LinAlgError, match="^spsolve_triangular: .* zero on its diagonal"):
        cm.asarray(
            L.spsolve_triangular(cm.sparse.csr_array([[0.0, 0], [1, 1]]), np.ones(2))
        ).tolist()


INDICES, INDPTR = np.array([0, 2, 1, 0, 2]), np.array([0, 2, 3, 5])
DATA, B = np.array([3.0, 1, 2, 0.5, 4]), np.array([1.0, -2, 0.5])


def square(data: Any) -> Any:
    return cm.sparse.csr_array((data, INDICES, INDPTR), shape=(3, 3))


SOLUTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "spsolve": lambda d, b: L.spsolve(square(d), b),
    "lower": lambda d, b: L.spsolve_triangular(square(d), b),
    "upper": lambda d, b: L.spsolve_triangular(square(d), b, lower=False),
    "unit": lambda d, b: L.spsolve_triangular(square(d), b, unit_diagonal=True),
    "columns": lambda d, b: L.spsolve(square(d), cm.stack([b, 2 * b], axis=1))[:, 1],
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_gradients_of_solutions(name):
    """With respect to values and right-hand sides, first and second order."""
    solve = SOLUTIONS[name]

    def value(both: Any) -> Any:
        x = solve(both[:5], both[5:])
        return (x**3).sum() + (x * np.array([1.0, 2, 3])).sum()

    at = np.concatenate([DATA, B])
    slope = cm.grad(value)

    def differences(function: Callable[[Any], Any], step: float) -> np.ndarray:
        moved = [(at + step * e, at - step * e) for e in np.eye(len(at))]
        return np.array([(function(p) - function(q)) / (2 * step) for p, q in moved])

    expected = differences(lambda v: float(value(cm.array(v))), 1e-6)
    np.testing.assert_allclose(slope(cm.array(at)).to_numpy(), expected, rtol=1e-6, atol=1e-8)
    direction = np.cos(np.arange(len(at)))
    second = differences(lambda v: float(slope(cm.array(v)).to_numpy() @ direction), 1e-5)
    along = cm.grad(lambda v: (cm.grad(value)(v) * direction).sum())
    np.testing.assert_allclose(along(cm.array(at)).to_numpy(), second, rtol=1e-5, atol=1e-7)


# -------------------- operators and norms


def test_operators():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((4, 5)), rng.standard_normal((4, 5)) + 1j
    a, b = (L.aslinearoperator(sp.csr_array(m)) for m in (x, y))
    v, w, k = rng.standard_normal(5), rng.standard_normal(4), rng.standard_normal((5, 3))
    near = np.testing.assert_allclose
    near(dense(a @ v), x @ v)
    near(dense(a.matvec(v[:, None])), x @ v[:, None])
    near(dense(a @ k), x @ k)
    near(dense(b.H @ w), y.conj().T @ w)
    near(dense(b.T @ w), y.T @ w)
    near(dense((a + b) @ v), (x + y) @ v)
    near(dense((a - 2 * b) @ k), (x - 2 * y) @ k)
    near(dense((b.H @ a) @ v), y.conj().T @ (x @ v))
    near(dense((-b * 3) @ v), -3 * y @ v)
    near(dense(((a.H @ a) ** 2) @ v), x.T @ x @ x.T @ x @ v)
    near(dense(b.rmatmat(np.stack([w, w], 1))), y.conj().T @ np.stack([w, w], 1))
    alone = L.LinearOperator((4, 5), matvec=lambda z: cm.asarray(x) @ z)
    assert alone.dtype == np.float64 and repr(alone) == "<4x5 LinearOperator with dtype=float64>"
    near(dense(alone.matmat(k)), x @ k)
    with pytest.raises(NotImplementedError, match=r"^rmatvec: .*\(4, 5\) has no rmatvec"):
        alone.rmatvec(w)


@quickly
@given(coordinates(dtype=np.float64), st.sampled_from([None, "fro", 1, -1, np.inf, -np.inf]))
def test_norms(x, ord):
    if 0 in x.shape:
        return
    np.testing.assert_allclose(float(L.norm(ours(x), ord)), theirs.norm(x.tocsr(), ord), rtol=1e-12)
    for axis in (0, 1, -1):
        for power in (None, 1, 2, 3, np.inf, -np.inf, 0):
            got = dense(L.norm(ours(x), power, axis))
            np.testing.assert_allclose(got, np.linalg.norm(x.toarray(), power, axis), rtol=1e-12)


OF_2_BY_3 = L.aslinearoperator(np.ones((2, 3)))
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: L.cg(np.ones((2, 3)), np.ones(2)), ValueError, r"^cg: .*\(2, 3\)"),
    (lambda: L.cg(np.eye(2), np.ones(3)), ValueError, r"^cg: wants b \(2,\).*\(3,\)"),
    (lambda: L.gmres(np.eye(2), np.ones(2), M=np.eye(3)), ValueError, r"^gmres: wants M"),
    (lambda: L.cg(np.eye(2), np.ones(2), atol=-1), ValueError, "^cg: wants rtol and atol"),
    (lambda: L.bicgstab(np.eye(2), np.ones(2), x0=np.ones(3)), ValueError, "^bicgstab: wants x0"),
    (
        lambda: L.gmres(np.eye(2), np.ones(2), callback_type="y"),
        ValueError,
        "^gmres: wants callback_type",
    ),
    (lambda: L.lsqr(np.eye(2), np.ones(3)), ValueError, r"^lsqr: wants b \(2,\)"),
    (lambda: L.lsmr(np.eye(2), np.ones(2), x0=np.ones(3)), ValueError, "^lsmr: wants x0"),
    (lambda: L.eigsh(np.eye(5), k=5), ValueError, "^eigsh: wants 0 < k < 5"),
    (lambda: L.eigsh(np.eye(5), k=2, which="XX"), ValueError, "^eigsh: wants which"),
    (lambda: L.eigsh(np.eye(5), k=2, M=np.eye(5)), NotImplementedError, "^eigsh: supports neither"),
    (lambda: L.eigsh(np.ones((2, 3)), k=1), ValueError, r"^eigsh: wants a square A.*\(2, 3\)"),
    (lambda: L.eigsh(np.eye(5), k=3, ncv=3), ValueError, "^eigsh: wants k < ncv <= 5.*ncv 3"),
    (lambda: L.eigsh(np.eye(5), k=2, v0=np.ones(4)), ValueError, r"^eigsh: wants v0 \(5,\)"),
    (lambda: L.svds(np.eye(5), k=5), ValueError, "^svds: wants 0 < k <= 4"),
    (lambda: L.svds(np.eye(5), k=0), ValueError, "^svds: wants 0 < k <= 4"),
    (lambda: L.svds(np.eye(5), solver="eispack"), ValueError, "^svds: wants a solver"),
    (lambda: L.svds(np.eye(5), k=2, tol=-1), ValueError, "^svds: wants a tol"),
    (lambda: L.svds(np.eye(5), k=2, maxiter=0), ValueError, "^svds: wants a maxiter"),
    (lambda: L.svds(np.eye(5), k=2, v0=np.ones(4)), ValueError, r"^svds: wants a v0 .*\(5,\)"),
    (lambda: L.svds(np.ones((0, 5))), ValueError, "^svds: wants A with elements"),
    (lambda: L.svds(np.eye(5), 2, return_singular_vectors="v"), ValueError, "^svds: wants return"),
    (lambda: L.svds(np.eye(5), k=2, which="LA"), ValueError, "^svds: wants which"),
    (
        lambda: L.splu(cm.sparse.eye_array(2)).solve(np.ones(3)),
        ValueError,
        r"^solve: wants 2 rows for A \(2, 2\), got \(3,\)",
    ),
    (
        lambda: L.splu(cm.sparse.eye_array(2)).solve(np.ones(2), "C"),
        ValueError,
        "^solve: wants trans 'N', 'T' or 'H', got 'C'",
    ),
    (
        lambda: L.splu(cm.sparse.eye_array(2), options={"Equil": True}),
        NotImplementedError,
        "^splu: takes no options",
    ),
    (lambda: L.norm(cm.sparse.eye_array(2), -2, 0), ValueError, "^norm: wants ord None, 0, inf"),
    (
        lambda: L.minres(np.eye(2), np.ones(2), M=-np.eye(2)),
        ValueError,
        "^minres: wants a positive definite M",
    ),
    (
        lambda: L.minres(np.eye(2), np.ones(2), M=np.diag([1.0, -0.5])),
        ValueError,
        "^minres: wants a symmetric A and a positive definite M",
    ),
    (
        lambda: L.LinearOperator((2, 2), lambda x: np.ones(3)) @ np.ones(2),
        ValueError,
        r"^matvec: an operator of shape \(2, 2\) gave shape \(3,\)",
    ),
    (lambda: OF_2_BY_3 + L.aslinearoperator(np.eye(2)), ValueError, "^add: wants operators"),
    (lambda: OF_2_BY_3 @ OF_2_BY_3, ValueError, "^matmul: operators of shapes"),
    (lambda: OF_2_BY_3**2, ValueError, "^pow: wants a square operator"),
    (lambda: L.aslinearoperator(np.eye(2)) ** -1, ValueError, "^pow: wants a square operator"),
    (lambda: OF_2_BY_3.dot(np.ones((1, 2, 3))), ValueError, "^matmul: an operator of shape"),
    (lambda: OF_2_BY_3.matmat(np.ones((2, 2))), ValueError, r"^matmat: .*takes \(3, k\)"),
    (lambda: L.splu(cm.sparse.csc_array((2, 3))), ValueError, r"^splu: .*\(2, 3\)"),
    (
        lambda: L.splu(cm.sparse.eye_array(2), permc_spec="COLAMD"),
        ValueError,
        "^splu: wants permc_spec",
    ),
    (
        lambda: L.spsolve(cm.sparse.eye_array(2), np.ones(3)),
        ValueError,
        "^spsolve: wants b with 2 rows",
    ),
    (lambda: L.norm(np.eye(2)), TypeError, "^norm: wants a sparse array, got ndarray"),
    (lambda: L.norm(cm.sparse.eye_array(2), -2), NotImplementedError, "^norm: has ord None"),
    (lambda: L.svds(np.eye(5), k=2, ncv=2), ValueError, "^svds: wants k < ncv < 5"),
    (lambda: L.svds(np.eye(5), k=2, ncv=3.5), ValueError, "^svds: wants k < ncv < 5"),
    (lambda: L.inv(np.eye(2)), TypeError, "^inv: "),
    (lambda: L.aslinearoperator(np.ones(3)), ValueError, r"^aslinearoperator: .*\(3,\)"),
    (lambda: L.LinearOperator((2, 2)), TypeError, "^LinearOperator: wants a function matvec"),
    (lambda: 2 @ L.aslinearoperator(np.eye(2)), ValueError, "^matmul: .* got a number"),
    (lambda: L.LinearOperator((2, 2), 5), TypeError, "^LinearOperator: wants a function matvec"),
    (lambda: L.aslinearoperator(np.eye(2)) @ np.ones(3), ValueError, r"^matvec: .*\(3,\)"),
    (lambda: L.aslinearoperator(np.eye(2)) @ 3, ValueError, "^matmul: "),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[e[2][:40] for e in ERRORS])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


class _Columns(L.LinearOperator):
    """By SciPy's protocol of subclasses: methods for columns alone."""

    def __init__(self, a):
        super().__init__(a.dtype, a.shape)
        self.a = a

    def _matmat(self, x):
        return self.a @ x

    def _rmatmat(self, x):
        return self.a.conj().T @ x


class _Vectors(L.LinearOperator):
    """Without a call of the constructor, and with an adjoint of its own."""

    def __init__(self, a):
        self.a, self.shape, self.dtype = a, a.shape, a.dtype

    def _matvec(self, x):
        return self.a @ x

    def _adjoint(self):
        return _Vectors(self.a.conj().T)


@pytest.mark.parametrize("kind", [_Columns, _Vectors, L.aslinearoperator])
def test_operators_of_subclasses(kind):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    operator = kind(cm.asarray(x))
    assert operator.shape == (3, 4) and operator.has_adjoint
    for tried, exact in ((operator, x), (operator.T, x.T), (operator.H, x.conj().T)):
        v, w = rng.normal(size=exact.shape[1]), rng.normal(size=(exact.shape[1], 2))
        np.testing.assert_allclose((tried @ v).to_numpy(), exact @ v)
        np.testing.assert_allclose((tried @ w).to_numpy(), exact @ w)
        left, rows = rng.normal(size=len(exact)), rng.normal(size=(2, len(exact)))
        np.testing.assert_allclose((cm.asarray(left) @ tried).to_numpy(), left @ exact)
        np.testing.assert_allclose((rows @ tried).to_numpy(), rows @ exact)


def test_norms_of_rows_of_matrices():
    x = np.arange(12.0).reshape(3, 4) - 5
    for made in (cm.sparse.csr_matrix, cm.sparse.coo_matrix, cm.sparse.csr_array):
        for ord in (1, 2, np.inf, -np.inf, None):
            for axis in (0, 1):
                got = L.norm(made(x), ord, axis)
                np.testing.assert_allclose(got.to_numpy(), np.linalg.norm(x, ord, axis))
    for shape in ((30, 20), (20, 30), (5, 5), (1, 4)):
        y = np.random.default_rng(1).normal(size=shape)
        exact = np.linalg.norm(y, 2)
        assert float(L.norm(cm.sparse.csr_array(y), 2)) == pytest.approx(exact, rel=1e-12)
    assert float(L.norm(cm.sparse.csr_array(np.zeros((3, 3))), 2)) == 0
    with pytest.raises(ValueError, match="^norm: wants one of 2 axes"):
        L.norm(cm.sparse.csr_array(x), None, (0, 1, 1))
