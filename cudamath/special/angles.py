"""Degrees, powers of ten, and the transforms of Box and Cox."""

from __future__ import annotations

import functools

from ..ops.elementwise import exp, log, log1p, sin  # noqa: F401  in gradient expressions
from ..ops.where import where  # noqa: F401
from . import definition
from .entropies import _exp_moment  # noqa: F401

__all__ = [
    "boxcox",
    "boxcox1p",
    "cosdg",
    "cosm1",
    "cotdg",
    "exp10",
    "inv_boxcox",
    "inv_boxcox1p",
    "radian",
    "sindg",
    "tandg",
]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())

DEGREE = 0.017453292519943295
LN10 = 2.302585092994046


def _beside_zero(lam: object, y: object, slope: object) -> object:
    """slope / lam, and y where lam is 0."""
    return where(lam == 0, y, slope / where(lam == 0, 1, lam))


sindg = _define(
    "sindg",
    "x",
    ("g * (cosdg(x) * DEGREE)",),
    "Compute the sine of degrees.",
    "cm.special.sindg(cm.array([30.0, 180.0])).round(6).tolist()",
    "[0.5, -0.0]",
    gradient="cosdg(x) pi / 180 g",
    domain="Exact at multiples of 45; 0 beyond 1e14.",
)
cosdg = _define(
    "cosdg",
    "x",
    ("-g * (sindg(x) * DEGREE)",),
    "Compute the cosine of degrees.",
    "cm.special.cosdg(cm.array([60.0, 90.0])).round(6).tolist()",
    "[0.5, -0.0]",
    gradient="-sindg(x) pi / 180 g",
    domain="Exact at multiples of 90; 0 beyond 1e14.",
)
tandg = _define(
    "tandg",
    "x",
    ("g * ((1 + out * out) * DEGREE)",),
    "Compute the tangent of degrees.",
    "cm.special.tandg(cm.array([45.0, 180.0])).round(6).tolist()",
    "[1.0, 0.0]",
    gradient="(1 + tandg(x)^2) pi / 180 g",
    domain="Infinite at 90; 0 beyond 1e14.",
)
cotdg = _define(
    "cotdg",
    "x",
    ("-g * ((1 + out * out) * DEGREE)",),
    "Compute the cotangent of degrees.",
    "cm.special.cotdg(cm.array([45.0, 90.0])).round(6).tolist()",
    "[1.0, 0.0]",
    gradient="-(1 + cotdg(x)^2) pi / 180 g",
    domain="Infinite at 0; 0 beyond 1e14.",
)
radian = _define(
    "radian",
    "d m s",
    (
        "g * DEGREE",
        "g * (DEGREE / 60)",
        "g * (DEGREE / 3600)",
    ),
    "Convert degrees, minutes and seconds to radians.",
    "cm.special.radian(cm.array([90.0, 1.0]), 30.0, 0.0).round(6).tolist()",
    "[1.579523, 0.02618]",
    gradient="pi / 180 g, and that divided by 60 and by 3600",
)
cosm1 = _define(
    "cosm1",
    "x",
    ("-g * sin(x)",),
    "Compute cos(x) - 1, with all digits near 0.",
    "cm.special.cosm1(cm.array([1e-3, 2.0])).round(6).tolist()",
    "[-0.0, -1.416147]",
    gradient="-sin(x) g",
)
exp10 = _define(
    "exp10",
    "x",
    ("g * (out * LN10)",),
    "Compute a power of ten.",
    "cm.special.exp10(cm.array([2.0, -1.0])).round(6).tolist()",
    "[100.0, 0.1]",
    gradient="10^x log(10) g",
)
boxcox = _define(
    "boxcox",
    "x lmbda",
    (
        "g * exp((y - 1) * log(x))",
        "g * (log(x) * log(x) * _exp_moment(1.0, y * log(x)))",
    ),
    "Compute the transform of Box and Cox, (x^lmbda - 1) / lmbda.",
    "cm.special.boxcox(cm.array([1.0, 4.0]), 0.5).round(6).tolist()",
    "[0.0, 2.0]",
    gradient="x^(lmbda - 1) g, and the derivative by lmbda as an integral of powers",
    domain="log(x) where lmbda is 0.",
)
boxcox1p = _define(
    "boxcox1p",
    "x lmbda",
    (
        "g * exp((y - 1) * log1p(x))",
        "g * (log1p(x) * log1p(x) * _exp_moment(1.0, y * log1p(x)))",
    ),
    "Compute the transform of Box and Cox of 1 + x, ((1 + x)^lmbda - 1) / lmbda.",
    "cm.special.boxcox1p(cm.array([0.0, 3.0]), 0.5).round(6).tolist()",
    "[0.0, 2.0]",
    gradient="(1 + x)^(lmbda - 1) g, and the derivative by lmbda as an integral of powers",
    domain="log(1 + x) where lmbda is 0.",
)
inv_boxcox = _define(
    "inv_boxcox",
    "y lmbda",
    (
        "g * (out / (1 + x * y))",
        "g * (out * _beside_zero(y, x * x * -0.5, x / (1 + x * y) - log(out)))",
    ),
    "Compute the inverse of the transform of Box and Cox, (1 + lmbda y)^(1 / lmbda).",
    "cm.special.inv_boxcox(cm.array([0.0, 2.0]), 0.5).round(6).tolist()",
    "[1.0, 4.0]",
    gradient="x / (1 + lmbda y) g with the result x, and x (y / (1 + lmbda y) - log(x)) / lmbda g",
    domain="exp(y) where lmbda is 0.",
)
inv_boxcox1p = _define(
    "inv_boxcox1p",
    "y lmbda",
    (
        "g * ((out + 1) / (1 + x * y))",
        "g * ((out + 1) * _beside_zero(y, x * x * -0.5, x / (1 + x * y) - log1p(out)))",
    ),
    "Compute the inverse of the transform of Box and Cox of 1 + x, (1 + lmbda y)^(1 / lmbda) - 1.",
    "cm.special.inv_boxcox1p(cm.array([0.0, 2.0]), 0.5).round(6).tolist()",
    "[0.0, 3.0]",
    gradient="that of inv_boxcox",
    domain="exp(y) - 1 where lmbda is 0.",
)
