"""Ctrl-C at every place where Python looks for it: at the beginning of a function, when a generator
goes on, and after a call of C code; and at random moments.

A profile function raises at the n-th of the places, for every n, in what people interrupt:
gradients, `with stream`, captures, profiles, draws, files. A timer's signal raises at a moment,
which is cheaper by far. Afterwards the thread's state is as before, no memory is lost, and the same
work gives the same answer.
"""

from __future__ import annotations

import contextlib
import dis
import gc
import pathlib
import signal
import sys
import tempfile
import threading
import time

import fake_driver
import numpy as np
from fake_driver import bind, check_memory, gpu
from faults import gpu_without_values
from public_calls import calls, outputs
from thread_state import left_behind, outside

import cudamath as cm
from cudamath.core import compile_notice
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.replanning import replanned
from cudamath.runtime import host_stream
from cudamath.runtime.host_stream import HostStream
from cudamath.runtime.interrupts import call_at_once


class Interrupted(BaseException):
    """What is raised: nobody expects it, as nobody expects KeyboardInterrupt."""


_BEGIN = dis.opmap["RESUME"]
#: Frames that stand for C code, or in which Python would leave a lock of its own behind.
_OTHERS = fake_driver.__file__, threading.__file__, __file__
_begins: dict = {}


def looks(code) -> bool:
    """Whether Python looks for signals where this code begins."""
    if code not in _begins:
        steps = [step for step in dis.get_instructions(code) if step.opcode == _BEGIN]
        _begins[code] = not steps or steps[0].arg < 2
    return _begins[code]


def exempt(frame) -> bool:
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _OTHERS[:2] or "importlib" in file:
            return True
        frame = frame.f_back
    return False


class Interrupter:
    """Raises at the n-th place; `places` is how many there have been."""

    def __init__(self, at):
        self.at, self.places = at, 0

    def __call__(self, frame, event, _argument):
        if event == "call":
            if not looks(frame.f_code):
                return
        elif event == "return":  # the end of a call of the driver, which is C code
            code, frame = frame.f_code, frame.f_back
            if (code.co_filename, code.co_name) != (fake_driver.__file__, "call"):
                return
            if frame is None or frame.f_code is call_at_once.__code__:
                return  # more C code goes on
        elif event != "c_return":
            return
        if frame.f_code.co_filename == __file__ or exempt(frame):
            return
        self.places += 1
        if self.places == self.at:
            raise Interrupted

    def run(self, work):
        """Whether it was interrupted."""
        try:
            sys.setprofile(self)
            try:
                work()
            finally:
                sys.setprofile(None)
        except Interrupted:
            return True
        return False


class Timer:
    """Raises when a signal comes, as Ctrl-C does; but for frames that stand for C code, where it
    waits for their end."""

    AGAIN = 20e-6  # seconds

    def __init__(self):
        self.armed = False

    def __enter__(self):
        self.before = signal.signal(signal.SIGALRM, self.came)
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)

    def came(self, _number, frame):
        if not self.armed:
            return
        if exempt(frame):
            signal.setitimer(signal.ITIMER_REAL, self.AGAIN)
            return
        self.armed = False
        raise Interrupted

    def run(self, work, seconds):
        """Whether it was interrupted."""
        self.armed = True
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            work()
            self.armed = False
        except Interrupted:
            return True
        return False


def doubled(x):
    def kernel(x, y):
        y[:] = 2 * x

    return bind(kernel, [x], [(x.shape, "f4")], [Input(0).flat, Output(0).flat])


def on_gpu(real=False):
    """Scenarios on a GPU, or on two of the fake driver: functions without arguments."""
    x, stream, second = gpu(np.ones(300, "f4")), cm.cuda.Stream(), 0 if real else 1
    there = gpu(np.ones(5, "f4"), second)
    double, double_there = (cm.exp, cm.exp) if real else (doubled(x), doubled(there))

    def streams():
        with stream:
            y = double(double(x))
        with stream, cm.cuda.Stream():
            double(y)

    def buffers():
        double(double(x))
        cm.cuda.memory.Buffer(1 << 20, cm.cuda.current_stream())
        cm.cuda.empty_cache()

    def devices():
        with cm.device(f"cuda:{second}"), cm.device("cpu"):
            double_there(there)
        with cm.cuda.device(second):
            double(x)

    def captures():
        with cm.cuda.capture() as graph:
            double(double(x))
        graph.replay()

    def graphs():
        step = cm.cuda.graph(lambda a: double(a))
        step(x)
        step(x)

    def profiles():
        with cm.cuda.profile(), cm.cuda.annotate("part"), cm.cuda.launch_lines():
            double(x)
        with cm.cuda.memory_debugging():
            double(x)

    def copies():
        y = cm.asarray(np.ones(7, "f4"), device="cuda")
        y.to_numpy()
        y.tolist()

    return (streams, buffers, devices, captures, graphs, profiles, copies)


def on_cpu():
    """Scenarios on the CPU."""
    w = cm.asarray(np.ones(5), device="cpu")
    rng = cm.random.default_rng(0)
    layer = cm.checkpoint(lambda w: cm.ml.dropout(cm.exp(w), 0.5, rng=rng))
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name) / "file"

    def gradients():
        def loss(w):
            return (cm.grad(lambda v: (v * v).sum())(w) * layer(w)).sum()

        cm.grad(loss)(w)

    def pullbacks():
        _, pull = cm.vjp(lambda w: w * w, w)
        x = cm.zeros(3, device="cpu")
        x[0] = 1.0
        pull(w)
        cm.jvp(lambda w: cm.sin(w), (w,), (w,))

    def files():
        cm.save(f"{path}.npy", w)
        cm.load(f"{path}.npy")
        _ = folder

    def archives():
        cm.savez(f"{path}.npz", w=w, x=w)
        cm.load(f"{path}.npz")
        _ = folder

    def trees():
        cm.save(f"{path}.safetensors", {"w": w})
        cm.load(f"{path}.safetensors")
        _ = folder

    def whole():
        """Nothing is half written, or left beside the files."""
        for file in path.parent.iterdir():
            assert file.suffix != ".tmp", file
            found = cm.load(file)
            for x in [found] if isinstance(found, cm.ndarray) else found.values():
                assert x.tolist() == w.tolist()

    for work in (files, archives, trees):
        work.afterwards = whole

    def settings():
        with cm.errstate(all="ignore"), cm.device("cpu"):
            cm.log(w)
        with cm.errstate(divide="raise", invalid="warn"):
            cm.log(w)
        with compile_notice.waiting("nothing", "nowhere"):
            cm.exp(w)

    def host_streams():
        with HostStream(), HostStream():
            cm.exp(w)
        with host_stream.capturing():
            cm.exp(w)

    def plans():
        with replanned(lambda plan: plan):
            cm.exp(w)

    def draws():
        rng.normal(size=5)
        rng.permutation(5)

    return (gradients, pullbacks, files, archives, trees, settings, host_streams, plans, draws)


@contextlib.contextmanager
def silent():
    """Errors inside of finalisers are printed: here they are expected."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = before


def everywhere(under, name, work, most=None, seconds=float("inf")):
    """Interrupt the work at each of its places (of `most` of them, chosen at random; for so
    long)."""
    for _ in range(3):
        work()
    before = outside()
    count = Interrupter(0)
    count.run(work)
    places = list(range(1, count.places + 1))
    under.chance.shuffle(places)
    end = time.monotonic() + seconds
    for at in places[:most]:
        if not under.goes_on or time.monotonic() > end:
            return
        try:
            under.tried += Interrupter(at).run(work)
        except Exception as error:
            under.violation(f"{name} at {at}: {type(error).__name__}: {error}")
            return
        if words := left_behind(before):
            under.violation(f"{name} at {at}: leaves {words}")
            return
        try:
            getattr(work, "afterwards", bool)()
        except Exception as error:
            under.violation(f"{name} at {at}, afterwards: {type(error).__name__}: {error}")
            return
    try:
        work()
    except Exception as error:
        under.violation(f"{name}: cannot be repeated: {type(error).__name__}: {error}")


def moments(under, name, work, most, seconds=1.0):
    """Interrupt the work at so many random moments, or for so long."""
    for _ in range(3):
        work()
    before, end = outside(), time.monotonic() + seconds
    begun = time.perf_counter()
    work()
    span = 1.2 * (time.perf_counter() - begun)
    with Timer() as timer:
        for i in range(most):
            if not under.goes_on or time.monotonic() > end:
                break
            try:
                under.tried += timer.run(work, max(1e-6, under.chance.random() * span))
                words = left_behind(before)
                words = words and f"leaves {words}"
                if not words and i % 50 == 49:
                    getattr(work, "afterwards", bool)()
            except Exception as error:
                words = f"{type(error).__name__}: {error}"
            if words:
                under.violation(f"{name} at a moment: {words}")
                return
    try:
        work()
        getattr(work, "afterwards", bool)()
    except Exception as error:
        under.violation(f"{name}: cannot be repeated: {type(error).__name__}: {error}")


def public(under):
    """Calls of public functions on the CPU."""
    for call in under.endless([c for c in calls() if "gradient" in c.name]):
        if repeated(under, call, "cpu", 40, 200):
            return


def repeated(under, call, device, places, moment):
    """A call of a public function, interrupted at so many places and moments: right afterwards.
    Whether there is such a call."""
    try:
        work = call.prepare(device)
        with np.errstate(all="ignore"):
            expected = outputs(work())
    except Exception:
        return False
    with np.errstate(all="ignore"):
        everywhere(under, call.name, work, places)
        moments(under, call.name, work, moment)
        got = outputs(work())
    if any(a.tobytes() != b.tobytes() for a, b in zip(expected, got, strict=True)):
        under.violation(f"{call.name}: another answer after interrupts")
    return True


def attack_on_gpu(under):
    """On the real driver: what the scenarios hold comes back, and gradients stay right."""
    gradients = [call for call in calls() if "gradient" in call.name]
    with cm.device("cuda"):
        works = on_gpu(real=True)
        for work in works:
            work()
        for call in under.endless(gradients):
            gc.collect()
            cm.cuda.synchronize()
            before = cm.cuda.memory_stats()["allocated"]
            for work in under.chance.sample(works, 3):
                everywhere(under, work.__name__, work, 50, 2.0)
                moments(under, work.__name__, work, 2000)
            gc.collect()
            after = cm.cuda.memory_stats()["allocated"]
            if after != before:
                under.violation(f"{after - before} bytes more are in use")
            repeated(under, call, "cuda", 40, 400)


def attack(under):
    with silent():
        if under.device == "cuda":
            attack_on_gpu(under)
        else:
            attack_on_cpu(under)


def attack_on_cpu(under):
    gc.collect()
    gc.freeze()  # a capture collects garbage: not among what others have made
    try:
        while under.goes_on:
            attack_fake_gpu(under)
            for work in under.chance.sample(on_cpu(), 1):
                everywhere(under, work.__name__, work, 100, 2.0)
                moments(under, work.__name__, work, 2000)
            public(under)
    finally:
        gc.unfreeze()


def attack_fake_gpu(under):
    """Its streams end before it does: the real driver would be told of them."""
    with gpu_without_values() as fake:
        for work in under.chance.sample(on_gpu(), 2):
            everywhere(under, work.__name__, work, 100, 2.0)
            moments(under, work.__name__, work, 2000)
        del work
        gc.collect()
        try:
            check_memory(fake)
        except AssertionError as error:
            under.violation(str(error))
