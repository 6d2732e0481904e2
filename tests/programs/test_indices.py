"""Indices beside elementwise operations, in the plans of an emulated GPU.

The truth is the function in float64 on the CPU.
"""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import emulated_gpu
from traced_programs import beside_float64

import cudamath as cm


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch):
        yield


def arrays(rng: np.random.Generator) -> tuple:
    """x (4, 6, 5), targets (4, 6), w (5, 5)."""
    return rng.normal(size=(4, 6, 5)), rng.integers(-5, 5, (4, 6)), rng.normal(size=(5, 5))


def loss(logits, target, axis=-1):
    top = logits.max(axis, keepdims=True)
    total = cm.log(cm.exp(logits - top).sum(axis, keepdims=True)) + top
    taken = cm.take_along_axis(logits, cm.expand_dims(target, axis), axis=axis)
    return (total - taken).mean()


def of_floats(x, i, w, axis=-1):
    """Indices from the end count as well."""
    return cm.value_and_grad(lambda w: loss(x @ w, i.astype("int64"), axis))(w)


def of_casts(x, i, w):
    return cm.value_and_grad(
        lambda w: loss((x @ w).astype("float64"), i.astype("int64")).astype(x.dtype)
    )(w)


def names(function, *options) -> list[str]:
    program = beside_float64(function, arrays, *options)
    return [n.name for node in program.nodes for n in getattr(node.op, "nodes", [node])]


def test_gradients_of_single_elements_are_comparisons() -> None:
    found = names(of_floats)
    assert "take_along_axis" in found and "take_along_axis_grad" not in found
    assert "where_number" in found


def test_along_another_axis() -> None:
    def step(x, i, w):
        return of_floats(x, i[:, :5] % 6, w, 1)

    assert "take_along_axis_grad" not in names(step)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits(dtype: str) -> None:
    assert "take_along_axis_grad" not in names(of_floats, dtype, 0.1)


def test_what_is_chosen_is_cast_afterwards() -> None:
    program = beside_float64(of_casts, arrays)
    at = [node.name for node in program.nodes].index("take_along_axis")
    assert program.nodes[at].views[0].layout.dtype == "float32"
    assert len([node for node in program.nodes if node.name.startswith("fused")]) == 1


def test_rows_of_a_cast_table() -> None:
    def step(x, i, w):
        return w.astype("float64")[i.astype("int64")].astype(x.dtype) * x

    found = [node.name for node in beside_float64(step, arrays).nodes]
    assert found == ["astype", "index", "fused(astype, astype, multiply)"]  # first the index


KEPT = {
    "nobody else reports a wrong index": lambda x, i, w: cm.grad(
        lambda x: cm.take_along_axis(x, i[..., None], axis=-1).sum()
    )(x),
    "several elements": lambda x, i, w: cm.value_and_grad(
        lambda x: (cm.take_along_axis(x, cm.stack([i, -i % 5], -1), axis=-1) ** 2).sum()
    )(x),
    "a product reads the gradient": lambda x, i, w: cm.value_and_grad(
        lambda w: (cm.take_along_axis(x @ w, i[..., None], axis=-1) ** 2).sum()
    )(w),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name: str) -> None:
    def step(x, i, w):
        return KEPT[name](x, i.astype("int64"), w)

    assert "take_along_axis_grad" in names(step)


def test_a_stored_cast_is_read() -> None:
    def step(x, i, w):
        y = x.astype("float64")
        return cm.take_along_axis(y, i.astype("int64")[..., None], axis=-1), y

    program = beside_float64(step, arrays)
    (taken,) = [node for node in program.nodes if node.name == "take_along_axis"]
    assert taken.views[0].layout.dtype == "float64"


def test_a_wrong_index_is_an_error() -> None:
    x, w = cm.ones((2, 5)), cm.ones((5, 5))
    step = cm.jit(lambda x, i, w: of_floats(x, i, w))
    for _ in range(3):
        with pytest.raises(IndexError, match="out of bounds"):
            step(x, cm.array([1, 5]), w)
            cm.cuda.synchronize()


def test_largest_elements_of_columns() -> None:
    """A stage of its own finds and rounds them; another one looks for them."""

    def step(a, b):
        def loss(a):
            x = a * 0.3 + b
            return (cm.exp(x - x.max(0, keepdims=True)) * b).sum()

        return cm.grad(loss)(a)

    def columns(rng):
        return rng.normal(size=(60, 8)), rng.normal(size=(60, 8))

    beside_float64(step, columns, "bfloat16", 0.1)
    beside_float64(step, columns, "float16", 0.02)
