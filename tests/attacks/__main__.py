"""`make attack`: the attacks in a large dose, each in processes of its own, until their share of
the time is up; what they tried and found goes to tests/attacks/record.json.

    python -m tests.attacks [--seconds 3600] [--jobs 1] [--only NAME] [--seed 0]
    python -m tests.attacks --device cuda [--gpus 1] ...    # on the real driver
    python -m tests.attacks --add --seed 100                # counts are added to the record's

`--seconds` is how long all of it takes, `--jobs` in how many processes at a time; each process has
a seed of its own.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import importlib
import inspect
import json
import math
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
RECORD = HERE / "record.json"
#: Module -> its share of the time.
SHARES = {
    "faults": 0.3,
    "interrupts": 0.15,
    "forks": 0.08,
    "threads_at_once": 0.07,
    "allocations": 0.08,
    "damaged_files": 0.05,
    "beside_numpy": 0.15,
    "new_shapes": 0.07,
    "fused_programs": 0.05,
}
#: Those that make sense on a GPU (allocations fail there among the faults).
ON_GPU = {
    "faults": 0.25,
    "interrupts": 0.2,
    "threads_at_once": 0.12,
    "damaged_files": 0.05,
    "beside_numpy": 0.2,
    "new_shapes": 0.08,
    "fused_programs": 0.1,
}
PART = 300  # seconds after which an attack goes on in a new process, with another seed
GRACE = 120  # seconds for a process to begin and to end


def one(name: str, seconds: float, seed: int, device: str) -> dict:
    """An attack in this process."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent.parent)]
    import pytest
    from outcome import Attack

    function = importlib.import_module(name).attack
    under = Attack(seconds, seed, device)
    with pytest.MonkeyPatch.context() as monkeypatch:
        wants = "monkeypatch" in inspect.signature(function).parameters
        function(under, *([monkeypatch] if wants else []))
    return {"tried": under.tried, "violations": under.violations, "words": under.words}


def in_process(name: str, seconds: float, seed: int, device: str, gpu: str) -> dict:
    """An attack in a process of its own; one that does not end well is a violation."""
    settings = {"CUDA_VISIBLE_DEVICES": gpu, "CUDAMATH_COMPILE_NOTICE": "0"}
    if name == "fused_programs" and device == "cpu":
        settings["NUMBA_ENABLE_CUDASIM"] = "1"
    command = [sys.executable, "-m", "tests.attacks", "--one", name, "--device", device]
    command += ["--seconds", str(seconds), "--seed", str(seed)]
    try:
        done = subprocess.run(
            command,
            cwd=HERE.parent.parent,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            timeout=seconds + GRACE,
            check=False,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        words = f"seed {seed}: the process hangs"
    except (IndexError, ValueError):
        words = f"seed {seed}: the process ended with {done.returncode}: {done.stderr[-400:]}"
    return {"tried": 0, "violations": 1, "words": [words]}


def parts(options: argparse.Namespace) -> list[tuple[str, float, int]]:
    """(attack, seconds, seed) of each process, the longest first."""
    shares = SHARES if options.device == "cpu" else ON_GPU
    names = options.only or list(shares)
    whole = sum(shares[name] for name in names)
    found = []
    for name in names:
        seconds = options.seconds * options.jobs * shares[name] / whole
        count = math.ceil(seconds / min(PART, options.seconds))
        found += [(name, seconds / count, options.seed + i) for i in range(count)]
    return sorted(found, key=lambda part: -part[1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--gpus", type=int, default=1, help="over which processes are spread")
    parser.add_argument("--only", choices=SHARES, action="append")
    parser.add_argument("--record", type=pathlib.Path, default=RECORD, help="its file")
    parser.add_argument("--add", action="store_true", help="to what the record has")
    parser.add_argument("--one", choices=SHARES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.seconds, options.seed, options.device)))
        return 0
    if options.device == "cuda" and (others := {*(options.only or [])} - {*ON_GPU}):
        parser.error(f"on the CPU alone: {', '.join(sorted(others))}")
    path = options.record
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    told: dict = {}

    def run(i: int, part: tuple[str, float, int]) -> tuple[tuple[str, float, int], dict]:
        gpu = str(i % options.gpus) if options.device == "cuda" else ""
        return part, in_process(*part, options.device, gpu)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(run, i, part) for i, part in enumerate(parts(options))]
        for future in concurrent.futures.as_completed(futures):
            (name, seconds, _), found = future.result()
            if name not in told:
                before = record.get(options.device, {}).get(name) if options.add else None
                told[name] = before or {
                    "seconds": 0,
                    "processes": 0,
                    "tried": 0,
                    "violations": 0,
                    "words": [],
                }
            total = told[name]
            total["seconds"] = round(total["seconds"] + seconds)
            total["processes"] += 1
            for key in ("tried", "violations"):
                total[key] += found[key]
            for words in found["words"]:
                print(f"{name}: {words}", flush=True)
            total["words"] = [*total["words"], *found["words"]][:20]
            total |= {
                "date": f"{datetime.date.today()}",
                "seed": options.seed,
                "python": platform.python_version(),
            }
            record[options.device] = record.get(options.device, {}) | told
            path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name, total in told.items():
        print(f"{name:16} {total['tried']:>10,} tried, {total['violations']} violations")
    return int(any(total["violations"] for total in told.values()))


if __name__ == "__main__":
    sys.exit(main())
