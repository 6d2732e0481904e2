"""Matrices for the tests of linear algebra: regular, Hermitian, lying in memory in several ways;
how near is near, and gradients beside central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from strategies import eps

import cudamath as cm
from cudamath.testing import assert_close

#: name -> rng -> matrices small enough for a block: shapes, ways to lie in memory, deficient ranks
SMALL = {
    "one": lambda rng: rng.standard_normal((1, 1)),
    "one column": lambda rng: rng.standard_normal((5, 1)),
    "rows of one": lambda rng: rng.standard_normal((2, 1, 5)),
    "tall": lambda rng: rng.standard_normal((2, 7, 4)),
    "wide": lambda rng: rng.standard_normal((2, 4, 7)),
    "odd": lambda rng: rng.standard_normal((9, 9)),
    "columns": lambda rng: rng.standard_normal((5, 3)).T,
    "reversed": lambda rng: rng.standard_normal((2, 3, 4))[..., ::-1, ::-1],
    "apart": lambda rng: rng.standard_normal((2, 3, 3, 4))[:, ::2],
    "repeated": lambda rng: np.broadcast_to(rng.standard_normal((3, 4)), (2, 3, 4)),
    "zeros": lambda rng: np.zeros((4, 3)),
    "ones": lambda rng: np.ones((5, 4)),
    "rank 2": lambda rng: rng.standard_normal((6, 2)) @ rng.standard_normal((2, 6)),
}


def rand(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray:
    dtype = np.dtype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


def regular(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray:
    """Square matrices far from singular."""
    return rand(rng, shape, dtype) + np.asarray(2 * shape[-1] ** 0.5 * np.eye(shape[-1]), dtype)


def hermitian(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray:
    """Positive definite matrices."""
    x = rand(rng, shape, dtype)
    return x @ H(x) + np.eye(shape[-1], dtype=dtype)


def H(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def near(ours: Any, theirs: Any, *, scale: float = 1.0, dtype: Any = None) -> None:
    """Equal within some epsilons of the size of the answer; shape and dtype are NumPy's."""
    theirs = np.asarray(theirs)
    got = np.asarray(ours)
    assert got.dtype == (theirs.dtype if dtype is None else dtype), (got.dtype, theirs.dtype)
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, theirs)
        return
    size = float(np.abs(theirs).max(initial=1.0))
    assert_close(got, theirs, rtol=0, atol=200 * eps(got.dtype) * size * scale)


def look(how: str, x: np.ndarray) -> cm.ndarray:
    """The same matrices, lying differently."""
    if how == "columns":
        return cm.matrix_transpose(cm.asarray(np.ascontiguousarray(np.swapaxes(x, -1, -2))))
    if how == "strided":
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        wide[..., 1::2] = x
        return cm.asarray(wide)[..., 1::2]
    if how == "reversed":
        return cm.asarray(np.ascontiguousarray(x[..., ::-1, :]))[..., ::-1, :]
    return cm.asarray(x)


LOOKS = ["rows", "columns", "strided", "reversed"]
TYPES = [np.dtype(t) for t in ("f4", "f8", "c8", "c16")]
LEADS = [(), (3,), (2, 1, 2)]
#: dtype, leading axes, look, rows, seed
draws = st.tuples(
    st.sampled_from(TYPES),
    st.sampled_from(LEADS),
    st.sampled_from(LOOKS),
    st.integers(1, 40),
    st.integers(0, 99),
)


def pairing(outs: Any, seed: int) -> Any:
    """<w, out> of all results, in real numbers."""
    rng = np.random.default_rng(seed)
    total: Any = 0.0
    for y in outs if isinstance(outs, tuple) else (outs,):
        re, im = rng.normal(size=y.shape), rng.normal(size=y.shape)
        total = total + (y.real * re + y.imag * im if y.dtype.kind == "c" else y * re).sum()
    return total


def slope_matches(
    value: Any, *arrays: np.ndarray, step: float = 1e-6, tolerance: float = 1e-6
) -> None:
    """The gradient against central differences in random directions."""
    rng = np.random.default_rng(7)
    gradients = cm.grad(value, tuple(range(len(arrays))))(*[cm.asarray(a) for a in arrays])
    for _ in range(2):
        ways = [rand(rng, a.shape, a.dtype) for a in arrays]
        up, down = (
            float(value(*[cm.asarray(a + h * d) for a, d in zip(arrays, ways, strict=True)]))
            for h in (step, -step)
        )
        parts = [np.real(np.conj(g.to_numpy()) * d) for g, d in zip(gradients, ways, strict=True)]
        promised, size = sum(p.sum() for p in parts), sum(np.abs(p).sum() for p in parts)
        assert abs((up - down) / (2 * step) - promised) <= tolerance * size + 1e-7
