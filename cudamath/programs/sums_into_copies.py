"""Sums by an index into a copy, or into a new array that is filled: one operation, not a write.

`zeros.at[index].add(rows)` copies the zeros and adds in place, and so do those who call
`cm.add_at(zeros, index, rows)`. What writes in place is met by no other pass. As `index_add`, which
makes a result of its own, it needs no copy, and shares the sort of its index with other sums
(shared_sorts.py).
"""

from __future__ import annotations

from .doors import Users, in_place_of, rebound
from .program import RESULT, Block, Node, Program, View


def sums_into_copies(program: Program) -> Program:
    """The program in which no `add_at` writes where a sum of its own would do."""
    users = Users(program)
    nodes: list[Node | None] = list(program.nodes)
    count = 0
    for k, node in enumerate(program.nodes):
        made = _begun(program, users, k)
        if made is None:
            continue
        target, values, index = node.views
        before = program.nodes[made]
        if before.name == "copy":
            (x,), nodes[made] = before.views, None
        else:  # the same filled array, which is not written
            block = Block(RESULT, target.block.layout)
            x = View(block, block.layout, 0)
            nodes[made] = rebound(before, list(before.operands), (block,), program.device)
        params = {"axis": node.params["axis"]}
        nodes[k] = in_place_of("index_add", (x, index, values), params, (target.block,), node)
        count += 1
    if not count:
        return program
    kept = [node for node in nodes if node is not None]
    out = Program(program.arguments, kept, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out.notes.append(f"sums: {count} by an index write into no copy")
    return out


def _begun(program: Program, users: Users, k: int) -> int | None:
    """The number of the node that makes what node k alone adds to, before others see it; None for
    any other node."""
    node = program.nodes[k]
    if node.name != "add_at" or len(node.views) != 3 or node.params["kind"] != "add":
        return None
    target, values, index = node.views
    block, axis = target.block, node.params["axis"]
    made = users.made.get(block)
    if made is None or not target.whole or not target.layout.contiguous or index.layout.ndim != 1:
        return None
    shape = target.layout.shape
    shape = (*shape[:axis], index.layout.size, *shape[axis + 1 :])
    if values.layout.shape != shape or values.layout.dtype != target.layout.dtype:
        return None
    if users.written[block.group] != [k] or block in (values.block, index.block):
        return None
    if any([0 <= user < k for user in users.of[block]]):
        return None
    before = program.nodes[made]
    if before.name == "full" and not before.views:
        return made
    if before.name != "copy":
        return None
    (x,) = before.views
    same = x.layout.contiguous and x.layout.shape == target.layout.shape
    return made if same and not users.changes(x, made, k) else None
