"""DLPack both ways, CPU and CUDA, with the stream rules of the protocol and bfloat16, which NumPy's lacks.

Source: the DLPack specification, version 1.0 (structures DLManagedTensor and DLManagedTensorVersioned).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
from typing import Any

import numpy as np

from ..runtime import stream as streams
from ..runtime.memory import Borrowed
from . import shapes
from .array import ndarray, over, wrap
from .devices import CPU
from .dtypes import ANY, bfloat16
from .layout import Layout

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4
_DTYPES = {(_BFLOAT, 16): bfloat16} | {(_CODES[d.kind], d.itemsize * 8): d for d in ANY if d.kind in _CODES}


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _DataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

#: What consumers hold: address of the managed structure -> everything that must stay alive with it.
_lent: dict[int, tuple] = {}


@_DELETER
def _returned(address: int) -> None:
    _lent.pop(address, None)


# A capsule nobody consumed must give its tensor back; one that was consumed has been renamed.
@_DELETER
def _unused(capsule: int) -> None:
    if _api is None:  # the interpreter is ending: this module's names are gone
        return
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
    valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
    for name in (b"dltensor", b"dltensor_versioned"):
        if valid(capsule, name):
            _lent.pop(get(capsule, name), None)


@atexit.register
def _leave() -> None:
    """What consumers still hold at exit stays theirs: they may drop it after this module's functions are gone."""
    for kept in (_lent, _unused):  # one reference that nobody gives back
        _api.Py_IncRef(ctypes.py_object(kept))
    for managed, *_ in _lent.values():
        managed.deleter = None


def export(x: ndarray, stream: Any = None, max_version: tuple[int, int] | None = None,
           dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
    """The capsule of `x.__dlpack__(...)`."""
    if dl_device is not None and tuple(dl_device) != x.__dlpack_device__():
        if copy is False or dl_device[0] != _CPU:
            raise BufferError(f"__dlpack__: the array is on {x.device}; device {tuple(dl_device)} would need a copy")
        x = x.to("cpu")
    elif copy:
        x = x.copy()
    layout = x._layout
    if layout.device != CPU:
        _order_after(x, stream)
    code = _BFLOAT if layout.dtype == bfloat16 else _CODES.get(layout.dtype.kind)
    if code is None or layout.dtype not in ANY:
        raise BufferError(f"__dlpack__: {layout.dtype} has no DLPack type")
    shape = (ctypes.c_int64 * layout.ndim)(*layout.shape)
    strides = (ctypes.c_int64 * layout.ndim)(*[s // layout.itemsize for s in layout.strides])
    place = _Device(_CPU, 0) if layout.device == CPU else _Device(_CUDA, layout.device)
    kind = _DataType(code, layout.itemsize * 8, 1)
    tensor = _Tensor(x.ptr, place, layout.ndim, kind, shape, strides, 0)
    deleter = ctypes.cast(_returned, ctypes.c_void_p).value
    versioned = max_version is not None and max_version[0] >= 1
    managed: Any
    if versioned:
        read_only = layout.device == CPU and not x._data.flags.writeable
        managed = _Versioned(1, 0, None, deleter, int(read_only), tensor)
    elif layout.device == CPU and not x._data.flags.writeable:
        raise BufferError(f"__dlpack__: {layout.dtype} of shape {layout.shape} is read-only, as DLPack before 1.0 cannot say")
    else:
        managed = _Managed(tensor, None, deleter)
    address = ctypes.addressof(managed)
    _lent[address] = (managed, x, shape, strides)
    name = b"dltensor_versioned" if versioned else b"dltensor"
    return _api.PyCapsule_New(address, name, ctypes.cast(_unused, ctypes.c_void_p))


def _order_after(x: ndarray, stream: Any) -> None:
    """Make the consumer's stream wait for ours: None and 1 are the legacy default stream, -1 asks for nothing.

    Given back, the memory is reused only after what the default stream holds by then. A consumer on a stream of its
    own must wait before it gives the memory back: that stream may not exist any more when we would ask it.
    """
    if stream == -1:
        return
    if stream == 0:
        raise ValueError("__dlpack__: stream 0 is ambiguous; pass 1 (legacy) or 2 (per-thread)")
    ours = streams.stream_of(x._layout.device)
    theirs = streams.external_stream(1 if stream is None else int(stream), x._layout.device)
    if theirs.ptr != ours.ptr:
        theirs.wait(ours)
    if theirs.ptr == 0 and x._owner.stream is not theirs:
        x._owner.used_on(theirs)


class _Held:
    """A tensor taken from another library; gives it back when the last array over it is gone."""

    def __init__(self, address: int, deleter: int | None):
        self.address, self.deleter = address, deleter

    def __del__(self) -> None:
        if self.deleter and _DELETER is not None:  # None while the interpreter ends
            _DELETER(self.deleter)(self.address)


def take(obj: Any, name: str = "from_dlpack") -> ndarray:
    """An array over the memory of a DLPack object, on the CPU or a GPU."""
    place, index = obj.__dlpack_device__()
    place = int(place)
    if place not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise BufferError(f"{name}: cannot take an array from DLPack device type {place}")
    if hasattr(obj, "is_neg") and obj.is_neg():  # torch's: its memory holds the negatives, and it exports that without a word
        raise BufferError(f"{name}: {obj.dtype} of shape {tuple(obj.shape)} is negative by a bit of its own, which DLPack "
                          "cannot say; give tensor.resolve_neg()")
    arguments = {} if place in (_CPU, _CUDA_HOST) else {"stream": streams.stream_of(int(index)).ptr or 1}
    on_host = place in (_CPU, _CUDA_HOST)
    with contextlib.nullcontext() if on_host else streams.in_context(int(index)):  # torch exports from its current device
        try:
            try:
                capsule = obj.__dlpack__(max_version=(1, 0), **arguments)
            except TypeError:  # a producer from before version 1.0 of the protocol
                capsule = obj.__dlpack__(**arguments)
        except BufferError as error:
            raise BufferError(f"{name}: {error}") from None
    versioned = bool(_api.PyCapsule_IsValid(capsule, b"dltensor_versioned"))
    label = b"dltensor_versioned" if versioned else b"dltensor"
    address = _api.PyCapsule_GetPointer(capsule, label)
    managed = (_Versioned if versioned else _Managed).from_address(address)
    _api.PyCapsule_SetName(capsule, b"used_" + label)
    held = _Held(address, managed.deleter)
    tensor = managed.tensor
    dtype = _dtype(tensor.dtype, name)
    shape = tuple(tensor.shape[:tensor.ndim])
    if tensor.strides:
        # In bytes and modulo 2^64: some producers divide negative byte strides as if they were unsigned.
        strides = tuple(ctypes.c_int64(s * dtype.itemsize).value for s in tensor.strides[:tensor.ndim])
    else:
        strides = shapes.contiguous_strides(shape, dtype.itemsize)
    start = (tensor.data or 0) + tensor.byte_offset
    if place in (_CPU, _CUDA_HOST):
        read_only = bool(versioned and managed.flags & 1)
        return wrap(_host_view(held, start, shape, strides, dtype, read_only))
    layout = Layout.of(shape, strides, dtype, int(index), start % 16 == 0)
    return over(layout, start, Borrowed(held, streams.stream_of(int(index))))


def _dtype(kind: _DataType, name: str) -> np.dtype:
    dtype = _DTYPES.get((kind.code, kind.bits)) if kind.lanes == 1 else None
    if dtype is None:
        raise TypeError(f"{name}: DLPack type (code {kind.code}, {kind.bits} bits, {kind.lanes} lanes) is not supported")
    return dtype


def _host_view(held: Any, start: int, shape: tuple, strides: tuple, dtype: np.dtype, read_only: bool) -> np.ndarray:
    if 0 in shape:
        return np.empty(shape, dtype)
    holder = type("Lent", (), {"__array_interface__": {
        "data": (start, read_only), "shape": shape, "strides": strides, "typestr": f"|V{dtype.itemsize}", "version": 3}})()
    holder.held = held
    return np.asarray(holder).view(dtype)
