"""What the steps of a loop need not do one after the other.

- A product of a step's row with a matrix that is the same for all steps is one product of all rows,
  before the loop. The gradient of a loop runs each step once more: its products are such.
- A sum over all steps of products (the gradient of a matrix that all steps use), or of sums over
  rows (that of a bias), is one product, or sum, of what the steps leave, after the loop.

The loop of a recurrent network has the products with the state left, and the gates.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core import recording
from ..core.array import ndarray
from ..core.layout import Layout
from ..core.scalar import inside
from .doors import PRODUCTS, Users
from .program import ARGUMENT, RESULT, Block, Node, Program, View
from .simplify import edited

MOST = 1 << 28  # bytes of an array that holds something of all steps


class _Before(NamedTuple):
    """A product before the loop: its node, and where its operands are: None, ("row", number), or
    ("captured", number, layout, offset)."""

    node: Node
    operands: tuple[Any, ...]


class _After(NamedTuple):
    """A sum after the loop: the number of the carry, the node of a step's term, and where its
    operands are: numbers of rows, or of the loop's other results."""

    carry: int
    node: Node
    sources: tuple[tuple[str, int], ...]


class Hoisting:
    """What is taken out of the body of a loop.

    Parameters
    ----------
    count : int
        Arrays in the carry: the first arguments and the first results of the body.
    rows : int
        Arrays of which a step gets a row: the next arguments. What follows is the same for all
        steps.
    steps : int
        Number of steps.
    sums : bool
        Whether sums may be taken out: not where the gradient of the loop will be taken.
    """

    def __init__(self, count: int, rows: int, steps: int, sums: bool):
        self.count, self.rows, self.steps, self.sums = count, rows, steps, sums
        self.before: list[_Before] = []
        self.after: list[_After] = []

    def body(self, program: Program) -> Program:
        """The body without what is taken out: with further rows, and other results."""
        program = self._without_products(program)
        return self._without_sums(program) if self.sums else program

    def kept(self, carry: Sequence[ndarray]) -> list[ndarray]:
        """The part of the carry that the loop still has."""
        gone = {one.carry for one in self.after}
        return [x for k, x in enumerate(carry) if k not in gone]

    def more_rows(self, rows: Sequence[ndarray], captured: Sequence[ndarray]) -> list[ndarray]:
        """The products before the loop, from all rows and what is the same for all steps."""

        def array(at: Any) -> ndarray | None:
            if at is None:
                return None
            return rows[at[1]]._alias() if at[0] == "row" else captured[at[1]]._view(*at[2:])

        with recording.paused(), inside():
            return [
                one.node.op(*map(array, one.operands), **one.node.params) for one in self.before
            ]

    def results(
        self, results: list[ndarray], carry: Sequence[ndarray], rows: Sequence[ndarray], others: int
    ) -> list[ndarray]:
        """What the loop would have returned, from what it does: [*carry, *others]."""
        kept = iter(results[: self.count - len(self.after)])
        columns = results[self.count - len(self.after) :]
        sums = {}
        with recording.paused(), inside():
            for one in self.after:
                arrays = [(rows if of == "row" else columns)[i] for of, i in one.sources]
                sums[one.carry] = carry[one.carry]._alias() + _term(one.node, arrays)
        last = [sums[k] if k in sums else next(kept) for k in range(self.count)]
        return [*last, *columns[:others]]

    def _without_products(self, program: Program) -> Program:
        """The body that finds products of its rows among its rows."""
        found: dict[Block, Node] = {}
        for node in program.nodes:
            operands = self._of_rows(node) if node.name in PRODUCTS else None
            if operands is not None:
                found[node.results[0]] = node
                self.before.append(_Before(node, operands))
        if not found:
            return program
        first = self.count + self.rows
        blocks = [
            Block(ARGUMENT, b.layout, first + i) for i, b in enumerate(found)
        ]  # between the rows and the rest
        for block in program.arguments[first:]:
            block.index += len(blocks)
        arguments = [*program.arguments[:first], *blocks, *program.arguments[first:]]
        gone = set(map(id, found.values()))
        nodes = [node for node in program.nodes if id(node) not in gone]
        out = Program(arguments, nodes, program.results, program.device)
        out.notes, out.ambiguous = program.notes, program.ambiguous
        out.notes.append(f"loop: {len(blocks)} products are made before it, for all steps")
        replaced = {b: View(a, b.layout, 0) for b, a in zip(found, blocks, strict=True)}
        return edited(out, nodes, replaced)

    def _of_rows(self, node: Node) -> tuple[Any, ...] | None:
        """Where the operands are of a product of a row with what is the same for all steps; None
        for another one."""
        layout = node.results[0].layout
        x, weight, *more = node.operands
        if not x.layout.ndim == weight.layout.ndim == layout.ndim == 2 or not layout.contiguous:
            return None
        if layout.nbytes * self.steps > MOST:
            return None
        bias, residual = (*more, None, None)[:2]
        places = [self._row(x), self._captured(weight)]
        places += [self._captured(bias) if bias is not None else None][: len(more)]
        places += [self._row(residual) if residual is not None else None][: max(len(more) - 1, 0)]
        there = [v is None or at is not None for v, at in zip(node.operands, places, strict=True)]
        return tuple(places) if all(there) else None

    def _row(self, view: View) -> tuple | None:
        """Where a whole row is."""
        number = view.block.index - self.count
        there = view.whole and view.block.kind == ARGUMENT and 0 <= number < self.rows
        return ("row", number) if there else None

    def _captured(self, view: View) -> tuple | None:
        """Where a view of what is the same for all steps is."""
        number = view.block.index - self.count - self.rows
        there = view.block.kind == ARGUMENT and number >= 0
        return ("captured", number, view.layout, view.offset) if there else None

    def _without_sums(self, program: Program) -> Program:
        """The body that leaves what sums over the steps are made of."""
        users = Users(program)
        gone: set[int] = set()
        results = list(program.results)
        for k in range(self.count):
            found = self._sum(program, users, k)
            if found is None:
                continue
            addition, term, views = found
            sources = []
            for view in views:
                if view.block.kind == ARGUMENT:
                    sources.append(("row", view.block.index - self.count))
                    continue
                whole = View(view.block, view.block.layout, 0)
                if whole not in results[self.count :]:
                    results.append(whole)
                sources.append(("column", results.index(whole, self.count) - self.count))
            self.after.append(_After(k, program.nodes[term], tuple(sources)))
            gone |= {addition, term}
        if not gone:
            return program
        carries = {one.carry for one in self.after}
        arguments = [b for i, b in enumerate(program.arguments) if i not in carries]
        for i, block in enumerate(arguments):
            block.index = i
        out = Program(
            arguments,
            [node for i, node in enumerate(program.nodes) if i not in gone],
            [view for i, view in enumerate(results) if i not in carries],
            program.device,
        )
        out.notes, out.ambiguous = program.notes, program.ambiguous
        out.notes.append(f"loop: {len(carries)} sums over the steps are made after it")
        return out

    def _sum(self, program: Program, users: Users, k: int) -> tuple[int, int, list[View]] | None:
        """Carry k as a sum over the steps: the numbers of the nodes of the addition and of the
        term, and the term's operands."""
        result, argument = program.results[k], program.arguments[k]
        at = users.made.get(result.block)
        if at is None or not result.whole or users.of[result.block] != [-1]:
            return None
        addition = program.nodes[at]
        if addition.name != "add" or users.of.get(argument, []) != [at]:
            return None
        terms = [view for view in addition.views if view.block is not argument]
        if len(terms) != 1 or not terms[0].whole or terms[0].layout is not result.layout:
            return None
        term = users.made.get(terms[0].block)
        if term is None or users.only(terms[0].block) is None:
            return None
        node = program.nodes[term]
        views = node.views
        if not _summed(node) or any([not self._is_left(view, users, term) for view in views]):
            return None
        return at, term, views

    def _is_left(self, view: View, users: Users, term: int) -> bool:
        """Whether an operand of a term may be left for the time after the loop."""
        block = view.block
        row = block.kind == ARGUMENT and self.count <= block.index < self.count + self.rows
        made = block.kind == RESULT and block.layout.nbytes * self.steps <= MOST
        return (row or made) and not users.changes(view, term, sys.maxsize)


def _rows(view: View) -> bool:
    """Whether a view is a whole block (rows, columns)."""
    return view.offset == 0 and view.layout.ndim == 2 and view.layout is view.block.layout


def _columns(view: View) -> bool:
    """Whether a view is a whole block (rows, columns), transposed."""
    own, base = view.layout, view.block.layout
    return (
        view.offset == 0
        and base.ndim == own.ndim == 2
        and base.contiguous
        and own.shape == base.shape[::-1]
        and own.strides == base.strides[::-1]
    )


def _summed(node: Node) -> bool:
    """Whether a node sums over all rows of its operands: x^T y, or the sum of rows."""
    if node.name == "matmul":
        left, right = node.views
        return _columns(left) and _rows(right) and right.layout.contiguous
    if node.params.get("kind") == "sum" and len(node.views) == len(node.operands) == 1:
        return node.params["axis"] == (0,) and not node.params["keepdims"] and _rows(node.views[0])
    return False


def _term(node: Node, arrays: list[ndarray]) -> ndarray:
    """The sum of a node's results over all steps, from its operands at all of them."""
    flat = [x._alias().reshape((-1, x.shape[-1])) for x in arrays]
    if node.name == "matmul":
        return node.op(flat[0].mT, flat[1], **node.params)
    return flat[0].sum(0, dtype=node.params["dtype"])


def takes_apart(layout: Layout) -> bool:
    """Whether loops over such arrays are taken apart: on a GPU. A CPU's programs give the bits of
    the function, in which sums have another order."""
    return layout.device >= 0
