"""What this machine offers, and what is missing: `python -m cudamath info`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import cudamath

from .core.devices import default_device
from .runtime import cubin_cache, library_paths, memory
from .runtime import device as devices
from .runtime.errors import DeviceError

PACKAGES = (
    "numpy",
    "numba",
    "numba-cuda",
    "cuda-bindings",
    "cuda-core",
    "nvmath-python",
    "nvidia-cudnn-frontend",
    "ml_dtypes",
)
#: What some functions want besides: package -> the extra that brings it.
EXTRAS = {
    "nvidia-cudnn-frontend": "cudnn",
    "safetensors": "io",
    "nvtx": "profile",
    "nccl4py": "distributed",
    "mpi4py": "distributed",
}
_DRIVER = "an NVIDIA driver of the 580 series or newer"
VARIABLES = (
    "CUDAMATH_DEVICE",
    "CUDAMATH_CACHE_DIR",
    "CUDAMATH_TUNE_CACHE",
    "CUDAMATH_KERNEL_PACKS",
    "CUDAMATH_CPU_LEVEL",
    "CUDAMATH_COMPILE_WORKERS",
    "CUDAMATH_COMPILE_NOTICE",
    "CUDAMATH_MEMORY_FRACTION",
    "CUDAMATH_CACHE_SIZE",
    "CUDAMATH_LAUNCH_LINES",
    "CUDAMATH_LAUNCH_IN_ORDER",
    "CUDAMATH_DISTRIBUTED_TIMEOUT",
    "CUDAMATH_RENDEZVOUS",
    "CUDA_PATH",
    "CUDA_HOME",
    "CUDNN_PATH",
    "CUDA_VISIBLE_DEVICES",
)


def version(package: str) -> str | None:
    """Of a package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """Python's and the packages' versions; None for a package that is not installed.

    >>> versions()["cudamath"] == cudamath.__version__
    True
    """
    return {
        "python": platform.python_version(),
        "cudamath": cudamath.__version__,
        **{name: version(name) for name in PACKAGES},
    }


def processor() -> str:
    """The CPU's name and its number of cores."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next(
                (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")),
                name,
            )
    except OSError:
        pass  # not Linux
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {usable} core{'' if usable == 1 else 's'}"


def describe(index: int) -> str:
    """One line about a device: a GPU's number, or -1 for the CPU."""
    if index < 0:
        return processor()
    gpu = devices.info(index)
    major, minor = gpu.capability
    return (
        f"{gpu.name}, compute capability {major}.{minor}, {memory.human(gpu.total_memory)}, "
        f"{gpu.multiprocessors} multiprocessors"
    )


def verdict() -> tuple[str, bool]:
    """One sentence on whether this machine is ready, and what to do if not; and whether it is."""
    try:
        device = default_device()
    except DeviceError as problem:
        return f"Not ready: {problem}", False
    place = f"{device}, {describe(device.index)}"
    if device.index < 0 and devices.device_count():
        return f"Ready on {place}, which was chosen though there is a GPU.", True
    if device.index < 0:
        return (
            f"Ready on {place}. A GPU needs compute capability 7.5 or newer and {_DRIVER}; not "
            f"found: {devices.missing()}.",
            True,
        )
    lacking = [library for library in library_paths.libraries() if not library.path]
    if not lacking:
        return f"Ready on {place}; every library was found.", True
    names = ", ".join([library.name for library in lacking])
    remedy = " and ".join(dict.fromkeys([library.remedy for library in lacking]))
    ready = all([library.optional for library in lacking])
    return f"{'Ready' if ready else 'Not ready'} on {place}: {names} not found; {remedy}.", ready


def device_sentence() -> str:
    """The default device, what it is, and why it is the default."""
    device = default_device()
    if device.index >= 0:
        why = f"one of {devices.device_count()} found"
    elif devices.device_count():
        why = "chosen, though there is a GPU"
    else:
        why = f"no GPU to use: not found: {devices.missing()}"
    return f"{device}: {describe(device.index)} ({why})"


def tables() -> list[Any]:
    """The report as rich tables: devices, libraries, packages and settings."""
    from rich.table import Table
    from rich.text import Text

    gpus = Table(title="Devices", title_justify="left")
    gpus.add_column("device", no_wrap=True)
    gpus.add_column("what it is")
    try:
        default = default_device().index
    except DeviceError:  # CUDAMATH_DEVICE names none of these
        default = None
    for index in range(-1, devices.device_count()):
        name = "cpu" if index < 0 else f"cuda:{index}"
        gpus.add_row(name + (" (default)" if index == default else ""), describe(index))
    if not devices.device_count():
        gpus.add_row("cuda", f"not found: {devices.missing()}")

    found = Table(title="CUDA libraries", title_justify="left")
    found.add_column("library", no_wrap=True)
    found.add_column("for")
    found.add_column("version")
    found.add_column("where, or what brings it", overflow="fold")
    for library in library_paths.libraries():
        # Text, not markup: a remedy like "cudamath[cu13]" has brackets.
        where = library.path or f"missing: {library.looked}. Brought by {library.remedy}"
        found.add_row(library.name, library.purpose, library.version or "-", Text(where))

    settings = Table(title="Versions and settings", title_justify="left")
    settings.add_column("name", no_wrap=True)
    settings.add_column("value", overflow="fold")
    for package, number in (versions() | {name: version(name) for name in EXTRAS}).items():
        remedy = f": pip install 'cudamath[{EXTRAS[package]}]'" if package in EXTRAS else ""
        settings.add_row(package, Text(number or f"not installed{remedy}"))
    for variable in VARIABLES:
        settings.add_row(variable, os.environ.get(variable, "not set"))
    folder = cubin_cache.cache_directory()
    kernels = list(folder.glob("*.cubin"))
    size = memory.human(sum(path.stat().st_size for path in kernels))
    settings.add_row("kernel cache", f"{folder}: {len(kernels)} kernels, {size}")
    return [gpus, found, settings]
