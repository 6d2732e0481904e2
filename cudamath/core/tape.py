"""Recording of gradients.

An op whose input carries a node makes a node for its result: what was called, with which arrays, by which gradient
rule. `backward` walks the nodes from the newest to the oldest. Nodes live only as long as the arrays that carry
them, and what nothing differentiates carries none: for such a call recording costs one test.

Gradient rules are written with public operations. At the outermost level they run unrecorded; while a gradient is
itself being differentiated they are recorded like any other call, which is all that higher orders need.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

from .array import ndarray
from .layout import Layout

_order = itertools.count()


class _State(threading.local):
    depth = 0  # gradients being taken, one within another
    paused = False


state = _State()


class Node:
    """One recorded call. `parents[i]` is the node of input i, or None; `outputs` are the layouts of its results."""

    __slots__ = ("order", "op", "parents", "inputs", "results", "params", "outputs")

    def __init__(self, op: Any, parents: tuple, inputs: tuple, results: tuple, params: dict, outputs: tuple[Layout, ...]):
        self.order = next(_order)
        self.op, self.parents, self.params, self.outputs = op, parents, params, outputs
        self.inputs: tuple | None = inputs
        self.results: tuple | None = results


class Part:
    """The i-th result of a node that has several."""

    __slots__ = ("node", "index")

    def __init__(self, node: Node, index: int):
        self.node, self.index = node, index


class _Leaf:
    """The op of a leaf: passes a gradient on to what lay behind it."""

    name = "leaf"
    broadcasts = False
    several = False

    @staticmethod
    def vjp(g: Any, *_: Any) -> tuple:
        return (g,)


def leaf(x: ndarray) -> ndarray:
    """A new array over the same memory, from which a gradient is recorded. A node of `x` stays behind it."""
    out = x._alias()
    out._node = Node(_Leaf, (x._node,), (None,), (None,), {}, (x._layout,))
    return out


def record(op: Any, inputs: Sequence[Any], output: Any, params: dict) -> None:
    """Make the node of a call and hang it on the result(s). What the gradient rule does not use is not kept."""
    if op.vjp is None or state.paused:
        return
    results = output if op.several else (output,)
    keep_output, keep_inputs = op.saves(len(inputs))
    node = Node(
        op,
        tuple([x._node if type(x) is ndarray else None for x in inputs]),
        tuple([x if keep else None for x, keep in zip(inputs, keep_inputs, strict=True)]),
        # kept without their node: an array and a node that held each other would outlive their last user
        tuple([r._alias() if keep_output else None for r in results]),
        params,
        tuple([r._layout for r in results]),
    )
    for index, result in enumerate(results):
        result._node = Part(node, index) if op.several else node


class paused:
    """Context: nothing is recorded inside."""

    def __enter__(self) -> paused:
        self.before, state.paused = state.paused, True
        return self

    def __exit__(self, *exc: object) -> None:
        state.paused = self.before


def owner(node: Node | Part) -> Node:
    """The node itself, or the one a part belongs to."""
    return node.node if type(node) is Part else node  # type: ignore[return-value]


def reachable(roots: Sequence[Node | Part], wanted: Sequence[Node]) -> list[Node]:
    """The nodes between `wanted` and `roots`, newest first: those whose gradient depends on a wanted one."""
    oldest = min(node.order for node in wanted)
    found: dict[Node, None] = {}
    stack = [owner(root) for root in roots]
    while stack:
        node = stack.pop()
        if node not in found and node.order >= oldest:
            found[node] = None
            stack.extend(owner(parent) for parent in node.parents if parent is not None)
    needed = set(wanted)
    for node in sorted(found, key=lambda n: n.order):
        if any(parent is not None and owner(parent) in needed for parent in node.parents):
            needed.add(node)
    return sorted((node for node in found if node in needed), key=lambda n: -n.order)


def backward(roots: Sequence[tuple[Node | Part, ndarray]], wanted: Sequence[Node], *, release: bool) -> list[ndarray | None]:
    """Gradients at `wanted` (leaves) of the sum over roots of <gradient, root>; `release` drops residuals on the way."""
    gradients: dict[Node, list[ndarray | None]] = {}
    for root, given in roots:
        _add(gradients, root, given)
    targets = set(wanted)
    for node in reachable([root for root, _ in roots], wanted):
        if node in targets:
            continue
        held = gradients.pop(node, None)
        if held is None:
            continue
        if node.inputs is None or node.results is None:
            raise RuntimeError(f"{node.op.name}: its gradient was already taken and what it needs was released; "
                               "use vjp() to take several")
        results = node.results if state.paused else _with_nodes(node)
        op, rules = node.op, node.op.vjp
        g: Any = tuple(held) if op.several else held[0]
        y: Any = results if op.several else results[0]
        if isinstance(rules, tuple):  # one rule an input: only those that lead somewhere are evaluated
            local = tuple([None if parent is None else rule(g, y, *node.inputs, **node.params)
                           for rule, parent in zip(rules, node.parents, strict=True)])
        else:
            local = rules(g, y, *node.inputs, **node.params)
        if release:
            node.inputs = node.results = None
        if len(local) != len(node.parents):
            raise AssertionError(f"{op.name}: gradient rule returned {len(local)} gradients for {len(node.parents)} inputs")
        for parent, each in zip(node.parents, local, strict=True):
            if parent is not None and each is not None:
                _add(gradients, parent, _fit(op, each, _layout(parent)))
    return [gradients[node][0] if node in gradients else None for node in wanted]


def _with_nodes(node: Node) -> tuple:
    """The kept results as differentiable arrays, for a gradient of a gradient."""
    out = []
    for index, result in enumerate(node.results or ()):
        result = None if result is None else result._alias()
        if result is not None:
            result._node = Part(node, index) if node.op.several else node
        out.append(result)
    return tuple(out)


def _layout(node: Node | Part) -> Layout:
    return node.node.outputs[node.index] if type(node) is Part else node.outputs[0]  # type: ignore[union-attr]


def _add(gradients: dict, node: Node | Part, g: ndarray) -> None:
    """Accumulate a gradient."""
    index = node.index if type(node) is Part else 0
    held = gradients.setdefault(owner(node), [None] * len(owner(node).outputs))
    before = held[index]
    held[index] = g if before is None else before + g


def _fit(op: Any, g: ndarray, layout: Layout) -> ndarray:
    """A gradient in the shape and dtype of the input it belongs to: sums over what was broadcast, undoes promotion."""
    if op.broadcasts and g.shape != layout.shape:
        g = unbroadcast(g, layout.shape)
    if g.shape != layout.shape:
        raise AssertionError(f"{op.name}: gradient rule gave shape {g.shape} for an input of shape {layout.shape}")
    if g.dtype != layout.dtype:
        if g.dtype.kind == "c" and layout.dtype.kind != "c":
            g = g.real
        g = g.astype(layout.dtype)
    return g


def unbroadcast(g: ndarray, shape: tuple[int, ...]) -> ndarray:
    """Sum a gradient over the axes along which an input of this shape was broadcast."""
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1 and g.shape[extra + i] != 1)
    if axes:
        g = g.sum(axis=axes, keepdims=True)
    return g.reshape(shape) if g.shape != shape else g
