"""Rows where another library is faster: what limits ours, and what was tried. The table on a folder's page is made of this.

limits.toml holds the reasons. Rows within NOISE of the best peer need none; the tests ask for one for each other row of a
GPU's on record.
"""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

NOISE = 0.98  # of the best peer's speed: medians of one run beside those of the next differ by 2 %

REASONS: dict[str, str] = {
    start: " ".join(text.split())
    for start, text in tomllib.loads((pathlib.Path(__file__).parent / "limits.toml").read_text(encoding="utf-8")).items()}


def reason(name: str) -> str:
    """What limits the row of this name; "" where nobody has said."""
    fitting = [start for start in REASONS if name.startswith(start)]
    return REASONS[max(fitting, key=len)] if fitting else ""


def behind(rows: Sequence[dict[str, Any]], libraries: Sequence[str]) -> list[tuple[float, dict[str, Any], str]]:
    """(speed beside the best peer's, row, that peer) of a GPU's rows below NOISE, the slowest first."""
    found = []
    if all(row["kind"] != "device" for row in rows):
        return []
    for row in rows:
        times = {name: result["median"] for name, result in row["results"].items() if name in libraries}
        ours = times.pop("cudamath", None)
        if times and ours:
            best = min(times, key=lambda name: times[name])
            if times[best] / ours < NOISE:
                found.append((times[best] / ours, row, best))
    return sorted(found, key=lambda each: each[0])


def section(rows: Sequence[dict[str, Any]], libraries: Sequence[str], duration: Callable[[float], str]) -> list[str]:
    """The table of a folder's page."""
    found = behind(rows, libraries)
    if not found:
        return []
    lines = ["", f"**Behind: {len(found)} of {len(rows)} rows, in which another library is more than "
             f"{1 - NOISE:.0%} faster; what limits ours**", "",
             "| operation | speed, best peer = 1 | cudamath | best peer | what limits it, what was tried |",
             "|---|---:|---:|---|---|"]
    for ratio, row, best in found:
        title = row["title"].replace("|", "\\|")
        lines.append(f"| {title} | {ratio:.2f} | {duration(row['results']['cudamath']['median'])} | "
                     f"{best} {duration(row['results'][best]['median'])} | {reason(row['name'])} |")
    return lines
