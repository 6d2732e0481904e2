"""Grids of indices and coordinates, and numbers of elements as tuples of indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.devices import index_of
from ..core.dispatch.checks import MISTAKES, as_numbers, as_of, coerce, members, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import INTEGER, INTEGER_OR_BOOL, REAL, Op
from ..core.dtypes import FLOATING, as_dtype, default_float, promote, result_type, scalar_dtype
from ..core.layout import Layout
from ..core.shapes import as_integer, contiguous_strides, normalize_shape
from .creation import asarray, zeros, zeros_like
from .elementwise import abs as absolute
from .elementwise import clip, floor_divide, log10, pow, remainder, sign
from .index import _check_writable
from .join import concat, stack
from .masks import FETCHED, nonzero
from .out_argument import in_place
from .ranges import arange, linspace, made_of, recorded
from .reduce import any as any_of
from .shape import (
    _broadcast,
    _broadcast_as,
    _copy,
    astype,
    diagonal,
    expand_dims,
    flip,
    pattern,
    ravel,
    reshape,
    view,
)
from .ufunc import SCALARS

__all__ = [
    "c_",
    "diag_indices",
    "fill_diagonal",
    "geomspace",
    "indices",
    "ix_",
    "logspace",
    "meshgrid",
    "mgrid",
    "ogrid",
    "r_",
    "ravel_multi_index",
    "tril_indices",
    "triu_indices",
    "unravel_index",
    "vander",
]


@fast_path()
def indices(
    dimensions: Sequence[int], dtype: Any = np.int64, sparse: bool = False, *, device: Any = None
) -> Any:
    """The indices of every element of an array of a shape.

    Args: dimensions: the shape, of n axes; dtype: of the result; sparse: return a tuple of arrays
    that broadcast instead; device: where. Returns: array (n, *dimensions), out[i] the index along
    axis i. Raises: ValueError for a negative length, TypeError (lengths, dtype). Gradient: none.

    >>> import cudamath as cm
    >>> cm.indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape, dtype = normalize_shape("indices", dimensions), as_dtype(dtype, "indices")
    real = dtype if dtype in REAL else None  # what no vector of numbers is made in is cast
    lines = [
        reshape(
            astype(arange(n, dtype=real, device=device), dtype, copy=False),
            (*[1] * i, n, *[1] * (len(shape) - i - 1)),
        )
        for i, n in enumerate(shape)
    ]
    if sparse:
        return tuple(lines)
    if not lines:
        return zeros(0, dtype, device=device)
    return stack([_broadcast_as("indices", line, shape) for line in lines])


@fast_path("*arrays")
def meshgrid(
    *arrays: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> tuple[ndarray, ...]:
    """Coordinates of a grid: for each vector an array of the grid's shape that varies along one
    axis.

    Args: arrays: vectors (or scalars; others are raveled); indexing: "ij": array i varies along
    axis i; "xy": the first two are exchanged; sparse: keep the other axes at length 1; copy: False
    returns views of the vectors. Returns: as many arrays as given. Raises: ValueError for another
    indexing. Gradient: g summed over the copies of each element.

    >>> import cudamath as cm
    >>> x, y = cm.meshgrid(cm.arange(3), cm.arange(2))
    >>> y
    array([[0, 0, 0],
           [1, 1, 1]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    if not arrays:
        return ()
    views = _spread(coerce("meshgrid", arrays), indexing, sparse)
    return tuple([_copy(view) for view in views] if copy else views)


def _spread(vectors: list[ndarray], indexing: str, sparse: bool) -> list[ndarray]:
    """Views of vectors in the shape of their grid."""
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = 1, 0
    shape = tuple([vectors[i].size for i in order])
    views = []
    for i, x in enumerate(vectors):
        line = reshape(
            x, tuple([x.size if axis == order.index(i) else 1 for axis in range(len(vectors))])
        )
        views.append(line if sparse else _broadcast(line, shape=shape, old=line.shape))
    return views


def ix_(*vectors: Any) -> tuple[ndarray, ...]:
    """Index arrays that together select a grid: x[ix_(a, b)][i, j] is x[a[i], b[j]].

    Args: vectors: integers, or bool (the positions that hold). Returns: as many arrays, each along
    its own axis. Raises: ValueError if one is not a vector.

    >>> import cudamath as cm
    >>> cm.arange(12).reshape(3, 4)[cm.ix_([0, 2], [1, 3])].tolist()
    [[1, 3], [9, 11]]
    """
    out = []
    for i, given in enumerate(vectors):
        v = require("ix_", given)
        if v.ndim != 1:
            raise ValueError(f"ix_: wants vectors, got shape {v.shape}")
        if v.dtype.kind == "b":
            v = nonzero(v)[0]
        elif not v.size:
            v = astype(v, np.int64)
        out.append(reshape(v, (*[1] * i, v.size, *[1] * (len(vectors) - i - 1))))
    return tuple(out)


class _Grid:
    """`mgrid` and `ogrid`: coordinates by slices; an imaginary step is a number of points, ends
    included.

    >>> import cudamath as cm
    >>> cm.mgrid[0:2, 0:3].shape, [a.shape for a in cm.ogrid[0:2, 0:1:5j]]
    ((2, 2, 3), [(2, 1), (1, 5)])
    """

    def __init__(self, sparse: bool):
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        slices = key if isinstance(key, tuple) else (key,)
        lines = []
        for s in slices:
            if not isinstance(s, slice) or s.stop is None:
                raise TypeError(f"grid: wants slices with an end, got {s!r}")
            start, step = 0 if s.start is None else s.start, 1 if s.step is None else s.step
            if isinstance(step, complex):
                lines.append(linspace(start, s.stop, int(abs(step))))
            else:
                lines.append(arange(start, s.stop, step))
        lines = list(coerce("grid", tuple(lines)))
        if any(line.dtype.kind == "f" for line in lines):
            lines = [astype(line, np.float64, copy=False) for line in lines]
        if not isinstance(key, tuple):
            return lines[0]
        shape = tuple([line.size for line in lines])
        lines = [
            reshape(line, (*[1] * i, line.size, *[1] * (len(shape) - i - 1)))
            for i, line in enumerate(lines)
        ]
        return (
            tuple(lines)
            if self.sparse
            else stack([_broadcast_as("grid", line, shape) for line in lines])
        )


mgrid, ogrid = _Grid(sparse=False), _Grid(sparse=True)


class _Joined:
    """`r_` and `c_`: slices as ranges (an imaginary step is a number of points), arrays and
    numbers, joined to one array: along the first axis, or as columns. A text in front, "axis,
    ndmin, place of the first axis" of arrays of fewer than ndmin dimensions, says otherwise.

    >>> import cudamath as cm
    >>> cm.r_[0:3, 7, [5, 6]].tolist(), cm.c_[[1, 2], [3, 4]].tolist()
    ([0, 1, 2, 7, 5, 6], [[1, 3], [2, 4]])
    """

    def __init__(self, axis: int, ndmin: int, first: int):
        self.how = axis, ndmin, first

    def __getitem__(self, key: Any) -> ndarray:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, first = self.how
        if items and isinstance(items[0], str):
            text = items.pop(0)
            try:
                given = [int(part) for part in text.split(",")]
            except ValueError:
                raise ValueError(
                    f"r_: wants a text of numbers, 'axis, ndmin, first', got {text!r}"
                ) from None
            axis, ndmin, first = (*given, *(axis, 1, -1)[len(given) :])[:3]
        items = [
            mgrid[i] if isinstance(i, slice) else i if type(i) in SCALARS else asarray(i)
            for i in items
        ]
        kind = result_type(*items) if items else None
        arrays = []
        for item in items:
            x = asarray(item, kind) if type(item) in SCALARS else item
            more = ndmin - x.ndim
            if more > 0:  # the array's own axes stay together
                lead = min(max(first if first >= 0 else more + 1 + first, 0), more)
                x = reshape(x, (*[1] * lead, *x.shape, *[1] * (more - lead)))
            arrays.append(x)
        return concat(list(coerce("r_", tuple(arrays))), axis=axis)


r_, c_ = _Joined(0, 1, -1), _Joined(-1, 2, 0)


@fast_path()
def diag_indices(n: int, ndim: int = 2, *, device: Any = None) -> tuple[ndarray, ...]:
    """Index arrays of the main diagonal of an array with ``ndim`` axes of length n.

    Args: n: length of the axes; ndim: number of axes; device: of the result. Returns: ndim int64
    vectors of length n. Raises: TypeError (n, ndim).

    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.diag_indices(3)]
    [[0, 1, 2], [0, 1, 2]]
    """
    return (arange(as_integer("diag_indices", "n", n), device=device),) * as_integer(
        "diag_indices", "ndim", ndim
    )


_triangle = Op(
    "tril_indices", cpu="index_grids.triangle", cuda="shape.index_grids.triangle", outputs=2
)


@fast_path()
def tril_indices(
    n: int, k: int = 0, m: int | None = None, *, device: Any = None
) -> tuple[ndarray, ...]:
    """Index arrays of the elements on and below diagonal k of an (n, m) matrix (m: as n).

    Args: n, m: rows and columns; k: which diagonal, > 0 above the main one; device: of the result.
    Returns: two int64 vectors (rows, columns).

    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle_places("tril_indices", n, k, m, index_of(device))


@fast_path()
def triu_indices(
    n: int, k: int = 0, m: int | None = None, *, device: Any = None
) -> tuple[ndarray, ...]:
    """Index arrays of the elements on and above diagonal k of an (n, m) matrix (m: as n).

    Args: n, m: rows and columns; k: which diagonal, > 0 above the main one; device: of the result.
    Returns: two int64 vectors (rows, columns).

    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle_places("triu_indices", n, k, m, index_of(device))


def _triangle_places(name: str, n: int, k: int, m: int | None, index: int) -> tuple[ndarray, ...]:
    """The elements of an (n, m) matrix on one side of a diagonal: one launch, without counting what
    lies there."""
    rows, columns = normalize_shape(name, (n, n if m is None else m))
    if min(rows, columns) < 0:
        raise ValueError(f"{name}: wants sizes >= 0, got {rows} and {columns}")
    first, upper = max(-rows, min(as_integer(name, "k", k), columns)), name == "triu_indices"
    lower = (
        first - 1 if upper else first
    )  # the elements on and below this diagonal are those of the other triangle
    series = [
        min(max(last, 0), columns) * (min(max(last, 0), columns) + 1) // 2
        + max(last - columns, 0) * columns
        for last in (rows + lower, lower)
    ]
    count = rows * columns - (series[0] - series[1]) if upper else series[0] - series[1]
    return _triangle(
        layout=Layout.new((count,), np.dtype(np.int64), index),
        device=index,
        rows=rows,
        columns=columns,
        k=first,
        upper=upper,
    )


def fill_diagonal(x: ndarray, /, val: Any, wrap: bool = False) -> None:
    """Assigns to the main diagonal in place: x[i, i, ...] = val.

    Args: x: array of at least 2 dimensions, of equal lengths if they are more than 2; val: scalar,
    or an array that is repeated along the diagonal (an empty one assigns nothing); wrap: of a tall
    matrix begin a new diagonal a row below the end of the last. Raises: ValueError (shapes).
    Gradient: none, in place.

    >>> import cudamath as cm
    >>> x = cm.zeros((2, 3))
    >>> cm.fill_diagonal(x, 5)
    >>> x.tolist()
    [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]
    """
    x = in_place("fill_diagonal", x)
    if x.ndim < 2 or x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError(
            f"fill_diagonal: wants a matrix, or more axes of equal lengths, got shape {x.shape}"
        )
    _check_writable("fill_diagonal", x)
    wrapped = wrap and x.ndim == 2 and x.shape[0] > x.shape[1]
    places = np.arange(x.shape[0]) if wrapped else None  # of rows; the diagonal is a view otherwise
    if places is not None:
        places = places[places % (x.shape[1] + 1) < x.shape[1]]
    size = min(x.shape) if places is None else places.size
    if isinstance(val, bool | int | float | complex):
        pattern("fill_diagonal", val, x.dtype)  # which raises in this name
    else:
        val = ravel(coerce("fill_diagonal", (x, val))[1])
        if not val.size:
            return
        if val.size not in (1, size):
            val = val[asarray(np.arange(size) % val.size, device=x.device)]
    if places is None:
        line = x
        while line.ndim > 1:
            line = diagonal(line)
        line[...] = val
    else:
        x[asarray(places, device=x.device), asarray(places % (x.shape[1] + 1), device=x.device)] = (
            val
        )


def unravel_index(indices: Any, shape: Sequence[int], order: str = "C") -> tuple[ndarray, ...]:
    """Numbers of elements of an array of a shape, as an index along each axis.

    Args: indices: integers from 0 to the number of elements less one; shape: the shape; order: "C"
    or "F", in which elements are numbered. Returns: int64 arrays, one an axis. Raises: TypeError
    (dtype), ValueError (out of range: looked at on the host; order).

    >>> import cudamath as cm
    >>> [int(i) for i in cm.unravel_index(5, (2, 3))]
    [1, 2]
    """
    at = astype(require("unravel_index", indices, INTEGER), np.int64, copy=False)
    sizes = normalize_shape("unravel_index", shape)
    if order not in ("C", "F"):
        raise ValueError(f"unravel_index: order must be 'C' or 'F', got {order!r}")
    many, numbers = (
        min(math.prod(sizes), 1 << 63),
        view(at, np.uint64),
    )  # among which negative ones are the largest
    few = at._layout.nbytes <= FETCHED
    if at.size and bool(numbers.to_numpy().max() >= many if few else any_of(numbers >= many)):
        raise ValueError(f"unravel_index: an index is out of bounds for an array of shape {sizes}")
    out = []
    for n in sizes[:0:-1] if order == "C" else sizes[:-1]:
        out.append(remainder(at, n))
        at = floor_divide(at, n)
    if sizes:  # what is left lies along the last axis of these
        out.append(at if out else _copy(at))
    return tuple(reversed(out) if order == "C" else out)


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> ndarray:
    """An index along each axis, as numbers of elements of an array of a shape: the inverse of
    ``unravel_index``.

    Args: multi_index: integer arrays, one an axis, that broadcast; dims: the shape; mode: "raise",
    "wrap" or "clip" indices out of range, or one of these for each axis; order: "C" or "F". Raises:
    ValueError (out of range: looked at on the host; numbers, mode, order).

    >>> import cudamath as cm
    >>> int(cm.ravel_multi_index((1, 2), (2, 3)))
    5
    """
    sizes = normalize_shape("ravel_multi_index", dims)
    each = coerce("ravel_multi_index", members("ravel_multi_index", multi_index), INTEGER)
    if len(each) != len(sizes):
        raise ValueError(
            f"ravel_multi_index: {len(each)} index arrays for the {len(sizes)} axes of shape "
            f"{sizes}"
        )
    modes = (
        [mode] * len(sizes)
        if isinstance(mode, str)
        else members("ravel_multi_index", mode, "modes")
    )
    if (
        order not in ("C", "F")
        or len(modes) != len(sizes)
        or any([m not in ("raise", "wrap", "clip") for m in modes])
    ):
        raise ValueError(
            "ravel_multi_index: order must be 'C' or 'F', mode 'raise', 'wrap' or 'clip', or one "
            "of these for "
            f"each axis of shape {sizes}; got {order!r}, {mode!r}"
        )
    steps = (
        contiguous_strides(sizes, 1) if order == "C" else contiguous_strides(sizes[::-1], 1)[::-1]
    )
    out: Any = 0
    for i, n, step, how in zip(each, sizes, steps, modes, strict=True):
        if how == "raise" and i.size and bool(any_of((i < 0) | (i >= n))):
            raise ValueError(
                f"ravel_multi_index: an index is out of bounds for an axis of length {n} of shape "
                f"{sizes}"
            )
        i = remainder(i, n) if how == "wrap" else clip(i, 0, n - 1) if how == "clip" else i
        out = astype(i, np.int64, copy=False) * step + out
    return out


@fast_path()
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> ndarray:
    """Numbers evenly spaced in their logarithm: base ** linspace(start, stop, num).

    Args, raises: as for ``linspace``; base: a number or an array that broadcasts with the ends.
    Gradient: of arrays, by its parts.

    >>> import cudamath as cm
    >>> cm.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    if (
        {start.__class__, stop.__class__, base.__class__} <= {int, float}
        and type(num) is int
        and num > 0
        and (dtype is None or as_dtype(dtype, "logspace") in FLOATING)
    ):
        kind = default_float()
        layout = Layout.new(
            (num,), kind if dtype is None else as_dtype(dtype, "logspace"), index_of(device)
        )
        steps = num - 1 if endpoint else num
        return made_of(
            _powers,
            layout,
            (float(start), (stop - start) / steps if steps else 0.0, float(stop), float(base)),
            count=num - 1 if endpoint and num > 1 else num,
            kind=kind,
        )
    if np.ndim(base):  # a line of numbers for each base: the ends as arrays, too
        start, stop, base = coerce("logspace", (start, stop, base))
        start = start + zeros_like(base)
        base = expand_dims(base, axis)
    num = as_integer("logspace", "num", num, 0)
    try:
        y = pow(base, linspace(start, stop, num, endpoint, axis=axis, device=device))
    except MISTAKES as error:
        raise as_of("logspace", error) from None
    return y if dtype is None else astype(y, as_dtype(dtype, "logspace"))


_powers = Op("logspace", cpu="index_grids.powers", cuda="shape.index_grids.powers")


@fast_path()
@speaks_for("geomspace")
def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> ndarray:
    """Numbers in geometric progression from ``start`` to ``stop``.

    Args: as for ``linspace``; start and stop not 0 and of one sign, or complex numbers. Returns: as
    ``linspace``. Raises: ValueError for other ends, else as ``linspace``. Gradient: of arrays, by
    its parts.

    >>> import cudamath as cm
    >>> cm.geomspace(1, 1000, 4).tolist()
    [1.0, 10.0, 100.0, 1000.0]
    """
    num = as_integer("geomspace", "num", num, 0)
    if not (
        np.ndim(start) or np.ndim(stop) or recorded(start, stop)
    ):  # few numbers, exact at both ends: NumPy makes them
        ends = as_numbers("geomspace", "numbers", start, stop)
        kind = complex if complex in map(type, ends) else float
        if 0 in ends or kind is float and ends[0] * ends[1] < 0:
            raise ValueError(
                f"geomspace: wants ends that are not 0 and of one sign, got {start} and {stop}"
            )
        host = np.geomspace(kind(ends[0]), kind(ends[1]), num, endpoint)
        return asarray(host, scalar_dtype(kind) if dtype is None else dtype, device=device)
    first, last = coerce("geomspace", (start, stop))
    if bool(any_of(first * last <= 0)):
        raise ValueError(
            f"geomspace: wants ends that are not 0 and of one sign, got {start} and {stop}"
        )
    y = linspace(log10(absolute(first)), log10(absolute(last)), num, endpoint, axis=axis)
    y = pow(10.0, y) * expand_dims(sign(first), axis=axis)
    return y if dtype is None else astype(y, dtype)


@fast_path("x")
def vander(x: Any, /, N: int | None = None, increasing: bool = False) -> ndarray:
    """Vandermonde matrix: the powers of a vector's elements as columns, the highest first.

    Args: x: vector; N: how many columns, None: as many as elements; increasing: the lowest power
    first. Raises: ValueError (shape). Gradient: by its parts.

    >>> import cudamath as cm
    >>> cm.vander([2, 3], 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    x = require("vander", x)
    if x.ndim != 1:
        raise ValueError(f"vander: wants a vector, got shape {x.shape}")
    columns = x.size if N is None else as_integer("vander", "N", N, 0)
    base = astype(x, promote(x.dtype, np.dtype(np.int64))) if x.dtype in INTEGER_OR_BOOL else x
    powers = arange(
        columns, dtype=base.dtype if base.dtype.kind != "c" else np.float64, device=x.device
    )
    out = pow(expand_dims(base, axis=1), powers)
    return out if increasing else flip(out, axis=1)
