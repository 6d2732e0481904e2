"""What is claimed elsewhere, measured: the measuring and the table."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np
import pytest

from benchmarks import format, headlines

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)


def test_headlines_say_how_many_times_as_fast(clock: Any, tmp_path: pathlib.Path) -> None:
    calls = {
        headlines.OURS: (lambda: None, lambda: clock.sleep(0.002)),
        "slow": (lambda: clock.sleep(0.02), lambda: None),
    }
    seconds = headlines.measure(calls, rounds=3)
    assert seconds == pytest.approx({headlines.OURS: 0.002, "slow": 0.02})
    record = {
        "headlines": [
            {
                "title": "matmul",
                "claimed": "10 times",
                "seconds": {headlines.OURS: 0.002, "slow": 0.03},
            }
        ],
        "cores": 2,
        "processor": "P",
        "commit": "abc",
        "date": "today",
    }
    (tmp_path / "headlines.json").write_text(json.dumps(record))
    assert (
        headlines.section(tmp_path, format.duration)[-1]
        == "| matmul | 10 times | 2 ms | slow: 30 ms | 15 |"
    )
    assert headlines.section(tmp_path / "none", format.duration) == []


def test_what_is_slow_runs_twice(clock: Any) -> None:
    lasts = iter([0.9, 0.6])  # seconds
    calls = {
        "loops": (lambda: clock.sleep(next(lasts)), lambda: None),
        headlines.OURS: (lambda: clock.sleep(0.001), lambda: None),
    }
    seconds = headlines.measure(calls, rounds=3)
    assert list(seconds) == list(calls) and seconds == pytest.approx(
        {"loops": 0.6, headlines.OURS: 0.001}
    )
    assert next(lasts, None) is None


def test_a_cpu_takes_as_many_threads_as_serve_it(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)), raising=False)
    headlines.on_cpu(taken.append, lambda: clock.sleep(0.001 if taken[-1] == 8 else 0.01))
    assert taken == [1, 8, 16, 32, 8]


def test_three_loops_multiply() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 20, 20))
    np.testing.assert_allclose(headlines.loops()(a, b), a @ b, rtol=1e-12)
