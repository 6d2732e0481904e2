"""Streams, events, and the current stream of each thread.

`runtime.local.stream` is the current stream of the calling thread. It determines the active device,
whose context is current in this thread. The launch path reads this one attribute.

A stream carries the free lists of the memory blocks that were last used on it. The policy of these
lists is in memory.py, an upper layer, which sets `pool_of` here. The error flags are in an upper
layer too: kernel_errors.py sets `after_synchronize` here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from . import device as devices
from . import errors
from .dry import DryStream
from .errors import check
from .interrupts import call_at_once, uninterrupted
from .state import runtime


def _no_pools(index: int) -> Any:
    raise AssertionError("memory.py has not been imported")


def _no_errors(index: int) -> None:
    """Where kernel_errors.py has not been imported, no kernel has an error flag to write into."""


#: pool_of(index): the memory pool of a device. memory.py puts its function here.
pool_of: Callable[[int], Any] = _no_pools

#: after_synchronize(index) is called when a device or one of its streams has been waited for, and
#: raises what its kernels have flagged. kernel_errors.py puts its function here.
after_synchronize: Callable[[int], None] = _no_errors

#: What `Stream()` and `Event()` make where there is no GPU. host_stream.py puts its classes here.
without_gpu: dict[type, type] = {}

WAITS = (
    "the function waits for the device or reads a result on the host (float(x), x.to_numpy(), "
    "printing, a boolean index)"
)
NO_PART = "{name}: cannot be part of a CUDA graph: {why}"


def _made(cls: type, device: int | None) -> Any:
    """A new stream or event: of a class of `without_gpu` where no device is there or named."""
    absent = device is None and cls in without_gpu and devices.device_count() == 0
    return object.__new__(without_gpu[cls] if absent else cls)


class relaxed:
    """Context: this thread may call what a capture under way would forbid (memory of its own, other
    streams, what ends)."""

    __slots__ = ("exchange", "mode")

    def __enter__(self) -> None:
        cu = devices.driver()
        mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before: list[tuple] = []
        try:
            self.exchange = cu.cuThreadExchangeStreamCaptureMode
            call_at_once(before, self.exchange, mode)
            self.mode = check(before[0])
        except BaseException:  # an interrupt (Ctrl-C) too
            if before and not before[0][0]:
                cu.cuThreadExchangeStreamCaptureMode(before[0][1])
            raise

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        check(self.exchange(self.mode))


@devices.finalised
class Stream:
    """An in-order queue of work on one device.

    `with stream:` makes it current in this thread.

    Work on different streams may overlap and is not ordered: `wait` orders it. Memory needs no
    care: an array that a second stream uses is kept until that stream has passed.

    Parameters
    ----------
    device : int, optional
        Ordinal of the device; the active one by default.
    priority : int, default 0
        Lower numbers are served first (the driver clamps to its range).

    Raises
    ------
    DeviceError
        There is no such device.
    """

    # pool, free, borrowed, lender: see memory.py. graph_only: the memory belongs to a graph, which
    # finds it at each replay; kept: the memory of others that the graph uses; feeds: functions of
    # the stream that are called before each replay. Of another library's stream, within: in how
    # many `with` blocks it is current; settled: what the default stream waited for when the last of
    # them ended.
    __slots__ = (
        "handle",
        "device",
        "free",
        "pool",
        "capturing",
        "graph_only",
        "kept",
        "feeds",
        "borrowed",
        "lender",
        "within",
        "settled",
        "_owned",
        "__weakref__",
    )

    free: dict[int, list[int]]
    borrowed: dict[int, list[int]]
    lender: Stream | None

    def __new__(
        cls, device: int | None = None, *, priority: int = 0, _handle: Any = None
    ) -> Stream:
        return _made(cls, device)

    def __init__(self, device: int | None = None, *, priority: int = 0, _handle: Any = None):
        self.device = current_device() if device is None else devices.validate(device, "Stream")
        self.pool = pool_of(self.device)
        self.capturing = self.graph_only = False
        self.kept: dict[int, Any] = {}  # by id
        self.feeds: dict[int, Any] = {}  # by the id of what is fed
        self.within = 0
        self.settled: Event | None = None
        self._owned = _handle is None
        self.pool.attach(self)
        if _handle is None:
            cu = devices.driver()
            with in_context(self.device):
                _handle = check(
                    cu.cuStreamCreateWithPriority(
                        cu.CUstream_flags.CU_STREAM_NON_BLOCKING, priority
                    )
                )
        self.handle = _handle

    @property
    def ptr(self) -> int:
        """Address of the CUstream, for other libraries."""
        return int(self.handle)

    def synchronize(self) -> None:
        """Wait until all work queued so far is done, and raise its errors."""
        self.refuse_capture("synchronize")
        with in_context(self.device):  # the default stream's handle is the same on every device
            check(devices.driver().cuStreamSynchronize(self.handle))
        after_synchronize(self.device)

    def query(self) -> bool:
        """Return whether all work queued so far is done.

        Returns
        -------
        bool
            True if it is done.
        """
        cu = devices.driver()
        with in_context(self.device):
            (status,) = cu.cuStreamQuery(self.handle)
        if status == cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check((status,))
        return True

    def wait(self, event: Event | Stream) -> None:
        """Make later work on this stream wait for an event or another stream.

        For a stream, it waits for all work queued so far on it.

        Parameters
        ----------
        event : Event or Stream
            Event or stream.
        """
        if isinstance(event, Stream):
            event = event.record()
        with in_context(self.device):
            check(devices.driver().cuStreamWaitEvent(self.handle, event.handle, 0))

    def record(self, event: Event | None = None) -> Event:
        """Record an event after the work queued so far.

        Parameters
        ----------
        event : Event, optional
            Event to record. The default is a new one.

        Returns
        -------
        Event
            The event.
        """
        event = Event(device=self.device, timing=False) if event is None else event
        with in_context(self.device):
            check(devices.driver().cuEventRecord(event.handle, self.handle))
        return event

    def refuse_capture(self, name: str, why: str = WAITS) -> None:
        """Raise RuntimeError while a graph is captured from this stream.

        Parameters
        ----------
        name : str
            Name of the function in the message.
        why : str, optional
            Reason in the message.
        """
        if self.capturing:
            raise RuntimeError(NO_PART.format(name=name, why=why))

    def __enter__(self) -> Stream:
        refuse_capture("with stream", "the function switches to another stream")
        now = current_stream()
        local, displaced = runtime.local, stream_of(self.device)
        try:
            devices.activate(self.device)
            if self.external:
                with devices.lock:
                    self.within += 1
                if (
                    self.settled is not None and not self._recorded()
                ):  # a new stream may have the address of one that is gone
                    self.wait(self.settled)
            entered, streams = (*local.entered, (self, now, displaced)), local.by_device
            assert streams is not None
        except BaseException:  # an interrupt (Ctrl-C) too
            devices.activate(now.device)
            raise
        # Assignments alone from here on: no interrupt comes between them, nor before the block.
        local.entered, streams[self.device], local.stream = entered, self, self
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        local = runtime.local
        entered = local.entered
        while entered and entered[-1][0] is not self:  # where an interrupt prevented an `__exit__`
            entered = entered[:-1]
        if not entered:
            return
        _, before, displaced = entered[-1]
        streams = local.by_device
        streams[self.device], streams[before.device] = displaced, before  # type: ignore[index]
        local.entered, local.stream = entered[:-1], before
        devices.activate(before.device)
        if self.external:
            with devices.lock:  # nobody else is about to use it
                self.settled = self.settle()
                self.within -= 1

    @property
    def open(self) -> bool:
        """Whether the stream has not ended."""
        return hasattr(self, "handle")

    @property
    def external(self) -> bool:
        """Whether another library owns this stream.

        It may end at any time, so it is never used after its `with`.
        """
        return not self._owned and self.open and self.ptr not in (0, 1)

    def standing(self) -> Stream:
        """Return the stream after which later work is ordered.

        It is this stream, or the default stream if another library owns this one and no `with` uses
        it: it may have ended then, and the default stream has waited for it.

        Returns
        -------
        Stream
            The stream.
        """
        return default_stream(self.device) if self.external and not self.within else self

    def settle(self) -> Event | None:
        """Order the default stream after the work done here.

        From then on the memory used here can be reused.

        Returns
        -------
        Event or None
            The event that was recorded, if one was needed.
        """
        if self._recorded():
            return None
        done = self.record()
        default_stream(self.device).wait(done)
        return done

    def _recorded(self) -> bool:
        """Whether somebody, not necessarily this package, is capturing this stream."""
        return int(check(devices.driver().cuStreamIsCapturing(self.handle))) != 0

    @uninterrupted
    def __del__(self) -> None:
        # A stream that ends gives its cached blocks back in stream order, then the driver retires
        # it.
        try:
            if not getattr(self, "_owned", False) or not self.open:
                return
            with relaxed():
                self.pool.release_stream(self)
                devices.driver().cuStreamDestroy(self.handle)
        except Exception:  # the interpreter may be shutting down: nothing is left to release to
            pass
        finally:
            self._end()

    def _end(self) -> None:
        """Without a handle, whoever still has this object cannot reach the driver with it. Blocks
        that come back later find no list (Buffer.__del__)."""
        if not getattr(self, "_owned", False) or not self.open:
            return
        del self.handle
        lists = [*self.free.items(), *self.borrowed.items()]
        self.free, self.borrowed = {}, {}
        for size, blocks in lists:
            self.pool.strays += [(address, size) for address in blocks]

    def __repr__(self) -> str:
        return f"<Stream {self.ptr:#x} on cuda:{self.device}>"


@devices.finalised
class Event:
    """A mark in a stream, for waiting and for timing.

    `start.elapsed(end)` gives the milliseconds between two events.

    Parameters
    ----------
    timing : bool, default True
        False: for ordering only, which is cheaper.
    device : int, optional
        Ordinal of the device; the active one by default.

    Raises
    ------
    DeviceError
        There is no such device.
    """

    __slots__ = ("handle", "device")

    def __new__(cls, *, timing: bool = True, device: int | None = None) -> Event:
        return _made(cls, device)

    def __init__(self, *, timing: bool = True, device: int | None = None):
        self.device = current_device() if device is None else devices.validate(device, "Event")
        cu = devices.driver()
        with in_context(self.device):
            kinds = cu.CUevent_flags
            flags = kinds.CU_EVENT_DEFAULT if timing else kinds.CU_EVENT_DISABLE_TIMING
            self.handle = check(cu.cuEventCreate(flags))

    def record(self, stream: Stream | None = None) -> Event:
        """Record the event after the work queued so far on a stream.

        Parameters
        ----------
        stream : Stream, optional
            Stream after whose queued work the event is recorded. The default is the current one.

        Returns
        -------
        Event
            This event.
        """
        return (stream or current_stream()).record(self)

    def synchronize(self) -> None:
        """Wait until the event has been reached."""
        refuse_capture("Event.synchronize", "the function waits for the device")
        check(devices.driver().cuEventSynchronize(self.handle))

    def query(self) -> bool:
        """Return whether the event has been reached.

        Returns
        -------
        bool
            True if it has been reached.
        """
        cu = devices.driver()
        (status,) = cu.cuEventQuery(self.handle)
        if status == cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check((status,))
        return True

    def elapsed(self, end: Event) -> float:
        """Return the milliseconds of device time from this event to `end`.

        The call waits for `end`. Both events must be recorded with timing.

        Parameters
        ----------
        end : Event
            Later event.

        Returns
        -------
        float
            Milliseconds.
        """
        end.synchronize()
        return float(check(devices.driver().cuEventElapsedTime(self.handle, end.handle)))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            try:
                devices.driver().cuEventDestroy(self.handle)
            except Exception:  # interpreter shutdown
                pass


def elapsed(start: Event, end: Event) -> float:
    """Return the milliseconds of device time from `start` to `end` (see Event.elapsed).

    Parameters
    ----------
    start : Event
        Earlier event.
    end : Event
        Later event.

    Returns
    -------
    float
        Milliseconds.
    """
    for event in (start, end):
        if not isinstance(event, Event):
            raise TypeError(f"elapsed: wants two events, got {type(event).__name__} {event!r:.60}")
    return start.elapsed(end)


def default_stream(index: int) -> Stream:
    """The default stream of a device: CUDA's legacy stream, which torch, CuPy and Numba use too."""
    stream = runtime.default_streams.get(index)
    if stream is None:
        with devices.lock:
            stream = runtime.default_streams.get(index)
            if stream is None:
                stream = Stream(index, _handle=devices.driver().CUstream(0))
                runtime.default_streams[index] = stream
    return stream


def stream_of(index: int) -> Stream:
    """This thread's current stream on a device, without switching to that device."""
    streams = runtime.local.by_device
    if streams is None:
        streams = runtime.local.by_device = {}
    if index not in streams:
        streams[index] = default_stream(devices.validate(index))
    return streams[index]


def current_stream(index: int | None = None) -> Stream:
    """The stream new work goes to: of this thread's active device, or of the device named."""
    if index is not None:
        return stream_of(index)
    stream = runtime.local.stream
    if stream is None:
        stream = stream_of(0)
        make_current(stream)
    return stream.standing if stream.__class__ is DryStream else stream


def make_current(stream: Stream) -> None:
    """Make a stream, and so its device, current in this thread."""
    devices.activate(stream.device)
    stream_of(stream.device)
    local = runtime.local
    assert local.by_device is not None
    local.by_device[stream.device] = local.stream = stream


def refuse_capture(name: str, why: str = "its result would be the same at every replay") -> None:
    """RuntimeError, naming `name`, while this thread captures a graph. One call guards what a graph
    cannot hold."""
    stream = runtime.local.stream
    if stream is not None:
        stream.refuse_capture(name, why)


def current_device() -> int:
    """Ordinal of this thread's active device: the one set, else the first one the thread used, else
    0."""
    return current_stream().device


def set_device(index: int) -> None:
    """Make a device active in this thread."""
    index = devices.validate(index, "set_device")
    refuse_capture("set_device", "the function switches to another device")
    make_current(stream_of(index))


class on_device:
    """Context: another device is active inside, with its current stream; the previous one again
    afterwards.

    In a thread that had no active device yet this one stays active, unless `restore`: the first
    device that a thread computes on is its own, and later calls need not switch.
    """

    __slots__ = ("index", "previous", "restore")

    def __init__(self, index: int, restore: bool = False):
        self.index = index
        self.restore = restore

    def __enter__(self) -> on_device:
        self.previous = previous = runtime.local.stream
        if previous.__class__ is DryStream:
            if previous.standing.device != self.index:
                previous.refuse(f"it uses cuda:{self.index} too")
        elif previous is None or previous.device != self.index:
            refuse_capture(
                "graph", f"it is captured on one device and the function uses cuda:{self.index} too"
            )
            try:
                devices.activate(self.index)
                stream = stream_of(self.index)
            except BaseException:  # an interrupt (Ctrl-C) too
                if previous is not None:
                    devices.activate(previous.device)
                raise
            runtime.local.stream = stream
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        previous, local = self.previous, runtime.local
        if previous is None:
            if self.restore:
                local.stream = None
        elif local.stream is not previous:
            local.stream = previous
            local.by_device[previous.device] = previous  # type: ignore[index]
            devices.activate(previous.device)


def take_back(index: int) -> bool:
    """Make a device's context current in this thread if it is not, because another library
    (torch.cuda.set_device) has made another one so behind our back; whether it was."""
    cu = devices.driver()
    mine = int(check(cu.cuCtxGetCurrent())) == int(devices.context(index))
    if not mine:
        devices.activate(index)
    return not mine


def _current_again() -> str:
    """`errors.on_lost_context`: what an error message says where `take_back` was needed."""
    if runtime.local.stream is None or not take_back((stream := current_stream()).device):
        return ""
    return (
        " (another library had made another device current in this thread; "
        f"cuda:{stream.device} is current again: repeat the call)"
    )


errors.on_lost_context = _current_again


class in_context:
    """Context: the driver's calls inside go to a device; this thread's active device and stream
    stay what they are."""

    __slots__ = ("index", "leave")

    def __init__(self, index: int):
        self.index = index
        self.leave: Any = None  # what `__exit__` calls, if anything

    def __enter__(self) -> in_context:
        stream = runtime.local.stream
        if stream is None or stream.device != self.index:
            cu, context = devices.driver(), devices.context(self.index)
            pushed: list[tuple] = []
            try:
                call_at_once(pushed, cu.cuCtxPushCurrent, context)
                check(pushed[0])
                self.leave = cu.cuCtxPopCurrent
            except BaseException:  # an interrupt (Ctrl-C) too
                if pushed and not pushed[0][0]:
                    cu.cuCtxPopCurrent()
                raise
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        leave = self.leave
        if leave is not None:
            leave()


def external_stream(ptr: int, device: int | None = None) -> Stream:
    """Use another library's CUstream (its address) as a Stream; it stays that library's, and must
    outlive its use here.

    The same address gives the same Stream; address 2 is each thread's own default stream.
    """
    index = current_device() if device is None else devices.validate(device, "external_stream")
    if not isinstance(ptr, int):
        raise TypeError(
            f"external_stream: wants the address of a CUstream (an int), got {type(ptr).__name__}"
        )
    if ptr in (0, 1):  # both are names of the legacy default stream
        return default_stream(index)
    key = (index, ptr, threading.get_ident() if ptr == 2 else 0)
    with devices.lock:
        stream = runtime.external_streams.get(key)
        if stream is None:
            stream = Stream(index, _handle=devices.driver().CUstream(ptr))
            runtime.external_streams[key] = stream
        return stream


def synchronize(index: int | None = None) -> None:
    """Wait for all work on a device (the active one by default); raise what that work raised."""
    index = current_device() if index is None else devices.validate(index, "synchronize")
    stream = runtime.local.stream
    if stream is not None:
        stream.refuse_capture("synchronize")
    with in_context(index):
        check(devices.driver().cuCtxSynchronize())
    after_synchronize(index)
