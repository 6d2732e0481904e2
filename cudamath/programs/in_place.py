"""Results in the memory of an operand that nobody reads afterwards.

Each element is written by the one thread that reads the operand's element there, and after that: in
the kernels of an op that says so (`over`), and in those of `cm.fuse` that read an array only where
they write. The logits of a language model are its largest array, and their gradient is as large;
both would be there at the peak.
"""

from __future__ import annotations

from typing import Any

from .doors import Users
from .fusion import Fused, alone, elementwise, placed
from .memory_plan import in_use, lifetimes
from .program import RESULT, Block, Node, Program, View
from .simplify import edited

LEAST = 1 << 20  # bytes of a result that is worth it
NEAR = 0.75  # of the peak: where less is in use, kernels stay as they are


def in_place(program: Program) -> Program:
    """The program whose operations write large results over what they alone, and last, read."""
    users, nodes = Users(program), list(program.nodes)
    live = in_use(program, lifetimes(program))
    enough = NEAR * max(live, default=0)
    replaced: dict[Block, View] = {}
    for k, node in enumerate(program.nodes):
        if live[k] < enough or not any([b.layout.nbytes >= LEAST for b in node.results]):
            continue
        if not any([_free(view, users, k) for view in node.views]):
            continue
        if getattr(node.op, "over", None) is not None:
            over = _op(node, users, k)
        elif isinstance(node.op, Fused) or elementwise(node):
            over = _kernels(node, users, k)
        else:
            continue
        if over is not None:
            nodes[k], found = over
            replaced |= found
    if not replaced:
        return program
    program.notes.append(f"in place: {len(replaced)} results lie where an operand did")
    return edited(program, nodes, replaced)


def _free(source: View, users: Users, k: int) -> bool:
    """Whether node k alone reads this, all of a block's memory, and is the last to use it."""
    block = source.block
    return (
        block.kind == RESULT
        and source.layout.contiguous
        and source.layout.nbytes == block.layout.nbytes
        and max(users.of[block]) == k
        and users.of[block].count(k) == 1
        and -1 not in users.of[block]
    )


def _fits(source: View, block: Block, users: Users, k: int) -> bool:
    """Whether a result has the place of an operand."""
    one, other = source.layout, block.layout
    same = (one.shape, one.dtype) == (other.shape, other.dtype) and other.contiguous
    return same and _free(source, users, k)


def _op(node: Node, users: Users, k: int) -> tuple[Node, dict[Block, View]] | None:
    """A node of one result, over the operand that its kernels allow; and where that lies now. None
    where it cannot be."""
    if len(node.results) != 1 or len(node.views) != len(node.operands) or node.scalars:
        return None
    source = node.views[node.op.over]
    (block,) = node.results
    if not _fits(source, block, users, k):
        return None
    run = node.op.bound_into(block.layout, [view.layout for view in node.views], node.params)
    if run is None:
        return None
    target = View(source.block, block.layout, 0)
    operands, written = (*node.operands, target), (len(node.operands),)
    new = Node(node.op, operands, (), node.params, run, (), False, written, line=node.line)
    return new, {block: target}


def _kernels(node: Node, users: Users, k: int) -> tuple[Node, dict[Block, View]] | None:
    """The same of kernels of `cm.fuse`, which may have several results."""
    try:
        fused = node if isinstance(node.op, Fused) else alone(node)
        run: Any = fused.run
        inputs = [view for i, view in enumerate(fused.operands) if i not in fused.written]
        places: dict[Block, View] = {}
        taken: set[Block] = set()
        for number, block in enumerate(fused.results):
            for i, view in enumerate(inputs):
                if (
                    block.layout.nbytes >= LEAST
                    and block not in places
                    and view.block not in taken
                    and _fits(view, block, users, k)
                    and run.over(number, i)
                ):
                    places[block] = View(view.block, block.layout, 0)
                    taken.add(view.block)
        while places:
            new: Any = placed(fused, [*places.items()], users, set(), frozenset(places))
            # kernels that write into places may run in another order
            first = len(new.results) + len(fused.written)
            source = {view.block: i for i, view in enumerate(inputs)}
            good = {
                block: view
                for number, (block, view) in enumerate(places.items(), first)
                if new.run.over(number, source[view.block])
            }
            if len(good) == len(places):
                return new, places
            places = good
    except TypeError:  # no kernel writes such a result
        pass
    for number, block in enumerate(node.results):  # which `placed` may have numbered anew
        block.index = number
    return None
