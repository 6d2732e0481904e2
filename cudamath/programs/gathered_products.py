"""Products of rows that an index chose: each row is multiplied once, and the products are chosen.

An edge of a graph joins two nodes, and a layer multiplies what stands at both:

    linear(concat([x[source], x[target]], 1), weight, bias)
        = (x @ weight[:, :n].T)[source] + (x @ weight[:, n:].T)[target] + bias

Where there are more edges than nodes this is less work. So it is in the gradients: what belongs to
one node is added before it is multiplied, by the weight and by x. Then nobody keeps the chosen rows
for the gradient. Rows that nobody chose count as zeros there, whatever they hold.

Only float32 and float64 without TF32: tensor cores multiply faster than rows are moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.dispatch.op import registry
from ..core.layout import Layout
from ..ops.shape import pattern
from .doors import Users, as_product, rebound
from .program import RESULT, Block, Node, Program, View
from .simplify import without_repetitions, without_unused
from .slices import again

SLOW = np.dtype(np.float32), np.dtype(np.float64)
#: Products are moved if they are so many times less work, and rows of results are no wider than so
#: many times what is multiplied.
LESS, WIDER = 2, 2


class _Part(NamedTuple):
    """Columns of an array: the rows of x that an array of places chooses. chosen: their view, which
    node `at` makes; start: the first column."""

    x: View
    place: View
    chosen: View
    at: int
    start: int


class _Builder:
    """What takes the place of nodes of a program."""

    def __init__(self, program: Program):
        self.program, self.users = program, Users(program)
        self.replaced: dict[int, list[Node]] = {}
        self.summed: dict[View, View] = {}  # rows: the same, those that belong together added

    # -------------------- what there is

    def fixed(self, block: Block) -> bool:
        """Whether nobody writes into the result of a node."""
        return block.kind == RESULT and not self.users.written.get(block.group)

    def parts(self, view: View) -> list[_Part]:
        """Of what chosen rows an array is put together along its columns; empty if it is not."""
        made = self.users.made.get(view.block)
        if made is None or not view.whole or view.layout.ndim != 2:
            return []
        node = self.program.nodes[made]
        chosen = node.views if node.name == "concat" and node.params["axis"] == 1 else [view]
        parts: list[_Part] = []
        start = 0
        for each in chosen:
            at = self.users.made.get(each.block, -1)
            node = self.program.nodes[at]
            if at < 0 or node.name != "index" or not each.whole or not self.fixed(each.block):
                return []
            if node.params != {"axis": 0} or len(node.views) != 2 or len(node.operands) != 2:
                return []
            x, index = node.views
            if x.layout.ndim != 2 or index.layout.ndim != 1 or not x.layout.contiguous:
                return []
            parts.append(_Part(x, index, each, at, start))
            start += x.layout.shape[1]
        return parts if self.fixed(view.block) else []

    # -------------------- what is made

    def node(
        self, name: str, operands: tuple[View, ...], params: dict, results: tuple, line: str
    ) -> Node:
        """A node of an op."""
        op: Any = registry[name]
        layouts = tuple([x.layout for x in operands])
        run = op.bound_once(layouts, params, 0, self.program.device)
        return Node(op, operands, (), params, run, results, False, line=line)

    def product(self, x: View, y: View, block: Block, line: str) -> Node:
        return self.node("matmul", (x, y), {"tf32": False}, (block,), line)

    # -------------------- forward

    def forward(self, k: int) -> None:
        """A product of chosen rows as chosen rows of products."""
        node = self.program.nodes[k]
        found = as_product(node)
        if found is None or found.tf32 or found.activation or found.residual is not None:
            return
        y, parts = node.results[0].layout, self.parts(found.x)
        if not parts or y.dtype not in SLOW or y.ndim != 2 or not y.contiguous:
            return
        sizes = [part.x.layout.shape for part in parts]
        if not _less(sizes, found.x.layout.shape, y.shape[1]):
            return
        if any([self.users.changes(v, p.at, k) for p in parts for v in (p.x, p.place)]):
            return
        made: list[Node] = []
        total: View | None = None
        for part in parts:
            weight = _columns(found.weight, part.start, part.x.layout.shape[1])
            inner = _new((part.x.layout.shape[0], y.shape[1]), y)
            made.append(self.product(part.x, _turned(weight), inner, node.line))
            outer = _new(y.shape, y)
            operands = _whole(inner), part.place
            made.append(self.node("index", operands, {"axis": 0}, (outer,), node.line))
            if total is not None:
                made.append(_sum(total, _whole(outer), _new(y.shape, y), node.line))
            total = _whole(made[-1].results[0])
        if found.bias is not None and total is not None:
            made.append(_sum(total, found.bias, _new(y.shape, y), node.line))
        made[-1].results = node.results
        self.replaced[k] = made

    # -------------------- the gradient of what was chosen

    def backward(self, k: int) -> None:
        """Rows that are multiplied and then added by an index, as products of sums."""
        node = self.program.nodes[k]
        if node.name != "matmul" or node.params["tf32"] or not self.fixed(node.results[0]):
            return
        g, weight = node.views
        (block,) = node.results
        y = block.layout
        if y.dtype not in SLOW or y.ndim != 2 or g.layout.ndim != 2 or weight.layout.ndim != 2:
            return
        following = self.users.of.get(block, [])
        if not following or min(following) < 0 or len({*following}) < len(following):
            return
        nodes = [self.program.nodes[i] for i in following]
        starts = [_start(n, block) for n in nodes]
        if any([start is None for start in starts]):
            return
        sizes = [n.params["shape"] for n in nodes]
        if not _less(sizes, y.shape, g.layout.shape[1]):
            return
        if any([self.users.changes(v, k, i) for i in following for v in (g, weight)]):
            return
        for i, n, start in zip(following, nodes, starts, strict=True):
            rows, columns = n.params["shape"]
            inner = _new((rows, g.layout.shape[1]), y)
            part = _columns(weight, start, columns)  # type: ignore[arg-type]
            self.replaced[i] = [
                self.sums(g, n.views[1], inner, n.line),
                self.product(_whole(inner), part, n.results[0], n.line),
            ]

    # -------------------- the gradient of the weight

    def weights(self, k: int) -> None:
        """A product with chosen rows, as products of all rows with sums of the others that belong
        to them: g.T @ x[place] = (sums of g by place).T @ x; and the same turned."""
        node = self.program.nodes[k]
        if node.name != "matmul" or node.params["tf32"] or len(node.views) != 2:
            return
        y, turned = node.results[0].layout, False
        if y.dtype not in SLOW or y.ndim != 2 or not y.contiguous:
            return
        g, chosen = _turned(node.views[0]), node.views[1]
        if not (parts := self.parts(chosen)):
            chosen, g, turned = _turned(node.views[0]), node.views[1], True
            parts = self.parts(chosen)
        sizes = [part.x.layout.shape for part in parts]
        width = g.layout.shape[1]
        if not parts or not _less(sizes, chosen.layout.shape, width):
            return
        if any([self.users.changes(v, p.at, k) for p in parts for v in (p.x, p.place)]):
            return
        made: list[Node] = []
        blocks: list[Block] = []
        for part in parts:
            rows, columns = part.x.layout.shape
            sums = _new((rows, width), y)
            made.append(self.sums(g, part.place, sums, node.line))
            self.summed.setdefault(g, _whole(sums))
            x = self.without_others(part, made, node.line)
            shape = (columns, width) if turned else (width, columns)
            blocks.append(_new(shape, y))
            one, other = (x, _whole(sums)) if turned else (_whole(sums), x)
            made.append(self.product(_turned(one), other, blocks[-1], node.line))
        if len(blocks) == 1:
            made[-1].results = node.results
        else:
            axis = 0 if turned else 1
            params = {"axis": axis, "sizes": tuple([b.layout.shape[axis] for b in blocks])}
            operands = tuple(map(_whole, blocks))
            made.append(self.node("concat", operands, params, node.results, node.line))
        self.replaced[k] = made

    def total(self, k: int) -> None:
        """The sum of rows, of the bias's gradient, as that of their sums."""
        node = self.program.nodes[k]
        if node.name != "sum" or len(node.views) != 1 or node.views[0] not in self.summed:
            return
        if node.params["axis"] == (0,) and not self.users.written.get(node.views[0].block.group):
            sums = self.summed[node.views[0]]
            self.replaced[k] = [rebound(node, [sums], node.results, self.program.device)]

    def sums(self, g: View, place: View, block: Block, line: str) -> Node:
        """The sums of the rows that belong together, into a block."""
        params = {"shape": block.layout.shape, "axis": 0}
        return self.node("index_grad", (g, place), params, (block,), line)

    def without_others(self, part: _Part, made: list[Node], line: str) -> View:
        """The rows that are chosen, with zeros in the place of others: NaN times nothing is NaN."""
        x, count = part.x, part.place.layout.size
        ones, zero = (
            self.filled(shape, 1 - i, x, made) for i, shape in enumerate([(count, 1), ()])
        )
        often = _new((x.layout.shape[0], 1), x.layout)
        made.append(self.sums(ones, part.place, often, line))
        mask = Block(RESULT, Layout.new(often.layout.shape, np.dtype(bool), x.layout.device))
        made.append(_called("greater", (_whole(often), 0), mask, line))
        out = _new(x.layout.shape, x.layout)
        made.append(_called("where", (_whole(mask), x, zero), out, line))
        return _whole(out)

    def filled(self, shape: tuple[int, ...], value: int, like: View, made: list[Node]) -> View:
        """A new array that holds a number everywhere."""
        block = _new(shape, like.layout)
        op, halves = registry["full"], pattern("jit", float(value), like.layout.dtype)
        params = {"layout": block.layout, "device": block.layout.device}
        made.append(again(Node(op, (), halves, params, op, (block,), False), (), (block,)))
        return _whole(block)


def gathered_products(program: Program) -> Program:
    """The program in which rows are multiplied before an index chooses them, and after one adds
    them, where that is less work."""
    builder = _Builder(program)
    for k in range(len(program.nodes)):
        builder.forward(k)
    for k in range(len(program.nodes)):
        if k not in builder.replaced:
            builder.backward(k)
            builder.weights(k)
            builder.total(k)
    if not builder.replaced:
        return program
    nodes = [n for k, node in enumerate(program.nodes) for n in builder.replaced.get(k, [node])]
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out = without_unused(without_repetitions(out))
    out.notes.append(
        f"chosen rows: {len(builder.replaced)} products of rows that an index chooses are made of "
        "all rows before, or of their sums"
    )
    return out


def _less(sizes: list[tuple[int, ...]], shape: tuple[int, ...], width: int) -> bool:
    """Whether products of arrays of these sizes are less work than one of this shape, and their
    results not much wider. width: of a row of the results."""
    rows, columns = shape
    inside = sum([n * m for n, m in sizes])
    return LESS * inside <= rows * columns and width * len(sizes) <= WIDER * columns


def _start(node: Node, block: Block) -> int | None:
    """The first of the columns of a block whose rows a node adds by an index; None if it does
    something else."""
    if node.name != "index_grad" or node.params["axis"] != 0 or len(node.views) != 2:
        return None
    view, index = node.views
    own, base, shape = view.layout, block.layout, node.params["shape"]
    if view.block is not block or index.block is block or len(shape) != 2 or own.ndim != 2:
        return None
    start, rest = divmod(view.offset, base.itemsize)
    fits = own.shape == (base.shape[0], shape[1]) and own.strides == base.strides
    if rest or not fits or start + shape[1] > base.shape[1] or index.layout.ndim != 1:
        return None
    return start if own.dtype == base.dtype and node.results[0].layout.contiguous else None


def _new(shape: tuple[int, ...], like: Layout) -> Block:
    return Block(RESULT, Layout.new(shape, like.dtype, like.device))


def _whole(block: Block) -> View:
    return View(block, block.layout, 0)


def _columns(view: View, start: int, count: int) -> View:
    """Columns of a matrix."""
    own, more = view.layout, start * view.layout.strides[1]
    aligned = own.aligned and more % 16 == 0
    shape = own.shape[0], count
    layout = Layout.of(shape, own.strides, own.dtype, own.device, aligned)
    return View(view.block, layout, view.offset + more)


def _turned(view: View) -> View:
    """The transpose of a matrix."""
    own = view.layout
    layout = Layout.of(own.shape[::-1], own.strides[::-1], own.dtype, own.device, own.aligned)
    return View(view.block, layout, view.offset)


def _sum(one: View, other: View, block: Block, line: str) -> Node:
    return _called("add", (one, other), block, line)


def _called(name: str, operands: tuple, block: Block, line: str) -> Node:
    """A node of an op that is called as a function."""
    op: Any = registry[name]
    return again(Node(op, (), (), {}, op, (block,), False, line=line), operands, (block,))
