"""Checks of arguments, and errors that name the op."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.errors import DeviceError, shown_as
from ..array import ndarray
from ..asarray import asarray, same_device
from ..dtypes import ANY, COMPLEX, Category


def require(name: str, x: Any, category: Category = ANY, what: str = "") -> ndarray:
    """`x` as an ndarray whose dtype belongs to `category`; TypeError that names the op, the dtype
    and the category."""
    if not isinstance(x, ndarray):
        x = asarray(x, name=name)
    if x._layout.dtype not in category:
        raise TypeError(
            f"{name}: wants {category.name} {what or 'arrays'}, got {x.dtype} of shape {x.shape}"
        )
    return x


def refuse_text(name: str, copy: Any) -> None:
    """ValueError where `copy` is a text, such as "False", which is true."""
    if isinstance(copy, str):
        raise ValueError(f"{name}: copy must be True, False or None, got {copy!r}")


def _described(x: Any) -> str:
    array = hasattr(x, "dtype") and hasattr(x, "shape")
    return f"{x.dtype} of shape {x.shape}" if array else f"{type(x).__name__} {x!r:.60}"


def members(name: str, values: Any, what: str = "arrays") -> tuple:
    """The members of a sequence; TypeError that names the op for another object."""
    try:
        each = iter(values)
    except TypeError:  # a number, None, an array without axes
        raise TypeError(f"{name}: wants a sequence of {what}, got {_described(values)}") from None
    return tuple(each)


def require_function(name: str, value: Any, what: str = "a function") -> None:
    """Raise TypeError unless `value` is callable, where it is passed and not where it is used."""
    if not callable(value):
        raise TypeError(f"{name}: wants {what}, got {_described(value)}")


def coerce(name: str, operands: tuple, category: Category = ANY) -> list[ndarray]:
    """Operands as ndarrays on one device: host objects (NumPy arrays, lists, scalars) go to the
    device of the first ndarray."""
    place = next((x.device for x in operands if isinstance(x, ndarray)), None)
    out = []
    for x in operands:
        if not isinstance(x, ndarray):
            x = asarray(
                x,
                device=None
                if hasattr(x, "__dlpack__") and not isinstance(x, np.ndarray)
                else place,
                name=name,
            )
        out.append(require(name, x, category))
    same_device(name, out)
    return out


def keeps_imaginary(name: str, x: ndarray, kind: np.dtype) -> None:
    """Raise TypeError if the requested dtype would drop imaginary parts."""
    if x.dtype in COMPLEX and kind not in COMPLEX:
        raise TypeError(
            f"{name}: {x.dtype} of shape {x.shape} would lose its imaginary part in dtype {kind}"
        )


#: Exceptions that functions of this package raise for bad input.
MISTAKES = TypeError, ValueError, IndexError, OverflowError


def as_of(name: str, error: Exception) -> Exception:
    """An error of an inner function as an error of the outer function `name`. Messages of Python
    and NumPy get the name as a prefix. What cannot be fused is an error of `fuse` everywhere."""
    inner, colon, rest = str(error).partition(": ")
    if inner == "fuse" or isinstance(error, DeviceError):
        return error
    kind = ValueError if isinstance(error, UnicodeError) else type(error)  # which has other parts
    if colon and inner.replace(".", "_").isidentifier():
        return kind(f"{name}: {rest}")
    return kind(
        str(error) if inner.startswith(f"{name}(") else f"{name}: {error}"
    )  # "name() got an unexpected ..."


def speaks_for(name: str) -> Callable[[Callable], Callable]:
    """Decorator of an inner function of `name`: its errors begin with that name."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except MISTAKES as error:
                raise as_of(name, error) from None

        return shown_as(name, call)

    return decorate


def as_numbers(name: str, kind: str, *values: Any) -> list[Any]:
    """The values as Python numbers, arrays of one element and NumPy's scalars too; TypeError for
    anything else. kind: "real numbers", or "numbers", which may be complex."""
    try:
        numbers = [
            v.item() if isinstance(v, ndarray | np.generic | np.ndarray) else v for v in values
        ]
    except ValueError as error:  # more than one element
        raise as_of(name, error) from None
    for number in numbers:
        if not hasattr(number, "__float__") and not (
            isinstance(number, complex) and kind == "numbers"
        ):
            raise TypeError(f"{name}: wants {kind}, got {type(number).__name__} {number!r:.60}")
    return [v if isinstance(v, int | float | complex) else float(v) for v in numbers]
