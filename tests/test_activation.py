"""Activations and linear: values, extremes, NaN, gradients of first and second order, errors."""

import math

import numpy as np
import pytest
from differences import DTYPES, TOLERANCE, check_gradient, check_second_order, numbers, wide

import cudamath as cm
from cudamath.testing import assert_close

erf = np.vectorize(math.erf, otypes=[float])
erfc = np.vectorize(math.erfc, otypes=[float])


def stable_softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


REFERENCES = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "sigmoid": lambda x: np.exp(-stable_softplus(-x)),
    "tanh": np.tanh,
    "gelu": lambda x: x * erfc(-x / math.sqrt(2)) / 2,
    # (1 + tanh u) / 2 = sigmoid(2 u): the form with tanh loses the digits of its tail
    "gelu_tanh": lambda x: x * np.exp(-stable_softplus(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * np.exp(-stable_softplus(-x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": stable_softplus,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize("shape", [(3, 700), (5, 3), (), (0,), (1,)])
def test_values(device, kind, shape, dtype):
    x = numbers(shape, dtype, scale=3)
    y = cm.ml.activation(cm.asarray(x), kind)
    assert y.shape == shape and y.dtype == x.dtype
    assert_close(y, REFERENCES[kind](wide(x)), rtol=TOLERANCE[dtype] * 2, atol=TOLERANCE[dtype] / 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", REFERENCES)
def test_extremes(device, kind, dtype):
    x = np.array([1e4, 80.0, 20.0, 0.0, -0.0, -5.0, -20.0, -80.0, -1e4, np.inf, np.nan], dtype)
    y = cm.ml.activation(cm.asarray(x), kind).to_numpy()
    with np.errstate(all="ignore"):
        expected = REFERENCES[kind](x.astype(float))
    assert np.isnan(y[-1])
    assert_close(y, expected, rtol=2e-6 if dtype == "float32" else 1e-12, atol=1e-37 if kind != "gelu_tanh" else 1e-15)
    gradient = cm.grad(lambda a: cm.ml.activation(a, kind).sum())(cm.asarray(x[:-2])).to_numpy()
    assert np.isfinite(gradient).all()
    assert_close(gradient[[0, 1]], [1, 1] if kind not in ("sigmoid", "tanh") else [0, 0], rtol=1e-12, atol=1e-30)


@pytest.mark.parametrize("kind", REFERENCES)
def test_gradients(device, kind):
    x = numbers((4, 5), scale=2)
    check_gradient(lambda a: cm.ml.activation(a, kind), REFERENCES[kind], x)
    check_second_order(lambda a: cm.ml.activation(a, kind), x)


@pytest.mark.parametrize("kind", REFERENCES)
def test_strided(device, kind):
    x = numbers((6, 4))
    assert_close(cm.ml.activation(cm.asarray(x).T[::2], kind), REFERENCES[kind](x.T[::2]), rtol=1e-12, atol=1e-15)


def test_parameters(device):
    x = numbers((3, 4))
    assert_close(cm.ml.leaky_relu(x, 0.3), np.where(x > 0, x, 0.3 * x), rtol=1e-14)
    assert_close(cm.ml.elu(x, 0.7), np.where(x > 0, x, 0.7 * np.expm1(x)), rtol=1e-13)
    assert_close(cm.ml.softplus(x, 3.0), np.log1p(np.exp(3 * x)) / 3, rtol=1e-13)
    assert cm.ml.leaky_relu(x.astype(np.float32), 0.3).dtype == np.float32
    slopes = np.abs(numbers((4,), seed=5))
    check_gradient(cm.ml.leaky_relu, lambda a, s: np.where(a > 0, a, s * a), x, slopes)
    check_second_order(cm.ml.leaky_relu, x, slopes)
    check_gradient(lambda a: cm.ml.elu(a, 0.7), lambda a: np.where(a > 0, a, 0.7 * np.expm1(a)), x)
    check_gradient(lambda a: cm.ml.softplus(a, 3.0), lambda a: np.log1p(np.exp(3 * a)) / 3, x)
    check_gradient(cm.ml.elu, lambda a, s: np.where(a > 0, a, s * np.expm1(np.minimum(a, 0))), x, slopes)


def test_gelu_keeps_digits_of_the_tail(device):
    x = np.array([-3.0, -4.0, -5.0, -6.0], np.float32)
    assert_close(cm.ml.gelu(cm.asarray(x)), [v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()], rtol=2e-5)


def test_relu_of_integers(device):
    assert cm.ml.relu(cm.asarray([-2, 3])).tolist() == [0, 3]


def test_errors(device):
    with pytest.raises(ValueError, match="activation: kind .*'swoosh'"):
        cm.ml.activation(cm.zeros(2), "swoosh")
    with pytest.raises(ValueError, match="gelu: approximate .*'erf'"):
        cm.ml.gelu(cm.zeros(2), "erf")
    with pytest.raises(ValueError, match="softplus: beta"):
        cm.ml.softplus(cm.zeros(2), 0)
    for name in ("sigmoid", "silu", "gelu", "elu", "leaky_relu", "softplus"):
        with pytest.raises(TypeError, match=f"{name}: .*int64"):
            getattr(cm.ml, name)(cm.asarray([1, 2]))


def test_agrees_with_torch(device):
    torch = pytest.importorskip("torch")
    x = numbers((200,), scale=3)
    f = torch.nn.functional
    for ours, theirs in [(cm.ml.gelu, f.gelu), (lambda a: cm.ml.gelu(a, "tanh"), lambda a: f.gelu(a, approximate="tanh")),
                         (cm.ml.silu, f.silu), (cm.ml.elu, f.elu), (cm.ml.leaky_relu, f.leaky_relu)]:
        assert_close(ours(cm.asarray(x)), theirs(torch.tensor(x)).numpy(), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7), (7,), (0, 7)])
def test_linear(device, shape, dtype):
    x, w, b = numbers(shape, dtype), numbers((4, 7), dtype, 1), numbers((4,), dtype, 2)
    assert_close(cm.ml.linear(x, w), wide(x) @ wide(w).T, rtol=TOLERANCE[dtype] * 2, atol=TOLERANCE[dtype] * 3)
    y = cm.ml.linear(x, w, b)
    assert y.dtype == x.dtype and y.shape == (*shape[:-1], 4)
    assert_close(y, wide(x) @ wide(w).T + wide(b), rtol=TOLERANCE[dtype] * 2, atol=TOLERANCE[dtype] * 3)


def test_linear_gradients(device):
    arrays = numbers((2, 3, 7)), numbers((4, 7), seed=1), numbers((4,), seed=2)
    check_gradient(cm.ml.linear, lambda x, w, b: x @ w.T + b, *arrays)
    check_second_order(cm.ml.linear, *arrays)


def test_linear_errors(device):
    for x, w, b in [((3, 4), (2, 5), None), ((3, 4), (2, 4), (3,)), ((), (2, 4), None), ((3, 4), (4,), None)]:
        with pytest.raises(ValueError, match="linear: "):
            cm.ml.linear(cm.zeros(x), cm.zeros(w), None if b is None else cm.zeros(b))
    with pytest.raises(TypeError, match="linear: .*int64"):
        cm.ml.linear(cm.zeros((3, 4)), cm.zeros((2, 4), "int64"))
