"""Outdated records below benchmarks/results/: `python -m benchmarks.outdated`.

A record belongs to one device, and only a machine with that device can measure it again. So the
tests require a complete record of the device they run on. For other devices they only report the
differences: functions and benchmark rows that a record lacks, or that no longer exist.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterator

from benchmarks import accuracy
from benchmarks.run import RESULTS, ROWS

SHOWN = 5  # names in a line


def outdated(results: pathlib.Path) -> dict[tuple[str, str], str]:
    """(folder, file) -> in which way it is outdated, of those that are."""
    messages = {}
    for path in sorted(results.glob("*/*.json")):
        if path.name in READERS:
            changes = dict(READERS[path.name](path))
            parts = [f"{how} {listed(names)}" for how, names in changes.items() if names]
            if parts:
                messages[path.parent.name, path.name] = "; ".join(parts)
    return messages


def of_accuracy(path: pathlib.Path) -> Iterator[tuple[str, set[str]]]:
    """What accuracy.json should hold and does not, and the other way round."""
    recorded = {row["op"] for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}
    yield "lacks", accuracy.expected_functions() - recorded
    yield "still holds", recorded - {row.name for _, row in accuracy.WORK}


def of_rows(path: pathlib.Path) -> Iterator[tuple[str, set[str]]]:
    """The same of rows.json."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    recorded = {row["name"] for row in rows}
    device = "device" if any(row["kind"] == "device" for row in rows) else "cpu"
    yield "lacks", {r.name for r in ROWS.values() if r.kind in ("host", device)} - recorded
    yield "still holds", recorded - set(ROWS)


READERS = {"accuracy.json": of_accuracy, "rows.json": of_rows}


def listed(names: set[str]) -> str:
    """The first names, and how many others there are.

    >>> listed({"b", "a"}), listed(set("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(sorted(names)[:SHOWN]) + more


def lines(results: pathlib.Path) -> list[str]:
    """What is said of each record that is outdated."""
    return [
        f"outdated: benchmarks/results/{folder}/{file} {how}"
        for (folder, file), how in outdated(results).items()
    ]


if __name__ == "__main__":
    print("\n".join(lines(RESULTS)) or "no record is outdated")
    sys.exit(0)
