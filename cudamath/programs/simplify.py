"""Simplification: the same program with fewer ops.

- What nobody uses is dropped.
- The same op on the same elements runs once.
- What depends on no argument, and is small, is computed once, beforehand.
- A copy of elements that do not change is a view of them; so is what two casts give back.
- Where a result is overwritten as a whole, what is written is a result of its own.

Nothing is reordered, and no op is replaced by one that rounds differently, so results keep their
bits. A pass may only forget where elements lie if nobody can tell: not if they are written later,
nor if the caller gets two arrays that would share memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.fast_path import exact
from ..core.dtypes import FLOATING, INTEGER, promote
from ..core.layout import Layout
from ..runtime.dry import launching
from .kernel_loading import load_kernels
from .program import CONSTANT, RESULT, Block, Node, Program, View

SMALL = 1 << 16  # bytes of an array that is computed beforehand
COPIES, CASTS = ("copy",), ("astype",)


def simplify(program: Program) -> Program:
    """The program without what it does in vain; `notes` says what was found."""
    before = len(program.nodes)
    for change in (
        without_unused,
        without_repetitions,  # before constants become arrays, which are not compared
        with_constants,
        without_overwriting,
        without_copies,
        without_repetitions,
        without_unused,
    ):
        program = change(program)
    if before > len(program.nodes):
        program.notes.append(f"simplified: {before} operations became {len(program.nodes)}")
    return program


def edited(program: Program, nodes: list[Node], replaced: dict[Block, View]) -> Program:
    """A program of these nodes, in which views of the replaced blocks are views of others."""

    def moved(x: Any) -> Any:
        while isinstance(x, View) and x.block in replaced:
            base = replaced[x.block]
            x = View(base.block, x.layout, base.offset + x.offset)
        return x

    def rewritten(node: Node) -> Node:
        if replaced.keys().isdisjoint(node.used):
            return node
        return node.with_operands(tuple(map(moved, node.operands)))

    nodes = list(map(rewritten, nodes)) if replaced else list(nodes)
    out = Program(program.arguments, nodes, list(map(moved, program.results)), program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    return out


def without_unused(program: Program) -> Program:
    """Drop ops whose results nobody uses. Draws stay: they move on in the random sequence."""
    live = {view.block.group for view in program.returned()}
    kept: list[Node] = []
    for node in reversed(program.nodes):
        targets = [view.block.group for view in node.targets]
        if (
            node.draw is not None
            or not live.isdisjoint(node.results)
            or any([block.outside or block in live for block in targets])
            or not (node.results or targets)
        ):
            kept.append(node)
            live.update([view.block.group for view in node.views])
    return edited(program, kept[::-1], {})


class _Writes:
    """When each group of blocks is written: the numbers of the nodes."""

    def __init__(self, program: Program):
        self.at: dict[Block, list[int]] = {}
        for k, node in enumerate(program.nodes):
            for view in node.targets:
                self.at.setdefault(view.block.group, []).append(k)

    def after(self, block: Block, k: int) -> bool:
        """Whether the block is written by node k or a later one."""
        return any([at >= k for at in self.at.get(block.group, ())])

    def before(self, block: Block, k: int) -> int:
        """How often it has been written before node k."""
        return sum([at < k for at in self.at.get(block.group, ())])


def with_constants(program: Program) -> Program:
    """Compute beforehand what depends on nothing but constants of the function."""
    fixed = _fixed(program)
    with launching():
        if program.device >= 0 and len(fixed) > 1:  # their kernels are compiled together
            load_kernels(lambda: _values(fixed), (), program.device, "constants")
        values = _values(fixed)
    replaced = {
        block: View(Block(CONSTANT, block.layout, 0, value), block.layout, 0)
        for block, value in values.items()
    }
    left = {*map(id, fixed)}
    return edited(program, [node for node in program.nodes if id(node) not in left], replaced)


def _fixed(program: Program) -> list[Node]:
    """The nodes that depend on nothing but each other, and whose results are small."""
    writes = _Writes(program)
    returned = {view.block for view in program.returned()}
    known: set[Block] = set()
    nodes = []
    for node in program.nodes:
        alone = not node.targets and node.draw is None
        if (
            alone
            and known.issuperset([view.block for view in node.views])
            and returned.isdisjoint(node.results)
            and not any([block in writes.at for block in node.results])
            and all([block.layout.nbytes <= SMALL for block in node.results])
        ):
            nodes.append(node)
            known.update(node.results)
    return nodes


def _values(nodes: list[Node]) -> dict[Block, ndarray]:
    """What these nodes give."""
    values: dict[Block, ndarray] = {}
    for node in nodes:
        operands = [
            values[x.block]._view(x.layout, x.offset) if isinstance(x, View) else x
            for x in node.operands
        ]
        out = node.run(*operands, *node.scalars)
        for block in node.results:
            values[block] = out[block.index] if node.several else out
    return values


def without_overwriting(program: Program) -> Program:
    """Where all of an array is overwritten by what an operation made, later nodes read that
    instead. Gradients that add up in an array so become sums."""
    writes = _Writes(program)
    returned = {view.block for view in program.returned()}
    nodes: list[Node | None] = list(program.nodes)
    results = list(program.results)
    for k in reversed(range(len(nodes))):
        node = program.nodes[k]
        if node.name != "copy_into" or not isinstance(node.operands[1], View):
            continue
        target, source = node.operands
        block, made = target.block, source.block
        alike = target.layout is source.layout and block.layout.contiguous == made.layout.contiguous
        apart = block.kind == made.kind == RESULT and not (block in returned and made in returned)
        if not (alike and target.spans and source.spans and apart):
            continue
        if writes.after(block, k + 1) or writes.after(made, k):
            continue

        def moved(x: Any, block: Block = block, made: Block = made) -> Any:
            here = isinstance(x, View) and x.block is block
            return View(made, x.layout, x.offset) if here else x

        for i in range(k + 1, len(nodes)):
            later = nodes[i]
            if later is not None and block in later.used:
                nodes[i] = later.with_operands(tuple(map(moved, later.operands)))
        results = list(map(moved, results))
        if block in returned:
            returned.add(made)
        writes.at[block.group].remove(k)
        nodes[k] = None
    out = Program(program.arguments, [n for n in nodes if n is not None], results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    return out


def without_copies(program: Program) -> Program:
    """Replace copies, gradients of views of all of an array, and pairs of casts that cancel, by
    views of their source."""
    writes = _Writes(program)
    returned = {view.block for view in program.returned()}
    source: dict[
        Block, tuple[View, int]
    ] = {}  # of a cast to a wider dtype: what was cast, and when
    replaced: dict[Block, View] = {}
    nodes = []
    for k, node in enumerate(program.nodes):
        view = _copied(node, source)
        if view is not None:
            (block,) = node.results
            origin, since = view
            if (
                origin.layout is block.layout
                and block not in returned
                and not writes.after(block, k)
                and not writes.after(origin.block, since)
            ):
                replaced[block] = origin
                continue
        if node.op.name in CASTS and len(node.results) == 1 and isinstance(node.operands[0], View):
            operand = node.operands[0]
            if holds(node.results[0].layout.dtype, operand.layout.dtype):
                source[node.results[0]] = operand, k
        nodes.append(node)
    return edited(program, nodes, replaced)


def _copied(node: Node, casts: dict[Block, tuple[View, int]]) -> tuple[View, int] | None:
    """What a node gives back unchanged, and since when that must not have been written."""
    if len(node.results) != 1 or len(node.operands) != 1 or node.draw is not None:
        return None
    (operand,) = node.operands
    if isinstance(operand, View) and node.op.name == "unview":
        seen = _seen_whole(node, operand)
        return None if seen is None else (seen, 0)
    if not isinstance(operand, View) or node.op.name not in (*COPIES, *CASTS):
        return None
    dtype = node.results[0].layout.dtype
    if operand.layout.dtype == dtype:
        return operand, 0
    if operand.whole and operand.block in casts and casts[operand.block][0].layout.dtype == dtype:
        return casts[operand.block]
    return None


def _seen_whole(node: Node, g: View) -> View | None:
    """The gradient of x[:, None] and the like: g in the shape of x, whose elements lie alike; None
    where the view was another one, and the rest of the gradient is zero."""
    layout = node.results[0].layout
    shape, strides, offset = node.params["view"]
    steps = tuple([s * layout.itemsize for s in strides])
    seen = Layout.of(shape, steps, layout.dtype, layout.device)
    if offset or not (seen.contiguous and g.layout.contiguous and layout.contiguous):
        return None
    if seen.size != layout.size or g.layout.size != layout.size or g.layout.dtype != layout.dtype:
        return None
    aligned = g.layout.aligned
    return View(
        g.block,
        Layout.of(layout.shape, layout.strides, layout.dtype, layout.device, aligned),
        g.offset,
    )


def holds(wide: np.dtype, narrow: np.dtype) -> bool:
    """Whether each number of one dtype is one of the other."""
    same = any([wide in kinds and narrow in kinds for kinds in (FLOATING, INTEGER)])
    return same and wide != narrow and promote(wide, narrow) == wide


def without_repetitions(program: Program) -> Program:
    """Run the same op on the same elements once."""
    writes = _Writes(program)
    returned = {view.block for view in program.returned()}
    first: dict[Any, Node] = {}
    replaced: dict[Block, View] = {}
    nodes = []

    def moved(x: Any) -> Any:
        if isinstance(x, View) and x.block in replaced:
            return View(replaced[x.block].block, x.layout, x.offset)
        return x

    for k, node in enumerate(program.nodes):
        key = _key(node, k, moved, writes)
        other = None if key is None else first.setdefault(key, node)
        if other is None or other is node:
            nodes.append(node)
            continue
        pairs = list(zip(node.results, other.results, strict=True))
        if any(
            [writes.after(b, 0) or (a in returned and b in returned) for a, b in pairs]
            + [writes.after(a, 0) for a, _ in pairs]
        ):
            nodes.append(node)
            continue
        for block, earlier in pairs:
            replaced[block] = View(earlier, earlier.layout, 0)
            if block in returned:
                returned.add(earlier)
    return edited(program, nodes, replaced)


def _key(node: Node, k: int, moved: Callable[[Any], Any], writes: _Writes) -> Any:
    """What two nodes have in common that compute the same; None for a node that does more."""
    if node.targets or node.draw is not None or not node.results:
        return None
    operands: list[Any] = []
    for x in map(moved, node.operands):
        if isinstance(x, View):
            operands.append((x, writes.before(x.block, k)))
        else:
            operands.append(exact(x))
    try:
        key = (
            id(node.op),
            tuple(operands),
            tuple(map(exact, node.scalars)),
            tuple([(n, exact(v)) for n, v in sorted(node.params.items())]),
            len(node.results),
            tuple([block.layout for block in node.results]),
        )
        hash(key)
    except TypeError:
        return None
    return key
