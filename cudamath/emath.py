"""`cudamath.emath`: functions whose results are complex where the numbers want it, as
`numpy.emath`.

Each of them looks at its numbers, so it waits for a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .core.array import ndarray
from .core.dispatch.checks import coerce, require
from .core.public_names import public_dir
from .core.typing import ArrayLike
from .ops import elementwise, reduce
from .ops.shape import astype

__all__ = [
    "arccos",
    "arcsin",
    "arctanh",
    "log",
    "log2",
    "log10",
    "logn",
    "power",
    "sqrt",
]

__dir__ = public_dir(__name__)

#: Dtypes whose complex numbers are complex64, as NumPy decides here.
_SHORT = {"float32", "int8", "int16", "uint8", "uint16", "complex64"}


def _complex(x: ndarray) -> ndarray:
    return astype(x, np.complex64 if x.dtype.name in _SHORT else np.complex128, copy=False)


def _complex_if_negative(name: str, x: Any) -> ndarray:
    """x, complex where a real number is negative."""
    x = require(name, x)
    return _complex(x) if x.dtype.kind != "c" and bool(reduce.any(x < 0)) else x


def _complex_beyond_one(name: str, x: Any) -> ndarray:
    """x, complex where a real number is outside of [-1, 1]."""
    x = require(name, x)
    outside = x.dtype.kind not in "cb" and bool(reduce.any((x > 1) | (x < -1)))
    return _complex(x) if outside else x


def sqrt(x: ArrayLike, /) -> ndarray:
    """Compute the square root, complex where a number is negative.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        The square roots. All are complex if one is.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.sqrt([1.0, 4.0]).tolist(), cm.emath.sqrt([-1.0, 4.0]).tolist()
    ([1.0, 2.0], [1j, (2+0j)])
    """
    return elementwise.sqrt(_complex_if_negative("sqrt", x))


def log(x: ArrayLike, /) -> ndarray:
    """Compute the natural logarithm, complex where a number is negative.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        The logarithms. All are complex if one is.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.log([-1.0]).imag.round(6).tolist()
    [3.141593]
    """
    return elementwise.log(_complex_if_negative("log", x))


def log2(x: ArrayLike, /) -> ndarray:
    """Compute the logarithm to base 2, complex where a number is negative.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        The logarithms. All are complex if one is.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.log2([8.0]).tolist()
    [3.0]
    """
    return elementwise.log2(_complex_if_negative("log2", x))


def log10(x: ArrayLike, /) -> ndarray:
    """Compute the logarithm to base 10, complex where a number is negative.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        The logarithms. All are complex if one is.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.log10([100.0]).tolist()
    [2.0]
    """
    return elementwise.log10(_complex_if_negative("log10", x))


def logn(n: ArrayLike, x: ArrayLike, /) -> ndarray:
    """Compute the logarithm to base n, complex where a number is negative.

    Parameters
    ----------
    n : array_like
        Bases.
    x : array_like
        Numbers. Both broadcast.

    Returns
    -------
    ndarray
        The quotients log(x) / log(n).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.logn(2, [4.0, 8.0]).tolist()
    [2.0, 3.0]
    """
    x = _complex_if_negative("logn", x)
    (_, n) = coerce("logn", (x, n))
    return elementwise.log(x) / elementwise.log(_complex_if_negative("logn", n))


def power(x: ArrayLike, p: ArrayLike, /) -> ndarray:
    """Raise to a power, complex where a base is negative.

    Parameters
    ----------
    x : array_like
        Bases.
    p : array_like
        Exponents, which become floats where one is negative. Both broadcast.

    Returns
    -------
    ndarray
        The powers. All are complex if a base is negative.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.power([2, 4], -1).tolist()
    [0.5, 0.25]
    """
    x = _complex_if_negative("power", x)
    (_, p) = coerce("power", (x, p))
    if p.dtype.kind == "i" and bool(reduce.any(p < 0)):
        p = astype(p, np.float64)
    return elementwise.pow(x, p)


def arccos(x: ArrayLike, /) -> ndarray:
    """Compute the inverse cosine, complex where a number is outside of [-1, 1].

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        The angles. All are complex if one is.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.arccos([1.0]).tolist()
    [0.0]
    """
    return elementwise.acos(_complex_beyond_one("arccos", x))


def arcsin(x: ArrayLike, /) -> ndarray:
    """Compute the inverse sine, complex where a number is outside of [-1, 1].

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        The angles. All are complex if one is.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.arcsin([0.0]).tolist()
    [0.0]
    """
    return elementwise.asin(_complex_beyond_one("arcsin", x))


def arctanh(x: ArrayLike, /) -> ndarray:
    """Compute the inverse hyperbolic tangent, complex where a number is outside of [-1, 1].

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        The results. All are complex if one is.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.emath.arctanh([0.0]).tolist()
    [0.0]
    """
    return elementwise.atanh(_complex_beyond_one("arctanh", x))
