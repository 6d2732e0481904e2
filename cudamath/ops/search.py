"""Searching in sorted arrays. Kernel: kernels/sort/binary_search.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.checks import as_of, coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import INTEGER, REAL_OR_BOOL
from ..core.typing import ArrayLike
from .index import take
from .shape import astype

__all__ = ["digitize", "searchsorted"]

_searchsorted = Op(
    "searchsorted", cpu="search.searchsorted", cuda="sort.binary_search.searchsorted"
)
_digitize = Op("digitize", cpu="search.digitize", cuda="sort.binary_search.digitize")


def _places(name: str, ordered: Any, numbers: Any, right: bool) -> ndarray:
    """Places of numbers in a sorted vector, both cast to the dtype in which they meet."""
    ordered, numbers = coerce(name, (ordered, numbers))
    if ordered.ndim != 1:
        raise ValueError(
            f"{name}: the sorted array must have 1 dimension, got shape {ordered.shape}"
        )
    dtype = dtypes.promote(ordered.dtype, numbers.dtype)
    arrays = [a if a.dtype == dtype else astype(a, dtype) for a in (ordered, numbers)]
    return _searchsorted(*arrays, right=right)


@fast_path("a", "v", "sorter")
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
) -> ndarray:
    """Return the positions at which elements would be inserted into a sorted array.

    The array stays sorted. "left": a[i - 1] < v <= a[i]. "right": a[i - 1] <= v < a[i].

    Parameters
    ----------
    a : array_like
        Sorted array of one dimension (ascending, NaN last).
    v : array_like
        Elements to search for, of any shape. Both arrays are compared in their common dtype.
    side : str, default "left"
        Position among equal elements, "left" or "right".
    sorter : array_like, optional
        Positions that sort `a`, if it is not sorted (from `argsort`).

    Returns
    -------
    ndarray
        In int64 array of v's shape.

    Raises
    ------
    ValueError
        `a` does not have one dimension, the side is unknown, or `sorter` has another length.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.searchsorted([1, 2, 2, 5], [2, 6, 0]).tolist()
    [1, 4, 0]
    >>> cm.searchsorted([1, 2, 2, 5], [2, 6, 0], side="right").tolist()
    [3, 4, 0]
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if sorter is not None:
        a, sorter = coerce("searchsorted", (a, sorter))
        require("searchsorted", sorter, INTEGER, "sorter")
        if sorter.shape != a.shape:
            raise ValueError(
                f"searchsorted: sorter of shape {sorter.shape} must have the shape of a, {a.shape}"
            )
        try:
            a = take(a, sorter)
        except IndexError as error:
            raise as_of("searchsorted", error) from None
    return _places("searchsorted", a, v, side == "right")


@fast_path("x", "bins")
def digitize(x: ArrayLike, /, bins: ArrayLike, right: bool = False) -> ndarray:
    """The number of the bin in which each element lies: i with bins[i - 1] <= x < bins[i].

    Parameters
    ----------
    x : array_like
        Real or bool array of any shape.
    bins : array_like
        Edges of the bins, one dimension, ascending or descending.
    right : bool, default False
        Whether the bins include their upper edge instead: bins[i - 1] < x <= bins[i].

    Returns
    -------
    ndarray
        Array of int64 of x's shape: 0 before the first edge, len(bins) behind the last one.

    Raises
    ------
    ValueError
        The bins do not have one dimension, or are neither ascending nor descending. On a GPU the
        next synchronising call raises the error.
    TypeError
        An array is complex.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.digitize([0.5, 1.0, 3.7], [0, 1, 2, 3]).tolist()
    [1, 2, 4]
    """
    x, edges = coerce("digitize", (require("digitize", x, REAL_OR_BOOL), bins), REAL_OR_BOOL)
    if edges.ndim != 1:
        raise ValueError(f"digitize: bins must have 1 dimension, got shape {edges.shape}")
    dtype = dtypes.promote(x.dtype, edges.dtype)
    dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype  # bools count as 0 and 1
    edges, x = (a if a.dtype == dtype else astype(a, dtype) for a in (edges, x))
    return _digitize(edges, x, right=bool(right))
