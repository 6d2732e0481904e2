"""Results that are computed again for a use much later."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import RandomProgram
from traced_programs import bound_on_the_cpu, elementwise, run, traced

import cudamath as cm
from cudamath.programs import recomputed as module
from cudamath.programs.recomputed import recomputed


@pytest.fixture(autouse=True)
def small(monkeypatch) -> None:
    """Small arrays count, and a few operations lie between."""
    bound_on_the_cpu(monkeypatch)
    monkeypatch.setattr(module, "LEAST", 0)
    monkeypatch.setattr(module, "FAR", 1)


def arrays(seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    return [cm.array(rng.normal(size=(32, 32))) for _ in range(4)]


def names(program) -> list[str]:
    return [node.name for node in program.nodes]


def gated(x, a, b, c):
    """Gated units between products, and their gradient."""

    def loss(x, a, b, c):
        for _ in range(2):
            x = (cm.ml.silu(x @ a) * (x @ b)) @ c
        return (x**2).sum()

    return cm.grad(loss, argnums=(0, 1, 2, 3))(x, a, b, c)


def masked(x, a, b, c):
    """What was computed from a result that is computed again is computed from that."""
    y = x * 2
    z = cm.tanh(y)
    w = y + z
    for _ in range(4):
        w = w @ a
    return w * y * z, x


def test_gates_are_computed_again() -> None:
    program = traced(gated, *arrays())
    changed = recomputed(program, elementwise, elementwise)
    assert names(changed).count("silu") == 2 * names(program).count("silu") == 4
    assert "recomputed: 4 results" in changed.notes[-1]  # two of them a product later
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_chains() -> None:
    program = traced(masked, *arrays())
    changed = recomputed(program, elementwise, elementwise)
    assert names(changed).count("tanh") == 2 and names(changed).count("multiply") > 2
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_array_equal(a, b)


def far(y, a):
    for _ in range(4):
        a = a @ a
    return y + a


def written(x, a, b, c):
    y = cm.exp(x)
    z = y * y
    x += 1
    return far(y, a) + x, z


STAY = {
    "a product reads it": lambda x, a, b, c: (far(y := cm.exp(x), a), y @ b, x),
    "it is returned": lambda x, a, b, c: (far(y := cm.exp(x), a), y, x),
    "a special function": lambda x, a, b, c: (far(y := cm.special.gammaln(x), a), y * 2),
    "what it reads is a part": lambda x, a, b, c: far(cm.exp((y := x + b)[::-1]), a) + y,
    "what it reads has changed": written,
    "it reads two arrays": lambda x, a, b, c: (far(y := x - b, a) * b, y * 2, x),
    "a use that is near": lambda x, a, b, c: (y := cm.exp(x)) + y * 2,
}


def softmax(x, a, b, c):
    """The gradient of the largest element looks for it, where the scores are not kept."""

    def loss(x):
        scores = x @ b * 0.3 + a
        weights = cm.exp(scores - scores.max(-1, keepdims=True))
        y = (weights / weights.sum(-1, keepdims=True)) @ c
        for _ in range(2):
            y = y @ a
        return (y**2).sum()

    return cm.grad(loss)(x)


def test_what_is_looked_for_is_compared_where_it_is_computed() -> None:
    program = traced(softmax, *arrays())
    changed = recomputed(program, elementwise, elementwise)
    made, found = names(changed).index("max"), names(changed).index("equal")
    assert found == made + 1 and names(program).index("equal") > made + 10
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_from_a_product_on() -> None:
    """The product is kept in place of two results: it is not written for this alone."""

    def function(x, a, b, c):
        y = cm.exp(x @ b)
        return far(y, a), cm.tanh(y) * 2

    program = traced(function, *arrays())
    changed = names(recomputed(program, elementwise, elementwise))
    assert changed == ["matmul"] * 5 + ["exp", "add", "tanh", "multiply"]


@pytest.mark.parametrize("why", STAY)
def test_what_is_kept(why: str) -> None:
    program = traced(STAY[why], *arrays())
    assert recomputed(program, elementwise, elementwise) is program


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_random_programs(first: int) -> None:
    """The bits of the program, its writes included."""
    count = 0
    for seed in range(first, first + 100):
        random = RandomProgram(seed)
        jitted = cm.jit(random.function(cm.random.default_rng(seed)))
        jitted(*[cm.array(a) for a in random.arrays(0)])
        for program in jitted.programs():
            if any([node.draw is not None for node in program.nodes]):
                continue
            changed = recomputed(program, elementwise, elementwise)
            if changed is not program:
                count += 1
                ours = run(changed, [cm.array(a) for a in random.arrays(1)])
                truth = run(program, [cm.array(a) for a in random.arrays(1)])
                for a, b in zip(ours, truth, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=repr(random))
    assert count > 5
