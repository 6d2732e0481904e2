"""What kernels that stream arrays do: threads that load, combine and store, as cycles of the
busiest multiprocessor (see prediction.py)."""

from __future__ import annotations

import math

from .integers import blocks
from .prediction import Machine, Work

RESIDENT = 2048  # threads of a multiprocessor
LANES = 128  # instructions of a multiprocessor in a cycle
LATENCY = 500  # cycles until a load arrives
WARP = 32
SECTOR = 32  # bytes that memory brings at least
SECTORS = 2  # that a multiprocessor gets in a cycle from the second-level cache


def streamed(
    machine: Machine,
    threads: float,
    loads: float,
    instructions: float,
    ahead: float = 4,
    end: float = 1000,
    resident: int = RESIDENT,
    sectors: float = 0,
    groups: float = math.inf,
) -> float:
    """Cycles of so many threads, each of which makes `loads` loads one after the other, `ahead` of
    them in flight, with so many instructions for each, and `end` cycles besides; a multiprocessor
    holds `resident` threads. sectors: that a warp's load touches; groups: blocks."""
    waves = blocks(max(int(threads), 1), machine.multiprocessors * resident)
    waiting = waves * (max(loads / ahead, 1) * LATENCY + end)
    each = threads * loads / min(machine.multiprocessors, groups)
    working, brought = each * instructions / LANES, each * sectors / (WARP * SECTORS)
    return max(waiting, working, brought)


def sized(work: Work, machine: Machine) -> Work:
    """The work as of a kind of its own where more is moved than the second-level cache holds:
    times of what it holds say little about memory."""
    return work._replace(rates=f"{work.rates} large") if work.moved > machine.cache else work


def sectors_of(run: float, nbytes: int) -> float:
    """Sectors that a warp's load of `nbytes` a thread touches, where `run` bytes follow each
    other."""
    whole = WARP * nbytes
    pieces = max(whole / max(run, 1), 1.0)
    return min(max(whole / SECTOR, pieces), WARP * max(nbytes / SECTOR, 1.0))
