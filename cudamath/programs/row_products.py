"""Products of one matrix with many vectors, and sums of many products, as one product each.

`cm.vmap` of a gradient, and einsum or broadcasting by hand, leave products with a batch of vectors:
of a matrix (M, K) and columns (B, K, 1), or of columns (B, M, 1) and rows (B, 1, N) that are added
up over the batch. Both are one product of matrices, of which a batch is many small ones that read
the same matrix again and again, or write B matrices to add them up. Nothing moves in memory: the
columns are rows of a matrix as they lie.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.dispatch.op import registry
from ..core.layout import Layout
from ..fuse import FEW_TERMS
from .doors import Users
from .program import RESULT, Block, Node, Program, View
from .simplify import edited, without_unused


def row_products(program: Program) -> Program:
    """The program in which such products are products of matrices."""
    users, nodes, written = Users(program), list(program.nodes), program.written()
    replaced: dict[Block, View] = {}
    for k, node in enumerate(program.nodes):
        if node.name != "matmul" or node.results[0] in written:
            continue
        (block,) = node.results
        added = users.only(block)
        factors = None if added is None else _summed(node, program.nodes[added], users, k, added)
        if factors is None:
            factors, added = _of_columns(node), k
        at: int = added  # type: ignore[assignment]
        (old,) = program.nodes[at].results
        if factors is None or old in written:
            continue
        nodes[at] = _product(node, *factors, program.device)
        replaced[old] = View(nodes[at].results[0], old.layout, 0)
    if not replaced:
        return program
    out = without_unused(edited(program, nodes, replaced))
    out.notes.append(f"products: {len(replaced)} of a batch are products of matrices")
    return out


def _matrix(view: View, rows: tuple[int, ...], columns: tuple[int, ...]) -> View | None:
    """A view with these of its axes as rows, and those as columns, each one behind the other; None
    where they do not lie so."""
    own = view.layout
    sizes, steps = [], []
    for axes in (rows, columns):
        wide = [i for i in axes if own.shape[i] != 1]
        for i, j in zip(wide, wide[1:], strict=False):
            if own.strides[i] != own.shape[j] * own.strides[j]:
                return None
        sizes.append(math.prod([own.shape[i] for i in wide]))
        steps.append(own.strides[wide[-1]] if wide else own.itemsize)
    if 0 in steps or own.itemsize not in steps:
        return None
    layout = Layout.of(tuple(sizes), tuple(steps), own.dtype, own.device, own.aligned)
    if layout.contiguous:
        layout = Layout.new(layout.shape, own.dtype, own.device)
    return View(view.block, layout, view.offset)


def _of_columns(node: Node) -> tuple[View, View] | None:
    """The factors of a matrix and many columns: the columns as rows, and the matrix, transposed."""
    matrix, columns = node.operands
    (block,) = node.results
    n = columns.layout.ndim
    if matrix.layout.ndim != 2 or n < 3 or columns.layout.shape[-1] != 1:
        return None
    if not block.layout.contiguous:
        return None
    rows = _matrix(columns, tuple(range(n - 2)), (n - 2,))
    turned = _matrix(matrix, (1,), (0,))
    return None if rows is None or turned is None else (rows, turned)


def _summed(node: Node, total: Node, users: Users, k: int, at: int) -> tuple[View, View] | None:
    """The factors of a product whose batch node `total` adds up."""
    x, y = node.operands
    n = x.layout.ndim
    params = total.params  # those of running sums have a kind, too, but keep all axes
    if params.get("kind") != "sum" or "keepdims" not in params or len(total.operands) != 1:
        return None
    if y.layout.ndim != n or n < 3:
        return None
    if not total.views[0].whole or total.results[0].layout.dtype != node.results[0].layout.dtype:
        return None
    batch = tuple(range(n - 2))
    if math.prod(x.layout.shape[:-2]) * x.layout.shape[-1] <= FEW_TERMS:
        return None  # written out (small_products.py)
    if tuple(sorted(params["axis"])) != batch or x.layout.shape[:-2] != y.layout.shape[:-2]:
        return None
    if any([users.changes(view, k, at) for view in (x, y)]):
        return None
    left, right = _matrix(x, (n - 2,), (*batch, n - 1)), _matrix(y, (*batch, n - 2), (n - 1,))
    return None if left is None or right is None else (left, right)


def _product(node: Node, x: View, y: View, device: int) -> Node:
    """The product of these matrices."""
    op: Any = registry["matmul"]
    layout = Layout.new((x.layout.shape[0], y.layout.shape[1]), x.layout.dtype, x.layout.device)
    run = op.bound_once((x.layout, y.layout), node.params, 0, device)
    return Node(op, (x, y), (), node.params, run, (Block(RESULT, layout),), False, line=node.line)
