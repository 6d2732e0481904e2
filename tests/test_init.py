"""Initial values of parameters: what torch.nn.init has beyond fans and gains (those are in test_optim.py)."""

import math

import numpy as np
import pytest

import cudamath as cm
from cudamath.testing import assert_close

init = cm.ml.init


def cdf(x):
    return np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)))(x)


@pytest.mark.parametrize("mean, std, low, high", [(0, 1, -2, 2), (1, 0.5, 0.9, 5), (0, 0.02, -0.04, 0.04), (0, 1, 2, 3)])
def test_trunc_normal(device, mean, std, low, high):
    """Kolmogorov and Smirnov: the numbers have the distribution function of the truncated normal."""
    n = 20_000
    x = init.trunc_normal((n,), mean=mean, std=std, low=low, high=high, dtype="float64", rng=cm.random.default_rng(3))
    x = x.to_numpy()
    assert low <= x.min() and x.max() <= high
    first, last = cdf((low - mean) / std), cdf((high - mean) / std)
    expected = (cdf((np.sort(x) - mean) / std) - first) / (last - first)
    assert np.abs(expected - (np.arange(n) + 0.5) / n).max() < 1.6 / math.sqrt(n)


def test_inverse_of_the_error_function(device):
    x = np.concatenate([np.linspace(-3.5, 3.5, 141), [1e-6, 1e-3]])
    p = cm.asarray(np.vectorize(math.erf)(x))
    assert_close(init._inverse_erf(p), x, rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 3, 2, 2), (4, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_orthogonal(device, shape, dtype):
    w = init.orthogonal(shape, gain=2.0, dtype=dtype, rng=cm.random.default_rng(1))
    assert w.shape == shape and str(w.dtype) == dtype
    a = w.to_numpy().astype(np.float64).reshape(shape[0], -1)
    product = a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a
    assert_close(product, 4 * np.eye(len(product)), rtol=0, atol={"float32": 1e-5, "float64": 1e-13, "bfloat16": 0.05}[dtype])


def test_orthogonal_signs_are_even(device):
    """No entry of the diagonal prefers a sign, as it would with the raw factor of a decomposition."""
    signs = [np.sign(np.diag(init.orthogonal((4, 4), rng=cm.random.default_rng(i)).to_numpy())) for i in range(200)]
    assert np.abs(np.mean(signs, 0)).max() < 0.25


def test_uniform_and_constant(device):
    w = init.uniform((1000,), low=-3, high=1, rng=cm.random.default_rng(1)).to_numpy()
    assert w.dtype == np.float32 and -3 <= w.min() < -2.9 and 0.9 < w.max() < 1
    assert init.constant((2, 2), 1.5, dtype="bfloat16").tolist() == [[1.5, 1.5], [1.5, 1.5]]


def test_errors(device):
    for call, error, words in [
        (lambda: init.trunc_normal(3, low=1, high=1), ValueError, "trunc_normal: .*low < high"),
        (lambda: init.trunc_normal(3, std=0), ValueError, "trunc_normal: .*std > 0"),
        (lambda: init.trunc_normal(3, low=50, high=60), ValueError, "trunc_normal: nothing"),
        (lambda: init.trunc_normal(3, dtype="int32"), TypeError, "trunc_normal: .*int32"),
        (lambda: init.orthogonal(3), ValueError, "orthogonal: .*two dimensions"),
        (lambda: init.orthogonal((3, 3), dtype="int32"), TypeError, "orthogonal: .*int32"),
        (lambda: init.constant(3, 1, dtype="int32"), TypeError, "constant: .*int32"),
    ]:
        with pytest.raises(error, match=words):
            call()
