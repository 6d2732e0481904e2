"""The body of a loop, or the branch of a condition, inside a function that is being traced: it is
traced once, on arrays of its own, and becomes a program that the surrounding one runs as one node.

A body reads arrays that it finds outside, in its closure for instance. These become further
arguments of its program, so that the surrounding program knows where they come from. Where a
gradient is being recorded, the nodes outside on which the results depend are noted: they are among
the parents of the loop's node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..autodiff.recompute import outside_nodes
from ..core import recording
from ..core.array import allocate, ndarray
from ..core.autograd import tape
from ..core.devices import default_index
from ..core.dispatch.call_record import CallRecord, unrecorded
from ..core.dispatch.op import registry
from ..core.dtypes import INEXACT
from ..core.layout import Layout
from ..core.scalar import inside
from .draws import Rehearsal
from .fusion import fused, joined_in_place, written_in_place
from .program import ARGUMENT, RESULT, Block, Program, View
from .run import lying, straight_line
from .simplify import edited, simplify
from .trace import Trace, TraceError, trace

copy_into: Any = registry["copy_into"]


class BodyTrace(Trace):
    """The record of a body. Its steps are no steps of the surrounding record."""

    def hand_over(self, outer: CallRecord) -> None:
        """Let the surrounding record know of arrays that were made of values of the host, which the
        body reads by reference."""
        if isinstance(outer, Trace):
            outer.host_arrays += self.host_arrays


class Body:
    """The program of a function of arrays. It keeps no array of the call in which it was traced.

    Parameters
    ----------
    program : Program
        What runs. Its arguments are the function's, and then what the function found outside.
    results : list of Layout
        Of the arrays that it returns, which are in C order.

    Attributes
    ----------
    run : callable
        `run(*arrays, *captured)` -> the results, in a list. They may be arguments, or share memory.
    owned : callable
        The same, with a copy in place of each result that is not in memory of its own.
    """

    def __init__(self, program: Program, results: list[Layout]):
        self.program, self.results = program, results
        run, views = straight_line(program), list(program.returned())
        positions = {block: i for i, block in enumerate(program.made())}

        def body(*arrays: ndarray) -> list[ndarray]:
            made = run(*arrays)
            return [lying(view, positions.get(view.block), made, arrays) for view in views]

        self.run = body
        blocks = [view.block for view in views]
        shared = [
            k
            for k, view in enumerate(views)
            if not view.whole or view.block.kind != RESULT or blocks.index(view.block) < k
        ]

        def owned(*arrays: ndarray) -> list[ndarray]:
            out = body(*arrays)
            for k in shared:
                out[k] = out[k].copy()
            return out

        self.owned = owned if shared else body


class Surroundings(NamedTuple):
    """What a body found outside: arrays, which are further arguments of its program; and the nodes
    on which its results depend. results: how many the function returned."""

    captured: list[ndarray]
    nodes: tuple
    results: int


def traced_body(
    name: str,
    function: Callable[[list[ndarray]], list[ndarray]],
    layouts: Sequence[Layout],
    examples: Sequence[ndarray],
    recorded: bool,
    change: Callable[[Program], Program] | None = None,
) -> tuple[Body, Surroundings]:
    """The body of a function.

    Parameters
    ----------
    name : str
        What it is part of, for errors.
    function : callable
        Takes a list of arrays, and returns one.
    layouts : sequence of Layout
        Of the arrays that it takes.
    examples : sequence of ndarray
        Arrays of these shapes, on which it is traced.
    recorded : bool
        Whether a gradient is being recorded.
    change : callable, optional
        Of the program, before it is fused.

    Returns
    -------
    tuple
        The body, and what it found outside.
    """
    twins = [_twin(layout, x) for layout, x in zip(layouts, examples, strict=True)]
    start, level = tape.now(), {"open": True}
    record = BodyTrace(name)
    with Rehearsal(), record:
        arguments = [tape.leaf(x, level) if recorded and x.dtype in INEXACT else x for x in twins]
        results = [in_standard_layout(y) for y in function(arguments)]
    if record.refused:  # the function caught it
        raise TraceError(record.refused)
    level["open"] = False
    nodes = [y._node for y in results if y._node is not None]
    (device,) = {x.device for x in [*[y._layout for y in results], *layouts][:1]} or {
        default_index()
    }
    program = trace(record, twins, results, device)
    _check(name, program, recorded)
    program, captured = _closed(program)
    program = simplify(program)
    if change is not None:
        program = change(program)
    if device >= 0:
        program = joined_in_place(written_in_place(fused(program)))
    body = Body(program, [view.layout for view in program.returned()])
    outside = outside_nodes(nodes, start) if nodes else ()
    return body, Surroundings(captured, outside, len(results))


def standard(layout: Layout) -> Layout:
    """The layout of a new array of this shape, dtype and device."""
    return Layout.new(layout.shape, layout.dtype, layout.device)


def in_standard_layout(x: ndarray) -> ndarray:
    """The same elements in C order, and aligned: a copy where they are not yet."""
    return x if x._layout is standard(x._layout) else x.copy()


def _twin(layout: Layout, x: ndarray) -> ndarray:
    """An array of this layout with the elements of x, in memory that nobody else knows."""
    out = allocate(standard(layout))
    with recording.paused(), inside(), unrecorded():
        copy_into(out, x._alias())
    return out._view(layout, 0)


def _check(name: str, program: Program, recorded: bool) -> None:
    """Raise TraceError for what a body must not do."""
    for node in program.nodes:
        if any([view.block.outside for view in node.targets]):
            raise TraceError(
                f"jit: {name}: the function writes into an array that it did not make, at "
                f"{node.line}. Return the new values instead"
            )
        if node.draw is not None and recorded:
            raise TraceError(
                f"jit: {name}: the function draws random numbers at {node.line}, and its gradient "
                "could not draw them again. Draw them outside, and pass them"
            )


def _closed(program: Program) -> tuple[Program, list[ndarray]]:
    """The program with further arguments in place of the arrays that it found outside; and
    these."""
    found = [block for block in program.constants() if block.array is not None and not block.fresh]
    count = len(program.arguments)
    blocks = [Block(ARGUMENT, block.layout, count + i) for i, block in enumerate(found)]
    program = Program([*program.arguments, *blocks], program.nodes, program.results, program.device)
    replaced = {
        block: View(argument, block.layout, 0)
        for block, argument in zip(found, blocks, strict=True)
    }
    return edited(program, program.nodes, replaced), [block.array for block in found]  # type: ignore[misc]
