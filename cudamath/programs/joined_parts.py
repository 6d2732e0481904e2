"""Elementwise operations on what has only been put together from parts: they are done part by part.

`x * cos + concatenate([-x2, x1]) * sin` reads an array that is written for this alone. Part by
part, the operations read what was joined where it lies, and their results are joined instead: by
the kernel that makes them, which writes each where it belongs (fusion.joined_in_place).

Gradients of parts that are added to a gradient of the whole are joined first, and then added.

Arrays that are rolled and then joined are written where they belong by one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dispatch.op import registry
from ..core.layout import Layout
from .doors import Users
from .program import RESULT, Block, Node, Program, View
from .slices import part_of, rebuilt

MOST = 4  # parts
NODES = 32  # operations that are done part by part


def parts_added_last(program: Program) -> Program:
    """The program in which what is added to parts of a sum of a whole and a part among zeros is
    added to the part among zeros before."""
    users = Users(program)
    nodes: list[Node | None] = list(program.nodes)
    moved: dict[int, list[Node]] = {}  # after a node
    count = 0
    for k, node in enumerate(program.nodes):
        found = _parts_of_sum(program, users, k) if node.name == "unview" else None
        if found is None:
            continue
        at, pairs = found
        (block,), (total,) = node.results, program.nodes[at].results

        def inner(x: Any, block: Block = block, total: Block = total) -> Any:
            here = isinstance(x, View) and x.block is total
            return View(block, x.layout, x.offset) if here else x

        for i in pairs:
            nodes[i] = program.nodes[i].with_operands(tuple(map(inner, program.nodes[i].operands)))
        nodes[at] = None
        moved.setdefault(pairs[-1], []).append(program.nodes[at])
        count += 1
    if not count:
        return program
    out = [n for i, node in enumerate(nodes) for n in [node, *moved.get(i, ())] if n is not None]
    return rebuilt(program, out)


def _parts_of_sum(program: Program, users: Users, k: int) -> tuple[int, list[int]] | None:
    """The node that adds what node k puts among zeros to a whole, and the nodes that add to parts
    of the sum; None if the sum is used before that."""
    (block,) = program.nodes[k].results
    at = users.only(block)
    if at is None:
        return None
    node = program.nodes[at]
    (total,) = node.results or (block,)
    if node.name != "add" or len(node.views) != 2 or node.targets:
        return None
    layouts = {view.layout for view in node.views if view.block is block} | {total.layout}
    if layouts != {block.layout}:
        return None
    pairs: list[int] = []
    for i in sorted({i for i in users.of.get(total, ()) if i >= 0}):
        if i in pairs:
            continue
        adds = program.nodes[i]
        write = users.only(adds.results[0]) if len(adds.results) == 1 else None
        if adds.name != "add" or write is None or program.nodes[write].name != "copy_into":
            break
        (target,) = program.nodes[write].targets
        read = [view for view in adds.views if view.block is total]
        if len(read) != 1 or target != read[0] or target.spans:
            break
        pairs += [i, write]
    if not pairs or any([users.changes(view, at, pairs[-1]) for view in node.views]):
        return None
    using = [i for i in users.of[total] if i not in pairs]
    return (at, pairs) if not any([0 <= i < pairs[-1] for i in using]) else None


def part_by_part(
    program: Program, elementwise: Callable[[Node], bool], joins: Callable[[Node], bool]
) -> Program:
    """The program in which elementwise operations on joined arrays are done part by part.

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
    nodes = list(program.nodes)
    count, k = 0, 0
    users, written = Users(program), program.written()
    while k < len(nodes):
        if nodes[k].name == "concat" and nodes[k].results[0] not in written:
            found = _apart(program, users, k, elementwise, joins)
            if found is not None:
                nodes[k:] = found
                program = rebuilt(program, nodes)
                users = Users(program)
                count += 1
                continue
        k += 1
    if count:
        program.notes.append(f"parts: {count} joined arrays are read part by part")
    return program


def _apart(
    program: Program,
    users: Users,
    k: int,
    elementwise: Callable[[Node], bool],
    joins: Callable[[Node], bool],
) -> list[Node] | None:
    """The nodes from number k on, a concatenation, without it; None if it is needed."""
    node = program.nodes[k]
    (block,) = node.results
    if not block.layout.contiguous or not 1 < len(node.views) <= MOST:
        return None
    ends = _ends_with_products(program, users, block, elementwise, joins)
    if not ends or any([users.changes(view, k, max(ends)) for view in node.views]):
        return None
    axis = node.params["axis"]
    out: list[Node] = []
    for i in range(k + 1, len(program.nodes)):
        each = program.nodes[i]
        if block not in each.used:
            out.append(each)
            continue
        parts, start = [], 0
        (result,) = each.results
        for view in node.views:
            n = view.layout.shape[axis]
            begin = tuple([start if d == axis else 0 for d in range(block.layout.ndim)])
            part = part_of(each, view.layout.shape, begin)

            def of_part(x: Any, view: View = view) -> Any:
                return view if isinstance(x, View) and x.block is block else x

            parts.append(part.with_operands(tuple(map(of_part, part.operands))))
            start += n
        out += [*parts, _concatenation(parts, axis, result, program.device, each.line)]
    return out


def _ends_with_products(
    program: Program,
    users: Users,
    block: Block,
    elementwise: Callable[[Node], bool],
    joins: Callable[[Node], bool],
) -> list[int]:
    """The nodes that use a block, if these are elementwise, and at the end what cannot be fused
    reads their results, or copies them; none if a kernel would read them with others, or the caller
    this one."""
    stack, seen = [block], {block}
    direct = users.of.get(block, [])
    while stack:
        current = stack.pop()
        using = users.of.get(current, [])
        if current is block and (not using or -1 in using):
            return []
        for i in using:
            node = program.nodes[i] if i >= 0 else None
            if node is None or not joins(node) or node.name == "copy":
                if current is block:
                    return []
                continue
            views = [view for view in node.views if view.block is current]
            (result,) = node.results
            same = result.layout.shape == block.layout.shape and result.layout.contiguous
            if not elementwise(node) or not same or not all([view.whole for view in views]):
                return []
            if users.written.get(result.group) or len(seen) > NODES:
                return []
            if result not in seen:
                seen.add(result)
                stack.append(result)
    return direct


def rolled_side_by_side(program: Program) -> Program:
    """The program in which what is joined to several rolled arrays as it is, is copied first: by
    the kernel that rolls these, which then writes all parts where they belong."""
    users = Users(program)
    before: dict[int, list[Node]] = {}
    nodes = list(program.nodes)
    for k, node in enumerate(program.nodes):
        if node.name != "concat":
            continue
        made = [users.made.get(view.block) for view in node.views]
        own = [
            i is not None and nodes[i].name == "roll" and users.only(view.block) == k
            for i, view in zip(made, node.views, strict=True)
        ]
        rolled = [view for view, is_own in zip(node.views, own, strict=True) if is_own]
        shapes = {(view.block.layout.shape, view.layout.shape) for view in rolled}
        if len(rolled) < 2 or len(shapes) != 1 or not all([view.spans for view in rolled]):
            continue
        ((shape, seen),) = shapes
        rest = [view for view, is_own in zip(node.views, own, strict=True) if not is_own]
        if not all([view.layout.contiguous and view.layout.shape == seen for view in rest]):
            continue
        copies = {view: _copied(view, shape, node.line) for view in rest}

        def operand(view: View, copies: dict[View, Node] = copies) -> View:
            found = copies.get(view)
            return view if found is None else View(found.results[0], view.layout, 0)

        before[k] = list(copies.values())
        nodes[k] = node.with_operands(tuple([operand(view) for view in node.views]))
    if not any(before.values()):
        return program
    return rebuilt(program, [n for k, node in enumerate(nodes) for n in [*before.get(k, ()), node]])


def _copied(view: View, shape: tuple[int, ...], line: str) -> Node:
    """A copy of a view, in another shape."""
    own = view.layout
    source = View(
        view.block, own.view(shape, Layout.new(shape, own.dtype, own.device).strides), view.offset
    )
    block = Block(RESULT, Layout.new(shape, own.dtype, own.device))
    op: Any = registry["copy"]
    run = op.bound_once((source.layout,), {}, 0, own.device)
    return Node(op, (source,), (), {}, run, (block,), False, line=line)


def _concatenation(parts: list[Node], axis: int, block: Block, device: int, line: str) -> Node:
    """The results of these nodes side by side."""
    op: Any = registry["concat"]
    blocks = [part.results[0] for part in parts]
    params = {"axis": axis, "sizes": tuple([b.layout.shape[axis] for b in blocks])}
    run = op.bound_once(tuple([b.layout for b in blocks]), params, 0, device)
    operands = tuple([View(b, b.layout, 0) for b in blocks])
    return Node(op, operands, (), params, run, (block,), False, line=line)
