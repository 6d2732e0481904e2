"""`python -m cudamath launch -n 4 program.py`: one program in several processes of this machine."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["add_command", "launch"]

_GRACE = 4.0  # seconds that the others have to end after one has failed
_TURN = 0.05


def add_command(commands: argparse._SubParsersAction) -> None:
    """Add `launch` to the command line."""
    start = commands.add_parser(
        "launch", help="run a program in several processes, one for each GPU of this machine"
    )
    start.add_argument(
        "-n", "--processes", type=int, help="how many (default: one for each GPU, at least one)"
    )
    start.add_argument("--port", type=int, default=0, help="where they meet (default: a free one)")
    start.add_argument("--timeout", type=float, help="seconds that they wait for each other")
    start.add_argument(
        "-m", "--module", action="store_true", help="PROGRAM is a module, as in python -m"
    )
    start.add_argument("program", metavar="PROGRAM", help="a Python file, or with -m a module")
    start.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="what it is given"
    )


def launch(
    count: int, command: Sequence[str], *, port: int = 0, timeout: float | None = None
) -> int:
    """Run a command in `count` processes that find each other by their environment.

    When one fails, the others have some seconds to say so and are ended then. They also end with
    this process, where a signal asks it to terminate.

    Returns
    -------
    int
        0, or the status of the process that failed first; 128 + N if signal N ended it.
    """
    if count < 1:
        raise ValueError(f"launch: wants at least 1 process, got {count}")
    shared = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port or _free_port()),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
    }
    shared.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    shared.pop("CUDAMATH_RENDEZVOUS", None)
    if timeout is not None:
        shared["CUDAMATH_DISTRIBUTED_TIMEOUT"] = repr(timeout)
    processes: list[subprocess.Popen] = []
    first = threading.current_thread() is threading.main_thread()  # which alone hears signals
    before = signal.signal(signal.SIGTERM, _terminated) if first else None
    try:
        for rank in range(count):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(command, env=shared | own))
        return _first_failure(processes)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        if first:
            signal.signal(signal.SIGTERM, before)


def _terminated(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def _first_failure(processes: list[subprocess.Popen]) -> int:
    """Wait for all, but after a failure only so long; the status."""
    status, ends = 0, float("inf")
    while any([process.poll() is None for process in processes]) and time.monotonic() < ends:
        time.sleep(_TURN)
        for rank, process in enumerate(processes):
            if process.returncode and not status:
                status, ends = _status(rank, process.returncode), time.monotonic() + _GRACE
    for rank, process in enumerate(processes):
        if process.returncode and not status:
            status = _status(rank, process.returncode)
    return status


def _status(rank: int, code: int) -> int:
    how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    print(f"cudamath: launch: rank {rank} ended {how}", file=sys.stderr)
    return 128 - code if code < 0 else code


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]
