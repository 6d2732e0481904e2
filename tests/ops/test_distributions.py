"""Distributions of the random generator: against SciPy's, against Philox in plain Python, CPU
against GPU."""

import math
import re

import numpy as np
import pytest
from philox_reference import BF16, COUNTER, words32, words64

import cudamath as cm
from tests.ops.test_random import at, chi_square_is_plausible, kolmogorov, numpy

stats = pytest.importorskip("scipy.stats")

N = 40_000

# name, arguments of the draw, SciPy's distribution
CONTINUOUS = [
    ("exponential", (2.0,), stats.expon(scale=2)),
    ("standard_exponential", (), stats.expon()),
    ("laplace", (1.0, 2.0), stats.laplace(1, 2)),
    ("logistic", (-1.0, 0.5), stats.logistic(-1, 0.5)),
    ("gumbel", (0.5, 3.0), stats.gumbel_r(0.5, 3)),
    ("cauchy", (1.0, 2.0), stats.cauchy(1, 2)),
    ("standard_cauchy", (), stats.cauchy()),
    ("rayleigh", (1.5,), stats.rayleigh(scale=1.5)),
    ("weibull", (0.7,), stats.weibull_min(0.7)),
    ("weibull", (3.0,), stats.weibull_min(3)),
    ("pareto", (2.5,), stats.lomax(2.5)),
    ("lognormal", (0.3, 0.8), stats.lognorm(0.8, scale=math.exp(0.3))),
    ("triangular", (-1.0, 0.5, 3.0), stats.triang(0.375, -1, 4)),
    ("triangular", (0.0, 0.0, 1.0), stats.triang(0)),
    ("standard_gamma", (0.3,), stats.gamma(0.3)),
    ("standard_gamma", (1.0,), stats.gamma(1)),
    ("gamma", (4.5, 2.0), stats.gamma(4.5, scale=2)),
    ("gamma", (1000.0, 1.0), stats.gamma(1000)),
    ("chisquare", (3.0,), stats.chi2(3)),
    ("beta", (0.4, 0.6), stats.beta(0.4, 0.6)),
    ("beta", (5.0, 2.0), stats.beta(5, 2)),
    ("f", (3.0, 8.0), stats.f(3, 8)),
    ("noncentral_f", (3.0, 9.0, 2.0), stats.ncf(3, 9, 2)),
    ("noncentral_chisquare", (0.7, 3.0), stats.ncx2(0.7, 3)),
    ("noncentral_chisquare", (5.0, 1.5), stats.ncx2(5, 1.5)),
    ("power", (3.0,), stats.powerlaw(3)),
    ("power", (0.4,), stats.powerlaw(0.4)),
    ("wald", (2.0, 5.0), stats.invgauss(0.4, scale=5)),
    ("wald", (30.0, 0.5), stats.invgauss(60, scale=0.5)),
    ("vonmises", (0.5, 2.0), stats.vonmises_line(2, 0.5)),
    ("vonmises", (0.0, 0.0), stats.uniform(-math.pi, 2 * math.pi)),
    ("vonmises", (-1.0, 5e5), stats.norm(-1, 5e5**-0.5)),
    ("vonmises", (0.0, 1e-3), stats.vonmises_line(1e-3)),
    ("standard_t", (3.0,), stats.t(3)),
    ("student_t", (8.0, 1.0, 2.0), stats.t(8, 1, 2)),
]
COUNTS = [
    ("poisson", (0.2,), stats.poisson(0.2)),
    ("poisson", (9.5,), stats.poisson(9.5)),
    ("poisson", (10.5,), stats.poisson(10.5)),
    ("poisson", (400.0,), stats.poisson(400)),
    ("binomial", (10, 0.3), stats.binom(10, 0.3)),
    ("binomial", (1000, 0.004), stats.binom(1000, 0.004)),
    ("binomial", (60, 0.5), stats.binom(60, 0.5)),
    ("binomial", (500, 0.9), stats.binom(500, 0.9)),
    ("binomial", (30, 0.97), stats.binom(30, 0.97)),
    ("negative_binomial", (3.5, 0.4), stats.nbinom(3.5, 0.4)),
    ("negative_binomial", (40.0, 0.9), stats.nbinom(40, 0.9)),
    ("logseries", (0.2,), stats.logser(0.2)),
    ("logseries", (0.97,), stats.logser(0.97)),
    ("zipf", (2.0,), stats.zipf(2.0)),
    ("zipf", (5.5,), stats.zipf(5.5)),
    ("hypergeometric", (15, 5, 10), stats.hypergeom(20, 15, 10)),
    ("hypergeometric", (3, 0, 2), stats.hypergeom(3, 3, 2)),
    ("hypergeometric", (700, 300, 90), stats.hypergeom(1000, 700, 90)),
    ("hypergeometric", (10**6, 10**6, 10**5), stats.hypergeom(2 * 10**6, 10**6, 10**5)),
    ("geometric", (0.3,), stats.geom(0.3)),
    ("geometric", (1.0,), stats.geom(1)),
]


def ids(rows):
    return [f"{name}{args}" for name, args, _ in rows]


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize(("name", "args", "truth"), CONTINUOUS, ids=ids(CONTINUOUS))
def test_continuous_distributions(device, name, args, truth, dtype):
    x = numpy(getattr(cm.random.default_rng(21), name)(*args, size=N, dtype=dtype))
    assert x.dtype == dtype and x.shape == (N,) and np.isfinite(x).all()
    assert kolmogorov(x, truth.cdf) < 2.2  # above it once in 10^4


@pytest.mark.parametrize(("name", "args", "truth"), CONTINUOUS, ids=ids(CONTINUOUS))
def test_array_parameters_draw_the_same_numbers(device, name, args, truth):
    """Parameters as arrays: the same words, so the same numbers to rounding; and they broadcast."""
    if not args:
        pytest.skip("it has no parameters")
    draw = getattr
    told = numpy(draw(at(), name)(*args, size=(3, 50)))
    assert told.dtype == np.float64
    for given in (
        [np.full((3, 1), v) for v in args],
        [np.full((3, 50), args[0]), *args[1:]],
        [cm.asarray(np.full(50, v)) for v in args],
    ):
        got = draw(at(), name)(*given, size=(3, 50))
        np.testing.assert_allclose(numpy(got), told, rtol=2e-13, atol=1e-14)
    assert draw(at(), name)(*[np.full((2, 1), v) for v in args]).shape == (2, 1)
    half = draw(at(), name)(*[cm.asarray(np.full(4, v, np.float32)) for v in args])
    assert half.dtype == np.float32


@pytest.mark.parametrize(("name", "args", "truth"), COUNTS, ids=ids(COUNTS))
def test_counts(device, name, args, truth):
    x = numpy(getattr(cm.random.default_rng(22), name)(*args, size=N))
    assert x.dtype == np.int64
    low, high = int(truth.ppf(1e-3)), int(truth.ppf(1 - 1e-3))
    edges = np.arange(low, high + 1)
    expected = N * np.diff(np.concatenate([[0], truth.cdf(edges), [1]]))
    counts = np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1)
    few = expected < 8  # lumped together
    if few.any():
        counts = np.append(counts[~few], counts[few].sum())
        expected = np.append(expected[~few], expected[few].sum())
    if expected[-1] < 1e-9:
        assert counts[-1] == 0
        counts, expected = counts[:-1], expected[:-1]
    if counts.size == 1:
        assert counts[0] == N
    else:
        assert chi_square_is_plausible(counts, expected)
    arrays = getattr(cm.random.default_rng(22), name)(*[np.full(N, v) for v in args])
    np.testing.assert_array_equal(numpy(arrays), x)
    assert getattr(at(), name)(*args, size=(2, 0)).shape == (2, 0)
    assert getattr(at(), name)(*args, size=3, dtype="uint8").dtype == np.uint8


def test_counts_of_several_means(device):
    """Each element by its own parameters."""
    lam = np.array([0.0, 0.01, 3.0, 12.0, 1e3, 1e9, 1e15])
    x = numpy(cm.random.default_rng(23).poisson(lam, (4000, lam.size)))
    assert (x[:, 0] == 0).all()
    errors = (x.mean(0) - lam)[1:] / np.sqrt(lam[1:] / 4000)
    assert np.abs(errors).max() < 5
    spread = x.var(0)[2:] / lam[2:]
    assert np.abs(spread - 1).max() < 5 * math.sqrt(2.4 / 4000)
    n, p = np.array([0, 1, 20, 10**6, 2**53]), np.array([0.5, 1.0, 0.25, 0.75, 1e-9])
    y = numpy(cm.random.default_rng(24).binomial(n, p, (4000, 5)))
    assert (y[:, 0] == 0).all() and (y[:, 1] == 1).all()
    mean, variance = n * p, n * p * (1 - p)
    assert np.abs((y.mean(0) - mean)[2:] / np.sqrt(variance[2:] / 4000)).max() < 5
    assert np.abs(y.var(0)[2:] / variance[2:] - 1).max() < 5 * math.sqrt(2.4 / 4000)
    assert numpy(at().geometric(1e-300, 3)).tolist() == [2**63 - 1024] * 3


def test_exponential_resolves_both_tails(device):
    """Element i is -ln u of word i, u = (word + 1/2) / 2^32, to a few ulp, however near to 1."""
    import fractions

    words = words32(200)
    want = [
        -math.log1p(-float(fractions.Fraction(2**33 - 2 * w - 1, 2**33)))
        if w < 2**31
        else -math.log1p(-float(fractions.Fraction(2 * (2**32 - 1 - w) + 1, 2**33)))
        for w in words
    ]
    np.testing.assert_allclose(numpy(at().standard_exponential(200, "float32")), want, rtol=4e-7)
    words = [w >> 11 for w in words64(200)]
    want = [
        -math.log(float(fractions.Fraction(2 * w + 1, 2**54)))
        if w < 2**52
        else -math.log1p(-float(fractions.Fraction(2 * (2**53 - 1 - w) + 1, 2**54)))
        for w in words
    ]
    np.testing.assert_allclose(
        numpy(at().standard_exponential(200, method="zig")), want, rtol=1e-15
    )


def test_logarithms_and_exponentials():
    from cudamath.cpu import reproducible_math as m
    from cudamath.cpu.lib.llvm_compiled import ufunc

    tiny = np.concatenate([2.0 ** -np.arange(1, 53), np.linspace(1e-6, 0.5, 300)])
    got = ufunc(m.log_rest64)(tiny)
    np.testing.assert_allclose(got, np.log1p(-tiny), rtol=4e-16)
    single = tiny.astype(np.float32)
    got = ufunc(m.log_rest32, (np.float32,))(single)
    np.testing.assert_allclose(got, np.log1p(-single.astype(np.float64)), rtol=3e-7)
    x = np.linspace(-40, 40, 1001)
    np.testing.assert_allclose(ufunc(m.exp64)(x), np.exp(x), rtol=4e-16)


def test_log_factorials():
    from scipy.special import gammaln

    from cudamath.cpu import rejection_samplers
    from cudamath.cpu.lib.llvm_compiled import ufunc

    k = np.array([*range(40), 1e3, 1e6, 1e9, 1e12])
    np.testing.assert_allclose(
        ufunc(rejection_samplers.log_factorial)(k), gammaln(k + 1), rtol=4e-16 * 8, atol=3e-15
    )
    about = (k + 0.5) * np.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)
    small = k < 40
    np.testing.assert_allclose(
        ufunc(rejection_samplers.stirling_rest)(k[small]),
        (gammaln(k + 1) - about)[small],
        atol=3e-8,
    )


#: What several draws are made of: each of these ends before the next begins.
SEVERAL_DRAWS = "f noncentral_f noncentral_chisquare wald vonmises standard_t student_t".split()
SEVERAL_DRAWS += ["negative_binomial", "logseries"]
ONE_DRAW = [row for row in CONTINUOUS + COUNTS if row[0] not in SEVERAL_DRAWS]


@pytest.mark.parametrize(("name", "args", "truth"), ONE_DRAW, ids=ids(ONE_DRAW))
def test_a_draw_goes_on_where_the_last_ended(device, name, args, truth):
    """A draw takes as much of the sequence as its numbers are made of, no more and no less."""
    continuous = isinstance(truth.dist, stats.rv_continuous)
    for options in ({}, {"dtype": "float32"}) if continuous else ({},):
        rngs = cm.random.default_rng(3), cm.random.default_rng(3)
        whole, *parts = (
            numpy(getattr(rng, name)(*args, size=n, **options))
            for rng, n in zip((rngs[0], rngs[1], rngs[1]), (24, 16, 8), strict=True)
        )
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert rngs[0].state == rngs[1].state


def test_small_shapes(device):
    """Gamma numbers too small for a float: beta and Dirichlet numbers are right all the same."""
    x = numpy(cm.random.default_rng(25).beta(1e-3, 1e-3, 4000))
    assert not np.isnan(x).any() and abs(x.mean() - 0.5) < 5 * 0.5 / math.sqrt(4000)
    y = numpy(cm.random.default_rng(26).dirichlet(np.full(3, 1e-3), 4000))
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-14)
    assert np.abs(y.mean(0) - 1 / 3).max() < 5 * 0.48 / math.sqrt(4000)
    assert (numpy(at().gamma(0.0, size=5)) == 0).all()


def test_dirichlet(device):
    alpha = np.array([[0.5, 1.0, 3.0], [2.0, 2.0, 2.0]])
    x = numpy(cm.random.default_rng(27).dirichlet(alpha, (5000,), dtype="float32"))
    assert x.shape == (5000, 2, 3) and x.dtype == np.float32
    for row in range(2):
        for column in range(3):
            a = alpha[row, column]
            assert kolmogorov(x[:, row, column], stats.beta(a, alpha[row].sum() - a).cdf) < 2.2
    assert at().dirichlet(np.ones((2, 0))).shape == (2, 0)


def test_multinomial(device):
    p = np.array([0.1, 0.0, 0.6, 0.3])
    x = numpy(cm.random.default_rng(28).multinomial(50, p, 6000))
    assert (x.sum(-1) == 50).all() and (x[:, 1] == 0).all()
    assert np.abs((x.mean(0) - 50 * p) / np.sqrt(50 * p * (1 - p) / 6000 + 1e-12)).max() < 5
    covariance = np.cov(x.T)[0, 2]
    assert abs(covariance + 50 * 0.06) < 0.5
    y = numpy(at().multinomial(cm.asarray([1, 20]), [[0.5, 0.5], [1.0, 0.0]], (3, 2)))
    assert y.shape == (3, 2, 2) and (y.sum(-1) == [1, 20]).all() and (y[:, 1] == [20, 0]).all()
    assert numpy(at().multinomial(7, [1.0])).tolist() == [7]


def test_categorical(device):
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(p) + 3
    for dtype in (np.float32, np.float64, BF16):
        x = numpy(cm.random.default_rng(29).categorical(cm.asarray(logits.astype(dtype)), 6000))
        assert x.shape == (6000, 2) and x.dtype == np.int64
        for row in range(2):
            counts = np.bincount(x[:, row], minlength=3)
            assert np.abs(counts / 6000 - p[row]).max() < 5 * 0.5 / math.sqrt(6000) + (
                0.01 if dtype == BF16 else 0
            )
    assert at().categorical(cm.zeros((4, 3)), axis=0).shape == (3,)


@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky"])
def test_multivariate_normal(device, method):
    mean, cov = (
        np.array([1.0, -2.0, 0.0]),
        np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]]),
    )
    x = numpy(cm.random.default_rng(30).multivariate_normal(mean, cov, (100, 200), method=method))
    assert x.shape == (100, 200, 3)
    x = x.reshape(-1, 3)
    assert np.abs((x.mean(0) - mean) / np.sqrt(np.diag(cov) / len(x))).max() < 5
    bound = 5 * np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / len(x))
    assert (np.abs(np.cov(x.T) - cov) < bound).all()
    whitened = np.linalg.solve(np.linalg.cholesky(cov), (x - mean).T)
    assert kolmogorov((whitened**2).sum(0), stats.chi2(3).cdf) < 2.2


def test_multivariate_normal_of_bad_covariances(device):
    with pytest.warns(
        RuntimeWarning, match="random.multivariate_normal: cov is not symmetric, or has negative"
    ):
        at().multivariate_normal([0.0, 0.0], [[1, 2], [2, 1]])
    singular = numpy(at().multivariate_normal([0.0, 0.0], [[1, 1], [1, 1]], 50))
    np.testing.assert_allclose(singular[:, 0], singular[:, 1], atol=1e-7)
    with pytest.raises(np.linalg.LinAlgError):
        at().multivariate_normal([0.0, 0.0], [[1, 1], [1, 1]], method="cholesky")


def test_integers_of_bounds_by_element(device):
    low, high = np.array([0, -5, 7, -(2**63)]), np.array([3, 6, 8, 2**63 - 1])
    x = numpy(cm.random.default_rng(31).integers(low, high, (6000, 4)))
    assert (x >= low).all() and (x < high).all()
    assert chi_square_is_plausible(np.bincount(x[:, 0])) and chi_square_is_plausible(
        np.bincount(x[:, 1] + 5)
    )
    assert abs(x[:, 3].astype(float).mean()) < 5 * 2**64 / math.sqrt(12 * 6000)
    ends = numpy(at().integers(low[:3], high[:3], (4000, 3), endpoint=True, dtype="int8"))
    assert (
        ends.dtype == np.int8
        and ends.max(0).tolist() == [3, 6, 8]
        and ends.min(0).tolist() == [0, -5, 7]
    )
    top = numpy(at().integers([0], np.array([2**64 - 1], np.uint64), 200, np.uint64, endpoint=True))
    assert top.max() > 2**63
    # element i: its own blocks, masked to the bits of the width, until one fits
    from philox_reference import block

    key, stream, first = COUNTER
    for i, value in enumerate(numpy(at().integers(np.full(40, 10), np.full(40, 1010))).tolist()):
        for attempt in range(255):
            words = block(first + i + (attempt << 56), stream, key)
            found = (words[0] | words[1] << 32) & 1023
            if found <= 999:
                break
        assert value == 10 + found


def test_bernoulli_of_arrays(device):
    p = np.array([0.0, 0.25, 1.0])
    x = numpy(at().bernoulli(p, (3000, 3)))
    assert x.dtype == bool and not x[:, 0].any() and x[:, 2].all()
    np.testing.assert_array_equal(
        numpy(at().bernoulli(np.full(400, 0.3))), numpy(at().bernoulli(0.3, 400))
    )


CHANCE_DTYPES = [*map(np.dtype, ("f8", "f4", "f2", "u1", "i8")), BF16]
CHANCES = np.array(
    [0, 1, 2.0**-33, 3 * 2.0**-33, 0.1, 0.5, 0.9, 1 - 2.0**-24, 1 - 2.0**-33, 0.25, 0.75]
)


def test_bernoulli_numbers_of_an_arrays_chances(device):
    """Word i of the sequence is below rint(p 2^32): of any dtype and layout, in a new array of
    bool, again and again."""
    wide = np.random.default_rng(5).uniform(0, 1, (7, 9))
    for dtype in ("f8", "f4", "f2", BF16, "i4", "u1", "i8"):
        x = cm.asarray(
            (wide * 1.2).astype(dtype) if np.dtype(dtype).kind in "iu" else wide.astype(dtype)
        )
        for given in (x, x.T, x[:, ::2], x.reshape(-1)[1:], x[:, :0]):
            rng, plain = at(), at()
            p = given.to_numpy().astype("f8")
            for _ in range(3):
                got = rng.bernoulli(given)
                words = numpy(plain.integers(0, 1 << 32, p.shape, np.uint32))
                assert got.dtype == np.bool_ and got.device == given.device
                np.testing.assert_array_equal(numpy(got), words < np.rint(p * 2.0**32))
            words = numpy(plain.integers(0, 1 << 32, (2, *p.shape), np.uint32))
            np.testing.assert_array_equal(
                numpy(rng.bernoulli(given, (2, *p.shape))), words < np.rint(p * 2.0**32)
            )
            assert rng.state == plain.state
    with pytest.raises(
        TypeError, match="random.bernoulli: wants p as real numbers, got complex128"
    ):
        at().bernoulli(cm.asarray(wide) * 1j)
    with pytest.raises(TypeError, match="random.bernoulli: wants p as real numbers, got bool"):
        at().bernoulli(cm.asarray(wide) > 0)
    g = cm.grad(lambda v: (v * at().bernoulli(v)).sum())(cm.asarray(wide))  # the draw is a constant
    np.testing.assert_array_equal(numpy(g), numpy(at().bernoulli(wide)))


def test_bernoulli_of_chances_is_one_launch(fake):
    with cm.device("cuda:0"):
        p, rng = cm.zeros((64, 64)), at()
        for _ in range(3):
            fake.launches.clear()
            rng.bernoulli(p)
            assert len(fake.launches) == 1
    assert rng.state["offset"] == COUNTER[2] + 3 * 1024


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", CHANCE_DTYPES, ids=str)
def test_bernoulli_chances_each_in_the_simulator(dtype):
    from cudamath.cpu import random as cpu
    from cudamath.kernels.random import bernoulli_array as kernels

    p = np.tile(CHANCES, 4).astype(dtype)
    got = cm.testing.simulate(
        kernels.chances(cm.testing.layout_of(p), version="each"), p, scalars=COUNTER
    )
    np.testing.assert_array_equal(got, cpu.chances(p, scalars=COUNTER))


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["each", "vectors"])
@pytest.mark.parametrize("dtype", CHANCE_DTYPES, ids=str)
def test_bernoulli_chances_on_the_gpu_are_those_of_the_cpu(dtype, version):
    from cudamath.cpu import random as cpu
    from cudamath.kernels.random import bernoulli_array as kernels

    for n in (1, 3, 7, 8, 9, 2055, 4095, 4096, 4097, 100_003):
        for start in (0, 1):  # 1: not 16-byte aligned
            host = np.concatenate(
                [
                    CHANCES,
                    [np.nan, -0.5, 1.5] if dtype.kind == "f" else [1, 0],
                    np.linspace(0, 1, n),
                ]
            )
            host = np.random.default_rng(n).permutation(host)[: n + start].astype(dtype)
            p = cm.asarray(host, device="cuda")[start:]
            run = kernels.chances(p._layout, version=version).bind("bernoulli", [p._layout], 3, 0)
            np.testing.assert_array_equal(
                numpy(run(p, *COUNTER)), cpu.chances(host[start:], scalars=COUNTER)
            )


def test_permuted(device):
    x = np.arange(24.0).reshape(4, 6)
    keys = np.array(words64(24), np.uint64).reshape(4, 6)
    for axis in (0, 1, -1):
        got = numpy(at().permuted(cm.asarray(x), axis=axis))
        np.testing.assert_array_equal(np.sort(got, axis), x)
        np.testing.assert_array_equal(
            got, np.take_along_axis(x, np.argsort(keys, axis=axis, kind="stable"), axis)
        )
        itself = cm.asarray(x.copy())
        assert at().permuted(itself, axis=axis, out=itself) is itself
        np.testing.assert_array_equal(numpy(itself), got)
    every = numpy(at().permuted(cm.asarray(x)))
    assert every.shape == x.shape and sorted(every.ravel().tolist()) == sorted(x.ravel().tolist())
    weight = cm.asarray(np.arange(24.0).reshape(4, 6))
    g = numpy(cm.grad(lambda v: (at().permuted(v, axis=1) * weight).sum())(cm.asarray(x)))
    back = np.argsort(np.argsort(keys, axis=1, kind="stable"), axis=1)
    np.testing.assert_array_equal(g, np.take_along_axis(numpy(weight), back, 1))
    assert at().permuted(cm.zeros((3, 0)), axis=1).shape == (3, 0)


def test_shuffle_and_choice_along_axes(device):
    x = cm.asarray(np.arange(24.0).reshape(6, 4))
    want = numpy(at().permutation(x, axis=1))
    at().shuffle(x, axis=1)
    np.testing.assert_array_equal(numpy(x), want)
    picked = numpy(at().choice(x, (2, 2), axis=1))
    index = numpy(at().choice(4, (2, 2)))
    np.testing.assert_array_equal(picked, numpy(x)[:, index])


def test_gradients_of_parameters(device):
    """loc + scale z and its kin: against differences, through the same draw."""
    host = np.random.default_rng(0)
    a, b = host.uniform(0.5, 1.0, (3, 4)), host.uniform(1.5, 2.0, (3, 1))
    cases = [
        ("uniform", (a, b)),
        ("normal", (a, b)),
        ("exponential", (a,)),
        ("laplace", (a, b)),
        ("logistic", (a, b)),
        ("gumbel", (a, b)),
        ("cauchy", (a, b)),
        ("rayleigh", (a,)),
        ("weibull", (b,)),
        ("pareto", (b,)),
        ("lognormal", (a, b)),
        ("triangular", (a, b, np.full((3, 1), 4.0))),
    ]
    weight = cm.asarray(host.normal(size=(3, 4)))
    for name, args in cases:

        def value(*xs, name=name):
            return (cm.tanh(getattr(at(), name)(*xs, size=(3, 4))) * weight).sum()

        got = cm.grad(value, tuple(range(len(args))))(*[cm.asarray(x) for x in args])
        for i, g in enumerate(got):
            step = np.zeros_like(args[i])
            step.flat[1] = 1e-6
            ends = [
                float(
                    value(*[cm.asarray(x + s * step if j == i else x) for j, x in enumerate(args)])
                )
                for s in (1, -1)
            ]
            assert numpy(g).shape == args[i].shape
            assert abs((ends[0] - ends[1]) / 2e-6 - numpy(g).flat[1]) < 1e-7 * (
                1 + abs(numpy(g).flat[1])
            ), (name, i)
    scale = cm.grad(lambda s: at().gamma(2.0, s, (3, 4)).sum())(cm.asarray(a))
    np.testing.assert_allclose(numpy(scale), numpy(at().gamma(2.0, 1.0, (3, 4))), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, BF16], ids=["f2", "bf16"])
def test_16_bit_results_are_rounded_float32(device, dtype):
    for name, args, _ in CONTINUOUS:
        wide = numpy(getattr(at(), name)(*args, size=100, dtype="float32"))
        got = numpy(getattr(at(), name)(*args, size=100, dtype=dtype))
        assert got.dtype == dtype
        eps = 2.0**-10 if dtype == np.float16 else 2.0**-7
        tiny = 1e-7 if dtype == np.float16 else 0
        with np.errstate(over="ignore"):
            want = np.clip(wide, -65504, 65504) if dtype == np.float16 else wide
            ours = (
                np.clip(got.astype(np.float32), -65504, 65504)
                if dtype == np.float16
                else got.astype(np.float32)
            )
        np.testing.assert_allclose(ours, want, rtol=1.01 * eps, atol=tiny + 1e-6, err_msg=name)


# -------------------- kernel versions by name

SAMPLERS = [
    ("gamma", dict(dtype=np.dtype("f4"), log=False), (2.5,)),
    ("gamma", dict(dtype=np.dtype("f8"), log=False), (1.5,)),
    ("gamma", dict(dtype=BF16, log=False), (0.4,)),
    ("gamma", dict(dtype=np.dtype("f4"), log=True), (0.2,)),
    ("gamma", dict(dtype=np.dtype("f8"), log=True), (0.05,)),
    ("poisson", dict(dtype=np.dtype("i8")), (3.0,)),
    ("poisson", dict(dtype=np.dtype("i4")), (50.0,)),
    ("binomial", dict(dtype=np.dtype("i8")), (15.0, 0.3)),
    ("binomial", dict(dtype=np.dtype("i8")), (400.0, 0.8)),
    ("beta", dict(dtype=np.dtype("f4")), (2.5, 1.5)),
    ("beta", dict(dtype=np.dtype("f8")), (30.0, 1.2)),
    ("beta", dict(dtype=np.dtype("f8")), (0.3, 3.0)),
    ("beta", dict(dtype=BF16), (3.0, 0.1)),
    ("bounded", dict(dtype=np.dtype("i2")), ((1 << 64) - 3, 500)),
]
TAILS = [
    "exponential",
    "laplace",
    "logistic",
    "gumbel",
    "rayleigh",
    "weibull",
    "pareto",
    "cauchy",
    "lognormal",
]


def parameters_of(name, params, values, n):
    """(scalars, arrays) of a sampler: the values as they are, and as arrays that vary a little."""
    own = "f8" if params["dtype"] == np.dtype("f8") else "f4"
    kind = {"gamma": own, "beta": own, "bounded": "u8"}.get(name, "f8")
    arrays = []
    for i, v in enumerate(values):
        vary = np.ones(n) if name == "binomial" and i == 0 else np.linspace(0.9, 1.1, n)
        arrays.append(np.full(n, v, kind) if name == "bounded" else (v * vary).astype(kind))
    return (*values, 0)[:2], arrays


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore:.*overflow encountered")
@pytest.mark.parametrize(
    ("name", "params", "values"), SAMPLERS, ids=[f"{r[0]}-{i}" for i, r in enumerate(SAMPLERS)]
)
def test_samplers_in_the_simulator(name, params, values):
    from cudamath.cpu import rejection_samplers as cpu
    from cudamath.kernels.random import rejection_samplers as kernels

    n = 21
    scalars, arrays = parameters_of(name, params, values, n)
    for given in ((False, False), tuple([i < len(values) for i in range(2)])):
        taken = arrays if any(given) else []
        plan = getattr(kernels, name)(
            *map(cm.testing.layout_of, taken), shape=(n,), device=0, given=given, **params
        )
        got = cm.testing.simulate(plan, *taken, scalars=(*COUNTER, *scalars))
        want = getattr(cpu, name)(
            *taken, scalars=(*COUNTER, *scalars), shape=(n,), device=-1, given=given, **params
        )
        if name in ("gamma", "beta"):  # the simulator has no fused multiply-add
            np.testing.assert_allclose(
                got.astype("f8"), want.astype("f8"), rtol={2: 1e-2, 4: 1e-5, 8: 1e-13}[got.itemsize]
            )
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore:.*overflow encountered")
@pytest.mark.parametrize(
    "dtype", [np.dtype("f4"), np.dtype("f2"), BF16, np.dtype("u1"), np.dtype("i8")], ids=str
)
def test_poisson_numbers_of_means_of_any_dtype_in_the_simulator(dtype):
    from cudamath.cpu import rejection_samplers as cpu
    from cudamath.kernels.random import rejection_samplers as kernels

    means = np.linspace(0, 40, 23).astype(dtype)
    how = dict(shape=(23,), dtype=np.dtype("i8"), given=(True, False))
    plan = kernels.poisson(cm.testing.layout_of(means), device=0, **how)
    got = cm.testing.simulate(plan, means, scalars=(*COUNTER, 0.0, 0.0))
    np.testing.assert_array_equal(
        got, cpu.poisson(means.astype("f8"), scalars=(*COUNTER, 0.0, 0.0), device=-1, **how)
    )


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_counts_asked_for_again(device):
    """The plan is of the shape and the dtype, whatever the parameters: the numbers are those of
    arrays of them."""
    rng, other = at(), at()
    for lam in (3.0, 3.0, 0.0, 50.0, 3, 7.5):
        for dtype in (None, "int16"):
            want = numpy(other.poisson(np.full((4, 5), lam), dtype=dtype))
            np.testing.assert_array_equal(numpy(rng.poisson(lam, (4, 5), dtype)), want)
    for n, p in ((10, 0.3), (10, 0.3), (0, 0.3), (1000, 0.9), (10, 1.0), (10.0, 0.5), (1000, 0.9)):
        np.testing.assert_array_equal(
            numpy(rng.binomial(n, p, (4, 5))), numpy(other.binomial(np.full((4, 5), n), p))
        )
    assert rng.state == other.state
    for wrong in (
        lambda: rng.poisson(-1.0, (4, 5)),
        lambda: rng.poisson(np.nan, (4, 5)),
        lambda: rng.poisson(3.0, (4.0, 5)),
        lambda: rng.binomial(10, 1.5, (4, 5)),
        lambda: rng.binomial(-1, 0.3, (4, 5)),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()


@pytest.mark.filterwarnings("error")
def test_poisson_numbers_of_an_arrays_means(device):
    """Those of the same means in float64, again and again, in any dtype and layout; the sequence
    goes on as for them."""
    means = np.random.default_rng(5).uniform(0, 30, (6, 8)).astype("f4")
    for given in (
        cm.asarray(means),
        cm.asarray(means).T,
        cm.asarray(means)[:, ::2],
        cm.asarray(means.astype("f2")),
        cm.asarray(means.astype("i4")),
    ):
        rng, other = at(), at()
        wide = given.to_numpy().astype("f8")
        for dtype in (None, "int32", None):
            got = rng.poisson(given, dtype=dtype)
            assert got.dtype == np.dtype(dtype or "i8") and got.device == given.device
            np.testing.assert_array_equal(numpy(got), numpy(other.poisson(wide, dtype=dtype)))
        assert rng.state == other.state
        assert rng.poisson(given, (2, *wide.shape)).shape == (2, *wide.shape)
    with pytest.raises(TypeError, match="real numbers"):
        at().poisson(cm.asarray(means) * 1j)
    with pytest.raises(TypeError, match="integer dtype"):
        at().poisson(cm.asarray(means), dtype="float32")


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore:.*overflow encountered")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", TAILS)
def test_tails_in_the_simulator(kind, dtype):
    from cudamath.cpu import random as cpu
    from cudamath.kernels.random import distributions as kernels

    params, scalars = dict(shape=(21,), dtype=np.dtype(dtype), kind=kind), (*COUNTER, 0.5, 2.0, 0.6)
    got = cm.testing.simulate(kernels.tail(device=0, version="each", **params), scalars=scalars)
    want = cpu.tail(device=-1, scalars=scalars, **params)
    np.testing.assert_allclose(
        got, want, rtol=2e-5 if dtype == "f4" else 1e-13, atol=1e-6 if dtype == "f4" else 1e-14
    )


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "params", "values"), SAMPLERS, ids=[f"{r[0]}-{i}" for i, r in enumerate(SAMPLERS)]
)
def test_samplers_on_the_gpu_are_those_of_the_cpu(name, params, values):
    from cudamath.core.asarray import upload
    from cudamath.cpu import rejection_samplers as cpu
    from cudamath.kernels.random import rejection_samplers as kernels

    for n in (1, 127, 128, 129, 50_001):
        scalars, arrays = parameters_of(name, params, values, n)
        for given in ((False, False), tuple([i < len(values) for i in range(2)])):
            taken = arrays if any(given) else []
            layouts = list(map(cm.testing.layout_of, taken))
            plan = getattr(kernels, name)(*layouts, shape=(n,), device=0, given=given, **params)
            run = plan.bind(name, layouts, 5, 0)
            got = numpy(run(*[upload(a, 0) for a in taken], *COUNTER, *scalars))
            want = getattr(cpu, name)(
                *taken, scalars=(*COUNTER, *scalars), shape=(n,), device=-1, given=given, **params
            )
            if (
                name in ("gamma", "beta") and min(values) < 1 and not params.get("log")
            ):  # exp of the libraries
                np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=1.6e-2)
            else:
                np.testing.assert_array_equal(got, want)


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["each", "vectors"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("kind", TAILS)
def test_tails_on_the_gpu_are_those_of_the_cpu(kind, dtype, version):
    from cudamath.cpu import random as cpu
    from cudamath.kernels.random import distributions as kernels

    scalars = (*COUNTER, 0.5, 2.0, 0.6)
    for n in (1, 5, 4097, 100_003):
        params = dict(shape=(n,), dtype=np.dtype(dtype), kind=kind)
        got = numpy(
            kernels.tail(device=0, version=version, **params).bind(kind, [], 6, 0)(*scalars)
        )
        want = cpu.tail(device=-1, scalars=scalars, **params)
        if kind in ("weibull", "pareto", "lognormal"):
            np.testing.assert_allclose(got, want, rtol={"f4": 1e-6, "f8": 1e-14, "f2": 2e-3}[dtype])
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "name, args",
    [
        ("random", ()),
        ("standard_normal", ()),
        ("standard_exponential", ()),
        ("standard_gamma", (2.5,)),
    ],
)
def test_out_is_filled(device, name, args):
    for dtype in ("f4", "f8"):
        out = cm.zeros((3, 4), dtype)
        assert getattr(cm.random.default_rng(3), name)(*args, out=out) is out
        told = getattr(cm.random.default_rng(3), name)(*args, size=(3, 4), dtype=dtype)
        np.testing.assert_array_equal(out.to_numpy(), told.to_numpy())
    for wrong in ({"size": 3}, {"dtype": "f4"}):
        with pytest.raises(ValueError, match=f"^random.{name}: size .* do not match out of shape"):
            getattr(cm.random.default_rng(3), name)(*args, out=cm.zeros((3, 4)), **wrong)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda g: g.zipf([2.0, 1.0]), "random.zipf: wants a > 1"),
        (
            lambda g: g.hypergeometric(3, 4, 8),
            "wants nsample <= ngood + nbad, got 8.0, 3.0 and 4.0",
        ),
        (lambda g: g.hypergeometric(3, 4, 0.5), "random.hypergeometric: wants nsample whole"),
        (lambda g: g.vonmises(0.0, -1.0), "random.vonmises: wants kappa >= 0, got -1.0"),
        (
            lambda g: g.standard_exponential(3, method="log"),
            "random.standard_exponential: method is 'inv' or 'zig', got 'log'",
        ),
        (
            lambda g: g.permuted(cm.zeros((2, 3)), out=cm.zeros(6)),
            "random.permuted: the result of shape (2, 3) cannot be written",
        ),
    ],
)
def test_parameters_out_of_range(device, draw, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        draw(at())


def test_the_modules_functions_pass_everything_on(device):
    """Positional arguments, names, and a parameter called `method`, which is what the function
    draws by, too."""
    cases = [
        ("multivariate_normal", ([0.0, 1.0], np.eye(2), 3), {"method": "eigh"}),
        ("normal", (1.0,), {"size": (2, 3)}),
        ("integers", (3, 9, 4, "int8"), {"endpoint": True}),
        ("standard_normal", (), {"size": 5, "dtype": "float32"}),
    ]
    for name, args, options in cases:
        cm.random.seed(7)
        got = getattr(cm.random, name)(*args, **options)
        same = getattr(cm.random.default_rng(7), name)(*args, **options)
        np.testing.assert_array_equal(numpy(got), numpy(same))
    with pytest.raises(TypeError, match="unexpected keyword argument 'scales'"):
        cm.random.normal(0.0, scales=2.0)


def test_gamma_of_numbers_that_were_requested_before(device):
    """The second call finds its plan without checks: it draws what an array of the same shapes
    draws, and errs as the first."""
    for dtype in ("float32", "float64", "float16"):
        numbers, arrays = cm.random.default_rng(3), cm.random.default_rng(3)
        for shape in (2.0, 2.0, 0.5, 3):
            got = numbers.gamma(shape, 1, (4, 5), dtype)
            np.testing.assert_array_equal(
                got.to_numpy(), arrays.gamma(np.full((4, 5), shape), 1, (4, 5), dtype).to_numpy()
            )
            np.testing.assert_array_equal(
                numbers.gamma(shape, size=5, dtype=dtype).to_numpy(),
                arrays.gamma(np.full(5, shape), size=5, dtype=dtype).to_numpy(),
            )
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="^random.gamma: "):
            numbers.gamma(bad, 1, (4, 5), "float32")
    cm.random.gamma(2.0, 1.0, 3)
    cm.set_default_dtype("float32")
    try:
        assert cm.random.gamma(2.0, 1.0, 3).dtype == np.float32
    finally:
        cm.set_default_dtype("float64")
