"""What occurs at a position several times counts several times: ``np.add.at`` and its like, in
place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import advanced_indexing
from ..core.array import ndarray
from ..core.autograd.mutation import wrote
from ..core.dispatch.checks import MISTAKES, as_of
from ..core.dispatch.op import Category, Op
from ..core.dtypes import ANY, INTEGER_OR_BOOL, NUMERIC
from ..core.typing import ArrayLike, Index
from ..core.view_cache import lookup_view
from . import elementwise
from .index import (
    _apart,
    _assign,
    _check_writable,
    _fitted,
    _given,
    _index_arrays,
    _neighbours,
    _one_array,
    _value,
)
from .out_argument import in_place
from .shape import unrecorded_view
from .where import _SCALARS

__all__ = ["add_at", "maximum_at", "minimum_at", "multiply_at"]

_scatter_add = Op("add_at", cpu="index.scatter_add", cuda="index.dispatch.scatter_add", writes=True)


def _fold_at(
    name: str, kind: str, function: Callable, category: Category, x: Any, key: Any, values: Any
) -> None:
    """``x[key] = function(x[key], values)`` in place, once for each time that a position occurs."""
    x = in_place(name, x, category)
    _check_writable(name, x)
    fold_into(name, kind, function, x, key, checked_values(name, kind, x, values))


def checked_values(name: str, kind: str, x: ndarray, values: Any) -> Any:
    """Values that an array of x's dtype can be combined with; TypeError where that would lose
    something."""
    given = np.asarray(values).dtype if not isinstance(values, ndarray) else values.dtype
    if loses_fractions(x, given, values):
        raise TypeError(
            f"{name}: values of {given} would lose their fractions in an array of {x.dtype} of "
            f"shape {x.shape}"
        )
    if loses_counts(x, given, values):
        raise TypeError(
            f"{name}: values of {given} would all be True but 0 in an array of bool of shape "
            f"{x.shape}"
        )
    if (
        kind in ("max", "min")
        and type(values) not in _SCALARS
        and x.dtype.kind in "iu"
        and given != x.dtype
    ):
        return _held(name, x, values)
    return values


def loses_fractions(x: ndarray, given: np.dtype, values: Any) -> bool:
    """Whether values of a dtype would lose their fractions in an array of integers."""
    whole = type(values) is float and values.is_integer()
    return x.dtype.kind in "iu" and given not in INTEGER_OR_BOOL and not whole


def loses_counts(x: ndarray, given: np.dtype, values: Any) -> bool:
    """Whether values of a dtype would all be True but 0 in an array of bool."""
    kept = type(values) in (int, float) and values in (0, 1)
    return x.dtype.kind == "b" and given.kind != "b" and not kept


def fold_into(name: str, kind: str, function: Callable, x: ndarray, key: Any, values: Any) -> None:
    """`_fold_at` of an array that may be written, and of values that have been checked."""
    if isinstance(key, ndarray) and _one_array(x, key):
        return _fold(name, kind, x, x, 0, [key], values)
    try:
        found = lookup_view(x._layout, key)
        form: Any = advanced_indexing.advanced(x.shape, x.strides, key) if found is None else None
    except MISTAKES as error:
        raise as_of(name, error) from None
    if found is not None:
        target = unrecorded_view(x, *found)
        _assign(target, function(target, _fitted(name, _value(name, x, values), target.shape)))
        return
    seen = x._layout.view(form.shape, form.strides, form.offset)
    base = unrecorded_view(x, seen, form.offset)
    base, axes, arrays = _index_arrays(base, form)
    base, axis = _neighbours(base, axes, form.position)
    _fold(name, kind, x, base, axis, arrays, values)


def _fold(
    name: str, kind: str, x: ndarray, base: ndarray, axis: int, arrays: list[ndarray], values: Any
) -> None:
    """`_fold_at` of a view of x by index arrays along neighbouring axes."""
    if x._layout.device >= 0:  # what is written must not be read as a position
        arrays = [_apart(x, a) for a in arrays]
    shape = (*base.shape[:axis], *arrays[0].shape, *base.shape[axis + len(arrays) :])
    fitted = _apart(x, _fitted(name, _value(name, x, values), shape))
    wrote(base)
    _scatter_add(base, fitted, *arrays, axis=axis, kind=kind)


def _held(name: str, x: ndarray, values: Any) -> ndarray:
    """Whole numbers of another dtype, those beyond x's own as the last of these: of uint8, -1 is no
    maximum."""
    given = _given(name, x, values)
    if given.dtype.kind not in "iu":
        return given
    own, other = np.iinfo(x.dtype), np.iinfo(given.dtype)
    return elementwise.clip(given, max(own.min, other.min), min(own.max, other.max))


def add_at(x: ndarray, key: Index, values: ArrayLike, /) -> None:
    """Add to elements in place, once for each time that a position occurs.

    ``x[key] += values``, except that positions which occur several times are added to several times
    (np.add.at).

    Parameters
    ----------
    x : ndarray
        Numeric array.
    key : index
        Index of the elements: everything that ``x[key]`` accepts.
    values : array_like
        Values that are broadcast to the selection and cast to x's dtype.

    Raises
    ------
    IndexError
        A position is out of range.
    ValueError
        The values do not broadcast to the selection.
    TypeError
        The values are fractions and the array holds integers.

    Notes
    -----
    The operation works in place and has no gradient.

    Results are bitwise reproducible: equal positions are added in their order, without float
    atomics.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros(3)
    >>> cm.add_at(x, [0, 2, 0], cm.asarray([1.0, 2.0, 3.0]))
    >>> x
    array([4., 0., 2.], device='cpu')
    """
    _fold_at("add_at", "add", elementwise.add, NUMERIC, x, key, values)


def multiply_at(x: ndarray, key: Index, values: ArrayLike, /) -> None:
    """Multiply elements in place, once for each time that a position occurs.

    ``x[key] *= values``, except that positions which occur several times are multiplied several
    times (np.multiply.at).

    Parameters
    ----------
    x : ndarray
        Numeric array.
    key : index
        Index of the elements: everything that ``x[key]`` accepts.
    values : array_like
        Values that are broadcast to the selection and cast to x's dtype.

    Raises
    ------
    IndexError
        A position is out of range.
    ValueError
        The values do not broadcast to the selection.
    TypeError
        The values are fractions and the array holds integers.

    Notes
    -----
    The operation works in place and has no gradient.

    Bitwise reproducible.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.ones(3)
    >>> cm.multiply_at(x, [0, 2, 0], cm.asarray([2.0, 5.0, 3.0]))
    >>> x
    array([6., 1., 5.], device='cpu')
    """
    _fold_at("multiply_at", "multiply", elementwise.multiply, NUMERIC, x, key, values)


def maximum_at(x: ndarray, key: Index, values: ArrayLike, /) -> None:
    """Take the maximum of elements and values in place, for each time that a position occurs.

    ``x[key] = maximum(x[key], values)`` for every position (np.maximum.at). NaN takes precedence.
    Integers beyond the range of x's dtype count as its largest or smallest number.

    Parameters
    ----------
    x : ndarray
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    key : index
        Index of the elements: everything that ``x[key]`` accepts.
    values : array_like
        Values that are broadcast to the selection and cast to x's dtype.

    Raises
    ------
    IndexError
        A position is out of range.
    ValueError
        The values do not broadcast to the selection.
    TypeError
        The values are fractions and the array holds integers.

    Notes
    -----
    The operation works in place and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros(3)
    >>> cm.maximum_at(x, [0, 2, 0], cm.asarray([3.0, -1.0, 2.0]))
    >>> x
    array([3., 0., 0.], device='cpu')
    """
    _fold_at("maximum_at", "max", elementwise.maximum, ANY, x, key, values)


def minimum_at(x: ndarray, key: Index, values: ArrayLike, /) -> None:
    """Take the minimum of elements and values in place, for each time that a position occurs.

    ``x[key] = minimum(x[key], values)`` for every position (np.minimum.at). NaN takes precedence.
    Integers beyond the range of x's dtype count as its largest or smallest number.

    Parameters
    ----------
    x : ndarray
        Array of any dtype. Complex numbers are ordered by real part, then by imaginary part.
    key : index
        Index of the elements: everything that ``x[key]`` accepts.
    values : array_like
        Values that are broadcast to the selection and cast to x's dtype.

    Raises
    ------
    IndexError
        A position is out of range.
    ValueError
        The values do not broadcast to the selection.
    TypeError
        The values are fractions and the array holds integers.

    Notes
    -----
    The operation works in place and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros(3)
    >>> cm.minimum_at(x, [0, 2, 0], cm.asarray([3.0, -1.0, -2.0]))
    >>> x
    array([-2.,  0., -1.], device='cpu')
    """
    _fold_at("minimum_at", "min", elementwise.minimum, ANY, x, key, values)
