"""Profiling: what ran on the GPU and for how long; kernel cache; warming up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..runtime import module
from ..runtime import profile as profiler
from ..runtime.profile import Profile
from .devices import index_of

__all__ = [
    "annotate",
    "cache_info",
    "clear_kernel_cache",
    "enable_profiling",
    "export_report",
    "launch_lines",
    "performance_stats",
    "profile",
    "set_matmul_precision",
    "warm_up",
]

_last: Profile | None = None  # of enable_profiling or profile(), whichever began last
_switched: Profile | None = None  # the one that enable_profiling began


@contextmanager
def profile(*, nvtx: bool = True) -> Iterator[Profile]:
    """Context: device times of every kernel, library call and copy inside. `print(p)` shows them as
    a table.

    Parameters
    ----------
    nvtx : bool
        Also mark the launches as NVTX ranges for Nsight Systems, where the package nvtx is
        installed.

    Returns
    -------
    Profile
        `p.stats()`: rows with name, kind, device, count, total_us, mean_us, min_us, max_us, nbytes,
        gb_per_s, operations and tflop_per_s (of products, convolutions, attention and Fourier
        transforms, their gradients too), of_bandwidth and of_arithmetic (shares of the device's
        nominal bandwidth and of its rate in that dtype), of_peak (the larger of these: how near the
        roofline) and hint (what limits it, as far as these show); None where something is not
        known. `p.export(path)`: the same as JSON with a trace for chrome://tracing. Measuring costs
        about 2 us of host time a launch; the device times are those of the kernels alone. What a
        CUDA graph replays is one row.

    Raises
    ------
    DeviceError
        There is no GPU.
    RuntimeError
        Another profile is being taken.

    >>> import cudamath as cm
    >>> if cm.cuda.is_available():
    ...     a = cm.ones((1024, 1024))
    ...     with cm.cuda.profile() as p:
    ...         y = a @ a + 1
    ...     print(p)
    ...     rates = {row["name"]: row["tflop_per_s"] for row in p.stats()}
    """
    global _last
    index_of(None, "profile")
    taken = Profile(nvtx)
    taken.start()
    _last = taken
    try:
        yield taken
    finally:
        taken.stop()


def enable_profiling(enabled: bool = True, *, nvtx: bool = True) -> None:
    """Switch profiling on or off for the whole process; `performance_stats` and `export_report`
    give the results.

    Raises
    ------
    DeviceError
        There is no GPU.
    RuntimeError
        It is switched on while a `profile()` context is open.

    >>> import cudamath as cm
    >>> if cm.cuda.is_available():
    ...     cm.cuda.enable_profiling()
    ...     y = cm.ones(1000) + 1
    ...     cm.cuda.enable_profiling(False)
    """
    global _last, _switched
    index_of(None, "enable_profiling")
    if enabled and (_switched is None or profiler.active is not _switched):
        taken = Profile(nvtx)
        taken.start()
        _last = _switched = taken
    elif not enabled and _switched is not None:
        _switched.stop()
        _switched = None


def performance_stats() -> list[dict[str, Any]]:
    """Rows of the profile that began last (see `profile`); empty if there was none.

    >>> import cudamath as cm
    >>> isinstance(cm.cuda.performance_stats(), list)
    True
    """
    return [] if _last is None else _last.stats()


def export_report(path: str | os.PathLike) -> None:
    """Write the profile that began last as JSON, which chrome://tracing and Perfetto open as a
    trace.

    Raises
    ------
    RuntimeError
        There was no profile.

    >>> import cudamath as cm
    >>> if cm.cuda.performance_stats():
    ...     cm.cuda.export_report("profile.json")
    """
    if _last is None:
        raise RuntimeError(
            "export_report: nothing was profiled; use profile() or enable_profiling() first"
        )
    _last.export(path)


@contextmanager
def annotate(name: str) -> Iterator[None]:
    """Context: a named range, shown in the trace of the profile being taken and in Nsight Systems
    (NVTX).

    The range is of host time, from entering to leaving. Does nothing where nothing is being
    profiled.

    >>> import cudamath as cm
    >>> with cm.cuda.annotate("forward"):
    ...     y = cm.ones(3) + 1
    """
    taken = profiler.active
    if taken is None:
        yield
        return
    with taken.annotate(name):
        yield


@contextmanager
def launch_lines() -> Iterator[None]:
    """Context: remember the Python line of each launch, so that an asynchronous fault is reported
    with the lines.

    A kernel that reads a bad address fails later, at some other call. The error then names the
    kernels launched last; inside this context (or with CUDAMATH_LAUNCH_LINES=1 in the environment)
    each with the line that launched it. It costs about 0.5 us per launch.

    >>> import cudamath as cm
    >>> with cm.cuda.launch_lines():
    ...     y = cm.ones(3) + 1
    """
    before = module.launch_lines(True)
    try:
        yield
    finally:
        module.launch_lines(before)


# -------------------- compiled kernels


def cache_info() -> dict[str, Any]:
    """The on-disk cache of compiled kernels, and what this process took from it.

    Returns
    -------
    dict
        directory (CUDAMATH_CACHE_DIR, or the user's cache folder); kernels, nbytes: files there;
        compiled, loaded_from_disk: by this process; on_devices: kernels loaded on a GPU by this
        process.

    >>> import cudamath as cm
    >>> sorted(cm.cuda.cache_info())
    ['compiled', 'directory', 'kernels', 'loaded_from_disk', 'nbytes', 'on_devices']
    """
    directory = module.cache_directory()
    files = list(directory.glob("*.cubin"))
    return {
        "directory": str(directory),
        "kernels": len(files),
        "nbytes": sum(f.stat().st_size for f in files),
        "compiled": module.statistics["compiled"],
        "loaded_from_disk": module.statistics["loaded_from_disk"],
        "on_devices": len(module.functions),
    }


def clear_kernel_cache() -> int:
    """Delete every compiled kernel on disk; returns how many there were. Loaded kernels stay
    loaded.

    >>> import cudamath as cm
    >>> count = cm.cuda.cache_info()["kernels"]  # cm.cuda.clear_kernel_cache() would delete so many
    """
    return module.clear_kernel_cache()


def warm_up(fn: Callable | None = None, *args: Any, device: int | None = None) -> float:
    """Pay the costs of a first use now: context, compiler, cuBLAS, and the kernels of `fn(*args)`
    if it is given.

    Parameters
    ----------
    fn : callable, optional
        Called once with `args`; its result is dropped.
    device : int, optional
        The active one by default.

    Returns
    -------
    float
        Seconds it took.

    Raises
    ------
    DeviceError
        There is no such device.

    >>> import cudamath as cm
    >>> if cm.cuda.is_available():
    ...     seconds = cm.cuda.warm_up(cm.exp, cm.zeros(10))
    """
    from ..core.devices import device_of
    from ..kernels import build  # noqa: F401  the compiler
    from ..runtime import blas, stream

    start = time.perf_counter()
    index = index_of(device, "warm_up")
    with device_of(index):
        if blas.available():
            blas.handle(stream.current_stream(index))
        if fn is not None:
            fn(*args)
        stream.synchronize(index)
    return time.perf_counter() - start


def set_matmul_precision(precision: str) -> None:
    """`cm.set_matmul_precision`: "highest" (float32 means float32) or "tf32".

    >>> import cudamath as cm
    >>> cm.cuda.set_matmul_precision("highest")
    """
    from ..ops.linalg import set_matmul_precision

    set_matmul_precision(precision)
