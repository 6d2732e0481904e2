"""Sums of the same linear operation on different operands: the operation on their sum.

`x1 @ w + x2 @ w` is `(x1 + x2) @ w`, one product instead of two. Such sums are what gradients
leave where a function uses its weights several times on the same values: a network whose
derivatives are in the loss goes back through each layer once for the values and once for each
derivative, and the gradients of a weight are added at the end. Each way back is linear in what
comes from above, so all of those through the same layer become one.

The sums are looked at from the last to the first. Where one becomes a sum further up, that is one
more to look at: so it goes on up the layers.

Products, and sums over axes or by an index, are taken together always; elementwise operations
where that leads to products. float32 and float64 alone: a sum of 16-bit numbers would be rounded
before the product instead of after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dispatch.fast_path import exact
from ..core.dispatch.op import registry
from .program import RESULT, Block, Node, Program, View
from .simplify import edited
from .slices import again

MOST = 64  # products behind a sum that are told apart
DTYPES = np.dtype(np.float32), np.dtype(np.float64)

#: Elementwise operations, and sums by an index -> the operands in each of which they are linear,
#: the other one fixed.
LINEAR = {
    "multiply": (0, 1),
    "divide": (0,),
    "negative": (0,),
    "index_grad": (0,),
    **dict.fromkeys(
        [
            f"{name}_grad"
            for name in (
                "tanh",
                "sigmoid",
                "silu",
                "relu",
                "leaky_relu",
                "elu",
                "gelu",
                "gelu_tanh",
                "softplus",
                "mish",
                "square",
            )
        ],
        (0,),
    ),
}


def common_factors(program: Program) -> Program:
    """The program in which sums of the same linear operation are that operation on sums."""
    sums = _Sums(program)
    for k in reversed(range(len(program.nodes))):
        for node in reversed(list(sums.slots[k])):
            if node in sums.slots[k]:
                sums.visit(node)
    if not sums.saved:
        return program
    nodes = [node for slot in sums.slots for node in slot]
    out = edited(program, nodes, sums.replaced)
    out.notes.append(f"sums: {sums.saved} operations are done on sums of their operands")
    return out


def _is_product(node: Node) -> bool:
    """Whether a node is a product, without doors."""
    if node.name == "linear":
        return not node.params["activation"] and not any([x is not None for x in node.operands[2:]])
    return node.name == "matmul"


def _is_total(node: Node) -> bool:
    """Whether a node adds elements of one array."""
    return node.params.get("kind") in ("sum", "mean") and len(node.operands) == 1


def _positions(node: Node) -> tuple[int, ...]:
    """The operands in each of which a node is linear."""
    if node.draw is not None or node.targets or node.several or len(node.results) != 1:
        return ()
    if node.results[0].layout.dtype not in DTYPES:
        return ()
    if _is_product(node):
        return 0, 1
    return (0,) if _is_total(node) else LINEAR.get(node.name, ())


def _alike(node: Node, at: int) -> tuple | None:
    """What two nodes have in common that do the same linear operation with different operands at
    this position; None where its operand is no array that a node of the program made."""
    view = node.operands[at]
    if not isinstance(view, View) or view.block.kind != RESULT:
        return None
    layout = view.block.layout
    if layout.size != view.layout.size or layout.dtype not in DTYPES or not layout.contiguous:
        return None
    rest = tuple(
        [
            None if i == at else x if isinstance(x, View) else exact(x)
            for i, x in enumerate(node.operands)
        ]
    )
    params = tuple([(name, exact(value)) for name, value in node.params.items()])
    scalars, result = tuple(map(exact, node.scalars)), node.results[0].layout
    key = id(node.op), at, rest, params, scalars, view.layout, view.offset, layout, result
    try:
        hash(key)
    except TypeError:
        return None
    return key


class _Sums:
    """A program while its sums are changed.

    Attributes
    ----------
    slots : list of list of Node
        For each node of the program what stands there now, in order.
    saved : int
        How many operations there are no more.
    """

    def __init__(self, program: Program):
        self.slots = [[node] for node in program.nodes]
        self.saved = 0
        self.at: dict[Node, int] = {}  # the number of a node's slot
        self.maker: dict[Block, Node] = {}
        self.products: dict[Block, frozenset[tuple]] = {}
        self.users: dict[Block, list[Node | None]] = {}  # None: the caller
        self.written: dict[Block, list[int]] = {}
        self.sums: dict[frozenset[Block], Block] = {}
        self.replaced: dict[Block, View] = {}  # sums that are one operation now
        for k, node in enumerate(program.nodes):
            self._know(node, k)
            for view in node.targets:
                self.written.setdefault(view.block.group, []).append(k)
        for view in program.returned():
            self.users.setdefault(view.block, []).append(None)

    # -------------------- what there is

    def _know(self, node: Node, k: int) -> None:
        self.at[node] = k
        for view in node.views:
            self.users.setdefault(view.block, []).append(node)
        for block in node.results:
            self.maker[block] = node
            self.products[block] = self._products(node)

    def _products(self, node: Node) -> frozenset[tuple]:
        """By what the products multiply of whose results a node's result is a sum, each scaled."""
        places = (0, 1) if self._is_sum(node) else _positions(node)
        if _is_product(node):
            return frozenset([(node.name, i, node.operands[1 - i]) for i in places])
        views = [x for x in [node.operands[i] for i in places] if isinstance(x, View)]
        found = frozenset().union(*[self.products.get(x.block, frozenset()) for x in views])
        return found if len(found) <= MOST else frozenset()

    def _add(self, node: Node, k: int, before: Node | None = None) -> None:
        """A node of a slot: before another one, or at its end."""
        slot = self.slots[k]
        slot.insert(len(slot) if before is None else slot.index(before), node)
        self._know(node, k)

    def _remove(self, node: Node) -> None:
        self.slots[self.at.pop(node)].remove(node)
        for view in node.views:
            self.users[view.block].remove(node)

    def _alone(self, view: View) -> Node | None:
        """What made an array that is used once, as a whole."""
        node = self.maker.get(view.block)
        once = view.spans and len(self.users.get(view.block, ())) == 1
        return node if once and not self.written.get(view.block.group) else None

    def _is_sum(self, node: Node) -> bool:
        if node.name != "add" or len(node.views) != 2 or node.targets or len(node.results) != 1:
            return False
        layout = node.results[0].layout
        same = all([view.spans and view.layout is layout for view in node.views])
        return same and layout.dtype in DTYPES

    def _terms(self, node: Node) -> tuple[list[View], list[Node]]:
        """What is added, and the additions inside of that."""
        terms: list[View] = []
        inner: list[Node] = []
        stack = list(node.views[::-1])
        while stack:
            view = stack.pop()
            made = self._alone(view)
            if made is not None and self._is_sum(made):
                inner.append(made)
                stack += made.views[::-1]
            else:
                terms.append(view)
        return terms, inner

    # -------------------- what becomes of it

    def visit(self, node: Node) -> None:
        """Change a sum, if it is not part of a larger one."""
        if not self._is_sum(node):
            return
        users = self.users.get(node.results[0], [])
        if len(users) == 1 and users[0] is not None and self._is_sum(users[0]):
            return
        terms, inner = self._terms(node)
        groups: dict[tuple, list[View]] = {}
        for term in terms:
            made = self._alone(term)
            for at in () if made is None else _positions(made):
                if (key := _alike(made, at)) is not None:  # type: ignore[arg-type]
                    groups.setdefault(key, []).append(term)
        merged: list[View] = []
        for (_, at, *_), members in sorted(groups.items(), key=lambda item: -len(item[1])):
            members = [term for term in members if term in terms]
            if len(members) > 1 and self._may(members, at):
                terms = [term for term in terms if term not in members]
                merged.append(self._merge(members, at))
        if merged:
            self._rebuild(node, inner, [*terms, *merged])

    def _may(self, members: list[View], at: int) -> bool:
        """Whether the operations that make these become one."""
        nodes = [self.maker[term.block] for term in members]
        operands = [node.operands[at] for node in nodes]
        if len({view.block for view in operands}) < len(operands):
            return False
        if any([self.written.get(view.block.group) for view in operands]):
            return False
        places = [self.at[node] for node in nodes]
        first, last = min(places), max(places)
        others = [view.block.group for node in nodes for view in node.views]
        if any([first < k < last for group in others for k in self.written.get(group, ())]):
            return False
        if _is_product(nodes[0]) or _is_total(nodes[0]) or nodes[0].name == "index_grad":
            return True
        behind = [self.products.get(view.block, frozenset()) for view in operands]
        return bool(frozenset.intersection(*behind))

    def _merge(self, members: list[View], at: int) -> View:
        """One operation in the place of the last of those that make these; its result."""
        nodes = sorted([self.maker[term.block] for term in members], key=lambda node: self.at[node])
        last = nodes[-1]
        view = last.operands[at]
        total = self._sum_of([node.operands[at].block for node in nodes], last.line)
        operands = list(last.operands)
        operands[at] = View(total, view.layout, view.offset)
        result = Block(RESULT, last.results[0].layout)
        node = Node(
            last.op,
            tuple(operands),
            last.scalars,
            last.params,
            last.run,
            (result,),
            False,
            line=last.line,
        )
        self._add(node, self.at[last], last)
        for each in nodes:
            self._remove(each)
        self.saved += len(nodes) - 1
        return View(result, members[0].layout, 0)

    def _sum_of(self, blocks: list[Block], line: str) -> Block:
        """The sum of these, which stands where the last of them is made."""
        if frozenset(blocks) not in self.sums:
            blocks = sorted(blocks, key=lambda block: self.at[self.maker[block]])
            k, total = self.at[self.maker[blocks[-1]]], blocks[0]
            for block in blocks[1:]:
                result = Block(RESULT, block.layout)
                x, y = [View(each, result.layout, 0) for each in (total, block)]
                self._add(_addition(x, y, result, line), k)
                total = result
            self.sums[frozenset(blocks)] = total
        return self.sums[frozenset(blocks)]

    def _rebuild(self, node: Node, inner: list[Node], terms: list[View]) -> None:
        """The terms in the place of a sum."""
        for each in inner:
            self._remove(each)
        if len(terms) == 1:
            (block,) = node.results
            self.replaced[block] = terms[0]
            self.users[terms[0].block] = self.users.pop(block, [])
            self.maker[block] = self.maker[terms[0].block]
            self._remove(node)
            return
        total, k = terms[0], self.at[node]
        for i, term in enumerate(terms[1:], 2):
            (result,) = node.results
            result = result if i == len(terms) else Block(RESULT, result.layout)
            self._add(_addition(total, term, result, node.line), k, node)
            total = View(result, result.layout, 0)
        self._remove(node)


def _addition(x: View, y: View, result: Block, line: str) -> Node:
    """x + y, of arrays of one layout."""
    operands = x, y
    op: Any = registry["add"]
    return again(Node(op, operands, (), {}, op, (result,), False, line=line), operands, (result,))
