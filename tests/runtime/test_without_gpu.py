"""What `cudamath.cuda` does where there is no GPU: what has a meaning there has it, all else says
what is missing."""

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch import fast_path
from cudamath.core.dispatch.op import registry

pytestmark = pytest.mark.skipif(cm.cuda.is_available(), reason="there is a GPU")


def kernel(x, factor=1.0):
    """Stands for a kernel."""


def names_a_device():
    """Calls that name a device, launch a kernel or capture work, by the name in the message."""
    x = cm.ones(3)
    return {
        "capture": [cm.cuda.capture],
        "compile_kernel": [
            lambda: cm.cuda.compile_kernel(kernel),
            lambda: cm.cuda.compile_kernel(kernel, x),
            lambda: cm.cuda.compile_kernel(kernel, np.ones(3)),
        ],
        "configure_pool": [lambda: cm.cuda.configure_pool(max="1GB", device=0)],
        "copy_peer": [lambda: cm.cuda.copy_peer(x, x)],
        "current_device": [cm.cuda.current_device],
        "current_stream": [lambda: cm.cuda.current_stream(0)],
        "device": [lambda: cm.cuda.device(0).__enter__()],
        "empty_cache": [lambda: cm.cuda.empty_cache(0)],
        "Event": [lambda: cm.cuda.Event(device=0)],
        "external_stream": [lambda: cm.cuda.external_stream(0)],
        "launch": [
            lambda: cm.cuda.launch(kernel, 1, 1, 2.0),
            lambda: cm.cuda.launch(kernel, 1, 1, x),
            lambda: cm.cuda.launch(kernel, 1, 1, np.ones(3)),
            lambda: cm.cuda.launch(kernel, 1, 1, cm.cuda.pinned(3)),
        ],
        "max_memory_allocated": [lambda: cm.cuda.max_memory_allocated(0)],
        "memory_allocated": [lambda: cm.cuda.memory_allocated(0)],
        "memory_reserved": [lambda: cm.cuda.memory_reserved(0)],
        "memory_snapshot": [lambda: cm.cuda.memory_snapshot(0)],
        "memory_stats": [lambda: cm.cuda.memory_stats(0), lambda: cm.cuda.memory_summary(0)],
        "occupancy": [
            lambda: cm.cuda.occupancy(kernel, 32),
            lambda: cm.cuda.occupancy(kernel, 32, x),
        ],
        "peer_access": [lambda: cm.cuda.peer_access(0, 1)],
        "reset_peak_memory_stats": [lambda: cm.cuda.reset_peak_memory_stats(0)],
        "set_cache_size": [lambda: cm.cuda.set_cache_size("1GB", 0)],
        "set_device": [lambda: cm.cuda.set_device(0)],
        "set_memory_callback": [lambda: cm.cuda.set_memory_callback(print, device=0)],
        "set_memory_fraction": [lambda: cm.cuda.set_memory_fraction(0.5, 0)],
        "Stream": [lambda: cm.cuda.Stream(0)],
        "suggest_launch": [lambda: cm.cuda.suggest_launch(kernel, 3)],
        "synchronize": [lambda: cm.cuda.synchronize(0)],
        "warm_up": [lambda: cm.cuda.warm_up(device=0)],
    }


def test_what_names_a_device_says_what_is_missing():
    said = set()
    for name, calls in names_a_device().items():
        for call in calls:
            with pytest.raises(cm.cuda.DeviceError) as caught:
                call()
            found = re.match(
                rf"{name}: cuda:[01]( was asked for but no CUDA device was found; not found: .+)",
                str(caught.value),
            )
            assert found, caught.value
            said.add(found[1])
    assert len(said) == 1 and "pip install" in said.pop()
    for call in (
        lambda: cm.zeros(3, device="cuda"),
        lambda: cm.zeros(3).to("cuda:0"),
        lambda: cm.zeros(3).to_device("cuda:0"),
        lambda: cm.set_default_device("cuda"),
        lambda: cm.device("cuda").__enter__(),
    ):
        with pytest.raises(cm.cuda.DeviceError, match="no CUDA device was found; not found: "):
            call()


def meanings():
    """What has a meaning without a GPU: a call and what it returns."""
    stream, event = cm.cuda.Stream(), cm.cuda.Event()
    return {
        "annotate": lambda: cm.cuda.annotate("here").__enter__() is None,
        "cache_info": lambda: cm.cuda.cache_info()["on_devices"] == 0,
        "clear_kernel_cache": lambda: callable(cm.cuda.clear_kernel_cache),  # of the disk
        "configure_pool": lambda: cm.cuda.configure_pool(initial="1MB", max="1GB", cache=0) is None,
        "current_stream": lambda: cm.cuda.current_stream() is cm.cuda.current_stream(),
        "deterministic": cm.cuda.deterministic,
        "device_count": lambda: cm.cuda.device_count() == 0,
        "devices": lambda: cm.cuda.devices() == [],
        "elapsed": lambda: cm.cuda.elapsed(event.record(), event.record()) == 0,
        "empty_cache": lambda: cm.cuda.empty_cache() is None,
        "Event": lambda: isinstance(event, cm.cuda.Event) and event.query(),
        "graph": lambda: float(cm.cuda.graph(lambda x: x + 1)(1)) == 2,
        "is_available": lambda: cm.cuda.is_available() is False,
        "launch_lines": lambda: cm.cuda.launch_lines().__enter__() is None,
        "managed": lambda: cm.cuda.managed((2, 3)).shape == (2, 3),
        "max_memory_allocated": lambda: cm.cuda.max_memory_allocated() == 0,
        "memory_allocated": lambda: cm.cuda.memory_allocated() == 0,
        "memory_reserved": lambda: cm.cuda.memory_reserved() == 0,
        "memory_snapshot": lambda: cm.cuda.memory_snapshot() == [],
        "memory_stats": lambda: not any(cm.cuda.memory_stats().values()),
        "memory_summary": lambda: "no CUDA device" in cm.cuda.memory_summary(),
        "performance_stats": lambda: isinstance(cm.cuda.performance_stats(), list),
        "pinned": lambda: cm.cuda.pinned(3, "int32").dtype == np.int32,
        "reset_peak_memory_stats": lambda: cm.cuda.reset_peak_memory_stats() is None,
        "set_cache_size": lambda: cm.cuda.set_cache_size("1GB") is None,
        "set_matmul_precision": lambda: cm.cuda.set_matmul_precision("highest") is None,
        "set_memory_callback": lambda: cm.cuda.set_memory_callback(print) is None,
        "set_memory_fraction": lambda: cm.cuda.set_memory_fraction(0.5) is None,
        "Stream": lambda: isinstance(stream, cm.cuda.Stream) and stream.query(),
        "synchronize": lambda: cm.cuda.synchronize() is None,
        "warm_up": lambda: cm.cuda.warm_up(cm.exp, cm.ones(3)) > 0,
    }


@pytest.mark.parametrize("name", meanings())
def test_what_has_a_meaning_has_it(name):
    assert meanings()[name]()


def test_every_public_name_has_been_looked_at():
    tested_below = {"memory_debugging", "profile", "enable_profiling", "export_report"}
    classes = {n for n in cm.cuda.__all__ if isinstance(getattr(cm.cuda, n), type)}
    assert {*names_a_device()} | {*meanings()} | tested_below | classes >= {*cm.cuda.__all__}
    for name in {*classes} - {"Stream", "Event"}:  # results and exceptions of the others
        assert name in {
            *("Capture", "CompiledKernel", "CudaError", "DeviceError", "DeviceInfo"),
            *("Graphed", "MemoryReport", "autotune", "OutOfMemoryError"),
        }


def test_limits_are_checked():
    for call, says in (
        (lambda: cm.cuda.set_memory_fraction(1.5), r"must be in \(0, 1\]"),
        (lambda: cm.cuda.set_cache_size("much"), "much"),
        (lambda: cm.cuda.configure_pool(initial="2GB", max="1GB"), "is more than max"),
        (lambda: cm.cuda.set_memory_callback(print, threshold=2), "threshold"),
    ):
        with pytest.raises(ValueError, match=says):
            call()


def test_memory_debugging_finds_nothing():
    with cm.cuda.memory_debugging() as report:
        x = cm.ones(3)
    assert report.leaks == [] and x.size == 3


# -------------------- streams and events


def test_streams_are_current_inside_with():
    outer = cm.cuda.current_stream()
    with cm.cuda.Stream(priority=-1) as a:
        assert cm.cuda.current_stream() is a and repr(a) == "<Stream on cpu>"
        with cm.cuda.Stream() as b:
            assert cm.cuda.current_stream() is b
        with a:
            assert cm.cuda.current_stream() is a
        assert cm.cuda.current_stream() is a
    assert cm.cuda.current_stream() is outer


def test_a_program_with_streams_runs():
    """Of the shape that a GPU's has: copies and work on two streams, ordered by events."""
    copies, work = cm.cuda.Stream(), cm.cuda.Stream()
    host, ready = cm.cuda.pinned(4, "float64"), cm.cuda.Event()
    host[...] = [1, 2, 3, 4]
    x = cm.empty(4)
    with copies:
        cm.asarray(host).copy_to(x, stream=copies)
        ready.record()
    work.wait(ready)
    with work:
        y = x * 2
    y.copy_to(host, stream=work)
    done = work.record()
    for waits in (ready, done, copies, work):
        waits.synchronize()
        assert waits.query()
    assert host.tolist() == [2, 4, 6, 8]


def test_events_are_timed_by_the_clock():
    start, end = cm.cuda.Event(), cm.cuda.Event()
    start.record()
    time.sleep(0.02)
    cm.cuda.Stream().record(end)
    assert 20 <= start.elapsed(end) == cm.cuda.elapsed(start, end) < 20_000
    assert end.elapsed(start) == -start.elapsed(end)
    captured = cm.cuda.graph(lambda x: x * start.elapsed(end))
    with pytest.raises(RuntimeError, match="Event.synchronize: cannot be part of a CUDA graph"):
        [captured(cm.ones(2)) for _ in range(3)]
    for other in (cm.cuda.Event(), cm.cuda.Event(timing=False).record(), cm.cuda.Stream().record()):
        with pytest.raises(cm.cuda.CudaError, match="^elapsed: wants two events .* timing=True"):
            start.elapsed(other)
    with pytest.raises(TypeError, match="^elapsed: wants two events"):
        cm.cuda.elapsed(start, 3)


# -------------------- profiles


def rows_of(profile):
    return {row["name"]: row for row in profile.stats()}


def test_a_profile_shows_the_times_of_the_cpu():
    a = cm.ones((200, 100))
    a @ a.T  # its replay must be timed too
    with cm.cuda.profile() as profile:
        begin = time.perf_counter()
        for _ in range(3):
            y = a @ a.T
        y += 1
        cm.exp(y)
        spent = 1e6 * (time.perf_counter() - begin)
    rows = rows_of(profile)
    assert rows["matmul"]["count"] == 3 and rows["add"]["count"] == rows["exp"]["count"] == 1
    for row in rows.values():
        assert row["kind"] == row["device"] == "cpu" and row["of_peak"] is None
        assert 0 < row["min_us"] <= row["mean_us"] <= row["max_us"] <= row["total_us"] <= spent
    assert sum(row["total_us"] for row in rows.values()) <= spent
    product = rows["matmul"]
    assert product["operations"] == 3 * 2 * 200 * 200 * 100
    assert product["nbytes"] == 3 * 8 * (2 * 200 * 100 + 200 * 200)
    assert rows["add"]["nbytes"] == 8 * 200 * 200  # in place: read and written once in this count
    assert re.search(r"^matmul +3 ", str(profile), re.MULTILINE)
    cm.exp(y)
    assert rows_of(profile)["exp"]["count"] == 1  # ended


def test_sleeping_is_not_the_time_of_an_operation():
    x = cm.ones(100)
    cm.exp(x)
    with cm.cuda.profile() as profile:
        time.sleep(0.05)
        cm.exp(x)
        time.sleep(0.05)
    assert rows_of(profile)["exp"]["total_us"] < 50_000


def test_profiles_leave_nothing_behind():
    x = cm.ones((5, 5))
    cm.ml.softmax(x)  # loads a module that has ops
    before = {name: dict(op.plans) for name, op in registry.items() if hasattr(op, "plans")}
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), cm.cuda.profile():
            cm.ml.softmax(x @ x).sum()
            cm.grad(lambda x: (x * x).sum())(x)
            1 / 0  # noqa: B018
    assert before == {name: op.plans for name, op in registry.items() if hasattr(op, "plans")}
    assert not any(fast_path._tables)
    with cm.cuda.profile() as nothing:
        pass
    assert nothing.stats() == [] and str(nothing) == "profile: no operation ran"


def test_user_functions_are_shown():
    increase = cm.elementwise(lambda x: x + 1)
    x = cm.ones(100)
    increase(x)
    fused = cm.fuse(lambda x: cm.sqrt(x) * 2)
    with cm.cuda.profile() as profile:
        increase(x)
        fused(x)
    assert {*rows_of(profile)} >= {"<lambda>", "sqrt", "multiply"}


def test_profiling_of_the_process(tmp_path):
    cm.cuda.enable_profiling()
    try:
        with pytest.raises(RuntimeError, match="another profile is being taken"):
            with cm.cuda.profile():
                pass
        with cm.cuda.annotate("here"):
            cm.sqrt(cm.ones(10))
    finally:
        cm.cuda.enable_profiling(False)
    assert {row["name"] for row in cm.cuda.performance_stats()} >= {"sqrt", "full"}
    cm.cuda.export_report(tmp_path / "profile.json")
    report = json.loads((tmp_path / "profile.json").read_text())
    assert report["devices"] == {} and {e["name"] for e in report["traceEvents"]} >= {
        "here",
        "sqrt",
    }
    assert all(e["pid"] == "host" and e["dur"] >= 0 for e in report["traceEvents"])


WITHOUT_A_DRIVER = """
import ctypes, sys
def refuse(name, *others, **options):
    raise OSError(f"{name}: no such library")
import cudamath as cm
ctypes.CDLL = refuse
assert cm.ones(3).sum() == 3 and cm.cuda.device_count() == 0
assert not [name for name in sys.modules if name.startswith("cuda.bindings")]
try:
    cm.cuda.current_device()
except cm.cuda.DeviceError as error:
    print(error)
"""


def test_without_a_driver_its_bindings_are_not_imported():
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_DRIVER], capture_output=True, text=True, check=True
    ).stdout
    assert "the NVIDIA driver" in told and "no such library" in told
