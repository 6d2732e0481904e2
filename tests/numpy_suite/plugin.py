"""The pytest plugin under which NumPy's and SciPy's test files run with their imports changed.

`numpy_suite.py` starts pytest with it. It writes one record of a run (JSON): for each test its
outcome and NumPy's names that it uses; for each failure the class and text of the error, and the
line of the test at which it arose.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import json
import os
import pathlib
import random
import resource
import sys
import traceback
import types
import zlib
from collections.abc import Iterator
from typing import Any

import changed_imports
import hypothesis
import numpy as np
import pytest

import cudamath as cm

OURS = str(pathlib.Path(cm.__file__).parent) + os.sep
LENGTHS = 16
MEMORY = 6 << 30  # bytes
MARKERS = (
    "slow",
    "slow_pypy",
    "valgrind_error",
    "leaks_references",
    "thread_unsafe",
    "parallel_threads(n)",
    "iterations(n)",
    "xslow",
    "fail_slow(n)",
    "array_api_backends",
    "skip_xp_backends",
    "xfail_xp_backends",
    "uses_xp_capabilities",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="the default device in the tests")
    parser.addoption("--record", help="file to which the outcomes are written")
    parser.addoption("--cases", type=int, help="the most cases of a test that run")
    parser.addoption("--part", help="i/n: the tests of the i-th of n parts run, counted from 0")


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    hypothesis.settings.register_profile(
        "numpy",
        deadline=None,
        database=None,
        derandomize=True,
        max_examples=20,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("numpy")
    cm.set_default_device(config.option.device)
    if config.option.device == "cpu":  # what wants all memory fails, and takes no other along
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))
    if config.option.record:
        config.pluginmanager.register(Recorder(config), "recorder")


def is_length(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def spread(items: list[pytest.Item], count: int) -> list[pytest.Item]:
    """At most `count` of these, evenly."""
    if len(items) <= count:
        return items
    step = (len(items) - 1) / max(count - 1, 1)
    return [items[round(i * step)] for i in range(count)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the cases of a test that differ in a number alone, LENGTHS run: sorting by each method is
    tested at all lengths up to 512. With --cases, so many of all its cases run."""
    lengths: dict[Any, list[pytest.Item]] = collections.defaultdict(list)
    for item in items:
        parameters = item.callspec.params.items() if hasattr(item, "callspec") else ()
        others = [(key, repr(value)) for key, value in parameters if not is_length(value)]
        lengths[item.parent, getattr(item, "originalname", item.name), *others].append(item)
    cases: dict[Any, list[pytest.Item]] = collections.defaultdict(list)
    for (parent, name, *_), group in lengths.items():
        cases[parent, name] += spread(group, LENGTHS)
    most = config.option.cases or len(items)
    kept = {item for group in cases.values() for item in spread(group, most)}
    if config.option.part:
        part, parts = map(int, config.option.part.split("/"))
        ordered = [item for item in items if item in kept]
        kept = set(ordered[len(ordered) * part // parts : len(ordered) * (part + 1) // parts])
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_collection_finish(session: pytest.Session) -> None:
    """What files made while they were loaded becomes cudamath's."""
    if session.config.option.device == "cpu":  # as in tests/conftest.py: a quarter of all time
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 10, 10)
    change = changed_imports.Change()
    changed_imports.Module.loading = False
    for module in {item.module for item in session.items}:  # type: ignore[attr-defined]
        change.names(module)
    for item in session.items:
        if hasattr(item, "callspec"):
            parameters = item.callspec.params
            parameters.update({name: change.value(value) for name, value in parameters.items()})


class ChangedModule(pytest.Module):
    """A test file of NumPy's."""

    def _getobj(self) -> types.ModuleType:
        return changed_imports.load(self.path)


def pytest_pycollect_makemodule(module_path: pathlib.Path, parent: Any) -> pytest.Module:
    return ChangedModule.from_parent(parent, path=module_path)


@pytest.fixture
def xp() -> types.ModuleType:
    """The library of arrays, in tests of SciPy's that take any."""
    return cm


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Runs a test with numbers that depend on its name alone, and sees whether it reaches
    cudamath."""
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)
    cm.random.seed(seed)
    item.reached = False  # type: ignore[attr-defined]
    changed_imports.Module.used = item.used = names_in(item.function.__code__, item.module)  # type: ignore[attr-defined]

    def watch(frame: Any, event: str, _: Any) -> None:
        """Called for each call of a function, until one is cudamath's."""
        file = frame.f_code.co_filename
        if event == "call" and (file.startswith(OURS) or file.startswith("<cudamath")):
            item.reached = True  # type: ignore[attr-defined]
            sys.setprofile(None)

    with np.errstate(), at_once(item.config.option.device):
        sys.setprofile(watch)
        try:
            return (yield)
        finally:
            sys.setprofile(None)


def at_once(device: str) -> contextlib.AbstractContextManager[Any]:
    """A context in which errors that kernels find are raised by the call, as NumPy's are."""
    return contextlib.nullcontext() if device == "cpu" else cm.errstate(device="raise")


def names_in(code: types.CodeType, module: types.ModuleType) -> set[str]:
    """The public names of NumPy's that a test uses because its file imported them by name."""
    used = {
        path
        for name in code.co_names
        if (path := changed_imports.PATHS.get(id(vars(module).get(name)))) is not None
    }
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return used.union(*(names_in(part, module) for part in inner))


class Recorder:
    """Collects the outcomes, by the path of the file and the name of the test."""

    def __init__(self, config: pytest.Config):
        self.file = pathlib.Path(config.option.record)
        self.outcomes: dict[str, dict[str, dict[str, Any]]] = collections.defaultdict(dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Iterator[Any]:
        report = yield
        tests = self.outcomes[str(item.path)]
        entry = tests.setdefault(item.nodeid.partition("::")[2], {"outcome": "passed"})
        entry["seconds"] = round(entry.get("seconds", 0) + call.duration, 3)
        if hasattr(report, "wasxfail"):
            entry["outcome"] = "skipped"  # NumPy itself is expected to fail
        elif report.outcome != "passed" and entry["outcome"] != "failed":
            entry["outcome"] = report.outcome
            if report.failed:
                entry.update(cause(call.excinfo.value, str(item.path)))
        entry["used"] = sorted(getattr(item, "used", ()))
        if call.when == "call" and not item.reached and entry["outcome"] == "passed":  # type: ignore[attr-defined]
            entry["outcome"] = "numpy"  # NumPy's own objects alone
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            text = str(report.longrepr).splitlines()[-1]
            failure = {"outcome": "failed", "error": "load", "text": text}
            self.outcomes[str(report.fspath)][report.nodeid] = failure

    def pytest_sessionfinish(self) -> None:
        self.file.write_text(json.dumps(self.outcomes, indent=1))


def cause(error: BaseException, file: str) -> dict[str, str]:
    """The error of a failed test: its class and text, the line of the test file, and the last
    places in cudamath."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.line or "" for frame in frames if frame.filename == file]
    ours = [
        f"{frame.filename[len(OURS) :]}:{frame.name}"
        for frame in frames
        if frame.filename.startswith(OURS)
    ]
    return {
        "error": type(error).__name__,
        "text": " ".join(str(error).split())[:400],
        "line": lines[-1] if lines else "",
        "first": ours[0] if ours else "",
        "last": ours[-1] if ours else "",
    }
