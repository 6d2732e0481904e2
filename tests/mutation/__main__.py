"""`make mutate`: bugs are planted one at a time in copies of the project, and the tests that cover
the place run. A bug that no test sees has survived.

    python -m tests.mutation [--mutants 300] [--folders ops] [--seed 0] [--jobs 8] [--seconds N]
    python -m tests.mutation --planted       # those of planted.py alone
    python -m tests.mutation --survivors     # those of the record once more, after new tests

First the tests run without a bug, and it is noted which of them execute the places where bugs will
be planted, and how long they take (observer.py). Then each bug meets the tests that execute its
statement, or else its function or its file, the likeliest and shortest first, until they have taken
SECONDS_OF_TESTS; after these those that the names of its file, its functions and the conditions
around it suggest (covering.py): where no test was seen to execute its statement (compiled loops
show none), or the time for that was too short for all tests; and of a kernel's bug, where there are
GPUs (`--gpus`). A bug is killed if a test fails that passes without it.

The bugs are those of planted.py, and a sample by rules.py: of each folder of the package as many as
its share of the lines, at least AT_LEAST. The score by folder, and the survivors, are in
record.json, with whether the time for tests without bugs was too short for all of them ("cut off");
`equivalent.json` says which of these change nothing that can be seen, and why: they do
not count. It has a bug's words without the line, which moves, and the reason; where a function has
several bugs of the same words, for each the text of its place (`Score.place`) and the reason. A bug
whose tests were cut off by the end of the time counts neither, nor one that a record names and the
sources have no more; both are named.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import functools
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from numba.core import caching

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from covering import readers, tests_of, words_of  # noqa: E402
from planted import PLANTED, Planted  # noqa: E402
from rules import Mutant, mutants  # noqa: E402

RECORD, EQUIVALENT = HERE / "record.json", HERE / "equivalent.json"
#: Where a bug is no bug of the package: what people look at, what times it, and what stands for
#: hardware in tests.
LEFT_OUT = (
    "demo",
    "models",
    "info.py",
    "magics.py",
    "timing.py",
    "tuning.py",
    "preflight.py",
    "simulator.py",
    "rehearsal.py",
    "__main__.py",
)
AT_LEAST = 8  # bugs of a folder
SECONDS_OF_TESTS = 50  # of one kind, for a bug, by their times without it
MOST_FILES = 25  # of tests, for a bug: reading them takes time
MOST_TESTS = 600  # for a bug
LONGEST = 30  # seconds of a test that takes part
MANY_BUGS = 100  # whose places want more of the time for tests without bugs
PER_RUN, BY_NAME = 150, 100  # seconds for a run of tests
FEW_FILES = 8  # of tests that are chosen by name, of which those run first that words tell
FEW_CASES = {"cpu": 12, "simulator": 3, "gpu": 3}  # of each of these tests
#: Bugs here may spoil caches for others, or make all entries strangers': they have their own.
OWN_CACHE = "cudamath/runtime", "cudamath/kernels/compiler", "cudamath/cpu", "cudamath/core/specs"
#: What makes kernels.
KERNELS = "cudamath/kernels", "cudamath/core/specs", "cudamath/fuse.py", "cudamath/programs"
MARKS = {
    "cpu": "not gpu and not multigpu and not simulator",
    "simulator": "simulator",
    "gpu": "gpu and not multigpu",
}


def folder_of(path: str) -> str:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "(top)"


@functools.cache
def bugs_of_package() -> dict[str, tuple[int, list[Mutant]]]:
    """Folder -> its lines, and all bugs by rule."""
    lines: collections.Counter[str] = collections.Counter()
    bugs: dict[str, list[Mutant]] = collections.defaultdict(list)
    for path in sorted((ROOT / "cudamath").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not any(part in LEFT_OUT for part in path.relative_to(ROOT / "cudamath").parts):
            source = path.read_text(encoding="utf-8")
            lines[folder_of(name)] += source.count("\n")
            bugs[folder_of(name)] += mutants(name, source)
    return {place: (lines[place], found) for place, found in bugs.items()}


def sample(count: int, seed: int, folders: list[str] | None) -> list[Mutant]:
    """Bugs by rule, by folder in the proportion of its lines, by file in that of its bugs, and of
    each rule alike."""
    chance = random.Random(seed)
    package = bugs_of_package()
    places = [place for place in sorted(package) if folders is None or place in folders]
    total = sum(package[place][0] for place in places)
    chosen = []
    for place in places:
        lines, found = package[place]
        wanted = max(AT_LEAST, round(count * lines / total))
        by_rule = collections.defaultdict(list)
        for bug in chance.sample(found, len(found)):
            by_rule[bug.rule].append(bug)
        statements = set()
        while wanted > 0 and any(by_rule.values()):
            for rule in sorted(by_rule):
                if by_rule[rule] and wanted > 0:
                    bug = by_rule[rule].pop()
                    if (bug.path, bug.lines) not in statements:  # bugs that tell more than one does
                        statements.add((bug.path, bug.lines))
                        chosen.append(bug)
                        wanted -= 1
    chance.shuffle(chosen)
    return chosen


class Test(NamedTuple):
    """A test that passes without a bug. places: what it executes (observer.py). kind: of MARKS."""

    name: str
    seconds: float
    places: frozenset[int]
    kind: str


class Places:
    """Numbers of the places where bugs will be planted: of their statements, functions, files."""

    def __init__(self, bugs: list[Mutant]):
        self.files: dict[str, int] = {}
        self.functions: dict[tuple[str, int], int] = {}
        self.statements: dict[tuple[str, int, int], int] = {}
        self.count = 0
        for bug in bugs:
            self._number(self.files, bug.path)
            self._number(self.functions, (bug.path, bug.first))
            self._number(self.statements, (bug.path, *bug.lines))

    def _number(self, table: dict, key: Any) -> None:
        if key not in table:
            table[key] = self.count
            self.count += 1

    def of(self, bug: Mutant) -> tuple[int, int, int]:
        """The nearest first."""
        return (
            self.statements[bug.path, *bug.lines],
            self.functions[bug.path, bug.first],
            self.files[bug.path],
        )

    def write(self, path: pathlib.Path) -> None:
        lines: dict[str, dict[int, list[int]]] = {name: {} for name in self.files}
        for (name, first, last), number in self.statements.items():
            for line in range(first, last + 1):
                lines[name].setdefault(line, []).append(number)
        functions = [(*key, number) for key, number in self.functions.items()]
        told = {"files": self.files, "functions": functions, "lines": lines}
        path.write_text(json.dumps(told), encoding="utf-8")


class Copy:
    """A copy of the project in which bugs are planted. All copies share a cache of compiled
    code; what lies there is found by the sources' contents, so a bug finds none that lacks it."""

    #: Of the tests that failed with a bug: whether they pass without one.
    fine: dict[str, bool] = {}
    lock = threading.Lock()

    def __init__(self, folder: pathlib.Path, gpu: int | None = None):
        self.folder, self.root, self.gpu = folder, folder / "project", gpu
        self.shared = self.cache = folder.parent / "cache"
        ignored = shutil.ignore_patterns(
            ".git", ".venv", "__pycache__", "*.egg-info", ".*_cache", ".gpu", "shared"
        )
        shutil.copytree(ROOT, self.root, ignore=ignored)

    def settings(self, kind: str) -> dict[str, str]:
        paths = [str(self.root), str(self.root / "tests/mutation"), os.environ.get("PYTHONPATH")]
        gpu = str(self.gpu) if kind == "gpu" else ""
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "NUMBA_ENABLE_CUDASIM": "1" if kind == "simulator" else "0",
            "CUDA_VISIBLE_DEVICES": gpu,
            "CUDAMATH_CACHE_DIR": str(self.cache),
        }

    def run(self, arguments: list[str], kind: str, seconds: float, **more: str) -> int:
        """pytest's status: 0 all passed, 1 some failed, 5 there were none; -1 out of time."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "observer", "--continue-on-collection-errors"]
        command += ["-m", MARKS[kind], *arguments]
        with (
            open(self.folder / "log", "w", encoding="utf-8") as log,
            subprocess.Popen(
                command,
                cwd=self.root,
                env=self.settings(kind) | more,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ) as process,
        ):
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return -1
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # what tests have started, too
                except ProcessLookupError:
                    pass

    def chosen(self, tests: list[str], kind: str, seconds: float) -> tuple[int, str]:
        """The status of a run of these tests, and the one that it began last."""
        chosen, begun = self.folder / "chosen.json", self.folder / "begun"
        chosen.write_text(json.dumps(tests), encoding="utf-8")
        begun.write_text("", encoding="utf-8")
        files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
        status = self.run(["-x", *files], kind, seconds, CHOSEN=str(chosen), BEGUN=str(begun))
        return status, begun.read_text(encoding="utf-8") or " ".join(files)

    def spread(self, files: list[str], kind: str, seconds: float, words: str) -> tuple[int, str]:
        """The same of some cases of each test of these files, those first that the words tell."""
        begun = self.folder / "begun"
        begun.write_text("", encoding="utf-8")
        how = {"CASES": str(FEW_CASES[kind]), "WORDS": words, "BEGUN": str(begun)}
        status = self.run(["-x", *files], kind, seconds, **how)
        return status, begun.read_text(encoding="utf-8") or " ".join(files)

    def passes(self, test: str, kind: str, seconds: float = PER_RUN) -> bool:
        """Whether a test (or files of tests) that failed with a bug passes without, in time."""
        key = f"{kind} {test}"
        if key not in self.fine:
            if "::" in test:
                status, _ = self.chosen([test], kind, seconds)
            else:
                status = self.run(["--co", *test.split()], kind, PER_RUN)
            self.fine[key] = status == 0
            if status:
                print(f"{test} fails without a bug: {status}", flush=True)
        return self.fine[key]

    def killer(self, bug: Mutant, runs: list[tuple[list[str], str]], end: float) -> str | None:
        """Which test sees the bug; empty if none does, None if the time was up."""
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as own:
            private = bug.path.startswith(OWN_CACHE) or bug.path.endswith("caches.py")
            self.cache = pathlib.Path(own) if private else self.shared
            for tests, kind in runs:
                by = self.sees(bug, tests, kind, end)
                if by or by is None:
                    return by
        return ""

    def sees(self, bug: Mutant, tests: list[str], kind: str, end: float) -> str | None:
        """The same of one run of tests."""
        file = self.root / bug.path
        before = file.read_text(encoding="utf-8")
        run, named = self.chosen, "::" not in tests[0]
        if named:
            words = words_of(bug.path, bug.function, bug.lines, before)
            run = functools.partial(self.spread, words=json.dumps(words))
        if end - time.monotonic() < 5:
            return None
        file.write_text(bug.applied(before), encoding="utf-8")
        again = False  # the one that had begun when the time was up
        try:
            most = BY_NAME if named else PER_RUN
            status, test = run(tests, kind, min(most, end - time.monotonic()))
            if status == -1 and named and "::" in test and end - time.monotonic() > most:
                again, (status, _) = True, self.chosen([test], kind, most)
        finally:
            file.write_text(before, encoding="utf-8")
        if time.monotonic() > end - 1:
            return None
        how = "" if kind == "cpu" else f" ({kind})"
        if status == -1 and not named:
            status, _ = run(tests, kind, min(PER_RUN, end - time.monotonic()))
            if time.monotonic() > end - 1:
                return None
            return f"{test}{how} hangs" if status == 0 else ""
        if status == -1 and again and self.passes(test, kind, BY_NAME / 2):
            return f"{test}{how} hangs"
        if again or status == -1:  # they take as long as they take
            print(f"not to the end of {test}{how}: {bug}", flush=True)
        if status == -1:
            return ""
        return f"{test}{how}" if status not in (0, 5) and self.passes(test, kind) else ""


def share_compiled(copies: list[Copy]) -> None:
    """What the first copy compiled for the CPU lies where the others look for it: the folder of an
    entry is named by that of its source."""
    place = caching._CacheLocator.get_suitable_cache_subpath
    cache = copies[0].cache / "cpu"
    for source in {path.parent for path in (copies[0].root / "cudamath").rglob("*.py")}:
        compiled = cache / place(str(source / "x.py"))
        if compiled.is_dir():
            for copy in copies[1:]:
                there = copy.root / source.relative_to(copies[0].root)
                shutil.copytree(compiled, cache / place(str(there / "x.py")), dirs_exist_ok=True)


def observed(
    copy: Copy, places: Places, options: argparse.Namespace, end: float, record: dict
) -> list[Test]:
    """The tests without a bug, and what they execute, until the time is up. How they ended goes
    into the record: tests that were cut off kill nothing."""
    found = []
    record["observed"] = {}
    tests = options.tests or likely_first(places.files)

    def run(kind: str, jobs: int) -> None:
        path = copy.folder / f"places-{kind}.json"
        places.write(path)
        spread = ["-n", str(jobs), "--dist", "load"] if jobs > 1 else []  # in about that order
        quick = ["--quick", "-m", f"{MARKS['cpu']} and not slow"] if options.quick else []
        status = copy.run(
            [
                *spread,
                *quick,
                *tests,
                "--deselect",
                "tests/numpy_suite",
                "--deselect",
                "tests/scipy_suite",
            ],
            kind,
            max(0.0, end - time.monotonic()),
            OBSERVE=str(path),
        )
        cut = status == -1
        print(f"observed: {kind}, status {status}{', cut off' * cut}", flush=True)
        record["observed"][kind] = {"status": status, "cut off": cut}
        for part in copy.folder.glob(f"{path.name}.*"):
            for line in part.read_text(encoding="utf-8").splitlines(keepends=True):
                if line.endswith("\n"):
                    name, seconds, hit = json.loads(line)
                    found.append(Test(name, seconds, frozenset(hit), kind))
        record["observed"][kind]["tests"] = sum(test.kind == kind for test in found)

    jobs = options.jobs
    if options.quick:
        run("cpu", jobs)
        return found
    with concurrent.futures.ThreadPoolExecutor(min(jobs, 2)) as both:
        list(both.map(run, ("cpu", "simulator"), (jobs - jobs // 3, max(1, jobs // 3))))
    return found


def seconds_of_observation(options: argparse.Namespace, bugs: int) -> float:
    """For tests without bugs: what was asked for, or else a third of all seconds, half where the
    bugs are many, whose places lie everywhere."""
    if options.observe is not None:
        return options.observe
    return options.seconds / (2 if bugs > MANY_BUGS else 3)


def likely_first(paths: Iterable[str]) -> list[str]:
    """All tests, those first that the names of these files suggest: the time may not suffice."""
    by_turn = itertools.zip_longest(*map(tests_of, paths))
    return [*dict.fromkeys(test for turn in by_turn for test in turn if test), "tests"]


def chosen_tests(bug: Mutant, places: Places, tests: list[Test], kind: str) -> list[Test]:
    """The tests of a kind that cover the place of a bug, in the order in which they run: of the
    likeliest files first, of each test one case, then another."""
    for number in places.of(bug):
        covering = [
            test
            for test in tests
            if test.kind == kind and number in test.places and test.seconds <= LONGEST
        ]
        if covering:
            break
    likely = {name: i for i, name in enumerate(tests_of(bug.path))}
    by_function: dict[str, list[Test]] = collections.defaultdict(list)
    for test in sorted(covering, key=lambda test: (test.seconds, test.name)):
        by_function[test.name.partition("[")[0]].append(test)

    def order(item: tuple[int, Test]) -> tuple:
        turn, test = item
        file = test.name.partition("::")[0]
        return turn, likely.get(file, len(likely)), len(test.places), test.seconds

    turns = [(i, t) for cases in by_function.values() for i, t in enumerate(spread(cases))]
    chosen, files, left = [], set(), float(SECONDS_OF_TESTS)
    for _, test in sorted(turns, key=order):
        file = test.name.partition("::")[0]
        fits = file in files or len(files) < MOST_FILES
        if fits and test.seconds <= left and len(chosen) < MOST_TESTS:
            files.add(file)
            chosen.append(test)
            left -= test.seconds
    return chosen


def spread(cases: list[Test]) -> list[Test]:
    """The cases of a test in an order in which the first few differ: the shortest, the longest,
    one between them and so on."""
    order, seen, step = [], set(), 1.0
    while len(order) < len(cases):
        for i in range(int(1 / step) + 1):
            place = round(i * step * (len(cases) - 1))
            if place not in seen:
                seen.add(place)
                order.append(cases[place])
        step /= 2
    return order


def runs_of(
    bug: Mutant, places: Places, tests: list[Test], unseen: list[str]
) -> list[tuple[list[str], str, float]]:
    """The runs of tests that meet a bug: tests or files, their kind, and how long they take.
    unseen: the kinds of tests that nobody observed, or not all of them."""
    read = readers(bug.rule, bug.path)
    runs = [(read, "cpu", 0.0)] if read else []
    for kind in ("cpu", "simulator"):
        chosen = chosen_tests(bug, places, tests, kind)
        if chosen:
            seconds = sum(test.seconds for test in chosen)
            runs.append(([test.name for test in chosen], kind, seconds))
    by_name, kernel = tests_of(bug.path)[:FEW_FILES], bug.path.startswith(KERNELS)
    if kernel:
        runs.reverse()
    elif not any(places.of(bug)[0] in test.places for test in tests):
        unseen = ["cpu"]
    for kind in unseen if by_name else []:
        if kernel or kind == "cpu":
            runs.append((by_name, kind, float(BY_NAME)))
    return runs


def cut_off(record: dict, kind: str) -> bool:
    """Whether the time was too short for all tests of a kind without bugs."""
    return record["observed"].get(kind, {}).get("cut off", False)


def mutate(
    folder: pathlib.Path,
    bugs: list[Mutant],
    options: argparse.Namespace,
    end: float,
    record: dict,
) -> Iterator[tuple[Mutant, str | None]]:
    """Yields (bug, who killed it) for each; the longest first, in as many processes as are
    wanted."""
    places = Places(bugs)
    begun = time.monotonic()
    jobs = max(1, min(options.jobs, len(bugs)))
    copies: list[Copy] = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        gpus = [i % options.gpus if options.gpus else None for i in range(jobs)]
        making = [pool.submit(Copy, folder / f"{i}", gpu) for i, gpu in enumerate(gpus)]
        first = making[0].result()
        until = min(end, begun + seconds_of_observation(options, len(bugs)))
        tests = observed(first, places, options, until, record)
        print(f"{len(tests)} tests in {time.monotonic() - begun:.0f} s", flush=True)
        if not tests:
            raise SystemExit((first.folder / "log").read_text(encoding="utf-8")[-2000:])
        copies = [future.result() for future in making]
        share_compiled(copies)
        unseen = [kind for kind in ("cpu", "simulator") if cut_off(record, kind)]
        unseen += ["gpu"] if options.gpus else []
        waiting = [(bug, runs_of(bug, places, tests, unseen)) for bug in bugs]
        alone = [str(bug) for bug, runs in waiting if not runs]
        print("".join(f"NO TEST  {words}\n" for words in alone), end="", flush=True)
        waiting.sort(key=lambda item: -sum(seconds for *_, seconds in item[1]))

        def meet(item: tuple) -> tuple[Mutant, str | None]:
            bug, runs = item
            with Copy.lock:
                copy = copies.pop()
            try:
                return bug, copy.killer(bug, [run[:2] for run in runs], end)
            finally:
                copies.append(copy)

        futures = [pool.submit(meet, item) for item in waiting]
        for future in concurrent.futures.as_completed(futures):
            yield future.result()


class Score:
    """What became of the bugs by rule."""

    def __init__(self, record: dict):
        self.record = record
        told = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
        self.reasons = {nameless(words): reason for words, reason in told.items()}
        self.bugs: collections.Counter[str] = collections.Counter()
        self.survivors: list[str] = []
        self.reasoned: list[str] = []
        self.unfinished: list[str] = []
        self.gone: list[str] = []  # what a record names and the sources have no more
        self.killers: dict[str, str] = {}

    def again(self) -> None:
        """Begin with those of the record that were killed."""
        folders = self.record["folders"].items()
        self.bugs.update({folder: part["mutants"] for folder, part in folders})
        self.bugs.subtract(folder_of(words.partition(":")[0]) for words in self.record["survivors"])
        self.killers = self.record["killed by"]

    def reason(self, bug: Mutant) -> str | None:
        """Why a bug changes nothing that can be seen, if it does not."""
        reason = self.reasons.get(nameless(str(bug)))
        return reason.get(self.place(bug)) if isinstance(reason, dict) else reason

    def place(self, bug: Mutant) -> str:
        """The line in which a bug is, with it, and the next one."""
        source = (ROOT / bug.path).read_text(encoding="utf-8")
        rest = bug.applied(source).splitlines()[bug.line - 1 :]
        return " / ".join([line.strip() for line in rest if line.strip()][:2])

    def add(self, bug: Mutant, by: str | None) -> None:
        words = str(bug)
        said = {None: "CUT OFF ", "": "SURVIVED"}.get(by, "killed  ")
        print(f"{said} {words}  {by or ''}", flush=True)
        if by:
            self.killers[words] = by
        if by is None:
            self.unfinished.append(words)
        elif not by and self.reason(bug):
            self.reasoned.append(words)
        else:
            self.bugs[folder_of(bug.path)] += 1
            self.survivors += [] if by else [words]

    def write(self, path: pathlib.Path) -> None:
        left = collections.Counter(folder_of(words.partition(":")[0]) for words in self.survivors)
        total = self.bugs.total()
        self.record |= {
            "mutants": total,
            "killed": total - left.total(),
            "score": round(1 - left.total() / total, 3) if total else None,
            "folders": {
                folder: {"mutants": n, "score": round(1 - left[folder] / n, 3)}
                for folder, n in sorted(self.bugs.items())
                if n
            },
            "survivors": sorted(self.survivors),
            "equivalent": sorted(self.reasoned),
            "unfinished": sorted(self.unfinished),
            "gone": sorted(self.gone),
            "killed by": dict(sorted(self.killers.items())),
        }
        path.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")


def nameless(words: str) -> str:
    """A bug's words without its line, which moves."""
    return re.sub(r"^(\S+?):\d+ ", r"\1 ", words)


def told_again(words: list[str]) -> tuple[list[Mutant], list[str]]:
    """The bugs that these words of a record name, and the words of those whose place has
    changed."""
    found: dict[tuple[str, int, str], Mutant] = {}
    gone = []
    for told in words:
        path = ROOT / told.partition(":")[0]
        source = path.read_text(encoding="utf-8") if path.exists() else ""
        same = [
            bug
            for bug in mutants(told.partition(":")[0], source)
            if nameless(str(bug)) == nameless(told)
        ]
        line = int(re.findall(r":(\d+) ", told)[0])
        if same:
            nearest = min(abs(bug.line - line) for bug in same)
            for bug in same:  # of the same words in a line any may have been meant
                if abs(bug.line - line) == nearest:
                    found[bug.path, bug.start, bug.text] = bug
        else:
            gone.append(told)
    return list(found.values()), gone


def planted_bugs(copy: Copy, end: float) -> dict:
    """What became of the bugs of planted.py, until the time is up."""
    survivors, seen = [], 0
    for bug in PLANTED:
        if time.monotonic() > end:
            break
        by = plant(copy, bug)
        seen += by
        words = f"{bug.path}: {' '.join(bug.before.split())[:70]}"
        print(f"{'killed  ' if by else 'SURVIVED'} {words}", flush=True)
        survivors += [] if by else [words]
    return {"bugs": len(PLANTED), "killed": seen, "survivors": survivors}


def plant(copy: Copy, bug: Planted) -> bool:
    """Whether the test that a bug of planted.py names sees it."""
    file, kind = copy.root / bug.path, "simulator" if bug.simulator else "cpu"
    source = file.read_text(encoding="utf-8")
    assert source.count(bug.before) >= 1, f"{bug.path} has changed: {bug.before!r} is not there"
    file.write_text(source.replace(bug.before, bug.after, 1), encoding="utf-8")
    try:
        status = copy.run(["-x", *bug.tests], kind, PER_RUN)
    finally:
        file.write_text(source, encoding="utf-8")
    return status not in (0, 5) and copy.run(["-x", *bug.tests], kind, PER_RUN) == 0


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--folders", nargs="+", help="of the package, instead of all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="bugs at a time")
    parser.add_argument("--gpus", type=int, default=0, help="where bugs of kernels run, too")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after that")
    parser.add_argument(
        "--observe", type=float, help="at most so many for tests without bugs; else a part of all"
    )
    parser.add_argument("--tests", nargs="+", help="files or folders of tests, instead of all")
    parser.add_argument("--quick", action="store_true", help="the quick tests alone: a first look")
    parser.add_argument("--planted", action="store_true", help="those of planted.py alone")
    parser.add_argument("--survivors", action="store_true", help="those of the record once more")
    parser.add_argument("--record", type=pathlib.Path, default=RECORD, help="its file")
    return parser.parse_args(arguments)


def main() -> int:
    options = options_of()
    end = time.monotonic() + options.seconds
    path = options.record
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        if options.planted:
            record["planted"] = planted_bugs(Copy(folder / "planted"), end)
            path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            return int(bool(record["planted"]["survivors"]))
        score = Score(record | {"seed": options.seed})
        if options.survivors:
            bugs, gone = told_again([*record["survivors"], *record.get("unfinished", ())])
            score.again()
            score.gone = gone
        else:
            bugs = sample(options.mutants, options.seed, options.folders)
        for bug, by in mutate(folder, bugs, options, end, score.record):
            score.add(bug, by)
            score.write(path)
        score.write(path)
        told = ("mutants", "killed", "score", "folders")
        print(json.dumps({key: score.record[key] for key in told}))
        print(f"{len(score.survivors)} survivors, {len(score.unfinished)} cut off", flush=True)
    return int(bool(score.survivors))


if __name__ == "__main__":
    sys.exit(main())
