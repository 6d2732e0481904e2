"""Nested lists, tuples, dicts and registered classes (optree's), taken apart: with errors that name
the function whose argument they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optree


def flatten(name: str, tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a tree, and its structure."""
    try:
        return optree.tree_flatten(tree)
    except RecursionError:
        raise too_deep(name) from None


def map_leaves(name: str, function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same structure, of the function's results."""
    leaves, structure = flatten(name, tree)
    return structure.unflatten([function(leaf) for leaf in leaves])


def places(structure: Any, numbers: list[int]) -> list[Any]:
    """Where the leaves of these numbers stand, for `put`."""
    accessors = structure.accessors()
    return [accessors[i] for i in numbers]


def put(tree: Any, place: Any, leaf: Any) -> None:
    """Put a leaf into the list, dict or object of a tree that holds this place."""
    holder, entry = place[:-1](tree), place[-1].entry
    if hasattr(holder, "__setitem__"):
        holder[entry] = leaf
    else:
        setattr(holder, entry, leaf)


def shown(structure: Any) -> str:
    """A structure for a message: its containers, with * for each leaf."""
    return str(structure).removeprefix("PyTreeSpec(").removesuffix(")")


def too_deep(name: str) -> ValueError:
    """The error for a tree that optree cannot take apart."""
    return ValueError(f"{name}: the tree is nested too deeply, or holds itself")
