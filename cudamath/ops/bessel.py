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
from ..core.typing import ArrayLike
from .elementwise import abs, exp, maximum, minimum, sqrt
from .shape import astype
from .where import where

__all__ = ["i0"]

_BORDER = 8.0  # between the two series
_NEAR = (
    -4.4153416464793395e-18,
    3.3307945188222384e-17,
    -2.431279846547955e-16,
    1.715391285555133e-15,
    -1.1685332877993451e-14,
    7.676185498604936e-14,
    -4.856446783111929e-13,
    2.95505266312964e-12,
    -1.726826291441556e-11,
    9.675809035373237e-11,
    -5.189795601635263e-10,
    2.6598237246823866e-09,
    -1.300025009986248e-08,
    6.046995022541919e-08,
    -2.670793853940612e-07,
    1.1173875391201037e-06,
    -4.4167383584587505e-06,
    1.6448448070728896e-05,
    -5.754195010082104e-05,
    0.00018850288509584165,
    -0.0005763755745385824,
    0.0016394756169413357,
    -0.004324309995050576,
    0.010546460394594998,
    -0.02373741480589947,
    0.04930528423967071,
    -0.09490109704804764,
    0.17162090152220877,
    -0.3046826723431984,
    0.6767952744094761,
)
_FAR = (
    -7.233180487874754e-18,
    -4.830504485944182e-18,
    4.46562142029676e-17,
    3.461222867697461e-17,
    -2.8276239805165836e-16,
    -3.425485619677219e-16,
    1.7725601330565263e-15,
    3.8116806693526224e-15,
    -9.554846698828307e-15,
    -4.150569347287222e-14,
    1.54008621752141e-14,
    3.8527783827421426e-13,
    7.180124451383666e-13,
    -1.7941785315068062e-12,
    -1.3215811840447713e-11,
    -3.1499165279632416e-11,
    1.1889147107846439e-11,
    4.94060238822497e-10,
    3.3962320257083865e-09,
    2.266668990498178e-08,
    2.0489185894690638e-07,
    2.8913705208347567e-06,
    6.889758346916825e-05,
    0.0033691164782556943,
    0.8044904110141088,
)


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
    low = _series(near / 2.0 - 2.0, _NEAR)
    high = _series(32.0 / far - 2.0, _FAR) / sqrt(far)
    return astype(exp(y) * where(y <= _BORDER, low, high), own, copy=False)


def _series(x: ndarray, coefficients: tuple[float, ...]) -> ndarray:
    """A Chebyshev series of x / 2, the highest coefficient first."""
    before, now = x * 0.0, x * 0.0 + coefficients[0]
    last = before
    for c in coefficients[1:]:
        last, before, now = before, now, x * now - before + c
    return 0.5 * (now - last)
