"""Device names and the default device: where new arrays are created."""

from __future__ import annotations

import functools
import os
from typing import Any

from ..runtime import device as cuda
from ..runtime import stream
from ..runtime.errors import DeviceError
from ..runtime.interrupts import uninterrupted
from ..runtime.state import runtime
from .levels import under

CPU = -1  # a layout's `device` for host arrays; GPUs are numbered from 0
TRACED = -2  # of arrays without bytes (tracing.py)


class Device:
    """A place for arrays: "cpu" or "cuda:i". Compares equal to its name.

    As a context it is where new arrays go; a GPU is then also the active device of `cm.cuda`.

    >>> import cudamath as cm
    >>> with cm.device("cpu"):
    ...     cm.zeros(2).device
    Device('cpu')
    """

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index

    @property
    def name(self) -> str:
        """'cpu' or 'cuda:0', ..."""
        if self.index < TRACED:
            return device_of(under(self.index)).name
        return (
            "cpu"
            if self.index == CPU
            else "traced"
            if self.index == TRACED
            else f"cuda:{self.index}"
        )

    @property
    def type(self) -> str:
        """'cpu' or 'cuda'."""
        return "cpu" if self.name == "cpu" else "cuda"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.name == ("cuda:0" if other == "cuda" else other)
        return isinstance(other, Device) and other.index == self.index

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __enter__(self) -> Device:
        local, active = runtime.local, None
        if self.index >= 0:
            active = stream.on_device(self.index, restore=True)
        stack = (*local.device_stack, (self.index, active))
        if active is not None:
            active.__enter__()
        local.device_stack = stack
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        local = runtime.local
        _, active = local.device_stack[-1]
        local.device_stack = local.device_stack[:-1]
        if active is not None:
            active.__exit__()


_device = functools.cache(Device)


def device(name: Device | str | int) -> Device:
    """Return the device of a name.

    DeviceError if there is none.

    Parameters
    ----------
    name : device_like
        "cpu", "cuda" (device 0), "cuda:1", a number, or a Device.

    Returns
    -------
    Device
        The device.

    Raises
    ------
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.device("cpu"):
    ...     cm.ones(2).device == "cpu"
    True
    """
    if isinstance(name, Device):
        return name
    if isinstance(name, str):
        if name == "cpu":
            return _device(CPU)
        if name == "cuda":
            return _device(cuda.validate(0))
        kind, _, number = name.partition(":")
        if kind == "cuda" and number.isdigit():
            return _device(cuda.validate(int(number)))
    elif isinstance(name, int) and not isinstance(name, bool):
        return _device(cuda.validate(name))
    raise DeviceError(f"device: {name!r} is not a device; wants 'cpu', 'cuda' or 'cuda:<number>'")


def device_of(index: int) -> Device:
    """The Device of a layout's device number."""
    return _device(index)


def default_index() -> int:
    """Number of the default device: of `with cm.device(...)`, else as set, else the first GPU, else
    the CPU."""
    local = runtime.local
    if stack := local.device_stack:
        return stack[-1][0]
    if local.device is not None:
        return local.device
    if runtime.default_device is None:
        name = os.environ.get("CUDAMATH_DEVICE")
        first = 0 if cuda.device_count() else CPU
        runtime.default_device = device(name).index if name else first
    return runtime.default_device


def index_of(name: Any) -> int:
    """Device number of a `device=` argument; None means the default."""
    return default_index() if name is None else device(name).index


def set_default_device(name: Device | str | int) -> None:
    """Choose the device of new arrays, in every thread.

    The environment variable CUDAMATH_DEVICE has the same effect.

    Parameters
    ----------
    name : device_like
        Name of the device, as for `device`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.set_default_device("cpu")
    >>> cm.default_device()
    Device('cpu')
    """
    runtime.default_device = device(name).index
    runtime.local.device = None
    if runtime.default_device != CPU:
        stream.set_device(runtime.default_device)


def choose(index: int) -> None:
    """Make a GPU the active device and the default of this thread (`cm.cuda.set_device`)."""
    stream.set_device(index)
    runtime.local.device = index


def default_device() -> Device:
    """Return the default device, on which new arrays are created.

    Returns
    -------
    Device
        The device.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.device("cpu"):
    ...     cm.default_device()
    Device('cpu')
    """
    return device_of(default_index())
