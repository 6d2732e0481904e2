"""Kernels by numba-cuda and by numba-cuda-mlir, beside each other: docs/compiler-port.md.

Fifteen kernels, three of each kind, in the source form of this package. Each compiler makes PTX of
them where it is installed, without a GPU; the PTX runs on a GPU machine that needs neither:

    python -m benchmarks.compiler_port compile --compiler numba-cuda --out FOLDER
    python -m benchmarks.compiler_port compile --compiler numba-cuda-mlir --out FOLDER
    python -m benchmarks.compiler_port run --out FOLDER          # on a GPU
    python -m benchmarks.compiler_port page --out FOLDER         # prints the page's table

Results are compared with NumPy's in float64. Times are medians over launches between two events.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

COMPILERS = ("numba-cuda", "numba-cuda-mlir")
CAPABILITY = (9, 0)
N = 1 << 24  # elements of vectors
ROWS, COLUMNS = 8192, 2048
SIDE = 1024  # of square matrices
BINS = 256


def kernels(cuda: Any, f32: Any, i32: Any) -> dict[str, Callable]:
    """The kernels, plain functions of a compiler's `cuda` module."""

    def axpy(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = f32(2.5) * x[i] + y[i]

    def softplus(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = math.log1p(math.exp(-abs(x[i]))) + max(x[i], f32(0))

    def gelu(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            v = x[i]
            inner = f32(0.7978845608) * (v + f32(0.044715) * v * v * v)
            out[i] = f32(0.5) * v * (f32(1) + math.tanh(inner))

    def total(x, y, out):
        v = f32(0)
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            v += x[i]
        for d in (16, 8, 4, 2, 1):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, d)
        if cuda.threadIdx.x % 32 == 0:
            cuda.atomic.add(out, 0, v)

    def dot(x, y, out):
        v = f32(0)
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            v += x[i] * y[i]
        for d in (16, 8, 4, 2, 1):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, d)
        if cuda.threadIdx.x % 32 == 0:
            cuda.atomic.add(out, 0, v)

    def row_max(x, out):
        part = cuda.shared.array(256, f32)
        t = cuda.threadIdx.x
        row = cuda.blockIdx.x
        v = x[row, t]
        for j in range(t + 256, x.shape[1], 256):
            v = max(v, x[row, j])
        part[t] = v
        cuda.syncthreads()
        half = 128
        while half > 0:
            if t < half:
                part[t] = max(part[t], part[t + half])
            cuda.syncthreads()
            half //= 2
        if t == 0:
            out[row] = part[0]

    def tiled(a, b, out):
        s = cuda.shared.array((16, 16), f32)
        t = cuda.shared.array((16, 16), f32)
        tx = cuda.threadIdx.x
        ty = cuda.threadIdx.y
        row = cuda.blockIdx.y * 16 + ty
        column = cuda.blockIdx.x * 16 + tx
        acc = f32(0)
        for k in range(a.shape[1] // 16):
            s[ty, tx] = a[row, k * 16 + tx]
            t[ty, tx] = b[k * 16 + ty, column]
            cuda.syncthreads()
            for j in range(16):
                acc += s[ty, j] * t[j, tx]
            cuda.syncthreads()
        out[row, column] = acc

    def blocked(a, b, out):  # 4 x 4 results for each of 16 x 16 threads
        s = cuda.shared.array((16, 64), f32)
        t = cuda.shared.array((16, 64), f32)
        acc = cuda.local.array((4, 4), f32)
        left = cuda.local.array(4, f32)
        tx = cuda.threadIdx.x
        ty = cuda.threadIdx.y
        for i in range(4):
            for j in range(4):
                acc[i, j] = f32(0)
        for k in range(a.shape[1] // 16):
            for i in range(4):
                s[tx, ty + 16 * i] = a[cuda.blockIdx.y * 64 + ty + 16 * i, k * 16 + tx]
                t[ty, tx + 16 * i] = b[k * 16 + ty, cuda.blockIdx.x * 64 + tx + 16 * i]
            cuda.syncthreads()
            for m in range(16):
                for i in range(4):
                    left[i] = s[m, ty + 16 * i]
                for j in range(4):
                    right = t[m, tx + 16 * j]
                    for i in range(4):
                        acc[i, j] += left[i] * right
            cuda.syncthreads()
        for i in range(4):
            for j in range(4):
                row = cuda.blockIdx.y * 64 + ty + 16 * i
                out[row, cuda.blockIdx.x * 64 + tx + 16 * j] = acc[i, j]

    def matvec(a, x, out):  # a warp for each row
        row = cuda.grid(1) // 32
        lane = cuda.threadIdx.x % 32
        v = f32(0)
        for j in range(lane, a.shape[1], 32):
            v += a[row, j] * x[j]
        for d in (16, 8, 4, 2, 1):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, d)
        if lane == 0:
            out[row] = v

    def largest_of_8(x, y, out):
        v = cuda.local.array(8, f32)
        i = cuda.grid(1) * 8
        for k in range(8):
            v[k] = x[i + k]
        m = v[0]
        for k in range(1, 8):
            m = max(m, v[k])
        out[cuda.grid(1)] = m

    def sort_of_8(x, y, out):  # odd-even transpositions
        v = cuda.local.array(8, f32)
        i = cuda.grid(1) * 8
        for k in range(8):
            v[k] = x[i + k]
        for step in range(8):
            for k in range(step % 2, 7, 2):
                low = min(v[k], v[k + 1])
                v[k + 1] = max(v[k], v[k + 1])
                v[k] = low
        for k in range(8):
            out[i + k] = v[k]

    def bitonic(x, y, out):  # 512 in shared memory
        s = cuda.shared.array(512, f32)
        t = cuda.threadIdx.x
        s[t] = x[cuda.blockIdx.x * 512 + t]
        cuda.syncthreads()
        size = 2
        while size <= 512:
            step = size // 2
            while step > 0:
                other = t ^ step
                if other > t:
                    a = s[t]
                    b = s[other]
                    if (a > b) == ((t & size) == 0):
                        s[t] = b
                        s[other] = a
                cuda.syncthreads()
                step //= 2
            size *= 2
        out[cuda.blockIdx.x * 512 + t] = s[t]

    def transpose(a, b, out):
        s = cuda.shared.array((32, 33), f32)
        tx = cuda.threadIdx.x
        ty = cuda.threadIdx.y
        for i in range(4):
            row = cuda.blockIdx.y * 32 + ty + 8 * i
            s[ty + 8 * i, tx] = a[row, cuda.blockIdx.x * 32 + tx]
        cuda.syncthreads()
        for i in range(4):
            row = cuda.blockIdx.x * 32 + ty + 8 * i
            out[row, cuda.blockIdx.y * 32 + tx] = s[tx, ty + 8 * i]

    def gather(x, places, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[places[i]]

    def histogram(places, out):
        s = cuda.shared.array(256, i32)
        t = cuda.threadIdx.x
        s[t] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), places.size, cuda.gridsize(1)):
            cuda.atomic.add(s, places[i] & 255, i32(1))
        cuda.syncthreads()
        cuda.atomic.add(out, t, s[t])

    return {name: value for name, value in locals().items() if callable(value) and name in CASES}


class Case(NamedTuple):
    """A kernel's kind, arguments ("x" float32, "i" int32; their dimensions), launch and result."""

    kind: str
    arguments: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    inputs: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    out: tuple[int, ...]
    expected: Callable[..., np.ndarray]
    dtype: str = "f4"
    tolerance: float = 2e-6


def _vectors(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return tuple(rng.standard_normal(N, dtype="f4") for _ in range(2))


def _matrices(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return tuple(rng.standard_normal((SIDE, SIDE), dtype="f4") for _ in range(2))


def _gelu(x: np.ndarray, _y: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


_EACH = {"arguments": "x1 x1 x1", "grid": (N // 256,), "block": (256,), "inputs": _vectors}
_SQUARE = {"arguments": "x2 x2 x2", "inputs": _matrices, "out": (SIDE, SIDE)}
CASES = {
    "axpy": Case("elementwise", **_EACH, out=(N,), expected=lambda x, y: 2.5 * x + y),
    "softplus": Case(
        "elementwise", **_EACH, out=(N,), expected=lambda x, y: np.logaddexp(x, 0), tolerance=1e-5
    ),
    "gelu": Case("elementwise", **_EACH, out=(N,), expected=_gelu, tolerance=1e-5),
    "total": Case(
        "reduction",
        "x1 x1 x1",
        (1056,),
        (256,),
        _vectors,
        (1,),
        lambda x, y: x.sum(keepdims=True),
        tolerance=1e-2,
    ),
    "dot": Case(
        "reduction",
        "x1 x1 x1",
        (1056,),
        (256,),
        _vectors,
        (1,),
        lambda x, y: (x * y).sum(keepdims=True),
        tolerance=1e-2,
    ),
    "row_max": Case(
        "reduction",
        "x2 x1",
        (ROWS,),
        (256,),
        lambda rng: (rng.standard_normal((ROWS, COLUMNS), dtype="f4"),),
        (ROWS,),
        lambda x: x.max(1),
    ),
    "tiled": Case(
        "product",
        grid=(SIDE // 16, SIDE // 16),
        block=(16, 16),
        **_SQUARE,
        expected=lambda a, b: a @ b,
        tolerance=1e-3,
    ),
    "blocked": Case(
        "product",
        grid=(SIDE // 64, SIDE // 64),
        block=(16, 16),
        **_SQUARE,
        expected=lambda a, b: a @ b,
        tolerance=1e-3,
    ),
    "matvec": Case(
        "product",
        "x2 x1 x1",
        (ROWS // 8,),
        (256,),
        lambda rng: (
            rng.standard_normal((ROWS, COLUMNS), dtype="f4"),
            rng.standard_normal(COLUMNS, dtype="f4"),
        ),
        (ROWS,),
        lambda a, x: a @ x,
        tolerance=1e-3,
    ),
    "largest_of_8": Case(
        "sort",
        "x1 x1 x1",
        (N // 8 // 256,),
        (256,),
        _vectors,
        (N // 8,),
        lambda x, y: x.reshape(-1, 8).max(1),
    ),
    "sort_of_8": Case(
        "sort",
        "x1 x1 x1",
        (N // 8 // 256,),
        (256,),
        _vectors,
        (N,),
        lambda x, y: np.sort(x.reshape(-1, 8), 1).ravel(),
    ),
    "bitonic": Case(
        "sort",
        "x1 x1 x1",
        (N // 512,),
        (512,),
        _vectors,
        (N,),
        lambda x, y: np.sort(x.reshape(-1, 512), 1).ravel(),
    ),
    "transpose": Case(
        "movement",
        grid=(SIDE // 32, SIDE // 32),
        block=(32, 8),
        **_SQUARE,
        expected=lambda a, b: a.T,
    ),
    "gather": Case(
        "movement",
        "x1 i1 x1",
        (N // 256,),
        (256,),
        lambda rng: (
            rng.standard_normal(N, dtype="f4"),
            rng.integers(0, N, N).astype("i4"),
        ),
        (N,),
        lambda x, places: x[places.astype(int)],
    ),
    "histogram": Case(
        "movement",
        "i1 i1",
        (1056,),
        (256,),
        lambda rng: (rng.integers(0, BINS, N).astype("i4"),),
        (BINS,),
        lambda places: np.bincount(places.astype(int), minlength=BINS),
        dtype="i4",
    ),
}


# -------------------- compiling


def compile_all(compiler: str, folder: pathlib.Path) -> None:
    """PTX of all kernels by one compiler, with its seconds, and the registers by ptxas."""
    if compiler == "numba-cuda":
        if not hasattr(np, "row_stack"):
            np.row_stack = np.vstack  # type: ignore[attr-defined]
        from numba import cuda, types
    else:
        import numba_cuda_mlir.tools as tools  # asks the driver for the device otherwise

        tools._cached_cc = CAPABILITY
        import numba_cuda_mlir.types as types
        from numba_cuda_mlir import cuda
    letters = {"x": types.float32, "i": types.int32}
    functions = kernels(cuda, types.float32, types.int32)
    first = functions["axpy"]
    for name in ("axpy", *functions):  # the first time what all need is compiled
        function = first if name == "axpy" else functions[name]
        signature = tuple(
            types.Array(letters[letter], int(dimensions), "C")
            for letter, dimensions in CASES[name].arguments.split()
        )
        start = time.perf_counter()
        made = cuda.compile_ptx(function, signature, cc=CAPABILITY)
        seconds = time.perf_counter() - start
        ptx = made[0] if isinstance(made, tuple) else made
        ptx = ptx.decode() if isinstance(ptx, bytes) else ptx
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{compiler}.{name}.ptx").write_text(ptx)
        facts = {"seconds": seconds, **assembled(ptx)}
        (folder / f"{compiler}.{name}.json").write_text(json.dumps(facts) + "\n")
        print(f"{compiler:16} {name:14} {1e3 * seconds:6.0f} ms {facts}", flush=True)


def assembled(ptx: str) -> dict[str, int]:
    """Registers and bytes of spills of a kernel, by ptxas."""
    from cuda.pathfinder import find_nvidia_binary_utility

    ptxas = find_nvidia_binary_utility("ptxas") or "ptxas"
    with tempfile.TemporaryDirectory() as place:
        file = pathlib.Path(place) / "kernel.ptx"
        file.write_text(ptx)
        command = [ptxas, "-v", f"-arch=sm_{CAPABILITY[0]}{CAPABILITY[1]}", str(file)]
        said = subprocess.run(
            [*command, "-o", f"{place}/kernel.cubin"], capture_output=True, text=True, check=True
        ).stderr
    (registers,) = re.findall(r"Used (\d+) registers", said)
    return {
        "registers": int(registers),
        "spills": sum(map(int, re.findall(r"(\d+) bytes sp", said))),
    }


# -------------------- running


def words(compiler: str, x: Any) -> list[Any]:
    """An array as a kernel's arguments: numba-cuda's structure, or MLIR's memref."""
    if compiler == "numba-cuda":
        return [0, 0, x.size, x.itemsize, x.ptr, *x.shape, *x.strides]
    return [x.ptr, x.ptr, 0, *x.shape, *[step // x.itemsize for step in x.strides]]


def run_all(folder: pathlib.Path, rounds: int = 30) -> dict[str, dict[str, Any]]:
    """Run what was compiled: results against NumPy's, microseconds of a launch."""
    import ctypes

    from cuda.bindings import driver

    import cudamath as cm

    def check(result: tuple) -> Any:
        if result[0] != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(str(result[0]))
        return result[1] if len(result) > 1 else None

    check(driver.cuInit(0))
    context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
    check(driver.cuCtxSetCurrent(context))
    rng = np.random.default_rng(0)
    measured: dict[str, dict[str, Any]] = {}
    for name, case in CASES.items():
        given = case.inputs(rng)
        expected = case.expected(*[x.astype("f8") for x in given])
        arrays = [cm.array(x, device="cuda") for x in given]
        runs = {}
        for compiler in COMPILERS:
            ptx = (folder / f"{compiler}.{name}.ptx").read_bytes() + b"\0"
            entry = re.search(rb"\.entry\s+(\S+?)\(", ptx)
            module = check(driver.cuModuleLoadData(ptx))
            function = check(driver.cuModuleGetFunction(module, entry[1]))  # type: ignore[index]
            out = cm.zeros(case.out, dtype=case.dtype, device="cuda")
            count = len(case.arguments.split()) - 1
            operands = (*arrays, *arrays)[:count]
            packed = [w for x in (*operands, out) for w in words(compiler, x)]
            values = (ctypes.c_uint64 * len(packed))(*packed)
            size = ctypes.sizeof(ctypes.c_uint64)
            addresses = [ctypes.addressof(values) + size * i for i in range(len(packed))]
            pointers = (ctypes.c_void_p * len(packed))(*addresses)
            grid = (*case.grid, 1, 1)[:3]
            block = (*case.block, 1, 1)[:3]
            stream = cm.cuda.current_stream()

            def launch(
                function: Any = function,
                grid: tuple = grid,
                block: tuple = block,
                stream: Any = stream,
                pointers: Any = pointers,
                _alive: Any = values,
            ) -> None:
                check(
                    driver.cuLaunchKernel(
                        function, *grid, *block, 0, stream.ptr, ctypes.addressof(pointers), 0
                    )
                )

            launch()
            got = out.to_numpy()
            error = float(np.max(np.abs(got - expected) / (1 + np.abs(expected))))
            if not error <= case.tolerance:
                print(f"{compiler} {name}: WRONG, off by {error}", flush=True)
            runs[compiler] = launch
        times: dict[str, list[float]] = {compiler: [] for compiler in COMPILERS}
        for _ in range(rounds):
            for compiler, launch in runs.items():
                begin, end = cm.cuda.Event(), cm.cuda.Event()
                begin.record()
                for _ in range(10):
                    launch()
                end.record()
                end.synchronize()
                times[compiler].append(begin.elapsed(end) / 10)
        measured[name] = {compiler: statistics.median(t) * 1e3 for compiler, t in times.items()}
        print(name, {k: round(v, 2) for k, v in measured[name].items()}, flush=True)
    return measured


# -------------------- the page


def table(folder: pathlib.Path) -> str:
    """The page's table."""
    record = json.loads((folder / "compiler_port.json").read_text())
    lines = [
        "| kind | kernel | compile, ms: numba-cuda | -mlir | registers: numba-cuda | -mlir "
        "| us: numba-cuda | -mlir | speed of -mlir |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, each in record["kernels"].items():
        ours, other = (each[compiler] for compiler in COMPILERS)
        pairs = [
            *(f"{1e3 * made['seconds']:.0f}" for made in (ours, other)),
            *(str(made["registers"]) for made in (ours, other)),
            *(f"{made['us']:.1f}" for made in (ours, other)),
        ]
        speed = ours["us"] / other["us"]
        lines.append(f"| {CASES[name].kind} | {name} | {' | '.join(pairs)} | {speed:.2f} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiler_port")
    parser.add_argument("what", choices=["compile", "run", "page"])
    parser.add_argument("--compiler", choices=COMPILERS, default=COMPILERS[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    chosen = parser.parse_args(argv)
    if chosen.what == "compile":
        compile_all(chosen.compiler, chosen.out)
    elif chosen.what == "run":
        from benchmarks.run import environment

        measured = run_all(chosen.out)
        found = {
            name: {
                compiler: {
                    **json.loads((chosen.out / f"{compiler}.{name}.json").read_text()),
                    "us": measured[name][compiler],
                }
                for compiler in COMPILERS
            }
            for name in CASES
        }
        record = {"kernels": found, **environment("cuda")}
        (chosen.out / "compiler_port.json").write_text(json.dumps(record, indent=1) + "\n")
    else:
        print(table(chosen.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
