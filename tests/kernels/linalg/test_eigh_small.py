"""Eigenvalues of small Hermitian matrices by our own kernels, eigh_small and eigvalsh_small by
name: values, vectors, either triangle, equal and graded values, numbers at the ends of the range,
NaN; in Numba's simulator and on a GPU. What the public functions do: test_linalg.py."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fake_driver import gpu as on_gpu
from gradient_checks import MACHINES, check_everywhere, run_version
from matrices import SMALL, H, rand
from strategies import eps

import cudamath as cm
from cudamath.core.dtypes import real_dtype
from cudamath.core.layout import Layout
from cudamath.kernels.linalg import dispatch
from cudamath.runtime import device as devices
from cudamath.testing import layout_of, simulate


def made(case: str, rng: np.random.Generator, dtype: str) -> np.ndarray:
    """The Hermitian part of the square in the corner of SMALL's matrices, lying as they do."""
    a = CASES[case](rng)
    k = min(a.shape[-2:])
    a = a[..., :k, :k]
    if dtype[0] == "c":
        a = (
            a * np.exp(2j * np.pi * rng.random(k))
            if case == "repeated"
            else a * np.exp(2j * np.pi * rng.random((k, k)))
        )
    hermitian = a if case in ("repeated", "columns", "reversed", "apart") else (a + H(a)) / 2
    return hermitian.astype(dtype, copy=False)


def turned(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A symmetric matrix of these eigenvalues."""
    q = np.linalg.qr(rng.standard_normal((len(values),) * 2))[0]
    return (q * values) @ q.T


CASES = {
    **SMALL,
    "counted": lambda rng: np.arange(1.0, 10).reshape(3, 3),
    "diagonal": lambda rng: np.diag([3.0, -1, 2, 0, 2]),
    "identity": lambda rng: np.eye(6),
    "equal values": lambda rng: turned(np.array([2.0, 2, 2, -1, -1]), rng),
    "nearly equal values": lambda rng: turned(1 + 1e-7 * np.arange(6), rng),
    "pairs of signs": lambda rng: np.kron([[0, 1], [1, 0]], turned(np.arange(1.0, 4), rng)),
    "nothing on the diagonal": lambda rng: 1 - np.eye(5),
    "two blocks": lambda rng: np.kron(np.eye(2), turned(np.array([1.0, 1e-3, 5]), rng)),
    "large": lambda rng: rng.standard_normal((4, 4)) * 1e37,
    "small": lambda rng: rng.standard_normal((4, 4)) * 1e-37,
    "many": lambda rng: rng.standard_normal((3, 10, 10)),
}


def triangle(a: np.ndarray, upper: bool) -> np.ndarray:
    """The Hermitian matrices, of double precision, of which this is one triangle."""
    a = a.astype(np.result_type(a.dtype, "f8"))
    half = np.triu(a, 1) if upper else np.tril(a, -1)
    return (
        half
        + H(half)
        + np.eye(a.shape[-1]) * np.real(np.diagonal(a, axis1=-2, axis2=-1))[..., None]
    )


def check(w: np.ndarray, v: np.ndarray, a: np.ndarray, upper: bool) -> None:
    """Values within 4 eps of the largest, in order; V orthonormal and A V = V diag(w) within some
    eps times the root of n."""
    exact, precision = triangle(a, upper), eps(a.dtype)
    want, bound = np.linalg.eigvalsh(exact), 8 * precision * a.shape[-1] ** 0.5
    size = abs(want).max(axis=-1, initial=0)[..., None]
    assert (
        w.dtype == real_dtype(a.dtype)
        and v.dtype == a.dtype
        and w.shape == a.shape[:-1]
        and v.shape == a.shape
    )
    assert (np.diff(w, axis=-1) >= 0).all()
    assert (abs(w - want) <= (4 * precision if precision > 1e-10 else bound) * size).all(), (
        abs(w - want).max() / size.max()
    )
    v = v.astype(exact.dtype)
    assert abs(H(v) @ v - np.eye(a.shape[-1])).max() <= bound
    assert (abs(exact @ v - v * w[..., None, :]) <= bound * size[..., None]).all()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("case", CASES)
def test_small_eigenvalues(machine, dtype, case):
    """Of either triangle, nothing else being read."""
    a = made(case, np.random.default_rng(1), dtype)
    for upper in (False, True):
        w, v = run_version(machine, lambda x, upper=upper: planned(dispatch.eigh, x, upper), a)
        check(w, v, a, upper)
        only = run_version(machine, lambda x, upper=upper: planned(dispatch.eigvalsh, x, upper), a)
        np.testing.assert_array_equal(only, w)


def planned(planner, layout, upper=False):
    plan = planner(layout, upper=upper, version="jacobi")
    assert names(plan)[-1] == {"eigh": "eigh_small", "eigvalsh": "eigvalsh_small"}[planner.__name__]
    return plan


def names(plan) -> list[str]:
    return [getattr(getattr(step, "kernel", None), "__name__", "library") for step in plan.steps]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("upper", [False, True])
def test_what_is_not_read(machine, dtype, upper):
    """The other triangle, and the imaginary part of the diagonal: NaN there changes no bit."""
    a = rand(np.random.default_rng(0), (2, 5, 5), dtype)
    a = a + H(a)
    want = run_version(machine, lambda x: planned(dispatch.eigh, x, upper), a)
    below = np.tri(5, k=-1, dtype=bool)
    other = np.where(below if upper else below.T, np.nan, a).astype(dtype)
    if dtype == "c16":
        other[..., range(5), range(5)] += 3j
    for ours, theirs in zip(
        run_version(machine, lambda x: planned(dispatch.eigh, x, upper), other), want, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_small_eigenvalues_of_graded_matrices_keep_their_digits(machine, dtype):
    """D B D with B near 1 and D from 1 to 1e-8: LAPACK's smallest values are wrong from eps of the
    largest on."""
    rng = np.random.default_rng(0)
    b, d = rng.standard_normal((6, 6)), np.logspace(0, -8, 6)
    b = (np.eye(6) + 0.05 * (b + b.T)) * d * d[:, None]
    b = b.astype(dtype).astype("f8")
    w = run_version(machine, lambda x: planned(dispatch.eigvalsh, x), b.astype(dtype)).astype("f8")
    scaled = b / d / d[:, None]
    want = np.linalg.slogdet(scaled)[1] + 2 * np.log(d).sum()  # their product
    assert (w > 0).all() and abs(np.log(w).sum() - want) <= 30 * np.finfo(dtype).eps
    if dtype == "f4":
        assert abs(w / np.linalg.eigvalsh(b) - 1)[3:].max() <= 5 * eps("f4")
    diagonal = np.diag(np.logspace(-20, 0, 6)).astype(dtype)
    np.testing.assert_array_equal(
        run_version(machine, lambda x: planned(dispatch.eigvalsh, x), diagonal), np.diag(diagonal)
    )


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_the_ends_of_float64(machine, size):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 4)) * size
    w, v = run_version(machine, lambda x: planned(dispatch.eigh, x), a)
    check(w, v, a, False)


@pytest.mark.simulator
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_matrix_that_is_not_finite_raises_the_flag(bad):
    a = np.eye(4, dtype="f4")
    a[2, 1] = bad
    for planner in (dispatch.eigh, dispatch.eigvalsh):
        with pytest.raises(IndexError):  # what the simulator makes of any flag
            simulate(planned(planner, layout_of(a)), a)
        simulate(planned(planner, layout_of(a), True), a)  # the other triangle


@pytest.mark.gpu
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_of_a_matrix_that_is_not_finite(bad):
    a = cm.ones((3, 9, 9), device="cuda")
    a[1, 2, 1] = bad
    for call in (cm.linalg.eigh, cm.linalg.eigvalsh):
        out = call(a)
        with pytest.raises(
            np.linalg.LinAlgError, match=r"^eig(valsh|h): Eigenvalues did not converge"
        ):
            cm.cuda.synchronize()
        w = (out[0] if isinstance(out, tuple) else out).to_numpy()
        assert np.isnan(w[1]).all() and np.isfinite(w[[0, 2]]).all()


TOO_LARGE = {
    (96, "c16"),
    (128, "f8"),
    (128, "c8"),
    (128, "c16"),
}  # for an H200's shared memory: A and V
LARGER = [
    case
    for case in itertools.product([2, 15, 16, 31, 33, 64, 70, 96, 128], ["f4", "f8", "c8", "c16"])
    if case not in TOO_LARGE
]


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "dtype"), LARGER)
def test_larger_ones(n, dtype):
    """The same bits in every run, alone and in a batch."""
    a = rand(np.random.default_rng(0), (n, n), dtype)
    w, v = run_version("gpu", lambda x: planned(dispatch.eigh, x), a)
    check(w, v, a, False)
    again = run_version("gpu", lambda x: planned(dispatch.eigh, x), np.stack([a] * 40))
    for one, many in zip((w, v), again, strict=True):
        np.testing.assert_array_equal(many, np.broadcast_to(one, many.shape))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_many(dtype):
    a = rand(np.random.default_rng(0), (500, 16, 16), dtype)
    w, v = run_version("gpu", lambda x: planned(dispatch.eigh, x), a)
    check(w, v, a, False)
    np.testing.assert_array_equal(run_version("gpu", lambda x: planned(dispatch.eigvalsh, x), a), w)


def test_which_matrices_are_small():
    """Those that fit into shared memory, of at most MOST rows."""

    def fits(planner, a):
        try:
            return names(planner(a, upper=False, version="jacobi"))[-1].endswith("_small")
        except ValueError as error:
            assert "version 'jacobi' does not support" in str(error)
            return False

    def small(shape, dtype="f4", capability=(9, 0)):
        with devices.assume(capability):
            a = Layout.new(shape, np.dtype(dtype), 0)
            return fits(dispatch.eigh, a), fits(dispatch.eigvalsh, a)

    def chosen(n, dtype):
        a = Layout.new((9, n, n), np.dtype(dtype), 0)
        with devices.assume((9, 0)):
            return [
                names(planner(a, upper=False))[-1].endswith("_small")
                for planner in (dispatch.eigh, dispatch.eigvalsh)
            ]

    assert chosen(64, "f4") == [True, False] != chosen(65, "f4")
    assert (
        chosen(32, "f4")
        == chosen(32, "f8")
        == chosen(32, "c8")
        == chosen(16, "c16")
        == [True, True]
    )
    assert chosen(33, "f8") == chosen(17, "c16") == [False, False]
    assert (
        small((64, 64))
        == small((9, 64, 64), "f8")
        == small((64, 64), "c16")
        == small((128, 128))
        == (True, True)
    )
    assert small((1, 1)) == small((96, 96), "c8") == (True, True)
    assert small((128, 128), "f8") == small((96, 96), "c16") == (False, True) and small(
        (129, 129)
    ) == (False, False)
    assert small((64, 64), capability=(7, 5)) == (True, True) and small(
        (64, 64), "c16", (7, 5)
    ) == (False, False)


@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_one_launch(fake, name):
    a = on_gpu(np.ones((2, 16, 16), np.float32))
    fake.launches.clear()
    getattr(cm.linalg, name)(a)
    assert len(fake.launches) == 1, [launch[0] for launch in fake.launches]


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_no_spills(dtype):
    a = Layout.new((40, 40), np.dtype(dtype), 0)
    check_everywhere(lambda: planned(dispatch.eigh, a), [a])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_small_ones_can_be_captured_in_a_graph(name):
    a = rand(np.random.default_rng(0), (3, 9, 9), "f8")
    graph = cm.cuda.graph(getattr(cm.linalg, name))
    given = cm.asarray(a, device="cuda")
    for x in (given, given * 2):
        out = graph(x)
        w = (out if name == "eigvalsh" else out[0]).to_numpy()
        np.testing.assert_allclose(w, np.linalg.eigvalsh(x.to_numpy()), rtol=0, atol=1e-13)
