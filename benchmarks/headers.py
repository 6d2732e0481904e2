"""The tables of measured versions in the headers of kernel files, written by `python -m
benchmarks.report` from the records.

A header marks the place and the row (of rows_versions.py, or any other) by two lines:

    Measured (row NAME):
    (end of what was measured)

The text between them is replaced by a table for each device that has a record of that row: the rate
of each version, and its share of the library's rate (rows of operations) or of a device copy in the
same run (rows of bytes).
"""

from __future__ import annotations

import json
import pathlib
import re
import textwrap
from typing import Any

BLOCK = re.compile(
    r"^Measured \(row (\w+)\):\n(?:.*\n)*?\(end of what was measured\)$", re.MULTILINE
)


def records(results: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Row -> its records, one per device."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(results.glob("*/rows.json")):
        for record in json.loads(file.read_text()):
            by_name.setdefault(record["name"], []).append(record)
    return by_name


def table(record: dict[str, Any]) -> list[str]:
    """The lines of one record."""
    device = record["device"].split(",")[0]
    results = record["results"]
    width = max(map(len, results)) + 3
    operations = record["unit"] == "FLOP"
    library = list(results)[-1] if operations else "a copy"
    unit, scale = ("TFLOP/s", 1e12) if operations else ("GB/s", 1e9)
    about = f"{record['title']}; {device}, commit {record['commit']}, {record['date']}"
    lines = [
        *textwrap.wrap(about, 100, break_on_hyphens=False),
        "",
        f"    {'':{width}}{unit:>8}{'of ' + library:>14}",
    ]
    for name, result in results.items():
        share = result["rate"] / results[library]["rate"] if operations else result["of_ceiling"]
        rate = result["rate"] / scale
        lines.append(
            f"    {name:{width}}{f'{rate:.1f}' if rate < 100 else f'{rate:,.0f}':>8}{share:>14.2f}"
        )
    return lines


def filled(text: str, by_name: dict[str, list[dict[str, Any]]]) -> str:
    """A file's text with its blocks replaced."""

    def block(match: re.Match[str]) -> str:
        tables = [table(record) for record in by_name.get(match[1], [])]
        inside = [line for lines in tables for line in [*lines, ""]]
        return "\n".join([f"Measured (row {match[1]}):", *inside, "(end of what was measured)"])

    return BLOCK.sub(block, text)


def rewritten(package: pathlib.Path, results: pathlib.Path) -> dict[pathlib.Path, str]:
    """File -> its new text, of those whose headers are not what the records say."""
    by_name = records(results)
    changed = {}
    for file in sorted(package.rglob("*.py")):
        old = file.read_text(encoding="utf-8")
        new = filled(old, by_name)
        if new != old:
            changed[file] = new
    return changed
