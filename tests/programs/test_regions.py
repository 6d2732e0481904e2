"""Regions: the order in which a program runs, and what moves into norms and optimizers. Everything
runs on the CPU here, as if its kernels were a GPU's."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import RandomProgram
from traced_programs import bound_on_the_cpu, elementwise, run, traced

import cudamath as cm
from cudamath.programs.optimizer_casts import without_casts
from cudamath.programs.program import Node, Program
from cudamath.programs.regions import Region, regions
from cudamath.programs.residual_doors import with_residuals


@pytest.fixture(autouse=True)
def cpu(monkeypatch):
    bound_on_the_cpu(monkeypatch)
    with cm.device("cpu"):
        yield


def in_order(program: Program) -> list[Node]:
    """The nodes as regions arrange them."""
    items = regions(program, elementwise, 32)
    return [n for item in items for n in (item.nodes if isinstance(item, Region) else [item])]


def with_nodes(program: Program, nodes: list[Node]) -> Program:
    return Program(program.arguments, nodes, program.results, program.device)


def test_a_region_moves_down_to_what_uses_it() -> None:
    x, w = cm.ones((2, 3)), cm.ones((3, 3))
    program = traced(lambda x, w: cm.tanh(x @ w) * (w @ x.T).T, x, w)
    assert [n.name for n in program.nodes] == ["matmul", "tanh", "matmul", "multiply"]
    items = regions(program, elementwise, 32)
    assert [n.name for n in in_order(program)] == ["matmul", "matmul", "tanh", "multiply"]
    assert [len(item.nodes) for item in items if isinstance(item, Region)] == [2]


def test_terms_of_a_sum_are_added_at_once() -> None:
    """What stands beside a sum, of another shape, does not hold it back."""

    def f(x, w):
        total, y = w * 0.5, x
        for _ in range(3):
            total, y = total + y.T @ x, cm.tanh(y @ w) * 2
        return total, y

    program = traced(f, cm.ones((5, 3)), cm.full((3, 3), 0.5))
    items = [item for item in regions(program, elementwise, 32) if isinstance(item, Region)]
    sums = [item for item in items if "add" in [node.name for node in item.nodes]]
    assert [len(item.nodes) for item in sums] == [4]
    arrays = cm.ones((5, 3)), cm.full((3, 3), 0.5)
    nodes = in_order(program)
    for a, b in zip(run(with_nodes(program, nodes), arrays), run(program, arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_long_strand_is_cut_between_its_steps() -> None:
    """Where one array goes on, not three. Regions are at least half full."""

    def steps(x, y):
        for _ in range(12):
            a, b, c = cm.sin(x), cm.cos(x), cm.tanh(x)
            x = a * b + c * y
        return x

    program = traced(steps, cm.ones((5, 3)), cm.full((5, 3), 0.5))
    items = [item for item in regions(program, elementwise, 16) if isinstance(item, Region)]
    assert [len(item.nodes) for item in items] == [12] * 6
    assert [node.name for item in items for node in item.nodes][11::12] == ["add"] * 6
    arrays = cm.full((5, 3), 0.3), cm.full((5, 3), 0.5)
    nodes = [node for item in items for node in item.nodes]
    for a, b in zip(run(with_nodes(program, nodes), arrays), run(program, arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_alike_neighbours_are_one_region() -> None:
    """Others between them, of other shapes, are one as well."""

    def f(*arrays):
        return [cm.exp(x) for x in arrays]

    program = traced(f, *[cm.ones(n) for n in (3, 4, 3, 4, 3)])
    items = regions(program, elementwise, 32)
    assert sorted(len(item.nodes) for item in items) == [2, 3]


STAYS = {
    "it is used in between": lambda x, w: (y := cm.tanh(x @ w), y * ((y @ w) + 1))[1],
    "what it reads is written in between": lambda x, w: (
        y := cm.tanh(x),
        x.__imul__(2),
        y * (x @ w),
    )[2],
}


@pytest.mark.parametrize("name", STAYS)
def test_a_region_stays_where(name: str) -> None:
    arrays = cm.ones((3, 3)), cm.full((3, 3), 0.5)
    program = traced(STAYS[name], *arrays)
    nodes = in_order(program)
    names = [n.name for n in nodes]
    assert names.index("tanh") < max(i for i, n in enumerate(names) if n == "matmul")
    new = [cm.array(np.array(x)) for x in arrays]
    again = [cm.array(np.array(x)) for x in arrays]
    for a, b in zip(run(with_nodes(program, nodes), new), run(program, again), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_random_programs_in_another_order(first: int) -> None:
    """The order of regions gives the bits of the program, its writes included."""
    moved = 0
    for seed in range(first, first + 50):
        random = RandomProgram(seed)
        jitted = cm.jit(random.function(cm.random.default_rng(seed)))
        jitted(*[cm.array(a) for a in random.arrays(0)])
        for program in jitted.programs():
            nodes = in_order(program)
            assert {*map(id, nodes)} == {*map(id, program.nodes)}
            moved += nodes != program.nodes
            if any([node.draw is not None for node in nodes]):
                draws = [n for n in nodes if n.draw is not None]
                assert draws == [n for n in program.nodes if n.draw is not None]
                continue
            ours = run(with_nodes(program, nodes), [cm.array(a) for a in random.arrays(1)])
            truth = run(program, [cm.array(a) for a in random.arrays(1)])
            for a, b in zip(ours, truth, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=repr(random))
    assert moved


# -------------------- norms and optimizers


def block(x, w, scale, bias, norm: str):
    """Two residual blocks, and their gradients."""

    def normed(x):
        if norm == "rms":
            return cm.ml.rms_norm(x, 4, scale, 1e-5)
        return cm.ml.layer_norm(x, 4, scale, bias)

    def loss(x, w):
        for _ in range(2):
            x = x + cm.sin(normed(x) @ w)
        return (normed(x + cm.cos(x @ w) @ w) ** 3).sum()

    return cm.value_and_grad(loss, argnums=(0, 1))(x, w)


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_sums_are_part_of_norms(norm: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [cm.array(rng.normal(size=s)) for s in ((5, 4), (4, 4), (4,), (4,))]
    program = traced(lambda *arrays: block(*arrays, norm), *arrays)
    changed = with_residuals(program, elementwise)
    names = [n.name for n in changed.nodes]
    assert len(program.nodes) - len(names) >= 3 and "sums are part of one" in changed.notes[-1]
    grads = [n for n in changed.nodes if n.name.endswith("norm_grad")]
    assert len(grads) == 3 and sum(n.operands[-1] is not None for n in grads) >= 2
    forward = [n for n in changed.nodes if n.name == f"{norm}_norm"]
    assert [n.operands[-1] is None for n in forward] == [True, True, False]
    for a, b in zip(run(changed, arrays), run(program, arrays), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_a_sum_that_is_used_before_its_norm_stays() -> None:
    x = cm.array(np.random.default_rng(0).normal(size=(3, 4)))

    def f(x):
        h = x @ cm.eye(4) + x
        y = cm.cos(h @ cm.eye(4))
        return cm.ml.rms_norm(h, 4) + y

    program = traced(f, x)
    assert with_residuals(program, elementwise) is program


@pytest.mark.parametrize("optimizer", ["adamw_update", "sgd_update"])
def test_optimizers_read_gradients_before_the_cast(optimizer: str) -> None:
    rng = np.random.default_rng(0)
    params = {k: cm.array(rng.normal(size=(4, 4)).astype("f4")) for k in "ab"}
    state = cm.ml.adam_init(params) if optimizer.startswith("adam") else None

    def step(params, state, x):
        def loss(params):
            p = cm.ml.amp.cast(params, "bfloat16")
            return ((x @ p["a"]) @ p["b"]).astype("float32").sum() + (params["b"] ** 2).sum()

        _, grads = cm.value_and_grad(loss)(params)
        getattr(cm.ml, optimizer)(params, grads, state, lr=0.1)

    x = cm.ones((3, 4), dtype="bfloat16")
    program = traced(step, params, state, x)
    changed = without_casts(program)
    assert "it reads 1 gradients before they are cast" in changed.notes[-1]  # b's has two terms
    arrays = [cm.array(rng.normal(size=b.layout.shape), b.layout.dtype) for b in program.arguments]
    again = [x.copy() for x in arrays]
    for a, b in zip(run(changed, arrays), run(program, again), strict=True):
        np.testing.assert_array_equal(a, b)


def adam(weights, gradients, means, squares, t):
    """By hand, in passes over all weights, with the gradients' norm kept at one."""
    norm = cm.sqrt(sum([(g**2).sum() for g in gradients]))
    gradients = [g * cm.minimum(1.0, 1.0 / norm) for g in gradients]
    means = [0.9 * m + 0.1 * g for m, g in zip(means, gradients, strict=True)]
    squares = [0.99 * v + 0.01 * g * g for v, g in zip(squares, gradients, strict=True)]
    one, other = 1 - 0.9**t, 1 - 0.99**t
    weights = [
        w - 0.1 * (m / one / (cm.sqrt(v / other) + 1e-8) + 0.01 * w)
        for w, m, v in zip(weights, means, squares, strict=True)
    ]
    return weights, means, squares


def test_the_steps_of_each_weight_are_in_one_region() -> None:
    """However many weights there are: nothing lies between two regions but numbers."""
    rng = np.random.default_rng(0)
    groups = [[cm.array(rng.random((3, 4 + k % 3))) for k in range(20)] for _ in range(4)]
    program = traced(adam, *groups, cm.array(3.0))
    items = regions(program, elementwise, 64)
    nodes = [n for item in items for n in (item.nodes if isinstance(item, Region) else [item])]
    assert {*map(id, nodes)} == {*map(id, program.nodes)}
    found = [item for item in items if isinstance(item, Region)]
    for item in found:
        elsewhere = {b for other in found if other is not item for b in other.reads}
        assert not [b for b in item.results & elsewhere if b.layout.size > 1]
    arrays = [*[x for group in groups for x in group], cm.array(3.0)]
    for a, b in zip(run(with_nodes(program, nodes), arrays), run(program, arrays), strict=True):
        np.testing.assert_array_equal(a, b)
