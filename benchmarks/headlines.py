"""Comparisons that other projects advertise, measured: `python -m benchmarks.headlines [--out DIR]`
on a machine with a GPU writes headlines.json.

Each row is the time from a call to the end of its result, with arrays in the memory of the device
that computes: a GPU against all cores of the same machine's CPU, or against hand-written loops.
Such ratios describe a GPU more than a library. run.py has the comparisons with other GPU libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import cudamath as cm
from cudamath.timing import interleave, nothing

Calls = dict[
    str, tuple[Callable[[], object], Callable[[], object]]
]  # who -> (call, what waits for its end)
OURS = "cudamath, GPU"
SLOW = 0.5  # seconds: what takes longer is timed twice, not in turns with the others


def timed(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def on_cpu(
    limit: Callable[[int], object], call: Callable[[], object]
) -> tuple[Callable[[], object], Callable[[], object]]:
    """A call on the CPU, with as many threads (by `limit`) as make it fastest: for small work, on a
    busy machine, not all."""
    cores = len(os.sched_getaffinity(0))
    times = {}
    for count in sorted({cores, cores // 2, min(8, cores), 1} - {0}):
        limit(count)
        call()
        times[count] = min(timed(call) for _ in range(3))
    limit(min(times, key=times.__getitem__))
    return call, nothing


def blas_threads() -> Callable[[int], object]:
    """What limits the threads of NumPy's BLAS; without threadpoolctl nothing does."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return lambda _: None
    return threadpool_limits


def loops() -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The product of matrices as three loops, compiled, on one core."""
    import numba

    @numba.njit
    def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        c = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                total = c[i, j]
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total
        return c

    return multiply


def product(side: int, naive: bool) -> Calls:
    """a @ b of two float32 matrices."""
    a, b = np.random.default_rng(0).standard_normal((2, side, side), dtype=np.float32)
    x, y = cm.asarray(a, device="cuda"), cm.asarray(b, device="cuda")
    calls: Calls = {
        OURS: (lambda: x @ y, cm.cuda.synchronize),
        "NumPy, CPU": on_cpu(blas_threads(), lambda: a @ b),
    }
    if naive:
        multiply = loops()
        multiply(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))  # compiles
        calls["three loops, one core"] = (lambda: multiply(a, b), nothing)
    try:
        import torch
    except ImportError:
        return calls
    p, q = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    return {**calls, "torch, GPU": (lambda: p @ q, torch.cuda.synchronize)}


def convolution() -> Calls:
    """conv2d of (32, 64, 128, 128) images and (128, 64, 3, 3) filters, float32."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((32, 64, 128, 128), dtype=np.float32)
    filters = rng.standard_normal((128, 64, 3, 3), dtype=np.float32)
    x, w = cm.asarray(images, device="cuda"), cm.asarray(filters, device="cuda")
    calls: Calls = {OURS: (lambda: cm.ml.conv2d(x, w, padding=1), cm.cuda.synchronize)}
    try:
        import torch
    except ImportError:
        return calls
    torch.backends.cudnn.allow_tf32 = False  # float32 as ours
    p, q = torch.from_numpy(images), torch.from_numpy(filters)
    u, v = p.cuda(), q.cuda()
    return {
        **calls,
        "torch, CPU": on_cpu(torch.set_num_threads, lambda: torch.conv2d(p, q, padding=1)),
        "torch, GPU": (lambda: torch.conv2d(u, v, padding=1), torch.cuda.synchronize),
    }


def attention() -> Calls:
    """Attention of (4, 16, 4096, 64) in bfloat16, in one kernel and as three operations that store
    all scores."""
    host = np.random.default_rng(0).standard_normal((3, 4, 16, 4096, 64), dtype=np.float32)
    arrays = [cm.asarray(x, device="cuda").astype(cm.bfloat16) for x in host]
    calls: Calls = {
        OURS: (lambda: cm.ml.scaled_dot_product_attention(*arrays), cm.cuda.synchronize)
    }
    try:
        import torch
    except ImportError:
        return calls
    q, k, v = (torch.from_numpy(x).cuda().bfloat16() for x in host)
    unfused = lambda: torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v  # noqa: E731
    return {
        **calls,
        "torch unfused, GPU": (unfused, torch.cuda.synchronize),
        "torch, GPU": (
            lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
            torch.cuda.synchronize,
        ),
    }


def beside_torch(
    ours: Callable[..., object], theirs: Callable[..., object], *shapes: tuple[int, ...]
) -> Calls:
    """A function of float32 arrays: ours(cudamath.ml, *arrays), theirs(torch, *arrays)."""
    rng = np.random.default_rng(0)
    host = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    arrays = [cm.asarray(x, device="cuda") for x in host]
    calls: Calls = {OURS: (lambda: ours(cm.ml, *arrays), cm.cuda.synchronize)}
    try:
        import torch
    except ImportError:
        return calls
    there = [torch.from_numpy(x) for x in host]
    on_gpu = [x.cuda() for x in there]
    return {
        **calls,
        "torch, CPU": on_cpu(torch.set_num_threads, lambda: theirs(torch, *there)),
        "torch, GPU": (lambda: theirs(torch, *on_gpu), torch.cuda.synchronize),
    }


#: title -> (what is claimed elsewhere, the calls)
HEADLINES: dict[str, tuple[str, Callable[[], Calls]]] = {
    "a + b, 2^20, float32": (
        "3 times torch",
        lambda: beside_torch(lambda _, a, b: a + b, lambda _, a, b: a + b, (1 << 20,), (1 << 20,)),
    ),
    "softmax, 10,000, float32": (
        "1.4 times torch",
        lambda: beside_torch(
            lambda ml, x: ml.softmax(x), lambda torch, x: torch.softmax(x, -1), (10_000,)
        ),
    ),
    "a.sum(), 2^20, float32": (
        "1.5 times torch",
        lambda: beside_torch(lambda _, x: x.sum(), lambda _, x: x.sum(), (1 << 20,)),
    ),
    "relu, 2^20, float32": (
        "21 times a CPU",
        lambda: beside_torch(lambda ml, x: ml.relu(x), lambda torch, x: torch.relu(x), (1 << 20,)),
    ),
    "max_pool2d of 32x64x128x128, 2x2, float32": (
        "30 times a CPU",
        lambda: beside_torch(
            lambda ml, x: ml.max_pool2d(x, 2),
            lambda torch, x: torch.nn.functional.max_pool2d(x, 2),
            (32, 64, 128, 128),
        ),
    ),
    "batch_norm of 32x64x32x32, float32": (
        "29 times a CPU",
        lambda: beside_torch(
            lambda ml, x, m, v: ml.batch_norm(x, m, v * v),
            lambda torch, x, m, v: torch.nn.functional.batch_norm(x, m, v * v),
            (32, 64, 32, 32),
            (64,),
            (64,),
        ),
    ),
    "a * b + a, 2^26, float32": (
        "10 to 50 times a CPU, elementwise functions",
        lambda: beside_torch(
            lambda _, a, b: a * b + a, lambda _, a, b: a * b + a, (1 << 26,), (1 << 26,)
        ),
    ),
    "matmul 4,096 squared, float32": ("10 times a CPU's BLAS", lambda: product(4096, False)),
    "matmul 1,024 squared, float32": (
        "65 to 100 times loops on a CPU; 1.5 times torch",
        lambda: product(1024, True),
    ),
    "conv2d 32x64x128x128 * 128x64x3x3, float32": ("340 times a CPU", convolution),
    "attention, 4x16x4096x64, bfloat16": ("5 to 10 times unfused", attention),
}


def measure(calls: Calls, rounds: int = 5) -> dict[str, float]:
    """Median seconds of each, in turns; of what is slow the better of two."""

    def ended(call: Callable[[], object], wait: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            call()
            wait()

        return run

    runs = {who: ended(*pair) for who, pair in calls.items()}
    seconds = {}
    for who in runs:
        first = timed(runs[who])  # may have compiled
        if first > SLOW and (again := timed(runs[who])) > SLOW:
            seconds[who] = min(first, again)
    spreads = interleave(
        {who: run for who, run in runs.items() if who not in seconds}, rounds=rounds, seconds=0.005
    )
    seconds |= {who: spread.median for who, spread in spreads.items()}
    return {who: seconds[who] for who in calls}


def section(where: pathlib.Path, duration: Callable[[float], str]) -> list[str]:
    """The Markdown of a folder's record."""
    file = where / "headlines.json"
    if not file.is_file():
        return []
    record = json.loads(file.read_text())
    lines = [
        "",
        "**Speedups advertised elsewhere, measured here**, from the call to the result, "
        f"{record['cores']} cores of "
        f"{record['processor']}; commit `{record['commit']}`, {record['date']}.",
        "",
        "| operation | claimed | cudamath | beside | speedup |",
        "|---|---|---:|---|---:|",
    ]
    for each in record["headlines"]:
        ours = each["seconds"][OURS]
        for who, seconds in each["seconds"].items():
            if who != OURS:
                lines.append(
                    f"| {each['title']} | {each['claimed']} | {duration(ours)} | {who}: "
                    f"{duration(seconds)} | "
                    f"{seconds / ours:.3g} |"
                )
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and keep the record."""
    from benchmarks.run import (
        RESULTS,
        environment,
        folder,
    )  # which knows the report, and that `section`

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.headlines", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help="folder for headlines.json (default: benchmarks/results/...)",
    )
    out = parser.parse_args(argv).out or RESULTS / folder("cuda")
    out.mkdir(parents=True, exist_ok=True)
    headlines: list[dict[str, Any]] = []
    for title, (claimed, calls) in HEADLINES.items():
        headlines.append({"title": title, "claimed": claimed, "seconds": measure(calls())})
        print(headlines[-1], flush=True)
        record = {
            "headlines": headlines,
            "cores": len(os.sched_getaffinity(0)),
            **environment("cuda"),
        }
        (out / "headlines.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
