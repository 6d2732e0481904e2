"""Incomplete elliptic integrals, and the integrals of sines and cosines."""

from __future__ import annotations

import functools

from ..core.array import ndarray
from ..core.dispatch.fast_path import fast_path
from ..core.typing import ArrayLike
from ..fuse import fuse
from ..ops.elementwise import cos, cosh, sin, sinh, sqrt  # noqa: F401  in gradient expressions
from ..ops.where import where  # noqa: F401
from . import definition
from .definition import unless_zero  # noqa: F401
from .gamma_functions import floating

__all__ = ["ellipeinc", "ellipkinc", "shichi", "sici"]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())

ellipkinc = _define(
    "ellipkinc",
    "phi m",
    (
        "g / sqrt(1 - y * sin(x) * sin(x))",
        "g * where(y == 0, (2 * x - sin(2 * x)) / 8, ((ellipeinc(x, y) / (1 - y) - out) / "
        "unless_zero(y) - sin(2 * x) / (2 * (1 - y) * sqrt(1 - y * sin(x) * sin(x)))) / 2)",
    ),
    "Compute the incomplete elliptic integral of the first kind.",
    "cm.special.ellipkinc(cm.array([0.5, 2.0]), 0.5).round(6).tolist()",
    "[0.510467, 2.444383]",
    formula="The integral of 1 / sqrt(1 - m sin(t)^2) over t from 0 to phi.",
    gradient="g / sqrt(1 - m sin(phi)^2) for phi; for m by DLMF 19.4.5",
    domain="NaN of m above 1.",
)
ellipeinc = _define(
    "ellipeinc",
    "phi m",
    (
        "g * sqrt(1 - y * sin(x) * sin(x))",
        "g * where(y == 0, (sin(2 * x) - 2 * x) / 8, (out - ellipkinc(x, y)) / "
        "(2 * unless_zero(y)))",
    ),
    "Compute the incomplete elliptic integral of the second kind.",
    "cm.special.ellipeinc(cm.array([0.5, 2.0]), 0.5).round(6).tolist()",
    "[0.489911, 1.662895]",
    formula="The integral of sqrt(1 - m sin(t)^2) over t from 0 to phi.",
    gradient="sqrt(1 - m sin(phi)^2) g for phi; (ellipeinc - ellipkinc) / (2 m) g for m",
    domain="NaN of m above 1.",
)
_si = _card("sine_integral", 1, ("g * where(x == 0, 1, sin(x) / unless_zero(x))",))
_ci = _card("cosine_integral", 1, ("g * cos(x) / x",))
_shi = _card("hyperbolic_sine_integral", 1, ("g * where(x == 0, 1, sinh(x) / unless_zero(x))",))
_chi = _card("hyperbolic_cosine_integral", 1, ("g * cosh(x) / x",))


@fuse
def _sici(x: ndarray) -> tuple[ndarray, ndarray]:
    return _si(x), _ci(x)


@fuse
def _shichi(x: ndarray) -> tuple[ndarray, ndarray]:
    return _shi(x), _chi(x)


@fast_path("x")
def sici(x: ArrayLike) -> tuple[ndarray, ndarray]:
    """Compute the sine integral and the cosine integral.

    Si(x) = integral of sin(t) / t from 0 to x; Ci(x) = that of cos(t) / t from infinity to |x|.

    Parameters
    ----------
    x : array_like
        Real array.

    Returns
    -------
    tuple of ndarray
        The arrays si and ci, of the dtype of `x`, of the default one for whole numbers.

    Raises
    ------
    TypeError
        `x` is complex or no array of numbers.

    Notes
    -----
    Gradient: sin(x) / x g and cos(x) / x g, of any order. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> si, ci = cm.special.sici(cm.array([1.0, 10.0]))
    >>> si.round(5).tolist(), ci.round(5).tolist()
    ([0.94608, 1.65835], [0.3374, -0.04546])
    """
    return _sici(floating("sici", x))


@fast_path("x")
def shichi(x: ArrayLike) -> tuple[ndarray, ndarray]:
    """Compute the hyperbolic sine integral and the hyperbolic cosine integral.

    Shi(x) = integral of sinh(t) / t from 0 to x; Chi(x) = Euler's constant + log |x| + the
    integral of (cosh(t) - 1) / t from 0 to x.

    Parameters
    ----------
    x : array_like
        Real array.

    Returns
    -------
    tuple of ndarray
        The arrays shi and chi, of the dtype of `x`, of the default one for whole numbers.

    Raises
    ------
    TypeError
        `x` is complex or no array of numbers.

    Notes
    -----
    Gradient: sinh(x) / x g and cosh(x) / x g, of any order. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> shi, chi = cm.special.shichi(cm.array([1.0, 2.0]))
    >>> shi.round(5).tolist(), chi.round(5).tolist()
    ([1.05725, 2.50157], [0.83787, 2.45267])
    """
    return _shichi(floating("shichi", x))
