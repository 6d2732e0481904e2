"""The threads on which parts of a compiled function run: GNU's OpenMP where it is there, whose
threads wait for the next function in a loop and begin within microseconds; else Python's. Their
number is OMP_NUM_THREADS, or that of the cores (of a container's share).

A fork takes no threads along, and OpenMP then ends the process that asks for them, or waits for
them for ever: in a forked process one thread computes, if there had been any.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ...runtime import device, fork, host
from ...runtime.interrupts import context_manager

_pool: concurrent.futures.ThreadPoolExecutor | None = None
_lock = fork.new_lock()
_chosen: int | None = None
_used = False  # whether OpenMP has threads, or may have


@functools.cache
def _cores() -> int:
    """OMP_NUM_THREADS, or the cores that this process may keep busy."""
    chosen = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(chosen) if chosen.isdecimal() and int(chosen) > 0 else host.cores()


def count() -> int:
    """How many threads work together."""
    return 1 if _left_behind else _chosen or _cores()


@context_manager
def limited(most: int) -> Iterator[None]:
    """Context: so many threads, in the whole process."""
    global _chosen
    before, _chosen = _chosen, most
    try:
        yield
    finally:
        _chosen = before


@functools.cache
def _team() -> tuple[int, int, int] | None:
    """The addresses of OpenMP's functions: that runs a function on many threads, that returns the
    number of the thread, and that returns how many there are."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL("libgomp.so.1")
        names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
        first, second, third = (
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names
        )
    except (OSError, AttributeError):
        return None
    return first, second, third


def run(native: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Run a parallel function's machine code (llvm_compiled.py) on `count` threads."""
    global _used
    parts = count()
    if parts == 1:
        native(*arguments, 0, 1, 0, 0, 0)
    elif (team := _team()) is not None:
        _used = True
        native(*arguments, parts, 0, *team)
    else:
        _run_in_pool(native, arguments, parts)


def _run_in_pool(native: Callable[..., None], arguments: tuple[Any, ...], parts: int) -> None:
    global _pool
    with _lock:
        if _pool is None:
            _pool = concurrent.futures.ThreadPoolExecutor(_cores(), "cudamath loops")
        pool = _pool
    waiting = [pool.submit(native, *arguments, k, parts, 0, 0, 0) for k in range(1, parts)]
    try:
        native(*arguments, 0, parts, 0, 0, 0)
    finally:
        concurrent.futures.wait(waiting)
    for each in waiting:
        each.result()


def _openmp_of_another() -> bool:
    """Whether another library (PyTorch) has loaded the same OpenMP. Its threads stayed behind, if
    it had any."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any("/libgomp.so" in line for line in maps)
    except OSError:  # not Linux
        return False


#: Whether OpenMP's threads belong to the process that this one was forked from.
_left_behind = device.forked and _openmp_of_another()


@fork.in_child
def _forget() -> None:
    global _pool, _left_behind
    _pool = None
    _left_behind = _left_behind or _used or _openmp_of_another()
