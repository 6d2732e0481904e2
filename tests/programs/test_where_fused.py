"""`where` with numbers is part of its neighbours' kernels, in the plans of an emulated GPU. The
truth is NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch):
        yield


CASES = {
    "a number last": (lambda xp, x, m: xp.where(m, x / 8, -1e9) * 2, ["float32", "float64"]),
    "a number first": (lambda xp, x, m: xp.where(x > 0.5, 0.25, x * x) + x, ["float32", "float64"]),
    "two numbers": (lambda xp, x, m: x * xp.where(x > 0, 1.0, -2.0), ["float64"]),
    "infinite": (lambda xp, x, m: xp.exp(xp.where(m, x, -np.inf)), ["float32", "float64"]),
    "no number": (lambda xp, x, m: abs(xp.where(m, np.nan, x)), ["float32", "float64"]),
    "too large for 16 bits": (lambda xp, x, m: xp.where(m, x + x, 1e6) * 1, ["float16"]),
    "numbers of 16 bits": (lambda xp, x, m: xp.where(m, x / 8, -3.5) * 2, ["float16"]),
    "whole numbers": (lambda xp, x, m: xp.where(x > 0, x + 1, -7) * 3, ["int32", "int64"]),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, (_, dtypes) in CASES.items() for dtype in dtypes]
)
def test_values(name: str, dtype: str) -> None:
    function = CASES[name][0]
    rng = np.random.default_rng(0)
    x, mask = (rng.normal(size=(5, 12)) * 4).astype(dtype), rng.random(12) > 0.4
    jitted = cm.jit(lambda x, mask: function(cm, x, mask))
    with np.errstate(all="ignore"):
        wanted = function(np, x, mask)
    for _ in range(3):
        found = jitted(cm.array(x), cm.array(mask)).to_numpy()
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, 2e-6 if dtype != "float16" else 2e-3)
    (node,) = jitted.programs()[0].nodes
    assert node.name.startswith("fused(")


def test_a_slope_by_hand() -> None:
    """relu by `where`, and its gradient."""
    jitted = cm.jit(cm.value_and_grad(lambda x: (cm.where(x > 0, x, 0.0) ** 2).sum()))
    x = np.linspace(-2, 3, 24, dtype="float32").reshape(4, 6)
    for _ in range(2):
        value, slope = jitted(cm.array(x))
        np.testing.assert_allclose(slope.to_numpy(), 2 * np.maximum(x, 0), 1e-6)
        np.testing.assert_allclose(float(value), (np.maximum(x, 0) ** 2).sum(), 1e-6)
    assert all(node.name.startswith("fused(") for node in jitted.programs()[0].nodes)
