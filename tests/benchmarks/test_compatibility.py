"""docs/compatibility.md: what is measured of NumPy's names, and that page and record agree."""

from __future__ import annotations

import inspect
import json
from typing import Any

import numpy as np
import pytest

import cudamath as cm
from benchmarks import compatibility

COMMAND = "python -m benchmarks.compatibility"


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return json.loads(compatibility.RECORD.read_text(encoding="utf-8"))


def test_the_page_is_what_the_record_says(record: dict[str, Any]) -> None:
    assert compatibility.PAGE.read_text(encoding="utf-8") == compatibility.page(record), COMMAND


def test_the_record_is_what_is_measured_now(record: dict[str, Any]) -> None:
    if record["numpy"] != np.__version__:
        pytest.skip(f"the record is of NumPy {record['numpy']}")
    measured = json.loads(json.dumps(compatibility.record()))
    assert record["suites"] == measured["suites"], COMMAND
    changed = {
        path: (record["names"].get(path), entry)
        for path, entry in measured["names"].items()
        if record["names"].get(path) != entry
    }
    assert changed == {} and record["names"].keys() == measured["names"].keys(), COMMAND


def test_every_name_is_on_the_page_once(record: dict[str, Any]) -> None:
    page = compatibility.PAGE.read_text(encoding="utf-8")
    for name in [*np.linalg.__all__, *np.fft.__all__]:
        assert f"`{name}`" in page
    names = record["names"]
    public = [name for name in np.__all__ if not name.startswith("__")]
    assert set(public) - set(names) <= {"linalg", "fft", "random", "polynomial"}
    assert {path for path in names if path.startswith("ndarray.")} == {
        f"ndarray.{name}" for name in dir(np.ndarray) if not name.startswith("_")
    }


def test_every_absent_name_says_what_to_use(record: dict[str, Any]) -> None:
    silent = [
        p for p, (state, notes, *_) in record["names"].items() if state == "absent" and not notes
    ]
    assert silent == [], "benchmarks/compatibility.toml lacks them"
    absent, differs, _ = compatibility.by_hand()
    here = [path for path in absent if record["names"].get(path, ["absent"])[0] != "absent"]
    assert here == [], "here, although compatibility.toml says what to use instead"
    assert set(differs) <= set(record["names"])


def test_parameters_are_compared() -> None:
    def theirs(a: Any, axis: Any = 0, out: Any = None, *, where: Any = True, like: Any = 0): ...
    def same(a: Any, axis: Any = 0, out: Any = None, *, where: Any = True): ...
    def more(a: Any, axis: Any = 0, out: Any = None, *, where: Any = True, device: Any = 0): ...
    def fewer(a: Any, axis: Any = 0): ...
    def position(x: Any, /, axis: Any = 0, out: Any = None, *, where: Any = True): ...
    def keyword(a: Any, axis: Any = 0, *, out: Any = None, where: Any = True): ...
    def anything(*args: Any, **kwargs: Any): ...

    assert compatibility.lacks(theirs, same) == compatibility.lacks(theirs, more) == []
    assert compatibility.lacks(theirs, anything) == []
    assert compatibility.lacks(theirs, fewer) == ["without `out`, `where`"]
    assert compatibility.lacks(theirs, position) == ["by position only: `a`"]
    assert compatibility.lacks(theirs, keyword) == ["by keyword only: `out`"]
    assert inspect.signature(cm.cumsum)  # of functions on the fast path too


def test_calls_with_nonsense_leave_the_settings_alone() -> None:
    settings = np.get_printoptions(), np.geterr()
    compatibility.measure({})
    assert (np.get_printoptions(), np.geterr()) == settings


def test_failures_of_numpys_tests_make_a_difference() -> None:
    suite = {
        "numpy.sum": {
            "passed": 3,
            "failed": 3,
            "kinds": {"defect": 2, "words": 1},
            "lines": {"defect": ["np.sum(x)", "TypeError: no"], "words": ["np.sum()", "no"]},
        },
        "numpy.prod": {
            "passed": 0,
            "failed": 1,
            "kinds": {"words": 1},
            "lines": {"words": ["np.prod()", "no"]},
        },
    }
    with_suite, without = compatibility.measure(suite), compatibility.measure({})
    note = "2 of NumPy's tests stop at it: `np.sum(x)` (TypeError: no)"
    assert with_suite["sum"].state == "differs" and note in with_suite["sum"].notes
    assert note not in without["sum"].notes
    assert with_suite["prod"][:2] == without["prod"][:2]
    assert without["nditer"].state == "absent" and without["pi"].state == "same"


def test_what_readme_says(record: dict[str, Any]) -> None:
    line = compatibility.highlight(record)
    same, differs, absent = compatibility.counted(
        compatibility.Name(*entry) for entry in record["names"].values()
    )
    assert f"{same:,} are the same, {differs:,} differ and {absent:,} are absent" in line
    assert line in (compatibility.ROOT / "README.md").read_text(encoding="utf-8")
