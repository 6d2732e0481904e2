"""Parts among zeros, and what is joined, read where they stand by their users' kernels: in the
plans of an emulated GPU, and in Numba's simulator. The truth is the function in float64 on the
CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulated_gpu import emulated_gpu
from simulated_gpu import simulated_gpu

import cudamath as cm


def laplacian(u: Any) -> Any:
    """By slices of what zeros surround."""
    p = cm.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u


def wave(c: Any, u: Any) -> Any:
    """Steps of the wave equation, and the gradient with respect to the speed."""

    def energy(c: Any) -> Any:
        a, b = u, u
        for _ in range(3):
            a, b = b, 2 * b - a + c * laplacian(b)
        return (b**2).mean()

    return cm.value_and_grad(energy)(c)


def differences(x: Any, y: Any) -> Any:
    """The gradient of what neighbours have between them, and of corners."""
    return cm.grad(
        lambda x: (cm.tanh(x[1:] - x[:-1]) ** 2).sum() + (x[:, 2:] * x[:, :-2] * y[:, 1:-1]).sum()
    )(x)


def rows(x: Any, y: Any) -> Any:
    """Gradients of single rows, and of columns of length 1."""
    return cm.grad(lambda x: (cm.sin(x[1]) * y[0] + x[-1] * x[0]).sum() + x[:, 2:3].sum())(x) * 2


def joined(x: Any, y: Any) -> Any:
    """Edges that stay as they are."""
    for _ in range(2):
        x = cm.concatenate([x[:1], x[1:-1] + (x[2:] - x[:-2]) * y[1:-1], x[-1:]])
    return x * y


def shifted(x: Any, y: Any) -> Any:
    """What comes before, with a constant at first."""
    before = cm.concatenate([cm.full((1, x.shape[1]), -2.0, dtype=x.dtype), x[:-1]])
    return cm.exp(-abs(x - before)), before.sum(1)[:, None] * y


def read_otherwise(x: Any, y: Any) -> Any:
    """By a product, by the caller, with a new axis, turned, every second element."""
    p = cm.pad(x, ((1, 0), (0, 2)))
    return p.T @ p, cm.tanh(p), p[:, None] * 2, p.T + 1, p[::2] * 3


def written(x: Any, y: Any) -> Any:
    """The part changes before the array is read; so does the array."""
    p = cm.pad(x, 1)
    x += 1
    q = cm.pad(y, 1)
    q[0] = 2
    return p * 2, q * 3, cm.pad(x, 1) - q


def negative_zeros(x: Any, y: Any) -> Any:
    """Signs of zeros are those of the parts."""
    zero = x * 0
    joined = cm.concatenate([-zero, zero])
    part = cm.grad(lambda x: (x[1:] * -zero[1:]).sum() + (x[:-2] * -zero[2:]).sum())(y)
    return cm.copysign(1.0, joined), cm.copysign(1.0, part), cm.copysign(1.0, cm.pad(-abs(zero), 1))


CASES: dict[str, Callable] = {
    f.__name__: f
    for f in (
        *(wave, differences, rows, joined, shifted),
        *(read_otherwise, written, negative_zeros),
    )
}


def compared(function: Callable, dtype: str, error: float) -> Any:
    """The function's program, called three times, beside the CPU."""
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(6, 8)).astype(dtype) for _ in range(2)]
    with cm.device("cpu"):
        wanted = cm.tree.leaves(function(*[cm.array(x.astype("float64")) for x in given]))
    jitted = cm.jit(function)
    for _ in range(3):
        found = cm.tree.leaves(jitted(*map(cm.array, given)))
        for y, exact in zip(found, wanted, strict=True):
            np.testing.assert_allclose(
                np.asarray(y.astype("float64").to_numpy()), np.asarray(exact), error, error
            )
    (program,) = jitted.programs()
    return [node.name.partition("(")[0] for node in program.nodes]


@pytest.mark.parametrize("dtype, error", [("float64", 1e-11), ("float32", 2e-5), ("float16", 0.02)])
@pytest.mark.parametrize("name", CASES)
def test_values(monkeypatch, name: str, dtype: str, error: float) -> None:
    with emulated_gpu(monkeypatch):
        compared(CASES[name], dtype, error)


@pytest.mark.simulator
@pytest.mark.parametrize("name", CASES)
def test_simulated(monkeypatch, name: str) -> None:
    with simulated_gpu(monkeypatch):
        compared(CASES[name], "float64", 1e-11)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, error", [("float64", 1e-11), ("float32", 2e-5), ("float16", 0.02)])
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu(name: str, dtype: str, error: float) -> None:
    with cm.device("cuda"):
        compared(CASES[name], dtype, error)


@pytest.mark.parametrize("name", ["wave", "differences", "shifted"])
def test_nothing_is_put_among_zeros_by_itself(monkeypatch, name: str) -> None:
    with emulated_gpu(monkeypatch):
        assert {*compared(CASES[name], "float32", 2e-5)} <= {"fused", "full"}
