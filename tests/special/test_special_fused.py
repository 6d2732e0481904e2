"""Special functions of several results or steps are one kernel, with the CPU's results; on the
emulated GPU."""

from __future__ import annotations

import os

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing is simulated"
)
RNG = np.random.default_rng(0)
U, M, THETA = RNG.uniform(-5, 5, 300), RNG.uniform(0, 1, 300), RNG.uniform(0, 3.1, 300)
DEGREES, ORDERS = RNG.integers(0, 9, 300), RNG.integers(-8, 9, 300)
CASES = {
    "ellipj": (U, M),
    "ellipj32": (U.astype("f4"), M.astype("f4")),
    "ellipj_half": (U, 0.5),
    "multigammaln": (U + 9, 3),
    "sici": (4 * U,),
    "sici32": (4 * U.astype("f4"),),
    "shichi": (U,),
    "sph_harm_y": (DEGREES, ORDERS, THETA, U),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_cpu(monkeypatch, case):
    function, given = (
        getattr(cm.special, case.removesuffix("32").removesuffix("_half")),
        CASES[case],
    )

    def results(device):
        arrays = [cm.asarray(x, device=device) if isinstance(x, np.ndarray) else x for x in given]
        found = function(*arrays)
        return [x.to_numpy() for x in (found if isinstance(found, tuple) else (found,))]

    expected = results("cpu")
    with emulated_gpu(monkeypatch):
        found = results("cuda")
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6 if "32" in case else 1e-14, atol=1e-15)


def test_gradients_of_ellipj_are_those_of_the_cpu(monkeypatch):
    def slopes(device):
        u, m = (cm.asarray(x, device=device) for x in (U[:50], M[:50]))
        found = cm.grad(lambda *x: sum(y.sum() for y in cm.special.ellipj(*x)), (0, 1))(u, m)
        return [x.to_numpy() for x in found]

    expected = slopes("cpu")
    with emulated_gpu(monkeypatch):
        found = slopes("cuda")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
