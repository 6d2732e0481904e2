"""`broadcast`: arrays seen in their common shape, element by element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.array import ndarray
from ..core.dispatch.checks import coerce
from ..core.shapes import broadcast_shapes, prod
from ..core.typing import ArrayLike
from .flat import Flat
from .shape import _broadcast_as

__all__ = ["broadcast"]


class broadcast:  # noqa: N801  NumPy's name
    """Arrays broadcast against each other: their common shape, and an iterator over their elements.

    Parameters
    ----------
    *args : array_like
        Arrays whose shapes broadcast.

    Raises
    ------
    ValueError
        The shapes do not broadcast.

    Examples
    --------
    >>> import cudamath as cm
    >>> both = cm.broadcast([[1], [2]], [10, 20, 30])
    >>> both.shape, both.size
    ((2, 3), 6)
    >>> [int(x + y) for x, y in both]
    [11, 21, 31, 12, 22, 32]
    """

    def __init__(self, *args: ArrayLike):
        arrays = coerce("broadcast", args) if args else []
        self.shape = broadcast_shapes("broadcast", *[x.shape for x in arrays])
        self._views = [_broadcast_as("broadcast", x, self.shape) for x in arrays]
        self.reset()

    @property
    def ndim(self) -> int:
        """Number of dimensions of the common shape."""
        return len(self.shape)

    @property
    def nd(self) -> int:
        """Number of dimensions, by NumPy's older name."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the common shape."""
        return prod(self.shape)

    @property
    def numiter(self) -> int:
        """Number of arrays."""
        return len(self._views)

    @property
    def iters(self) -> tuple[Flat, ...]:
        """One iterator for each array."""
        return self._iters

    @property
    def values(self) -> tuple[ndarray, ...]:
        """The arrays as views of the common shape."""
        return tuple(self._views)

    @property
    def index(self) -> int:
        """Position of the next elements in C order."""
        return self._iters[0].index if self._iters else 0

    def reset(self) -> None:
        """Begin at the first elements again."""
        self._iters = tuple([Flat(view) for view in self._views])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if not self._iters:
            raise StopIteration
        return tuple([next(each) for each in self._iters])
