"""The modified Bessel function of order 0.

Two Chebyshev series, one of e^-x I0(x) up to 8 and one of e^-x sqrt(x) I0(x) beyond, summed by
Clenshaw's recurrence. Coefficients: Cephes, chbevl and i0 (S. L. Moshier, Methods and Programs for
Mathematical Functions, 1989), which NumPy uses too.
"""

from __future__ import annotations

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import INEXACT, REAL_OR_BOOL
from ..core.specs.special.bessel_functions import I0_FAR, I0_NEAR
from ..core.typing import ArrayLike
from .elementwise import abs, exp, maximum, minimum, sqrt
from .shape import astype
from .where import where

__all__ = ["i0"]

_BORDER = 8.0  # between the two series


@fast_path("x")
def i0(x: ArrayLike, /) -> ndarray:
    """Compute the modified Bessel function of the first kind and order 0.

    Parameters
    ----------
    x : array_like
        Real or bool array of any shape.

    Returns
    -------
    ndarray
        Array of x's dtype, or of the default floating-point dtype for integers and bool. 16-bit
        floats are computed in float32.

    Raises
    ------
    TypeError
        The array is complex.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.round(cm.i0([0.0, 1.0]), 9).tolist()
    [1.0, 1.266065878]
    """
    x = require("i0", x, REAL_OR_BOOL)
    own = x.dtype if x.dtype in INEXACT else dtypes.default_float()
    y = abs(astype(x, dtypes.compute_dtype(own), copy=False))
    near, far = minimum(y, _BORDER), maximum(y, _BORDER)
    low = _series(near / 2.0 - 2.0, I0_NEAR)
    high = _series(32.0 / far - 2.0, I0_FAR) / sqrt(far)
    return astype(exp(y) * where(y <= _BORDER, low, high), own, copy=False)


def _series(x: ndarray, coefficients: tuple[float, ...]) -> ndarray:
    """A Chebyshev series of x / 2, the highest coefficient first."""
    before, now = x * 0.0, x * 0.0 + coefficients[0]
    last = before
    for c in coefficients[1:]:
        last, before, now = before, now, x * now - before + c
    return 0.5 * (now - last)
