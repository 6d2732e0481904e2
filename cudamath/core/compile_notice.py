"""After a second of waiting for a compiler, a line on stderr says what is being compiled and where
it is kept. CUDAMATH_COMPILE_NOTICE=0 switches these lines off.

The waiting of a process adds up: many short compilations are as long to wait for as one long one.
The next lines follow after two seconds in all, after four, and so on.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from ..runtime import fork
from ..runtime.interrupts import context_manager

_lock = fork.new_lock()
_waited = 0.0  # seconds of this process so far
_next = 1.0  # seconds in all, after which the next line is due
_here = threading.local()  # .inside: whether this thread waits already


@context_manager
def waiting(what: str, kept: object) -> Iterator[None]:
    """Context: the caller waits for a compiler. what: is compiled; kept: where the result goes."""
    global _waited
    if getattr(_here, "inside", False) or os.environ.get("CUDAMATH_COMPILE_NOTICE") == "0":
        yield
        return
    start = time.monotonic()
    timer = threading.Timer(max(_next - _waited, 0), _say, (what, kept))
    timer.daemon = True
    timer.start()
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = False
        timer.cancel()
        with _lock:
            _waited += time.monotonic() - start


def _say(what: str, kept: object) -> None:
    global _next
    with _lock:
        _next *= 2
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none at all
        print(
            f"cudamath: compiling {what}; this happens once, the result is kept in {kept} "
            "(CUDAMATH_COMPILE_NOTICE=0 hides this line)",
            file=sys.stderr,
            flush=True,
        )
