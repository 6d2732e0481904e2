"""Loops on an emulated GPU, whose steps write their results into rows of arrays that are there
before: the same numbers as the loop on the CPU, whatever of the carry is wanted."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm


@pytest.fixture
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch) as driver:
        yield driver


def numbers(tree):
    return [x.to_numpy() for x in cm.tree.leaves(tree)]


def compare(f, *arrays):
    """The program on the GPU twice (as it is traced, as a graph, on other numbers), and the
    function on the CPU."""
    jitted = cm.jit(f)
    for shift in (0, 1, 2):
        given = [a + shift for a in arrays]
        found = numbers(jitted(*map(cm.array, given)))
        with cm.device("cpu"):
            expected = numbers(f(*map(cm.array, given)))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-12)
    (program,) = jitted.programs()
    return program


WIDTH = 4  # float64: rows of whole 16 bytes
#: What a step with carries a, b (rows of x) gives: (new carry, results).
STEPS = {
    "the new carry": lambda a, b, x: ((a * b, a + x), a * b),
    "the old carry": lambda a, b, x: ((a * b, a + x), a),
    "both": lambda a, b, x: ((a * b, a + x), (a, a * b)),
    "one carry twice": lambda a, b, x: (lambda y: ((y, b + x), (y, y)))(a * x),
    "both carries": lambda a, b, x: (lambda y, z: ((y, z), (z, y)))(a * x, b + x),
    "no carry": lambda a, b, x: ((a * b, a + x), cm.sin(x) * a),
    "a carry that changes places": lambda a, b, x: ((b, a * x), a * x),
    "a carry that stays": lambda a, b, x: ((a, b * a), b * a + x),
    "a part of the carry": lambda a, b, x: ((a * b, a + x), (a * b)[..., 1:3]),
    "the carry, transposed": lambda a, b, x: ((a * b, a + x), (a * b).T),
    "a row itself": lambda a, b, x: ((a * b, a + x), x),
    "parts put together": lambda a, b, x: (
        (a * b, a + x),
        cm.concat([cm.sin(a), cm.cos(b * x), a + b], axis=-1),
    ),
    "parts put together, one of them wanted": lambda a, b, x: (
        lambda y: ((y, a + x), (cm.concat([y, cm.cos(b * x)], axis=-1), y))
    )(cm.sin(a)),
    "parts, one twice": lambda a, b, x: (
        lambda y: ((y, a + x), (cm.concat([y, y, b * x], axis=0), cm.concat([b * x, y], axis=-1)))
    )(cm.sin(a)),
    "sums of rows": lambda a, b, x: ((a * b, a + x), (a * x).sum(axis=-1)),
}


@pytest.mark.parametrize("reverse", [False, True], ids=["ahead", "back"])
@pytest.mark.parametrize("shape", [(3, WIDTH), (2, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_values_and_gradients(gpu, name, shape, reverse):
    """Rows that are not whole 16 bytes, too."""
    if name == "a part of the carry" and shape[-1] < 3:
        pytest.skip("no such part")
    rng = np.random.default_rng(0)
    a, b, xs = rng.normal(size=shape), rng.normal(size=shape), rng.normal(size=(5, *shape))

    def f(a, b, xs):
        step = lambda carry, x: STEPS[name](*carry, x)  # noqa: E731
        return cm.scan(step, (a, b), xs, reverse=reverse)

    def value(a, b, xs):
        ys = cm.tree.leaves(f(a, b, xs))
        weights = [np.cos(np.arange(y.size)).reshape(y.shape) for y in ys]
        return sum([(y * cm.array(w)).sum() for y, w in zip(ys, weights, strict=True)])

    compare(f, a, b, xs)
    compare(cm.grad(value, (0, 1, 2)), a, b, xs)


def test_second_derivatives(gpu):
    rng = np.random.default_rng(0)

    def value(a, xs):
        return (cm.scan(lambda c, x: (cm.sin(c) * x, c), a, xs)[1] ** 2).sum()

    def steepness(a, xs):
        return sum([(g * g).sum() for g in cm.grad(value, (0, 1))(a, xs)])

    compare(cm.grad(steepness, (0, 1)), rng.normal(size=WIDTH), rng.normal(size=(4, WIDTH)))


def test_what_is_written_into_a_result_is_in_no_other(gpu):
    """The results of a loop are views of one array."""

    def f(a, xs):
        last, (old, new) = cm.scan(lambda c, x: (c * x, (c, c * x)), a, xs)
        old += 100
        new *= -1
        last += 7
        return last, old, new

    rng = np.random.default_rng(0)
    compare(f, rng.normal(size=WIDTH), rng.normal(size=(4, WIDTH)))


def test_carries_of_other_dtypes(gpu):
    def f(n, a, xs):
        def step(carry, x):
            n, a = carry
            return (n + 1, a * 2 + x[0]), (n, (a * 2 + x[0]).astype("float16"), a > 0)

        return cm.scan(step, (n, a), xs)

    compare(f, np.arange(4), np.ones(4), np.ones((3, 2)))


def test_loops_within_loops(gpu):
    def f(a, xs):
        def outer(c, rows):
            c, ys = cm.scan(lambda d, x: (cm.tanh(d + x), d * x), c, rows)
            return c, (c, ys)

        return cm.scan(outer, a, xs)

    rng = np.random.default_rng(0)
    given = rng.normal(size=WIDTH), rng.normal(size=(3, 2, WIDTH))
    compare(f, *given)
    compare(cm.grad(lambda *a: sum([(y * y).sum() for y in cm.tree.leaves(f(*a))])), *given)


def test_a_recurrent_step_writes_where_its_results_are_wanted(gpu):
    def f(w, h, xs):
        def step(carry, x):
            h, c = carry
            i, f, g, o = cm.split(x + cm.ml.linear(h, w), 4, axis=-1)
            c = cm.ml.sigmoid(f) * c + cm.ml.sigmoid(i) * cm.tanh(g)
            h = cm.ml.sigmoid(o) * cm.tanh(c)
            return (h, c), h

        return cm.scan(step, (h, h), xs)[1]

    rng = np.random.default_rng(0)
    given = rng.normal(size=(16, 4)) / 2, rng.normal(size=(3, 4)), rng.normal(size=(5, 3, 16))
    slope = cm.grad(lambda *a: (f(*a) ** 2).sum(), (0, 1, 2))
    program = compare(slope, *given)
    bodies = [body for node in program.nodes for body in getattr(node.op, "programs", {}).values()]
    assert [len(body.nodes) for body in bodies] == [2, 2]
    assert not any(node.name in ("copy_into", "concat") for body in bodies for node in body.nodes)
