"""Memory: statistics, limits, the users of memory, page-locked and managed arrays."""

from __future__ import annotations

import collections
import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core import cpu_pool, dtypes
from ..core.shapes import normalize_shape
from ..core.typing import DTypeLike
from ..runtime import device as devices
from ..runtime import memory
from ..runtime.errors import user_line
from ..runtime.interrupts import context_manager, uninterrupted
from ..runtime.memory import Buffer, Pool, human, live_buffers, parse_size, pool_of
from ..runtime.state import runtime
from .devices import index_of, on_host

__all__ = [
    "MemoryReport",
    "configure_pool",
    "empty_cache",
    "managed",
    "max_memory_allocated",
    "memory_allocated",
    "memory_debugging",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "pinned",
    "reset_peak_memory_stats",
    "set_cache_size",
    "set_memory_callback",
    "set_memory_fraction",
]


def _pool(device: Any, name: str) -> Pool | None:
    """The pool of a `device=` argument; None without a GPU, where nobody named a device."""
    return None if on_host(device) else pool_of(index_of(device, name))


# -------------------- statistics


def memory_stats(device: int | None = None) -> dict[str, Any]:
    """Return the memory statistics of a device, in bytes; all are 0 without a GPU.

    All zero without a GPU.

    Parameters
    ----------
    device : int, optional
        Device of the result. The default is the default device.

    Returns
    -------
    dict
        Allocated: in live arrays and scratch; peak: its maximum since `reset_peak_memory_stats`;
        reserved: held from the driver; reserved_peak; cached: reserved and not in use;
        fragmentation: the part of the cached bytes outside the largest cached block, 0 to 1; free,
        total: of the device, as the driver sees them; limit, cache_limit: as set, or None;
        allocations, releases: blocks taken from and given back to the driver. Kernel code, library
        workspaces and constant tables are not in `allocated`.

    Raises
    ------
    DeviceError
        A device was named that does not exist.

    Examples
    --------
    >>> import cudamath as cm
    >>> stats = cm.cuda.memory_stats()
    >>> stats["reserved"] == stats["allocated"] + stats["cached"]
    True
    """
    pool = _pool(device, "memory_stats")
    names = (
        "allocated",
        "peak",
        "reserved",
        "reserved_peak",
        "cached",
        "free",
        "total",
        "allocations",
        "releases",
    )
    if pool is None:
        return dict.fromkeys(names, 0) | {"fragmentation": 0.0, "limit": None, "cache_limit": None}
    free, total = memory.memory_info(pool.device)
    blocks = pool.free_blocks()
    idle = sum(size * count for size, count in blocks.items())
    used = pool.used
    values = (
        used,
        pool.peak,
        pool.reserved,
        pool.reserved_peak,
        pool.reserved - used,
        free,
        total,
        pool.allocations,
        pool.releases,
    )
    return dict(zip(names, values, strict=True)) | {
        "fragmentation": 1 - max(blocks) / idle if idle else 0.0,
        "limit": pool.limit,
        "cache_limit": pool.cache_limit,
    }


def memory_allocated(device: int | None = None) -> int:
    """Return the bytes in live arrays on a device; 0 without a GPU.

    The rounding of blocks is included.

    Parameters
    ----------
    device : int, optional
        Device of the result. The default is the default device.

    Returns
    -------
    int
        Number of bytes.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.memory_allocated() <= cm.cuda.max_memory_allocated()
    True
    """
    pool = _pool(device, "memory_allocated")
    return 0 if pool is None else pool.used


def memory_reserved(device: int | None = None) -> int:
    """Return the bytes held from the driver, in use or cached; 0 without a GPU.

    0 without a GPU.

    Parameters
    ----------
    device : int, optional
        Device of the result. The default is the default device.

    Returns
    -------
    int
        Number of bytes.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.memory_reserved() >= cm.cuda.memory_allocated()
    True
    """
    pool = _pool(device, "memory_reserved")
    return 0 if pool is None else pool.reserved


def max_memory_allocated(device: int | None = None) -> int:
    """Return the largest number of bytes in live arrays at a time.

    It counts since the start or the last `reset_peak_memory_stats`.

    Parameters
    ----------
    device : int, optional
        Device of the result. The default is the default device.

    Returns
    -------
    int
        Number of bytes.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.reset_peak_memory_stats()
    >>> cm.cuda.max_memory_allocated() == cm.cuda.memory_allocated()
    True
    """
    pool = _pool(device, "max_memory_allocated")
    return 0 if pool is None else pool.peak


def reset_peak_memory_stats(device: int | None = None) -> None:
    """Restart the peaks (`peak`, `reserved_peak`) from the memory in use now.

    Without a GPU it does nothing.

    Parameters
    ----------
    device : int, optional
        Device of the result. The default is the default device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.reset_peak_memory_stats()
    """
    pool = _pool(device, "reset_peak_memory_stats")
    if pool is not None:
        pool.peak, pool.reserved_peak = pool.used, pool.reserved


def memory_summary(device: int | None = None) -> str:
    """Return the statistics of `memory_stats` as a table to read.

    Parameters
    ----------
    device : int, optional
        Device of the result. The default is the default device.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> import cudamath as cm
    >>> "allocated" in cm.cuda.memory_summary()
    True
    """
    stats = memory_stats(device)
    place = (
        f"cuda:{index_of(device, 'memory_summary')}" if devices.device_count() else "no CUDA device"
    )
    counts = ("allocations", "releases")
    lines = [f"memory of {place}"]
    for name, value in stats.items():
        if value is None:
            shown = "none"
        elif name == "fragmentation":
            shown = f"{value:.0%}"
        else:
            shown = str(value) if name in counts else human(value)
        lines.append(f"  {name:14} {shown:>12}")
    return "\n".join(lines)


# -------------------- limits


def empty_cache(device: int | None = None) -> None:
    """Return all cached memory of a device to the driver, for other programs.

    The call waits for the device. Memory that a CUDA graph uses stays. The memory kept for large
    results on the CPU (256 MiB at most) is released too.

    Parameters
    ----------
    device : int, optional
        Device of the result. The default is the default device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.empty_cache()
    """
    cpu_pool.release()
    pool = _pool(device, "empty_cache")
    if pool is not None:
        pool.trim()


def set_memory_fraction(fraction: float, device: int | None = None) -> None:
    """Reserve at most this fraction of a device's memory: beyond it, OutOfMemoryError.

    Without a GPU no memory is reserved. CUDAMATH_MEMORY_FRACTION does the same from outside.

    Parameters
    ----------
    fraction : float
        Largest share of the memory, in (0, 1].
    device : int, optional
        Device of the result. The default is the default device.

    Raises
    ------
    ValueError
        `fraction` is not in (0, 1].
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.set_memory_fraction(0.9)
    """
    memory.checked_fraction(fraction)
    pool = _pool(device, "set_memory_fraction")
    if pool is not None:
        pool.set_fraction(fraction)


def set_cache_size(size: str | int | None, device: int | None = None) -> None:
    """Limit the freed memory that is kept for reuse.

    The size is "2GB", "512 MiB" or a number of bytes (GB means 2^30). None is no limit. Without a
    GPU no memory is kept there.

    CUDAMATH_CACHE_SIZE does the same from outside.

    Parameters
    ----------
    size : str or int or None
        Shape of the result. The default is the shape to which the parameters broadcast.
    device : int, optional
        Device of the result. The default is the default device.

    Raises
    ------
    ValueError
        `size` cannot be read.
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.set_cache_size(None)
    """
    limit = None if size is None else parse_size(size)
    pool = _pool(device, "set_cache_size")
    if pool is None:
        return
    pool.cache_limit = limit
    if limit is not None and pool.cached > limit:
        pool.trim()


def configure_pool(
    *,
    initial: str | int | None = None,
    max: str | int | None = None,
    cache: str | int | None = None,
    device: int | None = None,
) -> None:
    """Set up the memory pool of a device. Without a GPU there is none.

    Parameters
    ----------
    initial : str or int, optional
        Have the driver map this much now, so that first allocations are quick.
    max : str or int, optional
        Reserve at most this much; beyond it, OutOfMemoryError.
    cache : str or int, optional
        Keep at most this much freed memory for reuse (see `set_cache_size`).
    device : int, optional
        The active one by default.

    Raises
    ------
    ValueError
        A size cannot be read, or initial > max.
    OutOfMemoryError
        The device does not have `initial` free.
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.configure_pool(initial="16MB")
    """
    first, most = (
        None if size is None else parse_size(size, "configure_pool") for size in (initial, max)
    )
    kept = None if cache is None else parse_size(cache, "configure_pool")
    if first is not None and most is not None and first > most:
        raise ValueError(
            f"configure_pool: initial ({human(first)}) is more than max ({human(most)})"
        )
    pool = _pool(device, "configure_pool")
    if pool is None:
        return
    if most is not None:
        pool.limit = most
    if kept is not None:
        set_cache_size(kept, pool.device)
    if first:
        pool.prefetch(first)


# -------------------- who holds what


def memory_snapshot(device: int | None = None) -> list[dict[str, Any]]:
    """Return every live buffer of a device, the largest first; empty without a GPU.

    Empty without a GPU.

    Parameters
    ----------
    device : int, optional
        Device of the result. The default is the default device.

    Returns
    -------
    list of dict
        Device, address, nbytes (of the block), stream (address), arrays: shapes and dtypes of the
        ndarrays that use it; line: the Python line that made it, where `memory_debugging` was on
        then, else None.

    Examples
    --------
    >>> import cudamath as cm
    >>> all(row["nbytes"] >= 512 for row in cm.cuda.memory_snapshot())
    True
    """
    from ..core.array import ndarray

    pool = _pool(device, "memory_snapshot")
    if pool is None:
        return []
    buffers = live_buffers(pool.device)
    users: dict[int, list[str]] = collections.defaultdict(list)
    for obj in gc.get_objects():
        # not isinstance, which asks the object: a weak proxy of what is gone raises
        if issubclass(type(obj), ndarray) and type(obj._owner) is Buffer:
            users[id(obj._owner)].append(f"{obj.dtype}{list(obj.shape)}")
    return [
        {
            "device": pool.device,
            "address": b.address,
            "nbytes": b.size,
            "stream": b.stream.ptr,
            "arrays": users[id(b)],
            "line": _lines.get((pool.device, b.address), (0, None))[1],
        }
        for b in sorted(buffers, key=lambda b: -b.size)
    ]


#: (device, address of a block) -> (number of the allocation, the user's line), noted by
#: `memory_debugging`
_lines: dict[tuple[int, int], tuple[int, str]] = {}
_numbers = itertools.count(1)
_reports: set[MemoryReport] = set()  # of the open contexts of `memory_debugging`


def _noting(size: int, stream: Any) -> int:
    """`memory.allocate` that remembers the user's line of each block."""
    number, line = next(_numbers), user_line()
    address = _allocate(size, stream)
    _lines[stream.device, address] = number, line
    return address


_allocate = memory.allocate


class MemoryReport:
    """Allocations that `memory_debugging` observed.

    `leaks` are the rows of `memory_snapshot` of the memory that was allocated inside and was still
    held at the end.
    """

    def __init__(self) -> None:
        self.leaks: list[dict[str, Any]] = []

    def by_line(self) -> list[tuple[str, int, int]]:
        """Return the leaks by line: (line, buffers, bytes), the most bytes first.

        Returns
        -------
        list of tuple of (str, int, int)
            The rows.
        """
        totals: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for row in self.leaks:
            totals[row["line"]][0] += 1
            totals[row["line"]][1] += row["nbytes"]
        return sorted(
            ((line, count, nbytes) for line, (count, nbytes) in totals.items()), key=lambda t: -t[2]
        )

    def __str__(self) -> str:
        if not self.leaks:
            return "memory_debugging: nothing made inside is still held"
        return "\n".join(
            ["memory_debugging: still held of what was made inside:"]
            + [
                f"  {human(nbytes):>12} in {count:4} at {line}"
                for line, count, nbytes in self.by_line()
            ]
        )


@context_manager
def memory_debugging() -> Iterator[MemoryReport]:
    """Context: report the allocations that are still held at the end, by Python line.

    `print(report)` lists them. It costs a few microseconds for each allocation inside, and nothing
    outside.

    Yields
    ------
    MemoryReport
        The result, which is complete at the end of the block.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.cuda.memory_debugging() as report:
    ...     y = cm.zeros(3) + 1
    >>> del y
    >>> len(report.leaks) <= 1
    True
    """
    report = MemoryReport()
    first = next(_numbers)
    try:
        _reports.add(report)
        memory.replace_allocate(_noting)
        yield report
    finally:
        try:
            gc.collect()
            report.leaks = [
                row
                for index in list(runtime.pools)
                for row in memory_snapshot(index)
                if _lines.get((index, row["address"]), (0, ""))[0] > first
            ]
        finally:
            _end(report)


@uninterrupted
def _end(report: MemoryReport) -> None:
    """Take down no more lines, unless another report is open."""
    try:
        _reports.discard(report)
    finally:
        if not _reports:
            memory.replace_allocate(_allocate)
            _lines.clear()


def set_memory_callback(
    fn: Callable[[dict[str, Any]], None] | None,
    *,
    threshold: float = 0.9,
    device: int | None = None,
) -> None:
    """Register a function that is called when memory runs short. Without a GPU it never does.

    Parameters
    ----------
    fn : callable or None
        Called as `fn(stats)`, where stats is `memory_stats(device)` with two more entries: "event",
        which is "high" or "exhausted", and "requested" in bytes. "high": reserved memory grew past
        `threshold` of the limit (of the device's memory where none is set); told again only after
        it was below. "exhausted": an allocation is about to raise OutOfMemoryError. None: no
        function is called. Called in the allocating thread; what it raises, the allocation raises.
    threshold : float, default 0.9
        In (0, 1].
    device : int, optional
        The active one by default.

    Raises
    ------
    ValueError
        `threshold` out of range.
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cuda.set_memory_callback(lambda stats: print(stats["event"]))
    >>> cm.cuda.set_memory_callback(None)
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"set_memory_callback: threshold must be in (0, 1], got {threshold}")
    pool = _pool(device, "set_memory_callback")
    if pool is None:
        return
    if fn is None:
        pool.watch = None
        return
    above = False

    def watch(pool: Pool, event: str, size: int) -> None:
        nonlocal above
        if event == "reserved":
            bound = pool.limit if pool.limit is not None else devices.info(pool.device).total_memory
            was, above = above, pool.reserved > threshold * bound
            if was or not above:
                return
            event = "high"
        fn(memory_stats(pool.device) | {"event": event, "requested": size})

    pool.watch = watch


# -------------------- host memory


def _host_array(name: str, shape: int | Sequence[int], dtype: Any) -> np.ndarray:
    lengths = normalize_shape(name, shape)
    kind = dtypes.as_dtype(dtype, name)
    if on_host(None):
        return np.empty(lengths, kind)
    index_of(None, name)
    buffer = memory.HostBuffer(int(np.prod(lengths, dtype=object)) * kind.itemsize, name)
    return np.ndarray(lengths, kind, buffer=buffer.bytes())


def pinned(shape: int | Sequence[int], dtype: DTypeLike = np.float32) -> np.ndarray:
    """Make a NumPy array in page-locked memory, for asynchronous and faster copies.

    The elements are undefined.

    `x.copy_to(host, stream=s)` and `cm.asarray(host).copy_to(x, stream=s)` return at once; wait for
    `s` before touching the array. Page-locked memory is taken from all programs: use it for
    staging, not for storage. Without a GPU it is memory like any other.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result.
    dtype : dtype, default np.float32
        The default is float32.

    Returns
    -------
    numpy.ndarray
        Array in page-locked memory.

    Raises
    ------
    OutOfMemoryError
        The system has not that much to lock.

    Examples
    --------
    >>> import cudamath as cm
    >>> host = cm.cuda.pinned((2, 3), cm.float32)
    >>> host[...] = 1
    """
    return _host_array("pinned", shape, dtype)


def managed(shape: int | Sequence[int], dtype: DTypeLike = np.float32) -> np.ndarray:
    """Make a NumPy array in managed (unified) memory, which kernels can access too.

    `cm.cuda.launch` takes it as it is. Pages move to the device that accesses them. The elements
    are undefined. Call `synchronize` before the host reads what a kernel writes. Without a GPU it
    is memory like any other.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result.
    dtype : dtype, default np.float32
        The default is float32.

    Returns
    -------
    numpy.ndarray
        Array in managed memory.

    Raises
    ------
    OutOfMemoryError
        The system has not that much to lock.

    Examples
    --------
    >>> import cudamath as cm
    >>> shared = cm.cuda.managed(1000, cm.float32)
    """
    return _host_array("managed", shape, dtype)


def host_address(x: np.ndarray) -> int | None:
    """Address of a NumPy array over pinned or managed memory, valid on the device; None for other
    arrays."""
    base: Any = x
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return x.ctypes.data if isinstance(getattr(base, "_owner", None), memory.HostBuffer) else None
