"""Host and device time against size, from a thousand elements to the limit of the memory: `python
-m benchmarks.sweep`.

It measures add, sum, softmax (rows of 1,024) and matmul in float32, in each installed library, on
the same arrays (shared without a copy). Small arrays show the host time of a call, large ones the
rate of memory or arithmetic; beyond 2^31 elements, that 64-bit indexing works. The record is
sweep.json in benchmarks/results/<gpu>/; benchmarks.report draws it.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import cudamath as cm
from benchmarks import timer
from benchmarks.run import RESULTS, environment, folder
from cudamath.timing import interleave

ROW = 1024  # numbers of a row of softmax
SIDE = 1 << 14  # of the largest matrices: beyond, a product takes seconds

#: name -> (arrays it takes, bytes of memory an element with one result a library, call(library,
#: arrays))
OPERATIONS: dict[str, tuple[int, int, Callable[..., object]]] = {
    "add": (2, 20, lambda lib, a, b: a + b),
    "sum": (1, 4, lambda lib, a: a.sum()),
    "softmax": (1, 32, lambda lib, a: lib.ml.softmax(a) if lib is cm else softmax(lib, a)),
    "matmul": (2, 20, lambda lib, a, b: a @ b),
}


def softmax(lib: Any, a: Any) -> Any:
    """Of the others: torch's, or what CuPy has."""
    if lib.__name__ == "torch":
        return lib.softmax(a, -1)
    from cupyx.scipy.special import softmax

    return softmax(a, -1)


def shape(operation: str, size: int) -> tuple[int, ...]:
    """Of arrays of `size` elements, a power of four."""
    if operation == "matmul":
        return (math.isqrt(size), math.isqrt(size))
    return (size // ROW, ROW) if operation == "softmax" else (size,)


def sizes(operation: str, memory: int) -> list[int]:
    """Powers of four from 1,024 to what fits."""
    each = OPERATIONS[operation][1]
    counts = [1 << k for k in range(10, 40, 2) if (1 << k) * each <= memory]
    return [size for size in counts if operation != "matmul" or size <= SIDE**2]


def exported(library: Any, x: cm.ndarray) -> Any:
    """The same array in another library, without a copy."""
    return (
        x
        if library is cm
        else x.to_numpy()
        if library.__name__ == "numpy"
        else library.from_dlpack(x)
    )


def release(libraries: list[timer.Peer]) -> None:
    """Memory that the libraries keep goes back, so that the next size fits."""
    for peer in libraries:
        if peer.name == "cudamath":
            cm.cuda.empty_cache()
        elif peer.name == "torch":
            peer.library.cuda.empty_cache()
        elif peer.name == "cupy":
            peer.library.get_default_memory_pool().free_all_blocks()


def measure(device: str, memory: int, quick: bool = False) -> list[dict[str, Any]]:
    """[{operation, size, host: {library: seconds}, device: {library: seconds}}]; on the CPU host is
    all of it."""
    libraries = [peer for peer in timer.peers(device)[0] if peer.name != "jax"]
    if device != "cpu":
        libraries = [peer for peer in libraries if peer.default_stream]
    points = []
    with cm.device(device):
        for operation, (count, _, function) in OPERATIONS.items():
            for size in sizes(operation, memory):
                try:
                    ours = [
                        cm.random.default_rng(i).random(shape(operation, size), dtype="float32")
                        for i in range(count)
                    ]
                    calls = {}
                    for peer in libraries:
                        if operation == "softmax" and peer.name == "numpy":
                            continue
                        arrays = [exported(peer.library, x) for x in ours]
                        calls[peer.name] = lambda lib=peer.library, arrays=arrays: function(  # noqa: B023
                            lib, *arrays
                        )  # noqa: B023
                    record: dict[str, Any] = {"operation": operation, "size": size}
                    rounds = 3 if quick or size > 1 << 26 else 9
                    if device == "cpu":
                        spreads = interleave(calls, rounds=rounds, seconds=0.002, warm=0)
                        record["host"] = {name: spread.median for name, spread in spreads.items()}
                    else:
                        spreads = interleave(
                            calls,
                            rounds=rounds,
                            seconds=0.002,
                            warm=0.005,
                            most=200 if size < 1 << 20 else 4,
                            synchronize=cm.cuda.synchronize,
                            wait=False,
                        )
                        record["host"] = {name: spread.median for name, spread in spreads.items()}
                        spreads = timer.on_device(calls, rounds=rounds, seconds=0.003, warm=0.02)
                        record["device"] = {name: spread.median for name, spread in spreads.items()}
                except Exception as error:  # the other sizes' figures stand
                    print(f"{operation} {size} failed: {type(error).__name__}: {error}", flush=True)
                    continue
                finally:
                    ours = arrays = calls = None  # type: ignore[assignment]
                    if device != "cpu" and size >= 1 << 28:
                        release(libraries)
                points.append(record)
                print(
                    operation,
                    size,
                    {
                        where: {name: f"{s * 1e6:.2f} us" for name, s in record[where].items()}
                        for where in ("host", "device")
                        if where in record
                    },
                    flush=True,
                )
    return points


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and keep the record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--device", default=str(cm.default_device()))
    parser.add_argument(
        "--out", type=pathlib.Path, help="folder for sweep.json (default: benchmarks/results/...)"
    )
    parser.add_argument(
        "--memory",
        type=float,
        help="GB to use at most (default: nine tenths of the device's; CPU: 0.2)",
    )
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args(argv)
    out = chosen.out or RESULTS / folder(chosen.device)
    out.mkdir(parents=True, exist_ok=True)
    if chosen.memory:
        memory = int(chosen.memory * 1e9)
    elif chosen.device == "cpu":
        memory = int(2e8)
    else:
        memory = cm.cuda.devices()[cm.device(chosen.device).index].total_memory * 9 // 10
    record = {"sizes": measure(chosen.device, memory, chosen.quick), **environment(chosen.device)}
    (out / "sweep.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
