"""Programs on a GPU, on the fake driver, whose kernels do not run here: the launches of fused
regions, graphs, draws and donated arguments."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from fake_driver import FakeDriver

import cudamath as cm


@pytest.fixture
def gpu(fake, monkeypatch):
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        yield fake


def launches(fake, call) -> list[str]:
    """The kernels of a call, by name."""
    fake.launches.clear()
    call()
    return [launch[0] for launch in fake.launches]


def test_a_chain_is_one_kernel_and_then_a_graph(gpu):
    def f(x, y):
        return cm.tanh(x * y + 1) / 2, cm.exp(-x)

    jitted, x, y = cm.jit(f), cm.ones((64, 128)), cm.ones(128)
    assert len(launches(gpu, lambda: f(x, y))) == 6
    before = gpu.calls["cuGraphLaunch"]
    assert len(launches(gpu, lambda: jitted(x, y))) == 1  # the program, so that it is compiled
    assert len(launches(gpu, lambda: jitted(x, y))) == 1  # captured
    assert launches(gpu, lambda: jitted(x, y)) == []
    assert gpu.calls["cuGraphLaunch"] == before + 2 and jitted.traces == 1
    (program,) = jitted.programs()
    assert [node.name for node in program.nodes] == [
        "fused(multiply, add, tanh, divide, negative, exp)"
    ]


def test_a_long_chain_is_one_kernel(gpu):
    """What lies between is not stored: gradients of a formula are long chains."""

    def f(x, y):
        for k in range(25):
            x = cm.sin(x * y) + (k + 1) / (1 + y * y)
        return x

    jitted, x = cm.jit(f), cm.ones((64, 128), dtype="float32")
    jitted(x, x + 1)
    (program,) = jitted.programs()
    assert len(program.nodes) == 1 and program.nodes[0].name.count(",") > 90


def test_reductions_at_the_end_of_a_chain_are_fused(gpu):
    def f(x):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) / cm.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)

    jitted, x = cm.jit(f), cm.ones((64, 128), dtype="float32")
    jitted(x)
    (program,) = jitted.programs()
    assert len(program.nodes) == 1 and "simplified" in program.notes[0]
    assert len(launches(gpu, lambda: jitted(x))) == 1


def test_products_stand_between_regions(gpu):
    def f(w, x):
        return cm.value_and_grad(lambda w: (cm.tanh(x @ w) ** 2).sum())(w)

    jitted = cm.jit(f)
    w, x = cm.ones((32, 16), dtype="float32"), cm.ones((8, 32), dtype="float32")
    plain = launches(gpu, lambda: f(w, x))
    for _ in range(2):
        jitted(w, x)
    captured = launches(gpu, lambda: jitted(w, x))
    assert len(captured) < len(plain)
    assert launches(gpu, lambda: jitted(w, x)) == []
    text = cm.explain(jitted)
    assert "matmul" in text and "alone: its epilogue takes a bias" in text


def test_draws_take_their_part_of_the_sequence_at_each_call(gpu):
    def f(x, rng):
        return cm.ml.dropout(x, 0.5, rng=rng), rng.normal(size=100)

    x, one, other = cm.ones(1000), cm.random.default_rng(0), cm.random.default_rng(0)
    jitted = cm.jit(f)
    for _ in range(4):
        jitted(x, one)
        f(x, other)
        assert one.state == other.state
    assert jitted.traces == 1


def test_donated_arguments_stay_where_they_are(gpu):
    def step(p, x):
        return {"w": p["w"] - 0.1 * x}, x.sum()

    for donate in ((), (0,)):
        jitted = cm.jit(step, donate_argnums=donate)
        p, x = {"w": cm.ones(1000)}, cm.ones(1000)
        places = set()
        for _ in range(5):
            p, _total = jitted(p, x)
            places.add(p["w"]._data)
        assert (len(places) == 1) == bool(donate)
        assert jitted.traces == 1


def test_an_argument_that_moves_is_copied_in(gpu):
    jitted = cm.jit(lambda x, y: x + y)
    y = cm.ones(1000)
    inputs = [cm.array(np.full(1000, float(k))) for k in range(5)]
    for x in inputs:
        jitted(x, y)
    assert launches(gpu, lambda: jitted(inputs[0], y)) == [] and jitted.traces == 1


def test_large_results_of_few_operations_are_not_copied(gpu):
    """A graph would copy them out, which takes longer than a launch, and keep memory of their
    size."""
    jitted, x = cm.jit(lambda x: cm.exp(x) + 1), cm.ones(1 << 22, dtype="float32")
    for _ in range(3):
        gpu.calls.clear()
        assert len(launches(gpu, lambda: jitted(x))) == 1
        assert not gpu.calls["cuGraphLaunch"] and not gpu.calls["cuMemcpyDtoDAsync"]
    assert "no CUDA graph: copies of its results" in cm.explain(jitted)
    held = cm.cuda.memory_allocated()
    y = jitted(x)
    assert cm.cuda.memory_allocated() == held + y.nbytes


def test_large_arguments_that_move_are_not_copied(gpu):
    """A graph for those that stay, none for those that move."""
    jitted, y = cm.jit(lambda x, y: (x * y).sum()), cm.ones(1 << 22, dtype="float32")
    inputs = [y + k for k in range(3)]
    for x in inputs:
        assert launches(gpu, lambda x=x: jitted(x, y))
    moved = gpu.calls["cuGraphLaunch"]
    still = cm.jit(lambda x, y: (x * y).sum())
    for _ in range(3):
        still(y, inputs[0])
    assert gpu.calls["cuGraphLaunch"] == moved + 2 and not moved
    assert launches(gpu, lambda: still(y, inputs[0])) == []
    assert launches(gpu, lambda: still(y, inputs[1])) and launches(gpu, lambda: jitted(y, y))


def test_large_arguments_that_move_once_are_read_where_they_are(gpu):
    """Parameters that were loaded: a replay neither copies them nor holds a copy."""

    def f(w, x):
        for _ in range(8):
            x = cm.tanh(w @ x)
        return x

    jitted, x = cm.jit(f), cm.ones(2048, "float32")
    old, new = cm.ones((2048, 2048), "float32"), cm.zeros((2048, 2048), "float32")
    jitted(old, x), jitted(new, x), jitted(new, x)
    held = cm.cuda.memory_allocated()
    for _ in range(3):
        gpu.calls.clear()
        jitted(new, x)
        assert gpu.calls["cuGraphLaunch"] == 1
    assert cm.cuda.memory_allocated() == held
    copies = gpu.calls["cuMemcpyDtoDAsync"]
    jitted(old, x)  # moves again: it is copied from now on
    gpu.calls.clear()
    jitted(new, x)
    assert gpu.calls["cuGraphLaunch"] == 1 and gpu.calls["cuMemcpyDtoDAsync"] == copies + 1
    assert jitted.traces == 1


def test_a_scan_is_one_graph_and_its_steps_are_fused(gpu):
    def f(w, c, xs):
        def step(c, x):
            c = cm.tanh(c * w + x) * 2 - 1
            return c, c * c

        return cm.scan(step, c, xs)

    jitted = cm.jit(f)
    w, c, xs = cm.ones(64), cm.ones(64), cm.ones((10, 64))
    plain = launches(gpu, lambda: f(w, c, xs))
    jitted(w, c, xs)
    captured = launches(gpu, lambda: jitted(w, c, xs))
    # a step is one kernel, which writes its row
    assert len(plain) >= 60 and captured == ["fused_rows"] * 10
    before = gpu.calls["cuGraphLaunch"]
    assert launches(gpu, lambda: jitted(w, c, xs)) == []
    assert gpu.calls["cuGraphLaunch"] == before + 1 and jitted.traces == 1


def test_a_condition_runs_both_branches_in_a_graph(gpu):
    def f(x):
        return cm.value_and_grad(
            lambda x: cm.cond(x[0] > 0, lambda x: cm.sin(x).sum(), lambda x: cm.exp(x).sum(), x)
        )(x)

    jitted, x = cm.jit(f), cm.ones(64)
    for _ in range(3):
        jitted(x)
    before = gpu.calls["cuGraphLaunch"]
    assert launches(gpu, lambda: jitted(x)) == []
    assert gpu.calls["cuGraphLaunch"] == before + 1


def test_a_loop_by_a_condition_is_no_graph_unless_it_is_bounded(gpu, monkeypatch):
    monkeypatch.setattr(cm.ndarray, "to_numpy", lambda self: np.zeros((), bool))

    def f(x, bound):
        return cm.while_loop(lambda x: x.sum() < 10, lambda x: x + 1, x, max_steps=bound)

    x = cm.ones(64)
    for bound in (None, 3):
        jitted = cm.jit(f)
        before = gpu.calls["cuGraphLaunch"]
        for _ in range(4):
            jitted(x, bound)
        assert (gpu.calls["cuGraphLaunch"] > before) == (bound is not None)
        assert ("no CUDA graph: a loop reads" in jitted.describe()) == (bound is None)


def test_draws_in_a_scan_take_their_part_at_each_call(gpu):
    def f(x, rng):
        return cm.scan(
            lambda c, row: (cm.ml.dropout(c + row, 0.5, rng=rng), rng.uniform()), x[0], x
        )

    x, one, other = cm.ones((5, 64)), cm.random.default_rng(0), cm.random.default_rng(0)
    jitted = cm.jit(f)
    for _ in range(4):
        jitted(x, one)
        f(x, other)
        assert one.state == other.state
    assert jitted.traces == 1 and launches(gpu, lambda: jitted(x, one)) == []


def test_a_product_does_what_follows_in_its_epilogue(gpu):
    def f(x, w, b, r):
        return cm.ml.gelu(x @ w + b) + r

    def arrays(rows, dtype):
        shapes = (rows, 64), (64, 128), (128,), (rows, 128)
        return [cm.ones(shape, dtype=dtype) for shape in shapes]

    for rows, dtype, kernels in ((256, "float16", 1), (256, "float32", 2)):
        jitted, inputs = cm.jit(f), arrays(rows, dtype)
        jitted(*inputs)
        assert len(launches(gpu, lambda: jitted(*inputs))) == kernels  # noqa: B023
        (program,) = jitted.programs()
        names = [node.name for node in program.nodes]
        assert names == (["linear"] if dtype == "float16" else ["matmul", "fused(add, gelu, add)"])
    assert "epilogues: 1 products do the work of 3 operations" in "".join(
        [note for program in _programs(f, arrays(256, "bfloat16")) for note in program.notes]
    )

    # what lies between is used elsewhere, too
    def g(x, w, b, r):
        y = x @ w + b
        return cm.ml.gelu(y) * y

    (program,) = _programs(g, arrays(256, "float16"))
    assert [node.name for node in program.nodes] == ["linear", "fused(gelu, multiply)"]


def _programs(f, inputs):
    jitted = cm.jit(f)
    jitted(*inputs)
    return jitted.programs()


def a_recurrent_step(kind, weight):
    """A step of an LSTM or a GRU, written by hand."""

    def lstm(carry, x):
        h, c = carry
        i, f, g, o = cm.split(x + cm.ml.linear(h, weight), 4, axis=-1)
        c = cm.ml.sigmoid(f) * c + cm.ml.sigmoid(i) * cm.tanh(g)
        h = cm.ml.sigmoid(o) * cm.tanh(c)
        return (h, c), h

    def gru(h, x):
        xr, xz, xn = cm.split(x, 3, axis=-1)
        hr, hz, hn = cm.split(cm.ml.linear(h, weight), 3, axis=-1)
        z = cm.ml.sigmoid(xz + hz)
        h = (1 - z) * cm.tanh(xn + cm.ml.sigmoid(xr + hr) * hn) + z * h
        return h, h

    return {"lstm": lstm, "gru": gru}[kind]


@pytest.mark.parametrize(("kind", "back"), [("lstm", 2), ("gru", 3)])
def test_a_recurrent_step_by_hand_is_a_product_and_a_kernel(gpu, kind, back):
    """Forward; and in the gradient, but for the sum of two gradients of a GRU's state."""

    def count(function, steps):
        jitted, gates = cm.jit(function), {"lstm": 4, "gru": 3}[kind]
        w, h = cm.ones((gates * 64, 64), dtype="float32"), cm.ones((8, 64), dtype="float32")
        xs = cm.ones((steps, 8, gates * 64), dtype="float32")
        jitted(w, h, xs)
        return launches(gpu, lambda: jitted(w, h, xs))

    def forward(w, h, xs):
        return cm.scan(a_recurrent_step(kind, w), (h, h) if kind == "lstm" else h, xs)

    def both(w, h, xs):
        return cm.value_and_grad(lambda *a: forward(*a)[1].sum(), (0, 1, 2))(w, h, xs)

    def of_a_step(function):
        short, long = [collections.Counter(count(function, steps)) for steps in (4, 8)]
        more = {name: (n - short[name]) / 4 for name, n in long.items() if n != short[name]}
        more.pop("sum_parts", None)  # the end of a product that is cut along its sum
        return more

    ahead, both_ways = of_a_step(forward), of_a_step(both)
    assert sum(ahead.values()) == 2, ahead
    assert sum(both_ways.values()) == 2 + back, both_ways
