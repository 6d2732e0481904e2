"""The tape: recording of gradients.

An op whose input carries a node makes a node for its result: the op, its inputs, and the values
that the gradient rule needs. `backward` visits the nodes from the newest to the oldest. A node
lives as long as the arrays that carry it. Without a node on any input, recording costs one test.

Gradient rules are written with public operations. At the outermost level they run unrecorded. While
a gradient is itself differentiated they are recorded like any other call, which gives higher
orders.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..array import ndarray
from ..dispatch.call_record import obstruct, open_records
from ..recording import state

_order = itertools.count()
_new = object.__new__


class Node:
    """One recorded call. `parents[i]` is the node of input i, or None.

    `outputs` is the layout of the result, and `results` the result itself if the rule uses it;
    tuples for an op with several results. `inputs` are the inputs that the rule uses, with None in
    place of the others; None as a whole once released.
    """

    __slots__ = ("order", "op", "parents", "inputs", "results", "params", "outputs")

    order: int
    op: Any
    parents: tuple
    inputs: tuple | None
    results: Any
    params: dict
    outputs: Any


class Part:
    """The i-th result of a node with several results."""

    __slots__ = ("node", "index")

    def __init__(self, node: Node, index: int):
        self.node, self.index = node, index


def node_of(
    op: Any, parents: tuple, inputs: tuple, results: Any, params: dict, outputs: Any
) -> Node:
    """A new node, newer than all others."""
    node = _new(Node)
    node.order, node.op, node.parents, node.inputs = next(_order), op, parents, inputs
    node.results, node.params, node.outputs = results, params, outputs
    return node


class _Leaf:
    """The op of a leaf: it passes the gradient on to the node that `x` had before."""

    name = "leaf"
    broadcasts = False
    several = False

    @staticmethod
    def vjp(g: Any, *_: Any, **__: Any) -> tuple:
        return (g,)


def now() -> int:
    """A time stamp: nodes that are recorded later have a greater order."""
    return next(_order)


def leaf(x: ndarray, level: dict[str, bool] | None = None) -> ndarray:
    """A new array over the same memory, from which a gradient is recorded. A node of `x` stays
    behind it. level: {"open": whether the function is still being recorded whose argument it is},
    one for all of its arguments."""
    out = x._alias()
    out._node = node_of(_Leaf, (x._node,), (None,), None, {} if level is None else level, x._layout)
    return out


def depends(x: ndarray) -> bool:
    """Whether `x` depends on an argument of a function that is still being recorded. An array with
    a node need not: it may depend only on the arguments of an inner function whose gradients have
    been taken already."""
    if x._node is None:
        return False
    stack = [owner(x._node)]
    reached = set(stack)
    while stack:
        node = stack.pop()
        if node.op is _Leaf and node.params.get("open"):
            return True
        more = {owner(parent) for parent in node.parents if parent is not None} - reached
        reached |= more
        stack += more
    return False


def uses(rule: Callable | tuple[Callable, ...] | None) -> tuple[bool, tuple[bool, ...] | None]:
    """Which values a gradient rule `rule(g, y, *inputs, **params)` uses: (y, (input 0, ...)). None
    in place of the inputs: all of them."""
    if rule is None:
        return False, ()
    if isinstance(rule, tuple):
        each = [uses(r) for r in rule]
        return any(out for out, _ in each), tuple(
            map(any, zip(*[ins or () for _, ins in each], strict=True))
        )
    used: list[bool] = []
    for parameter in inspect.signature(rule).parameters.values():
        used_by_rule = not parameter.name.startswith("_")
        if parameter.kind == parameter.VAR_POSITIONAL:
            if len(used) < 2:
                return used_by_rule, (None if used_by_rule else ())
            return used[1], (None if used_by_rule else tuple(used[2:]))
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            used.append(used_by_rule)
    return used[1], tuple(used[2:])


@functools.lru_cache(4096)
def _kept(op: Any, leading: tuple[bool, ...]) -> tuple[bool, tuple[bool, ...]]:
    """Which values of a call to save: (the output, (input 0, ...)). Of a tuple of rules, one per
    input, only those at `leading` will be evaluated, so x * c with a constant c saves only c."""
    out, inputs = op.saves(len(leading))
    if type(op.vjp) is not tuple:
        return out, inputs
    each = [uses(rule) for rule, leads in zip(op.vjp, leading, strict=True) if leads]
    return (
        out and any(of_output for of_output, _ in each),
        tuple(
            [
                kept and any(used is None or used[i : i + 1] == (True,) for _, used in each)
                for i, kept in enumerate(inputs)
            ]
        ),
    )


def record(op: Any, inputs: Sequence[Any], output: Any, params: dict) -> None:
    """Make the node of a call and attach it to the results. Values that the gradient rule does not
    use are not saved.

    Inputs are arrays, None or Python scalars. A result is saved without its node: an array and a
    node that refer to each other would not be freed with their last user.
    """
    if state.paused or op.vjp is None:
        return
    count = len(inputs)
    keep_output, keep = op.saves(count)
    node = _new(Node)
    node.order = next(_order)
    node.op = op
    node.params = params
    state.newest = op, params
    if count == 1:
        x = inputs[0]
        node.parents = (x._node,)
        node.inputs = (x if keep[0] else None,)
    elif count == 2:
        x, y = inputs
        if (
            x is y and (twice := getattr(op, "twice", None)) is not None
        ):  # x * x: one rule, not two and their sum
            record(twice, (x,), output, params)
            return
        left, right = (
            x._node if isinstance(x, ndarray) else None,
            y._node if isinstance(y, ndarray) else None,
        )
        node.parents = (left, right)
        if left is None or right is None:
            keep_output, keep = _kept(op, (left is not None, right is not None))
        node.inputs = (x if keep[0] else None, y if keep[1] else None)
    else:
        node.parents = parents = tuple(
            [x._node if isinstance(x, ndarray) else None for x in inputs]
        )
        if None in parents:
            keep_output, keep = _kept(op, tuple([parent is not None for parent in parents]))
        node.inputs = tuple([x if use else None for x, use in zip(inputs, keep, strict=True)])
    if op.several:
        node.outputs = tuple([r._layout for r in output])
        node.results = _kept_results(op, output) if keep_output else None
        for index, result in enumerate(output):
            result._node = Part(node, index)
    else:
        node.outputs = output._layout
        node.results = output._alias() if keep_output else None
        output._node = node


def _kept_results(op: Any, output: Sequence[Any]) -> tuple:
    """The results of a call that the gradient rule uses, with None in place of the others."""
    keeps = getattr(op, "keeps", None)
    if keeps is None:
        return tuple([r._alias() for r in output])
    return tuple([r._alias() if keep else None for r, keep in zip(output, keeps, strict=True)])


def not_needed(x: ndarray) -> None:
    """Drop the saved value of `x`, one of several results of a call, whose gradient rule will not
    use it this time."""
    part = x._node
    if part is not None and part.node.results is not None:
        if open_records:
            obstruct("changed what a node keeps")
        part.node.results = tuple(
            [None if i == part.index else r for i, r in enumerate(part.node.results)]
        )


def owner(node: Node | Part) -> Node:
    """The node itself, or the node of a part."""
    return node.node if type(node) is Part else node  # type: ignore[return-value]
