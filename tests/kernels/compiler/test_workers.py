"""Workers: what they compile, what becomes of those that fail, and who compiles in the end."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import lazy_numba, portable, storage_types, worker, worker_pool
from cudamath.kernels.elementwise.dispatch import elementwise
from cudamath.runtime import cubin_cache, kernel_packs
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
    kernel_packs.packs.cache_clear()
    yield tmp_path / "kernels"
    kernel_packs.packs.cache_clear()


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


@pytest.mark.parametrize("answer", [lambda _: b"-broken", lambda _: None])
def test_a_worker_that_fails_or_ends_leaves_the_kernel_to_the_caller(monkeypatch, answer):
    pool = with_workers(monkeypatch, answer)
    jobs = [pool.submit(name, name.encode()) for name in ("one", "two")]
    for each in jobs:
        assert each.done.wait(60) and each.error and each.code is None
    assert pool.take("one") is None and pool.take("two") is None


def test_without_python_there_are_no_workers(monkeypatch):
    monkeypatch.setattr(worker_pool.sys, "executable", "/no/such/python")
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


def test_the_number_of_workers_is_an_option(monkeypatch):
    for text, size in (("0", 0), ("3", 3), ("nonsense", 0)):
        monkeypatch.setenv("CUDAMATH_COMPILE_WORKERS", text)
        assert worker_pool._size() == size
    monkeypatch.delenv("CUDAMATH_COMPILE_WORKERS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    assert worker_pool._size() == 15
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(1), raising=False)
    assert worker_pool._size() == 0


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
