"""Devices and their primary contexts.

Nothing runs at import: the driver is loaded when a device is first used. Without a driver,
`device_count()` is 0 and `missing()` says what was searched for.
"""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import operator
import os
from typing import Any, TypeVar

from . import background_init, fork
from .errors import DeviceError, check
from .interrupts import name_at_once, uninterrupted
from .state import device_cache, runtime

T = TypeVar("T", bound=type)


def driver() -> Any:
    """The cuda.bindings driver module, imported on first use and stored as `runtime.driver`. Tests
    put a fake driver there."""
    cu = runtime.driver
    if cu is None:
        from cuda.bindings import driver as bindings

        name_at_once(bindings.CUresult)
        cu = runtime.driver = bindings
    return cu


@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """Properties of a device.

    L2 cache in bytes, the nominal bandwidth of its memory in bytes per second and its highest clock
    in Hz (0: unknown).

    Parameters
    ----------
    index : int
        Ordinal of the device.
    name : str
        Name of the device.
    capability : tuple of int
        Compute capability (major, minor).
    total_memory : int
        Memory in bytes.
    multiprocessors : int
        Number of multiprocessors.
    l2_cache : int
        L2 cache in bytes.
    max_shared_memory : int
        Largest shared memory of a block in bytes.
    memory_bandwidth : float, default 0.0
        Nominal bandwidth of the memory in bytes per second (0: unknown).
    clock : float, default 0.0
        Highest clock in Hz (0: unknown).
    """

    index: int
    name: str
    capability: tuple[int, int]
    total_memory: int
    multiprocessors: int
    l2_cache: int
    max_shared_memory: int
    memory_bandwidth: float = 0.0
    clock: float = 0.0


#: One lock for all tables of the runtime: contexts, streams, pools, loaded kernels. Only slow paths
#: take it. A finaliser may run inside any of them, so several locks could deadlock.
lock = fork.new_reentrant_lock()


def _loading_fails() -> str:
    """Why the driver's library cannot be loaded; "" if it can. Its bindings would say so too, but
    most of the first call on a machine without a GPU would be their import."""
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError as error:
        return str(error)
    return ""


@device_cache
def _probe() -> tuple[int, str]:
    """(number of devices, what was missing if there is none)."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return 0, "Numba's CUDA simulator is switched on (NUMBA_ENABLE_CUDASIM=1)"
    if runtime.driver is None and (said := _loading_fails()):
        return 0, f"the NVIDIA driver (libcuda.so.1 / nvcuda.dll): {said}"
    try:
        cu = driver()
    except ImportError as error:
        return 0, f"the Python package cuda-python (pip install cuda-python): {error}"
    try:
        with background_init.busy():
            check(cu.cuInit(0))
        runtime.process = os.getpid()
        return int(check(cu.cuDeviceGetCount())), "no CUDA device is visible to the driver"
    except (
        Exception
    ) as error:  # libcuda absent: the bindings raise RuntimeError, NotFoundError, ... by version
        return (
            0,
            "the NVIDIA driver (libcuda.so.1 / nvcuda.dll): "
            f"{' '.join(_said_by_driver(error).split())[:200].rstrip('.')}",
        )


def _said_by_driver(error: Exception) -> str:
    """The text of an error, of one of ours the driver's status."""
    return getattr(getattr(error, "status", None), "name", str(error))


def device_count() -> int:
    """Number of CUDA devices; 0 where there is no GPU or no driver."""
    return _probe()[0]


def missing() -> str:
    """What was looked for and not found, when there is no device."""
    return _probe()[1]


def validate(index: int, name: str = "device") -> int:
    """Check a device number; DeviceError says how many devices there are."""
    if runtime.process not in (None, os.getpid()):
        raise DeviceError(
            f"{name}: this process was forked after CUDA was set up, and CUDA does not survive a "
            "fork; "
            "start workers with the 'spawn' method of multiprocessing"
        )
    count = device_count()
    try:
        index = operator.index(index)
    except TypeError:
        raise TypeError(
            f"{name}: a device number must be an integer, got {type(index).__name__}"
        ) from None
    if not 0 <= index < count:
        if count == 0:
            raise DeviceError(
                f"{name}: cuda:{index} was asked for but no CUDA device was found; not found: "
                f"{missing()}. "
                "Install an NVIDIA driver, then `pip install cudamath[cu13]`"
            )
        raise DeviceError(
            f"{name}: cuda:{index} was asked for but there {'is' if count == 1 else 'are'} {count} "
            f"device{'s' if count > 1 else ''}: cuda:0{f'..cuda:{count - 1}' if count > 1 else ''}"
        )
    return index


def context(index: int) -> Any:
    """The primary context of a device, retained once."""
    handle = runtime.contexts.get(index)
    if handle is None:
        validate(index)
        with (
            background_init.busy(),
            lock,
        ):  # the background thread is joined after the release of the lock
            handle = runtime.contexts.get(index)
            if handle is None:
                cu = driver()
                handle = check(cu.cuDevicePrimaryCtxRetain(check(cu.cuDeviceGet(index))))
                runtime.contexts[index] = handle
    return handle


def activate(index: int) -> None:
    """Make a device's context current in this thread."""
    check(driver().cuCtxSetCurrent(context(index)))


@device_cache
def info(index: int) -> DeviceInfo:
    """Properties of one device (see DeviceInfo)."""
    validate(index, "devices")
    cu = driver()
    handle = check(cu.cuDeviceGet(index))
    kinds = cu.CUdevice_attribute

    def attribute(name: str) -> int:
        return int(
            check(cu.cuDeviceGetAttribute(getattr(kinds, "CU_DEVICE_ATTRIBUTE_" + name), handle))
        )

    return DeviceInfo(
        index=index,
        name=check(cu.cuDeviceGetName(128, handle)).split(b"\0")[0].decode(),
        capability=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        total_memory=int(check(cu.cuDeviceTotalMem(handle))),
        multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
        l2_cache=attribute("L2_CACHE_SIZE"),
        max_shared_memory=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        # kHz and bits; two transfers per clock
        memory_bandwidth=2e3
        * attribute("MEMORY_CLOCK_RATE")
        * attribute("GLOBAL_MEMORY_BUS_WIDTH")
        / 8,
        clock=1e3 * attribute("CLOCK_RATE"),
    )


def properties(index: int) -> DeviceInfo:
    """The properties of a device. Where plans are made without that GPU (compile checks), `assume`
    sets them."""
    return _assumed[-1] if _assumed else info(index)


def capability(index: int) -> tuple[int, int]:
    """Compute capability of a device, or of the assumed one."""
    return properties(index).capability


def multiprocessors(index: int) -> int:
    """Number of multiprocessors of a device, or of the assumed one."""
    return properties(index).multiprocessors


def name(index: int) -> str:
    """The driver's name of a device, or "assumed"."""
    return properties(index).name


_assumed: list[DeviceInfo] = []


def is_assumed() -> bool:
    """Whether plans are made for an assumed device."""
    return bool(_assumed)


#: Shared memory that a block may have, in KiB, by compute capability.
SHARED_KIB = dict.fromkeys([(8, 6), (8, 9), (12, 0)], 99)
SHARED_KIB |= {(7, 5): 64, (8, 0): 163, (9, 0): 227, (10, 0): 227}


class assume:
    """Context: make plans as if the devices had these properties (used by compile-only checks and
    the simulator). By default those of an H100: bandwidth in bytes per second, clock in Hz."""

    def __init__(
        self,
        capability: tuple[int, int],
        multiprocessors: int = 132,
        name: str = "assumed",
        *,
        l2_cache: int = 50 << 20,
        memory_bandwidth: float = 3.35e12,
        clock: float = 1.98e9,
    ):
        self.info = DeviceInfo(
            0,
            name,
            capability,
            1 << 37,
            multiprocessors,
            l2_cache,
            SHARED_KIB.get(capability, 48) << 10,
            memory_bandwidth,
            clock,
        )

    def __enter__(self) -> assume:
        _assumed.append(self.info)
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        _assumed.pop()


_finalised: list[Any] = []


def finalised(cls: T) -> T:
    """Class decorator: `__del__`, which releases a resource of the driver, does nothing once the
    interpreter exits.

    At exit Python finalises modules, streams and blocks in no fixed order, and the driver releases
    all resources anyway.
    """
    _finalised.append(cls)
    return cls


@atexit.register
def _no_finalisers() -> None:
    for cls in _finalised:
        del cls.__del__


forked = False  # whether this process is a fork of one that had imported this package


@fork.in_child
def _after_fork() -> None:
    global forked
    forked = True
    local = runtime.local  # the next use goes through validate(), which explains
    local.stream, local.by_device, local.entered = None, None, ()
