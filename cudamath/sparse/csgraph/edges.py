"""The edges of a graph."""

from __future__ import annotations

from typing import Any

from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.dispatch.checks import MISTAKES, as_of
from ...ops.elementwise import isfinite
from ...ops.join import concatenate
from ...ops.where import where
from ..base import issparse
from ..csr import csr_array


def graph(name: str, csgraph: Any, finite: bool = True) -> Any:
    """A square CSR array without duplicates; of a dense one zeros are no edges, nor are infinities
    and NaN unless `finite` is False."""
    x = csgraph
    try:
        if not hasattr(x, "tocsr"):
            x = asarray(x)
            x = where(isfinite(x), x, 0) if finite and x.dtype.kind in "fc" else x
        x = x if issparse(x) else csr_array(x)
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
