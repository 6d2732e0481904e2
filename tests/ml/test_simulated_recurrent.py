"""Recurrent layers on a GPU in Numba's simulator: products, fused gates, and their gradients give
what the CPU gives, outside of programs and inside."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.ml import recurrent

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


@pytest.mark.parametrize("state", [True, False], ids=["state", "zeros"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "none"])
@pytest.mark.parametrize("kind", ["tanh", "relu", "lstm", "gru"])
def test_one_kernel_for_all_steps_gives_what_the_cpu_gives(gpu, kind, bias, state) -> None:
    """Two blocks, of sequences that have nothing to do with one another: blocks of the simulator
    run one after the other. Those of a GPU that exchange states: test_recurrent_versions.py."""
    rng, gates = np.random.default_rng(0), {"lstm": 4, "gru": 3}.get(kind, 1)
    steps, batch, features, units = 3, 18, 4, 8
    w = {"weight_ih_l0": rng.normal(size=(gates * units, features))}
    w["weight_hh_l0"] = rng.normal(size=(gates * units, units))
    if bias:
        w["bias_ih_l0"], w["bias_hh_l0"] = rng.normal(size=(2, gates * units))
    x, h, c = (rng.normal(size=s) for s in ((steps, batch, features), *((1, batch, units),) * 2))
    factors = rng.normal(size=(steps, batch, units)), rng.normal(size=(1, batch, units))

    def loss(x, w, h, c):
        named = {} if kind in ("lstm", "gru") else {"nonlinearity": kind}
        layer = getattr(cm.ml, kind if not named else "rnn")
        first = None if not state else (h, c) if kind == "lstm" else h
        y, ends = layer(x, w, first, **named)
        ends = ends if kind == "lstm" else (ends,)
        f, e = [cm.array(a.astype("float32")) for a in factors]
        return (y * f).sum() + sum([(end * e).sum() for end in ends])

    def slopes():
        given = cm.tree.map(lambda a: cm.array(a.astype("float32")), (x, w, h, c))
        value, found = cm.value_and_grad(loss, (0, 1, 2, 3))(*given)
        return [np.asarray(a) for a in cm.tree.leaves((value, found))]

    with recurrent.by_version("persistent"):
        found = slopes()
    with cm.device("cpu"), recurrent.by_version("steps"):
        expected = slopes()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 2e-5, 2e-5 * max(np.abs(b).max(), 1))
