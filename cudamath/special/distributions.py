"""Distribution functions, with Cephes' names: the probability of numbers up to a limit; with a c
at the end, of those above it; with an i, the inverse."""

from __future__ import annotations

import functools

from ..ops.elementwise import floor, sign  # noqa: F401  in gradient expressions
from . import definition
from .definition import no_gradient  # noqa: F401
from .incomplete_functions import (  # noqa: F401
    _betainc_by_a,
    _betainc_by_b,
    _betainc_slope,
    _gammainc_by_a,
    _gammainc_slope,
)

__all__ = [
    "bdtr",
    "bdtrc",
    "bdtri",
    "chdtr",
    "chdtrc",
    "chdtri",
    "fdtr",
    "fdtrc",
    "fdtri",
    "gdtr",
    "gdtrc",
    "nbdtr",
    "nbdtrc",
    "nbdtri",
    "pdtr",
    "pdtrc",
    "pdtri",
    "stdtr",
]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())


def _f_density(a: object, b: object, x: object) -> object:
    """The density of the F distribution."""
    w = b + a * x  # type: ignore[operator]
    return _betainc_slope(a * 0.5, b * 0.5, a * x / w) * (a * b / (w * w))  # type: ignore[operator]


def _f_by_dfn(a: object, b: object, x: object) -> object:
    """The derivative of the F distribution by a: of betainc(a / 2, b / 2, a x / (a x + b))."""
    w = b + a * x  # type: ignore[operator]
    place = a * x / w  # type: ignore[operator]
    half = 0.5 * _betainc_by_a(a * 0.5, b * 0.5, place)  # type: ignore[operator]
    return half + _betainc_slope(a * 0.5, b * 0.5, place) * (b * x / (w * w))  # type: ignore[operator]


def _f_by_dfd(a: object, b: object, x: object) -> object:
    """That by b."""
    w = b + a * x  # type: ignore[operator]
    place = a * x / w  # type: ignore[operator]
    half = 0.5 * _betainc_by_b(a * 0.5, b * 0.5, place)  # type: ignore[operator]
    return half - _betainc_slope(a * 0.5, b * 0.5, place) * (a * x / (w * w))  # type: ignore[operator]


def _t_by_df(v: object, t: object) -> object:
    """The derivative of Student's distribution by v. Beyond 0 the distribution is 1/2 more than
    betainc(1 / 2, v / 2, t^2 / (t^2 + v)) / 2."""
    square = t * t  # type: ignore[operator]
    w = v + square
    place = square / w
    half = 0.5 * _betainc_by_b(0.5, v * 0.5, place)  # type: ignore[operator]
    slope = _betainc_slope(0.5, v * 0.5, place) * (square / (w * w))  # type: ignore[operator]
    return 0.5 * sign(t) * (half - slope)


def _t_density(v: object, t: object) -> object:
    """The density of Student's distribution."""
    w = v + t * t  # type: ignore[operator]
    return _betainc_slope(v * 0.5, 0.5, v / w) * abs(t) * v / (w * w)  # type: ignore[operator, arg-type]


bdtr = _define(
    "bdtr",
    "k n p",
    (
        "no_gradient('bdtr', 'k')",
        "no_gradient('bdtr', 'n')",
        "-g * _betainc_slope(y - floor(x), floor(x) + 1, 1 - z)",
    ),
    "Compute the probability of at most k successes in n trials of probability p.",
    "cm.special.bdtr(2.0, 5.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[0.89648, 0.5]",
    gradient="the derivative by p, a density, times g; none for k and n",
    domain="NaN outside of the domain.",
)
bdtrc = _define(
    "bdtrc",
    "k n p",
    (
        "no_gradient('bdtrc', 'k')",
        "no_gradient('bdtrc', 'n')",
        "g * _betainc_slope(floor(x) + 1, y - floor(x), z)",
    ),
    "Compute the probability of more than k successes in n trials of probability p.",
    "cm.special.bdtrc(2.0, 5.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[0.10352, 0.5]",
    gradient="the derivative by p, a density, times g; none for k and n",
    domain="NaN outside of the domain.",
)
bdtri = _define(
    "bdtri",
    "k n y",
    (
        "no_gradient('bdtri', 'k')",
        "no_gradient('bdtri', 'n')",
        "-g / _betainc_slope(y - floor(x), floor(x) + 1, 1 - out)",
    ),
    "Compute the probability p of a trial with bdtr(k, n, p) = y.",
    "cm.special.bdtri(2.0, 5.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[0.64056, 0.5]",
    gradient="g by the derivative of the distribution function, for y; none for k and n",
    domain="NaN outside of the domain.",
)
chdtr = _define(
    "chdtr",
    "v x",
    (
        "g * 0.5 * _gammainc_by_a(x * 0.5, y * 0.5)",
        "g * 0.5 * _gammainc_slope(x * 0.5, y * 0.5)",
    ),
    "Compute the cumulative distribution of chi squared with v degrees of freedom.",
    "cm.special.chdtr(3.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.08111, 0.42759]",
    gradient="the derivative by x, a density, times g; for v that of gammainc by a",
    domain="NaN outside of the domain.",
)
chdtrc = _define(
    "chdtrc",
    "v x",
    (
        "-g * 0.5 * _gammainc_by_a(x * 0.5, y * 0.5)",
        "-g * 0.5 * _gammainc_slope(x * 0.5, y * 0.5)",
    ),
    "Compute the probability that chi squared with v degrees of freedom is above x.",
    "cm.special.chdtrc(3.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.91889, 0.57241]",
    gradient="the derivative by x, a density, times g; for v that of gammainc by a",
    domain="NaN outside of the domain.",
)
chdtri = _define(
    "chdtri",
    "v p",
    (
        "-g * _gammainc_by_a(x * 0.5, out * 0.5) / _gammainc_slope(x * 0.5, out * 0.5)",
        "-g * 2 / _gammainc_slope(x * 0.5, out * 0.5)",
    ),
    "Compute the x with chdtrc(v, x) = p.",
    "cm.special.chdtri(3.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[4.10834, 2.36597]",
    gradient="g by the derivative of the distribution function, for p; for v, times minus "
    "that by v",
    domain="NaN outside of the domain.",
)
fdtr = _define(
    "fdtr",
    "dfn dfd x",
    (
        "g * _f_by_dfn(x, y, z)",
        "g * _f_by_dfd(x, y, z)",
        "g * _f_density(x, y, z)",
    ),
    "Compute the cumulative distribution of F.",
    "cm.special.fdtr(3.0, 4.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.2978, 0.74361]",
    gradient="the derivative by x, a density, times g; for dfn and dfd those of betainc",
    domain="NaN outside of the domain.",
)
fdtrc = _define(
    "fdtrc",
    "dfn dfd x",
    (
        "-g * _f_by_dfn(x, y, z)",
        "-g * _f_by_dfd(x, y, z)",
        "-g * _f_density(x, y, z)",
    ),
    "Compute the probability that F is above x.",
    "cm.special.fdtrc(3.0, 4.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.7022, 0.25639]",
    gradient="the derivative by x, a density, times g; for dfn and dfd those of betainc",
    domain="NaN outside of the domain.",
)
fdtri = _define(
    "fdtri",
    "dfn dfd p",
    (
        "-g * _f_by_dfn(x, y, out) / _f_density(x, y, out)",
        "-g * _f_by_dfd(x, y, out) / _f_density(x, y, out)",
        "g / _f_density(x, y, out)",
    ),
    "Compute the x with fdtr(dfn, dfd, x) = p.",
    "cm.special.fdtri(3.0, 4.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[0.41839, 0.94053]",
    gradient="g by the derivative of the distribution function, for p; for dfn and dfd, "
    "times minus those by these",
    domain="NaN outside of the domain.",
)
gdtr = _define(
    "gdtr",
    "a b x",
    (
        "g * z * _gammainc_slope(y, x * z)",
        "g * _gammainc_by_a(y, x * z)",
        "g * x * _gammainc_slope(y, x * z)",
    ),
    "Compute the cumulative distribution of the gamma distribution of rate a and shape b.",
    "cm.special.gdtr(2.0, 3.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.0803, 0.7619]",
    gradient="the density, times x for a and times a for x, times g; for b that of gammainc by a",
    domain="NaN outside of the domain.",
)
gdtrc = _define(
    "gdtrc",
    "a b x",
    (
        "-g * z * _gammainc_slope(y, x * z)",
        "-g * _gammainc_by_a(y, x * z)",
        "-g * x * _gammainc_slope(y, x * z)",
    ),
    "Compute the probability that a gamma variable of rate a and shape b is above x.",
    "cm.special.gdtrc(2.0, 3.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.9197, 0.2381]",
    gradient="the density, times x for a and times a for x, times g; for b that of gammainc by a",
    domain="NaN outside of the domain.",
)
nbdtr = _define(
    "nbdtr",
    "k n p",
    (
        "no_gradient('nbdtr', 'k')",
        "no_gradient('nbdtr', 'n')",
        "g * _betainc_slope(floor(y), floor(x) + 1, z)",
    ),
    "Compute the probability of at most k failures before the n-th success.",
    "cm.special.nbdtr(2.0, 3.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[0.10352, 0.5]",
    gradient="the derivative by p, a density, times g; none for k and n",
    domain="NaN outside of the domain.",
)
nbdtrc = _define(
    "nbdtrc",
    "k n p",
    (
        "no_gradient('nbdtrc', 'k')",
        "no_gradient('nbdtrc', 'n')",
        "-g * _betainc_slope(floor(x) + 1, floor(y), 1 - z)",
    ),
    "Compute the probability of more than k failures before the n-th success.",
    "cm.special.nbdtrc(2.0, 3.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[0.89648, 0.5]",
    gradient="the derivative by p, a density, times g; none for k and n",
    domain="NaN outside of the domain.",
)
nbdtri = _define(
    "nbdtri",
    "k n y",
    (
        "no_gradient('nbdtri', 'k')",
        "no_gradient('nbdtri', 'n')",
        "g / _betainc_slope(floor(y), floor(x) + 1, out)",
    ),
    "Compute the probability p of a success with nbdtr(k, n, p) = y.",
    "cm.special.nbdtri(2.0, 3.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[0.35944, 0.5]",
    gradient="g by the derivative of the distribution function, for y; none for k and n",
    domain="NaN outside of the domain.",
)
pdtr = _define(
    "pdtr",
    "k m",
    (
        "no_gradient('pdtr', 'k')",
        "-g * _gammainc_slope(floor(x) + 1, y)",
    ),
    "Compute the probability that a Poisson variable of mean m is at most k.",
    "cm.special.pdtr(2.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.98561, 0.67668]",
    gradient="the derivative by m, a density, times g; none for k",
    domain="NaN outside of the domain.",
)
pdtrc = _define(
    "pdtrc",
    "k m",
    (
        "no_gradient('pdtrc', 'k')",
        "g * _gammainc_slope(floor(x) + 1, y)",
    ),
    "Compute the probability that a Poisson variable of mean m is above k.",
    "cm.special.pdtrc(2.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.01439, 0.32332]",
    gradient="the derivative by m, a density, times g; none for k",
    domain="NaN outside of the domain.",
)
pdtri = _define(
    "pdtri",
    "k y",
    (
        "no_gradient('pdtri', 'k')",
        "-g / _gammainc_slope(floor(x) + 1, out)",
    ),
    "Compute the mean m with pdtr(k, m) = y.",
    "cm.special.pdtri(2.0, cm.array([0.25, 0.5])).round(5).tolist()",
    "[3.9204, 2.67406]",
    gradient="g by the derivative of the distribution function, for y; none for k",
    domain="NaN outside of the domain.",
)
stdtr = _define(
    "stdtr",
    "df t",
    (
        "g * _t_by_df(x, y)",
        "g * _t_density(x, y)",
    ),
    "Compute the cumulative distribution of Student's t with df degrees of freedom.",
    "cm.special.stdtr(3.0, cm.array([0.5, 2.0])).round(5).tolist()",
    "[0.67428, 0.93034]",
    gradient="the derivative by t, a density, times g; for df by those of betainc",
    domain="NaN outside of the domain.",
)
