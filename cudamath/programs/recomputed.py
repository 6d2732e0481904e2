"""Results that are computed again instead of kept.

What a gradient needs of a layer is kept for as long as the layers after it take: written, and read
much later. Much of it is cheap to compute again from something else that lies in memory: a softmax
by hand needs its scores shifted and exponentiated, both of which are a few operations on the
product that the forward pass has written anyway. To compute them again takes nothing in a kernel
that waits for memory.

The operations between two that cannot be fused (a product, a convolution) run together: a *place*.
For each place that needs results of others long before it, the cheapest arrays are chosen from
which elementwise operations lead to all that it needs: the least cut between what lies in memory
and what is needed. An array costs its bytes to be read; more if it would be written for this alone,
and if it would be kept for this alone.

A comparison for equality looks for the very number, as the gradient of a maximum does, and a number
that is computed again may differ in its last bit: such a comparison runs early, where the number is
computed, and its result, a byte, is kept.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from typing import Any

from ..ops.ufunc import Elementwise
from .doors import Users
from .program import RESULT, Block, Node, Program, View
from .simplify import without_unused
from .slices import again

FAR = 2  # operations that cannot be fused, between a result and a use for which it is made again
LEAST = 1 << 20  # bytes of such a result: smaller ones lie in the cache
SMALL = 16  # an array of fewer elements than a result has, so many times, is read for nothing
MOST = 48  # arrays from which those of a place are chosen
# what it costs to read, to write, and to keep a byte; a choice must cost less by this
READ, WRITE, KEEP, GAIN = 4, 4, 2, 0.75
EQUAL = ("equal", "not_equal")


def recomputed(
    program: Program, elementwise: Callable[[Node], bool], joins: Callable[[Node], bool]
) -> Program:
    """The program in which elementwise operations are repeated where their results are used much
    later, and what they are computed from costs less.

    Parameters
    ----------
    program : Program
        What runs.
    elementwise : callable
        Whether each element of a node's result depends on one element of each operand.
    joins : callable
        Whether a node can be part of a kernel with others.

    Returns
    -------
    Program
        The program itself where there are none.
    """
    program, early = _early(program, elementwise, joins)
    places = _Places(program, elementwise, joins)
    before: dict[int, list[Node]] = {}  # what runs before a node
    nodes = list(program.nodes)
    count = 0
    found = places.uses()
    for _ in range(2):  # the second time it is known what others read
        for uses in reversed(found):
            places.choose(uses)
    for uses in found:
        copies = places.copies(uses)
        if not copies:
            continue
        before.setdefault(_ends(uses)[0], []).extend([node for node, _ in copies.values()])
        count += len(copies)
        moved = {block: copy for block, (_, copy) in copies.items() if block in uses}
        for block in moved:
            for i in uses[block]:
                nodes[i] = _reading(nodes[i], moved)
    if not count:
        return program
    out = Program(
        program.arguments,
        [n for k, node in enumerate(nodes) for n in [*before.get(k, ()), node]],
        program.results,
        program.device,
    )
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out = without_unused(out)
    out.notes.append(f"recomputed: {count} results instead of being kept")
    if early:
        out.notes.append(f"recomputed: {early} comparisons run where their numbers are computed")
    return out


def _places_of(program: Program, joins: Callable[[Node], bool]) -> list[int]:
    """For each node how many before it cannot be fused."""
    return list(itertools.accumulate([not joins(node) for node in program.nodes], initial=0))


def _early(
    program: Program, elementwise: Callable[[Node], bool], joins: Callable[[Node], bool]
) -> tuple[Program, int]:
    """The program in which comparisons for equality of what was computed much earlier, and would be
    kept for them, run there; and how many have moved."""
    users, place = Users(program), _places_of(program, joins)
    after: dict[int, list[Node]] = {}
    for i, node in enumerate(program.nodes):
        if node.name not in EQUAL or not elementwise(node):
            continue
        made = [users.made.get(view.block, -1) for view in node.views]
        large = [
            k
            for k, view in zip(made, node.views, strict=True)
            if view.layout.size * SMALL > node.results[0].layout.size
        ]
        at = max(made, default=-1)
        if (
            at >= 0
            and place[i] - place[at] >= FAR
            and node.results[0].layout.size >= LEAST
            and all([k >= 0 and elementwise(program.nodes[k]) for k in large])
            and not any([users.changes(view, at, i) for view in node.views])
        ):
            after.setdefault(at, []).append(node)
    if not after:
        return program, 0
    moved = {id(node) for each in after.values() for node in each}
    nodes = [
        n
        for k, node in enumerate(program.nodes)
        for n in [*([] if id(node) in moved else [node]), *after.get(k, ())]
    ]
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    return out, len(moved)


class _Places:
    """A program, and which results its places need of earlier ones."""

    def __init__(
        self,
        program: Program,
        elementwise: Callable[[Node], bool],
        joins: Callable[[Node], bool],
    ):
        self.program, self.users = program, Users(program)
        self.place = _places_of(program, joins)
        self.cheap = [elementwise(node) and _cheap(node) for node in program.nodes]
        self.joins = [joins(node) for node in program.nodes]
        self.wanted: dict[Block, int] = {}  # by how many places much later
        self.chosen: dict[int, set[Block]] = {}  # by each place, that is known by its first node
        self.read: collections.Counter[Block] = collections.Counter()  # by how many places

    def uses(self) -> list[dict[Block, list[int]]]:
        """For each place what it needs of much earlier ones, and the nodes that use that."""
        found: dict[int, dict[Block, list[int]]] = {}
        for i, node in enumerate(self.program.nodes):
            for view in node.views if self.joins[i] else ():
                k = self.users.made.get(view.block)
                if k is not None and self._recomputable(k) and self.place[i] - self.place[k] >= FAR:
                    found.setdefault(self.place[i], {}).setdefault(view.block, []).append(i)
        for uses in found.values():
            for block in list(uses):
                parts = [v for i in uses[block] for v in self.program.nodes[i].views]
                if any([view.block is block and not view.whole for view in parts]):
                    del uses[block]
                else:
                    self.wanted[block] = self.wanted.get(block, 0) + 1
        return [uses for uses in found.values() if uses]

    def _recomputable(self, k: int) -> bool:
        """Whether the result of node k may be computed again."""
        if not self.cheap[k]:
            return False
        block = self.program.nodes[k].results[0]
        large = block.layout.nbytes >= LEAST and block.layout.contiguous
        return large and not self.users.written.get(block.group)

    def _cost(self, block: Block, last: int) -> int:
        """What it costs a place that ends at node `last` to read an array."""
        k = self.users.made.get(block)
        using = self.users.of.get(block, [])
        stored = k is None or not self.joins[k] or self.read[block] > 0
        stored = stored or any([i < 0 or not self.joins[i] for i in using])
        later = block.kind != RESULT or any([i < 0 or i > last for i in using if self._stays(i)])
        share = 0 if stored else WRITE / max(self.wanted.get(block, 1), 1)
        return int(block.layout.nbytes * (READ + share + (0 if later else KEEP)))

    def _stays(self, i: int) -> bool:
        """Whether node i reads from memory, whatever places choose."""
        return i < 0 or not self.joins[i]

    def choose(self, uses: dict[Block, list[int]]) -> None:
        """Choose what a place reads."""
        first, last = _ends(uses)
        self.read.subtract(self.chosen.get(first, ()))
        cost: dict[Block, int] = {}
        edges: list[tuple[Block, Block]] = []
        sources: list[Block] = []
        queue = list(uses)
        while queue:
            block = queue.pop(0)
            if block in cost:
                continue
            cost[block] = self._cost(block, last)
            k = self.users.made.get(block)
            operands = self._operands(block, k, first) if len(cost) < MOST else None
            if operands is None:
                sources.append(block)
                continue
            edges += [(view.block, block) for view in operands]
            queue += [view.block for view in operands]
        chosen = _least_cut(cost, edges, sources, list(uses))
        spent = sum([cost[block] for block in chosen])
        if spent > GAIN * sum([cost[block] for block in uses]):
            chosen = set(uses)
        self.chosen[first] = chosen
        self.read.update(chosen)

    def copies(self, uses: dict[Block, list[int]]) -> dict[Block, tuple[Node, Block]]:
        """The operations that a place repeats, in order: for each result the node and its own
        result."""
        copies: dict[Block, tuple[Node, Block]] = {}
        for block in uses:
            self._repeat(block, self.chosen[_ends(uses)[0]], copies)
        return copies

    def _operands(self, block: Block, k: int | None, first: int) -> list[View] | None:
        """The large operands of the node that makes a block, if a place that begins at node `first`
        may repeat it."""
        if k is None or not self._recomputable(k) or self.place[first] - self.place[k] < FAR:
            return None
        node = self.program.nodes[k]
        if any([self.users.changes(view, k, first) for view in node.views]):
            return None
        large = [v for v in node.views if v.layout.size * SMALL > block.layout.size]
        if not large or any([self._made_of_parts(view) for view in node.views]):
            return None
        return large

    def _made_of_parts(self, view: View) -> bool:
        """Whether a view is a part of what might be computed again, which a kernel cannot read."""
        k = self.users.made.get(view.block)
        return not view.whole and k is not None and self._recomputable(k)

    def _repeat(
        self, block: Block, chosen: set[Block], copies: dict[Block, tuple[Node, Block]]
    ) -> None:
        """Add what computes a block from the chosen ones."""
        stack = [block]
        while stack:
            block = stack[-1]
            k = self.users.made.get(block)
            if block in chosen or block in copies or k is None or not self._recomputable(k):
                stack.pop()
                continue
            node = self.program.nodes[k]
            large = [v.block for v in node.views if v.layout.size * SMALL > block.layout.size]
            rest = [b for b in large if b not in chosen and b not in copies and self._is_made(b)]
            if rest:
                stack += rest
                continue
            copy = Block(RESULT, block.layout)
            operands = _reading(node, {b: other for b, (_, other) in copies.items()}).operands
            copies[block] = again(node, operands, (copy,)), copy
            stack.pop()

    def _is_made(self, block: Block) -> bool:
        k = self.users.made.get(block)
        return k is not None and self._recomputable(k)


def _ends(uses: dict[Block, list[int]]) -> tuple[int, int]:
    """The first and the last node that use something."""
    at = [i for each in uses.values() for i in each]
    return min(at), max(at)


def _cheap(node: Node) -> bool:
    """Whether a node computes little, and what may differ in its last bit."""
    if node.name in EQUAL:
        return False
    text = node.op.expressions.get("", "") if isinstance(node.op, Elementwise) else ""
    return "special_" not in text.replace("special_erf(", "")


def _least_cut(
    cost: dict[Block, int],
    edges: list[tuple[Block, Block]],
    sources: list[Block],
    sinks: list[Block],
) -> set[Block]:
    """The blocks of least cost that all ways from the sources to the sinks lead through; of several
    such choices the one next to the sinks."""
    # each block is two vertices, with an edge of its cost from the first to the second
    infinite = sum(cost.values()) + 1
    left: dict[Any, dict[Any, int]] = {}

    def edge(a: Any, b: Any, capacity: int) -> None:
        left.setdefault(a, {})[b] = left.get(a, {}).get(b, 0) + capacity
        left.setdefault(b, {}).setdefault(a, 0)

    start, end = "start", "end"
    for block, price in cost.items():
        edge((block, 0), (block, 1), price)
    for a, b in edges:
        edge((a, 1), (b, 0), infinite)
    for block in sources:
        edge(start, (block, 0), infinite)
    for block in sinks:
        edge((block, 1), end, infinite)
    while True:
        came: dict[Any, Any] = {start: start}
        queue: list[Any] = [start]
        for a in queue:
            for b, capacity in left.get(a, {}).items():
                if capacity > 0 and b not in came:
                    came[b] = a
                    queue.append(b)
        if end not in came:
            break
        path: list[tuple] = []
        at: Any = end
        while at != start:
            path.append((came[at], at))
            at = came[at]
        flow = min([left[a][b] for a, b in path])
        for a, b in path:
            left[a][b] -= flow
            left[b][a] += flow
    reaches: set[Any] = {end}  # from where there is a way left to the end
    queue = [end]
    for b in queue:
        for a in left[b]:
            if a not in reaches and left[a].get(b, 0) > 0:
                reaches.add(a)
                queue.append(a)
    return {block for block in cost if (block, 1) in reaches and (block, 0) not in reaches}


def _reading(node: Node, copies: dict[Block, Block]) -> Node:
    """The node, which reads copies."""

    def moved(x: object) -> object:
        if isinstance(x, View) and x.block in copies:
            return View(copies[x.block], x.layout, x.offset)
        return x

    return node.with_operands(tuple(map(moved, node.operands)))
