"""Devices: list, active device, synchronisation, copies between two devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core import devices as places
from ..core.array import ndarray
from ..core.devices import CPU
from ..runtime import device as runtime
from ..runtime import host_stream, memory, stream
from ..runtime.device import DeviceInfo
from ..runtime.errors import DeviceError
from ..runtime.interrupts import context_manager
from ..runtime.stream import Stream

__all__ = [
    "DeviceInfo",
    "copy_peer",
    "current_device",
    "current_stream",
    "deterministic",
    "device",
    "device_count",
    "devices",
    "external_stream",
    "is_available",
    "peer_access",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Return whether there is a GPU to use.

    Returns
    -------
    bool
        True if there is one.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.is_available() == (cm.cuda.device_count() > 0)
    True
    """
    return runtime.device_count() > 0


def device_count() -> int:
    """Return the number of CUDA devices; 0 without a GPU or a driver.

    `python -m cudamath info` tells what is missing.

    Returns
    -------
    int
        Number of devices.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.device_count() >= 0
    True
    """
    return runtime.device_count()


def devices() -> list[DeviceInfo]:
    """Return the properties of each device. The list is empty without a GPU.

    See `DeviceInfo`.

    Returns
    -------
    list of DeviceInfo
        Properties of the devices.

    Examples
    --------
    >>> import cudamath as cm
    >>> len(cm.cuda.devices()) == cm.cuda.device_count()
    True
    """
    return [runtime.info(index) for index in range(runtime.device_count())]


def index_of(device: Any, name: str) -> int:
    """A `device=` argument (number, name, Device, None: the active one) as a checked device
    number."""
    if device is None:
        runtime.validate(0, name)
        return stream.current_device()
    if isinstance(device, (str, places.Device)):
        index = places.device(device).index
        if index == CPU:
            raise DeviceError(f"{name}: wants a CUDA device, got 'cpu'")
        return index
    return runtime.validate(device, name)


def on_host(device: Any) -> bool:
    """Whether a `device=` argument means the CPU: there is no GPU, and none is named."""
    return device is None and runtime.device_count() == 0


def current_device() -> int:
    """Return the ordinal of this thread's active device.

    It is the one that was set, otherwise the first one that the thread used, otherwise 0.

    Returns
    -------
    int
        The number.

    Raises
    ------
    DeviceError
        There is no GPU.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.current_device() if cm.cuda.is_available() else 0
    0
    """
    return index_of(None, "current_device")


def set_device(device: int) -> None:
    """Make a device active in this thread.

    New arrays, streams and events are created there by default.

    It is what the driver calls current, which libraries in one thread share: PyTorch's current
    device becomes this one too. After `torch.cuda.set_device` of another one, set it again here.

    Parameters
    ----------
    device : int
        Number of the device, or its name.

    Raises
    ------
    DeviceError
        There is no such device; the message says how many there are.

    Examples
    --------
    >>> import cudamath as cm
    >>> if cm.cuda.is_available():
    ...     cm.cuda.set_device(0)
    """
    places.choose(index_of(device, "set_device"))


@context_manager
def device(index: int) -> Iterator[places.Device]:
    """Context: a device is active inside (see `set_device`); the previous one again afterwards.

    Parameters
    ----------
    index : int
        Position of the element.

    Yields
    ------
    places.Device
        The result, which is complete at the end of the block.

    Raises
    ------
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> if cm.cuda.is_available():
    ...     with cm.cuda.device(0):
    ...         assert cm.zeros(3).device == "cuda:0"
    """
    with places.device_of(index_of(index, "device")) as place:
        yield place


def synchronize(device: int | None = None) -> None:
    """Wait for all work on a device (the active one by default).

    Without a GPU all work is done, and the call returns at once.

    Parameters
    ----------
    device : int, optional
        Ordinal of the device. The default is the active one.

    Raises
    ------
    DeviceError
        There is no such device.
    IndexError
        A kernel met an index out of range; the message names the Python line of the call.
    CudaError
        A kernel failed; the message names the last launches.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.synchronize()
    """
    host_stream.refuse_capture("synchronize")
    if on_host(device):
        return
    stream.synchronize(index_of(device, "synchronize"))


def current_stream(device: int | None = None) -> Stream:
    """The stream that new work of this thread goes to: on the active device, or on the one named.

    Without a GPU it is a stream of the CPU, whose work is always done.

    Parameters
    ----------
    device : int, optional
        Ordinal of the device. The default is the active one.

    Returns
    -------
    Stream
        The stream.

    Raises
    ------
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.cuda.Stream() as s:
    ...     cm.cuda.current_stream() is s
    True
    """
    if on_host(device):
        return host_stream.current_stream()
    return stream.current_stream(index_of(device, "current_stream"))


def external_stream(ptr: int, device: int | None = None) -> Stream:
    """Another library's stream as a Stream, so that work of both is in order.

    The library must keep it alive.

    Parameters
    ----------
    ptr : int
        Address of the CUstream: `torch.cuda.current_stream().cuda_stream`,
        `cupy.cuda.get_current_stream().ptr`. 0 is the default stream.
    device : int, optional
        The stream's device; the active one by default.

    Returns
    -------
    Stream
        The stream.

    Raises
    ------
    DeviceError
        There is no such device.
    TypeError
        `ptr` is not an int.

    Examples
    --------
    >>> import cudamath as cm
    >>> if cm.cuda.is_available():
    ...     with cm.cuda.external_stream(0):
    ...         x = cm.zeros(3)
    """
    return stream.external_stream(ptr, index_of(device, "external_stream"))


def peer_access(device: int, peer: int) -> bool:
    """Let a device read and write the memory of another one directly.

    Copies between GPUs ask for it by themselves; without it they go through the host.

    Parameters
    ----------
    device : int
        Ordinal of the device.
    peer : int
        Ordinal of the other device.

    Returns
    -------
    bool
        True where the hardware can.

    Raises
    ------
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> if cm.cuda.is_available():
    ...     assert cm.cuda.peer_access(0, 0)
    """
    return memory.peer_access(index_of(device, "peer_access"), index_of(peer, "peer_access"))


def copy_peer(target: ndarray, source: ndarray) -> ndarray:
    """Copy the elements of an array into an array on another GPU.

    The copy comes after the work queued on both devices.

    Parameters
    ----------
    target, source : contiguous arrays of the same shape and dtype, on GPUs
        `x.to("cuda:1")` makes a new array instead.

    Returns
    -------
    ndarray
        `target`.

    Raises
    ------
    DeviceError
        An array is not on a GPU.
    ValueError
        Shapes or dtypes differ, or an array is not contiguous.

    Examples
    --------
    >>> import cudamath as cm
    >>> if cm.cuda.device_count() > 1:
    ...     cm.cuda.copy_peer(cm.empty(3, device="cuda:1"), cm.ones(3, device="cuda:0"))
    """
    runtime.validate(0, "copy_peer")
    for x in (target, source):
        if not isinstance(x, ndarray) or x._layout.device == CPU:
            raise DeviceError(
                f"copy_peer: wants arrays on GPUs, got {getattr(x, 'device', type(x).__name__)}"
            )
        if not x.is_contiguous:
            raise ValueError(
                f"copy_peer: wants contiguous arrays, got strides {x.strides} of shape {x.shape}"
            )
    if target.shape != source.shape or target.dtype != source.dtype:
        raise ValueError(
            f"copy_peer: target is {target.dtype} of shape {target.shape}, source {source.dtype} "
            "of shape "
            f"{source.shape}; they must agree"
        )
    streams = [stream.stream_of(x._layout.device) for x in (target, source)]
    for x, used in zip((target, source), streams, strict=True):
        if x._owner.stream is not used:
            x._owner.used_on(used)
    if target._layout.device == source._layout.device:
        memory.copy(target._data, source._data, source.nbytes, streams[0])
    else:
        memory.copy_peer(target._data, streams[0], source._data, streams[1], source.nbytes)
    return target


def deterministic() -> bool:
    """Return whether the same call gives the same bits on the same device. Always True.

    No kernel adds floating-point numbers in an order that varies (no float atomics), and cuBLAS
    gets a workspace of its own for each stream, which makes it reproducible too.

    Returns
    -------
    bool
        True.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.deterministic()
    True
    """
    return True
