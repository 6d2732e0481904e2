"""Streams and events where there is no GPU.

The CPU has done its work when a call returns, so a stream there is never behind: waiting for it
returns at once, and an event has been reached when it is recorded. Events are timed with the clock.
`Stream()` and `Event()` make objects of these classes where there is no device.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from . import stream
from .errors import CudaError
from .interrupts import uninterrupted
from .stream import Event, Stream

HOST = -1  # the `device` of these streams and events: that of a layout on the CPU


class _Local(threading.local):
    default: HostStream | None = None
    entered: tuple[HostStream, ...] = ()  # the `with stream:` that this thread is in
    capturing = False  # whether this thread runs what a GPU would capture


_local = _Local()


class HostStream(Stream):
    """A `Stream` of the CPU."""

    __slots__ = ()

    def __init__(self, device: int | None = None, *, priority: int = 0, _handle: Any = None):
        self.device = HOST
        self._owned = True

    @property
    def ptr(self) -> int:
        """Address of the CUstream: 0, there is none."""
        return 0

    def synchronize(self) -> None:
        """Do nothing: all work is done."""
        refuse_capture("synchronize")

    def query(self) -> bool:
        """Return True: all work is done.

        Returns
        -------
        bool
            True.
        """
        return True

    def wait(self, event: Event | Stream) -> None:
        """Do nothing: all work of an event or a stream is done.

        Parameters
        ----------
        event : Event or Stream
            Event or stream.
        """

    def record(self, event: Event | None = None) -> Event:
        """Record an event now.

        Parameters
        ----------
        event : Event, optional
            Event to record. The default is a new one.

        Returns
        -------
        Event
            The event.
        """
        return (Event(timing=False) if event is None else event).record(self)

    def __enter__(self) -> Stream:
        refuse_capture("with stream", "the function switches to another stream")
        _local.entered = (*_local.entered, self)
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        entered = _local.entered
        while entered and entered[-1] is not self:  # where an interrupt prevented an `__exit__`
            entered = entered[:-1]
        _local.entered = entered[:-1]

    def __repr__(self) -> str:
        return "<Stream on cpu>"


class HostEvent(Event):
    """An `Event` of the CPU: the time at which it was recorded."""

    __slots__ = ("timing", "time")

    def __init__(self, *, timing: bool = True, device: int | None = None):
        self.device = HOST
        self.timing = timing
        self.time: float | None = None

    def record(self, stream: Stream | None = None) -> Event:
        """Record the event now.

        Parameters
        ----------
        stream : Stream, optional
            Any stream: all of them are done.

        Returns
        -------
        Event
            This event.
        """
        self.time = time.perf_counter()
        return self

    def synchronize(self) -> None:
        """Do nothing: the event has been reached."""
        refuse_capture("Event.synchronize", "the function waits for the device")

    def query(self) -> bool:
        """Return True: the event has been reached.

        Returns
        -------
        bool
            True.
        """
        return True

    def elapsed(self, end: Event) -> float:
        """Return the milliseconds from this event to `end`, by the clock.

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
        return 1e3 * (_recorded(end) - _recorded(self))


def _recorded(event: Event) -> float:
    """The time at which an event was recorded, in seconds."""
    if not isinstance(event, HostEvent) or not event.timing or event.time is None:
        raise CudaError("elapsed: wants two events that were recorded with timing=True")
    return event.time


def current_stream() -> HostStream:
    """The stream of the CPU that is current in this thread."""
    if _local.entered:
        return _local.entered[-1]
    if _local.default is None:
        _local.default = HostStream()
    return _local.default


class capturing:
    """Context: this thread runs a function that a GPU would capture in a graph."""

    def __enter__(self) -> None:
        _local.capturing = True

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        _local.capturing = False


def refuse_capture(name: str, why: str = stream.WAITS) -> None:
    """RuntimeError, naming `name`, while this thread runs what a GPU would capture."""
    if _local.capturing:
        raise RuntimeError(stream.NO_PART.format(name=name, why=why))


stream.without_gpu.update({Stream: HostStream, Event: HostEvent})
