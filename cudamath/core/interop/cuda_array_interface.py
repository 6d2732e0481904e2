"""`__cuda_array_interface__`, version 3: memory on a GPU, lent to other libraries and taken from
them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import stream as streams
from .. import dtypes, shapes
from ..array import borrowed, ndarray, read_only
from ..devices import CPU
from ..elements import expose
from ..export_guard import refuse_to_leave
from ..layout import Layout


def describe(x: ndarray) -> dict[str, Any]:
    """What `x.__cuda_array_interface__` is. The consumer waits for our current stream, whose number
    it is told."""
    layout = x._layout
    if layout.device == CPU:
        raise AttributeError(
            f"__cuda_array_interface__: the array is on the CPU, dtype {layout.dtype}"
        )
    if layout.dtype.kind == "V":
        raise AttributeError(
            f"__cuda_array_interface__: the protocol has no {layout.dtype}; use DLPack"
        )
    if x._node is not None:
        refuse_to_leave(x, "__cuda_array_interface__")
    handle = streams.stream_of(layout.device).ptr or 1  # 1 is the legacy default stream
    lend(x)
    return {
        "shape": layout.shape,
        "typestr": layout.dtype.str,
        "data": (x._data, read_only(x)),
        "version": 3,
        "strides": None if layout.contiguous else layout.strides,
        "stream": handle,
    }


def lend(x: ndarray) -> None:
    """Note that another library uses an array on the default stream.

    Given back, the memory is reused only after what that stream holds by then. A consumer on a
    stream of its own must wait before it gives the memory back: that stream may not exist any more
    when we would ask it.
    """
    expose(x)
    default = streams.default_stream(x._layout.device)
    if x._owner.stream is not default:
        x._owner.used_on(default)


def take(obj: Any, interface: dict[str, Any], name: str) -> ndarray:
    """An array over the memory that `obj` exposes; our work waits for the stream the protocol
    names."""
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    if dtype not in dtypes.ANY:
        raise TypeError(f"{name}: arrays of {dtype} are not supported")
    if interface.get("mask") is not None:
        raise TypeError(
            f"{name}: a mask would be lost of {dtype} of shape {shape}: give an array whose "
            "masked elements are "
            "filled"
        )
    address, reading = interface["data"]
    address = int(address)
    strides = interface.get("strides") or shapes.contiguous_strides(shape, dtype.itemsize)
    index = _device_of_pointer(address) if address else streams.current_device()
    current = streams.stream_of(index)
    producer = interface.get("stream")
    if producer is not None:
        theirs = streams.external_stream(producer, index)
        if theirs.ptr != current.ptr:
            current.wait(theirs)
    layout = Layout.of(shape, tuple(strides), dtype, index, address % 16 == 0)
    return borrowed(name, layout, address, obj, bool(reading))


def _device_of_pointer(address: int) -> int:
    from ...runtime.device import driver
    from ...runtime.errors import check

    streams.current_stream()
    cu = driver()
    kind = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(check(cu.cuPointerGetAttribute(kind, address)))
