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
