"""The gamma function and its relatives."""

from __future__ import annotations

import functools
import numbers
from typing import Any

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import REAL
from ..core.shapes import as_integer
from ..core.typing import ArrayLike
from ..ops.shape import astype
from . import definition
from .definition import no_gradient  # noqa: F401  in a gradient expression

__all__ = [
    "beta",
    "betaln",
    "digamma",
    "gamma",
    "gammaln",
    "gammasgn",
    "loggamma",
    "multigammaln",
    "polygamma",
    "psi",
    "rgamma",
]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())

gamma = _define(
    "gamma",
    "z",
    ("g * out * digamma(x)",),
    "Compute the gamma function.",
    "cm.special.gamma(cm.array([0.5, 5.0])).round(5).tolist()",
    "[1.77245..., 24.0]",
    formula="The integral of t^(z - 1) exp(-t) over t from 0 on; (z - 1)! of whole numbers.",
    domain="NaN at negative whole numbers.",
    complex=True,
)
gammaln = _define(
    "gammaln",
    "x",
    ("g * digamma(x)",),
    "Compute the logarithm of the absolute value of the gamma function.",
    "cm.special.gammaln(cm.array([1.0, 100.0])).round(3).tolist()",
    "[0.0, 359.134...]",
    formula="log |gamma(x)|",
)
loggamma = _define(
    "loggamma",
    "z",
    ("g * digamma(x)",),
    "Compute the principal branch of the logarithm of the gamma function.",
    "cm.special.loggamma(cm.array([1.0, -0.5])).tolist()",
    "[0.0, nan]",
    domain="NaN of negative real numbers, where it is not real.",
    complex=True,
)
gammasgn = _define(
    "gammasgn",
    "x",
    ("g * 0",),
    "Compute the sign of the gamma function.",
    "cm.special.gammasgn(cm.array([0.5, -0.5])).tolist()",
    "[1.0, -1.0]",
    domain="NaN at negative whole numbers.",
)
rgamma = _define(
    "rgamma",
    "z",
    ("g * _slope_of_rgamma(x, out)",),
    "Compute the reciprocal of the gamma function.",
    "cm.special.rgamma(cm.array([-1.0, 5.0])).round(6).tolist()",
    "[0.0, 0.041667...]",
    formula="1 / gamma(z), which is 0 where gamma is infinite.",
    gradient="-digamma(z) rgamma(z) g",
    complex=True,
)
_rgamma_slope = _card(
    "rgamma_slope", 1, ("g * (digamma(x) * digamma(x) - _polygamma(1.0, x)) * rgamma(x)",)
)
digamma = _define(
    "digamma",
    "z",
    ("g * _trigamma(x)",),
    "Compute the digamma function, the derivative of log gamma.",
    "cm.special.digamma(cm.array([1.0, 10.0])).round(5).tolist()",
    "[-0.57722, 2.25175]",
    gradient="polygamma(1, z) g",
    domain="NaN at negative whole numbers.",
    complex=True,
)
psi = digamma
_polygamma = _card("polygamma", 2, ("no_gradient('polygamma', 'n')", "g * _polygamma(x + 1.0, y)"))
_multigammaln = _card(
    "multigammaln", 2, ("g * _multipolygamma(0.0, x, y)", "no_gradient('multigammaln', 'd')")
)
_multipolygamma = _card(
    "multipolygamma",
    3,
    (
        "no_gradient('multigammaln', 'n')",
        "g * _multipolygamma(x + 1.0, y, z)",
        "no_gradient('multigammaln', 'd')",
    ),
)
beta = _define(
    "beta",
    "a b",
    ("g * out * (digamma(x) - digamma(x + y))", "g * out * (digamma(y) - digamma(x + y))"),
    "Compute the beta function.",
    "cm.special.beta(cm.array([1.0, 2.0]), 2.0).round(6).tolist()",
    "[0.5, 0.166667]",
    formula="gamma(a) gamma(b) / gamma(a + b)",
)
betaln = _define(
    "betaln",
    "a b",
    ("g * (digamma(x) - digamma(x + y))", "g * (digamma(y) - digamma(x + y))"),
    "Compute the logarithm of the absolute value of the beta function.",
    "cm.special.betaln(cm.array([1.0, 2.0]), 2.0).round(5).tolist()",
    "[-0.69315, -1.79176]",
    formula="log |beta(a, b)|",
)


_complex_trigamma = definition.complex_card(
    "trigamma", ("no_gradient('trigamma', 'complex numbers')",), globals()
)


def _trigamma(x: ndarray) -> ndarray:
    return _complex_trigamma(x) if x.dtype.kind == "c" else _polygamma(1.0, x)


def _slope_of_rgamma(x: ndarray, y: ndarray) -> ndarray:
    return -digamma(x) * y if x.dtype.kind == "c" else _rgamma_slope(x)


@fast_path("n?", "x")
def polygamma(n: ArrayLike, x: ArrayLike) -> ndarray:
    """Compute a derivative of the digamma function.

    The n-th derivative of digamma(x): (-1)^(n + 1) n! zeta(n + 1, x).

    Parameters
    ----------
    n : array_like
        Whole numbers from 0 on.
    x : array_like
        Real array; its shape and that of `n` broadcast.

    Returns
    -------
    ndarray
        Array of the dtype of `x`, of the default one for whole numbers. NaN where `n` is no such
        number.

    Raises
    ------
    TypeError
        An argument is complex or no array of numbers.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    Gradient: polygamma(n + 1, x) g for `x`, of any order; none for `n`. The function is
    deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.polygamma(1, cm.array([1.0, 2.0])).round(5).tolist()
    [1.64493, 0.64493]
    """
    x = floating("polygamma", x)
    return _polygamma(order_of("polygamma", n, x), x)


def floating(name: str, x: Any) -> ndarray:
    """x as an array of floating-point numbers."""
    x = require(name, x, REAL)
    return x if x.dtype.kind not in "iu" else astype(x, dtypes.default_float())


def order_of(name: str, n: Any, x: ndarray) -> Any:
    """An order, a number or an array; whole numbers in x's dtype, so that they do not widen x."""
    if isinstance(n, numbers.Integral | float):
        return float(n)
    n = require(name, n, REAL)
    return astype(n, x.dtype, copy=False) if n.dtype in dtypes.INTEGER else n


@fast_path("a")
def multigammaln(a: ArrayLike, d: int) -> ndarray:
    """Compute the logarithm of the multivariate gamma function.

    d (d - 1) / 4 log(pi) plus the sum of gammaln(a - j / 2) over j = 0 .. d - 1.

    Parameters
    ----------
    a : array_like
        Real array of numbers above (d - 1) / 2.
    d : int
        Number of dimensions.

    Returns
    -------
    ndarray
        Array of the shape of `a`, of its dtype or the default one for whole numbers.

    Raises
    ------
    TypeError
        `a` is complex, or `d` is no whole number.
    ValueError
        `d` is not positive.

    Notes
    -----
    Gradient: the sum of digamma(a - j / 2), times g, of any order. Where `a` is not above
    (d - 1) / 2, SciPy raises an error; here nothing looks at the numbers, and the result is that
    of the formula. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.multigammaln(cm.array([3.0, 4.0]), 2).round(4).tolist()
    [1.5502, 3.5651]
    """
    a = floating("multigammaln", a)
    d = as_integer("multigammaln", "d", d, 1)
    return _multigammaln(a, float(d))
