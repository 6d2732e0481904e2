"""Writes README's tables and those in kernel files' headers from benchmarks/results/: `python -m benchmarks.report`.

The text between the two markers in README.md is replaced, and what headers.py finds; with --check, nothing is written and the
exit status says whether both are what the records give. Where there are no records, there is no table.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks import charts, headers, latency, models

ROOT = pathlib.Path(__file__).resolve().parents[1]
START, END = "<!-- measured: start -->", "<!-- measured: end -->"
KINDS = {
    "host": "Cost of a call to the host (public call to return, output allocated), float32",
    "device": "Time on the GPU, float32",
    "cpu": "Time on the CPU, float32",
}
LIBRARIES = {"cudamath": "cudamath", "torch": "PyTorch", "cupy": "CuPy", "jax": "JAX", "numpy": "NumPy"}


def duration(seconds: float) -> str:
    """A time with its unit, three digits.

    >>> duration(4.218e-06), duration(0.0372), duration(2.5)
    ('4.22 us', '37.2 ms', '2.5 s')
    """
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def records(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The benchmark rows recorded in a folder; those of headers (headers.py) apart."""
    file = folder / "rows.json"
    found = json.loads(file.read_text()) if file.is_file() else []
    return [row for row in found if not row["name"].startswith("versions_")]


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A Markdown table of rows of one kind: the libraries, and cudamath beside the best of the others."""
    names = [name for name in LIBRARIES if any(name in row["results"] for row in rows)]
    shared = any("of_ceiling" in row["results"]["cudamath"] for row in rows)
    heading = ["operation", *(LIBRARIES[name] for name in names), "time / best peer"]
    if shared:
        heading.append("of the ceiling")
    lines = ["| " + " | ".join(heading) + " |", "|---" + "|---:" * (len(heading) - 1) + "|"]
    for row in rows:
        results = row["results"]
        cells = [row["title"].replace("|", "\\|")]
        cells += [duration(results[name]["median"]) if name in results else "" for name in names]
        peers = [results[name]["median"] for name in names if name in results and name != "cudamath"]
        cells.append(f"{results['cudamath']['median'] / min(peers):.2f}" if peers else "")
        if shared:
            share = results["cudamath"].get("of_ceiling")
            cells.append(f"{share:.0%}" if share is not None else "")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def kernels(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A Markdown table of the kernels that were timed by name."""
    lines = []
    for row in rows:
        fastest = min(result["median"] for result in row["results"].values())
        for name, result in row["results"].items():
            if name not in LIBRARIES:
                lines.append(f"| `{name}` | {row['title']} | {duration(result['median'])} "
                             f"| {fastest / result['median']:.2f} |")
    head = ["| kernel | operation | time | speed, fastest in the row = 1 |", "|---|---|---:|---:|"]
    return head + lines if lines else []


def where(rows: Sequence[dict[str, Any]]) -> str:
    """The line under a heading: commits, date and versions."""
    record = rows[0]
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(row["commit"] for row in rows))
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items()
                         if version and name in ("numpy", "torch", "cupy", "cupy-cuda13x", "jax", "numba-cuda"))
    return f"Commit{'s' if ', ' in commits else ''} {commits}, {record['date']}; {versions}."


def section(folder: pathlib.Path) -> list[str]:
    """The Markdown of one results folder."""
    lines: list[str] = []
    rows = records(folder)
    for kind, title in KINDS.items():
        chosen = [row for row in rows if row["kind"] == kind]
        if not chosen:
            continue
        lines += ["", f"**{title}**", "", *table(chosen)]
        lines += ["", *kernels(chosen)] if kernels(chosen) else []
    if rows:
        ceiling = rows[0]["ceilings"]
        lines = [
            f"### {rows[0]['device']}", "", where(rows)
            + f" Ceilings measured in the same run: copy {ceiling['B'] / 1e9:,.0f} GB/s (read and written), "
              f"float32 product {ceiling['FLOP'] / 1e12:.3g} TFLOP/s.", *lines]
    lines += charts.section(folder)
    lines += latency.section(folder, duration)
    lines += models.section(folder)
    for path in sorted(folder.glob("tests*.json")):
        tests = json.loads(path.read_text())
        lines += ["", f"Tests marked `{tests['marks']}` on {tests['devices']} GPU(s) ({tests['device']}): "
                  f"{tests['passed']} passed, {tests['failed'] + tests['error']} failed, {tests['skipped']} skipped; "
                  f"commit `{tests['commit']}`, {tests['date']}."]
    demo = folder / "demo.json"
    if demo.is_file():
        ran = json.loads(demo.read_text())
        training = ran["training"]
        lines += ["", f"The demo there: {training['accuracy']:.2%} held-out accuracy after {training['epochs']} "
                  f"epochs, {training['seconds']:.1f} s."]
    return lines


def markdown(results: pathlib.Path) -> str:
    """Everything between the markers."""
    folders = sorted(path for path in results.iterdir() if path.is_dir()) if results.is_dir() else []
    blocks = ["\n".join(section(folder)).strip() for folder in folders]
    return "\n\n".join(block for block in blocks if block)


def replaced(readme: str, text: str) -> str:
    """README with the text between its markers replaced."""
    before, found, rest = readme.partition(START)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"report: README has no {START} ... {END}")
    return before + START + "\n" + (text + "\n" if text else "") + END + after


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite README, or check it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if README is not up to date")
    arguments = parser.parse_args(argv)
    if not arguments.check:
        for folder in (ROOT / "benchmarks" / "results").glob("*/"):
            charts.draw(records(folder), folder)
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = replaced(old, markdown(ROOT / "benchmarks" / "results"))
    changed = headers.rewritten(ROOT / "cudamath", ROOT / "benchmarks" / "results")
    if arguments.check:
        return 0 if new == old and not changed else 1
    path.write_text(new, encoding="utf-8")
    for file, text in changed.items():
        file.write_text(text, encoding="utf-8")
    for sweep in (ROOT / "benchmarks" / "results").glob("*/sweep.json"):
        latency.sweep_chart(json.loads(sweep.read_text()), sweep.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
