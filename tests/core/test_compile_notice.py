"""The line on stderr about what is being compiled: when it comes, and what it says."""

import io
import sys
import threading
import time

import pytest

from cudamath.core import compile_notice


@pytest.fixture(autouse=True)
def notices(monkeypatch):
    monkeypatch.delenv("CUDAMATH_COMPILE_NOTICE", raising=False)
    monkeypatch.setattr(compile_notice, "_waited", 0.0)
    monkeypatch.setattr(compile_notice, "_next", 1.0)


class At:
    """Timers that fire when the test says so."""

    def __init__(self):
        self.started = []

    def Timer(self, seconds, function, args):  # noqa: N802
        outer = self

        class Timer:
            daemon = cancelled = False

            def start(self):
                outer.started.append((seconds, self))

            def cancel(self):
                self.cancelled = True

            def fire(self):
                function(*args)

        return Timer()


@pytest.fixture
def timers(monkeypatch):
    made = At()
    monkeypatch.setattr(compile_notice.threading, "Timer", made.Timer)
    return made


def test_a_line_after_a_second(timers, capsys):
    with compile_notice.waiting("softmax_rows for sm_90a", "/the/cache"):
        ((seconds, timer),) = timers.started
        assert seconds == pytest.approx(1)
        timer.fire()
    assert timer.cancelled
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("cudamath: compiling softmax_rows for sm_90a; ")
    assert "kept in /the/cache" in said.err and "CUDAMATH_COMPILE_NOTICE=0" in said.err


def test_short_waits_add_up_and_lines_become_rarer(timers, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(compile_notice.time, "monotonic", lambda: now[0])
    for _ in range(40):  # a quarter of a second each: ten seconds
        with compile_notice.waiting("a kernel", "there"):
            seconds, timer = timers.started[-1]
            now[0] += 0.25
            if seconds <= 0.25:
                timer.fire()
    assert capsys.readouterr().err.count("\n") == 4  # after 1, 2, 4 and 8


def test_a_wait_inside_of_another_is_one(timers):
    with compile_notice.waiting("outer", "there"), compile_notice.waiting("inner", "there"):
        assert len(timers.started) == 1


def test_an_option_switches_it_off(timers, monkeypatch):
    monkeypatch.setenv("CUDAMATH_COMPILE_NOTICE", "0")
    with compile_notice.waiting("a kernel", "there"):
        assert timers.started == []


def test_an_error_ends_the_wait(timers):
    with pytest.raises(KeyError), compile_notice.waiting("a kernel", "there"):
        raise KeyError
    assert timers.started[0][1].cancelled
    with compile_notice.waiting("a kernel", "there"):
        assert len(timers.started) == 2


@pytest.mark.parametrize("stream", ["closed", None])
def test_no_stderr_is_no_error(monkeypatch, stream):
    file = io.StringIO()
    file.close()
    monkeypatch.setattr(sys, "stderr", file if stream else None)
    compile_notice._say("a kernel", "there")


def test_a_real_wait(monkeypatch, capsys):
    monkeypatch.setattr(compile_notice, "_next", 0.02)
    with compile_notice.waiting("a kernel", "there"):
        end = time.monotonic() + 20
        while compile_notice._next == 0.02 and time.monotonic() < end:
            time.sleep(0.01)
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join(20)
    assert "compiling a kernel" in capsys.readouterr().err
