"""What lowers the peak of a program: another order, and results over operands. On the CPU as if its
kernels were a GPU's, on an emulated GPU, and plans of a real one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fake_driver import FakeDriver
from program_comparison import on
from random_programs import RandomProgram
from traced_programs import bound_on_the_cpu, run, traced

import cudamath as cm
from benchmarks.programs import peers
from cudamath.programs import in_place, schedule
from cudamath.programs.memory_plan import memory_plan


@pytest.fixture
def small(monkeypatch):
    """What pays for large arrays alone happens for small ones."""
    monkeypatch.setattr(schedule, "LEAST", 1)
    monkeypatch.setattr(schedule, "NEAR", 0.0)
    monkeypatch.setattr(in_place, "LEAST", 0)
    monkeypatch.setattr(in_place, "NEAR", 0.0)


def test_random_programs_give_the_same_bits(monkeypatch, small) -> None:
    """In another order, writes and draws included; and the peak is not higher."""
    bound_on_the_cpu(monkeypatch)
    changed = 0
    with cm.device("cpu"):
        for seed in range(120):
            random = RandomProgram(seed)
            jitted = cm.jit(random.function(cm.random.default_rng(seed)))
            jitted(*[cm.array(a) for a in random.arrays(0)])
            for program in jitted.programs():
                other = schedule.less_at_a_time(program)
                changed += any([n.startswith("order") for n in other.notes])
                assert memory_plan(other).peak <= memory_plan(program).peak, random
                draws = [[n.draw for n in p.nodes if n.draw] for p in (other, program)]
                assert draws[0] == draws[1]
                if draws[0]:
                    continue
                found, truth = (
                    run(p, [cm.array(a) for a in random.arrays(1)]) for p in (other, program)
                )
                for a, b in zip(found, truth, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=repr(random))
    assert changed


def gated(x, gate, up, down):
    """The loss of two gated units along a residual, and its gradients."""

    def loss(x, gate, up, down):
        for _ in range(2):
            x = x + (cm.ml.silu(x @ gate) * (x @ up)) @ down
        return (x**2).mean()

    return cm.value_and_grad(loss, argnums=(0, 1, 2, 3))(x, gate, up, down)


def arrays(*shapes, dtype="float64"):
    rng = np.random.default_rng(0)
    return [cm.array(rng.normal(size=s) * 0.3, dtype) for s in shapes]


def two(x, a, b):
    """Two layers: the gradient of a weight is the last to read what was kept for it."""

    def loss(x, a, b):
        return (cm.sin(cm.sin(x @ a) @ b) ** 2).sum()

    return cm.grad(loss, argnums=(0, 1, 2))(x, a, b)


def test_what_frees_memory_comes_first(monkeypatch, small) -> None:
    bound_on_the_cpu(monkeypatch)
    with cm.device("cpu"):
        program = traced(two, *arrays((4096, 8), (8, 64), (64, 8)))
        changed = schedule.less_at_a_time(program)
        assert memory_plan(changed).peak < memory_plan(program).peak
        assert "order: " in changed.notes[-1]
        assert sorted([n.name for n in changed.nodes]) == sorted([n.name for n in program.nodes])


def residual(x, w, v):
    """The gradient along the other branch waits until both are added."""
    return cm.grad(lambda x: (cm.sin(x @ w).sum(1, keepdims=True) * (x @ v)).sum())(x)


@pytest.mark.parametrize("function", [gated, two, residual])
def test_results_over_operands(small, function) -> None:
    """On an emulated GPU a program gives what the function gives, in less memory."""
    shapes = {
        gated: ((64, 8), (8, 32), (8, 32), (32, 8)),
        two: ((64, 8), (8, 32), (32, 8)),
        residual: ((64, 8), (8, 8), (8, 8)),
    }[function]
    with on("emulated"):
        given = arrays(*shapes)
        jitted = cm.jit(function)
        wanted = flat(function(*given))
        for _ in range(3):
            for a, b in zip(flat(jitted(*given)), wanted, strict=True):
                np.testing.assert_allclose(a, b, 1e-12, 1e-12)
        (program,) = jitted.programs()
    assert any([note.startswith("in place: ") for note in program.notes])


def flat(result) -> list[np.ndarray]:
    leaves = result if isinstance(result, (list, tuple)) else [result]
    return [
        y
        for leaf in leaves
        for y in (flat(leaf) if isinstance(leaf, (list, tuple)) else [np.asarray(leaf.to_numpy())])
    ]


def test_what_others_use_stays(small) -> None:
    """An operand that is an argument, is returned or is used again keeps its memory; so does one
    that a kernel reads in another order, or again for each row."""

    def f(x, w):
        y = x @ w
        z = cm.exp(y)
        kept = x @ w.T
        turned = cm.exp(kept.T)
        r = x @ (w + 1)
        return z, y, turned, (r - r.max(-1, keepdims=True)) * 2, cm.exp(x), kept

    with on("emulated"):
        given = arrays((8, 8), (8, 8))
        jitted = cm.jit(f)
        for _ in range(3):
            for a, b in zip(flat(jitted(*given)), flat(f(*given)), strict=True):
                np.testing.assert_allclose(a, b, 1e-12, 1e-12)
        (program,) = jitted.programs()
    assert not any([note.startswith("in place: ") for note in program.notes])


@pytest.fixture
def gpu(fake, monkeypatch):
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        yield fake


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_logits_are_held_once(gpu, name: str) -> None:
    """Their gradient lies where they did: a program of a large vocabulary holds little else."""
    module, c = peers.small()[name]
    c = dataclasses.replace(c, vocabulary=8192, batch=8, length=64, dtype="bfloat16")
    peer = peers.Jit(module, c, "cuda")
    peer.step()
    (program,) = peer.run.programs()
    logits = c.batch * c.length * c.vocabulary * 2
    assert logits < memory_plan(program).peak < 1.5 * logits
