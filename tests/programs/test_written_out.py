"""Reductions within a program on a GPU that need no pass over rows: of single elements, and of few
beside others. The truth is the same function on the CPU, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm


def clipped(p: dict) -> dict:
    """Gradients by their global norm; one weight is a number, another has one element."""
    g = cm.grad(lambda p: (cm.exp(p["number"]) * p["rows"] * p["one"]).sum())(p)
    norm = cm.sqrt(sum([(a * a).sum() for a in cm.tree.leaves(g)]))
    return cm.tree.map(lambda a: a * cm.minimum(1.0, 1.0 / norm), g)


def distances(x: Any, scale: Any, y: Any) -> Any:
    """The gradient by the scales of coordinates of a sum over all pairs."""

    def total(scale: Any) -> Any:
        a = x / cm.exp(scale)
        sums = (a**2).sum(1)[:, None] + (a**2).sum(1)[None]
        apart = cm.maximum(sums - 2 * a @ a.T, 0)
        return (cm.exp(-0.5 * apart) @ y).sum()

    return cm.grad(total)(scale)


def single(x: Any) -> Any:
    """Each reduction of one element, with its gradient."""

    def total(x: Any) -> Any:
        y = cm.sin(x)
        return (y.sum(-1) + y.max(-1) * y.min(-1) + y.mean(-1) * y.prod(-1)).sum()

    return cm.sin(x).sum(1) * 2 + cm.cos(x).max((1,)), cm.grad(total)(x)


def small(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


CASES: dict[str, tuple[Callable, list]] = {
    "a norm over numbers": (
        clipped,
        [{"number": np.array(0.5), "rows": small(5), "one": small(1)}],
    ),
    "coordinates of pairs": (distances, [small(100, 8), small(8), small(100)]),
    "single elements": (single, [small(7, 1)]),
}


@pytest.mark.parametrize("name", CASES)
def test_values(monkeypatch, name: str) -> None:
    function, given = CASES[name]
    with cm.device("cpu"):
        wanted = cm.tree.leaves(function(*cm.tree.map(cm.asarray, given)))
        wanted = [np.asarray(y) for y in wanted]
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(function)
        for _ in range(3):
            found = cm.tree.leaves(jitted(*cm.tree.map(cm.asarray, given)))
            for y, exact in zip(found, wanted, strict=True):
                np.testing.assert_allclose(cm.asarray(y).to_numpy(), exact, 1e-10, 1e-12)
