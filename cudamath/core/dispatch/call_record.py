"""The record of a call: the ops it made of its arguments, in order.

While a record is open in a thread, every op of that thread reports what it did: the op, its inputs,
scalars and parameters, the function that ran its plan, and its output. `fast_path` replays such a
record at the next call of the same kind; `explain` prints one; a tracer of whole programs reads the
same steps.

Reporting costs nothing while no record is open: `open_records` is empty, and that is all that a hot
path looks at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

#: The open records of all threads. Hot paths test whether it is empty, and no more.
open_records: list[CallRecord] = []


class Step:
    """One op of a call.

    op : the card (`Op`, `Elementwise`, `ViewOp`, ...), by whose rule the gradient is recorded
    inputs : its operands: arrays, None for one that is missing, and an elementwise op's numbers
    scalars : run-time scalars, behind the inputs
    params : parameters of the plan
    run : `run(*inputs, *scalars)`, which does the op again; None for a view
    output : array, or tuple of arrays
    draw : for a random draw, (source, what its `take` was given): the first three of `scalars` are
        then the place in the sequence, which moves on with each call
    """

    __slots__ = ("op", "inputs", "scalars", "params", "run", "output", "draw")

    def __init__(
        self,
        op: Any,
        inputs: tuple,
        scalars: tuple,
        params: dict,
        run: Callable | None,
        output: Any,
        draw: tuple | None = None,
    ):
        self.op, self.inputs, self.scalars, self.params = op, inputs, scalars, params
        self.run, self.output, self.draw = run, output, draw

    @property
    def outputs(self) -> tuple:
        """The outputs, as a tuple always."""
        return self.output if type(self.output) is tuple else (self.output,)

    def __repr__(self) -> str:
        return f"<Step {self.op.name}>"


class _Local(threading.local):
    record: CallRecord | None = None


_local = _Local()


class CallRecord:
    """The steps of one call, while it is under way in this thread; used as a context.

    A record within another gives its steps to the outer one when it is closed.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.obstacle = ""  # why the steps do not say all that the call did
        self.taken: tuple | None = None  # a stretch of a random sequence that no step has used yet
        self.outer: CallRecord | None = None

    def __enter__(self) -> CallRecord:
        self.outer = _local.record
        _local.record = self
        open_records.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        open_records.remove(self)
        _local.record = outer = self.outer
        if self.taken is not None:
            self.obstacle = self.obstacle or "took a part of a random sequence without a step"
        if outer is not None:
            outer.steps += self.steps
            outer.obstacle = outer.obstacle or self.obstacle


class unrecorded:
    """A context in which this thread's ops report nothing: those inside of an op that reports
    itself as a whole."""

    def __enter__(self) -> None:
        self.record, _local.record = _local.record, None

    def __exit__(self, *_: object) -> None:
        _local.record = self.record


def current() -> CallRecord | None:
    """The open record of this thread."""
    return _local.record


def report(
    op: Any, inputs: tuple, scalars: tuple, params: dict, run: Callable | None, output: Any
) -> None:
    """Report a step to this thread's record. Called by ops, where `open_records` is not empty."""
    if (record := _local.record) is not None:
        record.steps.append(Step(op, inputs, scalars, params, run, output))


def report_taken(source: Any, name: str, blocks: int, device: int | None) -> None:
    """Report that so many Philox blocks of a source were taken: for the next step."""
    if (record := _local.record) is not None:
        if record.taken is not None:
            record.obstacle = "took several parts of a random sequence for one step"
        record.taken = source, name, blocks, device


def report_draw() -> None:
    """Report that the newest step drew what was taken."""
    if (record := _local.record) is not None and record.steps:
        record.steps[-1].draw, record.taken = record.taken, None


def obstruct(reason: str) -> None:
    """Say that the call under way did what its steps do not tell: read values on the host, for one,
    or wrote into an array that it was given. Such a call is not replayed."""
    if (record := _local.record) is not None:
        record.obstacle = record.obstacle or reason
