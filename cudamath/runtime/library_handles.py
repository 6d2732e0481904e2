"""Library handles, one for each stream: creating a handle takes milliseconds, and its work goes to
its stream.

Closing a handle waits for the whole device, which invalidates a capture in progress, in any mode.
So a handle that ends during a capture (of an earlier graph's stream) is closed after the capture.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from . import fork
from .interrupts import uninterrupted
from .state import runtime
from .stream import Stream

H = TypeVar("H")

# reentrant: whatever is collected while it is held may end a handle
_lock = fork.new_reentrant_lock()


def capture_begins(capture: object) -> None:
    """Defer all closing until `capture_ends`."""
    with _lock:
        runtime.captures.add(capture)


@uninterrupted
def capture_ends(capture: object) -> None:
    """Close the deferred handles if no other capture is in progress."""
    with _lock:
        runtime.captures.discard(capture)
        ready = [] if runtime.captures else runtime.deferred_closes[:]
        del runtime.deferred_closes[: len(ready)]
    for close in ready:
        close()


def after_captures(close: Callable[[], None]) -> None:
    """Call `close` now, or when no capture is in progress."""
    with _lock:
        if runtime.captures:
            runtime.deferred_closes.append(close)
            return
    close()


class Handles(dict[int, H], Generic[H]):
    """Handles by id(stream). `make(stream)` creates one on first use; it is closed (`.close()`)
    when its stream is finalised."""

    def __init__(self, make: Callable[[Stream], H]):
        super().__init__()
        self.make = make
        self.lock = fork.new_lock()

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
        """Close the handle of a finalised stream."""
        gone = self.pop(key, None)
        if gone is not None:
            after_captures(gone.close)  # type: ignore[attr-defined]
