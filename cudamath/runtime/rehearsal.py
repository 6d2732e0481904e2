"""A driver on which programs run without a device, to see which kernels they need.

It takes every call and does nothing: memory is addresses without bytes, launches and copies change
nothing, work is done as soon as it is queued. What a program reads from the device is a small
positive number. So a program takes its usual way as long as it does not depend on results.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import cublas, cudnn, cudnn_recurrent, device, kernel_launch
from .interrupts import context_manager
from .state import runtime

_MEMORY = 1 << 37  # bytes
_OK, _INVALID = 0, 1
#: What is read from the device: 3 as int64, 4.2e-45 as float32.
_READ = np.int64(3).tobytes()


class _Names:
    """An enumeration whose members are their names."""

    def __getattr__(self, name: str) -> str:
        return name


class Driver:
    """In the place of cuda.bindings.driver."""

    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP = 1, 2
    CUstream = cuuint64_t = cuuint32_t = int

    def __init__(self, capability: tuple[int, int]):
        self.capability = capability
        self._handles = itertools.count(0x1000, 0x10)
        self._addresses = itertools.count(1 << 40, _MEMORY)
        self._locked: dict[int, np.ndarray] = {}  # page-locked memory, which the host uses
        self._capturing: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cu"):  # a call that makes something, or has no result
            return lambda *_: (_OK, next(self._handles))
        if name.startswith("CU"):
            return _Kind if name[2:] in _STRUCTURES else _Names()
        raise AttributeError(name)

    # -------------------- devices

    def cuDeviceGetCount(self) -> tuple:
        return _OK, 1

    def cuDeviceGet(self, index: int) -> tuple:
        return _OK, index

    def cuDeviceGetName(self, _length: int, _index: int) -> tuple:
        return _OK, b"rehearsal\0"

    def cuDeviceTotalMem(self, _index: int) -> tuple:
        return _OK, _MEMORY

    def cuDeviceGetAttribute(self, kind: str, _index: int) -> tuple:
        found = {
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": self.capability[0],
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": self.capability[1],
            "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 132,
            "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
            "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE": 50 << 20,
        }
        return _OK, found.get(kind, 2048)

    def cuDeviceCanAccessPeer(self, *_: Any) -> tuple:
        return _OK, 0

    def cuCtxGetCurrent(self) -> tuple:
        return _OK, 1

    def cuDevicePrimaryCtxRetain(self, _index: int) -> tuple:
        return _OK, 1

    # -------------------- memory

    def cuMemAllocAsync(self, _size: int, _stream: Any) -> tuple:
        return _OK, next(self._addresses)

    def cuMemGetInfo(self) -> tuple:
        return _OK, _MEMORY, _MEMORY

    def cuMemHostAlloc(self, size: int, _flags: int) -> tuple:
        block = np.zeros(size + 512, np.uint8)
        address = block.ctypes.data + 511 & -512
        self._locked[address] = block
        return _OK, address

    cuMemAllocManaged = cuMemHostAlloc

    def cuMemFreeHost(self, address: int) -> tuple:
        self._locked.pop(address, None)
        return (_OK,)

    cuMemFree = cuMemFreeHost

    def cuPointerGetAttribute(self, kind: str, address: int) -> tuple:
        if kind.endswith("DEVICE_ORDINAL"):
            return _OK, 0
        locked = any(a <= address < a + b.size for a, b in self._locked.items())
        return (_OK, 1) if locked else (_INVALID, None)

    def cuMemcpyDtoHAsync(self, host: int, _address: int, nbytes: int, _stream: Any) -> tuple:
        ctypes.memmove(host, _READ * (nbytes // 8 + 1), nbytes)
        return (_OK,)

    # -------------------- streams, events, graphs

    def cuStreamBeginCapture(self, stream: int, _mode: Any) -> tuple:
        self._capturing.add(stream)
        return (_OK,)

    def cuStreamEndCapture(self, stream: int) -> tuple:
        self._capturing.discard(stream)
        return _OK, next(self._handles)

    def cuStreamIsCapturing(self, stream: int) -> tuple:
        return _OK, int(stream in self._capturing)

    def cuGraphGetNodes(self, _graph: int, _count: int) -> tuple:
        return _OK, [], 1

    def cuEventElapsedTime(self, _start: int, _end: int) -> tuple:
        return _OK, 1.0

    # -------------------- kernels

    def cuLibraryGetKernelCount(self, _library: int) -> tuple:
        return _OK, 1

    def cuLibraryEnumerateKernels(self, _count: int, library: int) -> tuple:
        return _OK, [library]

    def cuKernelGetAttribute(self, kind: str, *_: Any) -> tuple:
        return _OK, {"NUM_REGS": 32, "MAX_THREADS_PER_BLOCK": 1024}.get(kind[18:], 0)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *_: Any) -> tuple:
        return _OK, 2

    def cuLaunchKernel(self, *_: Any) -> tuple:
        return (_OK,)

    cuLaunchKernelEx = cuLaunchKernel

    def cuTensorMapEncodeTiled(self, *_: Any) -> tuple:
        return _OK, _Kind(opaque=[0] * 16)

    cuTensorMapEncodeIm2col = cuTensorMapEncodeTiled


class _Kind:
    """A structure of the driver's, with whatever fields it is given."""

    def __init__(self, **fields: Any):
        vars(self).update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        made = _Kind()
        setattr(self, name, made)
        return made


_STRUCTURES = {"launchConfig", "launchAttribute", "memAccessDesc"}


class _Convolution:
    """In the place of a convolution of cuDNN, which is made on a device that is there."""

    workspace, __name__ = 0, "cudnn_convolution"

    def __init__(self, transformed: bool):
        self.transformed = transformed

    def __call__(self, *_: Any) -> None:
        raise AssertionError("rehearsal: nothing runs")


def _convolution(kind: str, dtype: Any, *_: Any, fourier: bool = False, **__: Any) -> _Convolution:
    """`cudnn.convolution`, by a transform where it may be: weight gradients that are do not say
    so."""
    return _Convolution(fourier or (kind == "weight" and dtype == np.float32))


class _Recurrent:
    """In the place of cuDNN's recurrent layers."""

    workspace = reserve = 0

    def forward(self, *_: Any) -> None:
        raise AssertionError("rehearsal: nothing runs")

    backward = forward


#: Libraries that planners ask for.
LIBRARIES = ("cublas", "cudnn")


@context_manager
def libraries(*there: str) -> Iterator[None]:
    """Context: plans are made as if these of LIBRARIES were there, and no others. They are for
    their kernels, not to be run."""
    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (cublas, "available", lambda: "cublas" in there),
        (cublas, "multiplies_float8", lambda outer: "cublas" in there),
        (cudnn, "available", lambda: "cudnn" in there),
        (cudnn, "convolution", _convolution),
        (cudnn_recurrent, "available", lambda: "cudnn" in there),
        (cudnn_recurrent, "recurrent", lambda *_: _Recurrent()),
    ]
    before = [getattr(module, name) for module, name, _ in replaced]
    for module, name, function in replaced:
        setattr(module, name, function)
    try:
        yield
    finally:
        for (module, name, _), function in zip(replaced, before, strict=True):
            setattr(module, name, function)


def found() -> tuple[str, ...]:
    """Those of LIBRARIES that are there."""
    there = (cublas.available(), cudnn.available())
    return tuple(name for name, is_there in zip(LIBRARIES, there, strict=True) if is_there)


@context_manager
def rehearsing(
    capability: tuple[int, int],
    compiler: Callable[[Any, list[Any], tuple[int, int]], bytes],
    *,
    there: tuple[str, ...] = LIBRARIES,
    name: str = "assumed",
) -> Iterator[None]:
    """Context: one device of this compute capability and name, on which nothing runs. `compiler`
    gets every kernel that would be compiled, as (kernel, signature, capability). there: those of
    LIBRARIES that plans are made for."""
    with (
        runtime.replaced(Driver(capability), compiler),
        device.assume(capability, name=name),
        libraries(*there),
    ):
        kernel_launch.prepare_launcher()["observe_call"] = lambda *_: None  # library calls
        yield
