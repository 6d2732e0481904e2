"""dtypes: categories, promotion, storage.

Promotion is NumPy's (NEP 50: Python scalars are weak), extended with bfloat16, which promotes as
float16 does except that the two together give float32.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3 = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)


class Category(frozenset):
    """A set of dtypes with a name for error messages."""

    name: str

    def __new__(cls, name: str, dtypes: Any) -> Category:
        self = super().__new__(cls, (np.dtype(d) for d in dtypes))
        self.name = name
        return self


BOOLEAN = Category("bool", [np.bool_])
SIGNED = Category("signed integer", [np.int8, np.int16, np.int32, np.int64])
UNSIGNED = Category("unsigned integer", [np.uint8, np.uint16, np.uint32, np.uint64])
INTEGER = Category("integer", SIGNED | UNSIGNED)
FLOATING = Category("floating-point", [float16, bfloat16, float32, float64])
COMPLEX = Category("complex", [np.complex64, np.complex128])
INEXACT = Category("floating-point or complex", FLOATING | COMPLEX)
REAL = Category("real numeric", INTEGER | FLOATING)
NUMERIC = Category("numeric", REAL | COMPLEX)
INTEGER_OR_BOOL = Category("integer or bool", INTEGER | BOOLEAN)
REAL_OR_BOOL = Category("real numeric or bool", REAL | BOOLEAN)
ANY = Category("array", NUMERIC | BOOLEAN)
STORAGE = Category("storage", [float8_e4m3, float8_e5m2])
HELD = Category("array", ANY | STORAGE)  # what can be moved, reshaped and cast

_dtypes: dict[Any, np.dtype] = {}  # by what a dtype was asked for
_default_float = float64
#: Called when the default dtype changes: forgets what was worked out under the old one.
forget: list[Callable[[], None]] = []
#: Functions of the user's, as long as they are there: their `plans` are forgotten then.
planned: weakref.WeakSet[Any] = weakref.WeakSet()


def default_float() -> np.dtype:
    """The dtype of Python floats: float64 as in NumPy, unless `set_default_dtype` chose another."""
    return _default_float


def set_default_dtype(dtype: np.dtype[Any] | type[Any] | str) -> None:
    """Choose the default floating-point dtype.

    It is the dtype of Python floats, `zeros`, windows, and the mean of integers. Results that NumPy
    defines as float64 for every input (transforms and histograms of integers, files without a
    dtype) stay float64.

    Parameters
    ----------
    dtype : dtype_like
        "float64" (the default) or "float32".

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.set_default_dtype("float32")
    >>> cm.zeros(3).dtype
    dtype('float32')
    >>> cm.set_default_dtype("float64")
    """
    global _default_float
    chosen = as_dtype(dtype, "set_default_dtype")
    if chosen not in (float32, float64):
        raise TypeError(f"set_default_dtype: wants float32 or float64, got {chosen}")
    if chosen != _default_float:
        _default_float = chosen
        for clear in (*forget, *[function.plans.clear for function in planned]):
            clear()


def as_dtype(dtype: Any, name: str = "dtype") -> np.dtype:
    """A dtype from a name ('bfloat16' included), a NumPy type or a dtype; TypeError for what arrays
    cannot hold, in the name of the function that asks."""
    try:
        return _dtypes[dtype]
    except (KeyError, TypeError):  # not seen before, or nothing that a dict can look up
        pass
    if isinstance(
        dtype, np.generic
    ):  # it has a dtype and is none; and np.int64(1) is the key that np.float64(1) is
        raise TypeError(f"{name}: {dtype!r} is not a dtype")
    names = {"bfloat16": bfloat16, "float8_e4m3": float8_e4m3, "float8_e5m2": float8_e5m2}
    try:
        converted = names.get(dtype) if isinstance(dtype, str) else None
        converted = np.dtype(dtype) if converted is None else converted
    except (TypeError, ValueError):
        raise TypeError(f"{name}: {dtype!r} is not a dtype") from None
    converted = converted.newbyteorder("=")
    if converted not in ANY and converted not in STORAGE:
        raise TypeError(f"{name}: arrays of {converted} are not supported")
    try:
        _dtypes[dtype] = converted
    except TypeError:  # an array, say, which has a dtype and is none
        raise TypeError(f"{name}: {type(dtype).__name__} is not a dtype") from None
    return converted


def own_order(dtype: Any, name: str) -> np.dtype:
    """`as_dtype` of a dtype that a result is to have. TypeError for the other byte order, in which
    the result would not be."""
    if is_swapped(dtype):
        raise TypeError(
            f"{name}: arrays are in the machine's byte order, got {dtype!r}; byteswap() gives the "
            "bytes of the other one"
        )
    return as_dtype(dtype, name)


def is_swapped(dtype: Any) -> bool:
    """Whether a dtype as it was given, a name or NumPy's, has the other byte order than the
    machine's, which `as_dtype` gives. (Machines with GPUs are little-endian.)"""
    return str(getattr(dtype, "byteorder", dtype))[:1] == ">"


@functools.cache
def promote(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype that two arrays meet in."""
    if a == b:
        return a
    if bfloat16 in (a, b):
        other = b if a == bfloat16 else a
        if other == float16:
            return float32
        met = np.promote_types(float16, other)
        return bfloat16 if met == float16 else met
    return np.promote_types(a, b)


@functools.cache
def promote_scalar(dtype: np.dtype, kind: type) -> np.dtype:
    """The dtype that an array and a Python scalar (bool, int, float, complex) meet in: the scalar
    never widens."""
    if kind is bool:
        return dtype
    if kind is int:
        return np.dtype(np.int64) if dtype in BOOLEAN else dtype
    if kind is float:
        return dtype if dtype in INEXACT else _default_float
    if dtype in COMPLEX:
        return dtype
    wide = dtype in INTEGER_OR_BOOL and _default_float == float64 or dtype == float64
    return np.dtype(np.complex128 if wide else np.complex64)


forget.append(promote_scalar.cache_clear)


def result_type(*operands: Any) -> np.dtype:
    """The dtype of an operation on these arrays, dtypes and Python scalars.

    Parameters
    ----------
    *operands : object
        At least one array, dtype or Python scalar. Of a Python scalar only the kind counts (bool,
        int, float, complex): ``x + 1.0`` is float32 where `x` is.

    Returns
    -------
    numpy.dtype
        The dtype.

    Raises
    ------
    ValueError
        There is no operand.
    TypeError
        An operand is not an array, a dtype or a scalar.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.result_type(cm.bfloat16, cm.float16)
    dtype('float32')
    >>> cm.result_type(cm.float32, 1.0)
    dtype('float32')
    """
    if len(operands) == 2:  # two arrays, without the loop below
        try:
            a, b = operands[0]._layout.dtype, operands[1]._layout.dtype
            return a if a is b else promote(a, b)
        except AttributeError:
            pass
    dtypes: list[np.dtype] = []
    weak: list[type] = []
    for operand in operands:
        if type(operand) in (bool, int, float, complex):
            weak.append(type(operand))
        elif hasattr(operand, "_layout"):  # an array: nothing is to be looked up
            dtypes.append(operand._layout.dtype)
        elif isinstance(operand, (int, float, complex)) and not hasattr(
            operand, "dtype"
        ):  # an IntEnum, say
            weak.append(next(kind for kind in (int, float, complex) if isinstance(operand, kind)))
        else:
            # a scalar type such as np.float32 has a `dtype` too: the descriptor of its instances
            dtypes.append(
                as_dtype(
                    operand if isinstance(operand, type) else getattr(operand, "dtype", operand),
                    "result_type",
                )
            )
    if (
        len(dtypes) > 2
    ):  # integers meet floats before one another: of uint8, int8 and float16 each is a float16
        dtypes.sort(key=INTEGER.__contains__)
    if dtypes:
        strong = (
            dtypes[0]
            if dtypes.count(dtypes[0]) == len(dtypes)
            else functools.reduce(promote, dtypes)
        )
    else:
        if not weak:
            raise ValueError("result_type: wants at least one array, dtype or scalar")
        strong = scalar_dtype(weak.pop(0))
    for kind in weak:
        strong = promote_scalar(strong, kind)
    return strong


def scalar_dtype(kind: type) -> np.dtype:
    """The dtype of an array made of Python scalars of this type."""
    if kind is float:
        return _default_float
    if kind is complex:
        return np.dtype(np.complex64 if _default_float == float32 else np.complex128)
    return np.dtype(kind)


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """What an op computes in: float32 for 16-bit floats, the dtype itself otherwise."""
    return float32 if dtype in (float16, bfloat16) else dtype


def sum_tolerance(dtype: np.dtype) -> float:
    """How far from 1 the sum of probabilities of this dtype may be: the root of its epsilon, as in
    NumPy, and at least 1e-6."""
    return max(1e-6, math.sqrt(ml_dtypes.finfo(dtype).eps))


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of a number's real part."""
    if dtype not in COMPLEX:
        return dtype
    return float32 if dtype.itemsize == 8 else float64
