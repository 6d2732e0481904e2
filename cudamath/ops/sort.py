"""Sorting: by value or by position, whole or in part. Kernels: kernels/sort/dispatch.py,
kernels/sort/onesweep.py.

Everything is stable and puts NaN last, as NumPy does; in descending order NaN comes first, because
descending is the reverse (equal elements keep their order in both). A stable radix sort is as fast
on integers and floats as an unstable one, so `kind` and `stable` change nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import coerce, members, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import COMPLEX, INTEGER
from ..core.shapes import as_integer, normalize_axis
from ..core.typing import ArrayLike
from .creation import zeros
from .elementwise import isnan
from .index import _along_grad, take_along_axis
from .reduce import argmax
from .reduction_op import of_a_vector
from .shape import astype, ravel
from .transfer import imag, real

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex", "topk"]


def _sort_grad(g: ndarray, _y: Any, x: ndarray, *, axis: int, descending: bool) -> tuple:
    order = _argsort(x, axis=axis, descending=descending)
    return (_along_grad(g, order, size=x.shape[axis], axis=axis),)


_sort = Op("sort", cpu="sort.sort", cuda="sort.dispatch.sort", vjp=_sort_grad)
_argsort = Op("argsort", cpu="sort.argsort", cuda="sort.dispatch.argsort")
_partition = Op("partition", cpu="sort.partition", cuda="sort.dispatch.partition")
_argpartition = Op("argpartition", cpu="sort.argpartition", cuda="sort.dispatch.argpartition")
_leading = Op("leading", cpu="sort.leading", cuda="sort.radix_select.leading")
_topk = Op("topk", cpu="sort.topk", cuda="sort.dispatch.topk", outputs=2)
_SHORT, _FEW = (
    4096,
    8192,
)  # lines up to that, and elements of all of them, of which topk is one launch for any k
# otherwise it selects up to that many elements, at most half of each line, of lines not shorter
_SELECTED, _SELECTED_FROM = 256, 32
# On a GPU topk of so long lines (with counts of 31 bits), so few of them, so many elements, and of
# at most so much of each, selects and then sorts what it found; otherwise it sorts everything.
_LONG, _LONGEST, _MOST_LINES, _MANY, _PART = 1 << 16, 1 << 31, 1 << 10, 1 << 20, 8


def _line(name: str, x: Any, axis: int | None) -> tuple[ndarray, int]:
    """The array to sort and the axis, from the front; None: raveled. 0-d arrays have nothing to
    sort along."""
    x = require(name, x)
    if axis is None:
        return ravel(x), 0
    return x, normalize_axis(name, axis, x.ndim)


def _places(name: str, x: Any, axis: int | None) -> tuple[ndarray, int]:
    """`_line` of a function that returns positions: NumPy takes a number as a vector there."""
    x = require(name, x)
    return _line(name, ravel(x) if not x.ndim else x, axis)


def _checked_kind(name: str, kind: Any, order: Any) -> None:
    _without_fields(name, order)
    if kind is not None and not isinstance(kind, str):
        raise TypeError(f"{name}: kind must be a text or None, got {type(kind).__name__}")
    if kind is not None and kind[:1].lower() not in ("q", "h", "m", "s"):  # NumPy reads no further
        raise ValueError(
            f"{name}: kind must be None, 'quicksort', 'heapsort', 'mergesort' or 'stable', got "
            f"{kind!r}"
        )


@fast_path("x", rare=("order",))
def sort(
    x: ArrayLike,
    /,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
) -> ndarray:
    """The elements in ascending order along an axis.

    Parameters
    ----------
    x : array_like
        Array of any dtype, of at least 1 dimension unless `axis` is None. Complex numbers are
        ordered by real part, then by imaginary part.
    axis : int or None, default -1
        Axis along which the elements are sorted. None flattens `x` first.
    kind : str, optional
        Accepted for compatibility with NumPy. The sort is always stable.
    order : None, optional
        Names of fields in NumPy. Arrays have no fields.
    descending : bool, default False
        Whether the largest element comes first. Equal elements still keep their order, and NaN
        comes first.
    stable : bool or None, default True
        Accepted for compatibility with NumPy. The sort is always stable.

    Returns
    -------
    ndarray
        New array of x's dtype. NaNs come last.

    Raises
    ------
    ValueError
        The axis is out of range, or the kind is unknown.

    Notes
    -----
    The gradient of each element goes to the position it came from.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sort([3.0, 1.0, 2.0]).tolist()
    [1.0, 2.0, 3.0]
    >>> cm.sort([[3, 1], [2, 5]], axis=0, descending=True).tolist()
    [[3, 5], [2, 1]]
    """
    x, axis = _line("sort", x, axis)
    _checked_kind("sort", kind, order)
    if x.dtype in COMPLEX:
        return take_along_axis(x, argsort(x, axis, descending=descending), axis)
    return _sort(x, axis=axis, descending=bool(descending))


@fast_path("x", rare=("order",))
def argsort(
    x: ArrayLike,
    /,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
) -> ndarray:
    """Return the positions along an axis that would sort an array.

    Take_along_axis(x, argsort(x), axis) is sort(x).

    Parameters
    ----------
    x : array_like
        Array of any dtype, of at least 1 dimension unless `axis` is None. Complex numbers are
        ordered by real part, then by imaginary part.
    axis : int or None, default -1
        Axis along which the elements are sorted. None flattens `x` first.
    kind : str, optional
        Accepted for compatibility with NumPy. The sort is always stable.
    order : None, optional
        Names of fields in NumPy. Arrays have no fields.
    descending : bool, default False
        Whether the largest element comes first. Equal elements still keep their order, and NaN
        comes first.
    stable : bool or None, default True
        Accepted for compatibility with NumPy. The sort is always stable.

    Returns
    -------
    ndarray
        Array of int64 of x's shape (of one dimension if `axis` is None). Among equal elements the
        first one comes first.

    Raises
    ------
    ValueError
        The axis is out of range, or the kind is unknown.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.argsort([30, 10, 20]).tolist()
    [1, 2, 0]
    >>> cm.argsort([1, 0, 1], descending=True).tolist()
    [0, 2, 1]
    """
    x, axis = _places("argsort", x, axis)
    _checked_kind("argsort", kind, order)
    if x.dtype not in COMPLEX:
        return _argsort(x, axis=axis, descending=bool(descending))
    return _by_keys([x], axis, bool(descending))


@fast_path("x")
def sort_complex(x: ArrayLike, /) -> ndarray:
    """Sort the elements as complex numbers in ascending order along the last axis.

    They are ordered by real part, then by imaginary part.

    Parameters
    ----------
    x : array_like
        Numeric array of at least 1 dimension.

    Returns
    -------
    ndarray
        Complex array: complex64 for integers of up to 16 bits, otherwise complex128.

    Raises
    ------
    ValueError
        The array has no dimensions.

    Notes
    -----
    The gradient is that of `sort`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sort_complex([3, 1]).tolist()
    [(1+0j), (3+0j)]
    """
    x = require("sort_complex", x)
    x = sort(x, normalize_axis("sort_complex", -1, x.ndim))
    small = x.dtype in INTEGER and x.dtype.itemsize <= 2
    return x if x.dtype in COMPLEX else astype(x, np.complex64 if small else np.complex128)


def _real_keys(x: ndarray) -> list[ndarray]:
    """Real keys, the first of which counts last, that order as `x` does."""
    if x.dtype not in COMPLEX:
        return [x]
    re, im = real(x), imag(x)
    # first of all, NumPy orders by what is NaN
    return [im, re, astype(isnan(re), np.uint8) * 2 + astype(isnan(im), np.uint8)]


def _by_keys(keys: Sequence[ndarray], axis: int, descending: bool = False) -> ndarray:
    """Positions that sort by the last key, then by the one before, ...: stable sorts, the last key
    last."""
    order: ndarray | None = None
    for key in itertools.chain.from_iterable(map(_real_keys, keys)):
        if order is None:
            order = _argsort(key, axis=axis, descending=descending)
        else:
            again = _argsort(take_along_axis(key, order, axis), axis=axis, descending=descending)
            order = take_along_axis(order, again, axis)
    assert order is not None
    return order


@fast_path("*keys")
def lexsort(keys: ArrayLike, axis: int = -1) -> ndarray:
    """Return the positions that sort by several keys.

    The last key counts first. Equal elements are ordered by the key before, and so on.

    Parameters
    ----------
    keys : array_like
        Sequence of arrays of one shape, or an array whose first axis numbers the
        keys.
    axis : int, default -1
        Axis of the keys along which they are sorted.

    Returns
    -------
    ndarray
        In int64 array of a key's shape.

    Raises
    ------
    ValueError
        There are no keys, the shapes differ, or the axis is out of range.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> surname, first = [1, 0, 1], [3, 9, 2]
    >>> cm.lexsort((first, surname)).tolist()
    [1, 2, 0]
    """
    given = members("lexsort", keys, "keys")
    if not given:
        raise ValueError("lexsort: wants at least one key, got none")
    arrays = coerce("lexsort", given)
    if any(a.shape != arrays[0].shape for a in arrays):
        raise ValueError(
            f"lexsort: keys must have one shape, got {' '.join(str(a.shape) for a in arrays)}"
        )
    if not arrays[0].ndim and of_a_vector(axis):
        return zeros((), np.int64, device=arrays[0].device)
    return _by_keys(arrays, normalize_axis("lexsort", axis, arrays[0].ndim))


# -------------------- in part


def _without_fields(name: str, order: Any) -> None:
    if order is not None:
        raise ValueError(f"{name}: order names fields, and arrays have none, got {order!r:.60}")


def _checked_selection(name: str, kind: Any, order: Any) -> None:
    _without_fields(name, order)
    if kind != "introselect":
        raise ValueError(f"{name}: kind must be 'introselect', got {kind!r}")


def _ranks(name: str, kth: Any, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    n = shape[axis]
    ranks = []
    if isinstance(kth, ndarray | np.ndarray):
        if kth.ndim > 1 or kth.dtype.kind == "b":
            raise ValueError(f"{name}: wants integers as kth, got {kth.dtype} of shape {kth.shape}")
        kth = kth.tolist()
    for k in kth if isinstance(kth, (tuple, list, range)) else (kth,):
        k = as_integer(name, "kth", k)
        if not -n <= k < n and 0 not in shape:  # of no elements NumPy takes any
            raise ValueError(f"{name}: kth {k} is out of bounds for axis {axis} of shape {shape}")
        ranks.append(k % n if n else 0)
    return tuple(ranks) or (0,)[:n]  # one that nobody asked for does no harm


@fast_path("x", rare=("order",))
def partition(
    x: ArrayLike,
    /,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: str = "introselect",
    order: None = None,
) -> ndarray:
    """Rearrange the elements so that those of some ranks stand where sorting would put them.

    Smaller elements come before them.

    Parameters
    ----------
    x : array_like
        Real, bool or complex array.
    kth : int or sequence of int
        Rank or ranks. Negative ones count from the end.
    axis : int or None, default -1
        Axis of the operation. None flattens `x` first.
    kind : str, default "introselect"
        Accepted for compatibility with NumPy ("introselect"). It has no effect.
    order : None, optional
        Names of fields in NumPy. Arrays have no fields.

    Returns
    -------
    ndarray
        New array of x's dtype. The order of the other elements is not specified, but it is the same
        on every run.

    Raises
    ------
    ValueError
        `kth` or the axis is out of range.
    TypeError
        `kth` is not an integer.

    Notes
    -----
    The gradient of each element goes to the position it came from.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.partition([7, 1, 5, 3, 9], 2)
    >>> int(x[2]), int(x[:2].max()) <= 5 <= int(x[3:].min())
    (5, True)
    """
    _checked_selection("partition", kind, order)
    x, axis = _line("partition", x, axis)
    ranks = _ranks("partition", kth, x.shape, axis)
    if not x.size:
        return sort(x, axis)
    if x._node is not None or x.dtype in COMPLEX:
        return take_along_axis(x, argpartition(x, kth, axis), axis)
    return _partition(x, axis=axis, kth=ranks)


@fast_path("x", rare=("order",))
def argpartition(
    x: ArrayLike,
    /,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: str = "introselect",
    order: None = None,
) -> ndarray:
    """The positions along an axis that would partition it (see `partition`).

    Parameters
    ----------
    x : array_like
        Real, bool or complex array.
    kth : int or sequence of int
        Rank or ranks. Negative ones count from the end.
    axis : int or None, default -1
        Axis of the operation. None flattens `x` first.
    kind : str, default "introselect"
        Accepted for compatibility with NumPy ("introselect"). It has no effect.
    order : None, optional
        Names of fields in NumPy. Arrays have no fields.

    Returns
    -------
    ndarray
        In int64 array.

    Raises
    ------
    ValueError
        `kth` or the axis is out of range.
    TypeError
        `kth` is not an integer.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.argpartition([7, 1, 5, 3, 9], 0)[0])
    1
    """
    _checked_selection("argpartition", kind, order)
    x, axis = _places("argpartition", x, axis)
    ranks = _ranks("argpartition", kth, x.shape, axis)
    if x.dtype in COMPLEX or not x.size:
        return argsort(x, axis)
    return _argpartition(x, axis=axis, kth=ranks)


@fast_path("x")
def topk(
    x: ArrayLike, /, k: int, axis: int = -1, *, largest: bool = True
) -> tuple[ndarray, ndarray]:
    """The k largest (or smallest) elements along an axis, in order, and their positions.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    k : int
        Number of elements, from 0 to the length of the axis.
    axis : int, default -1
        Axis of the operation.
    largest : bool, default True
        True: the largest elements in descending order (NaN counts as the largest). False: the
        smallest elements in ascending order.

    Returns
    -------
    tuple of ndarray
        The values in x's dtype and their positions in int64, of length k along the axis. Among
        equal elements the first one comes first.

    Raises
    ------
    ValueError
        `k` or the axis is out of range.

    Notes
    -----
    The gradient of the values goes to the positions they came from.

    Examples
    --------
    >>> import cudamath as cm
    >>> values, positions = cm.topk([3, 9, 1, 7], 2)
    >>> values.tolist(), positions.tolist()
    ([9, 7], [1, 3])
    """
    x = require("topk", x)
    axis = normalize_axis("topk", axis, x.ndim)
    k = as_integer("topk", "k", k)
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"topk: k = {k} is out of bounds for axis {axis} of shape {x.shape}")
    n = x.shape[axis]
    ranked = n <= _SHORT and x.size <= _FEW
    selected = 0 < k <= min(_SELECTED, n // 2) and n >= _SELECTED_FROM
    if k == 1 and largest and x.size > _FEW and x.dtype not in COMPLEX:
        order = argmax(x, axis, keepdims=True)
    elif (ranked or selected) and x.dtype not in COMPLEX:
        values, order = _topk(x, axis=axis, count=k, descending=bool(largest))
        if x._node is None:
            return values, order
    else:
        order = _order_of_many(x, axis, k, bool(largest))
    return take_along_axis(x, order, axis), order


def _order_of_many(x: ndarray, axis: int, k: int, largest: bool) -> ndarray:
    """The positions of the first k elements that a sort would give."""
    n = x.shape[axis]
    if (
        x._layout.device >= 0
        and x.dtype not in COMPLEX
        and 0 < k <= n // _PART
        and _LONG <= n < _LONGEST
        and x.size // n <= _MOST_LINES
        and x.size >= _MANY
    ):
        order = _leading(x, axis=axis, count=k, descending=largest)
        found = take_along_axis(x, order, axis)
        return take_along_axis(order, _argsort(found, axis=axis, descending=largest), axis)
    return argsort(x, axis, descending=largest)[(*[slice(None)] * axis, slice(k))].copy()
