"""Random programs in a large dose: `jit` beside the functions themselves.

    python -m tests.programs [--programs 10000] [--first 0] [--jobs 1] [--device cpu|emulated|cuda]

`cpu`: the same bits. `emulated`: a GPU whose plans are computed on the CPU
(tests/support/emulated_gpu.py). `cuda`: a GPU. What differs is printed, and counts at the end.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / "support")]

from program_comparison import batch  # noqa: E402

BATCH = 25  # programs on one emulated GPU


def main(arguments: list[str] | None = None) -> int:
    """Run the programs; 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "emulated", "cuda"], default="cpu")
    options = parser.parse_args(arguments)
    last = options.first + options.programs
    parts = [(s, min(BATCH, last - s)) for s in range(options.first, last, BATCH)]
    found = done = 0
    passes: collections.Counter = collections.Counter()
    # a new process now and then: an emulated GPU's plans are kept as long as the process lives
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs, maxtasksperchild=20) as pool:
        tasks = [(options.device, *part) for part in parts]
        for count, failures, changed in pool.imap_unordered(batch, tasks):
            done, found = done + count, found + len(failures)
            passes.update(changed)
            for failure in failures:
                print(failure, flush=True)
            if done % 500 < BATCH:
                print(f"{done} programs, {found} differ", flush=True)
    print(f"{done} programs, {found} differ; changed by pass: {dict(passes)}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
