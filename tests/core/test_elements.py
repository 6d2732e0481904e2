"""Elements of arrays on a GPU lie in the array's memory until something writes there."""

from __future__ import annotations

import numpy as np
import pytest
from in_place_writes import WRITES

import cudamath as cm
from cudamath.core import elements


@pytest.fixture
def log(fake, monkeypatch):
    """What the driver was asked for, in order. Kernels do nothing."""
    asked: list[str] = []
    copy = fake.cuMemcpyDtoDAsync

    def launch(*_):
        asked.append("launch")
        return (0,)

    def copied(*args):
        asked.append("copy")
        return copy(*args)

    def sent(target, source, nbytes, on, send=fake.cuMemcpyHtoDAsync):
        asked.append("launch")  # writes into an array, as a launch does
        return send(target, source, nbytes, on)

    monkeypatch.setattr(fake, "cuLaunchKernel", launch)
    monkeypatch.setattr(fake, "cuLaunchKernelEx", launch)
    monkeypatch.setattr(fake, "cuMemcpyDtoDAsync", copied)
    monkeypatch.setattr(fake, "cuMemcpyHtoDAsync", sent)
    elements.settle_all()
    with cm.device("cuda"):
        yield asked
    elements.settle_all()


def test_an_element_is_read_without_a_launch(log):
    x = cm.asarray(np.arange(3.0))
    log.clear()
    s = x[1]
    assert not log and s._owner is x._owner and id(x._owner) in elements.lent
    assert float(s) == 1.0
    del s
    log.clear()
    x[0] = 2.0
    assert id(x._owner) not in elements.lent and "copy" not in log


#: `place` reads a count that no kernel has computed here.
@pytest.mark.parametrize("write", [w for w in WRITES if w != "place"])
def test_it_is_copied_before_a_write(log, write):
    x = cm.asarray(np.arange(3.0))
    s = x[1]
    log.clear()
    WRITES[write](x)
    assert s._owner is not x._owner and id(x._owner) not in elements.lent
    assert "copy" in log and log.index("copy") < len(log) - 1


def test_other_arrays_may_be_written(log):
    x, y = cm.asarray(np.arange(3.0)), cm.asarray(np.arange(300.0))
    s = x[1]
    log.clear()
    y[0] = 5.0
    y += 1
    assert "copy" not in log and s._owner is x._owner


def test_exposed_memory_lends_nothing(log):
    x = cm.asarray(np.arange(300.0))
    s = x[1]
    for expose in (
        lambda: x.ptr,
        lambda: x.__cuda_array_interface__,
        lambda: x.__dlpack__(),
    ):
        expose()
        assert s._owner is not x._owner
        assert x[2]._owner is not x._owner


def test_elements_are_copied_on_the_stream_that_read_them(log):
    x = cm.asarray(np.arange(3.0))
    s, stream = x[1], cm.cuda.Stream()
    with stream:
        x[0] = 5.0
    assert s._owner.stream is not stream and s._owner is not x._owner


def test_the_memory_of_forgotten_arrays_is_kept_by_their_elements(log):
    s = cm.asarray(np.arange(3.0))[2]
    others = [cm.asarray(np.zeros(3)) for _ in range(8)]
    assert float(s) == 2.0 and len(others) == 8


def test_the_table_does_not_grow(log):
    x = cm.asarray(np.arange(1000.0))
    for _ in range(3):
        for i in range(1000):
            x[i]
    arrays = [cm.asarray(np.arange(float(n))) for n in range(2, 1000)]
    for y in arrays:
        y[1]
    assert len(elements.lent) <= 300 and all(len(e) <= 64 for e in elements.lent.values())
