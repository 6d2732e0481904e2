"""Calls with ever new shapes: no table of the package grows without end, nor does the process."""

from __future__ import annotations

import collections
import functools
import gc
import pathlib
import sys
import time

from faults import gpu, gpu_without_values

import cudamath as cm

#: Entries of the largest table that a limit leaves.
MOST_ENTRIES = 70_000
#: Bytes by which the process may grow with a new shape, when tables with a limit are full: after so
#: many shapes.
MOST_BYTES, FULL = 400, 40_000


def tables():
    """Name -> size of every dict, list, set and cached function of the package's modules; and those
    that have no limit."""
    sizes, endless = {}, set()
    for name, module in list(sys.modules.items()):
        if not name.startswith("cudamath"):
            continue
        for word, value in list(vars(module).items()):
            place = f"{name}.{word}"
            if isinstance(value, (dict, list, set, collections.deque)):
                sizes[place] = len(value)
            elif isinstance(value, functools._lru_cache_wrapper):
                sizes[place] = value.cache_info().currsize
                if value.cache_info().maxsize is None:
                    endless.add(place)
            elif isinstance(getattr(value, "plans", None), dict):
                sizes[f"{place}.plans"] = len(value.plans)
    return sizes, endless


def resident():
    """Bytes of the process."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def call(n):
    x = cm.zeros(n % 50_000 + 1, "float32")
    y = (x + 1) * x
    y[: n % 7 + 1].sum()
    cm.grad(lambda x: (x * x).sum())(x)
    cm.zeros((n % 90 + 1, n // 90 % 500 + 1), "float32").T.copy()


def attack(under, count=500):
    """count: new shapes of each part. A cache without a limit may grow in the first part alone."""
    rounds = [("cpu", under.end - under.seconds / 2), ("cuda", under.end)]
    real = under.device == "cuda"
    for device, end in rounds[real:]:
        with gpu() if real else gpu_without_values() as fake, cm.device(device):
            parts, before, full = 0, None, None
            while parts < 3 or time.monotonic() < end:
                for n in range(parts * count, (parts + 1) * count):
                    call(n)
                under.tried += count
                parts += 1
                del fake.launches[:]
                gc.collect()
                now, endless = tables()
                for name, size in now.items():
                    more = size - before[name] if before and name in before else 0
                    if name in endless and more > count // 10:
                        under.violation(f"{device}: {name} has no limit and {more} more entries")
                    if size > MOST_ENTRIES:
                        under.violation(f"{device}: {name} has {size} entries")
                before = now
                shapes = parts * count
                if full is None and shapes >= FULL:
                    full = shapes, resident()
            if full is not None and shapes >= 2 * FULL:
                each = (resident() - full[1]) / (shapes - full[0])
                if each > MOST_BYTES:
                    under.violation(f"{device}: {each:.0f} bytes stay of each new shape")
