"""Sums of the same linear operation on different operands, in the plans of an emulated GPU. The
truth is the function in float64 on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import emulated_gpu
from traced_programs import beside_float64

import cudamath as cm
from cudamath import ml
from cudamath.programs import fusion


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch):
        yield


def network(w, v, x):
    """Three layers of 8."""
    y = x
    for a, b in zip(w, v, strict=True):
        y = cm.tanh(ml.linear(y, a, b))
    return y


def by_x(w, v, x):
    return cm.grad(lambda x: network(w, v, x).sum())(x)


def physics(w, v, x, _):
    """Values, first and second derivatives in one loss, and its gradient by the weights."""

    def loss(w, v):
        u, u_x = network(w, v, x), by_x(w, v, x)
        u_xx = cm.grad(lambda x: (by_x(w, v, x) * x).sum())(x)
        return ((u * u_x + u_xx) ** 2).mean()

    return cm.value_and_grad(loss, (0, 1))(w, v)


def penalty(w, v, x, _):
    """The gradient's norm is part of the loss."""

    def loss(w):
        return (network(w, v, x) ** 2).mean() + (by_x(w, v, x) ** 2).mean()

    return cm.grad(loss)(w)


def written(w, v, x, y):
    """The weight changes between two products."""
    h = cm.exp(x)
    first = cm.exp(y) @ w[0]
    w[0] *= 2
    return first + h @ w[0]


def twice(w, v, x, y):
    """A product is used elsewhere."""
    one = cm.exp(x) @ w[0]
    return one + cm.exp(y) @ w[0], one


def returned(w, v, x, y):
    """A sum is used elsewhere, too: what it is made of is one of three terms there."""
    one = cm.exp(x) @ w[0] + cm.exp(y) @ w[0]
    return one, one + cm.sin(x) @ w[0]


#: Name -> function, products that remain, and those of the function.
CASES = {
    "the same weight": (lambda w, v, x, y: cm.exp(x) @ w[0] + cm.exp(y) @ w[0], 1, 2),
    "the same rows": (
        lambda w, v, x, y: (h := cm.exp(x), h @ cm.exp(w[0]) + h @ cm.exp(w[1]))[1],
        1,
        2,
    ),
    "transposed": (lambda w, v, x, y: cm.exp(x).T @ x + cm.exp(y).T @ x, 1, 2),
    "three terms": (
        lambda w, v, x, y: cm.exp(x) @ w[1] + cm.sin(y) @ w[1] + cm.cos(x) @ w[1],
        1,
        3,
    ),
    "among others": (
        lambda w, v, x, y: cm.exp(x) @ w[0] + (x + cm.exp(y) @ w[1] + cm.sin(y) @ w[0]),
        2,
        3,
    ),
    "in layers": (
        lambda w, v, x, y: ((cm.exp(x) @ w[0]) * y) @ w[1] + ((cm.exp(y) @ w[0]) * y) @ w[1],
        2,
        4,
    ),
    "sums of few": (lambda w, v, x, y: (x * y).sum(-1) + (cm.exp(x) @ w[0]).sum(-1), 1, 1),
    "other weights": (lambda w, v, x, y: cm.exp(x) @ w[0] + cm.exp(y) @ w[1], 2, 2),
    "used twice": (twice, 2, 2),
    "a part": (lambda w, v, x, y: cm.exp(x)[:4] @ w[0] + cm.exp(y)[:4] @ w[0], 2, 2),
    "written between": (written, 2, 2),
    "a sum is returned": (returned, 2, 3),
    "arguments": (lambda w, v, x, y: x @ w[0] + y @ w[0], 2, 2),
}


def arrays(rng: np.random.Generator) -> tuple:
    return (
        [rng.normal(size=(8, 8)) / 3 for _ in range(3)],
        [rng.normal(size=8) for _ in range(3)],
        rng.normal(size=(6, 8)),
        rng.normal(size=(6, 8)),
    )


def compared(function, dtype: str = "float32", tolerance: float = 3e-5) -> list[str]:
    """The operations of the program, whose values are right."""
    return [node.name for node in beside_float64(function, arrays, dtype, tolerance).nodes]


def products(names: list[str]) -> int:
    return sum([name.count("matmul") + name.count("linear") for name in names])


@pytest.mark.parametrize("name", CASES)
def test_products_of_sums(name: str) -> None:
    function, remaining, _ = CASES[name]
    assert products(compared(function)) == remaining


@pytest.mark.parametrize("name", ["the same weight", "in layers"])
def test_sixteen_bits_are_added_after_the_products(name: str) -> None:
    function, _, count = CASES[name]
    assert products(compared(function, "bfloat16", 0.2)) == count


@pytest.mark.parametrize(("function", "count", "before"), [(physics, 37, 50), (penalty, 17, 22)])
def test_ways_back_through_a_layer_become_one(
    monkeypatch, function, count: int, before: int
) -> None:
    assert products(compared(function)) == count
    monkeypatch.setattr(fusion, "common_factors", lambda program: program)
    assert products(compared(function)) == before


def test_numbers_of_the_user_are_multiplied_one_by_one() -> None:
    """Infinite ones would not be the same: inf * 2 - inf is no number, inf * (2 - 1) is one."""
    f = cm.jit(lambda x, a, b: cm.exp(x) * cm.exp(a) + cm.exp(x) * -cm.exp(b))
    given = [cm.array(np.float32([100.0, 1.0])), cm.zeros(2, "float32"), cm.ones(2, "float32")]
    assert np.isnan(np.asarray(f(*given))).tolist() == [True, False]


def test_gradients_of_chosen_rows_are_added_before_they_are_sorted() -> None:
    """A table whose rows are chosen twice by one index."""

    def step(w, v, x, y):
        index = cm.array([2, 0, 2, 1, 5])

        def loss(x):
            return (x[index] * y[:5]).sum() + (cm.sin(x[index]) ** 2).sum()

        return cm.grad(loss)(x)

    names = compared(step)
    assert names.count("index_grad") == 1


def test_sums_of_which_an_axis_is_taken_off_are_one_sum() -> None:
    """The gradient of a number that each of many steps uses."""

    def step(w, v, x, y):
        def loss(rate):
            z = x
            for k in range(4):
                z = cm.sin(z + rate * y) + z * v[k % 3]
            return z.sum()

        return cm.grad(loss)(v[0].sum())

    names = compared(step)
    assert sum([name.count("sum") for name in names]) == 1 + 1  # rate, and its gradient
