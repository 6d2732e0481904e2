"""Every family of functions beside CuPy, in one process: `python -m benchmarks.versus_cupy [PARTS
OF FAMILIES OR TITLES]`.

For each case of benchmarks/functions.py, at three sizes: the host time of a call (call to return),
and the time per call of many calls in a row, by events on the device. The speedup is CuPy's time
over cudamath's: 2 means twice as fast. The speedup of a family is the geometric mean over its
cases. Records go to benchmarks/results/<processor>/cupy.json; `python -m benchmarks.report`
generates README's table from them.

Several processes compile the kernels of both libraries beforehand (--warm), because that takes
longer than measuring.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cudamath as cm
from benchmarks import timer
from benchmarks.families import families, speed
from benchmarks.functions import CASES, Case
from benchmarks.run import RESULTS, environment, folder
from cudamath.timing import interleave, nothing


def chosen(parts: Sequence[str]) -> list[Case]:
    """The cases whose family is, or whose title contains, one of `parts`; all, if there are
    none."""
    return [
        each
        for each in CASES
        if not parts or any(part == each.family or part in each.title for part in parts)
    ]


def measure(
    each: Case, size: str, device: str, libraries: Sequence[timer.Peer]
) -> dict[str, dict[str, float]]:
    """{"host": {library: seconds}, "device": {...}} of a case at a size. On the CPU there is one
    kind of time."""
    arguments = each.arguments(size)
    wait = (
        device == "cpu"
    )  # where libraries share the host's memory, and some cases write to their arguments
    calls = {
        peer.name: each.bind(
            peer.name, peer.library, [peer.array(a.copy() if wait else a) for a in arguments]
        )
        for peer in libraries
    }
    spreads = {
        "host": interleave(
            calls,
            rounds=5,
            seconds=0.0015,
            warm=0.003,
            most=300,
            wait=wait,
            synchronize=nothing if wait else cm.cuda.synchronize,
        )
    }
    if not wait:
        spreads["device"] = timer.on_device(calls, rounds=5, seconds=0.0015, warm=0.01)
    return {
        kind: {name: spread.median for name, spread in durations.items()}
        for kind, durations in spreads.items()
    }


def warm(parts: Sequence[str], device: str, processes: int) -> None:
    """Run every case once in some processes, each its share, so that the kernel caches on disk are
    filled."""
    command = [sys.executable, "-m", "benchmarks.versus_cupy", "--device", device, *parts]
    running = [
        subprocess.Popen([*command, "--share", str(i), str(processes)]) for i in range(processes)
    ]
    for process in running:
        process.wait()


def share(cases: Sequence[Case], device: str, libraries: Sequence[timer.Peer]) -> None:
    """Run cases once for what is compiled on the way; what fails will be reported when it is
    measured. What only the large size needs is little, and drawing its numbers in every process
    would take longer than compiling it."""
    for each in cases:
        for peer in libraries:
            for size in ("small", "medium"):
                try:
                    each.bind(
                        peer.name, peer.library, [peer.array(a) for a in each.arguments(size)]
                    )()
                except Exception:
                    break


def run(
    parts: Sequence[str], device: str, keep: Callable[..., None] = nothing
) -> list[dict[str, Any]]:
    """Measure; one printed line for each case and size. What fails in a library is printed and left
    out."""
    libraries = beside(device)
    records: list[dict[str, Any]] = []
    with cm.device(device):
        for each in chosen(parts):
            for size, n in each.sizes.items():
                try:
                    times = measure(each, size, device, libraries)
                except (
                    Exception
                ) as error:  # one function that a library lacks must not cost the others' figures
                    print(
                        f"{each.family} | {each.title} | {size} | failed: {type(error).__name__}: "
                        f"{error}",
                        flush=True,
                    )
                    continue
                records.append(
                    {"family": each.family, "title": each.title, "size": size, "n": n, **times}
                )
                speeds = [
                    f"{kind} {times[kind]['cudamath'] * 1e6:.1f} us, "
                    f"{speed(records[-1], kind):.2f}x"
                    for kind in times
                ]
                print(f"{each.family} | {each.title} | {size} | " + " | ".join(speeds), flush=True)
            keep(records)
    return records


def beside(device: str) -> list[timer.Peer]:
    """cudamath and CuPy; on the CPU, where there is no CuPy, cudamath and NumPy."""
    return [timer.Cudamath(device), timer.NumPy(device) if device == "cpu" else timer.CuPy(device)]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and keep; exit status 1 where a case failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.versus_cupy", description=__doc__.split("\n")[0]
    )
    parser.add_argument("parts", nargs="*", help="families, or parts of titles (default: all)")
    parser.add_argument("--device", default=str(cm.default_device()))
    parser.add_argument(
        "--out", type=pathlib.Path, help="folder for cupy.json (default: benchmarks/results/...)"
    )
    parser.add_argument(
        "--warm",
        type=int,
        default=min(12, os.cpu_count() or 1),
        help="processes that compile beforehand",
    )
    parser.add_argument("--share", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.share:
        place, count = arguments.share
        with cm.device(arguments.device):
            share(chosen(arguments.parts)[place::count], arguments.device, beside(arguments.device))
        return 0
    out = arguments.out or RESULTS / folder(arguments.device)
    out.mkdir(parents=True, exist_ok=True)
    if arguments.warm and arguments.device != "cpu":
        warm(arguments.parts, arguments.device, arguments.warm)
    where = environment(arguments.device)

    def keep(records: list[dict[str, Any]]) -> None:
        (out / "cupy.json").write_text(json.dumps({**where, "records": records}, indent=1) + "\n")

    records = run(arguments.parts, arguments.device, keep)
    for family, speeds in families(records).items():
        print(
            f"{family:13}"
            + " ".join(f"{kind} {size} {value:.2f}x;" for (kind, size), value in speeds.items())
        )
    return 0 if len(records) == sum(len(each.sizes) for each in chosen(arguments.parts)) else 1


if __name__ == "__main__":
    sys.exit(main())
