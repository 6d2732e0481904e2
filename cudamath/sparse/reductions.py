"""Reductions of sparse arrays: sums, extremes and their positions, of all elements or along an
axis.

Extremes are places among the stored elements, found row by row (`row_extremes`), so that gradients
go through the choice. For complex numbers, and in a single row, which may have any length, they are
found by sorting: by value, then, keeping that order, by row; the last element of each row is its
largest one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.op import Op
from ..core.shapes import normalize_axis
from ..ops.creation import asarray, full, ones, zeros
from ..ops.elementwise import maximum, minimum
from ..ops.index import index_add
from ..ops.masks import flatnonzero
from ..ops.ranges import arange
from ..ops.search import searchsorted
from ..ops.shape import in_order
from ..ops.sort import argsort
from ..ops.where import where
from .structure import index_dtype

_row_extremes = Op(
    "row_extremes",
    cpu="sparse.products.row_extremes",
    cuda="sparse.row_extremes.row_extremes",
)


def one_axis(name: str, axis: Any, ndim: int) -> int | None:
    """The axis of a reduction as 0 or 1; None for all elements."""
    if axis is None:
        return None
    axes = axis if isinstance(axis, tuple) else (axis,)
    if not 0 < len(axes) <= ndim:
        raise ValueError(f"{name}: wants one of {ndim} axes or all, got {axis}")
    wrapped = [normalize_axis(name, each, ndim) for each in axes]
    if len(set(wrapped)) != len(wrapped):
        raise ValueError(f"{name}: wants each axis once, got {axis}")
    return None if len(wrapped) == ndim else wrapped[0]


def _delivered(name: str, value: Any, dtype: Any, out: ndarray | None) -> Any:
    if dtype is not None:
        value = value.astype(dtype)
    if out is None:
        return value
    if out.shape != value.shape:
        raise ValueError(f"{name}: wants out of shape {value.shape}, got {out.shape}")
    out[...] = value
    return out


def total(x: Any, axis: Any, kind: np.dtype, dtype: Any, out: ndarray | None) -> Any:
    """The sum, computed in dtype `kind`."""
    axis = one_axis("sum", axis, x.ndim)
    wide = (x.tocoo() if x.format == "dia" else x).astype(kind, copy=False)
    if axis is None:
        return _delivered("sum", wide.data.sum(dtype=kind), dtype, out)
    if x.format in ("csr", "csc", "bsr") and axis == (0 if x.format == "csc" else 1):
        rows = wide if axis == 1 else wide.T
        sums = rows @ ones(x.shape[axis], dtype=kind, device=x.device)
    else:  # of lines that are not stored together
        elements = wide.tocoo()
        empty = zeros(x.shape[1 - axis], dtype=kind, device=x.device)
        sums = index_add(empty, elements.coords[1 - axis], elements.data)
    return _delivered("sum", sums, dtype, out)


def _lines(x: Any, axis: int | None) -> Any:
    """A canonical CSR array whose rows are to be reduced."""
    if axis is None:
        return x.tocoo().reshape(1, -1).tocsr()._summed()
    return (x if axis == 1 else x.T).tocsr()._summed()


def _check(name: str, x: Any, axis: int | None, out: Any, explicit: bool) -> None:
    if out is not None:
        raise ValueError(
            f"{name}: sparse arrays of shape {x.shape} take no out=, got {type(out).__name__}"
        )
    length = math.prod(x.shape) if axis is None else x.shape[axis]
    if length == 0 or (explicit and axis is None and not x.nnz):
        what = "stored elements" if length else "elements"
        raise ValueError(f"{name}: an array of shape {x.shape} has no {what} to choose from")


def extreme(name: str, x: Any, axis: Any, out: Any, explicit: bool) -> Any:
    """max, min, nanmax or nanmin: a number, or a sparse vector."""
    axis = one_axis(name, axis, x.ndim)
    _check(name, x, axis, out, explicit)
    largest, skips = name.endswith("max"), name.startswith("nan")
    fold = maximum if largest else minimum
    rows = _lines(x, axis)
    counts = rows._indptr[1:] - rows._indptr[:-1]
    filled = flatnonzero(counts > 0)
    values = _chosen(rows, largest, skips)[1]
    zero = asarray(0, dtype=values.dtype, device=values.device)
    if not explicit:
        short = counts[filled] < rows.shape[1]
        beside = where(values != values, zero, fold(values, zero)) if skips else fold(values, zero)
        values = where(short, beside, values)
    if axis is None:
        return (values if values.size else zeros(1, dtype=x.dtype, device=x.device))[0]
    kept = flatnonzero(values != 0)
    coords = (filled[kept].astype(index_dtype(rows.shape[0])),)
    return x.kinds["coo"]._of(values[kept], coords, (rows.shape[0],), True)


def _chosen(rows: Any, largest: bool, skips: bool) -> tuple[ndarray, ndarray]:
    """(places, values) of the extreme stored element of each row that has any. NaN where there is
    one
    or, if NaN is skipped, where there is nothing else."""
    data = rows.data
    if data.dtype.kind != "c" and rows.shape[0] > 1:
        place = _row_extremes(
            in_order("max", data, "C"), rows._indptr, largest=largest, skips=skips
        )
        place = place[flatnonzero(rows._indptr[1:] > rows._indptr[:-1])]
        return place, data[place]
    key = data.astype(np.uint8) if data.dtype.kind == "b" else data
    order = argsort(key, stable=True)
    owners = rows._majors()[order]
    order = order[argsort(owners, stable=True)]
    starts, ends = rows._indptr[:-1], rows._indptr[1:]
    filled = flatnonzero(ends > starts)
    first, last = starts[filled], ends[filled] - 1
    if data.dtype.kind in "fcV":  # NaN stands last
        nan = (data != data).astype(np.int64)
        many = index_add(
            zeros(rows.shape[0], dtype=np.int64, device=data.device), rows._majors(), nan
        )
        many = many[filled]
        if skips and largest:
            last = where(last - many >= first, last - many, last)
        elif not skips and not largest:
            first = where(many > 0, last, first)
    place = order[last if largest else first]
    return place, data[place]


def place(name: str, x: Any, axis: Any, out: Any, explicit: bool) -> Any:
    """argmax or argmin: an int, or a dense vector."""
    axis = one_axis(name, axis, x.ndim)
    _check(name, x, axis, out, explicit)
    rows = _lines(x, axis)
    count, length = rows.shape
    device = x.device
    majors = rows._majors().astype(np.int64)
    starts = rows._indptr.astype(np.int64)
    stored = starts[1:] - starts[:-1]
    filled = flatnonzero(stored > 0)
    values = _chosen(rows, name == "argmax", False)[1]
    if explicit and filled.size < count:
        raise ValueError(f"{name}: a line of an array of shape {x.shape} has no stored elements")
    best = _spread(values, filled, count)
    if not explicit:
        better = maximum if name == "argmax" else minimum
        zero = asarray(0, dtype=best.dtype, device=device)
        best = where(stored < length, better(best, zero), best)
    mine = best[majors]
    equal = (rows.data == mine) | ((rows.data != rows.data) & (mine != mine))
    at = _first(equal, rows._indices, majors, count, length)
    if not explicit:  # the first position that is not stored, where zero is the extreme
        each = arange(rows.nnz, dtype=np.int64, device=device)
        late = rows._indices != each - starts[majors]
        gap = _first(late, each - starts[majors], majors, count, length)
        gap = where(gap < stored, gap, stored)
        at = where((best == 0) & (stored < length), minimum(at, gap), at)
    if axis is not None:
        return at
    return int(searchsorted(rows._indices, at)[0]) if explicit else int(at[0])


def _spread(values: ndarray, at: ndarray, count: int) -> ndarray:
    """A vector with these values at these places, zeros elsewhere."""
    out = zeros(count, dtype=values.dtype, device=values.device)
    out[at] = values
    return out


def _first(mask: ndarray, what: ndarray, majors: ndarray, count: int, none: int) -> ndarray:
    """For each of `count` rows the first `what` whose mask is true; `none` where there is none."""
    out = full(count, none, dtype=np.int64, device=mask.device)
    chosen = flatnonzero(mask)[::-1]  # of equal places the last assignment counts
    out[majors[chosen]] = what[chosen].astype(np.int64)
    return out
