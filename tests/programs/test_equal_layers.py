"""Layers that compute the same are planned once: host work of a program that grows with the depth
of a model does so by little."""

from __future__ import annotations

import numpy as np
import program_comparison as comparison
import pytest

import cudamath as cm
from cudamath.core.dispatch import planner_calls


def planned(layers: int, second: float = 0.5) -> list[str]:
    """The planners called for a model of so many layers. second: a number in the second."""
    rng = np.random.default_rng(0)
    called: list[str] = []

    def observe(call, _plan):
        called.append(call.planner)

    def loss(weights, x):
        for i, w in enumerate(weights):
            y = x - x.mean(-1, keepdims=True)
            x = x + cm.tanh(y @ w.T) * (second if i == 1 else 0.5)
        return (x * x).sum()

    with comparison.on("emulated"):
        weights = [cm.array(rng.normal(size=(6, 6))) for _ in range(layers)]
        x = cm.array(rng.normal(size=(5, 6)))
        step = cm.jit(lambda weights, x: cm.value_and_grad(loss)(weights, x))
        planner_calls.observers.append(observe)
        try:
            value, grads = step(weights, x)
        finally:
            planner_calls.observers.remove(observe)
        exact, plain = cm.value_and_grad(loss)(weights, x)
        for a, b in zip([value, *grads], [exact, *plain], strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12, atol=1e-12)
    return called


@pytest.mark.parametrize("planner", ["generated.fusion.fused", ""])
def test_more_layers_are_not_planned_again(planner: str) -> None:
    few, many = [
        [call for call in planned(layers) if call.startswith(planner)] for layers in (4, 9)
    ]
    assert few and len(many) == len(few)


def test_a_layer_with_another_number_is_planned_by_itself() -> None:
    kernels = "generated.fusion.fused"
    assert planned(4, 0.25).count(kernels) > planned(4).count(kernels)
