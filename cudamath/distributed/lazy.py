"""A tree in pieces, read as if it were whole: ZeRO, stage 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.typing import Tree
from .sharding import from_shards

__all__ = ["lazily_whole"]


def lazily_whole(shards: Tree, like: Tree) -> Any:
    """Return a tree whose arrays are put together when they are read.

    `from_shards` puts all arrays of a tree together at once. Here an array is put together where
    the function first asks for it by its key or number, and the backward pass sends its gradient
    away at that place: whole gradients exist for a short time.

    Parameters
    ----------
    shards : tree of dicts, lists and tuples
        This process's pieces, as `to_shards` makes them.
    like : tree
        Arrays of the shapes of the whole ones, in the same structure; an `outline`.

    Returns
    -------
    mapping, sequence or ndarray
        It is read like `like`, not changed.

    Raises
    ------
    ValueError
        The trees do not fit each other. (At the reading.)
    CommunicationError
        A process failed, or did not come in time. (At the reading.)

    Notes
    -----
    Gradient: that of `from_shards`. All processes read in the same order.

    Examples
    --------
    >>> import cudamath as cm
    >>> w = {"a": cm.ones((2, 2))}
    >>> tree = cm.distributed.lazily_whole(cm.distributed.to_shards(w), w)
    >>> tree["a"].shape
    (2, 2)
    """
    if isinstance(shards, Mapping):
        return _Mapping(shards, like)
    if isinstance(shards, (list, tuple)):
        return _Sequence(shards, like)
    return from_shards(shards, like)


class _Mapping(Mapping):
    """A dict whose values are whole when they are read."""

    def __init__(self, shards: Mapping, like: Mapping):
        self._shards, self._like = shards, like
        self._found: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        if key not in self._found:
            shard = self._shards[key]
            self._found[key] = lazily_whole(shard, self._like[key])
        return self._found[key]

    def __iter__(self) -> Iterator:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)


class _Sequence(Sequence):
    """A list whose elements are whole when they are read."""

    def __init__(self, shards: Sequence, like: Sequence):
        self._shards, self._like = shards, like
        self._found: dict[int, Any] = {}

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        if number not in self._found:
            self._found[number] = lazily_whole(self._shards[number], self._like[number])
        return self._found[number]

    def __len__(self) -> int:
        return len(self._shards)
