"""Donation: results of a program in the memory of arguments that the caller does not use again.

A step that returns new parameters, `p = step(p, x)`, would leave them somewhere else at each call;
a CUDA graph, which reads its arguments where they were, would copy them in again. If the old
parameters are donated, the program ends by writing the new ones over them.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch.op import registry
from .program import RESULT, Node, Program, View


def donated(program: Program, positions: set[int], leaves: list[Any]) -> Program:
    """The program, which writes results into donated arguments of their layout.

    Parameters
    ----------
    program : Program
        What runs.
    positions : set of int
        The numbers of the donated arguments.
    leaves : list
        How the leaves of the results are made.

    Returns
    -------
    Program
        The program with a copy for each result that has found a place. On the CPU the program as it
        is: nothing would be gained there.
    """
    if program.device < 0 or not positions:
        return program
    op: Any = registry["copy_into"]
    used = {view.block.group for view in program.returned()} | program.written()
    free = [
        block
        for block in program.arguments
        if block.index in positions
        and block.group is block
        and block not in used
        and sum(other.group is block for other in program.arguments) == 1
        and block.layout.contiguous
    ]
    views = list(program.returned())
    nodes, results = list(program.nodes), list(program.results)
    for k, view in enumerate(results):
        if not isinstance(view, View) or not view.whole or view.block.kind != RESULT:
            continue
        if sum(other.block is view.block for other in views) > 1 or leaves[k].kind is not None:
            continue
        block = next((b for b in free if b.layout is view.layout), None)
        if block is None:
            continue
        free.remove(block)
        run = op.bound_once((block.layout, view.layout), {}, 0, program.device)
        target = View(block, block.layout, 0)
        nodes.append(Node(op, (target, view), (), {}, run, (), True, (0,), None, "its end"))
        results[k] = target
    if len(nodes) > len(program.nodes):
        count = len(nodes) - len(program.nodes)
        program.notes.append(f"donated: {count} results are written into arguments")
    out = Program(program.arguments, nodes, results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    return out
