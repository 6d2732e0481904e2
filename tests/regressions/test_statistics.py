"""Regressions of statistics and histograms: each test failed on an earlier version."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy_comparison import agree
from simulated_gpu import simulated_gpu

import cudamath as cm

RNG = np.random.default_rng(7)


CUBE = RNG.integers(-9, 9, (2, 3, 4))


#: Functions of the module and of a function that makes its arrays.
CALLS = [
    # integers beyond 2^53 went through float64
    *[
        lambda m, a, k=k: m.percentile(a([2**60 + 1, 2**60 + 3, 2**60 + 9]), [50, 99], method=k)
        for k in ("lower", "higher", "nearest", "inverted_cdf", "closest_observation", "linear")
    ],
    lambda m, a: m.nanquantile(a(CUBE), 0.3, axis=1, method="nearest", keepdims=True),
    lambda m, a: m.quantile(a(CUBE > 0), 0.3, axis=2, method="lower"),
    # dtypes of results
    lambda m, a: m.mean(a(CUBE), axis=0, where=a(CUBE > 0), dtype="i4"),
    # a float32 sum for a float64 array
    *[
        lambda m, a, f=f: getattr(m, f)(
            a(np.array([[0.1, 0.2, 0.3]] * 5, "f4")), axis=0, out=a(np.zeros(3))
        )
        for f in ("sum", "mean", "prod")
    ],
    # nothing to add up, along axes that are not the innermost
    *[
        lambda m, a, f=f: getattr(m, f)(a(np.zeros((66, 32, 0, 65))), axis=(3, 0))
        for f in ("sum", "mean", "std")
    ],
    lambda m, a: m.mean(
        a(np.zeros((66, 0, 65), "i4")), axis=(2, 0), where=a(np.zeros((0, 1), bool))
    ),
    # rows of nothing: which is which was not written; whole numbers in bins narrower than 1
    *[
        lambda m, a, b=b, x=x: m.histogram(a(np.array(x)), b)
        for b in ("auto", "sqrt", "rice", "fd", "doane", "sturges", "scott")
        for x in ([2, 3, 3], [0, 1, 1, 1], [4, 4, 4], [1, 2, 1, 3, 2, 0, 1])
    ],
    lambda m, a: m.histogram_bin_edges(a([1, 2, 1, 3, 2, 0, 1]), "auto", range=(0, 1)),
    lambda m, a: m.histogram_bin_edges(a(3), "sturges", range=(-3, 3)),
    # float32 weights of whole numbers; what is left of a division by a longer polynomial begins
    # with no zeros
    *[
        lambda m, a, t=t, w=w: m.average(
            a(np.array([1, 2, 4], t)), weights=a(np.array([1, 2, 3], w))
        )
        for t in ("i2", "?", "f4")
        for w in ("f4", "i8", "f8")
    ],
    # weighted quantiles of integers went through float64; slopes took the coordinates' dtype
    *[
        lambda m, a, f=f, t=t: getattr(m, f)(
            a(np.array([5, 2**60 + 1, 7, 2**60 + 3] if t == "i8" else [5, 1, 7, 2], t)),
            [0.1, 0.6, 1],
            method="inverted_cdf",
            weights=a([1.0, 2, 0, 3]),
        )
        for f in ("quantile", "nanquantile")
        for t in ("i8", "u1", "f4")
    ],
    # squares beyond the dtype, of what no partial sum had come before
    *[
        lambda m, a, f=f, x=x, k=k: getattr(m, f)(a(x), axis=k)
        for f in ("var", "nanstd")
        for k in (0, -1)
        for x in (
            np.full(3, 2e19, "f4"),
            np.array([[2e19, 2e19], [3e19, 3e19]], "f4"),
            np.array([1e200]),
        )
    ],
    # how many elements count, for each end and axis
    *[
        lambda m, a, n=n, k=k: m.pad(a(CUBE[0]), ((1, 2), (3, 0)), k, stat_length=n)
        for n in ((1, 2), ((1, 2), (3, 1)), 2, (3,), None)
        for k in ("maximum", "mean", "median")
    ],
    # bools count as numbers
    *[
        lambda m, a, f=f: f(m, a(CUBE[0] > 0))
        for f in (
            lambda m, x: m.cov(x),
            lambda m, x: m.corrcoef(x),
            lambda m, x: m.sinc(x),
            lambda m, x: m.interp(x, [0, 1], [3, 5.5]),
        )
    ],
    # NaN where there is nothing
    *[
        lambda m, a, s=s, t=t, k=k, d=d: m.nanpercentile(a(np.zeros(s, t)), 30, axis=k, keepdims=d)
        for t in ("f4", "f8", "i2", "?")
        for d in (True, False)
        for s, k in (((0, 3), 0), ((0, 3), None), ((2, 0, 3), 1), ((0,), 0), ((0, 3), 1))
    ],
    # dtypes of results
    *[
        lambda m, a, t=t, b=b: m.histogram(
            a([0.5, 2, 2, 3]), b, weights=a(np.array([1, 2, 5, 7], t))
        )
        for t in ("i8", "u1", "f4")
        for b in (3, [0, 2, 3])
    ],
    lambda m, a: m.histogram(a([0.5, 2, 2, 3]), 3, weights=a([1, 2, 5, 7]), density=True)[0],
]


#: Functions of the module, of an array, and of what is a scalar of NumPy's and a 0-d array here:
#: neither can be looked up by.
OF_SCALARS = [
    lambda m, x, n: (m.std(x, ddof=n), m.nanvar(x, axis=1, ddof=n)),
    lambda m, x, n: m.histogram(x, n),
    lambda m, x, n: m.histogram(x, bins=4, range=(-n, n)),
    lambda m, x, n: m.histogramdd(x[:, :2], n)[0],
]


@pytest.mark.parametrize("call", OF_SCALARS)
def test_0d_arrays_serve_as_scalars(device, call):
    numbers = np.cos(np.arange(12.0)).reshape(3, 4)
    for _ in range(2):  # new, and seen before
        mine = call(cm, cm.asarray(numbers, copy=True), cm.max(cm.asarray([1, 2])))
        theirs = call(np, numbers, np.max([1, 2]))
        for got, expected in (
            zip(mine, theirs, strict=True) if isinstance(theirs, tuple) else [(mine, theirs)]
        ):
            assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-12)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_and_dtypes_of_numpy(device, call):
    mine, theirs = call(cm, lambda x: cm.asarray(x, copy=True)), call(np, np.asarray)
    for got, expected in (
        zip(mine, theirs, strict=True) if isinstance(theirs, tuple) else [(mine, theirs)]
    ):
        assert got.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(
            np.asarray(got), expected, rtol=1e-12 if got.dtype == np.float64 else 1e-6
        )


@pytest.mark.simulator
def test_variances_of_large_numbers_simulated(monkeypatch):
    with simulated_gpu(monkeypatch):
        for numbers in (
            np.full(3, 2e19, "f4"),
            np.array([2e19, 2e19, 3e19, 3e19], "f4"),
            np.array([1e200]),
        ):
            np.testing.assert_allclose(
                np.asarray(cm.var(cm.asarray(numbers))), np.var(numbers), rtol=1e-6
            )


def check_medians_of_the_smallest(lengths):
    for dtype in ("f2", "f4", "f8"):
        tiny, most = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
        for n in lengths:
            for low, high in ((5 * tiny, 5 * tiny), (tiny, 3 * tiny), (-most, most)):
                x = np.array([high] * (n - n // 2) + [low] * (n // 2) + [np.nan], dtype)
                below, above = np.sort(x[:n])[[(n - 1) // 2, n // 2]]
                expected = float(below) if n % 2 else (float(below) + float(above)) / 2
                assert float(cm.nanmedian(cm.asarray(x))) == expected, (dtype, n, low, high)


def test_medians_of_the_smallest_numbers(device):
    """The sum of two halves, each of which had been rounded: of float16(3e-7) 2.4e-7."""
    check_medians_of_the_smallest((1, 2, 7, 8, 5000))


@pytest.mark.simulator
def test_medians_of_the_smallest_numbers_simulated(monkeypatch):
    from cudamath.ops import statistics

    monkeypatch.setattr(statistics, "_SHORT", 0)
    with simulated_gpu(monkeypatch):
        check_medians_of_the_smallest((2, 7))


EIGHTHS, KEPT = np.array([1.875, 2.125, 2.875], "f4"), np.array([True, False, True])


TURNED = np.array([1 + 2j, 3 - 1j, 0.5])


def at(m: Any, function: str, x: Any, values: Any) -> Any:
    """What `ufunc.at` leaves, where one position occurs twice."""
    getattr(m, function).at(x, [0, 2, 0], values)
    return x


def diagonal(m: Any, x: Any, values: Any, wrap: bool) -> Any:
    """What `fill_diagonal` leaves."""
    m.fill_diagonal(x, values, wrap)
    return x


def over(m: Any, x: Any) -> Any:
    """Quotients and remainders, the first of which are written into what both are of."""
    return m.divmod(x, 3, out=(x, None))


#: Functions of the module and of a function that makes its arrays, whose answers are NumPy's.
REVIEWED_CALLS = [
    # the dtype of a variance about a given mean
    *[
        lambda m, a, f=f, t=t, n=n: getattr(m, f)(
            a(EIGHTHS), dtype=t, mean=n if isinstance(n, float) else a(n)
        )
        for f in ("var", "std", "nanvar", "nanstd")
        for t in (None, "f4", "f8")
        for n in (3.25, np.array([3.25]), np.array([3.25], "f4"))
    ],
    *[
        lambda m, a, f=f, k=k: getattr(m, f)(a(EIGHTHS), where=a(KEPT), **k)
        for f in ("var", "std")
        for k in ({}, {"dtype": "f8"}, {"mean": 2.5}, {"mean": 2.5, "dtype": "f8"}, {"ddof": 1})
    ],
    lambda m, a: m.var(a([1, 2, 3]), mean=a(np.array([2.5], "f4")), dtype="f4"),
    lambda m, a: m.mean(a(TURNED), dtype="c8"),
    lambda m, a: m.mean(a(TURNED), dtype="c8", where=a(KEPT)),
    # bools are numbers, 0 and 1
    *[
        lambda m, a, x=x, b=b, r=r: m.digitize(a(x), a(b), right=r)
        for x, b in ((KEPT, [0, 0.5]), (EIGHTHS, [False, True]), (KEPT, [True, False]))
        for r in (True, False)
    ],
]


@pytest.mark.parametrize("call", REVIEWED_CALLS)
def test_results_agree_with_numpy(call, device):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(np, lambda x: np.array(x))
    agree(call(cm, lambda x: cm.asarray(np.array(x))), theirs)


#: Calls that are refused: (function, error, how its message begins).
REFUSED: list[tuple[Any, type[Exception], str]] = [
    # with `where=` nobody had asked whether the dtype will do
    *[
        (
            lambda f=f, k=k: getattr(cm, f)(cm.asarray(EIGHTHS), dtype="i4", **k),
            TypeError,
            f"{f}: wants a floating-point",
        )
        for f in ("var", "std", "nanvar", "nanstd")
        for k in ({"where": KEPT}, {"mean": 2.0}, {"where": KEPT, "mean": 2.0})
    ],
    *[
        (
            lambda f=f, k=k: getattr(cm, f)(cm.asarray(TURNED), dtype="f8", **k),
            TypeError,
            f"{f}: complex128 of shape (3,) would lose its imaginary part in dtype float64",
        )
        for f in ("var", "std", "nanvar", "nanstd", "nanmean")
        for k in ({}, {"where": KEPT})
    ],
    (
        lambda: cm.std(cm.asarray(EIGHTHS), where=KEPT, ddof="one"),
        TypeError,
        "std: correction must be a number",
    ),
]


@pytest.mark.parametrize(("call", "error", "begins"), REFUSED)
def test_invalid_calls_are_refused(call, error, begins, device):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(begins)


@pytest.mark.parametrize("method", ["lower", "midpoint", "linear", "nearest", "higher"])
def test_quantiles_that_are_elements(device, method):
    """A third of 24 steps is 8 of them: not what lies 1e-15 below it, which is another element."""
    for n, q in ((7, 2 / 3), (25, 1 / 3), (28, 2 / 3), (1_000_001, 0.123456)):
        x = np.random.default_rng(0).permutation(n).astype("f8")
        want = np.quantile(x, q, method=method)
        assert want == int(want)
        for dtype in ("float64", "float32"):
            if (
                dtype == "float32" and method == "linear" and n > 100
            ):  # there places are computed in float32
                continue
            ours = cm.asarray(x).astype(dtype)
            with_nan = cm.concatenate((ours, cm.full(3, cm.nan, dtype=dtype)))
            assert float(cm.quantile(ours, q, method=method)) == want
            assert float(cm.nanquantile(with_nan, q, method=method)) == want
            where = np.asarray(cm.grad(lambda x: cm.nanquantile(x, q, method=method))(with_nan))  # noqa: B023
            np.testing.assert_array_equal(np.flatnonzero(where), np.flatnonzero(x == want))
