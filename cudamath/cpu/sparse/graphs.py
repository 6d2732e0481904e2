"""Walks over graphs on the host."""

from __future__ import annotations

import numpy as np

from ..lib.llvm_compiled import loop


@loop
def _tarjan(indices, indptr, labels, low, number, path, places, waiting):
    """labels (n,): the strongly connected component of each node. All arrays but the graph's are
    (n,) integers, the first three -1."""
    counter, found, held = 0, 0, 0
    for first in range(labels.size):
        if number[first] >= 0:
            continue
        depth = 0
        path[0] = first
        places[0] = indptr[first]
        number[first] = counter
        low[first] = counter
        counter += 1
        waiting[held] = first
        held += 1
        while depth >= 0:
            node = path[depth]
            if places[depth] < indptr[node + 1]:
                other = indices[places[depth]]
                places[depth] += 1
                if number[other] < 0:
                    number[other] = counter
                    low[other] = counter
                    counter += 1
                    waiting[held] = other
                    held += 1
                    depth += 1
                    path[depth] = other
                    places[depth] = indptr[other]
                elif labels[other] < 0:
                    low[node] = min(low[node], number[other])
                continue
            if low[node] == number[node]:
                while labels[node] < 0:
                    held -= 1
                    labels[waiting[held]] = found
                found += 1
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[node])


def strong_components(indices, indptr):
    """The strongly connected component of each node, by Tarjan's method: numbers from 0."""
    n = len(indptr) - 1
    labels, low, number = (np.full(n, -1, np.int64) for _ in range(3))
    _tarjan(indices, indptr, labels, low, number, *[np.empty(n, np.int64) for _ in range(3)])
    return labels
