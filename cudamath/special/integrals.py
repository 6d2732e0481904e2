"""Exponential and elliptic integrals, Jacobi's elliptic functions, and Lambert's W."""

from __future__ import annotations

import functools

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.fast_path import fast_path
from ..core.shapes import as_integer
from ..core.typing import ArrayLike
from ..fuse import fuse
from ..ops.creation import full
from ..ops.elementwise import exp, maximum  # noqa: F401  in gradient expressions
from ..ops.shape import astype
from ..ops.where import where  # noqa: F401
from . import definition
from .definition import no_gradient, unless_zero  # noqa: F401
from .gamma_functions import floating
from .wave_integrals import ellipeinc

__all__ = [
    "ellipe",
    "ellipj",
    "ellipk",
    "ellipkm1",
    "exp1",
    "expi",
    "expn",
    "lambertw",
]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())


exp1 = _define(
    "exp1",
    "z",
    ("-g * exp(-x) / x",),
    "Compute the exponential integral E1.",
    "cm.special.exp1(cm.array([0.5, 2.0])).round(6).tolist()",
    "[0.559774, 0.048901]",
    formula="The integral of exp(-t) / t over t from z on.",
    domain="Infinite at 0, and NaN of negative numbers, where it is not real.",
)
expi = _define(
    "expi",
    "x",
    ("g * exp(x) / x",),
    "Compute the exponential integral Ei.",
    "cm.special.expi(cm.array([0.5, 2.0])).round(6).tolist()",
    "[0.45422, 4.954234]",
    formula="The principal value of the integral of exp(t) / t over t up to x.",
)
expn = _define(
    "expn",
    "n x",
    (
        "no_gradient('expn', 'n')",
        "-g * where(x == 0, exp(-y) * (1 + 1 / y) / y, expn(maximum(x - 1.0, 0), y))",
    ),
    "Compute the exponential integral of order n.",
    "cm.special.expn(2.0, cm.array([0.5, 2.0])).round(6).tolist()",
    "[0.326644, 0.037534]",
    formula="The integral of exp(-x t) / t^n over t from 1 on.",
    gradient="-expn(n - 1, x) g for x; none for n",
    domain="NaN of negative numbers and of orders that are not whole.",
)
ellipk = _define(
    "ellipk",
    "m",
    ("g * where(x == 0, PI / 8, (ellipe(x) / (1 - x) - out) / (2 * unless_zero(x)))",),
    "Compute the complete elliptic integral of the first kind of parameter m.",
    "cm.special.ellipk(cm.array([0.0, 0.5])).round(6).tolist()",
    "[1.570796, 1.854075]",
    formula="The integral of 1 / sqrt(1 - m sin(t)^2) over t from 0 to pi / 2.",
    gradient="(ellipe(m) / (1 - m) - ellipk(m)) / (2 m) g",
    domain="NaN above 1.",
)
ellipkm1 = _define(
    "ellipkm1",
    "p",
    ("-g * where(x == 1, PI / 8, (ellipe(1 - x) / x - out) / (2 * unless_zero(1 - x)))",),
    "Compute the complete elliptic integral of the first kind of parameter 1 - p.",
    "cm.special.ellipkm1(cm.array([1.0, 1e-6])).round(5).tolist()",
    "[1.5708, 8.29405]",
    formula="ellipk(1 - p), with all digits where p is small.",
    gradient="-(ellipe(1 - p) / p - ellipkm1(p)) / (2 (1 - p)) g",
    domain="NaN below 0.",
)
ellipe = _define(
    "ellipe",
    "m",
    ("g * where(x == 0, -PI / 8, (out - ellipk(x)) / (2 * unless_zero(x)))",),
    "Compute the complete elliptic integral of the second kind of parameter m.",
    "cm.special.ellipe(cm.array([0.0, 0.5])).round(6).tolist()",
    "[1.570796, 1.350644]",
    formula="The integral of sqrt(1 - m sin(t)^2) over t from 0 to pi / 2.",
    gradient="(ellipe(m) - ellipk(m)) / (2 m) g",
    domain="NaN above 1.",
)
PI = 3.141592653589793

_ph = _card("ellipj_ph", 2, ("g * _dn(x, y, out)", "g * _ph_by_m(x, y, out)"))
# of the amplitude z, too, so that it is computed once: derivatives by u and m are whole ones
_sn = _card(
    "ellipj_sn",
    3,
    ("g * _cn(x, y, z) * _dn(x, y, z)", "g * _cn(x, y, z) * _ph_by_m(x, y, z)", "g * 0"),
)
_cn = _card(
    "ellipj_cn",
    3,
    ("-g * _sn(x, y, z) * _dn(x, y, z)", "-g * _sn(x, y, z) * _ph_by_m(x, y, z)", "g * 0"),
)
_dn = _card(
    "ellipj_dn", 3, ("-g * y * _sn(x, y, z) * _cn(x, y, z)", "g * _dn_by_m(x, y, z, out)", "g * 0")
)


def _ph_by_m(u: ndarray, m: ndarray, ph: ndarray) -> ndarray:
    product = _sn(u, m, ph) * _cn(u, m, ph)
    y = _dn(u, m, ph) * ((1 - m) * u - ellipeinc(ph, m)) + m * product
    return where(m == 0, (product - u) / 4, y / (2 * unless_zero(m) * unless_zero(1 - m)))


def _dn_by_m(u: ndarray, m: ndarray, ph: ndarray, dn: ndarray) -> ndarray:
    sn = _sn(u, m, ph)
    return -sn * (sn + 2 * m * _cn(u, m, ph) * _ph_by_m(u, m, ph)) / (2 * dn)


@fuse
def _ellipj(u: ndarray, m: ndarray) -> tuple[ndarray, ...]:
    """sn, cn, dn and ph: of float32 in float64, as the amplitude's digits are theirs."""
    dtype = dtypes.promote(u.dtype, m.dtype)
    u, m = (astype(x, dtypes.float64, copy=False) for x in (u, m))
    ph = _ph(u, m)
    results = _sn(u, m, ph), _cn(u, m, ph), _dn(u, m, ph), ph
    return tuple([astype(x, dtype, copy=False) for x in results])


@fast_path("u", "m?")
def ellipj(u: ArrayLike, m: ArrayLike) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Compute Jacobi's elliptic functions.

    The amplitude ph is the angle with u = the integral of 1 / sqrt(1 - m sin(t)^2) from 0 to ph;
    sn = sin(ph), cn = cos(ph), dn = sqrt(1 - m sn^2).

    Parameters
    ----------
    u : array_like
        Real array.
    m : array_like
        Real array of parameters up to 1; its shape and that of `u` broadcast.

    Returns
    -------
    tuple of ndarray
        The arrays sn, cn, dn and ph, of the dtype of the arguments together; NaN where m is
        above 1.

    Raises
    ------
    TypeError
        An argument is complex or no array of numbers.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    Gradient: cn dn g, -sn dn g, -m sn cn g and dn g for `u`; for `m` by the derivative of ph,
    (dn ((1 - m) u - ellipeinc(ph, m)) + m sn cn) / (2 m (1 - m)), not at 1. Of any order. The
    function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> sn, cn, dn, ph = cm.special.ellipj(cm.array([0.0, 1.0]), 0.5)
    >>> sn.round(6).tolist()
    [0.0, 0.803002]
    """
    u = floating("ellipj", u)
    if isinstance(m, int | float):
        m = full((), m, dtype=u.dtype, device=u.device)
    return _ellipj(u, floating("ellipj", m))


_lambertw = _card("lambertw0", 1, ("g * (exp(-out) / (1 + out))",))
_lambertw_below = _card("lambertw_below", 1, ("g * (exp(-out) / (1 + out))",))


@fast_path("z")
def lambertw(z: ArrayLike, k: int = 0) -> ndarray:
    """Compute Lambert's W on its two real branches: the w with w exp(w) = z.

    Parameters
    ----------
    z : array_like
        Real array.
    k : int, default 0
        The branch: 0 for w >= -1, or -1 for w <= -1.

    Returns
    -------
    ndarray
        Array of the shape and dtype of `z`. NaN where the branch is not real, and where SciPy,
        which always returns complex numbers, has an imaginary part.

    Raises
    ------
    TypeError
        `z` is complex or no array of numbers.
    ValueError
        `k` is another branch.

    Notes
    -----
    Gradient: exp(-w) / (1 + w) g, of any order. The function is deterministic.

    References
    ----------
    .. [1] Corless et al. (1996), "On the Lambert W function".

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.lambertw(cm.array([0.0, 1.0])).round(6).tolist()
    [0.0, 0.567143]
    """
    z = floating("lambertw", z)
    k = as_integer("lambertw", "k", k)
    if k not in (0, -1):
        raise ValueError(f"lambertw: the real branches are 0 and -1, got k = {k}")
    return _lambertw(z) if k == 0 else _lambertw_below(z)
