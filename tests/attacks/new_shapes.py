"""Calls with ever new shapes: no table of the package grows without end, nor the process."""

from __future__ import annotations

import collections
import functools
import gc
import pathlib
import sys
import time

from faults import gpu_without_values

import cudamath as cm

#: Entries by which a table may grow in a later part of the attack as long as the one before, and
#: MiB of the process.
MORE_ENTRIES, MORE_MIB = 500, 40


def tables():
    """Name -> size of every dict, list, set and cached function of the package's modules."""
    sizes = collections.Counter()
    for name, module in list(sys.modules.items()):
        if not name.startswith("cudamath"):
            continue
        for word, value in list(vars(module).items()):
            if isinstance(value, (dict, list, set, collections.deque)):
                sizes[f"{name}.{word}"] = len(value)
            elif isinstance(value, functools._lru_cache_wrapper):
                sizes[f"{name}.{word}"] = value.cache_info().currsize
            elif isinstance(getattr(value, "plans", None), dict):
                sizes[f"{name}.{word}.plans"] = len(value.plans)
    return sizes


def resident():
    """MiB of the process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def call(n):
    x = cm.zeros(n % 50_000 + 1, "float32")
    y = (x + 1) * x
    y[: n % 7 + 1].sum()
    cm.grad(lambda x: (x * x).sum())(x)
    cm.zeros((n % 90 + 1, n % 110 + 1), "float32").T.copy()


def part(under, count, first):
    for n in range(first, first + count):
        call(n)
        under.tried += 1
    gc.collect()


def attack(under, count=500):
    """count: new shapes of each part; each of the later parts is compared with the one before."""
    for device in ("cpu", "cuda"):
        with gpu_without_values(), cm.device(device):
            first, sizes, memory, grew = 0, None, 0.0, collections.Counter()
            parts = 0
            half = under.end - (under.seconds / 2 if device == "cpu" else 0)
            while parts < 3 or (under.goes_on and time.monotonic() < half):
                part(under, count, first)
                first, parts = first + count, parts + 1
                now, mib = tables(), resident()
                if sizes is not None and parts > 8:  # tables with a limit are full
                    for name, size in now.items():
                        grew[name] += max(size - sizes[name], 0)
                        if grew[name] > MORE_ENTRIES:
                            under.violation(f"{device}: {name} has {size} entries and grows")
                            grew[name] = -(1 << 40)
                    if mib - memory > MORE_MIB:
                        under.violation(f"{device}: from {memory:.0f} to {mib:.0f} MiB")
                        memory = mib
                else:
                    memory = mib
                sizes = now
