"""Block sparse row format: CSR whose elements are dense blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dtypes import result_type
from ..ops.creation import asarray, zeros
from ..ops.elementwise import not_equal
from ..ops.index import index_add
from ..ops.masks import flatnonzero
from ..ops.ranges import arange
from ..ops.search import searchsorted
from ..ops.sets import unique
from ..ops.shape import broadcast_to, matrix_transpose
from . import other_libraries
from .base import sparray
from .kinds import ARRAYS
from .products import bsr_product, row_numbers, transposed
from .structure import (
    Shape,
    as_given,
    check_indices,
    check_starts,
    compressed,
    index_dtype,
    keys_of,
    sizes_of,
)

__all__ = ["bsr_array"]


class bsr_array(sparray):
    """Sparse array in block sparse row format: dense blocks of one size, by rows of blocks.

    ``bsr_array(dense)``, ``bsr_array(sparse)`` (of this package, SciPy or CuPy), both with
    ``blocksize=``, ``bsr_array(shape, blocksize=)`` (empty), ``bsr_array((data, indices,
    indptr))`` with data of shape (blocks, height, width).

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
    blocksize : tuple of int, optional
        Height and width of the blocks; they must divide the shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.bsr_array(cm.eye(4), blocksize=(2, 2))
    >>> A.data.shape, (A @ cm.ones(4)).tolist()
    ((2, 2, 2), [1.0, 1.0, 1.0, 1.0])
    """

    format = "bsr"

    def __init__(
        self,
        arg1: Any,
        shape: Any = None,
        dtype: Any = None,
        copy: bool = False,
        blocksize: tuple[int, int] | None = None,
    ):
        name = type(self).__name__
        if isinstance(arg1, tuple) and all(isinstance(n, (int, np.integer)) for n in arg1):
            sizes = sizes_of(name, arg1)
            height, width = _checked(name, sizes, blocksize or (1, 1))
            kind = index_dtype(*sizes)
            values = zeros((0, height, width))
            made = self._of(
                values, zeros(0, dtype=kind), zeros(sizes[0] // height + 1, dtype=kind), sizes
            )
        elif isinstance(arg1, tuple) and len(arg1) == 3:
            made = self._of_parts(name, *arg1, shape, copy)
            if blocksize is not None and tuple(blocksize) != made.blocksize:
                raise ValueError(
                    f"{name}: wants blocks of size {blocksize}, got data of shape {made.data.shape}"
                )
        elif isinstance(arg1, bsr_array) and blocksize in (None, arg1.blocksize):
            made = arg1.copy() if copy else arg1
        elif (
            not isinstance(arg1, sparray)
            and other_libraries.is_sparse(arg1)
            and arg1.format == "bsr"
            and blocksize in (None, arg1.blocksize)
        ):
            made = self._of(*other_libraries.blocks(arg1, copy), tuple(arg1.shape))
        else:
            made = self._of_csr(self.kinds["csr"](arg1, shape, copy=copy), blocksize or (1, 1))
        self._take(made)
        if shape is not None and sizes_of(name, shape) != self.shape:
            raise ValueError(
                f"{name}: wants shape {tuple(shape)}, got an array of shape {self.shape}"
            )
        if dtype is not None:
            self.data = self.data.astype(dtype, copy=False)

    def _take(self, other: Any) -> None:
        """Become `other`, an array of this format."""
        self.data, self._indices, self._indptr = other.data, other._indices, other._indptr
        self._shape = other._shape

    @classmethod
    def _of(cls, data: ndarray, indices: ndarray, indptr: ndarray, shape: Shape) -> Any:
        """An array of arrays that fit each other."""
        made = object.__new__(cls)
        made.data, made._indices, made._indptr, made._shape = data, indices, indptr, shape
        return made

    @classmethod
    def _of_parts(
        cls, name: str, data: Any, indices: Any, indptr: Any, shape: Any, copy: bool
    ) -> Any:
        data = require(name, data)
        data = data.copy() if copy else data
        places, starts = as_given(indices), as_given(indptr)
        if data.ndim != 3 or places.shape != data.shape[:1] or starts.ndim != 1:
            raise ValueError(
                f"{name}: wants data (blocks, height, width), indices (blocks,) and indptr, got "
                f"shapes "
                f"{data.shape}, {places.shape}, {starts.shape}"
            )
        height, width = data.shape[1:]
        if shape is None:
            shape = (
                (starts.size - 1) * height,
                (int(places.max()) + 1 if places.size else 0) * width,
            )
        shape = sizes_of(name, shape)
        _checked(name, shape, (height, width))
        if starts.size != shape[0] // height + 1:
            raise ValueError(
                f"{name}: wants an indptr of {shape[0] // height + 1} numbers for shape {shape} in "
                f"blocks of {height} x {width}, got {starts.size}"
            )
        check_starts(name, starts, places.size)
        check_indices(name, places, shape[1] // width, 1)
        kind = index_dtype(*shape, places.size)
        places, starts = (
            asarray(x, device=data.device).astype(kind, copy=copy) for x in (places, starts)
        )
        return cls._of(data, places, starts, shape)

    @classmethod
    def _of_csr(cls, x: Any, blocksize: tuple[int, int]) -> Any:
        """The blocks that hold a stored element."""
        height, width = _checked("tobsr", x.shape, blocksize)
        bands = x.shape[0] // height, x.shape[1] // width
        elements = x.tocoo()
        keys = keys_of(elements.row // height, elements.col // width, bands[1])
        stored = unique(keys)
        block = searchsorted(stored, keys)
        inside = (elements.row % height) * width + elements.col % width
        wide = np.dtype(np.int64) if x.dtype.kind == "b" else x.dtype
        table = zeros(stored.size * height * width, dtype=wide, device=x.device)
        table = index_add(table, block * (height * width) + inside, elements.data.astype(wide))
        kind = index_dtype(*x.shape, stored.size)
        data = table.reshape(stored.size, height, width).astype(x.dtype, copy=False)
        return cls.kinds["bsr"]._of(data, *compressed(stored, bands, kind), x.shape)

    # -------------------- attributes

    @property
    def blocksize(self) -> tuple[int, int]:
        """Height and width of the blocks."""
        return self.data.shape[1], self.data.shape[2]

    @property
    def indices(self) -> ndarray:
        """The column of each block, counted in blocks."""
        return self._indices

    @property
    def indptr(self) -> ndarray:
        """Where each row of blocks begins, and the number of blocks."""
        return self._indptr

    def _remark(self) -> str:
        return f" (blocksize={self.blocksize[0]}x{self.blocksize[1]})"

    def _with_data(self, data: ndarray) -> Any:
        return self._of(data, self._indices, self._indptr, self.shape)

    def _summed(self) -> Any:
        keys = keys_of(
            row_numbers(self._indptr, self._indices.size), self._indices, self.shape[1] or 1
        )
        if keys.size < 2 or bool((keys[1:] > keys[:-1]).all()):
            return self
        return self._of_csr(self.tocoo()._summed().tocsr(), self.blocksize)

    def sum_duplicates(self) -> None:
        """Add the blocks of one position, in place, and sort them."""
        self._take(self._summed())

    def eliminate_zeros(self) -> None:
        """Remove the blocks that are zero everywhere, in place."""
        kept = flatnonzero(not_equal(self.data, 0).any(axis=(1, 2)))
        starts = searchsorted(kept, self._indptr).astype(self._indptr.dtype)
        self.data, self._indices, self._indptr = self.data[kept], self._indices[kept], starts

    def _without_zeros(self) -> Any:
        made = self._with_data(self.data)
        made.eliminate_zeros()
        return made

    def copy(self) -> Any:
        return self._of(self.data.copy(), self._indices.copy(), self._indptr.copy(), self.shape)

    copy.__doc__ = sparray.copy.__doc__

    def to(self, device: Any) -> Any:
        parts = self.data.to(device), self._indices.to(device), self._indptr.to(device)
        return self._of(*parts, self.shape)

    to.__doc__ = sparray.to.__doc__

    def get(self) -> Any:
        return other_libraries.to_scipy(self, (self.data, self._indices, self._indptr))

    get.__doc__ = sparray.get.__doc__

    # -------------------- conversions

    def tobsr(self, blocksize: tuple[int, int] | None = None, copy: bool = False) -> Any:
        if blocksize not in (None, self.blocksize):
            return self._of_csr(self.tocsr(), blocksize)
        return self.copy() if copy else self

    tobsr.__doc__ = sparray.tobsr.__doc__

    def tocoo(self, copy: bool = False) -> Any:
        height, width = self.blocksize
        kind = index_dtype(*self.shape)
        device = self.device
        bands = row_numbers(self._indptr, self._indices.size).astype(kind)
        shape = self.data.shape
        rows = (bands * height)[:, None, None] + arange(height, dtype=kind, device=device)[:, None]
        columns = (self._indices.astype(kind) * width)[:, None, None] + arange(
            width, dtype=kind, device=device
        )
        coords = tuple([broadcast_to(x.astype(kind), shape).reshape(-1) for x in (rows, columns)])
        made = self.kinds["coo"]._of(self.data.reshape(-1), coords, self.shape)
        return made.copy() if copy else made

    tocoo.__doc__ = sparray.tocoo.__doc__

    def transpose(self, axes: tuple[int, ...] | None = None, copy: bool = False) -> Any:
        if not self._turns(axes):
            return self.copy() if copy else self
        order, rows, starts = transposed(
            self._indices, self._indptr, self.shape[1] // self.blocksize[1]
        )
        return self._of(matrix_transpose(self.data[order]), rows, starts, self.shape[::-1])

    transpose.__doc__ = sparray.transpose.__doc__

    def _dense_product(self, other: ndarray) -> ndarray:
        dtype = result_type(self.data, other)
        wide = np.dtype(np.int64) if dtype.kind == "b" else dtype
        dense = other.astype(wide, copy=False)
        columns = dense.reshape(-1, 1) if other.ndim == 1 else dense
        out = bsr_product(self.data.astype(wide, copy=False), self._indices, self._indptr, columns)
        out = out.reshape(self.shape[0]) if other.ndim == 1 else out
        return not_equal(out, 0) if dtype.kind == "b" else out


def _checked(name: str, shape: Shape, blocksize: Any) -> tuple[int, int]:
    """The size of blocks that divide a shape; ValueError."""
    height, width = (int(n) for n in blocksize)
    if height < 1 or width < 1 or shape[0] % height or shape[1] % width:
        raise ValueError(f"{name}: blocks of {height} x {width} do not divide shape {shape}")
    return height, width


ARRAYS["bsr"] = bsr_array
