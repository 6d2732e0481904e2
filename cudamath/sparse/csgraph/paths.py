"""Shortest paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.array import ndarray
from ...ops.compare import array_equal
from ...ops.creation import asarray, full
from ...ops.ranges import arange
from ...ops.ufunc_at import minimum_at
from .edges import both_ways, graph

__all__ = ["NegativeCycleError", "bellman_ford", "shortest_path"]


class NegativeCycleError(Exception):
    """Raised where a cycle's weights have a negative sum: there are no shortest paths."""


def shortest_path(
    csgraph: Any,
    method: str = "auto",
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
    indices: Any = None,
) -> ndarray:
    """Return the lengths of the shortest paths between nodes.

    Bellman and Ford's method, for all starts at once: every edge is looked at until no path becomes
    shorter, at most n times.

    Parameters
    ----------
    csgraph : sparse array or array_like
        Of shape (n, n): the lengths of the edges.
    method : {"auto", "BF"}, default "auto"
        Both are Bellman and Ford's.
    directed : bool, default True
        Whether edges have a direction.
    return_predecessors : bool, default False
        Predecessors are not found; True raises.
    unweighted : bool, default False
        Whether all edges have length 1.
    overwrite : bool, default False
        For SciPy's sake.
    indices : int or array_like of int, optional
        Where paths begin; everywhere by default.

    Returns
    -------
    ndarray of float64
        Of shape (n, n), or of that of `indices` with n behind; inf where there is no path.

    Raises
    ------
    NegativeCycleError
        A cycle has a negative length.

    Examples
    --------
    >>> import cudamath as cm
    >>> edges = cm.sparse.csr_array(([1.0, 2.0, 5.0], ([0, 1, 0], [1, 2, 2])), shape=(3, 3))
    >>> cm.sparse.csgraph.shortest_path(edges, indices=0).tolist()
    [0.0, 1.0, 3.0]
    """
    if method not in ("auto", "BF"):
        raise NotImplementedError(f"shortest_path: has method 'auto' or 'BF', got {method!r:.40}")
    if return_predecessors:
        raise NotImplementedError(
            "shortest_path: finds no predecessors, got return_predecessors=True"
        )
    return _lengths("shortest_path", csgraph, directed, unweighted, indices)


def bellman_ford(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
) -> ndarray:
    """Return the lengths of the shortest paths by Bellman and Ford's method.

    Parameters
    ----------
    csgraph : sparse array or array_like
        Of shape (n, n): the lengths of the edges.
    directed : bool, default True
        Whether edges have a direction.
    indices : int or array_like of int, optional
        Where paths begin; everywhere by default.
    return_predecessors : bool, default False
        Predecessors are not found; True raises.
    unweighted : bool, default False
        Whether all edges have length 1.

    Returns
    -------
    ndarray of float64
        Of shape (n, n), or of that of `indices` with n behind; inf where there is no path.

    Examples
    --------
    >>> import cudamath as cm
    >>> edges = cm.sparse.csr_array(([1.0, -2.0], ([0, 1], [1, 2])), shape=(3, 3))
    >>> cm.sparse.csgraph.bellman_ford(edges, indices=0).tolist()
    [0.0, 1.0, -1.0]
    """
    if return_predecessors:
        raise NotImplementedError(
            "bellman_ford: finds no predecessors, got return_predecessors=True"
        )
    return _lengths("bellman_ford", csgraph, directed, unweighted, indices)


def _lengths(name: str, csgraph: Any, directed: bool, unweighted: bool, indices: Any) -> ndarray:
    x = graph(name, csgraph)
    n = x.shape[0]
    if directed:
        sources, targets, weights = x._majors(), x._indices, x.data
    else:
        sources, targets, weights = both_ways(x)
    weights = weights.astype(np.float64)
    weights = weights * 0 + 1 if unweighted else weights
    starts = arange(n, device=x.device) if indices is None else asarray(indices, device=x.device)
    flat = starts.reshape(-1).astype(np.int64)
    if flat.size and (int(flat.min()) < -n or int(flat.max()) >= n):
        raise ValueError(f"{name}: wants indices of {n} nodes, got {flat.tolist()!r:.60}")
    lengths = full((n, flat.size), np.inf, dtype=np.float64, device=x.device)
    lengths[flat, arange(flat.size, device=x.device)] = 0
    for _ in range(n + 1):
        shorter = lengths.copy()
        minimum_at(shorter, targets, lengths[sources] + weights[:, None])
        if array_equal(shorter, lengths):
            return lengths.T.reshape(*starts.shape, n)
        lengths = shorter
    raise NegativeCycleError(f"{name}: a cycle of the graph {x.shape} has a negative length")
