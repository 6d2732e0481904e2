"""Choices by probabilities in an array: on a GPU they are added up and looked at there."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.kernels.random import distributions


def numpy(x):
    return x.to_numpy()


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 700])
def test_thresholds_in_the_simulator(k, dtype):
    """The bits that NumPy's cumulative sum gives; what is no distribution raises the flag."""
    p = np.random.default_rng(k).random(k) * (np.arange(k) % 3 != 1)
    p = (p / p.sum()).astype(dtype)
    cumulative = np.cumsum(p.astype(np.float64))
    want = np.rint(cumulative / cumulative[-1] * 2.0**53).astype(np.uint64)
    plan = distributions.thresholds(cm.testing.layout_of(p))
    np.testing.assert_array_equal(cm.testing.simulate(plan, p), want)
    for wrong in (np.nan, np.inf, -1.0, p[-1] + 2 * cm.core.dtypes.sum_tolerance(p.dtype)):
        q = p.copy()
        q[-1] = wrong
        with pytest.raises(IndexError):  # the flag, which is a ValueError on a GPU
            cm.testing.simulate(plan, q)
    if k > 1:
        with pytest.raises(IndexError):
            cm.testing.simulate(
                plan, np.concatenate([[-0.5], p[1:-1], [1.5 - p[1:-1].sum()]]).astype(dtype)
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_choice_by_what_is_no_distribution(device, dtype):
    for p in ([1.5, -0.5], [0.5, 0.6], [0.5, np.nan]):
        with pytest.raises(ValueError, match="^random.choice: wants p >= 0 adding up to 1"):
            cm.random.default_rng(9).choice(
                2, 3, p=cm.asarray(p, dtype)
            ).to_numpy()  # a GPU is waited for here


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_choice_by_an_array_draws_what_a_list_does(device, dtype):
    for k in (1, 5, 1024, 1025):
        p = np.random.default_rng(k).random(k)
        p = (p / p.sum()).astype(dtype)
        want = numpy(cm.random.default_rng(9).choice(k, (30, 7), p=p))
        np.testing.assert_array_equal(
            numpy(cm.random.default_rng(9).choice(k, (30, 7), p=cm.asarray(p))), want
        )
        np.testing.assert_array_equal(
            numpy(cm.random.default_rng(9).choice(cm.arange(k), (30, 7), p=cm.asarray(p))), want
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_choice_by_rounded_probabilities(device, dtype):
    """As in NumPy, probabilities need not add up to 1 more closely than their dtype lets them:
    their sum is made 1."""
    for k in (1000, 5000):
        p = cm.ml.softmax(cm.asarray(np.random.default_rng(k).standard_normal(k) * 3)).astype(dtype)
        if dtype == "float32":  # some 1e-4 from 1
            p = p * np.float32(1.0001)
        wide = numpy(p).astype(np.float64)
        assert 1e-6 < abs(wide.sum() - 1)
        want = numpy(cm.random.default_rng(9).choice(k, (30, 7), p=wide / wide.sum()))
        np.testing.assert_array_equal(numpy(cm.random.default_rng(9).choice(k, (30, 7), p=p)), want)
        np.testing.assert_array_equal(
            numpy(cm.random.default_rng(9).choice(k, (30, 7), p=numpy(p))), want
        )
        want = numpy(cm.random.default_rng(9).choice(k, 50, replace=False, p=wide / wide.sum()))
        np.testing.assert_array_equal(
            numpy(cm.random.default_rng(9).choice(k, 50, replace=False, p=p)), want
        )
        if dtype != "bfloat16":  # NumPy has no epsilon for it
            np.random.default_rng(9).choice(k, p=numpy(p))
    for twice in (p + p, numpy(p + p)):
        with pytest.raises(
            ValueError,
            match=rf"^random.choice: .* got {dtype} of shape \(5000,\), sum [12]\.\d+, least \S+$",
        ):
            cm.random.default_rng(9).choice(5000, p=twice)


def test_probabilities_of_float64_are_held_to_1e_6(device):
    p = np.array([0.5, 0.5 + 5e-7])
    assert int(cm.random.default_rng(9).choice(2, p=p)) in (0, 1)
    for wrong in (p + 1e-6, (p + 1e-6).tolist(), cm.asarray(p + 1e-6)):
        with pytest.raises(ValueError, match="^random.choice: wants p >= 0 adding up to 1"):
            cm.random.default_rng(9).choice(2, p=wrong).to_numpy()


def test_multinomial_says_what_is_wrong_in_a_line(device):
    """Of many probabilities their dtype, shape, sum and minimum, not all of them."""
    for pvals in (np.full((2, 5000), 1e-3, "float16"), cm.full((2, 5000), 1e-3, "float16")):
        with pytest.raises(
            ValueError,
            match=r"^random.multinomial: .* float16 of shape \(2, 5000\), largest sum 5\.\d+, "
            r"least 0\.001\d+$",
        ):
            cm.random.default_rng(9).multinomial(5, pvals)
