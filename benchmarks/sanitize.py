"""Kernels under NVIDIA's compute-sanitizer: `python -m benchmarks.sanitize [--out FILE] [--tools
memcheck racecheck]`.

Each version of each matrix kernel, one call of every other family and every function with its
gradient (sanitize_cases.py) runs at one small size under each tool. A first run without a tool
fills the cache of compiled kernels; then a few processes run side by side. A report of the tool
counts for the case that was running. Errors that the driver returns as answers to a query (whether
it knows a pointer) are part of its protocol and are not reported. A process that exceeds its time
limit is stopped; the record names its last case. Processes take the cases in turn, as each has
done its last, so that none is left with the dear ones.

Some reports are known not to be faults of ours: of a library's own kernels, and of what a tool does
not follow. EXPLAINED says which, and why; a record keeps them apart, under "explained".
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import cudamath as cm
from benchmarks.run import RESULTS, environment, folder
from benchmarks.sanitize_cases import cases

CASE, ABSENT = "case: ", "did not run: "
#: Numba's name of a kernel: its own is the last.
DEMANGLED = re.compile(r"(?:\w+::)+(\w+)\[abi:[^\]]*\](?:\(.*?\))?(?=\+0x| in |$)")
REPORT = re.compile(
    r"^========= (?:Error: |Warning: |Race|Invalid|Uninitialized|Barrier|Fatal|Leaked)"
)


class Explained(NamedTuple):
    """Reports that are no faults: of which tool and cases, which reports (regular expressions), and
    why; until: the first version of the sanitizer that should not make them any more."""

    tool: str
    case: str
    report: str
    why: str
    until: tuple[int, ...] = (9999,)


EXPLAINED = (
    Explained(
        "initcheck",
        "attention",
        r"read of size 16 bytes at attention_grad_finish\+",
        "It reads sums that the kernel before has written by cp.async.bulk and "
        "cp.reduce.async.bulk, which initcheck follows from 2025.4 on "
        "(docs.nvidia.com/compute-sanitizer/ReleaseNotes).",
        until=(2025, 4),
    ),
    Explained(
        "initcheck",
        "matmul sm80, int8",
        r"read of size 16 bytes at matmul_mma\+",
        "At the end of a row of 264 bytes cp.async is told to read 8 of its 16 bytes, and to write "
        "zeros for the others (src-size, in the PTX ISA); the tool counts 16. The rows are 136, "
        "each read twice: 272 reports.",
    ),
    Explained(
        "initcheck",
        "svd by products",
        r"at void lacpy_kernel<",
        "A kernel of cuSOLVER's. orgqr copies a whole array, of which the columns behind those of "
        "the reflections hold nothing yet: it writes them (LAPACK's xORGQR).",
    ),
    Explained(
        "racecheck",
        "eigh, large",
        r"between Write access at (\w*syr2k\w*cublas)\+\S+ and Read access at \1\+",
        "Both accesses are in a kernel of cuBLAS's, which cuSOLVER runs.",
    ),
)


def explanation(tool: str, case: str, report: str, sanitizer: str) -> str | None:
    """Why a report of this version of the sanitizer is no fault; None where nobody knows."""
    release = tuple([int(n) for n in re.findall(r"\d+", sanitizer)])
    for one in EXPLAINED:
        named = one.tool == tool and re.match(one.case, case)
        if named and re.search(one.report, report) and release < one.until:
            return one.why
    return None


def run_cases(only: str, taken: pathlib.Path) -> None:
    """In a checked process: run those whose names contain `only` and that no process has taken
    before, which a file in `taken` tells; say before each which it is. After an error that leaves
    the device unusable, the process ends."""
    with cm.device("cuda:0"):
        chosen = [(name, call) for name, call in cases().items() if only in name]
        for number, (name, call) in enumerate(chosen):
            try:
                (taken / str(number)).touch(exist_ok=False)
            except FileExistsError:
                continue
            print(CASE + name, flush=True)
            try:
                call()
                cm.cuda.synchronize()
            except (
                Exception
            ) as error:  # a kernel that this device lacks, or one that the tool stopped
                print(f"{ABSENT}{type(error).__name__}: {error}", flush=True)
                if isinstance(error, cm.cuda.CudaError) and not isinstance(
                    error, cm.cuda.OutOfMemoryError
                ):
                    return
    print(CASE + "end", flush=True)


def summary(log: str, tool: str = "", sanitizer: str = "") -> dict[str, Any]:
    """From a log of a tool, of this version of the sanitizer: how many cases ran, what was reported
    of which, what of that is explained, which did not run, and where it stopped before the end."""
    counted, name = 0, "before the first"
    reports: dict[str, list[str]] = {}
    absent: dict[str, str] = {}
    for line in log.splitlines():
        if line.startswith(CASE):
            name = line.removeprefix(CASE)
            counted += name != "end"
        elif line.startswith(ABSENT):
            absent[name] = line.removeprefix(ABSENT)[:200]
        elif REPORT.match(line):
            reports.setdefault(name, []).append(
                DEMANGLED.sub(r"\1", line.removeprefix("========= "))[:400]
            )
        elif name in reports and (
            line.startswith("=========     and ")  # the other access of a race
            or (line.startswith("=========     at ") and " at " not in reports[name][-1])
        ):
            reports[name][-1] += DEMANGLED.sub(r"\1", line.removeprefix("=========    "))[:400]
    faults: dict[str, Any] = {}
    explained: dict[str, Any] = {}
    for case, lines in reports.items():
        reasons = [explanation(tool, case, line, sanitizer) for line in lines]
        for line, why in zip(lines, reasons, strict=True):
            if why is None:
                faults.setdefault(case, {"count": 0, "first": line})["count"] += 1
            else:
                first = {"count": 0, "first": line, "why": why}
                explained.setdefault(case, first)["count"] += 1
    return {
        "cases": counted - len(absent),
        "stopped_at": [] if name == "end" else [name],
        "did_not_run": absent,
        "reports": faults,
        "explained": explained,
    }


def version(about: str) -> str:
    """From what the sanitizer says of itself: its version."""
    match = re.search(r"^Version (\S+)", about, re.MULTILINE)
    return match[1] if match else about


def together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The summary of a run from those of its processes."""
    return {
        "cases": sum(each["cases"] for each in parts),
        "stopped_at": [name for each in parts for name in each["stopped_at"]],
        **{
            key: {name: what for each in parts for name, what in each[key].items()}
            for key in ("did_not_run", "reports", "explained")
        },
    }


def in_turn(
    command: Sequence[str], only: str, taken: pathlib.Path, end: float, file: pathlib.Path
) -> str:
    """The cases that nobody else takes under this command ([]: no tool): the log. Where a process
    ends early, another goes on behind the case it was at; at the time `end` all is stopped."""
    reached = 0
    while (left := end - time.monotonic()) > 0:
        with file.open("a") as log:  # a file: what was said before a process was stopped is kept
            process = subprocess.Popen(
                [
                    *command,
                    sys.executable,
                    "-m",
                    "benchmarks.sanitize",
                    "--cases",
                    str(taken),
                    "--only",
                    only,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(left)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the tool and what runs under it
                process.wait()
                break
        lines = file.read_text(errors="replace").splitlines()
        began = [i for i, line in enumerate(lines) if line.startswith(CASE)]
        if len(began) <= reached or lines[began[-1]] == CASE + "end":
            break
        if not any(line.startswith(ABSENT) for line in lines[began[-1] :]):
            with file.open("a") as log:
                log.write(f"{ABSENT}its process ended\n")
        reached = len(began)
    return file.read_text(errors="replace")


def side_by_side(
    command: Sequence[str], only: str, parts: int, seconds: float, logs: pathlib.Path, name: str
) -> list[str]:
    """Run the cases in so many processes under this command, and give their logs; stopped after
    `seconds`."""
    end = time.monotonic() + seconds
    taken = logs / f"{name}-taken"
    taken.mkdir()

    def log(part: int) -> str:
        return in_turn(command, only, taken, end, logs / f"{name}-{part}.txt")

    with ThreadPoolExecutor(parts) as threads:
        return list(threads.map(log, range(parts)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tools and write the record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sanitize", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help="JSON file (default: benchmarks/results/<gpu>/sanitizer.json)",
    )
    parser.add_argument("--tools", nargs="+", default=["memcheck", "racecheck"])
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument(
        "--cases",
        type=pathlib.Path,
        metavar="TAKEN",
        help="run here, under no tool, the cases that no file in this folder names",
    )
    parser.add_argument("--parts", type=int, default=4, help="processes side by side")
    parser.add_argument("--seconds", type=float, default=600, help="stop a tool after so long")
    arguments = parser.parse_args(argv)
    if arguments.cases:
        run_cases(arguments.only, arguments.cases)
        return 0
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    file = arguments.out or RESULTS / folder("cuda") / "sanitizer.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    about = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout
    reports: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        run = functools.partial(
            side_by_side,
            only=arguments.only,
            parts=arguments.parts,
            seconds=arguments.seconds,
            logs=pathlib.Path(name),
        )
        for tool in ("none", *arguments.tools):
            options = ["--report-api-errors", "no"] if tool == "memcheck" else []
            began = time.monotonic()
            texts = run([] if tool == "none" else [program, "--tool", tool, *options], name=tool)
            reports[tool] = {
                **together([summary(text, tool, version(about)) for text in texts]),
                "seconds": round(time.monotonic() - began, 1),
            }
            print(
                tool,
                json.dumps(reports[tool], indent=1),
                *[line for text in texts for line in text.splitlines()[-2:]],
                sep="\n",
                flush=True,
            )
            if tool != "none":
                kept = {each: reports[each] for each in reports if each != "none"}
                file.write_text(
                    json.dumps(
                        {**kept, "sanitizer": version(about), **environment("cuda")}, indent=1
                    )
                    + "\n"
                )
    return int(any(each["reports"] or each["stopped_at"] for each in reports.values()))


if __name__ == "__main__":
    sys.exit(main())
