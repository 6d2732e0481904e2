"""Types of arguments and results, as the signatures of public functions name them.

They are ordinary aliases, and exist at run time too: ``typing.get_type_hints(cm.sum)`` finds them.

>>> from cudamath.core.typing import ArrayLike, Shape
>>> def area(sizes: ArrayLike, shape: Shape) -> float: ...
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import EllipsisType
from typing import IO, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from .array import ndarray
from .devices import Device

__all__ = [
    "ArrayLike",
    "Axis",
    "DTypeLike",
    "DeviceLike",
    "File",
    "Index",
    "PathLike",
    "Scalar",
    "Shape",
    "SupportsArray",
    "SupportsCudaArray",
    "SupportsDLPack",
    "Tree",
]


@runtime_checkable
class SupportsDLPack(Protocol):
    """An array of another library, on the CPU or a GPU, by the DLPack protocol."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...


@runtime_checkable
class SupportsArray(Protocol):
    """An object that NumPy can convert to an array."""

    def __array__(self) -> np.ndarray: ...


@runtime_checkable
class SupportsCudaArray(Protocol):
    """An array of another library on a GPU, by Numba's protocol."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


Scalar: TypeAlias = bool | int | float | complex | np.generic
"""A number of Python or NumPy. A Python number never widens an array."""

ArrayLike: TypeAlias = (
    ndarray
    | np.ndarray
    | Scalar
    | SupportsDLPack
    | SupportsCudaArray
    | SupportsArray
    | Sequence["ArrayLike"]
)
"""An array of this or another library, a number, or nested sequences of them: what `cm.asarray`
converts."""

Axis: TypeAlias = int | Sequence[int] | None
"""One axis, several, or None for all of them. Negative axes count from the end."""

Shape: TypeAlias = int | Sequence[int]
"""Lengths of the dimensions; one number is the shape of a vector."""

DTypeLike: TypeAlias = np.dtype[Any] | type[Any] | str
"""A dtype: one of `cm.float32`, ..., of NumPy's, a Python type such as `float`, or a name such as
"float32" or "bfloat16"."""

DeviceLike: TypeAlias = Device | str | int
"""A device: "cpu", "cuda", "cuda:1", the number of a GPU, or a `Device`."""

Index: TypeAlias = (
    int
    | slice
    | EllipsisType
    | None
    | ndarray
    | np.ndarray
    | np.generic
    | Sequence[Any]
    | tuple[Any, ...]
)
"""A key of an array: integers, slices, ..., None, integer and bool arrays, and tuples of them."""

PathLike: TypeAlias = str | os.PathLike[str]
"""The path of a file."""

File: TypeAlias = str | os.PathLike[str] | IO[Any]
"""The path of a file, or an open file."""

Tree: TypeAlias = Any
"""Any nesting of dicts, lists, tuples and registered classes, with arrays as leaves."""
