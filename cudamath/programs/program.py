"""A program: the ops of a whole function, in order, and the memory on which they work.

Memory is divided into *blocks*: the arguments, constants, and what the ops return. An operand is a
*view* of a block, which says where in the block it begins and with which layout. So views, aliases
and writes in place need no rules of their own: two views share elements only if they are of one
block, or of blocks that overlap in the caller's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..core.array import ndarray
from ..core.layout import Layout

ARGUMENT, CONSTANT, RESULT = "argument", "constant", "result"


class Block:
    """A piece of memory.

    Attributes
    ----------
    kind : str
        ARGUMENT: an array that the caller passes. CONSTANT: an array that the function found
        elsewhere, or made of values of the host. RESULT: what a node returns.
    layout : Layout
        Of the array that spans the block.
    index : int
        The number of the argument, or of the node's result.
    array : ndarray or None
        The array of a constant.
    group : Block
        One block for all that share memory: the first argument of those that overlap, otherwise
        the block itself.
    fresh : bool
        A constant that the function makes anew at each call, so that writes into it, and results
        over it, are those of this call alone.
    """

    __slots__ = ("kind", "layout", "index", "array", "group", "fresh")

    def __init__(
        self,
        kind: str,
        layout: Layout,
        index: int = 0,
        array: ndarray | None = None,
        fresh: bool = False,
    ):
        self.kind, self.layout, self.index, self.array = kind, layout, index, array
        self.group, self.fresh = self, fresh

    @property
    def outside(self) -> bool:
        """Whether others see what is written into the block."""
        return self.kind != RESULT and not self.fresh

    def __repr__(self) -> str:
        return f"<{self.kind} {self.layout.dtype} {self.layout.shape}>"


class View(NamedTuple):
    """An operand: an array over a part of a block. offset: in bytes, from the first element of the
    array that spans the block."""

    block: Block
    layout: Layout
    offset: int

    @property
    def whole(self) -> bool:
        """Whether this is the array that spans the block."""
        return not self.offset and self.layout is self.block.layout

    @property
    def spans(self) -> bool:
        """Whether this has all elements of the block, in the same order: perhaps in another
        shape."""
        own, base = self.layout, self.block.layout
        return self.whole or (
            own.contiguous
            and base.contiguous
            and (own.size, own.dtype, self.offset) == (base.size, base.dtype, 0)
        )


class Draw(NamedTuple):
    """A random draw: the source, the arguments of its `take`, and a number that draws share which
    get the same part of the sequence."""

    source: Any
    taken: tuple
    number: int


class Node:
    """One op of a program.

    Attributes
    ----------
    op : object
        Its definition.
    operands : tuple
        Views, None for a missing array, and the numbers of an elementwise op.
    scalars, params, run
        As in a step of a call record.
    results : tuple of Block
        What it returns, empty for an op that only writes.
    several : bool
        Whether `run` returns a tuple.
    written : tuple of int
        The operands that it writes into.
    draw : Draw or None
        For a random draw.
    line : str
        The line of the user's function.
    views : list of View
        The operands that are arrays.
    targets : list of View
        Those that it writes into.
    used : frozenset of Block
        Where its operands lie.
    """

    __slots__ = (
        "views",
        "targets",
        "used",
        "op",
        "operands",
        "scalars",
        "params",
        "run",
        "results",
        "several",
        "written",
        "draw",
        "line",
    )

    def __init__(
        self,
        op: Any,
        operands: tuple,
        scalars: tuple,
        params: dict,
        run: Callable,
        results: tuple[Block, ...],
        several: bool,
        written: tuple[int, ...] = (),
        draw: Draw | None = None,
        line: str = "",
    ):
        self.op, self.operands, self.scalars, self.params = op, operands, scalars, params
        self.run, self.results, self.several = run, results, several
        self.written, self.draw, self.line = written, draw, line
        self.views = [x for x in operands if isinstance(x, View)]
        self.targets = [operands[i] for i in written if isinstance(operands[i], View)]
        self.used = frozenset([view.block for view in self.views])

    @property
    def name(self) -> str:
        return self.op.name

    def with_operands(self, operands: tuple) -> Node:
        """The same op on other operands."""
        return Node(
            self.op,
            operands,
            self.scalars,
            self.params,
            self.run,
            self.results,
            self.several,
            self.written,
            self.draw,
            self.line,
        )

    def __repr__(self) -> str:
        return f"<Node {self.name}>"


class Program:
    """The ops of a function.

    Attributes
    ----------
    arguments : list of Block
        One for each array argument.
    nodes : list of Node
        In order.
    results : list
        What the function returns: a View for an array, anything else as it is.
    notes : list of str
        What was simplified and fused, and why not more: `explain` prints them.
    device : int
        Where the program runs: -1 is the CPU.
    ambiguous : bool
        Whether an argument shares memory with a constant, so that a view may be one of either. Such
        a program is not kept.
    """

    def __init__(self, arguments: list[Block], nodes: list[Node], results: list[Any], device: int):
        self.arguments, self.nodes, self.results, self.device = arguments, nodes, results, device
        self.notes: list[str] = []
        self.ambiguous = False

    def constants(self) -> list[Block]:
        """The constants that the program reads or returns."""
        blocks = [v.block for node in self.nodes for v in node.views]
        blocks += [v.block for v in self.results if isinstance(v, View)]
        return [b for b in dict.fromkeys(blocks) if b.kind == CONSTANT]

    def made(self) -> list[Block]:
        """The blocks of the results that the program makes, in the order in which `run` returns
        them. Other results lie in arguments, or outside."""
        blocks = dict.fromkeys(view.block for view in self.returned())
        return [b for b in blocks if b.kind == RESULT or b.fresh]

    @property
    def reads(self) -> bool:
        """Whether a run waits for its device to read a value, as a loop by a condition does."""
        return any([getattr(node.op, "reads", False) for node in self.nodes])

    def written(self) -> set[Block]:
        """The groups of blocks into which the program writes."""
        return {view.block.group for node in self.nodes for view in node.targets}

    def returned(self) -> Iterator[View]:
        """The arrays among the results."""
        return (v for v in self.results if isinstance(v, View))
