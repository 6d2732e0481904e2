"""A tree in pieces, read as if it were whole: ZeRO, stage 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..core import trees
from ..core.array import ndarray
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
        The trees do not fit each other.
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
    leaves, structure = trees.flatten("lazily_whole", shards)
    wholes, other = trees.flatten("lazily_whole", like)
    if structure != other:
        raise ValueError(
            f"lazily_whole: wants trees of one structure, got {str(structure)[:300]} and "
            f"{str(other)[:300]}"
        )
    found: dict[int, ndarray] = {}

    def read(number: int) -> ndarray:
        if number not in found:
            found[number] = from_shards(leaves[number], wholes[number])
        return found[number]

    return read_by(read, structure.unflatten(range(len(leaves))))


def read_by(read: Callable[[Any], Any], tree: Any) -> Any:
    """`read` of a leaf where it is asked for: a tree of dicts, lists and tuples, read like it."""
    if isinstance(tree, Mapping):
        return _Mapping(read, tree)
    if isinstance(tree, (list, tuple)):
        return _Sequence(read, tree)
    return read(tree)


class _Mapping(Mapping):
    """A dict whose values are read when they are asked for."""

    def __init__(self, read: Callable[[Any], Any], tree: Mapping):
        self._read, self._tree = read, tree

    def __getitem__(self, key: Any) -> Any:
        return read_by(self._read, self._tree[key])

    def __iter__(self) -> Iterator:
        return iter(self._tree)

    def __len__(self) -> int:
        return len(self._tree)


class _Sequence(Sequence):
    """A list whose elements are read when they are asked for."""

    def __init__(self, read: Callable[[Any], Any], tree: Sequence):
        self._read, self._tree = read, tree

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [read_by(self._read, x) for x in self._tree[index]]
        return read_by(self._read, self._tree[index])

    def __len__(self) -> int:
        return len(self._tree)
