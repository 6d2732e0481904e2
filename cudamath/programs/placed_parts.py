"""Parts of an array of zeros, read where they stand by the kernels of those who use the array.

The gradient of `x[1:] - x[:-1]` puts one part among zeros, and adds the other to a part of that;
`cm.pad` puts all of an array among zeros. By themselves these write an array, and read and write
parts of it. In a kernel of its users each element is a sum of parts, of which some are not there: a
read with bounds (fuse.py, kernels/generated/fusion.py). A stencil by slices is a kernel a step so,
back as well. So is read what was joined, from parts that no kernel writes where they belong.

Bits are those of the operations: zeros that are added to the first part are -0.0, which change no
number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ..core import recording, tracing
from ..core.array import ndarray
from ..core.dispatch.call_record import unrecorded
from ..core.dispatch.op import registry
from ..core.dtypes import FLOATING
from ..core.layout import Layout
from ..core.scalar import inside
from ..ops.creation import full
from ..ops.elementwise import add
from .doors import Users
from .program import RESULT, Block, Node, Program, View
from .slices import again, rebuilt, start_of, with_axis

MOST, MOST_JOINED = 8, 4  # parts


class Placed:
    """The op of an array of zeros to which parts are added.

    Called on traced arrays, the parts.

    Parameters
    ----------
    shape : tuple of int
        Of the array.
    starts : tuple of tuple of int
        Of each part, where it begins.
    covered : bool
        Whether the parts cover the array.
    """

    vjp = None
    several = False
    name = "placed"

    def __init__(
        self, shape: tuple[int, ...], starts: tuple[tuple[int, ...], ...], covered: bool = False
    ):
        self.shape, self.starts, self.covered = shape, starts, covered

    def __repr__(self) -> str:
        return f"<{len(self.starts)} parts among zeros>"

    def __call__(self, *parts: ndarray) -> ndarray:
        """The array as operations of `cm.fuse`."""
        terms = [
            tracing.placed(x, self.shape, start, negative=k > 0 or self.covered)
            for k, (x, start) in enumerate(zip(parts, self.starts, strict=True))
        ]
        return functools.reduce(add, terms)

    def alone(self, *parts: ndarray) -> ndarray:
        """The array by operations one after another."""
        copy_into: Any = registry["copy_into"]
        with unrecorded(), recording.paused(), inside():
            y = full(self.shape, 0, parts[0].dtype, device=parts[0].device)
            for x, start in zip(parts, self.starts, strict=True):
                own = y._layout
                offset = sum([i * step for i, step in zip(start, own.strides, strict=True)])
                layout = own.view(x.shape, own.strides, offset)
                target = y._view(layout, offset)
                copy_into(target, x if self.covered else add(target, x))
        return y


#: One for each place: what equal nodes become is looked up by their ops.
_placed = functools.cache(Placed)


class _Part(NamedTuple):
    """A part: what is added, with all axes, and where it begins."""

    view: View
    start: tuple[int, ...]


def placed_parts(program: Program, joins: Callable[[Node], bool]) -> Program:
    """The program in which arrays that are made of parts among zeros are one node each, where a
    kernel of their users may read the parts, or where there are several.

    Parameters
    ----------
    program : Program
        What runs.
    joins : callable
        Whether a node can be part of a kernel with others.

    Returns
    -------
    Program
        The program itself where there are none.
    """
    left = True  # some are made of others, which come first
    while left:
        program, left = _placed_parts(program, joins)
    return program


def _placed_parts(program: Program, joins: Callable[[Node], bool]) -> tuple[Program, bool]:
    """`placed_parts`, but for arrays made of such as were found here; whether there are some."""
    users = Users(program)
    nodes: list[Node | None] = list(program.nodes)
    after: dict[int, list[Node]] = {}
    count, left = 0, False
    for k, node in enumerate(program.nodes):
        found = _parts(program, users, k, joins)
        if found is None:
            continue
        (block,) = node.results
        parts, dropped = found
        last, covered = dropped[-1], node.name == "concat"
        following = [i for i in users.of.get(block, ()) if i > last or i < 0]
        near = [
            i >= 0 and (joins(program.nodes[i]) or _parts_alone(program.nodes[i], parts, block))
            for i in following
        ]
        written = [i for i in users.written.get(block.group, ()) if i not in dropped]
        if written or not (all(near) if covered else len(parts) > 1 or any(near)):
            continue
        if any([users.changes(part.view, k - 1, last) for part in parts]):
            continue
        if any([nodes[i] is not program.nodes[i] for i in dropped]):
            left = True
            continue
        for i in dropped:
            nodes[i] = None
        whole = View(block, block.layout, 0)
        made: dict[View, Node | View] = {}
        for i, reads in zip(following, near, strict=True):
            each = nodes[i] if reads else None
            views = {v for v in each.views if v.block is block} if each is not None else {whole}
            for view in views:
                new = made.get(view) or _read(parts, view, block, covered, node.line)
                made[view] = new or whole
                if new is None and whole not in made:
                    made[whole] = _node(parts, block, covered, node.line)
            if each is not None:
                nodes[i] = _reading(each, tuple([_of(made, x) for x in each.operands]))
        after[last] = [new for new in made.values() if isinstance(new, Node)]
        count += 1
    if not count:
        return program, False
    ordered = [n for i, node in enumerate(nodes) for n in [node, *after.get(i, ())]]
    out = rebuilt(program, [node for node in ordered if node is not None])
    out.notes.append(f"parts: {count} arrays are read as parts among zeros")
    return out, left


def _parts(
    program: Program, users: Users, k: int, joins: Callable[[Node], bool]
) -> tuple[list[_Part], list[int]] | None:
    """The parts of which node k, and those that add to its result, make an array, and the numbers
    of these nodes; None if it makes it otherwise."""
    node = program.nodes[k]
    if node.name == "concat":
        parts = _joined(program, users, k, joins)
        return None if parts is None else (parts, [k])
    first = _first(node)
    if first is None:
        return None
    (block,) = node.results
    parts, dropped = [first], [k]
    for i in sorted({user for user in users.of.get(block, ()) if user >= 0}):
        found = None if i in dropped else _added(program, users, block, i)
        if found is not None and len(parts) < MOST:
            parts.append(found[0])
            dropped += [i, found[1]]
        elif i not in dropped:
            break
    return parts, dropped


def _joined(
    program: Program, users: Users, k: int, joins: Callable[[Node], bool]
) -> list[_Part] | None:
    """The parts that node k joins; None where the kernels that make them may write them where they
    belong."""
    node = program.nodes[k]
    (block,) = node.results
    base, axis = block.layout, node.params["axis"]
    if base.dtype not in FLOATING or not base.contiguous or not 1 < len(node.views) <= MOST_JOINED:
        return None
    if not all([view.layout.size and view.layout.dtype == base.dtype for view in node.views]):
        return None
    made = [users.made.get(view.block) for view in node.views]
    if all([i is not None and joins(program.nodes[i]) for i in made]) and all(
        [users.only(view.block) == k for view in node.views]
    ):
        return None
    parts, start = [], 0
    for view in node.views:
        parts.append(_Part(view, tuple([start if d == axis else 0 for d in range(base.ndim)])))
        start += view.layout.shape[axis]
    return parts


def _parts_alone(node: Node, parts: list[_Part], block: Block) -> bool:
    """Whether all that a node reads of a block is a part of a part, and lies as it is read."""
    views = [view for view in node.views if view.block is block]
    found = [None if view.whole else _read(parts, view, block, False, "") for view in views]
    pairs = zip(found, views, strict=True)
    return all([isinstance(x, View) and x.layout is view.layout for x, view in pairs])


def _reading(node: Node, operands: tuple) -> Node:
    """A node on other operands."""
    lie = [
        x.layout is y.layout
        for x, y in zip(operands, node.operands, strict=True)
        if isinstance(x, View)
    ]
    return node.with_operands(operands) if all(lie) else again(node, operands, node.results)


def _of(made: dict[View, Node | View], x: Any) -> Any:
    """What an operand is now."""
    found = made.get(x) if isinstance(x, View) else None
    if isinstance(found, Node):
        (result,) = found.results
        return View(result, result.layout, 0)
    return x if found is None or found.block is x.block else found


def _first(node: Node) -> _Part | None:
    """The part that a node puts among zeros; None if it does something else."""
    if node.name not in ("unview", "pad") or len(node.results) != 1 or node.targets:
        return None
    (block,) = node.results
    base, (view, *rest) = block.layout, node.views
    if rest or not base.contiguous or not base.size or not view.layout.size:
        return None
    if view.layout.dtype != base.dtype or base.dtype not in FLOATING:
        return None
    if node.name == "pad":
        starts = tuple([before for before, _ in node.params["widths"]])
        return None if any(node.scalars) else _Part(view, starts)
    shape, strides, offset = node.params["view"]
    size = base.itemsize
    return _part(view, base, shape, tuple([s * size for s in strides]), offset * size)


def _added(program: Program, users: Users, block: Block, i: int) -> tuple[_Part, int] | None:
    """What node i adds to a part of a block, and the number of the node that writes the sum there;
    None if it does something else."""
    node = program.nodes[i]
    if node.name != "add" or len(node.views) != 2 or len(node.operands) != 2 or node.targets:
        return None
    base, more = node.views
    at = users.only(node.results[0])
    if base.block is not block or more.block is block or at is None:
        return None
    write = program.nodes[at]
    if write.name != "copy_into" or not write.views[1].whole or write.targets != [base]:
        return None
    if more.layout.shape != base.layout.shape or more.layout.dtype != base.layout.dtype:
        return None
    part = _part(more, block.layout, base.layout.shape, base.layout.strides, base.offset)
    return None if part is None else (part, at)


def _part(
    view: View, base: Layout, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> _Part | None:
    """What is put into a view, of these strides and offset in bytes, of an array in C order; None
    if the view is no box in it."""
    start, axis, left = [], 0, offset
    for d, (n, step) in enumerate(zip(base.shape, base.strides, strict=True)):
        has = axis < len(shape) and (shape[axis] == 1 or strides[axis] == step)
        lacks = len(shape) - axis < base.ndim - d
        if lacks and not (has and shape[axis] > 1):
            view = with_axis(view, d)
        elif has:
            axis += 1
        else:
            return None
        at = left // step if n > 1 else 0
        if at + view.layout.shape[d] > n:
            return None
        left -= at * step
        start.append(at)
    return _Part(view, tuple(start)) if left == 0 and axis == len(shape) else None


def _read(
    parts: list[_Part], view: View, block: Block, covered: bool, line: str
) -> Node | View | None:
    """What a view of the array reads: a part of a part, or a node of those parts that lie there;
    None where the view is no box."""
    if view.whole:
        return _node(parts, block, covered, line)
    begin = start_of(view)
    if begin is None:
        return None
    shape = view.layout.shape
    cut = [_cut(part, begin, shape) for part in parts]
    there = [part for part in cut if part is not None]
    if len(there) == 1 and there[0].view.layout.shape == shape:
        return there[0].view
    if not there:
        return None
    made = Block(RESULT, Layout.new(shape, block.layout.dtype, block.layout.device))
    return _node(there, made, covered, line)


def _cut(part: _Part, begin: tuple[int, ...], shape: tuple[int, ...]) -> _Part | None:
    """What of a part lies in a box that begins there; None if nothing does."""
    own = part.view.layout
    starts = [a - b for a, b in zip(part.start, begin, strict=True)]
    ends = [min(a + m, n) for a, m, n in zip(starts, own.shape, shape, strict=True)]
    firsts = [max(a, 0) for a in starts]
    sizes = tuple([b - a for a, b in zip(firsts, ends, strict=True)])
    if min(sizes, default=1) <= 0:
        return None
    before = zip(firsts, starts, own.strides, strict=True)
    offset = sum([(a - b) * s for a, b, s in before])
    layout = own.view(sizes, own.strides, offset)
    if layout.contiguous and layout.aligned:
        layout = Layout.new(sizes, own.dtype, own.device)
    return _Part(View(part.view.block, layout, part.view.offset + offset), tuple(firsts))


def _node(parts: list[_Part], block: Block, covered: bool, line: str) -> Node:
    """The node that makes a block of parts."""
    op = _placed(block.layout.shape, tuple([part.start for part in parts]), covered)
    operands = tuple([part.view for part in parts])
    return Node(op, operands, (), {}, op.alone, (block,), False, line=line)
