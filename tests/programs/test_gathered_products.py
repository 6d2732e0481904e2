"""Products of chosen rows are made of all rows before, or of their sums, where that is less work.
Everything runs on the CPU here, as if its kernels were a GPU's."""

from __future__ import annotations

import numpy as np
import pytest
from program_comparison import on
from traced_programs import bound_on_the_cpu, run, traced

import cudamath as cm
from benchmarks.programs import peers
from cudamath.programs.gathered_products import gathered_products

NODES, EDGES = 5, 40


@pytest.fixture
def cpu(monkeypatch):
    bound_on_the_cpu(monkeypatch)
    with cm.device("cpu"):
        yield


def arrays(seed: int = 0, edges: int = EDGES, dtype: str = "float64") -> list:
    rng = np.random.default_rng(seed)
    shapes = (NODES, 6), (NODES, 3), (8, 9), (8,)
    index = [cm.array(rng.integers(-NODES, NODES, edges)) for _ in range(2)]
    return [*[cm.array(rng.normal(size=shape)).astype(dtype) for shape in shapes], *index]


def messages(x, y, weight, bias, source, target):
    pairs = cm.concatenate([x[source], y[target]], axis=1)
    return cm.tanh(cm.ml.linear(pairs, weight, bias))


def gradient(x, y, weight, bias, source, target):
    def loss(*smooth):
        return (messages(*smooth, source, target) ** 2).sum()

    return cm.value_and_grad(loss, (0, 1, 2, 3))(x, y, weight, bias)


def one(x, y, weight, bias, source, target):
    return cm.grad(lambda x, w: cm.sin(x[source] @ w).sum(), (0, 1))(x, weight[:6, :6])


def of_fixed_rows(x, y, weight, bias, source, target):
    """The gradient of the weight alone."""
    return cm.grad(lambda w: cm.sin(messages(x, y, w, bias, source, target)).sum())(weight)


def squares(program, rows: int) -> list[tuple]:
    """The shapes of products with so many rows."""
    nodes = [n for n in program.nodes if n.name in ("matmul", "linear")]
    shapes = [n.results[0].layout.shape for n in nodes]
    return [shape for shape in shapes if shape[0] == rows]


MOVED = {
    "messages": (messages, 1),
    "gradient": (gradient, 5),
    "one": (one, 3),
    "of fixed rows": (of_fixed_rows, 2),
}


@pytest.mark.parametrize("name", MOVED)
def test_chosen_rows_are_multiplied_before(cpu, name: str) -> None:
    function, count = MOVED[name]
    program = traced(function, *arrays())
    changed = gathered_products(program)
    assert squares(program, EDGES) and not squares(changed, EDGES)
    assert changed.notes[-1].startswith(f"chosen rows: {count} products")
    wide = [n for n in changed.nodes if n.name == "index" and n.results[0].layout.shape[1] != 8]
    assert name == "one" or not wide  # nobody keeps the chosen rows
    if name == "gradient":  # nothing is put side by side but the weight's gradient
        joined = [n.results[0].layout.shape for n in changed.nodes if n.name == "concat"]
        assert joined == [(8, 9)]
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def written(x, y, weight, bias, source, target):
    chosen = x[source]
    x += 1
    return chosen @ weight[:6, :6] + x.sum()


def changed_rows(x, y, weight, bias, source, target):
    chosen = x[source]
    chosen[0] = 7
    return chosen @ weight[:6, :6]


KEPT = {
    "few edges": (messages, (0, NODES)),
    "float16": (messages, (0, EDGES, "float16")),
    "the rows are written between": (written, ()),
    "what was chosen is written": (changed_rows, ()),
    "an activation before": (lambda x, y, w, b, s, t: cm.exp(x[s]) @ w[:6, :6], ()),
    "wide results": (lambda x, y, w, b, s, t: x[s][:, :3] @ w[:3, :8], ()),
    "rows of rows": (lambda x, y, w, b, s, t: x[:, :3][s] @ w[:3, :8], ()),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_products_stay(cpu, name: str) -> None:
    function, given = KEPT[name]
    program = traced(function, *arrays(*given))
    assert gathered_products(program) is program


def test_on_a_gpu() -> None:
    """The graph network's training steps, by its plans."""
    results = []
    with on("emulated"):
        for kind in (peers.Eager, peers.Jit):
            peer = kind(*peers.small()["graph_network"], "cuda:0")
            results.append([peer.numpy(peer.step()) for _ in range(4)])
        (program,) = peer.run.programs()
    np.testing.assert_allclose(*results, 2e-5)
    assert any([note.startswith("chosen rows: ") for note in program.notes])


def test_rows_that_nobody_chooses_do_not_matter(cpu) -> None:
    x, y, weight, bias, source, target = arrays()
    x[0] = np.inf
    source = cm.where(source % NODES == 0, 1, source)
    program = traced(gradient, x, y, weight, bias, source, target)
    changed = gathered_products(program)
    assert changed is not program
    loss, *gradients = run(changed, [x, y, weight, bias, source, target])[:5]
    assert all([np.isfinite(result).all() for result in (loss, *gradients)])
