"""Loops and conditions as nodes: in a function that is being traced, each is one op whose body is a
program (body.py).

    Loop      so many steps over rows of arrays; the node of `scan`
    Branch    one of two bodies, by a truth value; the node of `cond`
    While     steps until a truth value says so; the node of `while_loop`

They work on flat lists of arrays; control_flow.py takes the user's trees apart. Their gradients are
loops and conditions again, of functions that run the body once more with its gradient: so they
exist in every order. A loop keeps for its gradient what went into each step, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autodiff.transforms import Level
from ..core import recording
from ..core.array import allocate, ndarray
from ..core.autograd import backward as autograd_backward
from ..core.autograd import constants, tape
from ..core.devices import CPU, device_of
from ..core.dispatch.call_record import report, unrecorded
from ..core.dtypes import INEXACT
from ..core.layout import Layout
from ..core.scalar import inside
from ..ops.where import where
from ..runtime.dry import DryStream
from ..runtime.state import runtime
from .body import Body, copy_into, in_standard_layout, traced_body
from .columns import Columns, row_layout
from .hoisting import Hoisting, takes_apart
from .program import Program
from .trace import TraceError

Function = Callable[[list[ndarray]], list[ndarray]]

#: `loop` and `branch` as gradients take them, which may be within calls of `vmap`: filled by
#: batches.py.
in_calls: dict[str, Callable[..., list[ndarray]]] = {}


class Rolled:
    """An op that runs bodies.

    Parameters
    ----------
    name : str
        Of the public function.
    bodies : dict
        What the text of `explain` calls each body -> Body.

    Attributes
    ----------
    programs : dict
        What `explain` calls it -> the program of a body.
    reads : bool
        Whether a run waits for the device to read a value, so that it cannot be in a CUDA graph.
    times : int
        How often the bodies run, as far as it is known.
    """

    several = True
    broadcasts = False
    writes = False
    times = 1
    alone = "its bodies are programs, which are fused by themselves; no step joins another"

    def __init__(self, name: str, bodies: dict[str, Body]):
        self.name, self.bodies = name, list(bodies.values())
        self.programs = {what: body.program for what, body in bodies.items()}
        self.reads = any([program.reads for program in self.programs.values()])

    def run(self, *inputs: ndarray) -> tuple[ndarray, ...]:
        """The results. What of them shares memory must not depend on values."""
        with inside():
            return self.results(*inputs)

    def results(self, *inputs: ndarray) -> tuple[ndarray, ...]:
        """`run` for functions of this package."""
        raise NotImplementedError

    def called(self, inputs: list[ndarray]) -> tuple[ndarray, ...]:
        """Run the op, as a step of the program that is being traced."""
        with unrecorded(), recording.paused(), inside():
            results = tuple([y._alias() for y in self.run(*[x._alias() for x in inputs])])
        report(self, tuple(inputs), (), {}, self.run, results)
        return results

    def record(self, call: _Call, results: tuple, keep: bool) -> None:
        """Make the tape's node, if something is differentiated."""
        parents = [x._node if is_smooth(x) else None for x in call.differentiated]
        parents += call.nodes
        if all([parent is None for parent in parents]):
            return
        node = tape.node_of(
            self,
            tuple(parents),
            (call,),
            tuple([y._alias() for y in results]) if keep else None,
            {},
            tuple([y._layout for y in results]),
        )
        for index, y in enumerate(results):
            if is_smooth(y):
                y._node = tape.Part(node, index)

    def vjp(self, g: Sequence, y: Sequence, call: Any) -> list[Any]:
        """Gradients at the parents of the node."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.name}>"


class _Call:
    """What the gradient of a call needs.

    functions: the bodies as functions; differentiated: the arrays at which it takes gradients;
    nodes: the nodes outside, where it takes others; read: the other arrays that it reads.
    """

    __slots__ = ("functions", "differentiated", "nodes", "read")

    def __init__(
        self,
        functions: tuple[Function, ...],
        differentiated: list[ndarray],
        nodes: Sequence,
        read: list[ndarray],
    ):
        self.functions, self.differentiated = functions, differentiated
        self.nodes, self.read = list(nodes), read

    def arrays(self) -> list[ndarray]:
        """The arrays that must not change before the gradient is taken."""
        return [*self.differentiated, *self.read]


def is_recorded() -> bool:
    """Whether gradients are being recorded."""
    return bool(recording.state.depth) and not recording.state.paused


def is_smooth(x: ndarray) -> bool:
    """Whether a gradient exists with respect to an array."""
    return x.dtype in INEXACT


def pulled(
    function: Function, arrays: list[ndarray], cotangents: dict[int, ndarray], outside: Sequence
) -> list[ndarray]:
    """Gradients of <cotangents, function(arrays)> with respect to the smooth arrays, and at the
    nodes outside. cotangents: number of a result -> its cotangent."""
    with Level() as level:
        leaves = [level.leaf(x) if is_smooth(x) else x for x in arrays]
        results = function(leaves)
    nodes = [x._node for x in leaves if is_smooth(x)] + list(outside)
    roots = [(results[k]._node, g) for k, g in cotangents.items() if results[k]._node is not None]
    gradients: list = [None] * len(nodes)
    if roots and nodes:
        release = recording.state.paused
        with inside():
            gradients = autograd_backward.backward(roots, nodes, level.writes, release=release)
    return [
        zeros(layout_of(node)) if g is None else g for g, node in zip(gradients, nodes, strict=True)
    ]


def layout_of(node: Any) -> Layout:
    """The layout of what a node, or a part of one, stands for."""
    return node.node.outputs[node.index] if type(node) is tape.Part else node.outputs


def zeros(layout: Layout) -> ndarray:
    """An array of zeros in C order."""
    return constants.full(layout.shape, 0, dtype=layout.dtype, device=device_of(layout.device))


# -------------------- loops of so many steps


def loop(
    name: str,
    function: Function,
    carry: list[ndarray],
    rows: list[ndarray],
    length: int,
    reverse: bool,
) -> list[ndarray]:
    """The last carry, and what the steps gave besides, stacked.

    Parameters
    ----------
    name : str
        Of the public function.
    function : callable
        `function([*carry, *row of each array])` -> [*carry, *others].
    carry : list of ndarray
        Where the loop begins.
    rows : list of ndarray
        Arrays of `length` rows.
    length : int
        Number of steps, at least one.
    reverse : bool
        Whether the last row comes first.

    Returns
    -------
    list of ndarray
        [*carry, *stacked others].
    """
    carry = [in_standard_layout(x) for x in carry]
    rows = [in_standard_layout(x) for x in rows]
    recorded, count = is_recorded(), len(carry)

    def step(arrays: list[ndarray]) -> list[ndarray]:
        """The function, and what went into it: the gradient needs it."""
        return [*function(arrays), *arrays[:count]]

    body = step if recorded else function
    slices = [row_layout(x._layout) for x in rows]
    layouts = [*[x._layout for x in carry], *slices]
    examples = [*carry, *[x._view(layout) for x, layout in zip(rows, slices, strict=True)]]
    hoisting = Hoisting(count, len(rows), length, sums=not recorded)
    columns = None
    if layouts and layouts[0].device >= 0:
        columns = Columns(length, reverse, count if recorded else 0)

    def change(program: Program) -> Program:
        if layouts and takes_apart(layouts[0]):
            program = hoisting.body(program)
        return program if columns is None else columns.body(program, len(hoisting.kept(carry)))

    traced, around = traced_body(name, body, layouts, examples, recorded, change)
    all_rows = [*rows, *hoisting.more_rows(rows, around.captured)]
    kept = hoisting.kept(carry)
    slices = [row_layout(x._layout) for x in all_rows]
    op = Loop(name, traced, slices, len(kept), length, reverse, columns)
    results = op.called([*around.captured, *kept, *all_rows])
    if columns is not None:
        results = tuple(columns.spread(list(results)))
    if recorded:
        op.record(
            _Call((body,), [*carry, *rows], around.nodes, around.captured), results, keep=True
        )
        return list(results[: len(results) - count])
    return hoisting.results(list(results), carry, all_rows, around.results - count)


class Loop(Rolled):
    """The op of a loop.

    Parameters
    ----------
    name : str
        Of the public function.
    body : Body
        One step.
    slices : list of Layout
        Of the rows that it takes.
    count : int
        Number of arrays in the carry.
    steps : int
        Number of steps.
    reverse : bool
        Whether the last row comes first.
    columns : Columns, optional
        Where the steps write their results, on a GPU. Without it they are copied there.
    """

    def __init__(
        self,
        name: str,
        body: Body,
        slices: list[Layout],
        count: int,
        steps: int,
        reverse: bool,
        columns: Columns | None,
    ):
        super().__init__(name, {f"{steps} times": body})
        self.body, self.slices, self.count = body, slices, count
        self.steps = self.times = steps
        self.reverse, self.columns = reverse, columns

    def results(self, *inputs: ndarray) -> tuple[ndarray, ...]:
        """Inputs: what the body captures, the first carry, the rows."""
        at = len(inputs) - len(self.slices)
        carry, rows = list(inputs[at - self.count : at]), inputs[at:]
        captured, order = inputs[: at - self.count], range(self.steps)

        def row(i: int) -> list[ndarray]:
            pairs = zip(rows, self.slices, strict=True)
            return [x._view(layout, i * layout.nbytes) for x, layout in pairs]

        if self.columns is not None:
            stacks, own = self.columns.arrays(carry)
            for i in reversed(order) if self.reverse else order:
                targets = self.columns.targets(stacks, own, i)
                carry = self.body.run(*carry, *row(i), *captured, *targets)
            return (*self.columns.last(stacks, carry), *stacks, *own)
        columns = [
            allocate(Layout.new((self.steps, *y.shape), y.dtype, y.device))
            for y in self.body.results[self.count :]
        ]
        for i in reversed(order) if self.reverse else order:
            out = self.body.run(*carry, *row(i), *captured)
            carry = out[: self.count]
            for column, y in zip(columns, out[self.count :], strict=True):
                layout = row_layout(column._layout)
                copy_into(column._view(layout, i * layout.nbytes), y)
        return (*carry, *columns)

    def vjp(self, g: Sequence, y: Sequence, call: _Call) -> list[Any]:
        """Gradients at the first carry, at the rows, and at the nodes outside: a loop from the last
        step to the first."""
        count, (function,), outside = self.count, call.functions, call.nodes
        before, rows = y[len(y) - count :], call.differentiated[count:]
        carried = [k for k in range(count) if is_smooth(y[k])]
        others = [k for k in range(count, len(g)) if g[k] is not None and is_smooth(y[k])]
        begin = len(carried) + len(outside)
        end = begin + count + len(rows)

        def back(arrays: list[ndarray]) -> list[ndarray]:
            """[*gradients of the carry, *sums outside, *arrays of the step, *g of its other
            results] -> [*gradients of the carry, *sums outside, *gradients of the rows]"""
            cotangents = dict(zip(carried, arrays[: len(carried)], strict=True))
            cotangents |= dict(zip(others, arrays[end:], strict=True))
            gradients = pulled(function, arrays[begin:end], cotangents, outside)
            of_step = gradients[: len(gradients) - len(outside)]
            more = gradients[len(of_step) :]
            sums = [a + b for a, b in zip(arrays[len(carried) : begin], more, strict=True)]
            return [*of_step[: len(carried)], *sums, *of_step[len(carried) :]]

        first = [zeros(y[k]._layout) if g[k] is None else g[k] for k in carried]
        first += [zeros(layout_of(node)) for node in outside]
        taken = [*before, *rows, *[g[k] for k in others]]
        results = in_calls["loop"](self.name, back, first, taken, self.steps, not self.reverse)
        return _in_places(results, call.differentiated, len(carried), len(outside))


def _in_places(results: list, arrays: list[ndarray], first: int, outside: int) -> list[Any]:
    """[*first gradients, *those outside, *others] as [*one per array or None, *those outside]."""
    own = iter([*results[:first], *results[first + outside :]])
    return [
        *[next(own) if is_smooth(x) else None for x in arrays],
        *results[first : first + outside],
    ]


# -------------------- conditions


def branch(
    name: str, condition: ndarray, true: Function, false: Function, arrays: list[ndarray]
) -> list[ndarray]:
    """What one of two functions gives, by a truth value.

    Parameters
    ----------
    name : str
        Of the public function.
    condition : ndarray
        Of shape (), bool.
    true, false : callable
        `function(arrays)` -> arrays.
    arrays : list of ndarray
        What the functions take.

    Returns
    -------
    list of ndarray
        The results.
    """
    arrays, recorded = [in_standard_layout(x) for x in arrays], is_recorded()
    layouts = [x._layout for x in arrays]
    yes, around = traced_body(name, true, layouts, arrays, recorded)
    no, elsewhere = traced_body(name, false, layouts, arrays, recorded)
    op = Branch(name, yes, no, len(arrays))
    captured = [*around.captured, *elsewhere.captured]
    results = op.called([condition, *arrays, *captured])
    if recorded:
        nodes = dict.fromkeys((*around.nodes, *elsewhere.nodes))
        op.record(
            _Call((true, false), arrays, list(nodes), [condition, *captured]), results, keep=False
        )
    return list(results)


class Branch(Rolled):
    """The op of a condition.

    On the CPU one of the bodies runs. On a GPU both do, and the results are chosen: so the host
    need not know the truth value, and the op can be in a CUDA graph.

    Parameters
    ----------
    name : str
        Of the public function.
    true, false : Body
        What runs where the condition is true, or false.
    count : int
        Number of arrays that both take.
    """

    def __init__(self, name: str, true: Body, false: Body, count: int):
        super().__init__(name, {"if true": true, "if false": false})
        self.count = count
        for program in self.programs.values():
            for node in program.nodes:
                if node.draw is not None:
                    raise TraceError(
                        f"jit: {name}: the function draws random numbers at {node.line}: "
                        "those that follow would depend on the condition. Draw them outside, and "
                        "pass them"
                    )
        if true.results != false.results:
            raise TypeError(
                f"{name}: both functions must return the same shapes and dtypes, got "
                f"{_listed(true.results)} and {_listed(false.results)}"
            )

    def results(self, *inputs: ndarray) -> tuple[ndarray, ...]:
        """Inputs: the condition, the arrays, what the first body captures, what the second does."""
        true, false = self.bodies
        condition, *yes = inputs[: 1 + len(true.program.arguments)]
        no = [*inputs[1 : 1 + self.count], *inputs[1 + len(true.program.arguments) :]]
        if condition._layout.device == CPU:
            return tuple(true.owned(*yes) if condition._data[()] else false.owned(*no))
        pairs = zip(true.run(*yes), false.run(*no), strict=True)
        return tuple([where(condition, a, b) for a, b in pairs])

    def vjp(self, g: Sequence, _y: Sequence, call: _Call) -> list[Any]:
        """Gradients at the arrays and at the nodes outside: a condition again, so that what the
        other function gives (infinities, for instance) does not matter."""
        arrays, count = call.differentiated, len(call.differentiated)
        given = [k for k, each in enumerate(g) if each is not None]

        def back(function: Function) -> Function:
            def gradients(values: list[ndarray]) -> list[ndarray]:
                cotangents = dict(zip(given, values[count:], strict=True))
                return pulled(function, values[:count], cotangents, call.nodes)

            return gradients

        (condition, *_) = call.read
        true, false = map(back, call.functions)
        taken = [*arrays, *[g[k] for k in given]]
        results = in_calls["branch"](self.name, condition, true, false, taken)
        outside = len(call.nodes)
        return _in_places(results, arrays, len(results) - outside, outside)


def _listed(layouts: list[Layout]) -> str:
    return ", ".join([f"{x.dtype} {x.shape}" for x in layouts])


# -------------------- loops by a condition


def repeat_while(
    name: str, condition: Function, function: Function, carry: list[ndarray]
) -> list[ndarray]:
    """The carry after as many steps as a condition wants.

    Parameters
    ----------
    name : str
        Of the public function.
    condition : callable
        `condition(carry)` -> [bool of shape ()].
    function : callable
        `function(carry)` -> carry.
    carry : list of ndarray
        Where the loop begins.

    Returns
    -------
    list of ndarray
        The last carry.
    """
    carry, recorded = [in_standard_layout(x) for x in carry], is_recorded()
    layouts = [x._layout for x in carry]
    test, beside = traced_body(name, condition, layouts, carry, recorded)
    body, around = traced_body(name, function, layouts, carry, recorded)
    if around.nodes or recorded and any([x._node is not None for x in carry]):
        raise TraceError(
            f"jit: {name} has a gradient only if the number of steps is bounded, because each step "
            "is kept for it: give max_steps"
        )
    op = While(name, test, body, len(carry))
    return list(op.called([*carry, *beside.captured, *around.captured]))


class While(Rolled):
    """The op of a loop by a condition.

    Parameters
    ----------
    name : str
        Of the public function.
    test, body : Body
        The condition and one step.
    count : int
        Number of arrays in the carry.
    """

    def __init__(self, name: str, test: Body, body: Body, count: int):
        super().__init__(name, {"while": test, "do": body})
        self.test, self.body, self.count = test, body, count
        self.reads = self.reads or test.results[0].device != CPU

    def results(self, *inputs: ndarray) -> tuple[ndarray, ...]:
        """Inputs: the first carry, what the condition captures, what the body captures."""
        at = len(self.test.program.arguments)
        carry, of_test, of_body = inputs[: self.count], inputs[self.count : at], inputs[at:]
        steps = 0
        if runtime.local.stream.__class__ is DryStream:  # each result has memory of its own
            self.test.run(*carry, *of_test)
            return tuple(self.body.owned(*carry, *of_body))
        while self.test.run(*carry, *of_test)[0].to_numpy()[()]:
            carry, steps = tuple(self.body.owned(*carry, *of_body)), steps + 1
        return carry if steps else tuple([x.copy() for x in carry])
