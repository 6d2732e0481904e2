"""Sparse matrices, SciPy's older classes: ``*`` is the product of matrices, ``**`` its repetition,
and every result has two axes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.shapes import normalize_axis
from ..ops.histogram import bincount
from .base import is_number, left_to, sparray
from .bsr import bsr_array
from .construct import eye_of
from .coo import coo_array
from .csc import csc_array
from .csr import csr_array
from .dia import dia_array
from .kinds import ARRAYS, MATRICES

__all__ = ["bsr_matrix", "coo_matrix", "csc_matrix", "csr_matrix", "dia_matrix", "spmatrix"]


def _two_axes(value: Any, axis: Any, out: ndarray | None) -> Any:
    """A reduction along an axis as a row or a column."""
    if axis is not None and getattr(value, "ndim", 0) == 1:
        value = value.reshape((1, -1) if axis in (0, -2) else (-1, 1))
        value = MATRICES["coo"](value) if isinstance(value, sparray) else value
    if out is None:
        return value
    out[...] = value
    return out


def _with_axes(method: Callable) -> Callable:
    """An extreme along an axis, or its places, as a row or a column."""

    @functools.wraps(method)
    def extreme(self: Any, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        return _two_axes(method(self, axis, out, explicit=explicit), axis, None)

    return extreme


class spmatrix(sparray):
    """Base class of sparse matrices, the older classes of `scipy.sparse`.

    They are as arrays, but ``*`` is the product of matrices, and results keep two axes. New
    programs take arrays.
    """

    kinds = MATRICES

    @left_to("__rmul__")
    def __mul__(self, other: Any) -> Any:
        return self.multiply(other) if is_number(other) else self.__matmul__(other)

    def __rmul__(self, other: Any) -> Any:
        return self.multiply(other) if is_number(other) else self.__rmatmul__(other)

    def __pow__(self, n: Any) -> Any:
        if self.shape[0] != self.shape[1]:
            raise TypeError(f"pow: wants a square matrix, got shape {self.shape}")
        if not isinstance(n, (int, np.integer)) or n < 0:
            raise ValueError(f"pow: wants an integer n >= 0, got {n!r:.40}")
        power, square, count = (
            eye_of(self.shape[0], self.dtype, self.device, self.kinds),
            self,
            int(n),
        )
        while count:
            power = power @ square if count % 2 else power
            square, count = (square @ square if count > 1 else square), count // 2
        return power.asformat(self.format) if self.format in ("csr", "csc") else power.tocsr()

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if getattr(found, "ndim", 2) != 1:
            return found
        tall = isinstance(key, tuple) and np.ndim(key[-1]) == 0  # of one column
        tall = tall and not isinstance(key[-1], slice) and key[-1] is not Ellipsis
        shape = (-1, 1) if tall else (1, -1)
        if isinstance(found, sparray):
            return self.kinds["coo"](found.reshape(*shape)).asformat(self.format)
        return found.reshape(shape)

    def sum(self, axis: Any = None, dtype: Any = None, out: ndarray | None = None) -> Any:
        return _two_axes(super().sum(axis, dtype, None), axis, out)

    sum.__doc__ = sparray.sum.__doc__

    def mean(self, axis: Any = None, dtype: Any = None, out: ndarray | None = None) -> Any:
        return _two_axes(super().mean(axis, dtype, None), axis, out)

    mean.__doc__ = sparray.mean.__doc__

    max, min = _with_axes(sparray.max), _with_axes(sparray.min)
    nanmax, nanmin = _with_axes(sparray.nanmax), _with_axes(sparray.nanmin)
    argmax, argmin = _with_axes(sparray.argmax), _with_axes(sparray.argmin)

    def getnnz(self, axis: int | None = None) -> Any:
        """Return the number of stored elements.

        Parameters
        ----------
        axis : int, optional
            Along which they are counted; by default all.

        Returns
        -------
        int or ndarray
            Explicit zeros count.
        """
        if axis is None:
            return self.nnz
        kept = 1 - normalize_axis("getnnz", axis, 2)
        return bincount(self.tocoo().coords[kept], minlength=self.shape[kept])

    def getformat(self) -> str:
        """Return the name of the format.

        Returns
        -------
        str
            Such as "csr".
        """
        return self.format

    def getH(self) -> Any:
        """Return the conjugate transpose.

        Returns
        -------
        sparse matrix
            Of shape (n, m) for a matrix (m, n).
        """
        return self.conj().T  # type: ignore[attr-defined]

    def getrow(self, i: int) -> Any:
        """Return a row.

        Parameters
        ----------
        i : int
            Which one.

        Returns
        -------
        csr_matrix
            Of shape (1, n).
        """
        return self.tocsr()[[i]]

    def getcol(self, j: int) -> Any:
        """Return a column.

        Parameters
        ----------
        j : int
            Which one.

        Returns
        -------
        sparse matrix
            Of shape (m, 1), of the same format where that is CSR or CSC, else in CSR.
        """
        return self._compressed()[:, [j]]

    def asfptype(self) -> Any:
        """Return the matrix with floating-point values.

        Returns
        -------
        sparse matrix
            The matrix itself where they are.
        """
        if self.dtype.kind in "fcV":
            return self
        exact = self.dtype.itemsize < 4  # float32 holds integers of 16 bits
        return self.astype(np.float32 if exact else np.float64)


class coo_matrix(spmatrix, coo_array):
    pass


class csr_matrix(spmatrix, csr_array):
    pass


class csc_matrix(spmatrix, csc_array):
    pass


class bsr_matrix(spmatrix, bsr_array):
    pass


class dia_matrix(spmatrix, dia_array):
    pass


for _kind in (bsr_matrix, coo_matrix, csc_matrix, csr_matrix, dia_matrix):
    _format = _kind.format
    _text = ARRAYS[_format].__doc__ or ""
    _kind.__doc__ = _text.replace("Sparse array", "Sparse matrix").replace(
        f"{_format}_array(", f"{_format}_matrix("
    )
    MATRICES[_format] = _kind
