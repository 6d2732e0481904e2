"""The incomplete gamma and beta functions, and their inverses."""

from __future__ import annotations

import functools

from ..ops.elementwise import log  # noqa: F401  in gradient expressions
from . import definition
from .definition import no_gradient  # noqa: F401
from .gamma_functions import digamma  # noqa: F401

__all__ = [
    "betainc",
    "betaincc",
    "betaincinv",
    "btdtr",
    "btdtri",
    "gammainc",
    "gammaincc",
    "gammainccinv",
    "gammaincinv",
]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())

gammainc = _define(
    "gammainc",
    "a x",
    ("g * _gammainc_by_a(x, y)", "g * _gammainc_slope(x, y)"),
    "Compute the regularized lower incomplete gamma function.",
    "cm.special.gammainc(2.0, cm.array([0.0, 1.0, 5.0])).round(5).tolist()",
    "[0.0, 0.26424, 0.95957]",
    formula="The integral of t^(a - 1) exp(-t) / gamma(a) over t from 0 to x.",
    gradient="x^(a - 1) exp(-x) / gamma(a) g for x, of any order; for a, of the first order, a "
    "series, a continued fraction or Temme's expansion",
    domain="NaN of negative numbers.",
)
gammaincc = _define(
    "gammaincc",
    "a x",
    ("-g * _gammainc_by_a(x, y)", "-g * _gammainc_slope(x, y)"),
    "Compute the regularized upper incomplete gamma function, 1 - gammainc(a, x).",
    "cm.special.gammaincc(2.0, cm.array([0.0, 1.0, 5.0])).round(5).tolist()",
    "[1.0, 0.73576, 0.04043]",
    gradient="the negative of that of gammainc",
    domain="NaN of negative numbers.",
)
_gammainc_slope = _card(
    "gammainc_slope", 2, ("g * out * (log(y) - digamma(x))", "g * out * ((x - 1) / y - 1)")
)
_gammainc_by_a = _card(
    "gammainc_by_a",
    2,
    (
        "no_gradient('gammainc', 'a, of the second order')",
        "g * _gammainc_slope(x, y) * (log(y) - digamma(x))",
    ),
)
gammaincinv = _define(
    "gammaincinv",
    "a y",
    (
        "-g * _gammainc_by_a(x, out) / _gammainc_slope(x, out)",
        "g / _gammainc_slope(x, out)",
    ),
    "Compute the inverse of the regularized lower incomplete gamma function.",
    "cm.special.gammaincinv(2.0, cm.array([0.0, 0.5])).round(5).tolist()",
    "[0.0, 1.67835]",
    formula="The x with gammainc(a, x) = y.",
    gradient="g divided by the derivative of gammainc by x, for y; for a, times minus its "
    "derivative by a",
    domain="NaN outside of the domain.",
)
gammainccinv = _define(
    "gammainccinv",
    "a y",
    (
        "-g * _gammainc_by_a(x, out) / _gammainc_slope(x, out)",
        "-g / _gammainc_slope(x, out)",
    ),
    "Compute the inverse of the regularized upper incomplete gamma function.",
    "cm.special.gammainccinv(2.0, cm.array([1.0, 0.5])).round(5).tolist()",
    "[0.0, 1.67835]",
    formula="The x with gammaincc(a, x) = y.",
    gradient="g divided by the derivative of gammaincc by x, for y; for a, times minus its "
    "derivative by a",
    domain="NaN outside of the domain.",
)
betainc = _define(
    "betainc",
    "a b x",
    (
        "g * _betainc_by_a(x, y, z)",
        "g * _betainc_by_b(x, y, z)",
        "g * _betainc_slope(x, y, z)",
    ),
    "Compute the regularized incomplete beta function.",
    "cm.special.betainc(2.0, 3.0, cm.array([0.0, 0.5, 1.0])).round(12).tolist()",
    "[0.0, 0.6875, 1.0]",
    formula="The integral of t^(a - 1) (1 - t)^(b - 1) / beta(a, b) over t from 0 to x.",
    gradient="x^(a - 1) (1 - x)^(b - 1) / beta(a, b) g for x, of any order; for a and b, of the "
    "first order, by a continued fraction",
    domain="NaN outside of the domain.",
)
betaincc = _define(
    "betaincc",
    "a b x",
    (
        "-g * _betainc_by_a(x, y, z)",
        "-g * _betainc_by_b(x, y, z)",
        "-g * _betainc_slope(x, y, z)",
    ),
    "Compute the complement of the regularized incomplete beta function, 1 - betainc(a, b, x).",
    "cm.special.betaincc(2.0, 3.0, cm.array([0.0, 0.5, 1.0])).round(12).tolist()",
    "[1.0, 0.3125, 0.0]",
    gradient="the negative of that of betainc",
    domain="NaN outside of the domain.",
)
_betainc_slope = _card(
    "betainc_slope",
    3,
    (
        "g * out * (log(z) - digamma(x) + digamma(x + y))",
        "g * out * (log(1 - z) - digamma(y) + digamma(x + y))",
        "g * out * ((x - 1) / z - (y - 1) / (1 - z))",
    ),
)
_betainc_by_a = _card(
    "betainc_by_a",
    3,
    (
        "no_gradient('betainc', 'a, of the second order')",
        "no_gradient('betainc', 'b and a, of the second order')",
        "g * _betainc_slope(x, y, z) * (log(z) - digamma(x) + digamma(x + y))",
    ),
)
_betainc_by_b = _card(
    "betainc_by_b",
    3,
    (
        "no_gradient('betainc', 'a and b, of the second order')",
        "no_gradient('betainc', 'b, of the second order')",
        "g * _betainc_slope(x, y, z) * (log(1 - z) - digamma(y) + digamma(x + y))",
    ),
)
betaincinv = _define(
    "betaincinv",
    "a b y",
    (
        "-g * _betainc_by_a(x, y, out) / _betainc_slope(x, y, out)",
        "-g * _betainc_by_b(x, y, out) / _betainc_slope(x, y, out)",
        "g / _betainc_slope(x, y, out)",
    ),
    "Compute the inverse of the regularized incomplete beta function.",
    "cm.special.betaincinv(2.0, 3.0, cm.array([0.0, 0.6875])).round(5).tolist()",
    "[0.0, 0.5]",
    formula="The x with betainc(a, b, x) = y.",
    gradient="g divided by the derivative of betainc by x, for y; for a and b, times minus its "
    "derivatives by these",
    domain="NaN outside of the domain.",
)
btdtr, btdtri = betainc, betaincinv  # the distribution that has these names in Cephes
