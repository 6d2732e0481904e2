"""Reductions that leave NaN out, and what else treats NaN and infinities apart: compositions of a mask and a reduction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.op import COMPLEX, FLOATING, INEXACT, REAL_OR_BOOL, coerce, require
from . import reduce, ufunc
from .elementwise import isfinite, isnan, logical_not  # noqa: F401  isfinite in a gradient expression
from .index import where as choose
from .output import deliver
from .reduce import Axis
from .shape import broadcast_to
from .transfer import imag, real

__all__ = ["isneginf", "isposinf", "nan_to_num", "nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
           "nansum", "nanvar"]


def _without(x: ndarray, value: float) -> ndarray:
    """x with NaN replaced."""
    return choose(isnan(x), value, x) if x.dtype in INEXACT else x


def _given(out: Any, initial: Any, where: Any) -> dict[str, Any]:
    """The options that were given: a reduction without any takes its shortest way."""
    found = {"out": out, "initial": initial} if initial is not None else {"out": out} if out is not None else {}
    return found if where is True else {**found, "where": where}


def nansum(x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, out: Any = None, initial: Any = None,
           where: Any = True) -> ndarray:
    """Sum over axes of the elements that are not NaN; 0 if there are none.

    Args, returns, raises: as for ``sum`` (out, initial and where included). Gradient: g where there is no NaN.

    >>> import cudamath as cm
    >>> float(cm.nansum([1.0, cm.nan, 2.0]))
    3.0
    """
    return reduce.sum(_without(require("nansum", x), 0), axis, dtype=dtype, keepdims=keepdims, **_given(out, initial, where))


def nanprod(x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, out: Any = None, initial: Any = None,
            where: Any = True) -> ndarray:
    """Product over axes of the elements that are not NaN; 1 if there are none.

    Args, returns, raises: as for ``prod``. Gradient: as of ``prod`` where there is no NaN.

    >>> import cudamath as cm
    >>> float(cm.nanprod([2.0, cm.nan, 3.0]))
    6.0
    """
    return reduce.prod(_without(require("nanprod", x), 1), axis, dtype=dtype, keepdims=keepdims, **_given(out, initial, where))


def _present(x: ndarray, where: Any) -> Any:
    """Where there is a number that is not left out either."""
    if x.dtype not in INEXACT:
        return where
    mask = logical_not(isnan(x))
    return mask if where is True else mask & coerce("where", (x, where))[1]


def nanmean(x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, out: Any = None,
            where: Any = True) -> ndarray:
    """Mean over axes of the elements that are not NaN; NaN if there are none.

    Args, returns, raises: as for ``mean``. Gradient: by its parts.

    >>> import cudamath as cm
    >>> float(cm.nanmean([1.0, cm.nan, 3.0]))
    2.0
    """
    x = require("nanmean", x)
    return reduce.mean(_without(x, 0), axis, dtype=dtype, keepdims=keepdims, **_given(out, None, _present(x, where)))


def nanvar(x: Any, /, axis: Axis = None, *, dtype: Any = None, correction: float | None = None, ddof: float | None = None,
           keepdims: bool = False, out: Any = None, where: Any = True) -> ndarray:
    """Variance over axes of the elements that are not NaN; NaN if there are none, or too few for the correction.

    Args, returns, raises: as for ``var``. Gradient: by its parts.

    >>> import cudamath as cm
    >>> float(cm.nanvar([1.0, cm.nan, 3.0]))
    1.0
    """
    x = require("nanvar", x)
    if x.dtype not in INEXACT:
        return reduce.var(x, axis, dtype=dtype, correction=correction, ddof=ddof, keepdims=keepdims, **_given(out, None, where))
    mask = broadcast_to(_present(x, where), x.shape)
    chosen = correction if ddof is None else ddof
    y = reduce.var(_without(x, 0), axis, dtype=dtype, correction=correction, ddof=ddof, keepdims=keepdims, where=mask)
    count = reduce.sum(mask, axis, keepdims=keepdims)
    y = choose(count > (0 if chosen is None else chosen), y, np.nan)
    return y if out is None else deliver("nanvar", y, out)


def nanstd(x: Any, /, axis: Axis = None, *, dtype: Any = None, correction: float | None = None, ddof: float | None = None,
           keepdims: bool = False, out: Any = None, where: Any = True) -> ndarray:
    """Standard deviation over axes of the elements that are not NaN: the root of ``nanvar``.

    Args, returns, raises: as for ``std``. Gradient: by its parts.

    >>> import cudamath as cm
    >>> float(cm.nanstd([1.0, cm.nan, 3.0]))
    1.0
    """
    y = nanvar(x, axis, dtype=dtype, correction=correction, ddof=ddof, keepdims=keepdims, where=where) ** 0.5
    return y if out is None else deliver("nanstd", y, out)


def _nan_extreme(name: str, x: Any, axis: Axis, keepdims: bool, out: Any, sign: float, more: dict) -> ndarray:
    x = require(name, x, REAL_OR_BOOL)
    extreme = reduce.max if sign > 0 else reduce.min
    if x.dtype not in INEXACT:
        return extreme(x, axis, keepdims=keepdims, out=out, **more)
    y = extreme(_without(x, -sign * np.inf), axis, keepdims=keepdims, **more)
    if not more:  # nothing but NaN: NaN
        y = choose(reduce.all(isnan(x), axis, keepdims=keepdims), np.nan, y)
    return y if out is None else deliver(name, y, out)


def nanmax(x: Any, /, axis: Axis = None, *, keepdims: bool = False, out: Any = None, **more: Any) -> ndarray:
    """Largest element over axes but NaN; NaN if there is nothing else.

    Args, returns, raises: as for ``max`` (initial, where). Gradient: as of ``max``.

    >>> import cudamath as cm
    >>> float(cm.nanmax([1.0, cm.nan, 3.0]))
    3.0
    """
    return _nan_extreme("nanmax", x, axis, keepdims, out, 1, more)


def nanmin(x: Any, /, axis: Axis = None, *, keepdims: bool = False, out: Any = None, **more: Any) -> ndarray:
    """Smallest element over axes but NaN; NaN if there is nothing else.

    Args, returns, raises: as for ``min`` (initial, where). Gradient: as of ``min``.

    >>> import cudamath as cm
    >>> float(cm.nanmin([1.0, cm.nan, 3.0]))
    1.0
    """
    return _nan_extreme("nanmin", x, axis, keepdims, out, -1, more)


def _nan_position(name: str, x: Any, axis: int | None, keepdims: bool, sign: float) -> ndarray:
    x = require(name, x, REAL_OR_BOOL)
    best_of = reduce.argmax if sign > 0 else reduce.argmin
    if x.dtype not in INEXACT:
        return best_of(x, axis, keepdims=keepdims)
    lost = isnan(x)
    position = best_of(choose(lost, -sign * np.inf, x), axis, keepdims=keepdims)
    if bool(reduce.any(reduce.all(lost, axis))):
        raise ValueError(f"{name}: all elements of a line along axis {axis} of an array of shape {x.shape} are NaN")
    # among infinities of the wrong sign the first that is no NaN counts: choose again where the choice fell on a NaN
    first = reduce.argmin(lost, axis, keepdims=keepdims)
    best = reduce.max(choose(lost, -np.inf, x * sign), axis, keepdims=keepdims)
    return choose(best == -np.inf, first, position)


def nanargmax(x: Any, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """Index of the first largest element that is not NaN, along an axis or in the flattened array.

    Args, returns: as for ``argmax``. Raises: also ValueError if a line holds nothing but NaN (waits for the device).
    Gradient: none (the result is a constant).

    >>> import cudamath as cm
    >>> int(cm.nanargmax([1.0, cm.nan, 3.0]))
    2
    """
    y = _nan_position("nanargmax", x, axis, keepdims, 1)
    return y if out is None else deliver("nanargmax", y, out)


def nanargmin(x: Any, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """Index of the first smallest element that is not NaN, along an axis or in the flattened array.

    Args, returns, raises: as for ``nanargmax``. Gradient: none (the result is a constant).

    >>> import cudamath as cm
    >>> int(cm.nanargmin([cm.nan, 4.0, 3.0]))
    2
    """
    y = _nan_position("nanargmin", x, axis, keepdims, -1)
    return y if out is None else deliver("nanargmin", y, out)


def nan_to_num(x: Any, /, copy: bool = True, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None) -> ndarray:
    """NaN and infinities replaced by numbers; of complex numbers in each part.

    Args: x: numeric or bool array; copy: False writes the result into ``x`` and returns that; nan: instead of NaN; posinf,
    neginf: instead of infinities, by default the dtype's largest and smallest numbers. Gradient: g where nothing was
    replaced.

    >>> import cudamath as cm
    >>> cm.nan_to_num([cm.nan, -cm.inf, 1.0], neginf=-9.0).tolist()
    [0.0, -9.0, 1.0]
    """
    x = require("nan_to_num", x)
    if x.dtype in COMPLEX:
        parts = [nan_to_num(part(x), True, nan, posinf, neginf) for part in (real, imag)]
        y = parts[0] + parts[1] * 1j
    elif x.dtype in INEXACT:
        from .inspection import finfo

        limits = finfo(x.dtype)
        y = x if posinf is None else choose(isposinf(x), posinf, x)
        y = y if neginf is None else choose(isneginf(x), neginf, y)
        y = _without_nan.call((y, nan, float(limits.max)))
    else:
        y = x.copy()
    return y if copy else deliver("nan_to_num", y, x)


_without_nan = ufunc.Elementwise("nan_to_num", np.maximum, "y if x != x else (z if x > z else (-z if x < -z else x))", (
    "choose(isfinite(x), g, 0)", "choose(isnan(x), g, 0)", "g * 0"), FLOATING, "elementwise.without_nan", globals())
isposinf = ufunc.unary("isposinf", np.isinf, {"": "False", "f": "isinf(x) and x > 0"}, category=REAL_OR_BOOL,
                       cpu="elementwise.isposinf", doc="Whether elements are positive infinity.", namespace=globals())
isneginf = ufunc.unary("isneginf", np.isinf, {"": "False", "f": "isinf(x) and x < 0"}, category=REAL_OR_BOOL,
                       cpu="elementwise.isneginf", doc="Whether elements are negative infinity.", namespace=globals())
