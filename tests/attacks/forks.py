"""A fork beside threads that are computing: the child computes too, and does not hang."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import warnings

import numpy as np

import cudamath as cm

SECONDS = 20  # for a child, which needs a few milliseconds


LARGE = cm.asarray(np.ones((300, 400)), device="cpu")


def turn(n, rng):
    """Work that takes every lock: new shapes, gradients, draws, large arrays on several threads."""
    x = cm.zeros(n % 3000 + 1, device="cpu")
    cm.linalg.vector_norm(x)
    cm.grad(lambda x: (x * x).sum())(x)
    rng.normal(size=n % 7)
    return LARGE + LARGE


def busy(stopped, sizes, rng):
    while not stopped.is_set():
        turn(next(sizes), rng)


def child():
    """The same in the child; 0 if it is right."""
    signal.alarm(SECONDS)
    x = cm.asarray([1.0, 2.0], device="cpu")
    right = cm.grad(lambda x: (x * x).sum())(x).tolist() == [2, 4]
    large = cm.asarray(np.ones((401, 300)))
    right &= (large + large).sum().item() == 240_600
    right &= cm.random.default_rng(0).normal(size=3).shape == (3,)
    x[0] = 5
    return 0 if right and x.tolist() == [5, 2] else 3


def attack(under):
    stopped, sizes, rng = threading.Event(), itertools.count(), cm.random.default_rng(0)
    threads = [
        threading.Thread(target=busy, args=(stopped, sizes, rng), daemon=True) for _ in range(3)
    ]
    with cm.device("cpu"):
        if child():
            under.violation("what children compute is wrong in their parent, too")
        signal.alarm(0)
        turn(next(sizes), rng)  # compilers are done
        for thread in threads:
            thread.start()
        try:
            while under.goes_on:
                time.sleep(under.chance.uniform(0, 0.01))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
                    number = os.fork()
                if not number:
                    status = 4
                    try:
                        status = child()
                    finally:
                        os._exit(status)
                under.tried += 1
                status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
                if status:
                    under.violation(f"a child ends with {status}")
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
