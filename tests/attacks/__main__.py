"""`make attack`: the attacks in a large dose, each in processes of its own, until their share of
the time is up; what they tried and found goes to tests/attacks/record.json.

    python -m tests.attacks [--seconds 3600] [--only NAME] [--seed 0]
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import inspect
import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
RECORD = HERE / "record.json"
#: Module -> its share of the time.
SHARES = {
    "faults": 0.25,
    "interrupts": 0.2,
    "forks": 0.08,
    "threads_at_once": 0.07,
    "allocations": 0.08,
    "damaged_files": 0.05,
    "beside_numpy": 0.15,
    "new_shapes": 0.07,
    "fused_programs": 0.05,
}
PART = 300  # seconds after which an attack goes on in a new process, with another seed
CRASHED = "the process ended with {}"


def one(name: str, seconds: float, seed: int) -> dict:
    """An attack in this process."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent.parent)]
    import pytest
    from outcome import Attack

    function = importlib.import_module(name).attack
    under = Attack(seconds, seed)
    with pytest.MonkeyPatch.context() as monkeypatch:
        wants = "monkeypatch" in inspect.signature(function).parameters
        function(under, *([monkeypatch] if wants else []))
    return {"tried": under.tried, "violations": under.violations, "words": under.words}


def in_process(name: str, seconds: float, seed: int) -> dict:
    """An attack in a process of its own; one that does not end well is a violation."""
    settings = {"NUMBA_ENABLE_CUDASIM": "1"} if name == "fused_programs" else {}
    command = [sys.executable, "-m", "tests.attacks", "--one", name]
    command += ["--seconds", str(seconds), "--seed", str(seed)]
    done = subprocess.run(
        command,
        cwd=HERE.parent.parent,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=seconds * 3 + 300,
        check=False,
    )
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        words = CRASHED.format(done.returncode) + ": " + done.stderr[-300:]
        return {"tried": 0, "violations": 1, "words": [words]}


def attack(name: str, seconds: float, seed: int) -> dict:
    total: dict = {"seconds": round(seconds), "tried": 0, "violations": 0, "words": []}
    while seconds > 0:
        part = in_process(name, min(seconds, PART), seed)
        for key in ("tried", "violations"):
            total[key] += part[key]
        total["words"] = [*total["words"], *part["words"]][:20]
        seconds, seed = seconds - PART, seed + 1
    return total


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=SHARES, action="append")
    parser.add_argument("--one", choices=SHARES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.seconds, options.seed)))
        return 0
    names = options.only or list(SHARES)
    whole = sum(SHARES[name] for name in names)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in names:
        seconds = options.seconds * SHARES[name] / whole
        record[name] = attack(name, seconds, options.seed) | {
            "date": f"{datetime.date.today()}",
            "seed": options.seed,
            "python": platform.python_version(),
        }
        tried, violations = record[name]["tried"], record[name]["violations"]
        print(f"{name:16} {tried:>10,} tried, {violations} violations", flush=True)
        for words in record[name]["words"]:
            print(f"    {words}")
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(any(record[name]["violations"] for name in names))


if __name__ == "__main__":
    sys.exit(main())
