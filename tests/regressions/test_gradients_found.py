"""Gradients that random programs beside central differences, NumPy and PyTorch brought to light:
each was wrong once."""

import math

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm


def second(f):
    """The gradient of the sum of f's gradient."""
    return cm.grad(lambda x: cm.grad(f)(x).sum())


def test_sinc_near_zero(device):
    """The second derivative at 0 was 0; next to 0 the first had few digits."""
    places = np.array([0.0, 1e-9, -1e-4, 9e-3, 0.095, 0.0956, -0.3, 2.5])
    x, u = cm.asarray(places), np.pi * places

    def series(power):
        """The sum of (-1)^k u^2k / (2k + 1)!, differentiated so many times by u."""
        total = np.zeros_like(u)
        for k in range(25):
            down = np.prod([2.0 * k - i for i in range(power)])
            if 2 * k >= power:
                total += (
                    (-1.0) ** k
                    * down
                    * u ** (2 * k - power)
                    / float(np.prod(np.arange(1.0, 2 * k + 2)))
                )
        return total

    np.testing.assert_allclose(
        cm.grad(lambda x: cm.sinc(x).sum())(x).to_numpy(), np.pi * series(1), rtol=1e-12, atol=1e-30
    )
    np.testing.assert_allclose(
        second(lambda x: cm.sinc(x).sum())(x).to_numpy(), np.pi**2 * series(2), rtol=1e-11
    )
    slope = cm.grad(lambda x: cm.sinc(x).sum())(cm.asarray(places.astype("f4"))).to_numpy()
    np.testing.assert_allclose(slope, np.pi * series(1), rtol=1e-5, atol=1e-12)


def test_powers_of_zero(device):
    """Derivatives of what is multiplied by the exponent 0 were NaN where the base is 0, in `jvp`
    and of second order."""
    x, powers = cm.asarray([0.0, 0.0, 0.0, 0.0, 2.0]), cm.asarray([0.0, 1.0, 2.0, 3.0, 0.0])
    value, slope = cm.jvp(lambda x: x**powers, (x,), (cm.ones(5),))
    assert value.tolist() == [1, 0, 0, 0, 1] and slope.tolist() == [0, 1, 0, 0, 0]
    assert cm.grad(lambda x: (x**powers).sum())(x).tolist() == [0, 1, 0, 0, 0]
    assert second(lambda x: (x**powers).sum())(x).tolist() == [0, 0, 2, 0, 0]
    rows = cm.jvp(lambda x: cm.vander(x, 3), (cm.asarray([0.0, 0.5]),), (cm.ones(2),))[1]
    assert rows.tolist() == [[0, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_sinc_near_zero_on_the_complex_plane(device, dtype):
    """Next to 0 the slope had few digits, and the second derivative at 0 was 0."""
    places, direction = (
        np.array([0.0, 1e-9, 1e-4 + 1e-3j, 0.05j, 0.0955, 0.5 - 2j], dtype),
        np.full(6, 0.25 - 1j, dtype),
    )
    x, u = cm.asarray(places), np.pi * places.astype("c16")
    even, odd = np.arange(0, 60, 2), np.arange(1, 61, 2)
    signs = (-1.0) ** np.arange(30) / np.array([float(math.factorial(k)) for k in odd])
    first = np.pi * (signs * even * u[:, None] ** np.maximum(even - 1, 0)).sum(1)
    second = np.pi**2 * (signs * even * (even - 1) * u[:, None] ** np.maximum(even - 2, 0)).sum(1)
    near = {"rtol": 1e-5 if dtype == "c8" else 1e-12, "atol": 1e-30}

    def gradient(x):
        return cm.grad(lambda x: cm.sinc(x).real.sum())(x)

    np.testing.assert_allclose(gradient(x).to_numpy(), first.conj(), **near)
    np.testing.assert_allclose(
        cm.grad(lambda x: gradient(x).real.sum())(x).to_numpy(), second.conj(), **near
    )
    np.testing.assert_allclose(
        cm.jvp(cm.sinc, (x,), (cm.asarray(direction),))[1].to_numpy(), first * direction, **near
    )


@pytest.mark.parametrize(
    ("dtype", "places"),
    [("f2", [13.0, 3000.0]), ("bfloat16", [13.0, 1e30]), ("f4", [2.5, 1e12]), ("f8", [2.5, 1e100])],
)
def test_sinc_far_from_zero(device, dtype, places):
    """The second derivative was NaN where the series that counts near 0 overflows."""
    x = cm.asarray(places).astype(dtype)
    got = second(lambda x: cm.sinc(x).sum())(x).astype("f8").to_numpy()
    wide = x.astype("f8").to_numpy()
    u = np.pi * wide[0]
    expected = np.pi**2 * ((2 / u**2 - 1) * np.sin(u) - 2 * np.cos(u) / u) / u
    np.testing.assert_allclose(
        got[0], expected, rtol={"f2": 0.02, "bfloat16": 0.05, "f4": 1e-5, "f8": 1e-12}[dtype]
    )
    assert abs(got[1]) <= 10 / wide[1]


@pytest.mark.parametrize(
    ("dtype", "x", "g"), [("f2", 300.0, 300.0), ("f4", 1e20, 1e20), ("f8", 1e200, 1e200)]
)
def test_slopes_without_squares_beyond_the_dtype(device, dtype, x, g):
    """asinh's was 0, hypot's infinite."""
    near = {"rtol": 2e-3 if dtype == "f2" else 1e-6}
    y = cm.asarray(np.array([x, -x], dtype))
    np.testing.assert_allclose(
        cm.grad(lambda y: cm.asinh(y).sum())(y).to_numpy(), [1 / x] * 2, **near
    )
    slope = cm.grad(lambda y: (cm.hypot(y, y) * g).sum())(y).to_numpy()
    np.testing.assert_allclose(slope, [g * 2**0.5, -g * 2**0.5], **near)


@pytest.mark.parametrize(("dtype", "base"), [("f2", 1e-5), ("f4", 1e-40), ("f8", 5e-324)])
def test_powers_of_what_has_no_reciprocal(device, dtype, base):
    """0 x^-1 was NaN where x^-1 is infinite."""
    x, powers = (
        cm.asarray(np.array([base, -base, 2.0], dtype)),
        cm.asarray(np.array([0.0, 0.0, 3.0], dtype)),
    )
    assert cm.grad(lambda x: (x**powers).sum())(x).tolist() == [0, 0, 12]


def test_mixed_derivatives_of_powers_at_exponent_0(device):
    """The derivative by the base was held to be 0 there, whatever the exponent: 1 / x is how it
    changes with it."""
    x, y = cm.asarray([2.0, 0.5, 3.0, 0.0]), cm.asarray([0.0, 0.0, 1.5, 0.0])
    by_y = cm.grad(lambda y: cm.grad(lambda x: (x**y).sum())(x).sum())(y).to_numpy()
    by_x = cm.grad(lambda x: cm.grad(lambda y: (x**y).sum())(y).sum())(x).to_numpy()
    expected = [0.5, 2.0, np.sqrt(3.0) * (1 + 1.5 * np.log(3.0)), 0.0]
    np.testing.assert_allclose(by_y, expected, rtol=1e-14)
    np.testing.assert_allclose(by_x, expected, rtol=1e-14)
    assert cm.grad(lambda x: (x ** y[:2]).sum())(cm.asarray([np.nan, np.inf])).tolist() == [0, 0]


def test_exponents_of_a_base_of_0(device):
    """0^y is 0 from 0 on and infinite below: the slope at y < 0 was NaN, and 0 where the base is a
    number."""
    y = cm.asarray([-1.0, -0.5, -np.inf, 0.0, 0.5, np.inf, np.nan], "float32")
    for base in (cm.zeros(7, "float32"), 0, 0.0):
        slope = cm.grad(lambda y, base=base: (base**y).sum())(y)
        np.testing.assert_array_equal(
            slope.to_numpy(), np.array([-np.inf] * 3 + [0.0] * 3 + [np.nan], "float32"), strict=True
        )
    assert cm.grad(lambda y: (cm.asarray([-0.0, -0.0]) ** y).sum())(
        cm.asarray([-1.0, -2.0])
    ).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("narrow", ["int8", "uint8", "float16", "bfloat16", "float32"])
def test_operands_of_a_narrower_dtype(device, narrow):
    """What a gradient needs of a narrow operand (a logarithm, an exponent less 1) was computed in
    that dtype."""
    floats = "float" in narrow
    x, y = (
        cm.asarray([0.7, 2.5, 3.0]),
        cm.asarray([3, 5, 7]).astype(narrow) * cm.asarray(0.1 if floats else 1, narrow),
    )
    wide = y.astype("float64")
    for f in (lambda x, y: x**y, lambda x, y: y**x, lambda x, y: cm.ml.elu(-y if floats else x, x)):
        got, expected = (
            cm.grad(lambda x, y=each, f=f: f(x, y).sum())(x).to_numpy() for each in (y, wide)
        )
        np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_negative_bases_of_complex_powers(device):
    """NaN, where the base was an array of real numbers: the logarithm of a negative one is
    complex."""
    y, u = np.array([1 + 1j, 2 - 1j]), np.array([-2.0, 3.0])
    w = u**y * np.log(u.astype(complex))
    slope = cm.grad(lambda y: (cm.asarray(u) ** y).real.sum())(cm.asarray(y))
    np.testing.assert_allclose(slope.to_numpy(), np.conj(w), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_deviations_of_equal_numbers(device, dtype):
    """NaN of complex numbers, and where some elements are left out."""
    x = cm.asarray(np.array([[3, 3, 3], [1, 2, 6]], dtype))
    middle = np.array([1, 2, 6]) - 3.0
    expected = [[0, 0, 0], middle / np.sqrt((middle**2).mean()) / 3]
    np.testing.assert_allclose(
        cm.grad(lambda x: cm.std(x, axis=1).sum())(x).to_numpy(), expected, rtol=1e-6
    )
    some = cm.asarray([[True, True, False], [True, True, True]])
    np.testing.assert_allclose(
        cm.grad(lambda x: cm.std(x, axis=1, where=some).sum())(x).to_numpy(), expected, rtol=1e-6
    )


@pytest.mark.parametrize("length", [3, 20_000])  # the second by parts
def test_complex_norms_of_any_order_once_they_were_seen(device, length):
    """A gradient after a call that recorded none raised an error."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=length) + 1j * rng.normal(size=length)
    x[1] = 0
    for name in ("norm", "vector_norm"):

        def f(x, name=name):
            return getattr(cm.linalg, name)(x, ord=3)

        size = float(f(cm.asarray(x)))
        np.testing.assert_allclose(size, (np.abs(x) ** 3).sum() ** (1 / 3))
        for _ in range(2):
            np.testing.assert_allclose(
                cm.grad(f)(cm.asarray(x)).to_numpy(), x * np.abs(x) / size**2, rtol=1e-12
            )
    if length == 3:
        y, step = x + 0.5, 1e-6 * (1 + 2j)
        ahead, back = (cm.grad(f)(cm.asarray(y + s)).to_numpy() for s in (step, -step))
        turned = cm.jvp(cm.grad(f), (cm.asarray(y),), (cm.asarray(np.full(3, 1 + 2j)),))[
            1
        ].to_numpy()
        np.testing.assert_allclose(turned, (ahead - back) / 2e-6, rtol=1e-7, atol=1e-9)


def real_parts_in_fused_functions():
    """They were the complex numbers themselves: in results, and in gradients of real numbers among
    complex ones."""
    rng = np.random.default_rng(5)
    z, r = (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)) for _ in range(2))
    for w in (rng.normal(size=(2, 3)), rng.normal(size=3) + 1j * rng.normal(size=3)):
        size = abs(w) + 1
        np.testing.assert_allclose(
            cm.fuse(lambda x: cm.real(x) * (1j * x))(cm.asarray(z)).to_numpy(), z.real * (1j * z)
        )
        np.testing.assert_allclose(
            cm.fuse(lambda x: x * x.real.sum(1, keepdims=True))(cm.asarray(z)).to_numpy(),
            z * z.real.sum(1, keepdims=True),
        )

        def loss(x, y):
            part = cm.fuse(lambda x, y: cm.real(x * y[1] / (abs(y[0]) + 1)))(
                x, (y, cm.asarray(r.conj()))
            )
            return part.sum()

        by_x, by_w = cm.grad(loss, (0, 1))(cm.asarray(z), cm.asarray(w))
        slope = -(z * r.conj()).real / size**2 * w / abs(w)
        np.testing.assert_allclose(by_x.to_numpy(), r / size)
        np.testing.assert_allclose(
            by_w.to_numpy(), slope if slope.shape == w.shape else slope.sum(0)
        )


def test_real_parts_in_fused_functions(device):
    real_parts_in_fused_functions()


@pytest.mark.simulator
def test_real_parts_in_fused_functions_simulated(monkeypatch):
    with simulated_gpu(monkeypatch), cm.device("cuda:0"):
        real_parts_in_fused_functions()
        with pytest.raises(
            TypeError, match="fuse: what is fused has no bytes to view; it saw float64 .* as int64"
        ):
            cm.fuse(lambda x: x.view("int64") + 1)(cm.ones(3))


IN_PLACE = {
    "a row": lambda y: y.__setitem__(0, 5),
    "all": lambda y: y.__setitem__(..., 7),
    "fill": lambda y: y.fill(3),
    "copyto": lambda y: cm.copyto(y, 2),
    "fill_diagonal": lambda y: cm.fill_diagonal(y, 3),
    "add": lambda y: y.__iadd__(1),
}


@pytest.mark.simulator
@pytest.mark.parametrize("name", IN_PLACE)
def test_fused_functions_that_write_numbers(monkeypatch, name):
    """What was written was lost."""

    def changed(x, start):
        y = start(x)
        IN_PLACE[name](y)
        return y + x

    with simulated_gpu(monkeypatch), cm.device("cuda:0"):
        for start in (lambda x: x * 1, cm.zeros_like, lambda x: x):
            with pytest.raises(
                TypeError,
                match="fuse: a function that is fused makes new arrays; it changed one in place",
            ):
                cm.fuse(lambda x, start=start: changed(x, start))(cm.ones((3, 3)))
        assert (
            cm.fuse(lambda x: cm.full_like(x, 2) + x)(cm.ones((3, 3))).tolist() == [[3.0] * 3] * 3
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.mean(),
        lambda x: x.var(),
        lambda x: x.std(),
        lambda x: (x[:4000] * 50).std(),
        cm.nanmean,
        cm.nanvar,
        cm.nanstd,
        lambda x: cm.mean(x, where=x > 0),
        lambda x: cm.var(x, where=x > 0),
        lambda x: cm.std(x, where=x > 0),
        lambda x: cm.var(x, mean=x.mean(keepdims=True)),
        lambda x: cm.average(x, weights=abs(x) + 1),
        lambda x: cm.cov(x),
        lambda x: cm.cov(x[:2000] * 50),
        lambda x: cm.corrcoef(x[:40_000:10].reshape((2, 2000)) * 50)[0, 1],
    ],
    ids=lambda f: str(f.__code__.co_firstlineno) + getattr(f, "__name__", ""),
)
def test_counts_and_sums_beyond_float16(device, call):
    """float16 ends at 65,504: means with `where` were infinite, and gradients of means of more
    elements 0."""
    values = (np.random.default_rng(5).normal(size=70_000) + 1).astype(np.float16)
    truth = cm.value_and_grad(lambda x: call(x) * 1000.0)(cm.asarray(values.astype(np.float64)))
    value = call(cm.asarray(values))
    slope = cm.grad(lambda x: call(x) * 1000.0)(cm.asarray(values))
    assert value.dtype == slope.dtype == np.float16
    np.testing.assert_allclose(float(value), float(truth[0]) / 1000, rtol=2e-3)
    exact = truth[1].to_numpy()
    np.testing.assert_allclose(
        slope.to_numpy().astype(np.float64), exact, rtol=0, atol=2e-3 * np.abs(exact).max()
    )


@pytest.mark.parametrize("name", ["nanvar", "nanstd", "nanmean", "nanprod", "nanmax"])
def test_what_is_nan_does_not_come_back_in_second_derivatives(device, name):
    """nanvar and nanstd multiplied it by 0 when their gradients were differentiated, and in
    `jvp`."""
    numbers = np.array([0.5, -1.5, 2.0, 0.25])
    gaps, place = np.insert(numbers, [1, 3], np.nan), np.array([0, 2, 3, 5])
    step = np.linspace(-1, 1, 6)

    def slope(function):
        return lambda x: cm.grad(lambda x: cm.sin(function(x)))(x)

    full = getattr(cm, name.removeprefix("nan"))
    for made in (lambda f: f, slope):
        ours = cm.jvp(made(getattr(cm, name)), (cm.asarray(gaps),), (cm.asarray(step),))[
            1
        ].to_numpy()
        theirs = cm.jvp(made(full), (cm.asarray(numbers),), (cm.asarray(step[place]),))[
            1
        ].to_numpy()
        if ours.ndim:
            np.testing.assert_array_equal(np.delete(ours, place), 0)
            ours = ours[place]
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_sums_of_two_zeros_in_logarithms(device, name):
    """log 0 + log 0, as in a path of a Markov chain that cannot be taken, made all that was added
    to it NaN."""
    add, base = getattr(cm, name), {"logaddexp": np.e, "logaddexp2": 2.0}[name]
    x = np.array([-np.inf, 0.0, -np.inf, -np.inf, 1.0, 1.0])
    expected = base**x / (base**x).sum()
    np.testing.assert_allclose(cm.grad(add.reduce)(cm.asarray(x)).to_numpy(), expected, rtol=1e-14)
    apart = cm.grad(lambda x: cm.grad(lambda x: add(x, 2 * x).sum())(x).sum())(
        cm.asarray([0.0, -np.inf, np.inf])
    ).tolist()
    np.testing.assert_allclose(
        apart, [0.25 * np.log(base), 0, 0], rtol=1e-14
    )  # of finite numbers that are equal, too
    for both in (np.inf, -np.inf, 3.0):
        slopes = [
            cm.grad(lambda x, y: add(x, y).sum(), argnums=i)(cm.asarray([both]), cm.asarray([both]))
            for i in (0, 1)
        ]
        assert [g.item() for g in slopes] == [0.5, 0.5]


def test_hypotenuse_of_nothing(device):
    """0, as of other lengths, was NaN."""
    assert cm.grad(cm.hypot.reduce)(cm.asarray([0.0, 0.0, 0.0])).tolist() == [0, 0, 0]
    assert cm.grad(cm.hypot.reduce)(cm.asarray([0.0, -4.0, 3.0])).tolist() == [0, -0.8, 0.6]
    assert cm.grad(lambda x: cm.grad(lambda x: cm.hypot(x, 2 * x).sum())(x).sum())(
        cm.asarray([0.0])
    ).tolist() == [0]


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_spread_of_what_is_left(device, name, bad):
    """What `where` left out made all gradients NaN."""
    x = np.array([[1.0, 2.0, bad, 4.0], [bad, bad, 0.5, 2.5]])
    mask = np.isfinite(x)
    for mean in (False, True):

        def spread(v, part=mask, mean=mean):
            return getattr(cm, name)(
                v, axis=1, where=part, **({"mean": cm.asarray([[2.0], [1.0]])} if mean else {})
            ).sum()

        got = cm.grad(spread)(cm.asarray(x)).to_numpy()
        for row, part, slopes, m in zip(x, mask, got, (2.0, 1.0), strict=True):
            v = row[part]
            apart = v - (m if mean else v.mean())
            expected = (
                2 * apart / v.size
                if name == "var"
                else apart / (v.size * np.sqrt((apart**2).mean()))
            )
            np.testing.assert_allclose(slopes[part], expected, rtol=1e-14)
            assert not slopes[~part].any()


def test_tables_looked_up_at_infinity(device):
    """One x far outside made the whole table's gradient NaN."""
    x, xp, fp = (cm.asarray(v) for v in ([0.5, np.inf, -np.inf], [0.0, 1.0, 2.0], [1.0, 2.0, 5.0]))
    assert cm.grad(lambda v: cm.interp(x, v, fp).sum())(xp).tolist() == [-0.5, -0.5, 0]
    assert cm.grad(lambda v: cm.interp(x, xp, v).sum())(fp).tolist() == [1.5, 0.5, 1]
    assert cm.grad(lambda v: cm.interp(v, xp, fp).sum())(x).tolist() == [1, 0, 0]


def test_ignored_rows_of_smoothed_weighted_losses(device):
    """Logits of an ignored row may hold anything."""
    logits, weight = (
        np.array([[0.5, 1.0, -2.0], [-np.inf] * 3, [np.nan] * 3]),
        cm.asarray([1.0, 2.0, 0.5]),
    )

    def loss(x, targets):
        return cm.ml.cross_entropy(x, cm.asarray(targets), weight=weight, label_smoothing=0.1)

    g = cm.grad(lambda x: loss(x, [1, -100, -100]))(cm.asarray(logits)).to_numpy()
    alone = cm.grad(lambda x: loss(x, [1]))(cm.asarray(logits[:1])).to_numpy()
    np.testing.assert_allclose(g[:1], alone, rtol=1e-14)
    assert alone.all() and not g[1:].any()
    for reduction, expected in (
        ("none", np.zeros(0)),
        ("sum", 0.0),
        ("mean", np.nan),
    ):  # no rows at all
        got = cm.ml.cross_entropy(
            np.zeros((0, 3)),
            np.zeros(0, int),
            weight=weight,
            label_smoothing=0.1,
            reduction=reduction,
        )
        np.testing.assert_array_equal(got.to_numpy(), expected, strict=True)


def test_divergences_from_and_to_0(device):
    """Of probability 0, and its logarithm, nothing is lost: 0 inf was NaN on the CPU, exp(-inf)
    (-inf) everywhere."""
    x, t = cm.asarray([-np.inf, -1.0]), cm.asarray([0.0, 1.0])
    assert cm.ml.kl_div(x, t, reduction="none").tolist() == [0, 1]
    assert cm.grad(lambda x: cm.ml.kl_div(x, t, reduction="sum"))(x).tolist() == [0, -1]
    x, t = cm.asarray([-2.0, -np.inf, -1.0]), cm.asarray([-np.inf, -np.inf, 0.0])
    for of, expected in ((0, [0, 0, -1]), (1, [0, 0, 2])):

        def slope(x, t, of=of):
            return cm.grad(
                lambda x, t: cm.ml.kl_div(x, t, reduction="sum", log_target=True), argnums=of
            )(x, t)

        assert slope(x, t).tolist() == expected
        assert (
            cm.grad(lambda x, t: slope(x, t).sum(), argnums=1)(x, t).tolist()
            == [[0, 0, -1], [0, 0, 3]][of]
        )
