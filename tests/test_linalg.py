"""cudamath.linalg's decompositions and what is composed of them: the cards cholesky eig eigh eigvals eigvalsh inv lu_factor
qr qr_r slogdet solve solve_triangular svd svdvals, and det, lu, lu_solve, pinv, lstsq, matrix_rank, matrix_power, cond, expm,
multi_dot, tensorinv, tensorsolve, cross, trace. Against NumPy and SciPy; factors, which are not unique, by putting the
matrix together again; gradients against central differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from differences import MACHINES, run_version
from fake_driver import gpu
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import eps

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.core.plan import Call, Flag, Input, Launch, Output, Plan, Ticket
from cudamath.kernels import decompose as planners
from cudamath.runtime import flags, solver, stream
from cudamath.testing import assert_close, compile_plan, simulate

la = cm.linalg
LinAlgError = np.linalg.LinAlgError
TYPES = [np.dtype(t) for t in ("f4", "f8", "c8", "c16")]
LEADS = [(), (3,), (2, 1, 2)]


def rand(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray:
    dtype = np.dtype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


def regular(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray:
    """Square matrices far from singular."""
    return rand(rng, shape, dtype) + np.asarray(2 * shape[-1] ** 0.5 * np.eye(shape[-1]), dtype)


def hermitian(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray:
    """Positive definite matrices."""
    x = rand(rng, shape, dtype)
    return x @ H(x) + np.eye(shape[-1], dtype=dtype)


def H(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def near(ours: Any, theirs: Any, *, scale: float = 1.0, dtype: Any = None) -> None:
    """Equal within some epsilons of the size of the answer; shape and dtype are NumPy's."""
    theirs = np.asarray(theirs)
    got = ours.to_numpy() if isinstance(ours, cm.ndarray) else np.asarray(ours)
    assert got.dtype == (theirs.dtype if dtype is None else dtype), (got.dtype, theirs.dtype)
    size = float(np.abs(theirs).max(initial=1.0))
    assert_close(got, theirs, rtol=0, atol=200 * eps(got.dtype) * size * scale)


def look(how: str, x: np.ndarray) -> cm.ndarray:
    """The same matrices, lying differently."""
    if how == "columns":
        return cm.matrix_transpose(cm.asarray(np.ascontiguousarray(np.swapaxes(x, -1, -2))))
    if how == "strided":
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        wide[..., 1::2] = x
        return cm.asarray(wide)[..., 1::2]
    if how == "reversed":
        return cm.asarray(np.ascontiguousarray(x[..., ::-1, :]))[..., ::-1, :]
    return cm.asarray(x)


LOOKS = ["rows", "columns", "strided", "reversed"]
draws = st.tuples(st.sampled_from(TYPES), st.sampled_from(LEADS), st.sampled_from(LOOKS), st.integers(1, 40), st.integers(0, 99))


# ---------------------------------------------------------------- systems


@settings(max_examples=40)
@given(draw=draws, k=st.sampled_from([None, 1, 3]), how=st.sampled_from(LOOKS))
def test_solve_and_inv(device, draw, k, how):
    dtype, lead, first, n, seed = draw
    rng = np.random.default_rng(seed)
    a = regular(rng, (*lead, n, n), dtype)
    b = rand(rng, (n,) if k is None else (*lead, n, k), dtype)
    near(la.solve(look(first, a), cm.asarray(b) if k is None else look(how, b)), np.linalg.solve(a, b))
    near(la.inv(look(first, a)), np.linalg.inv(a))
    near(la.det(look(first, a)) ** (1 / n) if dtype.kind == "c" else cm.abs(la.det(look(first, a))) ** (1 / n),
         np.linalg.det(a) ** (1 / n) if dtype.kind == "c" else np.abs(np.linalg.det(a)) ** (1 / n), scale=4)
    sign, logdet = la.slogdet(look(first, a))
    theirs = np.linalg.slogdet(a)
    near(sign, theirs.sign)
    near(logdet, theirs.logabsdet)


def test_solve_broadcasts(device):
    rng = np.random.default_rng(0)
    a, b = regular(rng, (4, 1, 3, 3)), rand(rng, (2, 3, 5))
    near(la.solve(cm.asarray(a), cm.asarray(b)), np.linalg.solve(a, b))
    a, b = regular(rng, (3, 3)), rand(rng, (2, 4, 3, 5))
    near(la.solve(cm.asarray(a), cm.asarray(b)), np.linalg.solve(a, b))
    a, b = regular(rng, (2, 3, 3)), rand(rng, (3, 3))
    near(la.solve(cm.asarray(a), cm.asarray(b)), np.linalg.solve(a, b))
    near(la.solve_triangular(cm.asarray(np.tril(a)), cm.asarray(b), lower=True), np.linalg.solve(np.tril(a), b))


@settings(max_examples=40)
@given(draw=draws, k=st.sampled_from([None, 1, 3]), lower=st.booleans(), unit=st.booleans())
def test_solve_triangular(device, draw, k, lower, unit):
    """The other triangle, and the diagonal if it is one, are not read."""
    dtype, lead, how, n, seed = draw
    rng = np.random.default_rng(seed)
    a = regular(rng, (*lead, n, n), dtype) / np.asarray(n, dtype)
    b = rand(rng, (n,) if k is None else (*lead, n, k), dtype)
    clean = np.tril(a) if lower else np.triu(a)
    if unit:
        clean = clean - np.eye(n) * clean + np.eye(n, dtype=dtype)
    poisoned = np.where(np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T, a, np.nan).astype(dtype)
    if unit:
        poisoned[..., range(n), range(n)] = np.nan
    x = la.solve_triangular(look(how, poisoned), cm.asarray(b), lower=lower, unit_diagonal=unit)
    columns = b[:, None] if k is None else b
    got = x.to_numpy()[..., None] if k is None else x.to_numpy()
    assert got.dtype == dtype and x.shape == ((*lead, n) if k is None else (*lead, n, k))
    bound = np.abs(clean) @ np.abs(got)  # what rounding can do to each row
    assert (np.abs(clean @ got - columns) <= 20 * n * eps(dtype) * (bound + np.abs(columns))).all()


@settings(max_examples=30)
@given(draw=draws, m=st.integers(1, 70))
def test_lu(device, draw, m):
    """Packed factors, pivots and solutions as SciPy's; P, L and U give the matrix again."""
    scipy = pytest.importorskip("scipy.linalg")
    dtype, lead, how, n, seed = draw
    rng = np.random.default_rng(seed)
    a = rand(rng, (*lead, m, n), dtype)
    p, low, up = (x.to_numpy() for x in la.lu(look(how, a)))
    assert (p.shape, low.shape, up.shape) == ((*lead, m, m), (*lead, m, min(m, n)), (*lead, min(m, n), n))
    near(p @ low @ up, a)
    assert (np.abs(low) <= 1 + 4 * eps(dtype)).all() and (np.tril(low) == low).all() and (np.triu(up) == up).all()
    packed, pivots = la.lu_factor(look(how, a))
    assert pivots.dtype == np.int32
    if m == n:
        one = tuple(0 for _ in lead)
        theirs = scipy.lu_factor(a[one])
        if np.array_equal(theirs[1], pivots.to_numpy()[one]):  # of two candidates of almost one size either may win
            near(packed[one] if one else packed, theirs[0].astype(dtype), scale=n)
        a = regular(rng, (*lead, n, n), dtype)
        b = rand(rng, (n, 2), dtype)
        near(la.lu_solve(la.lu_factor(cm.asarray(a)), cm.asarray(b)), np.linalg.solve(a, b))
        near(la.lu_solve(la.lu_factor(cm.asarray(a)), cm.asarray(b[:, 0])), np.linalg.solve(a, b[:, 0]))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_cholesky(device, dtype, upper):
    """Reads one triangle; the other of the factor is 0."""
    rng = np.random.default_rng(0)
    for lead, n, how in itertools.product(LEADS, (1, 5, 33), LOOKS[:3]):
        a = hermitian(rng, (*lead, n, n), dtype)
        keep = np.tri(n, dtype=bool)
        poisoned = np.where(keep.T if upper else keep, a, np.nan).astype(dtype)
        near(la.cholesky(look(how, poisoned), upper=upper), np.linalg.cholesky(a, upper=upper))


# ---------------------------------------------------------------- orthogonal factors, eigenvalues, singular values


def orthonormal(q: np.ndarray) -> None:
    near(H(q) @ q, np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], q.shape[-1], q.shape[-1])))


@settings(max_examples=30)
@given(draw=draws, m=st.integers(1, 40), mode=st.sampled_from(["reduced", "complete"]))
def test_qr(device, draw, m, mode):
    dtype, lead, how, n, seed = draw
    a = rand(np.random.default_rng(seed), (*lead, m, n), dtype)
    theirs = np.linalg.qr(a, mode)
    found = la.qr(look(how, a), mode)
    q, r = found.Q.to_numpy(), found.R.to_numpy()
    assert (q.shape, r.shape) == (theirs.Q.shape, theirs.R.shape)
    near(q @ r, a)
    orthonormal(q)
    assert (np.triu(r) == r).all()
    only = la.qr(look(how, a), "r").to_numpy()
    near(H(only) @ only, H(a) @ a, scale=4)
    assert only.shape == (*lead, min(m, n), n) and (np.triu(only) == only).all()


@settings(max_examples=30)
@given(draw=draws, triangle=st.sampled_from("LU"))
def test_eigh(device, draw, triangle):
    dtype, lead, how, n, seed = draw
    a = rand(np.random.default_rng(seed), (*lead, n, n), dtype)
    a = a + H(a)
    w, v = la.eigh(look(how, a), triangle)
    near(w, np.linalg.eigvalsh(a))
    near(la.eigvalsh(look(how, a), triangle), np.linalg.eigvalsh(a))
    w, v = w.to_numpy(), v.to_numpy()
    near((v * w[..., None, :]) @ H(v), a)
    orthonormal(v)
    other = np.triu(a) if triangle == "U" else np.tril(a)  # the other triangle is not read
    near(la.eigvalsh(cm.asarray(other), triangle), np.linalg.eigvalsh(a))


@settings(max_examples=30)
@given(draw=draws)
def test_eig(device, draw):
    """Complex, always; of a real matrix in conjugate pairs."""
    dtype, lead, how, n, seed = draw
    a = rand(np.random.default_rng(seed), (*lead, n, n), dtype)
    w, v = (x.to_numpy() for x in la.eig(look(how, a)))
    assert w.dtype == v.dtype == np.result_type(dtype, np.complex64)
    near(a @ v, v * w[..., None, :])
    near(np.linalg.norm(v, axis=-2), np.ones(w.shape, w.real.dtype))
    near(w.sum(-1), np.trace(a, axis1=-2, axis2=-1).astype(w.dtype), scale=n)
    only = la.eigvals(look(how, a)).to_numpy()
    near((only**2).sum(-1), (w**2).sum(-1), scale=n)
    assert only.dtype == w.dtype


@settings(max_examples=30)
@given(draw=draws, m=st.integers(1, 40), full=st.booleans())
def test_svd(device, draw, m, full):
    dtype, lead, how, n, seed = draw
    a = rand(np.random.default_rng(seed), (*lead, m, n), dtype)
    theirs = np.linalg.svd(a, full_matrices=full)
    found = la.svd(look(how, a), full_matrices=full)
    u, s, vh = (x.to_numpy() for x in (found.U, found.S, found.Vh))
    assert (u.shape, vh.shape) == (theirs.U.shape, theirs.Vh.shape)
    near(s, theirs.S)
    k = min(m, n)
    near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a)
    orthonormal(u)
    orthonormal(H(vh))
    near(la.svdvals(look(how, a)), theirs.S)
    near(la.svd(look(how, a), compute_uv=False), theirs.S)


# ---------------------------------------------------------------- what is composed


@settings(max_examples=30)
@given(draw=draws, m=st.integers(1, 12), rank=st.integers(1, 12))
def test_pinv_and_rank(device, draw, m, rank):
    dtype, lead, how, n, seed = draw
    n, rng = min(n, 12), np.random.default_rng(seed)
    full = min(m, n)
    u, v = np.linalg.qr(rand(rng, (*lead, m, full), dtype))[0], np.linalg.qr(rand(rng, (*lead, n, full), dtype))[0]
    s = np.where(np.arange(full) < rank, np.linspace(2, 1, full), 0)
    a = ((u * s[:full]) @ H(v)).astype(dtype)
    tolerance = 50 * eps(dtype)
    near(la.pinv(look(how, a), rtol=tolerance), np.linalg.pinv(a, rtol=tolerance), scale=4)
    ranks = la.matrix_rank(look(how, a), rtol=tolerance)
    np.testing.assert_array_equal(ranks, np.linalg.matrix_rank(a, rtol=tolerance))
    assert ranks.dtype == np.int64
    np.testing.assert_array_equal(la.matrix_rank(look(how, a), tol=0.5), np.linalg.matrix_rank(a, tol=0.5))
    square = a @ H(a)
    np.testing.assert_array_equal(la.matrix_rank(cm.asarray(square), hermitian=True, rtol=tolerance),
                                  np.linalg.matrix_rank(square, hermitian=True, rtol=tolerance))


def test_ranks_of_vectors_and_thresholds_of_each_matrix(device):
    assert int(la.matrix_rank(cm.zeros(3))) == 0 and int(la.matrix_rank([0.0, 1.0])) == 1 and int(la.matrix_rank(2.0)) == 1
    a = np.stack([np.diag([1.0, 0.1]), np.diag([1.0, 0.01])])
    for bound in (np.array([0.5, 0.001]), np.array([0.05, 0.05])):
        np.testing.assert_array_equal(la.matrix_rank(a, tol=bound), np.linalg.matrix_rank(a, tol=bound))
        np.testing.assert_array_equal(la.matrix_rank(a, rtol=bound), np.linalg.matrix_rank(a, rtol=bound))
        near(la.pinv(cm.asarray(a), bound), np.linalg.pinv(a, bound))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("m", "n", "rank"), [(7, 3, 3), (3, 7, 3), (4, 4, 4), (6, 4, 2), (3, 1, 1)])
def test_lstsq(device, dtype, m, n, rank):
    rng = np.random.default_rng(m)
    a = (rand(rng, (m, rank), dtype) @ rand(rng, (rank, n), dtype)).astype(dtype)
    for b in (rand(rng, (m,), dtype), rand(rng, (m, 2), dtype)):
        ours, theirs = la.lstsq(cm.asarray(a), cm.asarray(b), 1e-5), np.linalg.lstsq(a, b, 1e-5)
        near(ours.x, theirs[0], scale=10)
        assert ours.residuals.shape == theirs[1].shape
        near(ours.residuals, theirs[1].astype(ours.s.dtype), scale=10)
        assert ours.rank == theirs[2] == rank and type(ours.rank) is int
        near(ours.s, theirs[3], scale=4)
    stack_a, stack_b = rand(rng, (2, 5, 3), dtype), rand(rng, (2, 5, 2), dtype)
    ours = la.lstsq(cm.asarray(stack_a), cm.asarray(stack_b))
    for i in range(2):
        theirs = np.linalg.lstsq(stack_a[i], stack_b[i])
        near(ours.x[i], theirs[0], scale=10)
        near(ours.residuals[i], theirs[1].real.astype(ours.s.dtype), scale=10)
    assert ours.rank.tolist() == [3, 3]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_expm(device, dtype):
    scipy = pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 30.0):
        a = (rand(rng, (4, 6, 6), dtype) * np.array([scale, 1, 0, scale / 3])[:, None, None]).astype(dtype)
        a = a - H(a)  # of such matrices the exponential is unitary, whatever their size
        ours = la.expm(cm.asarray(a)).to_numpy()
        for got, one in zip(ours, a, strict=True):
            near(got, scipy.expm(one.astype(np.result_type(dtype, "f8"))).astype(dtype), scale=1 + scale)
    near(la.expm(cm.asarray(a[0])), scipy.expm(a[0].astype(np.result_type(dtype, "f8"))).astype(dtype), scale=1 + scale)
    assert np.isnan(la.expm(cm.asarray(np.array([[np.nan]], dtype))).to_numpy()).all()


def test_powers(device):
    rng = np.random.default_rng(0)
    for a in (rand(rng, (2, 3, 3)), rng.integers(-3, 4, (3, 3)), rand(rng, (3, 3), "c8")):
        for n in (0, 1, 2, 3, 5, 12):
            near(la.matrix_power(cm.asarray(a), n), np.linalg.matrix_power(a, n))
    a = regular(rng, (2, 3, 3))
    near(la.matrix_power(cm.asarray(a), -3), np.linalg.matrix_power(a, -3))
    x = cm.asarray(a)
    la.matrix_power(x, 1)[0] = 0  # a copy
    np.testing.assert_array_equal(x, a)


def test_cond(device):
    rng = np.random.default_rng(0)
    a = regular(rng, (2, 4, 4))
    for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"):
        near(la.cond(cm.asarray(a), p), np.linalg.cond(a, p))
    near(la.cond(cm.asarray(a[:, :3]), 2), np.linalg.cond(a[:, :3], 2))
    singular = np.stack([np.diag([1.0, 0.0]), np.eye(2)])
    for p in (None, 2, -2, 1, "fro"):
        near(la.cond(cm.asarray(singular), p), np.linalg.cond(singular, p))


def test_norms_by_singular_values(device):
    a = rand(np.random.default_rng(0), (2, 3, 4))
    for order in (2, -2, "nuc"):
        near(la.matrix_norm(cm.asarray(a), ord=order), np.linalg.matrix_norm(a, ord=order))
        near(la.matrix_norm(cm.asarray(a), ord=order, keepdims=True), np.linalg.matrix_norm(a, ord=order, keepdims=True))
        near(la.norm(cm.asarray(a), order, axis=(0, 2)), np.linalg.norm(a, order, axis=(0, 2)))
    near(la.norm(cm.asarray(a[0]), 2), np.linalg.norm(a[0], 2))


def test_products(device):
    rng = np.random.default_rng(0)
    chain = [rand(rng, s) for s in ((5, 40), (40, 3), (3, 17), (17, 2))]
    near(la.multi_dot([cm.asarray(x) for x in chain]), np.linalg.multi_dot(chain))
    vectors = [rand(rng, (5,)), *chain, rand(rng, (2,))]
    for some in (vectors, vectors[:-1], vectors[1:], chain[:2]):
        near(la.multi_dot([cm.asarray(x) for x in some]), np.linalg.multi_dot(some))
    a = rand(rng, (2, 3, 6)) + np.eye(6).reshape(2, 3, 6) * 3
    near(la.tensorinv(cm.asarray(a)), np.linalg.tensorinv(a))
    near(la.tensorsolve(cm.asarray(a), cm.asarray(rand(np.random.default_rng(1), (2, 3)))),
         np.linalg.tensorsolve(a, rand(np.random.default_rng(1), (2, 3))))
    b = np.moveaxis(a, 2, 0)
    near(la.tensorsolve(cm.asarray(b), cm.ones((2, 3)), axes=(0,)), np.linalg.tensorsolve(b, np.ones((2, 3)), axes=(0,)))
    for axis, (s, t) in ((-1, ((4, 3), (3,))), (0, ((3, 4), (3, 1))), (1, ((2, 3, 2), (1, 3, 2)))):
        x, y = rand(rng, s), rand(rng, t)
        near(la.cross(cm.asarray(x), cm.asarray(y), axis=axis), np.linalg.cross(x, y, axis=axis))
    np.testing.assert_array_equal(la.cross([1, 2, 3], [4, 5, 6]), np.linalg.cross([1, 2, 3], [4, 5, 6]))
    m = rng.integers(0, 9, (2, 3, 4)).astype("i2")
    for offset in (0, 1, -2, 5):
        ours, theirs = la.trace(cm.asarray(m), offset=offset), np.linalg.trace(m, offset=offset)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert la.trace(cm.asarray(m), dtype="float32").dtype == np.float32


# ---------------------------------------------------------------- shapes and dtypes at the edge


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_matrices_without_elements(device, shape):
    a, x = np.zeros(shape, "f4"), cm.zeros(shape, "float32")
    for name in ("inv", "det", "cholesky", "eigvalsh", "svdvals"):
        near(getattr(la, name)(x), getattr(np.linalg, name)(a))
    near(la.eigvals(x), np.linalg.eigvals(a).astype("c8"))
    for name in ("slogdet", "eigh", "svd", "qr"):
        for ours, theirs in zip(getattr(la, name)(x), getattr(np.linalg, name)(a), strict=True):
            near(ours, theirs)
    b = np.ones((*shape[:-1], 2), "f4")
    near(la.solve(x, cm.asarray(b)), np.linalg.solve(a, b))
    assert la.expm(x).shape == shape and la.pinv(x).shape == shape
    assert [y.shape for y in la.lu(x)] == [shape] * 3
    near(la.matrix_power(x, 0), np.linalg.matrix_power(a, 0))


def test_rectangles_without_elements(device):
    for m, n in ((0, 3), (3, 0)):
        a, x = np.zeros((2, m, n)), cm.zeros((2, m, n))
        for mode in ("reduced", "complete"):
            for ours, theirs in zip(la.qr(x, mode), np.linalg.qr(a, mode), strict=True):
                near(ours, theirs)
        for full in (True, False):
            for ours, theirs in zip(la.svd(x, full), np.linalg.svd(a, full), strict=True):
                near(ours, theirs)
        near(la.pinv(x), np.linalg.pinv(a))
        np.testing.assert_array_equal(la.matrix_rank(x), np.linalg.matrix_rank(a))
        ours, theirs = la.lstsq(x[0], cm.ones((m, 2))), np.linalg.lstsq(a[0], np.ones((m, 2)))
        near(ours.x, theirs[0])
        assert ours.rank == theirs[2] == 0


def test_dtypes(device):
    """Integers and bool are float64; 16-bit floats have no LAPACK; two dtypes meet."""
    near(la.solve([[2, 1], [1, 3]], [1, 2]), np.linalg.solve([[2, 1], [1, 3]], [1, 2]))
    near(la.inv(cm.asarray([[True, False], [True, True]])), np.linalg.inv([[1.0, 0], [1, 1]]))
    assert la.solve(cm.eye(2, dtype="float32"), cm.ones(2, "complex64")).dtype == np.complex64
    assert la.solve(cm.eye(2, dtype="float32"), cm.ones(2)).dtype == np.float64
    for dtype in ("float16", "bfloat16"):
        for name in ("inv", "det", "slogdet", "cholesky", "qr", "eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "lu",
                     "lu_factor", "expm", "pinv", "cond"):
            with pytest.raises(TypeError, match=f"^{name}: .*{dtype}"):
                getattr(la, name)(cm.eye(2, dtype=dtype))
        with pytest.raises(TypeError, match=f"^solve: .*{dtype}"):
            la.solve(cm.eye(2), cm.ones(2, dtype))


def test_numpy_calls_ours(device):
    x = cm.asarray([[2.0, 0.0], [0.0, 4.0]])
    assert isinstance(np.linalg.inv(x), cm.ndarray) and isinstance(np.linalg.solve(x, x), cm.ndarray)
    assert isinstance(np.linalg.svd(x, full_matrices=False).S, cm.ndarray)


# ---------------------------------------------------------------- gradients


def pairing(outs: Any, seed: int) -> Any:
    """<w, out> of all results, in real numbers."""
    rng = np.random.default_rng(seed)
    total: Any = 0.0
    for y in outs if isinstance(outs, tuple) else (outs,):
        re, im = rng.normal(size=y.shape), rng.normal(size=y.shape)
        total = total + (y.real * re + y.imag * im if y.dtype.kind == "c" else y * re).sum()
    return total


def slope_matches(value: Any, *arrays: np.ndarray, step: float = 1e-6, tolerance: float = 1e-6) -> None:
    """The gradient against central differences in random directions."""
    rng = np.random.default_rng(7)
    gradients = cm.grad(value, tuple(range(len(arrays))))(*[cm.asarray(a) for a in arrays])
    for _ in range(2):
        ways = [rand(rng, a.shape, a.dtype) for a in arrays]
        up, down = (float(value(*[cm.asarray(a + h * d) for a, d in zip(arrays, ways, strict=True)])) for h in (step, -step))
        parts = [np.real(np.conj(g.to_numpy()) * d) for g, d in zip(gradients, ways, strict=True)]
        promised, size = sum(p.sum() for p in parts), sum(np.abs(p).sum() for p in parts)
        assert abs((up - down) / (2 * step) - promised) <= tolerance * size + 1e-7


GRADIENTS: dict[str, Any] = {
    "solve": lambda a, b: la.solve(a, b),
    "solve vector": lambda a, b: la.solve(a, b[..., 0]) if a.ndim == 2 else la.solve(a, b),
    "inv": lambda a, b: la.inv(a),
    "det": lambda a, b: la.det(a),
    "slogdet": lambda a, b: tuple(la.slogdet(a)),
    "lu": lambda a, b: la.lu(a)[1:],
    "lu tall": lambda a, b: la.lu(a[..., :3])[1:],
    "lu wide": lambda a, b: la.lu(a[..., :3, :])[1:],
    "lower": lambda a, b: la.solve_triangular(a, b, lower=True),
    "upper": lambda a, b: la.solve_triangular(a, b),
    "unit": lambda a, b: la.solve_triangular(a, b, lower=True, unit_diagonal=True),
    "lu_solve": lambda a, b: la.lu_solve(la.lu_factor(a), b),
    "cholesky": lambda a, b: la.cholesky(a @ cm.conj(a).mT),
    "cholesky upper": lambda a, b: la.cholesky(a @ cm.conj(a).mT, upper=True),
    "qr": lambda a, b: tuple(la.qr(a)),
    "qr tall": lambda a, b: tuple(la.qr(a[..., :3])),
    "qr wide": lambda a, b: tuple(la.qr(a[..., :3, :])),
    "qr r": lambda a, b: la.qr(a[..., :3], "r"),
    "qr complete": lambda a, b: tuple(la.qr(a[..., :3, :], "complete")),
    "eigvalsh": lambda a, b: la.eigvalsh(a + cm.conj(a).mT),
    "eigh projector": lambda a, b: (lambda w, v: (w, v[..., :2] @ cm.conj(v[..., :2]).mT))(*la.eigh(a + cm.conj(a).mT, "U")),
    "svdvals": lambda a, b: la.svdvals(a[..., :3]),
    "svd polar": lambda a, b: (lambda u, s, vh: u @ vh)(*la.svd(a, full_matrices=False)),
    "svd tall": lambda a, b: (lambda u, s, vh: (u[..., :2] @ vh[..., :2, :], s))(*la.svd(a[..., :3], full_matrices=False)),
    "svd wide": lambda a, b: (lambda u, s, vh: (u[..., :2] @ vh[..., :2, :], s))(*la.svd(a[..., :3, :], full_matrices=False)),
    "svd full": lambda a, b: la.svd(a[..., :3])[1],
    "eigvals": lambda a, b: la.eigvals(a) ** 3 @ cm.ones(4, "complex128"),
    "eig projector": lambda a, b: (lambda w, v: v @ (cm.exp(w)[..., None] * la.inv(v)))(*la.eig(a)),
    "pinv tall": lambda a, b: la.pinv(a[..., :3]),
    "pinv wide": lambda a, b: la.pinv(a[..., :3, :]),
    "pinv deficient": lambda a, b: la.pinv(a[..., :2] @ a[..., :2, :], rtol=1e-8),
    "lstsq": lambda a, b: la.lstsq(a[..., :3], b)[:2],
    "expm": lambda a, b: la.expm(a),
    "matrix_power": lambda a, b: la.matrix_power(a, -3),
    "cond": lambda a, b: la.cond(a, 1),
    "norm": lambda a, b: la.matrix_norm(a, ord=2) + la.matrix_norm(a, ord="nuc"),
    "multi_dot": lambda a, b: la.multi_dot([a, a, b]) if a.ndim == 2 else a @ (a @ b),
    "cross": lambda a, b: la.cross(a[..., :3], b),
    "trace": lambda a, b: la.trace(a, offset=1),
}


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(device, name, dtype):
    for lead in ((), (2,)):
        rng = np.random.default_rng(3)
        a, b = rand(rng, (*lead, 4, 4), dtype), rand(rng, (*lead, 4, 3), dtype)
        if name in ("lower", "upper", "unit", "expm"):
            a = a / 2 + np.eye(4)
        slope_matches(lambda a, b: pairing(GRADIENTS[name](a, b), 5), a, b)


@pytest.mark.parametrize("name", ["solve", "inv", "slogdet", "lower", "cholesky", "qr tall", "eigvalsh", "svdvals", "pinv tall",
                                  "svd polar"])
def test_second_order(device, name):
    rng = np.random.default_rng(3)
    a, b = rand(rng, (4, 4)), rand(rng, (4, 3))
    if name == "lower":
        a = a / 2 + np.eye(4)

    def slope(a: cm.ndarray, b: cm.ndarray) -> cm.ndarray:
        g = cm.grad(lambda a: pairing(GRADIENTS[name](a, b), 5))(a)
        return pairing(g, 9)

    slope_matches(slope, a, b, tolerance=1e-5)


def test_gradients_of_vectors(device):
    """Of eigenvectors and singular vectors themselves, signs held: along a path on which they move continuously."""
    rng = np.random.default_rng(0)
    a = rand(rng, (4, 4))

    def eigenvectors(a: cm.ndarray) -> cm.ndarray:
        v = la.eigh(a + a.mT).eigenvectors
        return pairing(v * cm.sign(v[:1]), 1)

    def singular(a: cm.ndarray) -> cm.ndarray:
        u, _, vh = la.svd(a[:, :3], full_matrices=False)
        return pairing((u * cm.sign(u[:1]), vh * cm.sign(u[:1]).mT), 1)

    slope_matches(eigenvectors, a)
    slope_matches(singular, a)


def test_gradients_where_singular_values_are_equal(device):
    """pinv has one there, and values alone have one."""
    g = cm.grad(lambda a: (la.pinv(a) * cm.asarray([[1.0, 2.0], [3.0, 4.0]])).sum())(cm.eye(2))
    assert_close(g, -np.array([[1.0, 3.0], [2.0, 4.0]]), rtol=1e-12, atol=1e-12)
    assert_close(cm.grad(lambda a: la.svdvals(a).sum())(cm.eye(3)), np.eye(3), rtol=1e-12, atol=1e-12)
    assert_close(cm.grad(lambda a: la.eigvalsh(a).sum())(cm.eye(3)), np.eye(3), rtol=1e-12, atol=1e-12)


def test_gradients_that_do_not_exist(device):
    a = cm.asarray(rand(np.random.default_rng(0), (4, 3)))
    with pytest.raises(ValueError, match="^qr: mode 'complete'.*no gradient"):
        cm.grad(lambda a: la.qr(a, "complete").Q.sum())(a)
    with pytest.raises(ValueError, match="^svd: full_matrices=True.*no gradient"):
        cm.grad(lambda a: la.svd(a).U.sum())(a)
    with pytest.raises(LinAlgError, match="^inv: Singular"):
        cm.grad(lambda a: la.det(a))(cm.zeros((2, 2))).to_numpy()


# ---------------------------------------------------------------- errors

X = cm.ones


@pytest.mark.parametrize(("call", "error", "says"), [
    *[(lambda name=name: getattr(la, name)(X((2, 3))), LinAlgError, rf"^{name}: .*square.*\(2, 3\)")
      for name in ("inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "eig", "eigvals", "expm", "matrix_power")
      for X in (lambda s: cm.ones(s),)],
    *[(lambda name=name: getattr(la, name)(cm.ones(3)), ValueError, rf"^{name}: .*two dimensions.*\(3,\)")
      for name in ("inv", "det", "slogdet", "cholesky", "eigh", "qr", "svd", "svdvals", "lu", "lu_factor", "pinv", "cond", "trace")],
    (lambda: la.solve(X((2, 3)), X(2)), LinAlgError, r"^solve: .*\(2, 3\)"),
    (lambda: la.solve(cm.eye(2), X(3)), ValueError, r"^solve: .*\(2, 2\) and \(3,\)"),
    (lambda: la.solve(cm.eye(2), X((3, 2))), ValueError, r"^solve: .*\(3, 2\)"),
    (lambda: la.solve(cm.eye(2), X(())), ValueError, r"^solve: .*\(\)"),
    (lambda: la.solve(X((3, 2, 2)), X((4, 2, 1))), ValueError, "^solve: .*broadcast"),
    (lambda: la.solve("text", X(2)), TypeError, "^solve: "),
    (lambda: la.solve_triangular(cm.eye(2), X(3)), ValueError, r"^solve_triangular: .*\(3,\)"),
    (lambda: la.lu_solve(la.lu_factor(cm.eye(2)), X(3)), ValueError, r"^lu_solve: .*\(3,\)"),
    (lambda: la.lu_solve((cm.eye(2), X(2)), X(2)), TypeError, "^lu_solve: .*integer"),
    (lambda: la.qr(cm.eye(2), "raw"), ValueError, "^qr: mode .*'raw'"),
    (lambda: la.eigh(cm.eye(2), "X"), ValueError, "^eigh: UPLO .*'X'"),
    (lambda: la.pinv(cm.eye(2), 1e-3, rtol=1e-3), ValueError, "^pinv: .*both"),
    (lambda: la.matrix_rank(cm.eye(2), 1e-3, rtol=1e-3), ValueError, "^matrix_rank: .*both"),
    (lambda: la.lstsq(X((3, 2)), X(2)), LinAlgError, r"^lstsq: Incompatible dimensions.*\(3, 2\) and \(2,\)"),
    (lambda: la.cond(X((0, 0))), LinAlgError, "^cond: .*empty"),
    (lambda: la.cond(X((2, 3)), 1), LinAlgError, "^cond: .*square"),
    (lambda: la.cond(cm.eye(2), 7), ValueError, "^matrix_norm: .*7"),
    (lambda: la.matrix_power(cm.eye(2), 1.5), TypeError, "^matrix_power: .*1.5"),
    (lambda: la.multi_dot([cm.eye(2)]), ValueError, "^multi_dot: .*two"),
    (lambda: la.multi_dot([cm.eye(2), X((2, 2, 2)), cm.eye(2)]), LinAlgError, r"^multi_dot: .*\(2, 2, 2\)"),
    (lambda: la.tensorinv(cm.eye(4), 0), ValueError, "^tensorinv: .*ind"),
    (lambda: la.tensorsolve(X((2, 3)), X(2)), LinAlgError, r"^tensorsolve: .*\(2, 3\)"),
    (lambda: la.cross(X(2), X(2)), ValueError, r"^cross: .*\(2,\)"),
    (lambda: la.cross(X((2, 3)), X((4, 3))), ValueError, "^cross: .*broadcast"),
])
def test_errors(device, call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize(("call", "says"), [
    (lambda: la.solve(cm.zeros((3, 3)), cm.ones(3)), "^solve: Singular matrix"),
    (lambda: la.solve(cm.zeros((4, 3, 3)), cm.ones((4, 3, 1))), "^solve: Singular matrix"),
    (lambda: la.inv(cm.ones((2, 2))), "^inv: Singular matrix"),
    (lambda: la.inv(cm.asarray(np.stack([np.eye(2), np.zeros((2, 2))]))), "^inv: Singular matrix"),
    (lambda: la.solve_triangular(cm.asarray([[1.0, 0.0], [5.0, 0.0]]), cm.ones(2), lower=True), "^solve_triangular: Singular"),
    (lambda: la.cholesky(-cm.eye(3)), "^cholesky: Matrix is not positive definite"),
    (lambda: la.cholesky(cm.asarray(np.stack([np.eye(2), -np.eye(2)]))), "^cholesky: Matrix is not positive definite"),
])
def test_matrices_that_cannot_be_decomposed(device, call, says):
    """On a GPU the error comes when the result is looked at, and names this file's line; then all is well again."""
    with pytest.raises(LinAlgError, match=says) as caught:
        call().to_numpy()
    if device == "cuda":
        assert "test_linalg.py:" in str(caught.value)
    assert la.inv(cm.eye(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_singular_matrices_have_determinants_and_factors(device):
    assert float(la.det(cm.ones((2, 2)))) == 0.0
    sign, logdet = la.slogdet(cm.zeros((3, 2, 2)))
    assert sign.tolist() == [0.0] * 3 and logdet.tolist() == [-np.inf] * 3
    p, low, up = la.lu(cm.ones((3, 3)))
    near(p @ low @ up, np.ones((3, 3)))


# ---------------------------------------------------------------- kernels and plans


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_kernels(machine, dtype):
    """triangle, identity, conjugate, zero_based, log_determinant by name."""
    rng = np.random.default_rng(0)
    a = rand(rng, (2, 4, 5), dtype)
    size = 40

    def cube(kernel: Any) -> Any:
        return lambda x: Plan([x.like()], [Launch(kernel, 1, 128, [Input(0), Output(0)])])

    np.testing.assert_array_equal(run_version(machine, cube(planners.triangle(a.dtype, True)), a), np.triu(a))
    np.testing.assert_array_equal(run_version(machine, cube(planners.triangle(a.dtype, False)), a), np.tril(a))
    square = np.ascontiguousarray(a[:, :, :4])
    made = run_version(machine, lambda x: Plan([x.like()], [Launch(planners.identity(x.dtype), 1, 128, [Output(0)])]), square)
    np.testing.assert_array_equal(made, np.broadcast_to(np.eye(4, dtype=dtype), (2, 4, 4)))
    real = np.ascontiguousarray(a.view(a.real.dtype).reshape(-1, 2))[:size].copy()
    before = real.copy()
    if machine == "simulator":
        simulate(Plan([], [Launch(planners.conjugate(real.dtype), 1, 128, [Input(0)])]), real)
        np.testing.assert_array_equal(real, before * np.array([1, -1], real.dtype))
    pivots = rng.integers(1, 9, 20)
    out = run_version(machine, lambda p: Plan([p.like(dtype="int32")], [Launch(planners.zero_based, 1, 128,
                                                                              [Input(0), Output(0)])]), pivots)
    np.testing.assert_array_equal(out, pivots - 1)
    scipy = pytest.importorskip("scipy.linalg")
    full = rand(rng, (3, 5, 5), dtype)
    full[2, :, 0] = 0
    with np.testing.suppress_warnings() as quiet:
        quiet.filter(RuntimeWarning)
        packed = [scipy.lu_factor(m) for m in full]
    lu, exchanges = np.stack([p[0] for p in packed]).astype(dtype), np.stack([p[1] for p in packed]).astype(np.int64) + 1

    def log_determinant(lu: Layout, pivots: Layout) -> Plan:
        return Plan([lu.like((3,)), planners._real(lu, (3,))], [Launch(planners.log_determinant(lu.dtype), 3, planners.THREADS,
                                                                      [Input(0), Input(1), Output(0), Output(1)])])

    sign, logdet = run_version(machine, log_determinant, lu, exchanges)
    with np.errstate(divide="ignore"):
        expected = np.linalg.slogdet(full)
    near(sign, expected.sign)
    assert_close(logdet, expected.logabsdet, rtol=0, atol=1e-5)


@pytest.mark.simulator
def test_flagging_kernels_in_the_simulator():
    def flagged(kernel: Any, x: np.ndarray) -> bool:
        try:
            simulate(Plan([], [Launch(kernel, 1, 128, [Input(0), Flag(), Ticket()])]), x)
        except IndexError:  # what the simulator makes of any flag
            return True
        return False

    assert flagged(planners.check_info, np.array([0, 0, 3], np.int32))
    assert not flagged(planners.check_info, np.zeros(4, np.int32))
    triangles = np.stack([np.eye(3), np.eye(3)])
    assert not flagged(planners.check_diagonal(triangles.dtype), triangles)
    triangles[1, 2, 2] = 0
    assert flagged(planners.check_diagonal(triangles.dtype), triangles)


@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("count", [1, 7])
def test_plans_compile_without_spills(dtype, count):
    kind = np.dtype(dtype)
    a, b, t = (Layout.new((count, 9, k), kind, 0) for k in (9, 3, 5))
    plans = [(planners.solve(a, b), [a, b]), (planners.inv(a), [a]), (planners.slogdet(a), [a]), (planners.lu_factor(t), [t]),
             (planners.solve_triangular(a, b, lower=True, unit=False), [a, b]), (planners.cholesky(a, upper=False), [a]),
             (planners.qr(t, complete=True), [t]), (planners.eigh(a, upper=True), [a]), (planners.svd(t, full=False), [t])]
    for plan, inputs in plans:
        for found in compile_plan(plan, inputs, (9, 0)):
            assert found.spills == 0 and found.registers <= 64, found


def kernels(plan: Plan) -> list[str]:
    return [step.kernel.__name__ if isinstance(step, Launch) else "library" for step in plan.steps]


def test_nothing_is_moved_twice():
    """One straight copy of each input, whichever way it lies; results come out as they are."""
    rows = Layout.new((9, 9), np.dtype("f8"), 0)
    columns = Layout.of((9, 9), (8, 72), np.dtype("f8"), 0)
    vector = Layout.new((9, 1), np.dtype("f8"), 0)
    for a in (rows, columns):
        found = kernels(planners.solve(a, vector))
        assert len(found) == 5 and "tiled" not in found and "strided" not in found, found
        assert len(kernels(planners.inv(a))) == 5
        assert kernels(planners.solve_triangular(a, vector, lower=True, unit=True))[-1] == "library"
        assert len(kernels(planners.solve_triangular(a, vector, lower=True, unit=True))) == 2
    assert kernels(planners.svd(Layout.new((4, 9), np.dtype("f8"), 0), full=False))[1:] == ["library", "check_info"]


# ---------------------------------------------------------------- failures and handles, without a GPU


def test_a_flagged_failure_is_raised_at_the_next_synchronisation(fake):
    """Negative: LinAlgError of the call; positive: IndexError; a ticket long forgotten still tells which of the two."""
    here = stream.current_stream(0)
    flags.address(0)
    _, value = flags._flags[0]
    value.value = -flags.ticket("cholesky")
    with pytest.raises(LinAlgError, match=r"^cholesky: Matrix is not positive definite, called at .*test_linalg.py:\d+ "):
        here.synchronize()
    here.synchronize()  # raised once
    old = flags.ticket("inv")
    for _ in range(5000):
        flags.ticket("take")
    value.value = -old
    with pytest.raises(LinAlgError, match="^linalg: a decomposition failed"):
        here.synchronize()
    value.value = flags.ticket("take")
    with pytest.raises(IndexError, match="^take: "):
        here.synchronize()


class FakeSolver:
    """A stand-in for cuSOLVER that counts, and answers size queries."""

    class cuSOLVERError(Exception):
        pass

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.handles = itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("create"):
            return lambda: next(self.handles)
        if name.endswith("buffer_size"):
            return lambda *a: (self.calls.append((name, *a)), 3000 if name[0] != "x" else (3000, 10))[1]
        return lambda *a: self.calls.append((name, *a))


@pytest.fixture
def fake_solver(monkeypatch, fake):
    import types

    library = FakeSolver()
    monkeypatch.setattr(solver, "_bindings", lambda: library)
    monkeypatch.setattr(solver, "_errors", lambda: (FakeSolver.cuSOLVERError,))
    monkeypatch.setattr(solver, "_handles", {})
    monkeypatch.setattr(solver.libraries, "find", lambda name: types.SimpleNamespace(path="there", looked="", remedy=""))
    return library


def test_handles_and_workspace(fake_solver):
    """One handle a stream, gone with it; sizes are asked for once; workspace is the pool's, for the call."""
    here, other = stream.current_stream(0), stream.Stream(0)
    assert solver.handle(here) is solver.handle(here) is not solver.handle(other)
    assert ("set_stream", 4, other.ptr) in fake_solver.calls
    del other
    assert len(solver._handles) == 1
    assert [c[0] for c in fake_solver.calls[-3:]] == ["destroy_gesvdj_info", "destroy_params", "destroy"]
    fake_solver.calls.clear()
    a, pivots, info = gpu(np.ones((2, 3, 3))), gpu(np.zeros((2, 3), np.int64)), gpu(np.zeros(2, np.int32))
    run = solver.getrf(np.dtype("f8"), 3, 3, 2)
    before = here.pool.used
    run(here, a._data, pivots._data, info._data)
    run(here, a._data, pivots._data, info._data)
    assert here.pool.used == before and here.pool.peak >= before + 3000
    names = [c[0] for c in fake_solver.calls]
    assert names == ["xgetrf_buffer_size", *["xgetrf"] * 4]
    first, second = fake_solver.calls[1:3]
    assert second[6] - first[6] == 72 and second[8] - first[8] == 24 and second[-1] - first[-1] == 4  # a, pivots, info
    assert first[11] == 3000 and first[13] == 10


def test_refusals_and_errors_of_the_library(fake_solver, monkeypatch):
    run = solver.syevd(np.dtype("f8"), 3, solver.LOWER, True, 1)
    here = stream.current_stream(0)
    monkeypatch.setattr(here, "capturing", True)
    with pytest.raises(RuntimeError, match="^cusolverDnXsyevd.*CUDA graph"):
        run(here, 0, 0, 0)
    monkeypatch.setattr(here, "capturing", False)

    def broken(*_: Any) -> None:
        raise FakeSolver.cuSOLVERError("CUSOLVER_STATUS_ALLOC_FAILED")

    monkeypatch.setattr(fake_solver, "xsyevd", broken, raising=False)
    with pytest.raises(cm.cuda.OutOfMemoryError, match=r"^cusolverDnXsyevd \(3, 3\) float64: "):
        run(here, 0, 0, 0)
    monkeypatch.setattr(solver, "_handles", {})
    import types

    monkeypatch.setattr(solver.libraries, "find", lambda name: types.SimpleNamespace(path=None, looked="no libcusolver", remedy=""))
    with pytest.raises(cm.cuda.DeviceError, match="^linalg: cuSOLVER was not found .*no libcusolver"):
        run(here, 0, 0, 0)


def test_library_calls_are_what_the_planners_say():
    """Which routine for which batch: one matrix or large ones one by one, small ones together."""
    def library(plan: Plan) -> list[str]:
        return [step.fn.__qualname__.split(".")[0] for step in plan.steps if isinstance(step, Call)]

    one, many, large = (Layout.new(s, np.dtype("f4"), 0) for s in ((9, 9), (5, 9, 9), (2, 300, 300)))
    assert library(planners.solve(one, one)) == library(planners.solve(large, large)) == ["getrf", "getrs"]
    assert library(planners.solve(many, many)) == ["getrf_batched", "getrs_batched"]
    assert library(planners.inv(many)) == ["getrf_batched", "getri_batched"]
    assert library(planners.cholesky(one, upper=True)) == ["potrf"]
    assert library(planners.cholesky(many, upper=True)) == ["potrf_batched"]
    assert library(planners.svd(many, full=True)) == library(planners.svdvals(many)) == ["gesvdj_batched"]
    assert library(planners.svd(large, full=True)) == ["gesvd"]
