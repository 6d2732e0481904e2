"""Recording of gradients.

An op whose input carries a node makes a node for its result: what was called, with which arrays, by
which gradient rule. `backward` walks the nodes from the newest to the oldest. Nodes live only as
long as the arrays that carry them, and what nothing differentiates carries none: for such a call
recording costs one test.

Gradient rules are written with public operations. At the outermost level they run unrecorded; while
a gradient is itself being differentiated they are recorded like any other call, which is all that
higher orders need.
"""

from __future__ import annotations

import bisect
import functools
import inspect
import itertools
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import shapes
from ..array import ndarray
from ..devices import TRACED
from ..dispatch.call_record import obstruct, open_records
from ..layout import Layout

_order = itertools.count()
_new = object.__new__
_age = operator.attrgetter("order")


class _State(threading.local):
    depth = 0  # gradients being taken, one within another
    paused = False
    newest: tuple[Any, dict] = None, {}  # the op of the newest node, and its parameters
    # who hands out random numbers while a function is run whose draws must be repeated: see Draws
    draws: Any = None


state = _State()
#: Who may still take gradients, by id, and the order of their oldest node: functions that are being
#: recorded, and what `vjp` recorded. As long as there are any, in whatever thread, changes in place
#: are noted: threads share memory.
holders: dict[int, int] = {}


class Node:
    """One recorded call. `parents[i]` is the node of input i, or None.

    `outputs` is the layout of its result and `results` the result, if the rule uses it; tuples of
    them for an op that has several. `inputs`: those that the rule uses, None in place of the
    others, and None altogether once released.
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
    """The i-th result of a node that has several."""

    __slots__ = ("node", "index")

    def __init__(self, node: Node, index: int):
        self.node, self.index = node, index


def node_of(
    op: Any, parents: tuple, inputs: tuple, results: Any, params: dict, outputs: Any
) -> Node:
    """A new node, the newest of all."""
    node = _new(Node)
    node.order, node.op, node.parents, node.inputs = next(_order), op, parents, inputs
    node.results, node.params, node.outputs = results, params, outputs
    return node


class _Leaf:
    """The op of a leaf: passes a gradient on to what lay behind it."""

    name = "leaf"
    broadcasts = False
    several = False

    @staticmethod
    def vjp(g: Any, *_: Any, **__: Any) -> tuple:
        return (g,)


def now() -> int:
    """Nodes made from now on are of this order or newer."""
    return next(_order)


def leaf(x: ndarray, level: dict[str, bool] | None = None) -> ndarray:
    """A new array over the same memory, from which a gradient is recorded. A node of `x` stays
    behind it. level: {"open": whether the function is still being recorded whose argument it is},
    one for all of its arguments."""
    out = x._alias()
    out._node = node_of(_Leaf, (x._node,), (None,), None, {} if level is None else level, x._layout)
    return out


def depends(x: ndarray) -> bool:
    """Whether `x` depends on an argument of a function that is being recorded. What has a node need
    not: gradients that were taken inside of such a function depend on the arguments of their own
    function, whose gradients nobody takes any more."""
    if x._node is None:
        return False
    stack = [owner(x._node)]
    found = set(stack)
    while stack:
        node = stack.pop()
        if node.op is _Leaf and node.params.get("open"):
            return True
        more = {owner(parent) for parent in node.parents if parent is not None} - found
        found |= more
        stack += more
    return False


def uses(rule: Callable | tuple[Callable, ...] | None) -> tuple[bool, tuple[bool, ...] | None]:
    """Which of (y, each input) a gradient rule `rule(g, y, *inputs, **params)` uses; inputs None:
    every one."""
    if rule is None:
        return False, ()
    if isinstance(rule, tuple):
        each = [uses(r) for r in rule]
        return any(out for out, _ in each), tuple(
            map(any, zip(*[ins or () for _, ins in each], strict=True))
        )
    used: list[bool] = []
    for parameter in inspect.signature(rule).parameters.values():
        wanted = not parameter.name.startswith("_")
        if parameter.kind == parameter.VAR_POSITIONAL:
            if len(used) < 2:
                return wanted, (None if wanted else ())
            return used[1], (None if wanted else tuple(used[2:]))
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            used.append(wanted)
    return used[1], tuple(used[2:])


@functools.lru_cache(4096)
def _kept(op: Any, leading: tuple[bool, ...]) -> tuple[bool, tuple[bool, ...]]:
    """What is kept of a call of which some inputs carry no node: (output?, (input 0?, ...)). Of a
    tuple of rules, one an input, only those at `leading` will be evaluated: x * c keeps c alone."""
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
    """Make the node of a call and hang it on the result(s). What the gradient rule does not use is
    not kept.

    Inputs are arrays, or, without a node, None or Python scalars. A kept result is kept without its
    node: an array and a node that held each other would outlive their last user.
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
            x._node if type(x) is ndarray else None,
            y._node if type(y) is ndarray else None,
        )
        node.parents = (left, right)
        if left is None or right is None:
            keep_output, keep = _kept(op, (left is not None, right is not None))
        node.inputs = (x if keep[0] else None, y if keep[1] else None)
    else:
        node.parents = parents = tuple([x._node if type(x) is ndarray else None for x in inputs])
        if None in parents:
            keep_output, keep = _kept(op, tuple([parent is not None for parent in parents]))
        node.inputs = tuple([x if use else None for x, use in zip(inputs, keep, strict=True)])
    if op.several:
        node.outputs = tuple([r._layout for r in output])
        node.results = tuple([r._alias() for r in output]) if keep_output else None
        for index, result in enumerate(output):
            result._node = Part(node, index)
    else:
        node.outputs = output._layout
        node.results = output._alias() if keep_output else None
        output._node = node


class Kept:
    """As long as this object lives, changes in place are noted: somebody holds the nodes of a
    holder and may still take gradients from them."""

    def __init__(self, holder: object):
        holders[id(self)] = holders[id(holder)]

    def __del__(self) -> None:
        holders.pop(id(self), None)


class _Changes:
    """Where memory was changed in place, and when, the last change last; of all threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.writes: dict[
            tuple, int
        ] = {}  # replaced, not cut: who took it out has all that it held
        self.newest = -1
        self.most = _FEW

    def hold(self, holder: object) -> None:
        """`holder` will hold nodes, from now on."""
        with self.lock:
            if not holders:
                self.writes = {}
            holders[id(holder)] = next(_order)

    def note(self, place: tuple) -> None:
        """A change of this place, now. What is older than all nodes that somebody holds is
        forgotten from time to time."""
        with self.lock:
            self.newest = next(_order)
            self.writes.pop(place, None)
            self.writes[place] = self.newest
            if len(self.writes) > self.most:
                oldest = min(holders.values(), default=self.newest)
                self.writes = {place: when for place, when in self.writes.items() if when >= oldest}
                self.most = 2 * len(self.writes) + _FEW


_FEW = 1024  # changes, which cost nothing to remember
changes = _Changes()


def wrote(x: ndarray) -> None:
    """Note that `x` is changed in place, where gradients may still be taken: nothing that a
    gradient rule will read may lie there (`_Since`). Nothing is noted where arrays are kept, which
    is what happens often."""
    if holders and x._layout.size and x._layout.device != TRACED:
        changes.note(_place(x))


def _place(x: ndarray) -> tuple:
    layout = x._layout
    return x.ptr, layout.shape, layout.strides, layout.itemsize


class _Since:
    """What was changed in place since a node was made, for nodes from the newest to the oldest:
    ranges of bytes in order, of which no two meet, and the changed places in each, layout ->
    addresses."""

    def __init__(self, writes: dict[tuple, int]):
        self.left = list(writes.copy().items())  # another thread may go on writing
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
        """Refuse to compute a gradient from kept arrays that were changed after the call that kept
        them. Inputs that are no arrays (of `checkpoint`, `custom_vjp`) say by `arrays()` which ones
        they hold."""
        while self.left and self.left[-1][1] > node.order:
            self._add(self.left.pop()[0])
        if not self.places:
            return
        kept = list(node.inputs)  # type: ignore[arg-type]
        for x in node.inputs:  # type: ignore[union-attr]
            kept += x.arrays() if hasattr(x, "arrays") else ()
        for x in (*kept, *(node.results if type(node.results) is tuple else (node.results,))):
            if (
                type(x) is ndarray
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
    except np.exceptions.TooHardError:  # better an error for nothing than a wrong gradient
        return True


def not_needed(x: ndarray) -> None:
    """Say that the gradient rule of the call that made `x`, one of several results, will not use
    `x` this time."""
    part = x._node
    if part is not None and part.node.results is not None:
        if open_records:
            obstruct("changed what a node keeps")
        part.node.results = tuple(
            [None if i == part.index else r for i, r in enumerate(part.node.results)]
        )


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


def _chain(node: Node, needed: set, oldest: int) -> list[Node] | None:
    """`reachable` from one node, where no node on the way has more than one parent on the way, as
    in most losses of a few steps: nothing is sorted or looked up twice. None where one has more."""
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
    """The nodes between those needed and `roots`, newest first: those whose gradient depends on a
    needed one. Some needed ones may be among them."""
    oldest = min([node.order for node in needed])
    if len(roots) == 1:
        chain = _chain(owner(roots[0]), needed, oldest)
        if chain is not None:
            return chain
    found, needed = {owner(root) for root in roots}, needed.copy()
    stack = list(found)
    while stack:
        for parent in stack.pop().parents:
            if parent is not None:
                if type(parent) is Part:
                    parent = parent.node
                if parent not in found and parent.order >= oldest:
                    found.add(parent)
                    if parent not in needed:
                        stack.append(parent)
    chosen = []
    for node in sorted(found, key=_age):  # what leads to a needed node is needed
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
    wanted: Sequence[Node | Part],
    writes: dict[tuple, int],
    *,
    release: bool,
) -> list[ndarray | None]:
    """Gradients at `wanted` of the sum over roots of <gradient, root>, not through one wanted node
    to another; `release` drops residuals on the way. writes: what was changed in place up to now.

    A gradient lives until the rule has run that takes it in, and what that rule used goes with it.
    Sums are arrays of our own, so what comes from parts of an array (op.add_into) is added in
    place.
    """
    gradients: dict[Node, Any] = {}
    own: set[Any] = set()
    for root, given in roots:
        _add(gradients, root, given)
    targets = {node.node if type(node) is Part else node for node in wanted}
    recording = not state.paused
    order = reachable([root for root, _ in roots], targets)  # type: ignore[arg-type]
    order.reverse()
    since = _Since(writes) if writes and order and changes.newest > order[0].order else None
    while order:
        node = order.pop()
        if node in targets:
            continue
        g = gradients.pop(node, None)
        if g is None:
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
            if parent in own and into(_found(gradients, parent), g, **params):
                continue
            own.add(parent)  # what is about to be put there is new
        y, rules = _with_nodes(node) if recording else node.results, op.vjp
        if y is None and op.several:
            y = (None,) * len(node.outputs)
        local: Any
        if type(rules) is tuple:  # one rule an input: only those that lead somewhere are evaluated
            local = [
                None if parent is None else rule(g, y, *inputs, **params)
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
                    if layout.dtype.kind in "biu":  # nothing flows through integers
                        continue
                    g = _fit(op, g, layout)
                _add(gradients, parent, g)
        g = local = None
    return [_found(gradients, node) for node in wanted]


def _with_nodes(node: Node) -> Any:
    """The kept result as a differentiable array, for a gradient of a gradient."""
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
    """A gradient that two users gave, not yet added: what a rule reads for the sum it need not
    write first."""


def terms(g: Any) -> tuple:
    """The arrays that a gradient is the sum of, as the rule of an op that `adds` is given it."""
    return g if type(g) is _Two else (g,)


def total(g: Any) -> Any:
    """That gradient as one array."""
    return g[0] + g[1] if type(g) is _Two else g


def _add(gradients: dict[Node, Any], node: Node | Part, g: ndarray) -> None:
    """Accumulate a gradient: an array, or for a node of several results a list of them."""
    if type(node) is Part:
        held = gradients.get(node.node)
        if held is None:
            held = gradients[node.node] = [None] * len(node.node.outputs)
        before = held[node.index]
        if before is None:
            held[node.index] = g
        else:
            adds = getattr(node.node.op, "adds", False)
            held[node.index] = (
                _Two((before, g)) if adds and type(before) is not _Two else total(before) + g
            )
    else:
        before = gradients.get(node)  # type: ignore[arg-type]
        gradients[node] = g if before is None else before + g  # type: ignore[index]


def _found(gradients: dict[Node, Any], node: Node | Part) -> ndarray | None:
    if type(node) is Part:
        held = gradients.get(node.node)
        return None if held is None else total(held[node.index])
    return gradients.get(node)  # type: ignore[arg-type]


def _fit(op: Any, g: ndarray, layout: Layout) -> ndarray:
    """A gradient in the shape and dtype of the input it belongs to: sums over what was broadcast,
    undoes promotion."""
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
