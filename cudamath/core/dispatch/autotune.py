"""Which implementation of an op is fastest: measured once, remembered in a file.

Libraries and our kernels, each with its tile sizes, are *candidates* for the same op. Which one
wins depends on device, dtype, layout and sizes; a planner asks here (`lookup`) and otherwise
follows a rule of its own.

Two tables answer, in this order. What `python -m cudamath tune` has measured on this machine: a
JSON file, at the path in CUDAMATH_TUNE_CACHE or in the user's cache folder. And what was measured
beforehand on devices of that name: the JSON files of the package `tuned`, so that nothing needs
tuning to be good. Both hold

    {device: {op: {kind: {"4096x4096x4096": {candidate: microseconds, ..}, ..}}}}

where `kind` is whatever decides besides the sizes (dtype and layout). Sizes in between take the
nearest entry: the sum of the sizes' ratios, in powers of two, is at most NEAR. Sizes beyond LARGE
are alike.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...runtime import cubin_cache
from ...runtime import device as devices
from . import tuned

NEAR = 1.0
LARGE = 16384  # larger sizes count as this: a device is full long before

Entry = dict[str, float]  # candidate -> microseconds


class Decision(NamedTuple):
    """A candidate, and the reason for it in words."""

    choice: str
    why: str


def path() -> pathlib.Path:
    """The file of this machine's measurements: CUDAMATH_TUNE_CACHE, or one in the user's cache
    folder."""
    return cubin_cache.cache_path("CUDAMATH_TUNE_CACHE", "tune.json")


def _read(file: pathlib.Path) -> dict[str, Any]:
    """The table in a file; an empty one where there is no file, or one that cannot be read."""
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


@functools.cache
def _own(file: pathlib.Path) -> dict[str, Any]:
    return _read(file)


@functools.cache
def _shipped() -> dict[str, Any]:
    """The tables that come along. That there are none is an error: without them every choice would
    be a guess, and nobody would notice."""
    table: dict[str, Any] = {}
    files = importlib.resources.files(tuned).iterdir()
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith(".json"):
            table.update(json.loads(file.read_text(encoding="utf-8")))
    if not table:
        raise FileNotFoundError(f"tune: no table came along in {tuned.__name__}: install it again")
    return table


def forget() -> None:
    """Read the files again when next asked."""
    _own.cache_clear()
    _shipped.cache_clear()


def lookup(
    op: str,
    device: int,
    kind: str,
    sizes: Sequence[int],
    allowed: Sequence[str] | None = None,
    without: str = "-",
) -> Decision | None:
    """The fastest candidate measured for sizes near these, or None. allowed: first words of
    candidates that can run; without: a word that none of them may have."""
    name = devices.name(device)
    for source, table in (("this machine's file", _own(path())), ("the shipped table", _shipped())):
        entries = table.get(name, {}).get(op, {}).get(kind, {})
        ranked = sorted(
            (distance, key) for key in entries if (distance := _distance(key, sizes)) <= NEAR
        )
        for _, key in ranked:
            times = {
                c: t
                for c, t in entries[key].items()
                if (allowed is None or c.split()[0] in allowed) and without not in c.split()
            }
            if times:
                best, *others = sorted(times, key=times.__getitem__)
                beside = f", {others[0]} {times[others[0]]:.4g}" if others else ""
                return Decision(
                    best,
                    f"measured at {key}: {best} {times[best]:.4g} us{beside} ({source}, {name})",
                )
    return None


def _distance(key: str, sizes: Sequence[int]) -> float:
    measured = [int(n) for n in key.split("x")]
    if len(measured) != len(sizes):
        return math.inf
    pairs = [
        (min(max(n, 1), LARGE), min(max(m, 1), LARGE)) for n, m in zip(measured, sizes, strict=True)
    ]
    return sum(abs(math.log2(n / m)) for n, m in pairs)


def save(
    name: str,
    op: str,
    kind: str,
    sizes: Sequence[int],
    times: Entry,
    file: pathlib.Path | None = None,
) -> None:
    """Add a measurement on the device called `name` to a file (by default this machine's)."""
    file = path() if file is None else file
    table = _read(file)
    table.setdefault(name, {}).setdefault(op, {}).setdefault(kind, {})[
        "x".join(map(str, sizes))
    ] = times
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            json.dump(table, target, indent=1, sort_keys=True)
            target.write("\n")
        os.replace(temporary, file)  # whole or not at all
    except BaseException:
        os.unlink(temporary)
        raise
    forget()
