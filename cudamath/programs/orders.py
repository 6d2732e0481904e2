"""Elementwise operations on arrays that lie in another order than C.

A kernel of rows computes in C order. What comes out of `x + y.transpose(0, 3, 1, 2)` lies as y
does, with the channels last; so do the operands. Seen with its axes in the order in which they lie,
the operation is one in C order, and fits its neighbours' kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.layout import Layout
from .program import RESULT, Block, Node, View


class LiesAcross(TypeError):
    """A node of a region cannot be computed in the order of the others. at: its number."""

    def __init__(self, at: int, message: str):
        super().__init__(message)
        self.at = at


def in_c_order(
    nodes: list[Node], elementwise: Callable[[Node], bool]
) -> tuple[list[Node], dict[Block, Block]]:
    """The nodes of a region with all results in C order.

    Parameters
    ----------
    nodes : list of Node
        Nodes with one result each.
    elementwise : callable
        Whether each element of a node's result depends on one element of each operand.

    Returns
    -------
    tuple
        The nodes; and for each block whose axes have changed their places the block in C order that
        stands for it. Elements lie alike in both.

    Raises
    ------
    LiesAcross
        A node reads what another one made, and both lie in different orders; or a part of it.
    """
    turned: dict[Block, Block] = {}
    made: set[Block] = set()
    out = []
    for k, node in enumerate(nodes):
        (block,) = node.results
        for x in node.views:
            if x.block in made and (x.offset or x.layout.dtype != x.block.layout.dtype):
                raise LiesAcross(k, "a part, or the bits, of an array between")
        order = None if block.layout.contiguous else _order(block.layout)
        if order is None and not block.layout.contiguous or order and not elementwise(node):
            raise LiesAcross(k, f"{node.name} gives another order than C")
        if order is None and turned.keys().isdisjoint(node.used):
            out.append(node)
        else:
            operands = tuple([_turned(x, order, turned, made, node, k) for x in node.operands])
            if order is not None:
                shape = tuple([block.layout.shape[i] for i in order])
                layout = Layout.new(shape, block.layout.dtype, block.layout.device)
                turned[block] = Block(RESULT, layout)
            out.append(
                Node(
                    node.op,
                    operands,
                    node.scalars,
                    node.params,
                    node.run,
                    (turned.get(block, block),),
                    False,
                    line=node.line,
                )
            )
        made.add(block)
    return out, turned


def _order(layout: Layout) -> tuple[int, ...] | None:
    """The axes in the order in which they lie in memory; None if elements do not lie there one
    behind the other."""
    axes = sorted(range(layout.ndim), key=lambda i: (layout.shape[i] > 1, -layout.strides[i]))
    return tuple(axes) if _permuted(layout, tuple(axes)).contiguous else None


def _permuted(layout: Layout, order: tuple[int, ...]) -> Layout:
    """A layout with its axes in this order; it may have fewer than these, the last ones."""
    more = len(order) - layout.ndim
    shape, strides = (1,) * more + layout.shape, (0,) * more + layout.strides
    return _plain(layout, tuple([shape[i] for i in order]), tuple([strides[i] for i in order]))


def _plain(layout: Layout, shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """Another shape and strides for the elements of a layout; those of C order if they say it."""
    out = Layout.of(shape, strides, layout.dtype, layout.device, layout.aligned)
    if not out.contiguous:
        return out
    plain = Layout.new(shape, layout.dtype, layout.device).strides
    return Layout.of(shape, plain, layout.dtype, layout.device, layout.aligned)


def _turned(
    x: Any,
    order: tuple[int, ...] | None,
    turned: dict[Block, Block],
    made: set[Block],
    node: Node,
    k: int,
) -> Any:
    """An operand of node k, whose axes are taken in this order."""
    if not isinstance(x, View):
        return x
    layout = x.layout
    layout = (
        _plain(layout, layout.shape, layout.strides) if order is None else _permuted(layout, order)
    )
    if x.block in made and not layout.contiguous:
        raise LiesAcross(k, f"{node.name} reads what lies in another order")
    if (
        order is not None
        and layout.shape[-1] > 1
        and layout.strides[-1] not in (0, layout.itemsize)
    ):
        raise LiesAcross(k, f"{node.name} reads an array across")
    return View(turned.get(x.block, x.block), layout, x.offset)
