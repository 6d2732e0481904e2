"""Trees of arrays: nested dicts, lists, tuples and registered classes, as `grad`, `jit`, `save` and
others take them.

A tree's nodes are those of `optree`, which this package uses: register a class of yours by
`optree.register_pytree_node`. None has no leaves. Keys of dicts are sorted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import optree

from .core import trees
from .core.dispatch.checks import require_function
from .core.public_names import public_dir

__all__ = ["flatten", "leaves", "map", "reduce", "structure", "unflatten"]

__dir__ = public_dir(__name__)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Take a tree apart.

    Parameters
    ----------
    tree : tree
        Any nested structure.

    Returns
    -------
    (list, structure)
        The leaves in order, and what `unflatten` makes a tree of them with.

    Raises
    ------
    ValueError
        The tree is nested too deeply, or holds itself.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tree.flatten({"b": 1, "a": (2, 3)})[0]
    [2, 3, 1]
    """
    return trees.flatten("tree.flatten", tree)


def unflatten(structure: Any, leaves: Any) -> Any:
    """Make a tree of leaves.

    Parameters
    ----------
    structure : structure
        What `flatten` or `structure` returned.
    leaves : sequence
        As many leaves as the structure has.

    Returns
    -------
    tree
        The tree.

    Raises
    ------
    TypeError
        `structure` is none.
    ValueError
        There are more or fewer leaves.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tree.unflatten(cm.tree.structure({"b": 0, "a": 0}), [1, 2])
    {'b': 2, 'a': 1}
    """
    if not isinstance(structure, optree.PyTreeSpec):
        raise TypeError(f"tree.unflatten: wants a structure, got {type(structure).__name__}")
    leaves = list(leaves)
    if len(leaves) != structure.num_leaves:
        raise ValueError(
            f"tree.unflatten: {structure} has {structure.num_leaves} leaves, got {len(leaves)}"
        )
    return structure.unflatten(leaves)


def leaves(tree: Any) -> list[Any]:
    """List the leaves of a tree.

    Parameters
    ----------
    tree : tree
        Any nested structure.

    Returns
    -------
    list
        The leaves in order.

    Raises
    ------
    ValueError
        The tree is nested too deeply, or holds itself.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tree.leaves([1, (2, {"a": 3}), None])
    [1, 2, 3]
    """
    return trees.flatten("tree.leaves", tree)[0]


def structure(tree: Any) -> Any:
    """Tell the structure of a tree: what is left without the leaves.

    Parameters
    ----------
    tree : tree
        Any nested structure.

    Returns
    -------
    structure
        It compares and hashes by value.

    Raises
    ------
    ValueError
        The tree is nested too deeply, or holds itself.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tree.structure([1, (2, 3)]) == cm.tree.structure([0, (0, 0)])
    True
    """
    return trees.flatten("tree.structure", tree)[1]


def map(function: Callable, tree: Any, *rest: Any) -> Any:
    """Apply a function to the leaves of trees.

    Parameters
    ----------
    function : callable
        Takes a leaf of each tree.
    tree : tree
        Any nested structure.
    *rest : trees
        Trees that have the structure of `tree`; what lies below its leaves is passed as it is.

    Returns
    -------
    tree
        A tree of that structure, of the function's results.

    Raises
    ------
    TypeError
        `function` is none.
    ValueError
        A structure differs; a tree is nested too deeply, or holds itself.

    Examples
    --------
    >>> import cudamath as cm
    >>> params, grads = {"w": cm.ones(2), "b": cm.ones(1)}, {"w": cm.ones(2), "b": cm.zeros(1)}
    >>> cm.tree.map(lambda p, g: (p - 0.5 * g).tolist(), params, grads)
    {'w': [0.5, 0.5], 'b': [1.0]}
    """
    require_function("tree.map", function)
    first, form = trees.flatten("tree.map", tree)
    columns = [first]
    for other in rest:
        try:
            columns.append(form.flatten_up_to(other))
        except ValueError:
            raise ValueError(
                f"tree.map: a tree has structure {trees.flatten('tree.map', other)[1]}, the first "
                f"one {form}"
            ) from None
    return form.unflatten([function(*each) for each in zip(*columns, strict=True)])


def reduce(function: Callable, tree: Any, *initial: Any) -> Any:
    """Combine the leaves of a tree from the first to the last.

    Parameters
    ----------
    function : callable
        Function ``function(result so far, leaf) -> result``.
    tree : tree
        Any nested structure.
    *initial : object
        Where to begin; without it at the first leaf.

    Returns
    -------
    object
        The last result.

    Raises
    ------
    TypeError
        `function` is none, or there is neither a leaf nor an initial value.
    ValueError
        The tree is nested too deeply, or holds itself.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tree.reduce(lambda total, x: total + x.size, {"w": cm.ones((2, 3)), "b": cm.ones(3)}, 0)
    9
    """
    require_function("tree.reduce", function)
    values = trees.flatten("tree.reduce", tree)[0]
    if not values and not initial:
        raise TypeError("tree.reduce: a tree without leaves wants an initial value")
    return functools.reduce(function, values, *initial[:1])
