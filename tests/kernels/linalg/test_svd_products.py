"""Singular values by way of A^H A: diagonal_values, root_values, singular_vectors, near_one and
as_they_were by name, the plans in the simulator with LAPACK in the library's place, and on a GPU;
and eigenvalues of small matrices without symmetry, which LAPACK finds on the host. What the public
functions do: test_linalg.py."""

from __future__ import annotations

import ctypes
import functools
import itertools

import numpy as np
import pytest
from gradient_checks import MACHINES, run_version
from matrices import H, look, rand
from simulated_gpu import simulated_gpu
from strategies import eps

import cudamath as cm
from cudamath.core.dispatch.arguments import Flag, Input, Output, Ticket
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.copy.dispatch import copy_part
from cudamath.kernels.copy.parts import whole
from cudamath.kernels.linalg import dispatch, svd_jacobi, svd_products
from cudamath.kernels.linalg import lapack_plans as planners
from cudamath.runtime import cublas, cusolver, stream

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
    "huge": lambda rng, n: rng.standard_normal((n, n)) * 1e300,
    "tiny": lambda rng, n: rng.standard_normal((n, n)) * 1e-300,
}
TYPES = [
    (case, dtype)
    for case in CASES
    for dtype in ("f4", "f8", "c8", "c16")
    if case not in ("huge", "tiny") or dtype in ("f8", "c16")
]


def check(a: np.ndarray, x: cm.ndarray, full: bool, own: int = 4) -> None:
    """LAPACK's values in double precision, within epsilons of the largest one: 4 of float32, which
    is computed in float64, and `own` n of float64 itself; vectors orthonormal, and A again."""
    wide = np.promote_types(a.dtype, np.float64)
    exact = np.linalg.svd(a.astype(wide), full_matrices=full)
    u, s, vh = (part.to_numpy() for part in la.svd(x, full))
    assert u.shape == exact.U.shape and vh.shape == exact.Vh.shape and s.shape == exact.S.shape
    assert u.dtype == vh.dtype == a.dtype and s.dtype == a.real.dtype
    k, near = s.shape[-1], eps(a.dtype) * (4 if wide != a.dtype else own * max(a.shape[-2:]))
    bound = near * max(float(exact.S.max()), 1e-300)
    assert np.abs(s - exact.S).max() <= bound
    assert (np.diff(s, axis=-1) <= 0).all() and (s >= 0).all()
    u, vh = u.astype(wide), vh.astype(wide)
    assert (
        np.abs((u[..., :k] * s[..., None, :].astype(np.float64)) @ vh[..., :k, :] - a).max()
        <= bound
    )
    for q in (u, H(vh)):
        assert np.abs(H(q) @ q - np.eye(q.shape[-1])).max() <= near
    only = la.svdvals(x).to_numpy()
    assert (
        only.dtype == s.dtype
        and np.abs(only - exact.S).max() <= bound
        and (np.diff(only, axis=-1) <= 0).all()
    )


# -------------------- LAPACK in the library's place, on the simulator's memory


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
            x_i, y_i, z_i = (
                at + i * matrix.batch * dtype.itemsize
                for at, matrix in zip((x, y, z), (a, b, c), strict=True)
            )
            at(z_i, (m, n), dtype)[...] = alpha * operand(x_i, a, m, k) @ operand(y_i, b, k, n)

    return run


def syevd(dtype, n, triangle, vectors, count):
    def run(stream, a, w, info):
        columns = at(a, (count, n, n), dtype).mT
        at(w, (count, n), np.float64)[...], found = np.linalg.eigh(
            columns, "UL"[triangle == cusolver.LOWER]
        )
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


def gesvdj(dtype, n, vectors, count):
    def run(stream, a, s, u, v, info):
        found = np.linalg.svd(at(a, (count, n, n), dtype).mT)
        at(s, (count, n), np.float64)[...] = found.S
        if vectors:
            at(u, (count, n, n), dtype).mT[...], at(v, (count, n, n), dtype).mT[...] = (
                found.U,
                H(found.Vh),
            )
        at(info, (count,), np.int32)[...] = 0

    return run


@pytest.fixture
def lapack(monkeypatch):
    """A simulated GPU, on which no matrix is small, with LAPACK for cuBLAS and cuSOLVER."""
    monkeypatch.setattr(cublas, "gemm", gemm)
    for routine in (syevd, geqrf, orgqr, gesvdj):
        monkeypatch.setattr(cusolver, routine.__name__, routine)
    monkeypatch.setattr(svd_jacobi, "svd", lambda *_: None)
    monkeypatch.setattr(planners, "is_batched", lambda *_: False)
    with simulated_gpu(monkeypatch):
        yield


@pytest.mark.simulator
@pytest.mark.parametrize(("case", "dtype"), TYPES)
def test_plans_with_lapack(lapack, case, dtype):
    rng = np.random.default_rng(0)
    a = CASES[case](rng, 5)
    a = (a * (1 + 0.5j) if dtype[0] == "c" else a).astype(dtype)
    for full in (True, False):
        for x in (
            cm.asarray(a, device="cuda:0"),
            cm.asarray(np.ascontiguousarray(a.mT), device="cuda:0").mT,
        ):
            # Of 20,000 random matrices of 5 rows, LAPACK's own SVD gives A back within 5.7 n
            # epsilons, these steps done by it within 7.0; which matrix loses how much depends on
            # the processor's kernels.
            check(a, x, full, own=8)


@pytest.mark.gpu
@pytest.mark.parametrize(("case", "dtype"), TYPES)
def test_products_on_a_gpu(case, dtype):
    """Beyond what fits into shared memory, as shipped; small ones by name."""
    rng = np.random.default_rng(1)
    a = (rand(rng, (), dtype) * CASES[case](rng, 130)).astype(dtype)
    with cm.device("cuda"):
        for how in ("rows", "columns"):
            check(a, look(how, a), how == "rows")
    little = (rand(rng, (), dtype) * CASES[case](rng, 7)).astype(dtype)
    exact = np.linalg.svd(little.astype(np.promote_types(dtype, np.float64)), full_matrices=False)
    bound = 40 * eps(dtype) * max(float(exact.S.max()), 1e-300)
    u, s, vh = run_version("gpu", lambda x: dispatch.svd(x, full=False, version="products"), little)
    assert (
        np.abs(s - exact.S).max() <= bound
        and np.abs((u * s[..., None, :]) @ vh - little).max() <= bound
    )
    assert (
        np.abs(
            run_version("gpu", lambda x: dispatch.svdvals(x, version="products"), little) - exact.S
        ).max()
        <= bound
    )


def test_which_routines():
    """Jacobi's method comes after the products where they are no more precise than A."""

    def library(plan: Plan) -> list[str]:
        return [
            step.fn.__qualname__.split(".")[0]
            for step in plan.steps
            if not isinstance(step, Launch)
        ]

    for dtype, more in (("f4", []), ("c8", []), ("f8", ["gesvdj"]), ("c16", ["gesvdj"])):
        a = Layout.new((600, 500), np.dtype(dtype), 0)
        after = [*more, "orgqr", "gemm", "gemm"] if more else ["orgqr"]
        assert library(dispatch.svd(a, full=True)) == ["gemm", "syevd", "gemm", "geqrf", *after]
        assert library(dispatch.svdvals(a)) == (
            ["gemm", "syevd", "gemm", "geqrf", "gesvdj"] if more else ["gemm", "syevd"]
        )
        for planner in (dispatch.svdvals, functools.partial(dispatch.svd, full=True)):
            assert library(planner(a, version="gesvd")) == ["gesvd"]


@pytest.mark.gpu
def test_what_is_not_finite_has_no_singular_values():
    for value in (np.nan, np.inf):
        for dtype, name in itertools.product(("f4", "f8"), ("svd", "svdvals")):
            a = np.eye(150, dtype=dtype)
            a[3, 4] = value
            with pytest.raises(np.linalg.LinAlgError, match=f"^{name}: SVD did not converge"):
                getattr(la, name)(cm.asarray(a, device="cuda"))
                cm.cuda.synchronize()


# -------------------- the kernels by name


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_values_from_a_diagonal(machine, dtype):
    """Either sign; what rounding left out of order is raised."""
    r = np.zeros((2, 4, 3), dtype)
    r[0, [0, 1, 2], [0, 1, 2]] = [-3, 1e-9, -2e-9]
    r[1, [0, 1, 2], [0, 1, 2]] = [2, -1, 0]
    signed, s = run_version(
        machine,
        lambda r: Plan(
            [r.like((2, 3), "f8"), r.like((2, 3), "f4")],
            [
                Launch(
                    svd_products.diagonal_values,
                    1,
                    128,
                    [Input(0), Output(0), Output(1), Flag(), Ticket()],
                )
            ],
        ),
        r,
    )
    np.testing.assert_array_equal(signed, [[-3, 1e-9, -2e-9], [2, -1, 0]])
    np.testing.assert_array_equal(s, np.float32([[3, 2e-9, 2e-9], [2, 1, 0]]))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_powers_of_two(machine, dtype):
    """near_one and, back again, as_they_were; what is not finite does not count."""
    a = rand(np.random.default_rng(0), (3, 700), dtype) * np.array([[1e300], [1e-300], [0]])
    a[0, 5] = np.nan
    a[1, 5] = np.inf
    most = [
        np.nanmax(np.abs(np.where(np.isfinite(row), row, 0).astype(dtype).view("f8"))) for row in a
    ]
    near, powers = run_version(
        machine,
        lambda a: Plan(
            [a.like(), a.like((3,), "i4")],
            [
                *copy_part(whole(Input(0), a), whole(Output(0), a)),
                Launch(
                    svd_products.near_one(a.dtype), 3, svd_products.THREADS, [Output(0), Output(1)]
                ),
            ],
        ),
        a,
    )
    np.testing.assert_array_equal(powers, [-np.frexp(x)[1] for x in most])
    np.testing.assert_array_equal(near.view("f8"), np.ldexp(a.view("f8"), powers[:, None]))
    s = np.array([[0.75, 0.5], [1, 0.25], [0, 0]])
    found = run_version(
        machine,
        lambda s, p: Plan(
            [s.like()],
            [
                Launch(
                    svd_products.as_they_were,
                    1,
                    128,
                    [Input(0), Input(1), Output(0), Flag(), Ticket()],
                )
            ],
        ),
        s,
        powers.astype("i4"),
    )
    np.testing.assert_array_equal(found, np.ldexp(s, -powers[:, None]))


@pytest.mark.parametrize("machine", MACHINES)
def test_roots_of_eigenvalues(machine):
    found = run_version(
        machine,
        lambda w: Plan(
            [w.like(dtype="f4")],
            [
                Launch(
                    svd_products.root_values(np.dtype("f4")),
                    1,
                    128,
                    [Input(0), Output(0), Flag(), Ticket()],
                )
            ],
        ),
        np.array([[-9.0, -2.0, 1e-17]]),
    )
    np.testing.assert_array_equal(found, np.float32([[3, 2**0.5, 0]]))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_vectors_from_double_precision(machine, dtype):
    rng = np.random.default_rng(0)
    wide = np.promote_types(dtype, np.float64)
    q, v, signed = (
        rand(rng, (2, 5, 4), wide),
        rand(rng, (2, 3, 3), wide),
        rng.standard_normal((2, 3)),
    )
    inputs = [Input(0), Input(1), Input(2)]
    left, right = run_version(
        machine,
        lambda q, v, d: Plan(
            [q.like(dtype=dtype), v.like(dtype=dtype)],
            [
                Launch(
                    svd_products.singular_vectors(np.dtype(dtype)),
                    1,
                    128,
                    [*inputs, Output(0), Output(1)],
                )
            ],
        ),
        q,
        v,
        signed,
    )
    signs = np.concatenate(
        [np.where(signed < 0, -1, 1), np.ones((2, 1))], 1
    )  # the added vector has none
    np.testing.assert_array_equal(left, (q * signs[:, None]).astype(dtype))
    np.testing.assert_array_equal(right, H(v).astype(dtype))


# -------------------- eigenvalues on the host


def check_eig(a: np.ndarray, x: cm.ndarray) -> None:
    w, v = (part.to_numpy() for part in la.eig(x))
    assert w.dtype == v.dtype == np.result_type(a.dtype, np.complex64)
    size, small_part = max(float(np.abs(a).max()), 1e-30) * a.shape[-1], eps(w.dtype)
    assert np.abs(a @ v - v * w[..., None, :]).max() <= 8 * small_part * size
    assert np.abs(np.linalg.norm(v, axis=-2) - 1).max() <= 8 * small_part
    only = la.eigvals(x).to_numpy()
    assert only.dtype == w.dtype
    assert (
        np.abs(np.sort_complex(only.ravel()) - np.sort_complex(w.ravel())).max()
        <= 64 * small_part * size
    )


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
    bounds = {planners.ON_HOST[np.dtype(dtype).kind], planners.VALUES_ON_HOST}
    for n, lead in itertools.product({1} | bounds | {bound + 1 for bound in bounds}, ((), (3,))):
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
                cusolver.geev_on_host(np.dtype("f4"), 3, vectors, 1)(here, 0, 0, 0)
