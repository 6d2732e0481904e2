"""Kernels compiled ahead, in worker processes, while this process goes on.

`submit` queues a kernel; `take` returns its machine code when it is needed. A kernel that no worker
has begun by then is taken back, and the caller compiles it. Where there are many workers, `need`
lets the next free one do even what is needed at once: it has the compilers in memory, which this
process may never have to import. So that it need not wait for those ahead, which take seconds each,
they leave a worker free. What may be needed later is begun while nothing else is under way, by half
of the workers, and at the least priority (worker.py): cores have threads and caches in common. Of
it, kernels of the family that was asked for last come first: who has called attention will call it
again. If it is needed before it is done, another worker does it as well, at once.

Workers are forks of one process, the *origin* (origin.py), which has imported the compilers:
fifteen of them cost one import, and share its memory. It is started when there is work, or by
`prepare` before, and ends with this process, as the workers do. CUDAMATH_COMPILE_WORKERS is their
number (0: none; by default the number of cores, at most 16, less one, and no more than there is
memory for: in a container as much as that may use).
"""

from __future__ import annotations

import collections
import os
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ...runtime import fork, host
from . import portable

#: From so many workers on, what is needed at once is theirs too.
MANY = 4
#: Then so many workers stay free of what may be needed soon.
FREE_OF_SOON = 1
#: Seconds: how long such a kernel waits for a worker. To import the compilers takes one or two; so
#: does the slowest kernel, for whose end it may have to wait.
PATIENCE = 10.0
#: Seconds after which a worker that has begun counts as hanging (the slowest kernel takes a tenth).
HANGS = 300.0

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
        self.is_needed = self.is_later = False
        self.family = ""
        self.begun, self.done = threading.Event(), threading.Event()
        self.hurried: Job | None = None  # the same, for another worker

    def finish(self, code: bytes) -> None:
        """Done, with this answer."""
        if self.then is None:
            for job in (self, self.hurried):
                if job is not None and not job.done.is_set():
                    job.code = code
                    job.begun.set()
                    job.done.set()
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
        self.begun.set()
        self.done.set()


class Pool:
    """At most `size` worker processes. keeps_free: of many, some for what will be needed."""

    def __init__(self, size: int, *, keeps_free: bool = True):
        self.size, self._keeps_free = size, keeps_free
        self._lock = fork.new_reentrant_lock()
        self._waiters: list[threading.Condition] = []  # one of each thread without a job
        self._waiting: collections.OrderedDict[str, Job] = collections.OrderedDict()
        self._later: collections.OrderedDict[str, Job] = collections.OrderedDict()
        self._jobs: dict[str, Job] = {}  # those that workers have begun, or done
        self._threads = self._idle = self._busy = 0
        self._busy_later = 0  # of the busy ones: those with what may be needed later
        self._family = ""  # of the kernel that was submitted last, and not for later

    def submit(
        self,
        key: str,
        message: bytes,
        then: Callable[[bytes], object] | None = None,
        *,
        needed: bool = False,
        later: bool = False,
    ) -> Job:
        """Queue a kernel, unless it is already here. then: is called with the answer, in a thread
        of the pool. needed: somebody waits, so that no worker stays free; later: after all that is
        not."""
        family = portable.family(message)
        with self._lock:
            if not later:
                self._family = family or self._family
            job = self._jobs.get(key) or self._waiting.get(key)
            if needed and job is not None and job.is_later and not job.done.is_set():
                job = self._hurried(job, message)
            if job is None and (job := self._later.get(key)) is not None:
                if not later:
                    self._waiting[key] = self._later.pop(key)
                    job.message, job.is_later = message, False
            elif job is None:
                job = Job(key, message, then)
                job.is_later, job.family = later, family
                (self._later if later else self._waiting)[key] = job
                self._call_worker()
            job.is_needed = job.is_needed or needed
        return job

    def _hurried(self, job: Job, message: bytes) -> Job:
        """The same job for another worker: this one is under way at the least priority, which no
        process can raise. Both are done when one is."""
        job.hurried = self._waiting[job.key] = Job(job.key, message)
        del self._jobs[job.key]
        self._call_worker()
        return job.hurried

    def _call_worker(self) -> None:
        """One more job is queued: start a worker if too few are idle, or wake one."""
        queued = len(self._waiting) + len(self._later)
        if self._idle < queued and self._threads < self.size:
            self._threads += 1
            thread = threading.Thread(target=self._work, daemon=True)
            thread.name = "cudamath compiler"
            thread.start()
        self._wake()

    def need(self, key: str, message: bytes) -> bytes | None:
        """The machine code of a kernel that is needed now, by the next free worker; None if none
        begins in time, or if it failed."""
        job = self.submit(key, message, needed=True)
        with self._lock:
            if key in self._waiting:
                self._waiting.move_to_end(key, last=False)
                self._wake()
        job.begun.wait(PATIENCE)
        return self.take(key)

    def take(self, key: str) -> bytes | None:
        """The machine code of a kernel that was submitted: waits for a worker that has begun. None
        if none has, or if it failed; then the kernel is forgotten here."""
        with self._lock:
            waiting = self._waiting.pop(key, None) or self._later.pop(key, None)
            if waiting is not None:
                return waiting.code
            job = self._jobs.pop(key, None)
        if job is None:
            return None
        job.done.wait(HANGS)
        return job.code

    def _work(self) -> None:
        """One worker after another, and the thread that gives them jobs. A worker that breaks off
        loses its job and is replaced; one that does not begin is the last."""
        while self._serve():
            pass
        with self._lock:
            self.size -= 1
            self._threads -= 1
            lost: list[Job] = []
            if self._threads == 0:
                lost = [*self._waiting.values(), *self._later.values()]
                self._waiting.clear(), self._later.clear()
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
                self._is_free(job)
        except OSError:  # a broken pipe
            pass
        finally:
            process.kill()
            process.wait()
        if job is not None:
            job.fail("the worker ended")
            self._is_free(job)
        return job is not None

    def _wake(self) -> None:
        """Let the worker that was busy last look for a job: its memory is its own already, and in
        the caches."""
        if self._waiters:
            self._waiters.pop().notify()

    def _next(self) -> Job:
        changed = threading.Condition(self._lock)
        with self._lock:
            self._idle += 1
            while (queue := self._queue()) is None:
                self._waiters.append(changed)
                changed.wait()
            self._idle -= 1
            key = self._first(queue)
            job = queue.pop(key)
            self._busy += 1
            self._busy_later += job.is_later
            self._jobs[key] = job
            job.begun.set()
            return job

    def _queue(self) -> collections.OrderedDict[str, Job] | None:
        """Whence one more worker may take a job; None if it is to stay free."""
        if self._waiting:
            keeps_free = self._keeps_free and self.size >= MANY
            needed = next(iter(self._waiting.values())).is_needed
            has_room = not keeps_free or self.size - self._busy > FREE_OF_SOON
            return self._waiting if needed or has_room else None
        alone = self._busy == self._busy_later < max(1, self.size // 2)
        return self._later if self._later and alone else None

    def _first(self, queue: collections.OrderedDict[str, Job]) -> str:
        """The key of the job whose turn it is."""
        first = next(iter(queue))
        if queue is self._later:
            return next((k for k, job in queue.items() if job.family == self._family), first)
        return first

    def _is_free(self, job: Job) -> None:
        """A worker has done this job."""
        with self._lock:
            self._busy -= 1
            self._busy_later -= job.is_later
            self._wake()


def finished(jobs: list[Job]) -> Iterator[Job]:
    """Each job when it is done."""
    left = list(jobs)
    while left:
        left[0].done.wait(0.05)
        done = [job for job in left if job.done.is_set()]
        left = [job for job in left if not job.done.is_set()]
        yield from done


def prepare() -> None:
    """Start the origin, if there may be workers: it needs a second or two to import."""
    if pool().size:
        from . import origin  # needed only where something is compiled

        origin.prepare()


def _started() -> Any:
    """A worker process, None if none can be made."""
    from . import origin  # see above

    return origin.worker()


#: Bytes of memory that there must be for each worker.
MEMORY = 512 << 20


def _size() -> int:
    chosen = os.environ.get("CUDAMATH_COMPILE_WORKERS", "")
    if chosen:
        return max(0, int(chosen)) if chosen.isdecimal() else 0
    room = host.memory()
    most = min(16, host.cores()) - 1
    return most if room is None else min(most, room // MEMORY)


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
