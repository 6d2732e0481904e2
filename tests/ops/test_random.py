"""Random numbers and dropout: against published vectors, against a Philox in plain Python, and
against statistics."""

import math

import numpy as np
import pytest
from philox_reference import (
    BF16,
    COUNTER,
    philox,
    reference_cipher,
    reference_integers,
    reference_normal,
    reference_uniform,
    words32,
    words64,
)
from threads import together

import cudamath as cm

FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BF16]


def at(counter=COUNTER):
    """A generator that stands at a counter."""
    rng = cm.random.default_rng(0)
    rng.state = {"key": counter[0], "stream": counter[1], "offset": counter[2], "children": 0}
    return rng


def numpy(x):
    return np.asarray(x)


# -------------------- exact values


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_random123(counter, key, words):
    from cudamath.cpu import random as cpu

    got = np.empty(4, np.uint32)
    cpu.fill_words(
        got,
        np.uint64(counter[0] | counter[1] << 32),
        np.uint64(counter[2] | counter[3] << 32),
        np.uint64(key[0] | key[1] << 32),
    )
    assert tuple(map(int, got)) == words
    assert tuple(philox(counter, key)) == words  # the reference below


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 30, 1025])
def test_uniform_is_the_reference(device, dtype, n):
    got = numpy(at().uniform(-2, 6, n, dtype=dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(
        got, reference_uniform(n, dtype, -2, 6)
    )  # a width of 2^k is exact


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16], ids=str)
def test_unit_uniforms_stay_below_one(device, dtype):
    x = numpy(cm.random.default_rng(3).random(300_000, dtype=dtype)).astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    levels = 2 ** {2: 11 if dtype == np.float16 else 8, 4: 24, 8: 53}[np.dtype(dtype).itemsize]
    assert (x * levels == np.floor(x * levels)).all()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 1026])
def test_normal_is_box_muller(device, n):
    want = reference_normal(n)
    got = numpy(at().normal(size=n, dtype="float32"))
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)
    scaled = numpy(at().normal(3.0, 0.5, n, dtype="float32"))
    np.testing.assert_allclose(scaled, 3 + 0.5 * want, rtol=0, atol=2e-6)
    for dtype, eps in ((np.float16, 2**-11), (BF16, 2**-8)):
        half = numpy(at().normal(size=n, dtype=dtype)).astype(np.float64)
        np.testing.assert_allclose(half, want, rtol=1.01 * eps, atol=2e-6)


def test_normal_float64(device):
    n = 2000
    w = words64(n)
    u, t = (
        np.array([((a >> 11) + 1) * 2.0**-53 for a in w[::2]]),
        np.array([a / 2**64 for a in w[1::2]]),
    )
    r = np.sqrt(-2 * np.log(u))
    want = np.stack([r * np.cos(2 * np.pi * t), r * np.sin(2 * np.pi * t)], 1).reshape(-1)
    np.testing.assert_allclose(
        numpy(at().normal(size=n, dtype="float64")), want, rtol=0, atol=4e-15
    )


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 1, np.int64),
        (-3, 8, np.int8),
        (-128, 128, np.int8),
        (0, 256, np.uint8),
        (0, 999, np.int16),
        (5, 6, np.uint16),
        (0, 3 << 30, np.uint32),
        (0, (1 << 31) + 1, np.uint32),
        (0, 1 << 32, np.uint32),
        (-(1 << 31), 1 << 31, np.int32),
        (0, (1 << 32) + 1, np.int64),
        (-(1 << 62), 1 << 62, np.int64),
        (-(1 << 63), 1 << 63, np.int64),
        (0, 1 << 64, np.uint64),
        (7, 7 + (1 << 33), np.uint64),
        (-5, (1 << 40), np.int64),
    ],
)
def test_integers_are_the_reference(device, low, high, dtype):
    for n in (0, 1, 3, 57):
        got = numpy(at().integers(low, high, n, dtype=dtype))
        assert got.dtype == dtype
        assert [int(v) for v in got] == reference_integers(n, low, high)
    assert numpy(at().integers(low, high - 1, 57, dtype, endpoint=True)).tolist() == got.tolist()


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 0.5, 1 - 1e-9, 1.0])
def test_bernoulli_is_the_reference(device, p):
    got = numpy(at().bernoulli(p, 403))
    assert got.dtype == bool
    assert got.tolist() == [w < round(p * 2**32) for w in words32(403)]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 1023, 1024])
def test_short_permutations_are_ranks(device, n):
    keys = words64(n)
    want = np.empty(n, np.int64)
    want[np.argsort(np.array(keys, np.uint64), kind="stable")] = np.arange(n)
    got = numpy(at().permutation(n))
    assert got.dtype == np.int64
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("n", [1025, 1026, 2048, 4095, 4096, 4097, 70_000])
def test_long_permutations_are_the_cipher(device, n):
    got = numpy(at().permutation(n))
    assert sorted(got.tolist()) == list(range(n))
    assert got[:50].tolist() == reference_cipher(n, 50)


def test_permutation_of_arrays(device):
    x = np.arange(24.0).reshape(6, 4)
    order = numpy(at().permutation(6))
    np.testing.assert_array_equal(numpy(at().permutation(cm.asarray(x))), x[order])
    order = numpy(at().permutation(4))
    np.testing.assert_array_equal(numpy(at().permutation(cm.asarray(x), axis=-1)), x[:, order])


def test_choice(device):
    assert (
        numpy(at().choice(5, (3, 4))).tolist()
        == np.reshape(reference_integers(12, 0, 5), (3, 4)).tolist()
    )
    p = np.array([0.1, 0.0, 0.4, 0.25, 0.25])
    cumulative = np.cumsum(p)
    want = [
        int(np.searchsorted(cumulative, (w >> 11) * 2.0**-53, side="right")) for w in words64(500)
    ]
    assert numpy(at().choice(5, 500, p=p)).tolist() == want
    assert 1 not in want
    picked = numpy(at().choice(cm.asarray([10.0, 20.0, 30.0]), 3, replace=False))
    assert sorted(picked.tolist()) == [10, 20, 30]
    assert numpy(at().choice(5000, 40, replace=False)).tolist() == reference_cipher(5000, 40)
    counts = np.zeros(3)
    rng = cm.random.default_rng(5)
    for _ in range(600):
        first, second = numpy(rng.choice(3, 2, replace=False, p=[0.5, 0.3, 0.2])).tolist()
        assert first != second
        counts[first] += 1
    assert np.abs(counts / 600 - [0.5, 0.3, 0.2]).max() < 4 * 0.5 / math.sqrt(600)
    assert numpy(rng.choice(0, 0)).shape == (0,)


# -------------------- statistics


def chi_square_is_plausible(counts, expected=None):
    """Pearson's statistic within 5 standard deviations (Wilson and Hilferty) of what chance gives,
    on both sides."""
    counts = np.asarray(counts, np.float64).reshape(-1)
    expected = counts.sum() / counts.size if expected is None else expected
    statistic, k = ((counts - expected) ** 2 / expected).sum(), counts.size - 1
    z = ((statistic / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))
    return abs(z) < 5


def kolmogorov(sample, cdf):
    """sqrt(n) times the largest distance between the empirical and the true distribution; above 2.2
    once in 10^4."""
    x = np.sort(np.asarray(sample, np.float64))
    f, n = cdf(x), x.size
    return math.sqrt(n) * max((np.arange(1, n + 1) / n - f).max(), (f - np.arange(n) / n).max())


N = 200_000


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
def test_uniform_statistics(device, dtype):
    x = numpy(cm.random.default_rng(11).random(N, dtype=dtype)).astype(np.float64)
    assert kolmogorov(x, lambda v: v) < 2.2
    assert abs(x.mean() - 0.5) < 5 / math.sqrt(12 * N)
    assert chi_square_is_plausible(np.bincount((x * 1000).astype(int), minlength=1000))
    pairs = (x[::2] * 32).astype(int) * 32 + (x[1::2] * 32).astype(int)
    assert chi_square_is_plausible(np.bincount(pairs, minlength=1024))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
def test_normal_statistics(device, dtype):
    x = numpy(cm.random.default_rng(12).normal(size=N, dtype=dtype)).astype(np.float64)
    cdf = np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))
    assert kolmogorov(x, cdf) < 2.2
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean() - moment) < 5 * math.sqrt(variance / N)
    assert abs((x[::2] * x[1::2]).mean()) < 5 / math.sqrt(N / 2)  # the two of a pair


def test_integers_statistics(device):
    rng = cm.random.default_rng(13)
    assert chi_square_is_plausible(np.bincount(numpy(rng.integers(0, 100, N)), minlength=100))
    thirds = (
        numpy(rng.integers(0, 3 << 30, N, dtype=np.uint32)) >> 30
    )  # a quarter of the words is rejected
    assert chi_square_is_plausible(np.bincount(thirds, minlength=3))
    wide = numpy(rng.integers(0, 3 << 40, N, dtype=np.uint64)) >> np.uint64(40)
    assert chi_square_is_plausible(np.bincount(wide.astype(int), minlength=3))


def test_independence_of_offsets_seeds_and_children():
    rng = cm.random.default_rng(14)
    children = rng.spawn(2)
    streams = [
        rng.random(N),
        rng.random(N),
        *[g.random(N) for g in children],
        cm.random.default_rng(15).random(N),
    ]
    streams = [numpy(s) - 0.5 for s in streams]
    for i in range(len(streams)):
        for j in range(i):
            assert abs((streams[i] * streams[j]).mean() * 12) < 5 / math.sqrt(N)
            assert abs((streams[i][1:] * streams[j][:-1]).mean() * 12) < 5 / math.sqrt(N)


def test_permutation_statistics():
    rng = cm.random.default_rng(16)
    orders = {}
    for _ in range(4800):
        order = tuple(numpy(rng.permutation(4)).tolist())
        orders[order] = orders.get(order, 0) + 1
    assert len(orders) == 24
    assert chi_square_is_plausible(list(orders.values()))
    n, draws = 1100, 1500
    places, rising, fixed = np.zeros(n), 0, 0
    for _ in range(draws):
        order = numpy(rng.permutation(n))
        places[order[:50]] += 1
        rising += int((order[1:] > order[:-1]).sum())
        fixed += int((order == np.arange(n)).sum())
    assert chi_square_is_plausible(places.reshape(-1, 10).sum(1))
    assert abs(rising - draws * (n - 1) / 2) < 5 * math.sqrt(
        draws * (n + 1) / 12
    )  # ascents: variance (n + 1) / 12
    assert abs(fixed - draws) < 5 * math.sqrt(draws)  # fixed points: mean 1, variance 1


def test_bernoulli_statistics(device):
    x = numpy(cm.random.default_rng(17).bernoulli(0.3, N))
    assert abs(x.mean() - 0.3) < 5 * math.sqrt(0.21 / N)


# -------------------- generators


def test_a_draw_continues_where_the_last_ended(device):
    whole = numpy(at().uniform(size=32, dtype="float32"))
    rng = at()
    parts = [numpy(rng.uniform(size=n, dtype="float32")) for n in (8, 0, 4, 20)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    rng = at()
    rng.uniform(size=5, dtype="float32")  # takes two blocks
    np.testing.assert_array_equal(numpy(rng.uniform(size=8, dtype="float32")), whole[8:16])


def test_a_named_device_is_not_the_default_one(fake):
    """Parameters that are numbers lie on none."""
    expected = numpy(at().gamma(2.0, size=5, device="cpu"))
    with cm.device("cuda:0"):
        x = at().gamma(2.0, size=5, device="cpu")
    assert x.device == "cpu"
    np.testing.assert_array_equal(numpy(x), expected)


def test_large_draws_do_not_depend_on_how_they_are_cut():
    n = (1 << 20) + 7  # several threads on the CPU
    for draw in (
        lambda g, n: g.uniform(size=n, dtype="float32"),
        lambda g, n: g.normal(size=n, dtype="float64"),
        lambda g, n: g.integers(0, 1000, n),
        lambda g, n: g.bernoulli(0.5, n),
    ):
        whole, tail = numpy(draw(at(), n)), at()
        tail.state = {
            **tail.state,
            "offset": COUNTER[2] + (n - 7 - 64) // (2 if whole.dtype == np.float64 else 4),
        }
        np.testing.assert_array_equal(numpy(draw(tail, 71)), whole[-71:])


CONTINUOUS = {
    "random": lambda g, n: g.random(n),
    "random float32": lambda g, n: g.random(n, "float32"),
    "uniform": lambda g, n: g.uniform(size=n),
    "normal": lambda g, n: g.normal(size=n),
    "normal float32": lambda g, n: g.normal(size=n, dtype="float32"),
    "exponential": lambda g, n: g.exponential(1.0, n),
    "laplace": lambda g, n: g.laplace(0.0, 1.0, n),
    "logistic": lambda g, n: g.logistic(0.0, 1.0, n),
    "gumbel": lambda g, n: g.gumbel(0.0, 1.0, n),
    "cauchy": lambda g, n: g.cauchy(0.0, 1.0, n),
    "gamma": lambda g, n: g.gamma(2.0, 1.0, n),
    "gamma below 1": lambda g, n: g.gamma(0.5, 1.0, n),
    "beta": lambda g, n: g.beta(2.0, 3.0, n),
    "chisquare": lambda g, n: g.chisquare(3.0, n),
    "student_t": lambda g, n: g.student_t(3.0, 0.0, 1.0, n),
    "wald": lambda g, n: g.wald(1.0, 1.0, n),
    "vonmises": lambda g, n: g.vonmises(0.0, 1.0, n),
    "triangular": lambda g, n: g.triangular(0.0, 0.5, 1.0, n),
    "rayleigh": lambda g, n: g.rayleigh(1.0, n),
    "integers": lambda g, n: g.integers(0, 1 << 62, n),
    "truncated_normal": lambda g, n: g.truncated_normal(size=n),
}


@pytest.mark.parametrize(
    "name", [n for n in CONTINUOUS if hasattr(cm.random.Generator, n.split()[0])]
)
def test_no_word_is_used_twice(device, name):
    """A draw of any size reserves all that it uses: the next begins behind it."""
    for n in (1, 2, 3, 5, 7, 9, 17, 63):
        rng = at()
        first, second = (numpy(CONTINUOUS[name](rng, k)).tolist() for k in (n, 70))
        assert len({*first, *second}) == n + 70, n


def test_state_spawn_and_seeds():
    import pickle

    rng = cm.random.default_rng(5)
    before = rng.state
    a = numpy(rng.random(10))
    children = [numpy(g.random(10)).tolist() for g in rng.spawn(3)]
    after = rng.state
    assert after["children"] == 3
    assert after["offset"] > before["offset"]
    rng.state = before
    np.testing.assert_array_equal(numpy(rng.random(10)), a)
    assert [
        numpy(g.random(10)).tolist() for g in rng.spawn(3)
    ] == children  # spawning is part of the state
    assert len({tuple(c) for c in children}) == 3
    copy = pickle.loads(pickle.dumps(rng))
    np.testing.assert_array_equal(numpy(copy.random(10)), numpy(rng.random(10)))
    assert cm.random.default_rng(rng) is rng
    wide = (3 << 64) + 5
    assert cm.random.default_rng(wide).state == {"key": 5, "stream": 3, "offset": 0, "children": 0}
    assert cm.random.default_rng().state != cm.random.default_rng().state
    rng.state = {"key": 0, "stream": 0, "offset": 1 << 56, "children": 0}
    with pytest.raises(OverflowError, match="random.uniform"):
        rng.random(1)


def test_threads_take_separate_stretches():
    rng, got = cm.random.default_rng(9), []
    together(16, lambda _: got.extend(numpy(rng.random(64)).tolist()))
    assert sorted(got) == sorted(numpy(cm.random.default_rng(9).random(1024)).tolist())


def test_module_functions(device):
    def draws():
        r = cm.random
        return [
            r.random(3),
            r.uniform(1, 2, 3),
            r.normal(1, 2, 3),
            r.standard_normal(3),
            r.integers(0, 9, 3),
            r.bernoulli(0.5, 3),
            r.permutation(5),
            r.choice(4, 3),
            r.rand(2, 2),
            r.randn(2, 2),
            r.rand(),
        ]

    cm.random.seed(3)
    first = [numpy(x) for x in draws()]
    cm.random.seed(3)
    for a, b in zip(first, draws(), strict=True):
        np.testing.assert_array_equal(a, numpy(b))
    assert [x.shape for x in first] == [(3,)] * 6 + [(5,), (3,), (2, 2), (2, 2), ()]


def test_defaults(device):
    rng = cm.random.default_rng(1)
    assert rng.random().shape == ()
    assert rng.random().dtype == np.float64
    assert rng.integers(5, size=(2, 0)).shape == (2, 0)
    assert rng.normal(size=(2, 3)).device == cm.default_device()
    cm.set_default_dtype("float32")
    try:
        assert rng.random().dtype == rng.normal().dtype == np.float32
    finally:
        cm.set_default_dtype("float64")


def test_draws_asked_for_again(device):
    """The short way of a draw that was made before: same numbers, same checks, same defaults."""
    for draw in (
        lambda g: g.random(7),
        lambda g: g.uniform(-1, 3, (2, 3), "float32"),
        lambda g: g.normal(1, 2, 5),
        lambda g: g.integers(-4, 9, (3, 2)),
        lambda g: g.integers(1 << 40, size=3),
        lambda g: g.gumbel(0.5, 2.0, 6),
    ):
        first, rng = numpy(draw(at())), at()
        for turn in range(3):
            again = numpy(draw(rng))
            assert again.dtype == first.dtype and again.shape == first.shape
            assert (again.tobytes() == first.tobytes()) == (turn == 0)
    rng = cm.random.default_rng(1)
    cm.set_default_dtype("float32")
    try:
        assert (
            rng.random(7).dtype
            == rng.normal(1, 2, 5).dtype
            == rng.gumbel(0.5, 2.0, 6).dtype
            == np.float32
        )
    finally:
        cm.set_default_dtype("float64")
    assert rng.random(7).dtype == np.float64
    with cm.device("cpu"):
        assert rng.random(7).device == "cpu"
    for bad in (
        lambda: rng.random(7.0),
        lambda: rng.random((7.0,)),
        lambda: rng.uniform(3, -1, (2, 3), "float32"),
        lambda: rng.normal(1, -2, 5),
        lambda: rng.normal(math.nan, 2, 5),
        lambda: rng.integers(-4.0, 9, (3, 2)),
        lambda: rng.uniform(0, 10**400, 7),
    ):
        with pytest.raises((TypeError, ValueError)):
            bad()
    rng.state = {**rng.state, "offset": (1 << 56) - 1}
    with pytest.raises(OverflowError, match="random.uniform: the generator is used up"):
        rng.random(7)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda g: g.uniform(2, 1),
            ValueError,
            "random.uniform: wants low <= high, got 2.0 and 1.0",
        ),
        (lambda g: g.uniform(0, math.inf), ValueError, "finite high"),
        (lambda g: g.uniform(-1.7e308, 1.7e308), ValueError, "high - low"),
        (
            lambda g: g.uniform("a"),
            TypeError,
            "random.uniform: wants low as a number or an array of numbers, got str",
        ),
        (lambda g: g.uniform(size=3, dtype="int32"), TypeError, "floating-point dtype, got int32"),
        (lambda g: g.uniform(size=-1), ValueError, "random.uniform"),
        (lambda g: g.normal(0, -1), ValueError, "random.normal: wants scale >= 0, got -1.0"),
        (lambda g: g.normal(math.nan), ValueError, "finite loc"),
        (lambda g: g.integers(5, 5), ValueError, "low < high, got 5 and 5"),
        (lambda g: g.integers(6, 5, endpoint=True), ValueError, "low <= high, got 6 and 5"),
        (lambda g: g.integers(0, 300, dtype="int8"), ValueError, "int8 can hold"),
        (lambda g: g.integers(-1, 3, dtype="uint8"), ValueError, "uint8 can hold"),
        (lambda g: g.integers(0.5, 3), TypeError, "low must be an integer"),
        (lambda g: g.integers(3, dtype="float32"), TypeError, "integer or bool dtype, got float32"),
        (lambda g: g.bernoulli(1.5), ValueError, "probability p in [0, 1], got 1.5"),
        (lambda g: g.bernoulli(math.nan), ValueError, "finite probability"),
        (
            lambda g: g.uniform([0.0, 3.0], [1.0, 2.0]),
            ValueError,
            "random.uniform: wants low <= high",
        ),
        (
            lambda g: g.normal([0.0, 1.0], [1.0, -2.0]),
            ValueError,
            "wants scale >= 0, got -2.0 in an array of shape (2,)",
        ),
        (
            lambda g: g.normal([0.0, 1.0], size=3),
            ValueError,
            "broadcast to size 3, got shapes (2,)",
        ),
        (
            lambda g: g.normal([0.0, 1.0], [1.0, 2.0, 3.0]),
            ValueError,
            "broadcast to one shape, got shapes (2,), (3,)",
        ),
        (
            lambda g: g.normal(1j),
            TypeError,
            "random.normal: wants loc as a number or an array of numbers, got complex",
        ),
        (lambda g: g.integers([1, 2], [3, 2]), ValueError, "random.integers: wants low < high"),
        (
            lambda g: g.integers([1, 2], 500, dtype="uint8"),
            ValueError,
            "bounds that uint8 can hold",
        ),
        (
            lambda g: g.integers([0.5], 3),
            TypeError,
            "wants low as integers, got float64 of shape (1,)",
        ),
        (
            lambda g: g.bernoulli([0.5, 1.5]),
            ValueError,
            "random.bernoulli: wants p in [0, 1], got 1.5",
        ),
        (lambda g: g.exponential(-1), ValueError, "random.exponential: wants scale >= 0, got -1.0"),
        (lambda g: g.gamma(-1), ValueError, "random.gamma: wants shape >= 0, got -1.0"),
        (lambda g: g.beta(0, 1), ValueError, "random.beta: wants a > 0, got 0.0"),
        (lambda g: g.chisquare([1.0, 0.0]), ValueError, "random.chisquare: wants df > 0, got 0.0"),
        (lambda g: g.f(2.0, -1.0), ValueError, "random.f: wants dfden > 0, got -1.0"),
        (lambda g: g.wald(2.0, 1.0, dtype="int32"), TypeError, "random.wald: "),
        (
            lambda g: g.noncentral_f(2.0, 1.0, -1.0),
            ValueError,
            "random.noncentral_f: wants nonc >= 0, got -1.0",
        ),
        (
            lambda g: g.negative_binomial(2.0, 0.0),
            ValueError,
            "random.negative_binomial: wants p in (0, 1], got 0.0",
        ),
        (lambda g: g.logseries([0.5, 1.0]), ValueError, "random.logseries: wants p < 1"),
        (lambda g: g.weibull(0), ValueError, "random.weibull: wants a > 0"),
        (lambda g: g.pareto(-2), ValueError, "random.pareto: wants a > 0"),
        (
            lambda g: g.triangular(0, 2, 1),
            ValueError,
            "random.triangular: wants mode <= right, got 2.0 and 1.0",
        ),
        (lambda g: g.triangular(1, 1, 1), ValueError, "random.triangular: wants left < right"),
        (lambda g: g.poisson(-0.5), ValueError, "random.poisson: wants lam in [0, 9e18], got -0.5"),
        (lambda g: g.poisson(3, dtype="float32"), TypeError, "integer dtype, got float32"),
        (
            lambda g: g.binomial(2.5, 0.5),
            ValueError,
            "random.binomial: wants n whole and in [0, 2^53], got 2.5",
        ),
        (lambda g: g.binomial(3, 1.5), ValueError, "random.binomial: wants p in [0, 1], got 1.5"),
        (lambda g: g.geometric(0), ValueError, "random.geometric: wants p in (0, 1], got 0.0"),
        (
            lambda g: g.multinomial(3, [0.9, 0.9, 0.1]),
            ValueError,
            "random.multinomial: wants pvals in [0, 1] adding up to 1",
        ),
        (lambda g: g.multinomial(3, []), ValueError, "at least one outcome"),
        (
            lambda g: g.multinomial([3, 4], [[0.5, 0.5]] * 3),
            ValueError,
            "random.multinomial: wants parameters that broadcast",
        ),
        (
            lambda g: g.categorical(cm.zeros((2, 0))),
            ValueError,
            "random.categorical: wants at least one outcome along axis 1",
        ),
        (lambda g: g.categorical([1, 2]), TypeError, "random.categorical"),
        (
            lambda g: g.dirichlet(1.0),
            ValueError,
            "random.dirichlet: wants alpha of at least one dimension",
        ),
        (lambda g: g.dirichlet([1.0, 0.0]), ValueError, "random.dirichlet: wants alpha > 0"),
        (
            lambda g: g.multivariate_normal([0.0], np.eye(2)),
            ValueError,
            "cov of shape (k, k), got (1,) and (2, 2)",
        ),
        (
            lambda g: g.multivariate_normal([0.0, 0.0], [[1, 2], [2, 1]], check_valid="raise"),
            ValueError,
            "negative eigenvalues",
        ),
        (
            lambda g: g.multivariate_normal([0.0], [[1.0]], method="lu"),
            ValueError,
            "'cholesky', got 'lu'",
        ),
        (
            lambda g: g.permuted(cm.asarray(1.0)),
            ValueError,
            "random.permuted: wants an array of at least one dimension",
        ),
        (lambda g: g.permuted(cm.zeros(2), axis=1), ValueError, "random.permuted"),
        (lambda g: g.shuffle((1, 2)), TypeError, "random.shuffle: wants a cudamath array"),
        (lambda g: g.shuffle(cm.asarray(1.0)), ValueError, "random.shuffle"),
        (lambda g: g.permutation(-1), ValueError, "random.permutation: wants an integer >= 0"),
        (lambda g: g.permutation(cm.asarray(1.0)), ValueError, "0-d array of float64"),
        (lambda g: g.permutation(cm.zeros((2, 2)), axis=2), ValueError, "random.permutation"),
        (lambda g: g.choice(0, 1), ValueError, "something to draw from"),
        (lambda g: g.choice(cm.asarray(2.5)), ValueError, "got a 0-d array of float64"),
        (lambda g: g.choice(3, 4, replace=False), ValueError, "at most the 3 elements"),
        (lambda g: g.choice(3, p=[0.5, 0.5]), ValueError, "p of shape (3,), got (2,)"),
        (lambda g: g.choice(2, p=[0.5, 0.6]), ValueError, "adding up to 1"),
        (lambda g: g.choice(2, p=[1.5, -0.5]), ValueError, "adding up to 1"),
        (
            lambda g: g.choice(3, 2, replace=False, p=[1, 0, 0]),
            ValueError,
            "at least 2 elements with p > 0",
        ),
        (lambda g: g.spawn(-1), ValueError, "Generator.spawn"),
        (lambda g: setattr(g, "state", {"key": 1}), ValueError, "Generator.state"),
        (lambda g: setattr(g, "state", {**g.state, "offset": -1}), ValueError, "offset in"),
        (lambda g: cm.random.default_rng(-1), ValueError, "seed in"),
        (lambda g: cm.random.default_rng("x"), TypeError, "seed must be an integer"),
        (lambda g: cm.random.seed(1 << 128), ValueError, "seed in"),
    ],
)
def test_errors(device, call, error, words):
    rng = cm.random.default_rng(1)
    before = rng.state
    with pytest.raises(error) as caught:
        call(rng)
    assert words in str(caught.value)
    assert rng.state == before  # a call that fails draws nothing


# -------------------- dropout


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (7,), (3, 50), (2, 3, 700)])
def test_dropout_is_the_reference(device, dtype, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    got = cm.ml.dropout(cm.asarray(x), 0.3, rng=at())
    assert (got.dtype, got.shape) == (dtype, shape)
    kept = np.array([w >= round(0.3 * 2**32) for w in words32(x.size)], bool).reshape(shape)
    wide = np.float64 if dtype == np.float64 else np.float32
    np.testing.assert_array_equal(
        numpy(got), np.where(kept, x.astype(wide) * wide(1 / 0.7), 0).astype(dtype)
    )


def test_dropout_of_views(device):
    x = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    a = numpy(cm.ml.dropout(cm.asarray(np.ascontiguousarray(x.T)), 0.5, rng=at()))
    np.testing.assert_array_equal(numpy(cm.ml.dropout(cm.asarray(x).T, 0.5, rng=at())), a)
    tail = numpy(cm.ml.dropout(cm.asarray(x.reshape(-1))[1:], 0.5, rng=at()))  # not 16-byte aligned
    kept = np.array(words32(1199)) >= 2**31
    np.testing.assert_array_equal(tail, np.where(kept, x.reshape(-1)[1:] * 2, 0))


def test_dropout_edges(device):
    x = cm.asarray(np.array([1.0, np.inf, np.nan, -2.0], np.float32))
    rng = at()
    assert cm.ml.dropout(x, 0.0, rng=rng) is x
    assert cm.ml.dropout(x, 0.9, training=False, rng=rng) is x
    assert rng.state["offset"] == COUNTER[2]
    np.testing.assert_array_equal(numpy(cm.ml.dropout(x, 1.0, rng=rng)), np.zeros(4, np.float32))
    cm.random.seed(4)
    a = numpy(cm.ml.dropout(cm.ones(100)))
    cm.random.seed(4)
    np.testing.assert_array_equal(numpy(cm.ml.dropout(cm.ones(100))), a)
    for bad, error in (
        (lambda: cm.ml.dropout(x, 1.1), ValueError),
        (lambda: cm.ml.dropout(x, -0.1), ValueError),
        (lambda: cm.ml.dropout(cm.asarray([1, 2])), TypeError),
        (lambda: cm.ml.dropout(x, rng=np.random.default_rng(0)), TypeError),
    ):
        with pytest.raises(error, match="^dropout: "):
            bad()


def test_dropout_gradient(device):
    x = cm.asarray(np.random.default_rng(1).standard_normal((20, 30)))
    weight = cm.asarray(np.random.default_rng(2).standard_normal((20, 30)))
    kept = np.array([w >= 2**32 // 4 for w in words32(600)], bool).reshape(20, 30)
    mask = np.where(kept, 1 / 0.75, 0)

    def loss(x):
        return (cm.ml.dropout(x, 0.25, rng=at()) ** 2 * weight).sum()

    got = numpy(cm.grad(loss)(x))
    np.testing.assert_allclose(got, 2 * numpy(x) * mask**2 * numpy(weight), rtol=1e-14)
    second = numpy(cm.grad(lambda x: (cm.grad(loss)(x) ** 2).sum())(x))
    np.testing.assert_allclose(second, 8 * numpy(x) * mask**4 * numpy(weight) ** 2, rtol=1e-13)


# -------------------- kernel versions by name

VERSIONS = ("each", "vectors")
LOW = (1 << 64) - 5  # -5 as the kernels get it
PLANS = {
    "uniform": [(dict(dtype=d), COUNTER + (-1.5, 4.0, 0.0)) for d in FLOATS],
    "normal": [(dict(dtype=d), COUNTER + (2.0, 3.0, 0.0)) for d in FLOATS],
    "integers": [
        (dict(dtype=np.dtype(d), wide=wide), COUNTER + limits)
        for d in (np.int8, np.uint16, np.int32, np.int64, np.uint64)
        for wide, limits in (
            (False, (LOW, 11, (1 << 32) % 11)),
            (False, (0, (1 << 31) + 1, (1 << 31) - 1)),
            (True, (LOW, 5 << 40, (8 << 40) - 1)),
            (True, (LOW, 2, 3)),  # a quarter is drawn again, a third is the last number
        )
    ],
    "bernoulli": [({}, COUNTER + (1 << 31, 0, 0))],
}
DRAWS = [(name, *case) for name, cases in PLANS.items() for case in cases]
IDS = [f"{name}-{p.get('dtype', 'bool')}-{i}" for i, (name, p, _) in enumerate(DRAWS)]


def from_cpu(name, shape, params, scalars):
    from cudamath.cpu import random as cpu

    return getattr(cpu, name)(scalars=scalars, shape=shape, device=-1, **params)


def planner(name):
    from cudamath.kernels.random import distributions as kernels

    return getattr(kernels, name)


def same(name, got, want, ulps):
    """Equal bit for bit, or, for normals where the machine at hand has no fused multiply-add,
    within some ulps."""
    if name == "normal" and ulps:
        scale = np.spacing(np.maximum(np.abs(want.astype(np.float64)), 4).astype(got.dtype)).astype(
            np.float64
        )
        assert (
            np.abs(got.astype(np.float64) - want.astype(np.float64)).max() <= (ulps * scale).max()
        )
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore:.*overflow encountered")
@pytest.mark.parametrize(("name", "params", "scalars"), DRAWS, ids=IDS)
def test_each_in_the_simulator(name, params, scalars):
    plan = planner(name)(shape=(41,), device=0, version="each", **params)
    same(
        name,
        cm.testing.simulate(plan, scalars=scalars),
        from_cpu(name, (41,), params, scalars),
        ulps=4,
    )


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("n", "count"), [(1, 1), (13, 13), (40, 7), (1025, 60), (4096, 60), (5000, 60)]
)
def test_permutation_in_the_simulator(n, count):
    plan = planner("permutation")(
        count=count, ranked=n <= 1024, bits=(n - 1).bit_length(), device=0
    )
    got = cm.testing.simulate(plan, scalars=(*COUNTER, n))
    assert got.tolist() == numpy(at().permutation(n, device="cpu"))[:count].tolist()


@pytest.mark.simulator
def test_choice_in_the_simulator():
    thresholds = np.rint(np.cumsum([0.1, 0.2, 0.0, 0.7]) * 2.0**53).astype(np.uint64)
    plan = planner("choice")(cm.testing.layout_of(thresholds), shape=(60,))
    want = np.searchsorted(
        thresholds, np.array(words64(60), np.uint64) >> np.uint64(11), side="right"
    )
    np.testing.assert_array_equal(cm.testing.simulate(plan, thresholds, scalars=COUNTER), want)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout_each_in_the_simulator(dtype):
    from cudamath.cpu import dropout as cpu
    from cudamath.kernels.random import dropout as kernels

    x = np.random.default_rng(0).standard_normal((3, 15)).astype(dtype)
    scalars = (*COUNTER, 1 << 30, 4 / 3)
    got = cm.testing.simulate(
        kernels.dropout(cm.testing.layout_of(x), version="each"), x, scalars=scalars
    )
    np.testing.assert_array_equal(got, cpu.dropout(x, scalars=scalars))


# One element, either side of a 16-byte run, of a block's share of work (256 threads x 4 runs x 4
# elements), and more.
SIZES = (1, 3, 4, 5, 8, 9, 4095, 4096, 4097, 8193, 100_003)


@pytest.mark.gpu
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "params", "scalars"), DRAWS, ids=IDS)
def test_draws_on_the_gpu_are_those_of_the_cpu(name, params, scalars, version):
    for n in SIZES:
        run = planner(name)(shape=(n,), device=0, version=version, **params).bind(
            name, [], len(scalars), 0
        )
        np.testing.assert_array_equal(
            numpy(run(*scalars)), from_cpu(name, (n,), params, scalars), err_msg=str(n)
        )


@pytest.mark.gpu
def test_permutations_on_the_gpu_are_those_of_the_cpu():
    for n in (1, 2, 31, 1023, 1024, 1025, 4096, 4097, 1_000_003):
        got = numpy(at().permutation(n, device="cuda"))
        np.testing.assert_array_equal(got, numpy(at().permutation(n, device="cpu")))


@pytest.mark.gpu
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout_on_the_gpu_is_that_of_the_cpu(dtype, version):
    from cudamath.cpu import dropout as cpu
    from cudamath.kernels.random import dropout as kernels

    for n, start in [(n, start) for n in SIZES for start in (0, 1)]:  # 1: not 16-byte aligned
        host = np.random.default_rng(n).standard_normal(n + start).astype(dtype)
        x = cm.asarray(host, device="cuda")[start:]
        for threshold, scale in ((1 << 30, 4 / 3), (1, 1.0), ((1 << 32) - 1, 2.0), (1 << 32, 0.0)):
            scalars = (*COUNTER, threshold, scale)
            run = kernels.dropout(x._layout, version=version).bind(
                "dropout", [x._layout], len(scalars), 0
            )
            np.testing.assert_array_equal(
                numpy(run(x, *scalars)), cpu.dropout(host[start:], scalars=scalars)
            )


@pytest.mark.parametrize("name", ["permutation", "choice"])
@pytest.mark.parametrize("number", [np.int64, np.int32, np.uint8])
def test_numpys_integers_are_counts(device, name, number):
    """At a first call and at a replay."""
    for _ in range(3):
        rngs = [cm.random.default_rng(3) for _ in range(2)]
        drawn = [getattr(rng, name)(n) for rng, n in zip(rngs, (5, number(5)), strict=True)]
        assert np.array_equal(*[np.asarray(x) for x in drawn])


def test_logseries_by_its_formula(device):
    """From two draws of doubles, in this order."""
    state = cm.random.default_rng(5).state
    rng = cm.random.default_rng(0)
    rng.state = state
    found = rng.logseries(0.7, 1000)
    rng.state = state
    u = 1 - rng.random(1000, "float64").to_numpy()
    q = -np.expm1(rng.random(1000, "float64").to_numpy() * np.log1p(-0.7))
    far = np.floor(1 + np.log(u) / np.log(np.maximum(q, np.finfo(float).tiny)))
    expected = np.maximum(np.where(u <= q * q, far, np.where(u <= q, 2, 1)), 1)
    np.testing.assert_array_equal(found.to_numpy(), expected)
