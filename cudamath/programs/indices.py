"""Indices beside elementwise operations.

A loss by hand takes the logit of each row's target. Its gradient is an array of zeros with one
number a row, as large as the logits, which is written to be added to the rest of their gradient. As
a comparison of columns with the index it is a part of the kernel that computes the rest.

And what is chosen by an index from what has been cast is chosen before, and cast then: so the
logits, or a table, need not be written in the other dtype for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dispatch.op import registry
from ..core.dtypes import FLOATING
from ..core.layout import Layout
from ..ops.ranges import arange
from ..runtime.dry import launching
from .doors import Users, rebound
from .program import CONSTANT, RESULT, Block, Node, Program, View
from .simplify import without_unused
from .slices import again, rebuilt

#: Ops that choose elements of their first operand by the second one.
CHOOSE = ("index", "take_along_axis")


def casts_after_indices(program: Program, joins: Callable[[Node], bool]) -> Program:
    """The program in which what is chosen from a cast that kernels alone use is cast afterwards.

    Parameters
    ----------
    program : Program
        What runs.
    joins : callable
        Whether a node can be part of a kernel with others.

    Returns
    -------
    Program
        The program itself where there are none.
    """
    users, nodes = Users(program), []
    for k, node in enumerate(program.nodes):
        cast = _cast_before(node, k, users, program, joins) if node.name in CHOOSE else None
        nodes += [node] if cast is None else _cast_after(node, cast, program.device)
    if len(nodes) == len(program.nodes):
        return program
    out = without_unused(rebuilt(program, nodes))
    out.notes.append(f"indices: {len(nodes) - len(program.nodes)} choose before a cast")
    return out


def _cast_before(
    node: Node, k: int, users: Users, program: Program, joins: Callable[[Node], bool]
) -> Node | None:
    """The cast from whose result node k chooses, if it need not be stored then."""
    view = node.operands[0]
    at = users.made.get(view.block)
    if at is None or not view.whole or node.targets or node.draw is not None:
        return None
    cast = program.nodes[at]
    if cast.name != "astype" or view.block.group in users.written:
        return None
    if not {view.layout.dtype, cast.views[0].layout.dtype} <= {*FLOATING}:
        return None
    others = [i for i in users.of[view.block] if i != k]
    stored = any([i < 0 or not joins(program.nodes[i]) for i in others])
    return None if stored or users.changes(cast.views[0], at, k) else cast


def _cast_after(node: Node, cast: Node, device: int) -> list[Node]:
    """The choice from what was cast, and the cast of what was chosen."""
    (source,), (result,) = cast.views, node.results
    chosen = Block(RESULT, Layout.new(result.layout.shape, source.layout.dtype, device))
    first = rebound(node, [source, *node.operands[1:]], (chosen,), device)
    operands = (View(chosen, chosen.layout, 0), *cast.operands[1:])
    return [first, again(cast, operands, (result,))]


def compared_indices(program: Program, elementwise: Callable[[Node], bool]) -> Program:
    """The program in which such gradients are elementwise operations, where elementwise operations
    alone use them.

    Parameters
    ----------
    program : Program
        What runs.
    elementwise : callable
        Whether each element of a node's result depends on one element of each operand.

    Returns
    -------
    Program
        The program itself where there are none.
    """
    users, nodes = Users(program), []
    taken = {
        (node.operands[1], node.operands[0].layout.shape[node.params["axis"]])
        for node in program.nodes
        if node.name == "take_along_axis"
    }
    for node in program.nodes:
        nodes += _compared(node) if _can(node, users, program, elementwise, taken) else [node]
    if len(nodes) == len(program.nodes):
        return program
    out = rebuilt(program, nodes)
    out.notes.append("indices: gradients of single elements are comparisons with their index")
    return out


def _can(
    node: Node,
    users: Users,
    program: Program,
    elementwise: Callable[[Node], bool],
    taken: set[tuple[View, int]],
) -> bool:
    """Whether a node is such a gradient. taken: indices, and of how many elements, that other nodes
    look at: a wrong one is reported there."""
    if node.name != "take_along_axis_grad":
        return False
    g, index = node.operands
    (block,) = node.results
    using = users.of.get(block, [-1])
    return (
        index.layout.shape[node.params["axis"]] == 1
        and g.layout.shape == index.layout.shape
        and (index, node.params["size"]) in taken
        and not users.written.get(index.block.group)
        and block.layout.contiguous
        and block.layout.dtype in FLOATING
        and all([i >= 0 and elementwise(program.nodes[i]) for i in using])
    )


def _compared(node: Node) -> list[Node]:
    """The operations in the place of a node: g where a column is that of the index, 0 elsewhere."""
    g, index = node.operands
    axis, size = node.params["axis"], node.params["size"]
    (block,) = node.results
    made: list[Node] = []

    def apply(name: str, *operands: Any, dtype: Any, shape: tuple, **rest: Any) -> View:
        result = Block(RESULT, Layout.new(shape, np.dtype(dtype), block.layout.device))
        op: Any = registry[name]
        new = Node(op, operands, rest.pop("scalars", ()), rest, op, (result,), False)
        new.line = node.line
        made.append(again(new, operands, (result,)))
        return View(result, result.layout, 0)

    kind, single = index.layout.dtype, index.layout.shape
    with launching():
        numbers = arange(size, dtype=kind, device=f"cuda:{block.layout.device}")
        numbers = numbers.reshape((size, *[1] * (len(single) - 1 - axis)))
    columns = View(Block(CONSTANT, numbers._layout, 0, numbers), numbers._layout, 0)
    if kind.kind == "i":
        below = apply("less", index, 0, dtype=np.bool_, shape=single)
        behind = apply("add", index, size, dtype=kind, shape=single)
        index = apply("where", below, behind, index, dtype=kind, shape=single)
    hit = apply("equal", columns, index, dtype=np.bool_, shape=block.layout.shape)
    zero = 0 if block.layout.itemsize == 2 else 0.0
    apply(
        "where_number",
        hit,
        g,
        dtype=block.layout.dtype,
        shape=block.layout.shape,
        scalars=(zero,),
        swapped=False,
    )
    last = made[-1]
    made[-1] = again(last, last.operands, (block,))
    return made
