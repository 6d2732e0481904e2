"""Gradients that an optimizer takes as they are: its kernel reads 16-bit ones and computes in
float32, so that a cast of each before is a pass over memory for nothing."""

from __future__ import annotations

from .doors import Users, rebound
from .program import Program, View
from .simplify import CASTS, holds

UPDATES = (
    "sgd_update",
    "sgd_update (momentum)",
    "adam_update",
    "rmsprop_update",
    "lion_update",
)


def without_casts(program: Program) -> Program:
    """The program in which optimizers read gradients before they are cast to a wider dtype."""
    users = Users(program)
    dropped: set[int] = set()
    nodes = list(program.nodes)
    for k, node in enumerate(program.nodes):
        if node.name not in UPDATES:
            continue
        operands = list(node.operands)
        count = len(operands) - (node.params["form"].extra if "form" in node.params else 0)
        for i in range(count):
            source = None if i in node.written else _cast(program, users, operands[i], k)
            if source is not None:
                dropped.add(users.made[operands[i].block])
                operands[i] = source
        if operands != list(node.operands):
            nodes[k] = rebound(node, operands, node.results, program.device)
    if not dropped:
        return program
    nodes = [node for k, node in enumerate(nodes) if k not in dropped]
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out.notes.append(f"optimizer: it reads {len(dropped)} gradients before they are cast")
    return out


def _cast(program: Program, users: Users, view: View, k: int) -> View | None:
    """What was cast to this operand of node k, which alone uses the cast; None if it is no cast."""
    at = users.made.get(view.block)
    if at is None or not view.whole or users.only(view.block) != k:
        return None
    node = program.nodes[at]
    if node.name not in CASTS or len(node.views) != 1:
        return None
    (source,) = node.views
    wide, narrow = view.layout, source.layout
    if not holds(wide.dtype, narrow.dtype) or wide.itemsize != 4 or narrow.itemsize != 2:
        return None
    steps = [stride * 2 for stride in narrow.strides]
    if steps != list(wide.strides) or users.changes(source, at, k):
        return None
    return source
