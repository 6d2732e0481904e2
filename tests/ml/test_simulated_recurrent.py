"""Recurrent layers on a GPU in Numba's simulator: products, fused gates, and their gradients give
what the CPU gives, outside of programs and inside."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm

pytestmark = pytest.mark.simulator


@pytest.fixture
def gpu(monkeypatch):
    with simulated_gpu(monkeypatch):
        yield


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_layers_give_what_the_cpu_gives(gpu, kind: str) -> None:
    rng, gates = np.random.default_rng(0), {"rnn": 1, "lstm": 4, "gru": 3}[kind]
    w = {}
    for end in ("l0", "l0_reverse"):
        w[f"weight_ih_{end}"] = rng.normal(size=(gates * 2, 3))
        w[f"weight_hh_{end}"] = rng.normal(size=(gates * 2, 2))
        w[f"bias_ih_{end}"], w[f"bias_hh_{end}"] = rng.normal(size=(2, gates * 2))
    x = rng.normal(size=(3, 2, 3))

    def loss(x, w):
        y, _ = getattr(cm.ml, kind)(x, w, lengths=cm.array([3, 2]))
        return (y * y).sum()

    def f(x, w):
        return cm.value_and_grad(loss, (0, 1))(x, w)

    def numbers(result):
        value, (dx, dw) = result
        return [np.asarray(a.to_numpy()) for a in (value, dx, *dw.values())]

    with cm.device("cpu"):
        value, (dx, dw) = f(cm.array(x), {k: cm.array(v) for k, v in w.items()})
        expected = [np.asarray(a) for a in (value, dx, *dw.values())]
    ours, jitted = {k: cm.array(v) for k, v in w.items()}, cm.jit(f)
    for g in (f, jitted, jitted, jitted):
        for a, b in zip(numbers(g(cm.array(x), ours)), expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-10, 1e-10)
