"""Speedups by family of functions, and README's table of them, from the record of
benchmarks/versus_cupy.py."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

KINDS = ("host", "device")
SIZES = ("small", "medium", "large")


def speed(record: dict[str, Any], kind: str) -> float:
    """The peer's time over ours.

    >>> speed({"host": {"cudamath": 2.0, "cupy": 3.0}}, "host")
    1.5
    """
    times = record[kind]
    (peer,) = (time for name, time in times.items() if name != "cudamath")
    return peer / times["cudamath"]


def families(records: Sequence[dict[str, Any]]) -> dict[str, dict[tuple[str, str], float]]:
    """Family -> (kind, size) -> speed, the geometric mean over its cases; and "all": over all cases
    alike."""
    means: dict[str, dict[tuple[str, str], float]] = {}
    for family in [*dict.fromkeys(record["family"] for record in records), "all"]:
        members = [record for record in records if family in (record["family"], "all")]
        means[family] = {
            (kind, size): statistics.geometric_mean(
                [speed(record, kind) for record in members if record["size"] == size]
            )
            for kind in KINDS
            for size in SIZES
            if any(kind in record and record["size"] == size for record in members)
        }
    return means


def table(kept: dict[str, Any]) -> list[str]:
    """The Markdown of a record: one row per family, the speedup over the peer on the host and on
    the device."""
    records = kept["records"]
    columns = [
        (kind, size)
        for kind in KINDS
        for size in SIZES
        if any(kind in r and r["size"] == size for r in records)
    ]
    counts = {
        family: len({r["title"] for r in records if family in (r["family"], "all")})
        for family in families(records)
    }
    lines = [
        f"Speedup over CuPy {kept['versions'].get('cupy-cuda13x') or ''} in the same process "
        "(geometric mean over the "
        "functions of a family; small 2^12, medium 2^20, large 2^24 elements; linear algebra up "
        "to 1024x1024); commit "
        f"`{kept['commit']}`, {kept['date']}.",
        "",
        "| family | functions | " + " | ".join(f"{kind}, {size}" for kind, size in columns) + " |",
        "|---" + "|---:" * (len(columns) + 1) + "|",
    ]
    for family, speeds in families(records).items():
        cells = [f"{speeds[column]:.2f}" if column in speeds else "" for column in columns]
        lines.append(f"| {family} | {counts[family]} | " + " | ".join(cells) + " |")
    return lines


def section(folder: pathlib.Path) -> list[str]:
    """The Markdown of a results folder's comparison; nothing where there is none."""
    file = folder / "cupy.json"
    return (
        ["", "**Every family of functions beside CuPy**", "", *table(json.loads(file.read_text()))]
        if file.is_file()
        else []
    )
