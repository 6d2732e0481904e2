"""Streams, events and each thread's current stream.

`local.stream` is the current stream of the calling thread; it also says which device is active (its context
is current in this thread). The launch path reads that one attribute. A stream owns free lists of the memory
blocks last used on it: reusing a block on the same stream needs no synchronisation, because the stream
executes in order.
"""

from __future__ import annotations

import threading
from typing import Any

from . import device as devices
from .errors import check


class _Local(threading.local):
    stream: Stream | None = None  # current stream of the active device
    by_device: dict[int, Stream] | None = None  # current stream of each device this thread has used


local = _Local()
_defaults: dict[int, Stream] = {}
_lock = threading.RLock()


class Stream:
    """An in-order queue of work on one device. `with stream:` makes it current in this thread.

    Parameters
    ----------
    device : int, optional
        Ordinal of the device; the active one by default.
    priority : int
        Lower numbers are served first (the driver clamps to its range).
    """

    __slots__ = ("handle", "device", "free", "pool", "capturing", "_owned", "_previous", "__weakref__")

    def __init__(self, device: int | None = None, *, priority: int = 0, _handle: Any = None):
        from .memory import pool_of

        cu = devices.driver() if device is None or devices.device_count() else None
        index = current_device() if device is None else devices.validate(device, "Stream")
        self.device = index
        self.pool = pool_of(index)
        self.free: dict[int, list[int]] = {}
        self.capturing = False
        self._previous: list[Stream] = []
        self._owned = _handle is None
        if _handle is None:
            assert cu is not None
            with on_device(index):
                flags = cu.CUstream_flags.CU_STREAM_NON_BLOCKING
                _handle = check(cu.cuStreamCreateWithPriority(flags, priority))
        self.handle = _handle
        self.pool.streams.add(self)

    @property
    def ptr(self) -> int:
        """Address of the CUstream, as other libraries want it."""
        return int(self.handle)

    def synchronize(self) -> None:
        """Wait until all work queued so far is done; raise what it raised."""
        from . import flags

        check(devices.driver().cuStreamSynchronize(self.handle))
        flags.raise_pending(self.device)

    def query(self) -> bool:
        """True when all work queued so far is done."""
        cu = devices.driver()
        (status,) = cu.cuStreamQuery(self.handle)
        if status == cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check((status,))
        return True

    def wait(self, event: Event | Stream) -> None:
        """Make later work on this stream wait for an event, or for all work queued on another stream so far."""
        if isinstance(event, Stream):
            event = event.record()
        check(devices.driver().cuStreamWaitEvent(self.handle, event.handle, 0))

    def record(self, event: Event | None = None) -> Event:
        """Record an event after the work queued so far."""
        event = Event(device=self.device, timing=False) if event is None else event
        with on_device(self.device):
            check(devices.driver().cuEventRecord(event.handle, self.handle))
        return event

    def __enter__(self) -> Stream:
        self._previous.append(current_stream())
        make_current(self)
        return self

    def __exit__(self, *exc: object) -> None:
        make_current(self._previous.pop())

    def __del__(self) -> None:
        # A stream that ends gives its cached blocks back in stream order, then the driver retires it.
        if getattr(self, "_owned", False) and hasattr(self, "handle"):
            try:
                self.pool.release_stream(self)
                devices.driver().cuStreamDestroy(self.handle)
            except Exception:  # the interpreter may be shutting down: nothing is left to release to
                pass

    def __repr__(self) -> str:
        return f"<Stream {self.ptr:#x} on cuda:{self.device}>"


class Event:
    """A mark in a stream; `elapsed(start, end)` gives the milliseconds between two of them."""

    __slots__ = ("handle", "device")

    def __init__(self, *, timing: bool = True, device: int | None = None):
        cu = devices.driver()
        self.device = current_device() if device is None else device
        with on_device(self.device):
            kinds = cu.CUevent_flags
            flags = kinds.CU_EVENT_DEFAULT if timing else kinds.CU_EVENT_DISABLE_TIMING
            self.handle = check(cu.cuEventCreate(flags))

    def record(self, stream: Stream | None = None) -> Event:
        """Record after the work queued so far on `stream` (the current one by default)."""
        return (stream or current_stream()).record(self)

    def synchronize(self) -> None:
        """Wait until the event has been reached."""
        check(devices.driver().cuEventSynchronize(self.handle))

    def query(self) -> bool:
        """True when the event has been reached."""
        cu = devices.driver()
        (status,) = cu.cuEventQuery(self.handle)
        if status == cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check((status,))
        return True

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            try:
                devices.driver().cuEventDestroy(self.handle)
            except Exception:  # interpreter shutdown
                pass


def elapsed(start: Event, end: Event) -> float:
    """Milliseconds of device time from `start` to `end`; both must have been recorded with timing."""
    end.synchronize()
    return float(check(devices.driver().cuEventElapsedTime(start.handle, end.handle)))


def default_stream(index: int) -> Stream:
    """The default stream of a device: CUDA's legacy stream, which torch, CuPy and Numba use too."""
    found = _defaults.get(index)
    if found is None:
        with _lock:
            if index not in _defaults:
                _defaults[index] = Stream(index, _handle=devices.driver().CUstream(0))
            found = _defaults[index]
    return found


def stream_of(index: int) -> Stream:
    """This thread's current stream on a device, without switching to that device."""
    streams = local.by_device
    if streams is None:
        streams = local.by_device = {}
    if index not in streams:
        streams[index] = default_stream(devices.validate(index))
    return streams[index]


def current_stream(index: int | None = None) -> Stream:
    """The stream new work goes to: of this thread's active device, or of the device named."""
    if index is not None:
        return stream_of(index)
    if local.stream is None:
        make_current(stream_of(0))
    assert local.stream is not None
    return local.stream


def make_current(stream: Stream) -> None:
    """Make a stream, and so its device, current in this thread."""
    devices.activate(stream.device)
    stream_of(stream.device)
    assert local.by_device is not None
    local.by_device[stream.device] = stream
    local.stream = stream


def current_device() -> int:
    """Ordinal of this thread's active device."""
    return current_stream().device


def set_device(index: int) -> None:
    """Make a device active in this thread."""
    make_current(stream_of(devices.validate(index, "set_device")))


class on_device:
    """Context: another device is active inside, the previous one again afterwards."""

    __slots__ = ("index", "previous")

    def __init__(self, index: int):
        self.index = index

    def __enter__(self) -> on_device:
        self.previous = local.stream
        if self.previous is None or self.previous.device != self.index:
            if self.previous is None and self.index not in _defaults:
                devices.activate(self.index)  # the default stream itself is being made
                return self
            make_current(stream_of(self.index))
        return self

    def __exit__(self, *exc: object) -> None:
        if self.previous is not None and local.stream is not self.previous:
            devices.activate(self.previous.device)
            local.stream = self.previous


def external_stream(ptr: int, device: int | None = None) -> Stream:
    """Use another library's CUstream (its address) as a Stream; it stays that library's."""
    index = current_device() if device is None else devices.validate(device, "external_stream")
    return Stream(index, _handle=devices.driver().CUstream(int(ptr)))


def synchronize(index: int | None = None) -> None:
    """Wait for all work on a device (the active one by default); raise what that work raised."""
    from . import flags

    index = current_device() if index is None else devices.validate(index, "synchronize")
    with on_device(index):
        check(devices.driver().cuCtxSynchronize())
    flags.raise_pending(index)
