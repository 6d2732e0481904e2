"""Parts of arrays: operations on all of an array of which only parts are used, and arrays that are
put together from parts.

`i, f, g, o = split(x + h)` adds parts, so that the sums need not be stored for the gates to read
them. The gradient of a split is one concatenation, not a sum into zeros for each part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..core import recording
from ..core.array import ndarray
from ..core.dispatch.call_record import unrecorded
from ..core.dispatch.op import registry
from ..core.layout import Layout
from ..core.scalar import inside
from .doors import Users
from .program import RESULT, Block, Node, Program, View
from .simplify import edited


def rebuilt(program: Program, nodes: list[Node]) -> Program:
    """The program with these nodes instead."""
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    return out


# -------------------- operations of which parts are used


def sliced(program: Program, elementwise: Callable[[Node], bool]) -> Program:
    """The program in which an elementwise operation of which only parts are used, by such
    operations, computes these parts alone.

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
    count = 0
    while True:  # what a part reads may be parts of a result in turn
        found = _one_sliced(program, elementwise)
        if found is None:
            break
        program, count = found, count + 1
    if count:
        program.notes.append(f"parts: {count} operations compute only the parts that are used")
    return program


def _one_sliced(program: Program, elementwise: Callable[[Node], bool]) -> Program | None:
    users, written = Users(program), program.written()
    for k, node in enumerate(program.nodes):
        if not elementwise(node) or not node.results[0].layout.contiguous:
            continue
        (block,) = node.results
        following = users.of.get(block, [])
        if not following or -1 in following or block in written:
            continue
        if not all([elementwise(program.nodes[i]) for i in following]):
            continue
        views = {v for i in following for v in program.nodes[i].views if v.block is block}
        if sum([view.layout.size for view in views]) > block.layout.size or len(views) < 2:
            continue
        starts = {view: start_of(view) for view in views}
        if any([start is None for start in starts.values()]):
            continue
        parts: dict[View, View] = {}
        new = []
        for view in sorted(views, key=lambda view: view.offset):
            part = part_of(node, view.layout.shape, starts[view])  # type: ignore[arg-type]
            parts[view] = View(part.results[0], part.results[0].layout, 0)
            new.append(part)

        def moved(x: Any, parts: dict[View, View] = parts) -> Any:
            return parts.get(x, x) if isinstance(x, View) else x

        nodes = list(program.nodes)
        for i in {*following}:
            nodes[i] = again(nodes[i], tuple(map(moved, nodes[i].operands)), nodes[i].results)
        nodes[k : k + 1] = new
        return rebuilt(program, nodes)
    return None


def start_of(view: View) -> tuple[int, ...] | None:
    """Where in its block, which is in C order, a view begins along each axis; None if it is not a
    box in it."""
    base, left = view.block.layout, view.offset
    if view.layout.ndim != base.ndim or view.layout.dtype != base.dtype:
        return None
    start = []
    for n, m, step, own in zip(
        base.shape, view.layout.shape, base.strides, view.layout.strides, strict=True
    ):
        at = left // step if n > 1 else 0
        if at + m > n or m > 1 and own != step:
            return None
        left -= at * step
        start.append(at)
    return tuple(start) if left == 0 else None


def part_of(node: Node, shape: tuple[int, ...], start: tuple[int, ...]) -> Node:
    """The operation on a part of its elements."""

    def operand(x: Any) -> Any:
        if not isinstance(x, View):
            return x
        own = x.layout
        skip = len(shape) - own.ndim
        at = [0 if n == 1 else start[skip + i] for i, n in enumerate(own.shape)]
        sizes = tuple([1 if n == 1 else shape[skip + i] for i, n in enumerate(own.shape)])
        more = sum([i * step for i, step in zip(at, own.strides, strict=True)])
        aligned = own.aligned and more % 16 == 0
        return View(
            x.block, Layout.of(sizes, own.strides, own.dtype, own.device, aligned), x.offset + more
        )

    old = node.results[0].layout
    block = Block(RESULT, Layout.new(shape, old.dtype, old.device))
    return again(node, tuple(map(operand, node.operands)), (block,))


def again(node: Node, operands: tuple, results: tuple[Block, ...]) -> Node:
    """The operation on other operands. Where it is not fused, it is called as a function."""
    op, params, count, (block,) = node.op, node.params, len(operands), results

    def run(*given: Any) -> ndarray:
        scalars = {"scalars": given[count:]} if given[count:] else {}
        with unrecorded(), recording.paused(), inside():
            y = op(*given[:count], **params, **scalars)
            return y if y._layout is block.layout else y.copy()

    return Node(op, operands, node.scalars, params, run, results, False, line=node.line)


# -------------------- arrays put together


class Place(NamedTuple):
    """A part of an array along an axis: where it begins, how long it is, and whether the view of it
    lacks the axis."""

    axis: int
    start: int
    length: int
    lacks: bool


def _begin(part: tuple[Place, View, int]) -> int:
    return part[0].start


def joined(program: Program) -> Program:
    """The program in which an array that is filled with zeros, to which parts are added that cover
    it, is a concatenation of these."""
    users = Users(program)
    nodes: list[Node | None] = list(program.nodes)
    replaced: dict[Block, View] = {}
    count = 0
    for k, node in enumerate(program.nodes):
        found = _joined(program, users, k) if node.name == "unview" else None
        if found is not None:
            last, concat, dropped = found
            for i in dropped:
                nodes[i] = None
            nodes[last] = concat
            (block,), (made,) = node.results, concat.results
            if made is not block:
                replaced[block] = View(made, made.layout, 0)
            count += 1
    if not count:
        return program
    out = edited(program, [node for node in nodes if node is not None], replaced)
    out.notes.append(f"parts: {count} gradients of parts are joined at once")
    return out


def _joined(program: Program, users: Users, k: int) -> tuple[int, Node, list[int]] | None:
    """The concatenation in place of node k, which puts a part among zeros, and of what adds the
    other parts: the number of the last of these, the node, and the numbers of all. Parts of every
    second element, x[..., ::2], lie side by side in an array of pairs, which is the result then."""
    node = program.nodes[k]
    (block,), (first,) = node.results, node.views
    shape, strides, offset = node.params["view"]
    size = block.layout.itemsize
    if not block.layout.contiguous or first.layout.dtype != block.layout.dtype:
        return None
    steps = tuple([s * size for s in strides])
    base = _of_pairs(block.layout, shape, steps)
    place = _along(base, shape, steps, offset * size)
    found: list[tuple[Place | None, View, int]] = [(place, first, k)]
    dropped = [k]
    for i in sorted({user for user in users.of.get(block, ()) if user >= 0}):
        if i in dropped:
            continue
        added = _added(program, users, block, base, i)
        if added is None:
            break
        found.append(added[:3])
        dropped += [i, added[3]]
    last = dropped[-1]
    parts = sorted([(p, view, at) for p, view, at in found if p is not None], key=_begin)
    if len(parts) < max(len(found), 2):
        return None
    axis, end = parts[0][0].axis, 0
    for part, view, at in parts:
        if part.axis != axis or part.start != end or users.changes(view, at, last):
            return None
        end += part.length
    if end != base.shape[axis]:
        return None
    made = block if base is block.layout else Block(RESULT, base)
    operands = [with_axis(view, axis) if part.lacks else view for part, view, _ in parts]
    copied = _copied(program, users, block, dropped)
    if copied is not None and not all([view.layout.contiguous for view in operands]):
        order, copy = copied
        turned = [_permuted(view, order) for view in operands]
        if all([view.layout.contiguous for view in turned]):
            axis, operands, (made,) = order.index(axis), turned, program.nodes[copy].results
            dropped.append(copy)
    op: Any = registry["concat"]
    params = {"axis": axis, "sizes": tuple([part.length for part, _, _ in parts])}
    bound = op.bound_once(tuple([view.layout for view in operands]), params, 0, program.device)

    def run(*given: Any) -> ndarray:
        y = bound(*given)
        return y if y._layout is made.layout else y.copy()  # a CPU's lies as its parts do

    return last, Node(op, tuple(operands), (), params, run, (made,), False, line=node.line), dropped


def _copied(
    program: Program, users: Users, block: Block, dropped: list[int]
) -> tuple[tuple[int, ...], int] | None:
    """The order of axes in which a block is copied, as a whole, by the node that alone reads it
    besides those that are dropped, and the number of that node; None if there is none. So the
    gradients of queries, keys and values are put together as the product before them reads them."""
    rest = [i for i in users.of.get(block, ()) if i not in dropped]
    if len(rest) != 1 or rest[0] < dropped[-1] or program.nodes[rest[0]].name != "copy":
        return None
    (view,), (made,) = program.nodes[rest[0]].views, program.nodes[rest[0]].results
    own, base = view.layout, block.layout
    order: list[int] = []
    for n, step in zip(own.shape, own.strides, strict=True):
        same = [
            i
            for i, m in enumerate(base.shape)
            if i not in order and m == n and (n == 1 or base.strides[i] == step)
        ]
        if not same:
            return None
        order.append(same[0])
    whole = len(order) == base.ndim and not view.offset and own.dtype == base.dtype
    return (tuple(order), rest[0]) if whole and made.layout.contiguous else None


def _permuted(view: View, order: tuple[int, ...]) -> View:
    """A view with its axes in this order."""
    own = view.layout
    shape, strides = (tuple([of[i] for i in order]) for of in (own.shape, own.strides))
    layout = Layout.of(shape, strides, own.dtype, own.device, own.aligned)
    return View(
        view.block,
        Layout.new(shape, own.dtype, own.device) if layout.contiguous else layout,
        view.offset,
    )


def _of_pairs(base: Layout, shape: tuple, strides: tuple) -> Layout:
    """An array in C order in which every k-th element along an axis, that is a view of this shape,
    is a part along an axis of its own; the array as it is for other views."""
    if len(shape) != base.ndim:
        return base
    for axis, (n, step) in enumerate(zip(base.shape, base.strides, strict=True)):
        many = strides[axis] // step if shape[axis] > 1 and step else 1
        if many > 1 and shape[axis] * many == n:
            split = (*base.shape[:axis], shape[axis], many, *base.shape[axis + 1 :])
            return Layout.new(split, base.dtype, base.device)
    return base


def _added(
    program: Program, users: Users, block: Block, layout: Layout, i: int
) -> tuple[Place | None, View, int, int] | None:
    """What node i adds to a part of a block, seen in a layout: where, the view that is added, i,
    and the number of the node that writes the sum; None if it does something else."""
    node = program.nodes[i]
    if node.name != "add" or len(node.views) != 2 or len(node.operands) != 2 or node.targets:
        return None
    base, more = node.views
    at = users.only(node.results[0])
    if base.block is not block or more.block is block or at is None:
        return None
    write = program.nodes[at]
    if write.name != "copy_into" or not write.views[1].whole:
        return None
    (target,) = write.targets
    same = target.block is block and target.offset == base.offset
    shapes = {view.layout.shape for view in (target, base, more, write.views[1])}
    if not same or len(shapes) > 1 or target.layout.strides != base.layout.strides:
        return None
    if more.layout.dtype != block.layout.dtype:
        return None
    place = _along(layout, base.layout.shape, base.layout.strides, base.offset)
    return place, more, i, at


def _along(base: Layout, shape: tuple, strides: tuple, offset: int) -> Place | None:
    """Which part of an array in C order a view of it is; None if it is none along one axis."""
    for axis, (n, step) in enumerate(zip(base.shape, base.strides, strict=True)):
        start, rest = divmod(offset, step) if step else (0, 1)
        if rest or start >= n:
            continue
        for lacks in (False, True):
            count = 1 if lacks else shape[axis] if len(shape) == base.ndim else 0
            sizes = base.shape[:axis] + (() if lacks else (count,)) + base.shape[axis + 1 :]
            steps = base.strides[:axis] + (() if lacks else (step,)) + base.strides[axis + 1 :]
            if sizes == shape and 0 < count < n and start + count <= n:
                own = [s for s, m in zip(steps, sizes, strict=True) if m > 1]
                if own == [s for s, m in zip(strides, shape, strict=True) if m > 1]:
                    return Place(axis, start, count, lacks)
    return None


def with_axis(view: View, axis: int) -> View:
    """A view with an axis of length 1 more."""
    own = view.layout
    shape = (*own.shape[:axis], 1, *own.shape[axis:])
    strides = (*own.strides[:axis], own.itemsize, *own.strides[axis:])
    if own.contiguous:
        layout = Layout.new(shape, own.dtype, own.device)
    else:
        layout = Layout.of(shape, strides, own.dtype, own.device, own.aligned)
    return View(view.block, layout, view.offset)
