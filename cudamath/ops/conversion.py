"""Arrays from other things and facts about them, by NumPy's names: in an order, from functions,
buffers and iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..core import dtypes, shapes
from ..core.array import ReadOnly, ndarray
from ..core.autograd.mutation import wrote
from ..core.dispatch.checks import MISTAKES, as_of, coerce, require, require_function
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import apart
from .creation import asarray
from .index import _check_writable, _fitted
from .index_grids import diag_indices, indices, tril_indices, triu_indices
from .out_argument import can_write, casting_rule, in_place
from .shape import _copy, _unview, astype, diagonal, in_order, ravel
from .where import _where_into
from .where import where as choose

__all__ = [
    "asanyarray",
    "ascontiguousarray",
    "asfortranarray",
    "copyto",
    "diag",
    "diag_indices_from",
    "diagflat",
    "frombuffer",
    "fromfunction",
    "fromiter",
    "get_printoptions",
    "isfortran",
    "isscalar",
    "may_share_memory",
    "ndim",
    "printoptions",
    "set_printoptions",
    "shape",
    "size",
    "tril_indices_from",
    "triu_indices_from",
]


def asanyarray(obj: Any, /, dtype: Any = None, order: str | None = None) -> ndarray:
    """``asarray``: there are no subclasses.

    Args, Returns, Raises, Gradient: as for ``asarray``.

    >>> import cudamath as cm
    >>> cm.asanyarray([1, 2]).tolist()
    [1, 2]
    """
    return _made("asanyarray", obj, dtype, order)


def _made(name: str, *args: Any) -> ndarray:
    """``asarray`` under another name, with which its errors begin."""
    try:
        return asarray(*args)
    except MISTAKES as error:
        raise as_of(name, error) from None


@fast_path("obj")
def ascontiguousarray(obj: Any, /, dtype: Any = None) -> ndarray:
    """An array of at least one dimension in C order, copied if it is not.

    Args: as for ``asarray``. Returns: ndarray. Raises: as ``asarray``. Gradient: passes through.

    >>> import cudamath as cm
    >>> cm.ascontiguousarray(cm.zeros((2, 3)).T).flags.c_contiguous
    True
    """
    x = _made("ascontiguousarray", obj, dtype)
    return in_order("ascontiguousarray", x if x.ndim else ravel(x), "C")


@fast_path("obj")
def asfortranarray(obj: Any, /, dtype: Any = None) -> ndarray:
    """An array in Fortran's order, copied if it is not.

    Args: as for ``asarray``. Returns: ndarray. Raises: as ``asarray``. Gradient: passes through.

    >>> import cudamath as cm
    >>> cm.asfortranarray(cm.zeros((2, 3))).flags.f_contiguous
    True
    """
    return in_order("asfortranarray", _made("asfortranarray", obj, dtype), "F")


def copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """dst[...] = src, where a condition holds; src is broadcast.

    Args: dst: array, changed in place; src: array or scalar; casting: NumPy's rule, "unsafe" for
    any dtype; where: bool array that broadcasts. Raises: TypeError (dtypes), ValueError (shapes).
    Gradient: none, in place.

    >>> import cudamath as cm
    >>> x = cm.zeros(3)
    >>> cm.copyto(x, 5.0, where=[True, False, True])
    >>> x.tolist()
    [5.0, 0.0, 5.0]
    """
    if (
        where is True
        and type(dst) is type(src) is ndarray
        and dst._layout.dtype is src._layout.dtype
        and (dst._node is None and dst._layout.shape == src._layout.shape)
    ):
        casting_rule("copyto", casting)
        if dst._layout.device < 0 or not dst._layout.contiguous or dst._owner.__class__ is ReadOnly:
            _check_writable("copyto", dst)
        dst[...] = src
        return
    if (
        type(dst) is type(src) is type(where) is ndarray
        and dst._node is None is src._node
        and (
            dst._layout.device == src._layout.device == where._layout.device >= 0
            and dst._layout.dtype is src._layout.dtype
            and where._layout.dtype == np.bool_
            and dst._layout.size
            and dst._owner.__class__ is not ReadOnly  # written there
            and dst.shape == src.shape == where.shape
            and apart(dst, src)
            and apart(dst, where)
        )
    ):
        casting_rule("copyto", casting)
        wrote(dst)
        _where_into(dst, where, src)
        return
    dst = in_place("copyto", dst)
    _check_writable("copyto", dst)
    number = isinstance(src, bool | int | float | complex)
    kind = np.dtype(type(src)) if number else None
    if kind is None:
        src = coerce("copyto", (dst, src))[1]
        kind = src.dtype
    elif (
        kind.kind == dst.dtype.kind or kind.kind == "i" and dst.dtype.kind == "u"
    ):  # a number as large as it is
        kind = dst.dtype
    if not can_write(kind, dst.dtype, casting_rule("copyto", casting)):
        raise TypeError(
            f"copyto: {kind} cannot become {dst.dtype} of shape {dst.shape} by the rule {casting!r}"
        )
    if where is True:
        dst[...] = src if number else _fitted("copyto", src, dst.shape)
        return
    src = src if isinstance(src, ndarray) else asarray(src, dst.dtype, device=dst.device)
    mask = _fitted("copyto", coerce("copyto", (dst, where))[1], dst.shape)
    dst[...] = choose(mask, astype(_fitted("copyto", src, dst.shape), dst.dtype, copy=False), dst)


def ndim(x: Any, /) -> int:
    """Number of dimensions.

    Args: x: array, or what becomes one. Returns: int.

    >>> import cudamath as cm
    >>> cm.ndim([[1, 2]])
    2
    """
    return x.ndim if isinstance(x, ndarray) else int(np.ndim(x))


def shape(x: Any, /) -> tuple[int, ...]:
    """Lengths of the dimensions.

    Args: x: array, or what becomes one. Returns: tuple of ints.

    >>> import cudamath as cm
    >>> cm.shape([[1, 2]])
    (1, 2)
    """
    return x.shape if isinstance(x, ndarray) else tuple(np.shape(x))


def size(x: Any, /, axis: int | None = None) -> int:
    """Number of elements, or the length along an axis.

    Args: x: array, or what becomes one; axis: None for all elements. Returns: int. Raises:
    AxisError, an IndexError and ValueError, for an axis out of range; TypeError for one that is no
    integer.

    >>> import cudamath as cm
    >>> cm.size([[1, 2]]), cm.size([[1, 2]], 0)
    (2, 1)
    """
    lengths = shape(x)
    return (
        shapes.prod(lengths)
        if axis is None
        else lengths[shapes.normalize_axis("size", axis, len(lengths))]
    )


def isscalar(x: Any, /) -> bool:
    """Whether something is a Python or NumPy number (0-d arrays are not).

    >>> import cudamath as cm
    >>> cm.isscalar(3.1), cm.isscalar(cm.asarray(3.1))
    (True, False)
    """
    return not isinstance(x, ndarray) and bool(np.isscalar(x))


def isfortran(x: Any, /) -> bool:
    """Whether an array is in Fortran order and not in C order.

    Args: x: array, or what becomes one. Returns: bool.

    >>> import cudamath as cm
    >>> cm.isfortran(cm.zeros((2, 3)).T)
    True
    """
    return require("isfortran", x).flags.fnc


def may_share_memory(a: Any, b: Any, /) -> bool:
    """Whether the memory ranges of two arrays overlap: True if they share an element, and maybe if
    they do not.

    Args: a, b: arrays. Returns: bool, from the bounds of their memory alone.

    >>> import cudamath as cm
    >>> x = cm.zeros(4)
    >>> cm.may_share_memory(x, x[1:]), cm.may_share_memory(x, x.copy())
    (True, False)
    """
    x, y = require("may_share_memory", a), require("may_share_memory", b)
    if x.device != y.device or not x.size or not y.size:
        return False
    described = [(v.ptr, v.shape, v.strides, v.itemsize) for v in (x, y)]
    return shapes.may_overlap(*described)


def fromfunction(
    function: Callable[..., Any], shape: Sequence[int], *, dtype: Any = float, **kwargs: Any
) -> ndarray:
    """An array made by a function of the indices: function(i, j, ...), called once with whole
    arrays.

    Args: function: of as many arrays as there are axes; shape: the shape; dtype: of the indices;
    kwargs: passed on. Returns: what the function returns. Raises: ValueError for a negative length,
    TypeError (lengths, dtype, no function).

    >>> import cudamath as cm
    >>> cm.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=int).tolist()
    [[0, 1, 2], [10, 11, 12]]
    """
    require_function("fromfunction", function)
    places = indices(
        shapes.normalize_shape("fromfunction", shape), dtypes.as_dtype(dtype, "fromfunction")
    )
    return function(*places, **kwargs)


def frombuffer(
    buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0, *, device: Any = None
) -> ndarray:
    """A vector from the bytes of a buffer; on the CPU over the same memory.

    Args: buffer: bytes or anything with the buffer protocol; dtype: of the elements; count: how
    many, -1: all; offset: bytes to leave out. Raises: ValueError if the size does not fit. Numbers
    in the other byte order (">i4") are converted.

    >>> import cudamath as cm
    >>> cm.frombuffer(b"\\x01\\x02", dtype="uint8").tolist()
    [1, 2]
    """
    wanted = dtypes.as_dtype(dtype, "frombuffer")
    wanted = wanted.newbyteorder() if dtypes.is_swapped(dtype) else wanted
    try:
        return asarray(np.frombuffer(buffer, wanted, count, offset), device=device)
    except (TypeError, ValueError) as error:
        raise type(error)(f"frombuffer: {error}") from None


def fromiter(iterable: Iterable, /, dtype: Any, count: int = -1, *, device: Any = None) -> ndarray:
    """A vector from the numbers that an iterator gives.

    Args: iterable: of numbers; dtype: of the result; count: how many to take, -1 for all; device:
    of the result. Returns: vector of `count` elements. Raises: ValueError if there are fewer.

    >>> import cudamath as cm
    >>> cm.fromiter((i * i for i in range(4)), "int64").tolist()
    [0, 1, 4, 9]
    """
    wanted = dtypes.as_dtype(dtype, "fromiter")
    try:
        return asarray(np.fromiter(iterable, wanted, count), device=device)
    except (TypeError, ValueError) as error:
        raise type(error)(f"fromiter: {error}") from error


@fast_path("x")
def diag(x: Any, /, k: int = 0) -> ndarray:
    """The diagonal of a matrix (a copy), or a matrix with a vector on its diagonal.

    Args: x: array of 1 or 2 dimensions; k: which diagonal, > 0 above the main one. Raises:
    ValueError for other dimensions. Gradient: the other way round.

    >>> import cudamath as cm
    >>> cm.diag(cm.asarray([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    x, k = require("diag", x), shapes.as_integer("diag", "k", k)
    if x.ndim == 2:
        return _copy(diagonal(x, offset=k))
    if x.ndim != 1:
        raise ValueError(f"diag: wants 1 or 2 dimensions, got shape {x.shape}")
    n = x.size + abs(k)
    return _unview(x, shape=(n, n), view=(x.shape, (n + 1,), k if k >= 0 else -k * n))


@fast_path("x")
def diagflat(x: Any, /, k: int = 0) -> ndarray:
    """A matrix with the elements of an array on a diagonal.

    Args: x: any array, read in C order; k: which diagonal, > 0 above the main one. Returns: square
    matrix with x.size + |k| rows, of x's dtype. Gradient: that diagonal of g.

    >>> import cudamath as cm
    >>> cm.diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    return diag(ravel(require("diagflat", x)), shapes.as_integer("diagflat", "k", k))


@fast_path("x")
def diag_indices_from(x: Any, /) -> tuple[ndarray, ...]:
    """Index arrays of the main diagonal of an array with axes of one length.

    Args: x: array of at least 2 dimensions, all of one length n. Returns: x.ndim int64 vectors of
    length n. Raises: ValueError for another shape.

    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.diag_indices_from(cm.zeros((2, 2)))]
    [[0, 1], [0, 1]]
    """
    x = require("diag_indices_from", x)
    if x.ndim < 2 or len(set(x.shape)) > 1:
        raise ValueError(
            f"diag_indices_from: wants at least 2 axes of one length, got shape {x.shape}"
        )
    return diag_indices(x.shape[0], x.ndim, device=x.device)


def _matrix(name: str, x: Any) -> ndarray:
    x = require(name, x)
    if x.ndim != 2:
        raise ValueError(f"{name}: wants a matrix, got shape {x.shape}")
    return x


@fast_path("x")
def tril_indices_from(x: Any, /, k: int = 0) -> tuple[ndarray, ...]:
    """``tril_indices`` of a matrix's shape.

    Args: x: matrix; k: which diagonal, > 0 above the main one. Returns: two int64 vectors (rows,
    columns). Raises: ValueError if it is not a matrix.

    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.tril_indices_from(cm.zeros((2, 2)))]
    [[0, 1, 1], [0, 0, 1]]
    """
    x = _matrix("tril_indices_from", x)
    return tril_indices(
        x.shape[0], shapes.as_integer("tril_indices_from", "k", k), x.shape[1], device=x.device
    )


@fast_path("x")
def triu_indices_from(x: Any, /, k: int = 0) -> tuple[ndarray, ...]:
    """``triu_indices`` of a matrix's shape.

    Args: x: matrix; k: which diagonal, > 0 above the main one. Returns: two int64 vectors (rows,
    columns). Raises: ValueError if it is not a matrix.

    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.triu_indices_from(cm.zeros((2, 2)))]
    [[0, 0, 1], [0, 1, 1]]
    """
    x = _matrix("triu_indices_from", x)
    return triu_indices(
        x.shape[0], shapes.as_integer("triu_indices_from", "k", k), x.shape[1], device=x.device
    )


# Arrays print themselves as NumPy's do, and by its settings.


def set_printoptions(**options: Any) -> None:
    """How arrays are printed: NumPy's ``set_printoptions``, whose settings hold for arrays of both
    libraries.

    >>> import cudamath as cm
    >>> cm.set_printoptions(precision=3)
    >>> cm.asarray([2 / 3])
    array([0.667])
    >>> cm.set_printoptions(precision=8)
    """
    np.set_printoptions(**options)


def get_printoptions() -> dict[str, Any]:
    """How arrays are printed.

    Returns: dict of NumPy's settings.

    >>> import cudamath as cm
    >>> cm.get_printoptions()["precision"]
    8
    """
    return dict(np.get_printoptions())


def printoptions(**options: Any) -> AbstractContextManager:
    """How arrays are printed inside a ``with`` block.

    >>> import cudamath as cm
    >>> with cm.printoptions(precision=2):
    ...     print(cm.asarray([2 / 3]))
    [0.67]
    """
    return np.printoptions(**options)
