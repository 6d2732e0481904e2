"""Indexing by arrays and masks in NumPy. Functions that write into an argument return ()."""

import numpy as np

from ..core.fp_errors import quiet


def _box(indices, axis):
    return (*[slice(None)] * axis, *indices)


def _checked(name, function):
    """NumPy's IndexError with the op's name in front."""
    try:
        return function()
    except IndexError as error:
        raise IndexError(f"{name}: {error}") from None


def gather(x, *indices, axis):
    """x[..., indices, ...] with the index arrays on neighbouring axes from ``axis`` on."""
    return np.asarray(_checked("index", lambda: x[_box(indices, axis)]), order="C")


def take(x, index, *, axis):
    """The same for one index array, as NumPy's take."""
    return _checked("take", lambda: np.take(x, index.astype(np.intp, copy=False), axis))


def scatter(x, values, *indices, axis):
    """x[..., indices, ...] = values; of equal indices the last one wins."""
    _checked("index", lambda: x.__setitem__(_box(indices, axis), values))
    return ()


def scatter_number(x, *indices, axis, scalars):
    """x[..., indices, ...] = the scalar."""
    return scatter(x, np.asarray(scalars[0], x.dtype), *indices, axis=axis)


def put(x, values, index, *, axis):
    """x[index] = values on a vector; of equal indices the last one wins."""
    _checked("put", lambda: x.__setitem__(index, values))
    return ()


def put_along(x, index, *values, axis, scalars=()):
    """x[i, index[i, j, k], k] = values[i, j, k] for axis 1, or the scalar everywhere."""
    source = values[0] if values else np.asarray(scalars[0], x.dtype)
    _checked("put_along_axis", lambda: np.put_along_axis(x, index, source, axis))
    return ()


def positions(name, indices, sizes):
    """Index arrays over axes of these sizes as one array of row-major positions; IndexError."""
    at = 0
    for axis, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        low, high = index.min(initial=0), index.max(initial=0)
        if index.size and (low < -size or high >= size):
            wrong = index[(index < -size) | (index >= size)].flat[0]
            raise IndexError(
                f"{name}: index {wrong} is out of bounds for axis {axis} with size {size}"
            )
        index = index.astype(np.int64, copy=False)
        index = np.where(index < 0, index + size, index) if low < 0 else index
        at = at * size + index if axis else index
    return at


_FOLDS = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}


def add_rows(x, values, rows, kind="add"):
    """x[:, rows[j], :] += values[:, j, :] in the order of j, for x (before, n, after); 16-bit
    floats sum in float32.

    Sorting by row, keeping the order within one, turns the sums into sums of neighbours:
    ``reduceat``. For single elements NumPy's ``at`` is faster than to sort; as it adds one after
    another, float32 sums in float64 there.
    """
    if not rows.size:
        return
    if x.shape[0] == x.shape[2] == 1 and not (x.dtype.itemsize == 2 and x.dtype.kind in "fV"):
        wide = (
            {"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype)
            if kind == "add"
            else x.dtype
        )
        line = x[0, :, 0].astype(wide, copy=False)
        _FOLDS[kind].at(line, rows, values[0, :, 0].astype(wide, copy=False))
        x[0, :, 0] = line
        return
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    wide = np.float32 if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x.dtype
    fold = _FOLDS[kind]
    sums = fold.reduceat(values[:, order].astype(wide, copy=False), first, axis=1)
    at = ordered[first]
    x[:, at] = fold(x[:, at].astype(wide, copy=False), sums).astype(x.dtype, copy=False)


_FOLDING = {"add": "add_at", "multiply": "multiply_at", "max": "maximum_at", "min": "minimum_at"}


def scatter_add(x, values, *indices, axis, kind="add", name=None):
    """x[..., indices, ...] += values, with equal indices added one after another; kind: or
    multiply, max, min."""
    sizes = x.shape[axis : axis + len(indices)]
    at = positions(name or _FOLDING[kind], indices, sizes)
    shape = (*x.shape[:axis], *at.shape, *x.shape[axis + len(indices) :])
    box = (
        int(np.prod(shape[:axis])),
        int(np.prod(sizes)),
        int(np.prod(x.shape[axis + len(indices) :])),
    )
    flat = np.ascontiguousarray(x).reshape(box)
    source = (
        np.broadcast_to(values, shape).astype(x.dtype, copy=False).reshape(box[0], at.size, box[2])
    )
    add_rows(flat, source, at.ravel(), kind)
    if not np.shares_memory(flat, x):
        x[...] = flat.reshape(x.shape)
    return ()


def gather_grad(g, *indices, shape, axis):
    """Zeros of a shape with g added at the indices."""
    out = np.zeros(shape, g.dtype)
    scatter_add(out, g, *indices, axis=axis, name="index_add")
    return out


def sorted_places(index, *, rows):
    """Places of rows in ascending order, and the number that each had."""
    if ((index < -rows) | (index >= rows)).any():
        raise IndexError(f"index_add: an index is out of range of {rows} rows")
    places = np.where(index < 0, index + rows, index)
    order = np.argsort(places, kind="stable")
    return places[order].astype(np.uint32 if rows < 2**32 else np.uint64), order


def sums_of_sorted(g, keys, order, *, shape):
    """Zeros of a shape with g[order[j]] added at keys[j]."""
    return gather_grad(g[order], keys.astype(np.int64), shape=shape, axis=0)


def sorted_sources(index, order, *, rows):
    """Places of rows of a table, in the order of the sums that they go to."""
    if ((index < -rows) | (index >= rows)).any():
        raise IndexError(f"index: an index is out of range of {rows} rows")
    places = np.where(index < 0, index + rows, index)
    return places[order].astype(np.uint32 if rows < 2**32 else np.uint64)


def sums_of_chosen(table, keys, sources, *weights, shape):
    """Zeros of ``shape`` with table[sources[j]], times weights[j], added at keys[j]."""
    g = table[sources]
    for each in weights:
        g = g * each.reshape(-1, *[1] * (g.ndim - 1))
    return gather_grad(g, keys.astype(np.int64), shape=shape, axis=0)


def index_add(x, index, values, *, axis):
    """x with values[..., j, ...] added at index[j] along an axis."""
    sums = np.full(
        x.shape, complex(-0.0, -0.0) if x.dtype.kind == "c" else -0.0, values.dtype
    )  # -0 + 0 is no -0
    scatter_add(sums, values, index, axis=axis, name="index_add")
    return quiet().run(np.add, x, sums)


def take_along(x, index, *, axis):
    """x[..., index[..., j, ...], ...] along one axis."""
    return _checked("take_along_axis", lambda: np.take_along_axis(x, index, axis))


def take_along_grad(g, index, *, size, axis):
    """Zeros of ``size`` along ``axis`` with g added at the indices, in the order along the axis."""
    shape = (*g.shape[:axis], size, *g.shape[axis + 1 :])
    wrong = (index < -size) | (index >= size)
    if wrong.any():
        raise IndexError(
            f"take_along_axis: index {index[wrong].flat[0]} is out of bounds for axis {axis} with "
            f"size {size}"
        )
    along = np.where(index < 0, index.astype(np.int64) + size, index.astype(np.int64))
    before, m, after = (
        int(np.prod(g.shape[:axis])),
        g.shape[axis],
        int(np.prod(g.shape[axis + 1 :])),
    )
    b, a = np.arange(before)[:, None, None], np.arange(after)
    rows = (b * size + np.broadcast_to(along, g.shape).reshape(before, m, after)) * after + a
    out = np.zeros(shape, g.dtype)
    add_rows(out.reshape(1, -1, 1), np.ascontiguousarray(g).reshape(1, -1, 1), rows.ravel())
    return out


def where(mask, a, b):
    """mask ? a : b, for a and b of one dtype."""
    return np.asarray(np.where(mask, a, b))


def _prepare_where(mask, a, b):
    """np.where alone, for layouts of which one at least is not 0-d."""
    return np.where if mask.ndim or a.ndim or b.ndim else None


where.prepare = _prepare_where  # type: ignore[attr-defined]


def _in_dtype(dtype, scalars):
    """The call's number as NumPy has it in a dtype; what is too large for it is infinite."""
    if dtype.char in "dl?":  # which round nothing
        return dtype.type(scalars[0])
    with np.errstate(over="ignore"):
        return dtype.type(scalars[0])


def where_number(mask, a=None, *, swapped, scalars, dtype=None):
    """mask ? a : number; swapped: mask ? number : a. Without an array a: mask ? number : number, of
    this dtype."""
    if a is None:
        if dtype.char in "dl":  # which NumPy makes of these numbers
            return np.asarray(np.where(mask, *scalars), dtype)
        x, y = [_in_dtype(dtype, (number,)) for number in scalars]
        return np.asarray(np.where(mask, x, y))
    number = _in_dtype(a.dtype, scalars)
    return np.asarray(np.where(mask, number, a) if swapped else np.where(mask, a, number))


def _where_of(*layouts, swapped, scalars, dtype=None):
    """np.where alone, with the numbers as arrays."""
    numbers = [np.asarray(_in_dtype(dtype or layouts[1].dtype, (x,))) for x in scalars]
    choose, x = np.where, numbers[0]
    if len(numbers) == 2:
        y = numbers[1]
        return lambda mask: choose(mask, x, y)
    if swapped:
        return lambda mask, a: choose(mask, x, a)
    return lambda mask, a: choose(mask, a, x)


where_number.with_numbers = _where_of  # type: ignore[attr-defined]


def where_into(x, mask, value=None, *, scalars=()):
    """x = mask ? value : x, in place; without an array of values the scalar is the value."""
    np.copyto(x, _in_dtype(x.dtype, scalars) if value is None else value, where=mask)
    return ()
