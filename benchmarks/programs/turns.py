"""Processes that share a GPU: while one measures, the others stand still.

What takes long before a measurement (imports, traces, compilation) runs beside that of others. A
process that is about to measure writes a byte, and reads one when its turn has come; its last byte
says that it has measured.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

REST = 0.05  # seconds in which a GPU ends what processes had queued before they were stopped
APART = 2  # cores that are kept for who measures: its own thread, and one that it may start


@contextlib.contextmanager
def alone(turn: str | None) -> Iterator[None]:
    """In a process of a benchmark: nobody else uses the GPU meanwhile. turn: the descriptors to
    read from and to write to, with a comma between; None: there are no others."""
    if turn is None:
        yield
        return
    hears, tells = map(int, turn.split(","))
    os.write(tells, b"?")
    os.read(hears, 1)
    try:
        yield
    finally:
        os.write(tells, b".")


class Gpu:
    """A GPU and the processes that use it.

    Parameters
    ----------
    cores : sequence of int, default ()
        Those of the host that its processes use. Who measures has some for itself. By default the
        system chooses.
    """

    def __init__(self, cores: Sequence[int] = ()):
        self.apart = cores[:APART] if len(cores) > 2 * APART else ()
        self.shared = cores[len(self.apart) :]
        self._pauses: list[tuple[float, float]] = []
        self._turn = threading.Lock()  # held while one measures, or is started
        self._running: set[int] = set()
        self._stopped = False

    def paused(self, begun: float, ended: float) -> float:
        """For how long, between two times of `time.perf_counter`, a process stood still that did
        not measure."""
        return sum([max(0.0, min(b, ended) - max(a, begun)) for a, b in self._pauses])

    def run(
        self, command: list[str], env: dict[str, str], log: pathlib.Path, until: float
    ) -> int | None:
        """The exit status of a process.

        Parameters
        ----------
        command : list of str
            It gets `--turn` and its descriptors as further arguments.
        env : dict
            The environment.
        log : Path
            The file of what it prints.
        until : float
            When it is stopped, by `time.monotonic`; the status is None then.
        """
        hears, answers = os.pipe()
        heard, tells = os.pipe()
        try:
            with self._turn, log.open("w") as file:
                child = subprocess.Popen(
                    [*command, "--turn", f"{hears},{tells}"],
                    env=env,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    pass_fds=(hears, tells),
                    start_new_session=True,
                )
                self._running.add(child.pid)
                if self._stopped:  # between the file and now
                    _signal({child.pid}, signal.SIGKILL)
                _keep_on(child.pid, self.shared)
            try:
                while _said(child, heard, until) == b"?":
                    with self._alone(child.pid):
                        os.write(answers, b"!")
                        _said(child, heard, until)
                return child.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                return None
            finally:
                if child.poll() is None:
                    _signal({child.pid}, signal.SIGKILL)
                    child.wait()
                self._running.discard(child.pid)
        finally:
            for descriptor in (hears, answers, heard, tells):
                os.close(descriptor)

    def stop(self) -> None:
        """End the processes that use it, and those that begin."""
        self._stopped = True
        _signal(set(self._running), signal.SIGKILL)

    @contextlib.contextmanager
    def _alone(self, pid: int) -> Iterator[None]:
        """A process has the GPU, and its own cores, for itself."""
        with self._turn:
            others, begun = self._running - {pid}, time.perf_counter()
            _signal(others, signal.SIGSTOP)
            _keep_on(pid, self.apart)
            try:
                time.sleep(REST if others else 0.0)
                yield
            finally:
                _keep_on(pid, self.shared)
                _signal(others, signal.SIGCONT)
                self._pauses.append((begun, time.perf_counter()))


def _said(child: subprocess.Popen, heard: int, until: float) -> bytes:
    """The next byte of a process; none at its end. TimeoutExpired when time is up."""
    while time.monotonic() < until:
        ended = child.poll() is not None
        if select.select([heard], [], [], 0.0 if ended else 0.1)[0]:
            return os.read(heard, 1)
        if ended:
            return b""
    raise subprocess.TimeoutExpired(child.args, 0.0)


def _signal(groups: set[int], number: int) -> None:
    """Send a signal to groups of processes, those that have not ended."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def _keep_on(pid: int, cores: Sequence[int]) -> None:
    """Keep all threads of a process on these cores; () leaves them where they are."""
    if cores:
        with contextlib.suppress(OSError):  # it ends
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), cores)


def shares(parts: int) -> list[list[int]]:
    """The cores of this process in so many parts of neighbours; empty ones where cores cannot be
    chosen, or are too few."""
    known = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    size = len(known) // parts
    return [known[i * size : (i + 1) * size] for i in range(parts)]
