"""`cudamath.cuda`: devices, streams, memory, graphs, profiling, user kernels: the CudaBackend side
of the package.

The import creates no CUDA context and loads no CUDA library. Without a GPU `is_available()` is
False, `device_count()` is 0, `devices()` is empty. What has a meaning there has it: `synchronize`,
`Stream` and `Event` (the work is done when a call returns, and events are timed with the clock),
`graph` (the function runs, and must not do what a graph cannot hold), `profile` (times of
operations on the CPU), `warm_up`, `pinned` and `managed` (memory like any other); functions of the
memory pool report an empty device and limit nothing. What names a device, launches a kernel or
captures work raises DeviceError, which lists what is missing.
"""

from __future__ import annotations

from ..core.public_names import public_dir
from ..runtime.errors import CudaError, DeviceError, OutOfMemoryError
from ..runtime.stream import Event, Stream, elapsed
from .devices import *  # noqa: F403
from .first_use import *  # noqa: F403
from .graphs import *  # noqa: F403
from .kernels import *  # noqa: F403
from .memory import *  # noqa: F403
from .profiling import *  # noqa: F403

__all__ = [  # noqa: F405
    "Capture",
    "CompiledKernel",
    "CudaError",
    "DeviceError",
    "DeviceInfo",
    "Event",
    "Graphed",
    "MemoryReport",
    "OutOfMemoryError",
    "Stream",
    "annotate",
    "autotune",
    "cache_info",
    "capture",
    "clear_kernel_cache",
    "compile_kernel",
    "configure_pool",
    "copy_peer",
    "current_device",
    "current_stream",
    "deterministic",
    "device",
    "device_count",
    "devices",
    "elapsed",
    "empty_cache",
    "enable_profiling",
    "export_report",
    "external_stream",
    "graph",
    "is_available",
    "launch",
    "launch_lines",
    "managed",
    "max_memory_allocated",
    "memory_allocated",
    "memory_debugging",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "occupancy",
    "peer_access",
    "performance_stats",
    "pinned",
    "profile",
    "reset_peak_memory_stats",
    "set_cache_size",
    "set_device",
    "set_matmul_precision",
    "set_memory_callback",
    "set_memory_fraction",
    "suggest_launch",
    "synchronize",
    "warm_up",
]

__dir__ = public_dir(__name__)
