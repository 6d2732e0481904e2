"""The kernels of a gradient are compiled while the op's own are."""

from __future__ import annotations

import time

import numpy as np
import pytest

import cudamath as cm
from cudamath import ml
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import gradients, lazy_numba, portable, worker
from cudamath.runtime import cubin_cache, kernel_packs, rehearsal
from cudamath.runtime.device import assume
from cudamath.runtime.state import runtime

from .test_workers import with_workers

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
CAPABILITY = (9, 0)
MACHINE = CAPABILITY, "assumed", ()  # our own kernels, in the place of libraries
F4 = np.dtype("f4")
SOFTMAX = ("softmax", (Layout.new((64, 512), F4, 0),), {"axis": 1}, (), (True,))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", "0")
    monkeypatch.setattr(compiler, "_is_new", lambda: False)
    kernel_packs.packs.cache_clear()
    yield
    kernel_packs.packs.cache_clear()


def keys(kernels):
    return {compiler.message_of(*each, CAPABILITY)[0] for each in kernels}


def rehearsed(function):
    """Kernels that a function needs, each with the recorded call during which it was asked for."""
    seen = []

    def note(kernel, signature, _):
        seen.append(((kernel, signature), runtime.local.recorded))
        return b"\x7fELF"

    with rehearsal.rehearsing(CAPABILITY, note, there=()), cm.device("cuda:0"):
        function()
    return seen


def ones(*shape, dtype="bfloat16"):
    return cm.ones(shape, dtype=dtype)


CASES = {
    "matmul": lambda: (lambda a, b: a @ b, [ones(64, 128), ones(128, 32)]),
    "softmax": lambda: (ml.softmax, [ones(64, 512)]),
    "conv2d": lambda: (
        lambda x, w: ml.conv2d(x, w, padding=1),
        [ones(8, 64, 28, 28), ones(128, 64, 3, 3)],
    ),
    "layer_norm": lambda: (
        lambda x, w, b: ml.layer_norm(x, 128, w, b),
        [ones(64, 128), ones(128), ones(128)],
    ),
    "rms_norm": lambda: (lambda x, w: ml.rms_norm(x, 128, w), [ones(64, 128), ones(128)]),
    "scaled_dot_product_attention": lambda: (
        ml.scaled_dot_product_attention,
        [ones(2, 4, 256, 64) for _ in range(3)],
    ),
    "cumulative": lambda: (lambda x: cm.cumsum(x, axis=1), [ones(64, 512, dtype="float32")]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_gradient_launches_is_known_after_the_call(name):
    """All that the backward pass needs, and nothing that the program does not."""
    seen, marks = [], []

    def note(kernel, signature, _):
        seen.append(((kernel, signature), runtime.local.recorded))
        return b"\x7fELF"

    with rehearsal.rehearsing(CAPABILITY, note, there=()), cm.device("cuda:0"):
        function, arrays = CASES[name]()
        y, vjp = cm.vjp(function, *arrays)
        marks.append(len(seen))
        g = cm.ones(y.shape, dtype=y.dtype)
        marks.append(len(seen))
        vjp(g)
    forward, backward = seen[: marks[0]], seen[marks[1] :]
    recorded = {id(call): call for _, call in forward if call is not None and call[0] == name}
    (call,) = recorded.values()
    assert all(call is None for _, call in backward)
    predicted = keys(gradients.kernels(*call, *MACHINE))
    needed = keys(kernel for kernel, _ in backward)
    assert needed and needed - keys(kernel for kernel, _ in seen[: marks[1]]) <= predicted
    assert predicted <= keys(kernel for kernel, _ in seen)


def test_without_a_gradient_nothing_is_foreseen():
    seen = rehearsed(lambda: ml.softmax(ones(64, 512)))
    assert seen and all(call is None for _, call in seen)


def test_an_op_without_a_gradient_rule_foresees_nothing():
    seen = rehearsed(lambda: cm.vjp(lambda x: x * cm.argmax(x, axis=1)[:, None], ones(64, 512)))
    assert seen and {call[0] for _, call in seen if call is not None}.isdisjoint({"argmax"})


def test_a_worker_answers_with_messages():
    answer = worker.machine_code(portable.dumps(("gradient", *SOFTMAX, *MACHINE)))
    assert answer[:1] == b"+"
    messages = portable.loads(answer[1:])
    assert {key for key, _ in messages} == keys(gradients.kernels(*SOFTMAX, *MACHINE))
    for key, message in messages:
        found, kernel, signature, *_ = portable.loads(message)
        assert found == key == compiler.message_of(kernel, signature, CAPABILITY)[0]


def test_a_worker_survives_a_call_that_it_does_not_know():
    call = ("no such op", *SOFTMAX[1:], *MACHINE)
    assert worker.machine_code(portable.dumps(("gradient", *call)))[:1] == b"-"


def test_what_is_foreseen_is_compiled_by_workers(monkeypatch):
    """While the first kernel is compiled here."""
    expected, sent = keys(gradients.kernels(*SOFTMAX, *MACHINE)), []

    def answer(message):
        content = portable.loads(message)
        if content[0] == "gradient":
            return worker.machine_code(message)
        sent.append(content[0])
        return b"+\x7fELF"

    def compile_now(*_):
        deadline = time.monotonic() + 60
        while set(sent) < expected and time.monotonic() < deadline:
            time.sleep(0.01)
        return b"\x7fELF", ""

    pool = with_workers(monkeypatch, answer)
    monkeypatch.setattr(compiler, "compile_now", compile_now)
    monkeypatch.setattr(runtime.local, "recorded", SOFTMAX)
    (kernel, signature), *_ = [each for each, _ in rehearsed(lambda: ml.softmax(ones(64, 512)))]
    runtime.local.recorded = SOFTMAX
    with assume(CAPABILITY):
        compiler.compile_cubin(kernel, signature, CAPABILITY)
    assert set(sent) == expected
    for key in expected:
        assert pool.take(key) == b"\x7fELF"


def test_what_is_stored_is_not_compiled_again(monkeypatch):
    for key in keys(gradients.kernels(*SOFTMAX, *MACHINE)):
        cubin_cache.cached_cubin(key, lambda: b"code")
    pool = with_workers(monkeypatch, worker.machine_code)
    monkeypatch.setattr(runtime.local, "recorded", SOFTMAX)
    with assume(CAPABILITY):
        compiler._compile_gradient_ahead(pool, CAPABILITY)
    (job,) = [*pool._waiting.values(), *pool._jobs.values()]
    assert job.done.wait(60) and job.error == "" and len(pool._jobs) == 1 and not pool._waiting


def test_an_answer_that_cannot_be_used_ends_no_worker(monkeypatch):
    pool = with_workers(monkeypatch, lambda _: b"+no pickle")
    bad = pool.submit("one", b"one", portable.loads)
    assert bad.done.wait(60) and bad.error and pool.take("one") is None
    good = pool.submit("two", b"two")
    assert good.done.wait(60) and pool.take("two") == b"no pickle"
