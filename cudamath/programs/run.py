"""The execution of a program: a straight-line function, generated once.

The function runs the bound plans of the nodes one after the other, and drops each array after its
last use, so that memory is reused. On a GPU it is what a CUDA graph is captured from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.asarray import upload
from ..core.devices import CPU
from ..core.dispatch.fast_path import draw_in_graph
from .program import ARGUMENT, Block, Node, Program, View

COPIED = 6 << 20  # bytes that a GPU copies while the host launches an operation: 4 us at 3 TB/s


def straight_line(program: Program) -> Callable[..., tuple]:
    """`run(*arguments)` -> the arrays that span the blocks of `program.made()`."""
    return _Writer(program).function()


def on_one_device(program: Program) -> bool:
    """Whether all that a program reads and makes is on its device, as a CUDA graph demands."""
    blocks = [*program.arguments, *program.constants()]
    blocks += [block for node in program.nodes for block in node.results]
    bodies = [body for node in program.nodes for body in getattr(node.op, "programs", {}).values()]
    return all([block.layout.device == program.device for block in blocks]) and all(
        [on_one_device(body) for body in bodies]
    )


def most_copied(program: Program) -> int:
    """How many bytes of arguments a replay of the program's CUDA graph may copy in; negative where
    it should have none.

    A graph works in memory of its own. So a replay copies arguments that move in, and results out,
    which takes as long and as much memory as there are bytes. Without a graph the host launches
    one kernel after the other, which takes its time.
    """
    made = sum([block.layout.nbytes for block in program.made()])
    return COPIED * _launches(program) - made


def _launches(program: Program) -> int:
    """How many operations run, at least: steps of a loop count, and both branches of a
    condition."""
    total = 0
    for node in program.nodes:
        bodies = getattr(node.op, "programs", {}).values()
        total += node.op.times * sum(map(_launches, bodies)) if bodies else 1
    return total


def lying(view: View, position: int | None, made: Sequence, arguments: Sequence) -> ndarray:
    """The array that a result of a program is, after a run.

    Parameters
    ----------
    view : View
        The result.
    position : int or None
        The number of its block among those that the program makes; None for any other block.
    made, arguments : sequence of ndarray
        What `run` returned, and what it was called with.

    Returns
    -------
    ndarray
        The array. It is never an argument itself.
    """
    block = view.block
    if block.kind == ARGUMENT:
        return arguments[block.index]._view(*view[1:])
    # a constant that the program does not make is one that the function found outside
    base: Any = block.array if position is None else made[position]
    return base if view.whole else base._view(*view[1:])


class _Writer:
    """Writer of a program's function. Lines are statements; the constants are the arguments of the
    function that makes it."""

    def __init__(self, program: Program):
        self.program = program
        self.constants: dict[str, Any] = {}
        self.lines: list[tuple[str, set[str], set[str]]] = []  # statement, names read, names set
        self.names: dict[Block, str] = {}
        self.views: dict[View, str] = {}
        self.places: dict[int, str] = {}
        self.written = program.written()
        returned = {view.block for view in program.returned()}
        for block in program.constants():
            self.constant_block(block, block in returned or block.group in self.written)

    def function(self) -> Callable[..., tuple]:
        parameters = []
        for block in self.program.arguments:
            self.names[block] = name = f"x{block.index}"
            parameters.append(name)
        for k, node in enumerate(self.program.nodes):
            self.node(k, node)
        names = [self.names[block] for block in self.program.made()]
        self.emit(f"return ({''.join([f'{n}, ' for n in names])})", names)
        body = "\n        ".join(self.with_deletions())
        source = (
            f"def make({', '.join(self.constants)}):\n"
            f"    def program({', '.join(parameters)}):\n        {body}\n    return program\n"
        )
        return _maker(source)(**self.constants)

    def emit(self, statement: str, reads: list[str], sets: tuple[str, ...] = ()) -> None:
        self.lines.append((statement, set(reads), set(sets)))

    def with_deletions(self) -> list[str]:
        """The statements, with `del` after the last use of each name that the function sets."""
        last: dict[str, int] = {}
        local: set[str] = set()
        for i, (_, reads, sets) in enumerate(self.lines):
            local |= sets
            for name in (*reads, *sets):
                last[name] = i
        out = []
        for i, (statement, reads, sets) in enumerate(self.lines):
            out.append(statement)
            dead = sorted([n for n in reads | sets if n in local and last[n] == i])
            if dead and i < len(self.lines) - 1:
                out.append(f"del {', '.join(dead)}")
        return out

    def constant(self, kind: str, value: Any) -> str:
        name = f"{kind}{len(self.constants)}"
        self.constants[name] = value
        return name

    def constant_block(self, block: Block, changes: bool) -> None:
        """The name of a constant. One that the function makes is made anew at each call if it
        changes, or is returned."""
        if not block.fresh:
            self.names[block] = self.constant("constant", block.array)
            return
        host: Any = block.array
        make = functools.partial(_made, host, block.layout.device)
        if changes:
            name = f"made{len(self.names)}"
            self.names[block] = name
            self.emit(f"{name} = {self.constant('make', make)}()", [], (name,))
        else:
            self.names[block] = self.constant("constant", make())

    def view(self, view: View) -> str:
        """The name of an operand; lines that make it come first."""
        base = self.names[view.block]
        if view.whole:
            return base
        name = self.views.get(view)
        if name is None:
            name = self.views[view] = f"v{len(self.views)}"
            layout = self.constant("layout", view.layout)
            self.emit(f"{name} = {base}._view({layout}, {view.offset})", [base], (name,))
        return name

    def node(self, k: int, node: Node) -> None:
        """The statement of a node."""
        inputs = [
            self.view(x)
            if isinstance(x, View)
            else "None"
            if x is None
            else self.constant("number", x)
            for x in node.operands
        ]
        run: Any = node.run
        plain = getattr(run, "without_none", None)
        if plain is not None:
            run, inputs = plain, [x for x in inputs if x != "None"]
        name = self.constant("run", run)
        scalars = [self.constant("scalar", s) for s in node.scalars]
        if node.draw is None:
            call = f"{name}({', '.join([*inputs, *scalars])})"
        else:
            call = self.draw(node, name, inputs, scalars)
        results = []
        for block in node.results:
            self.names[block] = f"y{k}_{block.index}"
            results.append(self.names[block])
        if not results:
            self.emit(call, inputs)
        elif not node.several:
            self.emit(f"{results[0]} = {call}", inputs, (results[0],))
        else:
            self.emit(f"out = {call}", inputs, ("out",))
            for block, result in zip(node.results, results, strict=True):
                self.emit(f"{result} = out[{block.index}]", ["out"], (result,))

    def draw(self, node: Node, run: str, inputs: list[str], scalars: list[str]) -> str:
        """A call that draws random numbers from the next part of the sequence. During the capture
        of a CUDA graph the position lies in an array."""
        source, taken, number = node.draw  # type: ignore[misc]
        place = self.places.get(number)
        if place is None:
            place = self.places[number] = f"place{number}"
            arguments = ", ".join([self.constant("taken", value) for value in taken])
            self.emit(f"{place} = {self.constant('source', source)}.take({arguments})", [])
        self.constants.setdefault("ndarray", ndarray)
        self.constants.setdefault("draw_in_graph", draw_in_graph)
        op, params = self.constant("op", node.op), self.constant("params", node.params)
        rest, operands = ", ".join(scalars[3:]), ", ".join(inputs)
        return (
            f"{run}({', '.join([*inputs, f'*{place}', *scalars[3:]])}) "
            f"if not isinstance({place}[0], ndarray) else "
            f"draw_in_graph({op}, {place}, ({rest}{',' if rest else ''}), "
            f"({operands}{',' if operands else ''}), {params})"
        )


def _made(host: np.ndarray, device: int) -> ndarray:
    """A constant of the function, in memory of its own."""
    return upload(host.copy() if device == CPU else host, device)


@functools.lru_cache(1024)
def _maker(source: str) -> Callable:
    namespace: dict[str, Any] = {}
    exec(compile(source, "<cudamath program>", "exec"), namespace)
    return namespace["make"]
