"""Products of dense arrays at the positions of a sparse one."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.dispatch.checks import coerce
from ..core.dtypes import result_type
from ..ops.shape import matrix_transpose
from . import products
from .base import issparse

__all__ = ["sampled_product"]


def sampled_product(pattern: Any, a: ndarray, b: ndarray) -> Any:
    """Return the elements of a product of dense arrays where a sparse array has its own (SDDMM).

    out[i, j] = sum over k of a[i, k] b[k, j] for the stored positions (i, j) of `pattern`, whose
    values do not count.

    Parameters
    ----------
    pattern : sparse array (m, n)
        The positions.
    a : array_like (m, k)
        The left factor.
    b : array_like (k, n)
        The right factor.

    Returns
    -------
    csr_array
        With the positions of `pattern`.

    Raises
    ------
    TypeError
        `pattern` is not sparse.
    ValueError
        The shapes do not fit.

    Notes
    -----
    Gradient: with respect to a and b, of any order: products of the sparse gradient with b and a.

    Examples
    --------
    >>> import cudamath as cm
    >>> pattern = cm.sparse.eye_array(2, format="csr")
    >>> cm.sparse.sampled_product(pattern, cm.ones((2, 3)), cm.ones((3, 2))).toarray().tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    if not issparse(pattern):
        raise TypeError(f"sampled_product: wants a sparse pattern, got {type(pattern).__name__}")
    a, b = coerce("sampled_product", (a, b))
    if (
        a.ndim != 2
        or b.ndim != 2
        or pattern.ndim != 2
        or a.shape[1] != b.shape[0]
        or pattern.shape != (a.shape[0], b.shape[1])
    ):
        raise ValueError(
            f"sampled_product: wants a pattern (m, n), a (m, k) and b (k, n), got shapes "
            f"{pattern.shape}, {a.shape} and {b.shape}"
        )
    dtype = result_type(a, b)
    rows = pattern.tocsr()
    values = products.sampled_product(
        rows._majors(),
        rows._indices,
        rows._indptr,
        a.astype(dtype, copy=False),
        matrix_transpose(b.astype(dtype, copy=False)),
    )
    return rows._with_data(values)
