"""Arguments of CUDA graphs and of programs that lie in memory in any way, with values, on an
emulated GPU: graphs that replay on copies of them give what the function gives."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch) as driver:
        yield driver


def base(k: int) -> cm.ndarray:
    return cm.array(np.arange(24.0).reshape(4, 6) + 100 * k)


#: Two arguments of a function, made anew at each call.
ARGUMENTS = {
    "transposed": lambda k: (base(k).T, base(k).T),
    "backwards": lambda k: (base(k)[::-1], base(k)[:, ::-1]),
    "parts": lambda k: (base(k)[1:, 2:5], base(k)[:3, 1:4]),
    "every other": lambda k: (base(k)[::2, 1::2], base(k)[1::2, ::-2]),
    "one array": lambda k: (x := base(k), x),
    "parts that overlap": lambda k: ((x := base(k))[:3], x[1:]),
    "an array and its transpose": lambda k: ((x := base(k)[:, :4]), x.T),
    "rows of one array": lambda k: ((x := base(k))[0], x[1]),
    "unaligned": lambda k: ((x := base(k).reshape(-1))[1:9], x[10:18]),
    "repeated": lambda k: (cm.broadcast_to(base(k)[0], (4, 6)), base(k)),
    "one number": lambda k: (base(k)[1, 1:2], base(k)[2, 2:3]),
}


def combined(x, y):
    return 2 * x - y, (x @ y.mT if x.ndim > 1 else x * y)


def written(x, y):
    if 0 not in x.strides:
        x *= 2
    y += 1
    return x - y


@pytest.mark.parametrize("function", [combined, written])
@pytest.mark.parametrize("how", ARGUMENTS)
@pytest.mark.parametrize("compiled", [cm.jit, cm.cuda.graph], ids=["jit", "graph"])
def test_arguments(compiled, how: str, function, gpu) -> None:
    replayed = compiled(function)
    for k in range(5):
        ours, plain = ARGUMENTS[how](k), ARGUMENTS[how](k)
        results, truth = replayed(*ours), function(*plain)
        found, expected = (*cm.tree.leaves(results), *ours), (*cm.tree.leaves(truth), *plain)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())
    assert gpu.calls["cuGraphLaunch"] >= 3


def test_overlaps_that_change_are_other_graphs() -> None:
    """Two arguments that overlap now, and do not at the next call."""
    graph = cm.cuda.graph(written)
    for k in range(12):
        x, shift = base(k), (0, 1, 3)[k % 3]
        plain = base(k)
        ours = graph(x[:2], x[shift : shift + 2] if shift < 3 else base(k)[:2])
        truth = written(plain[:2], plain[shift : shift + 2] if shift < 3 else base(k)[:2])
        np.testing.assert_array_equal(ours.to_numpy(), truth.to_numpy())
        np.testing.assert_array_equal(x.to_numpy(), plain.to_numpy())


def test_lists_of_places() -> None:
    """A list as an index is a table on the device, made during the trace."""

    def f(x):
        x[[0, 2]] = x[[-1, 1]] * 2
        return x[:, [1, 0]]

    jitted = cm.jit(f)
    for k in range(4):
        ours, plain = base(k), base(k)
        np.testing.assert_array_equal(jitted(ours).to_numpy(), f(plain).to_numpy())
        np.testing.assert_array_equal(ours.to_numpy(), plain.to_numpy())


def test_bits_of_what_lies_between() -> None:
    """A view in another dtype has the bits, not the numbers."""

    def f(x):
        return ((cm.exp(x) * 2).view("int64") & -(1 << 30)).view("float64") + 1

    jitted, x = cm.jit(f), cm.linspace(-1, 1, 6)
    for _ in range(3):
        np.testing.assert_array_equal(jitted(x).to_numpy(), f(x).to_numpy())
