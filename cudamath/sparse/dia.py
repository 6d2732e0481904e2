"""Diagonal format: a row of numbers per diagonal, by column."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..ops.creation import asarray, zeros
from ..ops.ranges import arange
from ..ops.shape import broadcast_to
from . import other_libraries
from .base import sparray
from .kinds import ARRAYS
from .structure import Shape, index_dtype, sizes_of

__all__ = ["dia_array"]


class dia_array(sparray):
    """Sparse array in diagonal format: ``data[d, j]`` is the element (j - offsets[d], j).

    ``dia_array(dense)``, ``dia_array(sparse)`` (of this package, SciPy or CuPy),
    ``dia_array(shape)`` (empty), ``dia_array((data, offsets), shape=)``. Products convert to CSR.

    Parameters
    ----------
    arg1 : array_like, sparse array, tuple
        As above.
    shape : tuple of int, optional
        Needed with (data, offsets).
    dtype : dtype, optional
        Of the values.
    copy : bool, default False
        Whether the result must not share memory with `arg1`.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.dia_array(([[1.0, 2.0, 3.0]], [1]), shape=(2, 3))
    >>> A.toarray().tolist()
    [[0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]
    """

    format = "dia"

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False):
        name = type(self).__name__
        if isinstance(arg1, tuple) and all(isinstance(n, (int, np.integer)) for n in arg1):
            sizes = sizes_of(name, arg1)
            values = zeros((0, 0))
            made = self._of(values, zeros(0, dtype=index_dtype(*sizes)), sizes)
        elif isinstance(arg1, tuple):
            made = self._of_parts(name, arg1, shape, copy)
        elif (
            not isinstance(arg1, sparray)
            and other_libraries.is_sparse(arg1)
            and arg1.format == "dia"
        ):
            data, offsets = (asarray(x, copy=copy or None) for x in (arg1.data, arg1.offsets))
            made = self._of(data, offsets, tuple(arg1.shape))
        else:
            made = arg1 if isinstance(arg1, sparray) else self.kinds["coo"](arg1, copy=copy)
            made = made.todia(copy=copy)
        self._take(made)
        if shape is not None and sizes_of(name, shape) != self.shape:
            raise ValueError(
                f"{name}: wants shape {tuple(shape)}, got an array of shape {self.shape}"
            )
        if dtype is not None:
            self.data = self.data.astype(dtype, copy=False)

    def _take(self, other: Any) -> None:
        """Become `other`, an array of this format."""
        self.data, self._offsets, self._shape = other.data, other._offsets, other._shape

    @classmethod
    def _of(cls, data: ndarray, offsets: ndarray, shape: Shape) -> Any:
        """An array of arrays that fit each other."""
        made = object.__new__(cls)
        made.data, made._offsets, made._shape = data, offsets, shape
        return made

    @classmethod
    def _of_parts(cls, name: str, arg1: tuple, shape: Any, copy: bool) -> Any:
        if len(arg1) != 2:
            raise TypeError(f"{name}: wants (data, offsets), got a tuple of {len(arg1)}")
        if shape is None:
            raise ValueError(f"{name}: wants a shape beside (data, offsets)")
        data = asarray(arg1[0])
        data = data.copy() if copy else data
        data = data.reshape(1, -1) if data.ndim < 2 else data
        offsets = asarray(arg1[1], device=data.device).reshape(-1)
        if data.ndim != 2 or offsets.dtype.kind not in "iu" or data.shape[0] != offsets.size:
            raise ValueError(
                f"{name}: wants a row of data per offset, got data {data.shape} and offsets "
                f"{offsets.dtype} {offsets.shape}"
            )
        if np.unique(offsets.to_numpy()).size != offsets.size:
            raise ValueError(f"{name}: wants each offset once, got {offsets.tolist()}")
        return cls._of(data, offsets, sizes_of(name, shape))

    # -------------------- attributes

    @property
    def offsets(self) -> ndarray:
        """The diagonals that are stored: above the main one for positive numbers."""
        return self._offsets

    @property
    def nnz(self) -> int:
        """The number of stored elements that lie inside of the array, zeros among them."""
        m, n = self.shape
        offsets = self._offsets.to_numpy().astype(np.int64)
        width = min(self.data.shape[1], n)
        return int(np.maximum(np.minimum(m + offsets, width) - np.maximum(offsets, 0), 0).sum())

    def _remark(self) -> str:
        return f" ({self._offsets.size} diagonals)"

    def _with_data(self, data: ndarray) -> Any:
        return self._of(data, self._offsets, self.shape)

    def copy(self) -> Any:
        return self._of(self.data.copy(), self._offsets.copy(), self.shape)

    copy.__doc__ = sparray.copy.__doc__

    def to(self, device: Any) -> Any:
        return self._of(self.data.to(device), self._offsets.to(device), self.shape)

    to.__doc__ = sparray.to.__doc__

    def get(self) -> Any:
        return other_libraries.to_scipy(self, (self.data, self._offsets))

    get.__doc__ = sparray.get.__doc__

    # -------------------- conversions

    def todia(self, copy: bool = False) -> Any:
        return self.copy() if copy else self

    todia.__doc__ = sparray.todia.__doc__

    def tocoo(self, copy: bool = False) -> Any:
        m, n = self.shape
        each = arange(self.data.shape[1], dtype=np.int64, device=self.device)
        rows = each - self._offsets.astype(np.int64)[:, None]
        columns = broadcast_to(each, rows.shape)
        kept = (rows >= 0) & (rows < m) & (columns < n) & (self.data != 0)
        kind = index_dtype(m, n)
        coords = rows[kept].astype(kind), columns[kept].astype(kind)
        made = self.kinds["coo"]._of(self.data[kept], coords, self.shape)
        return made.copy() if copy else made

    tocoo.__doc__ = sparray.tocoo.__doc__

    def transpose(self, axes: tuple[int, ...] | None = None, copy: bool = False) -> Any:
        if not self._turns(axes):
            return self.copy() if copy else self
        return self.tocoo().transpose().todia()

    transpose.__doc__ = sparray.transpose.__doc__


ARRAYS["dia"] = dia_array
