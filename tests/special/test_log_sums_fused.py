"""logsumexp on a GPU: one kernel, with the CPU's results; on the emulated GPU."""

from __future__ import annotations

import os

import numpy as np
import pytest
from emulated_gpu import emulated_gpu
from scipy import special

import cudamath as cm

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing is simulated"
)


@pytest.mark.parametrize("axis", [1, -1, 0, None])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_and_gradients_are_those_of_the_cpu(monkeypatch, dtype, axis):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 40)).astype(dtype)
    x[0, 3], x[1], x[2, 7] = np.inf, -np.inf, np.nan

    def loss(a):
        return (cm.special.logsumexp(a[3:], axis=axis) ** 2).sum()

    slope = cm.grad(loss)(cm.asarray(x)).to_numpy()
    with emulated_gpu(monkeypatch):
        given = cm.asarray(x, device="cuda")
        found = np.asarray(cm.special.logsumexp(given, axis=axis).to_numpy())
        ours = cm.grad(loss)(given).to_numpy()
    eps = np.finfo(dtype).eps
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, special.logsumexp(x, axis=axis), rtol=8 * eps)
    np.testing.assert_allclose(ours, slope, rtol=1e3 * eps, atol=eps)
