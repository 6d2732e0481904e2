"""A process after a fork: locks without an owner, state without its threads.

Only the thread that forks lives on in the child. A lock that another thread held at that moment
would never be released there, and what such a thread was in the midst of never ends. So all locks
of this package are made here, and the child begins with free ones. A module whose state names
threads registers what it has to forget: `in_child`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[[], None])

#: The locks of this package. tests/runtime/test_fork.py looks for others.
locks: weakref.WeakSet[Any] = weakref.WeakSet()
_functions: list[Callable[[], None]] = []


def new_lock() -> threading.Lock:
    """A lock that is free in a forked process."""
    lock = threading.Lock()
    locks.add(lock)
    return lock


def new_reentrant_lock() -> Any:
    """A lock that its owner may take again; free in a forked process, unless the thread that forks
    owns it."""
    lock = threading.RLock()
    locks.add(lock)
    return lock


def in_child(function: F) -> F:
    """Decorator: the function is called in a forked process, when its locks are free."""
    _functions.append(function)
    return function


def _begin_child() -> None:
    for lock in list(locks):
        if not getattr(lock, "_is_owned", bool)():
            lock._at_fork_reinit()
    for function in _functions:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
