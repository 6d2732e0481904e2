"""Sparse arrays of SciPy's, drawn by hypothesis, beside those of this package."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

import cudamath as cm

FORMATS = ["coo", "csr", "csc", "bsr", "dia"]
DTYPES = [np.float32, np.float64, np.complex64, np.complex128, np.int64, np.int8, np.bool_]


@st.composite
def coordinates(draw: Any, shape: tuple[int, int] | None = None, dtype: Any = None) -> Any:
    """SciPy's coo_array: any shape with zeros, empty rows, duplicates, explicit zeros."""
    m, n = draw(st.tuples(st.integers(0, 7), st.integers(0, 7))) if shape is None else shape
    dtype = np.dtype(draw(st.sampled_from(DTYPES)) if dtype is None else dtype)
    count = draw(st.integers(0, 20)) if m and n else 0
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    values = rng.integers(-4, 5, count) * (0.5 if dtype.kind in "fc" else 1)
    if dtype.kind == "c":
        values = values + 0.25j * rng.integers(-4, 5, count)
    coords = rng.integers(0, max(m, 1), count), rng.integers(0, max(n, 1), count)
    return sp.coo_array((values.astype(dtype), coords), shape=(m, n))


def ours(x: Any, format: str | None = None) -> Any:
    """The same array of this package, on the default device."""
    format = format or x.format
    return getattr(cm.sparse, f"{format}_array")(x)


def dense(x: Any) -> np.ndarray:
    if cm.sparse.issparse(x):
        x = x.toarray()
    elif sp.issparse(x):
        x = x.toarray()
    return np.asarray(x.to_numpy() if isinstance(x, cm.ndarray) else x)


def agree(got: Any, expected: Any, exact: bool = True) -> None:
    """The same values, dtype and shape, and both sparse or both dense."""
    assert cm.sparse.issparse(got) == sp.issparse(expected), (got, expected)
    a, b = dense(got), dense(expected)
    assert a.shape == b.shape and a.dtype == b.dtype, (a, b)
    if exact:
        np.testing.assert_array_equal(a, b)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
