"""Choices by probabilities in an array: on a GPU they are added up and looked at there."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.kernels import random


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
    plan = random.thresholds(cm.testing.layout_of(p))
    np.testing.assert_array_equal(cm.testing.simulate(plan, p), want)
    for wrong in (np.nan, np.inf, -1.0, p[-1] + 1e-5):
        q = p.copy()
        q[-1] = wrong
        with pytest.raises(IndexError):  # the flag, which is a ValueError on a GPU
            cm.testing.simulate(plan, q)
    if k > 1:
        with pytest.raises(IndexError):
            cm.testing.simulate(plan, np.concatenate([[-0.5], p[1:-1], [1.5 - p[1:-1].sum()]]).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_choice_by_what_is_no_distribution(device, dtype):
    for p in ([1.5, -0.5], [0.5, 0.6], [0.5, np.nan]):
        with pytest.raises(ValueError, match="^random.choice: wants p >= 0 adding up to 1"):
            cm.random.default_rng(9).choice(2, 3, p=cm.asarray(p, dtype)).to_numpy()  # a GPU is waited for here


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_choice_by_an_array_draws_what_a_list_does(device, dtype):
    for k in (1, 5, 1024, 1025):
        p = np.random.default_rng(k).random(k)
        p = (p / p.sum()).astype(dtype)
        want = numpy(cm.random.default_rng(9).choice(k, (30, 7), p=p))
        np.testing.assert_array_equal(numpy(cm.random.default_rng(9).choice(k, (30, 7), p=cm.asarray(p))), want)
        np.testing.assert_array_equal(numpy(cm.random.default_rng(9).choice(cm.arange(k), (30, 7), p=cm.asarray(p))), want)
