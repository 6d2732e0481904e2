"""Gradients of logits in the memory of the logits."""

from __future__ import annotations

import numpy as np
import program_comparison as comparison
import pytest

import cudamath as cm
from cudamath.kernels.loss import dispatch
from cudamath.ml.loss import _cross_entropy_grad
from cudamath.programs.memory_plan import memory_plan


def arrays(dtype: str = "float32") -> tuple:
    rng = np.random.default_rng(0)
    w, x = [cm.array(rng.normal(size=size)).astype(dtype) for size in ((40, 6), (12, 6))]
    return w, x, cm.array(rng.integers(0, 40, 12))


def loss(w, x, labels):
    return cm.ml.cross_entropy(x @ w.T, labels)


def both(w, x, labels):
    logits = x @ w.T
    return cm.ml.cross_entropy(logits, labels), logits


def twice(w, x, labels):
    """The logits are needed once more, after the gradient of the first loss."""
    return cm.ml.cross_entropy(x @ w.T, labels) + cm.ml.softmax(x @ w.T).max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_lies_where_the_logits_lay(dtype: str) -> None:
    with comparison.on("emulated"):
        given = arrays(dtype)

        def step(*given):
            return cm.value_and_grad(loss, (0, 1))(*given)

        jitted = cm.jit(step)
        for _ in range(3):
            found, plain = cm.tree.leaves(jitted(*given)), cm.tree.leaves(step(*given))
            for a, b in zip(found, plain, strict=True):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-8)
        (program,) = jitted.programs()
        (node,) = [n for n in program.nodes if n.name == "cross_entropy_grad"]
        assert node.written == (5,) and node.operands[5] == node.operands[1] and not node.results
        blocks = [b for b in memory_plan(program).offsets if b.layout.size == 480]
        assert len(blocks) == 1


def returned(*given):
    (value, logits), grads = cm.value_and_grad(both, (0, 1), has_aux=True)(*given)
    return value, logits, grads


def argument(w, x, labels):
    """The logits are the caller's."""
    return cm.grad(cm.ml.cross_entropy)(w, labels[:1].repeat(40) % 6)


def used_later(*given):
    return cm.grad(twice, (0, 1))(*given)


@pytest.mark.parametrize("function", [returned, argument, used_later])
def test_logits_that_are_needed_stay(function) -> None:
    with comparison.on("emulated"):
        given = arrays("float64")
        jitted = cm.jit(function)
        for _ in range(3):
            found, plain = cm.tree.leaves(jitted(*given)), cm.tree.leaves(function(*given))
            for a, b in zip(found, plain, strict=True):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9)
        for a, b in zip(given, arrays("float64"), strict=True):
            np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())
        (program,) = jitted.programs()
        kept = [n for n in program.nodes if n.name == "cross_entropy_grad"]
        assert function is used_later or (kept and all([n.results for n in kept]))


assert _cross_entropy_grad.over == 1
#: Classes of rows between borders and not, of several parts, and of targets at their ends.
CLASSES = {"long_rows": (7, 33, 5003), "rows": (7, 33, 1001), "plain": (5,)}


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("version", CLASSES)
def test_kernels_in_place(version: str, dtype: str) -> None:
    """Each version gives over the logits the bits that it gives beside them."""
    from cudamath.core.layout import Layout
    from cudamath.testing import simulate

    for classes in CLASSES[version]:
        x, _, _ = (
            cm.array(np.random.default_rng(1).normal(size=(4, classes, 1))).astype(dtype),
            0,
            0,
        )
        targets = cm.array(np.array([[0], [classes - 1], [-100], [classes // 2]]))
        settings = {"ignore_index": -100, "label_smoothing": 0.1}
        host = [np.ones(()), x, targets, np.zeros((2, 4, 1)), np.ones(())]
        wide = "float64" if dtype == "float64" else "float32"
        given = [np.asarray(cm.asarray(a).to_numpy()) for a in host]
        for i in (0, 3, 4):
            given[i] = given[i].astype(wide)
        layouts = [Layout.new(a.shape, a.dtype, 0) for a in given]
        plan = dispatch.cross_entropy_grad(*layouts, version=version, **settings)
        beside = simulate(plan, *given)
        over = given[1].copy()
        given[1] = over
        simulate(plan.into(1), *given)
        np.testing.assert_array_equal(over.view(np.uint8), beside.view(np.uint8))
