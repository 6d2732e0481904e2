"""The origin of workers: a process that has imported the compilers, and forks a worker whenever one
is asked for (worker.py is what they run).

Where processes cannot fork, each worker is a process that imports the compilers itself.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

from ...runtime import fork

ROOT = str(pathlib.Path(__file__).parents[3])
#: A worker's program. The folder of this package comes last: it may be the user's, and their files
#: may have the names of other modules.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    f"import runpy; runpy.run_module({__package__ + '.worker'!r}, run_name='__main__')"
)


class Worker:
    """This end of a fork of the origin."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self.stdin, self.stdout = connection.makefile("wb"), connection.makefile("rb")

    def kill(self) -> None:
        """Let it end: it finds nobody there."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def wait(self) -> None:
        """Its parent does."""
        with contextlib.suppress(OSError):
            self.stdin.close(), self.stdout.close(), self._connection.close()


class Origin:
    """The process, and the connection on which it is asked for workers. It ends with that."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            self.process = _python(str(number), pass_fds=[number])

    def worker(self) -> Worker:
        """A new worker. It says when it is ready."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"worker"], [theirs.fileno()])
        return Worker(ours)

    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    def end(self) -> None:
        """End it, and wait for that."""
        self._control.close()
        self.process.kill()
        self.process.wait()


def _python(*arguments: str, **options: Any) -> Any:
    """A process that runs worker.py."""
    environment = {**os.environ, "CUDAMATH_COMPILE_WORKERS": "0", "CUDAMATH_COMPILE_NOTICE": "0"}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # no threads at a fork
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | options
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, ROOT, *arguments],
        stderr=subprocess.DEVNULL,
        env=environment,
        **options,
    )


_lock = fork.new_lock()
_origin: Origin | None = None


def current() -> Origin | None:
    """The origin of this process, started if need be; None where processes cannot fork."""
    global _origin
    if not hasattr(os, "fork") or not hasattr(socket, "send_fds"):
        return None
    with _lock:
        if _origin is None or not _origin.is_alive():
            _origin = Origin()
        return _origin


def prepare() -> None:
    """Start the origin, if that can be done."""
    with contextlib.suppress(OSError):
        current()


def worker() -> Any:
    """A worker process with `stdin` and `stdout`; None if none can be made."""
    try:
        if (origin := current()) is not None:
            return origin.worker()
        return _python(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError:  # no Python at that place, no room for another process
        return None


@fork.in_child
def _forget() -> None:
    """It belongs to the process that started it."""
    global _origin
    _origin = None
