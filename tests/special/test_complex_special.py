"""Special functions of complex numbers beside SciPy: values, poles, branches, gradients. The cards
trigamma, complex_zeta and wofz, which take complex numbers only."""

from __future__ import annotations

import numpy as np
import pytest
from device_rounding import as_in_kernels
from matrices import slope_matches
from scipy import special as scipy_special

import cudamath as cm
from cudamath.core.specs.special.library import narrow as short_form

#: Limits of the real part, and of the imaginary one.
REGIONS = [
    ((0.1, 10), 10),
    ((-10, 0.1), 7),
    ((-30, 30), 30),
    ((0.8, 2.2), 0.3),
    ((-5, 5), 0.05),
    ((50, 150), 100),
]
#: In units of epsilon times the result; exponentials of large numbers lose the digits of those.
TOLERANCES = {"loggamma": 400, "gamma": 4000, "rgamma": 4000, "digamma": 200}
INF, NAN = np.inf, np.nan
ODD = [0, -1, -2.5, complex(-2.5, -0.0), 1, 2, -INF, complex(NAN, 0), 1e300, 1e300j, -1e10 + 1j]
ODD += [171.7, 200 + 1j, -200.5 + 1e-3j, 1e-300, -0.5, complex(-3, 1e-20), 700j, complex(0.5, -0.0)]


def drawn(limits: tuple[float, float], height: float, count: int = 200) -> np.ndarray:
    rng = np.random.default_rng(15)
    return rng.uniform(*limits, count) + 1j * rng.uniform(-height, height, count)


def near(ours: np.ndarray, theirs: np.ndarray, epsilons: float) -> None:
    gap = np.abs(ours - theirs) / np.abs(theirs)
    assert gap.max() <= epsilons * np.finfo(theirs.real.dtype).eps, (gap.max(), gap.argmax())


@pytest.mark.parametrize("region", range(len(REGIONS)))
@pytest.mark.parametrize("name", TOLERANCES)
def test_values(name, region, device):
    z = drawn(*REGIONS[region])
    function = getattr(cm.special, name)
    theirs = getattr(scipy_special, name)(z)
    near(function(cm.asarray(z)).to_numpy(), theirs, TOLERANCES[name])
    narrow = z.astype(np.complex64)
    ours = function(cm.asarray(narrow)).to_numpy()
    assert ours.dtype == np.complex64
    theirs = getattr(scipy_special, name)(narrow.astype(complex))
    kept = (np.abs(theirs) < 1e38) & (np.abs(theirs) > 1e-37)
    if kept.any():
        near(ours[kept], theirs[kept].astype(np.complex64), 2)


@pytest.mark.parametrize("name", TOLERANCES)
def test_odd_numbers(name):
    z = np.array(ODD, complex)
    with np.errstate(all="ignore"):
        theirs = getattr(scipy_special, name)(z)
    ours = getattr(cm.special, name)(cm.asarray(z)).to_numpy()
    known = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.isnan(ours), ~known)
    np.testing.assert_allclose(ours[known], theirs[known], rtol=1e-9)
    np.testing.assert_array_equal(np.signbit(ours.imag[known]), np.signbit(theirs.imag[known]))


def test_arguments_of_other_kinds():
    assert complex(cm.special.gamma(2 + 1j)) == pytest.approx(
        scipy_special.gamma(2 + 1j), rel=1e-14
    )
    with pytest.raises(TypeError, match="^erfinv: wants real numeric or bool arrays, got complex"):
        cm.special.erfinv(cm.asarray([1j]))


@pytest.mark.parametrize("name", TOLERANCES)
def test_gradients(name):
    """First order; and second order by way of digamma and trigamma."""
    z = np.array([0.7 + 0.3j, -1.4 + 0.6j, 3.2 - 2.1j, 1.5 + 0.01j])
    function = getattr(cm.special, name)

    def value(z):
        y = function(z)
        return (y.real * 1.3 - y.imag * 0.4 + y.real * y.imag).sum()

    slope_matches(value, z)
    if name != "digamma":
        slope_matches(lambda z: (cm.grad(value)(z) * np.array([1, 1j, 0.5, -1j])).real.sum(), z)
    else:
        with pytest.raises(TypeError, match="^trigamma: has no gradient with respect to complex"):
            cm.grad(lambda z: cm.grad(value)(z).real.sum())(cm.asarray(z))


#: Where SciPy's zeta keeps 12 digits. (In the critical strip and left of it it has down to 9.)
ZETA_REGIONS = [((0, 1), 10), ((1, 10), 10), ((0.5, 60), 60), ((-10, 0), 10)]
#: Values of mpmath's, computed with 40 digits.
ZETA = [
    (-1.75 + 49j, 75.76089672481153 - 40.160850220323056j),
    (-20.5 + 60j, -1.7734853335675522e20 - 5.460911129941342e20j),
    (-29 + 3j, 64702899.3232788 - 956362117.8870407j),
    (-10 - 75j, -183910073708.31598 + 101157377447.74629j),
    (-0.25 + 0.5j, -0.2094628367872891 - 0.2345008366839112j),
    (0.25 - 5j, 0.6688386324680932 - 0.26008665492521416j),
    (0.75 + 80j, 0.7158117621568463 + 1.3797621856327713j),
    (1.5 + 0.25j, 2.2127020227910474 - 0.7830573527527517j),
    (-2.125 + 0.0625j, 0.0034278882190719945 - 0.0014250458415943205j),
    (-5.5 - 0.03125j, -0.0026742280007181736 + 0.00013565834760010192j),
    (30 + 20j, 1.0000000002521967 - 8.965245529672437e-10j),
]


@pytest.mark.parametrize("region", range(len(ZETA_REGIONS)))
def test_zeta(region, device):
    z = drawn(*ZETA_REGIONS[region])
    near(cm.special.zeta(cm.asarray(z)).to_numpy(), scipy_special.zeta(z), 4000)


def test_zeta_beside_mpmath(device):
    z, values = np.array(ZETA).T
    near(cm.special.zeta(cm.asarray(z)).to_numpy(), values, 800)
    root = cm.special.zeta(cm.asarray([0.5 + 14.134725j])).to_numpy()
    known = 1.767429841384904e-08 - 1.1102028930923116e-07j
    np.testing.assert_allclose(root, known, rtol=0, atol=1e-14)


def test_zeta_on_the_real_line_and_beyond():
    x = np.array([2.0, 0.5, -3.0, -2.0, 0.0, 30.0])
    ours = cm.special.zeta(cm.asarray(x.astype(complex))).to_numpy()
    near(ours.real[x != -2], scipy_special.zeta(x)[x != -2], 16)
    assert (ours.imag == 0).all() and ours[3] == 0
    far = cm.special.zeta(cm.asarray([0.5 + 1e4j, 50 + 1e5j, np.inf + 0j])).to_numpy()
    np.testing.assert_allclose(far[:2], scipy_special.zeta(np.array([0.5 + 1e4j, 50 + 1e5j])), 1e-9)
    assert far[2] == 1
    with pytest.raises(TypeError, match="^zeta: has no gradient with respect to x"):
        cm.grad(lambda z: cm.special.zeta(z).real.sum())(cm.asarray([2 + 1j]))
    with pytest.raises(TypeError, match="^zeta: wants real"):
        cm.special.zeta(2.0, cm.asarray([1j]))


#: Values of mpmath's, computed with 40 digits.
AT = np.array(
    [
        (0.5 + 0.25j),
        (-2.5 + 1.5j),
        (3 - 0.125j),
        (0.0625 + 5j),
        (-6 + 4j),
        (1.25 - 2j),
        (20 + 20.5j),
        (0.75 - 7j),
        (7.671875 + 0.0009765625j),
    ]
)
ERRORS = {
    "erf": [
        (0.5486893605537622 + 0.22199095428837334j),
        (-1.0004844145745748 + 0.0034035003087279406j),
        (0.9999841848172137 - 1.589625575667443e-05j),
        (4747998445.30459 + 6765334367.741966j),
        (-1.0000000000184956 - 1.595745121039666e-10j),
        (-1.6152892307388216 + 0.987830242773335j),
        (8177947.495779876 - 9150263.853440411j),
        (-7.238412883931092e19 + 5.000682201110563e19j),
        (1 + 3.023983524768091e-29j),
    ],
    "erfc": [
        (0.45131063944623784 - 0.22199095428837334j),
        (2.000484414574575 - 0.0034035003087279406j),
        (1.5815182786282397e-05 + 1.589625575667443e-05j),
        (-4747998444.30459 - 6765334367.741966j),
        (2.000000000018496 + 1.595745121039666e-10j),
        (2.6152892307388216 - 0.987830242773335j),
        (-8177946.495779876 + 9150263.853440411j),
        (7.238412883931092e19 - 5.000682201110563e19j),
        (2.0012470560859397e-27 - 3.023983524768091e-29j),
    ],
    "erfcx": [
        (0.5937088515052158 - 0.12476492296402975j),
        (37.68615836186304 - 102.51534872612962j),
        (0.17875325615710835 + 0.006787793493716101j),
        (0.0015047514108180076 - 0.11522582396730954j),
        (-621151507.1633134 + 745460845.728492j),
        (0.14759305412903687 + 0.1946502584611946j),
        (0.013765312504446568 - 0.014092253442124822j),
        (0.008805390114045894 + 0.08047317716895477j),
        (0.07293054041757115 - 9.132001966648573e-06j),
    ],
    "erfi": [
        (0.5712866223943341 + 0.35118665938138044j),
        (-8.785967293370456 + 7.254688693477926j),
        (1224.2447871104378 - 1033.7848365929872j),
        (9.180287088695634e-13 + 0.9999999999987593j),
        (36619139.187801234 - 10493233.45062128j),
        (-0.014195127130099417 - 0.9859491852142037j),
        (-2.3049898076064017e-11 + 1.0000000000216476j),
        (-6.752526159446466e-23 - 1j),
        (2.7027507405631757e24 + 4.0151177035976714e22j),
    ],
    "wofz": [
        (0.6383373967914265 + 0.3258148398263451j),
        (0.11123345956255827 - 0.16323674719804185j),
        (-0.009696341774016225 + 0.20070502230734033j),
        (0.11068885589902892 + 0.001333115571398024j),
        (0.04414092342364238 - 0.0649325451298065j),
        (6.291288173438177 - 21.840498639409816j),
        (0.014108594994192338 + 0.013747713388805548j),
        (-1.0336016899655145e21 - 1.912059759468098e21j),
        (9.610349744860795e-06 + 0.07418135371890097j),
    ],
    "dawsn": [
        (0.4705155336818814 + 0.14615584777047355j),
        (-0.15989024018822343 - 0.09295156744606248j),
        (0.1777944706356097 + 0.008674443502130985j),
        (37191063665.539894 + 51547977409.4488j),
        (-0.057544968428878615 - 0.03911887602169977j),
        (-9.629911447385501 - 2.69851345984316j),
        (-24459097.580072016 - 551545791.599538j),
        (-8.472594209576763e20 + 4.580028239204563e20j),
        (0.06574151303222513 - 8.51695070691368e-06j),
    ],
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_functions_beside_mpmath(name, device):
    ours = getattr(cm.special, name)(cm.asarray(AT, device=device)).to_numpy()
    near(ours, np.array(ERRORS[name]), 12)
    narrow = getattr(cm.special, name)(cm.asarray(AT[:6].astype("c8"), device=device)).to_numpy()
    assert narrow.dtype == np.complex64
    near(narrow, np.array(ERRORS[name][:6]).astype("c8"), 2)


@pytest.mark.parametrize("name", [*ERRORS, *TOLERANCES])
def test_forms_for_complex64(name):
    """What kernels call for complex64 has all digits of float32."""
    real, imaginary = (
        as_in_kernels(short_form(f"{name}_{part}"), short=True) for part in ("real", "imaginary")
    )
    for limits, height in REGIONS:
        z = drawn(limits, height, 20)
        with np.errstate(all="ignore"):
            theirs = getattr(scipy_special, name)(z)
            parts = zip(z.real, z.imag, strict=True)
            ours = [complex(real(x, y), imaginary(x, y)) for x, y in parts]
        kept = (np.abs(theirs) < 1e38) & (np.abs(theirs) > 1e-37)
        if kept.any():
            near(np.array(ours)[kept], theirs[kept], 1e-9 * 2.0**52)


@pytest.mark.parametrize("limits", [(1, 1), (6, 6), (20, 20), (6, 1e-3), (1e-3, 6), (1e9, 1e9)])
@pytest.mark.parametrize("name", ERRORS)
def test_error_functions_beside_scipy(name, limits):
    """Of which the errors are up to 4000 epsilons, where an exponential's argument is large."""
    z = drawn((-limits[0], limits[0]), limits[1])
    with np.errstate(all="ignore"):
        theirs = getattr(scipy_special, name)(z)
        ours = getattr(cm.special, name)(cm.asarray(z)).to_numpy()
        known = np.isfinite(theirs) & (np.abs(theirs) > 1e-300)
    assert limits[0] > 100 or known.all()
    near(ours[known], theirs[known], 3e4)


def test_error_functions_on_the_axes():
    x = np.array([0.0, 0.3, -1.7, 5.0, -30.0, np.inf, -np.inf])
    for name in ("erf", "erfc"):
        ours = getattr(cm.special, name)(cm.asarray(x.astype(complex))).to_numpy()
        np.testing.assert_allclose(ours.real, getattr(scipy_special, name)(x), rtol=1e-14)
        assert (ours.imag == 0).all()
    assert (cm.special.erf(cm.asarray(x[:4] * 1j)).to_numpy().real == 0).all()
    real = cm.special.wofz(cm.asarray(x[:5]))
    assert real.dtype == np.complex128 and cm.special.wofz(np.float32(1)).dtype == np.complex64
    near(real.to_numpy(), scipy_special.wofz(x[:5].astype(complex)), 100)
    many = np.linspace(-8, 8, 333)
    for name in ("dawsn", "erfi"):
        ours = getattr(cm.special, name)(cm.asarray(many)).to_numpy()
        np.testing.assert_allclose(ours, getattr(scipy_special, name)(many), rtol=4e-15)
        zeros = getattr(cm.special, name)(cm.asarray([-0.0, 0.0])).to_numpy()
        assert np.signbit(zeros).tolist() == [True, False]


@pytest.mark.parametrize("name", ERRORS)
def test_gradients_of_error_functions(name):
    z = np.array([0.7 + 0.3j, -1.4 + 0.6j, 1.2 - 1.1j, 0.1 + 0.01j])

    def value(z):
        y = getattr(cm.special, name)(z)
        return (y.real * 1.3 - y.imag * 0.4 + y.real * y.imag).sum()

    slope_matches(value, z)
    slope_matches(lambda z: (cm.grad(value)(z) * np.array([1, 1j, 0.5, -1j])).real.sum(), z)
