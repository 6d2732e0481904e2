"""Biases that the kernels after a product add, in the plans of an emulated GPU. The truth is the
function in float64 on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm
from cudamath import ml

ROWS = 40


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch):
        yield


def gates(x, w, b, state):
    """Parts of what a product gives, as in a recurrent step."""
    i, f, g = cm.split(state + ml.linear(x, w, b), 3, axis=-1)
    return ml.sigmoid(i) * f + cm.tanh(g)


APART = {
    "an activation": (lambda x, w, b, _: cm.tanh(ml.linear(x, w, b)) * 2, 1),
    "parts": (gates, 1),
    "used by a product too": (
        lambda x, w, b, _: (y := ml.linear(x, w, b), cm.exp(y), y @ w)[1:],
        1,
    ),
    "layers": (lambda x, w, b, _: ml.relu(ml.linear(cm.tanh(ml.linear(x, w, b)), w.T)), 1),
    "a gradient": (
        lambda x, w, b, s: cm.grad(lambda w, b: (ml.sigmoid(ml.linear(x, w, b)) * s).sum(), (0, 1))(
            w, b
        ),
        1,
    ),
    "nobody else": (lambda x, w, b, _: ml.linear(x, w, b), 0),
    "a product follows": (lambda x, w, b, _: ml.linear(x, w, b) @ w, 0),
    "no bias": (lambda x, w, b, _: cm.tanh(ml.linear(x, w)) * b, 0),
}


@pytest.mark.parametrize("name", APART)
def test_biases_are_added_by_neighbours(name: str) -> None:
    function, count = APART[name]
    jitted = cm.jit(function)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        shapes = (ROWS, 24), (36, 24), (36,), (ROWS, 36)
        data = [rng.normal(size=shape).astype("float32") for shape in shapes]
        with cm.device("cpu"):
            wanted = cm.tree.leaves(function(*[cm.array(x.astype("float64")) for x in data]))
        found = cm.tree.leaves(jitted(*map(cm.array, data)))
        for y, exact in zip(found, wanted, strict=True):
            np.testing.assert_allclose(y.to_numpy(), np.asarray(exact), 3e-5, 3e-5)
    (program,) = jitted.programs()
    notes = [note for note in program.notes if note.startswith("biases")]
    assert notes == [f"biases: {count} are added by the kernels after the products"] * (count > 0)


def test_16_bit_products_keep_their_bias() -> None:
    x, w, b = (cm.ones(shape, dtype="float16") for shape in ((ROWS, 24), (36, 24), (36,)))
    jitted = cm.jit(lambda x, w, b: cm.tanh(ml.linear(x, w, b)))
    jitted(x, w, b)
    (program,) = jitted.programs()
    (product,) = [node for node in program.nodes if node.name == "linear"]
    assert product.operands[2] is not None
