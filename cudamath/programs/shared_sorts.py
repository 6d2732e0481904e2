"""Sums by one index, which is sorted once.

Rows are added by an index in a fixed order: the index is sorted, and each row of the result adds
what belongs to it (kernels/index/scatter_add_sorted.py). A graph network adds by the same two
indices in each layer, forward and backward; the sort is the same each time. So it becomes a node of
its own. The sums keep the bits that they have where each is sorted for; one alone that would be
added in another way is sorted for, too, where that is faster for all of them.

What a layer adds are mostly rows that the other index of the edges chose, perhaps each times a
weight. The sum reads them where they stand: the edges' rows are never written. Both the other index
and the weights are brought into the order of the sorted index, once. The products are not rounded
before they are added then, so only float32 and float64 are read so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.dispatch.lazy_import import lazy
from ..core.layout import Layout
from .doors import Users, in_place_of
from .program import RESULT, Block, Node, Program, View
from .simplify import without_unused

LEAST = 2  # sums by one index
EXACT = np.dtype(np.float32), np.dtype(np.float64)  # whose products are not rounded to fewer bits


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
    count = read = 0
    ordered: dict[tuple, View] = {}
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
            chosen = _chosen(program, users, g, k)
            if chosen is None:
                name, operands = "index_add (sums)", (g, *keys)
            else:
                read += 1
                name = "index_add (chosen sums)"
                operands = (chosen.table, keys[0], *_in_order(chosen, keys[1], ordered, nodes[k]))
            nodes[k][-1] = in_place_of(name, operands, params, (block,), program.nodes[k])
        first = sums[0][0]
        nodes[first].insert(
            0,
            in_place_of("index_add (places)", (index,), {"rows": rows}, made, program.nodes[first]),
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
    if read:
        out.notes.append(f"sorts: {read} of them read their rows where an index chooses them")
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


class _Chosen(NamedTuple):
    """Rows table[place], each times a weight if there are weights (m,)."""

    table: View
    place: View
    weights: View | None


def _chosen(program: Program, users: Users, g: View, k: int) -> _Chosen | None:
    """What node k alone adds, if an index chose it from a table that is still the same."""
    weights = None
    node = _maker(program, users, g, k)
    if node is not None and node.name == "multiply" and len(node.views) == 2:
        at = users.made[g.block]
        for rows, other in (node.views, node.views[::-1]):
            inner = _maker(program, users, rows, at)
            column = _column(other, g) if inner is not None and inner.name == "index" else None
            if column is not None and not users.written.get(column.block.group):
                g, node, weights = rows, inner, column
                break
    if node is None or node.name != "index" or node.params.get("axis") != 0:
        return None
    if len(node.views) != 2 or not node.views[0].layout.size or g.layout.dtype not in EXACT:
        return None
    table, index = node.views
    fixed = not users.written.get(index.block.group)
    changes = users.changes(table, users.made[g.block], k)
    if not fixed or changes or index.layout.ndim != 1 or table.layout.dtype != g.layout.dtype:
        return None
    return _Chosen(table, index, weights)


def _maker(program: Program, users: Users, view: View, k: int) -> Node | None:
    """The node that makes all of an array, if node k alone uses it."""
    block = view.block
    made = users.made.get(block)
    if made is None or not view.whole or users.only(block) != k:
        return None
    return None if users.written.get(block.group) else program.nodes[made]


def _column(view: View, g: View) -> View | None:
    """A weight for each row of g, as a vector."""
    layout, m = view.layout, g.layout.shape[0]
    if layout.dtype != g.layout.dtype or layout.shape != (m, *[1] * (g.layout.ndim - 1)):
        return None
    vector = Layout.of((m,), layout.strides[:1], layout.dtype, layout.device, layout.aligned)
    return View(view.block, vector, view.offset)


def _in_order(
    chosen: _Chosen, order: View, ordered: dict[tuple, View], nodes: list[Node]
) -> list[View]:
    """The index and the weights in the order of the sums: made in front of the last node, unless
    they have been made before."""
    rows = chosen.table.layout.shape[0]
    wanted: list[tuple] = [("index_add (sources)", chosen.place, order, ("rows", rows))]
    if chosen.weights is not None:
        wanted.append(("index", chosen.weights, order, ("axis", 0)))
    for key in wanted:
        if key not in ordered:
            name, x, _, param = key
            dtype = np.dtype(np.uint32 if rows < 2**32 else np.uint64)
            layout = Layout.new(
                order.layout.shape,
                dtype if name != "index" else x.layout.dtype,
                order.layout.device,
            )
            block = Block(RESULT, layout)
            nodes.insert(-1, in_place_of(name, (x, order), dict([param]), (block,), nodes[-1]))
            ordered[key] = View(block, layout, 0)
    return [ordered[key] for key in wanted]


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
