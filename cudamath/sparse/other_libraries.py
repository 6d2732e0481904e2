"""To and from the sparse arrays of SciPy and CuPy. Their arrays are taken by NumPy's, DLPack's or
CUDA's protocol, without a copy; SciPy is imported where an array is given to it and nowhere
else."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ..ops.creation import asarray
from .structure import index_dtype


def is_sparse(x: Any) -> bool:
    """Whether an object is a sparse array of another library."""
    return hasattr(x, "tocoo") and isinstance(getattr(x, "format", None), str)


def coo(kind: Any, x: Any, copy: bool) -> Any:
    """An array of SciPy's or CuPy's in coordinate format."""
    x = x.tocoo()
    data = asarray(x.data, copy=copy or None)
    given = getattr(x, "coords", None) or (x.row, x.col)
    size = index_dtype(*x.shape)
    coords = tuple([asarray(each, copy=copy or None).astype(size, copy=False) for each in given])
    return kind._of(data, coords, tuple(x.shape))


def blocks(x: Any, copy: bool) -> tuple[Any, Any, Any]:
    """(data, indices, indptr) of a compressed array of another library."""
    data, indices, indptr = (
        asarray(each, copy=copy or None) for each in (x.data, x.indices, x.indptr)
    )
    kind = index_dtype(*x.shape, indices.size)
    return data, indices.astype(kind, copy=False), indptr.astype(kind, copy=False)


def to_scipy(x: Any, parts: tuple) -> Any:
    """SciPy's array of the same format, of what its constructor takes."""

    def host(part: Any) -> Any:
        return tuple(map(host, part)) if isinstance(part, tuple) else np.asarray(part.to_numpy())

    try:
        scipy_sparse = importlib.import_module("scipy.sparse")
    except ImportError as error:
        raise ImportError(f"get: wants SciPy, which is not installed; got {x!r}") from error
    return getattr(scipy_sparse, type(x).__name__)(host(parts), shape=x.shape)
