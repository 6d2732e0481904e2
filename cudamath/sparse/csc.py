"""Compressed sparse column format."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from .base import sparray
from .compressed import Findings, compressed_array
from .kinds import ARRAYS
from .products import dense_product

__all__ = ["csc_array"]


class csc_array(compressed_array):
    """Sparse array in compressed sparse column format: columns are fast.

    ``csc_array(dense)``, ``csc_array(sparse)`` (of this package, SciPy or CuPy),
    ``csc_array(shape)`` (empty), ``csc_array((data, (row, col)))``,
    ``csc_array((data, indices, indptr))``: the elements of column j are
    ``data[indptr[j]:indptr[j + 1]]``, in the rows ``indices[indptr[j]:indptr[j + 1]]``.

    A product with a dense array sorts the indices by rows, once. Arrays are shared, not copied,
    where their dtypes allow it: who writes into an array of indices afterwards makes this one
    invalid. Values carry gradients.

    Parameters
    ----------
    arg1 : array_like, sparse array, tuple
        As above.
    shape : tuple of int, optional
        By default as large as the indices ask for.
    dtype : dtype, optional
        Of the values.
    copy : bool, default False
        Whether the result must not share memory with `arg1`.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csc_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    >>> A.indptr.tolist(), A.indices.tolist()
    ([0, 1, 2, 3], [0, 1, 0])
    """

    format = "csc"
    major = 1

    def tocsc(self, copy: bool = False) -> Any:
        return self.copy() if copy else self

    tocsc.__doc__ = sparray.tocsc.__doc__

    def tocsr(self, copy: bool = False) -> Any:
        return self._other()

    tocsr.__doc__ = sparray.tocsr.__doc__

    def _dense_product(self, other: ndarray) -> ndarray:
        order, indices, indptr = self._transposed()
        if self.data._node is not None or other._node is not None:
            return self.tocsr()._dense_product(other)
        found = self._found.turned or Findings()
        if self._found.transpose is not None:
            self._found.turned = found
        self._find_shares(found, indptr)
        parts = self.data, indices, indptr, other, found.shares
        return dense_product(*parts, places=order, alike=found.alike)


ARRAYS["csc"] = csc_array
