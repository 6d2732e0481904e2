"""`cm.roll` within a program on a GPU: neighbours' kernels read its elements where they come from.
A stencil is a kernel a step. The truth is the same function on the CPU, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm


def heat(u: Any, k: Any) -> Any:
    """A step of the heat equation on a torus."""
    around = cm.roll(u, 1, 0) + cm.roll(u, -1, 0) + cm.roll(u, 1, 1) + cm.roll(u, -1, 1)
    return u + 0.1 * k * (around - 4 * u)


def simulated(k: Any, u: Any) -> Any:
    return cm.scan(lambda u, _: (heat(u, k), None), u, None, length=4)[0]


def slope(k: Any, u: Any) -> Any:
    return cm.value_and_grad(lambda k: (simulated(k, u) ** 2).mean())(k)


def unrolled(k: Any, u: Any) -> Any:
    """Steps in Python, of which some are returned."""
    seen = []
    for _ in range(3):
        u = heat(u, k)
        seen.append(u)
    return seen


def fields(u: Any, v: Any) -> Any:
    """Two that react and spread; a step of both is a kernel."""
    for _ in range(6):
        around = [sum([cm.roll(x, i, axis) for i in (1, -1) for axis in (0, 1)]) for x in (u, v)]
        r = u * v * v
        u, v = u + 0.1 * (around[0] - 4 * u) - r, v + 0.05 * (around[1] - 4 * v) + r - 0.1 * v
    return u, v


def lattice(f: Any, x: Any) -> Any:
    """Distributions along five directions that relax and stream."""
    weights = cm.asarray([0.2, 0.3, 0.1, 0.15, 0.25])[:, None, None]
    f = f - (f - f.sum(0) * weights) / 0.6
    moves = [(0, 0), (1, 0), (0, -1), (2, 1), (-1, -2)]
    return cm.stack([cm.roll(f[i], move, (0, 1)) for i, move in enumerate(moves)]) * x


def life(x: Any, y: Any) -> Any:
    """A cellular automaton, whose kernels read and write bytes alone."""
    x = (x > 0).astype("uint8")
    for _ in range(3):
        around = [cm.roll(x, move, (0, 1)) for move in ((0, 1), (1, 0), (1, 1), (-1, 0), (0, -1))]
        x = ((sum(around) == 2) | (x == 1) & (sum(around) == 3)).astype("uint8")
    return x


def written(x: Any, y: Any) -> Any:
    """What is rolled is written afterwards."""
    z = cm.roll(x, 1, 1) * y
    x += z
    return z + cm.roll(x, 2, 0)


CASES: dict[str, tuple[Callable, list[tuple]]] = {
    "steps of a loop": (simulated, [(6, 5), (6, 5)]),
    "their gradient": (slope, [(6, 5), (6, 5)]),
    "steps in Python": (unrolled, [(6, 5), (6, 5)]),
    "two fields": (fields, [(6, 5), (6, 5)]),
    "a lattice": (lattice, [(5, 4, 6), (4, 6)]),
    "written": (written, [(3, 4), (3, 4)]),
    "of a part": (lambda x, y: cm.roll(x[1:, 2:], 1, 0) * y[1:, 2:], [(4, 6), (4, 6)]),
    "of all elements": (lambda x, y: cm.roll(x * y, 5) + cm.roll(x, -1), [(4, 6), (4, 6)]),
    "several along one axis": (lambda x, y: cm.roll(x, (2, 3), (1, 1)) - y, [(4, 6), (4, 6)]),
    "of rows": (
        lambda x, y: cm.vmap(lambda x: cm.roll(x, 1) * x)(x) + cm.roll(y, 1, 0).sum(1)[:, None],
        [(4, 6), (4, 6)],
    ),
    "whole numbers": (
        lambda x, y: cm.roll((x * 8).astype("int32"), 1, 0) + (y > cm.roll(y, 1, 1)),
        [(4, 6), (4, 6)],
    ),
    "bytes": (life, [(4, 32), (4, 32)]),
    "four axes": (
        lambda x, y: cm.roll(x, (1, 1, 2, 3), (0, 1, 2, 3)) * y,
        [(2, 3, 4, 5), (2, 3, 4, 5)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values(monkeypatch, name: str) -> None:
    function, shapes = CASES[name]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=shape) for shape in shapes]
    with cm.device("cpu"):
        wanted = [np.asarray(y) for y in cm.tree.leaves(function(*map(cm.array, given)))]
        again = cm.tree.leaves(cm.jit(function)(*map(cm.array, given)))
        for y, exact in zip(again, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(y), exact, 1e-12, 1e-14)
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(function)
        for _ in range(3):  # recorded, captured, replayed
            found = cm.tree.leaves(jitted(*map(cm.array, given)))
            for y, exact in zip(found, wanted, strict=True):
                np.testing.assert_allclose(cm.asarray(y).to_numpy(), exact, 1e-10, 1e-12)


def test_a_step_is_a_kernel(monkeypatch) -> None:
    """Forward one, which writes its result where the loop keeps it; back one node."""
    x = np.random.default_rng(0).normal(size=(6, 5))
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(slope)
        jitted(cm.array(x), cm.array(x))
        loops = [n for n in jitted.programs()[0].nodes if n.name == "scan"]
        bodies = [body for loop in loops for body in loop.op.programs.values()]
        assert [len(body.nodes) for body in bodies] == [1, 1]
        assert all([body.nodes[0].name.startswith("fused(") for body in bodies])


def test_what_only_moves_stays_alone(monkeypatch) -> None:
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(lambda x: cm.roll(x, (1, 1), (0, 1)).reshape(2, 3, 4).swapaxes(0, 1).copy())
        jitted(cm.ones((6, 4)))
        assert [node.name for node in jitted.programs()[0].nodes] == ["roll", "copy"]


def test_rolled_arrays_are_written_where_they_are_joined(monkeypatch) -> None:
    """Together with what is joined to them as it is; nine arrays, no copies."""
    moves = [(0, 0), (1, 0), (0, -1), (2, 1), (-1, -2), (1, 1), (0, 3), (0, 0), (-2, 0)]

    def streamed(f: Any) -> Any:
        f = cm.tanh(f)
        return cm.stack([cm.roll(f[i], move, (0, 1)) for i, move in enumerate(moves)])

    x = np.random.default_rng(0).normal(size=(9, 4, 8))
    wanted = np.stack([np.roll(np.tanh(x)[i], move, (0, 1)) for i, move in enumerate(moves)])
    with emulated_gpu(monkeypatch):
        jitted = cm.jit(streamed)
        for _ in range(3):
            np.testing.assert_allclose(jitted(cm.array(x)).to_numpy(), wanted, 1e-12, 1e-14)
        names = [node.name.partition("(")[0] for node in jitted.programs()[0].nodes]
    assert names == ["tanh", "full", "fused"]
