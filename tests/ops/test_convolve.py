"""Convolution and correlation of vectors: the kernel in the simulator, results and gradients
against NumPy."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.kernels.numeric import convolve as kernels
from cudamath.ops import differences


def drawn(rng, n, dtype):
    numbers = rng.integers(-4, 5, n)
    return (numbers + 1j * rng.integers(-4, 5, n) if dtype == "c8" else numbers).astype(dtype)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "?", "c8"])
@pytest.mark.parametrize(
    "n, m, before, after",
    [(150, 5, 4, 4), (150, 20, 0, 0), (40, 17, 3, 9), (9, 12, 11, 11), (1, 1, 0, 0)],
)
def test_slide_simulated(n, m, before, after, dtype, monkeypatch):
    """Blocks of 32 results, 8 weights at a time: blocks inside, at both ends, and weights that are
    several chunks."""
    kernels.slide.cache_clear()
    for name, value in {"THREADS": 4, "TILE": 32, "CHUNK": 8, "STRETCH": 40, "HELD": 45}.items():
        monkeypatch.setattr(kernels, name, value)
    rng = np.random.default_rng(n)
    a, w = drawn(rng, n, dtype), drawn(rng, m, dtype)
    full = np.convolve(a, w)
    for turned in (True, False):
        given = w if turned else w[::-1].copy()
        plan = kernels.convolve(
            cm.testing.layout_of(a),
            cm.testing.layout_of(given),
            before=before,
            after=after,
            turned=turned,
        )
        got = cm.testing.simulate(plan, a, given)
        np.testing.assert_array_equal(
            got, full[m - 1 - before : m - 1 - before + n + before + after - m + 1]
        )
    kernels.slide.cache_clear()


@pytest.mark.parametrize("n, m", [(100_003, 31), (5000, 1), (70, 3001), (6000, 5999), (3000, 5000)])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_long_vectors(device, name, n, m):
    rng = np.random.default_rng(m)
    a, v = rng.standard_normal(n), rng.standard_normal(m)
    for mode in ("full", "same", "valid"):
        got = getattr(cm, name)(cm.asarray(a), cm.asarray(v), mode)
        size = np.convolve(abs(a), abs(v)).max()
        np.testing.assert_allclose(got, getattr(np, name)(a, v, mode), rtol=0, atol=1e-13 * size)
    got = getattr(cm, name)(cm.asarray(a, dtype=cm.bfloat16), cm.asarray(v, dtype=cm.bfloat16))
    assert got.dtype == cm.bfloat16
    given = [cm.asarray(x, dtype=cm.bfloat16).to_numpy().astype("f8") for x in (a, v)]
    np.testing.assert_allclose(
        got.to_numpy().astype("f8"), getattr(np, name)(*given), rtol=2**-8, atol=1e-6 * size
    )


def test_strided_and_infinite(device):
    a = np.arange(3000.0)
    np.testing.assert_array_equal(
        cm.convolve(cm.asarray(a)[::-2], cm.asarray(a)[:9:3]), np.convolve(a[::-2], a[:9:3])
    )
    for weights in ([np.inf, 1.0], [1.0, np.nan, 0.0]):  # which meet nothing beyond the ends
        np.testing.assert_array_equal(
            cm.convolve(cm.asarray(a[1:]), cm.asarray(weights)), np.convolve(a[1:], weights)
        )
    a[1500] = np.inf
    np.testing.assert_array_equal(
        cm.convolve(cm.asarray(a), cm.ones(31)), np.convolve(a, np.ones(31))
    )


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_gradients_are_central_differences(device, name, mode, products, monkeypatch):
    if products:
        monkeypatch.setattr(differences, "_LONG", 3)
    rng = np.random.default_rng(0)
    for n, m in ((9, 4), (4, 9), (5, 5), (9, 2)):  # the last pads one side alone
        a, v = (rng.standard_normal(k) + 1j * rng.standard_normal(k) for k in (n, m))
        scale = rng.standard_normal(20) + 1j * rng.standard_normal(20)

        def value(xp, a, v, scale=scale):
            y = getattr(xp, name)(a, v, mode)
            return xp.real(y * xp.asarray(scale[: y.size])).sum()

        found = cm.grad(lambda a, v: value(cm, a, v), (0, 1))(cm.asarray(a), cm.asarray(v))
        for which, gradient in enumerate(found):
            expected = np.zeros(gradient.shape, complex)
            for i in range(gradient.size):
                for direction in (1, 1j):
                    ends = []
                    for step in (1e-6, -1e-6):
                        moved = [a.copy(), v.copy()]
                        moved[which][i] += step * direction
                        ends.append(value(np, *moved))
                    expected[i] += direction * (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-7)
