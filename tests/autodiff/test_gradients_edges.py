"""Gradients at the edges: elements left out, sums and products beyond the dtype, arguments that are
no constants. Each was wrong once."""

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm

MASK = [True, False, True]
HOLES = [
    (cm.log, 0.0),
    (cm.sqrt, 0.0),
    (cm.reciprocal, 0.0),
    (cm.exp, 1000.0),
    (cm.asin, 1.0),
    (cm.acosh, 1.0),
    (cm.cbrt, 0.0),
    (cm.tan, np.inf),
    (cm.square, np.nan),
]


def second(f):
    """The gradient of the sum of f's gradient."""
    return cm.grad(lambda x: cm.grad(f)(x).sum())


@pytest.mark.parametrize(("f", "hole"), HOLES, ids=[f.__name__ for f, _ in HOLES])
def test_elements_left_out(device, f, hole):
    """NaN, as 0 times an infinite slope."""
    near = 0.25 if f is cm.asin else 1.25
    x, whole = cm.asarray([near, hole, near * 1.5]), cm.asarray([near, near * 1.5])
    mask = cm.asarray(MASK)
    for order in (cm.grad, second):
        kept = order(lambda x: f(x).sum())(whole).tolist()
        assert order(lambda x: f(x, where=mask).sum())(x).tolist() == [kept[0], 0, kept[1]]
    assert cm.jvp(lambda x: f(x, where=MASK), (x,), (cm.ones(3),))[1].tolist()[1] == 0


@pytest.mark.parametrize(
    ("f", "x", "y"),
    [
        (cm.divide, 1.0, 0.0),
        (cm.power, 0.0, -1.0),
        (cm.multiply, np.nan, np.inf),
        (cm.hypot, np.inf, 1.0),
        (cm.logaddexp, np.nan, 0.0),
    ],
)
def test_pairs_left_out(device, f, x, y):
    """A mask of more dimensions than an operand: one element of it meets elements that stay and
    such that are left out."""
    a, b = cm.asarray([[1.5, x, 2.0], [2.5, 1.0, x]]), cm.asarray([1.25, y, 3.0])
    mask = cm.asarray([[True, False, True], [True, False, False]])
    by_a, by_b = cm.grad(lambda a, b: f(a, b, where=mask).sum(), (0, 1))(a, b)
    rows, columns = np.array([0, 0, 1]), np.array([0, 2, 0])
    of_a, of_b = cm.grad(lambda a, b: f(a, b).sum(), (0, 1))(a[rows, columns], b[columns])
    wanted, total = np.zeros((2, 3)), np.zeros(3)
    wanted[rows, columns] = of_a.to_numpy()
    np.add.at(total, columns, of_b.to_numpy())
    np.testing.assert_allclose(by_a.to_numpy(), wanted, rtol=1e-14)
    np.testing.assert_allclose(by_b.to_numpy(), total, rtol=1e-14)
    assert np.isfinite(second(lambda b: f(a, b, where=mask).sum())(b).to_numpy()).all()
    with pytest.raises(ValueError, match=f"^{f.__name__}: where: "):
        cm.grad(lambda a: f(a, 1.0, where=cm.asarray([True, False])).sum())(a)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("f", (3.0, 4.0)),
        ("noncentral_f", (3.0, 4.0, 1.0)),
        ("standard_t", (3.0,)),
        ("student_t", (3.0,)),
        ("wald", (1.0, 2.0)),
        ("chisquare", (3.0,)),
    ],
)
def test_parameters_that_draws_are_not_differentiable_in(device, name, given):
    """Those that stand in a formula beside a draw gave the part of a gradient that goes through the
    formula alone."""

    def mean(*parameters):
        return getattr(cm.random.default_rng(7), name)(*parameters, size=50, dtype="float64").mean()

    places = tuple(range(len(given)))
    assert [g.item() for g in cm.grad(mean, places)(*map(cm.asarray, given))] == [0.0] * len(given)


def test_place_and_scale_of_draws(device):
    def draw(df, loc, scale):
        return cm.random.default_rng(7).student_t(df, loc, scale, size=50, dtype="float64")

    given = [cm.asarray(v) for v in (3.0, 0.5, 2.0)]
    by_df, by_loc, by_scale = cm.grad(lambda *p: draw(*p).sum(), (0, 1, 2))(*given)
    z = cm.random.default_rng(7).standard_t(3.0, size=50, dtype="float64")
    assert (
        by_df.item() == 0 and by_loc.item() == 50 and abs(by_scale.item() - z.sum().item()) < 1e-12
    )


@pytest.mark.parametrize("seed", range(6))
def test_recorded_concentration(device, seed):
    """Where a try was rejected, what replaced it was put into a recorded array: an error at some
    seeds."""
    by_mu, by_kappa = cm.grad(
        lambda mu, kappa: cm.random.default_rng(seed).vonmises(mu, kappa, size=3).sum(), (0, 1)
    )(cm.asarray(0.25), cm.asarray(2.0))
    assert by_mu.item() == 3 and by_kappa.item() == 0


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize(
    ("dtype", "rows"),
    [
        (
            "float16",
            [
                [1000.5, 999.0, 1001.0, 1000.0],
                [-2049.0, -2051.0, -2053.0, -2050.0],
                [3.0, 3.0, 3.0, 3.0],
            ],
        ),
        (
            "bfloat16",
            [[130.5, 128.5, 131.0, 129.0], [-300.0, -302.0, -304.0, -310.0], [3.0, 3.0, 3.0, 3.0]],
        ),
    ],
)
def test_spreads_about_a_mean_between_16_bit_numbers(device, name, dtype, rows):
    """The mean was rounded to 16 bits first, which may be as far from it as the numbers are."""
    x, w = cm.asarray(rows).astype(dtype), cm.asarray([1.0, -0.5, 2.0])

    def first(x):
        return cm.grad(lambda x: (getattr(cm, name)(x, axis=1, ddof=1) * w).sum())(x)

    def second(x):
        return cm.grad(lambda x: (first(x)[:2, 0] * w[:2]).sum())(x)

    for order in (first, second):
        got, wanted = order(x), order(x.astype("float64")).to_numpy()
        assert got.dtype == x.dtype
        near = {"float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
        np.testing.assert_allclose(
            got.astype("float64").to_numpy(), wanted, rtol=near, atol=near * 1e-2
        )


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_spreads_simulated(monkeypatch, dtype):
    with simulated_gpu(monkeypatch):
        x = cm.asarray([[130.5, 128.5, 131.0, 129.0], [3.0, 3.0, 3.0, 3.0]]).astype(dtype)
        wide = cm.asarray(x.to_numpy().astype("f8"), device="cpu")
        for f in (cm.var, cm.std):
            got, wanted = (
                cm.grad(lambda x, f=f: f(x, axis=1).sum())(each).to_numpy().astype("f8")
                for each in (x, wide)
            )
            np.testing.assert_allclose(got, wanted, rtol=1e-2)


@pytest.mark.parametrize("count", [20_000, 70_000])
def test_spreads_of_many_halves(device, count):
    """Their count, and its reciprocal, are beyond float16."""
    x = cm.asarray(np.random.default_rng(0).standard_normal(count)).astype("float16")
    for f in (cm.var, cm.std):
        got, wanted = (
            cm.grad(lambda x, f=f: f(x) * 1000)(each).astype("float64")
            for each in (x, x.astype("float64"))
        )
        np.testing.assert_allclose(got.to_numpy(), wanted.to_numpy(), rtol=3e-3, atol=1e-5)


STEPS = {
    "sgd_update": lambda p, g, **more: cm.ml.sgd_update(
        p, g, cm.ml.sgd_init(p), momentum=0.5, **more
    ),
    "adam_update": lambda p, g, **more: cm.ml.adam_update(p, g, cm.ml.adam_init(p), **more),
    "rmsprop_update": lambda p, g, **more: cm.ml.rmsprop_update(p, g, **more),
    "adagrad_update": lambda p, g, **more: cm.ml.adagrad_update(p, g, **more),
    "lion_update": lambda p, g, **more: cm.ml.lion_update(p, g, **more),
}


@pytest.mark.parametrize("name", STEPS)
def test_recorded_arguments_of_steps(device, name):
    """A recorded learning rate, factor or gradient was lost without a word."""
    x, s = cm.asarray([1.0, 2.0, 3.0]), cm.asarray(0.5)

    def stepped(**given):
        p = {"w": x * 1.0}
        STEPS[name](p, {"w": given.pop("g", x)}, **{"lr": 0.1} | given)
        return p["w"].sum()

    cases = {
        "lr": lambda s: {"lr": s * 2},
        "factor": lambda s: {"factor": s},
        "grads": lambda s: {"g": x * s},
    }
    for what, given in cases.items():
        with pytest.raises(
            ValueError, match=rf"^{name}: .*being recorded for {what}.*stop_gradient"
        ):
            cm.grad(lambda s, given=given: stepped(**given(s)))(s)
        assert (
            cm.grad(lambda s, given=given: stepped(**cm.stop_gradient(given(s))) + s)(s).item() == 1
        )

    def trains_inside(s, factor=1.0):
        p = {"w": x * 1.0}
        for _ in range(2):
            STEPS[name](p, cm.grad(lambda p: (p["w"] ** 2 * factor).sum())(p), lr=cm.asarray(0.1))
        return p["w"].sum() * s

    assert cm.grad(trains_inside)(s).item() == trains_inside(1.0).item()
    with pytest.raises(ValueError, match="being recorded for grads"):
        cm.grad(lambda s: trains_inside(s, s))(s)


def test_recorded_numbers_of_many_elements(device):
    """A recorded scale_factor was lost."""
    image = cm.ones((1, 1, 4, 4))
    for factor in (cm.asarray(2.0), cm.asarray([2.0, 2.0])):
        with pytest.raises(
            TypeError, match=r"^upsample: .*would be lost; give cm.stop_gradient\(x\)"
        ):
            cm.grad(lambda s: cm.ml.interpolate(image, scale_factor=s).sum())(factor)
        assert cm.ml.interpolate(image, scale_factor=factor).shape == (1, 1, 8, 8)
    with pytest.raises(
        TypeError,
        match=r"^multivariate_normal: wants a number .*\(2, 2\).*give cm.stop_gradient\(x\)",
    ):
        cm.grad(lambda c: cm.random.default_rng(0).multivariate_normal([0.0, 0.0], c).sum())(
            cm.eye(2)
        )
