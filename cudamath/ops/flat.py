"""`x.flat`: an array's elements in C order, whatever its shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.array import ndarray
from .index import put
from .ranges import arange
from .shape import ravel


class Flat:
    """The elements of an array in C order: can be iterated, indexed by one number, slice or array,
    and assigned to.

    >>> import cudamath as cm
    >>> x = cm.arange(6).reshape(2, 3)
    >>> x.flat[4], x.flat[1:3].tolist(), len(x.flat)
    (array(4), [1, 2], 6)
    >>> x.flat[[0, 5]] = 9
    >>> x.tolist()
    [[9, 1, 2], [3, 4, 9]]
    """

    def __init__(self, array: ndarray):
        self.base = array

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[ndarray]:
        return iter(ravel(self.base))

    def __getitem__(self, key: Any) -> ndarray:
        """A copy of the elements that the key selects."""
        return ravel(self.base)[key].copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        x = self.base
        where = ravel(arange(x.size, device=x.device)[key])
        if where.size:
            put(x, where, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return ravel(self.base).__array__(dtype, copy)
