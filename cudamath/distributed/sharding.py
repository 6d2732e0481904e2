"""Trees of which each process keeps a piece of every array: ZeRO.

An array of n numbers is laid flat, filled up with zeros to a multiple of the number of processes,
and cut into equal pieces in the order of the ranks. A tree of pieces has the structure of the tree.
Optimizers work on it as on any other; what it was is told by an outline, arrays without memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.checks import require
from ..core.dtypes import ANY, FLOATING
from ..core.typing import Tree
from ..ml import clip_factor
from ..ops.creation import zeros
from ..ops.elementwise import sqrt
from ..ops.join import concatenate
from ..runtime.communication.environment import world
from .collectives import all_reduce, by_device, gathered

__all__ = ["from_shards", "outline", "shards_clip_factor", "to_shards", "update_from_shards"]


def outline(tree: Tree) -> Any:
    """Return the shapes and dtypes of a tree, as NumPy arrays that take no memory.

    Parameters
    ----------
    tree : tree
        Arrays.

    Returns
    -------
    tree
        The same structure. The arrays are read-only, and all their elements are 0.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.outline({"w": cm.ones((2, 3))})["w"].shape
    (2, 3)
    """
    return trees.map_leaves(
        "outline",
        lambda x: np.broadcast_to(np.zeros((), getattr(x, "dtype", np.float64)), np.shape(x)),
        tree,
    )


def width(shape: tuple[int, ...], parts: int) -> int:
    """How many numbers a piece of an array has."""
    return math.ceil(math.prod(shape) / parts)


def to_shards(tree: Tree) -> Any:
    """Return this process's piece of each array of a tree.

    The pieces of all processes, one behind another in the order of the ranks, are the array, laid
    flat and filled up with zeros to a multiple of `size()`.

    Parameters
    ----------
    tree : tree
        Arrays, the same in every process.

    Returns
    -------
    tree
        Arrays of one dimension, which are copies. A process alone has the whole arrays, flat.

    Notes
    -----
    Nothing travels. The gradient goes to the piece, and is 0 elsewhere.

    References
    ----------
    .. [1] Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
       models", 2020.

    Examples
    --------
    >>> import cudamath as cm
    >>> def piece(rank):
    ...     return cm.distributed.to_shards({"w": cm.array([[1.0, 2.0], [3.0, 4.0]])})["w"].tolist()
    >>> cm.distributed.in_threads(2, piece)
    [[1.0, 2.0], [3.0, 4.0]]
    """
    here = world()

    def piece(leaf: Any) -> ndarray:
        x = require("to_shards", leaf, ANY)
        size = width(x.shape, here.size)
        own = x.reshape(-1)[here.rank * size : (here.rank + 1) * size]
        missing = size - own.shape[0]
        if not missing:
            return own.copy()
        return concatenate([own, zeros(missing, dtype=x.dtype, device=x.device)])

    return trees.map_leaves("to_shards", piece, tree)


def from_shards(shards: Tree, like: Tree) -> Any:
    """Return whole arrays from the pieces of all processes.

    Parameters
    ----------
    shards : tree
        This process's pieces, as `to_shards` makes them.
    like : tree
        Arrays of the shapes of the whole ones, in the same structure; an `outline`.

    Returns
    -------
    tree
        Arrays with the dtypes of the pieces.

    Raises
    ------
    ValueError
        The trees do not fit each other, or the processes pass different ones.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: this process's piece of the sum of the gradients of all processes. A loss of whole
    arrays so becomes one of pieces (ZeRO, stage 3).

    Examples
    --------
    >>> import cudamath as cm
    >>> w = cm.array([[1.0, 2.0], [3.0, 4.0]])
    >>> cm.distributed.from_shards(cm.distributed.to_shards(w), w).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    here = world()
    pieces, shapes, structure = fitting("from_shards", shards, like, here.size)
    whole = (
        pieces if here.size == 1 else by_device(pieces, lambda some: gathered(*some, world=here))
    )
    return structure.unflatten(
        [
            x.reshape(-1)[: math.prod(shape)].reshape(shape)
            for x, shape in zip(whole, shapes, strict=True)
        ]
    )


def fitting(
    name: str, shards: Tree, like: Tree, parts: int
) -> tuple[list[ndarray], list[tuple[int, ...]], Any]:
    """The pieces, the shapes of their wholes, and the structure. ValueError if they do not fit."""
    leaves, structure = trees.flatten(name, shards)
    wholes, other = trees.flatten(name, like)
    if structure != other:
        raise ValueError(
            f"{name}: wants trees of one structure, got {str(structure)[:300]} and "
            f"{str(other)[:300]}"
        )
    pieces, shapes = [asarray(x, name=name) for x in leaves], [np.shape(x) for x in wholes]
    for x, shape in zip(pieces, shapes, strict=True):
        if x.shape != (width(shape, parts),):
            raise ValueError(
                f"{name}: an array of shape {shape} has pieces of shape {(width(shape, parts),)} "
                f"in {parts} processes, got {x.shape}"
            )
    return pieces, shapes, structure


def update_from_shards(params: Tree, shards: Tree) -> None:
    """Overwrite whole arrays, in place, with the pieces of all processes.

    An optimizer that keeps its state in pieces (ZeRO, stages 1 and 2) changes pieces of the
    parameters; all processes get all of them:

        shards = distributed.to_shards(params)
        state = cm.ml.adam_init(shards)
        step = distributed.value_and_grad(loss, sharded=True)
        ...
        value, grads = step(params, x, y)
        cm.ml.adamw_update(shards, grads, state, lr=1e-3)
        distributed.update_from_shards(params, shards)

    Parameters
    ----------
    params : tree
        Writable arrays. Where their dtype is another one (16-bit copies), pieces are rounded to it
        before they travel.
    shards : tree
        This process's pieces, in the same structure.

    Raises
    ------
    ValueError
        The trees do not fit each other, or the processes pass different ones.
    CommunicationError
        A process failed, or did not come in time.

    Examples
    --------
    >>> import cudamath as cm
    >>> w = cm.ones(2)
    >>> cm.distributed.update_from_shards(w, cm.zeros(2))
    >>> w.tolist()
    [0.0, 0.0]
    """
    pieces, _, structure = fitting("update_from_shards", shards, params, world().size)
    targets, _ = trees.flatten("update_from_shards", params)
    rounded = [x.astype(p.dtype, copy=False) for x, p in zip(pieces, targets, strict=True)]
    whole = from_shards(structure.unflatten(rounded), params)
    for target, x in zip(targets, trees.flatten("update_from_shards", whole)[0], strict=True):
        target[...] = x


def shards_clip_factor(
    grads: Tree, max_norm: float, *, deterministic: bool = False
) -> tuple[ndarray, ndarray]:
    """Return `ml.clip_factor` of gradients of which each process has a piece.

    Parameters
    ----------
    grads : tree
        This process's pieces of the gradients.
    max_norm : float
        The most that the norm of all gradients may be.
    deterministic : bool, default False
        Add in the order of the ranks; see `all_reduce`.

    Returns
    -------
    factor : ndarray
        The smaller of 1 and max_norm / norm, for the optimizer; NaN if the norm is not finite.
    norm : ndarray
        The norm of all pieces of all processes.

    Raises
    ------
    CommunicationError
        A process failed, or did not come in time.

    Examples
    --------
    >>> import cudamath as cm
    >>> factor, norm = cm.distributed.shards_clip_factor([cm.array([3.0, 4.0])], 1.0)
    >>> float(norm), round(float(factor), 6)
    (5.0, 0.2)
    """
    leaves = [require("shards_clip_factor", x, FLOATING) for x in trees.flatten("", grads)[0]]
    if world().size == 1:
        return clip_factor(leaves, max_norm)
    _, own = clip_factor(leaves, max_norm)
    norm = sqrt(all_reduce(own * own, deterministic=deterministic))
    return clip_factor([norm.reshape(1)], max_norm)
