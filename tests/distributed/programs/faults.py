"""What befalls process 1 is told to the others: python -m cudamath launch -n 3 faults.py killed"""

import os
import signal
import sys
import time

import cudamath as cm
from cudamath import distributed as d

how, rank = sys.argv[1], d.rank()
d.use_own_device()


def befall() -> None:
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "memory":
        raise MemoryError("no room for 8 GiB")
    if how == "ends":
        sys.exit()


if rank == 1:
    float(d.all_reduce(cm.ones(3))[0])
    befall()
begun = time.monotonic()
try:
    if rank != 1:  # one of them may hear of it while it is still at the first
        float(d.all_reduce(cm.ones(3))[0])
        begun = time.monotonic()
    float(d.all_reduce(cm.ones(3 + (how == "shape" and rank == 1)))[0])  # waits for a GPU
except Exception as problem:
    seconds = time.monotonic() - begun
    words = type(problem).__name__, getattr(problem, "rank", "-"), seconds < 6, problem
    sys.stdout.write(" ".join(map(str, words)) + "\n")  # in one piece
    sys.stdout.flush()
    sys.exit(3)
