"""Profiling of kernels on the GPU, or of operations on the CPU; the kernel cache; warming up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..core.dispatch.cpu_profile import HostProfile
from ..runtime import cubin_cache, kernel_launch
from ..runtime.interrupts import context_manager
from ..runtime.profiler import Profile
from ..runtime.state import runtime
from .devices import index_of, on_host

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


@context_manager
def profile(*, nvtx: bool = True) -> Iterator[Profile]:
    """Context: device times of every kernel, library call and copy inside.

    `print(p)` shows them as a table. Without a GPU it shows the times of the operations on the CPU.

    Parameters
    ----------
    nvtx : bool, default True
        Also mark the launches as NVTX ranges for Nsight Systems, where the package nvtx is
        installed.

    Yields
    ------
    Profile
        `p.stats()`: rows with name, kind, device, count, total_us, mean_us, min_us, max_us, nbytes,
        gb_per_s, operations and tflop_per_s (of products, convolutions, attention and Fourier
        transforms, their gradients too), of_bandwidth and of_arithmetic (shares of the device's
        nominal bandwidth and of its rate in that dtype), of_peak (the larger of these: how near the
        roofline) and hint (what limits it, as far as these show); None where something is not
        known. `p.export(path)`: the same as JSON with a trace for chrome://tracing. Measuring costs
        about 2 us of host time a launch; the device times are those of the kernels alone. What a
        CUDA graph replays is one row. On the CPU kind and device are "cpu", a row is an operation,
        its time is that of its loops (of the first call with the compilation of these), and how
        near the roofline it is is not known.

    Raises
    ------
    RuntimeError
        Another profile is being taken.

    Examples
    --------
    >>> import cudamath as cm
    >>> a = cm.ones((64, 64))
    >>> with cm.cuda.profile() as p:
    ...     y = a @ a + 1
    >>> rates = {row["name"]: row["tflop_per_s"] for row in p.stats()}
    """
    current = _new_profile("profile", nvtx)
    try:
        current.start()
        runtime.last_profile = current
        yield current
    finally:
        if runtime.profile is current:
            current.stop()


def _new_profile(name: str, nvtx: bool) -> Profile:
    """A profile of the GPUs, or of the CPU where there are none."""
    if on_host(None):
        return HostProfile(nvtx)
    index_of(None, name)
    return Profile(nvtx)


def enable_profiling(enabled: bool = True, *, nvtx: bool = True) -> None:
    """Switch profiling on or off for the whole process.

    `performance_stats` and `export_report` give the results.

    Parameters
    ----------
    enabled : bool, default True
        Whether profiling is on.
    nvtx : bool, default True
        Whether ranges are also shown in Nsight Systems.

    Raises
    ------
    RuntimeError
        It is switched on while a `profile()` context is open.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.enable_profiling()
    >>> y = cm.ones(1000) + 1
    >>> cm.cuda.enable_profiling(False)
    """
    switched = runtime.switched_profile
    if enabled and (switched is None or runtime.profile is not switched):
        profile = _new_profile("enable_profiling", nvtx)
        profile.start()
        runtime.last_profile = runtime.switched_profile = profile
    elif not enabled and switched is not None:
        switched.stop()
        runtime.switched_profile = None


def performance_stats() -> list[dict[str, Any]]:
    """Return the rows of the profile that began last; empty if there was none.

    See `profile`.

    Returns
    -------
    list of dict
        The rows.

    Examples
    --------
    >>> import cudamath as cm
    >>> isinstance(cm.cuda.performance_stats(), list)
    True
    """
    profile = runtime.last_profile
    return [] if profile is None else profile.stats()


def export_report(path: str | os.PathLike) -> None:
    """Write the profile that began last as JSON.

    Chrome://tracing and Perfetto open it as a trace.

    Parameters
    ----------
    path : str or os.PathLike
        Path of the file.

    Raises
    ------
    RuntimeError
        There was no profile.

    Examples
    --------
    >>> import os, tempfile, cudamath as cm
    >>> with cm.cuda.profile():
    ...     y = cm.ones(1000) + 1
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cm.cuda.export_report(os.path.join(folder, "profile.json"))
    """
    profile = runtime.last_profile
    if profile is None:
        raise RuntimeError(
            "export_report: nothing was profiled; use profile() or enable_profiling() first"
        )
    profile.export(path)


@context_manager
def annotate(name: str) -> Iterator[None]:
    """Context: a named range in the trace of a profile and in Nsight Systems (NVTX).

    The range is of host time, from entering to leaving. It does nothing where nothing is being
    profiled.

    Parameters
    ----------
    name : str
        Name of the range.

    Yields
    ------
    None
        Nothing.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.cuda.annotate("forward"):
    ...     y = cm.ones(3) + 1
    """
    current = runtime.profile
    if current is None:
        yield
        return
    with current.annotate(name):
        yield


@context_manager
def launch_lines() -> Iterator[None]:
    """Context: report asynchronous faults with the Python line of each launch.

    A kernel that reads a bad address fails later, at some other call. The error then names the
    kernels launched last; inside this context (or with CUDAMATH_LAUNCH_LINES=1 in the environment)
    each one with the line that launched it. It costs about 0.5 us per launch.

    Yields
    ------
    None
        Nothing.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.cuda.launch_lines():
    ...     y = cm.ones(3) + 1
    """
    before = runtime.launch_lines
    try:
        kernel_launch.launch_lines(True)
        yield
    finally:
        kernel_launch.launch_lines(before)


# -------------------- compiled kernels


def cache_info() -> dict[str, Any]:
    """The on-disk cache of compiled kernels, and what this process took from it.

    Returns
    -------
    dict
        Directory (CUDAMATH_CACHE_DIR, or the user's cache folder); kernels, nbytes: files there;
        compiled, loaded_from_disk: by this process; on_devices: kernels loaded on a GPU by this
        process.

    Examples
    --------
    >>> import cudamath as cm
    >>> sorted(cm.cuda.cache_info())
    ['compiled', 'directory', 'kernels', 'loaded_from_disk', 'nbytes', 'on_devices']
    """
    directory = cubin_cache.cache_directory()
    files = list(directory.glob("*.cubin"))
    return {
        "directory": str(directory),
        "kernels": len(files),
        "nbytes": sum(f.stat().st_size for f in files),
        "compiled": cubin_cache.statistics["compiled"],
        "loaded_from_disk": cubin_cache.statistics["loaded_from_disk"],
        "on_devices": len(runtime.functions),
    }


def clear_kernel_cache() -> int:
    """Delete every compiled kernel on disk; loaded kernels stay loaded.

    Loaded kernels stay loaded.

    Returns
    -------
    int
        Number of deleted kernels.

    Examples
    --------
    >>> import cudamath as cm
    >>> count = cm.cuda.cache_info()["kernels"]  # cm.cuda.clear_kernel_cache() would delete so many
    """
    return cubin_cache.clear_kernel_cache()


def warm_up(fn: Callable | None = None, *args: Any, device: int | None = None) -> float:
    """Pay the costs of a first use now.

    These are the context, the compiler, cuBLAS, and the kernels of `fn(*args)` if it is given;
    without a GPU what `fn(*args)` compiles for the CPU.

    Parameters
    ----------
    fn : callable, optional
        Called once with `args`; its result is dropped.
    *args : object
        Positional arguments of the function.
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

    Examples
    --------
    >>> import cudamath as cm
    >>> seconds = cm.cuda.warm_up(cm.exp, cm.zeros(10))
    """
    start = time.perf_counter()
    if on_host(device):
        if fn is not None:
            fn(*args)
        return time.perf_counter() - start
    from ..core.devices import device_of
    from ..kernels.compiler import compile as compiler  # noqa: F401  the compiler
    from ..runtime import cublas, stream

    index = index_of(device, "warm_up")
    with device_of(index):
        if cublas.available():
            cublas.handle(stream.current_stream(index))
        if fn is not None:
            fn(*args)
        stream.synchronize(index)
    return time.perf_counter() - start


def set_matmul_precision(precision: str) -> None:
    """Choose the precision of float32 products: the same as `cm.set_matmul_precision`.

    Parameters
    ----------
    precision : str
        "highest" (float32) or "tf32".

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.set_matmul_precision("highest")
    """
    from ..ops.linalg.products import set_matmul_precision

    set_matmul_precision(precision)
