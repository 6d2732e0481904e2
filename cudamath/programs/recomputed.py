"""Results that are computed again instead of kept.

`silu(a) * b` is one kernel. Its gradient needs silu(a) once more, much later, and a anyway. To keep
silu(a) takes a write, a read, and memory from the one to the other; to compute it again takes
nothing in a kernel that waits for memory.
"""

from __future__ import annotations

from collections.abc import Callable

from .doors import Users
from .program import RESULT, Block, Node, Program, View
from .simplify import without_unused
from .slices import again

FAR = 16  # operations between a result and a use of it for which it is computed again
LEAST = 1 << 20  # bytes of such a result: smaller ones lie in the cache
SMALL = 16  # an operand of fewer elements than the result has, so many times, is read for nothing


def recomputed(program: Program, elementwise: Callable[[Node], bool]) -> Program:
    """The program in which elementwise operations are repeated where their results are used much
    later, by such operations alone, and what they read is there anyway.

    Parameters
    ----------
    program : Program
        What runs.
    elementwise : callable
        Whether each element of a node's result depends on one element of each operand.

    Returns
    -------
    Program
        The program itself where there are none.
    """
    users = Users(program)
    copies: dict[int, dict[Block, Block]] = {}  # for a node: what it reads instead of a block
    more: dict[int, list[Node]] = {}  # before a node
    last: dict[Block, tuple[int, Block]] = {}  # copies of a block: where, and which
    count = 0
    for k, node in enumerate(program.nodes):
        if not elementwise(node) or node.results[0].layout.nbytes < LEAST:
            continue
        (block,) = node.results
        using = sorted({*users.of.get(block, ())})
        alone = [i for i in using if i < 0 or not elementwise(program.nodes[i])]
        if alone or users.written.get(block.group) or not _reads_little(node, block):
            continue
        standing, copy = k, block
        for i in using:
            if i - standing <= FAR:
                if copy is not block:
                    copies.setdefault(i, {})[block] = copy
                continue
            near = {b: other for b, (at, other) in last.items() if at <= i <= at + FAR}
            if not all([v.block in near or _is_there(v, k, i, users) for v in node.views]):
                break  # later it is not there either
            repeated = _repeated(node, near)
            more.setdefault(i, []).append(repeated)
            standing, copy = i, repeated.results[0]
            last[block] = i, copy
            copies.setdefault(i, {})[block] = copy
            count += 1
    if not count:
        return program
    nodes = []
    for k, node in enumerate(program.nodes):
        nodes += [*more.get(k, ()), _reading(node, copies[k]) if k in copies else node]
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    out = without_unused(out)
    out.notes.append(f"recomputed: {count} results instead of being kept")
    return out


def _reads_little(node: Node, block: Block) -> bool:
    """Whether a node reads one array of its result's size, and otherwise small ones."""
    large = [view for view in node.views if view.layout.size * SMALL > block.layout.size]
    return len(large) == 1 and large[0].layout.nbytes <= 2 * block.layout.nbytes


def _is_there(view: View, k: int, i: int, users: Users) -> bool:
    """Whether what node k reads can be read before node i as well, and is kept for others."""
    using = users.of[view.block]
    kept = view.block.kind != RESULT or -1 in using or max(using) >= i
    return kept and not users.changes(view, k, i)


def _reading(node: Node, copies: dict[Block, Block]) -> Node:
    """The node, which reads copies."""

    def moved(x: object) -> object:
        if isinstance(x, View) and x.block in copies:
            return View(copies[x.block], x.layout, x.offset)
        return x

    return node.with_operands(tuple(map(moved, node.operands)))


def _repeated(node: Node, copies: dict[Block, Block]) -> Node:
    """The operation once more, with a result of its own."""
    block = Block(RESULT, node.results[0].layout)
    return again(node, _reading(node, copies).operands, (block,))
