"""SciPy's functions beside cupyx.scipy and jax.scipy, in one process on one GPU.

    python -m benchmarks.scipy_libraries [FAMILY ...] [--seed 1] [--count 1] [--seconds 240]
                                         [--warm PROCESSES] [--most ELEMENTS]
                                         [--turns SECONDS] [--only NAME ...] [--skip NAME ...]
                                         [--record FILE] [--check] [--list]

The families are special functions, Fourier transforms, linear algebra and sparse arrays; a row is a
function, a dtype and a random size, the same ones for a seed everywhere (scipy_rows.py). Printed
are device times (medians of turns in random order, queued behind a pause so that the host is not
seen), the ratio of each library's time to ours (above 1: ours is faster), and for each family and
library the geometric mean, quantiles and the least rows. Every library's result is compared with
SciPy's in float64, or mpmath's where these are stored (special functions). A library that is not
installed, or refuses a row, is named and left out.

Most of a new machine's time goes into compiling: --warm does it in so many processes before
anything is timed. JAX's functions are jitted; its calls run in a stream of its own, so they are
timed together, behind a pause of that stream, less the pause.

`--check` times nothing, and runs on the CPU, too.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import importlib
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy

import cudamath as cm
from benchmarks.planner_cases import Case
from benchmarks.random_cases import TOLERANCE, behind, clocked, summary
from benchmarks.scipy_rows import FAMILIES, LARGE, Work, host, of_digits, wide

Call = Callable[[], Any]
ENDLESS = ("exp1", "expi", "expn")  # of JAX 0.10, for some numbers
SECONDS = 0.4  # of turns, for a row
LONGEST = 60  # seconds, after which a case ends the process: loops of JAX's may be endless
LEAST = 3  # rows that are printed again at the end
RESOLUTION = {"float32": TOLERANCE["float32"], "float64": 1e-12}  # what SciPy's own digits allow
PAUSED = 64e-6  # seconds of a call of JAX's on the host


# -------------------- the libraries: their modules, and a call of theirs


def ours(work: Work, device: str) -> Call:
    arrays = work.prepare(cm, *[cm.asarray(each, device=device) for each in work.arrays])
    return lambda: work.expression(cm, *arrays)


def cupys(work: Work, family: str, case: Case) -> Call:
    import cupy
    import cupyx.scipy as module

    importlib.import_module(f"cupyx.scipy.{family}")
    if family == "sparse":
        importlib.import_module("cupyx.scipy.sparse.linalg")
    arrays = work.prepare(module, *[cupy.asarray(each) for each in work.arrays])
    return lambda: work.expression(module, *arrays)


def jaxs(work: Work, family: str, case: Case) -> Call:
    """Special functions alone: JAX's other functions are NumPy's."""
    if family != "special":
        raise ImportError("not compared")
    if case["name"] in ENDLESS:
        raise ValueError("its loop does not end for some numbers")
    import jax
    import jax.scipy.special

    arrays = [jax.device_put(each) for each in work.arrays]
    return functools.partial(jax.jit(functools.partial(work.expression, jax.scipy)), *arrays)


PEERS: dict[str, Callable[[Work, str, Case], Call]] = {"cupy": cupys, "jax": jaxs}


def prepare_jax() -> None:
    """Its float64, no memory taken ahead, what it compiles kept on disk. Before it is imported."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "jax"
    for name, value in {
        "JAX_ENABLE_X64": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }.items():
        os.environ.setdefault(name, value)


@functools.cache
def jax_clock() -> Callable[[Call, float], float]:
    """Seconds of device time of a call of JAX's: so many of them behind a pause of their stream
    that lasts until the host has called them all, less the pause alone."""
    import jax
    import jax.numpy as jnp

    long = jnp.zeros(LARGE * 4, jnp.float32)
    step = jax.jit(lambda x: x + 1)

    def wall(steps: int, call: Call, count: int) -> float:
        began = time.perf_counter()
        last = None
        for _ in range(steps):
            last = step(long)
        for _ in range(count):
            last = call()
        jax.block_until_ready(last)
        return time.perf_counter() - began

    def once() -> float:
        return min(wall(5, once, 0) - wall(1, once, 0) for _ in range(3)) / 4

    once()
    pause = once()

    def clock(call: Call, guess: float) -> float:
        count = max(2, min(300, round(5e-3 / guess)))
        steps = 1 + math.ceil(count * PAUSED / pause)
        return max(1e-7, (wall(steps, call, count) - wall(steps, call, 0)) / count)

    return clock


# -------------------- a row


def flat(result: Any) -> list[np.ndarray]:
    """What a call returned, as arrays of the host."""
    if isinstance(result, (tuple, list)):
        return [each for part in result for each in flat(part)]
    return [np.asarray(host(result))]


def taken(x: Any, part: Any) -> Any:
    """A part of an array, or of each of several."""
    if isinstance(x, (tuple, list)):
        return type(x)(taken(each, part) for each in x)
    return x if part is ... else x[part]


def error(work: Work, result: Any, exact: Any) -> float:
    """The largest difference: by the largest number, or by each and the median."""
    worst = 0.0
    for x, y in zip(flat(result), flat(exact), strict=True):
        if x.shape != y.shape and x.size != y.size:
            return math.inf
        x, y = wide(x).reshape(-1), wide(y).reshape(-1)
        there = np.isfinite(y)
        if not np.array_equal(x[~there], y[~there], equal_nan=True):
            return math.inf
        x, size = x[there], np.abs(y := y[there])
        if y.size:
            with np.errstate(over="ignore", invalid="ignore"):
                off = np.abs(x - y)
                size = size + np.median(size) if work.elementwise else size.max()
                off = np.where(off == 0, 0, off / (size + 1e-300))
            worst = max(worst, float(np.nan_to_num(off, nan=np.inf, posinf=np.inf).max()))
    return worst


def truth(work: Work, dtype: str) -> Any:
    """What SciPy finds in float64, rounded where that is infinite or 0 in the dtype."""
    parts = [taken(each, work.part) for each in work.arrays]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of whole numbers that are floats
        if work.exact:
            result = work.exact(*map(wide, parts))
            return of_digits(result, dtype) if work.elementwise else result
        arrays = work.prepare(scipy, *map(wide, parts))
        result = work.seen(work.expression(scipy, *arrays))
        return [of_digits(each, dtype) if work.elementwise else each for each in flat(result)]


def run(
    family: str, case: Case, torch: Any = None, device: str = "cuda", seconds: float = SECONDS
) -> dict[str, Any]:
    """A case: times where there is PyTorch to take them, errors, whether ours is wrong."""
    work = FAMILIES[family][1](case)
    row: dict[str, Any] = {"family": family, "case": case, "missing": {}, "errors": {}}
    calls: dict[str, Call] = {}
    exact = truth(work, case["dtype"])
    for name, made in {
        "ours": lambda: ours(work, device),
        **bound(work, family, case, device),
    }.items():
        try:
            call = made()
            row["errors"][name] = error(work, work.seen(taken(call(), work.part)), exact)
            calls[name] = call
        except Exception as problem:
            if name == "ours":
                raise
            row["missing"][name] = f"{type(problem).__name__}: {problem}"[:200]
    resolution = max(RESOLUTION[case["dtype"]], work.resolution)
    peers = [each for name, each in row["errors"].items() if name != "ours"]
    finite = [each for each in peers if each < 1e-3]
    row["wrong"] = not row["errors"]["ours"] <= 4 * max([resolution, *finite])
    if torch is not None:
        own = {"jax": jax_clock()} if "jax" in calls else {}
        row["times"] = clocked(torch, calls, seconds=seconds, own=own)
        mine = row["times"]["ours"]
        row["ratios"] = {n: time / mine for n, time in row["times"].items() if n != "ours"}
    return row


def bound(work: Work, family: str, case: Case, device: str) -> dict[str, Callable[[], Call]]:
    """The other libraries, which are on a GPU."""
    there = PEERS if device != "cpu" else {}
    return {name: functools.partial(made, work, family, case) for name, made in there.items()}


# -------------------- the command


def drawn(
    families: Sequence[str], count: int, seed: int, most: int = LARGE
) -> list[tuple[str, Case]]:
    """`count` passes over the functions of each family, on so many elements at most."""
    return [
        (family, case)
        for number in range(count)
        for family in families
        for case in FAMILIES[family][0](random.Random(f"{seed} {number} {family}"), most)
    ]


def line(row: Mapping[str, Any]) -> str:
    """What is printed of a case."""
    what = f"{row['family']} {json.dumps(row['case'])}"
    if "failed" in row:
        return f"FAILED {row['failed'][:150]} {what}"
    mark = " WRONG" if row["wrong"] else ""
    errors = ", ".join(f"{name} {each:.0e}" for name, each in row["errors"].items())
    missing = "".join(f"; {name}: {words[:80]}" for name, words in row["missing"].items())
    ratios = ", ".join(f"{name} {each:.2f}" for name, each in row.get("ratios", {}).items())
    times = f"{row['times']['ours']:9.1f} us, {ratios}" if "times" in row else ""
    return f"{times}{mark} {what} errors {errors}{missing}"


def beside(found: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each library, as random_cases.summary reads them."""
    for row in found:
        name = row["family"]
        if "failed" in row:
            yield {"family": name, "failed": row["failed"]}
        for library, ratio in row.get("ratios", {}).items():
            yield {
                **{"family": f"{name}, {library}", "case": row["case"], "wrong": row["wrong"]},
                **{"ours": row["times"]["ours"], "peer": row["times"][library], "ratio": ratio},
            }


def told(found: Sequence[Mapping[str, Any]]) -> str:
    """Means, and the least rows of each family and library."""
    rows = list(beside(found))
    lines = [summary(rows)]
    for family in dict.fromkeys(row["family"] for row in rows):
        least = sorted((r for r in rows if r["family"] == family and "ratio" in r), key=ratio_of)
        for row in least[:LEAST]:
            mark = " <" if behind(row, 0.9) else ""
            lines.append(f"{family}: least {row['ratio']:.2f}{mark} {json.dumps(row['case'])}")
    return "\n".join(lines)


def ratio_of(row: Mapping[str, Any]) -> float:
    return row["ratio"]


def warm(arguments: Sequence[str], processes: int) -> None:
    """Run every case once, in some processes, each its share: for what is compiled and kept."""
    command = [sys.executable, "-m", "benchmarks.scipy_libraries", *arguments]
    share = [[*command, "--share", str(i), str(processes)] for i in range(processes)]
    for process in [subprocess.Popen(each, stdout=subprocess.DEVNULL) for each in share]:
        process.wait()


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="SciPy's functions beside CuPy's and JAX's")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1, help="passes over the functions")
    parser.add_argument("--most", type=int, default=LARGE, help="elements of a case")
    parser.add_argument("--seconds", type=float, default=240.0, help="of everything, --warm too")
    parser.add_argument("--turns", type=float, default=SECONDS, help="seconds of a row's turns")
    parser.add_argument("--warm", type=int, default=0, help="processes that compile beforehand")
    parser.add_argument("--only", nargs="*", default=[], help="functions, and no others")
    parser.add_argument("--skip", nargs="*", default=[], help="functions that are left out")
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="compare results alone")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--share", type=int, nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    unknown = {*chosen.families} - {*FAMILIES}
    if unknown:
        parser.error(f"no family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    return chosen


def wanted(name: str, chosen: argparse.Namespace) -> bool:
    return name not in chosen.skip and (not chosen.only or name in chosen.only)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = options(arguments)
    cases = drawn(chosen.families or [*FAMILIES], chosen.count, chosen.seed, chosen.most)
    cases = [each for each in cases if wanted(each[1]["name"], chosen)]
    if chosen.list:
        for family, case in cases:
            print(family, json.dumps(case))
        return 0
    on_gpu = bool(cm.cuda.device_count())
    if not (on_gpu or chosen.check):
        print("scipy_libraries: no CUDA device", file=sys.stderr)
        return 1
    end, found = time.monotonic() + chosen.seconds, []
    prepare_jax()
    if chosen.warm:
        again = [*chosen.families, "--check", "--seed", str(chosen.seed)]
        again += ["--count", str(chosen.count), "--most", str(chosen.most)]
        again += ["--seconds", str(chosen.seconds / 2)]
        again += ["--only", *chosen.only, "--skip", *chosen.skip]
        warm(again, chosen.warm)
    if chosen.share:
        place, processes = chosen.share
        cases = cases[place::processes]
    torch = None if chosen.check else importlib.import_module("torch")
    try:
        for family, case in cases:
            if time.monotonic() > end:
                print(f"stopped after {len(found)} of {len(cases)} cases: no time is left")
                break
            row = {"family": family, "case": case, "failed": f"not done in {LONGEST} s"}
            keep([*found, row], chosen.record)
            if on_gpu:
                faulthandler.dump_traceback_later(LONGEST, exit=True)
            try:
                row = run(family, case, torch, "cuda" if on_gpu else "cpu", chosen.turns)
            except Exception as problem:
                row["failed"] = f"{type(problem).__name__}: {problem}"[:300]
            faulthandler.cancel_dump_traceback_later()
            print(line(row), flush=True)
            found.append(row)
            keep(found, chosen.record)
            if on_gpu:
                release()
    finally:
        print(told(found))
    return int(any("failed" in row or row["wrong"] for row in found))


def keep(found: Sequence[Mapping[str, Any]], record: pathlib.Path | None) -> None:
    if record:
        record.write_text(json.dumps(found, indent=0) + "\n")


def release() -> None:
    """The memory that the libraries keep: the next case's is of another size."""
    cm.cuda.empty_cache()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
