"""cm.linalg's matrices of few numbers, block_diag, khatri_rao, bandwidth and the solutions by
Cholesky factors, beside SciPy's; gradients beside central differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.linalg
from gradient_checks import MACHINES, run_version

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.shape import matrix_rules as planners

RNG = np.random.default_rng(0)
C, R, P = RNG.normal(size=4), RNG.normal(size=3), RNG.normal(size=5)
#: Function -> arguments; those that are arrays of float64 have gradients.
CALLS = {
    "toeplitz": [(C,), (C, R), (C + 1j * C[::-1],), (np.arange(3), np.array([9, 8]))],
    "hankel": [(C,), (C, R), (np.arange(3), np.array([9, 8]))],
    "circulant": [(C,), (np.arange(3),)],
    "convolution_matrix": [(C, n, m) for n in (1, 3, 4, 6) for m in ("full", "same", "valid")],
    "companion": [(P,), (P[:2],)],
    "leslie": [(C, R), (C[:2], R[:1])],
    "fiedler": [(C,), (np.arange(3),)],
    "fiedler_companion": [(RNG.normal(size=n),) for n in range(2, 9)],
    "khatri_rao": [(RNG.normal(size=(2, 3)), RNG.normal(size=(4, 3)))],
    "block_diag": [(RNG.normal(size=(2, 3)), C, 3.0), (np.ones((0, 2)), np.eye(2)), ([1, 2],)],
    "hilbert": [(0,), (1,), (5,)],
    "hadamard": [(1,), (2,), (8,)],
    "helmert": [(1, True), (2,), (5,), (5, True)],
    "dft": [(1,), (5,), (6, "sqrtn"), (6, "n")],
}


@pytest.mark.parametrize("name", CALLS)
def test_values_are_scipys(name, device):
    for arguments in CALLS[name]:
        theirs = np.asarray(getattr(scipy.linalg, name)(*arguments))
        given = [cm.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        ours = getattr(cm.linalg, name)(*given)
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", [n for n in CALLS if isinstance(CALLS[n][0][0], np.ndarray)])
def test_gradients(name, device):
    for arguments in CALLS[name]:
        which = [
            i for i, a in enumerate(arguments) if isinstance(a, np.ndarray) and a.dtype == float
        ]
        if not which or 0 in np.shape(arguments[0]):
            continue
        result = getattr(scipy.linalg, name)(*arguments)
        weights = np.random.default_rng(1).normal(size=result.shape)

        def total(*moved, which=which, arguments=arguments, weights=weights):
            full = [*arguments]
            for i, x in zip(which, moved, strict=True):
                full[i] = x
            return (getattr(cm.linalg, name)(*full) * cm.asarray(weights)).sum()

        given = [cm.asarray(arguments[i]) for i in which]
        slopes = cm.grad(total, tuple(range(len(which))))(*given)
        for k, i in enumerate(which):
            central = np.zeros(arguments[i].shape)
            for at in np.ndindex(central.shape):
                step = np.zeros(central.shape)
                step[at] = 1e-6
                sides = []
                for sign in (1, -1):
                    moved = list(given)
                    moved[k] = given[k] + sign * cm.asarray(step)
                    sides.append(float(total(*moved)))
                central[at] = (sides[0] - sides[1]) / 2e-6
            np.testing.assert_allclose(slopes[k].to_numpy(), central, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "name", ["toeplitz", "hankel", "circulant", "companion", "fiedler", "fiedler_companion"]
)
def test_batches_are_made_one_by_one(name):
    many = np.random.default_rng(2).normal(size=(2, 3, 5))
    ours = getattr(cm.linalg, name)(cm.asarray(many)).to_numpy()
    for at in np.ndindex(2, 3):
        np.testing.assert_array_equal(
            ours[at], getattr(cm.linalg, name)(cm.asarray(many[at])).to_numpy()
        )


def test_dtypes_and_devices_of_constants(device):
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        assert cm.linalg.hilbert(3, dtype=dtype).dtype == dtype
        assert cm.linalg.helmert(3, dtype=dtype).dtype == dtype
    assert cm.linalg.hadamard(4, dtype="float32").dtype == cm.float32
    assert cm.linalg.dft(4, dtype="complex64").dtype == cm.complex64
    assert cm.linalg.toeplitz(cm.ones(3, dtype="bfloat16")).dtype == cm.bfloat16
    assert cm.linalg.block_diag().shape == (1, 0)


@pytest.mark.parametrize("lower", [False, True])
def test_systems_by_cholesky_factors(lower, device):
    rng = np.random.default_rng(3)
    a = rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4))
    a = a @ a.conj().swapaxes(1, 2) + 4 * np.eye(4)
    for matrix, right in ((a, rng.normal(size=(2, 4, 3))), (a[0], rng.normal(size=4) * 1j)):
        factor = cm.linalg.cho_factor(cm.asarray(matrix), lower)
        assert factor[1] is lower
        found = cm.linalg.cho_solve(factor, cm.asarray(right)).to_numpy()
        np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-11)
    theirs, _ = scipy.linalg.cho_factor(a[0], lower)
    triangle = np.tril if lower else np.triu
    np.testing.assert_allclose(
        cm.linalg.cho_factor(cm.asarray(a[0]), lower)[0].to_numpy(), triangle(theirs), rtol=1e-12
    )


def test_gradients_of_cho_solve():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    b = np.array([1.0, 2.0])

    def total(a, b):
        return (cm.linalg.cho_solve(cm.linalg.cho_factor((a + a.mT) / 2), b) ** 2).sum()

    ga, gb = cm.grad(total, (0, 1))(cm.asarray(a), cm.asarray(b))
    x = np.linalg.solve(a, b)
    left = np.linalg.solve(a, 2 * x)
    np.testing.assert_allclose(gb.to_numpy(), left, rtol=1e-12)
    outer = -np.outer(left, x)
    np.testing.assert_allclose(ga.to_numpy(), (outer + outer.T) / 2, rtol=1e-12)


def test_bandwidth(device):
    """SciPy's takes a single row or column for a diagonal matrix: there by the definition."""
    for m, n in itertools.product((1, 3, 5), (1, 2, 4)):
        for k in range(-m, n):
            for a in (np.eye(m, n, k), np.eye(m, n, k) + np.eye(m, n), np.zeros((m, n))):
                ours = cm.linalg.bandwidth(cm.asarray(a))
                i, j = np.nonzero(a)
                assert ours == (max(0, (i - j).max(initial=0)), max(0, (j - i).max(initial=0)))
                assert min(m, n) == 1 or ours == scipy.linalg.bandwidth(a)
                assert type(ours[0]) is int


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda la: la.toeplitz(cm.ones(0)), "toeplitz: c needs 1 numbers"),
        (lambda la: la.hadamard(6), "hadamard: n must be a power of 2, got 6"),
        (lambda la: la.companion([1.0]), "companion: a needs 2 numbers"),
        (lambda la: la.leslie([1.0, 2], [1.0, 2]), "leslie: s must have one number less"),
        (lambda la: la.khatri_rao(cm.ones((2, 2)), cm.ones((2, 3))), "khatri_rao: wants matrices"),
        (lambda la: la.block_diag(cm.ones((1, 1, 1))), "block_diag: wants matrices"),
        (lambda la: la.convolution_matrix([1.0], 2, "x"), "convolution_matrix: mode must be"),
        (lambda la: la.dft(2, "x"), "dft: scale must be"),
        (lambda la: la.bandwidth([1.0]), "bandwidth: wants a matrix"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call(cm.linalg)
    with pytest.raises(TypeError, match="^cho_solve: wants the pair"):
        cm.linalg.cho_solve(cm.ones((2, 2)), cm.ones(2))
    with pytest.raises(TypeError, match="^fiedler: wants numeric a, got bool"):
        cm.linalg.fiedler([True, False])
    with pytest.raises(TypeError, match="^hilbert: wants a floating-point dtype"):
        cm.linalg.hilbert(2, dtype=int)


@pytest.mark.parametrize("name", ["companion", "fiedler_companion"])
@pytest.mark.parametrize("dtype", ["int64", "float16", "float32", "complex128"])
def test_a_leading_coefficient_of_0_is_refused(device, name, dtype):
    """As SciPy does; on a GPU where the host waits."""
    make = getattr(cm.linalg, name)
    for a in ([0, 1, 2], [[1, 2, 3], [0, 2, 3]]):
        with pytest.raises(ValueError):
            getattr(scipy.linalg, name)(a)
        with pytest.raises(ValueError, match=f"^{name}: the leading coefficient is 0"):
            make(cm.array(a, dtype=dtype)).to_numpy()
        with pytest.raises(ValueError, match=f"^{name}: the leading coefficient is 0"):
            cm.jit(make)(cm.array(a, dtype=dtype)).to_numpy()
    assert np.isnan(make(cm.array([np.nan, 0, 0])).to_numpy()[0]).all()


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["companion", "fiedler_companion"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_kernels_flag_a_leading_coefficient_of_0(name, dtype):
    for lead, flagged in ((0, -7), (1, 0)):
        line = np.array([[1, 2, 3, 4], [lead, 2, 3, 4]], dtype)
        x = line.view(np.uint16) if dtype is np.float16 else line
        out, flag = np.zeros((6, 3), x.dtype), np.zeros(1, np.int64)
        planners.placed_rows(name, np.dtype(dtype))[(1, 6), 4](x, x, out, 3, flag, 7)
        assert flag[0] == flagged


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 1)])
def test_fiedlers_companion_of_a_constant_is_empty(shape):
    made = cm.linalg.fiedler_companion(cm.ones(shape))
    assert made.shape == (*shape[:-1], 0, 0) and scipy.linalg.fiedler_companion([1.0]).size == 0


def test_names_of_cupyx():
    """What cupyx.scipy.linalg has (its __init__.py at 6b6d9563)."""
    names = """bandwidth block_diag circulant companion convolution_matrix dft expm fiedler
        fiedler_companion hadamard hankel helmert hilbert khatri_rao leslie lu lu_factor lu_solve
        solve_triangular toeplitz""".split()
    assert len(names) == 20 and set(names) <= set(cm.linalg.__all__)


def test_constructors_are_one_launch(fake):
    n = 48
    line = np.random.default_rng(5).normal(size=n) + 3
    with cm.device("cuda"):
        x, less = cm.asarray(line), cm.asarray(line[1:])
        own = "companion", "fiedler_companion", "hankel", "toeplitz", "circulant"
        calls = {name: [x] for name in own}
        calls["leslie"] = [x, less]
        for name in ("hilbert", "helmert", "dft"):
            calls[name] = [n]
        calls["hadamard"] = [64]
        for name, arguments in calls.items():
            for _ in range(3):
                fake.launches.clear()
                getattr(cm.linalg, name)(*arguments)
            assert len(fake.launches) == 1, name


@pytest.mark.parametrize("machine", MACHINES)
def test_kernels_of_rules(machine):
    """The cards matrix_formula, companion, fiedler_companion, leslie and those of diagonals."""
    rng = np.random.default_rng(6)

    def made(rule, rows, n, dtype, more=0):
        layout = Layout.new((rows, n), np.dtype(dtype), 0)
        return run_version(
            machine,
            lambda: planners.formula(layout=layout, device=0, rule=rule, n=n, more=more),
        )

    for n in (1, 2, 5, 130):
        np.testing.assert_array_equal(made("hilbert", n, n, "f8"), scipy.linalg.hilbert(n))
        theirs = scipy.linalg.helmert(n, full=True)
        for first in (0, 1) if n > 1 else (0,):
            close = {"rtol": 1e-15, "atol": 0}
            ours = made("helmert", n - first, n, "f8", first)
            np.testing.assert_allclose(ours, theirs[first:], **close)
        ours = made("dft", n, n, "c16", 0.25)
        np.testing.assert_allclose(ours, scipy.linalg.dft(n) / 4, rtol=0, atol=1e-13)
    for dtype in ("i8", "f4", "u1", "c8"):
        expected = scipy.linalg.hadamard(64, np.int64).astype(dtype)
        np.testing.assert_array_equal(made("hadamard", 64, 64, dtype), expected)
    for n, dtype in ((2, "f4"), (3, "c16"), (8, "f8"), (9, "c8"), (140, "f4")):
        x = rng.normal(size=(2, n)) + 1j * rng.normal(size=(2, n))
        x = (x if dtype[0] == "c" else x.real).astype(dtype)
        for rule in ("companion", "fiedler_companion"):
            ours = run_version(machine, lambda *a, rule=rule: planners.placed(*a, rule=rule), x)
            theirs = [getattr(scipy.linalg, rule)(each) for each in x]
            eps = 4 * np.finfo(dtype).eps
            np.testing.assert_allclose(ours, theirs, rtol=eps, atol=0)
        s = x[:, 1:].copy()
        ours = run_version(machine, lambda *a: planners.placed(*a, rule="leslie"), x, s)
        theirs = [scipy.linalg.leslie(*each) for each in zip(x, s, strict=True)]
        np.testing.assert_array_equal(ours, theirs)
        for rule in ("toeplitz", "hankel"):
            for c, r in ((x, s), (s, x)):
                ours = run_version(
                    machine, lambda *a, rule=rule: planners.placed(*a, rule=rule), c, r
                )
                theirs = [getattr(scipy.linalg, rule)(*each) for each in zip(c, r, strict=True)]
                np.testing.assert_array_equal(ours, theirs)
        for rule in ("circulant", "hankel_of_column"):
            ours = run_version(machine, lambda *a, rule=rule: planners.placed(*a, rule=rule), x)
            theirs = [getattr(scipy.linalg, rule.partition("_")[0])(each) for each in x]
            np.testing.assert_array_equal(ours, theirs)


def test_companions_of_other_dtypes(device):
    x = np.array([2, 3, 5, 7])
    for name in ("companion", "fiedler_companion"):
        theirs = getattr(scipy.linalg, name)(x)
        for dtype in ("i4", "f4", "f8", "c8", "bfloat16"):
            ours = getattr(cm.linalg, name)(cm.asarray(x, dtype=dtype))
            assert ours.dtype == (cm.float64 if dtype == "i4" else cm.asarray(0, dtype=dtype).dtype)
            np.testing.assert_array_equal(ours.astype("c16").to_numpy(), theirs)
        turned = cm.asarray(np.stack([x, x + 1]).astype("f8")[:, ::-1])[:, ::-1]
        np.testing.assert_allclose(getattr(cm.linalg, name)(turned)[0].to_numpy(), theirs)
