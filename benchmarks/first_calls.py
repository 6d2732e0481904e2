"""Time of first calls on the CPU, caches empty: `python -m benchmarks.first_calls [FUNCTION ...]`.

Every function of the tests' records is called once, with its gradient where it has one, in a
process of its own with an empty cache, on the records' arrays in a dtype drawn for each call
(--seed). What `warm-up --device cpu` compiles is called too, in float32 and in float64, on arrays
that are large enough for compiled loops. (The process is a fork of one that has imported this
package and nothing that compiles: the import is added.) --sample=50 draws some. With
CUDAMATH_KERNEL_PACKS the times are what a machine with a pack sees.
"""

from __future__ import annotations

import argparse
import compileall
import functools
import json
import os
import pathlib
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cudamath as cm
from cudamath import warm_up

SUPPORT = pathlib.Path(__file__).parents[1] / "tests" / "support"
LIMIT = 1.0  # seconds
DTYPES = ("f4", "f4", "f8", "f2")


def calls(seed: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """(name, call) of every function in the records; "gradient of ..." where there is one."""
    draw = random.Random(seed)
    sys.path.insert(0, str(SUPPORT))
    try:
        import records
    finally:
        sys.path.pop(0)
    rng = np.random.default_rng(0)
    for card in records.ELEMENTWISE:
        kind = draw.choice(("f4", "f8", "f2") if "f" in card.kinds else ("i4", "i8", "u1"))
        arrays = [
            cm.asarray(rng.uniform(max(card.low, 0.5), card.high, (100, 100)).astype(kind))
            for _ in range(card.inputs)
        ]
        yield card.name, lambda card=card, arrays=arrays: card.function(*arrays)
        if card.grad:
            yield f"gradient of {card.name}", _gradient(card.function, arrays, card.grad)
    for row in records.ROWS:
        kind = draw.choice(DTYPES)
        arrays = [cm.asarray(x) for x in row.arrays(np.dtype(kind))]
        run = lambda *args, row=row: row.run(cm, *args)  # noqa: E731
        yield row.name, lambda run=run, arrays=arrays: run(*arrays)
        if row.grad:
            leads = [x.dtype.kind == "f" for x in arrays]
            yield f"gradient of {row.name}", _gradient(run, arrays, leads)
    for name, call in warm_up._cpu_calls().items():
        for kind in ("f4", "f8"):
            if not name.startswith("special."):  # compiled by its name alone: called above
                yield f"{name} (large, {kind})", functools.partial(call, kind)


def _gradient(function: Callable[..., Any], arrays: list[Any], leads: Any) -> Callable[[], object]:
    which = tuple(i for i, lead in enumerate(leads) if lead)

    def total(*args: Any) -> Any:
        result = function(*args)
        first = result[0] if isinstance(result, (tuple, list)) else result
        return cm.abs(first).sum()

    return lambda: cm.grad(total, argnums=which)(*arrays)


def measure(call: Callable[[], object]) -> tuple[float, float, str]:
    """(processor seconds, seconds, what went wrong) of a call in a fork with an empty cache."""
    read, write = os.pipe()
    start = time.monotonic()
    if (child := os.fork()) == 0:
        os.close(read)
        said = ""
        try:
            with tempfile.TemporaryDirectory() as folder:
                os.environ["CUDAMATH_CACHE_DIR"] = folder
                os.environ["CUDAMATH_COMPILE_NOTICE"] = "0"
                start = time.monotonic()
                call()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = used.ru_utime + used.ru_stime, time.monotonic() - start, said[:200]
        os.write(write, json.dumps(spent).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return tuple(json.loads(told)) if told else (0.0, time.monotonic() - start, "it ended")  # type: ignore[return-value]


def _line(cpu: float, wall: float, said: str, name: str) -> str:
    return f"{cpu:7.2f} s of a processor, {wall:6.2f} s  {name} {said}".rstrip()


def main() -> int:
    """Measure, print; 1 if any takes longer than the limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_calls", description=__doc__)
    parser.add_argument("functions", nargs="*", help="default: all")
    parser.add_argument("--sample", type=int, help="so many of them, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slowest", type=int, default=10)
    arguments = parser.parse_args()
    imported = sum(os.times()[:2])
    # as an installed package: no call compiles the package's own files
    compileall.compile_dir(pathlib.Path(cm.__file__).parent, quiet=2)
    chosen = [
        (name, call)
        for name, call in calls(arguments.seed)
        if not arguments.functions or any(each in name.split(" ") for each in arguments.functions)
    ]
    if arguments.sample is not None:
        chosen = random.Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    assert "numba" not in sys.modules
    found = []
    for name, call in chosen:
        cpu, wall, said = measure(call)
        found.append((imported + cpu, imported + wall, said, name))
        print(
            f"{found[-1][0]:7.2f} s of a processor, {found[-1][1]:6.2f} s  {name} {said}",
            flush=True,
        )
    print("the slowest:")
    for row in sorted(found, reverse=True)[: arguments.slowest]:
        print(_line(*row))
    late = sum(cpu > LIMIT for cpu, *_ in found)
    print(f"{len(found)} first calls, {late} of them above {LIMIT:g} s of a processor")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
