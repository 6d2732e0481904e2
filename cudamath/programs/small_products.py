"""Products of few terms an element, inside of the kernels of their neighbours.

A product of which each element is a sum of few terms, as of 3 x 3 matrices, or the gradient of a
layer with one output, is no more work than an elementwise operation on its result. By itself it
writes that for the next kernel to read. So it may be part of a region: there it is a product of
elements, and a sum over their last axis but one, whose terms a kernel writes out (fuse.py). Where
it finds no neighbours, it runs as it is.

Only float32 and float64: 16-bit products have doors of their own (doors.py).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..fuse import FEW_TERMS
from ..ops.elementwise import add, multiply
from ..ops.reduce import sum as total
from ..ops.shape import expand_dims, matrix_transpose
from .doors import as_product
from .program import Node, Program, View

DTYPES = np.dtype(np.float32), np.dtype(np.float64)


class SmallProduct:
    """The op of a product that a kernel can write out.

    Called on traced arrays: x (..., M, K) and y (..., K, N); or of `linear` a weight (N, K) and
    perhaps a bias (N,).

    Parameters
    ----------
    op : Op
        What it is by itself.
    """

    vjp = None
    several = False

    def __init__(self, op: Any):
        self.op, self.name = op, op.name

    def __repr__(self) -> str:
        return f"<{self.name}, written out>"

    def __call__(
        self, x: ndarray, y: ndarray, bias: ndarray | None = None, *_: Any, **__: Any
    ) -> Any:
        """The product as operations of `cm.fuse`."""
        y = matrix_transpose(y) if self.name == "linear" else y
        if x.shape[-1] == 1:
            out = multiply(x, y)
        else:
            out = total(multiply(expand_dims(x, -1), expand_dims(y, -3)), axis=-2)
        return out if bias is None else add(out, bias)


#: One for each op: what equal nodes become is looked up by their ops.
_small_product = functools.cache(SmallProduct)


def written_out(program: Program) -> Program:
    """The program in which products of few terms may be part of their neighbours' kernels."""
    nodes = [_written_out(node) for node in program.nodes]
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    return out


def _written_out(node: Node) -> Node:
    """A product of few terms with an op that kernels can write out; any other node as it is."""
    product = as_product(node) if node.name == "linear" else None
    if node.name == "linear" and (
        product is None or product.activation or product.residual is not None
    ):
        return node
    if node.name not in ("matmul", "linear") or node.draw is not None or node.targets:
        return node
    x, y = node.operands[:2]
    (block,) = node.results
    if min(x.layout.ndim, y.layout.ndim) < 2 or block.layout.dtype not in DTYPES:
        return node
    same = {view.layout.dtype for view in node.views} == {block.layout.dtype}
    if not same or not 0 < x.layout.shape[-1] <= FEW_TERMS or not block.layout.contiguous:
        return node
    operands = tuple([x for x in node.operands if isinstance(x, View)])
    run = getattr(node.run, "without_none", node.run)
    op = _small_product(node.op)
    return Node(op, operands, (), {}, run, node.results, False, line=node.line)
