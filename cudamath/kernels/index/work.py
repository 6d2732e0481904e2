"""What folding a few sources into their rows takes (scatter_add_few.py)."""

from __future__ import annotations

from ..lib.integers import blocks
from ..lib.prediction import Machine
from ..lib.streams import LATENCY
from .problem import ScatterAddProblem

BITS = 32  # of a word
# of a source: threads, and as many columns; of a row: sources whose values are on their way at once
LANES, AHEAD = 32, 8
LAUNCH = 3.0  # microseconds until a block has the list of destinations
# of a comparison, and of a source besides; those that a multiprocessor begins in a cycle
COMPARISON, BESIDES, SCHEDULERS = 24, 100, 4


def fold_microseconds(p: ScatterAddProblem) -> float:
    """The predicted time of ``fold_few``: each source is compared with each other once for LANES
    columns, and a row with half of the sources waits for them."""
    before, _, after = p.box.shape
    machine = Machine.of(p.x.device)
    warps = blocks(before * after, LANES) * p.m
    instructions = warps * (COMPARISON * BITS * blocks(p.m, BITS * LANES) + BESIDES)
    waiting = blocks(p.m, AHEAD) * LATENCY / 2
    cycles = instructions / (SCHEDULERS * machine.multiprocessors) + waiting
    return LAUNCH + 1e6 * cycles / machine.clock
