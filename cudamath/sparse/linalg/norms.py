"""Norms of sparse arrays."""

from __future__ import annotations

import math
from typing import Any

from ...ops.elementwise import sqrt
from ..base import issparse
from ..reductions import one_axis
from .eigen import svds

__all__ = ["norm"]


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """Return a norm of a sparse array, or of its rows or columns.

    Parameters
    ----------
    x : sparse array
        Of shape (m, n).
    ord : {None, "fro", 1, -1, inf, -inf, 0, 2}, optional
        Frobenius's by default; 1 and inf: sums of columns and rows; 2: the largest singular value.
        Of rows and columns also 0 and any positive number.
    axis : int or tuple of int, optional
        Along which vectors lie; by default x is a matrix. Of two axes, the first one is that of the
        rows: (1, 0) stands for the norm of the transpose.

    Returns
    -------
    scalar or ndarray
        Not negative.

    Notes
    -----
    Gradient: with respect to the values, where the norm has one.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[3.0, 0.0], [0.0, 4.0]])
    >>> float(cm.sparse.linalg.norm(A)), float(cm.sparse.linalg.norm(A, 1))
    (5.0, 4.0)
    """
    if not issparse(x):
        raise TypeError(f"norm: wants a sparse array, got {type(x).__name__}")
    along = one_axis("norm", axis, x.ndim)
    sizes = abs(x)
    if along is None:
        if ord in (None, "fro", "f"):
            return sqrt((sizes.tocoo().data ** 2).sum())
        if ord in (1, -1, math.inf, -math.inf) and x.ndim == 2:
            rows_first = axis is None or axis[0] % 2 == 0
            sums = sizes.sum(axis=0 if (abs(ord) == 1) == rows_first else 1)
            return sums.max() if ord > 0 else sums.min()
        if ord == 2 and x.ndim == 2 and x.shape[0] and x.shape[1]:
            return svds(x, 1, return_singular_vectors=False, solver="propack")[0]
        raise NotImplementedError(
            f"norm: has ord None, 'fro', 1, -1, 2, inf and -inf of matrices, got {ord!r:.40} for "
            f"shape "
            f"{x.shape}"
        )
    return _of_lines(x, sizes, ord, along).reshape(-1)  # matrices' sums have two axes


def _of_lines(x: Any, sizes: Any, ord: Any, axis: int) -> Any:
    """Norms of vectors along an axis; sizes: the magnitudes of x."""
    if ord in (None, 2):
        return sqrt((sizes.power(2)).sum(axis=axis))
    if ord in (math.inf, -math.inf):
        return (sizes.max(axis=axis) if ord > 0 else sizes.min(axis=axis)).toarray()
    if ord == 0:
        return x.count_nonzero(axis=axis)
    if isinstance(ord, (int, float)) and ord > 0:
        return sizes.sum(axis=axis) if ord == 1 else sizes.power(ord).sum(axis=axis) ** (1 / ord)
    raise ValueError(f"norm: wants ord None, 0, inf, -inf or a positive number, got {ord!r:.40}")
