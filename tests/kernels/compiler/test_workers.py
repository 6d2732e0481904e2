"""Workers: what they compile, what becomes of those that fail, and who compiles in the end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import (
    lazy_numba,
    origin,
    portable,
    storage_types,
    worker,
    worker_pool,
)
from cudamath.kernels.elementwise.dispatch import elementwise
from cudamath.runtime import cubin_cache, host, kernel_packs
from cudamath.runtime.device import assume
from cudamath.runtime.state import runtime

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
F4 = np.dtype("f4")
X = Layout.new((1000,), F4, 0)
CC = (8, 0)


def kernel(expression):
    """(kernel, signature) of a small elementwise kernel."""
    plan = elementwise(X, expression=expression, compute=F4, output=F4, version="plain")
    (step,) = plan.steps
    return step.kernel, plan.signature(step, [X])


def job(expression, key=None):
    """(key, message) of a small elementwise kernel."""
    function, signature = kernel(expression)
    right = compiler.cache_key(function, signature, CC)
    message = portable.dumps((key or right, function, signature, CC, storage_types.storage))
    return right, message


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", "0")
    monkeypatch.setattr(origin, "_origin", None)  # which has an environment of its own
    monkeypatch.setattr(compiler, "_is_new", lambda: False)
    kernel_packs.packs.cache_clear()
    yield tmp_path / "kernels"
    kernel_packs.packs.cache_clear()
    if origin._origin is not None:
        origin._origin.end()


@pytest.fixture
def pool(monkeypatch):
    made = worker_pool.Pool(1)
    monkeypatch.setattr(worker_pool, "_pool", made)
    return made


# -------------------- the worker's side


def test_a_worker_compiles_what_this_process_would(cache):
    key, message = job("x + 1")
    answer = worker.machine_code(message)
    assert answer[:1] == b"+" and answer[1:5] == b"\x7fELF"
    assert cubin_cache.stored_cubin(key) == answer[1:]


def test_a_package_that_is_not_needed_counts_as_not_installed(tmp_path, monkeypatch):
    """Unless it is there already; afterwards it can be imported."""
    (tmp_path / "not_needed.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with worker.without("not_needed"), pytest.raises(ImportError):
        importlib.import_module("not_needed")
    found = importlib.import_module("not_needed")
    with worker.without("not_needed"):
        assert importlib.import_module("not_needed") is found
    assert sys.modules.pop("not_needed") is found


def test_a_worker_refuses_a_kernel_whose_sources_have_changed(cache):
    _, message = job("x + 1", key="the key of another version")
    answer = worker.machine_code(message)
    assert answer[:1] == b"-" and b"sources have changed" in answer
    assert not cache.exists()


def test_a_worker_survives_what_it_cannot_compile():
    assert worker.machine_code(b"no pickle")[:1] == b"-"


# -------------------- the pool


def test_a_process_compiles_and_its_kernel_is_taken(pool, cache):
    """A real worker, one small kernel; it imports nothing that lies beside the user's program."""
    key, message = job("x * 3")
    submitted = pool.submit(key, message)
    assert pool.submit(key, message) is submitted  # once
    assert submitted.done.wait(120), submitted.error
    assert submitted.error == "" and submitted.code[:4] == b"\x7fELF"
    assert cubin_cache.stored_cubin(key) == submitted.code
    assert pool.take(key) == submitted.code and pool.take(key) is None


class FakeWorker(threading.Thread):
    """The other end of two pipes: answers by a function, in a thread of this process."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        jobs, answers = os.pipe(), os.pipe()
        self.jobs, self.stdin = os.fdopen(jobs[0], "rb"), os.fdopen(jobs[1], "wb")
        self.stdout, self.answers = os.fdopen(answers[0], "rb"), os.fdopen(answers[1], "wb")
        self.answer = answer
        self.start()

    def run(self):
        worker_pool.write(self.answers, b"ready")
        while (message := worker_pool.read(self.jobs)) is not None:
            answer = self.answer(message)
            if answer is None:  # it crashes
                break
            worker_pool.write(self.answers, answer)
        self.answers.close()

    def kill(self):
        pass

    def wait(self):
        pass


def with_workers(monkeypatch, answer, size=1):
    monkeypatch.setattr(worker_pool, "_started", lambda: FakeWorker(answer))
    made = worker_pool.Pool(size)
    monkeypatch.setattr(worker_pool, "_pool", made)
    return made


def test_what_no_worker_has_begun_is_taken_back(monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def answer(message):
        begun.set()
        go_on.wait(60)
        return b"+code of " + message

    pool = with_workers(monkeypatch, answer)
    pool.submit("first", b"first")
    assert begun.wait(60)
    pool.submit("second", b"second")
    assert pool.take("second") is None  # at once, while the worker is at the first
    threading.Timer(0.05, go_on.set).start()
    assert pool.take("first") == b"code of first"  # waits
    assert pool.take("third") is None


def test_what_is_needed_goes_before_what_is_queued(monkeypatch):
    """And what is common comes last, unless it is asked for."""
    go_on, order = threading.Event(), []

    def answer(message):
        order.append(message)
        go_on.wait(60)
        return b"+code of " + message

    pool = with_workers(monkeypatch, answer)
    first = pool.submit("first", b"first")
    assert first.begun.wait(60)
    for name in ("common", "asked for"):
        pool.submit(name, name.encode(), later=True)
    pool.submit("queued", b"queued")
    pool.submit("asked for", b"asked for")
    threading.Timer(0.05, go_on.set).start()
    assert pool.need("now", b"now") == b"code of now"
    assert pool.take("common") in (None, b"code of common")
    assert order[:4] == [b"first", b"now", b"queued", b"asked for"][: len(order)]


def test_what_no_worker_begins_in_time_is_left_to_the_caller(monkeypatch):
    go_on = threading.Event()
    pool = with_workers(monkeypatch, lambda message: go_on.wait(60) and b"+" + message)
    monkeypatch.setattr(worker_pool, "PATIENCE", 0.1)
    assert pool.submit("long", b"long").begun.wait(60)
    start = time.monotonic()
    assert pool.need("short", b"short") is None
    assert time.monotonic() - start < 30 and "short" not in pool._jobs
    go_on.set()
    assert pool.take("long") == b"long"


def test_what_fails_in_a_worker_is_left_to_the_caller(monkeypatch):
    pool = with_workers(monkeypatch, lambda _: b"-broken")
    assert pool.need("one", b"one") is None and pool.need("two", b"two") is None
    monkeypatch.setattr(worker_pool, "_started", lambda: None)
    assert worker_pool.Pool(2).need("three", b"three") is None  # none starts: at once


def test_workers_are_forks_of_one_process(cache):
    """Which is started ahead, ends with its control, and is replaced when it is gone."""
    first = origin.current()
    assert origin.current() is first
    workers = [first.worker(), first.worker()]
    for each in workers:
        assert worker_pool.read(each.stdout) == b"ready"
    key, message = job("x * 11")
    for each in workers:
        worker_pool.write(each.stdin, message)
    codes = [worker_pool.read(each.stdout) for each in workers]
    assert codes[0][:5] == b"+\x7fELF" and cubin_cache.stored_cubin(key)
    workers[0].kill(), workers[0].wait()  # the other one goes on
    worker_pool.write(workers[1].stdin, b"nonsense")
    assert worker_pool.read(workers[1].stdout)[:1] == b"-"
    workers[1].kill(), workers[1].wait()
    first.end()
    assert origin.current() is not first


# -------------------- attacks on the origin

_PARENT = """
import os, signal, sys, time
interrupts = []
signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
from cudamath.kernels.compiler import origin, worker_pool
made = origin.current()
workers = [made.worker() for _ in range(2)]
assert all(worker_pool.read(each.stdout) == b"ready" for each in workers)
with open(f"/proc/{made.process.pid}/task/{made.process.pid}/children") as file:
    forks = list(map(int, file.read().split()))
print(made.process.pid, *forks, flush=True)
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")


def started(rest):
    """A process with an origin and two workers that goes on with `rest`, and their numbers."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT + rest], stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 3
    return parent, pids


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def all_end(pids, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not all(map(gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return all(map(gone, pids))


@linux
@pytest.mark.parametrize("way", ["ends", "is killed", "fails"])
def test_all_processes_end_with_the_one_they_work_for(way):
    """Those that hang too: one worker is stopped."""
    rest = {
        "ends": "os.kill(forks[0], signal.SIGSTOP)",
        "is killed": "os.kill(forks[0], signal.SIGSTOP); os.kill(os.getpid(), signal.SIGKILL)",
        "fails": "os.kill(forks[0], signal.SIGSTOP); raise SystemExit(3)",
    }[way]
    parent, pids = started(rest)
    assert parent.wait(30) == {"ends": 0, "is killed": -signal.SIGKILL, "fails": 3}[way]
    assert all_end(pids)


@linux
def test_a_fork_of_the_process_keeps_no_worker_alive():
    """The fork goes on after its parent has ended."""
    rest = "if os.fork() == 0:\n    time.sleep(60)"
    parent, pids = started(rest)
    try:
        assert parent.wait(30) == 0 and all_end(pids)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)  # the fork


@linux
def test_ctrl_c_does_not_reach_the_workers():
    rest = (
        "while not interrupts: time.sleep(0.01)\n"
        "for each in [*workers, new := made.worker()]:\n"
        "    if each is new: assert worker_pool.read(each.stdout) == b'ready'\n"
        "    worker_pool.write(each.stdin, b'nonsense')\n"
        "    assert worker_pool.read(each.stdout)[:1] == b'-'\n"
    )
    parent, pids = started(rest)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does
    assert parent.wait(30) == 0 and all_end(pids)


@linux
def test_an_origin_that_is_killed_is_replaced():
    rest = (
        "made.process.kill(); made.process.wait()\n"
        "assert not made.is_alive() and origin.current() is not made\n"
        "assert worker_pool.read(origin.worker().stdout) == b'ready'\n"
    )
    parent, pids = started(rest)
    assert parent.wait(60) == 0 and all_end(pids)


def test_without_room_for_a_process_the_connection_closes(monkeypatch):
    """The origin goes on: there may be room later."""

    def refuse():
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(worker.os, "fork", refuse)
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    control, theirs = socket.socketpair()
    thread = threading.Thread(target=worker.fork_workers, args=(theirs,))
    thread.start()
    for _ in range(2):
        ours, far = socket.socketpair()
        with far:
            socket.send_fds(control, [b"worker"], [far.fileno()])
        assert worker_pool.read(ours.makefile("rb")) is None
    control.close()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("executable", ["/usr/bin/uwsgi", "/opt/app/app", "", None])
def test_no_program_but_python_is_started(monkeypatch, executable):
    """A frozen program, or a host of Python, would start itself again."""
    monkeypatch.setattr(origin.sys, "executable", executable)
    monkeypatch.setattr(origin.subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    origin.prepare()
    assert origin.worker() is None
    monkeypatch.setattr(origin.sys, "executable", "/usr/bin/python3.11")
    monkeypatch.setattr(origin.sys, "frozen", True, raising=False)
    assert origin.worker() is None


def test_a_worker_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(worker_pool, "HANGS", 0.1)
    asked = threading.Event()

    def answer(message):
        asked.set()
        time.sleep(3)
        return b"+late"

    made = with_workers(monkeypatch, answer)
    made.submit("key", b"message")
    assert asked.wait(5) and made.take("key") is None


# -------------------- a new machine


IS_NEW = compiler._is_new


@pytest.fixture
def new_machine(monkeypatch):
    monkeypatch.setattr(compiler, "_is_new", IS_NEW)
    monkeypatch.delenv("CUDAMATH_KERNEL_PACKS")
    monkeypatch.setattr(compiler, "installed", dict)
    IS_NEW.cache_clear(), compiler._common_submitted.clear()
    yield
    IS_NEW.cache_clear(), compiler._common_submitted.clear()


def test_a_machine_is_new_without_packs_and_kernels(new_machine, monkeypatch, cache, tmp_path):
    assert compiler._is_new()
    cubin_cache.cached_cubin("key", lambda: b"code")
    assert compiler._is_new()  # it was when it was first asked
    compiler._is_new.cache_clear()
    assert not compiler._is_new()
    cubin_cache.clear_kernel_cache()
    for packages, named, new in (
        ({"cudamath-kernels-sm90": "1"}, "", False),
        ({"cudamath-kernels-sm90": "1"}, "0", True),
        ({"cudamath": "1"}, "", True),
        ({}, str(tmp_path), False),
    ):
        monkeypatch.setattr(compiler, "installed", lambda: packages)  # noqa: B023
        monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", named)
        compiler._is_new.cache_clear()
        assert compiler._is_new() == new


def test_on_a_new_machine_common_kernels_are_compiled_after_all_others(new_machine, monkeypatch):
    """Once; on a machine that has kernels, none."""
    sent = []

    def answer(message):
        content = portable.loads(message)
        if content[0] == "common":
            return worker.machine_code(message)
        assert content[0] == "later"
        sent.append(portable.loads(content[1])[1].__name__)
        return b"+\x7fELF"

    pool = with_workers(monkeypatch, answer)
    monkeypatch.setattr(compiler, "compile_now", lambda *_: (b"\x7fELF", ""))
    function, signature = kernel("x + 12")
    with assume(CC):
        compiler.compile_cubin(function, signature, CC)
        compiler.compile_cubin(*kernel("x + 13"), CC)
    deadline = time.monotonic() + 120
    while len(sent) < compiler.PER_WORKER and time.monotonic() < deadline:
        time.sleep(0.01)
    assert compiler.PER_WORKER <= len(sent) <= compiler.PER_WORKER + 4  # whole calls
    assert pool._threads == 1 and not pool._later
    compiler._is_new.cache_clear()
    sent.clear()
    with assume((8, 9)):
        compiler.compile_cubin(function, signature, (8, 9))
    time.sleep(0.05)
    assert not sent and not pool._later


def test_common_kernels_are_what_a_first_session_needs():
    """By the list, as planned there: nearly all of them are still made by today's planners."""
    messages = worker.common_messages(1000, (9, 0), "assumed", ("cublas", "cudnn"))
    jobs = [portable.loads(portable.loads(message)[1]) for _, message in messages]
    names = {job[1].__name__ for job in jobs}
    assert {"sort_block", "softmax_rows", "attention_wgmma"} <= names and len(messages) > 100
    assert worker.common_messages(5, (8, 0), "assumed", ()) != messages[:5]
    assert len(worker.common_messages(5, (8, 0), "assumed", ())) in (5, 6, 7)


@pytest.mark.parametrize("answer", [lambda _: b"-broken", lambda _: None])
def test_a_worker_that_fails_or_ends_leaves_the_kernel_to_the_caller(monkeypatch, answer):
    pool = with_workers(monkeypatch, answer)
    jobs = [pool.submit(name, name.encode()) for name in ("one", "two")]
    for each in jobs:
        assert each.done.wait(60) and each.error and each.code is None
    assert pool.take("one") is None and pool.take("two") is None


def test_without_python_there_are_no_workers(monkeypatch):
    monkeypatch.setattr(origin.sys, "executable", "/no/such/python")
    with origin._lock:  # tests before this one may have started it, or be about to
        monkeypatch.setattr(origin, "_origin", None)
    pool = worker_pool.Pool(1)
    submitted = pool.submit("key", b"message")
    assert submitted.done.wait(60) and pool.take("key") is None and pool.size == 0


def test_several_workers_work_at_the_same_time(monkeypatch):
    together = threading.Barrier(3)

    def answer(message):
        together.wait(60)
        return b"+" + message

    pool = with_workers(monkeypatch, answer, size=3)
    jobs = [pool.submit(str(i), b"%d" % i) for i in range(3)]
    done = sorted(job.code for job in worker_pool.finished(jobs))
    assert done == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("later", "most"), [(False, 4), (True, 2)])
def test_of_many_workers_some_stay_free_for_what_is_needed(monkeypatch, later, most):
    go_on = threading.Event()
    pool = with_workers(monkeypatch, lambda m: (m == b"now" or go_on.wait(60)) and b"+" + m, size=5)
    jobs = [pool.submit(str(i), b"%d" % i, later=later) for i in range(8)]
    deadline = time.monotonic() + 60
    while sum(job.begun.is_set() for job in jobs) < most and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pool.need("now", b"now") == b"now"  # at once, while the others are at work
    time.sleep(0.05)
    assert sum(job.begun.is_set() for job in jobs) == most and not go_on.is_set()
    go_on.set()
    assert sorted(job.code for job in worker_pool.finished(jobs)) == [b"%d" % i for i in range(8)]


def test_what_is_needed_later_waits_for_all_that_is_under_way(monkeypatch):
    go_on = {name: threading.Event() for name in (b"soon", b"later")}
    pool = with_workers(monkeypatch, lambda m: go_on[m].wait(60) and b"+" + m, size=5)
    soon = pool.submit("soon", b"soon")
    assert soon.begun.wait(60)
    later = pool.submit("later", b"later", later=True)
    assert not later.begun.wait(0.1)
    go_on[b"soon"].set()
    assert later.begun.wait(60)
    go_on[b"later"].set()
    assert pool.take("later") == b"later"


def test_of_what_is_needed_later_the_family_that_was_asked_for_comes_first(monkeypatch):
    """The one that was asked for last; all others in their order."""
    go_on = {name: threading.Event() for name in ("scan", "sort")}
    begun = []

    def of(family, name):
        return f"cudamath.kernels.lib.x cudamath.kernels.{family}.dispatch {name}".encode()

    def answer(message):
        name = message.decode().rpartition(" ")[2]
        if name in go_on:
            go_on[name].wait(60)
        else:
            begun.append(name)
        return b"+" + message

    pool = with_workers(monkeypatch, answer, size=1)
    needed = pool.submit("scan", of("scan", "scan"))
    assert needed.begun.wait(60)
    names = "scan 1", "sort 1", "scan 2", "fft 1", "sort 2"
    jobs = [pool.submit(name, of(*name.split()), later=True) for name in names]
    pool.submit("sort", of("sort", "sort"))
    for event in go_on.values():
        event.set()
    assert len(list(worker_pool.finished(jobs))) == len(jobs)
    assert begun == ["1", "2", "1", "2", "1"]
    assert [key for key, job in pool._jobs.items() if job.is_later] == [
        "sort 1",
        "sort 2",
        "scan 1",
        "scan 2",
        "fft 1",
    ]


@pytest.mark.parametrize("first", ["hurried", "later"])
def test_what_is_under_way_at_the_least_priority_is_done_again_when_it_is_needed(
    monkeypatch, first
):
    """By another worker: whichever is done first counts, and the other one changes nothing."""
    go_on = {name: threading.Event() for name in ("hurried", "later")}
    met = threading.Event()

    def answer(message):
        if message == b"hurried":
            met.set()
        go_on[message.decode()].wait(60)
        return b"+" + message

    pool = with_workers(monkeypatch, answer, size=5)
    later = pool.submit("key", b"later", later=True)
    assert later.begun.wait(60)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        needed = threads.submit(pool.need, "key", b"hurried")
        assert met.wait(60) and not needed.done()
        go_on[first].set()
        assert needed.result(60) == first.encode()
        go_on["later"].set(), go_on["hurried"].set()
    assert later.done.wait(60) and later.code == b"later"
    assert pool.take("key") is None  # forgotten
    assert pool.need("other", b"later") == b"later"  # the workers go on


def test_what_is_needed_takes_all_workers(monkeypatch):
    together = threading.Barrier(5)
    pool = with_workers(monkeypatch, lambda m: together.wait(60) is not None and b"+" + m, size=5)
    jobs = [pool.submit(str(i), b"%d" % i, needed=True) for i in range(5)]
    assert sorted(job.code for job in worker_pool.finished(jobs)) == [b"%d" % i for i in range(5)]


def test_the_kernels_of_a_program_are_begun_by_their_length(monkeypatch):
    """The longest one first; when it returns all are on the disk, and the pool holds none."""
    pool = with_workers(monkeypatch, worker.machine_code, size=worker_pool.MANY)
    monkeypatch.setattr(compiler, "compile_now", lambda *_: (b"\x7fELF", ""))
    submit, order = pool.submit, []

    def noted(key, *arguments, **options):
        order.append(key)
        return submit(key, *arguments, **options)

    monkeypatch.setattr(pool, "submit", noted)
    asked = [kernel(" + ".join(["x"] * n)) for n in (1, 40, 3, 20)]
    compiler.compile_together(asked, CC, "f")
    keys = [compiler.cache_key(*each, CC) for each in asked]
    assert order == [keys[i] for i in (1, 3, 2, 0)]
    assert all(map(cubin_cache.stored_cubin, keys)) and not pool._jobs


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can fork here")
def test_what_is_needed_later_is_compiled_at_the_least_priority(monkeypatch, cache):
    monkeypatch.setattr(compiler, "compile_now", lambda *_: (bytes([os.nice(0)]), ""))
    key, message = job("x * 17")
    before = os.nice(0)
    answer = worker.machine_code(portable.dumps(("later", message)))
    assert answer == b"+" + bytes([19]) and cubin_cache.stored_cubin(key) == answer[1:]
    assert os.nice(0) == before
    assert worker.machine_code(portable.dumps(("later", b"no pickle")))[:1] == b"-"


def test_where_nothing_else_is_needed_all_workers_work(monkeypatch):
    together = threading.Barrier(5)

    def answer(message):
        together.wait(60)
        return b"+" + message

    monkeypatch.setattr(worker_pool, "_started", lambda: FakeWorker(answer))
    pool = worker_pool.Pool(5, keeps_free=False)
    jobs = [pool.submit(str(i), b"%d" % i) for i in range(5)]
    assert sorted(job.code for job in worker_pool.finished(jobs)) == [b"%d" % i for i in range(5)]


def test_the_number_of_workers_is_an_option(monkeypatch):
    for text, size in (("0", 0), ("3", 3), ("nonsense", 0)):
        monkeypatch.setenv("CUDAMATH_COMPILE_WORKERS", text)
        assert worker_pool._size() == size
    monkeypatch.delenv("CUDAMATH_COMPILE_WORKERS")
    for cores, memory, size in (
        (64, None, 15),
        (64, 64 << 30, 15),
        (64, 3 << 30, 6),  # a container
        (64, 100 << 20, 0),
        (2, 64 << 30, 1),
        (1, 64 << 30, 0),
    ):
        monkeypatch.setattr(host, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(host, "memory", lambda memory=memory: memory)
        assert worker_pool._size() == size


# -------------------- the kernels of a plan


def test_the_other_kernels_of_a_plan_are_compiled_meanwhile(fake, monkeypatch, cache):
    """While the first one is compiled here, workers get the rest; the plan then takes theirs."""
    expressions = ["x + 1", "x + 2", "x + 3"]
    steps = [
        elementwise(X, expression=e, compute=F4, output=F4, version="plain").steps[0]
        for e in expressions
    ]
    fake.libraries.append((lambda *_: None, []))
    sent, here = [], []

    def answer(message):
        sent.append(portable.loads(message)[0])
        return b"+\x7fELF0"

    def compile_now(function, *_):
        here.append(function)
        deadline = time.monotonic() + 60
        while len(sent) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        return b"\x7fELF0", ""

    with_workers(monkeypatch, answer)
    monkeypatch.setattr(compiler, "compile_now", compile_now)
    runtime.compiler = compiler.compile_cubin
    plan = Plan([X], steps)
    plan.bind("test", [X])
    assert here == [steps[0].kernel]
    expected = [compiler.cache_key(s.kernel, plan.signature(s, [X]), (9, 0, "a")) for s in steps]
    assert sent == expected[1:] and runtime.local.upcoming == ()
    for key in expected:
        assert cubin_cache.stored_cubin(key) == b"\x7fELF0"


def test_what_is_on_the_disk_is_not_sent(monkeypatch, cache):
    pool = with_workers(monkeypatch, lambda message: b"+code")
    function, signature = kernel("x + 4")
    key = compiler.cache_key(function, signature, CC)
    assert len(compiler.compile_ahead([(function, signature)], CC)) == 1
    pool.take(key)
    cubin_cache.cached_cubin(key, lambda: b"code")
    assert compiler.compile_ahead([(function, signature)], CC) == []


def test_two_processes_that_compile_the_same_kernel(cache):
    """Each stores it whole; the last one's stays."""
    key, message = job("x * 7")
    pools = [worker_pool.Pool(1), worker_pool.Pool(1)]
    jobs = [pool.submit(key, message) for pool in pools]
    for each in jobs:
        assert each.done.wait(120) and each.error == ""
    assert cubin_cache.stored_cubin(key) in {each.code for each in jobs}
    assert [path.suffix for path in cache.iterdir()] == [".cubin"]


#: A driver that notes in a file that somebody initialises it.
DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { fclose(fopen(getenv("INITIALISED"), "w")); return 0; }
static int refuse(void) { return 100; }
int cuGetProcAddress_v2(const char *name, void **function, int version, long flags, int *found) {
    *function = strcmp(name, "cuInit") ? (void *)refuse : (void *)cuInit;
    if (found) *found = 0;
    return 0;
}
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
@pytest.mark.parametrize(
    "does, initialises",
    [
        ("from cudamath.kernels.compiler import worker; worker.warm_up()", False),
        ("import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)", True),
    ],
)
def test_who_compiles_leaves_the_driver_alone(tmp_path, does, initialises):
    """The origin would wait for it before it has a worker: longer than for most kernels."""
    source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    source.write_text(DRIVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    noted = tmp_path / "initialised"
    own = {"LD_LIBRARY_PATH": str(tmp_path), "INITIALISED": str(noted)}
    subprocess.run([sys.executable, "-c", does], env={**os.environ, **own}, check=True)
    assert noted.exists() == initialises
