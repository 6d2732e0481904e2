"""Kernels compiled ahead, in worker processes, while this process goes on.

`submit` queues a kernel; `take` returns its machine code when it is needed. A kernel that no worker
has begun by then is taken back, and the caller compiles it: so the workers are a help at best, and
nothing waits for them to start. Workers are started when there is work, and end with this process.
CUDAMATH_COMPILE_WORKERS is their number (0: none; by default the number of cores, at most 16, less
one).
"""

from __future__ import annotations

import collections
import os
import pathlib
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ...runtime import fork

_ROOT = str(pathlib.Path(__file__).parents[3])
#: A worker's program. The folder of this package comes last: it may be the user's, and their files
#: may have the names of other modules.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    f"import runpy; runpy.run_module({__package__ + '.worker'!r}, run_name='__main__')"
)


LENGTH = struct.Struct("<Q")


def write(file: BinaryIO, message: bytes) -> None:
    """Write a message, with its length before it."""
    file.write(LENGTH.pack(len(message)) + message)
    file.flush()


def read(file: BinaryIO) -> bytes | None:
    """The next message; None at the end, and where the other side broke off."""
    head = file.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    message = file.read(length)
    return message if len(message) == length else None


class Job:
    """A kernel to compile; its machine code, or None, once `done` is set."""

    def __init__(self, key: str, message: bytes, then: Callable[[bytes], object] | None = None):
        self.key, self.message, self.then = key, message, then
        self.code: bytes | None = None
        self.error = ""
        self.done = threading.Event()

    def finish(self, code: bytes) -> None:
        """Done, with this answer."""
        if self.then is None:
            self.code = code
            self.done.set()
            return
        try:
            self.then(code)
        except Exception as error:  # the thread goes on with the next job
            self.fail(f"{type(error).__name__}: {error}")
        else:
            self.done.set()

    def fail(self, error: str) -> None:
        """Done, without machine code."""
        self.error = error
        self.done.set()


class Pool:
    """At most `size` worker processes."""

    def __init__(self, size: int):
        self.size = size
        self._changed = threading.Condition(fork.new_reentrant_lock())
        self._waiting: collections.OrderedDict[str, Job] = collections.OrderedDict()
        self._jobs: dict[str, Job] = {}  # those that workers have begun, or done
        self._threads = self._idle = 0

    def submit(
        self, key: str, message: bytes, then: Callable[[bytes], object] | None = None
    ) -> Job:
        """Queue a kernel, unless it is already here. then: is called with the answer, in a thread
        of the pool."""
        with self._changed:
            job = self._jobs.get(key) or self._waiting.get(key)
            if job is None:
                job = self._waiting[key] = Job(key, message, then)
                if self._idle < len(self._waiting) and self._threads < self.size:
                    self._threads += 1
                    thread = threading.Thread(target=self._work, daemon=True)
                    thread.name = "cudamath compiler"
                    thread.start()
                self._changed.notify()
        return job

    def take(self, key: str) -> bytes | None:
        """The machine code of a kernel that was submitted: waits for a worker that has begun. None
        if none has, or if it failed; then the kernel is forgotten here."""
        with self._changed:
            if self._waiting.pop(key, None) is not None:
                return None
            job = self._jobs.pop(key, None)
        if job is None:
            return None
        job.done.wait()
        return job.code

    def _work(self) -> None:
        """One worker after another, and the thread that gives them jobs. A worker that breaks off
        loses its job and is replaced; one that does not begin is the last."""
        while self._serve():
            pass
        with self._changed:
            self.size -= 1
            self._threads -= 1
            lost = list(self._waiting.values()) if self._threads == 0 else []
            for job in lost:
                del self._waiting[job.key]
        for job in lost:
            job.fail("no worker starts")

    def _serve(self) -> bool:
        """Start a worker and give it jobs until it breaks off; whether it began."""
        process = _started()
        if process is None or process.stdin is None or process.stdout is None:
            return False
        job: Job | None = None
        try:
            if read(process.stdout) != b"ready":
                return False
            while True:
                job = self._next()
                write(process.stdin, job.message)
                answer = read(process.stdout)
                if answer is None:
                    break
                if answer[:1] == b"+":
                    job.finish(answer[1:])
                else:
                    job.fail(answer[1:].decode(errors="replace"))
        except OSError:  # a broken pipe
            pass
        finally:
            process.kill()
            process.wait()
        if job is not None:
            job.fail("the worker ended")
        return job is not None

    def _next(self) -> Job:
        with self._changed:
            self._idle += 1
            while not self._waiting:
                self._changed.wait()
            self._idle -= 1
            key, job = self._waiting.popitem(last=False)
            self._jobs[key] = job
            return job


def finished(jobs: list[Job]) -> Iterator[Job]:
    """Each job when it is done."""
    left = list(jobs)
    while left:
        left[0].done.wait(0.05)
        done = [job for job in left if job.done.is_set()]
        left = [job for job in left if not job.done.is_set()]
        yield from done


def _started() -> Any:
    """A worker process, None if none can be made."""
    import subprocess  # needed only where something is compiled

    environment = {**os.environ, "CUDAMATH_COMPILE_WORKERS": "0", "CUDAMATH_COMPILE_NOTICE": "0"}
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, _ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except OSError:  # no Python at that place, no room for another process
        return None


def _size() -> int:
    chosen = os.environ.get("CUDAMATH_COMPILE_WORKERS", "")
    if chosen:
        return max(0, int(chosen)) if chosen.isdecimal() else 0
    affinity = getattr(os, "sched_getaffinity", None)
    return min(16, len(affinity(0)) if affinity else os.cpu_count() or 1) - 1


_pool: Pool | None = None


def pool() -> Pool:
    """The pool of this process."""
    global _pool
    if _pool is None:
        _pool = Pool(_size())
    return _pool


@fork.in_child
def _forget() -> None:
    """A fork takes no threads along."""
    global _pool
    _pool = None
