"""The kernels of counting by name, in the simulator and on a GPU: bins, histograms, their edges."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.kernels.histogram import dispatch, histogram_range
from tests.kernels.sort.test_sort_kernels import layouts, named, numbers, sim


@pytest.mark.simulator
@pytest.mark.parametrize("bins", [5, dispatch.MOST_SHARED + 1])
def test_bincount_simulated(bins):
    x = np.arange(40).reshape(2, 20) ** 2 % 5
    plan = dispatch.bincount(*layouts(x), bins=bins)
    assert named(plan)[-1] == ("count_shared" if bins == 5 else "count_global")
    np.testing.assert_array_equal(sim(plan, x), np.bincount(x.ravel(), minlength=bins))


@pytest.mark.simulator
@pytest.mark.parametrize("even", [False, True])
def test_histogram_simulated(even):
    x = numbers((60,), "f4")
    edges = np.linspace(-4, 6, 8, dtype="f4")
    got = sim(dispatch.histogram(*layouts(x, edges), even=even), x, edges)
    np.testing.assert_array_equal(got, np.histogram(x, edges)[0])


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["?", "u4", "i8", "f4", "f8"])
@pytest.mark.parametrize("names", [("count_alone",), ("find_ends", "count_between")], ids="-".join)
def test_histogram_in_range_simulated(dtype, names, monkeypatch):
    """The bits of NumPy's edges, numbers on them, and equal numbers."""
    if len(names) == 2:
        monkeypatch.setattr(dispatch, "ONE_BLOCK", 0)
        monkeypatch.setattr(histogram_range, "ITEMS", 1)
    many = (
        np.random.default_rng(0)
        .normal(0, 30, 600)
        .astype("i4")
        .clip(0 if dtype in "?u4" else None)
        .astype(dtype)
        / 7
    )
    for x in (many.astype(dtype), np.full(3, 1, dtype), np.linspace(0, 1, 11).astype(dtype)):
        for bins in (10, 300):
            plan = dispatch.in_range(*layouts(x), bins=bins)
            assert named(plan) == list(names)
            counts, edges, wrong = sim(plan, x)
            expected = np.histogram(x.view("u1") if dtype == "?" else x, bins)
            assert not wrong
            np.testing.assert_array_equal(counts, expected[0])
            np.testing.assert_array_equal(edges, expected[1], strict=True)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["?", "i4", "f4", "f8"])
@pytest.mark.parametrize("ends", [(0, 5), (-2.5, 0.1), (0.1, 7)], ids=str)
def test_histogram_between_simulated(dtype, ends):
    x = np.random.default_rng(0).normal(0, 5, 300).astype(dtype)
    for bins in (1, 7, 300):
        edges = np.linspace(*ends, bins + 1, dtype="f4" if dtype == "f4" else "f8")
        plan = dispatch.between(*layouts(x), bins=bins, edge=edges.dtype)
        assert named(plan) == ["write_edges", "count_shared"]
        counts, ours = cm.testing.simulate(plan, x, scalars=ends)
        np.testing.assert_array_equal(ours, edges, strict=True)
        np.testing.assert_array_equal(
            counts, np.histogram(x.view("u1") if dtype == "?" else x, bins, ends)[0]
        )


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_histogram_without_edges_simulated(bad):
    assert (
        sim(dispatch.in_range(*layouts(small := np.array([0, 3e-45], "f4")), bins=4), small)[2] == 1
    )
    for place in (0, 299, 599):
        x = np.arange(600, dtype="f4")
        x[place], x[1] = bad, -3e38
        assert sim(dispatch.in_range(*layouts(x), bins=4), x)[2] == 1


@pytest.mark.gpu
@pytest.mark.parametrize("bins", [10, 5000, 20_000])
def test_counts_on_gpu(bins):
    rng = np.random.default_rng(1)
    x = rng.integers(0, bins, 1_000_003)
    with cm.device("cuda"):
        np.testing.assert_array_equal(cm.bincount(cm.asarray(x)).to_numpy(), np.bincount(x))
        v = rng.standard_normal(1_000_003).astype("f4")
        np.testing.assert_array_equal(
            cm.histogram(cm.asarray(v), bins)[0].to_numpy(), np.histogram(v, bins)[0]
        )
        edges = np.sort(rng.standard_normal(bins).astype("f4"))
        np.testing.assert_array_equal(
            cm.histogram(cm.asarray(v), cm.asarray(edges))[0].to_numpy(), np.histogram(v, edges)[0]
        )
