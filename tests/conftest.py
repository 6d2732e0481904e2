"""Fixtures: one body runs on every device. GPU tests are marked and skipped, counted, where there
is no GPU."""

import gc
import os

import numpy as np
import pytest

import cudamath as cm

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
# for the processes that tests start, too
os.environ["CUDAMATH_COMPILE_NOTICE"] = "0"
# the processes of the tests share the cores already
os.environ.setdefault("CUDAMATH_COMPILE_WORKERS", "0")
ABSENT = "no GPU", "fewer than two GPUs"
#: Tests that were deselected here and need a GPU.
not_for_the_cpu = 0
#: Full collections of garbage up to the end of the last test that had one.
collections = 0


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="a choice of the tests: see quick.py")
    parser.addoption(
        "--record-torch",
        action="store_true",
        help="write PyTorch's values: torch_comparison.py",
    )


def pytest_configure(config):
    from hypothesis import HealthCheck, settings

    # where cycles hold no memory of a device: collecting tests, compilers and tapes make many
    # objects and few cycles
    if not cm.cuda.device_count():
        gc.set_threshold(100_000, 10, 10)  # looking for them took an eighth of all time
    examples = 40
    if config.option.quick:
        import quick

        config.pluginmanager.register(quick.Selection(config))
        config.option.markexpr = config.option.markexpr or quick.MARKS
        examples = quick.EXAMPLES
    settings.register_profile(
        "cudamath",
        deadline=None,
        max_examples=examples,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("cudamath")


def may_have_simulated_tests(path):
    """Whether a file has a word by which tests for the simulator are marked: by name, or by
    parameters of gradient_checks.py."""
    return any(
        word in path.read_text(encoding="utf-8") for word in ("simulator", "MACHINES", "versions")
    )


def pytest_ignore_collect(collection_path, config):
    """Where only tests for the simulator are wanted, the other files are not even imported (nor
    what they import)."""
    if config.option.markexpr == "simulator" and collection_path.name.startswith("test_"):
        return not may_have_simulated_tests(collection_path) or None


def pytest_collection_modifyitems(config, items):
    for file in {item.path for item in items if "simulator" in item.keywords}:
        if not may_have_simulated_tests(file):  # seen where all files are collected
            raise pytest.UsageError(
                f"{file.name} has tests for the simulator and no word that says so: see conftest.py"
            )
    if hasattr(config, "workerinput"):  # a long test at the end would leave the others idle
        long = {item.path for item in items if "slow" in item.keywords}
        items.sort(key=lambda item: item.path not in long)
    gpus = cm.cuda.device_count()
    for item in items:
        if "gpu" in item.keywords and gpus < 1:
            item.add_marker(pytest.mark.skip(reason=ABSENT[0]))
        if "multigpu" in item.keywords and gpus < 2:
            item.add_marker(pytest.mark.skip(reason=ABSENT[1]))
        if "simulator" in item.keywords and not SIMULATED:
            item.add_marker(pytest.mark.skip(reason="runs in the simulator's own process"))


def pytest_deselected(items):
    """Each process of pytest-xdist deselects the same."""
    global not_for_the_cpu
    not_for_the_cpu += sum("gpu" in item.keywords or "multigpu" in item.keywords for item in items)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if session.config.option.record_torch:
        import torch_comparison

        torch_comparison.write()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["not_for_the_cpu"] = not_for_the_cpu


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    global not_for_the_cpu
    not_for_the_cpu = getattr(node, "workeroutput", {}).get("not_for_the_cpu", not_for_the_cpu)


def pytest_terminal_summary(terminalreporter):
    from cudamath.runtime import device

    if not_for_the_cpu and not cm.cuda.device_count():
        terminalreporter.write_line(
            f"{not_for_the_cpu} GPU tests were skipped for want of a GPU; not found: "
            f"{device.missing()}"
        )


def pytest_runtest_protocol(item, nextitem):
    """Tests of a GPU that is not there are reported as skipped and nothing else: many thousands, a
    millisecond each."""
    skip = next(
        (
            mark
            for mark in item.own_markers
            if mark.name == "skip" and mark.kwargs.get("reason") in ABSENT
        ),
        None,
    )
    if not skip:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    where = (str(item.path), item.location[1], f"Skipped: {skip.kwargs['reason']}")
    keywords = dict.fromkeys(item.keywords, 1)
    item.ihook.pytest_runtest_logreport(
        report=pytest.TestReport(
            item.nodeid, item.location, keywords, "skipped", where, "setup", duration=0
        )
    )
    item.session._setupstate.teardown_exact(
        nextitem
    )  # the test before left its file's fixtures for this one
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test that leaves NumPy raising or silent fails itself, not those after it."""
    before = np.geterr()
    try:
        result = yield
        assert np.geterr() == before, "the test leaves another error state of NumPy"
    finally:
        np.seterr(**before)
    return result


@pytest.fixture(scope="module", autouse=True)
def what_was_there_before():
    """Collections look at what the file's own tests have made, not at millions of other objects
    (those of all tests; what compiling leaves behind), which took up to three seconds each."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    """Nor at what the test before has made, where tests collect: half of their time, in files of a
    thousand of them."""
    result = yield
    global collections
    if not cm.cuda.device_count() and collections != (now := full_collections()):
        collections = now + 1
        gc.collect()
        gc.freeze()
    return result


def full_collections():
    return gc.get_stats()[2]["collections"]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Name of the device that is the default inside the test."""
    with cm.device(request.param):
        yield request.param
        if request.param == "cuda":
            cm.cuda.synchronize()


class Clock:
    """What measures asks it for the time, which passes only while somebody sleeps."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    """A `Clock` in the place of the system's, for what times calls."""
    made = Clock()
    for module in ("cudamath.timing", "benchmarks.headlines"):
        monkeypatch.setattr(f"{module}.time", made)
    return made


@pytest.fixture
def fake(monkeypatch):
    """A fake driver with two devices in place of the real one, and a runtime without a past (see
    fake_driver.py)."""
    from fake_driver import installed

    with installed(monkeypatch) as driver:
        yield driver
