"""Handles of a library, one for each stream: they cost milliseconds to make, and work goes to the stream of its handle."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from .stream import Stream

H = TypeVar("H")


class Handles(dict[int, H], Generic[H]):
    """Handles by id(stream). `make(stream)` makes one, on first use; it is closed (`.close()`) when its stream goes."""

    def __init__(self, make: Callable[[Stream], H]):
        super().__init__()
        self.make = make
        self.lock = threading.Lock()

    def of(self, stream: Stream) -> H:
        """The handle of a stream."""
        found = self.get(id(stream))
        if found is None:
            with self.lock:
                found = self.get(id(stream))
                if found is None:
                    found = self[id(stream)] = self.make(stream)
                    weakref.finalize(stream, self.forget, id(stream)).atexit = False  # the driver cleans up at exit
        return found

    def forget(self, key: int) -> None:
        """Close the handle of a stream that is gone."""
        gone = self.pop(key, None)
        if gone is not None:
            gone.close()  # type: ignore[attr-defined]
