"""Complex numbers made of parts: each part stays what it is, infinite or a signed zero."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.ops.transfer import complex_of_parts

INF, NAN = np.inf, np.nan
PARTS = [0.0, -0.0, 1.5, -2.0, INF, -INF, NAN]


def complex_number(x, y):
    """x + iy as NumPy holds it."""
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), np.complex128)
    out.real, out.imag = x, y
    return out


def assert_same(ours, theirs):
    """Equal in both parts, the signs of zeros included."""
    ours = np.asarray(ours)
    assert ours.dtype == theirs.dtype
    for part in ("real", "imag"):
        a, b = getattr(ours, part), getattr(theirs, part)
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_stay_what_they_are(device, dtype):
    x, y = (part.astype(dtype) for part in np.meshgrid(PARTS, PARTS))
    expected = complex_number(x, y).astype("complex64" if dtype == "float32" else "complex128")
    assert_same(complex_of_parts(cm.array(x), cm.array(y)), expected)
    assert_same(complex_of_parts(cm.array(x[0]), cm.array(y[:, :1])), expected)


def test_nan_to_num_keeps_the_parts_that_it_does_not_replace(device):
    x = complex_number([NAN, 1.0, -0.0, INF], [INF, -INF, -0.0, -0.0])
    assert_same(
        cm.nan_to_num(cm.array(x), posinf=INF, neginf=-INF),
        np.nan_to_num(x, posinf=INF, neginf=-INF),
    )


def test_histogram_sums_infinite_weights(device):
    weights = complex_number([1.0, 2.0, -1.0], [INF, -INF, 3.0])
    ours, _ = cm.histogram(cm.array([0.1, 1.1, 2.1]), 3, (0.0, 3.0), weights=cm.array(weights))
    np.testing.assert_array_equal(np.asarray(ours).real, weights.real)
    np.testing.assert_array_equal(np.asarray(ours).imag, weights.imag)


def test_interp_of_infinite_values(device):
    values = complex_number([1.0, 2.0, 3.0], [INF, INF, INF])
    at, places = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0])
    assert_same(
        cm.interp(cm.array(at), cm.array(places), cm.array(values)), np.interp(at, places, values)
    )


def test_gradient_of_the_imaginary_part_has_no_real_part(device):
    z = cm.array([1 + 2j, 3 - 1j])
    _, backward = cm.vjp(cm.imag, z)
    (g,) = backward(cm.array([INF, -1.0]))
    np.testing.assert_array_equal(np.asarray(g).real, [0.0, 0.0])
    np.testing.assert_array_equal(np.asarray(g).imag, [INF, -1.0])


def test_gradients_of_first_and_second_order(device):
    """f = |x + iy|^2 |x|^2 = x^4 + x^2 y^2."""
    x, y = cm.array([1.5, -2.0]), cm.array([0.5, 3.0])

    def f(x, y):
        z = complex_of_parts(x, y)
        return ((z * cm.conj(z)).real * x * x).sum()

    a, b = np.asarray(x), np.asarray(y)
    by_x, by_y = cm.grad(f, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(by_x, 4 * a**3 + 2 * a * b**2)
    np.testing.assert_allclose(by_y, 2 * a**2 * b)
    twice = cm.grad(lambda x, y: cm.grad(f, argnums=0)(x, y).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(twice[0], 12 * a**2 + 2 * b**2)
    np.testing.assert_allclose(twice[1], 4 * a * b)


def test_it_is_fused(device):
    x, y = np.array([1.0, INF, -0.0]), np.array([INF, 2.0, -0.0])
    fused = cm.fuse(lambda x, y: complex_of_parts(x + 0.0, y * 1.0))
    assert_same(fused(cm.array(x), cm.array(y)), complex_number(x + 0.0, y))


@pytest.mark.simulator
def test_the_kernel(monkeypatch):
    x, y = (part.astype("float32") for part in np.meshgrid(PARTS, PARTS))
    expected = complex_number(x, y).astype("complex64")
    with simulated_gpu(monkeypatch), np.errstate(all="ignore"):
        assert_same(complex_of_parts(cm.array(x), cm.array(y)).to("cpu"), expected)
