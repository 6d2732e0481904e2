"""Functions that were compositions and are one kernel now: their kernels in the simulator and, on
every device, against NumPy; that they are one launch, on the fake driver."""

from __future__ import annotations

import numpy as np
import pytest
from fake_driver import FakeDriver, gpu

import cudamath as cm
from cudamath.core.dispatch.op import registry
from cudamath.core.layout import Layout
from cudamath.testing import layout_of, simulate

METHODS = (
    "linear",
    "lower",
    "higher",
    "midpoint",
    "nearest",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "median_unbiased",
    "normal_unbiased",
)
RNG = np.random.default_rng(0)


def with_nan(dtype: str) -> np.ndarray:
    """(6, 11): a line without numbers, one with a single number, one with every other, whole
    ones."""
    x = RNG.normal(size=(6, 11)).astype(dtype)
    x[0], x[1, 1:], x[2, ::2] = np.nan, np.nan, np.nan
    return x


# -------------------- grids


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_triangles_of_indices(device, name):
    for n, m in ((0, None), (1, None), (7, None), (5, 0), (5, 9), (9, 5), (3, 1100)):
        for k in (-99, -5, -1, 0, 1, 4, 99, 1 << 70):
            for _ in range(2):  # the second time it is looked up
                got, want = getattr(cm, name)(n, k, m), getattr(np, name)(n, min(k, 9999), m)
                for a, b in zip(got, want, strict=True):
                    assert a.dtype == np.int64
                    np.testing.assert_array_equal(np.asarray(a), b)


def test_triangles_refuse():
    with pytest.raises(ValueError, match="tril_indices: "):
        cm.tril_indices(-1)
    with pytest.raises(TypeError, match="^triu_indices: k must be an integer, got 0.5"):
        cm.triu_indices(3, 0.5)
    for _ in range(2):
        assert cm.tril_indices(3)[0].size == 6
        with pytest.raises(TypeError, match="^tril_indices: "):
            cm.tril_indices(3.0)


def test_powers(device):
    for args in (
        (0, 1, 64),
        (-1, 3, 9),
        (3, -2, 1),
        (0, 8, 4, False, 2.0),
        (0.5, 2, 7, True, 3),
        (0, 1, 5, True, 0.5),
    ):
        for dtype, rtol in ((None, 4e-15), ("float32", 1e-6), ("float16", 1e-3)):
            for _ in range(2):
                got, want = cm.logspace(*args, dtype=dtype), np.logspace(*args, dtype=dtype)
                assert got.dtype == want.dtype
                np.testing.assert_allclose(np.asarray(got), want, rtol=rtol)
    assert cm.logspace(0, 2, 3, dtype="int32").tolist() == [1, 10, 100] and cm.logspace(
        0, 1, 0
    ).shape == (0,)
    assert np.isnan(np.asarray(cm.logspace(0.5, 1.5, 2, base=-1.0))).all()


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(device, name):
    for n in (0, 1, 2, 3, 64, 1001, -1, 5.0):
        for _ in range(2):
            got, want = getattr(cm, name)(n), getattr(np, name)(n)
            assert got.dtype == np.float64
            np.testing.assert_allclose(np.asarray(got), want, atol=1e-15)
    cm.set_default_dtype("float32")
    try:
        got = getattr(cm, name)(64)
        assert got.dtype == np.float32
        np.testing.assert_allclose(np.asarray(got), getattr(np, name)(64), atol=2e-7)
    finally:
        cm.set_default_dtype("float64")


def test_indices_unravelled(device):
    for shape in ((7,), (4, 5), (2, 3, 4), (3, 1, 2, 2), (5, 1 << 40)):
        count = min(np.prod(shape, dtype=np.int64), 60)
        for at in (
            np.arange(count),
            np.arange(count).reshape(-1, 1).astype("u1"),
            np.int64(count - 1),
            np.zeros((0,), "i4"),
        ):
            for order in ("C", "F"):
                got, want = (
                    cm.unravel_index(cm.asarray(at), shape, order),
                    np.unravel_index(at, shape, order),
                )
                for a, b in zip(got, want, strict=True):
                    assert a.dtype == np.int64
                    np.testing.assert_array_equal(np.asarray(a), b)
        for wrong in (
            np.array([0, -1]),
            np.array([0, np.prod(shape, dtype=np.int64)]),
            np.array([-(1 << 63)]),
        ):
            with pytest.raises(ValueError, match="unravel_index: an index is out of bounds"):
                cm.unravel_index(cm.asarray(wrong), shape)
    places = cm.arange(3)
    cm.unravel_index(places, (3,))[0][0] = 9  # a new array, of one axis as well
    assert places.tolist() == [0, 1, 2]


def test_many_indices_unravelled(device):
    """More than the host looks at itself."""
    at = np.arange(3000) % 20
    for a, b in zip(
        cm.unravel_index(cm.asarray(at), (4, 5)), np.unravel_index(at, (4, 5)), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(a), b)
    for wrong in (-1, 20):
        at[2999] = wrong
        with pytest.raises(ValueError, match="unravel_index: an index is out of bounds"):
            cm.unravel_index(cm.asarray(at), (4, 5))


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        *[("float32", kind) for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")],
        *[(dtype, kind) for dtype in ("float16", "bfloat16", "float64") for kind in ("i2", "i8")],
    ],
)
def test_powers_of_two(device, dtype, kind):
    """Exponents are read in their own dtype, whatever their size; a second call finds its plan by
    both layouts."""
    rng = np.random.default_rng(0)
    dtype, limits = np.dtype(getattr(cm, dtype)), np.iinfo(kind)
    x = (rng.standard_normal((5, 7)) * 10.0 ** rng.integers(-6, 5, (5, 7))).astype(dtype)
    x[0, :5] = 0, -0.0, np.inf, -np.inf, np.nan
    for shape in ((5, 7), (7,), (5, 1), ()):
        i = np.asarray(rng.integers(max(limits.min, -1100), min(limits.max, 1100), shape)).astype(
            kind
        )
        if i.ndim:
            i.flat[-2:] = limits.min, limits.max
        fitting = np.array(np.clip(i.astype(object), -4000, 4000)).astype("i4")
        with np.errstate(all="ignore"):
            want = np.ldexp(x.astype("f8"), fitting).astype(dtype).astype("f8")  # rounded once
        ours, exponents = cm.asarray(x), cm.asarray(i)
        for _ in range(2):
            for got in (
                cm.ldexp(ours, exponents),
                cm.ldexp(ours, exponents, out=cm.zeros_like(ours)),
                cm.ldexp(
                    ours.T, exponents.T if i.ndim == 2 else exponents.reshape((*i.shape, 1))
                ).T,
            ):
                assert got.dtype == dtype
                np.testing.assert_array_equal(np.asarray(got).astype("f8"), want)


def test_powers_of_two_of_numbers(device):
    x = cm.asarray([1.5, -3.0])
    for i in (3, -2000, 2**62, -(2**62), np.int8(-7)):
        with np.errstate(all="ignore"):
            want = np.ldexp([1.5, -3.0], np.int64(i))
        assert [cm.ldexp(x, i).tolist() for _ in range(2)] == [want.tolist()] * 2
    with pytest.raises(OverflowError, match="ldexp: "):
        cm.ldexp(x, 2**64)
    with pytest.raises(TypeError, match="ldexp: the exponents are integers, got float64"):
        cm.ldexp(x, x)
    slope = cm.grad(lambda x: cm.ldexp(x, cm.asarray([1, 2])).sum() + cm.ldexp(x, 3).sum())
    assert [slope(x).tolist() for _ in range(2)] == [[10.0, 12.0]] * 2


def test_kaiser(device):
    for beta in (0, 0.5, 8.6, 14.0, 100, -3.0, 600.0):
        for n in (0, 1, 2, 3, 64, 1001, -1):
            for _ in range(2):
                got = cm.kaiser(n, beta)
                assert got.dtype == np.float64
                np.testing.assert_allclose(
                    np.asarray(got), np.kaiser(n, beta), rtol=1e-13, atol=1e-15
                )


@pytest.mark.simulator
def test_mantissas_simulated():
    from cudamath.kernels.numeric import frexp as numeric_frexp

    x = np.array([0, 1, -6, np.inf, 0.3], np.float32)
    m, e = simulate(numeric_frexp.frexp(layout_of(x)), x)
    np.testing.assert_array_equal(m, np.where(np.isfinite(x), np.frexp(x)[0], x))
    assert e.tolist() == [0, 1, 3, 0, -1]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_mantissas_and_exponents(device, dtype):
    x = np.array(
        [0, 1, -2, 6, -0.25, 1e-3, 1000] if dtype[0] == "f" else [0, 1, -2, 7, 1000]
    ).astype(dtype)
    if dtype != "i4":
        info = np.finfo(dtype)
        x = np.concatenate(
            [x, np.array([np.inf, -np.inf, np.nan, info.max, info.tiny, -0.0]).astype(dtype)]
        )
    if dtype in ("f4", "f8"):
        x = np.concatenate([x, np.array([info.smallest_subnormal, -3 * info.smallest_subnormal])])
    for given in (x, np.stack([x, x[::-1]]).T):
        m, e = cm.frexp(cm.asarray(given))
        want, power = np.frexp(given)
        assert (m.dtype, e.dtype) == (want.dtype, np.int32)
        np.testing.assert_array_equal(np.asarray(m), want)
        np.testing.assert_array_equal(np.signbit(np.asarray(m)), np.signbit(want))
        np.testing.assert_array_equal(np.asarray(e), np.where(np.isfinite(given), power, 0))
    if dtype in ("f4", "f8"):
        slope = cm.grad(lambda v: (cm.frexp(v)[0] * 3).sum())(
            cm.asarray(np.array([6, -0.25, 1], dtype))
        )
        np.testing.assert_array_equal(np.asarray(slope), 3 / np.array([8, 0.5, 2]))


@pytest.mark.simulator
def test_grids_simulated():
    from cudamath.kernels.shape import index_grids

    for upper, numpys in ((False, np.tril_indices), (True, np.triu_indices)):
        for n, m, k in ((3, 5, 0), (3, 5, 2), (5, 3, -1), (1, 4, -1), (4, 4, 4), (4, 4, -4)):
            want = numpys(n, k, m)
            line = Layout.new(want[0].shape, want[0].dtype, 0)
            plan = index_grids.triangle(layout=line, device=0, rows=n, columns=m, k=k, upper=upper)
            np.testing.assert_array_equal(simulate(plan), want)
    wide = np.dtype(np.float64)
    powers = index_grids.powers(layout=Layout.new((5,), wide, 0), device=0, count=4, kind=wide)
    np.testing.assert_allclose(
        simulate(powers, scalars=(0.0, 0.25, 1.0, 10.0)), np.logspace(0, 1, 5), rtol=1e-15
    )
    kaiser = index_grids.kaiser(layout=Layout.new((5,), wide, 0), device=0)
    np.testing.assert_allclose(simulate(kaiser, scalars=(8.6,)), np.kaiser(5, 8.6), rtol=1e-14)
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        window = simulate(index_grids.window(layout=Layout.new((5,), wide, 0), device=0, kind=name))
        np.testing.assert_allclose(window, getattr(np, name)(5), atol=1e-15)


# -------------------- order statistics


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_between_nan(device, method):
    for dtype in ("float32", "float64"):
        x = with_nan(dtype)
        for q in (0.0, 0.1, 0.3, 0.5, 0.75, 1.0, [0.2, 0.5], [[0.1]], []):
            for axis in (None, 0, 1):
                with (
                    np.errstate(all="ignore"),
                    pytest.warns(RuntimeWarning) if axis else np.errstate(),
                ):
                    want = np.nanquantile(x, q, axis, method=method)
                got = cm.nanquantile(cm.asarray(x), q, axis, method=method)
                # (NumPy's own dtype depends on whether all of the first line is NaN)
                wide = np.quantile(np.ones(3, dtype), q, method=method).dtype
                assert (got.dtype, got.shape) == (wide, want.shape)
                np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=2e-6)


@pytest.mark.filterwarnings("ignore:All-NaN")
def test_medians_between_nan(device):
    for dtype, tolerance in (("float16", 1e-3), ("float32", 1e-6), ("float64", 1e-15)):
        x = with_nan(dtype)
        for axis in (None, 0, 1):
            got = cm.nanmedian(cm.asarray(x), axis)
            assert got.dtype == x.dtype
            np.testing.assert_allclose(
                np.asarray(got), np.nanmedian(x.astype("f8"), axis), rtol=tolerance
            )


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_quantile_kernel_simulated(dtype):
    from cudamath.cpu import quantiles as host
    from cudamath.kernels.sort import quantiles

    x = np.sort(with_nan(dtype), -1)
    wide = np.dtype(np.float64 if dtype == "float64" else np.float32)
    for method in ("linear", *METHODS[1:8], "median"):
        for scalars in (
            (0.0, 1.0, 0.0),
            (0.3, 1.0, 0.0),
            (0.5, 0.0, -0.5),
            (0.5, 0.0, 0.0),
            (1.0, 0.0, 0.0),
        ):
            got = simulate(
                quantiles.nan_quantile(layout_of(x), method=method, wide=wide), x, scalars=scalars
            )
            want = host.nan_quantile(x, method=method, wide=wide, scalars=scalars)
            np.testing.assert_allclose(
                got.astype("f8"), want.astype("f8"), rtol=1e-3 if dtype == "float16" else 1e-6
            )


# -------------------- sets, indices


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8"])
def test_counts_of_distinct_elements(device, dtype):
    for n in (1, 2, 37, 5000):
        x = RNG.integers(0, 5 if dtype != "?" else 2, n).astype(dtype)
        if dtype[0] == "f":
            x[::2] = np.nan
        for equal_nan in (True, False):
            got = cm.unique(cm.asarray(x), return_counts=True, equal_nan=equal_nan)
            for a, b in zip(
                got, np.unique(x, return_counts=True, equal_nan=equal_nan), strict=True
            ):
                np.testing.assert_array_equal(np.asarray(a), b)
        got = cm.unique_counts(cm.asarray(x.reshape(1, -1)))
        np.testing.assert_array_equal(np.asarray(got.counts), np.unique_counts(x).counts)
        assert got.counts.dtype == np.int64 and got.values.dtype == dtype


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_where_distinct_elements_are(device, dtype):
    """The inverse of few numbers is searched for: zeros of both signs are one element, and so are
    NaN. (Where these are told apart, NumPy's order of them is that of its sort.)"""
    for n in (1, 40, 900):
        x = RNG.integers(-3, 3, n).astype(dtype)
        if dtype != "i4":
            x[::4], x[1::4] = np.nan, -0.0
        for more in ({}, {"return_counts": True}):
            got = cm.unique(cm.asarray(x), return_inverse=True, **more)
            for a, b in zip(got, np.unique(x, return_inverse=True, **more), strict=True):
                np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.simulator
def test_runs_simulated():
    from cudamath.cpu import stream_compaction as host
    from cudamath.kernels.index import stream_compaction

    for x in (
        np.sort(RNG.integers(0, 5, 37)),
        np.array([1.0, 2.0, 2.0, np.nan, np.nan]),
        np.ones(3, np.float16),
    ):
        for equal_nan in (True, False):
            values, counts, total = simulate(
                stream_compaction.runs(layout_of(x), capacity=x.size + 1 & -2, equal_nan=equal_nan),
                x,
            )
            want = host.runs(x, capacity=0, equal_nan=equal_nan)
            assert total.tolist() == want[2].tolist()
            np.testing.assert_array_equal(values[: total[0]], want[0])
            np.testing.assert_array_equal(counts[: total[0]], want[1])


def test_two_index_arrays(device):
    x = RNG.normal(size=(6, 5, 4, 3)).astype(np.float32)
    i, j = RNG.integers(-6, 6, (2, 7)), RNG.integers(-5, 5, (2, 7)).astype(np.int32)
    y = cm.asarray(x)
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(y[cm.asarray(i), cm.asarray(j)]), x[i, j])
        np.testing.assert_array_equal(
            np.asarray(y[:, cm.asarray(j), cm.asarray(j[:1] % 3)]), x[:, j, j[:1] % 3]
        )
        np.testing.assert_array_equal(
            np.asarray(y.T[:, 1][cm.asarray(i % 3), cm.asarray(j)]), x.T[:, 1][i % 3, j]
        )
        np.testing.assert_array_equal(
            np.asarray(y[0, 0][cm.asarray(i % 4), cm.asarray(i % 3)]), x[0, 0][i % 4, i % 3]
        )
    with pytest.raises(IndexError):
        np.asarray(y[cm.asarray([0, 6]), cm.asarray([0, 0])])
    with pytest.raises(IndexError):
        np.asarray(y[cm.asarray([0, 0]), cm.asarray([0, -6])])


def test_assignments_that_were_made_before(device):
    """The second one goes straight to the plan of the first, and does as NumPy: with values of its
    own memory as well."""
    host = RNG.normal(size=(6, 4)).astype(np.float32)
    x = cm.asarray(host)
    rows, mask = np.array([1, -1, 1]), RNG.random((6, 4)) > 0.5
    values = RNG.normal(size=(3, 4)).astype(np.float32)
    for number in (1, 2.5, 3):
        host[rows], x[cm.asarray(rows)] = values * number, cm.asarray(values * number)
        np.testing.assert_array_equal(np.asarray(x), host)
        host[rows], x[cm.asarray(rows)] = host[:3].copy(), x[:3]  # which overlap
        np.testing.assert_array_equal(np.asarray(x), host)
        host[mask], x[cm.asarray(mask)] = number, number
        host[rows[:2]], x[cm.asarray(rows[:2])] = number, number
        host[:, mask[0]], x[:, cm.asarray(mask[0])] = (
            number,
            number,
        )  # by a mask that is broadcast to x
        np.testing.assert_array_equal(np.asarray(x), host)
        with pytest.raises(IndexError):
            x[cm.asarray(mask[:1])] = number
    whole, places = np.arange(6)[::-1].copy(), cm.asarray(np.arange(6)[::-1].copy())
    for number in (3, 4):
        whole[whole], places[places] = number, number
        np.testing.assert_array_equal(np.asarray(places), whole)
        whole, places = np.arange(6), cm.arange(6)
    x = cm.zeros(4)
    for value in (1.0, 2.0):
        with pytest.raises(IndexError, match="test_one_launch|index"):
            x[cm.asarray([4])] = value
            np.asarray(x)


def test_keys_of_arrays_and_basic_parts_again(device):
    """Looked up the second time, by layouts and numbers with their classes."""
    host = RNG.normal(size=(6, 5, 4)).astype(np.float32)
    i, j = np.array([[1, -1, 1]]), np.array([[0], [3]])
    ours = (cm.asarray(i), cm.asarray(j))
    keys = [
        lambda i, j: (0, i),
        lambda i, j: (None, i),
        lambda i, j: (slice(1, 5), j),
        lambda i, j: (..., j),
        lambda i, j: (i, j),
        lambda i, j: (i, slice(None), j),
        lambda i, j: (slice(None), i, 1),
        lambda i, j: (2, j, i),
        lambda i, j: (slice(None, None, -1), i, j),
        lambda i, j: (i % 3, i, j),
        lambda i, j: (1, slice(2), i),
    ]
    for key in keys:
        x = host.copy()
        y = cm.asarray(x)
        for turn in range(3):
            np.testing.assert_array_equal(np.asarray(y[key(*ours)]), x[key(i, j)])
            for value in (
                turn,
                turn + 0.5,
                np.float32(turn),
                np.arange(x[key(i, j)].shape[-1], dtype="f4") + turn,
            ):
                x[key(i, j)], y[key(*ours)] = value, value
                np.testing.assert_array_equal(np.asarray(y), x)
    with pytest.raises(IndexError):
        y[0.0, ours[0]]
    for wrong in (
        (0, cm.asarray([5])),
        (cm.asarray([0, 6]), cm.asarray([0, 0])),
        (cm.asarray([0, 0]), cm.asarray([0, -6])),
    ):
        for _ in range(2):
            with pytest.raises(IndexError):
                np.asarray(y[wrong])
            with pytest.raises(IndexError):
                y[wrong] = 1
                np.asarray(y)
    for _ in range(2):  # positions that are written over are read first
        places = cm.asarray([[2, 0, 1], [1, 1, 1]])
        places[0, places[0]] = 5
        assert places.tolist() == [[5, 5, 5], [1, 1, 1]]


@pytest.mark.simulator
def test_numbers_by_pairs_simulated():
    from cudamath.kernels.index import scatter as index_scatter

    x = np.zeros((3, 4, 5, 2), np.float32)
    i, j = RNG.integers(-4, 4, (2, 3)), RNG.integers(-5, 5, (2, 3)).astype(np.int8)
    want = x.copy()
    want[:, i, j] = 7
    plan = index_scatter.scatter_number(*map(layout_of, (x, i, j)), axis=1)
    assert [step.kernel.__name__ for step in plan.steps] == ["place_number_by_pairs"]
    simulate(plan, x, i, j, scalars=(7.0,))
    np.testing.assert_array_equal(x, want)
    with pytest.raises(IndexError):
        simulate(plan, x, i, np.full_like(j, 5), scalars=(7.0,))


@pytest.mark.simulator
def test_gather_pairs_simulated():
    from cudamath.kernels.index import dispatch as index_dispatch

    x = RNG.normal(size=(3, 4, 5, 2)).astype(np.float32)
    i, j = RNG.integers(-4, 4, (2, 3)), RNG.integers(-5, 5, (2, 3)).astype(np.int8)
    np.testing.assert_array_equal(
        simulate(index_dispatch.gather(*map(layout_of, (x, i, j)), axis=1), x, i, j), x[:, i, j]
    )
    turned = x.transpose(1, 2, 0, 3)[:, :, 1]
    np.testing.assert_array_equal(
        simulate(index_dispatch.gather(*map(layout_of, (turned, i, j)), axis=0), turned, i, j),
        turned[i, j],
    )


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_slopes(device, dtype):
    tolerance = {"f2": 4e-3, "f4": 1e-5, "c8": 1e-5}.get(dtype, 1e-13)
    for shape in ((2,), (3,), (64,), (5, 6, 4)):
        x = (RNG.normal(size=shape) * (1 + 1j if dtype[0] == "c" else 1)).astype(dtype)
        for order in (1, 2):
            if min(shape) > order:
                for spacing in ((), (0.5,), (3,)):
                    want = np.gradient(
                        x.astype("c16" if dtype[0] == "c" else "f8"), *spacing, edge_order=order
                    )
                    got = cm.gradient(cm.asarray(x), *spacing, edge_order=order)
                    for a, b in zip(got, want, strict=True) if len(shape) > 1 else [(got, want)]:
                        assert a.dtype == dtype
                        np.testing.assert_allclose(np.asarray(a), b, rtol=tolerance, atol=tolerance)
    turned = RNG.normal(size=(4, 5)).astype("f4")
    np.testing.assert_allclose(
        np.asarray(cm.gradient(cm.asarray(turned).T, axis=0)),
        np.gradient(turned.T, axis=0),
        atol=1e-6,
    )


@pytest.mark.simulator
def test_slopes_simulated():
    from cudamath.kernels.numeric import finite_differences

    x = RNG.normal(size=(3, 5, 2)).astype("f4")
    for second in (False, True):
        got = simulate(
            finite_differences.gradient(layout_of(x), axis=1, second=second), x, scalars=(0.5,)
        )
        np.testing.assert_allclose(
            got, np.gradient(x, 0.5, axis=1, edge_order=1 + second), rtol=1e-5, atol=1e-5
        )


def test_gamma_numbers_again(device):
    """What is looked up the second time draws on as the first did, and as a generator that looks
    nothing up."""
    shapes = cm.asarray(RNG.uniform(0.5, 4, (7, 3)).astype("f4"))
    one, other = cm.random.default_rng(3), cm.random.default_rng(3)
    for _ in range(3):
        np.testing.assert_array_equal(
            np.asarray(one.standard_gamma(shapes)),
            np.asarray(other.gamma(shapes, size=shapes.shape)),
        )
        assert one.state == other.state


def test_joins_and_powers_of_numbers(device):
    v, w = RNG.normal(size=5).astype("f4"), np.arange(3)
    for a, b in ((v, v), (v, w), (w, w)):
        got = cm.append(cm.asarray(a), cm.asarray(b))
        assert got.dtype == np.append(a, b).dtype
        np.testing.assert_array_equal(np.asarray(got), np.append(a, b))
    for x in (abs(v), w, v.astype("c8"), w.astype("u1")):
        for y in (2, 0.5, -1):
            got, want = (
                cm.float_power(cm.asarray(x + x.dtype.type(1)), y),
                np.float_power(x + x.dtype.type(1), y),
            )
            assert got.dtype == want.dtype
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


# -------------------- systems


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_small_triangular_systems(device, dtype):
    for n, k in ((1, 1), (17, 3), (32, 16), (64, 64), (65, 5)):
        a = (RNG.normal(size=(n, n)) / n**0.5 + 2 * np.eye(n)).astype(dtype)
        b = RNG.normal(size=(n, k)).astype(dtype)
        for lower in (True, False):
            clean = (np.tril(a) if lower else np.triu(a)).astype("c16")
            for given in (cm.asarray(a), cm.asarray(np.ascontiguousarray(a.T)).T):
                for _ in range(2):
                    got = np.asarray(cm.linalg.solve_triangular(given, cm.asarray(b), lower=lower))
                    assert got.dtype == dtype
                    rounding = n * np.finfo(dtype).eps * (np.abs(clean) @ np.abs(got) + np.abs(b))
                    assert (np.abs(clean @ got - b) <= 4 * rounding).all()


# -------------------- volumes, draws


def windows(x: np.ndarray, kernel: int, stride: int, padding: int, fill: float) -> np.ndarray:
    """The windows of volumes as the last three axes, what lies outside filled."""
    wide = np.pad(x.astype("f8"), [(0, 0)] * 2 + [(padding, padding)] * 3, constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(wide, (kernel,) * 3, (2, 3, 4))
    return seen[:, :, ::stride, ::stride, ::stride]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_small_volumes(device, dtype):
    x = cm.asarray(RNG.normal(size=(2, 3, 6, 8, 7)), dtype=dtype)
    host = np.asarray(x.astype("float64"))
    tolerance = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (2, 1, 0), (1, 2, 0)):
        for _ in range(2):
            got = cm.ml.max_pool3d(x, kernel, stride, padding)
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(
                np.asarray(got.astype("float64")),
                windows(host, kernel, stride, padding, -np.inf).max((5, 6, 7)),
            )
            total = windows(host, kernel, stride, padding, 0).sum((5, 6, 7))
            inside = windows(np.ones_like(host), kernel, stride, padding, 0).sum((5, 6, 7))
            for places, more in (
                (kernel**3, {}),
                (inside, {"count_include_pad": False}),
                (7, {"divisor_override": 7}),
            ):
                got = cm.ml.avg_pool3d(x, kernel, stride, padding, **more)
                assert got.dtype == x.dtype
                np.testing.assert_allclose(
                    np.asarray(got.astype("float64")),
                    total / places,
                    rtol=tolerance,
                    atol=tolerance,
                )
    turned = cm.asarray(host).transpose(0, 1, 4, 3, 2)
    np.testing.assert_array_equal(
        np.asarray(cm.ml.max_pool3d(turned, 2)),
        windows(host.transpose(0, 1, 4, 3, 2), 2, 2, 0, 0).max((5, 6, 7)),
    )
    lost = cm.ml.max_pool3d(
        cm.asarray(np.where(np.arange(8) == 3, np.nan, 1.0).reshape(1, 1, 2, 2, 2)), 2
    )
    assert np.isnan(lost.item())


@pytest.mark.simulator
def test_volumes_simulated():
    from cudamath.cpu import pool as host
    from cudamath.kernels.pool import pool3d

    x = RNG.normal(size=(1, 2, 4, 5, 3)).astype(np.float32)
    x[0, 0, 1, 1, 1] = np.nan
    for how in (
        dict(size=(2, 2, 1), kernel=(2, 2, 2), stride=(2, 2, 2), padding=(0, 0, 0)),
        dict(size=(3, 3, 2), kernel=(2, 3, 3), stride=(2, 2, 2), padding=(1, 1, 1)),
    ):
        more = {**how, "dilation": (1, 1, 1)}
        np.testing.assert_array_equal(
            simulate(pool3d.max_pool3d(layout_of(x), **more), x), host.max_pool3d(x, **more)
        )
        for pads, divisor in ((True, 0), (False, 0), (True, 7)):
            more = {**how, "count_include_pad": pads, "divisor": divisor}
            np.testing.assert_allclose(
                simulate(pool3d.avg_pool3d(layout_of(x), **more), x),
                host.avg_pool3d(x, **more),
                rtol=1e-6,
            )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_bins_of_unequal_length(device, dtype):
    """Adaptive pools of images and volumes, the mean of bins and their maximum, against NumPy."""
    tolerance = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    cases = {
        (2, 3, 7, 5): (3, 2),
        (2, 3, 7, 6): (9, 6),
        (1, 2, 5, 6, 7): (2, 4, 3),
        (1, 2, 4, 6, 8): (2, 3, 4),
    }
    for shape, size in cases.items():
        x = RNG.normal(size=shape).astype(dtype)
        given = cm.asarray(np.ascontiguousarray(x.swapaxes(-1, -2))).swapaxes(-1, -2)
        for name, reduce in (("avg", np.mean), ("max", np.max)):
            want = x.astype("f8")
            for axis, (count, n) in enumerate(zip(size, shape[2:], strict=True), 2):
                want = np.stack(
                    [
                        reduce(
                            want.take(range(p * n // count, -(-(p + 1) * n // count)), axis), axis
                        )
                        for p in range(count)
                    ],
                    axis,
                )
            for y in (cm.asarray(x), given):
                for _ in range(2):
                    got = getattr(cm.ml, f"adaptive_{name}_pool{len(size)}d")(y, size)
                    assert (got.dtype, got.shape) == (x.dtype, want.shape)
                    np.testing.assert_allclose(
                        np.asarray(got), want, rtol=tolerance, atol=tolerance
                    )
    for _ in range(2):
        assert cm.ml.adaptive_avg_pool2d(
            cm.arange(5.0).reshape(1, 1, 1, 5), (1, 2)
        ).ravel().tolist() == [1, 3]
        assert cm.ml.adaptive_max_pool2d(
            cm.arange(25.0).reshape(1, 1, 5, 5), 2
        ).ravel().tolist() == [12, 14, 22, 24]
    lost = cm.ml.adaptive_max_pool2d(
        cm.asarray(np.array([1, np.nan, 0, 2, 3], dtype).reshape(1, 1, 1, 5)), (1, 2)
    )
    np.testing.assert_array_equal(np.isnan(np.asarray(lost)).ravel(), [True, False])


@pytest.mark.simulator
def test_bins_simulated():
    from cudamath.cpu import pool as host
    from cudamath.kernels.pool import pool3d

    for shape, size in (((1, 2, 5, 7), (2, 3)), ((1, 1, 3, 4, 5), (2, 2, 3))):
        x = RNG.normal(size=shape).astype(np.float32)
        for kind in ("mean", "max"):
            got = simulate(pool3d.adaptive_pool(layout_of(x), size=size, kind=kind), x)
            np.testing.assert_allclose(
                got, host.adaptive_pool(x, size=size, kind=kind), rtol=1e-6, atol=1e-6
            )


def test_geometric_numbers_are_of_the_exponential_ones(device):
    """The next whole number above e / rate, for the numbers that `standard_exponential` draws in
    the same state."""
    for p in (0.3, 0.999, 1e-9, 1.0, 1e-300):
        rate = -np.log1p(-p) if p < 1 else np.inf
        for dtype in (None, "int32", "uint8"):
            for size in (1, 7, (33, 5)):
                for again in range(2):
                    drawn, plain = (
                        cm.random.default_rng(5 + again),
                        cm.random.default_rng(5 + again),
                    )
                    e = np.asarray(plain.standard_exponential(size, "float64"))
                    with np.errstate(over="ignore"):
                        want = np.clip(np.ceil(e / rate), 1, 2.0**63 - 1024).astype(np.int64)
                    got = drawn.geometric(p, size, dtype)
                    assert got.dtype == (dtype or "int64") and drawn.state == plain.state
                    np.testing.assert_array_equal(np.asarray(got), want.astype(got.dtype))


@pytest.mark.simulator
def test_geometric_simulated():
    from cudamath.cpu import random as host
    from cudamath.kernels.random import distributions

    for dtype in ("i8", "u1"):
        for rate in (0.356, 1e-300, np.inf):
            what = dict(shape=(30,), dtype=np.dtype(dtype), device=0)
            numbers = (0x0123456789ABCDEF, 0xFEDCBA9876543210, (1 << 40) + 3, rate, 0.0, 0.0)
            np.testing.assert_array_equal(
                simulate(distributions.geometric(version="each", **what), scalars=numbers),
                host.geometric(scalars=numbers, **what),
            )


# -------------------- launches


@pytest.mark.parametrize("name", ["window", "nan_quantile", "distinct_runs"])
def test_cards_without_a_name_of_their_own(name):
    assert name in registry and not hasattr(cm, name)


def test_how_many_launches(fake, monkeypatch):
    """These take one launch, or one beside a sort, from the second call on at the latest."""
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        a, places, volumes = (
            gpu(x)
            for x in (np.ones((8, 8), "f4"), np.zeros(4, "i8"), np.ones((1, 1, 4, 4, 4), "f4"))
        )
        calls = {
            "tril_indices": (lambda: cm.tril_indices(8), 1),
            "triu_indices": (lambda: cm.triu_indices(8, 1), 1),
            "logspace": (lambda: cm.logspace(0, 1, 9), 1),
            "hanning": (lambda: cm.hanning(9), 1),
            "blackman": (lambda: cm.blackman(9), 1),
            "geometric": (lambda: cm.random.geometric(0.3, 9), 1),
            "max_pool3d": (lambda: cm.ml.max_pool3d(volumes, 2), 1),
            "a[i, j]": (lambda: a[places, places], 1),
            "avg_pool3d": (lambda: cm.ml.avg_pool3d(volumes, 2), 1),
            "nanmedian": (lambda: cm.nanmedian(a, 1), 1),
            "nanquantile": (lambda: cm.nanquantile(a, 0.3, 1), 2),
            "ldexp": (lambda: cm.ldexp(a[0, :4], places), 1),
        }
        for name, (call, count) in calls.items():
            for _ in range(2):
                fake.launches.clear()
                call()
                assert len(fake.launches) == count, (name, [launch[0] for launch in fake.launches])
