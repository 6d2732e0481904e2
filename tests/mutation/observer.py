"""pytest's plugin for runs of the mutation gate; it is loaded by name (`-p observer`).

Where OBSERVE names a file, the run is without a bug: each test that passes is written down with its
time and with what it executed of the places where bugs will be planted. Where CHOSEN names a file,
only the tests that it lists run, in that order, and the last one that began is written to BEGUN: a
process that dies or hangs names it so. Where CASES is a number, so many cases of each test run;
WORDS, if given, says which words tell that a test, or one of its cases, is to the point.
"""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

_ROOT = f"{pathlib.Path(__file__).parents[2]}/"


class Monitored:
    """Tells each function that begins, and each line of those that are wanted, once a test: what
    has been seen costs nothing from then on (sys.monitoring, of Python 3.12)."""

    def __init__(
        self, called: Callable[[CodeType], bool], stepped: Callable[[CodeType, int], None]
    ):
        self.called, self.stepped = called, stepped
        monitoring = sys.monitoring
        self.starts, self.lines = monitoring.events.PY_START, monitoring.events.LINE
        self.tool = next(i for i in range(6) if monitoring.get_tool(i) is None)
        monitoring.use_tool_id(self.tool, "mutation")
        monitoring.register_callback(self.tool, self.starts, self._started)
        monitoring.register_callback(self.tool, self.lines, self._stepped)

    def _started(self, code: CodeType, offset: int) -> Any:
        if self.called(code):
            sys.monitoring.set_local_events(self.tool, code, self.lines)
        return sys.monitoring.DISABLE

    def _stepped(self, code: CodeType, line: int) -> Any:
        self.stepped(code, line)
        return sys.monitoring.DISABLE

    def begin(self) -> None:
        sys.monitoring.restart_events()
        sys.monitoring.set_events(self.tool, self.starts)

    def end(self) -> None:
        sys.monitoring.set_events(self.tool, 0)


class Traced:
    """The same of every call and every line (sys.settrace, for Python 3.11)."""

    def __init__(
        self, called: Callable[[CodeType], bool], stepped: Callable[[CodeType, int], None]
    ):
        self.called, self.stepped = called, stepped

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if self.called(frame.f_code) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.stepped(frame.f_code, frame.f_lineno)
        return self._line

    def begin(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    def end(self) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


class Observed:
    """Writes a line for each test that passes: its name, seconds, and numbers of places. A place is
    the whole number of a statement, or of a function, or of a file."""

    def __init__(self, places: str):
        told = json.loads(pathlib.Path(places).read_text(encoding="utf-8"))
        #: file -> its number, and those of lines and of first lines of functions
        self.files: dict[str, int] = {_ROOT + name: n for name, n in told["files"].items()}
        self.lines: dict[str, dict[int, list[int]]] = {
            _ROOT + name: {int(line): found for line, found in lines.items()}
            for name, lines in told["lines"].items()
        }
        self.functions: dict[tuple[str, int], int] = {
            (_ROOT + name, first): n for name, first, n in told["functions"]
        }
        self.watched: dict[CodeType, dict[int, list[int]] | None] = {}
        self.hit: set[int] = set()
        self.fine = True
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        self.out = open(f"{places}.{worker}", "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        watch = Monitored if sys.version_info >= (3, 12) else Traced
        self.watch = watch(self.called, self.stepped)

    def called(self, code: CodeType) -> bool:
        """A function begins: whether its lines are wanted, too."""
        if code not in self.watched:
            wanted = code.co_filename in self.files and code.co_name != "<module>"
            self.watched[code] = self.lines[code.co_filename] if wanted else None
        if self.watched[code] is None:
            return False
        self.hit.add(self.files[code.co_filename])
        number = self.functions.get((code.co_filename, code.co_firstlineno))
        if number is not None:
            self.hit.add(number)
        return number is not None or code.co_name.startswith("<")

    def stepped(self, code: CodeType, line: int) -> None:
        self.hit.update((self.watched[code] or {}).get(line, ()))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.hit, self.fine, begun = set(), True, time.perf_counter()
        self.watch.begin()
        try:
            return (yield)
        finally:
            self.watch.end()
            if self.fine and self.hit:
                seconds = round(time.perf_counter() - begun, 3)
                self.out.write(json.dumps([item.nodeid, seconds, sorted(self.hit)]) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.fine &= report.outcome == "passed"


class Chosen:
    """Runs the tests of a list."""

    def __init__(self, chosen: str, begun: str):
        names = json.loads(pathlib.Path(chosen).read_text(encoding="utf-8"))
        self.places = {name: i for i, name in enumerate(names)}
        self.begun = pathlib.Path(begun)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.places),
            key=lambda item: self.places[item.nodeid],
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.begun.write_text(nodeid, encoding="utf-8")


class FewCases:
    """Of each test at most so many cases: those that the words tell, as many of each kind spread
    evenly; the tests in turns, those first that the words tell."""

    def __init__(self, most: int, begun: str, words: dict[str, float]):
        self.most, self.begun, self.words = most, pathlib.Path(begun), words

    def told(self, item: Any) -> float:
        """How much of the words a case has: in its name, in what is switched on for it, and (half)
        in the text of the test."""
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        switched = {name for name, value in parameters.items() if value is True}
        name = item.nodeid.rpartition("::")[2].lower()
        text = inspect.getsource(item.function) if hasattr(item, "function") else ""
        return sum(
            weight * (1.0 if word in name or word in switched else 0.5 if word in text else 0.0)
            for word, weight in self.words.items()
        )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        groups: dict[Any, list[pytest.Item]] = {}
        for item in items:
            if not any(mark.name == "skip" for mark in item.own_markers):
                name = getattr(item, "originalname", item.name)
                groups.setdefault((item.parent, name), []).append(item)
        spread = []
        for group in groups.values():
            by_score: dict[float, list[pytest.Item]] = {}
            for item in group:
                by_score.setdefault(self.told(item), []).append(item)
            chosen: list[tuple[float, pytest.Item]] = []
            for score in sorted(by_score, reverse=True):
                same = by_score[score]
                few = min(self.most - len(chosen), len(same))
                chosen += [(score, same[i * len(same) // few]) for i in range(few)]
            spread += [(-score, i, item) for i, (score, item) in enumerate(chosen)]
        items[:] = [item for *_, item in sorted(spread, key=lambda each: each[:2])]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.begun.write_text(nodeid, encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    told = os.environ
    if "OBSERVE" in told:
        config.pluginmanager.register(Observed(told["OBSERVE"]))
    elif "CHOSEN" in told:
        config.pluginmanager.register(Chosen(told["CHOSEN"], told["BEGUN"]))
    elif "CASES" in told:
        config.pluginmanager.register(
            FewCases(int(told["CASES"]), told["BEGUN"], json.loads(told.get("WORDS", "{}")))
        )
