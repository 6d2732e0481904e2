"""Sums that a normalisation over rows does in its own pass over memory.

Forward, `norm(x + r)` is one node that also returns the sum. Backward, the gradient of a norm and
the gradient that comes along the residual are added as the first is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .doors import Users, rebound
from .program import Block, Node, Program, View

#: Op -> the number of its residual, and of the result that is the sum.
FORWARD = {"rms_norm": 2, "layer_norm": 3}
#: Op -> the number of the operand that is added to its first result.
BACKWARD = {"rms_norm_grad": 4, "layer_norm_grad": 5}


class _Sum(NamedTuple):
    """A norm with the sum inside: where it stands, the node, and the number of the sum's node."""

    place: int
    node: Node
    addition: int


def with_residuals(program: Program, fusible: Callable[[Node], bool]) -> Program:
    """The program with such sums inside of norms.

    Parameters
    ----------
    program : Program
        What runs.
    fusible : callable
        Whether a node may be fused with its neighbours.

    Returns
    -------
    Program
        The program itself where there are none.
    """
    users = Users(program)
    replaced: dict[int, Node | None] = {}
    for k, node in enumerate(program.nodes):
        found = None
        if node.name in FORWARD:
            found = _after_sum(program, users, k, fusible)
        elif node.name in BACKWARD:
            found = _before_sum(program, users, k)
        if found is not None and found.addition not in replaced:
            replaced |= {k: None, found.addition: None}
            replaced[found.place] = found.node
    if not replaced:
        return program
    nodes = [replaced.get(k, node) for k, node in enumerate(program.nodes)]
    out = Program(
        program.arguments, [n for n in nodes if n is not None], program.results, program.device
    )
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out.notes.append(f"norms: {len(program.nodes) - len(out.nodes)} sums are part of one")
    return out


def _addition(node: Node, result: Block) -> bool:
    """Whether a node adds two arrays of the result's layout."""
    return (
        node.name == "add"
        and node.draw is None
        and len(node.views) == len(node.operands) == 2
        and all([view.layout is result.layout for view in node.views])
        and node.results[0].layout is result.layout
    )


def _after_sum(
    program: Program, users: Users, k: int, fusible: Callable[[Node], bool]
) -> _Sum | None:
    """The norm of node k with the sum that it normalises, which nobody uses before."""
    node = program.nodes[k]
    number, x = FORWARD[node.name], node.operands[0]
    at = users.made.get(x.block)
    if at is None or not x.whole or node.operands[number] is not None:
        return None
    addition = program.nodes[at]
    if len(node.results) != number or not _addition(addition, x.block):
        return None
    if min([k, *[user for user in users.of[x.block] if user >= 0]]) < k:
        return None
    for view in addition.views:
        before = users.made.get(view.block)
        alone = users.only(view.block) is not None
        if before is not None and alone and fusible(program.nodes[before]):
            return None  # it is fused with what comes before
        if users.changes(view, at, k):
            return None
    operands = list(node.operands)
    operands[0], operands[number] = addition.views
    return _Sum(k, rebound(node, operands, (*node.results, x.block), program.device), at)


def _before_sum(program: Program, users: Users, k: int) -> _Sum | None:
    """The gradient of node k with the sum of its first result, which nobody else uses."""
    node = program.nodes[k]
    number = BACKWARD[node.name]
    at = users.only(node.results[0])
    if at is None or node.operands[number] is not None:
        return None
    addition = program.nodes[at]
    if not _addition(addition, node.results[0]):
        return None
    (other, *_) = [view for view in addition.views if view.block is not node.results[0]]
    place = _place(node, other, users, k, at)
    if place is None:
        return None
    operands = list(node.operands)
    operands[number] = other
    results = (*addition.results, *node.results[1:])
    return _Sum(place, rebound(node, operands, results, program.device), at)


def _place(node: Node, other: View, users: Users, k: int, at: int) -> int | None:
    """Where node k can run together with the sum of node `at`: where either stands."""
    if users.made.get(other.block, -1) < k and not users.changes(other, k, at):
        return k
    later = [user for block in node.results[1:] for user in users.of.get(block, ()) if user >= 0]
    moves = not any([users.changes(view, k, at) for view in node.views])
    return at if moves and min([*later, at]) >= at else None
