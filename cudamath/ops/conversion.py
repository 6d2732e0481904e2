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
from ..core.scalar import Scalar
from ..core.typing import ArrayLike, DeviceLike, DTypeLike
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


def asanyarray(
    obj: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """Make an array from any object, as ``asarray``: there are no subclasses.

    Parameters
    ----------
    obj : array_like
        Object with DLPack, ``__cuda_array_interface__`` or one of NumPy's protocols, or nested
        sequences of numbers.
    dtype : dtype_like, optional
        Dtype of the result. The default is the object's own dtype.
    order : str, optional
        Memory layout of the result, as for `asarray`.
    device : device_like, optional
        Device of the result, as for `asarray`.
    copy : bool, optional
        Whether the data are copied, as for `asarray`.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    TypeError
        The object does not consist of numbers.

    Notes
    -----
    The gradient is that of `asarray`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.asanyarray([1, 2]).tolist()
    [1, 2]
    """
    return _made("asanyarray", obj, dtype, order, device=device, copy=copy, like=like)


def _made(name: str, *args: Any, **options: Any) -> ndarray:
    """``asarray`` under another name, with which its errors begin."""
    try:
        return asarray(*args, **options)
    except MISTAKES as error:
        raise as_of(name, error) from None


@fast_path("obj", rare=("like",), scalars=False)
def ascontiguousarray(
    obj: ArrayLike, /, dtype: DTypeLike | None = None, *, like: ndarray | None = None
) -> ndarray:
    """Return an array in C order with at least one dimension.

    It is copied only if it is not in that order.

    Parameters
    ----------
    obj : array_like
        Object with DLPack, ``__cuda_array_interface__`` or one of NumPy's protocols, or nested
        sequences of numbers.
    dtype : dtype_like, optional
        Dtype of the result. The default is the object's own dtype.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    TypeError
        The object does not consist of numbers.

    Notes
    -----
    The gradient passes through unchanged.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ascontiguousarray(cm.zeros((2, 3)).T).flags.c_contiguous
    True
    """
    x = _made("ascontiguousarray", obj, dtype, like=like)
    return in_order("ascontiguousarray", x if x.ndim else ravel(x), "C")


@fast_path("obj", rare=("like",), scalars=False)
def asfortranarray(
    obj: ArrayLike, /, dtype: DTypeLike | None = None, *, like: ndarray | None = None
) -> ndarray:
    """Return an array in Fortran's order, copied only if it is not in that order.

    Parameters
    ----------
    obj : array_like
        Object with DLPack, ``__cuda_array_interface__`` or one of NumPy's protocols, or nested
        sequences of numbers.
    dtype : dtype_like, optional
        Dtype of the result. The default is the object's own dtype.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    TypeError
        The object does not consist of numbers.

    Notes
    -----
    The gradient passes through unchanged.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.asfortranarray(cm.zeros((2, 3))).flags.f_contiguous
    True
    """
    x = _made("asfortranarray", obj, dtype, like=like)
    return in_order("asfortranarray", x if x.ndim else ravel(x), "F")


def copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Assign to the elements of an array where a condition holds.

    Dst[...] = src. `src` is broadcast.

    Parameters
    ----------
    dst : ndarray
        Array that is changed in place.
    src : array_like
        Array or scalar, broadcast to the shape of `dst`.
    casting : str, default "same_kind"
        NumPy's casting rule. "unsafe" allows any dtype.
    where : array_like, default True
        Bool array that broadcasts. Only elements at which it is True are assigned.

    Raises
    ------
    TypeError
        A dtype is not supported.
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The operation works in place and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros(3)
    >>> cm.copyto(x, 5.0, where=[True, False, True])
    >>> x.tolist()
    [5.0, 0.0, 5.0]
    """
    if (
        where is True
        and isinstance(dst, ndarray)
        and isinstance(src, ndarray)
        and dst._layout.dtype is src._layout.dtype
        and (dst._node is None and dst._layout.shape == src._layout.shape)
    ):
        casting_rule("copyto", casting)
        if dst._layout.device < 0 or not dst._layout.contiguous or dst._owner.__class__ is ReadOnly:
            _check_writable("copyto", dst)
        dst[...] = src
        return
    if (
        isinstance(dst, ndarray)
        and isinstance(src, ndarray)
        and isinstance(where, ndarray)
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
    mask = coerce("copyto", (dst, where))[1]
    if mask.dtype != np.bool_ and not isinstance(where, list | tuple):
        raise TypeError(f"copyto: where must be bool, got {mask.dtype} of shape {mask.shape}")
    mask = _fitted("copyto", mask, dst.shape)
    dst[...] = choose(mask, astype(_fitted("copyto", src, dst.shape), dst.dtype, copy=False), dst)


def ndim(x: Any, /) -> int:
    """Number of dimensions.

    Parameters
    ----------
    x : array_like
        Array, or an object that converts to one.

    Returns
    -------
    int
        The number.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ndim([[1, 2]])
    2
    """
    return x.ndim if isinstance(x, ndarray) else int(np.ndim(x))


def shape(x: Any, /) -> tuple[int, ...]:
    """Return the lengths of the dimensions.

    Parameters
    ----------
    x : array_like
        Array, or an object that converts to one.

    Returns
    -------
    tuple of int
        Lengths of the dimensions.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.shape([[1, 2]])
    (1, 2)
    """
    return x.shape if isinstance(x, ndarray) else tuple(np.shape(x))


def size(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None) -> int:
    """Number of elements, or the length along axes.

    Parameters
    ----------
    x : array_like
        Array, or an object that converts to one.
    axis : int or tuple of int, optional
        Axes the product of whose lengths is returned. None counts all elements.

    Returns
    -------
    int
        The number.

    Raises
    ------
    AxisError
        The axis is out of range (an IndexError and a ValueError).
    TypeError
        The axis is not an integer.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.size([[1, 2]]), cm.size([[1, 2]], 0)
    (2, 1)
    """
    lengths = shape(x)
    if axis is None:
        return shapes.prod(lengths)
    axes = shapes.normalize_axes("size", axis, len(lengths))
    return shapes.prod(tuple([lengths[i] for i in axes]))


def isscalar(x: Any, /) -> bool:
    """Return whether an object is a number: of Python, of NumPy, or a value on a device.

    Arrays without dimensions are not scalars; elements and reductions over all axes are.

    Parameters
    ----------
    x : object
        Any object.

    Returns
    -------
    bool
        True if it is a number.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.isscalar(3.1), cm.isscalar(cm.asarray(3.1))
    (True, False)
    """
    return isinstance(x, Scalar) or not isinstance(x, ndarray) and bool(np.isscalar(x))


def isfortran(x: ArrayLike, /) -> bool:
    """Whether an array is in Fortran order and not in C order.

    Parameters
    ----------
    x : array_like
        Array, or an object that converts to one.

    Returns
    -------
    bool
        True if the condition holds.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.isfortran(cm.zeros((2, 3)).T)
    True
    """
    return require("isfortran", x).flags.fnc


def may_share_memory(a: ArrayLike, b: ArrayLike, /, max_work: int | None = None) -> bool:
    """Return whether the memory ranges of two arrays overlap.

    It is True if the arrays share an element, and may be True if they do not.

    Parameters
    ----------
    a, b : array_like
        Arrays of any shape and dtype.
    max_work : int, optional
        How much to try for an exact answer, as for `shares_memory`. None and 0 try nothing.

    Returns
    -------
    bool
        The answer, by default from the bounds of the memory alone.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros(4)
    >>> cm.may_share_memory(x, x[1:]), cm.may_share_memory(x, x.copy())
    (True, False)
    """
    x, y = require("may_share_memory", a), require("may_share_memory", b)
    if x.device != y.device or not x.size or not y.size:
        return False
    described = [(v._address, v.shape, v.strides, v.itemsize) for v in (x, y)]
    if max_work:
        return shapes.share_memory(*described, max_work=max_work)
    return shapes.may_overlap(*described)


def fromfunction(
    function: Callable[..., Any], shape: Sequence[int], *, dtype: DTypeLike = float, **kwargs: Any
) -> ndarray:
    """Make an array from a function of the indices.

    Function(i, j, ...) is called once with whole arrays.

    Parameters
    ----------
    function : callable
        Function of as many arrays as there are axes.
    shape : sequence of int
        Shape of the array.
    dtype : dtype_like, default float
        Dtype of the index arrays.
    **kwargs : object
        Keyword arguments of the function.

    Returns
    -------
    ndarray
        Result of the function.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        A length is not an integer, the dtype is not supported, or the first argument is not a
        function.

    Examples
    --------
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
    buffer: Any,
    dtype: DTypeLike = float,
    count: int = -1,
    offset: int = 0,
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """A vector from the bytes of a buffer; on the CPU over the same memory.

    Parameters
    ----------
    buffer : buffer
        Bytes, or any object with the buffer protocol.
    dtype : dtype_like, default float
        Dtype of the elements.
    count : int, default -1
        Number of elements. -1 reads all of them.
    offset : int, default 0
        Number of bytes to skip.
    device : device_like, optional
        Device of the result. The default is the default device.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Vector of the elements.

    Raises
    ------
    ValueError
        The size of the buffer does not fit.

    Notes
    -----
    Numbers in the other byte order (">i4") are converted.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.frombuffer(b"\\x01\\x02", dtype="uint8").tolist()
    [1, 2]
    """
    wanted = dtypes.as_dtype(dtype, "frombuffer")
    wanted = wanted.newbyteorder() if dtypes.is_swapped(dtype) else wanted
    try:
        return asarray(np.frombuffer(buffer, wanted, count, offset), device=device, like=like)
    except (TypeError, ValueError) as error:
        raise type(error)(f"frombuffer: {error}") from None


def fromiter(
    iterable: Iterable,
    /,
    dtype: DTypeLike,
    count: int = -1,
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """A vector from the numbers that an iterator gives.

    Parameters
    ----------
    iterable : Iterable
        Iterable of numbers.
    dtype : dtype_like
        Dtype of the result.
    count : int, default -1
        Number of elements to take. -1 takes all of them.
    device : device_like, optional
        Device of the result.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Vector of `count` elements.

    Raises
    ------
    ValueError
        The iterable has fewer elements.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fromiter((i * i for i in range(4)), "int64").tolist()
    [0, 1, 4, 9]
    """
    wanted = dtypes.as_dtype(dtype, "fromiter")
    try:
        return asarray(np.fromiter(iterable, wanted, count), device=device, like=like)
    except (TypeError, ValueError) as error:
        raise type(error)(f"fromiter: {error}") from error


@fast_path("x", scalars=False)
def diag(x: ArrayLike, /, k: int = 0) -> ndarray:
    """The diagonal of a matrix (a copy), or a matrix with a vector on its diagonal.

    Parameters
    ----------
    x : array_like
        Array of 1 or 2 dimensions.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.

    Returns
    -------
    ndarray
        Vector of the diagonal, or the matrix.

    Raises
    ------
    ValueError
        The array does not have 1 or 2 dimensions.

    Notes
    -----
    The gradient is the opposite operation on g.

    Examples
    --------
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


@fast_path("x", scalars=False)
def diagflat(x: ArrayLike, /, k: int = 0) -> ndarray:
    """A matrix with the elements of an array on a diagonal.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype, read in C order.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.

    Returns
    -------
    ndarray
        Square matrix with x.size + |k| rows, of x's dtype.

    Notes
    -----
    The gradient is that diagonal of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    return diag(ravel(require("diagflat", x)), shapes.as_integer("diagflat", "k", k))


@fast_path("x", scalars=False)
def diag_indices_from(x: ArrayLike, /) -> tuple[ndarray, ...]:
    """Index arrays of the main diagonal of an array with axes of one length.

    Parameters
    ----------
    x : array_like
        Array of at least 2 dimensions, all of one length n.

    Returns
    -------
    tuple of ndarray
        One int64 vector of length n for each axis.

    Raises
    ------
    ValueError
        The array has another shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.diag_indices_from(cm.zeros((2, 2)))]
    [[0, 1], [0, 1]]
    """
    x = require("diag_indices_from", x)
    if x.ndim < 2:
        raise ValueError(f"diag_indices_from: input array must be at least 2-d, got {x.shape}")
    if len(set(x.shape)) > 1:
        raise ValueError(
            f"diag_indices_from: all dimensions must be of equal length, got shape {x.shape}"
        )
    return diag_indices(x.shape[0], x.ndim, device=x.device)


def _matrix(name: str, x: Any) -> ndarray:
    x = require(name, x)
    if x.ndim != 2:
        raise ValueError(f"{name}: wants a matrix, got shape {x.shape}")
    return x


@fast_path("x", scalars=False)
def tril_indices_from(x: ArrayLike, /, k: int = 0) -> tuple[ndarray, ...]:
    """Return the ``tril_indices`` of a matrix's shape.

    Parameters
    ----------
    x : array_like
        Matrix.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.

    Returns
    -------
    tuple of ndarray
        The rows and the columns, int64 vectors.

    Raises
    ------
    ValueError
        The argument is not a matrix.

    Examples
    --------
    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.tril_indices_from(cm.zeros((2, 2)))]
    [[0, 1, 1], [0, 0, 1]]
    """
    x = _matrix("tril_indices_from", x)
    return tril_indices(
        x.shape[0], shapes.as_integer("tril_indices_from", "k", k), x.shape[1], device=x.device
    )


@fast_path("x", scalars=False)
def triu_indices_from(x: ArrayLike, /, k: int = 0) -> tuple[ndarray, ...]:
    """Return the ``triu_indices`` of a matrix's shape.

    Parameters
    ----------
    x : array_like
        Matrix.
    k : int, default 0
        Number of the diagonal, > 0 above the main diagonal.

    Returns
    -------
    tuple of ndarray
        The rows and the columns, int64 vectors.

    Raises
    ------
    ValueError
        The argument is not a matrix.

    Examples
    --------
    >>> import cudamath as cm
    >>> [i.tolist() for i in cm.triu_indices_from(cm.zeros((2, 2)))]
    [[0, 0, 1], [0, 1, 1]]
    """
    x = _matrix("triu_indices_from", x)
    return triu_indices(
        x.shape[0], shapes.as_integer("triu_indices_from", "k", k), x.shape[1], device=x.device
    )


# Arrays print themselves as NumPy's do, and by its settings.


def set_printoptions(*args: Any, **options: Any) -> None:
    """Change how arrays are printed.

    The settings are NumPy's and hold for arrays of both libraries.

    Parameters
    ----------
    *args, **options : object
        Options of NumPy's `set_printoptions`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.set_printoptions(precision=3)
    >>> cm.asarray([2 / 3])
    array([0.667], device='cpu')
    >>> cm.set_printoptions(precision=8)
    """
    np.set_printoptions(*args, **options)


def get_printoptions() -> dict[str, Any]:
    """Return the settings of printed arrays.

    Returns
    -------
    dict
        NumPy's settings.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.get_printoptions()["precision"]
    8
    """
    return dict(np.get_printoptions())


def printoptions(*args: Any, **options: Any) -> AbstractContextManager:
    """Change how arrays are printed inside a ``with`` block.

    Parameters
    ----------
    *args, **options : object
        Options of NumPy's `set_printoptions`.

    Returns
    -------
    context manager
        Context manager.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.printoptions(precision=2):
    ...     print(cm.asarray([2 / 3]))
    [0.67]
    """
    return np.printoptions(*args, **options)
