"""Biases that the kernels of neighbours add.

The kernels of float32 and float64 products have no doors (doors.py). There a bias is one more pass
over the result, or an epilogue of a library. If the operations that follow are elementwise, the
addition is one of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.dispatch.op import registry
from .doors import Users, as_product, rebound
from .program import RESULT, Block, Node, Program, View
from .slices import again

#: 16-bit products are rounded once, after the bias, and stay as they are.
DTYPES = np.dtype(np.float32), np.dtype(np.float64)


def biases_apart(program: Program, joins: Callable[[Node], bool]) -> Program:
    """The program in which such a layer is a product and an addition.

    Parameters
    ----------
    program : Program
        What runs.
    joins : callable
        Whether a node can be part of a region.

    Returns
    -------
    Program
        The program itself where there are none.
    """
    users, nodes = Users(program), []
    for node in program.nodes:
        apart = node.op is registry["linear"] and any(
            [i >= 0 and joins(program.nodes[i]) for i in users.of.get(node.results[0], ())]
        )
        nodes += _apart(node, program.device) if apart else [node]
    if len(nodes) == len(program.nodes):
        return program
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out.notes.append(
        f"biases: {len(nodes) - len(program.nodes)} are added by the kernels after the products"
    )
    return out


def _apart(node: Node, device: int) -> list[Node]:
    """A product, and the addition of its bias; the node alone where there is none, or more."""
    product, (block,) = as_product(node), node.results
    if product is None or product.bias is None or product.residual is not None:
        return [node]
    x, weight, bias, _ = product.operands
    dtypes = {view.layout.dtype for view in node.views} | {block.layout.dtype}
    if product.activation or len(dtypes) > 1 or block.layout.dtype not in DTYPES:
        return [node]
    inner = Block(RESULT, block.layout)
    plain = rebound(node, [x, weight, None, None], (inner,), device)
    operands = View(inner, inner.layout, 0), bias
    add = Node(registry["add"], operands, (), {}, node.run, (block,), False, line=node.line)
    return [plain, again(add, operands, (block,))]
