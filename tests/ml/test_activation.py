"""Activations and linear: values, extremes, NaN, gradients of first and second order, errors."""

import math

import numpy as np
import pytest
from gradient_checks import DTYPES, TOLERANCE, check_gradient, check_second_order, numbers, wide

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
    "gelu_tanh": lambda x: (
        x * np.exp(-stable_softplus(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x * np.exp(-stable_softplus(-x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": stable_softplus,
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "mish": lambda x: x * np.tanh(stable_softplus(x)),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "log_sigmoid": lambda x: -stable_softplus(-x),
    "softsign": lambda x: x / (1 + np.abs(x)),
}
FLAT = ("sigmoid", "tanh", "relu6", "hardtanh", "hardsigmoid", "log_sigmoid", "softsign")  # far out
SMOOTHNESS = {
    "hardtanh": 1.0,
    "relu6": 6.0,
    "hardsigmoid": 3.0,
    "hardswish": 3.0,
}  # not differentiable at +- this and 0


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
    assert_close(
        y,
        expected,
        rtol=2e-6 if dtype == "float32" else 1e-12,
        atol=1e-37 if kind != "gelu_tanh" else 1e-15,
    )
    gradient = cm.grad(lambda a: cm.ml.activation(a, kind).sum())(cm.asarray(x[:-2])).to_numpy()
    assert np.isfinite(gradient).all()
    slope = 0 if kind in FLAT else 1.0507009873554805 if kind == "selu" else 1
    assert_close(
        gradient[[0, 1]], [slope] * 2, rtol=1e-7, atol=2e-4 if kind == "softsign" else 1e-30
    )


@pytest.mark.parametrize("kind", REFERENCES)
def test_gradients(device, kind):
    x = numbers((4, 5), scale=2)
    x = x[np.abs(np.abs(x) - SMOOTHNESS.get(kind, 0)) > 1e-3]
    check_gradient(lambda a: cm.ml.activation(a, kind), REFERENCES[kind], x)
    check_second_order(lambda a: cm.ml.activation(a, kind), x)


#: Where a function has two slopes, PyTorch takes that of the side named here (its derivatives.yaml
#: and Activation.cpp): -1 from below, 1 from above.
KINKS = {
    "relu": {0: -1},
    "leaky_relu": {0: -1},
    "elu": {0: -1},
    "celu": {0: -1},
    "selu": {0: -1},
    "relu6": {0: -1, 6: 1},
    "hardtanh": {-1: -1, 1: 1},
    "hardsigmoid": {-3: -1, 3: 1},
    "hardswish": {-3: -1, 3: 1},
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINKS)
def test_slopes_at_kinks(device, kind, dtype):
    x, sides = np.array([*KINKS[kind]], float), np.array([*KINKS[kind].values()])
    step = 1e-6 * sides
    one_sided = (REFERENCES[kind](x + step) - REFERENCES[kind](x)) / step
    got = cm.grad(lambda a: cm.ml.activation(a, kind).sum())(cm.asarray(x.astype(dtype)))
    assert_close(got, one_sided, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("kind", REFERENCES)
def test_strided(device, kind):
    x = numbers((6, 4))
    assert_close(
        cm.ml.activation(cm.asarray(x).T[::2], kind),
        REFERENCES[kind](x.T[::2]),
        rtol=1e-12,
        atol=1e-15,
    )


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
    check_gradient(
        cm.ml.elu, lambda a, s: np.where(a > 0, a, s * np.expm1(np.minimum(a, 0))), x, slopes
    )


def test_gelu_keeps_digits_of_the_tail(device):
    x = np.array([-3.0, -4.0, -5.0, -6.0], np.float32)
    assert_close(
        cm.ml.gelu(cm.asarray(x)),
        [v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()],
        rtol=2e-5,
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_gelu_of_infinities(device, dtype):
    y, pull = cm.vjp(cm.ml.gelu, cm.asarray(np.array([-np.inf, np.inf], dtype)))
    assert y.tolist() == [0, math.inf] and pull(cm.ones_like(y))[0].tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_slopes_of_huge_numbers(device, dtype):
    """x^2 overflows from 2e19 on: the slopes are 0 and 1 all the same, and those of slopes 0.
    (PyTorch has NaN there.)"""
    x = cm.asarray(np.array([1e9, 1e20, 3e38, np.inf, -1e9, -1e20, -3e38, -np.inf])).astype(dtype)
    for f in (lambda x: cm.ml.gelu(x, "tanh"), cm.ml.gelu):
        slope = cm.grad(lambda x, f=f: f(x).sum())
        assert slope(x).tolist() == [1] * 4 + [0] * 4
        assert not cm.grad(lambda x, slope=slope: slope(x).sum())(x).any()
    held = cm.ml.mlp(
        x[:, None], *[cm.ones((1, 1), dtype), None] * 2, activation="gelu_tanh"
    ).flatten()
    assert held.tolist()[:3] == x.tolist()[:3]
    given = cm.grad(
        lambda x: cm.ml.mlp(x, *[cm.ones((1, 1), dtype), None] * 2, activation="gelu_tanh").sum()
    )(x[:, None])
    assert given.flatten().tolist() == [1] * 4 + [0] * 4
    assert cm.isnan(
        cm.grad(lambda x: cm.ml.gelu(x, "tanh").sum())(cm.asarray([math.nan], dtype=dtype))
    ).all()


def test_relu_of_integers(device):
    assert cm.ml.relu(cm.asarray([-2, 3])).tolist() == [0, 3]


def test_errors(device):
    with pytest.raises(ValueError, match="activation: kind .*'swoosh'"):
        cm.ml.activation(cm.zeros(2), "swoosh")
    with pytest.raises(ValueError, match="gelu: approximate .*'erf'"):
        cm.ml.gelu(cm.zeros(2), "erf")
    with pytest.raises(ValueError, match="softplus: .*beta"):
        cm.ml.softplus(cm.zeros(2), 0)
    for name in ("sigmoid", "silu", "gelu", "elu", "leaky_relu", "softplus"):
        with pytest.raises(TypeError, match=f"{name}: .*int64"):
            getattr(cm.ml, name)(cm.asarray([1, 2]))


#: Ours, PyTorch's; arrays beside x
TORCH = {
    "relu": (cm.ml.relu, "relu"),
    "relu6": (cm.ml.relu6, "relu6"),
    "gelu": (cm.ml.gelu, "gelu"),
    "silu": (cm.ml.silu, "silu"),
    "elu": (cm.ml.elu, "elu"),
    "selu": (cm.ml.selu, "selu"),
    "leaky_relu": (cm.ml.leaky_relu, "leaky_relu"),
    "mish": (cm.ml.mish, "mish"),
    "hardswish": (cm.ml.hardswish, "hardswish"),
    "hardtanh": (cm.ml.hardtanh, "hardtanh"),
    "hardsigmoid": (cm.ml.hardsigmoid, "hardsigmoid"),
    "log_sigmoid": (cm.ml.log_sigmoid, "logsigmoid"),
    "softsign": (cm.ml.softsign, "softsign"),
    "softplus": (cm.ml.softplus, "softplus"),
    "glu": (cm.ml.glu, "glu"),
    "celu": (cm.ml.celu, "celu"),
    "prelu": (cm.ml.prelu, "prelu"),
}
OPTIONS = [
    ("gelu", {"approximate": "tanh"}),
    ("elu", {"alpha": 0.3}),
    ("celu", {"alpha": 0.3}),
    ("softplus", {"beta": 3.0}),
    ("leaky_relu", {"negative_slope": 0.3}),
    *[(name, {}) for name in TORCH],
]


@pytest.mark.parametrize("name, options", OPTIONS, ids=str)
def test_agrees_with_torch(device, name, options):
    """Values and gradients, at the corners too, and gradients of gradients, which PyTorch has not
    everywhere."""
    torch = pytest.importorskip("torch")
    ours, theirs = TORCH[name][0], getattr(torch.nn.functional, TORCH[name][1])
    rtol = (
        1e-6 if name in ("celu", "hardsigmoid") else 1e-9
    )  # PyTorch rounds their constants to float32
    bend = (
        2.0 if name == "hardswish" else 3.0
    )  # PyTorch's slope of hardswish at 3 depends on its version
    corners = [[0.0, 1.0, -1.0, 6.0], [bend, -bend, 0.5, -0.0]]
    for order, x in (
        (1, np.concatenate([numbers((40, 4), scale=3), corners])),
        (2, numbers((40, 4), scale=3)),
    ):
        arrays = [x, np.array([0.25, 0.5, 0.1, -0.2])] if name == "prelu" else [x]
        which = tuple(range(len(arrays)))
        there = [torch.tensor(a, requires_grad=True) for a in arrays]
        expected = theirs(*there, **options)
        weights = numbers(tuple(expected.shape), seed=1)
        first = torch.autograd.grad(
            (expected * torch.tensor(weights)).sum(), there, create_graph=True
        )
        pull = cm.grad(lambda *a: (ours(*a, **options) * weights).sum(), which)  # noqa: B023
        if order == 1:
            assert_close(
                ours(*map(cm.asarray, arrays), **options),
                expected.detach().numpy(),
                rtol=rtol,
                atol=1e-15,
            )
            for a, b in zip(pull(*arrays), first, strict=True):
                assert_close(a, b.detach().numpy(), rtol=rtol, atol=1e-14)
        elif first[0].requires_grad and name not in ("hardswish", "hardsigmoid"):
            second = torch.autograd.grad(sum((g * g).sum() for g in first), there)
            found = cm.grad(lambda *a: sum((g * g).sum() for g in pull(*a)), which)(*arrays)  # noqa: B023
            for a, b in zip(found, second, strict=True):
                assert_close(a, b.numpy(), rtol=rtol * 10, atol=1e-13)


def test_prelu_and_glu(device):
    x = numbers((2, 3, 4))
    for weight in (0.3, np.array([0.3]), np.array([0.1, -0.2, 0.3])):
        slope = np.reshape(weight, (-1, 1)) if np.size(weight) > 1 else weight
        expected = np.where(x > 0, x, x * slope)
        assert_close(cm.ml.prelu(x, weight), expected, rtol=1e-14)
        check_gradient(
            cm.ml.prelu,
            lambda a, w: np.where(a > 0, a, a * (w.reshape(-1, 1) if w.size > 1 else w)),
            x,
            np.asarray(weight),
        )
    assert_close(
        cm.ml.prelu(x[0, :, 0], np.array([0.1, 0.2, 0.3])),
        np.where(x[0, :, 0] > 0, 1, [0.1, 0.2, 0.3]) * x[0, :, 0],
        rtol=1e-14,
    )
    for axis in (0, 2, -1):
        halves = np.split(x, 2, axis)
        assert_close(cm.ml.glu(x, axis), halves[0] / (1 + np.exp(-halves[1])), rtol=1e-14)
        check_second_order(lambda a, axis=axis: cm.ml.glu(a, axis), x)
    for call, error, message in [
        (lambda: cm.ml.glu(x, 1), ValueError, r"glu: .*even.*axis 1.*\(2, 3, 4\)"),
        (lambda: cm.ml.glu(x, 3), ValueError, "glu: axis 3"),
        (lambda: cm.ml.prelu(x, np.ones(4)), ValueError, r"prelu: .*\(3,\).*\(2, 3, 4\).*\(4,\)"),
        (lambda: cm.ml.hardtanh(x, 1, 1), ValueError, "hardtanh: .*1 and 1"),
        (
            lambda: cm.ml.hardtanh(x, None, 1),
            TypeError,
            "hardtanh: wants low < high, got None and 1",
        ),
        (lambda: cm.ml.celu(x, "1"), TypeError, "celu: wants 0 < alpha"),
        (lambda: cm.ml.celu(x, 0), ValueError, "celu: .*alpha, got 0 and 0"),
        (lambda: cm.ml.mish(cm.asarray([1])), TypeError, "mish: .*int64"),
    ]:
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7), (7,), (0, 7)])
def test_linear(device, shape, dtype):
    x, w, b = numbers(shape, dtype), numbers((4, 7), dtype, 1), numbers((4,), dtype, 2)
    assert_close(
        cm.ml.linear(x, w),
        wide(x) @ wide(w).T,
        rtol=TOLERANCE[dtype] * 2,
        atol=TOLERANCE[dtype] * 3,
    )
    y = cm.ml.linear(x, w, b)
    assert y.dtype == x.dtype and y.shape == (*shape[:-1], 4)
    assert_close(
        y, wide(x) @ wide(w).T + wide(b), rtol=TOLERANCE[dtype] * 2, atol=TOLERANCE[dtype] * 3
    )


@pytest.mark.parametrize(
    "kind", ["gelu", "gelu_tanh", "silu", "mish", "softplus", "sigmoid", "tanh"]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_second_derivatives_far_from_zero(device, kind, dtype):
    """NaN in float16, from 17 on of gelu's tanh form, from 33,000 on of mish: parts of a product
    beyond the dtype times 0."""
    places = [-60000.0, -300.0, -17.0, -3.0, 0.5, 4.0, 17.0, 100.0, 40000.0]
    places += [] if dtype == "float16" else [-3e38, 3e38]

    def second(x):
        return cm.grad(lambda x: cm.grad(lambda x: cm.ml.activation(x, kind).sum())(x).sum())(x)

    x = cm.asarray(places).astype(dtype)
    assert_close(
        second(x),
        second(x.astype("float64")).to_numpy(),
        rtol=0,
        atol=TOLERANCE[dtype] * 4,
        what=kind,
    )


def test_linear_gradients(device):
    arrays = numbers((2, 3, 7)), numbers((4, 7), seed=1), numbers((4,), seed=2)
    check_gradient(cm.ml.linear, lambda x, w, b: x @ w.T + b, *arrays)
    check_second_order(cm.ml.linear, *arrays)


def test_linear_errors(device):
    for x, w, b in [
        ((3, 4), (2, 5), None),
        ((3, 4), (2, 4), (3,)),
        ((), (2, 4), None),
        ((3, 4), (4,), None),
    ]:
        with pytest.raises(ValueError, match="linear: "):
            cm.ml.linear(cm.zeros(x), cm.zeros(w), None if b is None else cm.zeros(b))
    with pytest.raises(TypeError, match="linear: .*int64"):
        cm.ml.linear(cm.zeros((3, 4)), cm.zeros((2, 4), "int64"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 70_000])
def test_relu_of_any_size_on_the_cpu(size, dtype):
    x = (np.random.default_rng(size).standard_normal(size) * 10).astype(dtype)
    if dtype != "i4":
        x[3:6] = np.array([np.nan, np.inf, -np.inf], dtype)[: x[3:6].size]
    for each in (x, x[::-1], x.reshape(1, -1), np.stack([x, x]).T):
        for _ in range(2):
            y = cm.ml.relu(cm.asarray(each, device="cpu"))
            assert y.dtype == each.dtype and y.shape == each.shape
            np.testing.assert_array_equal(y.to_numpy(), np.maximum(each, np.zeros_like(each)))
