"""What the two compressed formats share. Elements are stored by their index along the *major* axis
(rows in CSR, columns in CSC), whose runs begin at `indptr`, with their index along the minor
one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.call_record import open_records
from ..core.dispatch.checks import require
from ..core.dtypes import default_float
from ..ops.creation import asarray, zeros
from ..ops.masks import flatnonzero
from ..ops.search import searchsorted
from ..ops.sort import argsort
from ..runtime.stream import current_stream
from . import indexing, other_libraries
from .base import sparray
from .products import Structure, diagonal_of_rows, row_numbers, rows_alike, share_starts, transposed
from .structure import (
    Shape,
    as_given,
    check_indices,
    check_starts,
    compressed,
    index_dtype,
    keys_of,
    sizes_of,
    strictly_ascending,
    summed,
)


class Findings:
    """What was found out about a structure; arrays of the same indices share it.

    transpose: the structure with the other major axis, and turned: what was found out about that;
    shares: `share_starts`; alike: `rows_alike`; multiplied: whether there was a product.
    """

    def __init__(self) -> None:
        self.transpose: Structure | None = None
        self.turned: Findings | None = None
        self.shares: ndarray | None = None
        self.alike = self.multiplied = False


class compressed_array(sparray):
    """Base class of CSR and CSC."""

    #: The number of the major axis.
    major = 0
    _found: Findings

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False):
        name = type(self).__name__
        if isinstance(arg1, tuple) and all(isinstance(n, (int, np.integer)) for n in arg1):
            sizes = sizes_of(name, arg1)
            made = self._empty(sizes, default_float() if dtype is None else dtype, None)
        elif isinstance(arg1, tuple) and len(arg1) == 3:
            made = self._of_parts(name, *arg1, shape, copy)
        elif (
            other_libraries.is_sparse(arg1)
            and arg1.format == self.format != ""
            and not isinstance(arg1, sparray)
        ):
            made = self._of(*other_libraries.blocks(arg1, copy), tuple(arg1.shape))
        else:
            made = (
                arg1
                if isinstance(arg1, sparray)
                else self.kinds["coo"](
                    arg1, shape, dtype if isinstance(arg1, tuple) else None, copy
                )
            )
            if made.ndim != 2:
                raise ValueError(f"{name}: wants two axes, got shape {made.shape}")
            made = made.asformat(self.format, copy=copy)
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
        self._shape, self._canonical = other._shape, other._canonical
        self._found = other._found

    @classmethod
    def _of(
        cls,
        data: ndarray,
        indices: ndarray,
        indptr: ndarray,
        shape: Shape,
        canonical: bool | None = None,
    ) -> Any:
        """An array of arrays that fit each other. canonical: None if it is not known."""
        made = object.__new__(cls)
        made.data, made._indices, made._indptr = data, indices, indptr
        made._shape, made._canonical = shape, canonical
        made._found = Findings()
        return made

    @classmethod
    def _empty(cls, shape: Shape, dtype: Any, device: Any) -> Any:
        kind = index_dtype(*shape)
        none, starts = (zeros(n, dtype=kind, device=device) for n in (0, shape[cls.major] + 1))
        return cls._of(zeros(0, dtype=dtype, device=device), none, starts, shape, True)

    @classmethod
    def _of_parts(
        cls, name: str, data: Any, indices: Any, indptr: Any, shape: Any, copy: bool
    ) -> Any:
        data = require(name, data)
        data = data.copy() if copy else data
        places, starts = as_given(indices), as_given(indptr)
        if not data.ndim == places.ndim == starts.ndim == 1 or data.shape != places.shape:
            raise ValueError(
                f"{name}: wants vectors data and indices of one length, and indptr, got shapes "
                f"{data.shape}, {places.shape}, {starts.shape}"
            )
        if starts.dtype.kind not in "iu" or (places.size and places.dtype.kind not in "iu"):
            raise TypeError(
                f"{name}: wants integers as indices and indptr, got {places.dtype} and "
                f"{starts.dtype}"
            )
        if shape is None:
            minor = int(places.max()) + 1 if places.size else 0
            shape = (starts.size - 1, minor) if cls.major == 0 else (minor, starts.size - 1)
        shape = sizes_of(name, shape)
        if starts.size != shape[cls.major] + 1:
            raise ValueError(
                f"{name}: wants an indptr of {shape[cls.major] + 1} numbers for shape {shape}, got "
                f"{starts.size}"
            )
        check_starts(name, starts, data.size)
        check_indices(name, places, shape[1 - cls.major], 1 - cls.major)
        kind = index_dtype(*shape, data.size)
        places, starts = (
            asarray(x, device=data.device).astype(kind, copy=copy) for x in (places, starts)
        )
        return cls._of(data, places, starts, shape)

    # -------------------- attributes

    @property
    def indices(self) -> ndarray:
        """The index of each element along the minor axis.

        It is read-only on the CPU, and not to be written on a GPU.
        """
        return _read_only(self._indices)

    @indices.setter
    def indices(self, indices: Any) -> None:
        self._take(type(self)((self.data, indices, self._indptr), shape=self.shape))

    @property
    def indptr(self) -> ndarray:
        """Where the elements of each major index begin, and the number of all.

        It is read-only on the CPU, and not to be written on a GPU.
        """
        return _read_only(self._indptr)

    @indptr.setter
    def indptr(self, indptr: Any) -> None:
        self._take(type(self)((self.data, self._indices, indptr), shape=self.shape))

    @property
    def has_canonical_format(self) -> bool:
        """Whether the indices of each run ascend, each once."""
        if self._canonical is None:
            self._canonical = strictly_ascending(self._keys())
        return self._canonical

    @property
    def has_sorted_indices(self) -> bool:
        """Whether the indices of each run ascend."""
        if self._canonical:
            return True
        keys = self._keys()
        return keys.size < 2 or bool((keys[1:] >= keys[:-1]).all())

    @property
    def _sizes(self) -> Shape:
        """The lengths of the major and the minor axis."""
        return self._shape[self.major], self._shape[1 - self.major]

    def _majors(self) -> ndarray:
        """The major index of each element."""
        return row_numbers(self._indptr, self.nnz)

    def _keys(self) -> ndarray:
        return keys_of(self._majors(), self._indices, self._sizes[1])

    def _with_data(self, data: ndarray) -> Any:
        made = self._of(data, self._indices, self._indptr, self.shape, self._canonical)
        made._found = self._found
        return made

    def copy(self) -> Any:
        parts = self.data.copy(), self._indices.copy(), self._indptr.copy()
        return self._of(*parts, self.shape, self._canonical)

    copy.__doc__ = sparray.copy.__doc__

    def to(self, device: Any) -> Any:
        parts = self.data.to(device), self._indices.to(device), self._indptr.to(device)
        return self._of(*parts, self.shape, self._canonical)

    to.__doc__ = sparray.to.__doc__

    def get(self) -> Any:
        return other_libraries.to_scipy(self, (self.data, self._indices, self._indptr))

    get.__doc__ = sparray.get.__doc__

    # -------------------- order

    def check_format(self, full_check: bool = True) -> None:
        """Check that the arrays fit each other; ValueError if they do not.

        Parameters
        ----------
        full_check : bool, default True
            Whether all indices are looked at (on a GPU: waited for), or only lengths.
        """
        name = "check_format"
        if self.data.shape != self._indices.shape or self._indptr.size != self._sizes[0] + 1:
            raise ValueError(
                f"{name}: data {self.data.shape}, indices {self._indices.shape} and indptr "
                f"{self._indptr.shape} do not fit shape {self.shape}"
            )
        if full_check:
            check_starts(name, self._indptr, self.nnz)
            check_indices(name, self._indices, self._sizes[1], 1 - self.major)

    def _of_keys(self, keys: ndarray, data: ndarray, canonical: bool | None = True) -> Any:
        """An array of this shape and format, of ascending keys."""
        kind = index_dtype(*self.shape, data.size)
        return self._of(data, *compressed(keys, self._sizes, kind), self.shape, canonical)

    def _summed(self) -> Any:
        if self.has_canonical_format:
            return self
        return self._of_keys(*summed(self._keys(), self.data))

    def sum_duplicates(self) -> None:
        """Add the elements of one position, in place, and sort indices."""
        self._take(self._summed())

    def sort_indices(self) -> None:
        """Sort the indices of each run, in place."""
        self._take(self.sorted_indices())

    def sorted_indices(self) -> Any:
        """Return the array with the indices of each run sorted.

        Returns
        -------
        sparse array
            Of the same format, with the same elements.
        """
        if self.has_sorted_indices:
            return self.copy()
        order = argsort(self._keys(), stable=True)
        return self._of(
            self.data[order], self._indices[order], self._indptr, self.shape, self._canonical
        )

    def _without_zeros(self) -> Any:
        kept = flatnonzero(self.data != 0)
        starts = searchsorted(kept, self._indptr).astype(self._indptr.dtype)
        return self._of(self.data[kept], self._indices[kept], starts, self.shape, self._canonical)

    def eliminate_zeros(self) -> None:
        """Remove the elements that are zero, in place."""
        self._take(self._without_zeros())

    # -------------------- conversions

    def _coordinates(self) -> tuple[ndarray, ndarray]:
        """(row, column) of each element."""
        found = self._majors(), self._indices
        return found if self.major == 0 else found[::-1]

    def tocoo(self, copy: bool = False) -> Any:
        coords = self._coordinates()
        canonical = self._canonical if self.major == 0 else None
        made = self.kinds["coo"]._of(self.data, coords, self.shape, canonical)
        return made.copy() if copy else made

    tocoo.__doc__ = sparray.tocoo.__doc__

    def diagonal(self, k: int = 0) -> ndarray:
        k = k if self.major == 0 else -k
        rows, columns = self.shape[:: 1 if self.major == 0 else -1]
        count = max(min(rows + min(k, 0), columns - max(k, 0)), 0)
        return diagonal_of_rows(self.data, self._indices, self._indptr, k, count)

    diagonal.__doc__ = sparray.diagonal.__doc__

    def _other(self) -> Any:
        """The array in the other compressed format."""
        order, indices, indptr = self._transposed()
        canonical = self._canonical or None
        kind = self.kinds["csc" if self.format == "csr" else "csr"]
        made = kind._of(self.data[order], indices, indptr, self.shape, canonical)
        if self._found.transpose is not None:
            self._found.turned = made._found = self._found.turned or made._found
        return made

    def _may_keep(self) -> bool:
        """Whether what is made now stays: what is made while calls are recorded or captured belongs
        to them."""
        device = self._indptr._layout.device
        return not open_records and (device < 0 or not current_stream(device).capturing)

    def _transposed(self) -> Structure:
        """The structure with the other major axis; kept, as the structure does not change."""
        if self._found.transpose is not None:
            return self._found.transpose
        turned = transposed(self._indices, self._indptr, self._sizes[1])
        if self._may_keep():
            self._found.transpose = turned
        return turned

    def transpose(self, axes: tuple[int, ...] | None = None, copy: bool = False) -> Any:
        turned = self.copy() if copy else self
        if not self._turns(axes):
            return turned
        kind = self.kinds["csc" if self.format == "csr" else "csr"]
        parts = turned.data, turned._indices, turned._indptr
        made = kind._of(*parts, self.shape[::-1], self._canonical)
        made._found = turned._found
        return made

    transpose.__doc__ = sparray.transpose.__doc__

    # -------------------- parts

    def __getitem__(self, key: Any) -> Any:
        return indexing.get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._take(indexing.assigned(self, key, value))

    # -------------------- products

    def _find_shares(self, found: Findings, indptr: ndarray) -> None:
        """Keep what a GPU's products may know of a structure, the array's or its transpose's, from
        the second product on: the first may be the only one. Whether rows are alike is waited for,
        once."""
        if found.shares is not None or indptr._layout.device < 0:
            return
        if found.multiplied and self._may_keep():
            found.shares = share_starts(indptr, self.nnz)
            found.alike = rows_alike(indptr, self.nnz)
        found.multiplied = True


def _read_only(x: ndarray) -> ndarray:
    """A view through which nobody writes: a matrix that was sorted once may rely on its structure.
    Memory of a GPU cannot be protected."""
    view = x.view()
    if view._layout.device == CPU:
        view.setflags(write=False)
    return view
