"""Parts of arrays: operations that compute only the parts that are used, and gradients of parts
that are joined at once. Everything runs on the CPU here, as if its kernels were a GPU's."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import RandomProgram
from traced_programs import bound_on_the_cpu, elementwise, run, traced

import cudamath as cm
from cudamath.programs.slices import joined, sliced


@pytest.fixture(autouse=True)
def cpu(monkeypatch):
    bound_on_the_cpu(monkeypatch)
    with cm.device("cpu"):
        yield


def arrays(seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    return [cm.array(rng.normal(size=shape)) for shape in ((3, 8), (3, 8), (8,), (3, 1))]


def by_split(x, y, b, c):
    i, f, g, o = cm.split((x + y * b) - c, 4, axis=-1)
    return cm.tanh(i) * f + g / (1 + o * o)


SLICED = {
    "a split": (by_split, 4),
    "a part alone": (lambda x, y, b, c: (s := x - c, s[:, 2:4] * s[:, 5:7])[1], 2),
    "columns of one": (lambda x, y, b, c: (s := x + y, s[:, :1] * s[:, 1:2])[1], 2),
}


@pytest.mark.parametrize("name", SLICED)
def test_parts_alone_are_computed(name: str) -> None:
    function, parts = SLICED[name]
    program = traced(function, *arrays())
    changed = sliced(program, elementwise)
    assert len(changed.nodes) >= len(program.nodes) + parts - 1
    shapes = [n.results[0].layout.size for n in changed.nodes]
    assert max(shapes) < 24 and "only the parts" in changed.notes[-1]
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_array_equal(a, b)


WHOLE = {
    "a part has fewer axes": lambda x, y, b, c: (s := x * b, s[0] + s[1] * s[2])[1],
    "it is returned": lambda x, y, b, c: (s := x + y, s[:, :4] * s[:, 4:], s)[1:],
    "it is multiplied as a whole": lambda x, y, b, c: (
        s := x + y,
        s[:, :4] * s[:, 4:] + (s @ s.T)[:, :1],
    )[1],
    "parts overlap": lambda x, y, b, c: (s := x + y, s[:, :6] * s[:, 2:])[1],
    "it is used as a whole too": lambda x, y, b, c: (s := x + y, s * s, s[:, :4])[1],
    "a part is written": lambda x, y, b, c: (
        s := x + y,
        s[:, :4].__imul__(2),
        s[:, :4] * s[:, 4:],
    )[2],
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_whole_is_computed_where(name: str) -> None:
    program = traced(WHOLE[name], *arrays())
    assert sliced(program, elementwise) is program


def gates(axis: int, order: tuple):
    """The gradient of parts along an axis, taken in this order."""

    def f(x):
        parts = cm.split(cm.sin(x), 4, axis=axis)
        return sum((k + 1) * (parts[i] ** (k + 1)).sum() for k, i in enumerate(order))

    return lambda x, y, b, c: cm.grad(f)(x.reshape(4, 6) if axis == 0 else x)


def stacked(x, y, b, c):
    """Parts that lack the axis: q, k, v of one array."""

    def f(x):
        q, k, v = x.reshape(3, 2, 4)
        return (q @ k.T).sum() + (v**3).sum()

    return cm.grad(f)(x)


JOINED = {
    "the last axis": gates(-1, (0, 1, 2, 3)),
    "another order": gates(-1, (2, 0, 3, 1)),
    "rows": gates(0, (0, 1, 2, 3)),
    "parts without the axis": stacked,
}


@pytest.mark.parametrize("name", JOINED)
def test_gradients_of_parts_are_joined(name: str) -> None:
    program = traced(JOINED[name], *arrays())
    assert "unview" in [n.name for n in program.nodes]
    changed = joined(program)
    names = [n.name for n in changed.nodes]
    assert names.count("concat") == 1 and not {"unview", "copy_into"} & {*names}
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_array_equal(a, b)


def heads(x):
    """Parts whose gradients lie with other axes than the array that they are parts of, and are
    wanted there in the order of that."""
    q, k, v = cm.sin(x).reshape(2, 4, 3, 2, 3).transpose((2, 0, 3, 1, 4))
    back = [cm.exp(each.transpose((0, 2, 1, 3))) for each in (q, k, v)]
    return (back[0] * back[1] + back[2] ** 2).sum()


def test_gradients_of_parts_are_joined_as_they_are_copied() -> None:
    """No copy after the concatenation: it joins along another axis."""

    def arrays(seed: int) -> list:
        return [cm.array(np.random.default_rng(seed).normal(size=(2, 4, 18)))]

    program = traced(lambda x: cm.grad(heads)(x) @ cm.ones((18, 2)), *arrays(0))
    changed = joined(program)
    names = [n.name for n in changed.nodes]
    assert names.count("concat") == 1 and not {"unview", "copy_into", "copy"} & {*names}
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_array_equal(a, b)


APART = {
    "a part is missing": lambda x: (x[:, :2] ** 2).sum() + (x[:, 4:] ** 3).sum(),
    "parts overlap": lambda x: (x[:, :5] ** 2).sum() + (x[:, 3:] ** 3).sum(),
    "one part twice": lambda x: (x[:, :4] ** 2).sum() + (x[:, 4:] ** 3).sum() + x[:, :4].prod(),
    "every third column": lambda x: (x[:, ::3] ** 2).sum() + (x[:, 1::3] ** 3).sum(),
    "other steps": lambda x: (x[:, ::2] ** 2).sum() + (x[:, 1::4] ** 3).sum() + x[:, 3::4].sum(),
}


def rotary(x):
    a, b = x[:, ::2], x[:, 1::2]
    return (cm.stack([a - 2 * b, a + 2 * b], axis=-1).reshape(x.shape) ** 3).sum()


#: Gradients of parts that lie between one another.
PAIRS = {
    "every other column": lambda x: (x[:, ::2] ** 2).sum() + (x[:, 1::2] ** 3).sum(),
    "three": lambda x: (x[:3, ::3] ** 2 * x[:3, 1::3]).sum() + (x[:3, 2::3] ** 3).sum(),
    "rows": lambda x: (x[::2] ** 2 * x[1::2]).sum(),
    "rotary": rotary,
}


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_pairs_are_joined(name: str) -> None:
    """`x[..., ::2]` and `x[..., 1::2]`, as in rotary embeddings."""

    def arrays(seed: int) -> list:
        return [cm.array(np.random.default_rng(seed).normal(size=(6, 12)))]

    def f(x):
        g = cm.grad(PAIRS[name])(x[:3] if name == "three" else x)
        return g, g.sum(0) + 1

    program = traced(f, *arrays(0))
    changed = joined(program)
    names = [n.name for n in changed.nodes]
    assert names.count("concat") == 1 + (name == "rotary")
    assert not {"unview", "copy_into"} & {*names}
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", APART)
def test_gradients_of_parts_stay_where(name: str) -> None:
    program = traced(lambda x, y, b, c: cm.grad(APART[name])(x), *arrays())
    changed = joined(program)
    assert changed is program
    for a, b in zip(run(changed, arrays(1)), run(program, arrays(1)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_random_programs_of_parts(first: int) -> None:
    """Both changes give the bits of the program, its writes included."""
    for seed in range(first, first + 100):
        random = RandomProgram(seed)
        jitted = cm.jit(random.function(cm.random.default_rng(seed)))
        jitted(*[cm.array(a) for a in random.arrays(0)])
        for program in jitted.programs():
            if any([node.draw is not None for node in program.nodes]):
                continue
            changed = sliced(joined(program), elementwise)
            if changed is not program:
                ours = run(changed, [cm.array(a) for a in random.arrays(1)])
                truth = run(program, [cm.array(a) for a in random.arrays(1)])
                for a, b in zip(ours, truth, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=repr(random))
