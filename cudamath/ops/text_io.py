"""Arrays as text and from text, and what else happens on the host, by NumPy's names. NumPy does the
reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core import shapes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.checks import coerce, members, require_function, speaks_for
from ..core.dispatch.checks import require as taken
from ..core.dispatch.op import NUMERIC
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


def array2string(x: Any, *args: Any, **kwargs: Any) -> str:
    """An array's values as text, in NumPy's layout. Further arguments: those of NumPy's
    `array2string`. Waits for the device.

    >>> import cudamath as cm
    >>> cm.array2string(cm.asarray([0.5, 2.0]), precision=1, separator=", ")
    '[0.5, 2. ]'
    """
    return np.array2string(taken("array2string", x).to_numpy(), *args, **kwargs)


def array_repr(x: Any, *args: Any, **kwargs: Any) -> str:
    """An array as `repr` shows it. Further arguments: those of NumPy's `array_repr`. Waits for the
    device.

    >>> import cudamath as cm
    >>> cm.array_repr(cm.asarray([1, 2]))
    'array([1, 2])'
    """
    return np.array_repr(taken("array_repr", x).to_numpy(), *args, **kwargs)


def array_str(x: Any, *args: Any, **kwargs: Any) -> str:
    """An array as `str` shows it. Further arguments: those of NumPy's `array_str`. Waits for the
    device.

    >>> import cudamath as cm
    >>> cm.array_str(cm.asarray([1, 2]))
    '[1 2]'
    """
    return np.array_str(taken("array_str", x).to_numpy(), *args, **kwargs)


def loadtxt(fname: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """An array from a text file of numbers.

    Args: fname: path, open file or list of lines; device: of the result; all else as for NumPy's
    `loadtxt`. Returns: array (with unpack=True of several dtypes a list). Raises: what NumPy
    raises.

    >>> import cudamath as cm
    >>> cm.loadtxt(["1 2", "3 4"]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    read = np.loadtxt(fname, *args, **kwargs)
    return (
        [asarray(a, device=device) for a in read]
        if isinstance(read, list)
        else asarray(read, device=device)
    )


def genfromtxt(fname: Any, *args: Any, device: Any = None, **kwargs: Any) -> ndarray:
    """An array from a text file of numbers in which some may be missing.

    Args: fname: path, open file or list of lines; device: of the result; all else as for NumPy's
    `genfromtxt`. Raises: what NumPy raises; TypeError for columns of different kinds (structured
    arrays).

    >>> import cudamath as cm
    >>> cm.genfromtxt(["1,,3"], delimiter=",", filling_values=0).tolist()
    [1.0, 0.0, 3.0]
    """
    return asarray(np.genfromtxt(fname, *args, **kwargs), device=device, name="genfromtxt")


def savetxt(fname: Any, X: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N803  NumPy's names
    """Write an array of one or two dimensions to a text file. Arguments: those of NumPy's
    `savetxt`. Waits for the device.

    >>> import io, cudamath as cm
    >>> text = io.StringIO()
    >>> cm.savetxt(text, cm.asarray([[1, 2]]), fmt="%d")
    >>> text.getvalue()
    '1 2\\n'
    """
    np.savetxt(fname, taken("savetxt", X).to_numpy(), *args, **kwargs)


def fromfile(
    file: Any,
    dtype: Any = float,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
    *,
    device: Any = None,
) -> ndarray:
    """An array from a file of bytes, or (sep given) of text, as `ndarray.tofile` writes it.

    Args: file: path or open file; dtype: of the elements; count: how many, -1: all; sep: between
    numbers, "" for bytes; offset: bytes to skip; device: of the result. Raises: what NumPy raises.

    >>> import os, tempfile, cudamath as cm
    >>> path = os.path.join(tempfile.mkdtemp(), "x")
    >>> cm.asarray([1.0, 2.0]).tofile(path)
    >>> cm.fromfile(path).tolist()
    [1.0, 2.0]
    """
    return asarray(np.fromfile(file, dtype, count, sep, offset=offset), device=device)


def fromstring(
    text: str, dtype: Any = float, count: int = -1, *, sep: str, device: Any = None
) -> ndarray:
    """An array from numbers in a text.

    Args: text: str; dtype: of the elements; count: how many, -1: all; sep: between the numbers;
    device: of the result. Raises: ValueError for what is not a number.

    >>> import cudamath as cm
    >>> cm.fromstring("1, 2, 3", dtype="int32", sep=",").tolist()
    [1, 2, 3]
    """
    return asarray(
        speaks_for("fromstring")(np.fromstring)(text, dtype, count, sep=sep), device=device
    )


def ndenumerate(x: Any, /) -> Iterator[tuple[tuple[int, ...], Any]]:
    """(index, value) of every element, in C order. The values are fetched at once; waits for the
    device.

    Args: x: any array. Returns: an iterator. Gradient: none.

    >>> import cudamath as cm
    >>> [(i, int(v)) for i, v in cm.ndenumerate(cm.asarray([[1, 2]]))]
    [((0, 0), 1), ((0, 1), 2)]
    """
    return iter(np.ndenumerate(taken("ndenumerate", x).to_numpy()))


@speaks_for("asarray_chkfinite")
def asarray_chkfinite(x: Any, /, dtype: Any = None, order: str | None = None) -> ndarray:
    """`asarray`, and ValueError where an element is infinite or NaN. Waits for the device.

    Args: as for ``asarray``. Returns: ndarray. Raises: ValueError; also as ``asarray``. Gradient:
    passes through.

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
    x: Any, /, dtype: Any = None, requirements: str | Sequence[str] | None = None
) -> ndarray:
    """NumPy's `require`: an array of a dtype that meets requirements, copied if it does not.

    Args: x: array-like; dtype: of the result; requirements: "C" (C order), "F" (Fortran's), also by
    their long names; "A", "W", "O" and "E" (aligned, writeable, owning, a base-class array) always
    hold. Raises: ValueError for others, or "C" and "F".

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
        **dict.fromkeys(("A", "ALIGNED", "W", "WRITEABLE", "O", "OWNDATA", "E", "ENSUREARRAY"), ""),
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
    orders = {names[r.upper()] for r in wanted if r.upper() in names} - {""}
    if unknown or len(orders) > 1:
        raise ValueError(
            f"require: wants some of C, F, A, W, O and E, not both orders, got {requirements!r}"
        )
    x = asarray(x, dtype, name="require")
    return in_order("require", x, orders.pop()) if orders else x


def common_type(*arrays: Any) -> type:
    """The floating-point scalar type that holds the values of all arrays: float64 where there are
    integers.

    Args: arrays: numeric. Returns: a NumPy scalar type. Raises: TypeError for bool and bfloat16
    arrays.

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

    Args: x: number or array. Returns: np.dtype.

    >>> import cudamath as cm
    >>> cm.min_scalar_type(300)
    dtype('uint16')
    """
    if type(x) is ndarray and x.ndim:
        return x.dtype
    return np.min_scalar_type(x.to_numpy() if type(x) is ndarray else x)


def mask_indices(n: int, mask: Callable[..., Any], k: Any = 0) -> tuple[ndarray, ...]:
    """Positions of what a function like `triu` keeps of an n x n matrix. Waits for the device.

    Args: n: rows and columns; mask: function of (matrix, k) that returns a matrix; k: its second
    argument. Returns: tuple of two int64 vectors (rows, columns). Raises: TypeError, ValueError
    (n).

    >>> import cudamath as cm
    >>> [a.tolist() for a in cm.mask_indices(2, cm.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    require_function("mask_indices", mask)
    n = shapes.as_integer("mask_indices", "n", n, 0)
    i, j = indices((n, n))
    return nonzero(mask(i * 0 + j * 0 + 1, k) != 0)


def shares_memory(a: Any, b: Any, /, max_work: int | None = None) -> bool:
    """Whether two arrays share the memory of an element: exactly, where `may_share_memory` compares
    bounds.

    Args: a, b: arrays; max_work: as in NumPy: how much to try before giving up with TooHardError;
    None: no limit.

    >>> import cudamath as cm
    >>> x = cm.zeros(6)
    >>> cm.shares_memory(x[::2], x[1::2]), cm.shares_memory(x[::2], x[::3])
    (False, True)
    """
    x, y = taken("shares_memory", a), taken("shares_memory", b)
    if x.device != y.device:
        return False
    return shapes.share_memory(
        *[(v.ptr, v.shape, v.strides, v.itemsize) for v in (x, y)], max_work=max_work
    )
