"""Regressions of gradients of reductions and norms: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm


@pytest.mark.parametrize("zeros", [(), (1,), (0, 3), (1, 2, 4)])
@pytest.mark.parametrize("cumulative", [False, True])
def test_second_derivatives_of_products_with_zeros(device, zeros, cumulative):
    """They were 0 where a factor was: the first derivative treats zeros apart. d2 y[i] / dx[a]
    dx[b] leaves out a and b."""
    x = np.array([1.5, -2.0, 0.5, 3.0, -1.0])
    x[list(zeros)] = 0
    weights, direction = np.array([0.5, -1.0, 2.0, 1.0, 3.0]), np.array([1.0, 2.0, -1.0, 0.5, 4.0])
    expected = np.zeros(5)
    for i in range(5) if cumulative else (4,):
        for a in range(i + 1):
            expected[a] += weights[i] * sum(
                direction[b] * np.prod(np.delete(x[: i + 1], [a, b]))
                for b in range(i + 1)
                if b != a
            )

    def slope(v):
        return cm.grad(
            lambda v: (
                (cm.cumprod(v) * cm.asarray(weights)).sum()
                if cumulative
                else cm.prod(v) * weights[4]
            )
        )(v)

    got = cm.grad(lambda v: (slope(v) * cm.asarray(direction)).sum())(cm.asarray(x))
    np.testing.assert_allclose(got.to_numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_deviations_of_equal_numbers(device, dtype):
    """NaN of complex numbers, and where some elements are left out."""
    x = cm.asarray(np.array([[3, 3, 3], [1, 2, 6]], dtype))
    middle = np.array([1, 2, 6]) - 3.0
    expected = [[0, 0, 0], middle / np.sqrt((middle**2).mean()) / 3]
    np.testing.assert_allclose(
        cm.grad(lambda x: cm.std(x, axis=1).sum())(x).to_numpy(), expected, rtol=1e-6
    )
    some = cm.asarray([[True, True, False], [True, True, True]])
    np.testing.assert_allclose(
        cm.grad(lambda x: cm.std(x, axis=1, where=some).sum())(x).to_numpy(), expected, rtol=1e-6
    )


@pytest.mark.parametrize("length", [3, 20_000])  # the second by parts
def test_complex_norms_of_any_order_once_they_were_seen(device, length):
    """A gradient after a call that recorded none raised an error."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=length) + 1j * rng.normal(size=length)
    x[1] = 0
    for name in ("norm", "vector_norm"):

        def f(x, name=name):
            return getattr(cm.linalg, name)(x, ord=3)

        size = float(f(cm.asarray(x)))
        np.testing.assert_allclose(size, (np.abs(x) ** 3).sum() ** (1 / 3))
        for _ in range(2):
            np.testing.assert_allclose(
                cm.grad(f)(cm.asarray(x)).to_numpy(), x * np.abs(x) / size**2, rtol=1e-12
            )
    if length == 3:
        y, step = x + 0.5, 1e-6 * (1 + 2j)
        ahead, back = (cm.grad(f)(cm.asarray(y + s)).to_numpy() for s in (step, -step))
        turned = cm.jvp(cm.grad(f), (cm.asarray(y),), (cm.asarray(np.full(3, 1 + 2j)),))[
            1
        ].to_numpy()
        np.testing.assert_allclose(turned, (ahead - back) / 2e-6, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.mean(),
        lambda x: x.var(),
        lambda x: x.std(),
        lambda x: (x[:4000] * 50).std(),
        cm.nanmean,
        cm.nanvar,
        cm.nanstd,
        lambda x: cm.mean(x, where=x > 0),
        lambda x: cm.var(x, where=x > 0),
        lambda x: cm.std(x, where=x > 0),
        lambda x: cm.var(x, mean=x.mean(keepdims=True)),
        lambda x: cm.average(x, weights=abs(x) + 1),
        lambda x: cm.cov(x),
        lambda x: cm.cov(x[:2000] * 50),
        lambda x: cm.corrcoef(x[:40_000:10].reshape((2, 2000)) * 50)[0, 1],
    ],
    ids=lambda f: str(f.__code__.co_firstlineno) + getattr(f, "__name__", ""),
)
def test_counts_and_sums_beyond_float16(device, call):
    """float16 ends at 65,504: means with `where` were infinite, and gradients of means of more
    elements 0."""
    values = (np.random.default_rng(5).normal(size=70_000) + 1).astype(np.float16)
    truth = cm.value_and_grad(lambda x: call(x) * 1000.0)(cm.asarray(values.astype(np.float64)))
    value = call(cm.asarray(values))
    slope = cm.grad(lambda x: call(x) * 1000.0)(cm.asarray(values))
    # covariances of any floats are float64
    assert (value.dtype, slope.dtype) in ((np.float16, np.float16), (np.float64, np.float16))
    np.testing.assert_allclose(float(value), float(truth[0]) / 1000, rtol=2e-3)
    exact = truth[1].to_numpy()
    np.testing.assert_allclose(
        slope.to_numpy().astype(np.float64), exact, rtol=0, atol=2e-3 * np.abs(exact).max()
    )


@pytest.mark.parametrize("name", ["nanvar", "nanstd", "nanmean", "nanprod", "nanmax"])
def test_what_is_nan_does_not_come_back_in_second_derivatives(device, name):
    """nanvar and nanstd multiplied it by 0 when their gradients were differentiated, and in
    `jvp`."""
    numbers = np.array([0.5, -1.5, 2.0, 0.25])
    gaps, place = np.insert(numbers, [1, 3], np.nan), np.array([0, 2, 3, 5])
    step = np.linspace(-1, 1, 6)

    def slope(function):
        return lambda x: cm.grad(lambda x: cm.sin(function(x)))(x)

    full = getattr(cm, name.removeprefix("nan"))
    for made in (lambda f: f, slope):
        ours = cm.jvp(made(getattr(cm, name)), (cm.asarray(gaps),), (cm.asarray(step),))[
            1
        ].to_numpy()
        theirs = cm.jvp(made(full), (cm.asarray(numbers),), (cm.asarray(step[place]),))[
            1
        ].to_numpy()
        if ours.ndim:
            np.testing.assert_array_equal(np.delete(ours, place), 0)
            ours = ours[place]
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_spread_of_what_is_left(device, name, bad):
    """What `where` left out made all gradients NaN."""
    x = np.array([[1.0, 2.0, bad, 4.0], [bad, bad, 0.5, 2.5]])
    mask = np.isfinite(x)
    for mean in (False, True):

        def spread(v, part=mask, mean=mean):
            return getattr(cm, name)(
                v, axis=1, where=part, **({"mean": cm.asarray([[2.0], [1.0]])} if mean else {})
            ).sum()

        got = cm.grad(spread)(cm.asarray(x)).to_numpy()
        for row, part, slopes, m in zip(x, mask, got, (2.0, 1.0), strict=True):
            v = row[part]
            apart = v - (m if mean else v.mean())
            expected = (
                2 * apart / v.size
                if name == "var"
                else apart / (v.size * np.sqrt((apart**2).mean()))
            )
            np.testing.assert_allclose(slopes[part], expected, rtol=1e-14)
            assert not slopes[~part].any()
