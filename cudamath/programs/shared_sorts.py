"""Sums by one index, which is sorted once.

Rows are added by an index in a fixed order: the index is sorted, and each row of the result adds
what belongs to it (kernels/index/scatter_add_sorted.py). A graph network adds by the same two
indices in each layer, forward and backward; the sort is the same each time. So it becomes a node of
its own. The sums keep the bits that they have where each is sorted for; one alone that would be
added in another way is sorted for, too, where that is faster for all of them.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch.lazy_import import lazy
from ..core.dispatch.op import registry
from .doors import Users
from .program import RESULT, Block, Node, Program, View
from .simplify import without_unused

LEAST = 2  # sums by one index


def shared_sorts(program: Program) -> Program:
    """The program in which an index is sorted once for all sums by it."""
    users = Users(program)
    groups: dict[tuple[View, int], list[tuple[int, View]]] = {}
    for k, node in enumerate(program.nodes):
        found = _sum(program, users, node)
        if found is not None:
            index, g, rows = found
            groups.setdefault((index, rows), []).append((k, g))
    nodes = [[node] for node in program.nodes]
    count = 0
    for (index, rows), able in groups.items():
        sums = [(k, g) for k, g in able if _sorts(program.nodes[k], index, g, rows, len(able))]
        if len(sums) < LEAST:
            continue
        layouts = lazy("kernels", "index.scatter_add_sorted.sorted_layouts")(
            index.layout.size, rows, index.layout.device
        )
        made = tuple([Block(RESULT, layout, i) for i, layout in enumerate(layouts)])
        keys = [View(block, block.layout, 0) for block in made]
        for k, g in sums:
            (block,) = program.nodes[k].results
            params = {"shape": block.layout.shape}
            nodes[k] = [_node("index_add (sums)", (g, *keys), params, (block,), program.nodes[k])]
        first = sums[0][0]
        nodes[first].insert(
            0, _node("index_add (places)", (index,), {"rows": rows}, made, program.nodes[first])
        )
        count += len(sums)
    if not count:
        return program
    out = Program(
        program.arguments, [n for each in nodes for n in each], program.results, program.device
    )
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out = without_unused(out)
    out.notes.append(f"sorts: {count} sums by an index share its sort")
    return out


def _sum(program: Program, users: Users, node: Node) -> tuple[View, View, int] | None:
    """(index, rows that are added, number of rows of the result) of a node that adds to zeros; None
    for others."""
    if node.params.get("axis") != 0 or len(node.results) != 1:
        return None
    if node.name == "index_grad" and len(node.views) == 2:
        g, index = node.views
    elif node.name == "index_add" and _is_zero(program, users, node.views[0]):
        _, index, g = node.views
    else:
        return None
    out = node.results[0].layout
    if not out.contiguous or not out.size or not index.layout.size or index.layout.ndim != 1:
        return None
    if index.layout.size != g.layout.shape[0] or users.written.get(index.block.group):
        return None
    return index, g, out.shape[0]


def _sorts(node: Node, index: View, g: View, rows: int, sums: int) -> bool:
    """Whether a node sorts for its sum, or would if so many sums shared the sort."""
    sorts: Any = lazy("kernels", "index.dispatch.sorts")
    shape = (rows, *g.layout.shape[1:])
    return sorts(node.name, g.layout, index.layout, shape=shape, sums=sums)


def _is_zero(program: Program, users: Users, view: View) -> bool:
    """Whether an array was filled with zeros, and is not written."""
    made = users.made.get(view.block)
    if made is None or users.written.get(view.block.group):
        return False
    node = program.nodes[made]
    return node.name == "full" and tuple(node.scalars) == (0, 0)


def _node(
    name: str, operands: tuple[View, ...], params: dict, results: tuple[Block, ...], of: Node
) -> Node:
    """A node of an op in the place of another one."""
    op: Any = registry[name]
    layouts = tuple([x.layout for x in operands])
    run = op.bound_once(layouts, params, 0, results[0].layout.device)
    return Node(op, operands, (), params, run, results, len(results) > 1, line=of.line)
