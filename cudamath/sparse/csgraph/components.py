"""Connected components."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.dispatch.lazy_import import lazy
from ...ops.compare import array_equal
from ...ops.creation import asarray
from ...ops.elementwise import minimum
from ...ops.ranges import arange
from ...ops.sets import unique_inverse
from ...ops.ufunc_at import minimum_at
from .edges import both_ways, graph

__all__ = ["connected_components"]


def connected_components(
    csgraph: Any, directed: bool = True, connection: str = "weak", return_labels: bool = True
) -> Any:
    """Return the number of connected components of a graph, and the component of each node.

    Weak components are found on the device: each node takes the least label around it, then that
    label's label, until none changes. Strong ones are found on the host (Tarjan 1972).

    Parameters
    ----------
    csgraph : sparse array or array_like
        Of shape (n, n).
    directed : bool, default True
        Whether edges have a direction.
    connection : {"weak", "strong"}, default "weak"
        Of a directed graph: whether paths may go against the edges.
    return_labels : bool, default True
        Whether the components of the nodes are wanted.

    Returns
    -------
    n_components : int
        How many there are.
    labels : ndarray of int32
        Of each node, from 0. Weak components are numbered by their first nodes.

    Examples
    --------
    >>> import cudamath as cm
    >>> edges = cm.sparse.csr_array(([1, 1], ([0, 2], [1, 3])), shape=(4, 4))
    >>> count, labels = cm.sparse.csgraph.connected_components(edges)
    >>> count, labels.tolist()
    (2, [0, 0, 1, 1])
    """
    if connection not in ("weak", "strong"):
        raise ValueError(
            f"connected_components: wants connection 'weak' or 'strong', got {connection!r:.40}"
        )
    x = graph("connected_components", csgraph)
    strong = directed and connection == "strong"
    labels = _strong(x) if strong else _weak(x)
    found = unique_inverse(labels)
    count = found.values.size
    if not return_labels:
        return count
    return count, found.inverse_indices.reshape(x.shape[0]).astype(np.int32)


def _weak(x: Any) -> ndarray:
    """The first node of each node's component."""
    sources, targets, _ = both_ways(x)
    labels = arange(x.shape[0], dtype=np.int64, device=x.device)
    while True:
        near = labels.copy()
        minimum_at(near, targets, labels[sources])
        near = minimum(near, near[near])
        if array_equal(near, labels):
            return labels
        labels = near


def _strong(x: Any) -> ndarray:
    indices, indptr = (
        part.to("cpu").to_numpy().astype(np.int64) for part in (x._indices, x._indptr)
    )
    labels = lazy("cpu", "sparse.graphs.strong_components")(indices, indptr)
    return asarray(labels, device=x.device)
