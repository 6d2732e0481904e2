"""Loops that are taken apart: products before them, sums after them. Everything runs on the CPU
here, which takes loops apart in these tests alone."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm
from cudamath.programs import loops

STEPS, BATCH, UNITS = 5, 3, 4


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    monkeypatch.setattr(loops, "takes_apart", lambda layout: True)
    with cm.device("cpu"):
        yield


def arrays(seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    shapes = (STEPS, BATCH, UNITS), (UNITS, UNITS), (UNITS,), (BATCH, UNITS), (UNITS, UNITS)
    return [cm.array(rng.normal(size=shape)) for shape in shapes]


def recurrent(x, w, b, h, v, reverse=False):
    """Products with the row and with the state, in PyTorch's order of weights."""

    def step(h, row):
        h = cm.tanh(cm.ml.linear(row, w, b) + h @ v)
        return h, h * 2

    return cm.scan(step, h, x, reverse=reverse)


def by_rows(x, w, b, h, v):
    """The weight of a row is used twice in a step, and the bias is added by itself."""

    def step(h, row):
        return cm.sin(row @ w + (h @ w.T) * 0.5 + b), None

    return cm.scan(step, h, x)[0]


def of_no_row(x, w, b, h, v):
    """Nothing can be taken out: the product is of the state, and its sum is used in the loop."""

    def step(carry, row):
        h, total = carry
        total = total + h.T @ row
        return (cm.tanh(h @ v) + row, total), total.sum()

    (h, total), sums = cm.scan(step, (h, v * 0), x)
    return h.sum() + total.sum() + (sums**2).sum()


def summed(x, w, b, h, v):
    """Sums that the function itself makes."""

    def step(carry, row):
        h, total, row_sum = carry
        return (cm.cos(h) + row, total + row.T @ h, row_sum + row.sum(0)), None

    return cm.scan(step, (h, v, b), x)[0]


def gradient(function):
    def loss(*arrays):
        leaves = cm.tree.leaves(function(*arrays))
        return sum([(y * cm.cos(y)).sum() for y in leaves])

    return lambda *arrays: cm.value_and_grad(loss, argnums=tuple(range(5)))(*arrays)


FUNCTIONS = {
    "recurrent": (recurrent, 1, 0),
    "reversed": (lambda *a: recurrent(*a, reverse=True), 1, 0),
    "rows": (by_rows, 1, 0),
    "nothing": (of_no_row, 0, 0),
    "sums": (summed, 0, 1),
    "gradient": (gradient(recurrent), 3, 3),
    "gradient, reversed": (gradient(lambda *a: recurrent(*a, reverse=True)), 3, 3),
    "gradient of rows": (gradient(by_rows), None, None),
    "gradient of nothing": (gradient(of_no_row), None, None),
    "gradient of sums": (gradient(summed), None, None),
    "second gradient": (
        gradient(lambda *a: gradient(recurrent)(*a)[1][1]),
        None,
        None,
    ),
}


def taken(program) -> tuple[int, int]:
    """How many products run before loops, and sums after them."""
    found = [0, 0]
    for node in program.nodes:
        for body in getattr(node.op, "programs", {}).values():
            for note in body.notes:
                if note.startswith("loop:"):
                    found["sums" in note] += int(note.split()[1])
    return found[0], found[1]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    function, before, after = FUNCTIONS[name]
    jitted = cm.jit(function)
    for seed in (0, 1):
        ours, truth = jitted(*arrays(seed)), function(*arrays(seed))
        for a, b in zip(cm.tree.leaves(ours), cm.tree.leaves(truth), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-10, 1e-10)
    (program,) = jitted.programs()
    if before is not None:
        assert taken(program) == (before, after)


def test_a_loop_that_would_leave_too_much_stays(monkeypatch) -> None:
    """What all steps leave is bounded."""
    monkeypatch.setattr("cudamath.programs.hoisting.MOST", STEPS * BATCH * UNITS * 8 - 1)
    jitted = cm.jit(gradient(recurrent))
    ours, truth = jitted(*arrays()), gradient(recurrent)(*arrays())
    for a, b in zip(cm.tree.leaves(ours), cm.tree.leaves(truth), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-10, 1e-10)
    assert taken(jitted.programs()[0]) == (0, 0)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_recurrent_layers(kind: str) -> None:
    """Layers of the library, both directions, beside the loops of Python."""
    rng = np.random.default_rng(0)
    gates = {"rnn": 1, "lstm": 4, "gru": 3}[kind] * UNITS
    weights = {}
    for end in ("l0", "l0_reverse"):
        for name, shape in {"ih": (gates, UNITS), "hh": (gates, UNITS)}.items():
            weights[f"weight_{name}_{end}"] = cm.array(rng.normal(size=shape))
            weights[f"bias_{name}_{end}"] = cm.array(rng.normal(size=shape[:1]))

    def loss(weights, x):
        y, state = getattr(cm.ml, kind)(x, weights)
        return (y**3).sum() + sum([(s**2).sum() for s in cm.tree.leaves(state)])

    function = cm.value_and_grad(loss, argnums=(0, 1))
    jitted = cm.jit(function)
    for seed in (0, 1):
        x = arrays(seed)[0]
        ours, truth = jitted(weights, x), function(weights, x)
        for a, b in zip(cm.tree.leaves(ours), cm.tree.leaves(truth), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-9, 1e-9)
    assert taken(jitted.programs()[0])[1] >= 2
