"""What is claimed elsewhere, measured: the measuring and the table."""

from __future__ import annotations

import json
import os
import pathlib
import time

import numpy as np
import pytest

from benchmarks import headlines, report

pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated")


def test_headlines_say_how_many_times_as_fast(tmp_path: pathlib.Path) -> None:
    calls = {headlines.OURS: (lambda: None, lambda: time.sleep(0.002)), "slow": (lambda: time.sleep(0.02), lambda: None)}
    seconds = headlines.measure(calls, rounds=3)
    assert 5 < seconds["slow"] / seconds[headlines.OURS] < 11
    record = {"headlines": [{"title": "matmul", "claimed": "10 times", "seconds": {headlines.OURS: 0.002, "slow": 0.03}}],
              "cores": 2, "processor": "P", "commit": "abc", "date": "today"}
    (tmp_path / "headlines.json").write_text(json.dumps(record))
    assert headlines.section(tmp_path, report.duration)[-1] == "| matmul | 10 times | 2 ms | slow: 30 ms | 15 |"
    assert headlines.section(tmp_path / "none", report.duration) == []


def test_what_is_slow_runs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headlines, "SLOW", 0.01)
    runs = []
    calls = {"loops": (lambda: (runs.append(1), time.sleep(0.03)), lambda: None), headlines.OURS: (lambda: None, lambda: None)}
    seconds = headlines.measure(calls, rounds=3)
    assert list(seconds) == list(calls) and len(runs) == 2 and 0.03 <= seconds["loops"] < 0.2 and seconds[headlines.OURS] < 0.01


def test_a_cpu_takes_as_many_threads_as_serve_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)), raising=False)
    headlines.on_cpu(taken.append, lambda: time.sleep(0.001 if taken[-1] == 8 else 0.01))
    assert taken == [1, 8, 16, 32, 8]


def test_three_loops_multiply() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 20, 20))
    np.testing.assert_allclose(headlines.loops()(a, b), a @ b, rtol=1e-12)
