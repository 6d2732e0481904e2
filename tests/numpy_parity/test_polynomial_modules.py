"""The functions of numpy.polynomial's six modules and of polyutils on arrays, beside NumPy's."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

import cudamath as cm

RNG = np.random.default_rng(1)
C, D, MATRIX, CUBE = RNG.random(4), RNG.random(3), RNG.random((3, 4)), RNG.random((2, 3, 4))
X, Y, Z = RNG.random((3, 5))

PREFIX = {
    "polynomial": "poly",
    "chebyshev": "cheb",
    "legendre": "leg",
    "laguerre": "lag",
    "hermite": "herm",
    "hermite_e": "herme",
}
#: Arguments by the name behind the prefix.
CALLS: dict[str, tuple] = {
    "add": (C, D),
    "sub": (C, D),
    "mul": (C, D),
    "mulx": (C,),
    "div": (C, D),
    "pow": (C, 3),
    "val": (X, C),
    "val2d": (X, Y, MATRIX),
    "val3d": (X, Y, Z, CUBE),
    "grid2d": (X, Y, MATRIX),
    "grid3d": (X, Y, Z, CUBE),
    "der": (C, 2, 2.0),
    "int": (C, 2, [], 0, 2.0),
    "fromroots": (X,),
    "vander": (X, 3),
    "vander2d": (X, Y, [1, 2]),
    "vander3d": (X, Y, Z, [1, 2, 1]),
    "fit": (X, Y, 2),
    "roots": (C,),
    "companion": (C,),
    "line": (1, 2),
    "gauss": (4,),
    "weight": (X,),
    "trim": (np.array([1.0, 2, 0, 0]),),
    "valfromroots": (X, C),
    "interpolate": (lambda t: t**2, 3),
    "pts1": (4,),
    "pts2": (4,),
}


def each(change: Any, arguments: tuple) -> list:
    return [change(a) if isinstance(a, np.ndarray) else a for a in arguments]


#: Forms of the arguments: as they are, in other dtypes, lists, several series at once.
FORMS = {
    "float64": lambda a: a,
    "float32": lambda a: a.astype("f4"),
    "int64": lambda a: (a * 10).astype("i8"),
    "list": lambda a: a.tolist(),
    "columns": lambda a: a[..., None] * [1.0, 2] if a.ndim == 1 else a,
}


def outcome(function: Any, arguments: list) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except (TypeError, ValueError, IndexError) as error:
            return error


def compare(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            compare(one, other)
    elif isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs))
    else:
        if isinstance(theirs, np.ndarray):
            assert isinstance(ours, cm.ndarray)
        assert (np.shape(ours), ours.dtype) == (theirs.shape, theirs.dtype)
        precision = 1e-4 if theirs.dtype in (np.float32, np.complex64) else 1e-9
        host = np.asarray(ours.to_numpy() if isinstance(ours, cm.ndarray) else ours)
        np.testing.assert_allclose(host, theirs, rtol=precision, atol=precision)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("module", PREFIX)
def test_functions(module, form):
    theirs = importlib.import_module(f"numpy.polynomial.{module}")
    ours = importlib.import_module(f"cudamath.polynomial.{module}")
    tested = 0
    for name, arguments in CALLS.items():
        full = PREFIX[module] + name
        if not hasattr(theirs, full):
            continue
        given = each(FORMS[form], arguments)
        expected = outcome(getattr(theirs, full), given)
        if name == "roots" and isinstance(expected, np.ndarray) and not expected.imag.any():
            expected = expected.real  # from NumPy 2.5 on, two of the families stay complex
        arrays, before = each(cm.asarray, tuple(given)), each(np.copy, tuple(given))
        compare(outcome(getattr(ours, full), arrays), expected)
        for one, other in zip(arrays, before, strict=True):
            if isinstance(one, cm.ndarray):
                np.testing.assert_array_equal(one.to_numpy(), other)  # is not written
        tested += 1
    assert tested > 15


@pytest.mark.parametrize("c", [np.array([0, 0, 1j]), np.array([0, 0, 1.0])], ids=["c16", "f8"])
@pytest.mark.parametrize("module", PREFIX)
def test_real_roots(module, c):
    """They are of the coefficients' dtype."""
    theirs, ours = (
        getattr(importlib.import_module(f"{package}.polynomial.{module}"), f"{PREFIX[module]}roots")
        for package in ("numpy", "cudamath")
    )
    compare(ours(cm.asarray(c)), theirs(c).astype(c.dtype))


@pytest.mark.parametrize("module", [*PREFIX, "polyutils"])
def test_names(module):
    theirs = importlib.import_module(f"numpy.polynomial.{module}")
    ours = importlib.import_module(f"cudamath.polynomial.{module}")
    assert set(theirs.__all__) - set(dir(ours)) <= {"ABCPolyBase"}


SERIES = {
    "polynomial": "Polynomial",
    "chebyshev": "Chebyshev",
    "legendre": "Legendre",
    "laguerre": "Laguerre",
    "hermite": "Hermite",
    "hermite_e": "HermiteE",
}


@pytest.mark.parametrize("module", SERIES)
def test_series_on_a_domain(module):
    """Arrays are mapped to the window; a number gives a number, a list an array."""
    theirs, ours = (
        getattr(getattr(package.polynomial, module), SERIES[module]) for package in (np, cm)
    )
    for domain, window in (
        ([0, 3], [-1, 1]),
        ([-2, 5], [0, 4]),
        ([-1, 1], [-2, 2]),
        ([0, 1], [1, 2]),
        (None, None),
    ):
        expected, found = (kind(C, domain, window) for kind in (theirs, ours))
        compare(found(cm.asarray(X)), expected(X))
        compare(found(X.tolist()), expected(X))
        assert float(found(0.3)) == pytest.approx(expected(0.3), rel=1e-12)
        slope = cm.grad(lambda x, found=found: found(x).sum())(cm.asarray(X))
        compare(slope, expected.deriv()(X))
        fitted = [
            kind.fit(x, y, 2, domain, window=window or [-1, 1])
            for kind, x, y in (
                (theirs, X, Y),
                (ours, cm.asarray(X), cm.asarray(Y)),
            )
        ]
        np.testing.assert_allclose(np.asarray(fitted[1].coef), fitted[0].coef, rtol=1e-8)
        np.testing.assert_allclose(fitted[1].domain, fitted[0].domain)


@pytest.mark.parametrize("module", SERIES)
def test_series_of_arrays_and_numbers(module):
    """What stands for points, weights, roots, intervals and coefficients may be arrays of ours."""
    theirs, ours = (
        getattr(getattr(package.polynomial, module), SERIES[module]) for package in (np, cm)
    )
    interval, weights = np.array([-0.5, 1.5]), np.array([1.0, 2, 0.5, 3, 1])
    expected, found = theirs(C, interval, interval, "t"), ours(*map(cm.asarray, (C, interval)))
    assert str(ours(C, interval, interval, symbol="t")) == str(expected)
    assert str(found) == str(theirs(C, interval))
    found = ours(*each(cm.asarray, (C, interval, interval)))
    compare(found.roots(), expected.roots())
    for options in ((), (7,), (5, np.array([0.25, 0.75]))):
        compare(found.linspace(*each(cm.asarray, options)), expected.linspace(*options))
    compare(found.linspace(domain=[0, 2]), expected.linspace(domain=[0, 2]))
    for number in (2, 0.5, 1j, np.float32(0.5), np.int64(2)):
        assert complex(found(number)) == pytest.approx(complex(expected(number)), rel=1e-12)
        assert not isinstance(found(number), cm.ndarray)
    assert isinstance(found(found), ours)
    np.testing.assert_allclose(found(found).coef, expected(expected).coef, rtol=1e-9)
    roots = ours.fromroots(cm.asarray(X), domain=[0, 1])
    np.testing.assert_allclose(roots.coef, theirs.fromroots(X, domain=[0, 1]).coef, rtol=1e-9)
    for options in (
        {"deg": 2, "domain": interval, "window": interval, "w": weights, "symbol": "s"},
        {"deg": [0, 2], "rcond": 0.3, "w": weights},
        {"deg": 3, "full": True},
    ):
        given = dict(zip(options, each(cm.asarray, tuple(options.values())), strict=True))
        fits = ours.fit(cm.asarray(X), cm.asarray(Y), **given), theirs.fit(X, Y, **options)
        if "full" in options:
            for one, other in zip(fits[0][1], fits[1][1], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
            fits = fits[0][0], fits[1][0]
        np.testing.assert_allclose(fits[0].coef, fits[1].coef, rtol=1e-7)
        for part in ("domain", "window"):
            np.testing.assert_array_equal(getattr(fits[0], part), getattr(fits[1], part))
        assert fits[0].symbol == fits[1].symbol


def test_utilities():
    theirs, ours = np.polynomial.polyutils, cm.polynomial.polyutils
    for name, arguments in {
        "trimseq": (np.array([1.0, 0]),),
        "trimcoef": (np.array([1.0, 2, 0]),),
        "getdomain": (X,),
        "mapdomain": (X, [0, 1], [2, 3]),
        "as_series": ([[1, 2, 0], [3]],),
    }.items():
        expected = getattr(theirs, name)(*arguments)
        compare(getattr(ours, name)(*each(cm.asarray, arguments)), expected)


def test_numpys_function_of_our_arrays():
    y = np.polynomial.polynomial.polyval2d(cm.asarray(X), cm.asarray(Y), cm.asarray(MATRIX))
    compare(y, np.polynomial.polynomial.polyval2d(X, Y, MATRIX))


def test_gradients():
    chebval = cm.polynomial.chebyshev.chebval
    gradient = cm.grad(lambda x: chebval(x, [1.0, 2.0, 3.0]).sum())(cm.asarray([0.5, 2.0]))
    np.testing.assert_allclose(gradient.to_numpy(), [2 + 12 * 0.5, 2 + 12 * 2.0])
    gradient = cm.grad(lambda c: chebval(cm.asarray([0.5, 2.0]), c).sum())(cm.zeros(3))
    np.testing.assert_allclose(gradient.to_numpy(), [2.0, 2.5, -0.5 + 7.0])
