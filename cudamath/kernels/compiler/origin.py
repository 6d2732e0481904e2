"""The origin of workers: a process that has imported the compilers, and forks a worker whenever one
is asked for (worker.py is what they run).

Where processes cannot fork, each worker is a process that imports the compilers itself.

The origin leads a session of its own: Ctrl-C in a terminal does not reach it, and when the process
that started it ends, in whatever way, it takes along all its workers, those that hang too. A fork
of that process closes its ends of all connections. Where `sys.executable` is no Python (a frozen
program, a host that embeds Python), nothing is started: it would be that program again.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import weakref
from typing import Any

from ...runtime import fork

ROOT = str(pathlib.Path(__file__).parents[3])
#: A worker's program. The folder of this package comes last: it may be the user's, and their files
#: may have the names of other modules.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    f"import runpy; runpy.run_module({__package__ + '.worker'!r}, run_name='__main__')"
)


#: This process' ends of connections.
_connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class Worker:
    """This end of a fork of the origin."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        _connections.add(connection)
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
        _connections.add(self._control)
        with theirs:
            number = theirs.fileno()
            self.process = _python(str(number), pass_fds=[number], start_new_session=True)

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
        """End it and its workers, and wait for it."""
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
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


def _can_start() -> bool:
    """Whether `sys.executable` is a Python."""
    name = os.path.basename(sys.executable or "")
    return re.match("(python|pypy)", name, re.IGNORECASE) is not None and not hasattr(sys, "frozen")


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
    if _can_start():
        with contextlib.suppress(OSError):
            current()


def worker() -> Any:
    """A worker process with `stdin` and `stdout`; None if none can be made."""
    if not _can_start():
        return None
    try:
        if (origin := current()) is not None:
            return origin.worker()
        return _python(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError:  # no Python at that place, no room for another process
        return None


@fork.in_child
def _forget() -> None:
    """It belongs to the process that started it, and ends with that process alone: this one
    must not hold the connections open."""
    global _origin
    _origin = None
    for connection in list(_connections):
        if (number := connection.detach()) >= 0:
            with contextlib.suppress(OSError):
                os.close(number)
    _connections.clear()
