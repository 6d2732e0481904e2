"""`cudamath.cuda`: devices, streams, memory, graphs, profiling: the CudaBackend side of the package."""

from __future__ import annotations

from .runtime.device import device_count
from .runtime.errors import CudaError, DeviceError, OutOfMemoryError
from .runtime.module import clear_kernel_cache
from .runtime.stream import Event, Stream, current_device, current_stream, external_stream, set_device, synchronize

__all__ = ["CudaError", "DeviceError", "Event", "OutOfMemoryError", "Stream", "clear_kernel_cache", "current_device",
           "current_stream", "device_count", "external_stream", "is_available", "set_device", "synchronize"]


def is_available() -> bool:
    """Whether there is a GPU to use."""
    return device_count() > 0
