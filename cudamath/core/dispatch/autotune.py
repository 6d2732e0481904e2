"""Autotuning: tables of measured times, from which planners choose the fastest implementation.

Libraries and the package's kernels, each with its tile sizes, are *candidates* for the same op. The
fastest one depends on device, dtype, layout and sizes. A planner consults `lookup`, and follows a
rule of its own where there is no measurement.

There are two tables, consulted in this order:

1. Measurements of `python -m cudamath tune` on this machine: a JSON file, at the path in
   CUDAMATH_TUNE_CACHE or in the user's cache folder.
2. Measurements that the package ships for devices of that name: the JSON files of the package
   `tuned`.

Both have the form

    {"version": 1, device: {op: {kind: {"4096x4096x4096": {candidate: microseconds, ..}, ..}}}}

where `kind` names what decides besides the sizes (dtype and layout). Other sizes take the nearest
entry: the sum of the ratios of the sizes, in powers of two, is at most NEAR. All sizes beyond LARGE
count as LARGE.

While `measuring` is set, the versions of an operation are timed when a problem is planned for the
first time (kernels/lib/versions.py). Their times lie in the first table, too, under the whole
problem as `kind` and the sizes WHOLE: no other problem is near.

A file may be damaged, or come from another version of the package. So files are read by one
function, `_understood`, which drops what has another form, and planners say which candidates they
understand; what is left decides nothing, and is no error.
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime import cubin_cache, files
from ...runtime import device as devices
from . import tuned

NEAR = 0.5  # 1.4 times: beyond, predictions were nearer to the truth than entries
LARGE = 16384  # larger sizes count as this one: smaller ones fill a device already

Entry = dict[str, float]  # candidate -> microseconds
Table = dict[str, dict[str, dict[str, dict[str, Entry]]]]  # device, op, kind, sizes

WHOLE = (1,)  # the sizes under which the times of versions lie

#: Times plans at their first use, while that is switched on: (name of the op, plans by the names of
#: their versions, layouts of their inputs) -> microseconds, or None where nothing can be timed now.
measuring: Callable[[str, Any, Sequence[Any]], Entry | None] | None = None

VERSION = 1  # of the form of files; one without a version has this one
_SIZES = re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*")


class Decision(NamedTuple):
    """A candidate, and the reason for it in words."""

    choice: str
    why: str


def path() -> pathlib.Path:
    """The file of this machine's measurements: CUDAMATH_TUNE_CACHE, or one in the user's cache
    folder."""
    return cubin_cache.cache_path("CUDAMATH_TUNE_CACHE", "tune.json")


def _read(file: pathlib.Path) -> Table:
    """The table in a file; an empty one where there is no file, or one that cannot be read."""
    try:
        return _understood(json.loads(files.read_own(file)))
    except (OSError, ValueError, RecursionError):
        return {}


def _understood(content: Any) -> Table:
    """What has the form of a table in the content of a file; the rest is dropped."""
    if not isinstance(content, dict) or content.get("version", VERSION) != VERSION:
        return {}
    levels = [str, str, str, _is_sizes, str]
    return _level({key: each for key, each in content.items() if key != "version"}, levels)


def _level(content: Any, levels: Sequence[Any]) -> Any:
    """Nested dicts whose keys are accepted by `levels` and whose innermost values are times;
    without what is something else, and without dicts that are empty then."""
    accepts, *inner = levels
    if not isinstance(content, dict):
        return {}
    found = {}
    for key, each in content.items():
        if accepts(key):
            value = _level(each, inner) if inner else _time(each)
            if value:
                found[key] = value
    return found


def _is_sizes(key: str) -> bool:
    return _SIZES.fullmatch(key) is not None


def _time(value: Any) -> float | None:
    """Microseconds, None for what cannot be a time."""
    if type(value) not in (int, float) or not 0 < value < math.inf:
        return None
    return value if value < 1e30 else None  # integers of any size are JSON


@functools.cache
def _own(file: pathlib.Path) -> Table:
    return _read(file)


@functools.cache
def _shipped() -> Table:
    """The tables of the package. An empty set is an error: every choice would silently be a
    guess."""
    table: Table = {}
    for folder in tuned.__path__:
        for file in sorted(pathlib.Path(folder).glob("*.json")):
            table.update(_understood(json.loads(file.read_text(encoding="utf-8"))))
    if not table:
        raise FileNotFoundError(f"tune: no table came along in {tuned.__name__}: install it again")
    return table


def forget() -> None:
    """Read the files again at the next look-up."""
    _own.cache_clear()
    _shipped.cache_clear()


def lookup(
    op: str,
    device: int,
    kind: str,
    sizes: Sequence[int],
    is_candidate: Callable[[str], bool],
) -> Decision | None:
    """The fastest candidate measured for sizes near these, or None.

    is_candidate: whether the planner understands a candidate, and can run it for this problem. It
    is asked about the fastest first, and about no more than it takes.
    """
    name = devices.name(device)
    for source, table in (("this machine's file", _own(path())), ("the shipped table", _shipped())):
        entries = table.get(name, {}).get(op, {}).get(kind, {})
        ranked = sorted(
            (distance, key) for key in entries if (distance := _distance(key, sizes)) <= NEAR
        )
        for _, key in ranked:
            times = entries[key]
            able = filter(is_candidate, sorted(times, key=times.__getitem__))
            best, second = next(able, None), next(able, None)
            if best is not None:
                beside = "" if second is None else f", {second} {times[second]:.4g}"
                return Decision(
                    best,
                    f"measured at {key}: {best} {times[best]:.4g} us{beside} ({source}, {name})",
                )
    return None


def versions(op: str, device: int, problem: str) -> Entry:
    """The times of versions that were measured for just this problem on this machine."""
    kinds = _own(path()).get(devices.name(device), {}).get(f"{op} versions", {})
    return kinds.get(problem, {}).get("x".join(map(str, WHOLE)), {})


def keep_versions(op: str, device: int, problem: str, times: Entry) -> None:
    """Add the times of versions for a problem to this machine's file."""
    save(devices.name(device), f"{op} versions", problem, WHOLE, times)


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
    """Add a measurement on the device called `name` to a file (by default this machine's). Other
    processes that add to it wait, and nothing is lost."""
    file = path() if file is None else file
    files.make_private_folder(file.parent)
    with (
        files.locked(file.with_name(f"{file.name}.lock")),
        files.whole_file("tune", file, private=True) as beside,
    ):
        table = _read(file)
        table.setdefault(name, {}).setdefault(op, {}).setdefault(kind, {})[
            "x".join(map(str, sizes))
        ] = times
        with open(beside, "w", encoding="utf-8") as target:
            json.dump({"version": VERSION, **table}, target, indent=1, sort_keys=True)
            target.write("\n")
    forget()
