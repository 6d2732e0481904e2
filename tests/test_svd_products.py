"""Singular values of float32 and complex64 by way of A^H A in double precision: diagonal_values, root_values and
singular_vectors by name, the plan in the simulator with LAPACK in the library's place, and on a GPU; and eigenvalues of small
matrices without symmetry, which LAPACK finds on the host. What the public functions do: test_linalg.py."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from differences import MACHINES, run_version
from matrices import H, look, rand
from simulated_gpu import simulated_gpu
from strategies import eps

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.core.plan import Flag, Input, Launch, Output, Plan, Ticket
from cudamath.kernels import decompose as planners
from cudamath.kernels import matrices as small
from cudamath.runtime import blas, solver, stream

la = cm.linalg


def graded(rng: np.random.Generator, n: int) -> np.ndarray:
    """Singular values from 1 to 1e-12: float32 loses the smallest ones."""
    q, p = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (q * np.logspace(0, -12, n)) @ p


#: name -> rng, size -> matrices
CASES = {
    "square": lambda rng, n: rng.standard_normal((n, n)),
    "tall": lambda rng, n: rng.standard_normal((n + 3, n)),
    "wide": lambda rng, n: rng.standard_normal((n, n + 3)),
    "one column": lambda rng, n: rng.standard_normal((n, 1)),
    "one row": lambda rng, n: rng.standard_normal((1, n)),
    "batch": lambda rng, n: rng.standard_normal((2, 2, n, n)),
    "tall batch": lambda rng, n: rng.standard_normal((3, n + 2, n)),
    "wide batch": lambda rng, n: rng.standard_normal((3, n, n + 2)),
    "rank 2": lambda rng, n: rng.standard_normal((n, 2)) @ rng.standard_normal((2, n)),
    "zeros": lambda rng, n: np.zeros((n, n)),
    "ones": lambda rng, n: np.ones((n + 1, n)),
    "rows of zeros": lambda rng, n: rng.standard_normal((n, n)) * (np.arange(n) < 2)[:, None],
    "equal values": lambda rng, n: np.linalg.qr(rng.standard_normal((n, n)))[0],
    "graded": graded,
    "graded columns": lambda rng, n: rng.standard_normal((n, n)) * np.logspace(0, -20, n),
    "large": lambda rng, n: rng.standard_normal((n, n)) * 1e37,
    "small": lambda rng, n: rng.standard_normal((n, n)) * 1e-37,
}


def check(a: np.ndarray, x: cm.ndarray, full: bool) -> None:
    """LAPACK's values in double precision, within float32's epsilons of the largest one; vectors orthonormal, and A again."""
    exact = np.linalg.svd(a.astype(np.promote_types(a.dtype, np.float64)), full_matrices=full)
    u, s, vh = (part.to_numpy() for part in la.svd(x, full))
    assert u.shape == exact.U.shape and vh.shape == exact.Vh.shape and s.shape == exact.S.shape
    assert u.dtype == vh.dtype == a.dtype and s.dtype == np.float32
    k = s.shape[-1]
    bound = 4 * eps("f4") * max(float(exact.S.max()), 1e-45)
    assert np.abs(s - exact.S).max() <= bound
    assert (np.diff(s, axis=-1) <= 0).all() and (s >= 0).all()
    wide = [part.astype(np.promote_types(a.dtype, np.float64)) for part in (u, vh)]
    assert np.abs((wide[0][..., :k] * s[..., None, :].astype(np.float64)) @ wide[1][..., :k, :] - a).max() <= bound
    for q in (wide[0], H(wide[1])):
        assert np.abs(H(q) @ q - np.eye(q.shape[-1])).max() <= 4 * eps("f4")
    only = la.svdvals(x).to_numpy()
    assert only.dtype == np.float32 and np.abs(only - exact.S).max() <= bound and (np.diff(only, axis=-1) <= 0).all()


# ---------------------------------------------------------------- LAPACK in the library's place, on the simulator's memory


def at(address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory as an array in C order."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype).reshape(shape)


def gemm(dtype, m, n, k, a, b, c, count=1, *, alpha=1):
    def operand(address, matrix, rows, columns):
        if matrix.transposed == 0:
            return at(address, (rows, columns), dtype)
        found = at(address, (columns, rows), dtype).T
        return found.conj() if matrix.transposed == 2 else found

    def run(stream, x, y, z):
        for i in range(count):
            x_i, y_i, z_i = (at + i * matrix.batch * dtype.itemsize for at, matrix in zip((x, y, z), (a, b, c), strict=True))
            at(z_i, (m, n), dtype)[...] = alpha * operand(x_i, a, m, k) @ operand(y_i, b, k, n)

    return run


def syevd(dtype, n, triangle, vectors, count):
    def run(stream, a, w, info):
        columns = at(a, (count, n, n), dtype).mT
        at(w, (count, n), np.float64)[...], found = np.linalg.eigh(columns, "UL"[triangle == solver.LOWER])
        columns[...] = found if vectors else np.nan  # destroyed
        at(info, (count,), np.int32)[...] = 0

    return run


def geqrf(dtype, m, n, step, count):
    lapack = pytest.importorskip("scipy.linalg")

    def run(stream, a, tau, info):
        for i in range(count):
            columns = at(a + i * step * dtype.itemsize, (n, m), dtype).T
            (columns[...], at(tau, (count, n), dtype)[i]), _ = lapack.qr(columns.copy(), mode="raw")

    return run


def orgqr(dtype, m, n, k, count):
    lapack = pytest.importorskip("scipy.linalg")
    routine = lapack.get_lapack_funcs("ungqr" if dtype.kind == "c" else "orgqr", dtype=dtype)

    def run(stream, a, tau, info):
        for i in range(count):
            columns = at(a, (count, n, m), dtype)[i].T
            columns[...] = routine(np.asfortranarray(columns), at(tau, (count, k), dtype)[i])[0]

    return run


@pytest.fixture
def lapack(monkeypatch):
    """A simulated GPU, on which no matrix is small, with LAPACK for cuBLAS and cuSOLVER."""
    monkeypatch.setattr(blas, "gemm", gemm)
    for routine in (syevd, geqrf, orgqr):
        monkeypatch.setattr(solver, routine.__name__, routine)
    monkeypatch.setattr(planners, "decomposed", lambda *_: None)
    monkeypatch.setattr(planners, "_together", lambda *_: False)
    with simulated_gpu(monkeypatch):
        yield


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("case", CASES)
def test_plans_with_lapack(lapack, case, dtype):
    rng = np.random.default_rng(0)
    a = CASES[case](rng, 5)
    a = (a * (1 + 0.5j) if dtype == "c8" else a).astype(dtype)
    for full in (True, False):
        for x in (cm.asarray(a, device="cuda:0"), cm.asarray(np.ascontiguousarray(a.mT), device="cuda:0").mT):
            check(a, x, full)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("case", CASES)
def test_products_on_a_gpu(case, dtype):
    """Beyond what fits into shared memory, as shipped; the small ones by name."""
    rng = np.random.default_rng(1)
    a = rand(rng, (), dtype) * CASES[case](rng, 130)
    a = a.astype(dtype)
    with cm.device("cuda"):
        for how in ("rows", "columns"):
            check(a, look(how, a), how == "rows")
    little = CASES[case](rng, 7).astype(dtype)
    u, s, vh = run_version("gpu", lambda x: planners.svd(x, full=False, version="products"), little)
    exact = np.linalg.svd(little.astype(np.promote_types(dtype, np.float64)), full_matrices=False)
    assert np.abs(s - exact.S).max() <= 4 * eps("f4") * float(exact.S.max())
    values = run_version("gpu", lambda x: planners.svdvals(x, version="products"), little)
    assert np.abs(values - exact.S).max() <= 4 * eps("f4") * float(exact.S.max())


def test_float32_goes_by_products_and_float64_does_not():
    def library(plan: Plan) -> list[str]:
        return [step.fn.__qualname__.split(".")[0] for step in plan.steps if not isinstance(step, Launch)]

    for dtype in ("f4", "c8"):
        a = Layout.new((600, 500), np.dtype(dtype), 0)
        assert library(planners.svd(a, full=True)) == ["gemm", "syevd", "gemm", "geqrf", "orgqr"]
        assert library(planners.svdvals(a)) == ["gemm", "syevd"]
        assert library(planners.svd(a, full=True, version="bidiagonal")) == ["gesvd"]
    for dtype in ("f8", "c16"):
        a = Layout.new((600, 500), np.dtype(dtype), 0)
        assert library(planners.svd(a, full=True)) == library(planners.svdvals(a)) == ["gesvd"]


@pytest.mark.gpu
def test_what_is_not_finite_has_no_singular_values():
    for value in (np.nan, np.inf):
        a = np.eye(150, dtype=np.float32)
        a[3, 4] = value
        for name in ("svd", "svdvals"):
            with pytest.raises(np.linalg.LinAlgError, match=f"^{name}: SVD did not converge"):
                getattr(la, name)(cm.asarray(a, device="cuda"))
                cm.cuda.synchronize()


# ---------------------------------------------------------------- the kernels by name


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_values_from_a_diagonal(machine, dtype):
    """Either sign; what rounding left out of order is raised."""
    r = np.zeros((2, 4, 3), dtype)
    r[0, [0, 1, 2], [0, 1, 2]] = [-3, 1e-9, -2e-9]
    r[1, [0, 1, 2], [0, 1, 2]] = [2, -1, 0]
    signed, s = run_version(machine, lambda r: Plan([r.like((2, 3), "f8"), r.like((2, 3), "f4")], [Launch(
        small.diagonal_values(r.dtype), 1, 128, [Input(0), Output(0), Output(1), Flag(), Ticket()])]), r)
    np.testing.assert_array_equal(signed, [[-3, 1e-9, -2e-9], [2, -1, 0]])
    np.testing.assert_array_equal(s, np.float32([[3, 2e-9, 2e-9], [2, 1, 0]]))


@pytest.mark.parametrize("machine", MACHINES)
def test_roots_of_eigenvalues(machine):
    found = run_version(machine, lambda w: Plan([w.like(dtype="f4")], [Launch(
        small.root_values(np.dtype("f4")), 1, 128, [Input(0), Output(0), Flag(), Ticket()])]), np.array([[-9.0, -2.0, 1e-17]]))
    np.testing.assert_array_equal(found, np.float32([[3, 2**0.5, 0]]))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_vectors_from_double_precision(machine, dtype):
    rng = np.random.default_rng(0)
    wide = np.promote_types(dtype, np.float64)
    q, v, signed = rand(rng, (2, 5, 4), wide), rand(rng, (2, 3, 3), wide), rng.standard_normal((2, 3))
    left, right = run_version(machine, lambda q, v, d: Plan([q.like(dtype=dtype), v.like(dtype=dtype)], [Launch(
        small.singular_vectors(np.dtype(dtype)), 1, 128, [Input(0), Input(1), Input(2), Output(0), Output(1)])]), q, v, signed)
    signs = np.concatenate([np.where(signed < 0, -1, 1), np.ones((2, 1))], 1)  # the added vector has none
    np.testing.assert_array_equal(left, (q * signs[:, None]).astype(dtype))
    np.testing.assert_array_equal(right, H(v).astype(dtype))


# ---------------------------------------------------------------- eigenvalues on the host


def check_eig(a: np.ndarray, x: cm.ndarray) -> None:
    w, v = (part.to_numpy() for part in la.eig(x))
    assert w.dtype == v.dtype == np.result_type(a.dtype, np.complex64)
    size, small_part = max(float(np.abs(a).max()), 1e-30) * a.shape[-1], eps(w.dtype)
    assert np.abs(a @ v - v * w[..., None, :]).max() <= 8 * small_part * size
    assert np.abs(np.linalg.norm(v, axis=-2) - 1).max() <= 8 * small_part
    only = la.eigvals(x).to_numpy()
    assert only.dtype == w.dtype
    assert np.abs(np.sort_complex(only.ravel()) - np.sort_complex(w.ravel())).max() <= 64 * small_part * size


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_eigenvalues_of_small_matrices_on_the_host(monkeypatch, dtype):
    rng = np.random.default_rng(0)
    with simulated_gpu(monkeypatch):
        for shape in ((1, 1), (5, 5), (3, 4, 4), (2, 2, 3, 3)):
            a = rand(rng, shape, dtype)
            check_eig(a, cm.asarray(a, device="cuda:0"))
            check_eig(a, cm.asarray(np.ascontiguousarray(a.mT), device="cuda:0").mT)
        a = np.full((2, 2), np.nan, dtype)
        for name in ("eig", "eigvals"):
            with pytest.raises(np.linalg.LinAlgError, match=f"^{name}: .*NaN"):
                getattr(la, name)(cm.asarray(a, device="cuda:0"))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_eigenvalues_on_either_side_of_the_bound(dtype):
    rng = np.random.default_rng(0)
    bound = planners.ON_HOST[np.dtype(dtype).kind]
    for n, lead in itertools.product((1, bound, bound + 1), ((), (3,))):
        a = rand(rng, (*lead, n, n), dtype)
        check_eig(a, cm.asarray(a, device="cuda"))


@pytest.mark.simulator
def test_small_matrices_cannot_be_captured(monkeypatch):
    """As larger ones: cuSOLVER's method works on the host too."""
    with simulated_gpu(monkeypatch):
        here = stream.current_stream(0)
        monkeypatch.setattr(here, "capturing", True)
        for vectors, name in ((True, "eig"), (False, "eigvals")):
            with pytest.raises(RuntimeError, match=f"^linalg.{name}.*CUDA graph"):
                solver.geev_on_host(np.dtype("f4"), 3, vectors, 1)(here, 0, 0, 0)
