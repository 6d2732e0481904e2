"""Searching and counting against NumPy: searchsorted, digitize, bincount, histograms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BF16, awkward, shapes

import cudamath as cm
from cudamath.ops.histogram import _bin_sums

REAL = [np.dtype(t) for t in ("?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8")] + [BF16]
EXAMPLES = settings(max_examples=30)


def wide(x):
    return x.astype(np.float32) if x.dtype == BF16 else x


def same(got, expected):
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(wide(np.asarray(got)), wide(expected))


@EXAMPLES
@given(
    data=st.data(),
    seed=st.integers(0, 9999),
    dtypes=st.tuples(*[st.sampled_from(REAL)] * 2),
    n=st.integers(0, 30),
    side=st.sampled_from(["left", "right"]),
)
def test_searchsorted(device, data, seed, dtypes, n, side):
    rng = np.random.default_rng(seed)
    a, v = (
        rng.choice(awkward(t), s).astype(t)
        for t, s in zip(dtypes, (n, data.draw(shapes(3))), strict=True)
    )
    common = cm.result_type(*dtypes)
    sorter = np.argsort(wide(a), kind="stable")
    expected = np.searchsorted(wide(a[sorter].astype(common)), wide(v.astype(common)), side)
    same(cm.searchsorted(cm.asarray(a[sorter]), cm.asarray(v), side), np.asarray(expected))
    same(
        cm.searchsorted(cm.asarray(a), cm.asarray(v), side, cm.asarray(sorter)),
        np.asarray(expected),
    )


@EXAMPLES
@given(seed=st.integers(0, 9999), shape=shapes(3), right=st.booleans(), falling=st.booleans())
def test_digitize(device, seed, shape, right, falling):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 9, shape).astype("f4")
    bins = np.sort(rng.integers(-2, 8, 5)).astype("f8")[:: -1 if falling else 1]
    same(
        cm.digitize(cm.asarray(x), cm.asarray(bins), right), np.asarray(np.digitize(x, bins, right))
    )


@EXAMPLES
@given(
    seed=st.integers(0, 9999),
    n=st.integers(0, 300),
    dtype=st.sampled_from(["i1", "u2", "i8", "?"]),
    least=st.integers(0, 9),
)
def test_bincount(device, seed, n, dtype, least):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2 if dtype == "?" else 100, n).astype(dtype)
    w = rng.standard_normal(n)
    same(cm.bincount(cm.asarray(x), minlength=least), np.bincount(x, minlength=least))
    got = cm.bincount(cm.asarray(x), cm.asarray(w), least)
    np.testing.assert_allclose(np.asarray(got), np.bincount(x, w, least), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", ["?", "i4", "u1", "f2", "f4", "f8", BF16])
def test_range_of_few_and_of_many(device, dtype):
    """Few numbers are looked at by the host, many by the device."""
    for n in (1, 64, 40_000):
        x = np.random.default_rng(n).integers(0, 2 if dtype == "?" else 60, n).astype(dtype)
        counts, edges = cm.histogram(cm.asarray(x)[::-1], 7)
        expected = np.histogram(x.astype("u1") if dtype == "?" else wide(x), 7)
        np.testing.assert_array_equal(np.asarray(counts), expected[0])
        np.testing.assert_allclose(
            np.asarray(edges), expected[1], rtol=1e-3 if dtype == "f2" else 1e-6
        )
    x = np.array([1.0, np.nan, 2.0])
    with pytest.raises(
        ValueError, match=r"histogram: the range of x of shape \(3,\) is not finite"
    ):
        cm.histogram(cm.asarray(x), 4)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f4", "f8"])
@pytest.mark.parametrize("n", [1, 100, 8192, 40_000])
def test_edges_from_the_data(device, dtype, n):
    """The bits of NumPy's edges and its counts, for numbers on edges as well; a call that was seen
    before."""
    rng = np.random.default_rng(n)
    top = {"?": 2, "i1": 100, "u2": 60_000, "i4": 1 << 30, "u8": 1 << 34}.get(dtype, 1000)
    x = rng.integers(0 if dtype in "?u2u8" else -top, top, n).astype(dtype)
    x = x / np.asarray(7, dtype) if dtype in ("f4", "f8") else x
    for bins in (1, 16, 100, 8192, 8193):
        expected = np.histogram(x.view("u1") if dtype == "?" else x, bins)
        for _ in range(2):
            for got, wanted in zip(cm.histogram(cm.asarray(x), bins), expected, strict=True):
                same(got, wanted)
    ours = cm.asarray(np.stack([x, x])).T  # in no order that a kernel wants
    same(cm.histogram(ours, 5)[0], 2 * np.histogram(x.view("u1") if dtype == "?" else x, 5)[0])


@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("n", [0, 1, 100, 40_000])
def test_edges_between_given_numbers(device, dtype, n):
    """The bits of NumPy's edges and its counts, for numbers on edges as well; calls that were seen
    before, of other ends."""
    x = (
        np.random.default_rng(n)
        .integers(0 if dtype in "?u8" else -60, 2 if dtype == "?" else 60, n)
        .astype(dtype)
    )
    x = x / np.asarray(8, dtype) if dtype[0] == "f" else x
    for bins in (1, 16, 9000) if dtype != "f2" else (1, 16):
        for ends in (
            (0, 5),
            (1, 6),
            (-2.5, 0.1),
            (0, 0.1),
            (3, 3),
            (2.0, 2.5),
            (-1e9, 10**9),
            tuple(np.float32([0, 0.1])),
        ):
            if dtype == "f2" and ends[0] in (-1e9, 2.0):
                continue
            try:
                expected = np.histogram(x.view("u1") if dtype == "?" else x, bins, ends)
            except ValueError:
                with pytest.raises(ValueError, match=f"histogram: {bins} bins are too many"):
                    cm.histogram(cm.asarray(x), bins, ends)
                continue
            for got, wanted in zip(cm.histogram(cm.asarray(x), bins, ends), expected, strict=True):
                same(got, wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [2, 20_000])
@pytest.mark.parametrize(
    "ends", [(0, np.inf), (-np.inf, 0), (np.nan, 1), (0, 3e-45), (-3e38, 3e38), (1, 1.0000001)]
)
def test_no_such_edges(device, n, ends):
    x = np.resize(np.array(ends, "f4"), n)
    good = cm.asarray(np.resize(np.float32([0, 1]), n))
    with pytest.raises(ValueError):
        np.histogram(x, 4)
    for _ in range(2):
        cm.histogram(good, 4)
        with pytest.raises(
            ValueError,
            match="histogram: (the range of x of shape .* is not finite|4 bins are too many)",
        ):
            cm.histogram(cm.asarray(x), 4)
    with pytest.raises(ValueError, match="histogram_bin_edges: "):
        cm.histogram_bin_edges(cm.asarray(x), 4)


def test_many_bins(device):
    x = np.random.default_rng(0).integers(0, 50_000, 20_000)
    same(cm.bincount(cm.asarray(x)), np.bincount(x))


@EXAMPLES
@given(
    seed=st.integers(0, 9999),
    shape=shapes(2, 40),
    dtype=st.sampled_from(["f4", "f8", "i4", "u1"]),
    bins=st.sampled_from([1, 7, 10, 100]),
    limits=st.sampled_from([None, (0, 5), (-2.5, 0.1)]),
    density=st.booleans(),
)
def test_histogram(device, seed, shape, dtype, bins, limits, density):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * 4).astype("f8" if dtype != "u1" else "u1").astype(dtype)
    expected, edges = np.histogram(x, bins, limits, density)
    counts, ours = cm.histogram(cm.asarray(x), bins, limits, density)
    same(ours, edges)
    if density:
        np.testing.assert_allclose(np.asarray(counts), expected, rtol=1e-14)
    else:
        same(counts, expected)
    weights = rng.random(shape)
    counts, _ = cm.histogram(cm.asarray(x), bins, limits, weights=cm.asarray(weights))
    np.testing.assert_allclose(
        np.asarray(counts),
        np.histogram(x, bins, limits, weights=weights)[0],
        rtol=1e-12,
        atol=1e-14,
    )


@pytest.mark.parametrize("way", ["auto", "fd", "doane", "scott", "rice", "sturges", "sqrt"])
@pytest.mark.parametrize("dtype", ["f8", "i4"])
@pytest.mark.parametrize("limits", [None, (-1, 30)])
def test_number_of_bins(device, way, dtype, limits):
    x = (np.random.default_rng(2).gamma(2.0, 9.0, 300)).astype(dtype)
    np.testing.assert_allclose(
        np.asarray(cm.histogram_bin_edges(cm.asarray(x), way, limits)),
        np.histogram_bin_edges(x, way, limits),
        rtol=1e-14,
    )


@pytest.mark.parametrize(
    "dtype, bins, limits",
    [
        *[(t, 1040, (-100, 100)) for t in ("f4", "f8", "i4")],
        *[
            (t, *how)
            for t in ("f2", "f4", "f8", "i4", "bfloat16")
            for how in ((97, (-3.3, 7.1)), (11, None), ("auto", None), ("rice", (-3.3, 7.1)))
        ],
    ],
)
def test_counts_are_those_between_the_edges(device, dtype, bins, limits):
    """Also where a float32 is no end that was given: the edges were others than those that had been
    counted between."""
    x = cm.asarray((np.random.default_rng(4).standard_normal(50_000) * 3).astype("f4")).astype(
        dtype
    )
    counts, edges = cm.histogram(x, bins, limits)
    exact, edges = np.asarray(x).astype("f8"), np.asarray(edges).astype("f8")
    places = np.searchsorted(edges, exact[(exact >= edges[0]) & (exact <= edges[-1])], "right") - 1
    np.testing.assert_array_equal(
        np.asarray(counts),
        np.bincount(np.minimum(places, edges.size - 2), minlength=edges.size - 1),
    )


def test_uneven_edges_and_what_lies_outside(device):
    x = np.array([-1.0, 0.0, 0.5, 1.0, 3.0, 4.0, 4.5, np.nan])
    edges = np.array([0, 1, 1, 4.0])
    same(cm.histogram(cm.asarray(x), cm.asarray(edges))[0], np.histogram(x, edges)[0])
    got = cm.histogram(cm.asarray(x), cm.asarray(edges), weights=cm.asarray(x * 2))[0]
    np.testing.assert_array_equal(
        np.asarray(got), np.histogram(x[:-1], edges, weights=x[:-1] * 2)[0]
    )


def test_no_bins(device):
    """One edge, or none: counts, or sums in the weights' dtype, of length zero."""
    x = cm.asarray([1.0, 2.0])
    for edges in ([1.0], []):
        for weights in (None, np.ones(2, np.float32), np.ones(2), np.ones(2, np.int32)):
            counts, ours = cm.histogram(x, edges, weights=weights)
            expected, theirs = np.histogram([1.0, 2.0], edges, weights=weights)
            same(counts, expected)
            same(ours, theirs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bins", [4, (3, 5), [[0, 1, 2], [0.5, 1.0, 4.0]], [3, [0, 1.5]]], ids=str)
def test_several_dimensions(device, bins, weighted):
    rng = np.random.default_rng(1)
    x, y = rng.gamma(2.0, 1.0, (2, 200))
    w = rng.random(200) if weighted else None
    ours_w = None if w is None else cm.asarray(w)
    for density in (False, True):
        theirs = np.histogram2d(x, y, bins, density=density, weights=w)
        ours = cm.histogram2d(cm.asarray(x), cm.asarray(y), bins, density=density, weights=ours_w)
        for got, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-12)
    points = np.stack([x, y, x + y], 1)
    counts, edges = cm.histogramdd(cm.asarray(points), 3, [(0, 4), (0, 3), (1, 5)], weights=ours_w)
    expected, bounds = np.histogramdd(points, 3, [(0, 4), (0, 3), (1, 5)], weights=w)
    np.testing.assert_allclose(np.asarray(counts), expected, rtol=1e-12)
    for got, bound in zip(edges, bounds, strict=True):
        np.testing.assert_allclose(np.asarray(got), bound)


def test_gradient_of_weights(device):
    x, w = cm.asarray([0.1, 0.9, 2.5]), cm.asarray([1.0, 2.0, 3.0])
    scale = cm.asarray([1.0, 10.0])
    gradient = cm.grad(lambda w: (cm.histogram(x, [0.0, 0.5, 1.0], weights=w)[0] * scale).sum())(w)
    assert gradient.tolist() == [1, 10, 0]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", cm.bfloat16], ids=str)
@pytest.mark.parametrize("bins", [1, 7, 1000, 1500, 3000, 6000, 12_000, 13_000])
def test_weighted_counts(device, bins, dtype):
    """Tables of eight warps, of four, of two, of one, and the sort; some bins meet many numbers in
    a row."""
    rng = np.random.default_rng(bins)
    for n in (1, 33, 100_003):
        x = rng.integers(0, bins, n).astype("i4" if bins % 2 else "u2")
        x[n // 2 : n // 2 + 5000] = bins - 1
        w = rng.standard_normal(n).astype(dtype)
        wider = cm.bincount(cm.asarray(x), cm.asarray(w), bins)
        assert wider.dtype == np.float64
        np.testing.assert_allclose(
            np.asarray(wider), np.bincount(x, w.astype("f8"), bins), rtol=1e-9, atol=1e-9
        )
        got = _bin_sums(cm.asarray(w), cm.asarray(x), bins=bins)
        assert got.dtype == w.dtype
        wide = w.astype("f8")
        bound = np.bincount(x, abs(wide), bins) * {"f8": 1e-15, "f4": 1e-6}.get(dtype, 1e-6) * 10
        expected = np.bincount(x, wide, bins)
        rounding = abs(expected) * {"f2": 2**-11, "f8": 0, "f4": 0}.get(dtype, 2**-8)
        assert (
            abs(np.asarray(got).astype("f8") - expected)
            <= bound + rounding + 1e-7 * (np.dtype(dtype).itemsize == 2)
        ).all()
        again = _bin_sums(cm.asarray(w), cm.asarray(x), bins=bins)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(again))  # the same bits
        strided = _bin_sums(
            cm.asarray(np.repeat(w, 3))[::3], cm.asarray(np.repeat(x, 2))[::2], bins=bins
        )
        np.testing.assert_array_equal(np.asarray(got), np.asarray(strided))


def test_gradient_of_counts(device):
    w = cm.asarray([1.0, 2.0, 3.0])
    gradient = cm.grad(
        lambda w: (cm.bincount(cm.asarray([2, 0, 2]), w) * cm.asarray([1.0, 5.0, 7.0])).sum()
    )(w)
    assert gradient.tolist() == [7, 1, 7]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: cm.searchsorted(cm.zeros((2, 2)), 1.0), ValueError, r"searchsorted: .*\(2, 2\)"),
        (
            lambda: cm.searchsorted(cm.zeros(2), 1.0, "middle"),
            ValueError,
            "searchsorted: side .*middle",
        ),
        (
            lambda: cm.searchsorted(cm.zeros(2), 1.0, sorter=cm.asarray([0])),
            ValueError,
            r"searchsorted: sorter .*\(1,\)",
        ),
        (lambda: cm.digitize(cm.zeros(2, "c8"), [1.0]), TypeError, "digitize: .*complex64"),
        (
            lambda: np.asarray(cm.digitize(cm.zeros(2), [1.0, 3.0, 2.0])),
            ValueError,
            "digitize: bins",
        ),
        (lambda: cm.bincount(cm.zeros(2)), TypeError, "bincount: .*float64"),
        (lambda: cm.bincount(cm.asarray([1, -1])), ValueError, "bincount: .*-1"),
        (lambda: cm.bincount(cm.zeros((2, 2), "i4")), ValueError, r"bincount: .*\(2, 2\)"),
        (
            lambda: cm.bincount(cm.asarray([1, 1]), [1.0]),
            ValueError,
            r"bincount: weights of shape \(1,\)",
        ),
        (lambda: cm.histogram(cm.zeros(2), 0), ValueError, "histogram: .*0"),
        (lambda: cm.histogram(cm.zeros(2), "many"), ValueError, "histogram: bins .*many"),
        (lambda: cm.histogram(cm.zeros(2), [2.0, 1.0]), ValueError, "histogram: .*ascend"),
        (lambda: cm.histogram(cm.zeros(2), 3, (2, 1)), ValueError, "histogram: range"),
        (lambda: cm.histogram(cm.asarray([np.inf, 0.0]), 3), ValueError, "histogram: .*finite"),
        (
            lambda: cm.histogramdd((cm.zeros(3), cm.zeros(2))),
            ValueError,
            r"histogramdd: .*\(3,\) \(2,\)",
        ),
        (
            lambda: cm.histogram2d(cm.zeros(3), cm.zeros(2)),
            ValueError,
            r"histogram2d: .*\(3,\) and \(2,\)",
        ),
    ],
)
def test_errors(device, call, error, words):
    with pytest.raises(error, match=words):
        call()
