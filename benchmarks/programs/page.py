"""The programs' part of a device's page of records."""

from __future__ import annotations

import json
import pathlib
import statistics
from typing import Any

from benchmarks.format import duration

THEIRS = ("torch", "compile", "reduce-overhead")


def speedup(record: dict[str, Any]) -> float | None:
    """The time of the fastest of PyTorch's three over that of `cm.jit`; None where one is
    missing."""
    theirs = [record[p]["seconds"] for p in THEIRS if "seconds" in record.get(p, {})]
    ours = record.get("jit", {}).get("seconds")
    return min(theirs) / ours if theirs and ours else None


def section(results: pathlib.Path) -> list[str]:
    """The Markdown of the record in a folder; empty where there is none."""
    file = results / "programs.json"
    if not file.is_file():
        return []
    record = json.loads(file.read_text())
    programs = record["programs"]
    ratios = [x for x in map(speedup, programs.values()) if x is not None]
    mean = f": geometric mean {statistics.geometric_mean(ratios):.2f}" if ratios else ""
    return [
        "",
        "**Programs written the plain way**",
        "",
        f"{len(programs)} programs (`benchmarks/programs`), a step of each: by `cm.jit` and "
        "eagerly, beside PyTorch eagerly, by `torch.compile`, and by its mode reduce-overhead "
        "(reduced). "
        f"The speedup is that of `cm.jit` over the fastest of the three{mean}. First: seconds of "
        "the first call without a cache, beside torch.compile's. "
        f"Commit `{record['commit']}`, {record['date']}.",
        "",
        "| program | jit | eager | PyTorch | compile | reduced | speedup | first | theirs |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *[_row(name, one) for name, one in programs.items()],
    ]


def _row(name: str, record: dict[str, Any]) -> str:
    """A line of the table; a dash for what did not run."""

    def figure(peer: str, what: str) -> str:
        value = record.get(peer, {}).get(what)
        return "-" if value is None else duration(value)

    ratio = speedup(record)
    cells = [name.replace("_", " ")]
    cells += [figure(peer, "seconds") for peer in ("jit", "eager", *THEIRS)]
    cells += ["-" if ratio is None else f"{ratio:.2f}"]
    cells += [figure("jit", "first_call"), figure("compile", "first_call")]
    return f"| {' | '.join(cells)} |"
