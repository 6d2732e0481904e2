"""Kernels under NVIDIA's compute-sanitizer: `python -m benchmarks.sanitize [--out FILE] [--tools memcheck racecheck]`.

Each version of each matrix kernel, and one call of every other family, runs at one small size under each tool, in a few
processes side by side, after a run without a tool that fills the cache of compiled kernels. What the tool reports is counted
for the case that was running. Errors that the driver returns to a caller who asked (is this pointer known to you?) are part of
its protocol and are not reported. A process that takes too long is stopped; the record then names the case it was at.
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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.run import RESULTS, environment, folder

CASE = "case: "
#: Numba's name of a kernel: its own is the last.
DEMANGLED = re.compile(r"(?:\w+::)+(\w+)\[abi:[^\]]*\](?:\(.*?\))?(?=\+0x| in |$)")
REPORT = re.compile(r"^========= (?:Error: |Warning: |Race|Invalid|Uninitialized|Barrier|Fatal|Leaked)")
Calls = dict[str, Callable[[], Any]]


def array(*shape: int, dtype: Any = "float32") -> cm.ndarray:
    """Random numbers on the GPU."""
    return cm.asarray(np.random.default_rng(0).standard_normal(shape, dtype=np.float32)).astype(dtype)


def planned(planner: Callable, *arrays: cm.ndarray, **options: Any) -> Any:
    """What a planner's plan gives for these arrays."""
    layouts = [a._layout for a in arrays]
    return planner(*layouts, **options).bind("sanitize", layouts)(*arrays)


def products() -> Calls:
    """Versions of matrix products, and of the layer."""
    from cudamath.kernels import linear, matmul

    calls: Calls = {}
    versions = {"float32": ["naive", "tiled", "register", "block", "small"],
                "bfloat16": ["register", "mma", "wgmma 64x64", "wgmma 128x256", "wgmma 128x128 pingpong", "wgmma 192x128",
                             "wgmma 64x128 split 2", "wgmma 64x128 share 3"],
                "float64": ["mma"], "int8": ["mma", "wgmma 64x128"]}
    for dtype, names in versions.items():
        a, b = array(200, 264, dtype=dtype), array(264, 136, dtype=dtype)
        for name in names:
            calls[f"matmul {name}, {dtype}"] = functools.partial(planned, matmul.matmul, a, b, version=name)
            calls[f"matmul {name}, {dtype}, tt"] = functools.partial(planned, matmul.matmul, b.mT, a.mT, version=name)
    x, w, bias, more = (array(*s, dtype="bfloat16") for s in ((200, 264), (136, 264), (136,), (200, 136)))
    for f in ("gelu", "gelu_tanh", "relu", "silu"):
        calls[f"linear {f}"] = functools.partial(planned, linear.linear, x, w, bias, more, activation=f)
    return calls


def convolutions() -> Calls:
    """Versions of convolutions and their gradients."""
    from cudamath.kernels import conv

    calls: Calls = {}
    where: dict[str, Any] = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    for dtype, versions in {"float32": [("direct", "weight_direct"), ("implicit_gemm", "weight_gemm")],
                            "bfloat16": [("mma", "mma"), ("wgmma", "wgmma")]}.items():
        x, w, g = (array(*s, dtype=dtype).transpose(0, 3, 1, 2) for s in ((2, 9, 11, 64), (72, 3, 3, 64), (2, 9, 11, 72)))
        for version, weight in versions:
            end = f"{version}, {dtype}"
            calls[f"conv2d {end}"] = functools.partial(planned, conv.conv2d, x, w, **where, version=version)
            calls[f"conv2d_input_grad {end}"] = functools.partial(
                planned, conv.conv2d_input_grad, g, w, size=(9, 11), **where, version=version)
            calls[f"conv2d_weight_grad {end}"] = functools.partial(
                planned, conv.conv2d_weight_grad, g, x, kernel=(3, 3), **where, version=weight)
    return calls


def attentions() -> Calls:
    """Versions of attention, forward and backward."""
    from cudamath.kernels import attention

    calls: Calls = {}
    options: dict[str, Any] = {"causal": True, "scale": 0.1, "dropping": False}
    for dtype, version in (("float32", "plain"), ("bfloat16", "mma"), ("bfloat16", "wgmma"), ("bfloat16", "decode")):
        q, k = array(1, 2, 3 if version == "decode" else 150, 64, dtype=dtype), array(1, 2, 150, 64, dtype=dtype)

        def both(q: Any = q, k: Any = k, version: str = version) -> None:
            y, lse = planned(attention.attention, q, k, k, **options, version=version)
            if version != "decode":
                planned(attention.attention_grad, q, q, k, k, y, lse, **options, version=version)

        calls[f"attention {version}, {dtype}"] = both
    return calls


def families() -> Calls:
    """One call of every other family, through the public functions."""
    x, small, i = array(70, 300), array(5, 7), cm.asarray(np.random.default_rng(1).integers(0, 70, 50))
    images, square = array(2, 8, 10, 12), array(2, 8, 16, 16)
    tall, places = array(300, 64), cm.asarray(np.random.default_rng(2).integers(0, 64, (300, 32)))
    return {
        "elementwise": lambda: cm.exp(x) + x[:, ::-1], "reduce": lambda: (x.sum(), x.sum(0), x.mean(1), x.max()),
        "scan": lambda: (cm.cumulative_sum(x, axis=1), cm.cumulative_sum(x, axis=0), cm.cumulative_sum(array(40_000), axis=0)),
        "sort": lambda: (cm.sort(x, axis=1), cm.argsort(x.reshape(-1))), "search": lambda: cm.searchsorted(cm.sort(x[0]), x[1]),
        "index": lambda: (x[i], cm.take(x, i, axis=0), cm.nonzero(x), cm.take_along_axis(tall, places, axis=1)),
        "copy": lambda: cm.concat([x.mT.copy(), x.mT]),
        "random": lambda: (cm.random.normal(size=1000), cm.random.permutation(500)), "histogram": lambda: cm.histogram(x),
        "softmax": lambda: cm.ml.softmax(x), "layer_norm": lambda: cm.grad(lambda v: cm.ml.layer_norm(v, 300).sum())(x),
        "cross_entropy": lambda: cm.ml.cross_entropy(small, cm.asarray([1, 2, 3, 4, 5])),
        "max_pool2d": lambda: (cm.grad(lambda v: cm.ml.max_pool2d(v, 2).sum())(images),
                               cm.grad(lambda v: (cm.ml.max_pool2d(v, 3, 2, 1) ** 2).sum())(square)),
        "batch_norm": lambda: cm.ml.batch_norm(images, None, None, training=True), "embedding": lambda: cm.ml.embedding(i, x),
        "fft": lambda: cm.fft.fft(x), "einsum": lambda: cm.einsum("ij,kj->ik", x, x), "det": lambda: cm.linalg.det(x[:70, :70])}


def cases() -> Calls:
    """Everything that is checked."""
    return {**products(), **convolutions(), **attentions(), **families()}


def run_cases(only: str, part: int, parts: int) -> None:
    """In a checked process: run every `parts`-th of those whose names contain `only`; say before each which it is."""
    with cm.device("cuda:0"):
        chosen = [(name, call) for name, call in cases().items() if only in name]
        for name, call in chosen[part::parts]:
            print(CASE + name, flush=True)
            try:
                call()
                cm.cuda.synchronize()
            except Exception as error:  # a kernel that this device lacks, or one that the tool stopped
                print(f"did not run: {type(error).__name__}: {error}", flush=True)
    print(CASE + "end", flush=True)


def summary(log: str) -> dict[str, Any]:
    """From a log: how many cases ran, what was reported of which, which did not run, and where it stopped before the end."""
    counted, name = 0, "before the first"
    reports: dict[str, list[str]] = {}
    absent: dict[str, str] = {}
    for line in log.splitlines():
        if line.startswith(CASE):
            name = line.removeprefix(CASE)
            counted += name != "end"
        elif line.startswith("did not run: "):
            absent[name] = line.removeprefix("did not run: ")[:200]
        elif REPORT.match(line):
            reports.setdefault(name, []).append(DEMANGLED.sub(r"\1", line.removeprefix("========= "))[:400])
        elif line.startswith("=========     and ") and name in reports:  # the other access of a race
            reports[name][-1] += DEMANGLED.sub(r"\1", line.removeprefix("=========    "))[:400]
    return {"cases": counted - len(absent), "stopped_at": [] if name == "end" else [name], "did_not_run": absent,
            "reports": {case: {"count": len(lines), "first": lines[0]} for case, lines in reports.items()}}


def together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The summary of a run from those of its processes."""
    return {"cases": sum(each["cases"] for each in parts),
            "stopped_at": [name for each in parts for name in each["stopped_at"]],
            **{key: {name: what for each in parts for name, what in each[key].items()} for key in ("did_not_run", "reports")}}


def side_by_side(command: Sequence[str], only: str, parts: int, seconds: float, logs: pathlib.Path, name: str) -> list[str]:
    """Run the cases in so many processes under this command ([]: no tool), and give their logs; stopped after `seconds`."""
    files, running = [], []
    for part in range(parts):
        files.append(logs / f"{name}-{part}.txt")
        with files[-1].open("w") as file:  # a file: what was said before a process was stopped is kept
            running.append(subprocess.Popen(
                [*command, sys.executable, "-m", "benchmarks.sanitize", "--cases", str(part), str(parts), "--only", only],
                stdout=file, stderr=subprocess.STDOUT, start_new_session=True))
    end = time.monotonic() + seconds
    for process in running:
        try:
            process.wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the tool and what runs under it
            process.wait()
    return [file.read_text(errors="replace") for file in files]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tools and write the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sanitize", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, help="JSON file (default: benchmarks/results/<gpu>/sanitizer.json)")
    parser.add_argument("--tools", nargs="+", default=["memcheck", "racecheck"])
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--cases", type=int, nargs=2, metavar=("PART", "PARTS"), help="run a part of them here, under no tool")
    parser.add_argument("--parts", type=int, default=4, help="processes side by side")
    parser.add_argument("--seconds", type=float, default=600, help="stop a tool after so long")
    arguments = parser.parse_args(argv)
    if arguments.cases:
        run_cases(arguments.only, *arguments.cases)
        return 0
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    file = arguments.out or RESULTS / folder("cuda") / "sanitizer.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        run = functools.partial(side_by_side, only=arguments.only, parts=arguments.parts, seconds=arguments.seconds,
                                logs=pathlib.Path(name))
        for tool in ("none", *arguments.tools):
            options = ["--report-api-errors", "no"] if tool == "memcheck" else []
            began = time.monotonic()
            texts = run([] if tool == "none" else [program, "--tool", tool, *options], name=tool)
            found[tool] = {**together([summary(text) for text in texts]), "seconds": round(time.monotonic() - began, 1)}
            print(tool, json.dumps(found[tool], indent=1), *[line for text in texts for line in text.splitlines()[-2:]],
                  sep="\n", flush=True)
            if tool != "none":
                kept = {each: found[each] for each in found if each != "none"}
                file.write_text(json.dumps({**kept, **environment("cuda")}, indent=1) + "\n")
    return int(any(each["reports"] or each["stopped_at"] for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())
