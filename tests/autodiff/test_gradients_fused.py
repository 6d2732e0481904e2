"""Gradients that are one kernel of their own: of clip, maximum, minimum, where, square, var, std,
norms and vecdot, against formulas in float64; where numbers are equal, NaN, zero; and what they
cost: launches, on the fake driver."""

from __future__ import annotations

import numpy as np
import pytest
from fake_driver import FakeDriver, gpu
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.ops import elementwise

NAN, INF = float("nan"), float("inf")
DTYPES = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 2e-2}


def numbers(*shape, seed=0):
    """Among them those that are equal to others' and to bounds, zeros, infinities and NaN."""
    x = np.random.default_rng(seed).integers(-4, 5, shape) / 4
    x.flat[:4] = -0.0, INF, -INF, NAN
    return x


def weights(*shape):
    return np.random.default_rng(7).integers(1, 9, shape) / 8


def weighed(function, w, *arrays, which=(0,), dtype="float64"):
    """Gradients of the sum of what a function returns, times numbers w."""
    given = [cm.asarray(a.astype(dtype) if a.dtype.kind == "f" else a) for a in arrays]
    w = cm.asarray(w.astype(dtype))
    return cm.grad(
        lambda *xs: (
            function(*[xs[which.index(i)] if i in which else a for i, a in enumerate(given)]) * w
        ).sum(),
        tuple(range(len(which))),
    )(*[given[i] for i in which])


def check(found, wanted, dtype="float64"):
    for one, each in zip(found, wanted, strict=True):
        assert one.dtype == np.dtype(getattr(cm, dtype)) and one.shape == each.shape
        one = one.astype("float64").to_numpy()
        np.testing.assert_allclose(one, each, rtol=DTYPES[dtype], atol=DTYPES[dtype])


def share(x, y):
    """The part of a maximum's gradient that goes to x."""
    return np.where(x > y, 1.0, np.where(x == y, 0.5, 0.0))


def check_clip(dtype):
    x, w = numbers(4, 7), weights(4, 7)
    low, high = np.full(7, -0.5), np.linspace(-0.5, 1, 7).round(2).reshape(1, 7)
    high[0, 0] = -0.75  # below
    for lo, hi in ((-0.25, 0.5), (0.5, 0.5), (-INF, 0.25), (-1, 1), (NAN, 1.0)):
        wanted = w * share(x, lo) * share(hi, np.maximum(x, lo))
        check(
            weighed(lambda x, lo=lo, hi=hi: cm.clip(x, lo, hi), w, x, dtype=dtype), [wanted], dtype
        )
    found = weighed(cm.clip, w, x, low, high, which=(0, 1, 2), dtype=dtype)
    low, high = [a.astype(np.dtype(getattr(cm, dtype))).astype("f8") for a in (low, high)]
    outer = share(high, np.maximum(x, low))
    check(
        found,
        [
            w * share(x, low) * outer,
            (w * share(low, x) * outer).sum(0),
            (w * share(np.maximum(x, low), high)).sum(0, keepdims=True),
        ],
        dtype,
    )


def check_extremes(dtype):
    x, y, w = numbers(3, 5), numbers(5, seed=1)[::-1], weights(3, 5)
    check(
        weighed(cm.maximum, w, x, y, which=(0, 1), dtype=dtype),
        [w * share(x, y), (w * share(y, x)).sum(0)],
        dtype,
    )
    check(
        weighed(cm.minimum, w, x, y, which=(0, 1), dtype=dtype),
        [w * share(y, x), (w * share(x, y)).sum(0)],
        dtype,
    )
    check(weighed(lambda x: cm.maximum(x, 0.25), w, x, dtype=dtype), [w * share(x, 0.25)], dtype)
    check(weighed(lambda x: cm.minimum(0.25, x), w, x, dtype=dtype), [w * share(0.25, x)], dtype)


def check_where(dtype):
    mask = np.random.default_rng(0).random((4, 5)) < 0.5
    x, y, w = numbers(4, 5), numbers(5, seed=1), weights(4, 5)
    zero = np.zeros(())
    for function, wanted in (
        (lambda x: cm.where(cm.asarray(mask), x, 0.0), np.where(mask, w, zero)),
        (lambda x: cm.where(cm.asarray(mask), -1, x), np.where(mask, zero, w)),
        (lambda x: cm.where(cm.asarray(mask[:, :1]), x, INF), np.where(mask[:, :1], w, zero)),
    ):
        check(weighed(function, w, x, dtype=dtype), [wanted], dtype)
    check(
        weighed(lambda y: cm.where(cm.asarray(mask), y, NAN), w, y, dtype=dtype),
        [np.where(mask, w, 0).sum(0)],
        dtype,
    )
    check(
        weighed(lambda x, y: cm.where(cm.asarray(mask), x, y), w, x, y, which=(0, 1), dtype=dtype),
        [np.where(mask, w, 0), np.where(mask, 0, w).sum(0)],
        dtype,
    )
    check(
        weighed(lambda x, y: cm.where(cm.asarray(mask), x, y), w, x, y, which=(1,), dtype=dtype),
        [np.where(mask, 0, w).sum(0)],
        dtype,
    )


def check_squares(dtype):
    x, w = numbers(3, 5)[:, 1:], weights(3, 4)
    x[0] = 0.25
    for function in (cm.square, lambda x: x * x, lambda x: x**2, lambda x: cm.multiply(x, x)):
        check(weighed(function, w, x, dtype=dtype), [2 * x * w], dtype)


CHECKS = [check_clip, check_extremes, check_where, check_squares]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("those", CHECKS)
def test_elementwise(device, those, dtype):
    those(dtype)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_simulated(monkeypatch, dtype):
    x, y, w = numbers(3, 4), numbers(3, 4, seed=1)[::-1].copy(), weights(3, 4)
    mask = x > 0
    with simulated_gpu(monkeypatch):
        for function, slope in (
            (
                lambda x, y: cm.clip(x, -0.25, 0.5),
                share(x, -0.25) * share(0.5, np.maximum(x, -0.25)),
            ),
            (lambda x, y: cm.clip(x, y, 0.5), share(x, y) * share(0.5, np.maximum(x, y))),
            (lambda x, y: cm.maximum(x, y), share(x, y)),
            (lambda x, y: cm.minimum(0.25, x), share(0.25, x)),
            (lambda x, y: cm.where(cm.asarray(mask), x, 0.5), mask * 1.0),
            (lambda x, y: cm.where(cm.asarray(mask), 0.5, x), 1.0 - mask),
        ):
            _, pull = cm.vjp(
                lambda x, function=function: function(x, cm.asarray(y.astype(dtype))),
                cm.asarray(x.astype(dtype)),
            )
            check(pull(cm.asarray(w.astype(dtype))), [slope * w], dtype)
        x[0], y[1] = 0.25, 0
        y = abs(y)
        g, number = cm.asarray(w.astype(dtype)), cm.asarray(x.astype(dtype))
        check(
            [elementwise.norm_grad(number, cm.asarray(y.astype(dtype)), g)],
            [np.divide(x * w, y, where=y != 0, out=np.zeros_like(x))],
            dtype,
        )
        check(
            [elementwise.spread_grad(number, cm.asarray(np.asarray(0.5, dtype)), g, 0.25)],
            [(x - 0.5) * w * 0.25],
            dtype,
        )
        check([elementwise._square_grad(g, number)], [x * w * 2], dtype)


def check_lines(dtype):
    """Spreads and lengths of lines, one of which is all zero, one all equal."""
    x = (
        np.random.default_rng(0)
        .standard_normal((4, 6))
        .astype(np.dtype(getattr(cm, dtype)))
        .astype("f8")
    )
    x[1], x[2] = 0, 0.5
    w = weights(4)
    apart, n = x - x.mean(1, keepdims=True), 6
    std = np.sqrt((apart**2).sum(1, keepdims=True) / (n - 1))
    length = np.sqrt((x**2).sum(1, keepdims=True))
    ours = w[:, None]
    check(weighed(lambda x: x.var(1), w, x, dtype=dtype), [2 * apart * ours / n], dtype)
    check(
        weighed(lambda x: cm.var(x, axis=-1, ddof=2), w, x, dtype=dtype),
        [2 * apart * ours / (n - 2)],
        dtype,
    )
    check(
        weighed(lambda x: x.std(1, ddof=1), w, x, dtype=dtype),
        [np.divide(apart * ours, std * (n - 1), where=std > 0, out=0 * x)],
        dtype,
    )
    wanted = np.divide(x * ours, length, where=length > 0, out=0 * x)
    check(weighed(lambda x: cm.linalg.vector_norm(x, axis=1), w, x, dtype=dtype), [wanted], dtype)
    check(
        weighed(
            lambda x: cm.linalg.vector_norm(x, axis=0, keepdims=True).T,
            ours,
            np.ascontiguousarray(x.T),
            dtype=dtype,
        ),
        [wanted.T],
        dtype,
    )
    check(
        weighed(cm.vecdot, w, x, x[::-1].copy(), which=(0, 1), dtype=dtype),
        [x[::-1] * ours, x * ours],
        dtype,
    )
    check(
        weighed(cm.vecdot, w, x, x[3].copy(), which=(0, 1), dtype=dtype),
        [np.broadcast_to(x[3], x.shape) * ours, (x * ours).sum(0)],
        dtype,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_lines(device, dtype):
    for _ in range(2):  # the second time found by what was requested
        check_lines(dtype)


def test_complex_norms_and_products(device):
    """Directional derivatives: of f(x + t v) by t at 0 is Re <gradient, v>, by central differences
    in NumPy."""
    rng = np.random.default_rng(0)
    x, y, v = [rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4)) for _ in range(3)]
    rows, h = weights(3), 1e-6
    for function, same in (
        (
            lambda x: (cm.linalg.vector_norm(x, axis=1) * cm.asarray(rows)).sum(),
            lambda x: np.linalg.norm(x, axis=1) @ rows,
        ),
        (lambda x: cm.var(x), np.var),
        (lambda x: cm.std(x), np.std),
        (lambda x: cm.vecdot(x, cm.asarray(y)).real.sum(), lambda x: np.vecdot(x, y).real.sum()),
        (lambda x: cm.vecdot(cm.asarray(y), x).imag.sum(), lambda x: np.vecdot(y, x).imag.sum()),
        (lambda x: (x * x).real.sum(), lambda x: (x * x).real.sum()),
    ):
        for _ in range(2):
            found = cm.grad(function)(cm.asarray(x)).to_numpy()
            slope = (same(x + h * v) - same(x - h * v)) / (2 * h)
            np.testing.assert_allclose(np.vdot(found, v).real, slope, rtol=1e-6)


def test_second_derivatives(device):
    """Of the sum of squares of first ones, by central differences of first ones in NumPy."""
    x, v = np.random.default_rng(1).standard_normal((2, 3, 4))
    x[0, 0] = 0.125
    apart, h = x - x.mean(), 1e-5

    def length(x):
        return x / np.sqrt((x**2).sum())

    def std(x):
        return (x - x.mean()) / (x.std() * 12)

    def along(first):
        return (first(x + h * v) - first(x - h * v)) / (2 * h)

    cases = [
        (lambda x: (x * x).sum(), 2 * v),
        (lambda x: (cm.square(x) * x * 0.5).sum(), 3 * x * v),
        (lambda x: cm.linalg.vector_norm(x), along(length)),
        (lambda x: cm.std(x), along(std)),
        (lambda x: cm.var(x), 2 / 12 * (v - v.mean())),
        (lambda x: cm.clip(x**3, -0.5, 0.5).sum(), np.where(abs(x**3) < 0.5, 6 * x * v, 0)),
        (lambda x: cm.maximum(x**3, 0.0).sum(), np.where(x > 0, 6 * x * v, 0)),
        (lambda x: cm.where(x > 0, x**3, 1.0).sum(), np.where(x > 0, 6 * x * v, 0)),
        (
            lambda x: (cm.vecdot(x, x) ** 2).sum(),
            along(lambda x: 4 * x * (x**2).sum(1, keepdims=True)),
        ),
    ]
    assert apart.any()
    for function, wanted in cases:
        found = cm.grad(lambda x, function=function: (cm.grad(function)(x) * cm.asarray(v)).sum())(
            cm.asarray(x)
        )
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-6, atol=1e-8)
        _, forward = cm.jvp(cm.grad(function), (cm.asarray(x),), (cm.asarray(v),))
        np.testing.assert_allclose(forward.to_numpy(), wanted, rtol=1e-6, atol=1e-8)


def test_of_nothing(device):
    x = cm.zeros((0, 3), dtype="float32")
    for function in (
        lambda x: cm.clip(x, 0.2, 0.8).sum(),
        lambda x: (x * x).sum(),
        lambda x: cm.where(x > 0, x, 0.0).sum(),
        lambda x: cm.linalg.vector_norm(x),
        lambda x: cm.vecdot(x, x).sum(),
        lambda x: x.var(1).sum(),
    ):
        assert cm.grad(function)(x).shape == (0, 3)


COSTS = {
    "clip": (lambda x: cm.clip(x, 0.2, 0.8).sum(), 3),
    "where": (lambda x: cm.where(x._alias() > 0, x, 0.0).sum(), 4),
    "where, other way round": (lambda x: cm.where(x._alias() > 0, 1.0, x).sum(), 4),
    "square": (lambda x: (x * x).sum(), 3),
    "maximum": (lambda x: cm.maximum(x, 0.25).sum(), 3),
    "norm": (lambda x: cm.linalg.vector_norm(x), 2),
    "var": (lambda x: cm.var(x), 3),
    "std": (lambda x: cm.std(x), 5),
}


@pytest.mark.parametrize("name", COSTS)
def test_launches(fake, monkeypatch, name):
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)  # kernels do not run
    function, wanted = COSTS[name]
    with cm.device("cuda:0"):
        x = gpu(np.ones((4, 6), "f4"))
        for _ in range(2):
            fake.launches.clear()
            cm.grad(function)(x)
    assert len(fake.launches) == wanted, [launch[0] for launch in fake.launches]
