"""An optimizer whose state is divided: each array of the parameters belongs to one process, which
alone keeps its moments."""

from __future__ import annotations

from ..core import trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.typing import Tree
from ..runtime.communication.environment import world
from .collectives import broadcast

__all__ = ["owned", "take_from_owners"]


def _owners(arrays: list[ndarray]) -> list[int]:
    """The process that each array belongs to: the largest first, each to the process with the
    fewest bytes so far."""
    loads, owners = [0] * world().size, [0] * len(arrays)
    for i in sorted(range(len(arrays)), key=lambda i: -arrays[i].nbytes):
        owners[i] = loads.index(min(loads))
        loads[owners[i]] += arrays[i].nbytes
    return owners


def _arrays(name: str, tree: Tree) -> list[ndarray]:
    """The leaves. TypeError for arrays of which a gradient is being recorded."""
    arrays = [asarray(leaf, name=name) for leaf in trees.flatten(name, tree)[0]]
    for x in arrays:
        if x._node is not None:
            raise TypeError(
                f"{name}: wants arrays without a gradient, got one of shape {x.shape} that carries "
                "one"
            )
    return arrays


def owned(tree: Tree) -> list[ndarray]:
    """Return this process's arrays of a tree of parameters or gradients.

    All processes have about as many bytes of the tree. With it an optimizer keeps only a share of
    its state in each process (ZeRO, stage 1):

        mine = distributed.owned(params)
        state = cm.ml.adam_init(mine)
        ...
        value, grads = step(params, x, y)                              # distributed.value_and_grad
        cm.ml.adamw_update(mine, distributed.owned(grads), state, lr=1e-3)
        distributed.take_from_owners(params)

    Parameters
    ----------
    tree : tree
        Arrays, with the same structure, shapes and dtypes in every process.

    Returns
    -------
    list of ndarray
        Arrays of the tree (not copies).

    Raises
    ------
    TypeError
        A gradient of an array is being recorded.

    References
    ----------
    .. [1] Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
       models", 2020.

    Examples
    --------
    >>> import cudamath as cm
    >>> params = {"a": cm.ones(2), "b": cm.zeros(1)}
    >>> [x is y for x, y in zip(cm.distributed.owned(params), params.values())]
    [True, True]
    """
    arrays = _arrays("owned", tree)
    return [x for x, owner in zip(arrays, _owners(arrays), strict=True) if owner == world().rank]


def take_from_owners(tree: Tree) -> None:
    """Overwrite the arrays of a tree, in place, with the values of their owners.

    See `owned`.

    Parameters
    ----------
    tree : tree
        Writable arrays, with the same structure, shapes and dtypes in every process.

    Raises
    ------
    ValueError
        The processes pass different trees.
    TypeError
        A gradient of an array is being recorded.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.distributed.take_from_owners({"a": cm.ones(2)})
    """
    here = world()
    arrays = _arrays("take_from_owners", tree)
    if here.size == 1:
        return
    here.agree(f"take_from_owners of {', '.join([f'{x.dtype}{x.shape}' for x in arrays])}")
    owners = _owners(arrays)
    for owner in dict.fromkeys(owners):
        theirs = [x for x, of in zip(arrays, owners, strict=True) if of == owner]
        for x, told in zip(theirs, broadcast(theirs, owner), strict=True):
            if owner != here.rank:
                x[...] = told
