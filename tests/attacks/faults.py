"""Every driver call of a public call fails in turn: it raises an error of CUDA or copes, leaves no
state and no memory behind, and the next attempt is as if nothing had been."""

from __future__ import annotations

import collections
import contextlib
import gc
import itertools

import pytest
from fake_driver import check_memory, installed
from fake_status import CUresult
from public_calls import calls, outputs
from thread_state import left_behind, outside

import cudamath as cm
from cudamath.core.dispatch import fast_path
from cudamath.core.dispatch.op import registry
from cudamath.ops.random.module import default_generator
from cudamath.runtime import device
from cudamath.runtime.state import runtime

#: What may fail, and how: statuses of the fake driver, which the real one has by the same names.
FAILURES = {
    "cuMemAllocAsync": CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    "cuMemHostAlloc": CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    "cuLibraryLoadData": CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    "cuKernelGetFunction": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuLaunchKernel": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuLaunchKernelEx": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuMemcpyHtoDAsync": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuMemcpyDtoHAsync": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuMemcpyDtoDAsync": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuMemsetD8Async": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuStreamSynchronize": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuStreamCreate": CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    "cuStreamWaitEvent": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuEventCreate": CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    "cuEventRecord": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuEventSynchronize": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuStreamBeginCapture": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuStreamEndCapture": CUresult.CUDA_ERROR_INVALID_VALUE,
    "cuGraphInstantiate": CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    "cuGraphLaunch": CUresult.CUDA_ERROR_INVALID_VALUE,
}
MOST = 25  # of the calls of one driver function in one public call
CALLS = 100  # public calls on one fake device


def forget_plans():
    for op in registry.values():
        for name in ("plans", "views"):
            getattr(op, name, {}).clear()
    fast_path.forget()


@contextlib.contextmanager
def gpu_without_values():
    """A fake GPU on which nothing is computed: what is read from it are zeros."""
    with pytest.MonkeyPatch.context() as patch, installed(patch, limit=1 << 34) as fake:
        fake.poisons, fake.idle = False, True
        with cm.device("cuda"):
            pass
        yield fake


class Failing:
    """The real driver, of which a call fails when it is told to (`later`, as the fake one's)."""

    def __init__(self, driver):
        self.driver, self.later = driver, None
        self.lost, self.fail = None, {}  # the fake one's other ways to fail
        self.calls: collections.Counter[str] = collections.Counter()
        self.launches: list[tuple[str]] = []

    def __getattr__(self, name):
        found = getattr(self.driver, name)
        if not (name.startswith("cu") and name[2].isupper()):
            return found
        launches = name in ("cuLaunchKernel", "cuLaunchKernelEx")

        def call(*args):
            self.calls[name] += 1
            if self.later is not None and self.later[0] == name:
                self.later[1] -= 1
                if self.later[1] <= 0:
                    status = getattr(self.driver.CUresult, self.later[2].name)
                    self.later = None
                    if name == "cuStreamEndCapture":
                        found(*args)
                    return (status,) if launches else (status, None)
            if launches:
                self.launches.append((name,))
            return found(*args)

        setattr(self, name, call)
        return call


@contextlib.contextmanager
def gpu():
    """The real driver, whose calls can fail, for a process that has not used it."""
    if not isinstance(runtime.driver, Failing):
        runtime.driver = Failing(device.driver())
    runtime.driver.launches.clear()
    with cm.device("cuda"):
        yield runtime.driver


def streams():
    """Work on other streams, of a graph, and between devices: what the records do not do."""
    x = cm.ones(300, "float32", device="cuda")
    other, step = cm.cuda.Stream(), []

    def cross():
        here = cm.cuda.current_stream()
        y = x + 1
        other.wait(here)  # streams are not ordered; memory wants no care
        with other:
            z = y * 2
        here.wait(other)
        w = z - y
        del y
        other.wait(here)
        with other:
            v = w + 1
        here.wait(other)
        return v, w

    def captured():
        with cm.cuda.capture() as graph:
            step[:] = [cm.exp(x) * 2]
        graph.replay()
        step.clear()

    def devices():
        return x.to_device("cuda:1").to_device("cpu")

    return {"streams": cross, "a capture": captured, "devices": devices}


def scenarios():
    for call in calls():
        yield call.name, lambda call=call: call.prepare("cuda")
    for name in ("streams", "a capture", "devices"):
        yield name, lambda name=name: streams()[name]


def attack(under):
    rows = under.endless(scenarios())
    real = under.device == "cuda"
    gc.collect()
    gc.freeze()  # collections look at what the calls have made
    try:
        while under.goes_on:
            with gpu() if real else gpu_without_values() as fake:
                for name, prepare in itertools.islice(rows, CALLS):
                    attack_one(under, fake, name, prepare, cold=under.chance.random() < 0.3)
    finally:
        gc.unfreeze()


def attack_one(under, fake, name, prepare, cold):
    try:
        work = prepare()
        work()
        if cold:
            forget_plans()
        before = fake.calls.copy()
        launches = len(fake.launches)
        result = work()
        launches = len(fake.launches) - launches
        real = isinstance(fake, Failing)
        expected = [x.tobytes() for x in outputs(result)] if real else None
        del result
    except Exception:
        return  # wants libraries or values, of which there are none
    counts = fake.calls - before
    for function, status in FAILURES.items():
        for k in range(1, min(counts[function], MOST) + 1):
            if not under.goes_on:
                return
            under.tried += 1
            if cold:
                forget_plans()
            words = fault(fake, name, work, function, k, status, launches, cold)
            if not words and expected is not None and "draw" not in name:
                got = [x.tobytes() for x in outputs(work())]
                words = "" if got == expected else "another answer afterwards"
            if words:
                under.violation(f"{name}, {function} {k}{' cold' if cold else ''}: {words}")
                return
        if counts[function]:
            del fake.launches[:]
            try:
                check_memory(fake)  # as dear as a call: not after each fault
            except AssertionError as error:
                under.violation(f"{name}, {function}{' cold' if cold else ''}: {error}")
                return


def in_use():
    """Bytes of each device that buffers hold."""
    return {pool.device: pool.used for pool in runtime.pools.values() if hasattr(pool, "used")}


def fault(fake, name, work, function, k, status, launches, cold):
    """What is wrong after the k-th call of a driver function failed; empty if nothing is."""
    before, thread = in_use(), outside()
    generator, launched = default_generator(), {launch[0] for launch in fake.launches}
    position = generator.state
    fake.later = [function, k, status]
    failed, message = False, ""
    try:
        work()
    except (cm.cuda.CudaError, MemoryError) as error:
        failed, message = True, str(error)
    except BaseException as error:
        return f"raises {type(error).__name__}: {error}"
    finally:
        fake.later = None
    if words := left_behind(thread):
        return f"leaves {words}"
    first = message.partition(": ")[0]
    kernels = launched - {name.rpartition(".")[2]}
    if failed and (not first.replace(".", "_").isidentifier() or first in kernels):
        return f"names no function: {message:.60}"
    if failed and generator.state != position:
        return "moved the generator"
    count = len(fake.launches)
    try:
        work()
    except BaseException as error:
        return f"cannot be repeated: {type(error).__name__}: {error}"
    count = len(fake.launches) - count
    if not cold and count != launches:
        return f"launches {count} kernels afterwards, {launches} before"
    if in_use() != before:
        gc.collect()
    if in_use() != before:
        return f"{before} bytes were in use before, {in_use()} afterwards"
    return ""
