"""Initial values of parameters: what torch.nn.init has beyond fans and gains (those are in
test_optim.py)."""

import math

import numpy as np
import pytest

import cudamath as cm
from cudamath.testing import assert_close

init = cm.ml.init


def cdf(x):
    return np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)))(x)


@pytest.mark.parametrize(
    "mean, std, low, high", [(0, 1, -2, 2), (1, 0.5, 0.9, 5), (0, 0.02, -0.04, 0.04), (0, 1, 2, 3)]
)
def test_trunc_normal(device, mean, std, low, high):
    """Kolmogorov and Smirnov: the numbers have the distribution function of the truncated
    normal."""
    n = 20_000
    x = init.trunc_normal(
        (n,), mean=mean, std=std, low=low, high=high, dtype="float64", rng=cm.random.default_rng(3)
    )
    x = np.asarray(x)
    assert low <= x.min() and x.max() <= high
    first, last = cdf((low - mean) / std), cdf((high - mean) / std)
    expected = (cdf((np.sort(x) - mean) / std) - first) / (last - first)
    assert np.abs(expected - (np.arange(n) + 0.5) / n).max() < 1.6 / math.sqrt(n)


def test_inverse_of_the_error_function(device):
    x = np.concatenate([np.linspace(-3.5, 3.5, 141), [1e-6, 1e-3]])
    p = cm.asarray(np.vectorize(math.erf)(x))
    for _ in range(2):
        assert_close(
            init._truncated(p, scalars=(1.0, 0.0, -9.0, 9.0), dtype=p.dtype),
            x,
            rtol=2e-6,
            atol=1e-12,
        )
        cut = init._truncated(p, scalars=(2.0, 1.0, -3.0, 4.5), dtype=np.dtype("float32"))
        assert cut.dtype == np.float32
        assert_close(cut, np.clip(2 * x + 1, -3, 4.5).astype("f4"), rtol=4e-6, atol=2e-6)
    ends = cm.asarray([-1.0, 1.0, 0.0])
    assert init._truncated(ends, scalars=(1.0, 0.0, -2.0, 3.0), dtype=ends.dtype).tolist() == [
        -2,
        3,
        0,
    ]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_trunc_normal_has_the_same_numbers_everywhere(device, dtype):
    for shape in ((), (0, 3), (7,), (33, 65)):
        ours, host = (
            init.trunc_normal(
                shape,
                mean=0.5,
                std=2,
                low=-9,
                high=4,
                dtype=dtype,
                rng=cm.random.default_rng(3),
                device=where,
            )
            for where in (device, "cpu")
        )
        assert ours.shape == host.shape == shape and ours.dtype == host.dtype == cm.dtype(dtype)
        assert np.asarray(ours).tobytes() == np.asarray(host).tobytes()


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_truncated_simulated(dtype):
    from cudamath.cpu import truncated_normal as host
    from cudamath.kernels.random import truncated_normal as kernels

    p = np.concatenate(
        [np.random.default_rng(0).uniform(-1, 1, 70), [-1, 1, 1 - 1e-16, 0, 1e-9, 0.9, -0.999999]]
    )
    scalars, dtype = (1.5, 0.25, -3.0, 5.0), np.dtype(dtype)
    plan = kernels.truncated(cm.testing.layout_of(p), dtype=dtype)
    assert len(plan.steps) == 1
    found = cm.testing.simulate(plan, p, scalars=scalars)
    near = 2e-14 if dtype == "float64" else 2e-7  # in the simulator a multiply-add rounds twice
    np.testing.assert_allclose(
        found, host.truncated(p, scalars=scalars, dtype=dtype), rtol=near, atol=1e-15
    )
    erf = np.vectorize(math.erf)
    inside = np.abs(found - 1) < 3.9  # away from the bounds; p as far as float64 tells it from 1
    np.testing.assert_allclose(erf((found[inside].astype("f8") - 0.25) / 1.5), p[inside], atol=2e-6)


def test_trunc_normal_is_two_launches(fake, monkeypatch):
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        for dtype in ("float32", "bfloat16"):
            for _ in range(2):
                fake.launches.clear()
                assert init.trunc_normal((5, 7), std=0.02, dtype=dtype).shape == (5, 7)
                assert len(fake.launches) == 2


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 3, 2, 2), (4, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_orthogonal(device, shape, dtype):
    w = init.orthogonal(shape, gain=2.0, dtype=dtype, rng=cm.random.default_rng(1))
    assert w.shape == shape and str(w.dtype) == dtype
    a = np.asarray(w).astype(np.float64).reshape(shape[0], -1)
    product = a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a
    assert_close(
        product,
        4 * np.eye(len(product)),
        rtol=0,
        atol={"float32": 1e-5, "float64": 1e-13, "bfloat16": 0.05}[dtype],
    )


def test_orthogonal_signs_are_even(device):
    """No entry of the diagonal prefers a sign, as it would with the raw factor of a
    decomposition."""
    signs = [
        np.sign(np.diag(np.asarray(init.orthogonal((4, 4), rng=cm.random.default_rng(i)))))
        for i in range(200)
    ]
    assert np.abs(np.mean(signs, 0)).max() < 0.25


def test_uniform_and_constant(device):
    w = np.asarray(init.uniform((1000,), low=-3, high=1, rng=cm.random.default_rng(1)))
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
