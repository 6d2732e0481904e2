"""Gradients with respect to stored values and dense operands beside central differences, first and
second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudamath as cm

S = cm.sparse
INDICES, INDPTR = np.array([0, 2, 3, 1, 0, 4]), np.array([0, 3, 3, 4, 6])
ROWS = np.repeat(np.arange(4), np.diff(INDPTR))
DATA = np.array([0.5, -1.25, 2.0, 0.75, -0.5, 1.5])


def csr(data: Any) -> Any:
    return S.csr_array((data, INDICES, INDPTR), shape=(4, 5))


def coo(data: Any) -> Any:
    """With duplicates."""
    return S.coo_array((data, ([3, 0, 3, 1, 0, 2], [4, 1, 4, 2, 1, 0])), shape=(4, 5))


RNG = np.random.default_rng(0)
X, W, B = RNG.standard_normal(5), RNG.standard_normal(4), RNG.standard_normal((5, 3))
OTHER = S.csr_array(RNG.standard_normal((4, 5)) * (RNG.random((4, 5)) < 0.5))

#: Functions of the stored values.
OF_VALUES: dict[str, Callable[[Any], Any]] = {
    "vector": lambda d: csr(d) @ X,
    "matrix": lambda d: csr(d) @ B,
    "from the left": lambda d: W @ csr(d),
    "csc": lambda d: csr(d).tocsc() @ X,
    "coo, duplicates": lambda d: coo(d) @ X,
    "transposed": lambda d: csr(d).T @ W,
    "bsr": lambda d: coo(d).tocsr().tobsr(blocksize=(2, 1)) @ X,
    "dia": lambda d: csr(d).todia() @ X,
    "dense": lambda d: csr(d).toarray() ** 2,
    "sum": lambda d: (csr(d) + OTHER).toarray() ** 2,
    "difference": lambda d: (OTHER - coo(d)).toarray() ** 2,
    "product": lambda d: (csr(d) * OTHER).sum(axis=0) ** 2,
    "sparse product": lambda d: ((csr(d) @ OTHER.T).toarray()) ** 2,
    "maximum": lambda d: csr(d).maximum(OTHER).toarray() ** 2,
    "scaled": lambda d: (csr(d) * 3 / 2).sum(axis=1) ** 2,
    "broadcast": lambda d: (csr(d) * X).sum(axis=1) ** 2,
    "sine": lambda d: coo(d).sin().sum(axis=0),
    "power": lambda d: (csr(d) ** 3).sum(),
    "mean": lambda d: coo(d).mean(axis=1) ** 2,
    "max": lambda d: csr(d).max(axis=1).toarray() ** 2,
    "min": lambda d: csr(d).min(axis=0).toarray() ** 2,
    "slice": lambda d: csr(d)[::2, 1:].toarray() ** 2,
    "rows": lambda d: csr(d)[[3, 0, 3]] @ X,
    "positions": lambda d: csr(d)[[0, 3, 2], [2, 4, 0]] ** 2,
    "diagonal": lambda d: csr(d).diagonal() ** 2,
    "stacked": lambda d: S.vstack([csr(d), 2 * csr(d)]) @ X,
    "kron": lambda d: S.kron(csr(d), OTHER).sum(axis=0) ** 2,
    "triangle": lambda d: S.tril(csr(d)) @ X,
    "reshaped": lambda d: csr(d).reshape(5, 4) @ W,
}
OF_DENSE: dict[str, Callable[[Any], Any]] = {
    "vector": lambda x: csr(DATA) @ x,
    "csc": lambda x: csr(DATA).tocsc() @ x,
    "coo": lambda x: coo(DATA) @ x,
    "bsr": lambda x: csr(DATA).tobsr() @ x,
    "left": lambda x: x @ csr(DATA).T,
    "matrix": lambda x: csr(DATA) @ x.reshape(5, 1).repeat(2, 1),
    "multiplied": lambda x: (csr(DATA) * x).sum(axis=1),
    "sampled": lambda x: (
        S.sampled_product(csr(DATA), np.outer(W, [1, 2]), x * np.ones((2, 1))).data
    ),
    "sampled left": lambda x: S.sampled_product(csr(DATA).T, x[:, None], W[None]).data,
    "diagonals": lambda x: S.diags_array([x], offsets=[0]) @ X,
}


def scalar(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    weights: dict[int, np.ndarray] = {}

    def value(x: Any) -> Any:
        y = function(x)
        y = y.reshape(-1) if getattr(y, "ndim", 0) else cm.asarray(y).reshape(1)
        w = weights.setdefault(y.size, np.cos(np.arange(y.size) + 1))
        return (y * w).sum() + 0.3 * (y * y).sum()

    return value


def differences(function: Callable[[np.ndarray], float], x: np.ndarray, step: float) -> np.ndarray:
    out = np.zeros_like(x)
    for i in range(x.size):
        ahead, back = x.copy(), x.copy()
        ahead[i] += step
        back[i] -= step
        out[i] = (function(ahead) - function(back)) / (2 * step)
    return out


@pytest.mark.parametrize("name", OF_VALUES)
def test_of_values(name):
    beside_differences(scalar(OF_VALUES[name]), DATA)


@pytest.mark.parametrize("name", OF_DENSE)
def test_of_dense(name):
    beside_differences(scalar(OF_DENSE[name]), X)


def beside_differences(value: Callable[[Any], Any], x: np.ndarray) -> None:
    slope = cm.grad(value)
    got = slope(cm.array(x)).to_numpy()
    expected = differences(lambda v: float(value(cm.array(v))), x, 1e-6)
    np.testing.assert_allclose(got, expected, rtol=2e-7, atol=2e-8)
    direction = np.sin(np.arange(x.size) + 0.5)
    along = cm.grad(lambda v: (slope_of(value, v) * direction).sum())
    second = differences(
        lambda v: float((slope(cm.array(v)).to_numpy() * direction).sum()), x, 1e-5
    )
    np.testing.assert_allclose(along(cm.array(x)).to_numpy(), second, rtol=1e-6, atol=1e-7)


def slope_of(value: Callable[[Any], Any], v: Any) -> Any:
    return cm.grad(value)(v)


SQUARE = np.array([[5.0, 1, 0, 0], [0, 4, 2, 0], [1, 0, 6, 0.5], [0, 0, 1, 5]])
STORED = np.array(np.nonzero(SQUARE))
RIGHT = np.array([1.0, -2.0, 0.5, 3.0])
SOLVERS = {
    name: getattr(S.linalg, name) for name in ("cg", "bicg", "bicgstab", "cgs", "gmres", "minres")
}
EXACT = {name: {"rtol": 1e-13, **({} if name == "minres" else {"atol": 0.0})} for name in SOLVERS}


def square(name: str, data: Any) -> Any:
    """A sparse array of these values, made positive definite where the method asks for it."""
    A = S.csr_array((data, STORED[1], np.searchsorted(STORED[0], np.arange(5))), shape=(4, 4))
    return A + A.T if name in ("cg", "minres") else A


@pytest.mark.parametrize("name", SOLVERS)
def test_of_solutions_by_iteration(name):
    """First and second order, for stored values, dense matrices, right-hand sides, and arrays that
    an operator's functions use."""
    solve, values = SOLVERS[name], SQUARE[tuple(STORED)]
    start, exact = {"x0": np.ones(4)}, EXACT[name]
    beside_differences(scalar(lambda d: solve(square(name, d), RIGHT, **exact)[0]), values)
    beside_differences(
        scalar(lambda b: solve(square(name, values), b * b, **start, **exact)[0]), RIGHT
    )
    beside_differences(
        scalar(lambda d: solve(square(name, d).toarray(), d[:4], **exact)[0]), values
    )

    def of_operator(d: Any) -> Any:
        A = square(name, d)
        turned = A.T
        operator = S.linalg.LinearOperator(
            (4, 4), lambda v: A @ v, lambda v: turned @ v, dtype=np.float64
        )
        return solve(operator, RIGHT, **exact)[0]

    beside_differences(scalar(of_operator), values)


def test_of_complex_solutions_by_iteration():
    A = SQUARE + 0.3j * SQUARE.T

    def value(a: Any, b: Any) -> Any:
        y = S.linalg.gmres(a, b, rtol=1e-13)[0]
        return (y.real * 2 + y.imag * y.real).sum()

    def known(a: Any, b: Any) -> Any:
        y = cm.linalg.solve(a, b)
        return (y.real * 2 + y.imag * y.real).sum()

    arrays = cm.array(A), cm.array(RIGHT + 1j)
    for ours, theirs in zip(
        cm.grad(value, (0, 1))(*arrays), cm.grad(known, (0, 1))(*arrays), strict=True
    ):
        np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{"M": True}, {"rtol": 0.0, "atol": 1e-12}])
def test_adjoint_solutions_take_the_options(options):
    """The preconditioner's adjoint, and a tolerance beside the gradient's own size."""
    A = S.csr_array(SQUARE)
    if options.pop("M", None):
        options = {"M": S.csr_array(np.linalg.inv(np.tril(SQUARE))), "rtol": 1e-13}
    slope = cm.grad(lambda b: 1e-9 * (S.linalg.gmres(A, b, **options)[0] * X[:4]).sum())
    expected = 1e-9 * np.linalg.solve(SQUARE.T, X[:4])
    np.testing.assert_allclose(slope(cm.array(RIGHT)).to_numpy(), expected, rtol=1e-9)


def test_of_shifted_systems():
    A = S.csr_array(SQUARE + SQUARE.T)
    slope = cm.grad(lambda b: (S.linalg.minres(A, b, shift=1.5, rtol=1e-13)[0] * X[:4]).sum())
    expected = np.linalg.solve(SQUARE + SQUARE.T - 1.5 * np.eye(4), X[:4])
    np.testing.assert_allclose(slope(cm.array(RIGHT)).to_numpy(), expected, rtol=1e-9)


def test_complex_gradients():
    """Of a real function of complex values: conj(dA)."""
    data, x = DATA + 0.5j * DATA[::-1], X + 1j * X[::-1]

    def value(d: Any, v: Any) -> Any:
        y = csr(d) @ v
        return (y.real**2 + y.imag**2).sum()

    got = [g.to_numpy() for g in cm.grad(value, (0, 1))(cm.array(data), cm.array(x))]
    for i, at in enumerate((data, x)):
        for unit, part in ((1, np.real), (1j, np.imag)):

            def moved(j: int, by: complex, i: int = i) -> float:
                both = [data.copy(), x.copy()]
                both[i][j] += by
                return float(value(*map(cm.array, both)))

            step = 1e-6 * unit
            expected = [(moved(j, step) - moved(j, -step)) / 2e-6 for j in range(at.size)]
            sign = 1 if unit == 1 else _sign_of_imaginary_parts()
            np.testing.assert_allclose(
                part(got[i]), sign * np.array(expected), rtol=1e-6, atol=1e-7
            )


def _sign_of_imaginary_parts() -> int:
    """The package's convention, read from an elementwise function: the gradient of |z|^2."""
    g = cm.grad(lambda z: (z.real**2 + z.imag**2).sum())(cm.array([1j]))
    return 1 if g.to_numpy()[0].imag > 0 else -1


def test_in_a_program():
    a = csr(DATA)
    run = cm.jit(lambda x: a @ (a.T @ x))
    w = cm.array(W)
    for _ in range(2):
        np.testing.assert_array_equal(run(w).to_numpy(), (a @ (a.T @ w)).to_numpy())
    slope = cm.jit(cm.grad(lambda d: (a._with_data(d) @ cm.array(X)).sum()))
    np.testing.assert_allclose(slope(cm.array(DATA)).to_numpy(), X[INDICES])
