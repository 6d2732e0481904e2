"""Whether arrays are equal, or nearly so."""

from __future__ import annotations

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import coerce, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import ANY, REAL_OR_BOOL
from ..core.scalar import scalar_results
from ..core.shapes import broadcast_shapes
from ..core.typing import ArrayLike
from .elementwise import PRECISE, abs, equal, isfinite, isnan
from .reduce import all
from .ufunc import Elementwise

__all__ = ["allclose", "array_equal", "isclose"]


@fast_path("a?", "b?")
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> ndarray:
    """Return whether elements are close: |a - b| <= atol + rtol |b|.

    Equal infinities are close, and NaN only with `equal_nan`.

    Parameters
    ----------
    a, b : array_like
        Arrays of any dtype, whose shapes broadcast.
    rtol : float, default 1e-5
        Relative and absolute tolerance.
    atol : float, default 1e-8
        Relative and absolute tolerance.
    equal_nan : bool, default False
        Whether NaN equals NaN.

    Returns
    -------
    ndarray
        Bool array of the broadcast shape.

    Raises
    ------
    ValueError
        The shapes do not fit each other.
    TypeError
        An operand is not numeric.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.isclose([1.0, 2.0], [1.0 + 1e-9, 3.0]).tolist()
    [True, False]
    """  # noqa: E501
    x, y = coerce("isclose", (a, b), ANY)
    if (
        x.dtype == y.dtype
        and x.dtype in PRECISE
        and type(rtol) in (int, float)
        and type(atol) in (int, float)
    ):
        result = _within(x, y, _tolerance(y, float(rtol), float(atol)))
    else:
        broadcast_shapes("isclose", x.shape, y.shape)
        rtol, atol = [
            t
            if isinstance(t, (int, float, np.number))
            else require("isclose", coerce("isclose", (x, t))[1], REAL_OR_BOOL, "tolerances")
            for t in (rtol, atol)
        ]
        near = abs(x * 1.0 - y) <= atol + rtol * abs(y * 1.0)
        result = equal(x, y) | near & isfinite(x) & isfinite(y)
    return result | isnan(x) & isnan(y) if equal_nan else result


_tolerance = Elementwise(
    "isclose_tolerance",
    np.multiply,
    "abs(x) * y + z",
    None,
    PRECISE,
    "elementwise.tolerance",
    {},
    3,
)
_within = Elementwise(
    "isclose",
    np.logical_and,
    "x == y or (abs(x - y) <= z and isfinite(x) and isfinite(y))",
    None,
    PRECISE,
    "elementwise.within",
    {},
    3,
)


@scalar_results
@speaks_for("allclose")
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see `isclose`).

    Waits for the device.

    Parameters
    ----------
    a, b : array_like
        Arrays of any dtype, whose shapes broadcast.
    rtol : float, default 1e-5
        Relative and absolute tolerance.
    atol : float, default 1e-8
        Relative and absolute tolerance.
    equal_nan : bool, default False
        Whether NaN equals NaN.

    Returns
    -------
    bool
        True if the condition holds.

    Raises
    ------
    ValueError
        The shapes do not fit each other.
    TypeError
        An operand is not numeric.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9])
    True
    """
    return bool(all(isclose(a, b, rtol, atol, equal_nan=equal_nan)))


@scalar_results
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> bool:
    """Whether two arrays have the same shape and elements (NaN equals NaN only with `equal_nan`).

    Waits for the device.

    Parameters
    ----------
    a1, a2 : array_like
        Arrays of any shape and dtype.
    equal_nan : bool, default False
        Whether NaN equals NaN.

    Returns
    -------
    bool
        Whether the arrays are equal. Arrays of different shapes are not.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.array_equal([1, 2], [1, 2]), cm.array_equal([1, 2], [[1, 2]])
    (True, False)
    """
    x, y = coerce("array_equal", (a1, a2), ANY)
    if x.shape != y.shape:
        return False
    same = equal(x, y)
    return bool(all(same | isnan(x) & isnan(y) if equal_nan else same))
