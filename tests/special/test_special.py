"""Special functions beside SciPy's: over their whole domains, at awkward numbers, in every dtype;
gradients of any order beside central differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special as scipy_special

import cudamath as cm

AWKWARD = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, 1.5, np.inf, -np.inf, np.nan, 1e-300, -1e-300]
    + [1e300, -1e300, 1e-20, 171, 171.7, -170.5, -171, -200.5, 30, -30, 100, 1e10, -1e-10]
)

#: Function -> the range of each argument.
DOMAINS = {
    "erf": [(-6, 6)],
    "erfc": [(-10, 3)],
    "erfinv": [(-1, 1)],
    "erfcinv": [(0, 2)],
    "ndtr": [(-1.4, 9)],
    "log_ndtr": [(-60, 3)],
    "ndtri": [(0, 1)],
    "gamma": [(-30, 180)],
    "gammaln": [(-40, 2000)],
    "gammasgn": [(-30, 30)],
    "loggamma": [(-5, 2000)],
    "rgamma": [(-30, 180)],
    "digamma": [(-20, 60)],
    "beta": [(-5, 100)] * 2,
    "betaln": [(-5, 300)] * 2,
    "xlogy": [(-1, 5)] * 2,
    "xlog1py": [(-0.9, 5)] * 2,
    "entr": [(-1, 5)],
    "rel_entr": [(-1, 5)] * 2,
    "kl_div": [(-1, 5)] * 2,
    "huber": [(-1, 5)] * 2,
    "pseudo_huber": [(-1, 5)] * 2,
    "expit": [(-50, 50)],
    "log_expit": [(-50, 50)],
    "logit": [(0, 1)],
    "exprel": [(-50, 50)],
}
#: Allowed differences in epsilons: those of both sides. Others: 8.
ALLOWED: dict[str, float] = {"beta": 64, "betaln": 64}
#: The same far out, where SciPy's tails have fewer digits.
ALLOWED_FAR = {"ndtr": 1000.0, "log_ndtr": 1000.0}


def near(ours: np.ndarray, theirs: np.ndarray, epsilons: float, *arguments: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        gap = np.abs(ours - theirs) - epsilons * 2.0**-52 * np.abs(theirs)
        close = same | (gap <= 1e-307)
    if not close.all():
        at = int(np.flatnonzero(~close)[0])
        places = [float(np.broadcast_to(a, theirs.shape).flat[at]) for a in arguments]
        raise AssertionError(
            f"{(~close).sum()} differ; at {places}: {ours.flat[at]}, SciPy {theirs.flat[at]}"
        )


def drawn(name: str, count: int = 3000) -> list[np.ndarray]:
    rng = np.random.default_rng([*name.encode()])
    return [rng.uniform(*limits, count) for limits in DOMAINS[name]]


@pytest.mark.parametrize("name", DOMAINS)
def test_values_are_scipys(name, device):
    arguments = drawn(name)
    ours = getattr(cm.special, name)(*[cm.asarray(a) for a in arguments]).to_numpy()
    near(ours, getattr(scipy_special, name)(*arguments), ALLOWED.get(name, 8), *arguments)


@pytest.mark.parametrize("name", DOMAINS)
def test_awkward_numbers_are_scipys(name, device):
    """Zeros with signs, infinities, NaN, poles, the largest and the smallest."""
    count = len(DOMAINS[name])
    numbers = AWKWARD if count < 3 else AWKWARD[:13]
    arguments = [np.array(a) for a in zip(*itertools.product(*[numbers] * count), strict=True)]
    ours = getattr(cm.special, name)(*[cm.asarray(a) for a in arguments]).to_numpy()
    with np.errstate(all="ignore"):
        theirs = getattr(scipy_special, name)(*arguments)
    near(ours, theirs, ALLOWED_FAR.get(name, 64), *arguments)


def scaled_tail(x: np.ndarray) -> np.ndarray:
    """exp(x^2) erfc(x) from 2 on, in long double: the continued fraction."""
    x, fraction = x.astype(np.longdouble), np.zeros(x.shape, np.longdouble)
    for k in range(600, 0, -1):
        fraction = k / np.longdouble(2) / (x + fraction)
    return 1 / np.sqrt(np.arccos(np.longdouble(-1))) / (x + fraction)


def test_tails():
    """SciPy's lose digits: up to nine hundred epsilons, ours eight."""
    x = np.random.default_rng(0).uniform(3, 26, 2000)
    wide = x.astype(np.longdouble)
    near(cm.special.erfc(cm.asarray(x)).to_numpy(), scaled_tail(wide) * np.exp(-wide * wide), 4, x)
    half = np.sqrt(np.longdouble(0.5))
    tail = scaled_tail(wide * half) * np.exp(-wide * wide / 2) / 2
    near(cm.special.ndtr(cm.asarray(-x)).to_numpy(), tail, 8, x)
    near(cm.special.log_ndtr(cm.asarray(x)).to_numpy(), np.log1p(-tail), 8, x)


def test_erfcx():
    """SciPy's loses digits of negative numbers."""
    x = np.concatenate([np.linspace(2, 40, 500), 10 ** np.linspace(2, 300, 50)])
    truth = scaled_tail(x)
    ours = cm.special.erfcx(cm.asarray(x)).to_numpy()
    near(ours, truth.astype(np.float64), 4, x)
    odd = cm.asarray([-30.0, -np.inf, np.inf, np.nan, 0.0], dtype="float64")
    np.testing.assert_array_equal(
        cm.special.erfcx(odd).to_numpy(), scipy_special.erfcx(odd.to_numpy())
    )
    y = cm.asarray(np.linspace(-26, 2, 300))
    square = y.to_numpy().astype(np.longdouble) ** 2
    truth = np.exp(square) * scipy_special.erfc(y.to_numpy())
    near(cm.special.erfcx(y).to_numpy(), truth.astype(np.float64), 6, y.to_numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", DOMAINS)
def test_dtypes(name, dtype):
    """A result is that of float64, rounded once."""
    arguments = [cm.asarray(a).astype(dtype) for a in drawn(name, 300)]
    with cm.device("cpu"):
        ours = getattr(cm.special, name)(*arguments)
        wide = getattr(cm.special, name)(*[a.astype("float64") for a in arguments])
    assert ours.dtype == dtype
    np.testing.assert_array_equal(
        ours.astype("float64").to_numpy(), wide.astype(dtype).astype("float64").to_numpy()
    )


def test_whole_numbers_and_numbers():
    assert cm.special.gamma(cm.asarray([1, 2, 5])).tolist() == [1, 1, 24]
    assert cm.special.gamma(cm.asarray([1, 2, 5])).dtype == cm.ones(1).dtype
    assert isinstance(cm.special.erf(0.5), np.generic) and isinstance(
        cm.special.beta(np.float32(2), 1.0), np.float32
    )
    with pytest.raises(TypeError, match="^gamma: wants real numeric or bool"):
        cm.special.gamma(cm.ones(2, dtype="complex64"))
    with pytest.raises(ValueError, match="^beta: "):
        cm.special.beta(cm.ones(2), cm.ones(3))
    with pytest.raises(TypeError, match="^multigammaln: d must be an integer"):
        cm.special.multigammaln(2.0, 1.5)
    with pytest.raises(ValueError, match="^multigammaln: d must be at least 1"):
        cm.special.multigammaln(2.0, 0)


def test_out_and_where():
    x = cm.asarray([0.5, 1.0], dtype="float64")
    out = cm.zeros(2, dtype="float64")
    assert cm.special.erf(x, out=out) is out and out.tolist() == cm.special.erf(x).tolist()
    assert cm.special.erf(x, where=cm.asarray([True, False])).tolist()[1] == 0


@pytest.mark.parametrize("n", range(6))
def test_polygamma(n):
    x = np.concatenate([np.random.default_rng(0).uniform(-9, 60, 1000), [0.0, -1.0, 1.0, np.inf]])
    near(cm.special.polygamma(n, cm.asarray(x)).to_numpy(), scipy_special.polygamma(n, x), 16, x)


def test_polygamma_of_arrays_of_orders():
    n, x = np.array([[0], [3]]), np.array([1.0, 2.5])
    ours = cm.special.polygamma(cm.asarray(n), cm.asarray(x))
    near(ours.to_numpy(), scipy_special.polygamma(n, x), 8)
    assert cm.special.polygamma(n, cm.ones(2, dtype="float16")).dtype == cm.float16
    with pytest.raises(TypeError, match="^polygamma: has no gradient with respect to n"):
        cm.grad(lambda n: cm.special.polygamma(n, x).sum())(cm.ones(2, dtype="float64"))


@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(axis, keepdims, device):
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 300, (3, 4, 5)), rng.normal(size=(4, 5))
    for options in ({}, {"b": b, "return_sign": True}):
        ours = cm.special.logsumexp(cm.asarray(a), axis=axis, keepdims=keepdims, **options)
        theirs = scipy_special.logsumexp(a, axis=axis, keepdims=keepdims, **options)
        for x, y in zip(ours if options else [ours], theirs if options else [theirs], strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=1e-14)


def test_logsumexp_of_odd_numbers():
    for a, b in (
        ([0.0, -40], None),
        ([-np.inf, -np.inf], None),
        ([np.inf, 1], None),
        ([np.nan, 1], None),
        ([1.0, 2], [1.0, -3]),
        ([1.0, np.inf], [1.0, 0]),
    ):
        ours, theirs = cm.special.logsumexp(a, b=b), scipy_special.logsumexp(a, b=b)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6, atol=0)
    assert cm.special.logsumexp(cm.zeros((2, 0)), axis=1).tolist() == [-np.inf, -np.inf]


def test_second_order_of_logsumexp_at_ties():
    """The Hessian is diag(p) - p p^T."""
    a = cm.zeros(3, dtype="float64")
    row = cm.grad(lambda a: cm.grad(cm.special.logsumexp)(a)[0])(a)
    np.testing.assert_allclose(row.to_numpy(), [2 / 9, -1 / 9, -1 / 9], rtol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, (0, 2), (2, 1)])
def test_softmax(axis):
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    for name in ("softmax", "log_softmax"):
        ours = getattr(cm.special, name)(cm.asarray(x), axis=axis)
        np.testing.assert_allclose(
            ours.to_numpy(), getattr(scipy_special, name)(x, axis=axis), rtol=1e-13
        )


def test_slopes_at_the_edges():
    """Where a formula would have 0 / 0 or infinity times 0."""
    g = cm.grad(lambda x, y: cm.special.xlogy(x, y).sum(), (0, 1))
    zero = cm.zeros(1, dtype="float64")
    assert [v.tolist() for v in g(zero, zero)] == [[-np.inf], [0.0]]
    slope = cm.grad(lambda x: cm.special.rgamma(x).sum())
    np.testing.assert_allclose(
        slope(cm.asarray([0.0, -1.0, -2.0], dtype="float64")).tolist(), [1, -1, 2], rtol=1e-15
    )
    assert cm.grad(lambda x: cm.special.exprel(x).sum())(zero).tolist() == [0.5]
    far = cm.asarray([1e5, -1e5], dtype="float64")
    assert cm.grad(lambda x: cm.special.expit(x).sum())(far).tolist() == [0, 0]


def test_every_scalar_function_is_found():
    from cudamath.core.specs.special.library import scalar

    with pytest.raises(KeyError):
        scalar("no_such_function")
    with pytest.raises(AttributeError):
        import cudamath.cpu.special

        _ = cudamath.cpu.special.no_such_function
