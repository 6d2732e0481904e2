"""Elementwise operations on arrays with the channels last, and others that do not lie in C order:
they are fused with their neighbours, and results lie as without `jit`."""

from __future__ import annotations

import numpy as np
import program_comparison as comparison
import pytest

import cudamath as cm


def arrays() -> tuple:
    """Two arrays with the channels last in memory, seen with the channels first; and numbers for
    each channel."""
    rng = np.random.default_rng(0)
    x, y = [cm.array(rng.normal(size=(2, 5, 6, 3))).transpose(0, 3, 1, 2) for _ in range(2)]
    return x, y, cm.array(rng.normal(size=3))


def add_scaled(x, y, scale):
    """ConvNeXt's residual."""
    y = y.transpose(0, 2, 3, 1) * scale
    return x + y.transpose(0, 3, 1, 2)


def all_turned(x, y, scale):
    x = cm.tanh(x) * scale[:, None, None]
    return cm.where(x > 0, x, 0.1 * y) - 1


def one_column(x, y, scale):
    """Axes of length 1 may stand anywhere."""
    return cm.exp(x[:, :1]) * 2 + y[:, :1] * scale[0]


def transposed(x, y, scale):
    x, y = x[0, 0].T, y[0, 0].T
    return (x * y + 1) / (2 + x * x)


FUSED = [add_scaled, all_turned, one_column, transposed]


@pytest.mark.parametrize("function", FUSED)
def test_one_kernel(function) -> None:
    with comparison.on("emulated"):
        given = arrays()
        plain, jitted = function(*given), cm.jit(function)
        for _ in range(3):
            y = jitted(*given)
            assert y.strides == plain.strides and y.dtype == plain.dtype
            np.testing.assert_allclose(y.to_numpy(), plain.to_numpy(), rtol=1e-12)
        (program,) = jitted.programs()
        assert len(program.nodes) == 1 and program.nodes[0].name.startswith("fused(")
        assert not [note for note in program.notes if "not fused" in note]


def test_what_is_read_in_two_orders_is_cut_there() -> None:
    """A copy in C order reads across: it is a kernel that does so by tiles."""

    def f(x, y, scale):
        z = cm.tanh(x * y) + 1
        return z, cm.exp(cm.ascontiguousarray(z)) * 2, z.mean((2, 3))

    with comparison.on("emulated"):
        given = arrays()
        jitted = cm.jit(f)
        for _ in range(3):
            for a, b in zip(f(*given), jitted(*given), strict=True):
                assert a.strides == b.strides
                np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-12)
        (program,) = jitted.programs()
        assert program.nodes[0].name == "fused(multiply, tanh, add)"


def test_gradients() -> None:
    """Of a block with the channels last between operations with the channels first."""

    def loss(x, y, scale):
        y = cm.ml.layer_norm(y.transpose(0, 2, 3, 1), 3) * scale
        z = x + y.transpose(0, 3, 1, 2)
        return (cm.tanh(z) * z).mean((2, 3)).sum()

    with comparison.on("emulated"):
        given = arrays()

        def f(*arrays):
            return cm.grad(loss, argnums=(0, 1, 2))(*arrays)

        jitted = cm.jit(f)
        for _ in range(2):
            for a, b in zip(f(*given), jitted(*given), strict=True):
                assert a.strides == b.strides
                np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-9, atol=1e-12)


def test_steps_that_read_parts_are_a_kernel_each() -> None:
    """A lattice: what reads a part of a result begins the next kernel."""

    def f(v):
        for _ in range(4):
            v = cm.maximum(0.5 * (v[:, 1:] + v[:, :-1]) * 0.9 + 0.1, 0.2)
        return v * 2

    with comparison.on("emulated"):
        v = cm.array(np.random.default_rng(0).normal(size=(3, 9)))
        jitted = cm.jit(f)
        for _ in range(2):
            np.testing.assert_allclose(jitted(v).to_numpy(), f(v).to_numpy(), rtol=1e-12)
        (program,) = jitted.programs()
        assert [node.name.count("maximum") for node in program.nodes] == [1, 1, 1, 1]
