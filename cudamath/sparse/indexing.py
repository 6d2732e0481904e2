"""Parts of compressed arrays: `A[key]` and `A[key] = value`.

Rows are chosen by their runs of elements; columns of the result by transposing, choosing rows, and
transposing back. Single positions are found by their keys.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.array import ndarray
from ..ops.creation import asarray, zeros
from ..ops.elementwise import less
from ..ops.join import concatenate
from ..ops.join_numpy import broadcast_arrays
from ..ops.masks import flatnonzero, nonzero
from ..ops.ranges import arange
from ..ops.shape import broadcast_to
from ..ops.where import where
from .structure import expanded, found, index_dtype, keys_of, summed

Index = int | slice | ndarray


class _Key(NamedTuple):
    """row, column: ints, slices or integer arrays; new: where axes of length 1 are inserted."""

    row: Index
    column: Index
    new: tuple[int, ...]


def _parsed(name: str, x: Any, key: Any) -> _Key:
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = [_simple(name, x, part) for part in parts]
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    taken = sum(
        part.ndim if _is_mask(part) else part is not None and part is not Ellipsis for part in parts
    )
    if len(dots) > 1:
        raise IndexError(f"{name}: wants one ellipsis, got {key!r:.80}")
    if taken > 2:
        raise IndexError(f"{name}: too many indices for shape {x.shape}: {key!r:.80}")
    at = dots[0] if dots else len(parts)
    parts = [*parts[:at], *[slice(None)] * (2 - taken), *parts[at + len(dots) :]]
    indices: list[Index] = []
    new: list[int] = []
    for part in parts:
        if part is None:
            new.append(len(new) + sum(not isinstance(i, int) for i in indices))
        elif _is_mask(part):
            sizes = x.shape[len(indices) : len(indices) + part.ndim]
            if part.shape != sizes:
                raise IndexError(f"{name}: a mask of shape {part.shape} does not fit {sizes}")
            indices += nonzero(part)
        else:
            indices.append(_in_range(name, part, x.shape[len(indices)], len(indices)))
    return _Key(indices[0], indices[1], tuple(new))


def _is_mask(part: Any) -> bool:
    return isinstance(part, ndarray) and part.dtype.kind == "b"


def _simple(name: str, x: Any, part: Any) -> Any:
    """An index as None, ..., an int, a slice or an ndarray."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if hasattr(part, "kinds"):  # sparse: a mask
        if part.dtype.kind != "b" or part.shape != x.shape:
            raise IndexError(
                f"{name}: wants a sparse mask of shape {x.shape}, got {part.dtype} of shape "
                f"{part.shape}"
            )
        return part.toarray()
    if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
        return int(part)
    try:
        array = asarray(part, device=x.device)
    except TypeError:  # no numbers
        raise IndexError(f"{name}: wants integers, slices or masks, got {part!r}") from None
    if not array.size and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise IndexError(f"{name}: wants integers, slices or masks, got {array.dtype}")
    return int(array) if array.ndim == 0 and array.dtype.kind != "b" else array


def _in_range(name: str, part: Index, size: int, axis: int) -> Index:
    """Negative indices counted from the end; IndexError for those outside."""
    if isinstance(part, slice):
        return part
    if isinstance(part, ndarray) and not part.size:
        return part.astype(np.int64)
    low, high = (part, part) if isinstance(part, int) else (int(part.min()), int(part.max()))
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise IndexError(f"{name}: index {wrong} is out of bounds for axis {axis} with size {size}")
    if isinstance(part, int):
        return part % size
    counted: ndarray = part.astype(np.int64)
    return where(less(counted, 0), counted + size, counted) if low < 0 else counted


# -------------------- reading


def get(x: Any, key: Any) -> Any:
    """x[key] for an array in CSR or CSC."""
    row, column, new = _parsed("getitem", x, key)
    arrays = isinstance(row, ndarray), isinstance(column, ndarray)
    if all(arrays) and not _outer(row, column):
        out = _at_positions(x, row, column)
    elif isinstance(row, int) and isinstance(column, int):
        out = _element(x, row, column)
    else:
        flat = isinstance(row, int) or isinstance(column, int)
        taller = next((p for p in (row, column) if isinstance(p, ndarray) and p.ndim > 1), None)
        if taller is not None and not all(arrays) and (taller.ndim > 2 or not flat):
            raise IndexError(f"getitem: the result of {key!r:.80} would have more than two axes")
        out = _along(_along(x, row, 0), column, 1)
        if taller is not None and flat:
            out = out.reshape(taller.shape)
        elif flat:
            out = out.reshape(-1)
    if not new:
        return out
    shape = list(out.shape)
    for at in new:
        shape.insert(at, 1)
    if len(shape) > 2:
        raise IndexError(f"getitem: the result of {key!r:.80} would have more than two axes")
    dense = not hasattr(out, "kinds")
    return x.kinds["coo"](out.reshape(shape)).asformat(x.format) if dense else out.reshape(*shape)


def _outer(row: Any, column: Any) -> bool:
    """Whether a column of row numbers meets a row of column numbers."""
    return (
        row.ndim == 2
        and row.shape[1] == 1
        and (column.ndim == 1 or (column.ndim == 2 and column.shape[0] == 1))
        and (row.shape[0] != 1 or column.ndim == 2)
    )


def _element(x: Any, row: int, column: int) -> Any:
    major, minor = (row, column) if x.major == 0 else (column, row)
    low, high = x._indptr[major : major + 2].tolist()
    here = x._indices[low:high] == minor
    values = where(here, x.data[low:high], zeros((), dtype=x.dtype, device=x.device))
    return (values.sum() if x.dtype.kind != "b" else values.any()).astype(x.dtype)


def _at_positions(x: Any, row: Any, column: Any) -> Any:
    """Single positions: a dense vector, or a sparse array where the indices have two axes."""
    try:
        row, column = broadcast_arrays(row, column)
    except ValueError:
        raise IndexError(
            f"getitem: index arrays of shapes {row.shape} and {column.shape} do not broadcast"
        ) from None
    if row.ndim > 2:
        raise IndexError(f"getitem: wants index arrays of one or two axes, got {row.shape}")
    summed_up = x._summed()
    major, minor = (row, column) if x.major == 0 else (column, row)
    wanted = keys_of(major.reshape(-1), minor.reshape(-1), x._sizes[1])
    if not x.nnz:
        values = zeros(wanted.size, dtype=x.dtype, device=x.device)
    else:
        place, there = found(summed_up._keys(), wanted)
        zero = zeros((), dtype=x.dtype, device=x.device)
        values = where(there, summed_up.data[place], zero)
    values = values.reshape(row.shape)
    if not values.size and row.ndim == 1:
        return x.kinds["coo"](values)  # as SciPy's: of no positions alone the result is sparse
    return values if row.ndim == 1 else type(x)(values)


def _along(x: Any, part: Index, axis: int) -> Any:
    """The array with a choice of indices along an axis."""
    if isinstance(part, slice):
        chosen = range(*part.indices(x.shape[axis]))
        if chosen == range(x.shape[axis]):
            return x
        if chosen and chosen.step == 1 and x.major == axis:
            return _neighbours(x, chosen.start, chosen.stop)
        index = arange(chosen.start, chosen.stop, chosen.step, dtype=np.int64, device=x.device)
    elif isinstance(part, int):
        if x.major == axis:
            return _neighbours(x, part, part + 1)
        index = asarray([part], device=x.device)
    else:
        index = part.reshape(-1)
    ours = x if x.major == axis else x._other()
    starts = ours._indptr[index]
    _, place, begins = expanded(starts, ours._indptr[index + 1] - starts)
    shape = tuple([index.size if i == axis else n for i, n in enumerate(x.shape)])
    kind = index_dtype(*shape, place.size)
    made = type(ours)._of(
        ours.data[place],
        ours._indices[place].astype(kind),
        begins.astype(kind),
        shape,
        ours._canonical or None,
    )
    return made if made.format == x.format else made._other()


def _neighbours(x: Any, first: int, end: int) -> Any:
    """Neighbouring rows of an array in CSR, columns in CSC: their elements lie in one piece (waits
    for the device, for where it begins and ends)."""
    low, high = x._indptr[first : end + 1 : end - first].tolist()
    shape = tuple([end - first if i == x.major else n for i, n in enumerate(x.shape)])
    return type(x)._of(
        x.data[low:high].copy(),
        x._indices[low:high].copy(),
        x._indptr[first : end + 1] - low,
        shape,
        x._canonical or None,
    )


# -------------------- writing


def assigned(x: Any, key: Any, value: Any) -> Any:
    """The array after x[key] = value."""
    row, column, _ = _parsed("setitem", x, key)
    rows, columns = (
        arange(*part.indices(n), dtype=np.int64, device=x.device)
        if isinstance(part, slice)
        else part
        for part, n in zip((row, column), x.shape, strict=True)
    )
    rows, columns = (asarray(part, device=x.device) for part in (rows, columns))
    if isinstance(row, slice) or isinstance(column, slice):
        rows, columns = rows.reshape(-1, 1), columns.reshape(1, -1)
        if isinstance(row, int) or isinstance(column, int):
            rows, columns = (each.reshape(-1) for each in broadcast_arrays(rows, columns))
    try:
        rows, columns = broadcast_arrays(rows, columns)
    except ValueError:
        raise IndexError(
            f"setitem: index arrays of shapes {rows.shape} and {columns.shape} do not broadcast"
        ) from None
    was_sparse = hasattr(value, "toarray")
    value = value.toarray() if was_sparse else value
    values = asarray(value, device=x.device)
    if values.dtype.kind == "c" and x.dtype.kind != "c":
        raise TypeError(f"setitem: {values.dtype} does not fit into an array of {x.dtype}")
    values = values.astype(x.dtype)
    while values.ndim > rows.ndim and values.shape[0] == 1:  # as NumPy's assignments
        values = values[0]
    column_wise = was_sparse or isinstance(column, int)
    if column_wise and rows.ndim == 1 and values.ndim == 2 and values.shape[1] == 1:
        values = values.reshape(-1)  # a column
    try:
        values = broadcast_to(values, rows.shape).reshape(-1)
    except ValueError:
        raise ValueError(
            f"setitem: values of shape {values.shape} do not fit the positions, {rows.shape}"
        ) from None
    major, minor = (rows, columns) if x.major == 0 else (columns, rows)
    written = keys_of(major.reshape(-1), minor.reshape(-1), x._sizes[1])
    # Of a position that is written several times the last value counts: that with the largest
    # place.
    each = arange(written.size, dtype=np.int64, device=x.device)
    last = zeros(0, dtype=np.int64, device=x.device)
    if written.size:
        order = written.argsort(stable=True)
        ahead = written[order]
        ends = concatenate([ahead[1:] != ahead[:-1], asarray([True], device=x.device)])
        last = each[order][flatnonzero(ends)]
    written, values = written[last], values[last]
    old = x._summed()
    kept = flatnonzero(~found(written, old._keys())[1])
    keys = concatenate([old._keys()[kept], written])
    return x._of_keys(*summed(keys, concatenate([old.data[kept], values])))
