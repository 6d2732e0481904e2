"""Gradients of views that see all of an array, as x[:, None]: they are views, not copies."""

from __future__ import annotations

import numpy as np
import pytest
from traced_programs import traced

import cudamath as cm


def arrays(seed: int = 0) -> tuple:
    rng = np.random.default_rng(seed)
    return cm.array(rng.normal(size=4)), cm.array(rng.normal(size=(4, 3, 5)))


def gradient(loss):
    """The gradient, which an operation reads."""
    return lambda x, y: cm.grad(lambda x: loss(x, y))(x) * 2


WHOLE = {
    "axes of length 1": gradient(lambda x, y: (x[:, None, None] * y).sum()),
    "a shape": gradient(lambda x, y: (x.reshape(2, 2) ** 3 @ y[:2, 0, :2]).sum()),
    "an axis less": gradient(lambda x, y: (x[None] ** 2 @ y[:, 0]).sum()),
}
PARTS = {
    "a part": gradient(lambda x, y: (x[:2, None] * y[:2, 0]).sum()),
    "backwards": gradient(lambda x, y: (x[::-1, None] * y[:, 0]).sum()),
    "a diagonal": lambda x, y: cm.grad(lambda y: (cm.diagonal(y[:, :, 0]) ** 2).sum())(y) * 2,
    "a result": lambda x, y: cm.grad(lambda x: (x[:, None] * y[:, 0]).sum())(x),
}


@pytest.mark.parametrize("name", {**WHOLE, **PARTS})
def test_gradients(name: str) -> None:
    function = {**WHOLE, **PARTS}[name]
    program = traced(function, *arrays())
    assert ("unview" in [node.name for node in program.nodes]) == (name in PARTS)
    jitted = cm.jit(function)
    for seed in range(3):
        given = arrays(seed)
        found, plain = jitted(*given), function(*given)
        np.testing.assert_array_equal(found.to_numpy(), plain.to_numpy())


def test_what_is_written_later_is_a_copy() -> None:
    def f(x, y):
        g = cm.grad(lambda x: (x[:, None, None] * y).sum())(x)
        g += 1
        return g * 2, y.sum((1, 2))

    jitted, plain = cm.jit(f), f(*arrays(1))
    for _ in range(3):
        for a, b in zip(jitted(*arrays(1)), plain, strict=True):
            np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())
