"""Wrong numbers that comparisons with NumPy, SciPy and PyTorch at the ends of the ranges have
found."""

import numpy as np
import pytest
from scipy.special import expit

import cudamath as cm


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
            where = cm.grad(lambda x: cm.nanquantile(x, q, method=method))(with_nan).to_numpy()  # noqa: B023
            np.testing.assert_array_equal(np.flatnonzero(where), np.flatnonzero(x == want))


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


def test_curvature_of_bce_with_an_array_of_weights_at_0(device):
    """The logits of a layer that begins with zeros; |x| in the formula has no slope there."""
    x, t, p = (
        np.array([0.0, 0.0, 1.5, -700.0]),
        np.array([0.0, 0.25, 1.0, 0.5]),
        np.array([2.5, 2.5, 1.0, 3.0]),
    )
    found = cm.grad(
        lambda x: cm.grad(lambda x: cm.ml.bce_with_logits(x, t, pos_weight=p, reduction="sum"))(
            x
        ).sum()
    )(x)
    np.testing.assert_allclose(
        found.to_numpy(), (1 + (p - 1) * t) * expit(x) * expit(-x), rtol=1e-12, atol=1e-300
    )


def test_nothing_but_infinity_is_close_to_infinity(device):
    """The tolerance of an infinite number is infinite: any number passed."""
    cm.testing.assert_close(
        cm.asarray([np.inf, -np.inf, np.nan]), [np.inf, -np.inf, np.nan], rtol=1e-6
    )
    for wrong in (1.0, -np.inf, np.nan):
        with pytest.raises(AssertionError, match="1 of 1 elements differ"):
            cm.testing.assert_close(cm.asarray([wrong]), [np.inf], rtol=1e-6)


def test_grids_between_given_numbers_are_not_rounded_to_the_data(device):
    """0.7 in float32 is less than the edge 0.7 in float64, which NumPy compares it with."""
    x = (np.arange(11) / 10).astype("f4")
    for limits in (
        [(0, 1), (0.0, 1.0)],
        [(0, 1), None],
        [(np.float32(0), np.float32(1)), None],
        None,
    ):
        for bins in (10, (10, 5), (10, np.linspace(0, 1, 6, dtype="f4"))):
            ours, *edges = cm.histogram2d(cm.asarray(x), cm.asarray(x), bins, range=limits)
            theirs, *bounds = np.histogram2d(x, x, bins, range=limits)
            np.testing.assert_array_equal(ours.to_numpy(), theirs)
            for a, b in zip(edges, bounds, strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a.to_numpy(), b)


@pytest.mark.parametrize(
    "dtype, shape",
    [("float32", 1e6), ("float32", 1e7), ("float32", 1e9), ("float64", 1e12), ("float64", 1e16)],
)
def test_gamma_numbers_of_large_shape_are_as_wide_as_they_should_be(device, dtype, shape):
    """The deviation was 13 % too small: which numbers were rejected was a matter of rounding
    errors."""
    x = cm.random.default_rng(5).gamma(shape, size=100_000, dtype=dtype).to_numpy().astype("f8")
    standard = (x - shape) / np.sqrt(shape)
    assert abs(standard.mean()) < 0.02 and abs(standard.std() - 1) < 0.015
    pairs = (
        cm.random.default_rng(6)
        .beta(shape, shape, size=100_000, dtype=dtype)
        .to_numpy()
        .astype("f8")
        - 0.5
    )
    if shape < 1e9:  # whose deviation float32 can tell
        assert abs(pairs.std() * np.sqrt(8 * shape) - 1) < 0.015


@pytest.mark.parametrize("scale, gradient", [(0.0, 0.0), (1e-40, 1e3)])
def test_a_step_is_skipped_where_only_the_unscaled_norm_is_not_finite(device, scale, gradient):
    """It was counted as skipped, but on the CPU the factor was 1."""
    state = cm.ml.amp.loss_scale(1.0)
    state["scale"][...] = np.float32(scale)
    factor, norm = cm.ml.amp.unscale([cm.full(3, gradient, dtype="float32")], state)
    assert np.isnan(float(factor)) and not np.isfinite(float(norm)) and int(state["skipped"]) == 1
