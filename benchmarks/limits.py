"""Rows in which another library is faster, and kernels below their target: the limiting resource,
and what was tried.

The two tables on a folder's page come from this module. limits.toml holds the reasons of the rows
in which another library is faster; rows within NOISE of the best peer need none. targets.toml holds
the targets of the kernels, by family of rows, as a share of a copy's rate (or of a large product's)
in the same run or of the best peer's speed, and the reasons of the rows below. The tests require a
reason for each such row of a recorded GPU.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import pathlib
import statistics
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

NOISE = 0.98  # of the best peer's speed: medians of one run beside those of the next differ by 2 %
FOLDER = pathlib.Path(__file__).parent


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


def _reasons(table: dict[str, str]) -> dict[str, str]:
    return {start: " ".join(text.split()) for start, text in table.items()}


@dataclasses.dataclass(frozen=True)
class Target:
    """What the kernels of a family of rows are to reach; see targets.toml."""

    family: str
    of: str  # "ceiling" or "peer"
    least: float  # each row
    rows: Sequence[
        str
    ]  # patterns of names, as of files; a row belongs to the first target that fits
    mean: float = 0  # the family's geometric mean
    kernels: Sequence[str] = ("cudamath",)  # the fastest of these results counts
    bytes: float = 0  # rows of less work are left out: a launch, not the memory, is what they take


REASONS = _reasons(_read("limits.toml"))
TARGETS = [Target(**entry) for entry in _read("targets.toml")["target"]]
MISSED = _reasons(_read("targets.toml")["missed"])


def _longest(name: str, reasons: dict[str, str]) -> str:
    """The reason under the longest beginning of this name; "" where there is none."""
    fitting = [start for start in reasons if name.startswith(start)]
    return reasons[max(fitting, key=len)] if fitting else ""


def reason(name: str) -> str:
    """What limits the row of this name; "" where nobody has said."""
    return _longest(name, REASONS)


def missed(name: str) -> str:
    """Why the kernel of the row of this name is below its target: targets.toml's, or else
    limits.toml's reason."""
    return _longest(name, MISSED) or reason(name)


def behind(
    rows: Sequence[dict[str, Any]], libraries: Sequence[str]
) -> list[tuple[float, dict[str, Any], str]]:
    """(speed beside the best peer's, row, that peer) of a GPU's rows below NOISE, the slowest
    first."""
    slower = []
    if all(row["kind"] != "device" for row in rows):
        return []
    for row in rows:
        times = {
            name: result["median"] for name, result in row["results"].items() if name in libraries
        }
        ours = times.pop("cudamath", None)
        if times and ours:
            best = min(times, key=lambda name: times[name])
            if times[best] / ours < NOISE:
                slower.append((times[best] / ours, row, best))
    return sorted(slower, key=lambda each: each[0])


def target(row: dict[str, Any]) -> Target | None:
    """The target that a row belongs to."""
    if row["kind"] == "device":
        for each in TARGETS:
            if any(fnmatch.fnmatchcase(row["name"], pattern) for pattern in each.rows):
                return each if row["work"] >= each.bytes else None
    return None


def reached(
    row: dict[str, Any], goal: Target, libraries: Sequence[str]
) -> tuple[float, str] | None:
    """(share of what its target is a share of, the kernel) of a row; None where it has no such
    kernel or no peer."""
    results = row["results"]
    ours = [name for name in goal.kernels if name in results]
    peers = [
        results[name]["median"] for name in libraries if name != "cudamath" and name in results
    ]
    if not ours or (goal.of == "peer" and not peers):
        return None
    kernel = min(ours, key=lambda name: results[name]["median"])
    if goal.of == "peer":
        return min(peers) / results[kernel]["median"], kernel
    return results[kernel]["of_ceiling"], kernel


def below(
    rows: Sequence[dict[str, Any]], libraries: Sequence[str]
) -> list[tuple[float, dict[str, Any], str, Target]]:
    """(share reached, row, kernel, target) of the rows below their family's `least`, the furthest
    from it first."""
    rows_below = []
    for row in rows:
        goal = target(row)
        share = reached(row, goal, libraries) if goal else None
        if goal and share and round(share[0], 2) < goal.least:
            rows_below.append((share[0], row, share[1], goal))
    return sorted(rows_below, key=lambda each: each[0] / each[3].least)


def section(
    rows: Sequence[dict[str, Any]], libraries: Sequence[str], duration: Callable[[float], str]
) -> list[str]:
    """The table of rows in which another library is faster."""
    slower = behind(rows, libraries)
    if not slower:
        return []
    lines = [
        "",
        f"**Behind: {len(slower)} of {len(rows)} rows, in which another library is more than "
        f"{1 - NOISE:.0%} faster; what limits ours**",
        "",
        "| operation | speed, best peer = 1 | cudamath | best peer | what limits it, what was "
        "tried |",
        "|---|---:|---:|---|---|",
    ]
    for ratio, row, best in slower:
        title = row["title"].replace("|", "\\|")
        lines.append(
            f"| {title} | {ratio:.2f} | {duration(row['results']['cudamath']['median'])} | "
            f"{best} {duration(row['results'][best]['median'])} | {reason(row['name'])} |"
        )
    return lines


def targets_section(
    rows: Sequence[dict[str, Any]], libraries: Sequence[str], duration: Callable[[float], str]
) -> list[str]:
    """A table of the families with what they reach, and one of the rows below their target."""
    families: dict[str, list[float]] = {}
    for row in rows:
        goal = target(row)
        share = reached(row, goal, libraries) if goal else None
        if goal and share:
            families.setdefault(goal.family, []).append(share[0])
    if not families:
        return []
    rows_below = below(rows, libraries)
    lines = [
        "",
        "**Targets of our own kernels**",
        "",
        "| kernels | share of | target | geometric mean | worst row | rows | below |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for each in TARGETS:
        if each.family in families:
            shares = families[each.family]
            aim = f"{each.least:.2f}" + (f", mean {each.mean:.2f}" if each.mean else "")
            of = "the ceiling" if each.of == "ceiling" else "the best peer"
            lines.append(
                f"| {each.family} | {of} | {aim} | {statistics.geometric_mean(shares):.2f} | "
                f"{min(shares):.2f} | "
                f"{len(shares)} | {sum(goal is each for *_, goal in rows_below)} |"
            )
    if rows_below:
        lines += [
            "",
            f"**Below their target: {len(rows_below)} rows; what limits the kernel**",
            "",
            "| operation | target | reached | time | commit | what limits it, what was tried |",
            "|---|---:|---:|---:|---|---|",
        ]
    for ratio, row, kernel, goal in rows_below:
        title = row["title"].replace("|", "\\|") + (
            f" (`{kernel}`)" if kernel != "cudamath" else ""
        )
        lines.append(
            f"| {title} | {goal.least:.2f} | {ratio:.2f} | "
            f"{duration(row['results'][kernel]['median'])} | "
            f"`{row['commit']}` | {missed(row['name'])} |"
        )
    return lines
