"""Special functions of complex numbers beside SciPy: values, poles, branches, gradients. The cards
trigamma and complex_zeta, which take complex numbers only."""

from __future__ import annotations

import numpy as np
import pytest
from matrices import slope_matches
from scipy import special as scipy_special

import cudamath as cm

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
    with pytest.raises(TypeError, match="^erf: wants real numeric or bool arrays, got complex128"):
        cm.special.erf(cm.asarray([1j]))


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
