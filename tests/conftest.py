"""Fixtures: one body runs on every device. GPU tests are marked and skipped, counted, where there is no GPU."""

import gc
import os

import pytest

import cudamath as cm

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def pytest_configure(config):
    from hypothesis import HealthCheck, settings

    settings.register_profile("cudamath", deadline=None, max_examples=40, derandomize=True,
                              suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
    settings.load_profile("cudamath")


def pytest_collection_modifyitems(config, items):
    gpus = cm.cuda.device_count()
    if not gpus:  # where cycles hold no memory of a device: compilers and tapes make many objects and few cycles
        gc.set_threshold(100_000, 10, 10)  # looking for them took an eighth of all time
    for item in items:
        if "gpu" in item.keywords and gpus < 1:
            item.add_marker(pytest.mark.skip(reason="no GPU"))
        if "multigpu" in item.keywords and gpus < 2:
            item.add_marker(pytest.mark.skip(reason="fewer than two GPUs"))
        if "simulator" in item.keywords and not SIMULATED:
            item.add_marker(pytest.mark.skip(reason="runs in the simulator's own process"))


@pytest.fixture(scope="module", autouse=True)
def what_was_there_before():
    """Collections look at what the file's own tests have made, not at millions of other objects (those of all tests; what
    compiling leaves behind), which took up to three seconds each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Name of the device that is the default inside the test."""
    with cm.device(request.param):
        yield request.param
        if request.param == "cuda":
            cm.cuda.synchronize()


@pytest.fixture
def fake(monkeypatch):
    """A fake driver with two devices in place of the real one, and a runtime without a past (see fake_driver.py)."""
    from fake_driver import installed

    with installed(monkeypatch) as driver:
        yield driver
