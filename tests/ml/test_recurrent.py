"""`ml.rnn`, `ml.lstm`, `ml.gru` against loops over single sequences in NumPy, in float64, written
from the formulas of PyTorch's documentation; gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest
from recurrent_reference import (
    BATCH,
    CASES,
    FEATURES,
    GATES,
    STEPS,
    UNITS,
    problem,
    reference,
    weights,
)

import cudamath as cm

MODES = {"eager": lambda f: f, "jit": cm.jit}


@pytest.fixture(autouse=True)
def cpu():
    with cm.device("cpu"):
        yield


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


def called(kind, x, w, h, c, **named):
    """(y, h, c) of the function; c of an lstm only."""
    y, state = getattr(cm.ml, kind)(x, w, (h, c) if kind == "lstm" else h, **named)
    return (y, *state) if kind == "lstm" else (y, state)


def ours(tree):
    return {k: cm.array(v) for k, v in tree.items()}


@pytest.mark.parametrize("lengths", [None, [5, 2, 3], [1, 5, 4]], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_values(mode, case, lengths):
    kind, options, x, w, h, c = problem(case)
    truth = reference(
        kind, x, w, h, c, lengths or [STEPS] * BATCH, options.get("layers", 1),
        options.get("directions", 1),
    )  # fmt: skip
    f = mode(lambda x, w, h, c, n: called(kind, x, w, h, c, lengths=n))
    n = None if lengths is None else cm.array(lengths)
    for _ in range(2):
        out = f(cm.array(x), ours(w), cm.array(h), cm.array(c), n)
        for a, b in zip(out, truth, strict=False):
            np.testing.assert_allclose(np.asarray(a), b, 1e-12, 1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if "no bias" not in case])
def test_gradients(mode, case):
    kind, options, x, w, h, c = problem(case)
    lengths, rng = [4, 5, 2], np.random.default_rng(3)
    sizes = options.get("layers", 1), options.get("directions", 1)
    truth = reference(kind, x, w, h, c, lengths, *sizes)
    factors = [rng.normal(size=a.shape) for a in truth]
    used = 3 if kind == "lstm" else 2

    def number(x, w, h, c):
        out = reference(kind, x, w, h, c, lengths, *sizes)
        return sum([(a * b).sum() for a, b in zip(out[:used], factors, strict=False)])

    def loss(x, w, h, c):
        out = called(kind, x, w, h, c, lengths=cm.array(lengths))
        return sum([(a * cm.array(b)).sum() for a, b in zip(out, factors, strict=False)])

    f = mode(lambda x, w, h, c: cm.grad(loss, (0, 1, 2, 3))(x, w, h, c))
    for _ in range(2):
        dx, dw, dh, dc = f(cm.array(x), ours(w), cm.array(h), cm.array(c))
    pairs = [(x, dx), (h, dh), *[(w[k], dw[k]) for k in w]]
    if kind == "lstm":
        pairs.append((c, dc))
    for values, slope in pairs:
        # along random directions, of which none can miss a wrong element
        for _ in range(3):
            direction, before = rng.normal(size=values.shape), values.copy()
            values += 1e-6 * direction
            high = number(x, w, h, c)
            values[...] = before - 1e-6 * direction
            low = number(x, w, h, c)
            values[...] = before
            np.testing.assert_allclose(
                (np.asarray(slope) * direction).sum(), (high - low) / 2e-6, 1e-6, 1e-6
            )


@pytest.mark.parametrize("kind", GATES)
def test_second_derivatives_in_a_program_are_those_outside(kind):
    w = ours(weights(kind, 2, 2))
    x = cm.array(np.random.default_rng(0).normal(size=(3, 2, 2)))

    def steepness(w, x):
        g = cm.grad(lambda w: (getattr(cm.ml, kind)(x, w)[0] ** 2).sum())(w)
        return sum([(a * a).sum() for a in g.values()])

    f = lambda w, x: cm.grad(steepness)(w, x)  # noqa: E731
    plain, jitted = f(w, x), cm.jit(f)
    rng = np.random.default_rng(1)
    for _ in range(2):
        program = jitted(w, x)
    for key, values in w.items():
        np.testing.assert_allclose(np.asarray(program[key]), np.asarray(plain[key]), 1e-9, 1e-9)
        direction = rng.normal(size=values.shape)
        high, low = (
            float(steepness({**w, key: values + sign * 1e-5 * cm.array(direction)}, x))
            for sign in (1, -1)
        )
        np.testing.assert_allclose(
            (np.asarray(plain[key]) * direction).sum(), (high - low) / 2e-5, 1e-5, 1e-5
        )


def test_relu_and_other_shapes_of_x():
    w = weights("rnn", FEATURES, UNITS, directions=2)
    x = np.random.default_rng(0).normal(size=(STEPS, BATCH, FEATURES))
    h = np.zeros((2, BATCH, UNITS))
    y, last, _ = reference("rnn", x, w, h, h, [STEPS] * BATCH, 1, 2, relu=True)
    a, b = cm.ml.rnn(cm.array(x), ours(w), nonlinearity="relu")
    np.testing.assert_allclose(a, y, 1e-12)
    np.testing.assert_allclose(b, last, 1e-12)
    a, b = cm.ml.rnn(cm.array(x.swapaxes(0, 1)), ours(w), nonlinearity="relu", batch_first=True)
    np.testing.assert_allclose(a, y.swapaxes(0, 1), 1e-12)
    np.testing.assert_allclose(b, last, 1e-12)
    for state in (None, cm.zeros((2, UNITS))):
        a, b = cm.ml.rnn(cm.array(x[:, 1]), ours(w), state, nonlinearity="relu")
        np.testing.assert_allclose(a, y[:, 1], 1e-12)
        np.testing.assert_allclose(b, last[:, 1], 1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kind", GATES)
def test_dtypes(kind, dtype):
    w = {k: cm.array(v).astype(dtype) for k, v in weights(kind, FEATURES, UNITS).items()}
    x = cm.array(np.random.default_rng(0).normal(size=(STEPS, BATCH, FEATURES))).astype(dtype)
    y, _ = getattr(cm.ml, kind)(x, w)
    assert y.dtype == x.dtype
    wide = {k: np.asarray(v.astype("float64")) for k, v in w.items()}
    h = np.zeros((1, BATCH, UNITS))
    truth = reference(kind, np.asarray(x.astype("float64")), wide, h, h, [STEPS] * BATCH, 1, 1)[0]
    eps = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7}[dtype]
    np.testing.assert_allclose(np.asarray(y.astype("float64")), truth, 0, 16 * eps)


def test_operands_of_several_dtypes_are_promoted():
    w = {k: cm.array(v).astype("float32") for k, v in weights("lstm", 4, 3).items()}
    y, (h, c) = cm.ml.lstm(cm.ones((5, 2, 4), dtype="float16"), w)
    assert y.dtype == h.dtype == c.dtype == np.float32


BAD = {
    "weights as a dict": (TypeError, lambda x, w: cm.ml.lstm(x, [w])),
    r"lstm: wants weight_hh_l0 as a matrix, got nothing": (
        ValueError,
        lambda x, w: cm.ml.lstm(x, {"weight_ih_l0": w["weight_ih_l0"]}),
    ),
    r"lstm: unknown weights \['bias_l0'\]": (
        ValueError,
        lambda x, w: cm.ml.lstm(x, {**w, "bias_l0": w["bias_ih_l0"]}),
    ),
    r"lstm: wants weight_ih_l0 of shape \(12, 5\), got \(12, 4\)": (
        ValueError,
        lambda x, w: cm.ml.lstm(cm.ones((2, 2, 5)), w),
    ),
    r"gru: wants weight_ih_l0 of shape \(9, 4\), got \(12, 4\)": (
        ValueError,
        lambda x, w: cm.ml.gru(x, w),
    ),
    r"gru: only lstm has a projection": (
        ValueError,
        lambda x, w: cm.ml.gru(x, {**w, "weight_hr_l0": cm.ones((2, 3))}),
    ),
    r"lstm: wants bias_ih_l0 and bias_hh_l0, or neither": (
        ValueError,
        lambda x, w: cm.ml.lstm(x, {k: v for k, v in w.items() if k != "bias_hh_l0"}),
    ),
    r"lstm: wants the state as a pair": (ValueError, lambda x, w: cm.ml.lstm(x, w, cm.ones(3))),
    r"lstm: wants a state of shape \(1, 2, 3\).*, got \(2, 3\)": (
        ValueError,
        lambda x, w: cm.ml.lstm(x, w, (cm.ones((2, 3)), cm.ones((2, 3)))),
    ),
    r"lstm: wants lengths of shape \(2,\), got \(3,\)": (
        ValueError,
        lambda x, w: cm.ml.lstm(x, w, lengths=[1, 2, 3]),
    ),
    r"lstm: wants .*integer.* lengths, got float64": (
        TypeError,
        lambda x, w: cm.ml.lstm(x, w, lengths=[1.0, 2.0]),
    ),
    r"lstm: wants x of shape": (ValueError, lambda x, w: cm.ml.lstm(cm.ones(4), w)),
    r"lstm: wants .*floating.*, got int64": (
        TypeError,
        lambda x, w: cm.ml.lstm(cm.ones((2, 2, 4), dtype="int64"), w),
    ),
    r"rnn: wants nonlinearity 'tanh' or 'relu', got 'gelu'": (
        ValueError,
        lambda x, w: cm.ml.rnn(x, w, nonlinearity="gelu"),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_errors(message):
    kind, call = BAD[message]
    with pytest.raises(kind, match=message):
        call(cm.ones((5, 2, 4)), ours(weights("lstm", 4, 3)))


def test_a_program_has_one_node_for_all_steps():
    w = ours(weights("lstm", FEATURES, UNITS, layers=2))

    def f(x, w):
        return cm.value_and_grad(lambda w: cm.ml.lstm(x, w)[0].sum())(w)

    jitted = cm.jit(f)
    jitted(cm.ones((40, BATCH, FEATURES)), w)
    (program,) = jitted.programs()
    assert [node.name for node in program.nodes].count("scan") == 4
    assert len(program.nodes) < 60
