"""DLPack both ways, CPU and CUDA, with the stream rules of the protocol and bfloat16, which NumPy's
lacks.

Source: the DLPack specification, version 1.0 (structures DLManagedTensor and
DLManagedTensorVersioned).
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import numpy as np

from ...runtime import stream as streams
from .. import shapes
from ..array import borrowed, ndarray, numpy_over, read_only, wrap
from ..devices import CPU
from ..dtypes import ANY, bfloat16
from ..elements import expose
from ..layout import Layout
from ..scalar import Scalar
from .cuda_array_interface import lend

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4
_READ_ONLY, _COPIED = 1, 2  # flags
_DTYPES = {(_BFLOAT, 16): bfloat16} | {
    (_CODES[d.kind], d.itemsize * 8): d for d in ANY if d.kind in _CODES
}


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

# Names of capsules before version 1.0 of the protocol and since.
_NEW = b"dltensor", b"dltensor_versioned"
_TAKEN = b"used_dltensor", b"used_dltensor_versioned"
_api.Py_IncRef(
    ctypes.py_object(_TAKEN)
)  # never freed: a capsule keeps the address of its name, and may outlive this module


def export(
    x: ndarray,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The capsule of `x.__dlpack__(...)`: NumPy's, of an array over the same memory, whose end is
    compiled code.

    Consumers end capsules and tensors at any time, also while an exception is on its way, which
    Python code that is called back there would lose.
    """
    source = x
    if isinstance(x, Scalar):
        x = x.own_array()  # the protocol lends arrays, which may be written
    if dl_device is not None and tuple(dl_device) != x.__dlpack_device__():
        if copy is False or dl_device[0] != _CPU:
            raise BufferError(
                f"__dlpack__: the array is on {x.device}; device {tuple(dl_device)} would need a "
                "copy"
            )
        x = x.to("cpu")
    elif copy:
        x = x.copy()
    elif not x._layout.contiguous and any(
        [n > 1 and s % x.itemsize for n, s in zip(x.shape, x.strides, strict=True)]
    ):
        if copy is False:
            raise BufferError(
                f"__dlpack__: strides {x.strides} are no multiples of the {x.itemsize} bytes of "
                f"{x.dtype}, as "
                "DLPack wants them; that would need a copy"
            )
        x = x.copy()
    layout = x._layout
    code = _BFLOAT if layout.dtype == bfloat16 else _CODES.get(layout.dtype.kind)
    if code is None or layout.dtype not in ANY:
        raise BufferError(f"__dlpack__: {layout.dtype} has no DLPack type")
    if layout.device != CPU:
        expose(x)
        _order_after(x, stream)
    versioned = max_version is not None and max_version[0] >= 1
    reading = read_only(x)
    if reading and not versioned:
        raise BufferError(
            f"__dlpack__: {layout.dtype} of shape {layout.shape} is read-only, as DLPack before "
            "1.0 cannot say"
        )
    host = x._data if layout.device == CPU else numpy_over(x, x._address, layout, reading)
    host = (
        host.view(np.uint16) if code == _BFLOAT else host
    )  # of a size that NumPy has a DLPack type for
    capsule = np.ndarray.__dlpack__(host, max_version=(1, 0) if versioned else None)
    managed = _opened(capsule)[1]
    tensor = managed.tensor
    tensor.data, tensor.dtype.code = x._address, code
    tensor.device = _Device(_CPU, 0) if layout.device == CPU else _Device(_CUDA, layout.device)
    if versioned and x is not source:
        managed.flags |= _COPIED
    return capsule


def _opened(capsule: Any) -> tuple[bool, Any]:
    """Whether a capsule is of version 1.0 or later, and the structure in it."""
    versioned = bool(_api.PyCapsule_IsValid(capsule, _NEW[True]))
    return versioned, (_Versioned if versioned else _Managed).from_address(
        _api.PyCapsule_GetPointer(capsule, _NEW[versioned])
    )


def _order_after(x: ndarray, stream: Any) -> None:
    """Make the consumer's stream wait for ours: None and 1 are the legacy default stream, -1 asks
    for nothing."""
    if stream == -1:
        return
    if stream == 0:
        raise ValueError("__dlpack__: stream 0 is ambiguous; pass 1 (legacy) or 2 (per-thread)")
    ours = streams.stream_of(x._layout.device)
    theirs = streams.external_stream(1 if stream is None else int(stream), x._layout.device)
    if theirs.ptr != ours.ptr:
        theirs.wait(ours)
    if theirs.ptr == 0:
        lend(x)


class _Import:
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
    if (
        hasattr(obj, "is_neg") and obj.is_neg()
    ):  # torch's: its memory holds the negatives, and it exports that without a word
        raise BufferError(
            f"{name}: {obj.dtype} of shape {tuple(obj.shape)} is negative by a bit of its own, "
            "which DLPack "
            "cannot say; give tensor.resolve_neg()"
        )
    arguments = (
        {} if place in (_CPU, _CUDA_HOST) else {"stream": streams.stream_of(int(index)).ptr or 1}
    )
    on_host = place in (_CPU, _CUDA_HOST)
    with (
        contextlib.nullcontext() if on_host else streams.in_context(int(index))
    ):  # torch exports from its current device
        try:
            try:
                capsule = obj.__dlpack__(max_version=(1, 0), **arguments)
            except TypeError:  # a producer from before version 1.0 of the protocol
                capsule = obj.__dlpack__(**arguments)
        except BufferError as error:
            raise BufferError(f"{name}: {error}") from None
    versioned, managed = _opened(capsule)
    _api.PyCapsule_SetName(capsule, _TAKEN[versioned])
    owner = _Import(ctypes.addressof(managed), managed.deleter)
    tensor = managed.tensor
    dtype = _dtype(tensor.dtype, name)
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        # In bytes and modulo 2^64: some producers divide negative byte strides as if they were
        # unsigned.
        strides = tuple(
            ctypes.c_int64(s * dtype.itemsize).value for s in tensor.strides[: tensor.ndim]
        )
    else:
        strides = shapes.contiguous_strides(shape, dtype.itemsize)
    start = (tensor.data or 0) + tensor.byte_offset
    reading = bool(versioned and managed.flags & _READ_ONLY)
    if on_host:
        return wrap(numpy_over(owner, start, Layout.of(shape, strides, dtype, CPU), reading))
    return borrowed(
        name, Layout.of(shape, strides, dtype, int(index), start % 16 == 0), start, owner, reading
    )


def _dtype(kind: _DataType, name: str) -> np.dtype:
    dtype = _DTYPES.get((kind.code, kind.bits)) if kind.lanes == 1 else None
    if dtype is None:
        raise TypeError(
            f"{name}: DLPack type (code {kind.code}, {kind.bits} bits, {kind.lanes} lanes) is not "
            "supported"
        )
    return dtype
