"""Results in the memory of an operand that nobody reads afterwards.

The logits of a language model are its largest array, and their gradient is as large; both would be
there at the peak. The kernel reads each logit as it writes its gradient, so this may lie in its
place (`over` of an op).
"""

from __future__ import annotations

from .doors import Users
from .program import RESULT, Block, Node, Program, View
from .simplify import edited


def in_place(program: Program) -> Program:
    """The program in which ops write their results over an operand where its op allows it, and the
    program needs it no longer."""
    users, nodes = Users(program), list(program.nodes)
    replaced: dict[Block, View] = {}
    for k, node in enumerate(program.nodes):
        view = _free(node, k, users)
        if view is None:
            continue
        (block,) = node.results
        layouts = [x.layout for x in node.views]
        run = node.op.bound_into(block.layout, layouts, node.params)
        if run is None:
            continue
        operands, written = (*node.operands, view), (len(node.operands),)
        nodes[k] = Node(node.op, operands, (), node.params, run, (), False, written, line=node.line)
        replaced[block] = view
    if not replaced:
        return program
    program.notes.append(f"in place: {len(replaced)} results lie where an operand lay")
    return edited(program, nodes, replaced)


def _free(node: Node, k: int, users: Users) -> View | None:
    """The operand in whose memory the result of node k may lie."""
    over = getattr(node.op, "over", None)
    plain = len(node.results) == 1 and not node.targets and node.draw is None and not node.scalars
    if over is None or not plain or len(node.views) != len(node.operands):
        return None
    view, (block,) = node.views[over], node.results
    base = view.block
    whole = base.layout.contiguous and not view.offset and base.layout.nbytes == block.layout.nbytes
    last = sum([x.block is base for x in node.views]) == 1 and {*users.of[base]} <= {*range(k + 1)}
    if base.kind != RESULT or view.layout is not block.layout or not whole or not last:
        return None
    return view
