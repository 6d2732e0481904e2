"""Compressed sparse row format."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from .base import sparray
from .compressed import compressed_array
from .kinds import ARRAYS
from .products import dense_product

__all__ = ["csr_array"]


class csr_array(compressed_array):
    """Sparse array in compressed sparse row format: products, and rows, are fast.

    ``csr_array(dense)``, ``csr_array(sparse)`` (of this package, SciPy or CuPy),
    ``csr_array(shape)`` (empty), ``csr_array((data, (row, col)))``,
    ``csr_array((data, indices, indptr))``: the elements of row i are
    ``data[indptr[i]:indptr[i + 1]]``, in the columns ``indices[indptr[i]:indptr[i + 1]]``.

    Arrays are shared, not copied, where their dtypes allow it: who writes into an array of indices
    afterwards makes this one invalid. Values carry gradients.

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
    >>> A = cm.sparse.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    >>> A.indptr.tolist(), (A @ cm.array([1.0, 1.0, 1.0])).tolist()
    ([0, 2, 3], [3.0, 3.0])
    """

    format = "csr"
    major = 0

    def tocsr(self, copy: bool = False) -> Any:
        return self.copy() if copy else self

    tocsr.__doc__ = sparray.tocsr.__doc__

    def tocsc(self, copy: bool = False) -> Any:
        return self._other()

    tocsc.__doc__ = sparray.tocsc.__doc__

    def tobsr(self, blocksize: tuple[int, int] | None = None, copy: bool = False) -> Any:
        return self.kinds["bsr"]._of_csr(self, blocksize or (1, 1))

    tobsr.__doc__ = sparray.tobsr.__doc__

    def _dense_product(self, other: ndarray) -> ndarray:
        found = self._found
        self._find_shares(found, self._indptr)
        parts = self.data, self._indices, self._indptr, other, found.shares
        if other._node is None:
            return dense_product(*parts, alike=found.alike)
        return dense_product(*parts, *self._transposed(), alike=found.alike)


ARRAYS["csr"] = csr_array
