"""Epilogues: what the pass puts into a product computes what the operations did. The product runs
on the CPU here, as if its kernel had all doors."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.array import ndarray
from cudamath.core.dispatch.cpu_run import cpu_runner
from cudamath.core.dispatch.lazy_import import lazy
from cudamath.core.dispatch.op import Op
from cudamath.programs import doors
from cudamath.programs.run import lying, straight_line


@pytest.fixture(autouse=True)
def every_door(monkeypatch):
    monkeypatch.setattr(doors, "_has_door", lambda product: True)
    monkeypatch.setattr(
        Op,
        "bound",
        lambda op, layouts, params, scalars, device: cpu_runner(
            lazy("cpu", op.cpu), params, scalars, layouts
        ),
    )
    with cm.device("cpu"):
        yield


def arrays(seed: int = 0) -> list[ndarray]:
    rng = np.random.default_rng(seed)
    shapes = (2, 5, 6), (6, 4), (4,), (2, 5, 4), (4, 6)
    return [cm.array(rng.normal(size=shape)) for shape in shapes]


def continued(f) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """The operations after the pass; its results, and those of the function."""
    jitted, first, second = cm.jit(f), arrays(0), arrays(1)
    jitted(*first)
    (program,) = jitted.programs()
    program = doors.through_doors(program)
    made = straight_line(program)(*second)
    places = {block: i for i, block in enumerate(program.made())}
    ours = [lying(v, places.get(v.block), made, second) for v in program.returned()]
    truth = f(*arrays(1))
    truth = truth if isinstance(truth, tuple) else (truth,)
    return (
        [node.name for node in program.nodes],
        [np.asarray(y) for y in ours],
        [np.asarray(y) for y in truth],
    )


TAKEN = {
    "bias": lambda x, w, b, r, v: x @ w + b,
    "bias first": lambda x, w, b, r, v: b + x @ w,
    "activation": lambda x, w, b, r, v: cm.ml.silu(x @ w),
    "residual": lambda x, w, b, r, v: r + x @ w,
    "bias and activation": lambda x, w, b, r, v: cm.ml.relu(x @ w + b),
    "all": lambda x, w, b, r, v: cm.ml.gelu(x @ w + b) + r,
    "tanh": lambda x, w, b, r, v: cm.ml.gelu(x @ w + b, "tanh") + r,
    "a linear layer": lambda x, w, b, r, v: cm.ml.silu(cm.ml.linear(x, v, b)) + r,
    "a sum of two products": lambda x, w, b, r, v: x @ w + cm.sin(x) @ w,
    "a residual made in between": lambda x, w, b, r, v: (x @ w + b) + cm.sin(r),
}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name):
    names, ours, truth = continued(TAKEN[name])
    assert names[-1] == "linear" and set(names) <= {"linear", "sin", "matmul"}
    for a, b in zip(ours, truth, strict=True):
        np.testing.assert_allclose(a, b, 1e-13, 1e-13)


LEFT = {
    "an activation of the residual": (
        lambda x, w, b, r, v: cm.ml.relu(x @ w + r),
        ["linear", "relu"],
    ),
    "a bias after the activation": (
        lambda x, w, b, r, v: cm.ml.relu(x @ w) + b,
        ["linear", "add"],
    ),
    "two activations": (lambda x, w, b, r, v: cm.ml.relu(cm.ml.silu(x @ w)), ["linear", "relu"]),
    "what lies between is returned": (
        lambda x, w, b, r, v: (y := x @ w + b, cm.ml.relu(y)),
        ["linear", "relu"],
    ),
    "the product is used twice": (
        lambda x, w, b, r, v: (y := x @ w, y + y)[1] + r,
        ["matmul", "add", "add"],
    ),
    "a number": (lambda x, w, b, r, v: x @ w + 1, ["matmul", "add"]),
    "a row of another axis": (lambda x, w, b, r, v: x @ w + r[0], ["matmul", "add"]),
    "a part of the product": (lambda x, w, b, r, v: cm.ml.relu((x @ w)[0]), ["matmul", "relu"]),
    "its operand changes meanwhile": (
        lambda x, w, b, r, v: (y := x @ w, x.__imul__(2), y + b)[2],
        ["matmul", "multiply", "add"],
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_left(name):
    function, expected = LEFT[name]
    names, ours, truth = continued(function)
    assert [n for n in names if n not in ("copy_into", "copy")] == expected
    for a, b in zip(ours, truth, strict=True):
        np.testing.assert_allclose(a, b, 1e-13, 1e-13)
