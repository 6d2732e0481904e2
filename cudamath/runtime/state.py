"""The state of the runtime, in one object.

`runtime` is that object. It is the same one for the whole process, so modules import it by name.
Its fields hold what a module would otherwise keep in a global: the driver, the contexts, the
streams, the pools, the loaded kernels. `runtime.local` holds what belongs to the calling thread.

A cache outside this object whose entries depend on a device is registered here: a function by the
decorator `device_cache`, a dict by `device_table`, the tables of other objects by
`register_tables`. `Runtime.replaced` sets all of them aside.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from .interrupts import context_manager

F = TypeVar("F", bound=Callable[..., Any])


class ThreadState(threading.local):
    """The state of one thread."""

    stream: Any = None  # the current stream of the active device
    by_device: dict[int, Any] | None = None  # the current stream of each device of this thread
    #: for each `with stream:` that this thread is in: the stream, the one that was current before,
    #: and the one that was current on the stream's device
    entered: tuple[tuple[Any, Any, Any], ...] = ()
    device_stack: tuple[tuple[int, Any], ...] = ()  # the `with cm.device(...)` of this thread
    device: int | None = None  # the device that cm.cuda.set_device chose for this thread
    #: (kernel, signature) of what the plan that is being bound launches (core/dispatch/plan.py)
    upcoming: tuple[tuple[Any, list[Any]], ...] = ()
    #: the recorded call of an op whose plan is being made: (name, layouts, parameters, run-time
    #: scalars, which inputs lead to a gradient) (core/dispatch/op.py)
    recorded: tuple[str, tuple, dict, tuple, tuple] | None = None


def _launch_lines() -> bool:
    return os.environ.get("CUDAMATH_LAUNCH_LINES", "0") not in ("", "0")


@dataclasses.dataclass(eq=False, slots=True)
class Runtime:
    """What this process knows of its devices. The comments name the module that fills a field."""

    # the driver (device.py); tests put a fake in its place
    driver: Any = None
    # compiler(kernel, argument layouts and scalars, capability) -> cubin
    # (kernels/compiler/compile.py)
    compiler: Callable[[Any, list[Any], tuple[int, int]], bytes] | None = None
    process: int | None = None  # the process in which the driver was initialised (device.py)
    contexts: dict[int, Any] = dataclasses.field(default_factory=dict)  # device.py

    local: ThreadState = dataclasses.field(default_factory=ThreadState)
    default_device: int | None = None  # core/devices.py

    # streams: of each device the default one; of (device, address, thread) another library's; of
    # the live graphs, by id
    default_streams: dict[int, Any] = dataclasses.field(default_factory=dict)  # stream.py
    external_streams: dict[tuple[int, int, int], Any] = dataclasses.field(default_factory=dict)
    graph_streams: dict[int, Any] = dataclasses.field(default_factory=dict)  # graph.py
    #: graph captures under way (library_handles.py)
    captures: set[Any] = dataclasses.field(default_factory=set)
    deferred_closes: list[Callable[[], None]] = dataclasses.field(default_factory=list)

    # memory (memory.py)
    pools: dict[int, Any] = dataclasses.field(default_factory=dict)
    constants: dict[tuple[int, bytes], int] = dataclasses.field(default_factory=dict)
    #: of each device: the address of the next constant, and the bytes left in its block
    constant_space: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    #: host memory, page-locked or managed, whose owner has died: addresses and kinds
    ended_host_memory: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    uploads: collections.OrderedDict[tuple[int, bytes], Any] = dataclasses.field(
        default_factory=collections.OrderedDict
    )
    peers: dict[tuple[int, int], bool] = dataclasses.field(default_factory=dict)
    #: observe_copy(kind, nbytes, stream, work) runs `work()` and times it, while a profile is taken
    observe_copy: Callable[[str, int, Any, Callable[[], tuple]], tuple] | None = None
    fft_plans: dict[int, Any] = dataclasses.field(default_factory=dict)  # cufft.py
    tensor_maps: dict[int, Any] = dataclasses.field(default_factory=dict)  # tensormap.py
    tensor_map_lookups: dict[Any, Callable] = dataclasses.field(default_factory=dict)

    # kernels: the error flag of each device, as its address and as the host sees it; the calls that
    # graphs repeat (kernel_errors.py)
    error_flags: dict[int, tuple[int, memoryview]] = dataclasses.field(default_factory=dict)
    graph_calls: dict[int, tuple[int, str, Any]] = dataclasses.field(default_factory=dict)
    # by handle (kernel_launch.py)
    functions: dict[int, Any] = dataclasses.field(default_factory=dict)
    # core/dispatch/plan.py
    kernel_functions: dict[tuple, Any] = dataclasses.field(default_factory=dict)
    launcher: dict[str, Any] = dataclasses.field(default_factory=dict)  # kernel_launch.py
    #: The kernels launched last, newest at the right: an asynchronous fault is reported with them.
    #: With `cm.cuda.launch_lines()` each comes with the user's Python line.
    recent_launches: collections.deque[Any] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=16)
    )
    launch_lines: bool = dataclasses.field(default_factory=_launch_lines)
    user_launches: dict[Any, Callable] = dataclasses.field(default_factory=dict)  # cuda/kernels.py

    # profiles: the one under way (profiler.py); the one that began last, and the one that
    # enable_profiling began (cuda/profiling.py)
    profile: Any = None
    last_profile: Any = None
    switched_profile: Any = None

    def _exchange(self, other: Runtime) -> None:
        """Exchange all fields with another state."""
        for field in dataclasses.fields(self):
            mine = getattr(self, field.name)
            setattr(self, field.name, getattr(other, field.name))
            setattr(other, field.name, mine)

    @context_manager
    def replaced(self, driver: Any, compiler: Any = None) -> Iterator[None]:
        """Context: a fresh state, of another driver, in place of this one; the registered caches
        are empty inside. What was there comes back, but for the results of cached functions."""
        saved = Runtime(driver, compiler)
        tables = [(table, dict(table)) for table in _all_tables()]
        clear_device_caches()
        self._exchange(saved)
        try:
            yield
        finally:
            gc.collect()  # finalisers call the driver: while it is the one they belong to
            clear_device_caches()
            self._exchange(Runtime(driver, compiler))
            gc.collect()
            self._exchange(saved)
            for table, entries in tables:
                table.update(entries)


runtime = Runtime()

_functions: list[Any] = []
_suppliers: list[Callable[[], Iterable[dict]]] = []


def device_cache(function: F) -> F:
    """Decorator: functools.cache for a function whose results depend on the devices."""
    return bounded_device_cache(None)(function)


def bounded_device_cache(most: int | None) -> Callable[[F], F]:
    """Decorator: functools.lru_cache of so many results that depend on the devices."""

    def decorate(function: F) -> F:
        cached = functools.lru_cache(most)(function)
        _functions.append(cached)
        return cached  # type: ignore[return-value]

    return decorate


def register_tables(tables: Callable[[], Iterable[dict]]) -> None:
    """Register the dicts that `tables()` lists, whose entries depend on the devices. Each stays the
    same object when it is emptied, because generated code may hold it."""
    _suppliers.append(tables)


def device_table() -> dict[Any, Any]:
    """A new dict, registered by `register_tables`."""
    table: dict[Any, Any] = {}
    register_tables(lambda: (table,))
    return table


def _all_tables() -> Iterator[dict]:
    for supplier in _suppliers:
        yield from supplier()


def clear_device_caches() -> None:
    """Empty every registered cache and table."""
    for function in _functions:
        function.cache_clear()
    for table in _all_tables():
        table.clear()
