"""Short rows by ranks (kernels/sort/rank_sort.py): sorts, the first few, medians (the card
median_lines)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from strategies import BF16

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.sort import dispatch as sort_dispatch
from cudamath.kernels.sort import rank_sort
from cudamath.testing import layout_of, simulate


def drawn(shape: tuple[int, ...], dtype: object) -> np.ndarray:
    """Numbers with repetitions; of floats some zeros of both signs, infinities and NaNs."""
    x = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    if x.dtype.kind in "fV":
        flat = x.reshape(-1)
        flat[::3], flat[1::5], flat[2::7], flat[3::11] = -0.0, 0.0, -np.inf, np.nan
    return x


def layout(x: np.ndarray) -> Layout:
    return Layout.new(x.shape, x.dtype, 0)


def host(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The stable order of x by NumPy: in descending order too, where NaN comes first."""
    x = x.astype("f4") if x.dtype == BF16 else x
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - backwards


def check(run, x: np.ndarray, axis: int, count: int) -> None:
    """Sorts and the first `count` of x along an axis: the bits of NumPy's."""
    for descending in (False, True):
        order = host(x, axis, descending)
        ours = run(
            sort_dispatch.argsort(layout(x), axis=axis, descending=descending, version="rank_sort"),
            x,
        )
        np.testing.assert_array_equal(ours, order)
        ours = run(
            sort_dispatch.sort(layout(x), axis=axis, descending=descending, version="rank_sort"), x
        )
        assert ours.tobytes() == np.take_along_axis(x, order, axis).tobytes()
        first = np.take(order, range(count), axis)
        values, places = run(
            sort_dispatch.topk(
                layout(x), axis=axis, count=count, descending=descending, version="rank_sort"
            ),
            x,
        )
        np.testing.assert_array_equal(places, first)
        assert values.tobytes() == np.take_along_axis(x, first, axis).tobytes()


@pytest.mark.simulator
def test_ranks_simulated():
    check(simulate, drawn((40,), "f4"), 0, 4)


def lines_of(x, xp=np):
    """(view of (6, 2, 4), axis, steps of its topk): one where one stride leads from each line to
    the next."""
    return (
        (x, 0, 1),
        (x[:, 0], 0, 1),
        (x[:, 1].T, 1, 1),
        (x[::-1, 0], 0, 1),
        (x[:, 0, ::2], 1, 1),
        (xp.broadcast_to(x[0, 0], (3, 4)), 0, 1),
        (x[:2, 0], 1, 1),
        (x[:2], 1, 4),
    )


def check_lines(run, x, views):
    for i, (seen, axis, steps) in enumerate(views):
        planned = sort_dispatch.topk(
            layout_of(seen), axis=axis, count=2, descending=i % 2 == 0, version="rank_sort"
        )
        assert len(planned.steps) == steps
        values, places = run(planned, seen)
        first = np.take(host(seen, axis, i % 2 == 0), range(2), axis)
        np.testing.assert_array_equal(places, first)
        assert values.tobytes() == np.take_along_axis(seen, first, axis).tobytes()


@pytest.mark.simulator
def test_topk_of_lines_that_are_no_rows_simulated():
    """They are read where they lie, and so are the results written."""
    x = drawn((6, 2, 4), "f4")
    check_lines(simulate, x, [lines_of(x)[i] for i in (1, 3, 7)])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8"])
def test_topk_of_lines_that_are_no_rows_on_gpu(dtype):
    x = drawn((6, 2, 4), dtype)
    there = cm.asarray(x, device="cuda")
    for (seen, axis, _), (ours, _, _) in zip(lines_of(x), lines_of(there, cm), strict=True):
        for descending in (False, True):
            first = np.take(host(seen, axis, descending), range(2), axis)
            values, places = cm.topk(ours, 2, axis, largest=descending)
            np.testing.assert_array_equal(places.to_numpy(), first)
            assert values.to_numpy().tobytes() == np.take_along_axis(seen, first, axis).tobytes()


def on_gpu(plan, x):
    there = cm.asarray(x, device="cuda")
    found = plan.bind("ranks", [there._layout])(there)
    return [y.to_numpy() for y in found] if isinstance(found, tuple) else found.to_numpy()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i2", "f2", BF16, "i4", "f4", "u8", "i8", "f8"], ids=str
)
def test_ranks_on_gpu(dtype):
    for shape, axis in (
        ((1,), 0),
        ((33,), 0),
        ((2048,), 0),
        ((2049,), 0),
        ((4096,), 0),
        ((9000,), 0),
        ((5, 700), 1),
        ((40, 30), 0),
        ((2, 70, 3), 1),
    ):
        check(on_gpu, drawn(shape, dtype), axis, min(5, shape[axis]))


@pytest.mark.parametrize("dtype", ["f2", BF16, "f4", "f8"], ids=str)
@pytest.mark.parametrize("n", [1, 2, 5, 64, 65, 512, 1000, 1024, 1025, 9000, 16_384])
def test_medians(device, dtype, n):
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((9, n)) * 3).round(1).astype(dtype)
    x[1] = x[1, 0]
    x[2, : n // 2], x[3, 0], x[4, -1] = np.inf, -np.inf, np.nan
    expected = np.median(x.astype("f8"), axis=1)  # exact: the mean of two such numbers is a float64
    found = cm.median(cm.asarray(x, device=device), axis=1).to_numpy().astype("f8")
    rounded = expected.astype("f4" if x.dtype == BF16 else x.dtype).astype(x.dtype).astype("f8")
    np.testing.assert_array_equal(found, rounded)
    ours = cm.asarray(x, device=device)
    np.testing.assert_array_equal(
        cm.median(ours.T, axis=0, keepdims=True).to_numpy()[0].astype("f8"), rounded
    )
    apart = cm.asarray(np.ascontiguousarray(x.T), device=device)
    np.testing.assert_array_equal(cm.median(apart, axis=0).to_numpy().astype("f8"), rounded)
    again = cm.median(ours, axis=1, keepdims=True)
    assert again.shape == (9, 1) and cm.median(ours, axis=1, keepdims=True).shape == (9, 1)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 99, 100])
def test_medians_of_lines_simulated(dtype, n):
    """Numbers that repeat; with NaN, and of what is not NaN; of NaN alone."""
    x = np.random.default_rng(n).integers(-9, 9, (4, n)).astype(dtype)
    x[1, 0], x[2, ::2], x[3] = np.nan, np.nan, np.nan
    for skip in (False, True):
        found = simulate(rank_sort.medians(layout(x), skip=skip), x)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = (np.nanmedian if skip else np.median)(x.astype("f8"), axis=1).astype(dtype)
        np.testing.assert_array_equal(found, expected)
        apart = np.ascontiguousarray(x.T).T  # read where they lie
        plan = rank_sort.medians(cm.testing.layout_of(apart), skip=skip)
        assert len(plan.steps) == 1
        np.testing.assert_array_equal(simulate(plan, apart), expected)


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("dtype", ["f2", BF16, "f4", "f8"], ids=str)
@pytest.mark.parametrize("n", [1, 2, 5, 64, 65, 512, 1000, 1024, 1025, 9000, 16_385])
def test_medians_of_what_is_not_nan(device, dtype, n):
    """Rows with no NaN, with some, of one number, of none; of equal numbers, of infinities, of NaN
    of both signs."""
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((13, n)) * 3).round(1).astype(dtype)
    x[1] = x[1, 0]
    x[2, : n // 2], x[3, 0] = np.inf, -np.inf
    x[4, -1], x[5, : n // 2], x[6, 1:], x[7] = np.nan, np.nan, np.nan, np.nan
    x[8, ::3], x[9, 0] = -np.inf, -np.nan
    x[10:] = np.where(
        rng.random((3, n)) < [[0.1], [0.5], [0.9]], np.nan, x[10:].astype("f4")
    ).astype(dtype)
    expected = np.nanmedian(x.astype("f8"), axis=1)
    rounded = expected.astype("f4" if x.dtype == BF16 else x.dtype).astype(x.dtype).astype("f8")
    ours = cm.asarray(x, device=device)
    for _ in range(2):
        found = cm.nanmedian(ours, axis=1)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found.to_numpy().astype("f8"), rounded)
        np.testing.assert_array_equal(
            cm.nanmedian(ours.T, axis=0, keepdims=True).to_numpy()[0].astype("f8"), rounded
        )
        assert cm.nanmedian(ours, axis=1, keepdims=True).shape == (13, 1)


def test_topk_seen_before_keeps_its_meaning(device):
    x = cm.asarray([[3, 1, 2], [6, 5, 4]], device=device)
    for _ in range(2):
        assert cm.topk(x, 2)[0].tolist() == [[3, 2], [6, 5]]
        assert cm.topk(x, 2, largest=False)[1].tolist() == [[1, 2], [2, 1]]
        assert cm.topk(x, 1, axis=0)[1].tolist() == [[1, 1, 1]]
        assert cm.topk(x, 0)[0].shape == (2, 0)
