"""Products of few terms inside of their neighbours' kernels: in the plans of an emulated GPU, and
in Numba's simulator. The truth is the function in float64 on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import emulated_gpu
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath import ml


def filters(x, p, z, m, noise):
    """A step of a Kalman filter: chains of products of small matrices, and parts of these."""

    def step(carry, z):
        x, p = carry
        x = x @ m.T
        p = m @ p @ m.T + noise
        gain = p[:, :, 0] / (p[:, :1, 0] ** 2 + 0.5)
        x = x + gain * (z - x[:, 0])[:, None]
        return (x, p - gain[:, :, None] * p[:, :1, :]), x

    return cm.scan(step, (x, p), z)


def outer(x, y, w):
    """One term: no sum."""
    return cm.tanh(x @ w) * y, (y @ w.T) @ w + 1


def layer(x, w, b, g):
    """A layer of few inputs, and its gradient, which reads the weight across."""

    def f(x, w, b):
        return (cm.tanh(ml.linear(x, w, b)) * g).sum()

    return cm.grad(f, (0, 1, 2))(x, w, b), cm.exp(g @ w) * 2


def batches(a, b, c):
    return cm.tanh(a @ b) @ c - c[:, :, :1], (a @ b * 2).sum(axis=-1)


FUNCTIONS = {
    "filters": (filters, [(5, 3), (5, 3, 3), (4, 5), (3, 3), (3, 3)]),
    "outer": (outer, [(40, 1), (40, 6), (1, 6)]),
    "layer": (layer, [(70, 2), (9, 2), (9,), (70, 9)]),
    "batches": (batches, [(2, 1, 7, 4), (3, 4, 2), (2, 3, 2, 5)]),
}


def compared(name: str, dtype: str) -> None:
    """A program's first and later calls, beside the CPU."""
    function, shapes = FUNCTIONS[name]
    jitted = cm.jit(function)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = [rng.normal(size=shape).astype(dtype) for shape in shapes]
        with cm.device("cpu"):
            wanted = cm.tree.leaves(function(*[cm.array(x.astype("float64")) for x in data]))
        found = cm.tree.leaves(jitted(*map(cm.array, data)))
        close = 1e-12 if dtype == "float64" else 2e-5
        for y, exact in zip(found, wanted, strict=True):
            assert y.dtype == dtype
            np.testing.assert_allclose(y.to_numpy(), np.asarray(exact), close, close)
    (program,) = jitted.programs()
    programs = [p for node in program.nodes for p in getattr(node.op, "programs", {}).values()]
    names = [node.name for p in (program, *programs) for node in p.nodes]
    inside = [n for n in names if n.startswith("fused") and ("matmul" in n or "linear" in n)]
    assert inside and not [n for n in names if n == "linear"]
    assert name != "filters" or "matmul" not in names


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_are_part_of_kernels(name, dtype, monkeypatch) -> None:
    with emulated_gpu(monkeypatch):
        compared(name, dtype)


@pytest.mark.simulator
@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_simulated(name, monkeypatch) -> None:
    with simulated_gpu(monkeypatch):
        compared(name, "float64")


def powers(x, m):
    """A long chain: kernels of a few of its products each."""
    for _ in range(20):
        x = cm.tanh(m @ x @ m.T)
    return x


def test_a_chain_of_products_is_cut(monkeypatch) -> None:
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(powers)
        rng = np.random.default_rng(0)
        x, m = rng.normal(size=(6, 3, 3)), rng.normal(size=(3, 3))
        found = jitted(cm.array(x), cm.array(m)).to_numpy()
        for _ in range(20):
            x = np.tanh(m @ x @ m.T)
        np.testing.assert_allclose(found, x, 1e-9, 1e-9)


APART = {
    "more terms": lambda x, y: cm.tanh(x @ y),
    "16-bit numbers": lambda x, y: cm.tanh(x[:, :2].astype("float16") @ y[:2].astype("float16")),
    "a vector": lambda x, y: cm.tanh(x[0, :3] @ y[:3]),
    "integers": lambda x, y: -(x[:, :2].astype("int32") @ y[:2].astype("int32")),
}


@pytest.mark.parametrize("name", APART)
def test_products_stay_apart(name, monkeypatch) -> None:
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(APART[name])
        jitted(cm.ones((4, 7), dtype="float32"), cm.ones((7, 7), dtype="float32"))
        (program,) = jitted.programs()
        assert "matmul" in [node.name for node in program.nodes]
