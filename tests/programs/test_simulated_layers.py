"""Layers, losses and optimizers by hand on a GPU in Numba's simulator: kernels that write side by
side, compare with an index, and compute again what was not kept."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import BINARY, UNARY
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.programs import recomputed

pytestmark = pytest.mark.simulator

ONE = (
    "halves turned",
    "halves turned, pulled",
    "attention by hand, pulled",
    "loss by hand, pulled",
    "rows chosen twice",
)
TWO = ("points", "physics", "block pulled", "block's weights pulled", "optimized", "steps")
SHAPES = (3, 16), (2, 18)


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    with simulated_gpu(monkeypatch):
        monkeypatch.setattr(recomputed, "LEAST", 1)
        yield


@pytest.mark.parametrize("name", [*ONE, *TWO])
@pytest.mark.parametrize("shape", SHAPES)
def test_by_hand(name: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    data = [rng.uniform(-1, 1, shape) for _ in range(1 if name in ONE else 2)]
    function = (UNARY if name in ONE else BINARY)[name]
    with cm.device("cpu"):
        wanted = np.asarray(function(*map(cm.array, data)))
    jitted = cm.jit(function)
    for _ in range(2):
        found = jitted(*[cm.array(x.astype("float32")) for x in data]).to_numpy()
        np.testing.assert_allclose(found, wanted, 2e-5, 2e-5 * abs(wanted).max())
