"""`x.flat`: an array's elements in C order, whatever its shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.scalar import Scalar
from .index import put
from .ranges import arange
from .shape import flatten, ravel


class Flat:
    """The elements of an array in C order: an iterator that can be indexed by one number, slice or
    array, and assigned to.

    >>> import cudamath as cm
    >>> x = cm.arange(6).reshape(2, 3)
    >>> x.flat[4].item(), x.flat[1:3].tolist(), len(x.flat)
    (4, [1, 2], 6)
    >>> x.flat[[0, 5]] = 9
    >>> x.tolist()
    [[9, 1, 2], [3, 4, 9]]
    """

    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]  # == compares elements

    def __init__(self, array: ndarray):
        self.base = array
        self.index = 0  # of the next element
        self._elements: Iterator[Any] | None = None

    @property
    def coords(self) -> tuple[int, ...]:
        """The index of the next element along each axis."""
        place = min(self.index, max(len(self) - 1, 0))
        coordinates = np.unravel_index(place, self.base.shape) if len(self) else ()
        return tuple(map(int, coordinates))

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._elements is None:
            self._elements = iter(ravel(self.base))
        element = next(self._elements)
        self.index += 1
        return element

    def copy(self) -> ndarray:
        """The elements as a new array of one dimension."""
        return flatten(self.base)

    def __getitem__(self, key: Any) -> ndarray:
        """A copy of the elements that the key selects."""
        elements = ravel(self.base)[key]
        return elements if isinstance(elements, Scalar | np.generic) else elements.copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        x = self.base
        where = ravel(arange(x.size, device=x.device)[key])
        if where.size:
            put(x, where, value)

    def __delitem__(self, key: Any) -> None:
        raise TypeError("flat: elements of an array cannot be deleted")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        host = ravel(self.base).__array__(dtype, copy)
        if copy is None and dtype is None and not self.base._layout.contiguous:
            host.flags.writeable = False  # a copy: what is written would not reach the array
        return host

    def __eq__(self, other: Any) -> Any:
        return ravel(self.base) == other

    def __ne__(self, other: Any) -> Any:
        return ravel(self.base) != other

    def __lt__(self, other: Any) -> Any:
        return ravel(self.base) < other

    def __le__(self, other: Any) -> Any:
        return ravel(self.base) <= other

    def __gt__(self, other: Any) -> Any:
        return ravel(self.base) > other

    def __ge__(self, other: Any) -> Any:
        return ravel(self.base) >= other
