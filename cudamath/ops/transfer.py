"""Between devices and between views of the same bytes: `.to`, real and imaginary parts, filling,
copying into."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import batched, tracing
from ..core.array import allocate, borrowed, ndarray, over, wrap
from ..core.asarray import asarray, upload
from ..core.autograd import mutation, tape
from ..core.bounded_cache import store
from ..core.devices import CPU, TRACED
from ..core.dispatch.call_record import obstruct, open_records, report
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, ViewOp, registry
from ..core.dtypes import COMPLEX, real_dtype
from ..core.export_guard import refuse_to_leave
from ..core.layout import Layout
from ..core.levels import place_of
from ..core.typing import ArrayLike
from ..runtime import memory, stream
from ..runtime.dry import Unallocated
from ..runtime.errors import DeviceError
from . import ufunc
from .index import _check_writable
from .shape import astype

__all__ = ["imag", "real"]


class _Transfer:
    """The card of `x.to(device)`: its gradient goes back to where x was."""

    name = "to"
    several = broadcasts = False

    @staticmethod
    def vjp(g: ndarray, _y: Any, _x: Any, *, source: int, **_: Any) -> tuple:
        return (to_device(g, source),)

    @staticmethod
    def saves(count: int) -> tuple[bool, tuple[bool, ...]]:
        return False, (False,) * count

    def __call__(self, x: ndarray, *, source: int, index: int) -> ndarray:
        if source < TRACED:
            return batched.transferred(x, place_of(index))
        index = place_of(index)
        if index == CPU:
            return wrap(x._alias().to_numpy())  # its gradient is recorded
        if source == CPU:
            return upload(x._data, index)
        x = x if x.is_contiguous else x._alias().copy()
        out = allocate(x._layout.__class__.new(x.shape, x.dtype, index))
        if out._owner.__class__ is Unallocated:
            return out
        at = stream.stream_of(source)
        if x._owner.stream is not at:
            x._owner.used_on(at)
        memory.copy_peer(out._data, out._owner.stream, x._data, at, x.nbytes)
        return out


_on_host: dict[Layout, Layout] = {}  # of arrays on a GPU: the layout of their copies in host memory
_to = _Transfer()
registry["to"] = _to  # type: ignore[assignment]


def to_device(x: ndarray, index: int) -> ndarray:
    """A copy of `x` on the device of that number; between GPUs peer to peer where the hardware
    can."""
    if index == CPU and x._node is None and x._layout.device >= 0:
        host = x.to_numpy()
        layout = _on_host.get(x._layout)
        if layout is None:
            layout = Layout.of(host.shape, host.strides, host.dtype, CPU)
            store(_on_host, x._layout, layout)
        return over(layout, host, None)
    source = x._layout.device
    if (source < TRACED or index < TRACED) and place_of(source) == place_of(index):
        return x
    params: Any = {"source": source, "index": index}
    out = _to(x, **params)
    if x._node is not None:
        tape.record(_to, (x,), out, params)
    if open_records:
        report(_to, (x,), (), params, functools.partial(_to, **params), out)
    return out


def copy_to(x: ndarray, target: Any, *, stream: Any = None) -> Any:
    """Copy the elements into `target`, an array of the same shape and dtype.

    On a `stream` the copy is asynchronous. With page-locked host memory (`cm.cuda.pinned`) it
    overlaps with computation on other streams. Synchronise the stream before you read the target.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    target : ndarray or numpy.ndarray
        An ndarray on any device, or a NumPy array.
    stream : object, optional
        Stream of the operation. The default is the current stream.

    Returns
    -------
    ndarray or numpy.ndarray
        The target.

    Raises
    ------
    ValueError
        The target is read-only.
    RuntimeError
        A gradient is being recorded for the target, or for `x` and the target is an ndarray.
    TypeError
        A gradient is being recorded for `x`, and the target is a NumPy array.

    Examples
    --------
    >>> import cudamath as cm, numpy as np
    >>> cm.arange(3).copy_to(np.empty(3, np.int64)).tolist()
    [0, 1, 2]
    """
    try:
        fits = target.shape == x.shape and target.dtype == x.dtype
    except AttributeError:
        raise TypeError(
            f"copy_to: target must be an ndarray or a NumPy array, got {type(target).__name__}"
        ) from None
    if not fits:
        raise ValueError(
            f"copy_to: target must be {x.dtype} of shape {x.shape}, got {target.dtype} of shape "
            f"{target.shape}"
        )
    if not isinstance(target, ndarray):
        if x._node is not None:
            refuse_to_leave(x, "copy_to")
        target = wrap(asarray(target, copy=False, device="cpu")._data)
    elif x._node is not None:
        raise RuntimeError(
            f"copy_to: a gradient is recorded for the array of shape {x.shape}; it would be lost "
            "in the target; "
            "make a new array instead (copy, to)"
        )
    _check_writable("copy_to", target)
    obstruct("copied into an array")
    mutation.wrote(target)
    source_at, target_at = x._layout.device, target._layout.device
    if source_at == CPU and target_at == CPU:
        target._data[...] = x._data
        return target
    if not (x.is_contiguous and target.is_contiguous):
        raise ValueError(
            "copy_to: between devices both arrays must be contiguous; call .copy() first"
        )
    if stream is None:
        from ..runtime.stream import stream_of

        stream = stream_of(max(source_at, target_at))
        wait = True
    else:
        wait = False
    if source_at == CPU:
        memory.upload(target._data, x._address, x.nbytes, stream, wait=wait)
        target._owner.used_on(stream)
    elif target_at == CPU:
        memory.download(target._address, x._data, x.nbytes, stream, wait=wait)
        x._owner.used_on(stream)
    elif source_at == target_at:
        memory.copy(target._data, x._data, x.nbytes, stream)
        x._owner.used_on(stream)
        target._owner.used_on(stream)
    else:
        raise DeviceError(
            f"copy_to: arrays are on {x.device} and {target.device}; use x.to(...) between GPUs"
        )
    return target


def _part(layout: Layout, *, offset: int) -> tuple[Layout, int]:
    dtype = real_dtype(layout.dtype)
    return layout.view(layout.shape, layout.strides, offset, dtype), offset


class _OfParts(ufunc.Elementwise):
    """The operands are real, the result is complex."""

    def resolved(self, operands: tuple, common: np.dtype) -> tuple[np.dtype, np.dtype]:
        kind = np.dtype(np.complex128 if common.itemsize == 8 else np.complex64)
        return kind, kind


#: x + iy of real x and y. The sum `x + y * 1j` is another number where y is infinite (its real part
#: is NaN) and where a part is -0.
complex_of_parts = _OfParts(
    "complex_of_parts",
    np.add,
    "complex(x.real, y.real)",
    ("real(g)", "-imag(g)"),  # -: g is conjugated on its way in
    FLOATING,
    "elementwise.complex_of_parts",
    globals(),
)
#: x exp(i y z) of real x, y and z.
of_polar = _OfParts(
    "of_polar",
    np.multiply,
    "polar(x.real, y.real * z.real)",
    ("real(g * of_polar(1.0, y, z))", "-z * imag(g * out)", "-y * imag(g * out)"),
    FLOATING,
    "elementwise.of_polar",
    globals(),
)


_real = ViewOp(
    "real",
    _part,
    lambda g, _y, _x, offset: (
        g.astype("complex128") if g.dtype == "float64" else g.astype("complex64"),
    ),
)
_imag = ViewOp("imag", _part, lambda g, _y, _x, offset: (complex_of_parts(0.0, g),))


@fast_path("x", scalars=False)
def real(x: ArrayLike, /) -> ndarray:
    """Real part.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        A view of a complex array, or a real array itself. Of a number, a scalar.

    Notes
    -----
    The gradient is g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.real(cm.array([1 + 2j])).tolist()
    [1.0]
    """
    if not isinstance(x, ndarray) and np.isscalar(x):
        return np.real(x)  # type: ignore[return-value]
    x = require("real", x)
    layout = x._layout
    if layout.dtype.kind != "c":
        return x
    if layout.device == TRACED:
        return astype(
            x, real_dtype(layout.dtype)
        )  # a Symbol has one dtype, whatever it is seen through
    return _real(x, offset=0)


@fast_path("x", scalars=False)
def imag(x: ArrayLike, /) -> ndarray:
    """Imaginary part.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        A view of a complex array. For a real array zeros, which as in NumPy cannot be written to.
        Of a number, a scalar.

    Notes
    -----
    Gradient: 1j g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.imag(cm.array([1 + 2j])).tolist()
    [2.0]
    """
    if not isinstance(x, ndarray) and np.isscalar(x):
        return np.imag(x)  # type: ignore[return-value]
    x = require("imag", x)
    layout = x._layout
    if layout.dtype in COMPLEX:
        offset = x.itemsize // 2
        if layout.device != TRACED:
            return _imag(x, offset=offset)
        out = tracing.part(x, "x.imag")
        if x._node is not None:
            tape.record(_imag, (x,), out, {"offset": offset})
        return out
    from .creation import zeros_like
    from .shape import broadcast_to

    if layout.device == TRACED:
        return broadcast_to(zeros_like(x, shape=()), x.shape)
    if open_records:  # a replay would make zeros that can be written to
        obstruct("made read-only")
    zeros = zeros_like(x, order="A")  # read-only: there is nothing that an assignment would change
    if layout.device == CPU:
        zeros._data.flags.writeable = False
        return zeros
    return borrowed("imag", zeros._layout, zeros._data, zeros, True)


def fill(x: ndarray, value: ArrayLike) -> None:
    """Set every element to a number, in place.

    As in NumPy, nothing is broadcast.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    value : array_like
        Number, or an array without dimensions.
    """
    if getattr(value, "ndim", 0) or isinstance(value, Sequence) and not isinstance(value, str):
        seen = (
            f"shape {value.shape}"
            if hasattr(value, "shape")
            else f"{type(value).__name__} {value!r:.60}"
        )
        raise ValueError(
            f"fill: wants one number for all of an array of shape {x.shape}, got {seen}; assign "
            "it to x[...]"
        )
    x[...] = value
