"""The array: a layout, the address of its bytes, and the owner that keeps them alive.

Operators and methods that compute (`+`, `.sum()`, `x[mask]`, ...) are put on the class by
`ops/methods.py`, because ops are built on this package. This file has creation from foreign
objects, transfer, views and protocols.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import memory, stream
from ..runtime.dry import DryStream, Unallocated
from ..runtime.state import runtime
from . import dtypes, shapes
from .array_flags import Flags
from .cpu_pool import owns, shows_all
from .devices import CPU, TRACED, Device, device_of, index_of
from .dispatch.call_record import READ, obstruct, open_records
from .export_guard import refuse_as_number
from .layout import Layout
from .levels import work
from .other_names import METHODS
from .transfer.device_to_host import array_reader, array_readers, number_of, number_readers


class ndarray:
    """An n-dimensional array on the CPU or on a GPU.

    Make one with `cm.array`, `cm.zeros`, ..., or any other function. The class itself makes a new
    array with undefined elements, or one over the memory of a buffer, as NumPy's does.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the array.
    dtype : dtype_like, default float
        Dtype of the elements.
    buffer : ndarray or buffer, optional
        Memory of the array: an array without gaps on any device, or an object with the buffer
        protocol on the CPU.
    offset : int, default 0
        Bytes from the beginning of the buffer to the first element.
    strides : sequence of int, optional
        Bytes from one element to the next along each dimension.
    order : str, optional
        "C" or "F": order in memory where there are no strides.
    device : device_like, optional
        Device of the array where there is no buffer.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.array([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x).shape, x.dtype
    ((2, 2), dtype('float64'))
    """

    __slots__ = ("_layout", "_data", "_owner", "_node", "_base", "__weakref__")
    __array_priority__ = 1000
    _is_scalar = False  # True for those of scalar.py, which nothing changes

    _layout: Layout
    _data: Any
    _owner: Any
    _node: Any
    _base: ndarray | None  # of a view: the array that it is a view of, which is none itself

    if TYPE_CHECKING:  # installed by ops/methods.py
        _stack: Callable[..., ndarray]
        _construct: Callable[..., ndarray]

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, key: Any) -> ndarray: ...
        def __iter__(self) -> Iterator[ndarray]: ...
        def __add__(self, other: Any) -> ndarray: ...
        def __radd__(self, other: Any) -> ndarray: ...
        def __sub__(self, other: Any) -> ndarray: ...
        def __rsub__(self, other: Any) -> ndarray: ...
        def __mul__(self, other: Any) -> ndarray: ...
        def __rmul__(self, other: Any) -> ndarray: ...
        def __truediv__(self, other: Any) -> ndarray: ...
        def __rtruediv__(self, other: Any) -> ndarray: ...
        def __floordiv__(self, other: Any) -> ndarray: ...
        def __mod__(self, other: Any) -> ndarray: ...
        def __pow__(self, other: Any) -> ndarray: ...
        def __rpow__(self, other: Any) -> ndarray: ...
        def __matmul__(self, other: Any) -> ndarray: ...
        def __neg__(self) -> ndarray: ...
        def __abs__(self) -> ndarray: ...
        def __invert__(self) -> ndarray: ...
        def __and__(self, other: Any) -> ndarray: ...
        def __or__(self, other: Any) -> ndarray: ...
        def __xor__(self, other: Any) -> ndarray: ...
        def __lt__(self, other: Any) -> ndarray: ...
        def __le__(self, other: Any) -> ndarray: ...
        def __gt__(self, other: Any) -> ndarray: ...
        def __ge__(self, other: Any) -> ndarray: ...

    def __new__(
        cls,
        shape: Any,
        dtype: Any = float,
        buffer: Any = None,
        offset: int = 0,
        strides: Any = None,
        order: str | None = None,
        *,
        device: Any = None,
    ) -> ndarray:
        return cls._construct(shape, dtype, buffer, offset, strides, order, device=device)

    def __class_getitem__(cls, item: Any) -> types.GenericAlias:
        """`ndarray[Any, dtype[float64]]` in annotations, as NumPy's."""
        return types.GenericAlias(cls, item)

    # -------------------- attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each dimension."""
        return self._layout.strides

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self._layout.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._layout.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._layout.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._layout.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._layout.nbytes

    @property
    def device(self) -> Device:
        """Where the array is: "cpu" or "cuda:i"."""
        return device_of(self._layout.device)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are in C order without gaps."""
        return self._layout.contiguous

    @property
    def flags(self) -> Flags:
        """The memory layout: c_contiguous, f_contiguous, owndata, writeable, aligned."""
        layout = self._layout
        fortran = shapes.is_contiguous(layout.shape[::-1], layout.strides[::-1], layout.itemsize)
        alone = not shapes.overlaps_itself(layout.shape, layout.strides, layout.itemsize)
        if layout.device == CPU:
            own = owns(self._data) or self._base is None and shows_all(self._data)
        else:
            own = self._base is None and getattr(self._owner, "address", None) == self._data
        aligned = layout.device == TRACED or self._address % layout.itemsize == 0
        return Flags(self, layout.contiguous, fortran, own, alone and not read_only(self), aligned)

    def __len__(self) -> int:
        if not self._layout.ndim:
            raise TypeError("len() of a 0-d array")
        return self._layout.shape[0]

    def __contains__(self, value: Any) -> bool:
        equal = self == value
        return (
            equal if isinstance(equal, bool) else bool(equal.any())
        )  # None, a string: nothing that an array holds

    # -------------------- views and aliases

    def _alias(self) -> ndarray:
        """Another array object over the same elements, not recorded."""
        out = object.__new__(self.__class__)
        out._layout, out._data, out._owner, out._node = self._layout, self._data, self._owner, None
        out._base = self._base  # not this array, whose node would keep the values of its gradient
        return out

    def _view(self, layout: Layout, offset: int = 0) -> ndarray:
        """A view in another layout, `offset` bytes further; not recorded (ops record it)."""
        out = object.__new__(ndarray)
        out._layout, out._owner, out._node = layout, self._owner, None
        out._base = self._root()
        out._data = (
            _numpy_view(self._data, layout, offset) if layout.device == CPU else self._data + offset
        )
        return out

    def _root(self) -> ndarray | None:
        """What a view of this array has as its base. None where a gradient is being recorded: the
        view would keep all that the gradient needs."""
        if self._base is not None:
            return self._base
        return self if self._node is None else None

    @property
    def base(self) -> ndarray | None:
        """The array whose memory this view shows; None of an array that is no view.

        Views of an array whose gradient is being recorded have None too.
        """
        return self._base

    @property
    def _address(self) -> int:
        """Address of the first element (host or device)."""
        return self._data.ctypes.data if self._layout.device == CPU else self._data

    # -------------------- transfer

    def to_numpy(self) -> np.ndarray:
        """Return the elements as a NumPy array.

        On the CPU it shares memory. From a GPU it is a copy, and the call waits for the device.
        Nobody notices what is written into shared memory through NumPy: an array whose gradient
        can still be taken (by the function that `vjp` returned) must not be changed that way.

        Where a gradient is being recorded it would be lost. There `to_numpy`, `tolist`, `tobytes`,
        `item`, `float(x)`, `int(x)`, `bool(x)`, `round(x)`, `np.asarray(x)`, DLPack and
        `__cuda_array_interface__` raise TypeError: `cm.stop_gradient(x)` expresses that a constant
        is meant. Printing is allowed.

        Returns
        -------
        numpy.ndarray
            The elements.

        Raises
        ------
        TypeError
            The gradient of the array is being recorded.
        """
        if self._node is not None:
            refuse_as_number(self)
        layout = self._layout
        if layout.device == CPU:
            if open_records:
                obstruct(READ)
            return self._data.view()  # a new view: the caller may change its shape
        read = array_readers.get(layout)
        if read is not None:
            return read(self)
        if layout.device == TRACED:
            raise TypeError(
                f"fuse: the function asked for the values of an array of shape {layout.shape}; it "
                "must do the "
                "same for all values (use where instead of if)"
            )
        if layout.device < TRACED:
            return work.to_numpy(self)
        if not layout.contiguous:
            return self.copy().to_numpy()
        return array_reader(layout)(self)

    def to(self, device: Device | str | int, *, copy: bool = False) -> ndarray:
        """Return this array on another device, or itself if it is there already.

        Itself if it is there already and no copy is requested.

        Parameters
        ----------
        device : device_like
            "cpu", "cuda:1", ...
        copy : bool, default False
            Whether the result is always a copy.

        Returns
        -------
        ndarray
            Array on that device.
        """
        index = CPU if device.__class__ is str and device == "cpu" else index_of(device)
        if index == self._layout.device:
            return self.copy() if copy else self
        out = self._to(index)
        return out.copy() if copy and out is self else out  # vmap: of a call, it is there too

    def to_device(self, device: Device | str | int, /, *, stream: Any = None) -> ndarray:
        """Return this array on another device: the array API's name of `to`.

        Transfers run on the current stream.

        Parameters
        ----------
        device : device_like
            "cpu", "cuda:1", ...
        stream : object, optional
            None. Another value raises ValueError.

        Returns
        -------
        ndarray
            Array on that device.
        """
        if stream is not None:
            raise ValueError(
                "to_device: wants stream=None (transfers run on the current stream), got "
                f"{stream!r}"
            )
        return self.to(device)

    def item(self, *index: int) -> Any:
        """Return the only element, or the one at `index`, as a Python scalar.

        Parameters
        ----------
        *index : int
            Index along each axis, or one integer that counts in C order.

        Returns
        -------
        bool, int, float or complex
            The element.
        """
        if self._node is not None:
            refuse_as_number(self)
        chosen = self
        if index:
            chosen = (
                self[index]
                if len(index) > 1
                else self[index[0]]
                if isinstance(index[0], tuple)
                else self.ravel()[index]
            )
        if not isinstance(chosen, ndarray):
            return chosen.item()  # NumPy's scalar
        if chosen._layout.size != 1:
            raise ValueError(f"item: wants an array of one element, got shape {self.shape}")
        return number_of(chosen) if chosen._layout.device >= 0 else chosen.to_numpy().item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars.

        Returns
        -------
        list or scalar
            The elements.
        """
        return self.to_numpy().tolist()

    def tobytes(self, order: str | None = "C") -> bytes:
        """Return the bytes of the elements.

        "A": Fortran order if the array is in it).

        Parameters
        ----------
        order : str or None, default "C"
            "C", "F", or "A": Fortran's order if the array has it, otherwise C order.

        Returns
        -------
        bytes
            The bytes.
        """
        if order == "A":  # the copy in host memory lies in C order
            order = "F" if self.flags.fnc else "C"
        host = self.to_numpy()
        try:
            return host.tobytes(order)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise type(error)(f"tobytes: {error}") from None

    def _number(self) -> Any:
        if self._layout.ndim:
            raise TypeError(
                f"only arrays of no dimensions can become a Python number, got shape {self.shape}; "
                "item() gives the element of others"
            )
        read = number_readers.get(self._layout)  # of one element on a GPU
        if read is not None and self._node is None:
            return read(self)
        return self.item()

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"the truth value of an array of shape {self.shape} is ambiguous; use any() or "
                "all()"
            )
        return bool(self.item())

    def __index__(self) -> int:
        if self.dtype not in dtypes.INTEGER or self.ndim:
            raise TypeError(
                f"only 0-d integer arrays can be an index, got {self.dtype} of shape {self.shape}"
            )
        return int(self.item())

    def __round__(self, ndigits: int | None = None) -> Any:
        """`round(x)` of a 0-d array: a Python number, as of NumPy's scalars."""
        if self.ndim:
            raise TypeError(
                f"round: only 0-d arrays become a Python number, got shape {self.shape}; see "
                "cm.round"
            )
        return round(self.item(), ndigits)

    def __trunc__(self) -> int:
        if self.ndim:
            raise TypeError(
                f"trunc: only 0-d arrays become a Python number, got shape {self.shape}; see "
                "cm.trunc"
            )
        return math.trunc(self.item())

    # -------------------- protocols

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._node is not None:
            refuse_as_number(self)
        host = self.to_numpy()
        if dtype is not None and np.dtype(dtype) != host.dtype:
            if copy is False:
                raise ValueError(
                    f"__array__: {host.dtype} cannot become {np.dtype(dtype)} without a copy"
                )
            return host.astype(dtype)
        if copy is False and self._layout.device != CPU:
            raise ValueError(
                f"__array__: the array is on {self.device}; NumPy cannot see it without a copy"
            )
        return host.copy() if copy and self._layout.device == CPU else host

    def _described_by_numpy(self, name: str, refusal: type[Exception]) -> np.ndarray:
        """The memory of an unrecorded array on the CPU, for another library to use as its own."""
        layout = self._layout
        if layout.device != CPU or self._node is not None or layout.dtype.kind == "V":
            raise refusal(f"{name}: {layout.dtype} on {self.device} has none; see to_numpy()")
        if open_records:
            obstruct(READ)
        return self._data

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's description of memory on the CPU (PIL, scikit-image, Cython, ...). Arrays that it
        cannot describe do not have it; `__array__` then says why."""
        memory = self._described_by_numpy("__array_interface__", AttributeError)
        # strides also where there are no gaps: PIL then asks for bytes and not for a buffer
        return {**memory.__array_interface__, "strides": self._layout.strides}

    def __buffer__(self, flags: int, /) -> memoryview:
        """The buffer protocol on the CPU, from Python 3.12 on: `memoryview(x)`, `file.write(x)`."""
        memory: Any = self._described_by_numpy("__buffer__", BufferError)
        return memoryview(memory)

    def __dir__(self) -> list[str]:
        return sorted(set(object.__dir__(self)) - METHODS.keys())

    def __copy__(self) -> ndarray:
        return self.copy(order="K")

    def __deepcopy__(self, memo: Any) -> ndarray:
        return self.copy(order="K")

    def __repr__(self) -> str:
        if self._layout.device < TRACED:
            return work.describe(self)
        body = np.array2string(self._alias().to_numpy(), separator=", ", prefix="array(")
        extra = (
            ""
            if self.dtype in (np.float64, np.int64, np.bool_, np.complex128) and self.size
            else f", dtype={self.dtype}"
        )
        if (
            not self.size and self.ndim != 1 or self.size > np.get_printoptions()["threshold"]
        ):  # not shown by numbers
            extra = f", shape={self.shape}{extra}"
        return f"array({body}{extra}, device='{self.device}')"  # NumPy's own have no device

    def __str__(self) -> str:
        if self._layout.device < TRACED:
            return work.describe(self)
        return str(self._alias().to_numpy())

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.ndim == 0 and spec else self._alias().to_numpy(), spec)

    def _repr_html_(self) -> str:
        from html import escape

        head = f"{self.shape} {self.dtype} on {self.device}, {memory.human(self.nbytes)}"
        style = "font-family: monospace; white-space: pre"
        return f'<div style="{style}">{escape(head)}\n{escape(str(self))}</div>'

    __hash__ = None  # type: ignore[assignment]  # == compares elements


class _Holder:
    """An object that describes memory by NumPy's array interface and keeps its owner alive."""

    def __init__(self, held: Any, described: dict[str, Any]):
        self.held, self.__array_interface__ = held, described


def numpy_over(owner: Any, address: int, layout: Layout, read_only: bool) -> np.ndarray:
    """A NumPy array with any strides over memory that `owner` keeps alive. The elements of GPU
    memory must not be read through it."""
    if layout.size == 0:
        return np.empty(layout.shape, layout.dtype)
    return np.asarray(
        _Holder(
            owner,
            {
                "data": (address, read_only),
                "shape": layout.shape,
                "strides": layout.strides,
                "typestr": f"|V{layout.itemsize}",
                "version": 3,
            },
        )
    ).view(layout.dtype)


def _numpy_view(base: np.ndarray, layout: Layout, offset: int) -> np.ndarray:
    if layout.size == 0:  # the order of its axes may decide that of a result
        nothing = np.empty(layout.itemsize, np.uint8)
        return np.ndarray(layout.shape, layout.dtype, nothing, 0, layout.strides)
    try:  # ten times faster, but NumPy wants a base without gaps
        return np.ndarray(layout.shape, layout.dtype, base, offset, layout.strides)
    except (ValueError, TypeError, BufferError):
        return numpy_over(base, base.ctypes.data + offset, layout, not base.flags.writeable)


# -------------------- making arrays


def wrap(data: np.ndarray) -> ndarray:
    """A NumPy array as an ndarray on the CPU, over the same memory."""
    return _wrap(data)


def wrap_with(function: Callable[[np.ndarray], ndarray]) -> None:
    """Let another function do what `wrap` does: machine code (cpu/lib/llvm_methods.py)."""
    global _wrap
    _wrap = function


#: Small operations on the CPU after which the functions in `when_often` are called, once.
OFTEN = 5000
when_often: list[Callable[[], None]] = []
_left = OFTEN


def count_small() -> None:
    """Count an operation that takes less time in NumPy than in Python."""
    global _left
    _left -= 1
    while _left < 0 and when_often:
        when_often.pop()()


def wrap_plainly(data: np.ndarray) -> ndarray:
    """`wrap` in Python."""
    count_small()
    out = object.__new__(ndarray)
    out._layout = Layout.of(data.shape, data.strides, data.dtype, CPU)
    out._data, out._owner, out._node, out._base = data, None, None, None
    return out


_wrap = wrap_plainly


def allocate(layout: Layout) -> ndarray:
    """A new array, its elements undefined. `layout` must be that of a new array (C order)."""
    if layout.device == CPU:
        return wrap(np.empty(layout.shape, layout.dtype))
    if layout.device == TRACED:
        return over(layout, 0, None)  # to be filled: tracing.py
    if layout.device < TRACED:
        return work.allocate(layout)
    dry = runtime.local.stream
    if dry.__class__ is DryStream:
        return without_memory(layout, dry)
    return allocate_now(layout)


def allocate_now(layout: Layout) -> ndarray:
    """A new array on a GPU that has memory, also while a function is recorded on a dry stream."""
    buffer = memory.Buffer(layout.nbytes, stream.stream_of(layout.device))
    return over(layout, buffer.address, buffer)


def without_memory(layout: Layout, dry: DryStream) -> ndarray:
    """A new array of a GPU whose memory is never allocated."""
    owner = dry.take(layout.nbytes)
    return over(layout, owner.address, owner)


#: Owners of the memory of new arrays: two of them share none.
OWN_MEMORY = memory.Buffer, Unallocated


def over(layout: Layout, address: Any, owner: Any) -> ndarray:
    """An array over device memory that `owner` keeps alive; on the CPU a NumPy array is in the
    place of the address."""
    out = object.__new__(ndarray)
    out._layout, out._data, out._owner, out._node = layout, address, owner, None
    out._base = None
    return out


class ReadOnly(memory.Borrowed):
    """The owner of GPU memory that another library lends for reading only. Views share the
    owner."""

    __slots__ = ()


def read_only(x: ndarray) -> bool:
    """Whether the memory of an array must not be changed."""
    if x._is_scalar:
        return True
    return (
        not x._data.flags.writeable if x._layout.device == CPU else x._owner.__class__ is ReadOnly
    )


def refuse_read_only(name: str, x: ndarray) -> None:
    """ValueError for an array whose memory must not be changed. Whoever is about to write calls
    this, so it is also where a function that writes on the host ceases to be recorded dry: what is
    written here would be written again by the program."""
    dry = runtime.local.stream
    if dry.__class__ is DryStream and x._layout.device == CPU:
        dry.refuse(f"{name}: it writes into an array on the CPU")
    if read_only(x):
        raise ValueError(
            f"{name}: assignment destination is read-only: {x.dtype} of shape {x.shape}; copy it "
            "first"
        )


def refuse_misaligned(name: str, layout: Layout, address: int) -> None:
    """Raise ValueError for misaligned elements on a GPU: a kernel that read one would lose the
    context."""
    width = min(layout.itemsize, 8)  # a complex128 is two numbers
    steps = [step for step, n in zip(layout.strides, layout.shape, strict=True) if n > 1]
    if layout.size and any([at % width for at in (address, *steps)]):
        raise ValueError(
            f"{name}: {layout.dtype} of shape {layout.shape} and strides {layout.strides} at "
            f"{address:#x}: a GPU "
            f"reads such numbers at multiples of {width} bytes only; copy the bytes first"
        )


def borrowed(name: str, layout: Layout, address: int, lender: Any, reading: bool) -> ndarray:
    """An array over GPU memory of another library's object, read-only or writable."""
    if not (layout.aligned and layout.contiguous):
        refuse_misaligned(name, layout, address)
    return over(
        layout,
        address,
        (ReadOnly if reading else memory.Borrowed)(lender, stream.stream_of(layout.device)),
    )


def empty(shape: tuple[int, ...], dtype: np.dtype, device: int) -> ndarray:
    """A new array of this shape, dtype and device number, its elements undefined."""
    return allocate(Layout.new(shape, dtype, device))
