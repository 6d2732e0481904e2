"""Products with a batch of vectors become products of matrices, in the plans of an emulated GPU.
The truth is the function in float64 on the CPU.
"""

from __future__ import annotations

import pytest
from emulated_gpu import emulated_gpu
from traced_programs import beside_float64

import cudamath as cm


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch):
        yield


def arrays(rng) -> tuple:
    """w (6, 5), x (3, 8, 5), y (3, 8, 7)."""
    return rng.normal(size=(6, 5)), rng.normal(size=(3, 8, 5)), rng.normal(size=(3, 8, 7))


def of_gradients(w, x, y):
    """The gradient of a gradient by the inputs of each point."""

    def value(w, x):
        return cm.tanh(w @ x).sum()

    def loss(w):
        slopes = cm.vmap(lambda x: cm.grad(value, 1)(w, x))(x.reshape(-1, 5))
        return (slopes**2).sum()

    return cm.grad(loss)(w)


def written(w, x, y):
    """What a product reads changes before its batch is added up."""
    each = x[..., None] @ y[..., None, :]
    y *= 2
    return each.sum((0, 1)), y


#: Name -> function, shapes of the products of its program.
CASES = {
    "a matrix and columns": (lambda w, x, y: w @ x[..., None], [(24, 6)]),
    "columns that lie across": (lambda w, x, y: w.T @ y[0, :6, :, None].swapaxes(0, 1), [(7, 5)]),
    "columns with gaps": (lambda w, x, y: w @ x[:, :3, :, None], [(3, 3, 6, 1)]),
    "columns and rows, added up": (
        lambda w, x, y: (x[..., None] @ y[..., None, :]).sum((0, 1)),
        [(5, 7)],
    ),
    "several columns": (lambda w, x, y: (x.swapaxes(1, 2) @ y).sum(0), [(5, 7)]),
    "one axis of two": (
        lambda w, x, y: (x[..., None] @ y[..., None, :]).sum(0),
        [(3, 8, 5, 7)],
    ),
    "running sums": (lambda w, x, y: cm.cumsum(w @ x[0].T, axis=1), [(6, 8)]),
    "running sums of a batch": (
        lambda w, x, y: cm.cumsum(x.swapaxes(1, 2) @ y, axis=0),
        [(3, 5, 7)],
    ),
    "few terms": (lambda w, x, y: (x[:, 0, :, None] @ y[:, 0, None]).sum(0), [(3, 5, 7)]),
    "each product is used": (
        lambda w, x, y: (p := x[..., None] @ y[..., None, :], p.sum((0, 1)))[::-1],
        [(3, 8, 5, 7)],
    ),
    "written between": (written, [(3, 8, 5, 7)]),
}


def shapes(program) -> list[tuple]:
    """The shapes of the products, those inside of kernels included."""
    nodes = [inner for node in program.nodes for inner in getattr(node.op, "nodes", [node])]
    return [node.results[0].layout.shape for node in nodes if node.name == "matmul"]


@pytest.mark.parametrize("name", CASES)
def test_products_of_rows(name: str) -> None:
    function, found = CASES[name]
    assert shapes(beside_float64(function, arrays)) == found


def test_gradients_within_a_loss() -> None:
    program = beside_float64(of_gradients, arrays)
    assert shapes(program) == [(24, 6), (24, 5), (24, 6), (6, 5), (6, 5)]
