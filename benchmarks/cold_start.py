"""Time from the start of a process to its first results: `python -m benchmarks.cold_start`.

Each library runs in new processes that import it, multiply two matrices, convolve an image and
compute a softmax; each result is copied to the host. The record holds the time from the start of
the interpreter to each result, including the context of the GPU: the median over processes that
take turns, with warm disk caches. CuPy has no convolution; for comparison with its softmax, further
processes of the others skip the convolution ("short").

A process that follows a large one starts up to a tenth of a second later. So each process follows
one of the same library, after a pause. A second table holds the compile time of each kernel of
cudamath in a process with an empty cache: of its variants, the slowest.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

STEPS = ("import", "matmul", "conv2d", "softmax", "short")
APART = 0.5  # seconds between two processes

PROLOGUE = """
import json, sys, time
began = float(sys.argv[1])
def done(step):
    print(json.dumps([step, time.time() - began]), flush=True)
"""
#: What each library's process runs; `done` writes down the time since the interpreter was started.
PROGRAMS = {
    "cudamath": """
import numpy as np
import cudamath as cm
done("import")
a = cm.asarray(np.ones((512, 512), np.float32))
(a @ a).to_numpy(); done("matmul")
x = cm.asarray(np.ones((8, 16, 32, 32), np.float32))
w = cm.asarray(np.ones((32, 16, 3, 3), np.float32))
cm.ml.conv2d(x, w, padding=1).to_numpy(); done("conv2d")
cm.ml.softmax(a).to_numpy(); done("softmax")
""",
    "torch": """
import numpy as np
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.backends.cudnn.allow_tf32 = False
done("import")
a = torch.from_numpy(np.ones((512, 512), np.float32)).to(device)
(a @ a).cpu(); done("matmul")
x = torch.from_numpy(np.ones((8, 16, 32, 32), np.float32)).to(device)
w = torch.from_numpy(np.ones((32, 16, 3, 3), np.float32)).to(device)
torch.nn.functional.conv2d(x, w, padding=1).cpu(); done("conv2d")
torch.softmax(a, -1).cpu(); done("softmax")
""",
    "cupy": """
import numpy as np
import cupy
from cupyx.scipy.special import softmax
done("import")
a = cupy.asarray(np.ones((512, 512), np.float32))
(a @ a).get(); done("matmul")
softmax(a, -1).get(); done("softmax")
""",
}
COMPILES = """
import time
from cudamath.kernels.compiler import compile as build
whole = build.compile_now
def timed(kernel, arguments, cc):
    start = time.perf_counter()
    result = whole(kernel, arguments, cc)
    seconds = time.perf_counter() - start
    print(json.dumps(["compile " + kernel.py_func.__name__, seconds]), flush=True)
    return result
build.compile_now = timed
"""
#: Every `parts`-th of the cases that reach the kernels of all families, versions by name among
#: them.
VERSIONS = """
import cudamath as cm
from benchmarks import sanitize_cases as cases
made = {}
for family in (cases.products, cases.convolutions, cases.attentions, cases.packed, cases.versions,
cases.families):
    made |= family()
for name, call in [*made.items()][%d::%d]:
    try:
        call()
    except Exception as error:  # a version that this device lacks
        print(name, error)
cm.cuda.synchronize()
"""


def run(program: str, device: str, **variables: str) -> dict[str, float]:
    """{step: seconds} of one new process; empty where the library is missing or something
    failed."""
    environment = os.environ | {"CUDAMATH_DEVICE": device} | variables
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ran = subprocess.run(
        [sys.executable, "-c", PROLOGUE + program, repr(time.time())],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if ran.returncode:
        print(ran.stderr[-600:], flush=True)
    times: dict[str, float] = {}
    for line in ran.stdout.splitlines():
        if line.startswith("["):
            step, seconds = json.loads(line)
            times[step] = max(seconds, times.get(step, 0.0))
    return times if not ran.returncode else {}


def shorter(program: str) -> str:
    """The program without its convolution, whose softmax is the step "short"."""
    kept = [
        line
        for line in program.splitlines()
        if "conv2d" not in line and not line.startswith(("x =", "w ="))
    ]
    return "\n".join(kept).replace('done("softmax")', 'done("short")')


def measure(device: str, rounds: int) -> dict[str, dict[str, float]]:
    """{library: {step: median seconds}}; a first round, which fills the disk's caches, does not
    count."""
    programs = {name: text for name, text in PROGRAMS.items() if name != "cupy" or device != "cpu"}
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as bytecode:
        for turn in range(rounds + 1):
            for name, text in programs.items():
                runs = []
                for program in (text, shorter(text), text) if "conv2d" in text else (text, text):
                    time.sleep(APART)
                    runs.append(run(program, device, PYTHONPYCACHEPREFIX=bytecode))
                if turn and all(runs):
                    samples[name].append(functools.reduce(operator.or_, runs[1:]))
    return {
        name: {
            step: statistics.median(each[step] for each in kept)
            for step in STEPS
            if step in kept[0]
        }
        for name, kept in samples.items()
        if kept
    }


def compile_times(device: str, parts: int) -> dict[str, float]:
    """{kernel: seconds, the longest of its variants} in so many processes with an empty cache
    each."""

    def part(k: int) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as cache:
            return run(COMPILES + VERSIONS % (k, parts), device, CUDAMATH_CACHE_DIR=cache)

    times: dict[str, float] = {}
    with ThreadPoolExecutor(parts) as processes:
        for each in processes.map(part, range(parts)):
            for step, seconds in each.items():
                name = step.removeprefix("compile ")
                times[name] = max(seconds, times.get(name, 0.0))
    return times


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and keep the record."""
    import cudamath as cm
    from benchmarks.run import RESULTS, environment, folder

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cold_start", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--device", default=str(cm.default_device()))
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help="folder for cold_start.json (default: benchmarks/results/...)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="of processes (0: only how long kernels take to compile)",
    )
    chosen = parser.parse_args(argv)
    out = chosen.out or RESULTS / folder(chosen.device)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "cold_start.json"
    record: dict[str, Any] = (
        json.loads(file.read_text()) if file.exists() and not chosen.rounds else {}
    )
    where = environment(chosen.device)

    def keep(record: dict[str, Any]) -> None:
        file.write_text(json.dumps(record, indent=1) + "\n")

    if chosen.rounds:
        record["first"] = measure(chosen.device, chosen.rounds)
        print(json.dumps(record["first"], indent=1), flush=True)
        keep(record | where)  # compiling takes a minute: what there is is kept if it is cut off
    if chosen.device != "cpu":
        record["compile"] = compile_times(chosen.device, max(1, min(14, (os.cpu_count() or 1) - 2)))
        print(json.dumps(record["compile"], indent=1), flush=True)
    keep(
        record
        | (
            {"compile_commit": where["commit"]}
            if not chosen.rounds and "commit" in record
            else where
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
