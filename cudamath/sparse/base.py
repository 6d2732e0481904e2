"""What all sparse arrays share: attributes, operators, conversions, reductions.

A format states how its elements are stored: a class in coo.py, csr.py, csc.py, bsr.py or dia.py.
What a format does not do itself goes through CSR or COO. Formats find one another in `kinds`, so
their files need not import one another.
"""

from __future__ import annotations

import functools
import math
import operator
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from ..core.array import ndarray
from ..ops import elementwise, elementwise_numpy
from ..ops.creation import asarray, ones, zeros
from ..ops.masks import flatnonzero
from ..ops.reduce import count_nonzero
from ..ops.shape import broadcast_to
from . import combine, reductions
from .kinds import ARRAYS
from .structure import Shape, index_dtype, sizes_of

__all__ = ["SparseEfficiencyWarning", "SparseWarning", "issparse", "sparray"]

NAMES = {
    "bsr": "Block Sparse Row",
    "coo": "COOrdinate",
    "csc": "Compressed Sparse Column",
    "csr": "Compressed Sparse Row",
    "dia": "DIAgonal",
}
PRINTED = 50  # elements that `print` shows


class SparseWarning(Warning):
    """General warning of sparse arrays."""


class SparseEfficiencyWarning(SparseWarning):
    """Warning of an operation whose result has few zeros."""


def issparse(x: object) -> bool:
    """Return whether an object is a sparse array of this package.

    Parameters
    ----------
    x : object
        Anything.

    Returns
    -------
    bool
        True for arrays and matrices of every format.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.issparse(cm.sparse.eye_array(3)), cm.sparse.issparse(cm.eye(3))
    (True, False)
    """
    return isinstance(x, sparray)


def is_number(x: object) -> bool:
    """Whether an operand is one number: Python's, NumPy's, or an array without axes."""
    return isinstance(x, (bool, int, float, complex, np.generic)) or (
        isinstance(x, (ndarray, np.ndarray)) and x.ndim == 0
    )


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of sums, as NumPy's."""
    if dtype.kind == "u":
        return np.dtype(np.uint64)
    return np.dtype(np.int64) if dtype.kind in "bi" else dtype


class NotAnOperand(TypeError):
    """What stands beside a sparse array is neither an array nor a number."""


def left_to(reflected: str) -> Callable[[Callable], Callable]:
    """Decorator of an operator: what is no operand may know what to do with a sparse array, if its
    class has the reflected operator."""

    def mark(operation: Callable) -> Callable:
        @functools.wraps(operation)
        def run(self: Any, other: Any) -> Any:
            try:
                return operation(self, other)
            except NotAnOperand:
                if hasattr(type(other), reflected):
                    return NotImplemented
                raise

        return run

    return mark


class sparray:
    """Base class of sparse arrays: it holds what all formats can do, and is not instantiated.

    Arithmetic is that of `scipy.sparse`'s arrays: ``*`` multiplies elements, ``@`` is the product
    of matrices. Values may carry gradients: those of every result lead to `data` and to dense
    operands.
    """

    format = ""
    #: format -> class; a table for arrays and one for matrices, which `kinds` belongs to.
    kinds = ARRAYS
    __array_priority__ = 1001  # before ndarray's, whose operators give way
    __hash__ = None  # type: ignore[assignment]  # == compares elements

    data: ndarray
    _shape: Shape

    @classmethod
    def __class_getitem__(cls, item: Any, /) -> types.GenericAlias:
        return types.GenericAlias(cls, item)

    # -------------------- attributes

    @property
    def shape(self) -> Shape:
        """The number of positions along each axis."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """The device that holds the array."""
        return self.data.device

    @property
    def nnz(self) -> int:
        """The number of stored elements, explicit zeros among them."""
        return self.data.size

    @property
    def size(self) -> int:
        """The number of stored elements, as `nnz`."""
        return self.nnz

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()

    @property
    def mT(self) -> Any:
        """The transpose, by the name of the array API."""
        return self.transpose()

    @property
    def real(self) -> Self:
        """The real part."""
        return self._unary(lambda x: x.real)

    @property
    def imag(self) -> Self:
        """The imaginary part."""
        return self._unary(lambda x: x.imag)

    def _with_data(self, data: ndarray) -> Self:
        """Other values at the same positions."""
        raise NotImplementedError

    def _unary(self, function: Callable[[ndarray], ndarray]) -> Self:
        """A function that maps 0 to 0, of each element."""
        summed = self._summed()
        return summed._with_data(function(summed.data))

    def _take(self, other: Any) -> None:
        """Become `other`, an array of this format."""
        raise NotImplementedError

    def _summed(self) -> Self:
        """The array with duplicate elements added; itself where it has none."""
        return self

    def __repr__(self) -> str:
        kind = "array" if self.kinds is ARRAYS else "matrix"
        return (
            f"<{NAMES[self.format]} sparse {kind} of dtype '{self.dtype}'\n"
            f"\twith {self.nnz} stored elements{self._remark()} and shape {self.shape}>"
        )

    def _remark(self) -> str:
        return ""

    def __str__(self) -> str:
        if not self.nnz:
            return repr(self)
        elements = self.tocoo()
        half = PRINTED // 2
        whole = elements.nnz <= PRINTED
        parts = [slice(None)] if whole else [slice(half), slice(-half, None)]
        lines = []
        for part in parts:
            coords = zip(*[index[part].tolist() for index in elements.coords], strict=True)
            values = elements.data[part].to_numpy()
            lines += [f"  {at}\t{value}" for at, value in zip(coords, values, strict=True)]
            lines += ["  :\t:"] * (not whole and part is parts[0])
        return "\n".join([repr(self), "  Coords\tValues", *lines])

    def __bool__(self) -> bool:
        if self.shape == (1, 1):
            return self.nnz != 0
        raise ValueError(
            f"bool: the truth value of a sparse array of shape {self.shape} is ambiguous; use its "
            "nnz, or any() of its data"
        )

    def __len__(self) -> int:
        raise TypeError(
            f"len: of a sparse array of shape {self.shape} is ambiguous; use shape[0] or nnz"
        )

    def __iter__(self) -> Iterator[Any]:
        rows = self.tocsr() if self.ndim == 2 else self.tocoo()
        return (rows[i] for i in range(self.shape[0]))

    # -------------------- conversions

    def asformat(self, format: str | None, copy: bool = False) -> Any:
        """Return the array in a format.

        Parameters
        ----------
        format : str or None
            "bsr", "coo", "csc", "csr" or "dia"; None for the array's own.
        copy : bool, default False
            Whether the result must not share memory with the array.

        Returns
        -------
        sparse array
            Of that format.
        """
        if format is None or format == self.format:
            return self.copy() if copy else self
        if format not in self.kinds:
            raise ValueError(
                f"asformat: there is no format {format!r:.40}; there are "
                f"{', '.join(sorted(self.kinds))}"
            )
        return getattr(self, f"to{format}")(copy=copy)

    def tocoo(self, copy: bool = False) -> Any:
        """Return the array in coordinate format.

        Parameters
        ----------
        copy : bool, default False
            Whether the result must not share memory with the array.

        Returns
        -------
        coo_array
            The same elements.
        """
        return self.tocsr().tocoo(copy=copy)

    def tocsr(self, copy: bool = False) -> Any:
        """Return the array in compressed sparse row format.

        Parameters
        ----------
        copy : bool, default False
            Whether the result must not share memory with the array.

        Returns
        -------
        csr_array
            The same elements.
        """
        return self.tocoo(copy=copy).tocsr()

    def tocsc(self, copy: bool = False) -> Any:
        """Return the array in compressed sparse column format.

        Parameters
        ----------
        copy : bool, default False
            Whether the result must not share memory with the array.

        Returns
        -------
        csc_array
            The same elements.
        """
        return self.tocoo(copy=copy).tocsc()

    def tobsr(self, blocksize: tuple[int, int] | None = None, copy: bool = False) -> Any:
        """Return the array in block sparse row format.

        Parameters
        ----------
        blocksize : tuple of int, optional
            Height and width of the blocks; they must divide the shape. (1, 1) by default.
        copy : bool, default False
            Whether the result must not share memory with the array.

        Returns
        -------
        bsr_array
            The same elements, and zeros between those of a block.
        """
        return self.tocsr().tobsr(blocksize=blocksize, copy=copy)

    def todia(self, copy: bool = False) -> Any:
        """Return the array in diagonal format.

        Parameters
        ----------
        copy : bool, default False
            Whether the result must not share memory with the array.

        Returns
        -------
        dia_array
            The same elements, and zeros on the rest of the diagonals that hold any.
        """
        return self.tocoo().todia(copy=copy)

    def toarray(self, order: str | None = None, out: ndarray | None = None) -> ndarray:
        """Return the array as a dense one.

        Parameters
        ----------
        order : {"C", "F"}, optional
            How the result lies in memory.
        out : ndarray, optional
            Where the result is written, of this shape and dtype.

        Returns
        -------
        ndarray
            Duplicate elements are added.
        """
        return self.tocoo().toarray(order=order, out=out)

    def todense(self, order: str | None = None, out: ndarray | None = None) -> ndarray:
        """Return the array as a dense one, as `toarray`.

        Parameters
        ----------
        order : {"C", "F"}, optional
            How the result lies in memory.
        out : ndarray, optional
            Where the result is written, of this shape and dtype.

        Returns
        -------
        ndarray
            Duplicate elements are added.
        """
        return self.toarray(order=order, out=out)

    def copy(self) -> Self:
        """Return a copy that shares no memory with the array.

        Returns
        -------
        sparse array
            Of the same format.
        """
        return self._with_data(self.data.copy())

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Self:
        """Return the array with values of another dtype.

        Parameters
        ----------
        dtype : dtype
            Of the result.
        casting : str, default "unsafe"
            What casts are allowed, as in NumPy.
        copy : bool, default True
            Whether the values are copied where the dtype is the same; else the array is returned.

        Returns
        -------
        sparse array
            Of the same format.
        """
        data = self.data.astype(dtype, casting=casting, copy=copy)
        return self if data is self.data else self._with_data(data)

    def to(self, device: Any) -> Self:
        """Return the array on a device.

        Parameters
        ----------
        device : device or str
            Such as "cuda" or "cpu".

        Returns
        -------
        sparse array
            The array itself if it lies there.
        """
        raise NotImplementedError

    def get(self) -> Any:
        """Return the array as one of SciPy's, on the host.

        Returns
        -------
        scipy.sparse array
            Of the same format. On the CPU it shares memory with the array.
        """
        raise NotImplementedError

    def to_scipy(self) -> Any:
        """Return the array as one of SciPy's, as `get`.

        Returns
        -------
        scipy.sparse array
            Of the same format. On the CPU it shares memory with the array.
        """
        return self.get()

    # -------------------- shapes

    def transpose(self, axes: tuple[int, ...] | None = None, copy: bool = False) -> Any:
        """Return the transpose.

        Parameters
        ----------
        axes : tuple of int, optional
            The order of the axes; by default the reverse one.
        copy : bool, default False
            Whether the result must not share memory with the array.

        Returns
        -------
        sparse array
            Of CSR it is CSC, of CSC it is CSR, of other formats the same format.
        """
        raise NotImplementedError

    def _turns(self, axes: Any) -> bool:
        """Whether these axes of a transposition exchange the two axes."""
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
        wrapped = tuple(
            axis % self.ndim if -self.ndim <= axis < self.ndim else axis for axis in order
        )
        if sorted(wrapped) != list(range(self.ndim)):
            raise ValueError(
                f"transpose: wants the axes of an array of shape {self.shape}, got {axes}"
            )
        return wrapped == (1, 0)

    def reshape(self, *shape: Any, order: str = "C", copy: bool = False) -> Any:
        """Return the array in another shape.

        Parameters
        ----------
        *shape : int or tuple of int
            The new shape, of one or two axes; one size may be -1.
        order : {"C", "F"}, default "C"
            The order in which positions are counted.
        copy : bool, default False
            Whether the result must not share memory with the array.

        Returns
        -------
        coo_array
            The same elements in coordinate format; the array itself where the shape is its own, as
            in SciPy.
        """
        made = self.tocoo().reshape(*shape, order=order, copy=copy)
        return self if made.shape == self.shape and not copy else made

    def resize(self, *shape: Any) -> None:
        """Change the shape in place: elements outside of it are lost, and new ones are zeros.

        Parameters
        ----------
        *shape : int or tuple of int
            The new shape, of as many axes.
        """
        whole = shape[0] if len(shape) == 1 and np.ndim(shape[0]) else shape
        sizes = sizes_of("resize", whole, (1, 2))
        if len(sizes) != self.ndim:
            raise ValueError(f"resize: wants {self.ndim} axes for {self.shape}, got {sizes}")
        elements = self.tocoo()
        inside = [index < n for index, n in zip(elements.coords, sizes, strict=True)]
        kept = flatnonzero(inside[0] & inside[-1])
        kind = index_dtype(*sizes)
        coords = tuple([index[kept].astype(kind) for index in elements.coords])
        made = self.kinds["coo"]._of(elements.data[kept], coords, sizes)
        self._take(combine.like(made, self, self.format))

    def diagonal(self, k: int = 0) -> ndarray:
        """Return a diagonal as a dense vector.

        Parameters
        ----------
        k : int, default 0
            Which one: above the main diagonal for positive numbers.

        Returns
        -------
        ndarray
            The elements (i, i + k).
        """
        return self.tocoo().diagonal(k)

    def trace(self, offset: int = 0) -> Any:
        """Return the sum of a diagonal.

        Parameters
        ----------
        offset : int, default 0
            Which one: above the main diagonal for positive numbers.

        Returns
        -------
        scalar
            The sum.
        """
        return self.diagonal(offset).sum()

    def setdiag(self, values: Any, k: int = 0) -> None:
        """Set a diagonal, in place.

        Parameters
        ----------
        values : array_like
            One number, or one per element of the diagonal.
        k : int, default 0
            Which one: above the main diagonal for positive numbers.
        """
        m, n = self.shape
        count = max(0, min(m + min(k, 0), n - max(k, 0), m, n))
        if not -m < k < n and k != 0:
            raise ValueError(f"setdiag: an array of shape {self.shape} has no diagonal {k}")
        values = asarray(values, device=self.device)
        count = count if values.ndim == 0 else min(count, values.size)
        from_row = np.arange(count) + max(-k, 0)
        self[from_row, from_row + k] = values if values.ndim == 0 else values[:count]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"setitem: {type(self).__name__} of shape {self.shape} takes no assignments; convert "
            f"it "
            "with tocsr()"
        )

    def __getitem__(self, key: Any) -> Any:
        found = self.tocsr()[key]
        return found.asformat(self.format) if issparse(found) and found.ndim == 2 else found

    def nonzero(self) -> tuple[ndarray, ...]:
        """Return the coordinates of the elements that are not zero.

        Returns
        -------
        tuple of ndarray
            An array of indices per axis.
        """
        elements = self.tocoo()
        mask = elements.data != 0
        return tuple([index[mask] for index in elements.coords])

    def count_nonzero(self, axis: int | None = None) -> Any:
        """Return the number of elements that are not zero.

        Parameters
        ----------
        axis : int, optional
            Along which they are counted; by default all.

        Returns
        -------
        int or ndarray
            Explicit zeros do not count, and duplicate elements are added before.
        """
        elements = self.tocoo()._summed()
        if axis is None:
            return int(count_nonzero(elements.data))
        whole = elements._with_data(elements.data != 0)
        return whole.sum(axis=axis)

    # -------------------- arithmetic

    def _compressed(self) -> Any:
        """The array in a compressed format: its own, or CSR."""
        return self if self.format in ("csr", "csc") else self.tocsr()

    def _sum_with(self, name: str, other: Any, function: Callable) -> Any:
        """function(self, other) for addition and subtraction, in this order."""
        if is_number(other):
            if other == 0:
                return self.copy()
            raise NotImplementedError(
                f"{name}: a nonzero number and a sparse array of shape {self.shape} give a dense "
                "array; use toarray()"
            )
        other = as_operand(name, other, self)
        if issparse(other):
            same_shape(name, self, other)
            format = self.format
            if format == "dia" != other.format:  # as SciPy chooses
                format = other.format if name == "add" and other.format != "coo" else "csr"
            return combine.elementwise(self, other, function, format)
        return function(self.toarray(), broadcast_to(other, self.shape))

    @left_to("__radd__")
    def __add__(self, other: Any) -> Any:
        return self._sum_with("add", other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._sum_with("add", other, operator.add)

    @left_to("__rsub__")
    def __sub__(self, other: Any) -> Any:
        return self._sum_with("subtract", other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        if is_number(other) and other == 0:
            return -self
        return self._sum_with("subtract", other, lambda x, y: y - x)

    def __neg__(self) -> Self:
        if self.dtype.kind == "b":
            raise NotImplementedError("negative: a boolean sparse array has no negative")
        return self._with_data(-self.data)

    def __abs__(self) -> Self:
        return self._unary(abs)

    def __round__(self, ndigits: int = 0) -> Self:
        return self._unary(lambda x: elementwise.round(x, ndigits))

    @left_to("__rmul__")
    def __mul__(self, other: Any) -> Any:
        return self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        return self.multiply(other)

    def multiply(self, other: Any) -> Any:
        """Multiply elements by those of another array, or by a number.

        Parameters
        ----------
        other : sparse array, array_like or scalar
            Shapes broadcast.

        Returns
        -------
        sparse array
            The products at the positions that are stored; of two sparse arrays where both are.
        """
        if is_number(other):
            return self._with_data(self.data * number(other))
        return combine.multiply(self, as_operand("multiply", other, self))

    @left_to("__rtruediv__")
    def __truediv__(self, other: Any) -> Any:
        if is_number(other):
            return self._with_data(self.data / number(other))
        other = as_operand("divide", other, self)
        if issparse(other):
            same_shape("divide", self, other)
            wide = np.can_cast(self.dtype, np.float64)  # as SciPy's
            dividend = self.astype(np.float64, copy=False) if wide else self
            return dividend.toarray() / other.toarray()
        return combine.multiply(self, 1 / other)

    def __rtruediv__(self, other: Any) -> Any:
        return NotImplemented

    def __pow__(self, n: Any) -> Any:
        return self.power(n)

    def power(self, n: Any, dtype: Any = None) -> Self:
        """Raise elements to a power.

        Parameters
        ----------
        n : scalar
            The exponent; not 0, which would make ones of zeros.
        dtype : dtype, optional
            Of the result.

        Returns
        -------
        sparse array
            Of the same format.
        """
        if not is_number(n):
            raise NotImplementedError(
                f"power: wants one number as the exponent, got {type(n).__name__}"
            )
        if n == 0:
            raise NotImplementedError(
                f"power: the power 0 of an array of shape {self.shape} is dense; use "
                "cm.ones(A.shape, dtype=A.dtype)"
            )
        if not np.iscomplexobj(n) and n < 0:
            raise ValueError(f"power: negative powers of zeros are infinite, got {n}")
        return self._unary(lambda x: (x if dtype is None else x.astype(dtype)) ** number(n))

    def maximum(self, other: Any) -> Any:
        """Return the larger one of each pair of elements.

        Parameters
        ----------
        other : sparse array, array_like or scalar
            Of the same shape, or one number.

        Returns
        -------
        sparse array or ndarray
            Dense if `other` is.
        """
        return self._extreme("maximum", other, elementwise.maximum)

    def minimum(self, other: Any) -> Any:
        """Return the smaller one of each pair of elements.

        Parameters
        ----------
        other : sparse array, array_like or scalar
            Of the same shape, or one number.

        Returns
        -------
        sparse array or ndarray
            Dense if `other` is.
        """
        return self._extreme("minimum", other, elementwise.minimum)

    def _extreme(self, name: str, other: Any, function: Callable) -> Any:
        if is_number(other):
            other = number(other)
            if bool(function(asarray(0), other) != 0):
                dense_warning(f"{name}: with {other}")
                return self.kinds[self.format](function(self.toarray(), other))
            return self._compressed()._unary(lambda x: function(x, other))._without_zeros()
        other = as_operand(name, other, self)
        if not issparse(other):
            return function(self.toarray(), other)
        same_shape(name, self, other)
        return combine.elementwise(self, other, function)

    def _compare(self, name: str, other: Any, function: Callable, opposite: Callable) -> Any:
        """A comparison that is false for two zeros; where it is true, all positions but those of
        its opposite."""
        number_of = is_number(other)
        if not number_of:
            try:
                other = as_operand(name, other, self)
            except TypeError:
                return NotImplemented
            if not issparse(other):
                return function(self.toarray(), other)
            if self.shape != other.shape and name in ("equal", "not_equal"):
                return name == "not_equal"
            same_shape(name, self, other)
        else:
            other = number(other)
        nan = number_of and bool(other != other)
        if number_of and nan:
            whole = ones if name == "not_equal" else zeros
            return type(self._compressed())(whole(self.shape, dtype=np.bool_, device=self.device))
        dense = bool(function(asarray(0), other if number_of else asarray(0)))
        chosen = opposite if dense else function
        if number_of:
            compressed = self._compressed()._unary(lambda x: chosen(x, other))._without_zeros()
        else:
            compressed = combine.elementwise(self, other, chosen)._compressed()
        if not dense:
            return compressed
        dense_warning(f"{name}: of a sparse array and {'a number' if number_of else 'another'}")
        return type(compressed)(~compressed.toarray())

    def __eq__(self, other: object) -> Any:
        return self._compare("equal", other, operator.eq, operator.ne)

    def __ne__(self, other: object) -> Any:
        return self._compare("not_equal", other, operator.ne, operator.eq)

    def __lt__(self, other: Any) -> Any:
        return self._compare("less", other, operator.lt, operator.ge)

    def __gt__(self, other: Any) -> Any:
        return self._compare("greater", other, operator.gt, operator.le)

    def __le__(self, other: Any) -> Any:
        return self._compare("less_equal", other, operator.le, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare("greater_equal", other, operator.ge, operator.lt)

    # -------------------- products

    def __matmul__(self, other: Any) -> Any:
        if other.__class__ is ndarray:  # without the questions below
            sizes = other._layout.shape
            if len(sizes) in (1, 2) and sizes[0] == self._shape[-1]:
                return self._dense_product(other)
        if is_number(other):
            raise ValueError(
                f"matmul: wants an array beside one of shape {self.shape}, got a number; use *"
            )
        try:
            other = as_operand("matmul", other, self)
        except NotAnOperand:
            if hasattr(type(other), "__rmatmul__"):
                return NotImplemented
            raise
        if other.ndim not in (1, 2) or other.shape[0] != self.shape[-1]:
            raise ValueError(
                f"matmul: shapes {self.shape} and {other.shape} do not fit; wants (m, n) and (n,) "
                f"or "
                "(n, k)"
            )
        return (
            combine.sparse_product(self, other) if issparse(other) else self._dense_product(other)
        )

    def __rmatmul__(self, other: Any) -> Any:
        if is_number(other):
            raise ValueError(
                f"matmul: wants an array beside one of shape {self.shape}, got a number; use *"
            )
        other = as_operand("matmul", other, self)
        if other.ndim not in (1, 2) or other.shape[-1] != self.shape[0]:
            raise ValueError(
                f"matmul: shapes {other.shape} and {self.shape} do not fit; wants (n,) or (k, n) "
                f"and "
                "(n, m)"
            )
        return (self.T @ other.T).T

    def dot(self, other: Any) -> Any:
        """Return the product of matrices, or with a number that of each element.

        Parameters
        ----------
        other : sparse array, array_like or scalar
            Of shape (n,) or (n, k) for an array (m, n).

        Returns
        -------
        sparse array or ndarray
            Sparse if `other` is.
        """
        return self * other if is_number(other) else self @ other

    def _dense_product(self, other: ndarray) -> ndarray:
        """self @ other for a dense (n,) or (n, k)."""
        if self.ndim == 1:
            return (self.reshape(1, -1)._dense_product(other)).reshape(other.shape[1:])
        return self.tocsr()._dense_product(other)

    # -------------------- reductions

    def sum(self, axis: Any = None, dtype: Any = None, out: ndarray | None = None) -> Any:
        """Add elements, all or along an axis.

        Parameters
        ----------
        axis : int, optional
            Along which they are added; by default all.
        dtype : dtype, optional
            Of the result; NumPy's for sums by default.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        scalar or ndarray
            Dense.
        """
        return reductions.total(self, axis, sum_dtype(self.dtype), dtype, out)

    def mean(self, axis: Any = None, dtype: Any = None, out: ndarray | None = None) -> Any:
        """Return means, of all positions or along an axis.

        Parameters
        ----------
        axis : int, optional
            Along which they are taken; by default all.
        dtype : dtype, optional
            Of the result; float64 for integers by default.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        scalar or ndarray
            Dense.
        """
        kind = np.dtype(np.float64) if self.dtype.kind in "biu" else self.dtype
        axis = reductions.one_axis("mean", axis, self.ndim)
        count = math.prod(self.shape) if axis is None else self.shape[axis]
        scaled = self.astype(kind, copy=False)
        if not count:
            raise ZeroDivisionError(f"mean: of shape {self.shape}, axis {axis} has no elements")
        return reductions.total(
            scaled._with_data(scaled.data * (1.0 / count)), axis, kind, dtype, out
        )

    def max(self, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        """Return the largest element, of all or along an axis.

        Parameters
        ----------
        axis : int, optional
            Along which it is looked for; by default all.
        out : None
            For NumPy's sake.
        explicit : bool, default False
            Whether only stored elements count.

        Returns
        -------
        scalar or coo_array
            NaN where there is one.
        """
        return reductions.extreme("max", self, axis, out, explicit)

    def min(self, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        """Return the smallest element, of all or along an axis.

        Parameters
        ----------
        axis : int, optional
            Along which it is looked for; by default all.
        out : None
            For NumPy's sake.
        explicit : bool, default False
            Whether only stored elements count.

        Returns
        -------
        scalar or coo_array
            NaN where there is one.
        """
        return reductions.extreme("min", self, axis, out, explicit)

    def nanmax(self, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        """Return the largest element that is not NaN, of all or along an axis.

        Parameters
        ----------
        axis : int, optional
            Along which it is looked for; by default all.
        out : None
            For NumPy's sake.
        explicit : bool, default False
            Whether only stored elements count.

        Returns
        -------
        scalar or coo_array
            NaN where there is nothing else.
        """
        return reductions.extreme("nanmax", self, axis, out, explicit)

    def nanmin(self, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        """Return the smallest element that is not NaN, of all or along an axis.

        Parameters
        ----------
        axis : int, optional
            Along which it is looked for; by default all.
        out : None
            For NumPy's sake.
        explicit : bool, default False
            Whether only stored elements count.

        Returns
        -------
        scalar or coo_array
            NaN where there is nothing else.
        """
        return reductions.extreme("nanmin", self, axis, out, explicit)

    def argmax(self, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        """Return the position of the largest element, of all or along an axis.

        Parameters
        ----------
        axis : int, optional
            Along which it is looked for; by default all, in row-major order.
        out : None
            For NumPy's sake.
        explicit : bool, default False
            Whether only stored elements count.

        Returns
        -------
        int or ndarray
            The first position among equal elements, and that of the first NaN where there is one.
            Of stored elements alone, and of all: the place in `data`, as in SciPy.
        """
        return reductions.place("argmax", self, axis, out, explicit)

    def argmin(self, axis: Any = None, out: Any = None, *, explicit: bool = False) -> Any:
        """Return the position of the smallest element, of all or along an axis.

        Parameters
        ----------
        axis : int, optional
            Along which it is looked for; by default all, in row-major order.
        out : None
            For NumPy's sake.
        explicit : bool, default False
            Whether only stored elements count.

        Returns
        -------
        int or ndarray
            The first position among equal elements, and that of the first NaN where there is one.
            Of stored elements alone, and of all: the place in `data`, as in SciPy.
        """
        return reductions.place("argmin", self, axis, out, explicit)

    # -------------------- NumPy's ufuncs

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """A ufunc of NumPy's: the method or operator of its name."""
        if method != "__call__" or options:
            return NotImplemented
        name = {"absolute": "__abs__", "negative": "__neg__", "conjugate": "conj"}.get(
            ufunc.__name__, ufunc.__name__
        )
        if len(inputs) == 1:
            function = getattr(self, name, None)
            return NotImplemented if function is None else function()
        x, y = inputs
        if name in ("maximum", "minimum"):
            ours, other = (x, y) if issparse(x) else (y, x)
            return getattr(ours, name)(other)
        if ufunc.__name__ not in _OPERATORS:
            return NotImplemented
        forward, reflected = _OPERATORS[ufunc.__name__]
        return getattr(x, forward)(y) if issparse(x) else getattr(y, reflected)(x)


_OPERATORS = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "less": ("__lt__", "__gt__"),
    "greater": ("__gt__", "__lt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater_equal": ("__ge__", "__le__"),
}

#: Functions of one number that map 0 to 0: the method's name, the function, what it gives.
_UNARY: dict[str, tuple[Callable[[ndarray], ndarray], str]] = {
    "sin": (elementwise.sin, "the sine"),
    "tan": (elementwise.tan, "the tangent"),
    "arcsin": (elementwise.asin, "the inverse sine"),
    "arctan": (elementwise.atan, "the inverse tangent"),
    "sinh": (elementwise.sinh, "the hyperbolic sine"),
    "tanh": (elementwise.tanh, "the hyperbolic tangent"),
    "arcsinh": (elementwise.asinh, "the inverse hyperbolic sine"),
    "arctanh": (elementwise.atanh, "the inverse hyperbolic tangent"),
    "rint": (elementwise.rint, "the nearest integer"),
    "sign": (elementwise.sign, "the sign"),
    "expm1": (elementwise.expm1, "exp(x) - 1"),
    "log1p": (elementwise.log1p, "log(1 + x)"),
    "deg2rad": (elementwise_numpy.radians, "the angle in radians"),
    "rad2deg": (elementwise_numpy.degrees, "the angle in degrees"),
    "floor": (elementwise.floor, "the largest integer below"),
    "ceil": (elementwise.ceil, "the smallest integer above"),
    "trunc": (elementwise.trunc, "the integer part"),
    "sqrt": (elementwise.sqrt, "the square root"),
    "conjugate": (elementwise.conj_or_same, "the complex conjugate"),
    "conj": (elementwise.conj_or_same, "the complex conjugate"),
}


def _method(name: str, function: Callable[[ndarray], ndarray], what: str) -> Callable:
    def method(self: sparray) -> Any:
        return self._unary(function)

    method.__name__, method.__qualname__ = name, f"sparray.{name}"
    method.__doc__ = f"""Return {what} of each element.

        Returns
        -------
        sparse array
            Of the same format.
        """
    return method


for _name, (_function, _what) in _UNARY.items():
    setattr(sparray, _name, _method(_name, _function, _what))


# -------------------- operands


def number(x: Any) -> Any:
    """One number that the operators of ndarrays take."""
    return x if isinstance(x, (ndarray, bool, int, float, complex, np.generic)) else asarray(x)


def as_operand(name: str, other: Any, beside: sparray) -> Any:
    """A sparse array of this package, or an ndarray on the device of `beside`."""
    if issparse(other):
        return other
    if is_foreign(other):
        return beside.kinds[other.format if other.format in beside.kinds else "csr"](other)
    if isinstance(other, ndarray):
        return other
    try:
        dense = asarray(other, device=beside.device)
    except (TypeError, ValueError) as error:
        raise NotAnOperand(
            f"{name}: wants an array or a number beside a sparse array of shape {beside.shape}, "
            f"got "
            f"{type(other).__name__}"
        ) from error
    return dense


def is_foreign(x: Any) -> bool:
    """Whether an object is a sparse array of SciPy's or CuPy's."""
    return not issparse(x) and hasattr(x, "tocoo") and isinstance(getattr(x, "format", None), str)


def same_shape(name: str, x: Any, y: Any) -> None:
    """ValueError unless two arrays have one shape."""
    if x.shape != y.shape:
        raise ValueError(f"{name}: wants sparse arrays of one shape, got {x.shape} and {y.shape}")


def dense_warning(what: str) -> None:
    """Warn of a result with few zeros."""
    warnings.warn(f"{what} gives a result with few zeros", SparseEfficiencyWarning, stacklevel=4)
