"""Bessel functions."""

from __future__ import annotations

import functools

from ..core.array import ndarray
from ..core.dispatch.fast_path import fast_path
from ..core.typing import ArrayLike
from ..ops.elementwise import cos, sign, sin  # noqa: F401  in gradient expressions
from ..ops.where import where  # noqa: F401
from . import definition
from .definition import no_gradient, unless_zero  # noqa: F401
from .gamma_functions import floating, order_of

__all__ = [
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "jn",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "spherical_yn",
    "wright_bessel",
    "y0",
    "y1",
    "yn",
]

_define = functools.partial(definition.define, namespace=globals())
_card = functools.partial(definition.card, namespace=globals())


j0 = _define(
    "j0",
    "x",
    ("-g * j1(x)",),
    "Compute the Bessel function of the first kind and order 0.",
    "cm.special.j0(cm.array([0.5, 10.0])).round(6).tolist()",
    "[0.93847, -0.245936]",
    gradient="-j1(x) g",
)
j1 = _define(
    "j1",
    "x",
    ("g * (j0(x) - jn(2.0, x)) * 0.5",),
    "Compute the Bessel function of the first kind and order 1.",
    "cm.special.j1(cm.array([0.5, 10.0])).round(6).tolist()",
    "[0.242268, 0.043473]",
    gradient="(j0(x) - jn(2, x)) / 2 g",
)
y0 = _define(
    "y0",
    "x",
    ("-g * y1(x)",),
    "Compute the Bessel function of the second kind and order 0.",
    "cm.special.y0(cm.array([0.5, 10.0])).round(6).tolist()",
    "[-0.444519, 0.055671]",
    gradient="-y1(x) g",
    domain="Infinite at 0, and NaN of negative numbers.",
)
y1 = _define(
    "y1",
    "x",
    ("g * (y0(x) - out / x)",),
    "Compute the Bessel function of the second kind and order 1.",
    "cm.special.y1(cm.array([0.5, 10.0])).round(6).tolist()",
    "[-1.471472, 0.249015]",
    gradient="(y0(x) - y1(x) / x) g",
    domain="Infinite at 0, and NaN of negative numbers.",
)
i0 = _define(
    "i0",
    "x",
    ("g * i1(x)",),
    "Compute the modified Bessel function of the first kind and order 0.",
    "cm.special.i0(cm.array([0.5, 10.0])).round(6).tolist()",
    "[1.063483, 2815.716628]",
    gradient="i1(x) g",
)
i0e = _define(
    "i0e",
    "x",
    ("g * (i1e(x) - sign(x) * out)",),
    "Compute the modified Bessel function of the first kind and order 0, scaled.",
    "cm.special.i0e(cm.array([0.5, 10.0])).round(6).tolist()",
    "[0.645035, 0.127833]",
    formula="exp(-|x|) i0(x)",
    gradient="(i1e(x) - sign(x) i0e(x)) g",
)
i1 = _define(
    "i1",
    "x",
    ("g * where(x == 0, 0.5, i0(x) - out / unless_zero(x))",),
    "Compute the modified Bessel function of the first kind and order 1.",
    "cm.special.i1(cm.array([0.5, 10.0])).round(6).tolist()",
    "[0.257894, 2670.988304]",
    gradient="(i0(x) - i1(x) / x) g",
)
i1e = _define(
    "i1e",
    "x",
    ("g * (where(x == 0, 0.5, i0e(x) - out / unless_zero(x)) - sign(x) * out)",),
    "Compute the modified Bessel function of the first kind and order 1, scaled.",
    "cm.special.i1e(cm.array([0.5, 10.0])).round(6).tolist()",
    "[0.156421, 0.121263]",
    formula="exp(-|x|) i1(x)",
    gradient="(i0e(x) - i1e(x) / x - sign(x) i1e(x)) g",
)
k0 = _define(
    "k0",
    "x",
    ("-g * k1(x)",),
    "Compute the modified Bessel function of the second kind and order 0.",
    "cm.special.k0(cm.array([0.5, 10.0])).round(6).tolist()",
    "[0.924419, 1.8e-05]",
    gradient="-k1(x) g",
    domain="Infinite at 0, and NaN of negative numbers.",
)
k0e = _define(
    "k0e",
    "x",
    ("g * (out - k1e(x))",),
    "Compute the modified Bessel function of the second kind and order 0, scaled.",
    "cm.special.k0e(cm.array([0.5, 10.0])).round(6).tolist()",
    "[1.524109, 0.391632]",
    formula="exp(x) k0(x)",
    gradient="(k0e(x) - k1e(x)) g",
    domain="Infinite at 0, and NaN of negative numbers.",
)
k1 = _define(
    "k1",
    "x",
    ("-g * (k0(x) + out / x)",),
    "Compute the modified Bessel function of the second kind and order 1.",
    "cm.special.k1(cm.array([0.5, 10.0])).round(6).tolist()",
    "[1.656441, 1.9e-05]",
    gradient="-(k0(x) + k1(x) / x) g",
    domain="Infinite at 0, and NaN of negative numbers.",
)
k1e = _define(
    "k1e",
    "x",
    ("g * (out - k0e(x) - out / x)",),
    "Compute the modified Bessel function of the second kind and order 1, scaled.",
    "cm.special.k1e(cm.array([0.5, 10.0])).round(6).tolist()",
    "[2.73101, 0.410767]",
    formula="exp(x) k1(x)",
    gradient="(k1e(x) - k0e(x) - k1e(x) / x) g",
    domain="Infinite at 0, and NaN of negative numbers.",
)
yn = _define(
    "yn",
    "n x",
    ("no_gradient('yn', 'n')", "g * (yn(x - 1.0, y) - yn(x + 1.0, y)) * 0.5"),
    "Compute the Bessel function of the second kind and a whole order.",
    "cm.special.yn(cm.array([0.0, 3.0]), 2.0).round(6).tolist()",
    "[0.510376, -1.127784]",
    gradient="(yn(n - 1, x) - yn(n + 1, x)) / 2 g for x, of any order; none for n",
    domain="Infinite at 0; NaN of negative x, and of orders that are not whole. Of orders beyond "
    "1e7 what is not infinite is NaN.",
)
jn = _define(
    "jn",
    "n x",
    ("no_gradient('jn', 'n')", "g * (jn(x - 1.0, y) - jn(x + 1.0, y)) * 0.5"),
    "Compute the Bessel function of the first kind and a whole order.",
    "cm.special.jn(cm.array([0.0, 3.0]), 2.0).round(6).tolist()",
    "[0.223891, 0.128943]",
    gradient="(jn(n - 1, x) - jn(n + 1, x)) / 2 g for x, of any order; none for n",
    domain="NaN of orders that are not whole, which SciPy has, and of those beyond 1e7 where the "
    "function is not 0.",
)
_spherical_yn = _card(
    "spherical_yn",
    2,
    ("no_gradient('spherical_yn', 'n')", "g * (x / y * out - _spherical_yn(x + 1.0, y))"),
)


@fast_path("n?", "z")
def spherical_yn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> ndarray:
    """Compute the spherical Bessel function of the second kind.

    sqrt(pi / (2 z)) times the Bessel function of the second kind and order n + 1 / 2.

    Parameters
    ----------
    n : array_like
        Whole numbers from 0 on.
    z : array_like
        Real array; its shape and that of `n` broadcast.
    derivative : bool, default False
        Whether the derivative by `z` is returned instead.

    Returns
    -------
    ndarray
        Array of the dtype of `z`, of the default one for whole numbers. NaN where `n` is no such
        number.

    Raises
    ------
    TypeError
        An argument is complex or no array of numbers.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    Gradient: (n / z spherical_yn(n, z) - spherical_yn(n + 1, z)) g for `z`, of any order; none for
    `n`. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.special.spherical_yn(1, cm.array([1.0, 2.0])).round(6).tolist()
    [-1.381773, -0.350612]
    """
    x = floating("spherical_yn", z)
    order = order_of("spherical_yn", n, x)
    value = _spherical_yn(order, x)
    return order / x * value - _spherical_yn(order + 1.0, x) if derivative else value


wright_bessel = _define(
    "wright_bessel",
    "a b x",
    (
        "no_gradient('wright_bessel', 'a')",
        "no_gradient('wright_bessel', 'b')",
        "g * wright_bessel(x, x + y, z)",
    ),
    "Compute Wright's generalized Bessel function.",
    "cm.special.wright_bessel(1.5, 1.1, cm.array([1.0, 2.0])).round(5).tolist()",
    "[1.82677, 2.76612]",
    formula="The sum of x^k / (k! gamma(a k + b)) over k = 0, 1, ...",
    gradient="wright_bessel(a, a + b, x) g for `x`, of any order; none for `a` and `b`",
    domain="NaN where an argument is negative, or `a` or `b` is not below 178.47.",
)
