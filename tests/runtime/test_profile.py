"""Profiling: device times of launches, library calls and copies."""

import json

import numpy as np
import pytest
from fake_driver import bind, gpu

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Call
from cudamath.runtime import device as devices
from cudamath.runtime import kernel_launch, profiler
from cudamath.runtime.state import runtime


def test_profile(fake, tmp_path):
    def double(x, y):
        y[...] = 2 * x

    x = gpu(np.zeros((4, 8)))
    row = x._view(x._layout.view((4, 8), (0, 8)))  # one row, broadcast
    run, wide = (bind(double, [each], [((4, 8), "f8")], [Input(0), Output(0)]) for each in (x, row))
    library = Plan([], [Call(lambda s, a: None, [Input(0)])]).bind("matmul", [x._layout])
    original = kernel_launch.prepare_launcher()["launch"]
    run(x)
    with cm.cuda.profile() as p, cm.cuda.annotate("part"):
        run(x)
        run(x)
        wide(row)
        library(x)
        x.to_numpy()
    run(x)
    assert (
        runtime.launcher["launch"] is original
        and runtime.observe_copy is None
        and runtime.launcher["observe_call"] is None
    )
    rows = {row["name"]: row for row in p.stats()}
    assert {name: row["count"] for name, row in rows.items()} == {
        "double": 3,
        "matmul (library)": 1,
        "copy device to host": 1,
    }
    assert (
        rows["double"]["nbytes"] == 2 * 512 + 256 + 64
        and rows["copy device to host"]["nbytes"] == 256
    )
    assert (
        rows["matmul (library)"]["nbytes"] is None and rows["matmul (library)"]["gb_per_s"] is None
    )
    assert all(
        row["operations"] is None and row["tflop_per_s"] is None for row in rows.values()
    )  # nobody said
    peak = cm.cuda.devices()[0].memory_bandwidth / 1e9
    assert rows["double"]["of_peak"] == pytest.approx(rows["double"]["gb_per_s"] / peak)
    assert rows["copy device to host"]["of_peak"] is None
    for each in rows.values():
        assert each["total_us"] > 0 and each["mean_us"] == pytest.approx(
            each["total_us"] / each["count"]
        )
        assert each["min_us"] <= each["mean_us"] <= each["max_us"]
    assert cm.cuda.performance_stats() == p.stats()
    assert "double" in str(p) and str(p).count("\n") == 3
    cm.cuda.export_report(tmp_path / "profile.json")
    report = json.loads((tmp_path / "profile.json").read_text())
    events = [e for e in report["traceEvents"] if e["ph"] == "X"]
    assert sorted(e["name"] for e in events) == [
        "copy device to host",
        *["double"] * 3,
        "matmul (library)",
        "part",
    ]
    assert all(e["dur"] > 0 for e in events) and report["devices"]["cuda:0"]["name"] == "Fake 0"
    starts = [e["ts"] for e in events if e["name"] == "double"]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    "kind, mean, moved, done, hint",
    [
        ("kernel", 100, 0.8, None, "memory bandwidth"),
        ("kernel", 2, 0.1, None, "launches"),
        ("library", 2, 0.1, 0.1, "launches"),
        ("kernel", 2, 0.9, None, "memory bandwidth"),
        ("kernel", 90, 0.2, None, "not bandwidth"),
        ("kernel", 90, None, None, ""),
        ("kernel", 90, 0.2, 0.7, "arithmetic"),
        ("library", 90, None, 0.7, "arithmetic"),
        (
            "kernel",
            90,
            0.2,
            0.5,
            "latency, access pattern or too few blocks; the nearest roof is arithmetic",
        ),
        (
            "kernel",
            90,
            0.5,
            0.2,
            "latency, access pattern or too few blocks; the nearest roof is memory bandwidth",
        ),
        ("copy", 1, None, None, ""),
    ],
)
def test_hints(kind, mean, moved, done, hint):
    said = profiler._hint(kind, mean, moved, done)
    assert said.startswith(hint) and bool(said) == bool(hint)


def test_profiling_switched_on_and_off(fake):
    x = gpu([1.0])
    run = bind(lambda x: None, [x], [], [Input(0)])
    cm.cuda.enable_profiling()
    cm.cuda.enable_profiling()  # on already
    run(x)
    with pytest.raises(RuntimeError, match="another profile is being taken"), cm.cuda.profile():
        pass
    cm.cuda.enable_profiling(False)
    cm.cuda.enable_profiling(False)
    run(x)
    assert [row["count"] for row in cm.cuda.performance_stats()] == [1]


def test_a_profile_ends_once(fake):
    """What measures now is another one, or nobody: ending it again would stop that."""
    first = profiler.Profile()
    first.start()
    first.stop()
    with pytest.raises(RuntimeError, match="^profile: this profile is not being taken"):
        first.stop()
    with cm.cuda.profile() as second:
        with pytest.raises(RuntimeError, match="^profile: this profile is not being taken"):
            first.stop()
        run = bind(lambda x: None, [gpu([1.0])], [], [Input(0)])
        run(gpu([1.0]))
    assert str(second) != second.nothing


def test_bytes_behind_an_array_without_dimensions(fake):
    """A kernel gets it as an array of one element: the words of the next one lie behind that."""

    def scaled(factor, x, y):
        y[...] = factor * x

    factor, x = gpu(np.array(2.0)), gpu(np.ones((4, 8)))
    run = bind(scaled, [factor, x], [((4, 8), "f8")], [Input(0), Input(1), Output(0)])
    with cm.cuda.profile() as p:
        run(factor, x)
    assert [row["nbytes"] for row in p.stats()] == [8 + 2 * 256]


def test_profile_of_more_than_it_keeps_waiting(fake, monkeypatch):
    monkeypatch.setattr("cudamath.runtime.profiler.MOST_PENDING", 10)
    monkeypatch.setattr("cudamath.runtime.profiler.MOST_TRACED", 20)
    x = gpu([1.0])
    run = bind(lambda x: None, [x], [], [Input(0)])
    with cm.cuda.profile() as p:
        for _ in range(50):
            run(x)
    assert p.stats()[0]["count"] == 50 and len(fake.events) < 60 and p.untraced == 30


def test_nothing_profiled(fake, tmp_path):
    assert cm.cuda.performance_stats() == []
    with pytest.raises(RuntimeError, match="export_report: nothing was profiled"):
        cm.cuda.export_report(tmp_path / "x.json")
    with cm.cuda.profile() as p:
        pass
    assert str(p) == "profile: nothing ran on a GPU"


@pytest.mark.gpu
def test_profile_on_a_gpu(tmp_path):
    a = cm.ones(1 << 24, dtype="float32", device="cuda")
    b = a + a
    cm.cuda.synchronize()
    with cm.cuda.profile() as p:
        for _ in range(5):
            b = a + a
        b.to_numpy()
    rows = {row["name"]: row for row in p.stats()}
    (kernel,) = [row for row in rows.values() if row["kind"] == "kernel"]
    assert kernel["count"] == 5 and kernel["nbytes"] == 5 * 3 * (4 << 24)
    assert 0.05 < kernel["gb_per_s"] / 1000 < 10  # a GPU's bandwidth, in TB/s
    nominal = devices.info(0).memory_bandwidth
    assert 0.1e12 < nominal < 20e12 and kernel["of_peak"] == pytest.approx(
        1e9 * kernel["gb_per_s"] / nominal
    )
    assert ("memory bandwidth" in kernel["hint"]) == (
        kernel["of_peak"] >= 0.7
    )  # less beside other programs
    assert rows["copy device to host"]["nbytes"] == 4 << 24
    p.export(tmp_path / "p.json")
    assert len(json.loads((tmp_path / "p.json").read_text())["traceEvents"]) >= 6
