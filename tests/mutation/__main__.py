"""`make mutate`: bugs are planted one at a time in a copy of the project, and the tests that cover
the place run. A bug that no test sees has survived.

    python -m tests.mutation [--mutants 300] [--folder ops] [--seed 0] [--planted] [--seconds N]
    python -m tests.mutation --survivors     # those of the record once more, after new tests

The bugs are those of planted.py, and a sample by rules.py: of each folder of the package as many as
its share of the lines, at least five. The score by folder, and the survivors, are in record.json;
`equivalent.json` says which of these change nothing that can be seen, and why: they do not count.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from covering import tests_of  # noqa: E402
from planted import PLANTED, Planted  # noqa: E402
from rules import Mutant, mutants  # noqa: E402

RECORD, EQUIVALENT = HERE / "record.json", HERE / "equivalent.json"
#: Where a bug is no bug of the package: what people look at, and what times it.
LEFT_OUT = "demo", "models", "info.py", "magics.py", "timing.py", "tuning.py", "__main__.py"
AT_LEAST = 5  # bugs of a folder
PER_RUN = 150  # seconds for a run of tests
#: What makes kernels, which run in the simulator.
SIMULATED = "cudamath/kernels", "cudamath/core/specs", "cudamath/fuse.py", "cudamath/programs"
MARKS = "not gpu and not multigpu and not simulator"


def folder_of(path: str) -> str:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "(top)"


def sample(count: int, seed: int, folder: str | None) -> list[Mutant]:
    """Bugs by rule, by folder in the proportion of its lines, by file in that of its bugs, and of
    each rule alike."""
    chance = random.Random(seed)
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    lines: collections.Counter[str] = collections.Counter()
    for path in sorted((ROOT / "cudamath").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if any(part in LEFT_OUT for part in path.relative_to(ROOT / "cudamath").parts):
            continue
        source = path.read_text(encoding="utf-8")
        place = folder_of(name)
        if folder in (None, place):
            lines[place] += source.count("\n")
            for mutant in mutants(name, source):
                found[place][mutant.rule].append(mutant)
    chosen = []
    for place in sorted(found):
        wanted = max(AT_LEAST, round(count * lines[place] / lines.total()))
        by_rule = found[place]
        for bugs in by_rule.values():
            chance.shuffle(bugs)
        while wanted > 0 and any(by_rule.values()):
            for rule in sorted(by_rule):
                if by_rule[rule] and wanted > 0:
                    chosen.append(by_rule[rule].pop())
                    wanted -= 1
    chance.shuffle(chosen)
    return chosen


class Copy:
    """A copy of the project in which bugs are planted."""

    def __init__(self, folder: str):
        self.root = pathlib.Path(folder) / "project"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info", ".*_cache")
        shutil.copytree(ROOT, self.root, ignore=ignored)
        self.fine: dict[tuple, bool] = {}

    def run(self, arguments: list[str], simulator: bool) -> int:
        """pytest's status: 0 all passed, 1 some failed, 5 there were none; -1 out of time. Slow
        tests run where tests are chosen by name alone."""
        settings = {
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "NUMBA_ENABLE_CUDASIM": "1" if simulator else "0",
        }
        slow = "" if "-k" in arguments or "::" in arguments[0] else " and not slow"
        marks = ["-m", "simulator" if simulator else MARKS + slow]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += [*marks, *arguments]
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return process.wait(PER_RUN)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return -1

    def passes(self, arguments: list[str], simulator: bool) -> bool:
        """Whether the tests pass without a bug: what fails anyway kills nothing."""
        key = (*arguments, simulator)
        if key not in self.fine:
            status = self.run(arguments, simulator)
            self.fine[key] = status == 0
            if status not in (0, 5):
                print(f"{' '.join(arguments)} fails without a bug", flush=True)
        return self.fine[key]

    def killer(self, path: str, text: str, runs: list[tuple[list[str], bool]]) -> str:
        """Which of the runs of tests sees that a file has this text; empty if none does."""
        file = self.root / path
        before = file.read_text(encoding="utf-8")
        for arguments, simulator in runs:
            file.write_text(text, encoding="utf-8")
            try:
                status = self.run(arguments, simulator)
            finally:
                file.write_text(before, encoding="utf-8")
            if status not in (0, 5) and self.passes(arguments, simulator):
                return " ".join(arguments) + (" in the simulator" if simulator else "")
        return ""


def runs_of(path: str) -> list[tuple[list[str], bool]]:
    """Runs of the tests that cover a file, the cheapest first: of kernels in the simulator; the
    quick choice of all files of tests; all tests of the likeliest."""
    tests = tests_of(path)
    runs = [(["--quick", *tests], False), (tests[:3], False)]
    if path.startswith(SIMULATED):
        words = "simulator", "MACHINES", "versions"
        simulated = [t for t in tests if any(w in (ROOT / t).read_text("utf-8") for w in words)]
        if simulated:
            runs.insert(0, (simulated, True))
    return runs if tests else []


def plant(copy: Copy, bug: Planted) -> str:
    source = (copy.root / bug.path).read_text(encoding="utf-8")
    assert source.count(bug.before) >= 1, f"{bug.path} has changed: {bug.before!r} is not there"
    text = source.replace(bug.before, bug.after, 1)
    return copy.killer(bug.path, text, [(list(bug.tests), bug.simulator)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that")
    parser.add_argument("--planted", action="store_true", help="those of planted.py alone")
    parser.add_argument("--sample", action="store_true", help="those by rules.py alone")
    parser.add_argument("--survivors", action="store_true", help="those of the record once more")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(folder)
        if options.survivors:
            record = survivors_again(copy, record, end)
        elif not options.sample:
            record["planted"] = planted_bugs(copy, end)
        if not options.planted and not options.survivors:
            chosen = sample(options.mutants, options.seed, options.folder)

            def save(part: dict) -> None:
                record.update(part, seed=options.seed)
                written(record)

            sampled_bugs(copy, chosen, end, save)
    written(record)
    print(json.dumps({k: v for k, v in record.items() if k not in ("equivalent", "survivors")}))
    planted_ones = record.get("planted", {}).get("survivors")
    return int(bool(planted_ones or record.get("survivors")))


def written(record: dict) -> None:
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def told(by: str, words: str) -> None:
    print(f"{'killed  ' if by else 'SURVIVED'} {words}  {by}", flush=True)


def planted_bugs(copy: Copy, end: float) -> dict:
    """What became of the bugs of planted.py, until the time is up."""
    survivors, seen = [], 0
    for bug in PLANTED:
        if time.monotonic() > end:
            break
        by = plant(copy, bug)
        seen += bool(by)
        words = f"{bug.path}: {' '.join(bug.before.split())[:70]}"
        told(by, words)
        if not by:
            survivors.append(words)
    return {"bugs": len(PLANTED), "killed": seen, "survivors": survivors}


def sampled_bugs(copy: Copy, chosen: list[Mutant], end: float, save: Callable) -> None:
    """What became of these bugs, until the time is up: the score by folder, and the survivors.
    `save` is called with that after each."""
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    bugs: collections.Counter[str] = collections.Counter()
    survivors, reasoned = [], []
    for mutant in chosen:
        if time.monotonic() > end:
            break
        by = planted(copy, mutant)
        if not by and nameless(str(mutant)) in map(nameless, equivalent):
            reasoned.append(str(mutant))
        else:
            bugs[folder_of(mutant.path)] += 1
            survivors += [] if by else [str(mutant)]
        save(scored(bugs, survivors) | {"equivalent": reasoned})


def planted(copy: Copy, mutant: Mutant) -> str:
    """Which run of tests kills a bug by rule; empty if none does."""
    source = (copy.root / mutant.path).read_text(encoding="utf-8")
    by = copy.killer(mutant.path, mutant.applied(source), runs_of(mutant.path))
    told(by, str(mutant))
    return by


def nameless(words: str) -> str:
    """A bug's words without its line, which moves."""
    return re.sub(r"^(\S+?):\d+ ", r"\1 ", words)


def scored(bugs: collections.Counter[str], survivors: list[str]) -> dict:
    """The part of a record that counts: bugs of each folder, and those that survived."""
    left = collections.Counter(folder_of(words.partition(":")[0]) for words in survivors)
    total = bugs.total()
    return {
        "mutants": total,
        "killed": total - left.total(),
        "score": round(1 - left.total() / total, 3) if total else None,
        "folders": {
            folder: {"mutants": n, "score": round(1 - left[folder] / n, 3)}
            for folder, n in sorted(bugs.items())
        },
        "survivors": sorted(survivors),
    }


def survivors_again(copy: Copy, record: dict, end: float) -> dict:
    """The bugs that survived, once more. One whose place has changed is a survivor still."""
    equivalent = set(map(nameless, json.loads(EQUIVALENT.read_text(encoding="utf-8"))))
    bugs = collections.Counter({f: part["mutants"] for f, part in record["folders"].items()})
    survivors, reasoned = [], list(record["equivalent"])
    for words in record["survivors"]:
        path = words.partition(":")[0]
        source = (ROOT / path).read_text(encoding="utf-8")
        found = [m for m in mutants(path, source) if nameless(str(m)) == nameless(words)]
        if nameless(words) in equivalent:
            reasoned.append(words)
            bugs[folder_of(path)] -= 1
        elif not found or time.monotonic() > end or not all(planted(copy, m) for m in found):
            survivors.append(words)
    return record | scored(bugs, survivors) | {"equivalent": reasoned}


if __name__ == "__main__":
    sys.exit(main())
