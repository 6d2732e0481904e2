"""The order of operations where most memory is in use: one that frees more than it takes runs
earlier, one that takes more than it frees later.

Of a layer's two gradients, that of the weight is the last to read what the forward pass kept, and
that of the input needs memory as large: the former comes first. The gradient along a residual waits
until it is added.
"""

from __future__ import annotations

from ..runtime.memory import rounded
from .memory_plan import in_use, lifetimes
from .program import Block, Node, Program
from .simplify import edited

FAR = 64  # operations that one may pass
NEAR = 0.75  # of the peak: where less is in use, operations stay
LEAST = 1 << 20  # bytes that are worth it


def less_at_a_time(program: Program) -> Program:
    """The program in another order, in which less memory is in use at the peak."""
    order = _Order(program)
    count = len(order.nodes)
    moved = sum([order.up(k) for k in range(count)])
    moved += sum([order.down(k) for k in reversed(range(count))])
    if not moved:
        return program
    program.notes.append(f"order: {moved} operations run where less memory is in use")
    return edited(program, order.nodes, {})


class _Order:
    """The nodes, and what is in use meanwhile.

    Attributes
    ----------
    nodes : list of Node
        In their order.
    live : list of int
        The bytes that are in use while each of them runs.
    last : dict
        Block -> the last node that uses it; of blocks that end before the program does.
    """

    def __init__(self, program: Program):
        self.nodes = list(program.nodes)
        lives, count = lifetimes(program), len(self.nodes)
        self.live = in_use(program, lives)
        self.last = {
            block: self.nodes[life.last] for block, life in lives.items() if life.last < count
        }
        self.peak = max(self.live, default=0)

    def up(self, k: int) -> bool:
        """Move node k up as far as that leaves less in use; whether it was moved."""
        node = self.nodes[k]
        freed = {b for b in node.used if self.last.get(b) is node}
        made = _taken(node)
        if made + LEAST > sum(map(_size, freed)) or not _may_move(node):
            return False
        changes: list[int] = []  # of what is in use while those run that it passes
        for other in reversed(self.nodes[max(k - FAR, 0) : k]):
            freed = freed - other.used
            if _depend(other, node) or made + LEAST > sum(map(_size, freed)):
                break
            changes.append(made - sum(map(_size, freed)))
        first = k - len(changes)
        while first < k and self._before(first) + made > max(self.live[first : k + 1]):
            first += 1  # more would be in use than before
        if first == k or not self._matters(first, k):
            return False
        own = self._before(first) + made
        new = [a + b for a, b in zip(self.live[first:k], changes[k - first - 1 :: -1], strict=True)]
        self._move(k, first, [own, *new])
        return True

    def down(self, k: int) -> bool:
        """Move node k down as far as that leaves less in use; whether it was moved."""
        node = self.nodes[k]
        made = sum([_size(b) for b in node.results if b in self.last])
        if made < LEAST or made != _taken(node) or not _may_move(node):
            return False
        held = {b for b in node.used if self.last.get(b) is node}  # what has to wait with it
        changes: list[int] = []
        own = self.live[k]
        best, after = k, own
        for i in range(k + 1, min(k + 1 + FAR, len(self.nodes))):
            other = self.nodes[i]
            change = sum(map(_size, held)) - made
            if _depend(node, other) or change + LEAST > 0:
                break
            changes.append(change)
            ended = {b for b in (*other.used, *other.results) if self.last.get(b) is other}
            held |= ended & node.used
            own = self.live[i] + change + made - sum(map(_size, ended - node.used))
            if own <= max(self.live[k : i + 1]):
                best, after = i, own
        if best == k or not self._matters(k, best):
            return False
        moved = zip(self.live[k + 1 : best + 1], changes, strict=False)
        self._move(k, best, [*[a + b for a, b in moved], after])
        return True

    def _before(self, k: int) -> int:
        """What is in use when node k begins."""
        return self.live[k] - _taken(self.nodes[k])

    def _matters(self, first: int, last: int) -> bool:
        """Whether the peak is near, between two nodes."""
        return max(self.live[first : last + 1]) > NEAR * self.peak

    def _move(self, k: int, to: int, live: list[int]) -> None:
        """Move a node. live: what is in use then while each of those runs that change places."""
        node, first, end = self.nodes.pop(k), min(k, to), max(k, to) + 1
        self.nodes.insert(to, node)
        self.live[first:end] = live
        for other in self.nodes[first:end]:
            for block in other.used & node.used:
                if self.last.get(block) in self.nodes[first:end]:
                    self.last[block] = other


def _size(block: Block) -> int:
    return rounded(block.layout.nbytes)


def _taken(node: Node) -> int:
    """The bytes that a node takes."""
    return sum(map(_size, node.results))


def _may_move(node: Node) -> bool:
    """Whether a node does nothing but compute results, or write what it says."""
    return node.draw is None and not hasattr(node.op, "programs") and bool(node.used)


def _depend(first: Node, second: Node) -> bool:
    """Whether two nodes cannot change places."""
    if not second.used.isdisjoint(first.results) or not first.used and not first.results:
        return True
    writes = [{view.block.group for view in node.targets} for node in (first, second)]
    if not any(writes):
        return False
    used = [{block.group for block in node.used} for node in (first, second)]
    return not (writes[0].isdisjoint(used[1]) and writes[1].isdisjoint(used[0]))
