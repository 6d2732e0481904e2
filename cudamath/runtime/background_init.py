"""What goes on while the driver wakes up.

A process's first call on a GPU waits for `cuInit` and for the context of the device: 100 ms each on
an H200's host, in which the driver is busy and Python is not. Nearly every program goes on to
import the same few modules and to load cuBLAS, which takes as long. So a thread does that in the
meantime:

    with meanwhile.busy():
        cuInit(0)

It takes one item after another from `items`, stops behind the one at hand when the driver is done,
and is gone when the block ends: no thread outlives it. What it did not come to, and what failed,
happens where it is needed, as it would without. A driver that answers within a moment (it was set
up already, or there is none) has no thread beside it at work.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

MOMENT = 0.003  # seconds; a driver that was set up already answers sooner

#: What is still to be done, in this order (core/dispatch/op.py says what). None of it may ask for a
#: device: it would wait for whom it is to relieve.
items: collections.deque[Callable[[], Any]] = collections.deque()


def cublas() -> None:
    """An item: load cuBLAS and its bindings."""
    from . import library_paths

    library_paths.alone("nvmath.bindings.cublas")
    library_paths.find("cublas")


def cudnn() -> None:
    """An item: load cuDNN's front end and, where there is one, cuDNN."""
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
    """Context: the driver is at work in this thread; another one does some of the items."""
    done = threading.Event()
    thread = threading.Thread(target=_work, args=(done,), name="cudamath meanwhile")
    try:
        if items:
            thread.start()
    except RuntimeError:  # no thread can be started: the interpreter is on its way out
        pass
    try:
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()
