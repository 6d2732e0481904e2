"""What this process may use of the host: cores and memory, of which a container has a part."""

from __future__ import annotations

import contextlib
import os
import pathlib

GROUPS = pathlib.Path("/sys/fs/cgroup")
MEMORY = pathlib.Path("/proc/meminfo")


def cores() -> int:
    """How many cores this process may keep busy: those it may run on, and no more than its quota,
    rounded up."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    if quota := _numbers("cpu.max"):
        share, period = quota
    else:
        share = next(iter(_numbers("cpu/cpu.cfs_quota_us")), -1)
        period = next(iter(_numbers("cpu/cpu.cfs_period_us")), 0)
    if share > 0 and period > 0:
        count = min(count, max(1, -(-share // period)))
    return count


def memory() -> int | None:
    """How many bytes of memory are free for this process; None if the system does not say."""
    free = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in MEMORY.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) << 10)
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        if (limit := _numbers(most)) and (current := _numbers(used)):
            free.append(max(0, limit[0] - current[0] + _files(most)))
    return min(free, default=None)


def _files(beside: str) -> int:
    """Bytes of files in memory, which the system gives up first."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = (GROUPS / beside).with_name("memory.stat").read_text(encoding="ascii")
        return int(text.partition("inactive_file ")[2].split()[0])
    return 0


def _numbers(name: str) -> list[int]:
    """The numbers in a file of the control group; none where there is no file or no limit."""
    try:
        return [int(word) for word in (GROUPS / name).read_text(encoding="ascii").split()]
    except (OSError, ValueError):  # "max"
        return []
