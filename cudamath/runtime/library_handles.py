"""Handles of a library, one for each stream: they cost milliseconds to make, and work goes to the
stream of its handle.

Closing one waits for the whole device, which a capture under way on it does not survive, in
whatever mode: so what ends during a capture (the handles of an earlier graph's stream) is closed
after it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from .state import runtime
from .stream import Stream

H = TypeVar("H")

_lock = threading.RLock()  # reentrant: whatever is collected while it is held may end a handle


def capture_begins() -> None:
    """From now on nothing is closed, until `capture_ends`."""
    with _lock:
        runtime.captures += 1


def capture_ends() -> None:
    """Close what waited for the last capture to end."""
    with _lock:
        runtime.captures -= 1
        ready = [] if runtime.captures else runtime.deferred_closes[:]
        del runtime.deferred_closes[: len(ready)]
    for close in ready:
        close()


def after_captures(close: Callable[[], None]) -> None:
    """Call `close` now, or as soon as no capture is under way."""
    with _lock:
        if runtime.captures:
            runtime.deferred_closes.append(close)
            return
    close()


class Handles(dict[int, H], Generic[H]):
    """Handles by id(stream). `make(stream)` makes one, on first use; it is closed (`.close()`) when
    its stream goes."""

    def __init__(self, make: Callable[[Stream], H]):
        super().__init__()
        self.make = make
        self.lock = threading.Lock()

    def of(self, stream: Stream) -> H:
        """The handle of a stream."""
        handle = self.get(id(stream))
        if handle is None:
            with self.lock:
                handle = self.get(id(stream))
                if handle is None:
                    handle = self[id(stream)] = self.make(stream)
                    weakref.finalize(
                        stream, self.forget, id(stream)
                    ).atexit = False  # the driver cleans up at exit
        return handle

    def forget(self, key: int) -> None:
        """Close the handle of a stream that is gone."""
        gone = self.pop(key, None)
        if gone is not None:
            after_captures(gone.close)  # type: ignore[attr-defined]
