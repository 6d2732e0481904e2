"""Coordinate format: an array of indices per axis, in any order, and the values; the elements of
one
position are added."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import shapes
from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dtypes import default_float
from ..ops.creation import asarray, zeros
from ..ops.elementwise import minimum, not_equal
from ..ops.index import index_add
from ..ops.masks import nonzero
from ..ops.ranges import arange
from ..ops.search import searchsorted
from ..ops.sets import unique
from ..ops.sort import argsort
from ..ops.where import where
from . import other_libraries
from .base import sparray
from .kinds import ARRAYS, MATRICES
from .products import row_starts
from .structure import (
    Shape,
    as_given,
    check_indices,
    compressed,
    index_dtype,
    keys_of,
    positions,
    sizes_of,
    strictly_ascending,
    summed,
)

__all__ = ["coo_array"]


class coo_array(sparray):
    """Sparse array in coordinate format, of one or two axes.

    ``coo_array(dense)``, ``coo_array(sparse)`` (of this package, SciPy or CuPy),
    ``coo_array(shape)`` (empty), ``coo_array((data, coords))`` with one array of indices per axis.

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
    >>> A = cm.sparse.coo_array(([1.0, 2.0, 3.0], ([0, 1, 1], [0, 0, 0])), shape=(2, 2))
    >>> A.toarray().tolist()
    [[1.0, 0.0], [5.0, 0.0]]
    """

    format = "coo"

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False):
        name = type(self).__name__
        if isinstance(arg1, sparray):
            made = arg1.tocoo(copy=copy)
        elif other_libraries.is_sparse(arg1):
            made = other_libraries.coo(type(self), arg1, copy)
        elif isinstance(arg1, tuple) and all(isinstance(n, (int, np.integer)) for n in arg1):
            sizes = sizes_of(name, arg1, (1, 2))
            made = self._empty(sizes, default_float() if dtype is None else dtype, None)
        elif isinstance(arg1, tuple):
            made = self._of_coordinates(name, arg1, shape, copy, dtype)
        else:
            made = self._of_dense(name, arg1)
        self._take(made)
        if shape is not None and sizes_of(name, shape, (1, 2)) != self.shape:
            raise ValueError(
                f"{name}: wants shape {tuple(shape)}, got an array of shape {self.shape}"
            )
        if dtype is not None:
            self.data = self.data.astype(dtype, copy=False)

    def _take(self, other: Any) -> None:
        """Become `other`, an array of this format."""
        self.data, self._coords, self._shape = other.data, other._coords, other._shape
        self._canonical = other._canonical

    @classmethod
    def _of(
        cls, data: ndarray, coords: tuple[ndarray, ...], shape: Shape, canonical: bool | None = None
    ) -> Any:
        """An array of arrays that fit each other. canonical: None if it is not known."""
        made = object.__new__(cls.kinds["coo"] if len(shape) == 2 else coo_array)
        made.data, made._coords, made._shape, made._canonical = data, coords, shape, canonical
        return made

    @classmethod
    def _empty(cls, shape: Shape, dtype: Any, device: Any) -> Any:
        none = zeros(0, dtype=index_dtype(*shape), device=device)
        return cls._of(zeros(0, dtype=dtype, device=device), (none,) * len(shape), shape, True)

    @classmethod
    def _of_dense(cls, name: str, arg1: Any) -> Any:
        dense = require(name, arg1)
        if cls.kinds is MATRICES and dense.ndim < 2:  # a row
            dense = dense.reshape(1, -1)
        if not dense.ndim:
            raise ValueError(f"{name}: wants an array with axes, got one number")
        shape = sizes_of(name, dense.shape, (1, 2))
        coords = nonzero(dense)
        kind = index_dtype(*shape)
        return cls._of(dense[coords], tuple([i.astype(kind) for i in coords]), shape, True)

    @classmethod
    def _of_coordinates(
        cls, name: str, arg1: tuple, shape: Any, copy: bool, dtype: Any = None
    ) -> Any:
        try:
            values, coords = arg1
            coords = tuple(coords)
        except (TypeError, ValueError):
            raise TypeError(f"{name}: wants (data, (row, col)), got {arg1!r:.60}") from None
        if dtype is not None and isinstance(values, (list, tuple)):
            values = asarray(values, dtype=dtype)  # numbers that the dtype found by default rounds
        data = require(name, values)
        data = data.copy() if copy else data
        indices = [as_given(each) for each in coords]
        for i, each in enumerate(indices):
            if each.size and each.dtype.kind not in "iu":
                raise TypeError(
                    f"{name}: wants integers as coordinates, got {each.dtype} of axis {i}"
                )
            if each.shape != data.shape or data.ndim != 1:
                raise ValueError(
                    f"{name}: wants vectors of one length, got data {data.shape} and coordinates "
                    f"{', '.join(str(x.shape) for x in indices)}"
                )
        if shape is None:
            if not data.size:
                raise ValueError(f"{name}: wants a shape where there are no elements")
            shape = tuple([int(each.max()) + 1 for each in indices])
        shape = sizes_of(name, shape, (1, 2))
        if len(shape) != len(indices):
            raise ValueError(
                f"{name}: wants one array of coordinates per axis of shape {shape}, got "
                f"{len(indices)}"
            )
        kind = index_dtype(*shape)
        for axis, each in enumerate(indices):
            check_indices(name, each, shape[axis], axis)
        placed = [asarray(x, device=data.device).astype(kind, copy=copy) for x in indices]
        return cls._of(data, tuple(placed), shape)

    # -------------------- attributes

    @property
    def coords(self) -> tuple[ndarray, ...]:
        """The indices of the elements, an array per axis."""
        return self._coords

    @coords.setter
    def coords(self, coords: tuple[ndarray, ...]) -> None:
        self._take(type(self)((self.data, coords), shape=self.shape))

    @property
    def row(self) -> ndarray:
        """The row of each element."""
        return self._coords[0] if self.ndim == 2 else self._coords[0] * 0

    @property
    def col(self) -> ndarray:
        """The column of each element."""
        return self._coords[-1]

    @property
    def has_canonical_format(self) -> bool:
        """Whether elements are in row-major order, each position once."""
        if self._canonical is None:
            self._canonical = strictly_ascending(self._keys())
        return self._canonical

    def _keys(self) -> ndarray:
        """Row-major positions of the elements."""
        if self.ndim == 1:
            return self._coords[0].astype(np.int64)
        return keys_of(self.row, self.col, self.shape[1])

    def _with_data(self, data: ndarray) -> Any:
        return self._of(data, self._coords, self.shape, self._canonical)

    def copy(self) -> Any:
        coords = tuple([index.copy() for index in self._coords])
        return self._of(self.data.copy(), coords, self.shape, self._canonical)

    copy.__doc__ = sparray.copy.__doc__

    def to(self, device: Any) -> Any:
        coords = tuple([index.to(device) for index in self._coords])
        return self._of(self.data.to(device), coords, self.shape, self._canonical)

    to.__doc__ = sparray.to.__doc__

    def get(self) -> Any:
        return other_libraries.to_scipy(self, (self.data, self._coords))

    get.__doc__ = sparray.get.__doc__

    # -------------------- order

    def _summed(self) -> Any:
        if self.has_canonical_format:
            return self
        keys, data = summed(self._keys(), self.data)
        kind = self._coords[0].dtype
        coords = (keys.astype(kind),) if self.ndim == 1 else positions(keys, self.shape[1], kind)
        return self._of(data, coords, self.shape, True)

    def sum_duplicates(self) -> None:
        """Add the elements of one position, in place, and bring all in row-major order."""
        self._take(self._summed())

    def _without_zeros(self) -> Any:
        mask = self.data != 0
        coords = tuple([index[mask] for index in self._coords])
        return self._of(self.data[mask], coords, self.shape, self._canonical)

    def eliminate_zeros(self) -> None:
        """Remove the elements that are zero, in place."""
        self._take(self._without_zeros())

    # -------------------- conversions

    def tocoo(self, copy: bool = False) -> Any:
        return self.copy() if copy else self

    tocoo.__doc__ = sparray.tocoo.__doc__

    def _to_compressed(self, format: str, major: int) -> Any:
        if self.ndim != 2:
            raise ValueError(f"to{format}: wants two axes, got shape {self.shape}")
        sizes = self.shape[major], self.shape[1 - major]
        keys = keys_of(self._coords[major], self._coords[1 - major], sizes[1])
        if major == 0 and self.has_canonical_format:
            data = self.data
        else:
            keys, data = summed(keys, self.data)
        kind = index_dtype(*self.shape, data.size)
        indices, indptr = compressed(keys, sizes, kind)
        return self.kinds[format]._of(data, indices, indptr, self.shape, True)

    def tocsr(self, copy: bool = False) -> Any:
        made = self._to_compressed("csr", 0)
        return made.copy() if copy else made

    tocsr.__doc__ = sparray.tocsr.__doc__

    def tocsc(self, copy: bool = False) -> Any:
        made = self._to_compressed("csc", 1)
        return made.copy() if copy else made

    tocsc.__doc__ = sparray.tocsc.__doc__

    def todia(self, copy: bool = False) -> Any:
        if self.ndim != 2:
            raise ValueError(f"todia: wants two axes, got shape {self.shape}")
        elements = self._summed()
        diagonals = elements.col.astype(np.int64) - elements.row
        offsets = unique(diagonals)
        width = int(elements.col.max()) + 1 if elements.nnz else 0
        place = searchsorted(offsets, diagonals) * width + elements.col
        table = zeros(offsets.size * width, dtype=self.dtype, device=self.device)
        data = _added(table, place, elements.data).reshape(offsets.size, width)
        return self.kinds["dia"]._of(data, offsets.astype(index_dtype(*self.shape)), self.shape)

    todia.__doc__ = sparray.todia.__doc__

    def toarray(self, order: str | None = None, out: ndarray | None = None) -> ndarray:
        if out is not None and (
            order is not None or out.shape != self.shape or out.dtype != self.dtype
        ):
            raise ValueError(
                f"toarray: wants out {self.dtype} of shape {self.shape} and no order, got "
                f"{out.dtype} "
                f"of shape {out.shape}, order {order!r}"
            )
        empty = zeros(math.prod(self.shape), dtype=self.dtype, device=self.device)
        dense = _added(empty, self._keys(), self.data).reshape(self.shape)
        if out is not None:
            out[...] = dense
            return out
        return asarray(dense, order=order) if order else dense

    toarray.__doc__ = sparray.toarray.__doc__

    # -------------------- shapes

    def transpose(self, axes: tuple[int, ...] | None = None, copy: bool = False) -> Any:
        turned = self.copy() if copy else self
        if not self._turns(axes):
            return turned
        return self._of(turned.data, turned._coords[::-1], self.shape[::-1])

    transpose.__doc__ = sparray.transpose.__doc__

    def reshape(self, *shape: Any, order: str = "C", copy: bool = False) -> Any:
        sizes = tuple(shape[0]) if len(shape) == 1 and hasattr(shape[0], "__iter__") else shape
        if order not in ("C", "F"):
            raise ValueError(f"reshape: wants order 'C' or 'F', got {order!r:.20}")
        total = math.prod(self.shape)
        wanted = shapes.resolve_shape("reshape", total, shapes.sizes_of("reshape", sizes))
        wanted = sizes_of("reshape", wanted, (1, 2))
        elements = self.copy() if copy else self
        if wanted == self.shape:
            return elements
        ahead = order == "C" or self.ndim == 1
        keys = elements._keys() if ahead else keys_of(self.col, self.row, self.shape[0])
        kind = index_dtype(*wanted)
        if len(wanted) == 1:
            coords: tuple[ndarray, ...] = (keys.astype(kind),)
        elif order == "C":
            coords = positions(keys, wanted[1], kind)
        else:
            coords = positions(keys, wanted[0], kind)[::-1]
        return self._of(elements.data, coords, wanted, self._canonical if order == "C" else None)

    reshape.__doc__ = sparray.reshape.__doc__

    def diagonal(self, k: int = 0) -> ndarray:
        m, n = self.shape
        count = max(min(m + min(k, 0), n - max(k, 0)), 0)
        empty = zeros(count, dtype=self.dtype, device=self.device)
        if self.nnz and count and self.has_canonical_format:  # searched, not counted
            keys = self._keys()
            wanted = (arange(count, device=self.device) + max(-k, 0)) * (n + 1) + k
            at = minimum(searchsorted(keys, wanted), self.nnz - 1)
            return where(keys[at] == wanted, self.data[at], empty)
        on = self.col.astype(np.int64) - self.row == k
        return _added(empty, self.row[on] - max(-k, 0), self.data[on])

    diagonal.__doc__ = sparray.diagonal.__doc__

    def __getitem__(self, key: Any) -> Any:
        if self.ndim == 2:
            found = super().__getitem__(key)
            return coo_array(found) if isinstance(found, ndarray) and found.ndim else found
        key = key if isinstance(key, tuple) else (key,)
        line = self.reshape(1, -1).tocsr()[(0, *key)]
        return line

    def _in_rows(self) -> Any:
        """The elements as a CSR array, by rows and otherwise in this order, duplicates among them.
        No value is read on the host."""
        rows, m = self.row, self.shape[0]
        if self._canonical:
            return self.kinds["csr"]._of(self.data, self.col, row_starts(rows, m), self.shape, True)
        order = argsort(rows, stable=True)
        starts = row_starts(rows[order], m)
        return self.kinds["csr"]._of(self.data[order], self.col[order], starts, self.shape)

    def _dense_product(self, other: ndarray) -> ndarray:
        if self.ndim == 2:
            return self._in_rows()._dense_product(other)
        return self.reshape(1, -1).tocsr()._dense_product(other).reshape(other.shape[1:])


def _added(target: ndarray, at: ndarray, values: ndarray) -> ndarray:
    """`target`, all zeros, with values added at positions; of booleans whether any is true."""
    if target.dtype.kind == "b":
        return not_equal(index_add(target.astype(np.int64), at, values.astype(np.int64)), 0)
    return index_add(target, at, values)


ARRAYS["coo"] = coo_array
