"""Background initialisation: imports and library loading while the driver initialises.

The first call of a process on a GPU waits for `cuInit` and for the context of the device: 100 ms
each on an H200's host, during which Python is idle. Nearly every program then imports the same few
modules and loads cuBLAS, which takes as long. So a thread does that at the same time:

    with background_init.busy():
        cuInit(0)

The thread takes one item after another from `items` and stops after the current one when the driver
is done. It ends with the block. Items that it did not reach, or that failed, are initialised where
they are needed. A driver that returns within a moment (because it was initialised already, or there
is none) starts no thread.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

MOMENT = 0.003  # seconds; an initialised driver returns sooner

#: Functions to call, in this order (set in core/dispatch/op.py). None may use a device: it would
#: wait for the thread that initialises the driver.
items: collections.deque[Callable[[], Any]] = collections.deque()


def cublas() -> None:
    """Load cuBLAS and its bindings: an item."""
    from . import library_paths

    library_paths.alone("nvmath.bindings.cublas")
    library_paths.find("cublas")


def cudnn() -> None:
    """Load cuDNN's front end and, if installed, cuDNN: an item."""
    from . import library_paths

    library_paths.alone("cudnn._compiled_module")
    library_paths.find("cudnn")


def _work(done: threading.Event) -> None:
    if done.wait(MOMENT):
        return
    while items and not done.is_set():
        with contextlib.suppress(Exception):
            items.popleft()()


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """A context for driver calls that block this thread: another thread runs items meanwhile."""
    done = threading.Event()
    thread = threading.Thread(target=_work, args=(done,), name="cudamath meanwhile")
    try:
        if items:
            thread.start()
    except RuntimeError:  # no thread can be started: the interpreter is shutting down
        pass
    try:
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()
