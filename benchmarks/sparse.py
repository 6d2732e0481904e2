"""Products with sparse matrices beside PyTorch's and CuPy's (both cuSPARSE), on one GPU, in one
process: `python -m benchmarks.sparse [PARTS OF NAMES] [--json FILE] [--check] [--workers 1]`.

Matrices of many structures are generated: stencils, bands, blocks, uniform and power-law graphs,
and odd ones (a row that holds everything, rows that hold nothing). Of each, a product with a vector
and with 32 columns in float32, and with a vector in float64. Every result is compared with SciPy's
in float64 before it is timed, in the longest rows and some thousand others.

Two times belong to a call: the device's, measured by events while the calls wait in its queue, and
the host's, until the call returns. The speedup is the other library's time over cudamath's: 2 means
twice as fast.

`--versions` times each version of ours by its name as well, `--triangular` solutions with lower
triangles; `--check` times nothing, and runs on the CPU, too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import multiprocessing
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import cudamath as cm
from benchmarks import timer
from cudamath.info import device_sentence
from cudamath.kernels.sparse import dispatch
from cudamath.kernels.sparse.problem import ProductProblem
from cudamath.runtime.stream import synchronize
from cudamath.timing import interleave

COLUMNS = 32
FAR = 64  # epsilons of the sum of magnitudes
LONGEST, OTHERS = 64, 4096  # rows of a result that are compared
Matrix = sp.csr_array


def stencil(*sizes: int, corners: bool = False) -> Matrix:
    """Neighbours of a grid's points; with `corners` also along diagonals."""
    whole = sp.eye_array(1)
    for n in sizes:
        line = sp.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
        whole = sp.kron(whole, line, "csr") if corners else sp.kronsum(line, whole, "csr")
    return sp.csr_array(whole)


def band(n: int, width: int) -> Matrix:
    """A band of so many diagonals."""
    half = width // 2
    offsets = range(-half, width - half)
    return sp.csr_array(sp.diags_array([1.0] * width, offsets=list(offsets), shape=(n, n)))


def blocks(n: int, size: int, each: int) -> Matrix:
    """`each` dense blocks in every row of blocks."""
    rng = np.random.default_rng(1)
    bands = n // size
    columns = np.sort(rng.integers(0, bands, (bands, each)), axis=1)
    pattern = sp.csr_array(
        (np.ones(bands * each), (np.repeat(np.arange(bands), each), columns.reshape(-1))),
        shape=(bands, bands),
    )
    return sp.csr_array(sp.kron(pattern, np.ones((size, size)), "csr"))


def of_lengths(lengths: np.ndarray, columns: int, seed: int = 0) -> Matrix:
    """Rows of these lengths, at random places (duplicates are added)."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    where = rng.integers(0, columns, len(rows))
    return sp.csr_array(sp.coo_array((np.ones(len(rows)), (rows, where)), (len(lengths), columns)))


def power_law(n: int, mean: int, exponent: float) -> Matrix:
    """Lengths of rows, and places in them, by a power law: a few nodes have most edges."""
    rng = np.random.default_rng(2)
    weights = np.arange(1, n + 1) ** -exponent
    weights = rng.permutation(weights / weights.sum())
    cumulative = np.cumsum(weights)
    ends = [np.searchsorted(cumulative, rng.random(n * mean)).clip(max=n - 1) for _ in range(2)]
    return sp.csr_array(sp.coo_array((np.ones(n * mean), tuple(ends)), (n, n)))


def arrow(n: int) -> Matrix:
    """A diagonal, a full row and a full column."""
    each, zero = np.arange(n), np.zeros(n, int)
    coords = np.concatenate([each, zero, each]), np.concatenate([each, each, zero])
    return sp.csr_array(sp.coo_array((np.ones(3 * n), coords), (n, n)))


MATRICES: dict[str, Callable[[], Matrix]] = {
    "stencil 5, 512^2": lambda: stencil(512, 512),
    "stencil 5, 1500^2": lambda: stencil(1500, 1500),
    "stencil 9, 800^2": lambda: stencil(800, 800, corners=True),
    "stencil 7, 100^3": lambda: stencil(100, 100, 100),
    "stencil 27, 60^3": lambda: stencil(60, 60, 60, corners=True),
    "line 3, 2^22": lambda: stencil(1 << 22),
    "band 9, 2^19": lambda: band(1 << 19, 9),
    "band 33, 2^18": lambda: band(1 << 18, 33),
    "band 257, 2^14": lambda: band(1 << 14, 257),
    "blocks 8, 2^17": lambda: blocks(1 << 17, 8, 5),
    "blocks 32, 2^16": lambda: blocks(1 << 16, 32, 3),
    "uniform 4, 2^20": lambda: of_lengths(np.full(1 << 20, 4), 1 << 20),
    "uniform 16, 2^18": lambda: of_lengths(np.full(1 << 18, 16), 1 << 18),
    "uniform 64, 2^16": lambda: of_lengths(np.full(1 << 16, 64), 1 << 16),
    "uniform 1000, 2^12": lambda: of_lengths(np.full(1 << 12, 1000), 1 << 14),
    "wide, 2^8 x 2^20": lambda: of_lengths(np.full(256, 16384), 1 << 20),
    "tall, 2^20 x 2^8": lambda: of_lengths(np.full(1 << 20, 4), 256),
    "power law 0.6, 2^18": lambda: power_law(1 << 18, 16, 0.6),
    "power law 0.9, 2^18": lambda: power_law(1 << 18, 16, 0.9),
    "power law 1.1, 2^20": lambda: power_law(1 << 20, 4, 1.1),
    "empty rows, 2^20": lambda: of_lengths((np.arange(1 << 20) % 64 == 0) * 64, 1 << 20),
    "one full row, 2^20": lambda: of_lengths((np.arange(1 << 20) == 7) * (1 << 20) + 3, 1 << 20),
    "arrow, 2^20": lambda: arrow(1 << 20),
    "diagonal, 2^22": lambda: sp.csr_array(sp.eye_array(1 << 22)),
    "small, 5,000": lambda: of_lengths(np.full(5000, 8), 5000),
}


def cupys(x: Matrix) -> Any:
    import cupy
    import cupyx.scipy.sparse as theirs

    parts = cupy.asarray(x.data), cupy.asarray(x.indices), cupy.asarray(x.indptr)
    return theirs.csr_matrix(parts, shape=x.shape), cupy.asarray


def torchs(x: Matrix) -> Any:
    import torch

    parts = [torch.from_numpy(part).cuda() for part in (x.indptr, x.indices, x.data)]
    return torch.sparse_csr_tensor(*parts, size=x.shape), lambda b: torch.from_numpy(b).cuda()


def ours(x: Matrix) -> Any:
    return cm.sparse.csr_array(x), cm.asarray


LIBRARIES = {"cudamath": ours, "torch": torchs, "cupy": cupys}


def host(x: Any) -> np.ndarray:
    if hasattr(x, "get"):
        return x.get()
    return x.cpu().numpy() if hasattr(x, "cpu") else x.to_numpy()


def compared_rows(x: Matrix) -> np.ndarray:
    """The numbers of the longest rows, and of others all over the matrix."""
    longest = np.argsort(np.diff(x.indptr), kind="stable")[-LONGEST:]
    others = np.linspace(0, x.shape[0] - 1, min(OTHERS, x.shape[0])).astype(np.int64)
    return np.union1d(longest, others)


def by_versions(x: Matrix, b: np.ndarray) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, the product) for each of our versions that supports it, but for the plain one."""
    a = cm.sparse.csr_array(x)
    given = a.data, a.indices, a.indptr, cm.asarray(b.reshape(len(b), -1))
    layouts = [part._layout for part in given]
    problem = ProductProblem(*layouts)
    for version in dispatch.PRODUCT:
        if version.name != "plain" and version.supports(problem):
            plan = dispatch.csr_product(*layouts, version=version.name)
            run = plan.bind("csr_product", layouts)
            yield version.name, lambda run=run: run(*given)


def products(
    x: Matrix, columns: int, dtype: str, versions: bool = False
) -> tuple[dict[str, Callable], float]:
    """{library: the product}, and our largest error in epsilons of the sum of magnitudes."""
    rng = np.random.default_rng(3)
    x = x.astype(dtype)
    x.data = rng.standard_normal(x.nnz).astype(dtype)
    x.indices, x.indptr = x.indices.astype(np.int32), x.indptr.astype(np.int32)
    b = rng.standard_normal((x.shape[1], columns) if columns > 1 else x.shape[1]).astype(dtype)
    rows = compared_rows(x)
    some = x[rows].astype(np.float64)
    exact = some @ b.astype(np.float64)
    size = abs(some) @ abs(b).astype(np.float64) + np.finfo(dtype).tiny
    calls: dict[str, Callable[[], Any]] = {}
    error = 0.0
    on_host = cm.default_device() == "cpu"
    for name, made in {"cudamath": ours}.items() if on_host else LIBRARIES.items():
        try:
            matrix, array = made(x)
            dense = array(b)
        except ImportError:
            continue
        calls[name] = lambda matrix=matrix, dense=dense: matrix @ dense
    if versions and not on_host:
        calls |= dict(by_versions(x, b))
    for name, call in calls.items():
        got = host(call())[rows].reshape(exact.shape)
        if name not in ("torch", "cupy"):
            worst = float((abs(got - exact) / size).max() / np.finfo(dtype).eps)
            error = max(error, math.inf if math.isnan(worst) else worst)
    return calls, error


def triangles(x: Matrix) -> tuple[dict[str, Callable], float]:
    """Solutions with the lower triangle."""
    lower = sp.tril(x, -1)
    lower = sp.csr_array(lower + sp.diags_array(1 + lower.sum(axis=1))).astype(np.float32)
    b = np.ones(x.shape[0], np.float32)
    exact = sp.linalg.spsolve_triangular(lower.astype(np.float64), b.astype(np.float64))
    a, right = ours(lower)[0], cm.asarray(b)
    calls = {"cudamath": lambda: cm.sparse.linalg.spsolve_triangular(a, right)}
    off = abs(host(calls["cudamath"]()) - exact).max() / np.finfo(np.float32).eps
    return calls, float(off / abs(exact).max())


def times(calls: dict[str, Callable[[], Any]]) -> dict[str, dict[str, float]]:
    """Seconds of a call on the device and on the host, by library."""
    device = timer.on_device(calls, rounds=5, seconds=0.002, warm=0.01, hide_host=True)
    on_host = interleave(
        calls, rounds=5, seconds=0.001, warm=0, most=20, synchronize=synchronize, wait=False
    )
    return {
        "device": {library: spread.median for library, spread in device.items()},
        "host": {library: spread.median for library, spread in on_host.items()},
    }


def build(name: str) -> Matrix:
    return MATRICES[name]()


def built(names: list[str], workers: int) -> dict[str, Matrix]:
    """The matrices of these names, by so many processes: all before anything is timed."""
    spawn = multiprocessing.get_context("spawn")  # not fork: threads may run by now
    with concurrent.futures.ProcessPoolExecutor(workers, spawn) as pool:
        return dict(zip(names, pool.map(build, names), strict=True))


def measured(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A record for each matrix and case."""
    began = time.perf_counter()
    parts = chosen.parts or [""]
    names = [name for name in MATRICES if any(part in name for part in parts)]
    ready = built(names, chosen.workers) if chosen.workers > 1 else {}
    for name in names:
        if time.perf_counter() - began > chosen.seconds:
            print(f"{name:22} left out: {chosen.seconds:g} seconds are over")
            continue
        x = ready.pop(name, None)
        x = build(name) if x is None else x
        cases = [
            ("A x", products(x, 1, "float32", chosen.versions)),
            ("A x, float64", products(x, 1, "float64", chosen.versions)),
        ]
        if x.shape[0] * COLUMNS < 1 << 26:
            cases.append((f"A B, {COLUMNS}", products(x, COLUMNS, "float32", chosen.versions)))
        if chosen.triangular and x.shape[0] == x.shape[1] <= 1 << 20:
            cases.append(("triangle", triangles(x)))
        for what, (calls, error) in cases:
            yield {
                "matrix": name,
                "shape": x.shape,
                "stored": x.nnz,
                "case": what,
                "error": error,
                **({} if chosen.check else times(calls)),
            }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Products with sparse matrices.")
    parser.add_argument("parts", nargs="*", help="parts of the matrices' names; all by default")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures are written")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="after which no other matrix is begun"
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="processes that make the matrices beforehand"
    )
    parser.add_argument("--versions", action="store_true", help="our versions by name as well")
    parser.add_argument("--triangular", action="store_true", help="triangular solutions as well")
    parser.add_argument("--check", action="store_true", help="compare results alone")
    chosen = parser.parse_args(arguments)
    print(device_sentence())
    found: list[dict[str, Any]] = []
    speedups: dict[tuple[str, str, str], list[float]] = {}
    for row in measured(chosen):
        found.append(row)
        texts = []
        for side in ("device", "host"):
            seconds = row.get(side, {})
            mine = seconds.get("cudamath", math.nan)
            if seconds:
                texts.append(f"{side} {mine * 1e6:7.1f} us")
            for library in seconds:
                if library != "cudamath":
                    speedup = seconds[library] / mine
                    speedups.setdefault((row["case"], side, library), []).append(speedup)
                    texts.append(f"{library} {speedup:5.2f}")
        wrong = "" if row["error"] < FAR else "  WRONG"
        print(f"{row['matrix']:22} {row['case']:14}", *texts, f"error {row['error']:.1f}{wrong}")
    for (case, side, library), each in speedups.items():
        mean = math.exp(sum(map(math.log, each)) / len(each))
        print(
            f"{case:14} {side:6} beside {library:8} mean {mean:.2f}, least {min(each):.2f} of "
            f"{len(each)}"
        )
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))
    return int(any(not row["error"] < FAR for row in found))


if __name__ == "__main__":
    raise SystemExit(main())
