"""Laplacians of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.creation import asarray
from ...ops.elementwise import sqrt
from ...ops.masks import flatnonzero
from ...ops.where import where
from ..base import issparse
from ..construct import eye_of
from .edges import graph

__all__ = ["laplacian"]


def laplacian(
    csgraph: Any,
    normed: bool = False,
    return_diag: bool = False,
    use_out_degree: bool = False,
    *,
    dtype: Any = None,
    symmetrized: bool = False,
) -> Any:
    """Return the Laplacian of a graph, D - A, where D has the degrees on its diagonal.

    Parameters
    ----------
    csgraph : sparse array or array_like
        Of shape (n, n).
    normed : bool, default False
        Whether to return I - D^-1/2 A D^-1/2.
    return_diag : bool, default False
        Whether to return the diagonal, too.
    use_out_degree : bool, default False
        Whether degrees are sums of rows instead of columns.
    dtype : dtype, optional
        Of the result; integers become floating-point numbers by default where `normed`.
    symmetrized : bool, default False
        Whether A is A + A^H.

    Returns
    -------
    lap : sparse array or ndarray
        Dense if `csgraph` is; with gradients with respect to its values.
    diag : ndarray
        The degrees, or, where `normed`, their square roots; 1 for nodes without edges.

    Examples
    --------
    >>> import cudamath as cm
    >>> path = cm.sparse.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> cm.sparse.csgraph.laplacian(path).toarray().tolist()
    [[1, -1, 0], [-1, 2, -1], [0, -1, 1]]
    """
    x = graph("laplacian", csgraph)
    if dtype is not None:
        x = x.astype(dtype)
    elif normed and x.dtype.kind in "biu":
        x = x.astype(np.float64)
    if symmetrized:
        x = x + x.T.conj()
    off = flatnonzero(x._majors() - x._indices)
    x = x._of_keys(x._keys()[off], x.data[off])
    degrees = x.sum(axis=1 if use_out_degree else 0).reshape(-1).astype(x.dtype)
    if normed:
        zero = degrees == 0
        roots = where(zero, asarray(1, dtype=x.dtype, device=x.device), sqrt(degrees))
        rows, columns = x._coordinates()
        x = x._with_data(-x.data / (roots[rows] * roots[columns]))
        main, diagonal = where(zero, 0 * degrees, 0 * degrees + 1), roots
    else:
        x, main, diagonal = -x, degrees, degrees
    found = x + eye_of(x.shape[0], x.dtype, x.device, x.kinds)._with_data(main)
    found = found if issparse(csgraph) else found.toarray()
    return (found, diagonal) if return_diag else found
