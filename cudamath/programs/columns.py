"""Where a loop on a GPU keeps what its steps leave.

A step's results are written into the rows of arrays that are there before the loop, by the kernels
that compute them (`fusion.written_in_place`), so no step copies them there. A carry of which all
values are wanted (as a result of each step, or for the gradient, which needs what went into each
step) lies in an array of one row more than there are steps: the first row is what the loop begins
with, and each step reads its carry from one row and writes it into the next. Both results are
views of this array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.array import allocate, ndarray
from ..core.dispatch.op import registry
from ..core.layout import Layout
from .program import ARGUMENT, Block, Node, Program, View

copy_into: Any = registry["copy_into"]


def row_layout(layout: Layout) -> Layout:
    """The layout that all rows of an array in C order have."""
    row = Layout.new(layout.shape[1:], layout.dtype, layout.device)
    aligned = layout.device < 0 or layout.shape[0] == 1 or row.nbytes % 16 == 0
    return Layout.of(row.shape, row.strides, row.dtype, row.device, aligned)


class _Place(NamedTuple):
    """Where a result of the steps lies: of "rows" an array of its own, with a number; "after" or
    "before" the carry of a number, which is the value that the step gave, or took."""

    kind: str
    number: int


class Columns:
    """The arrays that the steps of a loop write into.

    Parameters
    ----------
    steps : int
        Number of steps.
    reverse : bool
        Whether the last row comes first.
    kept : int
        How many of the last results are there for the gradient: they share memory with others.
    """

    def __init__(self, steps: int, reverse: bool, kept: int):
        self.steps, self.reverse, self.kept = steps, reverse, kept
        self.count = 0
        self.stacked: list[int] = []  # numbers of carries
        self.places: list[_Place] = []  # of the results besides the carry
        self.own: list[Layout] = []  # rows of arrays of their own

    def body(self, program: Program, count: int) -> Program:
        """The body that writes into further arguments: a row for each stacked carry, then one for
        each result that has an array of its own."""
        results: list[View] = list(program.returned())
        self.count = count
        carry, others = results[:count], results[count:]
        shared: set[int] = set()
        for k, view in enumerate(others):
            place = self._of_carry(view, carry, k >= len(others) - self.kept)
            if place is not None and k < len(others) - self.kept:
                if place.number in shared:  # the user may write into one of them
                    place = None
                else:
                    shared.add(place.number)
            if place is None:
                place = _Place("rows", len(self.own))
                self.own.append(row_layout(_column(view.layout, self.steps)))
            self.places.append(place)
        self.stacked = sorted({p.number for p in self.places if p.kind != "rows"})
        rows = [view for view, p in zip(others, self.places, strict=True) if p.kind == "rows"]
        nodes = list(program.nodes)
        targets: list[View] = []
        first = len(program.arguments)
        for view in (*[carry[k] for k in self.stacked], *rows):
            layout = row_layout(_column(view.layout, self.steps))
            block = Block(ARGUMENT, layout, first + len(targets))
            target = View(block, layout, 0)
            run = copy_into.bound_once((layout, view.layout), {}, 0, program.device)
            operands = (target, view)
            nodes.append(Node(copy_into, operands, (), {}, run, (), True, (0,), None, "its end"))
            targets.append(target)
        moved = dict(zip(self.stacked, targets, strict=False))
        after = [moved.get(k, view) for k, view in enumerate(carry)]
        arguments = [*program.arguments, *[target.block for target in targets]]
        out = Program(arguments, nodes, after, program.device)
        out.notes, out.ambiguous = program.notes, program.ambiguous
        return out

    def _of_carry(self, view: View, carry: list[View], kept: bool) -> _Place | None:
        """Which carry a result is, if any, and its rows may follow one another."""
        if view.layout.nbytes % 16 or not view.layout.nbytes or not view.whole:
            return None
        if view.block.kind == ARGUMENT and view.block.index < self.count:
            number = view.block.index
            if carry[number].layout is view.layout:
                return _Place("before", number)
        for number, after in enumerate(carry):
            if not kept and after == view and after.layout is view.layout:
                return _Place("after", number)
        return None

    # -------------------- a run

    def arrays(self, carry: list[ndarray]) -> tuple[list[ndarray], list[ndarray]]:
        """The arrays of stacked carries, which begin with these, and those of other results."""
        stacks = []
        for k in self.stacked:
            layout = _column(carry[k]._layout, self.steps + 1)
            stacks.append(allocate(layout))
            copy_into(self._row(stacks[-1], self.steps if self.reverse else 0), carry[k])
        return stacks, [allocate(_column(row, self.steps)) for row in self.own]

    @staticmethod
    def _row(x: ndarray, i: int) -> ndarray:
        layout = row_layout(x._layout)
        return x._view(layout, i * layout.nbytes)

    def targets(self, stacks: list[ndarray], own: list[ndarray], i: int) -> list[ndarray]:
        """Into what step i writes."""
        after = i if self.reverse else i + 1
        return [*[self._row(x, after) for x in stacks], *[self._row(x, i) for x in own]]

    def last(self, stacks: list[ndarray], carry: list[ndarray]) -> list[ndarray]:
        """The carry after the last step, in memory of its own."""
        out = list(carry)
        for k, x in zip(self.stacked, stacks, strict=True):
            out[k] = allocate(carry[k]._layout)
            copy_into(out[k], self._row(x, 0 if self.reverse else self.steps))
        return out

    def spread(self, results: list[ndarray]) -> list[ndarray]:
        """[*carry, *results of the steps], views of what a run gave."""
        carry, arrays = results[: self.count], results[self.count :]
        stacks, own = arrays[: len(self.stacked)], arrays[len(self.stacked) :]
        out = list(carry)
        for place in self.places:
            if place.kind == "rows":
                out.append(own[place.number])
                continue
            stack = stacks[self.stacked.index(place.number)]
            row = row_layout(stack._layout)
            behind = (place.kind == "after") != self.reverse
            layout = _column(row, self.steps)
            out.append(stack._view(layout, row.nbytes if behind else 0))
        return out


def _column(row: Layout, steps: int) -> Layout:
    """The layout of an array of so many rows."""
    return Layout.new((steps, *row.shape), row.dtype, row.device)
