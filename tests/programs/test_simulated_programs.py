"""Random programs on a GPU in Numba's simulator: traced, simplified, fused, and replayed as a CUDA
graph of the fake driver."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import RandomProgram
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.runtime.state import runtime

pytestmark = pytest.mark.simulator


#: Their kernels are not made for the simulator.
NOT_THERE = ("step", "rows of")


@pytest.fixture
def gpu(monkeypatch):
    with simulated_gpu(monkeypatch):
        yield


@pytest.mark.parametrize("seed", range(40))
def test_a_program_gives_what_the_cpu_gives(gpu, seed: int) -> None:
    program = RandomProgram(seed, length=8, draws=False, without=NOT_THERE)
    with cm.device("cpu"):
        function = program.function(cm.random.default_rng(seed))
        expected = []
        for call in range(3):
            arrays = [cm.array(a) for a in program.arrays(call)]
            results, total = function(*arrays)
            expected.append([np.array(x) for x in (*results, total, *arrays)])
    jitted = cm.jit(program.function(cm.random.default_rng(seed)))
    for call in range(3):
        arrays = [cm.array(a) for a in program.arrays(call)]
        results, total = jitted(*arrays)
        for a, b in zip((*results, total, *arrays), expected[call], strict=True):
            np.testing.assert_allclose(
                a.to_numpy(), b, 2e-5, 2e-5, err_msg=repr((program, jitted.programs()[0].notes))
            )
    assert jitted.traces == 1
    assert runtime.driver.calls["cuGraphLaunch"] == 2  # the first call traced and ran the program


def test_loops_and_conditions_give_what_the_cpu_gives(gpu) -> None:
    def total(w, c, xs):
        def step(c, x):
            y = cm.cond(c.sum() > 0, lambda c: cm.tanh(c * w), lambda c: c - w, c)
            return y + x, (c * y).sum()

        c, ys = cm.scan(step, c, xs)
        c = cm.while_loop(lambda c: (c * c).sum() < 40, lambda c: c * 1.5, c, max_steps=8)
        return c.sum() + ys.sum()

    def f(*arrays):
        return cm.value_and_grad(total, (0, 1, 2))(*arrays)

    jitted = cm.jit(f)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        data = [rng.normal(size=shape) for shape in ((5,), (5,), (4, 5))]
        with cm.device("cpu"):
            value, gradients = f(*map(cm.array, data))
        ours, others = jitted(*map(cm.array, data))
        np.testing.assert_allclose(ours.to_numpy(), value, 1e-10)
        for a, b in zip(others, gradients, strict=True):
            np.testing.assert_allclose(a.to_numpy(), b, 1e-9, 1e-9)
    assert jitted.traces == 1 and runtime.driver.calls["cuGraphLaunch"] == 3


def test_unaligned_rows(gpu) -> None:
    """Rows of 12 bytes: all but one in four begin where vectors of 16 bytes do not."""
    jitted = cm.jit(lambda c, xs: cm.scan(lambda c, x: (c + x * 2, c * x), c, xs))
    data = np.arange(15, dtype="float32").reshape(5, 3)
    for k in range(3):
        carry, ys = jitted(cm.zeros(3, dtype="float32"), cm.array(data + k))
        sums = np.cumsum(np.vstack([np.zeros((1, 3)), 2 * (data + k)]), 0)
        assert carry.tolist() == sums[-1].tolist()
        assert ys.tolist() == (sums[:-1] * (data + k)).tolist()


def test_an_element_keeps_its_value_where_its_array_is_written(gpu) -> None:
    def f(x):
        y = x + 1
        element, positive = y[0, 0], y[0, 1] > 0
        y *= -2
        return element * 3, cm.where(positive, y, 0)

    jitted = cm.jit(f)
    for value in (1.0, 4.0, -5.0):
        element, y = jitted(cm.full((2, 2), value))
        assert float(element) == 3 * (value + 1)
        assert y.tolist() == [[-2 * (value + 1) if value > -1 else 0] * 2] * 2


def test_fused_rows_that_lie_backwards(gpu) -> None:
    """Rows, and one number a row, whose strides are negative."""
    data = np.arange(12.0).reshape(3, 4)

    @cm.fuse
    def f(x, column):
        return (x - x.mean(-1, keepdims=True)) * column

    x = cm.array(data)
    for rows, column in ((x[::-1], x[:, :1]), (x, x[::-1, :1]), (x[::-1, ::-1], x[::-1, 1:2])):
        a, b = rows.to_numpy(), column.to_numpy()
        np.testing.assert_allclose(
            f(rows, column).to_numpy(), (a - a.mean(-1, keepdims=True)) * b, 1e-14
        )


def lstm(x, w, v, b):
    """A recurrent layer by hand."""

    def step(carry, row):
        h, c = carry
        i, f, g, o = cm.split(row @ w.T + (h @ v.T + b), 4, axis=-1)
        c = cm.ml.sigmoid(f) * c + cm.ml.sigmoid(i) * cm.tanh(g)
        h = cm.ml.sigmoid(o) * cm.tanh(c)
        return (h, c), h

    zero = x[0, :, :4] * 0
    return (cm.scan(step, (zero, zero), x)[1] ** 2).sum()


def test_a_recurrent_layer_by_hand(gpu) -> None:
    """Products before the loop and sums after it; the gates and their gradients in few kernels."""
    function = cm.value_and_grad(lstm, argnums=(0, 1, 2, 3))
    jitted = cm.jit(function)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        shapes = (3, 2, 5), (16, 5), (16, 4), (16,)
        data = [rng.normal(size=shape).astype("float32") for shape in shapes]
        with cm.device("cpu"):
            value, gradients = function(*map(cm.array, data))
        ours, others = jitted(*map(cm.array, data))
        np.testing.assert_allclose(ours.to_numpy(), value, 1e-5)
        for a, b in zip(others, gradients, strict=True):
            np.testing.assert_allclose(a.to_numpy(), b, 1e-4, 1e-5)
    loops = [n for n in jitted.programs()[0].nodes if n.name == "scan"]
    bodies = [body for node in loops for body in node.op.programs.values()]
    notes = " ".join([note for body in bodies for note in body.notes])
    assert "products are made before it" in notes and "sums over the steps" in notes
    assert "gradients of parts are joined" in notes and jitted.traces == 1
    assert max([len(body.nodes) for body in bodies]) <= 6


def test_a_gated_block_with_norms(gpu) -> None:
    """Sums inside of norms and of their gradients, a gate over two products, gradients of weights
    in their order."""

    def loss(p, x):
        for _ in range(2):
            y = cm.ml.rms_norm(x, 8, p["norm"], 1e-5)
            gated = cm.ml.silu(cm.ml.linear(y, p["gate"])) * cm.ml.linear(y, p["up"])
            x = x + cm.ml.linear(gated, p["down"])
        return (cm.ml.layer_norm(cm.sin(x @ p["mix"]) @ p["mix"] + x, 8) ** 3).sum()

    function = cm.value_and_grad(loss, argnums=(0, 1))
    jitted = cm.jit(function)
    shapes = {"norm": (8,), "gate": (12, 8), "up": (12, 8), "down": (8, 12), "mix": (8, 8)}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        params = {k: rng.normal(size=s) for k, s in shapes.items()}
        x = rng.normal(size=(2, 3, 8))
        with cm.device("cpu"):
            truth = function({k: cm.array(w) for k, w in params.items()}, cm.array(x))
        ours = jitted({k: cm.array(w) for k, w in params.items()}, cm.array(x))
        for a, b in zip(cm.tree.leaves(ours), cm.tree.leaves(truth), strict=True):
            b = np.asarray(b)
            np.testing.assert_allclose(a.to_numpy(), b, 1e-9, 1e-11 * np.abs(b).max())
    (program,) = jitted.programs()
    assert "sums are part of one" in " ".join(program.notes)
    names = [node.name for node in program.nodes]
    assert "fused(silu, multiply)" in names and "copy" not in names
