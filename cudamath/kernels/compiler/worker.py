"""A process that compiles kernels for another one: `python -m cudamath.kernels.compiler.worker`.

It reads jobs and answers them, each with its length before it, until the other side ends. It
imports this package and the compilers, and nothing of the user's. What it compiles goes into the
cache on disk, under the key that the other process names. Where processes can fork, this one does
not work itself: it imports, and forks workers (origin.py).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from ...core.layout import Layout
from ...runtime import cubin_cache, rehearsal
from ...runtime.device import assume
from ...runtime.interrupts import context_manager
from . import compile as compiler
from . import gradients, kernel_list, portable, storage_types
from .lazy_numba import cuda, numba_cuda
from .worker_pool import read, write


def machine_code(job: bytes) -> bytes:
    """The machine code that a job describes, or the kernels of a gradient, as messages: b"+" and
    the answer, or b"-" and what went wrong."""
    try:
        content = portable.loads(job)
        if content[0] == "later":
            return at_least_priority(content[1])
        if content[0] == "gradient":
            return b"+" + portable.dumps(gradients.messages(*content[1:]))
        if content[0] == "common":
            return b"+" + portable.dumps(common_messages(*content[1:]))
        key, kernel, signature, cc, seen = content
        if compiler.cache_key(kernel, signature, cc, seen) != key:
            raise RuntimeError("the sources have changed since the other process read them")
        arguments = storage_types.arguments_type(signature, seen)
        return b"+" + cubin_cache.cached_cubin(
            key, lambda: compiler.compile_now(kernel, arguments, cc)[0]
        )
    except Exception as error:  # whatever it is, the other process compiles the kernel itself
        return b"-" + f"{type(error).__name__}: {error}".encode()


def common_messages(
    most: int, capability: tuple[int, int], device: str, libraries: tuple[str, ...]
) -> list[tuple[str, bytes]]:
    """(key, message to a worker) of the first kernels that most programs need there."""
    importlib.import_module(__package__.partition(".")[0])  # which makes all ops
    found: dict[str, bytes] = {}
    with assume(capability, name=device), rehearsal.libraries(*libraries):
        for call in kernel_list.calls(path=kernel_list.COMMON):
            if len(found) >= most:
                break
            with contextlib.suppress(Exception):  # a planner that does not take the call any more
                for each in kernel_list.launches(call, call.plan()):
                    key, message = compiler.message_of(*each, capability)
                    found.setdefault(key, portable.dumps(("later", message)))
    return list(found.items())


def at_least_priority(job: bytes) -> bytes:
    """The answer to a job that nobody waits for, by a fork: no process can raise its priority."""
    if not hasattr(os, "fork"):
        return machine_code(job)
    ours, theirs = os.pipe()
    number = os.fork()
    if number == 0:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, 19)
            with os.fdopen(theirs, "wb") as file:
                file.write(machine_code(job))
        finally:  # whatever happened: the code of the worker is not this process'
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        answered = file.read()
    os.waitpid(number, 0)
    return answered or b"-the fork ended"


def answer(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer jobs until there are none. Garbage is collected when an answer is out."""
    gc.disable()
    write(answers, b"ready")
    while (job := read(jobs)) is not None:
        write(answers, machine_code(job))
        gc.collect()


def fork_workers(control: socket.socket) -> None:
    """Fork a worker for each connection that comes, until the other process ends. A connection for
    which there can be no process is closed, which tells the other side."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        message, connections, *_ = socket.recv_fds(control, 64, 1)
        if not message:
            return
        for each in connections:  # none, if this process may have no more files
            with contextlib.suppress(OSError):  # no more processes
                if os.fork() == 0:
                    _work(control, each)
            os.close(each)


def _work(control: socket.socket, number: int) -> None:
    """What a fork does, up to its end."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        with socket.socket(fileno=number) as connection:
            answer(connection.makefile("rb"), connection.makefile("wb"))
    finally:  # whatever happened: the code of the origin is not this process'
        os._exit(0)


def end_session() -> None:
    """End this process and its workers, those that hang or were stopped too, if they are a session
    of their own."""
    if os.getsid(0) == os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


def warm_up() -> None:
    """Import what compilations need, and fill the compilers' tables by a first one, down to machine
    code. What is there then is shared."""
    importlib.import_module(__package__.partition(".")[0])
    with without("scipy"):  # a tenth of all, for products of matrices that no kernel has
        numba_cuda()
        gc.freeze()  # the compiler looks for device functions among all objects: there are none

        @cuda.jit
        def first(x):  # type: ignore[no-untyped-def]
            """x: (n,)."""
            i = cuda.grid(1)
            if i < x.size:
                x[i] = x[i] + x[i]

        arguments = storage_types.arguments_type([Layout.new((1,), np.dtype(np.float32), 0)])
        compiler.compile_now(first, arguments, (8, 0))
    gc.freeze()


@context_manager
def without(package: str) -> Iterator[None]:
    """A context in which a package that has not been imported counts as not installed."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


def main() -> None:
    """Fork workers that answer on the connections which come through the socket of this number;
    or, where no process can fork, answer on stdout what comes on stdin."""
    gc.disable()  # imports leave little of it; `answer` collects
    if len(sys.argv) > 2:
        with contextlib.suppress(Exception):  # a worker that does not compile says why
            warm_up()
        try:
            fork_workers(socket.socket(fileno=int(sys.argv[2])))
        finally:
            end_session()
        return
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed here
    answer(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
