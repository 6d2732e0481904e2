"""Benchmarks of programs that run at a time: one measures, the others stand still."""

from __future__ import annotations

import os
import pathlib
import sys
import threading
import time

import pytest

from benchmarks.programs.turns import Gpu, shares

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped on Linux")

START = """
import os, pathlib, sys, time
from benchmarks.programs.turns import alone
log, turn = pathlib.Path(sys.argv[1]), sys.argv[3]
"""

#: Writes down when it ran, again and again, until a file is there.
BUSY = (
    START
    + """
while not log.with_name("done").exists():
    with log.open("a") as file:
        print(time.perf_counter(), file=file, flush=True)
    time.sleep(0.005)
"""
)

#: Measures twice, while the other runs, and writes down when.
MEASURES = (
    START
    + """
while not log.with_name("busy").exists():
    time.sleep(0.01)
for _ in range(2):
    with alone(turn), log.open("a") as file:
        begun = time.perf_counter()
        time.sleep(0.3)
        print(begun, time.perf_counter(), file=file)
    time.sleep(0.5)
log.with_name("done").touch()
"""
)


def start(gpu: Gpu, code: str, folder: pathlib.Path, name: str, until: float = 60) -> int | None:
    """Run code as a process that shares the GPU."""
    command = [sys.executable, "-c", code, str(folder / name)]
    return gpu.run(command, {**os.environ}, folder / f"{name}.log", time.monotonic() + until)


def numbers(file: pathlib.Path) -> list[list[float]]:
    return [list(map(float, line.split())) for line in file.read_text().splitlines()]


def test_others_stand_still(tmp_path: pathlib.Path) -> None:
    gpu, ends = Gpu(), []
    busy = threading.Thread(target=lambda: ends.append(start(gpu, BUSY, tmp_path, "busy")))
    busy.start()
    begun = time.perf_counter()
    assert start(gpu, MEASURES, tmp_path, "measures") == 0
    busy.join()
    assert ends == [0]
    spans, ran = numbers(tmp_path / "measures"), [t for (t,) in numbers(tmp_path / "busy")]
    assert len(spans) == 2
    for first, last in spans:
        assert not [t for t in ran if first < t < last]
        assert gpu.paused(first, last) == pytest.approx(last - first)
    assert [t for t in ran if spans[0][1] < t < spans[1][0]]  # it goes on
    assert 0.6 <= gpu.paused(begun, time.perf_counter()) < time.perf_counter() - begun
    assert gpu.paused(0.0, begun) == 0.0


def test_ends(tmp_path: pathlib.Path) -> None:
    """A process that fails, also while it measures, and one that takes too long."""
    gpu = Gpu()
    assert start(gpu, "raise SystemExit(3)", tmp_path, "fails") == 3
    assert start(gpu, START + "with alone(turn): os._exit(4)", tmp_path, "measuring") == 4
    assert start(gpu, "import time; time.sleep(60)", tmp_path, "long", until=0.5) is None
    slow = START + "with alone(turn): time.sleep(60)"
    assert start(gpu, slow, tmp_path, "slow", until=1.5) is None
    assert start(gpu, "print('well')", tmp_path, "well") == 0
    assert (tmp_path / "well.log").read_text() == "well\n"


def test_cores() -> None:
    """Parts of the cores that do not overlap; who measures has two for itself."""
    known = sorted(os.sched_getaffinity(0))
    assert shares(1) == [known] and shares(len(known) + 1) == [[]] * (len(known) + 1)
    gpu = Gpu(range(16))
    assert (*gpu.apart,) == (0, 1) and (*gpu.shared,) == (*range(2, 16),)
    assert (*Gpu([3, 4]).apart,) == () and (*Gpu([3, 4]).shared,) == (3, 4)
