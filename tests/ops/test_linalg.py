"""cudamath.linalg's decompositions and what is composed of them: the cards cholesky eig eigh
eigvals eigvalsh inv inv_and_sign qr qr_r slogdet solve solve_triangular svd svdvals, and det, pinv,
lstsq, matrix_rank, matrix_power, cond, expm, multi_dot, tensorinv, tensorsolve, cross, trace.
Against NumPy and SciPy; factors, which are not unique, by putting the matrix together again.
Gradients: test_linalg_gradients.py; LU: test_lu.py; kernels and handles: test_linalg_plans.py."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import LEADS, LOOKS, TYPES, H, draws, hermitian, look, near, rand, regular
from strategies import eps

import cudamath as cm

la = cm.linalg
LinAlgError = np.linalg.LinAlgError


# -------------------- systems


@settings(max_examples=25)
@given(draw=draws, k=st.sampled_from([None, 1, 3]), how=st.sampled_from(LOOKS))
def test_solve_and_inv(device, draw, k, how):
    dtype, lead, first, n, seed = draw
    rng = np.random.default_rng(seed)
    a = regular(rng, (*lead, n, n), dtype)
    b = rand(rng, (n,) if k is None else (*lead, n, k), dtype)
    near(
        la.solve(look(first, a), cm.asarray(b) if k is None else look(how, b)),
        np.linalg.solve(a, b),
    )
    near(la.inv(look(first, a)), np.linalg.inv(a))
    near(
        la.det(look(first, a)) ** (1 / n)
        if dtype.kind == "c"
        else cm.abs(la.det(look(first, a))) ** (1 / n),
        np.linalg.det(a) ** (1 / n) if dtype.kind == "c" else np.abs(np.linalg.det(a)) ** (1 / n),
        scale=4,
    )
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
    near(
        la.solve_triangular(cm.asarray(np.tril(a)), cm.asarray(b), lower=True),
        np.linalg.solve(np.tril(a), b),
    )


@settings(max_examples=25)
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
    poisoned = np.where(
        np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T, a, np.nan
    ).astype(dtype)
    if unit:
        poisoned[..., range(n), range(n)] = np.nan
    x = la.solve_triangular(look(how, poisoned), cm.asarray(b), lower=lower, unit_diagonal=unit)
    columns = b[:, None] if k is None else b
    got = x.to_numpy()[..., None] if k is None else x.to_numpy()
    assert got.dtype == dtype and x.shape == ((*lead, n) if k is None else (*lead, n, k))
    bound = np.abs(clean) @ np.abs(got)  # what rounding can do to each row
    assert (np.abs(clean @ got - columns) <= 20 * n * eps(dtype) * (bound + np.abs(columns))).all()


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


# -------------------- orthogonal factors, eigenvalues, singular values


def orthonormal(q: np.ndarray) -> None:
    near(
        H(q) @ q,
        np.broadcast_to(
            np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], q.shape[-1], q.shape[-1])
        ),
    )


@settings(max_examples=20)
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


@settings(max_examples=20)
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


@settings(max_examples=20)
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


@settings(max_examples=20)
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


# -------------------- what is composed


@settings(max_examples=20)
@given(draw=draws, m=st.integers(1, 12), rank=st.integers(1, 12))
def test_pinv_and_rank(device, draw, m, rank):
    dtype, lead, how, n, seed = draw
    n, rng = min(n, 12), np.random.default_rng(seed)
    full = min(m, n)
    u, v = (
        np.linalg.qr(rand(rng, (*lead, m, full), dtype))[0],
        np.linalg.qr(rand(rng, (*lead, n, full), dtype))[0],
    )
    s = np.where(np.arange(full) < rank, np.linspace(2, 1, full), 0)
    a = ((u * s[:full]) @ H(v)).astype(dtype)
    tolerance = 50 * eps(dtype)
    near(la.pinv(look(how, a), rtol=tolerance), np.linalg.pinv(a, rtol=tolerance), scale=4)
    ranks = la.matrix_rank(look(how, a), rtol=tolerance)
    np.testing.assert_array_equal(ranks, np.linalg.matrix_rank(a, rtol=tolerance))
    assert ranks.dtype == np.int64
    np.testing.assert_array_equal(
        la.matrix_rank(look(how, a), tol=0.5), np.linalg.matrix_rank(a, tol=0.5)
    )
    square = a @ H(a)
    np.testing.assert_array_equal(
        la.matrix_rank(cm.asarray(square), hermitian=True, rtol=tolerance),
        np.linalg.matrix_rank(square, hermitian=True, rtol=tolerance),
    )


def test_ranks_of_vectors_and_thresholds_of_each_matrix(device):
    assert (
        int(la.matrix_rank(cm.zeros(3))) == 0
        and int(la.matrix_rank([0.0, 1.0])) == 1
        and int(la.matrix_rank(2.0)) == 1
    )
    a = np.stack([np.diag([1.0, 0.1]), np.diag([1.0, 0.01])])
    for bound in (np.array([0.5, 0.001]), np.array([0.05, 0.05])):
        np.testing.assert_array_equal(
            la.matrix_rank(a, tol=bound), np.linalg.matrix_rank(a, tol=bound)
        )
        np.testing.assert_array_equal(
            la.matrix_rank(a, rtol=bound), np.linalg.matrix_rank(a, rtol=bound)
        )
        near(la.pinv(cm.asarray(a), bound), np.linalg.pinv(a, bound))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    ("m", "n", "rank"), [(7, 3, 3), (3, 7, 3), (4, 4, 4), (6, 4, 2), (3, 1, 1)]
)
def test_lstsq(device, dtype, m, n, rank):
    rng = np.random.default_rng(m)
    a = (rand(rng, (m, rank), dtype) @ rand(rng, (rank, n), dtype)).astype(dtype)
    for b in (rand(rng, (m,), dtype), rand(rng, (m, 2), dtype)):
        ours, theirs = la.lstsq(cm.asarray(a), cm.asarray(b), 1e-5), np.linalg.lstsq(a, b, 1e-5)
        near(ours.x, theirs[0], scale=10)
        assert ours.residuals.shape == theirs[1].shape
        near(ours.residuals, theirs[1].astype(ours.s.dtype), scale=10)
        assert ours.rank == theirs[2] == rank and (ours.rank.shape, ours.rank.dtype) == (
            (),
            np.int32,
        )
        assert list(range(ours.rank)) == list(range(rank))
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
        a = (
            rand(rng, (4, 6, 6), dtype) * np.array([scale, 1, 0, scale / 3])[:, None, None]
        ).astype(dtype)
        a = a - H(a)  # of such matrices the exponential is unitary, whatever their size
        ours = la.expm(cm.asarray(a)).to_numpy()
        for got, one in zip(ours, a, strict=True):
            near(
                got,
                scipy.expm(one.astype(np.result_type(dtype, "f8"))).astype(dtype),
                scale=1 + scale,
            )
    near(
        la.expm(cm.asarray(a[0])),
        scipy.expm(a[0].astype(np.result_type(dtype, "f8"))).astype(dtype),
        scale=1 + scale,
    )
    for number in (2, [2]):
        number = np.array(number, dtype)
        near(la.expm(cm.asarray(number)), scipy.expm(number).astype(dtype))
    odd = np.zeros((4, 2, 2), dtype)
    odd[0, 0, 1], odd[2, 1, 0] = np.nan, np.inf
    ours = la.expm(cm.asarray(odd)).to_numpy()
    assert np.isnan(ours[[0, 2]]).all()
    near(ours[[1, 3]], np.broadcast_to(np.eye(2, dtype=dtype), (2, 2, 2)))
    assert np.isnan(la.expm(cm.asarray(np.array([[np.nan]], dtype))).to_numpy()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_expm_of_matrices_far_from_normal(device, dtype):
    """exp [[1, b], [0, -1]] = [[e, b (e - 1/e) / 2], [0, 1/e]]: their norm says nothing about how
    many squarings they need (Al-Mohy and Higham 2009), each of which costs digits."""
    sizes = [0.0, 1.0, 1e3, 1e6, 1e9, 1e12, *([] if dtype == "float32" else [1e60, 1e200])]
    a = np.array([[[1, b], [0, -1]] for b in sizes] + [[[0, b], [0, 0]] for b in sizes], dtype)
    half = math.sinh(1)
    exact = [[[math.e, b * half], [0, 1 / math.e]] for b in sizes]
    exact += [[[1, b], [0, 1]] for b in sizes]
    eps = 8 * np.finfo(dtype).eps
    # a GPU factors small matrices' transposes, so that a 0 below the diagonal is a rounding of 1
    zero = 0 if device == "cpu" else np.finfo(dtype).eps
    np.testing.assert_allclose(la.expm(cm.asarray(a)).to_numpy(), exact, rtol=eps, atol=zero)
    for one, of in zip(a, exact, strict=True):
        np.testing.assert_allclose(la.expm(cm.asarray(one)).to_numpy(), of, rtol=eps, atol=zero)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_expm_of_elements_of_all_sizes(device, dtype):
    """Rows and columns are scaled alike before the norm is looked at."""
    large = 1e30 if dtype == "float32" else 1e300
    root = math.sqrt(large)
    cases = [
        ([[0, large], [0, 0]], [[1, large], [0, 1]]),
        ([[1, large], [0, 1]], [[math.e, math.e * large], [0, math.e]]),
        ([[0, 0], [-large, 0]], [[1, 0], [-large, 1]]),
        ([[0, large], [0, 2]], [[1, large * math.expm1(2) / 2], [0, math.exp(2)]]),
        (  # a cycle of mean 1
            [[0, large], [1 / large, 0]],
            [[math.cosh(1), large * math.sinh(1)], [math.sinh(1) / large, math.cosh(1)]],
        ),
        ([[0, root, 0], [0, 0, root], [0, 0, 0]], [[1, root, large / 2], [0, 1, root], [0, 0, 1]]),
        (
            [[0, large, 0], [0, 0, large], [0, 0, 0]],
            [[1, large, math.inf], [0, 1, large], [0, 0, 1]],
        ),
    ]
    for a, exact in cases:
        got = la.expm(cm.asarray(np.array(a, dtype))).to_numpy()
        wide = np.array(exact, dtype)
        infinite = np.isinf(wide.real)
        rtol = 16 * np.finfo(dtype).eps
        np.testing.assert_allclose(got[~infinite], wide[~infinite], rtol=rtol, atol=0)
        assert not np.isfinite(got[infinite]).any()
    small = [c for c in cases if len(c[0]) == 2]
    both = la.expm(cm.asarray(np.array([a for a, _ in small], dtype))).to_numpy()
    np.testing.assert_allclose(both, np.array([e for _, e in small], dtype), rtol=rtol, atol=0)


def test_large_stiff_matrices_have_their_exponential(device):
    """Elements of a cycle cannot be scaled away."""
    a = np.array([[-1e6, 1e6], [2e6, -2e6]])
    np.testing.assert_allclose(
        la.expm(cm.asarray(a)).to_numpy(), [[2 / 3, 1 / 3], [2 / 3, 1 / 3]], rtol=1e-9
    )


def test_gradient_of_expm_far_from_normal(device):
    """By b the upper right element has the derivative sinh 1, by the others that of differences."""
    weight = cm.asarray([[0.0, 1.0], [0.0, 0.0]])
    slope = cm.grad(lambda a: (la.expm(a) * weight).sum())(cm.asarray([[1.0, 1e6], [0.0, -1.0]]))
    assert slope.to_numpy()[0, 1] == pytest.approx(math.sinh(1), rel=1e-12)
    # of x = b (exp p - exp q) / (p - q) by p at p = 1, q = -1
    by_p = 1e6 * (math.e / 2 - math.sinh(1) / 2)
    assert slope.to_numpy()[0, 0] == pytest.approx(by_p, rel=1e-9)


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
    for p in (None, 2, -2, 1, np.inf, "fro"):
        near(la.cond(cm.asarray(singular), p), np.linalg.cond(singular, p))
    for p in (1, -1, np.inf, -np.inf):
        for one in (a[0], a[0].T, a[0] + 1j * a[1], singular[1]):
            near(la.cond(cm.asarray(one), p), np.linalg.cond(one, p))
    many = regular(rng, (2, 3, 5, 5))  # enough for a batched routine
    many[0, 1], many[1, 0, :, 3], many[1, 2, 2, 2] = 0, 0, np.nan
    for dtype in ("f8", "c16"):
        for p in (1, -np.inf, "fro"):
            given = many.astype(dtype)
            want = np.linalg.cond(given, p)
            assert np.isinf(want).sum() == 2 and np.isnan(want).sum() == 1
            np.testing.assert_allclose(la.cond(cm.asarray(given), p).to_numpy(), want, rtol=1e-10)
            near(la.cond(cm.asarray(given[1, 1].T), p), np.linalg.cond(given[1, 1].T, p))
    assert la.cond(cm.zeros((0, 2, 2)), 1).shape == (0,)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_cond_of_nan_on_the_cpu(dtype):
    """NaN as the first pivot: LAPACK's determinant is 0 then, as of a singular matrix, whose
    condition number is infinite."""
    many = np.stack([np.array([[np.nan, 1], [1, 1]]), np.eye(2), np.ones((2, 2))]).astype(dtype)
    with np.errstate(all="ignore"):
        for p in (1, -1, np.inf, "fro"):
            want = np.linalg.cond(many, p)
            assert [*np.isnan(want)] == [True, False, False] and want[2] == np.inf
            np.testing.assert_allclose(
                la.cond(cm.asarray(many, device="cpu"), p).to_numpy(), want, rtol=1e-6
            )
            recorded, back = cm.vjp(lambda a, p=p: la.cond(a, p), cm.asarray(many, device="cpu"))
            assert recorded.dtype == want.dtype
            np.testing.assert_allclose(recorded.to_numpy(), want, rtol=1e-6)
            (g,) = back(cm.asarray(np.array([0, 1, 0], want.dtype), device="cpu"))
            assert np.isfinite(g.to_numpy()[1]).all()


def test_matrix_norms_again(device):
    """A second call finds its plan by layout and `keepdims`; what it was first given does not
    matter."""
    x = rand(np.random.default_rng(1), (2, 3, 4))
    for matrix in (x, x.T, x[1], x.astype("f4"), x.astype("i8"), x[:, ::2]):
        for keepdims in (False, True, 1):
            for factor in (1, 2):
                found = la.matrix_norm(factor * cm.asarray(matrix), keepdims=keepdims)
                want = np.linalg.matrix_norm(factor * matrix, keepdims=bool(keepdims))
                assert found.shape == want.shape
                near(found, want)
    with pytest.raises(ValueError, match="^matrix_norm: wants arrays of at least two"):
        la.matrix_norm(cm.asarray(x[0, 0]))


def test_norms_by_singular_values(device):
    a = rand(np.random.default_rng(0), (2, 3, 4))
    for order in (2, -2, "nuc"):
        near(la.matrix_norm(cm.asarray(a), ord=order), np.linalg.matrix_norm(a, ord=order))
        near(
            la.matrix_norm(cm.asarray(a), ord=order, keepdims=True),
            np.linalg.matrix_norm(a, ord=order, keepdims=True),
        )
        near(la.norm(cm.asarray(a), order, axis=(0, 2)), np.linalg.norm(a, order, axis=(0, 2)))
    near(la.norm(cm.asarray(a[0]), 2), np.linalg.norm(a[0], 2))


def test_dot_products_again(device):
    """Calls that were seen before, on other numbers: conjugates too."""
    rng = np.random.default_rng(0)
    for dtype in ("f4", "c8", "c16"):
        for shape in ((64,), (7,), (3, 5), (4, 16, 16)):
            for _ in range(3):
                a, b = rand(rng, shape, dtype), rand(rng, shape, dtype)
                x, y = cm.asarray(a), cm.asarray(b)
                near(la.vecdot(x, y), np.linalg.vecdot(a, b), scale=4)
                near(la.vdot(x, y), np.vdot(a, b), scale=4)
                near(la.vecdot(x.T, y.T, axis=0), np.linalg.vecdot(a.T, b.T, axis=0), scale=4)
                if a.ndim > 1:
                    for offset in (0, 1, -1):
                        near(la.trace(x, offset=offset), np.linalg.trace(a, offset=offset), scale=4)
                    near(
                        la.trace(x, dtype="complex128"),
                        np.linalg.trace(a, dtype="complex128"),
                        scale=4,
                    )
                    near(la.trace(x.mT), np.linalg.trace(a.mT), scale=4)


def test_products(device):
    rng = np.random.default_rng(0)
    chain = [rand(rng, s) for s in ((5, 40), (40, 3), (3, 17), (17, 2))]
    near(la.multi_dot([cm.asarray(x) for x in chain]), np.linalg.multi_dot(chain))
    vectors = [rand(rng, (5,)), *chain, rand(rng, (2,))]
    for some in (vectors, vectors[:-1], vectors[1:], chain[:2]):
        near(la.multi_dot([cm.asarray(x) for x in some]), np.linalg.multi_dot(some))
    a = rand(rng, (2, 3, 6)) + np.eye(6).reshape(2, 3, 6) * 3
    near(la.tensorinv(cm.asarray(a)), np.linalg.tensorinv(a))
    near(
        la.tensorsolve(cm.asarray(a), cm.asarray(rand(np.random.default_rng(1), (2, 3)))),
        np.linalg.tensorsolve(a, rand(np.random.default_rng(1), (2, 3))),
    )
    b = np.moveaxis(a, 2, 0)
    near(
        la.tensorsolve(cm.asarray(b), cm.ones((2, 3)), axes=(0,)),
        np.linalg.tensorsolve(b, np.ones((2, 3)), axes=(0,)),
    )
    for axis, (s, t) in ((-1, ((4, 3), (3,))), (0, ((3, 4), (3, 1))), (1, ((2, 3, 2), (1, 3, 2)))):
        x, y = rand(rng, s), rand(rng, t)
        near(la.cross(cm.asarray(x), cm.asarray(y), axis=axis), np.linalg.cross(x, y, axis=axis))
    np.testing.assert_array_equal(
        la.cross([1, 2, 3], [4, 5, 6]), np.linalg.cross([1, 2, 3], [4, 5, 6])
    )
    m = rng.integers(0, 9, (2, 3, 4)).astype("i2")
    for offset in (0, 1, -2, 5):
        ours, theirs = la.trace(cm.asarray(m), offset=offset), np.linalg.trace(m, offset=offset)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert la.trace(cm.asarray(m), dtype="float32").dtype == np.float32


# -------------------- shapes and dtypes at the edge


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


def test_systems_without_right_sides(device):
    a = regular(np.random.default_rng(0), (3, 3))
    for call in (la.solve, la.solve_triangular):
        assert call(cm.asarray(a), cm.ones((3, 0))).shape == (3, 0)
        assert call(cm.asarray(a), cm.ones((4, 3, 0))).shape == (4, 3, 0)


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
        for name in (
            "inv",
            "det",
            "slogdet",
            "cholesky",
            "qr",
            "eigh",
            "eigvalsh",
            "eig",
            "eigvals",
            "svd",
            "svdvals",
            "lu",
            "lu_factor",
            "expm",
            "pinv",
            "cond",
        ):
            with pytest.raises(TypeError, match=f"^{name}: .*{dtype}"):
                getattr(la, name)(cm.eye(2, dtype=dtype))
        with pytest.raises(TypeError, match=f"^solve: .*{dtype}"):
            la.solve(cm.eye(2), cm.ones(2, dtype))


def test_numpy_calls_ours(device):
    x = cm.asarray([[2.0, 0.0], [0.0, 4.0]])
    assert isinstance(np.linalg.inv(x), cm.ndarray) and isinstance(
        np.linalg.solve(x, x), cm.ndarray
    )
    assert isinstance(np.linalg.svd(x, full_matrices=False).S, cm.ndarray)


# -------------------- errors

X = cm.ones


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        *[
            (
                lambda name=name: getattr(la, name)(X((2, 3))),
                LinAlgError,
                rf"^{name}: .*square.*\(2, 3\)",
            )
            for name in (
                "inv",
                "det",
                "slogdet",
                "cholesky",
                "eigh",
                "eigvalsh",
                "eig",
                "eigvals",
                "expm",
            )
        ],
        (lambda: la.matrix_power(X((2, 3)), 2), LinAlgError, r"^matrix_power: .*square.*\(2, 3\)"),
        *[
            (
                lambda name=name: getattr(la, name)(cm.ones(3)),
                ValueError,
                rf"^{name}: .*two dimensions.*\(3,\)",
            )
            for name in (
                "inv",
                "det",
                "slogdet",
                "cholesky",
                "eigh",
                "qr",
                "svd",
                "svdvals",
                "lu",
                "lu_factor",
                "pinv",
                "cond",
                "trace",
            )
        ],
        (lambda: la.solve(X((2, 3)), X(2)), LinAlgError, r"^solve: .*\(2, 3\)"),
        (lambda: la.solve(cm.eye(2), X(3)), ValueError, r"^solve: .*\(2, 2\) and \(3,\)"),
        (lambda: la.solve(cm.eye(2), X((3, 2))), ValueError, r"^solve: .*\(3, 2\)"),
        (lambda: la.solve(cm.eye(2), X(())), ValueError, r"^solve: .*\(\)"),
        (lambda: la.solve(X((3, 2, 2)), X((4, 2, 1))), ValueError, "^solve: .*broadcast"),
        (lambda: la.solve("text", X(2)), TypeError, "^solve: "),
        (lambda: la.solve_triangular(cm.eye(2), X(3)), ValueError, r"^solve_triangular: .*\(3,\)"),
        (lambda: la.lu_solve(la.lu_factor(cm.eye(2)), X(3)), ValueError, r"^lu_solve: .*\(3,\)"),
        (lambda: la.lu_solve((cm.eye(2), X(2)), X(2)), TypeError, "^lu_solve: .*integer"),
        (
            lambda: la.lu_solve((cm.eye(2), [1]), X(2)),
            ValueError,
            r"^lu_solve: .*pivot .* 2 rows, got .*\(1,\)",
        ),
        (
            lambda: la.lu_solve((cm.eye(2), 1), X(2)),
            ValueError,
            r"^lu_solve: .*pivots of shape \(\)",
        ),
        (lambda: la.qr(cm.eye(2), "rw"), ValueError, "^qr: mode .*'rw'"),
        (lambda: la.eigh(cm.eye(2), "X"), ValueError, "^eigh: UPLO .*'X'"),
        (lambda: la.pinv(cm.eye(2), 1e-3, rtol=1e-3), ValueError, "^pinv: .*both"),
        (lambda: la.matrix_rank(cm.eye(2), 1e-3, rtol=1e-3), ValueError, "^matrix_rank: .*both"),
        (
            lambda: la.lstsq(X((3, 2)), X(2)),
            LinAlgError,
            r"^lstsq: Incompatible dimensions.*\(3, 2\) and \(2,\)",
        ),
        (lambda: la.cond(X((0, 0))), LinAlgError, "^cond: .*empty"),
        (lambda: la.cond(X((2, 3)), 1), LinAlgError, "^cond: .*square"),
        (lambda: la.cond(cm.eye(2), 7), ValueError, "^cond: .*7"),
        (lambda: la.matrix_power(cm.eye(2), 1.5), TypeError, "^matrix_power: .*1.5"),
        (lambda: la.multi_dot([cm.eye(2)]), ValueError, "^multi_dot: .*two"),
        (
            lambda: la.multi_dot([X((2, 3)), X((4, 5)), X((5, 2))]),
            ValueError,
            r"^multi_dot: .*\(4, 5\).*\(2, 3\)",
        ),
        (
            lambda: la.multi_dot([cm.eye(2), X((2, 2, 2)), cm.eye(2)]),
            LinAlgError,
            r"^multi_dot: .*\(2, 2, 2\)",
        ),
        (lambda: la.tensorinv(cm.eye(4), 0), ValueError, "^tensorinv: .*ind"),
        (lambda: la.tensorsolve(X((2, 3)), X(2)), LinAlgError, r"^tensorsolve: .*\(2, 3\)"),
        (lambda: la.cross(X(2), X(2)), ValueError, r"^cross: .*\(2,\)"),
        (lambda: la.cross(X((2, 3)), X((4, 3))), ValueError, "^cross: .*broadcast"),
    ],
)
def test_errors(device, call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: la.solve(cm.zeros((3, 3)), cm.ones(3)), "^solve: Singular matrix"),
        (lambda: la.solve(cm.zeros((4, 3, 3)), cm.ones((4, 3, 1))), "^solve: Singular matrix"),
        (lambda: la.inv(cm.ones((2, 2))), "^inv: Singular matrix"),
        (
            lambda: la.inv(cm.asarray(np.stack([np.eye(2), np.zeros((2, 2))]))),
            "^inv: Singular matrix",
        ),
        (
            lambda: la.solve_triangular(
                cm.asarray([[1.0, 0.0], [5.0, 0.0]]), cm.ones(2), lower=True
            ),
            "^solve_triangular: Singular",
        ),
        (lambda: la.cholesky(-cm.eye(3)), "^cholesky: Matrix is not positive definite"),
        (
            lambda: la.cholesky(cm.asarray(np.stack([np.eye(2), -np.eye(2)]))),
            "^cholesky: Matrix is not positive definite",
        ),
    ],
)
def test_matrices_that_cannot_be_decomposed(device, call, says):
    """On a GPU the error comes when the result is looked at, and names this file's line; then all
    is well again."""
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


def crossed():
    """Arguments of cross products: dtype, arrays, axis."""
    rng = np.random.default_rng(8)
    for dtype in ("f4", "f8", "i4", "u1", "c8"):
        x, y = (
            (10 * rand(rng, (2, 3, 4, 3))).astype(dtype),
            (10 * rand(rng, (2, 3, 4, 3))).astype(dtype),
        )
        yield dtype, (x, y), -1
        yield dtype, (x, y[:, :1, ::2][:, :, :1]), -1
        yield dtype, (x[0], y), -1
        yield dtype, (x, y), 1
    x, y = (rand(rng, (2, 3, 2, 5, 2, 3)).astype("f4") for _ in range(2))
    yield "f4", (x.transpose(2, 1, 4, 3, 0, 5), y.transpose(4, 1, 0, 3, 2, 5)[:, :, :, :1]), -1


@pytest.mark.parametrize(
    "case", list(crossed()), ids=lambda case: f"{case[0]}-{case[1][0].ndim}-{case[2]}"
)
def test_cross_products_are_numpys_bit_for_bit(device, case):
    """Their two products are rounded before the subtraction; twice, as the second call finds its
    plan. What is parallel gives 0."""
    dtype, (x, y), axis = case
    a, b = cm.asarray(x), cm.asarray(y)
    expected = np.linalg.cross(x, y, axis=axis)
    for _ in range(2):
        got = la.cross(a, b, axis=axis)
        assert got.shape == expected.shape and got.dtype == expected.dtype
        if dtype == "c8":  # whose products NumPy itself contracts where the processor can
            near(got, expected)
            continue
        np.testing.assert_array_equal(got.to_numpy(), expected)
        assert not (la.cross(a, a, axis=axis) != 0).any()


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(
    "case", list(crossed()), ids=lambda case: f"{case[0]}-{case[1][0].ndim}-{case[2]}"
)
def test_cross_vectors_in_the_simulator(case):
    from cudamath.kernels.linalg.cross import cross

    x, y = (np.moveaxis(each, case[2], -1) for each in case[1])
    plan = cross(cm.testing.layout_of(x), cm.testing.layout_of(y))
    with np.errstate(over="ignore"):
        got, expected = cm.testing.simulate(plan, x, y), np.cross(x, y)
    near(got, expected) if case[0] == "c8" else np.testing.assert_array_equal(got, expected)


def test_ranks_of_many_small_matrices(device):
    """What counts as 0 depends on the matrices' own size, not on how many there are."""
    eps = np.finfo(np.float64).eps
    a = np.stack([np.diag([1.0, 1.0, 10 * eps])] * 50)
    assert np.linalg.matrix_rank(a[0]) == 3
    assert cm.linalg.matrix_rank(cm.asarray(a)).tolist() == np.linalg.matrix_rank(a).tolist()
    found = cm.linalg.pinv(cm.asarray(a), rtol=None).to_numpy()
    np.testing.assert_allclose(found[7], np.diag([1.0, 1.0, 0.1 / eps]), rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_power_has_memory_of_its_own(n):
    """As NumPy's: the first power is a copy."""
    with cm.device("cpu"):
        a = cm.asarray(np.arange(4.0).reshape(2, 2))
        power = la.matrix_power(a, n)
        assert not cm.may_share_memory(power, a)
        power[0, 0] = 17
        assert a.tolist() == [[0, 1], [2, 3]]


def test_matrix_rank_by_either_tolerance(device):
    a = np.diag([1.0, 1e-2, 1e-5])
    for how in ({}, {"tol": 1e-3}, {"rtol": 1e-1}):
        assert int(cm.linalg.matrix_rank(cm.asarray(a), **how)) == np.linalg.matrix_rank(a, **how)
