"""24 threads that call all functions with plans that are forgotten meanwhile: the same answers, bit
for bit, as of one thread."""

from __future__ import annotations

import sys
import threading
import time
import warnings

import numpy as np
from faults import forget_plans
from public_calls import calls, outputs

import cudamath as cm

THREADS = 24


def attack(under, most=None):
    """most: how many calls take part."""
    works = []
    chosen = calls()
    under.chance.shuffle(chosen)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for call in chosen[:most]:
            if works and time.monotonic() > under.end - under.seconds / 2:
                break  # of the time, half is for one thread
            try:
                work = call.prepare(under.device)
                works.append((call.name, work, [x.tobytes() for x in outputs(work())]))
            except Exception:
                continue  # wants another dtype
    counts, lock = [0] * THREADS, threading.Lock()
    orders = [under.chance.sample(works, len(works)) for _ in range(THREADS)]

    def work_through(k):
        with np.errstate(all="ignore"):
            while under.goes_on:
                for name, work, expected in orders[k]:
                    if not under.goes_on:
                        return
                    try:
                        got = [x.tobytes() for x in outputs(work())]
                        words = "" if got == expected else "another answer"
                    except Exception as error:
                        words = f"{type(error).__name__}: {error}"
                    counts[k] += 1
                    with lock:
                        under.tried += 1
                        if words:
                            under.violation(f"{name}: {words}")
                    if counts[k] % 50 == 0:
                        forget_plans()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with warnings.catch_warnings(), cm.device(under.device):
            warnings.simplefilter("ignore")
            threads = [threading.Thread(target=work_through, args=(k,)) for k in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
