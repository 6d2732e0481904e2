"""Special functions beside SciPy's: over their whole domains, at awkward numbers, in every dtype;
gradients of any order beside central differences."""

from __future__ import annotations

import collections
import importlib
import inspect
import itertools
import math

import numpy as np
import pytest
import shape_derivatives
from device_rounding import as_in_kernels, of_device
from gradient_checks import note_rules, rules
from matrices import slope_matches
from record_types import A
from records_special import SPECIAL_ROWS
from scipy import special as scipy_special
from special_domains import REGIONS
from special_truth import FLOOR, WAVES, limit, ours, part_of, regions, scipys

import cudamath as cm
from cudamath.core.dispatch.op import registry
from cudamath.core.specs.special import library
from cudamath.core.specs.special import narrow as short_forms
from cudamath.core.specs.special.library import narrow, scalar
from cudamath.special.definition import SpecialFunction
from cudamath.testing import assert_close

AWKWARD = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, 1.5, np.inf, -np.inf, np.nan, 1e-300, -1e-300]
    + [1e300, -1e300, 1e-20, 171, 171.7, -170.5, -171, -200.5, 30, -30, 100, 1e10, -1e-10]
)

#: Not compared with SciPy's at awkward numbers: SciPy's inverses return what was in memory outside
#: of their domains, its F and t have no infinities, and others take whole orders.
TAME = """gammaincinv gammainccinv betaincinv chdtri fdtr fdtrc fdtri stdtr exp1 expi zeta bdtr
    bdtrc bdtri nbdtr nbdtrc nbdtri pdtri yn jn expn spherical_yn polygamma lpmv lambertw
    erfcx""".split()
#: The scalar functions of other names.
CARDS = {
    "zeta": "riemann_zeta",
    "lambertw": "lambertw0",
    "sici[0]": "sine_integral",
    "sici[1]": "cosine_integral",
    "shichi[0]": "hyperbolic_sine_integral",
    "shichi[1]": "hyperbolic_cosine_integral",
}
AT_AWKWARD = [*sorted(set(REGIONS) - set(TAME)), "gammasgn"]


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


@pytest.mark.parametrize("dtype", FLOOR)
@pytest.mark.parametrize("name", REGIONS)
def test_errors_are_at_most_twice_scipys(name, dtype, device):
    """Beside mpmath, in each region of the domain, on every device."""
    for region in regions(name, dtype):
        error = region.errors(ours(name, region.points, device))
        worst = int(error.argmax())
        at = [float(p[worst]) for p in region.points]
        assert error[worst] <= limit(region) < np.inf, f"region {region.index}, at {at}"


@pytest.mark.parametrize("name", REGIONS)
def test_errors_with_a_devices_rounding(name):
    """Joined products and sums, and functions that are off by as much as CUDA's."""
    for region in regions(name):
        hurwitz = name == "zeta" and len(region.points) == 2
        function = of_device(scalar(name if hurwitz else CARDS.get(name, name)), region.index)
        results = np.array([function(*map(float, p)) for p in zip(*region.points, strict=True)])
        error = region.errors(results)
        worst = int(error.argmax())
        at = [float(p[worst]) for p in region.points]
        assert error[worst] <= limit(region), f"region {region.index}, at {at}"


def test_a_wrong_number_is_seen():
    """The units: a number next to the truth is one of them away, of float32 one of its own."""
    for dtype in FLOOR:
        region = next(regions("gamma", dtype))
        right = (region.high + region.low).astype(dtype)
        assert region.errors(right).max() <= 0.51
        assert 0.49 <= region.errors(np.nextafter(right, np.inf)).min()
        assert region.errors(np.nextafter(right, np.inf)).max() <= 1.51
        assert np.isinf(region.errors(np.full_like(right, np.nan))).all()


@pytest.mark.parametrize("name", AT_AWKWARD)
def test_awkward_numbers_are_scipys(name, device):
    """Zeros with signs, infinities, NaN, poles, the largest and the smallest."""
    count = 1 if name == "gammasgn" else len(REGIONS[name][0])
    numbers = AWKWARD if count < 3 else AWKWARD[:13]
    arguments = [np.array(a) for a in zip(*itertools.product(*[numbers] * count), strict=True)]
    results = ours(name, arguments, device)
    theirs = scipys(name, arguments)
    if name in WAVES:
        with np.errstate(all="ignore"):
            moderate = ~(np.abs(arguments[0]) > 1e6)  # beyond, SciPy subtracts a rounded pi / 4
        np.testing.assert_allclose(results[moderate], theirs[moderate], rtol=1e-13, atol=1e-15)
        return
    if name in ("exp10", "binom", "zetac"):  # there SciPy's are what rounding makes of 0
        with np.errstate(all="ignore"):
            tiny = (np.abs(theirs) < 1e-15) & (np.abs(results) < 1e-15)
            if name == "binom":  # SciPy's signs come from integers of 32 bits
                tiny |= np.abs(arguments[1]) > 2.0**31
        results, theirs = np.where(tiny, 0, results), np.where(tiny, 0, theirs)
    if name in ("poch", "pseudo_huber"):  # finite where SciPy's products and squares are not
        given = np.isfinite(np.stack(arguments)).all(0)
        theirs = np.where(given & np.isfinite(results) & ~np.isfinite(theirs), results, theirs)
    near(results, theirs, 2.0**30, *arguments)  # the digits: test_errors_are_at_most_twice_scipys


#: Where ours had been another number, sign or infinity than SciPy's.
AS_SCIPYS: dict[str, tuple] = {
    "erfi": ([26.65, 26.7, -26.8, 26.63],),
    "erfinv": ([-0.0, 0.0],),
    "rgamma": ([-1.0, -2.0, -3.0, -18.0, -40.0],),
    "boxcox": ([1.0, 1.0], [-1.0, 2.0]),
    "betainc": ([0.0, 2.0], [2.0, 3.0], [-0.0, -0.0]),
    "betaincinv": ([1.0, 2.0], [2.0, 3.0], [-0.0, -0.0]),
    "fdtri": ([1.0, 2.0], [2.0, 3.0], [-0.0, -0.0]),
    "bdtrc": ([2.0, 1.0], [3.0, 3.0], [-0.0, -0.0]),
    "ellipkinc": ([-0.0, -0.0, -0.0, 0.0], [0.5, 1.0, -1.0, -2.0]),
}


@pytest.mark.parametrize("dtype", FLOOR)
@pytest.mark.parametrize("name", AS_SCIPYS)
def test_infinities_and_signs_of_zeros_are_scipys(name, dtype, device):
    arguments = [np.array(a, dtype) for a in AS_SCIPYS[name]]
    results, theirs = ours(name, arguments, device), scipys(name, arguments)
    np.testing.assert_allclose(results, theirs, rtol=2e-7)
    np.testing.assert_array_equal(np.signbit(results), np.signbit(theirs))


@pytest.mark.parametrize(
    "name, arguments, value",
    [
        ("jn", (1e300, 1.0), 0),
        ("jn", (1e10, 1e9), 0),
        ("jn", (1e300, 1e301), math.nan),
        ("yn", (1e300, 1.0), -math.inf),
        ("yn", (1e10, 2e10), math.nan),
        ("spherical_yn", (1e10, 1.0), -math.inf),
        ("spherical_yn", (1e300, 1e301), math.nan),
        ("lpmv", (2.0, 1e300, 0.5), math.nan),
        ("lpmv", (1e300, 2.5, 0.5), math.nan),
    ],
)
def test_recurrences_of_large_orders_end(name, arguments, value, device):
    result = getattr(cm.special, name)(*[cm.asarray([a], device=device) for a in arguments])
    np.testing.assert_array_equal(result.to_numpy(), [value])


def test_halves_beyond_1e15(device):
    x = np.array([-1e15 - 0.5, -2e15 - 0.25])
    near(ours("gammaln", [x], device), scipys("gammaln", [x]), 4, x)


def test_results_near_the_ends_of_the_range(device):
    """SciPy's are 0 and infinite there; in mpmath they are these."""
    tiny = cm.asarray([1e-308, 5e-324, 1e-310], device=device)
    assert (cm.special.gammainc(tiny, 1.0).to_numpy() == 1).all()
    found = cm.special.shichi(cm.asarray([-715.0], device=device))
    for part, sign in zip(found, (-1, 1), strict=True):
        np.testing.assert_allclose(part.to_numpy(), sign * 2.3218128351852856e307, rtol=1e-15)


@pytest.mark.parametrize(
    "arguments, truth",
    [
        ((0.8306040082802505, 5086.624978187495, 0.00013949852323981579), 0.40736711999076314),
        ((0.0020511561831005696, 1.0744680200269416, 0.007114446142046371), 0.009858328683385353),
        (
            (2.6962346364846337e-10, 0.48516729358912464, 4.953522671897922e-34),
            2.107085529583451e-8,
        ),
        ((0.10404885479392056, 80.6291900957271, 0.001570753801871731), 0.1609495949456019),
        ((0.027130485403459303, 43.13155182006811, 0.019972599346238466), 0.007750658287340486),
    ],
)
def test_betaincc_by_logarithms(arguments, truth, device):
    """What is near 1 is computed by its distance, whose parts must not cancel; mpmath's numbers."""
    result = ours("betaincc", [np.array([a]) for a in arguments], device)
    assert abs(result[0] - truth) <= 2 * np.spacing(truth)


def test_probabilities_are_from_0_to_1(device):
    """Of shapes of all sizes; beside huge ones the argument's distance to 1 decides."""
    rng = np.random.default_rng(4)
    for least, most in ((1e-300, 1), (1e-30, 1e30)):
        a, b, x = np.exp(rng.uniform(np.log(least), np.log(most), (3, 2000)))
        for name, arguments in (
            ("betainc", (a, b, np.minimum(x, 1))),
            ("betaincc", (a, b, np.minimum(x, 1))),
            ("gammainc", (a, x)),
            ("gammaincc", (a, x)),
            ("fdtr", (a, b, x)),
        ):
            result = ours(name, list(arguments), device)
            assert result.min() >= 0 and result.max() <= 1, name
    shapes = [np.array([2.282222821761657, 5.45]), np.array([1.5633415548139344e19, 4.5e22])]
    near_0 = np.array([1.8510723752991437e-28, 2.3e-30])
    np.testing.assert_array_equal(ours("betaincc", [*shapes, near_0], device), 1)


@pytest.mark.parametrize(
    "name, arguments, truth",
    [
        (
            "betaincinv",
            (1.956027819152174, 44.17688551097423, 0.9999999999978502),
            0.4914099067959442,
        ),
        (
            "betaincinv",
            (0.055881094208618524, 3.6114454655687935, 0.9997565558435806),
            0.7116559928632104,
        ),
        (
            "betaincinv",
            (1.0040527537961421, 5.3329025766012785, 1.321601640015848e-233),
            2.161283751891222e-233,
        ),
        ("lambertw", (-0.36726494009050126,), -0.9432855205972521),
    ],
)
def test_what_decides_is_a_distance(name, arguments, truth, device):
    """From a probability to 1, from an argument to the branch point; or a first term beyond which a
    guess lies. mpmath's numbers."""
    result = ours(name, [np.array([a]) for a in arguments], device)
    assert abs(result[0] - truth) <= 3 * np.spacing(abs(truth))


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


def whole(name: str, *counts: int) -> list[np.ndarray]:
    """Whole numbers below these, and as many numbers between 0 and 1."""
    rng = np.random.default_rng([*name.encode()])
    return [*[rng.integers(0, n, 2000) for n in counts], rng.uniform(0, 1, 2000)]


@pytest.mark.parametrize("name", ["bdtr", "bdtrc", "bdtri", "nbdtr", "nbdtrc", "nbdtri", "pdtri"])
def test_functions_of_counts(name, device):
    *counts, p = whole(name, *(60,) if name == "pdtri" else (60, 60))
    if name[0] == "b":  # at most n of n
        counts = [np.minimum(*counts), np.maximum(*counts) + 1]
    if name[0] == "n":
        counts[1] += 1
    ours = getattr(cm.special, name)(*[cm.asarray(c.astype("f8")) for c in counts], cm.asarray(p))
    theirs = getattr(scipy_special, name)(*counts, p)
    np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", ["yn", "jn", "expn", "spherical_yn"])
def test_functions_of_orders(name, device):
    orders, x = whole(name, 60 if name == "expn" else 30)
    x *= 60
    if name == "jn":
        orders, x = orders - 5, x - 20
    ours = getattr(cm.special, name)(cm.asarray(orders.astype("f8")), cm.asarray(x)).to_numpy()
    theirs = getattr(scipy_special, name)(orders, x)
    size = np.maximum(np.abs(theirs), 0.03 if name in ("jn", "yn") else 0)
    assert (np.abs(ours - theirs) <= 4e-14 * size).all()


@pytest.mark.parametrize("m", [0.0, 1e-12, 0.3, 0.999, 1 - 1e-12, 1.0])
def test_ellipj(m, device):
    u = np.random.default_rng(0).uniform(-10, 10, 1000)
    for found, theirs in zip(
        cm.special.ellipj(cm.asarray(u), m), scipy_special.ellipj(u, m), strict=True
    ):
        np.testing.assert_allclose(found.to_numpy(), theirs, rtol=2e-12, atol=2e-14)


def test_ellipj_of_negative_parameters():
    """By the differential equation: dn^2 = 1 - m sn^2, and ph' = dn."""
    u = cm.asarray(np.linspace(-9, 9, 300))
    for m in (-0.5, -3.0):
        sn, cn, dn, _ = (x.to_numpy() for x in cm.special.ellipj(u, m))
        np.testing.assert_allclose(sn**2 + cn**2, 1, rtol=1e-13)
        np.testing.assert_allclose(dn**2, 1 - m * sn**2, rtol=1e-12)
        step = 1e-6
        ahead, behind = (cm.special.ellipj(u + s, m)[3].to_numpy() for s in (step, -step))
        np.testing.assert_allclose((ahead - behind) / (2 * step), dn, rtol=1e-7)


def test_lambertw(device):
    rng = np.random.default_rng(0)
    for k, x in (
        (0, np.concatenate([rng.uniform(-0.36, 10, 999), 10 ** rng.uniform(-30, 300, 999)])),
        (-1, np.concatenate([rng.uniform(-0.36, 0, 999), -(10 ** rng.uniform(-300, -1, 999))])),
    ):
        ours = cm.special.lambertw(cm.asarray(x), k).to_numpy()
        np.testing.assert_allclose(ours, scipy_special.lambertw(x, k).real, rtol=1e-13)
    # beside the branch point, where w + 1 is the square root of what is left: in long double
    x = -np.exp(-1) + 10 ** rng.uniform(-13, -3, 500)
    for k in (0, -1):
        w = cm.special.lambertw(cm.asarray(x), k).to_numpy().astype(np.longdouble)
        assert (np.abs(w * np.exp(w) - x.astype(np.longdouble)) < 2e-16).all()
        assert ((w + 1) * (1 + 2 * k) > 0).all()
    with pytest.raises(ValueError, match="^lambertw: the real branches are 0 and -1, got k = 1"):
        cm.special.lambertw(1.0, 1)
    odd = cm.special.lambertw(cm.asarray([-1.0, np.inf, np.nan, 0.0]))
    np.testing.assert_array_equal(odd.to_numpy(), [np.nan, np.inf, np.nan, 0])


def test_zeta_of_hurwitz(device):
    rng = np.random.default_rng(0)
    x, q = rng.uniform(1, 20, 1000), rng.uniform(0.01, 20, 1000)
    near(
        cm.special.zeta(cm.asarray(x), cm.asarray(q)).to_numpy(), scipy_special.zeta(x, q), 8, x, q
    )


@pytest.mark.parametrize("m", range(-3, 5))
def test_legendre_functions(m, device):
    rng = np.random.default_rng(0)
    v, x = rng.integers(0, 20, 1000), rng.uniform(-1, 1, 1000)
    ours = cm.special.lpmv(float(m), cm.asarray(v.astype("f8")), cm.asarray(x)).to_numpy()
    theirs = scipy_special.lpmv(m, v, x)
    size = np.nan_to_num(np.maximum(np.abs(theirs), 1e-3 * np.nanmax(np.abs(theirs))))
    assert (np.isnan(ours) == np.isnan(theirs)).all()
    assert (np.nan_to_num(np.abs(ours - theirs)) <= 1e-11 * size).all()
    real = rng.uniform(0.1, 6, 1000)
    x = rng.uniform(-0.3, 1, 1000)
    ours = cm.special.lpmv(float(m), cm.asarray(real), cm.asarray(x)).to_numpy()
    np.testing.assert_allclose(ours, scipy_special.lpmv(m, real, x), rtol=1e-9, atol=1e-9)


def test_spherical_harmonics(device):
    """sph_harm_radius is what theta decides of them, of_polar turns it by phi."""
    rng = np.random.default_rng(0)
    theta, phi = rng.uniform(0, np.pi, 50), rng.uniform(-9, 9, 50)
    for n in (0, 1, 4, 30):
        for m in (-n, -1, 0, 2, n):
            ours = cm.special.sph_harm_y(n, m, cm.asarray(theta), cm.asarray(phi))
            theirs = scipy_special.sph_harm_y(n, m, theta, phi)
            np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-12, atol=1e-14)
            turned = cm.special.sph_harm(m, n, cm.asarray(phi), cm.asarray(theta))
            np.testing.assert_array_equal(turned.to_numpy(), ours.to_numpy())
    n, m = np.array([[2], [3]]), np.array([0, 1, -2])
    ours = cm.special.sph_harm_y(n, m, 0.3, 0.5)
    np.testing.assert_allclose(
        np.asarray(ours), scipy_special.sph_harm_y(n, m, 0.3, 0.5), rtol=1e-6
    )


def test_gradients_of_spherical_harmonics():
    theta, phi = cm.asarray([0.4, 1.3, 2.6]), cm.asarray([0.2, 1.0, -2.0])
    for n, m in ((3, 2), (3, -1), (2, 2), (0, 0)):

        def size(t, p, n=n, m=m):
            y = cm.special.sph_harm_y(n, m, t, p)
            return (y.real * 2 + y.imag).sum()

        step = 1e-6
        for which, (slope, point) in enumerate(
            zip(cm.grad(size, (0, 1))(theta, phi), (theta, phi), strict=True)
        ):
            for i in range(3):
                moved = [[theta, phi], [theta, phi]]
                for side, s in enumerate((step, -step)):
                    moved[side][which] = point + cm.asarray(np.eye(3)[i] * s)
                central = (size(*moved[0]) - size(*moved[1])) / (2 * step)
                np.testing.assert_allclose(float(slope[i]), float(central), rtol=1e-7, atol=1e-8)
    orders = cm.asarray([3, 2, 0]), cm.asarray([2, -1, 0])

    def of_arrays(t):
        return size(t, phi, *orders)

    slope = cm.grad(of_arrays)(theta)
    central = (of_arrays(theta + step) - of_arrays(theta - step)) / (2 * step)
    np.testing.assert_allclose(float(slope.sum()), float(central), rtol=1e-7)
    curve = cm.hessian(lambda t: size(t, phi))(theta)  # of the constant Y(0, 0)
    np.testing.assert_array_equal(curve.to_numpy(), 0)


def test_derivative_of_spherical_yn():
    x = np.linspace(1, 9, 50)
    ours = cm.special.spherical_yn(3, cm.asarray(x), derivative=True).to_numpy()
    np.testing.assert_allclose(ours, scipy_special.spherical_yn(3, x, True), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "arguments", "by"),
    [
        ("yn", (2.0, 1.0), "n"),
        ("expn", (2.0, 1.0), "n"),
        ("bdtr", (2.0, 5.0, 0.5), "k"),
        ("lpmv", (1.0, 2.0, 0.5), "m"),
        ("zeta", (2.0,), "x"),
    ],
)
def test_gradients_without_a_formula_are_errors(name, arguments, by):
    rest = arguments[1:]
    with pytest.raises(TypeError, match=f"^{name}: has no gradient with respect to {by}"):
        cm.grad(lambda x: getattr(cm.special, name)(x, *rest).sum())(cm.asarray([arguments[0]]))


@pytest.mark.parametrize("outer", ["x", "shape"])
def test_mixed_second_derivatives(outer):
    """By a shape and the last argument, in either order: the inner derivative's own formula has
    none by the shape, which nobody asks for. Beside central differences of SciPy's."""
    h = 1e-4
    for name, *shapes, x in (
        ("gammainc", 2.3, 1.7),
        ("gammaincc", 0.7, 0.4),
        ("gammaincinv", 2, 0.4),
    ):
        (a,) = shapes
        ours, theirs = getattr(cm.special, name), getattr(scipy_special, name)

        def slope(*given, ours=ours):
            first, second = given if outer == "shape" else given[::-1]
            inner = 1 if outer == "shape" else 0
            return cm.grad(lambda *both: ours(*both).sum(), inner)(first, second).sum()

        points = [cm.asarray([p], dtype="float64") for p in (a, x)]
        got = cm.grad(slope)(*(points if outer == "shape" else points[::-1]))
        corners = [theirs(a + i * h, x + j * h) * i * j for i in (1, -1) for j in (1, -1)]
        np.testing.assert_allclose(float(got[0]), sum(corners) / (4 * h * h), rtol=1e-5)


SHAPES = {"gammainc_by_a": "gammainc", "betainc_by_a": "betainc", "betainc_by_b": "betainc"}


@pytest.mark.parametrize("name", SHAPES)
def test_derivatives_by_the_shape_are_mpmaths(name, device):
    """In each region, as gradients and with a device's rounding."""
    function, which = SHAPES[name], int(name.endswith("b"))
    truth = np.load(shape_derivatives.FILE)[name]
    for region in range(len(truth)):
        given = shape_derivatives.points(function, region)
        columns = [cm.asarray(c) for c in given.T]
        slopes = cm.grad(lambda *x: getattr(cm.special, function)(*x).sum(), which)(*columns)
        rounded = of_device(scalar(name), region)
        results = [slopes.to_numpy(), np.array([rounded(*map(float, p)) for p in given])]
        for found in results:
            np.testing.assert_allclose(found, truth[region], rtol=1e-13, atol=1e-300)


SHAPE_POINTS = {
    "gammainc": (2.3, 1.7),
    "gammaincc": (2.3, 1.7),
    "gammaincinv": (2.3, 0.4),
    "gammainccinv": (2.3, 0.4),
    "betainc": (2.3, 0.7, 0.6),
    "betaincc": (2.3, 0.7, 0.6),
    "betaincinv": (2.3, 0.7, 0.6),
    "chdtr": (3.3, 1.7),
    "chdtrc": (3.3, 1.7),
    "chdtri": (3.3, 0.4),
    "gdtr": (0.7, 2.3, 1.7),
    "gdtrc": (0.7, 2.3, 1.7),
    "fdtr": (2.3, 3.7, 0.6),
    "fdtrc": (2.3, 3.7, 0.6),
    "fdtri": (2.3, 3.7, 0.6),
    "stdtr": (2.3, -0.6),
}


def test_derivatives_by_the_shape_of_inverses_and_distributions(device):
    """Beside central differences, also of the mixed second order."""
    step = 1e-5
    for name, point in SHAPE_POINTS.items():
        function = getattr(cm.special, name)

        def value(*x, function=function):
            return function(*x).sum()

        given = [cm.asarray([x]) for x in point]
        slopes = cm.grad(value, tuple(range(len(given))))
        for i in range(len(given)):
            up, down = ([x + (j == i) * s for j, x in enumerate(given)] for s in (step, -step))
            central = (value(*up) - value(*down)) / (2 * step)
            np.testing.assert_allclose(float(slopes(*given)[i][0]), float(central), rtol=1e-7)
    for name in ("gammainc", "betainc"):
        point = SHAPE_POINTS[name]
        last, shapes = len(point) - 1, range(len(point) - 1)

        def by_last(*x, name=name, last=last):
            return cm.grad(lambda *y: getattr(cm.special, name)(*y).sum(), last)(*x).sum()

        def by_first(*x, name=name):
            return cm.grad(lambda *y: getattr(cm.special, name)(*y).sum())(*x).sum()

        given = [cm.asarray([x]) for x in point]
        for i in shapes:
            mixed = float(cm.grad(by_last, i)(*given)[0])
            up, down = ([x + (j == i) * s for j, x in enumerate(given)] for s in (step, -step))
            central = float(by_last(*up) - by_last(*down)) / (2 * step)
            np.testing.assert_allclose(mixed, central, rtol=1e-7)
            with pytest.raises(TypeError, match=f"^{name}: has no gradient .* second order"):
                cm.grad(by_first, i)(*given)


def test_derivatives_by_the_shape_at_edges():
    by_gamma, by_beta = scalar("gammainc_by_a"), scalar("betainc_by_a")
    assert by_gamma(2.0, 0.0) == by_gamma(2.0, np.inf) == by_gamma(np.inf, 2.0) == 0
    np.testing.assert_allclose(by_gamma(0.0, 1.5), -scipy_special.exp1(1.5), rtol=1e-13)
    assert by_beta(2.0, 3.0, 0.0) == by_beta(2.0, 3.0, 1.0) == by_beta(np.inf, 3.0, 0.5) == 0
    for bad in (by_gamma(-1.0, 2.0), by_gamma(1.0, np.nan), by_beta(1.0, 2.0, 1.5)):
        assert np.isnan(bad)


def test_names_of_cupyx():
    """The functions that cupyx.scipy.special has (its __init__.py at 6b6d9563, of 2026)."""
    names = """
        bdtr bdtrc bdtri beta betainc betaincinv betaln binom boxcox boxcox1p btdtr btdtri cbrt
        chdtr chdtrc chdtri cosdg cosm1 cotdg digamma ellipeinc ellipj ellipk ellipkinc ellipkm1
        entr erf erfc erfcinv erfcx erfinv exp1 exp10 exp2 expi expit expm1 expn exprel fdtr
        fdtrc fdtri gamma gammainc gammaincc gammainccinv gammaincinv gammaln gammasgn gdtr
        gdtrc huber i0 i0e i1 i1e inv_boxcox inv_boxcox1p j0 j1 k0 k0e k1 k1e kl_div lambertw
        log1p log_expit log_ndtr log_softmax loggamma logit logsumexp lpmv multigammaln nbdtr
        nbdtrc nbdtri ndtr ndtri pdtr pdtrc pdtri poch polygamma pseudo_huber psi radian
        rel_entr rgamma round shichi sici sinc sindg softmax sph_harm_y spherical_yn tandg
        wright_bessel xlog1py xlogy y0 y1 yn zeta zetac""".split()
    assert len(names) == 107
    assert [name for name in names if not callable(getattr(cm.special, name, None))] == []
    assert set(names) <= set(dir(cm.special))


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
@pytest.mark.parametrize("name", REGIONS)
def test_dtypes(name, dtype):
    """A result is that of float64, rounded once."""
    points = next(regions(name)).points
    arguments = [cm.asarray(a).astype(dtype) for a in points]
    with cm.device("cpu"):
        function = getattr(cm.special, name.split("[")[0])
        found = part_of(name, function(*arguments))
        wide = part_of(name, function(*[a.astype("float64") for a in arguments]))
    assert found.dtype == dtype
    np.testing.assert_array_equal(
        found.astype("float64").to_numpy(), wide.astype(dtype).astype("float64").to_numpy()
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("betaln", (1.0, 1.0)),
        ("erfcinv", (1.0,)),
        ("betainc", (1.0, 1.0, 0.3)),
        ("betainc", (2.0, 1.0, 0.5)),
        ("betainc", (2.0, 2.0, 0.5)),
        ("betaincc", (1.0, 1e300, 0.3)),
        ("betaincc", (1.0, 1e20, 1e-20)),
        ("betaincinv", (1.0, 1.0, 0.3)),
        ("betaincinv", (2.0, 2.0, 0.5)),
        ("bdtrc", (1.0, 2.0, 0.5)),
        ("bdtri", (1.0, 3.0, 0.5)),
    ],
)
def test_exact_values_are_scipys(name, arguments):
    """To the last bit, with the sign of 0."""
    got = np.asarray(getattr(cm.special, name)(*arguments))
    theirs = getattr(scipy_special, name)(*arguments)
    assert got == theirs and np.signbit(got) == np.signbit(theirs)


@pytest.mark.parametrize("a", [0.3, 3.0, 41.5])
def test_betainc_with_a_shape_of_1_is_a_power(a):
    """betainc(a, 1, x) = x^a, beside long doubles."""
    x = np.random.default_rng(3).uniform(0.1, 1, 200)
    exact = x.astype(np.longdouble) ** np.longdouble(a)
    got = cm.special.betainc(a, 1.0, cm.asarray(x)).to_numpy()
    assert (np.abs(got - exact) <= 2 * np.spacing(exact.astype(float))).all()


def test_whole_numbers_and_numbers():
    assert cm.special.gamma(cm.asarray([1, 2, 5])).tolist() == [1, 1, 24]
    assert cm.special.gamma(cm.asarray([1, 2, 5])).dtype == cm.ones(1).dtype
    assert isinstance(cm.special.erf(0.5), np.generic) and isinstance(
        cm.special.beta(np.float32(2), 1.0), np.float32
    )
    with pytest.raises(TypeError, match="^gammaln: wants real numeric or bool"):
        cm.special.gammaln(cm.ones(2, dtype="complex64"))
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
    theirs = scipy_special.polygamma(n, x)
    near(cm.special.polygamma(n, cm.asarray(x)).to_numpy(), theirs, 2.0**30, x)


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
    for options in ({}, {"return_sign": True}, {"b": b, "return_sign": True}):
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
        ([1.0, 1.0], [1.0, -1.0]),
        ([1, 2, 5], None),
        ([True, False], [1, 2]),
    ):
        ours, theirs = cm.special.logsumexp(a, b=b), scipy_special.logsumexp(a, b=b)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6, atol=0)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_logsumexp_of_nothing(dtype, keepdims):
    """The sum is 0, and so is its sign (where SciPy has that of the logarithm)."""
    a = cm.zeros((2, 0, 3), dtype)
    for b in (None, cm.ones((2, 0, 3), dtype)):
        for axis, shape in ((1, (2, 3)), ((0, 1), (3,))):
            if keepdims:
                shape = (2, 1, 3) if axis == 1 else (1, 1, 3)
            options = {"axis": axis, "b": b, "keepdims": keepdims}
            logarithm, sign = cm.special.logsumexp(a, return_sign=True, **options)
            assert logarithm.shape == sign.shape == shape and sign.dtype == dtype
            assert (logarithm.to_numpy() == -np.inf).all() and (sign.to_numpy() == 0).all()
            assert (cm.special.logsumexp(a, **options).real.to_numpy() == -np.inf).all()


@pytest.mark.parametrize("axis", [None, 1, (0, 2), ()])
@pytest.mark.parametrize("factors", [None, "f8", "c16"])
def test_logsumexp_of_complex_numbers(axis, factors, device):
    rng = np.random.default_rng(13)
    a = rng.normal(size=(3, 4, 2)) + 4j * rng.normal(size=(3, 4, 2))
    b = None if factors is None else rng.normal(size=(4, 1)).astype(factors)
    if factors == "c16":
        b = b + 1j
    for keepdims in (False, True):
        options = {"axis": axis, "keepdims": keepdims, "b": b}
        theirs = scipy_special.logsumexp(a, **options)
        ours = cm.special.logsumexp(cm.asarray(a), **options)
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert_close(np.exp(np.asarray(ours)), np.exp(theirs), rtol=1e-13, atol=0)
        assert np.abs(np.asarray(ours).imag).max() <= math.pi
        size, phase = cm.special.logsumexp(cm.asarray(a), return_sign=True, **options)
        assert_close(np.asarray(size), theirs.real, rtol=1e-13, atol=1e-15)
        assert_close(np.asarray(phase), np.exp(1j * theirs.imag), rtol=1e-12, atol=1e-15)


def test_logsumexp_of_odd_complex_numbers():
    inf, nan = np.inf, np.nan
    for a, b in (
        ([complex(inf, 0)], None),
        ([complex(-inf, 0)], None),
        ([complex(inf, 1), 1], None),
        ([complex(nan, 0), 1], None),
        ([complex(inf, 0), 1j], [0.0, 1.0]),
        ([1000.0 + 1j, 1000.0 - 1j], None),
        ([1e-20 + 0j, -700.0 + 0j], None),
        ([1 + 1j, 2.0], [0.0, 0.0]),
        ([2000.0, 1000 + 1j], [0.0, 1.0]),
        ([complex(0, -np.pi)], None),
        ([], None),
    ):
        a = np.asarray(a, complex)
        ours, theirs = cm.special.logsumexp(a, b=b), scipy_special.logsumexp(a, b=b)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-14, err_msg=str(a))
    assert cm.special.logsumexp(np.zeros((2, 0), complex), axis=1, return_sign=True)[
        1
    ].tolist() == [0, 0]
    nothing = cm.asarray([complex(-inf, 0), complex(-inf, 0)])
    slope = cm.grad(lambda v: cm.real(cm.special.logsumexp(v)))(nothing)
    assert slope.tolist() == [0, 0]  # as of real numbers: no element has a share
    endless = cm.special.logsumexp([complex(inf, 0), 1j], b=[1.0, 1.0])
    assert complex(endless).real == inf  # SciPy says NaN


@pytest.mark.parametrize("axis", [None, 1])
def test_gradients_of_complex_logsumexp(axis):
    rng = np.random.default_rng(14)
    a, b, w, v = (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)) for _ in range(4))

    def value(a, b):
        out = cm.special.logsumexp(a, axis=axis, b=b)
        return (out.real + 0.5 * out.imag + out.real * out.imag).sum()

    def second(a, b):
        g, h = cm.grad(value, (0, 1))(a, b)
        return (g * w).real.sum() + (h * v).imag.sum()

    slope_matches(value, a, b)
    slope_matches(second, a, b)


def test_second_order_of_logsumexp_at_ties():
    """The Hessian is diag(p) - p p^T."""
    a = cm.zeros(3, dtype="float64")
    row = cm.grad(lambda a: cm.grad(cm.special.logsumexp)(a)[0])(a)
    np.testing.assert_allclose(row.to_numpy(), [2 / 9, -1 / 9, -1 / 9], rtol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, (0, 2), (2, 1), (1, 0)])
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
    with pytest.raises(KeyError):
        scalar("no_such_function")
    with pytest.raises(AttributeError):
        import cudamath.cpu.special

        _ = cudamath.cpu.special.no_such_function


def test_inverses_of_the_smallest_shapes(device):
    """There gammaincc(a, x) is a E1(x): mpmath. SciPy's first one is off by 28."""
    a = cm.asarray([1e-300, 1e-300, 1e-100], dtype="float64")
    q = cm.asarray([1e-300, 1e-299, 1e-200], dtype="float64")
    truth = np.array([0.26473701045154346, 2.5490870890493857e-05, 224.83870767399043])
    near(cm.special.gammainccinv(a, q).to_numpy(), truth, 8)


ODD = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("name", REGIONS)
def test_forms_for_float32(name):
    """Shorter functions, and sums that end earlier, are as near to mpmath's values as others must
    be; functions that are others there are SciPy's beyond the domain, too."""
    own = CARDS.get(name, name)
    for region in regions(name, "float32"):
        hurwitz = name == "zeta" and len(region.points) == 2
        function = as_in_kernels(narrow(name if hurwitz else own), short=True)
        found = [function(*map(float, point)) for point in zip(*region.points, strict=True)]
        errors = region.errors(np.array(found, dtype=np.float64).astype(np.float32))
        assert errors.max() <= limit(region), region.index
    if "[" in name or narrow(own) is scalar(own) or name in TAME:
        return
    count = function.__code__.co_argcount
    for point in itertools.product(ODD, repeat=count):
        if name in WAVES and abs(point[-1]) > 1e6:
            continue  # SciPy subtracts a rounded pi / 4
        with np.errstate(all="ignore"):
            ours = np.float32(function(*map(float, np.float32(point))))
            theirs = np.float32(getattr(scipy_special, name)(*np.float32(point)))
        np.testing.assert_allclose(ours, theirs, rtol=3e-7, err_msg=str(point))


def test_a_form_for_float32_stands_for_one_function():
    """It is found by its name, which no two functions may have, and is called in the other's place,
    with its arguments."""
    files = [f"{library.__package__}.{each}" for each in ("pairs", *library.FILES)]
    found = collections.defaultdict(list)
    for module in map(importlib.import_module, files):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                found[name].append(function)
    assert [name for name, functions in found.items() if len(functions) > 1] == []
    for name, short in inspect.getmembers(short_forms, inspect.isfunction):
        if short.__module__ == short_forms.__name__ and name in found:
            (whole,) = found[name]
            assert inspect.signature(short) == inspect.signature(whole), name


@pytest.mark.parametrize("name", ["i1e", "k0", "ndtri", "gammaln", "expi", "j0"])
def test_series_are_written_out(name):
    """Kernels compute the same numbers; of power series in the place of Chebyshev's, nearly."""
    plain, written = scalar(name), as_in_kernels(scalar(name))
    for x in (0.1, 0.3, 0.75, 0.999, 0.01 if name == "ndtri" else 9.5):
        np.testing.assert_allclose(written(x), plain(x), rtol=1e-15)


def test_every_gradient_has_a_row_of_second_order(monkeypatch):
    """Of each card and input: rows that tests/autodiff compares with central differences reach the
    rule and differentiate it; those by the shape are compared above."""
    cards = [op for op in registry.values() if isinstance(op, SpecialFunction) and rules(op)]
    wanted, reached = note_rules(monkeypatch, cards)
    assert len(wanted) > 100
    for row in SPECIAL_ROWS:
        if not (row.grad and row.second):
            continue
        arrays = [cm.asarray(each) for each in row.arrays(np.dtype(np.float64))]
        places = tuple(i for i, each in enumerate(row.inputs) if isinstance(each, A))

        def value(*xs, row=row):
            found = row.run(cm, *xs)
            return sum((y * y).sum() for y in (found if isinstance(found, tuple) else (found,)))

        def slope(*xs, value=value, places=places):
            return sum((g * g).sum() for g in cm.grad(value, places)(*xs))

        cm.grad(slope, places)(*arrays)
    for name, point in SHAPE_POINTS.items():  # of first order, and mixed
        given = [cm.asarray([x]) for x in point]

        def total(*x, name=name):
            return getattr(cm.special, name)(*x).sum()

        last = len(given) - 1
        slopes = cm.grad(total, tuple(range(len(given))))
        slopes(*given)
        if name in ("gammainc", "betainc"):
            for i in range(last):
                cm.grad(lambda *x, f=total: cm.grad(f, last)(*x).sum(), i)(*given)
    # The derivatives by the shape are not differentiated again: the other order does that.
    wanted = {(card, i) for card, i in wanted if "_by_" not in card}
    wanted -= {("exp_moment", 0), ("sph_harm_radius", 2)}  # exprel's third order; a test of its own
    wanted -= {("wofz", 0)}  # of complex numbers: test_complex_special.py
    assert wanted - reached == set()


@pytest.mark.parametrize("name", ["digamma", "zeta", "zetac", "j1", "gamma", "expi", "k0", "y0"])
def test_subnormal_numbers_and_zeros_with_signs(name, device):
    """What may be infinite in between, and which zero is the result."""
    x = np.array([5e-324, -5e-324, 1e-310, -1e-310, 2e-308, -2e-308, 0.0, -0.0])
    results, theirs = ours(name, [x], device), scipys(name, [x])
    np.testing.assert_allclose(results, theirs, rtol=1e-13, atol=1e-320)  # SciPy rounds twice
    zero = theirs == 0
    np.testing.assert_array_equal(np.signbit(results[zero]), np.signbit(theirs[zero]))
