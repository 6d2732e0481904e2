"""Every public name of NumPy beside cudamath's: `python -m benchmarks.compatibility`.

A name is *same*, *differs* or *absent*. Three things are measured: whether cudamath has the name;
which of NumPy's parameters its function lacks, or takes in another way; and at which names NumPy's
own tests fail (tests/numpy_suite). Beside it stands the score of SciPy's (tests/scipy_suite).
compatibility.toml adds what none of these shows. The record is
benchmarks/results/compatibility.json; the page docs/compatibility.md and a line of README are
written from it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
import re
import tomllib
import types
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import cudamath as cm

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "results" / "compatibility.json"
SUITE = ROOT / "tests" / "numpy_suite" / "results"
SCIPY = ROOT / "tests" / "scipy_suite" / "results"
PAGE = ROOT / "docs" / "compatibility.md"
#: Modules of NumPy's whose names are compared, with the names of the page's sections.
SPACES = {
    "": "numpy",
    "linalg": "numpy.linalg",
    "fft": "numpy.fft",
    "random": "numpy.random",
    "polynomial": "numpy.polynomial",
    **{
        f"polynomial.{name}": f"numpy.polynomial.{name}"
        for name in "chebyshev hermite hermite_e laguerre legendre polynomial polyutils".split()
    },
    "ndarray": "numpy.ndarray",
}
STATES = "same", "differs", "absent"
#: Parameters without a counterpart in any function; the page says so once.
WITHOUT = {"like", "subok"}
MISSING = object()
#: What Python says of a call that a function's parameters do not fit.
BINDING = re.compile(
    r"unexpected keyword argument|positional-only arguments? passed as keyword|"
    r"takes .* positional argument|multiple values for argument"
)


class Name(NamedTuple):
    """What is recorded of a name: its state, in what it differs or what to use, and how many of
    NumPy's tests that use it pass or fail at it."""

    state: str
    notes: list[str]
    passed: int
    failed: int


def names_of(space: str) -> list[str]:
    """NumPy's public names in a module or class."""
    if space == "ndarray":
        return [name for name in dir(np.ndarray) if not name.startswith("_")]
    module = importlib.import_module(SPACES[space])
    return sorted(name for name in module.__all__ if not name.startswith("__"))


def value_of(module: Any, path: str) -> Any:
    """What a module has under a dotted name, or MISSING."""
    for part in filter(None, path.split(".")):
        module = getattr(module, part, MISSING)
    return module


def parameters(function: Any) -> dict[str, inspect.Parameter] | None:
    """The parameters of a function, or None where they cannot be told."""
    if isinstance(function, type) or not callable(function):
        return None
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def takes(function: Any, keyword: str, required: Iterable[str], receiver: Sequence[Any]) -> bool:
    """Whether a function takes a keyword. It is called with nonsense, which it may refuse; NumPy's
    names of arrays are taken without being in the signature (core/dispatch/keyword_names.py)."""
    try:
        with np.printoptions(), np.errstate():  # some functions set them, to nonsense
            function(*receiver, **{name: object() for name in {*required, keyword}})
    except Exception as error:
        return not BINDING.search(str(error))
    return True


def lacks(theirs: Any, ours: Any, receiver: Sequence[Any] = ()) -> list[str]:
    """In what the parameters of our function differ from those of NumPy's.

    receiver: the array of a method.
    """
    wanted, mine = parameters(theirs), parameters(ours)
    if wanted is None or mine is None:
        return []
    p = inspect.Parameter
    positional = p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD
    kinds = [parameter.kind for parameter in mine.values()]
    many = p.VAR_POSITIONAL in kinds
    places = float("inf") if many else sum(kind in positional for kind in kinds)
    required = [
        parameter.name
        for parameter in wanted.values()
        if parameter.default is p.empty and parameter.kind is p.POSITIONAL_OR_KEYWORD
    ]
    required = [name for name in required if takes(ours, name, [], receiver)]
    by_position, by_keyword, missing = [], [], []
    for place, parameter in enumerate(wanted.values()):
        name, has_place = parameter.name, parameter.kind in positional
        if name in WITHOUT or parameter.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if parameter.kind is p.POSITIONAL_ONLY:
            missing += [name] * (place >= places)
        elif not takes(ours, name, required, receiver):
            (by_position if has_place and place < places else missing).append(name)
        elif has_place and place >= places:
            by_keyword.append(name)
    return [
        f"{what} {', '.join(f'`{name}`' for name in names)}"
        for what, names in (
            ("without", missing),
            ("by position only:", by_position),
            ("by keyword only:", by_keyword),
        )
        if names
    ]


def by_hand() -> tuple[dict[str, str], dict[str, str], list[str]]:
    """compatibility.toml: what to use instead of absent names, in what others differ, and what
    holds for all."""
    table = tomllib.loads((ROOT / "benchmarks" / "compatibility.toml").read_text(encoding="utf-8"))
    absent, differs = (
        {name: entry[key] for entry in table[part] for name in entry["names"].split()}
        for part, key in (("absent", "use"), ("differs", "how"))
    )
    return absent, differs, table["general"]


def tested(suite: dict[str, Any]) -> list[str]:
    """What NumPy's tests show of a name: the first line at which one that counts fails for a reason
    that is not among those said of all names."""
    kinds = {
        kind: count
        for kind, count in suite.get("kinds", {}).items()
        if kind in ("defect", "memory", "iterators", "absent")
    }
    if not kinds:
        return []
    kind = max(kinds, key=lambda each: kinds[each])
    line, said = suite["lines"][kind]
    count = sum(kinds.values())
    return [f"{count} of NumPy's tests stop{'s' * (count == 1)} at it: `{line}` ({said})"]


def measure(suite: dict[str, Any]) -> dict[str, Name]:
    """The state of every public name of NumPy's, by its dotted name without `numpy.`."""
    absent, differs, _ = by_hand()
    made = {}
    for space in SPACES:
        for name in names_of(space):
            path = f"{space}.{name}" if space else name
            theirs, ours = value_of(np, path), value_of(cm, path)
            if isinstance(theirs, types.ModuleType) and path in SPACES and ours is not MISSING:
                continue  # a section of its own
            counts = suite.get(f"numpy.{path}", {"passed": 0, "failed": 0})
            module = isinstance(theirs, types.ModuleType) != isinstance(ours, types.ModuleType)
            if ours is MISSING or module:
                instead = absent.get(path, absent.get(space))
                state, notes = "absent", [instead] if instead else []
            else:
                receiver = [cm.ones(3, device="cpu")] if space == "ndarray" else []
                notes = lacks(theirs, ours, receiver) if ours is not theirs else []
                notes += [differs[path]] if path in differs else []
                notes += tested(counts)
                state = "differs" if notes else "same"
            made[path] = Name(state, notes, counts["passed"], counts["failed"])
    return made


def space_of(path: str) -> str:
    return path.rpartition(".")[0]


def counted(names: Iterable[Name]) -> list[int]:
    """How many names are in each state."""
    states = [name.state for name in names]
    return [states.count(state) for state in STATES]


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def table(heading: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> list[str]:
    """A Markdown table whose last columns, `numbers` of them, are numbers."""
    words = len(heading) - numbers
    line = "|" + "---|" * words + "---:|" * numbers
    body = ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return ["| " + " | ".join(heading) + " |", line, *body]


def section(title: str, names: dict[str, Name]) -> list[str]:
    """A module's part of the page."""
    last = {path: path.rpartition(".")[2] for path in names}
    by_state = {state: [path for path in names if names[path].state == state] for state in STATES}
    lines = ["", f"## {title}", ""]
    if by_state["same"]:
        lines += ["Same: " + ", ".join(f"`{last[path]}`" for path in by_state["same"]) + "."]
    for state, heading in (("differs", "how"), ("absent", "instead")):
        rows = [(f"`{last[path]}`", "; ".join(names[path].notes)) for path in by_state[state]]
        if rows:
            lines += ["", *table((state, heading), rows)]
    return lines


#: The devices of the records of NumPy's own tests, as the page's columns call them.
DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def scores(record: dict[str, Any]) -> list[str]:
    """What NumPy's own tests say, by file, on each device on which they were run."""
    suites = record["suites"]
    heading = ["file"]
    rows = [[f"`{file}`"] for file in suites["cpu"]["files"]] + [["all"]]
    lines = ["", "## NumPy's own tests with the import changed", ""]
    for device, suite in suites.items():
        heading += [f"{DEVICES[device]}: passed", "of", "score"]
        results = [*suite["files"].values(), [suite["passed"], suite["counted"]]]
        for row, (passed, of) in zip(rows, results, strict=True):
            row += [f"{passed:,}", f"{of:,}", f"{passed / of:.1%}" if of else ""]
        failed = ", ".join(f"{count:,} {kind}" for kind, count in suite["failed"].items())
        excluded = ", ".join(f"{count:,} {kind}" for kind, count in suite["excluded"].items())
        lines += [
            f"On {'the CPU' if device == 'cpu' else 'an ' + suite['device']}, NumPy "
            f"{suite['numpy']}: left out are {excluded}, and {suite['alone']:,} that pass without "
            f"reaching cudamath's code; failed are {failed}.",
            "",
        ]
    return [
        *lines,
        "Counted are the tests that need no objects, texts, dates, records or C internals. "
        "`tests/numpy_suite/reasons.toml` says what the kinds of failures are. On a GPU the tests "
        'run in `cm.errstate(device="raise")`.',
        "",
        *table(heading, rows, 3 * len(suites)),
    ]


def scipy_scores(suite: dict[str, Any]) -> list[str]:
    """What SciPy's own tests say, by file."""
    failed = ", ".join(f"{count:,} {kind}" for kind, count in suite["failed"].items())
    excluded = ", ".join(f"{count:,} {kind}" for kind, count in suite["excluded"].items())
    files = {**suite["files"], "all": [suite["passed"], suite["counted"]]}
    rows = [
        (f"`{file}`" if file != "all" else file, f"{passed:,}", f"{of:,}", f"{passed / of:.1%}")
        for file, (passed, of) in files.items()
        if of
    ]
    return [
        "",
        "## SciPy's own tests with the import changed",
        "",
        "`scipy.fft`, `scipy.linalg`, `scipy.sparse` and `scipy.special` are `cm.fft`, "
        "`cm.linalg`, `cm.sparse` and "
        "`cm.special`, and all arrays are cudamath's. Counted are the tests of functions that "
        "cudamath has; where NumPy has a function of the same name, it is NumPy's "
        f"function. On the CPU, SciPy {suite['scipy']}: left out are {excluded}; failed are "
        f"{failed}. `tests/scipy_suite/reasons.toml` says what these kinds are.",
        "",
        *table(("file", "passed", "of", "score"), rows, 3),
    ]


def share(suite: dict[str, Any]) -> str:
    return f"{suite['passed'] / suite['counted']:.1%}"


def page(record: dict[str, Any]) -> str:
    """docs/compatibility.md."""
    names = {path: Name(*entry) for path, entry in record["names"].items()}
    spaces = {
        space: {path: name for path, name in names.items() if space_of(path) == space}
        for space in SPACES
    }
    rows = [(title, *map(str, counted(spaces[space].values()))) for space, title in SPACES.items()]
    rows.append(("all", *map(str, counted(names.values()))))
    lines = [
        "# NumPy's names in cudamath",
        "",
        "Written by `python -m benchmarks.compatibility` from measurement: which names are here, "
        "which of NumPy's parameters their functions take, and where the tests of NumPy "
        f"{record['numpy']} fail when their import is changed. A name *differs* if "
        "any of these shows a difference, however small.",
        "",
        *table(("module", *STATES), rows, 3),
        "",
        "What holds for all names, and is not repeated below:",
        "",
        *(f"- {text}" for text in record["general"]),
    ]
    for space, title in SPACES.items():
        lines += section(title, spaces[space])
    return "\n".join([*lines, *scores(record), *scipy_scores(record["scipy"])]) + "\n"


def highlight(record: dict[str, Any]) -> str:
    """What README says of it."""
    same, differs, absent = counted(Name(*entry) for entry in record["names"].values())
    passed = " and ".join(
        f"{suite['passed']:,} of {suite['counted']:,} pass on "
        f"{'the CPU' if device == 'cpu' else 'a GPU'} ({share(suite)})"
        for device, suite in record["suites"].items()
    )
    return (
        f"Of {same + differs + absent:,} public names of NumPy {record['numpy']}, {same:,} are the "
        f"same, {differs:,} differ and {absent:,} are absent: "
        "[docs/compatibility.md](docs/compatibility.md) lists each, and what to use. Of NumPy's "
        f"own tests, the import changed, {passed}."
    )


def suite_of(device: str, results: pathlib.Path = SUITE, library: str = "numpy") -> dict[str, Any]:
    """The sums of a record of a library's own tests."""
    recorded = json.loads((results / f"{device}.json").read_text())
    files = recorded["files"]
    failed, excluded = (
        {
            kind: sum(counts[part].get(kind, 0) for counts in files.values())
            for kind in sorted({kind for counts in files.values() for kind in counts[part]})
        }
        for part in ("failed", "excluded")
    )
    passed = {file: counts["passed"] for file, counts in files.items()}
    counts = {file: passed[file] + sum(files[file]["failed"].values()) for file in files}
    return {
        "device": recorded["device"],
        library: recorded[library],
        "passed": sum(passed.values()),
        "counted": sum(counts.values()),
        "failed": failed,
        "excluded": excluded,
        "alone": sum(entry["numpy"] for entry in files.values()),
        "files": {file: [passed[file], counts[file]] for file in files},
    }


def record() -> dict[str, Any]:
    """The measurement."""
    devices = [device for device in DEVICES if (SUITE / f"{device}.json").is_file()]
    return {
        "numpy": np.__version__,
        "general": by_hand()[2],
        "suites": {device: suite_of(device) for device in devices},
        "scipy": suite_of("cpu", SCIPY, "scipy"),
        "names": measure(json.loads((SUITE / "cpu_names.json").read_text())),
    }


def main() -> None:
    RECORD.write_text(json.dumps(record(), indent=1) + "\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(json.loads(RECORD.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
