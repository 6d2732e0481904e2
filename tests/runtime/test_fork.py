"""A forked process is free of what other threads of its parent were doing."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

_PROGRAM = '''
import gc, os, signal, sys, threading
import numpy as np
import cudamath as cm
import cudamath.runtime.cublas, cudamath.runtime.cufft, cudamath.runtime.profiler
import cudamath.kernels.compiler.compile
from cudamath.core import cpu_pool
from cudamath.core.autograd import mutation
from cudamath.core.dispatch import call_record
from cudamath.runtime import fork

KINDS = type(threading.Lock()), type(threading.RLock())


def ours(lock):
    """Whether an object, a module or a function of the package refers to a lock."""
    for holder in gc.get_referrers(lock):
        if isinstance(holder, dict):
            names = [holder.get("__name__")]
            names += [type(o).__module__ for o in gc.get_referrers(holder)]
        else:
            names = [type(holder).__module__]
        if any(str(name).startswith("cudamath") for name in names):
            return True
    return False


cm.set_default_device("cpu")
rng, stopped, ready = cm.random.default_rng(0), threading.Event(), threading.Event()
profile = cm.cuda.profiling.Profile(nvtx=False) if hasattr(cm.cuda, "profiling") else None
locks = [o for o in gc.get_objects() if isinstance(o, KINDS) and ours(o)]
assert len(locks) > 5, locks


def hold():
    """A thread that holds every lock of the package, and is recording a gradient."""
    for lock in locks:
        lock.acquire()
    cpu_pool._adding = True

    def recorded(x):
        ready.set()
        stopped.wait()
        return x

    with call_record.CallRecord():
        cm.grad(recorded)(1.0)


# what it needs first would otherwise wait for the locks
cm.grad(lambda x: x)(1.0)
threading.Thread(target=hold, daemon=True).start()
CHECK_LOCKS
ready.wait(20)
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
signal.alarm(30)
held = [lock for lock in locks if not lock.acquire(timeout=1)]
for lock in locks:
    if lock not in held:
        lock.release()
if held:
    os._exit(100 + len(held))
large = cm.asarray(np.ones((400, 300)))
first, again = rng.random(3).tolist(), (large + large).sum().item()
x = cm.zeros(3)
x[0] = 1
ok = again == 240_000 and cm.grad(lambda x: (x * x).sum())(x).tolist() == [2, 0, 0]
state = call_record.open_records, mutation.holders, cpu_pool._adding
os._exit(7 if ok and state == ([], {}, False) else 8)
'''


def test_every_lock_is_free_in_the_child():
    """Also that of the slow path of a call, of every module and of every object."""
    program = _PROGRAM.replace("CHECK_LOCKS\n", "")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 7, (done.returncode, done.stderr)
