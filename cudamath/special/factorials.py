"""Pochhammer's symbol, binomial coefficients, zeta functions, Legendre functions and spherical
harmonics."""

from __future__ import annotations

import functools
import numbers
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import NUMERIC, REAL
from ..core.shapes import broadcast_shapes
from ..core.typing import ArrayLike
from ..fuse import fuse
from ..ops.elementwise import cos, maximum, sin, sqrt  # noqa: F401  in gradient expressions
from ..ops.transfer import of_polar
from . import definition
from .definition import no_gradient  # noqa: F401  in gradient expressions
from .gamma_functions import digamma, floating, order_of  # noqa: F401

__all__ = ["binom", "lpmv", "poch", "sph_harm", "sph_harm_y", "zeta", "zetac"]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())

poch = _define(
    "poch",
    "z m",
    ("g * out * (digamma(x + y) - digamma(x))", "g * out * digamma(x + y)"),
    "Compute Pochhammer's symbol, gamma(z + m) / gamma(z).",
    "cm.special.poch(cm.array([1.0, 0.5]), 3.0).tolist()",
    "[6.0, 1.875]",
)
binom = _define(
    "binom",
    "n k",
    (
        "g * out * (digamma(x + 1) - digamma(x - y + 1))",
        "g * out * (digamma(x - y + 1) - digamma(y + 1))",
    ),
    "Compute the binomial coefficient of real numbers.",
    "cm.special.binom(cm.array([5.0, 0.5]), 2.0).tolist()",
    "[10.0, -0.125]",
    formula="gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1))",
    domain="NaN where n is a negative whole number.",
)
_zeta = _card("zeta", 2, ("no_gradient('zeta', 'x')", "-g * x * _zeta(x + 1.0, y)"))
_riemann_zeta = _card("riemann_zeta", 1, ("no_gradient('zeta', 'x')",))
_complex_zeta = definition.complex_card("complex_zeta", ("no_gradient('zeta', 'x')",), globals())


@fast_path("x", "q?")
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> ndarray:
    """Compute the zeta function of Riemann, or that of Hurwitz.

    The sum of 1 / (q + k)^x over k = 0, 1, ...; without q that of 1 / k^x over k = 1, 2, ...

    Parameters
    ----------
    x : array_like
        Real array; without q also a complex one.
    q : array_like, optional
        Real array; its shape and that of `x` broadcast.

    Returns
    -------
    ndarray
        Array of the dtype of the arguments together, of the default one for whole numbers. With
        `q` NaN where x is below 1.

    Raises
    ------
    TypeError
        An argument is no array of numbers, or complex beside q.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    Gradient: -x zeta(x + 1, q) g for `q`, of any order; none for `x`. The function is
    deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.zeta(cm.array([2.0, -1.0])).round(6).tolist()
    [1.644934, -0.083333]
    """
    if q is None:
        x = require("zeta", x, NUMERIC)
        return _complex_zeta(x) if x.dtype.kind == "c" else _riemann_zeta(floating("zeta", x))
    q = floating("zeta", q)
    return _zeta(order_of("zeta", x, q), q)


zetac = _define(
    "zetac",
    "x",
    ("no_gradient('zetac', 'x')",),
    "Compute the zeta function of Riemann less 1.",
    "cm.special.zetac(cm.array([2.0, 60.0])).tolist()",
    "[0.644934..., 8.67361...e-19]",
    formula="The sum of 1 / k^x over k = 2, 3, ...",
    gradient="none; an error",
)
lpmv = _define(
    "lpmv",
    "m v x",
    (
        "no_gradient('lpmv', 'm')",
        "no_gradient('lpmv', 'v')",
        "g * (y * z * out - (x + y) * lpmv(x, y - 1.0, z)) / (z * z - 1)",
    ),
    "Compute the associated Legendre function of whole order m and degree v.",
    "cm.special.lpmv(1.0, 2.0, cm.array([0.0, 0.5])).round(6).tolist()",
    "[-0.0, -1.299038]",
    formula="With the phase (-1)^m of Condon and Shortley.",
    gradient="(v x P(v) - (v + m) P(v - 1)) / (x^2 - 1) g for x, of any order; none for m and v",
    domain="NaN outside of -1 to 1, and of orders that are not whole; of orders and degrees beyond "
    "1e7.",
)


def _next_factor(n: Any, m: Any) -> Any:
    """Of the radius of the next order, in the derivative of one; 0 where there is none."""
    return sqrt(maximum((n - m) * (n + m + 1), 0.0))


_radius = _card(
    "sph_harm_radius",
    3,
    (
        "no_gradient('sph_harm_y', 'n')",
        "no_gradient('sph_harm_y', 'm')",
        "g * (y * cos(z) / sin(z) * out + _next_factor(x, y) * _radius(x, y + 1.0, z))",
    ),
)


@fast_path("n?", "m?", "theta?", "phi?")
def sph_harm_y(n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike) -> ndarray:
    """Compute spherical harmonics.

    sqrt((2 n + 1) (n - m)! / (4 pi (n + m)!)) P(m, n, cos(theta)) exp(i m phi), with the phase of
    Condon and Shortley in Legendre's function P.

    Parameters
    ----------
    n : array_like
        Degrees, whole numbers from 0 on.
    m : array_like
        Orders, whole numbers from -n to n.
    theta : array_like
        Polar angles, from 0 to pi.
    phi : array_like
        Azimuthal angles. All shapes broadcast.

    Returns
    -------
    ndarray
        Complex array of the dtype of the angles together. 0 where `m` is beyond `n`, NaN where
        either is no such number.

    Raises
    ------
    TypeError
        An argument is complex or no array of numbers.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    Gradient: of any order for both angles, by `theta` not at the poles; none for `n` and `m`. The
    function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.sph_harm_y(1, 0, cm.array([0.0, 1.0]), 0.0).real.round(6).tolist()
    [0.488603, 0.263993]
    """
    return _sph_harm("sph_harm_y", n, m, theta, phi)


def _sph_harm(name: str, n: Any, m: Any, polar: Any, azimuth: Any) -> ndarray:
    polar, azimuth = floating(name, polar), floating(name, azimuth)
    broadcast_shapes(name, np.shape(n), np.shape(m), polar.shape, azimuth.shape)
    n, m = (x if isinstance(x, numbers.Real) else require(name, x, REAL) for x in (n, m))
    if isinstance(n, ndarray) and isinstance(m, ndarray) and n.dtype.kind + m.dtype.kind in _WHOLE:
        return _harmonics(n, m, polar, azimuth)
    return _of_orders(n, m, polar, azimuth)


_WHOLE = ("ii", "iu", "ui", "uu")


def _of_orders(n: Any, m: Any, polar: ndarray, azimuth: ndarray) -> ndarray:
    n, m = order_of("sph_harm_y", n, polar), order_of("sph_harm_y", m, polar)
    return of_polar(_radius(n, m, polar), azimuth, m)


#: One kernel. Of orders that are no integers it would ask for the gradient, which there is none of.
_harmonics = fuse(_of_orders)


@fast_path("m?", "n?", "theta?", "phi?")
def sph_harm(m: ArrayLike, n: ArrayLike, theta: ArrayLike, phi: ArrayLike) -> ndarray:
    """Compute spherical harmonics, with the arguments in the order that SciPy had before 1.17.

    `sph_harm_y(n, m, phi, theta)`: here theta is the azimuthal angle.

    Parameters
    ----------
    m : array_like
        Orders, whole numbers from -n to n.
    n : array_like
        Degrees, whole numbers from 0 on.
    theta : array_like
        Azimuthal angles.
    phi : array_like
        Polar angles, from 0 to pi. All shapes broadcast.

    Returns
    -------
    ndarray
        Complex array of the dtype of the angles together. 0 where `m` is beyond `n`, NaN where
        either is no such number.

    Raises
    ------
    TypeError
        An argument is complex or no array of numbers.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    Gradient: of any order for both angles, by `phi` not at the poles; none for `n` and `m`. The
    function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.sph_harm(0, 1, 0.0, cm.array([0.0, 1.0])).real.round(6).tolist()
    [0.488603, 0.263993]
    """
    return _sph_harm("sph_harm", n, m, phi, theta)
