"""Random programs in a large dose: `jit` beside the functions themselves.

    python -m tests.programs [--programs 10000] [--first 0] [--jobs 1] [--device cpu|emulated|cuda]
    python -m tests.programs --record       # and the counts go to tests/programs/record.json
    python -m tests.programs --record --add --first 10000    # to those that it has

`cpu`: the same bits. `emulated`: a GPU whose plans are computed on the CPU
(tests/support/emulated_gpu.py). `cuda`: a GPU. What differs is printed, and counts at the end.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import multiprocessing
import pathlib
import platform
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "support")]

from program_comparison import batch  # noqa: E402

RECORD = HERE / "record.json"
BATCH = 25  # programs on one emulated GPU


def main(arguments: list[str] | None = None) -> int:
    """Run the programs; 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "emulated", "cuda"], default="cpu")
    parser.add_argument("--record", nargs="?", const=RECORD, type=pathlib.Path, help="its file")
    parser.add_argument("--add", action="store_true", help="to what the record has")
    options = parser.parse_args(arguments)
    last = options.first + options.programs
    parts = [(s, min(BATCH, last - s)) for s in range(options.first, last, BATCH)]
    found = done = 0
    passes: collections.Counter = collections.Counter()
    before = _recorded(options.record).get(options.device, {}) if options.add else {}
    # a new process now and then: an emulated GPU's plans are kept as long as the process lives
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs, maxtasksperchild=20) as pool:
        tasks = [(options.device, *part) for part in parts]
        for count, failures, changed in pool.imap(batch, tasks):
            done, found = done + count, found + len(failures)
            passes.update(changed)
            for failure in failures:
                print(failure, flush=True)
            if done % 500 < BATCH:
                print(f"{done} programs, {found} differ", flush=True)
            if options.record:
                _note(options.record, options.device, options.first, before, done, found, passes)
    print(f"{done} programs, {found} differ; changed by pass: {dict(passes)}")
    return bool(found)


def _recorded(path: pathlib.Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _note(
    path: pathlib.Path,
    device: str,
    first: int,
    before: dict,
    done: int,
    found: int,
    passes: collections.Counter,
) -> None:
    """Write down what a device's programs gave so far. before: what the record had of it."""
    record = _recorded(path)
    record[device] = {
        "programs": before.get("programs", 0) + done,
        "differ": before.get("differ", 0) + found,
        "seeds": [*before.get("seeds", []), [first, first + done]],
        "changed by pass": dict(collections.Counter(before.get("changed by pass", {})) + passes),
        "date": f"{datetime.date.today()}",
        "python": platform.python_version(),
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
