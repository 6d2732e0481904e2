"""The memory of a program: how long each block lives, and which blocks share memory.

The pool gives the blocks of a size to one array after the other, the one that became free last
first (runtime/memory.py), and the program drops an array after its last use (run.py). So what the
pool will do is known beforehand: this file does it on paper.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from ..runtime.memory import rounded
from .program import RESULT, Block, Node, Program


class Lifetime(NamedTuple):
    """The numbers of the node that makes a block and of the last one that uses it; the latter is
    the number of nodes for a result of the program."""

    first: int
    last: int


class MemoryPlan(NamedTuple):
    """Where the blocks that the nodes make lie.

    Attributes
    ----------
    lifetimes : dict
        Block -> Lifetime.
    offsets : dict
        Block -> offset in bytes in the memory of the program.
    total : int
        Bytes of that memory: what the program holds at most, without scratch arrays of kernels.
    peak : int
        Bytes of the blocks that live at one time, at most.
    """

    lifetimes: dict[Block, Lifetime]
    offsets: dict[Block, int]
    total: int
    peak: int


def lifetimes(program: Program) -> dict[Block, Lifetime]:
    """From when until when each block that a node makes is used."""
    out: dict[Block, Lifetime] = {}
    for k, node in enumerate(program.nodes):
        for block in node.results:
            out[block] = Lifetime(k, k)
        for view in node.views:
            if view.block in out:
                out[view.block] = Lifetime(out[view.block].first, k)
    for view in program.returned():
        if view.block in out:
            out[view.block] = Lifetime(out[view.block].first, len(program.nodes))
    return out


def in_use(program: Program, lives: dict[Block, Lifetime]) -> list[int]:
    """The bytes of blocks that live while each node runs."""
    count = len(program.nodes)
    change = [0] * (count + 1)
    for block, life in lives.items():
        size = rounded(block.layout.nbytes)
        change[life.first] += size
        change[min(life.last + 1, count)] -= size
    return list(itertools.accumulate(change[:count]))


def scratch(node: Node) -> int:
    """How many bytes a loop or a condition holds while it runs, at most."""
    programs = getattr(node.op, "programs", {})
    return max([memory_plan(program).total for program in programs.values()], default=0)


def memory_plan(program: Program) -> MemoryPlan:
    """The memory of a program.

    Parameters
    ----------
    program : Program
        What runs.

    Returns
    -------
    MemoryPlan
        Offsets in which no two blocks that live at the same time overlap.
    """
    lives = lifetimes(program)
    ending: dict[int, list[Block]] = {}
    for block, life in lives.items():
        ending.setdefault(life.last, []).append(block)
    free: dict[int, list[int]] = {}
    offsets: dict[Block, int] = {}
    total = live = peak = most = 0
    for k, node in enumerate(program.nodes):
        for block in node.results:
            assert block.kind == RESULT
            size = rounded(block.layout.nbytes)
            if free.get(size):
                offsets[block] = free[size].pop()
            else:
                offsets[block] = total
                total += size
            live += size
        peak = max(peak, live + scratch(node))
        most = max(most, scratch(node))
        for block in ending.get(k, ()):
            size = rounded(block.layout.nbytes)
            free.setdefault(size, []).append(offsets[block])
            live -= size
    return MemoryPlan(lives, offsets, total + most, peak)
