"""A pytest plugin for GPU tests: it reports how many tests were skipped without a GPU, and records
a run.

python -m pytest -p benchmarks.record -m gpu --record benchmarks/results/<gpu>/tests.json
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", help="write counts, commit, versions and device to this JSON file")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--record")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(pathlib.Path(path).with_suffix(".failures.txt")))


class _Failures:
    """Writes each failure down as it happens, so that a run that is cut short still tells what it
    found."""

    def __init__(self, file: pathlib.Path):
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self.file.open("a") as out:
                out.write(f"==== {report.nodeid} ({report.when})\n{report.longreprtext[-3000:]}\n")


def _reports(reporter: Any, outcome: str) -> list[pytest.TestReport]:
    # A failed setup or teardown is an "error"; warnings and deselected items live under other
    # names.
    return [
        report
        for report in reporter.stats.get(outcome, [])
        if isinstance(report, pytest.TestReport)
    ]


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    from cudamath.runtime import device as devices

    counts = {outcome: len(_reports(terminalreporter, outcome)) for outcome in OUTCOMES}
    skipped = [
        report
        for report in _reports(terminalreporter, "skipped")
        if {"gpu", "multigpu"} & set(report.keywords)
    ]
    if devices.device_count() == 0:
        terminalreporter.write_line(
            f"{len(skipped)} GPU tests were skipped for want of a GPU; not found: "
            f"{devices.missing()}"
        )
    else:
        terminalreporter.write_line(
            f"{devices.device_count()} GPU(s); {len(skipped)} GPU tests were skipped"
        )
    path = config.getoption("--record")
    if path:
        from benchmarks.run import environment

        device = "cuda" if devices.device_count() else "cpu"
        record = {
            "command": " ".join(map(str, config.invocation_params.args)),
            "marks": config.getoption("-m"),
            "devices": devices.device_count(),
            "exit_status": int(exitstatus),
            **counts,
            "failures": sorted(
                report.nodeid
                for kind in ("failed", "error")
                for report in _reports(terminalreporter, kind)
            ),
            "seconds": round(
                sum(
                    report.duration
                    for outcome in OUTCOMES
                    for report in _reports(terminalreporter, outcome)
                ),
                1,
            ),
            **environment(device),
        }
        file = pathlib.Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(record, indent=1) + "\n")
