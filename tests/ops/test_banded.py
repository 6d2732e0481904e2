"""cm.linalg's systems of few diagonals beside SciPy's, and their gradients beside central
differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.linalg
from matrices import near, pairing, rand, slope_matches

import cudamath as cm

la = cm.linalg
TYPES = ["f4", "f8", "c8", "c16"]
ROWS = (1, 2, 5, 32, 33, 100)  # windows have 32 columns


def banded(n: int, lower: int, upper: int, dtype: str, lead: tuple[int, ...] = ()) -> np.ndarray:
    """Diagonals of a matrix whose rows must be exchanged; outside of it lies NaN."""
    ab = rand(np.random.default_rng(n), (*lead, lower + upper + 1, n), dtype)
    ab[..., upper, :] += 2 * np.sign(ab[..., upper, :].real)
    row, j = np.ogrid[: lower + upper + 1, :n]
    i = j + row - upper
    return np.where((i >= 0) & (i < n), ab, np.nan).astype(dtype)


def definite(n: int, beside: int, dtype: str, lower: bool) -> np.ndarray:
    ab = banded(n, *((beside, 0) if lower else (0, beside)), dtype)
    ab[0 if lower else beside] = 3 * beside + 1 + np.abs(ab[0 if lower else beside])
    return ab


def inside(ab: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(ab), 0, ab)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sides", [(0, 0), (1, 1), (2, 0), (0, 3), (3, 2), (40, 5), (2, 40)])
def test_solve_banded(device, sides, dtype):
    for n in [n for n in ROWS if n > max(sides)]:
        ab = banded(n, *sides, dtype)
        wide = np.result_type(dtype, "f8")
        for shape in ((n,), (n, 3)):
            b = rand(np.random.default_rng(1), shape, dtype)
            theirs = scipy.linalg.solve_banded(sides, inside(ab).astype(wide), b.astype(wide))
            near(
                la.solve_banded(sides, cm.asarray(ab), cm.asarray(b)),
                theirs.astype(dtype),
                scale=100,
            )


def test_batches(device):
    ab, b = inside(banded(40, 2, 1, "f8", (3, 1))), rand(np.random.default_rng(2), (2, 40, 3))
    ours = la.solve_banded((2, 1), cm.asarray(ab), cm.asarray(b)).to_numpy()
    assert ours.shape == (3, 2, 40, 3)
    for i, j in itertools.product(range(3), range(2)):
        near(cm.asarray(ours[i, j]), scipy.linalg.solve_banded((2, 1), ab[i, 0], b[j]), scale=100)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lower", [False, True])
def test_hermitian(device, lower, dtype):
    for n, beside in itertools.product(ROWS, (0, 1, 3, 40)):
        if beside >= n:
            continue
        ab, b = definite(n, beside, dtype, lower), rand(np.random.default_rng(3), (n, 2), dtype)
        factor = la.cholesky_banded(cm.asarray(ab), lower=lower)
        theirs = scipy.linalg.cholesky_banded(inside(ab), lower=lower)
        near(factor, np.where(np.isnan(ab), 0, theirs).astype(dtype))
        x = scipy.linalg.solveh_banded(inside(ab), b, lower=lower)
        near(la.solveh_banded(cm.asarray(ab), cm.asarray(b), lower=lower), x)
        near(la.cho_solve_banded((factor, lower), cm.asarray(b[:, 0])), x[:, 0])


CALLS = {
    "solve_banded": lambda ab, b: la.solve_banded((2, 1), ab, b),
    "solve_banded lower": lambda ab, b: la.solve_banded((3, 0), ab, b),
    "solve_banded upper": lambda ab, b: la.solve_banded((0, 3), ab, b),
    "cholesky_banded": lambda ab, b: la.cholesky_banded(ab),
    "cholesky_banded lower": lambda ab, b: la.cholesky_banded(ab, lower=True),
    "cho_solve_banded": lambda ab, b: la.cho_solve_banded((ab, True), b),
    "solveh_banded": lambda ab, b: la.solveh_banded(ab, b),
    "solveh_banded lower": lambda ab, b: la.solveh_banded(ab, b, lower=True),
}


def operands(name: str, dtype: str, n: int = 36) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = {"solve_banded": (2, 1), "solve_banded lower": (3, 0)}.get(name, (0, 3))
    if name.startswith("solve_banded"):
        ab = inside(banded(n, lower, upper, dtype))
        ab[upper] = 6 + np.abs(ab[upper])
    else:
        ab = inside(definite(n, 3, dtype, "lower" in name or name.startswith("cho_")))
    return ab, rand(np.random.default_rng(4), (n, 2), dtype)


def real_diagonal(name: str, ab: cm.ndarray) -> cm.ndarray:
    """Hermitian matrices have one; what moves must not leave them."""
    if name.startswith(("solve_banded", "cho_")) or ab.dtype.kind != "c":
        return ab
    which = np.zeros((4, 1), bool)
    which[0 if "lower" in name else 3] = True
    return cm.where(cm.asarray(which), ab.real, ab)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("name", CALLS)
def test_gradients(device, name, dtype):
    ab, b = operands(name, dtype)
    slope_matches(lambda ab, b: pairing(CALLS[name](real_diagonal(name, ab), b), 5), ab, b)


@pytest.mark.parametrize("name", CALLS)
def test_second_order(device, name):
    ab, b = operands(name, "f8")

    def slope(ab: cm.ndarray, b: cm.ndarray) -> cm.ndarray:
        return pairing(cm.grad(lambda ab: pairing(CALLS[name](ab, b), 5))(ab), 9)

    slope_matches(slope, ab, b, tolerance=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: la.solve_banded((1, 1), cm.ones((2, 4)), cm.ones(4)),
            ValueError,
            "solve_banded: invalid values for the number of lower and upper diagonals",
        ),
        (
            lambda: la.solve_banded((1, 1), cm.ones((3, 4)), cm.ones(3)),
            ValueError,
            r"solve_banded: shapes of ab and b are not compatible, got \(3, 4\) and \(3,\)",
        ),
        (lambda: la.solve_banded(1, cm.ones((3, 4)), cm.ones(4)), TypeError, "solve_banded: wants"),
        (
            lambda: la.solve_banded((-1, 1), cm.ones((1, 4)), cm.ones(4)),
            ValueError,
            "solve_banded: ",
        ),
        (
            lambda: la.solve_banded((0, 0), cm.zeros((1, 4)), cm.ones(4)),
            np.linalg.LinAlgError,
            "solve_banded: Singular",
        ),
        (
            lambda: la.solveh_banded(-cm.ones((1, 4)), cm.ones(4)),
            np.linalg.LinAlgError,
            "solveh_banded: ",
        ),
        (
            lambda: la.cholesky_banded(-cm.ones((2, 4))),
            np.linalg.LinAlgError,
            "cholesky_banded: ",
        ),
        (lambda: la.cho_solve_banded(cm.ones((1, 4)), cm.ones(4)), TypeError, "cho_solve_banded:"),
        (lambda: la.cholesky_banded(cm.ones((0, 4))), ValueError, "cholesky_banded: ab must have"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()


def test_no_rows(device):
    assert la.solve_banded((1, 1), cm.ones((3, 0)), cm.ones((0, 2))).shape == (0, 2)
    assert la.solve_banded((1, 1), cm.ones((3, 4)), cm.ones((4, 0))).shape == (4, 0)
    assert la.solveh_banded(cm.ones((2, 0)), cm.ones(0)).shape == (0,)
    assert la.cholesky_banded(cm.ones((0, 0))).shape == (0, 0)
