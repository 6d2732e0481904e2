"""The programs of tests/programs with cudamath on the CPU beside NumPy: `python -m
benchmarks.numpy_programs`.

Each is a tutorial's or textbook's program, written for NumPy, and runs with either module as it is.
Such programs spend their time on single elements and small arrays. The figure is the processor time
of the process (other processes do not count), the best of several runs that take turns. The first
run of each is not timed: a process that computes for longer than a moment has methods of
ndarray in machine code, and so has this one.

The record goes to benchmarks/results/<processor>/numpy_programs.json, and the page of that folder
shows it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.run import RESULTS, environment, folder
from cudamath.ops import methods

from .format import WRITTEN, duration

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "tests" / "programs"
EACH, MEAN = 2.0, 1.3  # times NumPy's: the most for a program, and as geometric mean


def programs() -> dict[str, Callable[[Any], dict]]:
    """Name -> `main(np)`."""
    names = sorted(p.stem for p in PROGRAMS.glob("*.py") if not p.stem.startswith(("test_", "_")))
    return {name: importlib.import_module(f"tests.programs.{name}").main for name in names}


def seconds(function: Callable[[Any], Any], module: Any) -> float:
    """Processor time of a call."""
    start = time.process_time()
    function(module)
    return time.process_time() - start


def measure(rounds: int) -> list[dict[str, Any]]:
    """Title, seconds with NumPy and with cudamath, and their ratio, of every program."""
    methods.compile_methods()
    measured = []
    with cm.device("cpu"):
        for name, main in programs().items():
            main(np), main(cm)
            times = [(seconds(main, np), seconds(main, cm)) for _ in range(rounds)]
            theirs, ours = map(min, zip(*times, strict=True))
            measured.append({"title": name, "numpy": theirs, "cudamath": ours})
            print(f"{name:22s} {theirs * 1e3:7.2f} ms {ours * 1e3:7.2f} ms {ours / theirs:5.2f}")
    return measured


def ratios(measured: list[dict[str, Any]]) -> list[float]:
    """Time over NumPy's."""
    return [each["cudamath"] / each["numpy"] for each in measured]


def page(results: pathlib.Path) -> str:
    """The page of a folder in which there is no record but this one; empty without it."""
    file = results / "numpy_programs.json"
    if not file.is_file():
        return ""
    title = f"# {json.loads(file.read_text())['device']}"
    return "\n".join([title, "", WRITTEN, *section(results)]) + "\n"


def section(results: pathlib.Path) -> list[str]:
    """The Markdown of the record in a folder; empty where there is none."""
    file = results / "numpy_programs.json"
    if not file.is_file():
        return []
    record = json.loads(file.read_text())
    measured = record["programs"]
    return [
        "",
        "**Programs written for NumPy, on the CPU**",
        "",
        f"{len(measured)} programs of tutorials and textbooks (`tests/programs`): geometric mean "
        f"of time over NumPy's {statistics.geometric_mean(ratios(measured)):.2f}. Commit "
        f"`{record['commit']}`, {record['date']}.",
        "",
        "| program | cudamath | NumPy | time / NumPy's |",
        "|---|---:|---:|---:|",
        *(
            f"| {each['title'].replace('_', ' ')} | {duration(each['cudamath'])} "
            f"| {duration(each['numpy'])} | {each['cudamath'] / each['numpy']:.2f} |"
            for each in measured
        ),
    ]


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and keep the record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.numpy_programs", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=9, help="runs of each program")
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help="folder for numpy_programs.json (default: benchmarks/results/...)",
    )
    chosen = parser.parse_args(argv)
    out = chosen.out or RESULTS / folder("cpu")
    out.mkdir(parents=True, exist_ok=True)
    measured = measure(chosen.rounds)
    record = {"programs": measured, **environment("cpu")}
    (out / "numpy_programs.json").write_text(json.dumps(record, indent=1) + "\n")
    mean, most = statistics.geometric_mean(ratios(measured)), max(ratios(measured))
    print(f"geometric mean {mean:.2f}, most {most:.2f}; wanted: {MEAN} and {EACH}")
    return 0 if mean <= MEAN and most <= EACH else 1


if __name__ == "__main__":
    sys.exit(main())
