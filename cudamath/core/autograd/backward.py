"""The backward pass: it visits the nodes from the newest to the oldest and accumulates
gradients."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import shapes
from ..array import ndarray
from ..devices import CPU, TRACED
from ..layout import Layout
from ..recording import state
from .mutation import _place, changes
from .tape import Node, Part, owner

_age = operator.attrgetter("order")


class _Since:
    """Changes in place since a node was recorded, for nodes from the newest to the oldest: disjoint
    ranges of bytes in order, and the changed places in each range, layout -> addresses."""

    def __init__(self, writes: dict[tuple, int]):
        self.left = list(writes.copy().items())  # a copy: another thread may add changes
        self.lows: list[int] = []
        self.highs: list[int] = []
        self.places: list[dict[tuple, list[int]]] = []

    def _range(self, place: tuple) -> tuple[int, int, slice]:
        """The bytes between which a place lies, and the ranges that they meet."""
        low, high = shapes.byte_bounds(*place[1:])
        low, high = place[0] + low, place[0] + high
        first = bisect.bisect_right(self.lows, low)
        if first and self.highs[first - 1] > low:
            first -= 1
        return low, high, slice(first, bisect.bisect_left(self.lows, high, first))

    def _add(self, place: tuple) -> None:
        low, high, met = self._range(place)
        together: dict[tuple, list[int]] = {place[1:]: [place[0]]}
        for places in self.places[met]:
            for layout, addresses in places.items():
                together.setdefault(layout, []).extend(addresses)
        self.places[met] = [together]
        self.lows[met], self.highs[met] = (
            [min([low, *self.lows[met]])],
            [max([high, *self.highs[met]])],
        )

    def _changed(self, x: ndarray) -> bool:
        place = _place(x)
        for places in self.places[self._range(place)[2]]:
            for layout, addresses in places.items():
                if any(
                    [
                        _meet(place, (other, *layout))
                        for other in shapes.not_beside(place, layout, addresses)
                    ]
                ):
                    return True
        return False

    def check(self, node: Node) -> None:
        """Raise RuntimeError if an array that a node saved was changed after the call. Inputs other
        than arrays (of `checkpoint`, `custom_vjp`) list their arrays by `arrays()`."""
        while self.left and self.left[-1][1] > node.order:
            self._add(self.left.pop()[0])
        if not self.places:
            return
        kept = list(node.inputs)  # type: ignore[arg-type]
        for x in node.inputs:  # type: ignore[union-attr]
            kept += x.arrays() if hasattr(x, "arrays") else ()
        for x in (*kept, *(node.results if type(node.results) is tuple else (node.results,))):
            if (
                isinstance(x, ndarray)
                and x._layout.size
                and x._layout.device != TRACED
                and self._changed(x)
            ):
                raise RuntimeError(
                    f"{node.op.name}: an array of {x.dtype}, shape {x.shape}, that the gradient "
                    "needs was "
                    "changed in place after it was used; change a copy of it"
                )


def _meet(*places: tuple) -> bool:
    try:
        return shapes.share_memory(*places, max_work=100_000)
    except np.exceptions.TooHardError:  # undecided: an error is safer than a wrong gradient
        return True


def _chain(node: Node, needed: set, oldest: int) -> list[Node] | None:
    """`reachable` from one node, if the nodes form a chain, as in most losses of a few steps:
    without sorting. None if a node has more than one parent that matters."""
    chosen: list[Node] = []
    leading = 0  # how many of these lead to a needed node
    if node in needed:
        return chosen
    while True:
        chosen.append(node)
        following = None
        for parent in node.parents:
            if parent is not None:
                if type(parent) is Part:
                    parent = parent.node
                if parent in needed:
                    leading = len(chosen)
                elif parent is not following and parent.order >= oldest:
                    if following is not None:
                        return None
                    following = parent
        if following is None:
            del chosen[leading:]
            return chosen
        node = following


def reachable(roots: Sequence[Node | Part], needed: set[Node]) -> list[Node]:
    """The nodes between `roots` and the needed nodes, newest first: all nodes on a path from a root
    to a needed one. It may include needed ones."""
    oldest = min([node.order for node in needed])
    if len(roots) == 1:
        chain = _chain(owner(roots[0]), needed, oldest)
        if chain is not None:
            return chain
    reached, needed = {owner(root) for root in roots}, needed.copy()
    stack = list(reached)
    while stack:
        for parent in stack.pop().parents:
            if parent is not None:
                if type(parent) is Part:
                    parent = parent.node
                if parent not in reached and parent.order >= oldest:
                    reached.add(parent)
                    if parent not in needed:
                        stack.append(parent)
    chosen = []
    for node in sorted(reached, key=_age):  # what leads to a needed node is needed
        if node in needed:
            chosen.append(node)
            continue
        for parent in node.parents:
            if parent is not None and (parent.node if type(parent) is Part else parent) in needed:
                needed.add(node)
                chosen.append(node)
                break
    chosen.reverse()
    return chosen


def backward(
    roots: Sequence[tuple[Node | Part, ndarray]],
    leaves: Sequence[Node | Part],
    writes: dict[tuple, int],
    *,
    release: bool,
    ready: Callable[[int, ndarray | None], None] | None = None,
) -> list[ndarray | None]:
    """Gradients at `leaves` of the sum over roots of <cotangent, root>.

    Parameters
    ----------
    roots
        Pairs of a node and the cotangent of its result.
    leaves
        The nodes whose gradients are returned. No gradient passes through one leaf to another.
    writes
        Changes in place up to now.
    release
        Whether to drop the saved values of each node after its rule has run.
    ready
        Called as soon as the gradient at a leaf is complete, with the leaf's number; the other
        gradients are still being computed. Those are left out of the result.

    Notes
    -----
    A gradient is freed after the rule that consumes it, together with the values that the rule
    used. Sums are new arrays, so gradients of parts of an array (`op.add_into`) are added in place.
    """
    gradients: dict[Node, Any] = {}
    own: set[Any] = set()
    for root, cotangent in roots:
        _add(gradients, root, cotangent)
    targets = {node.node if type(node) is Part else node for node in leaves}
    recording = not state.paused
    order = reachable([root for root, _ in roots], targets)  # type: ignore[arg-type]
    among = targets.union(order)  # nodes whose gradients somebody asks for
    order.reverse()
    awaited = None if ready is None else _Awaited(leaves, order, gradients, ready)
    since = _Since(writes) if writes and order and changes.newest > order[0].order else None
    while order:
        node = order.pop()
        if node in targets:
            continue
        g = gradients.pop(node, None)
        if g is None:
            if awaited is not None:
                awaited.passed(node)
            continue
        inputs, op, parents, params = node.inputs, node.op, node.parents, node.params
        if inputs is None:
            raise RuntimeError(
                f"{op.name}: its gradient was already taken and what it needs was released; "
                "use vjp() to take several"
            )
        if since is not None:
            since.check(node)
        into = None if recording else getattr(op, "add_into", None)
        if into is not None:
            (parent,) = parents
            if parent in own and into(_gradient_of(gradients, parent), g, **params):
                continue
            own.add(parent)  # the rule returns a new array
        if type(g) is list and getattr(op, "foreign", False):
            g = _unshared(g, [c for _, c in roots], gradients, ready is not None)
        y, rules = _with_nodes(node) if recording else node.results, op.vjp
        if y is None and op.several:
            y = (None,) * len(node.outputs)
        local: Any
        if type(rules) is tuple:  # one rule per input: only the needed ones are evaluated
            local = [
                rule(g, y, *inputs, **params)
                if parent is not None and (parent.node if type(parent) is Part else parent) in among
                else None
                for rule, parent in zip(rules, parents, strict=True)
            ]
        else:
            local = rules(g, y, *inputs, **params)
        if release:
            node.inputs = node.results = None
        y = inputs = None
        if len(local) != len(parents):
            raise AssertionError(
                f"{op.name}: gradient rule returned {len(local)} gradients for {len(parents)} "
                "inputs"
            )
        for parent, g in zip(parents, local, strict=True):
            if parent is not None and g is not None:
                layout = (
                    parent.outputs if type(parent) is Node else parent.node.outputs[parent.index]
                )
                if g._layout is not layout:
                    if layout.dtype.kind in "biu":  # integers have no gradient
                        continue
                    g = _fit(op, g, layout)
                _add(gradients, parent, g)
        g = local = None
        if awaited is not None:
            awaited.passed(node)
    return [_gradient_of(gradients, node) for node in leaves]


def _unshared(
    g: list[ndarray | None], cotangents: list, gradients: dict[Node, Any], collected: bool
) -> list[ndarray | None]:
    """The gradients at a function's results for a rule of the user's, which may change them in
    place: copies where something else that is still needed lies in the same memory.

    collected: a collector may have it.
    """
    taken = set()
    for waiting in (cotangents, *gradients.values()):
        for x in waiting if isinstance(waiting, list) else [waiting]:
            taken.update([memory_owner(each) for each in terms(x) if each is not None])
    found: list[ndarray | None] = []
    for each in g:
        if each is not None and each._layout.device != TRACED:
            if collected or memory_owner(each) in taken:
                each = each.copy()
            taken.add(memory_owner(each))
        found.append(each)
    return found


def memory_owner(x: ndarray) -> int:
    """The id of the object that owns the memory of an array, which its views share."""
    if x._layout.device != CPU:
        return id(x._owner)
    return id(x._data if x._data.base is None else x._data.base)


class _Awaited:
    """Leaves whose gradients still get terms, and how many nodes have yet to add one."""

    def __init__(
        self,
        leaves: Sequence[Node | Part],
        order: Sequence[Node],
        gradients: dict[Node, Any],
        ready: Callable[[int, ndarray | None], None],
    ):
        self.numbers = {leaf: i for i, leaf in enumerate(leaves)}
        self.counts = dict.fromkeys(leaves, 0)
        self.gradients, self.ready = gradients, ready
        for node in order:
            for parent in node.parents:
                if parent in self.counts:
                    self.counts[parent] += 1
        for leaf, count in self.counts.items():
            if not count:
                self._complete(leaf)

    def passed(self, node: Node) -> None:
        """A node has added its terms."""
        for parent in node.parents:
            if parent in self.counts:
                self.counts[parent] -= 1
                if not self.counts[parent]:
                    self._complete(parent)

    def _complete(self, leaf: Any) -> None:
        self.ready(self.numbers[leaf], self.gradients.pop(leaf, None))


def _with_nodes(node: Node) -> Any:
    """The saved result as a differentiable array, for a gradient of a gradient."""
    if node.results is None:
        return None
    if not node.op.several:
        result = node.results._alias()
        result._node = node
        return result
    results = tuple([None if result is None else result._alias() for result in node.results])
    for index, result in enumerate(results):
        if result is not None:
            result._node = Part(node, index)
    return results


class _Two(tuple):
    """The sum of two gradients, not yet added. A rule that reads both saves writing the sum."""


def terms(g: Any) -> tuple:
    """The terms of a gradient, for the rule of an op that `adds`."""
    return g if type(g) is _Two else (g,)


def total(g: Any) -> Any:
    """A gradient as one array: the sum of its terms."""
    return g[0] + g[1] if type(g) is _Two else g


def _add(gradients: dict[Node, Any], node: Node | Part, g: ndarray) -> None:
    """Accumulate a gradient: an array, or for a node of several results a list of them."""
    if type(node) is Part:
        parts = gradients.get(node.node)
        if parts is None:
            parts = gradients[node.node] = [None] * len(node.node.outputs)
        before = parts[node.index]
        if before is None:
            parts[node.index] = g
        else:
            adds = getattr(node.node.op, "adds", False)
            parts[node.index] = (
                _Two((before, g)) if adds and type(before) is not _Two else total(before) + g
            )
    else:
        before = gradients.get(node)  # type: ignore[arg-type]
        gradients[node] = g if before is None else before + g  # type: ignore[index]


def _gradient_of(gradients: dict[Node, Any], node: Node | Part) -> ndarray | None:
    if type(node) is Part:
        parts = gradients.get(node.node)
        return None if parts is None else total(parts[node.index])
    return gradients.get(node)  # type: ignore[arg-type]


def _fit(op: Any, g: ndarray, layout: Layout) -> ndarray:
    """A gradient in the shape and dtype of its input: summed over broadcast axes, and cast back
    from the promoted dtype."""
    if op.broadcasts and g._layout.shape != layout.shape:
        g = unbroadcast(g, layout.shape)
    if g._layout.shape != layout.shape:
        raise AssertionError(
            f"{op.name}: gradient rule gave shape {g.shape} for an input of shape {layout.shape}"
        )
    if g._layout.dtype is not layout.dtype and g.dtype != layout.dtype:
        if g.dtype.kind == "c" and layout.dtype.kind != "c":
            g = g.real
        g = g.astype(layout.dtype)
    return g


def unbroadcast(g: ndarray, shape: tuple[int, ...]) -> ndarray:
    """Sum a gradient over the axes along which an input of this shape was broadcast."""
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        extra + i for i, n in enumerate(shape) if n == 1 and g.shape[extra + i] != 1
    )
    if axes:
        g = g.sum(axis=axes, keepdims=True)
    return g.reshape(shape) if g.shape != shape else g
