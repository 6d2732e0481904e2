"""Laplacians of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.dtypes import as_dtype
from ...ops.creation import asarray
from ...ops.elementwise import conj_or_same, sqrt
from ...ops.masks import flatnonzero
from ...ops.where import where
from ..base import issparse
from ..construct import eye_of
from ..linalg.operators import LinearOperator
from .edges import graph

__all__ = ["laplacian"]

FORMS = ("array", "function", "lo")


def laplacian(
    csgraph: Any,
    normed: bool = False,
    return_diag: bool = False,
    use_out_degree: bool = False,
    *,
    copy: bool = True,
    form: str = "array",
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
    copy : bool, default True
        False permits to overwrite `csgraph`, which is not done.
    form : {"array", "function", "lo"}, default "array"
        Whether to return a matrix, a function of columns (n,) or (n, k), or a `LinearOperator`; the
        last two store no matrix but that of `csgraph`.
    dtype : dtype, optional
        Of the matrix, the operator and the degrees; integers become floating-point numbers by
        default where `normed`.
    symmetrized : bool, default False
        Whether A is A + A^H.

    Returns
    -------
    lap : sparse array, ndarray, callable or LinearOperator
        A matrix is dense if `csgraph` is; with gradients with respect to its values.
    diag : ndarray
        The degrees, or, where `normed`, their square roots; 1 for nodes without edges.

    Examples
    --------
    >>> import cudamath as cm
    >>> path = cm.sparse.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> cm.sparse.csgraph.laplacian(path).toarray().tolist()
    [[1, -1, 0], [-1, 2, -1], [0, -1, 1]]
    """
    if form not in FORMS:
        raise ValueError(f"laplacian: wants a form of {', '.join(FORMS)}, got {form!r:.40}")
    x = graph("laplacian", csgraph, finite=False)
    if normed and x.dtype.kind in "biu":
        x = x.astype(np.float64)
    kind = x.dtype if dtype is None else as_dtype(dtype, "laplacian")
    off = flatnonzero(x._majors() - x._indices)
    x = x._of_keys(x._keys()[off], x.data[off])
    if symmetrized and form == "array":
        x = x + x.T.conj()
    axis = 1 if use_out_degree else 0
    degrees = x.sum(axis=axis).reshape(-1).astype(x.dtype)
    if symmetrized and form != "array":
        degrees = degrees + conj_or_same(x.sum(axis=1 - axis).reshape(-1).astype(x.dtype))
    zero = degrees == 0
    one = asarray(1, dtype=x.dtype, device=x.device)
    roots = where(zero, one, sqrt(degrees)) if normed else degrees
    main = where(zero, 0 * degrees, 0 * degrees + 1) if normed else degrees
    if form != "array":
        found = _applied(x, main, roots if normed else None, symmetrized)
        if form == "lo":
            found = LinearOperator(x.shape, found, matmat=found, dtype=kind)
        return (found, roots.astype(kind)) if return_diag else found
    if normed:
        rows, columns = x._coordinates()
        x = x._with_data(-x.data / roots[rows] / roots[columns])
    else:
        x = -x
    found = x + eye_of(x.shape[0], x.dtype, x.device, x.kinds)._with_data(main)
    found = (found if issparse(csgraph) else found.toarray()).astype(kind, copy=False)
    return (found, roots.astype(kind)) if return_diag else found


def _applied(
    x: Any, main: ndarray, roots: ndarray | None, symmetrized: bool
) -> Callable[[Any], ndarray]:
    """The Laplacian as a function: M - R^-1 A R^-1 for the diagonals M and R and the matrix A, or
    A + A^H, without a diagonal."""

    def applied(v: Any) -> ndarray:
        v = asarray(v, device=x.device)
        columns = (slice(None), *[None] * (v.ndim - 1))
        scaled = v if roots is None else v / roots[columns]
        out = x @ scaled
        out = out + x.T.conj() @ scaled if symmetrized else out
        return v * main[columns] - (out if roots is None else out / roots[columns])

    return applied
