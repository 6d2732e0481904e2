"""NumPy's own tests with their imports changed: `python tests/numpy_suite/numpy_suite.py`.

Takes the test files from the installed NumPy and runs each in a process of its own (plugin.py),
long ones in several. Prints the score of each file and which tests fail that did not before.
--record writes to results/:

- <device>.json, the score by file;
- <device>_failed.json, the tests that fail, by file and class of reason (reasons.toml), to which
  test_numpy_suite.py holds a few cases of each test;
- <device>_names.json, what passes and fails by public name of NumPy's; of all files only.

With names of files it records these anew and leaves the others.

On a GPU the tests run in `cm.errstate(device="raise")`: calls wait for the errors of their kernels.

    numpy_suite.py [--device cuda] [--workers 2] [--record] [--causes] [file ...]

A file is named as in `_core/tests/test_numeric`. `ma` adds those of numpy.ma, for information.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: Tests of functions and arrays. Those of dtypes of records, of C interfaces, of printing options,
#: of files and of NumPy's build are not here.
FILES = [
    f"{folder}/tests/test_{name}"
    for folder, names in {
        "_core": "multiarray umath ufunc numeric scalarmath regression nep50_promotions "
        "item_selection array_coercion einsum shape_base scalar_methods indexing umath_complex "
        "half mem_overlap function_base dlpack getlimits indexerrors errstate",
        "lib": "function_base nanfunctions arraypad arraysetops histograms shape_base index_tricks "
        "packbits polynomial regression stride_tricks twodim_base type_check ufunclike array_utils "
        "utils",
        "linalg": "linalg regression deprecations",
        "fft": "pocketfft helper",
        "polynomial": "classes chebyshev hermite hermite_e laguerre legendre polynomial polyutils "
        "printing symbol",
    }.items()
    for name in names.split()
]


@dataclasses.dataclass(frozen=True)
class Suite:
    """The tests of a library: where it is installed, its version, the files, and the folder of
    reasons.toml and of the records."""

    library: pathlib.Path
    version: str
    files: tuple[str, ...]
    folder: pathlib.Path = HERE

    @property
    def results(self) -> pathlib.Path:
        return self.folder / "results"


SUITE = Suite(pathlib.Path(np.__file__).parent, np.__version__, tuple(FILES))
#: How many tests a process runs, if the workers are more than the files.
PART = 100
MASKED = [f"ma/tests/test_{name}" for name in "core extras old_ma regression".split()]


@dataclasses.dataclass
class Score:
    """The outcomes of the tests of one file.

    `failed` and `excluded` count failures by class (reasons.toml): those of `excluded` need what
    arrays on a GPU cannot hold or do. `numpy` counts tests that pass without reaching cudamath's
    code.
    """

    passed: int = 0
    failed: dict[str, int] = dataclasses.field(default_factory=dict)
    excluded: dict[str, int] = dataclasses.field(default_factory=dict)
    numpy: int = 0
    skipped: int = 0

    @property
    def counted(self) -> int:
        return self.passed + sum(self.failed.values())

    @property
    def share(self) -> float:
        return self.passed / self.counted if self.counted else 1.0

    def __add__(self, other: Score) -> Score:
        def total(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
            return {name: a.get(name, 0) + b.get(name, 0) for name in sorted(a | b)}

        return Score(
            self.passed + other.passed,
            total(self.failed, other.failed),
            total(self.excluded, other.excluded),
            self.numpy + other.numpy,
            self.skipped + other.skipped,
        )


@functools.cache
def reasons(suite: Suite = SUITE) -> dict[str, Any]:
    """reasons.toml, its expressions compiled."""
    table = tomllib.loads((suite.folder / "reasons.toml").read_text(encoding="utf-8"))
    for entry in table["reason"]:
        if not {"test", "error", "line"} & set(entry):
            raise ValueError(f"reasons.toml: an entry of class {entry['class']} says nothing")
        for part in ("test", "error", "line"):
            entry[part] = re.compile(entry.get(part, ""))
    return table


def reason(test: str, outcome: dict[str, Any], suite: Suite = SUITE) -> str:
    """The class of a failure: that of the first entry of reasons.toml that fits it."""
    error = f"{outcome['error']}: {outcome['text']}"
    for entry in reasons(suite)["reason"]:
        if (
            entry["test"].match(test)
            and entry["error"].search(error)
            and entry["line"].search(outcome.get("line", ""))
        ):
            return entry["class"]
    return "defect"


def outcomes(
    files: Sequence[str],
    device: str = "cpu",
    cases: int | None = None,
    part: str = "0/1",
    suite: Suite = SUITE,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Run test files in one process; the outcome of each test, by file.

    cases: how many cases of a test run at most. part: `i/n` runs the i-th of n parts of the tests.
    """
    paths = {str(suite.library / f"{file}.py"): file for file in files}
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "outcomes.json"
        options = ["--noconftest", "-c", os.devnull, "--rootdir", suite.library, "-m", "not slow"]
        plain = ["-q", "--tb=no", "--no-header", "--disable-warnings", "--timeout", "300"]
        dose = ["--cases", str(cases)] if cases else []
        run = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider"),
                *(*options, *plain, *dose, "--part", part, "--device", device),
                *("--record", record, *paths),
            ],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)]),
                "NPY_AVAILABLE_MEM": "1 GB",  # tests of larger arrays skip themselves
                "PYTHONHASHSEED": "0",
                # the constants of our sources, which it looks for in each file that is imported
                "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis"),
            },
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if not record.is_file():
            raise RuntimeError(f"{files}: no test ran\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        by_path = json.loads(record.read_text())
        return {file: by_path.get(path, {}) for path, file in paths.items()}


def score(file: str, results: dict[str, dict[str, Any]], suite: Suite = SUITE) -> Score:
    """Count the outcomes of a file's tests."""
    made = Score()
    for test, outcome in results.items():
        kind = outcome["outcome"]
        if kind != "failed":
            setattr(made, kind, getattr(made, kind) + 1)
            continue
        name = reason(f"{file}::{test}", outcome, suite)
        counts = made.excluded if name in reasons(suite)["needs"] else made.failed
        counts[name] = counts.get(name, 0) + 1
    return made


#: How a line of a test names a method of its arrays.
METHOD = re.compile(r"\.(\w+)\(")


def blamed(outcome: dict[str, Any]) -> set[str]:
    """The public names of NumPy's at which a test failed.

    That with which the error's text begins, as in "sort: kind must be ..."; otherwise those that
    stand in the line of the test.
    """
    line, used = outcome.get("line", ""), set(outcome["used"])
    methods = {name for name in METHOD.findall(line) if hasattr(np.ndarray, name)}
    functions = {path for path in used if re.search(rf"\b{path.rpartition('.')[2]}\b", line)}
    starts = re.match(r"(?:\w+\.)*(\w+)[:(]", outcome["text"])
    said = starts and starts[1]
    exact = {path for path in used if path.rpartition(".")[2] == said}
    absent = re.match(r"cudamath has no (numpy\.[\w.]+)", outcome["text"])
    if absent:
        return {absent[1]}
    if exact:
        return exact
    if said in methods:
        return {f"numpy.ndarray.{said}"}
    named = {path.rpartition(".")[2] for path in functions}
    return functions | {f"numpy.ndarray.{name}" for name in methods - named}


def by_name(results: Iterable[tuple[str, dict[str, dict[str, Any]]]]) -> dict[str, dict[str, Any]]:
    """For each public name of NumPy's: how many of the tests that use it pass, and at which line
    the first of those stops that fail at it and count."""
    table: dict[str, dict[str, Any]] = collections.defaultdict(lambda: {"passed": 0, "failed": 0})
    for file, tests in results:
        for test, outcome in tests.items():
            if outcome["outcome"] == "passed":
                for path in outcome["used"]:
                    table[path]["passed"] += 1
            elif outcome["outcome"] == "failed":
                kind = reason(f"{file}::{test}", outcome)
                if kind in reasons()["needs"] or "used" not in outcome:
                    continue
                for path in blamed(outcome):
                    entry = table[path]
                    entry["failed"] += 1
                    entry.setdefault("kinds", {}).setdefault(kind, 0)
                    entry["kinds"][kind] += 1
                    text = outcome["text"].replace(f"{SUITE.library.parent}{os.sep}", "")
                    said = f"{outcome['error']}: {text[:100]}".strip(": ")
                    entry.setdefault("lines", {}).setdefault(kind, [outcome.get("line", ""), said])
    return {path: table[path] for path in sorted(table)}


def causes(
    results: Iterable[tuple[str, dict[str, dict[str, Any]]]], suite: Suite = SUITE
) -> list[str]:
    """The failures that no reason excuses, equal ones together, the most frequent first."""
    groups: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for file, tests in results:
        for test, outcome in tests.items():
            if outcome["outcome"] != "failed":
                continue
            if reason(f"{file}::{test}", outcome, suite) == "defect":
                text = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]\d+)?", "N", outcome["text"])
                said = "" if text and "assert" not in text[:12] else outcome.get("line", "")
                groups[f"{outcome['error']}: {text[:120]}", said[:80]].append(f"{file}::{test}")
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [f"{len(tests):>5} {' | '.join(what)} || {tests[0]}" for what, tests in ordered]


def failures(
    results: Iterable[tuple[str, dict[str, dict[str, Any]]]], suite: Suite = SUITE
) -> dict[str, Any]:
    """The tests that fail, by file and class of reason."""
    table: dict[str, dict[str, list[str]]] = {}
    for file, tests in results:
        for test, outcome in sorted(tests.items()):
            if outcome["outcome"] == "failed":
                kind = reason(f"{file}::{test}", outcome, suite)
                table.setdefault(file, {}).setdefault(kind, []).append(test)
    return table


def recorded_failures(device: str, suite: Suite = SUITE) -> dict[str, dict[str, list[str]]]:
    """The committed list of the tests that fail on a device, by file and class of reason."""
    return json.loads((suite.results / f"{device}_failed.json").read_text())


def news(
    device: str, results: Iterable[tuple[str, dict[str, dict[str, Any]]]], suite: Suite = SUITE
) -> list[str]:
    """The failures that the record lacks, or has in another class, each in a line."""
    before = recorded_failures(device, suite)
    lines = []
    for file, tests in results:
        for kind, failed in failures([(file, tests)], suite).get(file, {}).items():
            if kind in ("internals", "large"):  # reference counts depend on what ran before,
                continue  # memory on what else runs
            for test in sorted(set(failed) - set(before.get(file, {}).get(kind, []))):
                outcome = tests[test]
                said = f"{outcome['error']}: {outcome['text'][:200]}"
                lines.append(f"{file}::{test} ({kind}) {said} | {outcome.get('line', '')}")
    return lines


def recorded(device: str, suite: Suite = SUITE) -> dict[str, Any] | None:
    """The committed record of a device, or None."""
    file = suite.results / f"{device}.json"
    if not file.is_file():
        return None
    record = json.loads(file.read_text())
    record["files"] = {name: Score(**counts) for name, counts in record["files"].items()}
    return record


def parts(file: str, workers: int, suite: Suite = SUITE) -> list[str]:
    """The parts in which a file runs: with more workers than files, PART tests each."""
    known = recorded("cpu", suite)
    score = known["files"].get(file) if known else None
    if workers <= len(suite.files) or score is None:
        return ["0/1"]
    tests = score.counted + sum(score.excluded.values()) + score.numpy + score.skipped
    count = -(-tests // PART)
    return [f"{i}/{count}" for i in range(count)]


def write(
    device: str,
    scores: dict[str, Score],
    results: dict[str, dict[str, dict[str, Any]]],
    suite: Suite = SUITE,
) -> None:
    from cudamath.runtime import device as devices

    name = devices.info(0).name if device == "cuda" else "CPU"
    record = {
        "device": name,
        suite.library.name: suite.version,
        "python": ".".join(map(str, sys.version_info[:2])),
        "files": {file: dataclasses.asdict(scores[file]) for file in sorted(scores)},
    }
    suite.results.mkdir(exist_ok=True)
    in_order = sorted(results.items())
    parts = {"": record, "_failed": failures(in_order, suite)}
    if set(results) == set(suite.files):
        if suite is SUITE:
            parts["_names"] = by_name(in_order)
    else:  # the others stay as they are
        before = json.loads((suite.results / f"{device}.json").read_text())
        names = {*before["device"].split(" and "), name}
        record["device"] = " and ".join(sorted(names))
        record["files"] = dict(sorted({**before["files"], **record["files"]}.items()))
        others = {f: t for f, t in recorded_failures(device, suite).items() if f not in results}
        parts["_failed"] = dict(sorted({**others, **parts["_failed"]}.items()))
    for part, table in parts.items():
        (suite.results / f"{device}{part}.json").write_text(json.dumps(table, indent=1) + "\n")


def main(suite: Suite = SUITE) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=suite.files)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--record", action="store_true", help="write results/<device>.json")
    parser.add_argument("--causes", action="store_true", help="list what is to be mended")
    options = parser.parse_args()
    files = [f for name in options.files for f in (MASKED if name == "ma" else [name])]
    if options.record and set(files) != set(suite.files) and not recorded(options.device, suite):
        parser.error("the first record is of all files")
    scores: dict[str, Score] = {}
    results: dict[str, dict[str, dict[str, Any]]] = {file: {} for file in files}
    left = {file: parts(file, options.workers, suite) for file in files}
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        runs = {
            pool.submit(outcomes, [file], options.device, part=part, suite=suite): (file, part)
            for file, of_file in sorted(left.items(), key=lambda item: -len(item[1]))
            for part in of_file
        }
        for run in concurrent.futures.as_completed(runs):
            file, part = runs[run]
            results[file].update(run.result()[file])
            left[file] = [other for other in left[file] if other != part]
            if left[file]:
                continue
            made = scores[file] = score(file, results[file], suite)
            kinds = {**made.failed, **{f"({name})": n for name, n in made.excluded.items()}}
            print(
                f"{made.share:7.1%} {made.passed:>6} of {made.counted:>6} {file} {kinds}",
                flush=True,
            )
    whole = sum(scores.values(), Score())
    print(
        f"{whole.share:7.1%} {whole.passed:>6} of {whole.counted:>6} in all; failed {whole.failed}"
    )
    print(f"not counted: {whole.excluded}, {whole.numpy} of NumPy alone, {whole.skipped} skipped")
    if options.causes:
        print(*causes(results.items(), suite), sep="\n")
    if options.record:
        write(options.device, scores, results, suite)
    elif (suite.results / f"{options.device}_failed.json").is_file():
        print(*news(options.device, sorted(results.items()), suite), sep="\n")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
