"""Operations on joined arrays that are done part by part, in the plans of an emulated GPU.

The truth is the function in float64 on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import emulated_gpu
from traced_programs import beside_float64

import cudamath as cm


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch):
        yield


def arrays(rng: np.random.Generator) -> tuple:
    """x (3, 4, 32), w (32, 32), a table (4, 32)."""
    return rng.normal(size=(3, 4, 32)), rng.normal(size=(32, 32)) / 6, rng.normal(size=(4, 32))


def turned(x, table):
    """Rotary embeddings, by halves."""
    a, b = x[..., :16], x[..., 16:]
    return x * cm.cos(table) + cm.concatenate([-b, a], axis=-1) * cm.sin(table)


def rotary(x, w, table):
    return turned(x @ w, table) @ w


def gradient(x, w, table):
    return cm.grad(lambda x, w: (rotary(x, w, table) ** 2).sum(), (0, 1))(x, w)


def with_a_first_row(x, w, table):
    """A token before the others, and their places."""
    y = cm.concatenate([cm.broadcast_to(w[:1], (3, 1, 32)), x[:, :3] @ w], axis=1) + table
    return y @ w


def in_turn(x, w, table):
    """Of two joined arrays, along different axes."""
    y = cm.concatenate([x[:1] @ w, x[1:]]) * 2
    return (y + cm.concatenate([x[..., :16], x[..., :16] @ w[:16, :16]], axis=-1)) @ w


CHANGED = {
    "rotary": rotary,
    "gradient": gradient,
    "with a first row": with_a_first_row,
    "in turn": in_turn,
}


def summed(x, w, table):
    """A kernel of rows reads all of the sum."""
    y = cm.concatenate([x[..., :16] @ w[:16, :16], x[..., 16:]], axis=-1) + table
    return y / y.sum(-1, keepdims=True)


def written(x, w, table):
    y = cm.concatenate([x[..., :16] * 2, x[..., 16:]], axis=-1)
    z = y + table
    y[0] = 1
    return z @ w, y @ w


def changed_between(x, w, table):
    y = cm.concatenate([x[..., :16], x[..., 16:]], axis=-1)
    x *= 2
    return (y + table) @ w, x


KEPT = {
    "summed": summed,
    "written": written,
    "changed between": changed_between,
    "a product reads it": lambda x, w, t: (y := cm.concatenate([x, -x]), y @ w, (y + t) @ w)[1:],
    "it is returned": lambda x, w, t: (y := cm.concatenate([x, -x]), (y + t) @ w),
    "a part of it is read": lambda x, w, t: (cm.concatenate([x, -x])[1:4] + t) @ w,
    "it is repeated": lambda x, w, t: (cm.concatenate([x[:1], -x[:1]])[:, None] + x[:2]) @ w,
}


def found(program) -> bool:
    return any(["part by part" in note for note in program.notes])


@pytest.mark.parametrize("name", CHANGED)
def test_parts(name: str) -> None:
    program = beside_float64(CHANGED[name], arrays)
    assert found(program)
    names = [node.name for node in program.nodes]
    assert not {"unview", "copy_into"} & {*names}
    assert "concat" not in names or name in ("with a first row", "in turn")


@pytest.mark.parametrize("name", KEPT)
def test_what_is_needed_is_joined(name: str) -> None:
    assert not found(beside_float64(KEPT[name], arrays))


def test_sixteen_bits() -> None:
    assert found(beside_float64(gradient, arrays, "bfloat16", 0.1))
