"""The edges of a graph."""

from __future__ import annotations

from typing import Any

from ...core.array import ndarray
from ...core.dispatch.checks import MISTAKES, as_of
from ...ops.join import concatenate
from ..base import issparse
from ..csr import csr_array


def graph(name: str, csgraph: Any) -> Any:
    """A square CSR array without duplicates; of a dense one, zeros are no edges."""
    try:
        x = csgraph if issparse(csgraph) else csr_array(csgraph)
    except MISTAKES as error:
        raise as_of(name, error) from None
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ValueError(f"{name}: wants a square array, got shape {x.shape}")
    return x.tocsr()._summed()


def both_ways(x: Any) -> tuple[ndarray, ndarray, ndarray]:
    """(from, to, weight) of the edges, and of the same in the other direction."""
    rows, columns = x._majors(), x._indices
    return (
        concatenate([rows, columns]),
        concatenate([columns, rows]),
        concatenate([x.data, x.data]),
    )
