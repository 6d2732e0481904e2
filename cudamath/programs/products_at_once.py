"""Several products of one operand, which are too small to fill a GPU, as one launch.

Queries, keys and values of a short sequence are three products of one x, of which each occupies a
part of the multiprocessors only and takes little longer than its launch. Where the weights lie
alike, one kernel computes all of them side by side (kernels/matmul/linear.py, `linears`); the
weights stay where they are. The results lie one behind the other.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch.lazy_import import lazy
from ..core.dispatch.op import registry
from ..core.layout import Layout
from .doors import Users, as_product
from .program import RESULT, Block, Node, Program, View
from .simplify import edited

LEAST = 1.0  # predicted microseconds that it must save
NEAR = 8  # operations between the last uses of the results, which keep one another's memory


def products_at_once(program: Program) -> Program:
    """The program in which such products are one node."""
    users = Users(program)
    nodes: list[Node | None] = list(program.nodes)
    replaced: dict[Block, View] = {}
    count = 0
    for members in _alike(program, users):
        for group in _groups(members):
            at = _place(program, users, group)
            if at is None:
                continue
            node = _node(program, group)
            (whole,) = node.results
            for i, k in enumerate(group):
                (block,) = program.nodes[k].results
                replaced[block] = View(whole, block.layout, i * block.layout.nbytes)
                nodes[k] = None
            nodes[at] = node
            count += len(group)
    if not count:
        return program
    out = edited(program, [node for node in nodes if node is not None], replaced)
    out.notes.append(f"products: {count} that share an operand run side by side")
    return out


def _alike(program: Program, users: Users) -> list[list[int]]:
    """Numbers of products of one operand that differ in their weights and biases alone, which lie
    alike."""
    found: dict[Any, list[int]] = {}
    for k, node in enumerate(program.nodes):
        product = as_product(node)
        if product is None or product.residual is not None or product.tf32:
            continue
        (block,) = node.results
        x, weight, bias = product.x, product.weight, product.bias
        if users.written.get(block.group) or -1 in users.of.get(block, ()):
            continue
        if not block.layout.contiguous or block.layout.nbytes % 16:
            continue
        own = None if bias is None else bias.layout
        found.setdefault((x, weight.layout, own, product.activation), []).append(k)
    return [members for members in found.values() if len(members) > 1]


def _groups(members: list[int]) -> list[list[int]]:
    """Products that one kernel takes."""
    most: Any = lazy("kernels", "matmul.sm90_tiles.MOST_PARTS")
    return [members[i : i + most] for i in range(0, len(members), most)]


def _place(program: Program, users: Users, group: list[int]) -> int | None:
    """Where products may run together: at the first, if all they read is there, or at the last, if
    nobody uses a result before. None where neither is so, or where it saves nothing."""
    first, last = group[0], group[-1]
    product = as_product(program.nodes[first])
    if len(group) < 2 or product is None:
        return None
    bias = None if product.bias is None else product.bias.layout
    saved: Any = lazy("kernels", "matmul.linear.saved")
    if saved(product.x.layout, product.weight.layout, bias, product.activation, len(group)) < LEAST:
        return None
    results = [block for k in group for block in program.nodes[k].results]
    ends = [max(users.of.get(block, [0])) for block in results]
    if max(ends) - min(ends) > NEAR:
        return None
    views = [view for k in group for view in program.nodes[k].views]
    if any([users.changes(view, first - 1, last) for view in views]):
        return None
    if all([users.made.get(view.block, -1) < first for view in views]):
        return first
    return last if all([k > last for block in results for k in users.of.get(block, ())]) else None


def _node(program: Program, group: list[int]) -> Node:
    """The node of `linears`."""
    op: Any = registry["linears"]
    products = [as_product(program.nodes[k]) for k in group]
    weights = [product.weight for product in products if product is not None]
    biases = [p.bias for p in products if p is not None and p.bias is not None]
    first, old = products[0], program.nodes[group[0]].results[0].layout
    assert first is not None
    operands = (first.x, *weights, *biases)
    params = {"activation": first.activation, "count": len(group)}
    run = op.bound_once(tuple([view.layout for view in operands]), params, 0, program.device)
    whole = Block(RESULT, Layout.new((len(group), *old.shape), old.dtype, old.device))
    line = program.nodes[group[0]].line
    return Node(op, operands, (), params, run, (whole,), False, line=line)
