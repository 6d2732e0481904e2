"""Doors: what a kernel of another family does for the operations that follow it.

A product of 16-bit numbers on compute capability 9.0, or with few rows, can add a bias, apply an
activation and add a residual before it stores its result (kernels/matmul/linear.py). Where the
operations after a product are these, and nobody else uses what lies between, they and the product
become one node. The numbers are then rounded once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.dispatch.lazy_import import lazy
from ..core.dispatch.op import registry
from ..core.layout import Layout
from .program import RESULT, Block, Node, Program, View

#: Ops that `linear` can continue.
PRODUCTS = ("matmul", "linear")
#: Elementwise ops that are activations of `linear`.
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


class Users:
    """Who makes and uses each block: the numbers of the nodes, and -1 for the caller."""

    def __init__(self, program: Program):
        self.of: dict[Block, list[int]] = {}
        self.made: dict[Block, int] = {}
        self.written: dict[Block, list[int]] = {}
        for k, node in enumerate(program.nodes):
            for view in node.views:
                self.of.setdefault(view.block, []).append(k)
            for view in node.targets:
                self.written.setdefault(view.block.group, []).append(k)
            self.made |= dict.fromkeys(node.results, k)
        for view in program.returned():
            self.of.setdefault(view.block, []).append(-1)

    def only(self, block: Block) -> int | None:
        """The number of the node that alone uses a block, once."""
        users = self.of.get(block, [])
        return users[0] if len(users) == 1 and users[0] >= 0 else None

    def changes(self, view: View, first: int, last: int) -> bool:
        """Whether the memory of a view is written between two nodes."""
        return any([first < k < last for k in self.written.get(view.block.group, ())])


def rebound(node: Node, operands: list[Any], results: tuple[Block, ...], device: int) -> Node:
    """The op of a node on other operands, with results of its own."""
    for k, block in enumerate(results):
        block.index = k
    layouts = tuple([x.layout if isinstance(x, View) else x for x in operands])
    run = node.op.bound_once(layouts, node.params, len(node.scalars), device)
    return Node(
        node.op,
        tuple(operands),
        node.scalars,
        node.params,
        run,
        results,
        node.several,
        node.written,
        line=node.line,
    )


def in_place_of(
    name: str, operands: tuple[View, ...], params: dict, results: tuple[Block, ...], of: Node
) -> Node:
    """A node of an op in the place of another one."""
    op: Any = registry[name]
    layouts = tuple([x.layout for x in operands])
    run = op.bound_once(layouts, params, 0, results[0].layout.device)
    return Node(op, operands, (), params, run, results, len(results) > 1, line=of.line)


class _Product(NamedTuple):
    """y = activation(x weight^T + bias) + residual, as far as it has been put together."""

    x: View
    weight: View
    bias: View | None
    residual: View | None
    activation: str
    tf32: bool

    @property
    def operands(self) -> tuple[View | None, ...]:
        return self.x, self.weight, self.bias, self.residual

    def after(self, node: Node, result: Block) -> _Product | None:
        """The product with the operation of a node that uses its result; None if the kernel has no
        door for it."""
        (y,) = node.results
        if self.residual is not None or y.layout is not result.layout:
            return None
        if node.name in ACTIVATIONS:
            return None if self.activation else self._replace(activation=node.name)
        if node.name != "add" or len(node.views) != 2:
            return None
        others = [view for view in node.views if view.block is not result]
        if len(others) != 1 or others[0].layout.dtype != y.layout.dtype:
            return None
        (other,) = others
        plain = self.bias is None and not self.activation
        if plain and other.layout.shape == y.layout.shape[-1:] and y.layout.ndim > 1:
            return self._replace(bias=other)
        return self._replace(residual=other) if other.layout.shape == y.layout.shape else None


def through_doors(program: Program) -> Program:
    """The program with the operations after a product inside of it, where its kernel can do
    them."""
    users = Users(program)
    absorbed: set[int] = set()
    replaced: dict[int, Node] = {}
    for k, node in enumerate(program.nodes):
        start = None if k in absorbed or k in replaced else as_product(node)
        if start is None:
            continue
        best = _chain(program, users, k, start, {*absorbed, *replaced})
        if best is not None:
            last, product, chain = best
            replaced[last] = _node(product, program.nodes[last], program.device)
            absorbed |= {*chain} - {last}
    if not replaced:
        return program
    nodes = [replaced.get(k, node) for k, node in enumerate(program.nodes) if k not in absorbed]
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out.notes.append(
        f"epilogues: {len(replaced)} products do the work of {len(absorbed)} operations"
    )
    return out


def as_product(node: Node) -> _Product | None:
    """A node as a product that may be continued."""
    if node.draw is not None or node.targets or len(node.results) != 1 or node.several:
        return None
    if node.name == "matmul":
        x, w = node.operands
        if w.layout.ndim != 2 or not x.layout.ndim or node.results[0].layout.ndim != x.layout.ndim:
            return None
        turned = Layout.of(
            w.layout.shape[::-1],
            w.layout.strides[::-1],
            w.layout.dtype,
            w.layout.device,
            w.layout.aligned,
        )
        return _Product(x, View(w.block, turned, w.offset), None, None, "", node.params["tf32"])
    if node.name == "linear":
        x, weight, bias, residual = (*node.operands, None, None)[:4]
        how = node.params["activation"], node.params["tf32"]
        return _Product(x, weight, bias, residual, *how)
    return None


def _chain(
    program: Program, users: Users, k: int, product: _Product, taken: set[int]
) -> tuple[int, _Product, list[int]] | None:
    """The longest run of operations from node k that one kernel can do: the number of its last
    node, what it computes, and its nodes. taken: the nodes that are part of another product."""
    best, chain, result = None, [k], program.nodes[k].results[0]
    while True:
        following = users.only(result)
        if following is None or following in taken:
            return best
        node = program.nodes[following]
        if node.draw is not None or node.targets or len(node.results) != 1 or node.several:
            return best
        if not all([view.whole for view in node.views if view.block is result]):
            return best
        more = product.after(node, result)
        if more is None:
            return best
        chain, product, result = [*chain, following], more, node.results[0]
        read = [view for view in product.operands if view is not None]
        if any([users.changes(view, k, following) for view in read]):
            return best
        if _has_door(product):
            best = following, product, list(chain)


def _has_door(product: _Product) -> bool:
    """Whether one kernel can do it all."""
    layouts = [None if view is None else view.layout for view in product.operands]
    x, weight, *operands = layouts
    has_epilogue: Any = lazy("kernels", "matmul.linear.has_epilogue")
    return has_epilogue(x, weight, [layout for layout in operands if layout is not None])


def _node(product: _Product, last: Node, device: int) -> Node:
    """The node of `linear` with the results of the last node."""
    op: Any = registry["linear"]
    params = {"activation": product.activation, "tf32": product.tf32}
    layouts = tuple([None if view is None else view.layout for view in product.operands])
    assert last.results[0].kind == RESULT
    run = op.bound_once(layouts, params, 0, device)
    return Node(op, product.operands, (), params, run, last.results, False, line=last.line)
