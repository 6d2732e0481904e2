"""Regressions of gradients of elementwise functions: each test failed on an earlier version."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

import cudamath as cm


@pytest.mark.parametrize(
    "dtype, far", [("float16", 12.0), ("bfloat16", 100.0), ("float32", 100.0), ("float64", 800.0)]
)
@pytest.mark.parametrize("name, rate", [("logaddexp", 1.0), ("logaddexp2", np.log(2.0))])
def test_curvature_of_sums_in_logarithms_far_apart(device, dtype, far, name, rate):
    """Where e^(y - x) exceeds the dtype the slope is 0, and its slope was 0 times infinity."""
    far /= rate
    x = cm.asarray([-far, -3.0, 0.0, 3.0, far]).astype(dtype)
    add = getattr(cm, name)
    found = (
        cm.grad(lambda x: cm.grad(lambda x: add(x, 0 * x).sum())(x).sum())(x)
        .astype("float64")
        .to_numpy()
    )
    share = expit(rate * x.astype("float64").to_numpy())
    np.testing.assert_allclose(
        found, rate * share * (1 - share), rtol=1e-12 if dtype == "float64" else 0.02, atol=1e-5
    )
    mixed = (
        cm.grad(lambda x: cm.grad(lambda y: add(x, y).sum())(cm.zeros_like(x)).sum())(x)
        .astype("float64")
        .to_numpy()
    )
    np.testing.assert_allclose(
        mixed, -rate * share * (1 - share), rtol=1e-12 if dtype == "float64" else 0.02, atol=1e-5
    )


def second(f):
    """The gradient of the sum of f's gradient."""
    return cm.grad(lambda x: cm.grad(f)(x).sum())


def test_sinc_near_zero(device):
    """The second derivative at 0 was 0; next to 0 the first had few digits."""
    places = np.array([0.0, 1e-9, -1e-4, 9e-3, 0.095, 0.0956, -0.3, 2.5])
    x, u = cm.asarray(places), np.pi * places

    def series(power):
        """The sum of (-1)^k u^2k / (2k + 1)!, differentiated so many times by u."""
        total = np.zeros_like(u)
        for k in range(25):
            down = np.prod([2.0 * k - i for i in range(power)])
            if 2 * k >= power:
                total += (
                    (-1.0) ** k
                    * down
                    * u ** (2 * k - power)
                    / float(np.prod(np.arange(1.0, 2 * k + 2)))
                )
        return total

    np.testing.assert_allclose(
        cm.grad(lambda x: cm.sinc(x).sum())(x).to_numpy(), np.pi * series(1), rtol=1e-12, atol=1e-30
    )
    np.testing.assert_allclose(
        second(lambda x: cm.sinc(x).sum())(x).to_numpy(), np.pi**2 * series(2), rtol=1e-11
    )
    slope = cm.grad(lambda x: cm.sinc(x).sum())(cm.asarray(places.astype("f4"))).to_numpy()
    np.testing.assert_allclose(slope, np.pi * series(1), rtol=1e-5, atol=1e-12)


def test_powers_of_zero(device):
    """Derivatives of what is multiplied by the exponent 0 were NaN where the base is 0, in `jvp`
    and of second order."""
    x, powers = cm.asarray([0.0, 0.0, 0.0, 0.0, 2.0]), cm.asarray([0.0, 1.0, 2.0, 3.0, 0.0])
    value, slope = cm.jvp(lambda x: x**powers, (x,), (cm.ones(5),))
    assert value.tolist() == [1, 0, 0, 0, 1] and slope.tolist() == [0, 1, 0, 0, 0]
    assert cm.grad(lambda x: (x**powers).sum())(x).tolist() == [0, 1, 0, 0, 0]
    assert second(lambda x: (x**powers).sum())(x).tolist() == [0, 0, 2, 0, 0]
    rows = cm.jvp(lambda x: cm.vander(x, 3), (cm.asarray([0.0, 0.5]),), (cm.ones(2),))[1]
    assert rows.tolist() == [[0, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_sinc_near_zero_on_the_complex_plane(device, dtype):
    """Next to 0 the slope had few digits, and the second derivative at 0 was 0."""
    places, direction = (
        np.array([0.0, 1e-9, 1e-4 + 1e-3j, 0.05j, 0.0955, 0.5 - 2j], dtype),
        np.full(6, 0.25 - 1j, dtype),
    )
    x, u = cm.asarray(places), np.pi * places.astype("c16")
    even, odd = np.arange(0, 60, 2), np.arange(1, 61, 2)
    signs = (-1.0) ** np.arange(30) / np.array([float(math.factorial(k)) for k in odd])
    first = np.pi * (signs * even * u[:, None] ** np.maximum(even - 1, 0)).sum(1)
    second = np.pi**2 * (signs * even * (even - 1) * u[:, None] ** np.maximum(even - 2, 0)).sum(1)
    near = {"rtol": 1e-5 if dtype == "c8" else 1e-12, "atol": 1e-30}

    def gradient(x):
        return cm.grad(lambda x: cm.sinc(x).real.sum())(x)

    np.testing.assert_allclose(gradient(x).to_numpy(), first.conj(), **near)
    np.testing.assert_allclose(
        cm.grad(lambda x: gradient(x).real.sum())(x).to_numpy(), second.conj(), **near
    )
    np.testing.assert_allclose(
        cm.jvp(cm.sinc, (x,), (cm.asarray(direction),))[1].to_numpy(), first * direction, **near
    )


@pytest.mark.parametrize(
    ("dtype", "places"),
    [("f2", [13.0, 3000.0]), ("bfloat16", [13.0, 1e30]), ("f4", [2.5, 1e12]), ("f8", [2.5, 1e100])],
)
def test_sinc_far_from_zero(device, dtype, places):
    """The second derivative was NaN where the series that counts near 0 overflows."""
    x = cm.asarray(places).astype(dtype)
    got = second(lambda x: cm.sinc(x).sum())(x).astype("f8").to_numpy()
    wide = x.astype("f8").to_numpy()
    u = np.pi * wide[0]
    expected = np.pi**2 * ((2 / u**2 - 1) * np.sin(u) - 2 * np.cos(u) / u) / u
    np.testing.assert_allclose(
        got[0], expected, rtol={"f2": 0.02, "bfloat16": 0.05, "f4": 1e-5, "f8": 1e-12}[dtype]
    )
    assert abs(got[1]) <= 10 / wide[1]


@pytest.mark.parametrize(
    ("dtype", "x", "g"), [("f2", 300.0, 300.0), ("f4", 1e20, 1e20), ("f8", 1e200, 1e200)]
)
def test_slopes_without_squares_beyond_the_dtype(device, dtype, x, g):
    """asinh's was 0, hypot's infinite."""
    near = {"rtol": 2e-3 if dtype == "f2" else 1e-6}
    y = cm.asarray(np.array([x, -x], dtype))
    np.testing.assert_allclose(
        cm.grad(lambda y: cm.asinh(y).sum())(y).to_numpy(), [1 / x] * 2, **near
    )
    slope = cm.grad(lambda y: (cm.hypot(y, y) * g).sum())(y).to_numpy()
    np.testing.assert_allclose(slope, [g * 2**0.5, -g * 2**0.5], **near)


@pytest.mark.parametrize(("dtype", "base"), [("f2", 1e-5), ("f4", 1e-40), ("f8", 5e-324)])
def test_powers_of_what_has_no_reciprocal(device, dtype, base):
    """0 x^-1 was NaN where x^-1 is infinite."""
    x, powers = (
        cm.asarray(np.array([base, -base, 2.0], dtype)),
        cm.asarray(np.array([0.0, 0.0, 3.0], dtype)),
    )
    assert cm.grad(lambda x: (x**powers).sum())(x).tolist() == [0, 0, 12]


def test_mixed_derivatives_of_powers_at_exponent_0(device):
    """The derivative by the base was held to be 0 there, whatever the exponent: 1 / x is how it
    changes with it."""
    x, y = cm.asarray([2.0, 0.5, 3.0, 0.0]), cm.asarray([0.0, 0.0, 1.5, 0.0])
    by_y = cm.grad(lambda y: cm.grad(lambda x: (x**y).sum())(x).sum())(y).to_numpy()
    by_x = cm.grad(lambda x: cm.grad(lambda y: (x**y).sum())(y).sum())(x).to_numpy()
    expected = [0.5, 2.0, np.sqrt(3.0) * (1 + 1.5 * np.log(3.0)), 0.0]
    np.testing.assert_allclose(by_y, expected, rtol=1e-14)
    np.testing.assert_allclose(by_x, expected, rtol=1e-14)
    assert cm.grad(lambda x: (x ** y[:2]).sum())(cm.asarray([np.nan, np.inf])).tolist() == [0, 0]


def test_exponents_of_a_base_of_0(device):
    """0^y is 0 from 0 on and infinite below: the slope at y < 0 was NaN, and 0 where the base is a
    number."""
    y = cm.asarray([-1.0, -0.5, -np.inf, 0.0, 0.5, np.inf, np.nan], "float32")
    for base in (cm.zeros(7, "float32"), 0, 0.0):
        slope = cm.grad(lambda y, base=base: (base**y).sum())(y)
        np.testing.assert_array_equal(
            slope.to_numpy(), np.array([-np.inf] * 3 + [0.0] * 3 + [np.nan], "float32"), strict=True
        )
    assert cm.grad(lambda y: (cm.asarray([-0.0, -0.0]) ** y).sum())(
        cm.asarray([-1.0, -2.0])
    ).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("narrow", ["int8", "uint8", "float16", "bfloat16", "float32"])
def test_operands_of_a_narrower_dtype(device, narrow):
    """What a gradient needs of a narrow operand (a logarithm, an exponent less 1) was computed in
    that dtype."""
    floats = "float" in narrow
    x, y = (
        cm.asarray([0.7, 2.5, 3.0]),
        cm.asarray([3, 5, 7]).astype(narrow) * cm.asarray(0.1 if floats else 1, narrow),
    )
    wide = y.astype("float64")
    for f in (lambda x, y: x**y, lambda x, y: y**x, lambda x, y: cm.ml.elu(-y if floats else x, x)):
        got, expected = (
            cm.grad(lambda x, y=each, f=f: f(x, y).sum())(x).to_numpy() for each in (y, wide)
        )
        np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_negative_bases_of_complex_powers(device):
    """NaN, where the base was an array of real numbers: the logarithm of a negative one is
    complex."""
    y, u = np.array([1 + 1j, 2 - 1j]), np.array([-2.0, 3.0])
    w = u**y * np.log(u.astype(complex))
    slope = cm.grad(lambda y: (cm.asarray(u) ** y).real.sum())(cm.asarray(y))
    np.testing.assert_allclose(slope.to_numpy(), np.conj(w), rtol=1e-14)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_sums_of_two_zeros_in_logarithms(device, name):
    """log 0 + log 0, as in a path of a Markov chain that cannot be taken, made all that was added
    to it NaN."""
    add, base = getattr(cm, name), {"logaddexp": np.e, "logaddexp2": 2.0}[name]
    x = np.array([-np.inf, 0.0, -np.inf, -np.inf, 1.0, 1.0])
    expected = base**x / (base**x).sum()
    np.testing.assert_allclose(cm.grad(add.reduce)(cm.asarray(x)).to_numpy(), expected, rtol=1e-14)
    apart = cm.grad(lambda x: cm.grad(lambda x: add(x, 2 * x).sum())(x).sum())(
        cm.asarray([0.0, -np.inf, np.inf])
    ).tolist()
    np.testing.assert_allclose(
        apart, [0.25 * np.log(base), 0, 0], rtol=1e-14
    )  # of finite numbers that are equal, too
    for both in (np.inf, -np.inf, 3.0):
        slopes = [
            cm.grad(lambda x, y: add(x, y).sum(), argnums=i)(cm.asarray([both]), cm.asarray([both]))
            for i in (0, 1)
        ]
        assert [g.item() for g in slopes] == [0.5, 0.5]


def test_hypotenuse_of_nothing(device):
    """0, as of other lengths, was NaN."""
    assert cm.grad(cm.hypot.reduce)(cm.asarray([0.0, 0.0, 0.0])).tolist() == [0, 0, 0]
    assert cm.grad(cm.hypot.reduce)(cm.asarray([0.0, -4.0, 3.0])).tolist() == [0, -0.8, 0.6]
    assert cm.grad(lambda x: cm.grad(lambda x: cm.hypot(x, 2 * x).sum())(x).sum())(
        cm.asarray([0.0])
    ).tolist() == [0]
