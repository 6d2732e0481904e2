"""Elements of 16 bits that are as large as the largest, within a program on a GPU: one of the two
may have been stored, and so rounded, and the other not. The truth is NumPy's, of what is
returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm

#: Axes, and what is computed beside the extreme of products y.
CASES: dict[str, tuple[Any, Callable]] = {
    "of all": ((0, 1), lambda y, least: y * 2 - least),
    "of columns": (0, lambda y, least: (y * 2 - least).sum(1)),
    "of rows": (1, lambda y, least: cm.sin(y).sum(0) + y),
    "of rows, shifted": (1, lambda y, least: cm.exp(y - least).sum(1)),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_some_are_as_large(monkeypatch, name: str, dtype: str) -> None:
    axis, beside = CASES[name]

    def function(a: Any, b: Any) -> tuple:
        y = a * b
        least = y.min(axis, keepdims=True)
        return y, (y == least).astype("int32"), (y != least).astype("int32"), beside(y, least)

    given = np.random.default_rng(0).normal(size=(2, 5, 24))
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(function)
        a, b = (cm.array(x).astype(dtype) for x in given)
        for _ in range(2):
            y, hits, others, _ = (cm.asarray(x).to_numpy() for x in jitted(a, b))
    hit = y.astype("float64") == y.astype("float64").min(axis, keepdims=True)
    np.testing.assert_array_equal(hits, hit)
    np.testing.assert_array_equal(others, ~hit)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_gradients(monkeypatch, axis: Any, dtype: str) -> None:
    """They are shared among the elements that are as large, and add up to what came in."""

    def function(y: Any) -> tuple:
        def loss(y: Any) -> tuple:
            z = cm.tanh(y) * 3
            return (z.max(axis) * 2).sum(), (z, z.sum(0))

        return cm.value_and_grad(loss, has_aux=True)(y)

    given = np.random.default_rng(1).normal(size=(6, 40))
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(function)
        y = cm.array(given).astype(dtype)
        for _ in range(2):
            (_, (z, _)), slope = jitted(y)
        y, z, slope = (x.astype("float64").to_numpy() for x in (y, z, slope))
    hit = z == z.max(axis, keepdims=True)
    exact = hit / hit.sum(axis, keepdims=True) * 6 * (1 - np.tanh(y) ** 2)
    np.testing.assert_allclose(slope, exact, 0.03, 0.01)


#: Extremes of what kernels compute again, and what looks for them.
FOUND_AGAIN: dict[str, Callable] = {
    "softmax by hand": lambda x: (
        (e := cm.exp(x - x.max(-1, keepdims=True))) / e.sum(-1, keepdims=True)
    ),
    "of columns": lambda x: x / (1 + x.max(0) - x.min(0)),
    "of all": lambda x: x - x.max(),
}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 4), (5, 1), (70, 512), (200, 1000)], ids=str)
@pytest.mark.parametrize("name", FOUND_AGAIN)
def test_products_and_sums_are_the_same_where_they_are_computed_again(name, shape, dtype) -> None:
    """Whether a compiler makes one operation of a product and a sum depends on what else a kernel
    computes of them: then a maximum was found nowhere, and its gradient was nan."""

    def loss(a: Any, b: Any) -> Any:
        x = cm.tanh(a) * b + a * 0.3 + b * a * b  # products that have other users, too
        return (FOUND_AGAIN[name](x) ** 2 * a * b).sum()

    given = np.random.default_rng(2).normal(size=(2, *shape)).astype("float32")
    with cm.device("cpu"):
        exact = cm.grad(loss, (0, 1))(*[cm.array(x).astype(dtype).astype("f8") for x in given])
        exact = [x.to_numpy() for x in exact]
    with cm.device("cuda"):
        arrays = [cm.array(x).astype(dtype) for x in given]
        for form in (cm.jit(cm.grad(loss, (0, 1))), cm.grad(cm.fuse(loss), (0, 1))):
            for x, wanted in zip(form(*arrays), exact, strict=True):
                found = x.astype("f8").to_numpy()
                assert np.isfinite(found).all()
                if dtype != "bfloat16":  # of rounded elements others may be as large
                    eps = {"float32": 1e-4, "float64": 1e-11}[dtype] * np.abs(wanted).max()
                    np.testing.assert_allclose(found, wanted, 0, eps)
