"""Arrays as sets: distinct elements, membership, intersection, union, difference.

All of it is a sort, a comparison of neighbours, and a selection. The number of distinct elements
must be known on the host: one synchronisation on a GPU. None has a gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.call_record import CHOSE, obstruct
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import COMPLEX, FLOATING, INEXACT, REAL_OR_BOOL
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike
from .creation import empty, full
from .elementwise import equal, isnan, logical_and, logical_not, minimum, not_equal
from .index import take
from .join import _joined, concat
from .masks import _FEW as WRITTEN_FIRST
from .masks import beginning, flatnonzero, written
from .ranges import arange
from .reduce import any as any_
from .scan import cumsum
from .search import searchsorted
from .shape import astype, moveaxis, ravel, reshape
from .sort import _sort, argsort, lexsort, sort

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: ndarray
    indices: ndarray
    inverse_indices: ndarray
    counts: ndarray


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: ndarray
    counts: ndarray


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: ndarray
    inverse_indices: ndarray


def _constant(x: ndarray) -> ndarray:
    """The same array without what was recorded of it: no function here has a gradient, whichever
    way it takes."""
    return x if x._node is None else x._alias()


def _begins(rows: ndarray, equal_nan: bool) -> ndarray:
    """Which of the sorted elements (or rows) are unlike the one before. rows: (n,) or (n, m)."""
    a, b = rows[1:], rows[:-1]
    new = not_equal(a, b)
    if equal_nan and rows.dtype in INEXACT:
        new = new & logical_not(isnan(a) & isnan(b))
    if rows.ndim == 2:
        new = any_(new, axis=1)
    return (
        concat([full((min(rows.shape[0], 1),), True, device=rows.device), new])
        if rows.shape[0]
        else new
    )


_distinct = Op(
    "distinct", cpu="stream_compaction.distinct", cuda="index.stream_compaction.distinct"
)
_runs = Op(
    "distinct_runs", cpu="stream_compaction.runs", cuda="index.stream_compaction.runs", outputs=3
)
_count_new = Op(
    "count_new", cpu="stream_compaction.count_new", cuda="index.stream_compaction.count_new"
)


@fast_path("x")
def _ascending(x: ndarray) -> ndarray:
    """The elements of an array of real numbers in ascending order, as a vector."""
    return _sort(ravel(x), axis=0, descending=False)


def _values(x: ndarray, equal_nan: bool) -> ndarray:
    """The distinct elements of an array of real numbers."""
    return _values_of(_ascending(x), equal_nan)


def _values_of(ordered: ndarray, equal_nan: bool) -> ndarray:
    """The distinct elements of a vector in ascending order."""
    if ordered._layout.device < 0:
        obstruct(CHOSE)
        return _distinct(ordered, capacity=0, equal_nan=equal_nan)
    found, count = written(
        _distinct, (ordered,), _count_new, ordered._layout.itemsize, told={"equal_nan": equal_nan}
    )
    return beginning(found, (count,))


def _with_counts(x: ndarray, equal_nan: bool) -> tuple[ndarray, ndarray]:
    """The distinct ones of few elements on a GPU, and how often each occurs: what the host waits
    for is made at once."""
    ordered = _ascending(x)
    values, counts, total = _runs(ordered, capacity=x._layout.size + 1 & -2, equal_nan=equal_nan)
    shape = (total.item(),)
    return beginning(values, shape), beginning(counts, shape)


#: Numbers up to which it is quicker to look for each than to bring back the order before sorting:
#: on a GPU, on the CPU.
_SEARCHED = 1 << 16, 1 << 10


def _few(x: ndarray, inverse: bool, counts: bool) -> tuple[ndarray, ...]:
    """The distinct ones of a few numbers, and what was requested, by searching: half as many
    launches as otherwise."""
    ordered = _ascending(x)
    values = _values_of(ordered, True)
    out = [values]
    if inverse:
        out.append(searchsorted(values, x))
    if counts:
        out.append(searchsorted(ordered, values, side="right") - searchsorted(ordered, values))
    return tuple(out)


class _Distinct:
    """The distinct elements of a vector, or rows of a matrix, and how to find them."""

    def __init__(self, rows: ndarray, equal_nan: bool, positions: bool):
        self.n = rows.shape[0]
        self.order: ndarray | None = None
        if rows.ndim == 2:
            columns = [rows[:, j] for j in range(rows.shape[1])][::-1]
            self.order = lexsort(columns) if columns else arange(self.n, device=rows.device)
        elif positions:
            self.order = argsort(rows)
        ordered = sort(rows) if self.order is None else take(rows, self.order, axis=0)
        self.begins = (
            _begins(ordered, equal_nan) if self.n else full((0,), True, device=rows.device)
        )
        self.places = flatnonzero(self.begins)
        self.values = take(ordered, self.places, axis=0)

    @property
    def indices(self) -> ndarray:
        """Where each distinct element occurs first."""
        assert self.order is not None
        return take(self.order, self.places)

    @property
    def inverse(self) -> ndarray:
        """Which distinct element each element is."""
        assert self.order is not None
        out = empty(self.n, "int64", device=self.values.device)
        if self.n:
            out[self.order] = cumsum(self.begins) - 1
        return out

    @property
    def counts(self) -> ndarray:
        """How often each occurs."""
        ends = concat(
            [self.places[1:], full((min(self.n, 1),), self.n, "int64", device=self.places.device)]
        )
        return ends - self.places


def unique(
    x: ArrayLike,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct elements of an array, in ascending order.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    return_index : bool, default False
        Whether the position of the first occurrence of each is returned as well.
    return_inverse : bool, default False
        Whether the index into the distinct elements is returned for each element as well:
        values[inverse] is x.
    return_counts : bool, default False
        Whether the number of occurrences is returned as well.
    axis : int, optional
        Axis along which slices are compared (real dtypes). None compares all elements.
    equal_nan : bool, default True
        Whether all NaNs are one element. Slices with a NaN are never equal.
    sorted : bool, default True
        Accepted for compatibility with NumPy. The result is always sorted.

    Returns
    -------
    ndarray or tuple of ndarray
        The distinct elements. If more is requested, a tuple of them and the requested int64 arrays,
        in the order of the arguments.

    Raises
    ------
    ValueError
        The axis is out of range.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.unique([3, 1, 3, 2]).tolist()
    [1, 2, 3]
    >>> values, counts = cm.unique([3, 1, 3, 2], return_counts=True)
    >>> counts.tolist()
    [1, 1, 2]
    """
    x = _constant(require("unique", x))
    if axis is not None and x.ndim == 1:  # whose rows are its elements
        normalize_axis("unique", axis, 1)
        axis = None
    if (
        axis is None
        and x.dtype not in COMPLEX
        and not (return_index or return_inverse or return_counts)
    ):
        return _values(x, bool(equal_nan))
    if (
        axis is None
        and return_counts
        and not (return_index or return_inverse)
        and x.dtype not in COMPLEX
        and (x._layout.device >= 0 and 0 < x.size <= WRITTEN_FIRST)
    ):
        return _with_counts(x, bool(equal_nan))
    sought = (
        x.dtype.kind in "iu" or x.dtype in FLOATING and equal_nan
    )  # found by searching: to that, NaN equals NaN
    if (
        axis is None
        and not return_index
        and sought
        and 0 < x.size <= _SEARCHED[x._layout.device == CPU]
    ):
        return _few(x, return_inverse, return_counts)
    if axis is None:
        rows = ravel(x)
        rest: tuple[int, ...] = ()
    else:
        axis = normalize_axis("unique", axis, x.ndim)
        turned = moveaxis(x, axis, 0)
        rest = turned.shape[1:]
        rows = reshape(turned, (x.shape[axis], -1 if x.size else 0))
    found = _Distinct(rows, equal_nan and axis is None, return_index or return_inverse)
    values = found.values
    if axis is not None:
        values = moveaxis(reshape(values, (values.shape[0], *rest)), 0, axis)
    out = [values]
    if return_index:
        out.append(found.indices)
    if return_inverse:
        out.append(reshape(found.inverse, x.shape) if axis is None else found.inverse)
    if return_counts:
        out.append(found.counts)
    return tuple(out) if len(out) > 1 else values


def unique_values(x: ArrayLike, /) -> ndarray:
    """The distinct elements of an array, in ascending order; every NaN is distinct.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        Array of one dimension.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    x = _constant(require("unique_values", x))
    return _values(x, False) if x.dtype not in COMPLEX else unique(x, equal_nan=False)


def unique_counts(x: ArrayLike, /) -> UniqueCountsResult:
    """The distinct elements of an array, and how often each occurs; every NaN is distinct.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    UniqueCountsResult
        Named tuple (values, counts).

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.unique_counts([3, 1, 3]).counts.tolist()
    [1, 2]
    """
    x = _constant(require("unique_counts", x))
    if (
        x._layout.device >= 0 and x.dtype in REAL_OR_BOOL and 0 < x._layout.size <= WRITTEN_FIRST
    ):  # as `unique` does
        return UniqueCountsResult(*_with_counts(x, False))
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: ArrayLike, /) -> UniqueInverseResult:
    """Return the distinct elements of an array, and the index of each element among them.

    Every NaN is distinct.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    UniqueInverseResult
        Named tuple (values, inverse_indices). `inverse_indices` has x's shape.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.unique_inverse([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueInverseResult(
        *unique(require("unique_inverse", x), return_inverse=True, equal_nan=False)
    )


def unique_all(x: ArrayLike, /) -> UniqueAllResult:
    """Return the distinct elements of an array, their positions, indices and counts.

    The result says where each one occurs first, which one each element is, and how often each one
    occurs.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    UniqueAllResult
        Named tuple (values, indices, inverse_indices, counts). `inverse_indices` has x's shape.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.unique_all([3, 1, 3]).indices.tolist()
    [1, 0]
    """
    return UniqueAllResult(*unique(require("unique_all", x), True, True, True, equal_nan=False))


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> ndarray:
    """Whether each element occurs in another array.

    Parameters
    ----------
    element : array_like
        Array of any shape and dtype.
    test_elements : array_like
        Array of any shape and dtype. NaN is equal to no element.
    assume_unique : bool, default False
        Accepted for compatibility with NumPy. They have no effect.
    invert : bool, default False
        Whether the result is inverted: True where the element does not occur.
    kind : str, optional
        Accepted for compatibility with NumPy. They have no effect.

    Returns
    -------
    ndarray
        Bool array of element's shape.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    if kind not in (None, "sort", "table"):
        raise ValueError(f"isin: kind must be None, 'sort' or 'table', got {kind!r}")
    element, among = coerce("isin", (element, test_elements))
    if not among.size:
        return full(element.shape, invert, "bool", device=element.device)
    dtype = dtypes.promote(element.dtype, among.dtype)
    if dtype == np.float64 and element.dtype.kind + among.dtype.kind in ("iu", "ui"):
        # float64 has not all of them. Modulo 2^64 what both dtypes have stays itself, and nothing
        # else is below 2^63
        element, among = astype(element, "int64"), astype(among, "int64")
        found = logical_and(isin(element, among), element >= 0)
        return logical_not(found) if invert else found
    element, among = (a if a.dtype == dtype else astype(a, dtype) for a in (element, among))
    among = ravel(among)
    if among.size > _FEW and among._layout.device != CPU:
        if dtype in COMPLEX:
            among = sort(among)
            nearest = take(among, minimum(searchsorted(among, element), among.size - 1))
            return (not_equal if invert else equal)(nearest, element)
        among = _sort(among, axis=0, descending=False)
    return _isin(element, among, invert=bool(invert))


_isin = Op("isin", cpu="search.isin", cuda="sort.binary_search.isin")
_FEW = 256  # with so many every element is compared (kernels/sort/binary_search.py)


def _pair(name: str, a: Any, b: Any, assume_unique: bool) -> tuple[ndarray, ndarray]:
    """Two sets in their common dtype."""
    a, b = map(_constant, coerce(name, (a, b)))
    dtype = dtypes.promote(a.dtype, b.dtype)
    a, b = (ravel(x if x.dtype == dtype else astype(x, dtype)) for x in (a, b))
    return (a, b) if assume_unique else (unique(a), unique(b))


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The distinct elements that both arrays have, in ascending order.

    Parameters
    ----------
    ar1, ar2 : array_like
        Arrays of any shape and dtype.
    assume_unique : bool, default False
        Whether the caller guarantees that neither array has an element twice.
    return_indices : bool, default False
        Whether the positions of the first occurrences in `ar1` and `ar2` are returned as well.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of one dimension. With `return_indices` a tuple of it and the two arrays of positions.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.intersect1d([1, 3, 4, 3], [3, 1, 2]).tolist()
    [1, 3]
    """
    a, b = _pair("intersect1d", ar1, ar2, True)
    if not return_indices:
        first_values, second_values = unique(a), unique(b)
        return first_values[isin(first_values, second_values)]
    first, second = (_Distinct(x, True, True) for x in (a, b))
    common = isin(first.values, second.values)
    return (
        first.values[common],
        first.indices[common],
        second.indices[isin(second.values, first.values)],
    )


def union1d(ar1: ArrayLike, ar2: ArrayLike) -> ndarray:
    """The distinct elements that either array has, in ascending order.

    Parameters
    ----------
    ar1, ar2 : array_like
        Arrays of any shape and dtype.

    Returns
    -------
    ndarray
        Array of one dimension.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.union1d([3, 1], [2, 3]).tolist()
    [1, 2, 3]
    """
    return unique(_joined("union1d", [ar1, ar2], None))


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> ndarray:
    """The distinct elements of the first array that the second does not have.

    Parameters
    ----------
    ar1, ar2 : array_like
        Arrays of any shape and dtype.
    assume_unique : bool, default False
        Whether the caller guarantees that neither array has an element twice. The order of `ar1` is
        then kept.

    Returns
    -------
    ndarray
        Array of one dimension, of ar1's dtype, ascending.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.setdiff1d([4, 1, 3, 4], [3]).tolist()
    [1, 4]
    """
    a, b = map(_constant, coerce("setdiff1d", (ar1, ar2)))
    a = (
        ravel(a) if assume_unique else unique(a)
    )  # in its own dtype: the common one may not hold all of its numbers
    return a[isin(a, b, invert=True)]


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> ndarray:
    """The distinct elements that one of the arrays has and the other has not, in ascending order.

    Parameters
    ----------
    ar1, ar2 : array_like
        Arrays of any shape and dtype.
    assume_unique : bool, default False
        Whether the caller guarantees that neither array has an element twice.

    Returns
    -------
    ndarray
        Array of one dimension.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.setxor1d([1, 2, 3], [2, 5]).tolist()
    [1, 3, 5]
    """
    a, b = _pair("setxor1d", ar1, ar2, assume_unique)
    return sort(concat([a[isin(a, b, invert=True)], b[isin(b, a, invert=True)]]))
