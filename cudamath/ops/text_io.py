"""Arrays as text and from text, and what else happens on the host, by NumPy's names. NumPy does the
reading and writing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core import shapes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.checks import coerce, members, require_function, speaks_for
from ..core.dispatch.checks import require as taken
from ..core.dispatch.op import NUMERIC
from ..core.scalar import Scalar
from ..core.typing import ArrayLike, DeviceLike, DTypeLike, File
from ..runtime.files import naming, whole_file
from .creation import _beside
from .index_grids import indices
from .masks import nonzero
from .shape import in_order

__all__ = [
    "array2string",
    "array_repr",
    "array_str",
    "asarray_chkfinite",
    "common_type",
    "fromfile",
    "fromstring",
    "genfromtxt",
    "loadtxt",
    "mask_indices",
    "min_scalar_type",
    "ndenumerate",
    "require",
    "savetxt",
    "shares_memory",
]


def array2string(x: ArrayLike, *args: Any, **kwargs: Any) -> str:
    """Return the values of an array as text, in NumPy's layout.

    The call waits for the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    *args : object
        Positional arguments of NumPy's `array2string`.
    **kwargs : object
        Keyword arguments of NumPy's `array2string`.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.array2string(cm.asarray([0.5, 2.0]), precision=1, separator=", ")
    '[0.5, 2. ]'
    """
    return np.array2string(taken("array2string", x)._alias().to_numpy(), *args, **kwargs)


def array_repr(x: ArrayLike, *args: Any, **kwargs: Any) -> str:
    """Return an array as `repr` shows it.

    The call waits for the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    *args : object
        Positional arguments of NumPy's `array_repr`.
    **kwargs : object
        Keyword arguments of NumPy's `array_repr`.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.array_repr(cm.asarray([1, 2]))
    'array([1, 2])'
    """
    return np.array_repr(taken("array_repr", x)._alias().to_numpy(), *args, **kwargs)


def array_str(x: ArrayLike, *args: Any, **kwargs: Any) -> str:
    """Return an array as `str` shows it.

    The call waits for the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    *args : object
        Positional arguments of NumPy's `array_str`.
    **kwargs : object
        Keyword arguments of NumPy's `array_str`.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.array_str(cm.asarray([1, 2]))
    '[1 2]'
    """
    return np.array_str(taken("array_str", x)._alias().to_numpy(), *args, **kwargs)


@speaks_for("loadtxt")
def loadtxt(fname: File, *args: Any, device: DeviceLike | None = None, **kwargs: Any) -> Any:
    """An array from a text file of numbers.

    Parameters
    ----------
    fname : path_like, file or sequence of str
        Path, open file or list of lines.
    *args : object
        Positional arguments of NumPy's `loadtxt`.
    device : device_like, optional
        Device of the result.
    **kwargs : object
        Keyword arguments of NumPy's `loadtxt`.

    Returns
    -------
    ndarray or list of ndarray
        The array. With unpack=True and several dtypes a list of arrays.

    Raises
    ------
    Exception
        As for NumPy's function of this name.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.loadtxt(["1 2", "3 4"]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    with naming("loadtxt", fname, "read"):
        read = np.loadtxt(fname, *args, **kwargs)
    return (
        [asarray(a, device=device) for a in read]
        if isinstance(read, list)
        else asarray(read, device=device)
    )


@speaks_for("genfromtxt")
def genfromtxt(fname: File, *args: Any, device: DeviceLike | None = None, **kwargs: Any) -> ndarray:
    """An array from a text file of numbers in which some may be missing.

    Parameters
    ----------
    fname : path_like, file or sequence of str
        Path, open file or list of lines.
    *args : object
        Positional arguments of NumPy's `genfromtxt`.
    device : device_like, optional
        Device of the result.
    **kwargs : object
        Keyword arguments of NumPy's `genfromtxt`.

    Returns
    -------
    ndarray
        The numbers.

    Raises
    ------
    TypeError
        The columns are of different kinds (structured arrays).
    Exception
        As for NumPy's function of this name.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.genfromtxt(["1,,3"], delimiter=",", filling_values=0).tolist()
    [1.0, 0.0, 3.0]
    """
    with naming("genfromtxt", fname, "read"):
        read = np.genfromtxt(fname, *args, **kwargs)
    return asarray(read, device=device, name="genfromtxt")


def savetxt(fname: File, X: ArrayLike, *args: Any, **kwargs: Any) -> None:  # noqa: N803  NumPy's names
    """Write an array of one or two dimensions to a text file.

    The call waits for the device. A file given by its path appears whole or not at all.

    Parameters
    ----------
    fname : path_like or file
        Path or open file.
    X : array_like
        Array of one or two dimensions.
    *args : object
        Positional arguments of NumPy's `savetxt`.
    **kwargs : object
        Keyword arguments of NumPy's `savetxt`.

    Examples
    --------
    >>> import io, cudamath as cm
    >>> text = io.StringIO()
    >>> cm.savetxt(text, cm.asarray([[1, 2]]), fmt="%d")
    >>> text.getvalue()
    '1 2\\n'
    """
    host = taken("savetxt", X)._alias().to_numpy()
    if not isinstance(fname, str | os.PathLike):
        with naming("savetxt", fname):
            np.savetxt(fname, host, *args, **kwargs)
        return
    ending = os.path.splitext(fname)[1]  # by which NumPy knows what to compress
    with whole_file("savetxt", fname, ending=ending, special=True) as beside:
        np.savetxt(beside, host, *args, **kwargs)


@speaks_for("fromfile")
def fromfile(
    file: File,
    dtype: DTypeLike = float,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
    *,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """An array from a file of bytes, or (sep given) of text, as `ndarray.tofile` writes it.

    Parameters
    ----------
    file : path_like or file
        Path or open file.
    dtype : dtype_like, default float
        Dtype of the elements.
    count : int, default -1
        Number of elements. -1 reads all of them.
    sep : str, default ""
        Separator of the numbers in a text. "" reads bytes.
    offset : int, default 0
        Number of bytes to skip.
    device : device_like, optional
        Device of the result.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Vector of the elements.

    Raises
    ------
    Exception
        As for NumPy's function of this name.

    Examples
    --------
    >>> import os, tempfile, cudamath as cm
    >>> path = os.path.join(tempfile.mkdtemp(), "x")
    >>> cm.asarray([1.0, 2.0]).tofile(path)
    >>> cm.fromfile(path).tolist()
    [1.0, 2.0]
    """
    with naming("fromfile", file, "read"):
        read = np.fromfile(file, dtype, count, sep, offset=offset)
    return asarray(read, device=_beside("fromfile", like, device))


def fromstring(
    text: str,
    dtype: DTypeLike = float,
    count: int = -1,
    *,
    sep: str,
    device: DeviceLike | None = None,
    like: ndarray | None = None,
) -> ndarray:
    """An array from numbers in a text.

    Parameters
    ----------
    text : str
        Text with the numbers.
    dtype : dtype_like, default float
        Dtype of the elements.
    count : int, default -1
        Number of elements. -1 reads all of them.
    sep : str
        Separator of the numbers.
    device : device_like, optional
        Device of the result.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        Vector of the numbers.

    Raises
    ------
    ValueError
        A part of the text is not a number.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fromstring("1, 2, 3", dtype="int32", sep=",").tolist()
    [1, 2, 3]
    """
    return asarray(
        speaks_for("fromstring")(np.fromstring)(text, dtype, count, sep=sep),
        device=_beside("fromstring", like, device),
    )


def ndenumerate(x: ArrayLike, /) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Return an iterator of (index, value) for every element, in C order.

    The values are fetched at once, and the call waits for the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    iterator of tuple of (tuple of int, object)
        Iterator of pairs (index, value).

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> [(i, int(v)) for i, v in cm.ndenumerate(cm.asarray([[1, 2]]))]
    [((0, 0), 1), ((0, 1), 2)]
    """
    return iter(np.ndenumerate(taken("ndenumerate", x).to_numpy()))


@speaks_for("asarray_chkfinite")
def asarray_chkfinite(
    x: ArrayLike, /, dtype: DTypeLike | None = None, order: str | None = None
) -> ndarray:
    """Make an array from an object, and check that all elements are finite.

    The check waits for the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    dtype : dtype_like, optional
        Dtype of the result. The default is the object's own dtype.
    order : str, optional
        Memory layout of the result, "C" or "F". The data are copied if they have another one.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    ValueError
        An element is infinite or NaN.

    Notes
    -----
    The gradient passes through unchanged.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.asarray_chkfinite([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    from .creation import asarray as ordered
    from .elementwise import isfinite

    x = ordered(x, dtype, order)
    if not bool(isfinite(x).all()):
        raise ValueError(
            f"asarray_chkfinite: array must not contain infs or NaNs, got some in {x.dtype} of "
            f"shape {x.shape}"
        )
    return x


def require(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    requirements: str | Sequence[str] | None = None,
    *,
    like: ndarray | None = None,
) -> ndarray:
    """Return an array of a dtype that meets requirements, copied only if it does not.

    Parameters
    ----------
    x : array_like
        Array or array-like.
    dtype : dtype_like, optional
        Dtype of the result.
    requirements : str or sequence of str, optional
        "C" (C order), "F" (Fortran's order), "O" (owns its memory) and "W" (can be written to),
        also by their long names. "A" and "E" (aligned, a base-class array) always hold.
    like : ndarray, optional
        Array on whose device the result is made, unless `device` is given.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    ValueError
        A requirement is unknown, or both "C" and "F" are given.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.require(cm.zeros((2, 3)).T, requirements="C").flags.c_contiguous
    True
    """
    names = {
        "C": "C",
        "C_CONTIGUOUS": "C",
        "CONTIGUOUS": "C",
        "F": "F",
        "F_CONTIGUOUS": "F",
        "FORTRAN": "F",
        **dict.fromkeys(("O", "OWNDATA"), "O"),
        **dict.fromkeys(("W", "WRITEABLE"), "W"),
        **dict.fromkeys(("A", "ALIGNED", "E", "ENSUREARRAY"), ""),
    }
    wanted = (
        list(requirements)
        if isinstance(requirements, str) and len(requirements) < 4
        else (
            [requirements]
            if isinstance(requirements, str)
            else members("require", requirements or (), "letters")
        )
    )
    if not all(isinstance(r, str) for r in wanted):
        raise TypeError(f"require: wants requirements as letters, got {requirements!r:.60}")
    unknown = [r for r in wanted if r.upper() not in names]
    kinds = {names[r.upper()] for r in wanted if r.upper() in names}
    orders = kinds & {"C", "F"}
    if unknown or len(orders) > 1:
        raise ValueError(
            f"require: wants some of C, F, A, W, O and E, not both orders, got {requirements!r}"
        )
    x = x.own_array() if isinstance(x, Scalar) else x  # what is written must not change it
    x = asarray(x, dtype, _beside("require", like, None), name="require")
    x = in_order("require", x, orders.pop()) if orders else x
    lacking = "O" in kinds and not x.flags.owndata or "W" in kinds and not x.flags.writeable
    return in_order("require", x, "K", copy=True) if lacking else x


def common_type(*arrays: ArrayLike) -> type:
    """Return the floating-point scalar type that holds the values of all arrays.

    It is float64 where there are integers.

    Parameters
    ----------
    *arrays : array_like
        Numeric arrays.

    Returns
    -------
    type
        NumPy scalar type.

    Raises
    ------
    TypeError
        An array is bool or bfloat16.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.common_type(cm.zeros(2, dtype="float32"), cm.zeros(2, dtype="complex64")).__name__
    'complex64'
    """
    found = [x.dtype for x in coerce("common_type", arrays, NUMERIC)]
    try:
        return np.common_type(*[np.empty(0, dtype) for dtype in found])
    except TypeError:
        raise TypeError(
            f"common_type: NumPy has no scalar type for {', '.join(map(str, found))}"
        ) from None


def min_scalar_type(x: Any, /) -> np.dtype:
    """The smallest dtype that holds a number; of an array of more dimensions its own dtype.

    Parameters
    ----------
    x : array_like
        A number or an array.

    Returns
    -------
    numpy.dtype
        The dtype.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.min_scalar_type(300)
    dtype('uint16')
    """
    if isinstance(x, ndarray) and x.ndim:
        return x.dtype
    return np.min_scalar_type(x._alias().to_numpy() if isinstance(x, ndarray) else x)


def mask_indices(n: int, mask: Callable[..., Any], k: Any = 0) -> tuple[ndarray, ...]:
    """Return the positions that a function such as `triu` keeps in an n x n matrix.

    The call waits for the device.

    Parameters
    ----------
    n : int
        Number of rows and of columns.
    mask : callable
        Function of (matrix, k) that returns a matrix.
    k : object, default 0
        Second argument of `mask`.

    Returns
    -------
    tuple of ndarray
        The rows and the columns, int64 vectors.

    Raises
    ------
    TypeError
        `n` is not an integer.
    ValueError
        `n` is negative.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.tolist() for a in cm.mask_indices(2, cm.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    require_function("mask_indices", mask)
    n = shapes.as_integer("mask_indices", "n", n, 0)
    i, j = indices((n, n))
    return nonzero(mask(i * 0 + j * 0 + 1, k) != 0)


def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: int | None = None) -> bool:
    """Return whether two arrays share the memory of an element.

    The answer is exact, whereas `may_share_memory` compares bounds.

    Parameters
    ----------
    a, b : array_like
        Arrays of any shape and dtype.
    max_work : int, optional
        Amount of work after which the search ends with TooHardError, as in NumPy. None is no limit.

    Returns
    -------
    bool
        True if they share an element.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros(6)
    >>> cm.shares_memory(x[::2], x[1::2]), cm.shares_memory(x[::2], x[::3])
    (False, True)
    """
    x, y = taken("shares_memory", a), taken("shares_memory", b)
    if x.device != y.device:
        return False
    return shapes.share_memory(
        *[(v._address, v.shape, v.strides, v.itemsize) for v in (x, y)], max_work=max_work
    )
