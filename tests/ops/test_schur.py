"""cm.linalg's Schur decomposition and what is computed by it: square roots, logarithms, Sylvester's
equation; polar and expm_frechet. Values beside SciPy's and by their definitions, gradients beside
central differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg
from matrices import H, near, pairing, rand, regular, slope_matches

import cudamath as cm

la = cm.linalg
TYPES = ["f4", "f8", "c8", "c16"]


def jordan(rng: np.random.Generator, n: int, value: float) -> np.ndarray:
    """Similar to a Jordan block: its eigenvectors are all nearly the same."""
    p = rand(rng, (n, n)) + 2 * np.eye(n)
    return p @ (value * np.eye(n) + np.eye(n, k=1)) @ np.linalg.inv(p)


def pairs_of_pairs(rng: np.random.Generator) -> np.ndarray:
    """A Jordan block of two complex pairs."""
    block, p = np.array([[1.0, 2.0], [-2.0, 1.0]]), rand(rng, (4, 4))
    return p @ np.block([[block, np.eye(2)], [np.zeros((2, 2)), block]]) @ np.linalg.inv(p)


MATRICES = {
    "one": lambda rng: rand(rng, (1, 1)),
    "random": lambda rng: rand(rng, (7, 7)),
    "large": lambda rng: rand(rng, (40, 40)),
    "batch": lambda rng: rand(rng, (2, 3, 4, 4)),
    "some defective": lambda rng: np.stack([rand(rng, (4, 4)), jordan(rng, 4, 1.5)]),
    "zero": lambda rng: np.zeros((3, 3)),
    "identity": lambda rng: np.eye(4),
    "nilpotent": lambda rng: np.eye(5, k=1).T,
    "defective": lambda rng: jordan(rng, 5, 2.0),
    "defective pairs": pairs_of_pairs,
    "rotation": lambda rng: np.array([[0.0, 1.0], [-1.0, 0.0]]),
    "almost a pair": lambda rng: np.array([[1.0, 1.0, 0.0], [-1e-14, 1.0, 0.0], [1.0, 2.0, 3.0]]),
    "rows of all sizes": lambda rng: rand(rng, (5, 5)) * 10.0 ** np.arange(0, 20, 4)[:, None],
    "Frank's": lambda rng: np.triu(np.minimum.outer(np.arange(1.0, 11), np.arange(1, 11)), -1).T,
}


def is_decomposed(a: np.ndarray, t: np.ndarray, z: np.ndarray) -> None:
    n, eps = a.shape[-1], np.finfo(t.dtype).eps
    size = np.linalg.norm(a, axis=(-2, -1), keepdims=True)
    assert (np.abs(z @ t @ H(z) - a) <= 50 * n * eps * size).all()
    assert (np.abs(z @ H(z) - np.eye(n)) <= 50 * n * eps).all()
    below = np.diagonal(t, -1, -2, -1)
    assert not np.tril(t, -2).any()
    if t.dtype.kind == "c":
        assert not below.any()
        return
    assert not (below[..., 1:] * below[..., :-1]).any()  # no block of three
    d, above = np.diagonal(t, 0, -2, -1), np.diagonal(t, 1, -2, -1)
    block = below != 0
    assert (np.abs(d[..., 1:] - d[..., :-1]) <= 50 * n * eps * size[..., 0])[block].all()
    assert (below * above < 0)[block].all()  # as LAPACK leaves them


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", MATRICES)
def test_schur(device, name, dtype):
    a = MATRICES[name](np.random.default_rng(4)).astype(dtype)
    if a.dtype.kind == "c":
        a = a * np.array(0.6 + 0.8j, dtype)
    for output in ("real", "complex"):
        t, z = (x.to_numpy() for x in la.schur(cm.asarray(a), output))
        complex_dtype = np.result_type(a.dtype, np.complex64)
        assert t.dtype == z.dtype == (a.dtype if output == "real" else complex_dtype)
        is_decomposed(a, t, z)


@pytest.mark.parametrize("sort", ["lhp", "rhp", "iuc", "ouc", "function"])
@pytest.mark.parametrize("output", ["real", "complex"])
def test_schur_sorts(device, sort, output):
    for seed in range(4):
        a = rand(np.random.default_rng(seed), (6, 6)) / 2
        of_one, of_two = (lambda x: x.real > 0.3), (lambda re, im: re > 0.3)
        which = (of_two if output == "real" else of_one) if sort == "function" else sort
        t, z, count = la.schur(cm.asarray(a), output, sort=which)
        assert type(count) is int
        assert count == scipy.linalg.schur(a, output, sort=which)[2]
        is_decomposed(a, t.to_numpy(), z.to_numpy())
        test = {
            "lhp": lambda w: w.real < 0,
            "rhp": lambda w: w.real >= 0,
            "iuc": lambda w: abs(w) <= 1,
            "ouc": lambda w: abs(w) > 1,
            "function": lambda w: w.real > 0.3,
        }[sort]
        first = np.linalg.eigvals(t.to_numpy()[:count, :count])
        last = np.linalg.eigvals(t.to_numpy()[count:, count:])
        assert test(first).all() and not test(last).any()
    many = np.stack([a, -a])
    counts = la.schur(cm.asarray(many), output, sort=which)[2]
    assert counts.shape == (2,) and int(counts[0]) == count


def test_a_pair_comes_first_if_one_of_it_does(device):
    a = np.array([[0.1, -2.0], [2.0, 0.1]])
    for sort in (lambda re, im: im > 0, lambda re, im: im < 0, lambda re: re > 0):
        assert la.schur(cm.asarray(a), sort=sort)[2] == scipy.linalg.schur(a, sort=sort)[2] == 2
    assert la.schur(cm.asarray(a), "complex", sort=lambda x: x.imag > 0)[2] == 1


def test_rsf2csf(device):
    a = rand(np.random.default_rng(0), (2, 6, 6))
    t, z = la.rsf2csf(*la.schur(cm.asarray(a)))
    assert t.dtype == z.dtype == "complex128"
    is_decomposed(a, t.to_numpy(), z.to_numpy())


@pytest.mark.parametrize("dtype", TYPES)
def test_roots_and_logarithms(device, dtype):
    """Computed in complex128, the result is SciPy's of the same numbers, rounded."""
    rng = np.random.default_rng(2)
    some = [regular(rng, (5, 5), dtype), np.eye(3, dtype=dtype), regular(rng, (40, 40), dtype)]
    some += [np.array([[0, 2], [-2, 0]], dtype), np.array([[4]], dtype)]
    some += [jordan(rng, 4, 2.0).astype(dtype), np.diag([1.0, 2, -3]).astype(dtype)]
    for a in some:
        wide = a.astype(np.result_type(dtype, "f8"))
        for name in ("sqrtm", "logm"):
            theirs = getattr(scipy.linalg, name)(wide)
            kind = "c" if a.dtype.kind == "c" else theirs.dtype.kind
            result = np.result_type(a.dtype, np.complex64) if kind == "c" else a.dtype
            near(getattr(la, name)(cm.asarray(a)), theirs.astype(result))
    batch = np.stack([regular(rng, (4, 4), dtype) for _ in range(4)]).reshape(2, 2, 4, 4)
    for name in ("sqrtm", "logm"):
        ours = getattr(la, name)(cm.asarray(batch)).to_numpy()
        for at in np.ndindex(2, 2):
            one = getattr(la, name)(cm.asarray(batch[at])).to_numpy()
            np.testing.assert_allclose(ours[at], one, rtol=0, atol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["random", "large", "defective", "defective pairs", "Frank's"])
def test_a_root_squared_is_the_matrix(device, name):
    a = MATRICES[name](np.random.default_rng(4))
    for x in (a, a * (0.6 + 0.8j)):
        root = la.sqrtm(cm.asarray(x)).to_numpy()
        size = np.linalg.norm(x) + np.linalg.norm(root) ** 2
        assert np.abs(root @ root - x).max() <= 1e-13 * size
        assert (np.linalg.eigvals(root).real >= -1e-6 * np.linalg.norm(root)).all()  # principal


def test_logarithms_of_exponentials(device):
    rng = np.random.default_rng(5)
    for size in (1e-9, 1e-3, 0.5, 2.0):  # eigenvalues between -pi i and pi i
        a = size * rand(rng, (5, 5)) / 3
        back = la.logm(la.expm(cm.asarray(a))).to_numpy()
        np.testing.assert_allclose(back, a, rtol=0, atol=1e-13 * max(size, 1e-2))
    assert la.logm(cm.zeros((0, 0))).shape == (0, 0) == la.sqrtm(cm.zeros((0, 0))).shape


def test_a_logarithm_with_huge_numbers_beside_the_diagonal(device):
    """Al-Mohy and Higham's first experiment: triangular systems keep each number's digits."""
    a = np.triu(np.full((4, 4), 3e4), 1) + np.diag([0.32346, 0.30089, 0.3221, 0.30744])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        theirs = scipy.linalg.logm(a)
    np.testing.assert_allclose(la.logm(cm.asarray(a)).to_numpy(), theirs, rtol=1e-12)


def test_singular_matrices(device):
    assert la.sqrtm(cm.zeros((3, 3))).tolist() == np.zeros((3, 3)).tolist()
    near(la.sqrtm(cm.asarray(np.diag([4.0, 0.0]))), np.diag([2.0, 0.0]))
    with pytest.raises(np.linalg.LinAlgError, match="^sqrtm: "):
        la.sqrtm(cm.asarray([[0.0, 1.0], [0.0, 0.0]]))
    both = la.logm(cm.asarray(np.stack([np.zeros((2, 2)), np.eye(2)]))).to_numpy()
    assert np.isnan(both[0]).all() and (both[1] == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_sylvester(device, dtype):
    rng = np.random.default_rng(6)
    for m, n in ((1, 1), (3, 5), (6, 2), (20, 13), (7, 7)):
        a, b, q = regular(rng, (m, m), dtype), regular(rng, (n, n), dtype), rand(rng, (m, n), dtype)
        wide = np.result_type(dtype, "f8")
        theirs = scipy.linalg.solve_sylvester(*(x.astype(wide) for x in (a, b, q)))
        near(la.solve_sylvester(*map(cm.asarray, (a, b, q))), theirs.astype(dtype))
        right = rand(rng, (m, m), dtype)
        theirs = scipy.linalg.solve_continuous_lyapunov(a.astype(wide), right.astype(wide))
        near(la.solve_continuous_lyapunov(cm.asarray(a), cm.asarray(right)), theirs.astype(dtype))
    many = rand(rng, (3, 7, 7), dtype)
    ours = la.solve_sylvester(cm.asarray(a), cm.asarray(b), cm.asarray(many)).to_numpy()
    for x, q in zip(ours, many, strict=True):
        near(cm.asarray(a @ x + x @ b), q, scale=20)
    with pytest.raises(np.linalg.LinAlgError, match="^solve_sylvester: "):
        la.solve_sylvester([[1.0]], [[-1.0]], [[1.0]]).to_numpy()  # which waits for a GPU


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("side", ["right", "left"])
def test_polar(device, dtype, side):
    rng = np.random.default_rng(7)
    for shape in ((4, 4), (6, 3), (3, 6), (1, 1)):
        a = rand(rng, shape, dtype)
        theirs = scipy.linalg.polar(a.astype(np.result_type(dtype, "f8")), side)
        for x, y in zip(la.polar(cm.asarray(a), side), theirs, strict=True):
            near(x, y.astype(dtype))
    many = rand(rng, (2, 3, 5, 4), dtype)
    u, p = la.polar(cm.asarray(many), side)
    near(u @ p if side == "right" else p @ u, many, scale=10)


@pytest.mark.parametrize("dtype", TYPES)
def test_expm_frechet(device, dtype):
    rng = np.random.default_rng(8)
    a, e = rand(rng, (4, 4), dtype), rand(rng, (4, 4), dtype)
    theirs = scipy.linalg.expm_frechet(*(x.astype(np.result_type(dtype, "f8")) for x in (a, e)))
    for method in (None, "SPS", "blockEnlarge"):
        both = la.expm_frechet(cm.asarray(a), cm.asarray(e), method)
        for x, y in zip(both, theirs, strict=True):
            near(x, y.astype(dtype))
    alone = la.expm_frechet(cm.asarray(a), cm.asarray(np.stack([e, a])), compute_expm=False)
    near(alone[0], theirs[1].astype(dtype))


GRADIENTS = {
    "sqrtm": lambda a, b: la.sqrtm(a),
    "sqrtm complex": lambda a, b: la.sqrtm(-a),
    "logm": lambda a, b: la.logm(a),
    "sylvester": lambda a, b: la.solve_sylvester(a, a[..., :3, :3] @ a[..., :3, :3], b),
    "lyapunov": lambda a, b: la.solve_continuous_lyapunov(a, a @ a),
    "polar": lambda a, b: la.polar(a),
    "polar left": lambda a, b: la.polar(a, "left"),
    "polar tall": lambda a, b: la.polar(a[..., :3]),
    "polar wide": lambda a, b: la.polar(a[..., :3, :]),
    "expm_frechet": lambda a, b: la.expm_frechet(a / 4, a @ a / 9),
}


def point(name: str, lead: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return regular(rng, (*lead, 4, 4), dtype), rand(rng, (*lead, 4, 3), dtype)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(device, name, dtype):
    for lead in ((), (2,)):
        a, b = point(name, lead, dtype)
        slope_matches(lambda a, b: pairing(GRADIENTS[name](a, b), 5), a, b)


@pytest.mark.parametrize("name", GRADIENTS)
def test_second_order(device, name):
    a, b = point(name, (), "f8")

    def slope(a: cm.ndarray, b: cm.ndarray) -> cm.ndarray:
        return pairing(cm.grad(lambda a: pairing(GRADIENTS[name](a, b), 5))(a), 9)

    slope_matches(slope, a, b, tolerance=1e-5)


def test_the_gradient_of_polar_at_equal_singular_values(device):
    q, _ = np.linalg.qr(rand(np.random.default_rng(1), (4, 4)))
    slope_matches(lambda a: pairing(la.polar(a), 5), 2 * q)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: la.schur(cm.ones((2, 3))), np.linalg.LinAlgError, "schur: Last 2 dimensions"),
        (lambda: la.schur(cm.ones((2, 2)), "x"), ValueError, "schur: output must be"),
        (lambda: la.schur(cm.ones((2, 2)), sort="x"), ValueError, "schur: sort must be"),
        (lambda: la.sqrtm(cm.ones(2)), np.linalg.LinAlgError, "sqrtm: wants matrices"),
        (lambda: la.logm(cm.ones((2, 2), "float16")), TypeError, "logm: "),
        (lambda: la.polar(cm.ones((2, 2)), "up"), ValueError, "polar: side must be"),
        (lambda: la.rsf2csf(cm.eye(2), cm.eye(3)), ValueError, "rsf2csf: the shapes must be equal"),
        (
            lambda: la.solve_sylvester(cm.eye(2), cm.eye(3), cm.ones((3, 2))),
            ValueError,
            r"solve_sylvester: q must have .* \(2, 2\), \(3, 3\) and \(3, 2\)",
        ),
        (
            lambda: la.solve_continuous_lyapunov(cm.eye(2), cm.eye(3)),
            ValueError,
            "solve_continuous_lyapunov: both must",
        ),
        (lambda: la.expm_frechet(cm.eye(2), cm.eye(3)), ValueError, "expm_frechet: both must"),
        (lambda: la.expm_frechet(cm.eye(2), cm.eye(2), "x"), ValueError, "expm_frechet: method"),
        (lambda: cm.grad(lambda a: la.schur(a)[0].sum())(cm.eye(2)), TypeError, "schur: .* no gr"),
        (
            lambda: cm.grad(lambda a: la.rsf2csf(a, a)[0].sum())(cm.eye(2)),
            TypeError,
            "rsf2csf: .* no gradient",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()
