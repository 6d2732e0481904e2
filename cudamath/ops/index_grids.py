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
from ..core.fp_errors import silence
from ..core.layout import Layout
from ..core.scalar import scalar_results
from ..core.shapes import as_integer, contiguous_strides, normalize_shape, order_letter
from ..core.typing import ArrayLike, DeviceLike, DTypeLike
from .creation import asarray, zeros, zeros_like
from .elementwise import clip, equal, floor_divide, log10, pow, remainder, sign
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
    dimensions: Sequence[int],
    dtype: DTypeLike = np.int64,
    sparse: bool = False,
    *,
    device: DeviceLike | None = None,
) -> Any:
    """The indices of every element of an array of a shape.

    Parameters
    ----------
    dimensions : sequence of int
        Shape of the array, of n axes.
    dtype : dtype_like, default np.int64
        Dtype of the result.
    sparse : bool, default False
        Whether the result is a tuple of arrays that broadcast.
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray or tuple of ndarray
        Array of shape (n, *dimensions), where out[i] is the index along axis i. With `sparse` a
        tuple of n arrays.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        A length is not an integer, or the dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
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
    *arrays: ArrayLike, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> tuple[ndarray, ...]:
    """Return the coordinates of a grid.

    For each vector the result has an array of the grid's shape that varies along one axis.

    Parameters
    ----------
    *arrays : array_like
        Vectors, or scalars. Arrays of more dimensions are flattened.
    indexing : str, default "xy"
        "ij": array i varies along axis i. "xy": the first two axes are exchanged.
    sparse : bool, default False
        Whether the other axes keep the length 1.
    copy : bool, default True
        Whether the results are copies. False returns views of the vectors.

    Returns
    -------
    tuple of ndarray
        One array for each vector.

    Raises
    ------
    ValueError
        The indexing is neither "xy" nor "ij".

    Notes
    -----
    The gradient is g summed over the copies of each element.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, y = cm.meshgrid(cm.arange(3), cm.arange(2))
    >>> y
    array([[0, 0, 0],
           [1, 1, 1]], device='cpu')
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


def ix_(*vectors: ArrayLike) -> tuple[ndarray, ...]:
    """Index arrays that together select a grid: x[ix_(a, b)][i, j] is x[a[i], b[j]].

    Parameters
    ----------
    *vectors : array_like
        Vectors of integers, or of bool (the positions at which they are True).

    Returns
    -------
    tuple of ndarray
        One array for each vector, along its own axis.

    Raises
    ------
    ValueError
        An argument is not a vector.

    Examples
    --------
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
            if not isinstance(s, slice) or s.stop is None and (s.start is None or len(slices) > 1):
                raise TypeError(f"grid: wants slices with an end, got {s!r}")
            start, step = 0 if s.start is None else s.start, 1 if s.step is None else s.step
            if isinstance(step, complex):
                lines.append(linspace(start, s.stop, int(abs(step))))
            else:  # without an end up to the start, as `arange(start, None)`
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
def diag_indices(n: int, ndim: int = 2, *, device: DeviceLike | None = None) -> tuple[ndarray, ...]:
    """Index arrays of the main diagonal of an array with ``ndim`` axes of length n.

    Parameters
    ----------
    n : int
        Length of the axes.
    ndim : int, default 2
        Number of axes.
    device : device_like, optional
        Device of the result.

    Returns
    -------
    tuple of ndarray
        One int64 vector of length n for each axis.

    Raises
    ------
    TypeError
        `n` or `ndim` is not an integer.

    Examples
    --------
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
    n: int, k: int = 0, m: int | None = None, *, device: DeviceLike | None = None
) -> tuple[ndarray, ...]:
    """Index arrays of the elements on and below diagonal k of an (n, m) matrix (m: as n).

    Parameters
    ----------
    n : int
        Number of rows and of columns. `m` defaults to `n`.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.
    m : int, optional
        Number of rows and of columns. `m` defaults to `n`.
    device : device_like, optional
        Device of the result.

    Returns
    -------
    tuple of ndarray
        The rows and the columns, int64 vectors.

    Examples
    --------
    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle_places("tril_indices", n, k, m, index_of(device))


@fast_path()
def triu_indices(
    n: int, k: int = 0, m: int | None = None, *, device: DeviceLike | None = None
) -> tuple[ndarray, ...]:
    """Index arrays of the elements on and above diagonal k of an (n, m) matrix (m: as n).

    Parameters
    ----------
    n : int
        Number of rows and of columns. `m` defaults to `n`.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.
    m : int, optional
        Number of rows and of columns. `m` defaults to `n`.
    device : device_like, optional
        Device of the result.

    Returns
    -------
    tuple of ndarray
        The rows and the columns, int64 vectors.

    Examples
    --------
    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle_places("triu_indices", n, k, m, index_of(device))


def _triangle_places(name: str, n: int, k: int, m: int | None, index: int) -> tuple[ndarray, ...]:
    """The elements of an (n, m) matrix on one side of a diagonal: one launch, without counting what
    lies there."""
    rows, columns = normalize_shape(name, (n, n if m is None else m))
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


def fill_diagonal(x: ndarray, /, val: ArrayLike, wrap: bool = False) -> None:
    """Assign to the main diagonal in place: x[i, i, ...] = val.

    Parameters
    ----------
    x : ndarray
        Array of at least 2 dimensions. More than 2 dimensions must have equal lengths.
    val : array_like
        Scalar, or an array that is repeated along the diagonal. An empty one assigns nothing.
    wrap : bool, default False
        Whether the diagonal of a tall matrix begins again one row below its end.

    Raises
    ------
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The operation works in place and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros((2, 3))
    >>> cm.fill_diagonal(x, 5)
    >>> x.tolist()
    [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]
    """
    x = in_place("fill_diagonal", x)
    if x.ndim < 2:
        raise ValueError(f"fill_diagonal: array must be at least 2-d, got shape {x.shape}")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError(
            f"fill_diagonal: all dimensions must be of equal length, got shape {x.shape}"
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


@scalar_results
def unravel_index(
    indices: ArrayLike, shape: Sequence[int], order: str | None = "C"
) -> tuple[ndarray, ...]:
    """Convert positions in the flattened array to an index along each axis.

    Parameters
    ----------
    indices : array_like
        Integers from 0 to the number of elements less one.
    shape : sequence of int
        Shape of the array.
    order : str, default "C"
        Order in which the elements are numbered, "C" or "F".

    Returns
    -------
    tuple of ndarray
        One int64 array for each axis.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        An index is out of range (the host checks them), the shape has more elements than int64
        counts, or the order is unknown.

    Examples
    --------
    >>> import cudamath as cm
    >>> [int(i) for i in cm.unravel_index(5, (2, 3))]
    [1, 2]
    """
    at = astype(require("unravel_index", indices, INTEGER_OR_BOOL), np.int64, copy=False)
    sizes = normalize_shape("unravel_index", shape)
    order = order_letter("unravel_index", order, "C", "CF")
    many = math.prod(sizes)
    if many >= 1 << 63:
        raise ValueError(
            f"unravel_index: dimensions are too large: an array of shape {sizes} has no int64 "
            "indices for its elements"
        )
    numbers = view(at, np.uint64)  # among which negative ones are the largest
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


@scalar_results
def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str | Sequence[str] = "raise",
    order: str | None = "C",
) -> ndarray:
    """Convert an index along each axis to positions in the flattened array.

    It is the inverse of ``unravel_index``.

    Parameters
    ----------
    multi_index : sequence of array_like
        Integer arrays, one for each axis, that broadcast.
    dims : sequence of int
        Shape of the array.
    mode : str or sequence of str, default "raise"
        How indices out of range are treated: "raise", "wrap" or "clip", or one of these for each
        axis.
    order : str, default "C"
        Order in which the elements are numbered, "C" or "F".

    Returns
    -------
    ndarray
        Array of int64 positions.

    Raises
    ------
    ValueError
        An index is out of range (the host checks them), the numbers of arrays and axes differ, or
        the mode or the order is unknown.

    Examples
    --------
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
    order = order_letter("ravel_multi_index", order, "C", "CF")
    if len(modes) != len(sizes) or any([m not in ("raise", "wrap", "clip") for m in modes]):
        raise ValueError(
            "ravel_multi_index: mode must be 'raise', 'wrap' or 'clip', or one of these for each "
            f"axis of shape {sizes}; got {mode!r}"
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
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """Return numbers that are evenly spaced in their logarithm.

    base ** linspace(start, stop, num)

    Parameters
    ----------
    start, stop : array_like
        First and last number. Arrays broadcast and give one sequence for each element.
    num : int, default 50
        Number of elements, >= 0.
    endpoint : bool, default True
        Whether the sequence includes ``stop``.
    base : array_like, default 10.0
        A number, or an array that broadcasts with the ends.
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (complex if an end is complex).
    axis : int, default 0
        Axis of the result along which the sequences lie if the ends are arrays.
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray
        Array of the numbers.

    Raises
    ------
    ValueError
        `num` is negative.
    TypeError
        `num` is not an integer, or an end is complex and the dtype is real.

    Notes
    -----
    With respect to arrays, the gradient follows from those of the operations inside.

    Examples
    --------
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
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """Return numbers in geometric progression from ``start`` to ``stop``.

    `start` and `stop` are not 0 and have the same sign, or are complex numbers.

    Parameters
    ----------
    start, stop : array_like
        First and last number. Arrays broadcast and give one sequence for each element.
    num : int, default 50
        Number of elements, >= 0.
    endpoint : bool, default True
        Whether the sequence includes ``stop``.
    dtype : dtype_like, optional
        Dtype of the result. The default is the default float (complex if an end is complex).
    axis : int, default 0
        Axis of the result along which the sequences lie if the ends are arrays.
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray
        The result.

    Raises
    ------
    ValueError
        An end is 0, or the ends differ in sign.

    Notes
    -----
    With respect to arrays, the gradient follows from those of the operations inside.

    Examples
    --------
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
        if 0 in ends:
            raise ValueError(f"geomspace: wants ends that are not 0, got {start} and {stop}")
        with silence():  # between two signs lies nothing
            host = np.geomspace(kind(ends[0]), kind(ends[1]), num, endpoint)
        return asarray(host, scalar_dtype(kind) if dtype is None else dtype, device=device)
    first, last = coerce("geomspace", (start, stop))
    if bool(any_of(equal(first * last, 0))):
        raise ValueError(f"geomspace: wants ends that are not 0, got {start} and {stop}")
    common = result_type(first, last, 1.0)
    first, last = astype(first, common, copy=False), astype(last, common, copy=False)
    turn = sign(first)  # undone at the end, so that real numbers stay real
    y = pow(10.0, linspace(log10(first / turn), log10(last / turn), num, endpoint, axis=axis))
    y = y * expand_dims(turn, axis=axis)
    return y if dtype is None else astype(y, dtype)


@fast_path("x")
def vander(x: ArrayLike, /, N: int | None = None, increasing: bool = False) -> ndarray:
    """Vandermonde matrix: the powers of a vector's elements as columns, the highest first.

    Parameters
    ----------
    x : array_like
        Vector.
    N : int, optional
        Number of columns. None takes as many as there are elements.
    increasing : bool, default False
        Whether the lowest power comes first.

    Returns
    -------
    ndarray
        Matrix of the powers, of 64 bits: of float32 it is float64.

    Raises
    ------
    ValueError
        The argument has another shape.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.vander([2, 3], 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    x = require("vander", x)
    if x.ndim != 1:
        raise ValueError(f"vander: wants a vector, got shape {x.shape}")
    columns = x.size if N is None else as_integer("vander", "N", N, 0)
    base = astype(x, _power_dtype(x.dtype), copy=False)
    first, last, step = (0, columns, 1) if increasing else (columns - 1, -1, -1)
    kind = base.dtype if base.dtype.kind != "c" else np.float64
    return pow(expand_dims(base, axis=1), arange(first, last, step, kind, device=x.device))


def _power_dtype(own: np.dtype) -> np.dtype:
    """The dtype in which numbers of this one meet int64, with floats of the default width."""
    return promote(own, np.dtype(np.int64) if own in INTEGER_OR_BOOL else default_float())
