"""The error function and its relatives, and the normal distribution's."""

from __future__ import annotations

import functools

from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import NUMERIC
from ..core.typing import ArrayLike
from ..ops.elementwise import exp  # noqa: F401  in gradient expressions
from ..ops.shape import astype
from . import definition
from .gamma_functions import floating

__all__ = [
    "dawsn",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfi",
    "erfinv",
    "log_ndtr",
    "ndtr",
    "ndtri",
    "wofz",
]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())

TWO_OVER_SQRT_PI = 1.1283791670955126
I_TWO_OVER_SQRT_PI = TWO_OVER_SQRT_PI * 1j
HALF_SQRT_PI = 0.886226925452758
SQRT_2PI = 2.5066282746310007
INV_SQRT_2PI = 0.3989422804014327

erf = _define(
    "erf",
    "x",
    ("g * (exp(-x * x) * TWO_OVER_SQRT_PI)",),
    "Compute the error function.",
    "cm.special.erf(cm.array([0.0, 0.5])).round(6).tolist()",
    "[0.0, 0.5205]",
    formula="2 / sqrt(pi) times the integral of exp(-t^2) over t from 0 to x.",
    complex=True,
)
erfc = _define(
    "erfc",
    "x",
    ("-g * (exp(-x * x) * TWO_OVER_SQRT_PI)",),
    "Compute the complementary error function.",
    "cm.special.erfc(cm.array([0.0, 5.0], dtype='float64')).tolist()",
    "[1.0, 1.5374597944280...e-12]",
    formula="1 - erf(x), with all digits where that is small.",
    complex=True,
)
erfcx = _define(
    "erfcx",
    "x",
    ("g * (2 * x * out - TWO_OVER_SQRT_PI)",),
    "Compute the scaled complementary error function.",
    "cm.special.erfcx(cm.array([0.0, 30.0])).round(6).tolist()",
    "[1.0, 0.018796]",
    formula="exp(x^2) erfc(x)",
    complex=True,
)
erfi = _define(
    "erfi",
    "z",
    ("g * (exp(x * x) * TWO_OVER_SQRT_PI)",),
    "Compute the imaginary error function.",
    "cm.special.erfi(cm.array([0.0, 1.0])).round(6).tolist()",
    "[0.0, 1.650426]",
    formula="erf(i z) / i",
    complex=True,
)
dawsn = _define(
    "dawsn",
    "x",
    ("g * (1 - 2 * x * out)",),
    "Compute Dawson's integral.",
    "cm.special.dawsn(cm.array([0.0, 1.0])).round(6).tolist()",
    "[0.0, 0.53808]",
    formula="exp(-x^2) times the integral of exp(t^2) over t from 0 to x.",
    complex=True,
)
_wofz = definition.complex_card("wofz", ("g * (I_TWO_OVER_SQRT_PI - 2 * x * out)",), globals())


@fast_path("z")
def wofz(z: ArrayLike) -> ndarray:
    """Compute the Faddeeva function, exp(-z^2) erfc(-i z).

    Parameters
    ----------
    z : array_like
        Array of real or complex numbers.

    Returns
    -------
    ndarray
        Complex array of the shape of `z` and of its digits.

    Raises
    ------
    TypeError
        `z` is no array of numbers.

    Notes
    -----
    Gradient: (2 i / sqrt(pi) - 2 z w(z)) g, of any order. The function is deterministic.

    References
    ----------
    .. [1] Al Azah and Chandler-Wilde (2021), "Computation of the complex error function using
       modified trapezoidal rules".

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.wofz(cm.array([1j, 1.0 + 1j])).round(5).tolist()
    [(0.42758+0j), (0.30474+0.20822j)]
    """
    z = require("wofz", z, NUMERIC)
    if z.dtype.kind != "c":
        z = floating("wofz", z)
        z = astype(z, "complex128" if z.dtype.itemsize == 8 else "complex64")
    return _wofz(z)


erfinv = _define(
    "erfinv",
    "y",
    ("g * (exp(out * out) * HALF_SQRT_PI)",),
    "Compute the inverse of the error function.",
    "cm.special.erfinv(cm.array([0.0, 0.5])).round(6).tolist()",
    "[0.0, 0.476936...]",
    formula="The x with erf(x) = y.",
    domain="NaN outside of -1 to 1.",
)
erfcinv = _define(
    "erfcinv",
    "y",
    ("-g * (exp(out * out) * HALF_SQRT_PI)",),
    "Compute the inverse of the complementary error function.",
    "cm.special.erfcinv(cm.array([1.0, 0.5])).round(6).tolist()",
    "[-0.0, 0.476936...]",
    formula="The x with erfc(x) = y.",
    domain="NaN outside of 0 to 2.",
)
ndtr = _define(
    "ndtr",
    "x",
    ("g * (exp(x * x * -0.5) * INV_SQRT_2PI)",),
    "Compute the cumulative distribution of the standard normal distribution.",
    "cm.special.ndtr(cm.array([0.0, 1.0])).round(6).tolist()",
    "[0.5, 0.841345...]",
    formula="The probability of a number below x, erfc(-x / sqrt(2)) / 2.",
)
log_ndtr = _define(
    "log_ndtr",
    "x",
    ("g * _ndtr_mills(x)",),
    "Compute the logarithm of the normal distribution's cumulative distribution.",
    "cm.special.log_ndtr(cm.array([0.0, -40.0])).round(3).tolist()",
    "[-0.693, -804.608]",
    formula="log(ndtr(x)), also where ndtr is 0 in floating-point numbers.",
    gradient="the density divided by ndtr(x)",
)
_ndtr_mills = _card("ndtr_mills", 1, ("-g * out * (x + out)",))
ndtri = _define(
    "ndtri",
    "y",
    ("g * (exp(out * out * 0.5) * SQRT_2PI)",),
    "Compute the inverse of the normal distribution's cumulative distribution.",
    "cm.special.ndtri(cm.array([0.5, 0.975])).round(4).tolist()",
    "[0.0, 1.96]",
    formula="The x with ndtr(x) = y.",
    domain="NaN outside of 0 to 1.",
)
