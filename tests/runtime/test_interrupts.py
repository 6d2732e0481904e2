"""Ctrl-C at random moments: whatever it interrupts, the state of the thread is as before, and no
memory is lost."""

import ctypes
import functools
import gc
import itertools
import operator
import os
import random
import signal
import sys
import threading
import time

import fake_driver
import numpy as np
import pytest
from fake_driver import bind, gpu
from thread_state import left_behind, outside

import cudamath as cm
from cudamath.core.autograd import mutation
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.runtime import device
from cudamath.runtime.interrupts import context_manager, uninterrupted
from cudamath.runtime.state import runtime

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
SECONDS = 1.5  # of each scenario


class Interrupted(BaseException):
    """What the handler raises: nobody expects it, as nobody expects KeyboardInterrupt."""


@pytest.fixture
def interrupts(monkeypatch):
    """A function that runs another one again and again and interrupts it; how often it did."""
    chance = random.Random(0)

    def handler(_number, frame):
        """The driver is C code, which no signal interrupts: neither is the fake one. Nor are
        imports, in which Python itself would leave its lock behind."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file in (fake_driver.__file__, threading.__file__) or "importlib" in file:
                signal.setitimer(signal.ITIMER_REAL, 2e-5)
                return
            frame = frame.f_back
        if armed:
            raise Interrupted

    def run(work, seconds=SECONDS):
        nonlocal armed
        for _ in range(3):
            work()
        before = outside()
        start = time.perf_counter()
        work()
        length = time.perf_counter() - start
        count, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            armed = True
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(5e-6, 1.2 * length + 2e-5))
                work()
                armed = False
            except Interrupted:
                armed = False
                count += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert not left_behind(before)
        return count

    armed = False
    gc.collect()
    gc.freeze()  # a capture collects garbage: not among what other tests have made
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # one inside of a finaliser
    before = signal.signal(signal.SIGALRM, handler)
    yield run
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    gc.unfreeze()
    gc.collect()  # what the interrupted calls have left


def twice(x):
    def kernel(x, y):
        y[:] = 2 * x

    return bind(kernel, [x], [(x.shape, "f4")], [Input(0).flat, Output(0).flat])


def test_streams_and_blocks(fake, interrupts):
    x, stream = gpu(np.ones(300, "f4")), cm.cuda.Stream()
    double = twice(x)
    double(x)

    def work():
        with stream:
            y = double(double(x))
        with stream, cm.cuda.Stream():
            z = double(y)
        double(z)

    assert interrupts(work) > 20
    cm.cuda.synchronize()
    assert double(x).to_numpy()[0] == 2


def test_new_blocks(fake, interrupts):
    """Blocks on their way from the driver and back to it."""
    x = gpu(np.ones(300, "f4"))
    double, sizes = twice(x), itertools.cycle(range(1, 40))

    def work():
        double(double(x))
        cm.cuda.memory.Buffer(next(sizes) << 10, cm.cuda.current_stream())
        cm.cuda.empty_cache()

    assert interrupts(work) > 20


def test_devices(fake, interrupts):
    here, there = gpu(np.ones(5, "f4")), gpu(np.ones(5, "f4"), 1)
    on_here, on_there = twice(here), twice(there)

    def work():
        with cm.device("cuda:1"), cm.device("cpu"):
            on_there(there)
        with cm.cuda.device(1):
            on_here(here)
        cm.cuda.memory_stats(1)

    assert interrupts(work) > 20


def test_gradients(interrupts):
    """On the CPU: recording, the record of a new call, changes in place, repeated draws."""
    w = cm.asarray(np.ones(5), device="cpu")
    sizes = itertools.cycle(range(1, 2000))
    rng = cm.random.default_rng(0)
    layer = cm.checkpoint(lambda w: cm.ml.dropout(cm.exp(w), 0.5, rng=rng))

    def loss(w):
        again = cm.grad(lambda v: (v * v).sum())(w)
        cm.linalg.vector_norm(cm.zeros(next(sizes), device="cpu"))
        return (again * layer(w)).sum()

    def work():
        cm.grad(loss)(w)
        _, pull = cm.vjp(lambda w: w * w, w)
        x = cm.zeros(3, device="cpu")
        x[0] = 1.0
        pull(cm.zeros(5, device="cpu"))

    assert interrupts(work) > 20
    gc.collect()
    cm.grad(lambda x: x)(1.0)  # it forgets entries that an interrupt left behind
    assert all(holder() is not None for _, holder, _ in mutation.holders.values())
    assert cm.grad(lambda w: (w * w).sum())(w).tolist() == [2.0] * 5


def test_captures(fake, interrupts):
    x = gpu(np.ones(300, "f4"))
    double = twice(x)

    def work():
        with cm.cuda.capture() as recorded:
            double(double(x))
        recorded.replay()

    assert interrupts(work) > 20
    cm.cuda.synchronize()


def test_profiles(fake, interrupts):
    x = gpu(np.ones(300, "f4"))
    double = twice(x)

    def work():
        with cm.cuda.profile(), cm.cuda.annotate("part"), cm.cuda.launch_lines():
            double(x)
        with cm.cuda.memory_debugging():
            double(x)
        cm.explain(lambda: x[:2])

    assert interrupts(work) > 20
    assert not runtime.launch_lines
    double(x)
    assert runtime.launcher["observe_call"] is None and runtime.observe_copy is None


def test_an_uninterrupted_function_begins_whatever_happens():
    """A signal that arrives during a call is handled when that has returned; here that is C code
    which calls the function next."""
    done = []

    def handler(*_):
        raise Interrupted

    kill = ctypes.CDLL(None).kill

    def function():
        done.append("plain")

    @uninterrupted
    def protected():
        done.append("protected")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for call in (function, protected):
            calls = [
                functools.partial(kill, os.getpid(), signal.SIGALRM.value),
                call,
            ]
            with pytest.raises(Interrupted):
                list(map(operator.call, calls))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done == ["protected"]


def test_contexts_of_generators_are_left():
    left = []

    @context_manager
    def context(value):
        try:
            yield value
        finally:
            left.append(value)

    with context(1) as value:
        assert value == 1
    with pytest.raises(KeyError), context(2):
        raise KeyError
    assert left == [1, 2]

    @context(3)
    def decorated():
        return 4

    assert decorated() == 4 and left == [1, 2, 3]


def test_the_driver_s_result_survives_an_interrupt(monkeypatch):
    """An interrupt during the driver's work was raised where the bindings name its status, in
    Python: memory was freed, and nobody knew."""
    pytest.importorskip("cuda.bindings.driver")
    monkeypatch.setattr(runtime, "driver", None)
    status = device.driver().CUresult

    def handler(_number, _frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    outcome = []
    try:
        with pytest.raises(Interrupted):
            # In C as the driver: it returns 0, and a signal has come meanwhile.
            outcome.extend(map(status, map(ctypes.CDLL(None)["raise"], [signal.SIGALRM])))
            for _ in range(10):
                pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert outcome == [status.CUDA_SUCCESS]
    assert status(700) is status.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(ValueError, match="^-5 is not a valid CUresult"):
        status(-5)
