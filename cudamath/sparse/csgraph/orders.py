"""Orders of the nodes of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.dispatch.lazy_import import lazy
from ...core.shapes import as_integer
from ...ops.creation import asarray, full, ones
from ...ops.join import concatenate
from ...ops.masks import flatnonzero
from ..coo import coo_array
from ..structure import expanded
from .edges import both_ways, graph

__all__ = ["breadth_first_order", "reverse_cuthill_mckee"]


def breadth_first_order(
    csgraph: Any, i_start: int, directed: bool = True, return_predecessors: bool = True
) -> Any:
    """Return the nodes that can be reached from one, those of few steps first.

    A step of the walk handles all nodes of one distance, on the device; they are in the order in
    which a queue would have them.

    Parameters
    ----------
    csgraph : sparse array or array_like
        Of shape (n, n).
    i_start : int
        Where the walk begins.
    directed : bool, default True
        Whether edges have a direction.
    return_predecessors : bool, default True
        Whether the nodes from which each one was reached are wanted.

    Returns
    -------
    node_array : ndarray of int32
        The nodes in the order of the walk.
    predecessors : ndarray of int32
        Of shape (n,); -9999 for nodes without one.

    Examples
    --------
    >>> import cudamath as cm
    >>> edges = cm.sparse.csr_array(([1, 1, 1], ([0, 0, 2], [2, 1, 3])), shape=(4, 4))
    >>> nodes, before = cm.sparse.csgraph.breadth_first_order(edges, 0)
    >>> nodes.tolist(), before.tolist()
    ([0, 1, 2, 3], [-9999, 0, 0, 2])
    """
    x = graph("breadth_first_order", csgraph)
    n = x.shape[0]
    start = as_integer("breadth_first_order", "i_start", i_start, 0)
    if start >= n:
        raise ValueError(f"breadth_first_order: node {start} is outside 0 .. {n - 1}")
    if not directed:
        x = _forward_then_back(x)
    before = full(n, -9999, dtype=np.int32, device=x.device)
    fresh = ones(n, dtype=np.bool_, device=x.device)
    front = asarray([start], dtype=np.int64, device=x.device)
    fresh[front] = False
    walk = [front]
    starts = x._indptr
    while front.size:
        owner, place, _ = expanded(starts[front], starts[front + 1] - starts[front])
        reached = x._indices[place].astype(np.int64)
        new = flatnonzero(fresh[reached])
        reached, parents = reached[new], front[owner[new]]
        # Of a node that is reached several times the first time counts: the last to be written.
        before[reached[::-1]] = parents[::-1].astype(np.int32)
        first = full(n, reached.size, dtype=np.int64, device=x.device)
        places = flatnonzero(ones(reached.size, dtype=np.bool_, device=x.device))
        first[reached[::-1]] = places[::-1]
        front = reached[flatnonzero(first[reached] == places)]
        fresh[front] = False
        walk.append(front)
    nodes = concatenate(walk).astype(np.int32)
    return (nodes, before) if return_predecessors else nodes


def _forward_then_back(x: Any) -> Any:
    """The graph with each edge in both directions; of a node first the edges of the graph."""
    rows, columns, data = both_ways(x)
    return coo_array._of(data, (rows, columns), x.shape)._in_rows()


def reverse_cuthill_mckee(graph_: Any, symmetric_mode: bool = False) -> ndarray:
    """Return an order of the nodes that brings the elements of a matrix near its diagonal.

    It is found on the host: breadth-first walks from nodes of few edges, reversed (Cuthill and
    McKee 1969).

    Parameters
    ----------
    graph_ : sparse array or array_like
        Of shape (n, n).
    symmetric_mode : bool, default False
        For SciPy's sake: the pattern of A + A^T counts in any case.

    Returns
    -------
    ndarray of int32
        The nodes in the new order.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    >>> sorted(cm.sparse.csgraph.reverse_cuthill_mckee(A).tolist())
    [0, 1, 2]
    """
    x = graph("reverse_cuthill_mckee", graph_)
    indices, indptr = (
        part.to("cpu").to_numpy().astype(np.int64) for part in (x._indices, x._indptr)
    )
    order = lazy("cpu", "sparse.factors.band_order")(indices, indptr, x.shape[0])
    return asarray(order.astype(np.int32), device=x.device)
