"""Options of SciPy's that functions of cudamath.linalg and cudamath.fft take beside NumPy's: values
beside scipy.linalg, errors, and that hints are no part of a call's key. Gradients:
test_linalg_gradients.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from matrices import hermitian, near, rand, regular

import cudamath as cm

la = cm.linalg
KINDS = [
    "general",
    "gen",
    "diagonal",
    "tridiagonal",
    "banded",
    "upper triangular",
    "lower triangular",
    "symmetric",
    "sym",
    "hermitian",
    "her",
    "positive definite",
    "pos",
]


def matrix(kind: str, lead: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Of a structure, with other numbers where it is not read."""
    rng = np.random.default_rng(3)
    if kind.startswith("pos"):
        return hermitian(rng, (*lead, 6, 6), dtype)
    a = regular(rng, (*lead, 6, 6), dtype)
    if kind == "banded":
        return np.triu(np.tril(a, 2), -1)
    if kind.startswith("her"):
        at = np.arange(6)
        a[..., at, at] = a[..., at, at].real
    return a


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_solve_reads_what_the_structure_has(device, kind, lower, dtype):
    rng = np.random.default_rng(4)
    for lead, columns in (((), None), ((), 2), ((3,), 2), ((3,), None)):
        a = matrix(kind, lead, dtype)
        b = rand(rng, (6,) if columns is None else (*lead, 6, columns), dtype)
        ours = la.solve(cm.asarray(a), cm.asarray(b), assume_a=kind, lower=lower)
        near(ours, scipy.linalg.solve(a, b, assume_a=kind, lower=lower), scale=10)
        if dtype != "c16":  # SciPy refuses complex matrices
            ours = la.solve(cm.asarray(a), cm.asarray(b), assume_a=kind, transposed=True)
            near(ours, scipy.linalg.solve(a, b, assume_a=kind, transposed=True), scale=10)


@pytest.mark.parametrize("kind", ["diagonal", "tridiagonal", "sym", "her", "upper triangular"])
def test_inverse_of_a_structure(device, kind):
    for lower in (False, True):
        a = matrix(kind, (2,), "c16")
        one = np.broadcast_to(np.eye(6), a.shape)
        theirs = scipy.linalg.solve(a, one, assume_a=kind, lower=lower)
        near(la.inv(cm.asarray(a), assume_a=kind, lower=lower), theirs, scale=10)


def test_complex_transposed_systems(device):
    rng = np.random.default_rng(5)
    a, b = regular(rng, (5, 5), "c16"), rand(rng, (5, 2), "c16")
    near(la.solve(a, b, transposed=True), np.linalg.solve(a.T, b))
    factor = scipy.linalg.lu_factor(a)
    for trans in (0, 1, 2):
        near(la.lu_solve(la.lu_factor(a), b, trans), scipy.linalg.lu_solve(factor, b, trans))
        near(
            la.lu_solve(la.lu_factor(a), b[:, 0], trans=trans),
            scipy.linalg.lu_solve(factor, b[:, 0], trans),
        )
    for trans in (0, 1, 2, "N", "T", "C"):
        for lower in (False, True):
            near(
                la.solve_triangular(a, b, trans, lower),
                scipy.linalg.solve_triangular(a, b, trans, lower),
                scale=100,
            )


def test_a_vector_beside_a_batch_of_factors(device):
    rng = np.random.default_rng(6)
    a, b = hermitian(rng, (3, 4, 4)), rand(rng, (4,))
    near(la.cho_solve(la.cho_factor(a), b), np.linalg.solve(a, b[:, None])[..., 0], scale=10)
    near(
        la.lu_solve(la.lu_factor(a), b, trans=1),
        np.linalg.solve(a.mT, b[:, None])[..., 0],
        scale=10,
    )


def test_unknown_structures_and_transposes(device):
    a = cm.eye(3)
    with pytest.raises(ValueError, match="^solve: 'round' is not a recognized matrix structure"):
        la.solve(a, a, assume_a="round")
    with pytest.raises(ValueError, match="^inv: 'round' is not a recognized matrix structure"):
        la.inv(a, assume_a="round")
    with pytest.raises(ValueError, match="^solve_triangular: trans must be"):
        la.solve_triangular(a, a, 3)
    with pytest.raises(ValueError, match="^cholesky: upper=True contradicts lower=True"):
        la.cholesky(a, lower=True, upper=True)


@pytest.mark.parametrize("kind", ["diagonal", "tridiagonal", "upper triangular", "sym", "pos"])
def test_singular_structures(kind):
    with pytest.raises(np.linalg.LinAlgError, match="^solve: "):
        la.solve(cm.zeros((3, 3)), cm.ones(3), assume_a=kind).to_numpy()  # which waits for a GPU


def test_cholesky_of_either_triangle(device):
    a = hermitian(np.random.default_rng(7), (4, 4), "c16")
    for lower in (True, False):
        near(la.cholesky(a, lower=lower), scipy.linalg.cholesky(a, lower=lower))
        mixed = (np.tril if lower else np.triu)(a)
        near(la.cho_factor(mixed, lower)[0], scipy.linalg.cholesky(mixed, lower=lower))


@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (4, 7), (2, 5, 3), (1, 3), (3, 1), (0, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_qr_with_exchanged_columns(device, shape, dtype):
    a = rand(np.random.default_rng(8), shape, dtype)
    q, r, p = la.qr(cm.asarray(a), "economic", pivoting=True)
    if a.size:
        near(p, scipy.linalg.qr(a, mode="economic", pivoting=True)[2])
    exchanged = np.take_along_axis(a, p.to_numpy()[..., None, :], -1)
    near(q @ r, exchanged)
    near(la.qr(cm.asarray(a), "r", pivoting=True)[0], r.to_numpy())
    sizes = np.abs(np.diagonal(r.to_numpy(), axis1=-2, axis2=-1))
    assert (np.diff(sizes) <= 1e-6).all()


def test_qr_of_numbers_whose_squares_overflow():
    a = np.diag([1e-200, 1e200, 1.0])
    assert la.qr(a, pivoting=True)[2].tolist() == [1, 2, 0]


def test_lu_in_scipys_forms(device):
    for shape in ((4, 4), (5, 3), (3, 5), (0, 3)):
        a = rand(np.random.default_rng(9), shape)
        low, up = la.lu(a, permute_l=True)
        near(low @ up, a)
        p, low, up = la.lu(a, p_indices=True)
        near(p, scipy.linalg.lu(a, p_indices=True)[0].astype(p.dtype))
        near(low.to_numpy()[p.to_numpy()] @ up.to_numpy(), a)


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("lower", [True, False])
def test_hermitian_pairs(device, kind, lower):
    rng = np.random.default_rng(10)
    a, b = hermitian(rng, (5, 5), "c16"), hermitian(rng, (5, 5))
    half = np.tril if lower else np.triu
    w, v = la.eigh(half(a), b=half(b), lower=lower, type=kind)
    near(w, scipy.linalg.eigh(a, b, type=kind, eigvals_only=True), scale=10)
    v = v.to_numpy()
    sides = {1: (a @ v, b @ v), 2: (a @ b @ v, v), 3: (b @ a @ v, v)}[kind]
    near(sides[0], sides[1] * w.to_numpy(), scale=100)
    near(la.eigvalsh(a, b, type=kind), w.to_numpy(), scale=10)
    near(la.eigh(a, b, eigvals_only=True, type=kind), w.to_numpy(), scale=10)


def test_parts_of_a_spectrum(device):
    a = hermitian(np.random.default_rng(11), (6, 6))
    w, v = scipy.linalg.eigh(a)
    some = la.eigh(a, subset_by_index=[1, 3], driver="evr")
    near(some.eigenvalues, w[1:4])
    assert some.eigenvectors.shape == (6, 3)
    middle = (w[1] + w[2]) / 2
    near(la.eigvalsh(a, subset_by_value=(-np.inf, middle)), w[:2])
    near(la.eigh(a, subset_by_value=(middle, np.inf), eigvals_only=True), w[2:])
    with pytest.raises(ValueError, match="^eigh: requested eigenvalue indices are not valid"):
        la.eigh(a, subset_by_index=[2, 6])
    with pytest.raises(ValueError, match="^eigh: either an index or a value subset"):
        la.eigh(a, subset_by_index=[2, 3], subset_by_value=[0, 1])
    with pytest.raises(ValueError, match='^eigvalsh: the keyword "type" only accepts'):
        la.eigvalsh(a, a, type=4)


def test_left_vectors_and_pairs(device):
    rng = np.random.default_rng(12)
    a, b = regular(rng, (2, 5, 5)), regular(rng, (2, 5, 5))
    for other, second in ((None, np.eye(5)), (b, b)):
        w, u, v = (x.to_numpy() for x in la.eig(a, other, left=True))
        near(a @ v, second @ v * w[:, None], scale=20)
        uh = np.conj(u.mT)
        near(uh @ a, w[..., None] * (uh @ second), scale=20)
        near(np.linalg.norm(u, axis=-2), np.ones((2, 5)))
        near(np.sort_complex(la.eigvals(a, other).to_numpy()), np.sort_complex(w), scale=20)
        pairs = la.eig(a, other, right=False, homogeneous_eigvals=True).to_numpy()
        near(pairs[:, 0] / pairs[:, 1], w, scale=20)
        near(la.eigvals(a, other, homogeneous_eigvals=True)[:, 1], np.ones((2, 5)), dtype="c16")


def test_thresholds_of_singular_values(device):
    a = np.diag([4.0, 1.0, 1e-3])
    for options in ({"atol": 0.01}, {"rtol": 0.1, "atol": 0.7}, {"rtol": 1e-6}):
        ours, rank = la.pinv(a, return_rank=True, **options)
        theirs, known = scipy.linalg.pinv(a, return_rank=True, **options)
        near(ours, theirs)
        assert int(rank) == known
    near(la.lstsq(a, np.ones(3), cond=0.01).x, scipy.linalg.lstsq(a, np.ones(3), cond=0.01)[0])
    with pytest.raises(ValueError, match="^lstsq: `cond` and `rcond`"):
        la.lstsq(a, np.ones(3), 0.1, cond=0.1)


# -------------------- what many functions share

ONE = np.eye(3)
BAND = np.array([[0.0, 1.0, 1.0], [4.0, 4.0, 4.0]])
CALLS: dict[str, tuple[Any, ...]] = {
    "solve": (ONE, ONE),
    "inv": (ONE,),
    "det": (ONE,),
    "lu": (ONE,),
    "lu_factor": (ONE,),
    "lu_solve": ((ONE, np.arange(3)), ONE),
    "cholesky": (ONE,),
    "cho_factor": (ONE,),
    "cho_solve": ((ONE, True), ONE),
    "solve_triangular": (ONE, ONE),
    "qr": (ONE,),
    "eigh": (ONE,),
    "eigvalsh": (ONE,),
    "eig": (ONE,),
    "eigvals": (ONE,),
    "svd": (ONE,),
    "svdvals": (ONE,),
    "lstsq": (ONE, ONE),
    "pinv": (ONE,),
    "norm": (ONE,),
    "schur": (ONE,),
    "rsf2csf": (ONE, ONE),
    "expm_frechet": (ONE, ONE),
    "solve_banded": ((1, 1), ONE + [[0], [4], [0]], ONE),
    "cholesky_banded": (BAND,),
    "cho_solve_banded": ((BAND, False), ONE),
    "solveh_banded": (BAND, ONE),
}


def with_nan(value: Any) -> Any:
    if isinstance(value, tuple) and isinstance(value[0], np.ndarray):
        return (with_nan(value[0]), *value[1:])
    if not isinstance(value, np.ndarray):
        return value
    value = value.astype(float)
    value[0, 1] = np.nan
    return value


@pytest.mark.parametrize("name", CALLS)
def test_finite_numbers_on_request(device, name):
    function, arguments = getattr(la, name), CALLS[name]
    function(*arguments, check_finite=True)
    for i, value in enumerate(arguments):
        if with_nan(value) is not value:
            wrong = [*arguments[:i], with_nan(value), *arguments[i + 1 :]]
            with pytest.raises(ValueError, match=f"^{name}: array must not contain infs or NaNs"):
                function(*wrong, check_finite=True)


def test_a_traced_program_cannot_look_at_values():
    run = cm.jit(lambda a: la.solve(a, a, check_finite=True))
    with pytest.raises(cm.TraceError):
        run(cm.eye(3))


def test_drivers_are_looked_at(device):
    a = cm.eye(3)
    near(la.svd(a, lapack_driver="gesvd").S, np.ones(3))
    near(la.lstsq(a, a, lapack_driver="gelsy").x, np.eye(3))
    with pytest.raises(ValueError, match="^svd: lapack_driver must be one of 'gesdd', 'gesvd'"):
        la.svd(a, lapack_driver="fast")
    with pytest.raises(TypeError, match="^eigh: driver must be one of"):
        la.eigh(a, driver=1)


@pytest.mark.parametrize(
    ("function", "arguments", "hints"),
    [
        (la.solve, (ONE, ONE), {"overwrite_a": True, "overwrite_b": True}),
        (la.qr, (ONE,), {"overwrite_a": True, "lwork": 9}),
        (cm.fft.fft, (ONE,), {"overwrite_x": True, "workers": 4}),
        (cm.fft.dctn, (ONE,), {"overwrite_x": True, "workers": 4}),
    ],
)
def test_hints_change_nothing(function, arguments, hints):
    arrays = [cm.asarray(x.copy()) for x in arguments]
    plain = function(*arrays)
    count = len(function.__globals__["replays"])
    hinted = function(*arrays, **hints)
    assert len(function.__globals__["replays"]) == count  # the same key
    for a, b in zip(np.atleast_1d(plain), np.atleast_1d(hinted), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    for x, y in zip(arrays, arguments, strict=True):
        np.testing.assert_array_equal(x.to_numpy(), y)
