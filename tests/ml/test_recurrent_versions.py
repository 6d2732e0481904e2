"""Recurrent layers in one op: on the CPU ("numpy"), through a fake of cuDNN on an emulated GPU
("cudnn"), and through cuDNN on a GPU, against loops over single sequences in float64. Gradients are
those of the version of public operations, which test_recurrent.py compares with differences."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from emulated_gpu import emulated_gpu
from fake_cudnn import fake_cudnn
from recurrent_reference import CASES, STEPS, UNITS, problem, reference, weights

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.recurrent import dispatch
from cudamath.ml import recurrent
from cudamath.runtime import cudnn_recurrent, device

LENGTHS = [None, [5, 2, 3], [1, 5, 4]]


@pytest.fixture
def gpu(monkeypatch):
    with emulated_gpu(monkeypatch) as driver, fake_cudnn(monkeypatch, driver) as library:
        yield library


@pytest.fixture(params=["numpy", "cudnn"])
def version(request, monkeypatch):
    with contextlib.ExitStack() as stack:
        if request.param == "cudnn":
            library = request.getfixturevalue("gpu")
        else:
            library = None
            stack.enter_context(cm.device("cpu"))
        stack.enter_context(recurrent.by_version(request.param))
        yield library


def called(kind, x, w, h, c, **named):
    y, state = getattr(cm.ml, kind)(x, w, (h, c) if kind == "lstm" else h, **named)
    return (y, *state) if kind == "lstm" else (y, state)


def ours(tree):
    return {k: cm.array(v) for k, v in tree.items()}


def numbers(x):
    return x.to_numpy().astype(np.float64)


@pytest.mark.parametrize("mode", ["eager", "jit"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_values(version, case, lengths, mode):
    kind, options, x, w, h, c = problem(case)
    sizes = options.get("layers", 1), options.get("directions", 1)
    f = lambda x, w, h, c: called(kind, x, w, h, c, lengths=lengths)  # noqa: E731
    f = cm.jit(f) if mode == "jit" else f
    for shift in (0, 0.5):  # a graph replays on other numbers
        truth = reference(kind, x + shift, w, h, c, lengths or [STEPS] * 3, *sizes)
        out = f(cm.array(x + shift), ours(w), cm.array(h), cm.array(c))
        for a, b in zip(out, truth, strict=False):
            np.testing.assert_allclose(numbers(a), b, 1e-12, 1e-12)
    assert version is None or set(version.calls) == {"cudnnRNNForward"}


@pytest.mark.parametrize("mode", ["eager", "jit"])
@pytest.mark.parametrize(
    "state, lengths",
    [(True, None), (False, None), (True, LENGTHS[1]), (False, LENGTHS[2])],
    ids=str,
)
@pytest.mark.parametrize("case", CASES)
def test_gradients(version, case, state, lengths, mode):
    kind, _, x, w, h, c = problem(case)
    rng = np.random.default_rng(1)
    factors: list = []

    def loss(x, w, h, c):
        given = (h, c) if state else (None, None)
        named = {"lengths": lengths}
        if not state:
            y, ends = getattr(cm.ml, kind)(x, w, None, **named)
            out = (y, *(ends if kind == "lstm" else (ends,)))
        else:
            out = called(kind, x, w, *given, **named)
        if not factors:
            factors.extend(rng.normal(size=a.shape) for a in out)
        return sum([(a * cm.array(b)).sum() for a, b in zip(out, factors, strict=True)])

    slope = cm.grad(loss, (0, 1, 2, 3))
    slope = cm.jit(slope) if mode == "jit" else slope
    for _ in range(2):
        found = slope(cm.array(x), ours(w), cm.array(h), cm.array(c))
    with cm.device("cpu"), recurrent.by_version("steps"):
        expected = cm.grad(loss, (0, 1, 2, 3))(cm.array(x), ours(w), cm.array(h), cm.array(c))
    for a, b in zip(cm.tree.leaves(found), cm.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), 1e-11, 1e-11)
    if version is not None:
        assert "cudnnRNNBackwardWeights_v8" in version.calls


def test_relu_one_sequence_and_the_other_order_of_axes(version):
    w = weights("rnn", 4, UNITS, directions=2)
    x = np.random.default_rng(0).normal(size=(STEPS, 3, 4))
    h = np.zeros((2, 3, UNITS))
    y, last, _ = reference("rnn", x, w, h, h, [STEPS] * 3, 1, 2, relu=True)
    relu = {"nonlinearity": "relu"}
    a, b = cm.ml.rnn(cm.array(x.swapaxes(0, 1)), ours(w), batch_first=True, **relu)
    np.testing.assert_allclose(numbers(a), y.swapaxes(0, 1), 1e-12)
    np.testing.assert_allclose(numbers(b), last, 1e-12)
    a, b = cm.ml.rnn(cm.array(x[:, 1]), ours(w), cm.zeros((2, UNITS)), **relu)
    np.testing.assert_allclose(numbers(a), y[:, 1], 1e-12)
    np.testing.assert_allclose(numbers(b), last[:, 1], 1e-12)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_second_derivatives(version, kind):
    w = ours(weights(kind, 2, 2))
    x = cm.array(np.random.default_rng(0).normal(size=(3, 2, 2)))

    def steepness(w, x):
        def loss(w, x):
            y, ends = getattr(cm.ml, kind)(x, w)
            return (y**2).sum() + sum([(e**3).sum() for e in cm.tree.leaves(ends)])

        return sum([(a * a).sum() for a in cm.tree.leaves(cm.grad(loss, (0, 1))(w, x))])

    found = cm.grad(steepness, (0, 1))(w, x)
    with cm.device("cpu"), recurrent.by_version("steps"):
        given = {k: cm.array(v.to_numpy()) for k, v in w.items()}, cm.array(x.to_numpy())
        expected = cm.grad(steepness, (0, 1))(*given)
    for a, b in zip(cm.tree.leaves(found), cm.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), 1e-10, 1e-10)


def test_a_gradient_that_is_taken_twice_is_the_same(version):
    """The library overwrites what `recurrent_layers` keeps for `recurrent_layers_grad`."""
    kind, _, x, w, h, c = problem("lstm, two layers, both directions")
    y, pull = cm.vjp(
        lambda x, w: called(kind, x, w, cm.array(h), cm.array(c))[0], cm.array(x), ours(w)
    )
    one, other = pull(cm.ones_like(y)), pull(cm.ones_like(y))
    for a, b in zip(cm.tree.leaves(one), cm.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(numbers(a), numbers(b))


def test_maps_over_cotangents_and_over_inputs(version):
    kind, _, x, w, h, c = problem("lstm")
    f = lambda x: called(kind, x, ours(w), cm.array(h), cm.array(c))[0]  # noqa: E731
    y, pull = cm.vjp(f, cm.array(x))
    g = np.random.default_rng(2).normal(size=(3, *y.shape))
    (mapped,) = cm.vmap(pull)(cm.array(g))
    for k in range(3):
        np.testing.assert_allclose(numbers(mapped[k]), numbers(pull(cm.array(g[k]))[0]), 1e-11)
    many = np.stack([x, 2 * x])
    both = cm.vmap(f)(cm.array(many))
    for k in range(2):
        np.testing.assert_allclose(numbers(both[k]), numbers(f(cm.array(many[k]))), 1e-11)


# -------------------- which version


def test_cudnn_is_the_default_on_a_gpu(gpu):
    kind, _, x, w, h, c = problem("gru")
    called(kind, cm.array(x), ours(w), cm.array(h), cm.array(c))
    assert gpu.calls == ["cudnnRNNForward"]


@pytest.mark.parametrize(
    "why",
    [
        "lengths of the device",
        "an empty sequence",
        "biases of one layer",
        "a square projection",
        "by name",
    ],
)
def test_steps_where_the_library_cannot(gpu, why):
    x, w, lengths = np.ones((5, 3, 4)), weights("lstm", 4, 3), None
    with contextlib.ExitStack() as stack:
        if why == "lengths of the device":
            lengths = cm.array([5, 2, 3])
        elif why == "an empty sequence":
            lengths = [5, 0, 3]
        elif why == "by name":
            stack.enter_context(recurrent.by_version("steps"))
        elif why == "a square projection":
            w["weight_hr_l0"] = np.eye(3)
        else:
            further = weights("lstm", 3, 3, bias=False)
            w.update({k.replace("l0", "l1"): v for k, v in further.items()})
        cm.ml.lstm(cm.array(x), ours(w), lengths=lengths)
    assert gpu.calls == []


def test_weights_elsewhere_than_documented_are_not_packed(monkeypatch):
    kind, _, x, w, h, c = problem("lstm")
    with (
        emulated_gpu(monkeypatch) as driver,
        fake_cudnn(monkeypatch, driver, shifted=True) as library,
    ):
        arrays = cm.array(x), ours(w), cm.array(h), cm.array(c)
        y = called(kind, *arrays)[0]
        assert library.calls == []
        np.testing.assert_allclose(
            numbers(y), reference(kind, x, w, h, c, [STEPS] * 3, 1, 1)[0], 1e-12
        )
        with (
            recurrent.by_version("cudnn"),
            pytest.raises(ValueError, match="lstm: version 'cudnn' does not support"),
        ):
            called(kind, *arrays)


def test_errors_of_versions(gpu):
    x, w = cm.ones((5, 3, 4)), ours(weights("lstm", 4, 3))
    with recurrent.by_version("fastest"), pytest.raises(ValueError, match="lstm: .*no version"):
        cm.ml.lstm(x, w)
    with (
        recurrent.by_version("cudnn_persistent"),
        pytest.raises(ValueError, match="'cudnn_persistent' does not support"),
    ):
        cm.ml.lstm(x, w)


@pytest.mark.parametrize(
    "batch, units, options, why",
    [
        (64, 512, {}, ""),
        (65, 512, {}, "its 160 blocks wait for one another, and 132 run at the same time"),
        (64, 12, {}, "12 units are no multiple of 8"),
        (8, 2048, {}, "bytes of shared memory, of 232448"),
        (64, 512, {"layers": 2}, "it computes one layer in one direction"),
        (64, 512, {"lengths": (3,) * 64}, "it has no lengths of sequences"),
        (64, 512, {"out": 256}, "it has no projection"),
        (64, 512, {"dtype": "f8"}, "it computes float32, not float64"),
    ],
)
def test_one_kernel_for_all_steps_where_all_of_its_blocks_run_at_once(batch, units, options, why):
    options = dict(options)
    params = {
        "kind": "lstm", "units": units, "out": units, "layers": 1, "directions": 1, "bias": True,
        "lengths": None, "tf32": False, "training": True,
    }  # fmt: skip
    with device.assume((9, 0), multiprocessors=132):
        x = Layout.new((3, batch, 16), np.dtype(options.pop("dtype", "f4")), 0)
        params |= options
        if why:
            with pytest.raises(ValueError, match=f"'persistent' does not support .*: .*{why}$"):
                dispatch.chosen(x, "persistent", **params)
            return
        assert dispatch.chosen(x, "persistent", **params) == "persistent"
        plan = dispatch.layers(
            x, Layout.new((10**7,), x.dtype, 0), None, None, version="persistent", **params
        )
    last = plan.steps[-1]
    assert last.cooperative and math.prod(last.grid) == 128


def test_descriptors_are_destroyed_with_what_uses_them(gpu):
    x, w = cm.ones((5, 3, 4), dtype="float32"), ours(weights("lstm", 4, 3))
    cm.ml.lstm(x, {k: v.astype("float32") for k, v in w.items()})
    assert gpu.live
    cudnn_recurrent.recurrent.cache_clear()
    for table in (recurrent._layers.plans, recurrent._layers_grad.plans):
        table.clear()
    gc.collect()
    assert gpu.live == {}


def test_threads_use_a_handle_one_after_another(gpu):
    """Threads share a stream, and so its handle, which the library forbids to two of them at the
    same time. Calls of it hold no lock of Python's."""
    kind, _, x, w, h, c = problem("lstm")
    given = cm.array(x), ours(w), cm.array(h), cm.array(c)
    slope = lambda: cm.grad(lambda x: called(kind, x, *given[1:])[0].sum())(given[0])  # noqa: E731
    expected = numbers(slope())

    def work(_):
        with cm.device("cuda"):
            return [numbers(slope()) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        for found in itertools.chain(*pool.map(work, range(4))):
            np.testing.assert_array_equal(found, expected)


# -------------------- on a GPU

#: Largest error of values and of gradients, of the largest element.
ERRORS = {"float64": 1e-12, "float32": 2e-5, "float16": 1e-2, "bfloat16": 6e-2}
SEVERAL = {
    "rnn": ("rnn", {}),
    "lstm": ("lstm", {}),
    "gru": ("gru", {}),
    "lstm, two layers, both directions": ("lstm", {"layers": 2, "directions": 2}),
    "gru, two layers, no bias": ("gru", {"layers": 2, "bias": False}),
    "lstm, projection": ("lstm", {"out": 64, "layers": 2, "directions": 2}),
}


def of_size(case, steps=24, batch=8, features=64, units=128):
    """(kind, x, weights, state or its parts) in float64, whose states stay of the order of 1."""
    kind, options = SEVERAL[case]
    rng = np.random.default_rng(11)
    ends = options.get("layers", 1) * options.get("directions", 1)
    w = {k: v / np.sqrt(units) for k, v in weights(kind, features, units, **options).items()}
    h = rng.normal(size=(ends, batch, options.get("out", units))) / 4
    c = rng.normal(size=(ends, batch, units)) / 4
    return kind, rng.normal(size=(steps, batch, features)), w, (h, c) if kind == "lstm" else h


@pytest.mark.gpu
@pytest.mark.parametrize("lengths", [None, [24, 7, 1, 13, 24, 2, 20, 9]], ids=["all", "lengths"])
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("case", SEVERAL)
@pytest.mark.parametrize("name", [*cudnn_recurrent.ALGORITHMS, "persistent", "steps"])
def test_versions_on_a_gpu(name, case, dtype, lengths):
    """By name, beside float64 on the CPU, of the same rounded operands; twice the same bits; in a
    graph, too."""
    if "cudnn" in name and not cudnn_recurrent.available():
        pytest.skip("cuDNN or its front end is missing")
    check(name, dtype, lengths, *of_size(case))


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(5, 40, 12, 136), (3, 1, 8, 8), (2, 64, 8, 512)], ids=str)
@pytest.mark.parametrize("case", ["rnn", "lstm", "gru"])
def test_blocks_that_meet_in_each_step(case, sizes):
    """One kernel for all steps: parts of blocks, several groups of sequences, all of a device."""
    check("persistent", "float32", None, *of_size(case, *sizes))


def check(name, dtype, lengths, kind, x, w, state):
    def value(x, w, state):
        y, ends = getattr(cm.ml, kind)(x, w, state, lengths=lengths)
        ends = ends if kind == "lstm" else (ends,)
        return y, ends, sum([(a * a).sum() for a in (y, *ends)])

    def slopes(x, w, state):
        y, ends, _ = value(x, w, state)
        return y, ends, cm.grad(lambda *a: value(*a)[2], (0, 1, 2))(x, w, state)

    given = cm.tree.map(lambda a: cm.array(a).astype(dtype), (x, w, state))
    with recurrent.by_version(name):
        try:
            found = [slopes(*given), slopes(*given)]
            jitted = cm.jit(slopes)
            found += [jitted(*given) for _ in range(3)]
        except (ValueError, cudnn_recurrent.NotSupportedError) as problem:
            if name in ("cudnn", "steps"):
                raise
            pytest.skip(str(problem)[:80])
    with cm.device("cpu"), recurrent.by_version("steps"):
        wide = cm.tree.map(lambda a: cm.array(a.astype("float64").to_numpy()), given)
        truth = slopes(*wide)
    for out in found:
        for a, b in zip(cm.tree.leaves(out), cm.tree.leaves(truth), strict=True):
            error = np.abs(numbers(a.astype("float64")) - numbers(b)).max()
            assert error <= ERRORS[dtype] * np.abs(numbers(b)).max(), (a.shape, error)
    # the same bits again; `jit` sees the steps as one loop, whose gradients of weights are one
    # product, and from its second call on they are fused: both round otherwise
    pairs = [(0, 1), (3, 4), *([(0, 2), (2, 3)] if name != "steps" else [])]
    for one, other in pairs:
        leaves = (cm.tree.leaves(found[one]), cm.tree.leaves(found[other]))
        for a, b in zip(*leaves, strict=True):
            np.testing.assert_array_equal(a.view("uint8").to_numpy(), b.view("uint8").to_numpy())


@pytest.mark.gpu
def test_cudnn_is_the_default_on_this_gpu():
    if not cudnn_recurrent.available():
        pytest.skip("cuDNN or its front end is missing")
    kind, x, w, state = of_size("lstm")
    given = cm.tree.map(lambda a: cm.array(a).astype("float32"), (x, w, state))
    assert "cudnn" in str(cm.explain(cm.ml.lstm, *given))
