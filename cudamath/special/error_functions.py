"""The error function and its relatives, and the normal distribution's."""

from __future__ import annotations

import functools

from ..ops.elementwise import exp  # noqa: F401  in gradient expressions
from . import definition

__all__ = ["erf", "erfc", "erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())

TWO_OVER_SQRT_PI = 1.1283791670955126
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
)
erfc = _define(
    "erfc",
    "x",
    ("-g * (exp(-x * x) * TWO_OVER_SQRT_PI)",),
    "Compute the complementary error function.",
    "cm.special.erfc(cm.array([0.0, 5.0], dtype='float64')).tolist()",
    "[1.0, 1.5374597944280...e-12]",
    formula="1 - erf(x), with all digits where that is small.",
)
erfcx = _define(
    "erfcx",
    "x",
    ("g * (2 * x * out - TWO_OVER_SQRT_PI)",),
    "Compute the scaled complementary error function.",
    "cm.special.erfcx(cm.array([0.0, 30.0])).round(6).tolist()",
    "[1.0, 0.018796]",
    formula="exp(x^2) erfc(x)",
)
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
